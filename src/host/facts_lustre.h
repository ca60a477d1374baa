/*
 * Lustre on this machine: mounts and whether they answer, connections to targets, and what a server
 * keeps about the past. Nothing here waits for Lustre outside a child.
 */
#ifndef RG_HOST_FACTS_LUSTRE_H
#define RG_HOST_FACTS_LUSTRE_H

#include "host/facts_gateway.h"
#include "host/lustre_text.h"
#include "host/mount_text.h"
#include "host/source.h"

struct rg_host_facts;

#define RG_HOST_LUSTRE_MOUNTS_MAX  8
#define RG_HOST_LUSTRE_IMPORTS_MAX 512
#define RG_HOST_LUSTRE_SPACE_MAX   512
#define RG_HOST_LUSTRE_RECOVER_MAX 32
#define RG_HOST_LUSTRE_DISKS_MAX   32

struct rg_host_lustre_mount {
    struct rg_mount mount;
    char fsname[RG_LUSTRE_NAME_MAX + 1];
    struct rg_nid_list mgs;    /* as the source names them */
    struct rg_reading tree_at; /* of the probe; ETIMEDOUT: it hangs */
    struct rg_host_tree tree;
    struct rg_reading layout_at;
    bool has_layout;
    struct rg_lustre_layout layout; /* that new files in its root get */
};

struct rg_host_lustre_import {
    struct rg_lustre_import import;
    struct rg_reading at;
    bool is_mgc;
};

struct rg_host_lustre_space {
    char target[RG_LUSTRE_TARGET_MAX + 1];
    uint64_t total_kib, free_kib;
};

struct rg_host_lustre_recovery {
    char target[RG_LUSTRE_TARGET_MAX + 1];
    struct rg_reading at;
    struct rg_lustre_recovery recovery;
};

/* A mounted target that is no dataset of ZFS. */
struct rg_host_lustre_disk {
    struct rg_reading at;       /* of tunefs.lustre; NOT_ASKED: the others took too long */
    struct rg_lustre_disk disk; /* target.dataset is the device */
};

struct rg_host_lustre {
    struct rg_reading mounts_at;
    struct rg_host_lustre_mount mounts[RG_HOST_LUSTRE_MOUNTS_MAX];
    size_t mount_count;
    struct rg_mount_list targets; /* server mounts: datasets or devices */
    struct rg_reading fstab_at;
    struct rg_mount_list fstab; /* its lines of type lustre */
    struct rg_reading imports_at;
    struct rg_host_lustre_import imports[RG_HOST_LUSTRE_IMPORTS_MAX];
    size_t import_count;
    struct rg_reading space_at;
    struct rg_host_lustre_space space[RG_HOST_LUSTRE_SPACE_MAX];
    size_t space_count;
    struct rg_text version;
    bool is_mgs;
    struct rg_host_lustre_recovery recovery[RG_HOST_LUSTRE_RECOVER_MAX];
    size_t recovery_count;
    struct rg_reading zfs_at;
    struct rg_lustre_zfs zfs;
    struct rg_host_lustre_disk disks[RG_HOST_LUSTRE_DISKS_MAX];
    size_t disk_count;
    size_t disks_left; /* more than fit */
    struct rg_reading log_at;
    char log_fsname[RG_LUSTRE_NAME_MAX + 1];
    struct rg_lustre_log log;
    struct rg_number dump_on_eviction, dump_on_timeout;
    bool cut;
};

void rg_host_read_lustre(struct rg_source *source, struct rg_host_facts *facts);

/* Lines "TARGET TOTAL-KIB FREE-KIB"; false when one is not. */
bool rg_host_parse_space(struct span lines, struct rg_host_lustre *lustre);

/* Whether this machine serves targets, mounted or not. */
bool rg_host_is_lustre_server(const struct rg_host_facts *facts);

#endif
