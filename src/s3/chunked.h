/*
 * The decoder of Content-Encoding: aws-chunked (x-amz-content-sha256: STREAMING-...). It is fed the
 * body as it arrives, in pieces of any size, and gives back the object's bytes as spans into what
 * was fed: it copies nothing and keeps no more than one line and the trailers.
 *
 *   for each piece of the body that arrives:
 *       while (piece.len) {
 *           rg_chunked_feed(decoder, piece, &used, &data, err)      fails: stop, discard
 *           piece = rg_span_skip(piece, used);
 *           take `data` (may be empty)
 *       }
 *   rg_chunked_finish(decoder, err)                                fails: discard
 *   rg_chunked_trailers(decoder, &count)
 *
 * A chunk's signature covers its data, so it can be checked only after the data was handed out, and
 * the trailer comes last of all: **whoever takes the data must commit nothing before
 * rg_chunked_finish has succeeded.**
 *
 * HTTP's own chunked transfer coding is another layer, taken off before this one.
 *
 * Specification: Amazon S3 API Reference, "Transferring Payload in Multiple Chunks" and "Signature
 * calculations for trailing headers". Deviations seen in clients and accepted: any chunk size; a
 * blank line between the last chunk and the trailers, and between trailers and their signature;
 * trailer lines that end in LF; one more blank line at the very end; none after a signed trailer.
 */
#ifndef RG_S3_CHUNKED_H
#define RG_S3_CHUNKED_H

#include "base/error.h"
#include "base/span.h"
#include "s3/header.h"
#include "s3/sigv4.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ceilings. A line is a chunk's header or a trailer, its end included. */
#define RG_CHUNKED_LINE_MAX          1024u
#define RG_CHUNKED_TRAILERS_MAX      16u
#define RG_CHUNKED_TRAILER_BYTES_MAX 4096u

struct rg_chunked_setup {
    enum rg_payload_kind kind; /* one of RG_PAYLOAD_STREAMING_* */

    /* From x-amz-decoded-content-length. */
    bool has_decoded_length;
    uint64_t decoded_length;

    /* More decoded bytes than this are RG_ENTITY_TOO_LARGE; 0 for no such ceiling. */
    uint64_t decoded_max;

    /* The value of x-amz-trailer: names separated by commas (join several such headers by commas),
     * empty when there is none. Copied. Only for the trailer kinds: a declared trailer must come,
     * another one must not. */
    struct span trailer_names;

    /* The signed kinds only; copied. Of the request whose signature was verified. */
    const struct rg_sigv4 *auth;
    const struct rg_sigv4_key *key;
};

struct rg_chunked;

/*
 * RG_INVALID_REQUEST when the setup cannot be met (a kind without trailers that declares some, a
 * malformed or overlong x-amz-trailer); RG_ENTITY_TOO_LARGE when decoded_length exceeds
 * decoded_max; RG_OUT_OF_MEMORY. Free with rg_chunked_free (NULL is fine).
 */
int rg_chunked_new(const struct rg_chunked_setup *setup, struct rg_chunked **ret_decoder,
                   struct rg_error *err) RG_CHECK;
void rg_chunked_free(struct rg_chunked *decoder);

/*
 * Consumes a front part of `input` (not empty): *ret_used bytes, at least 1. *ret_data is the
 * object data among them, a span into `input`, often empty. Call again with the rest.
 *
 * Errors, each final (later calls repeat it):
 *   RG_SIGNATURE_DOES_NOT_MATCH  of a chunk or the trailer, or none where one must be
 *   RG_INCOMPLETE_BODY           malformed chunk header or line end, bytes after the end, other
 * than x-amz-decoded-content-length bytes of data RG_ENTITY_TOO_LARGE          more data than
 * decoded_max RG_MALFORMED_TRAILER         malformed, undeclared, repeated, missing, too many or
 * too long
 */
int rg_chunked_feed(struct rg_chunked *decoder, struct span input, size_t *ret_used,
                    struct span *ret_data, struct rg_error *err) RG_CHECK;

/*
 * To be called when the body has ended. 0 means that everything was there and every signature was
 * right. RG_INCOMPLETE_BODY when the end is missing or the length is not the one announced;
 * RG_MALFORMED_TRAILER when a declared trailer is missing; else the error of the feed that failed.
 */
int rg_chunked_finish(struct rg_chunked *decoder, struct rg_error *err) RG_CHECK;

/* Object bytes handed out so far. */
uint64_t rg_chunked_decoded(const struct rg_chunked *decoder);

/*
 * The trailers (names in lower case, values trimmed) after rg_chunked_finish has succeeded;
 * x-amz-trailer-signature is not among them. Owned by the decoder.
 */
const struct rg_header *rg_chunked_trailers(const struct rg_chunked *decoder, size_t *ret_count);

/*
 * For whoever produces such a body: the signature of one chunk, given the SHA-256 of its data, and
 * of the trailers, given the SHA-256 of their "name:value\n" lines. `previous` is the signature
 * before it in the chain (first the request's own) and may be the same array as the result.
 */
int rg_chunked_sign_chunk(const struct rg_sigv4_key *key, const char *timestamp,
                          struct rg_sigv4_scope scope, const unsigned char previous[32],
                          const unsigned char sha256[32], unsigned char ret_signature[32],
                          struct rg_error *err) RG_CHECK;
int rg_chunked_sign_trailer(const struct rg_sigv4_key *key, const char *timestamp,
                            struct rg_sigv4_scope scope, const unsigned char previous[32],
                            const unsigned char sha256[32], unsigned char ret_signature[32],
                            struct rg_error *err) RG_CHECK;

#endif
