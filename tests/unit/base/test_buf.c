#include "base/buf.h"

#include "test.h"

#include <stdlib.h>

static void test_grows_to_the_ceiling_and_no_further(void **state)
{
    RG_BUF(buf, 10);
    rg_buf_add_text(&buf, "12345");
    rg_buf_addf(&buf, "%d", 67890);
    assert_true(rg_buf_ok(&buf));
    assert_string_equal(rg_buf_text(&buf), "1234567890");
    rg_buf_add_char(&buf, 'x');
    assert_false(rg_buf_ok(&buf));
    rg_buf_clear(&buf);
    assert_true(rg_buf_ok(&buf));
    assert_string_equal(rg_buf_text(&buf), "");
}

static void test_take_hands_over_the_content(void **state)
{
    RG_BUF(buf, 100);
    char *nothing = rg_buf_take(&buf);
    assert_string_equal(nothing, "");
    free(nothing);
    rg_buf_add(&buf, "a\0b", 3);
    char *data = rg_buf_take(&buf);
    assert_memory_equal(data, "a\0b", 4);
    free(data);
    assert_int_equal(buf.len, 0);
}

static void test_take_after_failure_is_null(void **state)
{
    RG_BUF(buf, 2);
    rg_buf_add_text(&buf, "abc");
    assert_null(rg_buf_take(&buf));
}

static void test_html_cannot_end_text_or_attribute(void **state)
{
    (void)state;
    RG_BUF(buf, 256);
    rg_buf_add_html(&buf, "<a b=\"c\" d='e'>&amp; \xec\x9e\xa5");
    assert_string_equal(rg_buf_text(&buf), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp; "
                                           "\xec\x9e\xa5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_to_the_ceiling_and_no_further),
        cmocka_unit_test(test_take_hands_over_the_content),
        cmocka_unit_test(test_take_after_failure_is_null),
        cmocka_unit_test(test_html_cannot_end_text_or_attribute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
