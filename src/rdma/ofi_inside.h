/*
 * What the files of the libfabric transport share: ofi.c (the table of functions, and what is known
 * of the providers), ofi_library.c, ofi_rail.c, ofi_memory.c, ofi_endpoint.c, ofi_peer.c,
 * ofi_work.c and ofi_shm.c. It shows types of libfabric: nobody else may include it.
 */
#ifndef RG_RDMA_OFI_INSIDE_H
#define RG_RDMA_OFI_INSIDE_H

#include "base/error.h"
#include "rdma/transport.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* Peers whose addresses (and connections) a lane keeps. */
#define RG_OFI_PEERS_PER_LANE 16

/* Peers that one shm endpoint may meet before it is renewed; each window may bring a new one. */
#define RG_OFI_SHM_PEERS 200

/* A name: prefix, role, '-', 32 hex digits. */
#define RG_OFI_SHM_DIRECTORY   "/dev/shm"
#define RG_OFI_SHM_PREFIX      "railgate-"
#define RG_OFI_SHM_NAME_LENGTH (sizeof RG_OFI_SHM_PREFIX - 1 + 2 + 32)

/* ---- The library (ofi_library.c) ---- */

struct rg_ofi_library {
    void *handle;
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int code);
};

/* Filled by rg_ofi_load, which comes before everything else; constant from then on. */
extern struct rg_ofi_library rg_ofi_library;

/*
 * Several libraries behind libfabric (psm, psm2, the shm provider) install handlers for signals
 * when they are loaded or opened. A process's signals are its own: what was there is put back.
 */
struct rg_ofi_signals {
    struct sigaction actions[32]; /* by number */
};

void rg_ofi_save_signals(struct rg_ofi_signals *saved);
void rg_ofi_restore_signals(const struct rg_ofi_signals *saved);

/* libfabric's words for one of its codes, with either sign. */
const char *rg_ofi_explain(ssize_t rc);

/* RG_RDMA_NOT_SUPPORTED, RG_LIMIT or RG_OUT_OF_MEMORY, as `rc` (a negative fi_errno) says. */
int rg_ofi_fail(struct rg_error *err, const char *what, const char *provider, ssize_t rc);

/* ---- What is behind the public structures ---- */

enum rg_ofi_provider { RG_OFI_TCP, RG_OFI_SHM, RG_OFI_OTHER };

struct rg_ofi_rail {
    struct rg_rail rail;
    enum rg_ofi_provider provider;
    char provider_name[RG_OFI_PROVIDER_MAX + 1]; /* as it stands in tokens */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    bool virtual_addresses; /* remote addresses are the peer's, not offsets in its region */
    bool provider_keys;
    bool local_keys; /* local memory needs a descriptor */
    bool can_sleep;  /* completion queues have a descriptor to sleep on */
    uint64_t key_mask;
};

struct rg_ofi_region {
    struct rg_region region;
    struct fid_mr *mr; /* NULL where posts need none */
};

struct rg_ofi_operation {
    struct fi_context2 context; /* first: what the provider hands back */
    uint64_t cookie;
    uint64_t length;
    enum rg_lane_operation kind;
    bool busy;
};

struct rg_ofi_peer {
    bool known;
    _Alignas(8) uint8_t name[RG_OFI_NAME_MAX + 1]; /* a sockaddr, or text */
    size_t name_len;
    fi_addr_t address;
    int alive_fd;      /* shm: the peer's file, whose lock tells whether it lives; -1 */
    uint64_t last_use; /* by the lane's count of binds */
};

struct rg_ofi_lane {
    struct rg_lane lane;
    struct rg_ofi_rail *rail;
    struct fid_ep *ep; /* opened at the first bind or mint */
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_cntr *moved; /* target side: counts what peers did; NULL where not offered */
    uint64_t moved_seen;
    int wait_fd;     /* -1: none */
    int shm_lock_fd; /* our own shm file, locked; -1 */
    struct rg_ofi_operation operations[RG_LANE_DEPTH_MAX];
    struct rg_ofi_peer peers[RG_OFI_PEERS_PER_LANE];
    struct rg_ofi_peer *peer; /* bound */
    uint64_t binds;
    uint64_t refused_at; /* ms; since when it takes no operation; 0: it does */
    uint64_t knock_at;   /* ms; when to look whether it is there at all */
    uint64_t begun_ns;   /* the last post, or mint */
    uint64_t usual_us;   /* how long operations take, smoothed */
    bool is_awaited;     /* minted, and nothing has moved since */
    uint64_t nap_us;     /* the last sleep where there is no descriptor; 0: none since a move */
    unsigned met;        /* since the endpoint was opened: peers, or windows that may bring one */
    unsigned windows;    /* minted and not revoked */
};

static inline struct rg_ofi_rail *rg_ofi_rail_of(struct rg_rail *rail)
{
    return (struct rg_ofi_rail *)rail;
}

static inline struct rg_ofi_lane *rg_ofi_lane_of(struct rg_lane *lane)
{
    return (struct rg_ofi_lane *)lane;
}

static inline void rg_ofi_close_fid(struct fid *fid)
{
    if (fid) {
        (void)fi_close(fid);
    }
}

static inline void rg_ofi_close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- Files of the shm provider (ofi_shm.c) ---- */

/* railgate-i-<32 hex> for initiators, railgate-t-<32 hex> for targets. */
bool rg_ofi_shm_is_name(const char *name, size_t len);

/* Opens a shm file of ours; -1 when it is not one. The caller closes it. */
int rg_ofi_shm_open_file(int directory, const char *name, struct stat *ret_stat);

bool rg_ofi_shm_is_owner_alive(int fd);

/* Removes what dead processes left. */
void rg_ofi_shm_remove_leftovers(void);

/*
 * A copy of the rail's info with a name that was never used before, which is also written to
 * ret_name (RG_OFI_SHM_NAME_LENGTH and a NUL). The caller frees it. NULL: no memory.
 */
struct fi_info *rg_ofi_shm_name_endpoint(struct rg_ofi_rail *rail, char role, char *ret_name);

/* Takes the lock on the lane's own file that tells others it lives. RG_RDMA_NOT_SUPPORTED. */
int rg_ofi_shm_lock_file(struct rg_ofi_lane *lane, const char *name, struct rg_error *err);

/* ---- Endpoints (ofi_endpoint.c) ---- */

void rg_ofi_lane_init(struct rg_ofi_lane *lane, struct rg_ofi_rail *rail);

/*
 * Opens the lane's endpoint where it has none; `role` is 'i' for an initiator, 't' for a target.
 * RG_SERVICE_UNAVAILABLE: the rail's address is not this machine's (any more); others by
 * rg_ofi_fail.
 */
int rg_ofi_endpoint_open(struct rg_ofi_lane *lane, char role, struct rg_error *err);

/* Closes it, with everything that hangs on it; posted operations end without a completion. */
void rg_ofi_endpoint_close(struct rg_ofi_lane *lane);

/* ---- Peers (ofi_peer.c) ---- */

void rg_ofi_peer_forget(struct rg_ofi_lane *lane, struct rg_ofi_peer *peer);

/* False only when it is known to be dead (shm). */
bool rg_ofi_peer_is_alive(const struct rg_ofi_peer *peer);

/* Whether the peer's port refuses connections; over IP only. Takes a few milliseconds at most. */
bool rg_ofi_peer_is_port_closed(const struct rg_ofi_peer *peer);

/* ---- The functions of the table; transport.h says what each does ---- */

int rg_ofi_load(struct rg_error *err);
int rg_ofi_rail_open(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                     struct rg_error *err);
void rg_ofi_rail_close(struct rg_rail *rail);
int rg_ofi_rail_check(struct rg_rail *rail, struct rg_error *err);
int rg_ofi_region_register(struct rg_rail *rail, void *address, uint64_t length, unsigned access,
                           struct rg_region **ret_region, struct rg_error *err);
void rg_ofi_region_deregister(struct rg_region *region);
int rg_ofi_lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err);
void rg_ofi_lane_close(struct rg_lane *lane);
int rg_ofi_lane_reset(struct rg_lane *lane, struct rg_error *err);
int rg_ofi_lane_bind(struct rg_lane *lane, const struct rg_rdma_window *window,
                     struct rg_error *err);
void rg_ofi_lane_unbind(struct rg_lane *lane);
int rg_ofi_lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                      uint64_t cookie, struct rg_error *err);
int rg_ofi_lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                     uint64_t window_offset, uint64_t length, uint64_t cookie,
                     struct rg_error *err);
int rg_ofi_lane_poll(struct rg_lane *lane, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err);
int rg_ofi_lane_sleep(struct rg_lane *lane, int wake_fd, uint64_t timeout_us, struct rg_error *err);
int rg_ofi_lane_flush(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err);
int rg_ofi_lane_progress(struct rg_lane *lane, struct rg_error *err);
int rg_ofi_window_mint(struct rg_lane *lane, struct rg_region *region, uint64_t offset,
                       uint64_t length, enum rg_direction direction, struct rg_target **ret_target,
                       struct rg_error *err);
int rg_ofi_window_revoke(struct rg_target *target, bool settled, struct rg_error *err);

#endif
