/*
 * The file side of one transfer: a few reads or writes in flight on plain descriptors, by io_uring
 * with ordinary buffers, or by pread and pwrite where there is no io_uring. Fixed buffers are not
 * used: on Lustre they lose every second page behind O_DIRECT and report success.
 *
 * A disk (the ring) belongs to one thread at a time. It is opened once a lane and reused.
 */
#ifndef RG_RDMA_DISK_H
#define RG_RDMA_DISK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_DISK_DEPTH_MAX 32

struct rg_disk;

/*
 * Where object bytes are. With direct_fd >= 0 (the same file, opened O_DIRECT) whole multiples of
 * direct_align at aligned offsets go around the page cache, and the rest goes through fd. Give it
 * only where it pays and the mount has proved it.
 */
struct rg_file {
    int fd;
    int direct_fd;         /* -1: none */
    uint32_t direct_align; /* power of two, 512..65536; of offset, length and memory */
};

struct rg_disk_done {
    uint64_t cookie;
    uint64_t bytes; /* moved; less than asked only at the end of a file that is read */
    int os_errno;   /* 0, or why it failed */
};

/*
 * Never fails for want of io_uring: rg_disk_is_async tells. `depth` operations at most are in
 * flight (1..RG_DISK_DEPTH_MAX). RG_OUT_OF_MEMORY.
 */
int rg_disk_open(unsigned depth, bool allow_uring, struct rg_disk **ret_disk, struct rg_error *err);

/* Nothing may be in flight. NULL is allowed. */
void rg_disk_close(struct rg_disk *disk);

bool rg_disk_is_async(const struct rg_disk *disk);

/* Readable when there is something to reap; -1 when not async. For rg_lane_wait's wake_fd. */
int rg_disk_fd(const struct rg_disk *disk);

size_t rg_disk_in_flight(const struct rg_disk *disk);

/* Operations that the ring refused and that were made by pread or pwrite, since it was opened. */
uint64_t rg_disk_fallbacks(const struct rg_disk *disk);

/* Bytes that went through direct_fd, since it was opened. */
uint64_t rg_disk_direct_bytes(const struct rg_disk *disk);

/*
 * Starts to read or write [offset, offset + length) of the file at `memory`. Short transfers are
 * continued here, one that O_DIRECT refuses goes through fd, and an operation that the ring refuses
 * (EINVAL, EOPNOTSUPP) is made by pread or pwrite. With O_DIRECT a read may touch up to the next
 * multiple of direct_align behind `length`: `room` is how many bytes of memory there are. Not
 * async: done when it returns. The result comes from rg_disk_reap. `file` is copied. Starting more
 * than `depth` is a bug.
 */
void rg_disk_read(struct rg_disk *disk, const struct rg_file *file, uint64_t offset, void *memory,
                  size_t length, size_t room, uint64_t cookie);
void rg_disk_write(struct rg_disk *disk, const struct rg_file *file, uint64_t offset,
                   const void *memory, size_t length, uint64_t cookie);

/* Hands what was started to the kernel. */
void rg_disk_submit(struct rg_disk *disk);

/* Takes up to `room` results without blocking; returns their number. */
size_t rg_disk_reap(struct rg_disk *disk, struct rg_disk_done *done, size_t room);

/* Sleeps until something can be reaped or the time is over. */
void rg_disk_wait(struct rg_disk *disk, uint32_t timeout_ms);

/*
 * Cancels what can be cancelled and waits until nothing is in flight, for as long as that takes:
 * the memory is in the kernel's hands. A file system that hangs hangs this thread, as it would any
 * pread.
 */
void rg_disk_drain(struct rg_disk *disk);

#endif
