/*
 * Texts about memory, limits and services: /proc/PID/limits, systemd units, /proc/meminfo, control
 * groups. Pure: text in, structure out. Whatever stands in the text, a parser ends and says what it
 * could make of it.
 */
#ifndef RG_HOST_MEMORY_TEXT_H
#define RG_HOST_MEMORY_TEXT_H

#include "base/span.h"
#include "host/words.h"

#include <stdbool.h>
#include <stdint.h>

/* The row "Max locked memory" of /proc/PID/limits, in bytes or RG_WORDS_UNLIMITED. */
bool rg_limit_locked_parse(struct span text, uint64_t *ret_soft, uint64_t *ret_hard);

#define RG_UNIT_FILES_MAX   8
#define RG_UNIT_TEXT_MAX    255
#define RG_UNIT_DEVICES_MAX 32

/* A DeviceAllow=: a node's path, "char-NAME" or "block-NAME". */
struct rg_unit_device {
    char node[RG_UNIT_TEXT_MAX + 1];
    bool may_read, may_write;
};

/* What of a systemd service concerns us. Start from all zero; feed the unit file, then each drop-in
 * in systemd's order: later assignments win, an empty one resets. */
struct rg_unit {
    bool has_memlock;
    uint64_t memlock_soft, memlock_hard; /* bytes, or RG_WORDS_UNLIMITED */
    bool bad_memlock;                    /* an assignment that systemd would ignore */
    char user[RG_UNIT_TEXT_MAX + 1];     /* "": root */
    char group[RG_UNIT_TEXT_MAX + 1];    /* "": the user's */
    char groups[RG_UNIT_TEXT_MAX + 1];   /* SupplementaryGroups=, blanks between */
    bool groups_cut;                     /* there were more */
    bool dynamic_user;
    bool dac_override;               /* AmbientCapabilities= has CAP_DAC_OVERRIDE */
    bool may_lock;                   /* … and CAP_IPC_LOCK */
    bool is_bounded;                 /* CapabilityBoundingSet= leaves out some */
    bool bound_has_lock;             /* … but not CAP_IPC_LOCK */
    char exec[RG_UNIT_TEXT_MAX + 1]; /* program of ExecStart */
    bool exec_optional;
    struct {
        char path[RG_UNIT_TEXT_MAX + 1];
        bool optional; /* "-" before it */
    } environment_files[RG_UNIT_FILES_MAX];
    size_t environment_file_count;
    bool private_devices; /* hides /dev/infiniband */
    /* AUTO: all nodes, or those listed where any are listed */
    enum { RG_UNIT_DEVICES_AUTO, RG_UNIT_DEVICES_CLOSED, RG_UNIT_DEVICES_STRICT } device_policy;
    struct rg_unit_device devices[RG_UNIT_DEVICES_MAX];
    size_t device_count;
    bool devices_cut;   /* there were more, or one that is too long */
    bool after_lnet;    /* After= or Requires= names lnet.service */
    bool after_network; /* After= names network-online.target, network.target or an RDMA target */
};

void rg_unit_parse(struct span text, struct rg_unit *unit);

struct rg_meminfo {
    bool known; /* MemTotal was there */
    uint64_t total_bytes;
    uint64_t available_bytes; /* 0: not said */
    uint64_t huge_total;      /* pages */
    uint64_t huge_free;
    uint64_t huge_page_bytes; /* 0: not said */
};

void rg_meminfo_parse(struct span text, struct rg_meminfo *ret_memory);

/* The path of the unified hierarchy ("0::/a/b") in /proc/PID/cgroup, "" when there is none. With
 * `controller` the path of that controller's v1 hierarchy. */
bool rg_cgroup_path_parse(struct span text, const char *controller, char *ret_path, size_t room);

/* The row of `device` in rdma.max or rdma.current: "mlx5_0 hca_handle=2 hca_object=max".
 * RG_WORDS_UNLIMITED stands for max. False when the device has no row. */
bool rg_rdma_cgroup_parse(struct span text, const char *device, uint64_t *ret_handles,
                          uint64_t *ret_objects);

/* The effective capabilities in /proc/PID/status. */
bool rg_capabilities_parse(struct span text, uint64_t *ret_effective);

#define RG_CAPABILITY_DAC_OVERRIDE 1
#define RG_CAPABILITY_IPC_LOCK     14
#define RG_CAPABILITY_SYS_ADMIN    21

#endif
