/*
 * Directories and prefixes as ends of a copy. See places.h.
 */
#include "cli/places.h"

#include "cli/cli.h"

#include "base/span.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX         128u
#define SEGMENT_BYTES_MAX 255u

void rg_cli_list_free(struct rg_cli_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->entries[i].name);
    }
    free(list->entries);
    memset(list, 0, sizeof *list);
}

static int fail_list(const char *why)
{
    fprintf(stderr, "railgate: %s\n", why);
    return RG_EXIT_FAILED;
}

static int add_entry(struct rg_cli_list *list, const char *name, uint64_t size,
                     struct timespec modified)
{
    if (list->count == RG_CLI_ENTRIES_MAX) {
        return fail_list("there are more than ten million names; copy parts of the tree");
    }
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        struct rg_cli_entry *grown = reallocarray(list->entries, room, sizeof *grown);
        if (!grown) {
            return fail_list("out of memory");
        }
        list->entries = grown;
        list->room = room;
    }
    char *copy = strdup(name);
    if (!copy) {
        return fail_list("out of memory");
    }
    list->entries[list->count++] =
        (struct rg_cli_entry){.name = copy, .size = size, .modified = modified};
    list->bytes += size;
    return RG_EXIT_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct rg_cli_entry *one = a;
    const struct rg_cli_entry *other = b;
    return strcmp(one->name, other->name);
}

static void sort_list(struct rg_cli_list *list)
{
    if (list->count > 1) {
        qsort(list->entries, list->count, sizeof *list->entries, compare_entries);
    }
}

/* ---- Files ---- */

struct walk {
    bool follow;
    struct rg_cli_tally *tally;
    struct rg_cli_list *list;
    char path[RG_CLI_PATH_MAX]; /* relative to the top */
    size_t length;
    struct {
        dev_t device;
        ino_t inode;
    } above[DEPTH_MAX]; /* directories on the way: a link may lead back to one */
    size_t depth;
};

static void fail_at(struct walk *walk, const char *what, int os_errno)
{
    if (!walk->tally) {
        return;
    }
    struct rg_failure failure;
    memset(&failure, 0, sizeof failure);
    failure.status = RG_STATUS_FILE;
    RG_BUF(line, sizeof failure.message - 1);
    rg_cli_add_name(&line, walk->path[0] ? walk->path : ".");
    rg_buf_addf(&line, " %s: %s", what, strerror(os_errno));
    snprintf(failure.message, sizeof failure.message, "%s", rg_buf_text(&line));
    rg_cli_tally_failed(walk->tally, &failure);
}

static void skip(struct walk *walk, const char *why)
{
    if (walk->tally) {
        rg_cli_tally_skipped(walk->tally, walk->path, why);
    }
}

/* What a download that is under way, or was cut off, keeps beside the file. */
static bool is_unfinished(const char *name)
{
    struct span span = rg_span_text(name);
    return span.len && span.ptr[0] == '.' &&
           (rg_span_ends(span, RG_SPAN_LITERAL(".railgate-part")) ||
            rg_span_ends(span, RG_SPAN_LITERAL(".railgate-done")));
}

static bool is_above(const struct walk *walk, const struct stat *facts)
{
    for (size_t i = 0; i < walk->depth; i++) {
        if (walk->above[i].device == facts->st_dev && walk->above[i].inode == facts->st_ino) {
            return true;
        }
    }
    return false;
}

static int walk_directory(struct walk *walk, int fd);

static int walk_below(struct walk *walk, int fd, const char *name)
{
    int below =
        openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (walk->follow ? 0 : O_NOFOLLOW));
    if (below < 0) {
        fail_at(walk, "cannot be opened", errno);
        return RG_EXIT_OK;
    }
    return walk_directory(walk, below);
}

static int walk_entry(struct walk *walk, int fd, const char *name)
{
    struct stat facts;
    if (fstatat(fd, name, &facts, walk->follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0) {
        fail_at(walk, "cannot be looked at", errno);
        return RG_EXIT_OK;
    }
    if (S_ISREG(facts.st_mode)) {
        return add_entry(walk->list, walk->path, (uint64_t)facts.st_size, facts.st_mtim);
    }
    if (S_ISDIR(facts.st_mode)) {
        if (walk->depth == DEPTH_MAX || is_above(walk, &facts)) {
            skip(walk, "directories nested too deeply");
            return RG_EXIT_OK;
        }
        return walk_below(walk, fd, name);
    }
    skip(walk, S_ISLNK(facts.st_mode) ? "a symbolic link (--follow-links follows it)"
                                      : "not a regular file");
    return RG_EXIT_OK;
}

/* Appends a name to walk->path for the time of one entry. */
static int walk_name(struct walk *walk, int fd, const char *name)
{
    size_t before = walk->length;
    int len =
        snprintf(walk->path + before, sizeof walk->path - before, "%s%s", before ? "/" : "", name);
    int status = RG_EXIT_OK;
    if (len < 0 || (size_t)len >= sizeof walk->path - before) {
        walk->path[before] = '\0';
        fail_at(walk, "holds a name that is too long", ENAMETOOLONG);
    } else {
        walk->length = before + (size_t)len;
        status = walk_entry(walk, fd, name);
    }
    walk->length = before;
    walk->path[before] = '\0';
    return status;
}

/* Takes fd. */
static int walk_directory(struct walk *walk, int fd)
{
    struct stat facts;
    DIR *opened = fdopendir(fd);
    if (!opened || fstat(fd, &facts) < 0) {
        fail_at(walk, "cannot be read", errno);
        if (opened) {
            closedir(opened);
        } else {
            close(fd);
        }
        return RG_EXIT_OK;
    }
    rg_autoclosedir DIR *directory = opened;
    walk->above[walk->depth].device = facts.st_dev;
    walk->above[walk->depth].inode = facts.st_ino;
    walk->depth++;
    int status = RG_EXIT_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry || status != RG_EXIT_OK) {
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !is_unfinished(entry->d_name)) {
            status = walk_name(walk, fd, entry->d_name);
        }
    }
    if (status == RG_EXIT_OK && errno) {
        fail_at(walk, "cannot be read to its end", errno);
    }
    walk->depth--;
    return status;
}

int rg_cli_list_files(const char *directory, bool follow, struct rg_cli_tally *tally,
                      struct rg_cli_list *ret_list)
{
    struct walk walk = {.follow = follow, .tally = tally, .list = ret_list};
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        RG_BUF(line, RG_CLI_PATH_MAX * 4);
        rg_cli_add_name(&line, directory);
        fprintf(stderr, "railgate: %s: %s\n", rg_buf_text(&line), strerror(errno));
        return RG_EXIT_FAILED;
    }
    int status = walk_directory(&walk, fd);
    sort_list(ret_list);
    return status;
}

/* ---- Objects ---- */

struct listing {
    struct rg_cli_list *list;
    size_t prefix_length;
    int status;
};

static bool take_object(void *context, const struct rg_listed *entry)
{
    struct listing *listing = context;
    struct timespec modified = {.tv_sec = entry->modified};
    if (entry->is_prefix || strlen(entry->key) <= listing->prefix_length) {
        return true; /* the marker of the directory itself */
    }
    listing->status =
        add_entry(listing->list, entry->key + listing->prefix_length, entry->size, modified);
    return listing->status == RG_EXIT_OK;
}

int rg_cli_list_objects(struct rg_client *client, const char *bucket, const char *prefix,
                        struct rg_cli_list *ret_list)
{
    struct listing listing = {.list = ret_list, .prefix_length = strlen(prefix)};
    struct rg_failure failure;
    if (rg_list_objects(client, bucket, prefix, NULL, take_object, &listing, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    sort_list(ret_list);
    return listing.status;
}

int rg_cli_list_do(const struct rg_cli_list *list, unsigned threads, rg_cli_job *job, void *context)
{
    struct rg_cli_jobs *jobs = rg_cli_jobs_start(threads, job, context);
    if (!jobs) {
        fputs("railgate: no thread can be started\n", stderr);
        return RG_EXIT_FAILED;
    }
    for (size_t i = 0; i < list->count; i++) {
        rg_cli_jobs_add(jobs, &list->entries[i]);
    }
    rg_cli_jobs_finish(jobs);
    return RG_EXIT_OK;
}

/* ---- Names below a directory ---- */

const char *rg_cli_name_danger(const char *name)
{
    struct span rest = rg_span_text(name);
    if (rest.len == 0) {
        return "it is empty";
    }
    if (rest.ptr[rest.len - 1] == '/') {
        rest.len--; /* the marker of a directory */
    }
    while (rest.ptr) {
        struct span segment = rg_span_cut(&rest, '/');
        if (segment.len == 0) {
            return "it has an empty segment";
        }
        if (rg_span_is(segment, "..")) {
            return "a segment is \"..\"";
        }
        if (rg_span_is(segment, ".")) {
            return "a segment is \".\"";
        }
        if (segment.len > SEGMENT_BYTES_MAX) {
            return "a segment is longer than 255 bytes";
        }
    }
    return NULL;
}

static int step_into(int fd, const char *name, bool make)
{
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0 && errno == ENOENT && make) {
        if (mkdirat(fd, name, 0777) < 0 && errno != EEXIST) {
            return -1;
        }
        below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return below;
}

int rg_cli_open_parent(int base_fd, const char *name, bool make, const char **ret_last)
{
    rg_autoclose int fd = fcntl(base_fd, F_DUPFD_CLOEXEC, 0);
    const char *slash;
    while (fd >= 0 && (slash = strchr(name, '/')) && slash[1]) {
        char segment[SEGMENT_BYTES_MAX + 1];
        size_t len = (size_t)(slash - name);
        if (len > SEGMENT_BYTES_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(segment, name, len);
        segment[len] = '\0';
        int below = step_into(fd, segment, make);
        int os_errno = errno;
        close(RG_TAKE_FD(fd));
        errno = os_errno;
        fd = below;
        name = slash + 1;
    }
    *ret_last = name;
    return RG_TAKE_FD(fd);
}
