/* Addresses of libfabric providers over IP. See ofi_address.h. */
#include "rdma/ofi_address.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/span.h"
#include "rdma/nic.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define MAPPED_BITS        96 /* before an IPv4 address */
#define LOOPBACK_BITS      8  /* 127.0.0.0/8, whichever of them the interface lists */
#define LOOPBACK_FIRST_OCT 127

bool rg_ofi_is_over_ip(const char *provider)
{
    static const char *const names[] = {"", "tcp", "sockets", "udp", "net", "verbs"};
    struct span rest = rg_span_text(provider);
    struct span core = rg_span_cut(&rest, ';');
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_span_is(core, names[i])) {
            return true;
        }
    }
    return false;
}

static void map_ipv4(const void *address, uint8_t ret_gid[16])
{
    memset(ret_gid, 0, 10);
    ret_gid[10] = ret_gid[11] = 0xff;
    memcpy(ret_gid + 12, address, 4);
}

/* A socket address as the peer's machine lays it out, which is how ours does. */
static bool endpoint_gid(const struct rg_rdma_window *window, uint8_t ret_gid[16])
{
    sa_family_t family;
    if (!rg_ofi_is_over_ip(window->provider) || window->endpoint_len < sizeof family) {
        return false;
    }
    memcpy(&family, window->endpoint, sizeof family);
    if (family == AF_INET && window->endpoint_len >= sizeof(struct sockaddr_in)) {
        map_ipv4(window->endpoint + offsetof(struct sockaddr_in, sin_addr), ret_gid);
        return true;
    }
    if (family == AF_INET6 && window->endpoint_len >= sizeof(struct sockaddr_in6)) {
        memcpy(ret_gid, window->endpoint + offsetof(struct sockaddr_in6, sin6_addr), 16);
        return true;
    }
    return false;
}

bool rg_window_peer(const struct rg_rdma_window *window, uint8_t ret_gid[16])
{
    if (window->has_gid) {
        memcpy(ret_gid, window->gid, sizeof window->gid);
        return true;
    }
    return window->transport == RG_TRANSPORT_OFI && endpoint_gid(window, ret_gid);
}

bool rg_ofi_address_gid(const char *address, uint8_t ret_gid[16], unsigned *ret_subnet_bits)
{
    uint8_t ipv4[4];
    if (inet_pton(AF_INET, address, ipv4) == 1) {
        unsigned bits =
            ipv4[0] == LOOPBACK_FIRST_OCT ? LOOPBACK_BITS : rg_nic_kernel.subnet_bits(address);
        map_ipv4(ipv4, ret_gid);
        *ret_subnet_bits = bits ? MAPPED_BITS + bits : 0;
        return true;
    }
    if (inet_pton(AF_INET6, address, ret_gid) == 1) {
        *ret_subnet_bits = rg_nic_kernel.subnet_bits(address);
        return true;
    }
    return false;
}
