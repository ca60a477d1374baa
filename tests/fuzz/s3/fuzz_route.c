/*
 * Addressing and routing: four fields separated by line feeds: method, host, path, query.
 * Conditions and ETag lists share the input.
 */
#include "base/assert.h"
#include "s3/conditions.h"
#include "s3/route.h"

static void fuzz_conditions(struct span first, struct span second)
{
    const struct rg_header headers[] = {
        {RG_SPAN_LITERAL("If-Match"), first},
        {RG_SPAN_LITERAL("If-None-Match"), second},
        {RG_SPAN_LITERAL("If-Modified-Since"), first},
        {RG_SPAN_LITERAL("If-Unmodified-Since"), second},
    };
    struct rg_conditions c;
    rg_conditions_read(headers, 4, RG_CONDITIONS_REQUEST, 1000000000, &c);
    int rc = rg_conditions_check_read(&c, RG_SPAN_LITERAL("etag"), 999999999, NULL);
    RG_ASSERT(rc == 0 || rc == -RG_NOT_MODIFIED || rc == -RG_PRECONDITION_FAILED);
    rc = rg_conditions_check_write(&c, true, RG_SPAN_LITERAL("etag"), NULL);
    RG_ASSERT(rc == 0 || rc == -RG_PRECONDITION_FAILED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = rg_span(data, size);
    struct span method = rg_span_cut(&rest, '\n');
    struct span host = rg_span_cut(&rest, '\n');
    struct span path = rg_span_cut(&rest, '\n');
    fuzz_conditions(method, path);

    struct rg_address address;
    if (rg_address_parse(host, RG_SPAN_LITERAL("s3.test"), path, &address, NULL) != 0) {
        return 0;
    }
    RG_ASSERT((address.level >= RG_LEVEL_BUCKET) == (address.bucket.len != 0));
    RG_ASSERT((address.level == RG_LEVEL_OBJECT) == (address.key.len != 0));
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    if (rg_query_parse(rest.ptr ? rest : RG_SPAN_EMPTY, &query, NULL) != 0) {
        return 0;
    }
    enum rg_operation operation;
    int rc = rg_route(method, &address, &query, size & 1, &operation, NULL);
    RG_ASSERT((rc == 0) == (operation != RG_OP_UNKNOWN));
    if (rc == 0) {
        const struct rg_operation_info *info = rg_operation_info(operation);
        RG_ASSERT(info->level == address.level && rg_span_is(method, info->method));
        RG_ASSERT(!info->subresource[0] || rg_query_find(&query, info->subresource));
    }
    return 0;
}
