/*
 * Lustre's grammar: prefixes across releases, NIDs, names of targets and devices, request tails,
 * numbers with names.
 */
#include "test.h"

#include "diag/lustre.h"

#include <stdio.h>
#include <stdlib.h>

static void assert_span(struct span got, const char *wanted)
{
    assert_int_equal(got.len, strlen(wanted));
    assert_memory_equal(got.ptr, wanted, got.len);
}

static void prefixes_of_all_releases(void **state)
{
    static const struct {
        const char *line;
        const char *site;
        const char *function;
        const char *code;
        const char *text;
        bool lnet, error, request, lock;
    } cases[] = {
        {"LustreError: 11-0: fs-OST0000-osc-ffff: operation", "", "", "11-0",
         "fs-OST0000-osc-ffff: operation", false, true, false, false},
        {"LustreError: fs-OST0000-osc-ffff: operation", "", "", "",
         "fs-OST0000-osc-ffff: operation", false, true, false, false},
        {"Lustre: 8465:0:(client.c:2310:ptlrpc_expire_one_request()) @@@ Request",
         "client.c:2310:ptlrpc_expire_one_request", "ptlrpc_expire_one_request", "", "Request",
         false, false, true, false},
        {"LustreError: 0:0:(ldlm_lockd.c:257:expired_lock_main()) ### lock callback",
         "ldlm_lockd.c:257:expired_lock_main", "expired_lock_main", "", "lock callback", false,
         true, false, true},
        {"LNetError: 131-3: Received", "", "", "131-3", "Received", true, true, false, false},
        {"LNet: 3 peer NIs", "", "", "", "3 peer NIs", true, false, false, false},
        {"LustreError: (super25.c:183:lustre_fill_super()) llite: Unable",
         "super25.c:183:lustre_fill_super", "lustre_fill_super", "", "llite: Unable", false, true,
         false, false},
        {"Lustre: ptlrpc_expire_one_request() @@@ Request", "", "ptlrpc_expire_one_request", "",
         "Request", false, false, true, false},
        {"(client.c:2310:ptlrpc_expire_one_request()) @@@ Request",
         "client.c:2310:ptlrpc_expire_one_request", "ptlrpc_expire_one_request", "", "Request",
         false, false, true, false},
        {"Lustre: Lustre: Build Version: 2.15.8", "", "", "", "Lustre: Build Version: 2.15.8",
         false, false, false, false},
        {"ib0: link down", "", "", "", "ib0: link down", false, false, false, false},
        {"LustreError: 1:2:(", "", "", "", "(", false, true, false, false},
        {"", "", "", "", "", false, false, false, false},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_line_prefix prefix;
        rg_line_prefix(rg_span_text(cases[i].line), &prefix);
        assert_span(prefix.site, cases[i].site);
        assert_span(prefix.function, cases[i].function);
        assert_span(prefix.code, cases[i].code);
        assert_span(prefix.text, cases[i].text);
        assert_int_equal(prefix.lnet, cases[i].lnet);
        assert_int_equal(prefix.error, cases[i].error);
        assert_int_equal(prefix.request, cases[i].request);
        assert_int_equal(prefix.lock, cases[i].lock);
    }
}

static void nids(void **state)
{
    static const char *const good[] = {"192.0.2.5@o2ib",
                                       "12345-192.0.2.5@o2ib1",
                                       "0@lo",
                                       "2001:db8::36b6@tcp",
                                       "198.51.100.91@efa",
                                       "90@kfi",
                                       "27@gni99",
                                       "oss-1@tcp"};
    static const char *const bad[] = {"",        "192.0.2.5",      "@tcp",   "192.0.2.5@",
                                      "a@b@tcp", "192.0.2.5@tcpx", "1 2@tcp"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(good); i++) {
        assert_true(rg_nid_is(rg_span_text(good[i])));
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_false(rg_nid_is(rg_span_text(bad[i])));
    }
    assert_span(rg_nid_bare(rg_span_text("12345-192.0.2.5@o2ib")), "192.0.2.5@o2ib");
    assert_span(rg_nid_bare(rg_span_text("192.0.2.5@o2ib")), "192.0.2.5@o2ib");
    assert_true(rg_nid_eq(rg_span_text("12345-192.0.2.5@o2ib"), rg_span_text("192.0.2.5@o2ib0")));
    assert_false(rg_nid_eq(rg_span_text("192.0.2.5@o2ib"), rg_span_text("192.0.2.5@o2ib1")));
    assert_false(rg_nid_eq(rg_span_text("192.0.2.5@o2ib"), rg_span_text("192.0.2.5@tcp")));
    assert_true(rg_nid_is_local(rg_span_text("0@lo")));
    assert_false(rg_nid_is_local(rg_span_text("10@lo")));
}

static void indices_are_hexadecimal(void **state)
{
    assert_int_equal(rg_target_index(rg_span_text("OST0012")), 18);
    assert_int_equal(rg_target_index(rg_span_text("scratch-OST0012")), 18);
    assert_int_equal(rg_target_index(rg_span_text("scratch-MDT000a_UUID")), 10);
    assert_int_equal(rg_target_index(rg_span_text("fx1-OST0021-osc-ffff89")), 33);
    assert_int_equal(rg_target_index(rg_span_text("foss06-OST0015")), 21);
    assert_int_equal(rg_target_index(rg_span_text("MGS")), -1);
    assert_int_equal(rg_target_index(rg_span_text("scratch-OST")), -1);
    assert_int_equal(rg_target_index(rg_span_text("OST00123")), -1);
    assert_int_equal(rg_target_index(rg_span_text("")), -1);
}

static void targets(void **state)
{
    struct rg_target_name target;
    assert_true(rg_target_parse(rg_span_text("filter-scratch-OST0003_UUID"), &target));
    assert_int_equal(target.kind, RG_TARGET_OST);
    assert_span(target.target, "scratch-OST0003");
    assert_span(target.file_system, "scratch");
    assert_true(rg_target_parse(rg_span_text("mdt-scratch-MDT0000_UUID"), &target));
    assert_int_equal(target.kind, RG_TARGET_MDT);
    assert_span(target.target, "scratch-MDT0000");
    assert_true(rg_target_parse(rg_span_text("st_nas-OST0008-osd"), &target));
    assert_span(target.file_system, "st_nas");
    assert_true(rg_target_parse(rg_span_text("a-b-MDT0001"), &target));
    assert_span(target.file_system, "a-b");
    assert_true(rg_target_parse(rg_span_text("MGS"), &target));
    assert_int_equal(target.kind, RG_TARGET_MGS);
    assert_false(rg_target_parse(rg_span_text("eth0"), &target));
    assert_false(rg_target_parse(rg_span_text("a very long word -OST0001"), &target));
}

static void devices_say_who_speaks(void **state)
{
    static const struct {
        const char *name;
        enum rg_role speaker;
        const char *remote;
        const char *local;
    } cases[] = {
        {"fs-OST0012-osc-ffff888100aa0000", RG_ROLE_CLIENT, "fs-OST0012", ""},
        {"fs-MDT0006-mdc-ffff88100", RG_ROLE_CLIENT, "fs-MDT0006", ""},
        {"fs-OST0012-osc-MDT0000", RG_ROLE_SERVER, "fs-OST0012", "MDT0000"},
        {"fs-MDT0002-osp-MDT0000", RG_ROLE_SERVER, "fs-MDT0002", "MDT0000"},
        {"fs-MDT0000-lwp-OST0018", RG_ROLE_SERVER, "fs-MDT0000", "OST0018"},
        {"fs-OST0012", RG_ROLE_SERVER, "", "fs-OST0012"},
        {"fs-OST0012-osd", RG_ROLE_SERVER, "", "fs-OST0012"},
        {"MGS", RG_ROLE_MGS, "", "MGS"},
        {"MGC192.0.2.1@o2ib", RG_ROLE_UNKNOWN, "MGS", ""},
        {"fs-clilmv-ffff8ea84", RG_ROLE_CLIENT, "", ""},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_device_name device;
        assert_true(rg_device_parse(rg_span_text(cases[i].name), &device));
        assert_int_equal(device.speaker, cases[i].speaker);
        assert_span(device.remote.target, cases[i].remote);
        assert_span(device.local.target, cases[i].local);
    }
    struct rg_device_name device;
    assert_true(rg_device_parse(rg_span_text("MGC192.0.2.1@o2ib"), &device));
    assert_span(device.mgs_nid, "192.0.2.1@o2ib");
    assert_false(rg_device_parse(rg_span_text("mlx5_core"), &device));
    assert_false(rg_device_parse(rg_span_text(""), &device));
}

#define TAIL                                                                                       \
    "req@00000000abcd0123 x1820705849269056/t0(0) o400->scratch-OST0012-osc-ffff888100aa0000"      \
    "@192.0.2.15@o2ib:28/4 lens 224/224 e 0 to 1 dl 1736957932 ref 1 fl Rpc:XNQr/0/ffffffff rc "   \
    "0/-1"

static void request_tails(void **state)
{
    static const char *const endings[] = {"", " job:''", " job:'' uid:0 gid:0",
                                          " job:'fio.0' uid:0 gid:0 projid:0"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(endings); i++) {
        char line[600];
        snprintf(line, sizeof(line), "[sent 1736957925/real 0]  " TAIL "%s", endings[i]);
        struct rg_request_tail tail;
        struct span name;
        struct span nid;
        assert_true(rg_request_tail_parse(rg_span_text(line), &tail, &name, &nid));
        assert_int_equal(tail.xid, 1820705849269056);
        assert_int_equal(tail.opcode, 400);
        assert_int_equal(tail.sent, 1736957925);
        assert_int_equal(tail.real, 0);
        assert_int_equal(tail.deadline, 1736957932);
        assert_span(tail.flags, "XNQr");
        assert_int_equal(tail.rc, 0);
        assert_false(tail.inbound);
        assert_span(name, "scratch-OST0012-osc-ffff888100aa0000");
        assert_span(nid, "192.0.2.15@o2ib");
    }
}

static void tails_of_servers_are_inbound(void **state)
{
    struct rg_request_tail tail;
    struct span name;
    struct span nid;
    assert_true(rg_request_tail_parse(
        rg_span_text(
            "req@ffff88 x1/t0(0) o4->939243e4-2f54-a96f-3cbb-9fcf55426e2e@12345-192.0.2.105"
            "@o2ib1:6/4 lens 488/448 e 0 to 0 dl 5 ref 1 fl Complete:/0/0 rc -110/0"),
        &tail, &name, &nid));
    assert_true(tail.inbound);
    assert_span(name, "939243e4-2f54-a96f-3cbb-9fcf55426e2e");
    assert_span(nid, "192.0.2.105@o2ib1");
    assert_int_equal(tail.rc, -110);
    assert_true(rg_request_tail_parse(
        rg_span_text("req@ffff88 x1/t0(0) o8->fs-MDT0000-mdtlov_UUID@192.0.2.9@o2ib:6/4 lens"),
        &tail, &name, &nid));
    assert_true(tail.inbound);
    assert_span(name, "fs-MDT0000-mdtlov_UUID");
    /* Lustre 1.8 named the remote target by its UUID. */
    assert_true(rg_request_tail_parse(
        rg_span_text("req@ffff88 x1/t0 o400->fs-OST0002_UUID@192.0.2.9@o2ib:28/4 lens 192/384"),
        &tail, &name, &nid));
    assert_false(tail.inbound);
    struct rg_device_name device;
    assert_true(rg_device_parse(name, &device));
    assert_int_equal(device.speaker, RG_ROLE_UNKNOWN);
    assert_span(device.remote.target, "fs-OST0002");
}

static void tails_of_the_mgc_and_cut_ones(void **state)
{
    struct rg_request_tail tail;
    struct span name;
    struct span nid;
    assert_true(rg_request_tail_parse(
        rg_span_text(
            "req@ffff88 x7/t0(0) o250->MGC192.0.2.87@o2ib@192.0.2.88@o2ib:26/25 lens 520/544"),
        &tail, &name, &nid));
    assert_span(name, "MGC192.0.2.87@o2ib");
    assert_span(nid, "192.0.2.88@o2ib");
    assert_int_equal(tail.deadline, 0);
    assert_true(rg_request_tail_parse(
        rg_span_text(
            "req@ffff88 x7/t0(0) o4->fs-OST0001-osc-ffff@2001:db8::1@tcp:6/4 lens 488/448 e 2 "
            "to 1 dl 1736958128 ref>"),
        &tail, &name, &nid));
    assert_span(nid, "2001:db8::1@tcp");
    assert_int_equal(tail.deadline, 1736958128);
    assert_false(rg_request_tail_parse(rg_span_text("no request here"), &tail, &name, &nid));
    assert_false(tail.present);
    /* Cut anywhere: never beyond the end (the sanitizer watches), never an assertion. */
    const char *whole = "[sent 1/real 2] " TAIL;
    for (size_t len = 0; len <= strlen(whole); len++) {
        char *copy = malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, whole, len);
        rg_request_tail_parse(rg_span(copy, len), &tail, &name, &nid);
        free(copy);
    }
}

static void names_of_numbers(void **state)
{
    assert_string_equal(rg_opcode_name(4), "ost_write");
    assert_string_equal(rg_opcode_name(400), "obd_ping");
    assert_null(rg_opcode_name(9999));
    assert_string_equal(rg_portal_name(28), "OST_REQUEST");
    assert_null(rg_portal_name(0));
    assert_string_equal(rg_request_flag_name('X'), "expired");
    assert_null(rg_request_flag_name('?'));
}

static void status_tables(void **state)
{
    static const int needed[] = {1,   2,   4,   5,   11,  12,  13,  16,  17,  19,  22,
                                 28,  30,  43,  71,  95,  98,  99,  100, 101, 103, 104,
                                 107, 108, 110, 111, 113, 114, 115, 116, 122, 125, 524};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(needed); i++) {
        const struct rg_status_info *info = rg_errno_info(-needed[i]);
        assert_non_null(info);
        assert_ptr_equal(info, rg_errno_info(needed[i]));
        assert_true(strlen(info->meaning[RG_ENGLISH]) > 4);
        assert_string_not_equal(info->meaning[RG_KOREAN], info->meaning[RG_ENGLISH]);
    }
    assert_null(rg_errno_info(-3000));
    assert_int_equal(rg_errno_info(-107)->accused, RG_ACCUSED_PEER);
    assert_int_equal(rg_errno_info(-108)->accused, RG_ACCUSED_CONSEQUENCE);
    assert_int_equal(rg_wc_info(12)->accused, RG_ACCUSED_PATH);
    assert_int_equal(rg_wc_info(13)->accused, RG_ACCUSED_PEER);
    assert_int_equal(rg_wc_info(4)->accused, RG_ACCUSED_SELF);
    assert_int_equal(rg_wc_info(5)->accused, RG_ACCUSED_CONSEQUENCE);
    for (int status = 0; status <= 21; status++) {
        assert_non_null(rg_wc_info(status));
    }
    assert_null(rg_wc_info(22));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_of_all_releases),
        cmocka_unit_test(nids),
        cmocka_unit_test(indices_are_hexadecimal),
        cmocka_unit_test(targets),
        cmocka_unit_test(devices_say_who_speaks),
        cmocka_unit_test(request_tails),
        cmocka_unit_test(tails_of_servers_are_inbound),
        cmocka_unit_test(tails_of_the_mgc_and_cut_ones),
        cmocka_unit_test(names_of_numbers),
        cmocka_unit_test(status_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
