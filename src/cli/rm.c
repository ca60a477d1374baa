/*
 * railgate rm: deletes objects.
 */
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/remote.h"
#include "cli/remove.h"

static struct {
    struct rg_cli_remote remote;
    bool recursive;
    bool verbose;
} asked;

static const struct rg_cli_option options[] = {
    {"recursive", 'r', RG_CLI_FLAG, &asked.recursive, NULL, "everything below URL and its '/'"},
    {"verbose", 'v', RG_CLI_FLAG, &asked.verbose, NULL, "a line for each object"},
    RG_CLI_REMOTE_OPTIONS(asked.remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_rm_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\nDeleting an object that is not there is no failure, as in S3.\n\n");
    rg_cli_help_options(options, out);
}

/* All words are looked at before anything is deleted. */
static int check_words(int count, const char **words)
{
    struct rg_cli_url url;
    for (int i = 0; i < count; i++) {
        if (!rg_cli_read_url(words[i], &url) || !url.bucket[0] ||
            (!asked.recursive && !url.key[0])) {
            return rg_cli_fail_url("rm", words[i],
                                   asked.recursive ? "s3://BUCKET/PREFIX"
                                                   : "s3://BUCKET/KEY (-r deletes what is below)");
        }
    }
    return RG_EXIT_OK;
}

static int remove_one(struct rg_client *client, const char *text)
{
    struct rg_cli_url url;
    struct rg_failure failure;
    (void)rg_cli_read_url(text, &url);
    if (rg_delete_object(client, url.bucket, url.key, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    RG_BUF(line, 16384);
    rg_buf_addf(&line, "deleted s3://%s/", url.bucket);
    rg_cli_add_name(&line, url.key);
    rg_buf_add_char(&line, '\n');
    return rg_cli_print(&line);
}

static int remove_below(struct rg_client *client, const char *text)
{
    struct rg_cli_place place;
    int status = rg_cli_read_place("rm", text, &place);
    return status == RG_EXIT_OK
               ? rg_cli_remove_all(client, place.url.bucket, place.url.key, asked.verbose)
               : status;
}

int rg_cli_rm(int argc, const char **argv)
{
    int count;
    int status = rg_cli_read_options("rm", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count == 0) {
        return rg_cli_fail_usage("rm", "expects s3://BUCKET/KEY");
    }
    status = check_words(count, argv);
    if (status != RG_EXIT_OK) {
        return status;
    }
    RG_CLEANUP(rg_cli_close) struct rg_client *client = NULL;
    status = rg_cli_open_plain(&asked.remote, &client);
    int worst = status;
    for (int i = 0; status != RG_EXIT_USAGE && client && i < count; i++) {
        status = asked.recursive ? remove_below(client, argv[i]) : remove_one(client, argv[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}
