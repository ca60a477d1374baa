/*
 * Memory: regions that posts take bytes from, and windows that peers may reach.
 */
#include "rdma/ofi_inside.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct rg_ofi_target {
    struct rg_target target;
    struct fid_mr *mr;
};

static int register_mr(struct rg_ofi_rail *rail, void *address, uint64_t length, uint64_t access,
                       struct fid_mr **ret_mr, struct rg_error *err)
{
    int rc = 0;
    for (int attempt = 0; attempt < 8; attempt++) {
        uint64_t key = rail->provider_keys ? 0 : rg_random_u64() & rail->key_mask;
        rc = fi_mr_reg(rail->domain, address, length, access, 0, key, 0, ret_mr, NULL);
        if (rc != -FI_ENOKEY) {
            break;
        }
    }
    if (rc == -FI_EPERM || rc == -FI_EAGAIN) {
        return rg_failf(err, RG_LIMIT,
                        "%" PRIu64 " bytes cannot be locked for provider %s: %s (RLIMIT_MEMLOCK)",
                        length, rail->provider_name, rg_ofi_explain(rc));
    }
    if (rc == -FI_EFAULT || rc == -FI_EINVAL) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The memory cannot be registered: %s",
                        rg_ofi_explain(rc));
    }
    return rc ? rg_ofi_fail(err, "memory cannot be registered", rail->provider_name, rc) : 0;
}

int rg_ofi_region_register(struct rg_rail *public, void *address, uint64_t length, unsigned access,
                           struct rg_region **ret_region, struct rg_error *err)
{
    struct rg_ofi_rail *rail = rg_ofi_rail_of(public);
    rg_autofree struct rg_ofi_region *region = calloc(1, sizeof *region);
    if (!region) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    /* Remote access is given window by window, when one is minted. */
    if (rail->local_keys && (access & RG_ACCESS_LOCAL)) {
        int rc = register_mr(rail, address, length, FI_READ | FI_WRITE, &region->mr, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_region = &RG_TAKE(region)->region;
    return 0;
}

void rg_ofi_region_deregister(struct rg_region *public)
{
    struct rg_ofi_region *region = (struct rg_ofi_region *)public;
    rg_ofi_close_fid(region->mr ? &region->mr->fid : NULL);
    free(region);
}

/* ---- Windows ---- */

static int name_window(struct rg_ofi_lane *lane, struct rg_rdma_window *window,
                       struct rg_error *err)
{
    window->endpoint_len = sizeof window->endpoint;
    int rc = fi_getname(&lane->ep->fid, window->endpoint, &window->endpoint_len);
    if (rc || window->endpoint_len > sizeof window->endpoint) {
        return rg_ofi_fail(err, "the endpoint's name is too long for a token",
                           lane->rail->provider_name, rc ? rc : -FI_ETOOSMALL);
    }
    return 0;
}

int rg_ofi_window_mint(struct rg_lane *public, struct rg_region *region, uint64_t offset,
                       uint64_t length, enum rg_direction direction, struct rg_target **ret_target,
                       struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    struct rg_ofi_rail *rail = lane->rail;
    if (rail->provider == RG_OFI_SHM && lane->windows == 0 && lane->met >= RG_OFI_SHM_PEERS) {
        rg_ofi_endpoint_close(lane);
    }
    int rc = rg_ofi_endpoint_open(lane, 't', err);
    if (rc < 0) {
        return rc;
    }
    rg_autofree struct rg_ofi_target *target = calloc(1, sizeof *target);
    if (!target) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct rg_rdma_window *window = &target->target.window;
    rc = name_window(lane, window, err);
    if (rc < 0) {
        return rc;
    }
    char *address = (char *)region->address + offset;
    uint64_t access = direction == RG_DIRECTION_GET ? FI_REMOTE_WRITE : FI_REMOTE_READ;
    rc = register_mr(rail, address, length, access, &target->mr, err);
    if (rc < 0) {
        return rc;
    }
    window->dialect = RG_DIALECT_OFI1;
    window->transport = RG_TRANSPORT_OFI;
    window->address = (uintptr_t)address;
    window->length = length;
    window->rkey = fi_mr_key(target->mr);
    snprintf(window->provider, sizeof window->provider, "%s", rail->provider_name);
    lane->met++;
    lane->windows++;
    lane->begun_ns = rg_clock_ns();
    lane->is_awaited = true;
    lane->nap_us = 0;
    *ret_target = &RG_TAKE(target)->target;
    return 0;
}

int rg_ofi_window_revoke(struct rg_target *public, bool settled, struct rg_error *err)
{
    struct rg_ofi_target *target = (struct rg_ofi_target *)public;
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public->lane);
    int rc = fi_close(&target->mr->fid);
    free(target);
    RG_ASSERT(lane->windows > 0);
    lane->windows--;
    if (!settled) {
        /* A message may be half received; only the endpoint's end stops that. */
        rg_ofi_endpoint_close(lane);
        (void)rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED, NULL, NULL);
    }
    return rc ? rg_ofi_fail(err, "the window's key cannot be withdrawn", lane->rail->provider_name,
                            rc)
              : 0;
}
