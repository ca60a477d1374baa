#include "gate/head.h"
#include "test.h"

#include <stdlib.h>

static struct rg_head head;

static int drop(void **state)
{
    (void)state;
    rg_head_free(&head);
    return 0;
}

/* Fields as "Name:value" texts, NULL at the end. */
static enum rg_code parse(const char *method, const char *target, const char *version,
                          const char *const *fields)
{
    rg_head_clear(&head, 8);
    for (; *fields; fields++) {
        struct span value = rg_span_text(*fields);
        struct span name = rg_span_cut(&value, ':');
        rg_head_add(&head, name, value);
    }
    rg_head_finish(&head, rg_span_text(method), rg_span_text(target), rg_span_text(version));
    return head.refusal;
}

#define FIELDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        enum rg_code refusal;
        const char *path;
        const char *query;
    } cases[] = {
        {"/", RG_OK, "/", ""},
        {"/a?b=c", RG_OK, "/a", "b=c"},
        {"/a?b?c", RG_OK, "/a", "b?c"},
        {"/?", RG_OK, "/", ""},
        {"//x", RG_OK, "//x", ""},
        {"*", RG_OK, "*", ""},
        {"http://h", RG_OK, "/", ""},
        {"HTTPS://H/a", RG_OK, "/a", ""},
        {"http://h?x", RG_OK, "/", "x"},
        {"http://other/", RG_BAD_REQUEST, "/", ""},
        {"http:///a", RG_BAD_REQUEST, "/a", ""},
        {"a", RG_INVALID_URI, "a", ""},
        {"", RG_INVALID_URI, "", ""},
        {"?x", RG_INVALID_URI, "", "x"},
        {"/a b", RG_INVALID_URI, "", ""},
        {"/a\x7f", RG_INVALID_URI, "", ""},
        {"/\303\251", RG_OK, "/\303\251", ""},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        assert_int_equal(parse("GET", cases[i].target, "HTTP/1.1", FIELDS("Host:h")),
                         cases[i].refusal);
        if (cases[i].refusal == RG_OK) {
            assert_true(rg_span_is(rg_head_path(&head), cases[i].path));
            assert_true(rg_span_is(rg_head_query(&head), cases[i].query));
        }
    }
}

static void test_framing(void **state)
{
    (void)state;
    assert_int_equal(parse("PUT", "/", "HTTP/1.1", FIELDS("Host:h", "Content-Length: 12")), RG_OK);
    assert_int_equal(head.content_length, 12);
    assert_true(head.has_body && !head.chunked && !head.expects_continue);
    assert_int_equal(parse("PUT", "/", "HTTP/1.1", FIELDS("Host:h", "content-length:0")), RG_OK);
    assert_int_equal(head.content_length, 0);
    assert_false(head.has_body);
    assert_int_equal(parse("PUT", "/", "HTTP/1.1",
                           FIELDS("Host:h", "Transfer-Encoding: Chunked", "Expect: 100-Continue")),
                     RG_OK);
    assert_true(head.has_body && head.chunked && head.expects_continue);
    assert_int_equal(head.content_length, -1);
    static const char *const bad[][2] = {
        {"Content-Length:", "X:y"},
        {"Content-Length:-1", "X:y"},
        {"Content-Length:1,1", "X:y"},
        {"Content-Length:9223372036854775808", "X:y"},
        {"Content-Length:1", "Content-Length:1"},
        {"Content-Length:1", "Transfer-Encoding:chunked"},
        {"Transfer-Encoding:chunked", "Transfer-Encoding:chunked"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_int_equal(parse("PUT", "/", "HTTP/1.1", FIELDS("Host:h", bad[i][0], bad[i][1])),
                         RG_BAD_REQUEST);
        assert_non_null(head.reason);
    }
    assert_int_equal(parse("PUT", "/", "HTTP/1.1", FIELDS("Host:h", "Transfer-Encoding:identity")),
                     RG_NOT_IMPLEMENTED);
    assert_int_equal(parse("PUT", "/", "HTTP/1.0", FIELDS("Transfer-Encoding:chunked")),
                     RG_BAD_REQUEST);
    assert_int_equal(parse("PUT", "/", "HTTP/1.0", FIELDS("Expect:100-continue")), RG_OK);
    assert_false(head.expects_continue);
}

static void test_fields(void **state)
{
    (void)state;
    struct span name;
    struct span value;
    assert_int_equal(
        parse("GET", "/", "HTTP/1.1", FIELDS("Host: h", "X-A:\t one \t", "x-a:two", "Empty:")),
        RG_OK);
    assert_true(rg_head_find(&head, "X-a", &value));
    assert_true(rg_span_is(value, "one"));
    assert_true(rg_head_find(&head, "empty", &value));
    assert_int_equal(value.len, 0);
    assert_false(rg_head_find(&head, "X", &value));
    assert_true(rg_head_field_at(&head, 2, &name, &value));
    assert_true(rg_span_is(name, "x-a") && rg_span_is(value, "two"));
    assert_false(rg_head_field_at(&head, 4, &name, &value));
    assert_string_equal(rg_head_method(&head), "GET");
    assert_string_equal(rg_head_version(&head), "HTTP/1.1");

    assert_int_equal(parse("GET", "/", "HTTP/1.1", FIELDS("X:y")), RG_BAD_REQUEST);
    assert_int_equal(parse("GET", "/", "HTTP/1.0", FIELDS("X:y")), RG_OK);
    assert_int_equal(parse("GET", "/", "HTTP/1.1", FIELDS("Host:h", "host:h")), RG_BAD_REQUEST);
    assert_int_equal(parse("GET", "/", "HTTP/1.1", FIELDS("Host:h", "X Y:z")), RG_BAD_REQUEST);
    assert_int_equal(parse("GET", "/", "HTTP/1.1", FIELDS("Host:h", ":z")), RG_BAD_REQUEST);
    assert_int_equal(parse("GET", "/", "HTTP/1.1", FIELDS("Host:h", "X:a\rb")), RG_BAD_REQUEST);
    assert_int_equal(parse("G T", "/", "HTTP/1.1", FIELDS("Host:h")), RG_BAD_REQUEST);
    assert_int_equal(parse("", "/", "HTTP/1.1", FIELDS("Host:h")), RG_BAD_REQUEST);
    assert_int_equal(parse("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG", "/", "HTTP/1.1", FIELDS("Host:h")),
                     RG_BAD_REQUEST);
    assert_int_equal(
        parse("GET", "/", "HTTP/1.1", FIELDS("Host:h", "a:", "b:", "c:", "d:", "e:", "f:", "g:")),
        RG_OK);
    assert_int_equal(parse("GET", "/", "HTTP/1.1",
                           FIELDS("Host:h", "a:", "b:", "c:", "d:", "e:", "f:", "g:", "h:")),
                     RG_REQUEST_HEADER_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_targets, drop),
        cmocka_unit_test_teardown(test_framing, drop),
        cmocka_unit_test_teardown(test_fields, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
