/*
 * Hash sets of fixed size. An entry is a line at one instant of one kind of clock; links between
 * sources hold the difference of their clocks as their common lines show it.
 */
#include "diag/seen.h"

#include "base/attr.h"

#include <stdlib.h>
#include <string.h>

#define SEC     INT64_C(1000000)
#define ENTRIES (1u << 18) /* powers of two */
#define PROBES  8
#define FIRSTS  (1u << 14)
#define LINKS   (1u << 12)
#define QUARTER 900 /* zones differ by multiples of this many seconds */

enum instant {
    INSTANT_BOOT = 1,    /* microseconds since one boot */
    INSTANT_BOOT_SECOND, /* seconds since any boot */
    INSTANT_UTC,
    INSTANT_LOCAL,
    INSTANT_COMPUTED, /* dmesg -T */
    INSTANT_QUARTER,  /* UTC or local, within a quarter of an hour */
};

struct entry {
    uint64_t key; /* 0: free */
    rg_source_id source;
    uint8_t kind; /* of the clock behind a QUARTER */
};

/* The first line with that text of a node. */
struct first {
    uint64_t hash;
    int64_t second;
    rg_source_id source;
    uint8_t kind;
};

/* wall clock of `wall` minus seconds since boot of `boot`, by majority. */
struct link {
    rg_source_id wall;
    rg_source_id boot;
    int64_t difference;
    int32_t votes;
};

struct rg_seen {
    struct entry entries[ENTRIES];
    struct first firsts[FIRSTS];
    struct link links[LINKS];
    uint32_t clock; /* which of a full bucket goes */
};

int rg_seen_new(struct rg_seen **ret_seen, struct rg_error *err)
{
    *ret_seen = calloc(1, sizeof(struct rg_seen));
    return *ret_seen ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

void rg_seen_free(struct rg_seen *seen)
{
    free(seen);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
    return x ^ (x >> 31);
}

static uint64_t word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* Four hashes that do not wait for each other: lines of Lustre are long. */
static uint64_t hash_line(const struct rg_log_record *record)
{
    struct span text = record->text;
    uint64_t a = mix(record->node, record->repeats);
    uint64_t b = 1, c = 2, d = 3;
    for (; text.len >= 32; text = rg_span_skip(text, 32)) {
        a = mix(a, word_at(text.ptr));
        b = mix(b, word_at(text.ptr + 8));
        c = mix(c, word_at(text.ptr + 16));
        d = mix(d, word_at(text.ptr + 24));
    }
    uint64_t hash = mix(mix(a, b), mix(c, d));
    for (; text.len >= 8; text = rg_span_skip(text, 8)) {
        hash = mix(hash, word_at(text.ptr));
    }
    uint64_t tail = 0;
    memcpy(&tail, text.ptr, text.len);
    return mix(hash, tail ^ record->text.len);
}

/* ---- The set ---- */

static uint64_t key_of(uint64_t line, enum instant kind, int64_t instant)
{
    return mix(mix(line, kind), (uint64_t)instant) | 1;
}

/* An entry of that key; NULL when there is none. */
static struct entry *find(struct rg_seen *seen, uint64_t key)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        struct entry *entry = &seen->entries[((key >> 8) + i) & (ENTRIES - 1)];
        if (entry->key == key) {
            return entry;
        }
    }
    return NULL;
}

static void insert(struct rg_seen *seen, uint64_t key, rg_source_id source, enum instant kind)
{
    struct entry *place = NULL;
    for (uint32_t i = 0; i < PROBES && !place; i++) {
        struct entry *entry = &seen->entries[((key >> 8) + i) & (ENTRIES - 1)];
        place = entry->key == 0 || entry->key == key ? entry : NULL;
    }
    if (!place) {
        place = &seen->entries[((key >> 8) + seen->clock++ % PROBES) & (ENTRIES - 1)];
    }
    *place = (struct entry){.key = key, .source = source, .kind = (uint8_t)kind};
}

/* The line at that second or a neighbouring one, from another source. */
static bool find_near(struct rg_seen *seen, uint64_t line, enum instant kind, int64_t second,
                      rg_source_id source)
{
    for (int64_t i = -1; i <= 1; i++) {
        const struct entry *entry = find(seen, key_of(line, kind, second + i));
        if (entry && entry->source != source) {
            return true;
        }
    }
    return false;
}

/* ---- Clocks of different kinds ---- */

static struct link *link_of(struct rg_seen *seen, rg_source_id wall, rg_source_id boot)
{
    struct link *link = &seen->links[mix(wall, boot) & (LINKS - 1)];
    if (link->wall != wall || link->boot != boot) {
        *link = (struct link){.wall = wall, .boot = boot};
    }
    return link;
}

static bool agree(int64_t a, int64_t b)
{
    return llabs(a - b) <= 2;
}

/* A common line says what the difference is. True when that is believed: for dmesg -T at once (it
 * is the same ring, printed twice), else when two lines say so. */
static bool vote(struct link *link, int64_t difference, bool twin)
{
    if (link->votes == 0) {
        link->difference = difference;
    }
    bool agreed = agree(link->difference, difference);
    link->votes += agreed ? 1 : -1;
    return agreed && (twin || link->votes >= 2);
}

/* A line with only seconds since boot against one with only a wall clock. */
static bool seen_across(struct rg_seen *seen, const struct rg_log_record *record, uint64_t line,
                        enum instant kind, int64_t second)
{
    struct first *first = &seen->firsts[line & (FIRSTS - 1)];
    if (first->hash != line) {
        *first = (struct first){
            .hash = line, .second = second, .source = record->source, .kind = (uint8_t)kind};
        return false;
    }
    bool boot = kind == INSTANT_BOOT_SECOND;
    bool first_boot = first->kind == INSTANT_BOOT_SECOND;
    if (first->source == record->source || boot == first_boot) {
        return false;
    }
    struct link *link = boot ? link_of(seen, first->source, record->source)
                             : link_of(seen, record->source, first->source);
    int64_t difference = boot ? first->second - second : second - first->second;
    bool twin = kind == INSTANT_COMPUTED || first->kind == INSTANT_COMPUTED;
    int64_t other = boot ? second + link->difference : second - link->difference;
    if (link->votes > 0 &&
        find_near(seen, line, (enum instant)first->kind, other, record->source)) {
        difference = link->difference; /* a text that comes often: its instant decides */
    }
    return vote(link, difference, twin);
}

/* ---- One record ---- */

static int64_t whole_second(int64_t usec)
{
    return usec / SEC - (usec % SEC < 0);
}

static uint64_t boot_key(uint64_t line, uint32_t boot, int64_t usec)
{
    return key_of(mix(line, boot), INSTANT_BOOT, usec);
}

static uint64_t boot_second_key(uint64_t line, int64_t usec)
{
    return key_of(line, INSTANT_BOOT_SECOND, whole_second(usec));
}

/* The places of an entry: 16 bytes each, in two or three lines of the cache. */
static void fetch(const struct rg_seen *seen, uint64_t key)
{
    const struct entry *first = &seen->entries[(key >> 8) & (ENTRIES - 1)];
    __builtin_prefetch(first);
    __builtin_prefetch((const char *)first + 64);
}

/* Wall clocks have three seconds to look at, and come with other costs. */
void rg_seen_expect(const struct rg_seen *seen, const struct rg_log_record *record)
{
    const struct rg_stamp *stamp =
        record->stamp.kind == RG_STAMP_BOOT ? &record->stamp : &record->second;
    if (stamp->kind == RG_STAMP_BOOT) {
        uint64_t line = hash_line(record);
        fetch(seen, boot_key(line, record->boot, stamp->usec));
        fetch(seen, boot_second_key(line, stamp->usec));
        __builtin_prefetch(&seen->firsts[line & (FIRSTS - 1)]);
    }
}

static bool seen_at_boot(struct rg_seen *seen, const struct rg_log_record *record, uint64_t line,
                         int64_t usec)
{
    uint64_t key = boot_key(line, record->boot, usec);
    uint64_t second = boot_second_key(line, usec);
    if (find(seen, key)) {
        return true;
    }
    insert(seen, second, record->source, INSTANT_BOOT_SECOND);
    insert(seen, key, record->source, INSTANT_BOOT); /* last: the other must not push it out */
    return false;
}

/* Wall clocks of one kind agree to the second; of two kinds, but for a zone. */
static bool seen_at_wall(struct rg_seen *seen, const struct rg_log_record *record, uint64_t line,
                         enum instant kind, int64_t second)
{
    if (find_near(seen, line, kind, second, record->source)) {
        return true;
    }
    insert(seen, key_of(line, kind, second), record->source, kind);
    if (kind == INSTANT_COMPUTED) {
        return false;
    }
    int64_t rest = (second % QUARTER + QUARTER) % QUARTER;
    for (int64_t i = -1; i <= 1; i++) {
        const struct entry *entry =
            find(seen, key_of(line, INSTANT_QUARTER, (rest + i + QUARTER) % QUARTER));
        if (entry && entry->source != record->source && entry->kind != kind) {
            return true;
        }
    }
    insert(seen, key_of(line, INSTANT_QUARTER, rest), record->source, kind);
    return false;
}

bool rg_seen_before(struct rg_seen *seen, const struct rg_log_record *record)
{
    uint64_t line = hash_line(record);
    const struct rg_stamp *stamp = &record->stamp;
    bool boot_only = stamp->kind == RG_STAMP_BOOT;
    if (boot_only || record->second.kind == RG_STAMP_BOOT) {
        int64_t usec = boot_only ? stamp->usec : record->second.usec;
        if (seen_at_boot(seen, record, line, usec)) {
            return true;
        }
    }
    if (boot_only) {
        return seen_across(seen, record, line, INSTANT_BOOT_SECOND, whole_second(stamp->usec));
    }
    if (stamp->kind == RG_STAMP_NONE) {
        return false;
    }
    enum instant kind = stamp->computed                 ? INSTANT_COMPUTED
                        : stamp->kind == RG_STAMP_LOCAL ? INSTANT_LOCAL
                                                        : INSTANT_UTC;
    int64_t second = whole_second(stamp->usec);
    return seen_at_wall(seen, record, line, kind, second) ||
           seen_across(seen, record, line, kind, second);
}
