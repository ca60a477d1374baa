/*
 * The line splitter. One buffer of line_max + BUFFER_BYTES; what is left of an unfinished line
 * moves to its front before more is read.
 */
#include "diag/line.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (256 << 10)

struct rg_lines {
    struct rg_stream stream;
    size_t line_max;
    size_t room;
    char *buffer;
    size_t start; /* of what was not returned yet */
    size_t end;
    size_t searched; /* no line end between start and here */
    uint64_t number;
    bool ended;
    bool skipping; /* the rest of a line beyond the ceiling */
    bool dirty;    /* the buffer may hold bytes that rg_line_clean removes */
    int failed;    /* the stream's negative code, kept until the buffer is used up */
    struct rg_error error;
};

void rg_lines_free(struct rg_lines *lines)
{
    if (lines) {
        free(lines->buffer);
        free(lines);
    }
}

void rg_lines_restart(struct rg_lines *lines, const struct rg_stream *stream)
{
    char *buffer = lines->buffer;
    *lines = (struct rg_lines){
        .stream = *stream, .line_max = lines->line_max, .room = lines->room, .buffer = buffer};
}

int rg_lines_new(const struct rg_stream *stream, size_t line_max, struct rg_lines **ret_lines,
                 struct rg_error *err)
{
    struct rg_lines *lines = calloc(1, sizeof(*lines));
    char *buffer = malloc(line_max + BUFFER_BYTES);
    if (!lines || !buffer) {
        free(lines);
        free(buffer);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    lines->line_max = line_max;
    lines->room = line_max + BUFFER_BYTES;
    lines->buffer = buffer;
    rg_lines_restart(lines, stream);
    *ret_lines = lines;
    return 0;
}

/* Bytes that make cleaning worth a look at each line. */
static bool has_dirt(const char *bytes, size_t len)
{
    return memchr(bytes, 0, len) || memchr(bytes, 0x1b, len) || memchr(bytes, '\r', len) ||
           memchr(bytes, '\b', len);
}

/* Reads once more; moves what is left to the front first. Ends and failures are remembered. */
static void fill(struct rg_lines *lines)
{
    if (lines->start > 0) {
        memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
        lines->searched -= lines->start;
        lines->end -= lines->start;
        lines->start = 0;
        lines->dirty = lines->dirty && lines->end > 0;
    }
    ssize_t got = lines->stream.read(lines->stream.context, lines->buffer + lines->end,
                                     lines->room - lines->end, &lines->error);
    if (got <= 0) {
        lines->ended = true;
        lines->failed = (int)got;
        return;
    }
    lines->dirty = lines->dirty || has_dirt(lines->buffer + lines->end, (size_t)got);
    lines->end += (size_t)got;
}

/* The last error of the stream, once everything before it is used up; else 0. */
static int report_end(struct rg_lines *lines, struct rg_error *err)
{
    if (lines->failed < 0 && err) {
        *err = lines->error;
    }
    int failed = lines->failed;
    lines->failed = 0;
    return failed;
}

/* Skips the rest of a line that was cut. False at the end of the stream. */
static bool skip_rest(struct rg_lines *lines)
{
    for (;;) {
        char *from = lines->buffer + lines->start;
        char *newline = memchr(from, '\n', lines->end - lines->start);
        if (newline) {
            lines->start = (size_t)(newline - lines->buffer) + 1;
            lines->searched = lines->start;
            lines->skipping = false;
            return true;
        }
        lines->start = lines->end;
        lines->searched = lines->end;
        if (lines->ended) {
            return false;
        }
        fill(lines);
    }
}

static void give(struct rg_lines *lines, size_t len, struct rg_line *ret_line)
{
    char *line = lines->buffer + lines->start;
    size_t kept = RG_MIN(len, lines->line_max);
    if (++lines->number == 1 && kept >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        kept -= 3;
    }
    *ret_line = (struct rg_line){.ptr = line,
                                 .len = lines->dirty ? rg_line_clean(line, kept) : kept,
                                 .number = lines->number,
                                 .truncated = len > lines->line_max};
}

int rg_lines_next(struct rg_lines *lines, struct rg_line *ret_line, struct rg_error *err)
{
    if (lines->skipping && !skip_rest(lines)) {
        return report_end(lines, err);
    }
    for (;;) {
        char *newline = memchr(lines->buffer + lines->searched, '\n', lines->end - lines->searched);
        if (newline) {
            size_t end = (size_t)(newline - lines->buffer);
            give(lines, end - lines->start, ret_line);
            lines->start = end + 1;
            lines->searched = lines->start;
            return 1;
        }
        lines->searched = lines->end;
        size_t len = lines->end - lines->start;
        if (len > lines->line_max) {
            give(lines, len, ret_line);
            lines->start = lines->end;
            lines->skipping = true;
            return 1;
        }
        if (lines->ended) {
            if (len == 0) {
                return report_end(lines, err);
            }
            give(lines, len, ret_line);
            ret_line->unfinished = true;
            lines->start = lines->end;
            lines->searched = lines->end;
            return 1;
        }
        fill(lines);
    }
}

int64_t rg_lines_raw(struct rg_lines *lines, char *bytes, size_t room, uint64_t len,
                     struct rg_error *err)
{
    uint64_t done = 0;
    while (done < len) {
        size_t there = lines->end - lines->start;
        if (there == 0) {
            if (lines->ended) {
                int failed = report_end(lines, err);
                return failed < 0 ? failed : (int64_t)done;
            }
            fill(lines);
            continue;
        }
        size_t take = there < len - done ? there : (size_t)(len - done);
        if (done < room) {
            memcpy(bytes + done, lines->buffer + lines->start, RG_MIN(take, (size_t)(room - done)));
        }
        lines->start += take;
        lines->searched = lines->start;
        done += take;
    }
    return (int64_t)done;
}

int rg_lines_peek(struct rg_lines *lines, size_t want, struct span *ret_bytes, struct rg_error *err)
{
    want = RG_MIN(want, (size_t)BUFFER_BYTES);
    while (lines->end - lines->start < want && !lines->ended) {
        fill(lines);
    }
    if (lines->end == lines->start && lines->failed < 0) {
        return report_end(lines, err);
    }
    *ret_bytes = rg_span(lines->buffer + lines->start, RG_MIN(want, lines->end - lines->start));
    return 0;
}

/* How many bytes the escape sequence at the start takes (ECMA-48: CSI, OSC, two-byte ones). */
static size_t escape_length(const char *text, size_t len)
{
    if (len < 2) {
        return len;
    }
    size_t i = 2;
    if (text[1] == '[') {
        while (i < len && !(text[i] >= 0x40 && text[i] <= 0x7e)) {
            i++;
        }
        return i < len ? i + 1 : len;
    }
    if (text[1] == ']') {
        while (i < len && text[i] != '\a' && text[i] != 0x1b) {
            i++;
        }
        if (i < len && text[i] == 0x1b) {
            i++;
        }
        return i < len ? i + 1 : len;
    }
    return text[1] == '(' || text[1] == ')' ? RG_MIN(len, (size_t)3) : 2;
}

size_t rg_line_clean(char *line, size_t len)
{
    if (!has_dirt(line, len)) {
        return len;
    }
    while (len > 0 && line[len - 1] == '\r') {
        len--;
    }
    size_t out = 0;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == 0x1b) {
            i += escape_length(line + i, len - i) - 1;
        } else if (line[i] == '\b') {
            out -= out > 0; /* man pages and serial consoles overstrike */
        } else {
            line[out++] = line[i] == 0 || line[i] == '\r' ? ' ' : line[i];
        }
    }
    return out;
}

/* "#ooo" of a control character. */
static bool is_escape(const char *text)
{
    return text[0] == '#' && text[1] == '0' && text[2] >= '0' && text[2] <= '3' && text[3] >= '0' &&
           text[3] <= '7';
}

size_t rg_line_unescape(char *text, size_t len)
{
    char *from = memchr(text, '#', len);
    if (!from) {
        return len;
    }
    size_t out = (size_t)(from - text);
    for (size_t i = out; i < len; i++) {
        if (i + 3 < len && is_escape(text + i)) {
            text[out++] = ' ';
            i += 3;
        } else {
            text[out++] = text[i];
        }
    }
    return out;
}
