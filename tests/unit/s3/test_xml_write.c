/*
 * The XML of answers, compared as text.
 */
#include "test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "s3/xml.h"

#include <stdlib.h>

#define NS    " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""
#define OWNER "<ID>id</ID><DisplayName>name</DisplayName>"
#define TIME  "2026-11-29T16:40:01.123Z"
#define ABSENT                                                                                     \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

static const struct rg_xml_owner owner = {"id", "name"};
static const struct timespec when = {1795970401, 123456789};

static void expect(struct rg_buf *out, const char *expected)
{
    assert_true(rg_buf_ok(out));
    struct span body = rg_xml_without_declaration(rg_buf_span(out));
    assert_int_equal(out->len - body.len, strlen(RG_XML_DECLARATION));
    assert_string_equal(body.ptr, expected);
    rg_buf_clear(out);
}

static void escapes(void **state)
{
    static const struct {
        const char *text;
        const char *escaped;
    } rows[] = {
        {"plain text", "plain text"},
        {"&<>\"'", "&amp;&lt;&gt;&quot;&#39;"},
        {"\x01\t\n\r\x1f\x7f", "&#x1;&#x9;&#xA;&#xD;&#x1F;&#x7F;"},
        {"\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80", "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80"},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xc3", "\xef\xbf\xbd"},
        {"\xe4\xb8", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
        {"\xc0\xaf<", "\xef\xbf\xbd\xef\xbf\xbd&lt;"},            /* overlong */
        {"", ""},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        RG_BUF(out, 1000);
        rg_xml_escape(&out, rg_span_text(rows[i].text));
        assert_string_equal(rg_buf_text(&out), rows[i].escaped);
    }
}

static void error(void **state)
{
    RG_BUF(out, 10000);
    const struct rg_xml_error_extra extra[] = {{"Region", RG_SPAN_LITERAL("eu")},
                                               {"BucketName", RG_SPAN_LITERAL("<b>")}};
    const struct rg_xml_error e = {
        .code = "NoSuchKey",
        .message = "It's gone.",
        .resource = RG_SPAN_LITERAL("/b/k&"),
        .request_id = "R",
        .host_id = "H",
        .extra = extra,
        .extra_count = 2,
    };
    rg_xml_error(&out, &e);
    expect(&out, "<Error><Code>NoSuchKey</Code><Message>It&#39;s gone.</Message>"
                 "<Resource>/b/k&amp;</Resource><Region>eu</Region>"
                 "<BucketName>&lt;b&gt;</BucketName>"
                 "<RequestId>R</RequestId><HostId>H</HostId></Error>");
    const struct rg_xml_error bare = {.code = "C", .message = "M", .request_id = "R"};
    rg_xml_error(&out, &bare);
    expect(&out, "<Error><Code>C</Code><Message>M</Message><RequestId>R</RequestId>"
                 "<HostId></HostId></Error>");
}

static void buckets(void **state)
{
    RG_BUF(out, 10000);
    const struct rg_xml_bucket list[] = {{RG_SPAN_LITERAL("a"), when},
                                         {RG_SPAN_LITERAL("b"), when}};
    const struct rg_xml_buckets two = {.owner = owner, .buckets = list, .count = 2};
    rg_xml_list_buckets(&out, &two);
    expect(&out, "<ListAllMyBucketsResult" NS "><Owner>" OWNER "</Owner><Buckets>"
                 "<Bucket><Name>a</Name><CreationDate>" TIME "</CreationDate></Bucket>"
                 "<Bucket><Name>b</Name><CreationDate>" TIME "</CreationDate></Bucket>"
                 "</Buckets></ListAllMyBucketsResult>");
    const struct rg_xml_buckets none = {
        .owner = owner, .prefix = RG_SPAN_LITERAL("p"), .next_token = RG_SPAN_LITERAL("t")};
    rg_xml_list_buckets(&out, &none);
    expect(&out, "<ListAllMyBucketsResult" NS "><Owner>" OWNER "</Owner><Buckets></Buckets>"
                 "<Prefix>p</Prefix><ContinuationToken>t</ContinuationToken>"
                 "</ListAllMyBucketsResult>");
}

static const struct rg_xml_entry entries[] = {
    {.key = RG_SPAN_LITERAL("d/"), .is_prefix = true},
    {.key = RG_SPAN_LITERAL("k 1&"),
     .size = 5,
     .modified = {1795970401, 123456789},
     .etag = RG_SPAN_LITERAL("e"),
     .checksum_algorithm = RG_CHECKSUM_CRC64NVME,
     .checksum_type = RG_CHECKSUM_FULL_OBJECT},
};

static void list_v1(void **state)
{
    RG_BUF(out, 10000);
    struct rg_xml_listing list = {
        .bucket = RG_SPAN_LITERAL("b"),
        .prefix = ABSENT,
        .delimiter = RG_SPAN_LITERAL("/"),
        .max_keys = 2,
        .truncated = true,
        .entries = entries,
        .count = 2,
        .owner = &owner,
        .next_marker = RG_SPAN_LITERAL("k 1&"),
    };
    rg_xml_list_objects(&out, &list);
    expect(&out,
           "<ListBucketResult" NS "><Name>b</Name><Prefix></Prefix><MaxKeys>2</MaxKeys>"
           "<Delimiter>/</Delimiter><IsTruncated>true</IsTruncated><Marker></Marker>"
           "<NextMarker>k 1&amp;</NextMarker><Contents><Key>k 1&amp;</Key><LastModified>" TIME
           "</LastModified><ETag>&quot;e&quot;</ETag><ChecksumAlgorithm>CRC64NVME"
           "</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><Size>5</Size><Owner>" OWNER
           "</Owner><StorageClass>STANDARD</StorageClass></Contents>"
           "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListBucketResult>");
}

static void list_v2(void **state)
{
    RG_BUF(out, 10000);
    struct rg_xml_listing list = {
        .bucket = RG_SPAN_LITERAL("b"),
        .prefix = RG_SPAN_LITERAL("p+"),
        .url_encode = true,
        .max_keys = 1000,
        .entries = entries,
        .count = 2,
        .start_after = RG_SPAN_LITERAL("s&"),
        .token = RG_SPAN_LITERAL("t&"),
        .next_token = RG_SPAN_LITERAL("n"),
    };
    rg_xml_list_objects_v2(&out, &list);
    expect(&out,
           "<ListBucketResult" NS "><Name>b</Name><Prefix>p%2B</Prefix><MaxKeys>1000</MaxKeys>"
           "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated><KeyCount>2</KeyCount>"
           "<StartAfter>s%26</StartAfter><ContinuationToken>t&amp;</ContinuationToken>"
           "<NextContinuationToken>n</NextContinuationToken>"
           "<Contents><Key>k%201%26</Key><LastModified>" TIME
           "</LastModified><ETag>&quot;e&quot;</ETag><ChecksumAlgorithm>CRC64NVME"
           "</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><Size>5</Size>"
           "<StorageClass>STANDARD</StorageClass></Contents>"
           "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListBucketResult>");
    const struct rg_xml_listing empty = {.bucket = RG_SPAN_LITERAL("b")};
    rg_xml_list_objects_v2(&out, &empty);
    expect(&out, "<ListBucketResult" NS "><Name>b</Name><Prefix></Prefix><MaxKeys>0</MaxKeys>"
                 "<IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>");
}

static void versions(void **state)
{
    RG_BUF(out, 10000);
    struct rg_xml_listing list = {
        .bucket = RG_SPAN_LITERAL("b"),
        .max_keys = 1,
        .truncated = true,
        .entries = entries + 1,
        .count = 1,
        .owner = &owner,
        .next_marker = RG_SPAN_LITERAL("k"),
    };
    rg_xml_list_versions(&out, &list);
    expect(&out,
           "<ListVersionsResult" NS "><Name>b</Name><Prefix></Prefix><MaxKeys>1</MaxKeys>"
           "<IsTruncated>true</IsTruncated><KeyMarker></KeyMarker>"
           "<VersionIdMarker></VersionIdMarker><NextKeyMarker>k</NextKeyMarker>"
           "<NextVersionIdMarker>null</NextVersionIdMarker><Version><Key>k 1&amp;</Key>"
           "<VersionId>null</VersionId><IsLatest>true</IsLatest><LastModified>" TIME
           "</LastModified><ETag>&quot;e&quot;</ETag><ChecksumAlgorithm>CRC64NVME"
           "</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><Size>5</Size><Owner>" OWNER
           "</Owner><StorageClass>STANDARD</StorageClass></Version></ListVersionsResult>");
}

static void uploads(void **state)
{
    RG_BUF(out, 10000);
    const struct rg_xml_upload list[] = {
        {.key = RG_SPAN_LITERAL("p/"), .is_prefix = true},
        {.key = RG_SPAN_LITERAL("k"),
         .id = RG_SPAN_LITERAL("u"),
         .initiated = when,
         .checksum_algorithm = RG_CHECKSUM_SHA256,
         .checksum_type = RG_CHECKSUM_COMPOSITE},
    };
    const struct rg_xml_uploads page = {
        .bucket = RG_SPAN_LITERAL("b"),
        .delimiter = RG_SPAN_LITERAL("/"),
        .next_key_marker = RG_SPAN_LITERAL("k"),
        .next_upload_id_marker = RG_SPAN_LITERAL("u"),
        .max_uploads = 2,
        .truncated = true,
        .owner = owner,
        .uploads = list,
        .count = 2,
    };
    rg_xml_list_uploads(&out, &page);
    expect(&out,
           "<ListMultipartUploadsResult" NS "><Bucket>b</Bucket><KeyMarker></KeyMarker>"
           "<UploadIdMarker></UploadIdMarker><NextKeyMarker>k</NextKeyMarker>"
           "<NextUploadIdMarker>u</NextUploadIdMarker><Prefix></Prefix><Delimiter>/</Delimiter>"
           "<MaxUploads>2</MaxUploads><IsTruncated>true</IsTruncated><Upload><Key>k</Key>"
           "<UploadId>u</UploadId><Initiator>" OWNER "</Initiator><Owner>" OWNER
           "</Owner><StorageClass>STANDARD</StorageClass><Initiated>" TIME
           "</Initiated><ChecksumAlgorithm>SHA256</ChecksumAlgorithm>"
           "<ChecksumType>COMPOSITE</ChecksumType></Upload>"
           "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListMultipartUploadsResult>");
}

static struct rg_checksum crc32_of_digits(void)
{
    struct rg_checksum checksum;
    assert_int_equal(
        rg_checksum_parse(RG_CHECKSUM_CRC32, RG_SPAN_LITERAL("y/Q5Jg=="), &checksum, NULL), 0);
    return checksum;
}

static void parts(void **state)
{
    RG_BUF(out, 10000);
    const struct rg_xml_part list[] = {
        {3, 7, when, RG_SPAN_LITERAL("e"), crc32_of_digits()},
    };
    const struct rg_xml_parts page = {
        .bucket = RG_SPAN_LITERAL("b"),
        .key = RG_SPAN_LITERAL("k<"),
        .upload_id = RG_SPAN_LITERAL("u"),
        .owner = owner,
        .marker = 2,
        .next_marker = 3,
        .max_parts = 1,
        .truncated = false,
        .checksum_algorithm = RG_CHECKSUM_CRC32,
        .checksum_type = RG_CHECKSUM_COMPOSITE,
        .parts = list,
        .count = 1,
    };
    rg_xml_list_parts(&out, &page);
    expect(
        &out,
        "<ListPartsResult" NS "><Bucket>b</Bucket><Key>k&lt;</Key><UploadId>u</UploadId>"
        "<Initiator>" OWNER "</Initiator><Owner>" OWNER
        "</Owner><StorageClass>STANDARD</StorageClass><PartNumberMarker>2</PartNumberMarker>"
        "<NextPartNumberMarker>3</NextPartNumberMarker><MaxParts>1</MaxParts>"
        "<IsTruncated>false</IsTruncated><ChecksumAlgorithm>CRC32</ChecksumAlgorithm>"
        "<ChecksumType>COMPOSITE</ChecksumType><Part><PartNumber>3</PartNumber><LastModified>" TIME
        "</LastModified><ETag>&quot;e&quot;</ETag><Size>7</Size>"
        "<ChecksumCRC32>y/Q5Jg==</ChecksumCRC32></Part></ListPartsResult>");
}

static void multipart(void **state)
{
    RG_BUF(out, 10000);
    rg_xml_initiate_upload(&out, RG_SPAN_LITERAL("b"), RG_SPAN_LITERAL("k"), RG_SPAN_LITERAL("u"));
    expect(&out, "<InitiateMultipartUploadResult" NS "><Bucket>b</Bucket><Key>k</Key>"
                 "<UploadId>u</UploadId></InitiateMultipartUploadResult>");
    struct rg_checksum checksum = crc32_of_digits();
    checksum.type = RG_CHECKSUM_COMPOSITE;
    checksum.parts = 2;
    rg_xml_complete_upload(&out, RG_SPAN_LITERAL("http://h/b/k"), RG_SPAN_LITERAL("b"),
                           RG_SPAN_LITERAL("k"), RG_SPAN_LITERAL("e-2"), &checksum);
    expect(&out, "<CompleteMultipartUploadResult" NS "><Location>http://h/b/k</Location>"
                 "<Bucket>b</Bucket><Key>k</Key><ETag>&quot;e-2&quot;</ETag>"
                 "<ChecksumCRC32>y/Q5Jg==-2</ChecksumCRC32><ChecksumType>COMPOSITE</ChecksumType>"
                 "</CompleteMultipartUploadResult>");
}

static void copies(void **state)
{
    RG_BUF(out, 10000);
    const struct rg_checksum checksum = crc32_of_digits();
    rg_xml_copy_object(&out, RG_SPAN_LITERAL("e"), when, NULL);
    expect(&out, "<CopyObjectResult" NS "><LastModified>" TIME
                 "</LastModified><ETag>&quot;e&quot;</ETag></CopyObjectResult>");
    rg_xml_copy_object(&out, RG_SPAN_LITERAL("e"), when, &checksum);
    expect(&out, "<CopyObjectResult" NS "><LastModified>" TIME
                 "</LastModified><ETag>&quot;e&quot;</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>"
                 "<ChecksumType>FULL_OBJECT</ChecksumType></CopyObjectResult>");
    rg_xml_copy_part(&out, RG_SPAN_LITERAL("e"), when, &checksum);
    expect(&out, "<CopyPartResult" NS "><LastModified>" TIME
                 "</LastModified><ETag>&quot;e&quot;</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>"
                 "</CopyPartResult>");
}

static void deletions(void **state)
{
    RG_BUF(out, 10000);
    const struct rg_xml_deleted keys[] = {
        {.key = RG_SPAN_LITERAL("a"), .version_id = RG_SPAN_LITERAL("null")},
        {.key = RG_SPAN_LITERAL("b"), .failure = RG_ACCESS_DENIED},
        {.key = RG_SPAN_LITERAL("c"), .failure = RG_STORAGE_FAULT, .message = "why"},
    };
    rg_xml_delete_result(&out, keys, 3, false);
    expect(&out, "<DeleteResult" NS "><Deleted><Key>a</Key><VersionId>null</VersionId></Deleted>"
                 "<Error><Key>b</Key><Code>AccessDenied</Code><Message>Access Denied.</Message>"
                 "</Error><Error><Key>c</Key><Code>InternalError</Code><Message>why</Message>"
                 "</Error></DeleteResult>");
    rg_xml_delete_result(&out, keys, 1, true);
    expect(&out, "<DeleteResult" NS "></DeleteResult>");
}

static void small_documents(void **state)
{
    RG_BUF(out, 10000);
    rg_xml_location(&out, RG_SPAN_LITERAL("us-east-1"));
    expect(&out, "<LocationConstraint" NS "/>");
    rg_xml_location(&out, RG_SPAN_LITERAL("eu-west-1"));
    expect(&out, "<LocationConstraint" NS ">eu-west-1</LocationConstraint>");
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    rg_xml_tagging(&out, &tags);
    expect(&out, "<Tagging" NS "><TagSet></TagSet></Tagging>");
    assert_int_equal(rg_pairs_add(&tags, RG_SPAN_LITERAL("k"), RG_SPAN_LITERAL("v&"), NULL), 0);
    rg_xml_tagging(&out, &tags);
    expect(&out, "<Tagging" NS "><TagSet><Tag><Key>k</Key><Value>v&amp;</Value></Tag></TagSet>"
                 "</Tagging>");
}

static void attributes(void **state)
{
    RG_BUF(out, 10000);
    struct rg_xml_attributes a = {.want_size = true, .size = 9};
    rg_xml_object_attributes(&out, &a);
    expect(&out, "<GetObjectAttributesResponse" NS "><ObjectSize>9</ObjectSize>"
                 "</GetObjectAttributesResponse>");
    const struct rg_xml_part list[] = {{.number = 1, .size = 9, .checksum = crc32_of_digits()}};
    a = (struct rg_xml_attributes){
        .want_etag = true,
        .want_checksum = true,
        .want_parts = true,
        .want_storage_class = true,
        .want_size = true,
        .etag = RG_SPAN_LITERAL("e-1"),
        .checksum = crc32_of_digits(),
        .size = 9,
        .part_total = 1,
        .next_part_marker = 1,
        .max_parts = 1000,
        .parts = list,
        .part_count = 1,
    };
    a.checksum.type = RG_CHECKSUM_COMPOSITE;
    a.checksum.parts = 1;
    rg_xml_object_attributes(&out, &a);
    expect(&out, "<GetObjectAttributesResponse" NS "><ETag>e-1</ETag><Checksum>"
                 "<ChecksumCRC32>y/Q5Jg==</ChecksumCRC32><ChecksumType>COMPOSITE</ChecksumType>"
                 "</Checksum><ObjectParts><PartsCount>1</PartsCount>"
                 "<PartNumberMarker>0</PartNumberMarker>"
                 "<NextPartNumberMarker>1</NextPartNumberMarker><MaxParts>1000</MaxParts>"
                 "<IsTruncated>false</IsTruncated><Part><PartNumber>1</PartNumber><Size>9</Size>"
                 "<ChecksumCRC32>y/Q5Jg==</ChecksumCRC32></Part></ObjectParts>"
                 "<StorageClass>STANDARD</StorageClass><ObjectSize>9</ObjectSize>"
                 "</GetObjectAttributesResponse>");
}

/* Every operation that the table answers with a fixed document has one, with a root and an end. */
static void defaults(void **state)
{
    unsigned count = 0;
    for (int i = 1; i < RG_OPERATION_COUNT; i++) {
        if (rg_operation_info((enum rg_operation)i)->answer != RG_ANSWER_DEFAULT) {
            continue;
        }
        RG_BUF(out, 10000);
        rg_xml_default(&out, (enum rg_operation)i, &owner);
        assert_true(rg_buf_ok(&out));
        struct span body = rg_xml_without_declaration(rg_buf_span(&out));
        assert_true(body.len > 0 && body.len < out.len);
        assert_true(rg_span_ends(body, RG_SPAN_LITERAL(">")));
        count++;
    }
    assert_int_equal(count, 8);
    RG_BUF(out, 10000);
    rg_xml_default(&out, RG_OP_GET_BUCKET_VERSIONING, &owner);
    expect(&out, "<VersioningConfiguration" NS "/>");
    rg_xml_default(&out, RG_OP_GET_OBJECT_ACL, &owner);
    expect(&out, "<AccessControlPolicy" NS "><Owner>" OWNER "</Owner><AccessControlList><Grant>"
                 "<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                 "xsi:type=\"CanonicalUser\">" OWNER "</Grantee><Permission>FULL_CONTROL"
                 "</Permission></Grant></AccessControlList></AccessControlPolicy>");
}

/* A buffer that is too small says so, and nothing is written past it. */
static void full_buffer(void **state)
{
    for (size_t room = 0; room < 300; room++) {
        RG_BUF(out, room);
        const struct rg_xml_bucket list[] = {{RG_SPAN_LITERAL("a&b"), when}};
        const struct rg_xml_buckets page = {.owner = owner, .buckets = list, .count = 1};
        rg_xml_list_buckets(&out, &page);
        assert_false(rg_buf_ok(&out));
        assert_true(out.len <= room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes),     cmocka_unit_test(error),
        cmocka_unit_test(buckets),     cmocka_unit_test(list_v1),
        cmocka_unit_test(list_v2),     cmocka_unit_test(versions),
        cmocka_unit_test(uploads),     cmocka_unit_test(parts),
        cmocka_unit_test(multipart),   cmocka_unit_test(copies),
        cmocka_unit_test(deletions),   cmocka_unit_test(small_documents),
        cmocka_unit_test(attributes),  cmocka_unit_test(defaults),
        cmocka_unit_test(full_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
