/*
 * One mapping, cut into slots. Free slots are a stack: the one used last is warmest.
 */
#include "rdma/slab.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "rdma/turn.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PAGE_BYTES      ((size_t)4096)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Addresses kept free behind the slots, to replace condemned ones: this many times the slots. */
#define SPARE_FACTOR 4

struct rg_slab {
    struct rg_slab_config config;
    char *base;
    size_t mapped_bytes;   /* with memory behind them */
    size_t reserved_bytes; /* of address space, the spare included; from base */
    enum rg_slab_pages pages;
    struct rg_region *region;

    pthread_mutex_t lock;
    uint64_t *offsets; /* where each slot is, from base */
    uint32_t *free;    /* stack of slot numbers */
    size_t free_count;
    size_t lost;         /* condemned and not replaced */
    uint64_t spare_next; /* offset of the next unused spare address */
    struct rg_turn line;
    bool stopped;
    uint64_t leases, timeouts, wait_ns, condemnations;
};

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* ---- The locked-memory limit ---- */

uint64_t rg_slab_locked_bytes(const struct rg_slab_config *config)
{
    if (!config->lock) {
        return 0;
    }
    size_t bytes = config->slot_bytes * config->slot_count;
    return round_up(bytes, config->huge_pages ? HUGE_PAGE_BYTES : PAGE_BYTES);
}

static bool may_lock_anything(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) < 0) {
        return false;
    }
    return data[CAP_IPC_LOCK / 32].effective & (1u << (CAP_IPC_LOCK % 32));
}

int rg_memlock_check(uint64_t bytes, struct rg_error *err)
{
    struct rlimit limit;
    if (bytes == 0 || may_lock_anything() || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes) {
        return 0;
    }
    return rg_failf(err, RG_SETTING,
                    "RDMA needs %" PRIu64 " bytes of locked memory and RLIMIT_MEMLOCK allows "
                    "%" PRIu64 ": set LimitMEMLOCK=infinity in the unit file (or ulimit -l), or "
                    "lower the number of slots.",
                    bytes, (uint64_t)limit.rlim_cur);
}

/* ---- The mapping ---- */

static int check_config(const struct rg_slab_config *config, struct rg_error *err)
{
    if (config->slot_bytes < RG_SLOT_BYTES_MIN || config->slot_bytes > RG_SLOT_BYTES_MAX ||
        config->slot_bytes % PAGE_BYTES) {
        return rg_failf(err, RG_SETTING,
                        "A slot must have between %zu and %zu bytes, in whole pages of %zu.",
                        RG_SLOT_BYTES_MIN, RG_SLOT_BYTES_MAX, PAGE_BYTES);
    }
    if (config->slot_count < 1 || config->slot_count > RG_SLOT_COUNT_MAX) {
        return rg_failf(err, RG_SETTING, "The number of slots must be between 1 and %d.",
                        RG_SLOT_COUNT_MAX);
    }
    return 0;
}

/* Puts memory at [address, + bytes) of the reservation. */
static bool map_memory(void *address, size_t bytes, int extra_flags)
{
    return mmap(address, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | extra_flags, -1, 0) != MAP_FAILED;
}

static bool unmap_memory(void *address, size_t bytes)
{
    return mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

/* Address space for the slots and, where slots can be replaced, for the spare. */
static bool reserve_addresses(struct rg_slab *slab)
{
    size_t spare = slab->config.lock ? 0 : SPARE_FACTOR * slab->mapped_bytes;
    size_t bytes = slab->mapped_bytes + spare + HUGE_PAGE_BYTES;
    char *raw = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        return false;
    }
    size_t skip = round_up((uintptr_t)raw, HUGE_PAGE_BYTES) - (uintptr_t)raw;
    slab->base = raw + skip;
    slab->reserved_bytes = slab->mapped_bytes + spare;
    if (skip) {
        munmap(raw, skip);
    }
    if (skip < HUGE_PAGE_BYTES) {
        munmap(slab->base + slab->reserved_bytes, HUGE_PAGE_BYTES - skip);
    }
    return true;
}

static int map_slab(struct rg_slab *slab, struct rg_error *err)
{
    slab->mapped_bytes = round_up(slab->config.slot_bytes * slab->config.slot_count,
                                  slab->config.huge_pages ? HUGE_PAGE_BYTES : PAGE_BYTES);
    slab->spare_next = slab->mapped_bytes;
    if (!reserve_addresses(slab)) {
        return rg_fail_errno(err, RG_OUT_OF_MEMORY, errno, "No address space for the slots");
    }
    if (slab->config.huge_pages && map_memory(slab->base, slab->mapped_bytes, MAP_HUGETLB)) {
        slab->pages = RG_SLAB_PAGES_HUGETLB;
        return 0;
    }
    if (!map_memory(slab->base, slab->mapped_bytes, 0)) {
        return rg_fail_errno(err, RG_OUT_OF_MEMORY, errno, "No memory for %zu bytes of slots",
                             slab->mapped_bytes);
    }
    if (slab->config.huge_pages && madvise(slab->base, slab->mapped_bytes, MADV_HUGEPAGE) == 0) {
        slab->pages = RG_SLAB_PAGES_ADVISED;
    }
    return 0;
}

static int lock_slab(struct rg_slab *slab, struct rg_error *err)
{
    if (!slab->config.lock) {
        return 0;
    }
    /* A child must not get copies of pages that a NIC writes to. */
    (void)madvise(slab->base, slab->mapped_bytes, MADV_DONTFORK);
    if (mlock(slab->base, slab->mapped_bytes) == 0) {
        return 0;
    }
    bool is_limit = errno == EPERM || errno == ENOMEM || errno == EAGAIN;
    return rg_fail_errno(err, is_limit ? RG_LIMIT : RG_OUT_OF_MEMORY, errno,
                         "%zu bytes of slots cannot be locked (RLIMIT_MEMLOCK; LimitMEMLOCK= in "
                         "the unit file)",
                         slab->mapped_bytes);
}

static void free_slab(struct rg_slab *slab)
{
    if (slab->base) {
        munmap(slab->base, slab->reserved_bytes);
    }
    free(slab->offsets);
    free(slab->free);
    free(slab);
}

static void cleanup_slab(struct rg_slab **slab)
{
    if (*slab) {
        free_slab(*slab);
    }
}

int rg_slab_open(const struct rg_slab_config *config, struct rg_slab **ret_slab,
                 struct rg_error *err)
{
    int rc = check_config(config, err);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(cleanup_slab) struct rg_slab *slab = calloc(1, sizeof *slab);
    if (!slab) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    slab->config = *config;
    slab->offsets = calloc(config->slot_count, sizeof *slab->offsets);
    slab->free = calloc(config->slot_count, sizeof *slab->free);
    if (!slab->offsets || !slab->free) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rc = map_slab(slab, err);
    if (rc == 0) {
        rc = lock_slab(slab, err);
    }
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < config->slot_count; i++) {
        slab->offsets[i] = i * config->slot_bytes;
        slab->free[i] = (uint32_t)(config->slot_count - 1 - i);
    }
    slab->free_count = config->slot_count;
    RG_MUST(pthread_mutex_init(&slab->lock, NULL));
    *ret_slab = RG_TAKE(slab);
    return 0;
}

void rg_slab_close(struct rg_slab *slab)
{
    if (!slab) {
        return;
    }
    RG_ASSERT(!slab->region && slab->line.count == 0);
    RG_ASSERT(slab->free_count + slab->lost == slab->config.slot_count);
    RG_MUST(pthread_mutex_destroy(&slab->lock));
    free_slab(slab);
}

int rg_slab_attach(struct rg_slab *slab, struct rg_rail *rail, unsigned access,
                   struct rg_error *err)
{
    RG_ASSERT(!slab->region);
    RG_ASSERT(slab->config.lock || !rail->pins_memory);
    /* Unpinned registrations cover the spare too, so that replaced slots need no new one. */
    return rg_region_register(rail, slab->base,
                              rail->pins_memory ? slab->mapped_bytes : slab->reserved_bytes, access,
                              &slab->region, err);
}

void rg_slab_detach(struct rg_slab *slab)
{
    rg_region_deregister(slab->region);
    slab->region = NULL;
}

struct rg_region *rg_slab_region(const struct rg_slab *slab)
{
    return slab->region;
}

size_t rg_slab_slot_bytes(const struct rg_slab *slab)
{
    return slab->config.slot_bytes;
}

/* ---- Leases ---- */

static enum rg_turn_answer has_slots(const void *context, size_t least)
{
    const struct rg_slab *slab = context;
    if (slab->stopped || slab->config.slot_count - slab->lost < least) {
        return RG_TURN_GIVE_UP;
    }
    return slab->free_count >= least ? RG_TURN_GO : RG_TURN_WAIT;
}

static void take(struct rg_slab *slab, struct rg_slot *ret_slot)
{
    uint32_t index = slab->free[--slab->free_count];
    *ret_slot = (struct rg_slot){
        .address = slab->base + slab->offsets[index],
        .bytes = slab->config.slot_bytes,
        .region_offset = slab->offsets[index],
        .index = index,
    };
}

int rg_slab_lease(struct rg_slab *slab, size_t least, size_t want, uint32_t wait_ms,
                  struct rg_slot *slots, size_t *ret_count, struct rg_error *err)
{
    RG_ASSERT(least >= 1 && least <= want && want <= RG_LEASE_SLOTS_MAX);
    uint64_t start = rg_clock_ns();
    uint64_t waited = 0;
    size_t count = 0;
    RG_MUST(pthread_mutex_lock(&slab->lock));
    enum rg_turn_answer answer = has_slots(slab, least);
    bool granted = answer == RG_TURN_GO && slab->line.count == 0;
    if (!granted && answer != RG_TURN_GIVE_UP && wait_ms > 0) {
        granted = rg_turn_wait(&slab->line, &slab->lock, has_slots, slab, least, wait_ms);
        waited = rg_clock_ns() - start;
    }
    bool stopped = slab->stopped;
    if (granted) {
        count = RG_MIN(want, slab->free_count);
        for (size_t i = 0; i < count; i++) {
            take(slab, &slots[i]);
        }
        slab->leases++;
    } else if (!stopped) {
        slab->timeouts++;
    }
    slab->wait_ns += waited;
    rg_turn_wake(&slab->line);
    RG_MUST(pthread_mutex_unlock(&slab->lock));
    if (slab->config.observe_wait) {
        slab->config.observe_wait(slab->config.observe_context, waited, granted);
    }
    if (granted) {
        *ret_count = count;
        return 0;
    }
    return stopped ? rg_fail(err, RG_CANCELLED)
                   : rg_failf(err, RG_LIMIT, "No staging slot became free within %" PRIu32 " ms.",
                              wait_ms);
}

static void check_slot(const struct rg_slab *slab, const struct rg_slot *slot)
{
    RG_ASSERT(slot->index < slab->config.slot_count);
    RG_ASSERT(slab->offsets[slot->index] == slot->region_offset);
    RG_ASSERT(slab->free_count < slab->config.slot_count);
}

void rg_slab_return(struct rg_slab *slab, const struct rg_slot *slots, size_t count)
{
    if (count == 0) {
        return;
    }
    RG_MUST(pthread_mutex_lock(&slab->lock));
    for (size_t i = 0; i < count; i++) {
        check_slot(slab, &slots[i]);
        slab->free[slab->free_count++] = slots[i].index;
    }
    rg_turn_wake(&slab->line);
    RG_MUST(pthread_mutex_unlock(&slab->lock));
}

/* With the lock held: memory for the slot at an address nobody has seen; false: none. */
static bool replace_slot(struct rg_slab *slab, uint32_t index)
{
    size_t bytes = slab->config.slot_bytes;
    bool pinned = slab->config.lock || (slab->region && slab->region->rail->pins_memory);
    bool splits_huge_page = slab->pages == RG_SLAB_PAGES_HUGETLB && bytes % HUGE_PAGE_BYTES != 0;
    if (pinned || splits_huge_page || slab->spare_next + bytes > slab->reserved_bytes) {
        return false;
    }
    if (!unmap_memory(slab->base + slab->offsets[index], bytes) ||
        !map_memory(slab->base + slab->spare_next, bytes, 0)) {
        return false;
    }
    slab->offsets[index] = slab->spare_next;
    slab->spare_next += bytes;
    return true;
}

void rg_slab_condemn(struct rg_slab *slab, const struct rg_slot *slots, size_t count)
{
    RG_MUST(pthread_mutex_lock(&slab->lock));
    for (size_t i = 0; i < count; i++) {
        check_slot(slab, &slots[i]);
        slab->condemnations++;
        if (replace_slot(slab, slots[i].index)) {
            slab->free[slab->free_count++] = slots[i].index;
        } else {
            slab->lost++;
        }
    }
    rg_turn_wake(&slab->line);
    RG_MUST(pthread_mutex_unlock(&slab->lock));
}

void rg_slab_stop(struct rg_slab *slab)
{
    RG_MUST(pthread_mutex_lock(&slab->lock));
    slab->stopped = true;
    rg_turn_wake_all(&slab->line);
    RG_MUST(pthread_mutex_unlock(&slab->lock));
}

void rg_slab_state(struct rg_slab *slab, struct rg_slab_state *ret_state)
{
    RG_MUST(pthread_mutex_lock(&slab->lock));
    *ret_state = (struct rg_slab_state){
        .slots_total = slab->config.slot_count,
        .slots_in_use = slab->config.slot_count - slab->lost - slab->free_count,
        .slots_condemned = slab->lost,
        .condemnations = slab->condemnations,
        .waiters = slab->line.count,
        .leases = slab->leases,
        .timeouts = slab->timeouts,
        .wait_ns = slab->wait_ns,
        .slot_bytes = slab->config.slot_bytes,
        .locked_bytes = slab->config.lock ? slab->mapped_bytes : 0,
        .mapped_bytes = slab->mapped_bytes,
        .pages = slab->pages,
    };
    RG_MUST(pthread_mutex_unlock(&slab->lock));
}

uint64_t rg_slab_resident_bytes(const struct rg_slab *slab)
{
    unsigned char pages[2048];
    uint64_t resident = 0;
    for (size_t at = 0; at < slab->reserved_bytes; at += sizeof pages * PAGE_BYTES) {
        size_t bytes = RG_MIN(sizeof pages * PAGE_BYTES, slab->reserved_bytes - at);
        if (mincore(slab->base + at, bytes, pages) < 0) {
            return resident; /* no such memory: of a slab that is not open */
        }
        for (size_t i = 0; i < round_up(bytes, PAGE_BYTES) / PAGE_BYTES; i++) {
            resident += pages[i] & 1 ? PAGE_BYTES : 0;
        }
    }
    return resident;
}
