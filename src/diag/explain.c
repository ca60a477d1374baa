/*
 * What the catalogue tells a person: one row (`railgate diagnose explain ID`), a next command with
 * its names filled in, and the reference page of all rows (docs/messages.md).
 */
#include "diag/catalogue.h"

#include "base/encode.h"
#include "diag/labels.h"
#include "diag/lustre.h"
#include "diag/reference.h"
#include "diag/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUE_BYTES_MAX 120

/* ---- Commands. ---- */

/* Characters that mean nothing to a shell and cannot begin an option. */
static bool is_safe(struct span value)
{
    if (value.len == 0 || value.len > VALUE_BYTES_MAX || value.ptr[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    strchr("._:@/+-", c) != NULL;
        if (!good || c == '\0') {
            return false;
        }
    }
    return true;
}

enum { PLACEHOLDER_PORT = 8, PLACEHOLDER_DISK = 9 };

struct placeholder {
    const char *name;
    const char *word; /* left for a person when the value is not there */
};

static const struct placeholder placeholders[] = {
    {"{nid}", "NID"},        {"{nid_to}", "NID"},    {"{nid_local}", "NID"},
    {"{target}", "TARGET"},  {"{device}", "DEVICE"}, {"{fsname}", "FSNAME"},
    {"{client}", "CLIENT"},  {"{detail}", "DETAIL"}, {"{port}", "INTERFACE"},
    {"{disk}", "/dev/DISK"}, {"{number}", "NUMBER"},
};

/* Drivers print the PCI address of a card where tools want the name of its interface. */
static void add_port(struct span device, struct rg_buf *out)
{
    if (rg_hex_has_shape(device, "xxxx:xx:xx.x")) {
        rg_buf_addf(out, "$(ls /sys/bus/pci/devices/%.*s/net)", RG_SPAN_ARG(device));
    } else {
        rg_buf_add_span(out, device);
    }
}

/* A multipath device names its paths by major and minor number. */
static void add_disk(struct span device, struct rg_buf *out)
{
    bool numbers = memchr(device.ptr, ':', device.len) != NULL;
    rg_buf_addf(out, numbers ? "/dev/block/%.*s" : "/dev/%.*s", RG_SPAN_ARG(device));
}

/* Like is_safe, for a FID in brackets: the brackets go, lfs takes it without them. */
static struct span bare_fid(struct span value)
{
    bool fid = value.len > 2 && value.ptr[0] == '[' && value.ptr[value.len - 1] == ']';
    return fid ? rg_span(value.ptr + 1, value.len - 2) : value;
}

static struct span placeholder_value(size_t index, const struct rg_event *event, char *number)
{
    switch (index) {
    case 0:
        return event->nid;
    case 1:
        return event->nid_to;
    case 2:
        return event->nid_local;
    case 3:
        return event->target;
    case 4:
    case PLACEHOLDER_PORT:
    case PLACEHOLDER_DISK:
        return event->device;
    case 5:
        return event->file_system;
    case 6:
        return event->client;
    case 7:
        return bare_fid(event->detail);
    default:
        break;
    }
    int len = snprintf(number, 24, "%" PRId64, event->number);
    return rg_span(number, len > 0 ? (size_t)len : 0);
}

/* Index of the placeholder at the start of the text, or -1. */
static int find_placeholder(const char *text)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(placeholders); i++) {
        if (strncmp(text, placeholders[i].name, strlen(placeholders[i].name)) == 0) {
            return (int)i;
        }
    }
    return -1;
}

bool rg_catalogue_command(const char *command, const struct rg_event *event, struct rg_buf *out)
{
    bool whole = true;
    while (*command) {
        int found = *command == '{' ? find_placeholder(command) : -1;
        if (found < 0) {
            rg_buf_add_char(out, *command++);
            continue;
        }
        char number[24];
        struct span value = placeholder_value((size_t)found, event, number);
        if (!is_safe(value)) {
            rg_buf_add_text(out, placeholders[found].word);
            whole = false;
        } else if (found == PLACEHOLDER_PORT) {
            add_port(value, out);
        } else if (found == PLACEHOLDER_DISK) {
            add_disk(value, out);
        } else {
            rg_buf_add_span(out, value);
        }
        command += strlen(placeholders[found].name);
    }
    return whole;
}

/* ---- Words. ---- */

enum word {
    WORD_LAYER,
    WORD_SPEAKER,
    WORD_ACCUSES,
    WORD_EFFECT,
    WORD_SEVERITY,
    WORD_CONSOLE,
    WORD_RELEASES,
    WORD_EXAMPLE,
    WORD_CAUSE,
    WORD_REMEDY,
    WORD_AVOID,
    WORD_NEXT,
    WORD_BY_STATUS,
    WORD_CONSOLE_YES,
    WORD_CONSOLE_NO,
    WORD_CONSOLE_SOME,
    WORD_COUNT,
};

static const char *const words[WORD_COUNT][RG_LANGUAGE_COUNT] = {
    [WORD_LAYER] = {"layer", "계층"},
    [WORD_SPEAKER] = {"printed by", "출력하는 쪽"},
    [WORD_ACCUSES] = {"accuses", "의심 대상"},
    [WORD_EFFECT] = {"effect", "효과"},
    [WORD_SEVERITY] = {"severity", "심각도"},
    [WORD_CONSOLE] = {"in dmesg", "dmesg 출력"},
    [WORD_RELEASES] = {"releases", "버전"},
    [WORD_EXAMPLE] = {"Example", "예"},
    [WORD_CAUSE] = {"Cause", "원인"},
    [WORD_REMEDY] = {"What helps", "조치"},
    [WORD_AVOID] = {"What not to do", "하지 말 것"},
    [WORD_NEXT] = {"Next", "다음 명령"},
    [WORD_BY_STATUS] = {"by the error number in the line", "로그의 오류 번호에 따라 다름"},
    [WORD_CONSOLE_YES] = {"always", "항상"},
    [WORD_CONSOLE_NO] = {"only in lctl dk, or after lctl set_param printk=+neterror",
                         "lctl dk에만, 또는 lctl set_param printk=+neterror 뒤에만"},
    [WORD_CONSOLE_SOME] = {"depends on the release or on rate limits",
                           "버전이나 출력 제한에 따라 다름"},
};

static const char *visibility_text(enum rg_visibility visibility, enum rg_language language)
{
    switch (visibility) {
    case RG_VISIBLE:
        return words[WORD_CONSOLE_YES][language];
    case RG_HIDDEN:
        return words[WORD_CONSOLE_NO][language];
    case RG_VISIBLE_BY_AGE:
        break;
    }
    return words[WORD_CONSOLE_SOME][language];
}

static void add_release(int release, struct rg_buf *out)
{
    if (release) {
        rg_buf_addf(out, "%d.%d", release / 10000, release / 100 % 100);
    }
    if (release && release % 100 != 0 && release % 100 != 99) {
        rg_buf_addf(out, ".%d", release % 100);
    }
}

static void add_releases(const struct rg_catalogue_row *row, struct rg_buf *out)
{
    add_release(row->since, out);
    rg_buf_add_char(out, '-');
    add_release(row->until, out);
}

/* The words of the enumerations in Korean; English ones are the names that rules files have. */
static const char *const korean_accused[RG_ACCUSED_COUNT] = {
    [RG_ACCUSED_NOBODY] = "없음",         [RG_ACCUSED_SELF] = "이 노드",
    [RG_ACCUSED_PEER] = "상대 노드",      [RG_ACCUSED_TARGET] = "타깃의 서버 또는 스토리지",
    [RG_ACCUSED_PATH] = "양쪽 또는 경로", [RG_ACCUSED_CONFIG] = "설정",
    [RG_ACCUSED_ADMIN] = "관리자 작업",   [RG_ACCUSED_CONSEQUENCE] = "다른 원인의 결과",
};

static const char *const korean_effects[RG_EFFECT_COUNT] = {
    [RG_EFFECT_NONE] = "없음",
    [RG_EFFECT_FAULT] = "장애",
    [RG_EFFECT_LOST] = "연결 끊김",
    [RG_EFFECT_RESTORED] = "복구",
    [RG_EFFECT_EVICTED] = "evict(데이터 손실 가능)",
    [RG_EFFECT_BOUNDARY] = "시작 또는 중지 시점",
    [RG_EFFECT_BENIGN] = "무해",
};

static const char *const korean_severities[RG_SEVERITY_COUNT] = {
    [RG_SEVERITY_INFO] = "정보",  [RG_SEVERITY_NOTICE] = "알림",   [RG_SEVERITY_WARNING] = "경고",
    [RG_SEVERITY_ERROR] = "오류", [RG_SEVERITY_CRITICAL] = "심각",
};

static const char *const korean_roles[RG_ROLE_COUNT] = {
    [RG_ROLE_UNKNOWN] = "모든 노드",
    [RG_ROLE_CLIENT] = "클라이언트",
    [RG_ROLE_SERVER] = "서버",
    [RG_ROLE_MGS] = "MGS",
};

static const char *accused_text(const struct rg_catalogue_row *row, enum rg_language language)
{
    if (row->accused_by_status) {
        return words[WORD_BY_STATUS][language];
    }
    return language == RG_KOREAN ? korean_accused[row->accused] : rg_accused_name(row->accused);
}

static const char *effect_text(enum rg_effect effect, enum rg_language language)
{
    return language == RG_KOREAN ? korean_effects[effect] : rg_effect_name(effect);
}

static const char *severity_text(enum rg_severity severity, enum rg_language language)
{
    return language == RG_KOREAN ? korean_severities[severity] : rg_severity_name(severity);
}

static const char *role_text(enum rg_role role, enum rg_language language)
{
    return language == RG_KOREAN ? korean_roles[role] : rg_role_name(role);
}

/* ---- One row. ---- */

static void add_fact(enum word word, const char *value, enum rg_language language,
                     struct rg_buf *out)
{
    rg_buf_addf(out, "  %s: %s\n", words[word][language], value);
}

static void add_paragraph(enum word word, const char *text, enum rg_language language,
                          struct rg_buf *out)
{
    if (text[0]) {
        rg_buf_addf(out, "\n%s\n  %s\n", words[word][language], text);
    }
}

void rg_catalogue_explain(const struct rg_catalogue_row *row, enum rg_language language,
                          struct rg_buf *out)
{
    rg_buf_addf(out, "%s: %s\n\n", row->id, row->title[language]);
    add_fact(WORD_LAYER, rg_layer_label(row->layer, language), language, out);
    add_fact(WORD_SPEAKER, role_text(row->speaker, language), language, out);
    add_fact(WORD_ACCUSES, accused_text(row, language), language, out);
    add_fact(WORD_EFFECT, effect_text(row->effect, language), language, out);
    add_fact(WORD_SEVERITY, severity_text(row->severity, language), language, out);
    add_fact(WORD_CONSOLE, visibility_text(row->visibility, language), language, out);
    if (row->since || row->until) {
        rg_buf_addf(out, "  %s: ", words[WORD_RELEASES][language]);
        add_releases(row, out);
        rg_buf_add_char(out, '\n');
    }
    add_paragraph(WORD_CAUSE, row->cause[language], language, out);
    add_paragraph(WORD_REMEDY, row->remedy[language], language, out);
    add_paragraph(WORD_AVOID, row->avoid[language], language, out);
    if (row->next_count > 0) {
        rg_buf_addf(out, "\n%s\n", words[WORD_NEXT][language]);
    }
    for (size_t i = 0; i < row->next_count; i++) {
        rg_buf_addf(out, "  [%s] %s\n", rg_where_name(row->next[i].where), row->next[i].command);
    }
    for (size_t i = 0; i < row->example_count; i++) {
        add_paragraph(WORD_EXAMPLE, row->examples[i], language, out);
    }
}

/* ---- The page of all rows. ---- */

/* Inside a table cell: the bar is the only byte that Markdown would take for itself. */
static void add_cell(const char *text, struct rg_buf *out)
{
    for (; *text; text++) {
        if (*text == '|') {
            rg_buf_add_char(out, '\\');
        }
        rg_buf_add_char(out, *text);
    }
}

static void add_row_section(const struct rg_catalogue_row *row, struct rg_buf *out)
{
    rg_buf_addf(out, "\n### %s\n\n%s. *%s*\n\n", row->id, row->title[RG_ENGLISH],
                row->title[RG_KOREAN]);
    rg_buf_addf(out, "layer %s, printed by %s, accuses %s, effect %s, severity %s, in dmesg: %s",
                rg_layer_name(row->layer), rg_role_name(row->speaker),
                accused_text(row, RG_ENGLISH), rg_effect_name(row->effect),
                rg_severity_name(row->severity), visibility_text(row->visibility, RG_ENGLISH));
    if (row->since || row->until) {
        rg_buf_add_text(out, ", releases ");
        add_releases(row, out);
    }
    if (strcmp(row->family, row->id) != 0) {
        rg_buf_addf(out, ", a form of %s", row->family);
    }
    rg_buf_add_text(out, "\n\n```\n");
    for (size_t i = 0; i < row->example_count; i++) {
        rg_buf_addf(out, "%s\n", row->examples[i]);
    }
    rg_buf_addf(out, "```\n\n%s\n\n*%s:* %s\n", row->cause[RG_ENGLISH], words[WORD_REMEDY][0],
                row->remedy[RG_ENGLISH]);
    if (row->avoid[RG_ENGLISH][0]) {
        rg_buf_addf(out, "\n*%s:* %s\n", words[WORD_AVOID][0], row->avoid[RG_ENGLISH]);
    }
    for (size_t i = 0; i < row->next_count; i++) {
        rg_buf_addf(out, "%s- on %s: `%s`\n", i ? "" : "\n",
                    row->next[i].where == RG_WHERE_HERE ? "this node"
                                                        : rg_where_name(row->next[i].where),
                    row->next[i].command);
    }
}

static void add_status_table(const char *title, const char *sign,
                             const struct rg_status_info *table, size_t count, struct rg_buf *out)
{
    rg_buf_addf(out,
                "\n## %s\n\n| number | name | accuses | meaning | next |\n|---|---|---|---|---|\n",
                title);
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(out, "| %s%d | %s | %s | ", sign, table[i].number, table[i].name,
                    rg_accused_name(table[i].accused));
        add_cell(table[i].meaning[RG_ENGLISH], out);
        rg_buf_add_text(out, " | ");
        add_cell(table[i].next[RG_ENGLISH], out);
        rg_buf_add_text(out, " |\n");
    }
}

static void add_format(struct rg_buf *out)
{
    rg_buf_add_text(
        out, "\n## Rules files\n\n"
             "`railgate diagnose --rules FILE` adds a site's own rows; they are tried "
             "before the built-in\nones of the same rank. A row begins with `id:` and has "
             "one `key: value` a line; a line that\nbegins with white space continues the "
             "one before; `#` begins a comment. Texts without a\nKorean form are shown in "
             "English. A mistake stops the start and names file, line and reason.\n\n"
             "```\n"
             "# site.rules\n"
             "id: SITE-RAID-BATTERY\n"
             "title: The RAID controller lost its cache battery\n"
             "re: megaraid_sas (?<device>[0-9a-f:.]+): .* battery (?<detail>failed|missing)\n"
             "literal: megaraid_sas\n"
             "example: megaraid_sas 0000:3b:00.0: scsi0: battery failed\n"
             "layer: backend\n"
             "speaker: server\n"
             "accuses: self\n"
             "effect: fault\n"
             "severity: error\n"
             "cause: The controller writes through from now on, so every write is slow.\n"
             "remedy: Replace the battery.\n"
             "next: timeout 10 storcli64 /c0/bbu show\n"
             "```\n\n| key | meaning |\n|---|---|\n");
    for (const struct rg_rule_key *key = rg_rules_keys(); key->name; key++) {
        rg_buf_addf(out, "| `%s` | ", key->name);
        add_cell(key->sentence, out);
        rg_buf_add_text(out, " |\n");
    }
    rg_buf_add_text(out, "\nNamed groups of a pattern fill in the fields of an event:");
    size_t count;
    const char *const *fields = rg_catalogue_fields(&count);
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(out, "%s`%s`", i ? ", " : " ", fields[i]);
    }
    rg_buf_add_text(out,
                    ".\n`dev` is a Lustre device name, from which speaker, target and file system "
                    "follow; `to` is a\nsecond NID, `local` one of the speaker's own; `minutes` "
                    "and `seconds` add up to `number`; `of`\nis a second number; `epoch` is what "
                    "the line states as the current time. A name may be used in\nseveral "
                    "alternatives.\n\nIn a command `{nid}`, `{nid_to}`, `{nid_local}`, `{target}`, "
                    "`{device}`, `{fsname}`, `{client}`,\n`{detail}` and `{number}` are filled in; "
                    "`{port}` is the network interface of `{device}`, also where\nthe line has "
                    "only the card's PCI address, `{disk}` the path of a block device. What a line "
                    "does not say\nstays as a word in capitals.\n\nPatterns run under limits and "
                    "see the first 8 KiB of a "
                    "line.\n\nWords: layer:");
    for (int i = 0; i < RG_LAYER_COUNT; i++) {
        rg_buf_addf(out, "%s %s", i ? "," : "", rg_layer_name((enum rg_layer)i));
    }
    rg_buf_add_text(out, ";\naccuses:");
    for (int i = 0; i < RG_ACCUSED_COUNT; i++) {
        rg_buf_addf(out, " %s,", rg_accused_name((enum rg_accused)i));
    }
    rg_buf_add_text(out, " by-status;\neffect:");
    for (int i = 0; i < RG_EFFECT_COUNT; i++) {
        rg_buf_addf(out, "%s %s", i ? "," : "", rg_effect_name((enum rg_effect)i));
    }
    rg_buf_add_text(out, ".\n");
}

void rg_catalogue_reference(struct rg_buf *out)
{
    struct rg_catalogue *catalogue;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_catalogue_open(NULL, 0, &catalogue, &err) < 0) {
        rg_buf_addf(out, "%s\n", err.message);
        return;
    }
    rg_buf_add_text(out, "# Messages\n\nThe lines that `railgate diagnose` knows: what they mean, "
                         "whom they accuse, what to do next.\n`railgate diagnose explain ID` "
                         "prints one of them, with `--lang ko` in Korean.\n");
    rg_buf_add_text(out, "\n## Rows\n");
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        add_row_section(rg_catalogue_row_at(catalogue, i), out);
    }
    size_t count;
    const struct rg_status_info *table = rg_errno_table(&count);
    add_status_table("Error numbers (rc)", "-", table, count, out);
    table = rg_wc_table(&count);
    add_status_table("Work completion status (ib_wc_status)", "", table, count, out);
    add_format(out);
    rg_catalogue_free(catalogue);
}
