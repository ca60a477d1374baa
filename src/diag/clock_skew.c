/*
 * Offsets between nodes whose logs hold the same requests: a request's deadline as two nodes print
 * it is an edge between them, and the edges make one clock of all nodes that they reach.
 */
#include "diag/clocks.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>

#define EDGES_MAX 4096

static struct rg_clock_edge *get_edge(struct rg_clocks *clocks, rg_node_id a, rg_node_id b)
{
    for (size_t i = 0; i < clocks->edge_count; i++) {
        if (clocks->edges[i].a == a && clocks->edges[i].b == b) {
            return &clocks->edges[i];
        }
    }
    if (clocks->edge_count == clocks->edge_room) {
        size_t room = clocks->edge_room == 0 ? 16 : clocks->edge_room * 2;
        struct rg_clock_edge *grown =
            room > EDGES_MAX ? NULL : realloc(clocks->edges, room * sizeof(*grown));
        if (!grown) {
            return NULL;
        }
        clocks->edges = grown;
        clocks->edge_room = room;
    }
    struct rg_clock_edge *edge = &clocks->edges[clocks->edge_count++];
    *edge = (struct rg_clock_edge){.a = a, .b = b};
    return edge;
}

void rg_clocks_note_request(struct rg_clocks *clocks, const struct rg_event *event)
{
    const struct rg_request_tail *tail = &event->request;
    rg_node_id node = event->record->node;
    struct rg_clock_request *there =
        &clocks->requests[(tail->xid * 0x9e3779b97f4a7c15u >> 40) & (RG_CLOCK_REQUESTS - 1)];
    if (there->xid != tail->xid || there->node == node || there->node == 0) {
        *there =
            (struct rg_clock_request){.xid = tail->xid, .node = node, .deadline = tail->deadline};
        return;
    }
    int64_t later = tail->deadline - there->deadline;
    bool ordered = there->node < node;
    struct rg_clock_edge *edge =
        get_edge(clocks, ordered ? there->node : node, ordered ? node : there->node);
    if (edge && llabs(later) < 86400) {
        edge->samples[edge->seen++ % RG_EDGE_SAMPLES] = ordered ? later : -later;
        edge->count = RG_MIN(edge->count + 1, (uint32_t)RG_EDGE_SAMPLES);
    }
}

struct rg_clock_skew *rg_clocks_find_skew(const struct rg_clocks *clocks, rg_node_id node)
{
    size_t low = 0, high = clocks->skew_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (clocks->skews[middle].node < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < clocks->skew_count && clocks->skews[low].node == node ? &clocks->skews[low] : NULL;
}

static int compare_skews(const void *a, const void *b)
{
    const struct rg_clock_skew *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* One entry for every node that an edge names. */
static bool list_skews(struct rg_clocks *clocks)
{
    clocks->skews = calloc(clocks->edge_count * 2, sizeof(*clocks->skews));
    if (!clocks->skews) {
        return false;
    }
    for (size_t i = 0; i < clocks->edge_count; i++) {
        clocks->skews[2 * i].node = clocks->edges[i].a;
        clocks->skews[2 * i + 1].node = clocks->edges[i].b;
    }
    size_t count = clocks->edge_count * 2;
    qsort(clocks->skews, count, sizeof(*clocks->skews), compare_skews);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || clocks->skews[i].node != clocks->skews[i - 1].node) {
            clocks->skews[clocks->skew_count++] = clocks->skews[i];
        }
    }
    return true;
}

/* Spreads from the node with the most edges over all that it reaches, then from the next. */
static void spread_skews(struct rg_clocks *clocks)
{
    if (clocks->edge_count == 0 || !list_skews(clocks)) {
        return;
    }
    for (size_t start = 0; start < clocks->skew_count; start++) {
        if (clocks->skews[start].known) {
            continue;
        }
        clocks->skews[start].known = true;
        for (bool moved = true; moved;) {
            moved = false;
            for (size_t i = 0; i < clocks->edge_count; i++) {
                struct rg_clock_edge *edge = &clocks->edges[i];
                struct rg_clock_skew *a = rg_clocks_find_skew(clocks, edge->a);
                struct rg_clock_skew *b = rg_clocks_find_skew(clocks, edge->b);
                if (edge->count == 0 || a->known == b->known) {
                    continue;
                }
                int64_t later = rg_clocks_median(edge->samples, edge->count) * RG_SECOND;
                if (a->known) {
                    b->usec = a->usec + later;
                } else {
                    a->usec = b->usec - later;
                }
                a->known = b->known = true;
                moved = true;
            }
        }
    }
}

/* The reference is the middle of all: nodes that agree have no skew. */
static void centre_skews(struct rg_clocks *clocks)
{
    if (clocks->skew_count == 0) {
        return;
    }
    rg_autofree int64_t *values = calloc(clocks->skew_count, sizeof(*values));
    if (!values) {
        return;
    }
    for (size_t i = 0; i < clocks->skew_count; i++) {
        values[i] = clocks->skews[i].usec;
    }
    int64_t middle = rg_clocks_median(values, clocks->skew_count);
    for (size_t i = 0; i < clocks->skew_count; i++) {
        clocks->skews[i].usec -= middle;
    }
}

void rg_clocks_settle_skews(struct rg_clocks *clocks)
{
    spread_skews(clocks);
    centre_skews(clocks);
}
