/* What a gateway's answers to connect, PREPARE and READY say; a gateway may say anything. */
#include "test.h"

#include "base/checked.h"
#include "client/pairing.h"
#include "rdma/session_wire.h"

#include <stdio.h>

#define SESSION "00112233445566778899aabbccddeeff"

static struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
static char reply[RG_SESSION_REPLY_BYTES + 1];

static void say(const char *name, const char *value)
{
    char line[1024];
    snprintf(line, sizeof line, "%s: %s\r\n", name, value);
    rg_http_answer_take_line(&answer, rg_span_text(line));
}

/* Replaces what was said. */
static void correct(const char *name, const char *value)
{
    for (int field = 0; field < RG_ANSWER_FIELD_COUNT; field++) {
        char line[1024];
        struct rg_http_answer one = RG_HTTP_ANSWER_INIT;
        snprintf(line, sizeof line, "%s: x", name);
        rg_http_answer_take_line(&one, rg_span_text(line));
        if (one.has[field]) {
            answer.has[field] = answer.twice[field] = false;
        }
        rg_http_answer_free(&one);
    }
    if (value) {
        say(name, value);
    }
}

static void example(void)
{
    const struct rg_session_id id = {{0}};
    const struct rg_lane_address own = {
        .qpn = 0x1a2, .psn = 0x010203, .lid = 7, .port = 1, .has_gid = true, .gid = {[15] = 9}};
    struct rg_session_answer printed;
    assert_int_equal(rg_session_answer_print(&id, &own, NULL, &printed, NULL), 0);
    memcpy(reply, printed.reply, sizeof reply);
    rg_http_answer_take_line(&answer, RG_SPAN_LITERAL("HTTP/1.1 200 OK\r\n"));
    say("x-amz-rdma-reply", reply);
    say("X-Amz-Rdma-Psn", "010203");
    say("x-amz-rdma-session", SESSION);
    say("x-amz-rdma-protocol", "hipobj-rc-v2");
    say("x-amz-rdma-mr-addr", "7f3a5c400000");
    say("x-amz-rdma-mr-rkey", "182ac7");
    say("x-amz-rdma-cookie", "5EED1234");
}

static void test_example(void **state)
{
    struct rg_pairing pairing;
    example();
    assert_true(rg_pairing_read_connect(&answer, &pairing));
    assert_int_equal(pairing.peer.qpn, 0x1a2);
    assert_int_equal(pairing.peer.psn, 0x010203);
    assert_int_equal(pairing.peer.lid, 7);
    assert_int_equal(pairing.peer.mtu, 0);
    assert_true(pairing.peer.has_gid);
    assert_int_equal(pairing.peer.gid[15], 9);
    assert_string_equal(pairing.session, SESSION);
    assert_false(pairing.has_staging);
    assert_true(rg_pairing_read_prepare(&answer, 0, &pairing));
    assert_false(pairing.has_staging);
    say("x-railgate-mtu", "2048");
    assert_true(rg_pairing_read_prepare(&answer, 4096, &pairing));
    assert_true(pairing.has_staging);
    assert_true(pairing.staging_address == 0x7f3a5c400000);
    assert_int_equal(pairing.staging_rkey, 0x182ac7);
    assert_int_equal(pairing.peer.mtu, 2048);
    assert_true(rg_pairing_is_about(&answer, 0x5eed1234));
    assert_false(rg_pairing_is_about(&answer, 0x5eed1235));
}

static void test_what_is_no_answer(void **state)
{
    static const char *const rows[][2] = {
        {"x-amz-rdma-reply", NULL},
        {"x-amz-rdma-reply", "200"},
        {"x-amz-rdma-reply", "501"},
        {"x-amz-rdma-reply", "200:00"},
        {"x-amz-rdma-psn", NULL},
        {"x-amz-rdma-psn", "10203"},
        {"x-amz-rdma-psn", "0010203"},
        {"x-amz-rdma-psn", "0x0203"},
        {"x-amz-rdma-psn", "-10203"},
        {"x-amz-rdma-session", NULL},
        {"x-amz-rdma-session", "00112233445566778899aabbccddeef"},
        {"x-amz-rdma-session", "00112233445566778899aabbccddeefff"},
        {"x-amz-rdma-session", "00112233445566778899aabbccddee\"f"},
        {"x-railgate-mtu", "1500"},
        {"x-railgate-mtu", ""},
        {"x-amz-rdma-protocol", NULL},
        {"x-amz-rdma-protocol", "hipobj-rc-v3"},
        {"x-amz-rdma-mr-addr", NULL},
        {"x-amz-rdma-mr-addr", "0"},
        {"x-amz-rdma-mr-addr", "0x7f3a5c400000"},
        {"x-amz-rdma-mr-addr", "-1"},
        {"x-amz-rdma-mr-addr", "+7f3a5c400000"},
        {"x-amz-rdma-mr-addr", "fffffffffffff001"},
        {"x-amz-rdma-mr-addr", "00007f3a5c4000001"},
        {"x-amz-rdma-mr-rkey", NULL},
        {"x-amz-rdma-mr-rkey", "100000000"},
        {"x-amz-rdma-mr-rkey", "18 2a"},
    };
    struct rg_pairing pairing;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        example();
        correct(rows[i][0], rows[i][1]);
        if (rg_pairing_read_prepare(&answer, 4096, &pairing)) {
            fail_msg("%s: %s", rows[i][0], rows[i][1] ? rows[i][1] : "(not there)");
        }
    }
}

static void test_nothing_counts_twice(void **state)
{
    static const char *const rows[][2] = {
        {"x-amz-rdma-reply", reply},
        {"x-amz-rdma-psn", "010203"},
        {"x-amz-rdma-session", SESSION},
        {"x-amz-rdma-protocol", "hipobj-rc-v2"},
        {"x-amz-rdma-mr-addr", "7f3a5c400000"},
        {"x-amz-rdma-mr-rkey", "182ac7"},
    };
    struct rg_pairing pairing;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        example();
        assert_true(rg_pairing_read_prepare(&answer, 4096, &pairing));
        say(rows[i][0], rows[i][1]);
        assert_false(rg_pairing_read_prepare(&answer, 4096, &pairing));
    }
    example();
    say("x-amz-rdma-cookie", "5eed1234");
    assert_false(rg_pairing_is_about(&answer, 0x5eed1234));
    example();
    correct("x-amz-rdma-protocol", NULL);
    assert_false(rg_pairing_is_about(&answer, 0x5eed1234));
    example();
    correct("x-amz-rdma-cookie", "05eed1234");
    assert_false(rg_pairing_is_about(&answer, 0x5eed1234));
}

/* Numbers of queue pairs of no use are no answer either. */
static void test_a_queue_pair_is_needed(void **state)
{
    struct rg_pairing pairing;
    char zeros[RG_SESSION_REPLY_BYTES + 1] = "200:";
    memset(zeros + 4, '0', sizeof zeros - 5);
    example();
    correct("x-amz-rdma-reply", zeros);
    assert_false(rg_pairing_read_connect(&answer, &pairing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_what_is_no_answer),
        cmocka_unit_test(test_nothing_counts_twice),
        cmocka_unit_test(test_a_queue_pair_is_needed),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rg_http_answer_free(&answer);
    return rc;
}
