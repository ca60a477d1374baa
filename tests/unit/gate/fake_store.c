#include "fake_store.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define OBJECTS_MAX 16

struct thing {
    char key[256];
    int fd; /* -1: the place is free */
    struct rg_object_info info;
};

struct fake {
    struct rg_store store;
    struct fake_knobs knobs;
    struct fake_counts counts;
    pthread_mutex_t lock;
    struct thing things[OBJECTS_MAX];
};

struct rg_object {
    int fd;
    struct rg_object_info info;
};

struct rg_writer {
    struct fake *fake;
    char key[256];
    int fd;
    uint64_t size;
};

static struct fake *fake_of(struct rg_store *store)
{
    return (struct fake *)store;
}

static void delay(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static void name(char *to, size_t room, struct span from)
{
    RG_ASSERT(from.len < room);
    memcpy(to, from.ptr, from.len);
    to[from.len] = '\0';
}

/* With the lock held. NULL: not there. */
static struct thing *find(struct fake *fake, const char *key)
{
    for (size_t i = 0; i < OBJECTS_MAX; i++) {
        if (fake->things[i].fd >= 0 && strcmp(fake->things[i].key, key) == 0) {
            return &fake->things[i];
        }
    }
    return NULL;
}

/* With the lock held. Takes fd; copies meta. */
static void place(struct fake *fake, const char *key, int fd, uint64_t size,
                  const struct rg_meta *meta)
{
    struct thing *thing = find(fake, key);
    for (size_t i = 0; !thing && i < OBJECTS_MAX; i++) {
        thing = fake->things[i].fd < 0 ? &fake->things[i] : NULL;
    }
    RG_ASSERT(thing);
    if (thing->fd >= 0) {
        close(thing->fd);
        rg_meta_free(&thing->info.meta);
    }
    name(thing->key, sizeof thing->key, rg_span_text(key));
    thing->fd = fd;
    thing->info = (struct rg_object_info){.size = size, .modified = rg_clock_wall()};
    RG_MUST(rg_meta_copy(meta, &thing->info.meta, NULL));
}

static int check_bucket(struct span bucket, struct rg_error *err)
{
    return rg_span_is(bucket, FAKE_BUCKET) ? 0 : rg_fail(err, RG_NO_SUCH_BUCKET);
}

static int bucket_stat(struct rg_store *store, struct span bucket, struct rg_bucket_info *ret_info,
                       struct rg_error *err)
{
    memset(ret_info, 0, sizeof *ret_info);
    return check_bucket(bucket, err);
}

static int object_open(struct rg_store *store, struct span bucket, struct span key,
                       struct rg_object **ret_object, struct rg_error *err)
{
    struct fake *fake = fake_of(store);
    char text[256];
    delay(fake->knobs.open_delay_ms);
    if (fake->knobs.open_errno) {
        return rg_fail_storage(err, fake->knobs.open_errno, "cannot open /secret/place");
    }
    int rc = check_bucket(bucket, err);
    if (rc < 0) {
        return rc;
    }
    name(text, sizeof text, key);
    pthread_mutex_lock(&fake->lock);
    struct thing *thing = find(fake, text);
    struct rg_object *object = thing ? calloc(1, sizeof *object) : NULL;
    if (object) {
        object->fd = dup(thing->fd);
        object->info = thing->info;
        RG_MUST(rg_meta_copy(&thing->info.meta, &object->info.meta, NULL));
    }
    pthread_mutex_unlock(&fake->lock);
    if (!object) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    *ret_object = object;
    return 0;
}

static const struct rg_object_info *object_info(const struct rg_object *object)
{
    return &object->info;
}

static int object_fd(const struct rg_object *object)
{
    return object->fd;
}

static bool fd_direct(struct rg_store *store, int fd)
{
    (void)store;
    (void)fd;
    return true;
}

static int object_read(struct rg_object *object, uint64_t offset, void *buffer, size_t len,
                       size_t *ret_len, struct rg_error *err)
{
    ssize_t got = pread(object->fd, buffer, len, (off_t)offset);
    *ret_len = got < 0 ? 0 : (size_t)got;
    return got < 0 ? rg_fail_storage(err, errno, "reading") : 0;
}

static void object_close(struct rg_object *object)
{
    close(object->fd);
    rg_meta_free(&object->info.meta);
    free(object);
}

static int begin(struct rg_store *store, struct span bucket, struct span key,
                 struct rg_writer **ret_writer, struct rg_error *err)
{
    int rc = check_bucket(bucket, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_writer *writer = calloc(1, sizeof *writer);
    RG_ASSERT(writer);
    writer->fake = fake_of(store);
    writer->fd = memfd_create("object", MFD_CLOEXEC);
    name(writer->key, sizeof writer->key, key);
    writer->fake->counts.begun++;
    *ret_writer = writer;
    return 0;
}

static int put_begin(struct rg_store *store, struct span bucket, struct span key,
                     int64_t expected_size, struct rg_writer **ret_writer, struct rg_error *err)
{
    return begin(store, bucket, key, ret_writer, err);
}

static int writer_write(struct rg_writer *writer, const void *bytes, size_t len,
                        struct rg_error *err)
{
    RG_ASSERT(write(writer->fd, bytes, len) == (ssize_t)len);
    writer->size += len;
    return 0;
}

static int writer_fd(const struct rg_writer *writer)
{
    return writer->fd;
}

static int writer_passed(struct rg_writer *writer, uint64_t size, struct rg_error *err)
{
    int lost = writer->fake->knobs.passed_errno;
    return lost ? rg_fail_storage(err, lost, "writing to the disk") : 0;
}

static int writer_written(struct rg_writer *writer, uint64_t size, struct rg_error *err)
{
    writer->size = size;
    return 0;
}

static void free_writer(struct rg_writer *writer)
{
    if (writer->fd >= 0) {
        close(writer->fd);
    }
    free(writer);
}

static int put_commit(struct rg_writer *writer, const struct rg_meta *meta,
                      const struct rg_conditions *conditions, struct rg_written *ret_written,
                      struct rg_error *err)
{
    struct fake *fake = writer->fake;
    if (fake->knobs.commit_errno) {
        free_writer(writer);
        return rg_fail_storage(err, fake->knobs.commit_errno, "cannot sync /secret/place");
    }
    pthread_mutex_lock(&fake->lock);
    struct thing *thing = find(fake, writer->key);
    struct span etag = thing ? rg_span_text(thing->info.meta.etag) : RG_SPAN_EMPTY;
    int rc = rg_conditions_check_write(conditions, thing != NULL, etag, err);
    if (rc == 0) {
        place(fake, writer->key, RG_TAKE_FD(writer->fd), writer->size, meta);
        fake->counts.committed++;
        *ret_written = (struct rg_written){.size = writer->size, .modified = rg_clock_wall()};
        memcpy(ret_written->etag, meta->etag, sizeof ret_written->etag);
    }
    pthread_mutex_unlock(&fake->lock);
    free_writer(writer);
    return rc;
}

static void writer_abort(struct rg_writer *writer)
{
    writer->fake->counts.aborted++;
    free_writer(writer);
}

static int object_copy(struct rg_store *store, struct rg_object *source, struct span bucket,
                       struct span key, const struct rg_meta *meta,
                       const struct rg_conditions *conditions, struct rg_written *ret_written,
                       struct rg_error *err)
{
    struct fake *fake = fake_of(store);
    char text[256];
    delay(fake->knobs.copy_delay_ms);
    if (fake->knobs.copy_fails != RG_OK) {
        return rg_fail(err, fake->knobs.copy_fails);
    }
    name(text, sizeof text, key);
    pthread_mutex_lock(&fake->lock);
    place(fake, text, dup(source->fd), source->info.size, meta);
    fake->counts.committed++;
    pthread_mutex_unlock(&fake->lock);
    *ret_written = (struct rg_written){.size = source->info.size, .modified = rg_clock_wall()};
    memcpy(ret_written->etag, meta->etag, sizeof ret_written->etag);
    return 0;
}

static int upload_stat(struct rg_store *store, struct span bucket, struct span key, struct span id,
                       struct rg_upload_info *ret_info, struct rg_error *err)
{
    return rg_fail(err, RG_NO_SUCH_UPLOAD);
}

static const struct rg_store_ops ops = {
    .bucket_stat = bucket_stat,
    .object_open = object_open,
    .object_info = object_info,
    .object_fd = object_fd,
    .fd_direct = fd_direct,
    .object_read = object_read,
    .object_close = object_close,
    .object_copy = object_copy,
    .put_begin = put_begin,
    .writer_write = writer_write,
    .writer_fd = writer_fd,
    .writer_passed = writer_passed,
    .writer_written = writer_written,
    .put_commit = put_commit,
    .writer_abort = writer_abort,
    .upload_stat = upload_stat,
};

struct rg_store *fake_store_new(void)
{
    struct fake *fake = calloc(1, sizeof *fake);
    RG_ASSERT(fake);
    fake->store.ops = &ops;
    RG_MUST(pthread_mutex_init(&fake->lock, NULL));
    for (size_t i = 0; i < OBJECTS_MAX; i++) {
        fake->things[i].fd = -1;
    }
    return &fake->store;
}

void fake_store_free(struct rg_store *store)
{
    struct fake *fake = fake_of(store);
    for (size_t i = 0; i < OBJECTS_MAX; i++) {
        if (fake->things[i].fd >= 0) {
            close(fake->things[i].fd);
            rg_meta_free(&fake->things[i].info.meta);
        }
    }
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

bool fake_store_is(struct rg_store *store, const char *key, const void *bytes, size_t len)
{
    struct fake *fake = fake_of(store);
    char *found = malloc(len + 1);
    RG_ASSERT(found);
    pthread_mutex_lock(&fake->lock);
    struct thing *thing = find(fake, key);
    bool is = thing && pread(thing->fd, found, len + 1, 0) == (ssize_t)len &&
              memcmp(found, bytes, len) == 0;
    pthread_mutex_unlock(&fake->lock);
    free(found);
    return is;
}

struct fake_knobs *fake_store_knobs(struct rg_store *store)
{
    return &fake_of(store)->knobs;
}

struct fake_counts *fake_store_counts(struct rg_store *store)
{
    return &fake_of(store)->counts;
}

void fake_store_add(struct rg_store *store, const char *key, const void *bytes, size_t len)
{
    struct fake *fake = fake_of(store);
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    static const char etag[] = "0123456789abcdef0123456789abcdef";
    memcpy(meta.etag, etag, sizeof etag);
    int fd = memfd_create("object", MFD_CLOEXEC);
    RG_ASSERT(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    pthread_mutex_lock(&fake->lock);
    place(fake, key, fd, len, &meta);
    pthread_mutex_unlock(&fake->lock);
}

bool fake_store_has(struct rg_store *store, const char *key)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    bool there = find(fake, key) != NULL;
    pthread_mutex_unlock(&fake->lock);
    return there;
}
