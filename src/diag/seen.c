/*
 * Hash sets of fixed size. An entry is a text at one instant of one kind of clock, and how often it
 * was said then. A line of another source claims one of those times, so that of two sources the one
 * that says a thing more often counts. Links between sources hold the difference of their clocks as
 * their common lines show it.
 */
#include "diag/seen.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

#define SEC     INT64_C(1000000)
#define ENTRIES (1u << 18) /* powers of two */
#define PROBES  8
#define TEXTS   (1u << 14)
#define LINKS   (1u << 12)
#define QUARTER 900 /* zones differ by multiples of this many seconds */
#define AGREE   2   /* seconds: a difference of two clocks, seen twice */

/* dmesg -T computes from the boot: it is off by what the host slept, and by what its clock was set
 * and drifted since, which changes slowly. */
#define COMPUTED_OFF      180
#define COMPUTED_MOVES    60
#define COMPUTED_OFF_MOST 3600 /* believed when two lines say so */
#define ZONE_MAX          (15 * 3600)
#define EAST_UNKNOWN      INT16_MIN

enum instant {
    INSTANT_BOOT = 1,    /* microseconds since boot */
    INSTANT_BOOT_EARLY,  /* of one boot: in its first second every boot says the same */
    INSTANT_BOOT_SECOND, /* seconds since any boot */
    INSTANT_UTC,
    INSTANT_LOCAL,
    INSTANT_COMPUTED,    /* dmesg -T, in the zone that it prints */
    INSTANT_QUARTER_UTC, /* within a quarter of an hour */
    INSTANT_QUARTER_LOCAL,
};

struct entry {
    uint64_t key; /* 0: free */
    uint16_t source;
    uint16_t boot; /* the last bits of it, of INSTANT_BOOT */
    uint16_t count;
    uint16_t claimed; /* by that source, which may be the one that said them */
};

/* Which clocks a line has. */
enum clocks {
    CLOCKS_RING, /* seconds since boot alone */
    CLOCKS_COMPUTED,
    CLOCKS_UTC, /* a wall clock alone */
    CLOCKS_LOCAL,
    CLOCKS_BOTH,
    CLOCKS_COUNT,
};

/* The first line with a text of a node that has those clocks. */
struct first {
    uint32_t second; /* of BOTH, since boot */
    uint16_t source; /* 0: none */
    int16_t east_min;
};

/* From the earliest to the latest. */
struct range {
    uint32_t least;
    uint32_t most;
};

struct text {
    uint64_t hash;
    struct first firsts[CLOCKS_COUNT];
    struct range computed; /* seconds of all such lines */
    struct range wall;     /* whichever the zone */
};

/* Seconds of a line of `high`, whose clocks come later in the enum, minus those of `low`. */
struct link {
    uint16_t high;
    uint16_t low;
    int64_t difference; /* by majority */
    int32_t votes;
};

struct rg_seen {
    struct entry entries[ENTRIES];
    struct text texts[TEXTS];
    struct link links[LINKS];
    uint32_t clock; /* which of a full bucket goes */
    int64_t zone;   /* seconds that a wall clock was last east of UTC */
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

/* One more of them, for its source to say and not to claim. */
static void insert(struct rg_seen *seen, uint64_t key, const struct rg_log_record *record)
{
    struct entry *place = NULL;
    for (uint32_t i = 0; i < PROBES && !place; i++) {
        struct entry *entry = &seen->entries[((key >> 8) + i) & (ENTRIES - 1)];
        place = entry->key == 0 || entry->key == key ? entry : NULL;
    }
    if (!place) {
        place = &seen->entries[((key >> 8) + seen->clock++ % PROBES) & (ENTRIES - 1)];
    }
    uint16_t count = place->key == key ? place->count : 0;
    count += count < UINT16_MAX;
    *place = (struct entry){.key = key,
                            .source = (uint16_t)record->source,
                            .boot = (uint16_t)record->boot,
                            .count = count,
                            .claimed = count};
}

/* False when there is none that the source has not yet said or claimed. */
static bool claim(struct entry *entry, rg_source_id source)
{
    if (!entry) {
        return false;
    }
    if (entry->source != (uint16_t)source) {
        entry->source = (uint16_t)source;
        entry->claimed = 0;
    }
    if (entry->claimed == entry->count) {
        return false;
    }
    entry->claimed++;
    return true;
}

/* The earliest within reach: what comes later is left to later lines. */
static bool claim_near(struct rg_seen *seen, uint64_t line, enum instant kind, int64_t second,
                       int64_t reach, rg_source_id source, int64_t *ret_second)
{
    for (int64_t at = second - reach; at <= second + reach; at++) {
        if (claim(find(seen, key_of(line, kind, at)), source)) {
            *ret_second = at;
            return true;
        }
    }
    return false;
}

/* ---- Clocks of different kinds ---- */

struct line {
    uint64_t hash;
    enum clocks clocks;
    struct first as;
    int64_t wall; /* second of its wall clock, if it has one */
};

/* A line, and the first one with other clocks and that text. */
struct pair {
    const struct line *mine;
    const struct first *other;
    enum clocks clocks; /* of the other */
    struct link *link;
    int sign; /* of what the line's second is more than the other's */
};

/* By what a line with those clocks is found. */
static const uint8_t instants[CLOCKS_COUNT] = {
    [CLOCKS_RING] = INSTANT_BOOT_SECOND, [CLOCKS_COMPUTED] = INSTANT_COMPUTED,
    [CLOCKS_UTC] = INSTANT_UTC,          [CLOCKS_LOCAL] = INSTANT_LOCAL,
    [CLOCKS_BOTH] = INSTANT_BOOT_SECOND,
};

static struct link *link_of(struct rg_seen *seen, uint16_t high, uint16_t low)
{
    struct link *link = &seen->links[mix(high, low) & (LINKS - 1)];
    if (link->high != high || link->low != low) {
        *link = (struct link){.high = high, .low = low};
    }
    return link;
}

static int64_t other_second(const struct pair *pair, int64_t difference)
{
    return (int64_t)pair->mine->as.second - pair->sign * difference;
}

/* Whether dmesg -T can be that far from a wall clock, in whichever zone if no line states it: or a
 * boot that went the same way as the ring's would be taken for it. */
static bool is_possible(const struct pair *pair, int64_t difference)
{
    const struct line *mine = pair->mine;
    int64_t other = other_second(pair, difference);
    int64_t ahead;
    int east_min;
    if (pair->clocks == CLOCKS_COMPUTED && mine->clocks != CLOCKS_RING) {
        ahead = mine->wall - other;
        east_min = mine->as.east_min;
    } else if (mine->clocks == CLOCKS_COMPUTED &&
               (pair->clocks == CLOCKS_UTC || pair->clocks == CLOCKS_LOCAL)) {
        ahead = other - mine->wall;
        east_min = pair->other->east_min;
    } else {
        return true;
    }
    if (east_min != EAST_UNKNOWN) {
        return llabs(ahead + east_min * INT64_C(60)) <= COMPUTED_OFF_MOST;
    }
    int64_t rest = llabs(ahead) % QUARTER;
    return llabs(ahead) <= ZONE_MAX && (rest <= COMPUTED_OFF || QUARTER - rest <= COMPUTED_OFF);
}

/* Claims a line of the other clock, at `difference` or up to `reach` from it, and says at which. */
static bool claim_other(struct rg_seen *seen, const struct pair *pair, int64_t reach,
                        int64_t *difference)
{
    const struct line *mine = pair->mine;
    int64_t at;
    if (!is_possible(pair, *difference) ||
        !claim_near(seen, mine->hash, (enum instant)instants[pair->clocks],
                    other_second(pair, *difference), reach, mine->as.source, &at)) {
        return false;
    }
    *difference = pair->sign * (mine->as.second - at);
    return true;
}

/* Where the lines before showed it to be. */
static bool seen_as_expected(struct rg_seen *seen, const struct pair *pair)
{
    int64_t difference = pair->link->difference;
    if (pair->link->votes == 0 || !claim_other(seen, pair, AGREE, &difference)) {
        return false;
    }
    pair->link->votes++;
    return true;
}

/* What the first line with the text says of the difference: believed at once, or when two lines say
 * so. */
static bool seen_as_first(struct rg_seen *seen, const struct pair *pair, bool at_once)
{
    struct link *link = pair->link;
    int64_t difference = pair->sign * ((int64_t)pair->mine->as.second - pair->other->second);
    if (!is_possible(pair, difference)) {
        return false;
    }
    if (link->votes == 0) {
        link->difference = difference;
    }
    bool agreed = llabs(link->difference - difference) <= AGREE;
    link->votes += agreed ? 1 : -1;
    return agreed && (at_once || link->votes >= 2) && claim_other(seen, pair, 0, &difference);
}

/* dmesg -T and a wall clock of its zone are not far apart. */
static bool seen_as_computed(struct rg_seen *seen, const struct pair *pair, const struct text *text)
{
    bool computed = pair->mine->clocks == CLOCKS_COMPUTED;
    const struct range *range = computed ? &text->wall : &text->computed;
    int east_min = computed ? pair->other->east_min : pair->mine->as.east_min;
    struct link *link = pair->link;
    bool settled = link->votes >= 2;
    int64_t difference = settled ? link->difference : east_min * INT64_C(-60);
    int64_t reach = settled ? COMPUTED_MOVES : COMPUTED_OFF;
    int64_t expected = other_second(pair, difference);
    if (east_min == EAST_UNKNOWN || expected + reach < range->least ||
        expected - reach > range->most || !claim_other(seen, pair, reach, &difference)) {
        return false;
    }
    bool agreed = settled || llabs(link->difference - difference) <= AGREE;
    link->votes = link->votes > 0 && agreed ? link->votes + 1 : 1;
    link->difference = difference;
    return true;
}

/* How lines are compared that have no clock in common. Those that have are compared by it. */
enum relation {
    RELATION_NONE,
    RELATION_TWIN, /* the ring, printed twice */
    RELATION_NEAR,
    RELATION_GUESSED,
};

static const uint8_t relations[CLOCKS_COUNT][CLOCKS_COUNT] = {
    [CLOCKS_RING] = {[CLOCKS_COMPUTED] = RELATION_TWIN,
                     [CLOCKS_UTC] = RELATION_GUESSED,
                     [CLOCKS_LOCAL] = RELATION_GUESSED},
    [CLOCKS_COMPUTED] = {[CLOCKS_RING] = RELATION_TWIN,
                         [CLOCKS_UTC] = RELATION_NEAR,
                         [CLOCKS_LOCAL] = RELATION_NEAR,
                         [CLOCKS_BOTH] = RELATION_TWIN},
    [CLOCKS_UTC] = {[CLOCKS_RING] = RELATION_GUESSED, [CLOCKS_COMPUTED] = RELATION_NEAR},
    [CLOCKS_LOCAL] = {[CLOCKS_RING] = RELATION_GUESSED, [CLOCKS_COMPUTED] = RELATION_NEAR},
    [CLOCKS_BOTH] = {[CLOCKS_COMPUTED] = RELATION_TWIN},
};

/* Claims a line of each, or one that was said there alone would be taken for a later one. */
static bool seen_with_other_clocks(struct rg_seen *seen, const struct text *text,
                                   const struct line *mine)
{
    bool same = false;
    for (enum clocks other = 0; other < CLOCKS_COUNT; other++) {
        enum relation relation = relations[mine->clocks][other];
        const struct first *first = &text->firsts[other];
        if (!relation || first->source == 0 || first->source == mine->as.source) {
            continue;
        }
        bool high = mine->clocks > other;
        struct pair pair = {.mine = mine,
                            .other = first,
                            .clocks = other,
                            .link = high ? link_of(seen, mine->as.source, first->source)
                                         : link_of(seen, first->source, mine->as.source),
                            .sign = high ? 1 : -1};
        same |= seen_as_expected(seen, &pair) ||
                (relation == RELATION_NEAR && seen_as_computed(seen, &pair, text)) ||
                seen_as_first(seen, &pair, relation == RELATION_TWIN);
    }
    return same;
}

static void widen(struct range *range, uint32_t second)
{
    bool none = range->most == 0;
    range->least = none || second < range->least ? second : range->least;
    range->most = RG_MAX(range->most, second);
}

static bool seen_across(struct rg_seen *seen, const struct line *mine)
{
    struct text *text = &seen->texts[mine->hash & (TEXTS - 1)];
    if (text->hash != mine->hash) {
        *text = (struct text){.hash = mine->hash};
    }
    if (text->firsts[mine->clocks].source == 0) {
        text->firsts[mine->clocks] = mine->as;
    }
    if (mine->clocks == CLOCKS_COMPUTED) {
        widen(&text->computed, mine->as.second);
    } else if (mine->clocks == CLOCKS_UTC || mine->clocks == CLOCKS_LOCAL) {
        widen(&text->wall, mine->as.second);
    }
    return seen_with_other_clocks(seen, text, mine);
}

/* ---- One record ---- */

static int64_t whole_second(int64_t usec)
{
    return usec / SEC - (usec % SEC < 0);
}

static uint64_t boot_key(uint64_t line, uint32_t boot, int64_t usec)
{
    return usec < SEC ? key_of(mix(line, boot), INSTANT_BOOT_EARLY, usec)
                      : key_of(line, INSTANT_BOOT, usec);
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
        __builtin_prefetch(&seen->texts[line & (TEXTS - 1)]);
    }
}

/* The number of a boot is not yet right where nothing has told which of those that are there it is:
 * no two boots say the same at the same microsecond, but at their very beginning. */
static bool seen_at_boot(struct rg_seen *seen, const struct rg_log_record *record, uint64_t line,
                         int64_t usec)
{
    uint64_t key = boot_key(line, record->boot, usec);
    struct entry *entry = find(seen, key);
    bool again = entry && entry->boot == (uint16_t)record->boot;
    if (claim(entry, record->source) || again) {
        return true;
    }
    insert(seen, boot_second_key(line, usec), record);
    insert(seen, key, record); /* last: the other must not push it out */
    return false;
}

/* A line of a wall clock of the other kind, which is off by its zone alone: at the same second of a
 * quarter of an hour, and no further away than zones are. */
static bool claim_zoned(struct rg_seen *seen, uint64_t line, bool utc, int64_t second,
                        rg_source_id source)
{
    enum instant quarter = utc ? INSTANT_QUARTER_LOCAL : INSTANT_QUARTER_UTC;
    enum instant kind = utc ? INSTANT_LOCAL : INSTANT_UTC;
    int64_t rest = (second % QUARTER + QUARTER) % QUARTER;
    for (int64_t i = -1; i <= 1; i++) {
        struct entry *entry = find(seen, key_of(line, quarter, (rest + i + QUARTER) % QUARTER));
        if (!claim(entry, source)) {
            continue;
        }
        int64_t zone = seen->zone; /* most likely the same again */
        for (int64_t next = -ZONE_MAX; next <= ZONE_MAX + QUARTER; next += QUARTER) {
            int64_t at = second + i + (utc ? zone : -zone);
            if (claim(find(seen, key_of(line, kind, at)), source)) {
                seen->zone = zone;
                return true;
            }
            zone = next;
        }
        entry->claimed--; /* said on another day */
    }
    return false;
}

/* Wall clocks of one kind agree to the second; of two kinds, but for a zone. */
static bool seen_at_wall(struct rg_seen *seen, const struct rg_log_record *record, uint64_t line,
                         enum instant kind, int64_t second)
{
    int64_t at;
    bool same = claim_near(seen, line, kind, second, 1, record->source, &at);
    if (!same) {
        insert(seen, key_of(line, kind, second), record);
    }
    if (kind == INSTANT_COMPUTED) {
        return same;
    }
    bool utc = kind == INSTANT_UTC;
    if (claim_zoned(seen, line, utc, second, record->source)) {
        return true;
    }
    if (!same) {
        int64_t rest = (second % QUARTER + QUARTER) % QUARTER;
        insert(seen, key_of(line, utc ? INSTANT_QUARTER_UTC : INSTANT_QUARTER_LOCAL, rest), record);
    }
    return same;
}

/* The second of dmesg -T in the zone it prints, which a line of it may name. */
static int64_t computed_second(const struct rg_stamp *stamp)
{
    return whole_second(stamp->usec) + (stamp->zoned ? stamp->east_min * 60 : 0);
}

static enum clocks clocks_of(const struct rg_stamp *stamp, bool boot)
{
    return boot                            ? CLOCKS_BOTH
           : stamp->computed               ? CLOCKS_COMPUTED
           : stamp->kind == RG_STAMP_LOCAL ? CLOCKS_LOCAL
                                           : CLOCKS_UTC;
}

/* What lies beyond is compared with nothing, since no entry is there. */
static uint32_t narrow(int64_t second)
{
    return (uint32_t)(second < 0 ? 0 : second > UINT32_MAX ? UINT32_MAX : second);
}

bool rg_seen_before(struct rg_seen *seen, const struct rg_log_record *record)
{
    const struct rg_stamp *stamp = &record->stamp;
    if (stamp->kind == RG_STAMP_NONE) {
        return false;
    }
    struct line line = {.hash = hash_line(record), .as.source = (uint16_t)record->source};
    bool boot = stamp->kind == RG_STAMP_BOOT || record->second.kind == RG_STAMP_BOOT;
    bool same = false;
    if (boot) {
        int64_t usec = stamp->kind == RG_STAMP_BOOT ? stamp->usec : record->second.usec;
        same = seen_at_boot(seen, record, line.hash, usec);
        line.as.second = narrow(whole_second(usec));
    }
    if (stamp->kind != RG_STAMP_BOOT) {
        bool local = stamp->kind == RG_STAMP_LOCAL;
        line.wall = stamp->computed ? computed_second(stamp) : whole_second(stamp->usec);
        line.clocks = clocks_of(stamp, boot);
        line.as.east_min = local ? 0 : stamp->zoned ? stamp->east_min : EAST_UNKNOWN;
        line.as.second = boot ? line.as.second : narrow(line.wall);
        same |= seen_at_wall(seen, record, line.hash,
                             (enum instant)instants[clocks_of(stamp, false)], line.wall);
    }
    return seen_across(seen, &line) || same;
}
