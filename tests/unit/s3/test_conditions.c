/*
 * Conditional requests: the field grammar and the truth tables of RFC 9110 and S3.
 */
#include "test.h"

#include "base/attr.h"
#include "s3/conditions.h"

#include <stdlib.h>

#define ETAG     "d41d8cd98f00b204e9800998ecf8427e"
#define MODIFIED 1000000

static void lists(void **state)
{
    static const struct {
        const char *list;
        bool matches;
    } rows[] = {
        {"*", true},
        {" * ", true},
        {"\"" ETAG "\"", true},
        {ETAG, true},
        {"W/\"" ETAG "\"", true},
        {"\"other\", \"" ETAG "\"", true},
        {"other," ETAG, true},
        {"other, " ETAG " ", true},
        {"\"a,b\",\"" ETAG "\"", true},
        {",,\"" ETAG "\",,", true},
        {"\"other\"\"" ETAG "\"", true},
        {"\"" ETAG, true},
        {"", false},
        {",", false},
        {"\"\"", false},
        {"\"other\"", false},
        {"\"a" ETAG "\"", false},
        {"\"*\"", false},
        {"W/", false},
        {"\"", false},
        {"\"x," ETAG "\"", false},
        {"\"" ETAG "-1\"", false},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        assert_int_equal(rg_etag_list_matches(rg_span_text(rows[i].list), RG_SPAN_LITERAL(ETAG)),
                         rows[i].matches);
    }
    assert_false(rg_etag_list_matches(RG_SPAN_LITERAL("\"\""), RG_SPAN_EMPTY));
}

#define HIT  "\"" ETAG "\""
#define MISS "\"other\""

static struct rg_conditions conditions_of(const char *match, const char *none, int64_t modified,
                                          int64_t unmodified)
{
    struct rg_conditions c = RG_CONDITIONS_INIT;
    c.if_match = match ? rg_span_text(match) : rg_span(NULL, 0);
    c.if_none_match = none ? rg_span_text(none) : rg_span(NULL, 0);
    c.has_modified_since = modified != 0;
    c.modified_since = modified;
    c.has_unmodified_since = unmodified != 0;
    c.unmodified_since = unmodified;
    return c;
}

static void reads(void **state)
{
    enum { BEFORE = MODIFIED - 1, SAME = MODIFIED, AFTER = MODIFIED + 1 };
    static const struct {
        const char *match;
        const char *none;
        int64_t modified;
        int64_t unmodified;
        enum rg_code code;
        enum rg_code copy;
    } rows[] = {
        {NULL, NULL, 0, 0, RG_OK, RG_OK},
        {HIT, NULL, 0, 0, RG_OK, RG_OK},
        {MISS, NULL, 0, 0, RG_PRECONDITION_FAILED, RG_PRECONDITION_FAILED},
        {"", NULL, 0, 0, RG_PRECONDITION_FAILED, RG_PRECONDITION_FAILED},
        {NULL, HIT, 0, 0, RG_NOT_MODIFIED, RG_PRECONDITION_FAILED},
        {NULL, "*", 0, 0, RG_NOT_MODIFIED, RG_PRECONDITION_FAILED},
        {NULL, MISS, 0, 0, RG_OK, RG_OK},
        {NULL, NULL, BEFORE, 0, RG_OK, RG_OK},
        {NULL, NULL, SAME, 0, RG_NOT_MODIFIED, RG_PRECONDITION_FAILED},
        {NULL, NULL, AFTER, 0, RG_NOT_MODIFIED, RG_PRECONDITION_FAILED},
        {NULL, NULL, 0, BEFORE, RG_PRECONDITION_FAILED, RG_PRECONDITION_FAILED},
        {NULL, NULL, 0, SAME, RG_OK, RG_OK},
        {NULL, NULL, 0, AFTER, RG_OK, RG_OK},
        /* If-Match true outranks If-Unmodified-Since false. */
        {HIT, NULL, 0, BEFORE, RG_OK, RG_OK},
        {MISS, NULL, 0, AFTER, RG_PRECONDITION_FAILED, RG_PRECONDITION_FAILED},
        /* If-None-Match outranks If-Modified-Since, either way. */
        {NULL, HIT, BEFORE, 0, RG_NOT_MODIFIED, RG_PRECONDITION_FAILED},
        {NULL, MISS, SAME, 0, RG_OK, RG_OK},
        {HIT, HIT, 0, 0, RG_NOT_MODIFIED, RG_PRECONDITION_FAILED},
        {MISS, HIT, 0, 0, RG_PRECONDITION_FAILED, RG_PRECONDITION_FAILED},
        {HIT, NULL, SAME, 0, RG_NOT_MODIFIED, RG_PRECONDITION_FAILED},
        {NULL, MISS, 0, BEFORE, RG_PRECONDITION_FAILED, RG_PRECONDITION_FAILED},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_conditions c =
            conditions_of(rows[i].match, rows[i].none, rows[i].modified, rows[i].unmodified);
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_conditions_check_read(&c, RG_SPAN_LITERAL(ETAG), MODIFIED, &err),
                         -(int)rows[i].code);
        assert_int_equal(rg_conditions_check_copy_source(&c, RG_SPAN_LITERAL(ETAG), MODIFIED, &err),
                         -(int)rows[i].copy);
    }
}

static void writes(void **state)
{
    static const struct {
        const char *match;
        const char *none;
        bool exists;
        enum rg_code code;
    } rows[] = {
        {NULL, NULL, true, RG_OK},
        {NULL, NULL, false, RG_OK},
        {NULL, "*", true, RG_PRECONDITION_FAILED},
        {NULL, "*", false, RG_OK},
        {HIT, NULL, true, RG_OK},
        {"*", NULL, true, RG_OK},
        {MISS, NULL, true, RG_PRECONDITION_FAILED},
        {HIT, NULL, false, RG_NO_SUCH_KEY},
        {"*", NULL, false, RG_NO_SUCH_KEY},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_conditions c = conditions_of(rows[i].match, rows[i].none, 0, 0);
        struct rg_error err = RG_ERROR_INIT;
        struct span etag = rows[i].exists ? RG_SPAN_LITERAL(ETAG) : RG_SPAN_EMPTY;
        assert_int_equal(rg_conditions_check_supported(&c, &err), 0);
        assert_int_equal(rg_conditions_check_write(&c, rows[i].exists, etag, &err),
                         -(int)rows[i].code);
        if (!rows[i].none) {
            assert_int_equal(rg_conditions_check_delete(&c, rows[i].exists, etag, &err),
                             -(int)rows[i].code);
        }
    }
    assert_int_equal(rg_conditions_check_write(NULL, true, RG_SPAN_LITERAL(ETAG), NULL), 0);
    assert_int_equal(rg_conditions_check_delete(NULL, false, RG_SPAN_EMPTY, NULL), 0);
}

static void unsupported_writes(void **state)
{
    const struct rg_conditions rows[] = {
        conditions_of(NULL, HIT, 0, 0),  conditions_of(NULL, "", 0, 0),
        conditions_of(HIT, "*", 0, 0),   conditions_of(NULL, NULL, 5, 0),
        conditions_of(NULL, NULL, 0, 5), conditions_of(NULL, "\"*\"", 0, 0),
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_conditions_check_supported(&rows[i], &err), -RG_NOT_IMPLEMENTED);
        assert_non_null(strstr(err.message, "If-"));
    }
}

static void fields(void **state)
{
    const int64_t now = 784111777; /* Sun, 06 Nov 1994 08:49:37 GMT */
    const struct rg_header headers[] = {
        {RG_SPAN_LITERAL("IF-MATCH"), RG_SPAN_LITERAL("\"a\"")},
        {RG_SPAN_LITERAL("If-None-Match"), {NULL, 0}},
        {RG_SPAN_LITERAL("If-Modified-Since"), RG_SPAN_LITERAL("Sun, 06 Nov 1994 08:49:36 GMT")},
        {RG_SPAN_LITERAL("If-Unmodified-Since"), RG_SPAN_LITERAL("yesterday")},
        {RG_SPAN_LITERAL("x-amz-copy-source-if-match"), RG_SPAN_LITERAL("\"b\"")},
        {RG_SPAN_LITERAL("x-amz-copy-source-if-modified-since"),
         RG_SPAN_LITERAL("Sun, 06 Nov 1994 08:49:38 GMT")},
        {RG_SPAN_LITERAL("x-amz-copy-source-if-unmodified-since"),
         RG_SPAN_LITERAL("Sun, 06 Nov 1994 08:49:38 GMT")},
    };
    struct rg_conditions c;
    rg_conditions_read(headers, RG_ARRAY_LENGTH(headers), RG_CONDITIONS_REQUEST, now, &c);
    assert_true(rg_span_is(c.if_match, "\"a\""));
    assert_non_null(c.if_none_match.ptr);
    assert_int_equal(c.if_none_match.len, 0);
    assert_true(c.has_modified_since);
    assert_int_equal(c.modified_since, now - 1);
    assert_false(c.has_unmodified_since);
    assert_false(rg_conditions_empty(&c));

    rg_conditions_read(headers, RG_ARRAY_LENGTH(headers), RG_CONDITIONS_COPY_SOURCE, now, &c);
    assert_true(rg_span_is(c.if_match, "\"b\""));
    assert_null(c.if_none_match.ptr);
    assert_false(c.has_modified_since); /* in the future */
    assert_true(c.has_unmodified_since);
    assert_int_equal(c.unmodified_since, now + 1);

    rg_conditions_read(NULL, 0, RG_CONDITIONS_REQUEST, now, &c);
    assert_true(rg_conditions_empty(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),  cmocka_unit_test(reads),
        cmocka_unit_test(writes), cmocka_unit_test(unsupported_writes),
        cmocka_unit_test(fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
