/*
 * rg_get_file: an object becomes a file. It is written beside the file's name, part by part through
 * staging, checked, and renamed. Renaming is the last step: until then the old file stands.
 *
 * With `resume` a record of the parts that are done (their number and checksum, one line each) is
 * kept beside the partial file. A later call reads those parts again and believes them only when
 * the checksums are right, so that it does not matter how the earlier one ended.
 */
#include "client/failure.h"
#include "client/parallel.h"
#include "client/piece.h"
#include "client/plan.h"
#include "client/result.h"
#include "client/staging.h"
#include "client/transfer.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "s3/crc64.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES_MAX   255u
#define PATH_BYTES_MAX   4096u
#define PART_SUFFIX      ".railgate-part"
#define RECORD_SUFFIX    ".railgate-done"
#define RECORD_BYTES_MAX (1u << 20)
#define RECORD_TITLE     "railgate download 1"
#define LOCK_ATTEMPTS    100u

struct file_get {
    struct rg_client *client;
    const char *file;
    char part_path[PATH_BYTES_MAX];
    char record_path[PATH_BYTES_MAX];
    int fd;        /* of the partial file, locked */
    int record_fd; /* -1: none is kept */
    struct rg_stat stat;
    struct rg_piece common;
    struct rg_plan plan;
    struct rg_piece_result *results;
    const uint64_t *kept_crc; /* of parts that an earlier call recorded; with is_kept */
    const bool *is_kept;
    struct rg_transfer_progress progress;
    atomic_bool cancel;
};

static int fail_file(const char *path, const char *what, struct rg_failure *failure)
{
    return rg_failure_errno(failure, RG_STATUS_FILE, errno, "%.300s %s", path, what);
}

/* ---- Names ---- */

/* Whether a file of this name is one that downloads keep beside others: a download to it would
 * replace what another one is about to put in place. */
static bool is_ours(const char *name)
{
    struct span span = rg_span_text(name);
    return name[0] == '.' && (rg_span_ends(span, RG_SPAN_LITERAL(PART_SUFFIX)) ||
                              rg_span_ends(span, RG_SPAN_LITERAL(RECORD_SUFFIX)));
}

/* DIRECTORY/.NAME and a suffix; a digest stands for a name that leaves no room. */
static int name_beside(const char *file, const char *suffix, char *path, struct rg_failure *failure)
{
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    size_t directory = (size_t)(name - file);
    char short_name[17];
    if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return rg_failure_set(failure, RG_STATUS_FILE, "%.300s cannot be the name of a file.",
                              file);
    }
    if (is_ours(name)) {
        return rg_failure_set(
            failure, RG_STATUS_FILE,
            "%.300s cannot be downloaded to: unfinished downloads have such names.", file);
    }
    if (strlen(name) + strlen(suffix) + 1 > NAME_BYTES_MAX) {
        snprintf(short_name, sizeof short_name, "%016" PRIx64, rg_crc64nvme(0, name, strlen(name)));
        name = short_name;
    }
    int len = snprintf(path, PATH_BYTES_MAX, "%.*s.%s%s", (int)directory, file, name, suffix);
    if (len < 0 || (size_t)len >= PATH_BYTES_MAX) {
        return rg_failure_set(failure, RG_STATUS_FILE, "%.300s is too long a name.", file);
    }
    return 0;
}

static int check_target(const char *file, mode_t *ret_mode, struct rg_failure *failure)
{
    struct stat facts;
    *ret_mode = 0;
    if (lstat(file, &facts) < 0) {
        return errno == ENOENT ? 0 : fail_file(file, "cannot be looked at", failure);
    }
    if (S_ISREG(facts.st_mode)) {
        *ret_mode = facts.st_mode & 07777;
        return 0;
    }
    if (S_ISLNK(facts.st_mode)) {
        return 0; /* the link is replaced, not followed */
    }
    return rg_failure_set(failure, RG_STATUS_FILE, "%.300s is there and not a regular file.", file);
}

/* ---- The partial file ---- */

/* Whether the name of the partial file still stands for the file that is open. */
static bool is_in_place(const struct file_get *get)
{
    struct stat opened;
    struct stat named;
    return fstat(get->fd, &opened) == 0 && lstat(get->part_path, &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

static int open_locked(struct file_get *get, struct rg_failure *failure)
{
    struct stat facts;
    get->fd = open(get->part_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (get->fd < 0) {
        return fail_file(get->part_path, "cannot be created", failure);
    }
    if (fstat(get->fd, &facts) < 0 || !S_ISREG(facts.st_mode)) {
        return rg_failure_set(failure, RG_STATUS_FILE, "%.300s is not a regular file.",
                              get->part_path);
    }
    if (flock(get->fd, LOCK_EX | LOCK_NB) == 0) {
        return 0;
    }
    if (errno == EWOULDBLOCK) {
        return rg_failure_set(failure, RG_STATUS_FILE, "Another download of %.300s is under way.",
                              get->file);
    }
    /* A file system without locks (Lustre mounted with noflock) has downloads all the same. */
    return errno == ENOSYS || errno == EOPNOTSUPP
               ? 0
               : fail_file(get->part_path, "cannot be locked", failure);
}

/* Between opening and locking another download may have put the file in place: it is whole then,
 * and must not be touched. */
static int open_partial(struct file_get *get, mode_t mode, struct rg_failure *failure)
{
    int rc = open_locked(get, failure);
    for (unsigned i = 0; rc == 0 && !is_in_place(get); i++) {
        close(RG_TAKE_FD(get->fd));
        rc = i == LOCK_ATTEMPTS
                 ? rg_failure_set(failure, RG_STATUS_FILE, "%.300s is taken away again and again.",
                                  get->part_path)
                 : open_locked(get, failure);
    }
    if (rc == 0 && mode && fchmod(get->fd, mode) < 0) {
        rc = fail_file(get->part_path, "cannot get the old file's permissions", failure);
    }
    return rc;
}

static int write_all(int fd, const char *bytes, uint64_t length, uint64_t at)
{
    while (length > 0) {
        ssize_t put = pwrite(fd, bytes, length, (off_t)at);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return -1;
        }
        bytes += put;
        at += (uint64_t)put;
        length -= (uint64_t)put;
    }
    return 0;
}

static int read_all(int fd, char *bytes, uint64_t length, uint64_t at)
{
    while (length > 0) {
        ssize_t got = pread(fd, bytes, length, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return -1;
        }
        bytes += got;
        at += (uint64_t)got;
        length -= (uint64_t)got;
    }
    return 0;
}

/* ---- The record ---- */

static void print_title(const struct file_get *get, struct rg_buf *out)
{
    rg_buf_addf(out, RECORD_TITLE "\netag %s\nsize %" PRIu64 "\npart %" PRIu64 "\n", get->stat.etag,
                get->plan.size, get->plan.part_size);
}

static bool read_done_line(const struct file_get *get, struct span line, uint64_t *crc, bool *kept)
{
    uint64_t number;
    if (!rg_span_starts(line, RG_SPAN_LITERAL("done "))) {
        return false;
    }
    struct span rest = rg_span_skip(line, 5);
    struct span digits = rg_span_cut(&rest, ' ');
    char *end;
    char text[17];
    if (!rest.ptr || rest.len != 16 || !rg_span_to_u64(digits, &number) ||
        number >= get->plan.count) {
        return false;
    }
    memcpy(text, rest.ptr, 16);
    text[16] = '\0';
    uint64_t value = strtoull(text, &end, 16);
    if (*end) {
        return false;
    }
    crc[number] = value;
    kept[number] = true;
    return true;
}

/* Another title is another object, version or cut: nothing is kept then. */
static void read_record(const struct file_get *get, struct span text, uint64_t *crc, bool *kept)
{
    RG_BUF(title, 1024);
    print_title(get, &title);
    if (!rg_buf_ok(&title) || !rg_span_starts(text, rg_buf_span(&title))) {
        return;
    }
    text = rg_span_skip(text, title.len);
    while (text.len) {
        struct span line = rg_span_cut(&text, '\n');
        if (!text.ptr || !read_done_line(get, line, crc, kept)) {
            return; /* the end of what was written whole */
        }
    }
}

/* Opens the record, takes what it says, and begins it anew with that. */
static int open_record(struct file_get *get, uint64_t *crc, bool *kept, struct rg_failure *failure)
{
    rg_autoclose int fd =
        open(get->record_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) {
        return fail_file(get->record_path, "cannot be created", failure);
    }
    RG_BUF(text, RECORD_BYTES_MAX);
    struct stat facts;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0 &&
        (uint64_t)facts.st_size <= RECORD_BYTES_MAX) {
        char *at = rg_buf_reserve(&text, (size_t)facts.st_size);
        if (at && read_all(fd, at, (uint64_t)facts.st_size, 0) == 0) {
            rg_buf_grew(&text, (size_t)facts.st_size);
            read_record(get, rg_buf_span(&text), crc, kept);
        }
    }
    rg_buf_clear(&text);
    print_title(get, &text);
    for (uint32_t i = 0; i < get->plan.count; i++) {
        if (kept[i]) {
            rg_buf_addf(&text, "done %u %016" PRIx64 "\n", i, crc[i]);
        }
    }
    if (!rg_buf_ok(&text)) {
        return rg_failure_memory(failure);
    }
    if (ftruncate(fd, 0) < 0 || write_all(fd, text.data, text.len, 0) < 0 ||
        lseek(fd, 0, SEEK_END) < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0) {
        return fail_file(get->record_path, "cannot be written", failure);
    }
    get->record_fd = RG_TAKE_FD(fd);
    return 0;
}

/* One write a line: whole lines are what a later call believes. A lost line costs time only. */
static void record_part(const struct file_get *get, uint32_t index, uint64_t crc)
{
    char line[64];
    int len = snprintf(line, sizeof line, "done %u %016" PRIx64 "\n", index, crc);
    if (get->record_fd >= 0 && write(get->record_fd, line, (size_t)len) < 0) {
        return;
    }
}

/* ---- Parts ---- */

/* Whether the partial file holds this part already; then *result is as if it had been fetched. */
static bool has_part(const struct file_get *get, uint32_t index, struct rg_staging_buffer *buffer,
                     struct rg_piece_result *result)
{
    uint64_t length = rg_plan_length(&get->plan, index);
    if (!get->is_kept || !get->is_kept[index] ||
        read_all(get->fd, buffer->bytes, length, rg_plan_offset(&get->plan, index)) < 0 ||
        rg_crc64nvme(0, buffer->bytes, length) != get->kept_crc[index]) {
        return false;
    }
    memset(result, 0, sizeof *result);
    result->has_crc = true;
    result->crc = get->kept_crc[index];
    return true;
}

static int fetch_part(void *context, uint32_t index, struct rg_staging_buffer *buffer,
                      struct rg_failure *failure)
{
    struct file_get *get = context;
    struct rg_piece_result *result = &get->results[index];
    struct rg_transfer_share share = {.progress = &get->progress};
    uint64_t length = rg_plan_length(&get->plan, index);
    if (has_part(get, index, buffer, result)) {
        rg_transfer_progress_add(&get->progress, length);
        return 0;
    }
    struct rg_piece piece = get->common;
    piece.memory = buffer->memory;
    piece.length = length;
    piece.is_range = get->plan.count > 1;
    piece.object_offset = rg_plan_offset(&get->plan, index);
    piece.moved = rg_transfer_moved;
    piece.moved_context = &share;
    int rc = rg_piece_get(get->client, &piece, result, failure);
    if (rc < 0) {
        return rc;
    }
    if (result->bytes != length) {
        return rg_failure_set(failure, RG_STATUS_INTEGRITY,
                              "GET s3://%.100s/%.200s: fewer bytes came than the object has.",
                              piece.bucket, piece.key);
    }
    if (write_all(get->fd, buffer->bytes, length, piece.object_offset) < 0) {
        return fail_file(get->part_path, "cannot be written", failure);
    }
    record_part(get, index, result->crc);
    return 0;
}

static int get_part(void *context, uint32_t index, struct rg_failure *failure)
{
    struct file_get *get = context;
    int rc = rg_staging_with(get->client, rg_plan_length(&get->plan, index), &get->cancel,
                             fetch_part, get, index, failure);
    return rc == 0 ? rg_transfer_stopped(&get->progress, failure) : rc;
}

static int check_whole(struct file_get *get, struct rg_result *result, struct rg_failure *failure)
{
    uint64_t crc = 0;
    bool has_crc = rg_result_combine(&get->plan, get->results, &crc);
    const struct rg_stat *stat = &get->stat;
    result->object_size = stat->size;
    result->modified = stat->modified;
    snprintf(result->etag, sizeof result->etag, "%s", stat->etag);
    /* HEAD and GET should say the same; what either says has to be true. */
    const char *with_bytes = get->plan.count == 1 ? get->results[0].crc64 : "";
    int rc = rg_result_verify(result, with_bytes, has_crc, crc, failure);
    return rc == 0 && stat->checksum[0]
               ? rg_result_verify(result, stat->checksum, has_crc, crc, failure)
               : rc;
}

static int get_parts(struct file_get *get, struct rg_result *result, struct rg_failure *failure)
{
    rg_autofree struct rg_piece_result *results = calloc(get->plan.count, sizeof *results);
    if (!results) {
        return rg_failure_memory(failure);
    }
    get->results = results;
    if (ftruncate(get->fd, (off_t)get->plan.size) < 0) {
        return fail_file(get->part_path, "cannot be made that large", failure);
    }
    int rc = rg_parallel_run(get->plan.count, get->client->config.parallel, get_part, get,
                             &get->cancel, failure);
    if (rc < 0) {
        return rc;
    }
    rg_result_add_parts(result, &get->plan, results);
    return check_whole(get, result, failure);
}

/* Takes what is there when it may be kept; else begins anew. */
static int begin(struct file_get *get, bool resume, uint64_t *crc, bool *kept,
                 struct rg_failure *failure)
{
    mode_t mode;
    int rc = check_target(get->file, &mode, failure);
    if (rc == 0) {
        rc = open_partial(get, mode, failure);
    }
    if (rc < 0) {
        return rc;
    }
    if (!resume) {
        (void)unlink(get->record_path);
        return ftruncate(get->fd, 0) < 0 ? fail_file(get->part_path, "cannot be emptied", failure)
                                         : 0;
    }
    rc = open_record(get, crc, kept, failure);
    get->kept_crc = crc;
    get->is_kept = kept;
    return rc;
}

/* Network file systems say of a full disk or a quota only when a descriptor is closed. */
static int flush_partial(const struct file_get *get, struct rg_failure *failure)
{
    int fd = fcntl(get->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 || close(fd) < 0 ? fail_file(get->part_path, "cannot be written", failure) : 0;
}

static int finish(struct file_get *get, struct rg_failure *failure)
{
    if (flush_partial(get, failure) < 0) {
        return -RG_STATUS_FILE;
    }
    if (!is_in_place(get)) {
        return rg_failure_set(failure, RG_STATUS_FILE, "%.300s was taken away.", get->part_path);
    }
    if (rename(get->part_path, get->file) < 0) {
        return fail_file(get->file, "cannot be put in place", failure);
    }
    if (get->record_fd >= 0) {
        (void)unlink(get->record_path);
    }
    return 0;
}

/* What is worth keeping for a later call: parts, unless they turned out to be wrong. */
static void leave(struct file_get *get, bool resume, const struct rg_failure *failure)
{
    if (get->fd >= 0 && is_in_place(get) && (!resume || failure->status == RG_STATUS_INTEGRITY)) {
        (void)unlink(get->part_path);
        (void)unlink(get->record_path);
    }
}

static int download(struct file_get *get, const struct rg_file_options *options,
                    struct rg_result *result, struct rg_failure *failure)
{
    rg_autofree uint64_t *crc = calloc(get->plan.count, sizeof *crc);
    rg_autofree bool *kept = calloc(get->plan.count, sizeof *kept);
    if (!crc || !kept) {
        return rg_failure_memory(failure);
    }
    int rc = begin(get, options->resume, crc, kept, failure);
    if (rc < 0) {
        return rc;
    }
    rg_transfer_progress_init(&get->progress, options->progress, options->context, get->plan.size,
                              &get->cancel);
    rc = get_parts(get, result, failure);
    rg_transfer_progress_destroy(&get->progress);
    if (rc == 0) {
        rc = finish(get, failure);
    }
    if (rc < 0) {
        leave(get, options->resume, failure);
    }
    return rc;
}

static int prepare(struct file_get *get, struct rg_failure *failure)
{
    int rc = name_beside(get->file, PART_SUFFIX, get->part_path, failure);
    if (rc == 0) {
        rc = name_beside(get->file, RECORD_SUFFIX, get->record_path, failure);
    }
    if (rc == 0) {
        rc = rg_stat_object(get->client, get->common.bucket, get->common.key, &get->stat, failure);
    }
    if (rc == 0) {
        rc = rg_plan_make(get->stat.size, get->client->config.part_size, RG_PART_SIZE_MAX,
                          &get->plan, failure);
    }
    return rc;
}

int rg_get_file(struct rg_client *client, const char *bucket, const char *key, const char *file,
                const struct rg_file_options *options, struct rg_result *ret_result,
                struct rg_failure *ret_failure)
{
    static const struct rg_file_options none;
    RG_FAILURE_OR_OWN(ret_failure);
    options = options ? options : &none;
    int rc = rg_transfer_check_file(client, bucket, key, file, failure);
    if (rc < 0) {
        return rc;
    }
    struct file_get get = {.client = client, .file = file, .fd = -1, .record_fd = -1};
    get.common = (struct rg_piece){
        .bucket = bucket, .key = key, .path = options->path, .cancel = &get.cancel};
    struct rg_result result;
    memset(&result, 0, sizeof result);
    rc = prepare(&get, failure);
    if (rc == 0) {
        get.common.if_match = get.stat.etag;
        get.common.knows_size = true;
        get.common.object_size = get.stat.size;
        rc = download(&get, options, &result, failure);
    }
    rg_cleanup_close(&get.fd);
    rg_cleanup_close(&get.record_fd);
    if (rc == 0 && ret_result) {
        *ret_result = result;
    }
    return rc;
}
