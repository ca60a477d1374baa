/*
 * What the signature of a presigned GET costs a server: its query parsed, its claims read, and the
 * signature computed with a key that is at hand. Prints microseconds of processor time a request.
 *
 * It only measures: what must be accepted and refused is tested in tests/unit/s3.
 */
#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "s3/sigv4.h"

#include <stdio.h>
#include <time.h>

#define ROUNDS   7u
#define REQUESTS 20000u

static const struct rg_header headers[] = {
    {RG_SPAN_LITERAL("host"), RG_SPAN_LITERAL("127.0.0.1:65535")},
};

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static bool verify(const struct rg_sigv4_request *request, const struct rg_sigv4_rules *rules,
                   const struct rg_sigv4_key *key, struct rg_error *err)
{
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_ANONYMOUS};
    return rg_sigv4_parse(request, rules, &auth, err) == 0 &&
           rg_sigv4_verify(&auth, request, key, err) == 0;
}

int main(void)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_sigv4_signer signer = {
        .access_key = RG_SPAN_LITERAL("benchaccess"),
        .secret = RG_SPAN_LITERAL("benchsecret0123"),
        .region = RG_SPAN_LITERAL("us-east-1"),
        .service = RG_SPAN_LITERAL("s3"),
    };
    struct rg_sigv4_rules rules = {
        .region = signer.region,
        .now_s = rg_clock_wall().tv_sec,
        .clock_skew_ms = 900000,
    };
    struct rg_sigv4_request request = {
        .method = RG_SPAN_LITERAL("GET"),
        .path = RG_SPAN_LITERAL("/bench/data-4096-0"),
        .query = RG_SPAN_EMPTY,
        .headers = headers,
        .header_count = RG_ARRAY_LENGTH(headers),
    };
    RG_BUF(query, 16384);
    struct rg_sigv4_key key;
    if (rg_sigv4_presign(&signer, &request, rules.now_s, 86400, &query, &err) < 0) {
        fprintf(stderr, "cannot sign: %s\n", err.message);
        return 1;
    }
    request.query = rg_buf_span(&query);
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_ANONYMOUS};
    if (rg_sigv4_parse(&request, &rules, &auth, &err) < 0 ||
        rg_sigv4_key_derive(signer.secret, auth.scope, &key, &err) < 0) {
        fprintf(stderr, "cannot read the signature: %s\n", err.message);
        return 1;
    }
    double least_us = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        double start_us = cpu_us();
        for (unsigned i = 0; i < REQUESTS; i++) {
            if (!verify(&request, &rules, &key, &err)) {
                fprintf(stderr, "not verified: %s\n", err.message);
                return 1;
            }
        }
        double took_us = (cpu_us() - start_us) / REQUESTS;
        least_us = round == 0 || took_us < least_us ? took_us : least_us;
    }
    printf("%.3f\n", least_us);
    return 0;
}
