/*
 * ETags: shapes that clients rely on, and the multipart digest.
 */
#include "test.h"

#include "base/attr.h"
#include "base/encode.h"
#include "s3/checksum.h"

static void md5_shape(void **state)
{
    uint8_t md5[16];
    assert_true(rg_hex_decode(RG_SPAN_LITERAL("d41d8cd98f00b204e9800998ecf8427e"), md5, 16));
    char etag[RG_ETAG_MAX + 1];
    rg_etag_md5(md5, etag);
    assert_string_equal(etag, "d41d8cd98f00b204e9800998ecf8427e");
    assert_true(rg_etag_looks_md5(rg_span_text(etag)));
}

static void multipart(void **state)
{
    /* Two empty parts. The expected value: printf 'd41d...7ed41d...7e' | xxd -r -p | md5sum */
    uint8_t digests[32];
    for (unsigned i = 0; i < 2; i++) {
        assert_true(
            rg_etag_digest(RG_SPAN_LITERAL("d41d8cd98f00b204e9800998ecf8427e"), digests + i * 16));
    }
    char etag[RG_ETAG_MAX + 1];
    assert_int_equal(rg_etag_multipart(digests, 1, etag, NULL), 0);
    assert_string_equal(etag, "59adb24ef3cdbe0297f05b395827453f-1");
    assert_int_equal(rg_etag_multipart(digests, 2, etag, NULL), 0);
    assert_string_equal(etag, "5873dd45edd01f09c1ef2e7819369e8e-2");
    assert_false(rg_etag_looks_md5(rg_span_text(etag)));
    uint8_t digest[16];
    assert_true(rg_etag_digest(rg_span_text(etag), digest));
}

static void fast_shape(void **state)
{
    const uint8_t bytes[16] = {0xab, [15] = 0x01};
    char etag[RG_ETAG_MAX + 1];
    rg_etag_fast(bytes, etag);
    assert_string_equal(etag, "ab000000000000000000000000000001-1");
    assert_false(rg_etag_looks_md5(rg_span_text(etag)));
    uint8_t digest[16];
    assert_true(rg_etag_digest(rg_span_text(etag), digest));
    assert_memory_equal(digest, bytes, 16);
}

static void synthetic(void **state)
{
    char base[RG_ETAG_MAX + 1];
    char same[RG_ETAG_MAX + 1];
    rg_etag_synthetic(42, 1700000000, 5, 10, base);
    rg_etag_synthetic(42, 1700000000, 5, 10, same);
    assert_string_equal(base, same);
    assert_int_equal(strlen(base), 34);
    assert_false(rg_etag_looks_md5(rg_span_text(base)));

    /* Stable over releases: clients keep ETags. */
    assert_string_equal(base, "8f28260ff9301a8ae8536f2a74e516ec-1");

    static const struct {
        uint64_t inode;
        int64_t s;
        uint32_t ns;
        uint64_t size;
    } others[] = {
        {43, 1700000000, 5, 10},
        {42, 1700000001, 5, 10},
        {42, 1700000000, 6, 10},
        {42, 1700000000, 5, 11},
        {5, 1700000000, 42, 10},
        {42, -1, 5, 10},
        {0, 0, 0, 0},
        {10, 1700000000, 5, 42},
    };
    char seen[RG_ARRAY_LENGTH(others) + 1][RG_ETAG_MAX + 1];
    memcpy(seen[0], base, sizeof(base));
    for (size_t i = 0; i < RG_ARRAY_LENGTH(others); i++) {
        rg_etag_synthetic(others[i].inode, others[i].s, others[i].ns, others[i].size, seen[i + 1]);
        for (size_t j = 0; j <= i; j++) {
            assert_string_not_equal(seen[j], seen[i + 1]);
        }
    }
}

static void digests_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "d41d8cd98f00b204e9800998ecf8427",
        "d41d8cd98f00b204e9800998ecf8427g",
        "D41D8CD98F00B204E9800998ECF8427E",
        "d41d8cd98f00b204e9800998ecf8427e-",
        "d41d8cd98f00b204e9800998ecf8427e-x",
        "d41d8cd98f00b204e9800998ecf8427e0",
        "mtime-d5l6h0zw2mbk-ino-2bfk",
    };
    uint8_t digest[16];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_false(rg_etag_digest(rg_span_text(bad[i]), digest));
        assert_false(rg_etag_looks_md5(rg_span_text(bad[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(md5_shape),       cmocka_unit_test(multipart),
        cmocka_unit_test(fast_shape),      cmocka_unit_test(synthetic),
        cmocka_unit_test(digests_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
