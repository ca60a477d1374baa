/*
 * What to check next, as bounded commands, and what not to do.
 */
#include "diag/advise.h"

#include "base/checked.h"
#include "diag/lustre.h"

#include <string.h>

/* ---- What next. ---- */

/* A name that may stand in a shell command; anything else stays for a person to fill in. */
static const char *safe(struct rg_view *view, rg_word word, const char *placeholder)
{
    const char *text = rg_pool_text(&view->correlation->pool, word);
    for (const char *at = text; *at; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                     (*at >= '0' && *at <= '9') || strchr("._:@-", *at);
        if (!plain) {
            return placeholder;
        }
    }
    return *text && *text != '-' ? text : placeholder;
}

rg_word rg_advise_ping(struct rg_view *view, rg_host_id host, rg_word nid)
{
    const struct rg_map_host *entry = rg_view_host(view, host);
    rg_word to = nid ? nid : entry->nid_count ? entry->nids[0] : 0;
    return rg_pool_addf(&view->correlation->pool, "timeout 5 lctl ping %s", safe(view, to, "NID"));
}

static void advise(struct rg_view *view, rg_word command, struct rg_phrase where,
                   enum rg_phrase_id why)
{
    struct rg_incident *incident = view->incident;
    for (size_t i = 0; i < incident->next_count; i++) {
        if (incident->next[i].command == command) {
            return;
        }
    }
    if (incident->next_count == 14) {
        return;
    }
    struct rg_command *grown = realloc(incident->next, (incident->next_count + 1) * sizeof(*grown));
    if (!grown) {
        view->ok = false;
        return;
    }
    incident->next = grown;
    incident->next[incident->next_count++] =
        (struct rg_command){command, where, (struct rg_phrase){.id = why}};
}

static struct rg_phrase on_host(struct rg_view *view, rg_host_id host)
{
    return (struct rg_phrase){.id = RG_PHRASE_ON_NODE, .word = {rg_view_full_name(view, host)}};
}

static struct span span_of(struct rg_view *view, rg_word word)
{
    return rg_span_text(rg_pool_text(&view->correlation->pool, word));
}

static void advise_row(struct rg_view *view)
{
    const struct rg_run *cause = view->cause;
    struct rg_log_record record = {.node = cause->node};
    struct rg_event event = {
        .record = &record,
        .row = cause->row,
        .accused = cause->accused,
        .effect = cause->effect,
        .speaker_role = cause->role,
        .target_kind = cause->target_kind,
        .target_index = -1,
        .target = span_of(view, cause->target),
        .nid = span_of(view, cause->nid),
        .nid_to = span_of(view, cause->nid_to),
        .nid_local = span_of(view, cause->nid_local),
        .device = span_of(view, cause->device),
        .client = span_of(view, cause->client),
        .detail = span_of(view, cause->detail),
        .rc = cause->rc,
        .wc_status = cause->wc_status,
        .number = cause->number,
    };
    struct rg_target_name name;
    if (cause->target && rg_target_parse(event.target, &name)) {
        event.file_system = name.file_system;
        event.target_index = name.index;
    }
    for (size_t i = 0; i < cause->row->next_count; i++) {
        const struct rg_next *next = &cause->row->next[i];
        RG_BUF(command, 1024);
        rg_catalogue_command(next->command, &event, &command);
        if (!rg_buf_ok(&command) || command.len == 0) {
            continue;
        }
        struct rg_phrase where = on_host(view, cause->speaker);
        if (next->where == RG_WHERE_PEER && cause->nid) {
            where = on_host(view, rg_map_host_of_nid(&view->correlation->map, cause->nid));
        } else if (next->where == RG_WHERE_CLIENT) {
            where = (struct rg_phrase){.id = RG_PHRASE_ON_CLIENT};
        } else if (next->where == RG_WHERE_SERVER) {
            where = (struct rg_phrase){
                .id = RG_PHRASE_ON_SERVER,
                .word = {cause->target ? cause->target : rg_view_full_name(view, cause->element)}};
        } else if (next->where == RG_WHERE_MGS) {
            where = (struct rg_phrase){.id = RG_PHRASE_ON_MGS};
        }
        advise(view, rg_pool_add(&view->correlation->pool, rg_buf_span(&command)), where,
               RG_PHRASE_WHY_ROW);
    }
}

static bool rdma_involved(struct rg_view *view)
{
    for (size_t i = 0; i < view->incident->nids.count; i++) {
        const char *nid = rg_pool_text(&view->correlation->pool, view->incident->nids.items[i]);
        if (strstr(nid, "@o2ib") || strstr(nid, "@efa") || strstr(nid, "@kfi")) {
            return true;
        }
    }
    enum rg_layer layer = view->cause->row->layer;
    return layer >= RG_LAYER_FIRMWARE && layer <= RG_LAYER_LND;
}

static void advise_node(struct rg_view *view, rg_host_id host)
{
    advise(view, rg_view_text(view, "timeout 5 ibstat"), on_host(view, host), RG_PHRASE_WHY_PORT);
    advise(view, rg_view_text(view, "timeout 5 ibdev2netdev"), on_host(view, host),
           RG_PHRASE_WHY_NETDEV);
    advise(view, rg_view_text(view, "timeout 5 dmesg -T | grep -iE 'mlx5|irdma|bnxt|efa|link'"),
           on_host(view, host), RG_PHRASE_WHY_DRIVER);
    advise(view, rg_view_text(view, "timeout 5 lnetctl net show -v 4"), on_host(view, host),
           RG_PHRASE_WHY_NI);
}

static void advise_target(struct rg_view *view, rg_word target, rg_host_id server)
{
    struct rg_phrase where = server && rg_view_host(view, server)->node
                                 ? on_host(view, server)
                                 : (struct rg_phrase){.id = RG_PHRASE_ON_SERVER, .word = {target}};
    advise(view,
           rg_pool_addf(&view->correlation->pool, "timeout 5 lctl get_param '*.%s.recovery_status'",
                        safe(view, target, "TARGET")),
           where, RG_PHRASE_WHY_RECOVERY);
    advise(view, rg_view_text(view, "timeout 5 lctl dl"), where, RG_PHRASE_WHY_DEVICES);
    advise(view,
           rg_pool_addf(&view->correlation->pool, "timeout 5 lctl get_param '*.%s-*.import'",
                        safe(view, target, "TARGET")),
           (struct rg_phrase){.id = RG_PHRASE_ON_CLIENT}, RG_PHRASE_WHY_IMPORT);
}

void rg_advise_next(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id speaker = rg_view_speaker(view, view->cause);
    rg_host_id observer = view->observers.count ? view->observers.items[0] : speaker;
    advise_row(view);
    bool software = incident->nature == RG_NATURE_SOFTWARE || incident->scope == RG_SCOPE_SOFTWARE;
    bool network = view->silent.count != 0 || incident->nature == RG_NATURE_NETWORK;
    if (incident->scope == RG_SCOPE_NODE && !software && !incident->planned &&
        view->cause->row->layer <= RG_LAYER_LND) {
        advise_node(view, speaker);
    } else if (incident->scope == RG_SCOPE_NODE && network && !software) {
        advise_node(view, view->clients.count ? view->clients.items[0] : observer);
    }
    if (incident->scope == RG_SCOPE_FABRIC || incident->scope == RG_SCOPE_RACK) {
        advise(view, rg_view_text(view, "timeout 5 sminfo"),
               (struct rg_phrase){.id = RG_PHRASE_ON_FABRIC}, RG_PHRASE_WHY_FABRIC);
        advise(view, rg_view_text(view, "timeout 60 ibqueryerrors"),
               (struct rg_phrase){.id = RG_PHRASE_ON_FABRIC}, RG_PHRASE_WHY_FABRIC);
    }
    if (!software && !incident->planned) {
        for (size_t i = 0; i < RG_MIN(view->elements.count, (size_t)3); i++) {
            advise(view, rg_advise_ping(view, view->elements.items[i], 0), on_host(view, observer),
                   RG_PHRASE_WHY_PING);
        }
        for (size_t i = 0; i < RG_MIN(view->clients.count, (size_t)3); i++) {
            if (rg_view_host(view, view->clients.items[i])->nid_count) {
                advise(view, rg_advise_ping(view, view->clients.items[i], 0),
                       on_host(view, view->accusers.items[0]), RG_PHRASE_WHY_PING);
            }
        }
    }
    for (size_t i = 0, given = 0; i < incident->targets.count && given < 2; i++) {
        rg_word target = incident->targets.items[i];
        if (rg_view_target_kind(view, target) == RG_TARGET_MDT ||
            rg_view_target_kind(view, target) == RG_TARGET_OST) {
            advise_target(view, target,
                          rg_map_host_of_target(&view->correlation->map, target, RG_MAP_LATEST));
            given++;
        }
    }
    if (network && !software && !incident->planned && rdma_involved(view)) {
        advise(view, rg_view_text(view, "timeout 30 lctl dk /tmp/dk.$(hostname)"),
               on_host(view, observer), RG_PHRASE_WHY_DK);
    }
}

void rg_advise_against(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    bool shared = incident->scope == RG_SCOPE_FABRIC || incident->scope == RG_SCOPE_SERVER ||
                  incident->scope == RG_SCOPE_TARGET || incident->scope == RG_SCOPE_MGS ||
                  incident->scope == RG_SCOPE_ROUTER || incident->scope == RG_SCOPE_RACK;
    bool software = incident->nature == RG_NATURE_SOFTWARE || incident->scope == RG_SCOPE_SOFTWARE;
    if (shared && (view->observers.count > 0 || view->clients.count > 0)) {
        rg_view_say(view, &incident->avoid, RG_PHRASE_AVOID_REBOOT_CLIENTS, 0, 0, 0);
    }
    if (incident->scope == RG_SCOPE_UNKNOWN || incident->scope == RG_SCOPE_PAIR ||
        (incident->scope == RG_SCOPE_NODE && incident->nature == RG_NATURE_NETWORK)) {
        rg_view_say(view, &incident->avoid, RG_PHRASE_AVOID_REBOOT_ONE,
                    rg_view_text(view, "lctl dk /tmp/dk.$(hostname)"), 0, 0);
    }
    if (software || incident->nature == RG_NATURE_CONFIG) {
        rg_view_say(view, &incident->avoid, RG_PHRASE_AVOID_CABLE, 0, 0, 0);
    }
    if (view->cause->trait.flags & RG_TRAIT_STORAGE) {
        rg_view_say(view, &incident->avoid, RG_PHRASE_AVOID_FSCK, 0, 0, 0);
    }
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->trait.flags & RG_TRAIT_STARTED &&
            view->runs[i]->row->layer == RG_LAYER_RECOVERY) {
            rg_view_say(view, &incident->avoid, RG_PHRASE_AVOID_ABORT_RECOVERY, 0, 0, 0);
            break;
        }
    }
    if (incident->open) {
        rg_view_say(view, &incident->avoid, RG_PHRASE_AVOID_UNBOUNDED, 0, 0, 0);
    }
}
