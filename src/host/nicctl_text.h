/*
 * `nicctl show qos` and `nicctl show dcqcn`: what AMD Pensando cards do with priorities. Their
 * driver has no DCB, so that the kernel cannot be asked. Pure.
 */
#ifndef RG_HOST_NICCTL_TEXT_H
#define RG_HOST_NICCTL_TEXT_H

#include "base/span.h"
#include "rdma/dcb.h"

#include <stdbool.h>
#include <stddef.h>

#define RG_NICCTL_PORTS_MAX 32

struct rg_nicctl_port {
    char address[16]; /* of the card on the PCI bus; "" when not told */
    bool has_pfc;     /* its PFC bitmap was told: else nothing is known */
    struct rg_dcb dcb;
};

struct rg_nicctl {
    struct rg_nicctl_port ports[RG_NICCTL_PORTS_MAX];
    size_t count;
    bool cut;
};

/* False when no port in the text tells its PFC. Numbers out of range are left out. */
bool rg_nicctl_parse(struct span text, struct rg_nicctl *ret_nicctl);

/*
 * `nicctl show dcqcn`: whether congestion control of the RDMA device is on, in any of its profiles.
 * False when the device is not told of.
 */
bool rg_nicctl_dcqcn(struct span text, const char *rdma, bool *ret_on);

/*
 * The settings of an interface: those of the card at `address`, else those of all cards where they
 * are the same for all; a card's address need not be its interfaces'. NULL when it is not clear.
 */
const struct rg_dcb *rg_nicctl_find(const struct rg_nicctl *nicctl, const char *address);

#endif
