/*
 * The routes of RDMA sessions over HTTP, with a rail made of memory copies: who gets a session,
 * what is refused and how, and that a transfer moves the bytes and leaves nothing behind. The test
 * is the client's NIC too.
 */
#include "test.h"

#include "fake_store.h"
#include "mock_rc.h"
#include "wire.h"

#include "base/encode.h"
#include "gate/dispatch.h"
#include "gate/http.h"
#include "gate/planes.h"
#include "s3/checksum.h"
#include "s3/date.h"
#include "s3/sigv4.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ACCESS_KEY "TESTACCESSKEY0000001"
#define SECRET_KEY "testSecretKey/0123456789abcdefghijklmnop"
#define FIELDS_MAX 24
#define COOKIE     "5eed1234"

#define CONNECT    "/.s3rdma-rc/connect"
#define DISCONNECT "/.s3rdma-rc/disconnect"
#define PREPARE    "/.hipobj-rc/prepare"
#define READY      "/.hipobj-rc/ready"
#define CANCEL     "/.hipobj-rc/cancel"

/* A client's queue pair: RC, number 0x1a2, GID ::ffff:192.0.2.17, port 1. */
#define QUEUE_PAIR                                                                                 \
    "01a201000000000000000000000000ffffc00002110000000000000000000000000000000000000000010000"

#define PROTOCOL                                                                                   \
    {                                                                                              \
        "x-amz-rdma-protocol", "hipobj-rc-v2"                                                      \
    }

static struct {
    struct rg_settings settings;
    struct rg_store *store;
    struct rg_gate *gate;
    struct rg_planes *planes;
    struct rg_http_server *server;
} world;

static char memory[1 << 20]; /* of the client */

static void set(enum rg_setting_id id, const char *value)
{
    struct rg_error err;
    assert_int_equal(rg_settings_set(&world.settings, id, value, RG_FROM_OPTION, "test", &err), 0);
}

static const struct rg_transport *find_transport(enum rg_transport_kind kind)
{
    return kind == RG_TRANSPORT_RC ? &mock_rc_transport : NULL;
}

static int begin_with(void (*configure)(void))
{
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(summary, 4096);
    mock_rc_reset();
    assert_int_equal(rg_settings_init(&world.settings, &err), 0);
    set(RG_SETTING_root_access_key, ACCESS_KEY);
    set(RG_SETTING_root_secret_key, SECRET_KEY);
    set(RG_SETTING_rdma_memory, "1M");
    set(RG_SETTING_rdma_slot_size, "64K");
    set(RG_SETTING_rdma_staging_max, "1M");
    set(RG_SETTING_rdma_staging_account_max, "1M");
    set(RG_SETTING_rdma_queue_wait, "50ms");
    set(RG_SETTING_connections_max, "64");
    set(RG_SETTING_requests_max, "64");
    set(RG_SETTING_rdma_sessions_max, "64");
    if (configure) {
        configure();
    }
    world.store = fake_store_new();
    assert_int_equal(rg_gate_new(&world.settings, world.store, &world.gate, &err), 0);
    if (rg_planes_open_with(&world.settings, find_transport, &world.planes, &summary, &err) < 0) {
        fail_msg("%s", err.message);
    }
    rg_gate_set_planes(world.gate, world.planes);
    struct rg_http_config config = {
        .address = "127.0.0.1",
        .tls_cert = "",
        .tls_key = "",
        .connections_max = 64,
        .workers_max = 8,
        .connection_memory = 65536,
        .header_count_max = 128,
        .idle_timeout_ms = 20000,
        .handler_timeout_ms = 20000,
        .drain_max = 1 << 20,
        .handler = rg_dispatch,
        .busy = rg_dispatch_busy,
        .hung = rg_dispatch_hung,
        .refused = rg_dispatch_refused,
        .context = world.gate,
    };
    assert_int_equal(rg_http_start(&config, &world.server, &err), 0);
    return 0;
}

static int begin(void **state)
{
    return begin_with(NULL);
}

static void make_narrow(void)
{
    set(RG_SETTING_rdma_sessions_max, "2");
    set(RG_SETTING_rdma_prepare_timeout, "1s");
    set(RG_SETTING_rdma_push_budget, "2s");
}

static int begin_narrow(void **state)
{
    return begin_with(make_narrow);
}

static void limit_the_account(void)
{
    set(RG_SETTING_rdma_sessions_account_max, "2");
    set(RG_SETTING_rdma_staging_max, "4M");
}

static int begin_limited(void **state)
{
    return begin_with(limit_the_account);
}

static void turn_off(void)
{
    set(RG_SETTING_rdma, "off");
}

static int begin_off(void **state)
{
    return begin_with(turn_off);
}

static void too_few_descriptors_stop_the_start(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(summary, 4096);
    struct rg_planes *planes;
    set(RG_SETTING_rdma_sessions_max, "65536");
    set(RG_SETTING_connections_max, "1000000");
    set(RG_SETTING_requests_max, "65536");
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max > 1300000) {
        skip();
    }
    assert_int_equal(rg_planes_open_with(&world.settings, find_transport, &planes, &summary, &err),
                     -RG_SETTING);
    assert_non_null(strstr(err.message, "rdma-sessions-max"));
    assert_non_null(strstr(err.message, "ulimit -Hn"));
}

/* Nothing may be left of any test but sessions that nobody ended. */
static int end(void **state)
{
    struct rg_sessions_state sessions;
    assert_int_equal(rg_http_stop(world.server, 10000), 0);
    for (size_t i = 0; i < rg_planes_count(world.planes); i++) {
        struct rg_plane_state plane;
        rg_planes_state(world.planes, i, &plane);
        assert_int_equal(plane.pool.lanes_leased, 0);
        assert_int_equal(plane.slab.slots_in_use, 0);
    }
    if (rg_planes_session_state(world.planes, &sessions)) {
        for (int kind = 0; kind < RG_SESSION_KIND_COUNT; kind++) {
            assert_int_equal(sessions.taken[kind], 0);
        }
    }
    rg_planes_close(world.planes);
    world.planes = NULL;
    assert_int_equal(mock.lanes_open, 0);
    assert_int_equal(mock.regions, 0);
    assert_int_equal(mock.rails_open, 0);
    rg_gate_free(world.gate);
    fake_store_free(world.store);
    rg_settings_free(&world.settings);
    return 0;
}

/* ---- A client ---- */

struct sending {
    const char *method; /* NULL: POST */
    const char *path;
    const char *fields[FIELDS_MAX][2];
    const char *unsigned_field[2];
    const char *service;     /* NULL: s3 */
    const char *secret;      /* NULL: the right one */
    const char *signed_host; /* NULL: as sent */
    const char *body;
    bool anonymous;
};

static void add(struct rg_header *headers, size_t *count, const char *name, const char *value)
{
    headers[(*count)++] = (struct rg_header){rg_span_text(name), rg_span_text(value)};
}

static void sign(const struct sending *sending, const char *method, struct rg_header *headers,
                 size_t count, const char *host, struct rg_buf *out)
{
    RG_BUF(authorization, 4096);
    struct rg_error err = RG_ERROR_INIT;
    struct rg_sigv4_request request = {
        .method = rg_span_text(method),
        .path = rg_span_text(sending->path),
        .query = RG_SPAN_EMPTY,
        .headers = headers,
        .header_count = count,
    };
    struct rg_sigv4_signer signer = {
        .access_key = RG_SPAN_LITERAL(ACCESS_KEY),
        .secret = rg_span_text(sending->secret ? sending->secret : SECRET_KEY),
        .region = RG_SPAN_LITERAL("us-east-1"),
        .service = rg_span_text(sending->service ? sending->service : "s3"),
    };
    headers[0].value = rg_span_text(sending->signed_host ? sending->signed_host : host);
    assert_int_equal(rg_sigv4_sign(&signer, &request, &authorization, NULL, &err), 0);
    headers[0].value = rg_span_text(host);
    rg_buf_addf(out, "Authorization: %s\r\n", rg_buf_text(&authorization));
}

static void send_request(const struct sending *sending, struct wire_answer *ret_answer)
{
    struct rg_header headers[FIELDS_MAX + 4];
    size_t count = 0;
    char host[32];
    char date[RG_DATE_AMZ_SIZE];
    const char *method = sending->method ? sending->method : "POST";
    snprintf(host, sizeof host, "127.0.0.1:%u", rg_http_port(world.server));
    rg_date_format_amz(time(NULL), date);
    add(headers, &count, "host", host);
    add(headers, &count, "x-amz-date", date);
    add(headers, &count, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    for (size_t i = 0; i < FIELDS_MAX && sending->fields[i][0]; i++) {
        if (sending->fields[i][1]) {
            add(headers, &count, sending->fields[i][0], sending->fields[i][1]);
        }
    }
    RG_BUF(text, 1 << 20);
    rg_buf_addf(&text, "%s %s HTTP/1.1\r\nConnection: close\r\n", method, sending->path);
    if (!sending->anonymous) {
        sign(sending, method, headers, count, host, &text);
    }
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(&text, "%.*s: %.*s\r\n", RG_SPAN_ARG(headers[i].name),
                    RG_SPAN_ARG(headers[i].value));
    }
    if (sending->unsigned_field[0]) {
        rg_buf_addf(&text, "%s: %s\r\n", sending->unsigned_field[0], sending->unsigned_field[1]);
    }
    const char *body = sending->body ? sending->body : "";
    rg_buf_addf(&text, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    int fd = wire_connect(rg_http_port(world.server));
    wire_send_bytes(fd, text.data, text.len);
    wire_read(fd, ret_answer, false);
    close(fd);
}

static void expect(const struct sending *sending, int status, const char *code)
{
    WIRE_ANSWER(answer);
    char element[96];
    send_request(sending, &answer);
    snprintf(element, sizeof element, "<Code>%s</Code>", code);
    if (answer.status != status || (code[0] && !strstr(rg_buf_text(&answer.body), element))) {
        fail_msg("%s: wanted %d %s, got %s%s", sending->path, status, code,
                 rg_buf_text(&answer.head), rg_buf_text(&answer.body));
    }
    bool is_push = strncmp(sending->path, "/.hipobj-rc/", 12) == 0;
    if (!is_push) {
        return;
    }
    /* What clients tell "not supported" from, and what would make them lose it. */
    assert_null(wire_field(&answer, "x-amz-rdma-reply"));
    if (status == 501) {
        assert_string_equal(wire_field(&answer, "x-amz-rdma-protocol-status"), "unsupported");
    } else {
        assert_string_equal(wire_field(&answer, "x-amz-rdma-protocol"), "hipobj-rc-v2");
    }
}

static struct rg_sessions_state look(void)
{
    struct rg_sessions_state state;
    assert_true(rg_planes_session_state(world.planes, &state));
    return state;
}

static size_t open_sessions(void)
{
    struct rg_sessions_state state = look();
    return state.open[RG_SESSION_RC] + state.open[RG_SESSION_PUSH];
}

/* ---- D2 ---- */

static const struct sending connecting = {
    .path = CONNECT,
    .fields = {{"x-amz-rdma-token", QUEUE_PAIR}, {"x-amz-rdma-psn", "0a1b2c"}},
};

static void connect_session(char session[33])
{
    WIRE_ANSWER(answer);
    send_request(&connecting, &answer);
    if (answer.status != 200) {
        fail_msg("%s%s", rg_buf_text(&answer.head), rg_buf_text(&answer.body));
    }
    const char *reply = wire_field(&answer, "x-amz-rdma-reply");
    assert_int_equal(strncmp(reply, "200:01", 6), 0);
    assert_int_equal(strlen(reply), 4 + 88);
    assert_string_equal(wire_field(&answer, "x-amz-rdma-psn"), "00beef");
    const char *id = wire_field(&answer, "x-amz-rdma-session");
    assert_int_equal(strlen(id), 32);
    memcpy(session, id, 33);
}

static void print_token(char token[96], const char *session, const void *at, size_t length)
{
    snprintf(token, 96, "rc:%s:%016" PRIxPTR ":%08zx:%08x", session, (uintptr_t)at, length, 0x77);
}

static void an_object_goes_by_a_session(void **state)
{
    char session[33];
    char token[96];
    WIRE_ANSWER(put);
    WIRE_ANSWER(lost);
    WIRE_ANSWER(get);
    WIRE_ANSWER(part);
    connect_session(session);
    for (size_t i = 0; i < 200000; i++) {
        memory[i] = (char)(i * 7);
    }
    print_token(token, session, memory, 200000);
    send_request(&(struct sending){.method = "PUT",
                                   .path = "/bucket/key",
                                   .fields = {{"x-amz-rdma-token", token}}},
                 &put);
    assert_int_equal(put.status, 200);
    assert_string_equal(wire_field(&put, "x-amz-rdma-reply"), "200");
    assert_string_equal(wire_field(&put, "x-amz-rdma-bytes-transferred"), "200000");
    assert_string_equal(wire_field(&put, "x-railgate-path"), "rdma:rc");
    assert_true(fake_store_is(world.store, "key", memory, 200000));
    fake_store_knobs(world.store)->passed_errno = ENOSPC;
    send_request(&(struct sending){.method = "PUT",
                                   .path = "/bucket/lost",
                                   .fields = {{"x-amz-rdma-token", token}}},
                 &lost);
    fake_store_knobs(world.store)->passed_errno = 0;
    assert_int_equal(lost.status, 507);
    assert_false(fake_store_has(world.store, "lost"));
    print_token(token, session, memory + 500000, 300000);
    send_request(&(struct sending){.method = "GET",
                                   .path = "/bucket/key",
                                   .fields = {{"x-amz-rdma-token", token}}},
                 &get);
    assert_int_equal(get.status, 200);
    assert_string_equal(wire_field(&get, "x-amz-rdma-bytes-transferred"), "200000");
    assert_memory_equal(memory, memory + 500000, 200000);
    print_token(token, session, memory + 800000, 100);
    send_request(
        &(struct sending){.method = "GET",
                          .path = "/bucket/key",
                          .fields = {{"x-amz-rdma-token", token}, {"range", "bytes=1000-1099"}}},
        &part);
    assert_int_equal(part.status, 206);
    assert_string_equal(wire_field(&part, "x-amz-rdma-reply"), "206");
    assert_memory_equal(memory + 1000, memory + 800000, 100);

    expect(&(struct sending){.path = DISCONNECT, .fields = {{"x-amz-rdma-session", session}}}, 204,
           "");
    assert_int_equal(open_sessions(), 0);
    assert_int_equal(mock.lanes_open, 0);
    /* Its tokens are now declined: nothing is stored, and a GET comes by HTTP. */
    WIRE_ANSWER(late);
    print_token(token, session, memory, 200000);
    send_request(&(struct sending){.method = "PUT",
                                   .path = "/bucket/late",
                                   .fields = {{"x-amz-rdma-token", token}}},
                 &late);
    assert_int_equal(late.status, 501);
    assert_string_equal(wire_field(&late, "x-amz-rdma-reply"), "501");
    assert_string_equal(wire_field(&late, "x-railgate-path"), "declined:no-session");
    assert_false(fake_store_has(world.store, "late"));
    WIRE_ANSWER(body);
    send_request(&(struct sending){.method = "GET",
                                   .path = "/bucket/key",
                                   .fields = {{"x-amz-rdma-token", token}}},
                 &body);
    assert_int_equal(body.status, 200);
    assert_string_equal(wire_field(&body, "x-amz-rdma-reply"), "501");
    assert_string_equal(wire_field(&body, "x-railgate-path"), "http:no-session");
    assert_int_equal(body.body.len, 200000);
}

static void a_broken_transfer_costs_the_session(void **state)
{
    char session[33];
    char token[96];
    WIRE_ANSWER(put);
    connect_session(session);
    print_token(token, session, memory, 200000);
    mock.fail_operation = 2;
    mock.fail_broke = RG_BROKE_CONNECTION;
    mock.fail_cause = RG_CAUSE_REMOTE_ACCESS;
    send_request(&(struct sending){.method = "PUT",
                                   .path = "/bucket/key",
                                   .fields = {{"x-amz-rdma-token", token}}},
                 &put);
    assert_int_equal(put.status, 500);
    assert_non_null(strstr(rg_buf_text(&put.body), "RDMATransferFailed"));
    assert_null(wire_field(&put, "x-amz-rdma-reply"));
    assert_false(fake_store_has(world.store, "key"));
    assert_int_equal(open_sessions(), 0);
    assert_int_equal(mock.lanes_open, 0);
}

static void connect_is_strict(void **state)
{
    expect(&(struct sending){.path = CONNECT, .fields = {{"x-amz-rdma-psn", "0a1b2c"}}}, 400,
           "InvalidRequest");
    expect(&(struct sending){.path = CONNECT, .fields = {{"x-amz-rdma-token", QUEUE_PAIR}}}, 400,
           "InvalidRequest");
    expect(&(struct sending){.path = CONNECT,
                             .fields = {{"x-amz-rdma-token", "nonsense"},
                                        {"x-amz-rdma-psn", "0a1b2c"}}},
           400, "InvalidRDMAToken");
    struct sending sending = connecting;
    sending.body = "body";
    expect(&sending, 400, "InvalidRequest");
    sending = connecting;
    sending.anonymous = true;
    expect(&sending, 403, "AccessDenied");
    sending = connecting;
    sending.secret = "anotherSecret";
    expect(&sending, 403, "SignatureDoesNotMatch");
    sending = (struct sending){.path = CONNECT,
                               .fields = {{"x-amz-rdma-psn", "0a1b2c"}},
                               .unsigned_field = {"x-amz-rdma-token", QUEUE_PAIR}};
    expect(&sending, 403, "AccessDenied");
    sending = connecting;
    sending.method = "PUT";
    expect(&sending, 405, "MethodNotAllowed");
    expect(&(struct sending){.path = "/.s3rdma-rc/other"}, 501, "RDMANotSupported");
    expect(&(struct sending){.path = DISCONNECT}, 400, "InvalidRequest");
    expect(
        &(struct sending){.path = DISCONNECT,
                          .fields = {{"x-amz-rdma-session", "00112233445566778899aabbccddeeff"}}},
        404, "NoSuchRdmaSession");
    mock_rc.fail_pair = true;
    expect(&connecting, 501, "RDMANotSupported");
    assert_int_equal(open_sessions(), 0);
    assert_int_equal(mock.lanes_open, 0);
}

static void sessions_have_a_ceiling(void **state)
{
    char session[33];
    connect_session(session);
    connect_session(session);
    WIRE_ANSWER(answer);
    send_request(&connecting, &answer);
    assert_int_equal(answer.status, 503);
    assert_string_equal(wire_field(&answer, "x-railgate-path"), "declined:session-limit");
    assert_string_equal(wire_field(&answer, "retry-after"), "1");
    assert_null(wire_field(&answer, "x-amz-rdma-reply"));
}

/* ---- hipobj-rc-v2 ---- */

struct prepared {
    char session[33];
    char *staging;
};

static struct sending preparing(const char *op, const char *target, const char *size)
{
    return (struct sending){
        .path = PREPARE,
        .fields = {PROTOCOL,
                   {"x-amz-rdma-token", QUEUE_PAIR},
                   {"x-amz-rdma-psn", "0a1b2c"},
                   {"x-amz-rdma-cookie", COOKIE},
                   {"x-amz-rdma-op", op},
                   {"x-amz-rdma-target", target},
                   {"x-amz-rdma-size", size}},
    };
}

static void prepare(const struct sending *sending, struct prepared *ret_prepared)
{
    WIRE_ANSWER(answer);
    send_request(sending, &answer);
    if (answer.status != 200) {
        fail_msg("%s%s", rg_buf_text(&answer.head), rg_buf_text(&answer.body));
    }
    assert_string_equal(wire_field(&answer, "x-amz-rdma-protocol"), "hipobj-rc-v2");
    assert_int_equal(strlen(wire_field(&answer, "x-amz-rdma-reply")), 4 + 88);
    assert_string_equal(wire_field(&answer, "x-amz-rdma-psn"), "00beef");
    memcpy(ret_prepared->session, wire_field(&answer, "x-amz-rdma-session"), 33);
    const char *address = wire_field(&answer, "x-amz-rdma-mr-addr");
    ret_prepared->staging =
        address ? (char *)(uintptr_t)strtoull(address, NULL, 16) : NULL; /* NOLINT */
}

static struct sending getting_ready(const struct prepared *prepared, const void *at)
{
    static char address[24];
    snprintf(address, sizeof address, "%" PRIxPTR, (uintptr_t)at);
    return (struct sending){
        .path = READY,
        .fields = {PROTOCOL,
                   {"x-amz-rdma-session", prepared->session},
                   {"x-amz-rdma-cookie", COOKIE},
                   {"x-amz-rdma-qpn", "1a2"},
                   {"x-amz-rdma-mr-addr", address},
                   {"x-amz-rdma-mr-rkey", "77"}},
    };
}

static void cancel(const struct prepared *prepared)
{
    expect(&(struct sending){.path = CANCEL,
                             .fields = {PROTOCOL, {"x-amz-rdma-session", prepared->session}}},
           204, "");
}

static void an_object_is_pushed(void **state)
{
    struct prepared prepared;
    WIRE_ANSWER(answer);
    struct sending sending = preparing("PUT", "/bucket/dir/obj%201", "300000");
    sending.fields[7][0] = "x-amz-meta-colour";
    sending.fields[7][1] = "red";
    sending.fields[8][0] = "content-type";
    sending.fields[8][1] = "application/x-shard";
    prepare(&sending, &prepared);
    assert_non_null(prepared.staging);
    for (size_t i = 0; i < 300000; i++) {
        prepared.staging[i] = memory[i] = (char)(i * 13);
    }
    mock_rc_push(0x5eed1234, 300000);
    sending = getting_ready(&prepared, memory);
    sending.fields[6][0] = "x-amz-rdma-checksum-algorithm";
    sending.fields[6][1] = "CRC64NVME";
    send_request(&sending, &answer);
    if (answer.status != 200) {
        fail_msg("%s%s", rg_buf_text(&answer.head), rg_buf_text(&answer.body));
    }
    assert_string_equal(wire_field(&answer, "x-amz-rdma-protocol"), "hipobj-rc-v2");
    assert_string_equal(wire_field(&answer, "x-amz-rdma-cookie"), COOKIE);
    assert_string_equal(wire_field(&answer, "x-amz-rdma-bytes-transferred"), "300000");
    assert_string_equal(wire_field(&answer, "x-railgate-path"), "rdma:rc");
    assert_non_null(wire_field(&answer, "x-amz-rdma-etag"));
    struct rg_checksum checksum;
    char text[RG_CHECKSUM_TEXT_MAX + 1];
    char form[128];
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(
        rg_checksum_of(RG_CHECKSUM_CRC64NVME, rg_span(memory, 300000), &checksum, &err), 0);
    rg_checksum_format(&checksum, text);
    snprintf(form, sizeof form, "CRC64NVME %s", text);
    assert_string_equal(wire_field(&answer, "x-amz-rdma-checksum"), form);
    assert_true(fake_store_is(world.store, "dir/obj 1", memory, 300000));
    assert_int_equal(open_sessions(), 0);
    assert_int_equal(mock.lanes_open, 0);
    assert_int_equal(look().staging_bytes, 0);
    /* What PREPARE said about the object is the object's. */
    WIRE_ANSWER(head);
    send_request(&(struct sending){.method = "GET", .path = "/bucket/dir/obj%201"}, &head);
    assert_string_equal(wire_field(&head, "x-amz-meta-colour"), "red");
    assert_string_equal(wire_field(&head, "content-type"), "application/x-shard");
    assert_string_equal(wire_field(&head, "etag"), wire_field(&answer, "x-amz-rdma-etag"));
}

static void get_pushed(const char *size, const char *offset, size_t length, size_t at)
{
    struct prepared prepared;
    WIRE_ANSWER(answer);
    struct sending sending = preparing("GET", "/bucket/key", size);
    sending.fields[7][0] = offset ? "x-amz-rdma-offset" : NULL;
    sending.fields[7][1] = offset;
    prepare(&sending, &prepared);
    assert_null(prepared.staging);
    memset(memory + 500000, 0, 400000);
    unsigned told = mock_rc.immediates;
    sending = getting_ready(&prepared, memory + 500000);
    send_request(&sending, &answer);
    if (answer.status != 200) {
        fail_msg("%s%s", rg_buf_text(&answer.head), rg_buf_text(&answer.body));
    }
    assert_int_equal(answer.body.len, 0);
    assert_int_equal(strtoull(wire_field(&answer, "x-amz-rdma-bytes-transferred"), NULL, 10),
                     length);
    assert_memory_equal(memory + 500000, memory + at, length);
    assert_int_equal(memory[500000 + length], 0);
    assert_int_equal(mock_rc.immediates, told + 1);
    assert_int_equal(mock_rc.last_immediate, 0x5eed1234);
}

static void an_object_is_sent(void **state)
{
    for (size_t i = 0; i < 300000; i++) {
        memory[i] = (char)(i * 11);
    }
    fake_store_add(world.store, "key", memory, 300000);
    get_pushed("300000", NULL, 300000, 0);
    get_pushed("300000", "0", 300000, 0);
    get_pushed("1", "299999", 1, 299999);
    get_pushed("70000", "65530", 70000, 65530);
    assert_int_equal(open_sessions(), 0);
}

static void prepare_is_checked_as_the_object_would_be(void **state)
{
    fake_store_add(world.store, "key", "0123456789", 10);
    struct sending sending = preparing("GET", "/bucket/nothing", "10");
    expect(&sending, 404, "NoSuchKey");
    sending = preparing("GET", "/absent/key", "10");
    expect(&sending, 404, "NoSuchBucket");
    sending = preparing("PUT", "/absent/key", "10");
    expect(&sending, 404, "NoSuchBucket");
    sending = preparing("PUT", "/Bad_Name/key", "10");
    expect(&sending, 400, "InvalidBucketName");
    sending = preparing("GET", "/bucket/key", "11");
    expect(&sending, 416, "InvalidRange");
    sending = preparing("GET", "/bucket/key", "10");
    sending.fields[7][0] = "x-amz-rdma-offset";
    sending.fields[7][1] = "1";
    expect(&sending, 416, "InvalidRange");
    sending = preparing("GET", "/bucket/key", "10");
    sending.fields[7][0] = "range";
    sending.fields[7][1] = "bytes=0-1";
    expect(&sending, 400, "InvalidRequest");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.fields[7][0] = "if-none-match";
    sending.fields[7][1] = "*";
    expect(&sending, 412, "PreconditionFailed");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.fields[7][0] = "x-amz-server-side-encryption";
    sending.fields[7][1] = "AES256";
    expect(&sending, 501, "NotImplemented");
    sending = preparing("PUT", "/bucket/key?uploadId=none&partNumber=1", "10");
    expect(&sending, 404, "NoSuchUpload");
    sending = preparing("GET", "/bucket/key?tagging", "10");
    expect(&sending, 501, "NotImplemented");
    sending = preparing("PUT", "/bucket/key?uploadId=none", "10");
    expect(&sending, 400, "InvalidArgument");
    sending = preparing("PUT", "/bucket/key", "2147483648");
    expect(&sending, 413, "EntityTooLarge");
    sending = preparing("PUT", "/bucket/key", "1048577"); /* more than the staging there is */
    expect(&sending, 413, "EntityTooLarge");
    assert_int_equal(open_sessions(), 0);
    assert_int_equal(mock.lanes_open, 0);
}

/* rdma-staging-account-max is 1M, rdma-staging-max is more. */
static void one_account_stages_no_more_than_its_share(void **state)
{
    struct sending sending = preparing("PUT", "/bucket/key", "2097152");
    expect(&sending, 413, "EntityTooLarge");
    struct prepared prepared;
    sending = preparing("PUT", "/bucket/key", "1048576");
    prepare(&sending, &prepared);
    sending = preparing("PUT", "/bucket/other", "1");
    expect(&sending, 503, "SlowDown");
    cancel(&prepared);
    prepare(&sending, &prepared);
    cancel(&prepared);
}

static void malformed_requests_are_refused(void **state)
{
    static const struct {
        size_t at;
        const char *value; /* NULL: the field is missing */
        int status;
        const char *code;
    } cases[] = {
        {0, NULL, 501, "RDMANotSupported"},        {0, "hipobj-rc-v3", 501, "RDMANotSupported"},
        {1, NULL, 400, "InvalidRequest"},          {1, "0011", 400, "InvalidRDMAToken"},
        {2, "000000", 400, "InvalidRequest"},      {2, "1000000", 400, "InvalidRequest"},
        {3, NULL, 400, "InvalidRequest"},          {3, "123456789", 400, "InvalidRequest"},
        {4, "HEAD", 400, "InvalidRequest"},        {5, "bucket/key", 400, "InvalidRequest"},
        {5, "/bucket", 400, "InvalidRequest"},     {5, "/bucket/%zz", 400, "InvalidRequest"},
        {6, "0", 400, "InvalidRequest"},           {6, "-1", 400, "InvalidRequest"},
        {6, "10000000000", 413, "EntityTooLarge"}, {6, NULL, 400, "InvalidRequest"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct sending sending = preparing("PUT", "/bucket/key", "10");
        sending.fields[cases[i].at][1] = cases[i].value;
        expect(&sending, cases[i].status, cases[i].code);
    }
    assert_int_equal(open_sessions(), 0);
}

static void bad_signatures_are_refused(void **state)
{
    struct sending sending = preparing("PUT", "/bucket/key", "10");
    sending.anonymous = true;
    expect(&sending, 403, "AccessDenied");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.secret = "anotherSecret";
    expect(&sending, 403, "SignatureDoesNotMatch");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.service = "ec2";
    expect(&sending, 400, "AuthorizationHeaderMalformed");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.fields[6][1] = NULL;
    sending.unsigned_field[0] = "x-amz-rdma-size";
    sending.unsigned_field[1] = "10";
    expect(&sending, 403, "AccessDenied");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.body = "body";
    expect(&sending, 400, "InvalidRequest");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.signed_host = "elsewhere";
    expect(&sending, 403, "SignatureDoesNotMatch");
    assert_int_equal(open_sessions(), 0);
}

static void clients_sign_as_they_like(void **state)
{
    struct prepared prepared;
    struct sending sending = preparing("PUT", "/bucket/key", "10");
    sending.service = "hipobj";
    sending.signed_host = "127.0.0.1";
    prepare(&sending, &prepared);
    cancel(&prepared);
    cancel(&prepared); /* again: the same end */
    assert_int_equal(open_sessions(), 0);
    /* Only there. */
    expect(&(struct sending){.method = "GET", .path = "/bucket/key", .service = "hipobj"}, 400,
           "AuthorizationHeaderMalformed");
}

static void ready_is_strict(void **state)
{
    struct prepared prepared;
    fake_store_add(world.store, "key", "0123456789", 10);
    struct sending sending = preparing("GET", "/bucket/key", "10");
    prepare(&sending, &prepared);
    struct prepared unknown = prepared;
    unknown.session[0] = unknown.session[0] == '0' ? '1' : '0';
    sending = getting_ready(&unknown, memory);
    expect(&sending, 404, "NoSuchRdmaSession");
    sending = getting_ready(&prepared, memory);
    sending.fields[2][1] = "00000001";
    expect(&sending, 404, "NoSuchRdmaSession");
    sending = getting_ready(&prepared, memory);
    sending.fields[4][1] = sending.fields[5][1] = NULL;
    expect(&sending, 400, "InvalidRequest");
    sending = getting_ready(&prepared, memory);
    sending.fields[3][1] = "0";
    expect(&sending, 400, "InvalidRequest");
    sending = getting_ready(&prepared, memory);
    sending.fields[6][0] = "x-amz-rdma-checksum-algorithm";
    sending.fields[6][1] = "MD5";
    assert_int_equal(open_sessions(), 1);
    expect(&sending, 400, "InvalidRequest");
    assert_int_equal(open_sessions(), 0);
}

static void an_object_that_changed_is_seen_at_ready(void **state)
{
    struct prepared prepared;
    fake_store_add(world.store, "key", "0123456789", 10);
    struct sending sending = preparing("GET", "/bucket/key", "10");
    prepare(&sending, &prepared);
    fake_store_knobs(world.store)->open_errno = EIO;
    sending = getting_ready(&prepared, memory);
    expect(&sending, 500, "InternalError");
    assert_int_equal(open_sessions(), 0);

    fake_store_knobs(world.store)->open_errno = 0;
    fake_store_knobs(world.store)->passed_errno = EDQUOT;
    sending = preparing("PUT", "/bucket/new", "10");
    prepare(&sending, &prepared);
    mock_rc_push(0x5eed1234, 10);
    sending = getting_ready(&prepared, memory);
    expect(&sending, 507, "QuotaExceeded");
    assert_false(fake_store_has(world.store, "new"));
    assert_int_equal(open_sessions(), 0);

    fake_store_knobs(world.store)->passed_errno = 0;
    sending = preparing("PUT", "/bucket/new", "10");
    sending.fields[7][0] = "if-none-match";
    sending.fields[7][1] = "*";
    prepare(&sending, &prepared);
    fake_store_add(world.store, "new", "other", 5);
    mock_rc_push(0x5eed1234, 10);
    sending = getting_ready(&prepared, memory);
    expect(&sending, 412, "PreconditionFailed");
    assert_true(fake_store_is(world.store, "new", "other", 5));
    assert_int_equal(open_sessions(), 0);
}

static void a_wrong_push_stores_nothing(void **state)
{
    struct prepared prepared;
    struct sending sending = preparing("PUT", "/bucket/key", "10");
    prepare(&sending, &prepared);
    mock_rc_push(0x5eed1235, 10);
    sending = getting_ready(&prepared, memory);
    expect(&sending, 400, "InvalidRequest");
    sending = preparing("PUT", "/bucket/key", "10");
    prepare(&sending, &prepared);
    mock_rc_push(0x5eed1234, 9);
    sending = getting_ready(&prepared, memory);
    expect(&sending, 400, "InvalidRequest");
    sending = preparing("PUT", "/bucket/key", "10");
    sending.fields[7][0] = "x-amz-checksum-crc64nvme";
    sending.fields[7][1] = "AAAAAAAAAAA=";
    prepare(&sending, &prepared);
    memcpy(prepared.staging, "0123456789", 10);
    mock_rc_push(0x5eed1234, 10);
    sending = getting_ready(&prepared, memory);
    expect(&sending, 400, "BadDigest");
    assert_false(fake_store_has(world.store, "key"));
    assert_int_equal(open_sessions(), 0);
    assert_int_equal(look().staging_bytes, 0);
}

static void peers_that_are_late(void **state)
{
    struct prepared prepared;
    struct prepared other;
    fake_store_add(world.store, "key", "0123456789", 10);
    struct sending sending = preparing("PUT", "/bucket/late", "10");
    prepare(&sending, &prepared);
    sending = getting_ready(&prepared, memory);
    expect(&sending, 408, "RdmaTransferTimeout"); /* nothing is pushed */
    assert_false(fake_store_has(world.store, "late"));

    sending = preparing("GET", "/bucket/key", "10");
    prepare(&sending, &prepared);
    mock.fail_operation = mock.operations + 1;
    mock.fail_broke = RG_BROKE_CONNECTION;
    mock.fail_cause = RG_CAUSE_PEER_GONE;
    sending = getting_ready(&prepared, memory);
    expect(&sending, 409, "RdmaPeerBusy");
    assert_int_equal(open_sessions(), 1);
    expect(&sending, 200, ""); /* once more, and now it is there */
    assert_memory_equal(memory, "0123456789", 10);
    assert_int_equal(open_sessions(), 0);

    sending = preparing("GET", "/bucket/key", "10");
    prepare(&sending, &prepared);
    sending = preparing("PUT", "/bucket/late", "10");
    prepare(&sending, &other);
    sending = preparing("GET", "/bucket/key", "10");
    expect(&sending, 503, "SlowDown"); /* two at a time here */
    usleep(1200000);
    sending = getting_ready(&prepared, memory);
    expect(&sending, 404, "NoSuchRdmaSession"); /* READY came too late */
    for (int i = 0; i < 500 && (open_sessions() || mock.lanes_open || look().staging_bytes); i++) {
        usleep(10000);
    }
    assert_int_equal(open_sessions(), 0); /* reaped, with its memory */
    assert_int_equal(look().staging_bytes, 0);
    assert_int_equal(mock.lanes_open, 0);
}

static void without_rdma_all_is_declined(void **state)
{
    struct sending sending = preparing("PUT", "/bucket/key", "10");
    expect(&sending, 501, "RDMANotSupported");
    sending = (struct sending){.path = READY, .anonymous = true};
    expect(&sending, 501, "RDMANotSupported");
    expect(&(struct sending){.path = CANCEL}, 501, "RDMANotSupported");
    WIRE_ANSWER(answer);
    send_request(&connecting, &answer);
    assert_int_equal(answer.status, 501);
    assert_string_equal(wire_field(&answer, "x-amz-rdma-reply"), "501");
    assert_string_equal(wire_field(&answer, "x-railgate-path"), "declined:rdma-off");
}

int main(void)
{
#define TEST(function)         cmocka_unit_test_setup_teardown(function, begin, end)
#define LIMITED_TEST(function) cmocka_unit_test_setup_teardown(function, begin_limited, end)
#define NARROW_TEST(function)  cmocka_unit_test_setup_teardown(function, begin_narrow, end)
    const struct CMUnitTest tests[] = {
        TEST(an_object_goes_by_a_session),
        TEST(a_broken_transfer_costs_the_session),
        TEST(connect_is_strict),
        NARROW_TEST(sessions_have_a_ceiling),
        LIMITED_TEST(sessions_have_a_ceiling),
        LIMITED_TEST(one_account_stages_no_more_than_its_share),
        TEST(an_object_is_pushed),
        TEST(an_object_is_sent),
        TEST(prepare_is_checked_as_the_object_would_be),
        TEST(malformed_requests_are_refused),
        TEST(bad_signatures_are_refused),
        TEST(clients_sign_as_they_like),
        TEST(ready_is_strict),
        TEST(an_object_that_changed_is_seen_at_ready),
        TEST(a_wrong_push_stores_nothing),
        NARROW_TEST(peers_that_are_late),
        TEST(too_few_descriptors_stop_the_start),
        cmocka_unit_test_setup_teardown(without_rdma_all_is_declined, begin_off, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
