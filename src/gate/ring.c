#include "gate/ring.h"

#include "base/assert.h"
#include "base/checked.h"

#include <pthread.h>
#include <stdlib.h>

#define PAGE_BYTES 4096u

struct kept {
    size_t size;
    size_t max;
    size_t count;
    char *blocks[RG_RING_KEPT];
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept kept[] = {
    {.size = RG_RING_BLOCK, .max = RG_RING_KEPT},
    {.size = RG_RING_LARGE_BLOCK, .max = RG_RING_LARGE_KEPT},
};

/* The store of blocks of that size; NULL: there is none. */
static struct kept *store_of(size_t size)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(kept); i++) {
        if (kept[i].size == size) {
            return &kept[i];
        }
    }
    return NULL;
}

static char *get_block(size_t size)
{
    struct kept *store = store_of(size);
    char *block = NULL;
    if (store) {
        RG_MUST(pthread_mutex_lock(&kept_lock));
        if (store->count > 0) {
            block = store->blocks[--store->count];
        }
        RG_MUST(pthread_mutex_unlock(&kept_lock));
    }
    if (block) {
        return block;
    }
    return size == RG_RING_LARGE_BLOCK ? aligned_alloc(PAGE_BYTES, size) : malloc(size);
}

static void put_block(char *block, size_t size)
{
    struct kept *store = store_of(size);
    if (block && store) {
        RG_MUST(pthread_mutex_lock(&kept_lock));
        if (store->count < store->max) {
            store->blocks[store->count++] = block;
            block = NULL;
        }
        RG_MUST(pthread_mutex_unlock(&kept_lock));
    }
    free(block);
}

void rg_ring_setup(struct rg_ring *ring, size_t block_size, size_t block_count)
{
    RG_ASSERT(block_count > 0 && block_count <= RG_RING_BLOCKS && block_size > 0);
    rg_ring_free(ring);
    ring->block_size = block_size;
    ring->block_count = block_count;
}

void rg_ring_free(struct rg_ring *ring)
{
    for (size_t i = 0; i < RG_RING_BLOCKS; i++) {
        put_block(ring->blocks[i], ring->block_size);
    }
    *ring = (struct rg_ring){0};
}

struct span rg_ring_peek(const struct rg_ring *ring)
{
    size_t used = rg_ring_used(ring);
    if (used == 0) {
        return RG_SPAN_EMPTY;
    }
    size_t at = (size_t)(ring->read % ring->block_size);
    size_t block = (size_t)(ring->read / ring->block_size % ring->block_count);
    return rg_span(ring->blocks[block] + at, RG_MIN(used, ring->block_size - at));
}

void rg_ring_took(struct rg_ring *ring, size_t len)
{
    RG_ASSERT(len <= rg_ring_used(ring));
    ring->read += len;
}

char *rg_ring_space(struct rg_ring *ring, size_t *ret_room)
{
    size_t left = rg_ring_left(ring);
    *ret_room = 0;
    if (left == 0) {
        return NULL;
    }
    size_t at = (size_t)(ring->written % ring->block_size);
    size_t block = (size_t)(ring->written / ring->block_size % ring->block_count);
    *ret_room = RG_MIN(left, ring->block_size - at);
    if (!ring->blocks[block]) {
        ring->blocks[block] = get_block(ring->block_size);
        if (!ring->blocks[block]) {
            return NULL;
        }
    }
    return ring->blocks[block] + at;
}

void rg_ring_put(struct rg_ring *ring, size_t len)
{
    RG_ASSERT(len <= rg_ring_left(ring));
    ring->written += len;
}
