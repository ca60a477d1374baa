/*
 * A page of a listing: what the walk finds, grouped by the delimiter, with what records say of it.
 * It must not know how directories are read or kept (walk.c, snapshot.c).
 *
 * The set of keys: every file that the walk finds, and every directory that is an explicit object.
 * With the delimiter "/" a directory is a common prefix, and it is not looked into: one that holds
 * no object is shown too. With any other delimiter a common prefix always stands for a key.
 */
#include "base/buf.h"
#include "base/checked.h"
#include "base/log.h"
#include "s3/listing.h"
#include "store/posix/posix.h"
#include "store/posix/snapshot.h"
#include "store/posix/walk.h"

#include <errno.h>
#include <fcntl.h>

struct rg_posix_listing {
    struct rg_snapshots *snapshots;
    _Atomic uint64_t too_long;
};

struct rg_posix_listing *rg_posix_listing_new(size_t memory_max)
{
    struct rg_posix_listing *listing = calloc(1, sizeof(*listing));
    if (!listing) {
        return NULL;
    }
    listing->snapshots = rg_snapshots_new(memory_max);
    if (!listing->snapshots) {
        free(listing);
        return NULL;
    }
    return listing;
}

void rg_posix_listing_free(struct rg_posix_listing *listing)
{
    if (listing) {
        rg_snapshots_free(listing->snapshots);
        free(listing);
    }
}

struct rg_snapshots *rg_posix_listing_snapshots(struct rg_posix_listing *listing)
{
    return listing->snapshots;
}

void rg_posix_listing_counters(struct rg_posix_listing *listing, struct rg_store_counters *counters)
{
    struct rg_snapshots_counters kept;
    rg_snapshots_counters(listing->snapshots, &kept);
    counters->listing_bytes = kept.bytes;
    counters->listing_hits = kept.hits;
    counters->listing_misses = kept.misses;
    counters->listing_evictions = kept.evictions;
    counters->listing_too_long = atomic_load(&listing->too_long);
}

/* ---- The page ---- */

void rg_list_page_free(struct rg_list_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        free(page->entries[i].key);
    }
    free(page->entries);
    *page = (struct rg_list_page){.entries = NULL};
}

struct gathering {
    struct rg_posix_bucket *bucket;
    const struct rg_list_query *query;
    struct rg_walk *walk;
    struct rg_list_page page;
    size_t room;
};

static void end_gathering(struct gathering *gathering)
{
    rg_walk_free(gathering->walk);
    rg_list_page_free(&gathering->page);
}

/* Takes what `entry` says, with a copy of the key. */
static int add_entry(struct gathering *gathering, struct span key, struct rg_list_entry entry,
                     struct rg_error *err)
{
    struct rg_list_page *page = &gathering->page;
    if (page->count == gathering->room) {
        size_t room = gathering->room > 0 ? gathering->room * 2 : 64;
        struct rg_list_entry *entries = reallocarray(page->entries, room, sizeof(*entries));
        if (!entries) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        page->entries = entries;
        gathering->room = room;
    }
    entry.key = rg_span_dup(key);
    if (!entry.key) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    page->entries[page->count++] = entry;
    return 0;
}

/* ---- What records say ---- */

#define LINK_TRIES 16

/* A file that may not be read is an object all the same. */
static void describe_unread(const struct stat *st, struct rg_posix_brief *ret_brief)
{
    *ret_brief = (struct rg_posix_brief){
        .modified = st->st_mtim,
        .size = (uint64_t)st->st_size,
        .is_foreign = true,
        .is_object = true,
    };
    rg_etag_synthetic((uint64_t)st->st_ino, st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec,
                      (uint64_t)st->st_size, ret_brief->etag);
}

static int read_behind_link_once(struct gathering *gathering, struct span key,
                                 struct rg_posix_brief *ret_brief, struct rg_error *err)
{
    rg_autoclose int fd = rg_posix_open_beneath(gathering->bucket->fd, key, O_RDONLY, true);
    if (fd < 0) {
        return fd == -EACCES || fd == -EPERM ? rg_fail(err, RG_ACCESS_DENIED)
                                             : rg_fail(err, RG_NO_SUCH_KEY);
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return rg_fail_storage(err, errno, "cannot stat what the link \"%.*s\" leads to",
                               RG_SPAN_ARG(key));
    }
    struct rg_object_info info;
    int rc = rg_posix_info_read(gathering->bucket, fd, &st, &info, err);
    if (rc < 0) {
        return rc;
    }
    *ret_brief = (struct rg_posix_brief){
        .checksum = info.meta.checksum,
        .modified = info.modified,
        .size = info.size,
        .is_foreign = info.is_foreign,
        .is_object = true,
    };
    memcpy(ret_brief->etag, info.meta.etag, sizeof(ret_brief->etag));
    rg_object_info_free(&info);
    return 0;
}

/* Again when the file was replaced while its metadata was read. */
static int read_behind_link(struct gathering *gathering, struct span key,
                            struct rg_posix_brief *ret_brief, struct rg_error *err)
{
    int rc = -RG_OPERATION_ABORTED;
    for (int i = 0; i < LINK_TRIES && rc == -RG_OPERATION_ABORTED; i++) {
        rc = read_behind_link_once(gathering, key, ret_brief, err);
    }
    return rc;
}

/* 1: it is an object; 0: it is none, or vanished; or a negative code. */
static int describe(struct gathering *gathering, const struct rg_walk_found *found,
                    struct rg_posix_brief *ret_brief, struct rg_error *err)
{
    struct rg_error inner = RG_ERROR_INIT;
    int rc = found->is_link ? read_behind_link(gathering, found->key, ret_brief, &inner)
                            : rg_posix_brief_read(gathering->bucket, found->directory_fd,
                                                  found->name, &found->st, ret_brief, &inner);
    if (rc == -RG_ACCESS_DENIED && found->kind == RG_WALK_FILE) {
        describe_unread(&found->st, ret_brief);
        return 1;
    }
    if (rc == 0 || rc == -RG_NO_SUCH_KEY) {
        return rc == 0 && ret_brief->is_object;
    }
    if (err) {
        *err = inner;
    }
    return rg_error_context(err, "listing \"%.*s\"", RG_SPAN_ARG(found->key));
}

static struct rg_list_entry entry_of(const struct rg_posix_brief *brief)
{
    struct rg_list_entry entry = {
        .size = brief->size, .modified = brief->modified, .checksum = brief->checksum};
    memcpy(entry.etag, brief->etag, sizeof(entry.etag));
    return entry;
}

/* ---- Gathering ---- */

/* Goes behind all keys that start with `group`. *ret_more is false when nothing can follow. */
static int pass_group(struct rg_walk *walk, struct span group, bool *ret_more, struct rg_error *err)
{
    RG_BUF(end, group.len);
    rg_prefix_end(group, &end);
    if (!rg_buf_ok(&end)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *ret_more = rg_buf_span(&end).len > 0;
    return *ret_more ? rg_walk_seek(walk, rg_buf_span(&end), err) : 0;
}

static int add_group(struct gathering *gathering, const struct rg_walk_found *found,
                     struct span group, bool *ret_more, struct rg_error *err)
{
    int rc = add_entry(gathering, group, (struct rg_list_entry){.is_prefix = true}, err);
    if (rc < 0 || found->kind == RG_WALK_DIRECTORY) {
        return rc;
    }
    /* The group stands in the walk's path, which seeking does not touch. */
    return pass_group(gathering->walk, group, ret_more, err);
}

/* Puts one thing found on the page, or sees that the page is full. */
static int take_found(struct gathering *gathering, const struct rg_walk_found *found,
                      bool *ret_more, struct rg_error *err)
{
    const struct rg_list_query *query = gathering->query;
    struct rg_posix_brief brief = {.size = (uint64_t)found->st.st_size,
                                   .modified = found->st.st_mtim};
    struct span group = rg_common_prefix(found->key, query->prefix, query->delimiter);
    bool full = gathering->page.count == query->max;
    bool shown = query->want_meta && group.len == 0 && !full;
    if (found->kind == RG_WALK_INSIDE || (found->kind == RG_WALK_FILE && shown)) {
        int rc = describe(gathering, found, &brief, err);
        if (rc <= 0) {
            return rc;
        }
    }
    if (full) {
        gathering->page.truncated = true;
        *ret_more = false;
        return 0;
    }
    return group.len > 0 ? add_group(gathering, found, group, ret_more, err)
                         : add_entry(gathering, found->key, entry_of(&brief), err);
}

static int fill_page(struct gathering *gathering, struct rg_error *err)
{
    bool more = true;
    while (more) {
        struct rg_walk_found found;
        size_t wanted = gathering->query->max - gathering->page.count + 1;
        int rc = rg_walk_next(gathering->walk, wanted, &found, err);
        if (rc <= 0) {
            return rc;
        }
        rc = take_found(gathering, &found, &more, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/*
 * Appends the first key that may be on the page. A common prefix that `after` lies in, or is, does
 * not sort after it, and with it goes all that it stands for. False: nothing can be.
 */
static bool find_start(const struct rg_list_query *query, struct rg_buf *start)
{
    struct span after = query->after;
    if (after.len == 0) {
        return true;
    }
    struct span group = rg_common_prefix(after, query->prefix, query->delimiter);
    if (group.len == 0 && query->after_is_prefix) {
        group = after;
    }
    if (group.len > 0) {
        rg_prefix_end(group, start);
        return rg_buf_span(start).len > 0;
    }
    rg_buf_add_span(start, after);
    rg_buf_add_char(start, '\0'); /* no key lies between */
    return true;
}

static void report_too_long(struct rg_posix_listing *listing, struct span bucket, uint64_t count)
{
    if (count > 0 && atomic_fetch_add(&listing->too_long, count) == 0) {
        rg_log_warn("listing.too_long",
                    "entries are left out of listings because their keys would exceed 1024 bytes",
                    RG_FIELD_SPAN("bucket", bucket));
    }
}

int rg_posix_list(struct rg_store *store, struct span bucket, const struct rg_list_query *query,
                  struct rg_list_page *ret_page, struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    rg_autobucket held = NULL;
    int rc = rg_posix_bucket_get(posix, bucket, &held, err);
    if (rc < 0) {
        return rc;
    }
    RG_BUF(start, query->after.len + 1);
    bool any = query->max > 0 && find_start(query, &start);
    if (!rg_buf_ok(&start)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (!any) {
        *ret_page = (struct rg_list_page){.entries = NULL};
        return 0;
    }
    RG_CLEANUP(end_gathering) struct gathering gathering = {.bucket = held, .query = query};
    struct rg_walk_query walk = {
        .prefix = query->prefix,
        .from = rg_buf_span(&start),
        .stop_at_directories = rg_span_is(query->delimiter, "/"),
    };
    rc = rg_walk_new(held, posix->listing->snapshots, &walk, &gathering.walk, err);
    if (rc < 0) {
        return rc;
    }
    rc = fill_page(&gathering, err);
    if (rc < 0) {
        return rc;
    }
    report_too_long(posix->listing, bucket, rg_walk_too_long(gathering.walk));
    *ret_page = gathering.page;
    gathering.page = (struct rg_list_page){.entries = NULL};
    return 0;
}
