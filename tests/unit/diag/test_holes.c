/*
 * What is known to be missing, and how it is said.
 */
#include "test.h"

#include "collect.h"

#include "diag/holes.h"

#include <inttypes.h>
#include <stdio.h>

static enum rg_language language;
static struct rg_buf told = RG_BUF_INIT(1 << 16);

static void tell(void *context, enum rg_phrase_id sentence, struct span name, uint64_t count)
{
    char text[64];
    char number[32];
    snprintf(text, sizeof(text), "%.*s", RG_SPAN_ARG(name));
    snprintf(number, sizeof(number), "%" PRIu64, count);
    char none[] = "";
    char *words[] = {none, text, number};
    struct rg_diagnosis diagnosis = {.words = words, .word_count = 3};
    struct rg_phrase phrase = {.id = sentence, .word = {1, 2}};
    rg_phrase_render(&diagnosis, &phrase, language, &told);
    rg_buf_add_char(&told, '\n');
}

/* The sentences about a text that is read as one source. */
static const char *holes_of(const char *text)
{
    struct collector *all = collector_new();
    struct rg_holes *holes;
    assert_int_equal(rg_holes_new(&holes, NULL), 0);
    collect_text(all, text);
    for (size_t i = 0; i < all->count; i++) {
        rg_holes_note(holes, &all->items[i].record);
    }
    rg_buf_clear(&told);
    rg_holes_tell(holes, all->desk.nodes, tell, NULL);
    rg_holes_free(holes);
    collector_free(all);
    return rg_buf_text(&told);
}

static void what_was_dropped_is_added_up(void **state)
{
    assert_string_equal(
        holes_of(
            "gpu01: [    1.000000] printk: 12 messages dropped\n"
            "gpu01: [    2.000000] ** 30 printk messages dropped **\n"
            "gpu01: [    3.000000] net_ratelimit: 5 callbacks suppressed\n"
            "Nov 29 14:30:11 oss1 rsyslogd: imjournal: 100 messages lost due to rate-limiting\n"
            "Nov 29 14:30:11 oss1 systemd-journald[9]: Suppressed 7 messages from /x.service\n"),
        "gpu01: the kernel dropped 42 messages before they could be read.\n"
        "gpu01: rate limits of the kernel kept back 5 lines.\n"
        "oss1: syslog or the journal dropped 107 messages by their rate limit.\n");
}

static void rings_that_lost_their_beginning(void **state)
{
    assert_string_equal(holes_of("gpu01: [  533.840297] a\n"),
                        "gpu01: its log begins 533 s after boot; what came before is not in it.\n");
    assert_string_equal(holes_of("gpu01: [    0.000000] a\n"), "");
    assert_string_equal(holes_of("Nov 29 14:30:11 oss1 kernel: a\n"), "");
}

static void other_lines_are_no_holes(void **state)
{
    assert_string_equal(holes_of("gpu01: [    1.000000] printk: console [tty0] enabled\n"
                                 "gpu01: [    1.000000] ** x printk messages dropped **\n"
                                 "gpu01: [    1.000000] *\n"
                                 "gpu01: [    1.000000] callbacks suppressed\n"
                                 "Nov 29 14:30:11 oss1 app: Suppressed 7 messages from me\n"),
                        "");
}

static void many_nodes_are_counted_together(void **state)
{
    RG_BUF(text, 1 << 16);
    for (int i = 0; i < 100; i++) {
        rg_buf_addf(&text, "gpu%d: [    1.000000] printk: 1 messages dropped\n", i);
    }
    const char *sentences = holes_of(rg_buf_text(&text));
    assert_non_null(strstr(sentences, "gpu63: the kernel dropped 1 messages"));
    assert_null(strstr(sentences, "gpu64:"));
    assert_non_null(strstr(sentences, "further nodes: the kernel dropped 36 messages"));
}

static void in_korean(void **state)
{
    language = RG_KOREAN;
    assert_string_equal(
        holes_of("[  533.840297] a\n"),
        "이름 없는 노드: 로그가 부팅 533초 후부터 시작되며, 그 이전 내용은 없습니다.\n");
    language = RG_ENGLISH;
}

static int tear_down(void **state)
{
    rg_buf_free(&told);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_dropped_is_added_up),
        cmocka_unit_test(rings_that_lost_their_beginning),
        cmocka_unit_test(other_lines_are_no_holes),
        cmocka_unit_test(in_korean),
        cmocka_unit_test(many_nodes_are_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
