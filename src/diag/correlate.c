/*
 * Gathering events into runs while the input streams by, and the diagnosis as a whole at the end.
 */
#include "diag/correlation.h"

#include "base/assert.h"
#include "base/checked.h"
#include "diag/lustre.h"
#include "diag/recurrence.h"

#include <inttypes.h>
#include <stdlib.h>

#define RUN_SLOTS 32768U /* a power of two, above twice RG_RUNS_MAX */

/* The same message about the same subject after this much quiet time is another run. */
#define RUN_QUIET_USEC (INT64_C(1800) * 1000000)

int rg_correlation_open(const struct rg_correlation_options *options,
                        const struct rg_correlation_sources *sources,
                        struct rg_correlation **ret_correlation, struct rg_error *err)
{
    struct rg_correlation *made = calloc(1, sizeof(*made));
    if (!made) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    made->options = options ? *options : (struct rg_correlation_options){0};
    made->options.window_sec = made->options.window_sec ? made->options.window_sec : 300;
    made->options.cause_late_sec = made->options.cause_late_sec ? made->options.cause_late_sec : 20;
    made->options.cause_early_sec =
        made->options.cause_early_sec ? made->options.cause_early_sec : 900;
    made->sources = *sources;
    made->runs = calloc(RG_RUNS_MAX, sizeof(*made->runs));
    made->states = calloc(RG_STATES_MAX, sizeof(*made->states));
    made->slots = calloc(RUN_SLOTS, sizeof(*made->slots));
    made->open_losses = calloc(RG_OPEN_LOSSES, sizeof(*made->open_losses));
    made->seen = calloc(RG_NODES_SEEN, sizeof(*made->seen));
    made->seen_of_node = calloc(RG_MAP_HOSTS_MAX, sizeof(*made->seen_of_node));
    if (!made->runs || !made->states || !made->slots || !made->open_losses || !made->seen ||
        !made->seen_of_node || !rg_pool_init(&made->pool) ||
        !rg_map_init(&made->map, &made->pool)) {
        rg_correlation_close(made);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *ret_correlation = made;
    return 0;
}

void rg_correlation_close(struct rg_correlation *correlation)
{
    if (!correlation) {
        return;
    }
    rg_map_free(&correlation->map);
    rg_pool_free(&correlation->pool);
    free(correlation->runs);
    free(correlation->slots);
    free(correlation->seen);
    free(correlation->open_losses);
    free(correlation->seen_of_node);
    free(correlation->told);
    free(correlation->states);
    free(correlation);
}

static struct rg_node_seen *seen_of(struct rg_correlation *correlation, rg_node_id node)
{
    if (node >= RG_MAP_HOSTS_MAX) {
        return NULL;
    }
    if (correlation->seen_of_node[node]) {
        return &correlation->seen[correlation->seen_of_node[node] - 1];
    }
    if (correlation->seen_count == RG_NODES_SEEN) {
        return NULL;
    }
    struct rg_node_seen *seen = &correlation->seen[correlation->seen_count++];
    *seen = (struct rg_node_seen){.node = node};
    correlation->seen_of_node[node] = correlation->seen_count;
    return seen;
}

static uint32_t same_boot(const struct rg_correlation *correlation, rg_node_id node, uint32_t boot)
{
    const struct rg_correlation_sources *sources = &correlation->sources;
    return sources->same_boot ? sources->same_boot(sources->context, node, boot) : boot;
}

/* By one clock of a node. */
static bool is_before(const struct rg_correlation *correlation, rg_node_id node,
                      const struct rg_moment_seen *a, const struct rg_moment_seen *b)
{
    if (a->stamp.kind == RG_STAMP_BOOT && a->boot != b->boot) {
        uint32_t boot_a = same_boot(correlation, node, a->boot);
        uint32_t boot_b = same_boot(correlation, node, b->boot);
        return boot_a != boot_b ? boot_a < boot_b : a->stamp.usec < b->stamp.usec;
    }
    return a->stamp.usec < b->stamp.usec;
}

static struct rg_moment_seen in_year(const struct rg_correlation *correlation, rg_node_id node,
                                     const struct rg_moment_seen *moment)
{
    const struct rg_correlation_sources *sources = &correlation->sources;
    struct rg_moment_seen told = *moment;
    if (sources->in_year && told.stamp.kind == RG_STAMP_LOCAL) {
        told.stamp.usec = sources->in_year(sources->context, &told.stamp, node, told.source);
    }
    return told;
}

/* What was seen of a node in one source, which has been read: its years and boots are known now. */
static void fold_source(const struct rg_correlation *correlation, struct rg_node_seen *seen)
{
    for (int kind = RG_STAMP_NONE + 1; kind < RG_STAMP_KINDS; kind++) {
        struct rg_moment_seen *first = &seen->first[kind];
        struct rg_moment_seen *last = &seen->last[kind];
        if (seen->source_first[kind].stamp.kind == RG_STAMP_NONE) {
            continue;
        }
        bool none = first->stamp.kind == RG_STAMP_NONE;
        struct rg_moment_seen a = in_year(correlation, seen->node, &seen->source_first[kind]);
        struct rg_moment_seen z = in_year(correlation, seen->node, &seen->source_last[kind]);
        struct rg_moment_seen first_there = in_year(correlation, seen->node, first);
        struct rg_moment_seen last_there = in_year(correlation, seen->node, last);
        if (none || is_before(correlation, seen->node, &a, &first_there)) {
            *first = seen->source_first[kind];
        }
        if (none || !is_before(correlation, seen->node, &z, &last_there)) {
            *last = seen->source_last[kind];
        }
        seen->source_first[kind] = seen->source_last[kind] = (struct rg_moment_seen){0};
    }
}

void rg_correlation_saw(struct rg_correlation *correlation, const struct rg_log_record *record)
{
    correlation->lines++;
    struct rg_node_seen *seen = seen_of(correlation, record->node);
    if (!seen) {
        return;
    }
    if (seen->source != record->source) {
        fold_source(correlation, seen);
        seen->source = record->source;
    }
    seen->lines++;
    seen->boots = RG_MAX(seen->boots, record->boot + 1);
    const struct rg_moment_seen here = {record->stamp, record->boot, record->source};
    struct rg_moment_seen *first = &seen->source_first[record->stamp.kind];
    struct rg_moment_seen *last = &seen->source_last[record->stamp.kind];
    if (first->stamp.kind == RG_STAMP_NONE || is_before(correlation, seen->node, &here, first)) {
        *first = here;
    }
    if (last->stamp.kind == RG_STAMP_NONE || !is_before(correlation, seen->node, &here, last)) {
        *last = here;
    }
}

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash ^= value + 0x9e3779b9U + (hash << 6) + (hash >> 2);
    return hash;
}

static uint32_t hash_run(const struct rg_run *run)
{
    uint32_t hash = (uint32_t)((uintptr_t)run->row >> 4);
    hash = mix(hash, run->node);
    hash = mix(hash, run->boot);
    hash = mix(hash, run->target);
    hash = mix(hash, run->nid);
    hash = mix(hash, run->device);
    hash = mix(hash, run->client);
    hash = mix(hash, (uint32_t)run->rc);
    hash = mix(hash, (uint32_t)run->wc_status);
    return hash ^ hash >> 16;
}

static bool same_key(const struct rg_run *a, const struct rg_run *b)
{
    return a->row == b->row && a->node == b->node && a->boot == b->boot && a->target == b->target &&
           a->nid == b->nid && a->device == b->device && a->client == b->client && a->rc == b->rc &&
           a->wc_status == b->wc_status && a->accused == b->accused && a->effect == b->effect;
}

/* Far enough from the ends that sums and differences of a few stamps cannot overflow. */
static struct rg_stamp bounded(struct rg_stamp stamp)
{
    const int64_t most = INT64_MAX / 16;
    stamp.usec = stamp.usec > most ? most : stamp.usec < -most ? -most : stamp.usec;
    return stamp;
}

static bool quiet_between(const struct rg_stamp *a, const struct rg_stamp *b)
{
    if (a->kind != b->kind) {
        return true;
    }
    return a->kind != RG_STAMP_NONE &&
           (b->usec - a->usec > RUN_QUIET_USEC || a->usec - b->usec > RUN_QUIET_USEC);
}

static rg_word quote(struct rg_correlation *correlation, const struct rg_log_record *record)
{
    RG_BUF(text, 4096);
    const char *source =
        correlation->sources.source_name
            ? correlation->sources.source_name(correlation->sources.context, record->source)
            : NULL;
    if (source && *source) {
        rg_text_clean(rg_span_text(source), 200, &text);
        rg_buf_addf(&text, ":%" PRIu64 ": ", record->line);
    }
    rg_text_clean(record->text, RG_QUOTE_BYTES, &text);
    return rg_pool_add(&correlation->pool, rg_buf_span(&text));
}

static void add_to_run(struct rg_correlation *correlation, struct rg_run *run,
                       const struct rg_event *event, const struct rg_run *fresh)
{
    const struct rg_log_record *record = event->record;
    run->count += 1 + record->repeats;
    run->order_last = correlation->order;
    if (fresh->first.kind == run->first.kind) {
        if (fresh->first.usec < run->first.usec) {
            run->first = fresh->first;
        }
        if (fresh->last.usec > run->last.usec) {
            run->last = fresh->last;
        }
    }
    if (fresh->number > run->number) {
        run->number = fresh->number;
        run->number_of = fresh->number_of;
    }
    if (event->request.xid && run->xid_count < RG_RUN_XIDS) {
        run->xids[run->xid_count++] = event->request.xid;
    }
    run->nid_to = run->nid_to ? run->nid_to : fresh->nid_to;
    run->detail = run->detail ? run->detail : fresh->detail;
    run->network_error |= fresh->network_error;
    run->sent_delay |= fresh->sent_delay;
    run->slow_reply |= fresh->slow_reply;
    run->write_failed |= fresh->write_failed;
    if (run->quote_count < RG_RUN_QUOTES && !record->recalled) {
        rg_word word = quote(correlation, record);
        for (size_t i = 0; i < run->quote_count; i++) {
            if (run->quotes[i] == word) {
                return;
            }
        }
        run->quotes[run->quote_count++] = word;
    }
}

/* The run to add to; NULL at the ceiling. */
static struct rg_run *find_run(struct rg_correlation *correlation, struct rg_run *fresh)
{
    fresh->hash = hash_run(fresh);
    uint32_t *slot = &correlation->slots[fresh->hash & (RUN_SLOTS - 1)];
    struct rg_run *latest = NULL;
    for (uint32_t at = *slot; at; at = correlation->runs[at - 1].next) {
        struct rg_run *run = &correlation->runs[at - 1];
        if (run->hash == fresh->hash && same_key(run, fresh)) {
            latest = run;
            break;
        }
    }
    if (latest &&
        (!quiet_between(&latest->last, &fresh->first) || latest->parts >= RG_RUN_PARTS_MAX)) {
        return latest;
    }
    if (correlation->run_count == RG_RUNS_MAX) {
        correlation->folded++;
        return latest;
    }
    struct rg_run *run = &correlation->runs[correlation->run_count++];
    *run = *fresh;
    run->parts = latest ? latest->parts + 1 : 1;
    run->next = *slot;
    *slot = correlation->run_count;
    return run;
}

static bool detail_has(const struct rg_event *event, const char *word)
{
    struct span needle = rg_span_text(word);
    return memmem(event->record->text.ptr, event->record->text.len, needle.ptr, needle.len) != NULL;
}

/* A server's log does, sooner or later; boots, ports and NFS are everybody's. */
static bool speaks_of_lustre(const struct rg_event *event)
{
    enum rg_layer layer = event->row->layer;
    return (layer >= RG_LAYER_LND && layer <= RG_LAYER_RECOVERY) ||
           (rg_row_is(event->row, "K-BOOT") && detail_has(event, "Build Version")) ||
           rg_row_is(event->row, "CL-RING") || rg_row_is(event->row, "CL-MOVE");
}

static void learn(struct rg_correlation *correlation, const struct rg_event *event,
                  struct rg_run *run)
{
    struct rg_map *map = &correlation->map;
    if (run->nid_local) {
        rg_map_owns(map, run->speaker, run->nid_local, false);
    }
    bool about_client = run->trait.flags & RG_TRAIT_CLIENT;
    map->hosts[rg_map_resolve(map, run->speaker)].lustre |= speaks_of_lustre(event);
    if (run->role == RG_ROLE_SERVER) {
        map->hosts[rg_map_resolve(map, run->speaker)].server = true;
    }
    if (run->by_target && run->target) {
        rg_map_speaks(map, run->target, run->target_kind, event->target_index, run->speaker);
        return;
    }
    if (run->target && run->nid && !about_client) {
        rg_map_served(map, run->target, run->target_kind, event->target_index, run->nid,
                      run->speaker, correlation->order);
        if (run->effect == RG_EFFECT_RESTORED && run->nid_to && run->nid_to != run->nid) {
            rg_map_served(map, run->target, run->target_kind, event->target_index, run->nid_to,
                          run->speaker, correlation->order);
        }
    }
    if (run->role == RG_ROLE_CLIENT) {
        rg_host_id host = rg_map_resolve(map, run->speaker);
        map->hosts[host].client = true;
    }
}

static void count_noise(struct rg_correlation *correlation, const struct rg_event *event)
{
    size_t i = 0;
    while (i < correlation->noise_count && correlation->noise[i].row != event->row) {
        i++;
    }
    if (i == correlation->noise_count) {
        if (i == RG_NOISE_MAX) {
            correlation->folded++;
            return;
        }
        correlation->noise[i].row = event->row;
        correlation->noise[i].sample = quote(correlation, event->record);
        correlation->noise_count++;
    }
    correlation->noise[i].count += 1 + event->record->repeats;
}

/* The line itself is about one of the speaker's own targets: the server speaks. */
static bool speaks_for_target(const struct rg_event *event)
{
    if (event->target.len == 0 || event->speaker_role == RG_ROLE_CLIENT) {
        return false;
    }
    if (event->speaker_role == RG_ROLE_UNKNOWN) {
        return event->row->layer == RG_LAYER_BACKEND;
    }
    /* "scratch-OST0012-osc-MDT0000", "…-lwp-…", "MGC…": a server speaks of somebody else's. */
    return !(detail_has(event, "-osc-") || detail_has(event, "-osp-") ||
             detail_has(event, "-lwp-") || detail_has(event, "MGC"));
}

static const struct rg_row_facts *facts_of(struct rg_correlation *correlation,
                                           const struct rg_event *event)
{
    uintptr_t key = (uintptr_t)event->row / sizeof(struct rg_catalogue_row);
    struct rg_row_facts *facts =
        &correlation->facts[(key ^ (uintptr_t)event->accused) & (RG_ROW_FACTS - 1)];
    if (facts->row != event->row || facts->accused != event->accused ||
        facts->effect != event->effect) {
        *facts = (struct rg_row_facts){
            .row = event->row,
            .accused = event->accused,
            .effect = event->effect,
            .trait = rg_trait_of(event->row, event->accused, event->effect),
            .request = rg_row_is(event->row, "PT-EXPIRE"),
            .boot = rg_row_is(event->row, "K-BOOT"),
            .command = rg_row_is(event->row, "ML-CMDERR"),
            .mount = rg_row_is(event->row, "BE-MOUNT"),
            .skipped = rg_row_is(event->row, "LOG-SKIPPED"),
            .status = rg_row_is(event->row, "PT-STATUS"),
        };
    }
    return facts;
}

/* "Skipped N previous similar messages" without a site: more of what the node said just before. */
static void add_skipped(struct rg_correlation *correlation, const struct rg_event *event)
{
    const struct rg_node_seen *seen = seen_of(correlation, event->record->node);
    if (seen && seen->latest_run && event->number > 0 && event->number <= INT32_MAX) {
        correlation->runs[seen->latest_run - 1].count += (uint64_t)event->number;
    }
}

/* How long each loss lasted: a run has only its first and its last. */
static void follow_loss(struct rg_correlation *correlation, const struct rg_run *run,
                        const struct rg_stamp *stamp)
{
    if (run->effect != RG_EFFECT_LOST && run->effect != RG_EFFECT_RESTORED) {
        return;
    }
    uint32_t hash = mix(mix(run->node, run->boot), run->target);
    struct rg_open_loss *loss = &correlation->open_losses[hash & (RG_OPEN_LOSSES - 1)];
    bool open = loss->target == run->target && loss->node == run->node && loss->boot == run->boot;
    if (run->effect == RG_EFFECT_LOST) {
        if (!open) {
            uint32_t index = (uint32_t)(run - correlation->runs);
            *loss = (struct rg_open_loss){run->node, run->boot, run->target, index, *stamp};
        }
        return;
    }
    if (open) {
        struct rg_run *lost = &correlation->runs[loss->run];
        loss->target = 0;
        if (stamp->kind == loss->since.kind && stamp->kind != RG_STAMP_NONE &&
            stamp->usec >= loss->since.usec) {
            lost->outages++;
            lost->outage_usec_max = RG_MAX(lost->outage_usec_max, stamp->usec - loss->since.usec);
        }
    }
}

void rg_correlation_add(struct rg_correlation *correlation, const struct rg_event *event)
{
    const struct rg_log_record *record = event->record;
    struct rg_pool *pool = &correlation->pool;
    RG_ASSERT(!correlation->finished && event->row && record);
    correlation->matched++;
    correlation->order++;
    if (event->effect == RG_EFFECT_BENIGN) {
        count_noise(correlation, event);
        return;
    }
    const struct rg_row_facts *facts = facts_of(correlation, event);
    if (facts->skipped) {
        add_skipped(correlation, event);
        return;
    }
    const char *name =
        correlation->sources.node_name
            ? correlation->sources.node_name(correlation->sources.context, record->node)
            : NULL;
    struct rg_run fresh = {
        .row = event->row,
        .trait = facts->trait,
        .accused = event->accused,
        .effect = event->effect,
        .role = event->speaker_role,
        .target_kind = event->target_kind,
        .node = record->node,
        .boot = record->boot,
        .source = record->source,
        .speaker = rg_map_host_of_node(&correlation->map, record->node, name),
        .target = rg_pool_add(pool, event->target),
        .nid = rg_map_nid(&correlation->map, event->nid),
        .nid_to = rg_map_nid(&correlation->map, event->nid_to),
        .nid_local = rg_map_nid(&correlation->map, event->nid_local),
        .device = rg_pool_add(pool, event->device),
        .client = rg_pool_add(pool, event->client),
        .operation = rg_pool_add(pool, event->operation),
        .detail = rg_pool_add(pool, rg_span_head(event->detail, 200)),
        .rc = event->rc,
        .wc_status = event->wc_status,
        .opcode = event->request.present ? event->request.opcode : -1,
        .by_target = speaks_for_target(event),
        .network_error = facts->request && detail_has(event, "failed due to network error"),
        .sent_delay = facts->request && detail_has(event, "timed out for sent delay"),
        .slow_reply = facts->request && detail_has(event, "timed out for slow reply"),
        .write_failed = facts->status && rg_span_is(event->operation, "ost_write"),
        .number = event->number,
        .number_of = event->number_of,
        .first = bounded(record->stamp),
        .last = bounded(record->stamp),
        .order = correlation->order,
        .incident = -1,
    };
    if (facts->command && detail_has(event, "SET_ROCE_ADDRESS")) {
        fresh.trait.nature = RG_NATURE_CONFIG; /* the address was wrong, not the HCA */
    } else if (facts->command && detail_has(event, "CREATE_QP")) {
        fresh.trait.nature = RG_NATURE_HOST; /* a limit of the device, used up */
    }
    if (facts->mount && event->rc == -4) {
        /* Somebody interrupted the mount. */
        fresh.trait = (struct rg_trait){97, RG_NATURE_UNKNOWN, RG_TRAIT_MOUNT};
    }
    if (facts->request) {
        /* Which end it was is for several lines to tell, not for one. */
        fresh.accused = RG_ACCUSED_PATH;
    }
    if (event->request.inbound || (fresh.by_target && fresh.nid)) {
        fresh.trait.flags |= RG_TRAIT_CLIENT;
    }
    if (fresh.trait.flags & RG_TRAIT_SELF && fresh.nid && !fresh.nid_local) {
        fresh.nid_local = fresh.nid;
    }
    struct rg_node_seen *seen = seen_of(correlation, record->node);
    if (seen) {
        seen->lustre |= event->row->layer >= RG_LAYER_LND && event->row->layer <= RG_LAYER_RECOVERY;
        if (facts->boot && detail_has(event, "Build Version") && fresh.detail) {
            seen->version = fresh.detail;
        }
    }
    learn(correlation, event, &fresh);
    struct rg_run *run = find_run(correlation, &fresh);
    if (run) {
        add_to_run(correlation, run, event, &fresh);
    }
    if (run && run->target && !run->by_target) {
        follow_loss(correlation, run, &fresh.first);
    }
    if (seen) {
        seen->latest_run = run ? (uint32_t)(run - correlation->runs) + 1 : 0;
    }
}

static void learn_import(struct rg_correlation *correlation, const struct rg_state_fact *fact,
                         rg_host_id by)
{
    struct rg_map *map = &correlation->map;
    struct rg_target_name name;
    if (!rg_target_parse(fact->target, &name)) {
        return;
    }
    rg_word target = rg_pool_add(&correlation->pool, fact->target);
    for (size_t i = 0; i < fact->nid_count; i++) {
        /* What messages say of where a target went comes later, and outranks it. */
        rg_map_served(map, target, name.kind, name.index, rg_map_nid(map, fact->nids[i]), by,
                      fact->current ? correlation->order : 0);
    }
}

static void learn_router(struct rg_map *map, rg_word nid)
{
    rg_host_id host = rg_map_host_of_nid(map, nid);
    if (host) {
        map->hosts[host].router = true;
    }
}

/* Once each: a dump that was taken twice says the same twice. */
static void keep_state(struct rg_correlation *correlation, const struct rg_log_record *record,
                       const struct rg_state_fact *fact, const char *node, rg_word nid)
{
    struct rg_pool *pool = &correlation->pool;
    struct rg_state_seen seen = {
        .kind = fact->kind,
        .node = rg_pool_add(pool, rg_span_text(node && *node ? node : "this-node")),
        .subject = fact->kind == RG_STATE_SPACE || fact->kind == RG_STATE_IMPORT
                       ? rg_pool_add(pool, fact->target)
                       : nid,
        .value = rg_pool_add(pool, fact->value),
        .bad = fact->bad,
    };
    for (size_t i = 0; i < correlation->state_count; i++) {
        const struct rg_state_seen *old = &correlation->states[i];
        if (old->kind == seen.kind && old->node == seen.node && old->subject == seen.subject &&
            old->value == seen.value) {
            return;
        }
    }
    if (correlation->state_count == RG_STATES_MAX) {
        correlation->states_left_out++;
        return;
    }
    seen.line = quote(correlation, record);
    correlation->states[correlation->state_count++] = seen;
}

void rg_correlation_learn(struct rg_correlation *correlation, const struct rg_log_record *record,
                          const struct rg_state_fact *fact)
{
    struct rg_map *map = &correlation->map;
    const char *node =
        correlation->sources.node_name
            ? correlation->sources.node_name(correlation->sources.context, record->node)
            : NULL;
    rg_host_id by = rg_map_host_of_node(map, record->node, node);
    rg_word nid = fact->nid_count ? rg_map_nid(map, fact->nids[0]) : 0;
    switch (fact->kind) {
    case RG_STATE_IMPORT:
        learn_import(correlation, fact, by);
        break;
    case RG_STATE_OWN:
        rg_map_owns(map, by, nid, false);
        break;
    case RG_STATE_PEER:
        rg_map_same(map, nid, rg_map_nid(map, fact->nids[1]));
        nid = rg_map_nid(map, fact->nids[1]);
        break;
    case RG_STATE_ROUTE:
        learn_router(map, nid);
        break;
    case RG_STATE_SPACE:
    case RG_STATE_KIND_COUNT:
        break;
    }
    if (fact->value.len > 0) {
        keep_state(correlation, record, fact, node, nid);
    }
}

bool rg_state_say(const struct rg_state_seen *state, struct rg_phrases *phrases)
{
    static const enum rg_phrase_id sentences[RG_STATE_KIND_COUNT] = {
        [RG_STATE_IMPORT] = RG_PHRASE_STATE_IMPORT, [RG_STATE_OWN] = RG_PHRASE_STATE_NET,
        [RG_STATE_PEER] = RG_PHRASE_STATE_PEER,     [RG_STATE_ROUTE] = RG_PHRASE_STATE_ROUTE,
        [RG_STATE_SPACE] = RG_PHRASE_STATE_DF,
    };
    return rg_phrases_add(phrases, sentences[state->kind], state->node, state->subject,
                          state->value, state->line);
}

static void note(struct rg_correlation *correlation, struct rg_notes *notes,
                 enum rg_phrase_id sentence, const char *const words[RG_PHRASE_WORDS_MAX])
{
    if (notes->count == RG_NOTES_MAX) {
        notes->left_out++;
        return;
    }
    struct rg_phrase *phrase = &notes->items[notes->count++];
    *phrase = (struct rg_phrase){.id = sentence};
    for (int i = 0; i < RG_PHRASE_WORDS_MAX; i++) {
        struct span text = rg_span_text(words[i] ? words[i] : "");
        phrase->word[i] = rg_pool_add(&correlation->pool, text);
    }
}

void rg_correlation_note_clock(struct rg_correlation *correlation, enum rg_phrase_id sentence,
                               const char *const words[RG_PHRASE_WORDS_MAX])
{
    note(correlation, &correlation->clock_notes, sentence, words);
}

void rg_correlation_note_hole(struct rg_correlation *correlation, enum rg_phrase_id sentence,
                              const char *const words[RG_PHRASE_WORDS_MAX])
{
    note(correlation, &correlation->hole_notes, sentence, words);
}

bool rg_correlation_tell_hosts(struct rg_correlation *correlation, const struct rg_hosts *hosts)
{
    RG_ASSERT(!correlation->finished && !correlation->told);
    correlation->told = calloc(2 * hosts->count + 1, sizeof(*correlation->told));
    if (!correlation->told) {
        return false;
    }
    for (size_t i = 0; i < hosts->count; i++) {
        const struct rg_told_host *host = &hosts->items[i];
        rg_map_tell(&correlation->map, host);
        correlation->told[correlation->told_count++] = rg_pool_add(&correlation->pool, host->name);
        correlation->told[correlation->told_count++] = rg_pool_add(&correlation->pool, host->rack);
    }
    return true;
}

bool rg_words_add(struct rg_words *words, rg_word word)
{
    if (word == 0 || words->count >= 64) {
        return true;
    }
    for (size_t i = 0; i < words->count; i++) {
        if (words->items[i] == word) {
            return true;
        }
    }
    rg_word *grown = realloc(words->items, (words->count + 1) * sizeof(*grown));
    if (!grown) {
        return false;
    }
    words->items = grown;
    words->items[words->count++] = word;
    return true;
}

bool rg_phrases_add(struct rg_phrases *phrases, enum rg_phrase_id id, rg_word a, rg_word b,
                    rg_word c, rg_word d)
{
    for (size_t i = 0; i < phrases->count; i++) {
        const struct rg_phrase *there = &phrases->items[i];
        if (there->id == id && there->word[0] == a && there->word[1] == b && there->word[2] == c &&
            there->word[3] == d) {
            return true;
        }
    }
    if (phrases->count >= 48) {
        return true;
    }
    struct rg_phrase *grown = realloc(phrases->items, (phrases->count + 1) * sizeof(*grown));
    if (!grown) {
        return false;
    }
    phrases->items = grown;
    phrases->items[phrases->count++] = (struct rg_phrase){.id = id, .word = {a, b, c, d}};
    return true;
}

rg_word rg_duration_word(struct rg_correlation *correlation, int64_t usec)
{
    RG_BUF(text, 64);
    rg_duration_render(usec, RG_ENGLISH, &text);
    return rg_pool_add(&correlation->pool, rg_buf_span(&text));
}

static int compare_incidents(const void *a, const void *b)
{
    const struct rg_incident *x = a;
    const struct rg_incident *y = b;
    if (x->first.kind != y->first.kind) {
        return x->first.kind > y->first.kind ? -1 : 1;
    }
    return x->first.usec < y->first.usec ? -1 : x->first.usec > y->first.usec;
}

static bool fill_findings(struct rg_correlation *correlation, struct rg_diagnosis *diagnosis)
{
    diagnosis->findings = calloc(correlation->run_count + 1, sizeof(*diagnosis->findings));
    if (!diagnosis->findings) {
        return false;
    }
    bool ok = true;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *run = &correlation->runs[i];
        struct rg_finding *finding = &diagnosis->findings[i];
        *finding = (struct rg_finding){
            .row = run->row,
            .node = rg_map_host(&correlation->map, run->speaker)->name,
            .boot = run->boot,
            .target = run->target,
            .nid = run->nid,
            .device = run->device,
            .detail = run->detail,
            .operation = run->operation,
            .rc = run->rc,
            .wc_status = run->wc_status,
            .role = run->role,
            .first = run->when_first,
            .last = run->when_last,
            .count = run->count,
            .order = run->order,
            .clock = run->clock,
            .axis_first = run->start,
            .axis_last = run->end,
            .effect = run->effect,
            .incident = run->incident,
            .silent = run->effect == RG_EFFECT_NONE || run->effect == RG_EFFECT_BOUNDARY,
        };
        for (size_t k = 0; k < run->quote_count; k++) {
            ok &= rg_words_add(&finding->quotes, run->quotes[k]);
        }
    }
    diagnosis->finding_count = correlation->run_count;
    return ok;
}

static void widen(struct rg_when *first, struct rg_when *last, struct rg_when when)
{
    if (when.kind != RG_WHEN_UTC && when.kind != RG_WHEN_LOCAL) {
        return;
    }
    if (first->kind == RG_WHEN_UNKNOWN || when.usec < first->usec) {
        *first = when;
    }
    if (last->kind == RG_WHEN_UNKNOWN || when.usec > last->usec) {
        *last = when;
    }
}

/* A day without a zone is a day, too; seconds since an unknown boot are none. */
static int worth(struct rg_when when)
{
    return when.kind == RG_WHEN_LOCAL ? RG_WHEN_UTC : (int)when.kind;
}

/* From its first line to its last, by the best of its clocks. */
static void place_node(const struct rg_correlation_sources *sources,
                       const struct rg_node_seen *seen, struct rg_node_summary *node)
{
    for (int kind = RG_STAMP_NONE + 1; kind < RG_STAMP_KINDS && sources->when; kind++) {
        const struct rg_moment_seen *a = &seen->first[kind];
        const struct rg_moment_seen *z = &seen->last[kind];
        struct rg_when first =
            sources->when(sources->context, &a->stamp, seen->node, a->boot, a->source);
        struct rg_when last =
            sources->when(sources->context, &z->stamp, seen->node, z->boot, z->source);
        int better = worth(first) - worth(node->first);
        if (better > 0 || (better == 0 && first.usec < node->first.usec)) {
            node->first = first;
        }
        better = worth(last) - worth(node->last);
        if (better > 0 || (better == 0 && last.usec > node->last.usec)) {
            node->last = last;
        }
    }
}

static bool fill_nodes(struct rg_correlation *correlation, struct rg_diagnosis *diagnosis)
{
    diagnosis->nodes = calloc(correlation->seen_count + 1, sizeof(*diagnosis->nodes));
    if (!diagnosis->nodes) {
        return false;
    }
    for (uint32_t i = 0; i < correlation->seen_count; i++) {
        const struct rg_node_seen *seen = &correlation->seen[i];
        const struct rg_correlation_sources *sources = &correlation->sources;
        const char *name =
            sources->node_name ? sources->node_name(sources->context, seen->node) : NULL;
        rg_host_id id = rg_map_host_of_node(&correlation->map, seen->node, name);
        const struct rg_map_host *host = rg_map_host(&correlation->map, id);
        struct rg_node_summary *node = &diagnosis->nodes[diagnosis->node_count++];
        *node = (struct rg_node_summary){
            .name = host->name,
            .role = host->server   ? RG_ROLE_SERVER
                    : host->mgs    ? RG_ROLE_MGS
                    : host->client ? RG_ROLE_CLIENT
                                   : RG_ROLE_UNKNOWN,
            .lines = seen->lines,
            .boots = seen->boots,
            .version = seen->version,
        };
        place_node(sources, seen, node);
        widen(&diagnosis->first, &diagnosis->last, node->first);
        widen(&diagnosis->first, &diagnosis->last, node->last);
    }
    return true;
}

static bool fill_targets(struct rg_correlation *correlation, struct rg_diagnosis *diagnosis)
{
    struct rg_map *map = &correlation->map;
    diagnosis->targets = calloc(map->target_count, sizeof(*diagnosis->targets));
    if (!diagnosis->targets) {
        return false;
    }
    bool ok = true;
    for (uint32_t i = 1; i < map->target_count; i++) {
        struct rg_target_summary *target = &diagnosis->targets[diagnosis->target_count++];
        *target = (struct rg_target_summary){.name = map->targets[i].name};
        const char *name = rg_pool_text(map->pool, target->name);
        target->both_forms = map->targets[i].index >= 0 ? rg_pool_addf(map->pool, "%s (index %d)",
                                                                       name, map->targets[i].index)
                                                        : target->name;
        for (size_t k = 0; k < map->targets[i].served_count; k++) {
            ok &= rg_words_add(&target->nids, map->targets[i].served[k].nid);
        }
    }
    return ok;
}

static bool fill_noise(struct rg_correlation *correlation, const struct rg_unmatched *unmatched,
                       struct rg_diagnosis *diagnosis)
{
    size_t shapes = unmatched ? unmatched->count : 0;
    diagnosis->noise = calloc(correlation->noise_count + shapes + 1, sizeof(*diagnosis->noise));
    if (!diagnosis->noise) {
        return false;
    }
    for (size_t i = 0; i < correlation->noise_count; i++) {
        diagnosis->noise[diagnosis->noise_count++] = (struct rg_noise){
            correlation->noise[i].row, correlation->noise[i].count, correlation->noise[i].sample};
    }
    for (size_t i = 0; i < shapes; i++) {
        diagnosis->noise[diagnosis->noise_count++] = (struct rg_noise){
            NULL, unmatched->shapes[i].count,
            rg_pool_add(&correlation->pool, rg_span_text(unmatched->shapes[i].sample))};
    }
    diagnosis->coverage = (struct rg_coverage){
        .lines = correlation->lines,
        .matched = correlation->matched,
        .error_looking = unmatched ? unmatched->lines : 0,
        .folded = correlation->folded,
    };
    return true;
}

static bool add_notes(struct rg_correlation *correlation, const struct rg_notes *notes,
                      struct rg_phrases *phrases)
{
    bool ok = true;
    for (size_t i = 0; i < notes->count; i++) {
        const struct rg_phrase *note = &notes->items[i];
        ok &= rg_phrases_add(phrases, note->id, note->word[0], note->word[1], note->word[2],
                             note->word[3]);
    }
    if (notes->left_out) {
        ok &=
            rg_phrases_add(phrases, RG_PHRASE_NOTES_LEFT_OUT,
                           rg_pool_addf(&correlation->pool, "%" PRIu64, notes->left_out), 0, 0, 0);
    }
    return ok;
}

static bool fill_notes(struct rg_correlation *correlation, struct rg_diagnosis *diagnosis)
{
    struct rg_pool *pool = &correlation->pool;
    bool ok =
        rg_phrases_add(&diagnosis->assumptions, RG_PHRASE_ASSUME_WINDOWS,
                       rg_pool_addf(pool, "%" PRId64, correlation->options.window_sec),
                       rg_pool_addf(pool, "%" PRId64, correlation->options.cause_early_sec),
                       rg_pool_addf(pool, "%" PRId64, correlation->options.cause_late_sec), 0);
    ok &= rg_phrases_add(&diagnosis->assumptions, RG_PHRASE_ASSUME_HIDDEN, 0, 0, 0, 0);
    for (uint32_t i = 1; i < correlation->map.host_count; i++) {
        const struct rg_map_host *host = &correlation->map.hosts[i];
        if (host->inferred && !host->merged && host->nid_count) {
            ok &= rg_phrases_add(&diagnosis->assumptions, RG_PHRASE_ASSUME_NID, host->nids[0],
                                 host->name, 0, 0);
        }
    }
    if (correlation->clocks_guessed) {
        ok &= rg_phrases_add(&diagnosis->clocks, RG_PHRASE_CLOCKS_GUESSED, 0, 0, 0, 0);
    }
    ok &= add_notes(correlation, &correlation->clock_notes, &diagnosis->clocks);
    ok &= add_notes(correlation, &correlation->hole_notes, &diagnosis->holes);
    for (size_t i = 0; i < correlation->state_count; i++) {
        if (correlation->states[i].bad && diagnosis->state_notes.count < RG_NOTES_MAX) {
            ok &= rg_state_say(&correlation->states[i], &diagnosis->state_notes);
        }
    }
    if (correlation->folded || correlation->map.full || correlation->pool.full) {
        ok &= rg_phrases_add(&diagnosis->holes, RG_PHRASE_FOLDED,
                             rg_pool_addf(pool, "%" PRIu64, correlation->folded), 0, 0, 0);
    }
    return ok;
}

static bool fill_incidents(struct rg_correlation *correlation, struct rg_diagnosis *diagnosis)
{
    int count = 0;
    if (!rg_judge(correlation, &count)) {
        return false;
    }
    int kept = RG_MIN(count, RG_INCIDENTS_MAX);
    diagnosis->incidents_left_out = (size_t)(count - kept);
    diagnosis->incidents = calloc((size_t)kept + 1, sizeof(*diagnosis->incidents));
    if (!diagnosis->incidents) {
        return false;
    }
    for (int i = 0; i < kept; i++) {
        diagnosis->incident_count++;
        if (!rg_verdict(correlation, i, &diagnosis->incidents[i])) {
            return false;
        }
        diagnosis->incidents[i].number = (unsigned)i + 1;
    }
    return rg_recurrence_say(correlation, diagnosis->incidents, diagnosis->incident_count);
}

/* Puts the incidents in order of time and renumbers what points at them. */
static bool sort_incidents(struct rg_diagnosis *diagnosis)
{
    if (diagnosis->incident_count < 2) {
        return true;
    }
    rg_autofree int *place = calloc(diagnosis->incident_count + 1, sizeof(*place));
    if (!place) {
        return false;
    }
    qsort(diagnosis->incidents, diagnosis->incident_count, sizeof(*diagnosis->incidents),
          compare_incidents);
    for (size_t i = 0; i < diagnosis->incident_count; i++) {
        place[diagnosis->incidents[i].number - 1] = (int)i;
        diagnosis->incidents[i].number = (unsigned)i + 1;
    }
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        struct rg_finding *finding = &diagnosis->findings[i];
        if (finding->incident >= 0) {
            finding->incident = (size_t)finding->incident < diagnosis->incident_count
                                    ? place[finding->incident]
                                    : -1;
        }
    }
    return true;
}

/* All is read: what was noted under several numbers of one boot is of one of them. */
static void settle_boots(struct rg_correlation *correlation)
{
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        run->boot = same_boot(correlation, run->node, run->boot);
    }
    for (uint32_t i = 0; i < correlation->seen_count; i++) {
        struct rg_node_seen *seen = &correlation->seen[i];
        fold_source(correlation, seen);
        for (int kind = RG_STAMP_NONE + 1; kind < RG_STAMP_KINDS; kind++) {
            seen->first[kind].boot = same_boot(correlation, seen->node, seen->first[kind].boot);
            seen->last[kind].boot = same_boot(correlation, seen->node, seen->last[kind].boot);
        }
        uint32_t numbers = seen->boots;
        for (uint32_t boot = 0; boot < numbers; boot++) {
            seen->boots -= same_boot(correlation, seen->node, boot) != boot;
        }
    }
}

int rg_correlation_finish(struct rg_correlation *correlation, const struct rg_unmatched *unmatched,
                          struct rg_diagnosis **ret_diagnosis, struct rg_error *err)
{
    RG_ASSERT(!correlation->finished);
    correlation->finished = true;
    settle_boots(correlation);
    struct rg_diagnosis *diagnosis = calloc(1, sizeof(*diagnosis));
    if (!diagnosis) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    bool ok = fill_incidents(correlation, diagnosis) && fill_findings(correlation, diagnosis) &&
              sort_incidents(diagnosis) && fill_nodes(correlation, diagnosis) &&
              fill_targets(correlation, diagnosis) &&
              fill_noise(correlation, unmatched, diagnosis) && fill_notes(correlation, diagnosis);
    if (!ok || correlation->pool.failed) {
        rg_diagnosis_free(diagnosis);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    /* The diagnosis takes the words over; the correlation can only be closed now. */
    diagnosis->words = RG_TAKE(correlation->pool.text);
    diagnosis->word_count = correlation->pool.count;
    correlation->pool.count = 0;
    diagnosis->told = RG_TAKE(correlation->told);
    diagnosis->states = RG_TAKE(correlation->states);
    diagnosis->state_count = correlation->state_count;
    diagnosis->states_left_out = correlation->states_left_out;
    diagnosis->told_count = correlation->told_count;
    *ret_diagnosis = diagnosis;
    return 0;
}
