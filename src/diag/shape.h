/*
 * The shape of one line: takes off the envelope that dmesg, journalctl, syslog, lctl dk, pdsh and
 * others put around a message, and says what the envelope tells. Pure, without memory of other
 * lines; what spans several lines (blocks of dshbak, journal exports, repeats) is reading.h's.
 */
#ifndef RG_DIAG_SHAPE_H
#define RG_DIAG_SHAPE_H

#include "base/span.h"

#include "diag/record.h"

#include <stdbool.h>

enum rg_shape {
    RG_SHAPE_BARE,       /* no stamp: serial consoles, pasted text, prose */
    RG_SHAPE_DMESG,      /* [seconds] text */
    RG_SHAPE_DMESG_TIME, /* [Sun Nov 29 19:46:55 2026] text */
    RG_SHAPE_DMESG_ISO,  /* 2026-11-29T14:30:11,123456+00:00 text */
    RG_SHAPE_KMSG,       /* 6,1234,533840297,-;text */
    RG_SHAPE_SYSLOG,     /* Nov 29 19:46:55 HOST TAG[PID]: text */
    RG_SHAPE_ISO,        /* 2026-11-29T19:46:55.123456+09:00 HOST TAG[PID]: text */
    RG_SHAPE_RFC5424,    /* <PRI>1 STAMP HOST APP PROCID MSGID SD text */
    RG_SHAPE_EPOCH,      /* 1795981615.123456 HOST TAG: text: journalctl -o short-unix */
    RG_SHAPE_LCTL,       /* lctl dk */
    RG_SHAPE_JSON,       /* one journal entry or log record a line */
    RG_SHAPE_COUNT,
};

struct rg_shaped {
    enum rg_shape shape;
    struct span prefix; /* NODE of "NODE: " (pdsh, clush), FILE of "FILE:" (grep), else empty */
    struct span host;   /* the host that the line itself names, else empty */
    struct rg_stamp stamp;
    struct rg_stamp second;
    enum rg_speaker speaker;
    int priority; /* syslog severity 0..7, or -1 */
    struct span program;
    struct span boot; /* the journal's id of the boot, else empty */
    struct span text;
};

/*
 * Reads the line, which it may change in place (escapes shrink). A year-less stamp comes back in
 * the year 1972 (stamp.h). A line without any known envelope is RG_SHAPE_BARE, all of it text.
 */
void rg_shape_read(char *line, size_t len, struct rg_shaped *ret_shaped);

/*
 * The stamped part within a message that has an envelope already ("[268274.472582] text" behind a
 * syslog tag): moves it to shaped->second.
 */
void rg_shape_read_inner(struct rg_shaped *shaped);

/* A word that may be the name of a host: letters, digits, '.', '_', '-', at most 253. */
bool rg_shape_is_host(struct span word);

/* What pdsh and clush (NODE: ) and grep (FILE:) put before a line. A file may have a path. */
bool rg_shape_is_prefix(struct span word);

#endif
