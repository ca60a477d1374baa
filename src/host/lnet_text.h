/*
 * LNet: network identifiers, the YAML of lnetctl and /etc/lnet.conf, module options, the kernel's
 * own tables. Pure: text in, structure out.
 */
#ifndef RG_HOST_LNET_TEXT_H
#define RG_HOST_LNET_TEXT_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_NID_MAX       79
#define RG_LNET_NET_MAX  23
#define RG_LNET_NIS_MAX  64
#define RG_LNET_LIST_MAX 64
#define RG_LNET_NAME_MAX 31

/* ---- Network identifiers, "172.16.44.41@o2ib" ---- */

struct rg_nid {
    char address[RG_NID_MAX + 1];
    char net[RG_LNET_NET_MAX + 1]; /* without a trailing 0: "o2ib0" is "o2ib" */
};

/* A bare address belongs to tcp, as LNet has it. False for anything that is no identifier. */
bool rg_nid_parse(struct span text, struct rg_nid *ret_nid);
bool rg_nid_is_same(const struct rg_nid *a, const struct rg_nid *b);

/* "address@net"; `room` of RG_NID_MAX + RG_LNET_NET_MAX + 2 always holds it. */
#define RG_NID_TEXT_MAX (RG_NID_MAX + RG_LNET_NET_MAX + 1)
void rg_nid_text(const struct rg_nid *nid, char ret_text[RG_NID_TEXT_MAX + 1]);

struct rg_nid_list {
    struct rg_nid nids[RG_LNET_LIST_MAX];
    size_t count;
    bool cut; /* more than the ceiling, or something among them that is none */
};

/* Adds the identifiers of a text in which they stand between blanks, commas, colons or newlines.
 * An IPv6 address has colons too: there only commas, blanks and newlines separate. */
void rg_nid_list_add(struct rg_nid_list *list, struct span text);
bool rg_nid_list_has(const struct rg_nid_list *list, const struct rg_nid *nid);

/* ---- `lnetctl net show -v 4`, `lnetctl export`, /etc/lnet.conf ---- */

struct rg_lnet_ni {
    char net[RG_LNET_NET_MAX + 1]; /* as rg_nid.net */
    bool has_nid;
    struct rg_nid nid;
    char status[16];                      /* "up", "down", "" when not said */
    char interface[RG_LNET_NAME_MAX + 1]; /* the first, "" when not said */
    size_t interface_count;
    bool has_health;
    int64_t health;      /* 1000 is best */
    int64_t fatal_error; /* 0 when not said */
    bool has_traffic;
    uint64_t sent, received, dropped;                                       /* messages */
    int64_t peer_credits, peer_credits_high, map_on_demand, conns_per_peer; /* -1: not said */
};

struct rg_lnet_route {
    char net[RG_LNET_NET_MAX + 1];
    char gateway[RG_NID_MAX + 1];
    char state[16]; /* "up", "down", "" */
};

struct rg_lnet_conf {
    struct rg_lnet_ni nis[RG_LNET_NIS_MAX];
    size_t ni_count;
    struct rg_lnet_route routes[RG_LNET_LIST_MAX];
    size_t route_count;
    size_t peer_count;
    size_t peers_down; /* peer interfaces whose state is "down" */
    struct rg_nid first_peer_down;
    bool has_error; /* the text is an answer of lnetctl that says it failed */
    bool cut;
};

/* Reads any of the three. An empty text is an empty configuration. */
void rg_lnet_yaml_parse(struct span text, struct rg_lnet_conf *ret_conf);

/* ---- The kernel's table of interfaces (debugfs lnet/nis): nid, status, ... ---- */

/* False when the text is no such table. */
bool rg_lnet_nis_parse(struct span text, struct rg_lnet_conf *ret_conf);

/* ---- Module options: "options lnet networks=o2ib(ib0),tcp(eth0)" ---- */

struct rg_lnet_module_net {
    char net[RG_LNET_NET_MAX + 1];
    char interface[RG_LNET_NAME_MAX + 1]; /* "" when not named */
};

struct rg_lnet_module {
    bool has_networks, has_ip2nets;
    struct rg_lnet_module_net nets[RG_LNET_LIST_MAX];
    size_t count;
    bool cut;
};

/* Adds what the text of one file under /etc/modprobe.d says about lnet. Start from all zero. */
void rg_lnet_module_parse(struct span text, struct rg_lnet_module *module);

/* ---- Scripts and units ---- */

/* Whether some line calls `lnetctl net add` with --interface, which lnetctl does not know; the line
 * (counted from 1) is stored. */
bool rg_lnet_script_parse(struct span text, size_t *ret_line);

#endif
