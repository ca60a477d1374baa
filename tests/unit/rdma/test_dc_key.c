#include "test.h"

#include "rdma/dc_key.h"

#include "base/attr.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void reads_keys(void **state)
{
    static const struct {
        const char *text;
        uint64_t key;
    } rows[] = {
        {"0xffeeddcc\n", 0xffeeddcc},
        {"ffeeddcc", 0xffeeddcc},
        {" \t0xABCDEF12 \r\n", 0xabcdef12},
        {"0", 0},
        {"1122334455667788", 0x1122334455667788},
        {"0xffffffffffffffff", UINT64_MAX},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        uint64_t key = 77;
        assert_int_equal(rg_dc_key_parse(rg_span_text(rows[i].text), &key), 0);
        assert_true(key == rows[i].key);
    }
}

static void refuses_what_is_none(void **state)
{
    static const char *const texts[] = {
        "", " \n", "0x", "x", "0xg", "-1", "+1", "11223344556677889", "ff ee", "ff\nee", "0x0x1",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(texts); i++) {
        uint64_t key = 77;
        assert_int_equal(rg_dc_key_parse(rg_span_text(texts[i]), &key), -1);
        assert_int_equal(key, 77);
    }
    uint64_t key = 77;
    assert_int_equal(rg_dc_key_parse(rg_span("f\0f", 3), &key), -1);
}

static void says_why_a_file_has_none(void **state)
{
    struct rg_error error = RG_ERROR_INIT;
    char path[] = "/tmp/rg-dc-key-XXXXXX";
    char secret[400];
    uint64_t key = 77;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    memset(secret, 'e', sizeof secret);
    assert_int_equal(write(fd, secret, sizeof secret), sizeof secret);
    assert_int_equal(rg_dc_key_read(path, "who", &key, &error), -RG_SETTING);
    assert_non_null(strstr(error.message, "who: "));
    assert_non_null(strstr(error.message, path));
    assert_null(strstr(error.message, "eeee"));
    assert_int_equal(ftruncate(fd, 8), 0);
    assert_int_equal(rg_dc_key_read(path, "who", &key, &error), 0);
    assert_true(key == 0xeeeeeeee);
    close(fd);
    unlink(path);
    assert_int_equal(rg_dc_key_read(path, "who", &key, &error), -RG_SETTING);
    assert_int_equal(rg_dc_key_read("/", "who", &key, &error), -RG_SETTING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_keys),
        cmocka_unit_test(refuses_what_is_none),
        cmocka_unit_test(says_why_a_file_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
