/*
 * Reads what surrounds RDMA devices and GPUs on the PCI bus. See facts_pcie.h.
 */
#include "host/facts.h"

#include "base/attr.h"
#include "host/words.h"

#include <stdio.h>
#include <string.h>

#define PCI          "/sys/bus/pci/devices"
#define CLASS_BRIDGE 0x0604
#define BRIDGES_MAX  512
#define CONFIG_MAX   4096
#define PORTS_MAX    2

struct bridge {
    char address[RG_PCI_ADDRESS_MAX + 1];
    unsigned domain, first, last; /* the buses behind it */
};

bool rg_host_is_gpu(int64_t vendor, int64_t class)
{
    int64_t base = class >> 16;
    /* Accelerators of others (FPGAs, for inference) have neither of the two makers' drivers. */
    return (base == 0x03 || base == 0x12) && (vendor == 0x10de || vendor == 0x1002);
}

bool rg_host_rate_parse(const char *text, uint64_t *ret_mbits)
{
    struct span rest = rg_span_text(text), number, unit, whole, part;
    uint64_t units, tenths = 0;
    if (!rg_words_next(&rest, &number) || !rg_words_next(&rest, &unit) ||
        !rg_span_is(unit, "Gb/sec")) {
        return false;
    }
    if (!rg_words_pair(number, '.', &whole, &part)) {
        whole = number;
    } else if (!rg_span_to_u64(rg_span_head(part, 1), &tenths)) {
        return false;
    }
    if (!rg_span_to_u64(whole, &units) || units > 1000000) {
        return false;
    }
    *ret_mbits = units * 1000 + tenths * 100;
    return true;
}

/* "0000:3b:00.0" as domain and bus. */
static bool parse_address(const char *address, unsigned *ret_domain, unsigned *ret_bus)
{
    char domain[7] = "0x", bus[5] = "0x";
    uint64_t number;
    if (!rg_pci_is_address(rg_span_text(address))) {
        return false;
    }
    memcpy(domain + 2, address, 4);
    memcpy(bus + 2, address + 5, 2);
    if (!rg_words_number(rg_span_text(domain), &number)) {
        return false;
    }
    *ret_domain = (unsigned)number;
    if (!rg_words_number(rg_span_text(bus), &number)) {
        return false;
    }
    *ret_bus = (unsigned)number;
    return true;
}

static size_t read_bridges(struct rg_source *source, struct rg_host_pcie *pcie,
                           struct bridge bridges[BRIDGES_MAX])
{
    RG_CLEANUP(rg_names_free) struct rg_names names = {0};
    size_t count = 0;
    rg_source_list(source, &names, PCI);
    pcie->buses_at = names.at;
    for (size_t i = 0; i < names.count; i++) {
        struct rg_number class, first, last;
        struct bridge *bridge = &bridges[count];
        unsigned bus;
        if (!parse_address(names.name[i], &bridge->domain, &bus)) {
            continue;
        }
        rg_source_number(source, &class, PCI "/%s/class", names.name[i]);
        if (!rg_reading_ok(&class.at) || class.value >> 8 != CLASS_BRIDGE) {
            continue;
        }
        rg_source_number(source, &first, PCI "/%s/secondary_bus_number", names.name[i]);
        rg_source_number(source, &last, PCI "/%s/subordinate_bus_number", names.name[i]);
        if (!rg_reading_ok(&first.at) || !rg_reading_ok(&last.at) || first.value < 0 ||
            last.value < first.value || last.value > 0xff) {
            continue;
        }
        if (count == BRIDGES_MAX) {
            pcie->cut = true;
            break;
        }
        bridge->first = (unsigned)first.value;
        bridge->last = (unsigned)last.value;
        snprintf(bridge->address, sizeof bridge->address, "%.15s", names.name[i]);
        count++;
    }
    return count;
}

static void read_hop(struct rg_source *source, struct rg_pci_hop *hop, const char *address)
{
    RG_BUF(config, CONFIG_MAX);
    snprintf(hop->address, sizeof hop->address, "%.15s", address);
    rg_source_text(source, &hop->speed, PCI "/%s/current_link_speed", address);
    rg_source_text(source, &hop->speed_max, PCI "/%s/max_link_speed", address);
    rg_source_number(source, &hop->width, PCI "/%s/current_link_width", address);
    rg_source_number(source, &hop->width_max, PCI "/%s/max_link_width", address);
    rg_source_read(source, &config, &hop->config_at, PCI "/%s/config", address);
    if (rg_reading_ok(&hop->config_at) &&
        !rg_pci_config_parse(rg_buf_span(&config), &hop->config)) {
        hop->config_at.state = RG_READ_MALFORMED;
    }
}

/* The bridge next above a bus that is narrower than every other one above it. */
static const struct bridge *bridge_above(const struct bridge *bridges, size_t count,
                                         unsigned domain, unsigned bus)
{
    const struct bridge *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct bridge *bridge = &bridges[i];
        if (bridge->domain == domain && bridge->first == bus) {
            best = bridge;
        }
    }
    return best;
}

static void read_path(struct rg_source *source, const struct bridge *bridges, size_t bridge_count,
                      const struct rg_pci_function *function, struct rg_pci_path *path)
{
    char address[RG_PCI_ADDRESS_MAX + 1];
    unsigned domain, bus;
    snprintf(address, sizeof address, "%.15s", function->address);
    path->numa_node =
        rg_reading_ok(&function->numa_node.at) ? (int)function->numa_node.value : RG_HOST_NO_NODE;
    rg_source_link(source, &path->iommu_group, PCI "/%s/iommu_group", address);
    if (rg_reading_ok(&path->iommu_group.at)) {
        rg_source_text(source, &path->iommu_type, "/sys/kernel/iommu_groups/%s/type",
                       path->iommu_group.text);
    }
    while (path->hop_count < RG_HOST_HOPS_MAX && parse_address(address, &domain, &bus)) {
        read_hop(source, &path->hops[path->hop_count++], address);
        const struct bridge *above = bridge_above(bridges, bridge_count, domain, bus);
        if (!above || strcmp(above->address, address) == 0) {
            break;
        }
        snprintf(address, sizeof address, "%s", above->address);
    }
}

static uint64_t read_rates(struct rg_source *source, const char *device)
{
    uint64_t sum = 0;
    for (int port = 1; port <= PORTS_MAX; port++) {
        struct rg_text state, rate;
        uint64_t mbits;
        rg_source_text(source, &state, "/sys/class/infiniband/%s/ports/%d/state", device, port);
        if (!rg_reading_ok(&state.at) || !strstr(state.text, "ACTIVE")) {
            continue;
        }
        rg_source_text(source, &rate, "/sys/class/infiniband/%s/ports/%d/rate", device, port);
        if (rg_reading_ok(&rate.at) && rg_host_rate_parse(rate.text, &mbits)) {
            sum += mbits;
        }
    }
    return sum;
}

static void read_cpu(struct rg_source *source, struct rg_host_pcie *pcie)
{
    RG_BUF(content, 16384); /* the first CPUs say it */
    rg_source_read(source, &content, &pcie->cpuinfo_at, "/proc/cpuinfo");
    struct span rest = rg_buf_span(&content), line, name, value;
    while (rg_words_line(&rest, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        pcie->is_amd |= rg_span_is(name, "vendor_id") && rg_span_is(value, "AuthenticAMD");
        pcie->is_virtual |= rg_span_is(name, "flags") && rg_words_has(value, ' ', "hypervisor");
        if (rg_span_is(name, "flags")) {
            return;
        }
    }
}

void rg_host_read_pcie(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_pcie *pcie = &facts->pcie;
    const struct rg_host_devices *devices = &facts->devices;
    rg_autofree struct bridge *bridges = calloc(BRIDGES_MAX + 1, sizeof *bridges);
    read_cpu(source, pcie);
    rg_source_text(source, &pcie->cmdline, "/proc/cmdline");
    size_t bridge_count = bridges ? read_bridges(source, pcie, bridges) : 0;
    for (size_t i = 0; i < devices->pci_count; i++) {
        const struct rg_pci_function *function = &devices->pci[i];
        const struct rg_rdma_device *rdma = rg_host_rdma_of_pci(devices, function->address);
        bool is_gpu = rg_reading_ok(&function->vendor.at) && rg_reading_ok(&function->class.at) &&
                      rg_host_is_gpu(function->vendor.value, function->class.value);
        pcie->has_gpu |= is_gpu;
        if (!rdma && !is_gpu) {
            continue;
        }
        if (pcie->path_count == RG_HOST_PCI_PATHS_MAX) {
            pcie->cut = true;
            break;
        }
        struct rg_pci_path *path = &pcie->paths[pcie->path_count++];
        path->is_gpu = is_gpu;
        if (rdma) {
            snprintf(path->label, sizeof path->label, "%s", rdma->name);
            snprintf(path->rdma, sizeof path->rdma, "%s", rdma->name);
            path->port_mbits = read_rates(source, rdma->name);
        } else {
            snprintf(path->label, sizeof path->label, "GPU %.15s", function->address);
        }
        read_path(source, bridges, bridge_count, function, path);
    }
}

/* From the root down, as sysfs paths are written. */
static void write_path(const struct rg_pci_path *path, char *text, size_t room)
{
    size_t used = 0;
    if (path->hop_count == 0) {
        text[0] = '\0';
        return;
    }
    const struct rg_pci_hop *top = &path->hops[path->hop_count - 1];
    used = (size_t)snprintf(text, room, "pci%.7s", top->address);
    for (size_t i = path->hop_count; i > 0 && used < room; i--) {
        used += (size_t)snprintf(text + used, room - used, "/%s", path->hops[i - 1].address);
    }
}

enum rg_pci_distance rg_host_distance(const struct rg_pci_path *a, const struct rg_pci_path *b)
{
    char from[RG_HOST_HOPS_MAX * (RG_PCI_ADDRESS_MAX + 1) + 32];
    char to[sizeof from];
    write_path(a, from, sizeof from);
    write_path(b, to, sizeof to);
    return rg_pci_distance(rg_span_text(from), a->numa_node, rg_span_text(to), b->numa_node);
}
