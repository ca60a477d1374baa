/*
 * Bounded reads of the machine or of a tree. See source.h.
 */
#include "host/source.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define AVOID_MAX     8
#define DENIALS_MAX   8192
#define DENIALS_BYTES ((size_t)1 << 20)
#define LINKS_MAX     40
#define DOCUMENT_DIR  ".railgate/"
#define AGAIN_DIR     ".railgate/again"

/* A line of .railgate/errors. */
struct denial {
    int os_errno;
    char *path;
};

struct rg_source {
    bool is_live;
    bool again;
    int root;       /* of the tree; -1 when live */
    int again_root; /* of its second reading, or -1 */
    struct denial *denials;
    size_t denial_count;
    char avoided[AVOID_MAX][RG_HOST_PATH_MAX + 1];
    size_t avoided_count;
    struct rg_source_watch *watch;
    int capture; /* directory to write to, or -1 */
    struct rg_error capture_error;
    bool capture_failed;
};

/* ---- Opening ---- */

/* Beneath the tree, where even absolute links stay inside. */
static int open_beneath(int root, const char *path, int flags)
{
    /* openat2 refuses flags that O_PATH has no use for. */
    int more = flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY;
    struct open_how how = {.flags = (uint64_t)(flags | more),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    while (*path == '/') {
        path++;
    }
    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

static int tree_of(const struct rg_source *source)
{
    return source->again ? source->again_root : source->root;
}

static int open_path(const struct rg_source *source, const char *path, int flags)
{
    if (source->is_live) {
        return open(path, flags | O_CLOEXEC | O_NOCTTY);
    }
    int root = tree_of(source);
    if (root < 0) {
        errno = ENOENT;
        return -1;
    }
    return open_beneath(root, path, flags);
}

static void add_denial(struct rg_source *source, struct span line)
{
    uint64_t number;
    struct span rest = line;
    struct span code = rg_span_cut(&rest, ' ');
    if (!rest.ptr || rest.len == 0 || !rg_span_to_u64(code, &number) || number == 0 ||
        number > 4095 || source->denial_count == DENIALS_MAX) {
        return;
    }
    char *path = rg_span_dup(rest);
    if (path) {
        source->denials[source->denial_count++] =
            (struct denial){.os_errno = (int)number, .path = path};
    }
}

static ssize_t read_all(int fd, struct rg_buf *out, size_t most, bool *ret_truncated);

static int read_denials(struct rg_source *source, struct rg_error *err)
{
    RG_BUF(text, DENIALS_BYTES);
    bool truncated;
    rg_autoclose int fd = open_beneath(source->root, DOCUMENT_DIR "errors", O_RDONLY | O_NONBLOCK);
    if (fd < 0 || read_all(fd, &text, DENIALS_BYTES, &truncated) < 0) {
        return 0;
    }
    source->denials = calloc(DENIALS_MAX, sizeof *source->denials);
    if (!source->denials) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct span rest = rg_buf_span(&text);
    while (rest.ptr) {
        add_denial(source, rg_span_cut(&rest, '\n'));
    }
    return 0;
}

static int open_tree(struct rg_source *source, const char *sysroot, struct rg_error *err)
{
    source->root = open(sysroot, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (source->root < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "%s cannot be opened", sysroot);
    }
    rg_autoclose int test = open_beneath(source->root, ".", O_RDONLY | O_DIRECTORY);
    if (test < 0) {
        return rg_fail_errno(err, RG_SETTING, errno,
                             "%s cannot be read safely (that takes Linux 5.6)", sysroot);
    }
    source->again_root = open_beneath(source->root, AGAIN_DIR, O_PATH | O_DIRECTORY);
    return read_denials(source, err);
}

int rg_source_open(const char *sysroot, struct rg_source **ret_source, struct rg_error *err)
{
    RG_CLEANUP(rg_source_cleanup) struct rg_source *source = calloc(1, sizeof *source);
    if (!source) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    source->root = source->again_root = source->capture = -1;
    source->is_live = !sysroot[0];
    if (!source->is_live) {
        int rc = open_tree(source, sysroot, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_source = RG_TAKE(source);
    return 0;
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void rg_source_close(struct rg_source *source)
{
    if (!source) {
        return;
    }
    for (size_t i = 0; i < source->denial_count; i++) {
        free(source->denials[i].path);
    }
    free(source->denials);
    close_fd(source->root);
    close_fd(source->again_root);
    close_fd(source->capture);
    free(source);
}

void rg_source_cleanup(struct rg_source **source)
{
    rg_source_close(*source);
}

bool rg_source_is_live(const struct rg_source *source)
{
    return source->is_live;
}

bool rg_source_again(struct rg_source *source, bool again)
{
    if (again && !source->is_live && source->again_root < 0) {
        return false;
    }
    source->again = again;
    return true;
}

void rg_source_avoid(struct rg_source *source, const char *path)
{
    if (source->avoided_count < AVOID_MAX && path[0]) {
        snprintf(source->avoided[source->avoided_count++], RG_HOST_PATH_MAX + 1, "%s", path);
    }
}

void rg_source_watch(struct rg_source *source, struct rg_source_watch *watch)
{
    source->watch = watch;
}

void rg_source_alive(struct rg_source *source)
{
    if (source->watch) {
        atomic_fetch_add(&source->watch->probe.progress, 1);
    }
}

static void note_path(struct rg_source *source, const char *path)
{
    if (source->watch) {
        snprintf(source->watch->path, sizeof source->watch->path, "%s", path);
        rg_source_alive(source);
    }
}

/* ---- Capturing ---- */

static void capture_failed(struct rg_source *source, const char *path)
{
    if (!source->capture_failed) {
        source->capture_failed = true;
        (void)rg_fail_errno(&source->capture_error, RG_STORAGE_FAULT, errno,
                            "%s cannot be captured", path);
    }
}

static bool make_directories(int root, const char *path)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);
        if (len == 0) {
            continue;
        }
        if (len >= sizeof part) {
            errno = ENAMETOOLONG;
            return false;
        }
        memcpy(part, path, len);
        part[len] = 0;
        if (mkdirat(root, part, 0755) < 0 && errno != EEXIST) {
            return false;
        }
    }
    return true;
}

/* Puts the link where it stands on the machine, so that later reads go the same ways. */
static bool copy_link(int root, const char *at, const char *target)
{
    return make_directories(root, at) && (symlinkat(target, root, at) == 0 || errno == EEXIST);
}

/*
 * Where `path` leads once all its links are followed, relative to the root; on the way the links
 * are made in the copy. The last component is followed too unless `keep_last`.
 */
static bool resolve(int root, const char *path, bool keep_last, char ret_path[PATH_MAX])
{
    char rest[PATH_MAX];
    char done[PATH_MAX] = "";
    int links = 0;
    snprintf(rest, sizeof rest, "%s", path);
    while (rest[0]) {
        char *start = rest + strspn(rest, "/");
        size_t len = strcspn(start, "/");
        bool is_last = start[len + strspn(start + len, "/")] == 0;
        char name[NAME_MAX + 1];
        if (len > NAME_MAX) {
            return false;
        }
        memcpy(name, start, len);
        name[len] = 0;
        memmove(rest, start + len, strlen(start + len) + 1);
        size_t used = strlen(done);
        if (len == 0 || strcmp(name, ".") == 0) {
            continue;
        }
        if (strcmp(name, "..") == 0) {
            char *slash = strrchr(done, '/');
            done[slash ? slash - done : 0] = 0;
            continue;
        }
        if (snprintf(done + used, sizeof done - used, "%s%s", used ? "/" : "", name) >=
            (int)(sizeof done - used)) {
            return false;
        }
        char whole[PATH_MAX + 1];
        char target[PATH_MAX];
        snprintf(whole, sizeof whole, "/%s", done);
        ssize_t got = is_last && keep_last ? -1 : readlink(whole, target, sizeof target - 1);
        if (got <= 0) {
            continue;
        }
        target[got] = 0;
        /* Descriptors and the like: "socket:[1]". They lead nowhere in a copy. */
        if (++links > LINKS_MAX || !copy_link(root, done, target)) {
            return false;
        }
        done[target[0] == '/' ? 0 : used] = 0;
        char joined[2 * PATH_MAX];
        snprintf(joined, sizeof joined, "%s/%s", target, rest);
        if (strlen(joined) >= sizeof rest) {
            return false;
        }
        memcpy(rest, joined, strlen(joined) + 1);
    }
    memcpy(ret_path, done, sizeof done);
    return true;
}

/* The root of the copy for what is read now; the caller closes it. */
static int capture_root(const struct rg_source *source)
{
    if (!source->again) {
        return dup(source->capture);
    }
    if (!make_directories(source->capture, AGAIN_DIR "/")) {
        return -1;
    }
    return openat(source->capture, AGAIN_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool write_file(int root, const char *path, const char *bytes, size_t len, int extra_flags)
{
    if (!make_directories(root, path)) {
        return false;
    }
    rg_autoclose int fd =
        openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | extra_flags, 0644);
    return fd >= 0 && rg_probe_write(fd, bytes, len) == 0;
}

static void capture_content(struct rg_source *source, const char *path, const struct rg_buf *from,
                            size_t start)
{
    char real[PATH_MAX];
    rg_autoclose int root = capture_root(source);
    if (root < 0 || !resolve(root, path, false, real) ||
        !write_file(root, real, rg_buf_text(from) + start, from->len - start, O_TRUNC)) {
        capture_failed(source, path);
    }
}

static void capture_directory(struct rg_source *source, const char *path,
                              const struct rg_names *names)
{
    char real[PATH_MAX];
    rg_autoclose int root = capture_root(source);
    bool ok = root >= 0 && resolve(root, path, false, real);
    if (ok) {
        size_t len = strlen(real);
        ok = len + 2 < sizeof real;
        memcpy(real + len, "/", ok ? 2 : 0);
        ok = ok && make_directories(root, real);
    }
    /* The entries too: links as links, the others empty until somebody reads them. */
    for (size_t i = 0; ok && i < names->count; i++) {
        char child[2 * PATH_MAX];
        char target[PATH_MAX];
        char below[2 * PATH_MAX];
        struct stat st;
        snprintf(child, sizeof child, "%s/%s", path, names->name[i]);
        snprintf(below, sizeof below, "%s%s", real, names->name[i]);
        ssize_t got = readlink(child, target, sizeof target - 1);
        if (got > 0) {
            target[got] = 0;
            ok = copy_link(root, below, target);
        } else if (lstat(child, &st) == 0 && S_ISDIR(st.st_mode)) {
            ok = mkdirat(root, below, 0755) == 0 || errno == EEXIST;
        } else {
            ok = write_file(root, below, "", 0, 0);
        }
    }
    if (!ok) {
        capture_failed(source, path);
    }
}

static void capture_link(struct rg_source *source, const char *path, const char *target)
{
    char real[PATH_MAX];
    rg_autoclose int root = capture_root(source);
    if (root < 0 || !resolve(root, path, true, real) || !copy_link(root, real, target)) {
        capture_failed(source, path);
    }
}

static void capture_error(struct rg_source *source, const char *path, int os_errno)
{
    char line[RG_HOST_PATH_MAX + 32];
    int len = snprintf(line, sizeof line, "%d %s%s\n", os_errno, source->again ? "/" AGAIN_DIR : "",
                       path);
    if (!write_file(source->capture, DOCUMENT_DIR "errors", line, (size_t)len, O_APPEND)) {
        capture_failed(source, path);
    }
}

static void capture_existence(struct rg_source *source, const char *path)
{
    char real[PATH_MAX];
    struct stat st;
    rg_autoclose int root = capture_root(source);
    if (root < 0 || !resolve(root, path, false, real)) {
        capture_failed(source, path);
        return;
    }
    bool is_directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    bool ok = is_directory ? make_directories(root, real) &&
                                 (mkdirat(root, real, 0755) == 0 || errno == EEXIST)
                           : write_file(root, real, "", 0, 0);
    if (!ok && real[0]) {
        capture_failed(source, path);
    }
}

/* Root writes below it: a link that somebody else has put there must not say where. */
static int refuse_target(const char *name, int os_errno, struct rg_error *err)
{
    struct stat st;
    if (lstat(name, &st) == 0 && S_ISLNK(st.st_mode)) {
        return rg_failf(err, RG_SETTING,
                        "%s is a symbolic link, which is not followed: name the directory itself",
                        name);
    }
    return rg_fail_errno(err, RG_SETTING, os_errno, "%s cannot be opened", name);
}

/* A listing that leaves `fd` open. */
static DIR *list_again(int fd)
{
    rg_autoclose int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);
    if (listing) {
        (void)RG_TAKE_FD(copy);
    }
    return listing;
}

int rg_source_capture(struct rg_source *source, const char *directory, struct rg_error *err)
{
    RG_ASSERT(source->is_live && source->capture < 0);
    char name[PATH_MAX];
    size_t len = strlen(directory);
    /* A slash at the end would follow a link. */
    while (len > 1 && directory[len - 1] == '/') {
        len--;
    }
    if (len >= sizeof name) {
        return rg_fail_errno(err, RG_SETTING, ENAMETOOLONG, "%.60s... cannot be made", directory);
    }
    memcpy(name, directory, len);
    name[len] = 0;
    if (mkdir(name, 0755) < 0 && errno != EEXIST) {
        return rg_fail_errno(err, RG_SETTING, errno, "%s cannot be made", directory);
    }
    rg_autoclose int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return refuse_target(name, errno, err);
    }
    rg_autoclosedir DIR *listing = list_again(fd);
    if (!listing) {
        return rg_fail_errno(err, RG_SETTING, errno, "%s cannot be listed", directory);
    }
    for (const struct dirent *entry; (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            return rg_failf(err, RG_SETTING, "%s is not empty", directory);
        }
    }
    source->capture = RG_TAKE_FD(fd);
    return 0;
}

int rg_source_capture_result(const struct rg_source *source, struct rg_error *err)
{
    if (source->capture_failed) {
        *err = source->capture_error;
        return -(int)err->code;
    }
    return 0;
}

/* ---- How a read begins and ends ---- */

static bool is_missing(int os_errno)
{
    return os_errno == ENOENT || os_errno == ENOTDIR || os_errno == ENODEV || os_errno == ENXIO;
}

static void refuse(struct rg_source *source, struct rg_reading *at, int os_errno)
{
    at->state = is_missing(os_errno) ? RG_READ_MISSING : RG_READ_UNREADABLE;
    at->os_errno = os_errno;
    if (at->state == RG_READ_UNREADABLE && source->capture >= 0) {
        capture_error(source, at->path, os_errno);
    }
}

static int denied(const struct rg_source *source, const char *path)
{
    for (size_t i = 0; i < source->avoided_count; i++) {
        size_t len = strlen(source->avoided[i]);
        if (strncmp(path, source->avoided[i], len) == 0 && (path[len] == 0 || path[len] == '/')) {
            return ETIMEDOUT;
        }
    }
    for (size_t i = 0; i < source->denial_count; i++) {
        const char *listed = source->denials[i].path;
        if (source->again) {
            size_t len = strlen("/" AGAIN_DIR);
            listed = strncmp(listed, "/" AGAIN_DIR, len) == 0 ? listed + len : "";
        }
        if (strcmp(listed, path) == 0) {
            return source->denials[i].os_errno;
        }
    }
    return 0;
}

/* Formats the path; true when the read may go on. */
RG_PRINTF(3, 0)
static bool begin(struct rg_source *source, struct rg_reading *ret_at, const char *format,
                  va_list args)
{
    *ret_at = (struct rg_reading){.state = RG_READ_UNREADABLE};
    if (vsnprintf(ret_at->path, sizeof ret_at->path, format, args) >= (int)sizeof ret_at->path) {
        ret_at->os_errno = ENAMETOOLONG;
        return false;
    }
    note_path(source, ret_at->path);
    ret_at->os_errno = denied(source, ret_at->path);
    if (ret_at->os_errno && is_missing(ret_at->os_errno)) {
        ret_at->state = RG_READ_MISSING;
    }
    return ret_at->os_errno == 0;
}

/* Appends up to `most` bytes; -1 with errno. */
static ssize_t read_all(int fd, struct rg_buf *out, size_t most, bool *ret_truncated)
{
    size_t total = 0;
    char piece[4096];
    *ret_truncated = false;
    for (;;) {
        ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -1 : (ssize_t)total;
        }
        size_t room = most - total;
        if ((size_t)got > room) {
            *ret_truncated = true;
            got = (ssize_t)room;
        }
        rg_buf_add(out, piece, (size_t)got);
        total += (size_t)got;
        if (*ret_truncated) {
            return (ssize_t)total;
        }
    }
}

/* Files only: a tree could hold anything. */
static void read_path(struct rg_source *source, struct rg_buf *out, struct rg_reading *at)
{
    struct stat st;
    size_t start = out->len;
    size_t room = out->max - RG_MIN(out->len, out->max);
    size_t most = RG_MIN(room, RG_HOST_FILE_MAX);
    rg_autoclose int fd = open_path(source, at->path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        refuse(source, at, errno);
        return;
    }
    if (!S_ISREG(st.st_mode)) {
        at->state = RG_READ_MALFORMED;
        return;
    }
    if (read_all(fd, out, most, &at->truncated) < 0) {
        refuse(source, at, errno);
        return;
    }
    at->state = RG_READ_OK;
    if (!rg_buf_ok(out)) {
        refuse(source, at, ENOMEM);
    } else if (source->capture >= 0) {
        capture_content(source, at->path, out, start);
    }
}

void rg_source_read(struct rg_source *source, struct rg_buf *out, struct rg_reading *ret_at,
                    const char *path_format, ...)
{
    va_list args;
    va_start(args, path_format);
    bool may = begin(source, ret_at, path_format, args);
    va_end(args);
    if (may) {
        read_path(source, out, ret_at);
    }
}

/* ---- Lines and numbers ---- */

bool rg_host_parse_text(const char *bytes, size_t len, char ret_text[RG_HOST_TEXT_MAX + 1],
                        bool *ret_truncated)
{
    const char *end = memchr(bytes, '\n', len);
    struct span line = rg_span_trim(rg_span(bytes, end ? (size_t)(end - bytes) : len));
    while (line.len && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    ret_text[0] = 0;
    for (size_t i = 0; i < line.len; i++) {
        unsigned char c = (unsigned char)line.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    if (!rg_span_is_utf8(line)) {
        return false;
    }
    *ret_truncated = line.len > RG_HOST_TEXT_MAX;
    line = rg_span_head(line, RG_HOST_TEXT_MAX);
    while (*ret_truncated && line.len && !rg_span_is_utf8(line)) {
        line.len--;
    }
    memcpy(ret_text, line.ptr, line.len);
    ret_text[line.len] = 0;
    return true;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

bool rg_host_parse_number(const char *text, int64_t *ret_value)
{
    bool negative = text[0] == '-';
    const char *at = text + (negative || text[0] == '+');
    uint64_t base = 10;
    uint64_t value = 0;
    if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
        base = 16;
        at += 2;
    }
    if (!*at) {
        return false;
    }
    for (; *at; at++) {
        uint64_t digit = (uint64_t)digit_of(*at);
        if (digit >= base || !rg_mul_checked(value, base, &value) ||
            !rg_add_checked(value, digit, &value)) {
            return false;
        }
    }
    if (value > INT64_MAX) {
        /* Counters are unsigned in the kernel; half of their range is enough to compare. */
        value = INT64_MAX;
    }
    *ret_value = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static void read_text(struct rg_source *source, struct rg_text *text)
{
    RG_BUF(content, 4096);
    bool cut = false;
    text->text[0] = 0;
    read_path(source, &content, &text->at);
    if (text->at.state != RG_READ_OK) {
        return;
    }
    if (!rg_host_parse_text(rg_buf_text(&content), content.len, text->text, &cut)) {
        text->at.state = RG_READ_MALFORMED;
    }
    text->at.truncated |= cut;
}

void rg_source_text(struct rg_source *source, struct rg_text *ret_text, const char *path_format,
                    ...)
{
    va_list args;
    ret_text->text[0] = 0;
    va_start(args, path_format);
    bool may = begin(source, &ret_text->at, path_format, args);
    va_end(args);
    if (may) {
        read_text(source, ret_text);
    }
}

void rg_source_number(struct rg_source *source, struct rg_number *ret_number,
                      const char *path_format, ...)
{
    struct rg_text line = {0};
    va_list args;
    ret_number->value = 0;
    va_start(args, path_format);
    bool may = begin(source, &line.at, path_format, args);
    va_end(args);
    if (may) {
        read_text(source, &line);
    }
    ret_number->at = line.at;
    if (line.at.state == RG_READ_OK &&
        (line.at.truncated || !rg_host_parse_number(line.text, &ret_number->value))) {
        ret_number->at.state = RG_READ_MALFORMED;
        ret_number->value = 0;
    }
}

/* ---- Directories and links ---- */

void rg_names_free(struct rg_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->name[i]);
    }
    free(names->name);
    names->name = NULL;
    names->count = 0;
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

static bool is_plain_name(const char *name)
{
    for (const char *at = name; *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            return false;
        }
    }
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void read_names(DIR *directory, struct rg_names *names)
{
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (!is_plain_name(entry->d_name)) {
            continue;
        }
        if (names->count == RG_HOST_NAMES_MAX) {
            names->at.truncated = true;
            break;
        }
        char *copy = strdup(entry->d_name);
        if (!copy) {
            names->at.truncated = true;
            break;
        }
        names->name[names->count++] = copy;
    }
    qsort(names->name, names->count, sizeof *names->name, compare_names);
}

void rg_source_list(struct rg_source *source, struct rg_names *ret_names, const char *path_format,
                    ...)
{
    va_list args;
    *ret_names = (struct rg_names){0};
    va_start(args, path_format);
    bool may = begin(source, &ret_names->at, path_format, args);
    va_end(args);
    if (!may) {
        return;
    }
    rg_autoclose int fd = open_path(source, ret_names->at.path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        refuse(source, &ret_names->at, errno);
        return;
    }
    rg_autoclosedir DIR *directory = fdopendir(fd);
    ret_names->name = calloc(RG_HOST_NAMES_MAX, sizeof *ret_names->name);
    if (!directory || !ret_names->name) {
        refuse(source, &ret_names->at, ENOMEM);
        return;
    }
    (void)RG_TAKE_FD(fd);
    ret_names->at.state = RG_READ_OK;
    read_names(directory, ret_names);
    if (source->capture >= 0) {
        capture_directory(source, ret_names->at.path, ret_names);
    }
}

static ssize_t read_link(const struct rg_source *source, const char *path, char *target,
                         size_t room)
{
    if (source->is_live) {
        return readlink(path, target, room);
    }
    rg_autoclose int fd = open_path(source, path, O_PATH | O_NOFOLLOW);
    return fd < 0 ? -1 : readlinkat(fd, "", target, room);
}

void rg_source_link(struct rg_source *source, struct rg_text *ret_text, const char *path_format,
                    ...)
{
    char target[PATH_MAX];
    bool cut;
    va_list args;
    ret_text->text[0] = 0;
    va_start(args, path_format);
    bool may = begin(source, &ret_text->at, path_format, args);
    va_end(args);
    if (!may) {
        return;
    }
    ssize_t len = read_link(source, ret_text->at.path, target, sizeof target - 1);
    if (len < 0) {
        /* A file that is no link: EINVAL live, ENOENT from an O_PATH descriptor. */
        refuse(source, &ret_text->at, errno == EINVAL ? ENOENT : errno);
        return;
    }
    target[len] = 0;
    const char *slash = strrchr(target, '/');
    const char *last = slash ? slash + 1 : target;
    bool ok = rg_host_parse_text(last, strlen(last), ret_text->text, &cut) && !cut;
    ret_text->at.state = ok ? RG_READ_OK : RG_READ_MALFORMED;
    if (source->capture >= 0) {
        capture_link(source, ret_text->at.path, target);
    }
}

bool rg_source_exists(struct rg_source *source, const char *path_format, ...)
{
    struct rg_reading at;
    va_list args;
    va_start(args, path_format);
    bool may = begin(source, &at, path_format, args);
    va_end(args);
    if (!may) {
        return false;
    }
    rg_autoclose int fd = open_path(source, at.path, O_PATH);
    if (fd >= 0 && source->capture >= 0) {
        capture_existence(source, at.path);
    }
    return fd >= 0;
}

/* ---- Documents ---- */

static void read_document(struct rg_source *source, const char *name, struct rg_buf *out,
                          struct rg_reading *ret_at)
{
    rg_source_read(source, out, ret_at, "/" DOCUMENT_DIR "%s", name);
}

/* A document belongs to the reading it was made in, and is named like a file of it. */
static void end_probe(struct rg_source *source, const char *name, struct rg_buf *out, size_t start,
                      const struct rg_probe_result *result, struct rg_reading *at)
{
    char path[RG_HOST_PATH_MAX + 1];
    snprintf(path, sizeof path, "/" DOCUMENT_DIR "%s", name);
    at->os_errno = result->end == RG_PROBE_DONE      ? 0
                   : result->end == RG_PROBE_FAILED  ? result->status
                   : result->end == RG_PROBE_CRASHED ? EIO
                                                     : ETIMEDOUT;
    at->truncated = result->truncated;
    at->state = at->os_errno == 0          ? RG_READ_OK
                : is_missing(at->os_errno) ? RG_READ_MISSING
                                           : RG_READ_UNREADABLE;
    if (source->capture < 0) {
        return;
    }
    if (at->state != RG_READ_OK) {
        capture_error(source, path, at->os_errno);
    } else {
        capture_content(source, path, out, start);
    }
}

static void cannot_probe(struct rg_reading *at, const struct rg_error *err)
{
    at->state = RG_READ_UNREADABLE;
    at->os_errno = err->os_errno ? err->os_errno : ENOMEM;
}

void rg_source_probe(struct rg_source *source, const char *name, const char *where,
                     rg_probe_function *function, void *argument, unsigned timeout_ms,
                     struct rg_buf *out, struct rg_reading *ret_at)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_probe_result result;
    size_t start = out->len;
    *ret_at = (struct rg_reading){0};
    note_path(source, name);
    if (!source->is_live) {
        read_document(source, name, out, ret_at);
    } else if (rg_probe_run(function, argument, timeout_ms, out, &result, &err) < 0) {
        cannot_probe(ret_at, &err);
    } else {
        end_probe(source, name, out, start, &result, ret_at);
    }
    snprintf(ret_at->path, sizeof ret_at->path, "%s", where);
}

void rg_source_probe_file(struct rg_source *source, const char *name, const char *path,
                          rg_probe_function *function, unsigned timeout_ms, struct rg_buf *out,
                          struct rg_reading *ret_at)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_probe_result result;
    struct stat st;
    size_t start = out->len;
    if (!source->is_live) {
        read_document(source, name, out, ret_at);
        if (ret_at->state != RG_READ_MISSING) {
            snprintf(ret_at->path, sizeof ret_at->path, "%s", path);
            return;
        }
    }
    *ret_at = (struct rg_reading){.state = RG_READ_UNREADABLE};
    snprintf(ret_at->path, sizeof ret_at->path, "%s", path);
    note_path(source, path);
    rg_autoclose int fd = -1;
    int failure = denied(source, path);
    if (!failure) {
        fd = open_path(source, path, O_RDONLY | O_NONBLOCK);
        failure = fd < 0 || fstat(fd, &st) < 0 ? errno : S_ISREG(st.st_mode) ? 0 : ENOEXEC;
    }
    if (failure) {
        ret_at->os_errno = failure;
        ret_at->state = is_missing(failure) ? RG_READ_MISSING : RG_READ_UNREADABLE;
        if (source->capture >= 0) {
            char document[RG_HOST_PATH_MAX + 1];
            snprintf(document, sizeof document, "/" DOCUMENT_DIR "%s", name);
            capture_error(source, document, failure);
        }
        return;
    }
    if (rg_probe_run(function, &fd, timeout_ms, out, &result, &err) < 0) {
        cannot_probe(ret_at, &err);
        return;
    }
    end_probe(source, name, out, start, &result, ret_at);
}

/* They end with 1 and say why on their standard error only, in words of their own. */
static bool needs_root(const char *command)
{
    static const char *const commands[] = {"nft",  "iptables-save", "lnetctl",
                                           "lctl", "tunefs.lustre", "nicctl"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(commands); i++) {
        if (strcmp(command, commands[i]) == 0) {
            return geteuid() != 0;
        }
    }
    return false;
}

void rg_source_command(struct rg_source *source, const char *name, const char *const *argv,
                       unsigned timeout_ms, struct rg_buf *out, struct rg_reading *ret_at)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_probe_result result;
    size_t start = out->len;
    *ret_at = (struct rg_reading){0};
    note_path(source, name);
    if (!source->is_live) {
        read_document(source, name, out, ret_at);
    } else if (rg_probe_command(argv, timeout_ms, out, &result, &err) < 0) {
        cannot_probe(ret_at, &err);
    } else {
        if (result.end == RG_PROBE_FAILED) {
            result.status = result.status == RG_PROBE_NO_COMMAND ? ENOENT
                            : needs_root(argv[0])                ? EPERM
                                                                 : EIO;
        }
        end_probe(source, name, out, start, &result, ret_at);
    }
    size_t used = 0;
    for (size_t i = 0; argv[i] && used < sizeof ret_at->path; i++) {
        used += (size_t)snprintf(ret_at->path + used, sizeof ret_at->path - used, "%s%s",
                                 i ? " " : "", argv[i]);
    }
}

/* ---- Words ---- */

void rg_reading_tell(const struct rg_reading *at, struct rg_buf *out)
{
    const char *what = at->path[0] ? at->path : "it";
    switch (at->state) {
    case RG_READ_NOT_ASKED:
        rg_buf_addf(out, "%s was not read", what);
        break;
    case RG_READ_OK:
        rg_buf_addf(out, "%s was read", what);
        break;
    case RG_READ_MISSING:
        rg_buf_addf(out, "%s is not there", what);
        break;
    case RG_READ_UNREADABLE:
        rg_buf_addf(out, "%s cannot be read: %s%s", what, strerror(at->os_errno),
                    at->os_errno == EACCES || at->os_errno == EPERM ? " (root could)" : "");
        break;
    case RG_READ_MALFORMED:
        rg_buf_addf(out, "%s does not hold what it should", what);
        break;
    }
}
