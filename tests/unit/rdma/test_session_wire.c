/* The fields of the session routes: the worked example of hipobj-rc-v2 and what is tolerated. */
#include "rdma/session_wire.h"

#include "test.h"

#include <stdio.h>

#define HIP_B                                                                                      \
    "01a201000000000000000000000000ffffc00002110000000000000000000000000000000000000000010000"
#define HIP_C                                                                                      \
    "0001020304000000000000000000000000000000000506070818171615141312111028272625242322212003"     \
    "3231"
#define SERVER_REPLY                                                                               \
    "200:011103000000000000000000000000ffffc00002c8019c000000000020887f00000000010000000000010000"
#define ZEROS                                                                                      \
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
#define DC_A "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"

#define FIELDS_MAX 16

static struct rg_wire_field fields[FIELDS_MAX];
static struct rg_wire_head head;
static struct rg_error error;

static void put(const char *name, const char *value)
{
    assert_true(head.count < FIELDS_MAX);
    fields[head.count++] =
        (struct rg_wire_field){.name = rg_span_text(name), .value = rg_span_text(value)};
}

static struct rg_wire_field *field(const char *name)
{
    for (size_t i = 0; i < head.count; i++) {
        if (rg_span_is(fields[i].name, name)) {
            return &fields[i];
        }
    }
    fail_msg("no field %s", name);
    return NULL;
}

static void change(const char *name, const char *value)
{
    field(name)->value = rg_span_text(value);
}

static void leave_out(const char *name)
{
    field(name)->name = RG_SPAN_LITERAL("x-other");
}

static void example_prepare(void)
{
    head = (struct rg_wire_head){.fields = fields};
    put("host", "gw.example.test");
    put("x-amz-rdma-protocol", "hipobj-rc-v2");
    put("x-amz-rdma-token", HIP_B);
    put("x-amz-rdma-psn", "0a1b2c");
    put("x-amz-rdma-cookie", "5eed1234");
    put("x-amz-rdma-op", "GET");
    put("x-amz-rdma-target", "/bkt/dir/obj%201");
    put("x-amz-rdma-size", "65536");
    put("x-amz-rdma-offset", "0");
}

static void example_ready(void)
{
    head = (struct rg_wire_head){.fields = fields};
    put("x-amz-rdma-protocol", "hipobj-rc-v2");
    put("x-amz-rdma-session", "00112233445566778899aabbccddeeff");
    put("x-amz-rdma-cookie", "5eed1234");
    put("x-amz-rdma-qpn", "1a2");
    put("x-amz-rdma-mr-addr", "7f3a5c400000");
    put("x-amz-rdma-mr-rkey", "182ac7");
}

static struct rg_push_prepare accept_prepare(bool strict)
{
    struct rg_push_prepare prepare;
    memset(&prepare, 0xa5, sizeof prepare);
    if (rg_push_prepare_parse(&head, strict, &prepare, &error) < 0) {
        fail_msg("%s", error.message);
    }
    return prepare;
}

static void refuse_prepare(enum rg_code code, const char *word)
{
    struct rg_push_prepare prepare;
    assert_int_equal(rg_push_prepare_parse(&head, true, &prepare, &error), -(int)code);
    if (!strstr(error.message, word)) {
        fail_msg("\"%s\" does not say %s", error.message, word);
    }
}

static struct rg_push_ready accept_ready(void)
{
    struct rg_push_ready ready;
    memset(&ready, 0xa5, sizeof ready);
    if (rg_push_ready_parse(&head, true, &ready, &error) < 0) {
        fail_msg("%s", error.message);
    }
    return ready;
}

static void refuse_ready(enum rg_code code, const char *word)
{
    struct rg_push_ready ready;
    assert_int_equal(rg_push_ready_parse(&head, true, &ready, &error), -(int)code);
    if (!strstr(error.message, word)) {
        fail_msg("\"%s\" does not say %s", error.message, word);
    }
}

static void test_prepare_example(void **state)
{
    (void)state;
    static const uint8_t gid[16] = {[10] = 0xff, 0xff, 192, 0, 2, 17};
    example_prepare();
    struct rg_push_prepare prepare = accept_prepare(true);
    assert_int_equal(prepare.peer.qpn, 0x1a2);
    assert_int_equal(prepare.peer.psn, 0x0a1b2c);
    assert_int_equal(prepare.peer.port, 1);
    assert_int_equal(prepare.peer.lid, 0);
    assert_int_equal(prepare.peer.mtu, 0);
    assert_true(prepare.peer.has_gid);
    assert_memory_equal(prepare.peer.gid, gid, sizeof gid);
    assert_false(prepare.is_loopback);
    assert_int_equal(prepare.cookie, 0x5eed1234);
    assert_int_equal(prepare.direction, RG_DIRECTION_GET);
    assert_true(rg_span_is(prepare.path, "/bkt/dir/obj%201"));
    assert_int_equal(prepare.query.len, 0);
    assert_int_equal(prepare.size, 65536);
    assert_int_equal(prepare.offset, 0);
}

static void test_mtu(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "0", "128", "1500", "8192", "0x400", "1024,", "-1024"};
    static const char *const good[] = {"256", "512", " 1024 ", "2048", "4096"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(good); i++) {
        example_prepare();
        put("X-Railgate-Mtu", good[i]);
        assert_int_equal(accept_prepare(true).peer.mtu, 256u << i);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        example_prepare();
        put("x-railgate-mtu", bad[i]);
        refuse_prepare(RG_INVALID_REQUEST, "x-railgate-mtu");
    }
    example_prepare();
    put("x-railgate-mtu", "1024");
    put("x-railgate-mtu", "1024");
    refuse_prepare(RG_INVALID_REQUEST, "twice");
}

static void test_prepare_tolerances(void **state)
{
    (void)state;
    example_prepare();
    leave_out("x-amz-rdma-offset");
    change("x-amz-rdma-psn", "1");
    change("x-amz-rdma-cookie", " 00000000000000AB\t");
    change("x-amz-rdma-op", "put");
    change("x-amz-rdma-token", HIP_B ":00007f3a5c400000:0000000000010000");
    change("x-amz-rdma-target", "/b/k?partNumber=2&uploadId=x%2Fy");
    put("x-amz-rdma-mr-addr", "not looked at");
    put("X-AMZ-RDMA-QPN", "nor this");
    struct rg_push_prepare prepare = accept_prepare(true);
    assert_int_equal(prepare.peer.psn, 1);
    assert_int_equal(prepare.cookie, 0xab);
    assert_int_equal(prepare.direction, RG_DIRECTION_PUT);
    assert_int_equal(prepare.offset, 0);
    assert_true(rg_span_is(prepare.path, "/b/k"));
    assert_true(rg_span_is(prepare.query, "partNumber=2&uploadId=x%2Fy"));

    example_prepare();
    fields[4].name = RG_SPAN_LITERAL("X-Amz-Rdma-Cookie");
    fields[4].value = RG_SPAN_LITERAL("0");
    assert_int_equal(accept_prepare(false).cookie, 0);
    refuse_prepare(RG_INVALID_REQUEST, "cookie");
}

static void test_prepare_loopback(void **state)
{
    (void)state;
    example_prepare();
    change("x-amz-rdma-token", ZEROS);
    struct rg_push_prepare prepare = accept_prepare(true);
    assert_true(prepare.is_loopback);
    assert_false(prepare.peer.has_gid);
    assert_int_equal(prepare.peer.qpn, 0);
    change("x-amz-rdma-token", ZEROS ":0000000000001000:0000000000001000");
    assert_true(accept_prepare(true).is_loopback);
}

static void test_prepare_token(void **state)
{
    (void)state;
    static const char *const tokens[] = {
        HIP_C,
        DC_A,
        "",
        "zz",
        HIP_B "0",
        "rc:00112233445566778899aabbccddeeff:0:0:0",
        /* RC without a GID */
        "01a201000000000000000000000000000000000000000000000000000000000000000000000000000000000100"
        "00",
        /* DC with one */
        "00a201000000000000000000000000ffffc00002110000000000000000000000000000000000000000010000",
    };
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        example_prepare();
        change("x-amz-rdma-token", tokens[i]);
        refuse_prepare(RG_INVALID_RDMA_TOKEN, "token");
    }
    example_prepare();
    leave_out("x-amz-rdma-token");
    refuse_prepare(RG_INVALID_REQUEST, "token");
}

static void test_prepare_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *value;
        enum rg_code code;
    } cases[] = {
        {"psn", "0", RG_INVALID_REQUEST},
        {"psn", "000000", RG_INVALID_REQUEST},
        {"psn", "1000000", RG_INVALID_REQUEST},
        {"psn", "", RG_INVALID_REQUEST},
        {"psn", "0x12", RG_INVALID_REQUEST},
        {"psn", "00000000000000001", RG_INVALID_REQUEST},
        {"cookie", "100000000", RG_INVALID_REQUEST},
        {"cookie", "5eed 234", RG_INVALID_REQUEST},
        {"cookie", "-1", RG_INVALID_REQUEST},
        {"op", "HEAD", RG_INVALID_REQUEST},
        {"op", "GET,PUT", RG_INVALID_REQUEST},
        {"size", "0", RG_INVALID_REQUEST},
        {"size", "", RG_INVALID_REQUEST},
        {"size", "+5", RG_INVALID_REQUEST},
        {"size", "1k", RG_INVALID_REQUEST},
        {"size", "2147483648", RG_RDMA_TOO_LARGE},
        {"size", "99999999999999999999999", RG_RDMA_TOO_LARGE},
        {"offset", "", RG_INVALID_REQUEST},
        {"offset", "-1", RG_INVALID_REQUEST},
        {"offset", "18446744073709551615", RG_INVALID_REQUEST},
        {"offset", "9223372036854775807", RG_INVALID_REQUEST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64];
        example_prepare();
        snprintf(name, sizeof name, "x-amz-rdma-%s", cases[i].name);
        change(name, cases[i].value);
        refuse_prepare(cases[i].code, cases[i].code == RG_RDMA_TOO_LARGE ? "part" : name);
    }
    example_prepare();
    change("x-amz-rdma-size", "2147483647");
    change("x-amz-rdma-offset", "5000000000000");
    assert_int_equal(accept_prepare(true).offset, UINT64_C(5000000000000));
    change("x-amz-rdma-op", "PUT");
    refuse_prepare(RG_INVALID_REQUEST, "offset");
}

static void test_prepare_target(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",        "/",        "bkt/key",   "/bkt",     "/bkt/",         "//key",
        "/bkt/a%", "/bkt/a%2", "/bkt/a%zz", "/bkt/a b", "/bkt/\xc3\xa9", "/bkt/k?x=%4",
        "?a/b",    "/bkt?x/y", "/b/k\x01",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        example_prepare();
        change("x-amz-rdma-target", wrong[i]);
        refuse_prepare(RG_INVALID_REQUEST, "target");
    }
    static const char *const right[] = {"/b/k", "/b//", "/b/k/", "/b/k%2F%00"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        example_prepare();
        change("x-amz-rdma-target", right[i]);
        assert_true(rg_span_is(accept_prepare(true).path, right[i]));
    }
    example_prepare();
    change("x-amz-rdma-target", "/b/?");
    refuse_prepare(RG_INVALID_REQUEST, "target");
    char longest[RG_PUSH_TARGET_MAX + 2];
    memset(longest, 'k', sizeof longest);
    memcpy(longest, "/b/", 3);
    longest[RG_PUSH_TARGET_MAX] = 0;
    change("x-amz-rdma-target", longest);
    assert_int_equal(accept_prepare(true).path.len, RG_PUSH_TARGET_MAX);
    longest[RG_PUSH_TARGET_MAX] = 'k';
    longest[RG_PUSH_TARGET_MAX + 1] = 0;
    change("x-amz-rdma-target", longest);
    refuse_prepare(RG_INVALID_REQUEST, "long");
}

static void test_protocol(void **state)
{
    (void)state;
    struct rg_session_id id;
    example_prepare();
    change("x-amz-rdma-protocol", "hipobj-rc-v3");
    refuse_prepare(RG_RDMA_NOT_SUPPORTED, "hipobj-rc-v2");
    leave_out("x-amz-rdma-protocol");
    refuse_prepare(RG_RDMA_NOT_SUPPORTED, "hipobj-rc-v2");
    example_ready();
    change("x-amz-rdma-protocol", "HIPOBJ-RC-V2");
    refuse_ready(RG_RDMA_NOT_SUPPORTED, "hipobj-rc-v2");
    assert_int_equal(rg_push_cancel_parse(&head, &id, &error), -RG_RDMA_NOT_SUPPORTED);
}

static void test_twice(void **state)
{
    (void)state;
    example_prepare();
    put("x-amz-rdma-Size", "65536");
    refuse_prepare(RG_INVALID_REQUEST, "twice");
    example_ready();
    put("x-amz-rdma-session", "00112233445566778899aabbccddeeff");
    refuse_ready(RG_INVALID_REQUEST, "twice");
}

static void test_every_field_is_needed(void **state)
{
    (void)state;
    static const char *const needed[] = {"token", "psn", "cookie", "op", "target", "size"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "x-amz-rdma-%s", needed[i]);
        example_prepare();
        leave_out(name);
        refuse_prepare(RG_INVALID_REQUEST, name);
    }
    static const char *const ready[] = {"session", "cookie", "qpn", "mr-addr", "mr-rkey"};
    for (size_t i = 0; i < sizeof ready / sizeof ready[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "x-amz-rdma-%s", ready[i]);
        example_ready();
        leave_out(name);
        refuse_ready(RG_INVALID_REQUEST, name);
    }
}

static void test_ready_example(void **state)
{
    (void)state;
    static const uint8_t id[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                   0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    example_ready();
    struct rg_push_ready ready = accept_ready();
    assert_memory_equal(ready.session.bytes, id, sizeof id);
    assert_int_equal(ready.cookie, 0x5eed1234);
    assert_int_equal(ready.qpn, 0x1a2);
    assert_true(ready.has_window);
    assert_int_equal(ready.address, UINT64_C(0x7f3a5c400000));
    assert_int_equal(ready.rkey, 0x182ac7);
}

static void test_ready_tolerances(void **state)
{
    (void)state;
    example_ready();
    change("x-amz-rdma-qpn", "00000000000001A2");
    change("x-amz-rdma-session", "00112233445566778899AABBCCDDEEFF");
    assert_int_equal(accept_ready().qpn, 0x1a2);
    leave_out("x-amz-rdma-mr-addr");
    leave_out("x-amz-rdma-mr-rkey");
    assert_false(accept_ready().has_window);
    change("x-amz-rdma-qpn", "1000000");
    refuse_ready(RG_INVALID_REQUEST, "qpn");
    change("x-amz-rdma-qpn", "0");
    refuse_ready(RG_INVALID_REQUEST, "qpn");
    example_ready();
    change("x-amz-rdma-mr-rkey", "100000000");
    refuse_ready(RG_INVALID_REQUEST, "rkey");
    example_ready();
    change("x-amz-rdma-mr-addr", "0x7f");
    refuse_ready(RG_INVALID_REQUEST, "addr");
    example_ready();
    change("x-amz-rdma-session", "00112233445566778899aabbccddeef");
    refuse_ready(RG_INVALID_REQUEST, "session");
}

static void test_cancel(void **state)
{
    (void)state;
    struct rg_session_id id;
    example_ready();
    leave_out("x-amz-rdma-cookie");
    assert_int_equal(rg_push_cancel_parse(&head, &id, &error), 0);
    assert_int_equal(id.bytes[15], 0xff);
    leave_out("x-amz-rdma-session");
    assert_int_equal(rg_push_cancel_parse(&head, &id, &error), -RG_INVALID_REQUEST);
}

static void test_connect(void **state)
{
    (void)state;
    struct rg_lane_address peer;
    struct rg_session_id id;
    example_prepare();
    leave_out("x-amz-rdma-protocol");
    assert_int_equal(rg_session_connect_parse(&head, &peer, &error), 0);
    assert_int_equal(peer.qpn, 0x1a2);
    assert_int_equal(peer.psn, 0x0a1b2c);
    change("x-amz-rdma-token", ZEROS);
    assert_int_equal(rg_session_connect_parse(&head, &peer, &error), -RG_INVALID_RDMA_TOKEN);
    change("x-amz-rdma-token", HIP_B);
    change("x-amz-rdma-psn", "0");
    assert_int_equal(rg_session_connect_parse(&head, &peer, &error), -RG_INVALID_REQUEST);
    example_ready();
    assert_int_equal(rg_session_disconnect_parse(&head, &id, &error), 0);
    head.count = 0;
    assert_int_equal(rg_session_disconnect_parse(&head, &id, &error), -RG_INVALID_REQUEST);
}

static void test_answers(void **state)
{
    (void)state;
    struct rg_session_id id;
    assert_true(rg_session_id_parse(RG_SPAN_LITERAL("00112233445566778899aabbccddeeff"), &id));
    struct rg_lane_address own = {.qpn = 0x311, .psn = 0xbeef, .has_gid = true, .port = 1};
    static const uint8_t gid[16] = {[10] = 0xff, 0xff, 192, 0, 2, 200};
    memcpy(own.gid, gid, sizeof gid);
    struct rg_rdma_window window = {
        .address = UINT64_C(0x7f8820000000), .length = 65536, .rkey = 0x9c01};
    struct rg_session_answer answer;
    assert_int_equal(rg_session_answer_print(&id, &own, &window, &answer, NULL), 0);
    assert_string_equal(answer.reply, SERVER_REPLY);
    assert_string_equal(answer.session, "00112233445566778899aabbccddeeff");
    assert_string_equal(answer.psn, "00beef");
    assert_string_equal(answer.qpn, "311");
    assert_string_equal(answer.mr_addr, "7f8820000000");
    assert_string_equal(answer.mr_rkey, "9c01");
    assert_int_equal(rg_session_answer_print(&id, &own, NULL, &answer, NULL), 0);
    assert_string_equal(answer.mr_addr, "");
    char cookie[9];
    rg_push_cookie_print(0x5eed1234, cookie);
    assert_string_equal(cookie, "5eed1234");
    rg_push_cookie_print(1, cookie);
    assert_string_equal(cookie, "00000001");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepare_example),
        cmocka_unit_test(test_mtu),
        cmocka_unit_test(test_prepare_tolerances),
        cmocka_unit_test(test_prepare_loopback),
        cmocka_unit_test(test_prepare_token),
        cmocka_unit_test(test_prepare_numbers),
        cmocka_unit_test(test_prepare_target),
        cmocka_unit_test(test_protocol),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_every_field_is_needed),
        cmocka_unit_test(test_ready_example),
        cmocka_unit_test(test_ready_tolerances),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_connect),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
