/*
 * Registers memory with every rail of a client. See memory.h.
 */
#include "client/memory.h"

#include "client/failure.h"
#include "client/push.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BOTH_WAYS (RG_ACCESS_REMOTE_WRITE | RG_ACCESS_REMOTE_READ)

/* Pieces of device memory are registered at whole multiples of this, as exports want it. */
#define DEVICE_PAGE ((uint64_t)64 << 10)

static void free_memory(struct rg_memory **memory)
{
    rg_memory_release(*memory);
}

static int new_memory(struct rg_client *client, enum rg_memory_kind kind, void *address,
                      uint64_t size, struct rg_memory **ret_memory, struct rg_failure *failure)
{
    uint64_t end;
    if (!client || !address || size == 0 ||
        !rg_add_checked((uint64_t)(uintptr_t)address, size, &end)) {
        return rg_failure_set(failure, RG_STATUS_USAGE,
                              "Memory needs a client, an address and a size that is not 0.");
    }
    struct rg_memory *memory = calloc(1, sizeof *memory);
    if (!memory) {
        return rg_failure_memory(failure);
    }
    memory->client = client;
    memory->kind = kind;
    memory->address = address;
    memory->size = size;
    memory->piece_max = UINT64_MAX;
    RG_MUST(pthread_mutex_init(&memory->mutex, NULL));
    *ret_memory = memory;
    return 0;
}

/* What is pushed is read by our own NIC, for us. */
static unsigned access_for(const struct rg_memory *memory, const struct rg_client_rail *rail)
{
    return BOTH_WAYS | (rg_push_is_wanted(memory->client, rail) ? RG_ACCESS_LOCAL : 0);
}

static int fail_closed(struct rg_error *err)
{
    return rg_failf(err, RG_SERVICE_UNAVAILABLE, "The rail could not be opened yet.");
}

/* Memory that may only be read is good for PUT all the same. */
static int register_bytes(struct rg_memory *memory, struct rg_client_rail *rail,
                          const struct rg_rail_life *life, struct rg_region **ret_region,
                          struct rg_error *err)
{
    int rc = rg_region_register(life->rail, memory->address, memory->size, access_for(memory, rail),
                                ret_region, err);
    if (rc == -RG_INVALID_ARGUMENT) {
        rc = rg_region_register(life->rail, memory->address, memory->size, RG_ACCESS_REMOTE_READ,
                                ret_region, err);
    }
    return rc;
}

static int register_host(struct rg_memory *memory, struct rg_client_rail *rail,
                         struct rg_error *err)
{
    struct rg_memory_region *region = &memory->regions[rail->index];
    struct rg_rail_life *life = rg_rail_enter_life(rail);
    if (!life) {
        return fail_closed(err);
    }
    int rc = register_bytes(memory, rail, life, &region->region, err);
    if (rc < 0) {
        rg_rail_leave_life(rail, life);
        return rc;
    }
    region->life = life;
    return 0;
}

int rg_memory_register(struct rg_client *client, void *address, uint64_t size,
                       struct rg_memory **ret_memory, struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    RG_CLEANUP(free_memory) struct rg_memory *memory = NULL;
    int rc = new_memory(client, RG_MEMORY_HOST, address, size, &memory, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    for (size_t i = 0; i < client->rails->count; i++) {
        struct rg_client_rail *rail = &client->rails->rails[i];
        if (register_host(memory, rail, &err) == 0 || rg_rail_is_out(rail)) {
            memory->usable |= 1u << i;
        }
    }
    if (client->rails->count && !memory->usable && client->config.path == RG_PATH_RDMA_ONLY) {
        return rg_failure_take(failure, RG_STATUS_MEMORY, &err);
    }
    *ret_memory = RG_TAKE(memory);
    return 0;
}

/* ---- Device memory ---- */

/* Exports [offset, offset + length), rounded to pages, and registers what was exported. */
static int register_exported(struct rg_memory *memory, struct rg_client_rail *rail,
                             const struct rg_rail_life *life, uint64_t offset, uint64_t length,
                             struct rg_region **ret_region, struct rg_error *err)
{
    uint64_t begin = (uint64_t)(uintptr_t)memory->address + offset;
    struct rg_device_export export;
    int rc = rg_device_export(memory->device, begin, length, &export, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_region_register_dmabuf(life->rail, export.fd, export.fd_offset, begin, length,
                                   access_for(memory, rail), ret_region, err);
    close(export.fd);
    return rc;
}

static int register_device_range(struct rg_memory *memory, struct rg_client_rail *rail,
                                 uint64_t offset, uint64_t length,
                                 struct rg_memory_lease *ret_lease, struct rg_error *err)
{
    struct rg_region *region = NULL;
    struct rg_rail_life *life = rg_rail_enter_life(rail);
    if (!life) {
        return fail_closed(err);
    }
    int rc = register_exported(memory, rail, life, offset, length, &region, err);
    if (rc < 0 && rg_device_has_peermem(memory->device)) {
        rc = rg_region_register(life->rail, memory->address + offset, length,
                                access_for(memory, rail), &region, err);
    }
    if (rc < 0) {
        rg_rail_leave_life(rail, life);
        return rc;
    }
    *ret_lease = (struct rg_memory_lease){
        .region = region, .own = true, .memory = memory, .rail = rail, .life = life};
    return 0;
}

static int register_whole(struct rg_memory *memory, struct rg_client_rail *rail,
                          struct rg_error *err)
{
    struct rg_memory_lease lease;
    int rc = register_device_range(memory, rail, 0, memory->size, &lease, err);
    if (rc == 0) {
        memory->regions[rail->index] =
            (struct rg_memory_region){.region = lease.region, .life = lease.life};
    }
    return rc;
}

/* All pieces under way must fit at once. */
static void set_windowed(struct rg_memory *memory, const struct rg_client_rail *rail, uint64_t most)
{
    uint64_t piece = most / memory->client->config.parallel / DEVICE_PAGE * DEVICE_PAGE;
    memory->windowed |= 1u << rail->index;
    memory->piece_max = RG_MAX(piece, RG_PART_SIZE_MIN);
}

/*
 * The whole memory where the device's window onto PCI (BAR1) has room for it, else piece by piece;
 * one page is registered to see whether it can be done at all.
 */
static int register_device(struct rg_memory *memory, struct rg_client_rail *rail,
                           struct rg_error *err)
{
    struct rg_memory_lease lease;
    uint64_t most = rg_device_window_max(memory->device);
    if (memory->size <= most && register_whole(memory, rail, err) == 0) {
        return 0;
    }
    int rc = register_device_range(memory, rail, 0, RG_MIN(memory->size, DEVICE_PAGE), &lease, err);
    if (rc < 0) {
        return rc;
    }
    rg_memory_unlease(&lease);
    set_windowed(memory, rail, most);
    return 0;
}

/* On a rail that is out: by what the device says of itself. */
static void register_later(struct rg_memory *memory, const struct rg_client_rail *rail)
{
    uint64_t most = rg_device_window_max(memory->device);
    memory->usable |= 1u << rail->index;
    if (memory->size > most) {
        set_windowed(memory, rail, most);
    }
}

int rg_memory_register_device(struct rg_client *client, enum rg_memory_kind kind, void *address,
                              uint64_t size, struct rg_memory **ret_memory,
                              struct rg_failure *ret_failure)
{
    if (kind == RG_MEMORY_HOST) {
        return rg_memory_register(client, address, size, ret_memory, ret_failure);
    }
    RG_FAILURE_OR_OWN(ret_failure);
    if (kind != RG_MEMORY_CUDA && kind != RG_MEMORY_HIP) {
        return rg_failure_set(failure, RG_STATUS_USAGE, "There is no such kind of memory.");
    }
    RG_CLEANUP(free_memory) struct rg_memory *memory = NULL;
    int rc = new_memory(client, kind, address, size, &memory, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    rc = rg_device_open(kind == RG_MEMORY_CUDA ? RG_DEVICE_CUDA : RG_DEVICE_HIP,
                        (uint64_t)(uintptr_t)address, size, &memory->device, &err);
    for (size_t i = 0; rc == 0 && i < client->rails->count; i++) {
        struct rg_client_rail *rail = &client->rails->rails[i];
        if (register_device(memory, rail, &err) == 0) {
            memory->usable |= 1u << i;
        } else if (rg_rail_is_out(rail)) {
            register_later(memory, rail);
        }
    }
    if (rc < 0 || (client->rails->count && !memory->usable)) {
        return rg_failure_take(failure, RG_STATUS_MEMORY, &err);
    }
    *ret_memory = RG_TAKE(memory);
    return 0;
}

void rg_memory_release(struct rg_memory *memory)
{
    if (!memory) {
        return;
    }
    for (size_t i = 0; i < RG_RAILS_MAX; i++) {
        struct rg_memory_region *region = &memory->regions[i];
        rg_region_deregister(region->region);
        rg_rail_leave_life(&memory->client->rails->rails[i], region->life);
    }
    RG_MUST(pthread_mutex_destroy(&memory->mutex));
    rg_device_close(memory->device);
    free(memory);
}

/* ---- Use ---- */

static int fail_old(struct rg_error *err)
{
    return rg_failf(err, RG_SERVICE_UNAVAILABLE,
                    "The rail was opened anew, and transfers from before have not ended.");
}

/* Registers the whole memory in the rail's present life. With the mutex held. */
static int register_anew(struct rg_memory *memory, struct rg_client_rail *rail,
                         struct rg_error *err)
{
    struct rg_memory_region *region = &memory->regions[rail->index];
    if (region->leases) {
        return fail_old(err);
    }
    rg_region_deregister(RG_TAKE(region->region));
    rg_rail_leave_life(rail, RG_TAKE(region->life));
    return memory->device ? register_whole(memory, rail, err) : register_host(memory, rail, err);
}

static int lease_whole(struct rg_memory *memory, const struct rg_client_lane *lane, uint64_t offset,
                       struct rg_memory_lease *ret_lease, struct rg_error *err)
{
    struct rg_client_rail *rail = lane->rail;
    struct rg_memory_region *region = &memory->regions[rail->index];
    int rc = 0;
    RG_MUST(pthread_mutex_lock(&memory->mutex));
    if (region->life != lane->life) {
        rc = register_anew(memory, rail, err);
    }
    if (rc == 0 && region->life != lane->life) {
        rc = fail_old(err);
    }
    if (rc == 0) {
        region->leases++;
        *ret_lease = (struct rg_memory_lease){
            .region = region->region, .region_offset = offset, .memory = memory, .rail = rail};
    }
    RG_MUST(pthread_mutex_unlock(&memory->mutex));
    return rc;
}

int rg_memory_lease(struct rg_memory *memory, struct rg_client_lane *lane, uint64_t offset,
                    uint64_t length, struct rg_memory_lease *ret_lease, struct rg_error *err)
{
    struct rg_client_rail *rail = lane->rail;
    RG_ASSERT(memory->usable & (1u << rail->index));
    if (!(memory->windowed & (1u << rail->index))) {
        return lease_whole(memory, lane, offset, ret_lease, err);
    }
    int rc = register_device_range(memory, rail, offset, length, ret_lease, err);
    if (rc == 0 && ret_lease->life != lane->life) {
        rg_memory_unlease(ret_lease);
        return fail_old(err);
    }
    return rc;
}

void rg_memory_unlease(struct rg_memory_lease *lease)
{
    if (lease->own) {
        rg_region_deregister(lease->region);
        rg_rail_leave_life(lease->rail, lease->life);
    } else if (lease->memory) {
        RG_MUST(pthread_mutex_lock(&lease->memory->mutex));
        lease->memory->regions[lease->rail->index].leases--;
        RG_MUST(pthread_mutex_unlock(&lease->memory->mutex));
    }
    *lease = (struct rg_memory_lease){.region = NULL};
}

char *rg_memory_bytes(const struct rg_memory *memory, uint64_t offset)
{
    return memory && memory->kind == RG_MEMORY_HOST ? memory->address + offset : NULL;
}

int rg_memory_read(struct rg_memory *memory, uint64_t offset, void *to, size_t length,
                   struct rg_failure *failure)
{
    if (memory->kind == RG_MEMORY_HOST) {
        memcpy(to, memory->address + offset, length);
        return 0;
    }
    struct rg_error err = RG_ERROR_INIT;
    uint64_t from = (uint64_t)(uintptr_t)memory->address + offset;
    int rc = rg_device_read(memory->device, from, to, length, &err);
    return rc < 0 ? rg_failure_take(failure, RG_STATUS_MEMORY, &err) : 0;
}

int rg_memory_write(struct rg_memory *memory, uint64_t offset, const void *from, size_t length,
                    struct rg_failure *failure)
{
    if (memory->kind == RG_MEMORY_HOST) {
        memcpy(memory->address + offset, from, length);
        return 0;
    }
    struct rg_error err = RG_ERROR_INIT;
    uint64_t to = (uint64_t)(uintptr_t)memory->address + offset;
    int rc = rg_device_write(memory->device, to, from, length, &err);
    return rc < 0 ? rg_failure_take(failure, RG_STATUS_MEMORY, &err) : 0;
}

int rg_memory_check(const struct rg_client *client, const struct rg_memory *memory, uint64_t offset,
                    uint64_t size, struct rg_failure *failure)
{
    if (!memory) {
        return size == 0 ? 0 : rg_failure_set(failure, RG_STATUS_USAGE, "The memory is NULL.");
    }
    if (memory->client != client) {
        return rg_failure_set(failure, RG_STATUS_USAGE,
                              "The memory is registered with another client.");
    }
    if (offset > memory->size || size > memory->size - offset) {
        return rg_failure_set(failure, RG_STATUS_USAGE,
                              "%llu bytes at %llu are not within the %llu bytes of the memory.",
                              (unsigned long long)size, (unsigned long long)offset,
                              (unsigned long long)memory->size);
    }
    return 0;
}
