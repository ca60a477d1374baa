/*
 * Looking at one incident: which hosts complain of which, which run is the cause, what is affected;
 * and the words in which every part of a verdict speaks. Decides no scope and gives no advice.
 */
#include "diag/view.h"

#include "base/checked.h"
#include "diag/lustre.h"

#include <string.h>

void rg_host_list_add(struct rg_host_list *hosts, rg_host_id host)
{
    if (host == 0) {
        return;
    }
    size_t kept = RG_MIN(hosts->count, (size_t)RG_HOST_LIST_MAX);
    for (size_t i = 0; i < kept; i++) {
        if (hosts->items[i] == host) {
            return;
        }
    }
    if (kept < RG_HOST_LIST_MAX) {
        hosts->items[kept] = host;
    }
    hosts->count++;
}

bool rg_host_list_has(const struct rg_host_list *hosts, rg_host_id host)
{
    for (size_t i = 0; i < RG_MIN(hosts->count, (size_t)RG_HOST_LIST_MAX); i++) {
        if (hosts->items[i] == host) {
            return true;
        }
    }
    return false;
}

const struct rg_map_host *rg_view_host(struct rg_view *view, rg_host_id host)
{
    return rg_map_host(&view->correlation->map, host);
}

bool rg_view_is_server(struct rg_view *view, rg_host_id host)
{
    return rg_view_host(view, host)->server;
}

rg_host_id rg_view_speaker(struct rg_view *view, const struct rg_run *run)
{
    return rg_map_resolve(&view->correlation->map, run->speaker);
}

rg_word rg_view_name(struct rg_view *view, rg_host_id host)
{
    return host ? rg_view_host(view, host)->name : 0;
}

/* "oss1 (192.0.2.15@o2ib)" where both are known. */
rg_word rg_view_full_name(struct rg_view *view, rg_host_id host)
{
    const struct rg_map_host *entry = rg_view_host(view, host);
    struct rg_pool *pool = &view->correlation->pool;
    if (host == 0) {
        return 0;
    }
    if (entry->nid_count && entry->nids[0] != entry->name) {
        return rg_pool_addf(pool, "%s (%s)", rg_pool_text(pool, entry->name),
                            rg_pool_text(pool, entry->nids[0]));
    }
    return entry->name;
}

rg_word rg_view_names(struct rg_view *view, const struct rg_host_list *hosts)
{
    RG_BUF(list, 2048);
    for (size_t i = 0; i < RG_MIN(hosts->count, (size_t)12); i++) {
        rg_buf_addf(
            &list, "%s%s", i ? ", " : "",
            rg_pool_text(&view->correlation->pool, rg_view_full_name(view, hosts->items[i])));
    }
    if (hosts->count > 12) {
        rg_buf_addf(&list, " … (%zu)", hosts->count);
    }
    return rg_pool_add(&view->correlation->pool, rg_buf_span(&list));
}

rg_word rg_view_list(struct rg_view *view, const struct rg_words *words)
{
    RG_BUF(list, 2048);
    for (size_t i = 0; i < RG_MIN(words->count, (size_t)16); i++) {
        rg_buf_addf(&list, "%s%s", i ? ", " : "",
                    rg_pool_text(&view->correlation->pool, words->items[i]));
    }
    if (words->count > 16) {
        rg_buf_addf(&list, " … (%zu)", words->count);
    }
    return rg_pool_add(&view->correlation->pool, rg_buf_span(&list));
}

rg_word rg_view_number(struct rg_view *view, size_t number)
{
    return rg_pool_addf(&view->correlation->pool, "%zu", number);
}

rg_word rg_view_text(struct rg_view *view, const char *text)
{
    return rg_pool_add(&view->correlation->pool, rg_span_text(text));
}

void rg_view_say(struct rg_view *view, struct rg_phrases *phrases, enum rg_phrase_id id, rg_word a,
                 rg_word b, rg_word c)
{
    view->ok &= rg_phrases_add(phrases, id, a, b, c, 0);
}

void rg_view_headline(struct rg_view *view, enum rg_phrase_id id, rg_word a, rg_word b, rg_word c)
{
    view->incident->headline = (struct rg_phrase){.id = id, .word = {a, b, c, 0}};
}

/* ---- Looking at the runs. ---- */
static int64_t usec_of(int64_t seconds)
{
    return seconds * RG_USEC;
}

/* The same host is spoken with on another LNet network: a missing route there explains nothing. */
static bool reached_otherwise(struct rg_view *view, const struct rg_run *run)
{
    rg_host_id host = run->nid ? rg_map_host_of_nid(&view->correlation->map, run->nid) : 0;
    for (size_t i = 0; i < view->run_count && host; i++) {
        const struct rg_run *other = view->runs[i];
        if (other->nid && other->nid != run->nid && other->row->layer >= RG_LAYER_RPC &&
            rg_map_host_of_nid(&view->correlation->map, other->nid) == host) {
            return true;
        }
    }
    const struct rg_map_host *entry = rg_view_host(view, host);
    return host && entry->nid_count > 1 && !run->trait.flags;
}

/* A client that looks for a lost target asks its HA partners too, and is told -19 there. */
bool rg_view_is_connect_status(struct rg_view *view, const struct rg_run *run)
{
    if (!rg_row_is(run->row, "PT-STATUS") || !run->operation ||
        !rg_span_ends(rg_span_text(rg_pool_text(&view->correlation->pool, run->operation)),
                      RG_SPAN_LITERAL("_connect"))) {
        return false;
    }
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->effect == RG_EFFECT_LOST && view->runs[i]->target == run->target) {
            return true;
        }
    }
    return false;
}

/* Whether the node's other lines show that the bond's member is an ice port: only there does a bond
 * take the RDMA device away. */
static bool is_explained_by_bond(struct rg_view *view, const struct rg_run *bond)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        for (size_t k = 0; k < run->quote_count && run->node == bond->node; k++) {
            const char *quote = rg_pool_text(&view->correlation->pool, run->quotes[k]);
            if (strstr(quote, "irdma") || strstr(quote, "ice 0000:")) {
                return true;
            }
        }
    }
    return false;
}

/* What a run weighs as a cause of this incident; 1000 and more: it is none. */
int rg_view_rank(struct rg_view *view, const struct rg_run *run)
{
    const struct rg_correlation_options *options = &view->correlation->options;
    int rank = run->trait.rank;
    if (run->accused == RG_ACCUSED_CONSEQUENCE && rg_run_is_active(run)) {
        return 900;
    }
    if (rg_view_is_connect_status(view, run)) {
        return 950;
    }
    if (run->accused == RG_ACCUSED_CONSEQUENCE ||
        (run->effect == RG_EFFECT_RESTORED && !(run->trait.flags & RG_TRAIT_STARTED))) {
        return 1000;
    }
    if (rg_row_is(run->row, "LN-NOROUTE") && reached_otherwise(view, run)) {
        rank += 100;
    }
    bool comparable =
        run->clock == view->onset_clock && run->clock >= 0 && view->onset != INT64_MIN;
    const struct rg_map_host *speaker = rg_view_host(view, run->speaker);
    if (!rg_run_is_active(run)) {
        if (run->trait.flags & RG_TRAIT_STARTED) {
            /* A start explains what came before it: somebody was away until then. */
            bool accused_client = rg_host_list_has(&view->clients, rg_view_speaker(view, run));
            if ((!speaker->server && !accused_client) ||
                (comparable && run->start < view->onset - usec_of(60))) {
                return 1000;
            }
        } else if (run->trait.flags & RG_TRAIT_BEFORE) {
            if (!is_explained_by_bond(view, run)) {
                return 1000;
            }
        } else if (!(run->trait.flags & RG_TRAIT_PLANNED)) {
            return 1000;
        }
    }
    /* Stamps of dmesg -T are minutes off between nodes. */
    bool other_node = view->onset_node != run->node;
    int64_t doubt = other_node && run->first.computed ? 600 : 0;
    if (run->trait.flags & RG_TRAIT_PLANNED) {
        if (comparable && (run->start < view->onset - usec_of(120 + doubt) ||
                           run->start > view->onset + usec_of((other_node ? 20 : 5) + doubt))) {
            return 960;
        }
    }
    if (run->row->layer == RG_LAYER_LNET && rg_run_is_local(run) && view->first_answered) {
        rank += 100; /* the peer still answered when it began */
    }
    if (comparable && run->start > view->onset + usec_of(options->cause_late_sec + doubt) &&
        !(run->trait.flags & RG_TRAIT_LATE)) {
        rank += 100;
    }
    return rank;
}

void rg_view_look(struct rg_view *view)
{
    struct rg_correlation *correlation = view->correlation;
    view->onset = INT64_MIN;
    view->onset_clock = -1;
    int first_node = -1;
    for (size_t i = 0; i < view->run_count; i++) {
        struct rg_run *run = view->runs[i];
        rg_host_id self = rg_view_speaker(view, run);
        rg_host_id element = rg_map_resolve(&correlation->map, run->element);
        if (first_node >= 0 && (rg_node_id)first_node != run->node) {
            view->cross_clock |= correlation->clocks_guessed;
        }
        first_node = (int)run->node;
        if (!rg_run_is_active(run)) {
            continue;
        }
        bool of_client = rg_run_accuses_client(run) || (rg_view_is_server(view, self) && run->nid &&
                                                        !rg_view_is_server(view, element));
        if (of_client && element != self) {
            rg_host_list_add(&view->clients, element);
            rg_host_list_add(&view->accusers, self);
        } else if (element != self) {
            rg_host_list_add(&view->observers, self);
            rg_host_list_add(&view->elements, element);
            if (run->trait.flags & RG_TRAIT_SILENT) {
                rg_host_list_add(&view->silent, element);
            }
        }
        bool symptom = run->row->layer >= RG_LAYER_RPC && run->row->layer <= RG_LAYER_RECOVERY;
        if (run->clock >= 0 && symptom && (view->onset == INT64_MIN || run->start < view->onset)) {
            view->onset = run->start;
            view->onset_clock = run->clock;
            view->onset_node = run->node;
            view->first_answered = run->trait.flags & RG_TRAIT_ANSWERED;
        }
    }
    for (uint32_t i = 0; i < correlation->seen_count; i++) {
        view->lustre_logs += correlation->seen[i].lustre;
    }
}

void rg_view_choose_cause(struct rg_view *view)
{
    int best = 1000;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        int rank = rg_view_rank(view, run);
        bool earlier = view->cause && (run->clock == view->cause->clock && run->clock >= 0
                                           ? run->start < view->cause->start
                                           : run->order < view->cause->order);
        if (rank < best || (rank == best && best < 1000 && earlier)) {
            best = rank;
            view->cause = run;
        }
    }
    if (!view->cause) {
        view->cause = view->runs[0];
    }
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->row == view->cause->row && rg_run_is_active(view->runs[i])) {
            rg_host_list_add(&view->ill, rg_view_speaker(view, view->runs[i]));
        }
    }
}

/* ---- Lists of what is affected. ---- */
enum rg_target_kind rg_view_target_kind(struct rg_view *view, rg_word target)
{
    const struct rg_map_target *entry = rg_map_target(&view->correlation->map, target);
    if (entry) {
        return entry->kind;
    }
    struct rg_target_name name;
    return rg_target_parse(rg_span_text(rg_pool_text(&view->correlation->pool, target)), &name)
               ? name.kind
               : RG_TARGET_NONE;
}

void rg_view_list_affected(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    struct rg_when none = {.kind = RG_WHEN_UNKNOWN};
    incident->first = none;
    incident->last = none;
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    int clock = view->onset_clock;
    for (size_t i = 0; i < view->run_count; i++) {
        if (clock < 0 && rg_run_is_active(view->runs[i])) {
            clock = view->runs[i]->clock;
        }
    }
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (!rg_run_is_active(run) && run != view->cause) {
            continue;
        }
        view->ok &= rg_words_add(&incident->targets, run->target);
        view->ok &= rg_words_add(&incident->nids, run->nid);
        view->ok &= rg_words_add(&incident->nodes, rg_view_name(view, run->speaker));
        if (run->rc < 0 && incident->errno_count < RG_INCIDENT_ERRORS_MAX) {
            bool there = false;
            for (size_t k = 0; k < incident->errno_count; k++) {
                there |= incident->errnos[k] == run->rc;
            }
            if (!there) {
                incident->errnos[incident->errno_count++] = run->rc;
            }
        }
        if (run->wc_status > 0 && incident->status_count < RG_INCIDENT_ERRORS_MAX) {
            bool there = false;
            for (size_t k = 0; k < incident->status_count; k++) {
                there |= incident->statuses[k] == run->wc_status;
            }
            if (!there) {
                incident->statuses[incident->status_count++] = run->wc_status;
            }
        }
        if (run->clock != clock || clock < 0) {
            continue;
        }
        /* Times as their own log printed them, in the order of the common clock. */
        if (run->start < first) {
            first = run->start;
            incident->first = run->when_first;
        }
        if (run->end > last) {
            last = run->end;
            incident->last = run->when_last;
            if (run->end > run->start && incident->last.kind == run->when_first.kind) {
                incident->last.usec = run->when_first.usec + (run->end - run->start);
            }
        }
    }
    incident->duration_usec = last >= first ? last - first : -1;
}

size_t rg_view_targets_of(struct rg_view *view, rg_host_id host, struct rg_words *ret_targets)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (rg_run_is_active(run) && run->target &&
            rg_view_target_kind(view, run->target) != RG_TARGET_MGS &&
            (rg_map_resolve(&view->correlation->map, run->element) == host ||
             rg_map_host_of_target(&view->correlation->map, run->target,
                                   rg_run_moment(view->correlation, run)) == host)) {
            view->ok &= rg_words_add(ret_targets, run->target);
        }
    }
    return ret_targets->count;
}

/* Targets of that host that the logs know and this incident does not touch. */
void rg_view_healthy_siblings(struct rg_view *view, rg_host_id host,
                              const struct rg_words *affected, struct rg_words *ret_siblings)
{
    struct rg_map *map = &view->correlation->map;
    int64_t moment = rg_run_moment(view->correlation, view->cause);
    for (uint32_t i = 1; i < map->target_count; i++) {
        rg_word name = map->targets[i].name;
        bool hit = map->targets[i].kind == RG_TARGET_MGS || map->targets[i].kind == RG_TARGET_NONE;
        for (size_t k = 0; k < affected->count; k++) {
            hit |= affected->items[k] == name;
        }
        if (!hit && rg_map_host_of_target(map, name, moment) == host) {
            view->ok &= rg_words_add(ret_siblings, name);
        }
    }
}

/* ---- Scope. ---- */

/* The row's title is a sentence in two languages; as a word inside evidence the id is clearer. */
rg_word rg_view_what_it_said(struct rg_view *view, const struct rg_run *run)
{
    if (run->quote_count) {
        return run->quotes[0];
    }
    return rg_view_text(view, run->row->id);
}

void rg_view_set_scope(struct rg_view *view, enum rg_scope scope, rg_word element)
{
    view->incident->scope = scope;
    view->incident->element = element;
}

rg_word rg_view_target_of_cause(struct rg_view *view)
{
    const struct rg_run *cause = view->cause;
    if (cause->target) {
        return cause->target;
    }
    /* Pool and device names often hold the target's: foss06-OST0015. */
    struct rg_target_name name;
    if (cause->device &&
        rg_target_parse(rg_span_text(rg_pool_text(&view->correlation->pool, cause->device)),
                        &name)) {
        return rg_pool_add(&view->correlation->pool, name.target);
    }
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->trait.flags & RG_TRAIT_STORAGE && run->node == cause->node && run->device &&
            rg_target_parse(rg_span_text(rg_pool_text(&view->correlation->pool, run->device)),
                            &name)) {
            return rg_pool_add(&view->correlation->pool, name.target);
        }
    }
    struct rg_words own = {0};
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->node == cause->node && rg_run_is_active(run) && run->target &&
            rg_view_target_kind(view, run->target) != RG_TARGET_MGS) {
            view->ok &= rg_words_add(&own, run->target);
        }
    }
    rg_word named = own.count == 1 ? own.items[0] : 0;
    free(own.items);
    if (named) {
        return named;
    }
    rg_word only = 0;
    size_t count = 0;
    for (size_t i = 0; i < view->incident->targets.count; i++) {
        if (rg_view_target_kind(view, view->incident->targets.items[i]) != RG_TARGET_MGS) {
            only = view->incident->targets.items[i];
            count++;
        }
    }
    return count == 1 ? only : 0;
}

/* 0: not known. */
rg_host_id rg_view_host_of_seen(struct rg_correlation *correlation, const struct rg_node_seen *seen)
{
    return seen->node < RG_MAP_HOSTS_MAX
               ? rg_map_resolve(&correlation->map, correlation->map.host_of_node[seen->node])
               : 0;
}

/* A message that only reports what something else did is no cause, however alone it stands. */
bool rg_run_is_mere_symptom(const struct rg_run *run)
{
    return run->row->layer >= RG_LAYER_RPC && run->row->layer <= RG_LAYER_APPLICATION &&
           !(run->trait.flags & (RG_TRAIT_PLANNED | RG_TRAIT_STARTED | RG_TRAIT_SLOW |
                                 RG_TRAIT_BOTH | RG_TRAIT_STORAGE)) &&
           run->trait.nature != RG_NATURE_SOFTWARE;
}

bool rg_view_has_row(struct rg_view *view, const char *id)
{
    for (size_t i = 0; i < view->run_count; i++) {
        if (rg_row_is(view->runs[i]->row, id)) {
            return true;
        }
    }
    return false;
}
