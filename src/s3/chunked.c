/*
 * aws-chunked, decoded as a push state machine. Each state is named after what it waits for. Must
 * not hold object data: spans into the caller's input go straight back to the caller.
 */
#include "s3/chunked.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/encode.h"

#include <openssl/evp.h>

#include <stdlib.h>
#include <string.h>

#define SIGNATURE_TRAILER  "x-amz-trailer-signature"
#define DECLARED_BYTES_MAX 1024u
#define SIZE_DIGITS_MAX    16u
/* Blank lines that clients put around trailers: before them, and before their signature. */
#define BLANK_LINES_MAX 2u

enum state {
    WAIT_CHUNK_HEADER,
    WAIT_DATA,
    WAIT_DATA_END, /* the line end behind a chunk's data */
    WAIT_TRAILER,
    WAIT_BODY_END, /* everything was there */
};

struct trailer {
    size_t at; /* of "name:value\n" in trailer_text */
    size_t name_len;
    size_t value_len;
};

struct rg_chunked {
    enum state state;
    bool is_signed;
    bool has_trailers;
    bool has_decoded_length;
    uint64_t decoded_length;
    uint64_t decoded_max;
    uint64_t decoded;

    char line[RG_CHUNKED_LINE_MAX];
    size_t line_len;
    size_t line_end_len; /* of "\r\n", in WAIT_DATA_END and WAIT_BODY_END */
    uint64_t remaining;  /* data bytes of the current chunk */
    bool is_last;        /* the current chunk is the empty one */

    /* Signed kinds only. */
    EVP_MD_CTX *hash;
    struct rg_sigv4_key key;
    char timestamp[RG_DATE_AMZ_SIZE];
    char *scope_text;
    struct rg_sigv4_scope scope;
    unsigned char previous[32]; /* last verified signature of the chain */
    unsigned char claimed[32];  /* of the current chunk */

    char *declared_text;
    struct span declared[RG_CHUNKED_TRAILERS_MAX];
    bool arrived[RG_CHUNKED_TRAILERS_MAX];
    size_t declared_count;

    struct rg_buf trailer_text; /* "name:value\n" each: what the trailer's signature covers */
    struct trailer trailers[RG_CHUNKED_TRAILERS_MAX];
    size_t trailer_count;
    size_t blank_lines;
    bool trailer_verified;

    struct rg_header headers[RG_CHUNKED_TRAILERS_MAX]; /* filled by finish */
    bool finished;
    struct rg_error failure;
};

/* -- Signatures -------------------------------------------------------------------------------- */

static int sign_link(const struct rg_sigv4_key *key, const char *algorithm, const char *timestamp,
                     struct rg_sigv4_scope scope, const unsigned char previous[32],
                     const char *middle, const unsigned char sha256[32],
                     unsigned char ret_signature[32], struct rg_error *err)
{
    char previous_hex[65];
    char hash_hex[65];
    rg_hex_encode(previous, 32, previous_hex);
    rg_hex_encode(sha256, 32, hash_hex);
    RG_BUF(text, 1024);
    rg_buf_addf(&text, "%s\n%s\n%.*s/%.*s/%.*s/aws4_request\n%s\n%s%s", algorithm, timestamp,
                RG_SPAN_ARG(scope.date), RG_SPAN_ARG(scope.region), RG_SPAN_ARG(scope.service),
                previous_hex, middle, hash_hex);
    if (!rg_buf_ok(&text)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    return rg_sigv4_sign_text(key, rg_buf_span(&text), ret_signature, err);
}

int rg_chunked_sign_chunk(const struct rg_sigv4_key *key, const char *timestamp,
                          struct rg_sigv4_scope scope, const unsigned char previous[32],
                          const unsigned char sha256[32], unsigned char ret_signature[32],
                          struct rg_error *err)
{
    return sign_link(key, "AWS4-HMAC-SHA256-PAYLOAD", timestamp, scope, previous,
                     RG_SHA256_EMPTY "\n", sha256, ret_signature, err);
}

int rg_chunked_sign_trailer(const struct rg_sigv4_key *key, const char *timestamp,
                            struct rg_sigv4_scope scope, const unsigned char previous[32],
                            const unsigned char sha256[32], unsigned char ret_signature[32],
                            struct rg_error *err)
{
    return sign_link(key, "AWS4-HMAC-SHA256-TRAILER", timestamp, scope, previous, "", sha256,
                     ret_signature, err);
}

static int hash_failed(struct rg_error *err)
{
    return rg_failf(err, RG_INTERNAL_ERROR, "libcrypto could not compute a SHA-256.");
}

static int start_hash(struct rg_chunked *decoder, struct rg_error *err)
{
    if (!decoder->is_signed) {
        return 0;
    }
    return EVP_DigestInit_ex(decoder->hash, EVP_sha256(), NULL) ? 0 : hash_failed(err);
}

static int add_to_hash(struct rg_chunked *decoder, struct span data, struct rg_error *err)
{
    if (!decoder->is_signed) {
        return 0;
    }
    return EVP_DigestUpdate(decoder->hash, data.ptr, data.len) ? 0 : hash_failed(err);
}

static int verify_chunk(struct rg_chunked *decoder, struct rg_error *err)
{
    if (!decoder->is_signed) {
        return 0;
    }
    unsigned char sha256[32];
    unsigned char signature[32];
    if (!EVP_DigestFinal_ex(decoder->hash, sha256, NULL)) {
        return hash_failed(err);
    }
    int result = rg_chunked_sign_chunk(&decoder->key, decoder->timestamp, decoder->scope,
                                       decoder->previous, sha256, signature, err);
    if (result != 0) {
        return result;
    }
    if (!rg_equal_constant_time(signature, decoder->claimed, sizeof signature)) {
        return rg_failf(err, RG_SIGNATURE_DOES_NOT_MATCH,
                        "The signature of a chunk does not match its data.");
    }
    memcpy(decoder->previous, signature, sizeof signature);
    return 0;
}

static int verify_trailer(struct rg_chunked *decoder, struct rg_error *err)
{
    unsigned char sha256[32];
    unsigned char signature[32];
    if (!EVP_Digest(rg_buf_text(&decoder->trailer_text), decoder->trailer_text.len, sha256, NULL,
                    EVP_sha256(), NULL)) {
        return hash_failed(err);
    }
    int result = rg_chunked_sign_trailer(&decoder->key, decoder->timestamp, decoder->scope,
                                         decoder->previous, sha256, signature, err);
    if (result != 0) {
        return result;
    }
    if (!rg_equal_constant_time(signature, decoder->claimed, sizeof signature)) {
        return rg_failf(err, RG_SIGNATURE_DOES_NOT_MATCH,
                        "The signature of the trailers does not match them.");
    }
    decoder->trailer_verified = true;
    return 0;
}

/* 64 digits in lower case, as every signer writes them. */
static int read_signature(struct rg_chunked *decoder, struct span hex, struct rg_error *err)
{
    bool lower = true;
    for (size_t i = 0; i < hex.len; i++) {
        lower = lower && !(hex.ptr[i] >= 'A' && hex.ptr[i] <= 'F');
    }
    if (!lower || !rg_hex_decode(hex, decoder->claimed, sizeof decoder->claimed)) {
        return rg_failf(err, RG_SIGNATURE_DOES_NOT_MATCH,
                        "A chunk or trailer signature is not 64 lower-case hexadecimal digits.");
    }
    return 0;
}

/* -- Chunks ------------------------------------------------------------------------------------ */

/* To S3 a body whose framing is broken is one that ended too early. */
static int bad_framing(struct rg_error *err, const char *what)
{
    return rg_failf(err, RG_INCOMPLETE_BODY, "The aws-chunked body is malformed: %s.", what);
}

/* Takes the hexadecimal size off the front of *line. */
static int read_size(struct span *line, uint64_t *ret_size, struct rg_error *err)
{
    uint64_t size = 0;
    size_t count = 0;
    while (count < line->len && rg_hex_digit(line->ptr[count]) >= 0) {
        if (count == SIZE_DIGITS_MAX) {
            return bad_framing(err, "a chunk size has more than 16 digits");
        }
        size = size << 4 | (uint64_t)rg_hex_digit(line->ptr[count]);
        count++;
    }
    if (count == 0) {
        return bad_framing(err, "a chunk size is missing");
    }
    *line = rg_span_skip(*line, count);
    *ret_size = size;
    return 0;
}

/* Visible characters; they mean nothing to us. */
static bool is_extension(struct span text)
{
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e) {
            return false;
        }
    }
    return text.len == 0 || (text.len > 1 && text.ptr[0] == ';');
}

static int read_extension(struct rg_chunked *decoder, struct span text, struct rg_error *err)
{
    const struct span start = RG_SPAN_LITERAL(";chunk-signature=");
    if (!is_extension(text)) {
        return bad_framing(err, "a chunk size is followed by something else than ';'");
    }
    if (!decoder->is_signed) {
        return 0;
    }
    if (!rg_span_starts(text, start)) {
        return rg_failf(err, RG_SIGNATURE_DOES_NOT_MATCH, "A chunk carries no signature.");
    }
    return read_signature(decoder, rg_span_skip(text, start.len), err);
}

/* Whether the data announced so far may come, and at the end whether it was all. */
static int check_length(struct rg_chunked *decoder, uint64_t size, struct rg_error *err)
{
    uint64_t total;
    if (!rg_add_checked(decoder->decoded, size, &total) || total > INT64_MAX ||
        (decoder->decoded_max && total > decoder->decoded_max)) {
        return rg_fail(err, RG_ENTITY_TOO_LARGE);
    }
    if (!decoder->has_decoded_length) {
        return 0;
    }
    if (total > decoder->decoded_length || (size == 0 && total < decoder->decoded_length)) {
        return rg_failf(err, RG_INCOMPLETE_BODY,
                        "The body does not hold the number of bytes that "
                        "x-amz-decoded-content-length announces.");
    }
    return 0;
}

static int end_of_data(struct rg_chunked *decoder, struct rg_error *err)
{
    bool trailers_follow = decoder->is_last && decoder->has_trailers;
    decoder->state = trailers_follow ? WAIT_TRAILER : WAIT_DATA_END;
    return verify_chunk(decoder, err);
}

/* "10000;chunk-signature=..." without its line end */
static int start_chunk(struct rg_chunked *decoder, struct span line, struct rg_error *err)
{
    uint64_t size;
    int result = read_size(&line, &size, err);
    if (result == 0) {
        result = read_extension(decoder, line, err);
    }
    if (result == 0) {
        result = check_length(decoder, size, err);
    }
    if (result == 0) {
        result = start_hash(decoder, err);
    }
    if (result != 0) {
        return result;
    }
    decoder->remaining = size;
    decoder->is_last = size == 0;
    decoder->state = WAIT_DATA;
    return decoder->is_last ? end_of_data(decoder, err) : 0;
}

/* -- Trailers ---------------------------------------------------------------------------------- */

static int bad_trailer(struct rg_error *err, const char *what)
{
    return rg_failf(err, RG_MALFORMED_TRAILER, "The trailers of the body are malformed: %s.", what);
}

static bool is_token(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))) {
            return false;
        }
    }
    return text.len != 0;
}

static bool is_printable(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((text.ptr[i] < 0x20 && text.ptr[i] != '\t') || text.ptr[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

static void lower(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] >= 'A' && text[i] <= 'Z') {
            text[i] = (char)(text[i] - 'A' + 'a');
        }
    }
}

/* The declared trailer of that (lower-case) name becomes an arrived one. */
static int mark_arrived(struct rg_chunked *decoder, struct span name, struct rg_error *err)
{
    for (size_t i = 0; i < decoder->declared_count; i++) {
        if (!rg_span_eq(decoder->declared[i], name)) {
            continue;
        }
        if (decoder->arrived[i]) {
            return bad_trailer(err, "one came twice");
        }
        decoder->arrived[i] = true;
        return 0;
    }
    return bad_trailer(err, "one came that x-amz-trailer does not name");
}

static int keep_trailer(struct rg_chunked *decoder, struct span name, struct span value,
                        struct rg_error *err)
{
    int result = mark_arrived(decoder, name, err);
    if (result != 0) {
        return result;
    }
    struct rg_buf *text = &decoder->trailer_text;
    if (name.len + value.len + 2 > RG_CHUNKED_TRAILER_BYTES_MAX - text->len) {
        return bad_trailer(err, "they are too long");
    }
    /* Cannot overrun: no more arrive than were declared. */
    decoder->trailers[decoder->trailer_count++] =
        (struct trailer){.at = text->len, .name_len = name.len, .value_len = value.len};
    rg_buf_add_span(text, name);
    rg_buf_add_char(text, ':');
    rg_buf_add_span(text, value);
    rg_buf_add_char(text, '\n');
    return rg_buf_ok(text) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

static bool all_declared_arrived(const struct rg_chunked *decoder)
{
    return decoder->trailer_count == decoder->declared_count;
}

/* Where nothing was declared there is nothing to sign. */
static bool lacks_trailer_signature(const struct rg_chunked *decoder)
{
    return decoder->is_signed && decoder->declared_count && !decoder->trailer_verified;
}

static int blank_line(struct rg_chunked *decoder, struct rg_error *err)
{
    if (all_declared_arrived(decoder) && !lacks_trailer_signature(decoder)) {
        decoder->state = WAIT_BODY_END;
        return 0;
    }
    if (decoder->blank_lines++ < BLANK_LINES_MAX) {
        return 0;
    }
    return bad_trailer(err, "they are missing");
}

/* One line without its end, in the decoder's own buffer. */
static int read_trailer(struct rg_chunked *decoder, size_t len, struct rg_error *err)
{
    struct span value = rg_span(decoder->line, len);
    struct span name = rg_span_cut(&value, ':');
    if (!value.ptr || !is_token(name) || !is_printable(value)) {
        return bad_trailer(err, "a line is not of the form name:value");
    }
    if (decoder->trailer_verified) {
        return bad_trailer(err, "one follows their signature");
    }
    lower(decoder->line, name.len);
    value = rg_span_trim(value);
    if (!decoder->is_signed || !rg_span_is(name, SIGNATURE_TRAILER)) {
        return keep_trailer(decoder, name, value, err);
    }
    if (!all_declared_arrived(decoder)) {
        return bad_trailer(err, "one that x-amz-trailer names did not come");
    }
    int result = read_signature(decoder, value, err);
    return result == 0 ? verify_trailer(decoder, err) : result;
}

/* -- Lines ------------------------------------------------------------------------------------- */

/* The line in the buffer is complete: its last byte is '\n'. */
static int end_of_line(struct rg_chunked *decoder, struct rg_error *err)
{
    size_t len = decoder->line_len - 1;
    bool has_return = len && decoder->line[len - 1] == '\r';
    decoder->line_len = 0;
    if (decoder->state == WAIT_TRAILER) {
        len -= has_return;
        return len ? read_trailer(decoder, len, err) : blank_line(decoder, err);
    }
    if (!has_return) {
        return bad_framing(err, "a chunk header does not end with CR LF");
    }
    return start_chunk(decoder, rg_span(decoder->line, len - 1), err);
}

/* Moves bytes up to the end of the line into the buffer. */
static int take_line(struct rg_chunked *decoder, struct span input, size_t *ret_used,
                     struct rg_error *err)
{
    ptrdiff_t at = rg_span_find(input, '\n');
    size_t len = at >= 0 ? (size_t)at + 1 : input.len;
    if (len > sizeof decoder->line - decoder->line_len) {
        return decoder->state == WAIT_TRAILER ? bad_trailer(err, "a line is too long")
                                              : bad_framing(err, "a chunk header is too long");
    }
    memcpy(decoder->line + decoder->line_len, input.ptr, len);
    decoder->line_len += len;
    *ret_used = len;
    return at >= 0 ? end_of_line(decoder, err) : 0;
}

/* One byte of a CR LF. */
static int take_line_end(struct rg_chunked *decoder, char c, struct rg_error *err)
{
    if (c != "\r\n"[decoder->line_end_len]) {
        return bad_framing(err, "a chunk is not as long as its size says");
    }
    if (++decoder->line_end_len == 2) {
        decoder->line_end_len = 0;
        decoder->state = decoder->is_last ? WAIT_BODY_END : WAIT_CHUNK_HEADER;
    }
    return 0;
}

/* Some clients end the trailers with one blank line too many; nothing else may follow. */
static int take_surplus(struct rg_chunked *decoder, char c, struct rg_error *err)
{
    if (!decoder->has_trailers || decoder->line_end_len == 2 ||
        c != "\r\n"[decoder->line_end_len]) {
        return bad_framing(err, "bytes follow its end");
    }
    decoder->line_end_len++;
    return 0;
}

static int take_data(struct rg_chunked *decoder, struct span input, size_t *ret_used,
                     struct span *ret_data, struct rg_error *err)
{
    size_t len = (size_t)RG_MIN((uint64_t)input.len, decoder->remaining);
    struct span data = rg_span_head(input, len);
    int result = add_to_hash(decoder, data, err);
    if (result != 0) {
        return result;
    }
    decoder->remaining -= len;
    decoder->decoded += len;
    *ret_used = len;
    *ret_data = data;
    return decoder->remaining == 0 ? end_of_data(decoder, err) : 0;
}

static int step(struct rg_chunked *decoder, struct span input, size_t *ret_used,
                struct span *ret_data, struct rg_error *err)
{
    *ret_used = 1;
    switch (decoder->state) {
    case WAIT_CHUNK_HEADER:
    case WAIT_TRAILER:
        return take_line(decoder, input, ret_used, err);
    case WAIT_DATA:
        return take_data(decoder, input, ret_used, ret_data, err);
    case WAIT_DATA_END:
        return take_line_end(decoder, input.ptr[0], err);
    case WAIT_BODY_END:
        return take_surplus(decoder, input.ptr[0], err);
    }
    RG_UNREACHABLE();
}

/* -- Interface --------------------------------------------------------------------------------- */

/* Hands the decoder's error to the caller; it stays the answer of every later call. */
static int report(const struct rg_chunked *decoder, struct rg_error *err)
{
    if (err) {
        *err = decoder->failure;
    }
    return -(int)decoder->failure.code;
}

int rg_chunked_feed(struct rg_chunked *decoder, struct span input, size_t *ret_used,
                    struct span *ret_data, struct rg_error *err)
{
    RG_ASSERT(input.len != 0);
    if (decoder->failure.code != RG_OK) {
        return report(decoder, err);
    }
    size_t used = 0;
    struct span data = rg_span(input.ptr, 0);
    while (used < input.len && data.len == 0) {
        size_t len;
        if (step(decoder, rg_span_skip(input, used), &len, &data, &decoder->failure) != 0) {
            return report(decoder, err);
        }
        used += len;
    }
    *ret_used = used;
    *ret_data = data;
    return 0;
}

static int check_end(const struct rg_chunked *decoder, struct rg_error *err)
{
    if (decoder->state == WAIT_BODY_END) {
        return decoder->line_end_len == 1 ? bad_framing(err, "bytes follow its end") : 0;
    }
    if (decoder->state == WAIT_TRAILER && decoder->line_len == 0) {
        if (decoder->trailer_verified) {
            return 0;
        }
        if (decoder->blank_lines && !all_declared_arrived(decoder)) {
            return bad_trailer(err, "one that x-amz-trailer names did not come");
        }
        if (decoder->blank_lines && lacks_trailer_signature(decoder)) {
            return rg_failf(err, RG_SIGNATURE_DOES_NOT_MATCH, "The trailers carry no signature.");
        }
    }
    return rg_failf(err, RG_INCOMPLETE_BODY, "The aws-chunked body ended too early.");
}

int rg_chunked_finish(struct rg_chunked *decoder, struct rg_error *err)
{
    if (decoder->failure.code != RG_OK || check_end(decoder, &decoder->failure) != 0) {
        return report(decoder, err);
    }
    const char *text = rg_buf_text(&decoder->trailer_text);
    for (size_t i = 0; i < decoder->trailer_count; i++) {
        const struct trailer *trailer = &decoder->trailers[i];
        decoder->headers[i] = (struct rg_header){
            .name = rg_span(text + trailer->at, trailer->name_len),
            .value = rg_span(text + trailer->at + trailer->name_len + 1, trailer->value_len),
        };
    }
    decoder->finished = true;
    return 0;
}

uint64_t rg_chunked_decoded(const struct rg_chunked *decoder)
{
    return decoder->decoded;
}

const struct rg_header *rg_chunked_trailers(const struct rg_chunked *decoder, size_t *ret_count)
{
    *ret_count = decoder->finished ? decoder->trailer_count : 0;
    return decoder->headers;
}

void rg_chunked_free(struct rg_chunked *decoder)
{
    if (!decoder) {
        return;
    }
    EVP_MD_CTX_free(decoder->hash);
    rg_sigv4_key_wipe(&decoder->key);
    free(decoder->scope_text);
    free(decoder->declared_text);
    rg_buf_free(&decoder->trailer_text);
    free(decoder);
}

static void cleanup_decoder(struct rg_chunked **decoder)
{
    rg_chunked_free(*decoder);
}

/* Reads x-amz-trailer into `declared`. */
static int declare_trailers(struct rg_chunked *decoder, struct span names, struct rg_error *err)
{
    names = rg_span_trim(names);
    if (names.len == 0) {
        return 0;
    }
    if (!decoder->has_trailers || names.len > DECLARED_BYTES_MAX) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "x-amz-trailer is too long, or x-amz-content-sha256 has no -TRAILER.");
    }
    decoder->declared_text = rg_span_dup(names);
    if (!decoder->declared_text) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    lower(decoder->declared_text, names.len);
    struct span rest = rg_span(decoder->declared_text, names.len);
    while (rest.ptr) {
        struct span name = rg_span_trim(rg_span_cut(&rest, ','));
        if (decoder->is_signed && rg_span_is(name, SIGNATURE_TRAILER)) {
            continue;
        }
        bool known = false;
        for (size_t i = 0; i < decoder->declared_count; i++) {
            known = known || rg_span_eq(decoder->declared[i], name);
        }
        if (known || !is_token(name) || decoder->declared_count == RG_CHUNKED_TRAILERS_MAX) {
            return rg_failf(err, RG_INVALID_REQUEST,
                            "x-amz-trailer must name up to %u different headers.",
                            RG_CHUNKED_TRAILERS_MAX);
        }
        decoder->declared[decoder->declared_count++] = name;
    }
    return 0;
}

/* Copies what the chain of signatures starts from. */
static int start_chain(struct rg_chunked *decoder, const struct rg_chunked_setup *setup,
                       struct rg_error *err)
{
    const struct rg_sigv4_scope *scope = &setup->auth->scope;
    RG_BUF(text, 512);
    rg_buf_add_span(&text, scope->date);
    rg_buf_add_span(&text, scope->region);
    rg_buf_add_span(&text, scope->service);
    decoder->scope_text = rg_buf_take(&text);
    decoder->hash = EVP_MD_CTX_new();
    if (!decoder->scope_text || !decoder->hash) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    const char *at = decoder->scope_text;
    decoder->scope = (struct rg_sigv4_scope){
        .date = rg_span(at, scope->date.len),
        .region = rg_span(at + scope->date.len, scope->region.len),
        .service = rg_span(at + scope->date.len + scope->region.len, scope->service.len),
    };
    decoder->key = *setup->key;
    memcpy(decoder->timestamp, setup->auth->timestamp, sizeof decoder->timestamp);
    memcpy(decoder->previous, setup->auth->signature, sizeof decoder->previous);
    return 0;
}

int rg_chunked_new(const struct rg_chunked_setup *setup, struct rg_chunked **ret_decoder,
                   struct rg_error *err)
{
    RG_ASSERT(rg_payload_is_streaming(setup->kind));
    RG_CLEANUP(cleanup_decoder) struct rg_chunked *decoder = calloc(1, sizeof *decoder);
    if (!decoder) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    decoder->is_signed = setup->kind != RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER;
    decoder->has_trailers = setup->kind != RG_PAYLOAD_STREAMING_SIGNED;
    decoder->has_decoded_length = setup->has_decoded_length;
    decoder->decoded_length = setup->decoded_length;
    decoder->decoded_max = setup->decoded_max;
    decoder->trailer_text = (struct rg_buf)RG_BUF_INIT(RG_CHUNKED_TRAILER_BYTES_MAX);
    if (setup->has_decoded_length && setup->decoded_max &&
        setup->decoded_length > setup->decoded_max) {
        return rg_fail(err, RG_ENTITY_TOO_LARGE);
    }
    int result = declare_trailers(decoder, setup->trailer_names, err);
    if (result == 0 && decoder->is_signed) {
        RG_ASSERT(setup->auth && setup->key && setup->auth->kind != RG_AUTH_ANONYMOUS);
        result = start_chain(decoder, setup, err);
    }
    if (result != 0) {
        return result;
    }
    *ret_decoder = RG_TAKE(decoder);
    return 0;
}
