/*
 * A walk over a bucket in the order of whole keys, from any point on. It finds files and
 * directories and says what they are; it reads no records, and does not know pages.
 *
 * Directories are entered depth first, each one's names in the order of a snapshot with "/" behind
 * the names of directories: that is the byte order of whole keys, without any merging. A point is
 * found by binary search at each level, so a walk costs what it passes, not what lies before.
 *
 * What it finds:
 *   - regular files, and symbolic links to regular files beneath the bucket;
 *   - directories, and symbolic links to directories beneath the bucket. At most one such link is
 *     passed on the way to a key, and none that leads back to a directory it stands in, so that a
 *     walk ends;
 *   - entries on other mounts below the bucket like all others;
 *   - never hidden names (rg_posix_name_hidden), FIFOs, sockets, devices, dangling links, links
 * that leave the bucket, and nothing whose key would exceed 1024 bytes: that is counted. A
 * directory that may not be read fails the walk: leaving its keys out would look like their loss.
 */
#ifndef RG_STORE_POSIX_WALK_H
#define RG_STORE_POSIX_WALK_H

#include "base/error.h"
#include "base/span.h"
#include "store/posix/posix.h"
#include "store/posix/snapshot.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct rg_walk_query {
    struct span prefix;
    /* The first key wanted: no key before it is found. At least `prefix`. */
    struct span from;
    /* Directories behind the prefix are found themselves instead of being entered. */
    bool stop_at_directories;
};

struct rg_walk;

/*
 * `bucket` and `snapshots` are borrowed until rg_walk_free; the spans of `query` only for the
 * duration of the call. RG_OUT_OF_MEMORY, or what the storage said. A prefix below which no key can
 * be is a walk that finds nothing.
 */
int rg_walk_new(struct rg_posix_bucket *bucket, struct rg_snapshots *snapshots,
                const struct rg_walk_query *query, struct rg_walk **ret_walk,
                struct rg_error *err) RG_CHECK;
void rg_walk_free(struct rg_walk *walk);

static inline void rg_walk_cleanup(struct rg_walk **walk)
{
    rg_walk_free(*walk);
}
#define rg_autowalk RG_CLEANUP(rg_walk_cleanup) struct rg_walk *

/* All borrowed from the walk, until the next call on it. */
struct rg_walk_found {
    enum {
        RG_WALK_FILE,
        RG_WALK_INSIDE,    /* a directory just entered: its own key, should it be an object */
        RG_WALK_DIRECTORY, /* with stop_at_directories: not entered */
    } kind;
    struct span key;  /* ends in "/" for directories */
    bool is_link;     /* FILE: by a symbolic link */
    int directory_fd; /* FILE: of the directory `name` stands in; INSIDE: the directory */
    const char *name; /* FILE: the entry; INSIDE: "." */
    struct stat st;   /* FILE: of the file behind any link; INSIDE: of the directory */
};

/*
 * 1 and *ret_found, 0 at the end, or a negative code. `wanted`: how many more the caller means to
 * ask for (a hint for directories that have no snapshot).
 */
int rg_walk_next(struct rg_walk *walk, size_t wanted, struct rg_walk_found *ret_found,
                 struct rg_error *err) RG_CHECK;

/* Goes on with the first key that is not before `from`; never back. RG_OUT_OF_MEMORY. */
int rg_walk_seek(struct rg_walk *walk, struct span from, struct rg_error *err) RG_CHECK;

/* Entries passed over because their key would be too long. */
uint64_t rg_walk_too_long(const struct rg_walk *walk);

#endif
