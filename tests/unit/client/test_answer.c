/* The XML that servers answer with: what is read, and what is refused. */
#include "client/answer.h"
#include "client/piece.h"
#include "client/plan.h"

#include "test.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#define XMLNS " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static struct span text(const char *xml)
{
    return rg_span_text(xml);
}

static void test_error(void **state)
{
    struct rg_answer_error error;
    assert_true(
        rg_answer_error_read(
            text("<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>The "
                 "&lt;key&gt;\x1b[1m"
                 "</Message><RequestId> R </RequestId><Extra><Code>Wrong</Code></Extra></Error>"),
            &error) == false); /* a control character is not XML */
    assert_true(rg_answer_error_read(
        text("<Error><Code>NoSuchKey</Code><Message>The &lt;key&gt;&#x7f;</Message><RequestId> R "
             "</RequestId><Extra><Code>Wrong</Code></Extra></Error>"),
        &error));
    assert_string_equal(error.code, "NoSuchKey");
    assert_string_equal(error.message, "The <key>?");
    assert_string_equal(error.request_id, "R");
    static const char *const none[] = {"", "<html></html>", "<Error></Error>",
                                       "<Error><Code></Code></Error>", "<Error><Code>X</Code>"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_false(rg_answer_error_read(text(none[i]), &error));
    }
}

static void test_objects(void **state)
{
    struct rg_answer_page page;
    struct rg_error err = RG_ERROR_INIT;
    int rc = rg_answer_objects_read(
        text("<?xml version=\"1.0\"?>\n<ListBucketResult" XMLNS "><Name>b</Name>\n"
             "<EncodingType>url</EncodingType>"
             "<Contents><Key>b%20c%2Bd</Key><LastModified>2026-11-29T16:40:01.123Z</LastModified>"
             "<ETag>&quot;e1&quot;</ETag><Size>18446744073709551615</Size></Contents>"
             "<Contents><Key>a+x</Key><Size>0</Size></Contents>"
             "<CommonPrefixes><Prefix>aa%2F</Prefix></CommonPrefixes><IsTruncated>true"
             "</IsTruncated><NextContinuationToken>T+/=</NextContinuationToken><Prefix>no</Prefix>"
             "</ListBucketResult>"),
        &page, &err);
    assert_int_equal(rc, 0);
    assert_int_equal(page.count, 3);
    assert_string_equal(page.entries[0].key, "a x");
    assert_string_equal(page.entries[1].key, "aa/");
    assert_true(page.entries[1].is_prefix);
    assert_string_equal(page.entries[2].key, "b c+d");
    assert_true(page.entries[2].size == UINT64_MAX);
    assert_int_equal(page.entries[2].modified, 1795970401);
    assert_string_equal(page.entries[2].etag, "e1");
    assert_string_equal(page.next, "T+/=");
    rg_answer_page_free(&page);
}

/* A server that takes no notice of encoding-type: its keys are what they are. */
static void test_objects_not_encoded(void **state)
{
    struct rg_answer_page page;
    assert_int_equal(
        rg_answer_objects_read(text("<ListBucketResult><Contents><Key>a+%41%</Key></Contents>"
                                    "<CommonPrefixes><Prefix>b+/</Prefix></CommonPrefixes>"
                                    "</ListBucketResult>"),
                               &page, NULL),
        0);
    assert_int_equal(page.count, 2);
    assert_string_equal(page.entries[0].key, "a+%41%");
    assert_string_equal(page.entries[1].key, "b+/");
    rg_answer_page_free(&page);
    struct rg_answer_uploads uploads;
    assert_int_equal(rg_answer_uploads_read(
                         text("<ListMultipartUploadsResult><Upload><Key>a+%41</Key><UploadId>u"
                              "</UploadId></Upload></ListMultipartUploadsResult>"),
                         &uploads, NULL),
                     0);
    assert_string_equal(uploads.uploads[0].key, "a+%41");
    rg_answer_uploads_free(&uploads);
}

static void test_objects_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "<Other/>",
        "<ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY e \"x\">]><ListBucketResult/>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><Contents><Key>%zz</Key></Contents><EncodingType>url</EncodingType>"
        "</ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%00</Key></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><LastModified>now</LastModified></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rg_answer_page page;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_answer_objects_read(text(bad[i]), &page, &err), -RG_PARSE);
    }
}

static void test_ceilings(void **state)
{
    struct rg_answer_page page;
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(deep, 1 << 20);
    rg_buf_add_text(&deep, "<ListBucketResult>");
    for (int i = 0; i < 20; i++) {
        rg_buf_add_text(&deep, "<a>");
    }
    assert_int_equal(rg_answer_objects_read(rg_buf_span(&deep), &page, &err), -RG_PARSE);
    RG_BUF(longer, 1 << 20);
    rg_buf_add_text(&longer, "<ListBucketResult><Contents><Key>");
    for (unsigned i = 0; i <= RG_ANSWER_TEXT_MAX; i++) {
        rg_buf_add_char(&longer, 'k');
    }
    rg_buf_add_text(&longer, "</Key></Contents></ListBucketResult>");
    assert_int_equal(rg_answer_objects_read(rg_buf_span(&longer), &page, &err), -RG_PARSE);
    RG_BUF(many, 16 << 20);
    rg_buf_add_text(&many, "<ListBucketResult>");
    for (unsigned i = 0; i <= RG_ANSWER_ENTRIES_MAX; i++) {
        rg_buf_add_text(&many, "<Contents><Key>k</Key></Contents>");
    }
    rg_buf_add_text(&many, "</ListBucketResult>");
    assert_true(rg_buf_ok(&many));
    assert_int_equal(rg_answer_objects_read(rg_buf_span(&many), &page, &err), -RG_PARSE);
}

static void test_buckets(void **state)
{
    struct rg_answer_page page;
    assert_int_equal(
        rg_answer_buckets_read(text("<ListAllMyBucketsResult" XMLNS
                                    "><Owner><ID>x</ID></Owner><Buckets><Bucket><Name>one</Name>"
                                    "<CreationDate>2026-11-29T16:40:01.000Z</CreationDate></Bucket>"
                                    "<Bucket><Name>two</Name></Bucket></Buckets>"
                                    "</ListAllMyBucketsResult>"),
                               &page, NULL),
        0);
    assert_int_equal(page.count, 2);
    assert_string_equal(page.entries[0].key, "one");
    assert_null(page.next);
    rg_answer_page_free(&page);
}

static void test_multipart(void **state)
{
    char *id = NULL;
    assert_int_equal(rg_answer_upload_id_read(text("<InitiateMultipartUploadResult><UploadId>u/1"
                                                   "</UploadId></InitiateMultipartUploadResult>"),
                                              &id, NULL),
                     0);
    assert_string_equal(id, "u/1");
    free(id);
    assert_int_equal(rg_answer_upload_id_read(text("<InitiateMultipartUploadResult/>"), &id, NULL),
                     -RG_PARSE);
    struct rg_answer_stored stored;
    assert_int_equal(
        rg_answer_stored_read(text("<?xml version=\"1.0\"?>\n  \n<CopyObjectResult>"
                                   "<ETag>\"e-2\"</ETag><ChecksumCRC64NVME>rosUhgp5mIg="
                                   "</ChecksumCRC64NVME></CopyObjectResult>"),
                              &stored, NULL),
        0);
    assert_string_equal(stored.etag, "e-2");
    assert_string_equal(stored.crc64, "rosUhgp5mIg=");
    assert_int_equal(rg_answer_stored_read(text("<CopyObjectResult/>"), &stored, NULL), -RG_PARSE);

    struct rg_answer_parts parts;
    assert_int_equal(
        rg_answer_parts_read(text("<ListPartsResult><Part><PartNumber>3</PartNumber><Size>5</Size>"
                                  "<ETag>\"a\"</ETag></Part><NextPartNumberMarker>3"
                                  "</NextPartNumberMarker><IsTruncated>true</IsTruncated>"
                                  "</ListPartsResult>"),
                             &parts, NULL),
        0);
    assert_int_equal(parts.count, 1);
    assert_int_equal(parts.parts[0].number, 3);
    assert_int_equal(parts.parts[0].size, 5);
    assert_true(parts.truncated);
    assert_int_equal(parts.next, 3);
    rg_answer_parts_free(&parts);
    assert_int_equal(rg_answer_parts_read(text("<ListPartsResult><Part><PartNumber>4294967296</"
                                               "PartNumber></Part></ListPartsResult>"),
                                          &parts, NULL),
                     -RG_PARSE);

    struct rg_answer_uploads uploads;
    assert_int_equal(
        rg_answer_uploads_read(text("<ListMultipartUploadsResult><EncodingType>url</EncodingType>"
                                    "<Upload><Key>a%2Fb</Key><UploadId>u"
                                    "</UploadId></Upload></ListMultipartUploadsResult>"),
                               &uploads, NULL),
        0);
    assert_int_equal(uploads.count, 1);
    assert_string_equal(uploads.uploads[0].key, "a/b");
    rg_answer_uploads_free(&uploads);
    assert_int_equal(
        rg_answer_uploads_read(text("<ListMultipartUploadsResult><Upload><Key>a</Key></Upload>"
                                    "</ListMultipartUploadsResult>"),
                               &uploads, NULL),
        -RG_PARSE);
}

static void test_content_range(void **state)
{
    uint64_t first;
    uint64_t last;
    uint64_t size;
    assert_true(rg_content_range_read(text("bytes 0-9/100"), &first, &last, &size));
    assert_true(first == 0 && last == 9 && size == 100);
    static const char *const bad[] = {
        "",           "bytes 0-9",   "bytes 9-0/100",  "bytes 0-100/100",
        "bytes */5",  "bytes 0-9/*", "items 0-9/100",  "bytes 0-9/100x",
        "bytes -9/9", "bytes 0-/10", "bytes 0 - 9/100"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(rg_content_range_read(text(bad[i]), &first, &last, &size));
    }
}

static void check_plan(uint64_t size, uint64_t part, uint32_t count, uint64_t part_size)
{
    struct rg_plan plan;
    struct rg_failure failure;
    memset(&failure, 0, sizeof failure);
    assert_int_equal(rg_plan_make(size, part, (uint64_t)4 << 30, &plan, &failure), 0);
    assert_int_equal(plan.count, count);
    assert_true(plan.part_size == part_size);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan.count; i++) {
        assert_true(rg_plan_offset(&plan, i) == sum);
        assert_true(rg_plan_length(&plan, i) > 0 || size == 0);
        sum += rg_plan_length(&plan, i);
    }
    assert_true(sum == size);
}

static void test_plan(void **state)
{
    const uint64_t mib = 1 << 20;
    check_plan(0, 5 * mib, 1, 5 * mib);
    check_plan(1, 5 * mib, 1, 5 * mib);
    check_plan(5 * mib, 5 * mib, 1, 5 * mib);
    check_plan(5 * mib + 1, 5 * mib, 2, 5 * mib);
    check_plan(10 * mib, 5 * mib, 2, 5 * mib);
    check_plan(50000 * mib, 5 * mib, 10000, 5 * mib);
    check_plan(50000 * mib + 1, 5 * mib, 8334, 6 * mib); /* parts grow by whole MiB */
    struct rg_plan plan;
    struct rg_failure failure;
    memset(&failure, 0, sizeof failure);
    assert_int_equal(rg_plan_make(UINT64_MAX, 5 * mib, (uint64_t)4 << 30, &plan, &failure),
                     -RG_STATUS_USAGE);
    assert_non_null(strstr(failure.message, "10000 parts"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_objects_not_encoded),
        cmocka_unit_test(test_objects_refused),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_multipart),
        cmocka_unit_test(test_content_range),
        cmocka_unit_test(test_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
