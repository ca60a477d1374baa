/*
 * The state machine over the lines of one source. Each line is offered to those who wait for it (an
 * open export entry, a block's header, a wrapped line) and else read by its shape.
 */
#include "diag/reading.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"

#include "diag/collected.h"
#include "diag/journal.h"
#include "diag/paths.h"
#include "diag/prefixes.h"
#include "diag/stamp.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_NODES_MAX 1024 /* that dshbak may name above one block */
#define WRAPPED_MAX     2048
#define WRAPS_MAX       8
#define ENTRY_BYTES_MAX RG_LINE_BYTES_MAX
#define FIELD_BYTES_MAX (1u << 30) /* of a binary field; more is not an export */
#define DAY_USEC        (86400 * (int64_t)1000000)
#define HALF_YEAR_USEC  (180 * DAY_USEC)
#define MONTH_USEC      (31 * DAY_USEC)

enum block_state {
    BLOCK_NONE,
    BLOCK_RULE, /* "-----": a node list may follow */
    BLOCK_LIST, /* the list was there: a second rule must follow */
};

/* An entry of the journal that spans lines. */
struct entry {
    enum { ENTRY_NONE, ENTRY_EXPORT, ENTRY_PRETTY } kind;
    struct rg_shaped shaped;
    char *bytes; /* the values that shaped refers to */
    size_t len;
};

struct reading {
    struct rg_desk *desk;
    const struct rg_source_facts *facts;
    struct rg_lines *lines;
    uint64_t number; /* of the line at hand */
    bool truncated;

    /* Whoever spoke last, so that names are looked up only when they change. */
    char host[256];
    size_t host_len;
    rg_node_id host_node;

    enum block_state block;
    rg_node_id candidates[BLOCK_NODES_MAX];
    size_t candidate_count;
    rg_node_id block_nodes[BLOCK_NODES_MAX]; /* to whom the lines belong now */
    size_t block_count;

    struct rg_prefixes prefixes;

    int year; /* of stamps that have none; 0: not chosen yet */
    int64_t last_usec;
    int64_t reference_usec; /* as in facts, or what the journal says of its own end */
    int64_t least_usec;     /* no line is older: when the kernel was built; 0: not known */

    struct entry entry;

    char *wrapped; /* a line that may go on */
    size_t wrapped_len;
    size_t wrapped_width; /* of its last physical line */
    int wraps;
    uint64_t wrapped_number;
};

/* ---- Names ---- */

static rg_node_id node_of_host(struct reading *reading, struct span host)
{
    if (host.len == reading->host_len && memcmp(host.ptr, reading->host, host.len) == 0) {
        return reading->host_node;
    }
    rg_node_id node = rg_nodes_add(reading->desk->nodes, host);
    if (host.len <= sizeof(reading->host)) {
        memcpy(reading->host, host.ptr, host.len);
        reading->host_len = host.len;
        reading->host_node = node;
    }
    return node;
}

static bool is_anybody(struct span host)
{
    return rg_span_is(host, "localhost") || rg_span_is(host, "localhost.localdomain") ||
           rg_span_is(host, "(none)");
}

static rg_node_id pick_node(struct reading *reading, const struct rg_shaped *shaped)
{
    if (shaped->host.len > 0 && !is_anybody(shaped->host)) {
        return node_of_host(reading, shaped->host);
    }
    if (shaped->prefix.len > 0) {
        struct span name = rg_node_name_from_path(shaped->prefix);
        if (name.len > 0) {
            return node_of_host(reading, name);
        }
    }
    if (reading->block_count > 0) {
        return reading->block_nodes[0];
    }
    if (reading->facts->node == 0 && shaped->host.len > 0) {
        return node_of_host(reading, shaped->host);
    }
    return reading->facts->node;
}

/* ---- Years ---- */

/* The latest year that puts the stamp not after the reference, a day of grace for clocks. */
static int first_year(const struct reading *reading, int64_t usec)
{
    int year = rg_stamp_year(reading->reference_usec);
    bool later = rg_stamp_set_year(usec, year) > reading->reference_usec + DAY_USEC;
    return later ? year - 1 : year;
}

static void choose_year(struct reading *reading, struct rg_stamp *stamp)
{
    if (!stamp->year_guessed) {
        return;
    }
    if (reading->year == 0) {
        reading->year = first_year(reading, stamp->usec);
        reading->last_usec = rg_stamp_set_year(stamp->usec, reading->year);
    }
    int64_t usec = rg_stamp_set_year(stamp->usec, reading->year);
    if (usec < reading->last_usec - HALF_YEAR_USEC) {
        reading->year++; /* December, then January */
        usec = rg_stamp_set_year(stamp->usec, reading->year);
    } else {
        int64_t earlier = rg_stamp_set_year(stamp->usec, reading->year - 1);
        bool late =
            usec > reading->last_usec + HALF_YEAR_USEC && reading->last_usec - earlier < MONTH_USEC;
        usec = late ? earlier : usec; /* a line of December among those of January */
    }
    reading->last_usec = RG_MAX(reading->last_usec, usec);
    stamp->usec = usec;
}

/* The first year was the latest possible one; when the last stamp then lies behind the reference,
 * the source spans more years than that. */
static void correct_years(struct reading *reading)
{
    const struct rg_source_facts *facts = reading->facts;
    if (reading->year == 0 || !reading->desk->clocks) {
        return;
    }
    int years = 0;
    while (years < 100 && rg_stamp_set_year(reading->last_usec, reading->year - years) >
                              reading->reference_usec + DAY_USEC) {
        years++;
    }
    /* Built after the file was last changed: it was unpacked without its time. */
    while (years > -100 && reading->least_usec > 0 &&
           rg_stamp_set_year(reading->last_usec, reading->year - years) < reading->least_usec) {
        years--;
    }
    if (years != 0) {
        rg_clocks_shift_years(reading->desk->clocks, facts->source, -years);
    }
}

/* "Linux version 5.14.0 … #1 SMP PREEMPT_DYNAMIC Thu Nov 20 12:00:00 UTC 2025": the kernel was
 * built then, and what it says comes later. */
static void note_build(struct reading *reading, const struct rg_shaped *shaped)
{
    struct span text = shaped->text;
    if (text.len < 40 || text.ptr[0] != 'L' || !shaped->stamp.year_guessed ||
        memcmp(text.ptr, "Linux version ", 14) != 0) {
        return;
    }
    const char *number = memrchr(text.ptr, '#', text.len);
    struct rg_collected built = {.has_local = false};
    struct span date = rg_span_skip(text, number ? (size_t)(number - text.ptr) : text.len);
    while (date.len > 0) {
        rg_span_cut(&date, ' ');
        if (rg_collected_read_date(date, &built)) {
            reading->least_usec = RG_MAX(reading->least_usec, built.local_usec - DAY_USEC);
            return;
        }
    }
}

/* "-- Logs begin at Tue 2026-11-24 00:38:02 UTC, end at Sun 2026-11-29 23:45:24 UTC. --" */
static void note_journal_ends(struct reading *reading, struct span line)
{
    struct span rest = rg_span_skip(line, 3);
    if (!rg_span_starts(rest, RG_SPAN_LITERAL("Logs begin at ")) &&
        !rg_span_starts(rest, RG_SPAN_LITERAL("Journal begins at "))) {
        return;
    }
    while (rest.len > 0 && !rg_span_starts(rest, RG_SPAN_LITERAL("end"))) {
        rg_span_cut(&rest, ' ');
    }
    while (rest.len >= 19) {
        struct rg_stamp stamp;
        if (rg_stamp_read_iso(rg_span_head(rest, 19), &stamp) > 0) {
            reading->reference_usec = stamp.usec;
            return;
        }
        rg_span_cut(&rest, ' ');
    }
}

/* ---- Records ---- */

static bool comes_through_syslog(enum rg_shape shape)
{
    return shape == RG_SHAPE_SYSLOG || shape == RG_SHAPE_ISO || shape == RG_SHAPE_RFC5424 ||
           shape == RG_SHAPE_BARE;
}

static void skip_inner_stamp(struct rg_log_record *record)
{
    struct rg_stamp stamp;
    if (record->recalled && record->text.len > 0 && record->text.ptr[0] == '[') {
        record->text = rg_span_skip(record->text, rg_stamp_read_boot(record->text, &stamp));
    }
}

static void hand_on(struct reading *reading, const struct rg_shaped *shaped, rg_node_id node)
{
    struct rg_desk *desk = reading->desk;
    struct rg_log_record record; /* field by field, which is faster than clearing it first */
    record.node = node;
    record.boot = 0;
    record.source = reading->facts->source;
    record.line = reading->number;
    record.stamp = shaped->stamp;
    record.second = shaped->second;
    record.speaker = shaped->speaker;
    record.priority = shaped->priority;
    record.program = shaped->program;
    record.text = shaped->text;
    record.repeats = 0;
    record.recalled = false;
    record.prefixed = shaped->prefix.len > 0;
    record.truncated = reading->truncated;
    choose_year(reading, &record.stamp);
    rg_repeats_expand(desk->repeats, comes_through_syslog(shaped->shape), &record);
    skip_inner_stamp(&record);
    if (record.text.len == 0) {
        return; /* a repeated message of nothing but its stamp */
    }
    rg_boots_assign(desk->boots, reading->facts->family, shaped->boot, &record);
    desk->counts.records++;
    desk->counts.shapes[shaped->shape]++;
    desk->take(desk->context, &record);
}

static void hand_on_shaped(struct reading *reading, const struct rg_shaped *shaped)
{
    if (shaped->text.len == 0) {
        return;
    }
    note_build(reading, shaped);
    bool everyone = reading->block_count > 1 && shaped->host.len == 0 && shaped->prefix.len == 0;
    if (!everyone) {
        hand_on(reading, shaped, pick_node(reading, shaped));
        return;
    }
    for (size_t i = 0; i < reading->block_count; i++) {
        hand_on(reading, shaped, reading->block_nodes[i]);
    }
}

/* ---- Blocks: dshbak, clush -b, ansible, tail, journalctl's boots ---- */

static bool is_rule(struct span line)
{
    line = rg_span_trim(line);
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] != '-' && line.ptr[i] != '=') {
            return false;
        }
    }
    return line.len >= 4;
}

static void add_candidate(struct reading *reading, struct span name)
{
    if (reading->candidate_count < BLOCK_NODES_MAX && rg_shape_is_host(name)) {
        rg_node_id node = rg_nodes_add(reading->desk->nodes, name);
        if (node != 0) {
            reading->candidates[reading->candidate_count++] = node;
        }
    }
}

/* "node" + every number of "01-04,07" + ".domain". */
static void expand_range(struct reading *reading, struct span before, struct span ranges,
                         struct span behind)
{
    while (ranges.ptr) {
        struct span last = rg_span_cut(&ranges, ',');
        struct span first = rg_span_cut(&last, '-');
        uint64_t from, to;
        if (!rg_span_to_u64(first, &from) || first.len > 9) {
            return;
        }
        to = from;
        if (last.ptr && (!rg_span_to_u64(last, &to) || last.len > 9)) {
            return;
        }
        for (uint64_t i = from; i <= to && i - from < BLOCK_NODES_MAX; i++) {
            RG_BUF(name, 512);
            rg_buf_addf(&name, "%.*s%0*llu%.*s", RG_SPAN_ARG(before), (int)first.len,
                        (unsigned long long)i, RG_SPAN_ARG(behind));
            add_candidate(reading, rg_buf_span(&name));
        }
    }
}

/* One item of a node list: "node[01-04].site" or "node7". */
static void add_item(struct reading *reading, struct span item)
{
    ptrdiff_t open = rg_span_find(item, '[');
    ptrdiff_t close = rg_span_find(item, ']');
    if (open < 0 || close < open) {
        add_candidate(reading, item);
        return;
    }
    expand_range(reading, rg_span_head(item, (size_t)open),
                 rg_span(item.ptr + open + 1, (size_t)(close - open) - 1),
                 rg_span_skip(item, (size_t)close + 1));
}

/* "node[01-04],login1 (5)": true when it names nodes, which are the candidates then. */
static bool read_node_list(struct reading *reading, struct span line)
{
    reading->candidate_count = 0;
    line = rg_span_trim(line);
    ptrdiff_t count = rg_span_find(line, '(');
    if (count > 0) {
        line = rg_span_trim(rg_span_head(line, (size_t)count));
    }
    if (line.len == 0 || line.len > 4096 || rg_span_find(line, ' ') >= 0) {
        return false;
    }
    size_t start = 0;
    bool inside = false;
    for (size_t i = 0; i <= line.len; i++) {
        char c = i < line.len ? line.ptr[i] : ',';
        inside = c == '[' || (inside && c != ']');
        if (c == ',' && (!inside || i == line.len)) {
            add_item(reading, rg_span(line.ptr + start, i - start));
            start = i + 1;
        }
    }
    return reading->candidate_count > 0;
}

static void open_block(struct reading *reading)
{
    memcpy(reading->block_nodes, reading->candidates,
           reading->candidate_count * sizeof(reading->candidates[0]));
    reading->block_count = reading->candidate_count;
}

/* "node | CHANGED | rc=0 >>" */
static bool read_ansible_header(struct reading *reading, struct span line)
{
    const char *bar = memmem(line.ptr, line.len, " | ", 3);
    if (!bar || !(rg_span_ends(line, RG_SPAN_LITERAL(">>")) ||
                  rg_span_ends(line, RG_SPAN_LITERAL("=> {")))) {
        return false;
    }
    struct span name = rg_span_head(line, (size_t)(bar - line.ptr));
    reading->candidate_count = 0;
    if (rg_shape_is_host(name)) {
        add_candidate(reading, name);
        open_block(reading);
    }
    return true;
}

/* "==> /logs/node7/messages <==" of tail and head. */
static bool read_tail_header(struct reading *reading, struct span line)
{
    if (line.len <= 8 || !rg_span_starts(line, RG_SPAN_LITERAL("==> ")) ||
        !rg_span_ends(line, RG_SPAN_LITERAL(" <=="))) {
        return false;
    }
    struct span path = rg_span(line.ptr + 4, line.len - 8);
    reading->candidate_count = 0;
    add_candidate(reading, rg_node_name_from_path(path));
    open_block(reading);
    return true;
}

/* "-- Reboot --", "-- Boot 3b1f… --", "-- Logs begin at … --". */
static bool read_journal_rule(struct reading *reading, struct span line)
{
    if (line.len < 6 || memcmp(line.ptr, "-- ", 3) != 0) {
        return false;
    }
    struct span word = rg_span_skip(line, 3);
    note_journal_ends(reading, line);
    if (rg_span_starts(word, RG_SPAN_LITERAL("Reboot")) ||
        rg_span_starts(word, RG_SPAN_LITERAL("Boot "))) {
        rg_node_id node = reading->host_node != 0 ? reading->host_node : reading->facts->node;
        rg_boots_split(reading->desk->boots, reading->facts->family, node);
    }
    return rg_span_ends(line, RG_SPAN_LITERAL("--")) || rg_span_ends(line, RG_SPAN_LITERAL("."));
}

/* Lines that say to whom the next ones belong. True: the line is used up. */
static bool read_header(struct reading *reading, struct span line)
{
    enum block_state block = reading->block;
    reading->block = BLOCK_NONE;
    if (line.len == 0) {
        return false;
    }
    if (block == BLOCK_RULE && read_node_list(reading, line)) {
        reading->block = BLOCK_LIST;
        return true;
    }
    if (line.ptr[0] == '-' || line.ptr[0] == '=') {
        if (is_rule(line)) {
            if (block == BLOCK_LIST) {
                open_block(reading);
            } else {
                reading->block = BLOCK_RULE;
            }
            return true;
        }
        return read_tail_header(reading, line) || read_journal_rule(reading, line);
    }
    return line.ptr[line.len - 1] == '>' || line.ptr[line.len - 1] == '{'
               ? read_ansible_header(reading, line)
               : false;
}

/* ---- Entries of the journal over several lines ---- */

/* Copies a value that the entry refers to; empty when there is no room. */
static struct span keep(struct entry *entry, struct span value)
{
    size_t len = RG_MIN(value.len, ENTRY_BYTES_MAX - entry->len);
    char *at = entry->bytes + entry->len;
    memcpy(at, value.ptr, len);
    entry->len += len;
    return rg_span(at, len);
}

static void take_field(struct entry *entry, struct span name, struct span value)
{
    if (rg_journal_keeps(name)) {
        value = keep(entry, value);
    }
    rg_journal_take(&entry->shaped, name, value);
}

static void hand_on_wrapped(struct reading *reading);

static bool begin_entry(struct reading *reading, int kind)
{
    struct entry *entry = &reading->entry;
    hand_on_wrapped(reading);
    if (!entry->bytes && !(entry->bytes = malloc(ENTRY_BYTES_MAX))) {
        return false;
    }
    entry->kind = kind;
    entry->len = 0;
    rg_journal_begin(&entry->shaped);
    return true;
}

static void end_entry(struct reading *reading)
{
    struct entry *entry = &reading->entry;
    if (entry->kind != ENTRY_NONE && rg_journal_finish(&entry->shaped)) {
        hand_on_shaped(reading, &entry->shaped);
    }
    entry->kind = ENTRY_NONE;
}

/* NAME alone on its line: eight bytes of length, little-endian, the bytes, a newline. */
static int read_binary_field(struct reading *reading, struct span name, struct rg_error *err)
{
    struct entry *entry = &reading->entry;
    char field[64];
    size_t name_len = RG_MIN(name.len, sizeof(field));
    memcpy(field, name.ptr, name_len); /* the line goes when more is read */
    unsigned char raw[8];
    int64_t got = rg_lines_raw(reading->lines, (char *)raw, sizeof(raw), sizeof(raw), err);
    if (got < (int64_t)sizeof(raw)) {
        return got < 0 ? (int)got : 0;
    }
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--) {
        len = len << 8 | raw[i];
    }
    if (len > FIELD_BYTES_MAX) {
        return rg_failf(err, RG_PARSE, "a journal export has a field of %llu bytes",
                        (unsigned long long)len);
    }
    char *bytes = entry->bytes + entry->len;
    size_t room = ENTRY_BYTES_MAX - entry->len;
    got = rg_lines_raw(reading->lines, bytes, room, len, err);
    if (got < 0) {
        return (int)got;
    }
    size_t kept = RG_MIN((size_t)got, room);
    kept = rg_line_clean(bytes, kept);
    for (size_t i = 0; i < kept; i++) {
        bytes[i] = bytes[i] == '\n' ? ' ' : bytes[i];
    }
    rg_journal_take(&entry->shaped, rg_span(field, name_len), rg_span(bytes, kept));
    entry->len += rg_journal_keeps(rg_span(field, name_len)) ? kept : 0;
    char newline;
    got = rg_lines_raw(reading->lines, &newline, 1, 1, err);
    return got < 0 ? (int)got : 0;
}

/* 1: the line belongs to an export; 0: it does not. */
static int read_export_line(struct reading *reading, struct span line, struct rg_error *err)
{
    struct entry *entry = &reading->entry;
    if (line.len == 0) {
        end_entry(reading);
        return 1;
    }
    struct span value = line;
    struct span name = rg_span_cut(&value, '=');
    if (!rg_journal_is_field(name)) {
        end_entry(reading);
        return 0;
    }
    if (value.ptr) {
        take_field(entry, name, value);
        return 1;
    }
    int rc = read_binary_field(reading, name, err);
    return rc < 0 ? rc : 1;
}

/* "\t"NAME" : "VALUE"," of journalctl -o json-pretty. */
static bool read_pretty_line(struct reading *reading, struct rg_line *line)
{
    struct span text = rg_span_trim(rg_span(line->ptr, line->len));
    if (text.len > 0 && text.ptr[0] == '}') {
        end_entry(reading);
        return true;
    }
    struct span name, value;
    if (!rg_journal_read_member((char *)(uintptr_t)text.ptr, text.len, &name, &value)) {
        end_entry(reading);
        return false;
    }
    take_field(&reading->entry, name, value);
    return true;
}

/* 1: used up; 0: not; or a negative code. */
static int offer_to_entry(struct reading *reading, struct rg_line *line, struct rg_error *err)
{
    struct span text = rg_span(line->ptr, line->len);
    if (reading->entry.kind == ENTRY_EXPORT) {
        return read_export_line(reading, text, err);
    }
    if (reading->entry.kind == ENTRY_PRETTY) {
        return read_pretty_line(reading, line);
    }
    if (text.len == 1 && text.ptr[0] == '{') {
        return begin_entry(reading, ENTRY_PRETTY);
    }
    if (text.len > 9 && text.ptr[0] == '_' && text.ptr[1] == '_' &&
        (rg_span_starts(text, RG_SPAN_LITERAL("__CURSOR=")) ||
         rg_span_starts(text, RG_SPAN_LITERAL("__REALTIME_TIMESTAMP=")) ||
         rg_span_starts(text, RG_SPAN_LITERAL("__MONOTONIC_TIMESTAMP=")))) {
        return begin_entry(reading, ENTRY_EXPORT) ? read_export_line(reading, text, err) : 0;
    }
    return 0;
}

/* ---- Lines that mail or an editor wrapped ---- */

static bool is_lustre(struct span text)
{
    return text.len > 6 && text.ptr[0] == 'L' &&
           (memcmp(text.ptr, "Lustre", 6) == 0 || memcmp(text.ptr, "LNet", 4) == 0);
}

/* Such a line may go on if the next one has no stamp. Only widths at which mail is wrapped. */
static bool may_go_on(const struct rg_line *line, const struct rg_shaped *shaped)
{
    return line->len >= 50 && line->len <= 100 && shaped->stamp.kind != RG_STAMP_NONE &&
           shaped->shape != RG_SHAPE_JSON && is_lustre(shaped->text);
}

/* The first word of the next line would not have fitted, and it is no prose, prompt or dump. */
static bool goes_on(const struct reading *reading, const struct rg_line *line,
                    const struct rg_shaped *shaped)
{
    if (shaped->shape != RG_SHAPE_BARE || shaped->prefix.len > 0 || line->len == 0 ||
        is_lustre(shaped->text) || reading->wraps >= WRAPS_MAX ||
        reading->wrapped_len + line->len + 1 > WRAPPED_MAX) {
        return false;
    }
    size_t word = 0;
    while (word < line->len && line->ptr[word] != ' ') {
        if ((unsigned char)line->ptr[word] <= ' ' || (unsigned char)line->ptr[word] >= 0x7f) {
            return false;
        }
        word++;
    }
    bool dump = (word == line->len && word > 0 && line->ptr[word - 1] == ':') ||
                (word == 4 && memcmp(line->ptr, "UUID", 4) == 0); /* of lnetctl, of lfs df */
    return word > 0 && !dump && !strchr("#$>{}|`*-=", line->ptr[0]) &&
           reading->wrapped_width + 1 + word > 70;
}

static void hand_on_wrapped(struct reading *reading)
{
    if (reading->wrapped_len == 0) {
        return;
    }
    uint64_t number = reading->number;
    bool truncated = reading->truncated;
    struct rg_shaped shaped;
    rg_shape_read(reading->wrapped, reading->wrapped_len, &shaped);
    reading->wrapped_len = 0;
    reading->number = reading->wrapped_number;
    reading->truncated = false;
    hand_on_shaped(reading, &shaped);
    reading->number = number;
    reading->truncated = truncated;
}

static void wrap_on(struct reading *reading, const struct rg_line *line)
{
    reading->wrapped[reading->wrapped_len++] = ' ';
    memcpy(reading->wrapped + reading->wrapped_len, line->ptr, line->len);
    reading->wrapped_len += line->len;
    reading->wrapped_width = line->len;
    reading->wraps++;
}

/* Keeps the line, as its shape was read, until the next one tells whether it goes on. */
static bool hold(struct reading *reading, const struct rg_line *line,
                 const struct rg_shaped *shaped)
{
    if (!reading->wrapped && !(reading->wrapped = malloc(WRAPPED_MAX))) {
        return false;
    }
    size_t len = (size_t)(shaped->text.ptr + shaped->text.len - line->ptr);
    memcpy(reading->wrapped, line->ptr, len);
    reading->wrapped_len = len;
    reading->wrapped_width = line->len;
    reading->wrapped_number = reading->number;
    reading->wraps = 0;
    return true;
}

/* ---- One line ---- */

/* The prefix of a line with a stamp is proof; before another it counts once it is proven. */
static void read_prefix(struct reading *reading, struct rg_shaped *shaped)
{
    if (shaped->prefix.len > 0) {
        rg_prefixes_note(&reading->prefixes, shaped->prefix);
    } else if (shaped->shape == RG_SHAPE_BARE && shaped->speaker == RG_SPEAKER_UNKNOWN) {
        rg_prefixes_take(&reading->prefixes, shaped->text, &shaped->prefix, &shaped->text);
    }
}

static void read_shaped_line(struct reading *reading, struct rg_line *line)
{
    struct rg_shaped shaped;
    rg_shape_read(line->ptr, line->len, &shaped);
    read_prefix(reading, &shaped);
    if (reading->wrapped_len > 0) {
        if (goes_on(reading, line, &shaped)) {
            wrap_on(reading, line);
            return;
        }
        hand_on_wrapped(reading);
    }
    if (!may_go_on(line, &shaped) || !hold(reading, line, &shaped)) {
        hand_on_shaped(reading, &shaped);
    }
}

static int read_line(struct reading *reading, struct rg_line *line, struct rg_error *err)
{
    reading->number = line->number;
    reading->truncated = line->truncated;
    reading->desk->counts.lines++;
    reading->desk->counts.truncated += line->truncated;
    if (line->len > 0 && line->ptr[0] == 0x1e) { /* journalctl -o json-seq */
        line->ptr++;
        line->len--;
    }
    int used = offer_to_entry(reading, line, err);
    if (used != 0) {
        return used < 0 ? used : 0;
    }
    if (reading->wrapped_len > 0 && line->len > 0 && strchr("-=>{", line->ptr[line->len - 1])) {
        hand_on_wrapped(reading); /* it was said before what may be a header */
    }
    if (read_header(reading, rg_span(line->ptr, line->len))) {
        return 0;
    }
    if (line->len == 0) {
        hand_on_wrapped(reading);
        return 0;
    }
    read_shaped_line(reading, line);
    return 0;
}

static void free_reading(struct reading *reading)
{
    free(reading->entry.bytes);
    free(reading->wrapped);
    free(reading);
}

int rg_reading_run(struct rg_desk *desk, const struct rg_source_facts *facts,
                   struct rg_lines *lines, struct rg_error *err)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    if (!reading) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    reading->desk = desk;
    reading->facts = facts;
    reading->lines = lines;
    reading->reference_usec = facts->reference_usec;
    struct rg_line line;
    int rc;
    while ((rc = rg_lines_next(lines, &line, err)) > 0) {
        rc = read_line(reading, &line, err);
        if (rc < 0) {
            break;
        }
    }
    end_entry(reading);
    hand_on_wrapped(reading);
    correct_years(reading);
    free_reading(reading);
    return rc;
}
