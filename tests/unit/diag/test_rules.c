/*
 * The format of message rows and the files of a site: what is accepted, what is refused and how
 * the refusal reads, and that a bad pattern neither crashes nor hangs.
 */
#include "test.h"

#include "base/clock.h"
#include "diag/reference.h"
#include "diag/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int read_rules(const char *text, struct rg_rules *rules, struct rg_error *err)
{
    return rg_rules_read(rules, rg_span_text(text), "site.rules", false, err);
}

/* Opens the catalogue with one rules file of that text. */
static int open_with(const char *text, struct rg_catalogue **ret_catalogue, struct rg_error *err)
{
    rg_autoclose int fd = memfd_create("rules", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const char *files[] = {path};
    return rg_catalogue_open(files, 1, ret_catalogue, err);
}

static void reads_every_key(void **state)
{
    struct rg_rules rules = {0};
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(read_rules("# comment\r\n"
                                "id: SITE-1\r\n"
                                "family: SITE\n"
                                "title: A title\n"
                                "title-ko: 제목\n"
                                "re: boom (?<rc>-[0-9]+)\n"
                                "literal: boom\n"
                                "literal: BOOM\n"
                                "example: boom -5\n"
                                "releases: 2.12.4-2.15\n"
                                "layer: backend\n"
                                "speaker: server\n"
                                "accuses: target\n"
                                "effect: lost\n"
                                "severity: critical\n"
                                "rank: -7\n"
                                "console: no\n"
                                "cause: First line\n"
                                "  second line.\n"
                                "\tthird.\n"
                                "cause-ko: 원인\n"
                                "remedy: Do.\n"
                                "remedy-ko: 조치\n"
                                "avoid: Not.\n"
                                "avoid-ko: 금지\n"
                                "next: timeout 5 lctl dl\n"
                                "next: [server] timeout 5 uptime\n"
                                "\n"
                                "id: SITE-2\n"
                                "re: second",
                                &rules, &err),
                     0);
    assert_int_equal(rules.count, 2);
    const struct rg_catalogue_row *row = &rules.rows[0];
    assert_string_equal(row->id, "SITE-1");
    assert_string_equal(row->family, "SITE");
    assert_string_equal(row->title[RG_KOREAN], "제목");
    assert_string_equal(row->pattern, "boom (?<rc>-[0-9]+)");
    assert_int_equal(row->literal_count, 2);
    assert_int_equal(row->since, 21204);
    assert_int_equal(row->until, 21599);
    assert_int_equal(row->layer, RG_LAYER_BACKEND);
    assert_int_equal(row->speaker, RG_ROLE_SERVER);
    assert_int_equal(row->accused, RG_ACCUSED_TARGET);
    assert_int_equal(row->effect, RG_EFFECT_LOST);
    assert_int_equal(row->severity, RG_SEVERITY_CRITICAL);
    assert_int_equal(row->rank, -7);
    assert_int_equal(row->visibility, RG_HIDDEN);
    assert_string_equal(row->cause[RG_ENGLISH], "First line second line. third.");
    assert_string_equal(row->avoid[RG_KOREAN], "금지");
    assert_int_equal(row->next_count, 2);
    assert_int_equal(row->next[1].where, RG_WHERE_SERVER);
    assert_string_equal(row->next[1].command, "timeout 5 uptime");
    assert_string_equal(row->source, "site.rules:2");

    row = &rules.rows[1];
    assert_string_equal(row->family, "SITE-2");
    assert_string_equal(row->title[RG_KOREAN], "SITE-2");
    assert_string_equal(row->cause[RG_KOREAN], "");
    rg_rules_free(&rules);
}

static void refusals_name_line_and_reason(void **state)
{
    static const struct {
        const char *text;
        const char *start;
    } cases[] = {
        {"re: x\n", "site.rules:1: a row begins with id"},
        {"id: A\nid: B\n", "site.rules:1: A has no re"},
        {"id: A\n", "site.rules:1: A has no re"},
        {"id: a\n", "site.rules:1: id is made of capitals"},
        {"id: A\nre: x\n\nid: A\nre: y\n", "site.rules:4: A is there already"},
        {"id: A\nre: x\nre: y\n", "site.rules:3: re stands twice"},
        {"id: A\ncolour: red\n", "site.rules:2: \"colour\" is not a key"},
        {"id: A\njust words\n", "site.rules:2: \"just words\" is not a key"},
        {"id: A\nre:\n", "site.rules:2: re is empty"},
        {"id: A\nre: x\nlayer: sky\n", "site.rules:3: layer is not one of hardware, platform"},
        {"id: A\nre: x\nrank: 101\n", "site.rules:3: rank is a number"},
        {"id: A\nre: x\nrank: x\n", "site.rules:3: rank is a number"},
        {"id: A\nre: x\nreleases: new\n", "site.rules:3: releases are written"},
        {"id: A\nre: x\nreleases: 2.15-2.12\n", "site.rules:3: releases are written"},
        {"id: A\nre: x\nnext: rm -rf /\n", "site.rules:3: next: a command begins with"},
        {"id: A\nre: x\nnext: [moon] timeout 5 x\n", "site.rules:3: the place of next"},
        {"id: A\nre: x\nnext: [server timeout 5 x\n", "site.rules:3: next: ] is missing"},
        {"  continued\n", "site.rules:1: a continuation without"},
        {"\x7f\x45LF\n", "site.rules:1: \"\x7f\x45LF\" is not a key"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_rules rules = {0};
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(read_rules(cases[i].text, &rules, &err), -RG_SETTING);
        assert_int_equal(strncmp(err.message, cases[i].start, strlen(cases[i].start)), 0);
        rg_rules_free(&rules);
    }
}

static void lists_and_lines_have_ceilings(void **state)
{
    RG_BUF(text, 1 << 20);
    rg_buf_add_text(&text, "id: A\nre: x\n");
    for (int i = 0; i < RG_LITERALS_MAX + 1; i++) {
        rg_buf_addf(&text, "literal: word%d\n", i);
    }
    struct rg_rules rules = {0};
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(read_rules(rg_buf_text(&text), &rules, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "a row has at most"));
    rg_rules_free(&rules);

    rg_buf_clear(&text);
    rg_buf_add_text(&text, "id: A\nre: ");
    for (int i = 0; i < RG_RULE_LINE_MAX; i++) {
        rg_buf_add_char(&text, 'x');
    }
    assert_int_equal(read_rules(rg_buf_text(&text), &rules, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, ":2: longer than"));
    rg_rules_free(&rules);

    rg_buf_clear(&text);
    for (int i = 0; i <= RG_RULES_ROWS_MAX; i++) {
        rg_buf_addf(&text, "id: R%d\nre: x\n", i);
    }
    assert_int_equal(read_rules(rg_buf_text(&text), &rules, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "more than 2000 rows"));
    rg_rules_free(&rules);

    char *huge = calloc(1, RG_RULES_BYTES_MAX + 1);
    assert_non_null(huge);
    assert_int_equal(
        rg_rules_read(&rules, rg_span(huge, RG_RULES_BYTES_MAX + 1), "huge", false, &err),
        -RG_SETTING);
    free(huge);
    rg_rules_free(&rules);
}

static void nul_bytes_are_refused(void **state)
{
    struct rg_rules rules = {0};
    struct rg_error err = RG_ERROR_INIT;
    static const char text[] = "id: A\nre: a\0b\n";
    assert_int_equal(rg_rules_read(&rules, rg_span(text, sizeof(text) - 1), "x", false, &err),
                     -RG_SETTING);
    assert_non_null(strstr(err.message, "x:2: re holds a NUL byte"));
    rg_rules_free(&rules);
}

static void a_site_row_outranks_the_built_in(void **state)
{
    struct rg_catalogue *catalogue;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(
        open_with("id: SITE-LOST\n"
                  "re: Connection to (?<target>[^ ]+) \\(at (?<nid>[^)]+)\\) was lost\n"
                  "example: Lustre: x: Connection to fs-OST0001 (at 192.0.2.1@tcp) was "
                  "lost\n",
                  &catalogue, &err),
        0);
    struct rg_log_record record = {
        .text = rg_span_text("Lustre: fs-OST0001-osc-ffff88: Connection to fs-OST0001 (at "
                             "192.0.2.1@tcp) was lost; in progress operations using this service "
                             "will wait for recovery to complete"),
    };
    struct rg_event event;
    assert_int_equal(rg_catalogue_match(catalogue, &record, &event), RG_MATCH_ROW);
    assert_string_equal(event.row->id, "SITE-LOST");
    assert_int_equal(event.target_index, 1);
    assert_non_null(rg_catalogue_row_by_id(catalogue, "site-lost"));
    rg_catalogue_free(catalogue);
}

static void an_example_is_no_part_of_the_first_line(void **state)
{
    struct rg_catalogue *catalogue;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(open_with("id: A\n"
                               "re: some words [0-9]+\n"
                               "example: some words 7 of an ERROR\n",
                               &catalogue, &err),
                     0);
    struct rg_log_record record = {.text = RG_SPAN_LITERAL("some words none")};
    struct rg_event event;
    assert_int_equal(rg_catalogue_match(catalogue, &record, &event), RG_MATCH_NONE);
    record.text = RG_SPAN_LITERAL("some words none of an ERROR");
    assert_int_equal(rg_catalogue_match(catalogue, &record, &event), RG_MATCH_SUSPECT);
    rg_catalogue_free(catalogue);
}

static void bad_patterns_are_refused(void **state)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"id: A\nre: broken (\n", "A: re: "},
        {"id: A\nre: broken [a-\n", "A: re: "},
        {"id: A\nre: abcd(?<colour>x)\n", "no field is called \"colour\""},
        {"id: A\nre: [0-9]+\n", "give a literal"},
        {"id: A\nre: one thing|another thing\n", "give a literal"},
        {"id: A\nre: (?i)some words\n", "give a literal"},
        {"id: A\nre: some words\nexample: other words\n", "the example does not contain"},
        {"id: A\nre: some words$\nexample: some words more\n", "the example does not match"},
        {"id: A\nre: some words\nliteral: ab\n", "a literal must have 3 to 200 bytes"},
        {"id: PT-STATUS\nre: some words\n", "is there already (built in)"},
        {"id: A\nre: ((((((((((((((((((((((((((((((((((((((((((((((((((word"
         "))))))))))))))))))))))))))))))))))))))))))))))))))\n",
         "A: re: "},
        {"id: A\nre: word\\C\n", "A: re: "},
        {"id: A\nre: (?:(?:(?:w{1000}){1000}){1000}){1000}word\n", "A: re: "},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_catalogue *catalogue = NULL;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(open_with(cases[i].text, &catalogue, &err), -RG_SETTING);
        assert_non_null(strstr(err.message, cases[i].reason));
        assert_non_null(strstr(err.message, "/proc/self/fd/"));
        assert_null(catalogue);
    }
}

static void files_that_are_none_are_refused(void **state)
{
    static const char *const paths[] = {"/nonexistent/rules", "/dev/zero", "/tmp"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(paths); i++) {
        struct rg_catalogue *catalogue = NULL;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_catalogue_open(&paths[i], 1, &catalogue, &err), -RG_SETTING);
        assert_non_null(strstr(err.message, paths[i]));
    }
}

static void derived_literals_find_their_lines(void **state)
{
    static const struct {
        const char *re;
        const char *literal;
    } cases[] = {
        {"lost (?:one|two) battery of [a-z]+", " battery of "},
        {"battery\\.failed x?", "battery.failed "},
        {"colou?r of things", "r of things"},
        {"abc+defgh", "defgh"},
        {"[[:alpha:](]word here{2}x", "word her"},
        {"(?<detail>a\\)b)tail end$", "tail end"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        char text[400];
        snprintf(text, sizeof(text), "id: A\nre: %s\n", cases[i].re);
        struct rg_catalogue *catalogue;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(open_with(text, &catalogue, &err), 0);
        const struct rg_catalogue_row *row = rg_catalogue_row_by_id(catalogue, "A");
        assert_int_equal(row->literal_count, 1);
        assert_string_equal(row->literals[0], cases[i].literal);
        rg_catalogue_free(catalogue);
    }
}

/* A pattern that would try for ever stops at its limit, is counted, and does not match. */
static void hopeless_patterns_stop(void **state)
{
    struct rg_catalogue *catalogue;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(open_with("id: HOPELESS\n"
                               "re: trouble (?:(?:a+)+)+(?:(?:a*)*)*b\n"
                               "literal: trouble\n",
                               &catalogue, &err),
                     0);
    char line[4000] = "trouble ";
    memset(line + 8, 'a', sizeof(line) - 9);
    line[sizeof(line) - 1] = '\0';
    struct rg_log_record record = {.text = rg_span_text(line)};
    struct rg_event event;
    uint64_t start = rg_clock_ms();
    for (int i = 0; i < 50000; i++) {
        assert_int_equal(rg_catalogue_match(catalogue, &record, &event), RG_MATCH_NONE);
    }
    assert_true(rg_clock_ms() - start < 20000);
    assert_int_equal(rg_catalogue_limits_hit(catalogue), 50000);
    rg_catalogue_free(catalogue);
}

/* The page of the manual shows a file: it must be a good one. */
static void the_manual_s_example_is_right(void **state)
{
    RG_BUF(page, 4 << 20);
    rg_catalogue_reference(&page);
    const char *start = strstr(rg_buf_text(&page), "# site.rules\n");
    assert_non_null(start);
    const char *end = strstr(start, "```");
    assert_non_null(end);
    rg_autofree char *text = rg_span_dup(rg_span(start, (size_t)(end - start)));
    struct rg_catalogue *catalogue;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(open_with(text, &catalogue, &err), 0);
    assert_non_null(rg_catalogue_row_by_id(catalogue, "SITE-RAID-BATTERY"));
    rg_catalogue_free(catalogue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_key),
        cmocka_unit_test(refusals_name_line_and_reason),
        cmocka_unit_test(lists_and_lines_have_ceilings),
        cmocka_unit_test(nul_bytes_are_refused),
        cmocka_unit_test(a_site_row_outranks_the_built_in),
        cmocka_unit_test(an_example_is_no_part_of_the_first_line),
        cmocka_unit_test(bad_patterns_are_refused),
        cmocka_unit_test(files_that_are_none_are_refused),
        cmocka_unit_test(derived_literals_find_their_lines),
        cmocka_unit_test(hopeless_patterns_stop),
        cmocka_unit_test(the_manual_s_example_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
