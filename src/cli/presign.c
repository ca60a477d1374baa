/*
 * railgate presign: a URL with which anybody may do one thing for a while. No network.
 */
#include "cli/cli.h"
#include "cli/remote.h"

#include "base/clock.h"
#include "client/config.h"
#include "s3/sigv4.h"
#include "s3/url.h"

#include <stdio.h>
#include <string.h>

#define EXPIRES_DEFAULT_S 3600

static struct {
    struct rg_cli_remote remote;
    const char *method;
    uint64_t expires_s;
} asked;

static const struct rg_cli_option options[] = {
    {"method", 'X', RG_CLI_TEXT, &asked.method, "METHOD", "GET (default), PUT, HEAD or DELETE"},
    {"expires", 0, RG_CLI_COUNT, &asked.expires_s, "SECONDS", "how long it works; 3600"},
    RG_CLI_REMOTE_OPTIONS(asked.remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_presign_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\nPrints a URL that whoever has it can use without credentials.\n\n");
    rg_cli_help_options(options, out);
}

static bool is_method(const char *method)
{
    static const char *const methods[] = {"GET", "PUT", "HEAD", "DELETE"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(methods); i++) {
        if (strcmp(method, methods[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int print_url(const struct rg_config *config, const struct rg_cli_url *url,
                     const char *method)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(host, 1024);
    RG_BUF(path, 8192);
    RG_BUF(query, 16384);
    RG_BUF(line, 65536);
    if (config->virtual_host) {
        rg_buf_addf(&host, "%s.", url->bucket);
    } else {
        rg_buf_addf(&path, "/%s", url->bucket);
    }
    rg_buf_add_text(&host, config->host);
    rg_buf_add_char(&path, '/');
    rg_url_encode(rg_span_text(url->key), RG_URL_SLASH_KEPT, &path);
    struct rg_header headers[] = {{RG_SPAN_LITERAL("host"), rg_buf_span(&host)}};
    struct rg_sigv4_request request = {
        .method = rg_span_text(method),
        .path = rg_buf_span(&path),
        .query = RG_SPAN_EMPTY,
        .headers = headers,
        .header_count = 1,
    };
    struct rg_sigv4_signer signer = {
        .access_key = rg_span_text(config->access_key),
        .secret = rg_span_text(config->secret_key),
        .region = rg_span_text(config->region),
        .service = RG_SPAN_LITERAL("s3"),
    };
    int64_t expires_s = asked.expires_s ? (int64_t)asked.expires_s : EXPIRES_DEFAULT_S;
    if (rg_sigv4_presign(&signer, &request, rg_clock_wall().tv_sec, expires_s, &query, &err) < 0) {
        return rg_cli_fail(&err);
    }
    rg_buf_addf(&line, "%s://%s%s?%s\n", config->https ? "https" : "http", rg_buf_text(&host),
                rg_buf_text(&path), rg_buf_text(&query));
    return rg_cli_print(&line);
}

int rg_cli_presign(int argc, const char **argv)
{
    int count;
    struct rg_cli_url url;
    int status = rg_cli_read_options("presign", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    const char *method = asked.method ? asked.method : "GET";
    if (count != 1) {
        return rg_cli_fail_usage("presign", "expects one s3://BUCKET/KEY");
    }
    if (!rg_cli_read_url(argv[0], &url) || !url.key[0]) {
        return rg_cli_fail_url("presign", argv[0], "s3://BUCKET/KEY");
    }
    if (!is_method(method)) {
        return rg_cli_fail_usage("presign", "--method is GET, PUT, HEAD or DELETE");
    }
    if (asked.expires_s > RG_SIGV4_EXPIRES_MAX_S) {
        return rg_cli_fail_usage("presign", "--expires is at most %u seconds, 7 days",
                                 (unsigned)RG_SIGV4_EXPIRES_MAX_S);
    }
    struct rg_client_options client = {
        .endpoint = asked.remote.endpoint,
        .region = asked.remote.region,
        .profile = asked.remote.profile,
        .virtual_host = asked.remote.virtual_host,
    };
    struct rg_config config;
    struct rg_failure failure;
    memset(&failure, 0, sizeof failure);
    if (rg_config_read(&client, NULL, &config, &failure) < 0) {
        return rg_cli_fail_remote(&failure);
    }
    status = print_url(&config, &url, method);
    rg_config_free(&config);
    return status;
}
