/* The rules by which a GID is chosen, over tables as ports have them. */
#include "test.h"

#include "rdma/gid.h"

#include "base/checked.h"

#include <arpa/inet.h>
#include <stdio.h>

struct line {
    int index;
    const char *address;
    enum rg_gid_type type;
    const char *netdev;
};

#define ROOM 16

struct table {
    struct rg_gid_entry entries[ROOM];
    struct rg_gid_table table;
};

static void read_address(const char *text, uint8_t ret_gid[16])
{
    memset(ret_gid, 0, 16);
    if (inet_pton(AF_INET6, text, ret_gid) != 1) {
        ret_gid[10] = ret_gid[11] = 0xff;
        assert_int_equal(inet_pton(AF_INET, text, ret_gid + 12), 1);
    }
}

static const struct rg_gid_table *fill(struct table *table, const struct line *lines, size_t count)
{
    memset(table, 0, sizeof *table);
    assert_true(count <= ROOM);
    for (size_t i = 0; i < count; i++) {
        table->entries[i].index = lines[i].index;
        table->entries[i].type = lines[i].type;
        read_address(lines[i].address, table->entries[i].gid);
        snprintf(table->entries[i].netdev, IFNAMSIZ, "%s", lines[i].netdev);
    }
    table->table.entries = table->entries;
    table->table.count = count;
    return &table->table;
}

#define FILL(table, lines) fill(table, lines, RG_ARRAY_LENGTH(lines))

/* As a ConnectX with an IPv4 and an IPv6 address and a VLAN shows it. */
static const struct line mlx5[] = {
    {0, "fe80::1", RG_GID_ROCE_V1, "eth0"},     {1, "fe80::1", RG_GID_ROCE_V2, "eth0"},
    {2, "10.9.0.1", RG_GID_ROCE_V1, "eth0"},    {3, "10.9.0.1", RG_GID_ROCE_V2, "eth0"},
    {4, "2001:db8::1", RG_GID_ROCE_V1, "eth0"}, {5, "2001:db8::1", RG_GID_ROCE_V2, "eth0"},
    {8, "10.10.0.1", RG_GID_ROCE_V1, "vlan7"},  {9, "10.10.0.1", RG_GID_ROCE_V2, "vlan7"},
    {12, "fe80::2", RG_GID_ROCE_V2, "vlan7"},
};

static int chosen(const struct rg_gid_table *table, bool is_ethernet, const char *address)
{
    const struct rg_gid_entry *entry = rg_gid_choose(table, is_ethernet, address);
    return entry ? entry->index : -1;
}

static void knows_scopes(void **state)
{
    static const struct {
        const char *address;
        enum rg_gid_scope scope;
        const char *text;
    } rows[] = {
        {"::", RG_GID_ZERO, "::"},
        {"10.9.0.1", RG_GID_IPV4, "10.9.0.1"},
        {"::ffff:192.0.2.17", RG_GID_IPV4, "192.0.2.17"},
        {"fe80::1", RG_GID_LINK_LOCAL, "fe80::1"},
        {"febf::1", RG_GID_LINK_LOCAL, "febf::1"},
        {"fec0::1", RG_GID_GLOBAL, "fec0::1"},
        {"fd00::1", RG_GID_GLOBAL, "fd00::1"},
        {"2001:db8::1", RG_GID_GLOBAL, "2001:db8::1"},
        {"::1", RG_GID_GLOBAL, "::1"},
        {"ff0e::ffff:224.0.0.1", RG_GID_MULTICAST, "ff0e::ffff:e000:1"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        uint8_t gid[16];
        char text[RG_GID_TEXT_MAX + 1];
        read_address(rows[i].address, gid);
        assert_int_equal(rg_gid_scope(gid), rows[i].scope);
        rg_gid_text(gid, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void compares_addresses(void **state)
{
    uint8_t gid[16];
    read_address("192.0.2.17", gid);
    assert_true(rg_gid_is_address(gid, "192.0.2.17"));
    assert_true(rg_gid_is_address(gid, "::ffff:192.0.2.17"));
    assert_false(rg_gid_is_address(gid, "192.0.2.18"));
    assert_false(rg_gid_is_address(gid, "example.test"));
    assert_false(rg_gid_is_address(gid, ""));
    read_address("2001:db8::1", gid);
    assert_true(rg_gid_is_address(gid, "2001:0db8:0::1"));
    assert_false(rg_gid_is_address(gid, "2001:db8::2"));
}

static void prefers_roce_v2_over_ipv4(void **state)
{
    struct table table;
    assert_int_equal(chosen(FILL(&table, mlx5), true, NULL), 3);
    /* The same without IPv4, without v2, and with nothing but link-local addresses. */
    assert_int_equal(chosen(fill(&table, mlx5 + 4, 2), true, NULL), 5);
    assert_int_equal(chosen(fill(&table, mlx5, 2), true, NULL), 1);
    static const struct line only_v1[] = {
        {0, "fe80::1", RG_GID_ROCE_V1, "eth0"},
        {1, "2001:db8::1", RG_GID_ROCE_V1, "eth0"},
        {2, "10.9.0.1", RG_GID_ROCE_V1, "eth0"},
    };
    assert_int_equal(chosen(FILL(&table, only_v1), true, NULL), 2);
    /* A kernel that does not tell types: v1 that is known goes before. */
    static const struct line unknown[] = {
        {0, "10.9.0.1", RG_GID_UNKNOWN, "eth0"},
        {1, "fe80::1", RG_GID_ROCE_V1, "eth0"},
    };
    assert_int_equal(chosen(FILL(&table, unknown), true, NULL), 1);
    /* v2 with a link-local address goes before v1 with a global one: v1 cannot be routed. */
    static const struct line mixed[] = {
        {0, "10.9.0.1", RG_GID_ROCE_V1, "eth0"},
        {1, "fe80::1", RG_GID_ROCE_V2, "eth0"},
    };
    assert_int_equal(chosen(FILL(&table, mixed), true, NULL), 1);
    assert_int_equal(chosen(fill(&table, mixed, 0), true, NULL), -1);
}

static void finds_an_address(void **state)
{
    struct table table;
    FILL(&table, mlx5);
    assert_int_equal(chosen(&table.table, true, "10.10.0.1"), 9);
    assert_int_equal(chosen(&table.table, true, "2001:db8::1"), 5);
    assert_int_equal(chosen(&table.table, true, "fe80::2"), 12);
    assert_int_equal(chosen(&table.table, true, "10.9.0.2"), -1);
}

static void takes_infinibands_only_gid(void **state)
{
    static const struct line infiniband[] = {
        {0, "fe80::2:c903:a1:b2c3", RG_GID_INFINIBAND, ""},
        {1, "10.9.0.1", RG_GID_INFINIBAND, ""},
    };
    struct table table;
    assert_int_equal(chosen(fill(&table, infiniband, 1), false, NULL), 0);
    assert_int_equal(chosen(FILL(&table, infiniband), false, NULL), 0);
    /* Its GIDs are not its IP addresses. */
    assert_int_equal(chosen(FILL(&table, infiniband), false, "10.9.0.1"), 0);
}

static void finds_by_index_across_holes(void **state)
{
    struct table table;
    FILL(&table, mlx5);
    assert_int_equal(rg_gid_at(&table.table, 9)->index, 9);
    assert_null(rg_gid_at(&table.table, 7));
    assert_null(rg_gid_at(&table.table, -1));
}

static void finds_the_entry_that_was_told(void **state)
{
    struct table table;
    FILL(&table, mlx5);
    uint8_t gid[16];
    read_address("10.9.0.1", gid);
    assert_int_equal(rg_gid_find(&table.table, gid, &table.entries[1])->index, 3);
    assert_int_equal(rg_gid_find(&table.table, gid, &table.entries[0])->index, 2);
    read_address("10.9.0.9", gid);
    assert_null(rg_gid_find(&table.table, gid, &table.entries[1]));
    /* Better another type than none. */
    read_address("fe80::2", gid);
    assert_int_equal(rg_gid_find(&table.table, gid, &table.entries[0])->index, 12);
}

static int toward(const struct table *table, size_t rail, bool is_ethernet, const char *peer)
{
    uint8_t gid[16];
    read_address(peer, gid);
    return rg_gid_toward(&table->table, &table->entries[rail], is_ethernet, gid)->index;
}

static void answers_in_the_peers_scope(void **state)
{
    struct table table;
    FILL(&table, mlx5);
    const size_t rail = 3; /* 10.9.0.1, v2 */
    assert_int_equal(toward(&table, rail, true, "10.9.0.7"), 3);
    assert_int_equal(toward(&table, rail, true, "2001:db8::7"), 5);
    /* Who speaks from a link-local address has hard-coded index 0. */
    assert_int_equal(toward(&table, rail, true, "fe80::7"), 0);
    assert_int_equal(toward(&table, rail, true, "::"), 3);
    /* Of its own interface: the VLAN has no global IPv6 address, so the rail's stays. */
    assert_int_equal(toward(&table, 7, true, "fe80::7"), 12);
    assert_int_equal(toward(&table, 7, true, "2001:db8::7"), 9);
    /* On InfiniBand there is nothing to choose. */
    assert_int_equal(toward(&table, rail, false, "fe80::7"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_scopes),
        cmocka_unit_test(compares_addresses),
        cmocka_unit_test(prefers_roce_v2_over_ipv4),
        cmocka_unit_test(finds_an_address),
        cmocka_unit_test(takes_infinibands_only_gid),
        cmocka_unit_test(finds_by_index_across_holes),
        cmocka_unit_test(finds_the_entry_that_was_told),
        cmocka_unit_test(answers_in_the_peers_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
