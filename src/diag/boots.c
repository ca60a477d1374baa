/*
 * Numbering boots. Per (node, family) the last stamp and the boot are kept; a table of fixed size
 * remembers stamps of lines, by which a boot is recognised when another file shows it again.
 */
#include "diag/boots.h"

#include "base/attr.h"
#include "base/checked.h"

#include "diag/nodes.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX    (128u << 10)
#define MARKS          (64u << 10) /* a power of two */
#define IDS_MAX        (64u << 10)
#define JOINED_MAX     (64u << 10)
#define BACKWARDS_USEC (2 * 1000000)  /* processors print a little out of order */
#define TELLING_USEC   (60 * 1000000) /* below, every boot has the same stamps */
#define SOON_USEC      (60 * 1000000) /* a restart that shows nothing of its start is not so quick */
#define MARK_ALL_LINES 1024           /* of a family; behind them one stamp in 32 is remembered */

struct thread {
    rg_node_id node; /* 0 and family 0: free */
    uint32_t family;
    uint32_t boot;
    uint32_t lines; /* of this boot, saturating */
    int64_t last_usec;
    bool used;
    bool has_boot_stamp;
    bool saw_version;
    bool split; /* the next line begins a boot */
    bool young; /* the boot is a new one, and no line of it was known */
    bool told;  /* a line of it could have been */
};

struct mark {
    uint64_t hash;
    uint32_t boot;
    rg_node_id node;
};

struct boot_id {
    uint64_t hash; /* of node and id; 0: free */
    uint32_t boot;
    uint32_t lines; /* saturating */
    bool known;     /* another file's lines showed which boot it is */
};

/* A number that turned out to be another's boot. */
struct joined {
    rg_node_id node;
    uint32_t boot;
    uint32_t same; /* smaller; 0 may be */
    bool used;
};

struct tally {
    uint32_t boots;
    bool stamped; /* lines of the latest boot had seconds since boot */
};

struct rg_boots {
    struct thread *threads;
    uint32_t thread_count;
    uint32_t thread_room; /* a power of two */
    uint32_t last;        /* the thread of the last line */
    struct mark *marks;
    struct boot_id *ids;
    uint32_t id_count;
    uint32_t id_room;
    uint32_t last_id; /* slot of the last line's */
    struct joined *joined;
    uint32_t joined_count;
    uint32_t joined_room;  /* a power of two */
    struct tally *tallies; /* by node */
    uint32_t tally_room;
};

void rg_boots_free(struct rg_boots *boots)
{
    if (boots) {
        free(boots->threads);
        free(boots->marks);
        free(boots->ids);
        free(boots->joined);
        free(boots->tallies);
        free(boots);
    }
}

int rg_boots_new(struct rg_boots **ret_boots, struct rg_error *err)
{
    struct rg_boots *boots = calloc(1, sizeof(*boots));
    if (!boots) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    boots->thread_room = 64;
    boots->id_room = 64;
    boots->joined_room = 64;
    boots->tally_room = 64;
    boots->threads = calloc(boots->thread_room, sizeof(*boots->threads));
    boots->marks = calloc(MARKS, sizeof(*boots->marks));
    boots->ids = calloc(boots->id_room, sizeof(*boots->ids));
    boots->joined = calloc(boots->joined_room, sizeof(*boots->joined));
    boots->tallies = calloc(boots->tally_room, sizeof(*boots->tallies));
    if (!boots->threads || !boots->marks || !boots->ids || !boots->joined || !boots->tallies) {
        rg_boots_free(boots);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *ret_boots = boots;
    return 0;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
    return x ^ (x >> 32);
}

/* NULL without memory. */
static struct tally *tally_of(struct rg_boots *boots, rg_node_id node)
{
    if (node >= boots->tally_room) {
        uint32_t room = RG_MAX(boots->tally_room * 2, node + 1);
        struct tally *grown = realloc(boots->tallies, room * sizeof(*grown));
        if (!grown) {
            return NULL;
        }
        memset(grown + boots->tally_room, 0, (room - boots->tally_room) * sizeof(*grown));
        boots->tallies = grown;
        boots->tally_room = room;
    }
    return &boots->tallies[node];
}

/* A new boot of the node; without memory all further boots are one. */
static uint32_t next_boot(struct rg_boots *boots, rg_node_id node, bool stamped)
{
    struct tally *tally = tally_of(boots, node);
    if (!tally) {
        return 0;
    }
    tally->stamped = stamped;
    return tally->boots++;
}

/* The boot of a stream that has just begun: the latest one, unless both have seconds since boot,
 * which would have shown that they are the same. */
static uint32_t first_boot(struct rg_boots *boots, rg_node_id node, bool stamped)
{
    struct tally *tally = tally_of(boots, node);
    if (!tally || tally->boots == 0 || (stamped && tally->stamped)) {
        return next_boot(boots, node, stamped);
    }
    tally->stamped = tally->stamped || stamped;
    return tally->boots - 1;
}

uint32_t rg_boots_count(const struct rg_boots *boots, rg_node_id node)
{
    return node < boots->tally_room ? boots->tallies[node].boots : 0;
}

static uint32_t thread_slot(const struct thread *threads, uint32_t room, rg_node_id node,
                            uint32_t family)
{
    uint32_t slot = (uint32_t)mix(node, family) & (room - 1);
    while (threads[slot].used && (threads[slot].node != node || threads[slot].family != family)) {
        slot = (slot + 1) & (room - 1);
    }
    return slot;
}

static void grow_threads(struct rg_boots *boots)
{
    uint32_t room = boots->thread_room * 2;
    struct thread *grown = calloc(room, sizeof(*grown));
    if (!grown) {
        return;
    }
    for (uint32_t i = 0; i < boots->thread_room; i++) {
        const struct thread *old = &boots->threads[i];
        if (old->used) {
            grown[thread_slot(grown, room, old->node, old->family)] = *old;
        }
    }
    free(boots->threads);
    boots->threads = grown;
    boots->thread_room = room;
}

/* The thread of that node and family, made when it is new; NULL at the ceiling. */
static struct thread *find_thread(struct rg_boots *boots, rg_node_id node, uint32_t family)
{
    struct thread *last = &boots->threads[boots->last];
    if (last->used && last->node == node && last->family == family) {
        return last;
    }
    uint32_t slot = thread_slot(boots->threads, boots->thread_room, node, family);
    if (!boots->threads[slot].used) {
        if (boots->thread_count >= THREADS_MAX) {
            return NULL;
        }
        if ((boots->thread_count + 1) * 2 > boots->thread_room) {
            grow_threads(boots);
            slot = thread_slot(boots->threads, boots->thread_room, node, family);
        }
        if (boots->thread_count + 1 >= boots->thread_room) {
            return NULL; /* no memory to grow */
        }
        boots->thread_count++;
        boots->threads[slot] = (struct thread){.node = node, .family = family, .used = true};
    }
    boots->last = slot;
    return &boots->threads[slot];
}

/* ---- Recognising a boot by its lines ---- */

static uint64_t hash_line(const struct rg_log_record *record, int64_t usec)
{
    uint64_t tail = 0;
    size_t len = RG_MIN(record->text.len, sizeof(tail));
    memcpy(&tail, record->text.ptr + record->text.len - len, len);
    return mix(mix(mix(record->node, (uint64_t)usec), tail), record->text.len);
}

/* The mark of a line: remembered already, or where it goes. NULL: the line tells nothing. */
static struct mark *find_mark(struct rg_boots *boots, uint32_t lines,
                              const struct rg_log_record *record, int64_t usec, uint64_t *ret_hash)
{
    uint64_t spread = mix(record->node, (uint64_t)usec);
    if (usec < TELLING_USEC || (lines > MARK_ALL_LINES && (spread & 31) != 0)) {
        return NULL;
    }
    *ret_hash = hash_line(record, usec);
    return &boots->marks[*ret_hash & (MARKS - 1)];
}

static bool is_marked(const struct mark *mark, uint64_t hash, rg_node_id node)
{
    return mark && mark->hash == hash && mark->node == node;
}

/* ---- Numbers of the same boot ---- */

static uint32_t joined_slot(const struct joined *joined, uint32_t room, rg_node_id node,
                            uint32_t boot)
{
    uint32_t slot = (uint32_t)mix(node, boot) & (room - 1);
    while (joined[slot].used && (joined[slot].node != node || joined[slot].boot != boot)) {
        slot = (slot + 1) & (room - 1);
    }
    return slot;
}

static bool grow_joined(struct rg_boots *boots)
{
    uint32_t room = boots->joined_room * 2;
    struct joined *grown = calloc(room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    for (uint32_t i = 0; i < boots->joined_room; i++) {
        const struct joined *old = &boots->joined[i];
        if (old->used) {
            grown[joined_slot(grown, room, old->node, old->boot)] = *old;
        }
    }
    free(boots->joined);
    boots->joined = grown;
    boots->joined_room = room;
    return true;
}

/* NULL when the number stands for itself. */
static struct joined *find_joined(struct rg_boots *boots, rg_node_id node, uint32_t boot)
{
    struct joined *joined =
        &boots->joined[joined_slot(boots->joined, boots->joined_room, node, boot)];
    return joined->used ? joined : NULL;
}

uint32_t rg_boots_same(struct rg_boots *boots, rg_node_id node, uint32_t boot)
{
    struct joined *joined = boots->joined_count > 0 ? find_joined(boots, node, boot) : NULL;
    while (joined) {
        struct joined *next = find_joined(boots, node, joined->same);
        boot = joined->same;
        joined->same = next ? next->same : joined->same; /* the way is half as long next time */
        joined = next;
    }
    return boot;
}

/* Both numbers are one boot. At the ceiling and without memory they stay two. */
static void join(struct rg_boots *boots, rg_node_id node, uint32_t one, uint32_t other)
{
    one = rg_boots_same(boots, node, one);
    other = rg_boots_same(boots, node, other);
    if (one == other || boots->joined_count >= JOINED_MAX ||
        ((boots->joined_count + 1) * 2 > boots->joined_room && !grow_joined(boots))) {
        return;
    }
    uint32_t later = RG_MAX(one, other);
    uint32_t slot = joined_slot(boots->joined, boots->joined_room, node, later);
    boots->joined[slot] =
        (struct joined){.node = node, .boot = later, .same = RG_MIN(one, other), .used = true};
    boots->joined_count++;
}

/* ---- The journal's ids ---- */

static uint32_t id_slot(const struct boot_id *ids, uint32_t room, uint64_t hash)
{
    uint32_t slot = (uint32_t)hash & (room - 1);
    while (ids[slot].hash != 0 && ids[slot].hash != hash) {
        slot = (slot + 1) & (room - 1);
    }
    return slot;
}

static bool grow_ids(struct rg_boots *boots)
{
    uint32_t room = boots->id_room * 2;
    struct boot_id *grown = calloc(room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    for (uint32_t i = 0; i < boots->id_room; i++) {
        if (boots->ids[i].hash != 0) {
            grown[id_slot(grown, room, boots->ids[i].hash)] = boots->ids[i];
        }
    }
    free(boots->ids);
    boots->ids = grown;
    boots->id_room = room;
    return true;
}

/* The entry of that id, made when it is new; NULL at the ceiling and without memory. */
static struct boot_id *find_id(struct rg_boots *boots, rg_node_id node, struct span id)
{
    uint64_t hash = mix(node, 0x626f6f74);
    for (size_t i = 0; i < id.len; i++) {
        hash = (hash ^ (unsigned char)id.ptr[i]) * 0x100000001b3u;
    }
    hash = mix(hash, id.len) | 1;
    if (boots->ids[boots->last_id].hash == hash) {
        return &boots->ids[boots->last_id];
    }
    uint32_t slot = id_slot(boots->ids, boots->id_room, hash);
    if (boots->ids[slot].hash == 0) {
        bool full = boots->id_count >= IDS_MAX ||
                    ((boots->id_count + 1) * 2 > boots->id_room && !grow_ids(boots));
        if (full) {
            return NULL;
        }
        slot = id_slot(boots->ids, boots->id_room, hash);
        boots->ids[slot] = (struct boot_id){.hash = hash, .boot = next_boot(boots, node, true)};
        boots->id_count++;
    }
    boots->last_id = slot;
    return &boots->ids[slot];
}

/* The journal says which of its boots it is; lines that another file had before say which of ours.
 */
static void assign_by_id(struct rg_boots *boots, struct span id, struct rg_log_record *record)
{
    struct boot_id *entry = find_id(boots, record->node, id);
    record->boot = entry ? entry->boot : 0;
    if (!entry || record->second.kind != RG_STAMP_BOOT) {
        return;
    }
    uint64_t hash;
    struct mark *mark = find_mark(boots, entry->lines, record, record->second.usec, &hash);
    entry->lines += entry->lines < UINT32_MAX;
    if (is_marked(mark, hash, record->node)) {
        if (!entry->known) {
            join(boots, record->node, entry->boot, mark->boot);
            entry->boot = mark->boot;
        }
        entry->known = true;
        record->boot = entry->boot;
    } else if (mark) {
        *mark = (struct mark){.hash = hash, .boot = entry->boot, .node = record->node};
    }
}

/* ---- Assigning ---- */

static void begin(struct thread *thread, uint32_t boot)
{
    thread->boot = boot;
    thread->lines = 0;
    thread->last_usec = 0;
    thread->has_boot_stamp = false;
    thread->saw_version = false;
    thread->split = false;
    thread->young = false;
    thread->told = false;
}

/* A boot that nothing yet tells to be one of those that are there. */
static void begin_next(struct rg_boots *boots, struct thread *thread, bool stamped)
{
    begin(thread, next_boot(boots, thread->node, stamped));
    thread->young = true;
}

/* A stream that has just begun. */
static void begin_first(struct rg_boots *boots, struct thread *thread, bool stamped)
{
    uint32_t before = rg_boots_count(boots, thread->node);
    begin(thread, first_boot(boots, thread->node, stamped));
    thread->young = thread->boot >= before;
}

static bool is_first_kernel_line(const struct rg_log_record *record)
{
    return record->text.len > 14 && record->text.ptr[0] == 'L' &&
           memcmp(record->text.ptr, "Linux version ", 14) == 0 &&
           record->speaker != RG_SPEAKER_PROGRAM;
}

static bool goes_back(const struct thread *thread, int64_t usec)
{
    return thread->has_boot_stamp && usec + BACKWARDS_USEC < thread->last_usec;
}

/* A line of another file's boot at `usec`: the lines before it, of a boot that is new, are of that
 * boot, too. Where others of them could have been known and were not, only if it comes soon. */
static bool goes_on(const struct thread *thread, int64_t usec)
{
    return thread->young && thread->has_boot_stamp && !thread->split && !goes_back(thread, usec) &&
           (!thread->told || usec - thread->last_usec <= SOON_USEC);
}

/* True when the line cannot belong to the boot the thread is in. */
static bool begins_boot(const struct thread *thread, bool version, bool stamped, int64_t usec)
{
    if (thread->split) {
        return true;
    }
    if (stamped && goes_back(thread, usec)) {
        return true;
    }
    if (!version || thread->lines == 0) {
        return false;
    }
    return !stamped || thread->saw_version || usec < thread->last_usec;
}

void rg_boots_assign(struct rg_boots *boots, uint32_t family, struct span id,
                     struct rg_log_record *record)
{
    if (id.len > 0) {
        assign_by_id(boots, id, record);
        return;
    }
    struct thread *thread = find_thread(boots, record->node, family);
    if (!thread) {
        record->boot = 0;
        return;
    }
    bool stamped = record->stamp.kind == RG_STAMP_BOOT || record->second.kind == RG_STAMP_BOOT;
    int64_t usec = record->stamp.kind == RG_STAMP_BOOT ? record->stamp.usec : record->second.usec;
    uint64_t hash = 0;
    struct mark *mark = stamped ? find_mark(boots, thread->lines, record, usec, &hash) : NULL;
    bool known = is_marked(mark, hash, record->node);
    bool version = is_first_kernel_line(record);
    bool fresh = thread->lines == 0 && !thread->has_boot_stamp;

    if (known && mark->boot != thread->boot) {
        if (goes_on(thread, usec)) {
            join(boots, record->node, thread->boot, mark->boot);
        }
        begin(thread, mark->boot);
    } else if (known) {
        thread->split = thread->young = false;
    } else if (fresh) {
        if (version && !stamped) {
            begin_next(boots, thread, false);
        } else {
            begin_first(boots, thread, stamped);
        }
    } else if (begins_boot(thread, version, stamped, usec)) {
        begin_next(boots, thread, stamped);
    }
    if (stamped) {
        thread->last_usec = usec;
        thread->has_boot_stamp = true;
    }
    if (mark && !known) {
        *mark = (struct mark){.hash = hash, .boot = thread->boot, .node = record->node};
    }
    thread->told = thread->told || mark;
    thread->saw_version = thread->saw_version || version;
    thread->lines += thread->lines < UINT32_MAX;
    record->boot = thread->boot;
}

void rg_boots_split(struct rg_boots *boots, uint32_t family, rg_node_id node)
{
    struct thread *thread = find_thread(boots, node, family);
    if (thread && thread->lines > 0) {
        thread->split = true;
    }
}
