/*
 * Checksums and ETags of object bytes: names, text forms, one-pass computation, combination.
 *
 * The ten algorithms of S3's ChecksumAlgorithm. CRCs and xxHashes are kept in big-endian byte
 * order, as S3 writes them. Nothing here decides which checksum a request must carry, nor compares
 * what a client sent with what was computed: callers do.
 */
#ifndef RG_S3_CHECKSUM_H
#define RG_S3_CHECKSUM_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are stored in metadata records: append only. */
enum rg_checksum_algorithm {
    RG_CHECKSUM_NONE = 0,
    RG_CHECKSUM_CRC32 = 1,
    RG_CHECKSUM_CRC32C = 2,
    RG_CHECKSUM_CRC64NVME = 3,
    RG_CHECKSUM_SHA1 = 4,
    RG_CHECKSUM_SHA256 = 5,
    RG_CHECKSUM_SHA512 = 6,
    RG_CHECKSUM_MD5 = 7,
    RG_CHECKSUM_XXHASH64 = 8,
    RG_CHECKSUM_XXHASH3 = 9, /* the 64 bits of XXH3 */
    RG_CHECKSUM_XXHASH128 = 10,
    RG_CHECKSUM_ALGORITHM_COUNT
};

/* Stored too. */
enum rg_checksum_type { RG_CHECKSUM_FULL_OBJECT = 0, RG_CHECKSUM_COMPOSITE = 1 };

#define RG_CHECKSUM_BYTES_MAX 64
/* Longest text: base64 of 64 bytes, "-", ten digits. Without the terminator. */
#define RG_CHECKSUM_TEXT_MAX 99

struct rg_checksum {
    enum rg_checksum_algorithm algorithm; /* NONE: there is no checksum; the rest is unspecified */
    enum rg_checksum_type type;
    uint32_t parts; /* COMPOSITE: the number after "-", 0 when the text had none; else 0 */
    uint8_t bytes[RG_CHECKSUM_BYTES_MAX]; /* the first rg_checksum_length(algorithm) are used */
};

#define RG_CHECKSUM_INIT                                                                           \
    {                                                                                              \
        .algorithm = RG_CHECKSUM_NONE                                                              \
    }

/* Static facts. Names for NONE are "NONE" / NULL / NULL, its length 0. */
const char *rg_checksum_name(enum rg_checksum_algorithm algorithm);    /* "CRC32C" */
const char *rg_checksum_header(enum rg_checksum_algorithm algorithm);  /* "x-amz-checksum-crc32c" */
const char *rg_checksum_element(enum rg_checksum_algorithm algorithm); /* "ChecksumCRC32C" (XML) */
size_t rg_checksum_length(enum rg_checksum_algorithm algorithm);       /* bytes */
const char *rg_checksum_type_name(enum rg_checksum_type type);         /* "FULL_OBJECT" */

/* Name (any case, as S3 accepts) or header name to algorithm; false when unknown. NONE is not a
 * name. */
bool rg_checksum_from_name(struct span name, enum rg_checksum_algorithm *ret_algorithm);
bool rg_checksum_from_header(struct span name, enum rg_checksum_algorithm *ret_algorithm);
bool rg_checksum_type_from_name(struct span name, enum rg_checksum_type *ret_type);

/*
 * What multipart uploads allow (CreateMultipartUpload, x-amz-checksum-type): CRC64NVME is
 * FULL_OBJECT only, CRC32 and CRC32C may be either and are COMPOSITE unless asked otherwise, all
 * others, which cannot be combined, are COMPOSITE only. A single PUT is always FULL_OBJECT.
 */
bool rg_checksum_type_allowed(enum rg_checksum_algorithm algorithm, enum rg_checksum_type type);
enum rg_checksum_type rg_checksum_type_default(enum rg_checksum_algorithm algorithm);

/*
 * The value of an x-amz-checksum-* field or Checksum* element: strict base64 of exactly the
 * algorithm's length, optionally followed by "-N" (1 <= N <= 100000, no leading zero), which makes
 * it COMPOSITE. Fails with RG_INVALID_REQUEST and a sentence that names the header.
 */
int rg_checksum_parse(enum rg_checksum_algorithm algorithm, struct span text,
                      struct rg_checksum *ret_checksum, struct rg_error *err) RG_CHECK;

/* Prints the same form; "" for NONE. */
void rg_checksum_format(const struct rg_checksum *checksum, char text[RG_CHECKSUM_TEXT_MAX + 1]);

/* Same algorithm, type, number of parts and bytes. Two NONE are equal. */
bool rg_checksum_equal(const struct rg_checksum *a, const struct rg_checksum *b);

/* ---- Computation ---- */

/* What a hasher computes: a set of these bits. The MD5 of ETags and Content-MD5 is the MD5
 * checksum, a payload's SHA-256 (x-amz-content-sha256) the SHA256 checksum. */
#define RG_HASH_BIT(algorithm) (1u << (unsigned)(algorithm))
#define RG_HASH_MD5            RG_HASH_BIT(RG_CHECKSUM_MD5)
#define RG_HASH_CRC32          RG_HASH_BIT(RG_CHECKSUM_CRC32)
#define RG_HASH_CRC32C         RG_HASH_BIT(RG_CHECKSUM_CRC32C)
#define RG_HASH_CRC64NVME      RG_HASH_BIT(RG_CHECKSUM_CRC64NVME)
#define RG_HASH_SHA1           RG_HASH_BIT(RG_CHECKSUM_SHA1)
#define RG_HASH_SHA256         RG_HASH_BIT(RG_CHECKSUM_SHA256)

#define RG_HASHER_DIGESTS 4

/*
 * Computes a set of digests in one pass over the bytes. Not thread-safe. Use:
 *
 *   RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
 *   rg_hasher_init(&hasher, RG_HASH_MD5 | RG_HASH_BIT(algorithm), err)   (fails: return)
 *   rg_hasher_update(&hasher, span) ...
 *   rg_hasher_final(&hasher, err)                                        (fails: return)
 *   rg_hasher_md5(&hasher, md5); rg_hasher_checksum(&hasher, algorithm, &checksum);
 *
 * The fields are private.
 */
struct rg_hasher {
    unsigned set;
    bool broken;
    bool finished;
    uint64_t total;
    void *digest[RG_HASHER_DIGESTS]; /* EVP_MD_CTX, in the order of the table in checksum.c */
    void *xxh64;                     /* XXH64_state_t */
    void *xxh3;                      /* XXH3_state_t */
    void *xxh128;                    /* XXH3_state_t */
    uint32_t crc32;
    uint32_t crc32c;
    uint64_t crc64;
    uint8_t bytes[RG_CHECKSUM_ALGORITHM_COUNT][RG_CHECKSUM_BYTES_MAX]; /* when finished */
};

#define RG_HASHER_INIT                                                                             \
    {                                                                                              \
        .set = 0                                                                                   \
    }

/* An empty set is fine: then only bytes are counted. RG_OUT_OF_MEMORY; RG_INTERNAL_ERROR when
 * libcrypto offers no such digest (MD5 under FIPS). */
int rg_hasher_init(struct rg_hasher *hasher, unsigned set, struct rg_error *err) RG_CHECK;
void rg_hasher_update(struct rg_hasher *hasher, struct span bytes);

/* Ends the computation; once. RG_INTERNAL_ERROR when a library failed on the way. */
int rg_hasher_final(struct rg_hasher *hasher, struct rg_error *err) RG_CHECK;
void rg_hasher_free(struct rg_hasher *hasher);

/* Bytes seen so far. */
uint64_t rg_hasher_total(const struct rg_hasher *hasher);

/* After rg_hasher_final, and only for members of the set (else an assertion). The checksum is
 * FULL_OBJECT. */
void rg_hasher_md5(const struct rg_hasher *hasher, uint8_t md5[16]);
void rg_hasher_sha256(const struct rg_hasher *hasher, uint8_t sha256[32]);
void rg_hasher_checksum(const struct rg_hasher *hasher, enum rg_checksum_algorithm algorithm,
                        struct rg_checksum *ret_checksum);

/* All of the above for bytes in memory, one algorithm. */
int rg_checksum_of(enum rg_checksum_algorithm algorithm, struct span bytes,
                   struct rg_checksum *ret_checksum, struct rg_error *err) RG_CHECK;

/* ---- Combination ---- */

/*
 * The CRC of A followed by B from the CRCs of A and B and the length of B in bytes, in O(log n).
 * For CRC32, CRC32C and CRC64NVME, else an assertion. Values are numbers, not bytes.
 */
uint64_t rg_crc_combine(enum rg_checksum_algorithm algorithm, uint64_t crc_a, uint64_t crc_b,
                        uint64_t len_b);

/* The same on checksums: *a becomes the checksum of A followed by B. Both FULL_OBJECT, of the same
 * CRC; RG_INVALID_REQUEST otherwise, *a untouched. */
int rg_checksum_append(struct rg_checksum *a, const struct rg_checksum *b, uint64_t len_b,
                       struct rg_error *err) RG_CHECK;

/* One part of a multipart object, as kept in its metadata. */
struct rg_part {
    uint64_t size;
    struct rg_checksum checksum; /* algorithm NONE when the part had none; else FULL_OBJECT */
};

/*
 * The checksum of an object from its parts. FULL_OBJECT combines the parts' CRCs; COMPOSITE is the
 * digest of the parts' binary digests, with "-count". RG_INVALID_REQUEST when the type is not
 * allowed for the algorithm, there are no parts, or a part lacks that checksum.
 */
int rg_checksum_of_parts(enum rg_checksum_algorithm algorithm, enum rg_checksum_type type,
                         const struct rg_part *parts, size_t count,
                         struct rg_checksum *ret_checksum, struct rg_error *err) RG_CHECK;

/* ---- ETags: always without quotes ---- */

/*
 * Longest ETag, without the terminator. Shapes:
 *   32 hex digits        the MD5 of the bytes (single PUT, setting etag = md5)
 *   32 hex digits "-N"   N parts: MD5 of the parts' binary MD5s
 *   32 hex digits "-1"   fast and synthetic ETags: not an MD5 of anything
 * Clients take 32 bare hex digits for the MD5 (s3cmd and rclone compare it and retry), and an ETag
 * with "-" for one of a multipart object, whose digits they do not compare. "-1" is a true count:
 * clients that read the number of parts off the ETag, and ask for part 1, get the object.
 * Longer ETags exist in foreign metadata (versitygw trees): up to this length they are kept.
 */
#define RG_ETAG_MAX 79

void rg_etag_md5(const uint8_t md5[16], char etag[RG_ETAG_MAX + 1]);

/*
 * ETag of a multipart object: MD5 of `count` binary digests of 16 bytes standing one behind the
 * other, "-", count. `count` >= 1. RG_INTERNAL_ERROR when libcrypto has no MD5.
 */
int rg_etag_multipart(const uint8_t *digests, size_t count, char etag[RG_ETAG_MAX + 1],
                      struct rg_error *err) RG_CHECK;

/* The 16 bytes a part's ETag stands for in rg_etag_multipart: its first 32 digits. False when it
 * has none of the shapes above. */
bool rg_etag_digest(struct span etag, uint8_t digest[16]);

/* Fast ETag of a new object or part, from 16 random bytes of the caller. */
void rg_etag_fast(const uint8_t random[16], char etag[RG_ETAG_MAX + 1]);

/*
 * ETag of a file that carries none: the same on every node for as long as inode number,
 * modification time and size stay. (The device number is left out: it differs between nodes.)
 */
void rg_etag_synthetic(uint64_t inode, int64_t mtime_s, uint32_t mtime_ns, uint64_t size,
                       char etag[RG_ETAG_MAX + 1]);

/* Exactly 32 lower-case hex digits: clients will take it for an MD5. */
bool rg_etag_looks_md5(struct span etag);

#endif
