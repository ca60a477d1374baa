/*
 * What keeps RoCE lossless on each physical interface: priority flow control and its rules (DCB),
 * global pause, congestion notification, and who is in charge of them.
 */
#ifndef RG_HOST_FACTS_LOSSLESS_H
#define RG_HOST_FACTS_LOSSLESS_H

#include "host/facts_devices.h"
#include "rdma/dcb.h"

struct rg_host_facts;

#define RG_HOST_LINKS_MAX 64

/* One physical Ethernet interface under an RDMA port. */
struct rg_lossless_link {
    char netdev[IFNAMSIZ];
    enum rg_nic_family family;
    char pci[RG_HOST_TEXT_MAX + 1];
    struct rg_reading dcb_at;
    struct rg_dcb dcb;
    struct rg_reading ethtool_at;
    bool has_pause, pause_rx, pause_tx;
    bool has_firmware_lldp, firmware_lldp;
    struct rg_number ecn_np, ecn_rp; /* OFED's files for the planned priority */
    struct rg_reading cc_at;         /* debugfs of the upstream driver: the directory */
    /* Of other drivers: whether congestion control is on, and packets are marked for it; each in
     * the place that its reading names. */
    struct rg_number cc_on, cc_marks;
    char rdma[RG_HOST_DEVICE_MAX + 1]; /* the RDMA device on it, "" when not known */
};

struct rg_host_lossless {
    struct rg_lossless_link links[RG_HOST_LINKS_MAX];
    size_t count;
    bool truncated;
    bool lldpad_runs, lldpd_runs;
    struct rg_reading nicctl_at; /* asked only where a card of Pensando is */
};

void rg_host_read_lossless(struct rg_source *source, struct rg_host_facts *facts);

bool rg_host_parse_dcb(struct span json, struct rg_dcb *ret_dcb);
bool rg_host_parse_ethtool(struct span json, struct rg_lossless_link *link);

#endif
