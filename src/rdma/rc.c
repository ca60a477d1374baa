/*
 * The rc transport: reliable connections over libibverbs, on any verbs NIC and on soft-RoCE. A lane
 * is a queue pair with its own completion queue and channel; it is paired with one peer before it
 * moves anything.
 *
 * What is relied on, besides queue.h:
 *
 * - An operation longer than the port's longest message is several work requests.
 * - A queue pair that modify_qp has brought to RESET neither sends nor receives: it is the fence,
 *   for our memory and for windows on it. The error state with a drained queue is as good for what
 *   we posted.
 * - A window is a memory window of type 2, bound to this queue pair, where the device has them: it
 *   covers exactly its bytes and one direction, and is withdrawn in a microsecond. Where there are
 *   none, or the lane is not paired yet (there a window cannot be bound), a registration of its own
 *   does the same at more cost.
 * - soft-RoCE rings the kernel with a write on the device's descriptor, and the kernel refuses that
 *   from anybody whose credentials are not those of the opener: open rails after dropping
 *   privileges, and not before a fork.
 */
#include "rdma/transport.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "rdma/port.h"
#include "rdma/queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* One operation moves at most so much; hipobj-rc-v2 wants nearly that. */
#define OPERATION_BYTES_MAX ((uint64_t)1 << 31)

/* RDMA READs in flight, either way, when both ends can. */
#define READS_MAX 16

/* For binding and withdrawing a window, which involve nobody else. */
#define LOCAL_MS 2000

#define RNR_TIMER 12 /* 0.64 ms */

/* To soft-RoCE 7 retries are endless ones, and a dead peer would never be noticed. */
#define SOFT_RETRIES_MAX 6

/*
 * Memory windows of type 2. Soft-RoCE has them too, but checks accesses against the whole
 * registration below (seen in Linux 6.1), so there they are not used.
 */
#define WINDOW_FLAGS (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)

#define PSN_MASK UINT32_C(0xffffff)
#define QPN_MASK UINT32_C(0xffffff)

struct rc_rail {
    struct rg_rail public;
    struct rg_port port;
    uint32_t operations; /* depth of a lane */
    uint32_t send_room;  /* work requests */
    bool has_windows;    /* memory windows of type 2 */
    uint8_t reads_in;    /* RDMA READs that a queue pair answers at a time */
    uint8_t reads_out;   /* and that it makes */
};

/* Named after what the lane waits for; LANE_FOR_RESET is what its queue says. */
enum lane_state { LANE_FOR_PAIRING, LANE_FOR_WORK, LANE_FOR_RESET };

struct rc_lane {
    struct rg_lane public;
    struct rc_rail *rail;
    struct rg_queue queue;
    bool is_paired;
    uint32_t psn;
    uint32_t peer_qpn;
    struct ibv_mw *idle_window; /* not bound; NULL: none */
};

enum key { KEY_OF_REGION, KEY_OF_REGISTRATION, KEY_OF_WINDOW };

struct rc_target {
    struct rg_target public;
    enum key key;
    struct ibv_mr *mr;
    struct ibv_mw *mw;
};

static struct rc_rail *rail_of(struct rg_rail *rail)
{
    return (struct rc_rail *)rail;
}

static struct rc_lane *lane_of(struct rg_lane *lane)
{
    return (struct rc_lane *)lane;
}

static struct rg_port_region *region_of(struct rg_region *region)
{
    return (struct rg_port_region *)region;
}

static const struct rg_verbs *verbs_of(const struct rc_lane *lane)
{
    return lane->rail->port.verbs;
}

static enum lane_state state_of(const struct rc_lane *lane)
{
    if (lane->queue.is_over) {
        return LANE_FOR_RESET;
    }
    return lane->is_paired ? LANE_FOR_WORK : LANE_FOR_PAIRING;
}

static int rc_load(struct rg_error *err)
{
    const struct rg_verbs *verbs;
    return rg_verbs_load(&verbs, err);
}

/* ---- Rails ---- */

static void size_queues(struct rc_rail *rail, const struct rg_rail_config *config)
{
    const struct rg_port *port = &rail->port;
    const uint64_t least = 1 + RG_QUEUE_LOCAL_OPERATIONS;
    uint64_t room = (uint64_t)RG_MAX(port->device.max_qp_wr, 0);
    uint64_t completions = (uint64_t)RG_MAX(port->device.max_cqe, 0);
    uint64_t pieces = (OPERATION_BYTES_MAX + port->message_bytes - 1) / port->message_bytes;
    room = RG_MIN(room, completions / 2);
    room = RG_MAX(room, least);
    rail->operations =
        (uint32_t)RG_MIN((uint64_t)config->lane_depth, room - RG_QUEUE_LOCAL_OPERATIONS);
    rail->send_room = (uint32_t)RG_MIN(room, pieces + rail->operations + RG_QUEUE_LOCAL_OPERATIONS);
    pieces = rail->send_room - RG_QUEUE_LOCAL_OPERATIONS;
    rail->public.operation_bytes_max = RG_MIN(OPERATION_BYTES_MAX, pieces * port->message_bytes);
}

static uint8_t clamp_reads(int reads)
{
    if (reads < 1) {
        return 1;
    }
    return (uint8_t)RG_MIN(reads, READS_MAX);
}

static int rc_rail_open(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                        struct rg_error *err)
{
    const struct rg_verbs *verbs;
    int rc = rg_verbs_load(&verbs, err);
    if (rc < 0) {
        return rc;
    }
    rg_autofree struct rc_rail *rail = calloc(1, sizeof *rail);
    if (!rail) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rc = rg_port_open(&rail->port, verbs, config, NULL, err);
    if (rc < 0) {
        return rc;
    }
    const struct ibv_device_attr *device = &rail->port.device;
    rg_port_describe(&rail->port, config, &rail->public);
    size_queues(rail, config);
    snprintf(rail->public.path, sizeof rail->public.path, "rc");
    rail->has_windows = rail->public.is_hardware && (device->device_cap_flags & WINDOW_FLAGS);
    rail->reads_in = clamp_reads(device->max_qp_rd_atom);
    rail->reads_out = clamp_reads(device->max_qp_init_rd_atom);
    *ret_rail = &RG_TAKE(rail)->public;
    return 0;
}

static void rc_rail_close(struct rg_rail *public)
{
    struct rc_rail *rail = rail_of(public);
    RG_ASSERT(atomic_load(&rail->port.users) == 0);
    rg_port_close(&rail->port);
    free(rail);
}

static int rc_rail_check(struct rg_rail *public, struct rg_error *err)
{
    struct rc_rail *rail = rail_of(public);
    rg_port_take_events(&rail->port, rg_queue_condemn);
    return rg_port_check(&rail->port, err);
}

/* ---- Memory ---- */

#define REMOTE_FLAGS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static int rc_region_register(struct rg_rail *public, void *address, uint64_t length,
                              unsigned access, struct rg_region **ret_region, struct rg_error *err)
{
    struct rc_rail *rail = rail_of(public);
    return rg_port_register(&rail->port, address, length,
                            rg_port_access(access, false, rail->has_windows), ret_region, err);
}

static int rc_region_register_dmabuf(struct rg_rail *public, int dmabuf_fd, uint64_t fd_offset,
                                     uint64_t address, uint64_t length, unsigned access,
                                     struct rg_region **ret_region, struct rg_error *err)
{
    struct rc_rail *rail = rail_of(public);
    return rg_port_register_dmabuf(&rail->port, dmabuf_fd, fd_offset, address, length,
                                   rg_port_access(access, true, rail->has_windows), ret_region,
                                   err);
}

static void rc_region_deregister(struct rg_region *region)
{
    rg_port_deregister(&rail_of(region->rail)->port, region);
}

/* ---- Queue pair states ---- */

static int to_init(struct rc_lane *lane)
{
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = lane->rail->port.number,
        .qp_access_flags = REMOTE_FLAGS,
    };
    return verbs_of(lane)->modify_qp(lane->queue.qp, &attributes,
                                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                         IBV_QP_ACCESS_FLAGS);
}

static int to_receive(struct rc_lane *lane, const struct rg_lane_address *peer, int sgid_index,
                      enum ibv_mtu mtu)
{
    const struct rg_rail_config *config = &lane->public.rail->config;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = mtu,
        .dest_qp_num = peer->qpn,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic = lane->rail->reads_in,
        .min_rnr_timer = RNR_TIMER,
        .ah_attr =
            {
                .dlid = lane->rail->port.is_ethernet ? 0 : peer->lid,
                .sl = config->service_level,
                .port_num = lane->rail->port.number,
                .is_global = peer->has_gid,
                .grh =
                    {
                        .sgid_index = (uint8_t)sgid_index,
                        .hop_limit = config->hop_limit,
                        .traffic_class = lane->rail->port.traffic_class,
                    },
            },
    };
    memcpy(attributes.ah_attr.grh.dgid.raw, peer->gid, sizeof peer->gid);
    return verbs_of(lane)->modify_qp(lane->queue.qp, &attributes,
                                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                         IBV_QP_MIN_RNR_TIMER);
}

static int to_send(struct rc_lane *lane, uint32_t psn, uint8_t peer_reads)
{
    const struct rg_rail_config *config = &lane->public.rail->config;
    uint8_t reads = peer_reads ? peer_reads : 1;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTS,
        .timeout = config->ack_timeout,
        .retry_cnt = lane->rail->public.is_hardware ? config->retry_count
                                                    : RG_MIN(config->retry_count, SOFT_RETRIES_MAX),
        .rnr_retry = config->rnr_retry,
        .sq_psn = psn,
        .max_rd_atomic = RG_MIN(reads, lane->rail->reads_out),
    };
    return verbs_of(lane)->modify_qp(lane->queue.qp, &attributes,
                                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                         IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                         IBV_QP_MAX_QP_RD_ATOMIC);
}

/* ---- Lanes ---- */

static int open_queues(struct rc_lane *lane, struct rg_error *err)
{
    struct rc_rail *rail = lane->rail;
    /* On error even what was not signaled completes. */
    int rc = rg_queue_open(&lane->queue, &rail->port, &lane->public,
                           rail->send_room + rail->operations, err);
    if (rc < 0) {
        return rc;
    }
    struct ibv_qp_init_attr attributes = {
        .qp_context = &lane->queue,
        .send_cq = lane->queue.cq,
        .recv_cq = lane->queue.cq,
        .cap = {.max_send_wr = rail->send_room,
                .max_recv_wr = rail->operations,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    errno = 0;
    lane->queue.qp = verbs_of(lane)->create_qp(rail->port.pd, &attributes);
    return lane->queue.qp ? 0 : rg_queue_fail(err, "queue pairs");
}

static void close_queues(struct rc_lane *lane)
{
    if (lane->idle_window) {
        (void)verbs_of(lane)->dealloc_mw(lane->idle_window);
    }
    rg_queue_close(&lane->queue);
}

static int rc_lane_open(struct rg_rail *public, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct rc_rail *rail = rail_of(public);
    rg_autofree struct rc_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    lane->rail = rail;
    lane->public.rail = public;
    lane->public.depth = rail->operations;
    int rc = open_queues(lane, err);
    if (rc == 0 && to_init(lane) != 0) {
        rc = rg_failf(err, RG_SERVICE_UNAVAILABLE, "The RDMA device does not start a queue pair.");
    }
    if (rc < 0) {
        close_queues(lane);
        return rc;
    }
    atomic_fetch_add(&rail->port.users, 1);
    *ret_lane = &RG_TAKE(lane)->public;
    return 0;
}

static void rc_lane_close(struct rg_lane *public)
{
    struct rc_lane *lane = lane_of(public);
    struct rc_rail *rail = lane->rail;
    close_queues(lane);
    free(lane);
    atomic_fetch_sub(&rail->port.users, 1);
}

static int rc_lane_reset(struct rg_lane *public, struct rg_error *err)
{
    struct rc_lane *lane = lane_of(public);
    int rc = rg_queue_restart(&lane->queue, err);
    if (rc < 0) {
        return rc;
    }
    if (lane->idle_window) {
        (void)verbs_of(lane)->dealloc_mw(RG_TAKE(lane->idle_window));
    }
    if (to_init(lane) != 0) {
        return rg_queue_break(&lane->queue, "the queue pair cannot be started again", err);
    }
    lane->psn = 0;
    lane->peer_qpn = 0;
    lane->is_paired = false;
    return 0;
}

static int rc_lane_poll(struct rg_lane *lane, struct rg_completion *completions, size_t room,
                        size_t *ret_count, struct rg_error *err)
{
    return rg_queue_poll(&lane_of(lane)->queue, completions, room, ret_count, err);
}

static int rc_lane_sleep(struct rg_lane *lane, int wake_fd, uint64_t timeout_us,
                         struct rg_error *err)
{
    return rg_queue_sleep(&lane_of(lane)->queue, wake_fd, timeout_us, err);
}

static int rc_lane_flush(struct rg_lane *public, unsigned *ret_quiet, struct rg_error *err)
{
    int rc = rg_queue_quiesce(&lane_of(public)->queue, err);
    if (rc < 0) {
        return rc;
    }
    *ret_quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE;
    return 0;
}

/* ---- Pairing ---- */

static uint32_t draw_psn(void)
{
    uint32_t psn;
    do {
        rg_random_bytes(&psn, sizeof psn);
        psn &= PSN_MASK;
    } while (psn == 0);
    return psn;
}

static int rc_lane_address(struct rg_lane *public, const struct rg_lane_address *peer,
                           struct rg_lane_address *ret_address, struct rg_error *err)
{
    struct rc_lane *lane = lane_of(public);
    const struct rg_port *port = &lane->rail->port;
    const struct rg_gid_entry *gid = port->gid;
    if (state_of(lane) == LANE_FOR_RESET) {
        return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED, NULL, err);
    }
    if (peer && peer->has_gid) {
        gid = rg_gid_toward(&port->gids, port->gid, port->is_ethernet, peer->gid);
    }
    if (lane->psn == 0) {
        lane->psn = draw_psn();
    }
    memset(ret_address, 0, sizeof *ret_address);
    ret_address->qpn = lane->queue.qp->qp_num;
    ret_address->psn = lane->psn;
    ret_address->lid = port->is_ethernet ? 0 : port->port.lid;
    ret_address->has_gid = true;
    memcpy(ret_address->gid, gid->gid, sizeof ret_address->gid);
    ret_address->port = port->number;
    ret_address->mtu = port->mtu;
    ret_address->reads_max = lane->rail->reads_in;
    return 0;
}

static int bad_peer(struct rg_error *err, const char *why)
{
    return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The peer's queue pair cannot be connected to: %s.",
                    why);
}

static int check_peer(const struct rg_port *port, const struct rg_lane_address *peer,
                      struct rg_error *err)
{
    enum rg_gid_scope scope = peer->has_gid ? rg_gid_scope(peer->gid) : RG_GID_ZERO;
    /* 0 and 1 are the management queue pairs. */
    if (peer->qpn < 2 || peer->qpn > QPN_MASK || peer->psn > PSN_MASK) {
        return bad_peer(err, "its number or packet number is out of range");
    }
    if (peer->mtu != 0 && rg_port_mtu(peer->mtu) == 0) {
        return bad_peer(err, "its MTU is too small");
    }
    if (scope == RG_GID_MULTICAST) {
        return bad_peer(err, "its GID is a multicast address");
    }
    if (port->is_ethernet && scope == RG_GID_ZERO) {
        return bad_peer(err, "it has no GID");
    }
    if (!port->is_ethernet && peer->lid == 0) {
        return bad_peer(err, "it has no LID, which InfiniBand needs");
    }
    return 0;
}

static const struct rg_gid_entry *source_gid(const struct rg_port *port,
                                             const struct rg_lane_address *own,
                                             const struct rg_lane_address *peer)
{
    if (own && own->has_gid) {
        return rg_gid_find(&port->gids, own->gid, port->gid);
    }
    return peer->has_gid ? rg_gid_toward(&port->gids, port->gid, port->is_ethernet, peer->gid)
                         : port->gid;
}

static int unreachable(struct rg_error *err, int result)
{
    return rg_fail_errno(err, RG_RDMA_TRANSFER_FAILED, rg_verbs_errno(result),
                         "The peer's queue pair cannot be reached");
}

static int rc_lane_pair(struct rg_lane *public, const struct rg_lane_address *own,
                        const struct rg_lane_address *peer, struct rg_error *err)
{
    struct rc_lane *lane = lane_of(public);
    const struct rg_port *port = &lane->rail->port;
    if (state_of(lane) != LANE_FOR_PAIRING) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The lane is paired already, or broke.");
    }
    int rc = check_peer(port, peer, err);
    if (rc < 0) {
        return rc;
    }
    const struct rg_gid_entry *gid = source_gid(port, own, peer);
    if (!gid) {
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The GID to connect from is not there.");
    }
    uint32_t psn = own ? own->psn & PSN_MASK : lane->psn;
    lane->psn = psn ? psn : draw_psn();
    uint32_t mtu = peer->mtu ? RG_MIN(peer->mtu, port->mtu) : port->mtu;
    int failed = to_receive(lane, peer, gid->index, rg_port_mtu(mtu));
    if (failed) {
        return unreachable(err, failed);
    }
    failed = to_send(lane, lane->psn, peer->reads_max);
    if (failed) {
        if (rg_queue_to_state(&lane->queue, IBV_QPS_RESET) != 0 || to_init(lane) != 0) {
            return rg_queue_break(&lane->queue, "the queue pair cannot be started again", err);
        }
        return unreachable(err, failed);
    }
    lane->peer_qpn = peer->qpn;
    lane->is_paired = true;
    return 0;
}

/* ---- Operations ---- */

static int rc_lane_bind(struct rg_lane *public, const struct rg_rdma_window *window,
                        struct rg_error *err)
{
    struct rc_lane *lane = lane_of(public);
    if (state_of(lane) != LANE_FOR_WORK) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The lane is not paired.");
    }
    if (window->rkey > UINT32_MAX) {
        return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The window's key has more than 32 bits.");
    }
    if (window->qpn != 0 && window->qpn != lane->peer_qpn) {
        return rg_failf(err, RG_INVALID_RDMA_TOKEN,
                        "The window belongs to another queue pair than the session.");
    }
    return 0;
}

static void rc_lane_unbind(struct rg_lane *lane)
{
}

/* Posts requests that have their numbers from `first` on. */
static int post(struct rc_lane *lane, struct ibv_send_wr *requests, size_t count, uint64_t first,
                struct rg_error *err)
{
    struct ibv_send_wr *bad = NULL;
    for (size_t i = 0; i < count; i++) {
        requests[i].wr_id = first + i;
        requests[i].next = i + 1 < count ? &requests[i + 1] : NULL;
    }
    errno = 0;
    int failed = verbs_of(lane)->post_send(lane->queue.qp, requests, &bad);
    return failed ? rg_queue_fail_post(&lane->queue, failed, err) : 0;
}

static uint64_t send_room(const struct rc_lane *lane)
{
    return lane->rail->send_room - rg_queue_depth(&lane->queue);
}

struct order {
    enum rg_queue_kind kind;
    struct rg_port_region *region;
    uint64_t region_offset;
    uint64_t window_offset;
    uint64_t length;
    const uint32_t *immediate;
    uint64_t cookie;
};

static void write_request(const struct rc_lane *lane, const struct order *order, uint64_t at,
                          uint64_t length, bool is_last, struct ibv_send_wr *request,
                          struct ibv_sge *piece)
{
    *piece = (struct ibv_sge){.addr = order->region->address + order->region_offset + at,
                              .length = (uint32_t)length,
                              .lkey = order->region->mr->lkey};
    *request = (struct ibv_send_wr){
        .sg_list = piece,
        .num_sge = length ? 1 : 0,
        .opcode = order->kind == RG_QUEUE_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
        .send_flags = is_last ? IBV_SEND_SIGNALED : 0,
        .wr.rdma.remote_addr = lane->public.window.address + order->window_offset + at,
        .wr.rdma.rkey = (uint32_t)lane->public.window.rkey,
    };
    if (is_last && order->immediate) {
        request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        request->imm_data = htonl(*order->immediate);
    }
}

static int post_order(struct rc_lane *lane, const struct order *order, struct rg_error *err)
{
    uint64_t most = lane->rail->port.message_bytes;
    uint64_t pieces = order->length ? (order->length + most - 1) / most : 1;
    if (state_of(lane) != LANE_FOR_WORK) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The lane is not paired.");
    }
    if (pieces > send_room(lane)) {
        return rg_fail(err, RG_LIMIT);
    }
    /* First, so that a completion that comes at once finds it. */
    uint64_t first =
        rg_queue_remember(&lane->queue, order->kind, order->cookie, order->length, pieces);
    for (uint64_t piece = 0; piece < pieces;) {
        struct ibv_send_wr requests[RG_QUEUE_BATCH];
        struct ibv_sge memory[RG_QUEUE_BATCH];
        size_t count = 0;
        for (; count < RG_QUEUE_BATCH && piece < pieces; count++, piece++) {
            uint64_t at = piece * most;
            write_request(lane, order, at, RG_MIN(most, order->length - at), piece + 1 == pieces,
                          &requests[count], &memory[count]);
        }
        int rc = post(lane, requests, count, first + piece - count, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int rc_lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                         uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                         uint64_t cookie, struct rg_error *err)
{
    struct order order = {.kind = RG_QUEUE_WRITE,
                          .region = region_of(region),
                          .region_offset = region_offset,
                          .window_offset = window_offset,
                          .length = length,
                          .immediate = immediate,
                          .cookie = cookie};
    return post_order(lane_of(lane), &order, err);
}

static int rc_lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                        uint64_t window_offset, uint64_t length, uint64_t cookie,
                        struct rg_error *err)
{
    struct order order = {.kind = RG_QUEUE_READ,
                          .region = region_of(region),
                          .region_offset = region_offset,
                          .window_offset = window_offset,
                          .length = length,
                          .cookie = cookie};
    return post_order(lane_of(lane), &order, err);
}

static int rc_lane_receive(struct rg_lane *public, uint64_t cookie, struct rg_error *err)
{
    struct rc_lane *lane = lane_of(public);
    struct ibv_recv_wr *bad = NULL;
    if (state_of(lane) == LANE_FOR_RESET) {
        return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED, NULL, err);
    }
    if (rg_queue_receives(&lane->queue) >= lane->rail->operations) {
        return rg_fail(err, RG_LIMIT);
    }
    struct ibv_recv_wr request = {.wr_id = rg_queue_remember_receive(&lane->queue, cookie)};
    errno = 0;
    int failed = verbs_of(lane)->post_recv(lane->queue.qp, &request, &bad);
    return failed ? rg_queue_fail_post(&lane->queue, failed, err) : 0;
}

/* ---- Windows ---- */

/* One work request that stays on this side; waits until it is done. */
static int run_local(struct rc_lane *lane, struct ibv_send_wr *request, struct rg_error *err)
{
    struct rg_queue *queue = &lane->queue;
    uint64_t deadline = rg_clock_ms() + LOCAL_MS;
    if (send_room(lane) == 0) {
        return rg_fail(err, RG_LIMIT);
    }
    request->send_flags = IBV_SEND_SIGNALED;
    uint64_t number = rg_queue_remember(queue, RG_QUEUE_LOCAL, 0, 0, 1);
    int rc = post(lane, request, 1, number, err);
    while (rc == 0 && queue->done <= number) {
        uint64_t now = rg_clock_ms();
        rc = rg_queue_pump(queue, err);
        if (rc < 0 || queue->done > number) {
            break;
        }
        if (now >= deadline) {
            return rg_queue_break(queue, "a window is neither bound nor refused", err);
        }
        rc = rg_queue_sleep(queue, -1, (deadline - now) * 1000, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (queue->local_status != IBV_WC_SUCCESS) {
        return rg_lane_break(&lane->public, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL,
                             verbs_of(lane)->wc_status_text(queue->local_status), err);
    }
    return 0;
}

static struct ibv_mw *take_window(struct rc_lane *lane)
{
    if (lane->idle_window) {
        return RG_TAKE(lane->idle_window);
    }
    errno = 0;
    return verbs_of(lane)->alloc_mw(lane->rail->port.pd);
}

static int bind_window(struct rc_lane *lane, struct rc_target *target,
                       struct rg_port_region *region, uint64_t address, uint64_t length, int right,
                       struct rg_error *err)
{
    struct ibv_mw *mw = take_window(lane);
    if (!mw) {
        return rg_queue_fail(err, "memory windows");
    }
    uint32_t key = ibv_inc_rkey(mw->rkey);
    struct ibv_send_wr request = {
        .opcode = IBV_WR_BIND_MW,
        .bind_mw = {.mw = mw,
                    .rkey = key,
                    .bind_info = {.mr = region->mr,
                                  .addr = address,
                                  .length = length,
                                  .mw_access_flags = (unsigned)right}},
    };
    int rc = run_local(lane, &request, err);
    if (rc < 0) {
        (void)verbs_of(lane)->dealloc_mw(mw);
        return rc;
    }
    mw->rkey = key;
    target->mw = mw;
    target->key = KEY_OF_WINDOW;
    target->public.window.rkey = key;
    return 0;
}

static int register_window(struct rc_lane *lane, struct rc_target *target, void *address,
                           uint64_t length, int right, struct rg_error *err)
{
    int flags = right | (right == IBV_ACCESS_REMOTE_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0);
    int rc = rg_port_register_mr(&lane->rail->port, address, length, flags, &target->mr, err);
    if (rc < 0) {
        return rc;
    }
    target->key = KEY_OF_REGISTRATION;
    target->public.window.rkey = target->mr->rkey;
    return 0;
}

static int make_key(struct rc_lane *lane, struct rc_target *target, struct rg_port_region *region,
                    uint64_t offset, uint64_t length, int right, struct rg_error *err)
{
    if (region->takes_windows && state_of(lane) == LANE_FOR_WORK) {
        return bind_window(lane, target, region, region->address + offset, length, right, err);
    }
    if (rg_port_is_exact(region, offset, length, right)) {
        target->key = KEY_OF_REGION;
        target->public.window.rkey = region->mr->rkey;
        return 0;
    }
    if (!region->public.address) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "Device memory needs a paired lane before a window can be made on it.");
    }
    return register_window(lane, target, (char *)region->public.address + offset, length, right,
                           err);
}

static int rc_window_mint(struct rg_lane *public, struct rg_region *region, uint64_t offset,
                          uint64_t length, enum rg_direction direction,
                          struct rg_target **ret_target, struct rg_error *err)
{
    struct rc_lane *lane = lane_of(public);
    const struct rg_port *port = &lane->rail->port;
    int right = direction == RG_DIRECTION_GET ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
    rg_autofree struct rc_target *target = calloc(1, sizeof *target);
    if (!target) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct rg_rdma_window *window = &target->public.window;
    int rc = make_key(lane, target, region_of(region), offset, length, right, err);
    if (rc < 0) {
        return rc;
    }
    window->dialect = RG_DIALECT_RC_SESSION;
    window->transport = RG_TRANSPORT_RC;
    window->address = region_of(region)->address + offset;
    window->length = length;
    window->qpn = lane->queue.qp->qp_num;
    window->lid = port->is_ethernet ? 0 : port->port.lid;
    window->port = port->number;
    window->has_gid = true;
    memcpy(window->gid, port->gid->gid, sizeof window->gid);
    *ret_target = &RG_TAKE(target)->public;
    return 0;
}

static bool unbind_window(struct rc_lane *lane, struct rc_target *target)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = target->mw->rkey};
    if (state_of(lane) != LANE_FOR_WORK || run_local(lane, &request, NULL) < 0) {
        return false;
    }
    if (lane->idle_window) {
        (void)verbs_of(lane)->dealloc_mw(target->mw);
    } else {
        lane->idle_window = target->mw;
    }
    target->mw = NULL;
    return true;
}

/* Whether the key is dead for certain; one of a region dies with the region. */
static bool destroy_key(struct rc_lane *lane, struct rc_target *target)
{
    switch (target->key) {
    case KEY_OF_WINDOW:
        return verbs_of(lane)->dealloc_mw(target->mw) == 0;
    case KEY_OF_REGISTRATION:
        return verbs_of(lane)->dereg_mr(target->mr) == 0;
    case KEY_OF_REGION:
        break;
    }
    return false;
}

/* Withdraws the key of a window whose peer has finished, without harm to the connection. */
static bool withdraw(struct rc_lane *lane, struct rc_target *target)
{
    switch (target->key) {
    case KEY_OF_WINDOW:
        return unbind_window(lane, target);
    case KEY_OF_REGISTRATION:
        return destroy_key(lane, target);
    case KEY_OF_REGION:
        break;
    }
    return true;
}

static int rc_window_revoke(struct rg_target *public, bool settled, struct rg_error *err)
{
    struct rc_lane *lane = lane_of(public->lane);
    rg_autofree struct rc_target *target = (struct rc_target *)public;
    if (settled && withdraw(lane, target)) {
        return 0;
    }
    int rc = rg_queue_stop(&lane->queue, err);
    if (rc == 0) {
        (void)rg_lane_break(&lane->public, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED, NULL, NULL);
    }
    /* A key that is gone is as good a fence as a queue pair that is stopped. */
    return destroy_key(lane, target) ? 0 : rc;
}

const struct rg_transport rg_transport_rc = {
    .name = "rc",
    .kind = RG_TRANSPORT_RC,
    .load = rc_load,
    .rail_open = rc_rail_open,
    .rail_close = rc_rail_close,
    .rail_check = rc_rail_check,
    .region_register = rc_region_register,
    .region_register_dmabuf = rc_region_register_dmabuf,
    .region_deregister = rc_region_deregister,
    .lane_open = rc_lane_open,
    .lane_close = rc_lane_close,
    .lane_reset = rc_lane_reset,
    .lane_address = rc_lane_address,
    .lane_pair = rc_lane_pair,
    .lane_bind = rc_lane_bind,
    .lane_unbind = rc_lane_unbind,
    .lane_write = rc_lane_write,
    .lane_read = rc_lane_read,
    .lane_receive = rc_lane_receive,
    .lane_poll = rc_lane_poll,
    .lane_sleep = rc_lane_sleep,
    .lane_flush = rc_lane_flush,
    .lane_progress = rg_unneeded_progress,
    .window_mint = rc_window_mint,
    .window_revoke = rc_window_revoke,
};
