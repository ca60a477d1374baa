/* The parsers of texts: what each makes of right, wrong and odd ones. */
#include "test.h"

#include "base/encode.h"
#include "host/aistor_text.h"
#include "host/ethtool.h"
#include "host/facts.h"
#include "host/irq_text.h"
#include "host/lnet_text.h"
#include "host/lustre_text.h"
#include "host/memory_text.h"
#include "host/mount_text.h"
#include "host/nldev_text.h"
#include "host/peer_wire.h"
#include "host/pci_text.h"
#include "host/shell_words.h"
#include "host/stale_nid.h"
#include "host/words.h"

#include <inttypes.h>
#include <stdlib.h>

#define TEXT(literal) RG_SPAN_LITERAL(literal)

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"64K", 65536},
                {"8M", 8 << 20},
                {"1 GiB", 1 << 30},
                {"64MiB", 64 << 20},
                {" 12 ", 12},
                {"16kB", 16384},
                {"3 tb", 3ULL << 40},
                {"7b", 7},
                {"7 B", 7},
                {"1PiB", 1ULL << 50},
                {"infinity", RG_WORDS_UNLIMITED},
                {"max", RG_WORDS_UNLIMITED}};
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "1.5G",
                                      "16X",
                                      "20E",
                                      "1bb",
                                      "64 KiBs",
                                      "64 k b",
                                      "99999999999999999999",
                                      "0000000000000000000000000000000000001"};
    uint64_t bytes;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(good); i++) {
        assert_true(rg_words_bytes(rg_span_text(good[i].text), &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_false(rg_words_bytes(rg_span_text(bad[i]), &bytes));
    }
}

static void words(void **state)
{
    (void)state;
    char text[6];
    struct span rest = TEXT("a  b\t\n\nlast"), line, word;
    assert_true(rg_words_line(&rest, &line) && rg_words_next(&line, &word));
    assert_true(rg_words_next(&line, &word) && rg_span_is(word, "b"));
    assert_false(rg_words_next(&line, &word));
    assert_true(rg_words_line(&rest, &line) && line.len == 0);
    assert_true(rg_words_line(&rest, &line) && rg_span_is(line, "last"));
    assert_false(rg_words_line(&rest, &line));
    assert_true(rg_words_copy(text, sizeof text,
                              TEXT("a\x1b"
                                   "b")));
    assert_string_equal(text, "a?b");
    assert_false(rg_words_copy(text, sizeof text, TEXT("longer")));
    assert_string_equal(text, "longe");
    assert_true(rg_span_is(rg_words_bare(TEXT(" \"x y\" \n")), "x y"));
    assert_true(rg_words_has(TEXT("a, b,c"), ',', "b"));
    assert_false(rg_words_has(TEXT("ab,c"), ',', "a"));
}

static void limits_and_units(void **state)
{
    (void)state;
    uint64_t soft, hard;
    assert_true(rg_limit_locked_parse(
        TEXT("Limit  Soft\nMax locked memory         65536                unlimited   bytes\n"),
        &soft, &hard));
    assert_int_equal(soft, 65536);
    assert_int_equal(hard, RG_WORDS_UNLIMITED);
    assert_false(rg_limit_locked_parse(TEXT("Max locked memory many few\n"), &soft, &hard));
    struct rg_unit unit = {0};
    rg_unit_parse(TEXT("[Service]\nLimitMEMLOCK=8M:infinity\nExecStart=-/usr/bin/x --y\n"
                       "EnvironmentFile=-/etc/default/x\nLimitMEMLOCK=oops\n[Install]\nUser=z\n"),
                  &unit);
    assert_true(unit.has_memlock && unit.bad_memlock);
    assert_int_equal(unit.memlock_soft, 8 << 20);
    assert_string_equal(unit.exec, "/usr/bin/x");
    assert_true(unit.environment_file_count == 1 && unit.environment_files[0].optional);
    assert_string_equal(unit.user, "");
    rg_unit_parse(TEXT("[Service]\nLimitMEMLOCK=\nEnvironmentFile=\n"), &unit);
    assert_false(unit.has_memlock);
    assert_int_equal(unit.environment_file_count, 0);
}

static void control_groups(void **state)
{
    (void)state;
    char path[32];
    uint64_t handles, objects;
    struct span cgroup = TEXT("12:rdma,cpu:/v1\n0::/user.slice\n");
    assert_true(rg_cgroup_path_parse(cgroup, NULL, path, sizeof path));
    assert_string_equal(path, "/user.slice");
    assert_true(rg_cgroup_path_parse(cgroup, "rdma", path, sizeof path));
    assert_string_equal(path, "/v1");
    assert_true(rg_rdma_cgroup_parse(TEXT("mlx5_1 hca_handle=max hca_object=max\n"
                                          "mlx5_0 hca_handle=2 hca_object=2000\n"),
                                     "mlx5_0", &handles, &objects));
    assert_true(handles == 2 && objects == 2000);
    assert_false(rg_rdma_cgroup_parse(TEXT("mlx5_0 hca_handle\n"), "mlx5_0", &handles, &objects));
}

static void interrupts(void **state)
{
    (void)state;
    static const char *const lines[] = {" 10: 5 0 PCI-MSI 1-edge mlx5_comp0@pci:0000:3b:00.0",
                                        " 11: 0 9 PCI-MSI 2-edge ice-ens1-TxRx-0",
                                        " 12: 0 9 PCI-MSI 2-edge ice-ens10-TxRx-0",
                                        " 13: 7 0 PCI-MSI 3-edge mlx5_async@pci:0000:3b:00.0",
                                        "NMI: 1 1 Non-maskable",
                                        " 14: 1 1",
                                        ""};
    struct rg_irq_spread *spread = calloc(1, sizeof *spread);
    RG_BUF(table, 4096);
    assert_false(rg_irq_shorten_head(TEXT("no table"), &table));
    assert_false(rg_irq_parse(rg_buf_span(&table), "x", "y", spread));
    assert_true(rg_irq_shorten_head(TEXT("        CPU0 CPU1"), &table));
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lines); i++) {
        rg_irq_shorten(rg_span_text(lines[i]), &table);
    }
    assert_true(rg_irq_parse(rg_buf_span(&table), "0000:3b:00.0", "ens1", spread));
    assert_true(spread->vectors == 2 && spread->busy == 2 && spread->cpus == 2);
    assert_true(spread->total == 14 && spread->online == 2 && !spread->cut);
    assert_false(rg_irq_parse(TEXT("no table"), "x", "y", spread));
    free(spread);
}

/* What the checks ask for is among what is read of a card. */
static void statistics(void **state)
{
    (void)state;
    static const char *const judged[] = {"rx_prio3_pause",         "rx_priority_3_xoff.nic",
                                         "rx_pfc_ena_frames_pri3", "rx_pripause_3_1us_count",
                                         "rx_prio3_discards",      "rx_prio3_buf_discard",
                                         "rx_discards_phy",        "tx_pause_storm_error_events"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(judged); i++) {
        assert_true(rg_host_ethtool_matters(judged[i]));
    }
    assert_false(rg_host_ethtool_matters("rx12_bytes"));
    assert_false(rg_host_ethtool_matters("rx_queue_12_packets"));
}

static void mounts(void **state)
{
    (void)state;
    struct rg_mount_list *list = calloc(1, sizeof *list);
    struct span nids;
    char fsname[RG_LUSTRE_NAME_MAX + 1];
    rg_mounts_parse(TEXT("# x\n10.0.0.1@tcp:10.0.0.2@tcp:/fs/sub /mnt/a\\040b lustre "
                         "rw,nouser_xattr 0 0\nproc /proc proc rw 0 0\n"),
                    "lustre|nfs", list);
    assert_int_equal(list->count, 1);
    assert_string_equal(list->mounts[0].target, "/mnt/a b");
    assert_true(rg_mount_has(list->mounts[0].options, "nouser_xattr"));
    assert_false(rg_mount_has(list->mounts[0].options, "user_xattr"));
    assert_true(rg_lustre_source_parse(rg_span_text(list->mounts[0].source), &nids, fsname));
    assert_string_equal(fsname, "fs");
    assert_true(rg_span_is(nids, "10.0.0.1@tcp:10.0.0.2@tcp"));
    assert_ptr_equal(rg_mount_of(list, "/mnt/a b/c"), &list->mounts[0]);
    assert_null(rg_mount_of(list, "/mnt/a bc"));
    free(list);
}

static void identifiers(void **state)
{
    (void)state;
    struct rg_nid a, b;
    struct rg_nid_list *list = calloc(1, sizeof *list);
    assert_true(rg_nid_parse(TEXT("10.0.0.1@o2ib0"), &a) &&
                rg_nid_parse(TEXT("10.0.0.1@o2ib"), &b));
    assert_true(rg_nid_is_same(&a, &b));
    assert_true(rg_nid_parse(TEXT("10.0.0.1@o2ib10"), &a));
    assert_string_equal(a.net, "o2ib10");
    assert_false(rg_nid_parse(TEXT("@tcp"), &a));
    assert_false(rg_nid_parse(TEXT("a b@tcp"), &a));
    assert_false(rg_nid_parse(TEXT("10.0.0.1@0x"), &a));
    rg_nid_list_add(list, TEXT("10.0.0.1@tcp,10.0.0.2@tcp:10.0.0.3@tcp fe80::1@tcp1"));
    assert_int_equal(list->count, 4);
    assert_string_equal(list->nids[3].address, "fe80::1");
    assert_false(list->cut);
    rg_nid_list_add(list, TEXT("10.0.0.1@tcp0"));
    assert_int_equal(list->count, 4);
    free(list);
}

static void networks(void **state)
{
    (void)state;
    struct rg_lnet_conf *conf = calloc(1, sizeof *conf);
    struct rg_lnet_module *module = calloc(1, sizeof *module);
    size_t line;
    rg_lnet_yaml_parse(TEXT("net:\n    - net type: o2ib0\n      local NI(s):\n        - nid: "
                            "1.2.3.4@o2ib\n          status: down\n          interfaces:\n"
                            "              0: ib0\n              1: ib1\n          health stats:\n"
                            "              fatal_error: 1\n              health value: 900\n"
                            "peer:\n    - primary nid: 1.2.3.9@o2ib\n      peer ni:\n"
                            "        - nid: 1.2.3.9@o2ib\n          state: down\n"),
                       conf);
    assert_int_equal(conf->ni_count, 1);
    assert_string_equal(conf->nis[0].interface, "ib0");
    assert_int_equal(conf->nis[0].interface_count, 2);
    assert_true(conf->nis[0].health == 900 && conf->nis[0].fatal_error == 1);
    assert_true(conf->peer_count == 1 && conf->peers_down == 1);
    assert_string_equal(conf->first_peer_down.address, "1.2.3.9");
    rg_lnet_module_parse(TEXT("options lnet networks=\"o2ib0(ib0,ib1[0,1]),tcp(eth0)\"\n"
                              "options lnet ip2nets='tcp2(eth1) 10.*.*.*; o2ib3 *.*.*.*'\n"
                              "options ko2iblnd networks=x\n"),
                         module);
    assert_int_equal(module->count, 5);
    assert_string_equal(module->nets[1].interface, "ib1");
    assert_string_equal(module->nets[3].net, "tcp2");
    assert_string_equal(module->nets[4].interface, "");
    assert_true(rg_lnet_script_parse(TEXT("# lnetctl net add --interface x\n"
                                          "/usr/sbin/lnetctl net add --net tcp --interface=e0\n"),
                                     &line));
    assert_int_equal(line, 2);
    assert_false(rg_lnet_script_parse(TEXT("lnetctl net add --net tcp --if e0\n"), &line));
    free(conf);
    free(module);
}

static bool parse_layout(const char *hex, struct rg_lustre_layout *layout)
{
    char bytes[512];
    size_t len = strlen(hex) / 2;
    return rg_hex_decode(rg_span_text(hex), bytes, len) &&
           rg_lustre_layout_parse(rg_span(bytes, len), layout);
}

static void layouts(void **state)
{
    (void)state;
    struct rg_lustre_layout layout;
    /* As a real client has it: one stripe of 4 MiB. */
    assert_true(parse_layout("d00bd10b01000000400000000000000002040000020000000000400001"
                             "00ffff0004004002000000"
                             "1a000000000000000000000000000000",
                             &layout));
    assert_int_equal(layout.components[0].stripe_count, 1);
    assert_int_equal(layout.components[0].stripe_size, 4 << 20);
    assert_false(layout.composite);
    assert_false(parse_layout("d00bd70b00000000", &layout));
    assert_false(
        parse_layout("d00bd60bd80000000200000000000200000000000000000000000000000000", &layout));
}

static void servers(void **state)
{
    (void)state;
    struct rg_lustre_import *import = calloc(1, sizeof *import);
    struct rg_lustre_zfs *zfs = calloc(1, sizeof *zfs);
    struct rg_lustre_log *log = calloc(1, sizeof *log);
    unsigned version[3];
    assert_true(rg_lustre_uuid_parse(TEXT("fs-OST0012_UUID\tFULL\tDEACTIVATED\n"), import));
    assert_int_equal(rg_lustre_target_index(import->target), 18);
    assert_false(rg_lustre_import_is_well(import));
    assert_int_equal(rg_lustre_target_index("fs-OST00zz"), -1);
    rg_lustre_zfs_parse(
        TEXT("p/ost0\tlustre:mgsnode\t10.0.0.1@tcp:10.0.0.2@tcp\tlocal\n"
             "p/ost0\tlustre:svname\tfs-OST0000\tlocal\np/x\tcompression\ton\tlocal\n"),
        zfs);
    assert_int_equal(zfs->count, 1);
    assert_int_equal(zfs->targets[0].mgs.count, 2);
    rg_lustre_log_parse(TEXT("- { index: 4, event: add_uuid, nid: 10.0.0.1@tcp(0x2), node: x }\n"
                             "#05 (088)add_uuid  nid=10.0.0.2@tcp(0x2)  0:  1:10.0.0.2@tcp\n"
                             "#06 (088)SKIP add_uuid  nid=10.0.0.3@tcp(0x2)\n"),
                        log);
    assert_int_equal(log->nids.count, 2);
    assert_true(rg_lustre_version_parse(TEXT("lustre: 2.15.8_ddn1"), version));
    assert_true(version[0] == 2 && version[1] == 15 && version[2] == 8);
    assert_false(rg_lustre_version_parse(TEXT("none"), version));
    free(import);
    free(zfs);
    free(log);
}

static void stale(void **state)
{
    (void)state;
    struct rg_nid_list named = {0}, present = {0};
    char nid[RG_NID_TEXT_MAX + 1];
    rg_nid_list_add(&named, TEXT("10.0.0.1@o2ib:10.0.0.9@tcp"));
    rg_nid_list_add(&present, TEXT("10.0.0.2@o2ib"));
    assert_false(rg_stale_meet(&named, &present));
    assert_true(rg_stale_find(&named, &present, true, nid));
    assert_string_equal(nid, "10.0.0.1@o2ib");
    rg_nid_list_add(&present, TEXT("10.0.0.1@o2ib"));
    assert_true(rg_stale_meet(&named, &present));
    assert_false(rg_stale_find(&named, &present, true, nid));
    assert_true(rg_stale_find(&named, &present, false, nid));
    assert_string_equal(nid, "10.0.0.9@tcp");
}

static void services(void **state)
{
    (void)state;
    struct rg_environment *environment = calloc(1, sizeof *environment);
    struct rg_listeners *listeners = calloc(1, sizeof *listeners);
    char version[32];
    bool is_open;
    rg_environment_parse(TEXT("# M_X=0\nexport M_A='1'\nM_B = 2\nM_A=3\nOTHER=4\n"), "M_",
                         environment);
    assert_int_equal(environment->count, 2);
    assert_string_equal(rg_environment_get(environment, "M_A"), "3");
    assert_true(environment->entries[1].spaced);
    assert_null(rg_environment_get(environment, "OTHER"));
    rg_environ_parse(TEXT("M_C=5\0X=1\0M_D="), "M_", environment);
    assert_int_equal(environment->count, 4);
    assert_true(rg_listeners_parse(TEXT("  sl  local\n   0: 00000000:15B3 00000000:0000 0A x\n"
                                        "   1: 0100007F:2328 00000000:0000 0A x\n"
                                        "   2: 0100007F:2329 00000000:0000 01 x\n"),
                                   listeners));
    assert_int_equal(listeners->count, 2);
    assert_true(listeners->sockets[0].port == 5555 && listeners->sockets[0].any);
    assert_true(listeners->sockets[1].loopback);
    assert_true(rg_nvidia_version_parse(
        TEXT("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  x"), version,
        &is_open));
    assert_true(is_open);
    assert_string_equal(version, "550.54.15");
    free(environment);
    free(listeners);
}

static void resources(void **state)
{
    (void)state;
    struct span lines = TEXT("dev mlx5_0 pd 4 qp 40\nqp mlx5_0 1 2 3 700\nqp mlx5_0 2 2 3 0\n"
                             "qp mlx5_0 3 2 1 700\nqp mlx5_0 4 4 3 700\nqp mlx5_0 5 2 3 9\n");
    struct rg_nldev_use use;
    uint64_t count;
    rg_nldev_use_parse(lines, 700, &use);
    assert_true(use.owned == 1 && use.other == 1 && use.kernel == 1 && !use.malformed);
    assert_true(rg_nldev_count_parse(lines, "mlx5_0", "qp", &count) && count == 40);
    assert_false(rg_nldev_count_parse(lines, "mlx5_1", "qp", &count));
    rg_nldev_use_parse(TEXT("qp x 1 2\n"), 1, &use);
    assert_true(use.malformed);
}

static void buses(void **state)
{
    (void)state;
    unsigned tenths;
    uint64_t bars[RG_PCI_BARS], mbits;
    assert_true(rg_pci_speed_parse(TEXT("2.5 GT/s PCIe"), &tenths) && tenths == 25);
    assert_false(rg_pci_speed_parse(TEXT("Unknown"), &tenths));
    assert_int_equal(rg_pci_link_mbits(80, 8), 63015);
    assert_int_equal(rg_pci_link_mbits(25, 1), 2000);
    assert_false(rg_pci_resource_parse(TEXT("0x1 0x2\n"), bars));
    assert_true(rg_host_rate_parse("2.5 Gb/sec (1X SDR)", &mbits) && mbits == 2500);
    assert_true(rg_host_rate_parse("200 Gb/sec (4X HDR)", &mbits) && mbits == 200000);
    assert_false(rg_host_rate_parse("fast", &mbits));
    assert_true(rg_cpu_lists_meet("0-3,8", "8-9"));
    assert_false(rg_cpu_lists_meet("0-3,8", "4-7"));
    assert_int_equal(rg_pci_distance(TEXT("pci0000:3a/0000:3a:00.0/0000:3b:00.0"), 0,
                                     TEXT("pci0000:3a/0000:3a:01.0/0000:3c:00.0"), 0),
                     RG_PCI_PHB);
    assert_int_equal(rg_pci_distance(TEXT("pci0000:3a/0000:3a:00.0/0000:3b:00.0"), 0,
                                     TEXT("pci0000:80/0000:80:01.0/0000:81:00.0"), 1),
                     RG_PCI_SYS);
}

static void messages(void **state)
{
    (void)state;
    struct rg_rdma_window window = {.transport = RG_TRANSPORT_OFI,
                                    .address = UINT64_MAX - 4095,
                                    .length = 4095,
                                    .rkey = 0xfedcba9876543210,
                                    .provider = "tcp",
                                    .endpoint = {1, 2, 3},
                                    .endpoint_len = 3};
    struct rg_rdma_window again;
    json_t *object = rg_peer_tell_window(&window);
    assert_true(rg_peer_take_window(object, &again));
    assert_memory_equal(&again, &window, sizeof window);
    /* One byte more wraps. */
    assert_int_equal(json_object_set_new(object, "length", json_string("0000000000001001")), 0);
    assert_false(rg_peer_take_window(object, &again));
    json_decref(object);
    json_t *message = NULL;
    assert_int_equal(rg_peer_parse(TEXT("[1]"), &message, NULL), -RG_PARSE);
    assert_int_equal(rg_peer_parse(TEXT("{\"a\":1,\"a\":2}"), &message, NULL), -RG_PARSE);
    assert_int_equal(rg_peer_parse(TEXT("{\"n\":70000,\"t\":7}"), &message, NULL), 0);
    assert_int_equal(rg_peer_number(message, "n", 0, 65535, -1), -1);
    assert_string_equal(rg_peer_text(message, "t"), "");
    json_decref(message);
}

/* ---- Shell lines ---- */

RG_PRINTF(2, 3)
static void expect_line(const char *wanted, const char *format, ...)
{
    RG_BUF(line, 1024);
    va_list args;
    va_start(args, format);
    rg_shell_compose(&line, format, args);
    va_end(args);
    assert_string_equal(rg_buf_text(&line), wanted);
}

static void test_shell_lines(void **state)
{
    (void)state;
    expect_line("ip link set eth0.7@x up", "ip link set %s up", "eth0.7@x");
    expect_line("umount '/mnt/my fs'; df x", "umount %s; df %s", "/mnt/my fs", "x");
    expect_line("ls '$(touch x)'/y", "ls %s/y", "$(touch x)");
    expect_line("ls 'it'\\''s'", "ls %s", "it's");
    expect_line("echo 'a b'\\''=$c' >>f", "echo '%s=%s' >>f", "a b'", "$c");
    expect_line("echo \"\\$a\\\"b' c\"", "echo \"%s\"", "$a\"b' c");
    /* A comment stays one, and ends where the line does. */
    expect_line("a b   # no 'x' ?rm $y\nls 'p q'", "a %s   # no 'x' %s\nls %s", "b", "\nrm $y",
                "p q");
    expect_line("x#'a b'", "x#%s", "a b");
    expect_line("ls ", "ls %s", "");
    expect_line("3 -4 5 6 0x0a 7% ab", "%u %d %zu %" PRIu64 " 0x%02x %lld%% %.*s", 3u, -4,
                (size_t)5, (uint64_t)6, 10u, 7ll, 2, "abc");
}

static void kernel_log(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        int64_t seconds;
    } rows[] = {
        {"4,812,90000000,-;NVRM: Xid", 1000000 - 10},
        {"4,812,99999999,-,caller=T1;x", 1000000 - 1},
        {"4,812,100000000,-;x", 1000000},
        {"4,812,101000000,-;x", 0}, /* to come */
        {"4,812,x,-;x", 0},
        {"4,812,-5,-;x", 0},
        {"4,812;a,b,7,-;x", 0},
        {"no record", 0},
        {"", 0},
        {"4,812,90000000", 0},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        assert_int_equal(rg_kmsg_seconds(rows[i].record, 1000000, 100), rows[i].seconds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shell_lines),
        cmocka_unit_test(sizes),
        cmocka_unit_test(words),
        cmocka_unit_test(limits_and_units),
        cmocka_unit_test(control_groups),
        cmocka_unit_test(interrupts),
        cmocka_unit_test(statistics),
        cmocka_unit_test(mounts),
        cmocka_unit_test(identifiers),
        cmocka_unit_test(networks),
        cmocka_unit_test(layouts),
        cmocka_unit_test(servers),
        cmocka_unit_test(stale),
        cmocka_unit_test(services),
        cmocka_unit_test(resources),
        cmocka_unit_test(buses),
        cmocka_unit_test(kernel_log),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
