/*
 * Words and phrases: what reaches a report is clean, and says the same in both languages.
 */
#include "diag/correlation.h"

#include "test.h"

static void keeps_each_word_once(void **state)
{
    struct rg_pool pool;
    assert_true(rg_pool_init(&pool));
    rg_word a = rg_pool_add(&pool, RG_SPAN_LITERAL("oss1"));
    rg_word b = rg_pool_add(&pool, RG_SPAN_LITERAL("oss2"));
    assert_int_not_equal(a, b);
    assert_int_equal(a, rg_pool_add(&pool, RG_SPAN_LITERAL("oss1")));
    assert_int_equal(0, rg_pool_add(&pool, RG_SPAN_EMPTY));
    assert_string_equal("oss1", rg_pool_text(&pool, a));
    rg_pool_free(&pool);
}

static void cleans_what_would_harm_a_reader(void **state)
{
    static const struct {
        struct span given;
        const char *clean;
    } cases[] = {
        {RG_SPAN_LITERAL("plain"), "plain"},
        {RG_SPAN_LITERAL("a\x1b[2Jb"), "a [2Jb"},
        {RG_SPAN_LITERAL("a\0b\n\t"), "a b  "},
        {RG_SPAN_LITERAL("\xff\xc3"), "\xef\xbf\xbd\xef\xbf\xbd"},
        {RG_SPAN_LITERAL("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {RG_SPAN_LITERAL("\xc2\x9b 31m"), "  31m"},
        {RG_SPAN_LITERAL("a\xe2\x80\xae"
                         "b"),
         "a b"},
        {RG_SPAN_LITERAL("\xec\x9e\xa5\xec\x95\xa0"), "\xec\x9e\xa5\xec\x95\xa0"},
        {RG_SPAN_LITERAL("\xf0\x9f\x9a\xa8"), "\xf0\x9f\x9a\xa8"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        RG_BUF(out, 256);
        rg_text_clean(cases[i].given, 100, &out);
        assert_string_equal(cases[i].clean, rg_buf_text(&out));
    }
}

static void cuts_long_texts_between_characters(void **state)
{
    RG_BUF(out, 256);
    rg_text_clean(RG_SPAN_LITERAL("\xec\x9e\xa5\xec\x95\xa0"), 4, &out);
    assert_string_equal("\xec\x9e\xa5…", rg_buf_text(&out));
}

static void stops_at_its_ceiling(void **state)
{
    struct rg_pool pool;
    assert_true(rg_pool_init(&pool));
    rg_word last = 0;
    for (unsigned i = 0; i < RG_WORDS_MAX + 100; i++) {
        last = rg_pool_addf(&pool, "word %u", i);
    }
    assert_int_equal(RG_WORD_NOT_KEPT, last);
    assert_true(pool.full);
    assert_false(pool.failed);
    assert_int_equal(RG_WORDS_MAX, pool.count);
    rg_pool_free(&pool);
}

static void phrases_have_the_same_gaps_in_both_languages(void **state)
{
    static const struct {
        const char *english;
        const char *korean;
    } phrases[] = {
#define RG_PHRASE(identifier, english, korean) {english, korean},
#include "diag/phrases.tbl"
#undef RG_PHRASE
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(phrases); i++) {
        if (i + 1 == RG_PHRASE_HOLE_INPUT) {
            continue; /* it takes the reason in both languages, to show one */
        }
        for (int gap = 0; gap < RG_PHRASE_WORDS_MAX; gap++) {
            char mark[] = {'{', (char)('0' + gap), '}', '\0'};
            bool english = strstr(phrases[i].english, mark) != NULL;
            bool korean = strstr(phrases[i].korean, mark) != NULL;
            if (english != korean) {
                fail_msg("\"%s\" and \"%s\" differ in %s", phrases[i].english, phrases[i].korean,
                         mark);
            }
        }
        assert_true(rg_span_is_utf8(rg_span_text(phrases[i].korean)));
    }
}

static bool is_known(const struct rg_catalogue *catalogue, const char *id)
{
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        if (rg_row_is(rg_catalogue_row_at(catalogue, i), id)) {
            return true;
        }
    }
    return false;
}

static void traits_name_rows_of_the_catalogue(void **state)
{
    static const char *const ids[] = {
#define RG_TRAIT(id, rank, nature, flags) id,
#include "diag/traits.tbl"
#undef RG_TRAIT
        /* Those that correlation asks for by name. */
        "K-HUNG",     "FRAME-RDMA",      "FRAME-LUSTRE", "CN-RECONNECTING",
        "LN-NOROUTE", "RC-OVER-EVICTED", "LL-DISCARD",   "LL-MOUNT",
    };
    struct rg_catalogue *catalogue = NULL;
    assert_int_equal(0, rg_catalogue_open(NULL, 0, &catalogue, NULL));
    for (size_t i = 0; i < RG_ARRAY_LENGTH(ids); i++) {
        if (!is_known(catalogue, ids[i])) {
            fail_msg("no row is called %s", ids[i]);
        }
    }
    rg_catalogue_free(catalogue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_each_word_once),
        cmocka_unit_test(cleans_what_would_harm_a_reader),
        cmocka_unit_test(cuts_long_texts_between_characters),
        cmocka_unit_test(stops_at_its_ceiling),
        cmocka_unit_test(phrases_have_the_same_gaps_in_both_languages),
        cmocka_unit_test(traits_name_rows_of_the_catalogue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
