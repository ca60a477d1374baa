/*
 * Judges of the group "counters" (checks_counters.tbl): what rose between two readings. Pure.
 *
 * A limit is so many in so much time. Readings that are closer together than that time are not
 * extrapolated: one error in a second is not 3600 an hour.
 */
#include "base/attr.h"
#include "host/check.h"
#include "host/facts.h"

#include <inttypes.h>
#include <string.h>

#define NEVER     INT64_MAX
#define NAMES_MAX 12

struct limit {
    int64_t count;    /* more than this … */
    unsigned seconds; /* … in this time */
};

struct rule {
    const char *names[NAMES_MAX];
    struct limit warn, fail;
    const char *accuses; /* whom a rise accuses */
    enum { LOOK_CABLE, LOOK_FABRIC, LOOK_PORT, LOOK_WAITS, LOOK_MANAGER, LOOK_AS_SAID } look;
    const char *remedy;  /* of LOOK_AS_SAID */
    struct limit spared; /* Lustre's LND may cause so many: a warning where it is loaded */
};

/* By how much it may have risen, given the time between the readings. */
static bool is_above(const struct limit *limit, int64_t rise, uint64_t apart_ms)
{
    if (limit->count == NEVER) {
        return false;
    }
    uint64_t window_ms = (uint64_t)limit->seconds * 1000;
    double allowed = apart_ms > window_ms
                         ? (double)limit->count * (double)apart_ms / (double)window_ms
                         : (double)limit->count;
    return (double)rise > allowed;
}

static bool is_named(const struct rule *rule, const char *name)
{
    for (size_t i = 0; i < NAMES_MAX && rule->names[i]; i++) {
        if (strcmp(rule->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void tell_where(struct rg_finding *finding, const struct rg_counter *counter)
{
    if (counter->is_netdev && strcmp(counter->name, "carrier_changes") == 0) {
        rg_find_where_text(finding, "/sys/class/net/%s/%s", counter->subject, counter->name);
    } else if (counter->is_netdev) {
        rg_find_where_text(finding, "ethtool -S %s", counter->subject);
    } else {
        int device = (int)strcspn(counter->subject, "/");
        rg_find_where_text(finding, "/sys/class/infiniband/%.*s/ports/%s/%s/%s", device,
                           counter->subject, counter->subject + device + 1,
                           counter->is_hardware ? "hw_counters" : "counters", counter->name);
    }
}

/* ---- Where to look ---- */

static const struct rg_host_port *port_of(const struct rg_host_facts *facts,
                                          const struct rg_counter *counter)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        const char *name =
            counter->is_netdev ? facts->ports.list[i].netdev : facts->ports.list[i].subject;
        if (strcmp(name, counter->subject) == 0) {
            return &facts->ports.list[i];
        }
    }
    return NULL;
}

static void look_at_cable(struct rg_finding *finding, const char *netdev, const char *device,
                          unsigned number)
{
    if (netdev) {
        rg_find_remedy(finding, "ethtool -m %s   # light levels; reseat, then replace the cable",
                       netdev);
    } else {
        rg_find_remedy(finding,
                       "iblinkinfo -C %s -P %u -D 0 -n 1   # which port it leads to; reseat, then "
                       "replace the cable",
                       device, number);
    }
}

/* On Ethernet losses are flow control's business, on InfiniBand the links'. */
static void look_at_fabric(struct rg_finding *finding, const char *netdev, const char *device,
                           unsigned number)
{
    if (netdev) {
        rg_find_remedy(finding,
                       "ethtool -S %s | grep -E 'discard|drop|pause|xoff'   # then the same "
                       "counters of the switches on the way; and PFC-ON, DSCP-MAP",
                       netdev);
    } else {
        rg_find_remedy(finding, "ibqueryerrors -C %s -P %u   # which link of the fabric has errors",
                       device, number);
    }
}

static void mend(const struct rg_host_facts *facts, const struct rule *rule,
                 const struct rg_counter *counter, struct rg_finding *finding)
{
    const struct rg_host_port *port = port_of(facts, counter);
    const char *device = port ? facts->devices.rdma[port->device].name : "DEVICE";
    unsigned number = port ? port->number : 1;
    bool ethernet = counter->is_netdev || (port && rg_host_port_is_ethernet(port));
    const char *netdev = counter->is_netdev ? counter->subject
                         : !ethernet        ? NULL
                         : port->netdev[0]  ? port->netdev
                                            : "INTERFACE";
    switch (rule->look) {
    case LOOK_CABLE:
        look_at_cable(finding, netdev, device, number);
        break;
    case LOOK_FABRIC:
        look_at_fabric(finding, netdev, device, number);
        break;
    case LOOK_PORT:
        if (netdev) {
            look_at_fabric(finding, netdev, device, number);
        } else {
            rg_find_remedy(finding, "perfquery -C %s -P %u -x   # and the same of the switch port",
                           device, number);
        }
        break;
    case LOOK_WAITS:
        if (netdev) {
            look_at_fabric(finding, netdev, device, number);
        } else {
            rg_find_remedy(finding,
                           "ibqueryerrors -C %s -P %u --details   # where in the fabric do ports "
                           "wait?",
                           device, number);
        }
        break;
    case LOOK_MANAGER:
        rg_find_remedy(finding, "sminfo -C %s -P %u; journalctl -u opensm --since -1h", device,
                       number);
        break;
    case LOOK_AS_SAID:
        rg_find_remedy_line(finding, rule->remedy);
        break;
    }
}

static void judge_rise(const struct rg_host_facts *facts, const struct rule *rule,
                       const struct rg_counter *counter, struct rg_findings *findings)
{
    uint64_t apart_ms = facts->counters.apart_ms;
    int64_t rise = counter->now - counter->before;
    enum rg_verdict verdict = is_above(&rule->fail, rise, apart_ms)   ? RG_VERDICT_FAIL
                              : is_above(&rule->warn, rise, apart_ms) ? RG_VERDICT_WARN
                                                                      : RG_VERDICT_OK;
    if (verdict == RG_VERDICT_OK) {
        return;
    }
    if (rule->spared.count && facts->lnet.has_o2ib && !is_above(&rule->spared, rise, apart_ms)) {
        verdict = RG_VERDICT_WARN;
    }
    struct rg_finding *finding =
        rg_find(findings, verdict, counter->subject, "%s rose by %" PRId64 " in %.1f s: %s.",
                counter->name, rise, (double)apart_ms / 1000, rule->accuses);
    rg_find_value(finding, "%" PRId64 ", before %" PRId64, counter->now, counter->before);
    tell_where(finding, counter);
    mend(facts, rule, counter, finding);
}

/* InfiniBand's counters of ports have few bits, and stay where they are full: of the table of port
 * counters in the specification's volume 1, chapter 16. */
static int64_t fullest(const char *name)
{
    static const struct {
        const char *name;
        int64_t most;
    } rows[] = {
        {"symbol_error", 0xffff},
        {"link_error_recovery", 0xff},
        {"link_downed", 0xff},
        {"port_rcv_errors", 0xffff},
        {"port_xmit_discards", 0xffff},
        {"local_link_integrity_errors", 0xf},
        {"excessive_buffer_overrun_errors", 0xf},
        {"VL15_dropped", 0xffff},
        {"port_xmit_wait", 0xffffffff},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].most;
        }
    }
    return -1;
}

/* Full at both readings: what it would have counted between them is lost. */
static bool judge_full(const struct rg_host_facts *facts, const struct rg_counter *counter,
                       struct rg_findings *findings)
{
    const struct rg_host_port *port = port_of(facts, counter);
    if (counter->is_netdev || counter->is_hardware || counter->now != counter->before ||
        counter->now != fullest(counter->name)) {
        return false;
    }
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_SKIP, counter->subject,
                "Not known: %s is full and can rise no more.", counter->name);
    rg_find_value(finding, "%" PRId64, counter->now);
    tell_where(finding, counter);
    if (port && !rg_host_port_is_ethernet(port)) { /* which has no management to ask */
        rg_find_remedy(finding, "perfquery -C %s -P %u -R   # all counters of the port from 0",
                       facts->devices.rdma[port->device].name, port->number);
    }
    return true;
}

static void judge_rule(const struct rg_host_facts *facts, struct rg_findings *findings,
                       const struct rule *rule)
{
    const struct rg_host_counters *counters = &facts->counters;
    size_t known = 0;
    size_t compared = 0;
    size_t full = 0;
    size_t before = findings->count;
    for (size_t i = 0; i < counters->count; i++) {
        const struct rg_counter *counter = &counters->list[i];
        if (!is_named(rule, counter->name)) {
            continue;
        }
        known++;
        if (counter->has_before && judge_full(facts, counter, findings)) {
            full++;
        } else if (counter->has_before) {
            compared++;
            judge_rise(facts, rule, counter, findings);
        }
    }
    if (known == 0 || findings->count > before + full || (full && compared == 0)) {
        return;
    }
    if (compared == 0) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "", "%s",
                      counters->other_boot
                          ? "The baseline is of before the last boot."
                          : "There is one reading only: what a counter stands at proves nothing.");
        return;
    }
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_OK, "", "%zu counters, no rise that matters in %.1f s.",
                compared, (double)counters->apart_ms / 1000);
    if (counters->baseline_at.path[0]) {
        rg_find_where_text(finding, "compared with %s", counters->baseline_at.path);
    } else {
        rg_find_where_text(finding, "two readings");
    }
}

#define A_DAY 86400

#define JUDGE(name, ...)                                                                           \
    void judge_##name(const struct rg_host_facts *facts, struct rg_findings *findings)             \
    {                                                                                              \
        static const struct rule rule = {__VA_ARGS__};                                             \
        judge_rule(facts, findings, &rule);                                                        \
    }

JUDGE(cnt_link, {"link_downed"}, {NEVER, 1}, {0, 1}, "the link was lost (cable or port)",
      LOOK_CABLE)
/* Against a baseline of hours ago as well: more than one flap, down and up, is too many. */
JUDGE(cnt_carrier, {"carrier_changes"}, {2, A_DAY}, {NEVER, 1}, "the carrier flaps", LOOK_CABLE)
JUDGE(cnt_symbol, {"symbol_error"}, {10, 1}, {120, 3600}, "the signal is bad", LOOK_CABLE)
JUDGE(cnt_recovery, {"link_error_recovery"}, {5, 60}, {NEVER, 1}, "the signal is bad", LOOK_CABLE)
JUDGE(cnt_integrity, {"local_link_integrity_errors", "excessive_buffer_overrun_errors"}, {NEVER, 1},
      {0, 1}, "the signal is bad, or buffers overrun", LOOK_CABLE)
JUDGE(cnt_rcv, {"port_rcv_errors"}, {10, 1}, {NEVER, 1}, "packets arrive damaged", LOOK_CABLE)
JUDGE(cnt_discard, {"port_xmit_discards"}, {100, 1}, {NEVER, 1}, "congestion, or no credits",
      LOOK_PORT)
/* A rise is information: it warns only when the port waited most of the time. */
JUDGE(cnt_wait, {"port_xmit_wait"}, {100000000, 1}, {NEVER, 1}, "congestion downstream", LOOK_WAITS)
JUDGE(cnt_vl15, {"VL15_dropped"}, {0, 1}, {NEVER, 1}, "the subnet manager's questions are dropped",
      LOOK_MANAGER)
/* Names of mlx5 and others first, those of ionic (req_rx_, resp_rx_, tx_rdma_) behind them. */
JUDGE(cnt_seq,
      {"out_of_sequence", "packet_seq_err", "implied_nak_seq_err", "req_rx_pkt_seq_err",
       "req_rx_impl_nak_seq_err"},
      {0, 1}, {NEVER, 1}, "packets are lost in the fabric", LOOK_FABRIC)
JUDGE(cnt_ack, {"local_ack_timeout_err", "tx_rdma_ack_timeout"}, {1, 1}, {NEVER, 1},
      "a peer or the path to it is dead", LOOK_FABRIC)
JUDGE(cnt_rnr, {"rnr_nak_retry_err", "req_rx_rnr_retry_err"}, {NEVER, 1}, {0, 1},
      "a peer posts no receives", LOOK_AS_SAID,
      "# look for a stuck or overloaded process at the peer", .spared = {10, 60})
JUDGE(cnt_dup, {"duplicate_request", "resp_rx_dup_request"}, {0, 1}, {NEVER, 1},
      "acknowledgements are lost", LOOK_FABRIC)
JUDGE(cnt_retry,
      {"req_transport_retries_exceeded", "req_rnr_retries_exceeded", "resp_local_length_error",
       "resp_remote_access_errors", "resp_cqe_error", "req_cqe_error", "req_remote_access_errors",
       "req_remote_invalid_request", "req_tx_retry_excd_err", "req_rx_cqe_err", "resp_rx_cqe_err"},
      {NEVER, 1}, {0, 1}, "queue pairs have died", LOOK_AS_SAID,
      "dmesg | tail -50   # and the log of the program that owns them")
JUDGE(cnt_icrc, {"rx_icrc_encapsulated"}, {NEVER, 1}, {0, 1}, "a switch or card damages data",
      LOOK_AS_SAID, "# take switches out of the path one by one; update firmware")
JUDGE(cnt_slow, {"roce_slow_restart", "roce_adp_retrans"}, {10, 1}, {NEVER, 1},
      "losses are being repaired", LOOK_FABRIC)
JUDGE(cnt_buffer, {"out_of_buffer", "resp_rx_outof_buf"}, {0, 1}, {NEVER, 1},
      "the receiver's CPU is too slow", LOOK_AS_SAID,
      "top -H   # the receiver's threads; then its NUMA node and interrupts")
JUDGE(cnt_efa,
      {"retrans_pkts", "retrans_timeout_events", "impaired_remote_conn_events",
       "unresponsive_remote_events", "rx_drops"},
      {0, 1}, {10000, 1}, "SRD loses packets or peers", LOOK_AS_SAID,
      "# check placement group, security group (all traffic to itself) and the peers named by the "
      "program")
JUDGE(cnt_irdma,
      {"rxVlanErrors", "ip4InDiscards", "InProtoErrors", "RetransSegs", "ip6InDiscards",
       "tcpRetransSegs"},
      {0, 1}, {NEVER, 1}, "packets are discarded or sent again", LOOK_FABRIC)
