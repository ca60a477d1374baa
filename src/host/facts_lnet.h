/*
 * LNet on this machine: what runs, what the configuration says, what the interfaces have.
 */
#ifndef RG_HOST_FACTS_LNET_H
#define RG_HOST_FACTS_LNET_H

#include "host/lnet_text.h"
#include "host/memory_text.h"
#include "host/source.h"

struct rg_host_facts;

#define RG_HOST_LNET_PINGS_MAX 8

struct rg_host_lnet_script {
    struct rg_reading at;
    size_t line;
};

struct rg_host_lnet_ping {
    struct rg_nid nid;
    bool answered;
    struct rg_reading at;
};

struct rg_host_lnet {
    bool has_module, has_o2ib;
    struct rg_reading net_at; /* lnetctl net show, or the kernel's table */
    bool has_details;         /* of lnetctl: interfaces, health, tunables */
    struct rg_lnet_conf net;
    struct rg_nid_list own;    /* this machine's, without lo */
    struct rg_nid_list alive;  /* peers that answered: connections and pings */
    struct rg_reading conf_at; /* /etc/lnet.conf */
    struct rg_lnet_conf conf;
    struct rg_reading modprobe_at; /* the directory */
    struct rg_reading option_at;   /* the file that has options for lnet */
    struct rg_lnet_module module;
    struct rg_text printk; /* words */
    struct rg_reading peers_at, routes_at;
    struct rg_lnet_conf peers, routes;
    bool unit_exists, unit_enabled;
    struct rg_reading unit_at; /* of lnet.service; OK: parsed into */
    struct rg_unit unit;
    struct rg_host_lnet_script script; /* the first that uses --interface; line 0: none */
    struct rg_number credits, credits_high, conns; /* of ko2iblnd's module; may be missing */
    struct rg_host_lnet_ping pings[RG_HOST_LNET_PINGS_MAX];
    size_t ping_count;
};

void rg_host_read_lnet(struct rg_source *source, struct rg_host_facts *facts);

#endif
