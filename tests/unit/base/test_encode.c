#include "base/encode.h"

#include "test.h"

static void test_hex(void **state)
{
    char text[9];
    rg_hex_encode("\x00\xff\x1a\xb2", 4, text);
    assert_string_equal(text, "00ff1ab2");
    unsigned char bytes[2];
    assert_true(rg_hex_decode(rg_span_text("aBf0"), bytes, 2));
    assert_memory_equal(bytes, "\xab\xf0", 2);
    assert_false(rg_hex_decode(rg_span_text("aBf"), bytes, 2));
    assert_false(rg_hex_decode(rg_span_text("aBg0"), bytes, 2));
}

static void test_hex_numbers(void **state)
{
    uint64_t value = 7;
    assert_true(rg_hex_to_u64(rg_span_text("0"), &value));
    assert_true(value == 0);
    assert_true(rg_hex_to_u64(rg_span_text("fFfFfFfFfFfFfFfF"), &value));
    assert_true(value == UINT64_MAX);
    static const char *const bad[] = {"", "g", "0x1", " 1", "1 ", "-1", "10000000000000000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        value = 7;
        assert_false(rg_hex_to_u64(rg_span_text(bad[i]), &value));
        assert_true(value == 7);
    }
}

static void test_hex_shape(void **state)
{
    assert_true(rg_hex_has_shape(rg_span_text("3B:0f"), "xx:xx"));
    static const char *const bad[] = {"", "3b:0", "3b:0f0", "3b-0f", "3g:0f", "xx:xx"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(rg_hex_has_shape(rg_span_text(bad[i]), "xx:xx"));
    }
    assert_false(rg_hex_has_shape(rg_span("3b\0000", 5), "xx:xx"));
}

/* RFC 4648, section 10. */
static void test_base64_vectors(void **state)
{
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char text[16];
        char bytes[16];
        size_t len;
        rg_base64_encode(vectors[i][0], strlen(vectors[i][0]), text);
        assert_string_equal(text, vectors[i][1]);
        assert_true(rg_base64_decode(rg_span_text(text), bytes, sizeof bytes, &len));
        assert_int_equal(len, strlen(vectors[i][0]));
        assert_memory_equal(bytes, vectors[i][0], len);
    }
}

static void test_base64_is_strict(void **state)
{
    static const char *const bad[] = {
        "Zg", "Zg=", "Zg==\n", "Z===", "====", "Zh==", "Zm9=", "Zm 9", "Zg==Zg==", "-_-_"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char bytes[16];
        size_t len;
        assert_false(rg_base64_decode(rg_span_text(bad[i]), bytes, sizeof bytes, &len));
    }
    char two[2];
    size_t len;
    assert_false(rg_base64_decode(rg_span_text("Zm9v"), two, sizeof two, &len));
}

static void test_constant_time_comparison(void **state)
{
    assert_true(rg_equal_constant_time("abc", "abc", 3));
    assert_false(rg_equal_constant_time("abc", "abd", 3));
    assert_true(rg_equal_constant_time("", "", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_hex_numbers),
        cmocka_unit_test(test_hex_shape),
        cmocka_unit_test(test_base64_vectors),
        cmocka_unit_test(test_base64_is_strict),
        cmocka_unit_test(test_constant_time_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
