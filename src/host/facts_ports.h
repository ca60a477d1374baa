/*
 * Ports of RDMA devices with their GIDs, the addresses of the interfaces, and what else decides
 * whether two hosts can reach each other.
 */
#ifndef RG_HOST_FACTS_PORTS_H
#define RG_HOST_FACTS_PORTS_H

#include "host/facts_devices.h"
#include "host/firewall_text.h"
#include "rdma/gid.h"

struct rg_host_facts;

#define RG_HOST_PORTS_MAX        128
#define RG_HOST_GIDS_MAX         64 /* in use, of one port */
#define RG_HOST_ADDRESSES_MAX    512
#define RG_HOST_CHOICES_MAX      16
#define RG_HOST_PORT_SUBJECT_MAX 80

struct rg_host_port {
    char subject[RG_HOST_PORT_SUBJECT_MAX]; /* "mlx5_0/1" */
    size_t device;                          /* index in devices.rdma */
    unsigned number;
    struct rg_text state, phys_state, rate, link_layer;
    struct rg_number lid, sm_lid;
    struct rg_reading gids_at;
    struct rg_gid_entry gids[RG_HOST_GIDS_MAX];
    size_t gid_count;
    bool gids_truncated;
    char netdev[IFNAMSIZ];   /* below the GIDs, or of the same PCI function; "" when not known */
    struct rg_text cma_mode; /* configfs; MISSING unless somebody made the directory */
    struct rg_number cma_tos;
};

struct rg_address {
    char netdev[IFNAMSIZ];
    char text[RG_GID_TEXT_MAX + 1];
    bool is_ipv4;
    unsigned prefix;
};

/* A GID index that somebody has written into a file. */
struct rg_gid_setting {
    char name[RG_HOST_WORD_MAX + 1]; /* NCCL_IB_GID_INDEX and the like */
    int64_t index;
    struct rg_reading at;
};

struct rg_arp_settings {
    struct rg_number rp_filter, arp_ignore, arp_announce;
};

/* How the neighbour table has fared since the boot. */
struct rg_neighbours {
    uint64_t entries;   /* in it now */
    uint64_t overflows; /* entries that it had no room for */
};

struct rg_host_ports {
    struct rg_host_port list[RG_HOST_PORTS_MAX];
    size_t count;
    bool truncated;
    struct rg_reading addresses_at;
    struct rg_address addresses[RG_HOST_ADDRESSES_MAX];
    size_t address_count;
    struct rg_arp_settings arp_all;
    struct rg_arp_settings arp[RG_HOST_NETDEVS_MAX]; /* of devices.netdevs[i], if it has RDMA */
    struct rg_number gc_thresh3;
    struct rg_reading neighbours_at;
    struct rg_neighbours neighbours; /* when that is OK */
    struct rg_gid_setting settings[RG_HOST_CHOICES_MAX];
    size_t setting_count;
    struct rg_reading firewall_at; /* nft list ruleset, or iptables-save where there is no nft */
    struct rg_firewall firewall;
};

/* Of /proc/net/stat/arp_cache: a line of names, then one of hexadecimal numbers for each CPU. False
 * when it is not so. */
bool rg_neighbours_parse(struct span text, struct rg_neighbours *ret_neighbours);

void rg_host_read_ports(struct rg_source *source, struct rg_host_facts *facts);

bool rg_host_parse_addresses(struct span json, struct rg_host_ports *ports);
/* "fe80:0000:…": 8 groups of 4 hex digits, as sysfs has GIDs. */
bool rg_host_parse_gid(const char *text, uint8_t ret_gid[16]);
/* Assignments of GID indexes in a file of NAME=VALUE lines. */
void rg_host_parse_gid_settings(struct span content, const struct rg_reading *at,
                                struct rg_host_ports *ports);

/* The GID to use, by the rule of rdma/gid.h; NULL: none. */
const struct rg_gid_entry *rg_host_port_gid(const struct rg_host_port *port);
bool rg_host_port_is_ethernet(const struct rg_host_port *port);
bool rg_host_port_is_active(const struct rg_host_port *port);
const struct rg_survey_port *rg_host_port_survey(const struct rg_host_devices *devices,
                                                 const struct rg_host_port *port);

#endif
