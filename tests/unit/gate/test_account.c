#include "test.h"

#include "gate/account.h"

static struct rg_settings settings;
static struct rg_error err;

static int setup(void **state)
{
    assert_int_equal(rg_settings_init(&settings, &err), 0);
    return 0;
}

static int teardown(void **state)
{
    rg_settings_free(&settings);
    return 0;
}

static void set(enum rg_setting_id id, const char *value)
{
    assert_int_equal(rg_settings_set(&settings, id, value, RG_FROM_OPTION, "test", &err), 0);
}

static void refused(const char *access_key, const char *secret_key, const char *name)
{
    struct rg_accounts *accounts;
    set(RG_SETTING_root_access_key, access_key);
    set(RG_SETTING_root_secret_key, secret_key);
    assert_int_equal(rg_accounts_new(&settings, &accounts, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, name));
    if (*secret_key) {
        assert_null(strstr(err.message, secret_key));
    }
}

static void root_is_found(void **state)
{
    struct rg_accounts *accounts;
    struct rg_account account;
    set(RG_SETTING_root_access_key, "AKIDEXAMPLE");
    set(RG_SETTING_root_secret_key, "secret/with+signs");
    assert_int_equal(rg_accounts_new(&settings, &accounts, &err), 0);
    assert_int_equal(rg_accounts_find(accounts, RG_SPAN_LITERAL("AKIDEXAMPLE"), &account, &err), 0);
    assert_string_equal(account.secret_key, "secret/with+signs");
    assert_string_equal(account.canonical_id,
                        "7a898e50dbd5b8305149c34046d159f7d02b5d1fe021d4de640842d3835fb549");
    assert_true(account.is_root);
    assert_string_equal(rg_accounts_owner(accounts)->access_key, "AKIDEXAMPLE");
    rg_accounts_free(accounts);
}

/* The same key whether it was kept or not, and each its own: more scopes than are kept, twice. */
static void signing_keys(void **state)
{
    struct rg_accounts *accounts;
    struct rg_account account;
    set(RG_SETTING_root_access_key, "AKIDEXAMPLE");
    set(RG_SETTING_root_secret_key, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    assert_int_equal(rg_accounts_new(&settings, &accounts, &err), 0);
    assert_int_equal(rg_accounts_find(accounts, RG_SPAN_LITERAL("AKIDEXAMPLE"), &account, &err), 0);
    for (unsigned i = 0; i < 80; i++) {
        char date[16];
        struct rg_sigv4_key key;
        struct rg_sigv4_key expected;
        snprintf(date, sizeof date, "202611%02u", i % 20 + 10);
        struct rg_sigv4_scope scope = {.date = rg_span_text(date),
                                       .region = RG_SPAN_LITERAL("us-east-1"),
                                       .service = rg_span_text(i % 3 ? "s3" : "hipobj")};
        assert_int_equal(
            rg_sigv4_key_derive(rg_span_text(account.secret_key), scope, &expected, &err), 0);
        for (int again = 0; again < 2; again++) {
            memset(&key, 0, sizeof key);
            assert_int_equal(rg_accounts_signing_key(accounts, &account, scope, &key, &err), 0);
            assert_memory_equal(key.bytes, expected.bytes, sizeof key.bytes);
        }
    }
    char region[400];
    memset(region, 'r', sizeof region);
    struct rg_sigv4_scope scope = {.date = RG_SPAN_LITERAL("20261129"),
                                   .region = rg_span(region, sizeof region),
                                   .service = RG_SPAN_LITERAL("s3")};
    struct rg_sigv4_key key;
    struct rg_sigv4_key expected;
    assert_int_equal(rg_sigv4_key_derive(rg_span_text(account.secret_key), scope, &expected, &err),
                     0);
    assert_int_equal(rg_accounts_signing_key(accounts, &account, scope, &key, &err), 0);
    assert_memory_equal(key.bytes, expected.bytes, sizeof key.bytes);
    rg_accounts_free(accounts);
}

static void others_are_not(void **state)
{
    struct rg_accounts *accounts;
    struct rg_account account;
    set(RG_SETTING_root_access_key, "AKIDEXAMPLE");
    set(RG_SETTING_root_secret_key, "secretsecret");
    assert_int_equal(rg_accounts_new(&settings, &accounts, &err), 0);
    assert_int_equal(rg_accounts_find(accounts, RG_SPAN_LITERAL("AKIDEXAMPL"), &account, &err),
                     -RG_INVALID_ACCESS_KEY_ID);
    assert_int_equal(rg_accounts_find(accounts, RG_SPAN_EMPTY, &account, &err),
                     -RG_INVALID_ACCESS_KEY_ID);
    rg_accounts_free(accounts);
}

static void unusable_credentials_stop_the_start(void **state)
{
    refused("", "secretsecret", "root-access-key");
    refused("ab", "secretsecret", "root-access-key");
    refused("has/slash", "secretsecret", "root-access-key");
    refused("has space", "secretsecret", "root-access-key");
    refused("caf\xc3\xa9", "secretsecret", "root-access-key");
    refused("AKIDEXAMPLE", "", "root-secret-key");
    refused("AKIDEXAMPLE", "short", "root-secret-key");
    refused("AKIDEXAMPLE", "with space in it", "root-secret-key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(root_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(signing_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(others_are_not, setup, teardown),
        cmocka_unit_test_setup_teardown(unusable_credentials_stop_the_start, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
