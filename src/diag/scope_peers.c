/*
 * Scopes that follow from who complains of whom: one node, one server, a rack, a router, the
 * fabric. Where that does not decide, the verdict says what would.
 */
#include "diag/scope.h"

#include "base/checked.h"

#include <string.h>

/* Servers complain of clients, and nobody else says anything. */
void rg_scope_clients(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    if (rg_row_is(view->cause->row, "CN-RECONNECTING")) {
        rg_view_set_scope(view, RG_SCOPE_UNKNOWN, 0);
        rg_view_headline(view, RG_PHRASE_HEAD_RECONNECTED, rg_view_names(view, &view->clients),
                         rg_view_names(view, &view->accusers), 0);
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_CLIENT_LOG,
                    rg_view_names(view, &view->clients), 0, 0);
        return;
    }
    if (rg_row_is(view->cause->row, "CK-WRITE") || rg_row_is(view->cause->row, "CK-READ")) {
        rg_host_id client = view->clients.items[0];
        rg_host_id server = view->accusers.items[0];
        incident->nature = RG_NATURE_NETWORK;
        rg_view_set_scope(view,
                          view->clients.count > 1 && view->accusers.count == 1 ? RG_SCOPE_SERVER
                                                                               : RG_SCOPE_PAIR,
                          view->clients.count > 1 ? rg_view_full_name(view, server)
                                                  : rg_view_full_name(view, client));
        rg_view_headline(view, RG_PHRASE_HEAD_CHECKSUM, rg_view_names(view, &view->clients),
                         rg_view_full_name(view, server), 0);
        if (!rg_view_host(view, client)->node) {
            rg_view_say(view, &incident->decides, RG_PHRASE_DEC_CLIENT_LOG,
                        rg_view_full_name(view, client), 0, 0);
        }
        return;
    }
    if (view->clients.count == 1) {
        rg_host_id client = view->clients.items[0];
        rg_view_set_scope(view, RG_SCOPE_NODE, rg_view_name(view, client));
        incident->nature = RG_NATURE_HOST;
        rg_view_headline(view, RG_PHRASE_HEAD_CLIENT_GONE, rg_view_full_name(view, client), 0, 0);
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_SERVERS_ACCUSE,
                    rg_view_number(view, RG_MAX(view->accusers.count, incident->targets.count)),
                    rg_view_full_name(view, client), 0);
        if (!rg_view_host(view, client)->node) {
            rg_view_say(view, &incident->decides, RG_PHRASE_DEC_CLIENT_LOG,
                        rg_view_full_name(view, client), 0, 0);
        }
        return;
    }
    rg_host_id server = view->accusers.items[0];
    if (view->accusers.count == 1) {
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_CLIENTS_ACCUSED,
                    rg_view_full_name(view, server), rg_view_number(view, view->clients.count), 0);
        incident->nature = RG_NATURE_NETWORK;
        rg_view_headline(view, RG_PHRASE_HEAD_SERVER_FAULT, rg_view_full_name(view, server), 0, 0);
        rg_view_set_scope(view, RG_SCOPE_SERVER, rg_view_full_name(view, server));
        if (view->lustre_logs < 2) {
            rg_view_set_scope(view, RG_SCOPE_UNKNOWN, 0);
            rg_view_headline(view, RG_PHRASE_HEAD_CLIENT_GONE, rg_view_names(view, &view->clients),
                             0, 0);
            rg_view_say(view, &incident->decides, RG_PHRASE_DEC_OTHER_SERVER, 0, 0, 0);
        }
        return;
    }
    rg_view_set_scope(view, RG_SCOPE_FABRIC, 0);
    incident->nature = RG_NATURE_NETWORK;
    rg_view_headline(view, RG_PHRASE_HEAD_FABRIC, 0, 0, 0);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_CLIENTS_ACCUSED,
                rg_view_names(view, &view->accusers), rg_view_number(view, view->clients.count), 0);
}

void rg_scope_name_symptom(struct rg_view *view, rg_host_id element)
{
    struct rg_incident *incident = view->incident;
    bool evicted = false;
    bool silent = false;
    bool forgotten = false;
    bool error = false;
    bool checksum = false;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        evicted |= rg_row_is(run->row, "IM-EVICTED");
        silent |= rg_run_is_active(run) && run->trait.flags & RG_TRAIT_SILENT;
        forgotten |= rg_row_is(run->row, "PT-STATUS") && (run->rc == -107 || run->rc == -19);
        error |= rg_row_is(run->row, "PT-STATUS");
        checksum |= rg_row_is(run->row, "CK-WRITE") || rg_row_is(run->row, "CK-READ");
    }
    rg_word what = incident->targets.count ? rg_view_list(view, &incident->targets)
                                           : rg_view_full_name(view, element);
    if (checksum) {
        rg_view_headline(view, RG_PHRASE_HEAD_CHECKSUM, rg_view_names(view, &view->observers), what,
                         0);
    } else if (evicted) {
        rg_view_headline(view, RG_PHRASE_HEAD_EVICTED, what, 0, 0);
    } else if (forgotten && !silent) {
        rg_view_headline(view, RG_PHRASE_HEAD_FORGOTTEN, what, 0, 0);
    } else if (error && !silent) {
        rg_view_headline(view, RG_PHRASE_HEAD_SERVER_ERROR, what, 0, 0);
    } else {
        rg_view_headline(view, RG_PHRASE_HEAD_TIMED_OUT, what, 0, 0);
    }
}

/* One node complains of one server. */
void rg_scope_one_to_one(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id element = view->elements.items[0];
    rg_host_id observer = view->observers.items[0];
    rg_scope_name_symptom(view, element);
    if (!view->silent.count) {
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_ANSWERED,
                    rg_view_full_name(view, element), 0, 0);
        incident->nature = RG_NATURE_SERVER;
        rg_view_set_scope(view, RG_SCOPE_UNKNOWN, 0);
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                    rg_view_full_name(view, element), 0, 0);
        if (rg_view_host(view, element)->node) {
            /* Its log is here, and says nothing of a restart or an order. */
            rg_view_set_scope(view, RG_SCOPE_SERVER, rg_view_full_name(view, element));
        }
        return;
    }
    bool server_log = rg_view_host(view, element)->node != 0;
    if (view->lustre_logs < 2 && view->cause->accused == RG_ACCUSED_PEER) {
        /* Not even a connection to that one peer could be made. */
        rg_view_set_scope(view, RG_SCOPE_SERVER, rg_view_full_name(view, element));
        incident->nature = RG_NATURE_NETWORK;
        rg_view_say(view, &incident->contrary, RG_PHRASE_CON_ONE_LOG,
                    rg_view_full_name(view, observer), 0, 0);
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT,
                    rg_view_full_name(view, element), 0, 0);
        return;
    }
    if (view->lustre_logs < 2) {
        rg_view_set_scope(view, RG_SCOPE_UNKNOWN, 0);
        rg_view_say(view, &incident->contrary, RG_PHRASE_CON_ONE_LOG,
                    rg_view_full_name(view, observer), 0, 0);
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                    rg_view_full_name(view, element), 0, 0);
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT,
                    rg_view_full_name(view, element), 0, 0);
        return;
    }
    rg_view_set_scope(
        view, RG_SCOPE_PAIR,
        rg_pool_addf(&view->correlation->pool, "%s, %s",
                     rg_pool_text(&view->correlation->pool, rg_view_name(view, observer)),
                     rg_pool_text(&view->correlation->pool, rg_view_full_name(view, element))));
    incident->nature = RG_NATURE_NETWORK;
    rg_view_headline(view, RG_PHRASE_HEAD_PAIR, rg_view_full_name(view, observer),
                     rg_view_full_name(view, element), 0);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_ONE_OBSERVER,
                rg_view_number(view, view->lustre_logs), rg_view_full_name(view, observer), 0);
    for (size_t i = 0; server_log && i < view->run_count; i++) {
        if (rg_row_is(view->runs[i]->row, "CN-RECONNECTING")) {
            rg_view_say(view, &incident->evidence, RG_PHRASE_EV_SERVER_UP,
                        rg_view_full_name(view, element), 0, 0);
        }
    }
    if (view->lustre_logs < 3 && server_log) {
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT,
                    rg_view_full_name(view, element), 0, 0);
    } else if (!server_log) {
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                    rg_view_full_name(view, element), 0, 0);
    }
}

/* One node complains of several servers. */
void rg_scope_one_to_many(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id observer = view->observers.items[0];
    if (view->silent.count < 2) {
        rg_scope_name_symptom(view, view->elements.items[0]);
        rg_view_set_scope(view, RG_SCOPE_UNKNOWN, 0);
        incident->nature = RG_NATURE_SERVER;
        for (size_t i = 0; i < RG_MIN(view->elements.count, (size_t)4); i++) {
            rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                        rg_view_full_name(view, view->elements.items[i]), 0, 0);
        }
        return;
    }
    rg_view_set_scope(view, rg_view_is_server(view, observer) ? RG_SCOPE_SERVER : RG_SCOPE_NODE,
                      rg_view_name(view, observer));
    incident->nature = RG_NATURE_NETWORK;
    rg_view_headline(view, RG_PHRASE_HEAD_NODE_CUT_OFF, rg_view_full_name(view, observer), 0, 0);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_SERVERS_AT_ONCE,
                rg_view_name(view, observer), rg_view_number(view, view->silent.count),
                rg_view_names(view, &view->silent));
    if (view->lustre_logs < 2) {
        rg_view_say(view, &incident->contrary, RG_PHRASE_CON_ONE_LOG,
                    rg_view_full_name(view, observer), 0, 0);
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT,
                    rg_view_names(view, &view->silent), 0, 0);
    } else {
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_ONE_OBSERVER,
                    rg_view_number(view, view->lustre_logs), rg_view_full_name(view, observer), 0);
    }
}

/* Several nodes complain of one server. */
void rg_scope_many_to_one(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id element = view->elements.items[0];
    struct rg_words targets = {0};
    struct rg_words siblings = {0};
    size_t count = rg_view_targets_of(view, element, &targets);
    rg_view_healthy_siblings(view, element, &targets, &siblings);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_OBSERVERS,
                rg_view_number(view, view->observers.count), rg_view_names(view, &view->observers),
                0);
    if (count) {
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_TARGETS,
                    rg_view_full_name(view, element), rg_view_list(view, &targets), 0);
    }
    incident->nature = view->silent.count ? RG_NATURE_UNKNOWN : RG_NATURE_SERVER;
    if (count == 1 && siblings.count) {
        rg_view_set_scope(view, RG_SCOPE_TARGET, targets.items[0]);
        incident->nature = RG_NATURE_STORAGE;
        rg_view_headline(view, RG_PHRASE_HEAD_TARGET_LOST, targets.items[0], 0, 0);
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_SIBLINGS_FINE,
                    rg_view_list(view, &siblings), 0, 0);
    } else {
        rg_view_set_scope(view, RG_SCOPE_SERVER, rg_view_full_name(view, element));
        rg_view_headline(view, RG_PHRASE_HEAD_SERVER_LOST, rg_view_full_name(view, element), 0, 0);
        if (count == 1) {
            rg_view_say(view, &incident->contrary, RG_PHRASE_CON_ONE_TARGET,
                        rg_view_full_name(view, element), 0, 0);
            rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SIBLING,
                        rg_view_full_name(view, element),
                        rg_view_text(view, "timeout 5 lctl get_param '*.*.import'"), 0);
        }
    }
    if (!rg_view_host(view, element)->node) {
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                    rg_view_full_name(view, element), 0, 0);
    }
    free(targets.items);
    free(siblings.items);
}

/* ---- What only the table of hosts can tell. ---- */

/* The one rack of all of them (or of all but routers); 0 when they are fewer than two, or some
 * stand elsewhere or nobody knows where. */
static rg_word common_rack(struct rg_view *view, const struct rg_host_list *hosts)
{
    rg_word rack = 0;
    if (hosts->count < 2 || hosts->count > RG_HOST_LIST_MAX) {
        return 0;
    }
    for (size_t i = 0; i < hosts->count; i++) {
        rg_word here = rg_view_host(view, hosts->items[i])->rack;
        if (here == 0 || (rack && rack != here)) {
            return 0;
        }
        rack = here;
    }
    return rack;
}

/* Hosts that could have complained, and did not: those with Lustre in their logs. */
static void quiet_elsewhere(struct rg_view *view, rg_word rack, struct rg_host_list *ret_quiet)
{
    struct rg_correlation *correlation = view->correlation;
    for (uint32_t i = 0; i < correlation->seen_count; i++) {
        const struct rg_node_seen *seen = &correlation->seen[i];
        rg_host_id host = rg_view_host_of_seen(correlation, seen);
        const struct rg_map_host *entry = rg_view_host(view, host);
        if (host && seen->lustre && entry->rack && entry->rack != rack &&
            !rg_host_list_has(&view->observers, host) && !rg_host_list_has(&view->elements, host)) {
            rg_host_list_add(ret_quiet, host);
        }
    }
}

/* Servers that nobody lost. */
static void served_elsewhere(struct rg_view *view, rg_word rack, struct rg_host_list *ret_fine)
{
    const struct rg_map *map = &view->correlation->map;
    for (uint32_t i = 1; i < map->host_count; i++) {
        const struct rg_map_host *host = &map->hosts[i];
        if (!host->merged && host->server && host->rack && host->rack != rack &&
            !rg_host_list_has(&view->elements, i)) {
            rg_host_list_add(ret_fine, i);
        }
    }
}

static bool blame_rack(struct rg_view *view, const struct rg_host_list *concerned, rg_word rack,
                       const struct rg_host_list *others)
{
    struct rg_incident *incident = view->incident;
    if (!others->count) {
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_OTHER_RACK, rack, 0, 0);
        return false;
    }
    rg_view_set_scope(view, RG_SCOPE_RACK, rack);
    rg_view_headline(view, RG_PHRASE_HEAD_RACK, rack, 0, 0);
    incident->nature = RG_NATURE_NETWORK;
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_RACK, rack, rg_view_names(view, concerned),
                0);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_RACK_OTHERS, rg_view_names(view, others), 0,
                0);
    return true;
}

/* All who complain stand in one rack, or all whom they complain of do, and others are fine. */
bool rg_scope_rack(struct rg_view *view)
{
    const struct rg_host_list *concerned =
        view->observers.count ? &view->observers : &view->clients;
    rg_word rack = common_rack(view, concerned);
    if (rack) {
        struct rg_host_list quiet = {0};
        quiet_elsewhere(view, rack, &quiet);
        return blame_rack(view, concerned, rack, &quiet);
    }
    rack = common_rack(view, &view->silent);
    if (!rack) {
        return false;
    }
    struct rg_host_list fine = {0};
    served_elsewhere(view, rack, &fine);
    return blame_rack(view, &view->silent, rack, &fine);
}

/* Every message of the LND and LNet about a peer names one and the same router. */
bool rg_scope_told_router(struct rg_view *view)
{
    rg_host_id router = 0;
    struct rg_host_list speakers = {0};
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        bool wire = run->row->layer == RG_LAYER_LND || run->row->layer == RG_LAYER_LNET;
        if (!wire || !rg_run_is_active(run) || !run->nid) {
            continue;
        }
        rg_host_id host = rg_map_host_of_nid(&view->correlation->map, run->nid);
        if (!rg_view_host(view, host)->router || (router && router != host)) {
            return false;
        }
        router = host;
        rg_host_list_add(&speakers, rg_view_speaker(view, run));
    }
    if (speakers.count < 2) {
        return false;
    }
    rg_view_set_scope(view, RG_SCOPE_ROUTER, rg_view_full_name(view, router));
    rg_view_headline(view, RG_PHRASE_HEAD_ROUTER, rg_view_full_name(view, router), 0, 0);
    view->incident->nature = RG_NATURE_NETWORK;
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_ROUTER,
                rg_view_full_name(view, router), 0, 0);
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_OBSERVERS,
                rg_view_number(view, speakers.count), rg_view_names(view, &speakers), 0);
    if (!rg_view_host(view, router)->node) {
        rg_view_say(view, &view->incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                    rg_view_full_name(view, router), 0, 0);
    }
    return true;
}

void rg_scope_many_to_many(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_OBSERVERS,
                rg_view_number(view, view->observers.count), rg_view_names(view, &view->observers),
                0);
    rg_view_set_scope(view, RG_SCOPE_FABRIC, 0);
    incident->nature = view->silent.count >= 2 ? RG_NATURE_NETWORK : RG_NATURE_SERVER;
    rg_view_headline(view, RG_PHRASE_HEAD_FABRIC, 0, 0, 0);
    struct rg_host_list fine = {0};
    struct rg_map *map = &view->correlation->map;
    for (uint32_t i = 1; i < map->host_count; i++) {
        if (!map->hosts[i].merged && map->hosts[i].server &&
            !rg_host_list_has(&view->elements, i) && !rg_host_list_has(&view->observers, i)) {
            rg_host_list_add(&fine, i);
        }
    }
    if (fine.count) {
        rg_view_say(view, &incident->contrary, RG_PHRASE_CON_SERVER_FINE,
                    rg_view_names(view, &fine), 0, 0);
    }
    for (size_t i = 0; i < RG_MIN(view->elements.count, (size_t)4); i++) {
        if (!rg_view_host(view, view->elements.items[i])->node) {
            rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                        rg_view_full_name(view, view->elements.items[i]), 0, 0);
        }
    }
}
