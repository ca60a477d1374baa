/*
 * Presigned URLs. The input is the query string alone; besides what sigv4_input.h checks, our own
 * presigner must accept or refuse what the input leaves room for, and what it signs must verify.
 */
#include "sigv4_input.h"

static const struct rg_sigv4_rules rules = {
    .region = RG_SPAN_LITERAL("us-east-1"), .now_s = 1369353600, .clock_skew_ms = 900000};

static const struct rg_header host = {RG_SPAN_LITERAL("Host"),
                                      RG_SPAN_LITERAL("examplebucket.s3.amazonaws.com")};

static void check_presigner(struct span query)
{
    const struct rg_sigv4_signer signer = {
        .access_key = RG_SPAN_LITERAL("AKIAIOSFODNN7EXAMPLE"),
        .secret = RG_SPAN_LITERAL("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        .region = RG_SPAN_LITERAL("us-east-1"),
        .service = RG_SPAN_LITERAL("s3"),
    };
    struct input input = {.headers = {host}};
    input.request = (struct rg_sigv4_request){.method = RG_SPAN_LITERAL("GET"),
                                              .path = RG_SPAN_LITERAL("/test.txt"),
                                              .query = query,
                                              .headers = input.headers,
                                              .header_count = 1,
                                              .host = {NULL, 0}};
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(presigned, 2 * RG_QUERY_BYTES_MAX);
    if (rg_sigv4_presign(&signer, &input.request, rules.now_s, 60, &presigned, &err) != 0) {
        return;
    }
    input.request.query = rg_buf_span(&presigned);
    enum rg_code code = check_input(&input, &rules);
    /* The input may carry what no presigned request may, or fill the query to its ceiling. */
    RG_ASSERT(code == RG_OK || code == RG_NOT_IMPLEMENTED || code == RG_INVALID_ARGUMENT ||
              code == RG_AUTHORIZATION_QUERY_PARAMETERS || code == RG_INVALID_URI);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.headers = {host}};
    input.request = (struct rg_sigv4_request){.method = RG_SPAN_LITERAL("GET"),
                                              .path = RG_SPAN_LITERAL("/test.txt"),
                                              .query = rg_span(data, size),
                                              .headers = input.headers,
                                              .header_count = 1,
                                              .host = {NULL, 0}};
    check_input(&input, &rules);
    check_presigner(rg_span(data, size));
    return 0;
}
