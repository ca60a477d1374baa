/*
 * What two hosts have to agree about, as one side tells it to the other, and what does not match.
 */
#ifndef RG_HOST_PEER_FACTS_H
#define RG_HOST_PEER_FACTS_H

#include "base/error.h"
#include "host/check.h"

#include <jansson.h>

#define RG_PEER_PORTS_MAX 32
#define RG_PEER_TEXT_MAX  95

struct rg_peer_port {
    char device[64];
    char family[16]; /* "ConnectX", "E810" ... */
    char firmware[64];
    char board[64];
    unsigned number;
    bool is_active, is_ethernet, is_iwarp;
    char gid[48]; /* "" when there is none */
    int gid_index;
    char gid_type[16]; /* "RoCE v2", "RoCE v1", "IB" */
    char netdev[32];
    unsigned netdev_mtu; /* bytes; 0: not known */
    unsigned active_mtu;
    uint64_t rate_mbits;
    int traffic_class; /* -1: no DCB */
    unsigned pfc;      /* bit n: priority n is lossless */
};

struct rg_peer_facts {
    char host[RG_PEER_TEXT_MAX + 1];
    char version[32];
    char kernel[RG_PEER_TEXT_MAX + 1];
    char boot_id[48];
    struct rg_peer_port ports[RG_PEER_PORTS_MAX];
    size_t port_count;
    unsigned netdev_mtu; /* of the interface that has the connection's address; 0 */
    char netdev[32];
    char address[64]; /* of the connection, on that side */
    char gpu[32];     /* whose memory it lends, "cuda:0"; "" */
};

/* Reads this host in a watched child. `address` is the connection's on this side. NULL when it
 * cannot be done; the caller owns the object. */
json_t *rg_peer_tell_facts(const char *address, struct rg_error *err);

/* False when the object is not such facts; fields out of range are left at zero. */
bool rg_peer_take_facts(const json_t *object, struct rg_peer_facts *ret_facts);

/* The port that the connection's address belongs to, else the first that is active, or NULL. */
const struct rg_peer_port *rg_peer_port_of(const struct rg_peer_facts *facts);

struct rg_peer_clock {
    bool known;
    int64_t offset_us; /* theirs minus ours */
    int64_t error_us;  /* half the round trip */
};

/* Compares; findings name checks of checks_peer.tbl. `priority` (0 to 7) is the one that is planned
 * to be lossless: a host where it is gets no remedy that turns it off. */
void rg_peer_compare(const struct rg_peer_facts *own, const struct rg_peer_facts *other,
                     const struct rg_peer_clock *clock, unsigned priority,
                     struct rg_findings *findings);

#endif
