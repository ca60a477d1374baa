/*
 * The pool of words.
 */
#include "diag/words.h"

#include "diag/labels.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdlib.h>

#define SLOTS 131072U /* a power of two, above twice RG_WORDS_MAX */

static uint32_t hash_text(struct span text)
{
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * 16777619U;
    }
    return hash ^ hash >> 15;
}

/* Length of the well-formed UTF-8 character at the start of the text, 0 when there is none. */
static size_t character_length(struct span text)
{
    unsigned char first = (unsigned char)text.ptr[0];
    size_t len = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first > 0xf4 || len == 0 || len > text.len) {
        return 0;
    }
    return len == 1 || rg_span_is_utf8(rg_span_head(text, len)) ? len : 0;
}

static bool is_control(struct span character)
{
    unsigned char first = (unsigned char)character.ptr[0];
    if (character.len == 1) {
        return first < 0x20 || first == 0x7f;
    }
    unsigned char second = (unsigned char)character.ptr[1];
    if (character.len == 2) {
        return first == 0xc2 && second < 0xa0;
    }
    /* U+200E/F, U+2028–202E, U+2066–2069: they reorder or break the line for its reader. */
    unsigned char third = (unsigned char)character.ptr[2];
    return character.len == 3 && first == 0xe2 &&
           ((second == 0x80 &&
             (third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae))) ||
            (second == 0x81 && third >= 0xa6 && third <= 0xa9));
}

void rg_text_clean(struct span text, size_t max, struct rg_buf *out)
{
    size_t start = out->len;
    while (text.len > 0) {
        size_t len = character_length(text);
        struct span piece = len ? rg_span_head(text, len) : RG_SPAN_LITERAL("\xef\xbf\xbd");
        if (len && is_control(piece)) {
            piece = RG_SPAN_LITERAL(" ");
        }
        if (out->len - start + piece.len > max) {
            rg_buf_add_text(out, "…");
            return;
        }
        rg_buf_add_span(out, piece);
        text = rg_span_skip(text, len ? len : 1);
    }
}

static bool is_clean(struct span text)
{
    if (text.len > RG_WORD_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        if (byte < 0x20 || byte >= 0x7f) {
            return false;
        }
    }
    return true;
}

static rg_word find_or_add(struct rg_pool *pool, struct span text)
{
    uint32_t slot = hash_text(text) & (SLOTS - 1);
    while (pool->slots[slot]) {
        const char *there = pool->text[pool->slots[slot]];
        if (strncmp(there, text.ptr, text.len) == 0 && there[text.len] == '\0') {
            return pool->slots[slot];
        }
        slot = (slot + 1) & (SLOTS - 1);
    }
    if (pool->count >= RG_WORDS_MAX || pool->bytes + text.len > RG_WORDS_BYTES) {
        pool->full = true;
        return RG_WORD_NOT_KEPT;
    }
    if (pool->count == pool->room) {
        uint32_t room = pool->room * 2;
        char **grown = realloc(pool->text, room * sizeof(*grown));
        if (!grown) {
            pool->failed = true;
            return RG_WORD_NOT_KEPT;
        }
        pool->text = grown;
        pool->room = room;
    }
    char *copy = rg_span_dup(text);
    if (!copy) {
        pool->failed = true;
        return RG_WORD_NOT_KEPT;
    }
    pool->text[pool->count] = copy;
    pool->slots[slot] = pool->count;
    pool->bytes += text.len + 1;
    return pool->count++;
}

rg_word rg_pool_add(struct rg_pool *pool, struct span text)
{
    if (text.len == 0) {
        return 0;
    }
    if (is_clean(text)) {
        return find_or_add(pool, text);
    }
    RG_BUF(clean, RG_WORD_BYTES_MAX + 16);
    rg_text_clean(text, RG_WORD_BYTES_MAX, &clean);
    if (!rg_buf_ok(&clean)) {
        pool->failed = true;
        return RG_WORD_NOT_KEPT;
    }
    return find_or_add(pool, rg_buf_span(&clean));
}

rg_word rg_pool_addf(struct rg_pool *pool, const char *format, ...)
{
    RG_BUF(text, 64 << 10);
    va_list args;
    va_start(args, format);
    rg_buf_addv(&text, format, args);
    va_end(args);
    if (!rg_buf_ok(&text)) {
        pool->failed = true;
        return RG_WORD_NOT_KEPT;
    }
    return rg_pool_add(pool, rg_buf_span(&text));
}

const char *rg_pool_text(const struct rg_pool *pool, rg_word word)
{
    RG_ASSERT(word < pool->count);
    return pool->text[word];
}

bool rg_pool_init(struct rg_pool *pool)
{
    *pool = (struct rg_pool){.slot_count = SLOTS, .room = 256};
    pool->text = calloc(pool->room, sizeof(*pool->text));
    pool->slots = calloc(SLOTS, sizeof(*pool->slots));
    char *empty = strdup("");
    if (!pool->text || !pool->slots || !empty) {
        free(empty);
        rg_pool_free(pool);
        return false;
    }
    pool->text[0] = empty;
    pool->count = 1;
    return find_or_add(pool, RG_SPAN_LITERAL(RG_WORD_LEFT_OUT)) == RG_WORD_NOT_KEPT &&
           !pool->failed;
}

void rg_pool_free(struct rg_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        free(pool->text[i]);
    }
    free(pool->text);
    free(pool->slots);
    *pool = (struct rg_pool){0};
}
