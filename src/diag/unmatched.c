/*
 * Lines that look like errors and that no row knows, gathered by shape, so that a report can say
 * "412 lines like this" instead of nothing. Bounded in shapes and in bytes of each.
 */
#include "diag/catalogue.h"

#include "diag/lustre.h"

#include <stdlib.h>

#define SLOTS       1024 /* a power of two, well above RG_SHAPES_MAX */
#define SCAN_MAX    1024 /* bytes of a line that make its shape */
#define NUMBER_MARK '#'

/* What a byte may be part of, looked up: this runs for every byte of lines that may come by the
 * million. */
enum byte_kind { DIGIT = 1, HEX = 2, WORD = 4 };

static const unsigned char kinds[256] = {
    ['0' ... '9'] = DIGIT | HEX | WORD,
    ['a' ... 'f'] = HEX | WORD,
    ['A' ... 'F'] = HEX | WORD,
    ['g' ... 'z'] = WORD,
    ['G' ... 'Z'] = WORD,
    ['_'] = WORD,
};

static inline bool is_hex(char c)
{
    return kinds[(unsigned char)c] & HEX;
}

static inline bool is_digit(char c)
{
    return kinds[(unsigned char)c] & DIGIT;
}

static inline bool is_word(char c)
{
    return kinds[(unsigned char)c] & WORD;
}

/* Length of the number at the start: digits, 0x…, a pointer or a UUID group; 0 when none. */
static size_t number_length(struct span text)
{
    size_t len = 0;
    size_t digits = 0;
    if (text.len > 2 && text.ptr[0] == '0' && text.ptr[1] == 'x') {
        len = 2;
        digits = 1;
    }
    while (len < text.len && is_hex(text.ptr[len])) {
        digits += is_digit(text.ptr[len]);
        len++;
    }
    if (len < text.len && is_word(text.ptr[len])) {
        /* A word that begins like a number: only its leading digits are one. */
        len = 0;
        while (len < text.len && is_digit(text.ptr[len])) {
            len++;
        }
        return len;
    }
    return digits > 0 ? len : 0;
}

/* The text with every number replaced, cut to RG_SHAPE_BYTES_MAX. */
static size_t make_shape(struct span text, char *shape)
{
    size_t used = 0;
    size_t at = 0;
    struct span line = rg_span_head(text, SCAN_MAX);
    while (at < line.len && used < RG_SHAPE_BYTES_MAX) {
        bool begins = at == 0 || !is_word(line.ptr[at - 1]);
        bool may = is_digit(line.ptr[at]) ? begins || !is_digit(line.ptr[at - 1])
                                          : begins && is_hex(line.ptr[at]);
        size_t number = may ? number_length(rg_span_skip(line, at)) : 0;
        if (number > 0) {
            if (used == 0 || shape[used - 1] != NUMBER_MARK) {
                shape[used++] = NUMBER_MARK;
            }
            at += number;
            continue;
        }
        unsigned char c = (unsigned char)line.ptr[at++];
        shape[used++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    shape[used] = '\0';
    return used;
}

/* The line as a person may see it: control bytes become '?'. */
static void make_sample(struct span text, char *sample)
{
    struct span head = rg_span_head(text, RG_SAMPLE_BYTES_MAX);
    for (size_t i = 0; i < head.len; i++) {
        unsigned char c = (unsigned char)head.ptr[i];
        sample[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    sample[head.len] = '\0';
}

static uint32_t hash(const char *text, size_t len)
{
    uint64_t value = len;
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, text + i, len - i < sizeof(word) ? len - i : sizeof(word));
        value = (value ^ word) * 0xff51afd7ed558ccdu;
        value ^= value >> 32;
    }
    return (uint32_t)value;
}

static bool ensure_room(struct rg_unmatched *unmatched)
{
    if (!unmatched->shapes) {
        unmatched->shapes = calloc(RG_SHAPES_MAX, sizeof(*unmatched->shapes));
    }
    if (!unmatched->slots) {
        unmatched->slots = calloc(SLOTS, sizeof(*unmatched->slots));
    }
    return unmatched->shapes && unmatched->slots;
}

/* Slots hold the index plus one; 0 is free. */
static uint32_t *find_slot(struct rg_unmatched *unmatched, const char *shape, size_t len)
{
    uint32_t at = hash(shape, len) % SLOTS;
    while (unmatched->slots[at] &&
           strcmp(unmatched->shapes[unmatched->slots[at] - 1].shape, shape) != 0) {
        at = (at + 1) % SLOTS;
    }
    return &unmatched->slots[at];
}

void rg_unmatched_add(struct rg_unmatched *unmatched, const struct rg_log_record *record)
{
    struct rg_line_prefix prefix;
    rg_line_prefix(rg_span_head(record->text, SCAN_MAX), &prefix);
    bool lustre = prefix.lustre || prefix.lnet;
    uint64_t count = record->repeats + 1;
    unmatched->lines += count;
    unmatched->lustre_lines += lustre ? count : 0;
    if (!ensure_room(unmatched)) {
        unmatched->other += count;
        return;
    }

    char shape[RG_SHAPE_BYTES_MAX + 1];
    size_t len = make_shape(record->text, shape);
    uint32_t *slot = find_slot(unmatched, shape, len);
    if (*slot == 0 && unmatched->count == RG_SHAPES_MAX) {
        unmatched->other += count;
        return;
    }
    if (*slot == 0) {
        struct rg_unmatched_shape *fresh = &unmatched->shapes[unmatched->count++];
        memcpy(fresh->shape, shape, len + 1);
        make_sample(record->text, fresh->sample);
        fresh->lustre = lustre;
        fresh->node = record->node;
        fresh->source = record->source;
        fresh->line = record->line;
        *slot = (uint32_t)unmatched->count;
    }
    unmatched->shapes[*slot - 1].count += count;
}

void rg_unmatched_free(struct rg_unmatched *unmatched)
{
    free(unmatched->shapes);
    free(unmatched->slots);
    *unmatched = (struct rg_unmatched){0};
}
