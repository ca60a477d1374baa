/*
 * The XML of requests: what clients send, and what must be refused.
 */
#include "test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "s3/xml.h"

#include <stdlib.h>

#define NS " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static void create_bucket(void **state)
{
    static const struct {
        const char *body;
        const char *location;
        int rc;
    } rows[] = {
        {"", NULL, 0},
        {" \r\n", NULL, 0},
        {"<CreateBucketConfiguration/>", NULL, 0},
        {"<CreateBucketConfiguration><LocationConstraint/></CreateBucketConfiguration>", NULL, 0},
        {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CreateBucketConfiguration" NS ">\n"
         "  <LocationConstraint> eu-west-1\n</LocationConstraint>\n</CreateBucketConfiguration>",
         "eu-west-1", 0},
        {"<a:CreateBucketConfiguration xmlns:a=\"x\"><a:LocationConstraint>r</a:LocationConstraint>"
         "</a:CreateBucketConfiguration>",
         "r", 0},
        {"<CreateBucketConfiguration><Unknown><LocationConstraint>x</LocationConstraint></Unknown>"
         "</CreateBucketConfiguration>",
         NULL, 0},
        {"<CreateBucketConfiguration><LocationConstraint>a</LocationConstraint>"
         "<LocationConstraint>b</LocationConstraint></CreateBucketConfiguration>",
         NULL, -RG_MALFORMED_XML},
        {"<Other/>", NULL, -RG_MALFORMED_XML},
        {"<a:CreateBucketConfiguration/>", NULL, -RG_MALFORMED_XML}, /* prefix not declared */
        {"<CreateBucketConfiguration>", NULL, -RG_MALFORMED_XML},
        {"<CreateBucketConfiguration/>x", NULL, -RG_MALFORMED_XML},
        {"not xml", NULL, -RG_MALFORMED_XML},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_xml_create_bucket config = {.location = NULL};
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_xml_read_create_bucket(rg_span_text(rows[i].body), &config, &err),
                         rows[i].rc);
        if (rows[i].location) {
            assert_string_equal(config.location, rows[i].location);
        } else {
            assert_null(config.location);
        }
        rg_xml_create_bucket_free(&config);
    }
    struct rg_xml_create_bucket config;
    assert_int_equal(
        rg_xml_read_create_bucket(
            RG_SPAN_LITERAL("<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>1</Value>"
                            "</Tag><Tag><Key>b</Key><Value/></Tag></Tags>"
                            "</CreateBucketConfiguration>"),
            &config, NULL),
        0);
    assert_int_equal(config.tags.count, 2);
    assert_string_equal(rg_pairs_find(&config.tags, RG_SPAN_LITERAL("a")), "1");
    rg_xml_create_bucket_free(&config);
}

static int read_delete(const char *body, struct rg_xml_delete *ret_delete)
{
    struct rg_error err = RG_ERROR_INIT;
    *ret_delete = (struct rg_xml_delete){.keys = NULL};
    return rg_xml_read_delete(rg_span_text(body), ret_delete, &err);
}

static void delete_objects(void **state)
{
    struct rg_xml_delete request;
    assert_int_equal(
        read_delete("<Delete" NS "><Object><Key>a&amp;b &lt;&#x1F600;&#10;</Key></Object>"
                    "<Quiet>true</Quiet>"
                    "<Object><VersionId>null</VersionId><Key> spaced </Key>"
                    "<ETag>\"abc\"</ETag><Size>12</Size>"
                    "<LastModifiedTime>Sun, 06 Nov 1994 08:49:37 GMT</LastModifiedTime></Object>"
                    "<Object><Key><![CDATA[<x>]]></Key>"
                    "<LastModifiedTime>1994-11-06T08:49:37Z</LastModifiedTime></Object></Delete>",
                    &request),
        0);
    assert_true(request.quiet);
    assert_int_equal(request.count, 3);
    assert_string_equal(request.keys[0].key, "a&b <\xf0\x9f\x98\x80\n");
    assert_null(request.keys[0].version_id);
    assert_false(request.keys[0].has_size);
    assert_string_equal(request.keys[1].key, " spaced ");
    assert_string_equal(request.keys[1].version_id, "null");
    assert_string_equal(request.keys[1].etag, "abc");
    assert_int_equal(request.keys[1].size, 12);
    assert_true(request.keys[1].has_modified);
    assert_int_equal(request.keys[1].modified.tv_sec, 784111777);
    assert_string_equal(request.keys[2].key, "<x>");
    assert_int_equal(request.keys[2].modified.tv_sec, 784111777);
    rg_xml_delete_free(&request);
}

static void delete_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "<Delete/>",
        "<Delete><Quiet>true</Quiet></Delete>",
        "<Delete><Object/></Delete>",
        "<Delete><Object><Key/></Object></Delete>",
        "<Delete><Object><VersionId>1</VersionId></Object></Delete>",
        "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
        "<Delete><Object><Key>a<b>c</b>d</Key></Object></Delete>",
        "<Delete><Object><Key>a</Key></Object><Quiet>yes</Quiet></Delete>",
        "<Delete><Object><Key>a</Key></Object><Quiet>true</Quiet><Quiet>true</Quiet></Delete>",
        "<Delete><Object><Key>a</Key><Size>-1</Size></Object></Delete>",
        "<Delete><Object><Key>a</Key><LastModifiedTime>now</LastModifiedTime></Object></Delete>",
        "<Delete><Key>a</Key></Delete>",
        "<!DOCTYPE Delete><Delete><Object><Key>a</Key></Object></Delete>",
        "<!DOCTYPE d [<!ENTITY x \"y\">]><Delete><Object><Key>&x;</Key></Object></Delete>",
        "<!DOCTYPE d SYSTEM \"file:///etc/passwd\"><Delete><Object><Key>a</Key></Object></Delete>",
        "<Delete><Object><Key>&x;</Key></Object></Delete>",
        "<Delete><Object><Key>a\x01</Key></Object></Delete>",
        "<Delete><Object><Key>a&#1;</Key></Object></Delete>",
        "<Delete><Object><Key>\xff</Key></Object></Delete>",
        "<Delete><Object><Key>a</Key></Object>",
        "<Delete><Object><Key>a</Key></Object></Delete><Delete/>",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        struct rg_xml_delete request;
        if (read_delete(bad[i], &request) != -RG_MALFORMED_XML) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_null(request.keys);
    }
}

static void delete_ceilings(void **state)
{
    for (unsigned count = 1000; count <= 1001; count++) {
        RG_BUF(body, 1 << 20);
        rg_buf_add_text(&body, "<Delete>");
        for (unsigned i = 0; i < count; i++) {
            rg_buf_addf(&body, "<Object><Key>k%u</Key></Object>", i);
        }
        rg_buf_add_text(&body, "</Delete>");
        struct rg_xml_delete request;
        assert_int_equal(read_delete(rg_buf_text(&body), &request),
                         count <= RG_XML_DELETE_MAX ? 0 : -RG_MALFORMED_XML);
        rg_xml_delete_free(&request);
    }
    for (unsigned len = 1024; len <= 1025; len++) {
        RG_BUF(body, 1 << 20);
        rg_buf_add_text(&body, "<Delete><Object><Key>");
        for (unsigned i = 0; i < len; i++) {
            rg_buf_add_char(&body, 'k');
        }
        rg_buf_add_text(&body, "</Key></Object></Delete>");
        struct rg_xml_delete request;
        assert_int_equal(read_delete(rg_buf_text(&body), &request),
                         len <= 1024 ? 0 : -RG_KEY_TOO_LONG);
        rg_xml_delete_free(&request);
    }
}

static void shape_ceilings(void **state)
{
    for (unsigned depth = 13; depth <= 18; depth++) {
        RG_BUF(body, 1 << 20);
        rg_buf_add_text(&body, "<Delete><Object><Key>k</Key>");
        for (unsigned i = 0; i < depth; i++) {
            rg_buf_add_text(&body, "<x>");
        }
        for (unsigned i = 0; i < depth; i++) {
            rg_buf_add_text(&body, "</x>");
        }
        rg_buf_add_text(&body, "</Object></Delete>");
        struct rg_xml_delete request;
        assert_int_equal(read_delete(rg_buf_text(&body), &request),
                         depth + 2 <= RG_XML_DEPTH_MAX ? 0 : -RG_MALFORMED_XML);
        rg_xml_delete_free(&request);
    }
    for (unsigned len = 64; len <= 65; len++) {
        char name[66] = {0};
        memset(name, 'n', len);
        RG_BUF(body, 1 << 20);
        rg_buf_addf(&body, "<Delete><%s/><Object><Key>k</Key></Object></Delete>", name);
        struct rg_xml_delete request;
        assert_int_equal(read_delete(rg_buf_text(&body), &request),
                         len <= 64 ? 0 : -RG_MALFORMED_XML);
        rg_xml_delete_free(&request);
    }
    RG_BUF(body, 1 << 20);
    rg_buf_add_text(&body, "<Delete><Object><Key>k</Key><Unknown>");
    for (unsigned i = 0; i <= RG_XML_TEXT_MAX; i++) {
        rg_buf_add_char(&body, 'k');
    }
    rg_buf_add_text(&body, "</Unknown></Object></Delete>");
    struct rg_xml_delete request;
    assert_int_equal(read_delete(rg_buf_text(&body), &request), -RG_MALFORMED_XML);
}

static void complete(void **state)
{
    struct rg_xml_complete request;
    struct rg_error err = RG_ERROR_INIT;
    struct span body = RG_SPAN_LITERAL(
        "<?xml version=\"1.0\"?><CompleteMultipartUpload" NS ">\n"
        "<Part><PartNumber>2</PartNumber><ETag>&quot;abc-1&quot;</ETag></Part>\n"
        "<Part><ETag>def</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32><PartNumber> 1\n</PartNumber>"
        "</Part><Part><PartNumber>10000</PartNumber><ETag>\"x\"</ETag>"
        "<ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME></Part></CompleteMultipartUpload>");
    assert_int_equal(rg_xml_read_complete(body, 10000, &request, &err), 0);
    assert_int_equal(request.count, 3);
    assert_int_equal(request.parts[0].number, 2);
    assert_string_equal(request.parts[0].etag, "abc-1");
    assert_int_equal(request.parts[0].checksum.algorithm, RG_CHECKSUM_NONE);
    assert_int_equal(request.parts[1].number, 1);
    assert_int_equal(request.parts[1].checksum.algorithm, RG_CHECKSUM_CRC32);
    assert_int_equal(request.parts[2].checksum.algorithm, RG_CHECKSUM_CRC64NVME);
    assert_int_equal(request.parts[2].checksum.bytes[0], 0xae);
    rg_xml_complete_free(&request);
}

#define PART(inner) "<CompleteMultipartUpload><Part>" inner "</Part></CompleteMultipartUpload>"

static void complete_refused(void **state)
{
    static const struct {
        const char *body;
        enum rg_code code;
    } rows[] = {
        {"<CompleteMultipartUpload/>", RG_MALFORMED_XML},
        {"", RG_MALFORMED_XML},
        {PART(""), RG_MALFORMED_XML},
        {PART("<ETag>a</ETag>"), RG_MALFORMED_XML},
        {PART("<PartNumber>1</PartNumber>"), RG_MALFORMED_XML},
        {PART("<PartNumber>1</PartNumber><ETag></ETag>"), RG_MALFORMED_XML},
        {PART("<PartNumber>1</PartNumber><ETag>\"\"</ETag>"), RG_MALFORMED_XML},
        {PART("<PartNumber>x</PartNumber><ETag>a</ETag>"), RG_MALFORMED_XML},
        {PART("<PartNumber>0</PartNumber><ETag>a</ETag>"), RG_INVALID_ARGUMENT},
        {PART("<PartNumber>4</PartNumber><ETag>a</ETag>"), RG_INVALID_ARGUMENT},
        {PART("<PartNumber>1</PartNumber><PartNumber>1</PartNumber><ETag>a</ETag>"),
         RG_MALFORMED_XML},
        {PART("<PartNumber>1</PartNumber><ETag>a</ETag><ETag>a</ETag>"), RG_MALFORMED_XML},
        {PART("<PartNumber>1</PartNumber><ETag>a</ETag><ChecksumCRC32>z</ChecksumCRC32>"),
         RG_INVALID_REQUEST},
        {PART("<PartNumber>1</PartNumber><ETag>a</ETag><ChecksumCRC32>y/Q5Jg==-2</ChecksumCRC32>"),
         RG_INVALID_REQUEST},
        {PART("<PartNumber>1</PartNumber><ETag>a</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>"
              "<ChecksumCRC32C>y/Q5Jg==</ChecksumCRC32C>"),
         RG_MALFORMED_XML},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_xml_complete request;
        struct rg_error err = RG_ERROR_INIT;
        int rc = rg_xml_read_complete(rg_span_text(rows[i].body), 3, &request, &err);
        if (rc != -(int)rows[i].code) {
            fail_msg("%s gives %d", rows[i].body, rc);
        }
        assert_int_equal(err.code, rows[i].code);
    }
}

static void complete_ceiling(void **state)
{
    for (unsigned count = 200; count <= 201; count++) {
        RG_BUF(body, 1 << 20);
        rg_buf_add_text(&body, "<CompleteMultipartUpload>");
        for (unsigned i = 1; i <= count; i++) {
            rg_buf_addf(&body, "<Part><PartNumber>%u</PartNumber><ETag>e</ETag></Part>",
                        i < 200 ? i : 200);
        }
        rg_buf_add_text(&body, "</CompleteMultipartUpload>");
        struct rg_xml_complete request = {.parts = NULL};
        assert_int_equal(rg_xml_read_complete(rg_buf_span(&body), 200, &request, NULL),
                         count <= 200 ? 0 : -RG_MALFORMED_XML);
        rg_xml_complete_free(&request);
    }
}

static void tagging(void **state)
{
    static const struct {
        const char *body;
        size_t count;
        int rc;
    } rows[] = {
        {"<Tagging" NS "><TagSet><Tag><Key>a</Key><Value>1</Value></Tag>"
         "<Tag><Value>x y</Value><Key>b</Key></Tag></TagSet></Tagging>",
         2, 0},
        {"<Tagging><TagSet/></Tagging>", 0, 0},
        {"<Tagging><TagSet><Tag><Key>a</Key><Value/></Tag></TagSet></Tagging>", 1, 0},
        {"<Tagging/>", 0, -RG_MALFORMED_XML},
        {"<Tagging><TagSet/><TagSet/></Tagging>", 0, -RG_MALFORMED_XML},
        {"<Tagging><TagSet><Tag/></TagSet></Tagging>", 0, -RG_MALFORMED_XML},
        {"<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", 0, -RG_MALFORMED_XML},
        {"<Tagging><TagSet><Tag><Key>a</Key></Tag><Tag><Key>b</Key><Value/></Tag></TagSet>"
         "</Tagging>",
         0, -RG_MALFORMED_XML},
        {"<Tagging><TagSet><Tag><Key>a</Key><Key>b</Key><Value/></Tag></TagSet></Tagging>", 0,
         -RG_MALFORMED_XML},
        {"<Tagging><Tag><Key>a</Key><Value/></Tag></Tagging>", 0, -RG_MALFORMED_XML},
        {"<Tagging><TagSet><Tag><Key>a</Key><Value/></Tag><Tag><Key>a</Key><Value/></Tag></TagSet>"
         "</Tagging>",
         0, -RG_INVALID_TAG},
        {"<Tagging><TagSet><Tag><Key>aws:a</Key><Value/></Tag></TagSet></Tagging>", 0,
         -RG_INVALID_TAG},
        {"<Tagging><TagSet><Tag><Key/><Value/></Tag></TagSet></Tagging>", 0, -RG_INVALID_TAG},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_pairs tags = RG_PAIRS_INIT;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(
            rg_xml_read_tagging(rg_span_text(rows[i].body), RG_TAG_OBJECT, &tags, &err),
            rows[i].rc);
        assert_int_equal(tags.count, rows[i].count);
        rg_pairs_free(&tags);
    }
}

static void tag_ceilings(void **state)
{
    for (unsigned count = 10; count <= 51; count += count == 11 ? 39 : 1) {
        RG_BUF(body, 1 << 20);
        rg_buf_add_text(&body, "<Tagging><TagSet>");
        for (unsigned i = 0; i < count; i++) {
            rg_buf_addf(&body, "<Tag><Key>k%u</Key><Value/></Tag>", i);
        }
        rg_buf_add_text(&body, "</TagSet></Tagging>");
        struct rg_pairs tags = RG_PAIRS_INIT;
        assert_int_equal(rg_xml_read_tagging(rg_buf_span(&body), RG_TAG_OBJECT, &tags, NULL),
                         count <= 10 ? 0 : -RG_INVALID_TAG);
        rg_pairs_free(&tags);
        assert_int_equal(rg_xml_read_tagging(rg_buf_span(&body), RG_TAG_BUCKET, &tags, NULL),
                         count <= 50 ? 0 : -RG_INVALID_TAG);
        rg_pairs_free(&tags);
    }
}

/* UTF-16 is XML too, and what our own writer escapes comes back. */
static void encodings(void **state)
{
    static const char text[] = "<Delete><Object><Key>k</Key></Object></Delete>";
    char wide[2 * sizeof(text)];
    size_t len = 0;
    wide[len++] = (char)0xff;
    wide[len++] = (char)0xfe;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        wide[len++] = text[i];
        wide[len++] = 0;
    }
    struct rg_xml_delete request;
    assert_int_equal(rg_xml_read_delete(rg_span(wide, len), &request, NULL), 0);
    assert_string_equal(request.keys[0].key, "k");
    rg_xml_delete_free(&request);

    static const char *const keys[] = {
        "a&b<c>d\"e'f", "tab\tnewline\ncr\r", "\xc3\xa4\xf0\x9f\x98\x80", "]]>", "&amp;",
        " x ",          "\xc2\x80\xc2\x9f"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(keys); i++) {
        RG_BUF(body, 10000);
        rg_buf_add_text(&body, "<Delete><Object><Key>");
        rg_xml_escape(&body, rg_span_text(keys[i]));
        rg_buf_add_text(&body, "</Key></Object></Delete>");
        assert_int_equal(rg_xml_read_delete(rg_buf_span(&body), &request, NULL), 0);
        assert_string_equal(request.keys[0].key, keys[i]);
        rg_xml_delete_free(&request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_bucket),    cmocka_unit_test(delete_objects),
        cmocka_unit_test(delete_refused),   cmocka_unit_test(delete_ceilings),
        cmocka_unit_test(shape_ceilings),   cmocka_unit_test(complete),
        cmocka_unit_test(complete_refused), cmocka_unit_test(complete_ceiling),
        cmocka_unit_test(tagging),          cmocka_unit_test(tag_ceilings),
        cmocka_unit_test(encodings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
