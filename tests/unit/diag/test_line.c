/*
 * Cutting streams into lines: any size of read, hostile lines, what is cleaned away.
 */
#include "test.h"

#include "collect.h"

static struct rg_lines *open_lines(struct memory_stream *memory, size_t line_max)
{
    struct rg_stream stream = {read_memory, memory};
    struct rg_lines *lines;
    assert_int_equal(rg_lines_new(&stream, line_max, &lines, NULL), 0);
    return lines;
}

static void expect(struct rg_lines *lines, const char *text, uint64_t number)
{
    struct rg_line line;
    assert_int_equal(rg_lines_next(lines, &line, NULL), 1);
    assert_int_equal(line.len, strlen(text));
    assert_memory_equal(line.ptr, text, line.len);
    assert_int_equal(line.number, number);
}

static void expect_end(struct rg_lines *lines)
{
    struct rg_line line;
    assert_int_equal(rg_lines_next(lines, &line, NULL), 0);
    assert_int_equal(rg_lines_next(lines, &line, NULL), 0);
}

static void lines_whatever_the_size_of_reads(void **state)
{
    static const size_t pieces[] = {1, 2, 3, 7, 1000};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(pieces); i++) {
        struct memory_stream memory = {rg_span_text("\xef\xbb\xbfone\n\nthree\r\nlast"), pieces[i]};
        struct rg_lines *lines = open_lines(&memory, 100);
        expect(lines, "one", 1);
        expect(lines, "", 2);
        expect(lines, "three", 3);
        expect(lines, "last", 4);
        expect_end(lines);
        rg_lines_free(lines);
    }
}

static void long_lines_are_cut_and_the_next_is_whole(void **state)
{
    enum { LEN = 3 << 20 };
    char *text = malloc(LEN + 16);
    memset(text, 'x', LEN);
    memcpy(text + LEN, "\nnext\n", 6);
    for (size_t piece = 4096; piece <= (1u << 20); piece *= 16) {
        struct memory_stream memory = {rg_span(text, LEN + 6), piece};
        struct rg_lines *lines = open_lines(&memory, 1000);
        struct rg_line line;
        assert_int_equal(rg_lines_next(lines, &line, NULL), 1);
        assert_int_equal(line.len, 1000);
        assert_true(line.truncated);
        expect(lines, "next", 2);
        expect_end(lines);
        rg_lines_free(lines);
    }
    free(text);
}

static void what_terminals_add_is_removed(void **state)
{
    static const char text[] = "a\0b\n\x1b[1;31mred\x1b[0m text\n\x1b]0;title\ax\ny\bz\r\n"
                               "p\rq\nend\x1b";
    struct memory_stream memory = {rg_span(text, sizeof(text) - 1), 0};
    struct rg_lines *lines = open_lines(&memory, 100);
    expect(lines, "a b", 1);
    expect(lines, "red text", 2);
    expect(lines, "x", 3);
    expect(lines, "z", 4);
    expect(lines, "p q", 5);
    expect(lines, "end", 6);
    expect_end(lines);
    rg_lines_free(lines);
}

static void raw_bytes_behind_a_line(void **state)
{
    static const char text[] = "FIELD\n\x03\0\0\0\0\0\0\0a\nb\nnext\n";
    for (size_t piece = 1; piece < 12; piece++) {
        struct memory_stream memory = {rg_span(text, sizeof(text) - 1), piece};
        struct rg_lines *lines = open_lines(&memory, 100);
        char bytes[8];
        expect(lines, "FIELD", 1);
        assert_int_equal(rg_lines_raw(lines, bytes, 8, 8, NULL), 8);
        assert_int_equal(bytes[0], 3);
        assert_int_equal(rg_lines_raw(lines, bytes, 2, 3, NULL), 3);
        assert_memory_equal(bytes, "a\n", 2);
        expect(lines, "", 2);
        expect(lines, "next", 3);
        assert_int_equal(rg_lines_raw(lines, bytes, 8, 8, NULL), 0);
        rg_lines_free(lines);
    }
}

static void peeking_takes_nothing(void **state)
{
    struct memory_stream memory = {rg_span_text("first\nsecond\n"), 3};
    struct rg_lines *lines = open_lines(&memory, 100);
    struct span head;
    assert_int_equal(rg_lines_peek(lines, 8, &head, NULL), 0);
    assert_int_equal(head.len, 8);
    expect(lines, "first", 1);
    assert_int_equal(rg_lines_peek(lines, 100, &head, NULL), 0);
    assert_true(rg_span_is(head, "second\n"));
    expect(lines, "second", 2);
    expect_end(lines);
    rg_lines_free(lines);
}

static ssize_t read_then_fail(void *context, char *bytes, size_t room, struct rg_error *err)
{
    int *calls = context;
    if ((*calls)++ > 0) {
        return rg_failf(err, RG_PARSE, "broken");
    }
    memcpy(bytes, "whole\nhalf", 10);
    return 10;
}

static void a_failing_stream_gives_what_it_had(void **state)
{
    int calls = 0;
    struct rg_stream stream = {read_then_fail, &calls};
    struct rg_lines *lines;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_line line;
    assert_int_equal(rg_lines_new(&stream, 100, &lines, NULL), 0);
    expect(lines, "whole", 1);
    expect(lines, "half", 2);
    assert_int_equal(rg_lines_next(lines, &line, &err), -RG_PARSE);
    assert_string_equal(err.message, "broken");
    rg_lines_free(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_whatever_the_size_of_reads),
        cmocka_unit_test(long_lines_are_cut_and_the_next_is_whole),
        cmocka_unit_test(what_terminals_add_is_removed),
        cmocka_unit_test(raw_bytes_behind_a_line),
        cmocka_unit_test(peeking_takes_nothing),
        cmocka_unit_test(a_failing_stream_gives_what_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
