/*
 * One HTTP exchange over libcurl: sends a request, catches the fields of the answer that the client
 * looks at, hands the body on. No type of libcurl leaves http.c, and nothing here knows of S3: no
 * signatures, no retries, no judgement on the status.
 */
#ifndef RG_CLIENT_HTTP_H
#define RG_CLIENT_HTTP_H

#include "base/buf.h"
#include "base/span.h"
#include "s3/header.h"

#include <railgate/railgate.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of an answer that are kept; others are dropped. */
#define RG_ANSWER_FIELDS(X)                                                                        \
    X(ETAG, "etag")                                                                                \
    X(CONTENT_LENGTH, "content-length")                                                            \
    X(CONTENT_RANGE, "content-range")                                                              \
    X(CONTENT_TYPE, "content-type")                                                                \
    X(LAST_MODIFIED, "last-modified")                                                              \
    X(REQUEST_ID, "x-amz-request-id")                                                              \
    X(LOCATION, "location")                                                                        \
    X(RETRY_AFTER, "retry-after")                                                                  \
    X(SERVER, "server")                                                                            \
    X(CRC64, "x-amz-checksum-crc64nvme")                                                           \
    X(CHECKSUM_TYPE, "x-amz-checksum-type")                                                        \
    X(PATH, "x-railgate-path")                                                                     \
    X(REPLY, "x-amz-rdma-reply")                                                                   \
    X(RDMA_BYTES, "x-amz-rdma-bytes-transferred")                                                  \
    X(RDMA_SESSION, "x-amz-rdma-session")                                                          \
    X(RDMA_PSN, "x-amz-rdma-psn")                                                                  \
    X(RDMA_PROTOCOL, "x-amz-rdma-protocol")                                                        \
    X(RDMA_COOKIE, "x-amz-rdma-cookie")                                                            \
    X(RDMA_MR_ADDR, "x-amz-rdma-mr-addr")                                                          \
    X(RDMA_MR_RKEY, "x-amz-rdma-mr-rkey")                                                          \
    X(RDMA_CHECKSUM, "x-amz-rdma-checksum")                                                        \
    X(RDMA_CRC64, "x-amz-rdma-checksum-crc64nvme")                                                 \
    X(RDMA_MTU, "x-railgate-mtu")                                                                  \
    X(MISSING_META, "x-amz-missing-meta")                                                          \
    X(TAG_COUNT, "x-amz-tagging-count")

enum rg_answer_field {
#define RG_FIELD(identifier, name) RG_ANSWER_##identifier,
    RG_ANSWER_FIELDS(RG_FIELD)
#undef RG_FIELD
        RG_ANSWER_FIELD_COUNT
};

#define RG_ANSWER_VALUE_MAX 255u
/* Bodies that are kept: errors and XML documents (a listing of 1000 keys of 1024 bytes, encoded).
 */
#define RG_ANSWER_BODY_MAX (8u << 20)

/* All lines of an answer's head together, those of 100 Continue included. */
#define RG_ANSWER_HEAD_MAX (256u << 10)

struct rg_http_answer {
    int status; /* 0: none came */
    bool has[RG_ANSWER_FIELD_COUNT];
    bool twice[RG_ANSWER_FIELD_COUNT]; /* came more than once, or was too long: not to be trusted */
    char value[RG_ANSWER_FIELD_COUNT][RG_ANSWER_VALUE_MAX + 1];
    bool sent;          /* a connection was there: the server may have seen the request */
    struct rg_buf body; /* unless a sink took it */
    /* Borrowed; NULL: not kept. What a copy of the object must say of itself too (user metadata,
     * content type and the like): names and values, each with a NUL behind it. */
    struct rg_buf *traits;
};

#define RG_HTTP_ANSWER_INIT                                                                        \
    {                                                                                              \
        .body = RG_BUF_INIT(RG_ANSWER_BODY_MAX)                                                    \
    }

void rg_http_answer_free(struct rg_http_answer *answer);

/* Forgets everything, keeps the memory, and where the traits go. */
void rg_http_answer_clear(struct rg_http_answer *answer);

/* Takes one line of an answer's head, with or without its end: a status line begins a new answer,
 * fields are kept or dropped. Pure; whatever a server sends may come. */
void rg_http_answer_take_line(struct rg_http_answer *answer, struct span line);

/* The value of a field; empty when it is not there. */
struct span rg_http_field(const struct rg_http_answer *answer, enum rg_answer_field field);

/* Where a request's body comes from. */
struct rg_http_source {
    uint64_t length;
    const void *bytes; /* NULL: `copy` is asked */
    /* Copies [offset, offset + length) to `to`; less than 0 on failure. */
    int (*copy)(void *context, uint64_t offset, void *to, size_t length);
    void *context;
};

/*
 * Where the body of a successful answer (2xx) goes; all others go to answer->body. `begin` is
 * called once for each such answer, when the fields are known: before the first byte, or at the
 * end with `is_empty` when there was none. Less than 0 from any ends the exchange with
 * -RG_STATUS_CANCELLED, and the caller knows why.
 */
struct rg_http_sink {
    int (*begin)(void *context, const struct rg_http_answer *answer, bool is_empty);
    int (*take)(void *context, const void *bytes, size_t length);
    void *context;
};

struct rg_http_request {
    const char *method;              /* upper case */
    const char *url;                 /* encoded, sent as it is */
    const struct rg_header *headers; /* all of them, Host and Authorization included */
    size_t header_count;
    bool has_body;                                /* a Content-Length is sent, also when it is 0 */
    const struct rg_http_source *source;          /* NULL: no bytes */
    const struct rg_http_sink *sink;              /* NULL: answer->body */
    bool once;                                    /* never sent a second time, whatever happens */
    const atomic_bool *cancel;                    /* may be NULL */
    void (*moved)(void *context, uint64_t bytes); /* of either body, so far; may be NULL */
    void *moved_context;
};

struct rg_http_options {
    const char *ca_file; /* may be NULL */
    uint32_t connect_timeout_ms;
    uint32_t idle_timeout_ms; /* without a byte moving, either way */
};

/* Connections, kept alive between exchanges. */
struct rg_http_pool;

int rg_http_pool_open(const struct rg_http_options *options, struct rg_http_pool **ret_pool,
                      struct rg_failure *failure);
void rg_http_pool_close(struct rg_http_pool *pool);

/*
 * 0 when a whole answer came, whatever its status. Failures: RG_STATUS_CONNECT (no connection, or
 * it broke: answer->sent tells), RG_STATUS_TIMEOUT, RG_STATUS_CANCELLED (*cancel, or the sink or
 * the source said no), RG_STATUS_MEMORY, RG_STATUS_USAGE (ca_file). What was caught before a
 * failure stays in *answer.
 */
int rg_http_exchange(struct rg_http_pool *pool, const struct rg_http_request *request,
                     struct rg_http_answer *answer, struct rg_failure *failure);

#endif
