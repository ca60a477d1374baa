/*
 * One request and its answer, between the two threads that share it: the connection's, which moves
 * the bytes, and the worker's, which runs the handler. Each holds a reference; either may let go
 * first. The functions of http.h that a handler calls are in exchange.c; those below are the
 * connection's side.
 *
 * Nothing of the HTTP library is known here: http.c is the only one to call it.
 */
#ifndef RG_GATE_EXCHANGE_H
#define RG_GATE_EXCHANGE_H

#include "base/buf.h"
#include "gate/event.h"
#include "gate/head.h"
#include "gate/http.h"
#include "gate/ring.h"

#include <pthread.h>

/* A body of known length up to this is read whole before a worker is asked for. */
#define RG_EXCHANGE_SMALL_BODY (64u << 10)

struct rg_reply_field {
    uint32_t name;
    uint32_t value; /* places in `text` */
};

struct rg_reply {
    enum { RG_REPLY_NONE, RG_REPLY_BYTES, RG_REPLY_HEAD, RG_REPLY_FILE, RG_REPLY_STREAM } kind;
    int status;
    bool close;   /* the connection, afterwards */
    bool starved; /* memory was wanting: the answer is one that needs none */
    struct rg_buf text;
    struct rg_reply_field *fields;
    size_t field_count;
    size_t field_room;
    struct rg_buf body; /* BYTES */
    int64_t length;     /* HEAD: -1 none */
    int fd;             /* FILE: owned, -1 once taken */
    uint64_t offset;
    uint64_t file_length;
};

/* What a handler holds: the worker and the connection answer through one of their own, because both
 * may be at it at the same time. */
struct rg_http_request {
    struct rg_exchange *exchange;
    bool of_worker;
    struct rg_reply answer;
};

struct rg_exchange {
    struct rg_http_request worker;
    struct rg_http_request connection;
    _Atomic unsigned references;

    /* Written before a worker is asked for, then only read. */
    struct rg_head head;
    void *server;
    char id[17];
    char peer[64];
    char local[64];
    bool is_tls;
    const char *tls_version;
    const char *tls_cipher;
    unsigned handler_timeout_ms;
    uint64_t started_ns;

    struct rg_event to_worker;
    struct rg_event to_connection;

    pthread_mutex_t lock; /* guards all below */
    struct rg_ring body;
    size_t borrowed;     /* bytes of the body that the worker still looks at */
    bool body_ended;     /* all of it is in the ring */
    bool body_wanted;    /* the worker has asked for it */
    bool body_closed;    /* the worker will not read any more of it */
    enum rg_code broken; /* why no more of it comes; RG_OK: it does */
    bool worker_waits;   /* for bytes, or for room in the stream */
    bool connection_waits;
    bool dispatched;
    bool runs_here; /* the handler runs on the connection's thread */
    bool returned;  /* the handler has */
    bool given_up;  /* the connection has turned away from the worker */
    bool aborted;   /* the server is being stopped */
    bool answered;  /* worker.answer is complete */
    struct rg_ring stream;
    bool stream_ended;
    bool peer_gone;
    unsigned keepalive_ms;
    uint64_t progress_ns; /* when the worker last did something */
    uint64_t held_ns;     /* until then it is not given up; 0: not held */
    bool hung;            /* it did nothing for handler_timeout_ms, and is about to be given up */
    void *user;
    void (*release_user)(void *user);
};

/* One reference, the connection's. NULL when out of memory. */
struct rg_exchange *rg_exchange_new(void);

void rg_exchange_unref(struct rg_exchange *exchange);

/* Whether the connection holds the only reference: then it may be reset and used again. */
bool rg_exchange_is_sole(struct rg_exchange *exchange);
void rg_exchange_reset(struct rg_exchange *exchange);

/* Takes the worker's reference, before the request is handed over. */
void rg_exchange_dispatch(struct rg_exchange *exchange);

/* Undoes it, when no worker was to be had. */
void rg_exchange_undispatch(struct rg_exchange *exchange);

/* The handler is about to run on the connection's thread, which needs no second reference. */
void rg_exchange_run_here(struct rg_exchange *exchange);

/* From another thread: whether it does, and has done nothing for handler_timeout_ms. */
bool rg_exchange_hangs_here(struct rg_exchange *exchange);

/* The worker's last acts: the handler has returned (true: to a request that was given up) ... */
bool rg_exchange_returned(struct rg_exchange *exchange);

/* ... and the connection may know. Drops the worker's reference. */
void rg_exchange_finish(struct rg_exchange *exchange);

enum rg_await {
    RG_AWAIT_READY,
    RG_AWAIT_HUNG,    /* the worker did nothing for handler_timeout_ms */
    RG_AWAIT_ABORTED, /* the server is being stopped */
};

/* Until the worker asks for the body, answers or begins a stream. */
enum rg_await rg_exchange_await_decision(struct rg_exchange *exchange);

/* Until there is an answer to send: the handler returned, or began a stream. */
enum rg_await rg_exchange_await_answer(struct rg_exchange *exchange);

/* Until the handler returned. */
enum rg_await rg_exchange_await_return(struct rg_exchange *exchange);

/* Whether bytes of the body still find a reader. */
bool rg_exchange_wants_body(struct rg_exchange *exchange);

/* Hands over bytes of the body, waiting for room. READY also when the worker wants no more; then
 * *ret_taken is less than `len`. */
enum rg_await rg_exchange_put_body(struct rg_exchange *exchange, const char *bytes, size_t len,
                                   size_t *ret_taken);
void rg_exchange_end_body(struct rg_exchange *exchange);

/* No more of the body comes, and nobody takes the answer: RG_INCOMPLETE_BODY, RG_REQUEST_TIMEOUT.
 */
void rg_exchange_break(struct rg_exchange *exchange, enum rg_code why);

/*
 * Turns away from the worker. False when its handler has returned meanwhile. *ret_answered: its
 * answer is complete and may be sent (and its stream is not begun).
 */
bool rg_exchange_give_up(struct rg_exchange *exchange, bool *ret_answered);

/* From another thread: whether what the handler does must have ended before the connection does. */
bool rg_exchange_is_held(struct rg_exchange *exchange);

/* From another thread: ends every wait of the connection with ABORTED. Nothing is held anew. */
void rg_exchange_abort(struct rg_exchange *exchange);

enum rg_stream { RG_STREAM_BYTES, RG_STREAM_END, RG_STREAM_BROKEN, RG_STREAM_HUNG };

/* The next bytes of the stream, or a space to keep it alive. Waits for them. */
enum rg_stream rg_exchange_take_stream(struct rg_exchange *exchange, char *bytes, size_t room,
                                       size_t *ret_len);

/* For a handler that hangs after the end of its stream. */
bool rg_exchange_stream_is_whole(struct rg_exchange *exchange);

/* The body of an answer that has its bytes in memory. */
struct span rg_reply_body(const struct rg_reply *answer);

/* The fields of an answer, in order. */
bool rg_reply_field_at(const struct rg_reply *answer, size_t i, const char **ret_name,
                       const char **ret_value);

#endif
