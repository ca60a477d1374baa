/*
 * What a mount can do, found by doing it. Each fast path must prove itself here before it is used:
 * a pattern goes through the very call and is read back and compared. Errors of a probe switch the
 * path off; only what the store cannot do without refuses the mount.
 *
 * Everything happens in a hidden directory that is removed again.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/checked.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define MAGIC_LUSTRE  0x0bd00bd0
#define PATTERN_BYTES (256u << 10)
#define SMALL_XATTR   600u /* what mask=big-xattr leaves: enough for the short form of a record */
#define XATTR_MIN     600u
#define TIME_ROUNDS   16

static const char *const feature_words[RG_FEATURE_COUNT] = {
    [RG_FEATURE_TMPFILE] = "o-tmpfile",     [RG_FEATURE_NOREPLACE] = "rename-flags",
    [RG_FEATURE_DIR_FSYNC] = "dir-fsync",   [RG_FEATURE_FINE_TIMES] = "fine-times",
    [RG_FEATURE_FALLOCATE] = "fallocate",   [RG_FEATURE_REFLINK] = "reflink",
    [RG_FEATURE_COPY_RANGE] = "copy-range", [RG_FEATURE_BIG_XATTR] = "big-xattr",
    [RG_FEATURE_DIRECT_IO] = "direct-io",   [RG_FEATURE_LOCKS] = "locks",
};

int rg_posix_mask_read(const char *text, uint32_t *ret_masked, struct rg_error *err)
{
    uint32_t masked = 0;
    struct span rest = rg_span_text(text);
    while (rest.ptr && text[0]) {
        struct span word = rg_span_trim(rg_span_cut(&rest, ','));
        size_t i = 0;
        while (i < RG_FEATURE_COUNT && !rg_span_is(word, feature_words[i])) {
            i++;
        }
        if (i == RG_FEATURE_COUNT) {
            return rg_failf(err, RG_SETTING, "mask: \"%.*s\" is no feature that can be masked",
                            RG_SPAN_ARG(word));
        }
        masked |= 1u << i;
    }
    *ret_masked = masked;
    return 0;
}

static bool is_masked(const struct rg_posix *posix, enum rg_posix_feature feature)
{
    return posix->masked & (1u << feature);
}

/* ---- Mount options ---- */

struct options {
    char device[32];
    char type[64];
    bool nouser_xattr;
    bool localflock;
    bool noflock;
};

/* Best effort: an unreadable table leaves the options unknown. */
static void note_options(const struct rg_posix_mount_line *line, void *context)
{
    struct options *options = context;
    if (!rg_span_is(line->device, options->device)) {
        return;
    }
    snprintf(options->type, sizeof options->type, "%.*s", RG_SPAN_ARG(line->type));
    options->nouser_xattr = rg_posix_list_has(line->options, "nouser_xattr");
    options->localflock = rg_posix_list_has(line->options, "localflock");
    options->noflock = rg_posix_list_has(line->options, "noflock");
}

static void read_options(dev_t device, struct options *ret_options)
{
    *ret_options = (struct options){.type = ""};
    snprintf(ret_options->device, sizeof ret_options->device, "%u:%u", major(device),
             minor(device));
    rg_posix_mount_lines(note_options, ret_options);
}

static void name_magic(uint64_t magic, char *text, size_t room)
{
    static const struct {
        uint64_t magic;
        const char *name;
    } known[] = {
        {MAGIC_LUSTRE, "lustre"}, {0xef53, "ext4"},       {0x58465342, "xfs"},
        {0x9123683e, "btrfs"},    {0x01021994, "tmpfs"},  {0x6969, "nfs"},
        {0x65735546, "fuse"},     {0x00c36400, "ceph"},   {0x794c7630, "overlay"},
        {0x47504653, "gpfs"},     {0x19830326, "beegfs"}, {0x2fc12fc1, "zfs"},
        {0xff534d42, "cifs"},     {0xfe534d42, "smb2"},   {0xf2f52010, "f2fs"},
        {0x01021997, "9p"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(known); i++) {
        if (known[i].magic == magic) {
            snprintf(text, room, "%s", known[i].name);
            return;
        }
    }
    snprintf(text, room, "type 0x%" PRIx64, magic);
}

bool rg_posix_is_local(uint64_t magic)
{
    return magic == 0xef53 || magic == 0x58465342 || magic == 0x9123683e || magic == 0x01021994 ||
           magic == 0xf2f52010;
}

/* ---- Single probes; each leaves the directory as it was, or nearly ---- */

static uint32_t pattern_word(uint32_t i)
{
    return i * 2654435761u + 12345u;
}

static void make_pattern(uint32_t *words, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        words[i] = pattern_word((uint32_t)i);
    }
}

static bool file_is_pattern(int fd, size_t bytes)
{
    rg_autofree uint32_t *words = malloc(bytes + 1);
    if (!words || pread(fd, words, bytes + 1, 0) != (ssize_t)bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        if (words[i] != pattern_word((uint32_t)i)) {
            return false;
        }
    }
    return true;
}

static int make_file(int dir, const char *name)
{
    return openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* The longest value of a few that this mount takes, written and read back. */
static size_t probe_xattr_room(int dir)
{
    static const size_t lengths[] = {65536, 32768, 16384, 8000, 3800, 3000, 2000, 1000, 600};
    rg_autoclose int fd = make_file(dir, "xattr-room");
    rg_autofree char *value = malloc(65536);
    rg_autofree char *back = malloc(65536);
    if (fd < 0 || !value || !back) {
        return 0;
    }
    memset(value, 'x', 65536);
    size_t room = 0;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lengths) && room == 0; i++) {
        memset(back, 0, lengths[i]);
        if (fsetxattr(fd, RG_POSIX_XATTR, value, lengths[i], 0) == 0 &&
            fgetxattr(fd, RG_POSIX_XATTR, back, lengths[i]) == (ssize_t)lengths[i] &&
            memcmp(value, back, lengths[i]) == 0) {
            room = lengths[i];
        }
    }
    unlinkat(dir, "xattr-room", 0);
    return room;
}

static int probe_xattrs(int dir)
{
    rg_autoclose int fd = make_file(dir, "xattr");
    if (fd < 0) {
        return -errno;
    }
    int rc = 0;
    if (fsetxattr(fd, RG_POSIX_XATTR, "x", 1, 0) < 0 ||
        fsetxattr(dir, RG_POSIX_XATTR, "x", 1, 0) < 0) {
        rc = -errno;
    }
    char back;
    if (rc == 0 && (fgetxattr(fd, RG_POSIX_XATTR, &back, 1) != 1 || back != 'x')) {
        rc = -EOPNOTSUPP;
    }
    unlinkat(dir, "xattr", 0);
    return rc;
}

static bool probe_tmpfile(int dir)
{
    rg_autoclose int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "tmp", 3) != 3) {
        return false;
    }
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, path, dir, "tmpfile", AT_SYMLINK_FOLLOW) < 0) {
        return false;
    }
    struct stat st;
    bool right = fstatat(dir, "tmpfile", &st, 0) == 0 && st.st_size == 3;
    unlinkat(dir, "tmpfile", 0);
    return right;
}

static bool probe_noreplace(int dir)
{
    rg_autoclose int a = make_file(dir, "rename-a");
    rg_autoclose int b = make_file(dir, "rename-b");
    bool right =
        a >= 0 && b >= 0 && renameat2(dir, "rename-a", dir, "rename-b", RENAME_NOREPLACE) < 0 &&
        errno == EEXIST && renameat2(dir, "rename-a", dir, "rename-c", RENAME_NOREPLACE) == 0;
    unlinkat(dir, "rename-a", 0);
    unlinkat(dir, "rename-b", 0);
    unlinkat(dir, "rename-c", 0);
    return right;
}

/* Hard links onto a free and onto a taken name: what "create only" falls back to. */
static bool probe_link(int dir)
{
    rg_autoclose int fd = make_file(dir, "link-a");
    bool right = fd >= 0 && linkat(dir, "link-a", dir, "link-b", 0) == 0 &&
                 linkat(dir, "link-a", dir, "link-b", 0) < 0 && errno == EEXIST;
    unlinkat(dir, "link-a", 0);
    unlinkat(dir, "link-b", 0);
    return right;
}

static bool probe_fallocate(int dir)
{
    rg_autoclose int fd = make_file(dir, "fallocate");
    bool right = fd >= 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 65536) == 0;
    unlinkat(dir, "fallocate", 0);
    return right;
}

static bool probe_reflink(int dir, int pattern_fd)
{
    rg_autoclose int fd = make_file(dir, "reflink");
    struct file_clone_range range = {.src_fd = pattern_fd, .src_length = PATTERN_BYTES};
    bool right =
        fd >= 0 && ioctl(fd, FICLONERANGE, &range) == 0 && file_is_pattern(fd, PATTERN_BYTES);
    unlinkat(dir, "reflink", 0);
    return right;
}

static bool probe_copy_range(int dir, int pattern_fd)
{
    rg_autoclose int fd = make_file(dir, "copy-range");
    bool right = fd >= 0;
    size_t done = 0;
    /* In two odd pieces, so that a method that only works on whole blocks shows. */
    while (right && done < PATTERN_BYTES) {
        off64_t from = (off64_t)done;
        off64_t to = (off64_t)done;
        size_t want = done == 0 ? 70001 : PATTERN_BYTES - done;
        ssize_t len = copy_file_range(pattern_fd, &from, fd, &to, want, 0);
        right = len > 0;
        done += right ? (size_t)len : 0;
    }
    right = right && file_is_pattern(fd, PATTERN_BYTES);
    unlinkat(dir, "copy-range", 0);
    return right;
}

/* Written around the page cache and read through it, and around it again. */
static bool probe_direct_io(int dir)
{
    rg_autoclose int fd =
        openat(dir, "direct", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0600);
    rg_autofree uint32_t *words = NULL;
    rg_autofree uint32_t *read_back = NULL;
    if (posix_memalign((void **)&words, 4096, PATTERN_BYTES)) {
        words = NULL;
    }
    if (posix_memalign((void **)&read_back, 4096, PATTERN_BYTES)) {
        read_back = NULL;
    }
    bool right = fd >= 0 && words && read_back;
    if (right) {
        make_pattern(words, PATTERN_BYTES);
        memset(read_back, 0, PATTERN_BYTES);
        rg_autoclose int reader = openat(dir, "direct", O_RDONLY | O_CLOEXEC);
        right = pwrite(fd, words, PATTERN_BYTES, 0) == (ssize_t)PATTERN_BYTES && reader >= 0 &&
                file_is_pattern(reader, PATTERN_BYTES) &&
                pread(fd, read_back, PATTERN_BYTES, 0) == (ssize_t)PATTERN_BYTES &&
                memcmp(words, read_back, PATTERN_BYTES) == 0;
    }
    unlinkat(dir, "direct", 0);
    return right;
}

static bool probe_exact_times(int dir)
{
    rg_autoclose int fd = make_file(dir, "times");
    struct timespec times[2] = {{1000000000, 123456789}, {1000000000, 123456789}};
    struct stat st;
    bool right = fd >= 0 && futimens(fd, times) == 0 && fstat(fd, &st) == 0 &&
                 st.st_mtim.tv_sec == 1000000000 && st.st_mtim.tv_nsec == 123456789;
    unlinkat(dir, "times", 0);
    return right;
}

/* Does every change of names show in the directory's ctime, however fast they follow? */
static bool probe_fine_times(int dir)
{
    bool right = true;
    for (int i = 0; right && i < TIME_ROUNDS; i++) {
        struct stat before;
        struct stat after;
        right = fstat(dir, &before) == 0;
        rg_autoclose int fd = make_file(dir, "change");
        right = right && fd >= 0 && fstat(dir, &after) == 0 &&
                (before.st_ctim.tv_sec != after.st_ctim.tv_sec ||
                 before.st_ctim.tv_nsec != after.st_ctim.tv_nsec);
        right = right && unlinkat(dir, "change", 0) == 0 && fstat(dir, &before) == 0 &&
                (before.st_ctim.tv_sec != after.st_ctim.tv_sec ||
                 before.st_ctim.tv_nsec != after.st_ctim.tv_nsec);
    }
    unlinkat(dir, "change", 0);
    return right;
}

static int lock_byte(int fd, int64_t byte, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &range);
}

static bool probe_locks(int dir)
{
    const int64_t byte = (int64_t)1 << 39;
    rg_autoclose int a = make_file(dir, "locks");
    rg_autoclose int b = openat(dir, "locks", O_RDWR | O_CLOEXEC);
    bool right = a >= 0 && b >= 0 && lock_byte(a, byte, F_WRLCK) == 0 &&
                 lock_byte(b, byte, F_WRLCK) < 0 && (errno == EAGAIN || errno == EACCES) &&
                 lock_byte(b, byte + 1, F_WRLCK) == 0 && lock_byte(a, byte, F_UNLCK) == 0 &&
                 lock_byte(b, byte, F_WRLCK) == 0;
    unlinkat(dir, "locks", 0);
    return right;
}

static int make_pattern_file(int dir, int *ret_fd)
{
    rg_autofree uint32_t *words = malloc(PATTERN_BYTES);
    rg_autoclose int fd = make_file(dir, "pattern");
    if (!words || fd < 0) {
        return words ? -errno : -ENOMEM;
    }
    make_pattern(words, PATTERN_BYTES);
    ssize_t len = write(fd, words, PATTERN_BYTES);
    if (len != (ssize_t)PATTERN_BYTES) {
        return len < 0 ? -errno : -ENOSPC;
    }
    *ret_fd = RG_TAKE_FD(fd);
    return 0;
}

/* ---- A mount ---- */

static int refuse_xattrs(const struct rg_posix *posix, const struct rg_posix_mount *mount,
                         const struct options *options, int os_errno, struct rg_error *err)
{
    if (os_errno != EOPNOTSUPP) {
        return rg_fail_storage(err, os_errno, "%s: setting a user xattr", posix->root_path);
    }
    if (mount->lustre) {
        return rg_failf(err, RG_STORAGE_UNSUPPORTED,
                        "%s: this Lustre is mounted without user xattrs (its default). Unmount it "
                        "and mount it again with -o user_xattr; a remount answers success and "
                        "changes nothing.",
                        posix->root_path);
    }
    char type[64];
    name_magic(mount->magic, type, sizeof type);
    return rg_failf(err, RG_STORAGE_UNSUPPORTED,
                    "%s: the file system (%s) does not keep user xattrs%s, and objects' metadata "
                    "has no other place.",
                    posix->root_path, options->type[0] ? options->type : type,
                    options->nouser_xattr ? ", because it is mounted with nouser_xattr" : "");
}

static int run_probes(struct rg_posix *posix, int dir, struct rg_posix_mount *mount,
                      struct rg_error *err)
{
    struct statfs fs;
    struct stat st;
    if (fstatfs(dir, &fs) < 0 || fstat(dir, &st) < 0) {
        return rg_fail_storage(err, errno, "looking at a mount");
    }
    mount->device = st.st_dev;
    mount->magic = (uint64_t)fs.f_type & 0xffffffffu;
    mount->lustre = mount->magic == MAGIC_LUSTRE;
    mount->local = rg_posix_is_local(mount->magic);
    /* The table may hang with any file system of the machine. Of a local one it says nothing that
     * is needed, but why one is refused. */
    struct options options = {.type = ""};
    int rc = probe_xattrs(dir);
    if (!mount->local || rc) {
        read_options(st.st_dev, &options);
    }
    if (options.type[0]) {
        snprintf(mount->type, sizeof mount->type, "%s", options.type);
    } else {
        name_magic(mount->magic, mount->type, sizeof mount->type);
    }

    if (rc) {
        return refuse_xattrs(posix, mount, &options, -rc, err);
    }
    mount->xattrs = true;
    mount->xattr_max = probe_xattr_room(dir);
    if (mount->xattr_max < XATTR_MIN) {
        return rg_failf(err, RG_STORAGE_UNSUPPORTED,
                        "%s: not even %u bytes of user xattrs fit on a file of this mount.",
                        posix->root_path, XATTR_MIN);
    }
    if (is_masked(posix, RG_FEATURE_BIG_XATTR)) {
        mount->xattr_max = SMALL_XATTR;
    }
    mount->tmpfile = !is_masked(posix, RG_FEATURE_TMPFILE) && probe_tmpfile(dir);
    mount->noreplace = !is_masked(posix, RG_FEATURE_NOREPLACE) && probe_noreplace(dir);
    if (!mount->tmpfile && !mount->noreplace && !probe_link(dir)) {
        return rg_failf(err, RG_STORAGE_UNSUPPORTED,
                        "%s: this mount has neither O_TMPFILE nor RENAME_NOREPLACE nor hard links, "
                        "and conditional writes need one of them.",
                        posix->root_path);
    }
    mount->fallocate = !is_masked(posix, RG_FEATURE_FALLOCATE) && probe_fallocate(dir);
    mount->direct_io = !is_masked(posix, RG_FEATURE_DIRECT_IO) && probe_direct_io(dir);
    /* Lustre answers fsync of a directory with success and does nothing. */
    mount->dir_fsync = !is_masked(posix, RG_FEATURE_DIR_FSYNC) && !mount->lustre && fsync(dir) == 0;
    mount->exact_times = !is_masked(posix, RG_FEATURE_FINE_TIMES) && probe_exact_times(dir);
    mount->fine_times =
        !is_masked(posix, RG_FEATURE_FINE_TIMES) && mount->local && probe_fine_times(dir);
    mount->stripes = mount->lustre && rg_posix_stripes_probe(dir);
    mount->locks = !is_masked(posix, RG_FEATURE_LOCKS) && probe_locks(dir);
    mount->shared_locks = mount->locks && !options.localflock && !options.noflock;

    rg_autoclose int pattern_fd = -1;
    rc = make_pattern_file(dir, &pattern_fd);
    if (rc) {
        return rg_fail_storage(err, -rc, "%s: writing a test file", posix->root_path);
    }
    bool reflink = !is_masked(posix, RG_FEATURE_REFLINK) && probe_reflink(dir, pattern_fd);
    bool range = !is_masked(posix, RG_FEATURE_COPY_RANGE) && probe_copy_range(dir, pattern_fd);
    atomic_store(&mount->reflink, reflink);
    atomic_store(&mount->copy_range, range);
    unlinkat(dir, "pattern", 0);
    return 0;
}

int rg_posix_mount_prove(struct rg_posix *posix, int directory_fd,
                         struct rg_posix_mount **ret_mount, struct rg_error *err)
{
    char name[RG_POSIX_TEMP_NAME];
    rg_posix_temp_name(name);
    if (mkdirat(directory_fd, name, 0700) < 0) {
        return rg_fail_storage(err, errno, "%s: making a directory to probe the mount",
                               posix->root_path);
    }
    struct rg_posix_mount *mount = calloc(1, sizeof *mount);
    rg_autoclose int dir = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;
    if (!mount) {
        rc = rg_fail(err, RG_OUT_OF_MEMORY);
    } else if (dir < 0) {
        rc = rg_fail_storage(err, errno, "%s: opening a directory just made", posix->root_path);
    } else {
        /* Tells sweepers, as with files: the mount may take longer than temp-expiry. */
        (void)flock(dir, LOCK_SH | LOCK_NB);
        rc = run_probes(posix, dir, mount, err);
    }
    /* Left to the sweeper when this fails. */
    unlinkat(directory_fd, name, AT_REMOVEDIR);
    if (rc) {
        free(mount);
        return rc;
    }
    *ret_mount = mount;
    return 0;
}

/* ---- The line ---- */

void rg_posix_mount_describe(const struct rg_posix *posix, const struct rg_posix_mount *mount,
                             struct rg_buf *out)
{
    const struct {
        const char *name;
        bool on;
    } features[] = {
        {"O_TMPFILE", mount->tmpfile},
        {"RENAME_NOREPLACE", mount->noreplace},
        {"fallocate", mount->fallocate},
        {"reflink", atomic_load(&mount->reflink)},
        {"copy_file_range", atomic_load(&mount->copy_range)},
        {"O_DIRECT", mount->direct_io},
        {"nanosecond times", mount->exact_times},
        {"fine directory times", mount->fine_times},
    };
    static const char *const durability[] = {"full", "data", "none"};
    rg_buf_addf(out, "%s: %s; xattr room %zu; on:", posix->root_path, mount->type,
                mount->xattr_max);
    for (int on = 1; on >= 0; on--) {
        bool any = false;
        for (size_t i = 0; i < RG_ARRAY_LENGTH(features); i++) {
            if (features[i].on == (bool)on) {
                rg_buf_addf(out, "%s %s", any ? "," : "", features[i].name);
                any = true;
            }
        }
        rg_buf_add_text(out, any ? "" : " nothing");
        rg_buf_add_text(out, on ? "; off:" : "");
    }
    rg_buf_addf(out, "; durability %s, names by %s", durability[posix->settings->durability],
                mount->dir_fsync ? "fsync of the directory"
                                 : "metadata change and fsync of a file");
    rg_buf_addf(out, "; locks %s",
                mount->shared_locks ? "shared between gateways"
                : mount->locks      ? "on this machine only: no second gateway may serve this tree"
                                    : "none: no second gateway may serve this tree");
    if (posix->settings->lustre_stripe_count) {
        rg_buf_addf(out, "; large objects in %" PRId64 " stripes: %s",
                    posix->settings->lustre_stripe_count,
                    mount->stripes  ? "on"
                    : mount->lustre ? "off, this mount does not take layouts"
                                    : "off, not Lustre");
    }
    if (posix->masked) {
        rg_buf_addf(out, "; masked: %s", posix->settings->mask);
    }
}
