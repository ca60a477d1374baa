/*
 * UTF-16 as UTF-8: logs that were saved on Windows (a terminal's window, PowerShell's ">").
 *
 * Converts itself: iconv(3) needs modules beside the C library that a minimal host does not have.
 */
#ifndef RG_DIAG_UTF16_H
#define RG_DIAG_UTF16_H

#include "diag/line.h"

#define RG_UTF16_BATCH 4096 /* bytes of input converted at once */

enum rg_utf16_order { RG_UTF16_NONE, RG_UTF16_LITTLE, RG_UTF16_BIG };

struct rg_utf16 {
    struct rg_stream inner;
    enum rg_utf16_order order;
    unsigned char raw[RG_UTF16_BATCH];
    size_t raw_len; /* left over: an odd byte */
    uint32_t high;  /* a high surrogate that waits for its other half; 0: none */
    bool ended;
    char text[RG_UTF16_BATCH * 2];
    size_t text_len;
    size_t text_at;
};

/* By the byte order mark, or, where nearly all are Latin letters, by the zeros between them. */
enum rg_utf16_order rg_utf16_order_of(struct span head);

/* `utf16` is zeroed but for inner and order. Halves of surrogates and an odd last byte become
 * U+FFFD. */
struct rg_stream rg_utf16_stream(struct rg_utf16 *utf16);

#endif
