/* Memory to file, with the consumer beside. See deposit.h. */
#include "rdma/deposit.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"

#define WAIT_MS 10u

struct run {
    const struct rg_deposit *deposit;
    struct rg_disk *disk;
    size_t started, seen, written; /* bytes; the first two are beginnings of the object */
    uint64_t busy_since_ns;        /* 0: nothing is being written */
    uint64_t disk_ns;
};

static void close_disk(struct rg_disk **disk)
{
    rg_disk_close(*disk);
}

static void note_disk(struct run *run)
{
    bool is_busy = rg_disk_in_flight(run->disk) > 0;
    uint64_t now_ns = rg_clock_ns();
    if (run->busy_since_ns) {
        run->disk_ns += now_ns - run->busy_since_ns;
    }
    run->busy_since_ns = is_busy ? now_ns : 0;
}

static struct span piece_at(const struct run *run, size_t offset)
{
    return rg_span_head(rg_span_skip(run->deposit->bytes, offset), RG_DEPOSIT_PIECE_BYTES);
}

static void start_writes(struct run *run)
{
    const struct rg_deposit *deposit = run->deposit;
    bool any = false;
    while (run->started < deposit->bytes.len && rg_disk_in_flight(run->disk) < RG_DEPOSIT_DEPTH) {
        struct span piece = piece_at(run, run->started);
        run->busy_since_ns = run->busy_since_ns ? run->busy_since_ns : rg_clock_ns();
        rg_disk_write(run->disk, &deposit->file, deposit->file_offset + run->started, piece.ptr,
                      piece.len, piece.len);
        run->started += piece.len;
        any = true;
    }
    if (any) {
        rg_disk_submit(run->disk);
    }
}

static int end_writes(struct run *run, struct rg_error *err)
{
    struct rg_disk_done done[RG_DEPOSIT_DEPTH];
    size_t count = rg_disk_reap(run->disk, done, RG_ARRAY_LENGTH(done));
    note_disk(run);
    for (size_t i = 0; i < count; i++) {
        if (done[i].os_errno) {
            return rg_fail_storage(err, done[i].os_errno, "The file cannot be written");
        }
        if (done[i].bytes != done[i].cookie) {
            return rg_failf(err, RG_STORAGE_FAULT, "The file took fewer bytes than it was given.");
        }
        run->written += done[i].bytes;
    }
    return 0;
}

/* The next piece to the consumer, or, when it has seen all, a wait for the file. */
static int go_on(struct run *run, struct rg_error *err)
{
    const struct rg_deposit *deposit = run->deposit;
    if (run->seen == deposit->bytes.len) {
        if (run->written < deposit->bytes.len) {
            rg_disk_wait(run->disk, WAIT_MS);
        }
        return 0;
    }
    struct span piece = piece_at(run, run->seen);
    run->seen += piece.len;
    return deposit->consume ? deposit->consume(deposit->consume_context, piece, err) : 0;
}

static int move(struct run *run, struct rg_error *err)
{
    const struct rg_deposit *deposit = run->deposit;
    while (run->written < deposit->bytes.len || run->seen < deposit->bytes.len) {
        if (deposit->cancel && atomic_load_explicit(deposit->cancel, memory_order_relaxed)) {
            return rg_fail(err, RG_CANCELLED);
        }
        start_writes(run);
        int rc = go_on(run, err);
        rc = rc < 0 ? rc : end_writes(run, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int rg_deposit_run(const struct rg_deposit *deposit, struct rg_deposit_report *ret_report,
                   struct rg_error *err)
{
    RG_CLEANUP(close_disk) struct rg_disk *disk = NULL;
    uint64_t end;
    *ret_report = (struct rg_deposit_report){0};
    if (!rg_add_checked(deposit->file_offset, deposit->bytes.len, &end) || end > INT64_MAX) {
        return rg_failf(err, RG_INVALID_REQUEST, "The range lies beyond any file.");
    }
    /* One piece gains nothing from a ring. */
    bool is_long = deposit->bytes.len > RG_DEPOSIT_PIECE_BYTES;
    int rc = rg_disk_open(RG_DEPOSIT_DEPTH, deposit->allow_uring && is_long, &disk, err);
    if (rc < 0) {
        return rc;
    }
    struct run run = {.deposit = deposit, .disk = disk};
    rc = move(&run, err);
    rg_disk_drain(disk);
    note_disk(&run);
    ret_report->disk_ns = run.disk_ns;
    ret_report->direct_bytes = rg_disk_direct_bytes(disk);
    return rc;
}
