/*
 * The rc transport between two processes over soft-RoCE. To be run in the guest (tests/rxe/run).
 */
#include "peer.h"

#include "base/clock.h"

#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define MEMORY_BYTES (72 * MIB)
#define WAIT_MS      60000
#define BOTH_WAYS    (RG_ACCESS_REMOTE_WRITE | RG_ACCESS_REMOTE_READ)

static const struct rg_transport *rc;
static struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
static struct peer peer;
static struct rg_rail *rail;
static struct rg_region *region;
static char *memory;
static struct rg_error error;

#define must(call)                                                                                 \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, error.message);                                              \
        }                                                                                          \
    } while (0)

#define must_peer(call)                                                                            \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, peer.error.message);                                         \
        }                                                                                          \
    } while (0)

/* ---- Both ends, and a pair of lanes ---- */

static int start_both(void **state)
{
    (void)state;
    config.ack_timeout = 14;
    peer_start(&peer, &config, MEMORY_BYTES, BOTH_WAYS | RG_ACCESS_LOCAL);
    must(rg_rail_open(rc, &config, &rail, &error));
    memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    must(rg_region_register(rail, memory, MEMORY_BYTES, RG_ACCESS_LOCAL, &region, &error));
    return 0;
}

static int stop_both(void **state)
{
    (void)state;
    rg_region_deregister(region);
    rg_rail_close(rail);
    munmap(memory, MEMORY_BYTES);
    peer_stop(&peer);
    return 0;
}

static void pair(struct rg_lane *lane, unsigned peer_lane)
{
    struct rg_lane_address own;
    struct rg_lane_address other;
    must(rg_lane_address(lane, &own, &error));
    must_peer(peer_lane_address(&peer, peer_lane, &own, &other));
    must_peer(peer_lane_pair(&peer, peer_lane, &own));
    must(rg_lane_pair(lane, &other, &error));
}

static struct rg_lane *open_pair(unsigned peer_lane)
{
    struct rg_lane *lane;
    must(rg_lane_open(rail, &lane, &error));
    must_peer(peer_lane_open(&peer, peer_lane));
    pair(lane, peer_lane);
    return lane;
}

static void close_pair(struct rg_lane *lane, unsigned peer_lane)
{
    rg_lane_close(lane);
    must_peer(peer_lane_close(&peer, peer_lane));
}

static struct rg_completion await(struct rg_lane *lane)
{
    struct rg_completion completion;
    size_t count = 0;
    must(rg_lane_wait(lane, &completion, 1, -1, WAIT_MS, &count, &error));
    assert_int_equal(count, 1);
    return completion;
}

static void expect_success(struct rg_lane *lane, uint64_t cookie)
{
    struct rg_completion completion = await(lane);
    if (completion.broke) {
        fail_msg("%s: %s", rg_cause_name(completion.cause), completion.provider_text);
    }
    assert_int_equal(completion.cookie, cookie);
}

static void expect_failure(struct rg_lane *lane, enum rg_broke broke, enum rg_cause cause)
{
    struct rg_completion completion = await(lane);
    if (completion.cause != cause || completion.broke != broke) {
        fail_msg("%s broke by %s (%s), not %s by %s", rg_broke_name(completion.broke),
                 rg_cause_name(completion.cause), completion.provider_text, rg_broke_name(broke),
                 rg_cause_name(cause));
    }
    assert_int_equal(lane->broke, broke);
}

/* ---- Rails ---- */

static void refuse_rail(const struct rg_rail_config *wrong, enum rg_code code, const char *word)
{
    struct rg_rail *other;
    assert_int_equal(rg_rail_open(rc, wrong, &other, &error), -(int)code);
    if (!strstr(error.message, word)) {
        fail_msg("\"%s\" does not say %s", error.message, word);
    }
}

static void test_rail(void **state)
{
    (void)state;
    assert_string_equal(rail->device, "rxe0");
    assert_string_equal(rail->path, "rc");
    assert_string_equal(rail->address, "10.9.0.1");
    assert_int_equal(rail->gid_index, 1);
    assert_int_equal(rail->traffic_class, 0);
    assert_int_equal(rail->mtu, 4096);
    assert_false(rail->is_hardware);
    assert_true(rail->pins_memory);
    assert_false(rail->target_needs_progress);
    assert_true(rail->message_bytes_max >= MIB);
    assert_true(rail->operation_bytes_max >= (uint64_t)INT32_MAX);
    must(rg_rail_check(rail, &error));
    print_message("rxe0: MTU %u, message %llu, operation %llu\n", rail->mtu,
                  (unsigned long long)rail->message_bytes_max,
                  (unsigned long long)rail->operation_bytes_max);
}

static void test_rail_choice(void **state)
{
    (void)state;
    struct rg_rail_config other = config;
    struct rg_rail *chosen;
    snprintf(other.address, sizeof other.address, "10.9.0.2");
    must(rg_rail_open(rc, &other, &chosen, &error));
    assert_int_equal(chosen->gid_index, 2);
    rg_rail_close(chosen);
    other = config;
    other.gid_index = 0;
    other.mtu = 1024;
    other.traffic_class = 106;
    must(rg_rail_open(rc, &other, &chosen, &error));
    assert_memory_equal(chosen->address, "fe80::", 6);
    assert_int_equal(chosen->mtu, 1024);
    assert_int_equal(chosen->traffic_class, 106);
    rg_rail_close(chosen);

    other = config;
    snprintf(other.device, sizeof other.device, "mlx5_0");
    refuse_rail(&other, RG_SETTING, "mlx5_0");
    other = config;
    snprintf(other.address, sizeof other.address, "10.9.0.3");
    refuse_rail(&other, RG_SETTING, "10.9.0.3");
    other = config;
    other.gid_index = 9;
    refuse_rail(&other, RG_SETTING, "9");
    other = config;
    other.port = 2;
    refuse_rail(&other, RG_SETTING, "port 2");
    other = config;
    other.mtu = 1500;
    refuse_rail(&other, RG_SETTING, "MTU");
}

/* ---- Moving bytes ---- */

static void move(struct rg_lane *lane, uint64_t length, uint64_t offset)
{
    struct rg_rdma_window window;
    uint64_t seed = length + 1;
    fill(memory + offset, length, seed);
    uint64_t sent = digest(memory + offset, length);
    must_peer(peer_mint(&peer, 0, 0, offset, length, RG_DIRECTION_GET, &window));
    assert_int_equal(window.length, length);
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write(lane, region, offset, 0, length, seed, &error));
    expect_success(lane, seed);
    assert_int_equal(peer_digest(&peer, offset, length), sent);
    must_peer(peer_revoke(&peer, 0, true));

    peer_fill(&peer, offset, length, seed + 1);
    must_peer(peer_mint(&peer, 0, 0, offset, length, RG_DIRECTION_PUT, &window));
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_read(lane, region, offset, 0, length, seed, &error));
    expect_success(lane, seed);
    assert_int_equal(digest(memory + offset, length), peer_digest(&peer, offset, length));
    assert_int_not_equal(digest(memory + offset, length), sent);
    must_peer(peer_revoke(&peer, 0, true));
}

static void test_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        1,       2,    7,       255,         256,     257,         1023,         1024,
        1025,    4095, 4096,    4097,        8191,    8193,        64 * KIB,     64 * KIB + 1,
        MIB - 1, MIB,  MIB + 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 17 * MIB + 5, 64 * MIB,
    };
    struct rg_lane *lane = open_pair(0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t start = rg_clock_ms();
        move(lane, sizes[i], i % 3 * 5);
        if (sizes[i] == 64 * MIB) {
            print_message("64 MiB there and back: %llu ms\n",
                          (unsigned long long)(rg_clock_ms() - start));
        }
    }
    close_pair(lane, 0);
}

/* A full lane says so, and completions come in order. */
static void test_many_at_a_time(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    struct rg_rdma_window window;
    const uint64_t piece = 100 * KIB + 1;
    fill(memory, 64 * piece, 42);
    must_peer(peer_mint(&peer, 0, 0, 0, 64 * piece, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    uint64_t posted = 0;
    uint64_t done = 0;
    while (done < 64) {
        int status = 0;
        while (posted < 64 && status == 0) {
            status =
                rg_lane_write(lane, region, posted * piece, posted * piece, piece, posted, &error);
            posted += status == 0;
        }
        assert_true(status == 0 || status == -RG_LIMIT);
        assert_true(lane->outstanding <= lane->depth);
        expect_success(lane, done++);
    }
    assert_int_equal(lane->outstanding, 0);
    assert_int_equal(peer_digest(&peer, 0, 64 * piece), digest(memory, 64 * piece));
    must_peer(peer_revoke(&peer, 0, true));
    close_pair(lane, 0);
}

static void test_immediate(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    struct rg_rdma_window window;
    struct rg_completion arrived;
    fill(memory, 5000, 7);
    must_peer(peer_mint(&peer, 0, 0, 0, 5000, RG_DIRECTION_GET, &window));
    must_peer(peer_lane_receive(&peer, 0, 77));
    must_peer(peer_lane_receive(&peer, 0, 78));
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write_immediate(lane, region, 0, 0, 5000, 0x5eed1234, 1, &error));
    expect_success(lane, 1);
    must_peer(peer_lane_wait(&peer, 0, WAIT_MS, &arrived));
    assert_int_equal(arrived.cookie, 77);
    assert_int_equal(arrived.operation, RG_OPERATION_RECEIVE);
    assert_true(arrived.has_immediate);
    assert_int_equal(arrived.immediate, 0x5eed1234);
    assert_int_equal(arrived.length, 5000);
    assert_int_equal(peer_digest(&peer, 0, 5000), digest(memory, 5000));
    /* Without bytes too. */
    must(rg_lane_write_immediate(lane, region, 0, 0, 0, 1, 2, &error));
    expect_success(lane, 2);
    must_peer(peer_lane_wait(&peer, 0, WAIT_MS, &arrived));
    assert_int_equal(arrived.cookie, 78);
    assert_int_equal(arrived.immediate, 1);
    must_peer(peer_revoke(&peer, 0, true));
    close_pair(lane, 0);
}

/* The peer was posted no receive: the NIC tries again until it is there. */
static void test_immediate_waits_for_receive(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    struct rg_rdma_window window;
    struct rg_completion completion;
    size_t count;
    must_peer(peer_mint(&peer, 0, 0, 0, 100, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write_immediate(lane, region, 0, 0, 100, 9, 1, &error));
    assert_int_equal(rg_lane_wait(lane, &completion, 1, -1, 200, &count, &error), -RG_TIMED_OUT);
    must_peer(peer_lane_receive(&peer, 0, 5));
    expect_success(lane, 1);
    must_peer(peer_lane_wait(&peer, 0, WAIT_MS, &completion));
    assert_int_equal(completion.immediate, 9);
    must_peer(peer_revoke(&peer, 0, true));
    close_pair(lane, 0);
}

/* ---- What must not be possible ---- */

enum misuse { WRONG_KEY, PAST_THE_END, BEFORE_THE_START, WRONG_WAY, REVOKED };

static void misuse(enum misuse how, enum rg_direction direction)
{
    struct rg_lane *lane = open_pair(0);
    struct rg_rdma_window window;
    peer_fill(&peer, 0, 3 * 4096, 1);
    uint64_t before = peer_digest(&peer, 0, 3 * 4096);
    must_peer(peer_mint(&peer, 0, 0, 4096, 4096, direction, &window));
    bool is_write = direction == RG_DIRECTION_GET;
    switch (how) {
    case WRONG_KEY:
        window.rkey ^= 0x101;
        break;
    case PAST_THE_END:
        window.length++;
        break;
    case BEFORE_THE_START:
        window.address--;
        break;
    case WRONG_WAY:
        is_write = !is_write;
        break;
    case REVOKED:
        must_peer(peer_revoke(&peer, 0, true));
        break;
    }
    fill(memory, 8192, 99);
    must(rg_lane_bind(lane, &window, &error));
    must(is_write ? rg_lane_write(lane, region, 0, 0, window.length, 1, &error)
                  : rg_lane_read(lane, region, 0, 0, window.length, 1, &error));
    expect_failure(lane, RG_BROKE_CONNECTION, RG_CAUSE_REMOTE_ACCESS);
    assert_int_equal(peer_digest(&peer, 0, 3 * 4096), before);
    if (how != REVOKED) {
        must_peer(peer_revoke(&peer, 0, false));
    }
    /* Both ends are as good as new afterwards. */
    must(rg_lane_reset(lane, &error));
    must_peer(peer_lane_reset(&peer, 0));
    pair(lane, 0);
    move(lane, 70000, 0);
    close_pair(lane, 0);
}

static void test_misuse(void **state)
{
    (void)state;
    for (enum misuse how = WRONG_KEY; how <= REVOKED; how++) {
        misuse(how, RG_DIRECTION_GET);
        misuse(how, RG_DIRECTION_PUT);
    }
}

/* Memory windows, which are for hardware only: bound, used, withdrawn, bound again. */
static void test_windows(void **state)
{
    (void)state;
    struct peer usual = peer;
    struct rg_rdma_window window;
    struct rg_rdma_window second;
    peer = (struct peer){.pose_as_hardware = true};
    peer_start(&peer, &config, MEMORY_BYTES, BOTH_WAYS);
    struct rg_lane *lane = open_pair(0);
    for (int i = 0; i < 5; i++) {
        move(lane, 30000, 100);
    }
    /* Two at a time, and a receive that arrives meanwhile. */
    struct rg_completion arrived;
    must_peer(peer_lane_receive(&peer, 0, 3));
    must_peer(peer_mint(&peer, 0, 0, 0, 4096, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write_immediate(lane, region, 0, 0, 4096, 33, 1, &error));
    expect_success(lane, 1);
    must_peer(peer_mint(&peer, 1, 0, 8192, 4096, RG_DIRECTION_PUT, &second));
    assert_int_not_equal(window.rkey, second.rkey);
    must_peer(peer_revoke(&peer, 0, true));
    must(rg_lane_bind(lane, &second, &error));
    must(rg_lane_read(lane, region, 8192, 0, 4096, 2, &error));
    expect_success(lane, 2);
    must_peer(peer_lane_wait(&peer, 0, WAIT_MS, &arrived));
    assert_int_equal(arrived.immediate, 33);
    /* The first one's key is dead, the connection with it. */
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write(lane, region, 0, 0, 1, 3, &error));
    expect_failure(lane, RG_BROKE_CONNECTION, RG_CAUSE_REMOTE_ACCESS);
    must_peer(peer_revoke(&peer, 1, true));
    assert_int_equal(peer_lane_broke(&peer, 0), RG_BROKE_CONNECTION);
    must(rg_lane_reset(lane, &error));
    must_peer(peer_lane_reset(&peer, 0));
    pair(lane, 0);
    move(lane, 30000, 0);
    close_pair(lane, 0);
    peer_stop(&peer);
    peer = usual;
}

/* This side refuses before anything is posted. */
static void test_refusals(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    struct rg_rdma_window window;
    struct rg_lane_address own;
    must_peer(peer_mint(&peer, 0, 0, 0, 4096, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    assert_int_equal(rg_lane_write(lane, region, 0, 0, 4097, 1, &error), -RG_INVALID_ARGUMENT);
    assert_int_equal(rg_lane_write(lane, region, 0, 1, 4096, 1, &error), -RG_INVALID_ARGUMENT);
    assert_int_equal(rg_lane_write(lane, region, MEMORY_BYTES - 1, 0, 2, 1, &error),
                     -RG_INVALID_ARGUMENT);
    window.rkey = (uint64_t)1 << 32;
    assert_int_equal(rg_lane_bind(lane, &window, &error), -RG_INVALID_RDMA_TOKEN);
    window.rkey = 1;
    window.qpn ^= 1;
    assert_int_equal(rg_lane_bind(lane, &window, &error), -RG_INVALID_RDMA_TOKEN);
    must(rg_lane_address(lane, &own, &error));
    assert_int_equal(rg_lane_pair(lane, &own, &error), -RG_INVALID_ARGUMENT);
    assert_int_equal(lane->broke, RG_BROKE_NOTHING);
    must_peer(peer_revoke(&peer, 0, true));
    move(lane, 4096, 0);
    close_pair(lane, 0);
}

static void test_bad_peers(void **state)
{
    (void)state;
    struct rg_lane *lane;
    struct rg_lane_address good;
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address(lane, &good, &error));
    struct rg_lane_address bad = good;
    bad.qpn = 1;
    assert_int_equal(rg_lane_pair(lane, &bad, &error), -RG_INVALID_RDMA_TOKEN);
    bad = good;
    bad.qpn = 1 << 24;
    assert_int_equal(rg_lane_pair(lane, &bad, &error), -RG_INVALID_RDMA_TOKEN);
    bad = good;
    bad.has_gid = false;
    assert_int_equal(rg_lane_pair(lane, &bad, &error), -RG_INVALID_RDMA_TOKEN);
    bad = good;
    memset(bad.gid, 0xff, sizeof bad.gid);
    assert_int_equal(rg_lane_pair(lane, &bad, &error), -RG_INVALID_RDMA_TOKEN);
    bad = good;
    bad.mtu = 100;
    assert_int_equal(rg_lane_pair(lane, &bad, &error), -RG_INVALID_RDMA_TOKEN);
    assert_int_equal(lane->broke, RG_BROKE_NOTHING);
    /* It can still be paired, here with itself. */
    must(rg_lane_pair(lane, &good, &error));
    rg_lane_close(lane);
}

/* ---- Ends ---- */

static void test_revoke_unsettled(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    struct rg_rdma_window window;
    must_peer(peer_mint(&peer, 0, 0, 0, 8192, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    must_peer(peer_revoke(&peer, 0, false));
    assert_int_equal(peer_lane_broke(&peer, 0), RG_BROKE_CONNECTION);
    peer_fill(&peer, 0, 8192, 5);
    uint64_t before = peer_digest(&peer, 0, 8192);
    must(rg_lane_write(lane, region, 0, 0, 8192, 1, &error));
    expect_failure(lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE);
    assert_int_equal(peer_digest(&peer, 0, 8192), before);
    must(rg_lane_reset(lane, &error));
    must_peer(peer_lane_reset(&peer, 0));
    pair(lane, 0);
    move(lane, 8192, 0);
    close_pair(lane, 0);
}

/* Operations to a peer that does not answer are ended at once, not when the NIC gives up. */
static void test_flush(void **state)
{
    (void)state;
    struct rg_lane *lane;
    struct rg_lane_address nobody;
    struct rg_rdma_window window = {.dialect = RG_DIALECT_RC_SESSION,
                                    .transport = RG_TRANSPORT_RC,
                                    .address = 4096,
                                    .length = 64 * MIB,
                                    .rkey = 1};
    unsigned quiet = 0;
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address(lane, &nobody, &error));
    nobody.qpn = 0xfffff0;
    must(rg_lane_pair(lane, &nobody, &error));
    must(rg_lane_bind(lane, &window, &error));
    for (int i = 0; i < 8; i++) {
        must(i % 2 ? rg_lane_read(lane, region, 0, 0, 64 * MIB, 1, &error)
                   : rg_lane_write(lane, region, 0, 0, 64 * MIB, 1, &error));
    }
    uint64_t start = rg_clock_ms();
    must(rg_lane_flush(lane, &quiet, &error));
    uint64_t took = rg_clock_ms() - start;
    print_message("flushed 512 MiB on the way to nobody in %llu ms\n", (unsigned long long)took);
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    assert_int_equal(lane->outstanding, 0);
    assert_true(took < 1000);
    must(rg_lane_reset(lane, &error));
    must_peer(peer_lane_open(&peer, 0));
    pair(lane, 0);
    move(lane, MIB, 0);
    close_pair(lane, 0);
}

static void test_reset_often(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    for (int i = 0; i < 20; i++) {
        move(lane, 10000, 0);
        must(rg_lane_reset(lane, &error));
        must_peer(peer_lane_reset(&peer, 0));
        pair(lane, 0);
    }
    move(lane, 10000, 0);
    close_pair(lane, 0);
}

/* With the numbers that the peer was told before. */
static void test_pair_as_before(void **state)
{
    (void)state;
    struct rg_lane *lane;
    struct rg_lane_address own;
    struct rg_lane_address other;
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address(lane, &own, &error));
    must(rg_lane_reset(lane, &error));
    must_peer(peer_lane_open(&peer, 0));
    must_peer(peer_lane_address(&peer, 0, &own, &other));
    must_peer(peer_lane_pair(&peer, 0, &own));
    must(rg_lane_pair_as(lane, &own, &other, &error));
    move(lane, 10000, 0);
    close_pair(lane, 0);
}

static void test_link_local_peer(void **state)
{
    (void)state;
    struct rg_rail_config other = config;
    struct rg_rail *link_local;
    struct rg_lane *lane;
    struct rg_region *staging;
    struct rg_lane_address own;
    struct rg_lane_address answer;
    struct rg_rdma_window window;
    other.gid_index = 0;
    must(rg_rail_open(rc, &other, &link_local, &error));
    must(rg_region_register(link_local, memory, MIB, RG_ACCESS_LOCAL, &staging, &error));
    must(rg_lane_open(link_local, &lane, &error));
    must(rg_lane_address(lane, &own, &error));
    assert_int_equal(own.gid[0], 0xfe);
    must_peer(peer_lane_open(&peer, 0));
    must_peer(peer_lane_address(&peer, 0, &own, &answer));
    assert_int_equal(answer.gid[0], 0xfe);
    must_peer(peer_lane_pair(&peer, 0, &own));
    must(rg_lane_pair(lane, &answer, &error));
    must_peer(peer_mint(&peer, 0, 0, 0, 9000, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write(lane, staging, 0, 0, 9000, 1, &error));
    expect_success(lane, 1);
    assert_int_equal(peer_digest(&peer, 0, 9000), digest(memory, 9000));
    must_peer(peer_revoke(&peer, 0, true));
    rg_lane_close(lane);
    must_peer(peer_lane_close(&peer, 0));
    rg_region_deregister(staging);
    rg_rail_close(link_local);
}

/* ---- Waiting ---- */

struct nudge {
    int fd;
    useconds_t after_us;
};

static void *nudge(void *argument)
{
    const struct nudge *what = argument;
    usleep(what->after_us);
    assert_int_equal(write(what->fd, "x", 1), 1);
    return NULL;
}

static void test_wake(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    struct rg_completion completion;
    size_t count = 1;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    uint64_t start = rg_clock_ms();
    assert_int_equal(rg_lane_wait(lane, &completion, 1, ends[0], 100, &count, &error),
                     -RG_TIMED_OUT);
    assert_true(rg_clock_ms() - start >= 100);
    struct nudge what = {.fd = ends[1], .after_us = 50000};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, nudge, &what), 0);
    must(rg_lane_wait(lane, &completion, 1, ends[0], WAIT_MS, &count, &error));
    assert_int_equal(count, 0);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
    close_pair(lane, 0);
}

/* No completion may be slept through: many round trips, each waited for with sleep only. */
static void test_no_missed_wake_up(void **state)
{
    (void)state;
    struct rg_rail_config sleepy = config;
    struct rg_rail *other;
    struct rg_region *staging;
    struct rg_lane *lane;
    struct rg_rdma_window window;
    sleepy.spin_us = 0;
    must(rg_rail_open(rc, &sleepy, &other, &error));
    must(rg_region_register(other, memory, 4096, RG_ACCESS_LOCAL, &staging, &error));
    must(rg_lane_open(other, &lane, &error));
    must_peer(peer_lane_open(&peer, 0));
    pair(lane, 0);
    must_peer(peer_mint(&peer, 0, 0, 0, 4096, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    for (uint64_t i = 0; i < 2000; i++) {
        must(rg_lane_write(lane, staging, 0, 0, 1 + i % 4096, i, &error));
        if (i % 3 == 0) {
            usleep((useconds_t)(i % 50));
        }
        expect_success(lane, i);
    }
    must_peer(peer_revoke(&peer, 0, true));
    rg_lane_close(lane);
    must_peer(peer_lane_close(&peer, 0));
    rg_region_deregister(staging);
    rg_rail_close(other);
}

/* ---- Two hundred at a time ---- */

#define CROWD       200
#define CROWD_BYTES (64 * KIB + 1)

struct member {
    pthread_t thread;
    struct rg_lane *lane;
    struct rg_rdma_window window;
    uint64_t offset;
    char trouble[RG_ERROR_MESSAGE_MAX];
};

static bool once(struct member *member, bool is_write)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_completion completion;
    size_t count;
    int status = is_write
                     ? rg_lane_write(member->lane, region, member->offset, 0, CROWD_BYTES, 1, &err)
                     : rg_lane_read(member->lane, region, member->offset, 0, CROWD_BYTES, 1, &err);
    if (status == 0) {
        status = rg_lane_wait(member->lane, &completion, 1, -1, WAIT_MS, &count, &err);
    }
    if (status < 0 || completion.broke) {
        snprintf(member->trouble, sizeof member->trouble, "%s",
                 status < 0 ? err.message : completion.provider_text);
        return false;
    }
    return true;
}

static void *run_member(void *argument)
{
    struct member *member = argument;
    if (rg_lane_bind(member->lane, &member->window, NULL) == 0 && once(member, true)) {
        (void)once(member, true);
    }
    return NULL;
}

static void test_two_hundred_lanes(void **state)
{
    (void)state;
    static struct member members[CROWD];
    uint64_t start = rg_clock_ms();
    memset(members, 0, sizeof members);
    for (unsigned i = 0; i < CROWD; i++) {
        members[i].lane = open_pair(i);
        members[i].offset = i * CROWD_BYTES;
        must_peer(peer_mint(&peer, i, i, members[i].offset, CROWD_BYTES, RG_DIRECTION_GET,
                            &members[i].window));
    }
    fill(memory, CROWD * CROWD_BYTES, 200);
    for (unsigned i = 0; i < CROWD; i++) {
        assert_int_equal(pthread_create(&members[i].thread, NULL, run_member, &members[i]), 0);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        pthread_join(members[i].thread, NULL);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        if (members[i].trouble[0]) {
            fail_msg("lane %u: %s", i, members[i].trouble);
        }
        must_peer(peer_revoke(&peer, i, true));
        close_pair(members[i].lane, i);
    }
    assert_int_equal(peer_digest(&peer, 0, CROWD * CROWD_BYTES),
                     digest(memory, CROWD * CROWD_BYTES));
    print_message("200 lanes: %llu ms\n", (unsigned long long)(rg_clock_ms() - start));
}

/* ---- Trouble ---- */

/* A process of its own dies in the middle; the one that the other tests talk to goes on. */
static void test_peer_killed(void **state)
{
    (void)state;
    struct peer victim;
    struct rg_lane *lane;
    struct rg_lane_address own;
    struct rg_lane_address other;
    struct rg_rdma_window window;
    unsigned quiet;
    peer_start(&victim, &config, 64 * MIB, BOTH_WAYS);
    assert_int_equal(peer_lane_open(&victim, 0), 0);
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address(lane, &own, &error));
    assert_int_equal(peer_lane_address(&victim, 0, &own, &other), 0);
    assert_int_equal(peer_lane_pair(&victim, 0, &own), 0);
    must(rg_lane_pair(lane, &other, &error));
    assert_int_equal(peer_mint(&victim, 0, 0, 0, 64 * MIB, RG_DIRECTION_GET, &window), 0);
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write(lane, region, 0, 0, MIB, 1, &error));
    expect_success(lane, 1);
    for (int i = 0; i < 4; i++) {
        must(rg_lane_write(lane, region, 0, 0, 64 * MIB, 2, &error));
    }
    usleep(20000);
    uint64_t start = rg_clock_ms();
    peer_kill(&victim);
    struct rg_completion completion = {.broke = RG_BROKE_NOTHING};
    while (!completion.broke) {
        completion = await(lane);
    }
    assert_int_equal(completion.broke, RG_BROKE_CONNECTION);
    assert_true(completion.cause == RG_CAUSE_PEER_GONE ||
                completion.cause == RG_CAUSE_REMOTE_ACCESS);
    print_message("a dead peer is noticed after %llu ms: %s\n",
                  (unsigned long long)(rg_clock_ms() - start), completion.provider_text);
    must(rg_lane_flush(lane, &quiet, &error));
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    must(rg_rail_check(rail, &error));
    rg_lane_close(lane);
}

static void set_link(const char *word)
{
    char command[64];
    snprintf(command, sizeof command, "ip link set roce0 %s", word);
    assert_int_equal(system(command), 0);
}

static void test_link_down(void **state)
{
    (void)state;
    struct rg_lane *lane = open_pair(0);
    struct rg_rdma_window window;
    struct rg_completion completion;
    size_t count;
    unsigned quiet;
    must_peer(peer_mint(&peer, 0, 0, 0, 64 * MIB, RG_DIRECTION_GET, &window));
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write(lane, region, 0, 0, 64 * MIB, 1, &error));
    set_link("down");
    uint64_t start = rg_clock_ms();
    int status = rg_lane_wait(lane, &completion, 1, -1, WAIT_MS, &count, &error);
    assert_true(status == -RG_RDMA_TRANSFER_FAILED || completion.broke == RG_BROKE_DEVICE);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
    assert_int_equal(lane->cause, RG_CAUSE_PORT_DOWN);
    print_message("a lost link is noticed after %llu ms\n",
                  (unsigned long long)(rg_clock_ms() - start));
    must(rg_lane_flush(lane, &quiet, &error));
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    assert_int_equal(rg_rail_check(rail, &error), -RG_SERVICE_UNAVAILABLE);
    struct rg_rail *other;
    assert_int_equal(rg_rail_open(rc, &config, &other, &error), -RG_SERVICE_UNAVAILABLE);
    set_link("up");
    must(rg_rail_check(rail, &error));
    must(rg_lane_reset(lane, &error));
    (void)peer_revoke(&peer, 0, false);
    must_peer(peer_lane_reset(&peer, 0));
    pair(lane, 0);
    move(lane, MIB, 0);
    close_pair(lane, 0);
}

/* soft-RoCE's trap: whoever changes its credentials cannot post any more. */
static void test_credentials(void **state)
{
    (void)state;
    struct rg_lane *lane;
    struct rg_lane_address own;
    struct rg_rdma_window window = {.dialect = RG_DIALECT_RC_SESSION,
                                    .transport = RG_TRANSPORT_RC,
                                    .address = 4096,
                                    .length = 4096,
                                    .rkey = 1};
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address(lane, &own, &error));
    must(rg_lane_pair(lane, &own, &error));
    must(rg_lane_bind(lane, &window, &error));
    assert_int_equal(seteuid(65534), 0);
    int status = rg_lane_write(lane, region, 0, 0, 4096, 1, &error);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
    assert_non_null(strstr(error.message, "credentials"));
    rg_lane_close(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rail),
        cmocka_unit_test(test_rail_choice),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_many_at_a_time),
        cmocka_unit_test(test_immediate),
        cmocka_unit_test(test_immediate_waits_for_receive),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_peers),
        cmocka_unit_test(test_revoke_unsettled),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_reset_often),
        cmocka_unit_test(test_pair_as_before),
        cmocka_unit_test(test_link_local_peer),
        cmocka_unit_test(test_wake),
        cmocka_unit_test(test_no_missed_wake_up),
        cmocka_unit_test(test_two_hundred_lanes),
        cmocka_unit_test(test_peer_killed),
        cmocka_unit_test(test_link_down),
        cmocka_unit_test(test_credentials),
    };
    rc = rg_transport_find(RG_TRANSPORT_RC);
    if (!rc || !getenv("RG_RXE")) {
        printf("not in the guest, or built without verbs: nothing to test\n");
        return 77;
    }
    if (getenv("RG_RXE_TEST")) {
        cmocka_set_test_filter(getenv("RG_RXE_TEST"));
    }
    return cmocka_run_group_tests(tests, start_both, stop_both);
}
