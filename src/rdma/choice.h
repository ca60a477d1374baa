/*
 * Which of several rails carries a transfer. Pure: what is known about the rails in, an index out.
 *
 * A rail that is up goes before one that is out. Of those, the one in whose subnet the client's
 * address is goes first: it reaches the client without a router, and where ports of several fabrics
 * are in one machine it may be the only one that does. Where that does not decide, the one by whose
 * address the request came in: clients that have several ports connect from the one they will use.
 * Equals take turns.
 */
#ifndef RG_RDMA_CHOICE_H
#define RG_RDMA_CHOICE_H

#include "rdma/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_rail_facts {
    bool is_up;
    bool has_gid;
    uint8_t gid[16];
    unsigned subnet_bits;                  /* as in struct rg_rail */
    char address[RG_RAIL_ADDRESS_MAX + 1]; /* numeric; on InfiniBand that of its IP interface if the
                                              rail was opened by it */
};

/* Whether two GIDs agree in their first `bits` bits; none are never a subnet. */
bool rg_gids_share_subnet(const uint8_t left[16], const uint8_t right[16], unsigned bits);

/*
 * Index of the rail for a client with the GID `peer` (NULL: not known) whose request came in by the
 * address `arrival` of ours (NULL or "": not known). Equals take turns by `turn`, which the caller
 * counts up. `count` when there is none; a rail that is out only when all are.
 */
size_t rg_rail_choose(const struct rg_rail_facts *rails, size_t count, const uint8_t *peer,
                      const char *arrival, size_t turn);

#endif
