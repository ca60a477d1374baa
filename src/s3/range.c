/*
 * Byte ranges of GET, HEAD and UploadPartCopy, and parts as ranges.
 */
#include "s3/range.h"

#include "base/assert.h"
#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>

/* Digits only, at least one. What does not fit is as good as the largest number: it lies behind the
 * end of any object. */
static bool parse_number(struct span text, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (text.len == 0) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(text.ptr[i] - '0');
        if (!rg_mul_checked(value, UINT64_C(10), &value) || !rg_add_checked(value, digit, &value)) {
            value = UINT64_MAX;
            for (i++; i < text.len; i++) {
                if (text.ptr[i] < '0' || text.ptr[i] > '9') {
                    return false;
                }
            }
        }
    }
    *ret_value = value;
    return true;
}

/* "bytes=" FIRST "-" LAST; either may be empty. False: something else. */
static bool split(struct span text, struct span *ret_first, struct span *ret_last)
{
    text = rg_span_trim(text);
    if (text.len < 6 || !rg_span_is_nocase(rg_span_head(text, 6), "bytes=")) {
        return false;
    }
    struct span last = rg_span_skip(text, 6);
    *ret_first = rg_span_cut(&last, '-');
    *ret_last = last;
    return last.ptr != NULL;
}

static int refuse(uint64_t size, struct rg_error *err)
{
    return rg_failf(err, RG_INVALID_RANGE,
                    "The requested range is not satisfiable: the object has %" PRIu64 " bytes.",
                    size);
}

static void set_range(struct rg_range *range, uint64_t offset, uint64_t length, bool partial)
{
    *range = (struct rg_range){.offset = offset, .length = length, .partial = partial};
}

int rg_range_parse(struct span text, uint64_t size, struct rg_range *ret_range,
                   struct rg_error *err)
{
    struct span first_text;
    struct span last_text;
    uint64_t first;
    uint64_t last;
    if (text.len == 0 || !split(text, &first_text, &last_text)) {
        set_range(ret_range, 0, size, false);
        return 0;
    }
    if (first_text.len == 0) { /* the last n bytes */
        if (!parse_number(last_text, &last)) {
            set_range(ret_range, 0, size, false);
            return 0;
        }
        if (last == 0 || size == 0) {
            return refuse(size, err);
        }
        last = RG_MIN(last, size);
        set_range(ret_range, size - last, last, true);
        return 0;
    }
    bool valid = parse_number(first_text, &first);
    if (valid && last_text.len == 0) {
        last = UINT64_MAX;
    } else {
        valid = valid && parse_number(last_text, &last) && first <= last;
    }
    if (!valid) {
        set_range(ret_range, 0, size, false);
        return 0;
    }
    if (first >= size) {
        return refuse(size, err);
    }
    last = RG_MIN(last, size - 1);
    set_range(ret_range, first, last - first + 1, true);
    return 0;
}

int rg_range_copy_source(struct span text, uint64_t size, struct rg_range *ret_range,
                         struct rg_error *err)
{
    struct span first_text;
    struct span last_text;
    uint64_t first;
    uint64_t last;
    if (!split(text, &first_text, &last_text) || !parse_number(first_text, &first) ||
        !parse_number(last_text, &last) || first > last) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "The x-amz-copy-source-range value must be of the form bytes=first-last "
                        "where first and last are the zero-based offsets of the first and last "
                        "bytes to copy");
    }
    if (last >= size) {
        return rg_failf(err, RG_INVALID_RANGE,
                        "Range specified is not valid for source object of size: %" PRIu64, size);
    }
    set_range(ret_range, first, last - first + 1, true);
    return 0;
}

int rg_range_of_part(const struct rg_part *parts, size_t count, uint64_t size, uint32_t number,
                     struct rg_range *ret_range, struct rg_error *err)
{
    if (number == 0 || number > (count ? count : 1)) {
        return rg_fail(err, RG_INVALID_PART_NUMBER);
    }
    if (count == 0) {
        set_range(ret_range, 0, size, size != 0);
        return 0;
    }
    uint64_t end = 0;
    uint64_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == number) {
            offset = end;
        }
        if (!rg_add_checked(end, parts[i].size, &end)) {
            return rg_failf(err, RG_INTERNAL_ERROR, "the sizes of the parts overflow");
        }
    }
    if (end != size) {
        return rg_failf(err, RG_INTERNAL_ERROR,
                        "the parts make %" PRIu64 " bytes, the object has %" PRIu64, end, size);
    }
    uint64_t length = parts[number - 1].size;
    set_range(ret_range, offset, length, length != 0);
    return 0;
}

int rg_part_number_parse(struct span text, uint32_t most, uint32_t *ret_number,
                         struct rg_error *err)
{
    uint64_t number;
    if (!rg_span_to_u64(text, &number) || number < 1 || number > most) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "Part number must be an integer between 1 and %" PRIu32 ", inclusive",
                        most);
    }
    *ret_number = (uint32_t)number;
    return 0;
}

void rg_range_format(const struct rg_range *range, uint64_t size, char text[RG_CONTENT_RANGE_SIZE])
{
    RG_ASSERT(range->length > 0);
    snprintf(text, RG_CONTENT_RANGE_SIZE, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->offset,
             range->offset + range->length - 1, size);
}

void rg_range_format_refused(uint64_t size, char text[RG_CONTENT_RANGE_SIZE])
{
    snprintf(text, RG_CONTENT_RANGE_SIZE, "bytes */%" PRIu64, size);
}
