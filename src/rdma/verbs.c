/*
 * Fills the table of verbs.h from libibverbs. See there. Nothing here decides anything.
 */
#include "rdma/verbs.h"

#include "base/attr.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define LIBRARY "libibverbs.so.1"

/* What cannot go into the table as it is, because a header wraps it or its type differs. */
static struct {
    int (*query_port)(struct ibv_context *context, uint8_t port,
                      struct _compat_ibv_port_attr *attributes);
    const char *(*wc_status_str)(enum ibv_wc_status status);
} raw;

/*
 * The same as the header's inline function, which would need the library at link time: newer
 * providers fill in the whole structure, older ones only its first part.
 */
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes)
{
    struct verbs_context *extended = verbs_get_ctx_op(context, query_port);
    memset(attributes, 0, sizeof *attributes);
    if (extended) {
        return extended->query_port(context, port, attributes, sizeof *attributes);
    }
    return raw.query_port(context, port, (struct _compat_ibv_port_attr *)attributes);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd)
{
    return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

/* The data path goes through the provider's own functions, not through the library. */

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *completions)
{
    return ibv_poll_cq(cq, room, completions);
}

static int arm_cq(struct ibv_cq *cq)
{
    return ibv_req_notify_cq(cq, 0);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **ret_bad)
{
    return ibv_post_send(qp, list, ret_bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **ret_bad)
{
    return ibv_post_recv(qp, list, ret_bad);
}

static const char *wc_status_text(enum ibv_wc_status status)
{
    return raw.wc_status_str(status);
}

static struct rg_verbs library = {
    .query_port = query_port,
    .alloc_mw = alloc_mw,
    .dealloc_mw = ibv_dealloc_mw,
    .poll_cq = poll_cq,
    .arm_cq = arm_cq,
    .post_send = post_send,
    .post_recv = post_recv,
    .wc_status_text = wc_status_text,
};

static const struct symbol {
    const char *name;
    const char *version; /* the oldest version of the symbol that has today's structures */
    void *slot;
    bool optional;
} symbols[] = {
    {"ibv_get_device_list", "IBVERBS_1.1", &library.get_device_list, false},
    {"ibv_free_device_list", "IBVERBS_1.1", &library.free_device_list, false},
    {"ibv_open_device", "IBVERBS_1.1", &library.open_device, false},
    {"ibv_close_device", "IBVERBS_1.1", &library.close_device, false},
    {"ibv_query_device", "IBVERBS_1.1", &library.query_device, false},
    {"ibv_query_port", "IBVERBS_1.1", &raw.query_port, false},
    {"ibv_query_gid", "IBVERBS_1.1", &library.query_gid, false},
    {"_ibv_query_gid_table", "IBVERBS_1.11", &library.query_gid_table, true},
    {"ibv_alloc_pd", "IBVERBS_1.1", &library.alloc_pd, false},
    {"ibv_dealloc_pd", "IBVERBS_1.1", &library.dealloc_pd, false},
    {"ibv_reg_mr", "IBVERBS_1.1", &library.reg_mr, false},
    {"ibv_reg_dmabuf_mr", "IBVERBS_1.12", &library.reg_dmabuf_mr, true},
    {"ibv_dereg_mr", "IBVERBS_1.1", &library.dereg_mr, false},
    {"ibv_create_comp_channel", "IBVERBS_1.0", &library.create_channel, false},
    {"ibv_destroy_comp_channel", "IBVERBS_1.0", &library.destroy_channel, false},
    {"ibv_create_cq", "IBVERBS_1.1", &library.create_cq, false},
    {"ibv_destroy_cq", "IBVERBS_1.1", &library.destroy_cq, false},
    {"ibv_get_cq_event", "IBVERBS_1.1", &library.get_cq_event, false},
    {"ibv_ack_cq_events", "IBVERBS_1.1", &library.ack_cq_events, false},
    {"ibv_create_qp", "IBVERBS_1.1", &library.create_qp, false},
    {"ibv_modify_qp", "IBVERBS_1.1", &library.modify_qp, false},
    {"ibv_destroy_qp", "IBVERBS_1.1", &library.destroy_qp, false},
    {"ibv_create_ah", "IBVERBS_1.1", &library.create_ah, false},
    {"ibv_destroy_ah", "IBVERBS_1.1", &library.destroy_ah, false},
    {"ibv_create_srq", "IBVERBS_1.1", &library.create_srq, false},
    {"ibv_destroy_srq", "IBVERBS_1.1", &library.destroy_srq, false},
    {"ibv_get_async_event", "IBVERBS_1.1", &library.get_async_event, false},
    {"ibv_ack_async_event", "IBVERBS_1.1", &library.ack_async_event, false},
    {"ibv_wc_status_str", "IBVERBS_1.1", &raw.wc_status_str, false},
};

static int fail_load(struct rg_error *err, const char *what)
{
    const char *words = dlerror();
    return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "%s: %s", what, words ? words : "unknown error");
}

static int load_library(struct rg_error *err)
{
    /* Providers hold threads and descriptors of their own: once loaded it stays. */
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        return fail_load(err, "The verbs library cannot be loaded");
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(symbols); i++) {
        const struct symbol *symbol = &symbols[i];
        void *address = dlvsym(handle, symbol->name, symbol->version);
        if (!address && !symbol->optional) {
            int rc = fail_load(err, LIBRARY " is too old");
            dlclose(handle);
            return rc;
        }
        memcpy(symbol->slot, &address, sizeof address);
    }
    return 0;
}

static const struct rg_verbs *substitute;
static const struct rg_nic_facts *substitute_facts;
static bool loaded;

int rg_verbs_load(const struct rg_verbs **ret_verbs, struct rg_error *err)
{
    if (substitute) {
        *ret_verbs = substitute;
        return 0;
    }
    if (!loaded) {
        int rc = load_library(err);
        if (rc < 0) {
            return rc;
        }
        loaded = true;
    }
    *ret_verbs = &library;
    return 0;
}

const struct rg_nic_facts *rg_verbs_facts(void)
{
    return substitute_facts ? substitute_facts : &rg_nic_kernel;
}

void rg_verbs_replace(const struct rg_verbs *verbs, const struct rg_nic_facts *facts)
{
    substitute = verbs;
    substitute_facts = facts;
}

int rg_verbs_errno(int result)
{
    if (result > 0) {
        return result;
    }
    if (result < -1) {
        return -result;
    }
    return errno ? errno : EIO;
}
