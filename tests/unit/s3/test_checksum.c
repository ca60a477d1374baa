/*
 * Checksums against published check values, against a bit-by-bit twin, and against each other.
 */
#include "test.h"

#include "base/attr.h"
#include "base/encode.h"
#include "s3/checksum.h"
#include "s3/crc64.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK_TEXT "123456789"

struct vector {
    enum rg_checksum_algorithm algorithm;
    const char *input;
    const char *hex;
};

/* "123456789": the check values of the CRC catalogue (for NVME also of the NVM Express
 * specification); SHA: FIPS 180 examples; MD5: RFC 1321; xxHash: values that its other
 * implementations publish (XXHASH64 of "hello world" also in AWS's own SDK). */
static const struct vector vectors[] = {
    {RG_CHECKSUM_CRC32, CHECK_TEXT, "cbf43926"},
    {RG_CHECKSUM_CRC32C, CHECK_TEXT, "e3069283"},
    {RG_CHECKSUM_CRC64NVME, CHECK_TEXT, "ae8b14860a799888"},
    {RG_CHECKSUM_CRC32, "", "00000000"},
    {RG_CHECKSUM_CRC32C, "", "00000000"},
    {RG_CHECKSUM_CRC64NVME, "", "0000000000000000"},
    {RG_CHECKSUM_SHA1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
    {RG_CHECKSUM_SHA256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {RG_CHECKSUM_SHA256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {RG_CHECKSUM_SHA512, "abc",
     "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
     "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
    {RG_CHECKSUM_MD5, "abc", "900150983cd24fb0d6963f7d28e17f72"},
    {RG_CHECKSUM_XXHASH64, "", "ef46db3751d8e999"},
    {RG_CHECKSUM_XXHASH64, "abc", "44bc2cf5ad770999"},
    {RG_CHECKSUM_XXHASH64, "hello world", "45ab6734b21e6968"},
    {RG_CHECKSUM_XXHASH3, "", "2d06800538d394c2"},
    {RG_CHECKSUM_XXHASH3, "abc", "78af5f94892f3950"},
    {RG_CHECKSUM_XXHASH128, "", "99aa06d3014798d86001c324468d497f"},
    {RG_CHECKSUM_XXHASH128, "abc", "06b05ab6733a618578af5f94892f3950"},
};

/* Bytes that text cannot hold: in both forms in which they are told, hex of logs and base64. */
static void known_answers_of_bytes(void **state)
{
    static unsigned char bytes[65536];
    static const struct {
        size_t length;
        unsigned factor;
        const char *hex, *text;
    } rows[] = {
        {0, 0, "0000000000000000", "AAAAAAAAAAA="},
        {32, 0, "cf3473434d4ecf3b", "zzRzQ01Ozzs="},
        {256, 1, "ff71e21279d9966e", "/3HiEnnZlm4="},
        {65536, 1, "95cd117c5b05dcc1", "lc0RfFsF3ME="},
        {65536, 131, "d5c70933b5fa7986", "1ccJM7X6eYY="},
    };
    char hex[2 * RG_CHECKSUM_BYTES_MAX + 1];
    char text[RG_CHECKSUM_TEXT_MAX + 1];
    struct rg_checksum checksum;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        for (size_t j = 0; j < rows[i].length; j++) {
            bytes[j] = (unsigned char)(rows[i].factor * j);
        }
        struct span all = rg_span((char *)bytes, rows[i].length);
        assert_int_equal(rg_checksum_of(RG_CHECKSUM_CRC64NVME, all, &checksum, NULL), 0);
        rg_hex_encode(checksum.bytes, 8, hex);
        rg_checksum_format(&checksum, text);
        assert_string_equal(hex, rows[i].hex);
        assert_string_equal(text, rows[i].text);
    }
    struct span last = rg_span((char *)bytes, sizeof bytes);
    assert_int_equal(rg_checksum_of(RG_CHECKSUM_MD5, last, &checksum, NULL), 0);
    rg_hex_encode(checksum.bytes, 16, hex);
    assert_string_equal(hex, "adaae3d4e753541138df1a2d483ffc9d");
    assert_int_equal(
        rg_checksum_of(RG_CHECKSUM_CRC32C, RG_SPAN_LITERAL(CHECK_TEXT), &checksum, NULL), 0);
    rg_checksum_format(&checksum, text);
    assert_string_equal(text, "4waSgw==");
}

static void known_answers(void **state)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(vectors); i++) {
        const struct vector *v = &vectors[i];
        struct rg_checksum checksum;
        assert_int_equal(rg_checksum_of(v->algorithm, rg_span_text(v->input), &checksum, NULL), 0);
        char hex[2 * RG_CHECKSUM_BYTES_MAX + 1];
        rg_hex_encode(checksum.bytes, rg_checksum_length(v->algorithm), hex);
        assert_string_equal(hex, v->hex);
        assert_int_equal(checksum.algorithm, v->algorithm);
        assert_int_equal(checksum.type, RG_CHECKSUM_FULL_OBJECT);
    }
}

/* The vectors of the NVM Express specification for the 64-bit CRC: 4 KiB of zeros, of ones,
 * counting up and counting down. */
static void nvme_vectors(void **state)
{
    static const uint64_t expected[] = {
        UINT64_C(0x6482d367eb22b64e),
        UINT64_C(0xc0ddba7302eca3ac),
        UINT64_C(0x3e729f5f6750449c),
        UINT64_C(0x9a2df64b8e9e517e),
    };
    uint8_t block[4096];
    for (unsigned kind = 0; kind < 4; kind++) {
        for (unsigned i = 0; i < sizeof(block); i++) {
            const uint8_t bytes[] = {0, 0xff, (uint8_t)i, (uint8_t)(255 - i)};
            block[i] = bytes[kind];
        }
        for (int way = 0; way < RG_CRC64_WAY_COUNT; way++) {
            if (rg_crc64nvme_has((enum rg_crc64_way)way)) {
                assert_int_equal(rg_crc64nvme_by((enum rg_crc64_way)way, 0, block, sizeof(block)),
                                 expected[kind]);
            }
        }
        assert_int_equal(rg_crc64nvme(0, block, sizeof(block)), expected[kind]);
    }
}

static uint64_t bit_by_bit(uint64_t polynomial, uint64_t mask, const uint8_t *bytes, size_t len)
{
    uint64_t crc = mask;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
        }
    }
    return crc ^ mask;
}

static uint64_t number(const struct rg_checksum *checksum)
{
    uint64_t value = 0;
    for (size_t i = 0; i < rg_checksum_length(checksum->algorithm); i++) {
        value = value << 8 | checksum->bytes[i];
    }
    return value;
}

static void fill_random(uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(random() >> 7);
    }
}

/* Every length up to a few folding strides, every alignment, continued from random states. */
static void ways_agree(void **state)
{
    srandom(7);
    static uint8_t bytes[5000];
    fill_random(bytes, sizeof(bytes));
    unsigned compared = 0;
    for (size_t len = 0; len < 1400; len++) {
        size_t offset = len % 67;
        uint64_t start = ((uint64_t)random() << 33) ^ (uint64_t)random();
        uint64_t expected = rg_crc64nvme_by(RG_CRC64_TABLES, start, bytes + offset, len);
        for (int way = 1; way < RG_CRC64_WAY_COUNT; way++) {
            if (rg_crc64nvme_has((enum rg_crc64_way)way)) {
                assert_int_equal(
                    rg_crc64nvme_by((enum rg_crc64_way)way, start, bytes + offset, len), expected);
                compared++;
            }
        }
        assert_int_equal(rg_crc64nvme(start, bytes + offset, len), expected);
    }
    for (unsigned round = 0; round < 300; round++) {
        size_t offset = (size_t)random() % 64;
        size_t len = (size_t)random() % (sizeof(bytes) - offset);
        uint64_t expected = bit_by_bit(RG_CRC64NVME_POLYNOMIAL, UINT64_MAX, bytes + offset, len);
        for (int way = 0; way < RG_CRC64_WAY_COUNT; way++) {
            if (rg_crc64nvme_has((enum rg_crc64_way)way)) {
                assert_int_equal(rg_crc64nvme_by((enum rg_crc64_way)way, 0, bytes + offset, len),
                                 expected);
            }
        }
    }
    print_message("compared %u accelerated results\n", compared);
}

static const enum rg_checksum_algorithm crcs[] = {RG_CHECKSUM_CRC32, RG_CHECKSUM_CRC32C,
                                                  RG_CHECKSUM_CRC64NVME};

static void crc32_twins(void **state)
{
    srandom(8);
    static uint8_t bytes[100000];
    fill_random(bytes, sizeof(bytes));
    for (unsigned round = 0; round < 60; round++) {
        size_t offset = (size_t)random() % 64;
        size_t len =
            round < 40 ? (size_t)random() % 600 : (size_t)random() % (sizeof(bytes) - offset);
        struct rg_checksum checksum;
        assert_int_equal(
            rg_checksum_of(RG_CHECKSUM_CRC32, rg_span(bytes + offset, len), &checksum, NULL), 0);
        assert_int_equal(number(&checksum),
                         bit_by_bit(0xedb88320, 0xffffffff, bytes + offset, len));
        assert_int_equal(
            rg_checksum_of(RG_CHECKSUM_CRC32C, rg_span(bytes + offset, len), &checksum, NULL), 0);
        assert_int_equal(number(&checksum),
                         bit_by_bit(0x82f63b78, 0xffffffff, bytes + offset, len));
    }
}

/* One pass over odd pieces gives what each algorithm gives alone over the whole. */
static void hasher_set(void **state)
{
    srandom(9);
    static uint8_t bytes[150000];
    fill_random(bytes, sizeof(bytes));
    unsigned all = 0;
    for (int i = 1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        all |= RG_HASH_BIT(i);
    }
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    assert_int_equal(rg_hasher_init(&hasher, all, NULL), 0);
    for (size_t done = 0; done < sizeof(bytes);) {
        size_t len = (size_t)random() % 9000;
        len = len < sizeof(bytes) - done ? len : sizeof(bytes) - done;
        rg_hasher_update(&hasher, rg_span(bytes + done, len));
        done += len;
    }
    assert_int_equal(rg_hasher_total(&hasher), sizeof(bytes));
    assert_int_equal(rg_hasher_final(&hasher, NULL), 0);
    for (int i = 1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        struct rg_checksum alone;
        struct rg_checksum together;
        assert_int_equal(rg_checksum_of((enum rg_checksum_algorithm)i,
                                        rg_span(bytes, sizeof(bytes)), &alone, NULL),
                         0);
        rg_hasher_checksum(&hasher, (enum rg_checksum_algorithm)i, &together);
        assert_true(rg_checksum_equal(&alone, &together));
    }
    struct rg_checksum sha;
    uint8_t payload[32];
    rg_hasher_checksum(&hasher, RG_CHECKSUM_SHA256, &sha);
    rg_hasher_sha256(&hasher, payload);
    assert_memory_equal(sha.bytes, payload, 32);
}

static void hasher_md5(void **state)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    assert_int_equal(rg_hasher_init(&hasher, RG_HASH_MD5, NULL), 0);
    rg_hasher_update(&hasher, RG_SPAN_LITERAL("message digest"));
    assert_int_equal(rg_hasher_final(&hasher, NULL), 0);
    uint8_t md5[16];
    char hex[33];
    rg_hasher_md5(&hasher, md5);
    rg_hex_encode(md5, 16, hex);
    assert_string_equal(hex, "f96b697d7cb7938d525a2f31aaf161d0"); /* RFC 1321 */
}

static void hasher_empty_set(void **state)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    assert_int_equal(rg_hasher_init(&hasher, 0, NULL), 0);
    rg_hasher_update(&hasher, RG_SPAN_LITERAL("abc"));
    assert_int_equal(rg_hasher_final(&hasher, NULL), 0);
    assert_int_equal(rg_hasher_total(&hasher), 3);
}

static void combination(void **state)
{
    srandom(10);
    static uint8_t bytes[70000];
    fill_random(bytes, sizeof(bytes));
    for (unsigned round = 0; round < 300; round++) {
        enum rg_checksum_algorithm algorithm = crcs[round % RG_ARRAY_LENGTH(crcs)];
        size_t len = (size_t)random() % sizeof(bytes);
        size_t cut = len ? (size_t)random() % (len + 1) : 0;
        struct rg_checksum a;
        struct rg_checksum b;
        struct rg_checksum whole;
        assert_int_equal(rg_checksum_of(algorithm, rg_span(bytes, cut), &a, NULL), 0);
        assert_int_equal(rg_checksum_of(algorithm, rg_span(bytes + cut, len - cut), &b, NULL), 0);
        assert_int_equal(rg_checksum_of(algorithm, rg_span(bytes, len), &whole, NULL), 0);
        assert_int_equal(rg_crc_combine(algorithm, number(&a), number(&b), len - cut),
                         number(&whole));
        assert_int_equal(rg_checksum_append(&a, &b, len - cut, NULL), 0);
        assert_true(rg_checksum_equal(&a, &whole));
    }
}

/* Lengths that no test can hash: combining is associative, so two ways of joining 2^41 bytes of
 * zeros and a short tail must give the same. */
static void combination_long(void **state)
{
    static uint8_t zeros[1 << 16];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(crcs); i++) {
        struct rg_checksum zero_part;
        struct rg_checksum tail_part;
        assert_int_equal(rg_checksum_of(crcs[i], rg_span(zeros, sizeof(zeros)), &zero_part, NULL),
                         0);
        assert_int_equal(rg_checksum_of(crcs[i], RG_SPAN_LITERAL("tail"), &tail_part, NULL), 0);
        uint64_t half = number(&zero_part);
        uint64_t len = sizeof(zeros);
        for (; len < UINT64_C(1) << 40; len *= 2) {
            half = rg_crc_combine(crcs[i], half, half, len);
        }
        uint64_t tail = number(&tail_part);
        uint64_t left = rg_crc_combine(crcs[i], rg_crc_combine(crcs[i], half, half, len), tail, 4);
        uint64_t right =
            rg_crc_combine(crcs[i], half, rg_crc_combine(crcs[i], half, tail, 4), len + 4);
        assert_int_equal(left, right);
        assert_int_not_equal(left, tail);
    }
}

static struct rg_part part_of(enum rg_checksum_algorithm algorithm, const uint8_t *bytes,
                              size_t len)
{
    struct rg_part part = {.size = len};
    assert_int_equal(rg_checksum_of(algorithm, rg_span(bytes, len), &part.checksum, NULL), 0);
    return part;
}

static void full_object_of_parts(void **state)
{
    srandom(11);
    static uint8_t bytes[60000];
    fill_random(bytes, sizeof(bytes));
    for (unsigned round = 0; round < 60; round++) {
        enum rg_checksum_algorithm algorithm = crcs[round % RG_ARRAY_LENGTH(crcs)];
        struct rg_part parts[40];
        size_t count = 0;
        size_t done = 0;
        while (count < RG_ARRAY_LENGTH(parts) && done < sizeof(bytes)) {
            size_t len = round % 2 ? 4096 : (size_t)random() % 5000;
            len = len < sizeof(bytes) - done ? len : sizeof(bytes) - done;
            parts[count++] = part_of(algorithm, bytes + done, len);
            done += len;
        }
        struct rg_checksum expected;
        struct rg_checksum combined;
        assert_int_equal(rg_checksum_of(algorithm, rg_span(bytes, done), &expected, NULL), 0);
        assert_int_equal(
            rg_checksum_of_parts(algorithm, RG_CHECKSUM_FULL_OBJECT, parts, count, &combined, NULL),
            0);
        assert_true(rg_checksum_equal(&expected, &combined));
    }
}

static void composite_of_parts(void **state)
{
    /* By hand: SHA-256 of the two digests of "abc" and "". */
    struct rg_part parts[2] = {
        part_of(RG_CHECKSUM_SHA256, (const uint8_t *)"abc", 3),
        part_of(RG_CHECKSUM_SHA256, (const uint8_t *)"", 0),
    };
    uint8_t joined[64];
    memcpy(joined, parts[0].checksum.bytes, 32);
    memcpy(joined + 32, parts[1].checksum.bytes, 32);
    struct rg_checksum expected;
    struct rg_checksum composite;
    assert_int_equal(
        rg_checksum_of(RG_CHECKSUM_SHA256, rg_span(joined, sizeof(joined)), &expected, NULL), 0);
    assert_int_equal(
        rg_checksum_of_parts(RG_CHECKSUM_SHA256, RG_CHECKSUM_COMPOSITE, parts, 2, &composite, NULL),
        0);
    assert_memory_equal(composite.bytes, expected.bytes, 32);
    assert_int_equal(composite.parts, 2);
    char text[RG_CHECKSUM_TEXT_MAX + 1];
    rg_checksum_format(&composite, text);
    assert_string_equal(text + strlen(text) - 2, "-2");
    struct rg_checksum again;
    assert_int_equal(rg_checksum_parse(RG_CHECKSUM_SHA256, rg_span_text(text), &again, NULL), 0);
    assert_true(rg_checksum_equal(&again, &composite));
}

static void parts_refused(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_checksum out;
    struct rg_part crc = part_of(RG_CHECKSUM_CRC32, (const uint8_t *)"abc", 3);
    struct rg_part none = {.size = 3};
    assert_int_equal(
        rg_checksum_of_parts(RG_CHECKSUM_SHA1, RG_CHECKSUM_FULL_OBJECT, &crc, 1, &out, &err),
        -RG_INVALID_REQUEST);
    assert_int_equal(
        rg_checksum_of_parts(RG_CHECKSUM_CRC64NVME, RG_CHECKSUM_COMPOSITE, &crc, 1, &out, &err),
        -RG_INVALID_REQUEST);
    assert_int_equal(
        rg_checksum_of_parts(RG_CHECKSUM_CRC32C, RG_CHECKSUM_COMPOSITE, &crc, 1, &out, &err),
        -RG_INVALID_REQUEST);
    assert_int_equal(
        rg_checksum_of_parts(RG_CHECKSUM_CRC32, RG_CHECKSUM_COMPOSITE, &none, 1, &out, &err),
        -RG_INVALID_REQUEST);
    assert_int_equal(
        rg_checksum_of_parts(RG_CHECKSUM_CRC32, RG_CHECKSUM_COMPOSITE, NULL, 0, &out, &err),
        -RG_INVALID_REQUEST);
    assert_int_equal(
        rg_checksum_of_parts(RG_CHECKSUM_CRC32, RG_CHECKSUM_COMPOSITE, &crc, 1, &out, &err), 0);

    struct rg_checksum sha = part_of(RG_CHECKSUM_SHA1, (const uint8_t *)"abc", 3).checksum;
    struct rg_checksum before = crc.checksum;
    assert_int_equal(rg_checksum_append(&crc.checksum, &sha, 3, &err), -RG_INVALID_REQUEST);
    assert_true(rg_checksum_equal(&before, &crc.checksum));
    assert_int_equal(rg_checksum_append(&sha, &sha, 3, &err), -RG_INVALID_REQUEST);
}

static void text_forms(void **state)
{
    struct rg_checksum checksum;
    char text[RG_CHECKSUM_TEXT_MAX + 1];
    static const struct {
        enum rg_checksum_algorithm algorithm;
        const char *text;
        bool good;
    } rows[] = {
        {RG_CHECKSUM_CRC32, "y/Q5Jg==", true},
        {RG_CHECKSUM_CRC32, "y/Q5Jg==-1", true},
        {RG_CHECKSUM_CRC32, "y/Q5Jg==-100000", true},
        {RG_CHECKSUM_CRC64NVME, "rosUhgp5mIg=", true},
        {RG_CHECKSUM_CRC32, "", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg=", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jh==", false}, /* unused bits */
        {RG_CHECKSUM_CRC32, " y/Q5Jg==", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg== ", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg==-", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg==-0", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg==-01", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg==-100001", false},
        {RG_CHECKSUM_CRC32, "y/Q5Jg==-1-1", false},
        {RG_CHECKSUM_CRC32, "rosUhgp5mIg=", false}, /* eight bytes */
        {RG_CHECKSUM_SHA256, "y/Q5Jg==", false},
        {RG_CHECKSUM_CRC32C, "cbf43926", false}, /* base64 of six bytes */
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_error err = RG_ERROR_INIT;
        int rc = rg_checksum_parse(rows[i].algorithm, rg_span_text(rows[i].text), &checksum, &err);
        assert_int_equal(rc, rows[i].good ? 0 : -RG_INVALID_REQUEST);
        if (rows[i].good) {
            rg_checksum_format(&checksum, text);
            assert_string_equal(text, rows[i].text);
        } else {
            assert_non_null(strstr(err.message, rg_checksum_header(rows[i].algorithm)));
        }
    }
    struct rg_checksum none = RG_CHECKSUM_INIT;
    rg_checksum_format(&none, text);
    assert_string_equal(text, "");

    /* The longest text there is. */
    struct rg_checksum longest = {RG_CHECKSUM_SHA512, RG_CHECKSUM_COMPOSITE, UINT32_MAX, {0}};
    rg_checksum_format(&longest, text);
    assert_int_equal(strlen(text), RG_CHECKSUM_TEXT_MAX);
}

static void names(void **state)
{
    for (int i = 1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        enum rg_checksum_algorithm algorithm = (enum rg_checksum_algorithm)i;
        enum rg_checksum_algorithm found = RG_CHECKSUM_NONE;
        assert_true(rg_checksum_from_name(rg_span_text(rg_checksum_name(algorithm)), &found));
        assert_int_equal(found, algorithm);
        found = RG_CHECKSUM_NONE;
        assert_true(rg_checksum_from_header(rg_span_text(rg_checksum_header(algorithm)), &found));
        assert_int_equal(found, algorithm);
        assert_true(rg_checksum_type_allowed(algorithm, rg_checksum_type_default(algorithm)));
        assert_true(rg_checksum_length(algorithm) <= RG_CHECKSUM_BYTES_MAX);
    }
    enum rg_checksum_algorithm found;
    assert_true(rg_checksum_from_name(RG_SPAN_LITERAL("crc64nvme"), &found));
    assert_false(rg_checksum_from_name(RG_SPAN_LITERAL("NONE"), &found));
    assert_false(rg_checksum_from_name(RG_SPAN_LITERAL("MD4"), &found));
    assert_false(rg_checksum_from_header(RG_SPAN_LITERAL("x-amz-checksum-type"), &found));
    assert_int_equal(rg_checksum_type_default(RG_CHECKSUM_CRC64NVME), RG_CHECKSUM_FULL_OBJECT);
    assert_int_equal(rg_checksum_type_default(RG_CHECKSUM_CRC32), RG_CHECKSUM_COMPOSITE);
    assert_true(rg_checksum_type_allowed(RG_CHECKSUM_CRC32C, RG_CHECKSUM_FULL_OBJECT));
    assert_false(rg_checksum_type_allowed(RG_CHECKSUM_CRC64NVME, RG_CHECKSUM_COMPOSITE));
    for (int i = RG_CHECKSUM_SHA1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        assert_false(
            rg_checksum_type_allowed((enum rg_checksum_algorithm)i, RG_CHECKSUM_FULL_OBJECT));
        assert_true(rg_checksum_type_allowed((enum rg_checksum_algorithm)i, RG_CHECKSUM_COMPOSITE));
    }
    enum rg_checksum_type type;
    assert_true(rg_checksum_type_from_name(RG_SPAN_LITERAL("COMPOSITE"), &type));
    assert_int_equal(type, RG_CHECKSUM_COMPOSITE);
    assert_false(rg_checksum_type_from_name(RG_SPAN_LITERAL("FULL"), &type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(known_answers_of_bytes),
        cmocka_unit_test(nvme_vectors),
        cmocka_unit_test(ways_agree),
        cmocka_unit_test(crc32_twins),
        cmocka_unit_test(hasher_set),
        cmocka_unit_test(hasher_md5),
        cmocka_unit_test(hasher_empty_set),
        cmocka_unit_test(combination),
        cmocka_unit_test(combination_long),
        cmocka_unit_test(full_object_of_parts),
        cmocka_unit_test(composite_of_parts),
        cmocka_unit_test(parts_refused),
        cmocka_unit_test(text_forms),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
