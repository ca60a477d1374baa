/*
 * The peers of a lane: whom a token names, whether that is somebody, and whether it still lives.
 * The addresses of a few peers are kept, in the order of their last use.
 */
#include "rdma/ofi_inside.h"

#include "base/attr.h"
#include "base/checked.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define KNOCK_MS 20 /* how long to wait for an answer to a knock */

#define SHM_FILE_BYTES_MIN 65536

static bool is_our_provider(const struct rg_ofi_rail *rail, const char *named)
{
    if (strcmp(named, rail->provider_name) == 0) {
        return true;
    }
    return rail->provider == RG_OFI_TCP && strcmp(named, "tcp") == 0;
}

static int bad_name(struct rg_error *err, const char *what)
{
    return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The RDMA token's endpoint name %s.", what);
}

/* A good token all the same, whose address is of no use here: the transfer is declined. */
static int useless_name(struct rg_error *err, enum rg_code code, const char *what)
{
    return rg_failf(err, code, "The RDMA token's endpoint address %s.", what);
}

static int check_ip_name(const struct rg_ofi_rail *rail, const struct rg_rdma_window *window,
                         struct rg_error *err)
{
    union {
        sa_family_t family;
        struct sockaddr_in ip;
        struct sockaddr_in6 ip6;
    } name = {.family = AF_UNSPEC};
    const struct fi_info *info = rail->info;
    bool is_ip = info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6;
    if (!is_ip) {
        return window->endpoint_len == info->src_addrlen
                   ? 0
                   : bad_name(err, "has a length that this provider does not use");
    }
    memcpy(&name, window->endpoint, RG_MIN(sizeof name, window->endpoint_len));
    bool is_ip4 = name.family == AF_INET && window->endpoint_len == sizeof name.ip;
    bool is_ip6 = name.family == AF_INET6 && window->endpoint_len == sizeof name.ip6;
    if (!is_ip4 && !is_ip6) {
        return bad_name(err, "is not a socket address");
    }
    if (is_ip4 != (info->addr_format == FI_SOCKADDR_IN)) {
        return useless_name(err, RG_RDMA_NOT_SUPPORTED, "is of an IP version that this rail lacks");
    }
    uint32_t ip4 = ntohl(name.ip.sin_addr.s_addr);
    bool nobody = is_ip4
                      ? name.ip.sin_port == 0 || ip4 == INADDR_ANY || IN_MULTICAST(ip4) ||
                            ip4 == INADDR_BROADCAST
                      : name.ip6.sin6_port == 0 || IN6_IS_ADDR_UNSPECIFIED(&name.ip6.sin6_addr) ||
                            IN6_IS_ADDR_MULTICAST(&name.ip6.sin6_addr);
    return nobody ? useless_name(err, RG_RDMA_TRANSFER_FAILED, "is nobody's to connect to") : 0;
}

static int fail_gone(struct rg_error *err)
{
    return rg_failf(err, RG_RDMA_TRANSFER_FAILED,
                    "The RDMA transfer failed: the token's target is not there any more.");
}

/* Opens the peer's file to watch its life; what the provider will map must look like its own. */
static int check_shm_name(struct rg_ofi_peer *peer, const struct rg_rdma_window *window,
                          struct rg_error *err)
{
    size_t len = strnlen((const char *)window->endpoint, window->endpoint_len);
    if (len + 1 < window->endpoint_len ||
        !rg_ofi_shm_is_name((const char *)window->endpoint, len) ||
        window->endpoint[sizeof RG_OFI_SHM_PREFIX - 1] != 't') {
        return bad_name(err, "is not that of a target on this machine");
    }
    rg_autoclose int directory = open(RG_OFI_SHM_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat facts;
    memcpy(peer->name, window->endpoint, len);
    peer->name[len] = 0;
    int fd = directory < 0 ? -1 : rg_ofi_shm_open_file(directory, (const char *)peer->name, &facts);
    if (fd < 0 || facts.st_size < SHM_FILE_BYTES_MIN) {
        rg_ofi_close_fd(fd);
        return fail_gone(err);
    }
    peer->alive_fd = fd;
    return 0;
}

void rg_ofi_peer_forget(struct rg_ofi_lane *lane, struct rg_ofi_peer *peer)
{
    if (!peer->known) {
        return;
    }
    if (lane->av) {
        (void)fi_av_remove(lane->av, &peer->address, 1, 0);
    }
    rg_ofi_close_fd(peer->alive_fd);
    *peer = (struct rg_ofi_peer){.alive_fd = -1};
}

static struct rg_ofi_peer *find_peer(struct rg_ofi_lane *lane, const struct rg_rdma_window *window)
{
    for (size_t i = 0; i < RG_OFI_PEERS_PER_LANE; i++) {
        struct rg_ofi_peer *peer = &lane->peers[i];
        if (peer->known && peer->name_len == window->endpoint_len &&
            memcmp(peer->name, window->endpoint, peer->name_len) == 0) {
            return peer;
        }
    }
    return NULL;
}

static struct rg_ofi_peer *unused_peer(struct rg_ofi_lane *lane)
{
    for (size_t i = 0; i < RG_OFI_PEERS_PER_LANE; i++) {
        if (!lane->peers[i].known) {
            return &lane->peers[i];
        }
    }
    return NULL;
}

/* Makes sure of an unused place; the peer that was used longest ago gives way. */
static int make_room(struct rg_ofi_lane *lane, struct rg_error *err)
{
    if (lane->rail->provider == RG_OFI_SHM && lane->met >= RG_OFI_SHM_PEERS) {
        rg_ofi_endpoint_close(lane);
        return rg_ofi_endpoint_open(lane, 'i', err);
    }
    if (unused_peer(lane)) {
        return 0;
    }
    if (lane->rail->provider == RG_OFI_SHM) {
        struct rg_ofi_peer *oldest = &lane->peers[0];
        for (size_t i = 1; i < RG_OFI_PEERS_PER_LANE; i++) {
            oldest = lane->peers[i].last_use < oldest->last_use ? &lane->peers[i] : oldest;
        }
        rg_ofi_peer_forget(lane, oldest);
        return 0;
    }
    /* Elsewhere taking one address out leaves its connection open; a new endpoint starts clean. */
    rg_ofi_endpoint_close(lane);
    return rg_ofi_endpoint_open(lane, 'i', err);
}

bool rg_ofi_peer_is_alive(const struct rg_ofi_peer *peer)
{
    return peer->alive_fd < 0 || rg_ofi_shm_is_owner_alive(peer->alive_fd);
}

/*
 * Whether the peer's port refuses connections. The rxm layer keeps that to itself and tries again
 * for ever; so after a while we knock ourselves, without waiting.
 */
bool rg_ofi_peer_is_port_closed(const struct rg_ofi_peer *peer)
{
    rg_autoclose int fd = socket(((const struct sockaddr *)peer->name)->sa_family,
                                 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
        return false;
    }
    if (connect(fd, (const struct sockaddr *)peer->name, (socklen_t)peer->name_len) < 0) {
        struct pollfd item = {.fd = fd, .events = POLLOUT};
        int failed = errno;
        socklen_t size = sizeof failed;
        if (failed == EINPROGRESS && (poll(&item, 1, KNOCK_MS) <= 0 ||
                                      getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0)) {
            return false;
        }
        return failed == ECONNREFUSED;
    }
    return false;
}

static int add_peer(struct rg_ofi_lane *lane, const struct rg_rdma_window *window,
                    struct rg_ofi_peer **ret_peer, struct rg_error *err)
{
    struct rg_ofi_rail *rail = lane->rail;
    struct rg_ofi_peer fresh = {.alive_fd = -1};
    int rc = rail->provider == RG_OFI_SHM ? check_shm_name(&fresh, window, err)
                                          : check_ip_name(rail, window, err);
    if (rc < 0) {
        return rc;
    }
    memcpy(fresh.name, window->endpoint, window->endpoint_len);
    fresh.name_len = window->endpoint_len;
    rc = make_room(lane, err);
    struct rg_ofi_peer *peer = unused_peer(lane);
    if (rc < 0) {
        rg_ofi_close_fd(fresh.alive_fd);
        return rc;
    }
    if (fi_av_insert(lane->av, fresh.name, 1, &fresh.address, 0, NULL) != 1) {
        rg_ofi_close_fd(fresh.alive_fd);
        return bad_name(err, "means nothing to the provider");
    }
    fresh.known = true;
    *peer = fresh;
    lane->met++;
    if (!rg_ofi_peer_is_alive(peer)) {
        rg_ofi_endpoint_close(lane);
        return fail_gone(err);
    }
    *ret_peer = peer;
    return 0;
}

int rg_ofi_lane_bind(struct rg_lane *public, const struct rg_rdma_window *window,
                     struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    if (!is_our_provider(lane->rail, window->provider)) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "The token is for libfabric provider \"%s\", this rail is \"%s\".",
                        window->provider, lane->rail->provider_name);
    }
    int rc = rg_ofi_endpoint_open(lane, 'i', err);
    if (rc == -RG_SERVICE_UNAVAILABLE) {
        return rg_lane_break(public, RG_BROKE_DEVICE, RG_CAUSE_PORT_DOWN, lane->rail->rail.address,
                             err);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_ofi_peer *peer = find_peer(lane, window);
    if (peer && !rg_ofi_peer_is_alive(peer)) {
        rg_ofi_peer_forget(lane, peer);
        peer = NULL;
    }
    if (!peer) {
        rc = add_peer(lane, window, &peer, err);
        if (rc < 0) {
            return rc;
        }
    }
    lane->peer = peer;
    peer->last_use = ++lane->binds;
    lane->refused_at = 0;
    return 0;
}

void rg_ofi_lane_unbind(struct rg_lane *public)
{
    rg_ofi_lane_of(public)->peer = NULL;
}
