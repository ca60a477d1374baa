/*
 * Which of a port's addresses (GIDs) to use. Pure: a table in, an entry out.
 *
 * On Ethernet a port has one GID for every IP address of its interfaces, and the entry that a queue
 * pair uses decides how its packets look: RoCE v2 over IPv4 or IPv6, or RoCE v1. Both ends must use
 * the same, so it is chosen by rule and not by number. On InfiniBand a port usually has one GID,
 * which begins with fe80:: and is as good as any.
 */
#ifndef RG_RDMA_GID_H
#define RG_RDMA_GID_H

#include "rdma/nic.h"

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_GID_TEXT_MAX 45

enum rg_gid_scope {
    RG_GID_ZERO,
    RG_GID_IPV4,       /* ::ffff:a.b.c.d */
    RG_GID_GLOBAL,     /* other unicast addresses, unique local ones included */
    RG_GID_LINK_LOCAL, /* fe80::/10 */
    RG_GID_MULTICAST,
};

struct rg_gid_entry {
    int index;
    uint8_t gid[16];
    enum rg_gid_type type;
    char netdev[IFNAMSIZ]; /* "" on InfiniBand */
};

struct rg_gid_table {
    const struct rg_gid_entry *entries; /* in rising order of index; none is zero */
    size_t count;
};

enum rg_gid_scope rg_gid_scope(const uint8_t gid[16]);

/* "10.9.0.1" for IPv4, else as IPv6 addresses are written. */
void rg_gid_text(const uint8_t gid[16], char ret_text[RG_GID_TEXT_MAX + 1]);

/* Whether the GID is this numeric IP address. */
bool rg_gid_is_address(const uint8_t gid[16], const char *address);

/*
 * The entry for a rail: RoCE v2 before v1 before unknown; IPv4 before other global addresses before
 * link-local ones; then the lowest index. With `address` only entries that are that address count.
 * On InfiniBand (not `is_ethernet`) the first, and `address` is not looked at. NULL: none fits.
 */
const struct rg_gid_entry *rg_gid_choose(const struct rg_gid_table *table, bool is_ethernet,
                                         const char *address);

/* The entry with this index, or NULL. */
const struct rg_gid_entry *rg_gid_at(const struct rg_gid_table *table, int index);

/* The entry with this GID, the one with the type of `like` if there are several, or NULL. */
const struct rg_gid_entry *rg_gid_find(const struct rg_gid_table *table, const uint8_t gid[16],
                                       const struct rg_gid_entry *like);

/*
 * The entry to pair from with a peer that has said which GID it uses: `rail` itself when the peer's
 * scope is the same, or when no other entry fits better. For a link-local peer: the
 * link-local entry of the same interface with the lowest index, because who uses one has usually
 * hard-coded index 0. For others: of the peer's scope, the type and the interface of `rail`.
 */
const struct rg_gid_entry *rg_gid_toward(const struct rg_gid_table *table,
                                         const struct rg_gid_entry *rail, bool is_ethernet,
                                         const uint8_t peer[16]);

#endif
