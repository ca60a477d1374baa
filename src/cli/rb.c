/*
 * railgate rb: removes buckets.
 */
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/remove.h"

static struct {
    struct rg_cli_remote remote;
    bool force;
} asked;

static const struct rg_cli_option options[] = {
    {"force", 0, RG_CLI_FLAG, &asked.force, NULL, "delete all objects in it first"},
    RG_CLI_REMOTE_OPTIONS(asked.remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_rb_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\nThe bucket must be empty, unless --force is given.\n\n");
    rg_cli_help_options(options, out);
}

int rg_cli_rb(int argc, const char **argv)
{
    int count;
    struct rg_cli_url url;
    int status = rg_cli_read_options("rb", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 1) {
        return rg_cli_fail_usage("rb", "expects one s3://BUCKET");
    }
    if (!rg_cli_read_url(argv[0], &url) || !url.bucket[0] || url.key[0]) {
        return rg_cli_fail_url("rb", argv[0], "s3://BUCKET");
    }
    RG_CLEANUP(rg_cli_close) struct rg_client *client = NULL;
    struct rg_failure failure;
    status = rg_cli_open_plain(&asked.remote, &client);
    if (status == RG_EXIT_OK && asked.force) {
        status = rg_cli_remove_all(client, url.bucket, "", false);
    }
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (rg_remove_bucket(client, url.bucket, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    RG_BUF(line, 512);
    rg_buf_addf(&line, "removed s3://%s\n", url.bucket);
    return rg_cli_print(&line);
}
