/*
 * The largest packet that arrives. See peer_mtu.h.
 */
#include "host/peer_mtu.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC        "railgate mtu"
#define MAGIC_BYTES  (sizeof MAGIC - 1)
#define ANSWER_BYTES 16 /* the magic and the question's length */
#define SMALLEST     576
#define LARGEST      65535
#define PATIENCE_MS  80
#define ATTEMPTS     3
#define UDP_HEADER   8
#define IPV4_HEADER  20
#define IPV6_HEADER  40

struct rg_mtu_echo {
    int fd;
    pthread_t thread;
    atomic_bool stop;
};

/* ---- Answering ---- */

static void answer_one(int fd)
{
    char datagram[ANSWER_BYTES];
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    /* MSG_TRUNC: the length that came, of which no more than the beginning matters. */
    ssize_t got = recvfrom(fd, datagram, sizeof datagram, MSG_DONTWAIT | MSG_TRUNC,
                           (struct sockaddr *)&from, &len);
    if (got < ANSWER_BYTES || memcmp(datagram, MAGIC, MAGIC_BYTES) != 0) {
        return;
    }
    uint32_t size = htonl((uint32_t)got);
    memcpy(datagram + MAGIC_BYTES, &size, sizeof size);
    (void)sendto(fd, datagram, ANSWER_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL,
                 (const struct sockaddr *)&from, len);
}

static void *answer_all(void *argument)
{
    struct rg_mtu_echo *echo = argument;
    while (!atomic_load(&echo->stop)) {
        struct pollfd poll_fd = {.fd = echo->fd, .events = POLLIN};
        if (poll(&poll_fd, 1, 100) > 0) {
            answer_one(echo->fd);
        }
    }
    return NULL;
}

int rg_mtu_echo_start(const char *address, uint16_t port, struct rg_mtu_echo **ret_echo,
                      struct rg_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_PASSIVE};
    struct addrinfo *list = NULL;
    char service[8];
    rg_autofree struct rg_mtu_echo *echo = calloc(1, sizeof *echo);
    snprintf(service, sizeof service, "%u", port);
    if (!echo || getaddrinfo(address, service, &hints, &list) != 0) {
        return rg_failf(err, RG_SETTING, "%.100s is no address", address);
    }
    rg_autoclose int fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0;
    int number = errno;
    freeaddrinfo(list);
    if (!bound) {
        return rg_fail_errno(err, RG_SETTING, number, "cannot listen on UDP port %u", port);
    }
    echo->fd = fd;
    number = pthread_create(&echo->thread, NULL, answer_all, echo);
    if (number != 0) {
        return rg_fail_errno(err, RG_OUT_OF_MEMORY, number, "cannot start a thread");
    }
    (void)RG_TAKE_FD(fd);
    *ret_echo = RG_TAKE(echo);
    return 0;
}

void rg_mtu_echo_stop(struct rg_mtu_echo *echo)
{
    if (echo) {
        atomic_store(&echo->stop, true);
        (void)pthread_join(echo->thread, NULL);
        close(echo->fd);
        free(echo);
    }
}

void rg_mtu_echo_cleanup(struct rg_mtu_echo **echo)
{
    rg_mtu_echo_stop(*echo);
}

/* ---- Asking ---- */

static int open_probe(int tcp_fd, unsigned *ret_headers)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    if (getpeername(tcp_fd, (struct sockaddr *)&peer, &len) < 0) {
        return -1;
    }
    bool is_ipv4 = peer.ss_family == AF_INET;
    /* Not fragmented, and whatever the kernel has learnt about the path does not count. */
    int discover = is_ipv4 ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE;
    rg_autoclose int fd = socket(peer.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        setsockopt(fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
                   is_ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof discover) < 0 ||
        connect(fd, (struct sockaddr *)&peer, len) < 0) {
        return -1;
    }
    *ret_headers = UDP_HEADER + (is_ipv4 ? IPV4_HEADER : IPV6_HEADER);
    return RG_TAKE_FD(fd);
}

/* Whether a datagram of so many bytes was answered; late answers to others are passed over. */
static bool is_answered(int fd, uint32_t bytes)
{
    uint64_t deadline_ms = rg_clock_ms() + PATIENCE_MS;
    for (uint64_t now = rg_clock_ms(); now < deadline_ms; now = rg_clock_ms()) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        char answer[ANSWER_BYTES];
        uint32_t size;
        if (poll(&poll_fd, 1, (int)(deadline_ms - now)) <= 0) {
            return false;
        }
        if (recv(fd, answer, sizeof answer, MSG_DONTWAIT) != sizeof answer ||
            memcmp(answer, MAGIC, MAGIC_BYTES) != 0) {
            continue;
        }
        memcpy(&size, answer + MAGIC_BYTES, sizeof size);
        if (ntohl(size) == bytes) {
            return true;
        }
    }
    return false;
}

static bool passes(int fd, unsigned headers, unsigned mtu, char *datagram)
{
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        ssize_t sent = send(fd, datagram, mtu - headers, MSG_NOSIGNAL);
        if (sent < 0 && errno == EMSGSIZE) {
            return false; /* not even our own interface takes it */
        }
        if (sent == (ssize_t)(mtu - headers) && is_answered(fd, mtu - headers)) {
            return true;
        }
    }
    return false;
}

bool rg_mtu_probe(int fd, unsigned own_mtu, struct rg_mtu_result *ret_result)
{
    unsigned headers;
    rg_autoclose int probe = open_probe(fd, &headers);
    rg_autofree char *datagram = calloc(1, LARGEST);
    if (probe < 0 || !datagram) {
        return false;
    }
    memcpy(datagram, MAGIC, MAGIC_BYTES);
    unsigned most = RG_MIN(own_mtu, (unsigned)LARGEST), least = SMALLEST;
    if (!passes(probe, headers, least, datagram)) {
        return false;
    }
    if (passes(probe, headers, most, datagram)) {
        ret_result->largest = most;
        return true;
    }
    /* least passes, most does not. */
    while (most - least > 1) {
        unsigned middle = least + (most - least) / 2;
        if (passes(probe, headers, middle, datagram)) {
            least = middle;
        } else {
            most = middle;
        }
    }
    ret_result->largest = least;
    return true;
}
