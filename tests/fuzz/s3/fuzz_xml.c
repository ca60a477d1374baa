/*
 * The XML readers: the first byte chooses which. What is accepted obeys the ceilings, and the keys
 * of a Delete, written by our own escaping, are read again as they were.
 */
#include "base/assert.h"
#include "s3/xml.h"

#define PARTS_MAX 50u

static void read_again(const struct rg_xml_delete *request)
{
    RG_BUF(body, 16u << 20);
    rg_buf_add_text(&body, "<Delete>");
    for (size_t i = 0; i < request->count; i++) {
        rg_buf_add_text(&body, "<Object><Key>");
        rg_xml_escape(&body, rg_span_text(request->keys[i].key));
        rg_buf_add_text(&body, "</Key></Object>");
    }
    rg_buf_add_text(&body, "</Delete>");
    struct rg_xml_delete again;
    RG_ASSERT(rg_xml_read_delete(rg_buf_span(&body), &again, NULL) == 0);
    RG_ASSERT(again.count == request->count);
    for (size_t i = 0; i < again.count; i++) {
        RG_ASSERT(strcmp(again.keys[i].key, request->keys[i].key) == 0);
    }
    rg_xml_delete_free(&again);
}

static void fuzz_delete(struct span body)
{
    struct rg_xml_delete request;
    if (rg_xml_read_delete(body, &request, NULL) == 0) {
        RG_ASSERT(request.count >= 1 && request.count <= RG_XML_DELETE_MAX);
        read_again(&request);
        rg_xml_delete_free(&request);
    }
}

static void fuzz_complete(struct span body)
{
    struct rg_xml_complete request;
    if (rg_xml_read_complete(body, PARTS_MAX, &request, NULL) == 0) {
        RG_ASSERT(request.count >= 1 && request.count <= PARTS_MAX);
        for (size_t i = 0; i < request.count; i++) {
            RG_ASSERT(request.parts[i].number >= 1 && request.parts[i].number <= PARTS_MAX);
            RG_ASSERT(request.parts[i].etag[0]);
        }
        rg_xml_complete_free(&request);
    }
}

static void fuzz_tagging(struct span body, enum rg_tag_scope scope)
{
    struct rg_pairs tags;
    if (rg_xml_read_tagging(body, scope, &tags, NULL) == 0) {
        RG_ASSERT(tags.count <= (scope == RG_TAG_BUCKET ? RG_TAG_BUCKET_MAX : RG_TAG_OBJECT_MAX));
        RG_BUF(out, 16u << 20);
        rg_xml_tagging(&out, &tags);
        struct rg_pairs again;
        RG_ASSERT(rg_xml_read_tagging(rg_buf_span(&out), scope, &again, NULL) == 0);
        RG_ASSERT(rg_pairs_equal(&tags, &again));
        rg_pairs_free(&again);
        rg_pairs_free(&tags);
    }
}

static void fuzz_create_bucket(struct span body)
{
    struct rg_xml_create_bucket config;
    if (rg_xml_read_create_bucket(body, &config, NULL) == 0) {
        RG_ASSERT(!config.location || config.location[0]);
        rg_xml_create_bucket_free(&config);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct span body = rg_span(data + 1, size - 1);
    switch (data[0] % 5) {
    case 0:
        fuzz_delete(body);
        break;
    case 1:
        fuzz_complete(body);
        break;
    case 2:
        fuzz_tagging(body, RG_TAG_OBJECT);
        break;
    case 3:
        fuzz_tagging(body, RG_TAG_BUCKET);
        break;
    case 4:
        fuzz_create_bucket(body);
        break;
    }
    return 0;
}
