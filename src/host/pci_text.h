/*
 * PCI facts out of sysfs: configuration space, resource lists, link words, and how near two devices
 * are to each other. Pure: bytes in, structure out.
 */
#ifndef RG_HOST_PCI_TEXT_H
#define RG_HOST_PCI_TEXT_H

#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

/* PCI Express device and port types, of the capability's flags. */
enum {
    RG_PCI_TYPE_ENDPOINT = 0,
    RG_PCI_TYPE_ROOT_PORT = 4,
    RG_PCI_TYPE_UPSTREAM = 5,
    RG_PCI_TYPE_DOWNSTREAM = 6,
};

/* Bits of the ACS control register. */
enum {
    RG_PCI_ACS_SOURCE_VALIDATION = 0x01,
    RG_PCI_ACS_REQUEST_REDIRECT = 0x04,
    RG_PCI_ACS_COMPLETION_REDIRECT = 0x08,
};

struct rg_pci_config {
    bool short_read;       /* only the first 64 bytes are given to users other than root */
    bool has_express;      /* PCI Express capability found */
    unsigned type;         /* RG_PCI_TYPE_* or another */
    unsigned payload;      /* bytes, of DevCtl */
    unsigned payload_able; /* bytes, of DevCap */
    unsigned read_request; /* bytes, of DevCtl */
    bool relaxed_ordering;
    bool has_extended; /* the extended space (beyond 256 bytes) could be read */
    bool has_acs;
    uint16_t acs_control;
};

/* The `config` file. False when there is no header or capability lists do not end. */
bool rg_pci_config_parse(struct span bytes, struct rg_pci_config *ret_config);

#define RG_PCI_BARS 6

/* Sizes in bytes, 0 for none, of the `resource` file's first six lines. False when it is no such
 * file. */
bool rg_pci_resource_parse(struct span text, uint64_t ret_bytes[RG_PCI_BARS]);

/* "16.0 GT/s PCIe" in tenths of GT/s (160); "Unknown" and others false. */
bool rg_pci_speed_parse(struct span text, unsigned *ret_tenths);

/* What a link of so many tenths of GT/s and lanes carries, in Mbit/s, after encoding. */
uint64_t rg_pci_link_mbits(unsigned speed_tenths, unsigned width);

/* How far two devices are from each other, as NVIDIA's tools call it. */
enum rg_pci_distance {
    RG_PCI_PIX,  /* one bridge */
    RG_PCI_PXB,  /* several bridges */
    RG_PCI_PHB,  /* through a host bridge */
    RG_PCI_NODE, /* through two host bridges of one NUMA node */
    RG_PCI_SYS,  /* across sockets */
};

/*
 * Of two sysfs paths as the links in /sys/bus/pci/devices lead to ("../../../devices/pci0000:3a/
 * 0000:3a:00.0/0000:3b:00.0"), and the NUMA nodes (-1: not known).
 */
enum rg_pci_distance rg_pci_distance(struct span path_a, int node_a, struct span path_b,
                                     int node_b);
const char *rg_pci_distance_name(enum rg_pci_distance distance);

/* Whether this is a PCI address, "0000:3b:00.0". */
bool rg_pci_is_address(struct span text);

#endif
