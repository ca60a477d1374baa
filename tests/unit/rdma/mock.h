/*
 * A transport made of memory copies inside the process, whose delays, order and failures a test
 * chooses. One set of knobs for the process; reset it at the start of each test.
 */
#ifndef RG_TESTS_MOCK_H
#define RG_TESTS_MOCK_H

#include "rdma/transport.h"

struct mock_knobs {
    /* Time */
    atomic_uint delay_us;      /* from post to completion */
    atomic_bool reverse_order; /* of what is due, the newest completes first */
    atomic_bool stuck;         /* nothing completes any more */
    atomic_uint stuck_after;   /* 0: off; operations after this many never complete */

    /* Failures; counters count from 1, 0 is off */
    atomic_uint fail_operation;        /* the n-th operation of the process fails ... */
    _Atomic(enum rg_broke) fail_broke; /* ... and breaks this */
    _Atomic(enum rg_cause) fail_cause;
    atomic_uint short_operation; /* the n-th operation moves half and says so */
    atomic_uint refuse_posts;    /* so many posts are answered with RG_LIMIT */
    atomic_uint fail_post;       /* the n-th post breaks the connection at once */
    atomic_bool fail_lane_open;
    atomic_bool fail_rail_open; /* RG_SERVICE_UNAVAILABLE */
    atomic_bool fail_rail_check;
    atomic_uint flush_quiet; /* RG_QUIET_* that a flush promises */
    atomic_bool fail_flush;
    atomic_uint depth; /* of new lanes; 0: as the rail says */
    atomic_bool pins_memory;

    /* What happened */
    atomic_uint posts, operations, rails_open, lanes_open, regions, flushes, windows;
};

extern struct mock_knobs mock;
extern const struct rg_transport mock_transport;

void mock_reset(void);

/* A window on plain memory of this process, without a lane: for initiators under test. */
struct rg_rdma_window mock_window(void *memory, uint64_t length);

#endif
