#include "host/ethtool.h"

#include "base/attr.h"
#include "host/json.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define STRINGS_MAX 8192

static int ask(int fd, const char *netdev, void *request)
{
    struct ifreq ifreq = {.ifr_data = request};
    if (strlen(netdev) >= sizeof ifreq.ifr_name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(ifreq.ifr_name, netdev, strlen(netdev) + 1);
    return ioctl(fd, SIOCETHTOOL, &ifreq);
}

static json_t *ask_pause(int fd, const char *netdev)
{
    struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};
    if (ask(fd, netdev, &pause) < 0) {
        return NULL;
    }
    return json_pack("{s:b, s:b}", "rx", pause.rx_pause != 0, "tx", pause.tx_pause != 0);
}

static unsigned count_strings(int fd, const char *netdev, unsigned set)
{
    /* The answer of one set is one number, behind the header. */
    union {
        struct ethtool_sset_info info;
        uint32_t words[sizeof(struct ethtool_sset_info) / sizeof(uint32_t) + 1];
    } request = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << set}};
    if (ask(fd, netdev, &request) < 0 || request.info.sset_mask == 0) {
        return 0;
    }
    uint32_t count = request.words[sizeof(struct ethtool_sset_info) / sizeof(uint32_t)];
    return count <= STRINGS_MAX ? count : 0;
}

/* Names of a string set; the caller frees. NULL when there is none. */
static struct ethtool_gstrings *ask_strings(int fd, const char *netdev, unsigned set)
{
    unsigned count = count_strings(fd, netdev, set);
    /* One more than asked: a driver that grew its set since writes no further than len. */
    struct ethtool_gstrings *strings =
        count ? calloc(1, sizeof *strings + (size_t)(count + 1) * ETH_GSTRING_LEN) : NULL;
    if (!strings) {
        return NULL;
    }
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = set;
    strings->len = count;
    if (ask(fd, netdev, strings) < 0 || strings->len > count) {
        free(strings);
        return NULL;
    }
    return strings;
}

static void copy_name(const struct ethtool_gstrings *strings, unsigned i,
                      char ret_name[ETH_GSTRING_LEN + 1])
{
    memcpy(ret_name, strings->data + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
    ret_name[ETH_GSTRING_LEN] = 0;
}

static json_t *ask_flags(int fd, const char *netdev)
{
    rg_autofree struct ethtool_gstrings *strings = ask_strings(fd, netdev, ETH_SS_PRIV_FLAGS);
    struct ethtool_value value = {.cmd = ETHTOOL_GPFLAGS};
    if (!strings || ask(fd, netdev, &value) < 0) {
        return NULL;
    }
    json_t *flags = json_object();
    for (unsigned i = 0; i < strings->len && i < 32; i++) {
        char name[ETH_GSTRING_LEN + 1];
        copy_name(strings, i, name);
        (void)json_object_set_new(flags, name, json_boolean(value.data >> i & 1));
    }
    return flags;
}

int rg_host_tell_ethtool(void *netdev, int fd)
{
    rg_autoclose int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_fd < 0) {
        return errno;
    }
    json_t *pause = ask_pause(socket_fd, netdev);
    json_t *flags = ask_flags(socket_fd, netdev);
    if (!pause && !flags) {
        return EOPNOTSUPP;
    }
    return rg_host_tell_json(json_pack("{s:o*, s:o*}", "pause", pause, "flags", flags), fd);
}

/* ---- Statistics ---- */

/* Fast cards have thousands, most of them of single queues, which accuse nobody. */
bool rg_host_ethtool_matters(const char *name)
{
    static const char *const parts[] = {"pause", "prio", "pfc",  "discard",
                                        "cnp",   "ecn",  "icrc", "storm"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(parts); i++) {
        if (strstr(name, parts[i])) {
            return true;
        }
    }
    return false;
}

int rg_host_tell_ethtool_stats(void *netdev, int fd)
{
    rg_autoclose int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_fd < 0) {
        return errno;
    }
    rg_autofree struct ethtool_gstrings *strings = ask_strings(socket_fd, netdev, ETH_SS_STATS);
    if (!strings) {
        return EOPNOTSUPP;
    }
    rg_autofree struct ethtool_stats *stats =
        calloc(1, sizeof *stats + (size_t)(strings->len + 1) * sizeof(uint64_t));
    if (!stats) {
        return ENOMEM;
    }
    stats->cmd = ETHTOOL_GSTATS;
    stats->n_stats = strings->len;
    if (ask(socket_fd, netdev, stats) < 0) {
        return errno;
    }
    json_t *object = json_object();
    for (unsigned i = 0; i < strings->len && i < stats->n_stats; i++) {
        char name[ETH_GSTRING_LEN + 1];
        copy_name(strings, i, name);
        if (rg_host_ethtool_matters(name)) {
            (void)json_object_set_new(object, name,
                                      json_integer((json_int_t)(stats->data[i] & INT64_MAX)));
        }
    }
    return rg_host_tell_json(object, fd);
}
