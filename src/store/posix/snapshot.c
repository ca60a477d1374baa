/*
 * Directory snapshots, and what is kept of them. See snapshot.h for what may be used when. Nothing
 * here knows buckets or keys.
 *
 * A snapshot is an arena of records (names.h) in the order in which readdir gave
 * them, and an array of offsets into it in sorted order. Memory is reserved before it is allocated;
 * where a reservation fails, the least recently used snapshots that nobody holds go.
 */
#include "store/posix/snapshot.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "store/posix/names.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS        16u
#define ARENA_FIRST   1024u
#define ARENA_MAX     UINT32_MAX
#define PARTIAL_LEAST ((size_t)16)
#define PARTIAL_MOST  ((size_t)65536)

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
    struct rg_names_print print;  /* of the snapshot */
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

static uint64_t directory_hash(const struct rg_snapshots *all, dev_t device, ino_t inode)
{
    return rg_names_fold(all->key[0] ^ (uint64_t)inode, all->key[1] ^ ((uint64_t)device << 1 | 1));
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

/* ---- Whole snapshots ---- */

/* Names as they are read. */
struct gathered {
    char *arena;
    size_t len;
    size_t room;
    size_t count;
    size_t reserved;
    struct rg_names_print print;
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
    if (room - names->len < 2 * RG_NAME_RECORD_MAX) {
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
static int gather(struct rg_snapshots *all, struct rg_names_reader *reader, size_t shard,
                  struct gathered *names, struct rg_error *err)
{
    int rc = rg_names_rewind(reader, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_name_found name;
    while ((rc = rg_names_next(reader, &name, err)) > 0) {
        if (names->room - names->len < 2 * RG_NAME_RECORD_MAX && !grow_arena(all, names, shard)) {
            return 0;
        }
        rg_names_print_add(&names->print, all->key, &name);
        if (name.kind != RG_NAME_DIRECTORY) {
            names->len += rg_name_record_write(names->arena + names->len, &name, false);
            names->count++;
        }
        if (name.kind != RG_NAME_FILE) {
            names->len += rg_name_record_write(names->arena + names->len, &name, true);
            names->count++;
        }
    }
    return rc < 0 ? rc : 1;
}

/* Offsets in sorted order, each name once: a name that is renamed away and back while the directory
 * is read may be met twice. The array is written over the items. */
static size_t keep_offsets(const char *arena, struct rg_name_item *items, size_t count,
                           uint32_t *offsets)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t offset = items[i].offset;
        if (kept > 0 && rg_span_eq(rg_name_record_text(arena + offsets[kept - 1]),
                                   rg_name_record_text(arena + offset))) {
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
    size_t item_bytes = RG_MAX(names->count, 1u) * sizeof(struct rg_name_item);
    if (!reserve(all, item_bytes + sizeof(struct rg_snapshot), shard)) {
        return NULL;
    }
    names->reserved += item_bytes + sizeof(struct rg_snapshot);
    rg_autofree struct rg_name_item *items = malloc(item_bytes);
    rg_autofree struct rg_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (!items || !snapshot) {
        return NULL;
    }
    size_t offset = 0;
    for (size_t i = 0; i < names->count; i++) {
        items[i].offset = (uint32_t)offset;
        offset += RG_NAME_RECORD_HEAD + rg_name_record_text(names->arena + offset).len;
    }
    rg_names_sort(names->arena, items, names->count);
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

static void select_name(struct selection *selection, const struct rg_name_found *name,
                        bool directory)
{
    struct rg_snapshot *snapshot = selection->snapshot;
    char record[RG_NAME_RECORD_MAX];
    size_t len = rg_name_record_write(record, name, directory);
    struct span text = rg_name_record_text(record);
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
    uint32_t place = (uint32_t)(snapshot->count * RG_NAME_RECORD_MAX);
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
static int select_names(struct rg_snapshots *all, struct rg_names_reader *reader,
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
    snapshot->arena = malloc(most * RG_NAME_RECORD_MAX);
    snapshot->offsets = malloc((most + 1) * sizeof(uint32_t));
    if (!snapshot->arena || !snapshot->offsets) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_names_rewind(reader, err);
    if (rc < 0) {
        return rc;
    }
    struct selection selection = {snapshot, most, request->from};
    size_t need = 0;
    struct rg_name_found name;
    while ((rc = rg_names_next(reader, &name, err)) > 0) {
        if (name.kind != RG_NAME_DIRECTORY) {
            select_name(&selection, &name, false);
        }
        if (name.kind != RG_NAME_FILE) {
            select_name(&selection, &name, true);
        }
        size_t records = name.kind == RG_NAME_UNSURE ? 2 : 1;
        need +=
            records * (sizeof(struct rg_name_item) + (RG_NAME_RECORD_HEAD + name.len + 1) * 3 / 2);
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
                                   const struct rg_names_print *print, const struct stat *st,
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
                 struct rg_names_reader *reader, const struct rg_snapshot_request *request,
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
    if (rc > 0 && entry->snapshot && rg_names_print_same(&entry->print, &names.print)) {
        shard->unchanged++;
        *ret_snapshot = publish(entry, NULL, NULL, &st, read_ns, settled);
    } else if (rc > 0) {
        RG_MUST(pthread_mutex_unlock(&shard->mutex));
        struct rg_names_print print = names.print;
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
                     struct rg_names_reader *reader, const struct stat *st,
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
    rg_autofree char *buffer = malloc(RG_NAMES_READ_BYTES);
    if (!buffer) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct rg_names_reader reader = {
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
    return (struct rg_snapshot_name){rg_name_record_text(record),
                                     (record[0] & RG_NAME_RECORD_UNSURE) != 0};
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
