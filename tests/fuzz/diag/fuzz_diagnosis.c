/*
 * All of diagnose over any bytes: readers, clocks, catalogue, correlation, every report, plain and
 * anonymous. The JSON must parse, and no page may gain a script.
 */
#include "diag/anonymise.h"
#include "diag/catalogue.h"
#include "diag/clock.h"
#include "diag/correlate.h"
#include "diag/reading.h"
#include "diag/report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_MAX (64U << 20)

struct memory {
    const uint8_t *at;
    size_t left;
};

static ssize_t read_memory(void *context, char *bytes, size_t room, struct rg_error *err)
{
    (void)err;
    struct memory *memory = context;
    size_t len = memory->left < room ? memory->left : room;
    if (len > 0) {
        memcpy(bytes, memory->at, len);
    }
    memory->at += len;
    memory->left -= len;
    return (ssize_t)len;
}

struct run {
    struct rg_desk desk;
    struct rg_correlation *correlation;
    struct rg_unmatched unmatched;
};

static struct rg_catalogue *catalogue;
static struct rg_repeats *repeats;

static void take(void *context, const struct rg_log_record *record)
{
    struct run *run = context;
    struct rg_event event;
    rg_clocks_note_record(run->desk.clocks, record);
    rg_correlation_saw(run->correlation, record);
    switch (rg_catalogue_match(catalogue, record, &event)) {
    case RG_MATCH_ROW:
        rg_clocks_note_event(run->desk.clocks, &event);
        rg_correlation_add(run->correlation, &event);
        break;
    case RG_MATCH_SUSPECT:
        rg_unmatched_add(&run->unmatched, record);
        break;
    case RG_MATCH_NONE:
        break;
    }
}

static const char *node_name(void *context, rg_node_id node)
{
    struct run *run = context;
    return rg_interned_text(run->desk.nodes, node).ptr;
}

static const char *source_name(void *context, rg_source_id source)
{
    struct run *run = context;
    return rg_interned_text(run->desk.sources, source).ptr;
}

static struct rg_when when(void *context, const struct rg_stamp *stamp, rg_node_id node,
                           uint32_t boot, rg_source_id source)
{
    struct run *run = context;
    struct rg_moment moment = {.node = node, .boot = boot, .source = source, .stamp = *stamp};
    struct rg_time time = rg_clocks_resolve(run->desk.clocks, &moment);
    struct rg_when told = {.kind = RG_WHEN_UTC, .usec = time.usec};
    if (time.basis == RG_TIME_UNSTATED) {
        told.kind = RG_WHEN_LOCAL;
    } else if (time.basis == RG_TIME_RELATIVE) {
        told.kind = RG_WHEN_BOOT;
    } else if (time.basis == RG_TIME_NONE) {
        told.kind = RG_WHEN_UNKNOWN;
    }
    return told;
}

static size_t count_of(struct span text, const char *needle)
{
    size_t found = 0;
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;
    while ((at = memmem(at, (size_t)(end - at), needle, strlen(needle)))) {
        found++;
        at++;
    }
    return found;
}

static void report(const struct rg_diagnosis *diagnosis)
{
    RG_BUF(out, REPORT_MAX);
    rg_diagnosis_json(diagnosis, &out);
    json_t *tree = json_loadb(rg_buf_text(&out), out.len, 0, NULL);
    if (!rg_buf_ok(&out) || !tree) {
        abort();
    }
    json_decref(tree);
    for (int language = 0; language < RG_LANGUAGE_COUNT; language++) {
        rg_buf_clear(&out);
        rg_diagnosis_html(diagnosis, (enum rg_language)language, &out);
        if (count_of(rg_buf_span(&out), "<script") != 1 || !rg_span_is_utf8(rg_buf_span(&out))) {
            abort();
        }
        rg_buf_clear(&out);
        rg_diagnosis_markdown(diagnosis, (enum rg_language)language, &out);
        rg_diagnosis_text(diagnosis, (enum rg_language)language, false, &out);
        if (!rg_span_is_utf8(rg_buf_span(&out)) || count_of(rg_buf_span(&out), "\x1b") != 0) {
            abort();
        }
    }
}

static void judge(struct run *run)
{
    struct rg_diagnosis *diagnosis = NULL;
    if (rg_correlation_finish(run->correlation, &run->unmatched, &diagnosis, NULL) == 0) {
        report(diagnosis);
        if (rg_diagnosis_anonymise(diagnosis, NULL, 0, NULL) == 0) {
            report(diagnosis);
        }
    }
    rg_diagnosis_free(diagnosis);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if ((!catalogue && rg_catalogue_open(NULL, 0, &catalogue, NULL) < 0) ||
        (!repeats && rg_repeats_new(&repeats, NULL) < 0)) {
        abort();
    }
    struct run run = {.desk = {.take = take, .repeats = repeats, .context = &run}};
    struct memory memory = {data, size};
    struct rg_stream stream = {read_memory, &memory};
    struct rg_correlation_sources sources = {&run, node_name, source_name, when};
    struct rg_lines *lines = NULL;
    if (rg_interned_new(1000, &run.desk.nodes, NULL) == 0 &&
        rg_interned_new(1000, &run.desk.sources, NULL) == 0 &&
        rg_boots_new(&run.desk.boots, NULL) == 0 && rg_clocks_new(&run.desk.clocks, NULL) == 0 &&
        rg_correlation_open(NULL, &sources, &run.correlation, NULL) == 0 &&
        rg_lines_new(&stream, 4096, &lines, NULL) == 0) {
        struct rg_source_facts facts = {
            .source = 1, .family = 1, .reference_usec = INT64_C(1795978800000000)};
        rg_reading_run(&run.desk, &facts, lines, NULL);
        rg_clocks_settle(run.desk.clocks);
        judge(&run);
    }
    rg_lines_free(lines);
    rg_correlation_close(run.correlation);
    rg_unmatched_free(&run.unmatched);
    rg_clocks_free(run.desk.clocks);
    rg_boots_free(run.desk.boots);
    rg_interned_free(run.desk.sources);
    rg_interned_free(run.desk.nodes);
    return 0;
}
