/*
 * The stored record: exact round trips, size, refusal of everything malformed.
 */
#include "test.h"

#include "base/attr.h"
#include "base/encode.h"
#include "s3/meta.h"

#include <stdio.h>
#include <stdlib.h>

#define MD5 "d41d8cd98f00b204e9800998ecf8427e"

static void check_round_trip(const struct rg_record *record, size_t most)
{
    RG_BUF(bytes, RG_RECORD_BYTES_MAX);
    RG_BUF(again, RG_RECORD_BYTES_MAX);
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_record_encode(record, &bytes, &err), 0);
    RG_CLEANUP(rg_record_free) struct rg_record decoded = RG_RECORD_INIT;
    assert_int_equal(rg_record_decode(rg_buf_span(&bytes), &decoded, &err), 0);
    assert_true(rg_record_equal(record, &decoded));
    assert_int_equal(rg_record_encode(&decoded, &again, &err), 0);
    assert_true(rg_span_eq(rg_buf_span(&bytes), rg_buf_span(&again)));
    if (bytes.len > most) {
        fail_msg("%zu bytes, expected at most %zu", bytes.len, most);
    }
}

static void set_etag(struct rg_record *record, const char *etag, bool is_md5)
{
    snprintf(record->meta.etag, sizeof(record->meta.etag), "%s", etag);
    record->meta.etag_is_md5 = is_md5;
}

static void etags(void **state)
{
    static const struct {
        const char *etag;
        bool is_md5;
        size_t bytes; /* of the whole record */
    } rows[] = {
        {"", false, 2},
        {MD5, true, 20},
        {MD5, false, 21},
        {MD5 "-1", false, 21},
        {MD5 "-10000", false, 22},
        {MD5 "-4294967295", false, 25},
        {MD5 "-4294967296", false, 60},
        {MD5 "-0", false, 60},
        {MD5 "-01", false, 60},
        {MD5 "-1", true, 60},
        {"D41D8CD98F00B204E9800998ECF8427E", true, 60},
        {"mtime-d5l6h0zw2mbk-ino-2bfk", false, 60},
        {"x", true, 60},
        {"", true, 60},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_record record = RG_RECORD_INIT;
        set_etag(&record, rows[i].etag, rows[i].is_md5);
        check_round_trip(&record, rows[i].bytes);
    }
    struct rg_record longest = RG_RECORD_INIT;
    memset(longest.meta.etag, 'e', RG_ETAG_MAX);
    check_round_trip(&longest, 100);
}

/* What a normal PUT leaves behind must stay small: the xattr shares an inode with others. */
static void usual_size(void **state)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    set_etag(&record, MD5, true);
    assert_int_equal(
        rg_checksum_of(RG_CHECKSUM_CRC64NVME, RG_SPAN_LITERAL("abc"), &record.meta.checksum, NULL),
        0);
    assert_int_equal(rg_meta_set_header(&record.meta, RG_META_CONTENT_TYPE,
                                        RG_SPAN_LITERAL(RG_META_DEFAULT_TYPE), NULL),
                     0);
    record.has_file = true;
    record.size = 64 << 20;
    record.mtime_s = 1800000000;
    record.mtime_ns = 123456789;
    check_round_trip(&record, 76);
}

static void fill(struct rg_record *record, size_t parts, enum rg_checksum_algorithm algorithm)
{
    set_etag(record, MD5 "-7", false);
    record->has_file = true;
    record->size = UINT64_MAX;
    record->mtime_s = INT64_MIN;
    record->mtime_ns = 999999999;
    record->has_modified = true;
    record->modified = (struct timespec){-5, 1};
    record->has_sidecar = true;
    memset(record->sidecar, 0xab, 16);
    record->has_md5 = true;
    memset(record->md5, 0xcd, 16);
    record->has_upload_id = true;
    memset(record->upload_id, 0xef, 16);
    record->key = strdup("some/key \xff");
    record->upload_algorithm = RG_CHECKSUM_SHA256;
    record->upload_type = RG_CHECKSUM_COMPOSITE;
    for (int i = 0; i < RG_META_HEADER_COUNT; i++) {
        char value[32];
        snprintf(value, sizeof(value), "value \xc3\xa4 %d", i);
        assert_int_equal(
            rg_meta_set_header(&record->meta, (enum rg_meta_header)i, rg_span_text(value), NULL),
            0);
    }
    for (unsigned i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(
            rg_meta_add_user(&record->meta, rg_span_text(name), rg_span_text(name), NULL), 0);
        assert_int_equal(rg_pairs_add(&record->meta.tags, rg_span_text(name), RG_SPAN_EMPTY, NULL),
                         0);
    }
    record->meta.checksum = (struct rg_checksum){algorithm, RG_CHECKSUM_COMPOSITE, 7, {1, 2, 3}};
    record->meta.parts = calloc(parts, sizeof(struct rg_part));
    record->meta.part_count = parts;
    for (size_t i = 0; i < parts; i++) {
        struct rg_part *part = &record->meta.parts[i];
        part->size = i + 1 == parts ? 17 : i % 1000 == 5 ? i : 8 << 20;
        part->checksum.algorithm = i % 50 == 49 ? RG_CHECKSUM_NONE : algorithm;
        memset(part->checksum.bytes, (int)(i & 0xff), rg_checksum_length(part->checksum.algorithm));
    }
}

static void everything(void **state)
{
    static const size_t counts[] = {1, 2, 3, 200, 10000};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(counts); i++) {
        for (int algorithm = 1; algorithm < RG_CHECKSUM_ALGORITHM_COUNT; algorithm++) {
            RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
            fill(&record, counts[i], (enum rg_checksum_algorithm)algorithm);
            check_round_trip(&record, 2000 + counts[i] * (RG_CHECKSUM_BYTES_MAX + 2));
        }
    }
}

static void equal_parts_are_small(void **state)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    set_etag(&record, MD5 "-10000", false);
    record.meta.part_count = 10000;
    record.meta.parts = calloc(10000, sizeof(struct rg_part));
    for (unsigned i = 0; i < 10000; i++) {
        record.meta.parts[i].size = i < 9999 ? 16 << 20 : 1234;
    }
    check_round_trip(&record, 40);
}

static void unsound_is_not_written(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(out, 1 << 20);
    struct rg_record record = RG_RECORD_INIT;
    set_etag(&record, "a\"b", false);
    assert_int_equal(rg_record_encode(&record, &out, &err), -RG_INVALID_ARGUMENT);
    record = (struct rg_record)RG_RECORD_INIT;
    memset(record.meta.etag, 'x', sizeof(record.meta.etag)); /* no terminator */
    assert_int_equal(rg_record_encode(&record, &out, &err), -RG_INVALID_ARGUMENT);

    record = (struct rg_record)RG_RECORD_INIT;
    assert_int_equal(rg_pairs_add(&record.meta.user, RG_SPAN_LITERAL("a b"), RG_SPAN_EMPTY, NULL),
                     0);
    assert_int_equal(rg_record_encode(&record, &out, &err), -RG_INVALID_ARGUMENT);
    rg_record_free(&record);

    record = (struct rg_record)RG_RECORD_INIT;
    record.meta.header[RG_META_EXPIRES] = strdup("a\r\nSet-Cookie: x");
    assert_int_equal(rg_record_encode(&record, &out, &err), -RG_INVALID_ARGUMENT);
    rg_record_free(&record);

    record = (struct rg_record)RG_RECORD_INIT;
    record.has_file = true;
    record.mtime_ns = 1000000000;
    assert_int_equal(rg_record_encode(&record, &out, &err), -RG_INVALID_ARGUMENT);

    struct rg_part part = {1, {RG_CHECKSUM_CRC32, RG_CHECKSUM_COMPOSITE, 1, {0}}};
    record = (struct rg_record)RG_RECORD_INIT;
    record.meta.parts = &part;
    record.meta.part_count = 1;
    assert_int_equal(rg_record_encode(&record, &out, &err), -RG_INVALID_ARGUMENT);
}

/* Bytes in hex: magic, version, then fields (tag, length, body). */
static void malformed(void **state)
{
    static const struct {
        const char *hex;
        bool good;
    } rows[] = {
        {"5201", true},
        {"", false},
        {"52", false},
        {"5202", false},       /* version */
        {"5301", false},       /* magic */
        {"520103", false},     /* no length */
        {"52010310", false},   /* body missing */
        {"520103017f", false}, /* an MD5 of one byte */
        {"5201c00100", true},  /* unknown, optional (96) */
        {"5201c10100", false}, /* unknown, mandatory */
        {"520100ff", false},   /* length beyond the end */
        {"520100ffffffffffffffffff0141", false},
        {"520100ffffffffffffffffffff0141", false}, /* varint of 11 bytes */
        {"52010180", false},                       /* unfinished varint */
        {"520109020101", false},                   /* file: two of three numbers */
        {"52010903010101", true},                  /* file */
        {"5201090301010109030101", false},
        {"5201090301010109030101", false},
        {"520109040101010109", false},
        {"520109070101ffffffff0f", false}, /* nanoseconds */
        {"52010d0700000000000000", false}, /* checksum: none */
        {"52010d0701000011223344", true},
        {"52010d0709000011223344", false},   /* algorithm */
        {"52010d0701020011223344", false},   /* type */
        {"52011103000141", true},            /* Content-Type: A */
        {"52011103090141", false},           /* header 9 */
        {"52011106010141000142", false},     /* order */
        {"52011103000100", false},           /* NUL */
        {"5201110300010a", false},           /* line feed */
        {"5201130401610162", true},          /* a: b */
        {"520113080161016201610163", false}, /* a twice */
        {"5201130401200162", false},         /* a name that is no token */
        {"520117020105", true},              /* one part of 5 bytes */
        {"520117020005", false},             /* a run of none */
        {"52011704a18d0605", false},         /* 100001 parts */
        {"52011704a08d0605", true},          /* 100000 parts */
        {"5201170bffffffffffffffffff0105", false},
        {"5201171601ffffffffffffffffff0101ffffffffffffffffff01", false}, /* sizes overflow */
        {"52011906010111223344", false}, /* checksums without parts */
        {"52011702010519060101112233", false},
        {"5201170201051906010111223344", true},
        {"5201170201051906020111223344", false},
        {"5201170202051906010111223344", false}, /* one of two parts */
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        uint8_t bytes[64];
        size_t len = strlen(rows[i].hex) / 2;
        assert_true(rg_hex_decode(rg_span(rows[i].hex, len * 2), bytes, len));
        struct rg_record record = RG_RECORD_INIT;
        struct rg_error err = RG_ERROR_INIT;
        int rc = rg_record_decode(rg_span(bytes, len), &record, &err);
        if (rc != (rows[i].good ? 0 : -RG_PARSE)) {
            fail_msg("%s gives %d", rows[i].hex, rc);
        }
        rg_record_free(&record);
    }
}

/* Every truncation and many single-byte changes of a full record: an error or a record that can be
 * written again, never anything else (the sanitizers watch). */
static void damaged(void **state)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    fill(&record, 20, RG_CHECKSUM_CRC32C);
    RG_BUF(bytes, RG_RECORD_BYTES_MAX);
    assert_int_equal(rg_record_encode(&record, &bytes, NULL), 0);
    unsigned accepted = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        struct rg_record decoded = RG_RECORD_INIT;
        if (rg_record_decode(rg_span(bytes.data, i), &decoded, NULL) == 0) {
            rg_record_free(&decoded);
        }
        for (unsigned change = 1; change < 256; change += 37) {
            bytes.data[i] = (char)(bytes.data[i] ^ change);
            if (rg_record_decode(rg_buf_span(&bytes), &decoded, NULL) == 0) {
                RG_BUF(again, RG_RECORD_BYTES_MAX);
                assert_int_equal(rg_record_encode(&decoded, &again, NULL), 0);
                rg_record_free(&decoded);
                accepted++;
            }
            bytes.data[i] = (char)(bytes.data[i] ^ change);
        }
    }
    print_message("%u damaged records were still records\n", accepted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(etags),      cmocka_unit_test(usual_size),
        cmocka_unit_test(everything), cmocka_unit_test(equal_parts_are_small),
        cmocka_unit_test(malformed),  cmocka_unit_test(unsound_is_not_written),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
