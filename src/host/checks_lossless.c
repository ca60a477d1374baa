/*
 * Judges of the group "lossless" (checks_lossless.tbl). Pure.
 */
#include "base/attr.h"
#include "host/check.h"
#include "host/facts.h"
#include "host/remedy.h"

#include <string.h>

#define CNP_DSCP         48
#define CNP_PRIORITY     6
#define CNP_OTHER        7 /* where the planned priority is 6 */
#define ALGORITHM_STRICT 0
#define ALGORITHM_ETS    2

typedef void link_judge(const struct rg_host_facts *facts, const struct rg_lossless_link *link,
                        struct rg_findings *findings);

/* The kernel's driver has no DCB, and the vendor's tool has not told either. */
static void skip_ionic(const struct rg_host_facts *facts, const struct rg_lossless_link *link,
                       struct rg_findings *findings)
{
    const struct rg_reading *at = &facts->lossless.nicctl_at;
    struct rg_finding *finding;
    if (rg_reading_ok(at)) {
        finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "The cards of this host are set differently, and which of them this "
                          "interface belongs to is not known.");
        rg_find_where(finding, at);
    } else {
        finding = rg_find_unread(findings, link->netdev, at);
    }
    rg_find_remedy(finding, "nicctl show qos   # as root; the ionic driver itself has no DCB");
}

/* The priority that remedies give to congestion notices: never the one that is lossless. */
static int cnp_priority(const struct rg_host_facts *facts)
{
    return facts->plan.roce_priority == CNP_PRIORITY ? CNP_OTHER : CNP_PRIORITY;
}

/* Calls `judge` for every link whose DCB is known; the others are skipped, with the reason. */
static void each_dcb(const struct rg_host_facts *facts, struct rg_findings *findings,
                     link_judge *judge)
{
    for (size_t i = 0; i < facts->lossless.count; i++) {
        const struct rg_lossless_link *link = &facts->lossless.links[i];
        bool unknown = !rg_reading_ok(&link->dcb_at) || !link->dcb.known;
        if (unknown && link->family == RG_NIC_IONIC) {
            skip_ionic(facts, link, findings);
        } else if (!rg_reading_ok(&link->dcb_at)) {
            (void)rg_find_unread(findings, link->netdev, &link->dcb_at);
        } else if (!link->dcb.known) {
            struct rg_finding *finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                                                 "The driver has no DCB for this interface.");
            rg_find_where(finding, &link->dcb_at);
        } else {
            judge(facts, link, findings);
        }
    }
}

/* The line that makes what was set with dcb and ethtool stay over a reboot. */
static void add_persistence(struct rg_finding *finding, const struct rg_host_facts *facts,
                            const struct rg_lossless_link *link)
{
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding,
                       "# to keep it: the same lines in "
                       "/etc/NetworkManager/dispatcher.d/50-roce (for %s, action up)",
                       link->netdev);
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       "# to keep it: \"post-up\" lines for %s in /etc/network/interfaces, "
                       "or /etc/networkd-dispatcher/routable.d",
                       link->netdev);
    }
}

/* dcb works for all drivers, but the firmware must let the host be in charge first. */
static void take_charge(struct rg_finding *finding, const struct rg_lossless_link *link)
{
    switch (link->family) {
    case RG_NIC_ICE:
        rg_find_remedy(finding, "ethtool --set-priv-flags %s fw-lldp-agent off", link->netdev);
        break;
    case RG_NIC_MLX5:
        rg_find_remedy(finding, "dcb dcbx set dev %s host ieee   # or: mlnx_qos -i %s -d os",
                       link->netdev, link->netdev);
        break;
    case RG_NIC_BNXT:
        rg_find_remedy(finding,
                       "dcb dcbx set dev %s host ieee   # refused while the card's own LLDP agent "
                       "is on: turn that off in the setup of %s (Device Level Configuration), "
                       "then reboot",
                       link->netdev, link->pci);
        break;
    default:
        break;
    }
}

/* Cards of Pensando are set by their own tool, one line a port or all of them. */
static bool is_ionic(const struct rg_lossless_link *link)
{
    return link->family == RG_NIC_IONIC;
}

static void keep_ionic(struct rg_finding *finding, const struct rg_lossless_link *link)
{
    rg_find_remedy(finding,
                   "nicctl show qos   # what came of it; the lines hold for all cards, `-p PORT` "
                   "names the port of %s",
                   link->netdev);
}

/* ---- PFC-ON ---- */

static void mend_pfc(struct rg_finding *finding, const struct rg_host_facts *facts,
                     const struct rg_lossless_link *link)
{
    int priority = facts->plan.roce_priority;
    if (is_ionic(link)) {
        rg_find_remedy(finding, "nicctl update port --all --pause-type pfc --rx-pause enable "
                                "--tx-pause enable");
        for (int i = 0; i < RG_DCB_PRIORITIES; i++) {
            if (i != priority && link->dcb.pfc_enabled >> i & 1) {
                rg_find_remedy(finding, "nicctl update qos pfc --priority %d --no-drop disable", i);
            }
        }
        rg_find_remedy(finding, "nicctl update qos pfc --priority %d --no-drop enable", priority);
        keep_ionic(finding, link);
        return;
    }
    take_charge(finding, link);
    rg_find_remedy(finding, "ethtool -A %s rx off tx off", link->netdev);
    rg_find_remedy(finding, "dcb pfc set dev %s prio-pfc all:off %d:on", link->netdev, priority);
    if (link->family == RG_NIC_MLX5) {
        char list[2 * RG_DCB_PRIORITIES];
        for (int i = 0; i < RG_DCB_PRIORITIES; i++) {
            list[2 * i] = i == priority ? '1' : '0';
            list[2 * i + 1] = i == RG_DCB_PRIORITIES - 1 ? 0 : ',';
        }
        rg_find_remedy(finding, "mlnx_qos -i %s --pfc %s   # the same with the vendor's tool",
                       link->netdev, list);
    } else if (link->family == RG_NIC_BNXT) {
        rg_find_remedy(finding,
                       "bnxt_setupcc.sh -d %s -i %s -m 3 -r %d -s %d -c %d -p %d   # the same with "
                       "the vendor's tool, with congestion control",
                       link->rdma[0] ? link->rdma : "DEVICE", link->netdev, priority,
                       facts->plan.roce_dscp, cnp_priority(facts), CNP_DSCP);
    }
    add_persistence(finding, facts, link);
}

static void judge_pfc(const struct rg_host_facts *facts, const struct rg_lossless_link *link,
                      struct rg_findings *findings)
{
    unsigned wanted = 1u << facts->plan.roce_priority;
    unsigned on = link->dcb.pfc_enabled;
    struct rg_finding *finding;
    if (on == 0) {
        finding = rg_find(findings, RG_VERDICT_FAIL, link->netdev, "No priority has flow control.");
    } else if (!(on & wanted)) {
        finding = rg_find(findings, RG_VERDICT_FAIL, link->netdev,
                          "Priority %d is planned for RoCE and has no flow control; others have.",
                          facts->plan.roce_priority);
    } else if (on != wanted) {
        finding = rg_find(findings, RG_VERDICT_WARN, link->netdev,
                          "More than one priority has flow control.");
    } else if (link->dcb.has_peer_pfc && link->dcb.peer_pfc_enabled != on) {
        finding = rg_find(findings, RG_VERDICT_WARN, link->netdev,
                          "The switch has flow control for other priorities than this host.");
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, link->netdev, "Priority %d only.",
                          facts->plan.roce_priority);
    }
    rg_find_value(finding, "pfc_en 0x%02x%s", on, "");
    if (link->dcb.has_peer_pfc) {
        rg_find_value(finding, "pfc_en 0x%02x, of the switch 0x%02x", on,
                      link->dcb.peer_pfc_enabled);
    }
    rg_find_where(finding, &link->dcb_at);
    if (finding->verdict != RG_VERDICT_OK) {
        mend_pfc(finding, facts, link);
    }
}

void judge_pfc_on(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    each_dcb(facts, findings, judge_pfc);
}

/* ---- DSCP-MAP ---- */

static void judge_dscp(const struct rg_host_facts *facts, const struct rg_lossless_link *link,
                       struct rg_findings *findings)
{
    int dscp = facts->plan.roce_dscp;
    int planned = facts->plan.roce_priority;
    int found = link->dcb.priority_of_dscp[dscp];
    struct rg_finding *finding;
    if (!link->dcb.has_dscp_rules) {
        finding = rg_find(findings, RG_VERDICT_FAIL, link->netdev,
                          "There is no DSCP rule: untagged RoCE gets priority 0.");
    } else if (found == planned) {
        finding = rg_find(findings, RG_VERDICT_OK, link->netdev, "DSCP %d leads to priority %d.",
                          dscp, planned);
    } else {
        finding = rg_find(findings, RG_VERDICT_FAIL, link->netdev,
                          "DSCP %d does not lead to priority %d.", dscp, planned);
    }
    if (found == RG_DCB_NONE) {
        rg_find_value(finding, "no rule for DSCP %d", dscp);
    } else {
        rg_find_value(finding, "DSCP %d: priority %d", dscp, found);
    }
    rg_find_where(finding, &link->dcb_at);
    if (finding->verdict == RG_VERDICT_OK) {
        return;
    }
    if (is_ionic(link)) {
        rg_find_remedy(finding, "nicctl update qos --classification-type dscp");
        rg_find_remedy(finding, "nicctl update qos dscp-to-priority --dscp %d --priority %d", dscp,
                       planned);
        keep_ionic(finding, link);
        return;
    }
    take_charge(finding, link);
    if (found != RG_DCB_NONE) {
        rg_find_remedy(finding, "dcb app del dev %s dscp-prio %d:%d", link->netdev, dscp, found);
    }
    rg_find_remedy(finding, "dcb app add dev %s dscp-prio %d:%d", link->netdev, dscp, planned);
    if (link->family == RG_NIC_MLX5) {
        rg_find_remedy(finding, "mlnx_qos -i %s --trust dscp   # the same with the vendor's tool",
                       link->netdev);
    }
    add_persistence(finding, facts, link);
}

void judge_dscp_map(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    each_dcb(facts, findings, judge_dscp);
}

/* ---- ETS, CNP ---- */

/* A script that runs at every link-up must not unload irdma: the other ports' RDMA would end. */
static void keep_ice_classes(struct rg_finding *finding, const struct rg_lossless_link *link)
{
    rg_find_remedy(finding,
                   "# to keep it: the ethtool and dcb lines only, for all E810 ports, once at boot "
                   "and before irdma loads: \"blacklist irdma\" in /etc/modprobe.d/roce.conf, and "
                   "a oneshot service after sys-subsystem-net-devices-%s.device that runs them and "
                   "then modprobe irdma",
                   link->netdev);
    rg_find_remedy_line(finding, "# no script that runs at every link-up: unloading irdma ends the "
                                 "RDMA of all E810 ports");
}

static void mend_ets(struct rg_finding *finding, const struct rg_host_facts *facts,
                     const struct rg_lossless_link *link)
{
    int priority = facts->plan.roce_priority;
    if (is_ionic(link)) {
        rg_find_remedy(finding,
                       "nicctl update qos scheduling --priority %d,%d,%d --dwrr 50,50,0 "
                       "--rate-limit 0,0,10",
                       priority, priority == 0 ? 1 : 0, cnp_priority(facts));
        keep_ionic(finding, link);
        return;
    }
    take_charge(finding, link);
    if (link->family == RG_NIC_ICE) {
        rg_find_remedy(finding, "modprobe -r irdma   # E810: the number of classes can be set only "
                                "while it is unloaded; ends all RDMA connections");
    }
    /* Strict for the classes that are not there: bnxt refuses ETS beyond those it has. */
    rg_find_remedy(finding,
                   "dcb ets set dev %s willing off prio-tc all:0 %d:1 %d:2 tc-tsa all:strict "
                   "0:ets 1:ets tc-bw all:0 0:50 1:50",
                   link->netdev, priority, cnp_priority(facts));
    if (link->family == RG_NIC_ICE) {
        rg_find_remedy(finding, "modprobe irdma");
        keep_ice_classes(finding, link);
        return;
    }
    add_persistence(finding, facts, link);
}

static void judge_classes(const struct rg_host_facts *facts, const struct rg_lossless_link *link,
                          struct rg_findings *findings)
{
    const struct rg_dcb *dcb = &link->dcb;
    struct rg_finding *finding;
    if (!dcb->has_ets) {
        finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "The driver does not tell its traffic classes.");
        rg_find_where(finding, &link->dcb_at);
        return;
    }
    unsigned class = dcb->class_of_priority[facts->plan.roce_priority];
    bool alone = true;
    for (int i = 0; i < RG_DCB_PRIORITIES; i++) {
        alone &= i == facts->plan.roce_priority || dcb->class_of_priority[i] != class;
    }
    bool starves = class < RG_DCB_PRIORITIES && dcb->algorithm[class] == ALGORITHM_ETS &&
                   dcb->bandwidth[class] == 0;
    if (!alone) {
        finding = rg_find(findings, RG_VERDICT_WARN, link->netdev,
                          "Priority %d shares traffic class %u with others.",
                          facts->plan.roce_priority, class);
    } else if (starves) {
        finding = rg_find(findings, RG_VERDICT_WARN, link->netdev,
                          "Traffic class %u of RoCE has no share of the bandwidth.", class);
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, link->netdev, "RoCE alone in traffic class %u.",
                          class);
    }
    rg_find_value(finding, "priority to class %u%u%u%u%u%u%u%u, class %u: algorithm %u, %u %%",
                  dcb->class_of_priority[0], dcb->class_of_priority[1], dcb->class_of_priority[2],
                  dcb->class_of_priority[3], dcb->class_of_priority[4], dcb->class_of_priority[5],
                  dcb->class_of_priority[6], dcb->class_of_priority[7], class,
                  class < RG_DCB_PRIORITIES ? dcb->algorithm[class] : ALGORITHM_STRICT,
                  class < RG_DCB_PRIORITIES ? dcb->bandwidth[class] : 0);
    rg_find_where(finding, &link->dcb_at);
    if (finding->verdict == RG_VERDICT_WARN) {
        mend_ets(finding, facts, link);
    }
}

void judge_ets(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    each_dcb(facts, findings, judge_classes);
}

static void judge_cnp_priority(const struct rg_host_facts *facts,
                               const struct rg_lossless_link *link, struct rg_findings *findings)
{
    int priority = link->dcb.priority_of_dscp[CNP_DSCP];
    /* Without a rule a port that trusts DSCP takes its upper three bits. */
    bool ruled = priority != RG_DCB_NONE;
    int effective = ruled ? priority : CNP_DSCP / 8;
    bool held_up = (link->dcb.pfc_enabled >> effective & 1) != 0;
    struct rg_finding *finding =
        held_up ? rg_find(findings, RG_VERDICT_WARN, link->netdev,
                          "DSCP %d (congestion notices) leads to priority %d, which flow control "
                          "can stop.",
                          CNP_DSCP, effective)
                : rg_find(findings, RG_VERDICT_OK, link->netdev,
                          "Priority %d, without flow "
                          "control.",
                          effective);
    rg_find_value(finding, "DSCP %d: priority %d%s, pfc_en 0x%02x", CNP_DSCP, effective,
                  ruled ? "" : " (no rule)", link->dcb.pfc_enabled);
    rg_find_where(finding, &link->dcb_at);
    if (held_up && is_ionic(link)) {
        rg_find_remedy(finding, "nicctl update qos dscp-to-priority --dscp %d --priority %d",
                       CNP_DSCP, cnp_priority(facts));
        keep_ionic(finding, link);
    } else if (held_up) {
        if (ruled) {
            rg_find_remedy(finding, "dcb app del dev %s dscp-prio %d:%d", link->netdev, CNP_DSCP,
                           priority);
        }
        rg_find_remedy(finding, "dcb app add dev %s dscp-prio %d:%d", link->netdev, CNP_DSCP,
                       cnp_priority(facts));
        add_persistence(finding, facts, link);
    }
}

void judge_cnp(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    each_dcb(facts, findings, judge_cnp_priority);
}

/* ---- ECN ---- */

static void judge_mlx5_ecn(const struct rg_host_facts *facts, const struct rg_lossless_link *link,
                           struct rg_findings *findings)
{
    int priority = facts->plan.roce_priority;
    struct rg_finding *finding;
    if (rg_reading_ok(&link->ecn_np.at) && rg_reading_ok(&link->ecn_rp.at)) {
        bool on = link->ecn_np.value == 1 && link->ecn_rp.value == 1;
        finding =
            on ? rg_find(findings, RG_VERDICT_OK, link->netdev, "On for priority %d.", priority)
               : rg_find(findings, RG_VERDICT_WARN, link->netdev,
                         "Congestion control is off for priority %d.", priority);
        rg_find_value(finding, "roce_np %d, roce_rp %d", (int)link->ecn_np.value,
                      (int)link->ecn_rp.value);
        rg_find_where(finding, &link->ecn_np.at);
        if (!on) {
            rg_find_remedy(finding, "echo 1 >/sys/class/net/%s/ecn/roce_np/enable/%d", link->netdev,
                           priority);
            rg_find_remedy(finding, "echo 1 >/sys/class/net/%s/ecn/roce_rp/enable/%d", link->netdev,
                           priority);
        }
        return;
    }
    if (rg_reading_ok(&link->cc_at)) {
        /* Parameters are there whether it is on or off: that alone is no proof. */
        finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "The firmware has congestion control; whether it is on for priority %d "
                          "only its settings tell. See CNP-HANDLED.",
                          priority);
        rg_find_where(finding, &link->cc_at);
        rg_find_remedy(finding,
                       "mstconfig -d %s query | grep ROCE_CC_PRIO_MASK   # bit %d (0x%02x) of the "
                       "port must be set; usual is 255",
                       link->pci, priority, 1u << priority);
        return;
    }
    (void)rg_find_unread(findings, link->netdev,
                         link->ecn_np.at.state == RG_READ_MISSING ? &link->cc_at
                                                                  : &link->ecn_np.at);
}

/* The file's directory. */
static struct span directory_of(const struct rg_reading *at)
{
    const char *slash = strrchr(at->path, '/');
    return rg_span(at->path, slash ? (size_t)(slash - at->path) : 0);
}

static void mend_ecn(struct rg_finding *finding, const struct rg_lossless_link *link)
{
    struct span directory = directory_of(&link->cc_on.at);
    if (is_ionic(link)) {
        rg_find_remedy(finding, "nicctl update dcqcn -r %s -i 1 --cnp-dscp %d", link->rdma,
                       CNP_DSCP);
        rg_find_remedy(finding, "nicctl show dcqcn   # must say Enabled then");
    } else if (link->family == RG_NIC_ICE && strstr(link->cc_on.at.path, "/parameters/")) {
        rg_find_remedy(finding,
                       "echo 'options irdma dcqcn_enable=1' >/etc/modprobe.d/irdma-dcqcn.conf");
        rg_find_remedy(finding,
                       "modprobe -r irdma && modprobe irdma   # ends all RDMA connections");
    } else if (link->family == RG_NIC_ICE) {
        rg_find_remedy(finding, "echo 1 >%s", link->cc_on.at.path);
    } else if (strstr(link->cc_on.at.path, "/debug/")) {
        rg_find_remedy(finding, "echo 1 >%.*s/enable_cc; echo 1 >%.*s/tos_ecn",
                       RG_SPAN_ARG(directory), RG_SPAN_ARG(directory));
    } else {
        rg_find_remedy(finding, "cd %.*s", RG_SPAN_ARG(directory));
        rg_find_remedy(finding, "echo -n 0x1 >ecn_marking; echo -n 0x1 >ecn_enable; echo -n 1 "
                                ">cc_mode; echo -n 0x1 >apply");
    }
}

/* What is known of drivers other than mlx5's. */
static void judge_other_ecn(const struct rg_lossless_link *link, struct rg_findings *findings)
{
    bool has_marks = rg_reading_ok(&link->cc_marks.at);
    bool on = link->cc_on.value != 0 && (!has_marks || link->cc_marks.value != 0);
    struct rg_finding *finding =
        on ? rg_find(findings, RG_VERDICT_OK, link->netdev, "On.")
           : rg_find(findings, RG_VERDICT_WARN, link->netdev,
                     link->cc_on.value == 0
                         ? "Congestion control is off."
                         : "Congestion control is on, but packets are not marked for it.");
    rg_find_value(finding, has_marks ? "enabled %d, marks %d" : "enabled %d",
                  (int)link->cc_on.value, (int)link->cc_marks.value);
    rg_find_where(finding, &link->cc_on.at);
    if (!on) {
        mend_ecn(finding, link);
    }
}

/* Why nothing is known, and how a person can look. */
static void skip_other_ecn(const struct rg_lossless_link *link, struct rg_findings *findings)
{
    const struct rg_reading *at = &link->cc_on.at;
    struct rg_finding *finding;
    if (at->state != RG_READ_MISSING && at->state != RG_READ_NOT_ASKED) {
        finding = rg_find_unread(findings, link->netdev, at);
    } else if (link->family == RG_NIC_ICE) {
        finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "The kernel's own irdma has no setting for it and does not tell; Intel's "
                          "irdma has dcqcn_enable. See CNP-HANDLED.");
    } else if (link->family == RG_NIC_BNXT) {
        finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "Neither debugfs (the kernel's driver, since Linux 6.15) nor configfs "
                          "(Broadcom's own) has its parameters. See CNP-HANDLED.");
    } else if (is_ionic(link)) {
        finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "Only nicctl tells, which is not installed. See CNP-HANDLED.");
    } else {
        finding = rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "Where this driver tells it is not known. See CNP-HANDLED.");
    }
    if (link->family == RG_NIC_ICE) {
        rg_find_remedy(finding,
                       "modinfo -p irdma | grep dcqcn   # nothing: it has no such setting");
    } else if (is_ionic(link)) {
        rg_find_remedy(finding, "nicctl show dcqcn   # as root");
    } else if (link->family == RG_NIC_BNXT) {
        rg_find_remedy(
            finding,
            "cat /sys/kernel/debug/bnxt_re/%s/cc_config/enable_cc   # as root, or:", link->pci);
        rg_find_remedy(finding,
                       "mkdir -p /sys/kernel/config/bnxt_re/%s && cat "
                       "/sys/kernel/config/bnxt_re/%s/ports/1/cc/ecn_enable",
                       link->rdma[0] ? link->rdma : "DEVICE",
                       link->rdma[0] ? link->rdma : "DEVICE");
    }
}

void judge_ecn(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lossless.count; i++) {
        const struct rg_lossless_link *link = &facts->lossless.links[i];
        if (link->family == RG_NIC_MLX5) {
            judge_mlx5_ecn(facts, link, findings);
        } else if (rg_reading_ok(&link->cc_on.at)) {
            judge_other_ecn(link, findings);
        } else {
            skip_other_ecn(link, findings);
        }
    }
}

/* ---- LLDP-OWNER, ICE-TC, GPAUSE ---- */

void judge_lldp_owner(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lossless *lossless = &facts->lossless;
    const char *agent = lossless->lldpad_runs ? "lldpad" : "lldpd";
    bool software = lossless->lldpad_runs || lossless->lldpd_runs;
    for (size_t i = 0; i < lossless->count; i++) {
        const struct rg_lossless_link *link = &lossless->links[i];
        if (link->family != RG_NIC_ICE) {
            continue;
        }
        if (!rg_reading_ok(&link->ethtool_at)) {
            (void)rg_find_unread(findings, link->netdev, &link->ethtool_at);
            continue;
        }
        if (!link->has_firmware_lldp) {
            continue;
        }
        bool both = link->firmware_lldp && software;
        struct rg_finding *finding =
            both ? rg_find(findings, RG_VERDICT_FAIL, link->netdev,
                           "The firmware's agent and %s both speak LLDP: they overwrite each "
                           "other's DCB settings.",
                           agent)
                 : rg_find(findings, RG_VERDICT_OK, link->netdev, "%s.",
                           link->firmware_lldp ? "The firmware" : "Software");
        rg_find_value(finding, "fw-lldp-agent %s, %s", link->firmware_lldp ? "on" : "off",
                      software ? agent : "no agent on the host");
        rg_find_where(finding, &link->ethtool_at);
        if (both) {
            rg_find_remedy(finding,
                           "ethtool --set-priv-flags %s fw-lldp-agent off   # the host is "
                           "in charge; or:",
                           link->netdev);
            rg_find_remedy(finding, "systemctl disable --now %s   # the firmware is", agent);
        }
    }
}

void judge_ice_tc(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lossless.count; i++) {
        const struct rg_lossless_link *link = &facts->lossless.links[i];
        const struct rg_dcb *dcb = &link->dcb;
        if (link->family != RG_NIC_ICE) {
            continue;
        }
        if (!rg_reading_ok(&link->dcb_at)) {
            (void)rg_find_unread(findings, link->netdev, &link->dcb_at);
            continue;
        }
        if (!dcb->known || !dcb->has_ets) {
            continue;
        }
        unsigned most = 0;
        for (int k = 0; k < RG_DCB_PRIORITIES; k++) {
            most = dcb->class_of_priority[k] > most ? dcb->class_of_priority[k] : most;
        }
        /* While the firmware is in charge, ice takes no DSCP rules from the host. */
        bool by_firmware = dcb->has_dcbx && dcb->dcbx & RG_DCBX_FIRMWARE;
        bool by_vlan = most > 0 && (!dcb->has_dscp_rules || by_firmware);
        struct rg_finding *finding =
            by_vlan
                ? rg_find(
                      findings, RG_VERDICT_WARN, link->netdev,
                      "%u traffic classes and no DSCP rule in force: irdma chooses by VLAN tag.",
                      most + 1)
                : rg_find(findings, RG_VERDICT_OK, link->netdev, "%s.",
                          most > 0 ? "By DSCP" : "One traffic class");
        rg_find_value(finding, "%u traffic classes, DSCP rules %s, dcbx 0x%02x", most + 1,
                      dcb->has_dscp_rules ? "yes" : "none", dcb->has_dcbx ? dcb->dcbx : 0u);
        rg_find_where(finding, &link->dcb_at);
        if (by_vlan) {
            take_charge(finding, link);
            rg_find_remedy(finding,
                           "dcb app add dev %s dscp-prio %d:%d && modprobe -r irdma && "
                           "modprobe irdma",
                           link->netdev, facts->plan.roce_dscp, facts->plan.roce_priority);
        }
    }
}

void judge_gpause(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lossless.count; i++) {
        const struct rg_lossless_link *link = &facts->lossless.links[i];
        if (!rg_reading_ok(&link->ethtool_at)) {
            (void)rg_find_unread(findings, link->netdev, &link->ethtool_at);
            continue;
        }
        if (!link->has_pause) {
            continue;
        }
        bool paused = link->pause_rx || link->pause_tx;
        if (paused && !rg_reading_ok(&link->dcb_at)) {
            (void)rg_find_unread(findings, link->netdev, &link->dcb_at);
            continue;
        }
        bool both = paused && link->dcb.pfc_enabled;
        struct rg_finding *finding =
            both ? rg_find(findings, RG_VERDICT_WARN, link->netdev,
                           "Global pause and priority flow control are both on.")
                 : rg_find(findings, RG_VERDICT_OK, link->netdev, "Not both.");
        rg_find_value(finding, "rx %s, tx %s, pfc_en 0x%02x", link->pause_rx ? "on" : "off",
                      link->pause_tx ? "on" : "off", link->dcb.pfc_enabled);
        rg_find_where(finding, &link->ethtool_at);
        if (both) {
            rg_find_remedy(finding, "ethtool -A %s rx off tx off", link->netdev);
            add_persistence(finding, facts, link);
        }
    }
}

/* ---- PAUSE and CNP-HANDLED: differences ---- */

/* How much a counter has risen between the readings; 0 when it is not known. */
static int64_t rise(const struct rg_host_facts *facts, const char *subject, const char *name)
{
    const struct rg_counter *counter = rg_host_counter(&facts->counters, subject, name);
    return counter && counter->has_before && counter->now > counter->before
               ? counter->now - counter->before
               : 0;
}

static bool has_counter(const struct rg_host_facts *facts, const char *subject, const char *name)
{
    const struct rg_counter *counter = rg_host_counter(&facts->counters, subject, name);
    return counter && counter->has_before;
}

/* Formats of the names of a priority's pause counters, received: mlx5, ice, bnxt, ionic. */
static int64_t pauses(const struct rg_host_facts *facts, const char *netdev, int priority)
{
    char name[RG_HOST_WORD_MAX + 1];
    snprintf(name, sizeof name, "rx_prio%d_pause", priority);
    int64_t total = rise(facts, netdev, name);
    snprintf(name, sizeof name, "rx_priority_%d_xoff.nic", priority);
    total += rise(facts, netdev, name);
    snprintf(name, sizeof name, "rx_pfc_ena_frames_pri%d", priority);
    total += rise(facts, netdev, name);
    snprintf(name, sizeof name, "rx_pripause_%d_1us_count", priority);
    return total + rise(facts, netdev, name);
}

static int64_t discards(const struct rg_host_facts *facts, const char *netdev, int priority)
{
    char name[RG_HOST_WORD_MAX + 1];
    snprintf(name, sizeof name, "rx_prio%d_discards", priority);
    int64_t total = rise(facts, netdev, name);
    snprintf(name, sizeof name, "rx_prio%d_buf_discard", priority);
    return total + rise(facts, netdev, name);
}

static bool has_pauses(const struct rg_host_facts *facts, const char *netdev)
{
    return has_counter(facts, netdev, "rx_prio0_pause") ||
           has_counter(facts, netdev, "rx_priority_0_xoff.nic") ||
           has_counter(facts, netdev, "rx_pfc_ena_frames_pri0") ||
           has_counter(facts, netdev, "rx_pripause_0_1us_count");
}

static int64_t sequence_errors(const struct rg_host_facts *facts, const char *netdev)
{
    int64_t total = 0;
    for (size_t i = 0; i < facts->ports.count; i++) {
        if (strcmp(facts->ports.list[i].netdev, netdev) == 0) {
            total += rise(facts, facts->ports.list[i].subject, "out_of_sequence");
            total += rise(facts, facts->ports.list[i].subject, "req_rx_pkt_seq_err");
        }
    }
    return total;
}

static void judge_pauses(const struct rg_host_facts *facts, const struct rg_lossless_link *link,
                         struct rg_findings *findings)
{
    int planned = facts->plan.roce_priority;
    const char *netdev = link->netdev;
    int64_t storms = rise(facts, netdev, "tx_pause_storm_error_events");
    int64_t lost = discards(facts, netdev, planned);
    int64_t own = pauses(facts, netdev, planned);
    int64_t foreign = 0;
    for (int i = 0; i < RG_DCB_PRIORITIES; i++) {
        foreign += i == planned ? 0 : pauses(facts, netdev, i);
    }
    struct rg_finding *finding;
    if (storms > 0) {
        finding = rg_find(findings, RG_VERDICT_FAIL, netdev,
                          "The card has stopped pausing after a storm: its receiver is stuck.");
        rg_find_remedy(finding, "ethtool -S %s | grep storm; top   # what does not take its data?",
                       netdev);
    } else if (lost > 0) {
        finding = rg_find(findings, RG_VERDICT_FAIL, netdev,
                          "Packets of the lossless priority %d were discarded.", planned);
        rg_find_remedy(finding,
                       "dcb buffer show dev %s   # the priority's receive buffer is too "
                       "small for the cable and the MTU",
                       netdev);
        rg_find_remedy(finding, "# the switch must honour pauses of priority %d", planned);
    } else if (foreign > 0) {
        finding = rg_find(findings, RG_VERDICT_WARN, netdev,
                          "The switch pauses priorities other than %d: it marks RoCE differently.",
                          planned);
        rg_find_remedy(finding,
                       "ethtool -S %s | grep -E 'prio.*(pause|xoff)'   # which; then the "
                       "switch's DSCP map",
                       netdev);
    } else if (own == 0 && sequence_errors(facts, netdev) > 0) {
        finding = rg_find(findings, RG_VERDICT_WARN, netdev,
                          "Packets get lost and nothing is paused: flow control does not reach "
                          "where they are lost.");
        rg_find_remedy(finding,
                       "dcb pfc show dev %s; lldptool -t -n -i %s   # then the switches on "
                       "the way",
                       netdev, netdev);
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, netdev, "Nothing unusual.");
    }
    rg_find_value(finding, "pauses %lld in priority %d, %lld in others; discards %lld; storms %lld",
                  (long long)own, planned, (long long)foreign, (long long)lost, (long long)storms);
    rg_find_where_text(finding, "ethtool -S %s, two readings", netdev);
}

void judge_pause_delta(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lossless.count; i++) {
        const struct rg_lossless_link *link = &facts->lossless.links[i];
        if (has_pauses(facts, link->netdev)) {
            judge_pauses(facts, link, findings);
        } else {
            (void)rg_find(findings, RG_VERDICT_SKIP, link->netdev,
                          "There are no two readings of its pause counters.");
        }
    }
}

static void mend_ignored(struct rg_finding *finding, const struct rg_rdma_device *device)
{
    if (device->family == RG_NIC_MLX5) {
        rg_find_remedy(finding, "mstconfig -d %s query | grep ROCE_CC_PRIO_MASK", device->pci.text);
        rg_find_remedy(finding,
                       "mstconfig -d %s set ROCE_CC_PRIO_MASK_P1=255   # congestion control on for "
                       "all priorities (P2 is the second port); then reboot",
                       device->pci.text);
    } else if (device->family == RG_NIC_ICE) {
        rg_find_remedy(finding,
                       "modinfo -p irdma | grep dcqcn   # Intel's own irdma can turn congestion "
                       "control on, the kernel's cannot");
    } else {
        rg_find_remedy(finding, "railgate doctor -v   # ECN tells how to turn congestion control "
                                "on");
    }
}

void judge_cnp_delta(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    static const char *const names[] = {"rp_cnp_ignored", "cnpIgnored"};
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        for (size_t k = 0; k < RG_ARRAY_LENGTH(names); k++) {
            if (!has_counter(facts, port->subject, names[k])) {
                continue;
            }
            int64_t ignored = rise(facts, port->subject, names[k]);
            struct rg_finding *finding =
                ignored > 0 ? rg_find(findings, RG_VERDICT_WARN, port->subject,
                                      "%lld congestion notices were ignored.", (long long)ignored)
                            : rg_find(findings, RG_VERDICT_OK, port->subject, "None ignored.");
            rg_find_value(finding, "%s +%lld", names[k], (long long)ignored);
            rg_find_where_text(finding, "hw_counters/%s, two readings", names[k]);
            if (ignored > 0) {
                mend_ignored(finding, &facts->devices.rdma[port->device]);
            }
        }
    }
}
