/*
 * Serving and visiting. See peer.h.
 */
#include "host/peer.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"
#include "host/json.h"
#include "host/peer_counters.h"
#include "host/peer_facts.h"
#include "host/peer_mtu.h"
#include "host/peer_proof.h"
#include "host/peer_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define HELLO_MS     30000 /* facts are read before they are sent */
#define IDLE_MS      30000 /* a visitor that says nothing */
#define MESSAGE_MS   5000  /* one that has begun to say something */
#define LOOK_MS      200   /* how soon the end is seen */
#define VISIT_MS     300000
#define CONNECT_MS   5000
#define CLOCK_ROUNDS 8
#define VISIT_STEPS  4096 /* messages of one visit */
#define PAUSE_MS     500  /* when no visitor can be let in */

/* ---- Addresses ---- */

static void free_addresses(struct addrinfo **list)
{
    if (*list) {
        freeaddrinfo(*list);
    }
}

static int resolve(const char *host, uint16_t port, int flags, struct addrinfo **ret_list,
                   struct rg_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &hints, ret_list);
    if (rc != 0 && (flags & AI_NUMERICHOST)) {
        return rg_failf(err, RG_SETTING, "\"%.200s\" is no numeric address, such as 192.0.2.2",
                        host);
    }
    return rc == 0 ? 0 : rg_failf(err, RG_SETTING, "%.200s: %s", host, gai_strerror(rc));
}

static void own_address(int fd, char *text, size_t room)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    text[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
        getnameinfo((struct sockaddr *)&address, len, text, (socklen_t)room, NULL, 0,
                    NI_NUMERICHOST) != 0) {
        text[0] = '\0';
    }
    /* An IPv4 connection on an IPv6 socket. */
    if (strncmp(text, "::ffff:", 7) == 0 && strchr(text, '.')) {
        memmove(text, text + 7, strlen(text + 7) + 1);
    }
    text[strcspn(text, "%")] = '\0';
}

static int64_t wall_us(void)
{
    struct timespec now = rg_clock_wall();
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- Serving ---- */

/* The facts, and the GPU that takes part. */
static json_t *tell_facts(const char *address, const struct rg_proof_gpu *gpu, struct rg_error *err)
{
    json_t *facts = rg_peer_tell_facts(address, err);
    if (facts && gpu->is_named) {
        (void)json_object_set_new(facts, "gpu", json_string(gpu->name));
    }
    return facts;
}

static json_t *answer_facts(const char *address, const struct rg_proof_gpu *gpu)
{
    struct rg_error err = RG_ERROR_INIT;
    json_t *facts = tell_facts(address, gpu, &err);
    return facts ? facts : json_pack("{s:s, s:s}", "type", "error", "message", err.message);
}

static json_t *answer(struct rg_proof_host *host, const char *address,
                      const struct rg_proof_gpu *gpu, const json_t *message)
{
    const char *type = rg_peer_type(message);
    if (strcmp(type, "hello") == 0) {
        bool same = rg_peer_number(message, "protocol", 0, 1 << 20, -1) == RG_PEER_PROTOCOL;
        return same ? answer_facts(address, gpu)
                    : json_pack("{s:s, s:s}", "type", "error", "message",
                                "this host speaks another version of the protocol");
    }
    if (strcmp(type, "clock") == 0) {
        return json_pack("{s:s, s:I}", "type", "clock", "us", (json_int_t)wall_us());
    }
    if (strcmp(type, "counters") == 0) {
        return rg_peer_tell_counters();
    }
    return rg_proof_host_answer(host, message);
}

static void free_host(struct rg_proof_host **host)
{
    rg_proof_host_close(*host);
}

/* False when the visitor says nothing for too long, or all is to stop. */
static bool await_visitor(int fd, const atomic_bool *stop)
{
    uint64_t deadline_ms = rg_clock_ms() + IDLE_MS;
    while (rg_clock_ms() < deadline_ms && !(stop && atomic_load(stop))) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        if (poll(&poll_fd, 1, LOOK_MS) > 0) {
            return true;
        }
    }
    return false;
}

/* Port scanners and the like connect too. */
static bool is_greeting(const json_t *message)
{
    return strcmp(rg_peer_type(message), "hello") == 0 &&
           rg_peer_number(message, "protocol", 0, 1 << 20, -1) == RG_PEER_PROTOCOL;
}

/* Until the visitor leaves, says nothing for too long, or has had its time. True when it was a
 * doctor that was told this host's facts. */
static bool receive_visitor(int fd, const struct rg_proof_gpu *gpu, const atomic_bool *stop)
{
    bool visited = false;
    struct rg_error err = RG_ERROR_INIT;
    char address[64];
    RG_CLEANUP(free_host) struct rg_proof_host *host = NULL;
    uint64_t deadline_ms = rg_clock_ms() + VISIT_MS;
    own_address(fd, address, sizeof address);
    if (rg_proof_host_open(address, gpu, &host, &err) < 0) {
        return false;
    }
    for (unsigned i = 0; i < VISIT_STEPS && rg_clock_ms() < deadline_ms; i++) {
        RG_CLEANUP(rg_host_json_free) json_t *message = NULL;
        if (!await_visitor(fd, stop) || rg_peer_receive(fd, MESSAGE_MS, &message, &err) < 0 ||
            rg_peer_send(fd, answer(host, address, gpu, message), MESSAGE_MS, &err) < 0) {
            break;
        }
        visited |= is_greeting(message);
    }
    return visited;
}

/* What passes only when something is given back; the visitor stays in the queue meanwhile. */
static bool is_shortage(int os_errno)
{
    return os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOBUFS || os_errno == ENOMEM;
}

/* A visitor, or -1: nobody has come within LOOK_MS. */
static int let_in(int fd, const struct rg_peer_serve *serve, bool *short_of)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    if (poll(&poll_fd, 1, LOOK_MS) <= 0) {
        return -1;
    }
    int visitor = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    int failure = visitor < 0 ? errno : 0;
    bool is_short = is_shortage(failure);
    if (serve->trouble && is_short != *short_of && (is_short || visitor >= 0)) {
        serve->trouble(failure, serve->context);
    }
    *short_of = is_short || (*short_of && visitor < 0);
    if (visitor < 0) {
        /* The socket stays readable: without a pause this would spin. */
        (void)poll(NULL, 0, is_short ? PAUSE_MS : 10);
    }
    return visitor;
}

static int listen_on(const struct rg_peer_serve *serve, int *ret_fd, struct rg_error *err)
{
    RG_CLEANUP(free_addresses) struct addrinfo *list = NULL;
    int rc = resolve(serve->address, serve->port, AI_NUMERICHOST | AI_PASSIVE, &list, err);
    if (rc < 0) {
        return rc;
    }
    int yes = 1;
    rg_autoclose int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) < 0 || listen(fd, 4) < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "cannot listen on %.100s port %u",
                             serve->address, serve->port);
    }
    *ret_fd = RG_TAKE_FD(fd);
    return 0;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char service[8] = "0";
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0) {
        (void)getnameinfo((struct sockaddr *)&address, len, NULL, 0, service, sizeof service,
                          NI_NUMERICSERV);
    }
    return (uint16_t)strtoul(service, NULL, 10);
}

int rg_peer_serve(const struct rg_peer_serve *serve, struct rg_error *err)
{
    struct rg_proof_gpu gpu;
    rg_autoclose int fd = -1;
    int rc = rg_proof_gpu_parse(serve->gpu ? serve->gpu : "", &gpu, err);
    rc = rc < 0 ? rc : listen_on(serve, &fd, err);
    if (rc < 0) {
        return rc;
    }
    uint16_t port = port_of(fd);
    RG_CLEANUP(rg_mtu_echo_cleanup) struct rg_mtu_echo *echo = NULL;
    rc = rg_mtu_echo_start(serve->address, port, &echo, err);
    if (rc < 0) {
        return rc;
    }
    if (serve->ready) {
        serve->ready(serve->address, port, serve->context);
    }
    bool short_of = false;
    for (unsigned visits = 0; !serve->visits || visits < serve->visits;) {
        if (serve->stop && atomic_load(serve->stop)) {
            break;
        }
        rg_autoclose int visitor = let_in(fd, serve, &short_of);
        visits += visitor >= 0 && receive_visitor(visitor, &gpu, serve->stop);
    }
    return 0;
}

/* ---- Visiting ---- */

static int connect_one(const struct addrinfo *to, int *ret_fd)
{
    rg_autoclose int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int failure = 0;
    socklen_t len = sizeof failure;
    if (fd < 0) {
        return errno;
    }
    if (connect(fd, to->ai_addr, to->ai_addrlen) < 0) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
        if (errno != EINPROGRESS) {
            return errno;
        }
        if (poll(&poll_fd, 1, CONNECT_MS) <= 0) {
            return ETIMEDOUT;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) < 0 || failure) {
            return failure ? failure : errno;
        }
    }
    *ret_fd = RG_TAKE_FD(fd);
    return 0;
}

static int connect_to(const struct rg_peer_visit *visit, int *ret_fd, struct rg_error *err)
{
    RG_CLEANUP(free_addresses) struct addrinfo *list = NULL;
    int rc = resolve(visit->host, visit->port, 0, &list, err), failure = ENOENT;
    if (rc < 0) {
        return rc;
    }
    for (const struct addrinfo *to = list; to; to = to->ai_next) {
        failure = connect_one(to, ret_fd);
        if (failure == 0) {
            return 0;
        }
    }
    return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, failure,
                         "cannot reach %.200s port %u (is `railgate doctor serve` running there?)",
                         visit->host, visit->port);
}

static int exchange_facts(int fd, json_t *own, json_t **ret_other, struct rg_error *err)
{
    RG_CLEANUP(rg_host_json_free) json_t *other = NULL;
    int rc = rg_peer_send(
        fd,
        json_pack("{s:s, s:i, s:O}", "type", "hello", "protocol", RG_PEER_PROTOCOL, "facts", own),
        HELLO_MS, err);
    if (rc == 0) {
        rc = rg_peer_receive(fd, HELLO_MS, &other, err);
    }
    if (rc == 0 && strcmp(rg_peer_type(other), "facts") != 0) {
        rc = rg_failf(err, RG_SERVICE_UNAVAILABLE, "the other host: %.300s",
                      rg_peer_text(other, "message"));
    }
    if (rc == 0) {
        *ret_other = RG_TAKE(other);
    }
    return rc;
}

/* Of several questions the one that was answered fastest knows best. */
static int compare_clock(int fd, struct rg_peer_clock *ret_clock, struct rg_error *err)
{
    *ret_clock = (struct rg_peer_clock){0};
    for (unsigned i = 0; i < CLOCK_ROUNDS; i++) {
        RG_CLEANUP(rg_host_json_free) json_t *message = NULL;
        int64_t before = wall_us();
        int rc = rg_peer_send(fd, json_pack("{s:s}", "type", "clock"), HELLO_MS, err);
        rc = rc < 0 ? rc : rg_peer_receive(fd, HELLO_MS, &message, err);
        if (rc < 0) {
            return rc;
        }
        int64_t half = (wall_us() - before) / 2;
        int64_t theirs = rg_peer_number(message, "us", 0, INT64_MAX / 4, -1);
        if (theirs >= 0 && (!ret_clock->known || half < ret_clock->error_us)) {
            *ret_clock = (struct rg_peer_clock){
                .known = true, .offset_us = theirs - before - half, .error_us = half};
        }
    }
    return 0;
}

static void judge_path_mtu(int fd, const struct rg_peer_facts *own,
                           const struct rg_peer_facts *other, struct rg_findings *findings)
{
    struct rg_mtu_result result;
    /* Loopback's MTU is one more than a packet can have. */
    unsigned mine = RG_MIN(own->netdev_mtu, (unsigned)UINT16_MAX), want = mine;
    if (other->netdev_mtu && other->netdev_mtu < want) {
        want = other->netdev_mtu;
    }
    findings->check = rg_check_find("PEER-PATH-MTU");
    if (!own->netdev_mtu || !rg_mtu_probe(fd, mine, &result)) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "No datagram was answered: a firewall may drop UDP.");
        return;
    }
    bool narrow = result.largest < want, drops = result.largest < mine;
    struct rg_finding *finding =
        rg_find(findings, drops ? RG_VERDICT_FAIL : RG_VERDICT_OK, "",
                narrow  ? "Something between the hosts is narrower than both."
                : drops ? "Packets of this host's size do not arrive."
                        : "Packets of this host's size arrive.");
    rg_find_value(finding, "%u bytes arrive; the interfaces have %u and %u", result.largest,
                  own->netdev_mtu, other->netdev_mtu);
    rg_find_where_text(finding, "UDP that must not be fragmented");
    if (drops) {
        rg_find_remedy(finding, "ping -M do -s %u %s   # by hand", own->netdev_mtu - 28,
                       other->address);
        rg_find_remedy(finding, narrow ? "# set the MTU of the switch ports and VLANs in between"
                                       : "# the same MTU on both ends: see PEER-MTU");
    }
}

/* ---- Paths ---- */

static const struct rg_proof_way ways[] = {{RG_TRANSPORT_DC, ""},     {RG_TRANSPORT_RC, ""},
                                           {RG_TRANSPORT_OFI, "efa"}, {RG_TRANSPORT_OFI, "cxi"},
                                           {RG_TRANSPORT_OFI, "tcp"}, {RG_TRANSPORT_OFI, "shm"}};

/* "ofi" means every provider, of which few are on one host; "rc" and "ofi:efa" mean this one. */
enum wish { UNWANTED, WANTED, NAMED };

static enum wish wish_of(struct span word, const struct rg_proof_way *way)
{
    char name[80];
    snprintf(name, sizeof name, "%s%s%s", rg_transport_kind_name(way->kind),
             way->provider[0] ? ":" : "", way->provider);
    if (rg_span_is(word, name)) {
        return NAMED;
    }
    return rg_span_is(word, rg_transport_kind_name(way->kind)) ? WANTED : UNWANTED;
}

static enum wish wish_for(const struct rg_peer_visit *visit, const struct rg_proof_way *way)
{
    struct span rest = rg_span_text(visit->only ? visit->only : "");
    enum wish best = rest.len ? UNWANTED : WANTED;
    while (rest.len) {
        enum wish wish = wish_of(rg_span_trim(rg_span_cut(&rest, ',')), way);
        best = RG_MAX(best, wish);
    }
    return best;
}

/* A word that means nothing would prove nothing, and all would be well. */
static int check_wishes(const struct rg_peer_visit *visit, struct rg_error *err)
{
    struct span rest = rg_span_text(visit->only ? visit->only : "");
    while (rest.len) {
        struct span word = rg_span_trim(rg_span_cut(&rest, ','));
        bool known = false;
        for (size_t i = 0; i < RG_ARRAY_LENGTH(ways); i++) {
            known |= wish_of(word, &ways[i]) != UNWANTED;
        }
        if (!known) {
            return rg_failf(err, RG_SETTING, "no transport is called \"%.*s\"",
                            (int)RG_MIN(word.len, (size_t)60), word.ptr);
        }
    }
    return 0;
}

static json_t *tell_memory(const struct rg_proof_memory *memory)
{
    return json_pack("{s:s, s:s, s:I, s:I}", "memory", memory->name, "how", memory->how,
                     "bar_bytes", (json_int_t)memory->bar, "registered_bytes",
                     (json_int_t)memory->registered);
}

static json_t *tell_result(const struct rg_proof_result *result, bool is_gpu)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "path", result->path,
        "device", result->device, "tried", result->tried, "well", result->well, "hardware",
        result->is_hardware, "mtu", (json_int_t)result->mtu, "registered_bytes",
        (json_int_t)result->own.registered, "largest_write", (json_int_t)result->largest_write,
        "largest_read", (json_int_t)result->largest_read, "failed_size",
        (json_int_t)result->failed_size, "latency_us", result->latency_us, "write_mbits",
        result->write_mbits, "read_mbits", result->read_mbits);
    if (object && is_gpu) {
        (void)json_object_set_new(object, "own", tell_memory(&result->own));
        (void)json_object_set_new(object, "other", tell_memory(&result->other));
    }
    if (object && result->message[0]) {
        (void)json_object_set_new(object, "message", json_string(result->message));
    }
    return object;
}

static void judge_proof(const struct rg_proof_result *result, enum wish wish,
                        struct rg_findings *findings)
{
    findings->check = rg_check_find("PEER-PROOF");
    if (!result->tried) {
        (void)rg_find(findings, wish == NAMED ? RG_VERDICT_FAIL : RG_VERDICT_SKIP, result->path,
                      "Not on both hosts: %s", result->message);
        return;
    }
    uint64_t large = RG_MIN(result->largest_write, result->largest_read);
    struct rg_finding *finding =
        result->well ? rg_find(findings, RG_VERDICT_OK, result->path,
                               "%s%.1f Gbit/s written, %.1f read, %.0f us.",
                               result->is_hardware ? "" : "Software: ", result->write_mbits / 1000,
                               result->read_mbits / 1000, result->latency_us)
                     : rg_find(findings, RG_VERDICT_FAIL, result->path,
                               result->failed_size ? "A transfer of %" PRIu64 " bytes failed: %s"
                                                   : "It failed (%" PRIu64 "): %s",
                               result->failed_size, result->message);
    rg_find_value(finding,
                  "device %s, MTU %u, largest transfer %" PRIu64 " bytes, registered %" PRIu64,
                  result->device, result->mtu, large, result->own.registered);
    rg_find_where_text(finding, "transfers of 64 bytes and more, both ways, compared");
    if (!result->well && result->failed_size > 256) {
        rg_find_remedy(finding,
                       "# small transfers pass and large ones do not: an MTU on the way (see "
                       "PEER-PATH-MTU), or loss without flow control (see PEER-RETRANS)");
    } else if (!result->well) {
        rg_find_remedy(finding,
                       "railgate doctor -v   # on both hosts: PORT-STATE, GID-TABLE, ADDR");
    }
}

/* "rc", with the memories' names behind it. */
static void name_gpu_path(const struct rg_proof_result *result, char room[RG_SUBJECT_MAX + 1])
{
    snprintf(room, RG_SUBJECT_MAX + 1, "%.40s %.20s - %.20s", result->path, result->own.name,
             result->other.name[0] ? result->other.name : "?");
}

static void value_of_gpu(struct rg_finding *finding, const struct rg_proof_result *result)
{
    RG_BUF(value, 1024);
    const struct rg_proof_memory *const ends[] = {&result->own, &result->other};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(ends); i++) {
        rg_buf_addf(&value, "%s%s: %" PRIu64 " bytes registered at once%s%s", i ? "; " : "",
                    ends[i]->name, ends[i]->registered, ends[i]->how[0] ? ", by " : "",
                    ends[i]->how);
        if (ends[i]->bar) {
            rg_buf_addf(&value, ", BAR %" PRIu64, ends[i]->bar);
        }
    }
    rg_buf_addf(&value, "; largest transfer %" PRIu64,
                RG_MIN(result->largest_write, result->largest_read));
    rg_find_value(finding, "%s", rg_buf_text(&value));
    rg_find_where_text(finding, "transfers from and to memory of a GPU, compared");
}

static void judge_gpu(const struct rg_proof_result *result, uint64_t bytes,
                      struct rg_findings *findings)
{
    char subject[RG_SUBJECT_MAX + 1];
    uint64_t large = RG_MIN(result->largest_write, result->largest_read);
    bool is_narrow = large < bytes && result->well;
    name_gpu_path(result, subject);
    findings->check = rg_check_find("PEER-GPU");
    if (!result->tried) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, subject,
                    "No memory of the GPU could be registered: %s", result->message);
        rg_find_value(finding, "%s", result->message);
        rg_find_where_text(finding,
                           "cuMemGetHandleForAddressRange and the like, ibv_reg_dmabuf_mr");
        rg_find_remedy(finding, "railgate doctor --for gpu-client -v   # on that host: GPU-DRV, "
                                "PEERMEM, DMABUF, BAR1");
        return;
    }
    struct rg_finding *finding =
        !result->well ? rg_find(findings, RG_VERDICT_FAIL, subject,
                                "A transfer of %" PRIu64 " bytes failed: %s", result->failed_size,
                                result->message)
        : is_narrow
            ? rg_find(findings, RG_VERDICT_WARN, subject,
                      "Only %" PRIu64 " bytes at once went: the GPU's window is narrower "
                      "than what was asked for.",
                      large)
            : rg_find(findings, RG_VERDICT_OK, subject, "%.1f Gbit/s written, %.1f read, %.0f us.",
                      result->write_mbits / 1000, result->read_mbits / 1000, result->latency_us);
    value_of_gpu(finding, result);
    if (!result->well) {
        rg_find_remedy(finding, "railgate doctor --for gpu-client -v   # on both hosts: PCIE-ACS, "
                                "IOMMU, BAR1");
    } else if (is_narrow) {
        rg_find_remedy(finding, "# turn on resizable BAR (and Above 4G Decoding) in the firmware's "
                                "setup, or register in pieces");
    }
}

static int prove_way(int fd, const struct rg_peer_visit *visit, const struct rg_proof_way *way,
                     const struct rg_peer_facts *own, json_t *paths, struct rg_findings *findings,
                     bool *ret_well, struct rg_error *err)
{
    struct rg_proof_result result;
    enum wish wish = wish_for(visit, way);
    *ret_well = false;
    if (wish == UNWANTED) {
        return 0;
    }
    struct rg_proof_ask asked = {.way = way, .address = own->address, .bytes = visit->bytes};
    int rc = rg_proof_run(fd, &asked, &result, err);
    (void)json_array_append_new(paths, tell_result(&result, false));
    judge_proof(&result, wish, findings);
    *ret_well = rc == 0 && result.well;
    return rc;
}

/* Memory of GPUs, over a way that host memory has gone. Only verbs register it. */
static int prove_gpu(int fd, const struct rg_peer_visit *visit, const struct rg_proof_way *way,
                     const struct rg_peer_facts *own, const struct rg_proof_gpu *gpu, json_t *paths,
                     struct rg_findings *findings, struct rg_error *err)
{
    struct rg_proof_result result;
    struct rg_proof_ask asked = {
        .way = way, .address = own->address, .bytes = visit->bytes, .gpu = gpu};
    int rc = rg_proof_run(fd, &asked, &result, err);
    (void)json_array_append_new(paths, tell_result(&result, true));
    judge_gpu(&result, visit->bytes, findings);
    return rc;
}

static void skip_gpu(bool is_named, struct rg_findings *findings)
{
    findings->check = rg_check_find("PEER-GPU");
    /* What was asked for by name is not passed over. */
    struct rg_finding *finding =
        rg_find(findings, is_named ? RG_VERDICT_FAIL : RG_VERDICT_SKIP, "",
                is_named ? "No transport that can reach memory of a GPU is on both hosts."
                         : "No memory of a GPU was moved: neither side was started with --gpu.");
    if (is_named) {
        rg_find_value(finding, "neither rc nor dc has moved memory of the hosts");
        rg_find_where_text(finding, "PEER-PROOF");
    }
    rg_find_remedy(finding, is_named
                                ? "railgate doctor -v   # on both hosts: DEV-RDMA, UVERBS"
                                : "railgate doctor serve --gpu cuda:0 --listen ADDRESS   # and "
                                  "here: railgate doctor peer HOST --gpu cuda:0");
}

static int prove_all(int fd, const struct rg_peer_visit *visit, const struct rg_peer_facts *own,
                     const struct rg_peer_facts *other, const struct rg_proof_gpu *gpu,
                     json_t *paths, struct rg_findings *findings, struct rg_error *err)
{
    bool same_host = own->boot_id[0] && strcmp(own->boot_id, other->boot_id) == 0;
    bool is_named = gpu->is_named || other->gpu[0], reached = false;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(ways); i++) {
        bool well;
        if (strcmp(ways[i].provider, "shm") == 0 && !same_host) {
            continue;
        }
        int rc = prove_way(fd, visit, &ways[i], own, paths, findings, &well, err);
        if (rc == 0 && well && is_named && ways[i].kind != RG_TRANSPORT_OFI) {
            rc = prove_gpu(fd, visit, &ways[i], own, gpu, paths, findings, err);
            reached = true;
        }
        if (rc < 0) {
            return rc;
        }
    }
    if (!reached) {
        skip_gpu(is_named, findings);
    }
    return 0;
}

/* ---- Counters ---- */

static json_t *ask_counters(int fd)
{
    json_t *message = NULL;
    if (rg_peer_send(fd, json_pack("{s:s}", "type", "counters"), HELLO_MS, NULL) < 0 ||
        rg_peer_receive(fd, HELLO_MS, &message, NULL) < 0) {
        return NULL;
    }
    return message;
}

static void judge_counters(const char *host, const json_t *before, const json_t *after,
                           struct rg_findings *findings)
{
    RG_BUF(moved, 2048);
    findings->check = rg_check_find("PEER-RETRANS");
    if (!before || !after) {
        return;
    }
    uint64_t bad = rg_peer_counters_moved(before, after, &moved);
    struct rg_finding *finding =
        rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, host,
                bad ? "%" PRIu64 " retransmissions or losses while the bytes moved."
                    : "Nothing was sent twice (%" PRIu64 ").",
                bad);
    rg_find_value(finding, "%s", moved.len ? rg_buf_text(&moved) : "no counter moved");
    rg_find_where_text(finding, "/sys/class/infiniband/*/ports/*/hw_counters, /proc/net/snmp");
    if (bad) {
        rg_find_remedy(finding,
                       "railgate doctor -v --interval 5000   # the group of error counters, on "
                       "both hosts");
    }
}

/* ---- The report ---- */

static json_t *tell_findings(const struct rg_findings *findings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const struct rg_finding *finding = &findings->list[i];
        json_t *object = json_pack("{s:s, s:s, s:s, s:s}", "id", finding->check->id, "verdict",
                                   rg_verdict_name(finding->verdict), "subject", finding->subject,
                                   "summary", finding->summary ? finding->summary : "");
        if (object && finding->value) {
            (void)json_object_set_new(object, "value", json_string(finding->value));
        }
        if (object && finding->remedy) {
            (void)json_object_set_new(object, "remedy", json_string(finding->remedy));
        }
        (void)json_array_append_new(list, object);
    }
    return list;
}

static int visit_all(int fd, const struct rg_peer_visit *visit, const struct rg_proof_gpu *gpu,
                     json_t *own_facts, json_t *other_facts, json_t *paths,
                     struct rg_findings *findings, struct rg_error *err)
{
    rg_autofree struct rg_peer_facts *own = calloc(1, sizeof *own);
    rg_autofree struct rg_peer_facts *other = calloc(1, sizeof *other);
    struct rg_peer_clock clock;
    if (!own || !other) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (!rg_peer_take_facts(own_facts, own) || !rg_peer_take_facts(other_facts, other)) {
        return rg_failf(err, RG_PARSE, "what the other host told are no facts");
    }
    int rc = compare_clock(fd, &clock, err);
    /* Whatever became of the clock, the facts are there to be compared. */
    rg_peer_compare(own, other, &clock, visit->priority, findings);
    if (rc < 0) {
        return rc;
    }
    judge_path_mtu(fd, own, other, findings);
    RG_CLEANUP(rg_host_json_free) json_t *own_before = rg_peer_tell_counters();
    RG_CLEANUP(rg_host_json_free) json_t *other_before = ask_counters(fd);
    rc = prove_all(fd, visit, own, other, gpu, paths, findings, err);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(rg_host_json_free) json_t *own_after = rg_peer_tell_counters();
    RG_CLEANUP(rg_host_json_free) json_t *other_after = ask_counters(fd);
    judge_counters("this host", own_before, own_after, findings);
    judge_counters(visit->host, other_before, other_after, findings);
    return 0;
}

/* What takes a host down is seen here: all that was found before is worth the more. */
static void judge_loss(const struct rg_error *loss, struct rg_findings *findings)
{
    findings->check = rg_check_find("PEER-PROOF");
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_FAIL, "", "The visit broke off: %.300s", loss->message);
    rg_find_where_text(finding, "the connection to it");
    rg_find_remedy(finding, "dmesg | tail -50   # on the other host; then its `railgate doctor "
                            "serve` again");
}

static json_t *tell_report(json_t *own, json_t *other, json_t *paths,
                           const struct rg_findings *findings, const struct rg_error *loss)
{
    json_t *report =
        json_pack("{s:i, s:s, s:O, s:o, s:o, s:O}", "railgate_doctor_peer", RG_PEER_PROTOCOL,
                  "verdict", rg_verdict_name(rg_findings_verdict(findings, NULL)), "own", own,
                  "other", other ? json_incref(other) : json_null(), "findings",
                  tell_findings(findings), "paths", paths);
    if (report && loss->code) {
        (void)json_object_set_new(report, "error", json_string(loss->message));
    }
    return report;
}

int rg_peer_visit(const struct rg_peer_visit *visit, json_t **ret_report, struct rg_error *err)
{
    char address[64];
    struct rg_error loss = RG_ERROR_INIT;
    rg_autoclose int fd = -1;
    RG_CLEANUP(rg_host_json_free) json_t *own = NULL;
    RG_CLEANUP(rg_host_json_free) json_t *other = NULL;
    RG_CLEANUP(rg_host_json_free) json_t *paths = json_array();
    RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
    struct rg_proof_gpu gpu;
    int rc = check_wishes(visit, err);
    rc = rc < 0 ? rc : rg_proof_gpu_parse(visit->gpu ? visit->gpu : "", &gpu, err);
    rc = rc < 0 ? rc : connect_to(visit, &fd, err);
    if (rc < 0) {
        return rc;
    }
    own_address(fd, address, sizeof address);
    own = tell_facts(address, &gpu, err);
    if (!own) {
        return -RG_SERVICE_UNAVAILABLE;
    }
    rc = exchange_facts(fd, own, &other, &loss);
    rc = rc < 0 ? rc : visit_all(fd, visit, &gpu, own, other, paths, &findings, &loss);
    if (rc < 0) {
        judge_loss(&loss, &findings);
    }
    *ret_report = tell_report(own, other, paths, &findings, &loss);
    return *ret_report ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}
