#include "gate/exchange.h"

#include "base/assert.h"
#include "base/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define ANSWER_TEXT_MAX (32u << 10)
#define ANSWER_BODY_MAX (256u << 20)
#define KEPT_BODY_BYTES (16u << 10)
#define STREAM_BLOCK    (32u << 10)
#define STREAM_BLOCKS   2
#define FORMATTED_MAX   2048

/* ---- Life ---- */

static void init_request(struct rg_http_request *request, struct rg_exchange *exchange,
                         bool of_worker)
{
    request->exchange = exchange;
    request->of_worker = of_worker;
    request->answer.fd = -1;
    request->answer.text.max = ANSWER_TEXT_MAX;
    request->answer.body.max = ANSWER_BODY_MAX;
}

struct rg_exchange *rg_exchange_new(void)
{
    struct rg_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) {
        return NULL;
    }
    RG_MUST(pthread_mutex_init(&exchange->lock, NULL));
    init_request(&exchange->worker, exchange, true);
    init_request(&exchange->connection, exchange, false);
    atomic_init(&exchange->references, 1);
    return exchange;
}

static void reset_answer(struct rg_reply *answer)
{
    rg_cleanup_close(&answer->fd);
    if (answer->body.room > KEPT_BODY_BYTES) {
        rg_buf_free(&answer->body);
    }
    rg_buf_clear(&answer->body);
    rg_buf_clear(&answer->text);
    answer->text.max = ANSWER_TEXT_MAX;
    answer->body.max = ANSWER_BODY_MAX;
    answer->kind = RG_REPLY_NONE;
    answer->status = 0;
    answer->close = false;
    answer->starved = false;
    answer->field_count = 0;
    answer->fd = -1;
}

static void free_answer(struct rg_reply *answer)
{
    rg_cleanup_close(&answer->fd);
    rg_buf_free(&answer->body);
    rg_buf_free(&answer->text);
    free(answer->fields);
}

static void release_user(struct rg_exchange *exchange)
{
    if (exchange->release_user) {
        exchange->release_user(exchange->user);
    }
    exchange->user = NULL;
    exchange->release_user = NULL;
}

void rg_exchange_unref(struct rg_exchange *exchange)
{
    if (atomic_fetch_sub(&exchange->references, 1) > 1) {
        return;
    }
    release_user(exchange);
    free_answer(&exchange->worker.answer);
    free_answer(&exchange->connection.answer);
    rg_head_free(&exchange->head);
    rg_ring_free(&exchange->body);
    rg_ring_free(&exchange->stream);
    RG_MUST(pthread_mutex_destroy(&exchange->lock));
    free(exchange);
}

bool rg_exchange_is_sole(struct rg_exchange *exchange)
{
    return atomic_load(&exchange->references) == 1;
}

void rg_exchange_reset(struct rg_exchange *exchange)
{
    release_user(exchange);
    reset_answer(&exchange->worker.answer);
    reset_answer(&exchange->connection.answer);
    atomic_store(&exchange->to_worker.state, RG_EVENT_QUIET);
    atomic_store(&exchange->to_connection.state, RG_EVENT_QUIET);
    rg_ring_free(&exchange->body);
    rg_ring_free(&exchange->stream);
    exchange->borrowed = 0;
    exchange->body_ended = false;
    exchange->body_wanted = false;
    exchange->body_closed = false;
    exchange->broken = RG_OK;
    exchange->worker_waits = false;
    exchange->connection_waits = false;
    exchange->dispatched = false;
    exchange->runs_here = false;
    exchange->returned = false;
    exchange->given_up = false;
    exchange->aborted = false;
    exchange->answered = false;
    exchange->stream_ended = false;
    exchange->peer_gone = false;
    exchange->keepalive_ms = 0;
    exchange->held_ns = 0;
    exchange->hung = false;
}

static void lock(const struct rg_exchange *exchange)
{
    RG_MUST(pthread_mutex_lock((pthread_mutex_t *)&exchange->lock));
}

static void unlock(const struct rg_exchange *exchange)
{
    RG_MUST(pthread_mutex_unlock((pthread_mutex_t *)&exchange->lock));
}

/* Unlocks, and wakes whom the change that was made concerns. */
static void unlock_and_wake(struct rg_exchange *exchange, bool worker, bool connection)
{
    bool wake_worker = worker && exchange->worker_waits;
    bool wake_connection = connection && exchange->connection_waits;
    unlock(exchange);
    if (wake_worker) {
        rg_event_raise(&exchange->to_worker);
    }
    if (wake_connection) {
        rg_event_raise(&exchange->to_connection);
    }
}

/* ---- The connection's side ---- */

void rg_exchange_dispatch(struct rg_exchange *exchange)
{
    atomic_fetch_add(&exchange->references, 1);
    exchange->dispatched = true;
    exchange->progress_ns = rg_clock_ns();
}

void rg_exchange_undispatch(struct rg_exchange *exchange)
{
    exchange->dispatched = false;
    rg_exchange_unref(exchange);
}

void rg_exchange_run_here(struct rg_exchange *exchange)
{
    lock(exchange);
    exchange->dispatched = true;
    exchange->runs_here = true;
    exchange->progress_ns = rg_clock_ns();
    unlock(exchange);
}

/* With the lock held: when a handler that does nothing more is to be given up. */
static uint64_t hung_from_ns(const struct rg_exchange *exchange)
{
    uint64_t silent_ns = exchange->progress_ns + (uint64_t)exchange->handler_timeout_ms * 1000000u;
    return RG_MAX(silent_ns, exchange->held_ns);
}

bool rg_exchange_hangs_here(struct rg_exchange *exchange)
{
    lock(exchange);
    bool hangs = exchange->runs_here && !exchange->returned && !exchange->given_up &&
                 rg_clock_ns() >= hung_from_ns(exchange);
    exchange->hung = exchange->hung || hangs;
    unlock(exchange);
    return hangs;
}

bool rg_exchange_returned(struct rg_exchange *exchange)
{
    lock(exchange);
    exchange->returned = true;
    exchange->body_closed = true;
    bool given_up = exchange->given_up;
    unlock(exchange);
    return given_up;
}

void rg_exchange_finish(struct rg_exchange *exchange)
{
    rg_event_raise(&exchange->to_connection);
    rg_exchange_unref(exchange);
}

/* With the lock held, which it gives up meanwhile: waits until `is_ready`. */
static enum rg_await await(struct rg_exchange *exchange,
                           bool (*is_ready)(const struct rg_exchange *exchange))
{
    for (;;) {
        if (is_ready(exchange)) {
            return RG_AWAIT_READY;
        }
        if (exchange->aborted) {
            return RG_AWAIT_ABORTED;
        }
        uint64_t deadline_ns = hung_from_ns(exchange);
        if (rg_clock_ns() >= deadline_ns) {
            exchange->hung = true;
            return RG_AWAIT_HUNG;
        }
        exchange->connection_waits = true;
        unlock(exchange);
        rg_event_wait(&exchange->to_connection, deadline_ns);
        lock(exchange);
        exchange->connection_waits = false;
    }
}

static enum rg_await await_locking(struct rg_exchange *exchange,
                                   bool (*is_ready)(const struct rg_exchange *exchange))
{
    lock(exchange);
    enum rg_await result = await(exchange, is_ready);
    unlock(exchange);
    return result;
}

static bool is_returned(const struct rg_exchange *exchange)
{
    return exchange->returned;
}

static bool has_answer(const struct rg_exchange *exchange)
{
    return exchange->returned ||
           (exchange->answered && exchange->worker.answer.kind == RG_REPLY_STREAM);
}

static bool has_decided(const struct rg_exchange *exchange)
{
    return exchange->body_wanted || has_answer(exchange);
}

static bool takes_body(const struct rg_exchange *exchange)
{
    return exchange->body_closed || rg_ring_left(&exchange->body) > 0;
}

enum rg_await rg_exchange_await_decision(struct rg_exchange *exchange)
{
    return await_locking(exchange, has_decided);
}

enum rg_await rg_exchange_await_answer(struct rg_exchange *exchange)
{
    return await_locking(exchange, has_answer);
}

enum rg_await rg_exchange_await_return(struct rg_exchange *exchange)
{
    return await_locking(exchange, is_returned);
}

bool rg_exchange_wants_body(struct rg_exchange *exchange)
{
    lock(exchange);
    bool wants = !exchange->body_closed && !exchange->given_up;
    unlock(exchange);
    return wants;
}

/* A worker that waits is woken for a whole block, not for each read of the socket. */
static bool is_worth_waking(const struct rg_exchange *exchange)
{
    return exchange->body_ended ||
           rg_ring_used(&exchange->body) - exchange->borrowed >= exchange->body.block_size;
}

/* With the lock held: copies what fits in one piece. */
static size_t fill_body(struct rg_exchange *exchange, const char *bytes, size_t len)
{
    size_t room;
    char *space = rg_ring_space(&exchange->body, &room);
    if (!space) {
        exchange->broken = RG_OUT_OF_MEMORY;
        exchange->body_closed = true;
        return 0;
    }
    size_t count = RG_MIN(room, len);
    unlock(exchange);
    memcpy(space, bytes, count);
    lock(exchange);
    rg_ring_put(&exchange->body, count);
    return count;
}

enum rg_await rg_exchange_put_body(struct rg_exchange *exchange, const char *bytes, size_t len,
                                   size_t *ret_taken)
{
    size_t taken = 0;
    enum rg_await result = RG_AWAIT_READY;
    lock(exchange);
    while (taken < len && result == RG_AWAIT_READY && !exchange->body_closed) {
        /* A worker that waits for bytes is not hung, however long the client takes. */
        if (exchange->worker_waits) {
            exchange->progress_ns = rg_clock_ns();
        }
        result = await(exchange, takes_body);
        if (result == RG_AWAIT_READY && !exchange->body_closed) {
            taken += fill_body(exchange, bytes + taken, len - taken);
        }
        if (exchange->worker_waits && (is_worth_waking(exchange) || exchange->body_closed)) {
            unlock_and_wake(exchange, true, false);
            lock(exchange);
        }
    }
    unlock(exchange);
    *ret_taken = taken;
    return result;
}

void rg_exchange_end_body(struct rg_exchange *exchange)
{
    lock(exchange);
    exchange->body_ended = true;
    exchange->progress_ns = rg_clock_ns();
    unlock_and_wake(exchange, true, false);
}

void rg_exchange_break(struct rg_exchange *exchange, enum rg_code why)
{
    lock(exchange);
    exchange->broken = exchange->broken != RG_OK ? exchange->broken : why;
    exchange->body_closed = true;
    exchange->peer_gone = true;
    exchange->progress_ns = rg_clock_ns();
    unlock_and_wake(exchange, true, false);
}

bool rg_exchange_give_up(struct rg_exchange *exchange, bool *ret_answered)
{
    lock(exchange);
    bool turned = !exchange->returned;
    exchange->given_up = turned;
    *ret_answered = exchange->answered && exchange->worker.answer.kind != RG_REPLY_STREAM;
    unlock_and_wake(exchange, true, false);
    return turned;
}

bool rg_exchange_is_held(struct rg_exchange *exchange)
{
    lock(exchange);
    bool held = !exchange->returned && !exchange->given_up && rg_clock_ns() < exchange->held_ns;
    unlock(exchange);
    return held;
}

void rg_exchange_abort(struct rg_exchange *exchange)
{
    lock(exchange);
    exchange->aborted = true;
    unlock_and_wake(exchange, false, true);
}

/* With the lock held, and bytes there. */
static size_t drain_stream(struct rg_exchange *exchange, char *bytes, size_t room)
{
    size_t len = 0;
    while (len < room && rg_ring_used(&exchange->stream) > 0) {
        struct span piece = rg_span_head(rg_ring_peek(&exchange->stream), room - len);
        memcpy(bytes + len, piece.ptr, piece.len);
        rg_ring_took(&exchange->stream, piece.len);
        len += piece.len;
    }
    return len;
}

enum rg_stream rg_exchange_take_stream(struct rg_exchange *exchange, char *bytes, size_t room,
                                       size_t *ret_len)
{
    uint64_t begun_ns = rg_clock_ns();
    lock(exchange);
    for (;;) {
        *ret_len = drain_stream(exchange, bytes, room);
        if (*ret_len > 0) {
            /* The time that the client took to let us come back here is not the worker's. */
            exchange->progress_ns = rg_clock_ns();
            unlock_and_wake(exchange, true, false);
            return RG_STREAM_BYTES;
        }
        bool over = exchange->returned || exchange->aborted;
        if (over) {
            bool whole = exchange->returned && exchange->stream_ended;
            unlock(exchange);
            return whole ? RG_STREAM_END : RG_STREAM_BROKEN;
        }
        bool kept_alive = exchange->keepalive_ms > 0 && !exchange->stream_ended;
        uint64_t from_ns = kept_alive ? begun_ns : exchange->progress_ns;
        uint64_t wait_ms = kept_alive ? exchange->keepalive_ms : exchange->handler_timeout_ms;
        uint64_t deadline_ns = from_ns + wait_ms * 1000000u;
        if (rg_clock_ns() >= deadline_ns) {
            unlock(exchange);
            *ret_len = kept_alive;
            *bytes = ' ';
            return kept_alive ? RG_STREAM_BYTES : RG_STREAM_HUNG;
        }
        exchange->connection_waits = true;
        unlock(exchange);
        rg_event_wait(&exchange->to_connection, deadline_ns);
        lock(exchange);
        exchange->connection_waits = false;
    }
}

bool rg_exchange_stream_is_whole(struct rg_exchange *exchange)
{
    lock(exchange);
    bool whole = exchange->stream_ended && rg_ring_used(&exchange->stream) == 0;
    unlock(exchange);
    return whole;
}

/* The answer where memory for one is wanting: RG_OUT_OF_MEMORY, from errors.tbl. */
static const char starved_body[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code>"
    "<Message>The server is out of memory. Try again.</Message></Error>";
static const char *const starved_fields[][2] = {
    {"Content-Type", "application/xml"},
    {"Retry-After", "1"},
};

struct span rg_reply_body(const struct rg_reply *answer)
{
    return answer->starved ? rg_span_text(starved_body) : rg_buf_span(&answer->body);
}

bool rg_reply_field_at(const struct rg_reply *answer, size_t i, const char **ret_name,
                       const char **ret_value)
{
    if (answer->starved) {
        bool found = i < RG_ARRAY_LENGTH(starved_fields);
        *ret_name = found ? starved_fields[i][0] : NULL;
        *ret_value = found ? starved_fields[i][1] : NULL;
        return found;
    }
    if (i >= answer->field_count) {
        return false;
    }
    *ret_name = answer->text.data + answer->fields[i].name;
    *ret_value = answer->text.data + answer->fields[i].value;
    return true;
}

/* ---- The request, for handlers ---- */

const char *rg_http_method(const struct rg_http_request *request)
{
    return rg_head_method(&request->exchange->head);
}

struct span rg_http_path(const struct rg_http_request *request)
{
    return rg_head_path(&request->exchange->head);
}

struct span rg_http_query(const struct rg_http_request *request)
{
    return rg_head_query(&request->exchange->head);
}

const char *rg_http_version(const struct rg_http_request *request)
{
    return rg_head_version(&request->exchange->head);
}

bool rg_http_header(const struct rg_http_request *request, const char *name, struct span *ret_value)
{
    return rg_head_find(&request->exchange->head, name, ret_value);
}

bool rg_http_header_at(const struct rg_http_request *request, size_t i, struct span *ret_name,
                       struct span *ret_value)
{
    return rg_head_field_at(&request->exchange->head, i, ret_name, ret_value);
}

int64_t rg_http_content_length(const struct rg_http_request *request)
{
    return request->exchange->head.content_length;
}

bool rg_http_has_body(const struct rg_http_request *request)
{
    return request->exchange->head.has_body;
}

const char *rg_http_request_id(const struct rg_http_request *request)
{
    return request->exchange->id;
}

const char *rg_http_peer(const struct rg_http_request *request)
{
    return request->exchange->peer;
}

const char *rg_http_local(const struct rg_http_request *request)
{
    return request->exchange->local;
}

bool rg_http_is_tls(const struct rg_http_request *request)
{
    return request->exchange->is_tls;
}

const char *rg_http_tls_version(const struct rg_http_request *request)
{
    const char *version = request->exchange->tls_version;
    return version ? version : "";
}

const char *rg_http_tls_cipher(const struct rg_http_request *request)
{
    const char *cipher = request->exchange->tls_cipher;
    return cipher ? cipher : "";
}

enum rg_code rg_http_refusal(const struct rg_http_request *request)
{
    return request->exchange->head.refusal;
}

const char *rg_http_refusal_reason(const struct rg_http_request *request)
{
    const char *reason = request->exchange->head.reason;
    return reason ? reason : "";
}

void rg_http_set_user(struct rg_http_request *request, void *user, void (*release)(void *user))
{
    struct rg_exchange *exchange = request->exchange;
    lock(exchange);
    RG_ASSERT(!exchange->user && !exchange->release_user);
    exchange->user = user;
    exchange->release_user = release;
    unlock(exchange);
}

void *rg_http_user(const struct rg_http_request *request)
{
    lock(request->exchange);
    void *user = request->exchange->user;
    unlock(request->exchange);
    return user;
}

bool rg_http_given_up(const struct rg_http_request *request)
{
    lock(request->exchange);
    bool given_up = request->exchange->given_up;
    unlock(request->exchange);
    return given_up;
}

uint64_t rg_http_started_ms(const struct rg_http_request *request)
{
    return request->exchange->started_ns / 1000000u;
}

bool rg_http_hold(struct rg_http_request *request, uint64_t until_ms)
{
    struct rg_exchange *exchange = request->exchange;
    lock(exchange);
    bool granted = !exchange->given_up && !exchange->hung && !exchange->aborted;
    exchange->held_ns = granted ? until_ms * 1000000u : exchange->held_ns;
    unlock(exchange);
    return granted;
}

void rg_http_release(struct rg_http_request *request)
{
    struct rg_exchange *exchange = request->exchange;
    lock(exchange);
    exchange->held_ns = 0;
    exchange->progress_ns = rg_clock_ns();
    unlock(exchange);
}

/* With the lock held. */
static int fail_body(const struct rg_exchange *exchange, struct rg_error *err)
{
    if (exchange->given_up) {
        return rg_fail(err, RG_CANCELLED);
    }
    if (exchange->broken != RG_OK) {
        return rg_fail(err, exchange->broken);
    }
    return rg_failf(err, RG_INTERNAL_ERROR, "the body was read after the answer");
}

/* With the lock held: sleeps until somebody raises to_worker. */
static void wait_as_worker(struct rg_exchange *exchange)
{
    exchange->worker_waits = true;
    unlock(exchange);
    rg_event_wait(&exchange->to_worker, UINT64_MAX);
    lock(exchange);
    exchange->worker_waits = false;
    exchange->progress_ns = rg_clock_ns();
}

/* With the lock held: gives back what was borrowed; true when the connection waits for that room.
 */
static bool return_borrowed(struct rg_exchange *exchange)
{
    rg_ring_took(&exchange->body, exchange->borrowed);
    exchange->borrowed = 0;
    exchange->progress_ns = rg_clock_ns();
    return exchange->body.block_size && rg_ring_left(&exchange->body) >= exchange->body.block_size;
}

/* With the lock held: how much must be there for the rest of the block to be. */
static size_t rest_of_block(const struct rg_exchange *exchange)
{
    const struct rg_ring *body = &exchange->body;
    return body->block_size ? body->block_size - (size_t)(body->read % body->block_size) : 1;
}

/* Borrows what is there in one piece, `whole`: to the end of the block or of the body. */
static int borrow(struct rg_http_request *request, bool whole, struct span *ret_bytes,
                  struct rg_error *err)
{
    struct rg_exchange *exchange = request->exchange;
    RG_ASSERT(request->of_worker);
    lock(exchange);
    bool first = !exchange->body_wanted;
    exchange->body_wanted = true;
    bool wake = return_borrowed(exchange) || first;
    if (wake && exchange->connection_waits) {
        unlock_and_wake(exchange, false, true);
        lock(exchange);
    }
    for (;;) {
        bool over = exchange->given_up || exchange->broken != RG_OK ||
                    (exchange->body_closed && !exchange->body_ended);
        if (over) {
            int rc = fail_body(exchange, err);
            unlock(exchange);
            return rc;
        }
        size_t least = whole ? rest_of_block(exchange) : 1;
        if (exchange->body_ended || rg_ring_used(&exchange->body) >= least) {
            *ret_bytes = rg_ring_peek(&exchange->body);
            exchange->borrowed = ret_bytes->len;
            unlock(exchange);
            return 0;
        }
        wait_as_worker(exchange);
    }
}

_Static_assert(RG_HTTP_BLOCK == RG_RING_LARGE_BLOCK, "what is said of large bodies is so");

bool rg_http_body_in_blocks(const struct rg_http_request *request)
{
    return request->exchange->body.block_size == RG_RING_LARGE_BLOCK;
}

int rg_http_body_block(struct rg_http_request *request, struct span *ret_bytes,
                       struct rg_error *err)
{
    return borrow(request, true, ret_bytes, err);
}

int rg_http_body_read(struct rg_http_request *request, void *buffer, size_t room, size_t *ret_len,
                      struct rg_error *err)
{
    struct span bytes;
    int rc = borrow(request, false, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    size_t len = RG_MIN(bytes.len, room);
    if (len) {
        memcpy(buffer, bytes.ptr, len);
    }
    lock(request->exchange);
    request->exchange->borrowed = len;
    unlock(request->exchange);
    *ret_len = len;
    return 0;
}

/* ---- The answer, for handlers ---- */

static bool is_allowed_value(const char *value)
{
    for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
        if ((*c < 0x20 && *c != '\t') || *c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool grow_answer_fields(struct rg_reply *answer)
{
    size_t room = answer->field_room ? answer->field_room * 2 : 16;
    struct rg_reply_field *fields = realloc(answer->fields, room * sizeof *fields);
    if (!fields) {
        return false;
    }
    answer->fields = fields;
    answer->field_room = room;
    return true;
}

bool rg_http_header_set(struct rg_http_request *request, const char *name, const char *value)
{
    struct rg_reply *answer = &request->answer;
    size_t name_len = strlen(name);
    size_t value_len = strlen(value);
    bool fits = answer->text.len + name_len + value_len + 2 <= ANSWER_TEXT_MAX;
    if (answer->kind != RG_REPLY_NONE || !fits || !is_allowed_value(value)) {
        return false;
    }
    if (answer->field_count == answer->field_room && !grow_answer_fields(answer)) {
        answer->starved = true;
        return false;
    }
    struct rg_reply_field field = {.name = (uint32_t)answer->text.len};
    rg_buf_add(&answer->text, name, name_len + 1);
    field.value = (uint32_t)answer->text.len;
    rg_buf_add(&answer->text, value, value_len + 1);
    if (!rg_buf_ok(&answer->text)) {
        answer->starved = true;
        return false;
    }
    answer->fields[answer->field_count++] = field;
    return true;
}

void rg_http_header_setf(struct rg_http_request *request, const char *name, const char *format, ...)
{
    char value[FORMATTED_MAX + 1];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof value) {
        rg_http_header_set(request, name, value);
    }
}

void rg_http_close_after(struct rg_http_request *request)
{
    if (request->answer.kind == RG_REPLY_NONE) {
        request->answer.close = true;
    }
}

/*
 * The answer is complete, or the stream's head is: from here on it is only read. One that lacks
 * what memory was wanting for is not sent.
 */
static void publish(struct rg_http_request *request, int status, int kind)
{
    struct rg_reply *answer = &request->answer;
    answer->status = answer->starved ? rg_code_http_status(RG_OUT_OF_MEMORY) : status;
    answer->kind = (typeof(answer->kind))(answer->starved ? RG_REPLY_BYTES : kind);
    if (!request->of_worker) {
        return;
    }
    struct rg_exchange *exchange = request->exchange;
    lock(exchange);
    exchange->answered = true;
    exchange->body_closed = true;
    exchange->progress_ns = rg_clock_ns();
    unlock_and_wake(exchange, false, kind == RG_REPLY_STREAM);
}

void rg_http_answer(struct rg_http_request *request, int status, const void *body, size_t len)
{
    if (request->answer.kind != RG_REPLY_NONE) {
        return;
    }
    rg_buf_clear(&request->answer.body); /* of space that was not to be had */
    rg_buf_add(&request->answer.body, body, len);
    if (!rg_buf_ok(&request->answer.body)) {
        request->answer.starved = true;
    }
    publish(request, status, RG_REPLY_BYTES);
}

void rg_http_answer_starved(struct rg_http_request *request)
{
    if (request->answer.kind == RG_REPLY_NONE) {
        request->answer.starved = true;
        publish(request, 0, RG_REPLY_BYTES);
    }
}

void rg_http_answer_head(struct rg_http_request *request, int status, int64_t len)
{
    if (request->answer.kind == RG_REPLY_NONE) {
        request->answer.length = len;
        publish(request, status, RG_REPLY_HEAD);
    }
}

char *rg_http_answer_space(struct rg_http_request *request, size_t len)
{
    return request->answer.kind == RG_REPLY_NONE ? rg_buf_reserve(&request->answer.body, len)
                                                 : NULL;
}

void rg_http_answer_filled(struct rg_http_request *request, int status, size_t len)
{
    if (request->answer.kind == RG_REPLY_NONE) {
        rg_buf_grew(&request->answer.body, len);
        publish(request, status, RG_REPLY_BYTES);
    }
}

void rg_http_answer_fd(struct rg_http_request *request, int status, int fd, uint64_t offset,
                       uint64_t len)
{
    struct rg_reply *answer = &request->answer;
    if (answer->kind != RG_REPLY_NONE) {
        close(fd);
        return;
    }
    rg_buf_clear(&answer->body);
    answer->fd = fd;
    answer->offset = offset;
    answer->file_length = len;
    publish(request, status, RG_REPLY_FILE);
}

int rg_http_stream_begin(struct rg_http_request *request, int status, unsigned keepalive_ms,
                         struct rg_error *err)
{
    struct rg_exchange *exchange = request->exchange;
    RG_ASSERT(request->of_worker);
    if (request->answer.kind != RG_REPLY_NONE || exchange->runs_here) {
        return rg_failf(err, RG_INTERNAL_ERROR, "a stream cannot be begun here");
    }
    if (request->answer.starved) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    lock(exchange);
    rg_ring_setup(&exchange->stream, STREAM_BLOCK, STREAM_BLOCKS);
    exchange->keepalive_ms = keepalive_ms;
    unlock(exchange);
    publish(request, status, RG_REPLY_STREAM);
    return 0;
}

/* With the lock held: copies what fits in one piece; 0 when there is no room. */
static size_t fill_stream(struct rg_exchange *exchange, const char *bytes, size_t len)
{
    size_t room;
    char *space = rg_ring_space(&exchange->stream, &room);
    if (!space && room > 0) {
        exchange->peer_gone = true;
        return 0;
    }
    size_t count = RG_MIN(room, len);
    if (count) {
        memcpy(space, bytes, count);
        rg_ring_put(&exchange->stream, count);
    }
    return count;
}

int rg_http_stream_write(struct rg_http_request *request, const void *bytes, size_t len,
                         struct rg_error *err)
{
    struct rg_exchange *exchange = request->exchange;
    RG_ASSERT(request->of_worker);
    if (request->answer.kind != RG_REPLY_STREAM) {
        return rg_failf(err, RG_INTERNAL_ERROR, "there is no stream to write to");
    }
    size_t done = 0;
    lock(exchange);
    while (done < len && !exchange->given_up && !exchange->peer_gone && !exchange->stream_ended) {
        size_t count = fill_stream(exchange, (const char *)bytes + done, len - done);
        done += count;
        exchange->progress_ns = rg_clock_ns();
        if (count) {
            unlock_and_wake(exchange, false, true);
            lock(exchange);
        } else if (!exchange->peer_gone) {
            wait_as_worker(exchange);
        }
    }
    bool given_up = exchange->given_up;
    unlock(exchange);
    if (done < len) {
        return rg_fail(err, given_up ? RG_CANCELLED : RG_DISCONNECTED);
    }
    return 0;
}

void rg_http_stream_end(struct rg_http_request *request)
{
    struct rg_exchange *exchange = request->exchange;
    lock(exchange);
    exchange->stream_ended = true;
    exchange->progress_ns = rg_clock_ns();
    /* The connection learns of it when the handler returns, which is about to happen. */
    unlock(exchange);
}

bool rg_http_answered(const struct rg_http_request *request)
{
    return request->answer.kind != RG_REPLY_NONE;
}
