/*
 * What the shape of an incident in time, and what else happened on its hosts, say about it: a
 * connection that is back at once, a link that flaps, NFS that failed too, a server whose log is
 * there and silent, checksum errors that share a router. Evidence; the scope changes only where a
 * pattern decides what complaints alone did not.
 */
#include "diag/scope.h"

#include "base/checked.h"

#define RETURN_USEC_MAX (5 * RG_USEC) /* a link that broke is not mended in less */
#define RETURNS_MIN     3
#define FLAPS_MIN       3
#define BYSTANDER_USEC  (60 * RG_USEC)

static const struct rg_run *find_quick_returns(struct rg_view *view)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->effect == RG_EFFECT_LOST && run->outages >= RETURNS_MIN &&
            run->outage_usec_max <= RETURN_USEC_MAX) {
            return run;
        }
    }
    return NULL;
}

/* Lost and back within seconds, again and again: each time one request failed. Where nothing lower
 * is known to be broken, it is no link. */
static void say_quick_returns(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_run *lost = find_quick_returns(view);
    if (!lost || rg_view_rank(view, view->cause) < 70) {
        return;
    }
    rg_view_say(view, &incident->evidence, RG_PHRASE_EV_QUICK_RETURNS,
                lost->target ? lost->target : lost->nid, rg_view_number(view, lost->outages),
                rg_duration_word(view->correlation, rg_whole_seconds(lost->outage_usec_max)));
    if (incident->nature == RG_NATURE_UNKNOWN || incident->nature == RG_NATURE_NETWORK) {
        incident->nature = RG_NATURE_SERVER;
    }
    rg_view_say(view, &incident->avoid, RG_PHRASE_AVOID_CABLE, 0, 0, 0);
}

static void say_flaps(struct rg_view *view)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (rg_row_is(run->row, "NET-LINK") && run->count >= FLAPS_MIN) {
            rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_FLAPS,
                        run->device ? run->device : rg_view_name(view, run->speaker),
                        rg_view_number(view, (size_t)run->count), 0);
        }
    }
}

static bool at_onset(const struct rg_view *view, const struct rg_run *run)
{
    return run->clock >= 0 && run->clock == view->onset_clock &&
           run->start <= view->onset + BYSTANDER_USEC && run->end >= view->onset - BYSTANDER_USEC;
}

/* NFS has its own servers: when it fails on the same node in the same minute, the node's network is
 * suspected before Lustre. */
static void say_nfs(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_correlation *correlation = view->correlation;
    if (view->observers.count != 1 || !view->silent.count) {
        return;
    }
    rg_host_id observer = view->observers.items[0];
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *run = &correlation->runs[i];
        if (!rg_row_is(run->row, "NFS-NR") || rg_view_speaker(view, run) != observer ||
            !at_onset(view, run)) {
            continue;
        }
        rg_view_say(view, &incident->evidence, RG_PHRASE_EV_NFS_TOO, rg_view_name(view, observer),
                    run->device, 0);
        if (incident->scope == RG_SCOPE_UNKNOWN || incident->scope == RG_SCOPE_PAIR) {
            incident->nature = RG_NATURE_NETWORK;
            rg_view_set_scope(view, RG_SCOPE_NODE, rg_view_name(view, observer));
            rg_view_headline(view, RG_PHRASE_HEAD_NODE_CUT_OFF, rg_view_full_name(view, observer),
                             0, 0);
        }
        return;
    }
}

/* The log of a server that others lost is among the input, and has no part in the incident. */
static void say_silent_logs(struct rg_view *view)
{
    for (size_t i = 0; i < RG_MIN(view->silent.count, (size_t)4); i++) {
        rg_host_id server = view->silent.items[i];
        bool spoke = rg_view_host(view, server)->node == 0;
        for (size_t k = 0; k < view->run_count && !spoke; k++) {
            spoke = rg_view_speaker(view, view->runs[k]) == server;
        }
        if (!spoke) {
            rg_view_say(view, &view->incident->decides, RG_PHRASE_DEC_LOG_SILENT,
                        rg_view_full_name(view, server), 0, 0);
        }
    }
}

void rg_scope_say_patterns(struct rg_view *view)
{
    say_quick_returns(view);
    say_flaps(view);
    say_nfs(view);
    say_silent_logs(view);
}

bool rg_scope_damaging_router(struct rg_view *view)
{
    rg_word router = 0;
    struct rg_host_list ends = {0};
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (!rg_run_is_active(run)) {
            continue;
        }
        bool checksum = rg_row_is(run->row, "CK-WRITE") || rg_row_is(run->row, "CK-READ");
        if (!checksum || !run->nid_to || (router && router != run->nid_to)) {
            return false;
        }
        router = run->nid_to;
        rg_host_list_add(&ends, rg_map_host_of_nid(&view->correlation->map, run->nid));
    }
    if (!router || ends.count < 2) {
        return false;
    }
    view->incident->nature = RG_NATURE_NETWORK;
    rg_view_set_scope(view, RG_SCOPE_ROUTER, router);
    rg_view_headline(view, RG_PHRASE_HEAD_ROUTER_DAMAGE, router, 0, 0);
    rg_view_say(view, &view->incident->evidence, RG_PHRASE_EV_ROUTER_DAMAGE, router,
                rg_view_number(view, ends.count), rg_view_names(view, &ends));
    rg_view_say(view, &view->incident->decides, RG_PHRASE_DEC_SERVER_LOG, router, 0, 0);
    return true;
}
