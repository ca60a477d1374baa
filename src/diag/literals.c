/*
 * Each string is represented by its rarest four bytes (a gram). The search
 * hashes the four bytes at every position and looks them up in a bitmap of the
 * grams; only where a bit is set are the strings compared. The steps of
 * neighbouring positions do not depend on each other, so the processor overlaps
 * them: measured beside an Aho–Corasick automaton over the same strings, whose
 * every step waits for the table load before it, this reads ordinary kernel
 * lines three to four times as fast. A text made to hit costs at each position
 * the few strings that share a gram.
 */
#include "diag/literals.h"

#include "base/attr.h"

#include <stdlib.h>

#define GRAM          4
#define BITMAP_BITS   16 /* 8 KiB: stays in the first-level cache */
#define BUCKET_BITS   12
#define STRINGS_MAX   16384
#define STRING_BYTES  (1 << 20) /* of all strings together */
#define NO_ENTRY      UINT32_MAX
#define CONTINUATIONS 256 /* a string of three bytes stands for this many grams */

struct string {
    uint32_t at; /* in bytes[] */
    uint16_t len;
    uint16_t gram_at;
    uint32_t tag;
};

struct entry {
    uint32_t gram;
    uint32_t string;
    uint32_t next; /* in the same bucket */
};

struct rg_literals {
    uint64_t bitmap[(1 << BITMAP_BITS) / 64];
    uint32_t buckets[1 << BUCKET_BITS];
    struct entry *entries;
    size_t entry_count;
    struct string *strings;
    char *bytes;
};

void rg_literals_free(struct rg_literals *literals)
{
    if (!literals) {
        return;
    }
    free(literals->entries);
    free(literals->strings);
    free(literals->bytes);
    free(literals);
}

static void cleanup_literals(struct rg_literals **literals)
{
    rg_literals_free(*literals);
}

static inline uint32_t load_gram(const char *at)
{
    uint32_t gram;
    memcpy(&gram, at, GRAM);
    return gram;
}

static inline uint32_t hash_gram(uint32_t gram)
{
    return gram * 0x9e3779b1u;
}

/* How common a byte is in kernel logs; only the order matters. */
static unsigned weight(char c)
{
    if (c == ' ') {
        return 12;
    }
    if (strchr("etaoinsr", c)) {
        return 9;
    }
    if (c >= 'a' && c <= 'z') {
        return 6;
    }
    if ((c >= '0' && c <= '9') || c == ':' || c == '.') {
        return 7;
    }
    return c >= 'A' && c <= 'Z' ? 3 : 2;
}

/* Where the rarest four bytes begin. */
static uint16_t pick_gram(struct span text)
{
    size_t best = 0;
    unsigned least = UINT32_MAX;
    for (size_t i = 0; i + GRAM <= text.len; i++) {
        unsigned sum = 0;
        for (size_t j = 0; j < GRAM; j++) {
            sum += weight(text.ptr[i + j]);
        }
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return (uint16_t)best;
}

static void add_entry(struct rg_literals *literals, uint32_t gram, uint32_t string)
{
    uint32_t hash = hash_gram(gram);
    uint32_t bit = hash >> (32 - BITMAP_BITS);
    uint32_t *bucket = &literals->buckets[hash >> (32 - BUCKET_BITS)];
    literals->bitmap[bit / 64] |= UINT64_C(1) << (bit % 64);
    literals->entries[literals->entry_count] = (struct entry){
        .gram = gram,
        .string = string,
        .next = *bucket,
    };
    *bucket = (uint32_t)literals->entry_count++;
}

static void add_string(struct rg_literals *literals, uint32_t index, struct span text)
{
    struct string *string = &literals->strings[index];
    if (text.len >= GRAM) {
        string->gram_at = pick_gram(text);
        add_entry(literals, load_gram(text.ptr + string->gram_at), index);
        return;
    }
    char gram[GRAM];
    memcpy(gram, text.ptr, text.len);
    for (int i = 0; i < CONTINUATIONS; i++) {
        gram[GRAM - 1] = (char)i;
        add_entry(literals, load_gram(gram), index);
    }
}

static int check_strings(const struct rg_literal *list, size_t count, size_t *ret_bytes,
                         size_t *ret_entries, struct rg_error *err)
{
    size_t bytes = 0;
    size_t entries = 0;
    if (count > STRINGS_MAX) {
        return rg_failf(err, RG_SETTING, "more than %d literals", STRINGS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        size_t len = list[i].text.len;
        if (len < RG_LITERAL_BYTES_MIN || len > RG_LITERAL_BYTES_MAX) {
            return rg_failf(err, RG_SETTING, "a literal must have %d to %d bytes",
                            RG_LITERAL_BYTES_MIN, RG_LITERAL_BYTES_MAX);
        }
        if (list[i].tag >= RG_LITERAL_TAGS_MAX) {
            return rg_failf(err, RG_SETTING, "more than %d rows", RG_LITERAL_TAGS_MAX);
        }
        bytes += len;
        entries += len < GRAM ? CONTINUATIONS : 1;
    }
    if (bytes > STRING_BYTES) {
        return rg_failf(err, RG_SETTING, "the literals have more than %d bytes", STRING_BYTES);
    }
    *ret_bytes = bytes;
    *ret_entries = entries;
    return 0;
}

int rg_literals_new(const struct rg_literal *list, size_t count, struct rg_literals **ret_literals,
                    struct rg_error *err)
{
    size_t bytes;
    size_t entries;
    int rc = check_strings(list, count, &bytes, &entries, err);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(cleanup_literals)
    struct rg_literals *literals = calloc(1, sizeof(*literals));
    if (!literals) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    literals->entries = calloc(entries + 1, sizeof(*literals->entries));
    literals->strings = calloc(count + 1, sizeof(*literals->strings));
    literals->bytes = malloc(bytes + 1);
    if (!literals->entries || !literals->strings || !literals->bytes) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    memset(literals->buckets, 0xff, sizeof(literals->buckets));

    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        struct span text = list[i].text;
        memcpy(literals->bytes + used, text.ptr, text.len);
        literals->strings[i] = (struct string){
            .at = (uint32_t)used,
            .len = (uint16_t)text.len,
            .tag = list[i].tag,
        };
        add_string(literals, (uint32_t)i, text);
        used += text.len;
    }
    *ret_literals = RG_TAKE(literals);
    return 0;
}

/* Compares the strings whose gram stands at `at`. */
static bool compare_at(const struct rg_literals *literals, struct span text, size_t at,
                       uint32_t gram, uint64_t *found)
{
    bool any = false;
    uint32_t next = literals->buckets[hash_gram(gram) >> (32 - BUCKET_BITS)];
    while (next != NO_ENTRY) {
        const struct entry *entry = &literals->entries[next];
        next = entry->next;
        if (entry->gram != gram) {
            continue;
        }
        const struct string *string = &literals->strings[entry->string];
        if (at < string->gram_at || text.len - (at - string->gram_at) < string->len ||
            memcmp(text.ptr + at - string->gram_at, literals->bytes + string->at, string->len) !=
                0) {
            continue;
        }
        found[string->tag / 64] |= UINT64_C(1) << (string->tag % 64);
        any = true;
    }
    return any;
}

static inline uint64_t may_begin(const struct rg_literals *literals, uint32_t gram)
{
    uint32_t bit = hash_gram(gram) >> (32 - BITMAP_BITS);
    return literals->bitmap[bit / 64] >> (bit % 64) & 1;
}

/* The last `len` (at most 7) bytes of the text and zeros behind them, in the order of memory. */
static inline uint64_t load_last(struct span text, size_t len)
{
    uint64_t bytes = 0;
    if (text.len < sizeof(bytes)) {
        memcpy(&bytes, text.ptr + text.len - len, len);
        return bytes;
    }
    memcpy(&bytes, text.ptr + text.len - sizeof(bytes), sizeof(bytes));
    if (len == 0) {
        return 0;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return bytes >> (8 * (sizeof(bytes) - len));
#else
    return bytes << (8 * (sizeof(bytes) - len));
#endif
}

static inline uint32_t gram_within(uint64_t bytes, size_t at)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (uint32_t)(bytes >> (8 * at));
#else
    return (uint32_t)(bytes << (8 * at) >> 32);
#endif
}

bool rg_literals_find(const struct rg_literals *literals, struct span text, uint64_t *found)
{
    bool any = false;
    size_t at = 0;
    /* Four positions a step: one branch for all of them. */
    for (; at + 3 + GRAM <= text.len; at += 4) {
        const char *here = text.ptr + at;
        uint64_t hits =
            may_begin(literals, load_gram(here)) | may_begin(literals, load_gram(here + 1)) |
            may_begin(literals, load_gram(here + 2)) | may_begin(literals, load_gram(here + 3));
        if (__builtin_expect(hits == 0, 1)) {
            continue;
        }
        for (size_t i = 0; i < 4; i++) {
            uint32_t gram = load_gram(here + i);
            if (may_begin(literals, gram)) {
                any |= compare_at(literals, text, at + i, gram, found);
            }
        }
    }
    /* The last bytes, with zeros behind them for strings that are shorter than a gram. One load for
     * all: bytes that were just stored one by one would have to be waited for. */
    uint64_t last = load_last(text, text.len - at);
    for (size_t i = 0; at + i < text.len; i++) {
        uint32_t gram = gram_within(last, i);
        if (may_begin(literals, gram)) {
            any |= compare_at(literals, text, at + i, gram, found);
        }
    }
    return any;
}
