#include "base/error.h"
#include "base/span.h"

#include "test.h"

#include <errno.h>

static void test_every_row_is_usable(void **state)
{
    for (int code = RG_OK + 1; code < RG_CODE_COUNT; code++) {
        assert_true(strlen(rg_code_name(code)) > 0);
        assert_true(strlen(rg_code_s3_name(code)) > 0);
        assert_in_range(rg_code_http_status(code), 300, 599);
        size_t len = strlen(rg_code_sentence(code));
        assert_true(len > 0 && rg_code_sentence(code)[len - 1] == '.');
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_fail(&err, code), -code);
        assert_int_equal(err.code, code);
        assert_string_equal(err.message, rg_code_sentence(code));
    }
}

static void test_context_grows_outwards(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    int rc = rg_fail_storage(&err, ENOSPC, "cannot write %s", "x");
    assert_int_equal(rc, -RG_STORAGE_FULL);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_string_equal(err.message, "cannot write x: No space left on device (ENOSPC)");
    assert_int_equal(rg_error_context(&err, "bucket %s", "b"), -RG_STORAGE_FULL);
    assert_string_equal(err.message, "bucket b: cannot write x: No space left on device (ENOSPC)");
}

static void test_long_messages_stay_utf8(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    char text[RG_ERROR_MESSAGE_MAX * 2];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3) {
            memcpy(text + i, "\xed\x95\x9c", 4);
        }
        rg_failf(&err, RG_PARSE, "%s", text);
        assert_true(rg_span_is_utf8(rg_span_text(err.message)));
        assert_true(strlen(err.message) > RG_ERROR_MESSAGE_MAX - 5);
    }
}

static void test_no_error_wanted(void **state)
{
    assert_int_equal(rg_failf(NULL, RG_PARSE, "x"), -RG_PARSE);
    assert_int_equal(rg_fail_storage(NULL, EIO, "x"), -RG_STORAGE_FAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_usable),
        cmocka_unit_test(test_context_grows_outwards),
        cmocka_unit_test(test_long_messages_stay_utf8),
        cmocka_unit_test(test_no_error_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
