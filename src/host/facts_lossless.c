/*
 * Reads what makes Ethernet lossless. See facts_lossless.h. It decides nothing.
 */
#include "host/facts_lossless.h"

#include "base/attr.h"
#include "host/ethtool.h"
#include "host/facts.h"
#include "host/json.h"
#include "host/nicctl_text.h"

#include <errno.h>
#include <string.h>

#define DOCUMENT_BYTES ((size_t)64 << 10)
#define PROBE_MS       2000
#define LOWER_DEPTH    3

/* ---- DCB ---- */

static json_t *tell_bytes(const uint8_t *bytes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < RG_DCB_PRIORITIES; i++) {
        (void)json_array_append_new(list, json_integer(bytes[i]));
    }
    return list;
}

static json_t *tell_rules(const struct rg_dcb *dcb)
{
    json_t *rules = json_object();
    for (int dscp = 0; dscp < RG_DCB_DSCPS; dscp++) {
        char name[16];
        snprintf(name, sizeof name, "%d", dscp);
        if (dcb->priority_of_dscp[dscp] != RG_DCB_NONE) {
            (void)json_object_set_new(rules, name, json_integer(dcb->priority_of_dscp[dscp]));
        }
    }
    return rules;
}

static int tell_dcb(void *netdev, int fd)
{
    struct rg_dcb dcb;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_dcb_read(netdev, &dcb, &err) < 0) {
        return err.os_errno ? err.os_errno : EPROTO;
    }
    json_t *document = json_pack("{s:b}", "known", dcb.known);
    if (!dcb.known) {
        return rg_host_tell_json(document, fd);
    }
    (void)json_object_set_new(document, "pfc", json_integer(dcb.pfc_enabled));
    (void)json_object_set_new(document, "dscp", tell_rules(&dcb));
    if (dcb.roce_priority != RG_DCB_NONE) {
        (void)json_object_set_new(document, "roce_priority", json_integer(dcb.roce_priority));
    }
    if (dcb.has_peer_pfc) {
        (void)json_object_set_new(document, "peer_pfc", json_integer(dcb.peer_pfc_enabled));
    }
    if (dcb.has_dcbx) {
        (void)json_object_set_new(document, "dcbx", json_integer(dcb.dcbx));
    }
    if (dcb.has_ets) {
        (void)json_object_set_new(document, "class_of_priority", tell_bytes(dcb.class_of_priority));
        (void)json_object_set_new(document, "bandwidth", tell_bytes(dcb.bandwidth));
        (void)json_object_set_new(document, "algorithm", tell_bytes(dcb.algorithm));
    }
    return rg_host_tell_json(document, fd);
}

/* A number of 0..255 under `name`; false when there is none. */
static bool take_byte(const json_t *object, const char *name, uint8_t *ret_byte)
{
    const json_t *value = json_object_get(object, name);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > 255) {
        return false;
    }
    *ret_byte = (uint8_t)number;
    return true;
}

static bool take_bytes(const json_t *object, const char *name, uint8_t *ret_bytes)
{
    const json_t *list = json_object_get(object, name);
    for (size_t i = 0; i < RG_DCB_PRIORITIES; i++) {
        json_int_t number = json_integer_value(json_array_get(list, i));
        if (!json_is_array(list) || number < 0 || number > 255) {
            return false;
        }
        ret_bytes[i] = (uint8_t)number;
    }
    return true;
}

static void take_rules(json_t *rules, struct rg_dcb *dcb)
{
    const char *name;
    json_t *value;
    json_object_foreach(rules, name, value)
    {
        uint64_t dscp;
        json_int_t priority = json_integer_value(value);
        if (rg_span_to_u64(rg_span_text(name), &dscp) && dscp < RG_DCB_DSCPS && priority >= 0 &&
            priority < RG_DCB_PRIORITIES) {
            dcb->priority_of_dscp[dscp] = (int8_t)priority;
            dcb->has_dscp_rules = true;
        }
    }
}

bool rg_host_parse_dcb(struct span json, struct rg_dcb *ret_dcb)
{
    RG_CLEANUP(rg_host_json_free) json_t *document = json_loadb(json.ptr, json.len, 0, NULL);
    struct rg_dcb dcb;
    uint8_t roce;
    rg_dcb_init(&dcb);
    if (!json_is_boolean(json_object_get(document, "known"))) {
        return false;
    }
    dcb.known = json_is_true(json_object_get(document, "known"));
    if (dcb.known && !take_byte(document, "pfc", &dcb.pfc_enabled)) {
        return false;
    }
    take_rules(json_object_get(document, "dscp"), &dcb);
    if (take_byte(document, "roce_priority", &roce) && roce < RG_DCB_PRIORITIES) {
        dcb.roce_priority = (int8_t)roce;
    }
    dcb.has_peer_pfc = take_byte(document, "peer_pfc", &dcb.peer_pfc_enabled);
    dcb.has_dcbx = take_byte(document, "dcbx", &dcb.dcbx);
    dcb.has_ets = take_bytes(document, "class_of_priority", dcb.class_of_priority) &&
                  take_bytes(document, "bandwidth", dcb.bandwidth) &&
                  take_bytes(document, "algorithm", dcb.algorithm);
    *ret_dcb = dcb;
    return true;
}

/* ---- ethtool ---- */

bool rg_host_parse_ethtool(struct span json, struct rg_lossless_link *link)
{
    RG_CLEANUP(rg_host_json_free) json_t *document = json_loadb(json.ptr, json.len, 0, NULL);
    if (!json_is_object(document)) {
        return false;
    }
    const json_t *pause = json_object_get(document, "pause");
    link->has_pause = json_is_object(pause);
    link->pause_rx = json_is_true(json_object_get(pause, "rx"));
    link->pause_tx = json_is_true(json_object_get(pause, "tx"));
    const json_t *lldp = json_object_get(json_object_get(document, "flags"), "fw-lldp-agent");
    link->has_firmware_lldp = json_is_boolean(lldp);
    link->firmware_lldp = json_is_true(lldp);
    return true;
}

static void read_documents(struct rg_source *source, struct rg_lossless_link *link)
{
    RG_BUF(dcb, DOCUMENT_BYTES);
    RG_BUF(ethtool, DOCUMENT_BYTES);
    char name[RG_HOST_PATH_MAX + 1];
    char where[RG_HOST_PATH_MAX + 1];
    snprintf(name, sizeof name, "netlink/dcb/%s.json", link->netdev);
    snprintf(where, sizeof where, "netlink RTM_GETDCB %s", link->netdev);
    rg_source_probe(source, name, where, tell_dcb, link->netdev, PROBE_MS, &dcb, &link->dcb_at);
    rg_dcb_init(&link->dcb);
    if (rg_reading_ok(&link->dcb_at) && !rg_host_parse_dcb(rg_buf_span(&dcb), &link->dcb)) {
        link->dcb_at.state = RG_READ_MALFORMED;
    }
    snprintf(name, sizeof name, "ioctl/ethtool/%s.json", link->netdev);
    snprintf(where, sizeof where, "ethtool -a %s; ethtool --show-priv-flags %s", link->netdev,
             link->netdev);
    rg_source_probe(source, name, where, rg_host_tell_ethtool, link->netdev, PROBE_MS, &ethtool,
                    &link->ethtool_at);
    if (rg_reading_ok(&link->ethtool_at) && !rg_host_parse_ethtool(rg_buf_span(&ethtool), link)) {
        link->ethtool_at.state = RG_READ_MALFORMED;
    }
}

/* The kernel's driver since Linux 6.15 has them in debugfs; Broadcom's own in configfs, where they
 * are only once somebody has made the device's directory. */
static void read_bnxt_congestion(struct rg_source *source, struct rg_lossless_link *link)
{
    const char *debugfs = "/sys/kernel/debug/bnxt_re", *configfs = "/sys/kernel/config/bnxt_re";
    struct rg_number on, marks;
    rg_source_number(source, &link->cc_on, "%s/%s/cc_config/enable_cc", debugfs, link->pci);
    rg_source_number(source, &link->cc_marks, "%s/%s/cc_config/tos_ecn", debugfs, link->pci);
    if (rg_reading_ok(&link->cc_on.at) || !link->rdma[0]) {
        return;
    }
    rg_source_number(source, &on, "%s/%s/ports/1/cc/ecn_enable", configfs, link->rdma);
    rg_source_number(source, &marks, "%s/%s/ports/1/cc/ecn_marking", configfs, link->rdma);
    if (rg_reading_ok(&on.at)) {
        link->cc_on = on;
        link->cc_marks = marks;
    }
}

/* Intel's own irdma only; the kernel's has nothing of the kind. */
static void read_irdma_congestion(struct rg_source *source, struct rg_lossless_link *link)
{
    struct rg_text parameter;
    rg_source_number(source, &link->cc_on, "/sys/kernel/config/irdma/%s/roce_dcqcn_enable",
                     link->rdma[0] ? link->rdma : "-");
    if (rg_reading_ok(&link->cc_on.at)) {
        return;
    }
    rg_source_text(source, &parameter, "/sys/module/irdma/parameters/dcqcn_enable");
    link->cc_on = (struct rg_number){.at = parameter.at,
                                     .value = parameter.text[0] == 'Y' || parameter.text[0] == '1'};
}

static void read_mlx5_congestion(struct rg_source *source, const struct rg_host_plan *plan,
                                 struct rg_lossless_link *link)
{
    RG_CLEANUP(rg_names_free) struct rg_names names;
    const char *base = "/sys/class/net";
    rg_source_list(source, &names, "/sys/kernel/debug/mlx5/%s/cc_params", link->pci);
    link->cc_at = names.at;
    rg_source_number(source, &link->ecn_np, "%s/%s/ecn/roce_np/enable/%u", base, link->netdev,
                     plan->roce_priority);
    rg_source_number(source, &link->ecn_rp, "%s/%s/ecn/roce_rp/enable/%u", base, link->netdev,
                     plan->roce_priority);
}

static void read_congestion(struct rg_source *source, const struct rg_host_plan *plan,
                            struct rg_lossless_link *link)
{
    if (link->family == RG_NIC_BNXT) {
        read_bnxt_congestion(source, link);
    } else if (link->family == RG_NIC_ICE) {
        read_irdma_congestion(source, link);
    } else {
        read_mlx5_congestion(source, plan, link);
    }
}

/* ---- Which interfaces ---- */

static bool is_known(const struct rg_host_lossless *lossless, const char *netdev)
{
    for (size_t i = 0; i < lossless->count; i++) {
        if (strcmp(lossless->links[i].netdev, netdev) == 0) {
            return true;
        }
    }
    return false;
}

/* The physical ones below: DCB is a matter of the port, not of a VLAN or bond on it. */
static void add_links(struct rg_source *source, struct rg_host_facts *facts, const char *name,
                      int depth)
{
    struct rg_host_lossless *lossless = &facts->lossless;
    const struct rg_netdev *netdev = rg_host_netdev(&facts->devices, name);
    if (!netdev || is_known(lossless, name)) {
        return;
    }
    for (size_t i = 0; i < netdev->lower_count && depth < LOWER_DEPTH; i++) {
        add_links(source, facts, netdev->lowers[i], depth + 1);
    }
    if (netdev->lower_count > 0) {
        return;
    }
    if (lossless->count == RG_HOST_LINKS_MAX) {
        lossless->truncated = true;
        return;
    }
    struct rg_lossless_link *link = &lossless->links[lossless->count++];
    memcpy(link->netdev, netdev->name, sizeof link->netdev);
    snprintf(link->pci, sizeof link->pci, "%s", netdev->pci.text);
    link->family = netdev->family;
    const struct rg_rdma_device *rdma = rg_host_rdma_of_pci(&facts->devices, link->pci);
    snprintf(link->rdma, sizeof link->rdma, "%s", rdma ? rdma->name : "");
    read_documents(source, link);
    read_congestion(source, &facts->plan, link);
}

/* ---- Cards whose driver has no DCB ---- */

static bool lacks_dcb(const struct rg_lossless_link *link)
{
    return link->family == RG_NIC_IONIC && (!rg_reading_ok(&link->dcb_at) || !link->dcb.known);
}

static void ask_cards(struct rg_source *source, struct rg_host_lossless *lossless)
{
    static const char *const argv[] = {"nicctl", "show", "qos", NULL};
    RG_BUF(text, DOCUMENT_BYTES);
    rg_autofree struct rg_nicctl *nicctl = calloc(1, sizeof *nicctl);
    rg_source_command(source, "cmd/nicctl-show-qos", argv, PROBE_MS, &text, &lossless->nicctl_at);
    if (!nicctl || !rg_reading_ok(&lossless->nicctl_at)) {
        return;
    }
    if (!rg_nicctl_parse(rg_buf_span(&text), nicctl)) {
        lossless->nicctl_at.state = RG_READ_MALFORMED;
        return;
    }
    for (size_t i = 0; i < lossless->count; i++) {
        struct rg_lossless_link *link = &lossless->links[i];
        const struct rg_dcb *dcb = lacks_dcb(link) ? rg_nicctl_find(nicctl, link->pci) : NULL;
        if (dcb) {
            link->dcb = *dcb;
            link->dcb_at = lossless->nicctl_at;
        }
    }
}

/* Pensando's driver tells nothing; the cards do, through their own command. */
static void ask_cards_for_congestion(struct rg_source *source, struct rg_host_lossless *lossless)
{
    static const char *const argv[] = {"nicctl", "show", "dcqcn", NULL};
    RG_BUF(text, DOCUMENT_BYTES);
    struct rg_reading at;
    rg_source_command(source, "cmd/nicctl-show-dcqcn", argv, PROBE_MS, &text, &at);
    for (size_t i = 0; i < lossless->count; i++) {
        struct rg_lossless_link *link = &lossless->links[i];
        bool is_on;
        if (link->family != RG_NIC_IONIC) {
            continue;
        }
        link->cc_on.at = at;
        if (rg_reading_ok(&at) && rg_nicctl_dcqcn(rg_buf_span(&text), link->rdma, &is_on)) {
            link->cc_on.value = is_on;
        } else if (rg_reading_ok(&at)) {
            link->cc_on.at.state = RG_READ_MALFORMED;
        }
    }
}

static bool has_ionic(const struct rg_host_lossless *lossless)
{
    for (size_t i = 0; i < lossless->count; i++) {
        if (lossless->links[i].family == RG_NIC_IONIC) {
            return true;
        }
    }
    return false;
}

void rg_host_read_lossless(struct rg_source *source, struct rg_host_facts *facts)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        enum rg_nic_family family = facts->devices.rdma[port->device].family;
        /* EFA has its own transport; soft-RoCE stands on interfaces without flow control. */
        if (rg_host_port_is_ethernet(port) && family != RG_NIC_EFA && family != RG_NIC_RXE) {
            add_links(source, facts, port->netdev, 0);
        }
    }
    for (size_t i = 0; i < facts->lossless.count; i++) {
        if (lacks_dcb(&facts->lossless.links[i])) {
            ask_cards(source, &facts->lossless);
            break;
        }
    }
    if (has_ionic(&facts->lossless)) {
        ask_cards_for_congestion(source, &facts->lossless);
    }
    facts->lossless.lldpad_runs = rg_source_exists(source, "/run/lldpad.pid");
    facts->lossless.lldpd_runs =
        rg_source_exists(source, "/run/lldpd.socket") || rg_source_exists(source, "/run/lldpd.pid");
}
