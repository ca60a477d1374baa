/*
 * How Lustre writes its lines: prefix, NIDs, device names, the tail of a request, numbers that have
 * names. Pure functions on spans; nothing here decides what a line means.
 */
#ifndef RG_DIAG_LUSTRE_H
#define RG_DIAG_LUSTRE_H

#include "diag/catalogue.h"

/*
 * The prefix that libcfs puts before a message:
 * `LustreError: PID:EXTPID:(file.c:LINE:func()) 11-0: @@@ text`. `lctl dk` prints only the part in
 * parentheses.
 */
struct rg_line_prefix {
    bool lustre;      /* Lustre: or LustreError: */
    bool lnet;        /* LNet: or LNetError: */
    bool error;       /* LustreError: or LNetError: */
    bool request;     /* "@@@ ": a request tail follows */
    bool lock;        /* "### ": a lock tail follows */
    struct span site; /* "client.c:2310:ptlrpc_expire_one_request", or empty */
    struct span file; /* "client.c" */
    struct span function;
    struct span code; /* "11-0", or empty */
    struct span text; /* what follows */
};

/* Always fills *ret_prefix; a line without a prefix has only text. */
void rg_line_prefix(struct span line, struct rg_line_prefix *ret_prefix);

/* Takes "12345-" away. */
struct span rg_nid_bare(struct span nid);

/* ADDR@NET[N] with a known network type; "0@lo" too. */
bool rg_nid_is(struct span nid);

/* Equal as NIDs: "12345-" ignored, @o2ib is @o2ib0. */
bool rg_nid_eq(struct span a, struct span b);

/* 0@lo: the speaker itself. */
bool rg_nid_is_local(struct span nid);

struct rg_target_name {
    enum rg_target_kind kind;
    struct span file_system; /* empty for the MGS */
    struct span target;      /* "scratch-OST0012" or "MGS" */
    int index;               /* decimal value of the four hexadecimal digits; -1 for the MGS */
};

/*
 * Finds the target in a name such as scratch-OST0012, scratch-OST0012_UUID, filter-… or mdt-…
 * (lock namespaces), or a device name (then it is the remote one). False when there is none.
 */
bool rg_target_parse(struct span name, struct rg_target_name *ret_target);

/* "OST0012" or "scratch-OST0012" → 18; -1 when it is no target with an index. */
int rg_target_index(struct span name);

struct rg_device_name {
    struct rg_target_name remote; /* whom the device talks to */
    enum rg_role speaker;
    struct rg_target_name local; /* the speaking server's own target, if the name says it */
    struct span mgs_nid;         /* for MGC<NID> */
};

/* Device-name grammar: …-osc-ffff…, …-mdc-ffff…, -osc-MDT0000, -osp-, -lwp-, MGC<NID>, a target. */
bool rg_device_parse(struct span name, struct rg_device_name *ret_device);

/* Finds `req@…` in the text and takes the tail apart; false (and present = false) without one. */
bool rg_request_tail_parse(struct span text, struct rg_request_tail *ret_tail,
                           struct span *ret_name, struct span *ret_nid);

/* Names of numbers; NULL when unknown. */
const char *rg_opcode_name(int opcode);
const char *rg_portal_name(int portal);
const char *rg_request_flag_name(char flag);

/* An errno as Lustre means it, or an ib_wc_status. */
struct rg_status_info {
    int number;       /* 110 for -110; the wc status as it is */
    const char *name; /* ETIMEDOUT, IBV_WC_RETRY_EXC_ERR */
    enum rg_accused accused;
    const char *meaning[RG_LANGUAGE_COUNT];
    const char *next[RG_LANGUAGE_COUNT]; /* "" when nothing */
};

/* `rc` may have either sign. NULL when the tables do not have it. */
const struct rg_status_info *rg_errno_info(int rc);
const struct rg_status_info *rg_wc_info(int status);

/* The tables themselves, for the manual. */
const struct rg_status_info *rg_errno_table(size_t *ret_count);
const struct rg_status_info *rg_wc_table(size_t *ret_count);

#endif
