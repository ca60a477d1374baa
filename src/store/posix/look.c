/*
 * The looks at buckets that a list of all of them needs. A bucket may be a mount that hangs, and
 * the others are to be listed all the same: so threads of their own look, with descriptors of their
 * own, and one that does not come back is left alone. No second look is begun at what still hangs.
 * What stands on the root's own mount is waited for: nothing can be said without that.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "s3/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS_MAX 3000 /* as long as a mount may take to be well (gate/health.h) */
#define LOOKS_SHARE 8u   /* of the setting storage-timeout, so that several looks may hang */
#define HANGING_MAX 64u  /* looks, of all lists together; then none is begun */
#define LOOKING_MAX 256u /* likewise under way while one hangs, those that hang included */
#define AT_ONCE     16u  /* looks of one list, once one hangs */
#define KNOWN_MAX   256u

/* A bucket on another file system than the root. */
struct known {
    char name[RG_BUCKET_NAME_MAX + 1]; /* empty: the place is free */
    struct timespec created;           /* all zero: not known */
    unsigned hanging;                  /* looks that do not come back, */
    uint64_t mount;                    /* of which mount; 0: the table had none */
};

/* A bucket that is a mount, or becomes one when it is looked at. */
struct mounted {
    char name[RG_BUCKET_NAME_MAX + 1];
    uint64_t id;
};

/* What stays from one list to the next; with a thread that hangs it outlives the store. */
struct rg_posix_looks {
    pthread_mutex_t mutex;
    unsigned references; /* the store's, and one for each list */
    int root;
    dev_t device;
    size_t hanging;   /* looks that do not come back */
    size_t under_way; /* looks that may be given up, those included */
    bool table_is_known;
    size_t mounted_count;
    struct mounted mounted[2 * RG_STORE_MOUNTS_MAX];
    size_t oldest; /* of those known, the next to be replaced; none behind it was ever taken */
    struct known known[KNOWN_MAX];
};

enum step { STEP_WAITS, STEP_DONE, STEP_LEFT_ALONE };

struct candidate {
    char name[RG_BUCKET_NAME_MAX + 1];
    bool is_directory; /* for sure */
    enum step step;
    int rc; /* of a look that is done */
    struct timespec created;
};

/* A thread that looks. */
struct looker {
    struct list *list;
    size_t at; /* the candidate; SIZE_MAX: none, or no thread */
    uint64_t begun_ns;
    bool counted; /* in looks->under_way */
    bool given_up;
    uint64_t mount; /* that it looks into */
};

struct list {
    struct rg_posix_looks *looks;
    pthread_mutex_t mutex; /* guards all below; taken before that of the looks */
    pthread_cond_t changed;
    unsigned references; /* the caller's, and one for each thread */
    struct candidate *candidates;
    size_t count;
    size_t next;    /* that nobody has taken yet */
    size_t settled; /* done or left alone */
    unsigned running;
    unsigned given_up;
    struct rg_error first;                  /* why the list fails */
    struct looker lookers[HANGING_MAX + 1]; /* the last for what cannot be given up */
    size_t looker_count;
};

/* ---- What is known ---- */

int rg_posix_looks_new(int root, struct rg_posix_looks **ret_looks, struct rg_error *err)
{
    struct stat st;
    struct rg_posix_looks *looks = calloc(1, sizeof *looks);
    if (!looks) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    looks->references = 1;
    looks->root = fcntl(root, F_DUPFD_CLOEXEC, 0);
    RG_MUST(pthread_mutex_init(&looks->mutex, NULL));
    if (looks->root < 0 || fstat(root, &st) < 0) {
        int failed = errno;
        rg_posix_looks_release(looks);
        return rg_fail_storage(err, failed, "looking at the root directory");
    }
    looks->device = st.st_dev;
    *ret_looks = looks;
    return 0;
}

void rg_posix_looks_release(struct rg_posix_looks *looks)
{
    RG_MUST(pthread_mutex_lock(&looks->mutex));
    bool last = --looks->references == 0;
    RG_MUST(pthread_mutex_unlock(&looks->mutex));
    if (last) {
        if (looks->root >= 0) {
            close(looks->root);
        }
        RG_MUST(pthread_mutex_destroy(&looks->mutex));
        free(looks);
    }
}

/* All below: with the lock of the looks held. Asked for each bucket of a list, so that no free
 * place is looked at. */
static struct known *find_known(struct rg_posix_looks *looks, const char *name)
{
    size_t taken = RG_MIN(looks->oldest, (size_t)KNOWN_MAX);
    for (size_t i = 0; i < taken; i++) {
        if (strcmp(looks->known[i].name, name) == 0) {
            return &looks->known[i];
        }
    }
    return NULL;
}

/* The place of a bucket, another's that was there longest if need be; NULL when all those hang. */
static struct known *take_place(struct rg_posix_looks *looks, const char *name)
{
    struct known *known = find_known(looks, name);
    for (size_t i = 0; i < KNOWN_MAX && !known; i++) {
        struct known *oldest = &looks->known[looks->oldest++ % KNOWN_MAX];
        if (oldest->hanging == 0) {
            *oldest = (struct known){.hanging = 0};
            snprintf(oldest->name, sizeof oldest->name, "%s", name);
            known = oldest;
        }
    }
    return known;
}

static const struct mounted *find_mounted(const struct rg_posix_looks *looks, const char *name)
{
    for (size_t i = 0; i < looks->mounted_count; i++) {
        if (strcmp(looks->mounted[i].name, name) == 0) {
            return &looks->mounted[i];
        }
    }
    return NULL;
}

static uint64_t mount_of(const struct rg_posix_looks *looks, const char *name)
{
    const struct mounted *mounted = find_mounted(looks, name);
    return mounted ? mounted->id : 0;
}

/* Unless it is sure that the bucket stands on the root's own mount. */
static bool may_give_up(struct rg_posix_looks *looks, const char *name)
{
    return !looks->table_is_known || find_mounted(looks, name) || find_known(looks, name);
}

/* What cannot be given up is always looked at. */
static bool may_look(struct rg_posix_looks *looks, const char *name)
{
    if (looks->hanging == 0 || !may_give_up(looks, name)) {
        return true;
    }
    const struct known *known = find_known(looks, name);
    return looks->hanging < HANGING_MAX && looks->under_way < LOOKING_MAX &&
           !(known && known->hanging);
}

/* What hung in a mount that is gone says nothing of what is there now. */
static void forget_hanging(struct rg_posix_looks *looks)
{
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        struct known *known = &looks->known[i];
        if (known->hanging && known->mount != mount_of(looks, known->name)) {
            known->hanging = 0;
        }
    }
}

static void learn(struct rg_posix_looks *looks, const struct rg_store_mount *mounts, size_t count)
{
    for (size_t i = 0; i < count && looks->mounted_count < RG_ARRAY_LENGTH(looks->mounted); i++) {
        if (!strchr(mounts[i].path, '/')) {
            struct mounted *mounted = &looks->mounted[looks->mounted_count++];
            snprintf(mounted->name, sizeof mounted->name, "%s", mounts[i].path);
            mounted->id = mounts[i].id;
        }
    }
}

/* With the lock not held. */
void rg_posix_looks_learn(struct rg_posix_looks *looks, const struct rg_posix_mount_table *table)
{
    RG_MUST(pthread_mutex_lock(&looks->mutex));
    looks->table_is_known = table->left_out == 0;
    looks->mounted_count = 0;
    learn(looks, table->mounts, table->count);
    learn(looks, table->triggers, table->trigger_count);
    forget_hanging(looks);
    RG_MUST(pthread_mutex_unlock(&looks->mutex));
}

/* ---- Looking ---- */

static int look_at(const struct rg_posix_looks *looks, const char *name, struct stat *ret_st,
                   struct timespec *ret_created, struct rg_error *err)
{
    rg_autoclose int fd =
        openat(looks->root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, ret_st) < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? rg_fail(err, RG_NO_SUCH_BUCKET)
                   : rg_fail_storage(err, errno, "opening the bucket");
    }
    return rg_posix_bucket_created(fd, ret_created, err);
}

/* With the lock held, which is given back. */
static void release_list(struct list *list)
{
    bool last = --list->references == 0;
    RG_MUST(pthread_mutex_unlock(&list->mutex));
    if (last) {
        rg_posix_looks_release(list->looks);
        RG_MUST(pthread_cond_destroy(&list->changed));
        RG_MUST(pthread_mutex_destroy(&list->mutex));
        free(list->candidates);
        free(list);
    }
}

/* With the lock held, as all below that say nothing else. */
static void settle(struct list *list, struct candidate *candidate, enum step step)
{
    candidate->step = step;
    if (++list->settled == list->count) {
        RG_MUST(pthread_cond_signal(&list->changed));
    }
}

static void note_look(struct list *list, struct candidate *candidate, int rc, const struct stat *st,
                      const struct rg_error *err)
{
    candidate->rc = rc;
    if (rc == -RG_STORAGE_FAULT || rc == -RG_SERVICE_UNAVAILABLE || rc == -RG_STORAGE_HUNG) {
        settle(list, candidate, STEP_LEFT_ALONE); /* a dead mount, say: the others are listed */
        return;
    }
    /* Deleted meanwhile or no directory; or another user's, which is no bucket of ours. */
    bool is_none = rc == -RG_NO_SUCH_BUCKET || rc == -RG_ACCESS_DENIED;
    if (rc && !is_none && list->first.code == RG_OK) {
        list->first = *err;
    }
    struct rg_posix_looks *looks = list->looks;
    if (rc == 0 && st->st_dev != looks->device) {
        RG_MUST(pthread_mutex_lock(&looks->mutex));
        struct known *known = take_place(looks, candidate->name);
        if (known) {
            known->created = candidate->created;
        }
        RG_MUST(pthread_mutex_unlock(&looks->mutex));
    }
    settle(list, candidate, STEP_DONE);
}

/* A look is over; one that was left alone may have found another mount there meanwhile. */
static void note_return(struct looker *looker, const char *name)
{
    struct rg_posix_looks *looks = looker->list->looks;
    RG_MUST(pthread_mutex_lock(&looks->mutex));
    looks->under_way -= looker->counted;
    if (looker->given_up) {
        struct known *known = find_known(looks, name);
        if (known && known->hanging && known->mount == looker->mount) {
            known->hanging--;
        }
        looks->hanging--;
    }
    RG_MUST(pthread_mutex_unlock(&looks->mutex));
}

/* The next that may be looked at; what may not is left alone. NULL: there is none. */
static struct candidate *next_candidate(struct looker *looker)
{
    struct list *list = looker->list;
    struct rg_posix_looks *looks = list->looks;
    while (list->next < list->count) {
        struct candidate *candidate = &list->candidates[list->next++];
        RG_MUST(pthread_mutex_lock(&looks->mutex));
        bool may = may_look(looks, candidate->name);
        looker->counted = may && may_give_up(looks, candidate->name);
        looks->under_way += looker->counted;
        looker->mount = mount_of(looks, candidate->name);
        RG_MUST(pthread_mutex_unlock(&looks->mutex));
        if (may) {
            return candidate;
        }
        settle(list, candidate, STEP_LEFT_ALONE);
    }
    return NULL;
}

static void *run_looker(void *argument)
{
    struct looker *looker = argument;
    struct list *list = looker->list;
    struct candidate *candidate;
    RG_MUST(pthread_mutex_lock(&list->mutex));
    while (!looker->given_up && (candidate = next_candidate(looker))) {
        looker->at = (size_t)(candidate - list->candidates);
        looker->begun_ns = rg_clock_ns();
        RG_MUST(pthread_mutex_unlock(&list->mutex));
        struct rg_error err = RG_ERROR_INIT;
        struct stat st;
        struct timespec created = {0};
        int rc = look_at(list->looks, candidate->name, &st, &created, &err);
        RG_MUST(pthread_mutex_lock(&list->mutex));
        looker->at = SIZE_MAX;
        note_return(looker, candidate->name);
        if (!looker->given_up) {
            candidate->created = created;
            note_look(list, candidate, rc, &st, &err);
        }
    }
    list->running -= !looker->given_up;
    RG_MUST(pthread_cond_signal(&list->changed));
    release_list(list);
    return NULL;
}

/* ---- A list ---- */

static int start_looker(struct list *list)
{
    struct looker *looker = &list->lookers[list->looker_count];
    *looker = (struct looker){.list = list, .at = SIZE_MAX};
    pthread_attr_t attributes;
    pthread_t thread;
    RG_MUST(pthread_attr_init(&attributes));
    RG_MUST(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    int failed = pthread_create(&thread, &attributes, run_looker, looker);
    RG_MUST(pthread_attr_destroy(&attributes));
    if (failed == 0) {
        list->looker_count++;
        list->references++;
        list->running++;
    }
    return failed;
}

/* Gives up the looks that have lasted too long; when the next of the others will have. */
static uint64_t give_up(struct list *list, uint64_t most_ns)
{
    struct rg_posix_looks *looks = list->looks;
    uint64_t now_ns = rg_clock_ns();
    uint64_t next_ns = now_ns + most_ns;
    for (size_t i = 0; i < list->looker_count; i++) {
        struct looker *looker = &list->lookers[i];
        if (looker->given_up || looker->at == SIZE_MAX) {
            continue;
        }
        if (now_ns - looker->begun_ns < most_ns) {
            next_ns = RG_MIN(next_ns, looker->begun_ns + most_ns);
            continue;
        }
        struct candidate *candidate = &list->candidates[looker->at];
        RG_MUST(pthread_mutex_lock(&looks->mutex));
        bool may = may_give_up(looks, candidate->name);
        struct known *known = may ? take_place(looks, candidate->name) : NULL;
        if (known) {
            known->hanging = known->mount == looker->mount ? known->hanging + 1 : 1;
            known->mount = looker->mount;
        }
        looks->hanging += may;
        RG_MUST(pthread_mutex_unlock(&looks->mutex));
        if (!may) {
            continue;
        }
        looker->given_up = true;
        list->given_up++;
        list->running--;
        settle(list, candidate, STEP_LEFT_ALONE);
    }
    return next_ns;
}

static bool may_start_looker(const struct list *list)
{
    return list->looker_count < HANGING_MAX ||
           (list->looker_count == HANGING_MAX && list->running == 0);
}

/* One thread looks, until a look hangs: then several, as there is work for. Where there can be no
 * more of them the rest is left alone. */
static int keep_running(struct list *list)
{
    unsigned wanted = list->given_up ? AT_ONCE : 1;
    int failed = 0;
    for (size_t left = list->count - list->next;
         left && !failed && list->running < wanted && may_start_looker(list); left--) {
        failed = start_looker(list);
    }
    while (list->running == 0 && !failed && list->next < list->count) {
        settle(list, &list->candidates[list->next++], STEP_LEFT_ALONE);
    }
    return list->running == 0 ? failed : 0;
}

/* Until all are settled; no longer than it takes to find out about those that hang. */
static int run_list(struct list *list, uint64_t most_ns, struct rg_error *err)
{
    int failed = 0;
    RG_MUST(pthread_mutex_lock(&list->mutex));
    while ((list->settled < list->count || list->running) && !failed) {
        uint64_t next_ns = give_up(list, most_ns);
        failed = keep_running(list);
        if ((list->settled < list->count || list->running) && !failed) {
            struct timespec at = {.tv_sec = (time_t)(next_ns / 1000000000u),
                                  .tv_nsec = (long)(next_ns % 1000000000u)};
            pthread_cond_clockwait(&list->changed, &list->mutex, CLOCK_MONOTONIC, &at);
        }
    }
    int rc = failed ? rg_fail_errno(err, RG_LIMIT, failed, "cannot start a thread") : 0;
    if (rc == 0 && list->first.code != RG_OK) {
        rc = -(int)list->first.code;
        if (err) {
            *err = list->first;
        }
    }
    RG_MUST(pthread_mutex_unlock(&list->mutex));
    return rc;
}

static void cleanup_list(struct list **list)
{
    if (*list) {
        RG_MUST(pthread_mutex_lock(&(*list)->mutex));
        release_list(*list);
    }
}

static int add_candidate(struct list *list, size_t *room, const struct dirent *entry,
                         struct rg_error *err)
{
    if (rg_bucket_name_check(rg_span_text(entry->d_name), NULL) ||
        (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)) {
        return 0;
    }
    if (list->count == *room) {
        size_t more = *room ? *room * 2 : 64;
        struct candidate *candidates = realloc(list->candidates, more * sizeof *list->candidates);
        if (!candidates) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        list->candidates = candidates;
        *room = more;
    }
    struct candidate *candidate = &list->candidates[list->count++];
    *candidate = (struct candidate){.is_directory = entry->d_type == DT_DIR};
    snprintf(candidate->name, sizeof candidate->name, "%s", entry->d_name);
    return 0;
}

static int read_root(struct rg_posix *posix, struct list *list, struct rg_error *err)
{
    int fd = openat(posix->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autoclosedir DIR *dir = rg_posix_directory_take(fd);
    if (!dir) {
        return rg_fail_storage(err, errno, "reading the root directory");
    }
    size_t room = 0;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        int rc = add_candidate(list, &room, entry, err);
        if (rc) {
            return rc;
        }
    }
    return errno ? rg_fail_storage(err, errno, "reading the root directory") : 0;
}

static int new_list(struct rg_posix_looks *looks, struct list **ret_list, struct rg_error *err)
{
    struct list *list = calloc(1, sizeof *list);
    if (!list) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    list->references = 1;
    list->looks = looks;
    list->first = (struct rg_error)RG_ERROR_INIT;
    RG_MUST(pthread_mutex_init(&list->mutex, NULL));
    RG_MUST(pthread_cond_init(&list->changed, NULL));
    RG_MUST(pthread_mutex_lock(&looks->mutex));
    looks->references++;
    RG_MUST(pthread_mutex_unlock(&looks->mutex));
    *ret_list = list;
    return 0;
}

static int compare_buckets(const void *a, const void *b)
{
    return strcmp(((const struct rg_bucket_info *)a)->name,
                  ((const struct rg_bucket_info *)b)->name);
}

/* False for what is no bucket, or for what nobody can say whether it is. */
static bool tell(struct list *list, const struct candidate *candidate,
                 struct rg_bucket_info *ret_info)
{
    struct rg_bucket_info info = {.created = candidate->created};
    bool is_bucket = candidate->rc == 0;
    if (candidate->step == STEP_LEFT_ALONE) {
        RG_MUST(pthread_mutex_lock(&list->looks->mutex));
        const struct known *known = find_known(list->looks, candidate->name);
        info.created = known ? known->created : (struct timespec){0};
        RG_MUST(pthread_mutex_unlock(&list->looks->mutex));
        info.hangs = true;
        is_bucket = candidate->is_directory || info.created.tv_sec;
    }
    memcpy(info.name, candidate->name, sizeof info.name);
    *ret_info = info;
    return is_bucket;
}

int rg_posix_bucket_list(struct rg_store *store, struct rg_bucket_info **ret_buckets,
                         size_t *ret_count, struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    uint64_t most_ms =
        RG_MIN((uint64_t)posix->settings->storage_timeout / LOOKS_SHARE, (uint64_t)LOOK_MS_MAX);
    RG_CLEANUP(cleanup_list) struct list *list = NULL;
    int rc = new_list(posix->looks, &list, err);
    rc = rc ? rc : read_root(posix, list, err);
    rc = rc ? rc : run_list(list, most_ms * 1000000u, err);
    if (rc) {
        return rc;
    }
    struct rg_bucket_info *buckets = calloc(list->count ? list->count : 1, sizeof *buckets);
    if (!buckets) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        count += tell(list, &list->candidates[i], &buckets[count]);
    }
    qsort(buckets, count, sizeof *buckets, compare_buckets);
    *ret_buckets = buckets;
    *ret_count = count;
    return 0;
}
