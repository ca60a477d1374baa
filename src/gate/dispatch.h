/*
 * From an HTTP request to the verb that answers it: route, authenticate, authorise, run, answer.
 * The four handlers below are what the HTTP server is given, with a struct rg_gate as context; what
 * became of a request is told afterwards by rg_dispatch_outcome, for the log and the metrics.
 *
 * Nothing here opens a socket or writes a log line about a request: gateway.c does.
 */
#ifndef RG_GATE_DISPATCH_H
#define RG_GATE_DISPATCH_H

#include "base/error.h"
#include "base/settings.h"
#include "base/span.h"
#include "gate/http.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

/* What all requests share: settings, store, accounts, work buffers. */
struct rg_gate;

/* `settings` and `store` are borrowed until rg_gate_free. RG_SETTING when the root account or the
 * domain in the settings is not usable, RG_OUT_OF_MEMORY. */
int rg_gate_new(const struct rg_settings *settings, struct rg_store *store,
                struct rg_gate **ret_gate, struct rg_error *err);

/* Requests are counted on the mounts they are on, and slow answers kept alive only while none of
 * these hangs. Before the first request; borrowed until the last one is over. */
struct rg_health;
void rg_gate_watch(struct rg_gate *gate, struct rg_health *health);

/* Bytes of requests with a token go by these. Before the first request; borrowed until the last one
 * is over. Without it, or with NULL, they are declined as with rdma off. */
struct rg_planes;
void rg_gate_set_planes(struct rg_gate *gate, struct rg_planes *planes);

/* No request may be in progress, stuck ones included. */
void rg_gate_free(struct rg_gate *gate);

/* The value of x-amz-id-2; the gate's. */
const char *rg_gate_host_id(const struct rg_gate *gate);

/* For struct rg_http_config; `context` is the struct rg_gate. */
void rg_dispatch(struct rg_http_request *request, void *context);
void rg_dispatch_busy(struct rg_http_request *request, void *context);
void rg_dispatch_hung(struct rg_http_request *request, void *context);
void rg_dispatch_refused(struct rg_http_request *request, void *context);

/* The request is over, but its handler still runs (rg_http_given_up): it counts as such from now
 * on. */
void rg_dispatch_given_up(struct rg_http_request *request);

/*
 * What a request was and what became of it. Static strings, or copies: valid by themselves, so that
 * the done handler may read it while a stuck worker still runs.
 */
struct rg_outcome {
    const char *operation;     /* "GetObject"; "Unknown" when it was not understood */
    const char *log_operation; /* "REST.GET.OBJECT", as server access logs have it */
    char bucket[64];           /* empty: none */
    char key[1025];            /* decoded, NUL-terminated; empty: none */
    char access_key[129];      /* as claimed; empty when anonymous */
    char requester[65];        /* canonical id; empty unless authenticated */
    const char *auth_type;     /* "AuthHeader", "QueryString", or "-" */
    enum rg_code failure;      /* RG_OK: none */
    int os_errno;
    char message[RG_ERROR_MESSAGE_MAX]; /* why it failed, for our own log; empty: no failure */
    char path[96];         /* how object bytes went: "http:no-token"; empty: no bytes asked for */
    int64_t object_size;   /* -1: not known */
    uint64_t copied_bytes; /* moved inside the store by Copy and Complete */
    uint64_t moved_bytes;  /* of the object, by RDMA */
};

/* Fills *ret_outcome; false (and an outcome of "Unknown") when the request was never dispatched. */
bool rg_dispatch_outcome(const struct rg_http_request *request, struct rg_outcome *ret_outcome);

#endif
