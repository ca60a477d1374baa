/*
 * Judges of the group "gpu" (checks_gpu.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/remedy.h"
#include "host/text_remedy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* True, with a finding when a GPU is what the role needs. */
static bool no_gpu(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (facts->gpu.count) {
        return false;
    }
    if (facts->plan.profile == RG_PROFILE_GPU_CLIENT && rg_reading_ok(&facts->devices.pci_at)) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_SKIP, "", "There is no GPU on the PCI bus (see GPU-DRV).");
        rg_find_where(finding, &facts->devices.pci_at);
    }
    return true;
}

static bool has_nvidia(const struct rg_host_gpus *gpus)
{
    for (size_t i = 0; i < gpus->count; i++) {
        if (gpus->gpus[i].is_nvidia) {
            return true;
        }
    }
    return false;
}

/* ---- GPU-DRV ---- */

static void judge_driver(const struct rg_host_facts *facts, const struct rg_host_gpu *gpu,
                         struct rg_findings *findings)
{
    const struct rg_host_gpus *gpus = &facts->gpu;
    bool bound = rg_reading_ok(&gpu->driver.at) &&
                 strcmp(gpu->driver.text, gpu->is_nvidia ? "nvidia" : "amdgpu") == 0;
    if (rg_reading_ok(&gpu->driver.at) && strncmp(gpu->driver.text, "vfio", 4) == 0) {
        (void)rg_find(findings, RG_VERDICT_OK, gpu->address,
                      "This GPU is handed to a virtual machine.");
        return;
    }
    if (gpu->driver.at.state == RG_READ_UNREADABLE) {
        (void)rg_find_unread(findings, gpu->address, &gpu->driver.at);
        return;
    }
    bool bad = !bound || (gpu->is_nvidia && !gpus->has_version);
    struct rg_finding *finding =
        rg_find(findings, bad ? RG_VERDICT_FAIL : RG_VERDICT_OK, gpu->address,
                bad ? "%s has no working driver%s%s." : "%s, driver %s%s.",
                gpu->model[0] ? gpu->model : "The GPU", bad ? "" : gpu->driver.text,
                bad               ? ""
                : !gpu->is_nvidia ? ""
                : gpus->is_open   ? " (open kernel modules)"
                                  : " (proprietary kernel modules)");
    rg_find_value(finding, "driver %s, version %s",
                  rg_reading_ok(&gpu->driver.at) ? gpu->driver.text : "none",
                  gpus->has_version ? gpus->version : "none");
    rg_find_where(finding, gpu->is_nvidia ? &gpus->version_at : &gpu->driver.at);
    if (bad && gpu->is_nvidia) {
        rg_find_remedy(finding, "modprobe nvidia && nvidia-smi");
        rg_remedy_install(finding, facts, "nvidia-open   # of NVIDIA's own repository",
                          "nvidia-open   # of NVIDIA's own repository");
    } else if (bad) {
        rg_find_remedy(finding, "modprobe amdgpu && dmesg | grep amdgpu");
    }
}

void judge_gpu_drv(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (facts->gpu.count == 0 && facts->plan.profile == RG_PROFILE_GPU_CLIENT &&
        rg_reading_ok(&facts->devices.pci_at)) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, "", "There is no GPU on the PCI bus.");
        rg_find_value(finding, "%zu functions of cards, no GPU", facts->devices.pci_count);
        rg_find_where(finding, &facts->devices.pci_at);
        rg_find_remedy(finding,
                       "lspci -nn | grep -E '03..|12..'   # in a container the GPUs have to be "
                       "passed in");
    }
    for (size_t i = 0; i < facts->gpu.count; i++) {
        judge_driver(facts, &facts->gpu.gpus[i], findings);
    }
}

/* ---- PEERMEM, DMABUF ---- */

static bool peermem_is_registered(const struct rg_host_gpus *gpus)
{
    for (size_t i = 0; i < gpus->memory_peers.count; i++) {
        if (strncmp(gpus->memory_peers.name[i], "nv_mem", 6) == 0 ||
            strcmp(gpus->memory_peers.name[i], "amdkfd") == 0) {
            return true;
        }
    }
    return strstr(gpus->ib_core.used_by, "nvidia_peermem,") ||
           strstr(gpus->ib_core.used_by, "nv_peer_mem,") ||
           (strstr(gpus->ib_core.used_by, "amdgpu,") && gpus->amdgpu.loaded);
}

/* 1: some device takes it, 0: all say no, -1: nobody could be asked. */
static int dmabuf_state(const struct rg_host_facts *facts)
{
    int state = -1;
    for (size_t i = 0; i < facts->memory.mr_count; i++) {
        int number = facts->memory.mr[i].dmabuf;
        if (number == EBADF || number == 0) {
            return 1;
        }
        state = number > 0 ? 0 : state;
    }
    return state;
}

static bool gpu_exports_dmabuf(const struct rg_host_gpus *gpus)
{
    return !has_nvidia(gpus) || (gpus->has_version && gpus->is_open);
}

/* AMD's GPUs have no module of their own for it: amdgpu of the ROCm packages registers with OFED.
 */
static void mend_amd(struct rg_finding *finding, const struct rg_host_facts *facts)
{
    rg_find_remedy(finding,
                   "grep -E '^(ib_core|amdgpu) ' /proc/modules   # ib_core must be used by "
                   "amdgpu");
    rg_remedy_install(finding, facts, "amdgpu-dkms   # of ROCm; built after OFED",
                      "amdgpu-dkms   # of ROCm; built after OFED");
    rg_find_remedy(finding, "# or a card, a kernel and rdma-core that take dma-buf (see DMABUF)");
}

void judge_peermem(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gpus *gpus = &facts->gpu;
    if (no_gpu(facts, findings)) {
        return;
    }
    if (!rg_reading_ok(&gpus->modules_at)) {
        (void)rg_find_unread(findings, "", &gpus->modules_at);
        return;
    }
    int dmabuf = dmabuf_state(facts);
    bool by_dmabuf = dmabuf == 1 && gpu_exports_dmabuf(gpus);
    bool loaded = gpus->peermem.loaded || gpus->nv_peer_mem.loaded;
    bool registered = peermem_is_registered(gpus);
    enum rg_verdict verdict = registered || by_dmabuf ? RG_VERDICT_OK
                              : dmabuf == -1 && gpu_exports_dmabuf(gpus) && !loaded
                                  ? RG_VERDICT_SKIP
                                  : RG_VERDICT_FAIL;
    struct rg_finding *finding = rg_find(
        findings, verdict, "",
        registered                   ? "Peer memory is registered with the RDMA core."
        : by_dmabuf                  ? "No peer-memory module; dma-buf serves instead."
        : verdict == RG_VERDICT_SKIP ? "No peer-memory module, and dma-buf could not be tried: "
                                       "run as a user who may open the RDMA device."
        : loaded ? "nvidia_peermem is loaded and has not registered with the RDMA core."
                 : "Neither peer memory nor dma-buf: GPU memory cannot be registered.");
    rg_find_value(finding, "nvidia_peermem %s, ib_core used by %s, dma-buf %s",
                  loaded ? "loaded" : "not loaded",
                  gpus->ib_core.used_by[0] ? gpus->ib_core.used_by : "-",
                  dmabuf == 1   ? "yes"
                  : dmabuf == 0 ? "no"
                                : "unknown");
    rg_find_where(finding, &gpus->modules_at);
    if (verdict == RG_VERDICT_FAIL && loaded) {
        rg_find_remedy(finding,
                       "rmmod nvidia_peermem; modprobe ib_core && modprobe nvidia_peermem && "
                       "grep ^ib_core /proc/modules");
        rg_find_remedy(finding,
                       "# if it refuses: reinstall the NVIDIA driver after OFED, so that it is "
                       "built against OFED's ib_core");
    } else if (verdict == RG_VERDICT_FAIL && !has_nvidia(gpus)) {
        mend_amd(finding, facts);
    } else if (verdict == RG_VERDICT_FAIL) {
        rg_remedy_load(finding, "nvidia_peermem");
        rg_find_remedy(finding,
                       "# or use NVIDIA's open kernel modules with a kernel and rdma-core that "
                       "have dma-buf");
    }
}

void judge_dmabuf(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    if (no_gpu(facts, findings)) {
        return;
    }
    if (memory->mr_count == 0 && memory->mr_at.state != RG_READ_NOT_ASKED) {
        (void)rg_find_unread(findings, "", &memory->mr_at);
        return;
    }
    for (size_t i = 0; i < memory->mr_count; i++) {
        const struct rg_host_mr_probe *probe = &memory->mr[i];
        bool takes = probe->dmabuf == EBADF || probe->dmabuf == 0;
        bool refuses = probe->dmabuf == EOPNOTSUPP || probe->dmabuf == EPROTONOSUPPORT ||
                       probe->dmabuf == ENOSYS;
        bool bad = takes && !gpu_exports_dmabuf(&facts->gpu) && !peermem_is_registered(&facts->gpu);
        enum rg_verdict verdict = bad || refuses ? RG_VERDICT_WARN
                                  : takes        ? RG_VERDICT_OK
                                                 : RG_VERDICT_SKIP;
        struct rg_finding *finding =
            rg_find(findings, verdict, probe->device,
                    bad       ? "The device takes dma-buf, but NVIDIA's proprietary modules do not "
                                "export it."
                    : takes   ? "The device takes dma-buf memory."
                    : refuses ? "The device or the library has no dma-buf registration."
                              : "It could not be asked.");
        if (probe->dmabuf >= 0) {
            rg_find_value(finding, "errno %d (%s)", probe->dmabuf, strerror(probe->dmabuf));
        }
        rg_find_where(finding, &memory->mr_at);
        if (bad) {
            rg_remedy_install(finding, facts, "nvidia-open", "nvidia-open");
        } else if (refuses) {
            rg_find_remedy(finding,
                           "uname -r   # mlx5 takes it since Linux 5.12, others since later "
                           "ones; and rdma-core 34 or later");
            if (has_nvidia(&facts->gpu)) {
                rg_find_remedy(finding, "modprobe nvidia_peermem   # the other way");
            } else {
                mend_amd(finding, facts);
            }
        }
    }
}

/* ---- BAR1 ---- */

#define MIB          ((uint64_t)1 << 20)
#define WINDOW_SMALL (1024 * MIB)

/* What can be registered of a window: on a 256 MiB one 192 MiB could be, 224 MiB could not. */
static uint64_t usable_of(uint64_t window)
{
    return window / 4 * 3;
}

void judge_bar1(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (no_gpu(facts, findings)) {
        return;
    }
    uint64_t need = facts->plan.pinned_bytes;
    for (size_t i = 0; i < facts->gpu.count; i++) {
        const struct rg_host_gpu *gpu = &facts->gpu.gpus[i];
        char window[RG_BYTES_TEXT_MAX + 1], usable[RG_BYTES_TEXT_MAX + 1];
        if (!rg_reading_ok(&gpu->resource_at) || gpu->window == 0) {
            (void)rg_find_unread(findings, gpu->address, &gpu->resource_at);
            continue;
        }
        rg_bytes_text(gpu->window, window);
        rg_bytes_text(usable_of(gpu->window), usable);
        bool too_small = need && need > usable_of(gpu->window);
        bool small = !need && gpu->window < WINDOW_SMALL;
        struct rg_finding *finding = rg_find(
            findings,
            too_small ? RG_VERDICT_FAIL
            : small   ? RG_VERDICT_WARN
                      : RG_VERDICT_OK,
            gpu->address,
            too_small ? "The window holds about %s, less than what is going to be registered."
            : small   ? "The window is small: registrations above about %s are going to fail."
                      : "The window holds about %s at a time.",
            usable);
        rg_find_value(finding, need ? "BAR1 %s, planned %" PRIu64 " MiB" : "BAR1 %s", window,
                      need / MIB);
        rg_find_where(finding, &gpu->resource_at);
        if (too_small || small) {
            rg_find_remedy(finding,
                           "# turn on resizable BAR (and above-4G decoding) in the firmware "
                           "setup, where the GPU has it:");
            if (gpu->is_nvidia) {
                rg_find_remedy(finding, "nvidia-smi -q -d MEMORY | grep -A3 BAR1");
            } else {
                rg_find_remedy(finding, "lspci -vv -s %s | grep -E 'Region|resiz'", gpu->address);
            }
            rg_find_remedy(finding, "# else register in pieces of at most %s", usable);
        }
    }
}

/* ---- TOPO ---- */

static bool is_nvidia_at(const struct rg_host_gpus *gpus, const char *address)
{
    for (size_t i = 0; i < gpus->count; i++) {
        if (strcmp(gpus->gpus[i].address, address) == 0) {
            return gpus->gpus[i].is_nvidia;
        }
    }
    return false;
}

void judge_topo(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_pcie *pcie = &facts->pcie;
    if (no_gpu(facts, findings)) {
        return;
    }
    for (size_t i = 0; i < pcie->path_count; i++) {
        const struct rg_pci_path *gpu = &pcie->paths[i], *nearest = NULL;
        enum rg_pci_distance best = RG_PCI_SYS;
        for (size_t k = 0; gpu->is_gpu && k < pcie->path_count; k++) {
            const struct rg_pci_path *nic = &pcie->paths[k];
            enum rg_pci_distance distance = nic->is_gpu ? RG_PCI_SYS : rg_host_distance(gpu, nic);
            if (!nic->is_gpu && (!nearest || distance < best)) {
                nearest = nic;
                best = distance;
            }
        }
        if (!nearest) {
            continue;
        }
        bool bad = best >= RG_PCI_PHB;
        struct rg_finding *finding =
            rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, gpu->label,
                    bad ? "The nearest NIC, %s, is beyond a host bridge (%s)." : "%s is near (%s).",
                    nearest->label, rg_pci_distance_name(best));
        rg_find_value(finding, "%s, NUMA nodes %d and %d", rg_pci_distance_name(best),
                      gpu->numa_node, nearest->numa_node);
        rg_find_where(finding, &pcie->buses_at);
        if (bad) {
            bool nvidia = is_nvidia_at(&facts->gpu, gpu->hops[0].address);
            rg_find_remedy(finding, nvidia ? "nvidia-smi topo -m" : "rocm-smi --showtopo");
            rg_find_remedy(finding, "# and move the NIC to a slot behind the GPU's switch");
        }
    }
}

/* ---- GDS, XID ---- */

void judge_gds(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_text *version = &facts->gpu.fs_version;
    if (no_gpu(facts, findings) || version->at.state == RG_READ_MISSING ||
        version->at.state == RG_READ_NOT_ASKED) {
        return;
    }
    if (!rg_reading_ok(&version->at)) {
        (void)rg_find_unread(findings, "", &version->at);
        return;
    }
    struct rg_finding *finding = rg_find(findings, RG_VERDICT_OK, "", "nvidia-fs is loaded.");
    rg_find_value(finding, "%s", version->text);
    rg_find_where(finding, &version->at);
}

/* ---- CUFILE ---- */

/* A relative path or a pipe of values in a sed line needs care: the name of a setting does not. */
static void mend_setting(struct rg_finding *finding, const struct rg_host_gpus *gpus,
                         const char *name, const char *value)
{
    rg_find_remedy(finding, "# in \"properties\" of %s: \"%s\": %s", gpus->cufile_path, name,
                   value);
}

static void judge_compat(const struct rg_host_gpus *gpus, struct rg_findings *findings)
{
    const struct rg_cufile *cufile = &gpus->cufile;
    bool forced = cufile->force_compat == RG_CUFILE_TRUE;
    bool allowed = cufile->allow_compat == RG_CUFILE_TRUE;
    struct rg_finding *finding = rg_find(
        findings,
        forced    ? RG_VERDICT_FAIL
        : allowed ? RG_VERDICT_WARN
                  : RG_VERDICT_OK,
        "compat_mode",
        forced    ? "Everything is copied through host memory: compatibility mode is forced."
        : allowed ? "What cannot go by RDMA is copied through host memory, and nobody is told."
                  : "What cannot go by RDMA fails, and is seen.");
    rg_find_value(finding, "allow_compat_mode %s, force_compat_mode %s",
                  allowed                                    ? "true"
                  : cufile->allow_compat == RG_CUFILE_UNSAID ? "not set"
                                                             : "false",
                  forced ? "true" : "not true");
    rg_find_where(finding, &gpus->cufile_at);
    if (forced) {
        mend_setting(finding, gpus, "force_compat_mode", "false");
    }
    if (forced || allowed) {
        rg_find_remedy(finding,
                       "sed -i 's/\"allow_compat_mode\"[ \\t]*:[ \\t]*true/"
                       "\"allow_compat_mode\": false/' %s",
                       gpus->cufile_path);
        rg_find_remedy(finding, "gdscheck -p   # of the CUDA toolkit: what is supported here");
    }
}

/* The device that an entry means: by its own name, by an interface's, by an address. */
static const struct rg_host_port *port_of_netdev(const struct rg_host_facts *facts,
                                                 const char *netdev)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        const struct rg_netdev *lower = rg_host_netdev(&facts->devices, netdev);
        const char *pci = facts->devices.rdma[port->device].pci.text;
        if (strcmp(port->netdev, netdev) == 0 ||
            (lower && lower->pci.text[0] && strcmp(lower->pci.text, pci) == 0)) {
            return port;
        }
    }
    return NULL;
}

static const struct rg_host_port *port_of_device(const struct rg_host_facts *facts,
                                                 const char *name)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        if (strcmp(facts->devices.rdma[facts->ports.list[i].device].name, name) == 0) {
            return &facts->ports.list[i];
        }
    }
    return NULL;
}

/* The interface that has the address, "" when none has. */
static const char *netdev_of_address(const struct rg_host_facts *facts, const char *text)
{
    uint8_t wanted[16], had[16];
    char plain[RG_CUFILE_TEXT_MAX + 1];
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, "%"), text);
    if (inet_pton(family, plain, wanted) != 1) {
        return "";
    }
    for (size_t i = 0; i < facts->ports.address_count; i++) {
        const struct rg_address *address = &facts->ports.addresses[i];
        if (address->is_ipv4 == (family == AF_INET) && inet_pton(family, address->text, had) == 1 &&
            memcmp(wanted, had, family == AF_INET ? 4 : 16) == 0) {
            return address->netdev;
        }
    }
    return "";
}

static bool is_address(const char *text)
{
    uint8_t bytes[16];
    char plain[RG_CUFILE_TEXT_MAX + 1];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, "%"), text);
    return inet_pton(AF_INET, plain, bytes) == 1 || inet_pton(AF_INET6, plain, bytes) == 1;
}

static void judge_entry(const struct rg_host_facts *facts, const char *entry,
                        struct rg_findings *findings)
{
    const struct rg_host_gpus *gpus = &facts->gpu;
    bool address = is_address(entry);
    if (address && !rg_reading_ok(&facts->ports.addresses_at)) {
        (void)rg_find_unread(findings, entry, &facts->ports.addresses_at);
        return;
    }
    const char *netdev = address ? netdev_of_address(facts, entry) : entry;
    const struct rg_host_port *port = netdev[0] ? port_of_netdev(facts, netdev) : NULL;
    port = port || address ? port : port_of_device(facts, entry);
    bool here =
        port || (netdev[0] && rg_host_netdev(&facts->devices, netdev)) || (address && netdev[0]);
    bool up = port && rg_host_port_is_active(port);
    struct rg_finding *finding =
        rg_find(findings,
                !port ? RG_VERDICT_FAIL
                : up  ? RG_VERDICT_OK
                      : RG_VERDICT_WARN,
                entry,
                !here   ? "Nothing on this host has this address or name%s%s."
                : !port ? "There is no RDMA device behind it%s%s."
                : up    ? "An RDMA device of this host%s%s."
                        : "The RDMA port behind it is down%s%s.",
                port ? ": " : "", port ? port->subject : "");
    rg_find_value(finding, "rdma_dev_addr_list has %s%s%s", entry,
                  address && netdev[0] ? ", of interface " : "",
                  address && netdev[0] ? netdev : "");
    rg_find_where(finding, &gpus->cufile_at);
    if (!up) {
        rg_find_remedy(finding, "ip -br address; rdma link   # what this host has now");
        mend_setting(finding, gpus, "rdma_dev_addr_list", "[ \"ADDRESS\", ... ]");
    }
}

static void judge_list(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gpus *gpus = &facts->gpu;
    for (size_t i = 0; i < gpus->cufile.address_count; i++) {
        judge_entry(facts, gpus->cufile.addresses[i], findings);
    }
    if (gpus->cufile.cut) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "rdma_dev_addr_list",
                      "It has more entries than are looked at, or some that are no text.");
    }
    if (gpus->cufile.address_count == 0 && !gpus->cufile.cut) {
        struct rg_finding *finding = rg_find(
            findings, RG_VERDICT_WARN, "rdma_dev_addr_list",
            "It names no RDMA device: cuObject and user-space file systems have none to use.");
        rg_find_value(finding, gpus->cufile.has_addresses ? "[]" : "not set");
        rg_find_where(finding, &gpus->cufile_at);
        rg_find_remedy(finding, "ip -br address; rdma link   # the addresses of the RDMA ports");
        mend_setting(finding, gpus, "rdma_dev_addr_list", "[ \"ADDRESS\", ... ]");
    }
}

/* Which of the two ways is taken is a setting; that the other one is there does not help. */
static void judge_peer_type(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gpus *gpus = &facts->gpu;
    bool by_dmabuf = strcasecmp(gpus->cufile.peer_type, "dmabuf") == 0;
    bool known = by_dmabuf || !gpus->cufile.peer_type[0] ||
                 strcasecmp(gpus->cufile.peer_type, "nvidia_peermem") == 0;
    int dmabuf = gpu_exports_dmabuf(gpus) ? dmabuf_state(facts) : 0;
    bool unread = by_dmabuf ? dmabuf < 0 : !rg_reading_ok(&gpus->modules_at);
    bool works = by_dmabuf ? dmabuf == 1 : peermem_is_registered(gpus);
    struct rg_finding *finding =
        rg_find(findings,
                !known   ? RG_VERDICT_FAIL
                : unread ? RG_VERDICT_SKIP
                : works  ? RG_VERDICT_OK
                         : RG_VERDICT_FAIL,
                "rdma_peer_type",
                !known      ? "There is no such way to register GPU memory."
                : unread    ? "Whether that way works here is not known (see PEERMEM, DMABUF)."
                : works     ? "GPU memory is registered in a way that works here."
                : by_dmabuf ? "dma-buf is asked for, which this host has not."
                            : "nvidia_peermem is asked for, which is not registered on this host.");
    rg_find_value(finding, "%s",
                  gpus->cufile.peer_type[0] ? gpus->cufile.peer_type : "not set: nvidia_peermem");
    rg_find_where(finding, &gpus->cufile_at);
    if (finding->verdict == RG_VERDICT_FAIL) {
        bool other = by_dmabuf ? peermem_is_registered(gpus) : dmabuf == 1;
        if (other || !known) {
            mend_setting(finding, gpus, "rdma_peer_type",
                         by_dmabuf || dmabuf != 1 ? "\"nvidia_peermem\"" : "\"dmabuf\"");
        }
        rg_find_remedy(finding, "railgate doctor -v --for gpu-client   # PEERMEM and DMABUF");
    }
}

void judge_cufile(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gpus *gpus = &facts->gpu;
    if (no_gpu(facts, findings) || gpus->cufile_at.state == RG_READ_NOT_ASKED) {
        return;
    }
    if (gpus->cufile_at.state == RG_READ_MALFORMED && gpus->cufile.problem[0]) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_FAIL, gpus->cufile_path,
                                             "It cannot be understood: %s.", gpus->cufile.problem);
        rg_find_value(finding, "%s", gpus->cufile.problem);
        rg_find_where(finding, &gpus->cufile_at);
        rg_find_remedy(finding, "gdscheck -p   # and mend the line that it names in %s",
                       gpus->cufile_path);
        return;
    }
    if (!rg_reading_ok(&gpus->cufile_at)) {
        /* Without the file the libraries have settings of their own. */
        (void)rg_find_unread(findings, gpus->cufile_path, &gpus->cufile_at);
        return;
    }
    judge_compat(gpus, findings);
    judge_list(facts, findings);
    judge_peer_type(facts, findings);
}

/* "NVRM: Xid (PCI:0000:3e:00): 79, pid=1, GPU has fallen off the bus." */
static bool is_fatal(const char *line)
{
    const char *end = strstr(line, "): ");
    return end && rg_xid_is_grave(strtoul(end + 3, NULL, 10));
}

/* Around the time; "" when it is not known. */
static void tell_when(int64_t seconds, const char *before, const char *after, char *text,
                      size_t room)
{
    struct tm tm;
    char time[32];
    time_t when = (time_t)seconds;
    text[0] = '\0';
    if (seconds && gmtime_r(&when, &tm) &&
        strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0) {
        snprintf(text, room, "%s%s%s", before, time, after);
    }
}

void judge_xid(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gpus *gpus = &facts->gpu;
    if (no_gpu(facts, findings) || gpus->xid_at.state == RG_READ_NOT_ASKED) {
        return;
    }
    if (!rg_reading_ok(&gpus->xid_at)) {
        (void)rg_find_unread(findings, "", &gpus->xid_at);
        return;
    }
    bool fatal = gpus->xid_lines && is_fatal(gpus->xid_last);
    char when[64];
    tell_when(gpus->xid_lines ? gpus->xid_seconds : 0, fatal ? " (" : ", the last of ",
              fatal ? ")" : "", when, sizeof when);
    struct rg_finding *finding = rg_find(
        findings,
        fatal             ? RG_VERDICT_FAIL
        : gpus->xid_lines ? RG_VERDICT_WARN
                          : RG_VERDICT_OK,
        "",
        fatal ? "The kernel log has %" PRIu64 " Xid lines, and the last of the grave ones%s "
                "asks for a reset of the GPU or its exchange."
        : gpus->xid_lines ? "The kernel log has %" PRIu64 " Xid lines%s."
                          : "The kernel log has no Xid line (%" PRIu64 ")%s.",
        gpus->xid_lines, when);
    if (gpus->xid_lines) {
        rg_find_value(finding, "%s", gpus->xid_last);
        rg_find_remedy(finding, "dmesg -T | grep 'NVRM: Xid'   # 48, 64, 79, 95: take the GPU out");
        rg_find_remedy_line(
            finding, "# a reset of the GPU (nvidia-smi) or a reboot clears it; the line stays "
                     "in the log until the reboot, so one from before a reset is over");
    }
    rg_find_where(finding, &gpus->xid_at);
}
