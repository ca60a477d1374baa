/*
 * What spans lines: blocks, journal exports, wrapped lines, repeats, boots, years; and names in
 * paths.
 */
#include "test.h"

#include "collect.h"
#include "diag/paths.h"

#include "diag/stamp.h"

#define SEC INT64_C(1000000)

#define WITH_COLLECTOR(name)                                                                       \
    struct collector *name = collector_new();                                                      \
    for (size_t piece_ = 0; piece_ == 0; piece_++, collector_free(name))

/* ---- Nodes ---- */

static void shapes_mixed_freely(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "[  533.840297] Lustre: one\n"
                          "Nov 29 14:30:11 oss1 kernel: Lustre: two\n"
                          "gpu01: [Sun Nov 29 14:30:11 2026] Lustre: three\n"
                          "이런 로그가 보입니다\n"
                          "LNetError\n"
                          "{\"_HOSTNAME\":\"mds1\",\"MESSAGE\":\"four\"}\n");
        assert_int_equal(all->count, 6);
        assert_text(all, 0, "Lustre: one");
        assert_node(all, 0, "");
        assert_node(all, 1, "oss1");
        assert_node(all, 2, "gpu01");
        assert_text(all, 3, "이런 로그가 보입니다");
        assert_text(all, 4, "LNetError");
        assert_node(all, 5, "mds1");
        assert_int_equal(all->items[5].record.line, 6);
    }
}

static void blocks_of_dshbak(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "----------------\ngpu[01-03,07].site\n----------------\n"
                          "[    1.000000] same\n"
                          "---------------\nlogin1 (1)\n---------------\n"
                          "[    2.000000] other\n");
        assert_int_equal(all->count, 5);
        assert_node(all, 0, "gpu01.site");
        assert_node(all, 2, "gpu03.site");
        assert_node(all, 3, "gpu07.site");
        assert_text(all, 3, "same");
        assert_node(all, 4, "login1");
    }
}

static void blocks_of_ansible_and_tail(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "gpu01 | CHANGED | rc=0 >>\n[    1.000000] one\n"
                          "gpu02 | SUCCESS | rc=0 >>\n[    1.000000] two\n"
                          "==> /logs/oss1/dmesg <==\n[    1.000000] three\n");
        assert_int_equal(all->count, 3);
        assert_node(all, 0, "gpu01");
        assert_node(all, 1, "gpu02");
        assert_node(all, 2, "oss1");
    }
}

static void whose_line_it_is(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_span(all, "file", "byfile", REFERENCE_USEC,
                     rg_span_text("[    1.000000] a\n"
                                  "pd: [    1.000000] b\n"
                                  "loghost: Nov 29 14:30:11 oss1 kernel: c\n"
                                  "Nov 29 14:30:11 localhost kernel: d\n"
                                  "/var/log/messages:Nov 29 14:30:11 oss2 kernel: e\n"));
        assert_node(all, 0, "byfile");
        assert_node(all, 1, "pd");
        assert_node(all, 2, "oss1");
        assert_node(all, 3, "byfile");
        assert_node(all, 4, "oss2");
    }
}

static void path_is(const char *path, const char *name)
{
    struct span found = rg_node_name_from_path(rg_span_text(path));
    RG_BUF(text, 256);
    rg_buf_add_span(&text, found);
    assert_string_equal(rg_buf_text(&text), name);
}

static void names_in_paths(void **state)
{
    path_is("gpu01/dmesg", "gpu01");
    path_is("gpu01/var/log/messages", "gpu01");
    path_is("/var/log/messages", "");
    path_is("messages-20261129", "");
    path_is("dmesg.1", "");
    path_is("gpu01.log", "gpu01");
    path_is("gpu01.dmesg.gz", "gpu01");
    path_is("dmesg-gpu01.txt", "gpu01");
    path_is("messages-oss1-20261129.xz", "oss1");
    path_is("logs/oss1.example.org.log", "oss1.example.org");
    path_is("02-ost-umount-during-write.client.log", "02-ost-umount-during-write.client");
    path_is("02-ost-umount-during-write.client.ctime.log", "02-ost-umount-during-write.client");
    path_is("sosreport-oss1-2026-11-29-abcdefg/sos_commands/lustre/lctl_device_list", "oss1");
    path_is("sosreport-oss1-0123456-2026-11-29-abcdefg.tar.xz", "oss1");
    path_is("sos-gpu01/var/log/messages", "gpu01");
    path_is("", "");
    path_is("///", "");
}

/* ---- Journal ---- */

static void export_entries(void **state)
{
    static const char text[] =
        "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1795962611000777\n__MONOTONIC_TIMESTAMP=77\n"
        "_BOOT_ID=aa\nPRIORITY=3\n_HOSTNAME=gpu01\n_TRANSPORT=kernel\nSYSLOG_IDENTIFIER=kernel\n"
        "_SOURCE_MONOTONIC_TIMESTAMP=533840297\nMESSAGE=Lustre: a=b\n\n"
        "__CURSOR=s=2\n__REALTIME_TIMESTAMP=1795962612000000\n_BOOT_ID=bb\n"
        "MESSAGE\n\x0b\0\0\0\0\0\0\0Lustre:\n\0\xff\x78\n_HOSTNAME=gpu01\n\n"
        "[    1.000000] plain\n";
    static const size_t pieces[] = {0, 1, 5};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(pieces); i++) {
        WITH_COLLECTOR(all)
        {
            all->piece = pieces[i];
            collect_span(all, "journal", NULL, REFERENCE_USEC, rg_span(text, sizeof(text) - 1));
            assert_int_equal(all->count, 3);
            assert_text(all, 0, "Lustre: a=b");
            assert_node(all, 0, "gpu01");
            assert_stamp(all, 0, RG_STAMP_UTC, INT64_C(1795962611000777));
            assert_int_equal(all->items[0].record.second.usec, 533840297);
            assert_int_equal(all->items[0].record.priority, 3);
            assert_text(all, 1, "Lustre:  \xffx");
            assert_int_equal(all->items[0].record.boot, 0);
            assert_int_equal(all->items[1].record.boot, 1);
            assert_text(all, 2, "plain");
        }
    }
}

static void a_field_that_lies_about_its_length(void **state)
{
    static const char text[] = "__CURSOR=s=1\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xff"
                               "Lustre\n\n";
    WITH_COLLECTOR(all)
    {
        struct memory_stream memory = {rg_span(text, sizeof(text) - 1), 0};
        struct rg_stream stream = {read_memory, &memory};
        struct rg_lines *lines;
        struct rg_source_facts facts = {0};
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_lines_new(&stream, RG_LINE_BYTES_MAX, &lines, NULL), 0);
        assert_int_equal(rg_reading_run(&all->desk, &facts, lines, &err), -RG_PARSE);
        rg_lines_free(lines);
    }
}

static void pretty_json(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "{\n\t\"__REALTIME_TIMESTAMP\" : \"1795962611000777\",\n"
                          "\t\"_HOSTNAME\" : \"gpu01\",\n\t\"MESSAGE\" : \"Lustre: \\\"x\\\"\"\n}\n"
                          "[    1.000000] plain\n");
        assert_int_equal(all->count, 2);
        assert_text(all, 0, "Lustre: \"x\"");
        assert_node(all, 0, "gpu01");
        assert_stamp(all, 0, RG_STAMP_UTC, INT64_C(1795962611000777));
    }
}

static void journal_of_sequences(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "\x1e{\"MESSAGE\":\"one\"}\n\x1e{\"MESSAGE\":\"two\"}\n");
        assert_text(all, 0, "one");
        assert_text(all, 1, "two");
    }
}

/* ---- Wrapped lines ---- */

static void lines_that_mail_wrapped(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all,
                     "[  533.840297] Lustre: lfs01-OST0000-osc-ffff8881: Connection to\n"
                     "lfs01-OST0000-very-long-name-that-does-not-fit (at 10.9.0.1@tcp) was lost\n"
                     "[  534.000000] Lustre: next\n");
        assert_int_equal(all->count, 2);
        assert_text(all, 0,
                    "Lustre: lfs01-OST0000-osc-ffff8881: Connection to "
                    "lfs01-OST0000-very-long-name-that-does-not-fit (at 10.9.0.1@tcp) was lost");
        assert_int_equal(all->items[0].record.line, 1);
        assert_int_equal(all->items[1].record.line, 3);
    }
}

static void prose_is_not_joined(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "[  533.840297] Lustre: lfs01-OST0000-osc-ffff8881: Connection to x\n"
                          "의미는 다음과 같습니다 그리고 더 많은 설명이 이어집니다 그렇습니다\n"
                          "[  533.840298] Lustre: lfs01-OST0000-osc-ffff8881: Connection to y\n"
                          "so\n"
                          "[  533.840299] Lustre: lfs01-OST0000-osc-ffff8881: Connection to z\n"
                          "\n"
                          "internationalisation-of-everything-is-not-part-of-the-line\n");
        assert_int_equal(all->count, 6);
        assert_text(all, 4, "Lustre: lfs01-OST0000-osc-ffff8881: Connection to z");
    }
}

/* ---- Repeats ---- */

static void skipped_lines_of_lustre(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all,
                     "gpu01: [    1.000000] Lustre: 1:0:(client.c:10:expire()) @@@ one\n"
                     "gpu02: [    1.000000] Lustre: 2:0:(client.c:10:expire()) @@@ other node\n"
                     "gpu01: [    2.000000] Lustre: 1:0:(import.c:20:lost()) other site\n"
                     "gpu01: [    3.000000] Lustre: 9:0:(client.c:10:expire()) Skipped 24 previous "
                     "similar messages\n"
                     "gpu01: [    4.000000] Lustre: 9:0:(never.c:1:seen()) Skipped 1 previous "
                     "similar message\n");
        assert_int_equal(all->count, 5);
        assert_text(all, 3, "Lustre: 1:0:(client.c:10:expire()) @@@ one");
        assert_int_equal(all->items[3].record.repeats, 23);
        assert_true(all->items[3].record.recalled);
        assert_stamp(all, 3, RG_STAMP_BOOT, 3 * SEC);
        assert_text(all, 4, "Lustre: 9:0:(never.c:1:seen()) Skipped 1 previous similar message");
        assert_int_equal(all->items[4].record.repeats, 0);
        assert_false(all->items[4].record.recalled);
    }
}

/* Nothing is read behind it. */
static void a_header_of_nothing(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "==> <==\n[    1.000000] one\n");
        assert_text(all, all->count - 1, "one");
        assert_int_equal(all->items[all->count - 1].record.node, 0);
    }
}

static void last_message_of_the_same_host(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "Nov 29 14:30:11 oss1 kernel: Lustre: of oss1\n"
                          "Nov 29 14:30:12 oss2 corosync[1]: of oss2\n"
                          "Nov 29 14:30:13 oss1 last message repeated 3 times\n"
                          "Nov 29 14:30:14 oss2 last message repeated 1 time\n"
                          "Nov 29 14:30:14 oss3 last message repeated 2 times\n");
        assert_text(all, 2, "Lustre: of oss1");
        assert_int_equal(all->items[2].record.repeats, 2);
        assert_int_equal(all->items[2].record.speaker, RG_SPEAKER_KERNEL);
        assert_text(all, 3, "of oss2");
        assert_string_equal(all->items[3].program, "corosync");
        assert_int_equal(all->items[3].record.repeats, 0);
        assert_text(all, 4, "last message repeated 2 times");
    }
}

static void message_in_brackets(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "Nov 29 14:30:11 oss1 kernel: message repeated 4 times: [ [  77.100000] "
                          "Lustre: text [x]]\n");
        assert_text(all, 0, "Lustre: text [x]");
        assert_int_equal(all->items[0].record.repeats, 3);
    }
}

static void message_in_brackets_of_nothing_but_a_stamp(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all,
                     "Nov 29 14:30:11 oss1 kernel: message repeated 4 times: [ [  77.100000] ]\n"
                     "Nov 29 14:30:12 oss1 kernel: Lustre: text\n");
        assert_int_equal(all->count, 1);
        assert_text(all, 0, "Lustre: text");
    }
}

/* ---- Boots ---- */

static void boots_by_stamps_that_go_back(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "gpu01: [  900.000000] a\n"
                          "gpu01: [  899.500000] a little out of order\n"
                          "gpu02: [   10.000000] another node\n"
                          "gpu01: [    0.000000] microcode\n"
                          "gpu01: [    0.000000] Linux version 6.1.0\n"
                          "gpu01: [  100.000000] b\n");
        static const uint32_t boots[] = {0, 0, 0, 1, 1, 1};
        for (size_t i = 0; i < RG_ARRAY_LENGTH(boots); i++) {
            assert_int_equal(all->items[i].record.boot, boots[i]);
        }
        rg_node_id node = all->items[0].record.node;
        assert_int_equal(rg_boots_count(all->desk.boots, node), 2);
    }
}

static void boots_by_the_kernels_first_line(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_text(all, "Nov 29 14:30:11 oss1 kernel: a\n"
                          "Nov 29 14:35:11 oss1 kernel: Linux version 6.1.0\n"
                          "Nov 29 14:35:12 oss1 kernel: b\n"
                          "-- Reboot --\n"
                          "Nov 29 14:40:12 oss1 kernel: c\n");
        assert_int_equal(all->items[0].record.boot, 0);
        assert_int_equal(all->items[1].record.boot, 1);
        assert_int_equal(all->items[2].record.boot, 1);
        assert_int_equal(all->items[3].record.boot, 2);
    }
}

static void the_same_boot_in_two_files(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_span(all, "a", "gpu01", REFERENCE_USEC,
                     rg_span_text("[  100.000001] first\n[  200.000002] second\n"));
        collect_span(all, "b", "gpu01", REFERENCE_USEC,
                     rg_span_text("[  200.000002] second\n[  300.000003] third\n"));
        collect_span(all, "c", "gpu01", REFERENCE_USEC,
                     rg_span_text("[  150.000009] of another boot\n"));
        assert_int_equal(all->items[1].record.boot, 0);
        assert_int_equal(all->items[2].record.boot, 0);
        assert_int_equal(all->items[3].record.boot, 0);
        assert_int_equal(all->items[4].record.boot, 1);
    }
}

static void the_boot_of_a_journal_is_known_by_the_ring(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_span(all, "ring", "gpu01", REFERENCE_USEC,
                     rg_span_text("[  100.000001] first\n[  200.000002] second\n"));
        collect_span(
            all, "journal", NULL, REFERENCE_USEC,
            rg_span_text("{\"_HOSTNAME\":\"gpu01\",\"_BOOT_ID\":\"old\",\"MESSAGE\":\"zero\"}\n"
                         "{\"_HOSTNAME\":\"gpu01\",\"_BOOT_ID\":\"now\",\"MESSAGE\":\"second\","
                         "\"_SOURCE_MONOTONIC_TIMESTAMP\":\"200000002\"}\n"
                         "{\"_HOSTNAME\":\"gpu01\",\"_BOOT_ID\":\"now\",\"MESSAGE\":\"third\"}\n"));
        assert_int_equal(all->items[1].record.boot, 0);
        assert_int_equal(all->items[2].record.boot, 1);
        assert_int_equal(all->items[3].record.boot, 0);
        assert_int_equal(all->items[4].record.boot, 0);
    }
}

#define ENTRY(id, text, usec)                                                                      \
    "{\"_HOSTNAME\":\"gpu01\",\"_BOOT_ID\":\"" id "\",\"MESSAGE\":\"" text                         \
    "\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"" usec "\"}\n"

/* What number the last line has, and which boot that is. */
static void expect_boots(struct collector *all, uint32_t number, uint32_t boot)
{
    const struct rg_log_record *record = &all->items[all->count - 1].record;
    assert_int_equal(record->boot, number);
    assert_int_equal(rg_boots_same(all->desk.boots, record->node, number), boot);
}

static void collect_ring(struct collector *all, const char *name, const char *text)
{
    collect_span(all, name, "gpu01", REFERENCE_USEC, rg_span_text(text));
}

static uint32_t boot_of(struct collector *all, uint32_t number)
{
    return rg_boots_same(all->desk.boots, all->items[0].record.node, number);
}

/* In its first minute a boot has a number of its own. */
static void the_first_minute_is_of_the_boot_that_later_lines_show(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_ring(all, "ring", "[  100.000001] first\n[  200.000002] second\n");
        collect_ring(all, "early", "[    5.000001] early\n[   30.000001] early\n");
        expect_boots(all, 1, 1);
        collect_ring(all, "early", "[  100.000001] first\n");
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 1), 0);
        /* The journal's, of which the first telling line is nobody's. */
        collect_ring(all, "journal",
                     ENTRY("now", "early", "5000001") ENTRY("now", "own", "70000001"));
        expect_boots(all, 2, 2);
        collect_ring(all, "of the journal", "[    5.000001] early\n[   70.000001] own\n");
        expect_boots(all, 2, 2);
        assert_int_equal(boot_of(all, 3), 2);
        collect_ring(all, "journal", ENTRY("now", "second", "200000002"));
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 2), 0);
        assert_int_equal(boot_of(all, 3), 0);
        assert_int_equal(boot_of(all, 4), 4);
        /* Another node's numbers are others. */
        assert_int_equal(rg_boots_same(all->desk.boots, 77, 1), 1);
    }
}

/* Of a ring that was full, and a file that is longer. */
static void lines_before_the_first_common_one_are_of_its_boot(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_ring(all, "ring", "[  500.000001] first\n[  600.000002] second\n");
        collect_ring(all, "file", "[    1.000001] x\n[  300.000001] y\n[  450.000001] z\n");
        expect_boots(all, 1, 1);
        collect_ring(all, "file", "[  500.000001] first\n");
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 1), 0);
    }
}

static void a_minute_before_a_restart_is_of_no_later_boot(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_ring(all, "ring", "[  100.000001] first\n[  200.000002] second\n");
        collect_ring(all, "back", "[   50.000001] x\n[    5.000001] y\n[  100.000001] first\n");
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 1), 1);
        assert_int_equal(boot_of(all, 2), 0);
        collect_ring(all, "split", "[   50.000001] x\n-- Reboot --\n[  100.000001] first\n");
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 3), 3);
        /* A line that could have been known was not, and then there is nothing for long. */
        collect_ring(all, "own", "[   50.000001] x\n[   99.000001] own\n[  200.000002] second\n");
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 4), 4);
        /* A boot that was known to be this one is no other. */
        collect_ring(all, "of back", "[   99.000001] own\n[  100.000001] first\n");
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 4), 4);
        /* The boot of a file that has no seconds since boot at first is not for it to tell. */
        collect_ring(all, "wall", "Nov 29 14:30:11 gpu01 kernel: x\n");
        expect_boots(all, 4, 4);
        collect_ring(all, "wall", "Nov 29 14:30:12 gpu01 kernel: [  100.000001] first\n");
        expect_boots(all, 0, 0);
        assert_int_equal(boot_of(all, 4), 4);
    }
}

static void many_numbers_may_be_one_boot(void **state)
{
    WITH_COLLECTOR(all)
    {
        const uint32_t count = 300;
        collect_ring(all, "ring", "[  100.000001] first\n");
        for (uint32_t i = 1; i <= count; i++) {
            char name[16];
            snprintf(name, sizeof(name), "%u", i);
            collect_ring(all, name, "[    5.000001] early\n");
            expect_boots(all, i, i);
            collect_ring(all, name, "[  100.000001] first\n");
        }
        for (uint32_t i = 0; i <= count; i++) {
            assert_int_equal(boot_of(all, i), 0);
        }
        assert_int_equal(boot_of(all, count + 1), count + 1);
    }
}

static void a_file_without_boot_stamps_beside_one_with(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_span(all, "a", "gpu01", REFERENCE_USEC,
                     rg_span_text("[Sun Nov 29 14:30:11 2026] a\n"));
        collect_span(all, "b", "gpu01", REFERENCE_USEC, rg_span_text("[  200.000002] a\n"));
        collect_span(all, "c", "gpu01", REFERENCE_USEC, rg_span_text("[  300.000002] other\n"));
        assert_int_equal(all->items[0].record.boot, 0);
        assert_int_equal(all->items[1].record.boot, 0);
        assert_int_equal(all->items[2].record.boot, 1);
    }
}

/* ---- Years ---- */

static int64_t at(int year, int month, int day)
{
    return rg_days_from_date(year, month, day) * 86400 * SEC;
}

static void years_from_the_end_of_the_file(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_span(all, "messages", NULL, at(2026, 1, 5) + SEC,
                     rg_span_text("Nov 30 00:00:00 oss1 kernel: a\n"
                                  "Dec 31 00:00:00 oss1 kernel: b\n"
                                  "Jan  1 00:00:00 oss1 kernel: c\n"
                                  "Dec 31 00:00:00 oss1 kernel: late\n"
                                  "Jan  5 00:00:00 oss1 kernel: d\n"));
        assert_stamp(all, 0, RG_STAMP_LOCAL, at(2025, 11, 30));
        assert_stamp(all, 1, RG_STAMP_LOCAL, at(2025, 12, 31));
        assert_stamp(all, 2, RG_STAMP_LOCAL, at(2026, 1, 1));
        assert_stamp(all, 3, RG_STAMP_LOCAL, at(2025, 12, 31));
        assert_stamp(all, 4, RG_STAMP_LOCAL, at(2026, 1, 5));
    }
}

static void a_file_of_more_than_a_year(void **state)
{
    WITH_COLLECTOR(all)
    {
        collect_span(all, "messages", NULL, at(2026, 1, 12),
                     rg_span_text("Jan 10 00:00:00 oss1 kernel: a\n"
                                  "Jun 10 00:00:00 oss1 kernel: b\n"
                                  "Dec 10 00:00:00 oss1 kernel: c\n"
                                  "Jan 11 00:00:00 oss1 kernel: d\n"));
        rg_clocks_settle(all->desk.clocks);
        struct rg_moment first = rg_moment_of(&all->items[0].record);
        struct rg_moment last = rg_moment_of(&all->items[3].record);
        assert_int_equal(rg_clocks_resolve(all->desk.clocks, &first).usec, at(2025, 1, 10));
        assert_int_equal(rg_clocks_resolve(all->desk.clocks, &last).usec, at(2026, 1, 11));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_mixed_freely),
        cmocka_unit_test(blocks_of_dshbak),
        cmocka_unit_test(blocks_of_ansible_and_tail),
        cmocka_unit_test(whose_line_it_is),
        cmocka_unit_test(names_in_paths),
        cmocka_unit_test(export_entries),
        cmocka_unit_test(a_field_that_lies_about_its_length),
        cmocka_unit_test(pretty_json),
        cmocka_unit_test(journal_of_sequences),
        cmocka_unit_test(lines_that_mail_wrapped),
        cmocka_unit_test(prose_is_not_joined),
        cmocka_unit_test(skipped_lines_of_lustre),
        cmocka_unit_test(a_header_of_nothing),
        cmocka_unit_test(last_message_of_the_same_host),
        cmocka_unit_test(message_in_brackets),
        cmocka_unit_test(message_in_brackets_of_nothing_but_a_stamp),
        cmocka_unit_test(boots_by_stamps_that_go_back),
        cmocka_unit_test(boots_by_the_kernels_first_line),
        cmocka_unit_test(the_same_boot_in_two_files),
        cmocka_unit_test(the_boot_of_a_journal_is_known_by_the_ring),
        cmocka_unit_test(the_first_minute_is_of_the_boot_that_later_lines_show),
        cmocka_unit_test(lines_before_the_first_common_one_are_of_its_boot),
        cmocka_unit_test(a_minute_before_a_restart_is_of_no_later_boot),
        cmocka_unit_test(many_numbers_may_be_one_boot),
        cmocka_unit_test(a_file_without_boot_stamps_beside_one_with),
        cmocka_unit_test(years_from_the_end_of_the_file),
        cmocka_unit_test(a_file_of_more_than_a_year),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
