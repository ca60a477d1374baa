/*
 * SHA-256 and HMAC-SHA256 of short texts. libcrypto's own one-call functions look their algorithm
 * up by name each time, which costs more than the digest of a canonical request does.
 */
#ifndef RG_S3_SHA256_H
#define RG_S3_SHA256_H

#include "base/attr.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define RG_SHA256_BYTES 32u

/* False only if libcrypto fails (out of memory). `ret_digest` may be where `key` points to. */
bool rg_sha256(struct span text, unsigned char ret_digest[RG_SHA256_BYTES]) RG_CHECK;
bool rg_hmac_sha256(const void *key, size_t key_len, struct span text,
                    unsigned char ret_digest[RG_SHA256_BYTES]) RG_CHECK;

#endif
