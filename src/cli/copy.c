/*
 * Copies between places. See copy.h.
 */
#include "cli/copy.h"

#include "cli/cli.h"

#include "base/attr.h"
#include "base/span.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES_MAX 16384

static int fail_file(struct rg_failure *failure, const char *name, const char *why, int os_errno)
{
    memset(failure, 0, sizeof *failure);
    RG_BUF(line, sizeof failure->message - 1);
    rg_cli_add_name(&line, name);
    rg_buf_addf(&line, " %s%s%s", why, os_errno ? ": " : "", os_errno ? strerror(os_errno) : "");
    failure->status = RG_STATUS_FILE;
    failure->os_errno = os_errno;
    snprintf(failure->message, sizeof failure->message, "%s", rg_buf_text(&line));
    return -RG_STATUS_FILE;
}

/* ---- Places ---- */

int rg_cli_read_place(const char *command, const char *text, struct rg_cli_place *ret_place)
{
    memset(ret_place, 0, sizeof *ret_place);
    ret_place->fd = -1;
    ret_place->is_url = rg_cli_is_url(text);
    if (rg_cli_is_misspelt(text)) {
        return rg_cli_fail_url(command, text,
                               "s3://BUCKET/KEY (a file of that name begins with ./)");
    }
    if (!ret_place->is_url) {
        if (!text[0] || strlen(text) >= sizeof ret_place->path) {
            return rg_cli_fail_usage(command, "a path is empty or too long");
        }
        snprintf(ret_place->path, sizeof ret_place->path, "%s", text);
        return RG_EXIT_OK;
    }
    if (!rg_cli_read_url(text, &ret_place->url) || !ret_place->url.bucket[0]) {
        return rg_cli_fail_url(command, text, "s3://BUCKET or s3://BUCKET/KEY");
    }
    char *key = ret_place->url.key;
    size_t len = strlen(key);
    if (len && key[len - 1] != '/') {
        if (len == RG_CLI_KEY_MAX) {
            return rg_cli_fail_usage(command, "the prefix is too long");
        }
        key[len] = '/';
        key[len + 1] = '\0';
    }
    return RG_EXIT_OK;
}

void rg_cli_add_place(struct rg_buf *out, const struct rg_cli_place *place, const char *name)
{
    if (place->is_url) {
        rg_buf_addf(out, "s3://%s/%s%s", place->url.bucket, place->url.key, name);
        return;
    }
    size_t len = strlen(place->path);
    rg_buf_addf(out, "%s%s%s", place->path, len && place->path[len - 1] == '/' ? "" : "/", name);
}

int rg_cli_list_place(struct rg_cli_copy *copy, const struct rg_cli_place *place, bool follow,
                      struct rg_cli_tally *tally, struct rg_cli_list *ret_list)
{
    if (place->is_url) {
        return rg_cli_list_objects(copy->client, place->url.bucket, place->url.key, ret_list);
    }
    return rg_cli_list_files(place->path, follow, tally, ret_list);
}

int rg_cli_copy_open_target(struct rg_cli_copy *copy, bool make)
{
    struct rg_cli_place *to = &copy->to;
    if (to->is_url) {
        return RG_EXIT_OK;
    }
    to->fd = open(to->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to->fd < 0 && errno == ENOENT && make && mkdir(to->path, 0777) == 0) {
        to->fd = open(to->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (to->fd < 0) {
        struct rg_failure failure;
        (void)fail_file(&failure, to->path, "cannot be used", errno);
        return rg_cli_fail_remote(&failure);
    }
    return RG_EXIT_OK;
}

/* ---- One object ---- */

static int join_key(const struct rg_cli_place *place, const char *name,
                    char key[RG_CLI_KEY_MAX + 1], struct rg_failure *failure)
{
    int len = snprintf(key, RG_CLI_KEY_MAX + 1, "%s%s", place->url.key, name);
    return len < 0 || len > RG_CLI_KEY_MAX
               ? fail_file(failure, name, "makes a key of more than 1024 bytes", 0)
               : 0;
}

static int upload(struct rg_cli_copy *copy, const char *from, const char *to,
                  struct rg_file_options *options, struct rg_result *result,
                  struct rg_failure *failure)
{
    char key[RG_CLI_KEY_MAX + 1];
    RG_BUF(path, 2 * RG_CLI_PATH_MAX);
    rg_cli_add_place(&path, &copy->from, from);
    int rc = join_key(&copy->to, to, key, failure);
    options->content_type = copy->content_type;
    return rc < 0 ? rc
                  : rg_put_file(copy->client, copy->to.url.bucket, key, rg_buf_text(&path), options,
                                result, failure);
}

/* The marker of a directory: an object of no bytes whose key ends in '/'. */
static int make_directory(struct rg_cli_copy *copy, int fd, const char *key, const char *last,
                          struct rg_result *result, struct rg_failure *failure)
{
    char segment[256];
    struct rg_stat stat;
    int rc = rg_stat_object(copy->client, copy->from.url.bucket, key, &stat, failure);
    if (rc < 0) {
        return rc;
    }
    if (stat.size) {
        return fail_file(failure, key, "has bytes, and a file's name cannot end in '/'", 0);
    }
    snprintf(segment, sizeof segment, "%.*s", (int)strcspn(last, "/"), last);
    if (mkdirat(fd, segment, 0777) < 0 && errno != EEXIST) {
        return fail_file(failure, last, "cannot be made", errno);
    }
    memset(result, 0, sizeof *result);
    snprintf(result->path, sizeof result->path, "http:empty");
    return 0;
}

static int download_below(struct rg_cli_copy *copy, int fd, const char *key, const char *last,
                          const struct rg_file_options *options, struct rg_result *result,
                          struct rg_failure *failure)
{
    /* The descriptor stands for the directory that was reached without following a link. */
    char path[RG_CLI_PATH_MAX];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", fd, last);
    int rc = rg_get_file(copy->client, copy->from.url.bucket, key, path, options, result, failure);
    if (rc == 0) {
        /* The file is as old as the object: sync sees that they are the same. */
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = result->modified}};
        (void)utimensat(fd, last, times, AT_SYMLINK_NOFOLLOW);
    }
    return rc;
}

/* People know a directory by its name: that takes the place of the descriptor's in a message. */
static void name_directory(const struct rg_cli_copy *copy, const char *to, int fd,
                           struct rg_failure *failure)
{
    char by_fd[64];
    snprintf(by_fd, sizeof by_fd, "/proc/self/fd/%d/", fd);
    const char *at = strstr(failure->message, by_fd);
    if (!at) {
        return;
    }
    RG_BUF(path, NAME_BYTES_MAX);
    RG_BUF(line, 2 * NAME_BYTES_MAX);
    rg_cli_add_place(&path, &copy->to, to);
    const char *slash = strrchr(rg_buf_text(&path), '/');
    rg_buf_addf(&line, "%.*s", (int)(at - failure->message), failure->message);
    rg_buf_addf(&line, "%.*s", (int)(slash + 1 - rg_buf_text(&path)), rg_buf_text(&path));
    rg_buf_add_text(&line, at + strlen(by_fd));
    RG_BUF(shown, 4 * NAME_BYTES_MAX);
    rg_cli_add_name(&shown, rg_buf_text(&line));
    snprintf(failure->message, sizeof failure->message, "%s", rg_buf_text(&shown));
}

static int download(struct rg_cli_copy *copy, const char *from, const char *to,
                    const struct rg_file_options *options, struct rg_result *result,
                    struct rg_failure *failure)
{
    char key[RG_CLI_KEY_MAX + 1];
    int rc = join_key(&copy->from, from, key, failure);
    if (rc < 0) {
        return rc;
    }
    const char *danger = rg_cli_name_danger(to);
    if (danger) {
        char why[160];
        snprintf(why, sizeof why, "is refused as the name of a file: %s", danger);
        return fail_file(failure, to, why, 0);
    }
    const char *last;
    rg_autoclose int fd = rg_cli_open_parent(copy->to.fd, to, true, &last);
    if (fd < 0) {
        return fail_file(failure, to,
                         errno == ELOOP || errno == ENOTDIR
                             ? "is refused: a link or a file stands where a directory should be"
                             : "cannot be written",
                         errno);
    }
    if (last[strlen(last) - 1] == '/') {
        return make_directory(copy, fd, key, last, result, failure);
    }
    rc = download_below(copy, fd, key, last, options, result, failure);
    if (rc < 0) {
        name_directory(copy, to, fd, failure);
    }
    return rc;
}

static int copy_within(struct rg_cli_copy *copy, const char *from, const char *to,
                       struct rg_result *result, struct rg_failure *failure)
{
    char source[RG_CLI_KEY_MAX + 1];
    char target[RG_CLI_KEY_MAX + 1];
    int rc = join_key(&copy->from, from, source, failure);
    if (rc == 0) {
        rc = join_key(&copy->to, to, target, failure);
    }
    return rc < 0 ? rc
                  : rg_copy_object(copy->client, copy->from.url.bucket, source, copy->to.url.bucket,
                                   target, result, failure);
}

void rg_cli_copy_one(struct rg_cli_copy *copy, const char *from, const char *to)
{
    struct rg_cli_share share = {.tally = &copy->tally};
    struct rg_file_options options = {
        .progress = rg_cli_tally_progress, .context = &share, .resume = copy->resume};
    struct rg_result result;
    struct rg_failure failure;
    int rc;
    if (!copy->from.is_url) {
        rc = upload(copy, from, to, &options, &result, &failure);
    } else if (!copy->to.is_url) {
        rc = download(copy, from, to, &options, &result, &failure);
    } else {
        rc = copy_within(copy, from, to, &result, &failure);
    }
    if (rc < 0) {
        rg_cli_tally_failed(&copy->tally, &failure);
        return;
    }
    RG_BUF(source, NAME_BYTES_MAX);
    RG_BUF(target, NAME_BYTES_MAX);
    rg_cli_add_place(&source, &copy->from, from);
    rg_cli_add_place(&target, &copy->to, to);
    rg_cli_tally_done(&copy->tally, rg_buf_text(&source), rg_buf_text(&target), &result);
}

static int delete_file(struct rg_cli_copy *copy, const char *name, struct rg_failure *failure)
{
    const char *last;
    rg_autoclose int fd = rg_cli_open_parent(copy->to.fd, name, false, &last);
    return fd < 0 || unlinkat(fd, last, 0) < 0
               ? fail_file(failure, name, "cannot be deleted", errno)
               : 0;
}

void rg_cli_copy_delete(struct rg_cli_copy *copy, const char *name)
{
    struct rg_failure failure;
    char key[RG_CLI_KEY_MAX + 1];
    int rc;
    if (copy->to.is_url) {
        rc = join_key(&copy->to, name, key, &failure);
        rc = rc < 0 ? rc : rg_delete_object(copy->client, copy->to.url.bucket, key, &failure);
    } else {
        rc = delete_file(copy, name, &failure);
    }
    if (rc < 0) {
        rg_cli_tally_failed(&copy->tally, &failure);
        return;
    }
    RG_BUF(shown, NAME_BYTES_MAX);
    rg_cli_add_place(&shown, &copy->to, name);
    rg_cli_tally_deleted(&copy->tally, rg_buf_text(&shown));
}
