/*
 * Digests of short texts. See sha256.h. HMAC is RFC 2104.
 */
#include "s3/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <pthread.h>
#include <string.h>

#define BLOCK_BYTES 64u

static EVP_MD *algorithm; /* NULL: it could not be had */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Kept for the life of the process. */
static void fetch(void)
{
    algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
}

static void cleanup_context(EVP_MD_CTX **context)
{
    EVP_MD_CTX_free(*context);
}
#define autocontext RG_CLEANUP(cleanup_context) EVP_MD_CTX

static EVP_MD_CTX *make_context(void)
{
    pthread_once(&once, fetch);
    return algorithm ? EVP_MD_CTX_new() : NULL;
}

/* `prefix` is a whole block, or NULL. */
static bool digest(EVP_MD_CTX *context, const unsigned char *prefix, struct span text,
                   unsigned char ret_digest[RG_SHA256_BYTES])
{
    return EVP_DigestInit_ex2(context, algorithm, NULL) &&
           (!prefix || EVP_DigestUpdate(context, prefix, BLOCK_BYTES)) &&
           EVP_DigestUpdate(context, text.ptr, text.len) &&
           EVP_DigestFinal_ex(context, ret_digest, NULL);
}

bool rg_sha256(struct span text, unsigned char ret_digest[RG_SHA256_BYTES])
{
    autocontext *context = make_context();
    return context && digest(context, NULL, text, ret_digest);
}

bool rg_hmac_sha256(const void *key, size_t key_len, struct span text,
                    unsigned char ret_digest[RG_SHA256_BYTES])
{
    autocontext *context = make_context();
    unsigned char inner[BLOCK_BYTES] = {0};
    unsigned char outer[BLOCK_BYTES];
    unsigned char result[RG_SHA256_BYTES];
    if (!context) {
        return false;
    }
    if (key_len > BLOCK_BYTES) {
        if (!digest(context, NULL, rg_span(key, key_len), inner)) {
            return false;
        }
    } else if (key_len) {
        memcpy(inner, key, key_len);
    }
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    bool fine = digest(context, inner, text, result) &&
                digest(context, outer, rg_span(result, sizeof result), ret_digest);
    OPENSSL_cleanse(inner, sizeof inner);
    OPENSSL_cleanse(outer, sizeof outer);
    return fine;
}
