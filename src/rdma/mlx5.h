/*
 * The seam to libmlx5: the few functions that the dc transport needs beyond verbs.h, as a table.
 * The real table is filled with dlopen; tests put one of their own in its place.
 *
 * Work requests of a DC queue pair are built by calls through its ibv_qp_ex and mlx5dv_qp_ex, which
 * the provider fills with functions: who makes the queue pair makes those too.
 *
 * Only dc.c and its tests may include this.
 */
#ifndef RG_RDMA_MLX5_H
#define RG_RDMA_MLX5_H

#include "base/error.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

/* Results are those of the functions of the same name: NULL with errno set. */
struct rg_mlx5 {
    bool (*is_supported)(struct ibv_device *device);
    struct ibv_qp *(*create_qp)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attributes,
                                struct mlx5dv_qp_init_attr *direct);
    struct ibv_qp_ex *(*qp_to_qp_ex)(struct ibv_qp *qp);
    struct mlx5dv_qp_ex *(*qp_ex_to_direct)(struct ibv_qp_ex *qp);
};

/*
 * The table to use. RG_RDMA_NOT_SUPPORTED with the loader's words where libmlx5 or libibverbs is
 * missing or too old. Not to be called by two threads at once before it has succeeded.
 */
int rg_mlx5_load(const struct rg_mlx5 **ret_mlx5, struct rg_error *err);

/* For tests, before anything is open: what to use instead; NULL for the real thing. */
void rg_mlx5_replace(const struct rg_mlx5 *mlx5);

#endif
