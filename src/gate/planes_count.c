/*
 * The counters of the data planes, and all that operators see of them.
 */
#include "gate/planes_inside.h"

#include "base/assert.h"
#include "base/checked.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Why a request is declined, in the order of the table below. */
static const char *const reasons[] = {
    "rdma-off",      "token-missing", "dialect-not-served", "no-transport", "rail-down",
    "no-lane",       "no-slot",       "window-too-small",   "empty-object", "below-minimum",
    "account-limit", "unreachable",   "too-slow",           "stopping",     "agent-unknown",
    "control-route", "no-session",    "session-limit",
};
#define REASON_COUNT RG_ARRAY_LENGTH(reasons)
_Static_assert(REASON_COUNT <= REASONS_MAX, "each reason has a counter");

/* ---- Counting ---- */

static void add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)counter, memory_order_relaxed);
}

void rg_planes_count_decline(struct rg_planes *planes, const char *reason)
{
    for (size_t i = 0; i < REASON_COUNT; i++) {
        if (strcmp(reasons[i], reason) == 0) {
            add(&planes->declines[i], 1);
            return;
        }
    }
    RG_UNREACHABLE();
}

static void count_success(struct rg_plane *plane, const struct rg_plane_transfer *transfer,
                          const struct rg_transfer_report *report)
{
    enum rg_dialect dialect = transfer->window->dialect;
    add(&plane->transfers[transfer->use][dialect], 1);
    add(&plane->bytes[transfer->use][dialect], report->bytes);
    add(&plane->direct_bytes[transfer->use], report->direct_bytes);
    rg_histogram_observe(&plane->seconds, (double)report->wall_ns / 1e9);
    uint64_t longer = RG_MAX(report->disk_ns, report->wire_ns);
    if (longer) {
        rg_histogram_observe(&plane->overlap, (double)report->wall_ns / (double)longer);
    }
}

/* The library's words as a label's value. */
static void copy_label(char *to, size_t room, const char *text)
{
    size_t len = 0;
    for (; text[len] && len + 1 < room; len++) {
        bool is_plain =
            text[len] >= ' ' && text[len] < 127 && text[len] != '"' && text[len] != '\\';
        to[len] = is_plain ? text[len] : '_';
    }
    to[len] = '\0';
}

static void count_status(struct rg_plane *plane, const struct rg_transfer_report *report)
{
    size_t i = 0;
    RG_MUST(pthread_mutex_lock(&plane->lock));
    while (i < plane->status_count && plane->statuses[i].status != report->provider_status) {
        i++;
    }
    if (i == PLANE_STATUSES_MAX) {
        i--; /* the last is that of all others */
        plane->statuses[i].status = -1;
        snprintf(plane->statuses[i].text, sizeof plane->statuses[i].text, "others");
    } else if (i == plane->status_count) {
        plane->statuses[i].status = report->provider_status;
        copy_label(plane->statuses[i].text, sizeof plane->statuses[i].text, report->provider_text);
        plane->status_count++;
    }
    plane->statuses[i].count++;
    RG_MUST(pthread_mutex_unlock(&plane->lock));
}

void rg_plane_count(struct rg_plane *plane, const struct rg_plane_transfer *transfer,
                    const struct rg_transfer_report *report, bool succeeded)
{
    if (succeeded) {
        count_success(plane, transfer, report);
    } else {
        add(&plane->failures[report->cause], 1);
        if (report->provider_text[0]) {
            count_status(plane, report);
        }
    }
}

/* ---- What operators see ---- */

bool rg_planes_enabled(const struct rg_planes *planes)
{
    return planes->settings->rdma != RG_RDMA_OFF;
}

size_t rg_planes_count(const struct rg_planes *planes)
{
    return planes->count;
}

void rg_planes_state(const struct rg_planes *planes, size_t i, struct rg_plane_state *ret_state)
{
    RG_ASSERT(i < planes->count);
    ret_state->kind = planes->planes[i]->kind;
    rg_pool_state(planes->planes[i]->pool, &ret_state->pool);
    rg_slab_state(planes->planes[i]->slab, &ret_state->slab);
    /* libfabric pins what it registers with a NIC, whether we have locked it or not. */
    if (ret_state->pool.up && ret_state->pool.is_hardware) {
        ret_state->slab.locked_bytes = ret_state->slab.mapped_bytes;
    }
}

static const char *const use_names[RG_PLANE_USE_COUNT] = {
    [RG_PLANE_GET] = "GetObject",
    [RG_PLANE_PUT] = "PutObject",
    [RG_PLANE_PART] = "UploadPart",
};

static void write_moved(struct rg_planes *planes, bool bytes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        const struct rg_plane *plane = planes->planes[i];
        for (int use = 0; use < RG_PLANE_USE_COUNT; use++) {
            for (int dialect = 0; dialect < RG_DIALECT_COUNT; dialect++) {
                if (!get(&plane->transfers[use][dialect])) {
                    continue;
                }
                rg_buf_addf(
                    out,
                    "%s{operation=\"%s\",dialect=\"%s\",path=\"%s\",rail=\"%zu\"} %" PRIu64 "\n",
                    name, use_names[use], rg_dialect_name((enum rg_dialect)dialect), plane->path, i,
                    get(bytes ? &plane->bytes[use][dialect] : &plane->transfers[use][dialect]));
            }
        }
    }
}

void rg_planes_write_transfers(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    write_moved(planes, false, name, out);
}

void rg_planes_write_bytes(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    write_moved(planes, true, name, out);
}

void rg_planes_write_direct(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        const struct rg_plane *plane = planes->planes[i];
        for (int use = 0; use < RG_PLANE_USE_COUNT; use++) {
            rg_buf_addf(out, "%s{operation=\"%s\",path=\"%s\",rail=\"%zu\"} %" PRIu64 "\n", name,
                        use_names[use], plane->path, i, get(&plane->direct_bytes[use]));
        }
    }
}

void rg_planes_write_declines(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < REASON_COUNT; i++) {
        if (get(&planes->declines[i])) {
            rg_buf_addf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", name, reasons[i],
                        get(&planes->declines[i]));
        }
    }
}

void rg_planes_write_failures(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        for (int cause = 0; cause < RG_CAUSE_COUNT; cause++) {
            uint64_t count = get(&planes->planes[i]->failures[cause]);
            if (count) {
                rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",cause=\"%s\"} %" PRIu64 "\n", name,
                            planes->planes[i]->path, i, rg_cause_name((enum rg_cause)cause), count);
            }
        }
    }
}

void rg_planes_write_statuses(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane *plane = planes->planes[i];
        RG_MUST(pthread_mutex_lock(&plane->lock));
        for (size_t j = 0; j < plane->status_count; j++) {
            const struct rg_plane_status *status = &plane->statuses[j];
            rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",status=\"%d\",text=\"%s\"} %" PRIu64 "\n",
                        name, plane->path, i, status->status, status->text, status->count);
        }
        RG_MUST(pthread_mutex_unlock(&plane->lock));
    }
}

static void write_histogram(const struct rg_histogram *histogram, const char *path, size_t rail,
                            const char *name, struct rg_buf *out)
{
    char labels[128];
    snprintf(labels, sizeof labels, "path=\"%s\",rail=\"%zu\"", path, rail);
    rg_histogram_write(histogram, name, labels, out);
}

void rg_planes_write_waits(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        write_histogram(&planes->planes[i]->waits, planes->planes[i]->path, i, name, out);
    }
}

void rg_planes_write_seconds(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        write_histogram(&planes->planes[i]->seconds, planes->planes[i]->path, i, name, out);
    }
}

void rg_planes_write_overlap(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        write_histogram(&planes->planes[i]->overlap, planes->planes[i]->path, i, name, out);
    }
}

void rg_planes_write_rails(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        rg_buf_addf(out,
                    "%s{path=\"%s\",rail=\"%zu\",device=\"%s\",address=\"%s\",hardware=\"%s\"} "
                    "%d\n",
                    name, planes->planes[i]->path, i, state.pool.device, state.pool.address,
                    state.pool.is_hardware ? "yes" : "no", state.pool.up);
    }
}

/* One row of a gauge that has a label "state". */
static void write_state(const struct rg_planes *planes, size_t index, const char *name,
                        const char *state, uint64_t value, struct rg_buf *out)
{
    rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",state=\"%s\"} %" PRIu64 "\n", name,
                planes->planes[index]->path, index, state, value);
}

void rg_planes_write_lanes(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        write_state(planes, i, name, "leased", state.pool.lanes_leased, out);
        write_state(planes, i, name, "open", state.pool.lanes_open, out);
        write_state(planes, i, name, "allowed", state.pool.lanes_max, out);
    }
}

void rg_planes_write_slots(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        write_state(planes, i, name, "in-use", state.slab.slots_in_use, out);
        write_state(planes, i, name, "condemned", state.slab.slots_condemned, out);
        write_state(planes, i, name, "all", state.slab.slots_total, out);
    }
}

void rg_planes_write_pinned(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\"} %" PRIu64 "\n", name,
                    planes->planes[i]->path, i, state.slab.locked_bytes);
    }
}

void rg_planes_write_slabs(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        const struct rg_plane *plane = planes->planes[i];
        struct rg_slab_state state;
        rg_slab_state(plane->slab, &state);
        write_state(planes, i, name, "mapped", state.mapped_bytes, out);
        write_state(planes, i, name, "resident", rg_slab_resident_bytes(plane->slab), out);
    }
}
