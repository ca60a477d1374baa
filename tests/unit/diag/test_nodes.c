/*
 * Interned names: numbers, ceilings, and which spellings of a host are one node.
 */
#include "test.h"

#include "diag/nodes.h"

#include <stdio.h>

static struct rg_interned *make(uint32_t count_max)
{
    struct rg_interned *names = NULL;
    assert_int_equal(rg_interned_new(count_max, &names, NULL), 0);
    return names;
}

static rg_node_id node(struct rg_interned *names, const char *text)
{
    return rg_nodes_add(names, rg_span_text(text));
}

static void same_name_same_number(void **state)
{
    struct rg_interned *names = make(1000);
    char text[32];
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 1; i <= 1000; i++) {
            snprintf(text, sizeof(text), "node%u", i);
            assert_int_equal(rg_interned_add(names, rg_span_text(text)), i);
        }
    }
    assert_true(rg_span_is(rg_interned_text(names, 77), "node77"));
    assert_int_equal(rg_interned_count(names), 1000);
    assert_int_equal(rg_interned_find(names, rg_span_text("node1001")), 0);
    rg_interned_free(names);
}

static void the_ceiling_refuses_and_counts(void **state)
{
    struct rg_interned *names = make(2);
    assert_int_equal(rg_interned_add(names, rg_span_text("a")), 1);
    assert_int_equal(rg_interned_add(names, rg_span_text("b")), 2);
    assert_int_equal(rg_interned_add(names, rg_span_text("c")), 0);
    assert_int_equal(rg_interned_add(names, rg_span_text("a")), 1);
    assert_int_equal(rg_interned_refused(names), 1);
    assert_int_equal(rg_interned_text(names, 3).len, 0);
    rg_interned_free(names);
}

static void nothing_is_number_zero(void **state)
{
    struct rg_interned *names = make(2);
    assert_int_equal(rg_interned_add(names, RG_SPAN_EMPTY), 0);
    assert_int_equal(rg_interned_text(names, 0).len, 0);
    assert_int_equal(rg_interned_refused(names), 0);
    rg_interned_free(names);
}

static void long_names_are_cut(void **state)
{
    static char text[4 * RG_NAME_BYTES_MAX];
    memset(text, 'x', sizeof(text) - 1);
    struct rg_interned *names = make(8);
    uint32_t number = rg_interned_add(names, rg_span_text(text));
    assert_int_equal(rg_interned_text(names, number).len, RG_NAME_BYTES_MAX);
    assert_int_equal(rg_interned_add(names, rg_span(text, RG_NAME_BYTES_MAX + 5)), number);
    rg_interned_free(names);
}

static void short_and_long_host_names_are_one_node(void **state)
{
    struct rg_interned *names = make(100);
    rg_node_id oss1 = node(names, "oss1");
    assert_int_equal(node(names, "oss1.example.org"), oss1);
    assert_int_equal(node(names, "oss1"), oss1);
    assert_true(rg_span_is(rg_interned_text(names, oss1), "oss1"));

    rg_node_id oss2 = node(names, "oss2.example.org");
    assert_int_not_equal(oss2, oss1);
    assert_int_equal(node(names, "oss2"), oss2);
    assert_int_equal(node(names, "oss2.example.org"), oss2);
    rg_interned_free(names);
}

static void two_domains_are_two_nodes(void **state)
{
    struct rg_interned *names = make(100);
    rg_node_id first = node(names, "n1.client");
    rg_node_id second = node(names, "n1.server");
    assert_int_not_equal(first, second);
    assert_int_equal(node(names, "n1"), first);
    assert_int_equal(node(names, "n1.server"), second);
    rg_interned_free(names);
}

static void addresses_are_whole(void **state)
{
    struct rg_interned *names = make(100);
    assert_int_not_equal(node(names, "192.0.2.1"), node(names, "192.0.2.2"));
    assert_int_not_equal(node(names, "2001:db8::1.2"), node(names, "2001:db8::1.3"));
    assert_int_equal(rg_interned_find(names, rg_span_text("192")), 0);
    rg_interned_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_name_same_number),
        cmocka_unit_test(the_ceiling_refuses_and_counts),
        cmocka_unit_test(nothing_is_number_zero),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(short_and_long_host_names_are_one_node),
        cmocka_unit_test(two_domains_are_two_nodes),
        cmocka_unit_test(addresses_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
