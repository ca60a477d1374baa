/*
 * The readers of logs over any bytes: shapes, blocks, journal exports, repeats, boots, clocks. The
 * first byte says in what pieces the rest arrives. What is handed on must be sound.
 */
#include "diag/clock.h"
#include "diag/reading.h"
#include "diag/seen.h"

#include <stdlib.h>
#include <string.h>

struct memory {
    const uint8_t *at;
    size_t left;
    size_t piece;
};

static ssize_t read_memory(void *context, char *bytes, size_t room, struct rg_error *err)
{
    (void)err;
    struct memory *memory = context;
    size_t len = memory->left < room ? memory->left : room;
    len = memory->piece != 0 && len > memory->piece ? memory->piece : len;
    if (len > 0) {
        memcpy(bytes, memory->at, len);
    }
    memory->at += len;
    memory->left -= len;
    return (ssize_t)len;
}

struct watch {
    struct rg_desk desk;
    struct rg_seen *seen;
};

/* Large tables of fixed size, which no input can break by what it leaves there. */
static struct rg_seen *seen;
static struct rg_repeats *repeats;

/* Touches every byte that is borrowed, so that a sanitizer sees what is not there. */
static unsigned sum(struct span span)
{
    unsigned total = 0;
    for (size_t i = 0; i < span.len; i++) {
        total += (unsigned char)span.ptr[i];
    }
    return total;
}

static void take(void *context, const struct rg_log_record *record)
{
    struct watch *watch = context;
    if (record->text.len == 0 || record->text.len > RG_LINE_BYTES_MAX + 16 ||
        record->priority < -1 || record->priority > 7 || sum(record->text) == UINT32_MAX ||
        sum(record->program) == UINT32_MAX) {
        abort();
    }
    rg_clocks_note_record(watch->desk.clocks, record);
    rg_seen_before(watch->seen, record);
    struct rg_moment moment = rg_moment_of(record);
    rg_clocks_resolve(watch->desk.clocks, &moment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct watch watch = {.desk = {.take = take, .context = &watch}};
    struct memory memory = {data, size, 0};
    if (size > 0) {
        memory = (struct memory){data + 1, size - 1, data[0]};
    }
    struct rg_stream stream = {read_memory, &memory};
    struct rg_lines *lines = NULL;
    if (rg_interned_new(1000, &watch.desk.nodes, NULL) == 0 &&
        rg_interned_new(1000, &watch.desk.sources, NULL) == 0 &&
        rg_boots_new(&watch.desk.boots, NULL) == 0 &&
        (repeats || rg_repeats_new(&repeats, NULL) == 0) &&
        rg_clocks_new(&watch.desk.clocks, NULL) == 0 && (seen || rg_seen_new(&seen, NULL) == 0) &&
        rg_lines_new(&stream, 4096, &lines, NULL) == 0) {
        watch.seen = seen;
        watch.desk.repeats = repeats;
        struct rg_source_facts facts = {
            .source = 1, .family = 1, .reference_usec = INT64_C(1795978800000000)};
        rg_reading_run(&watch.desk, &facts, lines, NULL);
        rg_clocks_settle(watch.desk.clocks);
    }
    rg_lines_free(lines);
    rg_clocks_free(watch.desk.clocks);
    rg_boots_free(watch.desk.boots);
    rg_interned_free(watch.desk.sources);
    rg_interned_free(watch.desk.nodes);
    return 0;
}
