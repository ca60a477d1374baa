/*
 * railgate cat: objects to standard output, range by range, all of one version.
 */
#include "cli/cli.h"
#include "cli/remote.h"

#include "base/attr.h"
#include "base/checked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_DEFAULT ((uint64_t)64 << 20)

static struct rg_cli_remote remote;

static const struct rg_cli_option options[] = {
    RG_CLI_REMOTE_OPTIONS(remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_cat_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\nWrites the bytes of the objects to standard output, one behind the "
                         "other.\n\n");
    rg_cli_help_options(options, out);
}

static void release(struct rg_memory **memory)
{
    rg_memory_release(*memory);
}

static int write_all(const char *bytes, uint64_t length)
{
    while (length) {
        ssize_t put = write(STDOUT_FILENO, bytes, length);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            fprintf(stderr, "railgate: cannot write to standard output: %s\n", strerror(errno));
            return RG_EXIT_FAILED;
        }
        bytes += put;
        length -= (uint64_t)put;
    }
    return RG_EXIT_OK;
}

static int print_object(struct rg_client *client, const struct rg_cli_url *url)
{
    struct rg_stat stat;
    struct rg_failure failure;
    if (rg_stat_object(client, url->bucket, url->key, &stat, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    uint64_t piece = remote.part_size ? remote.part_size : PIECE_DEFAULT;
    piece = stat.size ? RG_MIN(piece, stat.size) : 1;
    rg_autofree char *bytes = malloc(piece);
    RG_CLEANUP(release) struct rg_memory *memory = NULL;
    if (!bytes) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_FAILED;
    }
    if (rg_memory_register(client, bytes, piece, &memory, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    struct rg_get_options one_version = {.if_match = stat.etag};
    int status = RG_EXIT_OK;
    for (uint64_t at = 0; at < stat.size && status == RG_EXIT_OK; at += piece) {
        uint64_t length = RG_MIN(piece, stat.size - at);
        if (rg_get_range(client, url->bucket, url->key, at, length, memory, 0, &one_version, NULL,
                         &failure) < 0) {
            return rg_cli_fail_remote(&failure);
        }
        status = write_all(bytes, length);
    }
    return status;
}

int rg_cli_cat(int argc, const char **argv)
{
    int count;
    int status = rg_cli_read_options("cat", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    RG_CLEANUP(rg_cli_close) struct rg_client *client = NULL;
    struct rg_cli_url url;
    for (int i = 0; i < count; i++) {
        if (!rg_cli_read_url(argv[i], &url) || !url.key[0]) {
            return rg_cli_fail_url("cat", argv[i], "s3://BUCKET/KEY");
        }
    }
    if (count == 0) {
        return rg_cli_fail_usage("cat", "expects s3://BUCKET/KEY");
    }
    status = rg_cli_open(&remote, &client);
    for (int i = 0; i < count && status == RG_EXIT_OK; i++) {
        (void)rg_cli_read_url(argv[i], &url);
        status = print_object(client, &url);
    }
    return status;
}
