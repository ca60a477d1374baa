/*
 * The libfabric transport: reliable datagram endpoints with RMA, one endpoint, completion queue and
 * address vector a lane. Over the tcp and shm providers it makes the whole token path run on any
 * machine; over others (verbs, efa, psm2, cxi) it drives their NICs.
 *
 * libfabric is loaded at run time. No type of it leaves this file.
 *
 * What was read in libfabric 1.17 and is relied on or worked around here:
 *
 * - tcp and shm move bytes only while both ends poll (manual progress). A write with
 *   FI_DELIVERY_COMPLETE completes when the target has placed the bytes.
 * - tcp checks key and range once, when a message's header arrives, and then receives into that
 * memory until the message is whole. Closing the memory region does not stop it; closing the
 * endpoint does. So a window that is revoked before the peer said "done" takes its lane's endpoint
 * along.
 * - tcp, flush: closing the endpoint closes the sockets. Our memory is quiet after that
 *   (RG_QUIET_LOCAL; zero-copy sends are off unless FI_TCP_ZEROCOPY_SIZE says otherwise). Bytes
 * that are in the socket buffers still reach the peer, who writes them to the window until it
 *   revokes it: RG_QUIET_REMOTE is not promised. A write is at most one slot, so that is the most
 * that can arrive late.
 * - tcp, a refused key closes the connection: the initiator sees a peer that is gone, not why.
 * - shm: the target moves the bytes, by process_vm_readv or _writev on our addresses, when it
 *   next polls. Closing our endpoint does not take the command out of its queue, so a flush can
 * promise nothing while the target lives: the slots are condemned (their address is given up). When
 * the target is dead everything is quiet.
 * - shm: a refused key is dropped without an answer: the initiator runs into its deadline.
 * - shm without FI_DELIVERY_COMPLETE would write into the target by itself and never check the
 *   key; so reads carry the flag too.
 * - shm: posting takes a spin lock in the target's shared memory, and the target holds it while it
 *   copies. If it dies then, the post would spin for ever. So one operation at a time is posted on
 * a lane, when the target has nothing to copy for us, and only after a look whether it is alive.
 * - shm: an endpoint can know 256 peers in its life. A target forgets none, and an initiator that
 *   forgets one keeps the number it had there: the next peer in the same place gets commands under
 *   that number without having been introduced, and dies of them. So both are renewed before that.
 * - shm: whether memory of other processes can be read (CMA) is found out with the first peer and
 *   kept for the endpoint's life. If that peer is dead, the answer is wrong.
 * - shm: names in tokens end up in shm_open and mmap unchecked; only names of our own form, backed
 *   by a plausible file of our own user, are let through.
 * - shm, psm and psm2 install signal handlers; they are taken out again at once.
 *
 * Files that a dead process left in /dev/shm are removed when a rail opens. Who lives is told by a
 * lock (flock) that each owner holds on its file: it goes with the process, also in another PID
 * namespace, and a zombie has none.
 */
#include "rdma/transport.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "rdma/ofi_address.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OPERATION_BYTES_MAX ((uint64_t)1 << 30)

/* A peer that has not let the first operation through after this long is taken for gone. */
#define CONNECT_MS 3000

/* When, how often and how long to look whether a peer that does not connect is there at all. */
#define KNOCK_AFTER_MS 100
#define KNOCK_AGAIN_MS 1000
#define KNOCK_MS       20

/* Sleeps where there is no descriptor to sleep on. */
#define NAP_FIRST_US 10
#define NAP_MAX_US   400
#define USUAL_MAX_US 2000

/* Peers whose addresses (and connections) a lane keeps. */
#define PEERS_PER_LANE 16

/* Peers that one shm endpoint may meet before it is renewed; each window may bring a new one. */
#define SHM_PEERS_PER_ENDPOINT 200

#define SHM_DIRECTORY      "/dev/shm"
#define SHM_PREFIX         "railgate-"
#define SHM_NAME_LENGTH    (sizeof SHM_PREFIX - 1 + 2 + 32) /* prefix, role, '-', 32 hex digits */
#define SHM_QUEUE          64
#define SHM_FILE_BYTES_MIN 65536
#define SHM_LEFTOVER_S     10 /* a file younger than this may not have its lock yet */

/* ---- The library ---- */

static struct {
    void *handle;
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int code);
} library;

/*
 * Several libraries behind libfabric (psm, psm2, the shm provider) install handlers for signals
 * when they are loaded or opened. A process's signals are its own: what was there is put back.
 */
struct signals {
    struct sigaction actions[32]; /* by number */
};

static void save_signals(struct signals *saved)
{
    for (int number = 1; number < 32; number++) {
        (void)sigaction(number, NULL, &saved->actions[number]);
    }
}

static void restore_signals(const struct signals *saved)
{
    for (int number = 1; number < 32; number++) {
        if (number != SIGKILL && number != SIGSTOP) {
            (void)sigaction(number, &saved->actions[number], NULL);
        }
    }
}

/*
 * What the rxm layer takes from the environment only, when the library is loaded: by default an
 * endpoint has 4096 receive buffers, which we never use, and looks for connections every 10 ms. Set
 * only while no other thread can be reading the environment, and never against what is there.
 *
 * FI_OFI_RXM_BUFFER_SIZE stays as it is, although its pools cost some 70 MB: rxm refuses a peer
 * that has another one, and a peer may be a program with threads, or not ours.
 */
static void suggest_settings(void)
{
    static const char *const wishes[][2] = {
        {"FI_OFI_RXM_MSG_RX_SIZE", "8"},
        {"FI_OFI_RXM_MSG_TX_SIZE", "64"},
        {"FI_OFI_RXM_CM_PROGRESS_INTERVAL", "200"}, /* microseconds */
    };
    unsigned threads = 0;
    rg_autoclosedir DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
        threads += entry->d_name[0] != '.';
    }
    for (size_t i = 0; threads == 1 && i < RG_ARRAY_LENGTH(wishes); i++) {
        (void)setenv(wishes[i][0], wishes[i][1], 0);
    }
}

static bool find(void *handle, const char *name, void *ret_function)
{
    void *address = dlsym(handle, name);
    memcpy(ret_function, &address, sizeof address);
    return address != NULL;
}

static int ofi_load(struct rg_error *err)
{
    if (library.handle) {
        return 0;
    }
    struct signals signals;
    save_signals(&signals);
    suggest_settings();
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    restore_signals(&signals);
    if (!handle) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libfabric cannot be loaded: %s", dlerror());
    }
    if (!find(handle, "fi_getinfo", &library.getinfo) ||
        !find(handle, "fi_freeinfo", &library.freeinfo) ||
        !find(handle, "fi_dupinfo", &library.dupinfo) ||
        !find(handle, "fi_fabric", &library.fabric) ||
        !find(handle, "fi_strerror", &library.strerror)) {
        int rc = rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libfabric is not usable: %s", dlerror());
        dlclose(handle);
        return rc;
    }
    library.handle = handle;
    return 0;
}

static const char *explain(ssize_t rc)
{
    return library.strerror((int)(rc < 0 ? -rc : rc));
}

/* ---- What is behind the public structures ---- */

enum provider { PROVIDER_TCP, PROVIDER_SHM, PROVIDER_OTHER };

struct ofi_rail {
    struct rg_rail rail;
    enum provider provider;
    char provider_name[RG_OFI_PROVIDER_MAX + 1]; /* as it stands in tokens */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    bool virtual_addresses; /* remote addresses are the peer's, not offsets in its region */
    bool provider_keys;
    bool local_keys; /* local memory needs a descriptor */
    bool can_sleep;  /* completion queues have a descriptor to sleep on */
    uint64_t key_mask;
};

struct ofi_region {
    struct rg_region region;
    struct fid_mr *mr; /* NULL where posts need none */
};

struct ofi_target {
    struct rg_target target;
    struct fid_mr *mr;
};

struct operation {
    struct fi_context2 context; /* first: what the provider hands back */
    uint64_t cookie;
    uint64_t length;
    enum rg_lane_operation kind;
    bool busy;
};

struct peer {
    bool known;
    _Alignas(8) uint8_t name[RG_OFI_NAME_MAX + 1]; /* a sockaddr, or text */
    size_t name_len;
    fi_addr_t address;
    int alive_fd;      /* shm: the peer's file, whose lock tells whether it lives; -1 */
    uint64_t last_use; /* by the lane's count of binds */
};

struct ofi_lane {
    struct rg_lane lane;
    struct ofi_rail *rail;
    struct fid_ep *ep; /* opened at the first bind or mint */
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_cntr *moved; /* target side: counts what peers did; NULL where not offered */
    uint64_t moved_seen;
    int wait_fd;     /* -1: none */
    int shm_lock_fd; /* our own shm file, locked; -1 */
    struct operation operations[RG_LANE_DEPTH_MAX];
    struct peer peers[PEERS_PER_LANE];
    struct peer *peer; /* bound */
    uint64_t binds;
    uint64_t refused_at; /* ms; since when it takes no operation; 0: it does */
    uint64_t knock_at;   /* ms; when to look whether it is there at all */
    uint64_t begun_ns;   /* the last post, or mint */
    uint64_t usual_us;   /* how long operations take, smoothed */
    bool is_awaited;     /* minted, and nothing has moved since */
    uint64_t nap_us;     /* the last sleep where there is no descriptor; 0: none since a move */
    unsigned met;        /* since the endpoint was opened: peers, or windows that may bring one */
    unsigned windows;    /* minted and not revoked */
};

static struct ofi_rail *rail_of(struct rg_rail *rail)
{
    return (struct ofi_rail *)rail;
}

static struct ofi_lane *lane_of(struct rg_lane *lane)
{
    return (struct ofi_lane *)lane;
}

static void close_fid(struct fid *fid)
{
    if (fid) {
        (void)fi_close(fid);
    }
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- Files of the shm provider ---- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* railgate-i-<32 hex> for initiators, railgate-t-<32 hex> for targets. */
static bool is_shm_name(const char *name, size_t len)
{
    size_t prefix = sizeof SHM_PREFIX - 1;
    if (len != SHM_NAME_LENGTH || memcmp(name, SHM_PREFIX, prefix) != 0 ||
        (name[prefix] != 'i' && name[prefix] != 't') || name[prefix + 1] != '-') {
        return false;
    }
    for (size_t i = prefix + 2; i < len; i++) {
        if (!is_hex(name[i])) {
            return false;
        }
    }
    return true;
}

/* Opens a shm file of ours; -1 when it is not one. */
static int open_shm_file(int directory, const char *name, struct stat *ret_stat)
{
    rg_autoclose int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, ret_stat) < 0) {
        return -1;
    }
    if (!S_ISREG(ret_stat->st_mode) || ret_stat->st_uid != geteuid()) {
        return -1;
    }
    return RG_TAKE_FD(fd);
}

static bool is_owner_alive(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        (void)flock(fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

static void remove_leftovers(void)
{
    rg_autoclosedir DIR *directory = opendir(SHM_DIRECTORY);
    if (!directory) {
        return;
    }
    int fd = dirfd(directory);
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (!is_shm_name(entry->d_name, strlen(entry->d_name))) {
            continue;
        }
        struct stat facts;
        rg_autoclose int file = open_shm_file(fd, entry->d_name, &facts);
        if (file >= 0 && time(NULL) - facts.st_mtim.tv_sec >= SHM_LEFTOVER_S &&
            !is_owner_alive(file)) {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
}

/* ---- Rails ---- */

static int fail_provider(struct rg_error *err, const char *what, const char *provider, ssize_t rc)
{
    enum rg_code code = RG_RDMA_NOT_SUPPORTED;
    if (rc == -FI_ENOMEM) {
        code = RG_OUT_OF_MEMORY;
    } else if (rc == -FI_EMFILE || rc == -FI_ENOSPC || rc == -FI_EAGAIN) {
        code = RG_LIMIT;
    }
    return rg_failf(err, code, "libfabric provider %s: %s: %s", provider, what, explain(rc));
}

static struct fi_info *make_hints(enum provider provider, const char *name)
{
    struct fi_info *hints = library.dupinfo(NULL);
    if (!hints) {
        return NULL;
    }
    hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if (provider == PROVIDER_SHM) {
        hints->caps |= FI_RMA_EVENT;
        hints->tx_attr->size = SHM_QUEUE;
        hints->rx_attr->size = SHM_QUEUE;
    }
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (provider == PROVIDER_TCP) {
        /* Zero-based offsets and keys of our choice, as every peer on tcp does it. */
        hints->domain_attr->mr_mode = 0;
    }
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    hints->fabric_attr->prov_name = strdup(name);
    if (!hints->fabric_attr->prov_name) {
        library.freeinfo(hints);
        return NULL;
    }
    return hints;
}

/* The name that goes into the path: the core provider, without layers. */
static void name_path(struct ofi_rail *rail)
{
    struct span rest = rg_span_text(rail->provider_name);
    struct span core = rg_span_cut(&rest, ';');
    snprintf(rail->rail.path, sizeof rail->rail.path, "ofi:%.*s", RG_SPAN_ARG(core));
}

static void name_address(struct ofi_rail *rail)
{
    const struct fi_info *info = rail->info;
    char *text = rail->rail.address;
    size_t room = sizeof rail->rail.address;
    if (info->src_addr && info->addr_format == FI_SOCKADDR_IN) {
        const struct sockaddr_in *ip = info->src_addr;
        (void)inet_ntop(AF_INET, &ip->sin_addr, text, (socklen_t)room);
    } else if (info->src_addr && info->addr_format == FI_SOCKADDR_IN6) {
        const struct sockaddr_in6 *ip = info->src_addr;
        (void)inet_ntop(AF_INET6, &ip->sin6_addr, text, (socklen_t)room);
    }
}

static bool is_ip(const char *text)
{
    struct in6_addr unused;
    return inet_pton(AF_INET, text, &unused) == 1 || inet_pton(AF_INET6, text, &unused) == 1;
}

static int get_info(struct ofi_rail *rail, const struct rg_rail_config *config,
                    struct rg_error *err)
{
    if (rail->provider == PROVIDER_TCP && config->address[0] && !is_ip(config->address)) {
        return rg_failf(err, RG_SETTING, "\"%s\" is not an IP address.", config->address);
    }
    struct fi_info *hints = make_hints(rail->provider, rail->provider_name);
    if (!hints) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    const char *node = config->address[0] ? config->address : NULL;
    if (!node && rail->provider == PROVIDER_TCP) {
        node = "127.0.0.1";
    }
    uint64_t flags = node ? FI_SOURCE | FI_NUMERICHOST : 0;
    if (rail->provider == PROVIDER_SHM) {
        node = NULL;
        flags = 0;
    }
    int rc = library.getinfo(FI_VERSION(1, 17), node, node ? "0" : NULL, flags, hints, &rail->info);
    library.freeinfo(hints);
    if (rc == -FI_ENODATA || rc == -FI_EADDRNOTAVAIL) {
        return rg_failf(err, config->address[0] ? RG_SETTING : RG_RDMA_NOT_SUPPORTED,
                        "libfabric has no provider \"%s\" that fits%s%s%s.", rail->provider_name,
                        config->address[0] ? " address \"" : "", config->address,
                        config->address[0] ? "\"" : "");
    }
    return rc ? fail_provider(err, "cannot be queried", rail->provider_name, rc) : 0;
}

static void ofi_rail_close(struct rg_rail *public)
{
    struct ofi_rail *rail = rail_of(public);
    close_fid(rail->domain ? &rail->domain->fid : NULL);
    close_fid(rail->fabric ? &rail->fabric->fid : NULL);
    if (rail->info) {
        library.freeinfo(rail->info);
    }
    free(rail);
}

static void cleanup_rail(struct ofi_rail **rail)
{
    if (*rail) {
        ofi_rail_close(&(*rail)->rail);
    }
}

static int open_domain(struct ofi_rail *rail, struct rg_error *err)
{
    int rc = library.fabric(rail->info->fabric_attr, &rail->fabric, NULL);
    if (rc) {
        return fail_provider(err, "the fabric cannot be opened", rail->provider_name, rc);
    }
    rc = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
    if (rc) {
        return fail_provider(err, "the domain cannot be opened", rail->provider_name, rc);
    }
    return 0;
}

static void choose_provider(struct ofi_rail *rail, const char *device)
{
    if (!device[0] || strcmp(device, "tcp") == 0 || strcmp(device, "tcp;ofi_rxm") == 0) {
        rail->provider = PROVIDER_TCP;
        device = "tcp;ofi_rxm";
    } else if (strcmp(device, "shm") == 0) {
        rail->provider = PROVIDER_SHM;
    } else {
        rail->provider = PROVIDER_OTHER;
    }
    snprintf(rail->provider_name, sizeof rail->provider_name, "%s", device);
}

static void describe_rail(struct ofi_rail *rail)
{
    const struct fi_domain_attr *domain = rail->info->domain_attr;
    struct rg_rail *public = &rail->rail;
    rail->virtual_addresses = domain->mr_mode & FI_MR_VIRT_ADDR;
    rail->provider_keys = domain->mr_mode & FI_MR_PROV_KEY;
    rail->local_keys = domain->mr_mode & FI_MR_LOCAL;
    rail->can_sleep = rail->provider != PROVIDER_SHM;
    size_t key_bytes = RG_MIN(domain->mr_key_size, sizeof(uint64_t));
    rail->key_mask =
        key_bytes >= 8 || key_bytes == 0 ? UINT64_MAX >> 1 : ((uint64_t)1 << (8 * key_bytes)) - 1;
    public->gid_index = -1;
    public->traffic_class = -1;
    public->operation_bytes_max =
        RG_MIN((uint64_t)rail->info->ep_attr->max_msg_size, OPERATION_BYTES_MAX);
    public->is_hardware =
        rail->provider == PROVIDER_OTHER && strncmp(rail->provider_name, "sockets", 7) != 0 &&
        strncmp(rail->provider_name, "udp", 3) != 0 && strncmp(rail->provider_name, "net", 3) != 0;
    public->pins_memory = public->is_hardware;
    public->target_needs_progress =
        domain->data_progress == FI_PROGRESS_MANUAL || rail->provider != PROVIDER_OTHER;
    name_path(rail);
    name_address(rail);
    (void)rg_ofi_address_gid(public->address, public->gid, &public->subnet_bits);
    snprintf(public->device, sizeof public->device, "%s", rail->provider_name);
}

static int open_endpoint(struct ofi_lane *lane, char role, struct rg_error *err);
static void close_endpoint(struct ofi_lane *lane);
static void init_lane(struct ofi_lane *lane, struct ofi_rail *rail);

/*
 * Opens and closes one endpoint: so that what cannot work fails here, at start-up, and so that the
 * signal handlers that the provider installs with its first endpoint come and go now.
 */
static int try_endpoint(struct ofi_rail *rail, struct rg_error *err)
{
    struct ofi_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    init_lane(lane, rail);
    int rc = open_endpoint(lane, 'i', err);
    close_endpoint(lane);
    free(lane);
    return rc;
}

static int set_up(struct ofi_rail *rail, struct rg_error *err)
{
    int rc = get_info(rail, &rail->rail.config, err);
    if (rc < 0) {
        return rc;
    }
    describe_rail(rail);
    rc = open_domain(rail, err);
    if (rc < 0) {
        return rc;
    }
    rc = try_endpoint(rail, err);
    if (rc == -RG_SERVICE_UNAVAILABLE) {
        return rg_failf(err, RG_SETTING, "Address \"%s\" is not one of this machine's.",
                        rail->rail.address);
    }
    return rc;
}

static int ofi_rail_open(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                         struct rg_error *err)
{
    RG_CLEANUP(cleanup_rail) struct ofi_rail *rail = calloc(1, sizeof *rail);
    if (!rail) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rail->rail.config = *config;
    choose_provider(rail, config->device);
    if (rail->provider == PROVIDER_SHM) {
        remove_leftovers();
    }
    struct signals signals;
    save_signals(&signals);
    int rc = set_up(rail, err);
    restore_signals(&signals);
    if (rc < 0) {
        return rc;
    }
    *ret_rail = &RG_TAKE(rail)->rail;
    return 0;
}

/* Providers say nothing about their ports without an operation; there is nothing to ask. */
static int ofi_rail_check(struct rg_rail *rail, struct rg_error *err)
{
    return 0;
}

/* ---- Memory ---- */

static int register_mr(struct ofi_rail *rail, void *address, uint64_t length, uint64_t access,
                       struct fid_mr **ret_mr, struct rg_error *err)
{
    int rc = 0;
    for (int attempt = 0; attempt < 8; attempt++) {
        uint64_t key = rail->provider_keys ? 0 : rg_random_u64() & rail->key_mask;
        rc = fi_mr_reg(rail->domain, address, length, access, 0, key, 0, ret_mr, NULL);
        if (rc != -FI_ENOKEY) {
            break;
        }
    }
    if (rc == -FI_EPERM || rc == -FI_EAGAIN) {
        return rg_failf(err, RG_LIMIT,
                        "%" PRIu64 " bytes cannot be locked for provider %s: %s (RLIMIT_MEMLOCK)",
                        length, rail->provider_name, explain(rc));
    }
    if (rc == -FI_EFAULT || rc == -FI_EINVAL) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The memory cannot be registered: %s",
                        explain(rc));
    }
    return rc ? fail_provider(err, "memory cannot be registered", rail->provider_name, rc) : 0;
}

static int ofi_region_register(struct rg_rail *public, void *address, uint64_t length,
                               unsigned access, struct rg_region **ret_region, struct rg_error *err)
{
    struct ofi_rail *rail = rail_of(public);
    rg_autofree struct ofi_region *region = calloc(1, sizeof *region);
    if (!region) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    /* Remote access is given window by window, when one is minted. */
    if (rail->local_keys && (access & RG_ACCESS_LOCAL)) {
        int rc = register_mr(rail, address, length, FI_READ | FI_WRITE, &region->mr, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_region = &RG_TAKE(region)->region;
    return 0;
}

static void ofi_region_deregister(struct rg_region *public)
{
    struct ofi_region *region = (struct ofi_region *)public;
    close_fid(region->mr ? &region->mr->fid : NULL);
    free(region);
}

/* ---- Endpoints ---- */

static void init_lane(struct ofi_lane *lane, struct ofi_rail *rail)
{
    lane->rail = rail;
    lane->lane.rail = &rail->rail;
    lane->lane.depth = rail->provider == PROVIDER_SHM ? 1 : rail->rail.config.lane_depth;
    lane->wait_fd = -1;
    lane->shm_lock_fd = -1;
    for (size_t i = 0; i < PEERS_PER_LANE; i++) {
        lane->peers[i].alive_fd = -1;
    }
}

static void forget_peer(struct ofi_lane *lane, struct peer *peer)
{
    if (!peer->known) {
        return;
    }
    if (lane->av) {
        (void)fi_av_remove(lane->av, &peer->address, 1, 0);
    }
    close_fd(peer->alive_fd);
    *peer = (struct peer){.alive_fd = -1};
}

static void close_endpoint(struct ofi_lane *lane)
{
    close_fid(lane->ep ? &lane->ep->fid : NULL);
    lane->ep = NULL;
    for (size_t i = 0; i < PEERS_PER_LANE; i++) {
        forget_peer(lane, &lane->peers[i]);
    }
    close_fid(lane->moved ? &lane->moved->fid : NULL);
    close_fid(lane->cq ? &lane->cq->fid : NULL);
    close_fid(lane->av ? &lane->av->fid : NULL);
    lane->moved = NULL;
    lane->cq = NULL;
    lane->av = NULL;
    close_fd(lane->shm_lock_fd);
    lane->shm_lock_fd = -1;
    lane->wait_fd = -1;
    lane->peer = NULL;
    lane->met = 0;
    memset(lane->operations, 0, sizeof lane->operations);
}

/* shm: every endpoint has a name of its own, never used again. */
static struct fi_info *name_endpoint(struct ofi_rail *rail, char role, char *ret_name)
{
    uint64_t random[2];
    rg_random_bytes(random, sizeof random);
    snprintf(ret_name, SHM_NAME_LENGTH + 1, "%s%c-%016" PRIx64 "%016" PRIx64, SHM_PREFIX, role,
             random[0], random[1]);
    struct fi_info *info = library.dupinfo(rail->info);
    if (!info) {
        return NULL;
    }
    free(info->src_addr);
    info->src_addr = strdup(ret_name);
    info->src_addrlen = SHM_NAME_LENGTH + 1;
    if (!info->src_addr) {
        library.freeinfo(info);
        return NULL;
    }
    return info;
}

/*
 * libfabric 1.17 writes zeros over the unused end of a new file, half of its 16 MiB. Gives those
 * pages back: they read the same without.
 */
static void trim_own_file(int fd, off_t size)
{
    unsigned char piece[32768];
    off_t end = size - size % (off_t)sizeof piece;
    while (end > 0) {
        off_t begin = end - (off_t)sizeof piece;
        if (pread(fd, piece, sizeof piece, begin) != (ssize_t)sizeof piece || piece[0] != 0 ||
            memcmp(piece, piece + 1, sizeof piece - 1) != 0) {
            break;
        }
        end = begin;
    }
    if (end < size) {
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, end, size - end);
    }
}

static int lock_own_file(struct ofi_lane *lane, const char *name, struct rg_error *err)
{
    rg_autoclose int directory = open(SHM_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat facts;
    rg_autoclose int fd = directory < 0 ? -1 : open_shm_file(directory, name, &facts);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return rg_fail_errno(err, RG_RDMA_NOT_SUPPORTED, errno, "%s/%s cannot be locked",
                             SHM_DIRECTORY, name);
    }
    trim_own_file(fd, facts.st_size);
    lane->shm_lock_fd = RG_TAKE_FD(fd);
    return 0;
}

static int open_queues(struct ofi_lane *lane)
{
    struct ofi_rail *rail = lane->rail;
    struct fi_cq_attr queue = {
        .size = 2 * RG_LANE_DEPTH_MAX,
        .format = FI_CQ_FORMAT_CONTEXT,
        .wait_obj = rail->can_sleep ? FI_WAIT_FD : FI_WAIT_NONE,
    };
    int rc = fi_cq_open(rail->domain, &queue, &lane->cq, NULL);
    if (rc == -FI_ENOSYS && rail->provider == PROVIDER_OTHER) {
        queue.wait_obj = FI_WAIT_NONE;
        rc = fi_cq_open(rail->domain, &queue, &lane->cq, NULL);
    }
    if (rc) {
        return rc;
    }
    if (queue.wait_obj == FI_WAIT_FD &&
        fi_control(&lane->cq->fid, FI_GETWAIT, &lane->wait_fd) != 0) {
        lane->wait_fd = -1;
    }
    struct fi_av_attr addresses = {.type = FI_AV_TABLE, .count = PEERS_PER_LANE};
    rc = fi_av_open(rail->domain, &addresses, &lane->av, NULL);
    if (rc || rail->provider != PROVIDER_SHM) {
        return rc;
    }
    struct fi_cntr_attr counter = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    return fi_cntr_open(rail->domain, &counter, &lane->moved, NULL);
}

static int bind_and_enable(struct ofi_lane *lane)
{
    int rc = fi_ep_bind(lane->ep, &lane->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0) {
        rc = fi_ep_bind(lane->ep, &lane->av->fid, 0);
    }
    if (rc == 0 && lane->moved) {
        rc = fi_ep_bind(lane->ep, &lane->moved->fid, FI_REMOTE_WRITE | FI_REMOTE_READ);
    }
    return rc ? rc : fi_enable(lane->ep);
}

static int open_endpoint(struct ofi_lane *lane, char role, struct rg_error *err)
{
    struct ofi_rail *rail = lane->rail;
    if (lane->ep) {
        return 0;
    }
    char name[SHM_NAME_LENGTH + 1];
    struct fi_info *own = NULL;
    if (rail->provider == PROVIDER_SHM) {
        own = name_endpoint(rail, role, name);
        if (!own) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
    }
    int rc = open_queues(lane);
    if (rc == 0) {
        rc = fi_endpoint(rail->domain, own ? own : rail->info, &lane->ep, NULL);
    }
    if (rc == 0) {
        rc = bind_and_enable(lane);
    }
    if (own) {
        library.freeinfo(own);
    }
    if (rc == -FI_EADDRNOTAVAIL) {
        close_endpoint(lane);
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "Address \"%s\" is not one of this machine's.",
                        rail->rail.address);
    }
    if (rc) {
        close_endpoint(lane);
        return fail_provider(err, "no endpoint", rail->provider_name, rc);
    }
    if (rail->provider == PROVIDER_SHM) {
        rc = lock_own_file(lane, name, err);
        if (rc < 0) {
            close_endpoint(lane);
        }
    }
    return rc;
}

static int ofi_lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct ofi_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    init_lane(lane, rail_of(rail));
    *ret_lane = &lane->lane;
    return 0;
}

static void ofi_lane_close(struct rg_lane *public)
{
    struct ofi_lane *lane = lane_of(public);
    RG_ASSERT(lane->windows == 0);
    close_endpoint(lane);
    free(lane);
}

static int ofi_lane_reset(struct rg_lane *public, struct rg_error *err)
{
    struct ofi_lane *lane = lane_of(public);
    RG_ASSERT(lane->windows == 0);
    close_endpoint(lane);
    return 0;
}

/* ---- The peer of a lane ---- */

static bool is_our_provider(const struct ofi_rail *rail, const char *named)
{
    if (strcmp(named, rail->provider_name) == 0) {
        return true;
    }
    return rail->provider == PROVIDER_TCP && strcmp(named, "tcp") == 0;
}

static int bad_name(struct rg_error *err, const char *what)
{
    return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The RDMA token's endpoint name %s.", what);
}

/* A good token all the same, whose address is of no use here: the transfer is declined. */
static int useless_name(struct rg_error *err, enum rg_code code, const char *what)
{
    return rg_failf(err, code, "The RDMA token's endpoint address %s.", what);
}

static int check_ip_name(const struct ofi_rail *rail, const struct rg_rdma_window *window,
                         struct rg_error *err)
{
    union {
        sa_family_t family;
        struct sockaddr_in ip;
        struct sockaddr_in6 ip6;
    } name = {.family = AF_UNSPEC};
    const struct fi_info *info = rail->info;
    bool is_ip = info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6;
    if (!is_ip) {
        return window->endpoint_len == info->src_addrlen
                   ? 0
                   : bad_name(err, "has a length that this provider does not use");
    }
    memcpy(&name, window->endpoint, RG_MIN(sizeof name, window->endpoint_len));
    bool is_ip4 = name.family == AF_INET && window->endpoint_len == sizeof name.ip;
    bool is_ip6 = name.family == AF_INET6 && window->endpoint_len == sizeof name.ip6;
    if (!is_ip4 && !is_ip6) {
        return bad_name(err, "is not a socket address");
    }
    if (is_ip4 != (info->addr_format == FI_SOCKADDR_IN)) {
        return useless_name(err, RG_RDMA_NOT_SUPPORTED, "is of an IP version that this rail lacks");
    }
    uint32_t ip4 = ntohl(name.ip.sin_addr.s_addr);
    bool nobody = is_ip4
                      ? name.ip.sin_port == 0 || ip4 == INADDR_ANY || IN_MULTICAST(ip4) ||
                            ip4 == INADDR_BROADCAST
                      : name.ip6.sin6_port == 0 || IN6_IS_ADDR_UNSPECIFIED(&name.ip6.sin6_addr) ||
                            IN6_IS_ADDR_MULTICAST(&name.ip6.sin6_addr);
    return nobody ? useless_name(err, RG_RDMA_TRANSFER_FAILED, "is nobody's to connect to") : 0;
}

static int fail_gone(struct rg_error *err)
{
    return rg_failf(err, RG_RDMA_TRANSFER_FAILED,
                    "The RDMA transfer failed: the token's target is not there any more.");
}

/* Opens the peer's file to watch its life; what the provider will map must look like its own. */
static int check_shm_name(struct peer *peer, const struct rg_rdma_window *window,
                          struct rg_error *err)
{
    size_t len = strnlen((const char *)window->endpoint, window->endpoint_len);
    if (len + 1 < window->endpoint_len || !is_shm_name((const char *)window->endpoint, len) ||
        window->endpoint[sizeof SHM_PREFIX - 1] != 't') {
        return bad_name(err, "is not that of a target on this machine");
    }
    rg_autoclose int directory = open(SHM_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat facts;
    memcpy(peer->name, window->endpoint, len);
    peer->name[len] = 0;
    int fd = directory < 0 ? -1 : open_shm_file(directory, (const char *)peer->name, &facts);
    if (fd < 0 || facts.st_size < SHM_FILE_BYTES_MIN) {
        close_fd(fd);
        return fail_gone(err);
    }
    peer->alive_fd = fd;
    return 0;
}

static struct peer *find_peer(struct ofi_lane *lane, const struct rg_rdma_window *window)
{
    for (size_t i = 0; i < PEERS_PER_LANE; i++) {
        struct peer *peer = &lane->peers[i];
        if (peer->known && peer->name_len == window->endpoint_len &&
            memcmp(peer->name, window->endpoint, peer->name_len) == 0) {
            return peer;
        }
    }
    return NULL;
}

static struct peer *unused_peer(struct ofi_lane *lane)
{
    for (size_t i = 0; i < PEERS_PER_LANE; i++) {
        if (!lane->peers[i].known) {
            return &lane->peers[i];
        }
    }
    return NULL;
}

/* Makes sure of an unused place; the peer that was used longest ago gives way. */
static int make_room(struct ofi_lane *lane, struct rg_error *err)
{
    if (lane->rail->provider == PROVIDER_SHM && lane->met >= SHM_PEERS_PER_ENDPOINT) {
        close_endpoint(lane);
        return open_endpoint(lane, 'i', err);
    }
    if (unused_peer(lane)) {
        return 0;
    }
    if (lane->rail->provider == PROVIDER_SHM) {
        struct peer *oldest = &lane->peers[0];
        for (size_t i = 1; i < PEERS_PER_LANE; i++) {
            oldest = lane->peers[i].last_use < oldest->last_use ? &lane->peers[i] : oldest;
        }
        forget_peer(lane, oldest);
        return 0;
    }
    /* Elsewhere taking one address out leaves its connection open; a new endpoint starts clean. */
    close_endpoint(lane);
    return open_endpoint(lane, 'i', err);
}

static bool is_peer_alive(const struct peer *peer)
{
    return peer->alive_fd < 0 || is_owner_alive(peer->alive_fd);
}

static int add_peer(struct ofi_lane *lane, const struct rg_rdma_window *window,
                    struct peer **ret_peer, struct rg_error *err)
{
    struct ofi_rail *rail = lane->rail;
    struct peer fresh = {.alive_fd = -1};
    int rc = rail->provider == PROVIDER_SHM ? check_shm_name(&fresh, window, err)
                                            : check_ip_name(rail, window, err);
    if (rc < 0) {
        return rc;
    }
    memcpy(fresh.name, window->endpoint, window->endpoint_len);
    fresh.name_len = window->endpoint_len;
    rc = make_room(lane, err);
    struct peer *peer = unused_peer(lane);
    if (rc < 0) {
        close_fd(fresh.alive_fd);
        return rc;
    }
    if (fi_av_insert(lane->av, fresh.name, 1, &fresh.address, 0, NULL) != 1) {
        close_fd(fresh.alive_fd);
        return bad_name(err, "means nothing to the provider");
    }
    fresh.known = true;
    *peer = fresh;
    lane->met++;
    if (!is_peer_alive(peer)) {
        close_endpoint(lane);
        return fail_gone(err);
    }
    *ret_peer = peer;
    return 0;
}

static int ofi_lane_bind(struct rg_lane *public, const struct rg_rdma_window *window,
                         struct rg_error *err)
{
    struct ofi_lane *lane = lane_of(public);
    if (!is_our_provider(lane->rail, window->provider)) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "The token is for libfabric provider \"%s\", this rail is \"%s\".",
                        window->provider, lane->rail->provider_name);
    }
    int rc = open_endpoint(lane, 'i', err);
    if (rc == -RG_SERVICE_UNAVAILABLE) {
        return rg_lane_break(public, RG_BROKE_DEVICE, RG_CAUSE_PORT_DOWN, lane->rail->rail.address,
                             err);
    }
    if (rc < 0) {
        return rc;
    }
    struct peer *peer = find_peer(lane, window);
    if (peer && !is_peer_alive(peer)) {
        forget_peer(lane, peer);
        peer = NULL;
    }
    if (!peer) {
        rc = add_peer(lane, window, &peer, err);
        if (rc < 0) {
            return rc;
        }
    }
    lane->peer = peer;
    peer->last_use = ++lane->binds;
    lane->refused_at = 0;
    return 0;
}

static void ofi_lane_unbind(struct rg_lane *public)
{
    lane_of(public)->peer = NULL;
}

/* ---- Posting ---- */

static struct operation *free_operation(struct ofi_lane *lane)
{
    for (size_t i = 0; i < lane->lane.depth; i++) {
        if (!lane->operations[i].busy) {
            return &lane->operations[i];
        }
    }
    return NULL;
}

/*
 * Whether the peer's port refuses connections. The rxm layer keeps that to itself and tries again
 * for ever; so after a while we knock ourselves, without waiting.
 */
static bool is_port_closed(const struct peer *peer)
{
    rg_autoclose int fd = socket(((const struct sockaddr *)peer->name)->sa_family,
                                 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
        return false;
    }
    if (connect(fd, (const struct sockaddr *)peer->name, (socklen_t)peer->name_len) < 0) {
        struct pollfd item = {.fd = fd, .events = POLLOUT};
        int failed = errno;
        socklen_t size = sizeof failed;
        if (failed == EINPROGRESS && (poll(&item, 1, KNOCK_MS) <= 0 ||
                                      getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0)) {
            return false;
        }
        return failed == ECONNREFUSED;
    }
    return false;
}

/*
 * EAGAIN: full queues, or no connection: not yet, or, when a peer died between two operations, not
 * any more. A peer that takes nothing although nothing is in flight is given up after a while.
 */
static int refused(struct ofi_lane *lane, struct rg_error *err)
{
    if (lane->lane.outstanding > 0) {
        return rg_fail(err, RG_LIMIT);
    }
    uint64_t now = rg_clock_ms();
    if (lane->refused_at == 0) {
        lane->refused_at = now;
        lane->knock_at = now + KNOCK_AFTER_MS;
    }
    bool gone = now - lane->refused_at >= CONNECT_MS;
    if (!gone && lane->rail->provider == PROVIDER_TCP && now >= lane->knock_at) {
        lane->knock_at = now + KNOCK_AGAIN_MS;
        gone = is_port_closed(lane->peer);
    }
    if (!gone) {
        return rg_fail(err, RG_LIMIT);
    }
    return rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE,
                         "no connection to the token's endpoint", err);
}

static int post(struct ofi_lane *lane, struct rg_region *region, uint64_t region_offset,
                uint64_t window_offset, uint64_t length, enum rg_lane_operation kind,
                uint64_t cookie, struct rg_error *err)
{
    struct ofi_rail *rail = lane->rail;
    struct operation *operation = free_operation(lane);
    if (!operation) {
        return rg_fail(err, RG_LIMIT);
    }
    if (!is_peer_alive(lane->peer)) {
        return rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE,
                             "its process has ended", err);
    }
    const struct rg_rdma_window *window = &lane->lane.window;
    struct fid_mr *mr = ((struct ofi_region *)region)->mr;
    void *descriptor = mr ? fi_mr_desc(mr) : NULL;
    struct iovec local = {(char *)region->address + region_offset, length};
    struct fi_rma_iov remote = {
        .addr = (rail->virtual_addresses ? window->address : 0) + window_offset,
        .len = length,
        .key = window->rkey,
    };
    struct fi_msg_rma message = {
        .msg_iov = &local,
        .desc = &descriptor,
        .iov_count = 1,
        .addr = lane->peer->address,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &operation->context,
    };
    operation->cookie = cookie;
    operation->length = length;
    operation->kind = kind;
    uint64_t flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    ssize_t rc = kind == RG_OPERATION_WRITE ? fi_writemsg(lane->ep, &message, flags)
                                            : fi_readmsg(lane->ep, &message, flags);
    if (rc == -FI_EAGAIN) {
        return refused(lane, err);
    }
    if (rc) {
        return rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_OTHER, explain(rc), err);
    }
    operation->busy = true;
    lane->begun_ns = rg_clock_ns();
    lane->refused_at = 0;
    lane->nap_us = 0;
    return 0;
}

static int ofi_lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                          uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                          uint64_t cookie, struct rg_error *err)
{
    if (immediate) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "Transport ofi has no writes with immediate.");
    }
    return post(lane_of(lane), region, region_offset, window_offset, length, RG_OPERATION_WRITE,
                cookie, err);
}

static int ofi_lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                         uint64_t window_offset, uint64_t length, uint64_t cookie,
                         struct rg_error *err)
{
    return post(lane_of(lane), region, region_offset, window_offset, length, RG_OPERATION_READ,
                cookie, err);
}

/* ---- Completions ---- */

static enum rg_cause classify(int code)
{
    switch (code) {
    case FI_EACCES:
    case FI_EKEYREJECTED:
    case FI_EPERM:
    case FI_EFAULT:
    case FI_EINVAL:
        return RG_CAUSE_REMOTE_ACCESS;
    case FI_ECONNABORTED:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ENOTCONN:
    case EPIPE:
    case FI_ESHUTDOWN:
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_ENETUNREACH:
    case FI_ETIMEDOUT:
    case FI_ECANCELED:
    case ESRCH:
        return RG_CAUSE_PEER_GONE;
    case FI_ETRUNC:
        return RG_CAUSE_SHORT;
    default:
        return RG_CAUSE_OTHER;
    }
}

static void complete(struct operation *operation, struct rg_completion *ret_completion)
{
    *ret_completion = (struct rg_completion){
        .cookie = operation->cookie,
        .operation = operation->kind,
        .length = operation->length,
    };
    operation->busy = false;
}

/* Takes one error; its operation may be nobody's (a peer's). Returns the completions made: 0 or 1.
 */
static size_t take_error(struct ofi_lane *lane, struct rg_completion *ret_completion)
{
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(lane->cq, &error, 0) <= 0 || !error.op_context) {
        return 0;
    }
    struct operation *operation = error.op_context;
    if (operation < lane->operations ||
        operation >= lane->operations + RG_ARRAY_LENGTH(lane->operations) || !operation->busy) {
        return 0;
    }
    complete(operation, ret_completion);
    ret_completion->broke = RG_BROKE_CONNECTION;
    ret_completion->cause = is_peer_alive(lane->peer) ? classify(error.err) : RG_CAUSE_PEER_GONE;
    ret_completion->provider_status = error.err;
    snprintf(ret_completion->provider_text, sizeof ret_completion->provider_text, "%s",
             explain(error.err));
    return 1;
}

/* Learns how long one has to wait. */
static void note_move(struct ofi_lane *lane)
{
    uint64_t took_us = RG_MIN((rg_clock_ns() - lane->begun_ns) / 1000, (uint64_t)USUAL_MAX_US);
    lane->usual_us = (3 * lane->usual_us + took_us) / 4;
    lane->nap_us = 0;
}

static int ofi_lane_poll(struct rg_lane *public, struct rg_completion *completions, size_t room,
                         size_t *ret_count, struct rg_error *err)
{
    struct ofi_lane *lane = lane_of(public);
    size_t count = 0;
    while (lane->cq && count < room) {
        struct fi_cq_entry entry;
        ssize_t rc = fi_cq_read(lane->cq, &entry, 1);
        if (rc == -FI_EAGAIN) {
            break;
        }
        if (rc == -FI_EAVAIL) {
            count += take_error(lane, &completions[count]);
            continue;
        }
        if (rc < 0) {
            return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_OTHER, explain(rc), err);
        }
        struct operation *operation = entry.op_context;
        if (rc == 1 && operation && operation->busy) {
            complete(operation, &completions[count++]);
        }
    }
    if (count > 0) {
        note_move(lane);
    }
    *ret_count = count;
    return 0;
}

/* Sleeps on up to two descriptors; 1 when the second is readable. */
static int sleep_on(int fd, int wake_fd, uint64_t timeout_us)
{
    struct pollfd items[2] = {{.fd = fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    struct timespec time = {
        .tv_sec = (time_t)(timeout_us / 1000000),
        .tv_nsec = (long)(timeout_us % 1000000 * 1000),
    };
    int rc = ppoll(items, 2, &time, NULL);
    return rc > 0 && items[1].revents ? 1 : 0;
}

/*
 * Sleeping without a descriptor: first for half of what an operation usually takes, then in short
 * naps that grow.
 */
static uint64_t next_nap_us(struct ofi_lane *lane)
{
    static _Thread_local bool is_exact;
    if (!is_exact) {
        /* A thread's sleeps are 50 us too long by default. */
        is_exact = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL) == 0;
    }
    bool is_expecting = lane->lane.outstanding > 0 || lane->is_awaited;
    if (lane->nap_us == 0 && is_expecting && lane->usual_us / 2 > NAP_FIRST_US) {
        lane->nap_us = NAP_FIRST_US;
        return lane->usual_us / 2;
    }
    lane->nap_us = lane->nap_us ? RG_MIN(lane->nap_us * 2, (uint64_t)NAP_MAX_US) : NAP_FIRST_US;
    return lane->nap_us;
}

static int ofi_lane_sleep(struct rg_lane *public, int wake_fd, uint64_t timeout_us,
                          struct rg_error *err)
{
    struct ofi_lane *lane = lane_of(public);
    if (lane->wait_fd >= 0) {
        struct fid *waited[] = {&lane->cq->fid};
        int rc = fi_trywait(lane->rail->fabric, waited, 1);
        if (rc == -FI_EAGAIN) {
            return 0;
        }
        if (rc == 0) {
            return sleep_on(lane->wait_fd, wake_fd, timeout_us);
        }
    }
    if (public->outstanding > 0 && lane->peer && !is_peer_alive(lane->peer)) {
        return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE,
                             "its process has ended", err);
    }
    return sleep_on(-1, wake_fd, RG_MIN(next_nap_us(lane), timeout_us));
}

static int ofi_lane_flush(struct rg_lane *public, unsigned *ret_quiet, struct rg_error *err)
{
    struct ofi_lane *lane = lane_of(public);
    bool alive = lane->peer && is_peer_alive(lane->peer);
    close_endpoint(lane);
    switch (lane->rail->provider) {
    case PROVIDER_SHM:
        *ret_quiet = alive ? 0 : RG_QUIET_LOCAL | RG_QUIET_REMOTE;
        break;
    case PROVIDER_TCP:
    case PROVIDER_OTHER:
        *ret_quiet = RG_QUIET_LOCAL;
        break;
    }
    return 0;
}

/* ---- The target's side ---- */

static int ofi_lane_progress(struct rg_lane *public, struct rg_error *err)
{
    struct ofi_lane *lane = lane_of(public);
    if (!lane->cq) {
        return 0;
    }
    struct fi_cq_entry entry;
    ssize_t rc = fi_cq_read(lane->cq, &entry, 1);
    if (rc == -FI_EAVAIL) {
        /* A peer's mistake, or a peer that left: its problem, and the provider has dealt with it.
         */
        struct fi_cq_err_entry error = {0};
        (void)fi_cq_readerr(lane->cq, &error, 0);
        return 1;
    }
    if (rc < 0 && rc != -FI_EAGAIN) {
        return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_OTHER, explain(rc), err);
    }
    bool moved = rc > 0;
    if (lane->moved) {
        uint64_t count = fi_cntr_read(lane->moved);
        moved = moved || count != lane->moved_seen;
        lane->moved_seen = count;
    }
    if (moved && lane->is_awaited) {
        note_move(lane);
        lane->is_awaited = false;
    } else if (moved) {
        lane->nap_us = 0;
    }
    return moved;
}

static int name_window(struct ofi_lane *lane, struct rg_rdma_window *window, struct rg_error *err)
{
    window->endpoint_len = sizeof window->endpoint;
    int rc = fi_getname(&lane->ep->fid, window->endpoint, &window->endpoint_len);
    if (rc || window->endpoint_len > sizeof window->endpoint) {
        return fail_provider(err, "the endpoint's name is too long for a token",
                             lane->rail->provider_name, rc ? rc : -FI_ETOOSMALL);
    }
    return 0;
}

static int ofi_window_mint(struct rg_lane *public, struct rg_region *region, uint64_t offset,
                           uint64_t length, enum rg_direction direction,
                           struct rg_target **ret_target, struct rg_error *err)
{
    struct ofi_lane *lane = lane_of(public);
    struct ofi_rail *rail = lane->rail;
    if (rail->provider == PROVIDER_SHM && lane->windows == 0 &&
        lane->met >= SHM_PEERS_PER_ENDPOINT) {
        close_endpoint(lane);
    }
    int rc = open_endpoint(lane, 't', err);
    if (rc < 0) {
        return rc;
    }
    rg_autofree struct ofi_target *target = calloc(1, sizeof *target);
    if (!target) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct rg_rdma_window *window = &target->target.window;
    rc = name_window(lane, window, err);
    if (rc < 0) {
        return rc;
    }
    char *address = (char *)region->address + offset;
    uint64_t access = direction == RG_DIRECTION_GET ? FI_REMOTE_WRITE : FI_REMOTE_READ;
    rc = register_mr(rail, address, length, access, &target->mr, err);
    if (rc < 0) {
        return rc;
    }
    window->dialect = RG_DIALECT_OFI1;
    window->transport = RG_TRANSPORT_OFI;
    window->address = (uintptr_t)address;
    window->length = length;
    window->rkey = fi_mr_key(target->mr);
    snprintf(window->provider, sizeof window->provider, "%s", rail->provider_name);
    lane->met++;
    lane->windows++;
    lane->begun_ns = rg_clock_ns();
    lane->is_awaited = true;
    lane->nap_us = 0;
    *ret_target = &RG_TAKE(target)->target;
    return 0;
}

static int ofi_window_revoke(struct rg_target *public, bool settled, struct rg_error *err)
{
    struct ofi_target *target = (struct ofi_target *)public;
    struct ofi_lane *lane = lane_of(public->lane);
    int rc = fi_close(&target->mr->fid);
    free(target);
    RG_ASSERT(lane->windows > 0);
    lane->windows--;
    if (!settled) {
        /* A message may be half received; only the endpoint's end stops that. */
        close_endpoint(lane);
        (void)rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED, NULL, NULL);
    }
    return rc ? fail_provider(err, "the window's key cannot be withdrawn",
                              lane->rail->provider_name, rc)
              : 0;
}

const struct rg_transport rg_transport_ofi = {
    .name = "ofi",
    .kind = RG_TRANSPORT_OFI,
    .load = ofi_load,
    .rail_open = ofi_rail_open,
    .rail_close = ofi_rail_close,
    .rail_check = ofi_rail_check,
    .region_register = ofi_region_register,
    .region_register_dmabuf = rg_unsupported_register_dmabuf,
    .region_deregister = ofi_region_deregister,
    .lane_open = ofi_lane_open,
    .lane_close = ofi_lane_close,
    .lane_reset = ofi_lane_reset,
    .lane_address = rg_unsupported_address,
    .lane_pair = rg_unsupported_pair,
    .lane_bind = ofi_lane_bind,
    .lane_unbind = ofi_lane_unbind,
    .lane_write = ofi_lane_write,
    .lane_read = ofi_lane_read,
    .lane_receive = rg_unsupported_receive,
    .lane_poll = ofi_lane_poll,
    .lane_sleep = ofi_lane_sleep,
    .lane_flush = ofi_lane_flush,
    .lane_progress = ofi_lane_progress,
    .window_mint = ofi_window_mint,
    .window_revoke = ofi_window_revoke,
};
