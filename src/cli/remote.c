/*
 * Common ground of the client commands. See remote.h.
 */
#include "cli/remote.h"

#include "cli/cli.h"

#include "base/checked.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LINE_BYTES_MAX 8192

/* ---- Options ---- */

static const struct rg_cli_option *find_long(const struct rg_cli_option *options, struct span name)
{
    for (; options->name; options++) {
        if (rg_span_is(name, options->name)) {
            return options;
        }
    }
    return NULL;
}

static const struct rg_cli_option *find_letter(const struct rg_cli_option *options, char letter)
{
    for (; options->name; options++) {
        if (options->letter == letter) {
            return options;
        }
    }
    return NULL;
}

static bool read_path(const char *text, enum rg_path_choice *ret_path)
{
    static const char *const words[] = {
        [RG_PATH_AUTO] = "auto", [RG_PATH_RDMA_ONLY] = "rdma", [RG_PATH_HTTP_ONLY] = "http"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_path = (enum rg_path_choice)i;
            return true;
        }
    }
    return false;
}

static bool read_retries(const char *text, uint64_t *ret_retries)
{
    if (!rg_span_to_u64(rg_span_text(text), ret_retries)) {
        return false;
    }
    *ret_retries = *ret_retries ? *ret_retries : RG_CLI_NO_RETRIES;
    return true;
}

static bool set_option(const struct rg_cli_option *option, const char *value)
{
    switch (option->kind) {
    case RG_CLI_FLAG:
        *(bool *)option->target = true;
        return true;
    case RG_CLI_TEXT:
        *(const char **)option->target = value;
        return value[0] != '\0';
    case RG_CLI_NUMBER:
        return rg_span_to_u64(rg_span_text(value), option->target);
    case RG_CLI_COUNT:
        return rg_span_to_u64(rg_span_text(value), option->target) && *(uint64_t *)option->target;
    case RG_CLI_SIZE:
        return rg_span_to_size(rg_span_text(value), option->target) && *(uint64_t *)option->target;
    case RG_CLI_RETRIES:
        return read_retries(value, option->target);
    case RG_CLI_PATH:
        return read_path(value, option->target);
    }
    return false;
}

static const char *expected(enum rg_cli_option_kind kind)
{
    switch (kind) {
    case RG_CLI_FLAG:
    case RG_CLI_TEXT:
        break;
    case RG_CLI_NUMBER:
    case RG_CLI_RETRIES:
        return "a whole number";
    case RG_CLI_COUNT:
        return "a whole number above 0";
    case RG_CLI_SIZE:
        return "a size, such as 64M";
    case RG_CLI_PATH:
        return "auto, rdma or http";
    }
    return "not empty";
}

static int set_value(const char *command, const struct rg_cli_option *option, const char *value)
{
    return set_option(option, value)
               ? RG_EXIT_OK
               : rg_cli_fail_usage(command, "--%s cannot be \"%.60s\", but must be %s",
                                   option->name, value, expected(option->kind));
}

/* The value of an option: what stands with it in its word, or else the next word. */
static int read_value(const char *command, const struct rg_cli_option *option, const char *attached,
                      int argc, const char **argv, int *at)
{
    if (!attached && *at + 1 >= argc) {
        return rg_cli_fail_usage(command, "--%s lacks its value", option->name);
    }
    return set_value(command, option, attached ? attached : argv[++*at]);
}

static int read_long(const char *command, const struct rg_cli_option *options, int argc,
                     const char **argv, int *at)
{
    struct span rest = rg_span_text(argv[*at] + 2);
    const struct rg_cli_option *option = find_long(options, rg_span_cut(&rest, '='));
    if (!option) {
        return rg_cli_fail_usage(command, "no option is called \"%.60s\"", argv[*at]);
    }
    if (option->kind != RG_CLI_FLAG) {
        return read_value(command, option, rest.ptr, argc, argv, at);
    }
    return rest.ptr ? rg_cli_fail_usage(command, "--%s takes no value", option->name)
                    : set_value(command, option, "");
}

static int read_letters(const char *command, const struct rg_cli_option *options, int argc,
                        const char **argv, int *at)
{
    const char *word = argv[*at];
    const struct rg_cli_option *meant = find_long(options, rg_span_text(word + 1));
    if (meant && word[2]) {
        return rg_cli_fail_usage(command, "\"%.60s\" is written with two dashes: --%s", word,
                                 meant->name);
    }
    for (const char *letter = word + 1; *letter; letter++) {
        const struct rg_cli_option *option = find_letter(options, *letter);
        if (!option) {
            return rg_cli_fail_usage(command, "no option is called \"-%c\", in \"%.60s\"", *letter,
                                     word);
        }
        if (option->kind != RG_CLI_FLAG) {
            return read_value(command, option, letter[1] ? letter + 1 : NULL, argc, argv, at);
        }
        (void)set_option(option, "");
    }
    return RG_EXIT_OK;
}

/* Reads argv[*at], which begins with '-', and its value; moves *at to the last word used. */
static int read_option(const char *command, const struct rg_cli_option *options, int argc,
                       const char **argv, int *at)
{
    return argv[*at][1] == '-' ? read_long(command, options, argc, argv, at)
                               : read_letters(command, options, argc, argv, at);
}

int rg_cli_read_options(const char *command, const struct rg_cli_option *options, int argc,
                        const char **argv, int *ret_count)
{
    int count = 0;
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
        } else if (only_words || word[0] != '-' || !word[1]) {
            argv[count++] = word;
        } else {
            int status = read_option(command, options, argc, argv, &i);
            if (status != RG_EXIT_OK) {
                return status;
            }
        }
    }
    *ret_count = count;
    return RG_EXIT_OK;
}

void rg_cli_help_options(const struct rg_cli_option *options, struct rg_buf *out)
{
    for (; options->name; options++) {
        char left[64];
        char letter[8] = "";
        if (options->letter) {
            snprintf(letter, sizeof letter, "-%c, ", options->letter);
        }
        snprintf(left, sizeof left, "%s--%s%s%s", letter, options->name, options->word ? " " : "",
                 options->word ? options->word : "");
        rg_buf_addf(out, "  %-26s %s\n", left, options->sentence);
    }
}

/* ---- Clients ---- */

int rg_cli_open(const struct rg_cli_remote *remote, struct rg_client **ret_client)
{
    struct rg_client_options options = {
        .endpoint = remote->endpoint,
        .region = remote->region,
        .profile = remote->profile,
        .ca_file = remote->ca_file,
        .virtual_host = remote->virtual_host,
        .mixed_range_replies = remote->mixed_range_replies,
        .path = remote->path,
        .transports = remote->transports,
        .device = remote->device,
        .traffic_class = remote->traffic_class,
        .gid_index = remote->gid_index,
        .mtu = (unsigned)RG_MIN(remote->mtu, (uint64_t)UINT32_MAX),
        .hop_limit = (unsigned)RG_MIN(remote->hop_limit, (uint64_t)UINT32_MAX),
        .service_level = (unsigned)RG_MIN(remote->service_level, (uint64_t)UINT32_MAX),
        .part_size = remote->part_size,
        .parallel = (unsigned)RG_MIN(remote->parallel, (uint64_t)UINT32_MAX),
        .retries = remote->no_retries || remote->retries == RG_CLI_NO_RETRIES
                       ? RG_NO_RETRIES
                       : (unsigned)RG_MIN(remote->retries, (uint64_t)1000000),
        .request_timeout_ms = (unsigned)RG_MIN(remote->timeout_s, (uint64_t)1000000) * 1000,
    };
    struct rg_failure failure;
    if (rg_client_open(&options, ret_client, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    return RG_EXIT_OK;
}

int rg_cli_open_plain(const struct rg_cli_remote *remote, struct rg_client **ret_client)
{
    struct rg_cli_remote plain = *remote;
    plain.path = RG_PATH_HTTP_ONLY;
    return rg_cli_open(&plain, ret_client);
}

void rg_cli_close(struct rg_client **client)
{
    rg_client_close(*client);
    *client = NULL;
}

/* ---- URLs ---- */

bool rg_cli_is_url(const char *text)
{
    return strncmp(text, "s3://", 5) == 0;
}

bool rg_cli_read_url(const char *text, struct rg_cli_url *ret_url)
{
    if (!rg_cli_is_url(text)) {
        return false;
    }
    struct span key = rg_span_text(text + 5);
    struct span bucket = rg_span_cut(&key, '/');
    if (bucket.len > RG_CLI_BUCKET_MAX || key.len > RG_CLI_KEY_MAX || (!bucket.len && key.len)) {
        return false;
    }
    snprintf(ret_url->bucket, sizeof ret_url->bucket, "%.*s", RG_SPAN_ARG(bucket));
    snprintf(ret_url->key, sizeof ret_url->key, "%.*s", (int)key.len, key.ptr ? key.ptr : "");
    return true;
}

bool rg_cli_is_misspelt(const char *text)
{
    return !rg_cli_is_url(text) &&
           (strncasecmp(text, "s3:", 3) == 0 || strncasecmp(text, "s3/", 3) == 0 ||
            strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0);
}

int rg_cli_fail_url(const char *command, const char *text, const char *form)
{
    const char *why = "";
    if (strncasecmp(text, "http", 4) == 0) {
        why = ": objects are not named by web addresses, and --endpoint names the gateway";
    } else if (rg_cli_is_misspelt(text)) {
        why = ": it has to begin with s3://, in small letters and with two slashes";
    } else if (strncmp(text, "s3:///", 6) == 0) {
        why = ": it names no bucket";
    } else if (strlen(text) > RG_CLI_KEY_MAX) {
        why = ": a bucket has at most 255 bytes and a key 1024";
    }
    RG_BUF(shown, 1024);
    rg_cli_add_name(&shown, text);
    return rg_cli_fail_usage(command, "\"%.100s\" is not %s%s", rg_buf_text(&shown), form, why);
}

/* ---- Printing ---- */

static size_t character_length(const char *at)
{
    for (size_t len = 1; len <= 4 && at[len - 1]; len++) {
        if (rg_span_is_utf8(rg_span(at, len))) {
            return len;
        }
    }
    return 0;
}

static bool is_shown(const char *at, size_t len)
{
    unsigned char first = (unsigned char)at[0];
    if (len == 1) {
        return first >= 0x20 && first != 0x7f;
    }
    /* U+0080 to U+009F are control characters too. */
    return len > 1 && !(first == 0xc2 && (unsigned char)at[1] < 0xa0);
}

void rg_cli_add_name(struct rg_buf *out, const char *name)
{
    while (*name) {
        size_t len = character_length(name);
        if (is_shown(name, len)) {
            rg_buf_add(out, name, len);
        } else {
            len = len ? len : 1;
            for (size_t i = 0; i < len; i++) {
                rg_buf_addf(out, "\\x%02x", (unsigned)(unsigned char)name[i]);
            }
        }
        name += len;
    }
}

void rg_cli_add_bytes(struct rg_buf *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < RG_ARRAY_LENGTH(units)) {
        value /= 1024;
        unit++;
    }
    rg_buf_addf(out, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* What to do about a failure; said once, whatever the number of objects that meet it. */
static const char *remedy(const struct rg_failure *failure)
{
    static atomic_flag said_connect = ATOMIC_FLAG_INIT;
    static atomic_flag said_clock = ATOMIC_FLAG_INIT;
    static atomic_flag said_keys = ATOMIC_FLAG_INIT;
    static atomic_flag said_region = ATOMIC_FLAG_INIT;
    /* Every S3 server has a list of buckets. */
    bool is_other_server = failure->status == RG_STATUS_NOT_FOUND && failure->s3_code[0] == '\0';
    if ((failure->status == RG_STATUS_CONNECT || is_other_server) &&
        !atomic_flag_test_and_set(&said_connect)) {
        return " (--endpoint or AWS_ENDPOINT_URL says where the gateway is.)";
    }
    if (failure->status != RG_STATUS_CREDENTIALS || failure->http_status == 0) {
        return "";
    }
    if (strcmp(failure->s3_code, "RequestTimeTooSkewed") == 0) {
        return atomic_flag_test_and_set(&said_clock)
                   ? ""
                   : " (The clock of this machine or of the gateway is wrong.)";
    }
    if (strcmp(failure->s3_code, "AuthorizationHeaderMalformed") == 0) {
        return atomic_flag_test_and_set(&said_region)
                   ? ""
                   : " (--region or AWS_REGION says which region to sign for.)";
    }
    return atomic_flag_test_and_set(&said_keys)
               ? ""
               : " (Look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile.)";
}

int rg_cli_fail_remote(const struct rg_failure *failure)
{
    fprintf(stderr, "railgate: %s%s%s\n", failure->message,
            failure->uncertain ? " (It may have taken effect all the same.)" : "", remedy(failure));
    bool is_usage = failure->status == RG_STATUS_USAGE ||
                    (failure->status == RG_STATUS_CREDENTIALS && failure->http_status == 0);
    return is_usage ? RG_EXIT_USAGE : RG_EXIT_FAILED;
}
