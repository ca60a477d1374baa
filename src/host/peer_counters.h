/*
 * Counters of loss and retransmission, before and after transfers.
 */
#ifndef RG_HOST_PEER_COUNTERS_H
#define RG_HOST_PEER_COUNTERS_H

#include "base/buf.h"

#include <jansson.h>
#include <stdint.h>

/* {"type": "counters", "NAME": number ...} of this host; NULL when memory is short. */
json_t *rg_peer_tell_counters(void);

/* The sum of what has risen on RDMA devices, at most UINT32_MAX for each counter; all that has
 * risen is named in `out`, TCP's retransmissions too. */
uint64_t rg_peer_counters_moved(const json_t *before, const json_t *after, struct rg_buf *out);

#endif
