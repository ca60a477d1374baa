/*
 * One reader for each dump, all of them line by line. A line with a stamp, another node or another
 * file ends a dump; so does a line that cannot be part of it.
 */
#include "diag/state.h"

#include "base/assert.h"
#include "base/checked.h"
#include "diag/lustre.h"

#include <string.h>

#define IMPORT_LINES_MAX 40 /* from the name of the target to its connection */
#define DF_FULL_PERCENT  98

const char *rg_state_kind_name(enum rg_state_kind kind)
{
    static const char *const names[RG_STATE_KIND_COUNT] = {
        [RG_STATE_IMPORT] = "import", [RG_STATE_OWN] = "net",  [RG_STATE_PEER] = "peer",
        [RG_STATE_ROUTE] = "route",   [RG_STATE_SPACE] = "df",
    };
    RG_ASSERT(kind < RG_STATE_KIND_COUNT);
    return names[kind];
}

/* ---- Words ---- */

static struct span behind(struct span text, const char *key)
{
    struct span name = rg_span_text(key);
    return rg_span_starts(text, name) ? rg_span_trim(rg_span_skip(text, name.len)) : RG_SPAN_EMPTY;
}

/* "" when it is too long. */
static void keep(char *place, size_t room, struct span text)
{
    size_t len = text.len < room ? text.len : 0;
    if (len > 0) {
        memcpy(place, text.ptr, len);
    }
    place[len] = '\0';
}

static struct span without_quotes(struct span word)
{
    while (word.len > 0 && strchr("[]\"' ", word.ptr[0])) {
        word = rg_span_skip(word, 1);
    }
    while (word.len > 0 && strchr("[]\"' ", word.ptr[word.len - 1])) {
        word.len--;
    }
    return word;
}

static struct span first_word(struct span *rest)
{
    *rest = rg_span_trim(*rest);
    return rg_span_cut(rest, ' ');
}

/* ---- lctl get_param *.*.import ---- */

/* "[ 192.0.2.11@o2ib, 192.0.2.12@o2ib ]", or one NID, with quotes or without. */
static void read_nids(struct span value, struct rg_state_fact *fact)
{
    while (value.len > 0 && fact->nid_count < RG_STATE_NIDS_MAX) {
        struct span word = without_quotes(rg_span_trim(rg_span_cut(&value, ',')));
        if (rg_nid_is(word) && !rg_nid_is_local(word)) {
            fact->nids[fact->nid_count++] = word;
        }
    }
}

static enum rg_state_line begin_import(struct rg_state *state, struct span value)
{
    struct rg_target_name name;
    struct span suffix = RG_SPAN_LITERAL("_UUID");
    if (rg_span_ends(value, suffix)) {
        value.len -= suffix.len;
    }
    state->dump = RG_DUMP_NONE;
    if (rg_target_parse(value, &name) && value.len < sizeof(state->subject)) {
        keep(state->subject, sizeof(state->subject), value);
        state->dump = RG_DUMP_IMPORT;
        state->left = IMPORT_LINES_MAX;
    }
    return RG_STATE_NO;
}

static enum rg_state_line read_import(struct rg_state *state, struct span text,
                                      struct rg_state_fact *fact)
{
    if (state->left-- <= 0) {
        state->dump = RG_DUMP_NONE;
        return RG_STATE_NO;
    }
    struct span current = behind(text, "current_connection: ");
    struct span condition = behind(text, "state: ");
    fact->kind = RG_STATE_IMPORT;
    fact->target = rg_span_text(state->subject);
    if (condition.len > 0 && condition.len <= 20) {
        fact->value = condition;
        fact->bad = !rg_span_is(condition, "FULL") && !rg_span_is(condition, "IDLE");
        return RG_STATE_FACT;
    }
    fact->current = current.len > 0;
    read_nids(current.len > 0 ? current : behind(text, "failover_nids: "), fact);
    return fact->nid_count > 0 ? RG_STATE_FACT : RG_STATE_NO;
}

/* ---- lnetctl ---- */

static bool is_key_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(" _-()/.+", c));
}

/* "key: value", with "- " before it or without (the reader of lines takes marks and indentation
 * off): false when it is no line of lnetctl's, whose values are one word. */
static bool read_member(struct span line, struct span *ret_key, struct span *ret_value)
{
    struct span text = rg_span_trim(line);
    if (text.len == 0 || text.len > 400) {
        return false;
    }
    if (rg_span_starts(text, RG_SPAN_LITERAL("- "))) {
        text = rg_span_trim(rg_span_skip(text, 2));
    }
    ptrdiff_t colon = rg_span_find(text, ':');
    if (colon <= 0 || ((size_t)colon + 1 < text.len && text.ptr[colon + 1] != ' ')) {
        return false;
    }
    for (ptrdiff_t i = 0; i < colon; i++) {
        if (!is_key_byte(text.ptr[i])) {
            return false;
        }
    }
    *ret_key = rg_span_head(text, (size_t)colon);
    *ret_value = without_quotes(rg_span_trim(rg_span_skip(text, (size_t)colon + 1)));
    return rg_span_find(*ret_value, ' ') < 0;
}

static bool is_peer_nid(struct span value)
{
    return rg_nid_is(value) && !rg_nid_is_local(value);
}

static enum rg_state_line read_net(struct rg_state *state, struct span key, struct span value,
                                   struct rg_state_fact *fact)
{
    if (rg_span_is(key, "nid")) {
        keep(state->subject, sizeof(state->subject), is_peer_nid(value) ? value : RG_SPAN_EMPTY);
        if (state->subject[0] == '\0') {
            return RG_STATE_PART;
        }
    } else if (state->subject[0] == '\0') {
        return RG_STATE_PART;
    } else if (rg_span_is(key, "status")) {
        fact->value = value;
        fact->bad = !rg_span_is(value, "up");
    } else if (rg_span_is(key, "fatal_error") && value.len > 0 && !rg_span_is(value, "0")) {
        fact->value = RG_SPAN_LITERAL("fatal_error");
        fact->bad = true;
    } else {
        return RG_STATE_PART;
    }
    fact->kind = RG_STATE_OWN;
    fact->nids[fact->nid_count++] = rg_span_text(state->subject);
    return RG_STATE_FACT;
}

static enum rg_state_line read_peer(struct rg_state *state, struct span key, struct span value,
                                    struct rg_state_fact *fact)
{
    if (rg_span_is(key, "primary nid")) {
        keep(state->subject, sizeof(state->subject), is_peer_nid(value) ? value : RG_SPAN_EMPTY);
        state->second[0] = '\0';
        return RG_STATE_PART;
    }
    if (state->subject[0] == '\0') {
        return RG_STATE_PART;
    }
    if (rg_span_is(key, "nid")) {
        keep(state->second, sizeof(state->second), is_peer_nid(value) ? value : RG_SPAN_EMPTY);
    } else if (rg_span_is(key, "state") && (rg_span_is(value, "up") || rg_span_is(value, "down"))) {
        fact->value = value;
        fact->bad = rg_span_is(value, "down");
    } else {
        return RG_STATE_PART;
    }
    if (state->second[0] == '\0') {
        return RG_STATE_PART;
    }
    fact->kind = RG_STATE_PEER;
    fact->nids[fact->nid_count++] = rg_span_text(state->subject);
    fact->nids[fact->nid_count++] = rg_span_text(state->second);
    return RG_STATE_FACT;
}

static enum rg_state_line read_route(struct rg_state *state, struct span key, struct span value,
                                     struct rg_state_fact *fact)
{
    if (rg_span_is(key, "net")) {
        keep(state->subject, sizeof(state->subject), value);
        state->second[0] = '\0';
        return RG_STATE_PART;
    }
    if (rg_span_is(key, "gateway")) {
        keep(state->second, sizeof(state->second), is_peer_nid(value) ? value : RG_SPAN_EMPTY);
    } else if (rg_span_is(key, "state")) {
        fact->value = value;
        fact->bad = !rg_span_is(value, "up");
    } else {
        return RG_STATE_PART;
    }
    if (state->second[0] == '\0') {
        return RG_STATE_PART;
    }
    fact->kind = RG_STATE_ROUTE;
    fact->target = rg_span_text(state->subject);
    fact->nids[fact->nid_count++] = rg_span_text(state->second);
    return RG_STATE_FACT;
}

static enum rg_state_line read_lnetctl(struct rg_state *state, struct span line,
                                       struct rg_state_fact *fact)
{
    struct span key, value;
    if (!read_member(line, &key, &value)) {
        state->dump = RG_DUMP_NONE;
        return RG_STATE_NO;
    }
    switch (state->dump) {
    case RG_DUMP_NET:
        return read_net(state, key, value, fact);
    case RG_DUMP_PEER:
        return read_peer(state, key, value, fact);
    case RG_DUMP_ROUTE:
        return read_route(state, key, value, fact);
    default:
        return RG_STATE_PART;
    }
}

/* ---- lfs df ---- */

/* "OST0012" alone, as some releases print a target that is not connected. */
static bool is_bare_target(struct span name)
{
    return name.len == 7 && (rg_span_starts(name, RG_SPAN_LITERAL("OST")) ||
                             rg_span_starts(name, RG_SPAN_LITERAL("MDT")));
}

/* "FS-OST0012" for the name in a row, kept in state->subject. False: it is no target. */
static bool name_df_target(struct rg_state *state, struct span name)
{
    struct rg_target_name target;
    struct span suffix = RG_SPAN_LITERAL("_UUID");
    if (rg_span_ends(name, suffix)) {
        name.len -= suffix.len;
    }
    if (is_bare_target(name) && state->second[0] != '\0') {
        char whole[RG_STATE_NAME_MAX];
        struct span system = rg_span_text(state->second);
        if (system.len + 1 + name.len >= sizeof(whole)) {
            return false;
        }
        memcpy(whole, system.ptr, system.len);
        whole[system.len] = '-';
        memcpy(whole + system.len + 1, name.ptr, name.len);
        keep(state->subject, sizeof(state->subject), rg_span(whole, system.len + 1 + name.len));
        return rg_target_parse(rg_span_text(state->subject), &target);
    }
    if (!rg_target_parse(name, &target) || target.target.len != name.len ||
        target.kind == RG_TARGET_MGS) {
        return false;
    }
    keep(state->second, sizeof(state->second), target.file_system);
    keep(state->subject, sizeof(state->subject), name);
    return state->subject[0] != '\0';
}

/* "  99%" of a row's last but one column; -1: there is none. */
static int percent_of(struct span rest)
{
    int percent = -1;
    while (rest.len > 0) {
        struct span word = first_word(&rest);
        uint64_t number;
        if (word.len > 1 && word.len <= 4 && word.ptr[word.len - 1] == '%' &&
            rg_span_to_u64(rg_span_head(word, word.len - 1), &number)) {
            percent = (int)RG_MIN(number, (uint64_t)1000);
        }
    }
    return percent;
}

static bool is_df_head(struct span text)
{
    struct span rest = text;
    return rg_span_is(first_word(&rest), "UUID") &&
           rg_span_ends(text, RG_SPAN_LITERAL("Mounted on"));
}

static enum rg_state_line read_df(struct rg_state *state, struct span text,
                                  struct rg_state_fact *fact)
{
    struct span rest = text;
    struct span name = first_word(&rest);
    if (rg_span_starts(text, RG_SPAN_LITERAL("filesystem_summary"))) {
        state->dump = RG_DUMP_NONE;
        return RG_STATE_PART;
    }
    if (!name_df_target(state, name)) {
        state->dump = text.len == 0 ? state->dump : RG_DUMP_NONE;
        return text.len == 0 ? RG_STATE_PART : RG_STATE_NO;
    }
    rest = rg_span_trim(rest);
    int percent = percent_of(rest);
    fact->kind = RG_STATE_SPACE;
    fact->target = rg_span_text(state->subject);
    if (rest.len > 1 && rest.ptr[0] == ':') {
        fact->value = rg_span_head(rg_span_trim(rg_span_skip(rest, 1)), 80);
        fact->bad = true;
    } else if (percent >= DF_FULL_PERCENT) {
        keep(state->value, sizeof(state->value), RG_SPAN_LITERAL("full"));
        fact->value = rg_span_text(state->value);
        fact->bad = true;
    }
    return RG_STATE_FACT;
}

/* ---- Which dump ---- */

static void begin(struct rg_state *state, int dump)
{
    state->dump = dump;
    state->subject[0] = '\0';
    state->second[0] = '\0';
}

/* A line at the left edge that opens a dump. */
static bool open_dump(struct rg_state *state, struct span line)
{
    static const struct {
        const char *head;
        int dump;
    } heads[] = {
        {"net:", RG_DUMP_NET},       {"peer:", RG_DUMP_PEER},        {"route:", RG_DUMP_ROUTE},
        {"global:", RG_DUMP_OTHER},  {"statistics:", RG_DUMP_OTHER}, {"numa:", RG_DUMP_OTHER},
        {"routing:", RG_DUMP_OTHER}, {"buffers:", RG_DUMP_OTHER},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(heads); i++) {
        /* `net show -v` has "statistics:" within. */
        bool within = state->dump >= RG_DUMP_NET && heads[i].dump == RG_DUMP_OTHER;
        if (!within && rg_span_is(line, heads[i].head)) {
            begin(state, heads[i].dump);
            return true;
        }
    }
    if (is_df_head(line)) {
        begin(state, RG_DUMP_DF);
        return true;
    }
    return false;
}

/* "osc.scr-OST0000-osc-ffff88.import=" */
static bool is_parameter(struct span line)
{
    bool dotted = false;
    for (size_t i = 0; i + 1 < line.len; i++) {
        char c = line.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    (c != '\0' && strchr("._-@", c));
        if (!good) {
            return false;
        }
        dotted |= c == '.';
    }
    return dotted && line.ptr[line.len - 1] == '=';
}

/* "    target: scr-OST0000_UUID" */
static bool is_import_target(struct span line)
{
    struct rg_target_name name;
    struct span target = behind(rg_span_trim(line), "target: ");
    return rg_span_ends(target, RG_SPAN_LITERAL("_UUID")) && rg_target_parse(target, &name);
}

bool rg_state_opens(struct span line)
{
    struct rg_state none = {.dump = RG_DUMP_NONE};
    return line.len > 3 && line.len < 400 &&
           (open_dump(&none, line) || rg_span_is(line, "import:") || is_parameter(line) ||
            is_import_target(line) || rg_span_starts(line, RG_SPAN_LITERAL("CA '")));
}

static bool holds(struct span text, const char *what)
{
    size_t len = strlen(what);
    return text.len >= len && memmem(text.ptr, text.len, what, len) != NULL;
}

/* A prompt with the command behind it, which the lines below answer. */
static bool is_list_command(struct span line)
{
    return line.len < 200 && (rg_span_ends(line, RG_SPAN_LITERAL("lctl list_nids")) ||
                              rg_span_ends(line, RG_SPAN_LITERAL("lctl list_nids:")));
}

static enum rg_state_line read_list(struct rg_state *state, struct span text,
                                    struct rg_state_fact *fact)
{
    if (!rg_nid_is(text)) {
        state->dump = RG_DUMP_NONE;
        return RG_STATE_NO;
    }
    if (rg_nid_is_local(text)) {
        return RG_STATE_PART;
    }
    fact->kind = RG_STATE_OWN;
    fact->nids[fact->nid_count++] = text;
    return RG_STATE_FACT;
}

static enum rg_state_line read_on(struct rg_state *state, const struct rg_log_record *record,
                                  struct span text, struct rg_state_fact *fact)
{
    switch (state->dump) {
    case RG_DUMP_NONE:
        return RG_STATE_NO;
    case RG_DUMP_IMPORT:
        return read_import(state, text, fact);
    case RG_DUMP_NIDS:
        return read_list(state, text, fact);
    case RG_DUMP_DF:
        return read_df(state, text, fact);
    default:
        return read_lnetctl(state, record->text, fact);
    }
}

enum rg_state_line rg_state_read(struct rg_state *state, const struct rg_log_record *record,
                                 struct span source_name, struct rg_state_fact *ret_fact)
{
    bool elsewhere = state->source != record->source || state->node != record->node;
    if (elsewhere && (state->dump != RG_DUMP_NONE || state->source != record->source)) {
        begin(state, holds(source_name, "list_nids") ? RG_DUMP_NIDS : RG_DUMP_NONE);
    }
    state->source = record->source;
    state->node = record->node;
    bool message = record->stamp.kind != RG_STAMP_NONE || record->speaker == RG_SPEAKER_KERNEL;
    if (message || record->text.len < 4) {
        state->dump = RG_DUMP_NONE;
        return RG_STATE_NO;
    }
    struct span text = rg_span_trim(record->text);
    struct rg_state_fact fact = {.kind = RG_STATE_IMPORT};
    struct span target = behind(text, "target: ");
    enum rg_state_line line;
    if (target.len > 0 && state->dump <= RG_DUMP_IMPORT) {
        line = begin_import(state, target);
    } else if (open_dump(state, record->text)) {
        line = RG_STATE_PART;
    } else if (is_list_command(text)) {
        begin(state, RG_DUMP_NIDS);
        line = RG_STATE_PART;
    } else {
        line = read_on(state, record, text, &fact);
    }
    *ret_fact = fact;
    return line;
}
