/*
 * Bytes on their way from one thread to another: a bounded first-in first-out queue of blocks that
 * are allocated when first needed. Not locked: the owner's lock guards the counts. The bytes
 * themselves may be copied without it, because writer and reader never touch the same ones.
 * Blocks of the two usual sizes come from stores of used ones: the memory of a fresh block costs a
 * page fault for each 4 KiB, more than copying into it does.
 */
#ifndef RG_GATE_RING_H
#define RG_GATE_RING_H

#include "base/span.h"

#include <stddef.h>
#include <stdint.h>

#define RG_RING_BLOCKS 4

/* The usual size of a block, and how many are kept for later in the whole process. */
#define RG_RING_BLOCK (256u << 10)
#define RG_RING_KEPT  128

/* Those of large bodies begin on a page, and are as much as is written to a file at once. */
#define RG_RING_LARGE_BLOCK  (1u << 20)
#define RG_RING_LARGE_BLOCKS 2
#define RG_RING_LARGE_KEPT   16

struct rg_ring {
    char *blocks[RG_RING_BLOCKS];
    size_t block_size;
    size_t block_count;
    uint64_t written;
    uint64_t read;
};

/* Makes an empty ring into one of `block_count` (at most RG_RING_BLOCKS) blocks. */
void rg_ring_setup(struct rg_ring *ring, size_t block_size, size_t block_count);
void rg_ring_free(struct rg_ring *ring);

static inline size_t rg_ring_used(const struct rg_ring *ring)
{
    return (size_t)(ring->written - ring->read);
}

static inline size_t rg_ring_left(const struct rg_ring *ring)
{
    return ring->block_size * ring->block_count - rg_ring_used(ring);
}

/* The next bytes to read that lie in one piece; empty when there are none. They stay in place until
 * rg_ring_took. */
struct span rg_ring_peek(const struct rg_ring *ring);
void rg_ring_took(struct rg_ring *ring, size_t len);

/*
 * Where the next bytes go, *ret_room of them in one piece (0: full); then rg_ring_put says how many
 * were written. NULL when full or out of memory (*ret_room then is not 0).
 */
char *rg_ring_space(struct rg_ring *ring, size_t *ret_room);
void rg_ring_put(struct rg_ring *ring, size_t len);

#endif
