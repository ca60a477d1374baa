/*
 * The other end of a connection, in a process of its own that does as it is told: for tests on a
 * real verbs device. One command at a time, answered over a socket.
 */
#ifndef RG_TESTS_RXE_PEER_H
#define RG_TESTS_RXE_PEER_H

#include "rdma/transport.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PEER_LANES_MAX   256
#define PEER_TARGETS_MAX 256

struct peer {
    bool pose_as_hardware; /* set before the start: soft-RoCE with a vendor, so that what is done
                              on hardware only is done */
    pid_t pid;
    int fd;
    struct rg_error error; /* of the last command that failed */
};

/*
 * Starts it: opens a rail with `config` and registers `bytes` of memory with `access`. Must be
 * called before this process opens a device. Fails the test when it does not start.
 */
void peer_start(struct peer *peer, const struct rg_rail_config *config, uint64_t bytes,
                unsigned access);

/* Waits for its end. */
void peer_stop(struct peer *peer);

/* Without a word. */
void peer_kill(struct peer *peer);

/* Each returns what the call of the same name over there returned; peer->error says more. */
int peer_lane_open(struct peer *peer, unsigned lane);
int peer_lane_close(struct peer *peer, unsigned lane);
int peer_lane_reset(struct peer *peer, unsigned lane);
int peer_lane_address(struct peer *peer, unsigned lane, const struct rg_lane_address *toward,
                      struct rg_lane_address *ret_address);
int peer_lane_pair(struct peer *peer, unsigned lane, const struct rg_lane_address *address);
int peer_lane_receive(struct peer *peer, unsigned lane, uint64_t cookie);
int peer_lane_wait(struct peer *peer, unsigned lane, uint32_t timeout_ms,
                   struct rg_completion *ret_completion);
int peer_lane_broke(struct peer *peer, unsigned lane); /* enum rg_broke */
int peer_mint(struct peer *peer, unsigned target, unsigned lane, uint64_t offset, uint64_t length,
              enum rg_direction direction, struct rg_rdma_window *ret_window);
int peer_revoke(struct peer *peer, unsigned target, bool settled);

/* For D4's PUT and for wrong clients: it writes by itself into a window. */
int peer_write(struct peer *peer, unsigned lane, const struct rg_rdma_window *window,
               uint64_t offset, uint64_t length, const uint32_t *immediate);

/* Its memory: fill with the bytes that `seed` gives, or compute their digest. */
void peer_fill(struct peer *peer, uint64_t offset, uint64_t length, uint64_t seed);
uint64_t peer_digest(struct peer *peer, uint64_t offset, uint64_t length);

/* The same on this side. */
void fill(void *bytes, uint64_t length, uint64_t seed);
uint64_t digest(const void *bytes, uint64_t length);

#endif
