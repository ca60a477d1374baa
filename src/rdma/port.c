/*
 * Opening a port of a verbs device. See port.h.
 */
#include "rdma/port.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

/* A device that does not say how long a message may be is given this. */
#define MESSAGE_BYTES_DEFAULT ((uint64_t)1 << 30)
#define MESSAGE_BYTES_MAX     ((uint64_t)1 << 30)
#define MESSAGE_ALIGN         ((uint64_t)4096)

/* An address handle holds the index in a byte. */
#define GID_INDEXES 256

/* ---- MTU ---- */

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

enum ibv_mtu rg_port_mtu(uint32_t bytes)
{
    enum ibv_mtu found = 0;
    for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
        if (mtu_bytes(mtu) <= bytes) {
            found = mtu;
        }
    }
    return found;
}

/* ---- Completions ---- */

void rg_port_classify(enum ibv_wc_status status, enum rg_broke *ret_broke, enum rg_cause *ret_cause)
{
    *ret_broke = RG_BROKE_CONNECTION;
    switch (status) {
    case IBV_WC_SUCCESS:
        *ret_broke = RG_BROKE_NOTHING;
        *ret_cause = RG_CAUSE_NONE;
        break;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
        *ret_cause = RG_CAUSE_REMOTE_ACCESS;
        break;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        *ret_cause = RG_CAUSE_PEER_GONE;
        break;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        *ret_cause = RG_CAUSE_PEER_NOT_READY;
        break;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_MW_BIND_ERR:
        *ret_cause = RG_CAUSE_LOCAL;
        break;
    case IBV_WC_WR_FLUSH_ERR:
        *ret_cause = RG_CAUSE_FLUSHED;
        break;
    case IBV_WC_FATAL_ERR:
        *ret_broke = RG_BROKE_DEVICE;
        *ret_cause = RG_CAUSE_DEVICE_GONE;
        break;
    default:
        *ret_cause = RG_CAUSE_OTHER;
        break;
    }
}

/* ---- The GID table ---- */

static enum rg_gid_type convert_type(uint32_t type, bool is_ethernet)
{
    if (type == IBV_GID_TYPE_ROCE_V2) {
        return RG_GID_ROCE_V2;
    }
    if (type == IBV_GID_TYPE_ROCE_V1) {
        return RG_GID_ROCE_V1;
    }
    return is_ethernet ? RG_GID_ROCE_V1 : RG_GID_INFINIBAND;
}

static const char *device_name(const struct rg_port *port)
{
    return port->context->device->name;
}

/* Everything the library can tell in one call. */
static int read_whole_table(struct rg_port *port)
{
    rg_autofree struct ibv_gid_entry *raw = calloc(RG_PORT_GIDS_MAX, sizeof *raw);
    if (!raw) {
        return -ENOMEM;
    }
    ssize_t count =
        port->verbs->query_gid_table(port->context, raw, RG_PORT_GIDS_MAX, 0, sizeof *raw);
    if (count < 0) {
        return (int)count;
    }
    port->gids.count = 0;
    for (ssize_t i = 0; i < count && i < RG_PORT_GIDS_MAX; i++) {
        struct rg_gid_entry *entry = &port->entries[port->gids.count];
        if (raw[i].port_num != port->number || raw[i].gid_index >= GID_INDEXES ||
            rg_gid_scope(raw[i].gid.raw) == RG_GID_ZERO) {
            continue;
        }
        *entry = (struct rg_gid_entry){.index = (int)raw[i].gid_index,
                                       .type = convert_type(raw[i].gid_type, port->is_ethernet)};
        memcpy(entry->gid, raw[i].gid.raw, sizeof entry->gid);
        if (raw[i].ndev_ifindex == 0 || !if_indextoname(raw[i].ndev_ifindex, entry->netdev)) {
            (void)rg_verbs_facts()->gid_netdev(device_name(port), port->number, entry->index,
                                               entry->netdev);
        }
        port->gids.count++;
    }
    return 0;
}

/* Entry by entry, for old libraries. */
static void read_entries(struct rg_port *port)
{
    const struct rg_nic_facts *facts = rg_verbs_facts();
    int room = RG_MIN(port->port.gid_tbl_len, GID_INDEXES);
    port->gids.count = 0;
    for (int i = 0; i < room; i++) {
        struct rg_gid_entry *entry = &port->entries[port->gids.count];
        union ibv_gid gid;
        if (port->verbs->query_gid(port->context, port->number, i, &gid) != 0 ||
            rg_gid_scope(gid.raw) == RG_GID_ZERO) {
            continue;
        }
        *entry = (struct rg_gid_entry){.index = i};
        memcpy(entry->gid, gid.raw, sizeof entry->gid);
        entry->type = facts->gid_type(device_name(port), port->number, i, port->is_ethernet);
        (void)facts->gid_netdev(device_name(port), port->number, i, entry->netdev);
        port->gids.count++;
    }
}

static int read_gids(struct rg_port *port, struct rg_error *err)
{
    if (!port->entries) {
        port->entries = calloc(RG_PORT_GIDS_MAX, sizeof *port->entries);
    }
    if (!port->entries) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    port->gids.entries = port->entries;
    if (!port->verbs->query_gid_table || read_whole_table(port) < 0) {
        read_entries(port);
    }
    return 0;
}

/* ---- Choosing ---- */

/* What stood in the way, for the sentence when nothing fits. The later ones tell more. */
enum obstacle {
    OBSTACLE_NO_DEVICE,
    OBSTACLE_UNSUITABLE,
    OBSTACLE_NO_ADDRESS,
    OBSTACLE_NO_PORT,
    OBSTACLE_NO_GID,
    OBSTACLE_NOT_OPENED,
    OBSTACLE_DOWN,
    OBSTACLE_NONE,
};

struct search {
    const struct rg_rail_config *config;
    bool (*suits)(struct ibv_device *device, const struct ibv_device_attr *attributes);
    enum obstacle worst;
    int os_errno; /* of OBSTACLE_NOT_OPENED */
};

static bool note(struct search *search, enum obstacle obstacle)
{
    search->worst = RG_MAX(search->worst, obstacle);
    return false;
}

static bool choose_gid(struct rg_port *port, struct search *search)
{
    const struct rg_rail_config *config = search->config;
    const char *address = config->address[0] ? config->address : NULL;
    if (address && !port->is_ethernet &&
        !rg_verbs_facts()->port_has_address(device_name(port), port->number, address)) {
        return note(search, OBSTACLE_NO_ADDRESS);
    }
    const struct rg_gid_entry *gid = rg_gid_choose(&port->gids, port->is_ethernet, address);
    if (!gid) {
        return note(search, address ? OBSTACLE_NO_ADDRESS : OBSTACLE_NO_GID);
    }
    if (config->gid_index != RG_RAIL_AUTO) {
        gid = rg_gid_at(&port->gids, config->gid_index);
    }
    if (!gid) {
        return note(search, OBSTACLE_NO_GID);
    }
    port->gid = gid;
    return true;
}

static bool try_port(struct rg_port *port, uint8_t number, struct search *search)
{
    port->number = number;
    if (port->verbs->query_port(port->context, number, &port->port) != 0) {
        return note(search, OBSTACLE_NOT_OPENED);
    }
    port->is_ethernet = port->port.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (read_gids(port, NULL) < 0) {
        search->os_errno = ENOMEM;
        return note(search, OBSTACLE_NOT_OPENED);
    }
    if (port->port.state == IBV_PORT_ACTIVE) {
        return choose_gid(port, search);
    }
    /* A port that is down may have lost its addresses: that it has not the wanted one means nothing
     * when it was named. */
    if (search->config->device[0] || !search->config->address[0] || choose_gid(port, search)) {
        return note(search, OBSTACLE_DOWN);
    }
    return false;
}

static bool try_ports(struct rg_port *port, struct search *search)
{
    uint8_t wanted = search->config->port;
    if (wanted > port->device.phys_port_cnt) {
        return note(search, OBSTACLE_NO_PORT);
    }
    uint8_t first = wanted ? wanted : 1;
    uint8_t last = wanted ? wanted : port->device.phys_port_cnt;
    for (unsigned number = first; number <= last; number++) {
        if (try_port(port, (uint8_t)number, search)) {
            return true;
        }
    }
    return false;
}

/* Reliable connections as we make them need InfiniBand's transport; iWARP and EFA have others. */
static bool has_transport(const struct ibv_device *device)
{
    return device->transport_type == IBV_TRANSPORT_IB && device->node_type == IBV_NODE_CA;
}

static bool try_device(struct rg_port *port, struct ibv_device *device, struct search *search)
{
    if (!has_transport(device)) {
        return note(search, OBSTACLE_UNSUITABLE);
    }
    errno = 0;
    port->context = port->verbs->open_device(device);
    if (!port->context) {
        search->os_errno = rg_verbs_errno(-1);
        return note(search, OBSTACLE_NOT_OPENED);
    }
    int failed = port->verbs->query_device(port->context, &port->device);
    bool found = false;
    if (failed) {
        search->os_errno = rg_verbs_errno(failed);
        (void)note(search, OBSTACLE_NOT_OPENED);
    } else if (search->suits && !search->suits(device, &port->device)) {
        (void)note(search, OBSTACLE_UNSUITABLE);
    } else {
        found = try_ports(port, search);
    }
    if (!found) {
        (void)port->verbs->close_device(port->context);
        port->context = NULL;
    }
    return found;
}

static int fail_search(const struct search *search, struct rg_error *err)
{
    const struct rg_rail_config *config = search->config;
    const char *name = config->device[0] ? config->device : "of this machine";
    switch (search->worst) {
    case OBSTACLE_DOWN:
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "No port of RDMA device %s is active.", name);
    case OBSTACLE_NOT_OPENED:
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, search->os_errno,
                             "RDMA device %s cannot be opened", name);
    case OBSTACLE_NO_GID:
        return config->gid_index == RG_RAIL_AUTO
                   ? rg_failf(err, RG_SERVICE_UNAVAILABLE, "The port of RDMA device %s has no GID.",
                              name)
                   : rg_failf(err, RG_SETTING, "RDMA device %s has no GID with index %d.", name,
                              config->gid_index);
    case OBSTACLE_NO_PORT:
        return rg_failf(err, RG_SETTING, "RDMA device %s has no port %u.", name, config->port);
    case OBSTACLE_NO_ADDRESS:
        return rg_failf(err, RG_SETTING, "No port of RDMA device %s has the address %s.", name,
                        config->address);
    case OBSTACLE_UNSUITABLE:
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "RDMA device %s is of a kind that this transport cannot use.", name);
    default:
        break;
    }
    return config->device[0]
               ? rg_failf(err, RG_SETTING, "There is no RDMA device named %s.", config->device)
               : rg_failf(err, RG_RDMA_NOT_SUPPORTED, "This machine has no RDMA device.");
}

static int find_port(struct rg_port *port, struct search *search, struct rg_error *err)
{
    int count = 0;
    const char *wanted = search->config->device;
    errno = 0;
    struct ibv_device **list = port->verbs->get_device_list(&count);
    if (!list) {
        return rg_fail_errno(err, RG_RDMA_NOT_SUPPORTED, rg_verbs_errno(-1),
                             "The kernel has no RDMA devices");
    }
    bool found = false;
    for (int i = 0; i < count && !found; i++) {
        if (!wanted[0] || strcmp(list[i]->name, wanted) == 0) {
            found = try_device(port, list[i], search);
        }
    }
    port->verbs->free_device_list(list);
    return found ? 0 : fail_search(search, err);
}

/* ---- Opening ---- */

static uint8_t detect_traffic_class(const struct rg_port *port)
{
    struct rg_dcb dcb;
    if (!port->is_ethernet || !port->gid->netdev[0] ||
        rg_verbs_facts()->dcb(port->gid->netdev, &dcb, NULL) < 0) {
        return 0;
    }
    return rg_dcb_traffic_class(&dcb);
}

static int set_up(struct rg_port *port, const struct rg_rail_config *config, struct rg_error *err)
{
    port->mtu = mtu_bytes(port->port.active_mtu);
    if (port->mtu == 0) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "RDMA device %s gives no MTU.",
                        device_name(port));
    }
    if (config->mtu > port->mtu) {
        return rg_failf(err, RG_SETTING,
                        "MTU %u is above the active MTU of port %u of RDMA device %s, %u bytes "
                        "(rdma-mtu).",
                        config->mtu, port->number, device_name(port), port->mtu);
    }
    port->mtu = config->mtu ? config->mtu : port->mtu;
    port->traffic_class = config->traffic_class == RG_RAIL_AUTO ? detect_traffic_class(port)
                                                                : (uint8_t)config->traffic_class;
    uint64_t message_bytes = port->port.max_msg_sz ? port->port.max_msg_sz : MESSAGE_BYTES_DEFAULT;
    port->message_bytes = RG_MIN(message_bytes, MESSAGE_BYTES_MAX) / MESSAGE_ALIGN * MESSAGE_ALIGN;
    if (port->message_bytes == 0) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "RDMA device %s moves too little at a time.",
                        device_name(port));
    }
    int flags = fcntl(port->context->async_fd, F_GETFL);
    if (flags < 0 || fcntl(port->context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno,
                             "The events of RDMA device %s cannot be read", device_name(port));
    }
    errno = 0;
    port->pd = port->verbs->alloc_pd(port->context);
    if (!port->pd) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, rg_verbs_errno(-1),
                             "RDMA device %s gives no protection domain", device_name(port));
    }
    return 0;
}

static int check_config(const struct rg_rail_config *config, struct rg_error *err)
{
    if (config->mtu != 0 && mtu_bytes(rg_port_mtu(config->mtu)) != config->mtu) {
        return rg_failf(err, RG_SETTING, "The MTU must be 256, 512, 1024, 2048 or 4096 bytes.");
    }
    if (config->hop_limit == 0) {
        return rg_failf(err, RG_SETTING, "The hop limit must be between 1 and 255.");
    }
    if (config->ack_timeout == 0) {
        return rg_failf(err, RG_SETTING,
                        "The acknowledgement time-out must be between 1 and 31; 0 means for ever.");
    }
    return 0;
}

int rg_port_open(struct rg_port *port, const struct rg_verbs *verbs,
                 const struct rg_rail_config *config,
                 bool (*suits)(struct ibv_device *device, const struct ibv_device_attr *attributes),
                 struct rg_error *err)
{
    struct search search = {.config = config, .suits = suits};
    int rc = check_config(config, err);
    if (rc < 0) {
        return rc;
    }
    memset(port, 0, sizeof *port);
    port->verbs = verbs;
    RG_MUST(pthread_mutex_init(&port->event_lock, NULL));
    rc = find_port(port, &search, err);
    if (rc == 0) {
        rc = set_up(port, config, err);
    }
    if (rc < 0) {
        rg_port_close(port);
    }
    return rc;
}

void rg_port_close(struct rg_port *port)
{
    if (!port->verbs) {
        return;
    }
    if (port->pd) {
        (void)port->verbs->dealloc_pd(port->pd);
    }
    if (port->context) {
        (void)port->verbs->close_device(port->context);
    }
    free(port->entries);
    RG_MUST(pthread_mutex_destroy(&port->event_lock));
    memset(port, 0, sizeof *port);
}

/* How many leading bits of the rail's GID its neighbours have in common. */
static unsigned subnet_bits(const struct rg_port *port)
{
    const unsigned mapped = 96; /* bits before an IPv4 address */
    char text[RG_GID_TEXT_MAX + 1];
    enum rg_gid_scope scope = rg_gid_scope(port->gid->gid);
    if (!port->is_ethernet || scope == RG_GID_LINK_LOCAL) {
        return 64;
    }
    rg_gid_text(port->gid->gid, text);
    unsigned bits = rg_verbs_facts()->subnet_bits(text);
    return bits && scope == RG_GID_IPV4 ? mapped + bits : bits;
}

void rg_port_describe(const struct rg_port *port, const struct rg_rail_config *config,
                      struct rg_rail *rail)
{
    snprintf(rail->device, sizeof rail->device, "%s", device_name(port));
    rg_gid_text(port->gid->gid, rail->address);
    memcpy(rail->gid, port->gid->gid, sizeof rail->gid);
    rail->gid_index = port->gid->index;
    rail->subnet_bits = subnet_bits(port);
    rail->traffic_class = port->traffic_class;
    rail->mtu = port->mtu;
    rail->message_bytes_max = port->message_bytes;
    rail->is_hardware = port->device.vendor_id != RG_VENDOR_SOFT_ROCE;
    rail->pins_memory = true;
    rail->target_needs_progress = false;
}

/* ---- Health ---- */

int rg_port_check(struct rg_port *port, struct rg_error *err)
{
    struct ibv_port_attr now;
    union ibv_gid gid;
    if (atomic_load(&port->is_broken)) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "RDMA device %s has failed.",
                        device_name(port));
    }
    int failed = port->verbs->query_port(port->context, port->number, &now);
    if (failed) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, rg_verbs_errno(failed),
                             "RDMA device %s does not answer", device_name(port));
    }
    if (now.state != IBV_PORT_ACTIVE) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "Port %u of RDMA device %s is not active.",
                        port->number, device_name(port));
    }
    /* An address that was taken away takes its GID along. */
    failed = port->verbs->query_gid(port->context, port->number, port->gid->index, &gid);
    if (failed || memcmp(gid.raw, port->gid->gid, sizeof gid.raw) != 0) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "RDMA device %s has lost its address.",
                        device_name(port));
    }
    atomic_store(&port->is_down, false);
    return 0;
}

enum rg_cause rg_port_cause(const struct rg_port *port)
{
    if (atomic_load_explicit(&port->is_broken, memory_order_relaxed)) {
        return RG_CAUSE_DEVICE_GONE;
    }
    return atomic_load_explicit(&port->is_down, memory_order_relaxed) ? RG_CAUSE_PORT_DOWN
                                                                      : RG_CAUSE_NONE;
}

enum rg_cause rg_port_ask(struct rg_port *port)
{
    struct ibv_port_attr now;
    int failed = port->verbs->query_port(port->context, port->number, &now);
    if (failed) {
        atomic_store(&port->is_broken, true);
    } else if (now.state != IBV_PORT_ACTIVE) {
        atomic_store(&port->is_down, true);
    }
    return rg_port_cause(port);
}

static void take_event(struct rg_port *port, const struct ibv_async_event *event,
                       void (*condemn)(void *queue_context, enum ibv_event_type kind))
{
    bool is_ours = event->element.port_num == port->number;
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        if (is_ours) {
            atomic_store(&port->is_down, true);
        }
        break;
    case IBV_EVENT_PORT_ACTIVE:
        if (is_ours) {
            atomic_store(&port->is_down, false);
        }
        break;
    case IBV_EVENT_DEVICE_FATAL:
        atomic_store(&port->is_broken, true);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
        condemn(event->element.qp->qp_context, event->event_type);
        break;
    case IBV_EVENT_CQ_ERR:
        condemn(event->element.cq->cq_context, event->event_type);
        break;
    default:
        break;
    }
}

void rg_port_take_events(struct rg_port *port,
                         void (*condemn)(void *queue_context, enum ibv_event_type kind))
{
    RG_MUST(pthread_mutex_lock(&port->event_lock));
    for (;;) {
        struct ibv_async_event event;
        memset(&event, 0, sizeof event);
        errno = 0;
        if (port->verbs->get_async_event(port->context, &event) != 0) {
            break;
        }
        take_event(port, &event, condemn);
        port->verbs->ack_async_event(&event);
    }
    /* A device that was pulled out has no events any more, and says so. */
    if (errno != EAGAIN && errno != EINTR && errno != 0) {
        atomic_store(&port->is_broken, true);
    }
    RG_MUST(pthread_mutex_unlock(&port->event_lock));
}

/* ---- Memory ---- */

#define REMOTE_FLAGS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

int rg_port_access(unsigned access, bool is_device_memory, bool has_windows)
{
    int flags = 0;
    if (access & RG_ACCESS_LOCAL) {
        flags |= IBV_ACCESS_LOCAL_WRITE;
    }
    if (access & RG_ACCESS_REMOTE_WRITE) {
        flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    }
    if (access & RG_ACCESS_REMOTE_READ) {
        flags |= IBV_ACCESS_REMOTE_READ;
    }
    bool is_shown = (flags & REMOTE_FLAGS) != 0;
    bool has_one_use = access == RG_ACCESS_REMOTE_WRITE || access == RG_ACCESS_REMOTE_READ;
    if (!has_one_use && (has_windows || !is_device_memory)) {
        flags &= ~REMOTE_FLAGS;
    }
    return is_shown && has_windows ? flags | IBV_ACCESS_MW_BIND : flags;
}

bool rg_port_is_exact(const struct rg_port_region *region, uint64_t offset, uint64_t length,
                      int right)
{
    if (!(region->access & right)) {
        return false;
    }
    return !region->public.address || ((region->access & REMOTE_FLAGS) == right && offset == 0 &&
                                       length == region->public.length);
}

static int fail_register(struct rg_error *err, uint64_t length, int os_errno)
{
    struct rlimit limit;
    if (os_errno == EFAULT || os_errno == EINVAL || os_errno == EACCES || os_errno == EPERM) {
        return rg_fail_errno(err, RG_INVALID_ARGUMENT, os_errno,
                             "The memory cannot be registered for RDMA");
    }
    if (os_errno == EOPNOTSUPP || os_errno == ENOSYS) {
        return rg_fail_errno(err, RG_RDMA_NOT_SUPPORTED, os_errno,
                             "This memory cannot be registered for RDMA");
    }
    if (os_errno != ENOMEM && os_errno != EAGAIN) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, os_errno,
                             "The RDMA device does not register memory");
    }
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        return rg_failf(err, RG_LIMIT,
                        "Registering %" PRIu64 " bytes more exceeds the limit of locked memory, "
                        "%" PRIu64 " bytes (RLIMIT_MEMLOCK; LimitMEMLOCK= in a unit, ulimit -l).",
                        length, (uint64_t)limit.rlim_cur);
    }
    return rg_fail_errno(err, RG_OUT_OF_MEMORY, os_errno, "No memory can be pinned for RDMA");
}

int rg_port_register_mr(struct rg_port *port, void *address, uint64_t length, int flags,
                        struct ibv_mr **ret_mr, struct rg_error *err)
{
    errno = 0;
    struct ibv_mr *mr = port->verbs->reg_mr(port->pd, address, (size_t)length, flags);
    if (!mr) {
        return fail_register(err, length, rg_verbs_errno(-1));
    }
    *ret_mr = mr;
    return 0;
}

static int wrap_region(struct ibv_mr *mr, struct rg_port *port, uint64_t address, int flags,
                       struct rg_region **ret_region, struct rg_error *err)
{
    struct rg_port_region *region = calloc(1, sizeof *region);
    if (!region) {
        (void)port->verbs->dereg_mr(mr);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    region->mr = mr;
    region->address = address;
    region->access = flags;
    region->takes_windows = (flags & IBV_ACCESS_MW_BIND) != 0;
    atomic_fetch_add(&port->users, 1);
    *ret_region = &region->public;
    return 0;
}

int rg_port_register(struct rg_port *port, void *address, uint64_t length, int flags,
                     struct rg_region **ret_region, struct rg_error *err)
{
    struct ibv_mr *mr;
    int rc = rg_port_register_mr(port, address, length, flags, &mr, err);
    /* To the kernel, memory that takes windows is memory that is written. */
    if (rc == -RG_INVALID_ARGUMENT && (flags & IBV_ACCESS_MW_BIND)) {
        flags &= ~IBV_ACCESS_MW_BIND;
        rc = rg_port_register_mr(port, address, length, flags, &mr, err);
    }
    return rc < 0 ? rc : wrap_region(mr, port, (uintptr_t)address, flags, ret_region, err);
}

int rg_port_register_dmabuf(struct rg_port *port, int dmabuf_fd, uint64_t fd_offset,
                            uint64_t address, uint64_t length, int flags,
                            struct rg_region **ret_region, struct rg_error *err)
{
    if (!port->verbs->reg_dmabuf_mr) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "The verbs library is too old to register dma-buf memory.");
    }
    errno = 0;
    struct ibv_mr *mr =
        port->verbs->reg_dmabuf_mr(port->pd, fd_offset, (size_t)length, address, dmabuf_fd, flags);
    if (!mr) {
        return fail_register(err, length, rg_verbs_errno(-1));
    }
    return wrap_region(mr, port, address, flags, ret_region, err);
}

void rg_port_deregister(struct rg_port *port, struct rg_region *public)
{
    struct rg_port_region *region = (struct rg_port_region *)public;
    /* Fails only while a window is bound to it, which the interface forbids, or when the device is
     * gone, and then there is nothing left to do. */
    (void)port->verbs->dereg_mr(region->mr);
    free(region);
    atomic_fetch_sub(&port->users, 1);
}
