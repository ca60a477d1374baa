/*
 * Data center bridging over rtnetlink. See dcb.h.
 */
#include "rdma/dcb.h"

#include "base/attr.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define ROCE_V2_PORT      4791
#define ROCE_USUAL_DSCP   26
#define ROCE_USUAL_PRIO   3
#define ECN_CAPABLE       2
#define ANSWER_BYTES_MAX  16384
#define ANSWER_TIMEOUT_MS 1000

void rg_dcb_init(struct rg_dcb *dcb)
{
    memset(dcb, 0, sizeof *dcb);
    memset(dcb->priority_of_dscp, RG_DCB_NONE, sizeof dcb->priority_of_dscp);
    dcb->roce_priority = RG_DCB_NONE;
}

/* ---- Attributes ---- */

struct attribute {
    unsigned type;
    const uint8_t *data;
    size_t len;
};

struct attributes {
    const uint8_t *at;
    size_t left;
    bool malformed;
};

static bool next_attribute(struct attributes *list, struct attribute *ret_attribute)
{
    struct nlattr header;
    if (list->left < sizeof header) {
        list->malformed = list->left != 0;
        return false;
    }
    memcpy(&header, list->at, sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > list->left) {
        list->malformed = true;
        return false;
    }
    ret_attribute->type = header.nla_type & NLA_TYPE_MASK;
    ret_attribute->data = list->at + sizeof header;
    ret_attribute->len = header.nla_len - sizeof header;
    size_t step = NLA_ALIGN((size_t)header.nla_len);
    step = step < list->left ? step : list->left;
    list->at += step;
    list->left -= step;
    return true;
}

static int malformed(struct rg_error *err, const char *what)
{
    return rg_failf(err, RG_PARSE, "The kernel's answer about DCB is not well formed: %s.", what);
}

static int read_pfc(struct attribute attribute, struct rg_dcb *dcb, struct rg_error *err)
{
    if (attribute.len < offsetof(struct ieee_pfc, mbc)) {
        return malformed(err, "PFC is too short");
    }
    dcb->pfc_enabled = attribute.data[offsetof(struct ieee_pfc, pfc_en)];
    return 0;
}

/* Older kernels know the form without the recommendations at its end. */
static int read_ets(struct attribute attribute, struct rg_dcb *dcb, struct rg_error *err)
{
    if (attribute.len < offsetof(struct ieee_ets, tc_reco_bw)) {
        return malformed(err, "ETS is too short");
    }
    dcb->has_ets = true;
    memcpy(dcb->bandwidth, attribute.data + offsetof(struct ieee_ets, tc_tx_bw),
           sizeof dcb->bandwidth);
    memcpy(dcb->algorithm, attribute.data + offsetof(struct ieee_ets, tc_tsa),
           sizeof dcb->algorithm);
    memcpy(dcb->class_of_priority, attribute.data + offsetof(struct ieee_ets, prio_tc),
           sizeof dcb->class_of_priority);
    return 0;
}

static int read_peer_pfc(struct attribute attribute, struct rg_dcb *dcb, struct rg_error *err)
{
    struct rg_dcb peer;
    int rc = read_pfc(attribute, &peer, err);
    if (rc == 0) {
        dcb->has_peer_pfc = true;
        dcb->peer_pfc_enabled = peer.pfc_enabled;
    }
    return rc;
}

static int read_rule(struct attribute attribute, struct rg_dcb *dcb, struct rg_error *err)
{
    struct dcb_app rule;
    if (attribute.len < sizeof rule) {
        return malformed(err, "a rule is too short");
    }
    memcpy(&rule, attribute.data, sizeof rule);
    if (rule.priority >= RG_DCB_PRIORITIES) {
        return 0;
    }
    if (rule.selector == IEEE_8021QAZ_APP_SEL_DSCP && rule.protocol < RG_DCB_DSCPS) {
        dcb->priority_of_dscp[rule.protocol] = (int8_t)rule.priority;
        dcb->has_dscp_rules = true;
    }
    if ((rule.selector == IEEE_8021QAZ_APP_SEL_DGRAM ||
         rule.selector == IEEE_8021QAZ_APP_SEL_ANY) &&
        rule.protocol == ROCE_V2_PORT) {
        dcb->roce_priority = (int8_t)rule.priority;
    }
    return 0;
}

static int read_rules(struct attribute table, struct rg_dcb *dcb, struct rg_error *err)
{
    struct attributes list = {.at = table.data, .left = table.len};
    struct attribute attribute;
    while (next_attribute(&list, &attribute)) {
        if (attribute.type != DCB_ATTR_IEEE_APP) {
            continue;
        }
        int rc = read_rule(attribute, dcb, err);
        if (rc < 0) {
            return rc;
        }
    }
    return list.malformed ? malformed(err, "the rules are cut short") : 0;
}

static int read_ieee(struct attribute table, struct rg_dcb *dcb, struct rg_error *err)
{
    struct attributes list = {.at = table.data, .left = table.len};
    struct attribute attribute;
    while (next_attribute(&list, &attribute)) {
        int rc = 0;
        if (attribute.type == DCB_ATTR_IEEE_PFC) {
            rc = read_pfc(attribute, dcb, err);
        } else if (attribute.type == DCB_ATTR_IEEE_APP_TABLE) {
            rc = read_rules(attribute, dcb, err);
        } else if (attribute.type == DCB_ATTR_IEEE_ETS) {
            rc = read_ets(attribute, dcb, err);
        } else if (attribute.type == DCB_ATTR_IEEE_PEER_PFC) {
            rc = read_peer_pfc(attribute, dcb, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    if (list.malformed) {
        return malformed(err, "the IEEE attributes are cut short");
    }
    dcb->known = true;
    return 0;
}

static int read_attributes(struct attributes list, struct rg_dcb *dcb, struct rg_error *err)
{
    struct attribute attribute;
    while (next_attribute(&list, &attribute)) {
        if (attribute.type == DCB_ATTR_DCBX && attribute.len >= 1) {
            dcb->has_dcbx = true;
            dcb->dcbx = attribute.data[0];
        }
        if (attribute.type != DCB_ATTR_IEEE) {
            continue;
        }
        int rc = read_ieee(attribute, dcb, err);
        if (rc < 0) {
            return rc;
        }
    }
    return list.malformed ? malformed(err, "the attributes are cut short") : 0;
}

/* The kernel's refusal, as a positive errno; 0 when the message is none. */
static int refusal(const uint8_t *message, size_t len, const struct nlmsghdr *header)
{
    int error;
    if (header->nlmsg_type != NLMSG_ERROR || len < NLMSG_HDRLEN + sizeof error) {
        return 0;
    }
    memcpy(&error, message + NLMSG_HDRLEN, sizeof error);
    return error < 0 && error >= -4095 ? -error : EPROTO;
}

int rg_dcb_parse(const void *message, size_t len, struct rg_dcb *ret_dcb, struct rg_error *err)
{
    struct nlmsghdr header;
    struct rg_dcb dcb;
    rg_dcb_init(&dcb);
    if (len < sizeof header) {
        return malformed(err, "there is no header");
    }
    memcpy(&header, message, sizeof header);
    if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > len) {
        return malformed(err, "its length is wrong");
    }
    int refused = refusal(message, header.nlmsg_len, &header);
    if (refused == EOPNOTSUPP) {
        *ret_dcb = dcb;
        return 0;
    }
    if (refused) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, refused,
                             "The kernel does not tell about DCB");
    }
    size_t start = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct dcbmsg));
    if (header.nlmsg_type != RTM_GETDCB || header.nlmsg_len < start) {
        return malformed(err, "it is about something else");
    }
    struct attributes list = {.at = (const uint8_t *)message + start,
                              .left = header.nlmsg_len - start};
    int rc = read_attributes(list, &dcb, err);
    if (rc < 0) {
        return rc;
    }
    *ret_dcb = dcb;
    return 0;
}

/* ---- What follows from it ---- */

static bool is_lossless(const struct rg_dcb *dcb, int priority)
{
    return priority >= 0 && priority < RG_DCB_PRIORITIES && (dcb->pfc_enabled >> priority & 1) != 0;
}

/* The DSCP of a priority, or RG_DCB_NONE without a rule. */
static int dscp_of(const struct rg_dcb *dcb, int priority)
{
    if (dcb->priority_of_dscp[ROCE_USUAL_DSCP] == priority) {
        return ROCE_USUAL_DSCP;
    }
    if (dcb->priority_of_dscp[priority * 8] == priority) {
        return priority * 8;
    }
    for (int dscp = 0; dscp < RG_DCB_DSCPS; dscp++) {
        if (dcb->priority_of_dscp[dscp] == priority) {
            return dscp;
        }
    }
    return RG_DCB_NONE;
}

/* Lossless and, with `ruled`, named by a DSCP rule; 3 before others, then the lowest. */
static int choose_priority(const struct rg_dcb *dcb, bool ruled)
{
    static const int order[] = {ROCE_USUAL_PRIO, 0, 1, 2, 4, 5, 6, 7};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(order); i++) {
        if (is_lossless(dcb, order[i]) && (!ruled || dscp_of(dcb, order[i]) != RG_DCB_NONE)) {
            return order[i];
        }
    }
    return RG_DCB_NONE;
}

uint8_t rg_dcb_traffic_class(const struct rg_dcb *dcb)
{
    int priority =
        is_lossless(dcb, dcb->roce_priority) ? dcb->roce_priority : choose_priority(dcb, true);
    if (priority == RG_DCB_NONE) {
        priority = choose_priority(dcb, false);
    }
    if (priority == RG_DCB_NONE) {
        return 0;
    }
    int dscp = dscp_of(dcb, priority);
    if (dscp == RG_DCB_NONE) {
        dscp = priority * 8;
    }
    return (uint8_t)(dscp << 2 | ECN_CAPABLE);
}

/* ---- Asking ---- */

struct request {
    struct nlmsghdr header;
    struct dcbmsg body;
    struct nlattr name_header;
    char name[NLA_ALIGN(IF_NAMESIZE)];
};

static void write_request(struct request *request, const char *netdev)
{
    size_t name_bytes = strlen(netdev) + 1;
    memset(request, 0, sizeof *request);
    memcpy(request->name, netdev, name_bytes);
    request->name_header.nla_type = DCB_ATTR_IFNAME;
    request->name_header.nla_len = (uint16_t)(NLA_HDRLEN + name_bytes);
    request->body.dcb_family = AF_UNSPEC;
    request->body.cmd = DCB_CMD_IEEE_GET;
    request->header.nlmsg_type = RTM_GETDCB;
    request->header.nlmsg_flags = NLM_F_REQUEST;
    request->header.nlmsg_seq = 1;
    request->header.nlmsg_len = (uint32_t)(offsetof(struct request, name) + NLA_ALIGN(name_bytes));
}

static int fail_system(struct rg_error *err, const char *what)
{
    return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno, "%s", what);
}

/* Only the kernel (port 0) may answer. */
static ssize_t receive(int fd, void *answer, size_t room)
{
    for (;;) {
        struct sockaddr_nl from = {.nl_family = AF_NETLINK};
        socklen_t from_len = sizeof from;
        ssize_t len = recvfrom(fd, answer, room, 0, (struct sockaddr *)&from, &from_len);
        if (len >= 0 && from.nl_pid != 0) {
            continue;
        }
        if (len >= 0 || errno != EINTR) {
            return len;
        }
    }
}

int rg_dcb_read(const char *netdev, struct rg_dcb *ret_dcb, struct rg_error *err)
{
    if (strlen(netdev) >= IF_NAMESIZE) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The interface name is too long.");
    }
    rg_autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return fail_system(err, "There is no netlink socket");
    }
    struct timeval limit = {.tv_sec = ANSWER_TIMEOUT_MS / 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    struct request request;
    write_request(&request, netdev);
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (sendto(fd, &request, request.header.nlmsg_len, 0, (struct sockaddr *)&kernel,
               sizeof kernel) < 0) {
        return fail_system(err, "The kernel cannot be asked about DCB");
    }
    rg_autofree uint8_t *answer = malloc(ANSWER_BYTES_MAX);
    if (!answer) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    ssize_t len = receive(fd, answer, ANSWER_BYTES_MAX);
    if (len < 0) {
        return fail_system(err, "The kernel does not answer about DCB");
    }
    return rg_dcb_parse(answer, (size_t)len, ret_dcb, err);
}
