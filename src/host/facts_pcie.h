/*
 * PCI Express around RDMA devices and GPUs: the links and bridges up to the root, and what the
 * IOMMU does with them.
 */
#ifndef RG_HOST_FACTS_PCIE_H
#define RG_HOST_FACTS_PCIE_H

#include "host/pci_text.h"
#include "host/source.h"

struct rg_host_facts;

#define RG_HOST_HOPS_MAX      8
#define RG_HOST_PCI_PATHS_MAX 128
#define RG_PCI_ADDRESS_MAX    15

struct rg_pci_hop {
    char address[RG_PCI_ADDRESS_MAX + 1];
    struct rg_text speed, speed_max; /* "16.0 GT/s PCIe" */
    struct rg_number width, width_max;
    struct rg_reading config_at; /* OK: parsed into */
    struct rg_pci_config config;
};

/* From a function up to the root: hops[0] is the function, the others are bridges. */
struct rg_pci_path {
    char label[64]; /* "mlx5_0", "GPU 0000:1b:00.0" */
    char rdma[64];  /* name of the RDMA device, "" for a GPU */
    bool is_gpu;
    int numa_node; /* -1: not known */
    struct rg_pci_hop hops[RG_HOST_HOPS_MAX];
    size_t hop_count;
    struct rg_text iommu_group; /* number; MISSING: no IOMMU translates for it */
    struct rg_text iommu_type;  /* "identity", "DMA", "DMA-FQ", "auto" */
    uint64_t port_mbits;        /* of the RDMA device's ports that are up; 0: not known */
};

struct rg_host_pcie {
    struct rg_reading buses_at;
    struct rg_pci_path paths[RG_HOST_PCI_PATHS_MAX];
    size_t path_count;
    bool cut;
    bool has_gpu;
    bool is_amd;     /* the CPU */
    bool is_virtual; /* this machine is a guest */
    struct rg_reading cpuinfo_at;
    struct rg_text cmdline; /* of the kernel; cut when long */
};

void rg_host_read_pcie(struct rg_source *source, struct rg_host_facts *facts);

/* Whether a PCI function of this vendor and class is a GPU that may take part in RDMA. */
bool rg_host_is_gpu(int64_t vendor, int64_t class);

/* How near a GPU and an RDMA device are. */
enum rg_pci_distance rg_host_distance(const struct rg_pci_path *a, const struct rg_pci_path *b);

/* "200 Gb/sec (4X HDR)" in Mbit/s. */
bool rg_host_rate_parse(const char *text, uint64_t *ret_mbits);

#endif
