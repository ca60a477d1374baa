/*
 * From runs to incidents: when each run was, whom it is about, and which runs are one story.
 *
 * Runs about the same host that lie close together in time are joined; then the stories of several
 * hosts are joined where one thing explains them: a node's own fault, a node that lost several
 * servers at once, several servers lost by several nodes, a target that moved. What a run means for
 * cause and scope is verdict.c's.
 */
#include "diag/correlation.h"

#include "diag/lustre.h"

#include <stdlib.h>

#define NO_CLOCK (-1)
#define USEC     INT64_C(1000000)

/* Runs that are compared pair by pair: keeps the square in bounds. */
#define PAIRED_MAX 4000

#define CORRECTED_MIN        100
#define CORRECTED_PER_MINUTE 6

/* Whole time-outs of an NVMe: that many, and not all at once. */
#define POLLED_MIN        3
#define POLLED_SPREAD_SEC 30

/* Comparisons that laying clocks side by side may cost in all. */
#define LAYING_MAX 20000000

/* ---- What single messages are known for. ---- */

static const struct {
    const char *id;
    int rank;
    enum rg_nature nature;
    unsigned flags;
} traits[] = {
#define SILENT                            RG_TRAIT_SILENT
#define ANSWERED                          RG_TRAIT_ANSWERED
#define CLIENT                            RG_TRAIT_CLIENT
#define SELF                              RG_TRAIT_SELF
#define STARTED                           RG_TRAIT_STARTED
#define PLANNED                           RG_TRAIT_PLANNED
#define SLOW                              RG_TRAIT_SLOW
#define LOSS                              RG_TRAIT_LOSS
#define BOTH                              RG_TRAIT_BOTH
#define MOUNT                             RG_TRAIT_MOUNT
#define STORAGE                           RG_TRAIT_STORAGE
#define LATE                              RG_TRAIT_LATE
#define ALONE                             RG_TRAIT_ALONE
#define BEFORE                            RG_TRAIT_BEFORE
#define PORT                              RG_TRAIT_PORT
#define RG_TRAIT(id, rank, nature, flags) {id, rank, RG_NATURE_##nature, flags},
#include "diag/traits.tbl"
#undef RG_TRAIT
#undef SILENT
#undef ANSWERED
#undef CLIENT
#undef SELF
#undef STARTED
#undef PLANNED
#undef SLOW
#undef LOSS
#undef BOTH
#undef MOUNT
#undef STORAGE
#undef LATE
#undef ALONE
#undef BEFORE
#undef PORT
};

static const struct {
    int rank;
    enum rg_nature nature;
} layers[RG_LAYER_COUNT] = {
    [RG_LAYER_HARDWARE] = {4, RG_NATURE_HARDWARE},
    [RG_LAYER_PLATFORM] = {10, RG_NATURE_HOST},
    [RG_LAYER_FIRMWARE] = {20, RG_NATURE_HARDWARE},
    [RG_LAYER_LINK] = {30, RG_NATURE_NETWORK},
    [RG_LAYER_ADDRESS] = {40, RG_NATURE_NETWORK},
    [RG_LAYER_LND] = {70, RG_NATURE_NETWORK},
    [RG_LAYER_LNET] = {72, RG_NATURE_NETWORK},
    [RG_LAYER_BACKEND] = {16, RG_NATURE_STORAGE},
    [RG_LAYER_CONFIG] = {62, RG_NATURE_CONFIG},
    [RG_LAYER_RPC] = {80, RG_NATURE_UNKNOWN},
    [RG_LAYER_IMPORT] = {90, RG_NATURE_UNKNOWN},
    [RG_LAYER_RECOVERY] = {92, RG_NATURE_UNKNOWN},
    [RG_LAYER_APPLICATION] = {110, RG_NATURE_UNKNOWN},
    [RG_LAYER_CLUSTER] = {60, RG_NATURE_SERVER},
};

bool rg_row_is(const struct rg_catalogue_row *row, const char *id)
{
    return strcmp(row->id, id) == 0 || (row->family && strcmp(row->family, id) == 0);
}

bool rg_row_is_corrected(const struct rg_catalogue_row *row)
{
    return rg_row_is(row, "PCI-AER-CORRECTED") || rg_row_is(row, "K-MCE-CORRECTED");
}

struct rg_trait rg_trait_of(const struct rg_catalogue_row *row, enum rg_accused accused,
                            enum rg_effect effect)
{
    struct rg_trait trait = {layers[row->layer].rank, layers[row->layer].nature, 0};
    size_t found = RG_ARRAY_LENGTH(traits);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(traits); i++) {
        if (strcmp(row->id, traits[i].id) == 0) {
            found = i;
            break;
        }
        if (row->family && strcmp(row->family, traits[i].id) == 0) {
            found = i;
        }
    }
    if (found < RG_ARRAY_LENGTH(traits)) {
        trait.rank = traits[found].rank ? traits[found].rank : trait.rank;
        trait.nature =
            traits[found].nature != RG_NATURE_UNKNOWN ? traits[found].nature : trait.nature;
        trait.flags = traits[found].flags;
    } else {
        if (accused == RG_ACCUSED_ADMIN) {
            trait = (struct rg_trait){50, RG_NATURE_PLANNED, RG_TRAIT_PLANNED};
        } else if (accused == RG_ACCUSED_CONFIG) {
            trait.nature = RG_NATURE_CONFIG;
            trait.rank = trait.rank > 62 ? 62 : trait.rank;
        }
        if (row->layer == RG_LAYER_BACKEND) {
            trait.flags |= RG_TRAIT_STORAGE;
        }
    }
    if (row->layer == RG_LAYER_LND || row->layer == RG_LAYER_LNET) {
        /* A driver gives up long after the first request did (16 to 50 s and more). */
        trait.flags |= RG_TRAIT_LATE;
    }
    if ((accused == RG_ACCUSED_PATH || accused == RG_ACCUSED_PEER) && trait.rank < 66) {
        trait.rank = 66; /* a low layer, but not this node's */
    }
    if (effect == RG_EFFECT_EVICTED) {
        trait.flags |= RG_TRAIT_LOSS;
    }
    if (accused == RG_ACCUSED_CONSEQUENCE) {
        trait.rank += 200;
    }
    return trait;
}

/* ---- When: clocks that can be compared, and those that must be guessed. ---- */

struct clock_key {
    enum { ABSOLUTE, WALL, BOOT } kind;
    rg_node_id node;
    uint32_t boot;
    int64_t shift; /* added to bring it beside the base */
    bool laid;     /* beside the base */
};

#define CLOCKS_MAX 4096

static int clock_of(struct clock_key *clocks, size_t *count, const struct rg_run *run)
{
    struct clock_key key = {0};
    switch (run->when_first.kind) {
    case RG_WHEN_UTC:
        key.kind = ABSOLUTE;
        break;
    case RG_WHEN_LOCAL:
        key.kind = WALL;
        break;
    case RG_WHEN_BOOT:
        key = (struct clock_key){.kind = BOOT, .node = run->node, .boot = run->boot};
        break;
    default:
        return NO_CLOCK;
    }
    for (size_t i = 0; i < *count; i++) {
        if (clocks[i].kind == key.kind && clocks[i].node == key.node &&
            clocks[i].boot == key.boot) {
            return (int)i;
        }
    }
    if (*count == CLOCKS_MAX) {
        return NO_CLOCK;
    }
    clocks[*count] = key;
    return (int)(*count)++;
}

/* How well two runs of different clocks fit as the two ends of one moment; 0: not at all. */
static int pair_weight(const struct rg_run *a, const struct rg_run *b)
{
    if (a->node == b->node || a->target == 0 || a->target != b->target) {
        return 0;
    }
    if (a->by_target == b->by_target) {
        return a->effect == b->effect && a->effect != RG_EFFECT_NONE ? 2 : 0;
    }
    const struct rg_run *server = a->by_target ? a : b;
    const struct rg_run *client = a->by_target ? b : a;
    if (client->effect == RG_EFFECT_EVICTED) {
        return server->trait.flags & RG_TRAIT_LOSS ? 4 : 1;
    }
    if (client->effect == RG_EFFECT_RESTORED) {
        return rg_row_is(server->row, "CN-RECONNECTING") || rg_row_is(server->row, "RC-OVER") ? 4
                                                                                              : 0;
    }
    if (server->trait.flags & RG_TRAIT_STARTED) {
        return 0; /* any time after the client noticed */
    }
    if (client->effect == RG_EFFECT_LOST) {
        return server->trait.flags & RG_TRAIT_PLANNED ? 3 : 1;
    }
    return 1;
}

#define PAIRS_MAX 512

/* Wall clocks differ by a zone, a multiple of 15 minutes, and by what dmesg -T is off. */
static bool is_zone(int64_t shift_usec)
{
    int64_t quarter = 900 * USEC;
    int64_t rest = llabs(shift_usec) % quarter;
    return llabs(shift_usec) <= 15 * 3600 * USEC &&
           (rest <= 180 * USEC || quarter - rest <= 180 * USEC);
}

/* Lays one clock beside those that are laid already, by what both say of the same targets. */
static bool lay_clock(struct rg_correlation *correlation, struct clock_key *clocks, int which,
                      uint32_t *budget)
{
    int64_t shifts[PAIRS_MAX];
    int weights[PAIRS_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < correlation->run_count && count < PAIRS_MAX; i++) {
        const struct rg_run *run = &correlation->runs[i];
        if (run->clock != which || run->target == 0) {
            continue;
        }
        if (*budget < correlation->run_count) {
            return false;
        }
        *budget -= correlation->run_count;
        for (uint32_t k = 0; k < correlation->run_count && count < PAIRS_MAX; k++) {
            const struct rg_run *other = &correlation->runs[k];
            if (other->clock == NO_CLOCK || !clocks[other->clock].laid) {
                continue;
            }
            int weight = pair_weight(run, other);
            bool fits = clocks[which].kind == BOOT || is_zone(other->start - run->start);
            if (weight > 0 && fits) {
                shifts[count] = other->start - run->start;
                weights[count++] = weight;
            }
        }
    }
    int best = 0;
    int64_t shift = 0;
    for (size_t i = 0; i < count; i++) {
        int sum = 0;
        for (size_t k = 0; k < count; k++) {
            if (llabs(shifts[i] - shifts[k]) <= 10 * USEC) {
                sum += weights[k];
            }
        }
        if (sum > best) {
            best = sum;
            shift = shifts[i];
        }
    }
    if (best == 0) {
        return false;
    }
    clocks[which].shift = shift;
    clocks[which].laid = true;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (run->clock == which) {
            run->start += shift;
            run->end += shift;
        }
    }
    correlation->clocks_guessed = true;
    return true;
}

/* Far enough from the ends that sums and differences of a few times cannot overflow. */
static int64_t bounded(int64_t usec)
{
    const int64_t most = INT64_MAX / 16;
    return usec > most ? most : usec < -most ? -most : usec;
}

static bool place_in_time(struct rg_correlation *correlation)
{
    rg_autofree struct clock_key *clocks = calloc(CLOCKS_MAX, sizeof(*clocks));
    if (!clocks) {
        return false;
    }
    size_t count = 0;
    const struct rg_correlation_sources *sources = &correlation->sources;
    correlation->base_clock = NO_CLOCK;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (sources->when) {
            run->when_first =
                sources->when(sources->context, &run->first, run->node, run->boot, run->source);
            run->when_last =
                sources->when(sources->context, &run->last, run->node, run->boot, run->source);
        }
        run->clock = clock_of(clocks, &count, run);
        run->start = bounded(run->when_first.usec);
        run->end = bounded(run->when_last.usec);
        if (run->end < run->start) {
            run->end = run->start;
        }
    }
    /* The base: absolute times if there are any, else the first clock met. */
    int base = count ? 0 : NO_CLOCK;
    for (size_t i = 0; i < count; i++) {
        if (clocks[i].kind == ABSOLUTE) {
            base = (int)i;
        }
    }
    if (base == NO_CLOCK) {
        return true;
    }
    clocks[base].laid = true;
    correlation->base_clock = base;
    uint32_t budget = LAYING_MAX;
    for (size_t pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < count && i < 256; i++) {
            if (!clocks[i].laid) {
                lay_clock(correlation, clocks, (int)i, &budget);
            }
        }
    }
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (run->clock != NO_CLOCK && clocks[run->clock].laid) {
            run->clock = base;
        }
    }
    return true;
}

bool rg_runs_are_near(const struct rg_run *a, const struct rg_run *b, int64_t slack_usec)
{
    if (a->clock != b->clock || a->clock == NO_CLOCK) {
        return true;
    }
    return a->start <= b->end + slack_usec && b->start <= a->end + slack_usec;
}

int64_t rg_run_moment(const struct rg_correlation *correlation, const struct rg_run *run)
{
    return run->clock != NO_CLOCK && run->clock == correlation->base_clock ? run->start
                                                                           : RG_MAP_LATEST;
}

/* ---- Whom a run is about. ---- */

bool rg_run_is_active(const struct rg_run *run)
{
    return run->effect == RG_EFFECT_FAULT || run->effect == RG_EFFECT_LOST ||
           run->effect == RG_EFFECT_EVICTED ||
           (run->accused == RG_ACCUSED_ADMIN &&
            run->trait.flags & (RG_TRAIT_LOSS | RG_TRAIT_ALONE));
}

bool rg_run_is_local(const struct rg_run *run)
{
    if (run->accused == RG_ACCUSED_SELF || run->trait.flags & RG_TRAIT_SELF) {
        return true;
    }
    if (run->accused == RG_ACCUSED_PEER || run->accused == RG_ACCUSED_PATH) {
        return false;
    }
    if (run->row->layer == RG_LAYER_BACKEND) {
        return run->role != RG_ROLE_CLIENT && (run->by_target || !run->nid);
    }
    return run->row->layer <= RG_LAYER_ADDRESS || run->row->layer == RG_LAYER_CLUSTER;
}

bool rg_run_accuses_client(const struct rg_run *run)
{
    return run->trait.flags & RG_TRAIT_CLIENT &&
           !(run->trait.flags & (RG_TRAIT_SLOW | RG_TRAIT_STARTED | RG_TRAIT_PLANNED));
}

/* A node that cannot reach its own NID accuses itself, whatever the row says of peers. */
static void accuse_self(struct rg_correlation *correlation, struct rg_run *run)
{
    if (!run->nid || (run->row->layer != RG_LAYER_LND && run->row->layer != RG_LAYER_LNET) ||
        rg_map_host_of_nid(&correlation->map, run->nid) !=
            rg_map_resolve(&correlation->map, run->speaker)) {
        return;
    }
    run->accused = RG_ACCUSED_SELF;
    run->trait.rank = run->trait.rank < 60 ? run->trait.rank : 60;
    run->trait.flags &= ~(unsigned)RG_TRAIT_SILENT;
}

/* Processes that hang say that something is wrong, even where nothing else on the node does. */
static void promote_hung_tasks(struct rg_correlation *correlation)
{
    int64_t window = 2 * correlation->options.window_sec * USEC;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        bool alone = rg_row_is(run->row, "K-HUNG") && run->effect == RG_EFFECT_NONE;
        for (uint32_t k = 0; k < correlation->run_count && alone; k++) {
            const struct rg_run *other = &correlation->runs[k];
            alone = other == run || other->node != run->node || !rg_run_is_active(other) ||
                    rg_row_is(other->row, "K-HUNG") || !rg_runs_are_near(run, other, window);
        }
        if (alone) {
            run->effect = RG_EFFECT_FAULT;
        }
    }
}

/* The commands that one lost interrupt held up end together; what comes later is another one. */
static bool is_polled_again(const struct rg_run *run)
{
    return rg_row_is(run->row, "BE-POLLED") && run->count >= POLLED_MIN &&
           (run->clock == NO_CLOCK || run->end - run->start >= POLLED_SPREAD_SEC * USEC);
}

/* Errors that hardware corrected are normal now and then; at this rate a part is going bad. So are
 * interrupts that got lost, until each of them holds up the disk. */
static void promote_floods(struct rg_correlation *correlation)
{
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        int64_t minutes = (run->end - run->start) / (60 * USEC) + 1;
        if (rg_row_is_corrected(run->row) && run->count >= CORRECTED_MIN &&
            run->count / (uint64_t)minutes >= CORRECTED_PER_MINUTE) {
            run->effect = RG_EFFECT_FAULT;
            run->trait.rank = 89; /* a warning: it explains nothing else */
        }
        if (is_polled_again(run)) {
            run->effect = RG_EFFECT_FAULT;
        }
    }
}

/* A client that comes back says that it had been away, even where nothing else does. */
static void promote_reconnects(struct rg_correlation *correlation)
{
    int64_t window = correlation->options.window_sec * USEC;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (!rg_row_is(run->row, "CN-RECONNECTING") || run->effect != RG_EFFECT_NONE) {
            continue;
        }
        bool alone = true;
        for (uint32_t k = 0; k < correlation->run_count && alone; k++) {
            const struct rg_run *other = &correlation->runs[k];
            bool explains = rg_run_is_active(other) ||
                            other->trait.flags & (RG_TRAIT_STARTED | RG_TRAIT_PLANNED);
            bool related = other->node == run->node || other->target == run->target ||
                           rg_map_resolve(&correlation->map, other->speaker) == run->element ||
                           other->element == rg_map_resolve(&correlation->map, run->speaker);
            alone = other == run || rg_row_is(other->row, "CN-RECONNECTING") || !explains ||
                    !related || !rg_runs_are_near(run, other, window);
        }
        if (alone) {
            run->effect = RG_EFFECT_FAULT;
            run->accused = RG_ACCUSED_PATH;
            run->trait.rank = 93;
        }
    }
}

/* Where targets were, and when. */
static void time_map(struct rg_correlation *correlation)
{
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *run = &correlation->runs[i];
        if (rg_run_moment(correlation, run) == RG_MAP_LATEST || run->by_target ||
            run->trait.flags & RG_TRAIT_CLIENT) {
            continue;
        }
        rg_map_served_during(&correlation->map, run->target, run->nid, run->start, run->end);
        if (run->effect == RG_EFFECT_RESTORED && run->nid_to) {
            rg_map_served_during(&correlation->map, run->target, run->nid_to, run->start, run->end);
        }
    }
}

static rg_host_id element_of(struct rg_correlation *correlation, const struct rg_run *run)
{
    struct rg_map *map = &correlation->map;
    rg_host_id self = rg_map_resolve(map, run->speaker);
    rg_host_id nid = run->nid ? rg_map_host_of_nid(map, run->nid) : 0;
    int64_t moment = rg_run_moment(correlation, run);
    if (run->trait.flags & RG_TRAIT_PLANNED) {
        rg_host_id served = run->target ? rg_map_host_of_target(map, run->target, moment) : 0;
        return run->by_target || !served ? self : served;
    }
    if (rg_run_is_local(run)) {
        return self;
    }
    if (rg_run_accuses_client(run)) {
        return nid ? nid : self;
    }
    if (run->by_target) {
        return self;
    }
    if (nid) {
        return nid;
    }
    rg_host_id served = run->target ? rg_map_host_of_target(map, run->target, moment) : 0;
    return served ? served : self;
}

/* ---- Joining. ---- */

static uint32_t root_of(struct rg_correlation *correlation, uint32_t run)
{
    struct rg_run *runs = correlation->runs;
    while (runs[run].group != run) {
        runs[run].group = runs[runs[run].group].group;
        run = runs[run].group;
    }
    return run;
}

static void join(struct rg_correlation *correlation, uint32_t a, uint32_t b)
{
    a = root_of(correlation, a);
    b = root_of(correlation, b);
    if (a != b) {
        correlation->runs[a > b ? a : b].group = a > b ? b : a;
    }
}

/* Losses last until the same node says that the same target (or another of that NID, when the
 * limiter swallowed lines) is back. */
static void pair_losses(struct rg_correlation *correlation)
{
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *lost = &correlation->runs[i];
        if (lost->effect != RG_EFFECT_LOST && lost->effect != RG_EFFECT_EVICTED) {
            continue;
        }
        const struct rg_run *first = NULL;
        int64_t first_end = 0;
        for (uint32_t k = 0; k < correlation->run_count; k++) {
            const struct rg_run *back = &correlation->runs[k];
            if (back->effect != RG_EFFECT_RESTORED || back->node != lost->node ||
                back->by_target != lost->by_target) {
                continue;
            }
            bool same = back->target && back->target == lost->target;
            bool sibling = back->nid && back->nid == lost->nid && back->count > back->quote_count;
            if (!same && !sibling) {
                continue;
            }
            bool later = back->clock == lost->clock && back->clock != NO_CLOCK
                             ? back->end >= lost->start
                             : back->order_last > lost->order;
            if (!later) {
                continue;
            }
            int64_t end = back->start >= lost->start ? back->start : back->end;
            if (!first || end < first_end) {
                first = back;
                first_end = end;
            }
        }
        lost->ended = first;
        if (first && (first_end > lost->end || first->clock != lost->clock)) {
            lost->end = first_end;
        }
    }
}

struct by_element {
    uint32_t run;
    rg_host_id element;
    int64_t start;
};

static int compare_by_element(const void *a, const void *b)
{
    const struct by_element *x = a;
    const struct by_element *y = b;
    if (x->element != y->element) {
        return x->element < y->element ? -1 : 1;
    }
    if (x->start != y->start) {
        return x->start < y->start ? -1 : 1;
    }
    return x->run < y->run ? -1 : x->run > y->run;
}

static void join_same_element(struct rg_correlation *correlation, const struct by_element *list,
                              size_t count)
{
    int64_t window = correlation->options.window_sec * USEC;
    for (size_t i = 0; i < count; i++) {
        /* The list is in order of start: what lies too far behind one run lies too far for all
         * later ones, unless an earlier run is long. Look back a bounded way. */
        for (size_t k = i, steps = 0; k > 0 && steps < 64; steps++) {
            k--;
            if (list[k].element != list[i].element) {
                break;
            }
            if (rg_runs_are_near(&correlation->runs[list[k].run], &correlation->runs[list[i].run],
                                 window)) {
                join(correlation, list[k].run, list[i].run);
            }
        }
    }
}

static bool is_own_fault(const struct rg_run *run)
{
    return rg_run_is_active(run) && run->trait.rank < 62 && rg_run_is_local(run) &&
           !(run->trait.flags & RG_TRAIT_PLANNED);
}

static void note_witness(struct rg_correlation *correlation, struct rg_run *run,
                         const struct rg_run *other, int64_t window)
{
    if (other->node == run->node) {
        run->answered |=
            other->trait.flags & RG_TRAIT_ANSWERED && rg_runs_are_near(run, other, 5 * USEC);
        return;
    }
    if (rg_map_resolve(&correlation->map, other->speaker) != run->element && !other->ill &&
        rg_runs_are_near(run, other, window)) {
        run->only_observer = false;
    }
}

/* A node whose own link or card failed is no witness against what it then cannot reach. */
static void note_ill(struct rg_correlation *correlation, const struct by_element *list,
                     size_t count)
{
    int64_t window = correlation->options.window_sec * USEC;
    size_t most = count < PAIRED_MAX ? count : PAIRED_MAX;
    for (size_t i = 0; i < most; i++) {
        const struct rg_run *fault = &correlation->runs[list[i].run];
        if (!is_own_fault(fault) || fault->row->layer > RG_LAYER_ADDRESS) {
            continue;
        }
        for (size_t k = 0; k < most; k++) {
            struct rg_run *run = &correlation->runs[list[k].run];
            run->ill |= run->node == fault->node && run->boot == fault->boot &&
                        fault->start <= run->end && rg_runs_are_near(run, fault, window);
        }
    }
}

static bool is_silence(const struct rg_run *run)
{
    return rg_run_is_active(run) && run->trait.flags & RG_TRAIT_SILENT &&
           run->accused != RG_ACCUSED_SELF;
}

/* Two facts about each active run: whether its element answered the node around that time, and
 * whether anybody else complains of the element then. */
static void note_witnesses(struct rg_correlation *correlation, const struct by_element *list,
                           size_t count)
{
    int64_t window = correlation->options.window_sec * USEC;
    size_t most = count < PAIRED_MAX ? count : PAIRED_MAX;
    for (size_t i = 0; i < most; i++) {
        struct rg_run *run = &correlation->runs[list[i].run];
        run->only_observer = true;
        for (size_t k = i; k > 0 && list[k - 1].element == list[i].element; k--) {
            note_witness(correlation, run, &correlation->runs[list[k - 1].run], window);
        }
        for (size_t k = i + 1; k < most && list[k].element == list[i].element; k++) {
            note_witness(correlation, run, &correlation->runs[list[k].run], window);
        }
    }
}

/* A client's complaint about a target whose server no line names. */
static bool lacks_server(struct rg_correlation *correlation, const struct rg_run *run)
{
    return run->element == rg_map_resolve(&correlation->map, run->speaker) && run->target &&
           !run->by_target && !rg_run_is_local(run);
}

static bool is_mount(const struct rg_run *run)
{
    return run->trait.flags & RG_TRAIT_MOUNT || run->row->layer == RG_LAYER_CONFIG;
}

static void join_stories(struct rg_correlation *correlation, const struct by_element *list,
                         size_t count)
{
    int64_t window = correlation->options.window_sec * USEC;
    int64_t together = window;
    size_t most = count < PAIRED_MAX ? count : PAIRED_MAX;
    for (size_t i = 0; i < most; i++) {
        const struct rg_run *a = &correlation->runs[list[i].run];
        for (size_t k = 0; k < most; k++) {
            const struct rg_run *b = &correlation->runs[list[k].run];
            if (i == k) {
                continue;
            }
            /* A node's own fault explains what only this node sees of others. */
            if (is_own_fault(a) && b->node == a->node && a->boot == b->boot &&
                b->accused != RG_ACCUSED_SELF && rg_runs_are_near(a, b, window) &&
                b->only_observer) {
                join(correlation, list[i].run, list[k].run);
            }
            /* A complaint without a server goes with what the node complains of besides; so does
             * a failed mount with what made it fail. */
            if (a->node == b->node && rg_runs_are_near(a, b, window) && !b->by_target &&
                !rg_run_accuses_client(b) &&
                ((lacks_server(correlation, a) && b->row->layer >= RG_LAYER_RPC) ||
                 (is_mount(a) && !a->nid && b->row->layer >= RG_LAYER_LND))) {
                join(correlation, list[i].run, list[k].run);
            }
            /* Faults of one device in one boot are one story, however slowly it dies. */
            if (is_own_fault(a) && is_own_fault(b) && a->device && a->device == b->device &&
                a->boot == b->boot && a->row->layer <= RG_LAYER_LINK &&
                b->row->layer <= RG_LAYER_LINK && rg_runs_are_near(a, b, INT64_C(14400) * USEC)) {
                join(correlation, list[i].run, list[k].run);
            }
            /* A server that is slow with one client's requests waits for that client, when the
             * client stopped or broke. */
            if (a->trait.flags & RG_TRAIT_SLOW && a->nid &&
                (is_own_fault(b) || b->trait.flags & RG_TRAIT_PLANNED) &&
                rg_map_host_of_nid(&correlation->map, a->nid) == b->element &&
                rg_runs_are_near(a, b, window)) {
                join(correlation, list[i].run, list[k].run);
            }
            if (k < i) {
                continue;
            }
            /* One node lost several servers at once. */
            if (is_silence(a) && is_silence(b) && a->node == b->node && !a->by_target &&
                !b->by_target && rg_runs_are_near(a, b, together) && !a->answered && !b->answered) {
                join(correlation, list[i].run, list[k].run);
            }
            /* Several servers say the same of their clients at once. */
            if (a->by_target && b->by_target && a->node == b->node &&
                a->effect == RG_EFFECT_EVICTED && b->effect == RG_EFFECT_EVICTED &&
                rg_runs_are_near(a, b, together)) {
                join(correlation, list[i].run, list[k].run);
            }
            /* A target that is served by another host now. */
            if (a->target && a->target == b->target && a->target_kind != RG_TARGET_MGS &&
                rg_runs_are_near(a, b, window)) {
                join(correlation, list[i].run, list[k].run);
            }
        }
    }
}

/* A process that hangs without another word goes with the nearest trouble of a server, if there is
 * any: with one only, or strangers would be joined through it. */
static void join_hung_tasks(struct rg_correlation *correlation, const struct by_element *list,
                            size_t count)
{
    int64_t window = correlation->options.window_sec * USEC;
    for (size_t i = 0; i < count; i++) {
        const struct rg_run *hung = &correlation->runs[list[i].run];
        if (!rg_row_is(hung->row, "K-HUNG")) {
            continue;
        }
        size_t best = count;
        int64_t nearest = INT64_MAX;
        for (size_t k = 0; k < count; k++) {
            const struct rg_run *other = &correlation->runs[list[k].run];
            if (other->node == hung->node || other->row->layer < RG_LAYER_BACKEND ||
                other->row->layer > RG_LAYER_RECOVERY || !rg_runs_are_near(hung, other, window)) {
                continue;
            }
            int64_t distance =
                hung->clock == other->clock ? llabs(hung->start - other->start) : window;
            if (distance < nearest) {
                nearest = distance;
                best = k;
            }
        }
        if (best < count) {
            join(correlation, list[i].run, list[best].run);
        }
    }
}

/* What is no trouble by itself belongs to the incident it lies in: restarts, recovery, planned work
 * on the same host or target. */
static void attach_context(struct rg_correlation *correlation)
{
    int64_t early = correlation->options.cause_early_sec * USEC;
    int64_t late = correlation->options.window_sec * USEC;
    int64_t day = INT64_C(86400) * USEC;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (rg_run_is_active(run)) {
            continue;
        }
        rg_host_id self = rg_map_resolve(&correlation->map, run->speaker);
        int64_t best = INT64_MAX;
        for (uint32_t k = 0; k < correlation->run_count; k++) {
            const struct rg_run *active = &correlation->runs[k];
            if (!rg_run_is_active(active)) {
                continue;
            }
            bool related = (run->target && run->target == active->target) ||
                           run->element == active->element || self == active->element ||
                           (run->node == active->node && run->row->layer == RG_LAYER_APPLICATION);
            bool ends_it = run->trait.flags & RG_TRAIT_STARTED &&
                           active->effect == RG_EFFECT_LOST && !active->ended &&
                           active->clock == run->clock && run->start >= active->start &&
                           run->start - active->start <= day;
            if (!related ||
                (!ends_it &&
                 !rg_runs_are_near(run, active, run->start < active->start ? early : late))) {
                continue;
            }
            int64_t distance = run->clock == active->clock ? llabs(run->start - active->start) : 0;
            if (distance < best) {
                best = distance;
                run->group = root_of(correlation, k);
                run->incident = 0;
            }
        }
    }
}

/* Who speaks of whom as of a peer, in order: settling the map asks for one target after the other.
 * What it merges meanwhile are peers that have found their host and that it asks for no more. */
struct spoken {
    uint64_t *pairs;
    size_t count;
};

static int compare_pairs(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static uint64_t pair_of(rg_host_id host, rg_host_id peer)
{
    return (uint64_t)host << 32 | peer;
}

static bool speaks_of(void *context, rg_host_id host, rg_host_id peer)
{
    const struct spoken *spoken = context;
    uint64_t pair = pair_of(host, peer);
    return bsearch(&pair, spoken->pairs, spoken->count, sizeof(pair), compare_pairs) != NULL;
}

static bool settle_map(struct rg_correlation *correlation)
{
    struct rg_map *map = &correlation->map;
    rg_autofree uint64_t *pairs = calloc(correlation->run_count + 1, sizeof(*pairs));
    if (!pairs) {
        return false;
    }
    struct spoken spoken = {.pairs = pairs};
    struct rg_words clients = {0};
    bool ok = true;
    for (uint32_t i = 0; i < correlation->run_count && ok; i++) {
        const struct rg_run *run = &correlation->runs[i];
        if (run->nid && run->nid != run->nid_local) {
            pairs[spoken.count++] =
                pair_of(rg_map_resolve(map, run->speaker), rg_map_host_of_nid(map, run->nid));
        }
        if (run->nid && run->trait.flags & RG_TRAIT_CLIENT) {
            ok = rg_words_add(&clients, run->nid);
        }
    }
    if (ok) {
        qsort(pairs, spoken.count, sizeof(*pairs), compare_pairs);
        rg_map_settle(map, clients.items, clients.count, speaks_of, &spoken);
    }
    free(clients.items);
    return ok;
}

bool rg_judge(struct rg_correlation *correlation, int *ret_count)
{
    if (!place_in_time(correlation)) {
        return false;
    }
    rg_autofree struct by_element *list = calloc(correlation->run_count + 1, sizeof(*list));
    rg_autofree int *number_of_root = calloc(correlation->run_count + 1, sizeof(*number_of_root));
    if (!list || !number_of_root || !settle_map(correlation)) {
        return false;
    }
    time_map(correlation);
    size_t count = 0;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        accuse_self(correlation, run);
        run->element = element_of(correlation, run);
        run->group = i;
        run->incident = -1;
    }
    pair_losses(correlation);
    rg_hush(correlation);
    promote_hung_tasks(correlation);
    promote_reconnects(correlation);
    promote_floods(correlation);
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *run = &correlation->runs[i];
        if (rg_run_is_active(run)) {
            list[count++] = (struct by_element){i, run->element, run->start};
        }
    }
    qsort(list, count, sizeof(*list), compare_by_element);
    note_ill(correlation, list, count);
    note_witnesses(correlation, list, count);
    join_same_element(correlation, list, count);
    join_stories(correlation, list, count);
    join_hung_tasks(correlation, list, count);
    attach_context(correlation);

    int incidents = 0;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (rg_run_is_active(run)) {
            uint32_t root = root_of(correlation, i);
            if (number_of_root[root] == 0) {
                number_of_root[root] = ++incidents;
            }
            run->incident = number_of_root[root] - 1;
        }
    }
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (!rg_run_is_active(run)) {
            run->incident =
                run->incident == 0 ? number_of_root[root_of(correlation, run->group)] - 1 : -1;
        }
    }
    *ret_count = incidents;
    return true;
}
