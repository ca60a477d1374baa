/*
 * Each string is represented by its rarest five bytes, as two overlapping grams of four: wherever
 * the string stands, one of them begins at an even position. The search hashes the four bytes at
 * every second position and looks them up in a bitmap of the grams; only where a bit is set are the
 * strings compared. Strings of three and four bytes stand for all grams that can hold them. The
 * steps of neighbouring positions do not depend on each other, so the processor overlaps them:
 * measured beside an Aho–Corasick automaton over the same strings, whose every step waits for the
 * table load before it, this reads ordinary kernel lines several times as fast. A text made to hit
 * costs at each position the few strings that share a gram.
 */
#include "diag/literals.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>

#define GRAM          4
#define BITMAP_BITS   17 /* 16 KiB: stays in the first-level cache */
#define BUCKET_BITS   14
#define STRINGS_MAX   16384
#define STRING_BYTES  (1 << 20) /* of all strings together */
#define NO_ENTRY      UINT32_MAX
#define CONTINUATIONS 256 /* of three bytes known of a gram */

struct string {
    uint32_t at; /* in bytes[] */
    uint16_t len;
    uint32_t tag;
    uint32_t same; /* the next string with the same bytes; NO_ENTRY ends it */
};

struct entry {
    uint64_t bytes; /* of the string from its gram on, up to eight */
    uint64_t mask;  /* which of them there are */
    uint32_t gram;
    uint32_t string;
    uint32_t next; /* in the same bucket */
    int16_t offset;
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

/* Where the rarest bytes begin, as many as two overlapping grams have. */
static size_t pick_grams(struct span text)
{
    size_t best = 0;
    unsigned least = UINT32_MAX;
    for (size_t i = 0; i + GRAM + 1 <= text.len; i++) {
        unsigned sum = 0;
        for (size_t j = 0; j < GRAM + 1; j++) {
            sum += weight(text.ptr[i + j]);
        }
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

/* The gram stands `offset` bytes behind the string's beginning (-1: it holds the byte before). */
static void add_entry(struct rg_literals *literals, uint32_t gram, uint32_t string, int offset)
{
    uint32_t hash = hash_gram(gram);
    uint32_t bit = hash >> (32 - BITMAP_BITS);
    uint32_t *bucket = &literals->buckets[hash >> (32 - BUCKET_BITS)];
    const struct string *whole = &literals->strings[string];
    struct entry entry = {
        .gram = gram, .string = string, .next = *bucket, .offset = (int16_t)offset};
    if (offset >= 0) {
        size_t len = RG_MIN((size_t)whole->len - (size_t)offset, sizeof(entry.bytes));
        memcpy(&entry.bytes, literals->bytes + whole->at + offset, len);
        memset(&entry.mask, 0xff, len);
    }
    literals->bitmap[bit / 64] |= UINT64_C(1) << (bit % 64);
    *bucket = (uint32_t)literals->entry_count;
    literals->entries[literals->entry_count++] = entry;
}

/* All grams that have the bytes at `hole` free and the three others from the text. */
static void add_open(struct rg_literals *literals, uint32_t index, const char *three, size_t hole,
                     int offset)
{
    char gram[GRAM];
    memcpy(gram + (hole == 0), three, GRAM - 1);
    for (int i = 0; i < CONTINUATIONS; i++) {
        gram[hole] = (char)i;
        add_entry(literals, load_gram(gram), index, offset);
    }
}

/* Several rows may look for the same short string: its many grams are kept once. */
static bool join_same(struct rg_literals *literals, uint32_t index, struct span text)
{
    for (uint32_t i = 0; i < index; i++) {
        struct string *other = &literals->strings[i];
        if (other->len == text.len &&
            memcmp(literals->bytes + other->at, text.ptr, text.len) == 0) {
            literals->strings[index].same = other->same;
            other->same = index;
            return true;
        }
    }
    return false;
}

static void add_string(struct rg_literals *literals, uint32_t index, struct span text)
{
    if (text.len <= GRAM && join_same(literals, index, text)) {
        return;
    }
    if (text.len > GRAM) {
        size_t at = pick_grams(text);
        add_entry(literals, load_gram(text.ptr + at), index, (int)at);
        add_entry(literals, load_gram(text.ptr + at + 1), index, (int)at + 1);
    } else if (text.len == GRAM) {
        add_entry(literals, load_gram(text.ptr), index, 0);
        add_open(literals, index, text.ptr + 1, GRAM - 1, 1);
    } else {
        add_open(literals, index, text.ptr, GRAM - 1, 0);
        add_open(literals, index, text.ptr, 0, -1);
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
        entries += len > GRAM ? 2 : len == GRAM ? CONTINUATIONS + 1 : 2 * CONTINUATIONS;
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
            .same = NO_ENTRY,
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
    uint64_t here = 0;
    bool whole = text.len - at >= sizeof(here);
    if (whole) {
        memcpy(&here, text.ptr + at, sizeof(here));
    }
    while (next != NO_ENTRY) {
        const struct entry *entry = &literals->entries[next];
        next = entry->next;
        if (entry->gram != gram || (whole && ((here ^ entry->bytes) & entry->mask) != 0)) {
            continue;
        }
        const struct string *string = &literals->strings[entry->string];
        ptrdiff_t from = (ptrdiff_t)at - entry->offset;
        if (from < 0 || (size_t)from + string->len > text.len ||
            memcmp(text.ptr + from, literals->bytes + string->at, string->len) != 0) {
            continue;
        }
        for (uint32_t i = entry->string; i != NO_ENTRY; i = literals->strings[i].same) {
            uint32_t tag = literals->strings[i].tag;
            found[tag / 64] |= UINT64_C(1) << (tag % 64);
        }
        any = true;
    }
    return any;
}

static inline uint64_t may_begin(const struct rg_literals *literals, uint32_t gram)
{
    uint32_t bit = hash_gram(gram) >> (32 - BITMAP_BITS);
    return literals->bitmap[bit / 64] >> (bit % 64) & 1;
}

/* The last `len` (at most 3) bytes of the text and zeros behind them, in the order of memory. */
static inline uint32_t load_last(struct span text, size_t len)
{
    char bytes[GRAM] = {0};
    memcpy(bytes, text.ptr + text.len - len, len);
    return load_gram(bytes);
}

bool rg_literals_find(const struct rg_literals *literals, struct span text, uint64_t *found)
{
    bool any = false;
    size_t at = 0;
    /* Four even positions a step: one branch for all of them. */
    for (; at + 6 + GRAM <= text.len; at += 8) {
        const char *here = text.ptr + at;
        uint64_t hits =
            may_begin(literals, load_gram(here)) | may_begin(literals, load_gram(here + 2)) |
            may_begin(literals, load_gram(here + 4)) | may_begin(literals, load_gram(here + 6));
        if (__builtin_expect(hits == 0, 1)) {
            continue;
        }
        for (size_t i = 0; i < 8; i += 2) {
            uint32_t gram = load_gram(here + i);
            if (may_begin(literals, gram)) {
                any |= compare_at(literals, text, at + i, gram, found);
            }
        }
    }
    for (; at + GRAM <= text.len; at += 2) {
        uint32_t gram = load_gram(text.ptr + at);
        if (may_begin(literals, gram)) {
            any |= compare_at(literals, text, at, gram, found);
        }
    }
    /* Strings that are shorter than a gram, or end with the text: zeros stand for what follows. */
    for (; at < text.len; at += 2) {
        uint32_t gram = load_last(text, text.len - at);
        if (may_begin(literals, gram)) {
            any |= compare_at(literals, text, at, gram, found);
        }
    }
    return any;
}
