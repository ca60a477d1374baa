/*
 * RDMA resources as the kernel tells them over NETLINK_RDMA (rdma_netlink.h): which queue pairs
 * there are and who owns them, and how many objects of each kind. The parsers are pure; the reader
 * asks the kernel and changes nothing.
 */
#ifndef RG_HOST_NLDEV_TEXT_H
#define RG_HOST_NLDEV_TEXT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define RG_NLDEV_QPS_MAX     4096
#define RG_NLDEV_DEVICES_MAX 64

struct rg_nldev_qp {
    char device[32];
    uint32_t number;
    uint8_t type;  /* IB_QPT_*: 2 is RC */
    uint8_t state; /* IB_QPS_*: 3 is RTS */
    uint32_t pid;  /* 0: the kernel's */
};

#define RG_NLDEV_RC  2
#define RG_NLDEV_RTS 3

struct rg_nldev_qps {
    struct rg_nldev_qp *list; /* owned; free with rg_nldev_qps_free */
    size_t count;
    bool cut;
};

/* Adds what a datagram of answers to RDMA_NLDEV_CMD_RES_QP_GET holds. RG_PARSE when lengths do not
 * fit. *ret_done: the dump is over. */
int rg_nldev_qps_parse(struct span datagram, struct rg_nldev_qps *qps, bool *ret_done,
                       struct rg_error *err);
void rg_nldev_qps_free(struct rg_nldev_qps *qps);

struct rg_nldev_device {
    uint32_t index;
    char name[32];
    struct {
        char kind[16]; /* "qp", "cq", "mr", "pd", "cm_id", "ctx" */
        uint64_t count;
    } counts[12];
    size_t count_count;
};

struct rg_nldev_devices {
    struct rg_nldev_device devices[RG_NLDEV_DEVICES_MAX];
    size_t count;
    bool cut;
};

/* The same for RDMA_NLDEV_CMD_RES_GET. */
int rg_nldev_devices_parse(struct span datagram, struct rg_nldev_devices *devices, bool *ret_done,
                           struct rg_error *err);

/*
 * Asks the kernel about all devices, and writes one line each:
 *   dev NAME KIND COUNT [KIND COUNT ...]
 *   qp NAME NUMBER TYPE STATE PID
 * RG_SERVICE_UNAVAILABLE when there is no RDMA netlink (no ib_core).
 */
int rg_nldev_tell(struct rg_buf *out, struct rg_error *err);

struct rg_nldev_system {
    bool answered;
    bool copies_on_fork; /* pinned pages are copied for the child; not told before Linux 5.12 */
};

/* What a datagram that answers RDMA_NLDEV_CMD_SYS_GET says. RG_PARSE when lengths do not fit. */
int rg_nldev_system_parse(struct span datagram, struct rg_nldev_system *ret_system,
                          struct rg_error *err);

/* Asks the kernel, and writes one line: "copy_on_fork 0" or 1. RG_SERVICE_UNAVAILABLE without RDMA
 * netlink. */
int rg_nldev_tell_system(struct rg_buf *out, struct rg_error *err);

/* Whether `lines` (of rg_nldev_tell) has queue pairs of these processes that are ready to send. */
struct rg_nldev_use {
    size_t owned; /* RC queue pairs in RTS of the process */
    size_t other; /* of other processes */
    size_t kernel;
    bool malformed;
};

void rg_nldev_use_parse(struct span lines, uint32_t pid, struct rg_nldev_use *ret_use);

/* The number of objects of a kind in the line of a device; false when it is not told. */
bool rg_nldev_count_parse(struct span lines, const char *device, const char *kind,
                          uint64_t *ret_count);

#endif
