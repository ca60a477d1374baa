/*
 * The HTTP server over GNU libmicrohttpd: connections, the steps of a request as the library calls
 * them, answers, TLS, start and stop. No type of the library leaves this file. What connection and
 * worker share is in exchange.c; which heads are refused, in head.c.
 *
 * Facts of the library (0.9.75) that shape this file:
 *  - a response queued at the handler's first call closes the connection and leaves the body
 * unread; otherwise it can be queued only when the whole body has arrived;
 *  - returning from the first call without a response sends 100 Continue to a client that asked;
 *  - a thread that waits in the handler or in a content reader waits for us alone: a connection
 *    thread has nothing else to do;
 *  - its time-out spins through the last second before it strikes; ours is in connections.c.
 */
#include "gate/http.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/random.h"
#include "gate/certificate.h"
#include "gate/connections.h"
#include "gate/listener.h"
#include "gate/thread.h"
#include "gate/workers.h"

#include <errno.h>
#include <malloc.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_FACTOR 8u
#else
#define STACK_FACTOR 1u
#endif
#define CONNECTION_STACK ((512u << 10) * STACK_FACTOR)
#define WORKER_STACK     ((512u << 10) * STACK_FACTOR)

#define WORKER_IDLE_MS   10000
#define WORKER_END_MS    1000
#define TARGET_BYTES_MAX (1u << 20)
#define FILE_BLOCK       (128u << 10)
#define STREAM_BLOCK     (32u << 10)
#define TICK_MS_MIN      10u
#define TICK_MS_MAX      1000u

/* How long a connection that is closed with unread bytes on it stays open for the client to see
 * why. */
#define LINGER_MS 2000

/* How long rg_http_stop waits for threads that should end at once, but may be inside a file system.
 */
#define STOP_MS 5000

/* How long it waits, before that, for what handlers hold: longer than a lane is flushed. */
#define HELD_MS 2500

/* Between warnings about threads or descriptors that the system refuses. */
#define WARN_NS 10000000000u

/* From this size on, what the peer took of an answer that broke off is worth a system call. */
#define ACKED_BYTES_MIN (64u << 10)

/* Between times of giving memory back: while no request is in progress, and while there is. */
#define TRIM_IDLE_NS 5000000000u
#define TRIM_BUSY_NS 60000000000u

/* When memory was last given back. */
struct trimming {
    uint64_t requests; /* that there had been */
    uint64_t at_ns;
};

struct rg_http_server {
    struct rg_http_config config;
    char *address;
    struct MHD_Daemon *daemon;
    struct rg_workers *workers;
    struct rg_certificate *certificate;
    struct rg_connections connections;
    int listener;
    uint16_t port;
    bool strict_layout; /* the library lays a head out in memory as check_layout expects */
    uint64_t id_base;

    pthread_t watch_thread;
    bool watch_runs;
    struct rg_event watch_end;
    struct rg_event quiet; /* while draining: no request is in progress */
    struct rg_event stopped;
    _Atomic int stop_state;

    _Atomic unsigned references; /* the owner's, and one for each handler that runs */
    _Atomic bool draining;
    _Atomic bool ending;
    _Atomic uint64_t id_count;
    _Atomic unsigned requests;
    _Atomic unsigned handlers; /* that run now, on whatever thread */
    _Atomic int stuck;
    _Atomic uint64_t accepted;
    _Atomic uint64_t refused_connections;
    _Atomic uint64_t idle_closed;
    _Atomic uint64_t busy;
    _Atomic uint64_t hung;
    _Atomic uint64_t warned_ns;
};

static void unref_server(struct rg_http_server *server)
{
    if (atomic_fetch_sub(&server->references, 1) > 1) {
        return;
    }
    if (server->certificate) {
        rg_certificate_close(server->certificate);
    }
    rg_connections_destroy(&server->connections);
    rg_cleanup_close(&server->listener);
    free(server->address);
    free(server);
}

/* ---- The worker's part ---- */

static void run_handler(void *argument)
{
    struct rg_exchange *exchange = argument;
    struct rg_http_server *server = exchange->server;
    rg_log_set_request(exchange->id);
    server->config.handler(&exchange->worker, server->config.context);
    rg_log_set_request(NULL);
    if (rg_exchange_returned(exchange)) {
        atomic_fetch_sub(&server->stuck, 1);
    }
}

static void finish_handler(void *argument)
{
    struct rg_exchange *exchange = argument;
    struct rg_http_server *server = exchange->server;
    atomic_fetch_sub(&server->handlers, 1);
    rg_exchange_finish(exchange);
    unref_server(server);
}

/* ---- Answers ---- */

static void run_here(struct rg_connection *connection, rg_http_handler *handler)
{
    struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    rg_log_set_request(exchange->id);
    handler(&exchange->connection, server->config.context);
    rg_log_set_request(NULL);
    connection->answer = &exchange->connection.answer;
}

/* Turns away from a worker that hangs; then the answer is known. */
static void turn_away(struct rg_connection *connection)
{
    struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    bool answered;
    atomic_fetch_add(&server->stuck, 1);
    if (!rg_exchange_give_up(exchange, &answered)) {
        atomic_fetch_sub(&server->stuck, 1);
        connection->answer = &exchange->worker.answer;
        return;
    }
    atomic_fetch_add(&server->hung, 1);
    if (answered) {
        connection->answer = &exchange->worker.answer;
        return;
    }
    run_here(connection, server->config.hung);
}

/* False when the server is being stopped. */
static bool take_decision(struct rg_connection *connection, enum rg_await awaited)
{
    if (awaited == RG_AWAIT_READY) {
        connection->answer = &connection->exchange->worker.answer;
    } else if (awaited == RG_AWAIT_HUNG) {
        turn_away(connection);
    }
    return awaited != RG_AWAIT_ABORTED;
}

/* Waits for the worker's answer, unless there is one already. */
static bool settle_answer(struct rg_connection *connection)
{
    if (connection->answer) {
        return true;
    }
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_WORKER);
    enum rg_await awaited = rg_exchange_await_answer(connection->exchange);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_CLIENT);
    return take_decision(connection, awaited);
}

static ssize_t read_nothing(void *context, uint64_t position, char *buffer, size_t room)
{
    (void)context;
    (void)position;
    (void)buffer;
    (void)room;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t room)
{
    (void)position;
    struct rg_connection *connection = context;
    size_t len = 0;
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_WORKER);
    enum rg_stream state = rg_exchange_take_stream(connection->exchange, buffer, room, &len);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_CLIENT);
    if (state == RG_STREAM_HUNG) {
        bool whole = rg_exchange_stream_is_whole(connection->exchange);
        turn_away(connection);
        connection->answer = &connection->exchange->worker.answer;
        state = whole ? RG_STREAM_END : RG_STREAM_BROKEN;
    }
    if (state != RG_STREAM_BYTES) {
        return state == RG_STREAM_END ? MHD_CONTENT_READER_END_OF_STREAM
                                      : MHD_CONTENT_READER_END_WITH_ERROR;
    }
    connection->streamed += len;
    return (ssize_t)len;
}

/* Below TLS there is no sendfile, and the library would read 4 KiB at a time. */
struct file_reader {
    int fd;
    uint64_t offset;
};

static ssize_t read_file(void *context, uint64_t position, char *buffer, size_t room)
{
    const struct file_reader *reader = context;
    ssize_t got;
    do {
        got = pread(reader->fd, buffer, room, (off_t)(reader->offset + position));
    } while (got < 0 && errno == EINTR);
    return got > 0 ? got : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void free_file_reader(void *context)
{
    struct file_reader *reader = context;
    close(reader->fd);
    free(reader);
}

static struct MHD_Response *file_response(const struct rg_connection *connection)
{
    struct rg_reply *answer = connection->answer;
    rg_autoclose int fd = RG_TAKE_FD(answer->fd);
    struct MHD_Response *response = NULL;
    if (!connection->is_tls) {
        response = MHD_create_response_from_fd_at_offset64(answer->file_length, fd, answer->offset);
    } else {
        rg_autofree struct file_reader *reader = malloc(sizeof *reader);
        if (reader) {
            *reader = (struct file_reader){.fd = fd, .offset = answer->offset};
            response = MHD_create_response_from_callback(answer->file_length, FILE_BLOCK, read_file,
                                                         reader, free_file_reader);
        }
        if (response) {
            RG_TAKE(reader);
        }
    }
    if (response) {
        RG_TAKE_FD(fd);
    }
    return response;
}

/* Content-Length without a body. The library can leave Content-Length out only by closing the
 * connection, or by chunks that it then really sends: 0 does less harm. */
static struct MHD_Response *head_response(const struct rg_reply *answer)
{
    if (answer->length <= 0) {
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    }
    return MHD_create_response_from_callback((uint64_t)answer->length, 1, read_nothing, NULL, NULL);
}

static struct MHD_Response *make_response(struct rg_connection *connection)
{
    struct rg_reply *answer = connection->answer;
    switch (answer->kind) {
    case RG_REPLY_HEAD:
        return head_response(answer);
    case RG_REPLY_FILE:
        return file_response(connection);
    case RG_REPLY_STREAM:
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream,
                                                 connection, NULL);
    case RG_REPLY_NONE:
    case RG_REPLY_BYTES:
        break;
    }
    /* The bytes stay where they are until the request is over. */
    struct span body = rg_reply_body(answer);
    return MHD_create_response_from_buffer(body.len, (void *)(uintptr_t)body.ptr,
                                           MHD_RESPMEM_PERSISTENT);
}

static bool add_fields(const struct rg_connection *connection, struct MHD_Response *response)
{
    const struct rg_http_server *server = connection->server;
    const struct rg_reply *answer = connection->answer;
    const char *name;
    const char *value;
    for (size_t i = 0; rg_reply_field_at(answer, i, &name, &value); i++) {
        /* The library refuses empty values, which HTTP allows but nobody needs. */
        if (value[0] && MHD_add_response_header(response, name, value) != MHD_YES) {
            rg_log_error("http.header", "a header field could not be sent",
                         RG_FIELD_TEXT("name", name));
            return false;
        }
    }
    bool close = answer->close || atomic_load(&server->draining);
    return !close || MHD_add_response_header(response, "Connection", "close") == MHD_YES;
}

/* A handler that returned without an answer has an error that nobody reported. */
static void check_answered(struct rg_connection *connection)
{
    if (connection->answer->kind == RG_REPLY_NONE) {
        rg_log_error("http.unanswered", "a handler returned without an answer",
                     RG_FIELD_TEXT("request", connection->exchange->id));
        connection->answer->status = rg_code_http_status(RG_INTERNAL_ERROR);
        connection->answer->field_count = 0;
    }
}

static bool is_large(const struct rg_reply *answer)
{
    return (answer->kind == RG_REPLY_FILE && answer->file_length >= ACKED_BYTES_MIN) ||
           rg_reply_body(answer).len >= ACKED_BYTES_MIN;
}

static enum MHD_Result send_answer(struct rg_connection *connection, struct MHD_Connection *wire)
{
    check_answered(connection);
    connection->step = RG_STEP_ANSWERED;
    connection->answered_ns = rg_clock_ns();
    connection->acked = is_large(connection->answer) ? rg_connection_acked(connection) : 0;
    struct MHD_Response *response = make_response(connection);
    if (!response) {
        return MHD_NO;
    }
    enum MHD_Result queued = MHD_NO;
    if (add_fields(connection, response)) {
        connection->queued = true;
        queued = MHD_queue_response(wire, (unsigned)connection->answer->status, response);
        connection->queued = queued == MHD_YES;
    }
    MHD_destroy_response(response);
    return queued;
}

/* Answers at the first call: the body stays unread and the connection is closed afterwards. */
static enum MHD_Result send_early(struct rg_connection *connection, struct MHD_Connection *wire)
{
    connection->early = true;
    return send_answer(connection, wire);
}

/* ---- An answer that the library does not let us send: in the middle of a long body ---- */

static bool wait_writable(int fd, uint64_t deadline_ns)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    uint64_t now_ns = rg_clock_ns();
    int left_ms = now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / 1000000u) + 1 : 0;
    return left_ms > 0 && poll(&writable, 1, left_ms) > 0;
}

static ssize_t send_some(const struct rg_connection *connection, struct span bytes)
{
    if (!connection->is_tls) {
        return send(connection->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ssize_t sent = gnutls_record_send(connection->tls_session, bytes.ptr, bytes.len);
    errno = sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED ? EAGAIN : EIO;
    return sent;
}

static bool send_all(const struct rg_connection *connection, struct span bytes, unsigned wait_ms)
{
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)wait_ms * 1000000u;
    while (bytes.len > 0) {
        ssize_t sent = send_some(connection, bytes);
        if (sent > 0) {
            bytes = rg_span_skip(bytes, (size_t)sent);
        } else if ((errno != EAGAIN && errno != EINTR) ||
                   !wait_writable(connection->fd, deadline_ns)) {
            return false;
        }
    }
    return true;
}

static void format_raw(const struct rg_reply *answer, bool with_body, struct rg_buf *ret_text)
{
    struct timespec now = rg_clock_wall();
    struct tm utc;
    char date[64] = "";
    gmtime_r(&now.tv_sec, &utc);
    /* The process runs in the C locale. */
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    const char *reason = MHD_get_reason_phrase_for((unsigned)answer->status);
    rg_buf_addf(ret_text, "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n", answer->status,
                reason ? reason : "Unknown", date);
    const char *name;
    const char *value;
    for (size_t i = 0; rg_reply_field_at(answer, i, &name, &value); i++) {
        rg_buf_addf(ret_text, "%s: %s\r\n", name, value);
    }
    uint64_t head_length = answer->length > 0 ? (uint64_t)answer->length : 0;
    uint64_t length = answer->kind == RG_REPLY_HEAD ? head_length : rg_reply_body(answer).len;
    rg_buf_addf(ret_text, "Content-Length: %" PRIu64 "\r\n\r\n", length);
    if (with_body && answer->kind == RG_REPLY_BYTES) {
        rg_buf_add_span(ret_text, rg_reply_body(answer));
    }
}

/* Sends the answer past the library, if it is of a simple kind. The connection can only be closed
 * then. */
static void send_raw(struct rg_connection *connection, unsigned wait_ms)
{
    const struct rg_reply *answer = connection->answer;
    bool with_body = strcmp(rg_head_method(&connection->exchange->head), "HEAD") != 0;
    bool simple = answer->kind != RG_REPLY_FILE && answer->kind != RG_REPLY_STREAM;
    RG_BUF(text, rg_reply_body(answer).len + (64u << 10));
    if (simple) {
        format_raw(answer, with_body, &text);
    }
    connection->answered_ns = rg_clock_ns();
    connection->step = RG_STEP_ANSWERED;
    connection->raw_sent =
        simple && rg_buf_ok(&text) && send_all(connection, rg_buf_span(&text), wait_ms);
}

/* The body is too long to be thrown away. */
static enum MHD_Result answer_raw(struct rg_connection *connection)
{
    if (!settle_answer(connection)) {
        return MHD_NO;
    }
    check_answered(connection);
    connection->early = true;
    send_raw(connection, LINGER_MS);
    return MHD_NO;
}

/*
 * A socket that is closed with unread bytes in it resets the connection, and the answer on its way
 * is lost. So what the client still sends is read for a while.
 */
static void linger(const struct rg_connection *connection)
{
    const struct rg_http_server *server = connection->server;
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)LINGER_MS * 1000000u;
    uint64_t left = server->config.drain_max + (1u << 20);
    char waste[16384];
    if (!connection->is_tls) {
        shutdown(connection->fd, SHUT_WR);
    }
    while (!atomic_load(&server->ending)) {
        uint64_t now_ns = rg_clock_ns();
        struct pollfd readable = {.fd = connection->fd, .events = POLLIN};
        if (now_ns >= deadline_ns ||
            poll(&readable, 1, (int)((deadline_ns - now_ns) / 1000000u) + 1) <= 0) {
            return;
        }
        ssize_t got = recv(connection->fd, waste, sizeof waste, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
            return;
        }
        if (got > 0 && (uint64_t)got >= left) {
            return;
        }
        left -= got > 0 ? (uint64_t)got : 0;
    }
}

/* ---- The steps of a request ---- */

/* Unique within the process and, by the random start, between processes: a bijection of a counter
 * (the finalizer of splitmix64). */
static void make_id(struct rg_http_server *server, char id[17])
{
    uint64_t value = server->id_base + atomic_fetch_add(&server->id_count, 1);
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    value ^= value >> 31;
    for (int i = 15; i >= 0; i--) {
        id[i] = "0123456789ABCDEF"[value & 15];
        value >>= 4;
    }
    id[16] = '\0';
}

static struct rg_connection *connection_of(struct MHD_Connection *wire)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(wire, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Names of the session's parameters, once a connection. They live for ever. */
static void note_tls(struct rg_connection *connection, struct MHD_Connection *wire)
{
    if (!connection->is_tls || connection->tls_version) {
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(wire, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info) {
        gnutls_session_t session = info->tls_session;
        bool new_version = gnutls_protocol_get_version(session) == GNUTLS_TLS1_3;
        connection->tls_version = new_version ? "TLSv1.3" : "TLSv1.2";
        connection->tls_cipher = gnutls_ciphersuite_get(session);
        connection->tls_session = session;
    }
}

/* The request line is there: what is returned becomes the request's context. NULL: refused. */
static void *meet_target(void *context, const char *target, struct MHD_Connection *wire)
{
    struct rg_http_server *server = context;
    struct rg_connection *connection = connection_of(wire);
    if (!connection) {
        return NULL;
    }
    struct rg_exchange *exchange =
        connection->spare ? RG_TAKE(connection->spare) : rg_exchange_new();
    if (!exchange) {
        return NULL;
    }
    if (atomic_load(&connection->cpu_clock) == 0) {
        clockid_t clock = 0;
        pthread_getcpuclockid(pthread_self(), &clock);
        atomic_store(&connection->cpu_clock, clock);
    }
    exchange->server = server;
    exchange->handler_timeout_ms = server->config.handler_timeout_ms;
    exchange->is_tls = connection->is_tls;
    note_tls(connection, wire);
    exchange->tls_version = connection->tls_version;
    exchange->tls_cipher = connection->tls_cipher;
    exchange->started_ns = rg_clock_ns();
    memcpy(exchange->peer, connection->peer, sizeof exchange->peer);
    memcpy(exchange->local, connection->local, sizeof exchange->local);
    make_id(server, exchange->id);
    rg_head_clear(&exchange->head, server->config.header_count_max);
    connection->target.max = TARGET_BYTES_MAX;
    rg_buf_clear(&connection->target);
    rg_buf_add_text(&connection->target, target);
    connection->step = RG_STEP_HEAD;
    connection->begun = false;
    connection->early = false;
    connection->queued = false;
    connection->raw_sent = false;
    connection->answer = NULL;
    connection->body_bytes = 0;
    connection->discarded = 0;
    connection->streamed = 0;
    connection->answered_ns = 0;
    rg_connection_set_exchange(connection, exchange);
    return connection;
}

/* Follows the fields of a head through the memory in which the library split it. */
struct layout {
    struct rg_head *head;
    const char *end; /* of what was seen so far */
    bool broken;
};

static enum MHD_Result meet_field(void *context, enum MHD_ValueKind kind, const char *name,
                                  size_t name_len, const char *value, size_t value_len)
{
    (void)kind;
    struct layout *layout = context;
    layout->broken = layout->broken || name != layout->end || value <= name + name_len;
    layout->end = value + value_len + 2;
    rg_head_add(layout->head, rg_span(name, name_len), rg_span(value, value_len));
    return MHD_YES;
}

/*
 * The library splits the head in place by writing NUL bytes, and ends strings at NUL: a NUL, a lone
 * LF or a folded line in the head would make it see something else than another parser saw. So its
 * pieces must lie one behind the other with exactly CR LF between them (RFC 9112,
 * sections 2.2, 5.2).
 */
static void meet_fields(const struct rg_http_server *server, struct rg_connection *connection,
                        struct MHD_Connection *wire, const char *method, const char *url,
                        const char *version)
{
    struct rg_head *head = &connection->exchange->head;
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(wire, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!rg_buf_ok(&connection->target)) {
        rg_head_refuse(head, RG_OUT_OF_MEMORY, "out of memory");
    }
    struct layout layout = {.head = head, .end = version + strlen(version) + 2};
    MHD_get_connection_values_n(wire, MHD_HEADER_KIND, meet_field, &layout);
    bool exact = url == method + strlen(method) + 1 &&
                 version == url + connection->target.len + 1 && !layout.broken && size &&
                 layout.end + 2 == method + size->header_size;
    if (server->strict_layout && !exact) {
        rg_head_refuse(head, RG_BAD_REQUEST,
                       "the head holds a NUL, a line that does not end in CR LF, or a folded line");
    }
    rg_head_finish(head, rg_span_text(method), rg_buf_span(&connection->target),
                   rg_span_text(version));
}

static void answer_busy(struct rg_connection *connection)
{
    struct rg_http_server *server = connection->server;
    atomic_fetch_add(&server->busy, 1);
    run_here(connection, server->config.busy);
}

/* One of workers_max places for handlers. */
static bool take_place(struct rg_http_server *server)
{
    if (atomic_fetch_add(&server->handlers, 1) < server->config.workers_max) {
        return true;
    }
    atomic_fetch_sub(&server->handlers, 1);
    return false;
}

/* False when no worker was to be had: the answer is known then. */
static bool dispatch(struct rg_connection *connection)
{
    struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    if (!take_place(server)) {
        answer_busy(connection);
        return false;
    }
    rg_exchange_dispatch(exchange);
    atomic_fetch_add(&server->references, 1);
    struct rg_job job = {run_handler, finish_handler, exchange};
    if (rg_workers_run(server->workers, job) == 0) {
        return true;
    }
    atomic_fetch_sub(&server->handlers, 1);
    unref_server(server);
    rg_exchange_undispatch(exchange);
    answer_busy(connection);
    return false;
}

static bool is_read(const struct rg_connection *connection)
{
    const char *method = rg_head_method(&connection->exchange->head);
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* Runs the handler on this thread. False when it was given up meanwhile: then it has been answered,
 * and reported, by the thread that watches. */
static bool handle_here(struct rg_connection *connection)
{
    struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    if (!take_place(server)) {
        answer_busy(connection);
        return true;
    }
    rg_exchange_run_here(exchange);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_WORKER);
    run_handler(exchange);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_CLIENT);
    atomic_fetch_sub(&server->handlers, 1);
    if (rg_http_given_up(&exchange->worker)) {
        /* Until the other thread has let go of the connection. */
        RG_MUST(pthread_mutex_lock(&connection->lock));
        RG_MUST(pthread_mutex_unlock(&connection->lock));
        return false;
    }
    connection->answer = &exchange->worker.answer;
    return true;
}

/* Whether the client should know the answer before it sends its body. */
static bool is_decided_first(const struct rg_connection *connection)
{
    const struct rg_http_server *server = connection->server;
    const struct rg_head *head = &connection->exchange->head;
    return head->expects_continue ||
           (head->content_length > 0 && (uint64_t)head->content_length > server->config.drain_max);
}

/* A body that a worker is to read as it comes. */
static enum MHD_Result begin_pass(struct rg_connection *connection, struct MHD_Connection *wire)
{
    struct rg_exchange *exchange = connection->exchange;
    bool first = is_decided_first(connection);
    const struct rg_head *head = &exchange->head;
    if (!head->chunked && head->content_length >= (int64_t)RG_HTTP_LARGE_BODY) {
        rg_ring_setup(&exchange->body, RG_RING_LARGE_BLOCK, RG_RING_LARGE_BLOCKS);
    } else {
        rg_ring_setup(&exchange->body, RG_RING_BLOCK, RG_RING_BLOCKS);
    }
    connection->step = RG_STEP_PASS;
    if (!dispatch(connection)) {
        connection->step = RG_STEP_DISCARD;
        return first ? send_early(connection, wire) : MHD_YES;
    }
    if (!first) {
        return MHD_YES;
    }
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_WORKER);
    enum rg_await awaited = rg_exchange_await_decision(exchange);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_CLIENT);
    if (awaited == RG_AWAIT_READY && rg_exchange_wants_body(exchange)) {
        return MHD_YES;
    }
    return take_decision(connection, awaited) ? send_early(connection, wire) : MHD_NO;
}

/* The head is there. */
static enum MHD_Result begin(struct rg_connection *connection, struct MHD_Connection *wire,
                             const char *method, const char *url, const char *version)
{
    struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    struct rg_head *head = &exchange->head;
    connection->begun = true;
    atomic_fetch_add(&server->requests, 1);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_CLIENT);
    meet_fields(server, connection, wire, method, url, version);
    if (head->refusal != RG_OK) {
        run_here(connection, server->config.refused);
        return send_early(connection, wire);
    }
    if (connection->is_over) {
        atomic_fetch_add(&server->busy, 1);
        run_here(connection, server->config.busy);
        return send_early(connection, wire);
    }
    bool small = !head->chunked && head->content_length <= RG_EXCHANGE_SMALL_BODY;
    if (head->has_body && (!small || head->expects_continue)) {
        return begin_pass(connection, wire);
    }
    if (head->has_body) {
        rg_ring_setup(&exchange->body, (size_t)head->content_length, 1);
    }
    connection->step = RG_STEP_COLLECT;
    return MHD_YES;
}

/* The worker has not begun: the ring is the connection's alone. */
static void collect(struct rg_connection *connection, const char *bytes, size_t len)
{
    struct rg_exchange *exchange = connection->exchange;
    size_t room;
    char *space = rg_ring_space(&exchange->body, &room);
    if (!space || room < len) {
        const struct rg_http_server *server = connection->server;
        connection->step = RG_STEP_DISCARD;
        run_here(connection, server->config.busy);
        return;
    }
    memcpy(space, bytes, len);
    rg_ring_put(&exchange->body, len);
}

/* False when the server is being stopped. */
static bool pass(struct rg_connection *connection, const char *bytes, size_t len)
{
    size_t taken;
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_WORKER);
    enum rg_await awaited = rg_exchange_put_body(connection->exchange, bytes, len, &taken);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_CLIENT);
    if (awaited == RG_AWAIT_HUNG) {
        turn_away(connection);
    }
    if (awaited == RG_AWAIT_READY && taken == len) {
        return true;
    }
    connection->step = RG_STEP_DISCARD;
    connection->discarded += len - taken;
    return awaited != RG_AWAIT_ABORTED;
}

static enum MHD_Result take_body(struct rg_connection *connection, const char *bytes, size_t len)
{
    const struct rg_http_server *server = connection->server;
    connection->body_bytes += len;
    switch (connection->step) {
    case RG_STEP_COLLECT:
        collect(connection, bytes, len);
        return MHD_YES;
    case RG_STEP_PASS:
        return pass(connection, bytes, len) ? MHD_YES : MHD_NO;
    case RG_STEP_DISCARD:
        connection->discarded += len;
        return connection->discarded > server->config.drain_max ? answer_raw(connection) : MHD_YES;
    case RG_STEP_HEAD:
    case RG_STEP_ANSWERED:
        break;
    }
    return MHD_NO;
}

/* The body is there. */
static enum MHD_Result finish(struct rg_connection *connection, struct MHD_Connection *wire)
{
    struct rg_exchange *exchange = connection->exchange;
    const struct rg_http_server *server = connection->server;
    if (connection->step == RG_STEP_COLLECT) {
        rg_exchange_end_body(exchange);
        if (server->config.reads_here && is_read(connection)) {
            if (!handle_here(connection)) {
                return MHD_NO;
            }
        } else {
            dispatch(connection);
        }
    } else if (connection->step == RG_STEP_PASS) {
        rg_exchange_end_body(exchange);
    }
    return settle_answer(connection) ? send_answer(connection, wire) : MHD_NO;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *wire, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_len, void **request)
{
    (void)context;
    struct rg_connection *connection = *request;
    if (!connection || !connection->exchange) {
        return MHD_NO;
    }
    if (connection->step == RG_STEP_HEAD) {
        return begin(connection, wire, method, url, version);
    }
    if (*body_len > 0) {
        size_t len = *body_len;
        *body_len = 0;
        return take_body(connection, body, len);
    }
    return finish(connection, wire);
}

/* ---- The end of a request ---- */

/* Leaves the worker nothing to wait for, and waits for it so that `done` sees what it did. */
static void part(struct rg_connection *connection, bool broken)
{
    struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    bool answered;
    if (!exchange->dispatched || exchange->given_up) {
        return;
    }
    if (broken) {
        rg_exchange_break(exchange, atomic_load(&connection->idle_closed) ? RG_REQUEST_TIMEOUT
                                                                          : RG_INCOMPLETE_BODY);
    }
    if (rg_exchange_await_return(exchange) == RG_AWAIT_READY) {
        return;
    }
    atomic_fetch_add(&server->stuck, 1);
    if (!rg_exchange_give_up(exchange, &answered)) {
        atomic_fetch_sub(&server->stuck, 1);
    }
}

static uint64_t bytes_sent(const struct rg_connection *connection, bool whole)
{
    const struct rg_reply *answer = connection->answer;
    const char *method = rg_head_method(&connection->exchange->head);
    uint64_t length = 0;
    if (answer->kind == RG_REPLY_STREAM) {
        return connection->streamed;
    }
    if (answer->kind == RG_REPLY_FILE) {
        length = answer->file_length;
    } else if (answer->kind == RG_REPLY_BYTES) {
        length = rg_reply_body(answer).len;
    }
    if (strcmp(method, "HEAD") == 0 || answer->status == 204 || answer->status == 304) {
        return 0;
    }
    if (whole || !connection->queued || !is_large(answer)) {
        return whole ? length : 0;
    }
    /* The head is among what the peer took; beside a large body it does not show. */
    return RG_MIN(length, rg_connection_acked(connection) - connection->acked);
}

static void report(const struct rg_connection *connection, bool completed)
{
    const struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    if (!server->config.done) {
        return;
    }
    bool sent = connection->answer && (connection->queued || connection->raw_sent);
    bool whole = sent && (connection->raw_sent || completed);
    struct rg_http_done done = {
        .status = sent ? connection->answer->status : 0,
        .bytes_received = connection->body_bytes,
        .bytes_sent = sent ? bytes_sent(connection, whole) : 0,
        .total_ns = rg_clock_ns() - exchange->started_ns,
        .handler_ns = connection->answered_ns ? connection->answered_ns - exchange->started_ns : 0,
        .sent_whole = whole,
    };
    rg_log_set_request(exchange->id);
    server->config.done(&exchange->connection, &done, server->config.context);
    rg_log_set_request(NULL);
}

static void leave_exchange(struct rg_connection *connection)
{
    struct rg_exchange *exchange = connection->exchange;
    rg_connection_set_exchange(connection, NULL);
    if (rg_exchange_is_sole(exchange)) {
        rg_exchange_reset(exchange);
        connection->spare = exchange;
    } else {
        rg_exchange_unref(exchange);
    }
}

static void end_request(struct rg_connection *connection)
{
    struct rg_http_server *server = connection->server;
    connection->begun = false;
    if (atomic_fetch_sub(&server->requests, 1) == 1 && atomic_load(&server->draining)) {
        rg_event_raise(&server->quiet);
    }
}

/* For a handler that hangs on its connection's thread: answers and reports in its stead. */
static void rescue(struct rg_connection *connection)
{
    struct rg_http_server *server = connection->server;
    struct rg_exchange *exchange = connection->exchange;
    bool answered;
    atomic_fetch_add(&server->stuck, 1);
    if (!rg_exchange_give_up(exchange, &answered)) {
        atomic_fetch_sub(&server->stuck, 1);
        return;
    }
    atomic_fetch_add(&server->hung, 1);
    if (answered) {
        connection->answer = &exchange->worker.answer;
    } else {
        run_here(connection, server->config.hung);
    }
    send_raw(connection, 0);
    shutdown(connection->fd, SHUT_RDWR);
    report(connection, false);
    end_request(connection);
}

static void complete(void *context, struct MHD_Connection *wire, void **request,
                     enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)wire;
    struct rg_connection *connection = *request;
    if (!connection || !connection->exchange) {
        return;
    }
    bool completed = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_WORKER);
    if (connection->begun) {
        part(connection, !completed);
        if (connection->early && !atomic_load(&connection->idle_closed)) {
            linger(connection);
        }
        report(connection, completed);
    }
    bool begun = connection->begun;
    leave_exchange(connection);
    atomic_store(&connection->waits, RG_CONNECTION_WAITS_HEAD);
    if (begun) {
        end_request(connection);
    }
}

/* ---- Connections ---- */

static enum MHD_Result admit(void *context, const struct sockaddr *address, socklen_t address_len)
{
    (void)address;
    (void)address_len;
    struct rg_http_server *server = context;
    atomic_fetch_add(&server->accepted, 1);
    unsigned count = atomic_load(&server->connections.count);
    if (count >= server->config.connections_max) {
        atomic_fetch_add(&server->refused_connections, 1);
    }
    return count < server->config.connections_max + RG_HTTP_CONNECTIONS_OVER ? MHD_YES : MHD_NO;
}

static void connect_or_disconnect(void *context, struct MHD_Connection *wire, void **socket_context,
                                  enum MHD_ConnectionNotificationCode code)
{
    struct rg_http_server *server = context;
    struct rg_connection *connection = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (connection) {
            rg_connections_remove(connection);
        }
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(wire, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(wire, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    socklen_t len = peer->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                             : sizeof(struct sockaddr_in);
    connection = rg_connections_add(&server->connections, fd->connect_fd, peer->client_addr, len);
    if (connection) {
        connection->server = server;
        connection->is_tls = server->certificate != NULL;
        connection->is_over =
            atomic_load(&server->connections.count) > server->config.connections_max;
    }
    *socket_context = connection;
}

/*
 * Gives memory back to the system that a busy time left in the allocator: it keeps what was freed
 * in an arena for each thread there happened to be, several MiB each. Not at every pause between
 * two requests, and not never because there is no pause.
 */
static void give_memory_back(struct rg_http_server *server, struct trimming *trimming)
{
    uint64_t count = atomic_load(&server->id_count);
    uint64_t now = rg_clock_ns();
    uint64_t wait_ns = atomic_load(&server->requests) == 0 ? TRIM_IDLE_NS : TRIM_BUSY_NS;
    if (count != trimming->requests && now - trimming->at_ns >= wait_ns) {
        *trimming = (struct trimming){.requests = count, .at_ns = now};
        malloc_trim(0);
    }
}

static void *watch(void *argument)
{
    struct rg_http_server *server = argument;
    struct trimming trimming = {.at_ns = rg_clock_ns()};
    const struct rg_http_config *config = &server->config;
    unsigned least_ms = RG_MIN(config->idle_timeout_ms, config->handler_timeout_ms);
    unsigned tick_ms = RG_MAX(least_ms / 8, TICK_MS_MIN);
    uint64_t tick_ns = RG_MIN(tick_ms, TICK_MS_MAX) * 1000000ull;
    while (!rg_event_wait(&server->watch_end, rg_clock_ns() + tick_ns)) {
        unsigned closed =
            rg_connections_close_idle(&server->connections, server->config.idle_timeout_ms);
        atomic_fetch_add(&server->idle_closed, closed);
        if (config->reads_here) {
            rg_connections_rescue(&server->connections, rescue);
            give_memory_back(server, &trimming);
        }
    }
    return NULL;
}

/* ---- TLS ---- */

static int choose_certificate(gnutls_session_t session, const gnutls_datum_t *authorities,
                              int authority_count, const gnutls_pk_algorithm_t *algorithms,
                              int algorithm_count, gnutls_pcert_st **ret_chain, unsigned *ret_count,
                              gnutls_privkey_t *ret_key)
{
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    struct MHD_Connection *wire = gnutls_session_get_ptr(session);
    const struct rg_connection *connection = wire ? connection_of(wire) : NULL;
    if (!connection) {
        return -1;
    }
    const struct rg_http_server *server = connection->server;
    rg_certificate_use(server->certificate, ret_chain, ret_count, ret_key);
    return 0;
}

int rg_http_reload_tls(struct rg_http_server *server, struct rg_error *err)
{
    return server->certificate ? rg_certificate_reload(server->certificate, err) : 0;
}

/* ---- Start and stop ---- */

/* What the library says is about single connections, except when the system runs out of something.
 */
RG_PRINTF(2, 0)
static void log_library(void *context, const char *format, va_list args)
{
    struct rg_http_server *server = context;
    RG_BUF(text, 1024);
    rg_buf_addv(&text, format, args);
    const char *line = rg_buf_text(&text);
    uint64_t now_ns = rg_clock_ns();
    bool grave = strstr(line, "Failed to create") || strstr(line, "rror accepting") ||
                 strstr(line, "allocating memory");
    if (grave && now_ns - atomic_load(&server->warned_ns) > WARN_NS) {
        atomic_store(&server->warned_ns, now_ns);
        rg_log_warn("http.resources", "the system refuses what a connection needs",
                    RG_FIELD_SPAN("library", rg_span_trim(rg_span_text(line))));
        return;
    }
    rg_log_debug("http.library", "the HTTP library reports",
                 RG_FIELD_SPAN("library", rg_span_trim(rg_span_text(line))));
}

static size_t keep_raw(void *context, struct MHD_Connection *wire, char *text)
{
    (void)context;
    (void)wire;
    return strlen(text);
}

static int start_daemon(struct rg_http_server *server, struct rg_error *err)
{
    const struct rg_http_config *config = &server->config;
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)choose_certificate},
        {MHD_OPTION_END, 0, NULL},
    };
    if (server->certificate) {
        flags |= MHD_USE_TLS;
    } else {
        tls[0].option = MHD_OPTION_END;
    }
    /* One connection more than ours allows: the refusal, and its count, are ours. */
    server->daemon = MHD_start_daemon(
        flags, 0, admit, server, handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_library, server,
        MHD_OPTION_LISTEN_SOCKET, server->listener, MHD_OPTION_CONNECTION_LIMIT,
        config->connections_max + RG_HTTP_CONNECTIONS_OVER + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        config->connection_memory, MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)CONNECTION_STACK, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_UNESCAPE_CALLBACK, keep_raw, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, meet_target, server, MHD_OPTION_NOTIFY_COMPLETED, complete,
        server, MHD_OPTION_NOTIFY_CONNECTION, connect_or_disconnect, server, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    if (!server->daemon) {
        return rg_failf(err, RG_INTERNAL_ERROR,
                        "the HTTP library did not start (see the log at "
                        "level debug)");
    }
    return 0;
}

/* Threads inherit the mask: signals are for the main thread. */
static int start_threads(struct rg_http_server *server, struct rg_error *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    RG_MUST(pthread_sigmask(SIG_SETMASK, &all, &before));
    int rc = start_daemon(server, err);
    if (rc == 0) {
        int failed = pthread_create(&server->watch_thread, NULL, watch, server);
        server->watch_runs = failed == 0;
        rc = failed ? rg_fail_errno(err, RG_INTERNAL_ERROR, failed, "cannot start a thread") : 0;
    }
    RG_MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
    return rc;
}

static int start(struct rg_http_server *server, struct rg_error *err)
{
    const struct rg_http_config *config = &server->config;
    bool cert = config->tls_cert && config->tls_cert[0];
    bool key = config->tls_key && config->tls_key[0];
    if (cert != key) {
        return rg_failf(err, RG_SETTING, "tls-cert and tls-key must be given together");
    }
    int rc =
        rg_workers_new(config->workers_max, WORKER_STACK, WORKER_IDLE_MS, &server->workers, err);
    if (rc == 0 && cert) {
        rc = rg_certificate_open(config->tls_cert, config->tls_key, &server->certificate, err);
    }
    rc = rc < 0 ? rc
                : rg_listener_open(server->address, config->port, &server->listener, &server->port,
                                   err);
    return rc < 0 ? rc : start_threads(server, err);
}

int rg_http_start(const struct rg_http_config *config, struct rg_http_server **ret_server,
                  struct rg_error *err)
{
    struct rg_http_server *server = calloc(1, sizeof *server);
    if (!server) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    server->config = *config;
    server->listener = -1;
    server->address = strdup(config->address ? config->address : "");
    server->id_base = rg_random_u64();
    server->strict_layout = strcmp(MHD_get_version(), "0.9.75") == 0;
    atomic_init(&server->references, 1);
    rg_connections_init(&server->connections);
    int rc = server->address ? start(server, err) : rg_fail(err, RG_OUT_OF_MEMORY);
    if (rc < 0) {
        rg_http_stop(server, 0);
        return rc;
    }
    server->config.address = server->address;
    server->config.tls_cert = NULL;
    server->config.tls_key = NULL;
    *ret_server = server;
    return 0;
}

uint16_t rg_http_port(const struct rg_http_server *server)
{
    return server->port;
}

void rg_http_counters(struct rg_http_server *server, struct rg_http_counters *ret_counters)
{
    int stuck = atomic_load(&server->stuck);
    *ret_counters = (struct rg_http_counters){
        .connections = atomic_load(&server->connections.count),
        .requests = atomic_load(&server->requests),
        .workers = rg_workers_count(server->workers),
        .stuck = stuck > 0 ? (unsigned)stuck : 0,
        .accepted = atomic_load(&server->accepted),
        .refused_connections = atomic_load(&server->refused_connections),
        .idle_closed = atomic_load(&server->idle_closed),
        .busy = atomic_load(&server->busy),
        .hung = atomic_load(&server->hung),
    };
}

void rg_http_drain(struct rg_http_server *server, unsigned timeout_ms)
{
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    if (!atomic_exchange(&server->draining, true)) {
        MHD_quiesce_daemon(server->daemon);
        shutdown(server->listener, SHUT_RDWR);
    }
    while (atomic_load(&server->requests) > 0 && rg_clock_ns() < deadline_ns) {
        rg_event_wait(&server->quiet, deadline_ns);
    }
}

enum { STOP_UNDER_WAY, STOP_DONE, STOP_ABANDONED };

/* Whoever comes second drops the owner's reference: this thread, or rg_http_stop. */
static void *stop_daemon(void *argument)
{
    struct rg_http_server *server = argument;
    MHD_stop_daemon(server->daemon);
    bool abandoned = atomic_exchange(&server->stop_state, STOP_DONE) == STOP_ABANDONED;
    rg_event_raise(&server->stopped);
    if (abandoned) {
        unref_server(server);
    }
    unref_server(server);
    return NULL;
}

/*
 * To a client, a connection that is closed means that nothing more happens, as an answer does. What
 * is held ends by itself, since its owner has been told to stop; but not in a mount that hangs.
 */
static void await_held(struct rg_http_server *server)
{
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)HELD_MS * 1000000u;
    const struct timespec nap = {.tv_nsec = 5000000};
    while (rg_connections_are_held(&server->connections) && rg_clock_ns() < deadline_ns) {
        (void)nanosleep(&nap, NULL);
    }
}

/*
 * Joins the connections' threads, but not for ever: one may be inside a mount that hangs. False
 * when some are left; then the server is freed when they have ended.
 */
static bool join_connections(struct rg_http_server *server)
{
    struct rg_error err = RG_ERROR_INIT;
    atomic_fetch_add(&server->references, 1);
    if (rg_thread_start("rg-http-stop", stop_daemon, server, &err) < 0) {
        stop_daemon(server);
        return true;
    }
    return rg_event_wait(&server->stopped, rg_clock_ns() + (uint64_t)STOP_MS * 1000000u) ||
           atomic_exchange(&server->stop_state, STOP_ABANDONED) == STOP_DONE;
}

static void end_watch(struct rg_http_server *server)
{
    if (server->watch_runs) {
        rg_event_raise(&server->watch_end);
        RG_MUST(pthread_join(server->watch_thread, NULL));
    }
}

unsigned rg_http_stop(struct rg_http_server *server, unsigned timeout_ms)
{
    unsigned cut_off = 0;
    bool joined = true;
    if (server->daemon) {
        rg_http_drain(server, timeout_ms);
        cut_off = atomic_load(&server->requests);
        atomic_store(&server->ending, true);
        await_held(server);
        rg_connections_abort(&server->connections);
        end_watch(server);
        joined = join_connections(server);
    }
    unsigned left = server->workers ? rg_workers_stop(server->workers, WORKER_END_MS) : 0;
    cut_off = RG_MAX(cut_off, left);
    if (joined) {
        unref_server(server);
        return cut_off;
    }
    return RG_MAX(cut_off, 1u);
}
