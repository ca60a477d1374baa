/*
 * O_DIRECT descriptors and a look into the page cache. See direct.h. It moves no bytes: disk.c
 * does.
 */
#include "rdma/direct.h"

#include "base/checked.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLES 32u

static uint64_t page_bytes(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    return bytes > 0 ? (uint64_t)bytes : 4096;
}

/* 0: the kernel says that this file has no O_DIRECT. One that says nothing gets a page, which is
 * what every file system asks for at most. */
static uint32_t find_align(int fd)
{
    uint32_t align = (uint32_t)page_bytes();
#ifdef STATX_DIOALIGN
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) < 0 || !(st.stx_mask & STATX_DIOALIGN)) {
        return align;
    }
    if (!st.stx_dio_mem_align || !st.stx_dio_offset_align) {
        return 0;
    }
    align = RG_MAX(align, st.stx_dio_mem_align);
    align = RG_MAX(align, st.stx_dio_offset_align);
#else
    (void)fd;
#endif
    return align;
}

bool rg_direct_open(struct rg_file *file, bool is_write)
{
    char path[32];
    file->direct_fd = -1;
    uint32_t align = find_align(file->fd);
    if (align == 0 || align > RG_DIRECT_ALIGN_MAX || (align & (align - 1))) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    int fd = open(path, (is_write ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    file->direct_fd = fd;
    file->direct_align = align;
    return true;
}

void rg_direct_close(struct rg_file *file)
{
    if (file->direct_fd >= 0) {
        close(file->direct_fd);
        file->direct_fd = -1;
    }
}

bool rg_file_is_cached(int fd, uint64_t offset, uint64_t length)
{
    uint64_t page = page_bytes();
    uint64_t start = offset / page * page;
    uint64_t pages = (offset + length - start + page - 1) / page;
    char *at = mmap(NULL, pages * page, PROT_READ, MAP_SHARED, fd, (off_t)start);
    if (at == MAP_FAILED) {
        return true;
    }
    uint64_t samples = RG_MIN(pages, (uint64_t)SAMPLES);
    uint64_t cached = 0;
    for (uint64_t i = 0; i < samples; i++) {
        unsigned char is_here = 1;
        (void)mincore(at + pages * i / samples * page, page, &is_here);
        cached += is_here & 1;
    }
    munmap(at, pages * page);
    return cached * 2 >= samples;
}
