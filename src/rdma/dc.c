/*
 * The dc transport: Dynamically Connected queue pairs of mlx5 NICs. A lane is an initiator (DCI)
 * with its own completion queue: it needs no pairing, but names the peer in every work request, by
 * an address handle, the number of the peer's target (DCT) and the access key that both ends were
 * given. On the client's side a lane has a target of its own, made when the first window is.
 *
 * What is relied on, besides queue.h:
 *
 * - An initiator serves one destination at a time and completes in order. After a failed work
 *   request it is in the error state, and a cycle through RESET makes it as new.
 * - The kernel's rules for the states of an initiator and a target (what modify_qp must and must
 *   not set), which differ from those of other queue pairs.
 * - A target has no queue that could be drained. What fences a window is that its key is taken
 *   back, or that the target is destroyed; the driver waits for the hardware in both.
 *
 * Nothing here was ever run on hardware: tests put a library of their own beneath it, and
 * rg_dc_selftest is for somebody who has a ConnectX.
 */
#include "rdma/transport.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/random.h"
#include "rdma/mlx5.h"
#include "rdma/port.h"
#include "rdma/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One operation moves at most so much. */
#define OPERATION_BYTES_MAX ((uint64_t)1 << 31)

/* RDMA READs in flight, when the device can. */
#define READS_MAX 16

/* Address handles kept for peers that may come again. */
#define HANDLES_MAX 256

#define RNR_TIMER 12 /* 0.64 ms */

#define PSN_MASK  UINT32_C(0xffffff)
#define DCTN_MASK UINT32_C(0xffffff)

#define REMOTE_FLAGS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Where a peer is. */
struct place {
    bool has_gid;
    uint16_t lid;
    uint8_t sgid_index; /* of ours */
    uint8_t gid[16];
};

/* An address handle and the lanes that use it. */
struct handle {
    struct place place;
    struct ibv_ah *ah;
    unsigned users;
    bool is_cached;
    uint64_t last_use; /* by the cache's clock, which counts */
};

struct dc_rail {
    struct rg_rail public;
    struct rg_port port;
    const struct rg_mlx5 *mlx5;
    uint32_t operations; /* depth of a lane */
    uint32_t send_room;  /* work requests */
    uint8_t reads_out;
    pthread_mutex_t handle_lock;
    struct handle *handles[HANDLES_MAX];
    size_t handle_count;
    uint64_t handle_clock;
};

/* The client's side of a lane. */
struct end {
    struct ibv_srq *srq; /* a target must have one, though nothing is ever received */
    struct ibv_qp *dct;
    uint32_t number;
};

struct dc_lane {
    struct rg_lane public;
    struct dc_rail *rail;
    struct rg_queue queue;
    struct ibv_qp_ex *qp;
    struct mlx5dv_qp_ex *direct;
    struct handle *handle; /* of the window's peer; NULL: not bound */
    struct end end;
};

struct dc_target {
    struct rg_target public;
    struct ibv_mr *mr; /* of its own; NULL: the key is the region's */
};

static struct dc_rail *rail_of(struct rg_rail *rail)
{
    return (struct dc_rail *)rail;
}

static struct dc_lane *lane_of(struct rg_lane *lane)
{
    return (struct dc_lane *)lane;
}

static struct rg_port_region *region_of(struct rg_region *region)
{
    return (struct rg_port_region *)region;
}

static const struct rg_verbs *verbs_of(const struct dc_lane *lane)
{
    return lane->rail->port.verbs;
}

static int dc_load(struct rg_error *err)
{
    const struct rg_verbs *verbs;
    const struct rg_mlx5 *mlx5;
    int rc = rg_verbs_load(&verbs, err);
    return rc < 0 ? rc : rg_mlx5_load(&mlx5, err);
}

/* ---- Queue pairs ---- */

static struct ibv_qp *create_initiator(const struct dc_rail *rail, struct rg_queue *queue)
{
    struct ibv_qp_init_attr_ex attributes = {
        .qp_context = queue,
        .send_cq = queue->cq,
        .recv_cq = queue->cq,
        .cap = {.max_send_wr = rail->send_room, .max_send_sge = 1},
        .qp_type = IBV_QPT_DRIVER,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = rail->port.pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ,
    };
    struct mlx5dv_qp_init_attr direct = {
        .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
        .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI},
    };
    errno = 0;
    return rail->mlx5->create_qp(rail->port.context, &attributes, &direct);
}

/* RESET to RTS. */
static int start_initiator(const struct dc_rail *rail, struct ibv_qp *qp)
{
    const struct rg_rail_config *config = &rail->public.config;
    const struct rg_verbs *verbs = rail->port.verbs;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = rail->port.number};
    int failed = verbs->modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
    if (failed) {
        return failed;
    }
    attributes =
        (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = rg_port_mtu(rail->port.mtu)};
    failed = verbs->modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PATH_MTU);
    if (failed) {
        return failed;
    }
    attributes = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = config->ack_timeout,
        .retry_cnt = config->retry_count,
        .rnr_retry = config->rnr_retry,
        .max_rd_atomic = rail->reads_out,
    };
    rg_random_bytes(&attributes.sq_psn, sizeof attributes.sq_psn);
    attributes.sq_psn &= PSN_MASK;
    return verbs->modify_qp(qp, &attributes,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* ---- Rails ---- */

static void size_queues(struct dc_rail *rail, const struct rg_rail_config *config)
{
    const struct rg_port *port = &rail->port;
    /* The device counts in blocks, and a DC request takes two. */
    uint64_t room = (uint64_t)RG_MAX(port->device.max_qp_wr, 0) / 2;
    uint64_t pieces = (OPERATION_BYTES_MAX + port->message_bytes - 1) / port->message_bytes;
    uint64_t completions = (uint64_t)RG_MAX(port->device.max_cqe, 0);
    room = RG_MIN(room, completions);
    room = RG_MAX(room, (uint64_t)1);
    rail->operations = (uint32_t)RG_MIN((uint64_t)config->lane_depth, room);
    rail->send_room = (uint32_t)RG_MIN(room, pieces + rail->operations);
    rail->public.operation_bytes_max =
        RG_MIN(OPERATION_BYTES_MAX, rail->send_room * port->message_bytes);
}

static void close_rail(struct dc_rail *rail)
{
    for (size_t i = 0; i < rail->handle_count; i++) {
        (void)rail->port.verbs->destroy_ah(rail->handles[i]->ah);
        free(rail->handles[i]);
    }
    rg_port_close(&rail->port);
    RG_MUST(pthread_mutex_destroy(&rail->handle_lock));
    free(rail);
}

/* Some devices allow an initiator fewer READs at a time than they claim for other queue pairs. */
static int start_with_fewer_reads(struct dc_rail *rail, struct rg_queue *queue)
{
    int failed = start_initiator(rail, queue->qp);
    while (failed && rail->reads_out > 1) {
        rail->reads_out /= 2;
        failed = rg_queue_to_state(queue, IBV_QPS_RESET);
        failed = failed ? failed : start_initiator(rail, queue->qp);
    }
    return failed;
}

/* Whether the device really has DC is only known when one is made. */
static int try_initiator(struct dc_rail *rail, struct rg_error *err)
{
    struct rg_queue queue = {0};
    struct rg_lane nobody = {.rail = &rail->public};
    int rc = rg_queue_open(&queue, &rail->port, &nobody, rail->send_room, err);
    if (rc == 0) {
        queue.qp = create_initiator(rail, &queue);
        if (!queue.qp) {
            rc = rg_fail_errno(err, RG_RDMA_NOT_SUPPORTED, rg_verbs_errno(-1),
                               "RDMA device %s gives no DC initiator", rail->public.device);
        }
    }
    int failed = rc == 0 ? start_with_fewer_reads(rail, &queue) : 0;
    if (failed) {
        rc = rg_fail_errno(err, RG_RDMA_NOT_SUPPORTED, rg_verbs_errno(failed),
                           "RDMA device %s does not start a DC initiator", rail->public.device);
    }
    rg_queue_close(&queue);
    return rc;
}

static bool suits(struct ibv_device *device, const struct ibv_device_attr *attributes)
{
    const struct rg_mlx5 *mlx5;
    return rg_mlx5_load(&mlx5, NULL) == 0 && mlx5->is_supported(device);
}

static int open_port(struct dc_rail *rail, const struct rg_rail_config *config,
                     struct rg_error *err)
{
    const struct rg_verbs *verbs;
    int rc = rg_verbs_load(&verbs, err);
    if (rc == 0) {
        rc = rg_mlx5_load(&rail->mlx5, err);
    }
    return rc < 0 ? rc : rg_port_open(&rail->port, verbs, config, suits, err);
}

static int dc_rail_open(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                        struct rg_error *err)
{
    struct dc_rail *rail = calloc(1, sizeof *rail);
    if (!rail) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_MUST(pthread_mutex_init(&rail->handle_lock, NULL));
    int rc = open_port(rail, config, err);
    if (rc == 0) {
        int reads = rail->port.device.max_qp_init_rd_atom;
        rg_port_describe(&rail->port, config, &rail->public);
        size_queues(rail, config);
        snprintf(rail->public.path, sizeof rail->public.path, "dc");
        rail->public.config = *config; /* needed before the caller sets it */
        reads = RG_MAX(reads, 1);
        rail->reads_out = (uint8_t)RG_MIN(reads, READS_MAX);
        rc = try_initiator(rail, err);
    }
    if (rc < 0) {
        close_rail(rail);
        return rc;
    }
    *ret_rail = &rail->public;
    return 0;
}

static void dc_rail_close(struct rg_rail *public)
{
    struct dc_rail *rail = rail_of(public);
    RG_ASSERT(atomic_load(&rail->port.users) == 0);
    close_rail(rail);
}

static int dc_rail_check(struct rg_rail *public, struct rg_error *err)
{
    struct dc_rail *rail = rail_of(public);
    rg_port_take_events(&rail->port, rg_queue_condemn);
    return rg_port_check(&rail->port, err);
}

/* ---- Memory ---- */

static int dc_region_register(struct rg_rail *public, void *address, uint64_t length,
                              unsigned access, struct rg_region **ret_region, struct rg_error *err)
{
    struct dc_rail *rail = rail_of(public);
    return rg_port_register(&rail->port, address, length, rg_port_access(access, false, false),
                            ret_region, err);
}

static int dc_region_register_dmabuf(struct rg_rail *public, int dmabuf_fd, uint64_t fd_offset,
                                     uint64_t address, uint64_t length, unsigned access,
                                     struct rg_region **ret_region, struct rg_error *err)
{
    struct dc_rail *rail = rail_of(public);
    return rg_port_register_dmabuf(&rail->port, dmabuf_fd, fd_offset, address, length,
                                   rg_port_access(access, true, false), ret_region, err);
}

static void dc_region_deregister(struct rg_region *region)
{
    rg_port_deregister(&rail_of(region->rail)->port, region);
}

/* ---- Address handles ---- */

static bool is_same_place(const struct place *left, const struct place *right)
{
    return left->has_gid == right->has_gid && left->lid == right->lid &&
           left->sgid_index == right->sgid_index &&
           memcmp(left->gid, right->gid, sizeof left->gid) == 0;
}

/* The next four with the lock held. */

static struct handle *find_handle(struct dc_rail *rail, const struct place *place)
{
    for (size_t i = 0; i < rail->handle_count; i++) {
        if (is_same_place(&rail->handles[i]->place, place)) {
            rail->handles[i]->users++;
            rail->handles[i]->last_use = ++rail->handle_clock;
            return rail->handles[i];
        }
    }
    return NULL;
}

static void drop_from_cache(struct dc_rail *rail, struct handle *handle)
{
    for (size_t i = 0; i < rail->handle_count; i++) {
        if (rail->handles[i] == handle) {
            rail->handles[i] = rail->handles[--rail->handle_count];
            handle->is_cached = false;
            return;
        }
    }
}

/* The one that nobody uses and that was not used for longest, taken out; NULL: all are in use. */
static struct handle *take_oldest(struct dc_rail *rail)
{
    struct handle *oldest = NULL;
    for (size_t i = 0; i < rail->handle_count; i++) {
        struct handle *handle = rail->handles[i];
        if (handle->users == 0 && (!oldest || handle->last_use < oldest->last_use)) {
            oldest = handle;
        }
    }
    if (oldest) {
        drop_from_cache(rail, oldest);
    }
    return oldest;
}

/* Returns what has to be freed. */
static struct handle *enter_handle(struct dc_rail *rail, struct handle *handle)
{
    struct handle *victim = rail->handle_count == HANDLES_MAX ? take_oldest(rail) : NULL;
    if (rail->handle_count < HANDLES_MAX) {
        rail->handles[rail->handle_count++] = handle;
        handle->is_cached = true;
        handle->last_use = ++rail->handle_clock;
    }
    return victim;
}

static void free_handle(struct dc_rail *rail, struct handle *handle)
{
    if (handle) {
        (void)rail->port.verbs->destroy_ah(handle->ah);
        free(handle);
    }
}

static int create_handle(struct dc_rail *rail, const struct place *place,
                         struct handle **ret_handle, struct rg_error *err)
{
    const struct rg_rail_config *config = &rail->public.config;
    rg_autofree struct handle *handle = calloc(1, sizeof *handle);
    if (!handle) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct ibv_ah_attr attributes = {
        .dlid = place->lid,
        .sl = config->service_level,
        .port_num = rail->port.number,
        .is_global = place->has_gid,
    };
    if (place->has_gid) {
        attributes.grh.sgid_index = place->sgid_index;
        attributes.grh.hop_limit = config->hop_limit;
        attributes.grh.traffic_class = rail->port.traffic_class;
        memcpy(attributes.grh.dgid.raw, place->gid, sizeof place->gid);
    }
    handle->place = *place;
    handle->users = 1;
    errno = 0;
    handle->ah = rail->port.verbs->create_ah(rail->port.pd, &attributes);
    if (!handle->ah) {
        /* On RoCE the kernel has to find out the peer's MAC address for it. */
        return rg_fail_errno(err, RG_RDMA_TRANSFER_FAILED, rg_verbs_errno(-1),
                             "The peer's address cannot be reached");
    }
    *ret_handle = RG_TAKE(handle);
    return 0;
}

/* Making one may take a second, for which nobody else shall wait. */
static int acquire_handle(struct dc_rail *rail, const struct place *place,
                          struct handle **ret_handle, struct rg_error *err)
{
    RG_MUST(pthread_mutex_lock(&rail->handle_lock));
    struct handle *handle = find_handle(rail, place);
    RG_MUST(pthread_mutex_unlock(&rail->handle_lock));
    if (handle) {
        *ret_handle = handle;
        return 0;
    }
    int rc = create_handle(rail, place, &handle, err);
    if (rc < 0) {
        return rc;
    }
    RG_MUST(pthread_mutex_lock(&rail->handle_lock));
    struct handle *other = find_handle(rail, place); /* somebody was faster */
    struct handle *surplus = other ? handle : enter_handle(rail, handle);
    handle = other ? other : handle;
    RG_MUST(pthread_mutex_unlock(&rail->handle_lock));
    free_handle(rail, surplus);
    *ret_handle = handle;
    return 0;
}

/* One whose peer did not answer is not kept: the peer may have moved to another port. */
static void release_handle(struct dc_lane *lane)
{
    struct dc_rail *rail = lane->rail;
    struct handle *handle = RG_TAKE(lane->handle);
    if (!handle) {
        return;
    }
    RG_MUST(pthread_mutex_lock(&rail->handle_lock));
    if (lane->public.cause == RG_CAUSE_PEER_GONE && handle->is_cached) {
        drop_from_cache(rail, handle);
    }
    handle->users--;
    bool is_over = handle->users == 0 && !handle->is_cached;
    RG_MUST(pthread_mutex_unlock(&rail->handle_lock));
    if (is_over) {
        free_handle(rail, handle);
    }
}

/* ---- Lanes ---- */

static void close_end(struct dc_lane *lane)
{
    struct end *end = &lane->end;
    if (end->dct) {
        (void)verbs_of(lane)->destroy_qp(end->dct);
    }
    if (end->srq) {
        (void)verbs_of(lane)->destroy_srq(end->srq);
    }
    *end = (struct end){0};
}

static int open_queue(struct dc_lane *lane, struct rg_error *err)
{
    struct dc_rail *rail = lane->rail;
    /* On error even what was not signaled completes. */
    int rc = rg_queue_open(&lane->queue, &rail->port, &lane->public, rail->send_room, err);
    if (rc < 0) {
        return rc;
    }
    lane->queue.qp = create_initiator(rail, &lane->queue);
    if (!lane->queue.qp) {
        return rg_queue_fail(err, "DC initiators");
    }
    lane->qp = rail->mlx5->qp_to_qp_ex(lane->queue.qp);
    lane->direct = lane->qp ? rail->mlx5->qp_ex_to_direct(lane->qp) : NULL;
    if (!lane->direct || start_initiator(rail, lane->queue.qp) != 0) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE,
                        "The RDMA device does not start a DC initiator.");
    }
    return 0;
}

static int dc_lane_open(struct rg_rail *public, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct dc_rail *rail = rail_of(public);
    rg_autofree struct dc_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    lane->rail = rail;
    lane->public.rail = public;
    lane->public.depth = rail->operations;
    int rc = open_queue(lane, err);
    if (rc < 0) {
        rg_queue_close(&lane->queue);
        return rc;
    }
    atomic_fetch_add(&rail->port.users, 1);
    *ret_lane = &RG_TAKE(lane)->public;
    return 0;
}

static void dc_lane_close(struct rg_lane *public)
{
    struct dc_lane *lane = lane_of(public);
    struct dc_rail *rail = lane->rail;
    close_end(lane);
    rg_queue_close(&lane->queue);
    release_handle(lane);
    free(lane);
    atomic_fetch_sub(&rail->port.users, 1);
}

static int dc_lane_reset(struct rg_lane *public, struct rg_error *err)
{
    struct dc_lane *lane = lane_of(public);
    release_handle(lane);
    close_end(lane);
    int rc = rg_queue_restart(&lane->queue, err);
    if (rc < 0) {
        return rc;
    }
    if (start_initiator(lane->rail, lane->queue.qp) != 0) {
        return rg_queue_break(&lane->queue, "the DC initiator cannot be started again", err);
    }
    return 0;
}

static int bad_window(struct rg_error *err, const char *why)
{
    return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The token's target cannot be addressed: %s.", why);
}

static int check_window(const struct rg_port *port, const struct rg_rdma_window *window,
                        struct rg_error *err)
{
    enum rg_gid_scope scope = window->has_gid ? rg_gid_scope(window->gid) : RG_GID_ZERO;
    if (window->qpn == 0 || window->qpn > DCTN_MASK || window->rkey > UINT32_MAX) {
        return bad_window(err, "its number or key is out of range");
    }
    if (scope == RG_GID_MULTICAST || (window->has_gid && scope == RG_GID_ZERO)) {
        return bad_window(err, "its GID is none of a port");
    }
    if (port->is_ethernet && !window->has_gid) {
        return bad_window(err, "it has no GID, which RoCE needs");
    }
    if (!port->is_ethernet && window->lid == 0) {
        return bad_window(err, "it has no LID, which InfiniBand needs");
    }
    return 0;
}

static int dc_lane_bind(struct rg_lane *public, const struct rg_rdma_window *window,
                        struct rg_error *err)
{
    struct dc_lane *lane = lane_of(public);
    const struct rg_port *port = &lane->rail->port;
    int rc = check_window(port, window, err);
    if (rc < 0) {
        return rc;
    }
    struct place place = {.has_gid = window->has_gid, .lid = port->is_ethernet ? 0 : window->lid};
    if (window->has_gid) {
        const struct rg_gid_entry *own =
            rg_gid_toward(&port->gids, port->gid, port->is_ethernet, window->gid);
        place.sgid_index = (uint8_t)own->index;
        memcpy(place.gid, window->gid, sizeof place.gid);
    }
    struct handle *handle;
    rc = acquire_handle(lane->rail, &place, &handle, err);
    if (rc < 0) {
        return rc;
    }
    release_handle(lane);
    lane->handle = handle;
    return 0;
}

static void dc_lane_unbind(struct rg_lane *lane)
{
    release_handle(lane_of(lane));
}

/* ---- Posting ---- */

struct order {
    enum rg_queue_kind kind;
    struct rg_port_region *region;
    uint64_t region_offset;
    uint64_t window_offset;
    uint64_t length;
    uint64_t cookie;
};

static void build_request(struct dc_lane *lane, const struct order *order, uint64_t at,
                          uint64_t length, uint64_t number, bool is_last)
{
    const struct rg_rdma_window *window = &lane->public.window;
    uint64_t remote = window->address + order->window_offset + at;
    lane->qp->wr_id = number;
    lane->qp->wr_flags = is_last ? IBV_SEND_SIGNALED : 0;
    if (order->kind == RG_QUEUE_READ) {
        ibv_wr_rdma_read(lane->qp, (uint32_t)window->rkey, remote);
    } else {
        ibv_wr_rdma_write(lane->qp, (uint32_t)window->rkey, remote);
    }
    mlx5dv_wr_set_dc_addr(lane->direct, lane->handle->ah, window->qpn,
                          lane->public.rail->config.dc_key);
    ibv_wr_set_sge(lane->qp, order->region->mr->lkey,
                   order->region->address + order->region_offset + at, (uint32_t)length);
}

static int post_order(struct dc_lane *lane, const struct order *order, struct rg_error *err)
{
    uint64_t most = lane->rail->port.message_bytes;
    uint64_t pieces = (order->length + most - 1) / most;
    if (lane->queue.is_over || !lane->handle) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The lane has no peer, or broke.");
    }
    if (pieces > lane->rail->send_room - rg_queue_depth(&lane->queue)) {
        return rg_fail(err, RG_LIMIT);
    }
    /* First, so that a completion that comes at once finds it. */
    uint64_t first =
        rg_queue_remember(&lane->queue, order->kind, order->cookie, order->length, pieces);
    ibv_wr_start(lane->qp);
    for (uint64_t piece = 0; piece < pieces; piece++) {
        uint64_t at = piece * most;
        build_request(lane, order, at, RG_MIN(most, order->length - at), first + piece,
                      piece + 1 == pieces);
    }
    errno = 0;
    int failed = ibv_wr_complete(lane->qp);
    return failed ? rg_queue_fail_post(&lane->queue, failed, err) : 0;
}

static int dc_lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                         uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                         uint64_t cookie, struct rg_error *err)
{
    if (immediate || length == 0) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "Transport dc sends no immediate values.");
    }
    struct order order = {.kind = RG_QUEUE_WRITE,
                          .region = region_of(region),
                          .region_offset = region_offset,
                          .window_offset = window_offset,
                          .length = length,
                          .cookie = cookie};
    return post_order(lane_of(lane), &order, err);
}

static int dc_lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
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

static int dc_lane_poll(struct rg_lane *lane, struct rg_completion *completions, size_t room,
                        size_t *ret_count, struct rg_error *err)
{
    return rg_queue_poll(&lane_of(lane)->queue, completions, room, ret_count, err);
}

static int dc_lane_sleep(struct rg_lane *lane, int wake_fd, uint64_t timeout_us,
                         struct rg_error *err)
{
    return rg_queue_sleep(&lane_of(lane)->queue, wake_fd, timeout_us, err);
}

static int dc_lane_flush(struct rg_lane *public, unsigned *ret_quiet, struct rg_error *err)
{
    struct dc_lane *lane = lane_of(public);
    int rc = rg_queue_quiesce(&lane->queue, err);
    if (rc < 0) {
        return rc;
    }
    release_handle(lane);
    *ret_quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE;
    return 0;
}

/* ---- The target's side ---- */

static int create_end(struct dc_lane *lane, struct rg_error *err)
{
    struct dc_rail *rail = lane->rail;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};
    errno = 0;
    lane->end.srq = verbs_of(lane)->create_srq(rail->port.pd, &srq);
    if (!lane->end.srq) {
        return rg_queue_fail(err, "shared receive queues");
    }
    struct ibv_qp_init_attr_ex attributes = {
        .qp_context = &lane->queue,
        .send_cq = lane->queue.cq,
        .recv_cq = lane->queue.cq,
        .srq = lane->end.srq,
        .qp_type = IBV_QPT_DRIVER,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = rail->port.pd,
    };
    struct mlx5dv_qp_init_attr direct = {
        .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
        .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT,
                         .dct_access_key = rail->public.config.dc_key},
    };
    lane->end.dct = rail->mlx5->create_qp(rail->port.context, &attributes, &direct);
    return lane->end.dct ? 0 : rg_queue_fail(err, "DC targets");
}

/* RESET to RTR, which is where a target works; only then has it a number. */
static int start_end(struct dc_lane *lane)
{
    const struct rg_rail_config *config = &lane->public.rail->config;
    const struct rg_port *port = &lane->rail->port;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = port->number,
        .qp_access_flags = REMOTE_FLAGS,
    };
    int failed = verbs_of(lane)->modify_qp(lane->end.dct, &attributes,
                                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                               IBV_QP_ACCESS_FLAGS);
    if (failed) {
        return failed;
    }
    attributes = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = rg_port_mtu(port->mtu),
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = {.is_global = 1,
                    .sl = config->service_level,
                    .port_num = port->number,
                    .grh = {.sgid_index = (uint8_t)port->gid->index,
                            .hop_limit = config->hop_limit,
                            .traffic_class = port->traffic_class}},
    };
    return verbs_of(lane)->modify_qp(lane->end.dct, &attributes,
                                     IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV |
                                         IBV_QP_PATH_MTU);
}

static int open_end(struct dc_lane *lane, struct rg_error *err)
{
    if (lane->end.number) {
        return 0;
    }
    int rc = create_end(lane, err);
    if (rc == 0) {
        int failed = start_end(lane);
        lane->end.number = failed ? 0 : lane->end.dct->qp_num & DCTN_MASK;
        if (failed || lane->end.number == 0) {
            rc = rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, failed ? rg_verbs_errno(failed) : EIO,
                               "The RDMA device does not start a DC target");
        }
    }
    if (rc < 0) {
        close_end(lane);
    }
    return rc;
}

static int make_key(struct dc_lane *lane, struct dc_target *target, struct rg_port_region *region,
                    uint64_t offset, uint64_t length, int right, struct rg_error *err)
{
    if (rg_port_is_exact(region, offset, length, right)) {
        target->public.window.rkey = region->mr->rkey;
        return 0;
    }
    if (!region->public.address) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "Device memory was not registered for this direction.");
    }
    int flags = right | (right == IBV_ACCESS_REMOTE_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0);
    int rc = rg_port_register_mr(&lane->rail->port, (char *)region->public.address + offset, length,
                                 flags, &target->mr, err);
    if (rc < 0) {
        return rc;
    }
    target->public.window.rkey = target->mr->rkey;
    return 0;
}

static int dc_window_mint(struct rg_lane *public, struct rg_region *region, uint64_t offset,
                          uint64_t length, enum rg_direction direction,
                          struct rg_target **ret_target, struct rg_error *err)
{
    struct dc_lane *lane = lane_of(public);
    const struct rg_port *port = &lane->rail->port;
    int right = direction == RG_DIRECTION_GET ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
    if (length > UINT32_MAX) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "A window for DC ends below 4 GiB.");
    }
    rg_autofree struct dc_target *target = calloc(1, sizeof *target);
    if (!target) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = open_end(lane, err);
    if (rc == 0) {
        rc = make_key(lane, target, region_of(region), offset, length, right, err);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_rdma_window *window = &target->public.window;
    window->dialect = RG_DIALECT_D1;
    window->transport = RG_TRANSPORT_DC;
    window->address = region_of(region)->address + offset;
    window->length = length;
    window->qpn = lane->end.number;
    window->lid = port->is_ethernet ? 0 : port->port.lid;
    window->has_gid = port->is_ethernet;
    if (window->has_gid) {
        memcpy(window->gid, port->gid->gid, sizeof window->gid);
    }
    *ret_target = &RG_TAKE(target)->public;
    return 0;
}

/*
 * The window's own key, once taken back, is fence enough. Without one the target goes, and with it
 * the number that a late request names.
 */
static int dc_window_revoke(struct rg_target *public, bool settled, struct rg_error *err)
{
    struct dc_lane *lane = lane_of(public->lane);
    rg_autofree struct dc_target *target = (struct dc_target *)public;
    if (target->mr && verbs_of(lane)->dereg_mr(target->mr) == 0) {
        return 0;
    }
    if (!target->mr && settled) {
        return 0;
    }
    int failed = lane->end.dct ? verbs_of(lane)->destroy_qp(lane->end.dct) : 0;
    lane->end.dct = failed ? lane->end.dct : NULL;
    if (failed) {
        return rg_queue_break(&lane->queue, "the DC target cannot be stopped", err);
    }
    close_end(lane);
    (void)rg_lane_break(&lane->public, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED, NULL, NULL);
    return 0;
}

const struct rg_transport rg_transport_dc = {
    .name = "dc",
    .kind = RG_TRANSPORT_DC,
    .resets_lanes = true,
    .load = dc_load,
    .rail_open = dc_rail_open,
    .rail_close = dc_rail_close,
    .rail_check = dc_rail_check,
    .region_register = dc_region_register,
    .region_register_dmabuf = dc_region_register_dmabuf,
    .region_deregister = dc_region_deregister,
    .lane_open = dc_lane_open,
    .lane_close = dc_lane_close,
    .lane_reset = dc_lane_reset,
    .lane_address = rg_unsupported_address,
    .lane_pair = rg_unsupported_pair,
    .lane_bind = dc_lane_bind,
    .lane_unbind = dc_lane_unbind,
    .lane_write = dc_lane_write,
    .lane_read = dc_lane_read,
    .lane_receive = rg_unsupported_receive,
    .lane_poll = dc_lane_poll,
    .lane_sleep = dc_lane_sleep,
    .lane_flush = dc_lane_flush,
    .lane_progress = rg_unneeded_progress,
    .window_mint = dc_window_mint,
    .window_revoke = dc_window_revoke,
};
