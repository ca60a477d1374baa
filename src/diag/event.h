/*
 * What the catalogue makes of a record: which known message it is, and the fields that correlation
 * needs. Borrowed spans point into the record's text (and live as long as it) or at static text.
 */
#ifndef RG_DIAG_EVENT_H
#define RG_DIAG_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record.h"

/* Layers in the order of root causes inside a node: a lower layer explains a higher one. */
enum rg_layer {
    RG_LAYER_HARDWARE, /* power, heat, machine check, PCIe */
    RG_LAYER_PLATFORM, /* IOMMU, GPU, memory, operating system */
    RG_LAYER_FIRMWARE, /* HCA firmware and driver */
    RG_LAYER_LINK,     /* port, cable, module */
    RG_LAYER_ADDRESS,  /* GID, ARP, subnet manager, IPoIB, connection manager */
    RG_LAYER_LND,      /* o2iblnd, socklnd, efa */
    RG_LAYER_LNET,
    RG_LAYER_BACKEND,     /* storage beneath a target (ranks with 1-2 on that server) */
    RG_LAYER_CONFIG,      /* mount, configuration logs, MGS */
    RG_LAYER_RPC,         /* ptlrpc time-outs */
    RG_LAYER_IMPORT,      /* connection lost, restored */
    RG_LAYER_RECOVERY,    /* eviction, recovery, locks */
    RG_LAYER_APPLICATION, /* hung task, EIO, errno echoes */
    RG_LAYER_CLUSTER,     /* corosync, pacemaker, NFS: neighbours */
    RG_LAYER_COUNT,
};

/* Whom a message accuses (seen from the node that printed it). */
enum rg_accused {
    RG_ACCUSED_NOBODY, /* information, boundary, planned work */
    RG_ACCUSED_SELF,   /* this node */
    RG_ACCUSED_PEER,   /* the node behind event.nid */
    RG_ACCUSED_TARGET, /* the target's storage or server */
    RG_ACCUSED_PATH,   /* this node, the peer or what lies between: cannot be told from it */
    RG_ACCUSED_CONFIG,
    RG_ACCUSED_ADMIN,       /* somebody did this on purpose */
    RG_ACCUSED_CONSEQUENCE, /* never a cause */
    RG_ACCUSED_COUNT,
};

/* What a message does to the state of its subject; drives incidents. */
enum rg_effect {
    RG_EFFECT_NONE,
    RG_EFFECT_FAULT,    /* something is wrong from now on, or was at this moment */
    RG_EFFECT_LOST,     /* a connection went */
    RG_EFFECT_RESTORED, /* it came back */
    RG_EFFECT_EVICTED,  /* data that was not on the server is gone */
    RG_EFFECT_BOUNDARY, /* boot, module load, mount, planned stop */
    RG_EFFECT_BENIGN,   /* known noise: counted, never an incident */
    RG_EFFECT_COUNT,
};

enum rg_role {
    RG_ROLE_UNKNOWN,
    RG_ROLE_CLIENT,
    RG_ROLE_SERVER, /* OSS or MDS */
    RG_ROLE_MGS,
    RG_ROLE_COUNT,
};

enum rg_target_kind {
    RG_TARGET_NONE, /* the line names no target */
    RG_TARGET_MDT,
    RG_TARGET_OST,
    RG_TARGET_MGS,
};

struct rg_catalogue_row; /* catalogue.h: id, layer, accused, effect, cause, remedy, next command */

/* The tail of a DEBUG_REQ line (lustre/ptlrpc/pack_generic.c). Times are seconds since 1970 UTC. */
struct rg_request_tail {
    bool present;     /* "req@…" was there; the xid alone may be known without it */
    bool inbound;     /* NAME is a bare UUID: the speaker is the server that handles the request */
    uint64_t xid;     /* 0 when not found */
    int opcode;       /* o400, …; -1 when not found */
    int64_t sent;     /* 0 when not found */
    int64_t real;     /* with sent != 0, 0 means: never left this host */
    int64_t deadline; /* 0 when not found */
    struct span flags;
    int rc;
};

struct rg_event {
    const struct rg_log_record *record;
    const struct rg_catalogue_row *row;
    /* As the row has them, unless the line's own status (ib_wc_status, errno, kind) says more. */
    enum rg_accused accused;
    enum rg_effect effect;
    enum rg_role speaker_role; /* from device-name grammar and the row */
    enum rg_target_kind target_kind;
    int target_index;        /* OST0012 is 18; -1 when there is none */
    struct span file_system; /* "scratch" */
    struct span target;      /* "scratch-OST0012" as printed; "MGS" for the MGS */
    struct span nid;         /* the peer's NID as printed, without "12345-" */
    struct span nid_to;      /* second NID: "restored to", "via", router, new one */
    struct span nid_local;   /* a NID of the speaker itself: the NI that failed */
    struct span device;      /* mlx5_0, eth0, 0000:17:00.0, sda: what the row names */
    struct span client;      /* client UUID or name, when a server speaks of one */
    struct span operation;   /* ost_write, obd_ping */
    struct span detail;      /* the row's own free field: reason, state, module, thread name */
    struct span site;        /* "client.c:2310:ptlrpc_expire_one_request", without "()" */
    int rc;                  /* negative errno, or 0 when the line has none */
    int wc_status;           /* ib_wc_status, or -1 */
    int64_t number;          /* the row's own number: seconds evicted, width, count; 0 if none */
    int64_t number_of;       /* a second one: "of N clients"; 0 if none */
    int64_t epoch;           /* UTC seconds that the line itself states as "now"; 0 if none */
    struct rg_request_tail request;
};

#endif
