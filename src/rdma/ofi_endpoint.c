/*
 * Lanes and their endpoints: an endpoint, with its completion queue and its address vector, is
 * opened when it is first needed, and closed to end what it does.
 */
#include "rdma/ofi_inside.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void rg_ofi_lane_init(struct rg_ofi_lane *lane, struct rg_ofi_rail *rail)
{
    lane->rail = rail;
    lane->lane.rail = &rail->rail;
    lane->lane.depth = rail->provider == RG_OFI_SHM ? 1 : rail->rail.config.lane_depth;
    lane->wait_fd = -1;
    lane->shm_lock_fd = -1;
    for (size_t i = 0; i < RG_OFI_PEERS_PER_LANE; i++) {
        lane->peers[i].alive_fd = -1;
    }
}

void rg_ofi_endpoint_close(struct rg_ofi_lane *lane)
{
    rg_ofi_close_fid(lane->ep ? &lane->ep->fid : NULL);
    lane->ep = NULL;
    for (size_t i = 0; i < RG_OFI_PEERS_PER_LANE; i++) {
        rg_ofi_peer_forget(lane, &lane->peers[i]);
    }
    rg_ofi_close_fid(lane->moved ? &lane->moved->fid : NULL);
    rg_ofi_close_fid(lane->cq ? &lane->cq->fid : NULL);
    rg_ofi_close_fid(lane->av ? &lane->av->fid : NULL);
    lane->moved = NULL;
    lane->cq = NULL;
    lane->av = NULL;
    rg_ofi_close_fd(lane->shm_lock_fd);
    lane->shm_lock_fd = -1;
    lane->wait_fd = -1;
    lane->peer = NULL;
    lane->met = 0;
    memset(lane->operations, 0, sizeof lane->operations);
}

static int open_queues(struct rg_ofi_lane *lane)
{
    struct rg_ofi_rail *rail = lane->rail;
    struct fi_cq_attr queue = {
        .size = 2 * RG_LANE_DEPTH_MAX,
        .format = FI_CQ_FORMAT_CONTEXT,
        .wait_obj = rail->can_sleep ? FI_WAIT_FD : FI_WAIT_NONE,
    };
    int rc = fi_cq_open(rail->domain, &queue, &lane->cq, NULL);
    if (rc == -FI_ENOSYS && rail->provider == RG_OFI_OTHER) {
        queue.wait_obj = FI_WAIT_NONE;
        rc = fi_cq_open(rail->domain, &queue, &lane->cq, NULL);
    }
    if (rc) {
        return rc;
    }
    if (queue.wait_obj == FI_WAIT_FD &&
        fi_control(&lane->cq->fid, FI_GETWAIT, &lane->wait_fd) != 0) {
        lane->wait_fd = -1;
    }
    struct fi_av_attr addresses = {.type = FI_AV_TABLE, .count = RG_OFI_PEERS_PER_LANE};
    rc = fi_av_open(rail->domain, &addresses, &lane->av, NULL);
    if (rc || rail->provider != RG_OFI_SHM) {
        return rc;
    }
    struct fi_cntr_attr counter = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    return fi_cntr_open(rail->domain, &counter, &lane->moved, NULL);
}

/* ---- Nobody connects to an initiator ---- */

union ip_name {
    struct sockaddr any;
    struct sockaddr_in ip;
    struct sockaddr_in6 ip6;
};

static bool is_listener_at(int fd, const union ip_name *name)
{
    union ip_name own = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof own;
    int listens = 0;
    socklen_t flag_len = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_len) < 0 || !listens ||
        getsockname(fd, &own.any, &len) < 0 || own.any.sa_family != name->any.sa_family) {
        return false;
    }
    return own.any.sa_family == AF_INET
               ? own.ip.sin_port == name->ip.sin_port &&
                     own.ip.sin_addr.s_addr == name->ip.sin_addr.s_addr
               : own.any.sa_family == AF_INET6 && own.ip6.sin6_port == name->ip6.sin6_port &&
                     memcmp(&own.ip6.sin6_addr, &name->ip6.sin6_addr, sizeof own.ip6.sin6_addr) ==
                         0;
}

/* Whoever has it may close it meanwhile: what is changed is known to be the listener. */
static void deafen_socket(int their_fd, const union ip_name *name)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &nothing};
    if (!is_listener_at(their_fd, name)) {
        return;
    }
    rg_autoclose int fd = fcntl(their_fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && is_listener_at(fd, name)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    }
}

/*
 * The tcp provider listens for each endpoint, also for one that only ever connects, and accepts
 * whoever comes while it is polled, without a ceiling and without asking who. Nothing that arrives
 * at an initiator's port is wanted, so the kernel drops all of it there.
 */
static void deafen(struct rg_ofi_lane *lane)
{
    union ip_name name = {.any.sa_family = AF_UNSPEC};
    size_t len = sizeof name;
    if (lane->rail->provider != RG_OFI_TCP || fi_getname(&lane->ep->fid, &name, &len) != 0) {
        return;
    }
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (end != entry->d_name && !*end) {
            deafen_socket((int)fd, &name);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* ---- Endpoints ---- */

static int bind_and_enable(struct rg_ofi_lane *lane)
{
    int rc = fi_ep_bind(lane->ep, &lane->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0) {
        rc = fi_ep_bind(lane->ep, &lane->av->fid, 0);
    }
    if (rc == 0 && lane->moved) {
        rc = fi_ep_bind(lane->ep, &lane->moved->fid, FI_REMOTE_WRITE | FI_REMOTE_READ);
    }
    return rc ? rc : fi_enable(lane->ep);
}

int rg_ofi_endpoint_open(struct rg_ofi_lane *lane, char role, struct rg_error *err)
{
    struct rg_ofi_rail *rail = lane->rail;
    if (lane->ep) {
        return 0;
    }
    char name[RG_OFI_SHM_NAME_LENGTH + 1];
    struct fi_info *own = NULL;
    if (rail->provider == RG_OFI_SHM) {
        own = rg_ofi_shm_name_endpoint(rail, role, name);
        if (!own) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
    }
    int rc = open_queues(lane);
    if (rc == 0) {
        rc = fi_endpoint(rail->domain, own ? own : rail->info, &lane->ep, NULL);
    }
    if (rc == 0) {
        rc = bind_and_enable(lane);
    }
    if (own) {
        rg_ofi_library.freeinfo(own);
    }
    if (rc == -FI_EADDRNOTAVAIL) {
        rg_ofi_endpoint_close(lane);
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "Address \"%s\" is not one of this machine's.",
                        rail->rail.address);
    }
    if (rc) {
        rg_ofi_endpoint_close(lane);
        return rg_ofi_fail(err, "no endpoint", rail->provider_name, rc);
    }
    if (role == 'i') {
        deafen(lane);
    }
    if (rail->provider == RG_OFI_SHM) {
        rc = rg_ofi_shm_lock_file(lane, name, err);
        if (rc < 0) {
            rg_ofi_endpoint_close(lane);
        }
    }
    return rc;
}

int rg_ofi_lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct rg_ofi_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rg_ofi_lane_init(lane, rg_ofi_rail_of(rail));
    *ret_lane = &lane->lane;
    return 0;
}

void rg_ofi_lane_close(struct rg_lane *public)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    RG_ASSERT(lane->windows == 0);
    rg_ofi_endpoint_close(lane);
    free(lane);
}

int rg_ofi_lane_reset(struct rg_lane *public, struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    RG_ASSERT(lane->windows == 0);
    rg_ofi_endpoint_close(lane);
    return 0;
}
