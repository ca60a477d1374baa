/*
 * Lets the n-th allocation fail, for every n that reading XML, records, tags and tokens makes
 * (expat's own included): each must come back as RG_OUT_OF_MEMORY, with nothing leaked. The linker
 * hands our libraries' allocations to the functions below (--wrap).
 */
#include "test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "s3/listing.h"
#include "s3/xml.h"

#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long left = -1; /* allocations until the one that fails; negative: none does */

static bool fails(void)
{
    return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

/* Runs `step` with the first, second, ... allocation failing, until it makes no more. */
static void exhaust(int (*step)(struct rg_error *err))
{
    for (long n = 0;; n++) {
        struct rg_error err = RG_ERROR_INIT;
        left = n;
        int rc = step(&err);
        bool failed = left < 0;
        left = -1;
        if (!failed) {
            assert_int_equal(rc, 0);
            assert_true(n > 0);
            return;
        }
        assert_int_equal(rc, -RG_OUT_OF_MEMORY);
        assert_int_equal(err.code, RG_OUT_OF_MEMORY);
    }
}

static int read_delete(struct rg_error *err)
{
    struct rg_xml_delete request;
    int rc = rg_xml_read_delete(
        RG_SPAN_LITERAL("<Delete xmlns=\"x\"><Object><Key>a&amp;b</Key><VersionId>null</VersionId>"
                        "<ETag>\"e\"</ETag></Object><Object><Key>c</Key></Object></Delete>"),
        &request, err);
    if (rc == 0) {
        rg_xml_delete_free(&request);
    }
    return rc;
}

static int read_complete(struct rg_error *err)
{
    struct rg_xml_complete request;
    int rc = rg_xml_read_complete(
        RG_SPAN_LITERAL("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag>"
                        "</Part></CompleteMultipartUpload>"),
        10, &request, err);
    if (rc == 0) {
        rg_xml_complete_free(&request);
    }
    return rc;
}

static int read_create_bucket(struct rg_error *err)
{
    struct rg_xml_create_bucket config;
    int rc = rg_xml_read_create_bucket(
        RG_SPAN_LITERAL("<CreateBucketConfiguration><LocationConstraint>r</LocationConstraint>"
                        "<Tags><Tag><Key>k</Key><Value>v</Value></Tag></Tags>"
                        "</CreateBucketConfiguration>"),
        &config, err);
    if (rc == 0) {
        rg_xml_create_bucket_free(&config);
    }
    return rc;
}

static int read_tags(struct rg_error *err)
{
    struct rg_pairs tags;
    int rc = rg_tags_parse_header(RG_SPAN_LITERAL("a=1&b=2"), &tags, err);
    if (rc == 0) {
        rg_pairs_free(&tags);
    }
    return rc;
}

static int token_there_and_back(struct rg_error *err)
{
    static const uint8_t key[RG_TOKEN_KEY_BYTES] = {1};
    const struct rg_token_scope scope = {RG_SPAN_LITERAL("b"), RG_SPAN_EMPTY, RG_SPAN_EMPTY};
    RG_BUF(text, 16384);
    int rc = rg_token_make(key, &scope, RG_SPAN_LITERAL("after"), false, &text, err);
    if (rc) {
        return rc;
    }
    struct rg_token token;
    rc = rg_token_read(key, &scope, rg_buf_span(&text), &token, err);
    if (rc == 0) {
        rg_token_free(&token);
    }
    return rc;
}

static int fill_record(struct rg_record *record, struct rg_error *err)
{
    record->meta.parts = calloc(2, sizeof(*record->meta.parts));
    if (!record->meta.parts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    record->meta.part_count = 2;
    record->key = rg_span_dup(RG_SPAN_LITERAL("key"));
    if (!record->key) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_meta_set_header(&record->meta, RG_META_EXPIRES, RG_SPAN_LITERAL("x"), err);
    rc = rc ? rc : rg_meta_add_user(&record->meta, RG_SPAN_LITERAL("a"), RG_SPAN_LITERAL("1"), err);
    rc = rc ? rc : rg_meta_add_user(&record->meta, RG_SPAN_LITERAL("a"), RG_SPAN_LITERAL("2"), err);
    return rc ? rc
              : rg_tags_add(&record->meta.tags, RG_TAG_OBJECT, RG_SPAN_LITERAL("t"),
                            RG_SPAN_LITERAL("v"), err);
}

static int record_there_and_back(struct rg_error *err)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    RG_CLEANUP(rg_record_free) struct rg_record again = RG_RECORD_INIT;
    RG_CLEANUP(rg_meta_free) struct rg_meta copy = RG_META_INIT;
    RG_BUF(bytes, 100000);
    int rc = fill_record(&record, err);
    rc = rc ? rc : rg_record_encode(&record, &bytes, err);
    rc = rc ? rc : rg_record_decode(rg_buf_span(&bytes), &again, err);
    rc = rc ? rc : rg_meta_copy(&again.meta, &copy, err);
    if (rc == 0) {
        assert_true(rg_record_equal(&record, &again));
        assert_true(rg_meta_equal(&again.meta, &copy));
    }
    return rc;
}

static void every_allocation(void **state)
{
    exhaust(read_delete);
    exhaust(read_complete);
    exhaust(read_create_bucket);
    exhaust(read_tags);
    exhaust(token_there_and_back);
    exhaust(record_there_and_back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
