/*
 * S3 requests: builds URL and header fields, signs, sends, judges the answer, and repeats what may
 * be repeated.
 */
#ifndef RG_CLIENT_REQUEST_H
#define RG_CLIENT_REQUEST_H

#include "client/client.h"
#include "client/http.h"

#include "base/buf.h"
#include "s3/header.h"

#define RG_REQUEST_HEADERS_MAX 96u
#define RG_REQUEST_TEXT_MAX    (64u << 10)

/* What may be done again after a failure that leaves open whether the server acted. */
enum rg_repeat {
    RG_REPEAT_ALWAYS,  /* reading, or writing the same again */
    RG_REPEAT_REFUSED, /* only when the server cannot have acted: no connection, 503 */
};

struct rg_request {
    const char *method;
    const char *bucket; /* NULL: the service */
    const char *key;    /* NULL: the bucket */
    const char *query;  /* encoded, without '?'; NULL: none */
    const char *what;   /* for messages: "PUT s3://bucket/key" comes from it; NULL: the method */
    enum rg_repeat repeat;
    bool once;     /* libcurl, too, sends it only once: a window serves one request */
    bool is_write; /* a failure may have taken effect */
    bool has_body;
    const struct rg_http_source *source;
    struct span payload; /* bytes whose SHA-256 is signed; ptr NULL: UNSIGNED-PAYLOAD */
    const struct rg_http_sink *sink;
    const atomic_bool *cancel;
    void (*moved)(void *context, uint64_t bytes);
    void *moved_context;

    struct rg_header headers[RG_REQUEST_HEADERS_MAX]; /* beside host, date, payload hash */
    size_t header_count;
    struct rg_buf text;                  /* what rg_request_header copied */
    bool failed;                         /* a header was not valid or did not fit */
    char *names[RG_REQUEST_HEADERS_MAX]; /* of metadata, owned */
    size_t name_count;
};

#define RG_REQUEST_INIT                                                                            \
    {                                                                                              \
        .text = RG_BUF_INIT(RG_REQUEST_TEXT_MAX)                                                   \
    }

void rg_request_free(struct rg_request *call);

/* Adds a field; the value is copied. Values with control characters make the call fail with
 * RG_STATUS_USAGE when it is sent. `name` is borrowed, lower case. */
void rg_request_header(struct rg_request *call, const char *name, const char *value);
void rg_request_headerf(struct rg_request *call, const char *name, const char *format, ...)
    RG_PRINTF(3, 4);

/* Adds name, value, name, value ..., NULL as x-amz-meta-* fields, copied; NULL is allowed. */
void rg_request_metadata(struct rg_request *call, const char *const *metadata);

/* Adds the first `count` fields of another request, but for one of the name `but`. */
void rg_request_headers_copy(struct rg_request *to, const struct rg_request *from, size_t count,
                             const char *but);

/* Forgets fields beyond the first `count`, to build others for the next attempt. */
void rg_request_headers_cut(struct rg_request *call, size_t count);

/*
 * One attempt. 0 when an answer came, whatever its status; *answer then holds it. On failure
 * failure->uncertain is raised when the request is a write that the server may have seen whole.
 */
int rg_request_send(struct rg_client *client, const struct rg_request *call,
                    struct rg_http_answer *answer, struct rg_failure *failure);

/* Turns an answer that is no 2xx into a failure; 0 for a 2xx. */
int rg_request_judge(const struct rg_request *call, const struct rg_http_answer *answer,
                     struct rg_failure *failure);

/* Send and judge, again as call->repeat and the client's retries allow. */
int rg_request_run(struct rg_client *client, const struct rg_request *call,
                   struct rg_http_answer *answer, struct rg_failure *failure);

/* Whether a failure is one that may pass by itself, and the request may be sent again. */
bool rg_request_may_repeat(const struct rg_request *call, const struct rg_http_answer *answer,
                           const struct rg_failure *failure);

/* Sleeps before attempt number `attempt` (1: the first repetition); false when cancelled. */
bool rg_request_back_off(const struct rg_request *call, const struct rg_http_answer *answer,
                         unsigned attempt);

/* Appends "&name=value", encoded, without the '&' when *query is empty. */
void rg_query_add(struct rg_buf *query, const char *name, const char *value);

/* The number of an x-railgate... or Content-Length field; false when it is none. */
bool rg_http_number(const struct rg_http_answer *answer, enum rg_answer_field field,
                    uint64_t *ret_number);

/* ETag without quotes; "" when there is none. */
void rg_http_etag(const struct rg_http_answer *answer, char etag[160]);

/* Last-Modified; 0 when there is none. */
time_t rg_http_modified(const struct rg_http_answer *answer);

/* The CRC64NVME of the whole object in base64, "" when the server gave none (a COMPOSITE one is
 * none). */
void rg_http_crc64(const struct rg_http_answer *answer, char text[32]);

/* "s3://bucket/key" for messages. */
void rg_request_name(const struct rg_request *call, char *text, size_t room);

#endif
