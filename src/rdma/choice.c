/* The choice of a rail. See choice.h for the rule. */
#include "rdma/choice.h"

#include <string.h>

static unsigned common_bits(const uint8_t left[16], const uint8_t right[16])
{
    unsigned bits = 0;
    for (size_t i = 0; i < 16; i++) {
        unsigned differing = left[i] ^ right[i];
        if (differing) {
            return bits + (unsigned)__builtin_clz(differing) - 24;
        }
        bits += 8;
    }
    return bits;
}

bool rg_gids_share_subnet(const uint8_t left[16], const uint8_t right[16], unsigned bits)
{
    return bits > 0 && common_bits(left, right) >= bits;
}

/* 129 in the rail's subnet. Where that is not known, the longer the common beginning the better. */
static unsigned nearness(const struct rg_rail_facts *rail, const uint8_t *peer)
{
    if (!peer || !rail->has_gid) {
        return 0;
    }
    if (rail->subnet_bits == 0) {
        return common_bits(rail->gid, peer);
    }
    return rg_gids_share_subnet(rail->gid, peer, rail->subnet_bits) ? 129 : 0;
}

static unsigned score(const struct rg_rail_facts *rail, const uint8_t *peer, const char *arrival)
{
    bool arrived = arrival && arrival[0] && strcmp(rail->address, arrival) == 0;
    return (rail->is_up ? 1000 : 0) + 2 * nearness(rail, peer) + arrived;
}

size_t rg_rail_choose(const struct rg_rail_facts *rails, size_t count, const uint8_t *peer,
                      const char *arrival, size_t turn)
{
    size_t best = count;
    unsigned best_score = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = (turn % count + i) % count;
        unsigned found = score(&rails[at], peer, arrival);
        if (best == count || found > best_score) {
            best = at;
            best_score = found;
        }
    }
    return best;
}
