/*
 * Opens the catalogue and matches lines. The automaton over all literals says
 * which rows can match at all; those run their pattern, and the first that
 * matches fills in the event.
 *
 * Patterns come from outside too (rules files) and lines always do: both are
 * bounded by PCRE2's limits and by how much of a line is looked at.
 */
#include "diag/catalogue.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/encode.h"
#include "diag/literals.h"
#include "diag/lustre.h"
#include "diag/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define TEXT_BYTES_MAX   65536 /* of a line, searched for literals */
#define WINDOW_BYTES_MAX 8192  /* of a line, that patterns see */
#define MATCH_LIMIT      200000
#define DEPTH_LIMIT      2000
#define HEAP_LIMIT_KIB   2048
#define JIT_STACK_START  (32 << 10)
#define JIT_STACK_MAX    (256 << 10)
#define NEST_LIMIT       40
#define LITERAL_MIN      4   /* bytes of a literal found in a pattern */
#define GIVE_UP_MAX      100 /* a pattern that met its limit so often is not run again */
#define GROUPS_MAX       40
#define SUSPECT_TAG      (RG_LITERAL_TAGS_MAX - 1)
#define FOUND_WORDS      (RG_LITERAL_TAGS_MAX / 64)

extern const char rg_messages[];
extern const size_t rg_messages_len;

/* What a named group of a pattern fills in. */
enum field {
    FIELD_NID,
    FIELD_TO,
    FIELD_LOCAL,
    FIELD_DEV,
    FIELD_TARGET,
    FIELD_FS,
    FIELD_DEVICE,
    FIELD_CLIENT,
    FIELD_OP,
    FIELD_DETAIL,
    FIELD_RC,
    FIELD_WC,
    FIELD_SYNDROME,
    FIELD_NUMBER,
    FIELD_OF,
    FIELD_MINUTES,
    FIELD_SECONDS,
    FIELD_EPOCH,
    FIELD_XID,
    FIELD_COUNT,
};

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_NID] = "nid",           [FIELD_TO] = "to",           [FIELD_LOCAL] = "local",
    [FIELD_DEV] = "dev",           [FIELD_TARGET] = "target",   [FIELD_FS] = "fs",
    [FIELD_DEVICE] = "device",     [FIELD_CLIENT] = "client",   [FIELD_OP] = "op",
    [FIELD_DETAIL] = "detail",     [FIELD_RC] = "rc",           [FIELD_WC] = "wc",
    [FIELD_SYNDROME] = "syndrome", [FIELD_NUMBER] = "number",   [FIELD_OF] = "of",
    [FIELD_MINUTES] = "minutes",   [FIELD_SECONDS] = "seconds", [FIELD_EPOCH] = "epoch",
    [FIELD_XID] = "xid",
};

struct group {
    uint8_t field;
    uint16_t number;
};

struct compiled {
    pcre2_code *code;
    bool jit_tried;
    unsigned gave_up; /* times it met its limit */
    size_t group_count;
    struct group groups[GROUPS_MAX];
};

struct rg_catalogue {
    struct rg_rules rules; /* in matching order */
    struct compiled *compiled;
    struct rg_literals *literals;
    pcre2_match_context *context;
    pcre2_match_data *data;
    pcre2_jit_stack *jit_stack;
    uint64_t limits_hit;
    uint64_t found[FOUND_WORDS];
};

/* Words that make a line worth counting when no row knows it. */
static const char *const suspect_words[] = {
    "LustreError", "LNetError", "rror",     "ERROR",     "fail",      "Fail",       "FAIL",
    "imed out",    "timeout",   "Timeout",  "TIMEOUT",   "BUG:",      "Oops",       "anic",
    "orrupt",      "refused",   "denied",   "reject",    "abort",     "nreachable", "was lost",
    "blocked for", "hung",      "WARNING:", "uncorrect", "Uncorrect", "evict",
};

/* ---- Opening. ---- */

void rg_catalogue_free(struct rg_catalogue *catalogue)
{
    if (!catalogue) {
        return;
    }
    for (size_t i = 0; catalogue->compiled && i < catalogue->rules.count; i++) {
        pcre2_code_free(catalogue->compiled[i].code);
    }
    free(catalogue->compiled);
    rg_literals_free(catalogue->literals);
    pcre2_match_data_free(catalogue->data);
    pcre2_match_context_free(catalogue->context);
    pcre2_jit_stack_free(catalogue->jit_stack);
    rg_rules_free(&catalogue->rules);
    free(catalogue);
}

static void cleanup_catalogue(struct rg_catalogue **catalogue)
{
    rg_catalogue_free(*catalogue);
}

static int read_rules_file(struct rg_rules *rules, const char *path, struct rg_error *err)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "%s: cannot be opened", path);
    }
    struct stat facts;
    if (fstat(fd, &facts) < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "%s", path);
    }
    if (!S_ISREG(facts.st_mode)) {
        return rg_failf(err, RG_SETTING, "%s: not a regular file", path);
    }
    RG_BUF(text, RG_RULES_BYTES_MAX);
    for (;;) {
        char *room = rg_buf_reserve(&text, 65536);
        if (!room) {
            return rg_failf(err, RG_SETTING, "%s: larger than %d bytes", path,
                            RG_RULES_BYTES_MAX - 65536);
        }
        ssize_t got = read(fd, room, 65536);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return rg_fail_errno(err, RG_SETTING, errno, "%s: cannot be read", path);
        }
        if (got == 0) {
            break;
        }
        rg_buf_grew(&text, (size_t)got);
    }
    return rg_rules_read(rules, rg_buf_span(&text), path, false, err);
}

static bool is_built_in(const struct rg_catalogue_row *row)
{
    return strcmp(row->source, "built in") == 0;
}

/* True when `a` is tried before `b`, which stands behind it. */
static bool comes_first(const struct rg_catalogue_row *a, const struct rg_catalogue_row *b)
{
    if (a->rank != b->rank) {
        return a->rank > b->rank;
    }
    return !is_built_in(a) || is_built_in(b);
}

/* Stable, and nearly nothing to do: most rows stand in order. */
static void sort_rows(struct rg_rules *rules)
{
    for (size_t i = 1; i < rules->count; i++) {
        struct rg_catalogue_row row = rules->rows[i];
        size_t at = i;
        while (at > 0 && !comes_first(&rules->rows[at - 1], &row)) {
            rules->rows[at] = rules->rows[at - 1];
            at--;
        }
        rules->rows[at] = row;
    }
}

static int bad_row(const struct rg_catalogue_row *row, struct rg_error *err, const char *reason)
{
    return rg_failf(err, RG_SETTING, "%s: %s: %s", row->source, row->id, reason);
}

static int read_groups(const struct rg_catalogue_row *row, struct compiled *compiled,
                       struct rg_error *err)
{
    uint32_t count;
    uint32_t entry_bytes;
    PCRE2_SPTR table;
    pcre2_pattern_info(compiled->code, PCRE2_INFO_NAMECOUNT, &count);
    pcre2_pattern_info(compiled->code, PCRE2_INFO_NAMEENTRYSIZE, &entry_bytes);
    pcre2_pattern_info(compiled->code, PCRE2_INFO_NAMETABLE, &table);
    if (count > GROUPS_MAX) {
        return bad_row(row, err, "too many named groups");
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *entry = table + (size_t)i * entry_bytes;
        unsigned field = 0;
        while (field < FIELD_COUNT && strcmp((const char *)entry + 2, field_names[field]) != 0) {
            field++;
        }
        if (field == FIELD_COUNT) {
            return rg_failf(err, RG_SETTING, "%s: %s: no field is called \"%s\"", row->source,
                            row->id, (const char *)entry + 2);
        }
        compiled->groups[compiled->group_count++] = (struct group){
            .field = (uint8_t)field,
            .number = (uint16_t)(entry[0] << 8 | entry[1]),
        };
    }
    return 0;
}

static int compile_row(const struct rg_catalogue_row *row, pcre2_compile_context *context,
                       struct compiled *compiled, struct rg_error *err)
{
    int code;
    PCRE2_SIZE at;
    compiled->code = pcre2_compile((PCRE2_SPTR)row->pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_DUPNAMES | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP |
                                       PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY,
                                   &code, &at, context);
    if (!compiled->code) {
        PCRE2_UCHAR reason[160] = "";
        pcre2_get_error_message(code, reason, sizeof(reason));
        return rg_failf(err, RG_SETTING, "%s: %s: re: %s (at byte %zu)", row->source, row->id,
                        (const char *)reason, at);
    }
    return read_groups(row, compiled, err);
}

/* Behind the group or class that begins at `at`. */
static const char *skip_class(const char *at)
{
    at++;
    at += *at == '^';
    at += *at == ']';
    while (*at && *at != ']') {
        if (*at == '\\' && at[1]) {
            at++;
        } else if (at[0] == '[' && at[1] == ':') {
            const char *end = strstr(at, ":]");
            at = end ? end + 1 : at;
        }
        at++;
    }
    return *at ? at + 1 : at;
}

static const char *skip_group(const char *at)
{
    int depth = 0;
    while (*at) {
        if (*at == '\\' && at[1]) {
            at += 2;
            continue;
        }
        if (*at == '[') {
            at = skip_class(at);
            continue;
        }
        depth += *at == '(';
        depth -= *at == ')';
        at++;
        if (depth == 0) {
            break;
        }
    }
    return at;
}

static bool is_quantifier(char c)
{
    return c == '?' || c == '*' || c == '+' || c == '{';
}

/* One plain byte of the pattern: false when something else stands at *at, which
 * is skipped. */
static bool take_plain(const char **at, char *ret_byte)
{
    char c = **at;
    if (c == '[') {
        *at = skip_class(*at);
        return false;
    }
    if (c == '(') {
        *at = skip_group(*at);
        return false;
    }
    if (c == '\\') {
        char escaped = (*at)[1];
        bool plain = escaped && !((escaped | 0x20) >= 'a' && (escaped | 0x20) <= 'z') &&
                     !(escaped >= '0' && escaped <= '9');
        *at += escaped ? 2 : 1;
        *ret_byte = escaped;
        return plain;
    }
    (*at)++;
    if (c == '{') { /* a quantifier of what came before */
        while (**at && *(*at)++ != '}') {
        }
        return false;
    }
    *ret_byte = c;
    return !strchr(".^$|)*+?", c);
}

/*
 * The longest text that every match contains, as far as can be seen without
 * understanding groups. Empty when the pattern has alternatives at its top or
 * options inside.
 */
static void derive_literal(const char *pattern, struct rg_buf *ret_literal)
{
    RG_BUF(run, RG_LITERAL_BYTES_MAX);
    const char *at = pattern;
    if (strstr(pattern, "(?i") || strstr(pattern, "(?x") || strstr(pattern, "\\Q") ||
        pattern[0] == '*') {
        return;
    }
    while (*at) {
        if (*at == '|') {
            rg_buf_clear(ret_literal);
            return;
        }
        char byte;
        bool plain = take_plain(&at, &byte);
        bool optional = is_quantifier(*at) && *at != '+';
        if (plain && !optional) {
            rg_buf_add_char(&run, byte);
        }
        if (!plain || optional || *at == '+') {
            rg_buf_clear(&run);
        }
        if (rg_buf_ok(&run) && run.len > ret_literal->len) {
            rg_buf_clear(ret_literal);
            rg_buf_add_span(ret_literal, rg_buf_span(&run));
        }
    }
}

/* Room for every literal of every row. */
struct literal_list {
    struct rg_literal *items;
    size_t count;
    size_t room;
};

static int add_literal(struct literal_list *list, struct span text, uint32_t tag,
                       struct rg_error *err)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 1024;
        struct rg_literal *items = reallocarray(list->items, room, sizeof(*items));
        if (!items) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = (struct rg_literal){.text = text, .tag = tag};
    return 0;
}

/* A row without literals gets the one its pattern has. The text joins the other
 * texts. */
static int ensure_literal(struct rg_catalogue *catalogue, struct rg_catalogue_row *row,
                          struct rg_error *err)
{
    if (row->literal_count > 0) {
        return 0;
    }
    RG_BUF(literal, RG_LITERAL_BYTES_MAX);
    derive_literal(row->pattern, &literal);
    if (literal.len < LITERAL_MIN) {
        return bad_row(row, err,
                       "the pattern has no plain text that every match contains: "
                       "give a literal");
    }
    const char *text = rg_rules_keep(&catalogue->rules, rg_buf_span(&literal));
    if (!text) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    row->literals[row->literal_count++] = text;
    return 0;
}

static int build_automaton(struct rg_catalogue *catalogue, struct literal_list *list,
                           struct rg_error *err)
{
    for (size_t i = 0; i < catalogue->rules.count; i++) {
        struct rg_catalogue_row *row = &catalogue->rules.rows[i];
        int rc = ensure_literal(catalogue, row, err);
        for (size_t j = 0; rc == 0 && j < row->literal_count; j++) {
            struct span text = rg_span_text(row->literals[j]);
            if (text.len < 3 || text.len > RG_LITERAL_BYTES_MAX) {
                return bad_row(row, err, "a literal must have 3 to 200 bytes");
            }
            rc = add_literal(list, text, (uint32_t)i, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(suspect_words); i++) {
        int rc = add_literal(list, rg_span_text(suspect_words[i]), SUSPECT_TAG, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rg_literals_new(list->items, list->count, &catalogue->literals, err);
}

static int prepare_matching(struct rg_catalogue *catalogue, struct rg_error *err)
{
    catalogue->context = pcre2_match_context_create(NULL);
    catalogue->data = pcre2_match_data_create(GROUPS_MAX * 2, NULL);
    if (!catalogue->context || !catalogue->data) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    pcre2_set_match_limit(catalogue->context, MATCH_LIMIT);
    pcre2_set_depth_limit(catalogue->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(catalogue->context, HEAP_LIMIT_KIB);
    /* Without JIT (or memory for it) patterns are interpreted: slower, the same
     * answers. */
    catalogue->jit_stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
    if (catalogue->jit_stack) {
        pcre2_jit_stack_assign(catalogue->context, NULL, catalogue->jit_stack);
    }
    return 0;
}

static int compile_rows(struct rg_catalogue *catalogue, struct rg_error *err)
{
    catalogue->compiled = calloc(catalogue->rules.count + 1, sizeof(*catalogue->compiled));
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!catalogue->compiled || !context) {
        pcre2_compile_context_free(context);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    pcre2_set_parens_nest_limit(context, NEST_LIMIT);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < catalogue->rules.count; i++) {
        rc = compile_row(&catalogue->rules.rows[i], context, &catalogue->compiled[i], err);
    }
    pcre2_compile_context_free(context);
    return rc;
}

static bool run_pattern(struct rg_catalogue *catalogue, size_t index, struct span text);

/* An example shows what its row is for: it must be found through the literals
 * and match. */
static int check_examples(struct rg_catalogue *catalogue, struct rg_error *err)
{
    for (size_t i = 0; i < catalogue->rules.count; i++) {
        const struct rg_catalogue_row *row = &catalogue->rules.rows[i];
        for (size_t j = 0; j < row->example_count && !is_built_in(row); j++) {
            struct span text = rg_span_text(row->examples[j]);
            memset(catalogue->found, 0, sizeof(catalogue->found));
            rg_literals_find(catalogue->literals, text, catalogue->found);
            if (!(catalogue->found[i / 64] >> (i % 64) & 1)) {
                return bad_row(row, err, "the example does not contain the literal");
            }
            if (!run_pattern(catalogue, i, text)) {
                return bad_row(row, err, "the example does not match");
            }
        }
    }
    memset(catalogue->found, 0, sizeof(catalogue->found)); /* the first line has none of theirs */
    catalogue->limits_hit = 0;
    return 0;
}

int rg_catalogue_open(const char *const *rules_files, size_t count,
                      struct rg_catalogue **ret_catalogue, struct rg_error *err)
{
    RG_CLEANUP(cleanup_catalogue)
    struct rg_catalogue *catalogue = calloc(1, sizeof(*catalogue));
    if (!catalogue) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_rules_read(&catalogue->rules, rg_span(rg_messages, rg_messages_len), "messages.tbl",
                           true, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = read_rules_file(&catalogue->rules, rules_files[i], err);
    }
    if (rc < 0) {
        return rc;
    }
    sort_rows(&catalogue->rules);

    struct literal_list list = {0};
    rc = compile_rows(catalogue, err);
    rc = rc < 0 ? rc : build_automaton(catalogue, &list, err);
    rc = rc < 0 ? rc : prepare_matching(catalogue, err);
    rc = rc < 0 ? rc : check_examples(catalogue, err);
    free(list.items);
    if (rc < 0) {
        return rc;
    }
    *ret_catalogue = RG_TAKE(catalogue);
    return 0;
}

/* ---- Matching. ---- */

static bool run_pattern(struct rg_catalogue *catalogue, size_t index, struct span text)
{
    struct compiled *compiled = &catalogue->compiled[index];
    if (compiled->gave_up >= GIVE_UP_MAX) {
        catalogue->limits_hit++;
        return false;
    }
    if (!compiled->jit_tried) {
        compiled->jit_tried = true;
        pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
    }
    int rc = pcre2_match(compiled->code, (PCRE2_SPTR)text.ptr,
                         RG_MIN(text.len, (size_t)WINDOW_BYTES_MAX), 0, 0, catalogue->data,
                         catalogue->context);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        catalogue->limits_hit++;
        compiled->gave_up++;
    }
    return rc >= 0;
}

/* Punctuation that a greedy group takes along from the end of a sentence. */
static struct span without_punctuation(struct span value)
{
    while (value.len > 0 && strchr(".,:;", value.ptr[value.len - 1])) {
        value.len--;
    }
    return value;
}

static bool read_integer(struct span value, int64_t *ret_number)
{
    bool negative = value.len > 0 && value.ptr[0] == '-';
    uint64_t number;
    if (!rg_span_to_u64(rg_span_skip(value, negative), &number) || number > INT64_MAX) {
        return false;
    }
    *ret_number = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static void fill_target(struct rg_event *event, const struct rg_target_name *target)
{
    event->target_kind = target->kind;
    event->target_index = target->index;
    event->target = target->target;
    if (target->file_system.len > 0) {
        event->file_system = target->file_system;
    }
}

static void fill_device(struct rg_event *event, struct span name)
{
    struct rg_device_name device;
    if (!rg_device_parse(name, &device)) {
        return;
    }
    if (event->speaker_role == RG_ROLE_UNKNOWN) {
        event->speaker_role = device.speaker;
    }
    const struct rg_target_name *subject =
        device.remote.kind != RG_TARGET_NONE ? &device.remote : &device.local;
    if (event->target_kind == RG_TARGET_NONE && subject->kind != RG_TARGET_NONE) {
        fill_target(event, subject);
    }
    if (event->file_system.len == 0) {
        event->file_system = device.remote.file_system;
    }
    if (event->nid.len == 0) {
        event->nid = device.mgs_nid;
    }
}

static void fill_number(struct rg_event *event, enum field field, struct span value)
{
    int64_t number;
    if (!read_integer(value, &number)) {
        return;
    }
    switch (field) {
    case FIELD_RC:
        if (number > -100000 && number < 100000) {
            event->rc = number > 0 ? -(int)number : (int)number;
        }
        break;
    case FIELD_WC:
        if (number >= 0 && number < 1000) {
            event->wc_status = (int)number;
        }
        break;
    case FIELD_NUMBER:
        event->number = number;
        break;
    case FIELD_OF:
        event->number_of = number;
        break;
    case FIELD_MINUTES:
        if (number >= 0 && number < INT32_MAX) {
            event->number += number * 60;
        }
        break;
    case FIELD_SECONDS:
        if (number >= 0 && number < INT32_MAX) {
            event->number += number;
        }
        break;
    case FIELD_EPOCH:
        event->epoch = number > 0 ? number : 0;
        break;
    case FIELD_XID:
        event->request.xid = number > 0 ? (uint64_t)number : 0;
        break;
    default:
        break;
    }
}

/* The syndrome of an mlx5 error completion (linux/mlx5/cq.h) as the
 * ib_wc_status it stands for. */
static int status_of_syndrome(struct span value)
{
    static const struct {
        uint8_t syndrome;
        uint8_t status;
    } known[] = {
        {0x01, 1}, {0x02, 2},  {0x04, 4},  {0x05, 5},  {0x06, 6},  {0x10, 7},  {0x11, 8},
        {0x12, 9}, {0x13, 10}, {0x14, 11}, {0x15, 12}, {0x16, 13}, {0x22, 16},
    };
    uint8_t syndrome;
    if (!rg_hex_decode(value, &syndrome, 1)) {
        return -1;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(known); i++) {
        if (known[i].syndrome == syndrome) {
            return known[i].status;
        }
    }
    return -1;
}

static void fill_field(struct rg_event *event, enum field field, struct span value,
                       struct span *dev)
{
    struct rg_target_name target;
    switch (field) {
    case FIELD_NID:
        event->nid = rg_nid_bare(without_punctuation(value));
        break;
    case FIELD_TO:
        event->nid_to = rg_nid_bare(without_punctuation(value));
        break;
    case FIELD_LOCAL:
        event->nid_local = rg_nid_bare(without_punctuation(value));
        break;
    case FIELD_DEV:
        *dev = value;
        break;
    case FIELD_TARGET:
        if (rg_target_parse(value, &target)) {
            fill_target(event, &target);
        }
        break;
    case FIELD_FS:
        event->file_system = value;
        break;
    case FIELD_DEVICE:
        event->device = value;
        break;
    case FIELD_CLIENT:
        event->client = value;
        break;
    case FIELD_OP:
        event->operation = value;
        break;
    case FIELD_DETAIL:
        event->detail = value;
        break;
    case FIELD_SYNDROME:
        event->wc_status = status_of_syndrome(value);
        break;
    default:
        fill_number(event, field, value);
        break;
    }
}

static void fill_groups(const struct rg_catalogue *catalogue, const struct compiled *compiled,
                        struct span text, struct rg_event *event)
{
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(catalogue->data);
    uint32_t pairs = pcre2_get_ovector_count(catalogue->data);
    struct span dev = RG_SPAN_EMPTY;
    for (size_t i = 0; i < compiled->group_count; i++) {
        size_t number = compiled->groups[i].number;
        if (number >= pairs || ends[2 * number] == PCRE2_UNSET ||
            ends[2 * number + 1] <= ends[2 * number]) {
            continue;
        }
        struct span value =
            rg_span(text.ptr + ends[2 * number], ends[2 * number + 1] - ends[2 * number]);
        fill_field(event, (enum field)compiled->groups[i].field, value, &dev);
    }
    if (dev.len > 0) {
        fill_device(event, dev);
    }
}

static void fill_request(struct rg_event *event, struct span text)
{
    struct rg_request_tail tail;
    struct span name;
    struct span nid;
    if (!rg_request_tail_parse(text, &tail, &name, &nid)) {
        event->request.sent = tail.sent;
        event->request.real = tail.real;
        return;
    }
    event->request = tail;
    if (event->nid.len == 0) {
        event->nid = nid;
    }
    if (tail.inbound) {
        event->speaker_role = RG_ROLE_SERVER;
        if (event->client.len == 0) {
            event->client = name;
        }
    } else {
        fill_device(event, name);
    }
    const char *operation = tail.opcode >= 0 ? rg_opcode_name(tail.opcode) : NULL;
    if (event->operation.len == 0 && operation) {
        event->operation = rg_span_text(operation);
    }
    if (event->rc == 0 && tail.rc < 0) {
        event->rc = tail.rc;
    }
}

/* The status in the line may accuse somebody else than the message as such. */
static void weigh_status(struct rg_event *event)
{
    if (!event->row->accused_by_status) {
        return;
    }
    const struct rg_status_info *info =
        event->wc_status >= 0 ? rg_wc_info(event->wc_status) : rg_errno_info(event->rc);
    event->accused = info ? info->accused : RG_ACCUSED_PATH;
    if (event->wc_status == 5 && event->effect == RG_EFFECT_FAULT) {
        event->effect = RG_EFFECT_NONE; /* flushed: never a fault of its own */
    }
}

static void fill_event(struct rg_catalogue *catalogue, size_t index,
                       const struct rg_log_record *record, struct rg_event *ret_event)
{
    const struct rg_catalogue_row *row = &catalogue->rules.rows[index];
    struct span text = rg_span_head(record->text, TEXT_BYTES_MAX);
    *ret_event = (struct rg_event){
        .record = record,
        .row = row,
        .accused = row->accused,
        .effect = row->effect,
        .target_kind = RG_TARGET_NONE,
        .target_index = -1,
        .file_system = RG_SPAN_EMPTY,
        .target = RG_SPAN_EMPTY,
        .nid = RG_SPAN_EMPTY,
        .nid_to = RG_SPAN_EMPTY,
        .nid_local = RG_SPAN_EMPTY,
        .device = RG_SPAN_EMPTY,
        .client = RG_SPAN_EMPTY,
        .operation = RG_SPAN_EMPTY,
        .detail = RG_SPAN_EMPTY,
        .site = RG_SPAN_EMPTY,
        .wc_status = -1,
        .request = {.opcode = -1, .flags = RG_SPAN_EMPTY},
    };
    struct rg_line_prefix prefix;
    rg_line_prefix(text, &prefix);
    ret_event->site = prefix.site;
    fill_groups(catalogue, &catalogue->compiled[index], text, ret_event);
    uint64_t xid = ret_event->request.xid;
    fill_request(ret_event, text);
    if (xid && !ret_event->request.present) {
        ret_event->request.xid = xid;
    }
    /* Releases before 2.4 printed UUID and NID of a denied client the wrong way
     * round. */
    if (rg_nid_is(ret_event->client) && !rg_nid_is(ret_event->nid)) {
        struct span nid = ret_event->client;
        ret_event->client = ret_event->nid;
        ret_event->nid = nid;
    }
    if (row->speaker != RG_ROLE_UNKNOWN) {
        ret_event->speaker_role = row->speaker;
    }
    weigh_status(ret_event);
}

bool rg_catalogue_seek(struct rg_catalogue *catalogue, const struct rg_log_record *record)
{
    return rg_literals_find(catalogue->literals, rg_span_head(record->text, TEXT_BYTES_MAX),
                            catalogue->found);
}

enum rg_match rg_catalogue_decide(struct rg_catalogue *catalogue,
                                  const struct rg_log_record *record, struct rg_event *ret_event)
{
    struct span text = rg_span_head(record->text, TEXT_BYTES_MAX);
    uint64_t *found = catalogue->found;
    size_t words = catalogue->rules.count / 64 + 1;
    bool suspect = found[SUSPECT_TAG / 64] >> (SUSPECT_TAG % 64) & 1;
    enum rg_match match = suspect ? RG_MATCH_SUSPECT : RG_MATCH_NONE;
    found[SUSPECT_TAG / 64] &= ~(UINT64_C(1) << (SUSPECT_TAG % 64));
    for (size_t word = 0; word < words; word++) {
        uint64_t bits = found[word];
        found[word] = 0;
        while (bits && match != RG_MATCH_ROW) {
            size_t index = word * 64 + (size_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            if (run_pattern(catalogue, index, text)) {
                fill_event(catalogue, index, record, ret_event);
                match = RG_MATCH_ROW;
            }
        }
    }
    return match;
}

enum rg_match rg_catalogue_match(struct rg_catalogue *catalogue, const struct rg_log_record *record,
                                 struct rg_event *ret_event)
{
    return rg_catalogue_seek(catalogue, record) ? rg_catalogue_decide(catalogue, record, ret_event)
                                                : RG_MATCH_NONE;
}

bool rg_catalogue_row_matches(struct rg_catalogue *catalogue, size_t index, struct span text)
{
    RG_ASSERT(index < catalogue->rules.count);
    return run_pattern(catalogue, index, text);
}

uint64_t rg_catalogue_limits_hit(const struct rg_catalogue *catalogue)
{
    return catalogue->limits_hit;
}

/* ---- Looking at rows. ---- */

size_t rg_catalogue_row_count(const struct rg_catalogue *catalogue)
{
    return catalogue->rules.count;
}

const struct rg_catalogue_row *rg_catalogue_row_at(const struct rg_catalogue *catalogue,
                                                   size_t index)
{
    RG_ASSERT(index < catalogue->rules.count);
    return &catalogue->rules.rows[index];
}

const struct rg_catalogue_row *rg_catalogue_row_by_id(const struct rg_catalogue *catalogue,
                                                      const char *id)
{
    for (size_t i = 0; i < catalogue->rules.count; i++) {
        if (strcasecmp(catalogue->rules.rows[i].id, id) == 0) {
            return &catalogue->rules.rows[i];
        }
    }
    return NULL;
}

const char *const *rg_catalogue_fields(size_t *ret_count)
{
    *ret_count = FIELD_COUNT;
    return field_names;
}
