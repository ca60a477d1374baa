/*
 * Deletes what is below a prefix, several objects at once. See remove.h.
 */
#include "cli/remove.h"

#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/places.h"
#include "cli/tally.h"

#include <inttypes.h>
#include <stdio.h>

#define THREADS 16u

struct removal {
    struct rg_client *client;
    const char *bucket;
    const char *prefix;
    struct rg_cli_tally tally;
};

static void remove_one(void *context, void *item)
{
    struct removal *removal = context;
    const struct rg_cli_entry *entry = item;
    struct rg_failure failure;
    RG_BUF(key, RG_CLI_KEY_MAX + 1);
    RG_BUF(name, 2 * RG_CLI_KEY_MAX);
    rg_buf_addf(&key, "%s%s", removal->prefix, entry->name);
    rg_buf_addf(&name, "s3://%s/%s", removal->bucket, rg_buf_text(&key));
    if (rg_delete_object(removal->client, removal->bucket, rg_buf_text(&key), &failure) < 0) {
        rg_cli_tally_failed(&removal->tally, &failure);
    } else {
        rg_cli_tally_deleted(&removal->tally, rg_buf_text(&name));
    }
}

static int remove_list(struct removal *removal, const struct rg_cli_list *list)
{
    return rg_cli_list_do(list, THREADS, remove_one, removal);
}

int rg_cli_remove_all(struct rg_client *client, const char *bucket, const char *prefix,
                      bool verbose)
{
    RG_CLEANUP(rg_cli_list_free) struct rg_cli_list list = {.entries = NULL};
    struct removal removal = {.client = client, .bucket = bucket, .prefix = prefix};
    int status = rg_cli_list_objects(client, bucket, prefix, &list);
    if (status != RG_EXIT_OK) {
        return status;
    }
    rg_cli_tally_begin(&removal.tally, verbose);
    status = remove_list(&removal, &list);
    if (status == RG_EXIT_OK && prefix[0]) {
        /* The marker of the directory itself, if there is one; deleting nothing is no failure. */
        struct rg_failure failure;
        if (rg_delete_object(client, bucket, prefix, &failure) < 0 &&
            failure.status != RG_STATUS_NOT_FOUND) {
            rg_cli_tally_failed(&removal.tally, &failure);
        }
    }
    uint64_t deleted = removal.tally.deleted;
    uint64_t failed = removal.tally.failed;
    RG_BUF(line, 256);
    rg_buf_addf(&line, "deleted %" PRIu64 " object%s", deleted, deleted == 1 ? "" : "s");
    if (failed) {
        rg_buf_addf(&line, "; %" PRIu64 " FAILED", failed);
    }
    rg_buf_add_char(&line, '\n');
    int printed = rg_cli_print(&line);
    return failed ? RG_EXIT_FAILED : status == RG_EXIT_OK ? printed : status;
}
