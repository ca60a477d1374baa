/*
 * The seam to libibverbs: the functions that the verbs transports call, as a table. The real table
 * is filled from the library with dlopen, so that one binary runs on machines with and without it;
 * tests put a table of their own in its place.
 *
 * Only rc.c, dc.c, what they stand on (port.c, queue.c, mlx5.c), survey.c and their tests may
 * include this: no type of the library appears elsewhere.
 */
#ifndef RG_RDMA_VERBS_H
#define RG_RDMA_VERBS_H

#include "base/error.h"
#include "rdma/nic.h"

#include <infiniband/verbs.h>

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Results are those of the functions of the same name: pointers are NULL with errno set; the others
 * return 0 or an errno value, except where a comment says otherwise. Tell them apart with
 * rg_verbs_errno.
 */
struct rg_verbs {
    struct ibv_device **(*get_device_list)(int *ret_count);
    void (*free_device_list)(struct ibv_device **list);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context); /* -1 */
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attributes);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
    /* All entries that are in use, of all ports, with type and interface: their number, or -errno.
     * NULL in libraries before rdma-core 32. */
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t room, uint32_t flags, size_t entry_bytes);

    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *address, size_t length, int access);
    /* NULL in libraries before rdma-core 34. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd); /* of type 2 */
    int (*dealloc_mw)(struct ibv_mw *mw);

    struct ibv_comp_channel *(*create_channel)(struct ibv_context *context);
    int (*destroy_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int depth, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*poll_cq)(struct ibv_cq *cq, int room, struct ibv_wc *completions); /* count, or < 0 */
    int (*arm_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);

    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **ret_bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **ret_bad);

    struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attributes);
    int (*destroy_ah)(struct ibv_ah *ah);
    struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attributes);
    int (*destroy_srq)(struct ibv_srq *srq);

    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event); /* -1 */
    void (*ack_async_event)(struct ibv_async_event *event);
    const char *(*wc_status_text)(enum ibv_wc_status status);
};

/*
 * The table to use: the library's, loaded once for the process, or the one a test has put in its
 * place. RG_RDMA_NOT_SUPPORTED with the loader's words. Not to be called by two threads at once
 * before it has succeeded.
 */
int rg_verbs_load(const struct rg_verbs **ret_verbs, struct rg_error *err);

/* Facts about NICs from outside the library, for those who use the table: the kernel's, or the
 * test's. */
const struct rg_nic_facts *rg_verbs_facts(void);

/* For tests, before anything is open: what to use instead; NULL for the real thing. */
void rg_verbs_replace(const struct rg_verbs *verbs, const struct rg_nic_facts *facts);

/* errno of a failed function that returned `result`: some return it, some set it. */
int rg_verbs_errno(int result);

#endif
