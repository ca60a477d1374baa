/*
 * Ranges: eight bytes of size, then the text. A range never leaves the object.
 */
#include "base/assert.h"
#include "s3/range.h"

static void check(int rc, const struct rg_range *range, uint64_t size)
{
    if (rc != 0) {
        RG_ASSERT(rc == -RG_INVALID_RANGE || rc == -RG_INVALID_ARGUMENT);
        return;
    }
    RG_ASSERT(range->offset <= size && range->length <= size - range->offset);
    if (range->partial) {
        char text[RG_CONTENT_RANGE_SIZE];
        RG_ASSERT(range->length > 0);
        rg_range_format(range, size, text);
    } else {
        RG_ASSERT(range->offset == 0 && range->length == size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t object;
    if (size < sizeof(object)) {
        return 0;
    }
    memcpy(&object, data, sizeof(object));
    struct span text = rg_span(data + sizeof(object), size - sizeof(object));
    struct rg_range range;
    int rc = rg_range_parse(text, object, &range, NULL);
    check(rc, &range, object);
    struct rg_range strict;
    int strict_rc = rg_range_copy_source(text, object, &strict, NULL);
    check(strict_rc, &strict, object);
    if (strict_rc == 0) { /* what the strict form takes, the other reads alike */
        RG_ASSERT(rc == 0 && strict.partial && range.offset == strict.offset &&
                  range.length == strict.length);
    }
    uint32_t number;
    if (rg_part_number_parse(text, 10000, &number, NULL) == 0) {
        RG_ASSERT(number >= 1 && number <= 10000);
    }
    return 0;
}
