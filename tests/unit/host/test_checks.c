/*
 * The checks on machines that were made of text: what each machine's verdicts are, and that every
 * check can be turned by a change that turns nothing else.
 */
#include "test.h"
#include "tree.h"

#include "host/check.h"
#include "host/report.h"
#include "host/unjudged.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECKS_MAX 256

struct mutation {
    const char *tree;
    const char *check;
    enum rg_verdict verdict;
    const char *changes;
};

static const struct mutation mutations[] = {
#define MUTATION(tree, check, verdict, changes) {#tree, check, RG_VERDICT_##verdict, changes},
#include "mutations_counters.tbl"
#include "mutations_devices.tbl"
#include "mutations_lossless.tbl"
#include "mutations_ports.tbl"
#undef MUTATION
};

/* Groups that a table of mutations exists for. */
static bool is_covered(const struct rg_check *check)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(mutations); i++) {
        const struct rg_check *turned = rg_check_find(mutations[i].check);
        if (turned && turned->group == check->group) {
            return true;
        }
    }
    return false;
}

struct outcome {
    bool judged[CHECKS_MAX];
    enum rg_verdict verdict[CHECKS_MAX];
};

static void tell(const struct rg_findings *findings, const struct rg_check *check)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->list[i].check == check) {
            print_message("    %s %s %s: %s [%s]\n", check->id,
                          rg_verdict_name(findings->list[i].verdict), findings->list[i].subject,
                          findings->list[i].summary,
                          findings->list[i].value ? findings->list[i].value : "");
        }
    }
}

/* Whoever fails or warns says what to do, what was read, and where. */
static void expect_complete(const struct rg_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct rg_finding *finding = &findings->list[i];
        if (finding->verdict >= RG_VERDICT_WARN &&
            (!finding->remedy || !finding->where || !finding->value)) {
            fail_msg("%s: a finding without %s", finding->check->id,
                     !finding->remedy  ? "a remedy"
                     : !finding->where ? "its origin"
                                       : "the raw value");
        }
    }
}

static void judge(const char *tree, const char *changes, struct outcome *ret_outcome,
                  const char *loud)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
    RG_CLEANUP(rg_host_facts_cleanup) struct rg_host_facts *facts = tree_read(tree, changes);
    assert_true(rg_check_count() <= CHECKS_MAX);
    assert_int_equal(rg_host_judge(facts, &findings, &err), 0);
    expect_complete(&findings);
    *ret_outcome = (struct outcome){0};
    for (size_t i = 0; i < rg_check_count(); i++) {
        const struct rg_check *check = rg_check_at(i);
        ret_outcome->judged[i] = (check->profiles >> facts->plan.profile & 1) != 0;
        ret_outcome->verdict[i] = rg_findings_verdict(&findings, check);
        if (loud && (loud[0] == '*' ? ret_outcome->verdict[i] >= RG_VERDICT_WARN
                                    : strcmp(loud, check->id) == 0)) {
            tell(&findings, check);
        }
    }
}

/* Of a change that also chooses another role, only those count that both were judged for. */
static size_t compare(const struct outcome *before, const struct outcome *after,
                      const struct mutation *mutation)
{
    size_t wrong = 0;
    for (size_t i = 0; i < rg_check_count(); i++) {
        const char *id = rg_check_at(i)->id;
        bool is_it = strcmp(id, mutation->check) == 0;
        enum rg_verdict wanted = is_it ? mutation->verdict : before->verdict[i];
        if (!before->judged[i] || !after->judged[i] || after->verdict[i] == wanted) {
            continue;
        }
        print_error("%s, to turn %s: %s is %s, expected %s\n", mutation->tree, mutation->check, id,
                    rg_verdict_name(after->verdict[i]), rg_verdict_name(wanted));
        wrong++;
        if (is_it || wrong < 4) {
            struct outcome again;
            judge(mutation->tree, mutation->changes, &again, id);
        }
    }
    return wrong;
}

static void test_mutations(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(mutations); i++) {
        /* The rows of a tree stand together, mostly: it is judged once for them. */
        static struct outcome before;
        struct outcome after;
        if (i == 0 || strcmp(mutations[i].tree, mutations[i - 1].tree) != 0) {
            judge(mutations[i].tree, NULL, &before, NULL);
        }
        judge(mutations[i].tree, mutations[i].changes, &after, NULL);
        wrong += compare(&before, &after, &mutations[i]);
    }
    assert_int_equal(wrong, 0);
}

static void test_every_check_has_one(void **state)
{
    (void)state;
    size_t missing = 0;
    for (size_t i = 0; i < rg_check_count(); i++) {
        bool found = false;
        for (size_t k = 0; k < RG_ARRAY_LENGTH(mutations); k++) {
            found |= strcmp(mutations[k].check, rg_check_at(i)->id) == 0;
        }
        if (!found && is_covered(rg_check_at(i))) {
            print_error("nothing turns %s\n", rg_check_at(i)->id);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

/* ---- Whole machines ---- */

struct machine {
    const char *tree;
    const char *fails[8]; /* what fails; everything else must not */
    const char *warns[8];
};

static const struct machine machines[] = {
#define MACHINE(tree, fails, warns) {#tree, fails, warns},
#define IDS(...)                                                                                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#include "machines.tbl"
};

static bool is_listed(const char *const *ids, const char *id)
{
    for (size_t i = 0; i < 8 && ids[i]; i++) {
        if (strcmp(ids[i], id) == 0) {
            return true;
        }
    }
    return false;
}

static void test_machines(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(machines); i++) {
        struct outcome outcome;
        size_t before = wrong;
        judge(machines[i].tree, NULL, &outcome, NULL);
        for (size_t k = 0; k < rg_check_count(); k++) {
            const char *id = rg_check_at(k)->id;
            enum rg_verdict verdict = outcome.verdict[k];
            bool right = (verdict == RG_VERDICT_FAIL) == is_listed(machines[i].fails, id) &&
                         (verdict == RG_VERDICT_WARN) == is_listed(machines[i].warns, id);
            if (outcome.judged[k] && is_covered(rg_check_at(k)) && !right) {
                print_error("%s: %s is %s\n", machines[i].tree, id, rg_verdict_name(verdict));
                wrong++;
            }
        }
        if (wrong > before) {
            judge(machines[i].tree, NULL, &outcome, "*");
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- When memory is short ---- */

static size_t allocations_left;

static void *allocate(size_t size)
{
    return allocations_left && allocations_left-- ? malloc(size) : NULL;
}

/* What the role stands on and nobody could judge is never lost: not one allocation that fails makes
 * a good report. */
static void test_unjudged_without_memory(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
    RG_CLEANUP(rg_host_facts_cleanup)
    struct rg_host_facts *facts =
        tree_read("cx-roce", "/sys/class/infiniband/mlx5_0/ports -\n"
                             "/sys/class/infiniband/mlx5_0/ports !EACCES\n"
                             "/sys/class/infiniband/mlx5_1/ports -\n"
                             "/sys/class/infiniband/mlx5_1/ports !EACCES");
    assert_int_equal(rg_host_judge(facts, &findings, &err), 0);
    assert_int_equal(rg_findings_verdict(&findings, NULL), RG_VERDICT_OK);
    size_t refused = 0, built = 0;
    for (size_t count = 0; count < 100000; count++) {
        json_t *unjudged = NULL;
        allocations_left = count;
        json_set_alloc_funcs(allocate, free);
        int rc = rg_unjudged(facts, &findings, &unjudged);
        json_set_alloc_funcs(malloc, free);
        assert_true((rc == 0) == (unjudged != NULL));
        size_t checks = json_array_size(json_object_get(unjudged, "checks"));
        json_decref(unjudged);
        if (rc == 0) {
            assert_int_equal(checks, 2);
            break;
        }
        refused++;
    }
    assert_true(refused > 3);
    for (size_t count = 0; count < 100000; count++) {
        allocations_left = count;
        json_set_alloc_funcs(allocate, free);
        json_t *report = rg_report_build(facts, &findings);
        json_set_alloc_funcs(malloc, free);
        if (report) {
            assert_true(rg_report_verdict(report) >= RG_VERDICT_WARN);
            built++;
        }
        bool whole = report && allocations_left > 0;
        json_decref(report);
        if (whole) {
            break;
        }
    }
    assert_true(built > 3);
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < rg_check_count(); i++) {
        const struct rg_check *check = rg_check_at(i);
        assert_ptr_equal(rg_check_find(check->id), check);
        assert_true(strlen(check->why) > 40);
        assert_true(strlen(check->id) <= 13);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_every_check_has_one),
        cmocka_unit_test(test_unjudged_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
