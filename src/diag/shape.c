/*
 * Recognising shapes. The first byte of a line decides which readers are tried, so that the usual
 * ones cost one look; a line that no reader knows is tried again behind a "NODE: " prefix, and then
 * without the marks of Markdown.
 */
#include "diag/shape.h"

#include "base/attr.h"
#include "base/checked.h"

#include "diag/journal.h"
#include "diag/line.h"
#include "diag/stamp.h"

#include <string.h>

#define HOST_BYTES_MAX   253
#define PREFIX_BYTES_MAX 300
#define TAG_BYTES_MAX    128
#define BOOT_USEC_MAX    UINT64_C(100000000000000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_host_byte(char c)
{
    static const bool is[256] = {
        ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
        ['-'] = true,         ['.'] = true,         ['_'] = true,
    };
    return is[(unsigned char)c];
}

bool rg_shape_is_host(struct span word)
{
    if (word.len == 0 || word.len > HOST_BYTES_MAX || !(is_host_byte(word.ptr[0])) ||
        word.ptr[0] == '-' || word.ptr[0] == '.') {
        return false;
    }
    for (size_t i = 1; i < word.len; i++) {
        if (!is_host_byte(word.ptr[i])) {
            return false;
        }
    }
    return true;
}

/* Hosts of syslog lines may also be addresses, IPv6 ones included. */
static bool is_syslog_host(struct span word)
{
    if (rg_shape_is_host(word)) {
        return true;
    }
    if (word.len < 2 || word.len > 45 || word.ptr[word.len - 1] == ':') {
        return false;
    }
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        if (!is_digit(c) && !(c >= 'a' && c <= 'f') && c != ':' && c != '.') {
            return false;
        }
    }
    return true;
}

static struct span skip_spaces(struct span text)
{
    while (text.len > 0 && text.ptr[0] == ' ') {
        text = rg_span_skip(text, 1);
    }
    return text;
}

/* The bytes before the first space; *rest begins behind it. */
static struct span take_word(struct span *rest)
{
    const char *space = memchr(rest->ptr, ' ', rest->len);
    size_t len = space ? (size_t)(space - rest->ptr) : rest->len;
    struct span word = rg_span_head(*rest, len);
    *rest = rg_span_skip(*rest, space ? len + 1 : len);
    return word;
}

/* ---- "TAG[PID]: " ---- */

/* Takes the tag off *text when one is there; else leaves all alone and returns false. */
static bool take_tag(struct span *text, struct span *ret_program)
{
    size_t most = RG_MIN(text->len, (size_t)TAG_BYTES_MAX);
    size_t i = 0;
    while (i < most && text->ptr[i] != ':' && text->ptr[i] != '[' && text->ptr[i] != ' ') {
        i++;
    }
    if (i == 0 || i == most || text->ptr[i] == ' ') {
        return false;
    }
    size_t name = i;
    if (text->ptr[i] == '[') {
        while (i < most && text->ptr[i] != ']' && text->ptr[i] != ' ') {
            i++;
        }
        if (i == most || text->ptr[i] != ']') {
            return false;
        }
        i++;
    }
    if (i < text->len && text->ptr[i] != ':') {
        return false;
    }
    *ret_program = rg_span_head(*text, name);
    *text = skip_spaces(rg_span_skip(*text, i + 1));
    return true;
}

static void set_program(struct rg_shaped *shaped, struct span program)
{
    shaped->program = program;
    shaped->speaker = rg_span_is(program, "kernel") ? RG_SPEAKER_KERNEL : RG_SPEAKER_PROGRAM;
}

void rg_shape_read_inner(struct rg_shaped *shaped)
{
    if (shaped->text.len > 0 && shaped->text.ptr[0] == '[' &&
        shaped->second.kind == RG_STAMP_NONE) {
        size_t taken = rg_stamp_read_boot(shaped->text, &shaped->second);
        shaped->text = rg_span_skip(shaped->text, taken);
    }
}

/* "HOST TAG[PID]: text", "HOST text" or "TAG: text", behind a stamp. */
static void read_host_and_tag(struct rg_shaped *shaped, struct span rest)
{
    struct span text = rest;
    struct span program = RG_SPAN_EMPTY;
    struct span host = take_word(&text);
    if (!is_syslog_host(host)) {
        host = RG_SPAN_EMPTY;
        text = rest;
    }
    shaped->host = host;
    if (take_tag(&text, &program)) {
        set_program(shaped, program);
    } else if (host.len == 0) {
        shaped->speaker = RG_SPEAKER_UNKNOWN;
    }
    shaped->text = text;
    rg_shape_read_inner(shaped);
}

/* ---- Shapes, by their first bytes; each returns whether the line is of it ---- */

static bool starts_with_kernel_tag(struct span text)
{
    return text.len > 8 && memcmp(text.ptr, "kernel: ", 8) == 0;
}

/* journalctl -o short-monotonic: "[seconds] HOST kernel: text". Most lines have a first word that
 * can be no host: it ends in a colon. */
static void take_kernel_host(struct rg_shaped *shaped)
{
    struct span text = shaped->text;
    size_t len = 0;
    while (len < text.len && is_host_byte(text.ptr[len])) {
        len++;
    }
    if (len < text.len && text.ptr[len] == ' ' &&
        starts_with_kernel_tag(rg_span_skip(text, len + 1)) &&
        rg_shape_is_host(rg_span_head(text, len))) {
        shaped->host = rg_span_head(text, len);
        shaped->text = rg_span_skip(text, len + 1 + 8);
    }
}

static bool read_dmesg(struct span line, struct rg_shaped *shaped)
{
    size_t taken = rg_stamp_read_boot(line, &shaped->stamp);
    if (taken == 0) {
        return false;
    }
    shaped->shape = RG_SHAPE_DMESG;
    shaped->speaker = RG_SPEAKER_KERNEL;
    shaped->text = rg_span_skip(line, taken);
    take_kernel_host(shaped);
    return true;
}

static bool read_dmesg_time(struct span line, struct rg_shaped *shaped)
{
    size_t taken = rg_stamp_read_ctime(line, &shaped->stamp);
    if (taken == 0) {
        return false;
    }
    shaped->shape = RG_SHAPE_DMESG_TIME;
    shaped->speaker = RG_SPEAKER_KERNEL;
    shaped->text = rg_span_skip(line, taken);
    return true;
}

static bool read_syslog(struct span line, struct rg_shaped *shaped)
{
    size_t taken = rg_stamp_read_bsd(line, &shaped->stamp);
    if (taken == 0) {
        return false;
    }
    shaped->shape = RG_SHAPE_SYSLOG;
    read_host_and_tag(shaped, rg_span_skip(line, taken));
    return true;
}

static bool read_iso(struct span line, struct rg_shaped *shaped)
{
    size_t taken = rg_stamp_read_iso(line, &shaped->stamp);
    if (taken == 0) {
        return false;
    }
    struct span rest = skip_spaces(rg_span_skip(line, taken));
    if (shaped->stamp.computed) {
        shaped->shape = RG_SHAPE_DMESG_ISO;
        shaped->speaker = RG_SPEAKER_KERNEL;
        shaped->text = rest;
        return true;
    }
    shaped->shape = RG_SHAPE_ISO;
    read_host_and_tag(shaped, rest);
    return true;
}

/* journalctl -o short-full: "Sun 2026-11-29 19:46:55 UTC HOST TAG: text". */
static bool read_weekday_iso(struct span line, struct rg_shaped *shaped)
{
    return line.len > 14 && line.ptr[3] == ' ' && is_digit(line.ptr[4]) &&
           read_iso(rg_span_skip(line, 4), shaped);
}

static bool read_epoch(struct span line, struct rg_shaped *shaped)
{
    size_t taken = rg_stamp_read_epoch(line, &shaped->stamp);
    if (taken == 0) {
        return false;
    }
    shaped->shape = RG_SHAPE_EPOCH;
    read_host_and_tag(shaped, rg_span_skip(line, taken));
    return true;
}

/* A decimal number and the byte behind it. */
static bool take_number(struct span *rest, char end, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t i = 0;
    while (i < rest->len && i < 19 && is_digit(rest->ptr[i])) {
        number = number * 10 + (uint64_t)(rest->ptr[i++] - '0');
    }
    if (i == 0 || i == rest->len || rest->ptr[i] != end) {
        return false;
    }
    *rest = rg_span_skip(*rest, i + 1);
    *ret_number = number;
    return true;
}

/* /dev/kmsg: "PRI,SEQ,USEC,FLAGS[,more];text". */
static bool read_kmsg(struct span line, struct rg_shaped *shaped)
{
    struct span rest = line;
    uint64_t priority, sequence, usec;
    if (!take_number(&rest, ',', &priority) || !take_number(&rest, ',', &sequence) ||
        !take_number(&rest, ',', &usec) || usec > BOOT_USEC_MAX) {
        return false;
    }
    const char *semicolon = memchr(rest.ptr, ';', RG_MIN(rest.len, (size_t)64));
    if (!semicolon) {
        return false;
    }
    shaped->shape = RG_SHAPE_KMSG;
    shaped->stamp = (struct rg_stamp){.kind = RG_STAMP_BOOT, .usec = (int64_t)usec};
    shaped->priority = (int)(priority & 7);
    shaped->speaker = priority >> 3 == 0 ? RG_SPEAKER_KERNEL : RG_SPEAKER_PROGRAM;
    shaped->text = rg_span_skip(rest, (size_t)(semicolon - rest.ptr) + 1);
    return true;
}

/* ---- RFC 5424 ---- */

/* Structured data: "-" or bracketed elements with quoted values. False when it has no end. */
static bool skip_structured_data(struct span *rest)
{
    if (rest->len > 0 && rest->ptr[0] == '-') {
        *rest = skip_spaces(rg_span_skip(*rest, 1));
        return true;
    }
    size_t i = 0;
    bool quoted = false;
    if (rest->len == 0 || rest->ptr[0] != '[') {
        return false;
    }
    for (; i < rest->len; i++) {
        char c = rest->ptr[i];
        if (quoted && c == '\\') {
            i++;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && c == ']' && (i + 1 == rest->len || rest->ptr[i + 1] != '[')) {
            *rest = skip_spaces(rg_span_skip(*rest, i + 1));
            return true;
        }
    }
    return false;
}

/* "1 STAMP HOST APP PROCID MSGID SD text", behind the priority. */
static bool read_rfc5424(struct span rest, struct rg_shaped *shaped)
{
    rest = rg_span_skip(rest, 2);
    struct span stamp = take_word(&rest);
    if (!rg_span_is(stamp, "-") && rg_stamp_read_iso(stamp, &shaped->stamp) == 0) {
        return false;
    }
    shaped->stamp.computed = false;
    struct span host = take_word(&rest);
    struct span program = take_word(&rest);
    take_word(&rest); /* PROCID */
    take_word(&rest); /* MSGID */
    if (!skip_structured_data(&rest)) {
        return false;
    }
    if (rg_span_starts(rest, RG_SPAN_LITERAL("\xef\xbb\xbf"))) {
        rest = rg_span_skip(rest, 3);
    }
    shaped->shape = RG_SHAPE_RFC5424;
    shaped->host = is_syslog_host(host) ? host : RG_SPAN_EMPTY;
    if (!rg_span_is(program, "-")) {
        set_program(shaped, program);
    }
    shaped->text = rest;
    rg_shape_read_inner(shaped);
    return true;
}

/* "<PRI>" before dmesg -r, RFC 3164, RFC 5424 or bare text. */
static bool read_priority(struct span line, struct rg_shaped *shaped)
{
    struct span rest = rg_span_skip(line, 1);
    uint64_t priority;
    if (!take_number(&rest, '>', &priority) || priority > 191) {
        return false;
    }
    shaped->priority = (int)(priority & 7);
    if (rest.len > 2 && rest.ptr[0] == '1' && rest.ptr[1] == ' ' && read_rfc5424(rest, shaped)) {
        return true;
    }
    if (read_dmesg(rest, shaped) || read_dmesg_time(rest, shaped) || read_syslog(rest, shaped) ||
        read_iso(rest, shaped)) {
        return true;
    }
    shaped->shape = RG_SHAPE_DMESG;
    shaped->speaker = priority >> 3 == 0 ? RG_SPEAKER_KERNEL : RG_SPEAKER_UNKNOWN;
    shaped->text = rest;
    return true;
}

/* ---- lctl dk ---- */

static bool take_hex(struct span *rest, size_t digits, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (rest->len <= digits || rest->ptr[digits] != ':') {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        char c = rest->ptr[i];
        if (!is_digit(c) && !(c >= 'a' && c <= 'f')) {
            return false;
        }
        number = number * 16 + (uint64_t)(is_digit(c) ? c - '0' : c - 'a' + 10);
    }
    *rest = rg_span_skip(*rest, digits + 1);
    *ret_number = number;
    return true;
}

/* Bits of Lustre's debug mask (lustre/include/libcfs/libcfs_debug.h). */
enum {
    DEBUG_NET_ERROR = 0x100,
    DEBUG_WARNING = 0x400,
    DEBUG_ERROR = 0x20000,
    DEBUG_EMERGENCY = 0x40000,
    DEBUG_CONSOLE = 0x2000000,
};

static int priority_of_mask(uint64_t mask)
{
    if (mask & DEBUG_EMERGENCY) {
        return 0;
    }
    if (mask & (DEBUG_ERROR | DEBUG_NET_ERROR)) {
        return 3;
    }
    return mask & DEBUG_WARNING ? 4 : mask & DEBUG_CONSOLE ? 5 : 7;
}

/* "00000100:00020000:3.0F:1508144508.123456:0:2449:0:(client.c:2141:f()) text"; the text keeps
 * the site in parentheses. */
static bool read_lctl(struct span line, struct rg_shaped *shaped)
{
    struct span rest = line;
    uint64_t subsystem, mask;
    if (!take_hex(&rest, 8, &subsystem) || !take_hex(&rest, 8, &mask)) {
        return false;
    }
    struct span processor = rg_span_cut(&rest, ':');
    if (processor.len == 0 || processor.len > 16 || !rest.ptr) {
        return false;
    }
    size_t taken = rg_stamp_read_epoch(rest, &shaped->stamp);
    if (taken == 0 || taken >= rest.len || rest.ptr[taken] != ':') {
        return false;
    }
    rest = rg_span_skip(rest, taken + 1);
    for (int i = 0; i < 3; i++) { /* stack, PID, external PID */
        uint64_t number;
        if (!take_number(&rest, ':', &number)) {
            return false;
        }
    }
    shaped->shape = RG_SHAPE_LCTL;
    shaped->speaker = RG_SPEAKER_KERNEL;
    shaped->priority = priority_of_mask(mask);
    shaped->text = rest;
    return true;
}

/* ---- dmesg -x: "kern  :err   : [  533.840297] text" ---- */

static int priority_of_word(struct span word)
{
    static const char *const words[] = {"emerg", "alert",  "crit", "err",
                                        "warn",  "notice", "info", "debug"};
    for (int i = 0; i < 8; i++) {
        if (rg_span_is(word, words[i])) {
            return i;
        }
    }
    return -1;
}

static bool read_stamped(struct span line, struct rg_shaped *shaped);

static bool read_decoded_priority(struct span line, struct rg_shaped *shaped)
{
    struct span rest = line;
    struct span facility = rg_span_trim(rg_span_cut(&rest, ':'));
    if (!rest.ptr || facility.len < 3 || facility.len > 8) {
        return false;
    }
    int priority = priority_of_word(rg_span_trim(rg_span_cut(&rest, ':')));
    if (!rest.ptr || priority < 0 || !read_stamped(skip_spaces(rest), shaped)) {
        return false;
    }
    shaped->priority = priority;
    shaped->speaker = rg_span_is(facility, "kern") ? RG_SPEAKER_KERNEL : RG_SPEAKER_PROGRAM;
    return true;
}

/* ---- All of them ---- */

static bool read_json(struct span line, struct rg_shaped *shaped)
{
    /* The line is ours to change; spans only forbid it by type. */
    return rg_journal_read_json((char *)(uintptr_t)line.ptr, line.len, shaped);
}

/* A line with a stamp or a structure of its own. On false, *shaped may hold leftovers. */
static bool read_stamped(struct span line, struct rg_shaped *shaped)
{
    if (line.len < 8) {
        return false;
    }
    char first = line.ptr[0];
    if (first == '[') {
        return read_dmesg(line, shaped) || read_dmesg_time(line, shaped);
    }
    if (first == '<') {
        return read_priority(line, shaped);
    }
    if (is_digit(first) && (line.ptr[4] == '-' || line.ptr[2] == ':')) {
        return read_iso(line, shaped);
    }
    if (is_digit(first) || (first >= 'a' && first <= 'f')) {
        return read_lctl(line, shaped) || read_kmsg(line, shaped) || read_epoch(line, shaped);
    }
    if (first >= 'A' && first <= 'Z') {
        return read_syslog(line, shaped) || read_weekday_iso(line, shaped);
    }
    return first == '{' && read_json(line, shaped);
}

/* Field by field: for a whole that is assigned at once the compiler clears memory by an instruction
 * that takes longer to begin than all of this. */
static void reset(struct rg_shaped *shaped, struct span line)
{
    static const struct rg_stamp none;
    shaped->shape = RG_SHAPE_BARE;
    shaped->prefix = RG_SPAN_EMPTY;
    shaped->host = RG_SPAN_EMPTY;
    shaped->stamp = none;
    shaped->second = none;
    shaped->speaker = RG_SPEAKER_UNKNOWN;
    shaped->priority = -1;
    shaped->program = RG_SPAN_EMPTY;
    shaped->boot = RG_SPAN_EMPTY;
    shaped->text = line;
}

bool rg_shape_is_prefix(struct span word)
{
    struct span name = word;
    const char *slash = word.len > 0 ? memrchr(word.ptr, '/', word.len) : NULL;
    if (slash) {
        name = rg_span_skip(word, (size_t)(slash - word.ptr) + 1);
    }
    return rg_shape_is_host(name);
}

static bool starts_lustre(struct span text)
{
    return rg_span_starts(text, RG_SPAN_LITERAL("Lustre: ")) ||
           rg_span_starts(text, RG_SPAN_LITERAL("LustreError: ")) ||
           rg_span_starts(text, RG_SPAN_LITERAL("LNet: ")) ||
           rg_span_starts(text, RG_SPAN_LITERAL("LNetError: "));
}

/* "modprobe: FATAL: …": a tool that signs its messages; the catalogue knows them with the name. */
static bool starts_tool(struct span text)
{
    static const char *const tools[] = {
        "modprobe: ", "mount.lustre: ", "mkfs.lustre: ", "tunefs.lustre: "};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(tools); i++) {
        if (rg_span_starts(text, rg_span_text(tools[i]))) {
            return true;
        }
    }
    return false;
}

/* "systemd[1]: …" */
static bool starts_program(struct span text)
{
    const char *bracket = memchr(text.ptr, '[', RG_MIN(text.len, (size_t)TAG_BYTES_MAX));
    if (!bracket || !rg_shape_is_host(rg_span_head(text, (size_t)(bracket - text.ptr)))) {
        return false;
    }
    struct span pid = rg_span_skip(text, (size_t)(bracket - text.ptr) + 1);
    uint64_t number;
    return take_number(&pid, ']', &number) && rg_span_starts(pid, RG_SPAN_LITERAL(": "));
}

/* What follows a prefix and has no stamp: Lustre's own line, or one with the name of a program. */
static bool read_unstamped(struct span prefix, struct span rest, struct rg_shaped *shaped)
{
    struct span program = RG_SPAN_EMPTY;
    if (starts_lustre(rest)) {
        shaped->speaker = RG_SPEAKER_KERNEL;
    } else if (rg_span_is(prefix, "kernel")) {
        return false;
    } else if (starts_tool(rest)) {
        shaped->speaker = RG_SPEAKER_PROGRAM;
    } else if ((starts_program(rest) || starts_with_kernel_tag(rest)) &&
               take_tag(&rest, &program)) {
        set_program(shaped, program);
    } else {
        return false;
    }
    shaped->text = rest;
    return true;
}

/* A prefix counts when what follows has a stamp, is a line of Lustre's that lost its own, or names
 * the program that speaks. */
static bool read_prefixed(struct span line, struct rg_shaped *shaped)
{
    const char *colon = memchr(line.ptr, ':', RG_MIN(line.len, (size_t)PREFIX_BYTES_MAX));
    if (!colon) {
        return false;
    }
    struct span prefix = rg_span_head(line, (size_t)(colon - line.ptr));
    struct span rest = rg_span_skip(line, prefix.len + 1);
    bool spaced = rest.len > 0 && (rest.ptr[0] == ' ' || rest.ptr[0] == '\t');
    rest = spaced ? rg_span_skip(rest, 1) : rest;
    if (!rg_shape_is_prefix(prefix)) {
        return false;
    }
    if (read_stamped(rest, shaped) || read_decoded_priority(rest, shaped)) {
        shaped->prefix = prefix;
        return true;
    }
    reset(shaped, line);
    if (!spaced || starts_lustre(line) || !read_unstamped(prefix, rest, shaped)) {
        return false;
    }
    shaped->prefix = prefix;
    return true;
}

static bool is_mark(char c)
{
    return c == '>' || c == '*' || c == '`' || c == ' ' || c == '\t' || c == '|' || c == '-' ||
           c == '+';
}

/* Marks of Markdown, mail and diffs around a line. */
static struct span without_marks(struct span line)
{
    while (line.len > 0 && is_mark(line.ptr[0])) {
        line = rg_span_skip(line, 1);
    }
    while (line.len > 0 && (line.ptr[line.len - 1] == '`' || line.ptr[line.len - 1] == '*' ||
                            line.ptr[line.len - 1] == ' ' || line.ptr[line.len - 1] == '|')) {
        line.len--;
    }
    return line;
}

static bool read_any(struct span line, struct rg_shaped *shaped)
{
    reset(shaped, line);
    if (read_stamped(line, shaped)) {
        return true;
    }
    reset(shaped, line);
    if (read_prefixed(line, shaped)) {
        return true;
    }
    reset(shaped, line);
    if (read_decoded_priority(line, shaped)) {
        return true;
    }
    reset(shaped, line);
    return false;
}

static void unescape(struct rg_shaped *shaped)
{
    if (shaped->shape != RG_SHAPE_DMESG && memchr(shaped->text.ptr, '#', shaped->text.len)) {
        shaped->text.len = rg_line_unescape((char *)(uintptr_t)shaped->text.ptr, shaped->text.len);
    }
}

void rg_shape_read(char *line, size_t len, struct rg_shaped *ret_shaped)
{
    struct span whole = rg_span(line, len);
    if (!read_any(whole, ret_shaped) && len > 0 && (is_mark(line[0]) || line[len - 1] == '`')) {
        struct span bare = without_marks(whole);
        if (!read_any(bare, ret_shaped)) {
            ret_shaped->text = bare;
        }
    }
    if (ret_shaped->shape == RG_SHAPE_BARE && starts_lustre(ret_shaped->text)) {
        ret_shaped->speaker = RG_SPEAKER_KERNEL;
    }
    unescape(ret_shaped);
}
