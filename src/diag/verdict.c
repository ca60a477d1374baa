/*
 * One incident: its cause, its scope with the evidence for and against, what it did to users and
 * data, and what to do next (diagnosis.md 3.2 to 3.6).
 *
 * A verdict is earned: where the logs do not decide, it says so and names what would.
 */
#include "base/assert.h"
#include "base/checked.h"
#include "diag/advise.h"
#include "diag/lustre.h"
#include "diag/scope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Cause, consequences, users, data. ---- */
static void fill_cause(struct rg_view *view, struct rg_cause *cause, const struct rg_run *run)
{
    *cause = (struct rg_cause){
        .row = run->row,
        .sentence = {.id = RG_PHRASE_PLAIN, .word = {rg_view_what_it_said(view, run)}},
        .layer = run->row->layer,
        .count = run->count,
        .subject = run->device      ? run->device
                   : run->by_target ? run->target
                   : run->nid       ? run->nid
                                    : rg_view_name(view, run->speaker),
    };
    for (size_t i = 0; i < run->quote_count; i++) {
        view->ok &= rg_words_add(&cause->quotes, run->quotes[i]);
    }
}

static int compare_causes(const void *a, const void *b, void *context)
{
    struct rg_run *const *x = a;
    struct rg_run *const *y = b;
    int rank_x = rg_view_rank(context, *x);
    int rank_y = rg_view_rank(context, *y);
    if (rank_x != rank_y) {
        return rank_x < rank_y ? -1 : 1;
    }
    if ((*x)->clock == (*y)->clock && (*x)->start != (*y)->start) {
        return (*x)->start < (*y)->start ? -1 : 1;
    }
    return (*x)->order < (*y)->order ? -1 : (*x)->order > (*y)->order;
}

static void fill_causes(struct rg_view *view)
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
    bool known = rg_view_rank(view, view->cause) < 62;
    struct rg_words devices = {0};
    if (view->cause->device) {
        view->ok &= rg_words_add(&devices, view->cause->device);
    }
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (run == view->cause) {
            continue;
        }
        /* Where the cause is known, what came after it on the same node is its consequence. */
        bool candidate = rg_view_rank(view, run) < 100 && !rg_run_is_mere_symptom(run) &&
                         incident->other_count < 3 &&
                         (!known || (run->node != view->cause->node && rg_run_is_local(run) &&
                                     rg_view_rank(view, run) < 62));
        for (size_t k = 0; k <= incident->other_count && candidate; k++) {
            candidate = given[k] != run->row;
        }
        if (candidate) {
            fill_cause(view, &incident->others[incident->other_count++], run);
            given[incident->other_count] = run->row;
        } else if (run->row == view->cause->row && run->accused == view->cause->accused) {
            incident->cause.count += run->count; /* of other nodes or devices */
            if (run->device && run->node == view->cause->node) {
                view->ok &= rg_words_add(&devices, run->device);
            }
        } else if (incident->consequence_count < 400) {
            incident->consequences[incident->consequence_count++] =
                (struct rg_part){(size_t)(run - view->correlation->runs), run->count};
        }
    }
    if (devices.count > 1) {
        incident->cause.subject = rg_view_list(view, &devices);
    }
    free(devices.items);
}

static void say_users(struct rg_view *view)
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
        enum rg_target_kind kind = rg_view_target_kind(view, target);
        enum rg_phrase_id phrase = kind == RG_TARGET_MDT   ? RG_PHRASE_USERS_MDT
                                   : kind == RG_TARGET_OST ? RG_PHRASE_USERS_OST
                                   : kind == RG_TARGET_MGS ? RG_PHRASE_USERS_MGS
                                                           : RG_PHRASE_NONE;
        if (phrase != RG_PHRASE_NONE) {
            rg_view_say(view, &incident->users, phrase, both, 0, 0);
            any = true;
        }
    }
    for (size_t i = 0; i < view->run_count; i++) {
        if (rg_row_is(view->runs[i]->row, "K-HUNG")) {
            rg_view_say(view, &incident->users, RG_PHRASE_USERS_HUNG,
                        rg_view_name(view, view->runs[i]->speaker), 0, 0);
            any = true;
        }
    }
    if (!any && incident->scope == RG_SCOPE_MGS) {
        rg_view_say(view, &incident->users, RG_PHRASE_USERS_MGS, 0, 0, 0);
    } else if (!any) {
        rg_view_say(view, &incident->users,
                    incident->urgency == RG_URGENCY_NOTE ||
                            incident->headline.id == RG_PHRASE_HEAD_CORRECTED_FLOOD
                        ? RG_PHRASE_USERS_NONE
                        : RG_PHRASE_USERS_NODE,
                    rg_view_name(view, view->cause->speaker), 0, 0);
    }
}

static void judge_data(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    struct rg_words evicters = {0};
    struct rg_words waiting = {0};
    struct rg_words waited = {0};
    size_t gone = 0;
    int64_t longest = 0;
    uint32_t times = 0;
    incident->data = RG_DATA_UNTOUCHED;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        bool mgs = run->target && rg_view_target_kind(view, run->target) == RG_TARGET_MGS;
        if (mgs) {
            continue;
        }
        if (rg_row_is(run->row, "LL-DISCARD")) {
            incident->data = RG_DATA_LOST;
            rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_DISCARDED,
                        rg_view_name(view, run->speaker), 0, 0);
        } else if (rg_row_is(run->row, "IM-EVICTED")) {
            view->ok &= rg_words_add(&evicters, run->target ? run->target : run->nid);
        } else if (rg_run_accuses_client(run) && run->trait.flags & RG_TRAIT_LOSS) {
            gone++;
        } else if (strcmp(run->row->id, "RC-OVER-EVICTED") == 0) {
            incident->data = RG_DATA_LOST;
            rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_RECOVERED, run->target,
                        rg_view_number(view, (size_t)RG_MAX(run->number, INT64_C(0))),
                        rg_view_number(view, (size_t)RG_MAX(run->number_of, INT64_C(0))));
        } else if (run->trait.flags & RG_TRAIT_STORAGE && run->trait.flags & RG_TRAIT_LOSS) {
            incident->data = RG_DATA_LOST;
            rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_STORAGE,
                        rg_view_target_of_cause(view) ? rg_view_target_of_cause(view) : run->device,
                        0, 0);
        } else if (run->trait.flags & RG_TRAIT_PLANNED && run->trait.flags & RG_TRAIT_LOSS) {
            incident->data = RG_DATA_LOST;
            rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_EVICTED,
                        run->target ? run->target : rg_view_name(view, run->speaker), 0, 0);
        }
        if (run->effect == RG_EFFECT_LOST) {
            view->ok &=
                rg_words_add(run->ended ? &waited : &waiting, run->target ? run->target : run->nid);
            bool each = run->outages > 1; /* else the run is one loss */
            times = RG_MAX(times, run->outages);
            longest = RG_MAX(longest, each ? run->outage_usec_max : run->end - run->start);
        }
    }
    if (evicters.count) {
        incident->data = RG_DATA_LOST;
        rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_EVICTED,
                    rg_view_list(view, &evicters), 0, 0);
    }
    if (gone) {
        incident->data = RG_DATA_LOST;
        rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_EVICTED_BY_SERVER,
                    rg_view_number(view, RG_MAX(view->clients.count, (size_t)1)), 0, 0);
    }
    if (waiting.count) {
        incident->open = true;
        if (incident->data != RG_DATA_LOST) {
            incident->data = RG_DATA_UNKNOWN;
        }
        rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_WAITING,
                    rg_view_list(view, &waiting), 0, 0);
    }
    if (waited.count) {
        if (incident->data == RG_DATA_UNTOUCHED) {
            incident->data = RG_DATA_DELAYED;
        }
        if (incident->data == RG_DATA_DELAYED) {
            incident->self_healed = true;
            rg_view_say(view, &incident->data_reasons,
                        times > 1 ? RG_PHRASE_DATA_WAITED_TIMES : RG_PHRASE_DATA_WAITED,
                        rg_view_list(view, &waited),
                        rg_duration_word(view->correlation,
                                         times > 1 ? rg_whole_seconds(longest) : longest),
                        rg_view_number(view, times));
        }
    }
    free(evicters.items);
    free(waiting.items);
    free(waited.items);
}

/* After the latest of these answers the client said that it sends the data again. */
static bool was_sent_again(const struct rg_view *view, const struct rg_run *write)
{
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        bool same = write->target ? run->target == write->target : run->nid == write->nid;
        if (same && run->node == write->node && run->rc == write->rc &&
            run->order_last > write->order_last && rg_row_is(run->row, "PT-REDO")) {
            return true;
        }
    }
    return false;
}

/* The server's answer that says so; NULL when there is none, or the logs say that it was mended. */
static const struct rg_run *find_failed_write(const struct rg_view *view)
{
    bool told = view->incident->data != RG_DATA_UNTOUCHED;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (!run->write_failed) {
            continue;
        }
        /* Those belong to the connection: once it is back, Lustre sends the request again. */
        bool reconnects = run->rc == -ENOTCONN || run->rc == -ENODEV;
        if (!(reconnects && told) && !was_sent_again(view, run)) {
            return run;
        }
    }
    return NULL;
}

/* Requests that only timed out, or were sent again, delayed somebody too. */
static void judge_delay(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    for (size_t i = 0; i < view->run_count; i++) {
        const struct rg_run *run = view->runs[i];
        if (rg_row_is(run->row, "CK-WRITE") || rg_row_is(run->row, "CK-READ") ||
            rg_row_is(run->row, "BK-RETRY") || strstr(run->row->id, "REDO")) {
            incident->data = RG_DATA_DELAYED;
            rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_RETRIED, 0, 0, 0);
            return;
        }
        bool mgs = run->target && rg_view_target_kind(view, run->target) == RG_TARGET_MGS;
        if (rg_run_is_active(run) && run->trait.flags & RG_TRAIT_SILENT && run->target && !mgs) {
            incident->data = RG_DATA_UNKNOWN;
            incident->open = true;
            rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_WAITING, run->target, 0, 0);
            return;
        }
    }
}

/* What neither lost a connection nor waited may have come to harm all the same; and a write that
 * the server refused may be given up though others waited and went on. */
static void judge_writes(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    if (incident->data == RG_DATA_LOST) {
        return;
    }
    if (incident->data == RG_DATA_UNTOUCHED) {
        judge_delay(view);
    }
    const struct rg_run *write = find_failed_write(view);
    if (write) {
        incident->data = RG_DATA_UNKNOWN;
        incident->self_healed = false;
        rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_WRITE_FAILED,
                    write->target ? write->target : write->nid, 0, 0);
    }
    if (incident->data != RG_DATA_UNTOUCHED) {
        return;
    }
    const struct rg_run *cause = view->cause;
    if (cause && cause->trait.flags & RG_TRAIT_STORAGE && cause->row->layer == RG_LAYER_BACKEND &&
        !rg_row_is(cause->row, "BE-ENOSPC")) {
        incident->data = RG_DATA_UNKNOWN;
        rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_BENEATH, incident->element, 0, 0);
        return;
    }
    rg_view_say(view, &incident->data_reasons, RG_PHRASE_DATA_QUIET, 0, 0, 0);
}

static void judge_urgency(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    if (incident->planned) {
        incident->urgency = incident->data == RG_DATA_LOST ? RG_URGENCY_LOW : RG_URGENCY_NOTE;
    } else if (incident->scope == RG_SCOPE_MGS || incident->self_healed ||
               incident->headline.id == RG_PHRASE_HEAD_MOUNT_EARLY ||
               incident->headline.id == RG_PHRASE_HEAD_RECONNECTED ||
               incident->headline.id == RG_PHRASE_HEAD_CORRECTED_FLOOD) {
        incident->urgency = RG_URGENCY_LOW;
    } else if (incident->data == RG_DATA_LOST || incident->scope == RG_SCOPE_FABRIC ||
               incident->scope == RG_SCOPE_RACK ||
               view->cause->row->severity == RG_SEVERITY_CRITICAL) {
        incident->urgency = RG_URGENCY_CRITICAL;
    } else {
        incident->urgency = RG_URGENCY_HIGH;
    }
}

static void judge_confidence(struct rg_view *view)
{
    struct rg_incident *incident = view->incident;
    const struct rg_run *cause = view->cause;
    int points = 1;
    int rank = rg_view_rank(view, cause);
    bool own = rank < 60 && !(cause->trait.flags & (RG_TRAIT_PLANNED | RG_TRAIT_STARTED));
    bool both = (view->observers.count && view->accusers.count) ||
                (view->observers.count && view->elements.count &&
                 rg_view_host(view, view->elements.items[0])->node);
    if (own) {
        points += 2;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_OWN_LAYER,
                    rg_view_name(view, cause->speaker), 0, 0);
    } else if (rank < 60 && cause->trait.flags & RG_TRAIT_PLANNED) {
        points += 2;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_ORDER, 0, 0, 0);
    } else if (rank < 80) {
        points += 1;
    } else if (rg_run_is_mere_symptom(cause)) {
        points -= 1;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_NO_CAUSE, 0, 0, 0);
    }
    if (both) {
        points += 1;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_BOTH_SIDES, 0, 0, 0);
    } else if (!own) {
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_ONE_SIDE, 0, 0, 0);
    }
    if (view->observers.count >= 3) {
        points += 2;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_MANY,
                    rg_view_number(view, view->observers.count), 0, 0);
    }
    if (view->cross_clock) {
        points -= own ? 0 : 1;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_CLOCKS, 0, 0, 0);
        rg_view_say(view, &incident->contrary, RG_PHRASE_CON_CLOCKS, 0, 0, 0);
    } else if (incident->contrary.count) {
        points -= 1;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_CONTRARY, 0, 0, 0);
    }
    if (view->correlation->hole_notes.count) {
        points -= own ? 0 : 1;
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_HOLES, 0, 0, 0);
    }
    incident->confidence = points >= 3   ? RG_CONFIDENCE_HIGH
                           : points == 2 ? RG_CONFIDENCE_MEDIUM
                                         : RG_CONFIDENCE_LOW;
    if (incident->scope == RG_SCOPE_UNKNOWN) {
        incident->confidence = RG_CONFIDENCE_LOW;
    }
    if (incident->scope == RG_SCOPE_NODE || incident->scope == RG_SCOPE_PAIR) {
        rg_view_say(view, &incident->confidence_reasons, RG_PHRASE_CONF_MIND_OTHERS, 0, 0, 0);
    }
}

bool rg_verdict(struct rg_correlation *correlation, int number, struct rg_incident *ret_incident)
{
    struct rg_view view = {
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
    rg_view_look(&view);
    rg_view_choose_cause(&view);
    rg_view_list_affected(&view);
    rg_scope_decide(&view);
    rg_scope_say_endings(&view);
    rg_scope_say_patterns(&view);
    judge_data(&view);
    judge_writes(&view);
    judge_urgency(&view);
    fill_causes(&view);
    say_users(&view);
    rg_scope_say_states(&view);
    rg_scope_say_who_is_fine(&view);
    judge_confidence(&view);
    rg_advise_next(&view);
    rg_advise_against(&view);
    return view.ok;
}
