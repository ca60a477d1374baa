/*
 * What the kernel knows about a NIC and the verbs library does not tell, or not in every version:
 * facts from sysfs, the address list and netlink, behind a table so that tests can tell others.
 */
#ifndef RG_RDMA_NIC_H
#define RG_RDMA_NIC_H

#include "base/error.h"
#include "rdma/dcb.h"

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

enum rg_gid_type { RG_GID_UNKNOWN, RG_GID_INFINIBAND, RG_GID_ROCE_V1, RG_GID_ROCE_V2 };

struct rg_nic_facts {
    /* The type of a GID table entry. A device on Ethernet calls RoCE v1 what is INFINIBAND
     * elsewhere: that is told as ROCE_V1. */
    enum rg_gid_type (*gid_type)(const char *device, uint8_t port, int index, bool is_ethernet);

    /* The network interface behind a GID table entry; false when there is none (InfiniBand). */
    bool (*gid_netdev)(const char *device, uint8_t port, int index, char ret_netdev[IFNAMSIZ]);

    /* Whether the interface that has this numeric address sits on this port: for InfiniBand,
     * whose GIDs do not contain the IP address. */
    bool (*port_has_address)(const char *device, uint8_t port, const char *address);

    /* Bits of the subnet of the interface that has this numeric address; 0: no interface has. */
    unsigned (*subnet_bits)(const char *address);

    /* DCB of the interface, or of what a VLAN, bond or bridge on top of it stands on. */
    int (*dcb)(const char *netdev, struct rg_dcb *ret_dcb, struct rg_error *err);
};

/* What sysfs calls the type of a GID ("RoCE v2", "IB/RoCE v1"). */
enum rg_gid_type rg_nic_gid_type(const char *text, bool is_ethernet);

/* What the running kernel says. */
extern const struct rg_nic_facts rg_nic_kernel;

#endif
