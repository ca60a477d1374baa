/*
 * Reads and writes of one transfer. Each operation is a small machine that is carried on until all
 * its bytes have moved: a piece at a time, O_DIRECT where the piece is aligned, else through the
 * page cache. Without io_uring the same pieces go through pread and pwrite at once.
 */
#include "rdma/disk.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANCEL_COOKIE UINT64_MAX

/* The kernel moves at most this much in one call; staying below keeps lengths in 32 bits. */
#define PIECE_MAX ((size_t)1 << 30)

struct operation {
    bool busy;
    bool is_write;
    bool is_direct; /* the piece in flight */
    bool avoid_direct;
    struct rg_file file;
    uint64_t offset;
    char *memory;
    size_t length, room, done;
    size_t piece; /* bytes of the piece in flight */
    uint64_t cookie;
};

struct rg_disk {
    bool is_async;
    bool draining; /* operations end with their current piece */
    struct io_uring ring;
    unsigned depth;
    size_t in_flight; /* started, result not yet reaped */
    size_t in_ring;   /* of these, in the ring's hands */
    struct operation operations[RG_DISK_DEPTH_MAX];
    struct rg_disk_done done[RG_DISK_DEPTH_MAX];
    size_t done_count;
    uint64_t fallbacks;
    uint64_t direct_bytes;
};

int rg_disk_open(unsigned depth, bool allow_uring, struct rg_disk **ret_disk, struct rg_error *err)
{
    RG_ASSERT(depth >= 1 && depth <= RG_DISK_DEPTH_MAX);
    struct rg_disk *disk = calloc(1, sizeof *disk);
    if (!disk) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    disk->depth = depth;
    /* Twice: cancellations need places too. */
    disk->is_async = allow_uring && io_uring_queue_init(2 * depth, &disk->ring, 0) == 0;
    *ret_disk = disk;
    return 0;
}

void rg_disk_close(struct rg_disk *disk)
{
    if (!disk) {
        return;
    }
    RG_ASSERT(disk->in_ring == 0);
    if (disk->is_async) {
        io_uring_queue_exit(&disk->ring);
    }
    free(disk);
}

bool rg_disk_is_async(const struct rg_disk *disk)
{
    return disk->is_async;
}

int rg_disk_fd(const struct rg_disk *disk)
{
    return disk->is_async ? disk->ring.ring_fd : -1;
}

size_t rg_disk_in_flight(const struct rg_disk *disk)
{
    return disk->in_flight;
}

uint64_t rg_disk_fallbacks(const struct rg_disk *disk)
{
    return disk->fallbacks;
}

uint64_t rg_disk_direct_bytes(const struct rg_disk *disk)
{
    return disk->direct_bytes;
}

static void finish(struct rg_disk *disk, struct operation *operation, int os_errno)
{
    RG_ASSERT(disk->done_count < disk->depth);
    disk->done[disk->done_count++] = (struct rg_disk_done){
        .cookie = operation->cookie,
        .bytes = operation->done,
        .os_errno = os_errno,
    };
    operation->busy = false;
}

/* ---- The next piece ---- */

static size_t direct_piece(const struct operation *operation, size_t left)
{
    size_t align = operation->file.direct_align;
    uint64_t offset = operation->offset + operation->done;
    uintptr_t memory = (uintptr_t)operation->memory + operation->done;
    if (operation->file.direct_fd < 0 || operation->avoid_direct || offset % align ||
        memory % align) {
        return 0;
    }
    size_t down = left / align * align;
    size_t up = (left + align - 1) / align * align;
    if (!operation->is_write && up <= operation->room - operation->done) {
        return up;
    }
    return down;
}

static void choose_piece(struct operation *operation)
{
    size_t left = RG_MIN(operation->length - operation->done, PIECE_MAX);
    size_t direct = direct_piece(operation, left);
    operation->is_direct = direct > 0;
    operation->piece = direct > 0 ? direct : left;
}

static int piece_fd(const struct operation *operation)
{
    return operation->is_direct ? operation->file.direct_fd : operation->file.fd;
}

/* Enters a piece's result; true when the operation is over. */
static bool carry_on(struct rg_disk *disk, struct operation *operation, ssize_t moved)
{
    if (moved < 0) {
        finish(disk, operation, (int)-moved);
        return true;
    }
    if (moved == 0) {
        /* The end of a file that is read; a write that moves nothing would go on for ever. */
        finish(disk, operation, operation->is_write ? EIO : 0);
        return true;
    }
    size_t before = operation->done;
    operation->done = RG_MIN(operation->done + (size_t)moved, operation->length);
    if (operation->is_direct) {
        disk->direct_bytes += operation->done - before;
    }
    if (operation->done == operation->length) {
        finish(disk, operation, 0);
        return true;
    }
    if (disk->draining) {
        finish(disk, operation, ECANCELED);
        return true;
    }
    return false;
}

static bool is_refusal(ssize_t result)
{
    return result == -EINVAL || result == -EOPNOTSUPP || result == -EAGAIN || result == -EINTR ||
           result == -ENOSYS;
}

/* What O_DIRECT refuses, the page cache takes: for the rest of this operation. */
static bool leave_direct(struct operation *operation, ssize_t result)
{
    if (!operation->is_direct || !is_refusal(result)) {
        return false;
    }
    operation->avoid_direct = true;
    return true;
}

static ssize_t move_now(const struct operation *operation)
{
    char *memory = operation->memory + operation->done;
    off_t offset = (off_t)(operation->offset + operation->done);
    ssize_t moved;
    do {
        moved = operation->is_write ? pwrite(piece_fd(operation), memory, operation->piece, offset)
                                    : pread(piece_fd(operation), memory, operation->piece, offset);
    } while (moved < 0 && errno == EINTR);
    return moved < 0 ? -errno : moved;
}

/* Without the ring, until the operation is over. */
static void run_now(struct rg_disk *disk, struct operation *operation)
{
    for (;;) {
        choose_piece(operation);
        ssize_t moved = move_now(operation);
        if (!leave_direct(operation, moved) && carry_on(disk, operation, moved)) {
            return;
        }
    }
}

static void queue_piece(struct rg_disk *disk, struct operation *operation)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&disk->ring);
    if (!sqe) {
        disk->fallbacks++;
        run_now(disk, operation);
        return;
    }
    choose_piece(operation);
    char *memory = operation->memory + operation->done;
    uint64_t offset = operation->offset + operation->done;
    if (operation->is_write) {
        io_uring_prep_write(sqe, piece_fd(operation), memory, (unsigned)operation->piece, offset);
    } else {
        io_uring_prep_read(sqe, piece_fd(operation), memory, (unsigned)operation->piece, offset);
    }
    io_uring_sqe_set_data64(sqe, (uint64_t)(operation - disk->operations));
    disk->in_ring++;
}

static void start(struct rg_disk *disk, const struct operation *wanted)
{
    RG_ASSERT(disk->in_flight < disk->depth && !disk->draining);
    RG_ASSERT(wanted->length > 0 && wanted->room >= wanted->length);
    struct operation *operation = disk->operations;
    while (operation->busy) {
        operation++;
    }
    *operation = *wanted;
    operation->busy = true;
    disk->in_flight++;
    if (disk->is_async) {
        queue_piece(disk, operation);
    } else {
        run_now(disk, operation);
    }
}

void rg_disk_read(struct rg_disk *disk, const struct rg_file *file, uint64_t offset, void *memory,
                  size_t length, size_t room, uint64_t cookie)
{
    struct operation wanted = {
        .file = *file,
        .offset = offset,
        .memory = memory,
        .length = length,
        .room = room,
        .cookie = cookie,
    };
    start(disk, &wanted);
}

void rg_disk_write(struct rg_disk *disk, const struct rg_file *file, uint64_t offset,
                   const void *memory, size_t length, uint64_t cookie)
{
    struct operation wanted = {
        .is_write = true,
        .file = *file,
        .offset = offset,
        .memory = (char *)memory,
        .length = length,
        .room = length,
        .cookie = cookie,
    };
    start(disk, &wanted);
}

/* ---- Results ---- */

void rg_disk_submit(struct rg_disk *disk)
{
    /* A refusal (EBUSY, EAGAIN) leaves the entries queued; the next call takes them along. */
    if (disk->is_async && disk->in_ring > 0) {
        (void)io_uring_submit(&disk->ring);
    }
}

static void take_result(struct rg_disk *disk, struct operation *operation, int result)
{
    disk->in_ring--;
    if (!disk->draining && leave_direct(operation, result)) {
        queue_piece(disk, operation);
        return;
    }
    if (is_refusal(result) && !disk->draining) {
        disk->fallbacks++;
        run_now(disk, operation);
        return;
    }
    if (!carry_on(disk, operation, result)) {
        queue_piece(disk, operation);
    }
}

static void take_results(struct rg_disk *disk)
{
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&disk->ring, &cqe) == 0) {
        uint64_t cookie = io_uring_cqe_get_data64(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&disk->ring, cqe);
        if (cookie != CANCEL_COOKIE) {
            RG_ASSERT(cookie < disk->depth);
            take_result(disk, &disk->operations[cookie], result);
        }
    }
    rg_disk_submit(disk);
}

size_t rg_disk_reap(struct rg_disk *disk, struct rg_disk_done *done, size_t room)
{
    if (disk->in_ring > 0) {
        take_results(disk);
    }
    size_t count = RG_MIN(room, disk->done_count);
    memcpy(done, disk->done, count * sizeof *done);
    memmove(disk->done, disk->done + count, (disk->done_count - count) * sizeof *done);
    disk->done_count -= count;
    disk->in_flight -= count;
    return count;
}

void rg_disk_wait(struct rg_disk *disk, uint32_t timeout_ms)
{
    if (disk->done_count > 0 || disk->in_ring == 0) {
        return;
    }
    rg_disk_submit(disk);
    struct pollfd item = {.fd = disk->ring.ring_fd, .events = POLLIN};
    (void)poll(&item, 1, (int)RG_MIN(timeout_ms, (uint32_t)3600000));
}

static void cancel_all(struct rg_disk *disk)
{
    for (unsigned i = 0; i < disk->depth; i++) {
        struct io_uring_sqe *sqe = disk->operations[i].busy ? io_uring_get_sqe(&disk->ring) : NULL;
        if (sqe) {
            io_uring_prep_cancel64(sqe, i, 0);
            io_uring_sqe_set_data64(sqe, CANCEL_COOKIE);
        }
    }
}

void rg_disk_drain(struct rg_disk *disk)
{
    disk->draining = true;
    if (disk->in_ring > 0) {
        cancel_all(disk);
    }
    while (disk->in_ring > 0) {
        struct io_uring_cqe *cqe;
        (void)io_uring_submit(&disk->ring);
        (void)io_uring_wait_cqe(&disk->ring, &cqe);
        take_results(disk);
    }
    disk->in_flight = 0;
    disk->done_count = 0;
    disk->draining = false;
}
