/*
 * Two bytes a unit, in batches; what a batch leaves over waits for the next one.
 */
#include "diag/utf16.h"

#include <string.h>

#define REPLACEMENT 0xfffdU

enum rg_utf16_order rg_utf16_order_of(struct span head)
{
    const unsigned char *bytes = (const unsigned char *)head.ptr;
    if (head.len < 2) {
        return RG_UTF16_NONE;
    }
    bool utf32 = head.len >= 4 && bytes[2] == 0 && bytes[3] == 0;
    if (bytes[0] == 0xff && bytes[1] == 0xfe) {
        return utf32 ? RG_UTF16_NONE : RG_UTF16_LITTLE;
    }
    if (bytes[0] == 0xfe && bytes[1] == 0xff) {
        return RG_UTF16_BIG;
    }
    size_t zeros[2] = {0, 0};
    size_t letters[2] = {0, 0};
    for (size_t i = 0; i < head.len; i++) {
        zeros[i & 1] += bytes[i] == 0;
        letters[i & 1] +=
            bytes[i] >= ' ' || bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t';
    }
    size_t most = head.len / 2 - head.len / 16;
    if (head.len < 32) {
        return RG_UTF16_NONE;
    }
    if (zeros[1] >= most && letters[0] >= most) {
        return RG_UTF16_LITTLE;
    }
    return zeros[0] >= most && letters[1] >= most ? RG_UTF16_BIG : RG_UTF16_NONE;
}

static void put(struct rg_utf16 *utf16, uint32_t code)
{
    char *out = utf16->text + utf16->text_len;
    if (code < 0x80) {
        out[0] = (char)code;
        utf16->text_len += 1;
    } else if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        utf16->text_len += 2;
    } else if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        utf16->text_len += 3;
    } else {
        out[0] = (char)(0xf0 | code >> 18);
        out[1] = (char)(0x80 | (code >> 12 & 0x3f));
        out[2] = (char)(0x80 | (code >> 6 & 0x3f));
        out[3] = (char)(0x80 | (code & 0x3f));
        utf16->text_len += 4;
    }
}

static void take_unit(struct rg_utf16 *utf16, uint32_t unit)
{
    bool low = unit >= 0xdc00 && unit <= 0xdfff;
    if (utf16->high && low) {
        put(utf16, 0x10000 + ((utf16->high - 0xd800) << 10) + (unit - 0xdc00));
        utf16->high = 0;
        return;
    }
    if (utf16->high) {
        put(utf16, REPLACEMENT);
        utf16->high = 0;
    }
    if (unit >= 0xd800 && unit <= 0xdbff) {
        utf16->high = unit;
    } else {
        put(utf16, low ? REPLACEMENT : unit);
    }
}

static void convert(struct rg_utf16 *utf16)
{
    size_t units = utf16->raw_len / 2;
    int first = utf16->order == RG_UTF16_BIG ? 8 : 0;
    for (size_t i = 0; i < units; i++) {
        take_unit(utf16, (uint32_t)utf16->raw[2 * i] << first | (uint32_t)utf16->raw[2 * i + 1]
                                                                    << (8 - first));
    }
    utf16->raw[0] = utf16->raw_len % 2 ? utf16->raw[utf16->raw_len - 1] : 0;
    utf16->raw_len %= 2;
}

static void finish(struct rg_utf16 *utf16)
{
    utf16->ended = true;
    if (utf16->high || utf16->raw_len) {
        put(utf16, REPLACEMENT);
    }
    utf16->high = 0;
    utf16->raw_len = 0;
}

/* One batch. Negative when the stream fails. */
static int fill(struct rg_utf16 *utf16, struct rg_error *err)
{
    ssize_t got = utf16->inner.read(utf16->inner.context, (char *)utf16->raw + utf16->raw_len,
                                    sizeof(utf16->raw) - utf16->raw_len, err);
    if (got < 0) {
        return (int)got;
    }
    utf16->text_at = 0;
    utf16->text_len = 0;
    utf16->raw_len += (size_t)got;
    if (got == 0) {
        finish(utf16);
    } else {
        convert(utf16);
    }
    return 0;
}

static ssize_t read_utf16(void *context, char *bytes, size_t room, struct rg_error *err)
{
    struct rg_utf16 *utf16 = context;
    while (utf16->text_at == utf16->text_len && !utf16->ended) {
        int rc = fill(utf16, err);
        if (rc < 0) {
            return rc;
        }
    }
    size_t left = utf16->text_len - utf16->text_at;
    size_t len = left < room ? left : room;
    memcpy(bytes, utf16->text + utf16->text_at, len);
    utf16->text_at += len;
    return (ssize_t)len;
}

struct rg_stream rg_utf16_stream(struct rg_utf16 *utf16)
{
    return (struct rg_stream){.read = read_utf16, .context = utf16};
}
