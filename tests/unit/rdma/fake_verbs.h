/*
 * A verbs library made of memory copies inside the process, put in the place of the real one with
 * rg_verbs_replace. It has devices, ports and GIDs as a test describes them, keeps a record of what
 * it was asked to do, and fails where it is told to. It knows the rules of queue pairs that the
 * transports rely on: no more; it is no proof that hardware agrees.
 *
 * One for the process; reset it at the start of each test. Any thread may call it.
 */
#ifndef RG_TESTS_FAKE_VERBS_H
#define RG_TESTS_FAKE_VERBS_H

#include "rdma/mlx5.h"
#include "rdma/verbs.h"

#include <infiniband/mlx5dv.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_DEVICES_MAX  4
#define FAKE_PORTS_MAX    2
#define FAKE_GIDS_MAX     16
#define FAKE_STEPS_MAX    256
#define FAKE_REQUESTS_MAX 256
#define FAKE_RECEIVES_MAX 64
#define FAKE_QPS_MAX      64

struct fake_gid {
    uint8_t gid[16]; /* zero: a hole */
    enum rg_gid_type type;
    const char *netdev; /* NULL: none */
};

struct fake_port {
    struct ibv_port_attr attributes;
    unsigned subnet_bits; /* of its addresses */
    const char *ip;       /* what port_has_address says yes to; NULL: nothing */
    struct fake_gid gids[FAKE_GIDS_MAX];
};

struct fake_device {
    struct ibv_device public;
    struct ibv_device_attr attributes;
    struct fake_port ports[FAKE_PORTS_MAX]; /* port n is [n - 1] */
    bool has_dc;                            /* mlx5dv knows it */
    int fail_open;                          /* errno */
};

/* One work request as it was posted. */
struct fake_request {
    struct fake_qp *qp;
    enum ibv_wr_opcode opcode;
    uint64_t wr_id;
    unsigned flags;
    uint64_t remote_address;
    uint32_t rkey;
    uint32_t immediate; /* network order */
    bool has_piece;
    struct ibv_sge piece;
    /* Memory windows */
    struct ibv_mw_bind_info bind;
    uint32_t window_key; /* bound or withdrawn */
    /* DC */
    struct ibv_ah *ah;
    uint32_t dctn;
    uint64_t dc_key;
};

/* One call of modify_qp. */
struct fake_step {
    struct ibv_qp_attr attributes;
    int mask;
};

struct fake_qp {
    struct ibv_qp_ex ex; /* first: the library's pointers are to ex.qp_base */
    struct mlx5dv_qp_ex direct;
    bool is_open;
    struct ibv_qp_init_attr_ex made_with; /* for create_qp, the fields that both have */
    struct mlx5dv_qp_init_attr made_direct;
    struct fake_step steps[FAKE_STEPS_MAX];
    size_t step_count;
    struct fake_request held[FAKE_REQUESTS_MAX]; /* posted, not completed, in order */
    size_t held_count;
    uint64_t receives[FAKE_RECEIVES_MAX];
    size_t receive_count;
    struct fake_request batch[FAKE_REQUESTS_MAX]; /* between wr_start and wr_complete */
    size_t batch_count;
    bool in_batch;
};

struct fake_ah {
    struct ibv_ah public;
    struct ibv_ah_attr attributes;
};

struct fake {
    struct fake_device devices[FAKE_DEVICES_MAX];
    size_t device_count;
    struct rg_dcb dcb;
    char dcb_netdev[IFNAMSIZ]; /* that was asked about last */

    /* What to do differently; an errno where it fails */
    bool no_device_list; /* the kernel has no RDMA at all: get_device_list fails */
    bool hold;           /* what is posted completes only when told, or by an error */
    bool stuck;          /* not even then */
    bool no_dc;          /* creating a DC queue pair fails */
    int fail_query_port;
    int fail_state; /* modify_qp to `fail_state_is` */
    enum ibv_qp_state fail_state_is;
    int fail_channel, fail_cq, fail_qp, fail_mr, fail_pd, fail_post, fail_ah, fail_srq;
    bool fail_poll, fail_arm;
    bool corrupts;                  /* one bit of what is moved */
    bool ignores_keys;              /* lets everybody in */
    uint8_t dc_reads_max;           /* an initiator with more does not start; 0: no limit */
    size_t dmabuf_max;              /* bytes that a GPU's window has; 0: no limit */
    unsigned qps_max;               /* 0: as many as there is room for */
    enum ibv_wc_status next_status; /* of the next request that is carried out; then success */
    void (*before_arm)(void);       /* once, then NULL */
    void (*after_arm)(void);

    /* What happened */
    struct fake_request requests[FAKE_REQUESTS_MAX]; /* the last ones posted */
    size_t request_count;
    struct fake_qp qps[FAKE_QPS_MAX];
    unsigned contexts, pds, mrs, mws, channels, cqs, open_qps, ahs, srqs; /* alive */
    unsigned qps_made, ahs_made, arms, events_taken;
    struct ibv_ah_attr last_ah;
};

extern struct fake fake;
extern struct rg_verbs fake_verbs;
extern const struct rg_mlx5 fake_mlx5;
extern const struct rg_nic_facts fake_facts;

/* Everything as new: one mlx5 RoCE device, its one port active, with four GIDs in its table, and
 * the library replaced. */
void fake_reset(void);

/* Fails the test when anything is still alive. */
void fake_expect_empty(void);

/* Adds a device without GIDs; `link_layer` of its one port. */
struct fake_device *fake_add_device(const char *name, uint8_t link_layer);

/* Sets an entry of a port; `text` is a numeric address. */
void fake_set_gid(struct fake_device *device, uint8_t port, int index, const char *text,
                  enum rg_gid_type type, const char *netdev);

/* The n-th queue pair that is open, in the order of creation. */
struct fake_qp *fake_qp(size_t n);

/* Completes the oldest `count` held requests of it: carried out when the status is success. */
void fake_complete(struct fake_qp *qp, size_t count, enum ibv_wc_status status);

/* Puts a completion that belongs to nothing into its queue. */
void fake_push(struct fake_qp *qp, uint64_t wr_id, enum ibv_wc_status status);

/* An asynchronous event of the device; `qp` for those of queue pairs, else NULL. */
void fake_event(enum ibv_event_type type, uint8_t port, struct fake_qp *qp);

/* The port goes down or comes up, and says so. */
void fake_set_port_state(struct fake_device *device, uint8_t port, enum ibv_port_state state);

/* The device disappears: its events cannot be read any more. */
void fake_pull_out(void);

#endif
