/*
 * Reads counters twice. See facts_counters.h. It decides nothing.
 */
#include "host/facts_counters.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "host/ethtool.h"
#include "host/facts.h"
#include "host/json.h"

#include <string.h>
#include <time.h>

#define DOCUMENT_BYTES ((size_t)256 << 10)
#define BASELINE_BYTES RG_HOST_FILE_MAX
#define PROBE_MS       2000

/* ---- The list ---- */

/* Begins at `from`: who looks for all in their order finds each at once. */
static struct rg_counter *find(struct rg_host_counters *counters, size_t from, const char *subject,
                               const char *name)
{
    for (size_t i = 0; i < counters->count; i++) {
        struct rg_counter *counter = &counters->list[(from + i) % counters->count];
        if (strcmp(counter->name, name) == 0 && strcmp(counter->subject, subject) == 0) {
            return counter;
        }
    }
    return NULL;
}

const struct rg_counter *rg_host_counter(const struct rg_host_counters *counters,
                                         const char *subject, const char *name)
{
    return find((struct rg_host_counters *)counters, 0, subject, name);
}

/* The first reading makes the place; the second moves what was there to `before`. */
static void enter(struct rg_host_counters *counters, const struct rg_counter *read, bool again)
{
    if (again) {
        struct rg_counter *known = find(counters, counters->next, read->subject, read->name);
        if (known && !known->has_before) {
            known->before = known->now;
            known->now = read->now;
            known->has_before = true;
            counters->next = (size_t)(known - counters->list) + 1;
        }
        return;
    }
    if (counters->count == RG_HOST_COUNTERS_MAX) {
        counters->truncated = true;
        return;
    }
    counters->list[counters->count++] = *read;
}

static bool set_names(struct rg_counter *counter, const char *subject, const char *name)
{
    if (strlen(subject) >= sizeof counter->subject || strlen(name) >= sizeof counter->name) {
        return false;
    }
    memcpy(counter->subject, subject, strlen(subject) + 1);
    memcpy(counter->name, name, strlen(name) + 1);
    return true;
}

/* ---- Reading ---- */

static void read_directory(struct rg_source *source, struct rg_host_facts *facts,
                           const struct rg_host_port *port, bool is_hardware, bool again)
{
    RG_CLEANUP(rg_names_free) struct rg_names names;
    char base[RG_HOST_PATH_MAX + 1];
    snprintf(base, sizeof base, "/sys/class/infiniband/%s/ports/%u/%s",
             facts->devices.rdma[port->device].name, port->number,
             is_hardware ? "hw_counters" : "counters");
    rg_source_list(source, &names, "%s", base);
    for (size_t i = 0; i < names.count; i++) {
        struct rg_counter counter = {.is_hardware = is_hardware};
        struct rg_number number;
        if (strcmp(names.name[i], "lifespan") == 0 ||
            !set_names(&counter, port->subject, names.name[i])) {
            continue;
        }
        rg_source_number(source, &number, "%s/%s", base, names.name[i]);
        counter.now = number.value;
        if (rg_reading_ok(&number.at) && number.value >= 0) {
            enter(&facts->counters, &counter, again);
        }
    }
}

bool rg_host_parse_counters(struct span json, const char *netdev, bool again,
                            struct rg_host_counters *counters)
{
    RG_CLEANUP(rg_host_json_free) json_t *document = json_loadb(json.ptr, json.len, 0, NULL);
    if (!json_is_object(document)) {
        return false;
    }
    const char *name;
    json_t *value;
    json_object_foreach(document, name, value)
    {
        struct rg_counter counter = {.is_netdev = true, .now = json_integer_value(value)};
        if (counter.now >= 0 && json_is_integer(value) && set_names(&counter, netdev, name)) {
            enter(counters, &counter, again);
        }
    }
    return true;
}

static void read_netdev(struct rg_source *source, struct rg_host_facts *facts, const char *netdev,
                        bool again)
{
    struct rg_counter counter = {.is_netdev = true};
    struct rg_number number;
    RG_BUF(text, DOCUMENT_BYTES);
    struct rg_reading at;
    char name[RG_HOST_PATH_MAX + 1];
    char where[RG_HOST_PATH_MAX + 1];
    rg_source_number(source, &number, "/sys/class/net/%s/carrier_changes", netdev);
    counter.now = number.value;
    if (rg_reading_ok(&number.at) && number.value >= 0 &&
        set_names(&counter, netdev, "carrier_changes")) {
        enter(&facts->counters, &counter, again);
    }
    snprintf(name, sizeof name, "ioctl/ethtool-stats/%s.json", netdev);
    snprintf(where, sizeof where, "ethtool -S %s", netdev);
    rg_source_probe(source, name, where, rg_host_tell_ethtool_stats, (void *)netdev, PROBE_MS,
                    &text, &at);
    if (rg_reading_ok(&at)) {
        (void)rg_host_parse_counters(rg_buf_span(&text), netdev, again, &facts->counters);
    }
}

/* Interfaces under RDMA ports: physical ones where they are known, else what the port names. */
static bool is_read(const struct rg_host_facts *facts, const struct rg_netdev *netdev)
{
    for (size_t i = 0; i < facts->lossless.count; i++) {
        if (strcmp(facts->lossless.links[i].netdev, netdev->name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < facts->ports.count; i++) {
        if (strcmp(facts->ports.list[i].netdev, netdev->name) == 0) {
            return true;
        }
    }
    return false;
}

static void read_once(struct rg_source *source, struct rg_host_facts *facts, bool again)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        read_directory(source, facts, &facts->ports.list[i], false, again);
        read_directory(source, facts, &facts->ports.list[i], true, again);
    }
    for (size_t i = 0; i < facts->devices.netdev_count; i++) {
        if (is_read(facts, &facts->devices.netdevs[i])) {
            read_netdev(source, facts, facts->devices.netdevs[i].name, again);
        }
    }
}

/* ---- The other reading ---- */

static int tell_apart(void *apart_ms, int fd)
{
    return rg_host_tell_json(json_pack("{s:I}", "ms", (json_int_t) * (const uint64_t *)apart_ms),
                             fd);
}

/* How far apart the readings are is a document too, for those who judge the tree. */
static uint64_t read_apart(struct rg_source *source, uint64_t measured_ms)
{
    RG_BUF(text, 256);
    struct rg_reading at;
    rg_source_probe(source, "interval.json", "clock", tell_apart, &measured_ms, PROBE_MS, &text,
                    &at);
    RG_CLEANUP(rg_host_json_free)
    json_t *document = json_loadb(rg_buf_text(&text), text.len, 0, NULL);
    return rg_host_json_unsigned(document, "ms");
}

static void wait_for_it(struct rg_source *source, unsigned ms)
{
    while (ms > 0) {
        unsigned slice = RG_MIN(ms, 1000u);
        struct timespec pause = {.tv_sec = slice / 1000, .tv_nsec = (long)(slice % 1000) * 1000000};
        rg_source_alive(source);
        (void)nanosleep(&pause, NULL);
        ms -= slice;
    }
}

static void read_second(struct rg_source *source, struct rg_host_facts *facts, uint64_t first_ms)
{
    struct rg_host_counters *counters = &facts->counters;
    if (!rg_source_again(source, true)) {
        return;
    }
    if (rg_source_is_live(source)) {
        wait_for_it(source, facts->plan.interval_ms);
    }
    read_once(source, facts, true);
    counters->apart_ms = read_apart(source, rg_clock_ms() - first_ms);
    counters->is_second = counters->apart_ms > 0;
    (void)rg_source_again(source, false);
}

/* Firmware stays through a reboot, unlike counters. */
static void take_firmware(const json_t *firmware, struct rg_host_facts *facts)
{
    for (size_t i = 0; i < facts->devices.rdma_count; i++) {
        char *then = facts->counters.firmware_then[i];
        const char *words =
            json_string_value(json_object_get(firmware, facts->devices.rdma[i].name));
        if (words && strlen(words) <= RG_HOST_WORD_MAX) {
            memcpy(then, words, strlen(words) + 1);
        }
    }
}

bool rg_host_parse_baseline(struct span json, struct rg_host_facts *facts)
{
    struct rg_host_counters *counters = &facts->counters;
    RG_CLEANUP(rg_host_json_free) json_t *document = json_loadb(json.ptr, json.len, 0, NULL);
    const json_t *list = json_object_get(document, "counters");
    const char *boot = json_string_value(json_object_get(document, "boot_id"));
    json_int_t seconds = json_integer_value(json_object_get(document, "seconds"));
    json_int_t now = rg_clock_wall().tv_sec;
    if (!json_is_object(list) || seconds <= 0) {
        return false;
    }
    take_firmware(json_object_get(document, "firmware"), facts);
    counters->other_boot =
        boot && facts->system.boot_id.text[0] && strcmp(boot, facts->system.boot_id.text) != 0;
    if (counters->other_boot) {
        return true;
    }
    for (size_t i = 0; i < counters->count; i++) {
        struct rg_counter *counter = &counters->list[i];
        char name[RG_HOST_COUNTER_SUBJECT + RG_HOST_WORD_MAX + 8];
        snprintf(name, sizeof name, "%s %s", counter->subject, counter->name);
        const json_t *value = json_object_get(list, name);
        if (json_is_integer(value) && json_integer_value(value) >= 0) {
            counter->before = json_integer_value(value);
            counter->has_before = true;
        }
    }
    counters->apart_ms = now > seconds ? (uint64_t)(now - seconds) * 1000 : 1000;
    counters->is_second = true;
    return true;
}

/* The report is a file of the machine that judges, not of the tree that is judged. */
static void read_baseline(struct rg_host_facts *facts)
{
    RG_BUF(text, BASELINE_BYTES);
    struct rg_error err;
    struct rg_reading *at = &facts->counters.baseline_at;
    RG_CLEANUP(rg_source_cleanup) struct rg_source *here = NULL;
    if (rg_source_open("", &here, &err) < 0) {
        return;
    }
    rg_source_read(here, &text, at, "%s", facts->plan.baseline);
    if (rg_reading_ok(at) && !rg_host_parse_baseline(rg_buf_span(&text), facts)) {
        at->state = RG_READ_MALFORMED;
    }
}

void rg_host_read_counters(struct rg_source *source, struct rg_host_facts *facts)
{
    uint64_t first_ms = rg_clock_ms();
    read_once(source, facts, false);
    if (facts->plan.baseline[0]) {
        read_baseline(facts);
    } else if (facts->counters.count > 0 && facts->plan.has_interval) {
        read_second(source, facts, first_ms);
    }
}
