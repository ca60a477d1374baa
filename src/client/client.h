/*
 * What the files of the client room share: the client itself.
 *
 * Threads: everything here is constant after rg_client_open, but for what has its own lock (the
 * pool of connections, rails, staging) and the atomics.
 */
#ifndef RG_CLIENT_CLIENT_H
#define RG_CLIENT_CLIENT_H

#include "client/config.h"
#include "client/http.h"

#include "rdma/transport.h"

#include <railgate/railgate.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct rg_rails;
struct rg_staging;

/* Seams for tests; all NULL in the library. */
struct rg_client_seams {
    rg_environment *environment;
    const struct rg_transport *(*find_transport)(enum rg_transport_kind kind);
    uint64_t copy_at_once_max; /* bytes; 0: what S3 allows */
};

struct rg_client {
    struct rg_config config;
    struct rg_http_pool *http;
    struct rg_rails *rails;
    struct rg_staging *staging;
    uint64_t copy_at_once_max; /* larger objects are copied in parts */
    /* The server has shown that it knows RDMA tokens: an unaware one would store a tokened PUT as
     * an empty object. */
    atomic_bool server_is_aware;
};

int rg_client_open_with(const struct rg_client_options *options,
                        const struct rg_client_seams *seams, struct rg_client **ret_client,
                        struct rg_failure *failure);

/* For the beginning of each public function: a place for the failure when the caller gave none,
 * cleared. */
#define RG_FAILURE_OR_OWN(ret_failure)                                                             \
    struct rg_failure own_failure_;                                                                \
    struct rg_failure *failure = (ret_failure) ? (ret_failure) : &own_failure_;                    \
    memset(failure, 0, sizeof *failure)

#endif
