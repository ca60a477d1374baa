/*
 * A transport that lives inside the test's process: the "peer" reaches windows by their key, for as
 * long as they are not revoked. For the client's side only: lanes mint, they post nothing.
 */
#ifndef RG_TESTS_FAKE_RAIL_H
#define RG_TESTS_FAKE_RAIL_H

#include "rdma/transport.h"

#include <stdatomic.h>

struct fake_rail_knobs {
    atomic_bool fail_open;     /* rails cannot be opened */
    atomic_bool is_missing;    /* the device fake_0 is not there */
    atomic_bool is_down;       /* ports are down: they come back as they were */
    atomic_uint gone;          /* devices were pulled out so often: rails from before are dead */
    atomic_bool fail_mint;     /* windows cannot be minted */
    atomic_bool fail_register; /* memory cannot be registered */
    atomic_bool needs_progress;
    atomic_uint_least64_t dmabuf_max; /* larger dma-bufs are refused; 0: no limit */

    /* What happened */
    struct rg_rail_config config;               /* of the last rail that was opened */
    atomic_uint rails, lanes, regions, windows; /* open now */
    atomic_uint mints, settled, unsettled, resets, pairings, dmabufs;
    atomic_uint progress_rounds;
};

extern struct fake_rail_knobs fake_rail;

void fake_rail_reset(void);

/* For struct rg_client_seams: the kinds that stand in the client's `transports` all exist. */
const struct rg_transport *fake_rail_find(enum rg_transport_kind kind);

/*
 * What a peer does with a token: copies `length` bytes into (GET) or out of (PUT) the window at
 * `offset`. False when the token is none, the window is gone, the range or the direction is wrong:
 * then nothing was touched.
 */
bool fake_rail_write(const char *token, uint64_t offset, const void *from, uint64_t length);
bool fake_rail_read(const char *token, uint64_t offset, void *to, uint64_t length);

/* The length of the window; 0 when the token is none. Works on dead windows too. */
uint64_t fake_rail_length(const char *token);

/*
 * What the peer of hipobj-rc-v2 does. PUT: says where pushes arrive, and by which key; looks
 * whether one has. GET: writes into the window with this key and tells by an immediate; false when
 * there is none, or no receive has been posted on its lane: then nothing was touched.
 */
uint32_t fake_rail_stage(void *bytes, uint64_t length);
bool fake_rail_is_pushed(uint32_t *ret_immediate);
bool fake_rail_push(uint32_t key, const void *from, uint64_t length, uint32_t immediate);

/* The session in an rc token; "" for others. */
void fake_rail_session(const char *token, char session[RG_RC_SESSION_LENGTH + 1]);

#endif
