/*
 * The diagnosis: what correlation found, as plain data. Every output (terminal, JSON, HTML,
 * Markdown) prints this and nothing else, so that all of them say the same.
 *
 * Text comes in two kinds. A *word* is text from the logs or made of it (a NID, a host, a quoted
 * line, a command with names filled in): an index into one pool, so that anonymising rewrites the
 * pool and nothing can be forgotten. Words are valid UTF-8 without control characters. A *phrase*
 * is a sentence of our own, from phrases.tbl, in English and Korean, with words in its gaps.
 *
 * Nothing here decides anything; correlate.c does.
 */
#ifndef RG_DIAG_DIAGNOSIS_H
#define RG_DIAG_DIAGNOSIS_H

#include "base/buf.h"
#include "base/span.h"
#include "diag/catalogue.h"
#include "diag/event.h"
#include "diag/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An index into rg_diagnosis.words; 0 is the empty word. */
typedef uint32_t rg_word;

enum rg_phrase_id {
    RG_PHRASE_NONE,
#define RG_PHRASE(identifier, english, korean) RG_PHRASE_##identifier,
#include "diag/phrases.tbl"
#undef RG_PHRASE
    RG_PHRASE_COUNT
};

#define RG_PHRASE_WORDS_MAX 4

struct rg_phrase {
    enum rg_phrase_id id;
    rg_word word[RG_PHRASE_WORDS_MAX]; /* for {0} … {3} */
};

struct rg_phrases {
    struct rg_phrase *items;
    size_t count;
};

struct rg_words {
    rg_word *items;
    size_t count;
};

/* Where the fault lies (diagnosis.md 3.2). */
enum rg_scope {
    RG_SCOPE_UNKNOWN, /* not decidable from these logs; incident.decides says what would decide */
    RG_SCOPE_NODE,    /* one client, or one host whatever it does */
    RG_SCOPE_PAIR,    /* one client and one server, each fine with others */
    RG_SCOPE_SERVER,  /* one server host or its link */
    RG_SCOPE_TARGET,  /* one MDT or OST, its siblings fine */
    RG_SCOPE_ROUTER,
    RG_SCOPE_RACK,   /* hosts of one rack or leaf switch, others fine */
    RG_SCOPE_FABRIC, /* many nodes, many servers */
    RG_SCOPE_MGS,
    RG_SCOPE_CONFIG,
    RG_SCOPE_SOFTWARE,
    RG_SCOPE_COUNT,
};

/* What kind of thing went wrong; says who has to act. */
enum rg_nature {
    RG_NATURE_UNKNOWN,
    RG_NATURE_HARDWARE,
    RG_NATURE_NETWORK,
    RG_NATURE_STORAGE,
    RG_NATURE_SERVER, /* a server stopped, restarted, moved or was slow */
    RG_NATURE_HOST,   /* memory, kernel, a hung or dead client */
    RG_NATURE_SOFTWARE,
    RG_NATURE_CONFIG,
    RG_NATURE_PLANNED, /* somebody did it on purpose */
    RG_NATURE_COUNT,
};

/* What became of data that applications had written. */
enum rg_data {
    RG_DATA_UNTOUCHED, /* nothing says that I/O was affected */
    RG_DATA_DELAYED,   /* operations waited and went on */
    RG_DATA_LOST,      /* evicted, or failed with an error: what was not on the server is gone */
    RG_DATA_UNKNOWN,   /* operations waited; these logs do not show the end */
    RG_DATA_COUNT,
};

enum rg_confidence { RG_CONFIDENCE_LOW, RG_CONFIDENCE_MEDIUM, RG_CONFIDENCE_HIGH };

enum rg_urgency { RG_URGENCY_NOTE, RG_URGENCY_LOW, RG_URGENCY_HIGH, RG_URGENCY_CRITICAL };

/* A moment, as well as it is known. */
struct rg_when {
    enum { RG_WHEN_UNKNOWN, RG_WHEN_BOOT, RG_WHEN_LOCAL, RG_WHEN_UTC } kind;
    int64_t usec;           /* since 1970 UTC; RG_WHEN_BOOT: since that node's boot */
    int64_t uncertain_usec; /* half the width of the doubt */
};

/* One kind of message from one node about one subject, all its repeats counted. */
struct rg_finding {
    const struct rg_catalogue_row *row; /* owned by the catalogue, which must live as long */
    rg_word node;
    uint32_t boot;
    rg_word target; /* as printed; 0 when none, so all below */
    rg_word nid;
    rg_word device;
    rg_word detail;
    rg_word operation;
    int rc;
    int wc_status;     /* -1 when none */
    enum rg_role role; /* the speaker's */
    struct rg_when first;
    struct rg_when last;
    uint64_t count;     /* lines that stood for it, repeats included */
    uint64_t order;     /* position of the first in the input, for findings without a time */
    int clock;          /* findings with the same number stand on one time axis; -1: no time */
    int64_t axis_first; /* usec on that axis */
    int64_t axis_last;
    enum rg_effect effect;
    int incident;           /* index of the incident it belongs to, or -1 */
    bool silent;            /* benign, planned or a boundary: never an incident of its own */
    struct rg_words quotes; /* "file:line: text", the first few */
};

/* A finding's part in an incident. */
struct rg_part {
    size_t finding;
    uint64_t count;
};

struct rg_command {
    rg_word command;        /* bounded, names filled in */
    struct rg_phrase where; /* on which host */
    struct rg_phrase why;
};

struct rg_cause {
    const struct rg_catalogue_row *row; /* NULL: only the phrase says it */
    struct rg_phrase sentence;
    enum rg_layer layer;
    rg_word subject; /* the node, NID, device or target that is meant */
    uint64_t count;  /* lines that said so, repeats included */
    struct rg_words quotes;
};

#define RG_INCIDENT_ERRORS_MAX 8

struct rg_incident {
    unsigned number; /* from 1, in order of time */
    enum rg_scope scope;
    enum rg_nature nature;
    rg_word element; /* the node, NID, target or router of the scope; 0 when unknown */
    enum rg_urgency urgency;
    enum rg_confidence confidence;
    bool planned;
    bool open; /* no end in the logs */
    bool self_healed;

    struct rg_phrase headline; /* what happened, in one sentence */
    struct rg_when first;
    struct rg_when last;
    int64_t duration_usec; /* -1 when not known */

    struct rg_words targets; /* affected */
    struct rg_words nids;
    struct rg_words nodes; /* those that saw it */

    struct rg_cause cause;   /* sentence.id NONE when not decidable */
    struct rg_cause *others; /* further candidates, likeliest first */
    size_t other_count;
    struct rg_phrases evidence; /* for the scope */
    struct rg_phrases contrary; /* against it */
    struct rg_phrases decides;  /* not decidable from this: which log or command would */
    struct rg_part *consequences;
    size_t consequence_count;
    struct rg_phrases users; /* effect on users */
    enum rg_data data;
    struct rg_phrases data_reasons;
    struct rg_phrases confidence_reasons;
    struct rg_command *next;
    size_t next_count;
    struct rg_phrases avoid;            /* what not to do */
    int errnos[RG_INCIDENT_ERRORS_MAX]; /* negative, as printed; lustre.h explains them */
    size_t errno_count;
    int statuses[RG_INCIDENT_ERRORS_MAX]; /* ib_wc_status */
    size_t status_count;
    struct rg_phrases healthy; /* what is not broken */
};

/* Consequences of one kind, for reports that list kinds. */
struct rg_kind_sum {
    const struct rg_catalogue_row *row;
    uint64_t count;
    size_t nodes; /* different ones, up to 64 told apart */
    rg_word node; /* the first */
};

struct rg_node_summary {
    rg_word name;
    enum rg_role role;
    uint64_t lines;
    uint32_t boots; /* how many of its boots the input shows */
    struct rg_when first;
    struct rg_when last;
    rg_word version; /* Lustre's, when it said */
};

struct rg_target_summary {
    rg_word name;         /* scratch-OST0012 */
    rg_word both_forms;   /* "OST0012 (index 18)" */
    struct rg_words nids; /* in the order in which they served it */
};

struct rg_noise {
    const struct rg_catalogue_row *row; /* NULL: matched no row */
    uint64_t count;
    rg_word sample;
};

/* What a dump of state among the inputs said (state.h): a snapshot of an unknown moment. */
struct rg_state_seen {
    enum rg_state_kind kind;
    rg_word node;
    rg_word subject; /* the NID or target */
    rg_word value;   /* "up", "down", "inactive device" */
    bool bad;
    rg_word line; /* "file:line: text" */
};

/* How far the input could be read, for the head of a report. */
struct rg_coverage {
    uint64_t lines;
    uint64_t matched;
    uint64_t error_looking; /* matched no row and yet look like errors */
    uint64_t folded;        /* events that met a ceiling and were counted without their subject */
};

struct rg_diagnosis {
    char **words; /* words[0] is "" */
    size_t word_count;
    struct rg_incident *incidents;
    size_t incident_count;
    size_t incidents_left_out; /* beyond the ceiling */
    struct rg_finding *findings;
    size_t finding_count;
    struct rg_node_summary *nodes;
    size_t node_count;
    struct rg_target_summary *targets;
    size_t target_count;
    rg_word *told; /* names of hosts and racks from the table of hosts */
    size_t told_count;
    struct rg_noise *noise; /* benign rows, and then what matched no row */
    size_t noise_count;
    struct rg_state_seen *states;
    size_t state_count;
    uint64_t states_left_out;
    struct rg_phrases state_notes; /* those of them that are not as they should be */
    struct rg_coverage coverage;
    struct rg_phrases assumptions; /* time windows and the like */
    struct rg_phrases clocks;      /* what is not sure about time */
    struct rg_phrases holes;       /* lines that are known to be missing */
    struct rg_when first;
    struct rg_when last;
    bool anonymous;
};

void rg_diagnosis_free(struct rg_diagnosis *diagnosis);

/* The text of a word as JSON has it; never NULL. */
const char *rg_diagnosis_word(const struct rg_diagnosis *diagnosis, rg_word word);

/* The same as a reader of that language sees it: a few words are ours, all others names. */
const char *rg_diagnosis_word_in(const struct rg_diagnosis *diagnosis, rg_word word,
                                 enum rg_language language);

/* Appends the sentence, its gaps filled. Nothing for RG_PHRASE_NONE. */
void rg_phrase_render(const struct rg_diagnosis *diagnosis, const struct rg_phrase *phrase,
                      enum rg_language language, struct rg_buf *out);

/* Stable identifiers for JSON and tests ("node", "hardware", "lost", "high"), and what people
 * read. The strings live for ever. */
const char *rg_scope_name(enum rg_scope scope);
const char *rg_nature_name(enum rg_nature nature);
const char *rg_data_name(enum rg_data data);
const char *rg_confidence_name(enum rg_confidence confidence);
const char *rg_urgency_name(enum rg_urgency urgency);

/* Sums the incident's consequences by kind, in their order. Returns how many kinds there are; of
 * more than `room` (at most 64), room + 1, and the others are left out. */
size_t rg_incident_kinds(const struct rg_diagnosis *diagnosis, const struct rg_incident *incident,
                         struct rg_kind_sum *ret_sums, size_t room);

/* "44 s", "2 min 3 s", "1 d 4 h"; "44초", "2분 3초", "1일 4시간". */
void rg_duration_render(int64_t usec, enum rg_language language, struct rg_buf *out);

/* Time as people read it: "2026-11-29 14:30:11 UTC", "+533.840 s after boot", "-". */
void rg_when_render(struct rg_when when, enum rg_language language, struct rg_buf *out);

#endif
