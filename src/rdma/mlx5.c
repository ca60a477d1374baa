/*
 * Fills the table of mlx5.h from libmlx5. See there. Nothing here decides anything.
 */
#include "rdma/mlx5.h"

#include "base/attr.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define VERBS_LIBRARY "libibverbs.so.1"
#define LIBRARY       "libmlx5.so.1"

static struct rg_mlx5 library;

static const struct symbol {
    const char *library;
    const char *name;
    const char *version;
    void *slot;
} symbols[] = {
    {LIBRARY, "mlx5dv_is_supported", "MLX5_1.8", &library.is_supported},
    {LIBRARY, "mlx5dv_create_qp", "MLX5_1.3", &library.create_qp},
    {LIBRARY, "mlx5dv_qp_ex_from_ibv_qp_ex", "MLX5_1.10", &library.qp_ex_to_direct},
    {VERBS_LIBRARY, "ibv_qp_to_qp_ex", "IBVERBS_1.6", &library.qp_to_qp_ex},
};

static int load_symbol(const struct symbol *symbol, struct rg_error *err)
{
    /* Providers hold threads and descriptors of their own: once loaded they stay. */
    void *handle = dlopen(symbol->library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *address = handle ? dlvsym(handle, symbol->name, symbol->version) : NULL;
    if (!address) {
        const char *words = dlerror();
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "%s cannot be used for DC: %s", symbol->library,
                        words ? words : "unknown error");
    }
    memcpy(symbol->slot, &address, sizeof address);
    return 0;
}

static const struct rg_mlx5 *substitute;
static bool loaded;

int rg_mlx5_load(const struct rg_mlx5 **ret_mlx5, struct rg_error *err)
{
    if (substitute) {
        *ret_mlx5 = substitute;
        return 0;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(symbols) && !loaded; i++) {
        int rc = load_symbol(&symbols[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    loaded = true;
    *ret_mlx5 = &library;
    return 0;
}

void rg_mlx5_replace(const struct rg_mlx5 *mlx5)
{
    substitute = mlx5;
}
