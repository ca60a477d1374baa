/*
 * GPUs and what stands between them and the NICs: drivers, peer memory, BAR sizes.
 */
#ifndef RG_HOST_FACTS_GPU_H
#define RG_HOST_FACTS_GPU_H

#include "host/aistor_text.h"
#include "host/cufile_text.h"
#include "host/pci_text.h"
#include "host/source.h"

struct rg_host_facts;

#define RG_HOST_GPUS_MAX 32

struct rg_host_gpu {
    char address[16];
    bool is_nvidia;
    struct rg_text driver; /* of the PCI function */
    char model[64];        /* "" when not told */
    struct rg_reading resource_at;
    uint64_t bars[RG_PCI_BARS]; /* bytes */
    uint64_t window;            /* the largest BAR: what peers can reach at a time */
};

struct rg_host_gpus {
    struct rg_host_gpu gpus[RG_HOST_GPUS_MAX];
    size_t count;
    struct rg_reading version_at;
    char version[32];
    bool is_open; /* NVIDIA's open kernel modules */
    bool has_version;
    struct rg_reading modules_at;
    struct rg_module_line peermem, nv_peer_mem, ib_core, amdgpu;
    struct rg_names memory_peers; /* of OFED kernels; owned */
    struct rg_text peermem_version;
    struct rg_text fs_version;              /* nvidia-fs */
    char cufile_path[RG_HOST_PATH_MAX + 1]; /* CUFILE_ENV_PATH_JSON of this process, or the usual */
    struct rg_reading cufile_at;
    struct rg_cufile cufile;  /* has a problem where cufile_at is MALFORMED */
    struct rg_reading xid_at; /* kernel log */
    uint64_t xid_lines;
    char xid_last[160];  /* the last grave one, else the last */
    int64_t xid_seconds; /* when that was, since 1970; 0: not known */
};

/* When a record of /dev/kmsg ("priority,number,microseconds since the boot,...;text") was written,
 * in seconds since 1970, given the time now on both clocks; 0 when it does not tell. */
int64_t rg_kmsg_seconds(const char *record, int64_t now_s, int64_t since_boot_s);

/* Of NVIDIA's error numbers: those after which the GPU is of no use until it is reset. */
bool rg_xid_is_grave(unsigned long number);

void rg_host_read_gpu(struct rg_source *source, struct rg_host_facts *facts);
void rg_host_free_gpu(struct rg_host_gpus *gpus);

#endif
