/*
 * Rails: what is asked of a provider, what it says it can do, its fabric and its domain.
 */
#include "rdma/ofi_inside.h"

#include "base/attr.h"
#include "base/checked.h"
#include "rdma/ofi_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define OPERATION_BYTES_MAX ((uint64_t)1 << 30)

#define SHM_QUEUE 64

static struct fi_info *make_hints(enum rg_ofi_provider provider, const char *name)
{
    struct fi_info *hints = rg_ofi_library.dupinfo(NULL);
    if (!hints) {
        return NULL;
    }
    hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if (provider == RG_OFI_SHM) {
        hints->caps |= FI_RMA_EVENT;
        hints->tx_attr->size = SHM_QUEUE;
        hints->rx_attr->size = SHM_QUEUE;
    }
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (provider == RG_OFI_TCP) {
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
        rg_ofi_library.freeinfo(hints);
        return NULL;
    }
    return hints;
}

/* The name that goes into the path: the core provider, without layers. */
static void name_path(struct rg_ofi_rail *rail)
{
    struct span rest = rg_span_text(rail->provider_name);
    struct span core = rg_span_cut(&rest, ';');
    snprintf(rail->rail.path, sizeof rail->rail.path, "ofi:%.*s", RG_SPAN_ARG(core));
}

static void name_address(struct rg_ofi_rail *rail)
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

static int get_info(struct rg_ofi_rail *rail, const struct rg_rail_config *config,
                    struct rg_error *err)
{
    if (rail->provider == RG_OFI_TCP && config->address[0] && !is_ip(config->address)) {
        return rg_failf(err, RG_SETTING, "\"%s\" is not an IP address.", config->address);
    }
    struct fi_info *hints = make_hints(rail->provider, rail->provider_name);
    if (!hints) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    const char *node = config->address[0] ? config->address : NULL;
    if (!node && rail->provider == RG_OFI_TCP) {
        node = "127.0.0.1";
    }
    uint64_t flags = node ? FI_SOURCE | FI_NUMERICHOST : 0;
    if (rail->provider == RG_OFI_SHM) {
        node = NULL;
        flags = 0;
    }
    int rc = rg_ofi_library.getinfo(FI_VERSION(1, 17), node, node ? "0" : NULL, flags, hints,
                                    &rail->info);
    rg_ofi_library.freeinfo(hints);
    if (rc == -FI_ENODATA || rc == -FI_EADDRNOTAVAIL) {
        return rg_failf(err, config->address[0] ? RG_SETTING : RG_RDMA_NOT_SUPPORTED,
                        "libfabric has no provider \"%s\" that fits%s%s%s.", rail->provider_name,
                        config->address[0] ? " address \"" : "", config->address,
                        config->address[0] ? "\"" : "");
    }
    return rc ? rg_ofi_fail(err, "cannot be queried", rail->provider_name, rc) : 0;
}

void rg_ofi_rail_close(struct rg_rail *public)
{
    struct rg_ofi_rail *rail = rg_ofi_rail_of(public);
    rg_ofi_close_fid(rail->domain ? &rail->domain->fid : NULL);
    rg_ofi_close_fid(rail->fabric ? &rail->fabric->fid : NULL);
    if (rail->info) {
        rg_ofi_library.freeinfo(rail->info);
    }
    free(rail);
}

static void cleanup_rail(struct rg_ofi_rail **rail)
{
    if (*rail) {
        rg_ofi_rail_close(&(*rail)->rail);
    }
}

static int open_domain(struct rg_ofi_rail *rail, struct rg_error *err)
{
    int rc = rg_ofi_library.fabric(rail->info->fabric_attr, &rail->fabric, NULL);
    if (rc) {
        return rg_ofi_fail(err, "the fabric cannot be opened", rail->provider_name, rc);
    }
    rc = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
    if (rc) {
        return rg_ofi_fail(err, "the domain cannot be opened", rail->provider_name, rc);
    }
    return 0;
}

static void choose_provider(struct rg_ofi_rail *rail, const char *device)
{
    if (!device[0] || strcmp(device, "tcp") == 0 || strcmp(device, "tcp;ofi_rxm") == 0) {
        rail->provider = RG_OFI_TCP;
        device = "tcp;ofi_rxm";
    } else if (strcmp(device, "shm") == 0) {
        rail->provider = RG_OFI_SHM;
    } else {
        rail->provider = RG_OFI_OTHER;
    }
    snprintf(rail->provider_name, sizeof rail->provider_name, "%s", device);
}

static void describe_rail(struct rg_ofi_rail *rail)
{
    const struct fi_domain_attr *domain = rail->info->domain_attr;
    struct rg_rail *public = &rail->rail;
    rail->virtual_addresses = domain->mr_mode & FI_MR_VIRT_ADDR;
    rail->provider_keys = domain->mr_mode & FI_MR_PROV_KEY;
    rail->local_keys = domain->mr_mode & FI_MR_LOCAL;
    rail->can_sleep = rail->provider != RG_OFI_SHM;
    size_t key_bytes = RG_MIN(domain->mr_key_size, sizeof(uint64_t));
    rail->key_mask =
        key_bytes >= 8 || key_bytes == 0 ? UINT64_MAX >> 1 : ((uint64_t)1 << (8 * key_bytes)) - 1;
    public->gid_index = -1;
    public->traffic_class = -1;
    public->operation_bytes_max =
        RG_MIN((uint64_t)rail->info->ep_attr->max_msg_size, OPERATION_BYTES_MAX);
    public->is_hardware =
        rail->provider == RG_OFI_OTHER && strncmp(rail->provider_name, "sockets", 7) != 0 &&
        strncmp(rail->provider_name, "udp", 3) != 0 && strncmp(rail->provider_name, "net", 3) != 0;
    public->pins_memory = public->is_hardware;
    public->target_needs_progress =
        domain->data_progress == FI_PROGRESS_MANUAL || rail->provider != RG_OFI_OTHER;
    name_path(rail);
    name_address(rail);
    (void)rg_ofi_address_gid(public->address, public->gid, &public->subnet_bits);
    snprintf(public->device, sizeof public->device, "%s", rail->provider_name);
}

/*
 * Opens and closes one endpoint: so that what cannot work fails here, at start-up, and so that the
 * signal handlers that the provider installs with its first endpoint come and go now.
 */
static int try_endpoint(struct rg_ofi_rail *rail, struct rg_error *err)
{
    struct rg_ofi_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rg_ofi_lane_init(lane, rail);
    int rc = rg_ofi_endpoint_open(lane, 'i', err);
    rg_ofi_endpoint_close(lane);
    free(lane);
    return rc;
}

static int set_up(struct rg_ofi_rail *rail, struct rg_error *err)
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

int rg_ofi_rail_open(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                     struct rg_error *err)
{
    RG_CLEANUP(cleanup_rail) struct rg_ofi_rail *rail = calloc(1, sizeof *rail);
    if (!rail) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rail->rail.config = *config;
    choose_provider(rail, config->device);
    if (rail->provider == RG_OFI_SHM) {
        rg_ofi_shm_remove_leftovers();
    }
    struct rg_ofi_signals signals;
    rg_ofi_save_signals(&signals);
    int rc = set_up(rail, err);
    rg_ofi_restore_signals(&signals);
    if (rc < 0) {
        return rc;
    }
    *ret_rail = &RG_TAKE(rail)->rail;
    return 0;
}

/* Providers say nothing about their ports without an operation; there is nothing to ask. */
int rg_ofi_rail_check(struct rg_rail *rail, struct rg_error *err)
{
    return 0;
}
