/*
 * A request out of a fuzzer's bytes: lines "METHOD path?query", then "Name: value", as HTTP has
 * them, so that seeds can be read and mutated like requests. And what must hold for any of them.
 */
#ifndef RG_FUZZ_SIGV4_INPUT_H
#define RG_FUZZ_SIGV4_INPUT_H

#include "base/assert.h"
#include "s3/sigv4.h"

#include <stdint.h>

#define INPUT_HEADERS_MAX 32

struct input {
    struct rg_sigv4_request request;
    struct rg_header headers[INPUT_HEADERS_MAX];
};

static inline struct span take_line(struct span *rest)
{
    struct span line = rg_span_cut(rest, '\n');
    return line.len && line.ptr[line.len - 1] == '\r' ? rg_span_head(line, line.len - 1) : line;
}

static inline void read_input(const uint8_t *data, size_t size, struct input *input)
{
    struct span rest = rg_span(data, size);
    struct span target = take_line(&rest);
    *input = (struct input){.request = {.method = rg_span_cut(&target, ' ')}};
    struct span query = target.ptr ? target : RG_SPAN_EMPTY;
    input->request.path = rg_span_cut(&query, '?');
    input->request.query = query.ptr ? query : RG_SPAN_EMPTY;
    input->request.host = (struct span){NULL, 0};
    input->request.headers = input->headers;
    while (rest.ptr && input->request.header_count < INPUT_HEADERS_MAX) {
        struct span value = take_line(&rest);
        struct span name = rg_span_cut(&value, ':');
        input->headers[input->request.header_count++] =
            (struct rg_header){name, value.ptr ? value : RG_SPAN_EMPTY};
    }
}

/* Whatever was parsed is within its bounds, covers what it must, and either verifies or fails with
 * one of the documented codes. Returns the code of the first failure. */
static inline enum rg_code check_input(const struct input *input,
                                       const struct rg_sigv4_rules *rules)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_ANONYMOUS};
    if (rg_sigv4_parse(&input->request, rules, &auth, &err) != 0) {
        RG_ASSERT(err.code != RG_OK && err.code != RG_INTERNAL_ERROR && err.message[0]);
        return err.code;
    }
    if (auth.kind == RG_AUTH_ANONYMOUS) {
        RG_ASSERT(!rg_header_find(input->headers, input->request.header_count, "authorization"));
        return RG_OK;
    }
    RG_ASSERT(rg_sigv4_is_signed(&auth, "host"));
    RG_ASSERT(auth.access_key.len >= 1 && auth.access_key.len <= RG_SIGV4_ACCESS_KEY_MAX);
    RG_ASSERT(rg_span_eq(auth.scope.region, rules->region) && rg_span_is(auth.scope.service, "s3"));
    RG_ASSERT(rg_span_eq(auth.scope.date, rg_span(auth.timestamp, 8)));
    struct rg_sigv4_key key;
    RG_ASSERT(rg_sigv4_key_derive(RG_SPAN_LITERAL("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
                                  auth.scope, &key, &err) == 0);
    if (rg_sigv4_verify(&auth, &input->request, &key, &err) != 0) {
        RG_ASSERT(err.code == RG_SIGNATURE_DOES_NOT_MATCH || err.code == RG_INVALID_REQUEST ||
                  err.code == RG_INVALID_URI);
        return err.code;
    }
    return RG_OK;
}

#endif
