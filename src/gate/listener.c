#include "gate/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* Connections that wait to be accepted; the kernel lowers it to net.core.somaxconn. */
#define BACKLOG 4096

static int fail_listen(struct rg_error *err, int os_errno, const char *address, uint16_t port)
{
    const char *shown = address[0] ? address : "*";
    if (os_errno == EADDRINUSE) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, os_errno,
                             "port %u on %s is in use already", port, shown);
    }
    return rg_fail_errno(err, RG_SETTING, os_errno, "cannot listen on %s, port %u", shown, port);
}

/* -1 and errno on failure. */
static int listen_on(const struct sockaddr *address, socklen_t len)
{
    rg_autoclose int fd =
        socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    int on = 1;
    int off = 0;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
        return -1;
    }
    if (address->sa_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) {
        return -1;
    }
    if (bind(fd, address, len) != 0 || listen(fd, BACKLOG) != 0) {
        return -1;
    }
    return RG_TAKE_FD(fd);
}

static int listen_on_all(uint16_t port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int fd = listen_on((struct sockaddr *)&six, sizeof six);
    if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) {
        return fd;
    }
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    return listen_on((struct sockaddr *)&four, sizeof four);
}

static int listen_on_name(const char *address, uint16_t port, int *ret_fd, struct rg_error *err)
{
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    int rc = getaddrinfo(address, service, &hints, &found);
    if (rc != 0) {
        return rg_failf(err, RG_SETTING, "\"%s\" is not an address to listen on: %s", address,
                        gai_strerror(rc));
    }
    int fd = listen_on(found->ai_addr, found->ai_addrlen);
    int failed = errno;
    freeaddrinfo(found);
    if (fd < 0) {
        return fail_listen(err, failed, address, port);
    }
    *ret_fd = fd;
    return 0;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        return 0;
    }
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

int rg_listener_open(const char *address, uint16_t port, int *ret_fd, uint16_t *ret_port,
                     struct rg_error *err)
{
    int fd = -1;
    if (address[0]) {
        int rc = listen_on_name(address, port, &fd, err);
        if (rc < 0) {
            return rc;
        }
    } else {
        fd = listen_on_all(port);
        if (fd < 0) {
            return fail_listen(err, errno, address, port);
        }
    }
    *ret_fd = fd;
    *ret_port = port_of(fd);
    return 0;
}
