/*
 * Facts about NICs from the running kernel. See nic.h. It reads and never decides.
 */
#include "rdma/nic.h"

#include "base/attr.h"
#include "base/span.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 512

/* A VLAN on a bond on two ports is three deep. */
#define LOWER_DEPTH_MAX 4

/* First line of a small file, without its end; false when it cannot be read. */
static bool read_line(const char *path, char *ret_line, size_t room)
{
    rg_autofclose FILE *file = fopen(path, "re");
    if (!file || !fgets(ret_line, (int)room, file)) {
        return false;
    }
    ret_line[strcspn(ret_line, "\n")] = 0;
    return true;
}

enum rg_gid_type rg_nic_gid_type(const char *text, bool is_ethernet)
{
    if (strcmp(text, "RoCE v2") == 0) {
        return RG_GID_ROCE_V2;
    }
    return is_ethernet ? RG_GID_ROCE_V1 : RG_GID_INFINIBAND;
}

static enum rg_gid_type read_gid_type(const char *device, uint8_t port, int index, bool is_ethernet)
{
    char path[PATH_BYTES];
    char text[64];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%d", device,
             port, index);
    if (!read_line(path, text, sizeof text)) {
        return RG_GID_UNKNOWN;
    }
    return rg_nic_gid_type(text, is_ethernet);
}

static bool read_gid_netdev(const char *device, uint8_t port, int index, char ret_netdev[IFNAMSIZ])
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%d", device,
             port, index);
    return read_line(path, ret_netdev, IFNAMSIZ) && ret_netdev[0];
}

/* ---- Which interface has an address, and which port is behind it ---- */

static bool is_address(const struct sockaddr *socket_address, const char *address)
{
    unsigned char wanted[16];
    if (!socket_address) {
        return false;
    }
    if (socket_address->sa_family == AF_INET && inet_pton(AF_INET, address, wanted) == 1) {
        const struct sockaddr_in *in = (const void *)socket_address;
        return memcmp(&in->sin_addr, wanted, sizeof in->sin_addr) == 0;
    }
    if (socket_address->sa_family == AF_INET6 && inet_pton(AF_INET6, address, wanted) == 1) {
        const struct sockaddr_in6 *in6 = (const void *)socket_address;
        return memcmp(&in6->sin6_addr, wanted, sizeof in6->sin6_addr) == 0;
    }
    return false;
}

static void cleanup_ifaddrs(struct ifaddrs **list)
{
    if (*list) {
        freeifaddrs(*list);
    }
}

static bool find_netdev(const char *address, char ret_netdev[IFNAMSIZ])
{
    RG_CLEANUP(cleanup_ifaddrs) struct ifaddrs *list = NULL;
    if (getifaddrs(&list) < 0) {
        list = NULL;
        return false;
    }
    for (const struct ifaddrs *item = list; item; item = item->ifa_next) {
        if (is_address(item->ifa_addr, address)) {
            snprintf(ret_netdev, IFNAMSIZ, "%s", item->ifa_name);
            return true;
        }
    }
    return false;
}

static unsigned count_bits(const struct sockaddr *netmask)
{
    const struct sockaddr_in *in = (const void *)netmask;
    const struct sockaddr_in6 *in6 = (const void *)netmask;
    unsigned bits = 0;
    if (!netmask) {
        return 0;
    }
    if (netmask->sa_family == AF_INET) {
        return (unsigned)__builtin_popcount(in->sin_addr.s_addr);
    }
    for (size_t i = 0; netmask->sa_family == AF_INET6 && i < sizeof in6->sin6_addr; i++) {
        bits += (unsigned)__builtin_popcount(in6->sin6_addr.s6_addr[i]);
    }
    return bits;
}

static unsigned subnet_bits(const char *address)
{
    RG_CLEANUP(cleanup_ifaddrs) struct ifaddrs *list = NULL;
    if (getifaddrs(&list) < 0) {
        list = NULL;
        return 0;
    }
    for (const struct ifaddrs *item = list; item; item = item->ifa_next) {
        if (is_address(item->ifa_addr, address)) {
            return count_bits(item->ifa_netmask);
        }
    }
    return 0;
}

/* An IPoIB interface and its port's device share one parent in sysfs; dev_port counts from 0. */
static bool sits_on(const char *netdev, const char *device, uint8_t port)
{
    char path[PATH_BYTES];
    char text[32];
    unsigned index = 0;
    snprintf(path, sizeof path, "/sys/class/net/%s/device/infiniband/%s", netdev, device);
    if (access(path, F_OK) < 0) {
        return false;
    }
    snprintf(path, sizeof path, "/sys/class/net/%s/dev_port", netdev);
    return read_line(path, text, sizeof text) && sscanf(text, "%u", &index) == 1 &&
           index + 1 == port;
}

static bool port_has_address(const char *device, uint8_t port, const char *address)
{
    char netdev[IFNAMSIZ];
    return find_netdev(address, netdev) && sits_on(netdev, device, port);
}

/* ---- DCB of an interface or of what is below it ---- */

/* The first interface below a VLAN, bond or bridge. */
static bool find_lower(const char *netdev, char ret_lower[IFNAMSIZ])
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/sys/class/net/%s", netdev);
    rg_autoclosedir DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        struct span name = rg_span_text(entry->d_name);
        struct span lower = rg_span_skip(name, strlen("lower_"));
        if (rg_span_starts(name, RG_SPAN_LITERAL("lower_")) && lower.len < IFNAMSIZ) {
            snprintf(ret_lower, IFNAMSIZ, "%.*s", RG_SPAN_ARG(lower));
            return true;
        }
    }
    return false;
}

static int read_dcb(const char *netdev, struct rg_dcb *ret_dcb, struct rg_error *err)
{
    char name[IFNAMSIZ];
    snprintf(name, sizeof name, "%s", netdev);
    for (int depth = 0;; depth++) {
        int rc = rg_dcb_read(name, ret_dcb, err);
        char lower[IFNAMSIZ];
        if (rc < 0 || ret_dcb->known || depth == LOWER_DEPTH_MAX || !find_lower(name, lower)) {
            return rc;
        }
        memcpy(name, lower, sizeof name);
    }
}

const struct rg_nic_facts rg_nic_kernel = {
    .gid_type = read_gid_type,
    .gid_netdev = read_gid_netdev,
    .port_has_address = port_has_address,
    .subnet_bits = subnet_bits,
    .dcb = read_dcb,
};
