/* The dc transport over the fake library: what it asks of an mlx5 device and what it makes of the
 * answers. It is all there is to say about it until somebody runs the self-test on hardware. */
#include "test.h"

#include "fake_verbs.h"
#include "rdma/lane.h"
#include "rdma/port.h"
#include "rdma/selftest.h"
#include "rdma/transport.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#define MEMORY_BYTES 16384
#define WAIT_MS      2000

/* 81 characters each, from our reference of the token. */
#define DC_A "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"
#define DC_B "00007f3a5c400000:ffffffff:0badcafe:0012:0000c4:1:fe800000000000000002c90300a1b2c3"
#define DC_C "0000000000001000:00001000:00000055:0012:0000c4:0:00000000000000000000000000000000"

static struct rg_rail_config config;
static struct rg_rail *rail;
static struct rg_region *region, *client_region;
static struct rg_lane *lane, *client;
static struct rg_target *target;
static struct rg_error error;
static unsigned char memory[MEMORY_BYTES], client_memory[MEMORY_BYTES];

#define must(call)                                                                                 \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, error.message);                                              \
        }                                                                                          \
    } while (0)

static int start(void **state)
{
    fake_reset();
    config = (struct rg_rail_config)RG_RAIL_CONFIG_INIT;
    config.spin_us = 0;
    config.dc_key = 0x1122334455667788;
    rail = NULL;
    region = client_region = NULL;
    lane = client = NULL;
    target = NULL;
    memset(memory, 0, sizeof memory);
    memset(client_memory, 0, sizeof client_memory);
    return 0;
}

static int end(void **state)
{
    fake.stuck = false;
    (void)rg_window_revoke(target, true, NULL);
    rg_lane_close(lane);
    rg_lane_close(client);
    rg_region_deregister(region);
    rg_region_deregister(client_region);
    rg_rail_close(rail);
    fake_expect_empty();
    rg_verbs_replace(NULL, NULL);
    rg_mlx5_replace(NULL);
    return 0;
}

static void open_rail(void)
{
    must(rg_rail_open(&rg_transport_dc, &config, &rail, &error));
    must(rg_region_register(rail, memory, sizeof memory, RG_ACCESS_LOCAL, &region, &error));
    must(rg_region_register(rail, client_memory, sizeof client_memory,
                            RG_ACCESS_REMOTE_WRITE | RG_ACCESS_REMOTE_READ, &client_region,
                            &error));
}

static void mint(uint64_t offset, uint64_t length, enum rg_direction direction)
{
    must(rg_window_mint(client, client_region, offset, length, direction, &target, &error));
}

static void open_lanes(void)
{
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_open(rail, &client, &error));
}

static void open_all(void)
{
    open_lanes();
    mint(0, sizeof client_memory, RG_DIRECTION_GET);
    must(rg_lane_bind(lane, &target->window, &error));
}

/* A rail on an InfiniBand port with LID 0x12. */
static void become_infiniband(void)
{
    fake.device_count = 0;
    struct fake_device *device = fake_add_device("mlx5_ib", IBV_LINK_LAYER_INFINIBAND);
    fake_set_gid(device, 1, 0, "fe80::2:c903:a1:b2c3", RG_GID_INFINIBAND, NULL);
}

static struct rg_completion await(void)
{
    struct rg_completion completion;
    size_t count = 0;
    must(rg_lane_wait(lane, &completion, 1, -1, WAIT_MS, &count, &error));
    assert_int_equal(count, 1);
    return completion;
}

static void write_one(void)
{
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
}

static const struct fake_request *last_request(void)
{
    assert_true(fake.request_count > 0);
    return &fake.requests[fake.request_count - 1];
}

static struct rg_rdma_window parse(const char *text)
{
    struct rg_rdma_window window;
    must(rg_token_parse(rg_span_text(text), &window, &error));
    return window;
}

/* ---- Opening ---- */

static void opens_only_where_there_is_dc(void **state)
{
    fake.devices[0].has_dc = false;
    assert_int_equal(rg_rail_open(&rg_transport_dc, &config, &rail, &error),
                     -RG_RDMA_NOT_SUPPORTED);
    assert_non_null(strstr(error.message, "kind"));
    fake_expect_empty();
    struct fake_device *second = fake_add_device("mlx5_1", IBV_LINK_LAYER_ETHERNET);
    fake_set_gid(second, 1, 0, "203.0.113.1", RG_GID_ROCE_V2, "eth2");
    fake.no_dc = true; /* an old mlx5, or firmware that has it switched off */
    assert_int_equal(rg_rail_open(&rg_transport_dc, &config, &rail, &error),
                     -RG_RDMA_NOT_SUPPORTED);
    assert_non_null(strstr(error.message, "DC initiator"));
    fake_expect_empty();
    fake.no_dc = false;
    fake.fail_state = EINVAL;
    fake.fail_state_is = IBV_QPS_RTS;
    assert_int_equal(rg_rail_open(&rg_transport_dc, &config, &rail, &error),
                     -RG_RDMA_NOT_SUPPORTED);
    fake_expect_empty();
    fake.fail_state = 0;
    must(rg_rail_open(&rg_transport_dc, &config, &rail, &error));
    assert_string_equal(rail->device, "mlx5_1");
    assert_string_equal(rail->path, "dc");
    assert_true(rail->is_hardware);
    assert_int_equal(fake.open_qps, 0); /* the one that was tried is gone */
    assert_ptr_equal(rg_transport_find(RG_TRANSPORT_DC), &rg_transport_dc);
}

static void makes_an_initiator(void **state)
{
    config.ack_timeout = 14;
    config.retry_count = 5;
    config.rnr_retry = 6;
    config.mtu = 2048;
    fake.devices[0].attributes.max_qp_init_rd_atom = 12;
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    const struct fake_qp *qp = fake_qp(0);
    assert_int_equal(qp->made_with.qp_type, IBV_QPT_DRIVER);
    assert_int_equal(qp->made_with.comp_mask,
                     IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
    assert_int_equal(qp->made_with.send_ops_flags,
                     IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ);
    assert_int_equal(qp->made_with.cap.max_send_sge, 1);
    assert_int_equal(qp->made_with.cap.max_recv_wr, 0);
    assert_int_equal(qp->made_with.cap.max_send_wr, lane->depth + 2);
    assert_int_equal(qp->made_direct.comp_mask, MLX5DV_QP_INIT_ATTR_MASK_DC);
    assert_int_equal(qp->made_direct.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCI);

    assert_int_equal(qp->step_count, 3);
    assert_int_equal(qp->steps[0].attributes.qp_state, IBV_QPS_INIT);
    assert_int_equal(qp->steps[0].mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
    assert_int_equal(qp->steps[0].attributes.pkey_index, 0);
    assert_int_equal(qp->steps[0].attributes.port_num, 1);
    assert_int_equal(qp->steps[1].attributes.qp_state, IBV_QPS_RTR);
    assert_int_equal(qp->steps[1].mask, IBV_QP_STATE | IBV_QP_PATH_MTU);
    assert_int_equal(qp->steps[1].attributes.path_mtu, IBV_MTU_2048);
    const struct ibv_qp_attr *got = &qp->steps[2].attributes;
    assert_int_equal(got->qp_state, IBV_QPS_RTS);
    assert_int_equal(qp->steps[2].mask, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                            IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                            IBV_QP_MAX_QP_RD_ATOMIC);
    assert_int_equal(got->timeout, 14);
    assert_int_equal(got->retry_cnt, 5);
    assert_int_equal(got->rnr_retry, 6);
    assert_int_equal(got->max_rd_atomic, 12);
    assert_in_range(got->sq_psn, 0, 0xffffff);
}

static void asks_for_fewer_reads_where_it_must(void **state)
{
    fake.dc_reads_max = 5;
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    assert_int_equal(fake_qp(0)->steps[2].attributes.max_rd_atomic, 4);
}

static void makes_a_target(void **state)
{
    config.service_level = 3;
    config.traffic_class = 96;
    open_lanes();
    assert_int_equal(fake.srqs, 0); /* a gateway's lane needs none */
    mint(0, 4096, RG_DIRECTION_GET);
    const struct fake_qp *qp = fake_qp(2);
    assert_int_equal(qp->made_direct.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCT);
    assert_true(qp->made_direct.dc_init_attr.dct_access_key == config.dc_key);
    assert_non_null(qp->made_with.srq);
    assert_int_equal(qp->step_count, 2);
    assert_int_equal(qp->steps[0].mask,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    assert_int_equal(qp->steps[0].attributes.qp_access_flags,
                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    const struct ibv_qp_attr *got = &qp->steps[1].attributes;
    assert_int_equal(qp->steps[1].mask,
                     IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU);
    assert_int_equal(got->path_mtu, IBV_MTU_4096);
    assert_int_equal(got->min_rnr_timer, 12);
    assert_int_equal(got->ah_attr.is_global, 1);
    assert_int_equal(got->ah_attr.sl, 3);
    assert_int_equal(got->ah_attr.grh.sgid_index, 3);
    assert_int_equal(got->ah_attr.grh.hop_limit, 64);
    assert_int_equal(got->ah_attr.grh.traffic_class, 96);
    /* Its number is only known in the last state. */
    assert_int_equal(target->window.qpn, qp->ex.qp_base.qp_num);
    assert_int_not_equal(target->window.qpn, 0);
    /* A second window is on the same target. */
    struct rg_target *second;
    must(rg_window_mint(client, client_region, 4096, 10, RG_DIRECTION_PUT, &second, &error));
    assert_int_equal(second->window.qpn, target->window.qpn);
    assert_int_not_equal(second->window.rkey, target->window.rkey);
    must(rg_window_revoke(second, true, &error));
}

static void says_why_there_is_no_target(void **state)
{
    open_lanes();
    unsigned mrs = fake.mrs;
    fake.fail_srq = ENOMEM;
    assert_int_equal(rg_window_mint(client, client_region, 0, 1, RG_DIRECTION_GET, &target, &error),
                     -RG_LIMIT);
    fake.fail_srq = 0;
    fake.fail_qp = ENOMEM;
    assert_int_equal(rg_window_mint(client, client_region, 0, 1, RG_DIRECTION_GET, &target, &error),
                     -RG_LIMIT);
    fake.fail_qp = 0;
    fake.fail_state = EINVAL;
    fake.fail_state_is = IBV_QPS_RTR;
    assert_int_equal(rg_window_mint(client, client_region, 0, 1, RG_DIRECTION_GET, &target, &error),
                     -RG_SERVICE_UNAVAILABLE);
    fake.fail_state = 0;
    assert_int_equal(fake.srqs, 0);
    assert_int_equal(fake.mrs, mrs);
    assert_null(target);
    mint(0, 1, RG_DIRECTION_GET);
}

/* ---- Moving ---- */

static void moves_bytes_by_token(void **state)
{
    open_lanes();
    for (size_t i = 0; i < sizeof memory; i++) {
        memory[i] = (unsigned char)(i * 13);
    }
    mint(1000, 5000, RG_DIRECTION_GET);
    RG_BUF(text, RG_TOKEN_MAX);
    rg_token_print_d1(&target->window, &text);
    assert_int_equal(rg_buf_span(&text).len, RG_D1_TOKEN_LENGTH);
    struct rg_rdma_window window = parse(rg_buf_text(&text));
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write(lane, region, 7, 3, 4000, 99, &error));
    struct rg_completion completion = await();
    assert_int_equal(completion.broke, RG_BROKE_NOTHING);
    assert_int_equal(completion.cookie, 99);
    assert_int_equal(completion.operation, RG_OPERATION_WRITE);
    assert_int_equal(completion.length, 4000);
    assert_memory_equal(client_memory + 1003, memory + 7, 4000);
    assert_int_equal(client_memory[1002] | client_memory[5003], 0);

    must(rg_window_revoke(RG_TAKE(target), true, &error));
    mint(1000, 5000, RG_DIRECTION_PUT);
    must(rg_lane_bind(lane, &target->window, &error));
    memset(memory, 0, sizeof memory);
    must(rg_lane_read(lane, region, 7, 3, 4000, 98, &error));
    completion = await();
    assert_int_equal(completion.broke, RG_BROKE_NOTHING);
    assert_int_equal(completion.operation, RG_OPERATION_READ);
    assert_memory_equal(client_memory + 1003, memory + 7, 4000);
}

/* The suffix of 34 characters moves the window within the one that was registered. */
static void obeys_the_suffix(void **state)
{
    char text[RG_D1_SUFFIXED_LENGTH + 1];
    open_lanes();
    mint(0, 8192, RG_DIRECTION_GET);
    RG_BUF(token, RG_TOKEN_MAX);
    rg_token_print_d1(&target->window, &token);
    snprintf(text, sizeof text, "%s:%016llx:%016llx", rg_buf_text(&token),
             (unsigned long long)target->window.address + 100, 50ULL);
    struct rg_rdma_window window = parse(text);
    assert_int_equal(window.dialect, RG_DIALECT_D1_SUFFIX);
    must(rg_lane_bind(lane, &window, &error));
    memset(memory, 'x', 100);
    assert_int_equal(rg_lane_write(lane, region, 0, 0, 51, 1, &error), -RG_INVALID_ARGUMENT);
    must(rg_lane_write(lane, region, 0, 0, 50, 1, &error));
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
    assert_int_equal(client_memory[99], 0);
    assert_int_equal(client_memory[100], 'x');
    assert_int_equal(client_memory[149], 'x');
    assert_int_equal(client_memory[150], 0);
}

static void builds_exact_work_requests(void **state)
{
    open_lanes();
    struct rg_rdma_window window = parse(DC_A);
    must(rg_lane_bind(lane, &window, &error));
    fake.hold = true;
    must(rg_lane_write(lane, region, 100, 0x1000, 500, 1, &error));
    must(rg_lane_read(lane, region, 200, 0x2000, 600, 2, &error));
    assert_int_equal(fake.request_count, 2);
    const struct fake_request *first = &fake.requests[0];
    assert_int_equal(first->opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(first->flags, IBV_SEND_SIGNALED);
    assert_true(first->remote_address == 0x7f3a5c401000);
    assert_int_equal(first->rkey, 0x00182ac7);
    assert_int_equal(first->dctn, 0x01a2b3);
    assert_true(first->dc_key == config.dc_key);
    assert_true(first->piece.addr == (uintptr_t)memory + 100);
    assert_int_equal(first->piece.length, 500);
    assert_int_equal(first->piece.lkey, ((struct rg_port_region *)region)->mr->lkey);
    const struct fake_request *second = &fake.requests[1];
    assert_int_equal(second->opcode, IBV_WR_RDMA_READ);
    assert_int_equal(second->wr_id, first->wr_id + 1);
    assert_true(second->remote_address == 0x7f3a5c402000);
    assert_int_equal(second->piece.length, 600);
    assert_ptr_equal(second->ah, first->ah);
    assert_int_equal(fake_qp(0)->held_count, 2);
}

static void splits_long_operations(void **state)
{
    fake.devices[0].ports[0].attributes.max_msg_sz = 4096;
    open_all();
    memset(memory, 'y', sizeof memory);
    must(rg_lane_write(lane, region, 0, 0, 10000, 7, &error));
    assert_int_equal(await().length, 10000);
    assert_memory_equal(client_memory, memory, 10000);
    assert_int_equal(client_memory[10000], 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fake.requests[i].piece.length, i < 2 ? 4096 : 10000 - 8192);
        assert_int_equal(fake.requests[i].flags, i < 2 ? 0 : IBV_SEND_SIGNALED);
        assert_int_equal(fake.requests[i].dctn, target->window.qpn);
    }
}

static void fills_the_lane_and_waits(void **state)
{
    config.lane_depth = 3;
    open_all();
    fake.hold = true;
    for (uint64_t i = 0; i < 3; i++) {
        must(rg_lane_write(lane, region, i, i, 1, i, &error));
    }
    assert_int_equal(rg_lane_write(lane, region, 3, 3, 1, 3, &error), -RG_LIMIT);
    fake_complete(fake_qp(0), 1, IBV_WC_SUCCESS);
    assert_int_equal(await().cookie, 0);
    must(rg_lane_write(lane, region, 3, 3, 1, 3, &error));
    assert_int_equal(lane->outstanding, 3);
}

static void has_neither_immediates_nor_pairs(void **state)
{
    struct rg_lane_address address = {0};
    open_all();
    assert_int_equal(rg_lane_write_immediate(lane, region, 0, 0, 1, 5, 1, &error),
                     -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(rg_lane_address(lane, &address, &error), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(rg_lane_pair(lane, &address, &error), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(rg_lane_receive(lane, 1, &error), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(lane->broke, RG_BROKE_NOTHING);
    assert_int_equal(fake.request_count, 0);
}

/* ---- Address handles ---- */

static void addresses_a_peer_on_roce(void **state)
{
    config.service_level = 4;
    config.traffic_class = 106;
    config.hop_limit = 9;
    open_lanes();
    struct rg_rdma_window window = parse(DC_A);
    must(rg_lane_bind(lane, &window, &error));
    const struct ibv_ah_attr *got = &fake.last_ah;
    assert_int_equal(got->is_global, 1);
    assert_int_equal(got->dlid, 0);
    assert_int_equal(got->sl, 4);
    assert_int_equal(got->port_num, 1);
    assert_int_equal(got->grh.sgid_index, 3);
    assert_int_equal(got->grh.hop_limit, 9);
    assert_int_equal(got->grh.traffic_class, 106);
    assert_memory_equal(got->grh.dgid.raw, window.gid, 16);
    /* From a GID of the peer's kind. */
    assert_int_equal(inet_pton(AF_INET6, "fe80::77", window.gid), 1);
    must(rg_lane_bind(lane, &window, &error));
    assert_int_equal(fake.last_ah.grh.sgid_index, 0);
}

static void addresses_a_peer_on_infiniband(void **state)
{
    become_infiniband();
    open_lanes();
    struct rg_rdma_window window = parse(DC_C);
    must(rg_lane_bind(lane, &window, &error));
    assert_int_equal(fake.last_ah.is_global, 0);
    assert_int_equal(fake.last_ah.dlid, 0x12);
    window = parse(DC_B);
    must(rg_lane_bind(lane, &window, &error));
    assert_int_equal(fake.last_ah.is_global, 1);
    assert_int_equal(fake.last_ah.dlid, 0x12);
    assert_int_equal(fake.last_ah.grh.sgid_index, 0);
    assert_memory_equal(fake.last_ah.grh.dgid.raw, window.gid, 16);
    /* What it tells of itself is what it understands. */
    mint(0, 100, RG_DIRECTION_GET);
    assert_false(target->window.has_gid);
    assert_int_equal(target->window.lid, 0x12);
    must(rg_lane_bind(lane, &target->window, &error));
    write_one();
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
}

static void refuses_tokens_that_name_nobody(void **state)
{
    open_lanes();
    struct rg_rdma_window good = parse(DC_A), window;
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        window = good;                                                                             \
        window.change;                                                                             \
        assert_int_equal(rg_lane_bind(lane, &window, &error), -RG_INVALID_RDMA_TOKEN);             \
    } while (0)
    REFUSED(qpn = 0);
    REFUSED(qpn = 0x1000000);
    REFUSED(rkey = UINT64_C(0x100000000));
    REFUSED(has_gid = false);
    REFUSED(gid[0] = 0xff);
    window = good;
    memset(window.gid, 0, sizeof window.gid);
    assert_int_equal(rg_lane_bind(lane, &window, &error), -RG_INVALID_RDMA_TOKEN);
    window = good;
    window.transport = RG_TRANSPORT_RC;
    assert_int_equal(rg_lane_bind(lane, &window, &error), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(fake.ahs_made, 0);
    assert_int_equal(lane->broke, RG_BROKE_NOTHING);
    fake.fail_ah = EHOSTUNREACH;
    assert_int_equal(rg_lane_bind(lane, &good, &error), -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_NOTHING);
    assert_int_equal(rg_lane_write(lane, region, 0, 0, 1, 1, &error), -RG_INVALID_ARGUMENT);
    fake.fail_ah = 0;
    must(rg_lane_bind(lane, &good, &error));
}

static void keeps_address_handles(void **state)
{
    open_lanes();
    struct rg_rdma_window window = parse(DC_A);
    must(rg_lane_bind(lane, &window, &error));
    rg_lane_unbind(lane);
    window.address += 4096;
    window.qpn++;
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_bind(client, &window, &error)); /* another lane shares it */
    assert_int_equal(fake.ahs_made, 1);
    rg_lane_unbind(client);
    /* Many peers: the cache has an end, and the one in use stays. */
    struct rg_rdma_window other = window;
    for (unsigned i = 0; i < 300; i++) {
        other.gid[14] = (uint8_t)(i >> 8);
        other.gid[15] = (uint8_t)i;
        must(rg_lane_bind(client, &other, &error));
        assert_in_range(fake.ahs, 1, 257);
    }
    rg_lane_unbind(client);
    assert_int_equal(fake.ahs_made, 301);
    assert_in_range(fake.ahs, 250, 257);
    must(rg_lane_bind(client, &window, &error));
    assert_int_equal(fake.ahs_made, 301);
    /* The youngest is there, the oldest is not. */
    must(rg_lane_bind(client, &other, &error));
    assert_int_equal(fake.ahs_made, 301);
    other.gid[14] = other.gid[15] = 0;
    must(rg_lane_bind(client, &other, &error));
    assert_int_equal(fake.ahs_made, 302);
}

/* It may have moved to another port, and the handle holds the old MAC address. */
static void forgets_the_address_of_a_silent_peer(void **state)
{
    open_all();
    assert_int_equal(fake.ahs_made, 1);
    fake.next_status = IBV_WC_RETRY_EXC_ERR;
    write_one();
    assert_int_equal(await().cause, RG_CAUSE_PEER_GONE);
    must(rg_lane_reset(lane, &error));
    assert_int_equal(fake.ahs, 0);
    must(rg_lane_bind(lane, &target->window, &error));
    assert_int_equal(fake.ahs_made, 2);
    write_one();
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
    /* A wrong key says nothing about the address. */
    fake.next_status = IBV_WC_REM_ACCESS_ERR;
    write_one();
    assert_int_equal(await().cause, RG_CAUSE_REMOTE_ACCESS);
    must(rg_lane_reset(lane, &error));
    must(rg_lane_bind(lane, &target->window, &error));
    assert_int_equal(fake.ahs_made, 2);
}

/* ---- The access key ---- */

static void needs_the_same_access_key(void **state)
{
    struct rg_rail *other = NULL;
    struct rg_lane *stranger = NULL;
    struct rg_region *own = NULL;
    open_all();
    struct rg_rail_config wrong = config;
    wrong.dc_key++;
    must(rg_rail_open(&rg_transport_dc, &wrong, &other, &error));
    must(rg_region_register(other, memory, sizeof memory, RG_ACCESS_LOCAL, &own, &error));
    must(rg_lane_open(other, &stranger, &error));
    must(rg_lane_bind(stranger, &target->window, &error));
    must(rg_lane_write(stranger, own, 0, 0, 1, 1, &error));
    assert_true(last_request()->dc_key == wrong.dc_key);
    struct rg_completion completion;
    size_t count = 0;
    must(rg_lane_wait(stranger, &completion, 1, -1, WAIT_MS, &count, &error));
    assert_int_equal(completion.broke, RG_BROKE_CONNECTION);
    rg_lane_close(stranger);
    rg_region_deregister(own);
    rg_rail_close(other);
}

/* ---- Exhaustion ---- */

static void says_when_there_are_no_more_initiators(void **state)
{
    struct rg_lane *more = NULL;
    open_rail();
    fake.qps_max = 1;
    must(rg_lane_open(rail, &lane, &error));
    assert_int_equal(rg_lane_open(rail, &more, &error), -RG_LIMIT);
    assert_null(more);
    assert_int_equal(fake.channels, 1);
    assert_int_equal(fake.cqs, 1);
    rg_lane_close(RG_TAKE(lane));
    must(rg_lane_open(rail, &lane, &error));
}

static void pool_of_initiators_ends(void **state)
{
    struct rg_pool *pool;
    struct rg_lease leases[3] = {0};
    struct rg_pool_config pooled = RG_POOL_CONFIG_INIT;
    pooled.transport = &rg_transport_dc;
    pooled.rail = config;
    pooled.lanes_max = 2;
    pooled.disk_depth = 0;
    must(rg_pool_open(&pooled, &pool, &error));
    must(rg_pool_lease(pool, 0, &leases[0], &error));
    must(rg_pool_lease(pool, 0, &leases[1], &error));
    uint64_t begun = rg_clock_ms();
    assert_int_equal(rg_pool_lease(pool, 50, &leases[2], &error), -RG_LIMIT);
    assert_in_range(rg_clock_ms() - begun, 40, 2000);
    rg_pool_return(&leases[0]);
    must(rg_pool_lease(pool, 0, &leases[2], &error));
    assert_int_equal(fake.open_qps, 2);
    rg_pool_return(&leases[1]);
    rg_pool_return(&leases[2]);
    /* The device has fewer than the pool may have: that is a full pool too, not a broken rail. */
    fake.qps_max = fake.open_qps;
    must(rg_pool_lease(pool, 0, &leases[0], &error));
    must(rg_pool_lease(pool, 0, &leases[1], &error));
    fake.hold = true;
    rg_pool_discard(&leases[1]);
    fake.qps_max = 1;
    assert_int_equal(rg_pool_lease(pool, 20, &leases[1], &error), -RG_LIMIT);
    struct rg_pool_state snapshot;
    rg_pool_state(pool, &snapshot);
    assert_true(snapshot.up);
    rg_pool_return(&leases[0]);
    rg_pool_close(pool);
}

/* A broken one is cycled and stays in the pool. */
static void pool_keeps_initiators_that_failed(void **state)
{
    struct rg_pool *pool;
    struct rg_lease lease = {0};
    struct rg_pool_state snapshot;
    struct rg_pool_config pooled = RG_POOL_CONFIG_INIT;
    pooled.transport = &rg_transport_dc;
    pooled.rail = config;
    pooled.lanes_max = 1;
    pooled.disk_depth = 0;
    must(rg_pool_open(&pooled, &pool, &error));
    open_lanes();
    mint(0, 100, RG_DIRECTION_GET);
    struct rg_rail *pooled_rail = rg_pool_rail_get(pool);
    struct rg_region *own;
    must(rg_region_register(pooled_rail, memory, sizeof memory, RG_ACCESS_LOCAL, &own, &error));
    for (int round = 0; round < 3; round++) {
        struct rg_completion completion;
        size_t count = 0;
        must(rg_pool_lease(pool, 0, &lease, &error));
        unsigned made = fake.qps_made;
        must(rg_lane_bind(lease.lane, &target->window, &error));
        fake.next_status = round == 1 ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS;
        must(rg_lane_write(lease.lane, own, 0, 0, 1, 1, &error));
        must(rg_lane_wait(lease.lane, &completion, 1, -1, WAIT_MS, &count, &error));
        assert_int_equal(completion.broke != RG_BROKE_NOTHING, round == 1);
        rg_pool_return(&lease);
        assert_int_equal(fake.qps_made, made);
    }
    rg_pool_state(pool, &snapshot);
    assert_int_equal(snapshot.lanes_opened, 1);
    assert_int_equal(snapshot.lanes_broken, 1);
    /* One that does not start again is closed, and the next lease opens another. */
    must(rg_pool_lease(pool, 0, &lease, &error));
    must(rg_lane_bind(lease.lane, &target->window, &error));
    fake.next_status = IBV_WC_REM_OP_ERR;
    must(rg_lane_write(lease.lane, own, 0, 0, 1, 1, &error));
    fake.fail_state = EIO;
    fake.fail_state_is = IBV_QPS_RTS;
    rg_pool_return(&lease);
    rg_pool_state(pool, &snapshot);
    assert_int_equal(snapshot.lanes_open, 0);
    fake.fail_state = 0;
    rg_region_deregister(own);
    rg_pool_rail_put(pool, pooled_rail);
    rg_pool_close(pool);
}

/* ---- Errors, reset, flush ---- */

static void resets_an_initiator_after_an_error(void **state)
{
    open_all();
    struct fake_qp *qp = fake_qp(0);
    for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; status++) {
        enum rg_broke broke;
        enum rg_cause cause;
        rg_port_classify((enum ibv_wc_status)status, &broke, &cause);
        fake.next_status = (enum ibv_wc_status)status;
        write_one();
        struct rg_completion completion = await();
        assert_int_equal(completion.broke, broke);
        assert_int_equal(completion.cause, cause);
        assert_int_equal(completion.provider_status, status);
        assert_int_equal(rg_lane_write(lane, region, 0, 0, 1, 2, &error), -RG_RDMA_TRANSFER_FAILED);
        qp->step_count = 0;
        unsigned made = fake.qps_made;
        must(rg_lane_reset(lane, &error));
        assert_int_equal(fake.qps_made, made); /* the same queue pair, cycled */
        static const enum ibv_qp_state cycle[] = {IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_INIT,
                                                  IBV_QPS_RTR, IBV_QPS_RTS};
        size_t from = qp->step_count == 4 ? 1 : 0;
        assert_int_equal(qp->step_count, 5 - from);
        for (size_t i = 0; i < qp->step_count; i++) {
            assert_int_equal(qp->steps[i].attributes.qp_state, cycle[i + from]);
        }
        must(rg_lane_bind(lane, &target->window, &error));
        write_one();
        assert_int_equal(await().broke, RG_BROKE_NOTHING);
    }
}

static void gives_up_an_initiator_that_does_not_start_again(void **state)
{
    open_all();
    fake.next_status = IBV_WC_REM_ACCESS_ERR;
    write_one();
    (void)await();
    fake.fail_state = EIO;
    fake.fail_state_is = IBV_QPS_RTS;
    assert_int_equal(rg_lane_reset(lane, &error), -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
    fake.fail_state = 0;
}

static void survives_a_refused_post(void **state)
{
    open_all();
    fake.fail_post = ENOMEM;
    assert_int_equal(rg_lane_write(lane, region, 0, 0, 1, 1, &error), -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_CONNECTION);
    assert_int_equal(lane->outstanding, 0);
    fake.fail_post = 0;
    must(rg_lane_reset(lane, &error));
    must(rg_lane_bind(lane, &target->window, &error));
    write_one();
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
}

/* What was on its way when the gateway gives up must not arrive after its answer. */
static void is_quiet_after_a_flush(void **state)
{
    unsigned quiet = 0;
    open_all();
    memset(memory, 'z', sizeof memory);
    fake.hold = true;
    for (uint64_t i = 0; i < 4; i++) {
        must(rg_lane_write(lane, region, 0, 0, 100, i, &error));
    }
    must(rg_lane_flush(lane, &quiet, &error));
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    assert_int_equal(lane->outstanding, 0);
    assert_int_equal(fake_qp(0)->ex.qp_base.state, IBV_QPS_ERR);
    assert_int_equal(fake_qp(0)->held_count, 0);
    fake.hold = false;
    fake_complete(fake_qp(0), 4, IBV_WC_SUCCESS);
    assert_int_equal(client_memory[0], 0);
    must(rg_lane_reset(lane, &error));
    must(rg_lane_bind(lane, &target->window, &error));
    write_one();
    assert_int_equal(await().cookie, 1);
}

static void resets_an_initiator_that_does_not_drain(void **state)
{
    unsigned quiet = 0;
    open_all();
    fake.hold = fake.stuck = true;
    write_one();
    must(rg_lane_flush(lane, &quiet, &error));
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    assert_int_equal(fake_qp(0)->ex.qp_base.state, IBV_QPS_RESET);
    assert_int_equal(fake_qp(0)->held_count, 0);
}

static void gives_up_when_the_port_goes_down(void **state)
{
    struct rg_completion completion;
    size_t count;
    open_all();
    fake.hold = true;
    write_one();
    fake.devices[0].ports[0].attributes.state = IBV_PORT_DOWN;
    fake_event(IBV_EVENT_PORT_ERR, 1, NULL);
    assert_int_equal(rg_lane_wait(lane, &completion, 1, -1, WAIT_MS, &count, &error),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
    assert_int_equal(rg_rail_check(rail, &error), -RG_SERVICE_UNAVAILABLE);
}

/* ---- Windows ---- */

static void shows_exactly_the_window(void **state)
{
    open_lanes();
    unsigned before = fake.mrs;
    mint(100, 50, RG_DIRECTION_GET);
    assert_int_equal(fake.mrs, before + 1);
    struct rg_rdma_window liar = target->window;
    liar.address--;
    must(rg_lane_bind(lane, &liar, &error));
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    assert_int_equal(await().cause, RG_CAUSE_REMOTE_ACCESS);
    must(rg_lane_reset(lane, &error));
    must(rg_lane_bind(lane, &target->window, &error));
    must(rg_lane_read(lane, region, 0, 0, 1, 1, &error)); /* only writes were allowed */
    assert_int_equal(await().cause, RG_CAUSE_REMOTE_ACCESS);
    must(rg_lane_reset(lane, &error));
    /* Taken back, without harm to the client's lane. */
    liar = target->window;
    must(rg_window_revoke(RG_TAKE(target), false, &error));
    assert_int_equal(client->broke, RG_BROKE_NOTHING);
    assert_int_equal(fake.mrs, before);
    must(rg_lane_bind(lane, &liar, &error));
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    assert_int_equal(await().cause, RG_CAUSE_REMOTE_ACCESS);
    assert_int_equal(client_memory[100], 0);
}

/* Where the key is the region's, the target goes. */
static void destroys_the_target_for_an_unsettled_window(void **state)
{
    struct rg_region *exact;
    open_lanes();
    must(rg_region_register(rail, client_memory, 4096, RG_ACCESS_REMOTE_WRITE, &exact, &error));
    unsigned before = fake.mrs;
    must(rg_window_mint(client, exact, 0, 4096, RG_DIRECTION_GET, &target, &error));
    assert_int_equal(fake.mrs, before);
    struct rg_rdma_window window = target->window;
    must(rg_window_revoke(RG_TAKE(target), true, &error));
    assert_int_equal(client->broke, RG_BROKE_NOTHING);
    must(rg_window_mint(client, exact, 0, 4096, RG_DIRECTION_GET, &target, &error));
    assert_int_equal(target->window.qpn, window.qpn);
    must(rg_window_revoke(RG_TAKE(target), false, &error));
    assert_int_equal(client->broke, RG_BROKE_CONNECTION);
    must(rg_lane_bind(lane, &window, &error));
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    assert_int_equal(await().cause, RG_CAUSE_PEER_GONE);
    must(rg_lane_reset(client, &error));
    must(rg_window_mint(client, exact, 0, 4096, RG_DIRECTION_GET, &target, &error));
    assert_int_not_equal(target->window.qpn, window.qpn);
    must(rg_window_revoke(RG_TAKE(target), true, &error));
    rg_region_deregister(exact);
}

static void ends_windows_below_4_gib(void **state)
{
    struct rg_region *huge;
    open_lanes();
    must(rg_region_register_dmabuf(rail, 5, 0, UINT64_C(1) << 40, UINT64_C(1) << 33,
                                   RG_ACCESS_REMOTE_WRITE, &huge, &error));
    assert_int_equal(
        rg_window_mint(client, huge, 0, UINT64_C(1) << 32, RG_DIRECTION_GET, &target, &error),
        -RG_INVALID_ARGUMENT);
    must(rg_window_mint(client, huge, 4096, UINT32_MAX, RG_DIRECTION_GET, &target, &error));
    assert_true(target->window.address == (UINT64_C(1) << 40) + 4096);
    must(rg_window_revoke(RG_TAKE(target), true, &error));
    rg_region_deregister(huge);
}

/* ---- The self-test ---- */

struct heard {
    unsigned passed, failed, skipped;
    char failure[512];
};

static void hear(void *context, enum rg_selftest_verdict verdict, const char *step,
                 const char *sentence)
{
    struct heard *heard = context;
    assert_true(strlen(step) > 0 && strlen(sentence) > 0);
    heard->passed += verdict == RG_SELFTEST_PASSED;
    heard->failed += verdict == RG_SELFTEST_FAILED;
    heard->skipped += verdict == RG_SELFTEST_SKIPPED;
    if (verdict == RG_SELFTEST_FAILED) {
        snprintf(heard->failure, sizeof heard->failure, "%s: %s", step, sentence);
    }
}

static void expect_failure(const char *device, const char *word)
{
    struct heard heard = {0};
    assert_int_equal(rg_dc_selftest(device, hear, &heard), 1);
    assert_int_equal(heard.failed, 1);
    assert_int_equal(heard.skipped, 1);
    if (!strstr(heard.failure, word)) {
        fail_msg("\"%s\" does not say %s", heard.failure, word);
    }
    fake_expect_empty();
}

static void tests_itself(void **state)
{
    struct heard heard = {0};
    unsigned failed = rg_dc_selftest("mlx5_0", hear, &heard);
    if (failed) {
        fail_msg("%s", heard.failure);
    }
    assert_int_equal(heard.failed, 0);
    assert_int_equal(heard.skipped, 0);
    assert_in_range(heard.passed, 40, 100);
    fake_expect_empty();
    assert_int_equal(rg_dc_selftest(NULL, hear, &heard), 0);
}

static void tells_what_is_wrong_with_the_nic(void **state)
{
    expect_failure("mlx5_9", "mlx5_9");
    fake.no_dc = true;
    expect_failure("", "DC initiator");
    fake.no_dc = false;
    fake.corrupts = true;
    expect_failure("", "bytes differ");
    fake.corrupts = false;
    fake.ignores_keys = true;
    expect_failure("", "must not have");
    fake.ignores_keys = false;
    fake.fail_mr = EIO;
    expect_failure("", "memory");
    fake.fail_mr = 0;
    fake.next_status = IBV_WC_RETRY_EXC_ERR;
    expect_failure("", "peer-gone");
    fake.devices[0].ports[0].attributes.state = IBV_PORT_DOWN;
    expect_failure("mlx5_0", "active");
    fake.devices[0].has_dc = false;
    expect_failure("mlx5_0", "kind");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opens_only_where_there_is_dc),
        TEST(makes_an_initiator),
        TEST(asks_for_fewer_reads_where_it_must),
        TEST(makes_a_target),
        TEST(says_why_there_is_no_target),
        TEST(moves_bytes_by_token),
        TEST(obeys_the_suffix),
        TEST(builds_exact_work_requests),
        TEST(splits_long_operations),
        TEST(fills_the_lane_and_waits),
        TEST(has_neither_immediates_nor_pairs),
        TEST(addresses_a_peer_on_roce),
        TEST(addresses_a_peer_on_infiniband),
        TEST(refuses_tokens_that_name_nobody),
        TEST(keeps_address_handles),
        TEST(forgets_the_address_of_a_silent_peer),
        TEST(needs_the_same_access_key),
        TEST(says_when_there_are_no_more_initiators),
        TEST(pool_of_initiators_ends),
        TEST(pool_keeps_initiators_that_failed),
        TEST(resets_an_initiator_after_an_error),
        TEST(gives_up_an_initiator_that_does_not_start_again),
        TEST(survives_a_refused_post),
        TEST(is_quiet_after_a_flush),
        TEST(resets_an_initiator_that_does_not_drain),
        TEST(gives_up_when_the_port_goes_down),
        TEST(shows_exactly_the_window),
        TEST(destroys_the_target_for_an_unsettled_window),
        TEST(ends_windows_below_4_gib),
        TEST(tests_itself),
        TEST(tells_what_is_wrong_with_the_nic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
