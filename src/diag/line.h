/*
 * Cuts a stream of bytes into lines, in bounded memory and without copying them: a line is lent
 * from the reader's own buffer and may be changed in place.
 *
 * It knows nothing of what is in a line beyond what terminals and transports add to it: NUL bytes,
 * colours, carriage returns, byte order marks.
 */
#ifndef RG_DIAG_LINE_H
#define RG_DIAG_LINE_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RG_LINE_BYTES_MAX (64 << 10)

/* Where bytes come from. */
struct rg_stream {
    /* Fills up to `room` bytes: how many, 0 at the end, or a negative code. */
    ssize_t (*read)(void *context, char *bytes, size_t room, struct rg_error *err);
    void *context;
};

struct rg_line {
    char *ptr; /* without its end; valid until the next call */
    size_t len;
    uint64_t number; /* from 1 */
    bool truncated;  /* it was longer than the ceiling: the rest was dropped */
    bool unfinished; /* the stream ended without a line end */
};

struct rg_lines;

/* The stream is borrowed. No line is longer than `line_max` bytes. */
int rg_lines_new(const struct rg_stream *stream, size_t line_max, struct rg_lines **ret_lines,
                 struct rg_error *err);
void rg_lines_free(struct rg_lines *lines);

/* Starts over with another stream; line numbers begin at 1 again. */
void rg_lines_restart(struct rg_lines *lines, const struct rg_stream *stream);

/*
 * The next line: 1, 0 at the end, or the stream's negative code (lines read before it have been
 * returned). NUL bytes have become spaces; escape sequences of terminals and carriage returns are
 * gone.
 */
int rg_lines_next(struct rg_lines *lines, struct rg_line *ret_line, struct rg_error *err);

/*
 * Raw bytes behind the last line, for formats that count them: copies the first `room` of `len`
 * bytes to `bytes` and drops the rest. Returns how many of `len` there were before the end, or a
 * negative code.
 */
int64_t rg_lines_raw(struct rg_lines *lines, char *bytes, size_t room, uint64_t len,
                     struct rg_error *err);

/* The first bytes that the next line will begin with, at most `want`; for recognising formats. The
 * span is shorter at the end of the stream. */
int rg_lines_peek(struct rg_lines *lines, size_t want, struct span *ret_bytes,
                  struct rg_error *err);

/* In place; exposed for tests. Returns the new length. */
size_t rg_line_clean(char *line, size_t len);

/* rsyslog's escapes of control characters: "#011", "#012" and the like become spaces, in place.
 * Returns the new length. */
size_t rg_line_unescape(char *text, size_t len);

#endif
