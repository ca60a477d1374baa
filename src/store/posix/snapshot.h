/*
 * The names of one directory, sorted as a listing needs them, and a cache of such snapshots under
 * one memory ceiling.
 *
 * Names of directories carry their "/", so the order is plain byte order. A snapshot knows nothing
 * about keys, buckets or objects, and never looks at a file: what its names stand for is looked up
 * when they are put on a page.
 *
 * When may a snapshot be used again? A request that began at time T must see every change that was
 * complete before T. A snapshot serves it when
 *   - its names were read after T (another request did that, or an earlier step of this one), or
 *   - the directory's change times are trustworthy, are still those of before the names were read,
 *     and had stood still long enough by then that a later change must show in them.
 * Otherwise the names are read again; a hash of them, whose value does not depend on their order,
 * then tells whether the sorted snapshot still holds.
 *
 * A directory whose names do not fit under the ceiling is served by partial snapshots: the first
 * names from a given one on, selected in a single pass with fixed memory.
 */
#ifndef RG_STORE_POSIX_SNAPSHOT_H
#define RG_STORE_POSIX_SNAPSHOT_H

#include "base/attr.h"
#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* How long a change time must have stood still to be trusted: more than the coarsest clock tick
 * (10 ms) that a kernel stamps files with. */
#define RG_SNAPSHOT_TICK_NS 20000000u

/* What the change times of a directory are worth. */
enum rg_directory_times {
    RG_TIMES_COARSE, /* nothing: names may come and go while they stand still */
    RG_TIMES_REMOTE, /* they move with every change, by a clock that is not this machine's */
    RG_TIMES_LOCAL,  /* they move with every change, by this machine's wall clock */
};

struct rg_snapshots; /* the cache; all its functions may be called from any thread */
struct rg_snapshot;  /* immutable once handed out; counted */

/* `memory_max` in bytes. NULL: out of memory. */
struct rg_snapshots *rg_snapshots_new(size_t memory_max);

/* No snapshot of it may be held any more. */
void rg_snapshots_free(struct rg_snapshots *snapshots);

/* Those of a store's listing (list.c), for tests and benchmarks. */
struct rg_posix_listing;
struct rg_snapshots *rg_posix_listing_snapshots(struct rg_posix_listing *listing);

/* For tests: behave as if the file system did not tell the type of directory entries. */
void rg_snapshots_ignore_types(struct rg_snapshots *snapshots);

struct rg_snapshots_counters {
    uint64_t bytes;     /* held now */
    uint64_t hits;      /* served without reading names */
    uint64_t misses;    /* names were read ... */
    uint64_t unchanged; /* ... and turned out to be those known already */
    uint64_t partials;  /* passes that selected some names only */
    uint64_t evictions;
};

void rg_snapshots_counters(struct rg_snapshots *snapshots,
                           struct rg_snapshots_counters *ret_counters);

struct rg_snapshot_request {
    int fd; /* the directory, open for reading; its offset is moved, so it must not be shared */
    enum rg_directory_times times;
    uint64_t since_ns; /* rg_clock_ns when the request began */
    /* For a directory that does not fit: the first names not before `from`, this many. */
    struct span from;
    size_t partial_names;
};

/*
 * The snapshot of a directory. Waits while another thread reads the same directory. Release with
 * rg_snapshot_put. RG_OUT_OF_MEMORY; else what the storage said.
 */
int rg_snapshot_get(struct rg_snapshots *snapshots, const struct rg_snapshot_request *request,
                    struct rg_snapshot **ret_snapshot, struct rg_error *err) RG_CHECK;

/* NULL is fine. */
void rg_snapshot_put(struct rg_snapshot *snapshot);

struct rg_snapshot_name {
    struct span text; /* borrowed from the snapshot; ends in "/" when it names a directory */
    /*
     * The entry is a symbolic link, or its type was not told: it may be something else than the
     * text says. Such an entry appears twice, with and without "/".
     */
    bool unsure;
};

size_t rg_snapshot_count(const struct rg_snapshot *snapshot);
struct rg_snapshot_name rg_snapshot_name(const struct rg_snapshot *snapshot, size_t index);

/* The first name that does not sort before `from`; count when there is none. */
size_t rg_snapshot_seek(const struct rg_snapshot *snapshot, struct span from);

/* Partial: names follow behind the last one. (Those before the `from` it was made for are missing
 * as well.) */
bool rg_snapshot_has_more(const struct rg_snapshot *snapshot);

#endif
