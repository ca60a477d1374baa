/*
 * Byte ranges: the Range field of GET and HEAD, x-amz-copy-source-range, partNumber.
 */
#ifndef RG_S3_RANGE_H
#define RG_S3_RANGE_H

#include "base/error.h"
#include "base/span.h"
#include "s3/checksum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* offset + length never exceeds the object's size. */
struct rg_range {
    uint64_t offset;
    uint64_t length;
    bool partial; /* answer 206 with Content-Range; else the whole object and 200 */
};

/* "bytes 0-9/100" and a terminator. */
#define RG_CONTENT_RANGE_SIZE 72

/*
 * The Range field (RFC 9110, 14.2) of an object of `size` bytes: "bytes=a-b", "bytes=a-",
 * "bytes=-n". As S3 does, anything else (another unit, several ranges, bad syntax, b < a, an absent
 * field: ptr NULL or empty) is ignored and gives the whole object. A range that begins behind the
 * end, "bytes=-0", and any well-formed range of an empty object, are RG_INVALID_RANGE. Numbers
 * beyond 64 bits count as behind the end.
 */
int rg_range_parse(struct span text, uint64_t size, struct rg_range *ret_range,
                   struct rg_error *err) RG_CHECK;

/*
 * x-amz-copy-source-range of UploadPartCopy: exactly "bytes=a-b" with a <= b, wholly inside the
 * source. RG_INVALID_ARGUMENT when malformed; RG_INVALID_RANGE when not inside.
 */
int rg_range_copy_source(struct span text, uint64_t size, struct rg_range *ret_range,
                         struct rg_error *err) RG_CHECK;

/*
 * Where part `number` (from 1) stands in an object of `size` bytes with the given part table. An
 * object without one has the single part 1. RG_INVALID_PART_NUMBER (416) when there is no such
 * part; RG_INTERNAL_ERROR when the table does not add up to the size. The range is partial, as S3
 * answers 206; of an empty object it is not.
 */
int rg_range_of_part(const struct rg_part *parts, size_t count, uint64_t size, uint32_t number,
                     struct rg_range *ret_range, struct rg_error *err) RG_CHECK;

/* The partNumber parameter: 1 to `most`. RG_INVALID_ARGUMENT with S3's sentence. */
int rg_part_number_parse(struct span text, uint32_t most, uint32_t *ret_number,
                         struct rg_error *err) RG_CHECK;

/* The Content-Range field of a 206 ("bytes 0-9/100"); length must not be 0. */
void rg_range_format(const struct rg_range *range, uint64_t size, char text[RG_CONTENT_RANGE_SIZE]);

/* The Content-Range field of a 416 ("bytes *" "/100"). */
void rg_range_format_refused(uint64_t size, char text[RG_CONTENT_RANGE_SIZE]);

#endif
