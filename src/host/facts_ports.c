/*
 * Reads ports, GIDs and addresses. See facts_ports.h. It decides nothing.
 */
#include "host/facts_ports.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/encode.h"
#include "host/facts.h"
#include "host/filtered.h"
#include "host/json.h"
#include "host/words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#define DOCUMENT_BYTES   ((size_t)256 << 10)
#define PROBE_MS         2000
#define PORTS_PER_DEVICE 8
#define GID_INDEXES      256

/* ---- GIDs ---- */

bool rg_host_parse_gid(const char *text, uint8_t ret_gid[16])
{
    if (strlen(text) != 39) {
        return false;
    }
    for (size_t i = 0; i < 8; i++) {
        const char *group = text + 5 * i;
        if (!rg_hex_decode(rg_span(group, 4), ret_gid + 2 * i, 2) ||
            group[4] != (i == 7 ? 0 : ':')) {
            return false;
        }
    }
    return true;
}

static void read_gid(struct rg_source *source, const char *base, const char *index,
                     struct rg_host_port *port)
{
    struct rg_text text;
    struct rg_gid_entry entry = {0};
    int64_t number;
    rg_source_text(source, &text, "%s/gids/%s", base, index);
    if (!rg_reading_ok(&text.at) || !rg_host_parse_gid(text.text, entry.gid) ||
        rg_gid_scope(entry.gid) == RG_GID_ZERO || !rg_host_parse_number(index, &number) ||
        number < 0 || number > 65535) {
        return;
    }
    if (port->gid_count == RG_HOST_GIDS_MAX) {
        port->gids_truncated = true;
        return;
    }
    entry.index = (int)number;
    rg_source_text(source, &text, "%s/gid_attrs/types/%s", base, index);
    entry.type = rg_reading_ok(&text.at)
                     ? rg_nic_gid_type(text.text, rg_host_port_is_ethernet(port))
                     : RG_GID_UNKNOWN;
    rg_source_text(source, &text, "%s/gid_attrs/ndevs/%s", base, index);
    if (rg_reading_ok(&text.at) && strlen(text.text) < IFNAMSIZ) {
        memcpy(entry.netdev, text.text, strlen(text.text) + 1);
    }
    port->gids[port->gid_count++] = entry;
}

static void read_gids(struct rg_source *source, const char *base, struct rg_host_port *port)
{
    RG_CLEANUP(rg_names_free) struct rg_names names;
    rg_source_list(source, &names, "%s/gids", base);
    port->gids_at = names.at;
    /* An address handle holds the index in a byte; soft-RoCE has a thousand. */
    for (size_t i = 0; i < RG_MIN(names.count, (size_t)GID_INDEXES); i++) {
        read_gid(source, base, names.name[i], port);
    }
}

const struct rg_gid_entry *rg_host_port_gid(const struct rg_host_port *port)
{
    struct rg_gid_table table = {.entries = port->gids, .count = port->gid_count};
    return rg_gid_choose(&table, rg_host_port_is_ethernet(port), NULL);
}

/* ---- Ports ---- */

bool rg_host_port_is_ethernet(const struct rg_host_port *port)
{
    return strcmp(port->link_layer.text, "Ethernet") == 0;
}

bool rg_host_port_is_active(const struct rg_host_port *port)
{
    return port->state.text[0] == '4';
}

const struct rg_survey_port *rg_host_port_survey(const struct rg_host_devices *devices,
                                                 const struct rg_host_port *port)
{
    const struct rg_rdma_device *device = &devices->rdma[port->device];
    for (size_t i = 0; i < device->port_count; i++) {
        if (device->ports[i].number == port->number) {
            return &device->ports[i];
        }
    }
    return NULL;
}

/* InfiniBand: the interface of the same function whose dev_port counts to this port. */
static void find_netdev(const struct rg_host_devices *devices, struct rg_host_port *port)
{
    const struct rg_rdma_device *device = &devices->rdma[port->device];
    const struct rg_gid_entry *gid = rg_host_port_gid(port);
    if (gid && gid->netdev[0]) {
        memcpy(port->netdev, gid->netdev, sizeof port->netdev);
        return;
    }
    if (rg_reading_ok(&device->parent.at) && strlen(device->parent.text) < IFNAMSIZ) {
        memcpy(port->netdev, device->parent.text, strlen(device->parent.text) + 1);
        return;
    }
    for (size_t i = 0; device->pci.text[0] && i < devices->netdev_count; i++) {
        const struct rg_netdev *netdev = &devices->netdevs[i];
        if (strcmp(netdev->pci.text, device->pci.text) == 0 &&
            netdev->dev_port.value == (int64_t)port->number - 1) {
            memcpy(port->netdev, netdev->name, sizeof port->netdev);
            return;
        }
    }
}

static void read_port(struct rg_source *source, struct rg_host_facts *facts, size_t device,
                      const char *name)
{
    struct rg_host_ports *ports = &facts->ports;
    const char *device_name = facts->devices.rdma[device].name;
    int64_t number;
    char base[RG_HOST_PATH_MAX + 1];
    if (!rg_host_parse_number(name, &number) || number < 1 || number > 65535) {
        return;
    }
    if (ports->count == RG_HOST_PORTS_MAX) {
        ports->truncated = true;
        return;
    }
    struct rg_host_port *port = &ports->list[ports->count++];
    port->device = device;
    port->number = (unsigned)number;
    snprintf(port->subject, sizeof port->subject, "%s/%u", device_name, port->number);
    snprintf(base, sizeof base, "/sys/class/infiniband/%s/ports/%s", device_name, name);
    rg_source_text(source, &port->state, "%s/state", base);
    rg_source_text(source, &port->phys_state, "%s/phys_state", base);
    rg_source_text(source, &port->rate, "%s/rate", base);
    rg_source_text(source, &port->link_layer, "%s/link_layer", base);
    rg_source_number(source, &port->lid, "%s/lid", base);
    rg_source_number(source, &port->sm_lid, "%s/sm_lid", base);
    read_gids(source, base, port);
    find_netdev(&facts->devices, port);
    const char *configfs = "/sys/kernel/config/rdma_cm";
    rg_source_text(source, &port->cma_mode, "%s/%s/ports/%s/default_roce_mode", configfs,
                   device_name, name);
    rg_source_number(source, &port->cma_tos, "%s/%s/ports/%s/default_roce_tos", configfs,
                     device_name, name);
}

static void read_all_ports(struct rg_source *source, struct rg_host_facts *facts)
{
    for (size_t i = 0; i < facts->devices.rdma_count; i++) {
        RG_CLEANUP(rg_names_free) struct rg_names names;
        rg_source_list(source, &names, "/sys/class/infiniband/%s/ports",
                       facts->devices.rdma[i].name);
        facts->ports.truncated |= names.count > PORTS_PER_DEVICE;
        for (size_t k = 0; k < RG_MIN(names.count, (size_t)PORTS_PER_DEVICE); k++) {
            read_port(source, facts, i, names.name[k]);
        }
    }
}

/* ---- Addresses ---- */

static unsigned count_bits(const struct sockaddr *mask, size_t offset, size_t bytes)
{
    unsigned bits = 0;
    for (size_t i = 0; mask && i < bytes; i++) {
        bits += (unsigned)__builtin_popcount(((const uint8_t *)mask)[offset + i]);
    }
    return bits;
}

static void tell_address(const struct ifaddrs *item, json_t *list)
{
    char text[INET6_ADDRSTRLEN];
    unsigned prefix;
    if (!item->ifa_addr) {
        return;
    }
    if (item->ifa_addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)item->ifa_addr;
        (void)inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        prefix = count_bits(item->ifa_netmask, offsetof(struct sockaddr_in, sin_addr), 4);
    } else if (item->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)item->ifa_addr;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
        prefix = count_bits(item->ifa_netmask, offsetof(struct sockaddr_in6, sin6_addr), 16);
    } else {
        return;
    }
    (void)json_array_append_new(list, json_pack("{s:s, s:s, s:i}", "netdev", item->ifa_name,
                                                "address", text, "prefix", prefix));
}

static int tell_addresses(void *argument, int fd)
{
    (void)argument;
    struct ifaddrs *items = NULL;
    if (getifaddrs(&items) < 0) {
        return errno;
    }
    json_t *list = json_array();
    for (const struct ifaddrs *item = items; item; item = item->ifa_next) {
        tell_address(item, list);
    }
    freeifaddrs(items);
    return rg_host_tell_json(list, fd);
}

static void take_address(const json_t *from, struct rg_host_ports *ports)
{
    const char *netdev = json_string_value(json_object_get(from, "netdev"));
    const char *text = json_string_value(json_object_get(from, "address"));
    json_int_t prefix = json_integer_value(json_object_get(from, "prefix"));
    uint8_t bytes[16];
    if (!netdev || !text || strlen(netdev) >= IFNAMSIZ || strlen(text) > RG_GID_TEXT_MAX) {
        return;
    }
    bool is_ipv4 = inet_pton(AF_INET, text, bytes) == 1;
    if ((!is_ipv4 && inet_pton(AF_INET6, text, bytes) != 1) || prefix < 0 ||
        prefix > (is_ipv4 ? 32 : 128)) {
        return;
    }
    if (ports->address_count == RG_HOST_ADDRESSES_MAX) {
        ports->truncated = true;
        return;
    }
    struct rg_address *address = &ports->addresses[ports->address_count++];
    *address = (struct rg_address){.is_ipv4 = is_ipv4, .prefix = (unsigned)prefix};
    memcpy(address->netdev, netdev, strlen(netdev) + 1);
    memcpy(address->text, text, strlen(text) + 1);
}

bool rg_host_parse_addresses(struct span json, struct rg_host_ports *ports)
{
    RG_CLEANUP(rg_host_json_free) json_t *document = json_loadb(json.ptr, json.len, 0, NULL);
    if (!json_is_array(document)) {
        return false;
    }
    size_t index;
    const json_t *item;
    json_array_foreach(document, index, item)
    {
        take_address(item, ports);
    }
    return true;
}

static void read_addresses(struct rg_source *source, struct rg_host_ports *ports)
{
    RG_BUF(text, DOCUMENT_BYTES);
    rg_source_probe(source, "netlink/addresses.json", "netlink RTM_GETADDR", tell_addresses, NULL,
                    PROBE_MS, &text, &ports->addresses_at);
    if (rg_reading_ok(&ports->addresses_at) &&
        !rg_host_parse_addresses(rg_buf_span(&text), ports)) {
        ports->addresses_at.state = RG_READ_MALFORMED;
    }
}

static void read_arp(struct rg_source *source, const char *netdev, struct rg_arp_settings *arp)
{
    const char *base = "/proc/sys/net/ipv4/conf";
    rg_source_number(source, &arp->rp_filter, "%s/%s/rp_filter", base, netdev);
    rg_source_number(source, &arp->arp_ignore, "%s/%s/arp_ignore", base, netdev);
    rg_source_number(source, &arp->arp_announce, "%s/%s/arp_announce", base, netdev);
}

static bool hexadecimal(struct span digits, uint64_t *ret_number)
{
    char text[20];
    int len = snprintf(text, sizeof text, "0x%.*s", RG_SPAN_ARG(digits));
    return len > 2 && (size_t)len < sizeof text && rg_words_number(rg_span_text(text), ret_number);
}

bool rg_neighbours_parse(struct span text, struct rg_neighbours *ret_neighbours)
{
    struct rg_neighbours found = {0};
    struct span line, name, word, names;
    size_t rows = 0;
    if (!rg_words_line(&text, &names)) {
        return false;
    }
    while (rg_words_line(&text, &line)) {
        /* The number of entries stands in every row, overflows are of each CPU. */
        bool has_entries = false, has_overflows = false;
        for (struct span rest = names; rg_words_next(&rest, &name);) {
            uint64_t number;
            if (!rg_words_next(&line, &word) || !hexadecimal(word, &number)) {
                return false;
            }
            if (rg_span_is(name, "entries")) {
                found.entries = number;
                has_entries = true;
            } else if (rg_span_is(name, "table_fulls")) {
                found.overflows += number;
                has_overflows = true;
            }
        }
        if (!has_entries || !has_overflows) {
            return false;
        }
        rows++;
    }
    *ret_neighbours = found;
    return rows > 0;
}

static void read_neighbours(struct rg_source *source, struct rg_host_ports *ports)
{
    RG_BUF(text, DOCUMENT_BYTES);
    rg_source_number(source, &ports->gc_thresh3, "/proc/sys/net/ipv4/neigh/default/gc_thresh3");
    rg_source_read(source, &text, &ports->neighbours_at, "/proc/net/stat/arp_cache");
    if (rg_reading_ok(&ports->neighbours_at) &&
        !rg_neighbours_parse(rg_buf_span(&text), &ports->neighbours)) {
        ports->neighbours_at.state = RG_READ_MALFORMED;
    }
}

static void read_arps(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_ports *ports = &facts->ports;
    read_arp(source, "all", &ports->arp_all);
    for (size_t i = 0; i < facts->devices.netdev_count; i++) {
        for (size_t k = 0; k < ports->count; k++) {
            if (strcmp(ports->list[k].netdev, facts->devices.netdevs[i].name) == 0) {
                read_arp(source, ports->list[k].netdev, &ports->arp[i]);
                break;
            }
        }
    }
    read_neighbours(source, ports);
}

/* ---- GID indexes in files ---- */

static const char *const gid_names[] = {"NCCL_IB_GID_INDEX",       "NVSHMEM_IB_GID_INDEX",
                                        "MINIO_RDMA_GID_INDEX",    "UCX_IB_GID_INDEX",
                                        "RAILGATE_RDMA_GID_INDEX", "rdma-gid-index"};

void rg_host_parse_gid_settings(struct span content, const struct rg_reading *at,
                                struct rg_host_ports *ports)
{
    while (content.ptr) {
        struct span rest = rg_span_trim(rg_span_cut(&content, '\n'));
        if (rg_span_starts(rest, RG_SPAN_LITERAL("export "))) {
            rest = rg_span_trim(rg_span_skip(rest, strlen("export ")));
        }
        struct span name = rg_span_trim(rg_span_cut(&rest, '='));
        struct span value = rest.ptr ? rg_span_trim(rest) : RG_SPAN_EMPTY;
        uint64_t index;
        if (value.len >= 2 && (value.ptr[0] == '"' || value.ptr[0] == '\'')) {
            value = rg_span(value.ptr + 1, value.len - 2);
        }
        for (size_t i = 0; i < RG_ARRAY_LENGTH(gid_names); i++) {
            if (rg_span_is(name, gid_names[i]) && rg_span_to_u64(value, &index) && index <= 65535 &&
                ports->setting_count < RG_HOST_CHOICES_MAX) {
                struct rg_gid_setting *setting = &ports->settings[ports->setting_count++];
                snprintf(setting->name, sizeof setting->name, "%s", gid_names[i]);
                setting->index = (int64_t)index;
                setting->at = *at;
            }
        }
    }
}

/* The same files hold credentials. */
static bool names_gid_index(struct span line)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(gid_names); i++) {
        if (memmem(line.ptr, line.len, gid_names[i], strlen(gid_names[i]))) {
            return true;
        }
    }
    return false;
}

static void read_gid_settings(struct rg_source *source, struct rg_host_facts *facts)
{
    const char *const files[] = {"/etc/nccl.conf", "/etc/environment", "/etc/default/minio",
                                 "/etc/default/railgate", facts->plan.config};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(files); i++) {
        RG_BUF(text, 65536);
        struct rg_reading at;
        if (!files[i][0]) {
            continue;
        }
        char name[RG_HOST_PATH_MAX + 16];
        snprintf(name, sizeof name, "gid-index%s%s", files[i][0] == '/' ? "" : "/", files[i]);
        rg_filtered_read(source, name, files[i], names_gid_index, &text, &at);
        rg_host_parse_gid_settings(rg_buf_span(&text), &at, &facts->ports);
    }
}

/* ---- Firewall ---- */

static void read_firewall(struct rg_source *source, struct rg_host_ports *ports)
{
    static const char *const nft[] = {"nft", "list", "ruleset", NULL};
    static const char *const iptables[] = {"iptables-save", NULL};
    RG_BUF(text, DOCUMENT_BYTES);
    rg_source_command(source, "cmd/nft-list-ruleset", nft, PROBE_MS, &text, &ports->firewall_at);
    if (ports->firewall_at.state == RG_READ_MISSING) {
        rg_source_command(source, "cmd/iptables-save", iptables, PROBE_MS, &text,
                          &ports->firewall_at);
    }
    if (rg_reading_ok(&ports->firewall_at)) {
        rg_firewall_parse(rg_buf_span(&text), &ports->firewall);
        ports->firewall.cut |= ports->firewall_at.truncated;
    }
}

void rg_host_read_ports(struct rg_source *source, struct rg_host_facts *facts)
{
    read_all_ports(source, facts);
    read_addresses(source, &facts->ports);
    read_arps(source, facts);
    read_gid_settings(source, facts);
    read_firewall(source, &facts->ports);
}
