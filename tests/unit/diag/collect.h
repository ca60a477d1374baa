/*
 * For the tests of the readers: feeds text or files through them and keeps copies of the records.
 */
#ifndef RG_TESTS_DIAG_COLLECT_H
#define RG_TESTS_DIAG_COLLECT_H

#include "diag/reading.h"
#include "diag/source.h"

#include <stdio.h>
#include <stdlib.h>

#define COLLECTED_MAX 5000

struct collected {
    struct rg_log_record record; /* its spans point to the strings below */
    char *text;
    char *program;
    const char *node;
};

struct collector {
    struct rg_desk desk;
    struct collected items[COLLECTED_MAX];
    size_t count;
    size_t piece; /* bytes a read gives; 0: as many as wanted */
};

static inline void collect(void *context, const struct rg_log_record *record)
{
    struct collector *all = context;
    assert_true(all->count < COLLECTED_MAX);
    struct collected *item = &all->items[all->count++];
    item->record = *record;
    item->text = rg_span_dup(record->text);
    item->program = rg_span_dup(record->program);
    item->record.text.ptr = item->text;
    item->record.program.ptr = item->program;
    item->node = rg_interned_text(all->desk.nodes, record->node).ptr;
    if (all->desk.clocks) {
        rg_clocks_note_record(all->desk.clocks, record);
    }
}

static inline struct collector *collector_new(void)
{
    struct collector *all = calloc(1, sizeof(*all));
    assert_non_null(all);
    assert_int_equal(rg_interned_new(RG_NODES_MAX, &all->desk.nodes, NULL), 0);
    assert_int_equal(rg_interned_new(RG_SOURCES_MAX, &all->desk.sources, NULL), 0);
    assert_int_equal(rg_boots_new(&all->desk.boots, NULL), 0);
    assert_int_equal(rg_repeats_new(&all->desk.repeats, NULL), 0);
    assert_int_equal(rg_clocks_new(&all->desk.clocks, NULL), 0);
    all->desk.take = collect;
    all->desk.context = all;
    return all;
}

static inline void collector_free(struct collector *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].text);
        free(all->items[i].program);
    }
    rg_interned_free(all->desk.nodes);
    rg_interned_free(all->desk.sources);
    rg_boots_free(all->desk.boots);
    rg_repeats_free(all->desk.repeats);
    rg_clocks_free(all->desk.clocks);
    free(all);
}

struct memory_stream {
    struct span rest;
    size_t piece;
};

static inline ssize_t read_memory(void *context, char *bytes, size_t room, struct rg_error *err)
{
    (void)err;
    struct memory_stream *memory = context;
    size_t len = memory->rest.len < room ? memory->rest.len : room;
    if (memory->piece != 0 && len > memory->piece) {
        len = memory->piece;
    }
    memcpy(bytes, memory->rest.ptr, len);
    memory->rest = rg_span_skip(memory->rest, len);
    return (ssize_t)len;
}

/* Reads `text` as one source named `name`; lines that name no node are of `node`. */
static inline void collect_span(struct collector *all, const char *name, const char *node,
                                int64_t reference_usec, struct span text)
{
    struct memory_stream memory = {text, all->piece};
    struct rg_stream stream = {read_memory, &memory};
    struct rg_lines *lines;
    assert_int_equal(rg_lines_new(&stream, RG_LINE_BYTES_MAX, &lines, NULL), 0);
    struct rg_source_facts facts = {
        .source = rg_interned_add(all->desk.sources, rg_span_text(name)),
        .family = rg_interned_add(all->desk.sources, rg_span_text(name)),
        .node = rg_nodes_add(all->desk.nodes, rg_span_text(node)),
        .reference_usec = reference_usec,
    };
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_reading_run(&all->desk, &facts, lines, &err), 0);
    rg_lines_free(lines);
}

/* 2026-11-29 19:00 UTC */
#define REFERENCE_USEC (INT64_C(1795978800) * 1000000)

static inline void collect_text(struct collector *all, const char *text)
{
    collect_span(all, "source", NULL, REFERENCE_USEC, rg_span_text(text));
}

static inline void assert_text(const struct collector *all, size_t i, const char *text)
{
    assert_true(i < all->count);
    assert_string_equal(all->items[i].text, text);
}

static inline void assert_node(const struct collector *all, size_t i, const char *node)
{
    assert_true(i < all->count);
    assert_string_equal(all->items[i].node, node);
}

static inline void assert_stamp(const struct collector *all, size_t i, enum rg_stamp_kind kind,
                                int64_t usec)
{
    assert_true(i < all->count);
    assert_int_equal(all->items[i].record.stamp.kind, kind);
    assert_int_equal(all->items[i].record.stamp.usec, usec);
}

#endif
