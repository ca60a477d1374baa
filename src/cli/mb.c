/*
 * railgate mb: makes buckets.
 */
#include "cli/cli.h"
#include "cli/remote.h"

#include <stdio.h>

static struct rg_cli_remote remote;

static const struct rg_cli_option options[] = {
    RG_CLI_REMOTE_OPTIONS(remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_mb_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\n");
    rg_cli_help_options(options, out);
}

int rg_cli_mb(int argc, const char **argv)
{
    int count;
    struct rg_cli_url url;
    int status = rg_cli_read_options("mb", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 1) {
        return rg_cli_fail_usage("mb", "expects one s3://BUCKET");
    }
    if (!rg_cli_read_url(argv[0], &url) || !url.bucket[0] || url.key[0]) {
        return rg_cli_fail_url("mb", argv[0], "s3://BUCKET");
    }
    RG_CLEANUP(rg_cli_close) struct rg_client *client = NULL;
    struct rg_failure failure;
    status = rg_cli_open_plain(&remote, &client);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (rg_make_bucket(client, url.bucket, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    RG_BUF(line, 512);
    rg_buf_addf(&line, "made s3://%s\n", url.bucket);
    return rg_cli_print(&line);
}
