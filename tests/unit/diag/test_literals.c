/*
 * The search for many strings, beside the plain way of searching for each.
 */
#include "test.h"

#include "diag/literals.h"

#include <stdlib.h>

#define WORDS (RG_LITERAL_TAGS_MAX / 64)

static bool found_bit(const uint64_t *found, uint32_t tag)
{
    return found[tag / 64] >> (tag % 64) & 1;
}

static void finds_at_every_place(void **state)
{
    static const char *const texts[] = {"abc",    "+0x",     "abcd",     "Request sent has",
                                        "zz?zz!", "seven77", "eight888", "eleven bytes"};
    struct rg_literal list[RG_ARRAY_LENGTH(texts)];
    for (uint32_t i = 0; i < RG_ARRAY_LENGTH(texts); i++) {
        list[i] = (struct rg_literal){rg_span_text(texts[i]), i * 500};
    }
    struct rg_literals *literals;
    assert_int_equal(rg_literals_new(list, RG_ARRAY_LENGTH(texts), &literals, NULL), 0);
    for (uint32_t i = 0; i < RG_ARRAY_LENGTH(texts); i++) {
        for (size_t before = 0; before < 16; before++) {
            for (size_t after = 0; after < 16; after++) {
                size_t len = strlen(texts[i]);
                char *text = malloc(before + len + after); /* exact: reading beyond is caught */
                assert_non_null(text);
                memset(text, '-', before + len + after);
                memcpy(text + before, texts[i], len);
                uint64_t found[WORDS] = {0};
                assert_true(rg_literals_find(literals, rg_span(text, before + len + after), found));
                assert_true(found_bit(found, i * 500));
                free(text);
            }
        }
    }
    uint64_t found[WORDS] = {0};
    assert_false(rg_literals_find(literals, rg_span_text("ab c+0 xRequest sent ha"), found));
    assert_false(rg_literals_find(literals, rg_span("", 0), found));
    rg_literals_free(literals);
}

static unsigned random_below(unsigned *seed, unsigned limit)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % limit;
}

/* Few different bytes, so that strings overlap, contain each other and share grams. */
static void agrees_with_plain_search(void **state)
{
    unsigned seed = 7;
    for (int round = 0; round < 3000; round++) {
        char bytes[40][12];
        struct rg_literal list[40];
        size_t count = 1 + random_below(&seed, 40);
        for (uint32_t i = 0; i < count; i++) {
            size_t len = 3 + random_below(&seed, 9);
            for (size_t j = 0; j < len; j++) {
                bytes[i][j] = "ab\0\xff"[random_below(&seed, 4)];
            }
            list[i] = (struct rg_literal){rg_span(bytes[i], len), i};
        }
        struct rg_literals *literals;
        assert_int_equal(rg_literals_new(list, count, &literals, NULL), 0);
        size_t len = random_below(&seed, 65);
        char *text = malloc(len + !len); /* exact: reading beyond is caught */
        assert_non_null(text);
        for (size_t j = 0; j < len; j++) {
            text[j] = "ab\0\xff"[random_below(&seed, 4)];
        }
        /* Long strings do not stand there by chance. */
        for (size_t j = 0; j < 3 && len >= 11; j++) {
            struct span put = list[random_below(&seed, (unsigned)count)].text;
            memcpy(text + random_below(&seed, (unsigned)(len - put.len + 1)), put.ptr, put.len);
        }
        uint64_t found[WORDS] = {0};
        bool any = rg_literals_find(literals, rg_span(text, len), found);
        bool plain_any = false;
        for (uint32_t i = 0; i < count; i++) {
            bool plain = memmem(text, len, list[i].text.ptr, list[i].text.len) != NULL;
            assert_int_equal(found_bit(found, i), plain);
            plain_any |= plain;
        }
        assert_int_equal(any, plain_any);
        free(text);
        rg_literals_free(literals);
    }
}

static void has_ceilings(void **state)
{
    char longest[RG_LITERAL_BYTES_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    struct rg_literals *literals = NULL;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_literal one = {rg_span(longest, RG_LITERAL_BYTES_MAX), 0};
    assert_int_equal(rg_literals_new(&one, 1, &literals, &err), 0);
    rg_literals_free(literals);
    one.text.len++;
    assert_int_equal(rg_literals_new(&one, 1, &literals, &err), -RG_SETTING);
    one.text.len = 2;
    assert_int_equal(rg_literals_new(&one, 1, &literals, &err), -RG_SETTING);
    one = (struct rg_literal){rg_span(longest, 5), RG_LITERAL_TAGS_MAX};
    assert_int_equal(rg_literals_new(&one, 1, &literals, &err), -RG_SETTING);
    assert_int_equal(rg_literals_new(NULL, 0, &literals, &err), 0);
    uint64_t found[WORDS] = {0};
    assert_false(rg_literals_find(literals, rg_span_text("anything"), found));
    rg_literals_free(literals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_at_every_place),
        cmocka_unit_test(agrees_with_plain_search),
        cmocka_unit_test(has_ceilings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
