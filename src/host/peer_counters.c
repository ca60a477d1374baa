/*
 * Counters of loss and retransmission. See peer_counters.h.
 */
#include "host/peer_counters.h"

#include "base/attr.h"
#include "base/checked.h"
#include "host/peer_wire.h"
#include "host/source.h"
#include "host/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEVICES_MAX 16
#define PORTS_MAX   4
#define TCP_NAME    "tcp RetransSegs"

/* mlx5, irdma (new and old names), bnxt_re, efa. */
static const char *const hardware[] = {
    "packet_seq_err",         "out_of_sequence",    "local_ack_timeout_err",
    "roce_adp_retrans",       "roce_slow_restart",  "rnr_nak_retry_err",
    "implied_nak_seq_err",    "duplicate_request",  "RetransSegs",
    "tcpRetransSegs",         "to_retransmits",     "retrans_pkts",
    "retrans_timeout_events", "max_retry_exceeded", "req_transport_retries_exceeded"};

static void add(json_t *object, const char *name, int64_t value)
{
    (void)json_object_set_new(object, name, json_integer(value));
}

static void add_port(struct rg_source *source, json_t *object, const char *device, int port)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(hardware); i++) {
        struct rg_number number;
        char name[128];
        rg_source_number(source, &number, "/sys/class/infiniband/%.60s/ports/%d/hw_counters/%s",
                         device, port, hardware[i]);
        if (rg_reading_ok(&number.at)) {
            snprintf(name, sizeof name, "%.60s/%d %s", device, port, hardware[i]);
            add(object, name, number.value);
        }
    }
}

/* /proc/net/snmp: a line of names, then one of numbers. */
static void add_tcp(struct rg_source *source, json_t *object)
{
    RG_BUF(text, 65536);
    struct rg_reading at;
    struct span rest, line, names = RG_SPAN_EMPTY, name, word;
    rg_source_read(source, &text, &at, "/proc/net/snmp");
    rest = rg_buf_span(&text);
    while (rg_words_line(&rest, &line)) {
        if (!rg_span_starts(line, RG_SPAN_LITERAL("Tcp:"))) {
            continue;
        }
        if (names.len == 0) {
            names = line;
            continue;
        }
        while (rg_words_next(&names, &name) && rg_words_next(&line, &word)) {
            int64_t number;
            if (rg_span_is(name, "RetransSegs") && rg_words_signed(word, &number)) {
                add(object, TCP_NAME, number);
            }
        }
        return;
    }
}

json_t *rg_peer_tell_counters(void)
{
    RG_CLEANUP(rg_source_cleanup) struct rg_source *source = NULL;
    RG_CLEANUP(rg_names_free) struct rg_names names = {0};
    json_t *object = json_pack("{s:s}", "type", "counters");
    if (!object || rg_source_open("", &source, NULL) < 0) {
        return object;
    }
    rg_source_list(source, &names, "/sys/class/infiniband");
    for (size_t i = 0; i < RG_MIN(names.count, (size_t)DEVICES_MAX); i++) {
        for (int port = 1; port <= PORTS_MAX; port++) {
            add_port(source, object, names.name[i], port);
        }
    }
    add_tcp(source, object);
    return object;
}

uint64_t rg_peer_counters_moved(const json_t *before, const json_t *after, struct rg_buf *out)
{
    const char *name;
    json_t *value;
    uint64_t sum = 0;
    /* jansson's loop wants an object that may change. */
    json_object_foreach((json_t *)(uintptr_t)after, name, value)
    {
        const json_t *old = json_object_get(before, name);
        if (!json_is_integer(value) || !json_is_integer(old)) {
            continue;
        }
        json_int_t now = json_integer_value(value), then = json_integer_value(old);
        if (now <= then || then < 0) {
            continue;
        }
        uint64_t risen = RG_MIN((uint64_t)(now - then), (uint64_t)UINT32_MAX);
        char shown[96];
        (void)rg_words_copy(shown, sizeof shown, rg_span_text(name));
        rg_buf_addf(out, "%s%s +%" PRIu64, out->len ? ", " : "", shown, risen);
        /* TCP's counter is the whole host's, and TCP lives with loss: told, not judged. */
        sum += strcmp(name, TCP_NAME) == 0 ? 0 : risen;
    }
    return sum;
}
