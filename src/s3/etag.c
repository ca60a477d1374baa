/*
 * ETags: their shapes, and the digests behind them. Declared in checksum.h, which says why the
 * shapes are what they are.
 */
#include "s3/checksum.h"

#include "base/assert.h"
#include "base/encode.h"

#include <openssl/evp.h>
#include <stdio.h>

void rg_etag_md5(const uint8_t md5[16], char etag[RG_ETAG_MAX + 1])
{
    rg_hex_encode(md5, 16, etag);
}

int rg_etag_multipart(const uint8_t *digests, size_t count, char etag[RG_ETAG_MAX + 1],
                      struct rg_error *err)
{
    RG_ASSERT(count > 0);
    uint8_t md5[16];
    if (!EVP_Digest(digests, count * 16, md5, NULL, EVP_md5(), NULL)) {
        return rg_failf(err, RG_INTERNAL_ERROR, "libcrypto failed to compute an MD5");
    }
    rg_hex_encode(md5, sizeof(md5), etag);
    snprintf(etag + 32, RG_ETAG_MAX + 1 - 32, "-%zu", count);
    return 0;
}

static bool is_lower_hex(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

bool rg_etag_digest(struct span etag, uint8_t digest[16])
{
    uint64_t parts;
    if (etag.len > 32 && (etag.ptr[32] != '-' || !rg_span_to_u64(rg_span_skip(etag, 33), &parts))) {
        return false;
    }
    struct span hex = rg_span_head(etag, 32);
    return is_lower_hex(hex) && rg_hex_decode(hex, digest, 16);
}

void rg_etag_fast(const uint8_t random[16], char etag[RG_ETAG_MAX + 1])
{
    rg_hex_encode(random, 16, etag);
    memcpy(etag + 32, "-1", 3);
}

static void put_le64(uint8_t *bytes, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

/*
 * A mixer, not a hash: SHA-256 would do, but may fail, and an ETag that a HEAD must answer may not.
 * Two rounds over four words with odd multipliers (splitmix64's finalizer) spread every input bit
 * over the 128 bits; nobody gains from a collision that they could get by setting the mtime.
 */
static uint64_t mix(uint64_t value)
{
    value ^= value >> 30;
    value *= UINT64_C(0xbf58476d1ce4e5b9);
    value ^= value >> 27;
    value *= UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

void rg_etag_synthetic(uint64_t inode, int64_t mtime_s, uint32_t mtime_ns, uint64_t size,
                       char etag[RG_ETAG_MAX + 1])
{
    const uint64_t words[] = {inode, (uint64_t)mtime_s, mtime_ns, size};
    uint64_t a = UINT64_C(0x6a09e667f3bcc908);
    uint64_t b = UINT64_C(0xbb67ae8584caa73b);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        a = mix(a ^ words[i]);
        b = mix(b + words[i]) ^ a;
    }
    uint8_t bytes[16];
    put_le64(bytes, mix(a + b));
    put_le64(bytes + 8, mix(b ^ UINT64_C(0x3c6ef372fe94f82b)));
    rg_etag_fast(bytes, etag);
}

bool rg_etag_looks_md5(struct span etag)
{
    return etag.len == 32 && is_lower_hex(etag);
}
