/*
 * The table of clocks and their samples.
 */
#include "diag/clocks.h"

#include "diag/boots.h"

#include <stdlib.h>

#define CLOCKS_MAX      65536u
#define CLOCKS_GENEROUS 4096u /* up to here a clock keeps more samples */
#define SAMPLES_FEW     8

static uint32_t slot_of(const struct rg_clock *clocks, uint32_t room, enum rg_clock_kind kind,
                        rg_node_id node, uint32_t which)
{
    uint64_t hash = ((uint64_t)kind << 60) ^ ((uint64_t)node << 32) ^ which;
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
    uint32_t slot = (uint32_t)(hash >> 32) & (room - 1);
    while (clocks[slot].kind != 0 && (clocks[slot].kind != kind || clocks[slot].node != node ||
                                      clocks[slot].which != which)) {
        slot = (slot + 1) & (room - 1);
    }
    return slot;
}

const struct rg_clock *rg_clocks_find(const struct rg_clocks *clocks, enum rg_clock_kind kind,
                                      rg_node_id node, uint32_t which)
{
    const struct rg_clock *clock =
        &clocks->clocks[slot_of(clocks->clocks, clocks->room, kind, node, which)];
    return clock->kind != 0 && clock->count > 0 ? clock : NULL;
}

static bool grow_table(struct rg_clocks *clocks)
{
    uint32_t room = clocks->room * 2;
    struct rg_clock *grown = calloc(room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    for (uint32_t i = 0; i < clocks->room; i++) {
        const struct rg_clock *old = &clocks->clocks[i];
        if (old->kind != 0) {
            grown[slot_of(grown, room, old->kind, old->node, old->which)] = *old;
        }
    }
    free(clocks->clocks);
    clocks->clocks = grown;
    clocks->room = room;
    return true;
}

struct rg_clock *rg_clocks_get(struct rg_clocks *clocks, enum rg_clock_kind kind, rg_node_id node,
                               uint32_t which)
{
    uint32_t slot = slot_of(clocks->clocks, clocks->room, kind, node, which);
    if (clocks->clocks[slot].kind != 0) {
        return &clocks->clocks[slot];
    }
    if (clocks->count >= CLOCKS_MAX ||
        ((clocks->count + 1) * 2 > clocks->room && !grow_table(clocks))) {
        return NULL;
    }
    slot = slot_of(clocks->clocks, clocks->room, kind, node, which);
    clocks->count++;
    clocks->clocks[slot] = (struct rg_clock){
        .kind = kind, .node = node, .which = which, .evidence = RG_EVIDENCE_NONE, .stride = 1};
    return &clocks->clocks[slot];
}

static bool make_room(const struct rg_clocks *clocks, struct rg_clock *clock)
{
    if (clock->count < clock->room) {
        return true;
    }
    uint16_t most = clocks->count > CLOCKS_GENEROUS ? SAMPLES_FEW : RG_CLOCK_SAMPLES_MAX;
    if (clock->room >= most) {
        /* Full: every second one goes, and from now on fewer are taken. */
        for (uint16_t i = 0; i < clock->count / 2; i++) {
            clock->samples[i] = clock->samples[2 * i];
        }
        clock->count /= 2;
        clock->stride *= 2;
        return true;
    }
    uint16_t room = clock->room == 0 ? 4 : (uint16_t)(clock->room * 2);
    struct rg_clock_sample *grown = realloc(clock->samples, room * sizeof(*grown));
    if (!grown) {
        return clock->count > 0 && (clock->count--, true);
    }
    clock->samples = grown;
    clock->room = room;
    return true;
}

void rg_clocks_add_sample(struct rg_clocks *clocks, struct rg_clock *clock,
                          enum rg_clock_evidence evidence, int64_t stamp, int64_t offset)
{
    if (!clock || evidence > clock->evidence) {
        return;
    }
    if (evidence < clock->evidence) {
        clock->evidence = evidence;
        clock->count = 0;
        clock->seen = 0;
        clock->stride = 1;
    }
    if (clock->seen++ % clock->stride == 0 && make_room(clocks, clock)) {
        clock->samples[clock->count++] = (struct rg_clock_sample){stamp, offset};
    }
}

/* The samples of one clock are another's, too; a link is of one source. */
static void move_samples(struct rg_clocks *clocks, struct rg_clock *from, uint32_t which)
{
    const struct rg_clock moved = *from;
    from->samples = NULL;
    from->count = from->room = 0; /* and found no more */
    struct rg_clock *to = rg_clocks_get(clocks, moved.kind, moved.node, which);
    if (to && to->count == 0) {
        to->source = moved.source;
    }
    for (uint16_t i = 0; to && to->source == moved.source && i < moved.count; i++) {
        rg_clocks_add_sample(clocks, to, moved.evidence, moved.samples[i].stamp,
                             moved.samples[i].offset);
    }
    free(moved.samples);
}

void rg_clocks_join_boots(struct rg_clocks *clocks, struct rg_boots *boots)
{
    for (size_t i = 0; i < clocks->report_count; i++) {
        struct rg_clock_report *report = &clocks->reports[i];
        report->ring_boot = rg_boots_same(boots, report->node, report->ring_boot);
    }
    for (uint32_t i = 0; i < clocks->room; i++) {
        struct rg_clock *clock = &clocks->clocks[i];
        if ((clock->kind != RG_CLOCK_BOOT && clock->kind != RG_CLOCK_LINK) || clock->count == 0) {
            continue;
        }
        uint32_t which = rg_boots_same(boots, clock->node, clock->which);
        uint32_t before = clocks->room;
        if (which != clock->which) {
            move_samples(clocks, clock, which);
        }
        if (clocks->room != before) {
            i = UINT32_MAX; /* the table has moved: from 0 once more, what is done is skipped */
        }
    }
}
