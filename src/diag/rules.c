/*
 * Reads message rows. One table of keys says where each value goes; an unknown key, a value that is
 * not one of the words, a missing or repeated key is an error with its line.
 */
#include "diag/rules.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static const char *const layer_names[] = {
    [RG_LAYER_HARDWARE] = "hardware",
    [RG_LAYER_PLATFORM] = "platform",
    [RG_LAYER_FIRMWARE] = "firmware",
    [RG_LAYER_LINK] = "link",
    [RG_LAYER_ADDRESS] = "address",
    [RG_LAYER_LND] = "lnd",
    [RG_LAYER_LNET] = "lnet",
    [RG_LAYER_BACKEND] = "backend",
    [RG_LAYER_CONFIG] = "config",
    [RG_LAYER_RPC] = "rpc",
    [RG_LAYER_IMPORT] = "import",
    [RG_LAYER_RECOVERY] = "recovery",
    [RG_LAYER_APPLICATION] = "application",
    [RG_LAYER_CLUSTER] = "cluster",
};

static const char *const accused_names[] = {
    [RG_ACCUSED_NOBODY] = "nobody", [RG_ACCUSED_SELF] = "self",
    [RG_ACCUSED_PEER] = "peer",     [RG_ACCUSED_TARGET] = "target",
    [RG_ACCUSED_PATH] = "path",     [RG_ACCUSED_CONFIG] = "config",
    [RG_ACCUSED_ADMIN] = "admin",   [RG_ACCUSED_CONSEQUENCE] = "consequence",
};

static const char *const effect_names[] = {
    [RG_EFFECT_NONE] = "none",       [RG_EFFECT_FAULT] = "fault",
    [RG_EFFECT_LOST] = "lost",       [RG_EFFECT_RESTORED] = "restored",
    [RG_EFFECT_EVICTED] = "evicted", [RG_EFFECT_BOUNDARY] = "boundary",
    [RG_EFFECT_BENIGN] = "benign",
};

static const char *const severity_names[] = {
    [RG_SEVERITY_INFO] = "info",         [RG_SEVERITY_NOTICE] = "notice",
    [RG_SEVERITY_WARNING] = "warning",   [RG_SEVERITY_ERROR] = "error",
    [RG_SEVERITY_CRITICAL] = "critical",
};

static const char *const role_names[] = {
    [RG_ROLE_UNKNOWN] = "any",
    [RG_ROLE_CLIENT] = "client",
    [RG_ROLE_SERVER] = "server",
    [RG_ROLE_MGS] = "mgs",
};

static const char *const visibility_names[] = {
    [RG_VISIBLE] = "yes",
    [RG_HIDDEN] = "no",
    [RG_VISIBLE_BY_AGE] = "some",
};

static const char *const where_names[] = {
    [RG_WHERE_HERE] = "here",     [RG_WHERE_PEER] = "peer", [RG_WHERE_CLIENT] = "client",
    [RG_WHERE_SERVER] = "server", [RG_WHERE_MGS] = "mgs",
};

#define NAME_OF(list, value) ((size_t)(value) < RG_ARRAY_LENGTH(list) ? (list)[(value)] : "unknown")

const char *rg_layer_name(enum rg_layer layer)
{
    return NAME_OF(layer_names, layer);
}

const char *rg_accused_name(enum rg_accused accused)
{
    return NAME_OF(accused_names, accused);
}

const char *rg_effect_name(enum rg_effect effect)
{
    return NAME_OF(effect_names, effect);
}

const char *rg_severity_name(enum rg_severity severity)
{
    return NAME_OF(severity_names, severity);
}

const char *rg_role_name(enum rg_role role)
{
    return NAME_OF(role_names, role);
}

const char *rg_where_name(enum rg_where where)
{
    return NAME_OF(where_names, where);
}

/* ---- The keys. ---- */

enum key {
    KEY_ID,
    KEY_FAMILY,
    KEY_TITLE,
    KEY_TITLE_KO,
    KEY_RE,
    KEY_LITERAL,
    KEY_EXAMPLE,
    KEY_RELEASES,
    KEY_LAYER,
    KEY_SPEAKER,
    KEY_ACCUSES,
    KEY_EFFECT,
    KEY_SEVERITY,
    KEY_RANK,
    KEY_CONSOLE,
    KEY_CAUSE,
    KEY_CAUSE_KO,
    KEY_REMEDY,
    KEY_REMEDY_KO,
    KEY_AVOID,
    KEY_AVOID_KO,
    KEY_NEXT,
    KEY_COUNT,
};

static const struct rg_rule_key keys[KEY_COUNT + 1] = {
    [KEY_ID] = {"id", "name of the row: capitals, digits and dashes; begins the row"},
    [KEY_FAMILY] = {"family", "what variants of one message have in common; default: the id"},
    [KEY_TITLE] = {"title", "what the message says, in a few words; default: the id"},
    [KEY_TITLE_KO] = {"title-ko", "the same in Korean"},
    [KEY_RE] = {"re", "the pattern (PCRE), searched anywhere in the text of a line"},
    [KEY_LITERAL] = {"literal", "text that every matching line contains, exactly as printed; when "
                                "several are given, one of them. Default: the longest "
                                "plain text in the pattern"},
    [KEY_EXAMPLE] = {"example", "a line that must match; checked when the file is read"},
    [KEY_RELEASES] = {"releases", "Lustre releases that print it: 2.12.0-2.12.4, 2.16-, -2.15"},
    [KEY_LAYER] = {"layer", "where the message comes from"},
    [KEY_SPEAKER] = {"speaker", "who prints it: any, client, server, mgs"},
    [KEY_ACCUSES] = {"accuses", "whom it accuses; by-status: the table of errno or ib_wc_status "
                                "decides"},
    [KEY_EFFECT] = {"effect", "what it does to the state of its subject"},
    [KEY_SEVERITY] = {"severity", "info, notice, warning, error, critical"},
    [KEY_RANK] = {"rank", "-100 to 100: rows of higher rank are tried first; default 0"},
    [KEY_CONSOLE] = {"console", "yes: always in dmesg; no: only in lctl dk or with "
                                "printk=+neterror; some: depends on release or rate limits"},
    [KEY_CAUSE] = {"cause", "one or two sentences: why this is printed"},
    [KEY_CAUSE_KO] = {"cause-ko", "the same in Korean"},
    [KEY_REMEDY] = {"remedy", "what helps"},
    [KEY_REMEDY_KO] = {"remedy-ko", "the same in Korean"},
    [KEY_AVOID] = {"avoid", "what not to do"},
    [KEY_AVOID_KO] = {"avoid-ko", "the same in Korean"},
    [KEY_NEXT] = {"next", "a command to run next, bounded by timeout(1), perhaps with the place in "
                          "front: [server] timeout 5 lctl dl"},
    [KEY_COUNT] = {NULL, NULL},
};

const struct rg_rule_key *rg_rules_keys(void)
{
    return keys;
}

/* ---- Memory. ---- */

void rg_rules_free(struct rg_rules *rules)
{
    for (size_t i = 0; i < rules->text_count; i++) {
        free(rules->texts[i]);
    }
    free(rules->texts);
    free(rules->rows);
    *rules = (struct rg_rules){0};
}

const char *rg_rules_keep(struct rg_rules *rules, struct span text)
{
    if (rules->text_count == rules->text_room) {
        size_t room = rules->text_room ? rules->text_room * 2 : 1024;
        char **texts = reallocarray(rules->texts, room, sizeof(*texts));
        if (!texts) {
            return NULL;
        }
        rules->texts = texts;
        rules->text_room = room;
    }
    char *copy = rg_span_dup(text);
    if (copy) {
        rules->texts[rules->text_count++] = copy;
    }
    return copy;
}

static struct rg_catalogue_row *add_row(struct rg_rules *rules)
{
    if (rules->count == rules->room) {
        size_t room = rules->room ? rules->room * 2 : 256;
        struct rg_catalogue_row *rows = reallocarray(rules->rows, room, sizeof(*rows));
        if (!rows) {
            return NULL;
        }
        rules->rows = rows;
        rules->room = room;
    }
    struct rg_catalogue_row *row = &rules->rows[rules->count++];
    *row = (struct rg_catalogue_row){
        .id = "",
        .family = "",
        .title = {"", ""},
        .pattern = "",
        .layer = RG_LAYER_APPLICATION,
        .accused = RG_ACCUSED_NOBODY,
        .effect = RG_EFFECT_FAULT,
        .severity = RG_SEVERITY_WARNING,
        .cause = {"", ""},
        .remedy = {"", ""},
        .avoid = {"", ""},
        .source = "built in",
    };
    return row;
}

/* ---- One source. ---- */

struct reader {
    struct rg_rules *rules;
    const char *source;
    bool built_in;
    size_t line;     /* of what is being read */
    size_t row_line; /* where the open row begins */
    struct rg_catalogue_row *row;
    uint32_t seen; /* keys of the open row */
    struct rg_error *err;
};

#define FAIL(reader, ...) fail_at((reader), (reader)->line, __VA_ARGS__)

static int fail_at(struct reader *reader, size_t line, const char *format, ...) RG_PRINTF(3, 4);

static int fail_at(struct reader *reader, size_t line, const char *format, ...)
{
    RG_BUF(reason, RG_ERROR_MESSAGE_MAX);
    va_list args;
    va_start(args, format);
    rg_buf_addv(&reason, format, args);
    va_end(args);
    return rg_failf(reader->err, RG_SETTING, "%s:%zu: %s", reader->source, line,
                    rg_buf_text(&reason));
}

static int pick_word(struct reader *reader, const char *const *words, size_t count,
                     struct span value, const char *key, unsigned *ret_index)
{
    for (unsigned i = 0; i < count; i++) {
        if (rg_span_is(value, words[i])) {
            *ret_index = i;
            return 0;
        }
    }
    RG_BUF(list, 400);
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(&list, "%s%s", i ? ", " : "", words[i]);
    }
    return FAIL(reader, "%s is not one of %s", key, rg_buf_text(&list));
}

#define PICK(reader, words, value, key, field)                                                     \
    __extension__({                                                                                \
        unsigned index_ = 0;                                                                       \
        int rc_ = pick_word((reader), (words), RG_ARRAY_LENGTH(words), (value), (key), &index_);   \
        if (rc_ == 0) {                                                                            \
            (field) = (__typeof__(field))index_;                                                   \
        }                                                                                          \
        rc_;                                                                                       \
    })

/* "2.12.4" → 21204, "2.16" → 21600 (or the last of 2.16 when it ends a range). */
static bool read_release(struct span text, bool ends, int *ret_release)
{
    int parts[3] = {0, 0, ends ? 99 : 0};
    struct span rest = text;
    size_t count = 0;
    while (rest.ptr) {
        uint64_t number;
        if (count == 3 || !rg_span_to_u64(rg_span_cut(&rest, '.'), &number) || number > 99) {
            return false;
        }
        parts[count++] = (int)number;
    }
    *ret_release = parts[0] * 10000 + parts[1] * 100 + parts[2];
    return count >= 2;
}

static int set_releases(struct reader *reader, struct span value)
{
    struct rg_catalogue_row *row = reader->row;
    struct span rest = value;
    struct span from = rg_span_cut(&rest, '-');
    bool good = rest.ptr != NULL;
    if (good && from.len > 0) {
        good = read_release(from, false, &row->since);
    }
    if (good && rest.len > 0) {
        good = read_release(rest, true, &row->until);
    }
    if (!good || (row->until && row->since > row->until)) {
        return FAIL(reader, "releases are written 2.12.0-2.12.4, 2.16- or -2.15");
    }
    return 0;
}

static int set_rank(struct reader *reader, struct span value)
{
    struct span digits = value;
    bool negative = digits.len > 0 && digits.ptr[0] == '-';
    uint64_t number;
    if (!rg_span_to_u64(rg_span_skip(digits, negative), &number) || number > 100) {
        return FAIL(reader, "rank is a number from -100 to 100");
    }
    reader->row->rank = negative ? -(int)number : (int)number;
    return 0;
}

/* "[server] timeout 5 …" */
static int add_next(struct reader *reader, struct span value, const char *text)
{
    struct rg_catalogue_row *row = reader->row;
    if (row->next_count == RG_NEXT_MAX) {
        return FAIL(reader, "a row has at most %d next commands", RG_NEXT_MAX);
    }
    struct rg_next next = {.where = RG_WHERE_HERE, .command = text};
    if (value.len > 0 && value.ptr[0] == '[') {
        struct span rest = rg_span_skip(value, 1);
        struct span place = rg_span_cut(&rest, ']');
        if (!rest.ptr) {
            return FAIL(reader, "next: ] is missing");
        }
        int rc = PICK(reader, where_names, place, "the place of next", next.where);
        if (rc < 0) {
            return rc;
        }
        next.command = text + (rg_span_trim(rest).ptr - value.ptr);
    }
    if (strncmp(next.command, "timeout ", 8) != 0) {
        return FAIL(reader, "next: a command begins with \"timeout SECONDS\", so that a hang "
                            "does not spread");
    }
    row->next[row->next_count++] = next;
    return 0;
}

static int add_to_list(struct reader *reader, const char **list, size_t *count, size_t most,
                       const char *key, const char *text)
{
    if (*count == most) {
        return FAIL(reader, "a row has at most %zu of %s", most, key);
    }
    list[(*count)++] = text;
    return 0;
}

static int set_accused(struct reader *reader, struct span value)
{
    if (rg_span_is(value, "by-status")) {
        reader->row->accused_by_status = true;
        return 0;
    }
    return PICK(reader, accused_names, value, "accuses", reader->row->accused);
}

static int set_value(struct reader *reader, enum key key, struct span value, const char *text)
{
    struct rg_catalogue_row *row = reader->row;
    switch (key) {
    case KEY_ID:
        row->id = text;
        return 0;
    case KEY_FAMILY:
        row->family = text;
        return 0;
    case KEY_TITLE:
        row->title[RG_ENGLISH] = text;
        return 0;
    case KEY_TITLE_KO:
        row->title[RG_KOREAN] = text;
        return 0;
    case KEY_RE:
        row->pattern = text;
        return 0;
    case KEY_LITERAL:
        return add_to_list(reader, row->literals, &row->literal_count, RG_LITERALS_MAX, "literal",
                           text);
    case KEY_EXAMPLE:
        return add_to_list(reader, row->examples, &row->example_count, RG_EXAMPLES_MAX, "example",
                           text);
    case KEY_RELEASES:
        return set_releases(reader, value);
    case KEY_LAYER:
        return PICK(reader, layer_names, value, "layer", row->layer);
    case KEY_SPEAKER:
        return PICK(reader, role_names, value, "speaker", row->speaker);
    case KEY_ACCUSES:
        return set_accused(reader, value);
    case KEY_EFFECT:
        return PICK(reader, effect_names, value, "effect", row->effect);
    case KEY_SEVERITY:
        return PICK(reader, severity_names, value, "severity", row->severity);
    case KEY_RANK:
        return set_rank(reader, value);
    case KEY_CONSOLE:
        return PICK(reader, visibility_names, value, "console", row->visibility);
    case KEY_CAUSE:
        row->cause[RG_ENGLISH] = text;
        return 0;
    case KEY_CAUSE_KO:
        row->cause[RG_KOREAN] = text;
        return 0;
    case KEY_REMEDY:
        row->remedy[RG_ENGLISH] = text;
        return 0;
    case KEY_REMEDY_KO:
        row->remedy[RG_KOREAN] = text;
        return 0;
    case KEY_AVOID:
        row->avoid[RG_ENGLISH] = text;
        return 0;
    case KEY_AVOID_KO:
        row->avoid[RG_KOREAN] = text;
        return 0;
    case KEY_NEXT:
        return add_next(reader, value, text);
    case KEY_COUNT:
        break;
    }
    return 0;
}

static bool is_id(struct span id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        bool good = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c == '-' && i > 0);
        if (!good) {
            return false;
        }
    }
    return id.len > 0 && id.len <= RG_RULE_ID_BYTES_MAX;
}

/* Texts that were not given, after the last line of a row. */
static int close_row(struct reader *reader)
{
    struct rg_catalogue_row *row = reader->row;
    if (!row) {
        return 0;
    }
    if (row->pattern[0] == '\0') {
        return fail_at(reader, reader->row_line, "%s has no re", row->id);
    }
    if (row->family[0] == '\0') {
        row->family = row->id;
    }
    if (row->title[RG_ENGLISH][0] == '\0') {
        row->title[RG_ENGLISH] = row->id;
    }
    const char **texts[] = {row->title, row->cause, row->remedy, row->avoid};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(texts); i++) {
        if (texts[i][RG_KOREAN][0] == '\0') {
            texts[i][RG_KOREAN] = texts[i][RG_ENGLISH];
        }
    }
    return 0;
}

static int open_row(struct reader *reader, struct span id)
{
    int rc = close_row(reader);
    if (rc < 0) {
        return rc;
    }
    if (!is_id(id)) {
        return FAIL(reader, "id is made of capitals, digits and dashes, at most %d",
                    RG_RULE_ID_BYTES_MAX);
    }
    for (size_t i = 0; i < reader->rules->count; i++) {
        if (rg_span_is(id, reader->rules->rows[i].id)) {
            return FAIL(reader, "%.*s is there already (%s)", RG_SPAN_ARG(id),
                        reader->rules->rows[i].source);
        }
    }
    if (reader->rules->count >= RG_RULES_ROWS_MAX) {
        return FAIL(reader, "more than %d rows", RG_RULES_ROWS_MAX);
    }
    reader->row = add_row(reader->rules);
    if (!reader->row) {
        return rg_fail(reader->err, RG_OUT_OF_MEMORY);
    }
    reader->row_line = reader->line;
    reader->seen = 0;
    if (!reader->built_in) {
        RG_BUF(place, 1024);
        rg_buf_addf(&place, "%.900s:%zu", reader->source, reader->line);
        reader->row->source = rg_rules_keep(reader->rules, rg_buf_span(&place));
        if (!reader->row->source) {
            return rg_fail(reader->err, RG_OUT_OF_MEMORY);
        }
    }
    return 0;
}

static bool is_list(enum key key)
{
    return key == KEY_LITERAL || key == KEY_EXAMPLE || key == KEY_NEXT;
}

/* "key: value", continuation lines already joined. */
static int read_pair(struct reader *reader, struct span pair)
{
    struct span value = pair;
    struct span name = rg_span_cut(&value, ':');
    enum key key = KEY_COUNT;
    for (unsigned i = 0; i < KEY_COUNT; i++) {
        if (rg_span_is(name, keys[i].name)) {
            key = (enum key)i;
        }
    }
    if (key == KEY_COUNT || !value.ptr) {
        return FAIL(reader, "\"%.*s\" is not a key", RG_SPAN_ARG(rg_span_head(name, 40)));
    }
    value = rg_span_trim(value);
    if (value.len == 0) {
        return FAIL(reader, "%s is empty", keys[key].name);
    }
    if (rg_span_has_nul(value)) {
        return FAIL(reader, "%s holds a NUL byte", keys[key].name);
    }
    if (key == KEY_ID) {
        int rc = open_row(reader, value);
        if (rc < 0) {
            return rc;
        }
    }
    if (!reader->row) {
        return FAIL(reader, "a row begins with id");
    }
    if ((reader->seen & (1u << key)) && !is_list(key)) {
        return FAIL(reader, "%s stands twice in %s", keys[key].name, reader->row->id);
    }
    reader->seen |= 1u << key;
    const char *text = rg_rules_keep(reader->rules, value);
    if (!text) {
        return rg_fail(reader->err, RG_OUT_OF_MEMORY);
    }
    return set_value(reader, key, rg_span(text, value.len), text);
}

static bool continues(struct span line)
{
    return line.len > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t');
}

/* Joins a line with its continuations; moves *rest and *line_number behind them. */
static void join_lines(struct span *rest, size_t *line_number, struct span first,
                       struct rg_buf *joined)
{
    rg_buf_clear(joined);
    rg_buf_add_span(joined, first);
    while (rest->ptr && continues(*rest)) {
        struct span line = rg_span_cut(rest, '\n');
        (*line_number)++;
        struct span part = rg_span_trim(line);
        if (part.len > 0) {
            rg_buf_add_char(joined, ' ');
            rg_buf_add_span(joined, part);
        }
    }
}

static struct span without_return(struct span line)
{
    return line.len > 0 && line.ptr[line.len - 1] == '\r' ? rg_span_head(line, line.len - 1) : line;
}

int rg_rules_read(struct rg_rules *rules, struct span text, const char *source, bool built_in,
                  struct rg_error *err)
{
    struct reader reader = {
        .rules = rules,
        .source = source,
        .built_in = built_in,
        .err = err,
    };
    if (text.len > RG_RULES_BYTES_MAX) {
        return rg_failf(err, RG_SETTING, "%s: larger than %d bytes", source, RG_RULES_BYTES_MAX);
    }
    RG_BUF(joined, RG_RULE_LINE_MAX);
    struct span rest = text;
    size_t line_number = 0;
    while (rest.ptr && rest.len > 0) {
        struct span line = without_return(rg_span_cut(&rest, '\n'));
        reader.line = ++line_number;
        if (line.len == 0 || line.ptr[0] == '#') {
            continue;
        }
        if (continues(line)) {
            if (rg_span_trim(line).len == 0) {
                continue;
            }
            return FAIL(&reader, "a continuation without a line before it");
        }
        join_lines(&rest, &line_number, line, &joined);
        if (!rg_buf_ok(&joined)) {
            return FAIL(&reader, "longer than %d bytes", RG_RULE_LINE_MAX);
        }
        int rc = read_pair(&reader, rg_buf_span(&joined));
        if (rc < 0) {
            return rc;
        }
    }
    return close_row(&reader);
}
