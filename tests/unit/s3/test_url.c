#include "base/attr.h"
#include "s3/url.h"

#include "test.h"

static void assert_decodes(const char *raw, enum rg_url_part part, const char *expected)
{
    RG_BUF(out, 1000);
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_url_decode(rg_span_text(raw), part, &out, &err), 0);
    assert_string_equal(rg_buf_text(&out), expected);
}

static void test_decode(void **state)
{
    assert_decodes("", RG_URL_PATH, "");
    assert_decodes("/a%20b%2fc%2Fd", RG_URL_PATH, "/a b/c/d");
    assert_decodes("a+b%2B", RG_URL_PATH, "a+b+");
    assert_decodes("a+b%2B", RG_URL_QUERY, "a b+");
    assert_decodes("%C3%bc\xff", RG_URL_PATH, "\xc3\xbc\xff");
    assert_decodes("%2541", RG_URL_PATH, "%41");
}

static void test_decode_is_strict(void **state)
{
    static const char *const bad[] = {"%", "a%", "%4", "%zz", "%4z", "%z4", "%%41", "% 41", "%00"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        RG_BUF(out, 1000);
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_url_decode(rg_span_text(bad[i]), RG_URL_PATH, &out, &err),
                         -RG_INVALID_URI);
        assert_int_equal(err.code, RG_INVALID_URI);
    }
    RG_BUF(out, 1000);
    assert_int_equal(rg_url_decode(rg_span("a\0b", 3), RG_URL_PATH, &out, NULL), -RG_INVALID_URI);
    RG_BUF(small, 2);
    assert_int_equal(rg_url_decode(rg_span_text("abc"), RG_URL_PATH, &small, NULL),
                     -RG_OUT_OF_MEMORY);
}

static void test_encode(void **state)
{
    RG_BUF(kept, 1000);
    rg_url_encode(rg_span("AZaz09-_.~/ +%\0\xff", 16), RG_URL_SLASH_KEPT, &kept);
    assert_string_equal(rg_buf_text(&kept), "AZaz09-_.~/%20%2B%25%00%FF");
    RG_BUF(encoded, 1000);
    rg_url_encode(rg_span_text("a/b"), RG_URL_SLASH_ENCODED, &encoded);
    assert_string_equal(rg_buf_text(&encoded), "a%2Fb");
    rg_url_encode((struct span){NULL, 0}, RG_URL_SLASH_ENCODED, &encoded);
    assert_string_equal(rg_buf_text(&encoded), "a%2Fb");
}

static void test_encode_round_trip(void **state)
{
    char all[255];
    for (size_t i = 0; i < sizeof all; i++) {
        all[i] = (char)(i + 1);
    }
    RG_BUF(encoded, 1000);
    RG_BUF(decoded, 1000);
    rg_url_encode(rg_span(all, sizeof all), RG_URL_SLASH_ENCODED, &encoded);
    assert_int_equal(rg_url_decode(rg_buf_span(&encoded), RG_URL_QUERY, &decoded, NULL), 0);
    assert_int_equal(decoded.len, sizeof all);
    assert_memory_equal(decoded.data, all, sizeof all);
}

static void assert_param(const struct rg_query *query, size_t i, const char *name,
                         const char *value, bool has_value)
{
    assert_true(i < query->count);
    assert_true(rg_span_is(query->params[i].name, name));
    assert_true(rg_span_is(query->params[i].value, value));
    assert_int_equal(query->params[i].has_value, has_value);
}

static void test_query(void **state)
{
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    struct rg_error err = RG_ERROR_INIT;
    const char *raw = "&acl&prefix=a%2Fb+c&&x=&x=1=2&=v&";
    assert_int_equal(rg_query_parse(rg_span_text(raw), &query, &err), 0);
    assert_int_equal(query.count, 5);
    assert_param(&query, 0, "acl", "", false);
    assert_param(&query, 1, "prefix", "a/b c", true);
    assert_param(&query, 2, "x", "", true);
    assert_param(&query, 3, "x", "1=2", true);
    assert_param(&query, 4, "", "v", true);
    assert_ptr_equal(rg_query_find(&query, "x"), &query.params[2]);
    assert_null(rg_query_find(&query, "X"));
    assert_int_equal(rg_query_count(&query, "x"), 2);
    assert_int_equal(rg_query_count(&query, "none"), 0);
}

static void test_empty_query(void **state)
{
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    assert_int_equal(rg_query_parse((struct span){NULL, 0}, &query, NULL), 0);
    assert_int_equal(query.count, 0);
    RG_BUF(out, 10);
    assert_int_equal(rg_query_canonical(&query, NULL, &out, NULL), 0);
    assert_string_equal(rg_buf_text(&out), "");
}

static void test_bad_queries(void **state)
{
    static const char *const bad[] = {"a=%", "%zz", "a=1&b=%0", "a%00=1"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        struct rg_query query;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_query_parse(rg_span_text(bad[i]), &query, &err), -RG_INVALID_URI);
    }
}

static void test_query_ceilings(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    static char many[2 * (RG_QUERY_PARAMS_MAX + 1)];
    for (size_t i = 0; i < sizeof many; i += 2) {
        memcpy(many + i, "a&", 2);
    }
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    assert_int_equal(rg_query_parse(rg_span(many, sizeof many), &query, &err), -RG_INVALID_URI);
    assert_int_equal(rg_query_parse(rg_span(many, sizeof many - 2), &query, &err), 0);
    assert_int_equal(query.count, RG_QUERY_PARAMS_MAX);

    static char large[RG_QUERY_BYTES_MAX + 1];
    memset(large, '~', sizeof large);
    struct rg_query none;
    assert_int_equal(rg_query_parse(rg_span(large, sizeof large), &none, &err), -RG_INVALID_URI);

    RG_CLEANUP(rg_query_free) struct rg_query longest = RG_QUERY_INIT;
    memset(large, ' ', sizeof large);
    assert_int_equal(rg_query_parse(rg_span(large, sizeof large - 1), &longest, &err), 0);
    RG_BUF(out, 1 << 20);
    assert_int_equal(rg_query_canonical(&longest, NULL, &out, &err), 0);
    assert_int_equal(out.len, 3 * RG_QUERY_BYTES_MAX + 1);
}

static void assert_canonical(const char *raw, const char *leave_out, const char *expected)
{
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    RG_BUF(out, 1000);
    assert_int_equal(rg_query_parse(rg_span_text(raw), &query, NULL), 0);
    assert_int_equal(rg_query_canonical(&query, leave_out, &out, NULL), 0);
    assert_string_equal(rg_buf_text(&out), expected);
}

static void test_canonical(void **state)
{
    assert_canonical("lifecycle", NULL, "lifecycle=");
    assert_canonical("prefix=J&max-keys=2", NULL, "max-keys=2&prefix=J");
    assert_canonical("b=2&a=2&b=1&a", NULL, "a=&a=2&b=1&b=2");
    assert_canonical("a=%7e&B=/&a-b=c+d", NULL, "B=%2F&a=~&a-b=c%20d");
    /* '(' sorts before 'A', "%28" too, but '~' sorts after "%": the encoded form decides. */
    assert_canonical("%c3%bc=1&~=2&A=3", NULL, "%C3%BC=1&A=3&~=2");
    assert_canonical("X-Amz-Signature=ab&a=1&X-Amz-Signature=cd", "X-Amz-Signature", "a=1");
    assert_canonical("X-Amz-Signature=ab", "X-Amz-Signature", "");
    assert_canonical("a=1&b=%2f&c", NULL, "a=1&b=%2F&c=");
    assert_canonical("t&s&r&q&p&o&n&m&l&k&j&i&h&g&f&e&d&c&b&a=/", NULL,
                     "a=%2F&b=&c=&d=&e=&f=&g=&h=&i=&j=&k=&l=&m=&n=&o=&p=&q=&r=&s=&t=");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),      cmocka_unit_test(test_decode_is_strict),
        cmocka_unit_test(test_encode),      cmocka_unit_test(test_encode_round_trip),
        cmocka_unit_test(test_query),       cmocka_unit_test(test_empty_query),
        cmocka_unit_test(test_bad_queries), cmocka_unit_test(test_query_ceilings),
        cmocka_unit_test(test_canonical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
