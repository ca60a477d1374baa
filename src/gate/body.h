/*
 * The body of a request, whichever way it is covered: by a SHA-256 in the signature, by nothing, or
 * in signed or unsigned chunks with or without trailers; with a Content-Length or in chunked
 * transfer coding; with Content-MD5 and with one of S3's checksums as header or trailer.
 *
 *   RG_CLEANUP(rg_body_free) struct rg_body body = RG_BODY_INIT;
 *   rg_body_begin(call, &plan, &body, err)               headers only; nothing is read yet
 *   while (rg_body_fill(&body, buffer, room, &len, err) == 0 && len) { ... }
 *   rg_body_end(&body, err)                              every promise held
 *   commit
 *
 * **Whoever takes the bytes must make nothing visible before rg_body_end has succeeded.**
 */
#ifndef RG_GATE_BODY_H
#define RG_GATE_BODY_H

#include "base/buf.h"
#include "base/error.h"
#include "gate/call.h"
#include "s3/checksum.h"
#include "s3/chunked.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- Work buffers ---- */

#define RG_BUFFER_SIZE (1u << 20) /* bytes of one, aligned to a page */

struct rg_buffers;

/* At most `max` buffers at a time; a few are kept when idle. */
int rg_buffers_new(unsigned max, struct rg_buffers **ret_buffers, struct rg_error *err);
void rg_buffers_free(struct rg_buffers *buffers);

/* RG_SLOW_DOWN at the ceiling, RG_OUT_OF_MEMORY. */
int rg_buffer_take(struct rg_buffers *buffers, char **ret_buffer, struct rg_error *err);
void rg_buffer_give(struct rg_buffers *buffers, char *buffer);

/* ---- The body ---- */

struct rg_body_plan {
    uint64_t max;              /* bytes, decoded */
    enum rg_code too_big;      /* what more than that is; RG_OK: RG_ENTITY_TOO_LARGE */
    bool length_required;      /* a body whose length nobody says must be chunked, else
                                  RG_MISSING_CONTENT_LENGTH */
    bool staged;               /* the bytes come by RDMA: rg_body_see gets them, rg_body_fill
                                  is not called */
    uint64_t staged_length;    /* then, how many */
    bool want_md5;             /* compute the MD5, also when no Content-MD5 came */
    bool checksums_are_others; /* the checksum fields speak of something else than this body */
    /* Compute this checksum, also when the client sent none; NONE: only the client's. A client's
     * of another algorithm is RG_INVALID_REQUEST. */
    enum rg_checksum_algorithm want;
};

struct rg_body {
    struct rg_call *call;
    struct rg_body_plan plan;
    struct rg_hasher hasher;
    struct rg_chunked *chunked; /* NULL: the bytes come as they are */
    int64_t length;             /* decoded; -1 when nobody said */
    uint64_t got;
    bool ended;

    bool has_md5;
    uint8_t md5[16];
    bool has_sha256;
    enum rg_checksum_algorithm algorithm; /* the one computed; NONE: none */
    bool in_trailer;                      /* its value is still to come */
    struct rg_checksum stated;            /* the client's; NONE: none, or in the trailer */
};

#define RG_BODY_INIT                                                                               \
    {                                                                                              \
        .hasher = RG_HASHER_INIT                                                                   \
    }

/*
 * Reads the request's promises about its body. Errors: RG_MISSING_CONTENT_LENGTH,
 * RG_ENTITY_TOO_LARGE (or plan->too_big), RG_INVALID_DIGEST (Content-MD5), RG_INVALID_REQUEST
 * (checksums: more than one, malformed, announced but missing, of the wrong kind),
 * RG_INVALID_ARGUMENT, those of rg_chunked_new.
 */
int rg_body_begin(struct rg_call *call, const struct rg_body_plan *plan, struct rg_body *ret_body,
                  struct rg_error *err);
void rg_body_free(struct rg_body *body);

/* Fills `buffer` as far as the body goes: *ret_len < room only at the end, 0 behind it. */
int rg_body_fill(struct rg_body *body, char *buffer, size_t room, size_t *ret_len,
                 struct rg_error *err);

/*
 * Whether a body comes in blocks as large as a buffer, so that none is needed: then rg_body_block
 * takes the place of rg_body_fill. *ret_bytes are less than RG_BUFFER_SIZE only at the end, empty
 * behind it, begin on a page, and stay in place until the next call.
 */
bool rg_body_in_blocks(const struct rg_body *body);
int rg_body_block(struct rg_body *body, struct span *ret_bytes, struct rg_error *err);

/* The next bytes of a staged body. */
void rg_body_see(struct rg_body *body, struct span bytes);

/*
 * Compares everything that was promised: RG_X_AMZ_CONTENT_SHA256_MISMATCH, RG_BAD_DIGEST, errors of
 * rg_chunked_finish, RG_INCOMPLETE_BODY. Call it after rg_body_fill or rg_body_block gave 0 bytes,
 * or all bytes of a staged body were seen.
 */
int rg_body_end(struct rg_body *body, struct rg_error *err);

/* After rg_body_end. The MD5 only if the plan wanted it; the checksum is NONE when there is none.
 */
void rg_body_md5(const struct rg_body *body, uint8_t md5[16]);
struct rg_checksum rg_body_checksum(const struct rg_body *body);

/* Whether the body is covered by anything: the signature, a Content-MD5 or a checksum.
 * DeleteObjects must be. */
bool rg_body_is_protected(const struct rg_call *call);

enum rg_document {
    RG_DOCUMENT_OPTIONAL,  /* an empty body is fine */
    RG_DOCUMENT_REQUIRED,  /* else RG_MISSING_REQUEST_BODY */
    RG_DOCUMENT_OF_OBJECT, /* else RG_MALFORMED_XML; the checksum fields are of what it describes */
};

/* The whole body of a request that is a document: at most xml_body_max bytes
 * (RG_MAX_MESSAGE_LENGTH), verified. */
int rg_body_read_document(struct rg_call *call, enum rg_document kind, struct rg_buf *ret_document,
                          struct rg_error *err);

/* Declares a buffer for it. */
#define RG_DOCUMENT(name, call) RG_BUF(name, (size_t)(call)->settings->xml_body_max + 65536u)

/* Reads the client's x-amz-checksum-ALGORITHM field; NONE when there is none. More than one is
 * RG_INVALID_REQUEST. */
int rg_body_stated_checksum(struct rg_call *call, struct rg_checksum *ret_checksum,
                            struct rg_error *err);

#endif
