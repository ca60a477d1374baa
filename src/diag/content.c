/*
 * By magic numbers where there are any, else by how much of it is no text.
 */
#include "diag/content.h"

#include "base/attr.h"
#include "diag/utf16.h"

#include <string.h>

static bool has_magic(struct span head, size_t offset, const char *magic, size_t len)
{
    return head.len >= offset + len && memcmp(head.ptr + offset, magic, len) == 0;
}

static bool is_archive(struct span head)
{
    static const struct {
        size_t offset;
        size_t len;
        const char *magic;
    } magics[] = {
        {0, 2, "\x1f\x8b"},
        {0, 6,
         "\xfd"
         "7zXZ\0"},
        {0, 4, "\x28\xb5\x2f\xfd"},
        {0, 4, "\x04\x22\x4d\x18"},
        {0, 2, "\x1f\x9d"},
        {0, 4, "PK\x03\x04"},
        {257, 5, "ustar"},
        {0, 6, "070701"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(magics); i++) {
        if (has_magic(head, magics[i].offset, magics[i].magic, magics[i].len)) {
            return true;
        }
    }
    return has_magic(head, 0, "BZh", 3) && head.len > 10 && head.ptr[4] == '1';
}

/* More than one byte in ten is no text. Exports of the journal have binary fields, but few. */
static bool is_binary(struct span head)
{
    size_t odd = 0;
    for (size_t i = 0; i < head.len; i++) {
        unsigned char c = (unsigned char)head.ptr[i];
        odd += c < 0x20 && c != '\n' && c != '\t' && c != '\r' && c != 0x1b && c != '\b';
    }
    return odd * 10 > head.len;
}

enum rg_content rg_content_of(struct span head)
{
    if (head.len == 0) {
        return RG_CONTENT_EMPTY;
    }
    if (is_archive(head)) {
        return RG_CONTENT_ARCHIVE;
    }
    if (has_magic(head, 0, "LPKSHHRH", 8)) {
        return RG_CONTENT_JOURNAL;
    }
    if (rg_utf16_order_of(head) != RG_UTF16_NONE) {
        return RG_CONTENT_UTF16;
    }
    return is_binary(head) ? RG_CONTENT_BINARY : RG_CONTENT_LOG;
}
