/*
 * Lanes and their endpoints: an endpoint, with its completion queue and its address vector, is
 * opened when it is first needed, and closed to end what it does.
 */
#include "rdma/ofi_inside.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

void rg_ofi_lane_init(struct rg_ofi_lane *lane, struct rg_ofi_rail *rail)
{
    lane->rail = rail;
    lane->lane.rail = &rail->rail;
    lane->lane.depth = rail->provider == RG_OFI_SHM ? 1 : rail->rail.config.lane_depth;
    lane->wait_fd = -1;
    lane->shm_lock_fd = -1;
    for (size_t i = 0; i < RG_OFI_PEERS_PER_LANE; i++) {
        lane->peers[i].alive_fd = -1;
    }
}

void rg_ofi_endpoint_close(struct rg_ofi_lane *lane)
{
    rg_ofi_close_fid(lane->ep ? &lane->ep->fid : NULL);
    lane->ep = NULL;
    for (size_t i = 0; i < RG_OFI_PEERS_PER_LANE; i++) {
        rg_ofi_peer_forget(lane, &lane->peers[i]);
    }
    rg_ofi_close_fid(lane->moved ? &lane->moved->fid : NULL);
    rg_ofi_close_fid(lane->cq ? &lane->cq->fid : NULL);
    rg_ofi_close_fid(lane->av ? &lane->av->fid : NULL);
    lane->moved = NULL;
    lane->cq = NULL;
    lane->av = NULL;
    rg_ofi_close_fd(lane->shm_lock_fd);
    lane->shm_lock_fd = -1;
    lane->wait_fd = -1;
    lane->peer = NULL;
    lane->met = 0;
    memset(lane->operations, 0, sizeof lane->operations);
}

static int open_queues(struct rg_ofi_lane *lane)
{
    struct rg_ofi_rail *rail = lane->rail;
    struct fi_cq_attr queue = {
        .size = 2 * RG_LANE_DEPTH_MAX,
        .format = FI_CQ_FORMAT_CONTEXT,
        .wait_obj = rail->can_sleep ? FI_WAIT_FD : FI_WAIT_NONE,
    };
    int rc = fi_cq_open(rail->domain, &queue, &lane->cq, NULL);
    if (rc == -FI_ENOSYS && rail->provider == RG_OFI_OTHER) {
        queue.wait_obj = FI_WAIT_NONE;
        rc = fi_cq_open(rail->domain, &queue, &lane->cq, NULL);
    }
    if (rc) {
        return rc;
    }
    if (queue.wait_obj == FI_WAIT_FD &&
        fi_control(&lane->cq->fid, FI_GETWAIT, &lane->wait_fd) != 0) {
        lane->wait_fd = -1;
    }
    struct fi_av_attr addresses = {.type = FI_AV_TABLE, .count = RG_OFI_PEERS_PER_LANE};
    rc = fi_av_open(rail->domain, &addresses, &lane->av, NULL);
    if (rc || rail->provider != RG_OFI_SHM) {
        return rc;
    }
    struct fi_cntr_attr counter = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    return fi_cntr_open(rail->domain, &counter, &lane->moved, NULL);
}

static int bind_and_enable(struct rg_ofi_lane *lane)
{
    int rc = fi_ep_bind(lane->ep, &lane->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0) {
        rc = fi_ep_bind(lane->ep, &lane->av->fid, 0);
    }
    if (rc == 0 && lane->moved) {
        rc = fi_ep_bind(lane->ep, &lane->moved->fid, FI_REMOTE_WRITE | FI_REMOTE_READ);
    }
    return rc ? rc : fi_enable(lane->ep);
}

int rg_ofi_endpoint_open(struct rg_ofi_lane *lane, char role, struct rg_error *err)
{
    struct rg_ofi_rail *rail = lane->rail;
    if (lane->ep) {
        return 0;
    }
    char name[RG_OFI_SHM_NAME_LENGTH + 1];
    struct fi_info *own = NULL;
    if (rail->provider == RG_OFI_SHM) {
        own = rg_ofi_shm_name_endpoint(rail, role, name);
        if (!own) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
    }
    int rc = open_queues(lane);
    if (rc == 0) {
        rc = fi_endpoint(rail->domain, own ? own : rail->info, &lane->ep, NULL);
    }
    if (rc == 0) {
        rc = bind_and_enable(lane);
    }
    if (own) {
        rg_ofi_library.freeinfo(own);
    }
    if (rc == -FI_EADDRNOTAVAIL) {
        rg_ofi_endpoint_close(lane);
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "Address \"%s\" is not one of this machine's.",
                        rail->rail.address);
    }
    if (rc) {
        rg_ofi_endpoint_close(lane);
        return rg_ofi_fail(err, "no endpoint", rail->provider_name, rc);
    }
    if (rail->provider == RG_OFI_SHM) {
        rc = rg_ofi_shm_lock_file(lane, name, err);
        if (rc < 0) {
            rg_ofi_endpoint_close(lane);
        }
    }
    return rc;
}

int rg_ofi_lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct rg_ofi_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rg_ofi_lane_init(lane, rg_ofi_rail_of(rail));
    *ret_lane = &lane->lane;
    return 0;
}

void rg_ofi_lane_close(struct rg_lane *public)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    RG_ASSERT(lane->windows == 0);
    rg_ofi_endpoint_close(lane);
    free(lane);
}

int rg_ofi_lane_reset(struct rg_lane *public, struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    RG_ASSERT(lane->windows == 0);
    rg_ofi_endpoint_close(lane);
    return 0;
}
