/* Vectors and reject vectors of every dialect. */
#include "rdma/token.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define DC_A "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"
#define DC_B "00007f3a5c400000:ffffffff:0badcafe:0012:0000c4:1:fe800000000000000002c90300a1b2c3"
#define DC_C "0000000000001000:00001000:00000055:0012:0000c4:0:00000000000000000000000000000000"
#define B64                                                                                        \
    "MDAwMDdmM2E1YzQwMDAwMDowMDQwMDAwMDowMDE4MmFjNzowMDAwOjAxYTJiMzoxOjAwMDAwMDAwMDAwMDAwMDAwMDAw" \
    "ZmZmZmMwMDAwMjEx"
#define SHIM "rc:00112233445566778899aabbccddeeff:00007f3a5c400000:00400000:00182ac7"
#define OFI  "7f3a5c400000:400000:ofi1:tcp;ofi_rxm:02004e20c00002110000000000000000:1f"
#define HIP_A                                                                                      \
    "01a201000000000000000000000000ffffc0000211c72a18000000405c3a7f00000000400000000000010000"
#define HIP_B                                                                                      \
    "01a201000000000000000000000000ffffc00002110000000000000000000000000000000000000000010000"
#define HIP_C                                                                                      \
    "0001020304000000000000000000000000000000000506070817161514131211102726252423222120033231"
#define HIP_S                                                                                      \
    "011103000000000000000000000000ffffc00002c8019c000000000020887f00000000010000000000010000"

static struct rg_rdma_window window;

static void accept(const char *text)
{
    struct rg_error err = RG_ERROR_INIT;
    window = (struct rg_rdma_window){0};
    int rc = rg_token_parse(rg_span_text(text), &window, &err);
    if (rc < 0) {
        fail_msg("%s: %s", text, err.message);
    }
}

static void refuse(const char *text)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_rdma_window untouched;
    memset(&untouched, 0x5a, sizeof untouched);
    window = untouched;
    if (rg_token_parse(rg_span_text(text), &window, &err) != -RG_INVALID_RDMA_TOKEN) {
        fail_msg("accepted: %s", text);
    }
    assert_memory_equal(&window, &untouched, sizeof window);
    if (strlen(text) > 16) {
        assert_null(strstr(err.message, text));
    }
}

static const uint8_t gid_a[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 17};

static void check_a(enum rg_dialect dialect)
{
    assert_int_equal(window.dialect, dialect);
    assert_int_equal(window.transport, RG_TRANSPORT_DC);
    assert_true(window.address == 0x7f3a5c400000);
    assert_true(window.length == 4194304);
    assert_true(window.rkey == 0x00182ac7);
    assert_int_equal(window.lid, 0);
    assert_int_equal(window.qpn, 0x01a2b3);
    assert_true(window.has_gid);
    assert_memory_equal(window.gid, gid_a, 16);
}

static void check_prints(void (*print)(const struct rg_rdma_window *, struct rg_buf *),
                         const char *text)
{
    RG_BUF(out, RG_TOKEN_MAX);
    print(&window, &out);
    assert_string_equal(rg_buf_text(&out), text);
}

static void test_d1(void **state)
{
    accept(DC_A);
    check_a(RG_DIALECT_D1);
    check_prints(rg_token_print_d1, DC_A);
    accept(DC_B);
    assert_true(window.length == 0xffffffff);
    assert_int_equal(window.lid, 0x12);
    assert_int_equal(window.qpn, 0xc4);
    check_prints(rg_token_print_d1, DC_B);
    accept(DC_C);
    assert_false(window.has_gid);
    check_prints(rg_token_print_d1, DC_C);
}

static void test_d1_tolerates(void **state)
{
    accept(DC_A ";");
    check_a(RG_DIALECT_D1);
    accept("  " DC_A "\t");
    check_a(RG_DIALECT_D1);
    accept("00007F3A5C400000:00400000:00182AC7:0000:01A2B3:1:00000000000000000000FFFFC0000211");
    check_a(RG_DIALECT_D1);
}

static void test_d1_refuses(void **state)
{
    static const char *const bad[] = {
        "",
        ";",
        "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc000021",
        DC_A "0",
        DC_A ";;",
        "ffffffffffffff00:00000200:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211",
        "00007f3a5c400000:00000000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211",
        "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:2:00000000000000000000ffffc0000211",
        "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000000000000000",
        "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:0:00000000000000000000000000000000",
        "00007f3a5c400000:00400000:00182ac7:0000:000000:1:00000000000000000000ffffc0000211",
        "00007f3a5c400000 00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211",
        "00007f3a5c400000:0040000g:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211",
        "00007f3a5c400000:0400000:000182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211",
        "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:-0000000000000000000ffffc0000211",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refuse(bad[i]);
    }
}

static void test_d1_suffix(void **state)
{
    accept(DC_A ":00007f3a5c500000:0000000000100000");
    assert_int_equal(window.dialect, RG_DIALECT_D1_SUFFIX);
    assert_true(window.address == 0x7f3a5c500000);
    assert_true(window.length == 1 << 20);
    accept(DC_A ":0000000000000000:0000000000000000");
    check_a(RG_DIALECT_D1_SUFFIX);
    accept(DC_A ":00007f3a5c400000:0000000000400000;");
    check_a(RG_DIALECT_D1_SUFFIX);
    refuse(DC_A ":00007f3a5c3fffff:0000000000000001");
    refuse(DC_A ":00007f3a5c7fffff:0000000000000002");
    refuse(DC_A ":00007f3a5c400000:0000000000000000");
    refuse(DC_A ":00007f3a5c400000:ffffffffffffffff");
    refuse(DC_A ":00007f3a5c4000000000000000000100:");
    refuse(DC_A ":00007f3a5c500000:000000000010000");
}

static void test_d1_base64(void **state)
{
    accept(B64);
    check_a(RG_DIALECT_D1_BASE64);
    refuse("MDAwMDdmM2E1YzQwMDAwMA==");
    refuse("AAAA");
}

static void test_rc_session(void **state)
{
    accept(SHIM);
    assert_int_equal(window.dialect, RG_DIALECT_RC_SESSION);
    assert_int_equal(window.transport, RG_TRANSPORT_RC);
    assert_string_equal(window.session, "00112233445566778899aabbccddeeff");
    assert_true(window.address == 0x7f3a5c400000);
    assert_true(window.length == 0x400000);
    assert_true(window.rkey == 0x182ac7);
    check_prints(rg_token_print_rc_session, SHIM);
    refuse("rc:");
    refuse("rc:0011");
    refuse(SHIM ":0");
    refuse("rc:00112233445566778899aabbccddeefg:00007f3a5c400000:00400000:00182ac7");
    refuse("rc:00112233445566778899aabbccddeeff:00007f3a5c400000:00000000:00182ac7");
    refuse("rc:00112233445566778899aabbccddeeff:ffffffffffffffff:00400000:00182ac7");
}

static void test_ofi(void **state)
{
    accept(OFI);
    assert_int_equal(window.dialect, RG_DIALECT_OFI1);
    assert_int_equal(window.transport, RG_TRANSPORT_OFI);
    assert_true(window.address == 0x7f3a5c400000);
    assert_true(window.length == 0x400000);
    assert_true(window.rkey == 0x1f);
    assert_string_equal(window.provider, "tcp;ofi_rxm");
    assert_int_equal(window.endpoint_len, 16);
    assert_memory_equal(window.endpoint, "\x02\x00\x4e\x20\xc0\x00\x02\x11", 8);
    check_prints(rg_token_print_ofi, OFI);
    refuse("7f3a5c400000:400000:ofi1");
    refuse("7f3a5c400000:400000:ofi1:");
    refuse("7f3a5c400000:400000:ofi1:tcp");
    refuse("7f3a5c400000:400000:ofi1:tcp:0200");
    refuse("7f3a5c400000:400000:ofi1:tcp:020:1f");
    refuse("7f3a5c400000:400000:ofi1:tcp:0200:1f:2");
    refuse("7f3a5c400000:400000:ofi1:t cp:0200:1f");
    refuse("7f3a5c400000:0:ofi1:tcp:0200:1f");
    refuse("ffffffffffffffff:2:ofi1:tcp:0200:1f");
    char longest[RG_OFI_NAME_MAX * 2 + 3];
    memset(longest, 'a', sizeof longest);
    char text[1024];
    snprintf(text, sizeof text, "1:1:ofi1:tcp:%.*s:1", RG_OFI_NAME_MAX * 2, longest);
    accept(text);
    snprintf(text, sizeof text, "1:1:ofi1:tcp:%.*s:1", RG_OFI_NAME_MAX * 2 + 2, longest);
    refuse(text);
}

static void test_hipobj(void **state)
{
    accept(HIP_A);
    assert_int_equal(window.dialect, RG_DIALECT_HIPOBJ_V1);
    assert_int_equal(window.transport, RG_TRANSPORT_RC);
    assert_int_equal(window.qpn, 0x1a2);
    assert_memory_equal(window.gid, gid_a, 16);
    assert_true(window.rkey == 0x182ac7);
    assert_true(window.address == 0x7f3a5c400000);
    assert_true(window.length == 0x400000);
    assert_int_equal(window.port, 1);
    assert_int_equal(window.lid, 0);
    check_prints(rg_token_print_hipobj, HIP_A);
    accept(HIP_A ":00007f3a5c400000:0000000000400000");
    accept(HIP_B);
    check_prints(rg_token_print_hipobj, HIP_B);
    accept(HIP_S);
    assert_int_equal(window.qpn, 0x311);
    assert_true(window.rkey == 0x9c01);
    check_prints(rg_token_print_hipobj, HIP_S);
    refuse(HIP_A ":1");
    refuse(HIP_A ":1:");
    refuse(HIP_A ":1:2:3");
    /* The layout probe: every byte distinct; its queue pair number has 32 bits. */
    refuse(HIP_C);
}

static void test_hipobj_layout(void **state)
{
    accept(
        "0001020300000000000000000000000000000000000506070817161514131211102726252423222120033231");
    assert_int_equal(window.transport, RG_TRANSPORT_DC);
    assert_int_equal(window.qpn, 0x030201);
    assert_true(window.rkey == 0x08070605);
    assert_true(window.address == 0x1011121314151617);
    assert_true(window.length == 0x2021222324252627);
    assert_int_equal(window.port, 3);
    assert_int_equal(window.lid, 0x3132);
}

static void test_replies(void **state)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"200", 200}, {"204", 204},  {"206", 206},      {"501", 501}, {" 200\t", 200}, {"", 0},
        {"0", 0},     {"200xyz", 0}, {"+200", 0},       {"2e2", 0},   {"0200", 0},     {"99", 0},
        {"600", 0},   {"099", 0},    {"200:" HIP_S, 0}, {"ok", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(rg_rdma_reply_parse(rg_span_text(rows[i].text), false, NULL),
                         rows[i].code);
    }
    assert_int_equal(rg_rdma_reply_parse(rg_span_text("200:" HIP_S), true, &window), 200);
    assert_int_equal(window.qpn, 0x311);
    assert_int_equal(rg_rdma_reply_parse(rg_span_text("206:" HIP_S), true, &window), 0);
    assert_int_equal(rg_rdma_reply_parse(rg_span_text("200:" HIP_S "0"), true, &window), 0);
}

/* What is logged must not let a reader reach the memory. */
static void test_describe_hides_the_key(void **state)
{
    accept(DC_A);
    RG_BUF(out, 4096);
    rg_token_describe(&window, &out);
    assert_null(strstr(rg_buf_text(&out), "182ac7"));
    assert_non_null(strstr(rg_buf_text(&out), "4194304 bytes"));
    rg_buf_clear(&out);
    rg_token_explain(&window, &out);
    assert_non_null(strstr(rg_buf_text(&out), "IPv4 192.0.2.17"));
}

/* Each single changed byte either is refused or gives another window: nothing is ignored. */
static void test_every_byte_counts(void **state)
{
    static const char *const texts[] = {DC_A, SHIM, OFI, HIP_A};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        accept(texts[i]);
        struct rg_rdma_window whole = window;
        size_t len = strlen(texts[i]);
        for (size_t at = 0; at < len; at++) {
            char *text = strdup(texts[i]);
            text[at] = text[at] == '1' ? '2' : '1';
            struct rg_rdma_window other = {0};
            if (rg_token_parse(rg_span_text(text), &other, NULL) == 0) {
                assert_memory_not_equal(&other, &whole, sizeof whole);
            }
            free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_d1),
        cmocka_unit_test(test_d1_tolerates),
        cmocka_unit_test(test_d1_refuses),
        cmocka_unit_test(test_d1_suffix),
        cmocka_unit_test(test_d1_base64),
        cmocka_unit_test(test_rc_session),
        cmocka_unit_test(test_ofi),
        cmocka_unit_test(test_hipobj),
        cmocka_unit_test(test_hipobj_layout),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_describe_hides_the_key),
        cmocka_unit_test(test_every_byte_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
