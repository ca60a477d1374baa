#include "base/settings.h"

#include "base/assert.h"
#include "base/checked.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (1 << 20)
#define NAME_MAX_BYTES 64

enum kind { INT, SIZE, DURATION, CHOICE, TEXT, SECRET };

struct row {
    enum kind kind;
    size_t offset;
    const char *name;
    const char *unit;
    int64_t fallback;
    const char *fallback_text;
    int64_t least;
    int64_t most;
    const char *choices;
    const char *sentence;
};

#define AT(field) offsetof(struct rg_settings, field)
#define RG_INT(field, name, unit, fallback, least, most, sentence)                                 \
    [RG_SETTING_##                                                                                 \
        field] = {INT, AT(field), name, unit, fallback, NULL, least, most, NULL, sentence},
#define RG_SIZE(field, name, fallback, least, most, sentence)                                      \
    [RG_SETTING_##                                                                                 \
        field] = {SIZE, AT(field), name, "bytes", fallback, NULL, least, most, NULL, sentence},
#define RG_DURATION(field, name, fallback, least, most, sentence)                                  \
    [RG_SETTING_##                                                                                 \
        field] = {DURATION, AT(field), name, "time", fallback, NULL, least, most, NULL, sentence},
#define RG_CHOICE(field, name, fallback, choices, sentence)                                        \
    [RG_SETTING_##field] = {CHOICE, AT(field), name, NULL, 0, fallback, 0, 0, choices, sentence},
#define RG_TEXT(field, name, fallback, most, sentence)                                             \
    [RG_SETTING_##field] = {TEXT, AT(field), name, NULL, 0, fallback, 0, most, NULL, sentence},
#define RG_SECRET(field, name, most, sentence)                                                     \
    [RG_SETTING_##field] = {SECRET, AT(field), name, NULL, 0, "", 0, most, NULL, sentence},
#define RG_GROUP(title)
static const struct row table[RG_SETTING_COUNT] = {
#include "base/settings.tbl"
};
#undef RG_INT
#undef RG_SIZE
#undef RG_DURATION
#undef RG_CHOICE
#undef RG_TEXT
#undef RG_SECRET
#undef RG_GROUP

/* The rows and the headings between them, in table order. */
#define RG_INT(field, ...)      {RG_SETTING_##field, NULL},
#define RG_SIZE(field, ...)     {RG_SETTING_##field, NULL},
#define RG_DURATION(field, ...) {RG_SETTING_##field, NULL},
#define RG_CHOICE(field, ...)   {RG_SETTING_##field, NULL},
#define RG_TEXT(field, ...)     {RG_SETTING_##field, NULL},
#define RG_SECRET(field, ...)   {RG_SETTING_##field, NULL},
#define RG_GROUP(title)         {-1, title},
static const struct {
    int row; /* -1: a heading */
    const char *title;
} outline[] = {
#include "base/settings.tbl"
};
#undef RG_INT
#undef RG_SIZE
#undef RG_DURATION
#undef RG_CHOICE
#undef RG_TEXT
#undef RG_SECRET
#undef RG_GROUP

static int64_t *number_at(struct rg_settings *settings, const struct row *row)
{
    return (int64_t *)(void *)((char *)settings + row->offset);
}

static char **text_at(struct rg_settings *settings, const struct row *row)
{
    return (char **)(void *)((char *)settings + row->offset);
}

static bool is_text(const struct row *row)
{
    return row->kind == TEXT || row->kind == SECRET;
}

/* Which word of "a|b|c" is `word`; -1 when none. */
static int choice_index(const char *choices, struct span word)
{
    struct span rest = rg_span_text(choices);
    for (int i = 0; rest.ptr; i++) {
        if (rg_span_eq(rg_span_cut(&rest, '|'), word)) {
            return i;
        }
    }
    return -1;
}

static struct span choice_word(const char *choices, int64_t index)
{
    struct span rest = rg_span_text(choices);
    struct span word = RG_SPAN_EMPTY;
    for (int64_t i = 0; i <= index; i++) {
        RG_ASSERT(rest.ptr);
        word = rg_span_cut(&rest, '|');
    }
    return word;
}

int rg_settings_init(struct rg_settings *settings, struct rg_error *err)
{
    *settings = (struct rg_settings){0};
    for (size_t i = 0; i < RG_SETTING_COUNT; i++) {
        const struct row *row = &table[i];
        if (is_text(row)) {
            char *text = strdup(row->fallback_text);
            if (!text) {
                rg_settings_free(settings);
                return rg_fail(err, RG_OUT_OF_MEMORY);
            }
            *text_at(settings, row) = text;
        } else if (row->kind == CHOICE) {
            int index = choice_index(row->choices, rg_span_text(row->fallback_text));
            RG_ASSERT(index >= 0);
            *number_at(settings, row) = index;
        } else {
            *number_at(settings, row) = row->fallback;
        }
    }
    return 0;
}

void rg_settings_free(struct rg_settings *settings)
{
    for (size_t i = 0; i < RG_SETTING_COUNT; i++) {
        if (is_text(&table[i])) {
            char **text = text_at(settings, &table[i]);
            if (*text && table[i].kind == SECRET) {
                explicit_bzero(*text, strlen(*text));
            }
            free(*text);
            *text = NULL;
        }
    }
}

struct suffix {
    const char *text;
    int64_t factor;
};

static const struct suffix size_suffixes[] = {
    {"T", INT64_C(1) << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1},
};

static const struct suffix duration_suffixes[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {"", 1000},
};

static bool parse_size(struct span text, int64_t *ret_value)
{
    uint64_t bytes;
    if (!rg_span_to_size(text, &bytes) || bytes > INT64_MAX) {
        return false;
    }
    *ret_value = (int64_t)bytes;
    return true;
}

/* Digits and one suffix. A bare number is seconds. */
static bool parse_duration(struct span text, int64_t *ret_value)
{
    size_t digits = 0;
    while (digits < text.len && isdigit((unsigned char)text.ptr[digits])) {
        digits++;
    }
    uint64_t value;
    if (!rg_span_to_u64(rg_span_head(text, digits), &value) || value > INT64_MAX) {
        return false;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(duration_suffixes); i++) {
        if (rg_span_is(rg_span_skip(text, digits), duration_suffixes[i].text)) {
            return rg_mul_checked((int64_t)value, duration_suffixes[i].factor, ret_value);
        }
    }
    return false;
}

static bool parse_octal(struct span text, int64_t *ret_value)
{
    int64_t value = 0;
    if (text.len == 0 || text.len > 6) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '7') {
            return false;
        }
        value = value * 8 + (text.ptr[i] - '0');
    }
    *ret_value = value;
    return true;
}

static bool parse_number(const struct row *row, struct span text, int64_t *ret_value)
{
    switch (row->kind) {
    case SIZE:
        return parse_size(text, ret_value);
    case DURATION:
        return parse_duration(text, ret_value);
    default:
        break;
    }
    if (strcmp(row->unit, "octal") == 0) {
        return parse_octal(text, ret_value);
    }
    uint64_t value;
    if (!rg_span_to_u64(text, &value) || value > INT64_MAX) {
        return false;
    }
    *ret_value = (int64_t)value;
    return true;
}

static void add_number(const struct row *row, int64_t value, struct rg_buf *out)
{
    if (row->kind == INT) {
        rg_buf_addf(out, strcmp(row->unit, "octal") == 0 ? "0%" PRIo64 : "%" PRId64, value);
        return;
    }
    const struct suffix *suffixes = row->kind == SIZE ? size_suffixes : duration_suffixes;
    size_t count =
        row->kind == SIZE ? RG_ARRAY_LENGTH(size_suffixes) : RG_ARRAY_LENGTH(duration_suffixes);
    const struct suffix *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct suffix *suffix = &suffixes[i];
        if (row->kind == DURATION && suffix->text[0] == '\0') {
            continue;
        }
        if (value % suffix->factor == 0 && (!best || suffix->factor > best->factor) &&
            (value != 0 || suffix->factor == (row->kind == DURATION ? 1000 : 1))) {
            best = suffix;
        }
    }
    RG_ASSERT(best);
    rg_buf_addf(out, "%" PRId64 "%s", value / best->factor, best->text);
}

static int fail_range(const struct row *row, const char *origin, const char *text,
                      struct rg_error *err)
{
    RG_BUF(least, 64);
    RG_BUF(most, 64);
    add_number(row, row->least, &least);
    add_number(row, row->most, &most);
    return rg_failf(err, RG_SETTING, "%s: setting %s is %.100s, but must be from %s to %s", origin,
                    row->name, text, rg_buf_text(&least), rg_buf_text(&most));
}

static const char *kind_hint(const struct row *row)
{
    switch (row->kind) {
    case SIZE:
        return "a size such as 65536, 64K, 5M, 1G";
    case DURATION:
        return "a time such as 500ms, 30s, 10m, 24h, 7d";
    default:
        return strcmp(row->unit, "octal") == 0 ? "an octal mode such as 0640" : "a whole number";
    }
}

static int set_text(struct rg_settings *settings, const struct row *row, const char *text,
                    const char *origin, struct rg_error *err)
{
    if (strlen(text) > (size_t)row->most) {
        return rg_failf(err, RG_SETTING, "%s: setting %s is longer than %" PRId64 " bytes", origin,
                        row->name, row->most);
    }
    char *copy = strdup(text);
    if (!copy) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    char **place = text_at(settings, row);
    free(*place);
    *place = copy;
    return 0;
}

int rg_settings_set(struct rg_settings *settings, enum rg_setting_id id, const char *text,
                    enum rg_setting_source source, const char *origin, struct rg_error *err)
{
    const struct row *row = &table[id];
    int rc = 0;
    if (is_text(row)) {
        rc = set_text(settings, row, text, origin, err);
    } else if (row->kind == CHOICE) {
        int index = choice_index(row->choices, rg_span_text(text));
        if (index < 0) {
            return rg_failf(err, RG_SETTING,
                            "%s: setting %s is \"%.100s\", but must be one of %s (lower case)",
                            origin, row->name, text, row->choices);
        }
        *number_at(settings, row) = index;
    } else {
        int64_t value;
        if (!parse_number(row, rg_span_text(text), &value)) {
            return rg_failf(err, RG_SETTING, "%s: setting %s is \"%.100s\", but must be %s", origin,
                            row->name, text, kind_hint(row));
        }
        if (value < row->least || value > row->most) {
            return fail_range(row, origin, text, err);
        }
        *number_at(settings, row) = value;
    }
    if (rc == 0) {
        settings->source[id] = source;
    }
    return rc;
}

const char *rg_setting_name(enum rg_setting_id id)
{
    RG_ASSERT((unsigned)id < RG_SETTING_COUNT);
    return table[id].name;
}

static int find_by_name(struct span name)
{
    for (int i = 0; i < RG_SETTING_COUNT; i++) {
        if (rg_span_is(name, table[i].name)) {
            return i;
        }
    }
    return -1;
}

static int find_by_name_nocase(struct span name)
{
    for (int i = 0; i < RG_SETTING_COUNT; i++) {
        if (rg_span_is_nocase(name, table[i].name)) {
            return i;
        }
    }
    return -1;
}

static int fail_unknown(struct span name, const char *origin, struct rg_error *err)
{
    int near = find_by_name_nocase(name);
    if (near >= 0) {
        return rg_failf(err, RG_SETTING, "%s: no setting is called \"%.*s\"; it is spelt %s",
                        origin, RG_SPAN_ARG(rg_span_head(name, NAME_MAX_BYTES)), table[near].name);
    }
    return rg_failf(err, RG_SETTING, "%s: no setting is called \"%.*s\"", origin,
                    RG_SPAN_ARG(rg_span_head(name, NAME_MAX_BYTES)));
}

/* RAILGATE_ADMIN_PORT -> admin-port; lower-case letters are kept so that they do not match. */
static void environment_to_name(struct span variable, char *name, size_t room)
{
    size_t len = RG_MIN(variable.len, room - 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)variable.ptr[i];
        if (c == '_') {
            name[i] = '-';
        } else if (isupper(c)) {
            name[i] = (char)tolower(c);
        } else if (islower(c)) {
            name[i] = (char)toupper(c);
        } else {
            name[i] = (char)c;
        }
    }
    name[len] = '\0';
}

static int load_environment(struct rg_settings *settings, const char *const *environment, int only,
                            struct rg_error *err)
{
    static const struct span prefix = {"RAILGATE_", 9};
    for (const char *const *entry = environment; entry && *entry; entry++) {
        struct span rest = rg_span_text(*entry);
        struct span variable = rg_span_cut(&rest, '=');
        if (!rg_span_starts(variable, prefix)) {
            continue;
        }
        char name[NAME_MAX_BYTES + 1];
        environment_to_name(rg_span_skip(variable, prefix.len), name, sizeof name);
        rg_autofree char *origin = rg_span_dup(variable);
        if (!origin) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        int id = find_by_name(rg_span_text(name));
        if (id < 0) {
            return rg_failf(err, RG_SETTING,
                            "%.100s: no setting has this environment variable (names are in "
                            "capitals, see railgate serve --help)",
                            origin);
        }
        if (only >= 0 && id != only) {
            continue;
        }
        int rc = rg_settings_set(settings, (enum rg_setting_id)id, rest.ptr ? rest.ptr : "",
                                 RG_FROM_ENVIRONMENT, origin, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int load_line(struct rg_settings *settings, struct span line, const char *origin,
                     struct rg_error *err)
{
    line = rg_span_trim(line);
    if (line.len && line.ptr[line.len - 1] == '\r') {
        line = rg_span_trim(rg_span_head(line, line.len - 1));
    }
    if (line.len == 0 || line.ptr[0] == '#') {
        return 0;
    }
    if (rg_span_has_nul(line) || rg_span_find(line, '=') < 0) {
        return rg_failf(err, RG_SETTING, "%s: not of the form `name = value`", origin);
    }
    struct span rest = line;
    struct span name = rg_span_trim(rg_span_cut(&rest, '='));
    int id = find_by_name(name);
    if (id < 0) {
        return fail_unknown(name, origin, err);
    }
    if (id == RG_SETTING_config) {
        return rg_failf(err, RG_SETTING, "%s: setting config cannot stand in a file", origin);
    }
    rg_autofree char *value = rg_span_dup(rg_span_trim(rest));
    if (!value) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    return rg_settings_set(settings, (enum rg_setting_id)id, value, RG_FROM_FILE, origin, err);
}

static int read_whole_file(const char *path, struct rg_buf *content, struct rg_error *err)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "setting config: cannot open %.200s", path);
    }
    for (;;) {
        char *at = rg_buf_reserve(content, 4096);
        if (!at) {
            return rg_failf(err, RG_SETTING, "setting config: %.200s is larger than %d bytes", path,
                            FILE_BYTES_MAX);
        }
        ssize_t got = read(fd, at, 4096);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return rg_fail_errno(err, RG_SETTING, errno, "setting config: cannot read %.200s",
                                 path);
        }
        if (got == 0) {
            return 0;
        }
        rg_buf_grew(content, (size_t)got);
    }
}

static int load_file(struct rg_settings *settings, const char *path, struct rg_error *err)
{
    RG_BUF(content, FILE_BYTES_MAX);
    int rc = read_whole_file(path, &content, err);
    if (rc < 0) {
        return rc;
    }
    struct span rest = rg_buf_span(&content);
    for (int number = 1; rest.ptr; number++) {
        RG_BUF(origin, 4200);
        rg_buf_addf(&origin, "%.4000s:%d", path, number);
        rc = load_line(settings, rg_span_cut(&rest, '\n'), rg_buf_text(&origin), err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int load_options(struct rg_settings *settings, const char **argv, int argc, int only,
                        int *ret_count, struct rg_error *err)
{
    int count = 0;
    bool options_end = false;
    for (int i = 0; i < argc; i++) {
        struct span word = rg_span_text(argv[i]);
        if (options_end || !rg_span_starts(word, RG_SPAN_LITERAL("-")) || word.len == 1) {
            if (only < 0) {
                argv[count] = argv[i];
            }
            count++;
            continue;
        }
        if (rg_span_is(word, "--")) {
            options_end = true;
            continue;
        }
        struct span rest =
            rg_span_starts(word, RG_SPAN_LITERAL("--")) ? rg_span_skip(word, 2) : word;
        struct span name = rg_span_cut(&rest, '=');
        rg_autofree char *origin =
            rg_span_dup(rg_span_head(word, word.len - rest.len - (rest.ptr ? 1 : 0)));
        if (!origin) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        int id = find_by_name(name);
        if (id < 0) {
            return fail_unknown(name, origin, err);
        }
        if (table[id].kind == SECRET) {
            return rg_failf(err, RG_SETTING,
                            "%s: setting %s is a secret and cannot be an option; use the "
                            "environment or a file",
                            origin, table[id].name);
        }
        const char *value = rest.ptr;
        if (!value) {
            if (i + 1 >= argc) {
                return rg_failf(err, RG_SETTING, "%s: setting %s needs a value", origin,
                                table[id].name);
            }
            value = argv[++i];
        }
        if (only >= 0 && id != only) {
            continue;
        }
        int rc =
            rg_settings_set(settings, (enum rg_setting_id)id, value, RG_FROM_OPTION, origin, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_count = count;
    return 0;
}

int rg_settings_load(struct rg_settings *settings, const char **argv, int argc,
                     const char *const *environment, int *ret_count, struct rg_error *err)
{
    int count;
    int rc = load_environment(settings, environment, RG_SETTING_config, err);
    if (rc == 0) {
        rc = load_options(settings, argv, argc, RG_SETTING_config, &count, err);
    }
    if (rc == 0 && settings->config[0]) {
        rc = load_file(settings, settings->config, err);
    }
    if (rc == 0) {
        rc = load_environment(settings, environment, -1, err);
    }
    if (rc == 0) {
        rc = load_options(settings, argv, argc, -1, ret_count, err);
    }
    return rc;
}

void rg_settings_value(const struct rg_settings *settings, enum rg_setting_id id,
                       struct rg_buf *ret_text)
{
    const struct row *row = &table[id];
    struct rg_settings *readable = (struct rg_settings *)settings;
    switch (row->kind) {
    case TEXT:
        rg_buf_add_text(ret_text, *text_at(readable, row));
        break;
    case SECRET:
        rg_buf_add_text(ret_text, **text_at(readable, row) ? "(set)" : "(not set)");
        break;
    case CHOICE:
        rg_buf_add_span(ret_text, choice_word(row->choices, *number_at(readable, row)));
        break;
    default:
        add_number(row, *number_at(readable, row), ret_text);
    }
}

static void add_variable(const char *name, struct rg_buf *out)
{
    rg_buf_add_text(out, "RAILGATE_");
    for (const char *c = name; *c; c++) {
        rg_buf_add_char(out, *c == '-' ? '_' : (char)toupper((unsigned char)*c));
    }
}

/* Unit, default and range of a row, in words. */
static void add_facts(const struct row *row, struct rg_buf *out)
{
    switch (row->kind) {
    case CHOICE:
        rg_buf_addf(out, "%s; default %s", row->choices, row->fallback_text);
        break;
    case TEXT:
        rg_buf_addf(out, "text; default %s", row->fallback_text[0] ? row->fallback_text : "empty");
        break;
    case SECRET:
        rg_buf_add_text(out, "secret; no default");
        break;
    default:
        rg_buf_addf(out, "%s; default ", row->unit);
        add_number(row, row->fallback, out);
        rg_buf_add_text(out, "; from ");
        add_number(row, row->least, out);
        rg_buf_add_text(out, " to ");
        add_number(row, row->most, out);
    }
}

void rg_settings_help(struct rg_buf *out)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(outline); i++) {
        if (outline[i].row < 0) {
            rg_buf_addf(out, "\n%s:\n", outline[i].title);
            continue;
        }
        const struct row *row = &table[outline[i].row];
        if (row->kind == SECRET) {
            rg_buf_add_text(out, "  ");
            add_variable(row->name, out);
            rg_buf_add_text(out, " (environment or file only)\n      ");
        } else {
            rg_buf_addf(out, "  --%s VALUE\n      ", row->name);
        }
        rg_buf_addf(out, "%s\n      [", row->sentence);
        add_facts(row, out);
        rg_buf_add_text(out, "]\n");
    }
}

static const char *const source_names[] = {"default", "file", "environment", "option"};

void rg_settings_show(const struct rg_settings *settings, struct rg_buf *out)
{
    for (size_t i = 0; i < RG_SETTING_COUNT; i++) {
        RG_BUF(value, 8192);
        rg_settings_value(settings, (enum rg_setting_id)i, &value);
        rg_buf_addf(out, "%-20s = %-20s # %s\n", table[i].name, rg_buf_text(&value),
                    source_names[settings->source[i]]);
    }
}

void rg_settings_reference(struct rg_buf *out)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(outline); i++) {
        if (outline[i].row < 0) {
            rg_buf_addf(
                out, "\n## %s\n\n| setting | environment | value | meaning |\n|---|---|---|---|\n",
                outline[i].title);
            continue;
        }
        const struct row *row = &table[outline[i].row];
        rg_buf_addf(out, "| `%s` | `", row->name);
        add_variable(row->name, out);
        rg_buf_add_text(out, "` | ");
        RG_BUF(facts, 1024);
        add_facts(row, &facts);
        for (const char *c = rg_buf_text(&facts); *c; c++) {
            rg_buf_add_text(out, *c == '|' ? " or " : (char[2]){*c, 0});
        }
        rg_buf_addf(out, " | %s |\n", row->sentence);
    }
}
