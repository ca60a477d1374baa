/*
 * The files of the shm provider: the names they have, whose they are, whether their owner lives.
 *
 * Files that a dead process left in /dev/shm are removed when a rail opens. Who lives is told by a
 * lock (flock) that each owner holds on its file: it goes with the process, also in another PID
 * namespace, and a zombie has none.
 */
#include "rdma/ofi_inside.h"

#include "base/attr.h"
#include "base/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEFTOVER_S 10 /* a file younger than this may not have its lock yet */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool rg_ofi_shm_is_name(const char *name, size_t len)
{
    size_t prefix = sizeof RG_OFI_SHM_PREFIX - 1;
    if (len != RG_OFI_SHM_NAME_LENGTH || memcmp(name, RG_OFI_SHM_PREFIX, prefix) != 0 ||
        (name[prefix] != 'i' && name[prefix] != 't') || name[prefix + 1] != '-') {
        return false;
    }
    for (size_t i = prefix + 2; i < len; i++) {
        if (!is_hex(name[i])) {
            return false;
        }
    }
    return true;
}

int rg_ofi_shm_open_file(int directory, const char *name, struct stat *ret_stat)
{
    rg_autoclose int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, ret_stat) < 0) {
        return -1;
    }
    if (!S_ISREG(ret_stat->st_mode) || ret_stat->st_uid != geteuid()) {
        return -1;
    }
    return RG_TAKE_FD(fd);
}

bool rg_ofi_shm_is_owner_alive(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        (void)flock(fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

void rg_ofi_shm_remove_leftovers(void)
{
    rg_autoclosedir DIR *directory = opendir(RG_OFI_SHM_DIRECTORY);
    if (!directory) {
        return;
    }
    int fd = dirfd(directory);
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (!rg_ofi_shm_is_name(entry->d_name, strlen(entry->d_name))) {
            continue;
        }
        struct stat facts;
        rg_autoclose int file = rg_ofi_shm_open_file(fd, entry->d_name, &facts);
        if (file >= 0 && time(NULL) - facts.st_mtim.tv_sec >= LEFTOVER_S &&
            !rg_ofi_shm_is_owner_alive(file)) {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
}

struct fi_info *rg_ofi_shm_name_endpoint(struct rg_ofi_rail *rail, char role, char *ret_name)
{
    uint64_t random[2];
    rg_random_bytes(random, sizeof random);
    snprintf(ret_name, RG_OFI_SHM_NAME_LENGTH + 1, "%s%c-%016" PRIx64 "%016" PRIx64,
             RG_OFI_SHM_PREFIX, role, random[0], random[1]);
    struct fi_info *info = rg_ofi_library.dupinfo(rail->info);
    if (!info) {
        return NULL;
    }
    free(info->src_addr);
    info->src_addr = strdup(ret_name);
    info->src_addrlen = RG_OFI_SHM_NAME_LENGTH + 1;
    if (!info->src_addr) {
        rg_ofi_library.freeinfo(info);
        return NULL;
    }
    return info;
}

/*
 * libfabric 1.17 writes zeros over the unused end of a new file, half of its 16 MiB. Gives those
 * pages back: they read the same without.
 */
static void trim_own_file(int fd, off_t size)
{
    unsigned char piece[32768];
    off_t end = size - size % (off_t)sizeof piece;
    while (end > 0) {
        off_t begin = end - (off_t)sizeof piece;
        if (pread(fd, piece, sizeof piece, begin) != (ssize_t)sizeof piece || piece[0] != 0 ||
            memcmp(piece, piece + 1, sizeof piece - 1) != 0) {
            break;
        }
        end = begin;
    }
    if (end < size) {
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, end, size - end);
    }
}

int rg_ofi_shm_lock_file(struct rg_ofi_lane *lane, const char *name, struct rg_error *err)
{
    rg_autoclose int directory = open(RG_OFI_SHM_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat facts;
    rg_autoclose int fd = directory < 0 ? -1 : rg_ofi_shm_open_file(directory, name, &facts);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return rg_fail_errno(err, RG_RDMA_NOT_SUPPORTED, errno, "%s/%s cannot be locked",
                             RG_OFI_SHM_DIRECTORY, name);
    }
    trim_own_file(fd, facts.st_size);
    lane->shm_lock_fd = RG_TAKE_FD(fd);
    return 0;
}
