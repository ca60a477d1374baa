/*
 * Listing multipart uploads. They are found by a hash of their key, so every record is read; the
 * page's worth of smallest ones is kept meanwhile, sorted at all times, so memory does not grow
 * with the number of uploads. It must not judge uploads: what cannot be read as one is passed over,
 * and is the sweeper's.
 */
#include "base/attr.h"
#include "base/checked.h"
#include "s3/listing.h"
#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>

/* Whatever is asked for: then more follows. */
#define ENTRIES_MAX ((size_t)100000)

void rg_upload_page_free(struct rg_upload_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        free(page->entries[i].key);
    }
    free(page->entries);
    *page = (struct rg_upload_page){.entries = NULL};
}

struct gathering {
    const struct rg_upload_query *query;
    size_t max;
    /* The upload named by upload_id_marker; `initiated` is known when it still exists. */
    bool marked;
    struct timespec marker_initiated;
    struct rg_upload_page page; /* at most max + 1 */
    size_t room;
};

static void end_gathering(struct gathering *gathering)
{
    rg_upload_page_free(&gathering->page);
}

/* ---- Order ---- */

/* One upload, or a common prefix (then only `text` counts). Ids are of one length. */
struct candidate {
    struct span text;
    bool is_prefix;
    struct timespec initiated;
    const char *id;
};

static int compare_times(struct timespec a, struct timespec b)
{
    if (a.tv_sec != b.tv_sec) {
        return a.tv_sec < b.tv_sec ? -1 : 1;
    }
    return a.tv_nsec == b.tv_nsec ? 0 : a.tv_nsec < b.tv_nsec ? -1 : 1;
}

static int compare_initiation(struct timespec a, const char *a_id, struct timespec b,
                              const char *b_id)
{
    int order = compare_times(a, b);
    return order != 0 ? order : memcmp(a_id, b_id, RG_UPLOAD_ID_LENGTH);
}

static int compare(const struct candidate *a, const struct rg_upload_entry *b)
{
    int order = rg_key_compare(a->text, rg_span_text(b->key));
    if (order != 0 || a->is_prefix || b->is_prefix) {
        return order;
    }
    return compare_initiation(a->initiated, a->id, b->initiated, b->id);
}

static bool follows_markers(const struct gathering *gathering, const struct candidate *candidate)
{
    const struct rg_upload_query *query = gathering->query;
    int order = rg_key_compare(candidate->text, query->key_marker);
    if (query->key_marker.len == 0 || order > 0) {
        return true;
    }
    if (order < 0 || candidate->is_prefix || query->upload_id_marker.len == 0) {
        return false;
    }
    /* When the upload that ended the last page is gone, what is left of its key is told again:
     * better twice than never. */
    return !gathering->marked ||
           compare_initiation(candidate->initiated, candidate->id, gathering->marker_initiated,
                              query->upload_id_marker.ptr) > 0;
}

/* ---- Keeping the smallest ---- */

static size_t find_place(const struct rg_upload_page *page, const struct candidate *candidate)
{
    size_t low = 0;
    size_t high = page->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(candidate, &page->entries[middle]) > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int make_room(struct gathering *gathering, struct rg_error *err)
{
    struct rg_upload_page *page = &gathering->page;
    if (page->count > gathering->max) {
        free(page->entries[--page->count].key);
    }
    if (page->count < gathering->room) {
        return 0;
    }
    size_t room = gathering->room > 0 ? gathering->room * 2 : 16;
    struct rg_upload_entry *entries = reallocarray(page->entries, room, sizeof(*entries));
    if (!entries) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    page->entries = entries;
    gathering->room = room;
    return 0;
}

static int keep(struct gathering *gathering, const struct candidate *candidate,
                const struct rg_upload_info *info, struct rg_error *err)
{
    struct rg_upload_page *page = &gathering->page;
    size_t place = find_place(page, candidate);
    if (place > gathering->max ||
        (place < page->count && compare(candidate, &page->entries[place]) == 0)) {
        return 0; /* behind the page, or a common prefix that is there already */
    }
    struct rg_upload_entry entry = {.is_prefix = candidate->is_prefix};
    if (!candidate->is_prefix) {
        memcpy(entry.id, info->id, sizeof(entry.id));
        entry.initiated = info->initiated;
        entry.checksum_algorithm = info->checksum_algorithm;
        entry.checksum_type = info->checksum_type;
    }
    entry.key = rg_span_dup(candidate->text);
    if (!entry.key) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = make_room(gathering, err);
    if (rc < 0) {
        free(entry.key);
        return rc;
    }
    memmove(&page->entries[place + 1], &page->entries[place],
            (page->count - place) * sizeof(entry));
    page->entries[place] = entry;
    page->count++;
    return 0;
}

static int take_upload(struct gathering *gathering, const struct rg_upload_info *info,
                       struct rg_error *err)
{
    const struct rg_upload_query *query = gathering->query;
    struct span key = rg_span_text(info->key);
    if (!rg_span_starts(key, query->prefix)) {
        return 0;
    }
    struct span group = rg_common_prefix(key, query->prefix, query->delimiter);
    struct candidate candidate = {
        .text = group.len > 0 ? group : key,
        .is_prefix = group.len > 0,
        .initiated = info->initiated,
        .id = info->id,
    };
    return follows_markers(gathering, &candidate) ? keep(gathering, &candidate, info, err) : 0;
}

/* ---- Reading the directories ---- */

static bool is_hex(const char *name, size_t len)
{
    return strlen(name) == len && strspn(name, "0123456789abcdef") == len;
}

/* Opens a directory below another. *ret_dir is NULL when it is none, or gone. */
static int open_directory(int parent_fd, const char *name, DIR **ret_dir, struct rg_error *err)
{
    *ret_dir = NULL;
    rg_autoclose int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : rg_fail_storage(err, errno, "cannot open a directory of uploads");
    }
    *ret_dir = fdopendir(fd);
    if (!*ret_dir) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    (void)RG_TAKE_FD(fd);
    return 0;
}

/* The next name of that many hex digits: 1, 0 at the end, or a negative code. */
static int next_name(DIR *dir, size_t hex_digits, const char **ret_name, struct rg_error *err)
{
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            return errno == 0 || errno == ENOENT
                       ? 0
                       : rg_fail_storage(err, errno, "cannot read a directory of uploads");
        }
        if (is_hex(entry->d_name, hex_digits)) {
            *ret_name = entry->d_name;
            return 1;
        }
    }
}

static int read_upload(struct gathering *gathering, int hash_fd, const char *id,
                       struct rg_error *err)
{
    rg_autoclose int fd = openat(hash_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : rg_fail_storage(err, errno, "cannot open an upload");
    }
    struct rg_error inner = RG_ERROR_INIT;
    struct rg_upload_info info;
    int rc = rg_posix_upload_read(fd, rg_span_text(id), &info, &inner);
    if (rc == -RG_NO_SUCH_UPLOAD) {
        return 0;
    }
    if (rc < 0) {
        if (err) {
            *err = inner;
        }
        return rc;
    }
    rc = take_upload(gathering, &info, err);
    rg_upload_info_free(&info);
    return rc;
}

static int read_key(struct gathering *gathering, int uploads_fd, const char *hash,
                    struct rg_error *err)
{
    rg_autoclosedir DIR *dir = NULL;
    int rc = open_directory(uploads_fd, hash, &dir, err);
    if (rc < 0 || !dir) {
        return rc;
    }
    const char *id;
    while ((rc = next_name(dir, RG_UPLOAD_ID_LENGTH, &id, err)) > 0) {
        rc = read_upload(gathering, dirfd(dir), id, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rc;
}

static int read_uploads(struct gathering *gathering, int uploads_fd, struct rg_error *err)
{
    rg_autoclosedir DIR *dir = NULL;
    int rc = open_directory(uploads_fd, ".", &dir, err);
    if (rc < 0 || !dir) {
        return rc;
    }
    const char *hash;
    while ((rc = next_name(dir, 64, &hash, err)) > 0) {
        rc = read_key(gathering, uploads_fd, hash, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rc;
}

/* When was the upload initiated that ended the last page? */
static int find_marker(struct gathering *gathering, struct rg_store *store, struct span bucket,
                       struct rg_error *err)
{
    const struct rg_upload_query *query = gathering->query;
    if (query->key_marker.len == 0 || query->upload_id_marker.len != RG_UPLOAD_ID_LENGTH) {
        return 0;
    }
    struct rg_error inner = RG_ERROR_INIT;
    struct rg_upload_info info;
    int rc = rg_posix_upload_stat(store, bucket, query->key_marker, query->upload_id_marker, &info,
                                  &inner);
    if (rc == -RG_NO_SUCH_UPLOAD || rc == -RG_INVALID_OBJECT_NAME || rc == -RG_KEY_TOO_LONG) {
        return 0;
    }
    if (rc < 0) {
        if (err) {
            *err = inner;
        }
        return rc;
    }
    gathering->marked = true;
    gathering->marker_initiated = info.initiated;
    rg_upload_info_free(&info);
    return 0;
}

int rg_posix_upload_list(struct rg_store *store, struct span bucket,
                         const struct rg_upload_query *query, struct rg_upload_page *ret_page,
                         struct rg_error *err)
{
    rg_autobucket held = NULL;
    int rc = rg_posix_bucket_get(rg_posix_of(store), bucket, &held, err);
    if (rc < 0) {
        return rc;
    }
    rg_autoclose int uploads_fd = -1;
    rc = query->max > 0 ? rg_posix_uploads_open(held, &uploads_fd, err) : 0;
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(end_gathering)
    struct gathering gathering = {.query = query, .max = RG_MIN(query->max, ENTRIES_MAX)};
    if (uploads_fd >= 0) {
        rc = find_marker(&gathering, store, bucket, err);
        rc = rc < 0 ? rc : read_uploads(&gathering, uploads_fd, err);
        if (rc < 0) {
            return rc;
        }
    }
    struct rg_upload_page *page = &gathering.page;
    if (page->count > gathering.max) {
        page->truncated = true;
        free(page->entries[--page->count].key);
    }
    *ret_page = *page;
    gathering.page = (struct rg_upload_page){.entries = NULL};
    return 0;
}
