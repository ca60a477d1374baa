/*
 * Reading journal entries. JSON is scanned by hand: it must survive cut lines, megabytes of nesting
 * and bytes that are no UTF-8, and it must not copy.
 */
#include "diag/journal.h"

#include "base/attr.h"
#include "base/encode.h"

#include "diag/line.h"
#include "diag/stamp.h"

#include <string.h>

/* The year 2128: beyond lies garbage, and arithmetic that overflows. */
#define STAMP_USEC_MAX UINT64_C(5000000000000000)

/* ---- Fields ---- */

static void take_message(struct rg_shaped *shaped, struct span value)
{
    shaped->text = value;
    shaped->shape = RG_SHAPE_JSON;
}

/* Microseconds since 1970, as decimal text. Outranked by a stamp that is there already. */
static void take_realtime(struct rg_shaped *shaped, struct span value)
{
    uint64_t usec;
    if (shaped->stamp.kind == RG_STAMP_NONE && rg_span_to_u64(value, &usec) &&
        usec <= STAMP_USEC_MAX) {
        shaped->stamp = (struct rg_stamp){.kind = RG_STAMP_UTC, .usec = (int64_t)usec};
    }
}

static void take_source_realtime(struct rg_shaped *shaped, struct span value)
{
    shaped->stamp.kind = RG_STAMP_NONE;
    take_realtime(shaped, value);
}

static void take_monotonic(struct rg_shaped *shaped, struct span value)
{
    uint64_t usec;
    if (shaped->second.kind == RG_STAMP_NONE && rg_span_to_u64(value, &usec) &&
        usec <= STAMP_USEC_MAX) {
        shaped->second = (struct rg_stamp){.kind = RG_STAMP_BOOT, .usec = (int64_t)usec};
    }
}

static void take_source_monotonic(struct rg_shaped *shaped, struct span value)
{
    shaped->second.kind = RG_STAMP_NONE;
    take_monotonic(shaped, value);
}

static void take_boot(struct rg_shaped *shaped, struct span value)
{
    shaped->boot = rg_span_head(value, 64);
}

static void take_host(struct rg_shaped *shaped, struct span value)
{
    if (rg_shape_is_host(value)) {
        shaped->host = value;
    }
}

static void take_program(struct rg_shaped *shaped, struct span value)
{
    if (value.len > 0 && shaped->speaker == RG_SPEAKER_UNKNOWN) {
        shaped->program = rg_span_head(value, 128);
        shaped->speaker = rg_span_is(value, "kernel") ? RG_SPEAKER_KERNEL : RG_SPEAKER_PROGRAM;
    }
}

static void take_transport(struct rg_shaped *shaped, struct span value)
{
    if (rg_span_is(value, "kernel")) {
        shaped->speaker = RG_SPEAKER_KERNEL;
    }
}

static void take_priority(struct rg_shaped *shaped, struct span value)
{
    if (value.len == 1 && value.ptr[0] >= '0' && value.ptr[0] <= '7') {
        shaped->priority = value.ptr[0] - '0';
    }
}

/* What log shippers write: text with a zone, or seconds with a fraction. */
static void take_stamp_text(struct rg_shaped *shaped, struct span value)
{
    struct rg_stamp stamp;
    if (shaped->stamp.kind == RG_STAMP_NONE &&
        (rg_stamp_read_iso(value, &stamp) != 0 || rg_stamp_read_epoch(value, &stamp) != 0)) {
        stamp.computed = false;
        shaped->stamp = stamp;
    }
}

/* Those whose value the entry refers to stand first. */
static const struct {
    const char *name;
    void (*take)(struct rg_shaped *shaped, struct span value);
    bool keeps;
} fields[] = {
    {"MESSAGE", take_message, true},
    {"_HOSTNAME", take_host, true},
    {"_BOOT_ID", take_boot, true},
    {"SYSLOG_IDENTIFIER", take_program, true},
    {"__REALTIME_TIMESTAMP", take_realtime, false},
    {"__MONOTONIC_TIMESTAMP", take_monotonic, false},
    {"_SOURCE_REALTIME_TIMESTAMP", take_source_realtime, false},
    {"_SOURCE_MONOTONIC_TIMESTAMP", take_source_monotonic, false},
    {"_TRANSPORT", take_transport, false},
    {"PRIORITY", take_priority, false},
    /* Not the journal's. */
    {"message", take_message, true},
    {"msg", take_message, true},
    {"log", take_message, true},
    {"host", take_host, true},
    {"hostname", take_host, true},
    {"@timestamp", take_stamp_text, false},
    {"timestamp", take_stamp_text, false},
    {"time", take_stamp_text, false},
    {"ts", take_stamp_text, false},
};

static int find_field(struct span name)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(fields); i++) {
        if (rg_span_is(name, fields[i].name)) {
            return (int)i;
        }
    }
    return -1;
}

bool rg_journal_is_field(struct span name)
{
    if (name.len == 0 || name.len > 64) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_') {
            return false;
        }
    }
    return true;
}

void rg_journal_take(struct rg_shaped *shaped, struct span name, struct span value)
{
    int field = find_field(name);
    if (field >= 0) {
        fields[field].take(shaped, value);
    }
}

bool rg_journal_keeps(struct span name)
{
    int field = find_field(name);
    return field >= 0 && fields[field].keeps;
}

void rg_journal_begin(struct rg_shaped *shaped)
{
    *shaped = (struct rg_shaped){.prefix = RG_SPAN_EMPTY,
                                 .host = RG_SPAN_EMPTY,
                                 .speaker = RG_SPEAKER_UNKNOWN,
                                 .priority = -1,
                                 .program = RG_SPAN_EMPTY,
                                 .boot = RG_SPAN_EMPTY,
                                 .text = RG_SPAN_EMPTY};
}

/* A message that has an envelope of its own (a container's output, a relayed syslog line). */
static void read_envelope(struct rg_shaped *shaped)
{
    rg_shape_read_inner(shaped);
    char *text = (char *)(uintptr_t)shaped->text.ptr;
    if (shaped->stamp.kind != RG_STAMP_NONE || shaped->text.len == 0 || text[0] == '{') {
        return;
    }
    struct rg_shaped inner;
    rg_shape_read(text, shaped->text.len, &inner);
    if (inner.stamp.kind != RG_STAMP_NONE) {
        inner.shape = RG_SHAPE_JSON;
        inner.host = inner.host.len > 0 ? inner.host : shaped->host;
        *shaped = inner;
    }
}

bool rg_journal_finish(struct rg_shaped *shaped)
{
    if (shaped->shape != RG_SHAPE_JSON) {
        return false;
    }
    struct span text = shaped->text;
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == ' ')) {
        text.len--;
    }
    shaped->text = text;
    read_envelope(shaped);
    return true;
}

/* ---- JSON ---- */

struct scanner {
    char *at;
    char *end;
};

static void skip_blanks(struct scanner *scanner)
{
    while (scanner->at < scanner->end &&
           (*scanner->at == ' ' || *scanner->at == '\t' || *scanner->at == '\r')) {
        scanner->at++;
    }
}

static bool take_char(struct scanner *scanner, char c)
{
    skip_blanks(scanner);
    if (scanner->at >= scanner->end || *scanner->at != c) {
        return false;
    }
    scanner->at++;
    return true;
}

/* Four hexadecimal digits at `at`, or -1. */
static int32_t read_unit(const char *at, const char *end)
{
    int32_t unit = 0;
    if (end - at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int digit = rg_hex_digit(at[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

/* UTF-8 of a code point; never longer than the escape it comes from. */
static char *write_code_point(char *out, uint32_t point)
{
    if (point < 0x20) {
        *out++ = ' '; /* lines stay lines */
    } else if (point < 0x80) {
        *out++ = (char)point;
    } else if (point < 0x800) {
        *out++ = (char)(0xc0 | point >> 6);
        *out++ = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *out++ = (char)(0xe0 | point >> 12);
        *out++ = (char)(0x80 | (point >> 6 & 0x3f));
        *out++ = (char)(0x80 | (point & 0x3f));
    } else {
        *out++ = (char)(0xf0 | point >> 18);
        *out++ = (char)(0x80 | (point >> 12 & 0x3f));
        *out++ = (char)(0x80 | (point >> 6 & 0x3f));
        *out++ = (char)(0x80 | (point & 0x3f));
    }
    return out;
}

/* "\uXXXX" behind the backslash and the u; halves of pairs that stand alone become '?'. */
static char *read_unicode(struct scanner *scanner, char *out)
{
    int32_t unit = read_unit(scanner->at, scanner->end);
    if (unit < 0) {
        return out;
    }
    scanner->at += 4;
    if (unit >= 0xd800 && unit < 0xdc00 && scanner->end - scanner->at >= 6 &&
        scanner->at[0] == '\\' && scanner->at[1] == 'u') {
        int32_t low = read_unit(scanner->at + 2, scanner->end);
        if (low >= 0xdc00 && low < 0xe000) {
            scanner->at += 6;
            return write_code_point(out, 0x10000u + ((uint32_t)(unit - 0xd800) << 10) +
                                             (uint32_t)(low - 0xdc00));
        }
    }
    return write_code_point(out, unit >= 0xd800 && unit < 0xe000 ? '?' : (uint32_t)unit);
}

/* A string, its opening quote taken already; unescaped in place. A line that was cut ends it. */
static struct span read_string(struct scanner *scanner)
{
    char *start = scanner->at;
    char *out = start;
    while (scanner->at < scanner->end && *scanner->at != '"') {
        if (*scanner->at != '\\') {
            *out++ = *scanner->at++;
            continue;
        }
        if (++scanner->at == scanner->end) {
            break;
        }
        char c = *scanner->at++;
        if (c == 'u') {
            out = read_unicode(scanner, out);
        } else {
            *out++ = strchr("nrtbf", c) && c ? ' ' : c;
        }
    }
    scanner->at += scanner->at < scanner->end;
    return rg_span(start, (size_t)(out - start));
}

static void skip_string(struct scanner *scanner)
{
    while (scanner->at < scanner->end && *scanner->at != '"') {
        scanner->at += *scanner->at == '\\' ? 2 : 1;
    }
    scanner->at = scanner->at < scanner->end ? scanner->at + 1 : scanner->end;
}

/* Bytes as numbers: "[76,117,...]", its bracket taken already; packed in place. */
static struct span read_bytes(struct scanner *scanner)
{
    char *start = scanner->at;
    char *out = start;
    while (scanner->at < scanner->end && *scanner->at != ']') {
        int value = 0;
        char *digits = scanner->at;
        while (scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9' &&
               value < 256) {
            value = value * 10 + (*scanner->at++ - '0');
        }
        if (scanner->at == digits) {
            if (*scanner->at == '[' || *scanner->at == '{' || *scanner->at == '"') {
                break; /* not bytes after all */
            }
            scanner->at++;
        } else if (out < digits + 1 && value < 256) {
            *out++ = value < 0x20 ? ' ' : (char)value;
        }
    }
    return rg_span(start, (size_t)(out - start));
}

/* Everything up to the comma or brace behind a value, however deep. */
static void skip_value(struct scanner *scanner)
{
    size_t depth = 0;
    while (scanner->at < scanner->end) {
        char c = *scanner->at;
        if (depth == 0 && (c == ',' || c == '}')) {
            return;
        }
        scanner->at++;
        if (c == '"') {
            skip_string(scanner);
        } else if (c == '[' || c == '{') {
            depth++;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
}

/* A scalar that is not a string. */
static struct span read_scalar(struct scanner *scanner)
{
    char *start = scanner->at;
    while (scanner->at < scanner->end && *scanner->at != ',' && *scanner->at != '}' &&
           *scanner->at != ' ') {
        scanner->at++;
    }
    return rg_span(start, (size_t)(scanner->at - start));
}

static struct span read_value(struct scanner *scanner)
{
    skip_blanks(scanner);
    if (take_char(scanner, '"')) {
        return read_string(scanner);
    }
    if (take_char(scanner, '[')) {
        return read_bytes(scanner);
    }
    return scanner->at < scanner->end && *scanner->at != '{' ? read_scalar(scanner) : RG_SPAN_EMPTY;
}

/* One `"name": value`; only values that are wanted are decoded. */
static void read_member(struct scanner *scanner, struct rg_shaped *shaped)
{
    struct span name = read_string(scanner);
    if (!take_char(scanner, ':')) {
        return;
    }
    int field = find_field(name);
    if (field >= 0) {
        fields[field].take(shaped, read_value(scanner));
    }
    skip_value(scanner);
}

bool rg_journal_read_json(char *line, size_t len, struct rg_shaped *shaped)
{
    struct scanner scanner = {line, line + len};
    rg_journal_begin(shaped);
    if (!take_char(&scanner, '{')) {
        return false;
    }
    while (take_char(&scanner, '"')) {
        read_member(&scanner, shaped);
        if (!take_char(&scanner, ',')) {
            break;
        }
    }
    return rg_journal_finish(shaped);
}

bool rg_journal_read_member(char *line, size_t len, struct span *ret_name, struct span *ret_value)
{
    struct scanner scanner = {line, line + len};
    if (!take_char(&scanner, '"')) {
        return false;
    }
    *ret_name = read_string(&scanner);
    if (!take_char(&scanner, ':')) {
        return false;
    }
    *ret_value = read_value(&scanner);
    return true;
}
