/*
 * What verbs read out of a request's fields: metadata, tags, checksums, the source of a copy. The
 * input is a head's lines, "name: value". What was accepted must keep the promises that the store
 * relies on.
 */
#include "base/assert.h"
#include "gate/body.h"
#include "gate/call.h"
#include "gate/object.h"
#include "s3/names.h"

#include <stdint.h>

#define FIELDS_MAX 64

static size_t split(struct span text, struct rg_header *headers)
{
    size_t count = 0;
    while (text.ptr && count < FIELDS_MAX) {
        struct span line = rg_span_cut(&text, '\n');
        struct span name = rg_span_cut(&line, ':');
        if (name.len && line.ptr) {
            headers[count++] = (struct rg_header){name, line};
        }
    }
    return count;
}

static void read_meta(struct rg_call *call)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_object_read_meta(call, &meta, &err) == 0) {
        RG_ASSERT(meta.user.bytes <= RG_METADATA_BYTES_MAX && !meta.header[RG_META_STORAGE_CLASS]);
    } else {
        RG_ASSERT(err.code != RG_OK && err.message[0]);
    }
    if (rg_object_read_tags(call, &meta, &err) == 0) {
        RG_ASSERT(meta.tags.count <= RG_TAG_OBJECT_MAX);
    }
}

static void read_source(struct rg_call *call)
{
    RG_CLEANUP(rg_copy_source_free) struct rg_copy_source source = {.text = {0}};
    struct rg_error err = RG_ERROR_INIT;
    if (rg_copy_source_read(call, &source, &err) == 0) {
        RG_ASSERT(rg_bucket_name_check(source.bucket, NULL) == 0);
        RG_ASSERT(rg_key_check(source.key, NULL) == 0);
        RG_ASSERT(!rg_span_has_nul(source.key));
    }
}

static void read_checksums(struct rg_call *call)
{
    struct rg_checksum checksum;
    enum rg_checksum_algorithm algorithm;
    if (rg_body_stated_checksum(call, &checksum, NULL) == 0) {
        RG_ASSERT(checksum.algorithm < RG_CHECKSUM_ALGORITHM_COUNT);
    }
    if (rg_object_read_algorithm(call, &algorithm, NULL) == 0) {
        RG_ASSERT(algorithm < RG_CHECKSUM_ALGORITHM_COUNT);
    }
    rg_body_is_protected(call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_header headers[FIELDS_MAX];
    struct rg_call call = {.headers = headers};
    call.header_count = split(rg_span(data, size), headers);
    read_meta(&call);
    read_source(&call);
    read_checksums(&call);
    for (size_t i = 0; i < call.detail_count; i++) {
        free(call.detail_texts[i]);
    }
    return 0;
}
