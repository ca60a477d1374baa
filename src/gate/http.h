/*
 * The HTTP server, behind which libmicrohttpd hides: no type of it appears outside http.c.
 *
 * Each connection has a thread that moves bytes. A request is handled on a worker thread, which
 * reads the body when it wants it and answers exactly once, in blocking straight-line code:
 *
 *   static void handle(struct rg_http_request *request, void *context)
 *   {
 *       char block[65536];
 *       size_t len;
 *       while (rg_http_body_read(request, block, sizeof block, &len, &err) == 0 && len) { ... }
 *       rg_http_header_set(request, "ETag", etag);
 *       rg_http_answer(request, 200, NULL, 0);
 *   }
 *
 * The connection's thread waits for the worker and sends the answer when the handler has returned
 * (a stream's at once). When a worker neither reads nor writes nor returns for
 * `handler_timeout_ms`, the connection answers 503 by itself (see `hung`), the worker goes on with
 * a request that nobody listens to (its calls fail with RG_CANCELLED), and is counted as stuck
 * until it returns. A stream that is kept alive is not given up while its client stays. Workers are
 * bounded; when all are taken a request gets `busy` on the connection's thread.
 *
 * Two changes of thread cost more than a small GET. With `reads_here`, GET and HEAD run on the
 * connection's own thread, and a thread of the server watches them: when one hangs it sends what
 * `hung` answers past the connection's thread and closes the connection. Such handlers cannot begin
 * a stream. They count against `workers_max` like the others.
 *
 * An answer that comes before the body was read is sent once the rest of the body has been thrown
 * away, up to `drain_max` bytes; beyond, it is sent at once and the connection closed.
 */
#ifndef RG_GATE_HTTP_H
#define RG_GATE_HTTP_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rg_http_server;
struct rg_http_request;

/* Must answer before it returns; if it does not, the connection answers 500. It must not call back
 * into the server that runs it (stop, reload). */
typedef void rg_http_handler(struct rg_http_request *request, void *context);

/*
 * Called (on the connection's thread, or on the one that watches) once a request is over, when its
 * bytes have been sent or given up: for log and metrics. The handler has returned, unless
 * rg_http_given_up.
 */
struct rg_http_done {
    int status;              /* 0 when the connection broke before an answer */
    uint64_t bytes_received; /* of the request body, as on the wire without chunk framing */
    uint64_t bytes_sent;     /* of the answer's body; when it broke off, what is known to have
                                arrived */
    uint64_t total_ns;       /* from the request line to the last byte */
    uint64_t handler_ns;     /* from the request line to the answer's head */
    bool sent_whole;
};
typedef void rg_http_done_handler(struct rg_http_request *request, const struct rg_http_done *done,
                                  void *context);

/* How many connections over the ceiling are accepted, so that they can be told. */
#define RG_HTTP_CONNECTIONS_OVER 16u

struct rg_http_config {
    const char *address;  /* empty: all, IPv4 and IPv6 */
    uint16_t port;        /* 0: the kernel chooses */
    const char *tls_cert; /* both empty: plain HTTP */
    const char *tls_key;
    unsigned connections_max; /* further ones, up to RG_HTTP_CONNECTIONS_OVER, get `busy` */
    unsigned workers_max;
    size_t connection_memory; /* bytes; a longer header section gets 431 or a closed connection */
    unsigned header_count_max;
    unsigned idle_timeout_ms; /* no byte moved in either direction; also the most that a request's
                                 head may take to arrive */
    unsigned handler_timeout_ms; /* the worker neither read, nor wrote, nor answered */
    uint64_t drain_max;          /* unread request body that is thrown away before an answer */
    bool reads_here;          /* GET and HEAD are handled on the connection's thread: see above */
    rg_http_handler *handler; /* on a worker, or see reads_here */
    rg_http_handler *busy; /* on the connection's thread: no worker free; must answer, not read */
    rg_http_handler *hung; /* on the connection's thread: handler_timeout passed; likewise */
    rg_http_handler *refused; /* on the connection's thread: malformed at the HTTP level, the reason
                                 is rg_http_refusal(); likewise */
    rg_http_done_handler *done; /* may be NULL */
    void *context;
};

struct rg_http_counters {
    unsigned connections; /* open now */
    unsigned requests;    /* in progress now, those given up not among them */
    unsigned workers;     /* threads now */
    unsigned stuck;       /* handlers whose request was given up and that have not returned */
    uint64_t accepted;
    uint64_t refused_connections; /* over connections_max, told so or closed at once */
    uint64_t idle_closed;         /* closed by idle_timeout_ms */
    uint64_t busy;
    uint64_t hung;
};

/* Listens and serves until rg_http_stop. Strings of `config` are copied. */
int rg_http_start(const struct rg_http_config *config, struct rg_http_server **ret_server,
                  struct rg_error *err);

uint16_t rg_http_port(const struct rg_http_server *server);
void rg_http_counters(struct rg_http_server *server, struct rg_http_counters *ret_counters);

/* Reads the certificate and key again; on failure the old ones stay in use. */
int rg_http_reload_tls(struct rg_http_server *server, struct rg_error *err);

/* Stops accepting and lets requests in progress finish for at most `timeout_ms`; for rg_http_stop
 * to follow. */
void rg_http_drain(struct rg_http_server *server, unsigned timeout_ms);

/*
 * Stops accepting, lets requests in progress finish for at most `timeout_ms`, closes everything and
 * frees the server. Does not wait for stuck workers. Returns how many requests were cut off, those
 * among them whose worker is still stuck: when it is 0, no handler runs any more and `context` may
 * be freed.
 */
unsigned rg_http_stop(struct rg_http_server *server, unsigned timeout_ms);

/* ---- The request: valid until the handler returns (for `done`: until that returns). ---- */

const char *rg_http_method(const struct rg_http_request *request);

/* Path and query as on the wire, still percent-encoded; the query without "?", empty when none. */
struct span rg_http_path(const struct rg_http_request *request);
struct span rg_http_query(const struct rg_http_request *request);
const char *rg_http_version(const struct rg_http_request *request);

/* The first field of that name (ASCII case-insensitive); false when absent. */
bool rg_http_header(const struct rg_http_request *request, const char *name,
                    struct span *ret_value);

/* All fields in order of arrival, duplicates kept: i from 0; false at the end. */
bool rg_http_header_at(const struct rg_http_request *request, size_t i, struct span *ret_name,
                       struct span *ret_value);

/* Content-Length; -1 when there is none (a chunked body, or no body: see has_body). */
int64_t rg_http_content_length(const struct rg_http_request *request);
bool rg_http_has_body(const struct rg_http_request *request);

/* 16 upper-case hex digits, unique; given to the client as x-amz-request-id and logged. */
const char *rg_http_request_id(const struct rg_http_request *request);

/* Numeric address of the peer, without port. */
const char *rg_http_peer(const struct rg_http_request *request);

/* Numeric address of ours to which the peer has connected; "" when it is not known. */
const char *rg_http_local(const struct rg_http_request *request);
bool rg_http_is_tls(const struct rg_http_request *request);

/* "TLSv1.3" and the name of the cipher suite; empty without TLS. */
const char *rg_http_tls_version(const struct rg_http_request *request);
const char *rg_http_tls_cipher(const struct rg_http_request *request);

/* Why the HTTP level refused it (for the `refused` handler). */
enum rg_code rg_http_refusal(const struct rg_http_request *request);
const char *rg_http_refusal_reason(const struct rg_http_request *request);

/*
 * A pointer that handler, busy, hung and done share; `release` is called when both done and handler
 * are over. Set at most once. In hung and done of a request that was given up, the handler still
 * runs: what the pointer leads to then needs a lock of its own.
 */
void rg_http_set_user(struct rg_http_request *request, void *user, void (*release)(void *user));
void *rg_http_user(const struct rg_http_request *request);

/* True when the connection has turned away from the worker: in hung and done, that the handler
 * still runs; in the handler, that its answer will reach nobody. */
bool rg_http_given_up(const struct rg_http_request *request);

/* When its first byte was there; monotonic, as rg_clock_ms. */
uint64_t rg_http_started_ms(const struct rg_http_request *request);

/*
 * For what must not go on once the request is answered, as bytes on their way to the client's
 * memory. Until `until_ms` (as rg_clock_ms), by which the handler will have ended it by itself, the
 * connection does not give the handler up, and rg_http_stop does not close it. False: that has
 * happened, or is about to: do not begin.
 * rg_http_release, from the same thread, ends it, and counts as a sign of life.
 */
bool rg_http_hold(struct rg_http_request *request, uint64_t until_ms);
void rg_http_release(struct rg_http_request *request);

/*
 * Reads the next bytes of the body (transfer coding removed, aws-chunked not). *ret_len is 0 at the
 * end. The first call lets a client that sent Expect: 100-continue go on, so a handler that answers
 * without reading never invites the body. RG_INCOMPLETE_BODY when the client broke off,
 * RG_REQUEST_TIMEOUT when it stopped sending, RG_CANCELLED when the request was given up.
 */
int rg_http_body_read(struct rg_http_request *request, void *buffer, size_t room, size_t *ret_len,
                      struct rg_error *err);

/* Bodies that are said to be as long as this, or longer, come in blocks of RG_HTTP_BLOCK bytes that
 * begin on a page. */
#define RG_HTTP_LARGE_BODY (2u << 20)
#define RG_HTTP_BLOCK      (1u << 20)
bool rg_http_body_in_blocks(const struct rg_http_request *request);

/* The same without a copy, and by whole blocks: *ret_bytes are less than one only at the end of the
 * body, empty behind it, and stay in place until the next call for this request. */
int rg_http_body_block(struct rg_http_request *request, struct span *ret_bytes,
                       struct rg_error *err);

/* ---- The answer ---- */

/* Adds a field to the answer. Must come before it. Content-Length, Transfer-Encoding, Connection
 * and Date are the server's. The value may not hold control bytes other than tab: such a field is
 * left out and false returned, as is one beyond 32 KiB in all. Where memory for a field is wanting,
 * the answer becomes that of rg_http_answer_starved. */
bool rg_http_header_set(struct rg_http_request *request, const char *name, const char *value);
void rg_http_header_setf(struct rg_http_request *request, const char *name, const char *format, ...)
    RG_PRINTF(3, 4);

/* Asks that the connection be closed after this answer. */
void rg_http_close_after(struct rg_http_request *request);

/* The whole answer; the bytes are copied. */
void rg_http_answer(struct rg_http_request *request, int status, const void *body, size_t len);

/* The answer that takes no memory: RG_OUT_OF_MEMORY as an S3 error, whatever was set before. */
void rg_http_answer_starved(struct rg_http_request *request);

/* The answer to HEAD (or 304): Content-Length `len` (-1: not known; 0 is sent then) and no body. */
void rg_http_answer_head(struct rg_http_request *request, int status, int64_t len);

/* `len` bytes of a file from `offset`, by sendfile where possible. Takes `fd` and closes it. A file
 * that ends early breaks the connection. */
void rg_http_answer_fd(struct rg_http_request *request, int status, int fd, uint64_t offset,
                       uint64_t len);

/* Up to this many bytes of an object are read into the answer, not sent from the file. */
#define RG_HTTP_SMALL_BYTES (32u << 10)

/* Room in the answer for `len` bytes, to be filled before rg_http_answer_filled sends them; NULL
 * when there is none. An answer of another kind takes its place. */
char *rg_http_answer_space(struct rg_http_request *request, size_t len);
void rg_http_answer_filled(struct rg_http_request *request, int status, size_t len);

/*
 * An answer of unknown length whose head is sent now. Until rg_http_stream_end the connection sends
 * a space each `keepalive_ms` (0: never) while nothing else is written: XML allows white space
 * between declaration and root, so what follows the root's first byte should be written in one go.
 * stream_write copies and blocks when the peer is slow; it fails with RG_DISCONNECTED or
 * RG_CANCELLED when nobody listens any more. A handler that returns without rg_http_stream_end
 * breaks the connection, so that the client does not take the part for the whole.
 */
int rg_http_stream_begin(struct rg_http_request *request, int status, unsigned keepalive_ms,
                         struct rg_error *err);
int rg_http_stream_write(struct rg_http_request *request, const void *bytes, size_t len,
                         struct rg_error *err);
void rg_http_stream_end(struct rg_http_request *request);

/* True once an answer was given or a stream begun. */
bool rg_http_answered(const struct rg_http_request *request);

#endif
