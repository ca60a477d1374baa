/*
 * One port of a verbs device, opened: what the rc and dc transports have in common. Chooses device,
 * port and GID, knows the port's health, registers memory, and says what a completion's status
 * means.
 *
 * Only rc.c, dc.c and their tests may include this (it shows types of the verbs library).
 */
#ifndef RG_RDMA_PORT_H
#define RG_RDMA_PORT_H

#include "base/error.h"
#include "rdma/gid.h"
#include "rdma/transport.h"
#include "rdma/verbs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RG_PORT_GIDS_MAX 1024

/* Soft-RoCE gives this as its vendor. */
#define RG_VENDOR_SOFT_ROCE 0xffffff

struct rg_port {
    const struct rg_verbs *verbs;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr device; /* as of opening */
    struct ibv_port_attr port;     /* likewise */
    uint8_t number;
    bool is_ethernet;
    struct rg_gid_entry *entries;
    struct rg_gid_table gids;       /* over entries */
    const struct rg_gid_entry *gid; /* the rail's */
    uint8_t traffic_class;
    uint32_t mtu;           /* bytes: the port's active MTU or the configured one, the smaller */
    uint64_t message_bytes; /* one work request moves at most so much */
    atomic_size_t users;    /* regions and lanes; none may be left when the rail is closed */
    pthread_mutex_t event_lock;
    atomic_bool is_down;   /* by an event */
    atomic_bool is_broken; /* the device or the library */
};

/*
 * Opens the first device and port that fit `config`; `suits` (may be NULL) tells which devices the
 * transport can use. Errors as those of rg_rail_open.
 */
int rg_port_open(struct rg_port *port, const struct rg_verbs *verbs,
                 const struct rg_rail_config *config,
                 bool (*suits)(struct ibv_device *device, const struct ibv_device_attr *attributes),
                 struct rg_error *err);

/* An empty one (all zero) is allowed. */
void rg_port_close(struct rg_port *port);

/* Fills in what is the same for both transports; path and operation_bytes_max are theirs. */
void rg_port_describe(const struct rg_port *port, const struct rg_rail_config *config,
                      struct rg_rail *rail);

/* rg_rail_check. */
int rg_port_check(struct rg_port *port, struct rg_error *err);

/*
 * Takes the asynchronous events that are waiting: port and device events are remembered in
 * is_down and is_broken; one that condemns a queue pair or completion queue calls `condemn` with
 * its context (qp_context, cq_context) and the event's kind, before it is acknowledged, so that
 * the queue cannot be gone. Never blocks; any thread.
 */
void rg_port_take_events(struct rg_port *port,
                         void (*condemn)(void *queue_context, enum ibv_event_type kind));

/* 0, or why the port cannot carry anything (RG_CAUSE_PORT_DOWN, _DEVICE_GONE), from the events. */
enum rg_cause rg_port_cause(const struct rg_port *port);

/* The same, after a look at the port (one system call). */
enum rg_cause rg_port_ask(struct rg_port *port);

/* The verbs MTU that is not above `bytes` (256..4096), 0 when there is none. */
enum ibv_mtu rg_port_mtu(uint32_t bytes);

/* What a failed completion broke, and why. */
void rg_port_classify(enum ibv_wc_status status, enum rg_broke *ret_broke,
                      enum rg_cause *ret_cause);

/* ---- Memory ---- */

struct rg_port_region {
    struct rg_region public;
    struct ibv_mr *mr;
    uint64_t address;   /* that keys are for: of the first byte, also for device memory */
    int access;         /* of mr */
    bool takes_windows; /* memory windows can be bound to it */
};

/*
 * IBV_ACCESS_* for `access` (RG_ACCESS_*). A region that peers may use in one way only, and this
 * side not at all, is made for one window and gets a key of its own for that. All others show
 * themselves through memory windows (`has_windows`) or registrations of their own, and their own
 * key is good for nothing. Device memory cannot be registered again, so without windows its key
 * must do.
 */
int rg_port_access(unsigned access, bool is_device_memory, bool has_windows);

/* Whether the region's own key says no more than a window on so many bytes with `right` (one
 * IBV_ACCESS_REMOTE_*) shall. True for device memory whose key must do. */
bool rg_port_is_exact(const struct rg_port_region *region, uint64_t offset, uint64_t length,
                      int right);

/* rg_region_register and _dmabuf: `flags` of IBV_ACCESS_* is what the caller makes of `access`.
 * With IBV_ACCESS_MW_BIND among them, memory that is read-only is registered without it. */
int rg_port_register(struct rg_port *port, void *address, uint64_t length, int flags,
                     struct rg_region **ret_region, struct rg_error *err);
int rg_port_register_dmabuf(struct rg_port *port, int dmabuf_fd, uint64_t fd_offset,
                            uint64_t address, uint64_t length, int flags,
                            struct rg_region **ret_region, struct rg_error *err);
void rg_port_deregister(struct rg_port *port, struct rg_region *region);

/* One more registration of the same memory; the caller owns it. */
int rg_port_register_mr(struct rg_port *port, void *address, uint64_t length, int flags,
                        struct ibv_mr **ret_mr, struct rg_error *err);

#endif
