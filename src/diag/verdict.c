/*
 * One incident: its cause, its scope with the evidence for and against, what it did to users and
 * data, and what to do next (diagnosis.md 3.2 to 3.6).
 *
 * A verdict is earned: where the logs do not decide, it says so and names what would.
 */
#include "diag/correlation.h"

#include "base/assert.h"
#include "base/checked.h"
#include "diag/lustre.h"

#include <inttypes.h>
#include <stdlib.h>

#define USEC INT64_C(1000000)

/* Hosts, nodes and targets that one incident may list; further ones count only. */
#define LIST_MAX 64

struct hosts {
    rg_host_id items[LIST_MAX];
    size_t count; /* all, those that found no room included */
};

struct view {
    struct rg_correlation *correlation;
    struct rg_incident *incident;
    int number;
    struct rg_run **runs; /* of the incident, in order of rank for causes */
    size_t run_count;
    int64_t onset; /* of the first symptom, on the base clock; INT64_MIN when unknown */
    int onset_clock;
    rg_node_id onset_node;
    bool first_answered;    /* the first symptom is an answer of the peer */
    struct hosts observers; /* hosts that complain of another */
    struct hosts elements;  /* servers complained of */
    struct hosts silent;    /* those of them that did not answer */
    struct hosts clients;   /* clients that servers complain of */
    struct hosts accusers;  /* servers that complain of clients */
    struct hosts ill;       /* hosts with a fault of their own in the same row as the cause */
    size_t lustre_logs;
    bool cross_clock; /* runs of several nodes are compared by guessed clocks */
    bool ok;
    const struct rg_run *cause;
};

static void add_host(struct hosts *hosts, rg_host_id host)
{
    if (host == 0) {
        return;
    }
    size_t kept = RG_MIN(hosts->count, (size_t)LIST_MAX);
    for (size_t i = 0; i < kept; i++) {
        if (hosts->items[i] == host) {
            return;
        }
    }
    if (kept < LIST_MAX) {
        hosts->items[kept] = host;
    }
    hosts->count++;
}

static bool has_host(const struct hosts *hosts, rg_host_id host)
{
    for (size_t i = 0; i < RG_MIN(hosts->count, (size_t)LIST_MAX); i++) {
        if (hosts->items[i] == host) {
            return true;
        }
    }
    return false;
}

static const struct rg_map_host *host_of(struct view *view, rg_host_id host)
{
    return rg_map_host(&view->correlation->map, host);
}

static bool is_server(struct view *view, rg_host_id host)
{
    return host_of(view, host)->server;
}

static rg_host_id speaker_of(struct view *view, const struct rg_run *run)
{
    return rg_map_resolve(&view->correlation->map, run->speaker);
}

static rg_word name_of(struct view *view, rg_host_id host)
{
    return host ? host_of(view, host)->name : 0;
}

/* "oss1 (192.0.2.15@o2ib)" where both are known. */
static rg_word full_name(struct view *view, rg_host_id host)
{
    const struct rg_map_host *entry = host_of(view, host);
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

static rg_word names_of(struct view *view, const struct hosts *hosts)
{
    RG_BUF(list, 2048);
    for (size_t i = 0; i < RG_MIN(hosts->count, (size_t)12); i++) {
        rg_buf_addf(&list, "%s%s", i ? ", " : "",
                    rg_pool_text(&view->correlation->pool, full_name(view, hosts->items[i])));
    }
    if (hosts->count > 12) {
        rg_buf_addf(&list, " … (%zu)", hosts->count);
    }
    return rg_pool_add(&view->correlation->pool, rg_buf_span(&list));
}

static rg_word words_list(struct view *view, const struct rg_words *words)
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

static rg_word number_word(struct view *view, size_t number)
{
    return rg_pool_addf(&view->correlation->pool, "%zu", number);
}

static rg_word text_word(struct view *view, const char *text)
{
    return rg_pool_add(&view->correlation->pool, rg_span_text(text));
}

static void say(struct view *view, struct rg_phrases *phrases, enum rg_phrase_id id, rg_word a,
                rg_word b, rg_word c)
{
    view->ok &= rg_phrases_add(phrases, id, a, b, c, 0);
}

static void headline(struct view *view, enum rg_phrase_id id, rg_word a, rg_word b, rg_word c)
{
    view->incident->headline = (struct rg_phrase){.id = id, .word = {a, b, c, 0}};
}

/* ---- Looking at the runs. ---- */

static int64_t usec_of(int64_t seconds)
{
    return seconds * USEC;
}

/* The same host is spoken with on another LNet network: a missing route there explains nothing. */
static bool reached_otherwise(struct view *view, const struct rg_run *run)
{
    rg_host_id host = run->nid ? rg_map_host_of_nid(&view->correlation->map, run->nid) : 0;
    for (size_t i = 0; i < view->run_count && host; i++) {
        const struct rg_run *other = view->runs[i];
        if (other->nid && other->nid != run->nid && other->row->layer >= RG_LAYER_RPC &&
            rg_map_host_of_nid(&view->correlation->map, other->nid) == host) {
            return true;
        }
    }
    const struct rg_map_host *entry = host_of(view, host);
    return host && entry->nid_count > 1 && !run->trait.flags;
}

/* A client that looks for a lost target asks its HA partners too, and is told -19 there. */
static bool is_connect_status(struct view *view, const struct rg_run *run)
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
static bool is_explained_by_bond(struct view *view, const struct rg_run *bond)
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
static int rank_of(struct view *view, const struct rg_run *run)
{
    const struct rg_correlation_options *options = &view->correlation->options;
    int rank = run->trait.rank;
    if (run->accused == RG_ACCUSED_CONSEQUENCE && rg_run_is_active(run)) {
        return 900;
    }
    if (is_connect_status(view, run)) {
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
    const struct rg_map_host *speaker = host_of(view, run->speaker);
    if (!rg_run_is_active(run)) {
        if (run->trait.flags & RG_TRAIT_STARTED) {
            /* A start explains what came before it: somebody was away until then. */
            bool accused_client = has_host(&view->clients, speaker_of(view, run));
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

static void look(struct view *view)
{
    struct rg_correlation *correlation = view->correlation;
    view->onset = INT64_MIN;
    view->onset_clock = -1;
    int first_node = -1;
    for (size_t i = 0; i < view->run_count; i++) {
        struct rg_run *run = view->runs[i];
        rg_host_id self = speaker_of(view, run);
        rg_host_id element = rg_map_resolve(&correlation->map, run->element);
        if (first_node >= 0 && (rg_node_id)first_node != run->node) {
            view->cross_clock |= correlation->clocks_guessed;
        }
        first_node = (int)run->node;
        if (!rg_run_is_active(run)) {
            continue;
        }
        bool of_client = rg_run_accuses_client(run) ||
                         (is_server(view, self) && run->nid && !is_server(view, element));
        if (of_client && element != self) {
            add_host(&view->clients, element);
            add_host(&view->accusers, self);
        } else if (element != self) {
            add_host(&view->observers, self);
            add_host(&view->elements, element);
            if (run->trait.flags & RG_TRAIT_SILENT) {
                add_host(&view->silent, element);
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

static void choose_cause(struct view *view)
{
    int best = 1000;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        int rank = rank_of(view, run);
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
            add_host(&view->ill, speaker_of(view, view->runs[i]));
        }
    }
}

/* ---- Lists of what is affected. ---- */

static enum rg_target_kind kind_of(struct view *view, rg_word target)
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

static void list_affected(struct view *view)
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
        view->ok &= rg_words_add(&incident->nodes, name_of(view, run->speaker));
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

static size_t affected_targets_of(struct view *view, rg_host_id host, struct rg_words *ret_targets)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (rg_run_is_active(run) && run->target && kind_of(view, run->target) != RG_TARGET_MGS &&
            (rg_map_resolve(&view->correlation->map, run->element) == host ||
             rg_map_host_of_target(&view->correlation->map, run->target) == host)) {
            view->ok &= rg_words_add(ret_targets, run->target);
        }
    }
    return ret_targets->count;
}

/* Targets of that host that the logs know and this incident does not touch. */
static void healthy_siblings(struct view *view, rg_host_id host, const struct rg_words *affected,
                             struct rg_words *ret_siblings)
{
    struct rg_map *map = &view->correlation->map;
    for (uint32_t i = 1; i < map->target_count; i++) {
        rg_word name = map->targets[i].name;
        bool hit = map->targets[i].kind == RG_TARGET_MGS || map->targets[i].kind == RG_TARGET_NONE;
        for (size_t k = 0; k < affected->count; k++) {
            hit |= affected->items[k] == name;
        }
        if (!hit && rg_map_host_of_target(map, name) == host) {
            view->ok &= rg_words_add(ret_siblings, name);
        }
    }
}

/* ---- Scope. ---- */

/* The row's title is a sentence in two languages; as a word inside evidence the id is clearer. */
static rg_word what_it_said(struct view *view, const struct rg_run *run)
{
    if (run->quote_count) {
        return run->quotes[0];
    }
    return text_word(view, run->row->id);
}

static void set_scope(struct view *view, enum rg_scope scope, rg_word element)
{
    view->incident->scope = scope;
    view->incident->element = element;
}

static rg_word target_of_cause(struct view *view)
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
            kind_of(view, run->target) != RG_TARGET_MGS) {
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
        if (kind_of(view, view->incident->targets.items[i]) != RG_TARGET_MGS) {
            only = view->incident->targets.items[i];
            count++;
        }
    }
    return count == 1 ? only : 0;
}

static void scope_storage(struct view *view)
{
    rg_word target = target_of_cause(view);
    rg_host_id host = speaker_of(view, view->cause);
    if (target) {
        set_scope(view, RG_SCOPE_TARGET, target);
    } else {
        set_scope(view, is_server(view, host) ? RG_SCOPE_TARGET : RG_SCOPE_NODE,
                  view->cause->device ? view->cause->device : name_of(view, host));
    }
    headline(view, RG_PHRASE_HEAD_STORAGE,
             view->incident->element ? view->incident->element : name_of(view, host), 0, 0);
    say(view, &view->incident->evidence, RG_PHRASE_EV_OWN_LAYER, name_of(view, host),
        what_it_said(view, view->cause), 0);
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->trait.flags & RG_TRAIT_PLANNED) {
            say(view, &view->incident->contrary, RG_PHRASE_CON_TRIGGER,
                what_it_said(view, view->runs[i]), 0, 0);
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
static void say_common_request(struct view *view)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->row != view->cause->row && shares_request(run, view->cause)) {
            say(view, &view->incident->evidence, RG_PHRASE_EV_XID,
                rg_pool_addf(&view->correlation->pool, "x%" PRIu64, view->cause->xids[0]), 0, 0);
            return;
        }
    }
}

static void scope_own_fault(struct view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_run *cause = view->cause;
    rg_host_id host = speaker_of(view, cause);
    rg_word name = full_name(view, host);
    bool server = is_server(view, host);
    say(view, &incident->evidence, RG_PHRASE_EV_OWN_LAYER, name_of(view, host),
        what_it_said(view, cause), 0);
    say_common_request(view);
    if (cause->trait.flags & RG_TRAIT_BOTH) {
        set_scope(view, RG_SCOPE_SOFTWARE, cause->nid ? cause->nid : name);
        headline(view, RG_PHRASE_HEAD_BOTH_ENDS,
                 rg_pool_addf(&view->correlation->pool, "%s, %s",
                              rg_pool_text(&view->correlation->pool, name),
                              rg_pool_text(&view->correlation->pool,
                                           cause->nid ? cause->nid : cause->target)),
                 0, 0);
        return;
    }
    set_scope(view, server ? RG_SCOPE_SERVER : RG_SCOPE_NODE, name_of(view, host));
    if (incident->nature == RG_NATURE_SOFTWARE) {
        headline(view, RG_PHRASE_HEAD_SOFTWARE, name, 0, 0);
    } else if (incident->nature == RG_NATURE_CONFIG) {
        headline(view, RG_PHRASE_HEAD_CONFIG, name, 0, 0);
    } else {
        headline(view, server ? RG_PHRASE_HEAD_SERVER_FAULT : RG_PHRASE_HEAD_NODE_FAULT, name, 0,
                 0);
    }
    if (view->ill.count >= 3 && cause->row->layer >= RG_LAYER_LINK) {
        set_scope(view, RG_SCOPE_FABRIC, 0);
        headline(view, RG_PHRASE_HEAD_FABRIC, 0, 0, 0);
        say(view, &incident->evidence, RG_PHRASE_EV_OBSERVERS, number_word(view, view->ill.count),
            names_of(view, &view->ill), 0);
    } else if (view->ill.count >= 2) {
        say(view, &incident->contrary, RG_PHRASE_CON_SAME_FAULT_MANY,
            number_word(view, view->ill.count), 0, 0);
    }
}

static void scope_planned(struct view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_run *cause = view->cause;
    rg_host_id host = speaker_of(view, cause);
    say(view, &incident->evidence, RG_PHRASE_EV_PLANNED, name_of(view, host),
        what_it_said(view, cause), 0);
    incident->planned = true;
    struct rg_words targets = {0};
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run->trait.flags & RG_TRAIT_PLANNED && run->target) {
            view->ok &= rg_words_add(&targets, run->target);
        }
    }
    if (rg_row_is(cause->row, "PT-ADMIN-INACTIVE")) {
        set_scope(view, RG_SCOPE_NODE, name_of(view, host));
        headline(view, RG_PHRASE_HEAD_PLANNED_CLIENT, name_of(view, host), 0, 0);
    } else if (targets.count == 1) {
        bool mgs = kind_of(view, targets.items[0]) == RG_TARGET_MGS;
        set_scope(view, mgs ? RG_SCOPE_MGS : RG_SCOPE_TARGET, targets.items[0]);
        headline(view,
                 rg_row_is(cause->row, "EX-EVICT-ADMIN") ? RG_PHRASE_HEAD_PLANNED_EVICT
                                                         : RG_PHRASE_HEAD_PLANNED_TARGET,
                 targets.items[0], 0, 0);
    } else {
        set_scope(view, is_server(view, host) ? RG_SCOPE_SERVER : RG_SCOPE_NODE,
                  name_of(view, host));
        headline(view,
                 rg_row_is(cause->row, "EX-EVICT-ADMIN") ? RG_PHRASE_HEAD_PLANNED_EVICT
                 : targets.count                         ? RG_PHRASE_HEAD_PLANNED_TARGET
                                                         : RG_PHRASE_HEAD_PLANNED,
                 targets.count && !rg_row_is(cause->row, "EX-EVICT-ADMIN")
                     ? words_list(view, &targets)
                     : full_name(view, host),
                 0, 0);
    }
    free(targets.items);
}

static void scope_restart(struct view *view)
{
    const struct rg_run *cause = view->cause;
    rg_host_id host = speaker_of(view, cause);
    struct rg_words targets = {0};
    size_t count = affected_targets_of(view, host, &targets);
    bool reboot = rg_row_is(cause->row, "K-BOOT");
    if (!is_server(view, host)) {
        set_scope(view, RG_SCOPE_NODE, name_of(view, host));
    } else if (count == 1 && !reboot) {
        set_scope(view, RG_SCOPE_TARGET, targets.items[0]);
    } else {
        set_scope(view, RG_SCOPE_SERVER, full_name(view, host));
    }
    headline(view, RG_PHRASE_HEAD_RESTART, view->incident->element, 0, 0);
    say(view, &view->incident->evidence, RG_PHRASE_EV_STARTED, name_of(view, host),
        what_it_said(view, cause), 0);
    free(targets.items);
}

/* Whether some target was lost at one NID and came back at another. */
static const struct rg_run *find_move(struct view *view, const struct rg_run **ret_lost)
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

static void scope_slow(struct view *view)
{
    const struct rg_run *cause = view->cause;
    rg_host_id host = speaker_of(view, cause);
    struct rg_words targets = {0};
    struct rg_words siblings = {0};
    size_t count = affected_targets_of(view, host, &targets);
    healthy_siblings(view, host, &targets, &siblings);
    if (count == 1 && siblings.count) {
        set_scope(view, RG_SCOPE_TARGET, targets.items[0]);
    } else {
        set_scope(view, RG_SCOPE_SERVER, full_name(view, host));
    }
    headline(view, RG_PHRASE_HEAD_SLOW, view->incident->element, 0, 0);
    if (view->run_count == 1 && cause->nid && cause->count < 3) {
        /* One request of one client: it may be the client that keeps the server waiting. */
        say(view, &view->incident->contrary, RG_PHRASE_CON_ONE_REQUEST, cause->nid, 0, 0);
        say(view, &view->incident->decides, RG_PHRASE_DEC_CLIENT_LOG, cause->nid, 0, 0);
    }
    say(view, &view->incident->evidence, RG_PHRASE_EV_SLOW, what_it_said(view, cause), 0, 0);
    free(targets.items);
    free(siblings.items);
}

static bool only_mgs(struct view *view, rg_word *ret_nid, bool *ret_mount)
{
    *ret_nid = 0;
    *ret_mount = false;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (!rg_run_is_active(run)) {
            continue;
        }
        bool mount = run->trait.flags & RG_TRAIT_MOUNT;
        bool mgs = run->target && kind_of(view, run->target) == RG_TARGET_MGS;
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

static rg_word ping_command(struct view *view, rg_host_id host, rg_word nid);

static void scope_mgs(struct view *view, rg_word nid, bool mount)
{
    rg_host_id host = rg_map_host_of_nid(&view->correlation->map, nid);
    set_scope(view, RG_SCOPE_MGS, nid);
    headline(view, mount ? RG_PHRASE_HEAD_MGS_MOUNT : RG_PHRASE_HEAD_MGS, nid, 0, 0);
    say(view, &view->incident->evidence, RG_PHRASE_EV_ONLY_MGS, 0, 0, 0);
    if (!host_of(view, host)->node) {
        say(view, &view->incident->decides, RG_PHRASE_DEC_MGS_REACH, ping_command(view, host, nid),
            nid, 0);
    } else {
        say(view, &view->incident->decides, RG_PHRASE_DEC_PING, ping_command(view, host, nid),
            full_name(view, speaker_of(view, view->cause)), 0);
    }
}

/* Servers complain of clients, and nobody else says anything. */
static void scope_clients(struct view *view)
{
    struct rg_incident *incident = view->incident;
    if (rg_row_is(view->cause->row, "CN-RECONNECTING")) {
        set_scope(view, RG_SCOPE_UNKNOWN, 0);
        headline(view, RG_PHRASE_HEAD_RECONNECTED, names_of(view, &view->clients),
                 names_of(view, &view->accusers), 0);
        say(view, &incident->decides, RG_PHRASE_DEC_CLIENT_LOG, names_of(view, &view->clients), 0,
            0);
        return;
    }
    if (rg_row_is(view->cause->row, "CK-WRITE") || rg_row_is(view->cause->row, "CK-READ")) {
        rg_host_id client = view->clients.items[0];
        rg_host_id server = view->accusers.items[0];
        incident->nature = RG_NATURE_NETWORK;
        set_scope(view,
                  view->clients.count > 1 && view->accusers.count == 1 ? RG_SCOPE_SERVER
                                                                       : RG_SCOPE_PAIR,
                  view->clients.count > 1 ? full_name(view, server) : full_name(view, client));
        headline(view, RG_PHRASE_HEAD_CHECKSUM, names_of(view, &view->clients),
                 full_name(view, server), 0);
        if (!host_of(view, client)->node) {
            say(view, &incident->decides, RG_PHRASE_DEC_CLIENT_LOG, full_name(view, client), 0, 0);
        }
        return;
    }
    if (view->clients.count == 1) {
        rg_host_id client = view->clients.items[0];
        set_scope(view, RG_SCOPE_NODE, name_of(view, client));
        incident->nature = RG_NATURE_HOST;
        headline(view, RG_PHRASE_HEAD_CLIENT_GONE, full_name(view, client), 0, 0);
        say(view, &incident->evidence, RG_PHRASE_EV_SERVERS_ACCUSE,
            number_word(view, RG_MAX(view->accusers.count, incident->targets.count)),
            full_name(view, client), 0);
        if (!host_of(view, client)->node) {
            say(view, &incident->decides, RG_PHRASE_DEC_CLIENT_LOG, full_name(view, client), 0, 0);
        }
        return;
    }
    rg_host_id server = view->accusers.items[0];
    if (view->accusers.count == 1) {
        say(view, &incident->evidence, RG_PHRASE_EV_CLIENTS_ACCUSED, full_name(view, server),
            number_word(view, view->clients.count), 0);
        incident->nature = RG_NATURE_NETWORK;
        headline(view, RG_PHRASE_HEAD_SERVER_FAULT, full_name(view, server), 0, 0);
        set_scope(view, RG_SCOPE_SERVER, full_name(view, server));
        if (view->lustre_logs < 2) {
            set_scope(view, RG_SCOPE_UNKNOWN, 0);
            headline(view, RG_PHRASE_HEAD_CLIENT_GONE, names_of(view, &view->clients), 0, 0);
            say(view, &incident->decides, RG_PHRASE_DEC_OTHER_SERVER, 0, 0, 0);
        }
        return;
    }
    set_scope(view, RG_SCOPE_FABRIC, 0);
    incident->nature = RG_NATURE_NETWORK;
    headline(view, RG_PHRASE_HEAD_FABRIC, 0, 0, 0);
    say(view, &incident->evidence, RG_PHRASE_EV_CLIENTS_ACCUSED, names_of(view, &view->accusers),
        number_word(view, view->clients.count), 0);
}

static void name_symptom(struct view *view, rg_host_id element)
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
    rg_word what =
        incident->targets.count ? words_list(view, &incident->targets) : full_name(view, element);
    if (checksum) {
        headline(view, RG_PHRASE_HEAD_CHECKSUM, names_of(view, &view->observers), what, 0);
    } else if (evicted) {
        headline(view, RG_PHRASE_HEAD_EVICTED, what, 0, 0);
    } else if (forgotten && !silent) {
        headline(view, RG_PHRASE_HEAD_FORGOTTEN, what, 0, 0);
    } else if (error && !silent) {
        headline(view, RG_PHRASE_HEAD_SERVER_ERROR, what, 0, 0);
    } else {
        headline(view, RG_PHRASE_HEAD_TIMED_OUT, what, 0, 0);
    }
}

/* One node complains of one server. */
static void scope_one_to_one(struct view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id element = view->elements.items[0];
    rg_host_id observer = view->observers.items[0];
    name_symptom(view, element);
    if (!view->silent.count) {
        say(view, &incident->evidence, RG_PHRASE_EV_ANSWERED, full_name(view, element), 0, 0);
        incident->nature = RG_NATURE_SERVER;
        set_scope(view, RG_SCOPE_UNKNOWN, 0);
        say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG, full_name(view, element), 0, 0);
        if (host_of(view, element)->node) {
            /* Its log is here, and says nothing of a restart or an order. */
            set_scope(view, RG_SCOPE_SERVER, full_name(view, element));
        }
        return;
    }
    bool server_log = host_of(view, element)->node != 0;
    if (view->lustre_logs < 2 && view->cause->accused == RG_ACCUSED_PEER) {
        /* Not even a connection to that one peer could be made. */
        set_scope(view, RG_SCOPE_SERVER, full_name(view, element));
        incident->nature = RG_NATURE_NETWORK;
        say(view, &incident->contrary, RG_PHRASE_CON_ONE_LOG, full_name(view, observer), 0, 0);
        say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT, full_name(view, element), 0, 0);
        return;
    }
    if (view->lustre_logs < 2) {
        set_scope(view, RG_SCOPE_UNKNOWN, 0);
        say(view, &incident->contrary, RG_PHRASE_CON_ONE_LOG, full_name(view, observer), 0, 0);
        say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG, full_name(view, element), 0, 0);
        say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT, full_name(view, element), 0, 0);
        return;
    }
    set_scope(view, RG_SCOPE_PAIR,
              rg_pool_addf(&view->correlation->pool, "%s, %s",
                           rg_pool_text(&view->correlation->pool, name_of(view, observer)),
                           rg_pool_text(&view->correlation->pool, full_name(view, element))));
    incident->nature = RG_NATURE_NETWORK;
    headline(view, RG_PHRASE_HEAD_PAIR, full_name(view, observer), full_name(view, element), 0);
    say(view, &incident->evidence, RG_PHRASE_EV_ONE_OBSERVER, number_word(view, view->lustre_logs),
        full_name(view, observer), 0);
    for (size_t i = 0; server_log && i < view->run_count; i++) {
        if (rg_row_is(view->runs[i]->row, "CN-RECONNECTING")) {
            say(view, &incident->evidence, RG_PHRASE_EV_SERVER_UP, full_name(view, element), 0, 0);
        }
    }
    if (view->lustre_logs < 3 && server_log) {
        say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT, full_name(view, element), 0, 0);
    } else if (!server_log) {
        say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG, full_name(view, element), 0, 0);
    }
}

/* One node complains of several servers. */
static void scope_one_to_many(struct view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id observer = view->observers.items[0];
    if (view->silent.count < 2) {
        name_symptom(view, view->elements.items[0]);
        set_scope(view, RG_SCOPE_UNKNOWN, 0);
        incident->nature = RG_NATURE_SERVER;
        for (size_t i = 0; i < RG_MIN(view->elements.count, (size_t)4); i++) {
            say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                full_name(view, view->elements.items[i]), 0, 0);
        }
        return;
    }
    set_scope(view, is_server(view, observer) ? RG_SCOPE_SERVER : RG_SCOPE_NODE,
              name_of(view, observer));
    incident->nature = RG_NATURE_NETWORK;
    headline(view, RG_PHRASE_HEAD_NODE_CUT_OFF, full_name(view, observer), 0, 0);
    say(view, &incident->evidence, RG_PHRASE_EV_SERVERS_AT_ONCE, name_of(view, observer),
        number_word(view, view->silent.count), names_of(view, &view->silent));
    if (view->lustre_logs < 2) {
        say(view, &incident->contrary, RG_PHRASE_CON_ONE_LOG, full_name(view, observer), 0, 0);
        say(view, &incident->decides, RG_PHRASE_DEC_SECOND_CLIENT, names_of(view, &view->silent), 0,
            0);
    } else {
        say(view, &incident->evidence, RG_PHRASE_EV_ONE_OBSERVER,
            number_word(view, view->lustre_logs), full_name(view, observer), 0);
    }
}

/* Several nodes complain of one server. */
static void scope_many_to_one(struct view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id element = view->elements.items[0];
    struct rg_words targets = {0};
    struct rg_words siblings = {0};
    size_t count = affected_targets_of(view, element, &targets);
    healthy_siblings(view, element, &targets, &siblings);
    say(view, &incident->evidence, RG_PHRASE_EV_OBSERVERS, number_word(view, view->observers.count),
        names_of(view, &view->observers), 0);
    if (count) {
        say(view, &incident->evidence, RG_PHRASE_EV_TARGETS, full_name(view, element),
            words_list(view, &targets), 0);
    }
    incident->nature = view->silent.count ? RG_NATURE_UNKNOWN : RG_NATURE_SERVER;
    if (count == 1 && siblings.count) {
        set_scope(view, RG_SCOPE_TARGET, targets.items[0]);
        incident->nature = RG_NATURE_STORAGE;
        headline(view, RG_PHRASE_HEAD_TARGET_LOST, targets.items[0], 0, 0);
        say(view, &incident->evidence, RG_PHRASE_EV_SIBLINGS_FINE, words_list(view, &siblings), 0,
            0);
    } else {
        set_scope(view, RG_SCOPE_SERVER, full_name(view, element));
        headline(view, RG_PHRASE_HEAD_SERVER_LOST, full_name(view, element), 0, 0);
        if (count == 1) {
            say(view, &incident->contrary, RG_PHRASE_CON_ONE_TARGET, full_name(view, element), 0,
                0);
            say(view, &incident->decides, RG_PHRASE_DEC_SIBLING, full_name(view, element),
                text_word(view, "timeout 5 lctl get_param '*.*.import'"), 0);
        }
    }
    if (!host_of(view, element)->node) {
        say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG, full_name(view, element), 0, 0);
    }
    free(targets.items);
    free(siblings.items);
}

/* ---- What only the table of hosts can tell. ---- */

/* The one rack of all of them (or of all but routers); 0 when they are fewer than two, or some
 * stand elsewhere or nobody knows where. */
static rg_word common_rack(struct view *view, const struct hosts *hosts)
{
    rg_word rack = 0;
    if (hosts->count < 2 || hosts->count > LIST_MAX) {
        return 0;
    }
    for (size_t i = 0; i < hosts->count; i++) {
        rg_word here = host_of(view, hosts->items[i])->rack;
        if (here == 0 || (rack && rack != here)) {
            return 0;
        }
        rack = here;
    }
    return rack;
}

/* 0: not known. */
static rg_host_id host_of_seen(struct rg_correlation *correlation, const struct rg_node_seen *seen)
{
    return seen->node < RG_MAP_HOSTS_MAX
               ? rg_map_resolve(&correlation->map, correlation->map.host_of_node[seen->node])
               : 0;
}

/* Hosts that could have complained, and did not: those with Lustre in their logs. */
static void quiet_elsewhere(struct view *view, rg_word rack, struct hosts *ret_quiet)
{
    struct rg_correlation *correlation = view->correlation;
    for (uint32_t i = 0; i < correlation->seen_count; i++) {
        const struct rg_node_seen *seen = &correlation->seen[i];
        rg_host_id host = host_of_seen(correlation, seen);
        const struct rg_map_host *entry = host_of(view, host);
        if (host && seen->lustre && entry->rack && entry->rack != rack &&
            !has_host(&view->observers, host) && !has_host(&view->elements, host)) {
            add_host(ret_quiet, host);
        }
    }
}

/* Servers that nobody lost. */
static void served_elsewhere(struct view *view, rg_word rack, struct hosts *ret_fine)
{
    const struct rg_map *map = &view->correlation->map;
    for (uint32_t i = 1; i < map->host_count; i++) {
        const struct rg_map_host *host = &map->hosts[i];
        if (!host->merged && host->server && host->rack && host->rack != rack &&
            !has_host(&view->elements, i)) {
            add_host(ret_fine, i);
        }
    }
}

static bool blame_rack(struct view *view, const struct hosts *concerned, rg_word rack,
                       const struct hosts *others)
{
    struct rg_incident *incident = view->incident;
    if (!others->count) {
        say(view, &incident->decides, RG_PHRASE_DEC_OTHER_RACK, rack, 0, 0);
        return false;
    }
    set_scope(view, RG_SCOPE_RACK, rack);
    headline(view, RG_PHRASE_HEAD_RACK, rack, 0, 0);
    incident->nature = RG_NATURE_NETWORK;
    say(view, &incident->evidence, RG_PHRASE_EV_RACK, rack, names_of(view, concerned), 0);
    say(view, &incident->evidence, RG_PHRASE_EV_RACK_OTHERS, names_of(view, others), 0, 0);
    return true;
}

/* All who complain stand in one rack, or all whom they complain of do, and others are fine. */
static bool scope_rack(struct view *view)
{
    const struct hosts *concerned = view->observers.count ? &view->observers : &view->clients;
    rg_word rack = common_rack(view, concerned);
    if (rack) {
        struct hosts quiet = {0};
        quiet_elsewhere(view, rack, &quiet);
        return blame_rack(view, concerned, rack, &quiet);
    }
    rack = common_rack(view, &view->silent);
    if (!rack) {
        return false;
    }
    struct hosts fine = {0};
    served_elsewhere(view, rack, &fine);
    return blame_rack(view, &view->silent, rack, &fine);
}

/* Every message of the LND and LNet about a peer names one and the same router. */
static bool scope_told_router(struct view *view)
{
    rg_host_id router = 0;
    struct hosts speakers = {0};
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        bool wire = run->row->layer == RG_LAYER_LND || run->row->layer == RG_LAYER_LNET;
        if (!wire || !rg_run_is_active(run) || !run->nid) {
            continue;
        }
        rg_host_id host = rg_map_host_of_nid(&view->correlation->map, run->nid);
        if (!host_of(view, host)->router || (router && router != host)) {
            return false;
        }
        router = host;
        add_host(&speakers, speaker_of(view, run));
    }
    if (speakers.count < 2) {
        return false;
    }
    set_scope(view, RG_SCOPE_ROUTER, full_name(view, router));
    headline(view, RG_PHRASE_HEAD_ROUTER, full_name(view, router), 0, 0);
    view->incident->nature = RG_NATURE_NETWORK;
    say(view, &view->incident->evidence, RG_PHRASE_EV_ROUTER, full_name(view, router), 0, 0);
    say(view, &view->incident->evidence, RG_PHRASE_EV_OBSERVERS, number_word(view, speakers.count),
        names_of(view, &speakers), 0);
    if (!host_of(view, router)->node) {
        say(view, &view->incident->decides, RG_PHRASE_DEC_SERVER_LOG, full_name(view, router), 0,
            0);
    }
    return true;
}

static rg_word common_router(struct view *view)
{
    rg_word router = 0;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (!rg_run_is_active(run) || run->effect == RG_EFFECT_LOST) {
            continue;
        }
        if (!run->nid_to || (router && router != run->nid_to)) {
            return 0;
        }
        router = run->nid_to;
    }
    return router;
}

static void scope_many_to_many(struct view *view)
{
    struct rg_incident *incident = view->incident;
    rg_word router = common_router(view);
    say(view, &incident->evidence, RG_PHRASE_EV_OBSERVERS, number_word(view, view->observers.count),
        names_of(view, &view->observers), 0);
    if (router) {
        set_scope(view, RG_SCOPE_ROUTER, router);
        headline(view, RG_PHRASE_HEAD_ROUTER, router, 0, 0);
        incident->nature = RG_NATURE_NETWORK;
        return;
    }
    set_scope(view, RG_SCOPE_FABRIC, 0);
    incident->nature = view->silent.count >= 2 ? RG_NATURE_NETWORK : RG_NATURE_SERVER;
    headline(view, RG_PHRASE_HEAD_FABRIC, 0, 0, 0);
    struct hosts fine = {0};
    struct rg_map *map = &view->correlation->map;
    for (uint32_t i = 1; i < map->host_count; i++) {
        if (!map->hosts[i].merged && map->hosts[i].server && !has_host(&view->elements, i) &&
            !has_host(&view->observers, i)) {
            add_host(&fine, i);
        }
    }
    if (fine.count) {
        say(view, &incident->contrary, RG_PHRASE_CON_SERVER_FINE, names_of(view, &fine), 0, 0);
    }
    for (size_t i = 0; i < RG_MIN(view->elements.count, (size_t)4); i++) {
        if (!host_of(view, view->elements.items[i])->node) {
            say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                full_name(view, view->elements.items[i]), 0, 0);
        }
    }
}

static void scope_config(struct view *view)
{
    const struct rg_run *cause = view->cause;
    rg_host_id host = speaker_of(view, cause);
    set_scope(view, RG_SCOPE_CONFIG, name_of(view, host));
    headline(view, RG_PHRASE_HEAD_CONFIG, what_it_said(view, cause), 0, 0);
    say(view, &view->incident->evidence, RG_PHRASE_EV_OWN_LAYER, name_of(view, host),
        what_it_said(view, cause), 0);
}

/* A message that only reports what something else did is no cause, however alone it stands. */
static bool is_mere_symptom(const struct rg_run *run)
{
    return run->row->layer >= RG_LAYER_RPC && run->row->layer <= RG_LAYER_APPLICATION &&
           !(run->trait.flags & (RG_TRAIT_PLANNED | RG_TRAIT_STARTED | RG_TRAIT_SLOW |
                                 RG_TRAIT_BOTH | RG_TRAIT_STORAGE)) &&
           run->trait.nature != RG_NATURE_SOFTWARE;
}

/* A mount or its connects failed, and nothing that was in place was lost. */
static bool only_mounting(struct view *view)
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

static void scope_mounting(struct view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id element = view->elements.count ? view->elements.items[0] : 0;
    rg_host_id observer = speaker_of(view, view->cause);
    bool mounted = false;
    for (size_t i = 0; i < view->run_count; i++) {
        mounted |= rg_row_is(view->runs[i]->row, "LL-MOUNT") &&
                   view->runs[i]->order_last > view->cause->order;
    }
    incident->self_healed = mounted;
    incident->nature = RG_NATURE_SERVER;
    set_scope(view, element ? RG_SCOPE_SERVER : RG_SCOPE_MGS, full_name(view, element));
    headline(view, mounted ? RG_PHRASE_HEAD_MOUNT_RACE : RG_PHRASE_HEAD_MOUNT_EARLY,
             name_of(view, observer), element ? full_name(view, element) : text_word(view, "MGS"),
             0);
    if (element && !host_of(view, element)->node) {
        say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG, full_name(view, element), 0, 0);
    } else if (!element) {
        say(view, &incident->decides, RG_PHRASE_DEC_MGS_REACH,
            text_word(view, "timeout 5 lctl ping NID"), text_word(view, "MGS"), 0);
    }
}

/* A read that met a lock, object or handle that was gone: the server answered -116. */
static bool is_stale_race(const struct rg_run *cause)
{
    return rg_row_is(cause->row, "PT-STATUS") && cause->rc == -116;
}

static bool all_were_evicted(const struct rg_run *run)
{
    return strcmp(run->row->id, "RC-OVER-EVICTED") == 0 && run->number_of >= 2 &&
           run->number >= run->number_of;
}

/* No client at all came back: nobody could reach the server, or all lost power with it. */
static void scope_nobody_back(struct view *view, const struct rg_run *over)
{
    struct rg_incident *incident = view->incident;
    set_scope(view, RG_SCOPE_FABRIC, 0);
    incident->nature = RG_NATURE_NETWORK;
    headline(view, RG_PHRASE_HEAD_NOBODY_BACK, over->target,
             number_word(view, (size_t)over->number_of), 0);
    say(view, &incident->evidence, RG_PHRASE_EV_STARTED, name_of(view, over->speaker),
        what_it_said(view, over), 0);
    say(view, &incident->decides, RG_PHRASE_DEC_ANY_CLIENT, over->target, 0, 0);
}

static bool has_row(struct view *view, const char *id)
{
    for (size_t i = 0; i < view->run_count; i++) {
        if (rg_row_is(view->runs[i]->row, id)) {
            return true;
        }
    }
    return false;
}

static void decide_scope(struct view *view)
{
    const struct rg_run *cause = view->cause;
    struct rg_incident *incident = view->incident;
    int rank = rank_of(view, cause);
    rg_word mgs_nid = 0;
    bool mount = false;
    const struct rg_run *lost = NULL;
    const struct rg_run *moved = find_move(view, &lost);
    const struct rg_run *nobody_back = NULL;
    for (size_t i = 0; i < view->run_count; i++) {
        nobody_back = all_were_evicted(view->runs[i]) ? view->runs[i] : nobody_back;
    }
    incident->nature = cause->trait.nature;
    bool own = rg_run_is_local(cause);
    if (cause->trait.flags & RG_TRAIT_STORAGE && rank < 60) {
        scope_storage(view);
    } else if (cause->trait.flags & RG_TRAIT_PLANNED && rank < 100) {
        scope_planned(view);
    } else if (cause->trait.flags & RG_TRAIT_SLOW) {
        scope_slow(view);
    } else if (cause->accused == RG_ACCUSED_CONFIG && rank < 70 &&
               cause->row->layer > RG_LAYER_ADDRESS && !(cause->trait.flags & RG_TRAIT_BOTH)) {
        scope_config(view);
    } else if (cause->trait.flags & RG_TRAIT_BOTH ||
               (own && rank < 100 && !(cause->trait.flags & RG_TRAIT_STARTED))) {
        scope_own_fault(view);
    } else if (nobody_back && !view->observers.count) {
        scope_nobody_back(view, nobody_back);
    } else if (is_stale_race(cause)) {
        incident->nature = RG_NATURE_SOFTWARE;
        set_scope(view, RG_SCOPE_SOFTWARE, cause->target);
        headline(view, RG_PHRASE_HEAD_STALE, cause->target, 0, 0);
        say(view, &incident->evidence, RG_PHRASE_EV_ANSWERED, cause->nid, 0, 0);
    } else if (moved) {
        incident->nature = RG_NATURE_SERVER;
        set_scope(view, RG_SCOPE_SERVER, lost->nid);
        headline(view, RG_PHRASE_HEAD_FAILOVER, lost->target, lost->nid,
                 moved->nid ? moved->nid : moved->nid_to);
        say(view, &incident->evidence, RG_PHRASE_EV_MOVED, lost->target, lost->nid,
            moved->nid ? moved->nid : moved->nid_to);
    } else if (cause->trait.flags & RG_TRAIT_STARTED && rank < 100) {
        scope_restart(view);
    } else if (only_mgs(view, &mgs_nid, &mount)) {
        scope_mgs(view, mgs_nid, mount);
    } else if (only_mounting(view)) {
        scope_mounting(view);
    } else if (cause->accused == RG_ACCUSED_CONFIG && !(cause->trait.flags & RG_TRAIT_MOUNT)) {
        scope_config(view);
    } else if (view->observers.count > 1 && scope_told_router(view)) {
        /* said */
    } else if ((view->observers.count > 1 ||
                (view->clients.count > 1 && view->accusers.count > 1 && !view->observers.count)) &&
               view->elements.count != 1 && scope_rack(view)) {
        /* said */
    } else if (view->clients.count && !view->observers.count) {
        scope_clients(view);
    } else if (view->observers.count == 1 && view->elements.count == 1) {
        scope_one_to_one(view);
    } else if (view->observers.count == 1) {
        scope_one_to_many(view);
    } else if (view->observers.count > 1 && view->elements.count == 1) {
        scope_many_to_one(view);
    } else if (view->observers.count > 1) {
        scope_many_to_many(view);
    } else if (is_mere_symptom(cause) && !(cause->trait.flags & RG_TRAIT_MOUNT)) {
        rg_host_id host = speaker_of(view, cause);
        if (has_row(view, "FRAME-RDMA") && !has_row(view, "FRAME-LUSTRE")) {
            incident->nature = RG_NATURE_HOST;
            set_scope(view, RG_SCOPE_NODE, name_of(view, host));
            headline(view, RG_PHRASE_HEAD_HUNG_RDMA, name_of(view, host), 0, 0);
            return;
        }
        set_scope(view, RG_SCOPE_UNKNOWN, 0);
        headline(view, RG_PHRASE_HEAD_SYMPTOM, name_of(view, host), 0, 0);
        if (incident->targets.count) {
            name_symptom(view, 0);
            say(view, &incident->decides, RG_PHRASE_DEC_SERVER_LOG,
                words_list(view, &incident->targets), 0, 0);
        }
        say(view, &incident->decides, RG_PHRASE_DEC_SERVERS_OF, name_of(view, host),
            text_word(view, "timeout 5 lctl get_param '*.*.import'"), 0);
    } else {
        rg_host_id host = speaker_of(view, cause);
        bool between = cause->accused == RG_ACCUSED_PATH || cause->accused == RG_ACCUSED_PEER;
        set_scope(view,
                  between                 ? RG_SCOPE_PAIR
                  : is_server(view, host) ? RG_SCOPE_SERVER
                                          : RG_SCOPE_NODE,
                  name_of(view, host));
        headline(view,
                 cause->trait.flags & RG_TRAIT_MOUNT ? RG_PHRASE_HEAD_MOUNT : RG_PHRASE_HEAD_OTHER,
                 cause->target ? cause->target : name_of(view, host), 0, 0);
    }
}

/* Nodes that were logging Lustre and have no part in it. */
static void say_who_is_fine(struct view *view)
{
    struct rg_correlation *correlation = view->correlation;
    struct hosts fine = {0};
    for (uint32_t i = 0; i < correlation->seen_count; i++) {
        const struct rg_node_seen *seen = &correlation->seen[i];
        rg_host_id host = host_of_seen(correlation, seen);
        bool part = host == 0 || has_host(&view->elements, host);
        for (size_t k = 0; k < view->run_count && !part; k++) {
            part = speaker_of(view, view->runs[k]) == host;
        }
        if (!part && seen->lustre) {
            add_host(&fine, host);
        }
    }
    if (fine.count) {
        say(view, &view->incident->healthy, RG_PHRASE_FINE_NODES, names_of(view, &fine), 0, 0);
        if (view->incident->scope == RG_SCOPE_FABRIC) {
            say(view, &view->incident->contrary, RG_PHRASE_CON_OTHERS_FINE, names_of(view, &fine),
                0, 0);
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
        say(view, &view->incident->healthy, RG_PHRASE_FINE_TARGETS, words_list(view, &targets), 0,
            0);
    }
    free(targets.items);
}

/* How requests ended, for those that have no better cause. */
static void say_endings(struct view *view)
{
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->rc == -19 && is_connect_status(view, view->runs[i])) {
            say(view, &view->incident->evidence, RG_PHRASE_EV_PARTNER, view->runs[i]->nid,
                view->runs[i]->target, 0);
        }
    }
    struct hosts failed = {0};
    struct hosts stayed = {0};
    struct hosts left = {0};
    bool first_ping = false;
    bool looked = false;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        rg_host_id self = speaker_of(view, run);
        add_host(&failed,
                 run->network_error ? rg_map_resolve(&view->correlation->map, run->element) : 0);
        add_host(&stayed, run->sent_delay ? self : 0);
        add_host(&left, run->slow_reply ? self : 0);
        if (run->opcode >= 0 && rg_run_is_active(run) && !looked) {
            first_ping = run->opcode == 400;
            looked = true;
        }
    }
    if (failed.count) {
        say(view, &view->incident->evidence, RG_PHRASE_EV_NETWORK_ERROR, names_of(view, &failed), 0,
            0);
    }
    if (stayed.count) {
        say(view, &view->incident->evidence, RG_PHRASE_EV_SENT_DELAY, names_of(view, &stayed), 0,
            0);
    }
    if (left.count) {
        say(view, &view->incident->evidence, RG_PHRASE_EV_SLOW_REPLY, names_of(view, &left), 0, 0);
    }
    if (first_ping) {
        say(view, &view->incident->evidence, RG_PHRASE_EV_IDLE_PING, 0, 0, 0);
    }
}

/* ---- Cause, consequences, users, data. ---- */

static void fill_cause(struct view *view, struct rg_cause *cause, const struct rg_run *run)
{
    *cause = (struct rg_cause){
        .row = run->row,
        .sentence = {.id = RG_PHRASE_PLAIN, .word = {what_it_said(view, run)}},
        .layer = run->row->layer,
        .count = run->count,
        .subject = run->device      ? run->device
                   : run->by_target ? run->target
                   : run->nid       ? run->nid
                                    : name_of(view, run->speaker),
    };
    for (size_t i = 0; i < run->quote_count; i++) {
        view->ok &= rg_words_add(&cause->quotes, run->quotes[i]);
    }
}

static int compare_causes(const void *a, const void *b, void *context)
{
    struct rg_run *const *x = a;
    struct rg_run *const *y = b;
    int rank_x = rank_of(context, *x);
    int rank_y = rank_of(context, *y);
    if (rank_x != rank_y) {
        return rank_x < rank_y ? -1 : 1;
    }
    if ((*x)->clock == (*y)->clock && (*x)->start != (*y)->start) {
        return (*x)->start < (*y)->start ? -1 : 1;
    }
    return (*x)->order < (*y)->order ? -1 : (*x)->order > (*y)->order;
}

static void fill_causes(struct view *view)
{
    struct rg_incident *incident = view->incident;
    fill_cause(view, &incident->cause, view->cause);
    incident->others = calloc(4, sizeof(*incident->others));
    incident->consequences = calloc(view->run_count + 1, sizeof(*incident->consequences));
    if (!incident->others || !incident->consequences) {
        view->ok = false;
        return;
    }
    qsort_r(view->runs, view->run_count, sizeof(struct rg_run *), compare_causes, view);
    const struct rg_catalogue_row *given[4] = {view->cause->row};
    bool known = rank_of(view, view->cause) < 62;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run == view->cause) {
            continue;
        } /* Where the cause is known, what came after it on the same node is its consequence. */
        bool candidate =
            rank_of(view, run) < 100 && !is_mere_symptom(run) && incident->other_count < 3 &&
            (!known ||
             (run->node != view->cause->node && rg_run_is_local(run) && rank_of(view, run) < 62));
        for (size_t k = 0; k <= incident->other_count && candidate; k++) {
            candidate = given[k] != run->row;
        }
        if (candidate) {
            fill_cause(view, &incident->others[incident->other_count++], run);
            given[incident->other_count] = run->row;
        } else if (incident->consequence_count < 400 && run->row != view->cause->row) {
            incident->consequences[incident->consequence_count++] =
                (struct rg_part){(size_t)(run - view->correlation->runs), run->count};
        }
    }
}

static void say_users(struct view *view)
{
    struct rg_incident *incident = view->incident;
    bool any = false;
    for (size_t i = 0; i < incident->targets.count; i++) {
        rg_word target = incident->targets.items[i];
        const char *text = rg_pool_text(&view->correlation->pool, target);
        int index = rg_target_index(rg_span_text(text));
        rg_word both = index >= 0
                           ? rg_pool_addf(&view->correlation->pool, "%s (index %d)", text, index)
                           : target;
        enum rg_target_kind kind = kind_of(view, target);
        enum rg_phrase_id phrase = kind == RG_TARGET_MDT   ? RG_PHRASE_USERS_MDT
                                   : kind == RG_TARGET_OST ? RG_PHRASE_USERS_OST
                                   : kind == RG_TARGET_MGS ? RG_PHRASE_USERS_MGS
                                                           : RG_PHRASE_NONE;
        if (phrase != RG_PHRASE_NONE) {
            say(view, &incident->users, phrase, both, 0, 0);
            any = true;
        }
    }
    for (size_t i = 0; i < view->run_count; i++) {
        if (rg_row_is(view->runs[i]->row, "K-HUNG")) {
            say(view, &incident->users, RG_PHRASE_USERS_HUNG, name_of(view, view->runs[i]->speaker),
                0, 0);
            any = true;
        }
    }
    if (!any && incident->scope == RG_SCOPE_MGS) {
        say(view, &incident->users, RG_PHRASE_USERS_MGS, 0, 0, 0);
    } else if (!any) {
        say(view, &incident->users,
            incident->urgency == RG_URGENCY_NOTE ? RG_PHRASE_USERS_NONE : RG_PHRASE_USERS_NODE,
            name_of(view, view->cause->speaker), 0, 0);
    }
}

static void judge_data(struct view *view)
{
    struct rg_incident *incident = view->incident;
    struct rg_words evicters = {0};
    struct rg_words waiting = {0};
    struct rg_words waited = {0};
    size_t gone = 0;
    int64_t longest = 0;
    incident->data = RG_DATA_UNTOUCHED;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        bool mgs = run->target && kind_of(view, run->target) == RG_TARGET_MGS;
        if (mgs) {
            continue;
        }
        if (rg_row_is(run->row, "LL-DISCARD")) {
            incident->data = RG_DATA_LOST;
            say(view, &incident->data_reasons, RG_PHRASE_DATA_DISCARDED,
                name_of(view, run->speaker), 0, 0);
        } else if (rg_row_is(run->row, "IM-EVICTED")) {
            view->ok &= rg_words_add(&evicters, run->target ? run->target : run->nid);
        } else if (rg_run_accuses_client(run) && run->trait.flags & RG_TRAIT_LOSS) {
            gone++;
        } else if (strcmp(run->row->id, "RC-OVER-EVICTED") == 0) {
            incident->data = RG_DATA_LOST;
            say(view, &incident->data_reasons, RG_PHRASE_DATA_RECOVERED, run->target,
                number_word(view, (size_t)RG_MAX(run->number, INT64_C(0))),
                number_word(view, (size_t)RG_MAX(run->number_of, INT64_C(0))));
        } else if (run->trait.flags & RG_TRAIT_STORAGE && run->trait.flags & RG_TRAIT_LOSS) {
            incident->data = RG_DATA_LOST;
            say(view, &incident->data_reasons, RG_PHRASE_DATA_STORAGE,
                target_of_cause(view) ? target_of_cause(view) : run->device, 0, 0);
        } else if (run->trait.flags & RG_TRAIT_PLANNED && run->trait.flags & RG_TRAIT_LOSS) {
            incident->data = RG_DATA_LOST;
            say(view, &incident->data_reasons, RG_PHRASE_DATA_EVICTED,
                run->target ? run->target : name_of(view, run->speaker), 0, 0);
        }
        if (run->effect == RG_EFFECT_LOST) {
            view->ok &=
                rg_words_add(run->ended ? &waited : &waiting, run->target ? run->target : run->nid);
            longest = RG_MAX(longest, run->end - run->start);
        }
    }
    if (evicters.count) {
        incident->data = RG_DATA_LOST;
        say(view, &incident->data_reasons, RG_PHRASE_DATA_EVICTED, words_list(view, &evicters), 0,
            0);
    }
    if (gone) {
        incident->data = RG_DATA_LOST;
        say(view, &incident->data_reasons, RG_PHRASE_DATA_EVICTED_BY_SERVER,
            number_word(view, RG_MAX(view->clients.count, (size_t)1)), 0, 0);
    }
    if (waiting.count) {
        incident->open = true;
        if (incident->data != RG_DATA_LOST) {
            incident->data = RG_DATA_UNKNOWN;
        }
        say(view, &incident->data_reasons, RG_PHRASE_DATA_WAITING, words_list(view, &waiting), 0,
            0);
    }
    if (waited.count) {
        if (incident->data == RG_DATA_UNTOUCHED) {
            incident->data = RG_DATA_DELAYED;
        }
        if (incident->data == RG_DATA_DELAYED) {
            incident->self_healed = true;
            say(view, &incident->data_reasons, RG_PHRASE_DATA_WAITED, words_list(view, &waited),
                rg_duration_word(view->correlation, longest), 0);
        }
    }
    free(evicters.items);
    free(waiting.items);
    free(waited.items);
}

/* Requests that only timed out, or were sent again, delayed somebody too. */
static void judge_delay(struct view *view)
{
    struct rg_incident *incident = view->incident;
    if (incident->data != RG_DATA_UNTOUCHED) {
        return;
    }
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (rg_row_is(run->row, "CK-WRITE") || rg_row_is(run->row, "CK-READ") ||
            rg_row_is(run->row, "BK-RETRY") || strstr(run->row->id, "REDO")) {
            incident->data = RG_DATA_DELAYED;
            say(view, &incident->data_reasons, RG_PHRASE_DATA_RETRIED, 0, 0, 0);
            return;
        }
        bool mgs = run->target && kind_of(view, run->target) == RG_TARGET_MGS;
        if (rg_run_is_active(run) && run->trait.flags & RG_TRAIT_SILENT && run->target && !mgs) {
            incident->data = RG_DATA_UNKNOWN;
            incident->open = true;
            say(view, &incident->data_reasons, RG_PHRASE_DATA_WAITING, run->target, 0, 0);
            return;
        }
    }
    say(view, &incident->data_reasons, RG_PHRASE_DATA_QUIET, 0, 0, 0);
}

static void judge_urgency(struct view *view)
{
    struct rg_incident *incident = view->incident;
    if (incident->planned) {
        incident->urgency = incident->data == RG_DATA_LOST ? RG_URGENCY_LOW : RG_URGENCY_NOTE;
    } else if (incident->scope == RG_SCOPE_MGS || incident->self_healed ||
               incident->headline.id == RG_PHRASE_HEAD_MOUNT_EARLY ||
               incident->headline.id == RG_PHRASE_HEAD_RECONNECTED) {
        incident->urgency = RG_URGENCY_LOW;
    } else if (incident->data == RG_DATA_LOST || incident->scope == RG_SCOPE_FABRIC ||
               incident->scope == RG_SCOPE_RACK ||
               view->cause->row->severity == RG_SEVERITY_CRITICAL) {
        incident->urgency = RG_URGENCY_CRITICAL;
    } else {
        incident->urgency = RG_URGENCY_HIGH;
    }
}

static void judge_confidence(struct view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_run *cause = view->cause;
    int points = 1;
    int rank = rank_of(view, cause);
    bool own = rank < 60 && !(cause->trait.flags & (RG_TRAIT_PLANNED | RG_TRAIT_STARTED));
    bool both = (view->observers.count && view->accusers.count) ||
                (view->observers.count && view->elements.count &&
                 host_of(view, view->elements.items[0])->node);
    if (own) {
        points += 2;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_OWN_LAYER,
            name_of(view, cause->speaker), 0, 0);
    } else if (rank < 60 && cause->trait.flags & RG_TRAIT_PLANNED) {
        points += 2;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_ORDER, 0, 0, 0);
    } else if (rank < 80) {
        points += 1;
    } else if (is_mere_symptom(cause)) {
        points -= 1;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_NO_CAUSE, 0, 0, 0);
    }
    if (both) {
        points += 1;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_BOTH_SIDES, 0, 0, 0);
    } else if (!own) {
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_ONE_SIDE, 0, 0, 0);
    }
    if (view->observers.count >= 3) {
        points += 2;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_MANY,
            number_word(view, view->observers.count), 0, 0);
    }
    if (view->cross_clock) {
        points -= own ? 0 : 1;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_CLOCKS, 0, 0, 0);
        say(view, &incident->contrary, RG_PHRASE_CON_CLOCKS, 0, 0, 0);
    } else if (incident->contrary.count) {
        points -= 1;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_CONTRARY, 0, 0, 0);
    }
    if (view->correlation->hole_notes.count) {
        points -= own ? 0 : 1;
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_HOLES, 0, 0, 0);
    }
    incident->confidence = points >= 3   ? RG_CONFIDENCE_HIGH
                           : points == 2 ? RG_CONFIDENCE_MEDIUM
                                         : RG_CONFIDENCE_LOW;
    if (incident->scope == RG_SCOPE_UNKNOWN) {
        incident->confidence = RG_CONFIDENCE_LOW;
    }
    if (incident->scope == RG_SCOPE_NODE || incident->scope == RG_SCOPE_PAIR) {
        say(view, &incident->confidence_reasons, RG_PHRASE_CONF_MIND_OTHERS, 0, 0, 0);
    }
}

/* ---- What next. ---- */

/* A name that may stand in a shell command; anything else stays for a person to fill in. */
static const char *safe(struct view *view, rg_word word, const char *placeholder)
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

static rg_word ping_command(struct view *view, rg_host_id host, rg_word nid)
{
    const struct rg_map_host *entry = host_of(view, host);
    rg_word to = nid ? nid : entry->nid_count ? entry->nids[0] : 0;
    return rg_pool_addf(&view->correlation->pool, "timeout 5 lctl ping %s", safe(view, to, "NID"));
}

static void advise(struct view *view, rg_word command, struct rg_phrase where,
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

static struct rg_phrase on_host(struct view *view, rg_host_id host)
{
    return (struct rg_phrase){.id = RG_PHRASE_ON_NODE, .word = {full_name(view, host)}};
}

static struct span span_of(struct view *view, rg_word word)
{
    return rg_span_text(rg_pool_text(&view->correlation->pool, word));
}

static void advise_row(struct view *view)
{
    const struct rg_run *cause = view->cause;
    struct rg_record record = {.node = cause->node};
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
                .word = {cause->target ? cause->target : full_name(view, cause->element)}};
        } else if (next->where == RG_WHERE_MGS) {
            where = (struct rg_phrase){.id = RG_PHRASE_ON_MGS};
        }
        advise(view, rg_pool_add(&view->correlation->pool, rg_buf_span(&command)), where,
               RG_PHRASE_WHY_ROW);
    }
}

static bool rdma_involved(struct view *view)
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

static void advise_node(struct view *view, rg_host_id host)
{
    advise(view, text_word(view, "timeout 5 ibstat"), on_host(view, host), RG_PHRASE_WHY_PORT);
    advise(view, text_word(view, "timeout 5 ibdev2netdev"), on_host(view, host),
           RG_PHRASE_WHY_NETDEV);
    advise(view, text_word(view, "timeout 5 dmesg -T | grep -iE 'mlx5|irdma|bnxt|efa|link'"),
           on_host(view, host), RG_PHRASE_WHY_DRIVER);
    advise(view, text_word(view, "timeout 5 lnetctl net show -v 4"), on_host(view, host),
           RG_PHRASE_WHY_NI);
}

static void advise_target(struct view *view, rg_word target, rg_host_id server)
{
    struct rg_phrase where = server && host_of(view, server)->node
                                 ? on_host(view, server)
                                 : (struct rg_phrase){.id = RG_PHRASE_ON_SERVER, .word = {target}};
    advise(view,
           rg_pool_addf(&view->correlation->pool, "timeout 5 lctl get_param '*.%s.recovery_status'",
                        safe(view, target, "TARGET")),
           where, RG_PHRASE_WHY_RECOVERY);
    advise(view, text_word(view, "timeout 5 lctl dl"), where, RG_PHRASE_WHY_DEVICES);
    advise(view,
           rg_pool_addf(&view->correlation->pool, "timeout 5 lctl get_param '*.%s-*.import'",
                        safe(view, target, "TARGET")),
           (struct rg_phrase){.id = RG_PHRASE_ON_CLIENT}, RG_PHRASE_WHY_IMPORT);
}

static void advise_next(struct view *view)
{
    struct rg_incident *incident = view->incident;
    rg_host_id speaker = speaker_of(view, view->cause);
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
        advise(view, text_word(view, "timeout 5 sminfo"),
               (struct rg_phrase){.id = RG_PHRASE_ON_FABRIC}, RG_PHRASE_WHY_FABRIC);
        advise(view, text_word(view, "timeout 60 ibqueryerrors"),
               (struct rg_phrase){.id = RG_PHRASE_ON_FABRIC}, RG_PHRASE_WHY_FABRIC);
    }
    if (!software && !incident->planned) {
        for (size_t i = 0; i < RG_MIN(view->elements.count, (size_t)3); i++) {
            advise(view, ping_command(view, view->elements.items[i], 0), on_host(view, observer),
                   RG_PHRASE_WHY_PING);
        }
        for (size_t i = 0; i < RG_MIN(view->clients.count, (size_t)3); i++) {
            if (host_of(view, view->clients.items[i])->nid_count) {
                advise(view, ping_command(view, view->clients.items[i], 0),
                       on_host(view, view->accusers.items[0]), RG_PHRASE_WHY_PING);
            }
        }
    }
    for (size_t i = 0, given = 0; i < incident->targets.count && given < 2; i++) {
        rg_word target = incident->targets.items[i];
        if (kind_of(view, target) == RG_TARGET_MDT || kind_of(view, target) == RG_TARGET_OST) {
            advise_target(view, target, rg_map_host_of_target(&view->correlation->map, target));
            given++;
        }
    }
    if (network && !software && !incident->planned && rdma_involved(view)) {
        advise(view, text_word(view, "timeout 30 lctl dk /tmp/dk.$(hostname)"),
               on_host(view, observer), RG_PHRASE_WHY_DK);
    }
}

static void advise_against(struct view *view)
{
    struct rg_incident *incident = view->incident;
    bool shared = incident->scope == RG_SCOPE_FABRIC || incident->scope == RG_SCOPE_SERVER ||
                  incident->scope == RG_SCOPE_TARGET || incident->scope == RG_SCOPE_MGS ||
                  incident->scope == RG_SCOPE_ROUTER || incident->scope == RG_SCOPE_RACK;
    bool software = incident->nature == RG_NATURE_SOFTWARE || incident->scope == RG_SCOPE_SOFTWARE;
    if (shared && (view->observers.count > 0 || view->clients.count > 0)) {
        say(view, &incident->avoid, RG_PHRASE_AVOID_REBOOT_CLIENTS, 0, 0, 0);
    }
    if (incident->scope == RG_SCOPE_UNKNOWN || incident->scope == RG_SCOPE_PAIR ||
        (incident->scope == RG_SCOPE_NODE && incident->nature == RG_NATURE_NETWORK)) {
        say(view, &incident->avoid, RG_PHRASE_AVOID_REBOOT_ONE,
            text_word(view, "lctl dk /tmp/dk.$(hostname)"), 0, 0);
    }
    if (software || incident->nature == RG_NATURE_CONFIG) {
        say(view, &incident->avoid, RG_PHRASE_AVOID_CABLE, 0, 0, 0);
    }
    if (view->cause->trait.flags & RG_TRAIT_STORAGE) {
        say(view, &incident->avoid, RG_PHRASE_AVOID_FSCK, 0, 0, 0);
    }
    for (size_t i = 0; i < view->run_count; i++) {
        if (view->runs[i]->trait.flags & RG_TRAIT_STARTED &&
            view->runs[i]->row->layer == RG_LAYER_RECOVERY) {
            say(view, &incident->avoid, RG_PHRASE_AVOID_ABORT_RECOVERY, 0, 0, 0);
            break;
        }
    }
    if (incident->open) {
        say(view, &incident->avoid, RG_PHRASE_AVOID_UNBOUNDED, 0, 0, 0);
    }
}

bool rg_verdict(struct rg_correlation *correlation, int number, struct rg_incident *ret_incident)
{
    struct view view = {
        .correlation = correlation,
        .incident = ret_incident,
        .number = number,
        .ok = true,
    };
    *ret_incident = (struct rg_incident){.duration_usec = -1};
    rg_autofree struct rg_run **runs = calloc(correlation->run_count + 1, sizeof(*runs));
    if (!runs) {
        return false;
    }
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        if (correlation->runs[i].incident == number) {
            runs[view.run_count++] = &correlation->runs[i];
        }
    }
    RG_ASSERT(view.run_count > 0);
    view.runs = runs;
    look(&view);
    choose_cause(&view);
    list_affected(&view);
    decide_scope(&view);
    say_endings(&view);
    judge_data(&view);
    judge_delay(&view);
    judge_urgency(&view);
    fill_causes(&view);
    say_users(&view);
    say_who_is_fine(&view);
    judge_confidence(&view);
    advise_next(&view);
    advise_against(&view);
    return view.ok;
}
