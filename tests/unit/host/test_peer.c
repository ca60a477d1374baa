/*
 * Two hosts compared: two documents that agree, and one change for every comparison, which turns
 * that one and no other. Without a network.
 */
#include "test.h"

#include "base/attr.h"
#include "host/json.h"
#include "host/peer_facts.h"

#include <string.h>

static const char document[] =
    "{\"type\": \"facts\", \"protocol\": 1, \"version\": \"1\", \"host\": \"a\","
    " \"kernel\": \"6.1.0\", \"boot_id\": \"1\", \"address\": \"10.0.0.1\", \"netdev\": \"ens1\","
    " \"netdev_mtu\": 9000, \"ports\": [{\"device\": \"mlx5_0\", \"family\": \"ConnectX\","
    " \"firmware\": \"22.41.1000\", \"board\": \"MT_0000000359\", \"number\": 1,"
    " \"active\": true, \"ethernet\": true, \"iwarp\": false, \"gid\": \"10.0.0.1\","
    " \"gid_index\": 3, \"gid_type\": \"RoCE v2\", \"netdev\": \"ens1\", \"netdev_mtu\": 9000,"
    " \"active_mtu\": 4096, \"rate_mbits\": 100000, \"traffic_class\": 104, \"pfc\": 8}]}";

struct mutation {
    const char *check;
    enum rg_verdict verdict;
    const char *of_host; /* a JSON object that is laid over the document, */
    const char *of_port; /* and one over its port */
    int64_t clock_us;    /* theirs minus ours */
};

static const struct mutation mutations[] = {
    {"PEER-MTU", RG_VERDICT_FAIL, "{\"netdev_mtu\": 1500}", "{}", 0},
    {"PEER-MTU", RG_VERDICT_FAIL, "{}", "{\"active_mtu\": 1024}", 0},
    {"PEER-MTU", RG_VERDICT_SKIP, "{\"netdev_mtu\": 0}", "{}", 0},
    {"PEER-LAYER", RG_VERDICT_FAIL, "{}", "{\"iwarp\": true}", 0},
    {"PEER-GID", RG_VERDICT_FAIL, "{}", "{\"gid_type\": \"RoCE v1\"}", 0},
    {"PEER-GID", RG_VERDICT_FAIL, "{}", "{\"gid\": \"fe80::1\"}", 0},
    {"PEER-CLASS", RG_VERDICT_WARN, "{}", "{\"traffic_class\": 0}", 0},
    {"PEER-CLASS", RG_VERDICT_WARN, "{}", "{\"traffic_class\": -1}", 0},
    {"PEER-PFC", RG_VERDICT_FAIL, "{}", "{\"pfc\": 16}", 0},
    {"PEER-PFC", RG_VERDICT_FAIL, "{}", "{\"pfc\": 0}", 0},
    {"PEER-FW", RG_VERDICT_WARN, "{}", "{\"firmware\": \"22.39.2048\"}", 0},
    {"PEER-RATE", RG_VERDICT_WARN, "{}", "{\"rate_mbits\": 25000}", 0},
    {"PEER-CLOCK", RG_VERDICT_WARN, "{}", "{}", 2000000},
    {"PEER-CLOCK", RG_VERDICT_WARN, "{}", "{}", -2000000},
    {"PEER-CLOCK", RG_VERDICT_FAIL, "{}", "{}", (int64_t)400 * 1000000},
};

/* What one host's facts alone, and an idle network, can be compared by. */
static const char *const compared[] = {"PEER-MTU", "PEER-LAYER", "PEER-GID",  "PEER-CLASS",
                                       "PEER-PFC", "PEER-FW",    "PEER-RATE", "PEER-CLOCK"};

static void take(const char *of_host, const char *of_port, struct rg_peer_facts *ret_facts)
{
    RG_CLEANUP(rg_host_json_free) json_t *facts = json_loads(document, 0, NULL);
    RG_CLEANUP(rg_host_json_free) json_t *host = json_loads(of_host, 0, NULL);
    RG_CLEANUP(rg_host_json_free) json_t *port = json_loads(of_port, 0, NULL);
    json_t *first = json_array_get(json_object_get(facts, "ports"), 0);
    assert_true(facts && host && port && first);
    assert_int_equal(json_object_update(facts, host), 0);
    assert_int_equal(json_object_update(first, port), 0);
    assert_true(rg_peer_take_facts(facts, ret_facts));
}

#define PLANNED 3

static void compare(const struct mutation *mutation, struct rg_findings *findings)
{
    static struct rg_peer_facts own, other;
    struct rg_peer_clock clock = {.known = true, .offset_us = mutation->clock_us, .error_us = 1000};
    take("{}", "{}", &own);
    take(mutation->of_host, mutation->of_port, &other);
    rg_peer_compare(&own, &other, &clock, PLANNED, findings);
    assert_false(findings->failed);
    for (size_t i = 0; i < findings->count; i++) {
        assert_non_null(findings->list[i].check);
        if (findings->list[i].verdict >= RG_VERDICT_WARN) {
            assert_non_null(findings->list[i].remedy);
            assert_non_null(findings->list[i].where);
            assert_non_null(findings->list[i].value);
        }
    }
}

static void test_hosts_that_agree(void **state)
{
    (void)state;
    static const struct mutation none = {"", RG_VERDICT_OK, "{}", "{}", 500000};
    RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
    compare(&none, &findings);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(compared); i++) {
        const struct rg_check *check = rg_check_find(compared[i]);
        assert_non_null(check);
        assert_int_equal(rg_findings_verdict(&findings, check), RG_VERDICT_OK);
    }
}

static void test_each_mismatch_turns_its_check(void **state)
{
    (void)state;
    for (size_t m = 0; m < RG_ARRAY_LENGTH(mutations); m++) {
        RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
        compare(&mutations[m], &findings);
        for (size_t i = 0; i < RG_ARRAY_LENGTH(compared); i++) {
            bool is_it = strcmp(compared[i], mutations[m].check) == 0;
            enum rg_verdict wanted = is_it ? mutations[m].verdict : RG_VERDICT_OK;
            enum rg_verdict found = rg_findings_verdict(&findings, rg_check_find(compared[i]));
            if (found != wanted) {
                fail_msg("row %zu (%s): %s is %s, expected %s", m, mutations[m].check, compared[i],
                         rg_verdict_name(found), rg_verdict_name(wanted));
            }
        }
    }
}

/* Whichever priority is planned, only the host that has another one is told to change it. */
static void test_the_host_that_is_as_planned_is_left_alone(void **state)
{
    (void)state;
    static struct rg_peer_facts own, other;
    const struct rg_peer_clock clock = {.known = false};
    take("{\"host\": \"here\"}", "{\"pfc\": 16}", &own);
    take("{\"host\": \"there\"}", "{\"pfc\": 8}", &other);
    for (unsigned planned = 3; planned <= 4; planned++) {
        RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
        rg_peer_compare(&own, &other, &clock, planned, &findings);
        const char *remedy = NULL;
        for (size_t i = 0; i < findings.count; i++) {
            if (strcmp(findings.list[i].check->id, "PEER-PFC") == 0) {
                remedy = findings.list[i].remedy;
            }
        }
        assert_non_null(remedy);
        assert_true(!strstr(remedy, "on here") == (planned == 4));
        assert_true(!strstr(remedy, "on there") == (planned == 3));
        assert_non_null(strstr(remedy, planned == 4 ? "all:off 4:on" : "all:off 3:on"));
    }
}

static void test_every_comparison_has_a_mutation(void **state)
{
    (void)state;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(compared); i++) {
        bool found = false;
        for (size_t m = 0; m < RG_ARRAY_LENGTH(mutations); m++) {
            found |= strcmp(mutations[m].check, compared[i]) == 0;
        }
        assert_true(found);
    }
}

static void test_the_prefix_may_be_left_out(void **state)
{
    (void)state;
    assert_ptr_equal(rg_check_find("path-mtu"), rg_check_find("PEER-PATH-MTU"));
    assert_string_equal(rg_check_find("PATH-MTU")->id, "PEER-PATH-MTU");
    assert_string_equal(rg_check_find("PORT-MTU")->id, "PORT-MTU");
    assert_string_equal(rg_check_find("MTU")->id, "PEER-MTU");
    assert_null(rg_check_find("MEM"));
    assert_null(rg_check_find("STATE")); /* not of PORT-STATE */
    assert_null(rg_check_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_that_agree),
        cmocka_unit_test(test_each_mismatch_turns_its_check),
        cmocka_unit_test(test_the_host_that_is_as_planned_is_left_alone),
        cmocka_unit_test(test_every_comparison_has_a_mutation),
        cmocka_unit_test(test_the_prefix_may_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
