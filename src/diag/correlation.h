/*
 * What the files of correlation share: the runs that events are gathered in (correlate.c), which of
 * them are ordinary where they stand (hush.c), how the others become incidents (judge.c), and how
 * an incident gets its cause, scope and sentences (verdict.c and what it calls). Not for other
 * parts of the room.
 */
#ifndef RG_DIAG_CORRELATION_H
#define RG_DIAG_CORRELATION_H

#include "diag/correlate.h"
#include "diag/map.h"
#include "diag/words.h"

#define RG_RUNS_MAX      12288
#define RG_RUN_PARTS_MAX 24 /* of one message about one subject, with long quiet times between */
#define RG_RUN_QUOTES    3
#define RG_RUN_XIDS      4
#define RG_QUOTE_BYTES   420
#define RG_INCIDENTS_MAX 200
#define RG_NODES_SEEN    8192
#define RG_STAMP_KINDS   (RG_STAMP_UTC + 1)
#define RG_STATES_MAX    1024
#define RG_NOTES_MAX     40 /* of clocks, and of missing lines; further ones count */

enum rg_trait_flag {
    RG_TRAIT_SILENT = 1 << 0,
    RG_TRAIT_ANSWERED = 1 << 1,
    RG_TRAIT_CLIENT = 1 << 2,
    RG_TRAIT_SELF = 1 << 3,
    RG_TRAIT_STARTED = 1 << 4,
    RG_TRAIT_PLANNED = 1 << 5,
    RG_TRAIT_SLOW = 1 << 6,
    RG_TRAIT_LOSS = 1 << 7,
    RG_TRAIT_BOTH = 1 << 8,
    RG_TRAIT_MOUNT = 1 << 9,
    RG_TRAIT_STORAGE = 1 << 10,
    RG_TRAIT_LATE = 1 << 11,
    RG_TRAIT_ALONE = 1 << 12,
    RG_TRAIT_BEFORE = 1 << 13,
    RG_TRAIT_PORT = 1 << 14,
};

struct rg_trait {
    int rank; /* among causes, lower first */
    enum rg_nature nature;
    unsigned flags;
};

/* From traits.tbl; what the table does not have comes from layer and accused. */
struct rg_trait rg_trait_of(const struct rg_catalogue_row *row, enum rg_accused accused,
                            enum rg_effect effect);

/* The fault is the speaker's own, not its peer's or the path's. */
struct rg_run;
bool rg_run_is_local(const struct rg_run *run);

/* A server speaks of a client, and means it. */
bool rg_run_accuses_client(const struct rg_run *run);

/* The run is trouble by itself; what is not comes along with one that is. */
bool rg_run_is_active(const struct rg_run *run);

/* Whether the row's id or family is this one. */
bool rg_row_is(const struct rg_catalogue_row *row, const char *id);

/* The hardware found an error and corrected it. */
bool rg_row_is_corrected(const struct rg_catalogue_row *row);

/* What add needs to know of a row, looked up once. */
struct rg_row_facts {
    const struct rg_catalogue_row *row;
    enum rg_accused accused;
    enum rg_effect effect;
    struct rg_trait trait;
    bool request; /* PT-EXPIRE: its text tells how the request ended */
    bool boot;
    bool command; /* ML-CMDERR */
    bool mount;   /* BE-MOUNT */
    bool skipped; /* LOG-SKIPPED */
    bool status;  /* PT-STATUS */
};

#define RG_ROW_FACTS 512 /* a power of two */

/* One kind of message, from one node about one subject, without a long quiet time in it. */
struct rg_run {
    const struct rg_catalogue_row *row;
    struct rg_trait trait;
    enum rg_accused accused;
    enum rg_effect effect;
    enum rg_role role;
    enum rg_target_kind target_kind;
    rg_node_id node;
    uint32_t boot;
    rg_source_id source;
    rg_host_id speaker;
    rg_word target;
    rg_word nid;
    rg_word nid_to;
    rg_word nid_local;
    rg_word device;
    rg_word client;
    rg_word operation;
    rg_word detail;
    int rc;
    int wc_status;
    int opcode;
    bool by_target;     /* the speaker is the server of the target */
    bool network_error; /* the three endings of a request */
    bool sent_delay;
    bool slow_reply;
    bool write_failed; /* the server answered one with an error; `operation` is only the first's */
    int64_t number;
    int64_t number_of;
    uint64_t xids[RG_RUN_XIDS]; /* of the first requests */
    size_t xid_count;
    struct rg_stamp first;
    struct rg_stamp last;
    uint64_t order;
    uint64_t order_last;
    uint64_t count;
    uint32_t outages;        /* losses of which the end was seen, one by one */
    int64_t outage_usec_max; /* the longest of them */
    uint32_t parts;          /* how many runs with this key there are, this one included */
    uint32_t hash;
    uint32_t next; /* in the hash chain, +1; 0 ends it */
    rg_word quotes[RG_RUN_QUOTES];
    size_t quote_count;

    /* Set when judged. */
    struct rg_when when_first;
    struct rg_when when_last;
    int clock; /* times of runs with the same number may be compared; -1: no time */
    int64_t start;
    int64_t end;        /* for a loss: until it was restored */
    bool ended;         /* restored */
    bool answered;      /* the element answered this node around that time */
    bool ill;           /* its node had a fault of its own, from the card to the address */
    bool only_observer; /* no other node that is well complains of the element then */
    rg_host_id element; /* whom it is about */
    uint32_t group;     /* union-find */
    uint32_t turn;      /* hush.c's chains */
    int incident;
};

struct rg_moment_seen {
    struct rg_stamp stamp;
    uint32_t boot;
    rg_source_id source;
};

struct rg_node_seen {
    rg_node_id node;
    uint64_t lines;
    uint32_t boots; /* numbers of them; how many they are is told at the end */
    /* Of its stamps of each kind, whichever file they stand in; kind NONE where it has none. */
    struct rg_moment_seen first[RG_STAMP_KINDS];
    struct rg_moment_seen last[RG_STAMP_KINDS];
    /* In the source it was seen in last, not yet in the above. */
    rg_source_id source;
    struct rg_moment_seen source_first[RG_STAMP_KINDS];
    struct rg_moment_seen source_last[RG_STAMP_KINDS];
    rg_word version;
    uint32_t latest_run; /* the one that its last known message was added to, +1; 0: none */
    bool lustre;
};

/* A connection that is down as far as the lines were read. */
struct rg_open_loss {
    rg_node_id node;
    uint32_t boot;
    rg_word target; /* 0: the place is free */
    uint32_t run;
    struct rg_stamp since;
};

#define RG_OPEN_LOSSES 4096 /* a power of two; of two in one place the later is followed */

struct rg_noise_count {
    const struct rg_catalogue_row *row;
    uint64_t count;
    rg_word sample;
};

#define RG_NOISE_MAX 256

struct rg_notes {
    struct rg_phrase items[RG_NOTES_MAX];
    size_t count;
    uint64_t left_out;
};

struct rg_correlation {
    struct rg_correlation_options options;
    struct rg_correlation_sources sources;
    struct rg_pool pool;
    struct rg_map map;
    struct rg_run *runs;
    uint32_t run_count;
    uint32_t *slots;
    struct rg_open_loss *open_losses;        /* RG_OPEN_LOSSES of them, by hash */
    struct rg_row_facts facts[RG_ROW_FACTS]; /* by hash of the row; the latest stays */
    struct rg_node_seen *seen;
    uint32_t *seen_of_node; /* index + 1 */
    uint32_t seen_count;
    struct rg_noise_count noise[RG_NOISE_MAX];
    size_t noise_count;
    uint64_t lines;
    uint64_t matched;
    uint64_t folded;
    uint64_t order;
    rg_word *told; /* names of hosts and racks from the table of hosts; goes to the diagnosis */
    size_t told_count;
    struct rg_state_seen *states; /* RG_STATES_MAX of them; goes to the diagnosis */
    size_t state_count;
    uint64_t states_left_out;
    struct rg_notes clock_notes;
    struct rg_notes hole_notes;
    int base_clock;      /* rg_run.clock of all whose times may be compared; -1: of none */
    bool clocks_guessed; /* two clocks were laid side by side by what both say */
    bool finished;
};

/* judge.c: fills the runs' judged part and numbers the groups that are incidents from 0, in order
 * of time; *ret_count of them. False when out of memory. */
bool rg_judge(struct rg_correlation *correlation, int *ret_count);

/* Whether the runs can lie within `slack` of each other: true too when their times cannot be
 * compared. */
bool rg_runs_are_near(const struct rg_run *a, const struct rg_run *b, int64_t slack_usec);

/* When it began, on the clock that all times are brought to; RG_MAP_LATEST when that is not known.
 */
int64_t rg_run_moment(const struct rg_correlation *correlation, const struct rg_run *run);

/* hush.c: takes the fault from runs that are ordinary where they stand. After the runs have their
 * times and elements, and losses their end; before they are joined. */
void rg_hush(struct rg_correlation *correlation);

/* verdict.c: everything about incident `number` (its index in rg_run.incident). False when out of
 * memory. */
bool rg_verdict(struct rg_correlation *correlation, int number, struct rg_incident *ret_incident);

/* Sentences and lists, for verdict.c and correlate.c. False when out of memory. */
bool rg_words_add(struct rg_words *words, rg_word word); /* once each; at most 64 */
bool rg_phrases_add(struct rg_phrases *phrases, enum rg_phrase_id id, rg_word a, rg_word b,
                    rg_word c, rg_word d);

/* The sentence about a state that is not as it should be. */
bool rg_state_say(const struct rg_state_seen *state, struct rg_phrases *phrases);

/* "4 days 15 hours", "44 s": a duration as a word. */
rg_word rg_duration_word(struct rg_correlation *correlation, int64_t usec);

#endif
