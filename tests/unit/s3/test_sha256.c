/* SHA-256 and HMAC-SHA256: published vectors, and every length around a block against libcrypto. */
#include "test.h"

#include "base/encode.h"
#include "s3/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

static void is_hex(const unsigned char digest[RG_SHA256_BYTES], const char *expected)
{
    char hex[2 * RG_SHA256_BYTES + 1];
    rg_hex_encode(digest, RG_SHA256_BYTES, hex);
    assert_string_equal(hex, expected);
}

/* FIPS 180-4; RFC 4231, cases 2 and 6. */
static void test_vectors(void **state)
{
    unsigned char digest[RG_SHA256_BYTES];
    unsigned char long_key[131];
    assert_true(rg_sha256(RG_SPAN_LITERAL("abc"), digest));
    is_hex(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(rg_sha256(RG_SPAN_EMPTY, digest));
    is_hex(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_true(rg_hmac_sha256("Jefe", 4, RG_SPAN_LITERAL("what do ya want for nothing?"), digest));
    is_hex(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(long_key, 0xaa, sizeof long_key);
    assert_true(rg_hmac_sha256(
        long_key, sizeof long_key,
        RG_SPAN_LITERAL("Test Using Larger Than Block-Size Key - Hash Key First"), digest));
    is_hex(digest, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void test_lengths(void **state)
{
    char bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i * 37 + 1);
    }
    for (size_t len = 0; len < sizeof bytes; len++) {
        unsigned char own[RG_SHA256_BYTES];
        unsigned char other[RG_SHA256_BYTES];
        assert_true(rg_sha256(rg_span(bytes, len), own));
        assert_true(EVP_Digest(bytes, len, other, NULL, EVP_sha256(), NULL));
        assert_memory_equal(own, other, sizeof own);
        assert_true(rg_hmac_sha256(bytes, len, rg_span(bytes, sizeof bytes - len), own));
        assert_non_null(HMAC(EVP_sha256(), bytes, (int)len, (const unsigned char *)bytes,
                             sizeof bytes - len, other, NULL));
        assert_memory_equal(own, other, sizeof own);
    }
}

/* As the steps of a signing key use it. */
static void test_key_in_place(void **state)
{
    unsigned char key[RG_SHA256_BYTES];
    unsigned char expected[RG_SHA256_BYTES];
    memset(key, 7, sizeof key);
    assert_true(rg_hmac_sha256(key, sizeof key, RG_SPAN_LITERAL("x"), expected));
    assert_true(rg_hmac_sha256(key, sizeof key, RG_SPAN_LITERAL("x"), key));
    assert_memory_equal(key, expected, sizeof key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_key_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
