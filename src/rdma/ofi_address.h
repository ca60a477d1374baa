/*
 * What the addresses of libfabric providers over IP are, in the words in which rails are chosen:
 * GIDs, an IPv4 address as ::ffff:a.b.c.d. Pure but for the subnet of an interface; no type of
 * libfabric appears here, and the library is not needed.
 */
#ifndef RG_RDMA_OFI_ADDRESS_H
#define RG_RDMA_OFI_ADDRESS_H

#include "rdma/token.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether the endpoints of this provider ("tcp", "tcp;ofi_rxm", "verbs;ofi_rxm") have IP addresses;
 * "" is tcp. */
bool rg_ofi_is_over_ip(const char *provider);

/*
 * The address of whoever minted the window: its GID, or the IP address in its endpoint name, which
 * comes from the peer and is not believed to be more than a hint. False when it has neither;
 * *ret_gid is set only on true.
 */
bool rg_window_peer(const struct rg_rdma_window *window, uint8_t ret_gid[16]);

/* The GID of a numeric address, and how many of its leading bits are its subnet: 0 when no
 * interface has the address. False, with nothing set, when it is no address. */
bool rg_ofi_address_gid(const char *address, uint8_t ret_gid[16], unsigned *ret_subnet_bits);

#endif
