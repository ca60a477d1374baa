/*
 * railgate sync: makes a place hold what another holds, copying only what differs.
 */
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/jobs.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define JOBS_DEFAULT 8u

static struct {
    struct rg_cli_remote remote;
    bool verbose;
    bool remove;
    bool dry_run;
    bool follow;
    bool size_only;
    uint64_t jobs;
} asked;

static const struct rg_cli_option options[] = {
    {"delete", 0, RG_CLI_FLAG, &asked.remove, NULL, "remove from DST what SRC does not have"},
    {"dry-run", 'n', RG_CLI_FLAG, &asked.dry_run, NULL, "say what would be done"},
    {"size-only", 0, RG_CLI_FLAG, &asked.size_only, NULL, "do not compare times"},
    {"follow-links", 'L', RG_CLI_FLAG, &asked.follow, NULL,
     "upload what symbolic links point to; else they are left out"},
    {"verbose", 'v', RG_CLI_FLAG, &asked.verbose, NULL,
     "a line for each object, with the path its bytes took"},
    {"jobs", 'j', RG_CLI_COUNT, &asked.jobs, "N", "objects at once; 8"},
    RG_CLI_REMOTE_OPTIONS(asked.remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_sync_help(struct rg_buf *out)
{
    rg_buf_add_text(
        out, "\nSRC and DST are directories or s3://BUCKET/PREFIX; one of them at least is a "
             "bucket. An object is\ncopied when DST lacks it, its size differs, or SRC's is newer. "
             "A file that is downloaded gets the\nobject's time. With --delete an empty SRC is "
             "refused.\n\n");
    rg_cli_help_options(options, out);
}

/* Objects have whole seconds. */
static bool differs(const struct rg_cli_entry *from, const struct rg_cli_entry *to)
{
    return from->size != to->size ||
           (!asked.size_only && from->modified.tv_sec > to->modified.tv_sec);
}

struct task {
    const struct rg_cli_entry *entry;
    bool remove;
};

struct tasks {
    struct task *tasks;
    size_t count;
    uint64_t bytes;
};

static void free_tasks(struct tasks *tasks)
{
    free(tasks->tasks);
}

/* The marker of a directory that is there already. */
static bool is_made(const struct rg_cli_copy *copy, const char *name)
{
    struct stat facts;
    const char *last;
    if (copy->to.is_url || name[strlen(name) - 1] != '/' || rg_cli_name_danger(name)) {
        return false;
    }
    rg_autoclose int fd = rg_cli_open_parent(copy->to.fd, name, false, &last);
    return fd >= 0 && fstatat(fd, last, &facts, 0) == 0 && S_ISDIR(facts.st_mode);
}

static void add_task(struct tasks *tasks, const struct rg_cli_entry *entry, bool remove)
{
    tasks->tasks[tasks->count++] = (struct task){.entry = entry, .remove = remove};
    tasks->bytes += remove ? 0 : entry->size;
}

/* Both lists are sorted: one walk over both. */
static int compare(const struct rg_cli_copy *copy, const struct rg_cli_list *from,
                   const struct rg_cli_list *to, struct tasks *ret_tasks)
{
    size_t i = 0;
    size_t j = 0;
    ret_tasks->tasks = calloc(from->count + to->count + 1, sizeof *ret_tasks->tasks);
    if (!ret_tasks->tasks) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_FAILED;
    }
    while (i < from->count || j < to->count) {
        int order = i == from->count ? 1
                    : j == to->count ? -1
                                     : strcmp(from->entries[i].name, to->entries[j].name);
        if (order < 0) {
            if (!is_made(copy, from->entries[i].name)) {
                add_task(ret_tasks, &from->entries[i], false);
            }
            i++;
        } else if (order > 0) {
            if (asked.remove) {
                add_task(ret_tasks, &to->entries[j], true);
            }
            j++;
        } else {
            if (differs(&from->entries[i], &to->entries[j])) {
                add_task(ret_tasks, &from->entries[i], false);
            }
            i++;
            j++;
        }
    }
    return RG_EXIT_OK;
}

static void do_task(void *context, void *item)
{
    struct rg_cli_copy *copy = context;
    const struct task *task = item;
    if (task->remove) {
        rg_cli_copy_delete(copy, task->entry->name);
    } else {
        rg_cli_copy_one(copy, task->entry->name, task->entry->name);
    }
}

/* Removals come first: a file may stand where a directory has to be. */
static int do_kind(struct rg_cli_copy *copy, const struct tasks *tasks, bool remove)
{
    unsigned threads =
        (unsigned)RG_MIN(asked.jobs ? asked.jobs : JOBS_DEFAULT, (uint64_t)RG_CLI_JOBS_MAX);
    struct rg_cli_jobs *jobs = rg_cli_jobs_start(threads, do_task, copy);
    if (!jobs) {
        fputs("railgate: no thread can be started\n", stderr);
        return RG_EXIT_FAILED;
    }
    for (size_t i = 0; i < tasks->count; i++) {
        if (tasks->tasks[i].remove == remove) {
            rg_cli_jobs_add(jobs, &tasks->tasks[i]);
        }
    }
    rg_cli_jobs_finish(jobs);
    return RG_EXIT_OK;
}

static int do_tasks(struct rg_cli_copy *copy, const struct tasks *tasks)
{
    copy->tally.total = tasks->bytes;
    copy->tally.knows_total = true;
    int status = do_kind(copy, tasks, true);
    return status == RG_EXIT_OK ? do_kind(copy, tasks, false) : status;
}

static int print_tasks(const struct rg_cli_copy *copy, const struct tasks *tasks)
{
    for (size_t i = 0; i < tasks->count; i++) {
        const struct task *task = &tasks->tasks[i];
        RG_BUF(name, 16384);
        RG_BUF(line, 65536);
        rg_cli_add_place(&name, &copy->to, task->entry->name);
        rg_buf_add_text(&line, task->remove ? "would delete " : "would copy to ");
        rg_cli_add_name(&line, rg_buf_text(&name));
        rg_buf_add_char(&line, '\n');
        int status = rg_cli_print(&line);
        if (status != RG_EXIT_OK) {
            return status;
        }
    }
    return RG_EXIT_OK;
}

/* What is at DST before anything is copied; a directory that is not there yet holds nothing. */
static int list_target(struct rg_cli_copy *copy, struct rg_cli_list *ret_list)
{
    if (!copy->to.is_url) {
        if (asked.dry_run && rg_cli_copy_open_target(copy, false) != RG_EXIT_OK) {
            return RG_EXIT_FAILED;
        }
        if (!asked.dry_run && rg_cli_copy_open_target(copy, true) != RG_EXIT_OK) {
            return RG_EXIT_FAILED;
        }
    }
    return rg_cli_list_place(copy, &copy->to, false, NULL, ret_list);
}

static int run(struct rg_cli_copy *copy)
{
    RG_CLEANUP(rg_cli_list_free) struct rg_cli_list from = {.entries = NULL};
    RG_CLEANUP(rg_cli_list_free) struct rg_cli_list to = {.entries = NULL};
    RG_CLEANUP(free_tasks) struct tasks tasks = {.tasks = NULL};
    int status = rg_cli_list_place(copy, &copy->from, asked.follow, &copy->tally, &from);
    if (status == RG_EXIT_OK && asked.remove && (from.count == 0 || copy->tally.failed)) {
        fputs("railgate: SRC is empty or could not be read whole: with --delete, that would remove "
              "what is at DST\n",
              stderr);
        return RG_EXIT_FAILED;
    }
    if (status == RG_EXIT_OK) {
        status = list_target(copy, &to);
    }
    if (status == RG_EXIT_OK) {
        status = compare(copy, &from, &to, &tasks);
    }
    if (status != RG_EXIT_OK) {
        return status;
    }
    return asked.dry_run ? print_tasks(copy, &tasks) : do_tasks(copy, &tasks);
}

int rg_cli_sync(int argc, const char **argv)
{
    int count;
    int status = rg_cli_read_options("sync", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 2 || (!rg_cli_is_url(argv[0]) && !rg_cli_is_url(argv[1]) &&
                       !rg_cli_is_misspelt(argv[0]) && !rg_cli_is_misspelt(argv[1]))) {
        return rg_cli_fail_usage("sync", "expects SRC and DST, and one of them as s3://...");
    }
    struct rg_cli_copy copy = {.from.fd = -1, .to.fd = -1, .resume = true};
    status = rg_cli_read_place("sync", argv[0], &copy.from);
    if (status == RG_EXIT_OK) {
        status = rg_cli_read_place("sync", argv[1], &copy.to);
    }
    if (status == RG_EXIT_OK) {
        status = rg_cli_open(&asked.remote, &copy.client);
    }
    if (status == RG_EXIT_OK) {
        rg_cli_tally_begin(&copy.tally, asked.verbose);
        status = run(&copy);
        int ended = rg_cli_tally_end(&copy.tally, "copied");
        status = status == RG_EXIT_OK ? ended : status;
    }
    rg_cleanup_close(&copy.to.fd);
    rg_cli_close(&copy.client);
    return status;
}
