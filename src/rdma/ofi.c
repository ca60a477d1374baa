/*
 * The libfabric transport: reliable datagram endpoints with RMA, one endpoint, completion queue and
 * address vector a lane. Over the tcp and shm providers it makes the whole token path run on any
 * machine; over others (verbs, efa, psm2, cxi) it drives their NICs.
 *
 * libfabric is loaded at run time. No type of it leaves the files that include ofi_inside.h.
 *
 * What was read in libfabric 1.17 and is relied on or worked around here and in the other files:
 *
 * - tcp and shm move bytes only while both ends poll (manual progress). A write with
 *   FI_DELIVERY_COMPLETE completes when the target has placed the bytes.
 * - tcp checks key and range once, when a message's header arrives, and then receives into that
 *   memory until the message is whole. Closing the memory region does not stop it; closing the
 *   endpoint does. So a window that is revoked before the peer said "done" takes its lane's
 *   endpoint along.
 * - tcp, flush: closing the endpoint closes the sockets. Our memory is quiet after that
 *   (RG_QUIET_LOCAL; zero-copy sends are off unless FI_TCP_ZEROCOPY_SIZE says otherwise). Bytes
 *   that are in the socket buffers still reach the peer, who writes them to the window until it
 *   revokes it: RG_QUIET_REMOTE is not promised. A write is at most one slot, so that is the most
 *   that can arrive late.
 * - tcp listens for every endpoint, accepts without a ceiling while it is polled, and keeps what
 *   never says a word: nothing is let through to initiators (deafen in ofi_endpoint.c).
 * - tcp, a refused key closes the connection: the initiator sees a peer that is gone, not why.
 * - shm: the target moves the bytes, by process_vm_readv or _writev on our addresses, when it
 *   next polls. Closing our endpoint does not take the command out of its queue, so a flush can
 *   promise nothing while the target lives: the slots are condemned (their address is given up).
 *   When the target is dead everything is quiet.
 * - shm: a refused key is dropped without an answer: the initiator runs into its deadline.
 * - shm without FI_DELIVERY_COMPLETE would write into the target by itself and never check the
 *   key; so reads carry the flag too.
 * - shm: posting takes a spin lock in the target's shared memory, and the target holds it while it
 *   copies. If it dies then, the post would spin for ever. So one operation at a time is posted on
 *   a lane, when the target has nothing to copy for us, and only after a look whether it is alive.
 * - shm: an endpoint can know 256 peers in its life. A target forgets none, and an initiator that
 *   forgets one keeps the number it had there: the next peer in the same place gets commands under
 *   that number without having been introduced, and dies of them. So both are renewed before that.
 * - shm: whether memory of other processes can be read (CMA) is found out with the first peer and
 *   kept for the endpoint's life. If that peer is dead, the answer is wrong.
 * - shm: names in tokens end up in shm_open and mmap unchecked; only names of our own form, backed
 *   by a plausible file of our own user, are let through.
 * - shm, psm and psm2 install signal handlers; they are taken out again at once.
 */
#include "rdma/ofi_inside.h"

const struct rg_transport rg_transport_ofi = {
    .name = "ofi",
    .kind = RG_TRANSPORT_OFI,
    .load = rg_ofi_load,
    .rail_open = rg_ofi_rail_open,
    .rail_close = rg_ofi_rail_close,
    .rail_check = rg_ofi_rail_check,
    .region_register = rg_ofi_region_register,
    .region_register_dmabuf = rg_unsupported_register_dmabuf,
    .region_deregister = rg_ofi_region_deregister,
    .lane_open = rg_ofi_lane_open,
    .lane_close = rg_ofi_lane_close,
    .lane_reset = rg_ofi_lane_reset,
    .lane_address = rg_unsupported_address,
    .lane_pair = rg_unsupported_pair,
    .lane_bind = rg_ofi_lane_bind,
    .lane_unbind = rg_ofi_lane_unbind,
    .lane_write = rg_ofi_lane_write,
    .lane_read = rg_ofi_lane_read,
    .lane_receive = rg_unsupported_receive,
    .lane_poll = rg_ofi_lane_poll,
    .lane_sleep = rg_ofi_lane_sleep,
    .lane_flush = rg_ofi_lane_flush,
    .lane_progress = rg_ofi_lane_progress,
    .window_mint = rg_ofi_window_mint,
    .window_revoke = rg_ofi_window_revoke,
};
