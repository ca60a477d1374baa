/*
 * Correlation: from events to incidents (diagnosis.md section 3).
 *
 * Events are added in the order of the input and kept only as runs: one kind of message from one
 * node about one subject, with first and last stamp, a count and a few quoted lines. Memory does
 * not grow with the input; what meets a ceiling is counted (rg_coverage.folded). Times are resolved
 * at the end, when all that the logs say about the clocks has been read.
 */
#ifndef RG_DIAG_CORRELATE_H
#define RG_DIAG_CORRELATE_H

#include "base/error.h"
#include "diag/diagnosis.h"
#include "diag/event.h"
#include "diag/hosts.h"
#include "diag/state.h"

struct rg_correlation;

/* Who knows names and times. All borrowed; called only within the calls below. */
struct rg_correlation_sources {
    void *context;
    /* The names; NULL or "" when not known. Valid until the next call. */
    const char *(*node_name)(void *context, rg_node_id node);
    const char *(*source_name)(void *context, rg_source_id source);
    /* The absolute time of a stamp. Kind RG_WHEN_UTC (or RG_WHEN_LOCAL: wall clock of a zone that
     * nobody stated), or RG_WHEN_BOOT / RG_WHEN_UNKNOWN when it cannot be told. */
    struct rg_when (*when)(void *context, const struct rg_stamp *stamp, rg_node_id node,
                           uint32_t boot, rg_source_id source);
    /* What a wall clock's stamp says in the year it is of; asked once its source has been read.
     * NULL: all stamps have their years. */
    int64_t (*in_year)(void *context, const struct rg_stamp *stamp, rg_node_id node,
                       rg_source_id source);
    /* Which boot the number of one stands for, as far as was read: itself, or a smaller one that
     * turned out to be the same. NULL: each is one of its own. */
    uint32_t (*same_boot)(void *context, rg_node_id node, uint32_t boot);
};

/* Time windows, in seconds; diagnosis.md 3.3 has the reasons. 0 takes the default. */
struct rg_correlation_options {
    int64_t window_sec;      /* quiet time that ends an incident; default 300 */
    int64_t cause_late_sec;  /* how long after the first symptom a cause may still be logged; 20 */
    int64_t cause_early_sec; /* how long before the first symptom a cause may lie; 900 */
};

/* Fails with RG_OUT_OF_MEMORY only. The sources are copied. */
int rg_correlation_open(const struct rg_correlation_options *options,
                        const struct rg_correlation_sources *sources,
                        struct rg_correlation **ret_correlation, struct rg_error *err);
void rg_correlation_close(struct rg_correlation *correlation);

/* Every record of the input, before its event (if it is one): counts lines and notes when each node
 * spoke, so that a silent node can be told from an absent one. */
void rg_correlation_saw(struct rg_correlation *correlation, const struct rg_log_record *record);

/* A record that the catalogue knows. Never fails: what cannot be kept is counted. */
void rg_correlation_add(struct rg_correlation *correlation, const struct rg_event *event);

/* What a dump of state says (copied): a part of the map, and evidence; no event. */
void rg_correlation_learn(struct rg_correlation *correlation, const struct rg_log_record *record,
                          const struct rg_state_fact *fact);

/* Something about the clocks or missing lines that a report must say: a sentence and the texts for
 * its gaps (copied; NULL where it has none). */
void rg_correlation_note_clock(struct rg_correlation *correlation, enum rg_phrase_id sentence,
                               const char *const words[RG_PHRASE_WORDS_MAX]);
void rg_correlation_note_hole(struct rg_correlation *correlation, enum rg_phrase_id sentence,
                              const char *const words[RG_PHRASE_WORDS_MAX]);

/* What a site's table of hosts says (copied). After the last event. False when out of memory. */
bool rg_correlation_tell_hosts(struct rg_correlation *correlation, const struct rg_hosts *hosts);

/* The verdicts; `unmatched` (may be NULL) goes into the diagnosis. May be called once; the
 * correlation can only be closed afterwards. Fails with RG_OUT_OF_MEMORY. The caller frees the
 * diagnosis, which borrows the catalogue's rows. */
int rg_correlation_finish(struct rg_correlation *correlation, const struct rg_unmatched *unmatched,
                          struct rg_diagnosis **ret_diagnosis, struct rg_error *err);

#endif
