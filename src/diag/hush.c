/*
 * Faults that are none where they stand: a port without link while its node boots or is taken down,
 * reads through the stand-by path of a disk array, a route that nobody needs. They lose their
 * effect, and come along with an incident as its company at most.
 *
 * Never hushed is what something else on the node may be the consequence of.
 */
#include "base/checked.h"
#include "diag/correlation.h"

#include <string.h>

#define USEC          INT64_C(1000000)
#define STARTING_USEC (180 * USEC) /* until the ports of a booting node are up */
#define STOPPING_USEC (300 * USEC) /* from the order on, until the node is down */
#define PATH_USEC     (60 * USEC)
#define ABSENT_USEC   (3600 * USEC) /* a loss so long before the boot is another story */

#define MISSED_MAX 64 /* runs whose node is asked how long its log goes on */

/* A missing route to a NID whose host is spoken with on another LNet network is a leftover, unless
 * a mount wanted that very NID. */
static void hush_routes(struct rg_correlation *correlation)
{
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (!rg_row_is(run->row, "LN-NOROUTE") || !run->nid) {
            continue;
        }
        rg_host_id host = rg_map_host_of_nid(&correlation->map, run->nid);
        bool leftover = rg_map_host(&correlation->map, host)->nid_count > 1;
        for (uint32_t k = 0; k < correlation->run_count && leftover; k++) {
            const struct rg_run *other = &correlation->runs[k];
            leftover = other == run || other->nid != run->nid || other->node != run->node;
        }
        if (leftover) {
            run->effect = RG_EFFECT_NONE;
        }
    }
}

/* The kernel's own first lines, not those of Lustre's modules. */
static bool is_kernel_start(const struct rg_correlation *correlation, const struct rg_run *run)
{
    for (size_t i = 0; i < run->quote_count && rg_row_is(run->row, "K-BOOT"); i++) {
        const char *quote = rg_pool_text(&correlation->pool, run->quotes[i]);
        if (strstr(quote, "Linux version") || strstr(quote, "Command line:")) {
            return true;
        }
    }
    return false;
}

static bool is_of_boot(const struct rg_run *run, const struct rg_run *other)
{
    return other->node == run->node && other->boot == run->boot && other->clock == run->clock;
}

/* Runs that a port is looked up among, chained by their `turn`: index + 1, 0 ends it. A log of many
 * ports is gone through once, not once for each of them. */
struct turns {
    uint32_t starts; /* of kernels */
    uint32_t orders; /* to stop LNet, or the node */
};

static struct turns find_turns(struct rg_correlation *correlation)
{
    struct turns turns = {0};
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        uint32_t *chain = is_kernel_start(correlation, run) ? &turns.starts
                          : rg_row_is(run->row, "LN-STOPPED") || rg_row_is(run->row, "K-SHUTDOWN")
                              ? &turns.orders
                              : NULL;
        if (chain) {
            run->turn = *chain;
            *chain = i + 1;
        }
    }
    return turns;
}

/* The whole run lies where ports are without link by themselves: after the start of the node's
 * boot. */
static bool is_starting(const struct rg_correlation *correlation, uint32_t starts,
                        const struct rg_run *run)
{
    /* Not start and end: those may lie beside another node's clock. */
    if (run->when_first.kind == RG_WHEN_BOOT && run->when_last.kind == RG_WHEN_BOOT &&
        run->when_last.usec <= STARTING_USEC) {
        return true;
    }
    for (uint32_t at = starts; at; at = correlation->runs[at - 1].turn) {
        const struct rg_run *other = &correlation->runs[at - 1];
        if (is_of_boot(run, other) && run->start >= other->start &&
            run->end - other->start <= STARTING_USEC) {
            return true;
        }
    }
    return false;
}

/* Or after the order to stop. A node that goes down says so until it is down; LNet can be stopped
 * more than once. */
static bool is_stopping(const struct rg_correlation *correlation, uint32_t orders,
                        const struct rg_run *run)
{
    for (uint32_t at = orders; at; at = correlation->runs[at - 1].turn) {
        const struct rg_run *other = &correlation->runs[at - 1];
        bool lnet = rg_row_is(other->row, "LN-STOPPED");
        if (is_of_boot(run, other) && run->start >= other->start &&
            run->end - (lnet ? other->start : other->end) <= STOPPING_USEC) {
            return true;
        }
    }
    return false;
}

static bool came_up(const struct rg_correlation *correlation, const struct rg_run *run)
{
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *other = &correlation->runs[i];
        if (other->effect == RG_EFFECT_RESTORED && rg_row_is(other->row, "NET-LINK") &&
            other->device == run->device && is_of_boot(run, other) && other->end >= run->end) {
            return true;
        }
    }
    return false;
}

/* `other`, of another node, shows that the node was missed for longer than its boot took: a
 * connection that never came back, or requests that still fail a window later. */
static bool misses(const struct rg_run *other, const struct rg_run *run, int64_t window)
{
    if (other->clock != run->clock || run->clock < 0) {
        return other->effect == RG_EFFECT_LOST && !other->ended;
    }
    if (other->effect == RG_EFFECT_LOST) {
        return !other->ended && other->start - run->end <= window &&
               run->start - other->end <= ABSENT_USEC;
    }
    return other->end - run->end > window && rg_runs_are_near(run, other, window);
}

/* Whether the log of the node of `run` goes on for longer than a boot takes after `usec`, of the
 * clock of `run`. */
static bool is_told_long_after(const struct rg_correlation *correlation, const struct rg_run *run,
                               int64_t usec)
{
    const struct rg_correlation_sources *sources = &correlation->sources;
    int64_t rest = STARTING_USEC - (run->end - usec);
    uint32_t place = /* + 1 */
        run->node < RG_MAP_HOSTS_MAX ? correlation->seen_of_node[run->node] : 0;
    if (rest < 0) {
        return true;
    }
    for (int kind = RG_STAMP_NONE + 1; place && sources->when && kind < RG_STAMP_KINDS; kind++) {
        const struct rg_moment_seen *seen = &correlation->seen[place - 1].last[kind];
        struct rg_when last =
            sources->when(sources->context, &seen->stamp, run->node, seen->boot, seen->source);
        /* What laid the run's clock beside others holds for the whole log. */
        int64_t after;
        if (seen->boot == run->boot && last.kind == run->when_last.kind &&
            rg_sub_checked(last.usec, run->when_last.usec, &after) && after > rest) {
            return true;
        }
    }
    return false;
}

/* The node booted, its port stays without link, and others go on missing the node. `ret_long` is
 * set when they are seen to for longer than a boot takes. */
static bool is_missed(const struct rg_correlation *correlation, const struct rg_run *run,
                      bool *ret_long)
{
    *ret_long = false;
    if (came_up(correlation, run)) {
        return false;
    }
    int64_t window = correlation->options.window_sec * USEC;
    uint32_t missed = 0;
    for (uint32_t i = 0; i < correlation->run_count && missed < MISSED_MAX && !*ret_long; i++) {
        const struct rg_run *other = &correlation->runs[i];
        if (other->node != run->node && other->element == run->element && rg_run_is_active(other) &&
            !(other->trait.flags & RG_TRAIT_PORT) && misses(other, run, window)) {
            missed++;
            *ret_long =
                other->clock == run->clock && is_told_long_after(correlation, other, run->end);
        }
    }
    return missed > 0;
}

/* Something on the node may be the consequence of it. A damaged module is none. */
static bool has_company(const struct rg_correlation *correlation, const struct rg_run *run)
{
    int64_t window = correlation->options.window_sec * USEC;
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *other = &correlation->runs[i];
        if (other->node == run->node && rg_run_is_active(other) &&
            !(other->trait.flags & RG_TRAIT_PORT) && !rg_row_is(other->row, "ML-PORTMOD") &&
            rg_runs_are_near(run, other, window)) {
            return true;
        }
    }
    return false;
}

static void hush_ports(struct rg_correlation *correlation)
{
    struct turns turns = find_turns(correlation);
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        struct rg_run *run = &correlation->runs[i];
        if (!(run->trait.flags & RG_TRAIT_PORT) || run->effect != RG_EFFECT_FAULT ||
            run->clock < 0) {
            continue;
        }
        bool at_rest = is_stopping(correlation, turns.orders, run);
        if (!at_rest && is_starting(correlation, turns.starts, run)) {
            bool for_long;
            at_rest = !is_missed(correlation, run, &for_long);
            if (for_long) {
                run->trait.flags |= RG_TRAIT_LATE; /* the reason why the node did not come back */
            }
        }
        if (at_rest && !has_company(correlation, run)) {
            run->effect = RG_EFFECT_NONE;
        }
    }
}

/* From a little before the first answer of the path to a little after its last. */
static bool lies_within(const struct rg_run *run, const struct rg_run *passive)
{
    return run->clock == passive->clock && run->clock >= 0 &&
           run->start >= passive->start - PATH_USEC && run->end <= passive->end + PATH_USEC;
}

/* Reads through a path that is on stand-by fail; the disk is well. What is no read (the detail of
 * the run) is never hushed: a medium error is the disk's own, and a lost write is lost. */
static void hush_passive_paths(struct rg_correlation *correlation)
{
    for (uint32_t i = 0; i < correlation->run_count; i++) {
        const struct rg_run *passive = &correlation->runs[i];
        if (!rg_row_is(passive->row, "BE-PASSIVE") || !passive->device) {
            continue;
        }
        for (uint32_t k = 0; k < correlation->run_count; k++) {
            struct rg_run *run = &correlation->runs[k];
            if (rg_row_is(run->row, "BE-DISK") && run->device == passive->device &&
                run->node == passive->node && run->boot == passive->boot && !run->detail &&
                lies_within(run, passive)) {
                run->effect = RG_EFFECT_NONE;
            }
        }
    }
}

void rg_hush(struct rg_correlation *correlation)
{
    hush_routes(correlation);
    hush_passive_paths(correlation);
    hush_ports(correlation); /* last: what is hushed is no company */
}
