/*
 * The compiled-in table: every row found by its examples and by no neighbour, texts complete in
 * both languages, fields, drift across releases, the words of alarms, real logs, hostile lines.
 */
#include "test.h"

#include "base/clock.h"
#include "diag/catalogue.h"
#include "diag/literals.h"
#include "diag/lustre.h"
#include "diag/reference.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static struct rg_catalogue *catalogue;

static int open_catalogue(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    int rc = rg_catalogue_open(NULL, 0, &catalogue, &err);
    if (rc < 0) {
        print_error("%s\n", err.message);
    }
    return rc;
}

static int close_catalogue(void **state)
{
    rg_catalogue_free(catalogue);
    return 0;
}

static enum rg_match match(const char *line, struct rg_event *ret_event)
{
    static struct rg_log_record record; /* events borrow it */
    record = (struct rg_log_record){.text = rg_span_text(line), .priority = -1};
    return rg_catalogue_match(catalogue, &record, ret_event);
}

static const char *id_of(const char *line)
{
    struct rg_event event;
    return match(line, &event) == RG_MATCH_ROW ? event.row->id : "";
}

static void assert_span(struct span got, const char *wanted)
{
    if (got.len != strlen(wanted) || memcmp(got.ptr, wanted, got.len) != 0) {
        fail_msg("\"%.*s\" instead of \"%s\"", RG_SPAN_ARG(got), wanted);
    }
}

static void every_example_finds_its_row(void **state)
{
    size_t count = rg_catalogue_row_count(catalogue);
    assert_true(count >= 200);
    for (size_t i = 0; i < count; i++) {
        const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, i);
        assert_true(row->example_count > 0);
        for (size_t j = 0; j < row->example_count; j++) {
            if (strcmp(id_of(row->examples[j]), row->id) != 0) {
                fail_msg("%s: \"%s\" is taken for \"%s\"", row->id, row->examples[j],
                         id_of(row->examples[j]));
            }
        }
    }
    assert_int_equal(rg_catalogue_limits_hit(catalogue), 0);
}

/* The special row stands before the general one, which matches as well. All other pairs must not.
 */
static const struct {
    const char *special;
    const char *general;
} overlaps[] = {
    {"PT-EXPIRE-SENT", "PT-EXPIRE"},
    {"PT-EXPIRE-SLOW", "PT-EXPIRE"},
    {"IM-RESTORED", "IM-RESTORED-SERVER"},
    {"RC-MDTWAIT", "CN-RECONNECTING"},
    {"RC-DENY-MDT", "RC-DENY"},
    {"CK-WRITE-MMAP", "CK-WRITE"},
    {"BE-ENOSPC", "BE-PRECREATE"},
    {"IB-TXTIMEOUT-CREDITS", "IB-TXTIMEOUT"},
    {"MG-REGISTER", "MT-USER"},
    {"MT-USER", "APP-ERRNO"},
    {"ML-HEALTH-OK", "ML-RESET"},
    {"ML-ACCESSREG", "ML-CMDERR"},
    {"GPU-XID-APP", "GPU-XID"},
    {"ML-CMDENT", "IPOIB"},
    {"ML-PORTMOD-OK", "ML-PORTMOD"},
    {"K-OOM-DAEMON", "K-OOM-LIMIT"},
    {"FRAME-RDMA", "FRAME-KERNEL"},
    {"FRAME-LUSTRE", "FRAME-KERNEL"},
    {"FRAME-DISK", "FRAME-KERNEL"},
    {"FRAME-NFS", "FRAME-KERNEL"},
};

static bool may_overlap(const char *special, const char *general)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(overlaps); i++) {
        if (strcmp(overlaps[i].special, special) == 0 &&
            strcmp(overlaps[i].general, general) == 0) {
            return true;
        }
    }
    return false;
}

static void no_neighbour_matches(void **state)
{
    size_t count = rg_catalogue_row_count(catalogue);
    for (size_t i = 0; i < count; i++) {
        const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, i);
        for (size_t k = 0; k < row->example_count; k++) {
            for (size_t j = 0; j < count; j++) {
                bool got = rg_catalogue_row_matches(catalogue, j, rg_span_text(row->examples[k]));
                const char *other = rg_catalogue_row_at(catalogue, j)->id;
                if (i == j ? !got : (got && !may_overlap(row->id, other))) {
                    fail_msg("%s and %s: \"%s\"", row->id, other, row->examples[k]);
                }
            }
        }
    }
}

/* ---- How lines are sought. ---- */

/* Strings so short that the search has only one gram for them (literals.c), and why they are. */
static const struct {
    const char *id;
    const char *literal;
    const char *reason;
} short_literals[] = {
    {"SV-SLOWIO", ": slow", "what was slow follows, the target comes before"},
    {"LB-LBUG", "LBUG", "may be all of the line"},
    {"BE-DISK", ": I/O", "a number or a word follows"},
    {"BE-TGTSTOP", "no obd", "the target follows"},
    {"IB-TXFAIL", "Tx ->", "the NID follows"},
    {"ML-CMDTO", "cmd[", "a number follows"},
    {"MLX-CQERR", "error:", "numbers and texts around it"},
    {"IPOIB", "ipoib_", "any of its functions"},
    {"IPOIB", "ib0:", "the usual interface, before any text"},
    {"EFA-DEV", "efa 0", "the address follows"},
    {"NVPM", "nv_mem", "the module's old name, before any text"},
    {"FRAME-RDMA", "+0x", "frames are all names and numbers"},
    {"FRAME-LUSTRE", "+0x", "frames are all names and numbers"},
    {"FRAME-DISK", "+0x", "frames are all names and numbers"},
    {"FRAME-NFS", "+0x", "frames are all names and numbers"},
    {"FRAME-KERNEL", "+0x", "frames are all names and numbers"},
    {"K-PANIC", "Oops:", "a number follows"},
    {"CL-MOVE", "* Move", "the resource follows"},
    {"CL-MOVE", "* Stop", "the resource follows"},
    {"K-MCE-CORRECTED", "EDAC", "the controller's name and numbers follow"},
    {"K-MCE", "EDAC", "the controller's name and numbers follow"},
    {"GEN-RC", "rc = -", "all of the line but the number"},
    {"GEN-RC", "rc =-", "all of the line but the number"},
    {"GEN-RC", "rc= -", "all of the line but the number"},
    {"GEN-RC", "rc=-", "all of the line but the number"},
};

static bool may_be_short(const char *id, const char *literal, bool used[])
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(short_literals); i++) {
        if (strcmp(short_literals[i].id, id) == 0 &&
            strcmp(short_literals[i].literal, literal) == 0) {
            used[i] = true;
            return strlen(short_literals[i].reason) > 0;
        }
    }
    return false;
}

static void literals_are_long_enough_to_be_rare(void **state)
{
    bool used[RG_ARRAY_LENGTH(short_literals)] = {false};
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, i);
        assert_true(row->literal_count > 0);
        for (size_t j = 0; j < row->literal_count; j++) {
            if (strlen(row->literals[j]) < RG_LITERAL_BYTES_GOOD &&
                !may_be_short(row->id, row->literals[j], used)) {
                fail_msg("%s: \"%s\" is short: give a longer literal, or its reason here", row->id,
                         row->literals[j]);
            }
        }
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(used); i++) {
        if (!used[i]) {
            fail_msg("%s has no literal \"%s\" any more", short_literals[i].id,
                     short_literals[i].literal);
        }
    }
}

static bool has_literal_of(const struct rg_catalogue_row *row, const char *line)
{
    for (size_t i = 0; i < row->literal_count; i++) {
        if (strstr(line, row->literals[i])) {
            return true;
        }
    }
    return false;
}

#define ROWS_MAX 1024

/* For how many of the file's lines each row's pattern is run and does not match. */
static size_t count_vain(const char *path, unsigned vain[ROWS_MAX])
{
    static char line[65536];
    size_t lines = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        lines++;
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
            vain[i] += has_literal_of(rg_catalogue_row_at(catalogue, i), line) &&
                       !rg_catalogue_row_matches(catalogue, i, rg_span_text(line));
        }
    }
    fclose(file);
    return lines;
}

/* What a healthy node says must not keep a pattern busy: its literals belong to its message. */
static void patterns_are_hardly_run_in_vain(void **state)
{
    static unsigned vain[ROWS_MAX];
    size_t lines = 0;
    struct dirent **names;
    int count = scandir(RG_CASES "/healthy", &names, NULL, alphasort);
    assert_true(count > 2);
    assert_true(rg_catalogue_row_count(catalogue) <= ROWS_MAX);
    for (int i = 0; i < count; i++) {
        RG_BUF(path, 4096);
        rg_buf_addf(&path, "%s/healthy/%s", RG_CASES, names[i]->d_name);
        lines += names[i]->d_name[0] == '.' ? 0 : count_vain(rg_buf_text(&path), vain);
        free(names[i]);
    }
    free(names);
    assert_true(lines > 300);
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        if (vain[i] * 33 > lines) {
            fail_msg("the literals of %s are in %u of %zu lines that it does not match",
                     rg_catalogue_row_at(catalogue, i)->id, vain[i], lines);
        }
    }
}

/* Korean text holds bytes that are not ASCII. */
static bool is_translated(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text >= 0x80) {
            return rg_span_is_utf8(rg_span_text(text));
        }
    }
    return false;
}

static void texts_are_complete(void **state)
{
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, i);
        assert_string_not_equal(row->title[RG_ENGLISH], row->id);
        assert_true(is_translated(row->title[RG_KOREAN]));
        assert_true(strlen(row->cause[RG_ENGLISH]) > 10);
        assert_true(is_translated(row->cause[RG_KOREAN]));
        assert_true(strlen(row->remedy[RG_ENGLISH]) > 8);
        assert_true(is_translated(row->remedy[RG_KOREAN]));
        if (row->avoid[RG_ENGLISH][0]) {
            assert_true(is_translated(row->avoid[RG_KOREAN]));
        }
        if (row->effect == RG_EFFECT_FAULT && row->accused != RG_ACCUSED_CONSEQUENCE &&
            row->next_count == 0) {
            fail_msg("%s has no next command", row->id);
        }
        for (size_t j = 0; j < row->next_count; j++) {
            unsigned seconds = 0;
            assert_int_equal(sscanf(row->next[j].command, "timeout %u ", &seconds), 1);
            assert_in_range(seconds, 1, 30);
        }
    }
}

static void explanations_and_the_reference(void **state)
{
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, i);
        for (int language = 0; language < RG_LANGUAGE_COUNT; language++) {
            RG_BUF(text, 65536);
            rg_catalogue_explain(row, (enum rg_language)language, &text);
            assert_true(rg_buf_ok(&text));
            assert_non_null(strstr(rg_buf_text(&text), row->cause[language]));
            assert_non_null(strstr(rg_buf_text(&text), row->examples[0]));
        }
    }
    RG_BUF(page, 4 << 20);
    rg_catalogue_reference(&page);
    assert_true(rg_buf_ok(&page));
    assert_non_null(strstr(rg_buf_text(&page), "### PT-EXPIRE-SENT\n"));
    assert_non_null(strstr(rg_buf_text(&page), "ETIMEDOUT"));
    assert_non_null(strstr(rg_buf_text(&page), "IBV_WC_RETRY_EXC_ERR"));
    assert_non_null(strstr(rg_buf_text(&page), "`accuses`"));
}

/* The messages that the table must know, by row or by family. */
static void nothing_is_missing(void **state)
{
    static const char *const needed[] = {"PT-EXPIRE",
                                         "PT-STATUS",
                                         "PT-STATUS-OLD",
                                         "IM-LOST-WAIT",
                                         "IM-LOST-FAIL",
                                         "IM-RESTORED",
                                         "IM-EVICTED",
                                         "IM-HANDLE",
                                         "IM-BADHANDLE",
                                         "IM-DENIED",
                                         "IM-BACKINTIME",
                                         "IM-SLUGGISH",
                                         "IM-INVAL-REQ",
                                         "IM-VERSION",
                                         "PT-SLOW-SERVER-MSG",
                                         "PT-EINPROGRESS",
                                         "PT-ADMIN-INACTIVE",
                                         "PI-EVICT-DEAD",
                                         "LD-CB-TIMEOUT",
                                         "LD-AST-EVICT",
                                         "LD-EVICT-138",
                                         "EX-EVICT-ADMIN",
                                         "EX-STALE",
                                         "CN-RECONNECTING",
                                         "CN-BUSY",
                                         "CN-NOTARGET",
                                         "CN-STOPPING",
                                         "CN-NEWNID",
                                         "RC-START",
                                         "RC-WAITFIRST",
                                         "RC-DENY",
                                         "RC-MDTWAIT",
                                         "RC-OVER",
                                         "RC-TIMEOUT",
                                         "TG-ORPHAN",
                                         "RC-IR",
                                         "TG-FAILOVER",
                                         "SV-INACTIVE",
                                         "SV-CPUBOUND",
                                         "SV-LATE",
                                         "SV-RQBD",
                                         "BK-TIMEOUT",
                                         "BK-NETERR",
                                         "BK-RETRY",
                                         "BK-EVENT",
                                         "CK-WRITE",
                                         "CK-READ",
                                         "LB-LBUG",
                                         "BE-MOUNT",
                                         "BE-ENOSPC",
                                         "BE-PRECREATE",
                                         "BE-RDONLY",
                                         "BE-ZPOOL",
                                         "BE-SCSI",
                                         "BE-DISK",
                                         "IB-TXTIMEOUT",
                                         "IB-TXTIMEOUT-PEER",
                                         "IB-RDMATIMEOUT",
                                         "IB-CONNREQTIMEOUT",
                                         "IB-CM",
                                         "IB-RESOLVE",
                                         "IB-REJECT",
                                         "IB-ACCEPT",
                                         "IB-RDMAFAIL",
                                         "IB-TXFAIL",
                                         "IB-CLOSE",
                                         "IB-DISCONNECTED",
                                         "IB-FATALNI",
                                         "IB-ASYNC",
                                         "IB-FRAGS",
                                         "IB-MAP",
                                         "IB-CREATEQP",
                                         "IB-STARTUP",
                                         "MOD-SYMBOL",
                                         "LN-NOROUTE",
                                         "LN-DROP",
                                         "LN-HEALTH-OLD",
                                         "LN-RECFAIL",
                                         "LN-RECSUM",
                                         "LN-TOOBIG",
                                         "LN-DESTNID",
                                         "SK-CONN",
                                         "EF-CANCEL",
                                         "MG-CONFFAIL",
                                         "MG-NOLOG",
                                         "MG-PROCFAIL",
                                         "MG-REGISTER",
                                         "MG-NOMGSNID",
                                         "MT-KERNEL",
                                         "MT-USER",
                                         "LN-CLI",
                                         "ML-HEALTH",
                                         "ML-SYND",
                                         "ML-CMDTO",
                                         "ML-CMDERR",
                                         "ML-CMDENT",
                                         "ML-FWINIT",
                                         "ML-PORTMOD",
                                         "ML-MCIA",
                                         "ML-TEMP",
                                         "ML-POWER",
                                         "ML-TXTO",
                                         "NET-LINK",
                                         "IBC-GID",
                                         "IBC-MAD",
                                         "IBC-CMDESTROY",
                                         "MIB-CQE",
                                         "MLX-CQERR",
                                         "IPOIB",
                                         "PCIE-BW",
                                         "IR-AE",
                                         "IR-CRIT",
                                         "IR-CQP",
                                         "IR-INIT",
                                         "IR-MTU",
                                         "IR-UAPI",
                                         "ICE-DCB",
                                         "ICE-MSIX",
                                         "ICE-DDP",
                                         "ICE-BOND",
                                         "BN-QPLIB",
                                         "EFA-DEV",
                                         "PCI-AER",
                                         "PCI-HP",
                                         "IOMMU-FAULT",
                                         "GPU-XID",
                                         "NVPM",
                                         "IB-UMEM",
                                         "K-HUNG",
                                         "K-LOCKUP",
                                         "K-OOM",
                                         "K-PANIC",
                                         "K-BOOT",
                                         "NFS-NR",
                                         "CL-RING",
                                         "CL-MOVE",
                                         "APP-ERRNO",
                                         "APP-WC",
                                         "K-MCE",
                                         "NET-DUPIP"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(needed); i++) {
        bool there = false;
        for (size_t j = 0; j < rg_catalogue_row_count(catalogue); j++) {
            const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, j);
            there |= strcmp(row->id, needed[i]) == 0 || strcmp(row->family, needed[i]) == 0;
        }
        if (!there) {
            fail_msg("no row for %s", needed[i]);
        }
    }
}

/* ---- Fields. ---- */

static void three_endings_three_verdicts(void **state)
{
    struct rg_event event;
    assert_int_equal(
        match(
            "Lustre: 8465:0:(client.c:2310:ptlrpc_expire_one_request()) @@@ Request sent has timed "
            "out for sent delay: [sent 1736957925/real 0]  req@00000000abcd0123 "
            "x1820705849269056/t0(0) "
            "o400->scratch-OST0012-osc-ffff888100aa0000@192.0.2.15@o2ib:28/4 "
            "lens 224/224 e 0 to 1 dl 1736957932 ref 1 fl Rpc:XNQr/0/ffffffff rc 0/-1 job:''",
            &event),
        RG_MATCH_ROW);
    assert_string_equal(event.row->id, "PT-EXPIRE-SENT");
    assert_string_equal(event.row->family, "PT-EXPIRE");
    assert_int_equal(event.accused, RG_ACCUSED_SELF);
    assert_int_equal(event.speaker_role, RG_ROLE_CLIENT);
    assert_int_equal(event.target_kind, RG_TARGET_OST);
    assert_int_equal(event.target_index, 18);
    assert_span(event.target, "scratch-OST0012");
    assert_span(event.file_system, "scratch");
    assert_span(event.nid, "192.0.2.15@o2ib");
    assert_span(event.operation, "obd_ping");
    assert_span(event.site, "client.c:2310:ptlrpc_expire_one_request");
    assert_int_equal(event.request.sent, 1736957925);
    assert_int_equal(event.request.real, 0);
    assert_int_equal(event.request.deadline, 1736957932);

    match("Lustre: @@@ Request sent has failed due to network error: [sent 5/real 5]", &event);
    assert_string_equal(event.row->id, "PT-EXPIRE-NET");
    assert_int_equal(event.accused, RG_ACCUSED_PATH);
    match("Lustre: @@@ Request sent has timed out for slow reply: [sent 5/real 5]", &event);
    assert_string_equal(event.row->id, "PT-EXPIRE-SLOW");
    assert_int_equal(event.request.sent, 5);
}

static void the_number_decides_whom_a_status_accuses(void **state)
{
    static const struct {
        const char *line;
        int rc;
        enum rg_accused accused;
    } cases[] = {
        {"LustreError: 11-0: fs-MDT0000-mdc-ffff88: operation obd_ping to node 192.0.2.88@o2ib "
         "failed: rc = -107",
         -107, RG_ACCUSED_PEER},
        {"LustreError: fs-OST0004-osc-ffff88: operation ost_connect to node 192.0.2.22@o2ib "
         "failed: "
         "rc = -19",
         -19, RG_ACCUSED_TARGET},
        {"LustreError: fs-OST0004-osc-ffff88: operation ost_write to node 192.0.2.22@o2ib failed: "
         "rc "
         "= -110",
         -110, RG_ACCUSED_PATH},
        {"LustreError: fs-OST0004-osc-ffff88: operation ost_write to node 192.0.2.22@o2ib failed: "
         "rc "
         "= -108",
         -108, RG_ACCUSED_CONSEQUENCE},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_event event;
        assert_int_equal(match(cases[i].line, &event), RG_MATCH_ROW);
        assert_string_equal(event.row->id, "PT-STATUS");
        assert_int_equal(event.rc, cases[i].rc);
        assert_int_equal(event.accused, cases[i].accused);
    }
}

static void completion_status_decides_too(void **state)
{
    struct rg_event event;
    match("LNet: Tx -> 192.0.2.43@o2ib cookie 0x4a1 sending 1 waiting 0: failed 12", &event);
    assert_int_equal(event.wc_status, 12);
    assert_int_equal(event.accused, RG_ACCUSED_PATH);
    assert_int_equal(event.effect, RG_EFFECT_FAULT);
    assert_int_equal(event.row->visibility, RG_HIDDEN);
    match("LNet: Tx -> 192.0.2.43@o2ib cookie 0x4a1 sending 1 waiting 0: failed 5", &event);
    assert_int_equal(event.accused, RG_ACCUSED_CONSEQUENCE);
    assert_int_equal(event.effect, RG_EFFECT_NONE);
    match("infiniband mlx5_0: mlx5_handle_error_cqe:332:(pid 0): WC error: 4, Message: local "
          "protection error",
          &event);
    assert_int_equal(event.accused, RG_ACCUSED_SELF);
    match("00000030: 00 00 00 00 00 00 88 13 08 00 01 13 07 47 67 d2", &event);
    assert_string_equal(event.row->id, "MIB-CQE-HEX");
    assert_int_equal(event.wc_status, 10);
    assert_int_equal(event.accused, RG_ACCUSED_PEER);
}

static void servers_speak_of_clients(void **state)
{
    struct rg_event event;
    match("Lustre: scratch-OST0012: haven't heard from client 939243e4-2f54-a96f-3cbb-9fcf55426e2e "
          "(at 192.0.2.105@o2ib) in 227 seconds. I think it's dead, and I am evicting it. exp "
          "ffff88, "
          "cur 1736957925 expire 1736957775 last 1736957698",
          &event);
    assert_string_equal(event.row->id, "PI-EVICT-DEAD");
    assert_int_equal(event.speaker_role, RG_ROLE_SERVER);
    assert_span(event.client, "939243e4-2f54-a96f-3cbb-9fcf55426e2e");
    assert_span(event.nid, "192.0.2.105@o2ib");
    assert_int_equal(event.number, 227);
    assert_int_equal(event.epoch, 1736957925);
    assert_int_equal(event.effect, RG_EFFECT_EVICTED);

    match("LustreError: 0:0:(ldlm_lockd.c:257:expired_lock_main()) ### lock callback timer expired "
          "after 101s: evicting client at 192.0.2.127@o2ib  ns: mdt-scratch-MDT0000_UUID lock: ff",
          &event);
    assert_span(event.target, "scratch-MDT0000");
    assert_span(event.nid, "192.0.2.127@o2ib");

    /* Old text: UUID and NID the wrong way round. */
    match("Lustre: lustre-MDT0000: Denying connection for new client 192.0.2.50@o2ib1 (at "
          "11e711ab-a329-f07a-8312-6a40af7fc5a4), waiting for 0 clients in recovery for 2:38",
          &event);
    assert_span(event.nid, "192.0.2.50@o2ib1");
    assert_span(event.client, "11e711ab-a329-f07a-8312-6a40af7fc5a4");

    match(
        "Lustre: lustre-MDT0000: Recovery over after 5:00, of 112 clients 0 recovered and 112 were "
        "evicted.",
        &event);
    assert_string_equal(event.row->id, "RC-OVER-EVICTED");
    assert_int_equal(event.number, 112);
    assert_int_equal(event.number_of, 112);

    /* A request that a server handles: the other way round. */
    match(
        "LustreError: 9122:0:(ldlm_lib.c:3531:target_bulk_io()) @@@ timeout on bulk WRITE after "
        "100+0s  req@ffff88 x1/t0(0) o4->939243e4-2f54-a96f-3cbb-9fcf55426e2e@192.0.2.105@o2ib:6/4 "
        "lens 488/448 e 0 to 0 dl 1736957925 ref 1 fl Interpret:/0/0 rc 0/0",
        &event);
    assert_int_equal(event.speaker_role, RG_ROLE_SERVER);
    assert_true(event.request.inbound);
    assert_span(event.client, "939243e4-2f54-a96f-3cbb-9fcf55426e2e");
    assert_span(event.nid, "192.0.2.105@o2ib");
    assert_int_equal(event.target_kind, RG_TARGET_NONE);
}

static void the_mds_is_a_server_that_asks(void **state)
{
    struct rg_event event;
    match(
        "Lustre: st_nas-MDT0002-osp-MDT0000: Connection to st_nas-MDT0002 (at 192.0.2.173@tcp) was "
        "lost; in progress operations using this service will wait for recovery to complete",
        &event);
    assert_int_equal(event.speaker_role, RG_ROLE_SERVER);
    assert_span(event.target, "st_nas-MDT0002");
    match("Lustre: DIAS-OST0001-osc-MDT0000: Connection restored to 192.0.2.178@tcp (at "
          "192.0.2.178@tcp)",
          &event);
    assert_string_equal(event.row->id, "IM-RESTORED");
    assert_int_equal(event.speaker_role, RG_ROLE_SERVER);
    match(
        "LustreError: 166-1: MGC192.0.2.11@o2ib: Connection to MGS (at 192.0.2.10@o2ib) was lost; "
        "in progress operations using this service will fail",
        &event);
    assert_int_equal(event.target_kind, RG_TARGET_MGS);
    assert_span(event.nid, "192.0.2.10@o2ib");
    assert_int_equal(event.speaker_role, RG_ROLE_UNKNOWN);
}

static void other_fields(void **state)
{
    struct rg_event event;
    match("LNetError: 4069:0:(lib-ptl.c:189:lnet_try_match_md()) Matching packet from "
          "12345-192.0.2.43@o2ib, match 1820705849269056 length 1048576 too big: 1015808 left, "
          "1015808 "
          "allowed",
          &event);
    assert_int_equal(event.request.xid, 1820705849269056);
    assert_false(event.request.present);
    assert_span(event.nid, "192.0.2.43@o2ib");
    match("LNetError: Fatal device error for NI 192.0.2.105@o2ib", &event);
    assert_span(event.nid_local, "192.0.2.105@o2ib");
    assert_int_equal(event.nid.len, 0);
    match("INFO: task kworker/0:0:7 blocked for more than 122 seconds.", &event);
    assert_span(event.detail, "kworker/0:0");
    assert_int_equal(event.number, 122);
    match("mlx5_core 0000:01:00.0: wait_func_handle_exec_timeout:1062:(pid 88): cmd[3]: "
          "DESTROY_EQ(0x302) timeout. Will cause a leak of a command resource",
          &event);
    assert_span(event.device, "0000:01:00.0");
    assert_span(event.operation, "DESTROY_EQ");
    match("mlx5_core 0000:3b:00.0 ens1f0np0: Link down", &event);
    assert_span(event.device, "ens1f0np0");
    match("mlx5_core 0000:3b:00.0: Link down", &event);
    assert_span(event.device, "0000:3b:00.0");
    match("LustreError: 0:0:(ldlm_lockd.c:257:expired_lock_main()) ### lock callback timer expired "
          "after 101s: evicting client at 192.0.2.127@o2ib  ns: mdt-f-MDT0000_UUID lock: "
          "ffff88/0xe9 lrc: 3/0,0 mode: PR/PR res: [0x200000401:0x5:0x0].0x0 bits 0x13",
          &event);
    assert_span(event.target, "f-MDT0000");
    assert_span(event.detail, "[0x200000401:0x5:0x0]");
    match("NVRM: Xid (PCI:0000:17:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
          &event);
    assert_int_equal(event.number, 79);
    assert_span(event.device, "0000:17:00");
}

/* ---- One message, many releases. ---- */

static void drift_across_releases(void **state)
{
    static const struct {
        const char *id;
        const char *line;
    } cases[] = {
        {"PT-STATUS",
         "LustreError: 11-0: f-MDT0000-mdc-ff: operation mds_close to node 192.0.2.5@tcp "
         "failed: rc = -116"},
        {"PT-STATUS", "LustreError: f-MDT0000-mdc-ff: operation mds_close to node 192.0.2.5@tcp "
                      "failed: rc = -116"},
        {"PT-STATUS-OLD", "LustreError: 11-0: an error occurred while communicating with "
                          "192.0.2.5@tcp. The mds_close operation failed with -116"},
        {"IM-EVICTED",
         "LustreError: 167-0: f-OST0000-osc-ff: This client was evicted by f-OST0000; in "
         "progress operations using this service will fail."},
        {"IM-EVICTED", "LustreError: f-OST0000-osc-ff: This client was evicted by f-OST0000; in "
                       "progress operations using this service will fail."},
        {"IM-LOST-FAIL",
         "LustreError: 166-1: MGC192.0.2.1@tcp: Connection to MGS (at 192.0.2.1@tcp) "
         "was lost; in progress operations using this service will fail"},
        {"IM-LOST-FAIL", "LustreError: MGC192.0.2.1@tcp: Connection to MGS (at 192.0.2.1@tcp) was "
                         "lost; in progress operations using this service will fail"},
        {"MG-CONFFAIL", "LustreError: 15c-8: MGC192.0.2.1@tcp: The configuration from log "
                        "'scratch-client' failed (-5). This may be"},
        {"MG-CONFFAIL",
         "LustreError: MGC192.0.2.1@tcp: Confguration from log scratch-client failed "
         "from MGS -5. Communication error"},
        {"IB-TXTIMEOUT", "LNetError: Timed out tx: active_txs, 5 seconds"},
        {"IB-TXTIMEOUT", "LNetError: Timed out tx: active_txs(WSQ:010), 5 seconds"},
        {"IB-TXTIMEOUT-CREDITS", "LNetError: Timed out tx: tx_queue, 5 seconds"},
        {"PT-EXPIRE-SLOW",
         "Lustre: @@@ Request sent has timed out for slow reply: [sent 5/real 5]  "
         "req@ff x1/t0 o400->f-OST0000-osc-ff@192.0.2.1@tcp:28/4 lens 1/1 e 0 to 1 "
         "dl 6 ref 1 fl Rpc:XN/0/ffffffff rc 0/-1"},
        {"PT-EXPIRE-SLOW",
         "Lustre: @@@ Request sent has timed out for slow reply: [sent 5/real 5]  "
         "req@ff x1/t0(0) o400->f-OST0000-osc-ff@192.0.2.1@tcp:28/4 lens 1/1 e 0 to "
         "1 dl 6 ref 1 fl Rpc:XN/0/ffffffff rc 0/-1 job:'x' uid:0 gid:0 projid:0"},
        {"IM-RESTORED", "Lustre: f-OST003a-osc-ff: Connection restored to  (at 192.0.2.43@o2ib)"},
        {"IM-RESTORED", "Lustre: f-OST003a-osc-ff: Connection restored to f-OST003a (at "
                        "192.0.2.43@o2ib)"},
        {"IM-RESTORED", "Lustre: f-OST003a-osc-ff: Connection restored to "
                        "939243e4-2f54-a96f-3cbb-9fcf55426e2e (at 192.0.2.43@o2ib)"},
        {"EX-EVICT-ADMIN", "Lustre: f-OST0001: evicting 26959b68-1208-1fca-1f07-da2dc872c55f at "
                           "adminstrative request"},
        {"SV-INACTIVE", "LustreError: Service thread pid 12 was inactive for 200s. The thread"},
        {"CN-NOTARGET", "LustreError: 137-5: f-OST0004_UUID: not available for connect from "
                        "192.0.2.77@o2ib (no target)."},
        {"IB-CM-UNREACHABLE", "LNet: 192.0.2.43@o2ib: UNREACHABLE -110 cm_id 00000000f conn 00 "
                              "ibc_state: 3"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        if (strcmp(id_of(cases[i].line), cases[i].id) != 0) {
            fail_msg("\"%s\" is \"%s\", not %s", cases[i].line, id_of(cases[i].line), cases[i].id);
        }
    }
}

/* The endings, drivers and tools that one row stands for, from wordings.txt. */
static void every_wording_finds_its_row(void **state)
{
    rg_autofclose FILE *file = fopen(RG_TEST_DATA "/wordings.txt", "re");
    assert_non_null(file);
    size_t count = 0;
    char line[1024];
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *text = strchr(line, '\t');
        if (line[0] == '#') {
            continue;
        }
        assert_non_null(text);
        *text++ = '\0';
        if (strcmp(id_of(text), line) != 0) {
            fail_msg("\"%s\" is taken for \"%s\", not %s", text, id_of(text), line);
        }
        count++;
    }
    assert_true(count >= 150);
}

/* What people paste: stripped of file, line or pid, addresses replaced, cut at the terminal. */
static void pasted_lines(void **state)
{
    struct rg_event event;
    match(
        "Lustre: ptlrpc_expire_one_request() @@@ Request sent has timed out for slow reply: [sent "
        "1736957925/real 1736957925]  req@000000005ab3b574 x1820705849269056/t0(0) "
        "o4->cap-OST003a-osc-ffff3000ef06c000@<OST-IP>@tcp:6/4 lens 488/448 e 2 to 1 dl 1736958128 "
        "ref>",
        &event);
    assert_string_equal(event.row->id, "PT-EXPIRE-SLOW");
    assert_int_equal(event.target_index, 0x3a);
    assert_span(event.nid, "<OST-IP>@tcp");
    assert_int_equal(event.request.deadline, 1736958128);
    match("(client.c:2310:ptlrpc_expire_one_request()) @@@ Request sent has failed due to network "
          "error: [sent 5/real 5]",
          &event);
    assert_string_equal(event.row->id, "PT-EXPIRE-NET");
    assert_string_equal(id_of("LustreError: (super25.c:183:lustre_fill_super()) llite: Unable to "
                              "mount <unknown>: rc = -5"),
                        "MT-KERNEL");
}

/* The third document's sections 7 and 12: the words of alarms and of ibstat. */
static void words_of_alarms(void **state)
{
    struct rg_event event;
    assert_string_equal(id_of("Request sent has timed out"), "PT-EXPIRE");
    assert_string_equal(id_of("ptlrpc_expire_one_request() Request sent has timed out"),
                        "PT-EXPIRE");
    match("connection lost to 192.0.2.105@o2ib", &event);
    assert_string_equal(event.row->id, "IM-LOST");
    assert_int_equal(event.effect, RG_EFFECT_LOST);
    assert_span(event.nid, "192.0.2.105@o2ib");
    match("LustreError: rc = -5", &event);
    assert_string_equal(event.row->id, "GEN-RC");
    assert_int_equal(event.rc, -5);
    assert_string_equal(id_of("rc = -5"), "GEN-RC");
    assert_string_equal(id_of("LNetError"), "GEN-LNET");
    assert_string_equal(id_of("Lustre RDMA failure"), "ALARM-RDMA");
    assert_string_equal(id_of("State: Down"), "IB-PORT-STATE");
    assert_string_equal(id_of("\t\tPhysical state: Polling"), "IB-PORT-STATE");
    assert_string_equal(id_of("State: Active"), "");
    assert_string_equal(id_of("Physical state: LinkUp"), "");
    assert_string_equal(id_of("touch: cannot touch '/mnt/lustre/x': Input/output error"),
                        "APP-ERRNO");
}

/* ---- Commands. ---- */

static void commands_are_filled_in(void **state)
{
    struct rg_event event;
    match("Lustre: scratch-OST003a-osc-ffff3000ef06c000: Connection to scratch-OST003a (at "
          "192.0.2.43@o2ib) was lost; in progress operations using this service will wait for "
          "recovery to complete",
          &event);
    RG_BUF(text, 1000);
    assert_true(rg_catalogue_command("timeout 5 lctl ping {nid}", &event, &text));
    assert_string_equal(rg_buf_text(&text), "timeout 5 lctl ping 192.0.2.43@o2ib");
    rg_buf_clear(&text);
    assert_true(rg_catalogue_command("timeout 5 lctl get_param '*.{target}-*.import' {fsname} {x}",
                                     &event, &text));
    assert_string_equal(rg_buf_text(&text),
                        "timeout 5 lctl get_param '*.scratch-OST003a-*.import' scratch {x}");
    rg_buf_clear(&text);
    assert_false(rg_catalogue_command("timeout 5 ethtool {device}", &event, &text));
    assert_string_equal(rg_buf_text(&text), "timeout 5 ethtool DEVICE");
}

static void assert_device_becomes(const char *device, const char *command, const char *wanted)
{
    struct rg_event event = {.device = rg_span_text(device)};
    RG_BUF(text, 1000);
    assert_int_equal(rg_catalogue_command(command, &event, &text), device[0] != '\0');
    assert_string_equal(rg_buf_text(&text), wanted);
}

/* Drivers name cards and disks in ways that tools do not take. */
static void devices_are_named_as_tools_want_them(void **state)
{
    assert_device_becomes("ens1f0np0", "ethtool {port}", "ethtool ens1f0np0");
    assert_device_becomes("0000:3b:00.0", "ethtool {port}",
                          "ethtool $(ls /sys/bus/pci/devices/0000:3b:00.0/net)");
    assert_device_becomes("0000:3b:00.0", "lspci -s {device}", "lspci -s 0000:3b:00.0");
    assert_device_becomes("", "ethtool {port}", "ethtool INTERFACE");
    assert_device_becomes("sdr", "smartctl -a {disk}", "smartctl -a /dev/sdr");
    assert_device_becomes("8:16", "smartctl -a {disk}", "smartctl -a /dev/block/8:16");
    assert_device_becomes("", "smartctl -a {disk}", "smartctl -a /dev/DISK");
}

/* Whoever writes to the log must not write commands. */
static void commands_take_nothing_unsafe(void **state)
{
    static const char *const values[] = {"$(reboot)@tcp", "a;b@tcp", "`x`@tcp", "-oProxy@tcp",
                                         "a'b@tcp",       "a|b@tcp", "a\nb@tcp"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(values); i++) {
        struct rg_event event = {.nid = rg_span_text(values[i])};
        RG_BUF(text, 1000);
        assert_false(rg_catalogue_command("timeout 5 lctl ping {nid}", &event, &text));
        assert_string_equal(rg_buf_text(&text), "timeout 5 lctl ping NID");
    }
}

/* ---- Lines that nobody knows. ---- */

static void ordinary_lines_are_nothing(void **state)
{
    static const char *const lines[] = {
        "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        "systemd[1]: Started Session 12 of user root.",
        "RPC: Registered tcp transport module.",
        "Key type .llcrypt registered",
        "libcfs: HW NUMA nodes: 1, HW CPU cores: 1, npartitions: 1",
        "",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lines); i++) {
        struct rg_event event;
        assert_int_equal(match(lines[i], &event), RG_MATCH_NONE);
    }
}

static void unmatched_lines_are_gathered_by_shape(void **state)
{
    struct rg_unmatched unmatched = {0};
    for (int i = 0; i < 1000; i++) {
        char line[200];
        snprintf(
            line, sizeof(line),
            "LustreError: %d:0:(new.c:12:new_function()) frobnication of 0x%x failed: rc = -%d",
            1000 + i, i * 77, i);
        struct rg_event event;
        assert_int_equal(match(line, &event), RG_MATCH_SUSPECT);
        struct rg_log_record record = {
            .text = rg_span_text(line), .node = 3, .line = 10 + (uint64_t)i};
        rg_unmatched_add(&unmatched, &record);
    }
    struct rg_log_record other = {.text = rg_span_text("foo: bar failed\x1b[31m"), .repeats = 4};
    rg_unmatched_add(&unmatched, &other);
    assert_int_equal(unmatched.count, 2);
    assert_int_equal(unmatched.lines, 1005);
    assert_int_equal(unmatched.lustre_lines, 1000);
    assert_int_equal(unmatched.shapes[0].count, 1000);
    assert_true(unmatched.shapes[0].lustre);
    assert_int_equal(unmatched.shapes[0].node, 3);
    assert_int_equal(unmatched.shapes[0].line, 10);
    assert_string_equal(
        unmatched.shapes[0].shape,
        "LustreError: #:#:(new.c:#:new_function()) frobnication of # failed: rc = -#");
    assert_string_equal(unmatched.shapes[1].sample, "foo: bar failed?[31m");
    assert_int_equal(unmatched.shapes[1].count, 5);
    rg_unmatched_free(&unmatched);
}

static void shapes_have_a_ceiling(void **state)
{
    struct rg_unmatched unmatched = {0};
    char line[3000];
    for (int i = 0; i < 2 * RG_SHAPES_MAX; i++) {
        memset(line, 'x', sizeof(line));
        line[i % 100] = (char)('a' + i / 100);
        struct rg_log_record record = {.text = rg_span(line, sizeof(line))};
        rg_unmatched_add(&unmatched, &record);
    }
    assert_int_equal(unmatched.count, RG_SHAPES_MAX);
    assert_int_equal(unmatched.other, RG_SHAPES_MAX);
    assert_int_equal(unmatched.lines, 2 * RG_SHAPES_MAX);
    assert_int_equal(strlen(unmatched.shapes[0].shape), RG_SHAPE_BYTES_MAX);
    assert_int_equal(strlen(unmatched.shapes[0].sample), RG_SAMPLE_BYTES_MAX);
    rg_unmatched_free(&unmatched);
}

/* ---- Real logs: each line of them that looks like an error is known. ---- */

static const char *after_stamp(const char *line)
{
    const char *end = line[0] == '[' ? strstr(line, "] ") : NULL;
    return end ? end + 2 : line;
}

static void check_log(const char *path, size_t *ret_rows)
{
    rg_autofclose FILE *file = fopen(path, "r");
    assert_non_null(file);
    rg_autofree char *line = NULL;
    size_t room = 0;
    ssize_t len;
    while ((len = getline(&line, &room, file)) > 0) {
        line[len - (line[len - 1] == '\n')] = '\0';
        struct rg_event event;
        enum rg_match got = match(after_stamp(line), &event);
        if (got == RG_MATCH_SUSPECT) {
            fail_msg("%s: no row for \"%s\"", path, line);
        }
        bool error = strstr(line, "LustreError: ") || strstr(line, "LNetError: ");
        if (error && got != RG_MATCH_ROW) {
            fail_msg("%s: nothing for \"%s\"", path, line);
        }
        *ret_rows += got == RG_MATCH_ROW;
    }
}

static void real_logs_hold_nothing_unknown(void **state)
{
    rg_autoclosedir DIR *dir = opendir(RG_CASES "/lustre");
    assert_non_null(dir);
    size_t files = 0;
    size_t rows = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        if (len < 4 || strcmp(entry->d_name + len - 4, ".log") != 0) {
            continue;
        }
        char path[600];
        snprintf(path, sizeof(path), "%s/lustre/%s", RG_CASES, entry->d_name);
        check_log(path, &rows);
        files++;
    }
    assert_true(files >= 80);
    assert_true(rows >= 800);
}

/* ---- Hostile lines. ---- */

static void hostile_lines(void **state)
{
    enum { LEN = 1 << 20 };
    char *line = malloc(LEN);
    assert_non_null(line);
    static const char *const seeds[] = {
        ": operation ",
        "Request sent has timed out",
        "was lost; in progress operations using this",
        " Connection restored to ",
        "x dirty page discard ",
        "LNetError",
        "Unable to mount  ",
        "BAD WRITE CHECKSUM: ",
        "+0x",
        "failed: ",
        "req@ x o->",
        "[sent ",
        "FAILED Result: hostbyte=",
    };
    uint64_t start = rg_clock_ms();
    for (size_t i = 0; i < RG_ARRAY_LENGTH(seeds); i++) {
        size_t len = strlen(seeds[i]);
        for (size_t at = 0; at < LEN; at++) {
            line[at] = seeds[i][at % len];
        }
        struct rg_log_record record = {.text = rg_span(line, LEN)};
        struct rg_event event;
        rg_catalogue_match(catalogue, &record, &event);
        memset(line, i % 2 ? 'a' : 0, LEN);
        memcpy(line + 4000, seeds[i], len);
        memcpy(line + LEN - len, seeds[i], len);
        rg_catalogue_match(catalogue, &record, &event);
    }
    free(line);
    assert_true(rg_clock_ms() - start < 20000);
}

static void every_prefix_of_every_example(void **state)
{
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, i);
        size_t len = strlen(row->examples[0]);
        for (size_t cut = 0; cut <= len; cut += 3) {
            char *copy = malloc(cut + 1);
            assert_non_null(copy);
            memcpy(copy, row->examples[0], cut);
            struct rg_log_record record = {.text = rg_span(copy, cut)};
            struct rg_event event;
            rg_catalogue_match(catalogue, &record, &event);
            free(copy);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_finds_its_row),
        cmocka_unit_test(no_neighbour_matches),
        cmocka_unit_test(literals_are_long_enough_to_be_rare),
        cmocka_unit_test(patterns_are_hardly_run_in_vain),
        cmocka_unit_test(texts_are_complete),
        cmocka_unit_test(explanations_and_the_reference),
        cmocka_unit_test(nothing_is_missing),
        cmocka_unit_test(three_endings_three_verdicts),
        cmocka_unit_test(the_number_decides_whom_a_status_accuses),
        cmocka_unit_test(completion_status_decides_too),
        cmocka_unit_test(servers_speak_of_clients),
        cmocka_unit_test(the_mds_is_a_server_that_asks),
        cmocka_unit_test(other_fields),
        cmocka_unit_test(drift_across_releases),
        cmocka_unit_test(every_wording_finds_its_row),
        cmocka_unit_test(pasted_lines),
        cmocka_unit_test(words_of_alarms),
        cmocka_unit_test(commands_are_filled_in),
        cmocka_unit_test(devices_are_named_as_tools_want_them),
        cmocka_unit_test(commands_take_nothing_unsafe),
        cmocka_unit_test(ordinary_lines_are_nothing),
        cmocka_unit_test(unmatched_lines_are_gathered_by_shape),
        cmocka_unit_test(shapes_have_a_ceiling),
        cmocka_unit_test(real_logs_hold_nothing_unknown),
        cmocka_unit_test(hostile_lines),
        cmocka_unit_test(every_prefix_of_every_example),
    };
    return cmocka_run_group_tests(tests, open_catalogue, close_catalogue);
}
