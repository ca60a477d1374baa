/*
 * The HTTP server from outside, over loopback sockets whose every byte is chosen here.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "gate/http.h"
#include "test.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIB (1u << 20)

/* What the handlers and the done handler report to the tests. */
static struct {
    pthread_mutex_t lock;
    unsigned done_count;
    struct rg_http_done done; /* the last one */
    bool done_given_up;
    char done_path[64];
    _Atomic int body_error; /* what /swallow's or /trickle's last call failed with, negative code */
    _Atomic int stream_error; /* likewise of /flood */
    _Atomic unsigned released;
    _Atomic unsigned handled;
    int gate[2]; /* /hang reads a byte from here */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct rg_http_server *server;
static bool reads_here;

/* ---- Handlers ---- */

static bool is_path(const struct rg_http_request *request, const char *path)
{
    return rg_span_is(rg_http_path(request), path);
}

static void answer_text(struct rg_http_request *request, int status, const char *text)
{
    rg_http_header_set(request, "Content-Type", "text/plain");
    rg_http_answer(request, status, text, strlen(text));
}

static uint32_t sum_of(struct span bytes, uint32_t sum)
{
    for (size_t i = 0; i < bytes.len; i++) {
        sum = sum * 31 + (unsigned char)bytes.ptr[i];
    }
    return sum;
}

/* Sum and length of the body. */
static void handle_sum(struct rg_http_request *request)
{
    char block[50000];
    size_t len = 0;
    uint64_t total = 0;
    uint32_t sum = 0;
    struct rg_error err = RG_ERROR_INIT;
    int rc;
    while ((rc = rg_http_body_read(request, block, sizeof block, &len, &err)) == 0 && len) {
        total += len;
        sum = sum_of(rg_span(block, len), sum);
    }
    atomic_store(&seen.body_error, rc);
    char text[64];
    snprintf(text, sizeof text, "%llu %u", (unsigned long long)total, sum);
    answer_text(request, rc < 0 ? rg_code_http_status(err.code) : 200, text);
}

/*
 * Sum and length of a large body by its blocks, each of them whole but the last. Slow: stops in the
 * middle of the first until it is told to go on, and says in the end that the bytes stayed.
 */
static void handle_blocks(struct rg_http_request *request, bool slow)
{
    struct span piece;
    uint64_t total = 0;
    uint32_t sum = 0;
    struct rg_error err = RG_ERROR_INIT;
    int rc;
    bool in_blocks = rg_http_body_in_blocks(request);
    while ((rc = rg_http_body_block(request, &piece, &err)) == 0 && piece.len) {
        assert_true(in_blocks ? piece.len <= RG_HTTP_BLOCK : total < RG_HTTP_LARGE_BODY);
        /* Nothing may follow upon one that is not whole. */
        assert_true(!in_blocks || total % RG_HTTP_BLOCK == 0);
        assert_true(!in_blocks || (uintptr_t)piece.ptr % 4096 == 0);
        uint32_t before = sum;
        sum = sum_of(piece, sum);
        total += piece.len;
        if (slow) {
            char c;
            assert_int_equal(read(seen.gate[0], &c, 1), 1);
            assert_int_equal(sum_of(piece, before), sum);
            slow = false;
        }
    }
    atomic_store(&seen.body_error, rc);
    char text[64];
    snprintf(text, sizeof text, "%llu %u", (unsigned long long)total, sum);
    answer_text(request, rc < 0 ? rg_code_http_status(err.code) : 200, text);
}

/* All of the request, as the handler sees it. */
static void handle_mirror(struct rg_http_request *request)
{
    RG_BUF(text, MIB);
    rg_buf_addf(&text, "%s|%.*s|%.*s|%s|%lld|%d\n", rg_http_method(request),
                RG_SPAN_ARG(rg_http_path(request)), RG_SPAN_ARG(rg_http_query(request)),
                rg_http_version(request), (long long)rg_http_content_length(request),
                rg_http_has_body(request));
    struct span name;
    struct span value;
    for (size_t i = 0; rg_http_header_at(request, i, &name, &value); i++) {
        rg_buf_addf(&text, "%.*s=%.*s\n", RG_SPAN_ARG(name), RG_SPAN_ARG(value));
    }
    rg_buf_addf(&text, "peer %s\n", rg_http_peer(request));
    rg_buf_addf(&text, "local %s\n", rg_http_local(request));
    answer_text(request, 200, rg_buf_text(&text));
}

static void handle_big(struct rg_http_request *request)
{
    size_t len = 8 * MIB;
    char *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char)(i * 7);
    }
    rg_http_answer(request, 200, bytes, len);
    free(bytes);
}

static int make_file(size_t len)
{
    char name[] = "/tmp/rg-test-http-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(name);
    char *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char)(i * 7);
    }
    assert_int_equal(write(fd, bytes, len), len);
    free(bytes);
    return fd;
}

static void handle_stream(struct rg_http_request *request, unsigned keepalive_ms, unsigned pause_ms,
                          bool end)
{
    struct rg_error err = RG_ERROR_INIT;
    if (rg_http_stream_begin(request, 200, keepalive_ms, &err) < 0) {
        answer_text(request, 500, "no stream");
        return;
    }
    assert_int_equal(rg_http_stream_write(request, "<?xml?>", 7, &err), 0);
    usleep(pause_ms * 1000);
    if (rg_http_stream_write(request, "<a/>", 4, &err) == 0 && end) {
        rg_http_stream_end(request);
    }
}

/* Writes until the peer is gone. */
static void handle_flood(struct rg_http_request *request)
{
    static const char block[10000];
    struct rg_error err = RG_ERROR_INIT;
    int rc = rg_http_stream_begin(request, 200, 0, &err);
    while (rc == 0) {
        rc = rg_http_stream_write(request, block, sizeof block, &err);
    }
    atomic_store(&seen.stream_error, rc);
}

static void handle_hang(struct rg_http_request *request)
{
    char c;
    assert_int_equal(read(seen.gate[0], &c, 1), 1);
    char block[16];
    size_t len;
    struct rg_error err = RG_ERROR_INIT;
    atomic_store(&seen.body_error, rg_http_body_read(request, block, sizeof block, &len, &err));
    answer_text(request, 200, "late");
}

/* As long as nobody writes into the gate, the connection is not left. */
static void handle_hold(struct rg_http_request *request)
{
    char c;
    assert_true(rg_http_hold(request, rg_clock_ms() + 60000));
    assert_int_equal(read(seen.gate[0], &c, 1), 1);
    rg_http_release(request);
    answer_text(request, 200, "held");
}

static void count_release(void *user)
{
    (void)user;
    atomic_fetch_add(&seen.released, 1);
}

static void handle(struct rg_http_request *request, void *context)
{
    (void)context;
    atomic_fetch_add(&seen.handled, 1);
    rg_http_set_user(request, &seen, count_release);
    rg_http_header_set(request, "x-amz-request-id", rg_http_request_id(request));
    if (is_path(request, "/hello")) {
        answer_text(request, 200, "hello");
    } else if (is_path(request, "/sum")) {
        handle_sum(request);
    } else if (is_path(request, "/mirror")) {
        handle_mirror(request);
    } else if (is_path(request, "/early")) {
        answer_text(request, 403, "no");
    } else if (is_path(request, "/partial")) {
        struct span piece;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_http_body_block(request, &piece, &err), 0);
        answer_text(request, 507, "full");
    } else if (is_path(request, "/blocks")) {
        handle_blocks(request, false);
    } else if (is_path(request, "/slow-blocks")) {
        handle_blocks(request, true);
    } else if (is_path(request, "/big")) {
        handle_big(request);
    } else if (is_path(request, "/file")) {
        rg_http_answer_fd(request, 206, make_file(3 * MIB), MIB, MIB);
    } else if (is_path(request, "/small-file")) {
        rg_http_answer_fd(request, 200, make_file(1000), 10, 100);
    } else if (is_path(request, "/short-file")) {
        rg_http_answer_fd(request, 200, make_file(1000), 0, 2 * MIB);
    } else if (is_path(request, "/head")) {
        rg_http_answer_head(request, 200, 123456789012);
    } else if (is_path(request, "/head-unknown")) {
        rg_http_answer_head(request, 200, -1);
    } else if (is_path(request, "/not-modified")) {
        rg_http_answer_head(request, 304, 42);
    } else if (is_path(request, "/no-content")) {
        rg_http_answer(request, 204, NULL, 0);
    } else if (is_path(request, "/bad-header")) {
        assert_false(rg_http_header_set(request, "X-Split", "a\r\nSet-Cookie: b"));
        answer_text(request, 200, "ok");
    } else if (is_path(request, "/close")) {
        rg_http_close_after(request);
        answer_text(request, 200, "bye");
    } else if (is_path(request, "/silent")) {
        return;
    } else if (is_path(request, "/stream")) {
        handle_stream(request, 50, 300, true);
    } else if (is_path(request, "/cut-stream")) {
        handle_stream(request, 0, 0, false);
    } else if (is_path(request, "/late-stream")) {
        handle_stream(request, 0, 2000, true);
    } else if (is_path(request, "/long-stream")) {
        handle_stream(request, 50, 2000, true);
    } else if (is_path(request, "/flood")) {
        handle_flood(request);
    } else if (is_path(request, "/hang")) {
        handle_hang(request);
    } else if (is_path(request, "/hold")) {
        handle_hold(request);
    } else if (is_path(request, "/answered-hang")) {
        answer_text(request, 200, "already");
        char c;
        assert_int_equal(read(seen.gate[0], &c, 1), 1);
    } else {
        answer_text(request, 404, "what");
    }
}

static void handle_busy(struct rg_http_request *request, void *context)
{
    (void)context;
    answer_text(request, 503, "busy");
}

static void handle_hung(struct rg_http_request *request, void *context)
{
    (void)context;
    assert_true(rg_http_given_up(request));
    answer_text(request, 503, "hung");
}

static void handle_refused(struct rg_http_request *request, void *context)
{
    (void)context;
    answer_text(request, rg_code_http_status(rg_http_refusal(request)),
                rg_http_refusal_reason(request));
}

static void handle_done(struct rg_http_request *request, const struct rg_http_done *done,
                        void *context)
{
    (void)context;
    pthread_mutex_lock(&seen.lock);
    seen.done_count++;
    seen.done = *done;
    seen.done_given_up = rg_http_given_up(request);
    snprintf(seen.done_path, sizeof seen.done_path, "%.*s", RG_SPAN_ARG(rg_http_path(request)));
    pthread_mutex_unlock(&seen.lock);
}

/* ---- Start, stop, waiting ---- */

static struct rg_http_config config_for_tests(void)
{
    return (struct rg_http_config){
        .address = "127.0.0.1",
        .connections_max = 64,
        .workers_max = 8,
        .connection_memory = 32768,
        .header_count_max = 20,
        .idle_timeout_ms = 10000,
        .handler_timeout_ms = 10000,
        .drain_max = 4 * MIB,
        .reads_here = reads_here,
        .handler = handle,
        .busy = handle_busy,
        .hung = handle_hung,
        .refused = handle_refused,
        .done = handle_done,
    };
}

static void start_with(const struct rg_http_config *config)
{
    struct rg_error err = RG_ERROR_INIT;
    /* The watcher of an earlier server, whose handler hung, may still be at its end. */
    pthread_mutex_lock(&seen.lock);
    seen.done_count = 0;
    pthread_mutex_unlock(&seen.lock);
    atomic_store(&seen.released, 0);
    atomic_store(&seen.handled, 0);
    atomic_store(&seen.body_error, 1);
    atomic_store(&seen.stream_error, 1);
    assert_int_equal(pipe2(seen.gate, O_CLOEXEC), 0);
    if (rg_http_start(config, &server, &err) != 0) {
        fail_msg("%s", err.message);
    }
}

static void start(void)
{
    struct rg_http_config config = config_for_tests();
    start_with(&config);
}

static void stop(void)
{
    assert_int_equal(rg_http_stop(server, 5000), 0);
    close(seen.gate[0]);
    close(seen.gate[1]);
}

static struct rg_http_done wait_done(unsigned count)
{
    struct rg_http_done done = {0};
    bool reached = false;
    for (int i = 0; i < WIRE_TIMEOUT_MS && !reached; i++) {
        pthread_mutex_lock(&seen.lock);
        reached = seen.done_count >= count;
        done = seen.done;
        pthread_mutex_unlock(&seen.lock);
        if (!reached) {
            usleep(1000);
        }
    }
    assert_true(reached);
    return done;
}

static struct rg_http_counters counters(void)
{
    struct rg_http_counters now;
    rg_http_counters(server, &now);
    return now;
}

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        int left_ = WIRE_TIMEOUT_MS;                                                               \
        while (!(condition) && left_-- > 0) {                                                      \
            usleep(1000);                                                                          \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

static int dial(void)
{
    return wire_connect(rg_http_port(server));
}

static void assert_answer(int fd, int status, const char *body)
{
    WIRE_ANSWER(answer);
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, status);
    assert_true(answer.whole);
    assert_string_equal(rg_buf_text(&answer.body), body);
}

/* Sends one request on a connection of its own, and expects an answer. */
static void assert_exchange(const char *request, int status, const char *body)
{
    int fd = dial();
    wire_send(fd, request);
    assert_answer(fd, status, body);
    close(fd);
}

/* ---- Tests ---- */

static void test_keep_alive_and_pipelining(void **state)
{
    (void)state;
    start();
    int fd = dial();
    for (int i = 0; i < 5; i++) {
        wire_send(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_answer(fd, 200, "hello");
    }
    wire_send(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
                  "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                  "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_answer(fd, 200, "hello");
    assert_answer(fd, 200, "3 96354");
    assert_answer(fd, 200, "hello");
    close(fd);
    struct rg_http_done done = wait_done(8);
    assert_int_equal(done.status, 200);
    assert_int_equal(done.bytes_sent, 5);
    assert_true(done.sent_whole);
    assert_true(done.handler_ns > 0 && done.total_ns >= done.handler_ns);
    WAIT_FOR(atomic_load(&seen.released) == 8);
    stop();
}

static void test_old_version(void **state)
{
    (void)state;
    start();
    int fd = dial();
    WIRE_ANSWER(answer);
    wire_send(fd, "GET /hello HTTP/1.0\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 200);
    assert_string_equal(wire_field(&answer, "Connection"), "close");
    assert_true(wire_is_closed(fd));
    close(fd);

    fd = dial();
    wire_send(fd, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_string_equal(wire_field(&answer, "Connection"), "Keep-Alive");
    wire_send(fd, "POST /stream HTTP/1.0\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_false(answer.chunked);
    assert_string_equal(wire_field(&answer, "Connection"), "close");
    assert_true(strstr(rg_buf_text(&answer.body), "<a/>") != NULL);
    close(fd);
    stop();
}

static void test_mirror(void **state)
{
    (void)state;
    start();
    assert_exchange("POST /mirror HTTP/1.1\r\nHost: a\r\nX-One:  1 \r\nx-two:\r\nx-one: 2\r\n"
                    "Content-Length: 0\r\n\r\n",
                    200,
                    "POST|/mirror||HTTP/1.1|0|0\nHost=a\nX-One=1\nx-two=\nx-one=2\n"
                    "Content-Length=0\npeer 127.0.0.1\nlocal 127.0.0.1\n");
    assert_exchange(
        "GET /mirror?a=%2F+b&&c HTTP/1.1\r\nHost: a\r\n\r\n", 200,
        "GET|/mirror|a=%2F+b&&c|HTTP/1.1|-1|0\nHost=a\npeer 127.0.0.1\nlocal 127.0.0.1\n");
    assert_exchange("GET http://a/mirror?x HTTP/1.1\r\nHost: a\r\n\r\n", 200,
                    "GET|/mirror|x|HTTP/1.1|-1|0\nHost=a\npeer 127.0.0.1\nlocal 127.0.0.1\n");
    /* The raw path, not the decoded one. */
    assert_exchange("GET /%6dirror HTTP/1.1\r\nHost: a\r\n\r\n", 404, "what");
    stop();
}

static void test_request_ids(void **state)
{
    (void)state;
    start();
    int fd = dial();
    char first[64] = "";
    for (int i = 0; i < 2; i++) {
        WIRE_ANSWER(answer);
        wire_send(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        wire_read(fd, &answer, false);
        const char *id = wire_field(&answer, "x-amz-request-id");
        assert_non_null(id);
        assert_int_equal(strlen(id), 16);
        assert_int_equal(strspn(id, "0123456789ABCDEF"), 16);
        assert_string_not_equal(id, first);
        snprintf(first, sizeof first, "%s", id);
    }
    close(fd);
    stop();
}

static void test_kinds_of_answer(void **state)
{
    (void)state;
    start();
    int fd = dial();
    WIRE_ANSWER(answer);
    wire_send(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.body.len, 8 * MIB);
    assert_int_equal((unsigned char)answer.body.data[1000], (unsigned char)(1000 * 7));

    wire_send(fd, "GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 206);
    assert_int_equal(answer.body.len, MIB);
    assert_int_equal((unsigned char)answer.body.data[5], (unsigned char)((MIB + 5) * 7));

    wire_send(fd, "GET /small-file HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.body.len, 100);
    assert_int_equal((unsigned char)answer.body.data[0], 70);

    wire_send(fd, "HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, true);
    assert_string_equal(wire_field(&answer, "Content-Length"), "123456789012");
    wire_send(fd, "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, true);
    assert_string_equal(wire_field(&answer, "Content-Length"), "5");
    wire_send(fd, "GET /not-modified HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 304);
    assert_string_equal(wire_field(&answer, "Content-Length"), "42");
    wire_send(fd, "DELETE /no-content HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 204);
    assert_null(wire_field(&answer, "Content-Length"));
    wire_send(fd, "GET /bad-header HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 200);
    assert_null(wire_field(&answer, "X-Split"));
    assert_null(wire_field(&answer, "Set-Cookie"));
    wire_send(fd, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 500);
    wire_send(fd, "HEAD /head-unknown HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, true);
    assert_string_equal(wire_field(&answer, "Content-Length"), "0");
    wire_send(fd, "GET /close HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_string_equal(wire_field(&answer, "Connection"), "close");
    assert_true(wire_is_closed(fd));
    close(fd);
    stop();
}

/* A file that ends before its promised length must not look whole. */
static void test_short_file(void **state)
{
    (void)state;
    start();
    int fd = dial();
    WIRE_ANSWER(answer);
    uint64_t begun_ms = rg_clock_ms();
    wire_send(fd, "GET /short-file HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_false(answer.whole);
    /* Well before the idle time-out: a thread must not spin until then. */
    assert_true(rg_clock_ms() - begun_ms < 8000);
    close(fd);
    assert_false(wait_done(1).sent_whole);
    stop();
}

static char *make_body(size_t len, char text[64])
{
    char *body = malloc(len);
    uint32_t sum = 0;
    assert_non_null(body);
    for (size_t i = 0; i < len; i++) {
        body[i] = (char)(i * 13 + i / 1000);
        sum = sum * 31 + (unsigned char)body[i];
    }
    snprintf(text, 64, "%zu %u", len, sum);
    return body;
}

static void test_bodies_of_all_sizes(void **state)
{
    (void)state;
    start();
    static const size_t sizes[] = {0, 1, 1000, 65536, 65537, 262144, 262145, MIB, 5 * MIB + 3};
    int fd = dial();
    for (size_t i = 0; i < RG_ARRAY_LENGTH(sizes); i++) {
        char expected[64];
        char head[128];
        char *body = make_body(sizes[i], expected);
        snprintf(head, sizeof head, "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
                 sizes[i]);
        wire_send(fd, head);
        assert_true(wire_send_bytes(fd, body, sizes[i]));
        assert_answer(fd, 200, expected);
        free(body);
        assert_int_equal(wait_done((unsigned)i + 1).bytes_received, sizes[i]);
    }
    close(fd);
    stop();
}

/* Large bodies come in whole blocks, however the client cuts what it sends, and others on the same
 * connection as ever. */
static void test_blocks(void **state)
{
    (void)state;
    start();
    static const size_t sizes[] = {100000,
                                   RG_HTTP_LARGE_BODY - 1,
                                   RG_HTTP_LARGE_BODY,
                                   5 * MIB + 3,
                                   1,
                                   6 * MIB - 1,
                                   MIB + 70000,
                                   9 * MIB};
    int fd = dial();
    unsigned seed = 1;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(sizes); i++) {
        char expected[64];
        char head[128];
        char *body = make_body(sizes[i], expected);
        snprintf(head, sizeof head,
                 "PUT /blocks HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", sizes[i]);
        wire_send(fd, head);
        for (size_t at = 0; at < sizes[i];) {
            size_t len = RG_MIN((size_t)rand_r(&seed) % 700000 + 1, sizes[i] - at);
            assert_true(wire_send_bytes(fd, body + at, len));
            at += len;
        }
        assert_answer(fd, 200, expected);
        free(body);
        assert_int_equal(wait_done((unsigned)i + 1).bytes_received, sizes[i]);
    }
    close(fd);
    stop();
}

/* A block is the handler's until it asks for the next, whatever the connection does meanwhile. */
static void test_a_block_stays(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.handler_timeout_ms = 3000;
    config.drain_max = 16 * MIB;
    start_with(&config);
    char expected[64];
    char *body = make_body(8 * MIB, expected);
    char head[128];
    snprintf(head, sizeof head,
             "PUT /slow-blocks HTTP/1.1\r\nHost: a\r\nContent-Length: %u\r\n\r\n", 8 * MIB);
    /* Given up. The rest is discarded, and the connection goes on with another large body. */
    int fd = dial();
    wire_send(fd, head);
    assert_true(wire_send_bytes(fd, body, 8 * MIB));
    assert_answer(fd, 503, "hung");
    assert_int_equal(counters().stuck, 1);
    wire_send(fd, "PUT /blocks HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n");
    assert_true(wire_send_bytes(fd, body, 8 * MIB));
    assert_answer(fd, 200, expected);
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    WAIT_FOR(counters().stuck == 0);
    WAIT_FOR(atomic_load(&seen.body_error) == -RG_CANCELLED);
    close(fd);
    stop();
    /* The client goes away in the middle of the second block. */
    config.handler_timeout_ms = 120000;
    start_with(&config);
    fd = dial();
    wire_send(fd, head);
    assert_true(wire_send_bytes(fd, body, MIB + MIB / 2));
    WAIT_FOR(atomic_load(&seen.handled) == 1);
    close(fd);
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    WAIT_FOR(atomic_load(&seen.body_error) == -RG_INCOMPLETE_BODY);
    WAIT_FOR(atomic_load(&seen.released) == 1);
    free(body);
    stop();
}

static void test_chunked_body(void **state)
{
    (void)state;
    start();
    int fd = dial();
    wire_send(fd, "PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "1\r\na\r\n2;x=y\r\nbc\r\n0\r\nX-Trailer: 1\r\n\r\n");
    assert_answer(fd, 200, "3 96354");
    char expected[64];
    char *body = make_body(3 * MIB, expected);
    wire_send(fd, "PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < 3 * MIB; at += 3 * MIB / 64) {
        char size[32];
        snprintf(size, sizeof size, "%x\r\n", 3 * MIB / 64);
        wire_send(fd, size);
        wire_send_bytes(fd, body + at, 3 * MIB / 64);
        wire_send(fd, "\r\n");
    }
    wire_send(fd, "0\r\n\r\n");
    assert_answer(fd, 200, expected);
    free(body);

    /* Malformed: the library answers by itself, the worker learns that the body broke off. */
    wire_send(fd, "PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naXY");
    WIRE_ANSWER(answer);
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 400);
    assert_true(wire_is_closed(fd));
    close(fd);
    wait_done(3);
    assert_int_equal(atomic_load(&seen.body_error), -RG_INCOMPLETE_BODY);
    stop();
}

static void test_expect_continue(void **state)
{
    (void)state;
    start();
    int fd = dial();
    WIRE_ANSWER(answer);
    /* The body is wanted. */
    wire_send(fd, "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                  "Expect: 100-continue\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 100);
    wire_send(fd, "abc");
    assert_answer(fd, 200, "3 96354");
    /* It is not: the answer comes instead of the invitation. */
    wire_send(fd, "PUT /early HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                  "Expect: 100-continue\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 403);
    assert_string_equal(rg_buf_text(&answer.body), "no");
    assert_string_equal(wire_field(&answer, "Connection"), "close");
    assert_true(wire_is_closed(fd));
    close(fd);
    stop();
}

/* An error before the body was read reaches the client, and the connection lives on. */
static void test_early_answer_is_drained(void **state)
{
    (void)state;
    start();
    int fd = dial();
    char expected[64];
    char *body = make_body(3 * MIB, expected);
    static const char *const paths[] = {"early", "partial", "early", "partial"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(paths); i++) {
        size_t len = i < 2 ? RG_HTTP_LARGE_BODY - 1 : 3 * MIB;
        char head[128];
        snprintf(head, sizeof head, "PUT /%s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
                 paths[i], len);
        wire_send(fd, head);
        assert_true(wire_send_bytes(fd, body, len));
        assert_answer(fd, i % 2 ? 507 : 403, i % 2 ? "full" : "no");
    }
    wire_send(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_answer(fd, 200, "hello");
    free(body);
    close(fd);
    stop();
}

/* Beyond drain_max the answer still arrives, and the connection is closed. */
static void test_early_answer_over_the_bound(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.drain_max = MIB;
    start_with(&config);
    char expected[64];
    char *body = make_body(6 * MIB, expected);
    /* Known to be long: answered before the body. Then chunked: in the middle of it. */
    static const char *const heads[] = {
        "PUT /early HTTP/1.1\r\nHost: a\r\nContent-Length: 6291456\r\n\r\n",
        "PUT /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n600000\r\n",
        "PUT /partial HTTP/1.1\r\nHost: a\r\nContent-Length: 6291456\r\n\r\n",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(heads); i++) {
        int fd = dial();
        WIRE_ANSWER(answer);
        wire_send(fd, heads[i]);
        wire_send_bytes(fd, body, 6 * MIB);
        wire_read(fd, &answer, false);
        assert_int_equal(answer.status, i == 2 ? 507 : 403);
        assert_true(answer.whole);
        assert_string_equal(wire_field(&answer, "Connection"), "close");
        assert_string_equal(wire_field(&answer, "Content-Type"), "text/plain");
        assert_true(wire_is_closed(fd));
        close(fd);
        struct rg_http_done done = wait_done((unsigned)i + 1);
        assert_int_equal(done.status, i == 2 ? 507 : 403);
        assert_true(done.sent_whole);
    }
    free(body);
    stop();
}

static void test_refusals(void **state)
{
    (void)state;
    start();
    static const struct {
        const char *request;
        size_t len;
        int status;
    } cases[] = {
#define CASE(text, status) {text, sizeof text - 1, status}
        CASE("GET /hello HTTP/1.1\r\n\r\n", 400),
        CASE("GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
             "\r\n0\r\n\r\n",
             400),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
             400),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
             400),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", 400),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3x\r\n\r\nabc", 400),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
             413),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
             501),
        CASE("PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
             "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             400),
        CASE("PUT /sum HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        CASE("GET /hello HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        CASE("GET /hello HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n folded\r\n\r\n", 400),
        CASE("GET /hello HTTP/1.1\r\nHost: a\r\nX-A: 1\0Content-Length: 3\r\n\r\n", 400),
        CASE("GET /hel\0lo HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        CASE("GET /hello HTTP/1.1\r\nHost: a\nX-A: 1\r\n\r\n", 400),
        CASE("GET /hello HTTP/1.1\nHost: a\r\n\r\n", 400),
        CASE("GET /hello HTTP/1.1\r\nHost: a\r\nX-A: 1\rX-B: 2\r\n\r\n", 400),
        CASE("GET /he llo HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        CASE("GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        CASE("G@T /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        CASE("GET hello HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        CASE("GET http://b/hello HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        CASE("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400),
        CASE("GET /hello HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        CASE("GET /hello HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
#undef CASE
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        int fd = dial();
        char waste[1024];
        WIRE_ANSWER(answer);
        wire_send_bytes(fd, cases[i].request, cases[i].len);
        wire_read(fd, &answer, false);
        if (answer.status != cases[i].status) {
            fail_msg("%s: %d", cases[i].request, answer.status);
        }
        /* The library sends the head of its own answer to a bad Content-Length twice. */
        while (wire_is_readable(fd, WIRE_TIMEOUT_MS) && recv(fd, waste, sizeof waste, 0) > 0) {
        }
        assert_true(wire_is_closed(fd));
        close(fd);
    }
    assert_int_equal(atomic_load(&seen.handled), 0);
    stop();
}

static void test_long_heads(void **state)
{
    (void)state;
    start();
    /* As many fields as allowed, and one more. */
    for (int extra = 0; extra < 2; extra++) {
        RG_BUF(text, 100000);
        rg_buf_add_text(&text, "GET /hello HTTP/1.1\r\nHost: a\r\n");
        for (int i = 0; i < 19 + extra; i++) {
            rg_buf_addf(&text, "X-%d: 1\r\n", i);
        }
        rg_buf_add_text(&text, "\r\n");
        int fd = dial();
        WIRE_ANSWER(answer);
        wire_send(fd, rg_buf_text(&text));
        wire_read(fd, &answer, false);
        assert_int_equal(answer.status, extra ? 400 : 200);
        close(fd);
    }
    /* More bytes than the connection has memory: an answer or an end, but no request. */
    static const char *const starts[] = {"GET /hello HTTP/1.1\r\nHost: a\r\nX: ", "GET /"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(starts); i++) {
        char *filler = calloc(1, 100000);
        assert_non_null(filler);
        memset(filler, 'x', 99999);
        int fd = dial();
        WIRE_ANSWER(answer);
        wire_send(fd, starts[i]);
        wire_send(fd, filler);
        wire_send(fd, "\r\n\r\n");
        wire_read(fd, &answer, false);
        assert_true(answer.status == 0 || answer.status == 431 || answer.status == 414);
        free(filler);
        close(fd);
    }
    assert_int_equal(atomic_load(&seen.handled), 1);
    stop();
}

static void test_stream(void **state)
{
    (void)state;
    start();
    int fd = dial();
    WIRE_ANSWER(answer);
    wire_send(fd, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_true(answer.whole && answer.chunked);
    const char *text = answer.body.data;
    assert_memory_equal(text, "<?xml?>", 7);
    size_t spaces = strspn(text + 7, " ");
    assert_in_range(spaces, 3, 7);
    assert_string_equal(text + 7 + spaces, "<a/>");
    struct rg_http_done done = wait_done(1);
    assert_int_equal(done.bytes_sent, answer.body.len);
    assert_true(done.handler_ns < 200000000 && done.total_ns > 300000000);

    wire_send(fd, "GET /cut-stream HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 200);
    assert_false(answer.whole);
    assert_string_equal(rg_buf_text(&answer.body), "<?xml?><a/>");
    close(fd);
    assert_false(wait_done(2).sent_whole);
    stop();
}

/* A worker that hangs inside a stream cuts it, unless it is kept alive. */
static void test_hung_stream(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.handler_timeout_ms = 200;
    start_with(&config);
    int fd = dial();
    WIRE_ANSWER(answer);
    wire_send(fd, "GET /late-stream HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_false(answer.whole);
    assert_int_equal(counters().hung, 1);
    close(fd);
    fd = dial();
    wire_send(fd, "GET /long-stream HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_true(answer.whole);
    close(fd);
    WAIT_FOR(counters().stuck == 0);
    stop();
}

static void test_client_leaves(void **state)
{
    (void)state;
    start();
    /* In the middle of the body. */
    int fd = dial();
    wire_send(fd, "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc");
    WAIT_FOR(atomic_load(&seen.handled) == 1);
    close(fd);
    struct rg_http_done done = wait_done(1);
    assert_int_equal(done.status, 0);
    assert_int_equal(done.bytes_received, 3);
    assert_false(done.sent_whole);
    assert_int_equal(atomic_load(&seen.body_error), -RG_INCOMPLETE_BODY);
    /* In the middle of a streamed answer. */
    fd = dial();
    WIRE_ANSWER(answer);
    wire_send(fd, "GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(wire_is_readable(fd, WIRE_TIMEOUT_MS));
    close(fd);
    done = wait_done(2);
    assert_int_equal(done.status, 200);
    assert_false(done.sent_whole);
    assert_int_equal(atomic_load(&seen.stream_error), -RG_DISCONNECTED);
    /* In the middle of a file. */
    fd = dial();
    int small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    wire_send(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(wire_is_readable(fd, WIRE_TIMEOUT_MS));
    close(fd);
    done = wait_done(3);
    assert_int_equal(done.status, 200);
    assert_false(done.sent_whole);
    assert_true(done.bytes_sent < 8 * MIB);
    /* It only closes its sending side: it still gets its answer. */
    fd = dial();
    wire_send(fd, "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    shutdown(fd, SHUT_WR);
    assert_answer(fd, 200, "3 96354");
    close(fd);
    stop();
}

static void test_idle_clients(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.idle_timeout_ms = 400;
    start_with(&config);
    /* Nothing sent; half a head; a head that trickles; a body that stops; an answer not taken. */
    int quiet = dial();
    int half = dial();
    int trickle = dial();
    int body = dial();
    int taker = dial();
    int small = 4096;
    setsockopt(taker, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    uint64_t begun_ms = rg_clock_ms();
    wire_send(half, "GET /hello HTTP/1.1\r\nHo");
    wire_send(body, "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc");
    wire_send(taker, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    while (rg_clock_ms() - begun_ms < 700) {
        wire_send_bytes(trickle, "G", 1);
        usleep(20000);
    }
    assert_true(wire_is_closed(quiet));
    assert_true(wire_is_closed(half));
    assert_true(wire_is_closed(trickle));
    assert_true(wire_is_closed(body));
    wait_done(2);
    assert_int_equal(atomic_load(&seen.body_error), -RG_REQUEST_TIMEOUT);
    assert_true(rg_clock_ms() - begun_ms < 5000);
    close(quiet);
    close(half);
    close(trickle);
    close(body);
    close(taker);
    assert_int_equal(counters().idle_closed, 5);
    /* A slow reader that moves is left alone, and so is a client that waits for us. */
    int fd = dial();
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    wire_send(fd, "GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    begun_ms = rg_clock_ms();
    size_t total = 0;
    while (rg_clock_ms() - begun_ms < 1000) {
        char block[2000];
        ssize_t got = recv(fd, block, sizeof block, 0);
        assert_true(got > 0);
        total += (size_t)got;
        usleep(10000);
    }
    assert_true(total < MIB);
    WIRE_ANSWER(answer);
    int waiter = dial();
    wire_send(waiter, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    usleep(1000000);
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    assert_answer(waiter, 200, "late");
    close(waiter);
    close(fd);
    stop();
}

static void test_hung_handler(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.handler_timeout_ms = 200;
    config.workers_max = 3;
    start_with(&config);
    int hung = dial();
    wire_send(hung, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    int upload = dial();
    wire_send(upload, "PUT /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n");
    assert_exchange("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, "hello");
    assert_answer(hung, 503, "hung");
    char *body = calloc(1, 2000000);
    assert_non_null(body);
    assert_true(wire_send_bytes(upload, body, 2000000));
    free(body);
    assert_answer(upload, 503, "hung");
    pthread_mutex_lock(&seen.lock);
    assert_true(seen.done_given_up);
    pthread_mutex_unlock(&seen.lock);
    assert_int_equal(counters().stuck, 2);
    assert_int_equal(counters().hung, 2);
    assert_int_equal(atomic_load(&seen.released), 1);
    /* The connection lives on; so do others, on the worker that is left. */
    wire_send(hung, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_answer(hung, 200, "hello");
    /* All taken. */
    int third = dial();
    wire_send(third, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    WAIT_FOR(atomic_load(&seen.handled) == 5);
    assert_exchange("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 503, "busy");
    assert_exchange("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 503, "busy");
    assert_exchange("PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    503, "busy");
    assert_exchange("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                    "Expect: 100-continue\r\n\r\n",
                    503, "busy");
    assert_int_equal(counters().busy, 4);
    assert_answer(third, 503, "hung");
    assert_int_equal(counters().stuck, 3);
    assert_int_equal(write(seen.gate[1], "xxx", 3), 3);
    WAIT_FOR(counters().stuck == 0);
    WAIT_FOR(atomic_load(&seen.body_error) == -RG_CANCELLED);
    assert_exchange("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, "hello");
    close(hung);
    close(upload);
    close(third);
    WAIT_FOR(atomic_load(&seen.released) == 6);
    stop();
}

/* An answer that was given counts, even when the handler then hangs in its clean-up. */
static void test_hung_after_answer(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.handler_timeout_ms = 200;
    start_with(&config);
    assert_exchange("GET /answered-hang HTTP/1.1\r\nHost: a\r\n\r\n", 200, "already");
    assert_int_equal(counters().stuck, 1);
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    WAIT_FOR(counters().stuck == 0);
    stop();
}

/* Reads on their connection's own thread: what another thread does when one hangs. */
static void test_hung_read(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.handler_timeout_ms = 200;
    config.workers_max = 3;
    start_with(&config);
    int fd = dial();
    wire_send(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_answer(fd, 200, "hello");
    assert_exchange("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, "hello");
    wait_done(2); /* theirs, so that the third is of the one that hangs */
    WIRE_ANSWER(answer);
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 503);
    assert_string_equal(rg_buf_text(&answer.body), "hung");
    assert_string_equal(wire_field(&answer, "Connection"), "close");
    assert_string_equal(wire_field(&answer, "Content-Type"), "text/plain");
    assert_true(wire_is_closed(fd));
    close(fd);
    struct rg_http_done done = wait_done(3);
    assert_int_equal(done.status, 503);
    assert_true(done.sent_whole);
    assert_int_equal(done.bytes_sent, 4);
    assert_true(seen.done_given_up);
    assert_int_equal(counters().stuck, 1);
    assert_int_equal(counters().hung, 1);
    assert_int_equal(counters().requests, 0);
    assert_int_equal(atomic_load(&seen.released), 2);

    int head = dial();
    wire_send(head, "HEAD /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_read(head, &answer, true);
    assert_int_equal(answer.status, 503);
    assert_string_equal(wire_field(&answer, "Content-Length"), "4");
    assert_true(wire_is_closed(head));
    close(head);
    /* The places of all three kinds are the same ones. */
    assert_exchange("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 200, "3 96354");
    int put = dial();
    wire_send(put, "PUT /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    WAIT_FOR(atomic_load(&seen.handled) == 6);
    assert_exchange("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 503, "busy");
    assert_answer(put, 503, "hung");
    close(put);
    assert_int_equal(counters().stuck, 3);
    assert_int_equal(write(seen.gate[1], "xxx", 3), 3);
    WAIT_FOR(counters().stuck == 0);
    WAIT_FOR(counters().connections == 0);
    assert_exchange("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, "hello");
    WAIT_FOR(atomic_load(&seen.released) == 7);
    /* It had answered, and hangs afterwards. */
    assert_exchange("GET /answered-hang HTTP/1.1\r\nHost: a\r\n\r\n", 200, "already");
    assert_int_equal(counters().stuck, 1);
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    WAIT_FOR(counters().stuck == 0);
    /* Streams need a worker. */
    assert_exchange("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", 500, "no stream");
    stop();
}

/* A read that hangs on its connection's thread does not keep the server from stopping. */
static void test_stop_with_hung_read(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.handler_timeout_ms = 100;
    start_with(&config);
    int fd = dial();
    wire_send(fd, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_answer(fd, 503, "hung");
    uint64_t begun_ms = rg_clock_ms();
    assert_int_equal(rg_http_stop(server, 100), 1);
    assert_true(rg_clock_ms() - begun_ms < 9000);
    close(fd);
    /* The end of the process would come now; here the thread goes on and frees all. */
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    WAIT_FOR(atomic_load(&seen.released) == 1);
    usleep(100000);
    close(seen.gate[0]);
    close(seen.gate[1]);
}

static void test_too_many_connections(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.connections_max = 3;
    start_with(&config);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = dial();
        wire_send(fds[i], "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_answer(fds[i], 200, "hello");
    }
    /* Some are told so, with whatever they ask. */
    int told[RG_HTTP_CONNECTIONS_OVER];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(told); i++) {
        told[i] = dial();
    }
    WAIT_FOR(counters().connections == 3 + RG_HTTP_CONNECTIONS_OVER);
    int extra = dial();
    assert_true(wire_is_closed(extra));
    close(extra);
    assert_int_equal(counters().refused_connections, RG_HTTP_CONNECTIONS_OVER + 1);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(told); i++) {
        wire_send(told[i], "PUT /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_answer(told[i], 503, "busy");
        assert_true(wire_is_closed(told[i]));
        close(told[i]);
    }
    WAIT_FOR(counters().connections == 3);
    close(fds[0]);
    WAIT_FOR(counters().connections == 2);
    fds[0] = dial();
    wire_send(fds[0], "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_answer(fds[0], 200, "hello");
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
    stop();
}

struct late_byte {
    int fd;
    useconds_t after_us;
};

static void *write_later(void *argument)
{
    const struct late_byte *late = argument;
    usleep(late->after_us);
    assert_int_equal(write(late->fd, "x", 1), 1);
    return NULL;
}

static void test_stop_drains(void **state)
{
    (void)state;
    start();
    int idle = dial();
    int fd = dial();
    wire_send(fd, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    WAIT_FOR(atomic_load(&seen.handled) == 1);
    struct late_byte late = {seen.gate[1], 200000};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_later, &late), 0);
    uint64_t begun_ms = rg_clock_ms();
    assert_int_equal(rg_http_stop(server, 10000), 0);
    assert_in_range(rg_clock_ms() - begun_ms, 150, 5000);
    pthread_join(thread, NULL);
    WIRE_ANSWER(answer);
    wire_read(fd, &answer, false);
    assert_string_equal(rg_buf_text(&answer.body), "late");
    assert_string_equal(wire_field(&answer, "Connection"), "close");
    assert_true(wire_is_closed(idle));
    close(idle);
    close(fd);
    close(seen.gate[0]);
    close(seen.gate[1]);
}

static void test_stop_cuts_off(void **state)
{
    (void)state;
    start();
    int fd = dial();
    wire_send(fd, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    int upload = dial();
    wire_send(upload, "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc");
    WAIT_FOR(atomic_load(&seen.handled) == 2);
    uint64_t begun_ms = rg_clock_ms();
    assert_int_equal(rg_http_stop(server, 100), 2);
    assert_true(rg_clock_ms() - begun_ms < 5000);
    assert_true(wire_is_closed(fd));
    assert_true(wire_is_closed(upload));
    close(fd);
    close(upload);
    /* The stuck worker outlives the server, and is freed. */
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    WAIT_FOR(atomic_load(&seen.released) == 2);
    usleep(50000);
    close(seen.gate[0]);
    close(seen.gate[1]);
}

static void *stop_now(void *argument)
{
    (void)argument;
    (void)rg_http_stop(server, 0);
    return NULL;
}

/* The client, whose connection is not closed, knows that its memory is still the gateway's. */
static void test_stop_waits_for_what_is_held(void **state)
{
    (void)state;
    start();
    int fd = dial();
    wire_send(fd, "PUT /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    WAIT_FOR(atomic_load(&seen.handled) == 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_now, NULL), 0);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    int early = poll(&readable, 1, 1000);
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    pthread_join(thread, NULL);
    assert_int_equal(early, 0);
    assert_int_equal(poll(&readable, 1, 5000), 1); /* the answer, or the end */
    close(fd);
    close(seen.gate[0]);
    close(seen.gate[1]);
}

static void test_start_failures(void **state)
{
    (void)state;
    start();
    struct rg_http_server *second = NULL;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_http_config config = config_for_tests();
    config.port = rg_http_port(server);
    assert_int_equal(rg_http_start(&config, &second, &err), -RG_SERVICE_UNAVAILABLE);
    assert_non_null(strstr(err.message, "is in use"));
    config.port = 0;
    config.address = "203.0.113.7";
    assert_int_equal(rg_http_start(&config, &second, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "203.0.113.7"));
    config.address = "not an address";
    assert_int_equal(rg_http_start(&config, &second, &err), -RG_SETTING);
    config.address = "";
    config.tls_cert = "/nonexistent.pem";
    assert_int_equal(rg_http_start(&config, &second, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "together"));
    config.tls_key = "/nonexistent.pem";
    assert_int_equal(rg_http_start(&config, &second, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "/nonexistent.pem"));
    stop();
}

/* All addresses: IPv4 works whether or not there is IPv6, and peers are shown in their own form. */
static void test_all_addresses(void **state)
{
    (void)state;
    struct rg_http_config config = config_for_tests();
    config.address = "";
    start_with(&config);
    assert_exchange("GET /mirror HTTP/1.1\r\nHost: a\r\n\r\n", 200,
                    "GET|/mirror||HTTP/1.1|-1|0\nHost=a\npeer 127.0.0.1\nlocal 127.0.0.1\n");
    stop();
}

/* ---- TLS ---- */

static char tls_dir[] = "/tmp/rg-test-tls-XXXXXX";

static void make_certificate(const char *name, const char *common_name)
{
    char command[1024];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
             "-subj /CN=%s -keyout %s/%s.key -out %s/%s.crt 2>/dev/null",
             common_name, tls_dir, name, tls_dir, name);
    assert_int_equal(system(command), 0);
}

static void copy_file(const char *from, const char *to)
{
    char command[1024];
    snprintf(command, sizeof command, "cp %s/%s %s/%s", tls_dir, from, tls_dir, to);
    assert_int_equal(system(command), 0);
}

struct tls_client {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

static int tls_open(struct tls_client *client, const char *priorities)
{
    client->fd = dial();
    gnutls_certificate_allocate_credentials(&client->credentials);
    gnutls_init(&client->session, GNUTLS_CLIENT);
    gnutls_priority_set_direct(client->session, priorities, NULL);
    gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    gnutls_transport_set_int(client->session, client->fd);
    gnutls_handshake_set_timeout(client->session, WIRE_TIMEOUT_MS);
    int rc;
    do {
        rc = gnutls_handshake(client->session);
    } while (rc < 0 && !gnutls_error_is_fatal(rc));
    return rc;
}

static void tls_close(struct tls_client *client)
{
    gnutls_deinit(client->session);
    gnutls_certificate_free_credentials(client->credentials);
    close(client->fd);
}

static void tls_common_name(struct tls_client *client, char *name, size_t room)
{
    unsigned count;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(client->session, &count);
    assert_true(chain && count == 1);
    gnutls_x509_crt_t crt;
    gnutls_x509_crt_init(&crt);
    assert_int_equal(gnutls_x509_crt_import(crt, chain, GNUTLS_X509_FMT_DER), 0);
    assert_int_equal(
        gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &room), 0);
    gnutls_x509_crt_deinit(crt);
}

/* Reads until `len` bytes of body after the head. */
static void tls_exchange(struct tls_client *client, const char *request, int status, size_t len)
{
    RG_BUF(got, 64 << 20);
    assert_int_equal(gnutls_record_send(client->session, request, strlen(request)),
                     strlen(request));
    const char *head_end = NULL;
    while (!head_end || got.len < (size_t)(head_end + 4 - got.data) + len) {
        char *space = rg_buf_reserve(&got, 65536);
        assert_non_null(space);
        ssize_t count = gnutls_record_recv(client->session, space, 65536);
        if (count == GNUTLS_E_AGAIN || count == GNUTLS_E_INTERRUPTED) {
            continue;
        }
        if (count <= 0) {
            fail_msg("%.40s: after %zu bytes (%s): %s", request, got.len, rg_buf_text(&got),
                     gnutls_strerror((int)count));
        }
        rg_buf_grew(&got, (size_t)count);
        head_end = strstr(rg_buf_text(&got), "\r\n\r\n");
    }
    assert_int_equal(atoi(rg_buf_text(&got) + 9), status);
}

static void test_tls(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(tls_dir));
    make_certificate("one", "first");
    make_certificate("two", "second");
    copy_file("one.crt", "use.crt");
    copy_file("one.key", "use.key");
    char cert[64];
    char key[64];
    snprintf(cert, sizeof cert, "%s/use.crt", tls_dir);
    snprintf(key, sizeof key, "%s/use.key", tls_dir);
    struct rg_http_config config = config_for_tests();
    config.tls_cert = cert;
    config.tls_key = key;
    config.drain_max = MIB;
    config.reads_here = true;
    config.handler_timeout_ms =
        3000; /* also enough for 8 MiB under a sanitizer on a busy machine */
    start_with(&config);

    struct tls_client first;
    char name[64];
    assert_int_equal(tls_open(&first, "NORMAL"), 0);
    tls_common_name(&first, name, sizeof name);
    assert_string_equal(name, "first");
    tls_exchange(&first, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, 5);
    tls_exchange(&first, "GET /file HTTP/1.1\r\nHost: a\r\n\r\n", 206, MIB);
    tls_exchange(&first, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", 200, 8 * MIB);
    tls_exchange(&first, "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 200, 7);

    /* New connections get the new certificate, the old one goes on. */
    struct rg_error err = RG_ERROR_INIT;
    copy_file("two.crt", "use.crt");
    assert_int_equal(rg_http_reload_tls(server, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "does not belong"));
    copy_file("two.key", "use.key");
    assert_int_equal(rg_http_reload_tls(server, &err), 0);
    struct tls_client second;
    assert_int_equal(tls_open(&second, "NORMAL:-VERS-ALL:+VERS-TLS1.2"), 0);
    tls_common_name(&second, name, sizeof name);
    assert_string_equal(name, "second");
    tls_exchange(&second, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, 5);
    tls_exchange(&first, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, 5);

    struct tls_client old;
    assert_true(tls_open(&old, "NORMAL:-VERS-ALL:+VERS-TLS1.1") < 0);
    tls_close(&old);

    /* An answer in the middle of a body that is too long to be drained. */
    RG_BUF(long_put, 4 << 20);
    rg_buf_add_text(&long_put, "PUT /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                               "\r\n300000\r\n");
    while (long_put.len < 3 * MIB) {
        rg_buf_add_text(&long_put, "0123456789abcdef0123456789abcdef");
    }
    size_t at = 0;
    while (at < long_put.len) {
        ssize_t sent = gnutls_record_send(second.session, long_put.data + at, long_put.len - at);
        if (sent < 0) {
            break;
        }
        at += (size_t)sent;
    }
    char text[4096];
    ssize_t got = gnutls_record_recv(second.session, text, sizeof text - 1);
    assert_true(got > 0);
    assert_memory_equal(text, "HTTP/1.1 403", 12);
    tls_close(&second);
    /* And one past a thread that hangs. */
    tls_exchange(&first, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n", 503, 4);
    assert_int_equal(write(seen.gate[1], "x", 1), 1);
    tls_close(&first);
    WAIT_FOR(counters().stuck == 0);
    stop();

    copy_file("one.key", "use.crt");
    assert_int_equal(rg_http_start(&config, &server, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "no usable certificate"));
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", tls_dir);
    assert_int_equal(system(command), 0);
}

/* Many clients at once, all kinds of requests, for the thread sanitizer's eyes. */
static void *run_client(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    static const char *const requests[] = {
        "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n",
        "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "PUT /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "PUT /early HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n",
        "GET /small-file HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /file HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /cut-stream HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    static const char filler[70000];
    int fd = dial();
    for (int i = 0; i < 60; i++) {
        unsigned kind = (unsigned)rand_r(&seed) % RG_ARRAY_LENGTH(requests);
        WIRE_ANSWER(answer);
        wire_send(fd, requests[kind]);
        if (kind == 3) {
            wire_send_bytes(fd, filler, sizeof filler);
        }
        if (rand_r(&seed) % 8 == 0) {
            close(fd);
            fd = dial();
            continue;
        }
        wire_read(fd, &answer, false);
        if (!answer.whole || answer.status == 503) {
            close(fd);
            fd = dial();
        }
    }
    close(fd);
    return NULL;
}

static void test_many_clients(void **state)
{
    (void)state;
    start();
    pthread_t threads[12];
    for (uintptr_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, (void *)(i + 1)), 0);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    WAIT_FOR(counters().requests == 0);
    WAIT_FOR(counters().connections == 0);
    assert_int_equal(counters().stuck, 0);
    WAIT_FOR(atomic_load(&seen.released) == atomic_load(&seen.handled));
    stop();
}

static int read_here(void **state)
{
    (void)state;
    reads_here = true;
    return 0;
}

static int read_on_workers(void **state)
{
    (void)state;
    reads_here = false;
    return 0;
}

#define HERE(test)                                                                                 \
    {                                                                                              \
#test "_here", test, read_here, read_on_workers, NULL                                      \
    }

int main(void)
{
    /* Handlers without an answer and refused threads are logged: not here. */
    rg_log_setup(open("/dev/null", O_WRONLY | O_CLOEXEC), RG_LOG_HUMAN, RG_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keep_alive_and_pipelining),
        cmocka_unit_test(test_old_version),
        cmocka_unit_test(test_mirror),
        cmocka_unit_test(test_request_ids),
        cmocka_unit_test(test_kinds_of_answer),
        cmocka_unit_test(test_short_file),
        cmocka_unit_test(test_bodies_of_all_sizes),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_a_block_stays),
        cmocka_unit_test(test_chunked_body),
        cmocka_unit_test(test_expect_continue),
        cmocka_unit_test(test_early_answer_is_drained),
        cmocka_unit_test(test_early_answer_over_the_bound),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_long_heads),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_hung_stream),
        cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_idle_clients),
        cmocka_unit_test(test_hung_handler),
        cmocka_unit_test(test_hung_after_answer),
        cmocka_unit_test(test_too_many_connections),
        cmocka_unit_test(test_stop_drains),
        cmocka_unit_test(test_stop_cuts_off),
        cmocka_unit_test(test_stop_waits_for_what_is_held),
        cmocka_unit_test(test_start_failures),
        cmocka_unit_test(test_all_addresses),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_many_clients),
        HERE(test_keep_alive_and_pipelining),
        HERE(test_old_version),
        HERE(test_mirror),
        HERE(test_kinds_of_answer),
        HERE(test_refusals),
        HERE(test_hung_read),
        HERE(test_stop_with_hung_read),
        HERE(test_many_clients),
    };
    cmocka_set_test_filter(getenv("TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
