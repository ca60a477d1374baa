/*
 * Checksums: names and text forms, the one-pass hasher, combination. ETags stand in etag.c.
 */
#include "s3/checksum.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/encode.h"
#include "s3/crc64.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <xxhash.h>

/* ---- Facts ---- */

struct facts {
    const char *name;
    const char *header;
    const char *element;
    size_t length;
    bool full_object; /* allowed for multipart uploads */
    bool composite;
    unsigned crc_bits;       /* 0: not a CRC */
    uint64_t crc_polynomial; /* reflected */
};

static const struct facts facts[RG_CHECKSUM_ALGORITHM_COUNT] = {
    [RG_CHECKSUM_NONE] = {"NONE", NULL, NULL, 0, false, false, 0, 0},
    [RG_CHECKSUM_CRC32] = {"CRC32", "x-amz-checksum-crc32", "ChecksumCRC32", 4, true, true, 32,
                           0xedb88320},
    [RG_CHECKSUM_CRC32C] = {"CRC32C", "x-amz-checksum-crc32c", "ChecksumCRC32C", 4, true, true, 32,
                            0x82f63b78},
    [RG_CHECKSUM_CRC64NVME] = {"CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME", 8,
                               true, false, 64, RG_CRC64NVME_POLYNOMIAL},
    [RG_CHECKSUM_SHA1] = {"SHA1", "x-amz-checksum-sha1", "ChecksumSHA1", 20, false, true, 0, 0},
    [RG_CHECKSUM_SHA256] = {"SHA256", "x-amz-checksum-sha256", "ChecksumSHA256", 32, false, true, 0,
                            0},
    [RG_CHECKSUM_SHA512] = {"SHA512", "x-amz-checksum-sha512", "ChecksumSHA512", 64, false, true, 0,
                            0},
    [RG_CHECKSUM_MD5] = {"MD5", "x-amz-checksum-md5", "ChecksumMD5", 16, false, true, 0, 0},
    [RG_CHECKSUM_XXHASH64] = {"XXHASH64", "x-amz-checksum-xxhash64", "ChecksumXXHASH64", 8, false,
                              true, 0, 0},
    [RG_CHECKSUM_XXHASH3] = {"XXHASH3", "x-amz-checksum-xxhash3", "ChecksumXXHASH3", 8, false, true,
                             0, 0},
    [RG_CHECKSUM_XXHASH128] = {"XXHASH128", "x-amz-checksum-xxhash128", "ChecksumXXHASH128", 16,
                               false, true, 0, 0},
};

static const struct facts *facts_of(enum rg_checksum_algorithm algorithm)
{
    RG_ASSERT((unsigned)algorithm < RG_CHECKSUM_ALGORITHM_COUNT);
    return &facts[algorithm];
}

const char *rg_checksum_name(enum rg_checksum_algorithm algorithm)
{
    return facts_of(algorithm)->name;
}

const char *rg_checksum_header(enum rg_checksum_algorithm algorithm)
{
    return facts_of(algorithm)->header;
}

const char *rg_checksum_element(enum rg_checksum_algorithm algorithm)
{
    return facts_of(algorithm)->element;
}

size_t rg_checksum_length(enum rg_checksum_algorithm algorithm)
{
    return facts_of(algorithm)->length;
}

const char *rg_checksum_type_name(enum rg_checksum_type type)
{
    return type == RG_CHECKSUM_COMPOSITE ? "COMPOSITE" : "FULL_OBJECT";
}

bool rg_checksum_from_name(struct span name, enum rg_checksum_algorithm *ret_algorithm)
{
    for (int i = RG_CHECKSUM_NONE + 1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        if (rg_span_is_nocase(name, facts[i].name)) {
            *ret_algorithm = (enum rg_checksum_algorithm)i;
            return true;
        }
    }
    return false;
}

bool rg_checksum_from_header(struct span name, enum rg_checksum_algorithm *ret_algorithm)
{
    for (int i = RG_CHECKSUM_NONE + 1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        if (rg_span_is_nocase(name, facts[i].header)) {
            *ret_algorithm = (enum rg_checksum_algorithm)i;
            return true;
        }
    }
    return false;
}

bool rg_checksum_type_from_name(struct span name, enum rg_checksum_type *ret_type)
{
    if (rg_span_is_nocase(name, "FULL_OBJECT")) {
        *ret_type = RG_CHECKSUM_FULL_OBJECT;
        return true;
    }
    if (rg_span_is_nocase(name, "COMPOSITE")) {
        *ret_type = RG_CHECKSUM_COMPOSITE;
        return true;
    }
    return false;
}

bool rg_checksum_type_allowed(enum rg_checksum_algorithm algorithm, enum rg_checksum_type type)
{
    const struct facts *f = facts_of(algorithm);
    return type == RG_CHECKSUM_COMPOSITE ? f->composite : f->full_object;
}

enum rg_checksum_type rg_checksum_type_default(enum rg_checksum_algorithm algorithm)
{
    return facts_of(algorithm)->composite ? RG_CHECKSUM_COMPOSITE : RG_CHECKSUM_FULL_OBJECT;
}

/* ---- Text ---- */

#define COMPOSITE_PARTS_MAX 100000u

static bool parse_parts(struct span text, uint32_t *ret_parts)
{
    uint64_t parts;
    if (text.len == 0 || text.ptr[0] == '0' || !rg_span_to_u64(text, &parts) ||
        parts > COMPOSITE_PARTS_MAX) {
        return false;
    }
    *ret_parts = (uint32_t)parts;
    return true;
}

int rg_checksum_parse(enum rg_checksum_algorithm algorithm, struct span text,
                      struct rg_checksum *ret_checksum, struct rg_error *err)
{
    RG_ASSERT(algorithm != RG_CHECKSUM_NONE);
    struct rg_checksum checksum = {.algorithm = algorithm, .type = RG_CHECKSUM_FULL_OBJECT};
    struct span suffix = text;
    struct span base64 = rg_span_cut(&suffix, '-');
    bool ok = true;
    if (suffix.ptr) {
        checksum.type = RG_CHECKSUM_COMPOSITE;
        ok = parse_parts(suffix, &checksum.parts);
    }
    size_t len = 0;
    ok = ok && rg_base64_decode(base64, checksum.bytes, sizeof(checksum.bytes), &len) &&
         len == rg_checksum_length(algorithm);
    if (!ok) {
        return rg_failf(err, RG_INVALID_REQUEST, "Value for %s header is invalid.",
                        rg_checksum_header(algorithm));
    }
    *ret_checksum = checksum;
    return 0;
}

void rg_checksum_format(const struct rg_checksum *checksum, char text[RG_CHECKSUM_TEXT_MAX + 1])
{
    if (checksum->algorithm == RG_CHECKSUM_NONE) {
        text[0] = '\0';
        return;
    }
    size_t length = rg_checksum_length(checksum->algorithm);
    rg_base64_encode(checksum->bytes, length, text);
    if (checksum->type == RG_CHECKSUM_COMPOSITE && checksum->parts) {
        size_t used = RG_BASE64_LENGTH(length);
        snprintf(text + used, RG_CHECKSUM_TEXT_MAX + 1 - used, "-%u", checksum->parts);
    }
}

bool rg_checksum_equal(const struct rg_checksum *a, const struct rg_checksum *b)
{
    if (a->algorithm != b->algorithm) {
        return false;
    }
    if (a->algorithm == RG_CHECKSUM_NONE) {
        return true;
    }
    return a->type == b->type && a->parts == b->parts &&
           memcmp(a->bytes, b->bytes, rg_checksum_length(a->algorithm)) == 0;
}

static void store_be(uint64_t value, size_t length, uint8_t *bytes)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)(value >> (8 * (length - 1 - i)));
    }
}

static uint64_t load_be(const uint8_t *bytes, size_t length)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

/* ---- Hasher ---- */

/* All digests see one block before any sees the next: the block stays in the cache. */
#define HASH_BLOCK (32u << 10)

/* What libcrypto computes. */
static const struct {
    enum rg_checksum_algorithm algorithm;
    const EVP_MD *(*type)(void);
} digests[] = {
    {RG_CHECKSUM_MD5, EVP_md5},
    {RG_CHECKSUM_SHA1, EVP_sha1},
    {RG_CHECKSUM_SHA256, EVP_sha256},
    {RG_CHECKSUM_SHA512, EVP_sha512},
};
_Static_assert(RG_ARRAY_LENGTH(digests) == RG_HASHER_DIGESTS, "one context a digest");

static int start_digest(void **ret_context, const EVP_MD *type, struct rg_error *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (!EVP_DigestInit_ex(context, type, NULL)) {
        EVP_MD_CTX_free(context);
        return rg_failf(err, RG_INTERNAL_ERROR, "libcrypto refuses the digest %s",
                        EVP_MD_get0_name(type));
    }
    *ret_context = context;
    return 0;
}

static int start_digests(struct rg_hasher *hasher, struct rg_error *err)
{
    for (size_t i = 0; i < RG_HASHER_DIGESTS; i++) {
        if (hasher->set & RG_HASH_BIT(digests[i].algorithm)) {
            int rc = start_digest(&hasher->digest[i], digests[i].type(), err);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

/* S3 uses xxHash without a seed. */
static int start_xxhashes(struct rg_hasher *hasher, struct rg_error *err)
{
    bool ok = true;
    if (hasher->set & RG_HASH_BIT(RG_CHECKSUM_XXHASH64)) {
        hasher->xxh64 = XXH64_createState();
        ok = hasher->xxh64 && XXH64_reset(hasher->xxh64, 0) == XXH_OK;
    }
    if (ok && hasher->set & RG_HASH_BIT(RG_CHECKSUM_XXHASH3)) {
        hasher->xxh3 = XXH3_createState();
        ok = hasher->xxh3 && XXH3_64bits_reset(hasher->xxh3) == XXH_OK;
    }
    if (ok && hasher->set & RG_HASH_BIT(RG_CHECKSUM_XXHASH128)) {
        hasher->xxh128 = XXH3_createState();
        ok = hasher->xxh128 && XXH3_128bits_reset(hasher->xxh128) == XXH_OK;
    }
    return ok ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

int rg_hasher_init(struct rg_hasher *hasher, unsigned set, struct rg_error *err)
{
    *hasher = (struct rg_hasher){.set = set};
    int rc = start_digests(hasher, err);
    if (rc == 0) {
        rc = start_xxhashes(hasher, err);
    }
    if (rc) {
        rg_hasher_free(hasher);
    }
    return rc;
}

static void update_crcs(struct rg_hasher *hasher, const unsigned char *data, size_t len)
{
    if (hasher->set & RG_HASH_CRC32) {
        hasher->crc32 = crc32_gzip_refl(hasher->crc32, data, len);
    }
    if (hasher->set & RG_HASH_CRC32C) {
        /* ISA-L takes the buffer as not const, and does not write to it. */
        hasher->crc32c = ~crc32_iscsi((unsigned char *)(uintptr_t)data, (int)len, ~hasher->crc32c);
    }
    if (hasher->set & RG_HASH_CRC64NVME) {
        hasher->crc64 = rg_crc64nvme(hasher->crc64, data, len);
    }
}

/* False when a library failed. */
static bool update_digests(struct rg_hasher *hasher, const unsigned char *data, size_t len)
{
    bool ok = true;
    for (size_t i = 0; i < RG_HASHER_DIGESTS; i++) {
        ok = ok && (!hasher->digest[i] || EVP_DigestUpdate(hasher->digest[i], data, len));
    }
    ok = ok && (!hasher->xxh64 || XXH64_update(hasher->xxh64, data, len) == XXH_OK);
    ok = ok && (!hasher->xxh3 || XXH3_64bits_update(hasher->xxh3, data, len) == XXH_OK);
    return ok && (!hasher->xxh128 || XXH3_128bits_update(hasher->xxh128, data, len) == XXH_OK);
}

void rg_hasher_update(struct rg_hasher *hasher, struct span bytes)
{
    RG_ASSERT(!hasher->finished);
    hasher->total += bytes.len;
    if (hasher->set == 0) {
        return;
    }
    while (bytes.len) {
        size_t len = RG_MIN(bytes.len, (size_t)HASH_BLOCK);
        const unsigned char *data = (const unsigned char *)bytes.ptr;
        update_crcs(hasher, data, len);
        hasher->broken = hasher->broken || !update_digests(hasher, data, len);
        bytes = rg_span_skip(bytes, len);
    }
}

static void finish_crcs_and_xxhashes(struct rg_hasher *hasher)
{
    store_be(hasher->crc32, 4, hasher->bytes[RG_CHECKSUM_CRC32]);
    store_be(hasher->crc32c, 4, hasher->bytes[RG_CHECKSUM_CRC32C]);
    store_be(hasher->crc64, 8, hasher->bytes[RG_CHECKSUM_CRC64NVME]);
    if (hasher->xxh64) {
        store_be(XXH64_digest(hasher->xxh64), 8, hasher->bytes[RG_CHECKSUM_XXHASH64]);
    }
    if (hasher->xxh3) {
        store_be(XXH3_64bits_digest(hasher->xxh3), 8, hasher->bytes[RG_CHECKSUM_XXHASH3]);
    }
    if (hasher->xxh128) {
        XXH128_hash_t hash = XXH3_128bits_digest(hasher->xxh128);
        store_be(hash.high64, 8, hasher->bytes[RG_CHECKSUM_XXHASH128]);
        store_be(hash.low64, 8, hasher->bytes[RG_CHECKSUM_XXHASH128] + 8);
    }
}

int rg_hasher_final(struct rg_hasher *hasher, struct rg_error *err)
{
    RG_ASSERT(!hasher->finished);
    hasher->finished = true;
    bool ok = !hasher->broken;
    for (size_t i = 0; ok && i < RG_HASHER_DIGESTS; i++) {
        ok = !hasher->digest[i] ||
             EVP_DigestFinal_ex(hasher->digest[i], hasher->bytes[digests[i].algorithm], NULL);
    }
    finish_crcs_and_xxhashes(hasher);
    return ok ? 0 : rg_failf(err, RG_INTERNAL_ERROR, "a library failed to compute a digest");
}

void rg_hasher_free(struct rg_hasher *hasher)
{
    for (size_t i = 0; i < RG_HASHER_DIGESTS; i++) {
        EVP_MD_CTX_free(hasher->digest[i]);
    }
    XXH64_freeState(hasher->xxh64);
    XXH3_freeState(hasher->xxh3);
    XXH3_freeState(hasher->xxh128);
    *hasher = (struct rg_hasher)RG_HASHER_INIT;
}

uint64_t rg_hasher_total(const struct rg_hasher *hasher)
{
    return hasher->total;
}

void rg_hasher_md5(const struct rg_hasher *hasher, uint8_t md5[16])
{
    RG_ASSERT(hasher->finished && hasher->set & RG_HASH_MD5);
    memcpy(md5, hasher->bytes[RG_CHECKSUM_MD5], 16);
}

void rg_hasher_sha256(const struct rg_hasher *hasher, uint8_t sha256[32])
{
    RG_ASSERT(hasher->finished && hasher->set & RG_HASH_SHA256);
    memcpy(sha256, hasher->bytes[RG_CHECKSUM_SHA256], 32);
}

void rg_hasher_checksum(const struct rg_hasher *hasher, enum rg_checksum_algorithm algorithm,
                        struct rg_checksum *ret_checksum)
{
    RG_ASSERT(algorithm != RG_CHECKSUM_NONE);
    RG_ASSERT(hasher->finished && hasher->set & RG_HASH_BIT(algorithm));
    struct rg_checksum checksum = {.algorithm = algorithm, .type = RG_CHECKSUM_FULL_OBJECT};
    memcpy(checksum.bytes, hasher->bytes[algorithm], rg_checksum_length(algorithm));
    *ret_checksum = checksum;
}

int rg_checksum_of(enum rg_checksum_algorithm algorithm, struct span bytes,
                   struct rg_checksum *ret_checksum, struct rg_error *err)
{
    RG_ASSERT(algorithm != RG_CHECKSUM_NONE);
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    int rc = rg_hasher_init(&hasher, RG_HASH_BIT(algorithm), err);
    if (rc) {
        return rc;
    }
    rg_hasher_update(&hasher, bytes);
    rc = rg_hasher_final(&hasher, err);
    if (rc) {
        return rc;
    }
    rg_hasher_checksum(&hasher, algorithm, ret_checksum);
    return 0;
}

/* ---- Combination ---- */

/*
 * Polynomials modulo the CRC's, reflected: the top bit of `bits` is the coefficient of x^0. The
 * inversions at both ends of a CRC cancel, so that
 *     crc(AB) = crc(A) * x^(8 * length of B) + crc(B).
 */
static uint64_t multiply(const struct facts *f, uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    for (uint64_t bit = UINT64_C(1) << (f->crc_bits - 1); a; bit >>= 1) {
        if (a & bit) {
            product ^= b;
            a ^= bit;
        }
        b = (b >> 1) ^ (b & 1 ? f->crc_polynomial : 0);
    }
    return product;
}

/* x^(8 * len) */
static uint64_t shift_by(const struct facts *f, uint64_t len)
{
    uint64_t result = UINT64_C(1) << (f->crc_bits - 1);
    uint64_t square = UINT64_C(1) << (f->crc_bits - 1 - 8);
    for (; len; len >>= 1) {
        if (len & 1) {
            result = multiply(f, result, square);
        }
        square = multiply(f, square, square);
    }
    return result;
}

uint64_t rg_crc_combine(enum rg_checksum_algorithm algorithm, uint64_t crc_a, uint64_t crc_b,
                        uint64_t len_b)
{
    const struct facts *f = facts_of(algorithm);
    RG_ASSERT(f->crc_bits);
    return multiply(f, crc_a, shift_by(f, len_b)) ^ crc_b;
}

static bool is_full_crc(const struct rg_checksum *checksum, enum rg_checksum_algorithm algorithm)
{
    return checksum->algorithm == algorithm && checksum->type == RG_CHECKSUM_FULL_OBJECT &&
           facts_of(algorithm)->crc_bits;
}

int rg_checksum_append(struct rg_checksum *a, const struct rg_checksum *b, uint64_t len_b,
                       struct rg_error *err)
{
    if (!is_full_crc(a, a->algorithm) || !is_full_crc(b, a->algorithm)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Only full-object CRCs of the same algorithm can be combined.");
    }
    size_t length = rg_checksum_length(a->algorithm);
    uint64_t crc =
        rg_crc_combine(a->algorithm, load_be(a->bytes, length), load_be(b->bytes, length), len_b);
    store_be(crc, length, a->bytes);
    return 0;
}

static int full_of_parts(enum rg_checksum_algorithm algorithm, const struct rg_part *parts,
                         size_t count, struct rg_checksum *ret_checksum)
{
    const struct facts *f = facts_of(algorithm);
    uint64_t crc = 0; /* of no bytes */
    uint64_t size = 0;
    uint64_t shift = shift_by(f, 0);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size != size) { /* most parts are of one size */
            size = parts[i].size;
            shift = shift_by(f, size);
        }
        crc = multiply(f, crc, shift) ^ load_be(parts[i].checksum.bytes, f->length);
    }
    *ret_checksum = (struct rg_checksum){.algorithm = algorithm, .type = RG_CHECKSUM_FULL_OBJECT};
    store_be(crc, f->length, ret_checksum->bytes);
    return 0;
}

static int composite_of_parts(enum rg_checksum_algorithm algorithm, const struct rg_part *parts,
                              size_t count, struct rg_checksum *ret_checksum, struct rg_error *err)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    int rc = rg_hasher_init(&hasher, RG_HASH_BIT(algorithm), err);
    if (rc) {
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        rg_hasher_update(&hasher, rg_span(parts[i].checksum.bytes, rg_checksum_length(algorithm)));
    }
    rc = rg_hasher_final(&hasher, err);
    if (rc) {
        return rc;
    }
    rg_hasher_checksum(&hasher, algorithm, ret_checksum);
    ret_checksum->type = RG_CHECKSUM_COMPOSITE;
    ret_checksum->parts = (uint32_t)count;
    return 0;
}

int rg_checksum_of_parts(enum rg_checksum_algorithm algorithm, enum rg_checksum_type type,
                         const struct rg_part *parts, size_t count,
                         struct rg_checksum *ret_checksum, struct rg_error *err)
{
    if (!rg_checksum_type_allowed(algorithm, type)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The %s checksum type is not supported for the %s algorithm.",
                        rg_checksum_type_name(type), rg_checksum_name(algorithm));
    }
    if (count == 0 || count > COMPOSITE_PARTS_MAX) {
        return rg_failf(err, RG_INVALID_REQUEST, "An object has 1 to %u parts.",
                        COMPOSITE_PARTS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i].checksum.algorithm != algorithm ||
            parts[i].checksum.type != RG_CHECKSUM_FULL_OBJECT) {
            return rg_failf(err, RG_INVALID_REQUEST, "Part %zu has no %s checksum.", i + 1,
                            rg_checksum_name(algorithm));
        }
    }
    if (type == RG_CHECKSUM_FULL_OBJECT) {
        return full_of_parts(algorithm, parts, count, ret_checksum);
    }
    return composite_of_parts(algorithm, parts, count, ret_checksum, err);
}
