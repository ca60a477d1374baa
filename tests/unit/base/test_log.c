#include "base/log.h"

#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

static int fd;
static char line[16384];

static const char *logged(void)
{
    ssize_t len = pread(fd, line, sizeof line - 1, 0);
    assert_true(len >= 0);
    line[len] = '\0';
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return line;
}

static void test_human(void **state)
{
    rg_log_setup(fd, RG_LOG_HUMAN, RG_LOG_INFO);
    rg_log_info("test.event", "said something", RG_FIELD_TEXT("name", "a b\n\"c\""),
                RG_FIELD_INT("count", -3), RG_FIELD_TEXT("word", "plain"));
    const char *text = logged();
    assert_non_null(strstr(text, "Z info  test.event said something name=\"a b\\x0a\\\"c\\\"\" "
                                 "count=-3 word=plain\n"));
    rg_log_debug("test.event", "not shown");
    assert_string_equal(logged(), "");
}

static void test_json(void **state)
{
    rg_log_setup(fd, RG_LOG_JSON, RG_LOG_DEBUG);
    rg_log_set_request("R1");
    rg_log_debug("test.event", "m", RG_FIELD_SPAN("raw", rg_span("\xff\x01\\", 3)));
    rg_log_set_request(NULL);
    const char *text = logged();
    assert_non_null(strstr(text, "\"level\":\"debug\",\"event\":\"test.event\",\"message\":\"m\","
                                 "\"request\":\"R1\",\"raw\":\"\\u00ff\\u0001\\\\\"}\n"));
}

static void test_too_long_a_line_is_still_a_line(void **state)
{
    static char big[20000];
    memset(big, 'x', sizeof big - 1);
    rg_log_error("test.event", "m", RG_FIELD_TEXT("big", big));
    const char *text = logged();
    assert_non_null(strstr(text, "fields left out"));
    assert_true(text[strlen(text) - 1] == '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_human),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_too_long_a_line_is_still_a_line),
    };
    fd = memfd_create("log", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
