/*
 * UTF-16 in pieces of any size: what comes out is UTF-8 and no longer than it can be.
 */
#include "diag/utf16.h"

#include <stdlib.h>
#include <string.h>

struct feed {
    const uint8_t *bytes;
    size_t len;
    size_t step;
};

static ssize_t read_feed(void *context, char *bytes, size_t room, struct rg_error *err)
{
    struct feed *feed = context;
    (void)err;
    size_t len = feed->len < feed->step ? feed->len : feed->step;
    len = len < room ? len : room;
    memcpy(bytes, feed->bytes, len);
    feed->bytes += len;
    feed->len -= len;
    return (ssize_t)len;
}

/* Length of the UTF-8 sequence at the start; 0: it is none. */
static size_t sequence(const unsigned char *text, size_t len)
{
    size_t want = text[0] < 0x80   ? 1
                  : text[0] < 0xc2 ? 0
                  : text[0] < 0xe0 ? 2
                  : text[0] < 0xf0 ? 3
                                   : 4;
    if (want > len || text[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < want; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return want;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rg_utf16 utf16;
    static unsigned char out[1 << 20];
    if (size < 3 || size > (sizeof(out) / 4)) {
        return 0;
    }
    struct feed feed = {.bytes = data + 1, .len = size - 1, .step = 1 + data[0] % 61U};
    size_t room = 1 + data[0] / 4U;
    enum rg_utf16_order order = rg_utf16_order_of(rg_span(data + 1, size - 1));
    utf16 = (struct rg_utf16){.inner = {.read = read_feed, .context = &feed},
                              .order = order == RG_UTF16_NONE ? RG_UTF16_LITTLE : order};
    struct rg_stream stream = rg_utf16_stream(&utf16);
    size_t used = 0;
    ssize_t got;
    while ((got = stream.read(stream.context, (char *)out + used, room, NULL)) > 0) {
        used += (size_t)got;
    }
    if (got < 0 || used > size * 2 + 4) {
        abort();
    }
    for (size_t i = 0; i < used;) {
        size_t len = sequence(out + i, used - i);
        if (len == 0) {
            abort();
        }
        i += len;
    }
    return 0;
}
