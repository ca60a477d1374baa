/*
 * The message catalogue: which line of a log is which known message, what it
 * means, whom it accuses and what to do next. The rows stand in messages.tbl
 * (compiled in); a site's own rows, in the same format, come from files and
 * outrank them. docs/messages.md is made from the rows.
 *
 * One automaton over the rows' required literals reads every line once; only
 * rows whose literal is in the line run their precise pattern. A line is at
 * most one message: the first row, in order of rank and then of the table, that
 * matches.
 *
 * The catalogue decides what one line says. What several lines mean together is
 * correlation's.
 */
#ifndef RG_DIAG_CATALOGUE_H
#define RG_DIAG_CATALOGUE_H

#include "base/buf.h"
#include "base/error.h"
#include "diag/event.h"
#include "diag/record.h"

enum rg_language { RG_ENGLISH, RG_KOREAN, RG_LANGUAGE_COUNT };

enum rg_severity {
    RG_SEVERITY_INFO,
    RG_SEVERITY_NOTICE,
    RG_SEVERITY_WARNING,
    RG_SEVERITY_ERROR,
    RG_SEVERITY_CRITICAL,
    RG_SEVERITY_COUNT,
};

/* Whether the line reaches the console (dmesg) without anyone asking for it. */
enum rg_visibility {
    RG_VISIBLE,        /* always: its absence means something */
    RG_HIDDEN,         /* only in `lctl dk`, or after lctl set_param printk=+neterror */
    RG_VISIBLE_BY_AGE, /* depends on the release, or rate limits drop it on
                          purpose */
};

/* Where a next command is to be run. */
enum rg_where {
    RG_WHERE_HERE,   /* the node that printed the line */
    RG_WHERE_PEER,   /* the node behind {nid} */
    RG_WHERE_CLIENT, /* any client */
    RG_WHERE_SERVER, /* the server of {target} */
    RG_WHERE_MGS,
    RG_WHERE_COUNT,
};

#define RG_NEXT_MAX     6  /* commands a row */
#define RG_LITERALS_MAX 12 /* literals a row */
#define RG_EXAMPLES_MAX 8  /* example lines a row */

struct rg_next {
    enum rg_where where;
    const char *command; /* template; always bounded by timeout(1) */
};

/*
 * A row. All texts are NUL-terminated, never NULL, and live as long as the
 * catalogue. Texts by language fall back to English where a site's row has no
 * Korean.
 */
struct rg_catalogue_row {
    const char *id;     /* PT-EXPIRE-SLOW; unique */
    const char *family; /* PT-EXPIRE: what one message is called whatever its
                           ending; else the id */
    const char *title[RG_LANGUAGE_COUNT];
    const char *pattern; /* PCRE; its named groups are the field map (docs/messages.md) */
    const char *literals[RG_LITERALS_MAX]; /* one of them is in every line that matches */
    size_t literal_count;
    const char *examples[RG_EXAMPLES_MAX];
    size_t example_count;
    int since, until; /* Lustre releases, 21204 = 2.12.4, until inclusive; 0 = open */
    enum rg_layer layer;
    enum rg_role speaker;
    enum rg_accused accused;
    bool accused_by_status; /* the line's errno or ib_wc_status decides
                               (status.tbl) */
    enum rg_effect effect;
    enum rg_severity severity;
    int rank; /* higher first; 0 unless stated */
    enum rg_visibility visibility;
    const char *cause[RG_LANGUAGE_COUNT];
    const char *remedy[RG_LANGUAGE_COUNT];
    const char *avoid[RG_LANGUAGE_COUNT]; /* what not to do; "" when nothing tempts */
    struct rg_next next[RG_NEXT_MAX];
    size_t next_count;
    const char *source; /* for a site's row, "FILE:LINE"; else "built in" */
};

struct rg_catalogue;

/*
 * Builds the catalogue from the compiled-in rows and from `count` files of a
 * site (may be 0). A file that cannot be read, is too large, or holds a row
 * that is wrong (unknown key, bad pattern, no literal to search for, an example
 * that does not match) fails with RG_SETTING; the sentence names file, line and
 * reason. Free with rg_catalogue_free.
 */
int rg_catalogue_open(const char *const *rules_files, size_t count,
                      struct rg_catalogue **ret_catalogue, struct rg_error *err);
void rg_catalogue_free(struct rg_catalogue *catalogue);

enum rg_match {
    RG_MATCH_NONE,    /* an ordinary line */
    RG_MATCH_SUSPECT, /* no row, but it looks like an error: give it to
                         rg_unmatched_add */
    RG_MATCH_ROW,     /* *ret_event is filled */
};

/*
 * Matches one record. Not for two threads at once on one catalogue (it keeps
 * scratch memory). Time is bounded whatever the line: patterns run under match
 * limits; one that reaches them counts as not matching
 * (rg_catalogue_limits_hit).
 */
enum rg_match rg_catalogue_match(struct rg_catalogue *catalogue, const struct rg_log_record *record,
                                 struct rg_event *ret_event);

/*
 * The same in two steps, for those who can prepare something in between: whether
 * the line has text of any row, and, only where it has and for the same record,
 * what it is.
 */
bool rg_catalogue_seek(struct rg_catalogue *catalogue, const struct rg_log_record *record);
enum rg_match rg_catalogue_decide(struct rg_catalogue *catalogue,
                                  const struct rg_log_record *record, struct rg_event *ret_event);

/* Whether the pattern of this one row matches, whatever its literals and the
 * other rows: for those who write rows. */
bool rg_catalogue_row_matches(struct rg_catalogue *catalogue, size_t index, struct span text);

/* How often a pattern gave up at its limit since the catalogue was opened, including the lines on
 * which it was not run any more: one that gave up a hundred times is switched off. */
uint64_t rg_catalogue_limits_hit(const struct rg_catalogue *catalogue);

/* Rows in matching order; by id (exact, any case), NULL when there is none. */
size_t rg_catalogue_row_count(const struct rg_catalogue *catalogue);
const struct rg_catalogue_row *rg_catalogue_row_at(const struct rg_catalogue *catalogue,
                                                   size_t index);
const struct rg_catalogue_row *rg_catalogue_row_by_id(const struct rg_catalogue *catalogue,
                                                      const char *id);

/*
 * Appends a next command with its placeholders filled from the event: {nid}
 * {nid_to} {nid_local} {target} {device} {fsname} {client} {detail} {number}.
 * Only values made of characters that are safe in a shell are put in; any
 * other, and any that the event lacks, stays as a word in capitals (NID,
 * TARGET, DEVICE …) for a person to fill in. Returns whether all were filled.
 */
bool rg_catalogue_command(const char *command, const struct rg_event *event, struct rg_buf *out);

/* Everything about one row, for `railgate diagnose explain ID`. */
void rg_catalogue_explain(const struct rg_catalogue_row *row, enum rg_language language,
                          struct rg_buf *out);

/* docs/messages.md: every built-in row, the format of rules files, errno and
 * ib_wc_status. */
void rg_catalogue_reference(struct rg_buf *out);

/* Names that the groups of a pattern may have: what they fill in is struct
 * rg_event's. */
const char *const *rg_catalogue_fields(size_t *ret_count);

/* Words for the enums, in lower case, as rules files and JSON have them. */
const char *rg_layer_name(enum rg_layer layer);
const char *rg_accused_name(enum rg_accused accused);
const char *rg_effect_name(enum rg_effect effect);
const char *rg_severity_name(enum rg_severity severity);
const char *rg_role_name(enum rg_role role);
const char *rg_where_name(enum rg_where where);

/*
 * Lines that look like errors and that no row knows, by shape: the text with
 * numbers, pointers and addresses replaced. Bounded: RG_SHAPES_MAX shapes are
 * kept, further ones only counted.
 */
#define RG_SHAPES_MAX       256
#define RG_SHAPE_BYTES_MAX  160
#define RG_SAMPLE_BYTES_MAX 320

struct rg_unmatched_shape {
    char shape[RG_SHAPE_BYTES_MAX + 1];
    char sample[RG_SAMPLE_BYTES_MAX + 1]; /* the first such line, control bytes made visible */
    uint64_t count;
    bool lustre; /* a Lustre or LNet line */
    rg_node_id node;
    rg_source_id source;
    uint64_t line;
};

struct rg_unmatched {
    struct rg_unmatched_shape *shapes; /* order of first sight */
    size_t count;
    uint64_t lines;        /* all suspect lines */
    uint64_t lustre_lines; /* those of Lustre and LNet */
    uint64_t other;        /* lines whose shape found no room (or no memory) */
    uint32_t *slots;       /* hash of shapes */
};

void rg_unmatched_add(struct rg_unmatched *unmatched, const struct rg_log_record *record);
void rg_unmatched_free(struct rg_unmatched *unmatched);

#endif
