/*
 * Network and GPU functions on the PCI bus, network interfaces, RDMA devices, kernel modules, and
 * what the verbs library makes of them. Other groups look devices up here.
 */
#ifndef RG_HOST_FACTS_DEVICES_H
#define RG_HOST_FACTS_DEVICES_H

#include "host/libraries.h"
#include "host/source.h"

#include <net/if.h>

struct rg_host_facts;

#define RG_HOST_PCI_MAX      512
#define RG_HOST_NETDEVS_MAX  512
#define RG_HOST_RDMA_MAX     64
#define RG_HOST_MODULES_MAX  512
#define RG_HOST_WORD_MAX     63
#define RG_HOST_DEVICE_MAX   63 /* names of RDMA devices (IB_DEVICE_NAME_MAX) */
#define RG_HOST_LOWERS_MAX   16
#define RG_HOST_SURVEY_PORTS 8
#define RG_HOST_NO_NODE      (-1)

enum rg_nic_family {
    RG_NIC_OTHER,
    RG_NIC_MLX5,  /* NVIDIA ConnectX-4 and later, BlueField */
    RG_NIC_ICE,   /* Intel E810 and its like; RDMA by irdma */
    RG_NIC_BNXT,  /* Broadcom NetXtreme-E */
    RG_NIC_IONIC, /* AMD Pensando */
    RG_NIC_EFA,   /* Amazon */
    RG_NIC_RXE,   /* soft-RoCE */
};

/* Of class 02 (network), 03 (display) and 12 (accelerator). */
struct rg_pci_function {
    char address[RG_HOST_WORD_MAX + 1]; /* 0000:3b:00.0 */
    struct rg_number vendor, device, class;
    struct rg_text driver; /* MISSING: none is bound */
    struct rg_number numa_node;
    enum rg_nic_family family;
    bool is_virtual; /* an SR-IOV virtual function */
};

struct rg_netdev {
    char name[IFNAMSIZ];
    struct rg_text pci;    /* address; MISSING for virtual interfaces */
    struct rg_text driver; /* of the PCI function */
    enum rg_nic_family family;
    struct rg_number index, type, mtu, speed, carrier, flags, dev_port, carrier_changes;
    struct rg_text operstate, mac;
    struct rg_text master; /* bond, bridge or the like; MISSING: none */
    bool is_bond;          /* with: */
    struct rg_text bond_mode, bond_hash, bond_partner;
    char lowers[RG_HOST_LOWERS_MAX][IFNAMSIZ]; /* what it stands on */
    size_t lower_count;
    struct rg_text ipoib_mode, ipoib_parent; /* of type 32 (InfiniBand) */
    struct rg_number ipoib_pkey;
};

/* As the verbs library tells it. */
struct rg_survey_port {
    unsigned number, state, link_layer, lid, sm_lid;
    unsigned max_mtu, active_mtu; /* bytes */
};

struct rg_rdma_device {
    char name[RG_HOST_DEVICE_MAX + 1];
    struct rg_text pci;       /* address */
    struct rg_text parent;    /* interface of soft-RoCE */
    struct rg_text node_type; /* "1: CA"; "4: RNIC" is iWARP */
    struct rg_text firmware, board, guid;
    enum rg_nic_family family;
    bool surveyed; /* the library lists it, with: */
    int open_errno;
    uint64_t qp_max, cq_max, mr_max, mr_bytes_max; /* 0: not told */
    struct rg_survey_port ports[RG_HOST_SURVEY_PORTS];
    size_t port_count;
};

struct rg_module {
    char name[RG_HOST_WORD_MAX + 1];
    char users[RG_HOST_TEXT_MAX + 1]; /* "a,b," as /proc/modules has it; cut at the end */
};

/* A module of the RDMA or Lustre stack that is loaded, and its file. */
struct rg_module_file {
    char name[RG_HOST_WORD_MAX + 1];
    struct rg_text loaded;     /* /sys/module/NAME/srcversion */
    struct rg_reading info_at; /* of modinfo */
    struct rg_modinfo info;
};

#define RG_HOST_MODULE_FILES 40

/* A device node that was opened by this user. */
struct rg_node {
    char name[RG_HOST_WORD_MAX + 1]; /* below /dev/infiniband */
    int os_errno;                    /* 0: it opens */
    struct rg_text device;           /* behind a uverbs node, in whichever network namespace */
};

#define RG_HOST_NODES_MAX 256

struct rg_host_devices {
    struct rg_reading pci_at, netdevs_at, rdma_at, modules_at;
    struct rg_pci_function pci[RG_HOST_PCI_MAX];
    size_t pci_count;
    struct rg_netdev netdevs[RG_HOST_NETDEVS_MAX];
    size_t netdev_count;
    struct rg_rdma_device rdma[RG_HOST_RDMA_MAX];
    size_t rdma_count;
    struct rg_module modules[RG_HOST_MODULES_MAX];
    size_t module_count;
    struct rg_module_file files[RG_HOST_MODULE_FILES];
    size_t file_count;
    bool truncated; /* there was more of something than fits */

    struct rg_reading survey_at;
    char libibverbs[RG_HOST_TEXT_MAX + 1]; /* the loader's words; "": loaded */
    char librdmacm[RG_HOST_TEXT_MAX + 1];

    struct rg_host_program program; /* plan.binary */

    struct rg_reading nodes_at;
    struct rg_node nodes[RG_HOST_NODES_MAX];
    size_t node_count;

    struct rg_text ib_core_netns_mode;               /* Y: shared */
    struct rg_reading modules_dep, next_modules_dep; /* of the running and of the next kernel */
    char ib_core_path[RG_HOST_TEXT_MAX + 1];         /* in the running kernel's modules.dep; "" */
    char o2iblnd_path[RG_HOST_TEXT_MAX + 1];
    bool o2iblnd_needs_ofed; /* it depends on mlx_compat */
    bool has_lustre, next_has_lustre;
    char next_kernel[RG_HOST_TEXT_MAX + 1]; /* "" when not known */
};

void rg_host_read_devices(struct rg_source *source, struct rg_host_facts *facts);

/* Parsers of what comes from outside, for their tests. */
void rg_host_parse_modules(struct span content, struct rg_host_devices *devices);
bool rg_host_parse_survey(struct span json, struct rg_host_devices *devices);
bool rg_host_parse_nodes(struct span json, struct rg_host_devices *devices);

/* ---- Looking up; NULL or false when there is none ---- */

const struct rg_netdev *rg_host_netdev(const struct rg_host_devices *devices, const char *name);
const struct rg_rdma_device *rg_host_rdma(const struct rg_host_devices *devices, const char *name);
const struct rg_pci_function *rg_host_pci(const struct rg_host_devices *devices,
                                          const char *address);
const struct rg_rdma_device *rg_host_rdma_of_pci(const struct rg_host_devices *devices,
                                                 const char *address);
/* The first interface of a PCI function. */
const struct rg_netdev *rg_host_netdev_of_pci(const struct rg_host_devices *devices,
                                              const char *address);
/* Of the same kind of card: the board's name, or, where drivers tell none, the PCI identity. */
bool rg_host_same_board(const struct rg_host_devices *devices, const struct rg_rdma_device *a,
                        const struct rg_rdma_device *b);
/* Loaded, or built in as far as /sys/module tells. */
bool rg_host_module_loaded(const struct rg_host_devices *devices, const char *name);
const struct rg_module *rg_host_module(const struct rg_host_devices *devices, const char *name);
const char *rg_nic_family_name(enum rg_nic_family family);

#endif
