/*
 * What the readers of logs hand on: one record for each line (or structured entry) of any input,
 * stripped of its envelope, with what the envelope said about node, boot and time.
 *
 * A record and everything it borrows is valid only during the call that hands it over. Nothing here
 * decides what a line means: that is the catalogue's (event.h).
 */
#ifndef RG_DIAG_RECORD_H
#define RG_DIAG_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

/* What the stamp of a line counts. */
enum rg_stamp_kind {
    RG_STAMP_NONE,  /* the line had none: only its order is known */
    RG_STAMP_BOOT,  /* microseconds since boot, of the record's node and boot */
    RG_STAMP_LOCAL, /* wall clock of a zone that the line does not state, as if it were UTC; the
                     * year may have been chosen by the reader (RFC 3164 has none) */
    RG_STAMP_UTC,   /* microseconds since 1970 UTC */
};

struct rg_stamp {
    enum rg_stamp_kind kind;
    int64_t usec;
    bool computed; /* derived from boot time by dmesg -T: minutes off after suspends and steps */
    bool year_guessed; /* LOCAL only: the line had no year */
    bool zoned;        /* UTC only: the line stated its zone, minutes east: */
    int16_t east_min;
};

/* Which part of a machine spoke. */
enum rg_speaker {
    RG_SPEAKER_KERNEL,
    RG_SPEAKER_PROGRAM, /* a daemon or application: record.program */
    RG_SPEAKER_UNKNOWN,
};

/* Indices of interned names (nodes.h); 0 is "not known". */
typedef uint32_t rg_node_id;
typedef uint32_t rg_source_id;

struct rg_log_record {
    rg_node_id node;
    uint32_t boot;       /* counts this node's boots in this input, from 0 */
    rg_source_id source; /* the file (or member of an archive) it came from */
    uint64_t line;       /* line number there, from 1 */
    struct rg_stamp stamp;
    struct rg_stamp second; /* the other clock, when the line carried both; else kind NONE */
    enum rg_speaker speaker;
    int priority;        /* syslog severity 0..7, or -1 */
    struct span program; /* "corosync", "kernel", …; empty when not stated */
    struct span text;    /* the message, unescaped, without its envelope; of an `lctl dk` line it
                          * begins with the site, "(client.c:2141:ptlrpc_expire_one_request()) " */
    uint64_t repeats;    /* the record stands for 1 + repeats occurrences: a "repeated N times" or
                          * "Skipped N previous" line comes as the message it speaks of, with N - 1
                          * here and its own stamp */
    bool recalled;       /* the text is that of an earlier line; only the stamp is this line's */
    bool prefixed;  /* a tool put the node's name before the line: lines of nodes may alternate */
    bool truncated; /* the line was longer than the reader's ceiling */
};

#endif
