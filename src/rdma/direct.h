/*
 * Descriptors that go around the page cache. Whether that pays, and whether the mount can be
 * trusted with it, is the caller's to know.
 */
#ifndef RG_RDMA_DIRECT_H
#define RG_RDMA_DIRECT_H

#include "rdma/disk.h"

#include <stdbool.h>
#include <stdint.h>

/* Alignments beyond this are not used: slots and staging memory are not placed so. */
#define RG_DIRECT_ALIGN_MAX 65536u

/*
 * Opens the file behind file->fd a second time, O_DIRECT, for writing or reading, and fills
 * direct_fd (close it with rg_direct_close) and direct_align: what the kernel tells by statx, at
 * least a page, so that no page is ever reached in both ways at once. False, with direct_fd -1,
 * where that is not to be had: a file system that refuses, rights that have changed, no /proc.
 */
bool rg_direct_open(struct rg_file *file, bool is_write);

/* Closes direct_fd, if there is one, and leaves -1. */
void rg_direct_close(struct rg_file *file);

/*
 * Whether at least half of [offset, offset + length) is in the page cache, by a look at a few
 * pages. True where the kernel does not tell (it tells nobody who could not write the file).
 */
bool rg_file_is_cached(int fd, uint64_t offset, uint64_t length);

#endif
