/*
 * Stripes of large objects on Lustre. A file made without its objects (two open flags that mean
 * nothing else on a regular file) takes the layout that is written to its xattr lustre.lov, and
 * gets its objects by the first write. No library of Lustre is needed for it. Whether a mount does
 * as it is told is found out by the probe, which reads the layout back.
 */
#include "store/posix/posix.h"

#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LAYOUT_XATTR   "lustre.lov"
#define LAYOUT_BYTES   32u /* without the list of objects */
#define LAYOUT_MAX     65536u
#define LAYOUT_MAGIC   0x0bd10bd0u
#define LAYOUT_RAID0   1u
#define ANY_OST        0xffffu
#define STRIPE_ALIGN   65536u
#define SIZE_AT        24 /* u32 */
#define COUNT_AT       28 /* u16 */
#define OST_AT         30 /* u16 */
#define PROBE_COUNT    1u
#define PROBE_SIZE     (3u << 16) /* nobody's default */
#define DELAYED_CREATE (O_NOCTTY | O_ASYNC)

static void put_number(unsigned char *to, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get_number(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i > 0; i--) {
        value = value << 8 | from[i - 1];
    }
    return value;
}

int rg_posix_stripes_check(const struct rg_settings *settings, struct rg_error *err)
{
    if (settings->lustre_stripe_size % STRIPE_ALIGN) {
        return rg_failf(err, RG_SETTING, "setting lustre-stripe-size must be a multiple of 64K");
    }
    return 0;
}

static int write_layout(int fd, uint64_t size, uint64_t count)
{
    unsigned char layout[LAYOUT_BYTES] = {0};
    put_number(layout, 4, LAYOUT_MAGIC);
    put_number(layout + 4, 4, LAYOUT_RAID0);
    put_number(layout + SIZE_AT, 4, size);
    put_number(layout + COUNT_AT, 2, count);
    put_number(layout + OST_AT, 2, ANY_OST);
    return fsetxattr(fd, LAYOUT_XATTR, layout, sizeof layout, 0) < 0 ? -errno : 0;
}

/* Does the file have that layout? */
static bool has_layout(int fd, uint64_t size, uint64_t count)
{
    unsigned char layout[LAYOUT_MAX];
    ssize_t len = fgetxattr(fd, LAYOUT_XATTR, layout, sizeof layout);
    return len >= (ssize_t)LAYOUT_BYTES && get_number(layout, 4) == LAYOUT_MAGIC &&
           get_number(layout + SIZE_AT, 4) == size && get_number(layout + COUNT_AT, 2) == count;
}

bool rg_posix_stripes_probe(int dir)
{
    static const char byte = 'x';
    rg_autoclose int fd = openat(
        dir, "stripes", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | DELAYED_CREATE, 0600);
    bool works = fd >= 0 && write_layout(fd, PROBE_SIZE, PROBE_COUNT) == 0 &&
                 write(fd, &byte, 1) == 1 && fsync(fd) == 0 &&
                 has_layout(fd, PROBE_SIZE, PROBE_COUNT);
    unlinkat(dir, "stripes", 0);
    return works;
}

bool rg_posix_stripes_wanted(const struct rg_posix *posix, const struct rg_posix_mount *mount,
                             int64_t expected_size)
{
    return mount->stripes && posix->settings->lustre_stripe_count != 0 &&
           expected_size >= posix->settings->lustre_stripe_min;
}

int rg_posix_stripes_open_flags(void)
{
    return DELAYED_CREATE;
}

int rg_posix_stripes_set(const struct rg_posix *posix, int fd, struct rg_error *err)
{
    const struct rg_settings *settings = posix->settings;
    int rc = write_layout(fd, (uint64_t)settings->lustre_stripe_size,
                          (uint64_t)settings->lustre_stripe_count);
    return rc ? rg_fail_storage(err, -rc, "setting the stripes of a new file (lustre.lov)") : 0;
}
