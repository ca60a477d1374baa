/*
 * The order of keys against a flat sort, grouping, and tokens against tampering.
 */
#include "test.h"

#include "base/attr.h"
#include "s3/listing.h"

#include <stdio.h>
#include <stdlib.h>

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

/* Names of one directory must sort as any keys made of them do. */
static void names_sort_as_keys(void **state)
{
    static const char *const names[] = {"a",  "a.b", "a0", "a-",   "aa",   "b",
                                        "a!", "a/",  "",   "\xff", "a\xff"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        for (size_t j = 0; j < RG_ARRAY_LENGTH(names); j++) {
            for (unsigned dirs = 0; dirs < 4; dirs++) {
                bool a_dir = dirs & 1;
                bool b_dir = dirs & 2;
                char a[16];
                char b[16];
                snprintf(a, sizeof(a), "%s%s", names[i], a_dir ? "/" : "");
                snprintf(b, sizeof(b), "%s%s", names[j], b_dir ? "/" : "");
                assert_int_equal(sign(rg_name_compare(rg_span_text(names[i]), a_dir,
                                                      rg_span_text(names[j]), b_dir)),
                                 sign(rg_key_compare(rg_span_text(a), rg_span_text(b))));
            }
        }
    }
    /* The case that trips walkers: "a.b" < "a/..." < "a0". */
    assert_true(rg_name_compare(RG_SPAN_LITERAL("a.b"), false, RG_SPAN_LITERAL("a"), true) < 0);
    assert_true(rg_name_compare(RG_SPAN_LITERAL("a"), true, RG_SPAN_LITERAL("a0"), false) < 0);
}

static void grouping(void **state)
{
    static const struct {
        const char *key;
        const char *prefix;
        const char *delimiter;
        const char *expected;
    } rows[] = {
        {"a/b/c", "", "/", "a/"},   {"a/b/c", "a/", "/", "a/b/"}, {"a/b/c", "a", "/", "a/"},
        {"a/b/c", "a/b/", "/", ""}, {"a/b/c", "x", "/", ""},      {"a/b/c", "", "", ""},
        {"abc", "", "/", ""},       {"a--b--c", "", "--", "a--"}, {"a--b--c", "a-", "--", "a--b--"},
        {"a/", "", "/", "a/"},      {"a/", "a/", "/", ""},        {"/a", "", "/", "/"},
        {"", "", "/", ""},          {"a/b", "a/b/c", "/", ""},    {"aab", "a", "ab", "aab"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct span found =
            rg_common_prefix(rg_span_text(rows[i].key), rg_span_text(rows[i].prefix),
                             rg_span_text(rows[i].delimiter));
        assert_true(rg_span_is(found, rows[i].expected));
    }
}

static void resumption(void **state)
{
    assert_true(rg_key_follows(RG_SPAN_LITERAL("b"), RG_SPAN_LITERAL("a"), false));
    assert_false(rg_key_follows(RG_SPAN_LITERAL("a"), RG_SPAN_LITERAL("a"), false));
    assert_true(rg_key_follows(RG_SPAN_LITERAL("a"), RG_SPAN_EMPTY, false));
    assert_true(rg_key_follows(RG_SPAN_LITERAL("a/b"), RG_SPAN_LITERAL("a/"), false));
    assert_false(rg_key_follows(RG_SPAN_LITERAL("a/b"), RG_SPAN_LITERAL("a/"), true));
    assert_true(rg_key_follows(RG_SPAN_LITERAL("a0"), RG_SPAN_LITERAL("a/"), true));

    assert_true(rg_prefix_reaches(RG_SPAN_EMPTY, RG_SPAN_LITERAL("a/b")));
    assert_true(rg_prefix_reaches(RG_SPAN_LITERAL("a/"), RG_SPAN_LITERAL("a/b")));
    assert_true(rg_prefix_reaches(RG_SPAN_LITERAL("a/bc/"), RG_SPAN_LITERAL("a/b")));
    assert_false(rg_prefix_reaches(RG_SPAN_LITERAL("a/c/"), RG_SPAN_LITERAL("a/b")));
    assert_true(rg_prefix_reaches(RG_SPAN_LITERAL("x/"), RG_SPAN_EMPTY));
}

static void end_of_prefix(void **state)
{
    static const struct {
        struct span prefix;
        struct span end;
    } rows[] = {
        {RG_SPAN_LITERAL("a/"), RG_SPAN_LITERAL("a0")},
        {RG_SPAN_LITERAL("a\xff\xff"), RG_SPAN_LITERAL("b")},
        {RG_SPAN_LITERAL("\xff"), RG_SPAN_LITERAL("")},
        {RG_SPAN_LITERAL(""), RG_SPAN_LITERAL("")},
        {RG_SPAN_LITERAL("a\x7f"), RG_SPAN_LITERAL("a\x80")},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        RG_BUF(out, 100);
        rg_prefix_end(rows[i].prefix, &out);
        assert_true(rg_span_eq(rg_buf_span(&out), rows[i].end));
    }
}

/* ---- Tokens ---- */

static const uint8_t hmac_key[RG_TOKEN_KEY_BYTES] = {1, 2, 3};
static const struct rg_token_scope scope = {RG_SPAN_LITERAL("bucket"), RG_SPAN_LITERAL("pre"),
                                            RG_SPAN_LITERAL("/")};

static void make(struct rg_buf *out, struct span after, bool is_prefix)
{
    assert_int_equal(rg_token_make(hmac_key, &scope, after, is_prefix, out, NULL), 0);
    assert_true(rg_buf_ok(out));
}

static int read_token(const uint8_t *key, const struct rg_token_scope *of, struct span text)
{
    struct rg_token token = {NULL, false};
    struct rg_error err = RG_ERROR_INIT;
    int rc = rg_token_read(key, of, text, &token, &err);
    if (rc) {
        assert_string_equal(err.message, "The continuation token provided is incorrect");
        assert_null(token.after);
    }
    rg_token_free(&token);
    return rc;
}

static void token_round_trip(void **state)
{
    char key[1025];
    for (size_t len = 1; len < sizeof(key); len += len < 20 ? 1 : 201) {
        memset(key, 'k', len);
        key[0] = (char)0xf3;
        RG_BUF(out, 8192);
        make(&out, rg_span(key, len), len % 2);
        for (size_t i = 0; i < out.len; i++) { /* needs no encoding in a URL */
            assert_non_null(strchr(
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", out.data[i]));
        }
        struct rg_token token;
        assert_int_equal(rg_token_read(hmac_key, &scope, rg_buf_span(&out), &token, NULL), 0);
        assert_int_equal(strlen(token.after), len);
        assert_memory_equal(token.after, key, len);
        assert_int_equal(token.after_is_prefix, len % 2);
        rg_token_free(&token);
    }
}

static void token_tampering(void **state)
{
    RG_BUF(out, 8192);
    make(&out, RG_SPAN_LITERAL("pre/some/key"), false);
    assert_int_equal(read_token(hmac_key, &scope, rg_buf_span(&out)), 0);

    /* Every other character at every place, every truncation, every extension. */
    for (size_t i = 0; i < out.len; i++) {
        char original = out.data[i];
        for (int c = 0; c < 256; c++) {
            if ((char)c != original) {
                out.data[i] = (char)c;
                assert_int_equal(read_token(hmac_key, &scope, rg_buf_span(&out)),
                                 -RG_INVALID_ARGUMENT);
            }
        }
        out.data[i] = original;
        assert_int_equal(read_token(hmac_key, &scope, rg_span(out.data, i)), -RG_INVALID_ARGUMENT);
    }
    rg_buf_add_char(&out, 'A');
    assert_int_equal(read_token(hmac_key, &scope, rg_buf_span(&out)), -RG_INVALID_ARGUMENT);
    assert_int_equal(read_token(hmac_key, &scope, RG_SPAN_LITERAL("pre/some/key")),
                     -RG_INVALID_ARGUMENT);
    char long_text[10000];
    memset(long_text, 'A', sizeof(long_text));
    assert_int_equal(read_token(hmac_key, &scope, rg_span(long_text, sizeof(long_text))),
                     -RG_INVALID_ARGUMENT);
}

static void token_scope(void **state)
{
    RG_BUF(out, 8192);
    make(&out, RG_SPAN_LITERAL("pre/some/key"), false);
    const uint8_t other_key[RG_TOKEN_KEY_BYTES] = {1, 2, 4};
    assert_int_equal(read_token(other_key, &scope, rg_buf_span(&out)), -RG_INVALID_ARGUMENT);
    struct rg_token_scope others[] = {scope, scope, scope, scope};
    others[0].bucket = RG_SPAN_LITERAL("bucket2");
    others[1].prefix = RG_SPAN_EMPTY;
    others[2].delimiter = RG_SPAN_EMPTY;
    others[3].bucket = RG_SPAN_LITERAL("bucketp"); /* the same text, cut elsewhere */
    others[3].prefix = RG_SPAN_LITERAL("re");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(others); i++) {
        assert_int_equal(read_token(hmac_key, &others[i], rg_buf_span(&out)), -RG_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_sort_as_keys), cmocka_unit_test(grouping),
        cmocka_unit_test(resumption),         cmocka_unit_test(end_of_prefix),
        cmocka_unit_test(token_round_trip),   cmocka_unit_test(token_tampering),
        cmocka_unit_test(token_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
