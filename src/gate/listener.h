/*
 * A listening TCP socket.
 */
#ifndef RG_GATE_LISTENER_H
#define RG_GATE_LISTENER_H

#include "base/error.h"

#include <stdint.h>

/*
 * Listens on `address` (a numeric address or host name; empty: all, IPv4 and IPv6, or IPv4 alone
 * where the kernel has no IPv6) and `port` (0: the kernel chooses; *ret_port says which). The
 * socket does not block. RG_SETTING when the address cannot be had, with the reason;
 * RG_SERVICE_UNAVAILABLE when another program has the port.
 */
int rg_listener_open(const char *address, uint16_t port, int *ret_fd, uint16_t *ret_port,
                     struct rg_error *err);

#endif
