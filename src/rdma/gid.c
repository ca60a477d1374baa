/*
 * The choice of a GID. See gid.h for the rules.
 */
#include "rdma/gid.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, 0xff};
static const uint8_t zero[16];

enum rg_gid_scope rg_gid_scope(const uint8_t gid[16])
{
    if (memcmp(gid, zero, sizeof zero) == 0) {
        return RG_GID_ZERO;
    }
    if (memcmp(gid, ipv4_prefix, sizeof ipv4_prefix) == 0) {
        return RG_GID_IPV4;
    }
    if (gid[0] == 0xff) {
        return RG_GID_MULTICAST;
    }
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80 ? RG_GID_LINK_LOCAL : RG_GID_GLOBAL;
}

void rg_gid_text(const uint8_t gid[16], char ret_text[RG_GID_TEXT_MAX + 1])
{
    bool is_ipv4 = rg_gid_scope(gid) == RG_GID_IPV4;
    (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? gid + 12 : gid, ret_text,
                    RG_GID_TEXT_MAX + 1);
}

bool rg_gid_is_address(const uint8_t gid[16], const char *address)
{
    uint8_t wanted[16] = {[10] = 0xff, 0xff};
    if (inet_pton(AF_INET, address, wanted + 12) != 1 &&
        inet_pton(AF_INET6, address, wanted) != 1) {
        return false;
    }
    return memcmp(gid, wanted, sizeof wanted) == 0;
}

/* Lower is better. */
static unsigned rank(const struct rg_gid_entry *entry)
{
    static const unsigned by_type[] = {
        [RG_GID_ROCE_V2] = 0,
        [RG_GID_ROCE_V1] = 1,
        [RG_GID_INFINIBAND] = 1,
        [RG_GID_UNKNOWN] = 2,
    };
    static const unsigned by_scope[] = {
        [RG_GID_IPV4] = 0, [RG_GID_GLOBAL] = 1,    [RG_GID_LINK_LOCAL] = 2,
        [RG_GID_ZERO] = 3, [RG_GID_MULTICAST] = 3,
    };
    return by_type[entry->type] * 4 + by_scope[rg_gid_scope(entry->gid)];
}

const struct rg_gid_entry *rg_gid_choose(const struct rg_gid_table *table, bool is_ethernet,
                                         const char *address)
{
    const struct rg_gid_entry *best = NULL;
    for (size_t i = 0; i < table->count; i++) {
        const struct rg_gid_entry *entry = &table->entries[i];
        if (!is_ethernet) {
            return entry;
        }
        if (address && !rg_gid_is_address(entry->gid, address)) {
            continue;
        }
        if (!best || rank(entry) < rank(best)) {
            best = entry;
        }
    }
    return best;
}

const struct rg_gid_entry *rg_gid_at(const struct rg_gid_table *table, int index)
{
    for (size_t i = 0; i < table->count; i++) {
        if (table->entries[i].index == index) {
            return &table->entries[i];
        }
    }
    return NULL;
}

const struct rg_gid_entry *rg_gid_find(const struct rg_gid_table *table, const uint8_t gid[16],
                                       const struct rg_gid_entry *like)
{
    const struct rg_gid_entry *found = NULL;
    for (size_t i = 0; i < table->count; i++) {
        const struct rg_gid_entry *entry = &table->entries[i];
        if (memcmp(entry->gid, gid, sizeof entry->gid) == 0 &&
            (!found || (found->type != like->type && entry->type == like->type))) {
            found = entry;
        }
    }
    return found;
}

const struct rg_gid_entry *rg_gid_toward(const struct rg_gid_table *table,
                                         const struct rg_gid_entry *rail, bool is_ethernet,
                                         const uint8_t peer[16])
{
    enum rg_gid_scope scope = rg_gid_scope(peer);
    if (!is_ethernet || scope == RG_GID_ZERO || scope == rg_gid_scope(rail->gid)) {
        return rail;
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct rg_gid_entry *entry = &table->entries[i];
        bool is_like_rail = scope == RG_GID_LINK_LOCAL || entry->type == rail->type;
        if (rg_gid_scope(entry->gid) == scope && is_like_rail &&
            strcmp(entry->netdev, rail->netdev) == 0) {
            return entry;
        }
    }
    return rail;
}
