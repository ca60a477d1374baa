/*
 * railgate stat: what is known of an object.
 */
#include "cli/cli.h"
#include "cli/remote.h"

#include "s3/date.h"

#include <inttypes.h>

static struct rg_cli_remote remote;

static const struct rg_cli_option options[] = {
    RG_CLI_REMOTE_OPTIONS(remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_stat_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\n");
    rg_cli_help_options(options, out);
}

static int print_stat(const struct rg_cli_url *url, const struct rg_stat *stat)
{
    char modified[RG_DATE_ISO_SIZE];
    RG_BUF(text, 32768);
    rg_date_format_iso((struct timespec){.tv_sec = stat->modified}, modified);
    rg_buf_addf(&text, "object    s3://%s/", url->bucket);
    rg_cli_add_name(&text, url->key);
    rg_buf_addf(&text, "\nsize      %" PRIu64 "\nmodified  %.19sZ\netag      ", stat->size,
                modified);
    rg_cli_add_name(&text, stat->etag);
    rg_buf_add_text(&text, "\ntype      ");
    rg_cli_add_name(&text, stat->content_type);
    rg_buf_addf(&text, "\ncrc64nvme %s\n", stat->checksum[0] ? stat->checksum : "-");
    return rg_cli_print(&text);
}

int rg_cli_stat(int argc, const char **argv)
{
    int count;
    struct rg_cli_url url;
    int status = rg_cli_read_options("stat", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 1) {
        return rg_cli_fail_usage("stat", "expects one s3://BUCKET/KEY");
    }
    if (!rg_cli_read_url(argv[0], &url) || !url.key[0]) {
        return rg_cli_fail_url("stat", argv[0], "s3://BUCKET/KEY");
    }
    RG_CLEANUP(rg_cli_close) struct rg_client *client = NULL;
    struct rg_stat stat;
    struct rg_failure failure;
    status = rg_cli_open_plain(&remote, &client);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (rg_stat_object(client, url.bucket, url.key, &stat, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    return print_stat(&url, &stat);
}
