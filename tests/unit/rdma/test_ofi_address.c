/* Addresses of libfabric providers over IP, and what follows from them for the choice of a rail. */
#include "test.h"

#include "base/checked.h"
#include "rdma/choice.h"
#include "rdma/ofi_address.h"

#include <arpa/inet.h>
#include <stdio.h>

/* The vector of the reference: 192.0.2.17 */
#define OFI "7f3a5c400000:400000:ofi1:tcp;ofi_rxm:02004e20c00002110000000000000000:1f"
#define OFI6                                                                                       \
    "7f3a5c400000:400000:ofi1:tcp;ofi_rxm:"                                                        \
    "0a004e200000000020010db800000000000000000000000100000000:1f"
#define DC "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"

static struct rg_rdma_window parse(const char *text)
{
    struct rg_rdma_window window;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_token_parse(rg_span_text(text), &window, &err) < 0) {
        fail_msg("%s: %s", text, err.message);
    }
    return window;
}

static void expect_peer(const struct rg_rdma_window *window, const char *expected)
{
    uint8_t gid[16];
    char text[INET6_ADDRSTRLEN] = "";
    assert_true(rg_window_peer(window, gid));
    assert_non_null(inet_ntop(AF_INET6, gid, text, sizeof text));
    assert_string_equal(text, expected);
}

static void reads_peers(void **state)
{
    struct rg_rdma_window window = parse(OFI);
    expect_peer(&window, "::ffff:192.0.2.17");
    window = parse(OFI6);
    expect_peer(&window, "2001:db8::1");
    window = parse(DC);
    expect_peer(&window, "::ffff:192.0.2.17");
}

static void knows_when_there_is_none(void **state)
{
    uint8_t gid[16] = {7};
    struct rg_rdma_window window = parse(OFI);
    window.endpoint_len = sizeof(struct sockaddr_in) - 1;
    assert_false(rg_window_peer(&window, gid));
    window.endpoint_len = 1;
    assert_false(rg_window_peer(&window, gid));
    window.endpoint_len = 0;
    assert_false(rg_window_peer(&window, gid));
    window = parse(OFI);
    window.endpoint[0] = 0x77; /* no family of ours */
    assert_false(rg_window_peer(&window, gid));
    window = parse(OFI6);
    window.endpoint_len = sizeof(struct sockaddr_in6) - 1;
    assert_false(rg_window_peer(&window, gid));
    window = parse(OFI);
    snprintf(window.provider, sizeof window.provider, "efa");
    assert_false(rg_window_peer(&window, gid));
    window = parse(OFI);
    window.transport = RG_TRANSPORT_RC;
    assert_false(rg_window_peer(&window, gid));
    assert_int_equal(gid[0], 7);
}

static void tells_providers_apart(void **state)
{
    static const char *const over_ip[] = {"", "tcp", "tcp;ofi_rxm", "udp;ofi_rxd", "verbs;ofi_rxm"};
    static const char *const others[] = {"shm", "efa", "cxi", "psm2", "tcpx", "TCP"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(over_ip); i++) {
        assert_true(rg_ofi_is_over_ip(over_ip[i]));
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(others); i++) {
        assert_false(rg_ofi_is_over_ip(others[i]));
    }
}

static struct rg_rail_facts rail_at(const char *address)
{
    struct rg_rail_facts facts = {.is_up = true, .has_gid = true};
    assert_true(rg_ofi_address_gid(address, facts.gid, &facts.subnet_bits));
    snprintf(facts.address, sizeof facts.address, "%s", address);
    return facts;
}

static void finds_subnets(void **state)
{
    uint8_t gid[16];
    unsigned bits = 1;
    assert_int_equal(rail_at("127.0.0.1").subnet_bits, 96 + 8);
    assert_int_equal(rail_at("127.9.9.9").subnet_bits, 96 + 8);
    assert_int_equal(rail_at("192.0.2.1").subnet_bits, 0); /* no interface of this machine */
    assert_int_equal(rail_at("2001:db8::1").subnet_bits, 0);
    assert_false(rg_ofi_address_gid("127.0.0.256", gid, &bits));
    assert_false(rg_ofi_address_gid("", gid, &bits));
    assert_false(rg_ofi_address_gid("localhost", gid, &bits));
    assert_int_equal(bits, 1);
}

static size_t choose(const char *peer_text, const char *arrival, size_t turn)
{
    struct rg_rail_facts rails[] = {rail_at("192.0.2.1"), rail_at("198.51.100.1"),
                                    rail_at("198.51.100.2")};
    uint8_t peer[16];
    unsigned unused;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rails); i++) {
        rails[i].subnet_bits = 96 + 24;
    }
    assert_true(rg_ofi_address_gid(peer_text, peer, &unused));
    return rg_rail_choose(rails, RG_ARRAY_LENGTH(rails), peer, arrival, turn);
}

static void chooses_by_them(void **state)
{
    for (size_t turn = 0; turn < 3; turn++) {
        assert_int_equal(choose("192.0.2.17", "198.51.100.1", turn), 0);
        assert_int_equal(choose("198.51.100.17", "198.51.100.2", turn), 2);
        assert_int_equal(choose("198.51.100.17", "198.51.100.1", turn), 1);
        assert_int_equal(choose("203.0.113.5", "192.0.2.1", turn), 0);
    }
    assert_int_equal(choose("198.51.100.17", NULL, 1), 1);
    assert_int_equal(choose("198.51.100.17", NULL, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_peers),           cmocka_unit_test(knows_when_there_is_none),
        cmocka_unit_test(tells_providers_apart), cmocka_unit_test(finds_subnets),
        cmocka_unit_test(chooses_by_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
