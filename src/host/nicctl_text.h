/*
 * `nicctl show qos`: what AMD Pensando cards do with priorities. Their driver has no DCB, so that
 * the kernel cannot be asked. Pure.
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
 * The settings of an interface: those of the card at `address`, else those of all cards where they
 * are the same for all; a card's address need not be its interfaces'. NULL when it is not clear.
 */
const struct rg_dcb *rg_nicctl_find(const struct rg_nicctl *nicctl, const char *address);

#endif
