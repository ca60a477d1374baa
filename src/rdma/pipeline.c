/*
 * The object is cut into pieces of one slot each. A piece is staged from its source (GET: the file,
 * PUT: the window) into a free slot and goes on to its sink, in order, while later pieces are being
 * staged. The thread does everything itself: it starts what can be started, then waits for
 * whichever of network and file system has something to say.
 */
#include "rdma/pipeline.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"

#include <inttypes.h>
#include <string.h>

/* Deadline and cancellation are looked at this often. */
#define SLICE_MS 10

/* The next look at a lane that took no post although nothing was outstanding (it is connecting). */
#define REFUSED_SLICE_MS 1

/* Named after what the slot waits for. */
enum slot_state { SLOT_FREE, SLOT_FOR_SOURCE, SLOT_FOR_TURN, SLOT_FOR_SINK };

struct staged {
    struct rg_slot slot;
    enum slot_state state;
    bool on_wire; /* the network may touch it */
    uint64_t piece;
};

/* Time with at least one operation in flight. */
struct busy_time {
    size_t in_flight;
    uint64_t since_ns;
    uint64_t total_ns;
};

struct run {
    const struct rg_transfer *transfer;
    struct rg_transfer_report *report;
    bool is_put;
    struct rg_file file;
    size_t slot_bytes;
    size_t skew; /* bytes before the object's in the first slot, for the alignment of O_DIRECT */
    uint64_t pieces;
    uint64_t next_source; /* piece to stage next */
    uint64_t next_sink;   /* piece to hand on next */
    struct staged slots[RG_LEASE_SLOTS_MAX];
    size_t slot_count;
    bool refused;         /* the lane took no post, and nothing has changed since */
    uint64_t deadline_ns; /* 0: none */
    struct busy_time disk, wire;
};

/* ---- Pieces ---- */

static size_t piece_skew(const struct run *run, uint64_t piece)
{
    return piece == 0 ? run->skew : 0;
}

static uint64_t piece_start(const struct run *run, uint64_t piece)
{
    return piece == 0 ? 0 : piece * run->slot_bytes - run->skew;
}

static size_t piece_length(const struct run *run, uint64_t piece)
{
    uint64_t left = run->transfer->length - piece_start(run, piece);
    return (size_t)RG_MIN(left, (uint64_t)(run->slot_bytes - piece_skew(run, piece)));
}

static void plan(struct run *run)
{
    const struct rg_transfer *transfer = run->transfer;
    run->file = transfer->file;
    run->slot_bytes = rg_slab_slot_bytes(transfer->slab);
    if (run->file.direct_fd >= 0 && run->slot_bytes % run->file.direct_align != 0) {
        run->file.direct_fd = -1;
    }
    if (run->file.direct_fd >= 0) {
        run->skew = (size_t)(transfer->file_offset % run->file.direct_align);
    }
    uint64_t staged = transfer->length + run->skew;
    run->pieces = staged / run->slot_bytes + (staged % run->slot_bytes != 0);
}

/* ---- Clocks ---- */

static void begin(struct busy_time *busy)
{
    if (busy->in_flight++ == 0) {
        busy->since_ns = rg_clock_ns();
    }
}

static void end(struct busy_time *busy)
{
    RG_ASSERT(busy->in_flight > 0);
    if (--busy->in_flight == 0) {
        busy->total_ns += rg_clock_ns() - busy->since_ns;
    }
}

static void stop_clock(struct busy_time *busy)
{
    if (busy->in_flight > 0) {
        busy->in_flight = 1;
        end(busy);
    }
}

/* ---- Starting operations ---- */

static int post(struct run *run, struct staged *staged, struct rg_error *err)
{
    const struct rg_transfer *transfer = run->transfer;
    uint64_t region_offset = staged->slot.region_offset + piece_skew(run, staged->piece);
    uint64_t window_offset = transfer->window_offset + piece_start(run, staged->piece);
    size_t length = piece_length(run, staged->piece);
    uint64_t cookie = (uint64_t)(staged - run->slots);
    struct rg_region *region = rg_slab_region(transfer->slab);
    struct rg_error error; /* "not now" is no error of the transfer's */
    int rc = run->is_put ? rg_lane_read(transfer->lane, region, region_offset, window_offset,
                                        length, cookie, &error)
                         : rg_lane_write(transfer->lane, region, region_offset, window_offset,
                                         length, cookie, &error);
    if (rc == 0) {
        staged->on_wire = true;
        run->report->touched = true;
        begin(&run->wire);
    }
    run->refused = run->refused || rc == -RG_LIMIT;
    if (rc < 0 && rc != -RG_LIMIT && err) {
        *err = error;
    }
    return rc;
}

static void start_file(struct run *run, struct staged *staged)
{
    const struct rg_transfer *transfer = run->transfer;
    size_t skew = piece_skew(run, staged->piece);
    size_t length = piece_length(run, staged->piece);
    uint64_t offset = transfer->file_offset + piece_start(run, staged->piece);
    uint64_t cookie = (uint64_t)(staged - run->slots);
    begin(&run->disk);
    if (run->is_put) {
        rg_disk_write(transfer->disk, &run->file, offset, (char *)staged->slot.address + skew,
                      length, cookie);
    } else {
        /* From the aligned offset before it, so that the whole piece can go O_DIRECT. */
        rg_disk_read(transfer->disk, &run->file, offset - skew, staged->slot.address, length + skew,
                     staged->slot.bytes, cookie);
    }
    rg_disk_submit(transfer->disk);
}

/* Starts the source side or the sink side of a piece. RG_LIMIT: the lane takes nothing now. */
static int start_side(struct run *run, struct staged *staged, bool wire, enum slot_state next,
                      struct rg_error *err)
{
    if (wire) {
        int rc = post(run, staged, err);
        if (rc < 0) {
            return rc;
        }
    } else {
        start_file(run, staged);
    }
    staged->state = next;
    return 0;
}

static int consume(struct run *run, const struct staged *staged, struct rg_error *err)
{
    const struct rg_transfer *transfer = run->transfer;
    if (!transfer->consume) {
        return 0;
    }
    uint64_t start = rg_clock_ns();
    const char *bytes = (char *)staged->slot.address + piece_skew(run, staged->piece);
    int rc = transfer->consume(transfer->consume_context,
                               rg_span(bytes, piece_length(run, staged->piece)), err);
    run->report->consume_ns += rg_clock_ns() - start;
    return rc;
}

static struct staged *find_free(struct run *run)
{
    for (size_t i = 0; i < run->slot_count; i++) {
        if (run->slots[i].state == SLOT_FREE) {
            return &run->slots[i];
        }
    }
    return NULL;
}

static struct staged *find_turn(struct run *run)
{
    for (size_t i = 0; i < run->slot_count; i++) {
        if (run->slots[i].state == SLOT_FOR_TURN && run->slots[i].piece == run->next_sink) {
            return &run->slots[i];
        }
    }
    return NULL;
}

/* Stages the next piece, when there is a slot for it and, on the network, a place. */
static int start_source(struct run *run, bool *ret_any, struct rg_error *err)
{
    struct staged *staged = run->next_source < run->pieces ? find_free(run) : NULL;
    *ret_any = false;
    if (!staged || (run->is_put && run->refused)) {
        return 0;
    }
    staged->piece = run->next_source;
    int rc = start_side(run, staged, run->is_put, SLOT_FOR_SOURCE, err);
    if (rc < 0) {
        return rc == -RG_LIMIT ? 0 : rc;
    }
    run->next_source++;
    *ret_any = true;
    return 0;
}

/* Hands the next piece on, when it is there. */
static int start_sink(struct run *run, bool *ret_any, struct rg_error *err)
{
    struct staged *staged = find_turn(run);
    *ret_any = false;
    if (!staged || (!run->is_put && run->refused)) {
        return 0;
    }
    int rc = start_side(run, staged, !run->is_put, SLOT_FOR_SINK, err);
    if (rc < 0) {
        return rc == -RG_LIMIT ? 0 : rc;
    }
    run->next_sink++;
    *ret_any = true;
    /* Meanwhile the bytes are on their way; they are only read, on both sides. */
    return consume(run, staged, err);
}

/*
 * Starts one operation of either kind. The network's comes first: it needs this thread no more, but
 * a file operation may (what is in the page cache is copied by whoever asks for it), and so does
 * the consumer. One of each, so that the network is looked at again after every piece.
 */
static int start_one_each(struct run *run, bool *ret_any, struct rg_error *err)
{
    bool first = false;
    bool second = false;
    int rc = run->is_put ? start_source(run, &first, err) : start_sink(run, &first, err);
    if (rc == 0) {
        rc = run->is_put ? start_sink(run, &second, err) : start_source(run, &second, err);
    }
    *ret_any = rc == 0 && (first || second);
    return rc;
}

/* ---- Ending operations ---- */

static void advance(struct run *run, struct staged *staged)
{
    if (staged->state == SLOT_FOR_SOURCE) {
        staged->state = SLOT_FOR_TURN;
        return;
    }
    RG_ASSERT(staged->state == SLOT_FOR_SINK);
    run->report->bytes += piece_length(run, staged->piece);
    staged->state = SLOT_FREE;
}

static int end_post(struct run *run, const struct rg_completion *completion, struct rg_error *err)
{
    RG_ASSERT(completion->cookie < run->slot_count);
    struct staged *staged = &run->slots[completion->cookie];
    staged->on_wire = false;
    end(&run->wire);
    if (completion->broke != RG_BROKE_NOTHING) {
        run->report->cause = completion->cause;
        run->report->provider_status = completion->provider_status;
        memcpy(run->report->provider_text, completion->provider_text,
               sizeof run->report->provider_text);
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The RDMA transfer failed: %s (%s, %d).",
                        rg_cause_sentence(completion->cause),
                        completion->provider_text[0] ? completion->provider_text : "no details",
                        completion->provider_status);
    }
    if (completion->length != piece_length(run, staged->piece)) {
        run->report->cause = RG_CAUSE_SHORT;
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The RDMA transfer failed: %s.",
                        rg_cause_sentence(RG_CAUSE_SHORT));
    }
    advance(run, staged);
    return 0;
}

static int end_file(struct run *run, const struct rg_disk_done *done, struct rg_error *err)
{
    RG_ASSERT(done->cookie < run->slot_count);
    struct staged *staged = &run->slots[done->cookie];
    size_t wanted = piece_length(run, staged->piece);
    if (!run->is_put) {
        wanted += piece_skew(run, staged->piece);
    }
    end(&run->disk);
    if (done->os_errno || done->bytes != wanted) {
        run->report->cause = RG_CAUSE_STORAGE;
    }
    if (done->os_errno) {
        return rg_fail_storage(err, done->os_errno, "The file cannot be %s",
                               run->is_put ? "written" : "read");
    }
    if (done->bytes != wanted) {
        return rg_failf(err, RG_STORAGE_FAULT, "The file ended early, near offset %" PRIu64 ".",
                        run->transfer->file_offset + piece_start(run, staged->piece) + done->bytes);
    }
    advance(run, staged);
    return 0;
}

static int end_files(struct run *run, bool *ret_any, struct rg_error *err)
{
    struct rg_disk_done done[RG_LEASE_SLOTS_MAX];
    size_t count = rg_disk_reap(run->transfer->disk, done, RG_ARRAY_LENGTH(done));
    for (size_t i = 0; i < count; i++) {
        int rc = end_file(run, &done[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_any = count > 0;
    return 0;
}

static unsigned long long busy_ms(const struct busy_time *busy)
{
    uint64_t now_ns = busy->in_flight > 0 ? rg_clock_ns() - busy->since_ns : 0;
    return (unsigned long long)(busy->total_ns + now_ns) / 1000000;
}

static int check_time(const struct run *run, struct rg_error *err)
{
    const struct rg_transfer *transfer = run->transfer;
    if (transfer->cancel && atomic_load_explicit(transfer->cancel, memory_order_relaxed)) {
        return rg_fail(err, RG_CANCELLED);
    }
    if (run->deadline_ns && rg_clock_ns() >= run->deadline_ns) {
        return rg_failf(err, RG_TIMED_OUT,
                        "The transfer did not end within its time: %" PRIu64 " of %" PRIu64
                        " bytes in %" PRIu32 " ms, with the file busy for %llu ms and the network "
                        "for %llu ms.",
                        run->report->bytes, transfer->length, transfer->budget_ms,
                        busy_ms(&run->disk), busy_ms(&run->wire));
    }
    return 0;
}

static int end_posts(struct run *run, const struct rg_completion *ended, size_t count,
                     struct rg_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int rc = end_post(run, &ended[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Takes what the network has done; waits for that, or for `wake_fd`, if `timeout_ms` is not 0. */
static int take_posts(struct run *run, int wake_fd, uint32_t timeout_ms, struct rg_error *err)
{
    struct rg_completion ended[RG_LEASE_SLOTS_MAX];
    struct rg_error error;
    size_t count = 0;
    int rc = rg_lane_wait(run->transfer->lane, ended, RG_ARRAY_LENGTH(ended), wake_fd, timeout_ms,
                          &count, &error);
    if (count > 0 || timeout_ms > 0) {
        run->refused = false;
    }
    if (rc == -RG_TIMED_OUT) {
        return 0;
    }
    if (rc < 0) {
        if (err) {
            *err = error;
        }
        return rc;
    }
    return end_posts(run, ended, count, err);
}

/* Waits until network or file system have moved on, or a slice of time is over. */
static int wait_for_any(struct run *run, struct rg_error *err)
{
    const struct rg_transfer *transfer = run->transfer;
    bool is_idle = transfer->lane->outstanding == 0;
    if (is_idle && !run->refused) {
        rg_disk_wait(transfer->disk, SLICE_MS);
        return 0;
    }
    int wake_fd = rg_disk_in_flight(transfer->disk) > 0 ? rg_disk_fd(transfer->disk) : -1;
    return take_posts(run, wake_fd, is_idle ? REFUSED_SLICE_MS : SLICE_MS, err);
}

static int move(struct run *run, struct rg_error *err)
{
    while (run->report->bytes < run->transfer->length) {
        bool started = false;
        bool ended = false;
        int rc = check_time(run, err);
        if (rc == 0) {
            rc = start_one_each(run, &started, err);
        }
        if (rc == 0) {
            rc = end_files(run, &ended, err);
        }
        bool is_over = run->report->bytes == run->transfer->length;
        if (rc == 0 && (started || ended) && !is_over) {
            rc = check_time(run, err); /* a file operation made at once may have hung */
        }
        if (rc == 0 && !is_over) {
            rc = started || ended ? take_posts(run, -1, 0, err) : wait_for_any(run, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- Begin and end ---- */

static int lease_slots(struct run *run, struct rg_error *err)
{
    const struct rg_transfer *transfer = run->transfer;
    size_t want = RG_MIN(transfer->slots, (size_t)RG_LEASE_SLOTS_MAX);
    want = (size_t)RG_MIN((uint64_t)want, run->pieces);
    want = RG_MAX(want, (size_t)1);
    uint32_t wait_ms = transfer->queue_ms;
    if (transfer->budget_ms) {
        wait_ms = RG_MIN(wait_ms, transfer->budget_ms);
    }
    struct rg_slot slots[RG_LEASE_SLOTS_MAX];
    uint64_t start = rg_clock_ns();
    int rc = rg_slab_lease(transfer->slab, 1, want, wait_ms, slots, &run->slot_count, err);
    run->report->slot_wait_ns = rg_clock_ns() - start;
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < run->slot_count; i++) {
        run->slots[i].slot = slots[i];
    }
    run->report->slots = run->slot_count;
    return 0;
}

/* Gives the slots back; those the network might still touch are condemned. */
static void release_slots(struct run *run, bool is_quiet)
{
    for (size_t i = 0; i < run->slot_count; i++) {
        if (run->slots[i].on_wire && !is_quiet) {
            rg_slab_condemn(run->transfer->slab, &run->slots[i].slot, 1);
        } else {
            rg_slab_return(run->transfer->slab, &run->slots[i].slot, 1);
        }
    }
    run->slot_count = 0;
}

/*
 * Whether the time was over long ago: a file operation made at once, or the consumer, took it. The
 * request may have been answered since, so what is under way is not given a grace.
 */
static bool is_late(const struct run *run)
{
    uint64_t grace_ns = (uint64_t)RG_FLUSH_GRACE_MS * 1000000;
    return run->deadline_ns && rg_clock_ns() >= run->deadline_ns + grace_ns;
}

/*
 * The lane is flushed before the file system is waited for: whatever hangs there, the peer's memory
 * is safe from here on.
 */
static void abandon(struct run *run, int rc)
{
    struct rg_lane *lane = run->transfer->lane;
    struct rg_transfer_report *report = run->report;
    report->broke = lane->broke;
    if (report->cause == RG_CAUSE_NONE) {
        report->cause = rg_cause_of(lane, rc, RG_CAUSE_OTHER);
    }
    unsigned quiet = 0;
    int flushed =
        is_late(run) ? rg_lane_cut(lane, &quiet, NULL) : rg_lane_flush(lane, &quiet, NULL);
    if (flushed < 0) {
        quiet = 0;
    }
    report->quiet = quiet;
    rg_disk_drain(run->transfer->disk);
    release_slots(run, quiet & RG_QUIET_LOCAL);
}

static int check_transfer(const struct rg_transfer *transfer, struct rg_error *err)
{
    RG_ASSERT(transfer->lane && transfer->disk && transfer->slab && transfer->window);
    RG_ASSERT(transfer->lane->outstanding == 0 && rg_disk_in_flight(transfer->disk) == 0);
    RG_ASSERT(rg_slab_region(transfer->slab));
    uint64_t end, file_end;
    if (transfer->length == 0 || !rg_add_checked(transfer->window_offset, transfer->length, &end) ||
        end > transfer->window->length) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "%" PRIu64 " bytes do not fit the client's window.", transfer->length);
    }
    if (!rg_add_checked(transfer->file_offset, transfer->length, &file_end) ||
        file_end > INT64_MAX) {
        return rg_failf(err, RG_INVALID_REQUEST, "The range lies beyond any file.");
    }
    return 0;
}

static int run_transfer(const struct rg_transfer *transfer, bool is_put,
                        struct rg_transfer_report *report, struct rg_error *err)
{
    *report = (struct rg_transfer_report){.quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE};
    uint64_t begun = rg_clock_ns();
    int rc = check_transfer(transfer, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_lane_bind(transfer->lane, transfer->window, err);
    if (rc < 0) {
        report->broke = transfer->lane->broke;
        report->cause = transfer->lane->cause;
        return rc;
    }
    struct run run = {.transfer = transfer, .report = report, .is_put = is_put};
    if (transfer->budget_ms) {
        run.deadline_ns = begun + (uint64_t)transfer->budget_ms * 1000000;
    }
    plan(&run);
    rc = lease_slots(&run, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t fallbacks = rg_disk_fallbacks(transfer->disk);
    uint64_t direct_bytes = rg_disk_direct_bytes(transfer->disk);
    uint64_t start = rg_clock_ns();
    rc = move(&run, err);
    report->wall_ns = rg_clock_ns() - start;
    stop_clock(&run.disk);
    stop_clock(&run.wire);
    report->disk_ns = run.disk.total_ns;
    report->wire_ns = run.wire.total_ns;
    if (rc < 0) {
        abandon(&run, rc);
    } else {
        release_slots(&run, true);
    }
    report->disk_fallbacks = rg_disk_fallbacks(transfer->disk) - fallbacks;
    report->direct_bytes = rg_disk_direct_bytes(transfer->disk) - direct_bytes;
    return rc;
}

int rg_pipeline_get(const struct rg_transfer *transfer, struct rg_transfer_report *report,
                    struct rg_error *err)
{
    return run_transfer(transfer, false, report, err);
}

int rg_pipeline_put(const struct rg_transfer *transfer, struct rg_transfer_report *report,
                    struct rg_error *err)
{
    return run_transfer(transfer, true, report, err);
}
