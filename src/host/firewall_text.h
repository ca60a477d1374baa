/*
 * What a host's packet filter lets in, as `nft list ruleset` and `iptables-save` write it: the
 * default of the input chain, and the ports that rules name. Pure. Rules that depend on addresses
 * or interfaces are not followed: where one could let a port in, the port counts as open.
 */
#ifndef RG_HOST_FIREWALL_TEXT_H
#define RG_HOST_FIREWALL_TEXT_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_FIREWALL_RANGES_MAX 256

struct rg_firewall_range {
    bool tcp, udp;
    bool drops;
    uint16_t first, last;
};

struct rg_firewall {
    bool drops;         /* an input chain ends in drop or reject */
    bool accepts_other; /* some rule accepts without naming a port: who knows what */
    struct rg_firewall_range ranges[RG_FIREWALL_RANGES_MAX];
    size_t count;
    bool cut;
};

void rg_firewall_parse(struct span ruleset, struct rg_firewall *ret_firewall);

/* Whether the port is certainly shut. */
bool rg_firewall_blocks(const struct rg_firewall *firewall, bool is_tcp, uint16_t port);

#endif
