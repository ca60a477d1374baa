/*
 * RDMA tokens: the text with which a client names a window of its memory. One row a dialect
 * (token.tbl), one parser and printer a dialect, all pure: no I/O, no device, nothing dereferenced.
 *
 * A token is an address and a key to somebody's memory. Never log one whole: rg_token_describe
 * gives a form that is safe to show.
 */
#ifndef RG_RDMA_TOKEN_H
#define RG_RDMA_TOKEN_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum rg_dialect {
#define RG_DIALECT(identifier, name, transport, served, title) RG_DIALECT_##identifier,
#include "rdma/token.tbl"
#undef RG_DIALECT
    RG_DIALECT_COUNT
};

enum rg_transport_kind { RG_TRANSPORT_DC, RG_TRANSPORT_RC, RG_TRANSPORT_OFI, RG_TRANSPORT_COUNT };

#define RG_TOKEN_MAX           1024 /* bytes of text that a parser looks at */
#define RG_OFI_NAME_MAX        192  /* bytes of a libfabric endpoint name */
#define RG_OFI_PROVIDER_MAX    63
#define RG_RC_SESSION_LENGTH   32 /* hex digits */
#define RG_D1_TOKEN_LENGTH     81
#define RG_D1_SUFFIXED_LENGTH  115
#define RG_HIPOBJ_TOKEN_LENGTH 88

/* What a token says, whatever its dialect. Fields a dialect lacks are zero. */
struct rg_rdma_window {
    enum rg_dialect dialect;
    enum rg_transport_kind transport;
    uint64_t address; /* of the first byte, in the client's address space */
    uint64_t length;  /* bytes; address + length never wraps */
    uint64_t rkey;    /* 32 bits on verbs */
    uint32_t qpn;     /* DC target number or RC queue pair number, 24 bits */
    uint16_t lid;     /* 0 on RoCE */
    uint8_t port;     /* hipObject only */
    bool has_gid;
    uint8_t gid[16]; /* network order, as ibv_gid.raw */
    char session[RG_RC_SESSION_LENGTH + 1];
    char provider[RG_OFI_PROVIDER_MAX + 1];
    uint8_t endpoint[RG_OFI_NAME_MAX];
    size_t endpoint_len;
};

const char *rg_dialect_name(enum rg_dialect dialect);  /* metrics label: "d1", "hipobj-rc-v2" ... */
const char *rg_dialect_title(enum rg_dialect dialect); /* one line for people */
const char *rg_transport_kind_name(enum rg_transport_kind kind); /* "dc", "rc", "ofi" */

/* False for dialects that are recognised only to be declined. */
bool rg_dialect_is_served(enum rg_dialect dialect);

/*
 * Recognises and parses the value of x-amz-rdma-token (also of x-rdma-info and X-CuObj-RDMA-Descr,
 * which carry the same text): white space around it and one trailing ';' are tolerated, upper-case
 * hex too. *ret_window is set only on success. RG_INVALID_RDMA_TOKEN with a sentence that names the
 * broken field and never repeats the text.
 */
int rg_token_parse(struct span text, struct rg_rdma_window *ret_window, struct rg_error *err);

/*
 * The one dialect each of our own clients speaks; the text is appended. The window's fields must be
 * in range (an assertion).
 */
void rg_token_print_d1(const struct rg_rdma_window *window, struct rg_buf *ret_text);
void rg_token_print_rc_session(const struct rg_rdma_window *window, struct rg_buf *ret_text);
void rg_token_print_ofi(const struct rg_rdma_window *window, struct rg_buf *ret_text);
void rg_token_print_hipobj(const struct rg_rdma_window *window, struct rg_buf *ret_text);

/* A window in words, safe to log: dialect, length, address rounded to 4 KiB, last four digits of
 * the GID; no key. */
void rg_token_describe(const struct rg_rdma_window *window, struct rg_buf *ret_text);

/* Everything a token says, field by field, for `railgate token`: it shows keys. */
void rg_token_explain(const struct rg_rdma_window *window, struct rg_buf *ret_text);

/*
 * The value of x-amz-rdma-reply as a client must read it: exactly three digits from 100 to 599,
 * white space around them tolerated; with `token_allowed` also "200:" and a hipObject token, which
 * is parsed into *ret_window. 0 when it is anything else.
 */
int rg_rdma_reply_parse(struct span text, bool token_allowed, struct rg_rdma_window *ret_window);

#endif
