/*
 * railgate ls: buckets, or what is below a prefix.
 */
#include "cli/cli.h"
#include "cli/remote.h"

#include "s3/date.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES_MAX 16384

static struct {
    struct rg_cli_remote remote;
    bool recursive;
    bool human;
} asked;

static const struct rg_cli_option options[] = {
    {"recursive", 'r', RG_CLI_FLAG, &asked.recursive, NULL, "everything below, by its whole key"},
    {"human", 'H', RG_CLI_FLAG, &asked.human, NULL, "sizes with units"},
    RG_CLI_REMOTE_OPTIONS(asked.remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_ls_help(struct rg_buf *out)
{
    rg_buf_add_text(
        out, "\nWithout URL: the buckets. Else one level of the keys that begin with the URL's, "
             "or with -r all\nof them: time (UTC), size in bytes, name. Bytes of a name that "
             "would harm a terminal are shown\nas \\xNN.\n\n");
    rg_cli_help_options(options, out);
}

struct printer {
    const char *start; /* of every line's name: "s3://bucket/" or nothing */
    int status;
};

static void add_time(struct rg_buf *line, time_t time)
{
    char text[RG_DATE_ISO_SIZE];
    rg_date_format_iso((struct timespec){.tv_sec = time}, text);
    rg_buf_addf(line, "%.10s %.8s", text, text + 11);
}

static bool print_entry(void *context, const struct rg_listed *entry)
{
    struct printer *printer = context;
    RG_BUF(line, LINE_BYTES_MAX);
    if (entry->is_prefix) {
        rg_buf_addf(&line, "%19s %14s ", "", "PREFIX");
    } else {
        RG_BUF(size, 32);
        add_time(&line, entry->modified);
        if (asked.human) {
            rg_cli_add_bytes(&size, entry->size);
        } else {
            rg_buf_addf(&size, "%" PRIu64, entry->size);
        }
        rg_buf_addf(&line, " %14s ", rg_buf_text(&size));
    }
    rg_buf_add_text(&line, printer->start);
    rg_cli_add_name(&line, entry->key);
    rg_buf_add_char(&line, '\n');
    printer->status = rg_cli_print(&line);
    return printer->status == RG_EXIT_OK;
}

static bool print_bucket(void *context, const struct rg_listed *entry)
{
    struct printer *printer = context;
    RG_BUF(line, LINE_BYTES_MAX);
    add_time(&line, entry->modified);
    rg_buf_add_text(&line, " s3://");
    rg_cli_add_name(&line, entry->key);
    rg_buf_add_char(&line, '\n');
    printer->status = rg_cli_print(&line);
    return printer->status == RG_EXIT_OK;
}

static int list(struct rg_client *client, const struct rg_cli_url *url)
{
    struct printer printer = {.start = ""};
    struct rg_failure failure;
    int rc = url->bucket[0]
                 ? rg_list_objects(client, url->bucket, url->key, asked.recursive ? NULL : "/",
                                   print_entry, &printer, &failure)
                 : rg_list_buckets(client, print_bucket, &printer, &failure);
    return rc < 0 ? rg_cli_fail_remote(&failure) : printer.status;
}

int rg_cli_ls(int argc, const char **argv)
{
    int count;
    struct rg_cli_url url = {.bucket = ""};
    int status = rg_cli_read_options("ls", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count > 1) {
        return rg_cli_fail_usage("ls", "expects nothing, s3://BUCKET or s3://BUCKET/PREFIX");
    }
    if (count == 1 && !rg_cli_read_url(argv[0], &url)) {
        return rg_cli_fail_url("ls", argv[0], "s3://BUCKET or s3://BUCKET/PREFIX");
    }
    RG_CLEANUP(rg_cli_close) struct rg_client *client = NULL;
    status = rg_cli_open_plain(&asked.remote, &client);
    return status == RG_EXIT_OK ? list(client, &url) : status;
}
