/*
 * Messages between two doctors. See peer_wire.h.
 */
#include "host/peer_wire.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/encode.h"
#include "host/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define BITS_24 0xffffff

/* ---- Bytes ---- */

static int wait_for(int fd, short events, uint64_t deadline_ms, struct rg_error *err)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = events};
        uint64_t now = rg_clock_ms();
        int ready = now >= deadline_ms ? 0 : poll(&poll_fd, 1, (int)(deadline_ms - now));
        if (ready > 0) {
            return 0;
        }
        if (ready == 0) {
            return rg_failf(err, RG_TIMED_OUT, "the peer does not answer");
        }
        if (errno != EINTR) {
            return rg_fail_errno(err, RG_DISCONNECTED, errno, "cannot wait for the peer");
        }
    }
}

static int send_all(int fd, const char *bytes, size_t len, uint64_t deadline_ms,
                    struct rg_error *err)
{
    while (len) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return rg_fail_errno(err, RG_DISCONNECTED, errno, "cannot send to the peer");
        }
        if (sent < 0) {
            int rc = wait_for(fd, POLLOUT, deadline_ms, err);
            if (rc < 0) {
                return rc;
            }
            continue;
        }
        bytes += sent;
        len -= (size_t)sent;
    }
    return 0;
}

static int receive_all(int fd, char *bytes, size_t len, uint64_t deadline_ms, struct rg_error *err)
{
    while (len) {
        int rc = wait_for(fd, POLLIN, deadline_ms, err);
        if (rc < 0) {
            return rc;
        }
        ssize_t got = recv(fd, bytes, len, MSG_DONTWAIT);
        if (got == 0) {
            return rg_failf(err, RG_DISCONNECTED, "the peer closed the connection");
        }
        if (got < 0 && errno != EAGAIN && errno != EINTR) {
            return rg_fail_errno(err, RG_DISCONNECTED, errno, "cannot hear the peer");
        }
        if (got > 0) {
            bytes += got;
            len -= (size_t)got;
        }
    }
    return 0;
}

int rg_peer_send(int fd, json_t *message, unsigned timeout_ms, struct rg_error *err)
{
    RG_CLEANUP(rg_host_json_free) json_t *owned = message;
    rg_autofree char *text = owned ? json_dumps(owned, JSON_COMPACT) : NULL;
    if (!text) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    size_t len = strlen(text);
    if (len > RG_PEER_MESSAGE_MAX) {
        return rg_failf(err, RG_LIMIT, "a message of %zu bytes is too long", len);
    }
    uint64_t deadline_ms = rg_clock_ms() + timeout_ms;
    uint32_t head = htonl((uint32_t)len);
    int rc = send_all(fd, (const char *)&head, sizeof head, deadline_ms, err);
    return rc < 0 ? rc : send_all(fd, text, len, deadline_ms, err);
}

int rg_peer_receive(int fd, unsigned timeout_ms, json_t **ret_message, struct rg_error *err)
{
    uint64_t deadline_ms = rg_clock_ms() + timeout_ms;
    uint32_t head;
    int rc = receive_all(fd, (char *)&head, sizeof head, deadline_ms, err);
    if (rc < 0) {
        return rc;
    }
    size_t len = ntohl(head);
    if (len > RG_PEER_MESSAGE_MAX) {
        return rg_failf(err, RG_LIMIT, "the peer announces a message of %zu bytes", len);
    }
    rg_autofree char *text = malloc(len + 1);
    if (!text) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rc = receive_all(fd, text, len, deadline_ms, err);
    return rc < 0 ? rc : rg_peer_parse(rg_span(text, len), ret_message, err);
}

int rg_peer_parse(struct span text, json_t **ret_message, struct rg_error *err)
{
    if (text.len > RG_PEER_MESSAGE_MAX) {
        return rg_fail(err, RG_LIMIT);
    }
    RG_CLEANUP(rg_host_json_free)
    json_t *message = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(message)) {
        return rg_failf(err, RG_PARSE, "the peer's message is no JSON object");
    }
    *ret_message = RG_TAKE(message);
    return 0;
}

/* ---- Fields ---- */

const char *rg_peer_text(const json_t *message, const char *name)
{
    const char *text = json_string_value(json_object_get(message, name));
    return text ? text : "";
}

const char *rg_peer_type(const json_t *message)
{
    return rg_peer_text(message, "type");
}

int64_t rg_peer_number(const json_t *message, const char *name, int64_t least, int64_t most,
                       int64_t fallback)
{
    const json_t *value = json_object_get(message, name);
    json_int_t number = json_integer_value(value);
    return json_is_integer(value) && number >= least && number <= most ? number : fallback;
}

/* 64 bits do not fit JSON's integers: hex. */
static bool take_hex(const json_t *object, const char *name, void *bytes, size_t len)
{
    return rg_hex_decode(rg_span_text(rg_peer_text(object, name)), bytes, len);
}

static bool take_u64(const json_t *object, const char *name, uint64_t *ret_number)
{
    uint8_t bytes[8];
    if (!take_hex(object, name, bytes, sizeof bytes)) {
        return false;
    }
    *ret_number = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        *ret_number = *ret_number << 8 | bytes[i];
    }
    return true;
}

static void add_u64(json_t *object, const char *name, uint64_t number)
{
    uint8_t bytes[8];
    char text[2 * sizeof bytes + 1];
    for (size_t i = sizeof bytes; i > 0; i--) {
        bytes[i - 1] = (uint8_t)number;
        number >>= 8;
    }
    rg_hex_encode(bytes, sizeof bytes, text);
    (void)json_object_set_new(object, name, json_string(text));
}

static void add_hex(json_t *object, const char *name, const void *bytes, size_t len)
{
    char text[2 * RG_OFI_NAME_MAX + 1];
    rg_hex_encode(bytes, len, text);
    (void)json_object_set_new(object, name, json_string(text));
}

json_t *rg_peer_tell_window(const struct rg_rdma_window *window)
{
    json_t *object =
        json_pack("{s:i, s:i, s:I, s:i, s:i, s:s}", "dialect", window->dialect, "transport",
                  window->transport, "qpn", (json_int_t)window->qpn, "lid", window->lid, "port",
                  window->port, "provider", window->provider);
    if (object) {
        add_u64(object, "address", window->address);
        add_u64(object, "length", window->length);
        add_u64(object, "rkey", window->rkey);
        add_hex(object, "endpoint", window->endpoint, window->endpoint_len);
        if (window->has_gid) {
            add_hex(object, "gid", window->gid, sizeof window->gid);
        }
    }
    return object;
}

bool rg_peer_take_window(const json_t *object, struct rg_rdma_window *ret_window)
{
    struct rg_rdma_window window = {0};
    const char *provider = rg_peer_text(object, "provider");
    const char *endpoint = rg_peer_text(object, "endpoint");
    int64_t dialect = rg_peer_number(object, "dialect", 0, RG_DIALECT_COUNT - 1, -1);
    int64_t transport = rg_peer_number(object, "transport", 0, RG_TRANSPORT_COUNT - 1, -1);
    window.endpoint_len = strlen(endpoint) / 2;
    if (dialect < 0 || transport < 0 || strlen(provider) > RG_OFI_PROVIDER_MAX ||
        window.endpoint_len > RG_OFI_NAME_MAX ||
        !rg_hex_decode(rg_span_text(endpoint), window.endpoint, window.endpoint_len) ||
        !take_u64(object, "address", &window.address) ||
        !take_u64(object, "length", &window.length) || !take_u64(object, "rkey", &window.rkey) ||
        window.length == 0 || window.address + window.length < window.address) {
        return false;
    }
    window.dialect = (enum rg_dialect)dialect;
    window.transport = (enum rg_transport_kind)transport;
    window.qpn = (uint32_t)rg_peer_number(object, "qpn", 0, BITS_24, 0);
    window.lid = (uint16_t)rg_peer_number(object, "lid", 0, UINT16_MAX, 0);
    window.port = (uint8_t)rg_peer_number(object, "port", 0, UINT8_MAX, 0);
    window.has_gid = take_hex(object, "gid", window.gid, sizeof window.gid);
    memcpy(window.provider, provider, strlen(provider) + 1);
    *ret_window = window;
    return true;
}

json_t *rg_peer_tell_lane(const struct rg_lane_address *address)
{
    json_t *object =
        json_pack("{s:I, s:I, s:i, s:i, s:I, s:i}", "qpn", (json_int_t)address->qpn, "psn",
                  (json_int_t)address->psn, "lid", address->lid, "port", address->port, "mtu",
                  (json_int_t)address->mtu, "reads", address->reads_max);
    if (object && address->has_gid) {
        add_hex(object, "gid", address->gid, sizeof address->gid);
    }
    return object;
}

bool rg_peer_take_lane(const json_t *object, struct rg_lane_address *ret_address)
{
    struct rg_lane_address address = {0};
    int64_t qpn = rg_peer_number(object, "qpn", 0, BITS_24, -1);
    int64_t psn = rg_peer_number(object, "psn", 0, BITS_24, -1);
    if (qpn < 0 || psn < 0) {
        return false;
    }
    address.qpn = (uint32_t)qpn;
    address.psn = (uint32_t)psn;
    address.lid = (uint16_t)rg_peer_number(object, "lid", 0, UINT16_MAX, 0);
    address.port = (uint8_t)rg_peer_number(object, "port", 0, UINT8_MAX, 0);
    address.mtu = (uint32_t)rg_peer_number(object, "mtu", 0, 65536, 0);
    address.reads_max = (uint8_t)rg_peer_number(object, "reads", 0, UINT8_MAX, 0);
    address.has_gid = take_hex(object, "gid", address.gid, sizeof address.gid);
    *ret_address = address;
    return true;
}
