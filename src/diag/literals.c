/*
 * A gram is three bytes. Each string of seven bytes or more is represented by two grams with one
 * byte between them, where it is rarest; a shorter one by its rarest gram. The search hashes the
 * gram at every position once and looks it up in two tables of bytes: as a first gram, and for the
 * position four bytes before as a second one. Strings are dealt to the bits of the tables, so that
 * two grams count only when they may be of one string; only where a bit is set in both are the
 * strings compared. The steps of neighbouring positions do not depend on each other, so the
 * processor overlaps them: measured beside an Aho–Corasick automaton over the same strings, whose
 * every step waits for the table load before it, a gram looked up at every position reads ordinary
 * kernel lines three to four times as fast. What costs then are hits that are none, which is why
 * there are two grams. A text made to hit costs at each position the few strings that share a gram.
 */
#include "diag/literals.h"

#include "base/attr.h"

#include <endian.h>
#include <stdlib.h>

#define GRAM         3
#define STEP         4 /* positions looked at together; from a first gram to its second */
#define WINDOW       (STEP + GRAM)
#define LOAD         4             /* bytes read for a gram */
#define TABLE_BITS   13            /* two tables of 8 KiB: they stay in the first-level cache */
#define LANES        7             /* bits of the tables for strings of WINDOW bytes and more */
#define SHORT        (1u << LANES) /* the bit of strings that have one gram only */
#define TEXT_MIN     (2 * STEP - 1 + LOAD) /* of a text that is looked at in steps */
#define BUCKET_BITS  12
#define STRINGS_MAX  16384
#define STRING_BYTES (1 << 20) /* of all strings together */
#define NO_ENTRY     UINT32_MAX
#define NO_GRAM      UINT32_MAX

_Static_assert(WINDOW == RG_LITERAL_BYTES_GOOD, "what literals.h says");

struct string {
    uint32_t at; /* in bytes[] */
    uint16_t len;
    uint16_t gram_at;
    uint32_t tag;
};

struct entry {
    uint32_t gram;
    uint32_t second; /* NO_GRAM: there is none */
    uint32_t string;
    uint32_t next; /* in the same bucket */
};

struct rg_literals {
    uint8_t first[1 << TABLE_BITS];
    uint8_t second[1 << TABLE_BITS]; /* SHORT is set everywhere */
    bool usual[1 << TABLE_BITS];     /* grams of usual words; only while it is made */
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

/* Reads a byte more than the gram has, since that is one instruction; hash_gram drops it. */
static inline uint32_t load_gram(const char *at)
{
    uint32_t gram;
    memcpy(&gram, at, LOAD);
    return le32toh(gram);
}

/* Reads the gram only. */
static inline uint32_t load_exactly(const char *at)
{
    uint32_t gram = 0;
    memcpy(&gram, at, GRAM);
    return le32toh(gram);
}

static inline uint32_t gram_of(uint32_t loaded)
{
    return loaded & 0xffffff;
}

/* The highest bits are the best. */
static inline uint32_t hash_gram(uint32_t gram)
{
    return gram * 0x3779b100u;
}

static inline uint32_t slot_of(uint32_t gram)
{
    return hash_gram(gram) >> (32 - TABLE_BITS);
}

/* Words that kernel logs are full of: strings are better known by other grams than theirs. */
static const char usual_words[] =
    " device driver interrupt memory module number mode failed failure for from with was not "
    "service user connection client systemd[ ";

static void note_usual_words(struct rg_literals *literals)
{
    for (size_t i = 0; i + GRAM < sizeof(usual_words); i++) {
        literals->usual[slot_of(load_exactly(usual_words + i))] = true;
    }
}

/* How common a byte is in kernel logs; only the order matters. A space is the most common of all,
 * but what spans two words is rarer than a piece of one. */
static unsigned weight(char c)
{
    if (c == ' ') {
        return 6;
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

static unsigned weight_of_gram(const struct rg_literals *literals, const char *at)
{
    unsigned usual = literals->usual[slot_of(load_exactly(at))] ? 12 : 0;
    return weight(at[0]) + weight(at[1]) + weight(at[2]) + usual;
}

/* Where the rarest gram begins, or the rarest two. */
static uint16_t pick_gram(const struct rg_literals *literals, struct span text, bool paired)
{
    size_t best = 0;
    unsigned least = UINT32_MAX;
    for (size_t i = 0; i + (paired ? WINDOW : GRAM) <= text.len; i++) {
        unsigned sum = weight_of_gram(literals, text.ptr + i) +
                       (paired ? weight_of_gram(literals, text.ptr + i + STEP) : 0);
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return (uint16_t)best;
}

static void add_entry(struct rg_literals *literals, uint32_t gram, uint32_t second, uint32_t string)
{
    uint32_t *bucket = &literals->buckets[hash_gram(gram) >> (32 - BUCKET_BITS)];
    literals->entries[literals->entry_count] = (struct entry){
        .gram = gram,
        .second = second,
        .string = string,
        .next = *bucket,
    };
    *bucket = (uint32_t)literals->entry_count++;
}

static void add_string(struct rg_literals *literals, uint32_t index, struct span text)
{
    struct string *string = &literals->strings[index];
    bool paired = text.len >= WINDOW;
    uint8_t lane = (uint8_t)(paired ? 1u << index % LANES : SHORT);
    string->gram_at = pick_gram(literals, text, paired);
    const char *at = text.ptr + string->gram_at;
    uint32_t gram = load_exactly(at);
    uint32_t second = paired ? load_exactly(at + STEP) : NO_GRAM;
    literals->first[slot_of(gram)] |= lane;
    if (paired) {
        literals->second[slot_of(second)] |= lane;
    }
    add_entry(literals, gram, second, index);
}

static int check_strings(const struct rg_literal *list, size_t count, size_t *ret_bytes,
                         struct rg_error *err)
{
    size_t bytes = 0;
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
    }
    if (bytes > STRING_BYTES) {
        return rg_failf(err, RG_SETTING, "the literals have more than %d bytes", STRING_BYTES);
    }
    *ret_bytes = bytes;
    return 0;
}

int rg_literals_new(const struct rg_literal *list, size_t count, struct rg_literals **ret_literals,
                    struct rg_error *err)
{
    size_t bytes;
    int rc = check_strings(list, count, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(cleanup_literals)
    struct rg_literals *literals = calloc(1, sizeof(*literals));
    if (!literals) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    literals->entries = calloc(count + 1, sizeof(*literals->entries));
    literals->strings = calloc(count + 1, sizeof(*literals->strings));
    literals->bytes = malloc(bytes + 1);
    if (!literals->entries || !literals->strings || !literals->bytes) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    memset(literals->buckets, 0xff, sizeof(literals->buckets));
    memset(literals->second, SHORT, sizeof(literals->second));
    note_usual_words(literals);

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

/* Compares the strings whose gram stands at `at`, where `loaded` was. */
static bool compare_at(const struct rg_literals *literals, struct span text, size_t at,
                       uint32_t loaded, uint64_t *found)
{
    bool any = false;
    uint32_t gram = gram_of(loaded);
    uint32_t next = literals->buckets[hash_gram(gram) >> (32 - BUCKET_BITS)];
    while (next != NO_ENTRY) {
        const struct entry *entry = &literals->entries[next];
        next = entry->next;
        if (entry->gram != gram) {
            continue;
        }
        const struct string *string = &literals->strings[entry->string];
        if (at < string->gram_at || text.len - (at - string->gram_at) < string->len ||
            (entry->second != NO_GRAM && entry->second != load_exactly(text.ptr + at + STEP)) ||
            memcmp(text.ptr + at - string->gram_at, literals->bytes + string->at, string->len) !=
                0) {
            continue;
        }
        found[string->tag / 64] |= UINT64_C(1) << (string->tag % 64);
        any = true;
    }
    return any;
}

/* In a short text, every position by itself. */
static bool find_in_few(const struct rg_literals *literals, struct span text, uint64_t *found)
{
    bool any = false;
    for (size_t at = 0; at + GRAM <= text.len; at++) {
        uint32_t gram = load_exactly(text.ptr + at);
        if (literals->first[slot_of(gram)]) {
            any |= compare_at(literals, text, at, gram, found);
        }
    }
    return any;
}

/* Something of four positions, or what of theirs is found in a table. */
struct four {
    uint32_t a, b, c, d;
};

static inline struct four slots_at(const char *here)
{
    return (struct four){slot_of(load_gram(here)), slot_of(load_gram(here + 1)),
                         slot_of(load_gram(here + 2)), slot_of(load_gram(here + 3))};
}

static inline struct four look_up(const uint8_t *table, struct four slots)
{
    return (struct four){table[slots.a], table[slots.b], table[slots.c], table[slots.d]};
}

static inline uint32_t in_both(struct four firsts, struct four seconds)
{
    return (firsts.a & seconds.a) | (firsts.b & seconds.b) | (firsts.c & seconds.c) |
           (firsts.d & seconds.d);
}

/* One of the four positions from `at` on is a hit. */
__attribute__((noinline)) static bool look_at_four(const struct rg_literals *literals,
                                                   struct span text, size_t at, uint64_t *found)
{
    bool any = false;
    for (size_t i = at; i < at + STEP; i++) {
        uint32_t gram = load_gram(text.ptr + i);
        if (literals->first[slot_of(gram)] &
            literals->second[slot_of(load_gram(text.ptr + i + STEP))]) {
            any |= compare_at(literals, text, i, gram, found);
        }
    }
    return any;
}

/* The places where the last window and the last grams begin. */
__attribute__((noinline)) static bool look_at_end(const struct rg_literals *literals,
                                                  struct span text, uint64_t *found)
{
    bool any = false;
    for (size_t at = text.len - WINDOW; at + GRAM <= text.len; at++) {
        any |= compare_at(literals, text, at, load_exactly(text.ptr + at), found);
    }
    return any;
}

static bool find_in_many(const struct rg_literals *literals, struct span text, uint64_t *found)
{
    bool any = false;
    /* One branch for four positions. Their second grams are the first ones of the next four, whose
     * hashes serve twice. */
    size_t last = text.len - TEXT_MIN;
    struct four firsts = look_up(literals->first, slots_at(text.ptr));
    for (size_t at = 0; at < last; at += STEP) {
        struct four slots = slots_at(text.ptr + at + STEP);
        uint32_t hits = in_both(firsts, look_up(literals->second, slots));
        firsts = look_up(literals->first, slots);
        if (__builtin_expect(hits != 0, 0)) {
            any |= look_at_four(literals, text, at, found);
        }
    }
    /* The last windows, some of them once more, and what is shorter than a window. */
    firsts = look_up(literals->first, slots_at(text.ptr + last));
    struct four slots = slots_at(text.ptr + last + STEP);
    uint32_t end = slot_of(load_gram(text.ptr + text.len - LOAD) >> 8);
    if (__builtin_expect(in_both(firsts, look_up(literals->second, slots)) != 0, 0)) {
        any |= look_at_four(literals, text, last, found);
    }
    firsts = look_up(literals->first, slots);
    uint32_t shorts = (firsts.b | firsts.c | firsts.d | literals->first[end]) & SHORT;
    if (__builtin_expect(((firsts.a & literals->second[end]) | shorts) != 0, 0)) {
        any |= look_at_end(literals, text, found);
    }
    return any;
}

bool rg_literals_find(const struct rg_literals *literals, struct span text, uint64_t *found)
{
    return text.len < TEXT_MIN ? find_in_few(literals, text, found)
                               : find_in_many(literals, text, found);
}
