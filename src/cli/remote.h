/*
 * What the commands that talk to a gateway as clients share: words and options, s3:// URLs, opening
 * a client, printing names and failures.
 */
#ifndef RG_CLI_REMOTE_H
#define RG_CLI_REMOTE_H

#include "base/buf.h"

#include <railgate/railgate.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Options ---- */

enum rg_cli_option_kind {
    RG_CLI_FLAG,    /* bool */
    RG_CLI_TEXT,    /* const char *, borrowed from argv */
    RG_CLI_NUMBER,  /* uint64_t */
    RG_CLI_COUNT,   /* uint64_t, not 0: that stands for an option that is not given */
    RG_CLI_SIZE,    /* uint64_t, not 0: bytes; K, M, G, T suffixes (1024) */
    RG_CLI_RETRIES, /* uint64_t: a number, and RG_CLI_NO_RETRIES for 0 */
    RG_CLI_PATH,    /* enum rg_path_choice: auto, rdma, http */
};

struct rg_cli_option {
    const char *name; /* without "--"; NULL ends a table */
    char letter;      /* 0: none */
    enum rg_cli_option_kind kind;
    void *target;
    const char *word; /* what the value is called in the help; NULL for flags */
    const char *sentence;
};

/*
 * Reads the options of `argv` into their targets and moves the other words, and all behind "--", to
 * the front; their number is *ret_count. Options are "--name value", "--name=value", "-x", "-x
 * value", "-xvalue" and letters of flags together, "-xy". An error prints one line and gives
 * RG_EXIT_USAGE; else RG_EXIT_OK.
 */
int rg_cli_read_options(const char *command, const struct rg_cli_option *options, int argc,
                        const char **argv, int *ret_count);
void rg_cli_help_options(const struct rg_cli_option *options, struct rg_buf *out);

#define RG_CLI_NO_RETRIES UINT64_MAX

/* ---- Clients ---- */

/* Options that every client command has. */
struct rg_cli_remote {
    const char *endpoint;
    const char *region;
    const char *profile;
    const char *ca_file;
    const char *transports;
    const char *device;
    const char *traffic_class;
    const char *gid_index;
    uint64_t mtu;
    uint64_t hop_limit;
    uint64_t service_level;
    enum rg_path_choice path;
    uint64_t part_size;
    uint64_t parallel;
    uint64_t retries;
    uint64_t timeout_s;
    bool no_retries;
    bool virtual_host;
    bool mixed_range_replies;
};

/* Rows for the table of a command: RG_CLI_REMOTE_OPTIONS(remote) with a struct rg_cli_remote. */
#define RG_CLI_REMOTE_OPTIONS(remote)                                                               \
    {"endpoint",                                                                                    \
     'e',                                                                                           \
     RG_CLI_TEXT,                                                                                   \
     &(remote).endpoint,                                                                            \
     "URL",                                                                                         \
     "the gateway; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, "                   \
     "http://127.0.0.1:9000"},                                                                      \
        {"profile",         0,      RG_CLI_TEXT,                                                    \
         &(remote).profile, "NAME", "profile of ~/.aws/credentials and ~/.aws/config"},             \
        {"region", 0, RG_CLI_TEXT, &(remote).region, "NAME", "region to sign for"},                 \
        {"ca-file", 0, RG_CLI_TEXT, &(remote).ca_file, "FILE", "CA certificates, PEM"},             \
        {"virtual-host", 0,                                                                         \
         RG_CLI_FLAG,    &(remote).virtual_host,                                                    \
         NULL,           "address buckets as BUCKET.host; Railgate needs the setting domain"},      \
        {"path",           0,                                                                       \
         RG_CLI_PATH,      &(remote).path,                                                          \
         "auto|rdma|http", "the way of object bytes; rdma: nothing else will do"},                  \
        {"mixed-range-replies",                                                                     \
         0,                                                                                         \
         RG_CLI_FLAG,                                                                               \
         &(remote).mixed_range_replies,                                                             \
         NULL,                                                                                      \
         "take (206, 200) and (200, 206) of other servers for success"},                            \
        {"transports",         0,      RG_CLI_TEXT,                                                 \
         &(remote).transports, "LIST", "of dc, rc, ofi: those that may be used, in order"},         \
        {"device", 0, RG_CLI_TEXT, &(remote).device, "NAME", "RDMA device or libfabric provider"},  \
        {"rdma-mtu", 0, RG_CLI_COUNT, &(remote).mtu, "BYTES", "path MTU of dc and rc; the port's"}, \
        {"rdma-hop-limit", 0, RG_CLI_COUNT, &(remote).hop_limit, "N", "of dc and rc packets; 64"},  \
        {"rdma-service-level", 0, RG_CLI_NUMBER, &(remote).service_level, "N", "of InfiniBand; 0"}, \
        {"rdma-traffic-class", 0, RG_CLI_TEXT, &(remote).traffic_class, "N", "of dc and rc; auto"}, \
        {"rdma-gid-index", 0, RG_CLI_TEXT, &(remote).gid_index, "N", "of the local GID; auto"},     \
        {"part-size", 0, RG_CLI_SIZE, &(remote).part_size, "SIZE", "of multipart transfers; 64M"},  \
        {"parallel", 0, RG_CLI_COUNT, &(remote).parallel, "N", "parts of one object in flight; 8"}, \
        {"retries", 0, RG_CLI_RETRIES, &(remote).retries, "N", "of a request; 3"},                  \
        {"no-retries", 0, RG_CLI_FLAG, &(remote).no_retries, NULL, "send each request once"},       \
    {                                                                                               \
        "timeout", 0, RG_CLI_COUNT, &(remote).timeout_s, "SECONDS", "without a byte moving; 30"     \
    }

/* Opens a client; on failure prints one line and returns the exit status. */
int rg_cli_open(const struct rg_cli_remote *remote, struct rg_client **ret_client);

/* The same for commands that move no object bytes: no transport is opened, which takes longer than
 * all that they do. */
int rg_cli_open_plain(const struct rg_cli_remote *remote, struct rg_client **ret_client);
void rg_cli_close(struct rg_client **client);

/* ---- URLs ---- */

#define RG_CLI_BUCKET_MAX 255
#define RG_CLI_KEY_MAX    1024

struct rg_cli_url {
    char bucket[RG_CLI_BUCKET_MAX + 1]; /* "" for "s3://" alone */
    char key[RG_CLI_KEY_MAX + 1];       /* "" when there is none */
};

bool rg_cli_is_url(const char *text);

/* "s3://bucket/key", the key as it is: nothing is decoded. False when it is not one. */
bool rg_cli_read_url(const char *text, struct rg_cli_url *ret_url);

/* A word that is no path, as far as one can tell: what somebody writes who means s3://. */
bool rg_cli_is_misspelt(const char *text);

/* Says that `text` is not of the form `form` ("s3://BUCKET/KEY"), and why; RG_EXIT_USAGE. */
int rg_cli_fail_url(const char *command, const char *text, const char *form);

/* ---- Printing ---- */

/* Appends a name from outside so that a terminal survives it: control characters and bytes that are
 * not UTF-8 as \xNN. */
void rg_cli_add_name(struct rg_buf *out, const char *name);

/* "1.5 GiB". */
void rg_cli_add_bytes(struct rg_buf *out, uint64_t bytes);

/* One line on standard error; returns RG_EXIT_USAGE for a usage or credentials failure, else
 * RG_EXIT_FAILED. */
int rg_cli_fail_remote(const struct rg_failure *failure);

#endif
