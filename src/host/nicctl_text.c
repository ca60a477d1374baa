/*
 * `nicctl show qos`. See nicctl_text.h.
 */
#include "host/nicctl_text.h"

#include "base/attr.h"
#include "host/words.h"

#include <string.h>

#define ALGORITHM_STRICT 0
#define ALGORITHM_ETS    2

/* "NIC  : 42424650-…  (0000:06:00.0)" */
static void take_card(struct span value, char ret_address[16])
{
    ret_address[0] = '\0';
    while (value.ptr) {
        struct span rest = value;
        (void)rg_span_cut(&rest, '(');
        if (!rest.ptr) {
            return;
        }
        value = rest;
        struct span inside = rg_span_cut(&rest, ')');
        if (rest.ptr && inside.len == 12 && inside.ptr[4] == ':' && inside.ptr[7] == ':') {
            rg_words_copy(ret_address, 16, inside);
            return;
        }
    }
}

static struct rg_nicctl_port *add_port(struct rg_nicctl *nicctl, const char *address)
{
    if (nicctl->count == RG_NICCTL_PORTS_MAX) {
        nicctl->cut = true;
        return NULL;
    }
    struct rg_nicctl_port *port = &nicctl->ports[nicctl->count++];
    *port = (struct rg_nicctl_port){0};
    rg_dcb_init(&port->dcb);
    memcpy(port->address, address, sizeof port->address);
    return port;
}

/* "0-23,25,47-63", to one priority. */
static void map_range(struct rg_dcb *dcb, struct span range, uint64_t priority)
{
    struct span last = range;
    struct span first = rg_span_cut(&last, '-');
    uint64_t from, to;
    if (!rg_span_to_u64(rg_span_trim(first), &from) ||
        !rg_span_to_u64(rg_span_trim(last.ptr ? last : first), &to) || to >= RG_DCB_DSCPS) {
        return;
    }
    for (; from <= to; from++) {
        dcb->priority_of_dscp[from] = (int8_t)priority;
        dcb->has_dscp_rules = true;
    }
}

/* "24 ==> priority : 3", behind "DSCP :". */
static void take_rule(struct rg_dcb *dcb, struct span value)
{
    uint64_t priority;
    struct span rest = value;
    struct span list = rg_span_cut(&rest, '=');
    if (rest.ptr) {
        (void)rg_span_cut(&rest, ':');
    }
    if (!rest.ptr || !rg_span_to_u64(rg_span_trim(rest), &priority) ||
        priority >= RG_DCB_PRIORITIES) {
        return;
    }
    while (list.ptr) {
        map_range(dcb, rg_span_trim(rg_span_cut(&list, ',')), priority);
    }
}

/* "3  DWRR  99  N/A", below "Scheduling :". Every priority there has a queue of its own. */
static void take_schedule(struct rg_dcb *dcb, struct span line)
{
    struct span word, kind, share;
    uint64_t priority, per_cent;
    if (!rg_words_next(&line, &word) || !rg_span_to_u64(word, &priority) ||
        priority >= RG_DCB_PRIORITIES || !rg_words_next(&line, &kind) ||
        !rg_words_next(&line, &share)) {
        return;
    }
    bool strict = rg_span_is_nocase(kind, "strict");
    if (!strict && (!rg_span_to_u64(share, &per_cent) || per_cent > 100)) {
        return;
    }
    dcb->has_ets = true;
    dcb->class_of_priority[priority] = (uint8_t)priority;
    dcb->algorithm[priority] = strict ? ALGORITHM_STRICT : ALGORITHM_ETS;
    dcb->bandwidth[priority] = strict ? 0 : (uint8_t)per_cent;
}

static void take_line(struct rg_nicctl_port *port, struct span name, struct span value)
{
    uint64_t bitmap;
    if (rg_span_is(name, "PFC priority bitmap") && rg_words_number(value, &bitmap) &&
        bitmap <= UINT8_MAX) {
        port->has_pfc = port->dcb.known = true;
        port->dcb.pfc_enabled = (uint8_t)bitmap;
    } else if (rg_span_is(name, "DSCP")) {
        take_rule(&port->dcb, value);
    }
}

bool rg_nicctl_parse(struct span text, struct rg_nicctl *ret_nicctl)
{
    struct span line, name, value;
    struct rg_nicctl_port *port = NULL;
    char address[16] = "";
    bool schedules = false, known = false;
    *ret_nicctl = (struct rg_nicctl){0};
    while (rg_words_line(&text, &line)) {
        bool pair = rg_words_pair(line, ':', &name, &value);
        if (pair && rg_span_is(name, "NIC")) {
            take_card(value, address);
            port = NULL;
        } else if (pair && rg_span_is(name, "Port")) {
            port = add_port(ret_nicctl, address);
        } else if (port && pair) {
            take_line(port, name, value);
        } else if (port && schedules) {
            take_schedule(&port->dcb, line);
        }
        schedules = pair ? rg_span_is(name, "Scheduling") : schedules;
        known |= port && port->has_pfc;
    }
    return known;
}

static bool is_same(const struct rg_dcb *a, const struct rg_dcb *b)
{
    return a->pfc_enabled == b->pfc_enabled && a->has_ets == b->has_ets &&
           memcmp(a->priority_of_dscp, b->priority_of_dscp, sizeof a->priority_of_dscp) == 0 &&
           memcmp(a->class_of_priority, b->class_of_priority, sizeof a->class_of_priority) == 0 &&
           memcmp(a->algorithm, b->algorithm, sizeof a->algorithm) == 0 &&
           memcmp(a->bandwidth, b->bandwidth, sizeof a->bandwidth) == 0;
}

/* Of all ports, or of those of one card; NULL when they differ or tell nothing. */
static const struct rg_dcb *common(const struct rg_nicctl *nicctl, const char *address)
{
    const struct rg_dcb *found = NULL;
    for (size_t i = 0; i < nicctl->count; i++) {
        const struct rg_nicctl_port *port = &nicctl->ports[i];
        if (address && strcmp(port->address, address) != 0) {
            continue;
        }
        if (!port->has_pfc || (found && !is_same(found, &port->dcb))) {
            return NULL;
        }
        found = &port->dcb;
    }
    return found;
}

const struct rg_dcb *rg_nicctl_find(const struct rg_nicctl *nicctl, const char *address)
{
    const struct rg_dcb *own = address[0] ? common(nicctl, address) : NULL;
    return own || nicctl->cut ? own : common(nicctl, NULL);
}

bool rg_nicctl_dcqcn(struct span text, const char *rdma, bool *ret_on)
{
    struct span line, name, value;
    bool is_its = false, is_known = false, is_on = false;
    while (rg_words_line(&text, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        if (rg_span_is(name, "ROCE device")) {
            is_its = rg_span_is(value, rdma);
        } else if (rg_span_is(name, "NIC")) {
            is_its = false;
        } else if (is_its && rg_span_is(name, "Status")) {
            is_known |= rg_span_is(value, "Enabled") || rg_span_is(value, "Disabled");
            is_on |= rg_span_is(value, "Enabled");
        }
    }
    *ret_on = is_on;
    return is_known;
}
