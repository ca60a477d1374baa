/*
 * Directory snapshots: reading names, sorting them, keeping them. See snapshot.h for what may be
 * used when. Nothing here knows buckets or keys.
 *
 * A snapshot is an arena of records (flags, length - 1, bytes) in the order in which readdir gave
 * them, and an array of offsets into it in sorted order. Memory is reserved before it is allocated;
 * where a reservation fails, the least recently used snapshots that nobody holds go.
 */
#include "store/posix/snapshot.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "store/posix/posix.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHARDS        16u
#define READ_BYTES    65536u /* a getdents64 call; more is not faster, and malloc would map it */
#define ARENA_FIRST   1024u
#define ARENA_MAX     UINT32_MAX
#define RECORD_HEAD   2u
#define RECORD_MAX    (RECORD_HEAD + RG_SNAPSHOT_NAME_MAX)
#define FLAG_UNSURE   1u
#define PARTIAL_LEAST ((size_t)16)
#define PARTIAL_MOST  ((size_t)65536)

/* What a set of names hashes to, in whatever order they come. */
struct fingerprint {
    uint64_t count;
    uint64_t sum;
    uint64_t mix;
};

struct rg_snapshot {
    struct rg_snapshots *owner;
    _Atomic unsigned references;
    size_t reserved; /* bytes, given back with the snapshot; 0: partial */
    char *arena;
    uint32_t *offsets;
    size_t count;
    bool has_more;
};

/* What the cache knows about a directory. All under the shard's mutex, but for what only the thread
 * that set `building` touches. */
struct entry {
    struct entry *next; /* same slot of the hash table */
    struct entry *newer;
    struct entry *older;
    dev_t device;
    ino_t inode;
    bool building;
    struct rg_snapshot *snapshot; /* NULL: none kept */
    struct fingerprint print;     /* of the snapshot */
    struct timespec changed;      /* ctime and mtime from before its names were read */
    struct timespec modified;
    uint64_t read_ns; /* when reading began */
    bool settled;     /* `changed` was old enough to be trusted */
    size_t too_large; /* bytes that a whole snapshot was found to need; 0: not known */
    /* When a pair of change times was first met. */
    struct timespec met_changed;
    struct timespec met_modified;
    uint64_t met_ns;
};

struct shard {
    pthread_mutex_t mutex;
    pthread_cond_t built;
    struct entry **slots;
    struct entry *newest;
    struct entry *oldest;
    uint64_t hits;
    uint64_t misses;
    uint64_t unchanged;
    uint64_t partials;
    uint64_t evictions;
};

struct rg_snapshots {
    size_t memory_max;
    _Atomic size_t reserved;
    size_t slots; /* a shard, a power of two */
    bool ignore_types;
    uint64_t key[2]; /* of the name hash: names come from outside and could be made to collide */
    struct shard shards[SHARDS];
};

/* ---- Memory under the ceiling ---- */

static void release(struct rg_snapshots *all, size_t bytes)
{
    atomic_fetch_sub(&all->reserved, bytes);
}

static bool reserve_free(struct rg_snapshots *all, size_t bytes)
{
    size_t now = atomic_load(&all->reserved);
    do {
        if (bytes > all->memory_max || now > all->memory_max - bytes) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&all->reserved, &now, now + bytes));
    return true;
}

static void unlink_recency(struct shard *shard, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &shard->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &shard->oldest) = entry->newer;
    entry->newer = NULL;
    entry->older = NULL;
}

static void link_newest(struct shard *shard, struct entry *entry)
{
    entry->older = shard->newest;
    *(shard->newest ? &shard->newest->newer : &shard->oldest) = entry;
    shard->newest = entry;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t directory_hash(const struct rg_snapshots *all, dev_t device, ino_t inode)
{
    return fold(all->key[0] ^ (uint64_t)inode, all->key[1] ^ ((uint64_t)device << 1 | 1));
}

static void remove_entry(struct rg_snapshots *all, struct shard *shard, struct entry *entry)
{
    uint64_t hash = directory_hash(all, entry->device, entry->inode);
    struct entry **place = &shard->slots[hash / SHARDS & (all->slots - 1)];
    while (*place != entry) {
        place = &(*place)->next;
    }
    *place = entry->next;
    unlink_recency(shard, entry);
    rg_snapshot_put(entry->snapshot);
    free(entry);
    release(all, sizeof(*entry));
}

/* Would its memory come back at once? An entry that is being built is needed, but the snapshot it
 * still has may go, for instance to make room for the one that will replace it. */
static bool evictable(const struct entry *entry)
{
    bool held = entry->snapshot && atomic_load(&entry->snapshot->references) > 1;
    return !held && (entry->snapshot || !entry->building);
}

/* Drops what was least recently used. */
static bool evict_from(struct rg_snapshots *all, struct shard *shard)
{
    RG_MUST(pthread_mutex_lock(&shard->mutex));
    struct entry *entry = shard->oldest;
    while (entry && !evictable(entry)) {
        entry = entry->newer;
    }
    if (entry && entry->building) {
        rg_snapshot_put(RG_TAKE(entry->snapshot));
    } else if (entry) {
        remove_entry(all, shard, entry);
    }
    shard->evictions += entry != NULL;
    RG_MUST(pthread_mutex_unlock(&shard->mutex));
    return entry != NULL;
}

/*
 * No shard may be locked. Each shard keeps its own order of use; taking victims from the shards in
 * turn comes close to the order of all.
 */
static bool reserve(struct rg_snapshots *all, size_t bytes, size_t first_shard)
{
    if (bytes > all->memory_max) {
        return false;
    }
    size_t idle = 0;
    for (size_t shard = first_shard; idle < SHARDS; shard++) {
        if (reserve_free(all, bytes)) {
            return true;
        }
        idle = evict_from(all, &all->shards[shard % SHARDS]) ? 0 : idle + 1;
    }
    return reserve_free(all, bytes);
}

/* ---- Reading a directory ---- */

struct kernel_entry { /* struct linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

struct reader {
    int fd;
    bool ignore_types;
    char *buffer;
    size_t filled;
    size_t next;
};

struct found {
    char text[RG_SNAPSHOT_NAME_MAX]; /* with room for "/" */
    size_t len;                      /* without it */
    enum { IS_FILE, IS_DIRECTORY, IS_UNSURE } kind;
};

static int start_reading(struct reader *reader, struct rg_error *err)
{
    reader->filled = 0;
    reader->next = 0;
    if (lseek(reader->fd, 0, SEEK_SET) < 0) {
        return rg_fail_storage(err, errno, "cannot rewind a directory");
    }
    return 0;
}

/* True, and *ret_found, for an entry that listings may want. */
static bool accept_entry(const struct reader *reader, const struct kernel_entry *entry,
                         struct found *ret_found)
{
    size_t len = strlen(entry->name);
    struct span name = rg_span(entry->name, len);
    if (len == 0 || len >= RG_SNAPSHOT_NAME_MAX || rg_span_is(name, ".") ||
        rg_span_is(name, "..") || memchr(entry->name, '/', len) ||
        rg_posix_name_hidden(name, false)) {
        return false;
    }
    switch (reader->ignore_types ? DT_UNKNOWN : entry->type) {
    case DT_REG:
        ret_found->kind = IS_FILE;
        break;
    case DT_DIR:
        ret_found->kind = IS_DIRECTORY;
        break;
    case DT_LNK:
    case DT_UNKNOWN:
        ret_found->kind = IS_UNSURE;
        break;
    default: /* a FIFO, socket or device is no object */
        return false;
    }
    memcpy(ret_found->text, entry->name, len);
    ret_found->len = len;
    return true;
}

/* 1 and *ret_found, 0 at the end, or a negative code. */
static int read_name(struct reader *reader, struct found *ret_found, struct rg_error *err)
{
    for (;;) {
        if (reader->next == reader->filled) {
            long got = syscall(SYS_getdents64, reader->fd, reader->buffer, READ_BYTES);
            if (got < 0 && errno == ENOENT) {
                return 0; /* the directory was removed while open */
            }
            if (got < 0) {
                return rg_fail_storage(err, errno, "cannot read a directory");
            }
            if (got == 0) {
                return 0;
            }
            reader->filled = (size_t)got;
            reader->next = 0;
        }
        struct kernel_entry *entry = (struct kernel_entry *)(reader->buffer + reader->next);
        reader->next += entry->length;
        if (accept_entry(reader, entry, ret_found)) {
            return 1;
        }
    }
}

static uint64_t name_hash(const uint64_t key[2], const struct found *name)
{
    /* Length and kind go through the multiplier on their own: next to the name's bytes they could
     * make up for a difference in them. */
    uint64_t hash = fold(key[0] ^ (name->len << 2 | (uint64_t)name->kind), key[1]);
    size_t at = 0;
    for (; name->len - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, name->text + at, 8);
        hash = fold(hash ^ word, key[1]);
    }
    uint64_t last = 0;
    memcpy(&last, name->text + at, name->len - at);
    return fold(fold(hash ^ last, key[1]) ^ key[1], key[0]);
}

static void add_print(struct fingerprint *print, const uint64_t key[2], const struct found *name)
{
    uint64_t hash = name_hash(key, name);
    print->count++;
    print->sum += hash;
    print->mix ^= fold(hash, key[0]);
}

static bool same_print(const struct fingerprint *a, const struct fingerprint *b)
{
    return a->count == b->count && a->sum == b->sum && a->mix == b->mix;
}

/* ---- Records and their order ---- */

static struct span record_name(const char *record)
{
    return rg_span(record + RECORD_HEAD, (size_t)(unsigned char)record[1] + 1);
}

static size_t write_record(char *record, const struct found *name, bool directory)
{
    size_t len = name->len + directory;
    record[0] = name->kind == IS_UNSURE ? FLAG_UNSURE : 0;
    record[1] = (char)(unsigned char)(len - 1);
    memcpy(record + RECORD_HEAD, name->text, name->len);
    if (directory) {
        record[RECORD_HEAD + name->len] = '/';
    }
    return RECORD_HEAD + len;
}

/* A name being sorted: the next eight bytes of it as a number, and where it stands. */
struct item {
    uint64_t head;
    uint32_t offset;
};

static void swap_items(struct item *a, struct item *b)
{
    struct item kept = *a;
    *a = *b;
    *b = kept;
}

static void sift(struct item *items, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && items[child].head < items[child + 1].head) {
            child++;
        }
        if (items[root].head >= items[child].head) {
            return;
        }
        swap_items(&items[root], &items[child]);
        root = child;
    }
}

static void heap_sort(struct item *items, size_t count)
{
    for (size_t root = count / 2; root-- > 0;) {
        sift(items, root, count);
    }
    for (size_t last = count; last-- > 1;) {
        swap_items(&items[0], &items[last]);
        sift(items, 0, last);
    }
}

static void insertion_sort(struct item *items, size_t count)
{
    for (size_t at = 1; at < count; at++) {
        struct item item = items[at];
        size_t to = at;
        while (to > 0 && items[to - 1].head > item.head) {
            items[to] = items[to - 1];
            to--;
        }
        items[to] = item;
    }
}

static uint64_t middle_head(const struct item *items, size_t count)
{
    uint64_t a = items[0].head;
    uint64_t b = items[count / 2].head;
    uint64_t c = items[count - 1].head;
    uint64_t low = RG_MIN(a, b);
    uint64_t high = RG_MAX(a, b);
    return c < low ? low : c > high ? high : c;
}

/*
 * Quicksort by head, in place: no second array under the ceiling. Names that would make it
 * quadratic end in heap sort. `budget` is the number of splits still allowed.
 */
static void sort_heads(struct item *items, size_t count, unsigned budget)
{
    while (count > 16) {
        if (budget-- == 0) {
            heap_sort(items, count);
            return;
        }
        uint64_t pivot = middle_head(items, count);
        size_t low = 0;
        size_t high = count - 1;
        for (;;) {
            while (items[low].head < pivot) {
                low++;
            }
            while (items[high].head > pivot) {
                high--;
            }
            if (low >= high) {
                break;
            }
            swap_items(&items[low++], &items[high--]);
        }
        /* Left of `low` nothing is above the pivot; from it on nothing below. Both sides are
         * non-empty, for the pivot is the middle of three. */
        size_t left = low;
        if (left < count - left) {
            sort_heads(items, left, budget);
            items += left;
            count -= left;
        } else {
            sort_heads(items + left, count - left, budget);
            count = left;
        }
    }
    insertion_sort(items, count);
}

/* Names hold no NUL, so a name that ends sorts before those that go on. */
static uint64_t load_head(struct span name, size_t depth)
{
    unsigned char bytes[8] = {0};
    if (depth < name.len) {
        memcpy(bytes, name.ptr + depth, RG_MIN(name.len - depth, sizeof(bytes)));
    }
    uint64_t head;
    memcpy(&head, bytes, sizeof(head));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    head = __builtin_bswap64(head);
#endif
    return head;
}

/* How many bytes from `depth` on all names share. */
static size_t shared_length(const char *arena, const struct item *items, size_t count, size_t depth)
{
    struct span first = rg_span_skip(record_name(arena + items[0].offset), depth);
    size_t shared = first.len;
    for (size_t i = 1; i < count && shared > 0; i++) {
        struct span name = rg_span_skip(record_name(arena + items[i].offset), depth);
        size_t most = RG_MIN(shared, name.len);
        size_t same = 0;
        while (same < most && name.ptr[same] == first.ptr[same]) {
            same++;
        }
        shared = same;
    }
    return shared;
}

/* Sorts names that agree in their first `depth` bytes: eight bytes at a time, and again those that
 * are still equal. Names are at most 256 bytes, so it nests 32 deep at most. */
static void sort_names(const char *arena, struct item *items, size_t count, size_t depth)
{
    depth += shared_length(arena, items, count, depth);
    bool ordered = true;
    for (size_t i = 0; i < count; i++) {
        items[i].head = load_head(record_name(arena + items[i].offset), depth);
        ordered = ordered && (i == 0 || items[i - 1].head <= items[i].head);
    }
    if (!ordered) {
        sort_heads(items, count, 2 * (64 - (unsigned)__builtin_clzll(count)));
    }
    for (size_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && items[end].head == items[start].head; end++) {
        }
        /* A zero byte in the head: these names ended, and are the same. */
        if (end - start > 1 && (items[start].head & 0xff) != 0) {
            sort_names(arena, items + start, end - start, depth + 8);
        }
    }
}

/* ---- Whole snapshots ---- */

/* Names as they are read. */
struct gathered {
    char *arena;
    size_t len;
    size_t room;
    size_t count;
    size_t reserved;
    struct fingerprint print;
};

static void drop_gathered(struct rg_snapshots *all, struct gathered *names)
{
    free(names->arena);
    release(all, names->reserved);
    *names = (struct gathered){.arena = NULL};
}

static bool grow_arena(struct rg_snapshots *all, struct gathered *names, size_t shard)
{
    size_t room = names->room == 0           ? ARENA_FIRST
                  : names->room < (1u << 20) ? names->room * 2
                                             : names->room + names->room / 2;
    room = RG_MIN(room, ARENA_MAX);
    if (room - names->len < 2 * RECORD_MAX) {
        return false;
    }
    size_t more = room - names->room;
    if (!reserve(all, more, shard)) {
        return false;
    }
    char *arena = realloc(names->arena, room);
    if (!arena) {
        release(all, more);
        return false;
    }
    names->arena = arena;
    names->room = room;
    names->reserved += more;
    return true;
}

/* Gives back what the arena has too much. */
static void trim_arena(struct rg_snapshots *all, struct gathered *names)
{
    char *arena = names->len > 0 ? realloc(names->arena, names->len) : NULL;
    if (arena) {
        names->arena = arena;
        names->reserved -= names->room - names->len;
        release(all, names->room - names->len);
        names->room = names->len;
    }
}

/* 1: all names are there; 0: they do not fit; or a negative code. */
static int gather(struct rg_snapshots *all, struct reader *reader, size_t shard,
                  struct gathered *names, struct rg_error *err)
{
    int rc = start_reading(reader, err);
    if (rc < 0) {
        return rc;
    }
    struct found name;
    while ((rc = read_name(reader, &name, err)) > 0) {
        if (names->room - names->len < 2 * RECORD_MAX && !grow_arena(all, names, shard)) {
            return 0;
        }
        add_print(&names->print, all->key, &name);
        if (name.kind != IS_DIRECTORY) {
            names->len += write_record(names->arena + names->len, &name, false);
            names->count++;
        }
        if (name.kind != IS_FILE) {
            names->len += write_record(names->arena + names->len, &name, true);
            names->count++;
        }
    }
    return rc < 0 ? rc : 1;
}

/* Offsets in sorted order, each name once: a name that is renamed away and back while the directory
 * is read may be met twice. The array is written over the items. */
static size_t keep_offsets(const char *arena, struct item *items, size_t count, uint32_t *offsets)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t offset = items[i].offset;
        if (kept > 0 &&
            rg_span_eq(record_name(arena + offsets[kept - 1]), record_name(arena + offset))) {
            continue;
        }
        offsets[kept++] = offset;
    }
    return kept;
}

/* Takes what was gathered. NULL: there is no memory for it. */
static struct rg_snapshot *sort_gathered(struct rg_snapshots *all, struct gathered *names,
                                         size_t shard)
{
    trim_arena(all, names);
    size_t item_bytes = RG_MAX(names->count, 1u) * sizeof(struct item);
    if (!reserve(all, item_bytes + sizeof(struct rg_snapshot), shard)) {
        return NULL;
    }
    names->reserved += item_bytes + sizeof(struct rg_snapshot);
    rg_autofree struct item *items = malloc(item_bytes);
    rg_autofree struct rg_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (!items || !snapshot) {
        return NULL;
    }
    size_t offset = 0;
    for (size_t i = 0; i < names->count; i++) {
        items[i].offset = (uint32_t)offset;
        offset += RECORD_HEAD + record_name(names->arena + offset).len;
    }
    if (names->count > 1) {
        sort_names(names->arena, items, names->count, 0);
    }
    snapshot->count = keep_offsets(names->arena, items, names->count, (uint32_t *)(void *)items);

    /* What is kept is smaller than what was needed to make it. */
    size_t offset_bytes = RG_MAX(snapshot->count, 1u) * sizeof(uint32_t);
    uint32_t *offsets = realloc(items, offset_bytes);
    snapshot->offsets = offsets ? offsets : (uint32_t *)(void *)items;
    (void)RG_TAKE(items);
    release(all, item_bytes - offset_bytes);
    snapshot->reserved = names->reserved - (item_bytes - offset_bytes);
    snapshot->arena = names->arena;
    snapshot->owner = all;
    atomic_init(&snapshot->references, 1);
    *names = (struct gathered){.arena = NULL};
    return RG_TAKE(snapshot);
}

/* ---- Partial snapshots ---- */

/* The smallest names from `from` on, sorted at all times. Records stand in fixed places; the place
 * of the largest name is used again when a smaller one pushes it out. */
struct selection {
    struct rg_snapshot *snapshot;
    size_t most;
    struct span from;
};

static void select_name(struct selection *selection, const struct found *name, bool directory)
{
    struct rg_snapshot *snapshot = selection->snapshot;
    char record[RECORD_MAX];
    size_t len = write_record(record, name, directory);
    struct span text = record_name(record);
    if (rg_span_compare(text, selection->from) < 0) {
        return;
    }
    bool full = snapshot->count == selection->most;
    if (full && rg_span_compare(text, rg_snapshot_name(snapshot, snapshot->count - 1).text) > 0) {
        snapshot->has_more = true;
        return;
    }
    size_t at = rg_snapshot_seek(snapshot, text);
    if (at < snapshot->count && rg_span_eq(rg_snapshot_name(snapshot, at).text, text)) {
        return;
    }
    uint32_t place = (uint32_t)(snapshot->count * RECORD_MAX);
    if (full) {
        snapshot->has_more = true;
        snapshot->count--;
        place = snapshot->offsets[snapshot->count];
    }
    memmove(&snapshot->offsets[at + 1], &snapshot->offsets[at],
            (snapshot->count - at) * sizeof(uint32_t));
    snapshot->offsets[at] = place;
    snapshot->count++;
    memcpy(snapshot->arena + place, record, len);
}

static void cleanup_snapshot(struct rg_snapshot **snapshot)
{
    rg_snapshot_put(*snapshot);
}

/* *ret_need: bytes that all names would take while they are read (the arena grows by halves) and
 * sorted. */
static int select_names(struct rg_snapshots *all, struct reader *reader,
                        const struct rg_snapshot_request *request,
                        struct rg_snapshot **ret_snapshot, size_t *ret_need, struct rg_error *err)
{
    size_t most = RG_MAX(request->partial_names, PARTIAL_LEAST);
    most = RG_MIN(most, PARTIAL_MOST);
    RG_CLEANUP(cleanup_snapshot) struct rg_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (!snapshot) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    snapshot->owner = all;
    atomic_init(&snapshot->references, 1);
    snapshot->arena = malloc(most * RECORD_MAX);
    snapshot->offsets = malloc((most + 1) * sizeof(uint32_t));
    if (!snapshot->arena || !snapshot->offsets) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = start_reading(reader, err);
    if (rc < 0) {
        return rc;
    }
    struct selection selection = {snapshot, most, request->from};
    size_t need = 0;
    struct found name;
    while ((rc = read_name(reader, &name, err)) > 0) {
        if (name.kind != IS_DIRECTORY) {
            select_name(&selection, &name, false);
        }
        if (name.kind != IS_FILE) {
            select_name(&selection, &name, true);
        }
        size_t records = name.kind == IS_UNSURE ? 2 : 1;
        need += records * (sizeof(struct item) + (RECORD_HEAD + name.len + 1) * 3 / 2);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_need = need;
    *ret_snapshot = RG_TAKE(snapshot);
    return 0;
}

/* ---- The cache ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int64_t nanoseconds_since(struct timespec now, struct timespec then)
{
    int64_t seconds = (int64_t)now.tv_sec - (int64_t)then.tv_sec;
    seconds = RG_MIN(seconds, 1000); /* far enough, and no overflow */
    seconds = RG_MAX(seconds, -1000);
    return seconds * 1000000000 + (now.tv_nsec - then.tv_nsec);
}

static struct shard *shard_of(struct rg_snapshots *all, uint64_t hash)
{
    return &all->shards[hash % SHARDS];
}

static struct entry *find_entry(struct rg_snapshots *all, struct shard *shard, uint64_t hash,
                                const struct stat *st)
{
    struct entry *entry = shard->slots[hash / SHARDS & (all->slots - 1)];
    while (entry && (entry->device != st->st_dev || entry->inode != st->st_ino)) {
        entry = entry->next;
    }
    return entry;
}

/* The shard is locked, and is unlocked for a moment to make room: look again afterwards. NULL: no
 * memory. */
static struct entry *find_or_add_entry(struct rg_snapshots *all, struct shard *shard, uint64_t hash,
                                       const struct stat *st)
{
    struct entry *entry = find_entry(all, shard, hash, st);
    if (entry) {
        return entry;
    }
    RG_MUST(pthread_mutex_unlock(&shard->mutex));
    bool reserved = reserve(all, sizeof(*entry), hash % SHARDS);
    struct entry *fresh = reserved ? calloc(1, sizeof(*fresh)) : NULL;
    RG_MUST(pthread_mutex_lock(&shard->mutex));
    entry = find_entry(all, shard, hash, st);
    if (entry || !fresh) {
        free(fresh);
        release(all, reserved ? sizeof(*fresh) : 0);
        return entry;
    }
    fresh->device = st->st_dev;
    fresh->inode = st->st_ino;
    struct entry **slot = &shard->slots[hash / SHARDS & (all->slots - 1)];
    fresh->next = *slot;
    *slot = fresh;
    link_newest(shard, fresh);
    return fresh;
}

/* Remembers since when a pair of change times is known. */
static void meet_times(struct entry *entry, const struct stat *st, uint64_t now_ns)
{
    if (entry->met_ns != 0 && same_time(&entry->met_changed, &st->st_ctim) &&
        same_time(&entry->met_modified, &st->st_mtim)) {
        return;
    }
    entry->met_changed = st->st_ctim;
    entry->met_modified = st->st_mtim;
    entry->met_ns = now_ns;
}

/*
 * Must any change from now on show in the change times? Yes when they were met a tick ago: whoever
 * stamps files has gone on to a later tick. By this machine's own clock that can be seen at first
 * sight.
 */
static bool times_settled(const struct entry *entry, const struct stat *st,
                          enum rg_directory_times times, uint64_t now_ns)
{
    if (times == RG_TIMES_COARSE) {
        return false;
    }
    if (now_ns - entry->met_ns >= RG_SNAPSHOT_TICK_NS) {
        return true;
    }
    struct timespec wall = rg_clock_wall();
    return times == RG_TIMES_LOCAL &&
           nanoseconds_since(wall, st->st_ctim) >= (int64_t)RG_SNAPSHOT_TICK_NS &&
           nanoseconds_since(wall, st->st_mtim) >= (int64_t)RG_SNAPSHOT_TICK_NS;
}

static bool usable(const struct entry *entry, const struct stat *st,
                   const struct rg_snapshot_request *request)
{
    if (!entry->snapshot) {
        return false;
    }
    if (entry->read_ns >= request->since_ns) {
        return true;
    }
    return request->times != RG_TIMES_COARSE && entry->settled &&
           same_time(&entry->changed, &st->st_ctim) && same_time(&entry->modified, &st->st_mtim);
}

static struct rg_snapshot *hold(struct rg_snapshot *snapshot)
{
    atomic_fetch_add(&snapshot->references, 1);
    return snapshot;
}

/* Keeps a whole snapshot (NULL: the one that is kept already has these names) and says from when
 * it is. */
static struct rg_snapshot *publish(struct entry *entry, struct rg_snapshot *snapshot,
                                   const struct fingerprint *print, const struct stat *st,
                                   uint64_t read_ns, bool settled)
{
    if (snapshot) {
        rg_snapshot_put(entry->snapshot);
        entry->snapshot = snapshot;
        entry->print = *print;
    }
    entry->changed = st->st_ctim;
    entry->modified = st->st_mtim;
    entry->read_ns = read_ns;
    entry->settled = settled;
    entry->too_large = 0;
    return hold(entry->snapshot);
}

/*
 * Reads the names for `entry`, which is marked as building; the shard is locked, before and after,
 * but not meanwhile. *ret_snapshot is NULL when they do not fit.
 */
static int build(struct rg_snapshots *all, struct shard *shard, struct entry *entry,
                 struct reader *reader, const struct rg_snapshot_request *request,
                 struct rg_snapshot **ret_snapshot, struct rg_error *err)
{
    size_t shard_index = (size_t)(shard - all->shards);
    RG_MUST(pthread_mutex_unlock(&shard->mutex));
    /* The times from before the first name is read; later ones would hide a change. */
    struct stat st;
    int failed = fstat(reader->fd, &st);
    int os_errno = errno;
    uint64_t read_ns = rg_clock_ns();
    RG_MUST(pthread_mutex_lock(&shard->mutex));
    if (failed) {
        return rg_fail_storage(err, os_errno, "cannot stat a directory");
    }
    meet_times(entry, &st, read_ns);
    bool settled = times_settled(entry, &st, request->times, read_ns);
    RG_MUST(pthread_mutex_unlock(&shard->mutex));

    struct gathered names = {.arena = NULL};
    int rc = gather(all, reader, shard_index, &names, err);

    RG_MUST(pthread_mutex_lock(&shard->mutex));
    shard->misses++;
    if (rc > 0 && entry->snapshot && same_print(&entry->print, &names.print)) {
        shard->unchanged++;
        *ret_snapshot = publish(entry, NULL, NULL, &st, read_ns, settled);
    } else if (rc > 0) {
        RG_MUST(pthread_mutex_unlock(&shard->mutex));
        struct fingerprint print = names.print;
        struct rg_snapshot *snapshot = sort_gathered(all, &names, shard_index);
        RG_MUST(pthread_mutex_lock(&shard->mutex));
        *ret_snapshot = snapshot ? publish(entry, snapshot, &print, &st, read_ns, settled) : NULL;
    } else {
        *ret_snapshot = NULL;
    }
    drop_gathered(all, &names);
    return RG_MIN(rc, 0);
}

/* The shard is locked. *ret_snapshot is NULL when a partial one has to do. */
static int get_whole(struct rg_snapshots *all, struct shard *shard, uint64_t hash,
                     struct reader *reader, const struct stat *st,
                     const struct rg_snapshot_request *request, struct rg_snapshot **ret_snapshot,
                     struct rg_error *err)
{
    *ret_snapshot = NULL;
    for (;;) {
        struct entry *entry = find_or_add_entry(all, shard, hash, st);
        if (!entry) {
            return 0;
        }
        meet_times(entry, st, rg_clock_ns());
        if (usable(entry, st, request)) {
            shard->hits++;
            unlink_recency(shard, entry);
            link_newest(shard, entry);
            *ret_snapshot = hold(entry->snapshot);
            return 0;
        }
        if (entry->too_large > all->memory_max) {
            return 0;
        }
        if (entry->building) {
            /* What comes out of it may have been read too early for this request; then the next
             * round reads again, once for all who wait here. */
            RG_MUST(pthread_cond_wait(&shard->built, &shard->mutex));
            continue;
        }
        entry->building = true;
        unlink_recency(shard, entry);
        link_newest(shard, entry);
        int rc = build(all, shard, entry, reader, request, ret_snapshot, err);
        entry->building = false;
        RG_MUST(pthread_cond_broadcast(&shard->built));
        return rc;
    }
}

int rg_snapshot_get(struct rg_snapshots *snapshots, const struct rg_snapshot_request *request,
                    struct rg_snapshot **ret_snapshot, struct rg_error *err)
{
    struct stat st;
    if (fstat(request->fd, &st) < 0) {
        return rg_fail_storage(err, errno, "cannot stat a directory");
    }
    uint64_t hash = directory_hash(snapshots, st.st_dev, st.st_ino);
    struct shard *shard = shard_of(snapshots, hash);
    rg_autofree char *buffer = malloc(READ_BYTES);
    if (!buffer) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct reader reader = {
        .fd = request->fd, .ignore_types = snapshots->ignore_types, .buffer = buffer};

    struct rg_snapshot *whole = NULL;
    RG_MUST(pthread_mutex_lock(&shard->mutex));
    int rc = get_whole(snapshots, shard, hash, &reader, &st, request, &whole, err);
    shard->partials += rc == 0 && !whole;
    RG_MUST(pthread_mutex_unlock(&shard->mutex));
    if (rc < 0) {
        return rc;
    }
    if (whole) {
        *ret_snapshot = whole;
        return 0;
    }

    struct rg_snapshot *partial = NULL;
    size_t need = 0;
    rc = select_names(snapshots, &reader, request, &partial, &need, err);
    if (rc < 0) {
        return rc;
    }
    RG_MUST(pthread_mutex_lock(&shard->mutex));
    struct entry *entry = find_entry(snapshots, shard, hash, &st);
    if (entry) {
        entry->too_large = need;
    }
    RG_MUST(pthread_mutex_unlock(&shard->mutex));
    *ret_snapshot = partial;
    return 0;
}

void rg_snapshot_put(struct rg_snapshot *snapshot)
{
    if (!snapshot || atomic_fetch_sub(&snapshot->references, 1) > 1) {
        return;
    }
    struct rg_snapshots *owner = snapshot->owner;
    size_t reserved = snapshot->reserved;
    free(snapshot->arena);
    free(snapshot->offsets);
    free(snapshot);
    if (owner) {
        release(owner, reserved);
    }
}

size_t rg_snapshot_count(const struct rg_snapshot *snapshot)
{
    return snapshot->count;
}

struct rg_snapshot_name rg_snapshot_name(const struct rg_snapshot *snapshot, size_t index)
{
    const char *record = snapshot->arena + snapshot->offsets[index];
    return (struct rg_snapshot_name){record_name(record), (record[0] & FLAG_UNSURE) != 0};
}

size_t rg_snapshot_seek(const struct rg_snapshot *snapshot, struct span from)
{
    size_t low = 0;
    size_t high = snapshot->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rg_span_compare(rg_snapshot_name(snapshot, middle).text, from) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool rg_snapshot_has_more(const struct rg_snapshot *snapshot)
{
    return snapshot->has_more;
}

/* About one slot for every 4 KiB of the ceiling, all shards together. */
static size_t slot_count(size_t memory_max)
{
    size_t slots = 64;
    while (slots < (1u << 16) && slots * SHARDS * 4096 < memory_max) {
        slots *= 2;
    }
    return slots;
}

struct rg_snapshots *rg_snapshots_new(size_t memory_max)
{
    struct rg_snapshots *all = calloc(1, sizeof(*all));
    if (!all) {
        return NULL;
    }
    all->memory_max = memory_max;
    all->slots = slot_count(memory_max);
    rg_random_bytes(all->key, sizeof(all->key));
    all->key[0] |= 1;
    all->key[1] |= 1;
    for (size_t i = 0; i < SHARDS; i++) {
        RG_MUST(pthread_mutex_init(&all->shards[i].mutex, NULL));
        RG_MUST(pthread_cond_init(&all->shards[i].built, NULL));
    }
    for (size_t i = 0; i < SHARDS; i++) {
        all->shards[i].slots = calloc(all->slots, sizeof(struct entry *));
        if (!all->shards[i].slots) {
            rg_snapshots_free(all);
            return NULL;
        }
    }
    return all;
}

void rg_snapshots_free(struct rg_snapshots *snapshots)
{
    if (!snapshots) {
        return;
    }
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &snapshots->shards[i];
        while (shard->oldest) {
            remove_entry(snapshots, shard, shard->oldest);
        }
        free(shard->slots);
        RG_MUST(pthread_mutex_destroy(&shard->mutex));
        RG_MUST(pthread_cond_destroy(&shard->built));
    }
    RG_ASSERT(atomic_load(&snapshots->reserved) == 0);
    free(snapshots);
}

void rg_snapshots_ignore_types(struct rg_snapshots *snapshots)
{
    snapshots->ignore_types = true;
}

void rg_snapshots_counters(struct rg_snapshots *snapshots,
                           struct rg_snapshots_counters *ret_counters)
{
    struct rg_snapshots_counters counters = {.bytes = atomic_load(&snapshots->reserved)};
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &snapshots->shards[i];
        RG_MUST(pthread_mutex_lock(&shard->mutex));
        counters.hits += shard->hits;
        counters.misses += shard->misses;
        counters.unchanged += shard->unchanged;
        counters.partials += shard->partials;
        counters.evictions += shard->evictions;
        RG_MUST(pthread_mutex_unlock(&shard->mutex));
    }
    *ret_counters = counters;
}
