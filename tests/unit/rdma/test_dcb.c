/* DCB: messages as the kernel builds them, and what traffic class follows. */
#include "rdma/dcb.h"

#include "test.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

/* A message under construction. */
static uint8_t message[4096] __attribute__((aligned(8)));
static size_t len;

static void append(const void *bytes, size_t count)
{
    memcpy(message + len, bytes, count);
    len += count;
    while (len % 4 != 0) {
        message[len++] = 0;
    }
}

static size_t open_attribute(uint16_t type)
{
    size_t at = len;
    struct nlattr header = {.nla_type = type};
    append(&header, sizeof header);
    return at;
}

static void close_attribute(size_t at, size_t unpadded_len)
{
    uint16_t length = (uint16_t)(unpadded_len ? unpadded_len : len - at);
    memcpy(message + at, &length, sizeof length);
}

static void attribute(uint16_t type, const void *bytes, size_t count)
{
    size_t at = open_attribute(type);
    append(bytes, count);
    close_attribute(at, sizeof(struct nlattr) + count);
}

static void begin(void)
{
    struct nlmsghdr header = {.nlmsg_type = RTM_GETDCB};
    struct dcbmsg body = {.cmd = DCB_CMD_IEEE_GET};
    memset(message, 0, sizeof message);
    len = 0;
    append(&header, sizeof header);
    append(&body, sizeof body);
    attribute(DCB_ATTR_IFNAME, "eth0", 5);
}

static void end(void)
{
    uint32_t length = (uint32_t)len;
    memcpy(message, &length, sizeof length);
}

static void rule(uint8_t selector, uint16_t protocol, uint8_t priority)
{
    struct dcb_app app = {.selector = selector, .protocol = protocol, .priority = priority};
    attribute(DCB_ATTR_IEEE_APP, &app, sizeof app);
}

struct rule {
    uint8_t selector;
    uint16_t protocol;
    uint8_t priority;
};

static struct rg_dcb parse(void)
{
    struct rg_dcb dcb;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_dcb_parse(message, len, &dcb, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return dcb;
}

static void build(uint8_t pfc_enabled, const struct rule *rules, size_t count)
{
    struct ieee_ets ets = {.ets_cap = 8};
    struct ieee_pfc pfc = {.pfc_cap = 8, .pfc_en = pfc_enabled};
    uint8_t dcbx = 5;
    begin();
    size_t ieee = open_attribute(DCB_ATTR_IEEE | NLA_F_NESTED);
    attribute(DCB_ATTR_IEEE_ETS, &ets, sizeof ets);
    attribute(DCB_ATTR_IEEE_PFC, &pfc, sizeof pfc);
    size_t table = open_attribute(DCB_ATTR_IEEE_APP_TABLE);
    for (size_t i = 0; i < count; i++) {
        rule(rules[i].selector, rules[i].protocol, rules[i].priority);
    }
    close_attribute(table, 0);
    attribute(99, "unknown", 8);
    close_attribute(ieee, 0);
    attribute(DCB_ATTR_DCBX, &dcbx, 1);
    end();
}

static void test_nothing(void **state)
{
    (void)state;
    begin();
    end();
    struct rg_dcb dcb = parse();
    assert_false(dcb.known);
    assert_int_equal(rg_dcb_traffic_class(&dcb), 0);
    build(0, NULL, 0);
    dcb = parse();
    assert_true(dcb.known);
    assert_int_equal(dcb.pfc_enabled, 0);
    assert_false(dcb.has_dscp_rules);
    assert_int_equal(rg_dcb_traffic_class(&dcb), 0);
}

static void test_traffic_class(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint8_t pfc;
        struct rule rules[4];
        size_t count;
        int dscp; /* -1: traffic class 0 */
    } cases[] = {
        {"rules without PFC", 0, {{5, 26, 3}}, 1, -1},
        {"PFC without rules", 1 << 3, {{0}}, 0, 24},
        {"PFC on 5 without rules", 1 << 5, {{0}}, 0, 40},
        {"the usual", 1 << 3, {{5, 26, 3}}, 1, 26},
        {"26 before others", 1 << 3, {{5, 24, 3}, {5, 26, 3}, {5, 1, 3}}, 3, 26},
        {"8 * priority before others", 1 << 4, {{5, 1, 4}, {5, 32, 4}}, 2, 32},
        {"the lowest", 1 << 4, {{5, 50, 4}, {5, 34, 4}}, 2, 34},
        {"a priority with a rule first", 1 << 3 | 1 << 5, {{5, 46, 5}}, 1, 46},
        {"3 first", 1 << 2 | 1 << 3, {{5, 16, 2}, {5, 26, 3}}, 2, 26},
        {"a rule for a lossy priority", 1 << 3, {{5, 46, 5}}, 1, 24},
        {"RoCE's own rule", 1 << 3 | 1 << 5, {{5, 26, 3}, {5, 46, 5}, {3, 4791, 5}}, 3, 46},
        {"RoCE's rule for any", 1 << 3 | 1 << 2, {{4, 4791, 2}}, 1, 16},
        {"RoCE's rule names a lossy one", 1 << 3, {{3, 4791, 6}}, 1, 24},
        {"TCP port 4791 is not RoCE", 1 << 3 | 1 << 6, {{2, 4791, 6}}, 1, 24},
        {"nonsense is skipped", 1 << 3, {{5, 64, 3}, {5, 26, 8}, {5, 65535, 3}}, 3, 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        build(cases[i].pfc, cases[i].rules, cases[i].count);
        struct rg_dcb dcb = parse();
        int wanted = cases[i].dscp < 0 ? 0 : cases[i].dscp << 2 | 2;
        if (rg_dcb_traffic_class(&dcb) != wanted) {
            fail_msg("%s: traffic class %d, not %d", cases[i].what, rg_dcb_traffic_class(&dcb),
                     wanted);
        }
    }
}

/* Classes, the switch's flow control, and who is in charge: for those who report. */
static void test_what_else_it_tells(void **state)
{
    (void)state;
    struct ieee_ets ets = {.tc_tx_bw = {40, 60}, .tc_tsa = {2, 2}, .prio_tc = {0, 0, 0, 1}};
    struct ieee_pfc peer = {.pfc_en = 1 << 4};
    uint8_t dcbx = RG_DCBX_HOST | RG_DCBX_IEEE;
    begin();
    size_t ieee = open_attribute(DCB_ATTR_IEEE);
    attribute(DCB_ATTR_IEEE_ETS, &ets, sizeof ets);
    attribute(DCB_ATTR_IEEE_PEER_PFC, &peer, sizeof peer);
    close_attribute(ieee, 0);
    attribute(DCB_ATTR_DCBX, &dcbx, 1);
    end();
    struct rg_dcb dcb = parse();
    assert_true(dcb.has_ets && dcb.has_peer_pfc && dcb.has_dcbx);
    assert_int_equal(dcb.class_of_priority[3], 1);
    assert_int_equal(dcb.bandwidth[1], 60);
    assert_int_equal(dcb.algorithm[0], 2);
    assert_int_equal(dcb.peer_pfc_enabled, 1 << 4);
    assert_int_equal(dcb.pfc_enabled, 0);
    assert_int_equal(dcb.dcbx, RG_DCBX_HOST | RG_DCBX_IEEE);

    begin();
    ieee = open_attribute(DCB_ATTR_IEEE);
    attribute(DCB_ATTR_IEEE_ETS, &ets, 10);
    close_attribute(ieee, 0);
    end();
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_dcb_parse(message, len, &dcb, &err), -RG_PARSE);
}

static void refuse(size_t length, enum rg_code code)
{
    struct rg_dcb dcb;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_dcb_parse(message, length, &dcb, &err), -(int)code);
}

static void test_kernel_says_no(void **state)
{
    (void)state;
    struct {
        struct nlmsghdr header;
        int error;
        struct nlmsghdr original;
    } refusal = {.header = {.nlmsg_type = NLMSG_ERROR, .nlmsg_len = sizeof refusal},
                 .error = -EOPNOTSUPP};
    memcpy(message, &refusal, sizeof refusal);
    len = sizeof refusal;
    assert_false(parse().known);
    refusal.error = -ENODEV;
    memcpy(message, &refusal, sizeof refusal);
    refuse(sizeof refusal, RG_SERVICE_UNAVAILABLE);
    refusal.error = INT32_MIN;
    memcpy(message, &refusal, sizeof refusal);
    refuse(sizeof refusal, RG_SERVICE_UNAVAILABLE);
}

/* Every cut of a good message is either refused or, at the seams, read as far as it goes. */
static void test_cut_short(void **state)
{
    (void)state;
    static const struct rule rules[] = {{5, 26, 3}};
    build(1 << 3, rules, 1);
    size_t whole = len;
    size_t refused = 0;
    for (size_t cut = 0; cut < whole; cut++) {
        uint32_t length = (uint32_t)cut;
        struct rg_dcb dcb;
        build(1 << 3, rules, 1);
        memcpy(message, &length, sizeof length);
        refused += rg_dcb_parse(message, cut, &dcb, NULL) == -RG_PARSE;
    }
    assert_true(refused > whole * 9 / 10);
    build(1 << 3, rules, 1);
    refuse(len - 1, RG_PARSE);
    message[4] = RTM_NEWLINK;
    refuse(len, RG_PARSE);
}

static void test_attribute_lengths(void **state)
{
    (void)state;
    static const uint16_t lengths[] = {0, 1, 3, 0xffff};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        build(1 << 3, NULL, 0);
        memcpy(message + NLMSG_HDRLEN + 4, &lengths[i], sizeof lengths[i]);
        refuse(len, RG_PARSE);
    }
    begin();
    size_t ieee = open_attribute(DCB_ATTR_IEEE);
    attribute(DCB_ATTR_IEEE_PFC, "\x08", 1);
    close_attribute(ieee, 0);
    end();
    refuse(len, RG_PARSE);
    begin();
    ieee = open_attribute(DCB_ATTR_IEEE);
    size_t table = open_attribute(DCB_ATTR_IEEE_APP_TABLE);
    attribute(DCB_ATTR_IEEE_APP, "abc", 3);
    close_attribute(table, 0);
    close_attribute(ieee, 0);
    end();
    refuse(len, RG_PARSE);
}

/* The loopback interface has no DCB, and one that does not exist is an error. */
static void test_read(void **state)
{
    (void)state;
    struct rg_dcb dcb;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_dcb_read("lo", &dcb, &err), 0);
    assert_false(dcb.known);
    assert_int_equal(rg_dcb_read("no-such-netdev0", &dcb, &err), -RG_SERVICE_UNAVAILABLE);
    assert_int_equal(rg_dcb_read("a-name-that-is-too-long", &dcb, &err), -RG_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_traffic_class),
        cmocka_unit_test(test_what_else_it_tells),
        cmocka_unit_test(test_kernel_says_no),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_attribute_lengths),
        cmocka_unit_test(test_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
