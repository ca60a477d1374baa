/*
 * The mock transport as reliable connections: lanes have addresses, are paired, take receives. The
 * peer is the test itself, in the same process: it reads and writes the memory directly, and says
 * that it has pushed.
 */
#ifndef RG_TESTS_MOCK_RC_H
#define RG_TESTS_MOCK_RC_H

#include "mock.h"

#define MOCK_RC_QPN 0x1000u /* of the first lane */

struct mock_rc_knobs {
    atomic_bool fail_pair;
    atomic_bool fail_receive;

    /* The peer has pushed: the next lane with a receive posted gets this, once. */
    atomic_bool pushed;
    _Atomic uint32_t push_immediate;
    _Atomic uint64_t push_length;
    _Atomic(enum rg_broke) push_broke;

    /* What happened */
    atomic_uint pairings, receives, windows;
    _Atomic uint32_t last_peer_qpn;
    _Atomic uint32_t last_immediate; /* of a write of ours */
    atomic_uint immediates;
};

extern struct mock_rc_knobs mock_rc;
extern const struct rg_transport mock_rc_transport;

/* Also mock_reset. */
void mock_rc_reset(void);

/* Says that a push is complete. */
void mock_rc_push(uint32_t immediate, uint64_t length);

#endif
