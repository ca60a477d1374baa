/*
 * What two hosts have to agree about. See peer_facts.h.
 */
#include "host/peer_facts.h"

#include "base/attr.h"
#include "host/facts.h"
#include "host/json.h"
#include "host/peer_wire.h"
#include "host/probe.h"
#include "host/words.h"
#include "rdma/dcb.h"
#include "rdma/nic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define READ_MS 25000 /* less than the other waits (HELLO_MS in peer.c) */

/* ---- Telling ---- */

static const char *type_name(enum rg_gid_type type)
{
    return type == RG_GID_ROCE_V2      ? "RoCE v2"
           : type == RG_GID_ROCE_V1    ? "RoCE v1"
           : type == RG_GID_INFINIBAND ? "IB"
                                       : "unknown";
}

static json_t *tell_port(const struct rg_host_facts *facts, const struct rg_host_port *port)
{
    const struct rg_rdma_device *device = &facts->devices.rdma[port->device];
    const struct rg_survey_port *survey = rg_host_port_survey(&facts->devices, port);
    const struct rg_netdev *netdev = rg_host_netdev(&facts->devices, port->netdev);
    const struct rg_gid_entry *gid = rg_host_port_gid(port);
    struct rg_dcb dcb;
    char text[RG_GID_TEXT_MAX + 1] = "";
    uint64_t mbits = 0;
    rg_dcb_init(&dcb);
    if (port->netdev[0] && rg_host_port_is_ethernet(port)) {
        (void)rg_nic_kernel.dcb(port->netdev, &dcb, NULL);
    }
    if (gid) {
        rg_gid_text(gid->gid, text);
    }
    (void)rg_host_rate_parse(port->rate.text, &mbits);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:b, s:b, s:b, s:s, s:i, s:s, s:s, s:i, s:i, s:I, s:i, s:i}",
        "device", device->name, "family", rg_nic_family_name(device->family), "firmware",
        device->firmware.text, "board", device->board.text, "number", (int)port->number, "active",
        rg_host_port_is_active(port), "ethernet", rg_host_port_is_ethernet(port), "iwarp",
        device->node_type.text[0] == '4', "gid", text, "gid_index", gid ? gid->index : -1,
        "gid_type", gid ? type_name(gid->type) : "", "netdev", port->netdev, "netdev_mtu",
        netdev ? (int)netdev->mtu.value : 0, "active_mtu", survey ? (int)survey->active_mtu : 0,
        "rate_mbits", (json_int_t)mbits, "traffic_class",
        dcb.known ? (int)rg_dcb_traffic_class(&dcb) : -1, "pfc",
        dcb.known ? (int)dcb.pfc_enabled : 0);
}

/* The interface that has this address. */
static const char *netdev_of(const struct rg_host_facts *facts, const char *address)
{
    for (size_t i = 0; i < facts->ports.address_count; i++) {
        if (strcmp(facts->ports.addresses[i].text, address) == 0) {
            return facts->ports.addresses[i].netdev;
        }
    }
    return "";
}

static json_t *tell(struct rg_source *source, const struct rg_host_facts *facts,
                    const char *address)
{
    json_t *ports = json_array();
    const char *netdev = netdev_of(facts, address);
    struct rg_number mtu = {0};
    for (size_t i = 0; i < facts->ports.count && i < RG_PEER_PORTS_MAX; i++) {
        (void)json_array_append_new(ports, tell_port(facts, &facts->ports.list[i]));
    }
    if (netdev[0]) {
        rg_source_number(source, &mtu, "/sys/class/net/%s/mtu", netdev);
    }
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:o}", "type", "facts",
                     "protocol", RG_PEER_PROTOCOL, "version", RG_VERSION, "host",
                     facts->system.hostname.text, "kernel", facts->system.kernel.text, "boot_id",
                     facts->system.boot_id.text, "address", address, "netdev", netdev, "netdev_mtu",
                     (int)mtu.value, "ports", ports);
}

static int tell_in_child(void *argument, int fd)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_host_plan plan;
    RG_CLEANUP(rg_source_cleanup) struct rg_source *source = NULL;
    RG_CLEANUP(rg_host_facts_cleanup) struct rg_host_facts *facts = NULL;
    rg_host_plan_init(&plan);
    plan.has_interval = false;
    plan.interval_ms = 0;
    if (rg_source_open("", &source, &err) < 0 || rg_host_read(source, &plan, &facts, &err) < 0) {
        return 1;
    }
    return rg_host_tell_json(tell(source, facts, argument), fd);
}

json_t *rg_peer_tell_facts(const char *address, struct rg_error *err)
{
    RG_BUF(text, RG_PEER_MESSAGE_MAX);
    struct rg_probe_result result;
    char copy[64];
    json_t *message = NULL;
    snprintf(copy, sizeof copy, "%s", address);
    if (rg_probe_run(tell_in_child, copy, READ_MS, &text, &result, err) < 0) {
        return NULL;
    }
    if (result.end != RG_PROBE_DONE) {
        (void)rg_failf(err, RG_SERVICE_UNAVAILABLE, "this host's facts could not be read in time");
        return NULL;
    }
    return rg_peer_parse(rg_buf_span(&text), &message, err) < 0 ? NULL : message;
}

/* ---- Taking ---- */

static void take_text(const json_t *object, const char *name, char *text, size_t room)
{
    (void)rg_words_copy(text, room, rg_span_text(rg_peer_text(object, name)));
}

static void take_port(const json_t *object, struct rg_peer_port *port)
{
    *port = (struct rg_peer_port){
        .number = (unsigned)rg_peer_number(object, "number", 1, 65535, 0),
        .is_active = json_is_true(json_object_get(object, "active")),
        .is_ethernet = json_is_true(json_object_get(object, "ethernet")),
        .is_iwarp = json_is_true(json_object_get(object, "iwarp")),
        .gid_index = (int)rg_peer_number(object, "gid_index", 0, 65535, -1),
        .netdev_mtu = (unsigned)rg_peer_number(object, "netdev_mtu", 0, 1 << 20, 0),
        .active_mtu = (unsigned)rg_peer_number(object, "active_mtu", 0, 1 << 20, 0),
        .rate_mbits = (uint64_t)rg_peer_number(object, "rate_mbits", 0, INT32_MAX, 0),
        .traffic_class = (int)rg_peer_number(object, "traffic_class", 0, 255, -1),
        .pfc = (unsigned)rg_peer_number(object, "pfc", 0, 255, 0),
    };
    take_text(object, "device", port->device, sizeof port->device);
    take_text(object, "family", port->family, sizeof port->family);
    take_text(object, "firmware", port->firmware, sizeof port->firmware);
    take_text(object, "board", port->board, sizeof port->board);
    take_text(object, "gid", port->gid, sizeof port->gid);
    take_text(object, "gid_type", port->gid_type, sizeof port->gid_type);
    take_text(object, "netdev", port->netdev, sizeof port->netdev);
}

bool rg_peer_take_facts(const json_t *object, struct rg_peer_facts *ret_facts)
{
    const json_t *ports = json_object_get(object, "ports");
    if (strcmp(rg_peer_type(object), "facts") != 0 || !json_is_array(ports)) {
        return false;
    }
    memset(ret_facts, 0, sizeof *ret_facts);
    take_text(object, "host", ret_facts->host, sizeof ret_facts->host);
    take_text(object, "version", ret_facts->version, sizeof ret_facts->version);
    take_text(object, "kernel", ret_facts->kernel, sizeof ret_facts->kernel);
    take_text(object, "boot_id", ret_facts->boot_id, sizeof ret_facts->boot_id);
    take_text(object, "netdev", ret_facts->netdev, sizeof ret_facts->netdev);
    take_text(object, "address", ret_facts->address, sizeof ret_facts->address);
    take_text(object, "gpu", ret_facts->gpu, sizeof ret_facts->gpu);
    ret_facts->netdev_mtu = (unsigned)rg_peer_number(object, "netdev_mtu", 0, 1 << 20, 0);
    size_t index;
    const json_t *port;
    json_array_foreach(ports, index, port)
    {
        if (ret_facts->port_count < RG_PEER_PORTS_MAX) {
            take_port(port, &ret_facts->ports[ret_facts->port_count++]);
        }
    }
    return true;
}

const struct rg_peer_port *rg_peer_port_of(const struct rg_peer_facts *facts)
{
    const struct rg_peer_port *active = NULL;
    for (size_t i = 0; i < facts->port_count; i++) {
        const struct rg_peer_port *port = &facts->ports[i];
        bool is_of = strcmp(port->gid, facts->address) == 0 ||
                     (port->netdev[0] && strcmp(port->netdev, facts->netdev) == 0);
        if (is_of && port->is_active) {
            return port;
        }
        active = active || !port->is_active ? active : port;
    }
    return active;
}

/* ---- Comparing ---- */

static struct rg_finding *find(struct rg_findings *findings, const char *id, bool bad,
                               enum rg_verdict worst, const char *good_text, const char *bad_text)
{
    findings->check = rg_check_find(id);
    struct rg_finding *finding =
        rg_find(findings, bad ? worst : RG_VERDICT_OK, "", "%s", bad ? bad_text : good_text);
    rg_find_where_text(finding, "both hosts");
    return finding;
}

static void compare_mtu(const struct rg_peer_facts *own, const struct rg_peer_facts *other,
                        struct rg_findings *findings)
{
    const struct rg_peer_port *mine = rg_peer_port_of(own), *theirs = rg_peer_port_of(other);
    bool bad = own->netdev_mtu && other->netdev_mtu && own->netdev_mtu != other->netdev_mtu;
    bool verbs = mine && theirs && mine->active_mtu && theirs->active_mtu &&
                 mine->active_mtu != theirs->active_mtu;
    if (!own->netdev_mtu || !other->netdev_mtu) {
        findings->check = rg_check_find("PEER-MTU");
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "The interface of the connection's address is not known on both hosts.");
        return;
    }
    struct rg_finding *finding = find(findings, "PEER-MTU", bad || verbs, RG_VERDICT_FAIL,
                                      "The MTUs are the same.", "The MTUs differ.");
    rg_find_value(finding, "%s %u, %s %u; RDMA %u and %u", own->netdev, own->netdev_mtu,
                  other->netdev, other->netdev_mtu, mine ? mine->active_mtu : 0,
                  theirs ? theirs->active_mtu : 0);
    if (bad) {
        bool mine_is_small = own->netdev_mtu < other->netdev_mtu;
        rg_find_remedy(finding, "ip link set %s mtu %u   # on %s",
                       mine_is_small ? own->netdev : other->netdev,
                       mine_is_small ? other->netdev_mtu : own->netdev_mtu,
                       mine_is_small ? own->host : other->host);
    } else if (verbs) {
        rg_find_remedy(finding, "ibv_devinfo -v | grep -E 'hca_id|active_mtu'   # on both");
    }
}

/* The line for the host whose lossless priorities are not the planned one. */
static void mend_pfc(struct rg_finding *finding, const struct rg_peer_port *port, const char *host,
                     unsigned priority)
{
    if (port->pfc != 1u << priority) {
        rg_find_remedy(finding,
                       "dcb pfc set dev %s prio-pfc all:off %u:on   # on %s, and its switch port",
                       port->netdev, priority, host);
    }
}

static void compare_ports(const struct rg_peer_facts *own, const struct rg_peer_facts *other,
                          const struct rg_peer_port *mine, const struct rg_peer_port *theirs,
                          unsigned priority, struct rg_findings *findings)
{
    bool layer = mine->is_ethernet != theirs->is_ethernet || mine->is_iwarp != theirs->is_iwarp;
    struct rg_finding *finding =
        find(findings, "PEER-LAYER", layer, RG_VERDICT_FAIL, "Both speak the same.",
             "The two do not speak the same protocol.");
    rg_find_value(finding, "%s %s, %s %s", mine->device,
                  mine->is_iwarp      ? "iWARP"
                  : mine->is_ethernet ? "RoCE"
                                      : "InfiniBand",
                  theirs->device,
                  theirs->is_iwarp      ? "iWARP"
                  : theirs->is_ethernet ? "RoCE"
                                        : "InfiniBand");
    if (layer) {
        rg_find_remedy(finding,
                       "devlink dev param show | grep -E 'enable_(roce|iwarp)'   # irdma runs "
                       "as one of the two");
    }
    bool family = (strchr(mine->gid, ':') == NULL) != (strchr(theirs->gid, ':') == NULL);
    bool gid = strcmp(mine->gid_type, theirs->gid_type) != 0 || family;
    finding = find(findings, "PEER-GID", gid, RG_VERDICT_FAIL, "GIDs of one type.",
                   "GIDs of different type or address family.");
    rg_find_value(finding, "%s index %d %s, %s index %d %s", mine->gid, mine->gid_index,
                  mine->gid_type, theirs->gid, theirs->gid_index, theirs->gid_type);
    if (gid) {
        rg_find_remedy(finding,
                       "ip addr show %s   # give both interfaces addresses of one family; "
                       "RoCE v2 wants an IP address",
                       mine->netdev);
    }
    if (mine->is_ethernet && theirs->is_ethernet) {
        finding = find(findings, "PEER-CLASS", mine->traffic_class != theirs->traffic_class,
                       RG_VERDICT_WARN, "The same traffic class.", "Different traffic classes.");
        rg_find_value(finding, "%d and %d (-1: no DCB)", mine->traffic_class,
                      theirs->traffic_class);
        if (mine->traffic_class != theirs->traffic_class) {
            rg_find_remedy(finding, "dcb app show dev %s; dcb app show dev %s   # on either host",
                           mine->netdev, theirs->netdev);
        }
        finding = find(findings, "PEER-PFC", mine->pfc != theirs->pfc, RG_VERDICT_FAIL,
                       "The same priorities are lossless.", "Different priorities are lossless.");
        rg_find_value(finding, "bits 0x%02x and 0x%02x", mine->pfc, theirs->pfc);
        if (mine->pfc != theirs->pfc) {
            rg_find_remedy(finding, "dcb pfc show dev %s; dcb pfc show dev %s   # on either host",
                           mine->netdev, theirs->netdev);
            mend_pfc(finding, mine, own->host, priority);
            mend_pfc(finding, theirs, other->host, priority);
        }
    }
    if (strcmp(mine->family, theirs->family) == 0 && strcmp(mine->board, theirs->board) == 0) {
        bool firmware = strcmp(mine->firmware, theirs->firmware) != 0;
        finding = find(findings, "PEER-FW", firmware, RG_VERDICT_WARN, "The same firmware.",
                       "Cards of one kind, and different firmware.");
        rg_find_value(finding, "%s and %s", mine->firmware, theirs->firmware);
        if (firmware) {
            rg_find_remedy(finding, "devlink dev info   # on both; bring the older one up");
        }
    }
    if (mine->rate_mbits && theirs->rate_mbits) {
        bool rate = mine->rate_mbits != theirs->rate_mbits;
        finding = find(findings, "PEER-RATE", rate, RG_VERDICT_WARN, "The same rate.",
                       "The ports run at different rates.");
        rg_find_value(finding, "%" PRIu64 " and %" PRIu64 " Mbit/s", mine->rate_mbits,
                      theirs->rate_mbits);
        if (rate) {
            bool slow = mine->rate_mbits < theirs->rate_mbits;
            rg_find_remedy(finding, "rdma link; ethtool %s   # on %s, the slower one",
                           slow ? mine->netdev : theirs->netdev, slow ? own->host : other->host);
        }
    }
}

#define CLOCK_WARN_US 1000000
#define CLOCK_FAIL_US (300 * (int64_t)1000000)

static void compare_clocks(const struct rg_peer_clock *clock, struct rg_findings *findings)
{
    if (!clock->known) {
        return;
    }
    int64_t apart = clock->offset_us < 0 ? -clock->offset_us : clock->offset_us;
    apart = apart > clock->error_us ? apart - clock->error_us : 0;
    struct rg_finding *finding = find(findings, "PEER-CLOCK", apart > CLOCK_WARN_US,
                                      apart > CLOCK_FAIL_US ? RG_VERDICT_FAIL : RG_VERDICT_WARN,
                                      "The clocks agree.", "The clocks are apart.");
    rg_find_value(finding, "%+.3f ms, known to %.3f ms", (double)clock->offset_us / 1000,
                  (double)clock->error_us / 1000);
    if (apart > CLOCK_WARN_US) {
        rg_find_remedy(finding,
                       "systemctl enable --now chronyd && chronyc makestep   # Debian: chrony");
    }
}

void rg_peer_compare(const struct rg_peer_facts *own, const struct rg_peer_facts *other,
                     const struct rg_peer_clock *clock, unsigned priority,
                     struct rg_findings *findings)
{
    const struct rg_peer_port *mine = rg_peer_port_of(own), *theirs = rg_peer_port_of(other);
    compare_mtu(own, other, findings);
    if (mine && theirs) {
        compare_ports(own, other, mine, theirs, priority, findings);
    } else {
        findings->check = rg_check_find("PEER-LAYER");
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "%s active RDMA port: only software transports can be tried.",
                      !mine && !theirs ? "Neither host has an"
                      : !mine          ? "This host has no"
                                       : "The other host has no");
    }
    compare_clocks(clock, findings);
}
