/*
 * Two direct-mapped tables of messages: the last one of each site (file, line, function) of a
 * node's Lustre, and the last one of each node in a syslog source.
 */
#include "diag/repeats.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

#define SITES         2048 /* powers of two */
#define LASTS         256
#define TEXT_MAX      768
#define PROGRAM_MAX   32
#define SITE_SCAN_MAX 160

struct message {
    uint64_t key; /* 0: free */
    uint16_t len;
    uint8_t program_len;
    int8_t priority;
    uint8_t speaker;
    char program[PROGRAM_MAX];
    char text[TEXT_MAX];
};

struct rg_repeats {
    struct message sites[SITES];
    struct message lasts[LASTS];
};

int rg_repeats_new(struct rg_repeats **ret_repeats, struct rg_error *err)
{
    *ret_repeats = calloc(1, sizeof(struct rg_repeats));
    return *ret_repeats ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

void rg_repeats_free(struct rg_repeats *repeats)
{
    free(repeats);
}

static uint64_t hash_bytes(uint64_t seed, struct span bytes)
{
    uint64_t hash = seed * 0x9e3779b97f4a7c15u + 0xcbf29ce484222325u;
    for (uint64_t word; bytes.len >= sizeof(word); bytes = rg_span_skip(bytes, sizeof(word))) {
        memcpy(&word, bytes.ptr, sizeof(word));
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    uint64_t tail = bytes.len;
    for (size_t i = 0; i < bytes.len; i++) {
        tail = tail << 8 | (unsigned char)bytes.ptr[i];
    }
    hash = (hash ^ tail) * 0xff51afd7ed558ccdu;
    return (hash ^ (hash >> 31)) | 1;
}

static void store(struct message *message, uint64_t key, const struct rg_log_record *record)
{
    message->key = key;
    message->len = (uint16_t)RG_MIN(record->text.len, (size_t)TEXT_MAX);
    message->program_len = (uint8_t)RG_MIN(record->program.len, (size_t)PROGRAM_MAX);
    message->priority = (int8_t)record->priority;
    message->speaker = (uint8_t)record->speaker;
    memcpy(message->text, record->text.ptr, message->len);
    memcpy(message->program, record->program.ptr, message->program_len);
}

/* "file.c:LINE:function" of a text like "LustreError: 123:0:(file.c:LINE:function()) …". */
static bool find_site(struct span text, struct span *ret_site, struct span *ret_rest)
{
    if (text.len == 0 || (text.ptr[0] != 'L' && text.ptr[0] != '(')) {
        return false;
    }
    struct span head = rg_span_head(text, SITE_SCAN_MAX);
    const char *open = memchr(head.ptr, '(', head.len);
    if (!open) {
        return false;
    }
    size_t skip = (size_t)(open - head.ptr) + 1;
    /* "()) ": no other ")" comes before it. */
    const char *close = memchr(open + 1, ')', head.len - skip);
    if (!close || close < open + 2 || close[-1] != '(' ||
        (size_t)(close - head.ptr) + 2 >= head.len || close[1] != ')' || close[2] != ' ') {
        return false;
    }
    close--;
    *ret_site = rg_span(open + 1, (size_t)(close - open) - 1);
    *ret_rest = rg_span_skip(text, (size_t)(close - text.ptr) + 4);
    return true;
}

/* The number behind `before` when text begins so; *ret_rest is what follows the number. */
static bool take_count(struct span text, struct span before, uint64_t *ret_count,
                       struct span *ret_rest)
{
    if (!rg_span_starts(text, before)) {
        return false;
    }
    struct span rest = rg_span_skip(text, before.len);
    size_t digits = 0;
    while (digits < rest.len && digits < 18 && rest.ptr[digits] >= '0' && rest.ptr[digits] <= '9') {
        digits++;
    }
    *ret_rest = rg_span_skip(rest, digits);
    return rg_span_to_u64(rg_span_head(rest, digits), ret_count) && *ret_count > 0;
}

static void recall(const struct message *message, uint64_t count, struct rg_log_record *record)
{
    record->text = rg_span(message->text, message->len);
    record->repeats = count - 1;
    record->recalled = true;
}

/* Lustre's own limiter, and remembering the messages it will speak of. */
static void expand_site(struct rg_repeats *repeats, struct rg_log_record *record)
{
    struct span site, rest, behind;
    uint64_t count;
    if (!find_site(record->text, &site, &rest)) {
        return;
    }
    uint64_t key = hash_bytes(record->node, site);
    struct message *message = &repeats->sites[(key >> 7) & (SITES - 1)];
    if (!take_count(rest, RG_SPAN_LITERAL("Skipped "), &count, &behind) ||
        !rg_span_starts(behind, RG_SPAN_LITERAL(" previous similar message"))) {
        store(message, key, record);
    } else if (message->key == key) {
        recall(message, count, record);
    }
}

/* rsyslog: the repeated text stands in brackets. */
static bool expand_bracketed(struct rg_log_record *record)
{
    struct span rest;
    uint64_t count;
    if (!take_count(record->text, RG_SPAN_LITERAL("message repeated "), &count, &rest) ||
        !rg_span_starts(rest, RG_SPAN_LITERAL(" times: ["))) {
        return false;
    }
    rest = rg_span_trim(rg_span_skip(rest, sizeof(" times: [") - 1));
    if (rest.len > 0 && rest.ptr[rest.len - 1] == ']') {
        rest.len--;
    }
    record->text = rest;
    record->repeats = count - 1;
    record->recalled = true;
    return true;
}

/* Older daemons: the line before, of the same host. */
static void expand_last(struct rg_repeats *repeats, struct rg_log_record *record)
{
    uint64_t key = hash_bytes(((uint64_t)record->source << 32) | record->node, RG_SPAN_EMPTY);
    struct message *message = &repeats->lasts[(key >> 7) & (LASTS - 1)];
    struct span rest;
    uint64_t count;
    if (!take_count(record->text, RG_SPAN_LITERAL("last message repeated "), &count, &rest) ||
        !rg_span_starts(rest, RG_SPAN_LITERAL(" time"))) {
        store(message, key, record);
        return;
    }
    if (message->key != key) {
        return;
    }
    recall(message, count, record);
    record->speaker = (enum rg_speaker)message->speaker;
    record->priority = message->priority;
    record->program = rg_span(message->program, message->program_len);
}

void rg_repeats_expand(struct rg_repeats *repeats, bool syslog, struct rg_log_record *record)
{
    if (record->text.len == 0) {
        return;
    }
    if (record->text.ptr[0] != 'm' || !expand_bracketed(record)) {
        expand_site(repeats, record);
    }
    if (syslog && !record->recalled) {
        expand_last(repeats, record);
    }
}
