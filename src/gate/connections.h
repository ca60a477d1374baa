/*
 * The open connections of one HTTP server, and the watch over those where nothing moves. The kernel
 * counts the bytes (TCP_INFO), so that the watch needs no word from whoever moves them, sees bytes
 * that only wait in a socket, and works below TLS.
 */
#ifndef RG_GATE_CONNECTIONS_H
#define RG_GATE_CONNECTIONS_H

#include "gate/exchange.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* What a connection waits for. */
enum rg_connection_wait {
    RG_CONNECTION_WAITS_HEAD,   /* the client: a request, or the rest of its head */
    RG_CONNECTION_WAITS_CLIENT, /* the client: its body, or that it takes the answer */
    RG_CONNECTION_WAITS_WORKER, /* us: then the client is not to blame */
};

/* Where the request of a connection stands. */
enum rg_connection_step {
    RG_STEP_HEAD,
    RG_STEP_COLLECT, /* the body is small, or none: a worker is asked for when it is there */
    RG_STEP_PASS,    /* the body goes to the worker as it comes */
    RG_STEP_DISCARD, /* the body goes nowhere: the answer is known, or will not depend on it */
    RG_STEP_ANSWERED,
};

struct rg_connection {
    struct rg_connections *all;
    struct rg_connection *next;
    struct rg_connection *previous;
    void *server;
    int fd;
    bool is_tls;
    bool is_over; /* one of more than are served: told so, and closed */
    const char *tls_version;
    const char *tls_cipher;
    void *tls_session;
    char peer[64];
    char local[64]; /* address of ours */

    _Atomic int waits;
    _Atomic bool idle_closed;
    _Atomic clockid_t cpu_clock; /* of the connection's thread; 0: not known yet */

    /* The watch's. */
    uint64_t moved;    /* bytes, both ways, when last looked at */
    uint64_t received; /* bytes from the client, likewise */
    uint64_t moved_ns;
    uint64_t head_ns; /* when the head began to arrive; 0: not yet */
    uint64_t watched_ns;
    uint64_t cpu_ns; /* of the thread, while nothing moved; 0: not looked at */

    /* The connection thread's. */
    struct rg_buf target; /* of the request, raw */
    enum rg_connection_step step;
    bool begun;    /* counted among the requests in progress */
    bool early;    /* answered with some of the body unread */
    bool queued;   /* the answer is on its way */
    bool raw_sent; /* the answer was sent past the HTTP library */
    struct rg_reply *answer;
    uint64_t body_bytes;
    uint64_t discarded;
    uint64_t streamed;
    uint64_t acked; /* bytes the peer had acknowledged when the answer was queued */
    uint64_t answered_ns;

    pthread_mutex_t lock; /* guards `exchange` against the threads of the three functions below;
                             while its handler hangs here, all else too */
    struct rg_exchange *exchange;
    struct rg_exchange *spare;
};

struct rg_connections {
    pthread_mutex_t lock;
    struct rg_connection *first;
    _Atomic unsigned count;
};

void rg_connections_init(struct rg_connections *all);
void rg_connections_destroy(struct rg_connections *all);

/* NULL when out of memory. */
struct rg_connection *rg_connections_add(struct rg_connections *all, int fd,
                                         const struct sockaddr *address, socklen_t address_len);
void rg_connections_remove(struct rg_connection *connection);

/*
 * Shuts down the sockets of connections that have been idle for `idle_ms`; returns how many. Also
 * of those that burn a processor while nothing moves: the HTTP library does so when a file ends
 * before the length that was promised. Call it regularly.
 */
unsigned rg_connections_close_idle(struct rg_connections *all, unsigned idle_ms);

/* Calls `rescue` for each connection whose handler runs and hangs on its own thread, with the
 * connection's lock held. */
void rg_connections_rescue(struct rg_connections *all,
                           void (*rescue)(struct rg_connection *connection));

/* Whether a handler holds its request (rg_http_hold). */
bool rg_connections_are_held(struct rg_connections *all);

/* Ends every wait for a worker. */
void rg_connections_abort(struct rg_connections *all);

/* The request in progress, for rg_connections_abort; NULL for none. */
void rg_connection_set_exchange(struct rg_connection *connection, struct rg_exchange *exchange);

/* Bytes of ours that the peer has acknowledged so far. */
uint64_t rg_connection_acked(const struct rg_connection *connection);

#endif
