/*
 * Reads LNet. lnetctl is asked only where LNet is loaded, and only what it knows by itself: `ping`
 * adds a peer entry even when it fails, so that needs the plan's `active`. See facts_lnet.h.
 */
#include "host/facts.h"

#include "base/attr.h"
#include "host/filtered.h"
#include "host/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_BYTES ((size_t)1 << 19)
#define TEXT_BYTES   65536
#define COMMAND_MS   2000
#define PING_MS      6000

static void ask(struct rg_source *source, const char *name, const char *const *argv,
                struct rg_lnet_conf *ret_conf, struct rg_reading *ret_at)
{
    RG_BUF(text, ANSWER_BYTES);
    rg_source_command(source, name, argv, COMMAND_MS, &text, ret_at);
    if (rg_reading_ok(ret_at)) {
        rg_lnet_yaml_parse(rg_buf_span(&text), ret_conf);
        ret_conf->cut |= ret_at->truncated;
    }
}

/* The kernel's table, where there is no lnetctl. */
static void read_table(struct rg_source *source, struct rg_host_lnet *lnet)
{
    static const char *const files[] = {"/sys/kernel/debug/lnet/nis", "/proc/sys/lnet/nis"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(files); i++) {
        RG_BUF(text, TEXT_BYTES);
        struct rg_reading at;
        rg_source_read(source, &text, &at, "%s", files[i]);
        if (at.state == RG_READ_MISSING) {
            continue;
        }
        lnet->net_at = at;
        if (rg_reading_ok(&at) && !rg_lnet_nis_parse(rg_buf_span(&text), &lnet->net)) {
            lnet->net_at.state = RG_READ_MALFORMED;
        }
        return;
    }
}

static void read_running(struct rg_source *source, struct rg_host_lnet *lnet)
{
    static const char *const net[] = {"lnetctl", "net", "show", "-v", "4", NULL};
    static const char *const peer[] = {"lnetctl", "peer", "show", "-v", NULL};
    static const char *const route[] = {"lnetctl", "route", "show", "-v", NULL};
    ask(source, "lnet/net", net, &lnet->net, &lnet->net_at);
    lnet->has_details = rg_reading_ok(&lnet->net_at) && !lnet->net.has_error;
    if (!lnet->has_details) {
        read_table(source, lnet);
    }
    ask(source, "lnet/peer", peer, &lnet->peers, &lnet->peers_at);
    ask(source, "lnet/route", route, &lnet->routes, &lnet->routes_at);
    for (size_t i = 0; i < lnet->net.ni_count; i++) {
        char text[RG_NID_TEXT_MAX + 1];
        if (lnet->net.nis[i].has_nid && strcmp(lnet->net.nis[i].net, "lo") != 0) {
            rg_nid_text(&lnet->net.nis[i].nid, text);
            rg_nid_list_add(&lnet->own, rg_span_text(text));
        }
    }
}

static void read_printk(struct rg_source *source, struct rg_host_lnet *lnet)
{
    static const char *const argv[] = {"lctl", "get_param", "-n", "printk", NULL};
    rg_source_text(source, &lnet->printk, "/sys/kernel/debug/lnet/printk");
    if (lnet->printk.at.state == RG_READ_MISSING) {
        rg_source_text(source, &lnet->printk, "/proc/sys/lnet/printk");
    }
    if (lnet->printk.at.state == RG_READ_MISSING) {
        RG_BUF(text, 4096);
        struct span rest, line;
        rg_source_command(source, "lnet/printk", argv, COMMAND_MS, &text, &lnet->printk.at);
        rest = rg_buf_span(&text);
        if (rg_words_line(&rest, &line)) {
            rg_words_copy(lnet->printk.text, sizeof lnet->printk.text, line);
        }
    }
}

static void read_modprobe(struct rg_source *source, struct rg_host_lnet *lnet)
{
    RG_CLEANUP(rg_names_free) struct rg_names names = {0};
    rg_source_list(source, &names, "/etc/modprobe.d");
    lnet->modprobe_at = names.at;
    for (size_t i = 0; i < names.count; i++) {
        RG_BUF(text, TEXT_BYTES);
        struct rg_reading at;
        size_t before = lnet->module.count;
        bool had = lnet->module.has_networks || lnet->module.has_ip2nets;
        size_t len = strlen(names.name[i]);
        if (len < 5 || strcmp(names.name[i] + len - 5, ".conf") != 0) {
            continue;
        }
        rg_source_read(source, &text, &at, "/etc/modprobe.d/%.200s", names.name[i]);
        if (!rg_reading_ok(&at) && !rg_reading_is_absent(&at)) {
            lnet->modprobe_at = at;
            continue;
        }
        rg_lnet_module_parse(rg_buf_span(&text), &lnet->module);
        bool has = lnet->module.has_networks || lnet->module.has_ip2nets;
        if (has && (!had || before != lnet->module.count)) {
            lnet->option_at = at;
        }
    }
}

static void read_conf(struct rg_source *source, struct rg_host_lnet *lnet)
{
    RG_BUF(text, ANSWER_BYTES);
    rg_source_read(source, &text, &lnet->conf_at, "/etc/lnet.conf");
    if (rg_reading_ok(&lnet->conf_at)) {
        rg_lnet_yaml_parse(rg_buf_span(&text), &lnet->conf);
    }
    /* A file that only has comments configures nothing. */
}

static bool has_lnetctl(struct span line)
{
    static const char word[] = "lnetctl";
    for (size_t i = 0; i + sizeof word - 1 <= line.len; i++) {
        if (memcmp(line.ptr + i, word, sizeof word - 1) == 0) {
            return true;
        }
    }
    return false;
}

static void read_script(struct rg_source *source, struct rg_host_lnet *lnet, const char *path)
{
    char name[RG_HOST_PATH_MAX + 8];
    RG_BUF(text, RG_FILTERED_MAX);
    struct rg_reading at;
    size_t line;
    snprintf(name, sizeof name, "scripts%s", path);
    rg_filtered_read(source, name, path, has_lnetctl, &text, &at);
    if (rg_reading_ok(&at) && lnet->script.line == 0 &&
        rg_lnet_script_parse(rg_buf_span(&text), &line)) {
        lnet->script.at = at;
        lnet->script.line = line;
    } else if (lnet->script.line == 0 && (lnet->script.at.state == RG_READ_NOT_ASKED ||
                                          (!rg_reading_ok(&at) && !rg_reading_is_absent(&at)))) {
        /* One that may not be read is what there is to tell. */
        lnet->script.at = at;
    }
}

static void read_scripts(struct rg_source *source, struct rg_host_lnet *lnet)
{
    RG_CLEANUP(rg_names_free) struct rg_names names = {0};
    read_script(source, lnet, "/etc/rc.local");
    read_script(source, lnet, "/etc/rc.d/rc.local");
    rg_source_list(source, &names, "/etc/systemd/system");
    for (size_t i = 0; i < names.count; i++) {
        char path[RG_HOST_PATH_MAX + 1];
        const char *end = strrchr(names.name[i], '.');
        if (end && strcmp(end, ".service") == 0 &&
            (strstr(names.name[i], "lnet") || strstr(names.name[i], "lustre")) &&
            snprintf(path, sizeof path, "/etc/systemd/system/%s", names.name[i]) <
                (int)sizeof path) {
            read_script(source, lnet, path);
        }
    }
}

static bool orders(struct span line)
{
    struct span name, value;
    line = rg_span_trim(line);
    return (line.len && line.ptr[0] == '[') ||
           (rg_words_pair(line, '=', &name, &value) &&
            (rg_span_is(name, "After") || rg_span_is(name, "Requires") ||
             rg_span_is(name, "Wants") || rg_span_is(name, "BindsTo")));
}

#define DROP_INS "/etc/systemd/system/lnet.service.d"

static void read_drop_ins(struct rg_source *source, struct rg_host_lnet *lnet)
{
    RG_CLEANUP(rg_names_free) struct rg_names names = {0};
    if (!rg_source_exists(source, DROP_INS)) {
        return;
    }
    rg_source_list(source, &names, DROP_INS);
    for (size_t i = 0; i < names.count; i++) {
        char path[RG_HOST_PATH_MAX + 1], name[RG_HOST_PATH_MAX + 8];
        RG_BUF(text, RG_FILTERED_MAX);
        struct rg_reading at;
        if (snprintf(path, sizeof path, DROP_INS "/%s", names.name[i]) < (int)sizeof path) {
            snprintf(name, sizeof name, "units%s", path);
            rg_filtered_read(source, name, path, orders, &text, &at);
            rg_unit_parse(rg_buf_span(&text), &lnet->unit);
        }
    }
}

static void read_unit(struct rg_source *source, struct rg_host_lnet *lnet)
{
    static const char *const paths[] = {"/etc/systemd/system/lnet.service",
                                        "/usr/lib/systemd/system/lnet.service",
                                        "/lib/systemd/system/lnet.service"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(paths) && !lnet->unit_exists; i++) {
        char name[96];
        RG_BUF(text, RG_FILTERED_MAX);
        snprintf(name, sizeof name, "units%s", paths[i]);
        rg_filtered_read(source, name, paths[i], orders, &text, &lnet->unit_at);
        lnet->unit_exists = !rg_reading_is_absent(&lnet->unit_at);
        rg_unit_parse(rg_buf_span(&text), &lnet->unit);
    }
    read_drop_ins(source, lnet);
    lnet->unit_enabled =
        rg_source_exists(source, "/etc/systemd/system/multi-user.target.wants/lnet.service");
}

/* ---- Pings: each leaves a peer entry ---- */

static void ping(struct rg_source *source, struct rg_host_lnet *lnet, const struct rg_nid *nid)
{
    char text[RG_NID_TEXT_MAX + 1], name[RG_NID_TEXT_MAX + 16];
    if (rg_nid_list_has(&lnet->own, nid) || lnet->ping_count == RG_HOST_LNET_PINGS_MAX) {
        return; /* a ping to oneself makes a broken path look well */
    }
    struct rg_host_lnet_ping *entry = &lnet->pings[lnet->ping_count++];
    RG_BUF(answer, TEXT_BYTES);
    entry->nid = *nid;
    rg_nid_text(nid, text);
    snprintf(name, sizeof name, "lnet/ping-%s", text);
    const char *const argv[] = {"lctl", "ping", text, "5", NULL};
    rg_source_command(source, name, argv, PING_MS, &answer, &entry->at);
    entry->answered = rg_reading_ok(&entry->at);
    if (entry->answered) {
        rg_nid_list_add(&lnet->alive, rg_span_text(text));
    }
}

static void read_pings(struct rg_source *source, struct rg_host_facts *facts)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    if (!facts->plan.active && rg_source_is_live(source)) {
        return;
    }
    for (size_t i = 0; i < lustre->mount_count; i++) {
        for (size_t k = 0; k < lustre->mounts[i].mgs.count; k++) {
            if (facts->plan.active) {
                ping(source, &facts->lnet, &lustre->mounts[i].mgs.nids[k]);
            }
        }
    }
}

void rg_host_read_lnet(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_lnet *lnet = &facts->lnet;
    read_conf(source, lnet);
    read_modprobe(source, lnet);
    read_unit(source, lnet);
    read_scripts(source, lnet);
    lnet->has_module = rg_source_exists(source, "/sys/module/lnet");
    lnet->has_o2ib = rg_source_exists(source, "/sys/module/ko2iblnd");
    if (!lnet->has_module) {
        return;
    }
    read_running(source, lnet);
    read_printk(source, lnet);
    rg_source_number(source, &lnet->credits, "/sys/module/ko2iblnd/parameters/peer_credits");
    rg_source_number(source, &lnet->credits_high,
                     "/sys/module/ko2iblnd/parameters/peer_credits_hiw");
    rg_source_number(source, &lnet->conns, "/sys/module/ko2iblnd/parameters/conns_per_peer");
    read_pings(source, facts);
}
