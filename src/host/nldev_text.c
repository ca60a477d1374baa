/*
 * RDMA resources over netlink. See nldev_text.h.
 */
#include "host/nldev_text.h"

#include "base/attr.h"
#include "base/checked.h"
#include "host/words.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define DATAGRAM_MAX 65536
#define WAIT_MS      500
#define ROUNDS_MAX   4096 /* datagrams of one dump */

/* ---- Attributes ---- */

/* Cuts the next attribute off *rest. False at the end; *ret_bad when lengths do not fit. */
static bool next_attribute(struct span *rest, uint16_t *ret_type, struct span *ret_value,
                           bool *ret_bad)
{
    struct nlattr head;
    if (rest->len < sizeof head) {
        return false; /* padding */
    }
    memcpy(&head, rest->ptr, sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > rest->len) {
        *ret_bad = true;
        return false;
    }
    *ret_type = head.nla_type & NLA_TYPE_MASK;
    *ret_value = rg_span(rest->ptr + sizeof head, head.nla_len - sizeof head);
    *rest = rg_span_skip(*rest, NLA_ALIGN(head.nla_len));
    return true;
}

static uint64_t number_of(struct span value)
{
    uint64_t number = 0;
    if (value.len <= sizeof number) {
        memcpy(&number, value.ptr, value.len); /* host order; right on little-endian */
    }
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    number >>= 8 * (sizeof number - value.len);
#endif
    return number;
}

static void text_of(char *text, size_t room, struct span value)
{
    rg_words_copy(text, room, rg_span(value.ptr, strnlen(value.ptr, value.len)));
}

/* ---- Queue pairs ---- */

static bool add_qp(struct rg_nldev_qps *qps, const struct rg_nldev_qp *qp)
{
    if (qps->count == RG_NLDEV_QPS_MAX) {
        qps->cut = true;
        return true;
    }
    if (!qps->list && !(qps->list = calloc(RG_NLDEV_QPS_MAX, sizeof *qps->list))) {
        return false;
    }
    qps->list[qps->count++] = *qp;
    return true;
}

static bool parse_qp(struct span entry, struct rg_nldev_qp *qp)
{
    uint16_t type;
    struct span value;
    bool bad = false;
    while (next_attribute(&entry, &type, &value, &bad)) {
        switch (type) {
        case RDMA_NLDEV_ATTR_RES_LQPN:
            qp->number = (uint32_t)number_of(value);
            break;
        case RDMA_NLDEV_ATTR_RES_TYPE:
            qp->type = (uint8_t)number_of(value);
            break;
        case RDMA_NLDEV_ATTR_RES_STATE:
            qp->state = (uint8_t)number_of(value);
            break;
        case RDMA_NLDEV_ATTR_RES_PID:
            qp->pid = (uint32_t)number_of(value);
            break;
        default:
            break;
        }
    }
    return !bad;
}

static bool parse_qp_list(struct span list, const char *device, struct rg_nldev_qps *qps)
{
    uint16_t type;
    struct span value;
    bool bad = false;
    while (next_attribute(&list, &type, &value, &bad)) {
        struct rg_nldev_qp qp = {0};
        rg_words_copy(qp.device, sizeof qp.device, rg_span_text(device));
        if (type == RDMA_NLDEV_ATTR_RES_QP_ENTRY && (!parse_qp(value, &qp) || !add_qp(qps, &qp))) {
            return false;
        }
    }
    return !bad;
}

static bool parse_qp_message(struct span body, void *context)
{
    struct rg_nldev_qps *qps = context;
    char device[32] = "";
    uint16_t type;
    struct span value;
    bool bad = false;
    while (next_attribute(&body, &type, &value, &bad)) {
        if (type == RDMA_NLDEV_ATTR_DEV_NAME) {
            text_of(device, sizeof device, value);
        } else if (type == RDMA_NLDEV_ATTR_RES_QP && !parse_qp_list(value, device, qps)) {
            return false;
        }
    }
    return !bad;
}

/* ---- Devices ---- */

static bool parse_counts(struct span list, struct rg_nldev_device *device)
{
    uint16_t type;
    struct span entry, value;
    bool bad = false;
    while (next_attribute(&list, &type, &entry, &bad)) {
        if (type != RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY ||
            device->count_count == RG_ARRAY_LENGTH(device->counts)) {
            continue;
        }
        size_t at = device->count_count++;
        while (next_attribute(&entry, &type, &value, &bad)) {
            if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME) {
                text_of(device->counts[at].kind, sizeof device->counts[at].kind, value);
            } else if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR) {
                device->counts[at].count = number_of(value);
            }
        }
    }
    return !bad;
}

static bool parse_device_message(struct span body, void *context)
{
    struct rg_nldev_devices *devices = context;
    struct rg_nldev_device device = {0};
    uint16_t type;
    struct span value;
    bool bad = false;
    while (next_attribute(&body, &type, &value, &bad)) {
        if (type == RDMA_NLDEV_ATTR_DEV_INDEX) {
            device.index = (uint32_t)number_of(value);
        } else if (type == RDMA_NLDEV_ATTR_DEV_NAME) {
            text_of(device.name, sizeof device.name, value);
        } else if (type == RDMA_NLDEV_ATTR_RES_SUMMARY && !parse_counts(value, &device)) {
            return false;
        }
    }
    if (bad) {
        return false;
    }
    if (devices->count == RG_NLDEV_DEVICES_MAX) {
        devices->cut = true;
    } else {
        devices->devices[devices->count++] = device;
    }
    return true;
}

/* ---- The subsystem ---- */

static bool parse_system_message(struct span body, void *context)
{
    struct rg_nldev_system *system = context;
    uint16_t type;
    struct span value;
    bool bad = false;
    system->answered = true;
    while (next_attribute(&body, &type, &value, &bad)) {
        if (type == RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK) {
            system->copies_on_fork = number_of(value) != 0;
        }
    }
    return !bad;
}

/* ---- Messages ---- */

static int parse_datagram(struct span datagram, bool (*parse)(struct span body, void *context),
                          void *context, bool *ret_done, struct rg_error *err)
{
    *ret_done = false;
    while (datagram.len >= sizeof(struct nlmsghdr)) {
        struct nlmsghdr head;
        memcpy(&head, datagram.ptr, sizeof head);
        if (head.nlmsg_len < sizeof head || head.nlmsg_len > datagram.len) {
            return rg_failf(err, RG_PARSE, "a netlink message of %u bytes in %zu", head.nlmsg_len,
                            datagram.len);
        }
        struct span body = rg_span(datagram.ptr + sizeof head, head.nlmsg_len - sizeof head);
        if (head.nlmsg_type == NLMSG_DONE) {
            *ret_done = true;
            return 0;
        }
        if (head.nlmsg_type == NLMSG_ERROR) {
            int number =
                body.len >= sizeof number ? (int)(int32_t)number_of(rg_span_head(body, 4)) : 0;
            *ret_done = true;
            return number == 0 ? 0
                               : rg_fail_errno(err, RG_SERVICE_UNAVAILABLE,
                                               number == INT32_MIN ? EINVAL : -number,
                                               "the kernel refuses the question");
        }
        if (!parse(body, context)) {
            return rg_failf(err, RG_PARSE, "attributes that do not fit their message");
        }
        datagram = rg_span_skip(datagram, NLMSG_ALIGN(head.nlmsg_len));
    }
    return 0;
}

int rg_nldev_qps_parse(struct span datagram, struct rg_nldev_qps *qps, bool *ret_done,
                       struct rg_error *err)
{
    return parse_datagram(datagram, parse_qp_message, qps, ret_done, err);
}

void rg_nldev_qps_free(struct rg_nldev_qps *qps)
{
    free(qps->list);
    *qps = (struct rg_nldev_qps){0};
}

int rg_nldev_devices_parse(struct span datagram, struct rg_nldev_devices *devices, bool *ret_done,
                           struct rg_error *err)
{
    return parse_datagram(datagram, parse_device_message, devices, ret_done, err);
}

int rg_nldev_system_parse(struct span datagram, struct rg_nldev_system *ret_system,
                          struct rg_error *err)
{
    bool done;
    *ret_system = (struct rg_nldev_system){0};
    return parse_datagram(datagram, parse_system_message, ret_system, &done, err);
}

/* ---- Asking ---- */

static int open_socket(struct rg_error *err)
{
    struct timeval patience = {.tv_usec = WAIT_MS * 1000};
    rg_autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno, "there is no RDMA netlink");
    }
    return RG_TAKE_FD(fd);
}

int rg_nldev_tell_system(struct rg_buf *out, struct rg_error *err)
{
    char datagram[4096];
    struct rg_nldev_system system;
    struct nlmsghdr question = {
        .nlmsg_len = sizeof question,
        .nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET),
        .nlmsg_flags = NLM_F_REQUEST};
    rg_autoclose int fd = open_socket(err);
    if (fd < 0) {
        return fd;
    }
    ssize_t len = send(fd, &question, sizeof question, 0);
    len = len < 0 ? len : recv(fd, datagram, sizeof datagram, 0);
    if (len < 0) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno, "no answer of the kernel");
    }
    int rc = rg_nldev_system_parse(rg_span(datagram, (size_t)len), &system, err);
    if (rc == 0 && !system.answered) {
        rc = rg_failf(err, RG_PARSE, "the kernel's answer says nothing");
    }
    if (rc == 0) {
        rg_buf_addf(out, "copy_on_fork %d\n", system.copies_on_fork);
    }
    return rc;
}

static int ask(int fd, unsigned command, const uint32_t *device,
               bool (*parse)(struct span body, void *context), void *context, struct rg_error *err)
{
    struct {
        struct nlmsghdr head;
        struct nlattr attribute;
        uint32_t device;
    } question = {
        .head = {.nlmsg_len = device ? sizeof question : sizeof question.head,
                 .nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .attribute = {.nla_len = sizeof question.attribute + sizeof question.device,
                      .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX},
        .device = device ? *device : 0,
    };
    if (send(fd, &question, question.head.nlmsg_len, 0) < 0) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno, "cannot ask the kernel");
    }
    rg_autofree char *datagram = malloc(DATAGRAM_MAX);
    if (!datagram) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        ssize_t len = recv(fd, datagram, DATAGRAM_MAX, 0);
        bool done;
        if (len < 0) {
            return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno, "no answer of the kernel");
        }
        int result = parse_datagram(rg_span(datagram, (size_t)len), parse, context, &done, err);
        if (result < 0 || done) {
            return result;
        }
    }
    return rg_failf(err, RG_LIMIT, "the kernel's answer does not end");
}

static void tell_device(const struct rg_nldev_device *device, struct rg_buf *out)
{
    rg_buf_addf(out, "dev %s", device->name);
    for (size_t i = 0; i < device->count_count; i++) {
        rg_buf_addf(out, " %s %" PRIu64, device->counts[i].kind, device->counts[i].count);
    }
    rg_buf_add_char(out, '\n');
}

int rg_nldev_tell(struct rg_buf *out, struct rg_error *err)
{
    rg_autoclose int fd = open_socket(err);
    if (fd < 0) {
        return fd;
    }
    rg_autofree struct rg_nldev_devices *devices = calloc(1, sizeof *devices);
    if (!devices) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int result = ask(fd, RDMA_NLDEV_CMD_RES_GET, NULL, parse_device_message, devices, err);
    for (size_t i = 0; result == 0 && i < devices->count; i++) {
        RG_CLEANUP(rg_nldev_qps_free) struct rg_nldev_qps qps = {0};
        tell_device(&devices->devices[i], out);
        result = ask(fd, RDMA_NLDEV_CMD_RES_QP_GET, &devices->devices[i].index, parse_qp_message,
                     &qps, err);
        for (size_t k = 0; result == 0 && k < qps.count; k++) {
            rg_buf_addf(out, "qp %s %" PRIu32 " %u %u %" PRIu32 "\n", devices->devices[i].name,
                        qps.list[k].number, qps.list[k].type, qps.list[k].state, qps.list[k].pid);
        }
    }
    return result;
}

/* ---- What was told ---- */

void rg_nldev_use_parse(struct span lines, uint32_t pid, struct rg_nldev_use *ret_use)
{
    struct span line, word;
    *ret_use = (struct rg_nldev_use){0};
    while (rg_words_line(&lines, &line)) {
        uint64_t numbers[4];
        size_t count = 0;
        if (!rg_words_next(&line, &word) || !rg_span_is(word, "qp")) {
            continue;
        }
        bool whole = rg_words_next(&line, &word);
        while (whole && count < 4 && rg_words_next(&line, &word) &&
               rg_span_to_u64(word, &numbers[count])) {
            count++;
        }
        if (count != 4) {
            ret_use->malformed = true;
        } else if (numbers[1] == RG_NLDEV_RC && numbers[2] == RG_NLDEV_RTS) {
            ret_use->kernel += numbers[3] == 0;
            ret_use->owned += numbers[3] != 0 && numbers[3] == pid;
            ret_use->other += numbers[3] != 0 && numbers[3] != pid;
        }
    }
}

bool rg_nldev_count_parse(struct span lines, const char *device, const char *kind,
                          uint64_t *ret_count)
{
    struct span line, word, number;
    while (rg_words_line(&lines, &line)) {
        if (!rg_words_next(&line, &word) || !rg_span_is(word, "dev") ||
            !rg_words_next(&line, &word) || !rg_span_is(word, device)) {
            continue;
        }
        while (rg_words_next(&line, &word) && rg_words_next(&line, &number)) {
            if (rg_span_is(word, kind)) {
                return rg_span_to_u64(number, ret_count);
            }
        }
    }
    return false;
}
