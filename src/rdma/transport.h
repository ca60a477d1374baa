/*
 * The data plane's one interface. A transport opens a rail (one port of one NIC, or one libfabric
 * provider), registers memory on it, and hands out lanes. A lane is a queue pair (or endpoint) with
 * its own completion queue; the thread that posts on a lane is the thread that waits on it.
 *
 *   initiator (gateway):  rail_open, region, lane, bind(window), write/read, wait, flush
 *
 *   target (client):      rail_open, region, lane, mint(window), progress, revoke
 *
 *   session (rc, D2/D4):  lane, address / pair, then either of the two above
 *
 * Threads. A rail's functions are safe from any thread. A lane, and the windows minted on it,
 * belong to one thread at a time; hand-over needs the usual happens-before (a mutex, a join).
 *
 * Memory. What is posted belongs to nobody until its completion has been returned by rg_lane_wait,
 * or rg_lane_flush has returned and said so. That holds for failed operations too.
 *
 * No type of a verbs or fabric library appears here, and none may. The library behind a transport
 * is loaded with dlopen at the first rail_open; its absence is RG_RDMA_NOT_SUPPORTED, never a
 * crash.
 */
#ifndef RG_RDMA_TRANSPORT_H
#define RG_RDMA_TRANSPORT_H

#include "base/error.h"
#include "rdma/token.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_transport;
struct rg_lane;

#define RG_RAIL_AUTO        (-1)
#define RG_RAIL_NAME_MAX    63
#define RG_RAIL_ADDRESS_MAX 107
#define RG_RAIL_PATH_MAX    (RG_OFI_PROVIDER_MAX + 4)
#define RG_LANE_DEPTH_MAX   64 /* operations in flight on one lane */
#define RG_CAUSE_TEXT_MAX   127

/* ---- Errors, grouped by what they broke ---- */

/*
 * OPERATION:  that operation failed, the lane goes on.
 * CONNECTION: every other operation of this lane fails too; flush it, then reopen or discard it.
 *             Other lanes are not concerned.
 * DEVICE:     the rail is gone: port down, device removed, library failure. Take it out.
 */
enum rg_broke { RG_BROKE_NOTHING, RG_BROKE_OPERATION, RG_BROKE_CONNECTION, RG_BROKE_DEVICE };

/* Why. The name is a metrics label. */
#define RG_CAUSES(X)                                                                               \
    X(NONE, "none", "no error")                                                                    \
    X(REMOTE_ACCESS, "remote-access",                                                              \
      "the peer's memory refused the key, the range or the access")                                \
    X(PEER_GONE, "peer-gone", "the peer does not answer or has closed the connection")             \
    X(PEER_NOT_READY, "peer-not-ready", "the peer had no receive posted")                          \
    X(LOCAL, "local", "the local memory or the request was refused by the NIC")                    \
    X(FLUSHED, "flushed", "an earlier failure or a flush ended the operation")                     \
    X(SHORT, "short", "fewer bytes moved than were asked for")                                     \
    X(PORT_DOWN, "port-down", "the port is not active")                                            \
    X(DEVICE_GONE, "device-gone", "the device was removed or failed")                              \
    X(TOO_SLOW, "too-slow", "the transfer did not end within its time")                            \
    X(STORAGE, "storage", "the file could not be read or written")                                 \
    X(CANCELLED, "cancelled", "the client gave the transfer up, or the gateway ends")              \
    X(OTHER, "other", "an error of the provider without a class of its own")

enum rg_cause {
#define RG_CAUSE(identifier, name, sentence) RG_CAUSE_##identifier,
    RG_CAUSES(RG_CAUSE)
#undef RG_CAUSE
        RG_CAUSE_COUNT
};

const char *rg_cause_name(enum rg_cause cause);
const char *rg_cause_sentence(enum rg_cause cause);
/* Of a transfer that ended with `rc`: what the lane says, else what that does, else `otherwise`. */
enum rg_cause rg_cause_of(const struct rg_lane *lane, int rc, enum rg_cause otherwise);

const char *rg_broke_name(enum rg_broke broke); /* "nothing", "operation", "connection", "device" */

/* ---- Rails ---- */

/*
 * What to open. Start from RG_RAIL_CONFIG_INIT; fields a transport does not know are ignored by it.
 * Everything is copied.
 */
struct rg_rail_config {
    char device[RG_RAIL_NAME_MAX + 1];     /* rc, dc: "mlx5_0", empty: the first that fits;
                                              ofi: provider, "tcp" means "tcp;ofi_rxm" */
    char address[RG_RAIL_ADDRESS_MAX + 1]; /* ofi over IP: local numeric address, empty: 127.0.0.1;
                                              rc, dc: the port that owns it, empty: no matter */
    uint8_t port;                          /* rc, dc: 1 based; 0: the first that is active */
    int gid_index;                         /* rc, dc: RG_RAIL_AUTO: by rule */
    int traffic_class;                     /* rc, dc: 0..255; RG_RAIL_AUTO: from the host's DCB */
    uint8_t service_level;
    uint32_t mtu;        /* rc, dc: bytes, at most the port's active MTU; 0: that */
    uint8_t hop_limit;   /* rc, dc */
    uint8_t ack_timeout; /* rc, dc: 4.096 us * 2^n, 1..31 */
    uint8_t retry_count; /* rc, dc: 0..7 */
    uint8_t rnr_retry;   /* rc, dc: 0..7, 7: for ever */
    uint64_t dc_key;     /* dc */
    uint32_t lane_depth; /* operations in flight on one lane, 1..RG_LANE_DEPTH_MAX */
    uint32_t spin_us;    /* busy polling before a wait sleeps */
};

#define RG_RAIL_CONFIG_INIT                                                                        \
    {                                                                                              \
        .gid_index = RG_RAIL_AUTO, .traffic_class = RG_RAIL_AUTO, .hop_limit = 64,                 \
        .ack_timeout = 16, .retry_count = 7, .rnr_retry = 7, .dc_key = 0xffeeddcc,                 \
        .lane_depth = 16, .spin_us = 20                                                            \
    }

/* What an open rail is; filled by rail_open, constant until rail_close, read by everybody. */
struct rg_rail {
    const struct rg_transport *transport;
    struct rg_rail_config config;          /* as asked */
    char path[RG_RAIL_PATH_MAX + 1];       /* the path's name: "rc", "dc", "ofi:tcp", "ofi:shm" */
    char device[RG_RAIL_NAME_MAX + 1];     /* in use */
    char address[RG_RAIL_ADDRESS_MAX + 1]; /* in use, text; GID or IP */
    uint8_t gid[16];      /* all zero: none; ofi over IP: its address, IPv4 as ::ffff:a.b.c.d */
    unsigned subnet_bits; /* leading bits of the GID that are its subnet; 0: not known */
    int gid_index;        /* rc, dc; else -1 */
    int traffic_class;    /* in use; -1: does not apply */
    uint32_t mtu;         /* bytes; 0: does not apply */
    uint64_t operation_bytes_max; /* of one write or read */
    uint64_t message_bytes_max;   /* rc, dc: a longer one goes as several messages; else 0 */
    bool is_hardware;             /* false for ofi over tcp and shm: never shown as RDMA hardware */
    bool pins_memory;             /* registered bytes count against RLIMIT_MEMLOCK */
    bool target_needs_progress;   /* the target must run rg_lane_progress while a request
                                     with its window is outstanding */
};

/* ---- Memory ---- */

enum {
    RG_ACCESS_LOCAL = 1, /* source of writes and destination of reads posted here */
    RG_ACCESS_REMOTE_WRITE =
        2, /* the peer may write: the client's GET buffer, staging of a D4 PUT */
    RG_ACCESS_REMOTE_READ = 4, /* the peer may read: the client's PUT buffer */
};

/* Registered memory. The bytes stay the caller's; they must outlive the region. */
struct rg_region {
    struct rg_rail *rail;
    void *address;   /* NULL for memory that the CPU cannot reach (dma-buf) */
    uint64_t length; /* bytes */
    unsigned access;
};

/* ---- Lanes ---- */

enum rg_lane_operation { RG_OPERATION_WRITE, RG_OPERATION_READ, RG_OPERATION_RECEIVE };

struct rg_completion {
    uint64_t cookie;
    enum rg_lane_operation operation;
    uint64_t length; /* bytes of the operation; RECEIVE: as the NIC says, may be the last piece's */
    bool has_immediate;
    uint32_t immediate;  /* host order */
    enum rg_broke broke; /* NOTHING: the operation succeeded */
    enum rg_cause cause;
    int provider_status;                       /* ibv_wc_status, or fi_errno */
    char provider_text[RG_CAUSE_TEXT_MAX + 1]; /* what the library calls it; "" on success */
};

struct rg_lane {
    struct rg_rail *rail;
    uint32_t depth;       /* operations that may be in flight; at most config.lane_depth */
    uint32_t outstanding; /* posted, completion not yet returned; receives are not counted */
    enum rg_broke broke;  /* worst so far; CONNECTION and DEVICE stay until rg_lane_reset */
    enum rg_cause cause;  /* of that */
    bool bound;           /* there is a peer window to post to */
    struct rg_rdma_window window; /* that window */
    struct rg_progress *progress; /* its thread; NULL before the first rg_progress_start */
};

/* What the ends of a queue pair tell each other before it can be paired (rc). */
struct rg_lane_address {
    uint32_t qpn; /* 24 bits */
    uint32_t psn; /* 24 bits: the first packet this side sends */
    uint16_t lid;
    bool has_gid;
    uint8_t gid[16];
    uint8_t port;
    uint32_t mtu;      /* bytes; 0: not said, own active MTU counts */
    uint8_t reads_max; /* RDMA READs that this side answers at a time; 0: not said, 1 counts */
};

/* What a flush can promise; more than one bit. */
enum {
    RG_QUIET_LOCAL = 1,  /* nothing posted earlier reads or writes local memory any more */
    RG_QUIET_REMOTE = 2, /* nothing posted earlier reads or writes the peer's memory any more */
};

/* ---- Windows on the target's side ---- */

enum rg_direction {
    RG_DIRECTION_GET, /* the peer writes into the window */
    RG_DIRECTION_PUT, /* the peer reads from it */
};

/* A minted window; made by rg_window_mint, gone after rg_window_revoke. */
struct rg_target {
    struct rg_lane *lane;
    struct rg_region *region;
    struct rg_rdma_window window; /* what rg_token_print_* wants */
    enum rg_direction direction;
};

/* ---- The interface ---- */

/*
 * Every slot is filled; what a transport cannot do is one of the rg_unsupported_* functions. Call
 * through the rg_rail_*, rg_region_*, rg_lane_* and rg_window_* functions below: they check
 * arguments and keep the books (outstanding, broke, bound), so that transports need not.
 * A transport allocates its own larger structure with the public one as first member.
 */
struct rg_transport {
    const char *name; /* "rc", "dc", "ofi" */
    enum rg_transport_kind kind;
    bool resets_lanes; /* a broken lane is better reset than closed and opened again */

    /* Called under a lock, again after a failure; must be quick once it has succeeded. */
    int (*load)(struct rg_error *err);
    int (*rail_open)(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                     struct rg_error *err);
    void (*rail_close)(struct rg_rail *rail);
    int (*rail_check)(struct rg_rail *rail, struct rg_error *err);

    int (*region_register)(struct rg_rail *rail, void *address, uint64_t length, unsigned access,
                           struct rg_region **ret_region, struct rg_error *err);
    int (*region_register_dmabuf)(struct rg_rail *rail, int dmabuf_fd, uint64_t fd_offset,
                                  uint64_t address, uint64_t length, unsigned access,
                                  struct rg_region **ret_region, struct rg_error *err);
    void (*region_deregister)(struct rg_region *region);

    int (*lane_open)(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err);
    void (*lane_close)(struct rg_lane *lane);
    int (*lane_reset)(struct rg_lane *lane, struct rg_error *err);
    /* `peer` may be NULL, only its GID counts; `own` may be NULL. */
    int (*lane_address)(struct rg_lane *lane, const struct rg_lane_address *peer,
                        struct rg_lane_address *ret_address, struct rg_error *err);
    int (*lane_pair)(struct rg_lane *lane, const struct rg_lane_address *own,
                     const struct rg_lane_address *peer, struct rg_error *err);
    int (*lane_bind)(struct rg_lane *lane, const struct rg_rdma_window *window,
                     struct rg_error *err);
    void (*lane_unbind)(struct rg_lane *lane);
    int (*lane_write)(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                      uint64_t cookie, struct rg_error *err);
    int (*lane_read)(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                     uint64_t window_offset, uint64_t length, uint64_t cookie,
                     struct rg_error *err);
    int (*lane_receive)(struct rg_lane *lane, uint64_t cookie, struct rg_error *err);
    /* Never blocks; fills in all of each completion. An error: rg_lane_break was called. */
    int (*lane_poll)(struct rg_lane *lane, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err);
    /*
     * Sleeps until there may be something to poll, wake_fd (if >= 0) is readable or the time is
     * over; returns 1 when wake_fd is readable, else 0. Must not miss a completion that arrived
     * between the last poll and the sleep. May wake for nothing.
     */
    int (*lane_sleep)(struct rg_lane *lane, int wake_fd, uint64_t timeout_us, struct rg_error *err);
    /* Called only with operations outstanding, or on a broken lane. */
    int (*lane_flush)(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err);
    /* One non-blocking round of the target's work; 1 when something moved, 0 when not. */
    int (*lane_progress)(struct rg_lane *lane, struct rg_error *err);

    int (*window_mint)(struct rg_lane *lane, struct rg_region *region, uint64_t offset,
                       uint64_t length, enum rg_direction direction, struct rg_target **ret_target,
                       struct rg_error *err);
    int (*window_revoke)(struct rg_target *target, bool settled, struct rg_error *err);
};

/* Built in; one row each in rg_transport_find. */
extern const struct rg_transport rg_transport_dc;
extern const struct rg_transport rg_transport_rc;
extern const struct rg_transport rg_transport_ofi;

/* The transport of a kind, or NULL when this build has none. */
const struct rg_transport *rg_transport_find(enum rg_transport_kind kind);

/*
 * Loads the transport's library, once for the process. RG_RDMA_NOT_SUPPORTED, with the library and
 * the loader's words, when it is missing or too old. rg_rail_open does it too. Better
 * early, while the process has one thread: libfabric takes some of its settings from the
 * environment only, and ofi suggests small endpoints there (FI_OFI_RXM_*) when no other
 * thread can be looking.
 */
int rg_transport_load(const struct rg_transport *transport, struct rg_error *err);

/*
 * Opens a rail. Errors: RG_RDMA_NOT_SUPPORTED (no library, no such device or provider),
 * RG_SETTING (a field is out of range or names something that is not there: the sentence says
 * which), RG_SERVICE_UNAVAILABLE (the port is down: may be tried again), RG_OUT_OF_MEMORY.
 */
int rg_rail_open(const struct rg_transport *transport, const struct rg_rail_config *config,
                 struct rg_rail **ret_rail, struct rg_error *err);

/* All lanes and regions of it must be gone (an assertion in the transports that can tell). */
void rg_rail_close(struct rg_rail *rail);

/*
 * Whether the rail could carry a transfer now, asked without moving bytes: verbs look at the port.
 * 0 or RG_SERVICE_UNAVAILABLE with what is wrong. Cheap (one system call).
 */
int rg_rail_check(struct rg_rail *rail, struct rg_error *err);

/* The path's name for metrics and x-railgate-path: "rc", "dc", "ofi:tcp", "ofi:shm" ... */
const char *rg_rail_path(const struct rg_rail *rail);

/*
 * Registers [address, address + length) for `access` (one or more RG_ACCESS_*). Errors:
 * RG_LIMIT (locked-memory limit; the sentence gives the figure), RG_OUT_OF_MEMORY,
 * RG_INVALID_ARGUMENT (unmapped or read-only memory, zero length).
 */
int rg_region_register(struct rg_rail *rail, void *address, uint64_t length, unsigned access,
                       struct rg_region **ret_region, struct rg_error *err);

/*
 * The same for device memory that was exported as a dma-buf: `fd_offset` is where the range begins
 * in the dma-buf, `address` the address the peer will use for its first byte (the GPU virtual
 * address). The descriptor is borrowed for the call. RG_RDMA_NOT_SUPPORTED where it cannot be done.
 */
int rg_region_register_dmabuf(struct rg_rail *rail, int dmabuf_fd, uint64_t fd_offset,
                              uint64_t address, uint64_t length, unsigned access,
                              struct rg_region **ret_region, struct rg_error *err);

/* No operation may be outstanding and no window minted on it. NULL is allowed. */
void rg_region_deregister(struct rg_region *region);

/* Opens a lane. RG_LIMIT when the device has no more queue pairs or endpoints. */
int rg_lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err);

/*
 * Flushes and closes. Where the flush cannot promise RG_QUIET_LOCAL, call rg_lane_flush first to
 * learn that. NULL is allowed.
 */
void rg_lane_close(struct rg_lane *lane);

/*
 * Makes a flushed or broken lane as good as newly opened (a paired one must be paired again). An
 * error leaves it broken: close it.
 */
int rg_lane_reset(struct rg_lane *lane, struct rg_error *err);

/*
 * rc only: this end's numbers, fresh for every pairing; then the peer's, after which the queue pair
 * can send and receive. RG_RDMA_NOT_SUPPORTED elsewhere.
 *
 * rg_lane_address_toward gives the address of ours that a peer with this GID can reach: a peer with
 * a link-local one needs ours. To pair again with a peer that has been told our numbers already,
 * after rg_lane_reset, rg_lane_pair_as takes them as they were.
 *
 * Errors of pairing: RG_INVALID_RDMA_TOKEN (the peer's numbers make no sense), RG_INVALID_ARGUMENT
 * (paired already), RG_RDMA_TRANSFER_FAILED (the peer cannot be reached). The lane can be paired
 * once more unless it broke.
 */
int rg_lane_address(struct rg_lane *lane, struct rg_lane_address *ret_address,
                    struct rg_error *err);
int rg_lane_address_toward(struct rg_lane *lane, const struct rg_lane_address *peer,
                           struct rg_lane_address *ret_address, struct rg_error *err);
int rg_lane_pair(struct rg_lane *lane, const struct rg_lane_address *peer, struct rg_error *err);
int rg_lane_pair_as(struct rg_lane *lane, const struct rg_lane_address *own,
                    const struct rg_lane_address *peer, struct rg_error *err);

/*
 * Names the peer's window that posts go to, replacing an earlier one; nothing may be outstanding.
 * The window is untrusted text from a client: everything wrong with it is an error value.
 * RG_RDMA_NOT_SUPPORTED (another transport or provider), RG_INVALID_RDMA_TOKEN (the address
 * means nothing), RG_RDMA_TRANSFER_FAILED (the peer cannot be reached; lane->broke says more).
 */
int rg_lane_bind(struct rg_lane *lane, const struct rg_rdma_window *window, struct rg_error *err);

/* Forgets the window and what the transport keeps about the peer. Nothing may be outstanding. */
void rg_lane_unbind(struct rg_lane *lane);

/*
 * Posts one RDMA WRITE of region[region_offset, + length) to window[window_offset, + length), or
 * one RDMA READ the other way. `cookie` comes back in the completion. rg_lane_write_immediate also
 * sends `immediate`, which consumes a receive of the peer. A write's successful completion means
 * that the bytes are in the peer's memory (rc, dc: acknowledged by the peer's NIC; ofi: delivery
 * complete).
 *
 * RG_LIMIT is "no resource now": nothing was posted, the lane is fine, and the caller must take at
 * least one completion (rg_lane_wait) before it tries again; with nothing outstanding, which
 * happens while a provider connects, it must call rg_lane_wait for a while (it returns
 * RG_TIMED_OUT) and watch its own deadline. Never post in a loop without waiting.
 * RG_INVALID_ARGUMENT: outside the region or the window, or longer than operation_bytes_max; the
 * lane is fine. RG_RDMA_TRANSFER_FAILED: lane->broke says what broke.
 */
int rg_lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                  uint64_t window_offset, uint64_t length, uint64_t cookie, struct rg_error *err);
int rg_lane_write_immediate(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                            uint64_t window_offset, uint64_t length, uint32_t immediate,
                            uint64_t cookie, struct rg_error *err);
int rg_lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                 uint64_t window_offset, uint64_t length, uint64_t cookie, struct rg_error *err);

/* rc only: posts an empty receive for the peer's write with immediate. */
int rg_lane_receive(struct rg_lane *lane, uint64_t cookie, struct rg_error *err);

/*
 * Takes completions: up to `room`, in the order the provider gives them. Polls, then spins for
 * config.spin_us, then sleeps on the completion channel until one arrives, `wake_fd` (-1: none)
 * becomes readable, or `timeout_ms` (0: only poll) is over. This call also drives providers that
 * only move bytes while polled.
 *
 * 0: *ret_count completions, 0 only when wake_fd is readable. RG_TIMED_OUT: neither came.
 * RG_RDMA_TRANSFER_FAILED: the lane itself broke (lane->broke, ->cause) and some operations will
 * never complete: flush. A failed operation is no error of this call: see completions[i].broke.
 */
int rg_lane_wait(struct rg_lane *lane, struct rg_completion *completions, size_t room, int wake_fd,
                 uint32_t timeout_ms, size_t *ret_count, struct rg_error *err);

/* What a flush may take: what it lets a sound lane go on for, and a queue pair's end. A drained
 * queue is a matter of microseconds; a device that takes longer is reset. */
#define RG_FLUSH_GRACE_MS 100
#define RG_FLUSH_DRAIN_MS 1000

/*
 * Ends everything outstanding. When it returns 0, *ret_quiet says what is promised; completions of
 * the operations that were ended are never delivered and outstanding is 0. Cheap when nothing was
 * outstanding, and then both bits are set. Otherwise the lane needs rg_lane_reset.
 *
 * rc, dc: the queue pair goes to the error state and its queue is drained: LOCAL. REMOTE too, but
 * for packets that had left the port and are still in the fabric: the client's own
 * revocation of its key is the fence for those.
 * ofi: see ofi.c for each provider. Without RG_QUIET_LOCAL the memory must not be used
 * again: give the slots to rg_slab_condemn.
 *
 * A sound lane is given RG_FLUSH_GRACE_MS to end by itself first: then nothing has to be torn down.
 */
int rg_lane_flush(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err);

/* The same without that grace: not one more byte is moved on purpose. */
int rg_lane_cut(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err);

/*
 * Mints a window on region[offset, + length) for one request. (*ret_target)->window is ready for
 * the printer of its dialect: ofi: rg_token_print_ofi; dc: _d1; rc: the session text is the
 * caller's to fill in, then _rc_session or _hipobj. The region's access must allow `direction`.
 * The window covers exactly these bytes, and only `direction`, where the transport can say so.
 */
int rg_window_mint(struct rg_lane *lane, struct rg_region *region, uint64_t offset, uint64_t length,
                   enum rg_direction direction, struct rg_target **ret_target,
                   struct rg_error *err);

/*
 * Ends a window: when it returns, no operation of the peer, however late, reaches the memory. With
 * `settled` (the peer has confirmed that the transfer is over) the lane goes on; without it the
 * lane's connections may have to be cut, and the lane must be reset before it mints again
 * (lane->broke is then CONNECTION). `target` is gone in any case. An error means that the promise
 * does not hold: the memory must never be used or freed while the lane is open; close the lane.
 */
int rg_window_revoke(struct rg_target *target, bool settled, struct rg_error *err);

/*
 * Target side: moves what the peer asks for, for at most `timeout_ms`; returns earlier when *stop
 * becomes true: it looks between any two moves, and while it sleeps `wake_fd` (-1: none, then at
 * least every 10 ms) must become readable to be noticed at once. Returns at once when the rail
 * needs no progress. An error is the lane's (lane->broke).
 */
int rg_lane_progress(struct rg_lane *lane, uint32_t timeout_ms, const atomic_bool *stop,
                     int wake_fd, struct rg_error *err);

/*
 * A thread that runs rg_lane_progress while a request is outstanding. From start to stop the lane
 * belongs to that thread: mint before, revoke after. On a rail that needs no progress both do
 * nothing. stop returns what progress returned. The thread itself stays until rg_lane_close.
 */
struct rg_progress;
int rg_progress_start(struct rg_lane *lane, struct rg_progress **ret_progress,
                      struct rg_error *err);
int rg_progress_stop(struct rg_progress *progress, struct rg_error *err);

/* ---- For transports: slots that cannot be served, and the books ---- */

int rg_unsupported_register_dmabuf(struct rg_rail *rail, int dmabuf_fd, uint64_t fd_offset,
                                   uint64_t address, uint64_t length, unsigned access,
                                   struct rg_region **ret_region, struct rg_error *err);
int rg_unsupported_address(struct rg_lane *lane, const struct rg_lane_address *peer,
                           struct rg_lane_address *ret_address, struct rg_error *err);
int rg_unsupported_pair(struct rg_lane *lane, const struct rg_lane_address *own,
                        const struct rg_lane_address *peer, struct rg_error *err);
int rg_unsupported_receive(struct rg_lane *lane, uint64_t cookie, struct rg_error *err);
int rg_unsupported_mint(struct rg_lane *lane, struct rg_region *region, uint64_t offset,
                        uint64_t length, enum rg_direction direction, struct rg_target **ret_target,
                        struct rg_error *err);
int rg_unsupported_revoke(struct rg_target *target, bool settled, struct rg_error *err);
int rg_unneeded_progress(struct rg_lane *lane, struct rg_error *err);

/*
 * A transport reports damage with this: raises lane->broke (never lowers it), keeps the first
 * cause, and returns RG_RDMA_TRANSFER_FAILED with the cause's sentence and `detail`.
 */
int rg_lane_break(struct rg_lane *lane, enum rg_broke broke, enum rg_cause cause,
                  const char *detail, struct rg_error *err);

#endif
