/*
 * Requests through the real server and the real verbs onto a store in memory: what must never be
 * stored, and what clients see when the store below is slow, full or broken.
 */
#include "test.h"

#include "fake_store.h"

#include "base/encode.h"
#include "gate/dispatch.h"
#include "gate/http.h"
#include "s3/date.h"
#include "s3/sigv4.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ACCESS_KEY "TESTACCESSKEY0000001"
#define SECRET_KEY "testSecretKey/0123456789abcdefghijklmnop"
#define FIELDS_MAX 16

#define DC_TOKEN "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"

static struct {
    struct rg_settings settings;
    struct rg_store *store;
    struct rg_gate *gate;
    struct rg_http_server *server;
    pthread_mutex_t lock;
    struct rg_outcome outcome; /* of the last request that is over */
    int status;
    _Atomic unsigned done;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_done(struct rg_http_request *request, const struct rg_http_done *done, void *context)
{
    pthread_mutex_lock(&world.lock);
    rg_dispatch_outcome(request, &world.outcome);
    world.status = done->status;
    pthread_mutex_unlock(&world.lock);
    world.done++;
}

static void set(enum rg_setting_id id, const char *value)
{
    struct rg_error err;
    assert_int_equal(rg_settings_set(&world.settings, id, value, RG_FROM_OPTION, "test", &err), 0);
}

static int begin_with(unsigned workers, unsigned timeout_ms)
{
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_settings_init(&world.settings, &err), 0);
    set(RG_SETTING_root_access_key, ACCESS_KEY);
    set(RG_SETTING_root_secret_key, SECRET_KEY);
    world.store = fake_store_new();
    world.done = 0;
    assert_int_equal(rg_gate_new(&world.settings, world.store, &world.gate, &err), 0);
    struct rg_http_config config = {
        .address = "127.0.0.1",
        .tls_cert = "",
        .tls_key = "",
        .connections_max = 64,
        .workers_max = workers,
        .connection_memory = 65536,
        .header_count_max = 64,
        .idle_timeout_ms = 20000,
        .handler_timeout_ms = timeout_ms,
        .drain_max = 1 << 20,
        .handler = rg_dispatch,
        .busy = rg_dispatch_busy,
        .hung = rg_dispatch_hung,
        .refused = rg_dispatch_refused,
        .done = on_done,
        .context = world.gate,
    };
    assert_int_equal(rg_http_start(&config, &world.server, &err), 0);
    return 0;
}

static int begin(void **state)
{
    return begin_with(8, 20000);
}

static int begin_impatient(void **state)
{
    return begin_with(2, 300);
}

static int end(void **state)
{
    assert_int_equal(rg_http_stop(world.server, 10000), 0);
    rg_gate_free(world.gate);
    fake_store_free(world.store);
    rg_settings_free(&world.settings);
    return 0;
}

/* ---- A client ---- */

struct sending {
    const char *method;
    const char *path;
    const char *query; /* encoded */
    const char *fields[FIELDS_MAX][2];
    const char *unsigned_fields[FIELDS_MAX][2];
    const char *body;
    const char *sha256; /* NULL: the body's */
    bool without_length;
};

struct received {
    int status;
    char text[65536];
    const char *body;
};

static int dial(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(rg_http_port(world.server)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void hash(const char *body, char text[65])
{
    unsigned char digest[32];
    SHA256((const unsigned char *)body, strlen(body), digest);
    rg_hex_encode(digest, sizeof digest, text);
}

/* The whole request as it goes onto the wire. */
static void write_request(const struct sending *sending, struct rg_buf *out)
{
    struct rg_header headers[FIELDS_MAX + 4];
    size_t count = 0;
    char host[32], date[RG_DATE_AMZ_SIZE], sha256[65];
    const char *body = sending->body ? sending->body : "";
    snprintf(host, sizeof host, "127.0.0.1:%u", rg_http_port(world.server));
    rg_date_format_amz(time(NULL), date);
    hash(body, sha256);
    const char *basic[][2] = {{"host", host},
                              {"x-amz-date", date},
                              {"x-amz-content-sha256", sending->sha256 ? sending->sha256 : sha256}};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(basic); i++) {
        headers[count++] = (struct rg_header){rg_span_text(basic[i][0]), rg_span_text(basic[i][1])};
    }
    for (size_t i = 0; i < FIELDS_MAX && sending->fields[i][0]; i++) {
        headers[count++] = (struct rg_header){rg_span_text(sending->fields[i][0]),
                                              rg_span_text(sending->fields[i][1])};
    }
    struct rg_sigv4_request request = {
        .method = rg_span_text(sending->method),
        .path = rg_span_text(sending->path),
        .query = rg_span_text(sending->query),
        .headers = headers,
        .header_count = count,
    };
    struct rg_sigv4_signer signer = {
        .access_key = RG_SPAN_LITERAL(ACCESS_KEY),
        .secret = RG_SPAN_LITERAL(SECRET_KEY),
        .region = RG_SPAN_LITERAL("us-east-1"),
        .service = RG_SPAN_LITERAL("s3"),
    };
    RG_BUF(authorization, 4096);
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_sigv4_sign(&signer, &request, &authorization, NULL, &err), 0);

    rg_buf_addf(out, "%s %s%s%s HTTP/1.1\r\nConnection: close\r\nAuthorization: %s\r\n",
                sending->method, sending->path, sending->query ? "?" : "",
                sending->query ? sending->query : "", rg_buf_text(&authorization));
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(out, "%.*s: %.*s\r\n", RG_SPAN_ARG(headers[i].name),
                    RG_SPAN_ARG(headers[i].value));
    }
    for (size_t i = 0; i < FIELDS_MAX && sending->unsigned_fields[i][0]; i++) {
        rg_buf_addf(out, "%s: %s\r\n", sending->unsigned_fields[i][0],
                    sending->unsigned_fields[i][1]);
    }
    if (!sending->without_length) {
        rg_buf_addf(out, "Content-Length: %zu\r\n", strlen(body));
    }
    rg_buf_addf(out, "\r\n%s", body);
    assert_true(rg_buf_ok(out));
}

static void read_answer(int fd, struct received *ret_received)
{
    size_t len = 0;
    for (;;) {
        ssize_t got = recv(fd, ret_received->text + len, sizeof ret_received->text - 1 - len, 0);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
    }
    close(fd);
    ret_received->text[len] = '\0';
    assert_int_equal(sscanf(ret_received->text, "HTTP/1.1 %d", &ret_received->status), 1);
    const char *body = strstr(ret_received->text, "\r\n\r\n");
    assert_non_null(body);
    ret_received->body = body + 4;
}

static int start_request(const struct sending *sending)
{
    RG_BUF(text, 1 << 20);
    write_request(sending, &text);
    int fd = dial();
    assert_int_equal(send(fd, text.data, text.len, MSG_NOSIGNAL), text.len);
    return fd;
}

static void converse(const struct sending *sending, struct received *ret_received)
{
    unsigned before = world.done;
    read_answer(start_request(sending), ret_received);
    for (int i = 0; i < 500 && world.done == before; i++) {
        usleep(10000);
    }
}

static bool has_field(const struct received *received, const char *line)
{
    const char *at = strcasestr(received->text, line);
    return at && at < received->body && at[-1] == '\n';
}

static void assert_refused(const struct received *received, int status, const char *code)
{
    char element[128];
    snprintf(element, sizeof element, "<Code>%s</Code>", code);
    if (received->status != status || !strstr(received->body, element)) {
        fail_msg("wanted %d %s, got:\n%s", status, code, received->text);
    }
    assert_non_null(strstr(received->body, "<Message>"));
    assert_non_null(strstr(received->body, "<RequestId>"));
    assert_true(has_field(received, "x-amz-request-id: "));
    assert_true(has_field(received, "x-amz-id-2: "));
    assert_true(has_field(received, "server: railgate"));
}

/* ---- A PUT with an RDMA token is never an object ---- */

static void refuse_put(const char *path, const char *query, const char *name, const char *value,
                       int status, const char *code, bool with_reply)
{
    struct received received;
    converse(&(struct sending){.method = "PUT",
                               .path = path,
                               .query = query,
                               .fields = {{name, value}},
                               .sha256 = "UNSIGNED-PAYLOAD"},
             &received);
    assert_refused(&received, status, code);
    assert_int_equal(has_field(&received, "x-amz-rdma-reply: 501\r\n"), with_reply);
    assert_false(has_field(&received, "etag: "));
    assert_int_equal(fake_store_counts(world.store)->begun, 0);
    assert_int_equal(fake_store_counts(world.store)->committed, 0);
}

static void every_spelling_of_a_token_is_declined(void **state)
{
    static const char *const spellings[][2] = {
        {"x-amz-rdma-token", DC_TOKEN},
        {"X-Amz-RDMA-Token", DC_TOKEN ";"},
        {"x-amz-rdma-token", DC_TOKEN ":00007f3a5c500000:0000000000100000"},
        {"x-amz-rdma-token",
         "rc:00112233445566778899aabbccddeeff:00007f3a5c400000:00400000:00182ac7"},
        {"x-amz-rdma-token",
         "7f3a5c400000:400000:ofi1:tcp;ofi_rxm:02004e20c00002110000000000000000:1f"},
        {"x-rdma-info", DC_TOKEN},
        {"X-CuObj-RDMA-Descr", DC_TOKEN},
        {"x-amz-meta-rdma-token", DC_TOKEN},
        {"x-amz-rdma-agent", "cuobj"},
        {"X-CuObj-Content-Length", "4096"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(spellings); i++) {
        refuse_put("/bucket/key", NULL, spellings[i][0], spellings[i][1], 501, "RDMANotSupported",
                   true);
        refuse_put("/bucket/key", "partNumber=1&uploadId=00", spellings[i][0], spellings[i][1], 501,
                   "RDMANotSupported", true);
    }
    assert_false(fake_store_has(world.store, "key"));
    assert_string_equal(world.outcome.path, "declined:token-missing");
    assert_int_equal(world.outcome.failure, RG_RDMA_NOT_SUPPORTED);
}

static void a_malformed_token_is_refused(void **state)
{
    refuse_put("/bucket/key", NULL, "x-amz-rdma-token", "nonsense", 400, "InvalidRDMAToken", false);
    refuse_put("/bucket/key", NULL, "x-amz-rdma-token", "", 400, "InvalidRDMAToken", false);
    refuse_put("/bucket/key", NULL, "x-rdma-info", DC_TOKEN "0", 400, "InvalidRDMAToken", false);
}

static void a_copy_with_a_token_is_declined(void **state)
{
    struct received received;
    fake_store_add(world.store, "source", "bytes", 5);
    converse(&(struct sending){.method = "PUT",
                               .path = "/bucket/copy",
                               .fields = {{"x-amz-copy-source", "/bucket/source"},
                                          {"x-amz-rdma-token", DC_TOKEN}}},
             &received);
    assert_refused(&received, 501, "RDMANotSupported");
    assert_false(fake_store_has(world.store, "copy"));
}

static void a_token_and_a_body_do_not_go_together(void **state)
{
    struct received received;
    converse(&(struct sending){.method = "PUT",
                               .path = "/bucket/key",
                               .body = "bytes",
                               .fields = {{"x-amz-rdma-token", DC_TOKEN}}},
             &received);
    assert_refused(&received, 400, "InvalidRequest");
    assert_false(fake_store_has(world.store, "key"));
}

static void an_unsigned_token_is_refused(void **state)
{
    static const char *const names[] = {"x-amz-rdma-token", "x-rdma-info", "X-CuObj-RDMA-Descr"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        struct received received;
        converse(&(struct sending){.method = "PUT",
                                   .path = "/bucket/key",
                                   .unsigned_fields = {{names[i], DC_TOKEN}}},
                 &received);
        assert_refused(&received, 403, "AccessDenied");
    }
    assert_false(fake_store_has(world.store, "key"));
}

static void a_get_with_a_token_is_answered_by_http(void **state)
{
    struct received received;
    fake_store_add(world.store, "key", "the object", 10);
    struct sending sending = {
        .method = "GET", .path = "/bucket/key", .fields = {{"x-amz-rdma-token", DC_TOKEN}}};
    converse(&sending, &received);
    assert_int_equal(received.status, 200);
    assert_true(has_field(&received, "x-amz-rdma-reply: 501\r\n"));
    assert_true(has_field(&received, "x-railgate-path: http:rdma-off\r\n"));
    assert_string_equal(received.body, "the object");
    assert_string_equal(world.outcome.path, "http:rdma-off");

    sending.fields[1][0] = "range";
    sending.fields[1][1] = "bytes=4-5";
    converse(&sending, &received);
    assert_int_equal(received.status, 206);
    assert_true(has_field(&received, "x-amz-rdma-reply: 501\r\n"));
    assert_string_equal(received.body, "ob");

    /* What is no transfer says nothing of RDMA. */
    sending.fields[1][0] = "if-none-match";
    sending.fields[1][1] = "*";
    converse(&sending, &received);
    assert_int_equal(received.status, 304);
    assert_false(has_field(&received, "x-amz-rdma-reply"));
    sending.path = "/bucket/nothing";
    converse(&sending, &received);
    assert_refused(&received, 404, "NoSuchKey");
    assert_false(has_field(&received, "x-amz-rdma-reply"));
}

static void head_ignores_a_token(void **state)
{
    struct received received;
    fake_store_add(world.store, "key", "the object", 10);
    converse(&(struct sending){.method = "HEAD",
                               .path = "/bucket/key",
                               .fields = {{"x-amz-rdma-token", DC_TOKEN}}},
             &received);
    assert_int_equal(received.status, 200);
    assert_true(has_field(&received, "content-length: 10\r\n"));
    assert_false(has_field(&received, "x-amz-rdma-reply"));
}

static void session_routes_are_declined(void **state)
{
    struct received received;
    converse(&(struct sending){.method = "POST", .path = "/.hipobj-rc/prepare"}, &received);
    assert_refused(&received, 501, "RDMANotSupported");
    assert_true(has_field(&received, "x-amz-rdma-protocol-status: unsupported\r\n"));
    assert_false(has_field(&received, "x-amz-rdma-reply"));
    converse(&(struct sending){.method = "POST", .path = "/.s3rdma-rc/connect"}, &received);
    assert_refused(&received, 501, "RDMANotSupported");
    assert_true(has_field(&received, "x-amz-rdma-reply: 501\r\n"));
}

static void without_a_token_the_path_is_said_too(void **state)
{
    struct received received;
    converse(&(struct sending){.method = "PUT", .path = "/bucket/key", .body = "bytes"}, &received);
    assert_int_equal(received.status, 200);
    assert_true(has_field(&received, "x-railgate-path: http:no-token\r\n"));
    assert_false(has_field(&received, "x-amz-rdma-reply"));
    assert_true(fake_store_has(world.store, "key"));
}

/* ---- What was not as promised is not stored ---- */

static void assert_not_stored(const struct sending *sending, int status, const char *code)
{
    struct received received;
    converse(sending, &received);
    assert_refused(&received, status, code);
    assert_false(fake_store_has(world.store, "key"));
    struct fake_counts *counts = fake_store_counts(world.store);
    assert_int_equal(counts->committed, 0);
    assert_int_equal(counts->begun, counts->aborted);
}

static void broken_promises_leave_nothing(void **state)
{
    static const char other[] = "0000000000000000000000000000000000000000000000000000000000000000";
    assert_not_stored(
        &(struct sending){.method = "PUT", .path = "/bucket/key", .body = "bytes", .sha256 = other},
        400, "XAmzContentSHA256Mismatch");
    assert_not_stored(&(struct sending){.method = "PUT", .path = "/bucket/key", .sha256 = other},
                      400, "XAmzContentSHA256Mismatch");
    assert_not_stored(&(struct sending){.method = "PUT",
                                        .path = "/bucket/key",
                                        .body = "bytes",
                                        .fields = {{"content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="}}},
                      400, "BadDigest");
    assert_not_stored(&(struct sending){.method = "PUT",
                                        .path = "/bucket/key",
                                        .body = "bytes",
                                        .fields = {{"x-amz-checksum-crc32", "AAAAAA=="}}},
                      400, "BadDigest");
    assert_not_stored(&(struct sending){.method = "PUT",
                                        .path = "/bucket/key",
                                        .body = "bytes",
                                        .fields = {{"x-amz-sdk-checksum-algorithm", "CRC32"}}},
                      400, "InvalidRequest");
    assert_not_stored(&(struct sending){.method = "PUT",
                                        .path = "/bucket/key",
                                        .body = "bytes",
                                        .fields = {{"x-amz-trailer", "x-amz-checksum-crc32"}}},
                      400, "InvalidRequest");
    assert_not_stored(
        &(struct sending){.method = "PUT", .path = "/bucket/key", .without_length = true}, 411,
        "MissingContentLength");
    /* One chunk, and then the end of the body comes too early. */
    assert_not_stored(&(struct sending){.method = "PUT",
                                        .path = "/bucket/key",
                                        .body = "5\r\nbytes\r\n",
                                        .fields = {{"x-amz-decoded-content-length", "5"}},
                                        .sha256 = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
                      400, "IncompleteBody");
}

/* ---- The store below fails ---- */

static void failing_commit(int os_errno, int status, const char *code)
{
    struct received received;
    fake_store_knobs(world.store)->commit_errno = os_errno;
    converse(&(struct sending){.method = "PUT", .path = "/bucket/key", .body = "bytes"}, &received);
    assert_refused(&received, status, code);
    assert_null(strstr(received.body, "secret"));
    assert_false(fake_store_has(world.store, "key"));
    assert_int_equal(world.outcome.os_errno, os_errno);
    assert_non_null(strstr(world.outcome.message, "/secret/place"));
}

static void storage_errors_have_their_own_answers(void **state)
{
    failing_commit(ENOSPC, 507, "InsufficientStorage");
    failing_commit(EDQUOT, 507, "QuotaExceeded");
    failing_commit(EROFS, 403, "AccessDenied");
    failing_commit(EIO, 500, "InternalError");
    failing_commit(ESTALE, 503, "ServiceUnavailable");
    failing_commit(EMFILE, 503, "SlowDown");
}

static void a_hung_store_costs_a_503_and_nothing_else(void **state)
{
    struct received received;
    fake_store_add(world.store, "key", "bytes", 5);
    fake_store_knobs(world.store)->open_delay_ms = 1500;
    converse(&(struct sending){.method = "GET", .path = "/bucket/key"}, &received);
    assert_refused(&received, 503, "ServiceUnavailable");
    assert_int_equal(world.outcome.failure, RG_STORAGE_HUNG);
    assert_string_equal(world.outcome.operation, "GetObject");
    assert_string_equal(world.outcome.key, "key");

    /* The stuck worker neither answers nor keeps the other from serving. */
    fake_store_knobs(world.store)->open_delay_ms = 0;
    converse(&(struct sending){.method = "GET", .path = "/bucket/key"}, &received);
    assert_int_equal(received.status, 200);
    usleep(1700000);
}

static void too_many_at_a_time_are_told_to_slow_down(void **state)
{
    struct received received;
    fake_store_add(world.store, "key", "bytes", 5);
    fake_store_knobs(world.store)->open_delay_ms = 250;
    struct sending slow = {.method = "GET", .path = "/bucket/key"};
    int first = start_request(&slow);
    int second = start_request(&slow);
    usleep(100000);
    fake_store_knobs(world.store)->open_delay_ms = 0;
    converse(&(struct sending){.method = "GET", .path = "/bucket/other"}, &received);
    assert_refused(&received, 503, "SlowDown");
    assert_true(has_field(&received, "retry-after: 1\r\n"));
    read_answer(first, &received);
    assert_int_equal(received.status, 200);
    read_answer(second, &received);
    assert_int_equal(received.status, 200);
}

/* ---- Slow work ---- */

static void a_quick_failure_has_its_status(void **state)
{
    struct received received;
    fake_store_add(world.store, "source", "bytes", 5);
    fake_store_knobs(world.store)->copy_fails = RG_NAME_CONFLICT;
    converse(&(struct sending){.method = "PUT",
                               .path = "/bucket/copy",
                               .fields = {{"x-amz-copy-source", "bucket/source"}}},
             &received);
    assert_refused(&received, 409, "ObjectNameConflict");
}

static void a_slow_failure_stands_in_the_document(void **state)
{
    struct received received;
    fake_store_add(world.store, "source", "bytes", 5);
    fake_store_knobs(world.store)->copy_fails = RG_STORAGE_FULL;
    fake_store_knobs(world.store)->copy_delay_ms = 5000;
    converse(&(struct sending){.method = "PUT",
                               .path = "/bucket/copy",
                               .fields = {{"x-amz-copy-source", "bucket/source"}}},
             &received);
    assert_int_equal(received.status, 200);
    assert_true(has_field(&received, "content-type: application/xml\r\n"));
    assert_non_null(strstr(received.body, "<?xml"));
    assert_non_null(strstr(received.body, "<Error><Code>InsufficientStorage</Code>"));
    assert_null(strstr(strstr(received.body, "<?xml") + 1, "<?xml"));
    assert_int_equal(world.outcome.failure, RG_STORAGE_FULL);
    assert_int_equal(world.status, 200);
}

static void slow_success(void **state)
{
    struct received received;
    fake_store_add(world.store, "source", "bytes", 5);
    fake_store_knobs(world.store)->copy_delay_ms = 4500;
    converse(&(struct sending){.method = "PUT",
                               .path = "/bucket/copy",
                               .fields = {{"x-amz-copy-source", "bucket/source"}}},
             &received);
    assert_int_equal(received.status, 200);
    assert_non_null(strstr(received.body, "<CopyObjectResult"));
    assert_true(fake_store_has(world.store, "copy"));
    assert_int_equal(world.outcome.failure, RG_OK);
    assert_int_equal(world.outcome.copied_bytes, 5);
}

/* ---- What the log is told ---- */

static void outcomes_name_everything(void **state)
{
    struct received received;
    converse(&(struct sending){.method = "PUT", .path = "/bucket/a%20b/%C3%BC", .body = "bytes"},
             &received);
    assert_int_equal(received.status, 200);
    assert_string_equal(world.outcome.operation, "PutObject");
    assert_string_equal(world.outcome.log_operation, "REST.PUT.OBJECT");
    assert_string_equal(world.outcome.bucket, "bucket");
    assert_string_equal(world.outcome.key, "a b/\xc3\xbc");
    assert_string_equal(world.outcome.access_key, ACCESS_KEY);
    assert_int_equal(strlen(world.outcome.requester), 64);
    assert_string_equal(world.outcome.auth_type, "AuthHeader");
    assert_int_equal(world.outcome.failure, RG_OK);
    assert_int_equal(world.outcome.object_size, 5);

    int fd = dial();
    static const char anonymous[] =
        "GET /bucket/key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    unsigned before = world.done;
    assert_int_equal(send(fd, anonymous, sizeof anonymous - 1, 0), sizeof anonymous - 1);
    read_answer(fd, &received);
    while (world.done == before) {
        usleep(1000);
    }
    assert_refused(&received, 403, "AccessDenied");
    assert_string_equal(world.outcome.requester, "");
    assert_string_equal(world.outcome.auth_type, "-");
    assert_int_equal(world.outcome.failure, RG_ACCESS_DENIED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_spelling_of_a_token_is_declined),
        TEST(a_malformed_token_is_refused),
        TEST(a_copy_with_a_token_is_declined),
        TEST(a_token_and_a_body_do_not_go_together),
        TEST(an_unsigned_token_is_refused),
        TEST(a_get_with_a_token_is_answered_by_http),
        TEST(head_ignores_a_token),
        TEST(session_routes_are_declined),
        TEST(without_a_token_the_path_is_said_too),
        TEST(broken_promises_leave_nothing),
        TEST(storage_errors_have_their_own_answers),
        cmocka_unit_test_setup_teardown(a_hung_store_costs_a_503_and_nothing_else, begin_impatient,
                                        end),
        cmocka_unit_test_setup_teardown(too_many_at_a_time_are_told_to_slow_down, begin_impatient,
                                        end),
        TEST(a_quick_failure_has_its_status),
        TEST(a_slow_failure_stands_in_the_document),
        TEST(slow_success),
        TEST(outcomes_name_everything),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    /* The last workers are on their way out: let them free what libcrypto keeps for each thread,
     * before the leak check looks. */
    usleep(200000);
    return failed;
}
