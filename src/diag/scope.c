/*
 * Which of the scopes an incident has; who has no part in it; how it ended.
 */
#include "diag/scope.h"

#define STATES_SAID_MAX 4 /* in one incident */

void rg_scope_decide(struct rg_view *view)
{
    const struct rg_run *cause = view->cause;
    struct rg_incident *incident = view->incident;
    int rank = rg_view_rank(view, cause);
    rg_word mgs_nid = 0;
    bool mount = false;
    const struct rg_run *lost = NULL;
    const struct rg_run *moved = rg_scope_find_move(view, &lost);
    const struct rg_run *nobody_back = NULL;
    for (size_t i = 0; i < view->run_count; i++) {
        nobody_back = rg_scope_all_were_evicted(view->runs[i]) ? view->runs[i] : nobody_back;
    }
    incident->nature = cause->trait.nature;
    bool own = rg_run_is_local(cause);
    if (cause->trait.flags & RG_TRAIT_STORAGE && rank < 60) {
        rg_scope_storage(view);
    } else if (cause->trait.flags & RG_TRAIT_PLANNED && rank < 100) {
        rg_scope_planned(view);
    } else if (cause->trait.flags & RG_TRAIT_SLOW) {
        rg_scope_slow(view);
    } else if (cause->accused == RG_ACCUSED_CONFIG && rank < 70 &&
               cause->row->layer > RG_LAYER_ADDRESS && !(cause->trait.flags & RG_TRAIT_BOTH)) {
        rg_scope_config(view);
    } else if (cause->trait.flags & RG_TRAIT_BOTH ||
               (own && rank < 100 && !(cause->trait.flags & RG_TRAIT_STARTED))) {
        rg_scope_own_fault(view);
    } else if (nobody_back && !view->observers.count) {
        rg_scope_nobody_back(view, nobody_back);
    } else if (rg_scope_is_stale_race(cause)) {
        incident->nature = RG_NATURE_SOFTWARE;
        rg_view_set_scope(view, RG_SCOPE_SOFTWARE, cause->target);
        rg_view_headline(view, RG_PHRASE_HEAD_STALE, cause->target, 0, 0);
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_ANSWERED, cause->nid, 0, 0);
    } else if (moved) {
        incident->nature = RG_NATURE_SERVER;
        rg_view_set_scope(view, RG_SCOPE_SERVER, lost->nid);
        rg_view_headline(view, RG_PHRASE_HEAD_FAILOVER, lost->target, lost->nid,
                         moved->nid ? moved->nid : moved->nid_to);
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_MOVED, lost->target, lost->nid,
                    moved->nid ? moved->nid : moved->nid_to);
    } else if (cause->trait.flags & RG_TRAIT_STARTED && rank < 100) {
        rg_scope_restart(view);
    } else if (rg_scope_only_mgs(view, &mgs_nid, &mount)) {
        rg_scope_mgs(view, mgs_nid, mount);
    } else if (rg_scope_only_mounting(view)) {
        rg_scope_mounting(view);
    } else if (cause->accused == RG_ACCUSED_CONFIG && !(cause->trait.flags & RG_TRAIT_MOUNT)) {
        rg_scope_config(view);
    } else if (view->observers.count > 1 && rg_scope_told_router(view)) {
        /* said */
    } else if ((view->observers.count > 1 ||
                (view->clients.count > 1 && view->accusers.count > 1 && !view->observers.count)) &&
               view->elements.count != 1 && rg_scope_rack(view)) {
        /* said */
    } else if (rg_scope_damaging_router(view)) {
        /* said */
    } else if (view->clients.count && !view->observers.count) {
        rg_scope_clients(view);
    } else if (view->observers.count == 1 && view->elements.count == 1) {
        rg_scope_one_to_one(view);
    } else if (view->observers.count == 1) {
        rg_scope_one_to_many(view);
    } else if (view->observers.count > 1 && view->elements.count == 1) {
        rg_scope_many_to_one(view);
    } else if (view->observers.count > 1) {
        rg_scope_many_to_many(view);
    } else if (rg_run_is_mere_symptom(cause) && !(cause->trait.flags & RG_TRAIT_MOUNT)) {
        rg_host_id host = rg_view_speaker(view, cause);
        if (rg_view_has_row(view, "FRAME-RDMA") && !rg_view_has_row(view, "FRAME-LUSTRE")) {
            incident->nature = RG_NATURE_HOST;
            rg_view_set_scope(view, RG_SCOPE_NODE, rg_view_name(view, host));
            rg_view_headline(view, RG_PHRASE_HEAD_HUNG_RDMA, rg_view_name(view, host), 0, 0);
            return;
        }
        rg_view_set_scope(view, RG_SCOPE_UNKNOWN, 0);
        rg_view_headline(view, RG_PHRASE_HEAD_SYMPTOM, rg_view_name(view, host), 0, 0);
        if (incident->targets.count) {
            rg_scope_name_symptom(view, 0);
            rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                        rg_view_list(view, &incident->targets), 0, 0);
        }
        rg_view_say(view, &incident->decides, RG_PHRASE_DEC_SERVERS_OF, rg_view_name(view, host),
                    rg_view_text(view, "timeout 5 lctl get_param '*.*.import'"), 0);
    } else {
        rg_host_id host = rg_view_speaker(view, cause);
        bool between = cause->accused == RG_ACCUSED_PATH || cause->accused == RG_ACCUSED_PEER;
        rg_view_set_scope(view,
                          between                         ? RG_SCOPE_PAIR
                          : rg_view_is_server(view, host) ? RG_SCOPE_SERVER
                                                          : RG_SCOPE_NODE,
                          rg_view_name(view, host));
        bool nfs = rg_row_is(cause->row, "NFS-NR") && cause->device;
        rg_view_headline(view,
                         nfs                                   ? RG_PHRASE_HEAD_NFS
                         : cause->trait.flags & RG_TRAIT_MOUNT ? RG_PHRASE_HEAD_MOUNT
                                                               : RG_PHRASE_HEAD_OTHER,
                         cause->target ? cause->target : rg_view_name(view, host), cause->device,
                         0);
    }
}

/* Nodes that were logging Lustre and have no part in it. */
void rg_scope_say_who_is_fine(struct rg_view *view)
{
    struct rg_correlation *correlation = view->correlation;
    struct rg_host_list fine = {0};
    for (uint32_t i = 0; i < correlation->seen_count; i++) {
        const struct rg_node_seen *seen = &correlation->seen[i];
        rg_host_id host = rg_view_host_of_seen(correlation, seen);
        bool part = host == 0 || rg_host_list_has(&view->elements, host);
        for (size_t k = 0; k < view->run_count && !part; k++) {
            part = rg_view_speaker(view, view->runs[k]) == host;
        }
        if (!part && seen->lustre) {
            rg_host_list_add(&fine, host);
        }
    }
    if (fine.count) {
        rg_view_say(view, &view->incident->healthy, RG_PHRASE_FINE_NODES,
                    rg_view_names(view, &fine), 0, 0);
        if (view->incident->scope == RG_SCOPE_FABRIC) {
            rg_view_say(view, &view->incident->contrary, RG_PHRASE_CON_OTHERS_FINE,
                        rg_view_names(view, &fine), 0, 0);
        }
    }
    struct rg_words targets = {0};
    struct rg_map *map = &correlation->map;
    for (uint32_t i = 1; i < map->target_count && targets.count < 32; i++) {
        bool hit = map->targets[i].kind == RG_TARGET_NONE;
        for (size_t k = 0; k < view->incident->targets.count; k++) {
            hit |= view->incident->targets.items[k] == map->targets[i].name;
        }
        if (!hit) {
            view->ok &= rg_words_add(&targets, map->targets[i].name);
        }
    }
    if (targets.count) {
        rg_view_say(view, &view->incident->healthy, RG_PHRASE_FINE_TARGETS,
                    rg_view_list(view, &targets), 0, 0);
    }
    free(targets.items);
}

static bool concerns(struct rg_view *view, const struct rg_state_seen *state)
{
    const struct rg_incident *incident = view->incident;
    for (size_t i = 0; i < incident->targets.count; i++) {
        if (incident->targets.items[i] == state->subject) {
            return true;
        }
    }
    if (state->kind == RG_STATE_SPACE || state->kind == RG_STATE_IMPORT) {
        return false;
    }
    struct rg_map *map = &view->correlation->map;
    rg_host_id host = rg_map_host_of_nid(map, state->subject);
    for (size_t i = 0; i < incident->nids.count; i++) {
        if (rg_map_host_of_nid(map, incident->nids.items[i]) == host) {
            return true;
        }
    }
    bool router = state->kind == RG_STATE_ROUTE;
    return router || rg_host_list_has(&view->observers, host) ||
           rg_host_list_has(&view->elements, host) || rg_host_list_has(&view->ill, host) ||
           (view->cause && rg_view_speaker(view, view->cause) == host);
}

void rg_scope_say_states(struct rg_view *view)
{
    const struct rg_correlation *correlation = view->correlation;
    size_t said = 0;
    for (size_t i = 0; i < correlation->state_count && said < STATES_SAID_MAX; i++) {
        if (correlation->states[i].bad && concerns(view, &correlation->states[i])) {
            view->ok &= rg_state_say(&correlation->states[i], &view->incident->evidence);
            said++;
        }
    }
    if (said > 0) {
        rg_view_say(view, &view->incident->evidence, RG_PHRASE_STATE_SNAPSHOT, 0, 0, 0);
    }
}

/* How requests ended, for those that have no better cause. */
void rg_scope_say_endings(struct rg_view *view)
{
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->rc == -19 && rg_view_is_connect_status(view, view->runs[i])) {
            rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_PARTNER, view->runs[i]->nid,
                        view->runs[i]->target, 0);
        }
    }
    struct rg_host_list failed = {0};
    struct rg_host_list stayed = {0};
    struct rg_host_list left = {0};
    bool first_ping = false;
    bool looked = false;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        rg_host_id self = rg_view_speaker(view, run);
        rg_host_list_add(&failed, run->network_error
                                      ? rg_map_resolve(&view->correlation->map, run->element)
                                      : 0);
        rg_host_list_add(&stayed, run->sent_delay ? self : 0);
        rg_host_list_add(&left, run->slow_reply ? self : 0);
        if (run->opcode >= 0 && rg_run_is_active(run) && !looked) {
            first_ping = run->opcode == 400;
            looked = true;
        }
    }
    if (failed.count) {
        rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_NETWORK_ERROR,
                    rg_view_names(view, &failed), 0, 0);
    }
    if (stayed.count) {
        rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_SENT_DELAY,
                    rg_view_names(view, &stayed), 0, 0);
    }
    if (left.count) {
        rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_SLOW_REPLY,
                    rg_view_names(view, &left), 0, 0);
    }
    if (first_ping) {
        rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_IDLE_PING, 0, 0, 0);
    }
}
