/*
 * Judges of the group "lnet" (checks_lnet.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/filtered.h"
#include "host/remedy.h"
#include "host/words.h"

#include <inttypes.h>
#include <errno.h>
#include <string.h>

static bool is_o2ib(const char *net)
{
    return strncmp(net, "o2ib", 4) == 0;
}

static bool is_lustre_machine(const struct rg_host_facts *facts)
{
    return facts->lnet.has_module || facts->lustre.mount_count || facts->lustre.fstab.count ||
           rg_host_is_lustre_server(facts) || facts->plan.profile == RG_PROFILE_LUSTRE_CLIENT ||
           facts->plan.profile == RG_PROFILE_LUSTRE_SERVER;
}

/* True, with a SKIP, when what runs is not known. */
static bool nothing_runs(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (!facts->lnet.has_module) {
        return true;
    }
    if (!rg_reading_ok(&facts->lnet.net_at)) {
        (void)rg_find_unread(findings, "", &facts->lnet.net_at);
        return true;
    }
    return false;
}

/* ---- LN-MOD ---- */

static bool wants_o2ib(const struct rg_host_facts *facts)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    for (size_t i = 0; i < lnet->conf.ni_count; i++) {
        if (is_o2ib(lnet->conf.nis[i].net)) {
            return true;
        }
    }
    for (size_t i = 0; i < lnet->module.count; i++) {
        if (is_o2ib(lnet->module.nets[i].net)) {
            return true;
        }
    }
    for (size_t i = 0; i < facts->lustre.fstab.count; i++) {
        if (strstr(facts->lustre.fstab.mounts[i].source, "@o2ib")) {
            return true;
        }
    }
    return false;
}

/* One below an RDMA port that has an IPv4 address, which o2ib needs. */
static const char *interface_for_o2ib(const struct rg_host_facts *facts)
{
    const struct rg_host_ports *ports = &facts->ports;
    for (size_t i = 0; i < ports->count; i++) {
        for (size_t k = 0; k < ports->address_count; k++) {
            if (ports->list[i].netdev[0] && ports->addresses[k].is_ipv4 &&
                strcmp(ports->list[i].netdev, ports->addresses[k].netdev) == 0) {
                return ports->list[i].netdev;
            }
        }
    }
    return "INTERFACE";
}

void judge_ln_mod(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    if (!is_lustre_machine(facts)) {
        return;
    }
    if (!lnet->has_module && !rg_reading_ok(&facts->devices.netdevs_at)) {
        /* Every kernel has interfaces: sysfs is hidden, and with it the module. */
        (void)rg_find_unread(findings, "", &facts->devices.netdevs_at);
        return;
    }
    bool lacks_driver = lnet->has_module && wants_o2ib(facts) && !lnet->has_o2ib;
    struct rg_finding *finding =
        rg_find(findings, !lnet->has_module || lacks_driver ? RG_VERDICT_FAIL : RG_VERDICT_OK, "",
                !lnet->has_module ? "LNet is not loaded."
                : lacks_driver    ? "An o2ib network is configured and ko2iblnd is not loaded."
                                  : "LNet is loaded.");
    rg_find_value(finding, "lnet %s, ko2iblnd %s", lnet->has_module ? "loaded" : "not loaded",
                  lnet->has_o2ib ? "loaded" : "not loaded");
    rg_find_where_text(finding, "/sys/module/lnet, /sys/module/ko2iblnd");
    if (!lnet->has_module) {
        rg_find_remedy(finding, "modprobe lnet && lnetctl lnet configure");
        rg_find_remedy(finding, "lnetctl net add --net o2ib --if %s   # --if, not --interface",
                       interface_for_o2ib(facts));
        rg_find_remedy(finding, "lnetctl export >/etc/lnet.conf && systemctl enable lnet");
    } else if (lacks_driver) {
        rg_find_remedy(finding,
                       "modprobe ko2iblnd; dmesg | tail   # unknown symbols: built for another "
                       "OFED (see KMOD-SRC)");
    }
}

/* ---- LN-NI ---- */

#define HEALTH_BEST 1000

/* Only the one interface: a network may have others that work. */
static void restart_ni(struct rg_finding *finding, const struct rg_lnet_ni *ni)
{
    const char *interface = ni->interface[0] ? ni->interface : "INTERFACE";
    rg_find_remedy(finding, "lnetctl net del --net %s --if %s", ni->net, interface);
    rg_find_remedy(finding, "lnetctl net add --net %s --if %s   # --if, not --interface", ni->net,
                   interface);
}

void judge_ln_ni(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    size_t seen = 0;
    if (nothing_runs(facts, findings)) {
        return;
    }
    for (size_t i = 0; i < lnet->net.ni_count; i++) {
        const struct rg_lnet_ni *ni = &lnet->net.nis[i];
        char nid[RG_NID_TEXT_MAX + 1] = "";
        if (strcmp(ni->net, "lo") == 0) {
            continue;
        }
        seen++;
        rg_nid_text(&ni->nid, nid);
        bool down = strcmp(ni->status, "down") == 0 || ni->fatal_error != 0;
        bool ill = ni->has_health && ni->health < HEALTH_BEST;
        struct rg_finding *finding = rg_find(findings,
                                             down  ? RG_VERDICT_FAIL
                                             : ill ? RG_VERDICT_WARN
                                                   : RG_VERDICT_OK,
                                             nid,
                                             down  ? "The interface is down or has a fatal error."
                                             : ill ? "The interface's health is %" PRId64
                                                     ": sends through it have failed of late."
                                                   : "The interface is up.",
                                             ni->health);
        rg_find_value(finding,
                      "status %s, health %" PRId64 ", fatal_error %" PRId64 ", interface %s",
                      ni->status[0] ? ni->status : "-", ni->has_health ? ni->health : -1,
                      ni->fatal_error, ni->interface[0] ? ni->interface : "-");
        rg_find_where(finding, &lnet->net_at);
        if (down) {
            rg_find_remedy(finding, "ip -br link; rdma link");
            restart_ni(finding, ni);
        } else if (ill) {
            rg_find_remedy(finding,
                           "lnetctl net show -v 4 | grep -A12 'health stats'   # which kind of "
                           "failure");
            rg_find_remedy(finding, "lctl dk /tmp/dk.$(hostname)   # the reason is only there");
        }
    }
    if (seen == 0) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, "", "LNet is loaded and has no network.");
        rg_find_where(finding, &lnet->net_at);
        rg_find_remedy(finding, "lnetctl lnet configure && lnetctl net add --net o2ib --if %s",
                       interface_for_o2ib(facts));
    }
}

/* ---- LN-IP ---- */

/* Other networks (gni, kfi) number their nodes otherwise than by addresses of interfaces. */
static bool is_by_address(const char *net)
{
    return is_o2ib(net) || strncmp(net, "tcp", 3) == 0 || strncmp(net, "efa", 3) == 0;
}

static bool interface_has(const struct rg_host_ports *ports, const char *interface,
                          const char *address, bool *ret_known)
{
    bool found = false;
    *ret_known = false;
    for (size_t i = 0; i < ports->address_count; i++) {
        bool is_it = !interface[0] || strcmp(ports->addresses[i].netdev, interface) == 0;
        *ret_known |= is_it;
        found |= is_it && strcmp(ports->addresses[i].text, address) == 0;
    }
    return found;
}

/* The addresses that an interface has, for a person. */
static void add_addresses(const struct rg_host_ports *ports, const char *interface,
                          struct rg_buf *out)
{
    for (size_t i = 0; i < ports->address_count; i++) {
        if (!interface[0] || strcmp(ports->addresses[i].netdev, interface) == 0) {
            rg_buf_addf(out, "%s%s", out->len ? " " : "", ports->addresses[i].text);
        }
    }
}

void judge_ln_ip(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    if (nothing_runs(facts, findings)) {
        return;
    }
    if (!rg_reading_ok(&facts->ports.addresses_at)) {
        (void)rg_find_unread(findings, "", &facts->ports.addresses_at);
        return;
    }
    for (size_t i = 0; i < lnet->net.ni_count; i++) {
        const struct rg_lnet_ni *ni = &lnet->net.nis[i];
        char nid[RG_NID_TEXT_MAX + 1];
        bool has_any;
        RG_BUF(has, 1024);
        if (!is_by_address(ni->net) || !ni->has_nid) {
            continue;
        }
        rg_nid_text(&ni->nid, nid);
        bool ok = interface_has(&facts->ports, ni->interface, ni->nid.address, &has_any);
        add_addresses(&facts->ports, ni->interface, &has);
        struct rg_finding *finding = rg_find(
            findings, ok ? RG_VERDICT_OK : RG_VERDICT_FAIL, nid,
            ok        ? "The interface has this address."
            : has_any ? "The interface has another address now: LNet was started before it changed."
                      : "No interface has this address.");
        rg_find_value(finding, "%s: %s", ni->interface[0] ? ni->interface : "all interfaces",
                      has.len ? rg_buf_text(&has) : "no address");
        rg_find_where(finding, &lnet->net_at);
        if (!ok) {
            rg_find_remedy(finding, "# with nothing mounted on this node:");
            restart_ni(finding, ni);
            rg_find_remedy(finding, "lnetctl export >/etc/lnet.conf");
            rg_find_remedy(finding,
                           "# on a server, the new address must reach the targets too: see "
                           "ZFS-PROP and CFGLOG");
        }
    }
}

/* ---- LN-CFG ---- */

/* True, with a SKIP, when what configures LNet may not be read. */
static bool conf_is_hidden(const struct rg_host_lnet *lnet, struct rg_findings *findings)
{
    const struct rg_reading *const files[] = {&lnet->conf_at, &lnet->modprobe_at};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(files); i++) {
        if (!rg_reading_ok(files[i]) && !rg_reading_is_absent(files[i])) {
            (void)rg_find_unread(findings, "", files[i]);
            return true;
        }
    }
    return false;
}

static bool runs(const struct rg_host_lnet *lnet, const char *net, const char *interface)
{
    for (size_t i = 0; i < lnet->net.ni_count; i++) {
        const struct rg_lnet_ni *ni = &lnet->net.nis[i];
        bool same = !interface[0] || !ni->interface[0] || strcmp(ni->interface, interface) == 0;
        if (strcmp(ni->net, net) == 0 && same) {
            return true;
        }
    }
    return false;
}

static bool is_configured(const struct rg_host_lnet *lnet, const struct rg_lnet_ni *ni)
{
    for (size_t i = 0; i < lnet->conf.ni_count; i++) {
        if (strcmp(lnet->conf.nis[i].net, ni->net) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < lnet->module.count; i++) {
        if (strcmp(lnet->module.nets[i].net, ni->net) == 0) {
            return true;
        }
    }
    return false;
}

static void warn_missing(const struct rg_host_lnet *lnet, const char *net, const char *interface,
                         const struct rg_reading *at, struct rg_findings *findings)
{
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_WARN, net, "It is configured on %s and does not run.",
                interface[0] ? interface : "some interface");
    RG_BUF(running, 1024);
    for (size_t i = 0; i < lnet->net.ni_count; i++) {
        rg_buf_addf(&running, "%s%s", i ? ", " : "", lnet->net.nis[i].net);
    }
    rg_find_value(finding, "running: %s", running.len ? rg_buf_text(&running) : "none");
    rg_find_where(finding, at);
    rg_find_remedy(finding, "lnetctl net add --net %s --if %s", net,
                   interface[0] ? interface : "INTERFACE");
}

void judge_ln_cfg(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    size_t bad = 0;
    bool by_module = lnet->module.has_networks || lnet->module.has_ip2nets;
    if (!is_lustre_machine(facts) || conf_is_hidden(lnet, findings)) {
        return;
    }
    if (by_module && lnet->conf.ni_count) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_WARN, "",
                    "LNet is configured twice: by module options and by /etc/lnet.conf.");
        rg_find_value(finding, "%s= in %s, %zu interfaces in /etc/lnet.conf",
                      lnet->module.has_networks ? "networks" : "ip2nets", lnet->option_at.path,
                      lnet->conf.ni_count);
        rg_find_where(finding, &lnet->option_at);
        rg_find_remedy(finding,
                       "# keep one: comment out `options lnet` in %s, or empty /etc/lnet.conf",
                       lnet->option_at.path);
        bad++;
    }
    if (lnet->has_module && rg_reading_ok(&lnet->net_at)) {
        for (size_t i = 0; i < lnet->conf.ni_count; i++) {
            const struct rg_lnet_ni *ni = &lnet->conf.nis[i];
            if (strcmp(ni->net, "lo") != 0 && !runs(lnet, ni->net, ni->interface)) {
                warn_missing(lnet, ni->net, ni->interface, &lnet->conf_at, findings);
                bad++;
            }
        }
        for (size_t i = 0; i < lnet->module.count; i++) {
            const struct rg_lnet_module_net *net = &lnet->module.nets[i];
            if (!runs(lnet, net->net, net->interface)) {
                warn_missing(lnet, net->net, net->interface, &lnet->option_at, findings);
                bad++;
            }
        }
        for (size_t i = 0; i < lnet->net.ni_count; i++) {
            const struct rg_lnet_ni *ni = &lnet->net.nis[i];
            bool any = lnet->conf.ni_count || lnet->module.count;
            if (strcmp(ni->net, "lo") == 0 || !any || is_configured(lnet, ni)) {
                continue;
            }
            struct rg_finding *finding = rg_find(findings, RG_VERDICT_WARN, ni->net,
                                                 "It runs and no file configures it: the next boot "
                                                 "is without it.");
            rg_find_value(finding, "running on %s; %zu interfaces in files",
                          ni->interface[0] ? ni->interface : "an interface",
                          lnet->conf.ni_count + lnet->module.count);
            rg_find_where(finding, &lnet->net_at);
            rg_find_remedy(finding, "lnetctl export >/etc/lnet.conf");
            bad++;
        }
    }
    if (bad == 0) {
        bool any = by_module || lnet->conf.ni_count;
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, "",
                    any ? "One configuration, and it runs." : "No configuration is kept in files.");
        rg_find_where(finding, by_module ? &lnet->option_at : &lnet->conf_at);
    }
}

/* ---- LN-CONF-IF ---- */

static size_t judge_interface(const struct rg_host_facts *facts, const char *net,
                              const char *interface, const struct rg_reading *at,
                              struct rg_findings *findings)
{
    bool has_ipv4 = false;
    if (!interface[0] || strcmp(net, "lo") == 0) {
        return 0;
    }
    bool exists = false;
    for (size_t i = 0; i < facts->container.netdevs.count; i++) {
        exists |= strcmp(facts->container.netdevs.name[i], interface) == 0;
    }
    for (size_t i = 0; i < facts->ports.address_count; i++) {
        has_ipv4 |= facts->ports.addresses[i].is_ipv4 &&
                    strcmp(facts->ports.addresses[i].netdev, interface) == 0;
    }
    if (exists && (has_ipv4 || !rg_reading_ok(&facts->ports.addresses_at))) {
        return 0;
    }
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_FAIL, interface,
                exists ? "Network %s names an interface without an IPv4 address."
                       : "Network %s names an interface that does not exist.",
                net);
    rg_find_value(finding, "%s on %s", net, interface);
    rg_find_where(finding, at);
    if (exists) {
        rg_find_remedy(finding, "ip addr add ADDRESS/PREFIX dev %s && ip link set %s up", interface,
                       interface);
    } else {
        rg_find_remedy(finding, "ip -br link   # which interfaces there are; correct %s", at->path);
    }
    rg_find_remedy(finding, "lnetctl net add --net %s --if %s", net, interface);
    return 1;
}

void judge_ln_conf_if(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    size_t bad = 0, named = 0;
    if (is_lustre_machine(facts) && conf_is_hidden(lnet, findings)) {
        return;
    }
    if ((lnet->conf.ni_count || lnet->module.count) &&
        !rg_reading_ok(&facts->container.netdevs.at)) {
        (void)rg_find_unread(findings, "", &facts->container.netdevs.at);
        return;
    }
    for (size_t i = 0; i < lnet->conf.ni_count; i++) {
        named += lnet->conf.nis[i].interface[0] != '\0';
        bad += judge_interface(facts, lnet->conf.nis[i].net, lnet->conf.nis[i].interface,
                               &lnet->conf_at, findings);
    }
    for (size_t i = 0; i < lnet->module.count; i++) {
        named += lnet->module.nets[i].interface[0] != '\0';
        bad += judge_interface(facts, lnet->module.nets[i].net, lnet->module.nets[i].interface,
                               &lnet->option_at, findings);
    }
    if (named && bad == 0) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, "",
                    "%zu configured interfaces exist and have addresses.", named);
        rg_find_where(finding, lnet->conf.ni_count ? &lnet->conf_at : &lnet->option_at);
    }
}

/* ---- LN-SPELL, LN-SVC ---- */

void judge_ln_spell(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet_script *script = &facts->lnet.script;
    if (!is_lustre_machine(facts)) {
        return;
    }
    if (!script->line && !rg_reading_ok(&script->at) && !rg_reading_is_absent(&script->at)) {
        (void)rg_find_unread(findings, "", &script->at);
        return;
    }
    struct rg_finding *finding = rg_find(
        findings, script->line ? RG_VERDICT_FAIL : RG_VERDICT_OK, "",
        script->line ? "A boot script calls lnetctl with --interface, which it does not know."
                     : "No boot script misspells lnetctl's option.");
    rg_find_where(finding, &script->at);
    if (script->line) {
        rg_find_value(finding, "line %zu", (size_t)script->line);
        rg_find_remedy(finding, "sed -i '/lnetctl/s/--interface/--if/' %s", script->at.path);
    }
}

void judge_ln_svc(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    if (!is_lustre_machine(facts)) {
        return;
    }
    if (!rg_reading_ok(&lnet->conf_at) && !rg_reading_is_absent(&lnet->conf_at)) {
        (void)rg_find_unread(findings, "", &lnet->conf_at);
        return;
    }
    if (lnet->conf.ni_count == 0) {
        return;
    }
    bool early = lnet->unit_enabled && rg_reading_ok(&lnet->unit_at) && !lnet->unit.after_network;
    bool bad = !lnet->unit_enabled || early;
    struct rg_finding *finding = rg_find(
        findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, "",
        early ? "lnet.service does not wait for the network: its interfaces may not be there yet."
        : bad ? lnet->unit_exists ? "/etc/lnet.conf is there and lnet.service is not enabled."
                                  : "/etc/lnet.conf is there and no lnet.service loads it."
              : "lnet.service loads /etc/lnet.conf at boot.");
    rg_find_value(finding, "unit %s, enabled %s, after the network %s",
                  lnet->unit_exists ? "there" : "not there", lnet->unit_enabled ? "yes" : "no",
                  !rg_reading_ok(&lnet->unit_at) ? "not known"
                  : lnet->unit.after_network     ? "yes"
                                                 : "no");
    if (early) {
        rg_find_where(finding, &lnet->unit_at);
        rg_find_remedy(finding, "mkdir -p /etc/systemd/system/lnet.service.d");
        rg_find_remedy(finding, "printf '[Unit]\\nWants=network-online.target\\n"
                                "After=network-online.target rdma.service\\n' "
                                ">/etc/systemd/system/lnet.service.d/order.conf");
        rg_find_remedy(finding, "systemctl daemon-reload");
        return;
    }
    rg_find_where_text(finding, "/etc/systemd/system/multi-user.target.wants/lnet.service");
    if (bad && !lnet->unit_exists) {
        bool serves = rg_host_is_lustre_server(facts);
        rg_remedy_install(finding, facts,
                          serves ? "lustre   # has lnet.service"
                                 : "lustre-client   # has lnet.service",
                          serves ? "lustre-server-utils   # has lnet.service"
                                 : "lustre-client-utils   # has lnet.service");
    }
    if (bad) {
        rg_find_remedy(finding, "systemctl enable lnet");
    }
}

/* ---- LN-PEER, LN-ROUTE ---- */

void judge_ln_peer(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    char nid[RG_NID_TEXT_MAX + 1];
    if (!lnet->has_module) {
        return;
    }
    if (!rg_reading_ok(&lnet->peers_at)) {
        (void)rg_find_unread(findings, "", &lnet->peers_at);
        return;
    }
    rg_nid_text(&lnet->peers.first_peer_down, nid);
    bool bad = lnet->peers.peers_down;
    struct rg_finding *finding = rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, "",
                                         bad ? "%zu peer interfaces are down, the first %s."
                                             : "No peer interface is down (%zu)%s.",
                                         lnet->peers.peers_down, bad ? nid : "");
    rg_find_value(finding, "%zu peers, %zu interfaces down", lnet->peers.peer_count,
                  lnet->peers.peers_down);
    rg_find_where(finding, &lnet->peers_at);
    if (bad) {
        rg_find_remedy(finding, "lnetctl peer show --nid %s -v 3", nid);
        rg_find_remedy(finding,
                       "lnetctl peer del --prim_nid %s   # when there is no such server any "
                       "more",
                       nid);
    }
}

static bool route_is_up(const struct rg_host_lnet *lnet, const char *net)
{
    for (size_t i = 0; i < lnet->routes.route_count; i++) {
        if (strcmp(lnet->routes.routes[i].net, net) == 0 &&
            strcmp(lnet->routes.routes[i].state, "down") != 0) {
            return true;
        }
    }
    return false;
}

void judge_ln_route(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    if (!lnet->has_module) {
        return;
    }
    if (!rg_reading_ok(&lnet->routes_at)) {
        (void)rg_find_unread(findings, "", &lnet->routes_at);
        return;
    }
    for (size_t i = 0; i < lnet->routes.route_count; i++) {
        const struct rg_lnet_route *route = &lnet->routes.routes[i];
        bool up = route_is_up(lnet, route->net), first = true;
        for (size_t k = 0; k < i; k++) {
            first &= strcmp(lnet->routes.routes[k].net, route->net) != 0;
        }
        if (!first) {
            continue;
        }
        struct rg_finding *finding =
            rg_find(findings, up ? RG_VERDICT_OK : RG_VERDICT_FAIL, route->net,
                    up ? "Some gateway is up." : "All gateways to this network are down.");
        rg_find_value(finding, "gateway %s, %s", route->gateway,
                      route->state[0] ? route->state : "no state told");
        rg_find_where(finding, &lnet->routes_at);
        if (!up) {
            rg_find_remedy(finding, "lnetctl route show -v");
            rg_find_remedy(finding, "# on the router: lnetctl routing show; lnetctl net show -v");
        }
    }
}

/* ---- LN-TUN, LN-RAIL ---- */

/* What configures the interface's credits: its entry in /etc/lnet.conf, else the module's option.
 */
static int64_t wanted_credits(const struct rg_host_lnet *lnet, const struct rg_lnet_ni *ni,
                              bool *ret_by_conf)
{
    for (size_t i = 0; i < lnet->conf.ni_count; i++) {
        const struct rg_lnet_ni *entry = &lnet->conf.nis[i];
        bool same = !entry->interface[0] || !ni->interface[0] ||
                    strcmp(entry->interface, ni->interface) == 0;
        if (strcmp(entry->net, ni->net) == 0 && same && entry->peer_credits > 0) {
            *ret_by_conf = true;
            return entry->peer_credits;
        }
    }
    *ret_by_conf = false;
    return rg_reading_ok(&lnet->credits.at) ? lnet->credits.value : 0;
}

void judge_ln_tun(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    if (!lnet->has_module || !lnet->has_details) {
        return;
    }
    for (size_t i = 0; i < lnet->net.ni_count; i++) {
        const struct rg_lnet_ni *ni = &lnet->net.nis[i];
        char nid[RG_NID_TEXT_MAX + 1];
        if (!is_o2ib(ni->net) || ni->peer_credits < 0) {
            continue;
        }
        rg_nid_text(&ni->nid, nid);
        bool by_conf;
        int64_t wanted = wanted_credits(lnet, ni, &by_conf);
        bool differs = wanted > 0 && wanted != ni->peer_credits;
        bool high = ni->peer_credits_high >= 0 && ni->peer_credits_high >= ni->peer_credits;
        struct rg_finding *finding = rg_find(
            findings, differs || high ? RG_VERDICT_WARN : RG_VERDICT_OK, nid,
            differs ? by_conf
                          ? "peer_credits differ from those in /etc/lnet.conf: one of the two was "
                            "changed later."
                          : "peer_credits differ from the module's: one of the two was changed "
                            "later."
            : high ? "The high-water mark of credits is not below the credits: they come back late."
                   : "The tunables agree.");
        rg_find_value(finding,
                      "peer_credits %" PRId64 " (%s %" PRId64 "), peercredits_hiw %" PRId64
                      ", map_on_demand %" PRId64 ", conns_per_peer %" PRId64,
                      ni->peer_credits, by_conf ? "lnet.conf" : "module", wanted,
                      ni->peer_credits_high, ni->map_on_demand, ni->conns_per_peer);
        rg_find_where(finding, &lnet->net_at);
        if (differs || high) {
            rg_find_remedy(finding,
                           "grep ko2iblnd /etc/modprobe.d/*.conf; grep peer_credits /etc/lnet.conf"
                           "   # the same on every node; then lustre_rmmod and mount again");
        }
    }
}

#define MUCH 10000

void judge_ln_rail(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    uint64_t by_tcp = 0, by_o2ib = 0;
    bool has_o2ib = false, has_tcp = false;
    if (!lnet->has_module || !lnet->has_details) {
        return;
    }
    for (size_t i = 0; i < lnet->net.ni_count; i++) {
        const struct rg_lnet_ni *ni = &lnet->net.nis[i];
        if (is_o2ib(ni->net)) {
            has_o2ib = true;
            by_o2ib += ni->sent;
        } else if (strncmp(ni->net, "tcp", 3) == 0) {
            has_tcp = true;
            by_tcp += ni->sent;
        }
    }
    if (!has_o2ib || !has_tcp) {
        return;
    }
    bool bad = by_o2ib == 0 && by_tcp >= MUCH;
    struct rg_finding *finding =
        rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, "",
                bad ? "Everything goes by TCP although an o2ib network is up."
                    : "The o2ib network is used, or little has been sent.");
    rg_find_value(finding, "o2ib %" PRIu64 " messages, tcp %" PRIu64, by_o2ib, by_tcp);
    rg_find_where(finding, &lnet->net_at);
    if (bad) {
        rg_find_remedy(finding, "grep lustre /proc/mounts   # which identifiers the mounts name");
        rg_find_remedy(finding, "lnetctl peer show -v   # whether the servers are known by o2ib");
    }
}

/* ---- LN-PING, PRINTK ---- */

void judge_ln_ping(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lnet *lnet = &facts->lnet;
    if (!lnet->has_module) {
        return;
    }
    if (!facts->plan.active) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "A ping leaves a peer entry behind: only with --active.");
        return;
    }
    for (size_t i = 0; i < lnet->ping_count; i++) {
        const struct rg_host_lnet_ping *ping = &lnet->pings[i];
        char nid[RG_NID_TEXT_MAX + 1];
        rg_nid_text(&ping->nid, nid);
        if (ping->at.state == RG_READ_MISSING || ping->at.os_errno == EPERM) {
            (void)rg_find_unread(findings, nid, &ping->at);
            continue;
        }
        struct rg_finding *finding =
            rg_find(findings, ping->answered ? RG_VERDICT_OK : RG_VERDICT_FAIL, nid,
                    ping->answered ? "It answers." : "It does not answer.");
        rg_find_value(finding, "%s",
                      ping->answered      ? "answered"
                      : ping->at.os_errno ? strerror(ping->at.os_errno)
                                          : "no identifier in the answer");
        rg_find_where(finding, &ping->at);
        if (!ping->answered) {
            rg_find_remedy(finding,
                           "lctl dk /tmp/dk.$(hostname)   # why: address, route or rejected");
            rg_find_remedy(finding, "ping -c 3 %s   # by IP", ping->nid.address);
        }
    }
}

void judge_printk(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_text *printk = &facts->lnet.printk;
    if (!facts->lnet.has_module) {
        return;
    }
    if (!rg_reading_ok(&printk->at)) {
        (void)rg_find_unread(findings, "", &printk->at);
        return;
    }
    bool has = rg_words_has(rg_span_text(printk->text), ' ', "neterror");
    struct rg_finding *finding =
        rg_find(findings, has ? RG_VERDICT_OK : RG_VERDICT_WARN, "",
                has ? "Network errors are printed."
                    : "Network errors are not printed: RDMA failures leave nothing in dmesg.");
    rg_find_value(finding, "%s", printk->text);
    rg_find_where(finding, &printk->at);
    if (!has) {
        rg_find_remedy(finding, "lctl set_param printk=+neterror   # -P on the MGS makes it last");
    }
}
