/* See fake_verbs.h. All state is behind one lock. */
#include "test.h"

#include "fake_verbs.h"

#include "rdma/gid.h"

#include "base/attr.h"
#include "base/checked.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENTS_MAX      16
#define COMPLETIONS_MAX 1024
#define KEYS_MAX        128
#define CONTEXTS_MAX    8

struct fake fake;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

struct context {
    struct ibv_context public; /* first */
    bool is_open, is_gone;
    struct ibv_async_event events[EVENTS_MAX];
    size_t event_count;
};

struct queue {
    struct ibv_cq public; /* first */
    struct ibv_wc ring[COMPLETIONS_MAX];
    size_t head, count, room;
    bool armed;
};

struct memory {
    struct ibv_mr public; /* first */
    bool is_open;
    int access;
    uint64_t address; /* that keys are for */
    char *bytes;      /* NULL for device memory */
};

/* A memory window that is bound. */
struct window {
    uint32_t key; /* 0: none */
    uint32_t qpn;
    struct ibv_mw_bind_info bind;
};

static struct window windows[KEYS_MAX];
static struct context contexts[CONTEXTS_MAX];
static struct memory memories[KEYS_MAX];
static struct rg_dcb no_dcb;
static uint32_t next_key, next_qpn;

static void hold_lock(void)
{
    assert_int_equal(pthread_mutex_lock(&lock), 0);
}

static void let_go(void)
{
    assert_int_equal(pthread_mutex_unlock(&lock), 0);
}

static void leave(const bool *locked)
{
    (void)locked;
    let_go();
}

/* Until the end of the function. */
#define LOCKED RG_CLEANUP(leave) bool locked_ = (hold_lock(), true)

static void *refuse(int os_errno)
{
    errno = os_errno;
    return NULL;
}

static struct fake_device *device_of(struct ibv_context *context)
{
    return (struct fake_device *)context->device;
}

/* ---- Devices ---- */

static struct ibv_device **get_device_list(int *ret_count)
{
    LOCKED;
    if (fake.no_device_list) {
        return refuse(ENOSYS);
    }
    struct ibv_device **list = calloc(FAKE_DEVICES_MAX + 1, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < fake.device_count; i++) {
        list[i] = &fake.devices[i].public;
    }
    *ret_count = (int)fake.device_count;
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static struct ibv_context *open_device(struct ibv_device *public)
{
    LOCKED;
    struct fake_device *device = (struct fake_device *)public;
    if (device->fail_open) {
        return refuse(device->fail_open);
    }
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        if (!contexts[i].is_open) {
            contexts[i] = (struct context){.public.device = public, .is_open = true};
            contexts[i].public.async_fd = eventfd(0, EFD_CLOEXEC);
            assert_true(contexts[i].public.async_fd >= 0);
            fake.contexts++;
            return &contexts[i].public;
        }
    }
    return refuse(EMFILE);
}

static int close_device(struct ibv_context *public)
{
    LOCKED;
    struct context *context = (struct context *)public;
    assert_true(context->is_open);
    context->is_open = false;
    close(public->async_fd);
    fake.contexts--;
    return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
    LOCKED;
    *attributes = device_of(context)->attributes;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes)
{
    LOCKED;
    if (fake.fail_query_port) {
        return fake.fail_query_port;
    }
    assert_in_range(port, 1, FAKE_PORTS_MAX);
    *attributes = device_of(context)->ports[port - 1].attributes;
    return 0;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    LOCKED;
    assert_in_range(port, 1, FAKE_PORTS_MAX);
    if (index < 0 || index >= FAKE_GIDS_MAX) {
        errno = EINVAL;
        return -1;
    }
    memcpy(gid->raw, device_of(context)->ports[port - 1].gids[index].gid, 16);
    return 0;
}

static uint32_t raw_type(const struct fake_device *device, uint8_t port, enum rg_gid_type type)
{
    bool ethernet = device->ports[port - 1].attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    return type == RG_GID_ROCE_V2 ? IBV_GID_TYPE_ROCE_V2
           : ethernet             ? IBV_GID_TYPE_ROCE_V1
                                  : IBV_GID_TYPE_IB;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t room, uint32_t flags, size_t entry_bytes)
{
    LOCKED;
    const struct fake_device *device = device_of(context);
    static const uint8_t zero[16];
    size_t count = 0;
    assert_int_equal(entry_bytes, sizeof *entries);
    for (uint8_t port = 1; port <= device->attributes.phys_port_cnt; port++) {
        for (int i = 0; i < FAKE_GIDS_MAX && count < room; i++) {
            const struct fake_gid *gid = &device->ports[port - 1].gids[i];
            if (memcmp(gid->gid, zero, sizeof zero) != 0) {
                entries[count] = (struct ibv_gid_entry){
                    .gid_index = (uint32_t)i,
                    .port_num = port,
                    .gid_type = raw_type(device, port, gid->type),
                };
                memcpy(entries[count++].gid.raw, gid->gid, sizeof gid->gid);
            }
        }
    }
    return (ssize_t)count;
}

/* ---- Facts ---- */

static const struct fake_port *port_named(const char *device, uint8_t port)
{
    for (size_t i = 0; i < fake.device_count; i++) {
        if (strcmp(fake.devices[i].public.name, device) == 0) {
            return &fake.devices[i].ports[port - 1];
        }
    }
    fail_msg("no device %s", device);
    return NULL;
}

static enum rg_gid_type gid_type(const char *device, uint8_t port, int index, bool is_ethernet)
{
    LOCKED;
    return port_named(device, port)->gids[index].type;
}

static bool gid_netdev(const char *device, uint8_t port, int index, char ret_netdev[IFNAMSIZ])
{
    LOCKED;
    const char *netdev = port_named(device, port)->gids[index].netdev;
    if (netdev) {
        snprintf(ret_netdev, IFNAMSIZ, "%s", netdev);
    }
    return netdev != NULL;
}

static bool port_has_address(const char *device, uint8_t port, const char *address)
{
    LOCKED;
    const char *ip = port_named(device, port)->ip;
    return ip && strcmp(ip, address) == 0;
}

static unsigned subnet_bits(const char *address)
{
    LOCKED;
    for (size_t i = 0; i < fake.device_count; i++) {
        for (size_t port = 0; port < FAKE_PORTS_MAX; port++) {
            const struct fake_port *candidate = &fake.devices[i].ports[port];
            for (size_t j = 0; j < FAKE_GIDS_MAX; j++) {
                if (rg_gid_is_address(candidate->gids[j].gid, address)) {
                    return candidate->subnet_bits;
                }
            }
        }
    }
    return 0;
}

static int dcb(const char *netdev, struct rg_dcb *ret_dcb, struct rg_error *err)
{
    LOCKED;
    snprintf(fake.dcb_netdev, sizeof fake.dcb_netdev, "%s", netdev);
    *ret_dcb = fake.dcb;
    return 0;
}

const struct rg_nic_facts fake_facts = {
    .gid_type = gid_type,
    .gid_netdev = gid_netdev,
    .port_has_address = port_has_address,
    .subnet_bits = subnet_bits,
    .dcb = dcb,
};

/* ---- Protection domains and memory ---- */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    LOCKED;
    if (fake.fail_pd) {
        return refuse(fake.fail_pd);
    }
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    assert_non_null(pd);
    pd->context = context;
    fake.pds++;
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    LOCKED;
    free(pd);
    fake.pds--;
    return 0;
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, char *bytes, uint64_t address,
                                      size_t length, int access)
{
    if (fake.fail_mr) {
        return refuse(fake.fail_mr);
    }
    for (size_t i = 0; i < KEYS_MAX; i++) {
        struct memory *memory = &memories[i];
        if (!memory->is_open) {
            uint32_t key = ++next_key << 8;
            *memory = (struct memory){
                .public = {.context = pd->context,
                           .pd = pd,
                           .length = length,
                           .lkey = key,
                           .rkey = key | 1},
                .is_open = true,
                .access = access,
                .address = address,
                .bytes = bytes,
            };
            fake.mrs++;
            return &memory->public;
        }
    }
    return refuse(ENOMEM);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    hold_lock();
    struct ibv_mr *mr = register_memory(pd, address, (uintptr_t)address, length, access);
    let_go();
    return mr;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access)
{
    /* Of tests/unit/client/fake_cuda.c: it holds where the bytes can be reached. */
    char *bytes = NULL;
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != sizeof bytes ||
        pread(fd, &bytes, sizeof bytes, 0) != sizeof bytes) {
        bytes = NULL;
    }
    hold_lock();
    struct ibv_mr *mr =
        fake.dmabuf_max && length > fake.dmabuf_max
            ? refuse(ENOMEM)
            : register_memory(pd, bytes ? bytes + offset : NULL, iova, length, access);
    let_go();
    return mr;
}

static int dereg_mr(struct ibv_mr *public)
{
    struct memory *memory = (struct memory *)public;
    hold_lock();
    assert_true(memory->is_open);
    memory->is_open = false;
    fake.mrs--;
    let_go();
    return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd)
{
    LOCKED;
    struct ibv_mw *mw = calloc(1, sizeof *mw);
    assert_non_null(mw);
    mw->pd = pd;
    mw->rkey = ++next_key << 8;
    fake.mws++;
    return mw;
}

static void unbind_window(uint32_t key)
{
    for (size_t i = 0; i < KEYS_MAX; i++) {
        if (windows[i].key == key) {
            windows[i].key = 0;
        }
    }
}

static enum ibv_wc_status bind_window(uint32_t qpn, uint32_t key,
                                      const struct ibv_mw_bind_info *info)
{
    const struct memory *memory = (const struct memory *)info->mr;
    if (!memory->is_open || !(memory->access & IBV_ACCESS_MW_BIND) ||
        info->addr < memory->address ||
        info->addr + info->length > memory->address + memory->public.length) {
        return IBV_WC_MW_BIND_ERR;
    }
    for (size_t i = 0; i < KEYS_MAX; i++) {
        if (windows[i].key == 0) {
            windows[i] = (struct window){.key = key, .qpn = qpn, .bind = *info};
            return IBV_WC_SUCCESS;
        }
    }
    return IBV_WC_MW_BIND_ERR;
}

/* A window's memory, as `reach` has it for registrations. */
static char *reach_window(uint32_t key, uint32_t qpn, uint64_t address, uint64_t length, int right)
{
    for (size_t i = 0; i < KEYS_MAX; i++) {
        const struct window *window = &windows[i];
        const struct memory *memory = (const struct memory *)window->bind.mr;
        if (window->key == key && window->qpn == qpn && memory->is_open &&
            address >= window->bind.addr && length <= window->bind.length &&
            address - window->bind.addr <= window->bind.length - length &&
            (window->bind.mw_access_flags & (unsigned)right) == (unsigned)right) {
            return memory->bytes + (address - memory->address);
        }
    }
    return NULL;
}

static int dealloc_mw(struct ibv_mw *mw)
{
    hold_lock();
    unbind_window(mw->rkey);
    let_go();
    free(mw);
    fake.mws--;
    return 0;
}

/* NULL when the key, the range or the right is wrong. */
static char *reach(const struct ibv_pd *pd, uint32_t key, bool is_remote, uint64_t address,
                   uint64_t length, int right)
{
    for (size_t i = 0; i < KEYS_MAX; i++) {
        const struct memory *memory = &memories[i];
        uint32_t own = is_remote ? memory->public.rkey : memory->public.lkey;
        if (!memory->is_open || own != key ||
            memory->public.pd->context->device != pd->context->device) {
            continue;
        }
        uint64_t offset = address - memory->address;
        bool inside = address >= memory->address && length <= memory->public.length &&
                      offset <= memory->public.length - length;
        return inside && (memory->access & right) == right && memory->bytes ? memory->bytes + offset
                                                                            : NULL;
    }
    return NULL;
}

/* ---- Completion queues ---- */

static struct ibv_comp_channel *create_channel(struct ibv_context *context)
{
    LOCKED;
    if (fake.fail_channel) {
        return refuse(fake.fail_channel);
    }
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
    assert_non_null(channel);
    channel->context = context;
    channel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fake.channels++;
    return channel;
}

static int destroy_channel(struct ibv_comp_channel *channel)
{
    LOCKED;
    close(channel->fd);
    free(channel);
    fake.channels--;
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int depth, void *cq_context,
                                struct ibv_comp_channel *channel, int vector)
{
    LOCKED;
    if (fake.fail_cq) {
        return refuse(fake.fail_cq);
    }
    struct queue *queue = calloc(1, sizeof *queue);
    assert_non_null(queue);
    assert_in_range(depth, 1, COMPLETIONS_MAX);
    queue->public.context = context;
    queue->public.cq_context = cq_context;
    queue->public.channel = channel;
    queue->room = (size_t)depth;
    fake.cqs++;
    return &queue->public;
}

static int destroy_cq(struct ibv_cq *cq)
{
    LOCKED;
    free(cq);
    fake.cqs--;
    return 0;
}

static void push(struct ibv_cq *cq, struct ibv_wc wc)
{
    struct queue *queue = (struct queue *)cq;
    /* Whoever sized the queue must have thought of everything. */
    assert_true(queue->count < queue->room);
    queue->ring[(queue->head + queue->count++) % COMPLETIONS_MAX] = wc;
    if (queue->armed) {
        queue->armed = false;
        assert_int_equal(eventfd_write(cq->channel->fd, 1), 0);
    }
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *completions)
{
    LOCKED;
    struct queue *queue = (struct queue *)cq;
    int count = 0;
    if (fake.fail_poll) {
        return -1;
    }
    hold_lock();
    for (; count < room && queue->count > 0; count++, queue->count--) {
        completions[count] = queue->ring[queue->head];
        queue->head = (queue->head + 1) % COMPLETIONS_MAX;
    }
    let_go();
    return count;
}

static void run_once(void (**hook)(void))
{
    void (*call)(void) = *hook;
    *hook = NULL;
    if (call) {
        call();
    }
}

static int arm_cq(struct ibv_cq *cq)
{
    if (fake.fail_arm) {
        return EIO;
    }
    run_once(&fake.before_arm);
    hold_lock();
    ((struct queue *)cq)->armed = true;
    fake.arms++;
    let_go();
    run_once(&fake.after_arm);
    return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    LOCKED;
    eventfd_t value;
    if (eventfd_read(channel->fd, &value) < 0) {
        return -1;
    }
    /* A channel serves one queue here: find it through the queue pairs. */
    for (size_t i = 0; i < FAKE_QPS_MAX; i++) {
        struct ibv_cq *candidate = fake.qps[i].ex.qp_base.send_cq;
        if (fake.qps[i].is_open && candidate && candidate->channel == channel) {
            *cq = candidate;
            *cq_context = candidate->cq_context;
            fake.events_taken++;
            return 0;
        }
    }
    errno = EAGAIN;
    return -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    assert_int_equal(count, 1);
}

/* ---- Queue pairs ---- */

static struct fake_qp *qp_of(struct ibv_qp *qp)
{
    return (struct fake_qp *)qp;
}

struct fake_qp *fake_qp(size_t n)
{
    LOCKED;
    for (size_t i = 0; i < FAKE_QPS_MAX; i++) {
        if (fake.qps[i].is_open && n-- == 0) {
            return &fake.qps[i];
        }
    }
    fail_msg("so many queue pairs are not open");
    return NULL;
}

static struct fake_qp *make_qp(struct ibv_context *context, int os_errno)
{
    if (os_errno || (fake.qps_max && fake.open_qps >= fake.qps_max)) {
        return refuse(os_errno ? os_errno : ENOMEM);
    }
    for (size_t i = 0; i < FAKE_QPS_MAX; i++) {
        struct fake_qp *qp = &fake.qps[i];
        if (!qp->is_open) {
            memset(qp, 0, sizeof *qp);
            qp->is_open = true;
            qp->ex.qp_base.context = context;
            qp->ex.qp_base.qp_num = ++next_qpn;
            qp->ex.qp_base.state = IBV_QPS_RESET;
            fake.open_qps++;
            fake.qps_made++;
            return qp;
        }
    }
    return refuse(ENOMEM);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
    LOCKED;
    struct fake_qp *qp = make_qp(pd->context, fake.fail_qp);
    if (!qp) {
        return NULL;
    }
    qp->made_with = (struct ibv_qp_init_attr_ex){
        .qp_context = attributes->qp_context,
        .send_cq = attributes->send_cq,
        .recv_cq = attributes->recv_cq,
        .srq = attributes->srq,
        .cap = attributes->cap,
        .qp_type = attributes->qp_type,
        .sq_sig_all = attributes->sq_sig_all,
        .pd = pd,
    };
    qp->ex.qp_base.qp_context = attributes->qp_context;
    qp->ex.qp_base.pd = pd;
    qp->ex.qp_base.send_cq = attributes->send_cq;
    qp->ex.qp_base.recv_cq = attributes->recv_cq;
    qp->ex.qp_base.qp_type = attributes->qp_type;
    return &qp->ex.qp_base;
}

static void push_send(struct fake_qp *qp, const struct fake_request *request,
                      enum ibv_wc_status status)
{
    /* Only failures make noise when silence was asked for. */
    if (status == IBV_WC_SUCCESS && !(request->flags & IBV_SEND_SIGNALED)) {
        return;
    }
    push(qp->ex.qp_base.send_cq, (struct ibv_wc){.wr_id = request->wr_id,
                                                 .status = status,
                                                 .qp_num = qp->ex.qp_base.qp_num});
}

static void flush(struct fake_qp *qp)
{
    if (fake.stuck) {
        return;
    }
    for (size_t i = 0; i < qp->held_count; i++) {
        push_send(qp, &qp->held[i], IBV_WC_WR_FLUSH_ERR);
    }
    for (size_t i = 0; i < qp->receive_count; i++) {
        push(qp->ex.qp_base.recv_cq, (struct ibv_wc){.wr_id = qp->receives[i],
                                                     .status = IBV_WC_WR_FLUSH_ERR,
                                                     .qp_num = qp->ex.qp_base.qp_num});
    }
    qp->held_count = 0;
    qp->receive_count = 0;
}

static bool is_target(const struct fake_qp *qp)
{
    return qp->made_direct.dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
}

/* The rules of the kernel's driver for DC, which are exact. */
static bool is_allowed_dc(const struct fake_qp *qp, const struct ibv_qp_attr *attributes, int mask)
{
    static const struct {
        enum ibv_qp_state from, to;
        int required, optional;
    } initiator[] =
        {
            {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT, 0},
            {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX | IBV_QP_AV},
            {IBV_QPS_RTR, IBV_QPS_RTS,
             IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                 IBV_QP_SQ_PSN,
             IBV_QP_MIN_RNR_TIMER},
        },
      target[] = {
          {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
          {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU, 0},
      };
    size_t count = is_target(qp) ? RG_ARRAY_LENGTH(target) : RG_ARRAY_LENGTH(initiator);
    mask &= ~IBV_QP_STATE;
    for (size_t i = 0; i < count; i++) {
        int required = is_target(qp) ? target[i].required : initiator[i].required;
        int optional = is_target(qp) ? target[i].optional : initiator[i].optional;
        enum ibv_qp_state from = is_target(qp) ? target[i].from : initiator[i].from;
        enum ibv_qp_state to = is_target(qp) ? target[i].to : initiator[i].to;
        if (qp->ex.qp_base.state == from && attributes->qp_state == to) {
            return (mask & required) == required && (mask & ~(required | optional)) == 0;
        }
    }
    bool ends = attributes->qp_state == IBV_QPS_RESET ||
                (attributes->qp_state == IBV_QPS_ERR && qp->ex.qp_base.state != IBV_QPS_RESET);
    return ends && mask == 0 && !is_target(qp);
}

/* What hardware refuses too, as far as the transports could get it wrong. */
static bool is_allowed(const struct fake_qp *qp, const struct ibv_qp_attr *attributes, int mask)
{
    static const enum ibv_qp_state before[] = {
        [IBV_QPS_INIT] = IBV_QPS_RESET,
        [IBV_QPS_RTR] = IBV_QPS_INIT,
        [IBV_QPS_RTS] = IBV_QPS_RTR,
    };
    enum ibv_qp_state wanted = attributes->qp_state;
    if (!(mask & IBV_QP_STATE)) {
        return false;
    }
    if (qp->ex.qp_base.qp_type == IBV_QPT_DRIVER) {
        return is_allowed_dc(qp, attributes, mask);
    }
    return wanted == IBV_QPS_RESET || wanted == IBV_QPS_ERR ||
           (wanted <= IBV_QPS_RTS && qp->ex.qp_base.state == before[wanted]);
}

static int modify_qp(struct ibv_qp *public, struct ibv_qp_attr *attributes, int mask)
{
    struct fake_qp *qp = qp_of(public);
    int rc = 0;
    hold_lock();
    assert_true(qp->is_open);
    assert_true(qp->step_count < FAKE_STEPS_MAX);
    qp->steps[qp->step_count++] = (struct fake_step){.attributes = *attributes, .mask = mask};
    if (fake.fail_state && fake.fail_state_is == attributes->qp_state) {
        rc = fake.fail_state;
    } else if (!is_allowed(qp, attributes, mask) ||
               (fake.dc_reads_max && attributes->max_rd_atomic > fake.dc_reads_max)) {
        rc = EINVAL;
    } else {
        public->state = attributes->qp_state;
        if (is_target(qp) && public->state == IBV_QPS_RTR) {
            public->qp_num = ++next_qpn; /* not before */
        }
        if (public->state == IBV_QPS_ERR) {
            flush(qp);
        }
        if (public->state == IBV_QPS_RESET) {
            qp->held_count = 0;
            qp->receive_count = 0;
        }
    }
    let_go();
    return rc;
}

static int destroy_qp(struct ibv_qp *public)
{
    LOCKED;
    assert_true(qp_of(public)->is_open);
    qp_of(public)->is_open = false;
    fake.open_qps--;
    return 0;
}

static struct fake_qp *qp_numbered(uint32_t number)
{
    for (size_t i = 0; i < FAKE_QPS_MAX; i++) {
        if (fake.qps[i].is_open && fake.qps[i].ex.qp_base.qp_num == number) {
            return &fake.qps[i];
        }
    }
    return NULL;
}

/* Whether an address handle names a port of that target's device. */
static bool leads_to(const struct ibv_ah *ah, const struct fake_qp *target)
{
    const struct ibv_ah_attr *attributes = &((const struct fake_ah *)ah)->attributes;
    const struct fake_device *device = device_of(target->ex.qp_base.context);
    for (size_t i = 0; i < FAKE_PORTS_MAX; i++) {
        const struct fake_port *port = &device->ports[i];
        if (!attributes->is_global && attributes->dlid == port->attributes.lid) {
            return true;
        }
        for (size_t j = 0; j < FAKE_GIDS_MAX && attributes->is_global; j++) {
            if (memcmp(port->gids[j].gid, attributes->grh.dgid.raw, 16) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The queue pair at the other end of a request, or NULL when nobody is there. */
static struct fake_qp *other_end(const struct fake_request *request)
{
    struct fake_qp *qp = request->qp;
    struct fake_qp *peer;
    if (qp->ex.qp_base.qp_type != IBV_QPT_DRIVER) {
        uint32_t number = 0;
        for (size_t i = 0; i < qp->step_count; i++) {
            if (qp->steps[i].mask & IBV_QP_DEST_QPN) {
                number = qp->steps[i].attributes.dest_qp_num;
            }
        }
        peer = qp_numbered(number);
        return peer && peer->ex.qp_base.state >= IBV_QPS_RTR &&
                       peer->ex.qp_base.state <= IBV_QPS_SQE
                   ? peer
                   : NULL;
    }
    peer = qp_numbered(request->dctn);
    return peer && is_target(peer) && leads_to(request->ah, peer) &&
                   (peer->made_direct.dc_init_attr.dct_access_key == request->dc_key ||
                    fake.ignores_keys) &&
                   peer->ex.qp_base.state == IBV_QPS_RTR
               ? peer
               : NULL;
}

static enum ibv_wc_status carry_out(const struct fake_request *request)
{
    bool is_read = request->opcode == IBV_WR_RDMA_READ;
    bool has_immediate = request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const struct ibv_pd *pd = request->qp->ex.qp_base.pd;
    uint64_t length = request->has_piece ? request->piece.length : 0;
    if (request->opcode == IBV_WR_LOCAL_INV) {
        unbind_window(request->window_key);
        return IBV_WC_SUCCESS;
    }
    if (request->opcode == IBV_WR_BIND_MW) {
        return bind_window(request->qp->ex.qp_base.qp_num, request->window_key, &request->bind);
    }
    struct fake_qp *peer = other_end(request);
    if (!peer) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    if (length) {
        char *local = reach(pd, request->piece.lkey, false, request->piece.addr, length,
                            is_read ? IBV_ACCESS_LOCAL_WRITE : 0);
        int right = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
        char *remote = reach_window(request->rkey, peer->ex.qp_base.qp_num, request->remote_address,
                                    length, right);
        remote = remote ? remote
                        : reach(peer->ex.qp_base.pd, request->rkey, true, request->remote_address,
                                length, right);
        if (!local) {
            return IBV_WC_LOC_PROT_ERR;
        }
        if (!remote && fake.ignores_keys) {
            remote = (char *)(uintptr_t)request->remote_address;
        }
        if (!remote) {
            return IBV_WC_REM_ACCESS_ERR;
        }
        char *to = is_read ? local : remote;
        memmove(to, is_read ? remote : local, (size_t)length);
        to[length / 2] = (char)(to[length / 2] ^ (fake.corrupts ? 1 : 0));
    }
    if (has_immediate) {
        if (peer->receive_count == 0) {
            return IBV_WC_RNR_RETRY_EXC_ERR;
        }
        push(peer->ex.qp_base.recv_cq, (struct ibv_wc){.wr_id = peer->receives[0],
                                                       .status = IBV_WC_SUCCESS,
                                                       .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                                                       .byte_len = (uint32_t)length,
                                                       .imm_data = request->immediate,
                                                       .wc_flags = IBV_WC_WITH_IMM,
                                                       .qp_num = peer->ex.qp_base.qp_num});
        memmove(peer->receives, peer->receives + 1,
                --peer->receive_count * sizeof peer->receives[0]);
    }
    return IBV_WC_SUCCESS;
}

static void complete_first(struct fake_qp *qp, enum ibv_wc_status status)
{
    assert_true(qp->held_count > 0);
    struct fake_request request = qp->held[0];
    memmove(qp->held, qp->held + 1, --qp->held_count * sizeof qp->held[0]);
    if (status == IBV_WC_SUCCESS) {
        status = fake.next_status;
        fake.next_status = IBV_WC_SUCCESS;
    }
    if (status == IBV_WC_SUCCESS) {
        status = carry_out(&request);
    }
    push_send(qp, &request, status);
    if (status != IBV_WC_SUCCESS) {
        qp->ex.qp_base.state = IBV_QPS_ERR;
        flush(qp);
    }
}

void fake_complete(struct fake_qp *qp, size_t count, enum ibv_wc_status status)
{
    hold_lock();
    while (count-- > 0 && qp->held_count > 0) {
        complete_first(qp, status);
    }
    let_go();
}

void fake_push(struct fake_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
    hold_lock();
    push(qp->ex.qp_base.send_cq, (struct ibv_wc){.wr_id = wr_id, .status = status});
    let_go();
}

/* Takes a request in; posting to a queue pair in error is allowed and flushes. */
static int take_in(struct fake_qp *qp, const struct fake_request *request)
{
    if (fake.fail_post) {
        return fake.fail_post;
    }
    if (qp->ex.qp_base.state != IBV_QPS_RTS && qp->ex.qp_base.state != IBV_QPS_ERR) {
        return EINVAL;
    }
    if (qp->held_count >= qp->made_with.cap.max_send_wr) {
        return ENOMEM;
    }
    assert_true(qp->held_count < FAKE_REQUESTS_MAX);
    if (fake.request_count < FAKE_REQUESTS_MAX) {
        fake.requests[fake.request_count++] = *request;
    }
    qp->held[qp->held_count++] = *request;
    if (qp->ex.qp_base.state == IBV_QPS_ERR) {
        flush(qp);
    } else if (!fake.hold) {
        complete_first(qp, IBV_WC_SUCCESS);
    }
    return 0;
}

static int post_send(struct ibv_qp *public, struct ibv_send_wr *list, struct ibv_send_wr **ret_bad)
{
    int rc = 0;
    hold_lock();
    for (struct ibv_send_wr *wr = list; wr && rc == 0; wr = wr->next) {
        struct fake_request request = {
            .qp = qp_of(public),
            .opcode = wr->opcode,
            .wr_id = wr->wr_id,
            .flags = wr->send_flags,
            .remote_address = wr->wr.rdma.remote_addr,
            .rkey = wr->wr.rdma.rkey,
            .immediate = wr->imm_data,
            .has_piece = wr->num_sge == 1,
        };
        if (wr->num_sge) {
            request.piece = wr->sg_list[0];
        }
        if (wr->opcode == IBV_WR_BIND_MW) {
            request.bind = wr->bind_mw.bind_info;
            request.window_key = wr->bind_mw.rkey;
        }
        if (wr->opcode == IBV_WR_LOCAL_INV) {
            request.window_key = wr->invalidate_rkey;
        }
        rc = take_in(qp_of(public), &request);
        *ret_bad = wr;
    }
    let_go();
    return rc;
}

static int post_recv(struct ibv_qp *public, struct ibv_recv_wr *list, struct ibv_recv_wr **ret_bad)
{
    LOCKED;
    struct fake_qp *qp = qp_of(public);
    if (fake.fail_post) {
        return fake.fail_post;
    }
    hold_lock();
    assert_true(qp->receive_count < FAKE_RECEIVES_MAX);
    qp->receives[qp->receive_count++] = list->wr_id;
    if (public->state == IBV_QPS_ERR) {
        flush(qp);
    }
    let_go();
    return 0;
}

/* ---- DC ---- */

static bool is_supported(struct ibv_device *device)
{
    return ((struct fake_device *)device)->has_dc;
}

static struct fake_qp *qp_of_ex(struct ibv_qp_ex *ex)
{
    return (struct fake_qp *)ex;
}

static struct fake_request *last_of_batch(struct fake_qp *qp)
{
    assert_true(qp->in_batch && qp->batch_count > 0);
    return &qp->batch[qp->batch_count - 1];
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct fake_qp *qp = qp_of_ex(ex);
    assert_false(qp->in_batch);
    qp->in_batch = true;
    qp->batch_count = 0;
}

static void begin_request(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
                          uint64_t remote_address)
{
    struct fake_qp *qp = qp_of_ex(ex);
    assert_true(qp->in_batch && qp->batch_count < FAKE_REQUESTS_MAX);
    qp->batch[qp->batch_count++] = (struct fake_request){.qp = qp,
                                                         .opcode = opcode,
                                                         .wr_id = ex->wr_id,
                                                         .flags = ex->wr_flags,
                                                         .remote_address = remote_address,
                                                         .rkey = rkey};
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_address)
{
    assert_true(qp_of_ex(ex)->made_with.send_ops_flags & IBV_QP_EX_WITH_RDMA_READ);
    begin_request(ex, IBV_WR_RDMA_READ, rkey, remote_address);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_address)
{
    assert_true(qp_of_ex(ex)->made_with.send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE);
    begin_request(ex, IBV_WR_RDMA_WRITE, rkey, remote_address);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t address, uint32_t length)
{
    struct fake_request *request = last_of_batch(qp_of_ex(ex));
    request->has_piece = true;
    request->piece = (struct ibv_sge){.addr = address, .length = length, .lkey = lkey};
}

static void wr_set_dc_addr(struct mlx5dv_qp_ex *direct, struct ibv_ah *ah, uint32_t dctn,
                           uint64_t dc_key)
{
    struct fake_qp *qp = (struct fake_qp *)((char *)direct - offsetof(struct fake_qp, direct));
    struct fake_request *request = last_of_batch(qp);
    assert_non_null(ah);
    request->ah = ah;
    request->dctn = dctn;
    request->dc_key = dc_key;
}

/* All of it or nothing. */
static int wr_complete(struct ibv_qp_ex *ex)
{
    struct fake_qp *qp = qp_of_ex(ex);
    int rc = 0;
    assert_true(qp->in_batch);
    qp->in_batch = false;
    hold_lock();
    for (size_t i = 0; i < qp->batch_count && rc == 0; i++) {
        /* A request without a peer or without memory is nonsense to the device. */
        assert_non_null(qp->batch[i].ah);
        assert_true(qp->batch[i].has_piece);
        rc = take_in(qp, &qp->batch[i]);
    }
    let_go();
    return rc;
}

static struct ibv_qp *create_dc_qp(struct ibv_context *context,
                                   struct ibv_qp_init_attr_ex *attributes,
                                   struct mlx5dv_qp_init_attr *direct)
{
    LOCKED;
    bool target = direct->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
    if (fake.no_dc || !(direct->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC) ||
        !(attributes->comp_mask & IBV_QP_INIT_ATTR_PD) || attributes->qp_type != IBV_QPT_DRIVER ||
        (target && (!attributes->srq || !attributes->recv_cq))) {
        return refuse(fake.no_dc ? EOPNOTSUPP : EINVAL);
    }
    struct fake_qp *qp = make_qp(context, fake.fail_qp);
    if (!qp) {
        return NULL;
    }
    qp->made_with = *attributes;
    qp->made_direct = *direct;
    qp->ex.qp_base.qp_context = attributes->qp_context;
    qp->ex.qp_base.pd = attributes->pd;
    qp->ex.qp_base.send_cq = attributes->send_cq;
    qp->ex.qp_base.recv_cq = attributes->recv_cq;
    qp->ex.qp_base.qp_type = attributes->qp_type;
    qp->ex.qp_base.qp_num = target ? 0 : qp->ex.qp_base.qp_num;
    qp->ex.wr_start = wr_start;
    qp->ex.wr_rdma_read = wr_rdma_read;
    qp->ex.wr_rdma_write = wr_rdma_write;
    qp->ex.wr_set_sge = wr_set_sge;
    qp->ex.wr_complete = wr_complete;
    qp->direct.wr_set_dc_addr = wr_set_dc_addr;
    return &qp->ex.qp_base;
}

static struct ibv_qp_ex *qp_to_qp_ex(struct ibv_qp *qp)
{
    return &qp_of(qp)->ex;
}

static struct mlx5dv_qp_ex *qp_ex_to_direct(struct ibv_qp_ex *ex)
{
    return &qp_of_ex(ex)->direct;
}

const struct rg_mlx5 fake_mlx5 = {
    .is_supported = is_supported,
    .create_qp = create_dc_qp,
    .qp_to_qp_ex = qp_to_qp_ex,
    .qp_ex_to_direct = qp_ex_to_direct,
};

/* ---- Addresses and shared receive queues ---- */

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attributes)
{
    LOCKED;
    if (fake.fail_ah) {
        return refuse(fake.fail_ah);
    }
    struct fake_ah *ah = calloc(1, sizeof *ah);
    assert_non_null(ah);
    ah->public.pd = pd;
    ah->public.context = pd->context;
    ah->attributes = *attributes;
    hold_lock();
    fake.last_ah = *attributes;
    fake.ahs++;
    fake.ahs_made++;
    let_go();
    return &ah->public;
}

static int destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    hold_lock();
    fake.ahs--;
    let_go();
    return 0;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attributes)
{
    LOCKED;
    if (fake.fail_srq) {
        return refuse(fake.fail_srq);
    }
    struct ibv_srq *srq = calloc(1, sizeof *srq);
    assert_non_null(srq);
    srq->pd = pd;
    fake.srqs++;
    return srq;
}

static int destroy_srq(struct ibv_srq *srq)
{
    LOCKED;
    free(srq);
    fake.srqs--;
    return 0;
}

/* ---- Events ---- */

static int get_async_event(struct ibv_context *public, struct ibv_async_event *event)
{
    struct context *context = (struct context *)public;
    eventfd_t value;
    hold_lock();
    if (context->event_count == 0) {
        errno = context->is_gone ? EIO : EAGAIN;
        let_go();
        return -1;
    }
    *event = context->events[0];
    memmove(context->events, context->events + 1,
            --context->event_count * sizeof context->events[0]);
    if (context->event_count == 0 && !context->is_gone) {
        assert_int_equal(eventfd_read(public->async_fd, &value), 0);
    }
    let_go();
    return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
}

void fake_event(enum ibv_event_type type, uint8_t port, struct fake_qp *qp)
{
    hold_lock();
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        struct context *context = &contexts[i];
        if (context->is_open) {
            struct ibv_async_event event = {.event_type = type};
            assert_true(context->event_count < EVENTS_MAX);
            if (type == IBV_EVENT_CQ_ERR) {
                event.element.cq = qp->ex.qp_base.send_cq;
            } else if (qp) {
                event.element.qp = &qp->ex.qp_base;
            } else {
                event.element.port_num = port;
            }
            context->events[context->event_count++] = event;
            assert_int_equal(eventfd_write(context->public.async_fd, 1), 0);
        }
    }
    let_go();
}

void fake_set_port_state(struct fake_device *device, uint8_t port, enum ibv_port_state state)
{
    LOCKED;
    device->ports[port - 1].attributes.state = state;
    fake_event(state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, port, NULL);
}

void fake_pull_out(void)
{
    hold_lock();
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        if (contexts[i].is_open) {
            contexts[i].is_gone = true;
            assert_int_equal(eventfd_write(contexts[i].public.async_fd, 1), 0);
        }
    }
    let_go();
}

static const char *wc_status_text(enum ibv_wc_status status)
{
    return status == IBV_WC_SUCCESS ? "success" : "a status of the fake";
}

/* ---- The table, and the world it describes ---- */

static const struct rg_verbs all = {
    .get_device_list = get_device_list,
    .free_device_list = free_device_list,
    .open_device = open_device,
    .close_device = close_device,
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .query_gid_table = query_gid_table,
    .alloc_pd = alloc_pd,
    .dealloc_pd = dealloc_pd,
    .reg_mr = reg_mr,
    .reg_dmabuf_mr = reg_dmabuf_mr,
    .dereg_mr = dereg_mr,
    .alloc_mw = alloc_mw,
    .dealloc_mw = dealloc_mw,
    .create_channel = create_channel,
    .destroy_channel = destroy_channel,
    .create_cq = create_cq,
    .destroy_cq = destroy_cq,
    .poll_cq = poll_cq,
    .arm_cq = arm_cq,
    .get_cq_event = get_cq_event,
    .ack_cq_events = ack_cq_events,
    .create_qp = create_qp,
    .modify_qp = modify_qp,
    .destroy_qp = destroy_qp,
    .post_send = post_send,
    .post_recv = post_recv,
    .create_ah = create_ah,
    .destroy_ah = destroy_ah,
    .create_srq = create_srq,
    .destroy_srq = destroy_srq,
    .get_async_event = get_async_event,
    .ack_async_event = ack_async_event,
    .wc_status_text = wc_status_text,
};

struct rg_verbs fake_verbs;

struct fake_device *fake_add_device(const char *name, uint8_t link_layer)
{
    assert_true(fake.device_count < FAKE_DEVICES_MAX);
    struct fake_device *device = &fake.devices[fake.device_count++];
    memset(device, 0, sizeof *device);
    snprintf(device->public.name, sizeof device->public.name, "%s", name);
    device->public.transport_type = IBV_TRANSPORT_IB;
    device->public.node_type = IBV_NODE_CA;
    device->has_dc = true;
    device->attributes = (struct ibv_device_attr){
        .vendor_id = 0x2c9,
        .phys_port_cnt = 1,
        .max_qp_wr = 128,
        .max_cqe = 1000,
        .max_qp_rd_atom = 8,
        .max_qp_init_rd_atom = 32,
    };
    for (size_t i = 0; i < FAKE_PORTS_MAX; i++) {
        device->ports[i].attributes = (struct ibv_port_attr){
            .state = IBV_PORT_ACTIVE,
            .active_mtu = IBV_MTU_4096,
            .max_msg_sz = 1U << 30,
            .gid_tbl_len = FAKE_GIDS_MAX,
            .lid = link_layer == IBV_LINK_LAYER_INFINIBAND ? (uint16_t)(0x12 + i) : 0,
            .link_layer = link_layer,
        };
    }
    return device;
}

void fake_set_gid(struct fake_device *device, uint8_t port, int index, const char *text,
                  enum rg_gid_type type, const char *netdev)
{
    struct fake_gid *gid = &device->ports[port - 1].gids[index];
    memset(gid, 0, sizeof *gid);
    gid->type = type;
    gid->netdev = netdev;
    if (inet_pton(AF_INET6, text, gid->gid) != 1) {
        gid->gid[10] = gid->gid[11] = 0xff;
        assert_int_equal(inet_pton(AF_INET, text, gid->gid + 12), 1);
    }
}

void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    memset(contexts, 0, sizeof contexts);
    memset(memories, 0, sizeof memories);
    memset(windows, 0, sizeof windows);
    rg_dcb_init(&no_dcb);
    fake.dcb = no_dcb;
    next_key = 0x1000;
    next_qpn = 0x100;
    fake_verbs = all;
    struct fake_device *device = fake_add_device("mlx5_0", IBV_LINK_LAYER_ETHERNET);
    fake_set_gid(device, 1, 0, "fe80::1", RG_GID_ROCE_V1, "eth0");
    fake_set_gid(device, 1, 1, "fe80::1", RG_GID_ROCE_V2, "eth0");
    fake_set_gid(device, 1, 2, "192.0.2.17", RG_GID_ROCE_V1, "eth0");
    fake_set_gid(device, 1, 3, "192.0.2.17", RG_GID_ROCE_V2, "eth0");
    rg_verbs_replace(&fake_verbs, &fake_facts);
    rg_mlx5_replace(&fake_mlx5);
}

void fake_expect_empty(void)
{
    assert_int_equal(fake.contexts, 0);
    assert_int_equal(fake.pds, 0);
    assert_int_equal(fake.mrs, 0);
    assert_int_equal(fake.mws, 0);
    assert_int_equal(fake.channels, 0);
    assert_int_equal(fake.cqs, 0);
    assert_int_equal(fake.open_qps, 0);
    assert_int_equal(fake.ahs, 0);
    assert_int_equal(fake.srqs, 0);
}
