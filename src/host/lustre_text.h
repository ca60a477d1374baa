/*
 * Lustre: a client's imports, layouts, what servers keep about the past (ZFS properties and the
 * configuration log). Pure: text or bytes in, structure out. Nothing here asks Lustre anything.
 */
#ifndef RG_HOST_LUSTRE_TEXT_H
#define RG_HOST_LUSTRE_TEXT_H

#include "base/span.h"
#include "host/lnet_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_LUSTRE_TARGET_MAX 79
#define RG_LUSTRE_ZFS_MAX    64

/* ---- A client's connections ---- */

struct rg_lustre_import {
    char target[RG_LUSTRE_TARGET_MAX + 1]; /* "lfs01-OST0000" */
    char state[24];                        /* "FULL", "IDLE", "DISCONN", "CONNECTING" ... */
    bool deactivated;
    char version[32];                     /* of the server, "" when not said */
    char connection[RG_NID_TEXT_MAX + 1]; /* current_connection, "" */
    struct rg_nid_list nids;              /* failover_nids */
};

/* The file `import` of an osc, mdc or mgc. False when there is no state in it. */
bool rg_lustre_import_parse(struct span text, struct rg_lustre_import *ret_import);

/* One line "lfs01-OST0000_UUID\tFULL[\tDEACTIVATED]" (ost_server_uuid, mds_server_uuid). */
bool rg_lustre_uuid_parse(struct span text, struct rg_lustre_import *ret_import);

/* FULL and IDLE are well: an idle connection is reopened by the next request. */
bool rg_lustre_import_is_well(const struct rg_lustre_import *import);

/* ---- Layout: the value of the xattr lustre.lov ---- */

#define RG_LUSTRE_COMPONENTS_MAX 32

struct rg_lustre_layout {
    bool composite;
    bool on_mdt; /* data on the metadata target, in some component */
    size_t component_count;
    struct {
        uint64_t begin, end; /* bytes; end UINT64_MAX: to the end of the file */
        uint32_t stripe_size;
        uint16_t stripe_count; /* 0xffff: all targets; 0 for data on the MDT */
        bool on_mdt;
    } components[RG_LUSTRE_COMPONENTS_MAX];
    bool cut;
};

bool rg_lustre_layout_parse(struct span bytes, struct rg_lustre_layout *ret_layout);

/* ---- `zfs get -H -s local all`, or with named properties ---- */

struct rg_lustre_zfs_target {
    char dataset[128];
    char svname[RG_LUSTRE_TARGET_MAX + 1]; /* "" when not said */
    bool has_flags;
    uint64_t flags;         /* lustre:flags */
    struct rg_nid_list mgs; /* lustre:mgsnode */
    struct rg_nid_list failover;
};

struct rg_lustre_zfs {
    struct rg_lustre_zfs_target targets[RG_LUSTRE_ZFS_MAX];
    size_t count;
    bool cut;
};

#define RG_LDD_MGS 0x4 /* in lustre:flags: this target is (also) the MGS */
#define RG_LDD_MDT 0x1
#define RG_LDD_OST 0x2

/* Datasets without a lustre: property are left out. */
void rg_lustre_zfs_parse(struct span text, struct rg_lustre_zfs *ret_zfs);

/* "MDT0000" and "OST0012" are hexadecimal: the index of a target's name, or -1. */
int rg_lustre_target_index(const char *target);

/* ---- `tunefs.lustre --dryrun DEVICE` ---- */

struct rg_lustre_disk {
    struct rg_lustre_zfs_target target; /* dataset: the device, which the text does not name */
    char fsname[RG_LUSTRE_TARGET_MAX + 1];
    char kind[16];    /* "ldiskfs", "zfs" */
    char others[512]; /* parameters beside mgsnode, blanks between */
    bool others_cut;  /* there are more, or some that no shell line could hold as they are */
};

/* Of the values that are on the disk; those of a dry run's second part are the same. False when the
 * text names no target. `target.dataset` is left alone. */
bool rg_lustre_tunefs_parse(struct span text, struct rg_lustre_disk *disk);

/* ---- `lctl --device MGS llog_print FSNAME-client` ---- */

struct rg_lustre_log {
    size_t records;
    struct rg_nid_list nids; /* of add_uuid, add_conn and setup records that are not skipped */
};

/* Both forms: "- { index: 4, event: add_uuid, nid: 10.0.0.1@tcp(0x2...), node: ... }" and
 * "#04 (088)add_uuid nid=10.0.0.1@tcp(0x2...) 0: 1:10.0.0.1@tcp". */
void rg_lustre_log_parse(struct span text, struct rg_lustre_log *ret_log);

/* ---- Versions ---- */

/* "lustre: 2.15.8" or "2.15.8_ddn1" as numbers; false when there are none. */
bool rg_lustre_version_parse(struct span text, unsigned ret_version[3]);

/* ---- Recovery: the file recovery_status of an MDT or OST ---- */

struct rg_lustre_recovery {
    char status[24]; /* "COMPLETE", "RECOVERING", "WAITING", "WAITING_FOR_CLIENTS", "INACTIVE" */
    uint64_t connected, clients; /* "completed_clients: 3/4" or "connected_clients: 3/4" */
    uint64_t remaining_s;        /* 0 when not said */
};

bool rg_lustre_recovery_parse(struct span text, struct rg_lustre_recovery *ret_recovery);

#endif
