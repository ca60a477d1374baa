/*
 * Reads PCI functions, interfaces, RDMA devices, modules. See facts_devices.h. It decides nothing.
 */
#include "host/facts_devices.h"

#include "base/attr.h"
#include "host/facts.h"
#include "host/filtered.h"
#include "host/json.h"
#include "rdma/survey.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if_arp.h>
#include <string.h>

#define CLASS_NETWORK     0x02
#define CLASS_DISPLAY     0x03
#define CLASS_ACCELERATOR 0x12
#define MODULES_BYTES     ((size_t)256 << 10)
#define DOCUMENT_BYTES    ((size_t)256 << 10)
#define PROBE_MS          3000
#define MODINFO_MS        1000

/* ---- PCI ---- */

struct id_range {
    unsigned vendor, first, last;
    enum rg_nic_family family;
};

/* Functions that can do RDMA, whatever driver is bound; of the PCI ID database. */
static const struct id_range capable[] = {
    {0x15b3, 0x1011, 0x1023, RG_NIC_MLX5}, /* Connect-IB, ConnectX-4 to 8 */
    {0x15b3, 0xa2d2, 0xa2df, RG_NIC_MLX5}, /* BlueField */
    {0x8086, 0x1591, 0x1593, RG_NIC_ICE},  /* E810-C */
    {0x8086, 0x1599, 0x159b, RG_NIC_ICE},  /* E810-XXV */
    {0x8086, 0x12d1, 0x12d8, RG_NIC_ICE},  /* E830 */
    {0x14e4, 0x1614, 0x1614, RG_NIC_BNXT}, /* BCM57454 */
    {0x14e4, 0x16d6, 0x16d9, RG_NIC_BNXT}, /* BCM574xx */
    {0x14e4, 0x16f0, 0x16f0, RG_NIC_BNXT}, /* BCM58808 */
    {0x14e4, 0x1750, 0x1752, RG_NIC_BNXT}, /* BCM575xx */
    {0x14e4, 0x1760, 0x1760, RG_NIC_BNXT}, /* BCM576xx */
    {0x1dd8, 0x1002, 0x1003, RG_NIC_IONIC}, {0x1d0f, 0xefa0, 0xefaf, RG_NIC_EFA},
};

struct driver_family {
    const char *driver;
    enum rg_nic_family family;
};

static const struct driver_family drivers[] = {
    {"mlx5_core", RG_NIC_MLX5}, {"ice", RG_NIC_ICE}, {"bnxt_en", RG_NIC_BNXT},
    {"ionic", RG_NIC_IONIC},    {"efa", RG_NIC_EFA},
};

static enum rg_nic_family family_of(const struct rg_pci_function *function)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(capable); i++) {
        if (function->vendor.value == capable[i].vendor &&
            function->device.value >= capable[i].first &&
            function->device.value <= capable[i].last) {
            return capable[i].family;
        }
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(drivers); i++) {
        if (strcmp(function->driver.text, drivers[i].driver) == 0) {
            return drivers[i].family;
        }
    }
    return RG_NIC_OTHER;
}

static void read_function(struct rg_source *source, const char *address,
                          struct rg_host_devices *devices)
{
    struct rg_number class;
    rg_source_number(source, &class, "/sys/bus/pci/devices/%s/class", address);
    int64_t base = class.value >> 16;
    if (base != CLASS_NETWORK && base != CLASS_DISPLAY && base != CLASS_ACCELERATOR) {
        return;
    }
    if (devices->pci_count == RG_HOST_PCI_MAX || strlen(address) > RG_HOST_WORD_MAX) {
        devices->truncated = true;
        return;
    }
    struct rg_pci_function *function = &devices->pci[devices->pci_count++];
    const char *base_path = "/sys/bus/pci/devices";
    snprintf(function->address, sizeof function->address, "%s", address);
    function->class = class;
    rg_source_number(source, &function->vendor, "%s/%s/vendor", base_path, address);
    rg_source_number(source, &function->device, "%s/%s/device", base_path, address);
    rg_source_number(source, &function->numa_node, "%s/%s/numa_node", base_path, address);
    rg_source_link(source, &function->driver, "%s/%s/driver", base_path, address);
    function->is_virtual = rg_source_exists(source, "%s/%s/physfn", base_path, address);
    function->family = family_of(function);
}

static void read_pci(struct rg_source *source, struct rg_host_devices *devices)
{
    RG_CLEANUP(rg_names_free) struct rg_names names;
    rg_source_list(source, &names, "/sys/bus/pci/devices");
    devices->pci_at = names.at;
    for (size_t i = 0; i < names.count; i++) {
        read_function(source, names.name[i], devices);
    }
}

/* ---- RDMA devices ---- */

/* The PCI function behind a device that has none of its own, such as a sub-function. */
static void read_pci_address(struct rg_source *source, struct rg_text *pci, const char *class,
                             const char *name, const struct rg_host_devices *devices)
{
    rg_source_link(source, pci, "/sys/class/%s/%s/device", class, name);
    if (rg_reading_ok(&pci->at) && !rg_host_pci(devices, pci->text)) {
        /* A device on another bus, such as virtio or auxiliary: its parent may be the function. */
        struct rg_text parent;
        rg_source_link(source, &parent, "/sys/class/%s/%s/device/device", class, name);
        if (rg_reading_ok(&parent.at)) {
            *pci = parent;
        }
    }
}

static void read_rdma_device(struct rg_source *source, const char *name,
                             struct rg_host_devices *devices)
{
    if (devices->rdma_count == RG_HOST_RDMA_MAX || strlen(name) > RG_HOST_DEVICE_MAX) {
        devices->truncated = true;
        return;
    }
    struct rg_rdma_device *device = &devices->rdma[devices->rdma_count++];
    const char *base = "/sys/class/infiniband";
    snprintf(device->name, sizeof device->name, "%s", name);
    read_pci_address(source, &device->pci, "infiniband", name, devices);
    rg_source_text(source, &device->node_type, "%s/%s/node_type", base, name);
    rg_source_text(source, &device->firmware, "%s/%s/fw_ver", base, name);
    rg_source_text(source, &device->board, "%s/%s/board_id", base, name);
    rg_source_text(source, &device->guid, "%s/%s/node_guid", base, name);
    rg_source_text(source, &device->parent, "%s/%s/parent", base, name);
    const struct rg_pci_function *function = rg_host_pci(devices, device->pci.text);
    if (function) {
        device->family = function->family;
    } else if (rg_reading_ok(&device->parent.at)) {
        device->family = RG_NIC_RXE;
    }
}

static void read_rdma(struct rg_source *source, struct rg_host_devices *devices)
{
    RG_CLEANUP(rg_names_free) struct rg_names names;
    rg_source_list(source, &names, "/sys/class/infiniband");
    devices->rdma_at = names.at;
    for (size_t i = 0; i < names.count; i++) {
        read_rdma_device(source, names.name[i], devices);
    }
}

/* ---- Network interfaces ---- */

static void read_lowers(struct rg_source *source, struct rg_netdev *netdev)
{
    RG_CLEANUP(rg_names_free) struct rg_names names;
    rg_source_list(source, &names, "/sys/class/net/%s", netdev->name);
    for (size_t i = 0; i < names.count; i++) {
        struct span name = rg_span_text(names.name[i]);
        struct span lower = rg_span_skip(name, strlen("lower_"));
        if (rg_span_starts(name, RG_SPAN_LITERAL("lower_")) && lower.len < IFNAMSIZ &&
            netdev->lower_count < RG_HOST_LOWERS_MAX) {
            snprintf(netdev->lowers[netdev->lower_count++], IFNAMSIZ, "%.*s", RG_SPAN_ARG(lower));
        }
    }
}

static void read_bond(struct rg_source *source, struct rg_netdev *netdev)
{
    const char *base = "/sys/class/net";
    rg_source_text(source, &netdev->bond_mode, "%s/%s/bonding/mode", base, netdev->name);
    netdev->is_bond = netdev->bond_mode.at.state != RG_READ_MISSING;
    if (netdev->is_bond) {
        rg_source_text(source, &netdev->bond_hash, "%s/%s/bonding/xmit_hash_policy", base,
                       netdev->name);
        rg_source_text(source, &netdev->bond_partner, "%s/%s/bonding/ad_partner_mac", base,
                       netdev->name);
    }
}

static void read_ipoib(struct rg_source *source, struct rg_netdev *netdev)
{
    const char *base = "/sys/class/net";
    rg_source_text(source, &netdev->ipoib_mode, "%s/%s/mode", base, netdev->name);
    rg_source_number(source, &netdev->ipoib_pkey, "%s/%s/pkey", base, netdev->name);
    rg_source_text(source, &netdev->ipoib_parent, "%s/%s/parent", base, netdev->name);
}

/* Containers bring hundreds of virtual interfaces that have nothing to do with RDMA. */
static bool matters(const struct rg_netdev *netdev, const struct rg_host_devices *devices)
{
    for (size_t i = 0; i < devices->rdma_count; i++) {
        if (strcmp(devices->rdma[i].parent.text, netdev->name) == 0) {
            return true;
        }
    }
    return rg_reading_ok(&netdev->pci.at) || netdev->is_bond || netdev->lower_count > 0 ||
           netdev->type.value == ARPHRD_INFINIBAND;
}

static void read_netdev(struct rg_source *source, const char *name, struct rg_host_devices *devices)
{
    struct rg_netdev netdev = {0};
    const char *base = "/sys/class/net";
    if (strlen(name) >= IFNAMSIZ) {
        return;
    }
    snprintf(netdev.name, sizeof netdev.name, "%s", name);
    rg_source_number(source, &netdev.type, "%s/%s/type", base, name);
    read_pci_address(source, &netdev.pci, "net", name, devices);
    read_bond(source, &netdev);
    read_lowers(source, &netdev);
    /* bonding_masters is a file that stands among them. */
    if (!rg_reading_ok(&netdev.type.at) || !matters(&netdev, devices)) {
        return;
    }
    if (devices->netdev_count == RG_HOST_NETDEVS_MAX) {
        devices->truncated = true;
        return;
    }
    rg_source_number(source, &netdev.index, "%s/%s/ifindex", base, name);
    rg_source_number(source, &netdev.mtu, "%s/%s/mtu", base, name);
    rg_source_number(source, &netdev.speed, "%s/%s/speed", base, name);
    rg_source_number(source, &netdev.carrier, "%s/%s/carrier", base, name);
    rg_source_number(source, &netdev.flags, "%s/%s/flags", base, name);
    rg_source_number(source, &netdev.dev_port, "%s/%s/dev_port", base, name);
    rg_source_number(source, &netdev.carrier_changes, "%s/%s/carrier_changes", base, name);
    rg_source_text(source, &netdev.operstate, "%s/%s/operstate", base, name);
    rg_source_text(source, &netdev.mac, "%s/%s/address", base, name);
    rg_source_link(source, &netdev.master, "%s/%s/master", base, name);
    if (netdev.type.value == ARPHRD_INFINIBAND) {
        read_ipoib(source, &netdev);
    }
    const struct rg_pci_function *function = rg_host_pci(devices, netdev.pci.text);
    if (function) {
        netdev.driver = function->driver;
        netdev.family = function->family;
    }
    devices->netdevs[devices->netdev_count++] = netdev;
}

static void read_netdevs(struct rg_source *source, struct rg_host_devices *devices)
{
    RG_CLEANUP(rg_names_free) struct rg_names names;
    rg_source_list(source, &names, "/sys/class/net");
    devices->netdevs_at = names.at;
    for (size_t i = 0; i < names.count; i++) {
        read_netdev(source, names.name[i], devices);
    }
}

/* ---- Modules ---- */

void rg_host_parse_modules(struct span content, struct rg_host_devices *devices)
{
    while (content.ptr) {
        struct span line = rg_span_cut(&content, '\n');
        struct span name = rg_span_cut(&line, ' ');
        (void)rg_span_cut(&line, ' '); /* size */
        (void)rg_span_cut(&line, ' '); /* references */
        struct span users = line.ptr ? rg_span_cut(&line, ' ') : RG_SPAN_EMPTY;
        if (name.len == 0 || name.len > RG_HOST_WORD_MAX) {
            continue;
        }
        if (devices->module_count == RG_HOST_MODULES_MAX) {
            devices->truncated = true;
            return;
        }
        struct rg_module *module = &devices->modules[devices->module_count++];
        snprintf(module->name, sizeof module->name, "%.*s", RG_SPAN_ARG(name));
        snprintf(module->users, sizeof module->users, "%.*s", RG_SPAN_ARG(users));
    }
}

/* Those without which there is no RDMA may be built in: then only /sys/module knows them. */
static const char *const built_in[] = {"ib_core", "ib_uverbs", "rdma_ucm", "rdma_cm",
                                       "ib_umad", "ib_ipoib",  "mlx5_ib",  "irdma",
                                       "bnxt_re", "rdma_rxe",  "lnet",     "lustre"};

static void read_modules(struct rg_source *source, struct rg_host_devices *devices)
{
    RG_BUF(text, MODULES_BYTES);
    rg_source_read(source, &text, &devices->modules_at, "/proc/modules");
    rg_host_parse_modules(rg_buf_span(&text), devices);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(built_in); i++) {
        if (!rg_host_module(devices, built_in[i]) && devices->module_count < RG_HOST_MODULES_MAX &&
            rg_source_exists(source, "/sys/module/%s", built_in[i])) {
            struct rg_module *module = &devices->modules[devices->module_count++];
            snprintf(module->name, sizeof module->name, "%s", built_in[i]);
        }
    }
    rg_source_text(source, &devices->ib_core_netns_mode,
                   "/sys/module/ib_core/parameters/netns_mode");
}

/* "extra/net/ko2iblnd.ko.xz: extra/net/lnet.ko.xz ...": the path before the colon. True when the
 * line names mlx_compat. */
static bool find_module_path(struct span text, const char *file, char *ret_path, size_t room)
{
    while (text.ptr) {
        struct span line = rg_span_cut(&text, '\n');
        struct span path = rg_span_cut(&line, ':');
        if (path.len && path.len < room && memmem(path.ptr, path.len, file, strlen(file))) {
            snprintf(ret_path, room, "%.*s", RG_SPAN_ARG(path));
            return line.ptr && memmem(line.ptr, line.len, "/mlx_compat.ko", 14) != NULL;
        }
    }
    return false;
}

static void find_origins(struct span text, struct rg_host_devices *devices)
{
    (void)find_module_path(text, "/ib_core.ko", devices->ib_core_path,
                           sizeof devices->ib_core_path);
    devices->o2iblnd_needs_ofed =
        find_module_path(text, "/ko2iblnd.ko", devices->o2iblnd_path, sizeof devices->o2iblnd_path);
}

/* What RDMA and Lustre are made of, in the order in which it is loaded. */
static const char *const stack[] = {
    "mlx_compat", "ib_core",  "ib_cm",    "iw_cm",       "rdma_cm",  "ib_uverbs", "rdma_ucm",
    "ib_umad",    "ib_ipoib", "mlxfw",    "mlx5_core",   "mlx5_ib",  "ice",       "irdma",
    "bnxt_en",    "bnxt_re",  "ionic",    "ionic_rdma",  "efa",      "rdma_rxe",  "nvidia_peermem",
    "libcfs",     "lnet",     "ko2iblnd", "ksocklnd",    "obdclass", "ptlrpc",    "lov",
    "mdc",        "osc",      "lustre",   "osd_ldiskfs", "osd_zfs",  "nvidia_fs",
};

static void read_module_file(struct rg_source *source, const char *module,
                             struct rg_module_file *file)
{
    char name[96];
    const char *const argv[] = {"modinfo", module, NULL};
    RG_BUF(text, MODULES_BYTES);
    snprintf(file->name, sizeof file->name, "%s", module);
    snprintf(name, sizeof name, "modinfo/%s", module);
    rg_source_command(source, name, argv, MODINFO_MS, &text, &file->info_at);
    if (rg_reading_ok(&file->info_at) &&
        (!rg_modinfo_parse(rg_buf_span(&text), &file->info) || !file->info.srcversion[0])) {
        file->info_at.state = RG_READ_MALFORMED;
    }
}

static void read_module_files(struct rg_source *source, struct rg_host_devices *devices)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(stack); i++) {
        struct rg_module_file *file = &devices->files[devices->file_count];
        /* What is built in has no version of its own. */
        rg_source_text(source, &file->loaded, "/sys/module/%s/srcversion", stack[i]);
        if (file->loaded.at.state == RG_READ_MISSING) {
            continue;
        }
        devices->file_count++;
        read_module_file(source, stack[i], file);
    }
}

/* Whether a kernel has Lustre's client module; modules.dep lists one module a line. */
static bool read_modules_dep(struct rg_source *source, const char *kernel,
                             struct rg_host_devices *origins, struct rg_reading *at)
{
    RG_BUF(text, RG_HOST_FILE_MAX);
    rg_source_read(source, &text, at, "/lib/modules/%s/modules.dep", kernel);
    if (origins) {
        find_origins(rg_buf_span(&text), origins);
    }
    return rg_reading_ok(at) && strstr(rg_buf_text(&text), "/lustre.ko") != NULL;
}

/* The kernel of the next boot: the one GRUB has saved, else the newest; none where what GRUB has
 * saved may not be read. */
static void find_next_kernel(struct rg_source *source, struct rg_host_devices *devices)
{
    RG_BUF(text, 8192);
    struct rg_reading at;
    RG_CLEANUP(rg_names_free) struct rg_names names;
    rg_source_list(source, &names, "/lib/modules");
    rg_source_read(source, &text, &at, "/boot/grub2/grubenv");
    if (!rg_reading_ok(&at) && !rg_reading_is_absent(&at)) {
        return;
    }
    const char *saved = strstr(rg_buf_text(&text), "saved_entry=");
    for (size_t i = 0; i < names.count; i++) {
        bool is_saved = saved && memmem(saved, strcspn(saved, "\n"), names.name[i],
                                        strlen(names.name[i])) != NULL;
        /* Sorted by version: without a saved entry the last one stays. */
        if (is_saved || !saved) {
            snprintf(devices->next_kernel, sizeof devices->next_kernel, "%s", names.name[i]);
        }
    }
}

static void read_kernels(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_devices *devices = &facts->devices;
    if (!rg_reading_ok(&facts->system.kernel.at)) {
        return;
    }
    devices->has_lustre =
        read_modules_dep(source, facts->system.kernel.text, devices, &devices->modules_dep);
    find_next_kernel(source, devices);
    if (devices->next_kernel[0]) {
        devices->next_has_lustre =
            read_modules_dep(source, devices->next_kernel, NULL, &devices->next_modules_dep);
    }
}

/* ---- The verbs library ---- */

static json_t *tell_port(const struct rg_survey_device *device, size_t i)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "number", device->ports[i].number,
                     "state", device->ports[i].state, "link_layer", device->ports[i].link_layer,
                     "lid", device->ports[i].lid, "sm_lid", device->ports[i].sm_lid, "max_mtu",
                     device->ports[i].max_mtu, "active_mtu", device->ports[i].active_mtu);
}

static json_t *tell_device(const struct rg_survey_device *device)
{
    json_t *ports = json_array();
    for (size_t i = 0; i < device->port_count; i++) {
        (void)json_array_append_new(ports, tell_port(device, i));
    }
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:o}", "name", device->name, "errno",
                     device->os_errno, "max_qp", (json_int_t)device->qp_max, "max_cq",
                     (json_int_t)device->cq_max, "max_mr", (json_int_t)device->mr_max,
                     "max_mr_size", (json_int_t)(device->mr_bytes_max & INT64_MAX), "ports", ports);
}

/* The loader's words when a library cannot be loaded, else "". */
static const char *try_library(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
        (void)dlclose(handle);
        return "";
    }
    const char *words = dlerror();
    return words ? words : "it cannot be loaded";
}

static int survey(void *argument, int fd)
{
    (void)argument;
    static struct rg_survey_device found[RG_SURVEY_DEVICES_MAX];
    size_t count = 0;
    struct rg_error err = RG_ERROR_INIT;
    json_t *devices = json_array();
    if (rg_survey_devices(found, RG_ARRAY_LENGTH(found), &count, &err) == 0) {
        for (size_t i = 0; i < count; i++) {
            (void)json_array_append_new(devices, tell_device(&found[i]));
        }
    }
    json_t *ibverbs = json_string(try_library("libibverbs.so.1"));
    json_t *rdmacm = json_string(try_library("librdmacm.so.1"));
    return rg_host_tell_json(json_pack("{s:{s:o, s:o}, s:o}", "libraries", "libibverbs.so.1",
                                       ibverbs, "librdmacm.so.1", rdmacm, "devices", devices),
                             fd);
}

static void take_port(const json_t *from, struct rg_rdma_device *device)
{
    if (device->port_count == RG_HOST_SURVEY_PORTS) {
        return;
    }
    device->ports[device->port_count++] = (struct rg_survey_port){
        .number = rg_host_json_unsigned(from, "number"),
        .state = rg_host_json_unsigned(from, "state"),
        .link_layer = rg_host_json_unsigned(from, "link_layer"),
        .lid = rg_host_json_unsigned(from, "lid"),
        .sm_lid = rg_host_json_unsigned(from, "sm_lid"),
        .max_mtu = rg_host_json_unsigned(from, "max_mtu"),
        .active_mtu = rg_host_json_unsigned(from, "active_mtu"),
    };
}

static void take_device(const json_t *from, struct rg_host_devices *devices)
{
    const char *name = json_string_value(json_object_get(from, "name"));
    for (size_t i = 0; name && i < devices->rdma_count; i++) {
        struct rg_rdma_device *device = &devices->rdma[i];
        if (strcmp(device->name, name) != 0) {
            continue;
        }
        device->surveyed = true;
        device->open_errno = (int)rg_host_json_unsigned(from, "errno");
        device->qp_max = rg_host_json_unsigned(from, "max_qp");
        device->cq_max = rg_host_json_unsigned(from, "max_cq");
        device->mr_max = rg_host_json_unsigned(from, "max_mr");
        json_int_t mr = json_integer_value(json_object_get(from, "max_mr_size"));
        device->mr_bytes_max = mr > 0 ? (uint64_t)mr : 0;
        device->port_count = 0;
        size_t index;
        const json_t *port;
        json_array_foreach(json_object_get(from, "ports"), index, port)
        {
            take_port(port, device);
        }
    }
}

static void take_words(const json_t *libraries, const char *name,
                       char ret_words[RG_HOST_TEXT_MAX + 1])
{
    const char *words = json_string_value(json_object_get(libraries, name));
    bool cut;
    if (words && !rg_host_parse_text(words, strlen(words), ret_words, &cut)) {
        snprintf(ret_words, RG_HOST_TEXT_MAX + 1, "it cannot be loaded");
    }
}

bool rg_host_parse_survey(struct span json, struct rg_host_devices *devices)
{
    RG_CLEANUP(rg_host_json_free) json_t *document = json_loadb(json.ptr, json.len, 0, NULL);
    const json_t *libraries = json_object_get(document, "libraries");
    const json_t *list = json_object_get(document, "devices");
    if (!json_is_object(libraries) || !json_is_array(list)) {
        return false;
    }
    take_words(libraries, "libibverbs.so.1", devices->libibverbs);
    take_words(libraries, "librdmacm.so.1", devices->librdmacm);
    size_t index;
    const json_t *device;
    json_array_foreach(list, index, device)
    {
        take_device(device, devices);
    }
    return true;
}

static void read_survey(struct rg_source *source, struct rg_host_devices *devices)
{
    RG_BUF(text, DOCUMENT_BYTES);
    rg_source_probe(source, "verbs/survey.json", "libibverbs", survey, NULL, PROBE_MS, &text,
                    &devices->survey_at);
    if (rg_reading_ok(&devices->survey_at) && !rg_host_parse_survey(rg_buf_span(&text), devices)) {
        devices->survey_at.state = RG_READ_MALFORMED;
    }
}

/* ---- Device nodes ---- */

/* Opening one asks the kernel for nothing yet. umad and issm are left alone: opening issm tells the
 * fabric that there is a subnet manager. */
static int open_nodes(void *argument, int fd)
{
    (void)argument;
    rg_autoclosedir DIR *directory = opendir("/dev/infiniband");
    json_t *nodes = json_object();
    if (!directory) {
        json_decref(nodes);
        return errno;
    }
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (strncmp(entry->d_name, "uverbs", 6) != 0 && strcmp(entry->d_name, "rdma_cm") != 0) {
            continue;
        }
        rg_autoclose int node = openat(dirfd(directory), entry->d_name, O_RDWR | O_CLOEXEC);
        (void)json_object_set_new(nodes, entry->d_name, json_integer(node < 0 ? errno : 0));
    }
    return rg_host_tell_json(nodes, fd);
}

bool rg_host_parse_nodes(struct span json, struct rg_host_devices *devices)
{
    RG_CLEANUP(rg_host_json_free) json_t *document = json_loadb(json.ptr, json.len, 0, NULL);
    if (!json_is_object(document)) {
        return false;
    }
    const char *name;
    json_t *value;
    json_object_foreach(document, name, value)
    {
        if (devices->node_count == RG_HOST_NODES_MAX || strlen(name) > RG_HOST_WORD_MAX) {
            devices->truncated = true;
            continue;
        }
        struct rg_node *node = &devices->nodes[devices->node_count++];
        snprintf(node->name, sizeof node->name, "%s", name);
        node->os_errno = (int)(json_integer_value(value) & 4095);
    }
    return true;
}

static void read_nodes(struct rg_source *source, struct rg_host_devices *devices)
{
    RG_BUF(text, DOCUMENT_BYTES);
    rg_source_probe(source, "dev/infiniband.json", "/dev/infiniband", open_nodes, NULL, PROBE_MS,
                    &text, &devices->nodes_at);
    if (rg_reading_ok(&devices->nodes_at) && !rg_host_parse_nodes(rg_buf_span(&text), devices)) {
        devices->nodes_at.state = RG_READ_MALFORMED;
    }
    /* This class, other than that of the devices, is the same in every network namespace. */
    for (size_t i = 0; i < devices->node_count; i++) {
        struct rg_node *node = &devices->nodes[i];
        if (strncmp(node->name, "uverbs", 6) == 0 && !strchr(node->name, '/')) {
            rg_source_text(source, &node->device, "/sys/class/infiniband_verbs/%s/ibdev",
                           node->name);
        }
    }
}

void rg_host_read_devices(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_devices *devices = &facts->devices;
    read_pci(source, devices);
    read_rdma(source, devices);
    read_netdevs(source, devices);
    read_modules(source, devices);
    read_module_files(source, devices);
    read_kernels(source, facts);
    read_survey(source, devices);
    if (facts->plan.binary[0]) {
        rg_host_read_program(source, "program", facts->plan.binary, &devices->program);
    }
    read_nodes(source, devices);
}

/* ---- Looking up ---- */

const struct rg_netdev *rg_host_netdev(const struct rg_host_devices *devices, const char *name)
{
    for (size_t i = 0; i < devices->netdev_count; i++) {
        if (strcmp(devices->netdevs[i].name, name) == 0) {
            return &devices->netdevs[i];
        }
    }
    return NULL;
}

const struct rg_rdma_device *rg_host_rdma(const struct rg_host_devices *devices, const char *name)
{
    for (size_t i = 0; i < devices->rdma_count; i++) {
        if (strcmp(devices->rdma[i].name, name) == 0) {
            return &devices->rdma[i];
        }
    }
    return NULL;
}

const struct rg_pci_function *rg_host_pci(const struct rg_host_devices *devices,
                                          const char *address)
{
    for (size_t i = 0; i < devices->pci_count; i++) {
        if (strcmp(devices->pci[i].address, address) == 0) {
            return &devices->pci[i];
        }
    }
    return NULL;
}

const struct rg_rdma_device *rg_host_rdma_of_pci(const struct rg_host_devices *devices,
                                                 const char *address)
{
    for (size_t i = 0; address[0] && i < devices->rdma_count; i++) {
        if (strcmp(devices->rdma[i].pci.text, address) == 0) {
            return &devices->rdma[i];
        }
    }
    return NULL;
}

const struct rg_netdev *rg_host_netdev_of_pci(const struct rg_host_devices *devices,
                                              const char *address)
{
    for (size_t i = 0; address[0] && i < devices->netdev_count; i++) {
        if (strcmp(devices->netdevs[i].pci.text, address) == 0) {
            return &devices->netdevs[i];
        }
    }
    return NULL;
}

bool rg_host_same_board(const struct rg_host_devices *devices, const struct rg_rdma_device *a,
                        const struct rg_rdma_device *b)
{
    if (a->board.text[0] || b->board.text[0]) {
        return strcmp(a->board.text, b->board.text) == 0;
    }
    const struct rg_pci_function *first = rg_host_pci(devices, a->pci.text);
    const struct rg_pci_function *second = rg_host_pci(devices, b->pci.text);
    return first && second && first->vendor.value == second->vendor.value &&
           first->device.value == second->device.value;
}

const struct rg_module *rg_host_module(const struct rg_host_devices *devices, const char *name)
{
    for (size_t i = 0; i < devices->module_count; i++) {
        if (strcmp(devices->modules[i].name, name) == 0) {
            return &devices->modules[i];
        }
    }
    return NULL;
}

bool rg_host_module_loaded(const struct rg_host_devices *devices, const char *name)
{
    return rg_host_module(devices, name) != NULL;
}

const char *rg_nic_family_name(enum rg_nic_family family)
{
    static const char *const names[] = {
        [RG_NIC_OTHER] = "other",   [RG_NIC_MLX5] = "ConnectX",  [RG_NIC_ICE] = "E810",
        [RG_NIC_BNXT] = "Broadcom", [RG_NIC_IONIC] = "Pensando", [RG_NIC_EFA] = "EFA",
        [RG_NIC_RXE] = "soft-RoCE",
    };
    return names[family];
}
