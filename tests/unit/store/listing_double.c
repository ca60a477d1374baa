#include "listing_double.h"

#include "base/assert.h"
#include "base/checked.h"

#include <errno.h>

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

_Atomic int64_t double_tick_ns;
_Atomic long double_failing_allocation;

/* ---- What the linker puts in the way (--wrap; _FILE_OFFSET_BITS=64 makes fstat fstat64) ---- */

int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__real_reallocarray(void *memory, size_t count, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);

static void round_down(struct timespec *time, int64_t tick_ns)
{
    int64_t all = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
    all -= all % tick_ns;
    *time = (struct timespec){.tv_sec = all / 1000000000, .tv_nsec = all % 1000000000};
}

int __wrap_fstat64(int fd, struct stat *st)
{
    int rc = __real_fstat64(fd, st);
    int64_t tick_ns = atomic_load(&double_tick_ns);
    if (rc == 0 && tick_ns > 0) {
        round_down(&st->st_ctim, tick_ns);
        round_down(&st->st_mtim, tick_ns);
    }
    return rc;
}

static bool fails_now(void)
{
    if (atomic_load(&double_failing_allocation) == 0) {
        return false;
    }
    return atomic_fetch_sub(&double_failing_allocation, 1) == 1;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails_now() ? NULL : __real_realloc(memory, size);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t size)
{
    return fails_now() ? NULL : __real_reallocarray(memory, count, size);
}

/* ---- The store around listing ---- */

static struct rg_posix_mount mount;
static bool mount_known;

void double_open(struct rg_posix *posix, const char *root, size_t memory_max,
                 enum double_times times)
{
    memset(posix, 0, sizeof(*posix));
    posix->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    RG_ASSERT(posix->root >= 0);
    posix->listing = rg_posix_listing_new(memory_max);
    RG_ASSERT(posix->listing);
    mount.fine_times = times != DOUBLE_COARSE;
    mount.magic = times == DOUBLE_LOCAL ? 0xef53 : 0;
    mount_known = times != DOUBLE_COARSE;
}

void double_close(struct rg_posix *posix)
{
    rg_posix_listing_free(posix->listing);
    close(posix->root);
}

struct rg_posix_mount *rg_posix_mount_known(struct rg_posix *posix, dev_t device)
{
    return mount_known ? &mount : NULL;
}

int rg_posix_bucket_get(struct rg_posix *posix, struct span name,
                        struct rg_posix_bucket **ret_bucket, struct rg_error *err)
{
    struct rg_posix_bucket *bucket = calloc(1, sizeof(*bucket));
    if (!bucket) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    bucket->posix = posix;
    bucket->fd = posix->root;
    *ret_bucket = bucket;
    return 0;
}

void rg_posix_bucket_put(struct rg_posix_bucket *bucket)
{
    free(bucket);
}

bool rg_posix_name_hidden(struct span name, bool top)
{
    return rg_span_starts(name, rg_span_text(".railgate-")) ||
           (top && (rg_span_is(name, ".railgate") || rg_span_is(name, ".sgwtmp")));
}

int rg_posix_open_beneath(int bucket_fd, struct span path, int flags, bool follow)
{
    char text[4096];
    if (path.len >= sizeof(text)) {
        return -ENAMETOOLONG;
    }
    memcpy(text, path.len > 0 ? path.ptr : ".", RG_MAX(path.len, 1u));
    text[RG_MAX(path.len, 1u)] = '\0';
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK)),
        .resolve = RESOLVE_BENEATH | (follow ? 0 : RESOLVE_NO_SYMLINKS)};
    long fd = -1;
    do {
        fd = syscall(SYS_openat2, bucket_fd, text, &how, sizeof(how));
    } while (fd < 0 && (errno == EAGAIN || errno == EINTR));
    return fd < 0 ? -errno : (int)fd;
}

int rg_posix_brief_read(struct rg_posix_bucket *bucket, int directory_fd, const char *name,
                        const struct stat *st, struct rg_posix_brief *ret_brief,
                        struct rg_error *err)
{
    struct stat now;
    if (fstatat(directory_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    bool directory = S_ISDIR(now.st_mode);
    *ret_brief = (struct rg_posix_brief){
        .etag = "e",
        .size = directory ? 0 : (uint64_t)now.st_size,
        .modified = now.st_mtim,
        .is_object = !directory || (now.st_mode & S_ISVTX),
    };
    return 0;
}

int rg_posix_info_read(struct rg_posix_bucket *bucket, int fd, struct stat *st,
                       struct rg_object_info *ret_info, struct rg_error *err)
{
    *ret_info = (struct rg_object_info){.size = (uint64_t)st->st_size, .modified = st->st_mtim};
    strcpy(ret_info->meta.etag, "e");
    return 0;
}

void rg_object_info_free(struct rg_object_info *info)
{
}
