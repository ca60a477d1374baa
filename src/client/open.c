/*
 * Opening, closing and describing a client.
 */
#include "client/client.h"
#include "client/failure.h"
#include "client/rails.h"
#include "client/session.h"
#include "client/staging.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_BYTES_MAX (64u << 10)

/* What S3 copies in one request. */
#define COPY_AT_ONCE_MAX ((uint64_t)5 << 30)

static int open_parts(struct rg_client *client, const struct rg_client_seams *seams,
                      struct rg_failure *failure)
{
    const struct rg_http_options http = {
        .ca_file = client->config.ca_file,
        .connect_timeout_ms = client->config.connect_timeout_ms,
        .idle_timeout_ms = client->config.request_timeout_ms,
    };
    int rc = rg_http_pool_open(&http, &client->http, failure);
    if (rc == 0) {
        rc = rg_rails_open(&client->config,
                           seams->find_transport ? seams->find_transport : rg_transport_find,
                           &client->rails, failure);
    }
    return rc == 0 ? rg_staging_open(client, &client->staging, failure) : rc;
}

int rg_client_open_with(const struct rg_client_options *options,
                        const struct rg_client_seams *seams, struct rg_client **ret_client,
                        struct rg_failure *failure)
{
    struct rg_client *client = calloc(1, sizeof *client);
    if (!client) {
        return rg_failure_memory(failure);
    }
    client->copy_at_once_max = seams->copy_at_once_max ? seams->copy_at_once_max : COPY_AT_ONCE_MAX;
    int rc = rg_config_read(options, seams->environment, &client->config, failure);
    if (rc == 0) {
        rc = open_parts(client, seams, failure);
    }
    if (rc < 0) {
        rg_client_close(client);
        return rc;
    }
    *ret_client = client;
    return 0;
}

int rg_client_open(const struct rg_client_options *options, struct rg_client **ret_client,
                   struct rg_failure *ret_failure)
{
    static const struct rg_client_seams none;
    RG_FAILURE_OR_OWN(ret_failure);
    return rg_client_open_with(options, &none, ret_client, failure);
}

void rg_client_close(struct rg_client *client)
{
    if (!client) {
        return;
    }
    rg_staging_close(client->staging);
    if (client->rails && client->http) {
        rg_client_sessions_end(client);
    }
    rg_rails_close(client->rails);
    rg_http_pool_close(client->http);
    rg_config_free(&client->config);
    free(client);
}

char *rg_client_describe(struct rg_client *client)
{
    RG_BUF(text, DESCRIPTION_BYTES_MAX);
    rg_buf_addf(&text, "%s\n", client->config.origin);
    rg_rails_describe(client->rails, &text);
    return rg_buf_take(&text);
}
