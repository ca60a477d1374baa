/*
 * Metadata in memory: pairs, headers, user metadata, tags.
 */
#include "test.h"

#include "base/attr.h"
#include "s3/meta.h"

#include <stdio.h>
#include <stdlib.h>

static void pairs(void **state)
{
    RG_CLEANUP(rg_pairs_free) struct rg_pairs list = RG_PAIRS_INIT;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_pairs_add(&list, RG_SPAN_LITERAL("a"), RG_SPAN_LITERAL("1"), &err), 0);
    assert_int_equal(rg_pairs_add(&list, RG_SPAN_LITERAL("b"), RG_SPAN_EMPTY, &err), 0);
    assert_int_equal(rg_pairs_add(&list, RG_SPAN_LITERAL("a"), RG_SPAN_LITERAL("2"), &err),
                     -RG_INVALID_ARGUMENT);
    assert_int_equal(rg_pairs_add(&list, RG_SPAN_LITERAL("c\0d"), RG_SPAN_EMPTY, &err),
                     -RG_INVALID_ARGUMENT);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.bytes, 3);
    assert_string_equal(rg_pairs_find(&list, RG_SPAN_LITERAL("b")), "");
    assert_null(rg_pairs_find(&list, RG_SPAN_LITERAL("A")));

    RG_CLEANUP(rg_pairs_free) struct rg_pairs copy = RG_PAIRS_INIT;
    assert_int_equal(rg_pairs_copy(&list, &copy, &err), 0);
    assert_true(rg_pairs_equal(&list, &copy));
    assert_int_equal(rg_pairs_add(&copy, RG_SPAN_LITERAL("c"), RG_SPAN_EMPTY, &err), 0);
    assert_false(rg_pairs_equal(&list, &copy));
}

static void pair_ceilings(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_pairs_free) struct rg_pairs list = RG_PAIRS_INIT;
    for (unsigned i = 0; i < RG_PAIRS_COUNT_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(rg_pairs_add(&list, rg_span_text(name), RG_SPAN_EMPTY, &err), 0);
    }
    assert_int_equal(rg_pairs_add(&list, RG_SPAN_LITERAL("more"), RG_SPAN_EMPTY, &err), -RG_LIMIT);
    assert_int_equal(list.count, RG_PAIRS_COUNT_MAX);

    RG_CLEANUP(rg_pairs_free) struct rg_pairs big = RG_PAIRS_INIT;
    rg_autofree char *value = calloc(1, RG_PAIRS_BYTES_MAX);
    memset(value, 'v', RG_PAIRS_BYTES_MAX);
    assert_int_equal(
        rg_pairs_add(&big, RG_SPAN_LITERAL("n"), rg_span(value, RG_PAIRS_BYTES_MAX), &err),
        -RG_LIMIT);
    assert_int_equal(
        rg_pairs_add(&big, RG_SPAN_LITERAL("n"), rg_span(value, RG_PAIRS_BYTES_MAX - 1), &err), 0);
    assert_int_equal(rg_pairs_add(&big, RG_SPAN_LITERAL("m"), RG_SPAN_EMPTY, &err), -RG_LIMIT);
}

static void headers(void **state)
{
    for (int i = 0; i < RG_META_HEADER_COUNT; i++) {
        enum rg_meta_header found;
        assert_true(rg_meta_header_from_name(
            rg_span_text(rg_meta_header_name((enum rg_meta_header)i)), &found));
        assert_int_equal(found, i);
    }
    enum rg_meta_header found;
    assert_true(rg_meta_header_from_name(RG_SPAN_LITERAL("content-TYPE"), &found));
    assert_int_equal(found, RG_META_CONTENT_TYPE);
    assert_false(rg_meta_header_from_name(RG_SPAN_LITERAL("Content-Length"), &found));

    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    char big[RG_META_HEADER_MAX + 1];
    memset(big, 'x', sizeof(big));
    assert_int_equal(rg_meta_set_header(&meta, RG_META_EXPIRES, RG_SPAN_LITERAL("some day"), &err),
                     0);
    assert_string_equal(meta.header[RG_META_EXPIRES], "some day");
    assert_int_equal(rg_meta_set_header(&meta, RG_META_EXPIRES, rg_span(big, sizeof(big)), &err),
                     -RG_METADATA_TOO_LARGE);
    assert_int_equal(rg_meta_set_header(&meta, RG_META_EXPIRES, RG_SPAN_LITERAL("a\r\nb: c"), &err),
                     -RG_INVALID_ARGUMENT);
    assert_string_equal(meta.header[RG_META_EXPIRES], "some day");
    assert_int_equal(
        rg_meta_set_header(&meta, RG_META_EXPIRES, rg_span(big, RG_META_HEADER_MAX), &err), 0);
    assert_int_equal(rg_meta_set_header(&meta, RG_META_EXPIRES, RG_SPAN_EMPTY, &err), 0);
    assert_null(meta.header[RG_META_EXPIRES]);
}

static int add_user(struct rg_meta *meta, const char *name, struct span value)
{
    struct rg_error err = RG_ERROR_INIT;
    return rg_meta_add_user(meta, rg_span_text(name), value, &err);
}

static void user(void **state)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    assert_int_equal(add_user(&meta, "Color", RG_SPAN_LITERAL("  Red ")), 0);
    assert_string_equal(rg_pairs_find(&meta.user, RG_SPAN_LITERAL("color")), "Red");
    assert_int_equal(add_user(&meta, "COLOR", RG_SPAN_LITERAL("Blue")), 0);
    assert_string_equal(rg_pairs_find(&meta.user, RG_SPAN_LITERAL("color")), "Red,Blue");
    assert_int_equal(meta.user.count, 1);
    assert_int_equal(meta.user.bytes, 5 + 8);
    assert_int_equal(add_user(&meta, "word", RG_SPAN_LITERAL("=?UTF-8?Q?=C3=A4?=")), 0);
    assert_string_equal(rg_pairs_find(&meta.user, RG_SPAN_LITERAL("word")), "=?UTF-8?Q?=C3=A4?=");
    assert_int_equal(add_user(&meta, "raw", RG_SPAN_LITERAL("\xc3\xa4")), 0);
    assert_int_equal(add_user(&meta, "", RG_SPAN_LITERAL("x")), -RG_INVALID_ARGUMENT);
    assert_int_equal(add_user(&meta, "a b", RG_SPAN_LITERAL("x")), -RG_INVALID_ARGUMENT);
    assert_int_equal(add_user(&meta, "a", RG_SPAN_LITERAL("x\ny")), -RG_INVALID_ARGUMENT);
}

static void user_ceiling(void **state)
{
    char value[RG_METADATA_BYTES_MAX];
    memset(value, 'x', sizeof(value));
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    assert_int_equal(add_user(&meta, "abcd", rg_span(value, RG_METADATA_BYTES_MAX - 3)),
                     -RG_METADATA_TOO_LARGE);
    assert_int_equal(add_user(&meta, "abcd", rg_span(value, RG_METADATA_BYTES_MAX - 6)), 0);
    assert_int_equal(add_user(&meta, "abc", RG_SPAN_EMPTY), -RG_METADATA_TOO_LARGE);
    assert_int_equal(add_user(&meta, "abcd", RG_SPAN_LITERAL("yz")), -RG_METADATA_TOO_LARGE);
    assert_int_equal(add_user(&meta, "abcd", RG_SPAN_LITERAL("y")), 0);
    assert_int_equal(meta.user.bytes, RG_METADATA_BYTES_MAX);
}

static void copying(void **state)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    assert_int_equal(
        rg_meta_set_header(&meta, RG_META_CONTENT_TYPE, RG_SPAN_LITERAL("text/plain"), NULL), 0);
    assert_int_equal(add_user(&meta, "a", RG_SPAN_LITERAL("1")), 0);
    assert_int_equal(rg_pairs_add(&meta.tags, RG_SPAN_LITERAL("t"), RG_SPAN_LITERAL("2"), NULL), 0);
    strcpy(meta.etag, "abc");
    meta.part_count = 2;
    meta.parts = calloc(2, sizeof(*meta.parts));
    meta.parts[1].size = 9;
    RG_CLEANUP(rg_meta_free) struct rg_meta copy = RG_META_INIT;
    assert_int_equal(rg_meta_copy(&meta, &copy, NULL), 0);
    assert_true(rg_meta_equal(&meta, &copy));
    assert_ptr_not_equal(meta.parts, copy.parts);
    copy.parts[1].size = 8;
    assert_false(rg_meta_equal(&meta, &copy));
}

static void tag_rules(void **state)
{
    char key129[130] = {0};
    char value257[258] = {0};
    memset(key129, 'k', 129);
    memset(value257, 'v', 257);
    char wide[128 * 4 + 1] = {0};
    for (unsigned i = 0; i < 128; i++) {
        memcpy(wide + 4 * i, "\xf0\x9f\x98\x80", 4);
    }
    const struct {
        const char *key;
        const char *value;
        bool good;
    } rows[] = {
        {"k", "v", true},
        {"k", "", true},
        {"Az09 +-=._:/@", "Az09 +-=._:/@", true},
        {"schl\xc3\xbcssel", "\xe4\xb8\xad", true},
        {wide, "", true},
        {key129 + 1, value257 + 1, true},
        {"aws", "aws:x", true},
        {"", "v", false},
        {key129, "v", false},
        {"k", value257, false},
        {"k!", "v", false},
        {"k", "<v>", false},
        {"k", "a\tb", false},
        {"k\xff", "v", false},
        {"k\xc2\x85", "v", false}, /* U+0085, a control character */
        {"aws:k", "v", false},
        {"AWS:k", "v", false},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_tags_add(&tags, RG_TAG_OBJECT, rg_span_text(rows[i].key),
                                     rg_span_text(rows[i].value), &err),
                         rows[i].good ? 0 : -RG_INVALID_TAG);
        assert_int_equal(tags.count, rows[i].good);
    }
}

static void tag_counts(void **state)
{
    for (int scope = RG_TAG_OBJECT; scope <= RG_TAG_BUCKET; scope++) {
        unsigned most = scope == RG_TAG_BUCKET ? RG_TAG_BUCKET_MAX : RG_TAG_OBJECT_MAX;
        RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
        struct rg_error err = RG_ERROR_INIT;
        for (unsigned i = 0; i <= most; i++) {
            char key[16];
            snprintf(key, sizeof(key), "k%u", i);
            assert_int_equal(rg_tags_add(&tags, (enum rg_tag_scope)scope, rg_span_text(key),
                                         RG_SPAN_EMPTY, &err),
                             i < most ? 0 : -RG_INVALID_TAG);
        }
        assert_int_equal(rg_tags_add(&tags, (enum rg_tag_scope)scope, RG_SPAN_LITERAL("k1"),
                                     RG_SPAN_EMPTY, &err),
                         -RG_INVALID_TAG);
        assert_non_null(strstr(err.message, "same key"));
    }
}

static void tag_header(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    assert_int_equal(
        rg_tags_parse_header(RG_SPAN_LITERAL("a=1&b=two+words&c%2Fd=%C3%A4&e"), &tags, &err), 0);
    assert_int_equal(tags.count, 4);
    assert_string_equal(rg_pairs_find(&tags, RG_SPAN_LITERAL("b")), "two words");
    assert_string_equal(rg_pairs_find(&tags, RG_SPAN_LITERAL("c/d")), "\xc3\xa4");
    assert_string_equal(rg_pairs_find(&tags, RG_SPAN_LITERAL("e")), "");
    static const struct {
        const char *text;
        enum rg_code code;
    } bad[] = {
        {"a=1&a=2", RG_INVALID_TAG},
        {"=v", RG_INVALID_TAG},
        {"aws:x=1", RG_INVALID_TAG},
        {"a=%zz", RG_INVALID_ARGUMENT},
        {"a=%00", RG_INVALID_ARGUMENT},
        {"a=%FF", RG_INVALID_TAG},
        {"1&2&3&4&5&6&7&8&9&10&11", RG_INVALID_TAG},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        struct rg_pairs none = RG_PAIRS_INIT;
        assert_int_equal(rg_tags_parse_header(rg_span_text(bad[i].text), &none, &err),
                         -(int)bad[i].code);
        assert_int_equal(none.count, 0);
    }
    struct rg_pairs none = RG_PAIRS_INIT;
    assert_int_equal(rg_tags_parse_header(RG_SPAN_EMPTY, &none, &err), 0);
    assert_int_equal(none.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),     cmocka_unit_test(pair_ceilings), cmocka_unit_test(headers),
        cmocka_unit_test(user),      cmocka_unit_test(user_ceiling),  cmocka_unit_test(copying),
        cmocka_unit_test(tag_rules), cmocka_unit_test(tag_counts),    cmocka_unit_test(tag_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
