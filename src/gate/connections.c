#include "gate/connections.h"

#include "base/assert.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* The shortest time over which a thread's computing is judged. */
#define SPIN_NS 500000000u

void rg_connections_init(struct rg_connections *all)
{
    RG_MUST(pthread_mutex_init(&all->lock, NULL));
    all->first = NULL;
    atomic_init(&all->count, 0);
}

void rg_connections_destroy(struct rg_connections *all)
{
    RG_MUST(pthread_mutex_destroy(&all->lock));
}

static void name_address(char *text, size_t room, const struct sockaddr *address, socklen_t len)
{
    const char *mapped = "::ffff:";
    if (getnameinfo(address, len, text, (socklen_t)room, NULL, 0, NI_NUMERICHOST) != 0) {
        text[0] = '\0';
    }
    if (strncmp(text, mapped, strlen(mapped)) == 0 && strchr(text, '.')) {
        memmove(text, text + strlen(mapped), strlen(text + strlen(mapped)) + 1);
    }
}

static void name_local(struct rg_connection *connection)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    if (getsockname(connection->fd, (struct sockaddr *)&address, &len) == 0) {
        name_address(connection->local, sizeof connection->local, (struct sockaddr *)&address, len);
    }
}

struct rg_connection *rg_connections_add(struct rg_connections *all, int fd,
                                         const struct sockaddr *address, socklen_t address_len)
{
    struct rg_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return NULL;
    }
    RG_MUST(pthread_mutex_init(&connection->lock, NULL));
    connection->all = all;
    connection->fd = fd;
    connection->moved_ns = rg_clock_ns();
    name_address(connection->peer, sizeof connection->peer, address, address_len);
    name_local(connection);
    RG_MUST(pthread_mutex_lock(&all->lock));
    connection->next = all->first;
    if (all->first) {
        all->first->previous = connection;
    }
    all->first = connection;
    RG_MUST(pthread_mutex_unlock(&all->lock));
    atomic_fetch_add(&all->count, 1);
    return connection;
}

void rg_connections_remove(struct rg_connection *connection)
{
    struct rg_connections *all = connection->all;
    RG_MUST(pthread_mutex_lock(&all->lock));
    if (connection->previous) {
        connection->previous->next = connection->next;
    } else {
        all->first = connection->next;
    }
    if (connection->next) {
        connection->next->previous = connection->previous;
    }
    RG_MUST(pthread_mutex_unlock(&all->lock));
    atomic_fetch_sub(&all->count, 1);
    RG_ASSERT(!connection->exchange);
    if (connection->spare) {
        rg_exchange_unref(connection->spare);
    }
    rg_buf_free(&connection->target);
    RG_MUST(pthread_mutex_destroy(&connection->lock));
    free(connection);
}

static bool read_counts(int fd, uint64_t *ret_received, uint64_t *ret_acked)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
        return false;
    }
    *ret_received = info.tcpi_bytes_received;
    *ret_acked = info.tcpi_bytes_acked;
    return true;
}

static uint64_t cpu_time(const struct rg_connection *connection)
{
    clockid_t clock = atomic_load(&connection->cpu_clock);
    struct timespec used;
    if (clock == 0 || clock_gettime(clock, &used) != 0) {
        return 0;
    }
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* Whether the thread has been computing for a good part of the time since the last look, although
 * nothing moved. */
static bool is_spinning(struct rg_connection *connection, uint64_t now_ns)
{
    bool quiet = connection->moved_ns != now_ns &&
                 atomic_load(&connection->waits) == RG_CONNECTION_WAITS_CLIENT;
    uint64_t cpu_ns = quiet ? cpu_time(connection) : 0;
    uint64_t elapsed_ns = now_ns - connection->watched_ns;
    bool spins = cpu_ns && connection->cpu_ns && elapsed_ns >= SPIN_NS &&
                 cpu_ns - connection->cpu_ns > elapsed_ns / 4;
    if (!cpu_ns || !connection->cpu_ns || elapsed_ns >= SPIN_NS) {
        connection->cpu_ns = cpu_ns;
        connection->watched_ns = now_ns;
    }
    return spins;
}

/* The time since which the connection owes its next byte; brings its counts up to date. */
static uint64_t idle_since(struct rg_connection *connection, uint64_t now_ns)
{
    uint64_t received = 0;
    uint64_t acked = 0;
    int waits = atomic_load(&connection->waits);
    bool counted = read_counts(connection->fd, &received, &acked);
    if (waits == RG_CONNECTION_WAITS_WORKER || !counted) {
        connection->moved_ns = now_ns;
        connection->head_ns = 0;
        return now_ns;
    }
    if (received + acked != connection->moved) {
        connection->moved = received + acked;
        connection->moved_ns = now_ns;
    }
    if (waits != RG_CONNECTION_WAITS_HEAD) {
        connection->head_ns = 0;
    } else if (received != connection->received && connection->head_ns == 0) {
        connection->head_ns = now_ns;
    }
    connection->received = received;
    /* A head that trickles in is measured from its first byte. */
    return connection->head_ns ? connection->head_ns : connection->moved_ns;
}

unsigned rg_connections_close_idle(struct rg_connections *all, unsigned idle_ms)
{
    unsigned closed = 0;
    uint64_t idle_ns = (uint64_t)idle_ms * 1000000u;
    RG_MUST(pthread_mutex_lock(&all->lock));
    for (struct rg_connection *at = all->first; at; at = at->next) {
        uint64_t now_ns = rg_clock_ns();
        bool idle = now_ns - idle_since(at, now_ns) >= idle_ns;
        bool spins = is_spinning(at, now_ns);
        if ((!idle && !spins) || atomic_load(&at->idle_closed)) {
            continue;
        }
        atomic_store(&at->idle_closed, true);
        shutdown(at->fd, SHUT_RDWR);
        closed++;
    }
    RG_MUST(pthread_mutex_unlock(&all->lock));
    return closed;
}

void rg_connections_rescue(struct rg_connections *all,
                           void (*rescue)(struct rg_connection *connection))
{
    RG_MUST(pthread_mutex_lock(&all->lock));
    for (struct rg_connection *at = all->first; at; at = at->next) {
        RG_MUST(pthread_mutex_lock(&at->lock));
        if (at->exchange && rg_exchange_hangs_here(at->exchange)) {
            rescue(at);
        }
        RG_MUST(pthread_mutex_unlock(&at->lock));
    }
    RG_MUST(pthread_mutex_unlock(&all->lock));
}

bool rg_connections_are_held(struct rg_connections *all)
{
    bool held = false;
    RG_MUST(pthread_mutex_lock(&all->lock));
    for (struct rg_connection *at = all->first; at && !held; at = at->next) {
        RG_MUST(pthread_mutex_lock(&at->lock));
        held = at->exchange && rg_exchange_is_held(at->exchange);
        RG_MUST(pthread_mutex_unlock(&at->lock));
    }
    RG_MUST(pthread_mutex_unlock(&all->lock));
    return held;
}

void rg_connections_abort(struct rg_connections *all)
{
    RG_MUST(pthread_mutex_lock(&all->lock));
    for (struct rg_connection *at = all->first; at; at = at->next) {
        RG_MUST(pthread_mutex_lock(&at->lock));
        if (at->exchange) {
            rg_exchange_abort(at->exchange);
        }
        RG_MUST(pthread_mutex_unlock(&at->lock));
    }
    RG_MUST(pthread_mutex_unlock(&all->lock));
}

void rg_connection_set_exchange(struct rg_connection *connection, struct rg_exchange *exchange)
{
    RG_MUST(pthread_mutex_lock(&connection->lock));
    connection->exchange = exchange;
    RG_MUST(pthread_mutex_unlock(&connection->lock));
}

uint64_t rg_connection_acked(const struct rg_connection *connection)
{
    uint64_t received = 0;
    uint64_t acked = 0;
    return read_counts(connection->fd, &received, &acked) ? acked : 0;
}
