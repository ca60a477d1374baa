/* The rc transport over the fake library: what it asks of the device, and what it makes of answers
 * that soft-RoCE cannot be made to give. tests/rxe shows that a device agrees. */
#include "test.h"

#include "fake_verbs.h"
#include "rdma/port.h"
#include "rdma/transport.h"

#include "base/checked.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MEMORY_BYTES 16384
#define WAIT_MS      2000

static struct rg_rail_config config;
static struct rg_rail *rail;
static struct rg_region *region;
static struct rg_lane *lane, *peer;
static struct rg_target *target;
static struct rg_error error;
static unsigned char memory[MEMORY_BYTES], client[MEMORY_BYTES];
static struct rg_region *client_region;

#define must(call)                                                                                 \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, error.message);                                              \
        }                                                                                          \
    } while (0)

/* ---- Both ends, on one rail ---- */

static int start(void **state)
{
    fake_reset();
    config = (struct rg_rail_config)RG_RAIL_CONFIG_INIT;
    config.spin_us = 0;
    rail = NULL;
    region = client_region = NULL;
    lane = peer = NULL;
    target = NULL;
    memset(memory, 0, sizeof memory);
    memset(client, 0, sizeof client);
    return 0;
}

static int end(void **state)
{
    fake.stuck = false;
    (void)rg_window_revoke(target, true, NULL);
    rg_lane_close(lane);
    rg_lane_close(peer);
    rg_region_deregister(region);
    rg_region_deregister(client_region);
    rg_rail_close(rail);
    fake_expect_empty();
    rg_verbs_replace(NULL, NULL);
    return 0;
}

static void open_rail(void)
{
    must(rg_rail_open(&rg_transport_rc, &config, &rail, &error));
    must(rg_region_register(rail, memory, sizeof memory, RG_ACCESS_LOCAL, &region, &error));
    must(rg_region_register(rail, client, sizeof client,
                            RG_ACCESS_REMOTE_WRITE | RG_ACCESS_REMOTE_READ, &client_region,
                            &error));
}

static void pair(struct rg_lane *left, struct rg_lane *right)
{
    struct rg_lane_address left_address, right_address;
    must(rg_lane_address(left, &left_address, &error));
    must(rg_lane_address(right, &right_address, &error));
    must(rg_lane_pair(left, &right_address, &error));
    must(rg_lane_pair(right, &left_address, &error));
}

static void mint(enum rg_direction direction)
{
    must(rg_window_mint(peer, client_region, 0, sizeof client, direction, &target, &error));
    must(rg_lane_bind(lane, &target->window, &error));
}

/* A gateway's lane, a client's, and a window to write to. */
static void open_all(void)
{
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_open(rail, &peer, &error));
    pair(lane, peer);
    mint(RG_DIRECTION_GET);
}

static struct rg_completion await(void)
{
    struct rg_completion completion;
    size_t count = 0;
    must(rg_lane_wait(lane, &completion, 1, -1, WAIT_MS, &count, &error));
    assert_int_equal(count, 1);
    return completion;
}

static struct fake_qp *gateway_qp(void)
{
    return fake_qp(0);
}

static const struct fake_step *last_step(const struct fake_qp *qp, enum ibv_qp_state wanted)
{
    for (size_t i = qp->step_count; i-- > 0;) {
        if (qp->steps[i].attributes.qp_state == wanted) {
            return &qp->steps[i];
        }
    }
    fail_msg("never went to state %d", wanted);
    return NULL;
}

/* ---- States ---- */

static void opens_a_queue_pair(void **state)
{
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    const struct fake_qp *qp = gateway_qp();
    assert_int_equal(qp->made_with.qp_type, IBV_QPT_RC);
    assert_int_equal(qp->made_with.cap.max_send_sge, 1);
    assert_int_equal(qp->made_with.cap.max_recv_wr, lane->depth);
    assert_int_equal(qp->made_with.sq_sig_all, 0);
    /* Depth, two of windows, and one operation in as many messages as it takes. */
    assert_int_equal(qp->made_with.cap.max_send_wr, lane->depth + 2 + 2);
    assert_int_equal(qp->step_count, 1);
    const struct fake_step *step = &qp->steps[0];
    assert_int_equal(step->attributes.qp_state, IBV_QPS_INIT);
    assert_int_equal(step->mask,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    assert_int_equal(step->attributes.pkey_index, 0);
    assert_int_equal(step->attributes.port_num, 1);
    assert_int_equal(step->attributes.qp_access_flags,
                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

static struct rg_lane_address far_end(const char *gid)
{
    struct rg_lane_address address = {
        .qpn = 0x345, .psn = 0xabcdef, .has_gid = true, .mtu = 1024, .reads_max = 4};
    if (inet_pton(AF_INET6, gid, address.gid) != 1) {
        address.gid[10] = address.gid[11] = 0xff;
        assert_int_equal(inet_pton(AF_INET, gid, address.gid + 12), 1);
    }
    return address;
}

static void pairs_with_exact_attributes(void **state)
{
    struct rg_lane_address own, other = far_end("192.0.2.99");
    config.service_level = 5;
    config.traffic_class = 106;
    config.hop_limit = 33;
    config.mtu = 2048;
    config.ack_timeout = 14;
    config.retry_count = 5;
    config.rnr_retry = 6;
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address(lane, &own, &error));
    assert_int_equal(own.qpn, gateway_qp()->ex.qp_base.qp_num);
    assert_int_not_equal(own.psn, 0);
    assert_int_equal(own.lid, 0);
    assert_int_equal(own.mtu, 2048);
    assert_int_equal(own.reads_max, 8);
    assert_memory_equal(own.gid, rail->gid, 16);
    must(rg_lane_pair(lane, &other, &error));

    const struct fake_step *step = last_step(gateway_qp(), IBV_QPS_RTR);
    const struct ibv_qp_attr *got = &step->attributes;
    assert_int_equal(step->mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER);
    assert_int_equal(got->path_mtu, IBV_MTU_1024);
    assert_int_equal(got->dest_qp_num, 0x345);
    assert_int_equal(got->rq_psn, 0xabcdef);
    assert_int_equal(got->max_dest_rd_atomic, 8);
    assert_int_equal(got->min_rnr_timer, 12);
    assert_int_equal(got->ah_attr.is_global, 1);
    assert_int_equal(got->ah_attr.dlid, 0);
    assert_int_equal(got->ah_attr.sl, 5);
    assert_int_equal(got->ah_attr.port_num, 1);
    assert_int_equal(got->ah_attr.grh.sgid_index, 3);
    assert_int_equal(got->ah_attr.grh.hop_limit, 33);
    assert_int_equal(got->ah_attr.grh.traffic_class, 106);
    assert_memory_equal(got->ah_attr.grh.dgid.raw, other.gid, 16);

    step = last_step(gateway_qp(), IBV_QPS_RTS);
    got = &step->attributes;
    assert_int_equal(step->mask, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    assert_int_equal(got->timeout, 14);
    assert_int_equal(got->retry_cnt, 5);
    assert_int_equal(got->rnr_retry, 6);
    assert_int_equal(got->sq_psn, own.psn);
    assert_int_equal(got->max_rd_atomic, 4);
}

static void pairs_by_default_as_documented(void **state)
{
    struct rg_lane_address other = far_end("192.0.2.99");
    other.mtu = 0;
    other.reads_max = 0;
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_pair(lane, &other, &error));
    assert_int_equal(last_step(gateway_qp(), IBV_QPS_RTR)->attributes.path_mtu, IBV_MTU_4096);
    const struct ibv_qp_attr *got = &last_step(gateway_qp(), IBV_QPS_RTS)->attributes;
    assert_int_equal(got->max_rd_atomic, 1);
    assert_int_equal(got->timeout, 16);
    assert_int_equal(got->retry_cnt, 7);
    assert_int_equal(got->rnr_retry, 7);
}

/* Seven retries are endless ones there. */
static void limits_retries_on_soft_roce(void **state)
{
    struct rg_lane_address other = far_end("192.0.2.99");
    fake.devices[0].attributes.vendor_id = RG_VENDOR_SOFT_ROCE;
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_pair(lane, &other, &error));
    assert_int_equal(last_step(gateway_qp(), IBV_QPS_RTS)->attributes.retry_cnt, 6);
}

static void pairs_on_infiniband_by_lid(void **state)
{
    struct rg_lane_address own, other = far_end("fe80::2:c903:a1:b2c3");
    fake.device_count = 0;
    struct fake_device *device = fake_add_device("mlx5_ib", IBV_LINK_LAYER_INFINIBAND);
    fake_set_gid(device, 1, 0, "fe80::2:c903:a1:1", RG_GID_INFINIBAND, NULL);
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address(lane, &own, &error));
    assert_int_equal(own.lid, 0x12);
    assert_int_equal(rg_lane_pair(lane, &other, &error), -RG_INVALID_RDMA_TOKEN);
    assert_non_null(strstr(error.message, "LID"));
    other.lid = 0x77;
    other.has_gid = false;
    must(rg_lane_pair(lane, &other, &error));
    const struct ibv_qp_attr *got = &last_step(gateway_qp(), IBV_QPS_RTR)->attributes;
    assert_int_equal(got->ah_attr.dlid, 0x77);
    assert_int_equal(got->ah_attr.is_global, 0);
}

/* A peer with a link-local GID has hard-coded index 0. */
static void answers_link_local_peers_from_a_link_local_gid(void **state)
{
    struct rg_lane_address own, other = far_end("fe80::9");
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_address_toward(lane, &other, &own, &error));
    assert_memory_equal(own.gid, fake.devices[0].ports[0].gids[0].gid, 16);
    must(rg_lane_pair(lane, &other, &error));
    assert_int_equal(last_step(gateway_qp(), IBV_QPS_RTR)->attributes.ah_attr.grh.sgid_index, 0);
}

static void refuses_peers_that_make_no_sense(void **state)
{
    const struct rg_lane_address good = far_end("192.0.2.99");
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        struct rg_lane_address bad = good;                                                         \
        bad.change;                                                                                \
        assert_int_equal(rg_lane_pair(lane, &bad, &error), -RG_INVALID_RDMA_TOKEN);                \
    } while (0)
    REFUSED(qpn = 0);
    REFUSED(qpn = 1);
    REFUSED(qpn = 0x1000000);
    REFUSED(psn = 0x1000000);
    REFUSED(mtu = 100);
    REFUSED(has_gid = false);
    REFUSED(gid[0] = 0xff);
    struct rg_lane_address zero = good;
    memset(zero.gid, 0, sizeof zero.gid);
    assert_int_equal(rg_lane_pair(lane, &zero, &error), -RG_INVALID_RDMA_TOKEN);
    assert_int_equal(gateway_qp()->step_count, 1);
    must(rg_lane_pair(lane, &good, &error));
    assert_int_equal(rg_lane_pair(lane, &good, &error), -RG_INVALID_ARGUMENT);
}

static void pairs_again_after_an_unreachable_peer(void **state)
{
    const struct rg_lane_address other = far_end("192.0.2.99");
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    fake.fail_state = EHOSTUNREACH;
    fake.fail_state_is = IBV_QPS_RTR;
    assert_int_equal(rg_lane_pair(lane, &other, &error), -RG_RDMA_TRANSFER_FAILED);
    fake.fail_state_is = IBV_QPS_RTS;
    assert_int_equal(rg_lane_pair(lane, &other, &error), -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_NOTHING);
    fake.fail_state = 0;
    must(rg_lane_pair(lane, &other, &error));
}

/* ---- Moving ---- */

static void moves_bytes_both_ways(void **state)
{
    open_all();
    for (size_t i = 0; i < sizeof memory; i++) {
        memory[i] = (unsigned char)(i * 7);
    }
    must(rg_lane_write(lane, region, 100, 200, 1000, 42, &error));
    struct rg_completion completion = await();
    assert_int_equal(completion.broke, RG_BROKE_NOTHING);
    assert_int_equal(completion.cookie, 42);
    assert_int_equal(completion.operation, RG_OPERATION_WRITE);
    assert_int_equal(completion.length, 1000);
    assert_memory_equal(client + 200, memory + 100, 1000);
    assert_int_equal(client[199] | client[1200], 0);
    const struct fake_request *request = &fake.requests[0];
    assert_int_equal(request->opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(request->flags, IBV_SEND_SIGNALED);
    assert_int_equal(request->remote_address, (uintptr_t)client + 200);
    assert_int_equal(request->rkey, target->window.rkey);
    assert_int_equal(request->piece.addr, (uintptr_t)memory + 100);
    assert_int_equal(request->piece.length, 1000);

    must(rg_window_revoke(target, true, &error));
    mint(RG_DIRECTION_PUT);
    memset(memory, 0, sizeof memory);
    must(rg_lane_read(lane, region, 100, 200, 1000, 43, &error));
    completion = await();
    assert_int_equal(completion.broke, RG_BROKE_NOTHING);
    assert_int_equal(completion.operation, RG_OPERATION_READ);
    assert_memory_equal(client + 200, memory + 100, 1000);
    assert_int_equal(fake.requests[fake.request_count - 1].opcode, IBV_WR_RDMA_READ);
}

/* What is longer than a message goes in pieces, and only the last makes noise. */
static void splits_long_operations(void **state)
{
    fake.devices[0].ports[0].attributes.max_msg_sz = 4096;
    open_all();
    memset(memory, 'x', sizeof memory);
    must(rg_lane_write(lane, region, 0, 0, 10000, 7, &error));
    assert_int_equal(await().length, 10000);
    assert_memory_equal(client, memory, 10000);
    assert_int_equal(client[10000], 0);
    size_t first = fake.request_count - 3;
    for (size_t i = 0; i < 3; i++) {
        const struct fake_request *request = &fake.requests[first + i];
        assert_int_equal(request->piece.length, i < 2 ? 4096 : 10000 - 8192);
        assert_int_equal(request->remote_address, (uintptr_t)client + i * 4096);
        assert_int_equal(request->flags, i < 2 ? 0 : IBV_SEND_SIGNALED);
    }
    /* The middle of one fails: one completion, and it says so. */
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 10000, 8, &error));
    fake_complete(gateway_qp(), 1, IBV_WC_SUCCESS);
    fake_complete(gateway_qp(), 1, IBV_WC_REM_ACCESS_ERR);
    struct rg_completion completion = await();
    assert_int_equal(completion.cookie, 8);
    assert_int_equal(completion.cause, RG_CAUSE_REMOTE_ACCESS);
    assert_int_equal(lane->outstanding, 0);
}

static void carries_immediates(void **state)
{
    struct rg_completion completion;
    size_t count;
    open_all();
    must(rg_lane_receive(peer, 99, &error));
    must(rg_lane_write_immediate(lane, region, 0, 0, 10, 0x01020304, 5, &error));
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
    must(rg_lane_wait(peer, &completion, 1, -1, WAIT_MS, &count, &error));
    assert_int_equal(completion.operation, RG_OPERATION_RECEIVE);
    assert_int_equal(completion.cookie, 99);
    assert_true(completion.has_immediate);
    assert_int_equal(completion.immediate, 0x01020304);
    assert_int_equal(fake.requests[fake.request_count - 1].immediate, htonl(0x01020304));
    /* Nobody waits for the next. */
    must(rg_lane_write_immediate(lane, region, 0, 0, 0, 6, 6, &error));
    completion = await();
    assert_int_equal(completion.cause, RG_CAUSE_PEER_NOT_READY);
    assert_int_equal(completion.broke, RG_BROKE_CONNECTION);
}

/* ---- Errors ---- */

static void maps_every_status(void **state)
{
    open_all();
    for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; status++) {
        enum rg_broke broke;
        enum rg_cause cause;
        rg_port_classify((enum ibv_wc_status)status, &broke, &cause);
        fake.next_status = (enum ibv_wc_status)status;
        must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
        struct rg_completion completion = await();
        assert_int_equal(completion.broke, broke);
        assert_int_equal(completion.cause, cause);
        assert_int_equal(completion.provider_status, status);
        assert_string_equal(completion.provider_text, "a status of the fake");
        assert_int_equal(lane->broke, broke);
        assert_int_equal(rg_lane_write(lane, region, 0, 0, 1, 2, &error), -RG_RDMA_TRANSFER_FAILED);
        must(rg_window_revoke(RG_TAKE(target), true, &error));
        fake.request_count = 0; /* the records have an end */
        fake_qp(0)->step_count = fake_qp(1)->step_count = 0;
        must(rg_lane_reset(lane, &error));
        must(rg_lane_reset(peer, &error));
        pair(lane, peer);
        mint(RG_DIRECTION_GET);
        must(rg_lane_write(lane, region, 0, 0, 1, 3, &error));
        completion = await();
        if (completion.broke) {
            fail_msg("after status %d: %s", status, rg_cause_name(completion.cause));
        }
    }
}

static void ends_what_follows_a_failure(void **state)
{
    open_all();
    fake.hold = true;
    for (uint64_t i = 0; i < 3; i++) {
        must(rg_lane_write(lane, region, 0, 0, 1, i, &error));
    }
    fake_complete(gateway_qp(), 1, IBV_WC_SUCCESS);
    fake_complete(gateway_qp(), 1, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
    assert_int_equal(await().cause, RG_CAUSE_REMOTE_ACCESS);
    struct rg_completion last = await();
    assert_int_equal(last.cookie, 2);
    assert_int_equal(last.cause, RG_CAUSE_FLUSHED);
    assert_int_equal(lane->cause, RG_CAUSE_REMOTE_ACCESS); /* the first counts */
}

/* That our own cable is out is no news about the peer. */
static void blames_its_own_port(void **state)
{
    open_all();
    fake.devices[0].ports[0].attributes.state = IBV_PORT_DOWN;
    fake.next_status = IBV_WC_RETRY_EXC_ERR;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    struct rg_completion completion = await();
    assert_int_equal(completion.broke, RG_BROKE_DEVICE);
    assert_int_equal(completion.cause, RG_CAUSE_PORT_DOWN);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
}

static void survives_a_refused_post(void **state)
{
    static const struct {
        int os_errno;
        enum rg_broke broke;
        const char *word;
    } rows[] = {
        {EACCES, RG_BROKE_DEVICE, "credentials"},
        {EIO, RG_BROKE_DEVICE, ""},
        {EINVAL, RG_BROKE_CONNECTION, ""},
        {ENOMEM, RG_BROKE_CONNECTION, ""},
    };
    open_all();
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        fake.fail_post = rows[i].os_errno;
        assert_int_equal(rg_lane_write(lane, region, 0, 0, 1, 1, &error), -RG_RDMA_TRANSFER_FAILED);
        assert_int_equal(lane->broke, rows[i].broke);
        assert_non_null(strstr(error.message, rows[i].word));
        assert_int_equal(lane->outstanding, 0);
        assert_int_equal(gateway_qp()->ex.qp_base.state, IBV_QPS_RESET);
        fake.fail_post = 0;
        must(rg_window_revoke(RG_TAKE(target), true, &error));
        must(rg_lane_reset(lane, &error));
        must(rg_lane_reset(peer, &error));
        pair(lane, peer);
        mint(RG_DIRECTION_GET);
    }
}

static void distrusts_strange_completions(void **state)
{
    open_all();
    fake_push(gateway_qp(), 12345, IBV_WC_SUCCESS);
    struct rg_completion completion;
    size_t count;
    assert_int_equal(rg_lane_wait(lane, &completion, 1, -1, 100, &count, &error),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
    assert_int_equal(rg_rail_check(rail, &error), -RG_SERVICE_UNAVAILABLE);
}

static void reports_a_dead_library(void **state)
{
    struct rg_completion completion;
    size_t count;
    open_all();
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    fake.fail_arm = true;
    assert_int_equal(rg_lane_wait(lane, &completion, 1, -1, 100, &count, &error),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->cause, RG_CAUSE_DEVICE_GONE);
    fake.fail_poll = true;
    assert_int_equal(rg_lane_wait(peer, &completion, 1, -1, 100, &count, &error),
                     -RG_RDMA_TRANSFER_FAILED);
    fake.fail_poll = fake.fail_arm = false;
}

static void says_when_there_are_no_more_queues(void **state)
{
    struct rg_lane *more = NULL;
    open_rail();
    fake.fail_channel = EMFILE;
    assert_int_equal(rg_lane_open(rail, &more, &error), -RG_LIMIT);
    fake.fail_channel = 0;
    fake.fail_cq = ENOMEM;
    assert_int_equal(rg_lane_open(rail, &more, &error), -RG_LIMIT);
    fake.fail_cq = 0;
    fake.fail_qp = ENOSPC;
    assert_int_equal(rg_lane_open(rail, &more, &error), -RG_LIMIT);
    fake.fail_qp = EPERM;
    assert_int_equal(rg_lane_open(rail, &more, &error), -RG_SERVICE_UNAVAILABLE);
    fake.fail_qp = 0;
    fake.fail_state = EIO;
    fake.fail_state_is = IBV_QPS_INIT;
    assert_int_equal(rg_lane_open(rail, &more, &error), -RG_SERVICE_UNAVAILABLE);
    assert_null(more);
    assert_int_equal(fake.channels + fake.cqs + fake.open_qps, 0);
}

/* ---- Flushing ---- */

static void flushes_through_the_error_state(void **state)
{
    unsigned quiet = 0;
    struct rg_completion completion;
    size_t count = 0;
    open_all();
    fake.hold = true;
    for (uint64_t i = 0; i < 4; i++) {
        must(rg_lane_write(lane, region, 0, 0, 1, i, &error));
    }
    must(rg_lane_flush(lane, &quiet, &error));
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    assert_int_equal(lane->outstanding, 0);
    assert_int_equal(lane->broke, RG_BROKE_CONNECTION);
    assert_int_equal(gateway_qp()->ex.qp_base.state, IBV_QPS_ERR);
    (void)last_step(gateway_qp(), IBV_QPS_ERR);
    assert_int_equal(rg_lane_wait(lane, &completion, 1, -1, 0, &count, &error), -RG_TIMED_OUT);
}

/* A device that does not drain is reset, which is a fence of its own; what it says later about what
 * was dropped is not looked at. */
static void resets_a_queue_that_does_not_drain(void **state)
{
    unsigned quiet = 0;
    uint64_t begun = rg_clock_ms();
    open_all();
    fake.hold = fake.stuck = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    uint64_t number = gateway_qp()->held[0].wr_id;
    must(rg_lane_flush(lane, &quiet, &error));
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    assert_in_range(rg_clock_ms() - begun, 1000, 5000);
    assert_int_equal(gateway_qp()->ex.qp_base.state, IBV_QPS_RESET);
    fake.hold = fake.stuck = false;
    fake_push(gateway_qp(), number, IBV_WC_WR_FLUSH_ERR);
    must(rg_window_revoke(RG_TAKE(target), true, &error));
    must(rg_lane_reset(lane, &error));
    must(rg_lane_reset(peer, &error));
    pair(lane, peer);
    mint(RG_DIRECTION_GET);
    fake_push(gateway_qp(), number, IBV_WC_WR_FLUSH_ERR);
    must(rg_lane_write(lane, region, 0, 0, 1, 9, &error));
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
}

static void cannot_promise_without_a_reset(void **state)
{
    unsigned quiet = 0;
    open_all();
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    fake.fail_poll = true; /* nothing drains */
    fake.fail_state = EIO;
    fake.fail_state_is = IBV_QPS_RESET;
    assert_int_equal(rg_lane_flush(lane, &quiet, &error), -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(quiet, 0);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
    fake.fail_state = 0;
    fake.fail_poll = false;
}

/* ---- Sleeping and events ---- */

static void complete_one(void)
{
    fake_complete(gateway_qp(), 1, IBV_WC_SUCCESS);
}

/* A completion that comes between the last look and the arming makes no noise. */
static void misses_no_completion_before_arming(void **state)
{
    open_all();
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    fake.before_arm = complete_one;
    uint64_t begun = rg_clock_ms();
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
    assert_in_range(rg_clock_ms() - begun, 0, WAIT_MS / 2);
    assert_null(fake.before_arm);
    assert_int_equal(fake.events_taken, 0);
}

static void wakes_by_the_channel_after_arming(void **state)
{
    open_all();
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    fake.after_arm = complete_one;
    uint64_t begun = rg_clock_ms();
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
    assert_in_range(rg_clock_ms() - begun, 0, WAIT_MS / 2);
    /* The event is still in the channel; it must not be lost nor be taken for a newer one. */
    must(rg_lane_write(lane, region, 0, 0, 1, 2, &error));
    fake.after_arm = complete_one;
    begun = rg_clock_ms();
    struct rg_completion completion;
    size_t count = 0;
    int rc = rg_lane_wait(lane, &completion, 1, -1, 50, &count, &error);
    if (rc == -RG_TIMED_OUT) {
        complete_one();
        completion = await();
    }
    assert_int_equal(completion.cookie, 2);
    assert_in_range(rg_clock_ms() - begun, 0, WAIT_MS / 2);
}

static void *complete_later(void *argument)
{
    usleep(50000);
    complete_one();
    return NULL;
}

static void sleeps_until_another_thread_completes(void **state)
{
    pthread_t thread;
    open_all();
    fake.hold = true;
    for (uint64_t i = 0; i < 3; i++) {
        must(rg_lane_write(lane, region, 0, 0, 1, i, &error));
        assert_int_equal(pthread_create(&thread, NULL, complete_later, NULL), 0);
        uint64_t begun = rg_clock_ms();
        assert_int_equal(await().cookie, i);
        assert_in_range(rg_clock_ms() - begun, 20, WAIT_MS / 2);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    /* It slept: it did not look all the time. */
    assert_in_range(fake.arms, 1, 20);
}

static void wakes_by_the_descriptor(void **state)
{
    struct rg_completion completion;
    size_t count = 7;
    int wake_fd = eventfd(1, EFD_CLOEXEC);
    open_all();
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    must(rg_lane_wait(lane, &completion, 1, wake_fd, WAIT_MS, &count, &error));
    assert_int_equal(count, 0);
    close(wake_fd);
}

static void port_error(void)
{
    fake.devices[0].ports[0].attributes.state = IBV_PORT_DOWN;
    fake_event(IBV_EVENT_PORT_ERR, 1, NULL);
}

static void gives_up_when_the_port_goes_down(void **state)
{
    struct rg_completion completion;
    size_t count;
    open_all();
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    fake.after_arm = port_error;
    uint64_t begun = rg_clock_ms();
    assert_int_equal(rg_lane_wait(lane, &completion, 1, -1, WAIT_MS, &count, &error),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_in_range(rg_clock_ms() - begun, 0, WAIT_MS / 2);
    assert_int_equal(lane->broke, RG_BROKE_DEVICE);
    assert_int_equal(lane->cause, RG_CAUSE_PORT_DOWN);
    assert_int_equal(rg_rail_check(rail, &error), -RG_SERVICE_UNAVAILABLE);
    assert_int_equal(rg_lane_reset(lane, &error), -RG_RDMA_TRANSFER_FAILED);
    /* And up again. */
    fake.devices[0].ports[0].attributes.state = IBV_PORT_ACTIVE;
    fake_event(IBV_EVENT_PORT_ACTIVE, 1, NULL);
    must(rg_rail_check(rail, &error));
    fake.hold = false;
    must(rg_window_revoke(RG_TAKE(target), true, &error));
    must(rg_lane_reset(lane, &error));
    must(rg_lane_reset(peer, &error));
    pair(lane, peer);
    mint(RG_DIRECTION_GET);
    must(rg_lane_write(lane, region, 0, 0, 1, 2, &error));
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
}

static void queue_error(void)
{
    fake_event(IBV_EVENT_QP_ACCESS_ERR, 0, fake_qp(0));
}

static void breaks_only_the_lane_that_an_event_names(void **state)
{
    struct rg_completion completion;
    size_t count;
    open_all();
    fake.hold = true;
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    fake.after_arm = queue_error;
    assert_int_equal(rg_lane_wait(lane, &completion, 1, -1, WAIT_MS, &count, &error),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(lane->broke, RG_BROKE_CONNECTION);
    assert_int_equal(lane->cause, RG_CAUSE_REMOTE_ACCESS);
    assert_int_equal(peer->broke, RG_BROKE_NOTHING);
    must(rg_rail_check(rail, &error));
    assert_int_equal(rg_lane_wait(peer, &completion, 1, -1, 0, &count, &error), -RG_TIMED_OUT);
}

/* ---- Windows ---- */

static void shows_exactly_the_window(void **state)
{
    open_rail();
    must(rg_lane_open(rail, &lane, &error));
    must(rg_lane_open(rail, &peer, &error));
    pair(lane, peer);
    unsigned before = fake.mrs;
    must(rg_window_mint(peer, client_region, 100, 50, RG_DIRECTION_GET, &target, &error));
    assert_int_equal(fake.mrs, before + 1); /* a registration of its own: no memory windows here */
    assert_int_equal(target->window.address, (uintptr_t)client + 100);
    assert_int_equal(target->window.length, 50);
    struct rg_rdma_window liar = target->window;
    liar.address -= 1;
    must(rg_lane_bind(lane, &liar, &error));
    must(rg_lane_write(lane, region, 0, 0, 10, 1, &error));
    assert_int_equal(await().cause, RG_CAUSE_REMOTE_ACCESS);
    must(rg_window_revoke(RG_TAKE(target), true, &error));
    assert_int_equal(fake.mrs, before);
    assert_int_equal(peer->broke, RG_BROKE_NOTHING);
}

static void binds_memory_windows_on_hardware(void **state)
{
    fake.devices[0].attributes.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    open_all();
    unsigned before = fake.mrs;
    assert_int_equal(fake.mws, 1);
    const struct fake_request *request = &fake.requests[fake.request_count - 1];
    assert_int_equal(request->opcode, IBV_WR_BIND_MW);
    assert_int_equal(request->bind.addr, (uintptr_t)client);
    assert_int_equal(request->bind.length, sizeof client);
    assert_int_equal(request->bind.mw_access_flags, IBV_ACCESS_REMOTE_WRITE);
    assert_int_equal(request->window_key, target->window.rkey);
    uint64_t old_key = target->window.rkey;
    memory[0] = 'a';
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    assert_int_equal(await().broke, RG_BROKE_NOTHING);
    assert_int_equal(client[0], 'a');
    must(rg_lane_read(lane, region, 0, 0, 1, 2, &error)); /* the other direction is not shown */
    assert_int_equal(await().cause, RG_CAUSE_REMOTE_ACCESS);
    must(rg_lane_reset(lane, &error));
    must(rg_window_revoke(RG_TAKE(target), true, &error));
    assert_int_equal(fake.requests[fake.request_count - 1].opcode, IBV_WR_LOCAL_INV);
    assert_int_equal(fake.requests[fake.request_count - 1].window_key, old_key);
    must(rg_window_mint(peer, client_region, 0, 10, RG_DIRECTION_PUT, &target, &error));
    assert_int_not_equal(target->window.rkey, old_key);
    assert_int_equal(fake.mws, 1); /* the idle one was taken again */
    assert_int_equal(fake.mrs, before);
}

/* Nobody has confirmed that the transfer is over: then nothing of it may arrive any more. */
static void cuts_the_connection_for_an_unsettled_window(void **state)
{
    open_all();
    assert_int_equal(rg_window_revoke(RG_TAKE(target), false, &error), 0);
    assert_int_equal(peer->broke, RG_BROKE_CONNECTION);
    assert_int_equal(fake_qp(1)->ex.qp_base.state, IBV_QPS_RESET);
    must(rg_lane_write(lane, region, 0, 0, 1, 1, &error));
    assert_int_equal(await().cause, RG_CAUSE_PEER_GONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opens_a_queue_pair),
        TEST(pairs_with_exact_attributes),
        TEST(pairs_by_default_as_documented),
        TEST(limits_retries_on_soft_roce),
        TEST(pairs_on_infiniband_by_lid),
        TEST(answers_link_local_peers_from_a_link_local_gid),
        TEST(refuses_peers_that_make_no_sense),
        TEST(pairs_again_after_an_unreachable_peer),
        TEST(moves_bytes_both_ways),
        TEST(splits_long_operations),
        TEST(carries_immediates),
        TEST(maps_every_status),
        TEST(ends_what_follows_a_failure),
        TEST(blames_its_own_port),
        TEST(survives_a_refused_post),
        TEST(distrusts_strange_completions),
        TEST(reports_a_dead_library),
        TEST(says_when_there_are_no_more_queues),
        TEST(flushes_through_the_error_state),
        TEST(resets_a_queue_that_does_not_drain),
        TEST(cannot_promise_without_a_reset),
        TEST(misses_no_completion_before_arming),
        TEST(wakes_by_the_channel_after_arming),
        TEST(sleeps_until_another_thread_completes),
        TEST(wakes_by_the_descriptor),
        TEST(gives_up_when_the_port_goes_down),
        TEST(breaks_only_the_lane_that_an_event_names),
        TEST(shows_exactly_the_window),
        TEST(binds_memory_windows_on_hardware),
        TEST(cuts_the_connection_for_an_unsettled_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
