/*
 * What names of files tell, and nothing else: no file is opened here.
 */
#include "diag/paths.h"

#include "base/attr.h"
#include "base/checked.h"
#include "diag/shape.h"

#include <string.h>

#define RANK_NUMBERED INT64_C(1000000000)

/* ---- Rotation ---- */

static bool all_digits(struct span word)
{
    uint64_t number;
    return word.len > 0 && word.len <= 18 && rg_span_to_u64(word, &number);
}

static struct span without_compression(struct span name)
{
    static const char *const endings[] = {".gz", ".xz", ".bz2", ".zst", ".lz4", ".Z"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(endings); i++) {
        struct span ending = rg_span_text(endings[i]);
        if (name.len > ending.len && rg_span_ends(name, ending)) {
            return rg_span_head(name, name.len - ending.len);
        }
    }
    return name;
}

/* "messages-20261101", "messages-2026-11-01": the date, or 0. */
static int64_t take_date(struct span *name)
{
    int64_t date = 0;
    size_t digits = 0;
    size_t i = name->len;
    int64_t scale = 1;
    while (i > 0 && digits < 8) {
        char c = name->ptr[i - 1];
        if (c >= '0' && c <= '9') {
            date += (c - '0') * scale;
            scale *= 10;
            digits++;
        } else if (c != '-' || (digits != 2 && digits != 4)) {
            break;
        }
        i--;
    }
    if (digits != 8 || i < 2 || (name->ptr[i - 1] != '-' && name->ptr[i - 1] != '.') ||
        date < 19900101 || date > 21001231 || date / 100 % 100 < 1 || date / 100 % 100 > 12 ||
        date % 100 < 1 || date % 100 > 31) {
        return 0;
    }
    *name = rg_span_head(*name, i - 1);
    return date;
}

struct span rg_rotation_of(struct span name, int64_t *ret_rank)
{
    struct span stem = without_compression(name);
    *ret_rank = RG_RANK_BARE;
    int64_t date = take_date(&stem);
    if (date != 0) {
        *ret_rank = date;
        return stem;
    }
    const char *dot = stem.len > 0 ? memrchr(stem.ptr, '.', stem.len) : NULL;
    if (!dot || dot == stem.ptr) {
        return stem;
    }
    struct span head = rg_span_head(stem, (size_t)(dot - stem.ptr));
    struct span last = rg_span_skip(stem, head.len + 1);
    uint64_t age;
    if (rg_span_is(last, "old")) {
        *ret_rank = RANK_NUMBERED - 1;
        return head;
    }
    if (all_digits(last) && last.len <= 4 && rg_span_to_u64(last, &age)) {
        *ret_rank = RANK_NUMBERED - (int64_t)age;
        return head;
    }
    return stem;
}

/* ---- Reports of sos ---- */

bool rg_sos_is_log(struct span path)
{
    static const char *const starts[] = {
        "sos_commands/host/date",
        "sos_commands/date/date",
        "sos_commands/host/uptime",
        "sos_commands/general/date",
        "sos_commands/general/uptime",
        "sos_commands/kernel/dmesg",
        "sos_commands/logs/journalctl",
        "sos_commands/lustre/",
        "sos_commands/infiniband/",
        "sos_commands/lnet/",
        "var/log/messages",
        "var/log/syslog",
        "var/log/kern",
        "var/log/dmesg",
        "var/log/cluster/",
        "var/log/pacemaker/",
        "var/log/lustre",
        "var/log/boot.log",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(starts); i++) {
        if (rg_span_starts(path, rg_span_text(starts[i]))) {
            return true;
        }
    }
    return rg_span_starts(path, RG_SPAN_LITERAL("var/crash/")) &&
           rg_span_ends(path, RG_SPAN_LITERAL("dmesg.txt"));
}

/* ---- Names in paths ---- */

/* Words of file names that name a kind of log and no host. */
static bool is_log_word(struct span word)
{
    static const char *const words[] = {
        "log",      "logs",       "txt",          "text",    "gz",     "xz",
        "bz2",      "zst",        "lz4",          "zip",     "tar",    "tgz",
        "txz",      "json",       "jsonl",        "export",  "out",    "dmesg",
        "messages", "message",    "syslog",       "kern",    "kernel", "kmsg",
        "journal",  "journalctl", "console",      "serial",  "lustre", "lnet",
        "lctl",     "dk",         "debug",        "ctime",   "old",    "bak",
        "var",      "tmp",        "boot",         "daemon",  "user",   "vmcore",
        "crash",    "sos",        "sosreport",    "reports", "report", "supportconfig",
        "stdin",    "conman",     "all",          "full",    "raw",    "iso",
        "short",    "precise",    "vmcore-dmesg", "host",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(words); i++) {
        if (rg_span_is_nocase(word, words[i])) {
            return true;
        }
    }
    return false;
}

static bool is_number(struct span word)
{
    uint64_t number;
    return rg_span_to_u64(word, &number);
}

static bool is_separator(char c)
{
    return c == '.' || c == '-' || c == '_';
}

/* The last word of a name and what separates it. */
static struct span last_word(struct span name)
{
    size_t start = name.len;
    while (start > 0 && !is_separator(name.ptr[start - 1])) {
        start--;
    }
    return rg_span_skip(name, start);
}

static struct span first_word(struct span name)
{
    size_t len = 0;
    while (len < name.len && !is_separator(name.ptr[len])) {
        len++;
    }
    return rg_span_head(name, len);
}

static struct span drop_word_behind(struct span name, size_t len)
{
    name.len -= len;
    while (name.len > 0 && is_separator(name.ptr[name.len - 1])) {
        name.len--;
    }
    return name;
}

static struct span drop_word_before(struct span name, size_t len)
{
    name = rg_span_skip(name, len);
    while (name.len > 0 && is_separator(name.ptr[0])) {
        name = rg_span_skip(name, 1);
    }
    return name;
}

/* The name without words of logs at both ends; numbers (dates, rotations) go with them. */
static struct span strip_log_words(struct span name)
{
    bool stripped = false;
    for (;;) {
        struct span last = last_word(name);
        struct span first = first_word(name);
        if (name.len == 0) {
            return name;
        }
        if (is_log_word(last)) {
            name = drop_word_behind(name, last.len);
        } else if (is_log_word(first)) {
            name = drop_word_before(name, first.len);
        } else if (is_number(last) && (stripped || last.len >= 8)) {
            name = drop_word_behind(name, last.len);
        } else if (is_number(last) && name.len > last.len) {
            /* "dmesg.1": only when a word of logs is in front of the number. */
            struct span before = drop_word_behind(name, last.len);
            if (!is_log_word(last_word(before))) {
                return name;
            }
            name = before;
        } else {
            return name;
        }
        stripped = true;
    }
}

static bool has_letter(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = (char)(name.ptr[i] | 0x20);
        if (c >= 'a' && c <= 'z') {
            return true;
        }
    }
    return false;
}

/* "sosreport-oss1-20261129-abcdef", "sosreport-oss1-case-2026-11-29-abcdef": the host. */
static struct span name_of_sos(struct span name)
{
    struct span rest = name;
    rg_span_cut(&rest, '-');
    struct span whole = rest;
    for (size_t i = 0; i + 4 < rest.len; i++) {
        if (rest.ptr[i] == '-' && memcmp(rest.ptr + i + 1, "20", 2) == 0 &&
            rest.ptr[i + 3] >= '0' && rest.ptr[i + 3] <= '9' && rest.ptr[i + 4] >= '0' &&
            rest.ptr[i + 4] <= '9') {
            whole = rg_span_head(rest, i);
            break;
        }
    }
    /* A case number behind the host is digits. */
    struct span last = last_word(whole);
    return is_number(last) && last.len >= 6 ? drop_word_behind(whole, last.len) : whole;
}

static bool is_sos(struct span name)
{
    return rg_span_starts(name, RG_SPAN_LITERAL("sosreport-")) ||
           rg_span_starts(name, RG_SPAN_LITERAL("sos-"));
}

/* Directories of a host's own tree, which no host is called after. */
static bool is_common_directory(struct span name)
{
    static const char *const names[] = {
        "var",   "log",  "logs", "sos_commands", "kernel", "root",     "home", "systemd",
        "crash", "proc", "run",  "mnt",          "opt",    "srv",      "data", "tmp",
        "etc",   "usr",  "host", "networking",   "cases",  "downloads"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_span_is_nocase(name, names[i])) {
            return true;
        }
    }
    return false;
}

/* Whatever lies in a sos tree is of that tree's host. */
static struct span name_of_sos_tree(struct span path)
{
    while (path.ptr) {
        struct span part = rg_span_cut(&path, '/');
        if (is_sos(part)) {
            return name_of_sos(part);
        }
    }
    return RG_SPAN_EMPTY;
}

struct span rg_node_name_from_path(struct span path)
{
    struct span sos = name_of_sos_tree(path);
    if (sos.len > 0) {
        return sos;
    }
    bool file = true;
    while (path.len > 0) {
        const char *slash = memrchr(path.ptr, '/', path.len);
        size_t start = slash ? (size_t)(slash - path.ptr) + 1 : 0;
        struct span part = rg_span_skip(path, start);
        bool common = !file && is_common_directory(part);
        struct span name = common ? RG_SPAN_EMPTY : strip_log_words(part);
        if (has_letter(name) && rg_shape_is_host(name)) {
            return name;
        }
        path = rg_span_head(path, start > 0 ? start - 1 : 0);
        file = false;
    }
    return RG_SPAN_EMPTY;
}
