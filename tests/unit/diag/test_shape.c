/*
 * Every shape of line that is read: what is taken off and what it says.
 */
#include "test.h"

#include "base/checked.h"

#include "collect.h"

#include "diag/shape.h"
#include "diag/stamp.h"

#define SEC INT64_C(1000000)

/* 2026-11-29 14:30:11 UTC */
#define MOMENT (INT64_C(1795962611) * SEC)

static char line_memory[8192];

static struct rg_shaped shape(const char *text)
{
    struct rg_shaped shaped;
    size_t len = strlen(text);
    assert_true(len < sizeof(line_memory));
    memcpy(line_memory, text, len);
    rg_shape_read(line_memory, len, &shaped);
    return shaped;
}

static void is(struct span span, const char *text)
{
    assert_int_equal(span.len, strlen(text));
    assert_memory_equal(span.ptr, text, span.len);
}

static void stamp_is(struct rg_stamp stamp, enum rg_stamp_kind kind, int64_t usec)
{
    assert_int_equal(stamp.kind, kind);
    assert_int_equal(stamp.usec, usec);
}

static void dmesg(void **state)
{
    struct rg_shaped shaped = shape("[  533.840297] Lustre: Failing over lfs01-OST0000");
    assert_int_equal(shaped.shape, RG_SHAPE_DMESG);
    assert_int_equal(shaped.speaker, RG_SPEAKER_KERNEL);
    stamp_is(shaped.stamp, RG_STAMP_BOOT, 533840297);
    is(shaped.text, "Lustre: Failing over lfs01-OST0000");
    is(shaped.host, "");

    shaped = shape("[12345678.000001][ T1645] text");
    stamp_is(shaped.stamp, RG_STAMP_BOOT, INT64_C(12345678000001));
    is(shaped.text, "text");
    shaped = shape("[    0.000000][    C2] text");
    is(shaped.text, "text");
    shaped = shape("[  211.320] ko2iblnd: x");
    stamp_is(shaped.stamp, RG_STAMP_BOOT, 211320000);
    shaped = shape("[    2.500000] gpu01 kernel: Lustre: text");
    is(shaped.host, "gpu01");
    is(shaped.text, "Lustre: text");
    shaped = shape("[    2.500000] mlx5_core 0000:17:00.0: firmware version: 20.31");
    is(shaped.text, "mlx5_core 0000:17:00.0: firmware version: 20.31");
    is(shaped.host, "");
}

static void dmesg_raw_and_kmsg(void **state)
{
    struct rg_shaped shaped = shape("<3>[  533.840297] Lustre: text");
    stamp_is(shaped.stamp, RG_STAMP_BOOT, 533840297);
    assert_int_equal(shaped.priority, 3);
    is(shaped.text, "Lustre: text");

    shaped = shape("4,1234,533840297,-;Lustre: a; b");
    assert_int_equal(shaped.shape, RG_SHAPE_KMSG);
    assert_int_equal(shaped.priority, 4);
    stamp_is(shaped.stamp, RG_STAMP_BOOT, 533840297);
    is(shaped.text, "Lustre: a; b");
    shaped = shape("30,77,1,-,caller=T1;systemd[1]: x");
    assert_int_equal(shaped.speaker, RG_SPEAKER_PROGRAM);
    is(shaped.text, "systemd[1]: x");

    shaped = shape("kern  :err   : [  533.840297] Lustre: text");
    assert_int_equal(shaped.priority, 3);
    stamp_is(shaped.stamp, RG_STAMP_BOOT, 533840297);
    is(shaped.text, "Lustre: text");
}

static void dmesg_with_times(void **state)
{
    struct rg_shaped shaped = shape("[Sun Nov 29 14:30:11 2026] Lustre: text");
    assert_int_equal(shaped.shape, RG_SHAPE_DMESG_TIME);
    stamp_is(shaped.stamp, RG_STAMP_LOCAL, MOMENT);
    assert_true(shaped.stamp.computed);
    is(shaped.text, "Lustre: text");
    shaped = shape("[Fri May  2 04:16:59 2025] Lustre: text");
    stamp_is(shaped.stamp, RG_STAMP_LOCAL, INT64_C(1746159419) * SEC);

    /* As Korean, Japanese and Chinese locales write it. */
    shaped = shape("[일 11월 29 14:30:11 2026] Lustre: text");
    stamp_is(shaped.stamp, RG_STAMP_LOCAL, MOMENT);
    shaped = shape("[금  5월  2 04:16:59 2025] Lustre: text");
    stamp_is(shaped.stamp, RG_STAMP_LOCAL, INT64_C(1746159419) * SEC);
    shaped = shape("[日 11月 29 14:30:11 2026] Lustre: text");
    stamp_is(shaped.stamp, RG_STAMP_LOCAL, MOMENT);

    shaped = shape("2026-11-29T14:30:11,123456+00:00 Lustre: text");
    assert_int_equal(shaped.shape, RG_SHAPE_DMESG_ISO);
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT + 123456);
    assert_true(shaped.stamp.computed);
    is(shaped.text, "Lustre: text");
}

static void syslog_lines(void **state)
{
    struct rg_shaped shaped =
        shape("Jun 25 23:57:24 oss1 kernel: Lustre: Failing over lustre-OST0018");
    assert_int_equal(shaped.shape, RG_SHAPE_SYSLOG);
    assert_true(shaped.stamp.year_guessed);
    is(shaped.host, "oss1");
    is(shaped.program, "kernel");
    assert_int_equal(shaped.speaker, RG_SPEAKER_KERNEL);
    is(shaped.text, "Lustre: Failing over lustre-OST0018");

    shaped = shape("Jun  5 03:07:09 oss1 corosync[2981]:   [TOTEM ] Marking ringid 1 FAULTY");
    is(shaped.program, "corosync");
    assert_int_equal(shaped.speaker, RG_SPEAKER_PROGRAM);
    is(shaped.text, "[TOTEM ] Marking ringid 1 FAULTY");
    shaped = shape("Jun 25 23:57:09 oss1 ethmonitor(ib0_up)[7888]: WARNING: Monitoring failed");
    is(shaped.program, "ethmonitor(ib0_up)");
    is(shaped.text, "WARNING: Monitoring failed");

    /* Both clocks. */
    shaped = shape("Nov 29 14:30:11 gpu01 kernel: [268274.472582] Lustre: text");
    stamp_is(shaped.second, RG_STAMP_BOOT, INT64_C(268274472582));
    is(shaped.text, "Lustre: text");

    shaped = shape("Nov 29 14:30:11.123456 gpu01 kernel: text");
    assert_int_equal(shaped.stamp.usec % SEC, 123456);
    shaped = shape("Nov 29 2026 14:30:11 gpu01 kernel: text");
    stamp_is(shaped.stamp, RG_STAMP_LOCAL, MOMENT);
    assert_false(shaped.stamp.year_guessed);
    shaped = shape("<4>Nov 29 14:30:11 gpu01 kernel: text");
    assert_int_equal(shaped.priority, 4);
    is(shaped.host, "gpu01");
    shaped = shape("Nov 29 14:30:11 2001:db8::5 kernel: text");
    is(shaped.host, "2001:db8::5");
    shaped = shape("Nov 29 14:30:11 kernel: Lustre: text");
    is(shaped.host, "");
    is(shaped.program, "kernel");
    is(shaped.text, "Lustre: text");
    shaped = shape("Nov 29 14:30:11 gpu01 last message repeated 3 times");
    is(shaped.host, "gpu01");
    is(shaped.text, "last message repeated 3 times");
}

static void escapes_of_syslog_daemons(void **state)
{
    struct rg_shaped shaped = shape("Nov 29 14:30:11 gpu01 kernel: a#011b#012c #1 SMP");
    is(shaped.text, "a b c #1 SMP");
}

static void iso_lines(void **state)
{
    struct rg_shaped shaped = shape("2026-11-29T23:30:11+0900 gpu01 kernel: Lustre: text");
    assert_int_equal(shaped.shape, RG_SHAPE_ISO);
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT);
    is(shaped.host, "gpu01");
    is(shaped.text, "Lustre: text");
    shaped = shape("2026-11-29T14:30:11.5Z gpu01 kernel: text");
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT + 500000);
    shaped = shape("2026-11-29T14:30:11.123456+00:00 gpu01 pacemakerd[12]: text");
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT + 123456);
    is(shaped.program, "pacemakerd");
    shaped = shape("2026-11-29 14:30:11 gpu01 kernel: text");
    stamp_is(shaped.stamp, RG_STAMP_LOCAL, MOMENT);
    assert_false(shaped.stamp.year_guessed);
    shaped = shape("2026-11-29T10:00:11-04:30 gpu01 kernel: text");
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT);
    shaped = shape("Sun 2026-11-29 14:30:11 UTC gpu01 kernel: text");
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT);
    is(shaped.host, "gpu01");
    shaped = shape("1795962611.250000 gpu01 kernel: text");
    assert_int_equal(shaped.shape, RG_SHAPE_EPOCH);
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT + 250000);
    is(shaped.host, "gpu01");
}

static void rfc5424_lines(void **state)
{
    struct rg_shaped shaped = shape("<4>1 2026-11-29T14:30:11.003Z oss1.example.org kernel - - "
                                    "[x@1 a=\"b]\\\"\"][y@2] \xef\xbb\xbfLustre: text");
    assert_int_equal(shaped.shape, RG_SHAPE_RFC5424);
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT + 3000);
    is(shaped.host, "oss1.example.org");
    is(shaped.program, "kernel");
    assert_int_equal(shaped.priority, 4);
    is(shaped.text, "Lustre: text");
    shaped = shape("<30>1 - - corosync 123 ID - text");
    assert_int_equal(shaped.shape, RG_SHAPE_RFC5424);
    assert_int_equal(shaped.stamp.kind, RG_STAMP_NONE);
    is(shaped.program, "corosync");
    is(shaped.text, "text");
}

static void lctl_lines(void **state)
{
    struct rg_shaped shaped =
        shape("00000100:00020000:3.0F:1795962611.123456:0:2449:0:(client.c:2141:"
              "ptlrpc_expire_one_request()) @@@ Request sent has timed out");
    assert_int_equal(shaped.shape, RG_SHAPE_LCTL);
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT + 123456);
    assert_false(shaped.stamp.computed);
    assert_int_equal(shaped.priority, 3);
    is(shaped.text, "(client.c:2141:ptlrpc_expire_one_request()) @@@ Request sent has timed out");
    shaped = shape("00000800:00000100:1.0:1795962611.000001:0:1:0:(o2iblnd_cb.c:1:f()) x");
    assert_int_equal(shaped.priority, 3);
    shaped = shape("00000800:00000200:1.0:1795962611.000001:0:1:0:(o2iblnd_cb.c:1:f()) x");
    assert_int_equal(shaped.priority, 7);
}

static void prefixes(void **state)
{
    struct rg_shaped shaped = shape("gpu01: [  533.840297] Lustre: text");
    is(shaped.prefix, "gpu01");
    stamp_is(shaped.stamp, RG_STAMP_BOOT, 533840297);
    is(shaped.text, "Lustre: text");
    shaped = shape("gpu01.example.org: Lustre: text");
    is(shaped.prefix, "gpu01.example.org");
    is(shaped.text, "Lustre: text");
    shaped = shape("gpu01: Nov 29 14:30:11 gpu01 kernel: text");
    is(shaped.prefix, "gpu01");
    is(shaped.host, "gpu01");
    shaped = shape("/logs/oss1/messages-20261129:Nov 29 14:30:11 oss1 kernel: text");
    is(shaped.prefix, "/logs/oss1/messages-20261129");
    is(shaped.host, "oss1");
    is(shaped.text, "text");
    shaped = shape("gpu01: [Sun Nov 29 14:30:11 2026] Lustre: text");
    is(shaped.prefix, "gpu01");
}

static void prefixes_of_lines_without_stamps(void **state)
{
    struct rg_shaped shaped = shape("compute2: LustreError: 2210:0:(mgc_request.c:254:f()) text");
    is(shaped.prefix, "compute2");
    assert_int_equal(shaped.speaker, RG_SPEAKER_KERNEL);
    shaped = shape("compute2: systemd[1]: text");
    is(shaped.prefix, "compute2");
    is(shaped.program, "systemd");
    is(shaped.text, "text");
    assert_int_equal(shaped.speaker, RG_SPEAKER_PROGRAM);
    shaped = shape("compute2: modprobe: FATAL: Module lustre not found in directory /lib");
    is(shaped.prefix, "compute2");
    is(shaped.text, "modprobe: FATAL: Module lustre not found in directory /lib");
    shaped = shape("compute2: kernel: text");
    is(shaped.prefix, "compute2");
    is(shaped.text, "text");
    assert_int_equal(shaped.speaker, RG_SPEAKER_KERNEL);
    static const char *const none[] = {
        "kernel: systemd[1]: text",
        "systemd[1]: text: systemd[1]: more",
        "modprobe: FATAL: Module lustre not found",
        "compute2: see eth0[up]: text",
        "compute2: text",
        "compute2: a[1] text",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(none); i++) {
        shaped = shape(none[i]);
        is(shaped.prefix, "");
    }
}

static void what_looks_like_a_prefix_and_is_none(void **state)
{
    struct rg_shaped shaped = shape("Lustre: lfs01-OST0000: Connection restored");
    is(shaped.prefix, "");
    is(shaped.text, "Lustre: lfs01-OST0000: Connection restored");
    assert_int_equal(shaped.speaker, RG_SPEAKER_KERNEL);
    shaped = shape("ls: cannot access '/fsx/ping': Cannot send after transport endpoint shutdown");
    is(shaped.prefix, "");
    assert_int_equal(shaped.shape, RG_SHAPE_BARE);
    shaped = shape("mlx5_core 0000:17:00.0: text");
    is(shaped.prefix, "");
}

static void marks_of_markdown(void **state)
{
    struct rg_shaped shaped = shape("> [  533.840297] Lustre: text");
    stamp_is(shaped.stamp, RG_STAMP_BOOT, 533840297);
    is(shaped.text, "Lustre: text");
    shaped = shape("`[  533.840297] Lustre: text`");
    is(shaped.text, "Lustre: text");
    shaped = shape("> > **LustreError: 11-0: text**");
    is(shaped.text, "LustreError: 11-0: text");
    shaped = shape("- LustreError");
    is(shaped.text, "LustreError");
}

static void journal_json(void **state)
{
    struct rg_shaped shaped = shape(
        "{\"__CURSOR\":\"s=1\",\"__REALTIME_TIMESTAMP\":\"1795962611000777\",\"_BOOT_ID\":"
        "\"aa11\",\"_HOSTNAME\":\"gpu01\",\"PRIORITY\":\"4\",\"_TRANSPORT\":\"kernel\","
        "\"SYSLOG_IDENTIFIER\":\"kernel\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"533840297\","
        "\"X\":{\"deep\":[1,[2,{\"y\":\"]}\"}]]},\"MESSAGE\":\"Lustre: \\\"a\\\" \\u00e9\\n\"}");
    assert_int_equal(shaped.shape, RG_SHAPE_JSON);
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT + 777);
    stamp_is(shaped.second, RG_STAMP_BOOT, 533840297);
    is(shaped.host, "gpu01");
    is(shaped.boot, "aa11");
    assert_int_equal(shaped.priority, 4);
    assert_int_equal(shaped.speaker, RG_SPEAKER_KERNEL);
    is(shaped.text, "Lustre: \"a\" \xc3\xa9");
}

static void journal_json_with_bytes(void **state)
{
    struct rg_shaped shaped = shape("{\"MESSAGE\":[76,117,115,116,114,101,58,32,255,10],"
                                    "\"_HOSTNAME\":\"gpu01\"}");
    is(shaped.text, "Lustre: \xff");
    is(shaped.host, "gpu01");
    shaped = shape("{\"MESSAGE\":null,\"_HOSTNAME\":\"gpu01\"}");
    is(shaped.text, "null");
}

static void json_that_was_cut(void **state)
{
    struct rg_shaped shaped = shape("{\"_HOSTNAME\":\"gpu01\",\"MESSAGE\":\"Lustre: te");
    is(shaped.text, "Lustre: te");
    is(shaped.host, "gpu01");
    shaped = shape("{\"rdma\":[{\"ifname\":\"mlx5_0\"}]}");
    assert_int_equal(shaped.shape, RG_SHAPE_BARE);
}

static void json_of_containers(void **state)
{
    struct rg_shaped shaped = shape("{\"log\":\"Nov 29 14:30:11 gpu01 kernel: Lustre: text\\n\","
                                    "\"stream\":\"stdout\"}");
    is(shaped.host, "gpu01");
    is(shaped.text, "Lustre: text");
    shaped = shape("{\"time\":\"2026-11-29T14:30:11Z\",\"host\":\"gpu01\",\"message\":\"text\"}");
    stamp_is(shaped.stamp, RG_STAMP_UTC, MOMENT);
    is(shaped.text, "text");
}

static void dates(void **state)
{
    for (int64_t days = -200000; days < 200000; days += 37) {
        int year, month, day;
        rg_date_from_days(days, &year, &month, &day);
        assert_int_equal(rg_days_from_date(year, month, day), days);
    }
    assert_int_equal(rg_days_from_date(1970, 1, 1), 0);
    assert_int_equal(rg_days_from_date(2026, 11, 29), 1795910400 / 86400);
    /* A leap day in a year that has none. */
    int64_t leap = rg_days_from_date(1972, 2, 29) * 86400 * SEC;
    assert_int_equal(rg_stamp_set_year(leap, 2026), rg_days_from_date(2026, 3, 1) * 86400 * SEC);
    assert_int_equal(rg_stamp_set_year(leap, 2024), rg_days_from_date(2024, 2, 29) * 86400 * SEC);
}

static void stamps_that_are_none(void **state)
{
    static const char *const lines[] = {
        "[  533.840297 Lustre",
        "[Sun Nov 32 14:30:11 2026] x",
        "[Sun Nov 29 24:30:11 2026] x",
        "Nov 29 14:30 gpu01 x: y",
        "2026-13-29T14:30:11Z host k: x",
        "2026-11-29T14:30:11+9 h k: x",
        "4,1234,99999999999999999999,-;x",
        "<999>x y z 1 2 3",
        "00000100:00020000:3.0F:12:0:1:0:x",
        "[abc def]  something else",
        "",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lines); i++) {
        struct rg_shaped shaped = shape(lines[i]);
        assert_int_equal(shaped.shape, RG_SHAPE_BARE);
        assert_int_equal(shaped.stamp.kind, RG_STAMP_NONE);
        is(shaped.text, lines[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dmesg),
        cmocka_unit_test(dmesg_raw_and_kmsg),
        cmocka_unit_test(dmesg_with_times),
        cmocka_unit_test(syslog_lines),
        cmocka_unit_test(escapes_of_syslog_daemons),
        cmocka_unit_test(iso_lines),
        cmocka_unit_test(rfc5424_lines),
        cmocka_unit_test(lctl_lines),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(prefixes_of_lines_without_stamps),
        cmocka_unit_test(what_looks_like_a_prefix_and_is_none),
        cmocka_unit_test(marks_of_markdown),
        cmocka_unit_test(journal_json),
        cmocka_unit_test(journal_json_with_bytes),
        cmocka_unit_test(json_that_was_cut),
        cmocka_unit_test(json_of_containers),
        cmocka_unit_test(dates),
        cmocka_unit_test(stamps_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
