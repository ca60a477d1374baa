/*
 * Metadata records as an xattr may hold them. What is read can be written, the written form is read
 * to an equal record, and writing that again gives the same bytes.
 */
#include "base/assert.h"
#include "s3/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    if (rg_record_decode(rg_span(data, size), &record, NULL) != 0) {
        return 0;
    }
    RG_BUF(bytes, RG_RECORD_BYTES_MAX);
    RG_BUF(again, RG_RECORD_BYTES_MAX);
    RG_CLEANUP(rg_record_free) struct rg_record second = RG_RECORD_INIT;
    RG_ASSERT(rg_record_encode(&record, &bytes, NULL) == 0);
    RG_ASSERT(rg_record_decode(rg_buf_span(&bytes), &second, NULL) == 0);
    RG_ASSERT(rg_record_equal(&record, &second));
    RG_ASSERT(rg_record_encode(&second, &again, NULL) == 0);
    RG_ASSERT(rg_span_eq(rg_buf_span(&bytes), rg_buf_span(&again)));

    RG_CLEANUP(rg_meta_free) struct rg_meta copy = RG_META_INIT;
    RG_ASSERT(rg_meta_copy(&record.meta, &copy, NULL) == 0);
    RG_ASSERT(rg_meta_equal(&record.meta, &copy));
    return 0;
}
