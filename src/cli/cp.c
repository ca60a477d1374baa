/*
 * railgate cp: files into objects, objects into files, objects into objects.
 */
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/jobs.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define JOBS_DEFAULT 8u

static struct {
    struct rg_cli_remote remote;
    bool recursive;
    bool verbose;
    bool no_resume;
    bool follow;
    uint64_t jobs;
    const char *content_type;
} asked;

static const struct rg_cli_option options[] = {
    {"recursive", 'r', RG_CLI_FLAG, &asked.recursive, NULL, "everything below SRC"},
    {"verbose", 'v', RG_CLI_FLAG, &asked.verbose, NULL,
     "a line for each object, with the path its bytes took"},
    {"no-resume", 0, RG_CLI_FLAG, &asked.no_resume, NULL,
     "begin anew, keep nothing of an unfinished copy"},
    {"follow-links", 'L', RG_CLI_FLAG, &asked.follow, NULL,
     "upload what symbolic links point to; else they are left out"},
    {"jobs", 'j', RG_CLI_COUNT, &asked.jobs, "N", "objects at once with -r; 8"},
    {"content-type", 0, RG_CLI_TEXT, &asked.content_type, "TYPE", "of objects that are written"},
    RG_CLI_REMOTE_OPTIONS(asked.remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_cp_help(struct rg_buf *out)
{
    rg_buf_add_text(
        out,
        "\nSRC and DST are paths or s3://BUCKET/KEY; one of them at least is an object. A DST that "
        "ends in\n'/', is a bucket or a directory keeps the name of SRC. With -r the names below "
        "SRC are kept\nbelow DST; keys with \"..\" or empty segments are not written to the disk, "
        "and nothing is written\nthrough a symbolic link. S3 has no directories: those without a "
        "file leave "
        "nothing, and a key that\nends in '/' and has no bytes becomes one.\n\n"
        "Files are checked against the object's CRC64NVME, where it has one. A copy that was cut "
        "off is gone "
        "on\nwith when it is begun again. The last line says how many objects went which way.\n\n");
    rg_cli_help_options(options, out);
}

/* ---- One ---- */

static bool ends_in_slash(const char *text)
{
    size_t len = strlen(text);
    return len && text[len - 1] == '/';
}

static bool is_directory(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode);
}

/* Cuts "a/b/c" into the place "a/b/" and the name "c". */
static const char *cut_path(struct rg_cli_place *place, const char *text)
{
    const char *slash = strrchr(text, '/');
    if (!slash) {
        snprintf(place->path, sizeof place->path, ".");
        return text;
    }
    snprintf(place->path, sizeof place->path, "%.*s", (int)RG_MAX(slash - text, (ptrdiff_t)1),
             text);
    return slash + 1;
}

static const char *last_segment(const char *key)
{
    const char *slash = strrchr(key, '/');
    return slash ? slash + 1 : key;
}

static int read_source(const char *text, struct rg_cli_place *place, char name[RG_CLI_KEY_MAX + 1])
{
    int status = rg_cli_read_place("cp", text, place);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (place->is_url) {
        struct rg_cli_url url;
        (void)rg_cli_read_url(text, &url);
        snprintf(name, RG_CLI_KEY_MAX + 1, "%s", url.key);
        place->url.key[0] = '\0';
    } else {
        snprintf(name, RG_CLI_KEY_MAX + 1, "%s", cut_path(place, text));
    }
    if (!name[0] || (!place->is_url && is_directory(text))) {
        return rg_cli_fail_usage("cp", "\"%.100s\" names no single object; -r copies what is below",
                                 text);
    }
    return RG_EXIT_OK;
}

static int read_target(const char *text, const char *source, struct rg_cli_place *place,
                       char name[RG_CLI_KEY_MAX + 1])
{
    int status = rg_cli_read_place("cp", text, place);
    if (status != RG_EXIT_OK) {
        return status;
    }
    const char *last = last_segment(source);
    if (place->is_url) {
        struct rg_cli_url url;
        (void)rg_cli_read_url(text, &url);
        bool keeps_name = !url.key[0] || ends_in_slash(url.key);
        snprintf(name, RG_CLI_KEY_MAX + 1, "%s", keeps_name ? last : url.key);
        if (!keeps_name) {
            place->url.key[0] = '\0';
        }
    } else if (ends_in_slash(text) || is_directory(text)) {
        snprintf(name, RG_CLI_KEY_MAX + 1, "%s", last);
    } else {
        snprintf(name, RG_CLI_KEY_MAX + 1, "%s", cut_path(place, text));
    }
    return name[0] ? RG_EXIT_OK
                   : rg_cli_fail_usage("cp", "\"%.100s\" has no name of its own: give one to DST",
                                       source);
}

/* Where other tools stand for standard input and output, a file called "-" would be made. */
static int check_dash(const char *from, const char *to)
{
    if (strcmp(from, "-") == 0) {
        return rg_cli_fail_usage("cp", "standard input cannot be copied, and a file that is called "
                                       "\"-\" is ./-");
    }
    if (strcmp(to, "-") == 0) {
        return rg_cli_fail_usage("cp", "railgate cat writes to standard output, and a file that is "
                                       "called \"-\" is ./-");
    }
    return RG_EXIT_OK;
}

static int copy_single(struct rg_cli_copy *copy, const char *from, const char *to)
{
    char source[RG_CLI_KEY_MAX + 1];
    char target[RG_CLI_KEY_MAX + 1];
    int status = check_dash(from, to);
    if (status == RG_EXIT_OK) {
        status = read_source(from, &copy->from, source);
    }
    if (status == RG_EXIT_OK) {
        status = read_target(to, source, &copy->to, target);
    }
    if (status == RG_EXIT_OK) {
        status = rg_cli_open(&asked.remote, &copy->client);
    }
    if (status == RG_EXIT_OK) {
        status = rg_cli_copy_open_target(copy, ends_in_slash(to));
    }
    if (status != RG_EXIT_OK) {
        return status;
    }
    rg_cli_tally_begin(&copy->tally, asked.verbose);
    rg_cli_copy_one(copy, source, target);
    return rg_cli_tally_end(&copy->tally, "copied");
}

/* ---- Many ---- */

static void copy_job(void *context, void *item)
{
    struct rg_cli_copy *copy = context;
    const struct rg_cli_entry *entry = item;
    rg_cli_copy_one(copy, entry->name, entry->name);
}

static int copy_list(struct rg_cli_copy *copy, const struct rg_cli_list *list)
{
    copy->tally.total = list->bytes;
    copy->tally.knows_total = true;
    unsigned threads =
        (unsigned)RG_MIN(asked.jobs ? asked.jobs : JOBS_DEFAULT, (uint64_t)RG_CLI_JOBS_MAX);
    return rg_cli_list_do(list, threads, copy_job, copy);
}

static int copy_many(struct rg_cli_copy *copy, const char *from, const char *to)
{
    RG_CLEANUP(rg_cli_list_free) struct rg_cli_list list = {.entries = NULL};
    int status = rg_cli_read_place("cp", from, &copy->from);
    if (status == RG_EXIT_OK) {
        status = rg_cli_read_place("cp", to, &copy->to);
    }
    if (status == RG_EXIT_OK && !copy->from.is_url && is_file(from)) {
        status = rg_cli_fail_usage("cp", "\"%.100s\" is a file, and copied without -r", from);
    }
    if (status == RG_EXIT_OK) {
        status = rg_cli_open(&asked.remote, &copy->client);
    }
    if (status != RG_EXIT_OK) {
        return status;
    }
    rg_cli_tally_begin(&copy->tally, asked.verbose);
    status = rg_cli_list_place(copy, &copy->from, asked.follow, &copy->tally, &list);
    if (status == RG_EXIT_OK) {
        status = rg_cli_copy_open_target(copy, true);
    }
    if (status == RG_EXIT_OK) {
        status = copy_list(copy, &list);
    }
    int ended = rg_cli_tally_end(&copy->tally, "copied");
    return status == RG_EXIT_OK ? ended : status;
}

int rg_cli_cp(int argc, const char **argv)
{
    int count;
    int status = rg_cli_read_options("cp", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 2) {
        return rg_cli_fail_usage("cp", "expects SRC and DST");
    }
    if (!rg_cli_is_url(argv[0]) && !rg_cli_is_url(argv[1]) && !rg_cli_is_misspelt(argv[0]) &&
        !rg_cli_is_misspelt(argv[1])) {
        return rg_cli_fail_usage("cp", "neither SRC nor DST is s3://BUCKET/KEY");
    }
    struct rg_cli_copy copy = {.from.fd = -1, .to.fd = -1};
    copy.resume = !asked.no_resume;
    copy.content_type = asked.content_type;
    status =
        asked.recursive ? copy_many(&copy, argv[0], argv[1]) : copy_single(&copy, argv[0], argv[1]);
    rg_cleanup_close(&copy.to.fd);
    rg_cli_close(&copy.client);
    return status;
}
