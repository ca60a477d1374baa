/* Which rail gets a transfer. */
#include "test.h"

#include "rdma/choice.h"
#include "rdma/nic.h"

#include "base/checked.h"

#include <arpa/inet.h>
#include <stdio.h>

static void read_address(const char *text, uint8_t ret_gid[16])
{
    memset(ret_gid, 0, 16);
    if (inet_pton(AF_INET6, text, ret_gid) != 1) {
        ret_gid[10] = ret_gid[11] = 0xff;
        assert_int_equal(inet_pton(AF_INET, text, ret_gid + 12), 1);
    }
}

static struct rg_rail_facts rail(bool is_up, const char *address, unsigned subnet_bits)
{
    struct rg_rail_facts facts = {.is_up = is_up, .has_gid = true, .subnet_bits = subnet_bits};
    read_address(address, facts.gid);
    snprintf(facts.address, sizeof facts.address, "%s", address);
    return facts;
}

/* The choice for every turn; -1 when they differ. */
static int choose(const struct rg_rail_facts *rails, size_t count, const char *peer,
                  const char *arrival)
{
    uint8_t gid[16];
    int chosen = -2;
    if (peer) {
        read_address(peer, gid);
    }
    for (size_t turn = 0; turn < 5; turn++) {
        int now = (int)rg_rail_choose(rails, count, peer ? gid : NULL, arrival, turn);
        chosen = chosen == -2 || chosen == now ? now : -1;
    }
    return chosen;
}

static void knows_subnets(void **state)
{
    uint8_t left[16], right[16];
    read_address("10.9.0.1", left);
    read_address("10.9.0.254", right);
    assert_true(rg_gids_share_subnet(left, right, 96 + 24));
    assert_false(rg_gids_share_subnet(left, right, 96 + 25));
    assert_false(rg_gids_share_subnet(left, right, 0));
    assert_true(rg_gids_share_subnet(left, left, 128));
    read_address("10.9.1.1", right);
    assert_false(rg_gids_share_subnet(left, right, 96 + 24));
    assert_true(rg_gids_share_subnet(left, right, 96 + 16));
    read_address("2001:db8::1", left);
    read_address("2001:db8:0:1::1", right);
    assert_false(rg_gids_share_subnet(left, right, 64));
    assert_true(rg_gids_share_subnet(left, right, 48));
}

static void takes_the_rail_of_the_clients_subnet(void **state)
{
    const struct rg_rail_facts rails[] = {
        rail(true, "10.1.0.1", 96 + 24),
        rail(true, "10.2.0.1", 96 + 24),
        rail(true, "2001:db8::1", 64),
    };
    assert_int_equal(choose(rails, 3, "10.2.0.77", NULL), 1);
    assert_int_equal(choose(rails, 3, "2001:db8::77", ""), 2);
    /* However the request came in: there the client's other port may be out of reach. */
    assert_int_equal(choose(rails, 3, "10.2.0.77", "10.1.0.1"), 1);
    /* Of no rail's subnet: the address decides, and without one they take turns. */
    assert_int_equal(choose(rails, 3, "10.7.0.1", "10.1.0.1"), 0);
    assert_int_equal(choose(rails, 3, "10.7.0.1", "192.0.2.1"), -1);
    assert_int_equal(choose(rails, 3, NULL, "10.2.0.1"), 1);
    assert_int_equal(choose(rails, 3, NULL, NULL), -1);
}

static void takes_the_rail_that_was_asked_by(void **state)
{
    const struct rg_rail_facts rails[] = {
        rail(true, "10.1.0.1", 96 + 16),
        rail(true, "10.1.0.2", 96 + 16),
        rail(true, "10.1.0.3", 96 + 16),
    };
    assert_int_equal(choose(rails, 3, "10.1.9.9", "10.1.0.2"), 1);
    assert_int_equal(choose(rails, 3, "10.1.9.9", "10.1.0.3"), 2);
    assert_int_equal(choose(rails, 3, "10.1.9.9", "127.0.0.1"), -1);
}

static void takes_turns_among_equals(void **state)
{
    const struct rg_rail_facts rails[] = {
        rail(true, "10.1.0.1", 96 + 16),
        rail(false, "10.1.0.2", 96 + 16),
        rail(true, "10.1.0.3", 96 + 16),
    };
    uint8_t gid[16];
    size_t times[4] = {0};
    read_address("10.1.0.9", gid);
    for (size_t turn = 0; turn < 300; turn++) {
        times[rg_rail_choose(rails, 3, gid, NULL, turn)]++;
    }
    assert_int_equal(times[1], 0);
    assert_in_range(times[0], 100, 200);
    assert_in_range(times[2], 100, 200);
}

static void prefers_rails_that_are_up(void **state)
{
    struct rg_rail_facts rails[] = {
        rail(false, "10.1.0.1", 96 + 24),
        rail(true, "10.2.0.1", 96 + 24),
    };
    assert_int_equal(choose(rails, 2, "10.1.0.9", "10.1.0.1"), 1);
    /* One that is out only when all are: then the answer says so. */
    rails[1].is_up = false;
    assert_int_equal(choose(rails, 2, "10.1.0.9", "10.1.0.1"), 0);
    assert_int_equal(rg_rail_choose(rails, 0, NULL, NULL, 3), 0);
}

/* An interface that does not tell its mask. */
static void guesses_where_the_subnet_is_unknown(void **state)
{
    const struct rg_rail_facts rails[] = {
        rail(true, "10.1.0.1", 0),
        rail(true, "10.2.0.1", 0),
    };
    assert_int_equal(choose(rails, 2, "10.2.0.9", NULL), 1);
    assert_int_equal(choose(rails, 2, "10.1.0.9", NULL), 0);
    struct rg_rail_facts nameless[] = {rails[0], rails[1]};
    nameless[0].has_gid = nameless[1].has_gid = false; /* ofi */
    assert_int_equal(choose(nameless, 2, "10.2.0.9", NULL), -1);
    assert_int_equal(choose(nameless, 2, "10.2.0.9", "10.1.0.1"), 0);
}

/* The loopback interface has them everywhere, if it is up. */
static void reads_the_subnets_of_this_host(void **state)
{
    unsigned bits = rg_nic_kernel.subnet_bits("127.0.0.1");
    assert_int_equal(rg_nic_kernel.subnet_bits("192.0.2.250"), 0);
    assert_int_equal(rg_nic_kernel.subnet_bits("nonsense"), 0);
    if (bits == 0) {
        skip();
    }
    assert_int_equal(bits, 8);
    bits = rg_nic_kernel.subnet_bits("::1");
    assert_true(bits == 0 || bits == 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_subnets),
        cmocka_unit_test(takes_the_rail_of_the_clients_subnet),
        cmocka_unit_test(takes_the_rail_that_was_asked_by),
        cmocka_unit_test(takes_turns_among_equals),
        cmocka_unit_test(prefers_rails_that_are_up),
        cmocka_unit_test(guesses_where_the_subnet_is_unknown),
        cmocka_unit_test(reads_the_subnets_of_this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
