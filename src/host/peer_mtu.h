/*
 * The largest packet that arrives: datagrams that must not be fragmented, and a short answer to
 * each that gets through.
 */
#ifndef RG_HOST_PEER_MTU_H
#define RG_HOST_PEER_MTU_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Answers on UDP, from a thread of its own. An answer is never longer than the question, so nobody
 * can use it to flood others. */
struct rg_mtu_echo;
int rg_mtu_echo_start(const char *address, uint16_t port, struct rg_mtu_echo **ret_echo,
                      struct rg_error *err);
void rg_mtu_echo_stop(struct rg_mtu_echo *echo); /* NULL is allowed */
void rg_mtu_echo_cleanup(struct rg_mtu_echo **echo);

struct rg_mtu_result {
    unsigned largest; /* bytes of an IP packet that arrived */
};

/* Asks the peer of the TCP connection `fd`, on the same port. False when nothing is answered. */
bool rg_mtu_probe(int fd, unsigned own_mtu, struct rg_mtu_result *ret_result);

#endif
