#include "gate/metrics.h"

#include "gate/histogram.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Ceilings of labels; what does not fit is counted under "other". Powers of two. */
#define OPERATIONS_MAX 128u
#define PATHS_MAX      64u
#define OTHER          "other"

/* Statuses the gateway answers with; others are counted under 999. */
static const int statuses[] = {0,   200, 204, 206, 301, 304, 307, 400, 403, 404,
                               405, 408, 409, 411, 412, 413, 414, 416, 417, 431,
                               499, 500, 501, 503, 504, 505, 507, 999};
#define STATUS_COUNT RG_ARRAY_LENGTH(statuses)

static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                0.5,   1,      2.5,   5,    10,    30,   60,  300};
#define CLASS_COUNT 6 /* 0xx .. 5xx */

struct operation {
    _Atomic uint64_t by_status[STATUS_COUNT];
    struct rg_histogram by_class[CLASS_COUNT];
    _Atomic uint64_t received;
    _Atomic uint64_t sent;
    _Atomic uint64_t cut;
};

struct path {
    _Atomic uint64_t count;
    _Atomic uint64_t bytes;
};

struct rg_metrics {
    char *_Atomic operation_names[OPERATIONS_MAX + 1];
    char *_Atomic path_names[PATHS_MAX + 1];
    struct operation operations[OPERATIONS_MAX + 1]; /* the last is OTHER */
    struct path paths[PATHS_MAX + 1];
    _Atomic uint64_t errors[RG_CODE_COUNT];
};

int rg_metrics_new(struct rg_metrics **ret_metrics, struct rg_error *err)
{
    struct rg_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t slot = 0; slot <= OPERATIONS_MAX; slot++) {
        for (int class = 0; class < CLASS_COUNT; class ++) {
            rg_histogram_init(&metrics->operations[slot].by_class[class], bounds,
                              RG_ARRAY_LENGTH(bounds));
        }
    }
    *ret_metrics = metrics;
    return 0;
}

void rg_metrics_free(struct rg_metrics *metrics)
{
    if (!metrics) {
        return;
    }
    for (size_t i = 0; i < OPERATIONS_MAX; i++) {
        free(atomic_load(&metrics->operation_names[i]));
    }
    for (size_t i = 0; i < PATHS_MAX; i++) {
        free(atomic_load(&metrics->path_names[i]));
    }
    free(metrics);
}

/* ---- Counting ---- */

static uint32_t hash(const char *text)
{
    uint32_t value = 2166136261u;
    for (; *text; text++) {
        value = (value ^ (unsigned char)*text) * 16777619u;
    }
    return value;
}

/* Takes an empty slot for a name; what stands there afterwards, ours or another thread's. NULL when
 * out of memory. */
static const char *take_slot(char *_Atomic *slot, const char *name)
{
    char *copy = strdup(name);
    char *found = NULL;
    if (!copy) {
        return NULL;
    }
    if (atomic_compare_exchange_strong(slot, &found, copy)) {
        return copy;
    }
    free(copy);
    return found;
}

/* The slot of a name among `count` (a power of two); `count` itself when all are taken by others.
 */
static size_t find_slot(char *_Atomic *slots, size_t count, const char *name)
{
    size_t at = hash(name) & (count - 1);
    for (size_t i = 0; i < count; i++) {
        const char *there = atomic_load_explicit(&slots[at], memory_order_acquire);
        if (!there) {
            there = take_slot(&slots[at], name);
        }
        if (!there) {
            break;
        }
        if (strcmp(there, name) == 0) {
            return at;
        }
        at = (at + 1) & (count - 1);
    }
    return count;
}

static void add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static uint64_t get(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static size_t status_index(int status)
{
    for (size_t i = 0; i + 1 < STATUS_COUNT; i++) {
        if (statuses[i] == status) {
            return i;
        }
    }
    return STATUS_COUNT - 1;
}

void rg_metrics_count(struct rg_metrics *metrics, const struct rg_metrics_request *request)
{
    size_t slot = find_slot(metrics->operation_names, OPERATIONS_MAX, request->operation);
    struct operation *operation = &metrics->operations[slot];
    int class = request->status / 100;
    add(&operation->by_status[status_index(request->status)], 1);
    rg_histogram_observe(&operation->by_class[class >= 0 && class < CLASS_COUNT ? class : 0],
                         (double)request->total_ns / 1e9);
    add(&operation->received, request->bytes_received);
    add(&operation->sent, request->bytes_sent);
    add(&operation->cut, !request->sent_whole);
    if (request->failure > RG_OK && request->failure < RG_CODE_COUNT) {
        add(&metrics->errors[request->failure], 1);
    }
    if (request->path[0]) {
        struct path *path =
            &metrics->paths[find_slot(metrics->path_names, PATHS_MAX, request->path)];
        add(&path->count, 1);
        add(&path->bytes, request->bytes_received + request->bytes_sent + request->bytes_moved);
    }
}

/* ---- The exposition ---- */

enum family {
#define RG_FAMILY(identifier, name, type, labels, sentence) FAMILY_##identifier,
#define RG_SAMPLE(name, type, value, sentence)
#include "gate/metrics.tbl"
#undef RG_FAMILY
#undef RG_SAMPLE
    FAMILY_COUNT
};

static const struct family_info {
    const char *name;
    const char *type;
    const char *labels;
    const char *sentence;
} families[] = {
#define RG_FAMILY(identifier, name, type, labels, sentence) {name, type, labels, sentence},
#define RG_SAMPLE(name, type, value, sentence)
#include "gate/metrics.tbl"
#undef RG_FAMILY
#undef RG_SAMPLE
};

/* A label's value; backslash, quote and newline are escaped. */
static void add_label(struct rg_buf *out, const char *before, const char *label, struct span value)
{
    rg_buf_addf(out, "%s%s=\"", before, label);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\n') {
            rg_buf_add_text(out, "\\n");
            continue;
        }
        if (c == '"' || c == '\\') {
            rg_buf_add_char(out, '\\');
        }
        rg_buf_add_char(out, c);
    }
    rg_buf_add_char(out, '"');
}

static const char *operation_name(struct rg_metrics *metrics, size_t slot)
{
    return slot == OPERATIONS_MAX ? OTHER : atomic_load(&metrics->operation_names[slot]);
}

static const char *path_name(struct rg_metrics *metrics, size_t slot)
{
    return slot == PATHS_MAX ? OTHER : atomic_load(&metrics->path_names[slot]);
}

static void write_requests(struct rg_metrics *metrics, const char *name, size_t slot,
                           const char *operation, struct rg_buf *out)
{
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        uint64_t count = get(&metrics->operations[slot].by_status[i]);
        if (count) {
            rg_buf_add_text(out, name);
            add_label(out, "{", "operation", rg_span_text(operation));
            rg_buf_addf(out, ",status=\"%d\"} %" PRIu64 "\n", statuses[i], count);
        }
    }
}

static void write_histogram(const struct rg_histogram *histogram, const char *name,
                            const char *operation, int class, struct rg_buf *out)
{
    RG_BUF(labels, 1024);
    if (rg_histogram_count(histogram) == 0) {
        return;
    }
    add_label(&labels, "", "operation", rg_span_text(operation));
    rg_buf_addf(&labels, ",class=\"%dxx\"", class);
    rg_histogram_write(histogram, name, rg_buf_text(&labels), out);
}

static void write_of_operation(const char *name, const char *operation, uint64_t value,
                               struct rg_buf *out)
{
    if (value) {
        rg_buf_add_text(out, name);
        add_label(out, "{", "operation", rg_span_text(operation));
        rg_buf_addf(out, "} %" PRIu64 "\n", value);
    }
}

static void write_operations(struct rg_metrics *metrics, enum family family, const char *name,
                             struct rg_buf *out)
{
    for (size_t slot = 0; slot <= OPERATIONS_MAX; slot++) {
        struct operation *at = &metrics->operations[slot];
        const char *operation = operation_name(metrics, slot);
        if (!operation) {
            continue;
        }
        if (family == FAMILY_REQUESTS) {
            write_requests(metrics, name, slot, operation, out);
        } else if (family == FAMILY_SECONDS) {
            for (int class = 0; class < CLASS_COUNT; class ++) {
                write_histogram(&at->by_class[class], name, operation, class, out);
            }
        } else if (family == FAMILY_RECEIVED) {
            write_of_operation(name, operation, get(&at->received), out);
        } else if (family == FAMILY_SENT) {
            write_of_operation(name, operation, get(&at->sent), out);
        } else {
            write_of_operation(name, operation, get(&at->cut), out);
        }
    }
}

static void write_errors(struct rg_metrics *metrics, const char *name, struct rg_buf *out)
{
    for (int code = 0; code < RG_CODE_COUNT; code++) {
        uint64_t count = get(&metrics->errors[code]);
        if (count) {
            rg_buf_addf(out, "%s{code=\"%s\",cause=\"%s\"} %" PRIu64 "\n", name,
                        rg_code_s3_name((enum rg_code)code), rg_code_name((enum rg_code)code),
                        count);
        }
    }
}

/* "http:no-token" is path http, reason no-token, and so is "declined:no-lane". Other paths
 * ("rdma:rc", "rdma:ofi:tcp") have no reason: they were asked for. */
static void split_path(const char *text, struct span *ret_path, struct span *ret_reason)
{
    struct span rest = rg_span_text(text);
    struct span first = rg_span_cut(&rest, ':');
    bool split = rest.ptr && !rg_span_is(first, "rdma");
    *ret_path = split ? first : rg_span_text(text);
    *ret_reason = split ? rest : RG_SPAN_EMPTY;
}

static void write_transfers(struct rg_metrics *metrics, const char *name, struct rg_buf *out)
{
    for (size_t slot = 0; slot <= PATHS_MAX; slot++) {
        const char *text = path_name(metrics, slot);
        struct span path;
        struct span reason;
        if (!text || !get(&metrics->paths[slot].count)) {
            continue;
        }
        split_path(text, &path, &reason);
        rg_buf_add_text(out, name);
        add_label(out, "{", "path", path);
        add_label(out, ",", "reason", reason);
        rg_buf_addf(out, "} %" PRIu64 "\n", get(&metrics->paths[slot].count));
    }
}

/* Paths with several reasons are one here. */
static void write_transfer_bytes(struct rg_metrics *metrics, const char *name, struct rg_buf *out)
{
    struct span paths[PATHS_MAX + 1];
    uint64_t bytes[PATHS_MAX + 1];
    size_t count = 0;
    for (size_t slot = 0; slot <= PATHS_MAX; slot++) {
        const char *text = path_name(metrics, slot);
        struct span path;
        struct span reason;
        if (!text || !get(&metrics->paths[slot].count)) {
            continue;
        }
        split_path(text, &path, &reason);
        size_t at = 0;
        while (at < count && !rg_span_eq(paths[at], path)) {
            at++;
        }
        if (at == count) {
            paths[count] = path;
            bytes[count++] = 0;
        }
        bytes[at] += get(&metrics->paths[slot].bytes);
    }
    for (size_t i = 0; i < count; i++) {
        rg_buf_add_text(out, name);
        add_label(out, "{", "path", paths[i]);
        rg_buf_addf(out, "} %" PRIu64 "\n", bytes[i]);
    }
}

static const char *const copy_methods[RG_COPY_USED_COUNT] = {
    [RG_COPY_USED_NONE] = "none",
    [RG_COPY_USED_REFLINK] = "reflink",
    [RG_COPY_USED_RANGE] = "copy-range",
    [RG_COPY_USED_PLAIN] = "copy",
};

static void write_copies(const uint64_t values[RG_COPY_USED_COUNT], const char *name,
                         struct rg_buf *out)
{
    for (int i = RG_COPY_USED_NONE + 1; i < RG_COPY_USED_COUNT; i++) {
        rg_buf_addf(out, "%s{method=\"%s\"} %" PRIu64 "\n", name, copy_methods[i], values[i]);
    }
}

/* ---- Mounts ---- */

struct mount_writer {
    enum family family;
    struct rg_buf *out;
};

static void write_mount_value(const struct mount_writer *writer, const char *place,
                              const char *state, double value)
{
    rg_buf_add_text(writer->out, families[writer->family].name);
    add_label(writer->out, "{", "mount", rg_span_text(place));
    if (state) {
        add_label(writer->out, ",", "state", rg_span_text(state));
    }
    rg_buf_addf(writer->out, "} %.17g\n", value);
}

static void write_mount(void *context, const struct rg_mount_view *view)
{
    const struct mount_writer *writer = context;
    switch (writer->family) {
    case FAMILY_MOUNT_WELL:
        write_mount_value(writer, view->place, NULL, view->state == RG_MOUNT_WELL);
        break;
    case FAMILY_MOUNT_HANG_SECONDS:
        write_mount_value(writer, view->place, NULL,
                          view->state == RG_MOUNT_HANGS ? view->seconds : 0);
        break;
    default:
        write_mount_value(writer, view->place, "in_progress", view->requests);
        write_mount_value(writer, view->place, "given_up", view->given_up);
        break;
    }
}

static void write_mounts(struct rg_health *health, enum family family, struct rg_buf *out)
{
    struct mount_writer writer = {.family = family, .out = out};
    if (health) {
        rg_health_mounts(health, write_mount, &writer);
    }
}

static void write_family(struct rg_metrics *metrics, const struct rg_metrics_sample *sample,
                         enum family family, struct rg_buf *out)
{
    const char *name = families[family].name;
    switch (family) {
    case FAMILY_BUILD:
        rg_buf_add_text(out, name);
        add_label(out, "{", "version", rg_span_text(sample->version));
        rg_buf_add_text(out, "} 1\n");
        break;
    case FAMILY_ERRORS:
        write_errors(metrics, name, out);
        break;
    case FAMILY_TRANSFERS:
        write_transfers(metrics, name, out);
        break;
    case FAMILY_TRANSFER_BYTES:
        write_transfer_bytes(metrics, name, out);
        break;
    case FAMILY_COPIES:
        write_copies(sample->store.copy_count, name, out);
        break;
    case FAMILY_COPY_BYTES:
        write_copies(sample->store.copy_bytes, name, out);
        break;
    case FAMILY_MOUNT_WELL:
    case FAMILY_MOUNT_HANG_SECONDS:
    case FAMILY_MOUNT_REQUESTS:
        write_mounts(sample->health, family, out);
        break;
    default:
        write_operations(metrics, family, name, out);
        break;
    }
}

/* Families of the data planes: each has a writer in planes.h. */
static void (*const plane_writers[FAMILY_COUNT])(struct rg_planes *, const char *,
                                                 struct rg_buf *) = {
    [FAMILY_RDMA_TRANSFERS] = rg_planes_write_transfers,
    [FAMILY_RDMA_BYTES] = rg_planes_write_bytes,
    [FAMILY_RDMA_DIRECT] = rg_planes_write_direct,
    [FAMILY_RDMA_DECLINES] = rg_planes_write_declines,
    [FAMILY_RDMA_FAILURES] = rg_planes_write_failures,
    [FAMILY_RDMA_WAITS] = rg_planes_write_waits,
    [FAMILY_RDMA_SECONDS] = rg_planes_write_seconds,
    [FAMILY_RDMA_OVERLAP] = rg_planes_write_overlap,
    [FAMILY_RDMA_RAILS] = rg_planes_write_rails,
    [FAMILY_RDMA_LANES] = rg_planes_write_lanes,
    [FAMILY_RDMA_SLOTS] = rg_planes_write_slots,
    [FAMILY_RDMA_SESSIONS] = rg_planes_write_sessions,
    [FAMILY_RDMA_SESSION_EVENTS] = rg_planes_write_session_events,
    [FAMILY_RDMA_STAGING] = rg_planes_write_staging,
    [FAMILY_RDMA_STATUSES] = rg_planes_write_statuses,
    [FAMILY_RDMA_PINNED] = rg_planes_write_pinned,
    [FAMILY_RDMA_SLAB] = rg_planes_write_slabs,
};

static void write_heading(const char *name, const char *type, const char *sentence,
                          struct rg_buf *out)
{
    rg_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, sentence, name, type);
}

/* ---- The process ---- */

static uint64_t count_entries(const char *path)
{
    rg_autoclosedir DIR *dir = opendir(path);
    uint64_t count = 0;
    while (dir && readdir(dir)) {
        count++;
    }
    return count > 2 ? count - 2 : 0;
}

static uint64_t resident_bytes(void)
{
    rg_autofclose FILE *file = fopen("/proc/self/statm", "re");
    unsigned long size = 0;
    unsigned long resident = 0;
    if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2) {
        return 0;
    }
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void look_at_process(struct rg_metrics_sample *sample)
{
    struct timespec used = {0};
    struct rlimit limit = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    getrlimit(RLIMIT_NOFILE, &limit);
    sample->cpu_seconds = (double)used.tv_sec + (double)used.tv_nsec / 1e9;
    sample->resident_bytes = resident_bytes();
    sample->open_files = count_entries("/proc/self/fd");
    sample->open_files_max = limit.rlim_cur;
    sample->threads = count_entries("/proc/self/task");
}

void rg_metrics_write(struct rg_metrics *metrics, const struct rg_metrics_sample *sample,
                      struct rg_buf *out)
{
    struct rg_metrics_sample whole = *sample;
    const struct rg_metrics_sample *s = &whole;
    look_at_process(&whole);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        write_heading(families[i].name, families[i].type, families[i].sentence, out);
        if (!plane_writers[i]) {
            write_family(metrics, s, (enum family)i, out);
        } else if (s->planes) {
            plane_writers[i](s->planes, families[i].name, out);
        }
    }
#define RG_FAMILY(identifier, name, type, labels, sentence)
#define RG_SAMPLE(name, type, value, sentence)                                                     \
    write_heading(name, type, sentence, out);                                                      \
    rg_buf_addf(out, "%s %.17g\n", name, (double)(value));
#include "gate/metrics.tbl"
#undef RG_FAMILY
#undef RG_SAMPLE
}

/* ---- The reference ---- */

static void add_row(const char *name, const char *type, const char *labels, const char *sentence,
                    struct rg_buf *out)
{
    rg_buf_addf(out, "| `%s` | %s | %s | %s |\n", name, type, labels[0] ? labels : "-", sentence);
}

void rg_metrics_reference(struct rg_buf *out)
{
    rg_buf_add_text(out, "# Metrics\n\n"
                         "The admin listener answers `GET /-/metrics` in the text format of "
                         "Prometheus. Labels take only\nvalues that occurred.\n\n"
                         "| name | type | labels | meaning |\n|---|---|---|---|\n");
#define RG_FAMILY(identifier, name, type, labels, sentence)                                        \
    add_row(name, type, labels, sentence, out);
#define RG_SAMPLE(name, type, value, sentence) add_row(name, type, "", sentence, out);
#include "gate/metrics.tbl"
#undef RG_FAMILY
#undef RG_SAMPLE
    rg_buf_add_text(out, "\nBuckets of `railgate_request_seconds`, in seconds:");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bounds); i++) {
        rg_buf_addf(out, " %g", bounds[i]);
    }
    rg_buf_add_text(out, ".\n");
}
