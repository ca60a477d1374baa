#include "base/attr.h"
#include "s3/names.h"

#include "test.h"

static void test_good_buckets(void **state)
{
    static const char *const good[] = {
        "abc",
        "a-b",
        "a.b",
        "0ab",
        "bucket.with.dots",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.a",
        "a1.2.3.4",
        "1234.1.1.1",
        "a--b",
        "xn-a",
        "s3alias",
        "my-s3aliases",
        "a.-b",
        "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(good); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_bucket_name_check(rg_span_text(good[i]), &err), 0);
    }
}

static void assert_bad_bucket(struct span name, const char *rule)
{
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_bucket_name_check(name, &err), -RG_INVALID_BUCKET_NAME);
    assert_non_null(strstr(err.message, rule));
}

/* Made by no one, but a tree may hold them. */
static void new_bucket_names_are_host_names(void **state)
{
    const char *const served[] = {"a.-b", "a-.b"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(served); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_bucket_name_check(rg_span_text(served[i]), &err), 0);
        assert_int_equal(rg_bucket_name_check_new(rg_span_text(served[i]), &err),
                         -RG_INVALID_BUCKET_NAME);
    }
    assert_int_equal(rg_bucket_name_check_new(rg_span_text("a.b-c"), NULL), 0);
    assert_int_equal(rg_bucket_name_check_new(rg_span_text("a"), NULL), -RG_INVALID_BUCKET_NAME);
}

static void test_bad_buckets(void **state)
{
    static const char *const bad[][2] = {
        {"", "3 to 63"},
        {"ab", "3 to 63"},
        {"abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcd", "3 to 63"},
        {"Abc", "a-z"},
        {"a_b", "a-z"},
        {"a/b", "a-z"},
        {"a b", "a-z"},
        {"..a", "two dots"},
        {"a..b", "two dots"},
        {"-ab", "begins"},
        {"ab-", "begins"},
        {".ab", "begins"},
        {"ab.", "begins"},
        {"1.2.3.4", "IPv4"},
        {"999.999.999.999", "IPv4"},
        {"xn--abc", "xn--"},
        {"abc-s3alias", "-s3alias"},
        {"abc--ol-s3", "--ol-s3"},
        {".railgate", "begins"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {

        assert_bad_bucket(rg_span_text(bad[i][0]), bad[i][1]);
    }
    assert_bad_bucket(rg_span("ab\0c", 4), "a-z");
    assert_bad_bucket(rg_span_text("\xc3\xbc\xc3\xbc"), "a-z");
}

static void test_keys(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    static char key[RG_KEY_BYTES_MAX + 1];
    memset(key, 'k', sizeof key);
    assert_int_equal(rg_key_check(rg_span(key, RG_KEY_BYTES_MAX), &err), 0);
    assert_int_equal(rg_key_check(rg_span(key, RG_KEY_BYTES_MAX + 1), &err), -RG_KEY_TOO_LONG);
    assert_int_equal(rg_key_check(rg_span_text(""), &err), -RG_INVALID_URI);
    assert_int_equal(rg_key_check((struct span){NULL, 0}, &err), -RG_INVALID_URI);
    assert_int_equal(rg_key_check(rg_span("a\0b", 3), &err), -RG_INVALID_URI);
    assert_int_equal(rg_key_check(rg_span_text("a\xff"), &err), -RG_INVALID_URI);
    assert_int_equal(rg_key_check(rg_span_text("../\xf0\x9f\x98\x80\n//"), &err), 0);
}

static void test_storable_keys(void **state)
{
    static char longest[RG_SEGMENT_BYTES_MAX + 2];
    memset(longest, 's', RG_SEGMENT_BYTES_MAX);
    longest[RG_SEGMENT_BYTES_MAX] = '/';
    const char *const good[] = {
        "a",         "a/b",   "a/",           "a/b/c/",     "...",
        ".hidden",   "a/..b", "x/.railgate",  ".railgates", "a/.railgatex",
        "railgate-", longest, "a b/\xc3\xbc", "a\nb",       "-",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(good); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_key_storable(rg_span_text(good[i]), &err), 0);
    }
}

static void test_unstorable_keys(void **state)
{
    static char long_segment[RG_SEGMENT_BYTES_MAX + 4] = "a/";
    memset(long_segment + 2, 's', RG_SEGMENT_BYTES_MAX + 1);
    const char *const bad[][2] = {
        {"", "empty"},
        {"/", "begins with '/'"},
        {"/a", "begins with '/'"},
        {"//", "begins with '/'"},
        {"a//b", "empty segment"},
        {"a//", "empty segment"},
        {".", "\"..\""},
        {"..", "\"..\""},
        {"./", "\"..\""},
        {"a/../b", "\"..\""},
        {"a/.", "\"..\""},
        {"a/../", "\"..\""},
        {long_segment, "255"},
        {".railgate", "\".railgate\""},
        {".railgate/", "\".railgate\""},
        {".railgate/x", "\".railgate\""},
        {".railgate-tmp", "\".railgate-\""},
        {"a/.railgate-", "\".railgate-\""},
        {"a/.railgate-x/b", "\".railgate-\""},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_key_storable(rg_span_text(bad[i][0]), &err), -RG_INVALID_OBJECT_NAME);
        assert_non_null(strstr(err.message, bad[i][1]));
    }
    assert_int_equal(rg_key_storable(rg_span("a\0b", 3), NULL), -RG_INVALID_OBJECT_NAME);
    assert_int_equal(rg_key_storable((struct span){NULL, 0}, NULL), -RG_INVALID_OBJECT_NAME);
}

static void test_metadata_names(void **state)
{
    static char name[RG_METADATA_BYTES_MAX + 1];
    memset(name, 'n', sizeof name);
    assert_int_equal(rg_metadata_name_check(rg_span(name, RG_METADATA_BYTES_MAX), NULL), 0);
    assert_int_equal(rg_metadata_name_check(rg_span(name, RG_METADATA_BYTES_MAX + 1), NULL),
                     -RG_METADATA_TOO_LARGE);
    assert_int_equal(rg_metadata_name_check(rg_span_text("Ab-9_.~!#$%&'*+^`|"), NULL), 0);
    static const char *const bad[] = {"", "a b", "a:b", "a/b", "\xc3\xbc", "a\n", "(a)", "a\"b"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_metadata_name_check(rg_span_text(bad[i]), &err), -RG_INVALID_ARGUMENT);
    }
    assert_int_equal(rg_metadata_name_check(rg_span("a\0b", 3), NULL), -RG_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_buckets),
        cmocka_unit_test(test_bad_buckets),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_storable_keys),
        cmocka_unit_test(test_unstorable_keys),
        cmocka_unit_test(test_metadata_names),
        cmocka_unit_test(new_bucket_names_are_host_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
