/*
 * Scopes that the cause alone decides, whoever complains: storage, a node's own fault, planned
 * work, a restart, a slow server, the MGS, the configuration, a mount.
 */
#include "diag/scope.h"

#include "diag/advise.h"

#include <inttypes.h>
#include <string.h>

void rg_scope_storage(struct rg_view *view)
{
    rg_word target = rg_view_target_of_cause(view);
    rg_host_id host = rg_view_speaker(view, view->cause);
    if (target) {
        rg_view_set_scope(view, RG_SCOPE_TARGET, target);
        if (rg_view_target_kind(view, target) != RG_TARGET_NONE) {
            view->ok &= rg_words_add(&view->incident->targets, target);
        }
    } else {
        rg_view_set_scope(view, rg_view_is_server(view, host) ? RG_SCOPE_TARGET : RG_SCOPE_NODE,
                          view->cause->device ? view->cause->device : rg_view_name(view, host));
    }
    rg_view_headline(view, RG_PHRASE_HEAD_STORAGE,
                     view->incident->element ? view->incident->element : rg_view_name(view, host),
                     0, 0);
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_OWN_LAYER, rg_view_name(view, host),
                rg_view_what_it_said(view, view->cause), 0);
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->trait.flags & RG_TRAIT_PLANNED) {
            rg_view_say(view, &view->incident->contrary, RG_PHRASE_CON_TRIGGER,
                        rg_view_what_it_said(view, view->runs[i]), 0, 0);
            break;
        }
    }
}

static bool shares_request(const struct rg_run *a, const struct rg_run *b)
{
    for (size_t i = 0; i < a->xid_count; i++) {
        for (size_t k = 0; k < b->xid_count; k++) {
            if (a->xids[i] == b->xids[k]) {
                return true;
            }
        }
    }
    return false;
}

/* The cause and a symptom carry the same request's number: no guess is needed that they belong
 * together. */
static void say_common_request(struct rg_view *view)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->row != view->cause->row && shares_request(run, view->cause)) {
            rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_XID,
                        rg_pool_addf(&view->correlation->pool, "x%" PRIu64, view->cause->xids[0]),
                        0, 0);
            return;
        }
    }
}

void rg_scope_own_fault(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_run *cause = view->cause;
    rg_host_id host = rg_view_speaker(view, cause);
    rg_word name = rg_view_full_name(view, host);
    bool server = rg_view_is_server(view, host);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_OWN_LAYER, rg_view_name(view, host),
                rg_view_what_it_said(view, cause), 0);
    say_common_request(view);
    if (cause->trait.flags & RG_TRAIT_BOTH) {
        rg_view_set_scope(view, RG_SCOPE_SOFTWARE, cause->nid ? cause->nid : name);
        rg_view_headline(view, RG_PHRASE_HEAD_BOTH_ENDS,
                         rg_pool_addf(&view->correlation->pool, "%s, %s",
                                      rg_pool_text(&view->correlation->pool, name),
                                      rg_pool_text(&view->correlation->pool,
                                                   cause->nid ? cause->nid : cause->target)),
                         0, 0);
        return;
    }
    rg_view_set_scope(view, server ? RG_SCOPE_SERVER : RG_SCOPE_NODE, rg_view_name(view, host));
    if (rg_row_is_corrected(cause->row)) {
        rg_view_headline(view, RG_PHRASE_HEAD_CORRECTED_FLOOD, name, 0, 0);
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_RATE,
                    rg_view_number(view, (size_t)cause->count),
                    rg_duration_word(view->correlation, cause->end - cause->start), 0);
        return;
    }
    if (incident->nature == RG_NATURE_SOFTWARE) {
        rg_view_headline(view, RG_PHRASE_HEAD_SOFTWARE, name, 0, 0);
    } else if (incident->nature == RG_NATURE_CONFIG) {
        rg_view_headline(view, RG_PHRASE_HEAD_CONFIG, name, 0, 0);
    } else {
        rg_view_headline(view, server ? RG_PHRASE_HEAD_SERVER_FAULT : RG_PHRASE_HEAD_NODE_FAULT,
                         name, 0, 0);
    }
    if (view->ill.count >= 3 && cause->row->layer >= RG_LAYER_LINK) {
        rg_view_set_scope(view, RG_SCOPE_FABRIC, 0);
        rg_view_headline(view, RG_PHRASE_HEAD_FABRIC, 0, 0, 0);
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_OBSERVERS,
                    rg_view_number(view, view->ill.count), rg_view_names(view, &view->ill), 0);
    } else if (view->ill.count >= 2) {
        rg_view_say(view, &incident->contrary, RG_PHRASE_CON_SAME_FAULT_MANY,
                    rg_view_number(view, view->ill.count), 0, 0);
    }
}

void rg_scope_planned(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_run *cause = view->cause;
    rg_host_id host = rg_view_speaker(view, cause);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_PLANNED, rg_view_name(view, host),
                rg_view_what_it_said(view, cause), 0);
    incident->planned = true;
    struct rg_words targets = {0};
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->trait.flags & RG_TRAIT_PLANNED && run->target) {
            view->ok &= rg_words_add(&targets, run->target);
        }
    }
    if (rg_row_is(cause->row, "PT-ADMIN-INACTIVE")) {
        rg_view_set_scope(view, RG_SCOPE_NODE, rg_view_name(view, host));
        rg_view_headline(view, RG_PHRASE_HEAD_PLANNED_CLIENT, rg_view_name(view, host), 0, 0);
    } else if (targets.count == 1) {
        bool mgs = rg_view_target_kind(view, targets.items[0]) == RG_TARGET_MGS;
        rg_view_set_scope(view, mgs ? RG_SCOPE_MGS : RG_SCOPE_TARGET, targets.items[0]);
        rg_view_headline(view,
                         rg_row_is(cause->row, "EX-EVICT-ADMIN") ? RG_PHRASE_HEAD_PLANNED_EVICT
                                                                 : RG_PHRASE_HEAD_PLANNED_TARGET,
                         targets.items[0], 0, 0);
    } else {
        rg_view_set_scope(view, rg_view_is_server(view, host) ? RG_SCOPE_SERVER : RG_SCOPE_NODE,
                          rg_view_name(view, host));
        rg_view_headline(view,
                         rg_row_is(cause->row, "EX-EVICT-ADMIN") ? RG_PHRASE_HEAD_PLANNED_EVICT
                         : targets.count                         ? RG_PHRASE_HEAD_PLANNED_TARGET
                                                                 : RG_PHRASE_HEAD_PLANNED,
                         targets.count && !rg_row_is(cause->row, "EX-EVICT-ADMIN")
                             ? rg_view_list(view, &targets)
                             : rg_view_full_name(view, host),
                         0, 0);
    }
    free(targets.items);
}

static bool speaks_of(struct rg_correlation *correlation, rg_host_id host, rg_host_id peer)
{
    struct rg_map *map = &correlation->map;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *run = &correlation->runs[i];
        if (run->nid && run->nid != run->nid_local && rg_map_resolve(map, run->speaker) == host &&
            rg_map_host_of_nid(map, run->nid) == peer) {
            return true;
        }
    }
    return false;
}

/* Where the target that started was lost, when that is certainly another host than the one it
 * started on: 0 else. An address that nobody is known to have may be the starting host's own. */
static rg_word find_former_nid(struct rg_view *view, rg_host_id host)
{
    rg_host_id refused = host;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->effect != RG_EFFECT_LOST || !run->nid || run->target != view->cause->target ||
            run->target_kind == RG_TARGET_MGS) {
            continue;
        }
        rg_host_id former = rg_map_host_of_nid(&view->correlation->map, run->nid);
        if (former == 0 || former == host || former == refused) {
            continue;
        }
        if (rg_view_host(view, former)->node || speaks_of(view->correlation, host, former)) {
            return run->nid;
        }
        refused = former;
    }
    return 0;
}

void rg_scope_restart(struct rg_view *view)
{
    const struct rg_run *cause = view->cause;
    rg_host_id host = rg_view_speaker(view, cause);
    struct rg_words targets = {0};
    size_t count = rg_view_targets_of(view, host, &targets);
    bool reboot = rg_row_is(cause->row, "K-BOOT");
    rg_word former = cause->target ? find_former_nid(view, host) : 0;
    if (former) {
        view->incident->nature = RG_NATURE_SERVER;
        rg_view_set_scope(view, RG_SCOPE_SERVER, former);
        rg_view_headline(view, RG_PHRASE_HEAD_FAILOVER, cause->target, former,
                         rg_view_full_name(view, host));
    } else if (!rg_view_is_server(view, host)) {
        rg_view_set_scope(view, RG_SCOPE_NODE, rg_view_name(view, host));
    } else if (count == 1 && !reboot) {
        rg_view_set_scope(view, RG_SCOPE_TARGET, targets.items[0]);
    } else {
        rg_view_set_scope(view, RG_SCOPE_SERVER, rg_view_full_name(view, host));
    }
    if (!former) {
        rg_view_headline(view, RG_PHRASE_HEAD_RESTART, view->incident->element, 0, 0);
    }
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_STARTED, rg_view_name(view, host),
                rg_view_what_it_said(view, cause), 0);
    free(targets.items);
}

/* Whether some target was lost at one NID and came back at another. */
const struct rg_run *rg_scope_find_move(struct rg_view *view, const struct rg_run **ret_lost)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *lost = view->runs[i];
        if (lost->effect != RG_EFFECT_LOST || !lost->nid || !lost->target ||
            lost->target_kind == RG_TARGET_MGS) {
            continue;
        }
        for (size_t k = 0; k < view->run_count; k++) {
            const struct rg_run *back = view->runs[k];
            rg_word nid = back->nid ? back->nid : back->nid_to;
            if (back->effect == RG_EFFECT_RESTORED && back->target == lost->target && nid &&
                nid != lost->nid && back->node == lost->node) {
                *ret_lost = lost;
                return back;
            }
        }
    }
    return NULL;
}

void rg_scope_slow(struct rg_view *view)
{
    const struct rg_run *cause = view->cause;
    rg_host_id host = rg_view_speaker(view, cause);
    struct rg_words targets = {0};
    struct rg_words siblings = {0};
    size_t count = rg_view_targets_of(view, host, &targets);
    rg_view_healthy_siblings(view, host, &targets, &siblings);
    if (count == 1 && siblings.count) {
        rg_view_set_scope(view, RG_SCOPE_TARGET, targets.items[0]);
    } else {
        rg_view_set_scope(view, RG_SCOPE_SERVER, rg_view_full_name(view, host));
    }
    rg_view_headline(view, RG_PHRASE_HEAD_SLOW, view->incident->element, 0, 0);
    if (view->run_count == 1 && cause->nid && cause->count < 3) {
        /* One request of one client: it may be the client that keeps the server waiting. */
        rg_view_say(view, &view->incident->contrary, RG_PHRASE_CON_ONE_REQUEST, cause->nid, 0, 0);
        rg_view_say(view, &view->incident->decides, RG_PHRASE_DEC_CLIENT_LOG, cause->nid, 0, 0);
    }
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_SLOW,
                rg_view_what_it_said(view, cause), 0, 0);
    free(targets.items);
    free(siblings.items);
}

bool rg_scope_only_mgs(struct rg_view *view, rg_word *ret_nid, bool *ret_mount)
{
    *ret_nid = 0;
    *ret_mount = false;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (!rg_run_is_active(run)) {
            continue;
        }
        bool mount = run->trait.flags & RG_TRAIT_MOUNT;
        bool mgs = run->target && rg_view_target_kind(view, run->target) == RG_TARGET_MGS;
        bool wire = run->row->layer == RG_LAYER_LND || run->row->layer == RG_LAYER_LNET;
        if (!mount && !mgs && !wire) {
            return false;
        }
        *ret_mount |= mount;
        if (run->nid && (mgs || mount)) {
            *ret_nid = run->nid;
        }
    }
    return *ret_nid != 0;
}

void rg_scope_mgs(struct rg_view *view, rg_word nid, bool mount)
{
    rg_host_id host = rg_map_host_of_nid(&view->correlation->map, nid);
    rg_view_set_scope(view, RG_SCOPE_MGS, nid);
    rg_view_headline(view, mount ? RG_PHRASE_HEAD_MGS_MOUNT : RG_PHRASE_HEAD_MGS, nid, 0, 0);
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_ONLY_MGS, 0, 0, 0);
    if (!rg_view_host(view, host)->node) {
        rg_view_say(view, &view->incident->decides, RG_PHRASE_DEC_MGS_REACH,
                    rg_advise_ping(view, host, nid), nid, 0);
    } else {
        rg_view_say(view, &view->incident->decides, RG_PHRASE_DEC_PING,
                    rg_advise_ping(view, host, nid),
                    rg_view_full_name(view, rg_view_speaker(view, view->cause)), 0);
    }
}

void rg_scope_config(struct rg_view *view)
{
    const struct rg_run *cause = view->cause;
    rg_host_id host = rg_view_speaker(view, cause);
    rg_view_set_scope(view, RG_SCOPE_CONFIG, rg_view_name(view, host));
    rg_view_headline(view, RG_PHRASE_HEAD_CONFIG, rg_view_what_it_said(view, cause), 0, 0);
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_OWN_LAYER, rg_view_name(view, host),
                rg_view_what_it_said(view, cause), 0);
}

/* A mount or its connects failed, and nothing that was in place was lost. */
bool rg_scope_only_mounting(struct rg_view *view)
{
    bool mount = false;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (!rg_run_is_active(run)) {
            continue;
        }
        const char *operation = rg_pool_text(&view->correlation->pool, run->operation);
        bool connect = rg_row_is(run->row, "PT-STATUS") && strstr(operation, "_connect");
        bool failed = run->trait.flags & RG_TRAIT_MOUNT;
        if (!connect && !failed && run->row->layer != RG_LAYER_APPLICATION) {
            return false;
        }
        mount |= connect || failed;
    }
    return mount;
}

void rg_scope_mounting(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id element = view->elements.count ? view->elements.items[0] : 0;
    rg_host_id observer = rg_view_speaker(view, view->cause);
    bool mounted = false;
    for (size_t i = 0; i < view->run_count; i++) {
        mounted |= rg_row_is(view->runs[i]->row, "LL-MOUNT") &&
                   view->runs[i]->order_last > view->cause->order;
    }
    incident->self_healed = mounted;
    incident->nature = RG_NATURE_SERVER;
    rg_view_set_scope(view, element ? RG_SCOPE_SERVER : RG_SCOPE_MGS,
                      rg_view_full_name(view, element));
    rg_view_headline(view, mounted ? RG_PHRASE_HEAD_MOUNT_RACE : RG_PHRASE_HEAD_MOUNT_EARLY,
                     rg_view_name(view, observer),
                     element ? rg_view_full_name(view, element) : rg_view_text(view, "MGS"), 0);
    if (element && !rg_view_host(view, element)->node) {
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                    rg_view_full_name(view, element), 0, 0);
    } else if (!element) {
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_MGS_REACH,
                    rg_view_text(view, "timeout 5 lctl ping NID"), rg_view_text(view, "MGS"), 0);
    }
}

/* A read that met a lock, object or handle that was gone: the server answered -116. */
bool rg_scope_is_stale_race(const struct rg_run *cause)
{
    return rg_row_is(cause->row, "PT-STATUS") && cause->rc == -116;
}

bool rg_scope_all_were_evicted(const struct rg_run *run)
{
    return strcmp(run->row->id, "RC-OVER-EVICTED") == 0 && run->number_of >= 2 &&
           run->number >= run->number_of;
}

/* No client at all came back: nobody could reach the server, or all lost power with it. */
void rg_scope_nobody_back(struct rg_view *view, const struct rg_run *over)
{
    struct rg_incident *incident = view->incident;
    rg_view_set_scope(view, RG_SCOPE_FABRIC, 0);
    incident->nature = RG_NATURE_NETWORK;
    rg_view_headline(view, RG_PHRASE_HEAD_NOBODY_BACK, over->target,
                     rg_view_number(view, (size_t)over->number_of), 0);
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_STARTED, rg_view_name(view, over->speaker),
                rg_view_what_it_said(view, over), 0);
    rg_view_say(view, &incident->decides, RG_PHRASE_DEC_ANY_CLIENT, over->target, 0, 0);
}
