/*
 * The loop over records, and what the readers know that a report must say: clocks, holes, problems.
 */
#include "diag/pipeline.h"

#include "base/attr.h"
#include "base/buf.h"

#include "diag/clock.h"
#include "diag/correlate.h"
#include "diag/holes.h"
#include "diag/labels.h"
#include "diag/reading.h"
#include "diag/seen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEC            INT64_C(1000000)
#define NODES_TOLD_MAX 64 /* clocks of further nodes are summed up */
#define SENTENCE_MAX   1024
#define STATES         256 /* dumps that may be open at once */

struct rg_pipeline {
    struct rg_desk desk;
    struct rg_inputs *inputs;
    struct rg_catalogue *catalogue;
    struct rg_correlation *correlation;
    struct rg_seen *seen;
    struct rg_holes *holes;
    struct rg_hosts hosts;
    struct rg_state states[STATES]; /* of nodes, whose lines pdsh mingles, by their number */
    struct rg_state *dump;          /* the one read last */
    struct rg_unmatched unmatched;
    struct {
        struct span text;
        rg_source_id source;
        uint64_t line;
        enum rg_match match;
        struct rg_event event;
    } last;            /* a line of a block that names many nodes is matched once */
    rg_source_id ring; /* looked at already, whether it is the ring of a sos report */
    uint64_t events;
    uint64_t twice;
    uint64_t suspect;
};

void rg_pipeline_close(struct rg_pipeline *pipeline)
{
    if (!pipeline) {
        return;
    }
    if (pipeline->correlation) {
        rg_correlation_close(pipeline->correlation);
    }
    rg_unmatched_free(&pipeline->unmatched);
    rg_inputs_free(pipeline->inputs);
    rg_seen_free(pipeline->seen);
    rg_holes_free(pipeline->holes);
    rg_hosts_free(&pipeline->hosts);
    rg_boots_free(pipeline->desk.boots);
    rg_repeats_free(pipeline->desk.repeats);
    rg_clocks_free(pipeline->desk.clocks);
    rg_interned_free(pipeline->desk.nodes);
    rg_interned_free(pipeline->desk.sources);
    if (pipeline->catalogue) {
        rg_catalogue_free(pipeline->catalogue);
    }
    free(pipeline);
}

/* ---- Records ---- */

static void take_event(struct rg_pipeline *pipeline, const struct rg_log_record *record,
                       const struct rg_event *event)
{
    rg_clocks_note_event(pipeline->desk.clocks, event);
    if (rg_seen_before(pipeline->seen, record)) {
        pipeline->twice++;
        return;
    }
    pipeline->events++;
    rg_correlation_add(pipeline->correlation, event);
}

/* True: the line was state, and is no message ("failover_nids" looks like an error). */
static bool take_state(struct rg_pipeline *pipeline, const struct rg_log_record *record)
{
    struct rg_state_fact fact;
    struct rg_state *state = &pipeline->states[record->node % STATES];
    if (record->stamp.kind != RG_STAMP_NONE) {
        state->dump = RG_DUMP_NONE;
        if (!record->prefixed) {
            pipeline->dump->dump = RG_DUMP_NONE;
        }
        return false;
    }
    pipeline->dump = state;
    enum rg_state_line line = rg_state_read(
        state, record, rg_interned_text(pipeline->desk.sources, record->source), &fact);
    if (line == RG_STATE_FACT) {
        rg_correlation_learn(pipeline->correlation, record, &fact);
    }
    return line != RG_STATE_NO;
}

/* The event is pipeline->last.event. */
static enum rg_match match(struct rg_pipeline *pipeline, const struct rg_log_record *record)
{
    if (record->line != pipeline->last.line || record->source != pipeline->last.source ||
        record->text.ptr != pipeline->last.text.ptr ||
        record->text.len != pipeline->last.text.len || record->recalled) {
        pipeline->last.match = RG_MATCH_NONE;
        if (rg_catalogue_seek(pipeline->catalogue, record)) {
            rg_seen_expect(pipeline->seen, record); /* whether it is known is asked next */
            pipeline->last.match =
                rg_catalogue_decide(pipeline->catalogue, record, &pipeline->last.event);
        }
        pipeline->last.text = record->recalled ? RG_SPAN_EMPTY : record->text;
        pipeline->last.source = record->source;
        pipeline->last.line = record->line;
    }
    pipeline->last.event.record = record;
    return pipeline->last.match;
}

/* The kernel's ring of a sos report is of the boot that its uptime speaks of. */
static void note_ring(struct rg_pipeline *pipeline, const struct rg_log_record *record)
{
    if (record->stamp.kind != RG_STAMP_BOOT) {
        return;
    }
    pipeline->ring = record->source;
    struct span name = rg_interned_text(pipeline->desk.sources, record->source);
    static const char path[] = "sos_commands/kernel/dmesg";
    if (name.len >= sizeof(path) - 1 && memmem(name.ptr, name.len, path, sizeof(path) - 1)) {
        rg_clocks_note_ring(pipeline->desk.clocks, record->node, record->boot);
    }
}

static void take_record(void *context, const struct rg_log_record *record)
{
    struct rg_pipeline *pipeline = context;
    if (record->source != pipeline->ring) {
        note_ring(pipeline, record);
    }
    rg_clocks_note_record(pipeline->desk.clocks, record);
    rg_holes_note(pipeline->holes, record);
    rg_correlation_saw(pipeline->correlation, record);
    if (take_state(pipeline, record)) {
        return;
    }
    switch (match(pipeline, record)) {
    case RG_MATCH_NONE:
        break;
    case RG_MATCH_SUSPECT:
        if (!rg_seen_before(pipeline->seen, record)) {
            pipeline->suspect++;
            rg_unmatched_add(&pipeline->unmatched, record);
        }
        break;
    case RG_MATCH_ROW:
        take_event(pipeline, record, &pipeline->last.event);
        break;
    }
}

/* ---- What correlation asks ---- */

static const char *node_name(void *context, rg_node_id node)
{
    struct rg_pipeline *pipeline = context;
    return rg_interned_text(pipeline->desk.nodes, node).ptr;
}

static const char *source_name(void *context, rg_source_id source)
{
    struct rg_pipeline *pipeline = context;
    return rg_interned_text(pipeline->desk.sources, source).ptr;
}

static struct rg_when when(void *context, const struct rg_stamp *stamp, rg_node_id node,
                           uint32_t boot, rg_source_id source)
{
    struct rg_pipeline *pipeline = context;
    struct rg_moment moment = {.node = node, .boot = boot, .source = source, .stamp = *stamp};
    struct rg_time time = rg_clocks_resolve(pipeline->desk.clocks, &moment);
    struct rg_when told = {.kind = RG_WHEN_UTC,
                           .usec = time.usec,
                           .uncertain_usec = time.uncertainty_usec < 0 ? 0 : time.uncertainty_usec};
    switch (time.basis) {
    case RG_TIME_STATED:
    case RG_TIME_PROVEN:
    case RG_TIME_GIVEN:
    case RG_TIME_ASSUMED:
        break;
    case RG_TIME_UNSTATED:
        told.kind = RG_WHEN_LOCAL;
        break;
    case RG_TIME_RELATIVE:
        told.kind = RG_WHEN_BOOT;
        break;
    case RG_TIME_NONE:
        told.kind = RG_WHEN_UNKNOWN;
        break;
    }
    return told;
}

static int64_t in_year(void *context, const struct rg_stamp *stamp, rg_node_id node,
                       rg_source_id source)
{
    struct rg_pipeline *pipeline = context;
    struct rg_moment moment = {.node = node, .source = source, .stamp = *stamp};
    return rg_clocks_in_year(pipeline->desk.clocks, &moment);
}

static uint32_t same_boot(void *context, rg_node_id node, uint32_t boot)
{
    struct rg_pipeline *pipeline = context;
    return rg_boots_same(pipeline->desk.boots, node, boot);
}

/* ---- Opening ---- */

static int open_desk(struct rg_pipeline *pipeline, struct rg_error *err)
{
    struct rg_desk *desk = &pipeline->desk;
    int rc = rg_interned_new(RG_NODES_MAX, &desk->nodes, err);
    rc = rc < 0 ? rc : rg_interned_new(RG_SOURCES_MAX, &desk->sources, err);
    rc = rc < 0 ? rc : rg_boots_new(&desk->boots, err);
    rc = rc < 0 ? rc : rg_repeats_new(&desk->repeats, err);
    rc = rc < 0 ? rc : rg_clocks_new(&desk->clocks, err);
    rc = rc < 0 ? rc : rg_seen_new(&pipeline->seen, err);
    rc = rc < 0 ? rc : rg_holes_new(&pipeline->holes, err);
    desk->take = take_record;
    desk->context = pipeline;
    return rc;
}

int rg_pipeline_open(const struct rg_pipeline_options *options, struct rg_pipeline **ret_pipeline,
                     struct rg_error *err)
{
    struct rg_pipeline *pipeline = calloc(1, sizeof(*pipeline));
    if (!pipeline) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    pipeline->dump = pipeline->states;
    struct rg_correlation_options windows = {0};
    struct rg_correlation_sources sources = {.context = pipeline,
                                             .node_name = node_name,
                                             .source_name = source_name,
                                             .when = when,
                                             .in_year = in_year,
                                             .same_boot = same_boot};
    int rc = open_desk(pipeline, err);
    rc = rc < 0 ? rc : rg_inputs_new(&pipeline->desk, &options->inputs, &pipeline->inputs, err);
    rc = rc < 0 ? rc
                : rg_catalogue_open(options->rules_files, options->rules_count,
                                    &pipeline->catalogue, err);
    if (rc == 0 && options->hosts_file) {
        rc = rg_hosts_load(options->hosts_file, &pipeline->hosts, err);
    }
    rc = rc < 0 ? rc : rg_correlation_open(&windows, &sources, &pipeline->correlation, err);
    if (rc < 0) {
        rg_pipeline_close(pipeline);
        return rc;
    }
    *ret_pipeline = pipeline;
    return 0;
}

int rg_pipeline_set_zone(struct rg_pipeline *pipeline, const char *text, struct rg_error *err)
{
    const char *equals = strchr(text, '=');
    rg_node_id node = 0;
    if (equals) {
        node = rg_nodes_add(pipeline->desk.nodes, rg_span(text, (size_t)(equals - text)));
        if (node == 0) {
            return rg_failf(err, RG_SETTING, "\"%.64s\" names no node", text);
        }
    }
    return rg_clocks_set_zone(pipeline->desk.clocks, node, equals ? equals + 1 : text, err);
}

int rg_pipeline_add(struct rg_pipeline *pipeline, const char *path, struct rg_error *err)
{
    return rg_inputs_add(pipeline->inputs, path, err);
}

int rg_pipeline_add_live(struct rg_pipeline *pipeline, struct rg_error *err)
{
    return rg_inputs_add_live(pipeline->inputs, err);
}

/* ---- What a report must say about the input ---- */

static void note_clock(struct rg_pipeline *pipeline, enum rg_phrase_id sentence, const char *name,
                       const char *fact, const char *evidence)
{
    const char *const words[RG_PHRASE_WORDS_MAX] = {name, fact, evidence};
    rg_correlation_note_clock(pipeline->correlation, sentence, words);
}

/* A sentence about seconds ahead or behind. */
static void note_seconds(struct rg_pipeline *pipeline, enum rg_phrase_id ahead,
                         enum rg_phrase_id behind, const char *name, int64_t usec)
{
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%" PRId64, (int64_t)llabs(usec / SEC));
    note_clock(pipeline, usec < 0 ? behind : ahead, name, seconds, NULL);
}

static void note_zone(struct rg_pipeline *pipeline, const char *name,
                      const struct rg_node_clock *clock)
{
    char zone[32];
    char evidence[16];
    int east = abs(clock->zone_s);
    snprintf(zone, sizeof(zone), "UTC%c%02d:%02d", clock->zone_s < 0 ? '-' : '+', east / 3600,
             east / 60 % 60);
    snprintf(evidence, sizeof(evidence), "%u", clock->evidence);
    note_clock(pipeline, clock->zone_by_date ? RG_PHRASE_CLOCK_DATE : RG_PHRASE_CLOCK_ZONE, name,
               zone, evidence);
}

/* What is worth a sentence: a zone that was found, and everything that is wrong with a clock. */
static void tell_clock(struct rg_pipeline *pipeline, rg_node_id node,
                       const struct rg_node_clock *clock)
{
    const char *name = rg_interned_text(pipeline->desk.nodes, node).ptr;
    name = name && *name ? name : RG_WORD_UNNAMED;
    if (clock->zone_known && !clock->zone_given) {
        note_zone(pipeline, name, clock);
    }
    if (llabs(clock->drift_usec / SEC) > 2) {
        note_seconds(pipeline, RG_PHRASE_CLOCK_AHEAD, RG_PHRASE_CLOCK_BEHIND, name,
                     clock->drift_usec);
    }
    if (clock->skew_known) {
        note_seconds(pipeline, RG_PHRASE_CLOCK_SKEW_AHEAD, RG_PHRASE_CLOCK_SKEW_BEHIND, name,
                     clock->skew_usec);
    }
    if (clock->years_corrected) {
        note_clock(pipeline, RG_PHRASE_CLOCK_YEAR, name, NULL, NULL);
    }
}

static void tell_clocks(struct rg_pipeline *pipeline)
{
    uint32_t told = 0;
    uint32_t nodes = rg_interned_count(pipeline->desk.nodes);
    for (rg_node_id node = 0; node <= nodes && told < NODES_TOLD_MAX; node++) {
        struct rg_node_clock clock;
        if (rg_clocks_describe(pipeline->desk.clocks, node, &clock)) {
            tell_clock(pipeline, node, &clock);
            told++;
        }
    }
}

static void note_hole(struct rg_pipeline *pipeline, enum rg_phrase_id sentence, const char *first,
                      const char *second, const char *third)
{
    const char *const words[RG_PHRASE_WORDS_MAX] = {first, second, third};
    rg_correlation_note_hole(pipeline->correlation, sentence, words);
}

static void tell_hole(void *context, enum rg_phrase_id sentence, struct span name, uint64_t count)
{
    char number[32];
    RG_BUF(text, SENTENCE_MAX);
    snprintf(number, sizeof(number), "%" PRIu64, count);
    rg_buf_add_span(&text, name);
    note_hole(context, sentence, rg_buf_text(&text), number, NULL);
}

static void tell_problems(struct rg_pipeline *pipeline)
{
    size_t count;
    uint64_t left_out;
    const struct rg_problem *problems = rg_inputs_problems(pipeline->inputs, &count, &left_out);
    for (size_t i = 0; i < count; i++) {
        if (problems[i].kind != RG_PROBLEM_SKIPPED) {
            note_hole(pipeline, RG_PHRASE_HOLE_INPUT, problems[i].source,
                      problems[i].sentence[RG_ENGLISH], problems[i].sentence[RG_KOREAN]);
        }
    }
    uint64_t refused =
        rg_interned_refused(pipeline->desk.nodes) + rg_interned_refused(pipeline->desk.sources);
    if (refused > 0) {
        char nodes[16];
        char sources[16];
        char names[32];
        snprintf(nodes, sizeof(nodes), "%d", RG_NODES_MAX);
        snprintf(sources, sizeof(sources), "%d", RG_SOURCES_MAX);
        snprintf(names, sizeof(names), "%" PRIu64, refused);
        note_hole(pipeline, RG_PHRASE_HOLE_NAMES, nodes, sources, names);
    }
}

int rg_pipeline_run(struct rg_pipeline *pipeline, struct rg_diagnosis **ret_diagnosis,
                    struct rg_error *err)
{
    int rc = rg_inputs_read(pipeline->inputs, err);
    if (rc < 0) {
        return rc;
    }
    if (!rg_correlation_tell_hosts(pipeline->correlation, &pipeline->hosts)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rg_clocks_join_boots(pipeline->desk.clocks, pipeline->desk.boots);
    rg_clocks_settle(pipeline->desk.clocks);
    tell_clocks(pipeline);
    tell_problems(pipeline);
    rg_holes_tell(pipeline->holes, pipeline->desk.nodes, tell_hole, pipeline);
    return rg_correlation_finish(pipeline->correlation, &pipeline->unmatched, ret_diagnosis, err);
}

const struct rg_inputs *rg_pipeline_inputs(const struct rg_pipeline *pipeline)
{
    return pipeline->inputs;
}

struct rg_pipeline_counts rg_pipeline_counts(const struct rg_pipeline *pipeline)
{
    struct rg_pipeline_counts counts = {
        .sources = rg_inputs_read_count(pipeline->inputs),
        .lines = pipeline->desk.counts.lines,
        .truncated = pipeline->desk.counts.truncated,
        .records = pipeline->desk.counts.records,
        .events = pipeline->events,
        .twice = pipeline->twice,
        .suspect = pipeline->suspect,
        .gave_up = rg_catalogue_limits_hit(pipeline->catalogue),
        .names_refused =
            rg_interned_refused(pipeline->desk.nodes) + rg_interned_refused(pipeline->desk.sources),
    };
    memcpy(counts.shapes, pipeline->desk.counts.shapes, sizeof(counts.shapes));
    return counts;
}
