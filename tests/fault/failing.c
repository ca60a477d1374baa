/*
 * Preloaded into a gateway: lets the n-th call of a kind fail, or transfer less than it was asked
 * to. A test says which through a file that both map (FAULT_CONTROL names it), and reads there what
 * happened. While nothing is armed every call goes through. It must not allocate on its way, nor
 * fail what nobody asked it to.
 *
 * Calls that glibc makes inside itself are not seen; its allocations are, and those of libraries.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Kinds of calls; several may be armed at once. */
#define ALLOCATION   1u  /* of memory */
#define FILES        2u  /* on files and directories */
#define SHORT_FILES  4u  /* transfers to and from files */
#define SOCKETS      8u  /* transfers to and from sockets */
#define SHORT_SOCKET 16u /* the same, fewer bytes */
#define RESOURCES    32u /* threads, descriptors that are no files */

#define TRACE_MAX 24

/* As tests/fault/control.py lays it out. */
struct control {
    _Atomic uint32_t kinds; /* armed; 0: nothing is */
    uint32_t lasting;       /* all after the n-th, too */
    int64_t error;          /* errno of what fails */
    _Atomic int64_t left;   /* until the one that fails */
    _Atomic int64_t failed; /* how many did */
    char call[32];          /* the first that did */
    uint64_t trace[TRACE_MAX];
};

static struct control *control;

/* What glibc or a sanitizer asks for while the real functions are being looked up. */
static char early[65536] __attribute__((aligned(16)));
static size_t early_used;
/* Volatile: to the compiler, dlsym is a leaf that calls nothing here. */
static __thread volatile bool looking __attribute__((tls_model("initial-exec")));
static __thread volatile bool excused __attribute__((tls_model("initial-exec")));

static void *take_early(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > sizeof early - early_used) {
        abort();
    }
    void *taken = early + early_used;
    early_used += size;
    return taken;
}

static bool is_early(const void *pointer)
{
    return (const char *)pointer >= early && (const char *)pointer < early + sizeof early;
}

static void *look_up(const char *name)
{
    looking = true;
    void *found = dlsym(RTLD_NEXT, name);
    looking = false;
    if (!found) {
        abort();
    }
    return found;
}

#define REAL(name)                                                                                 \
    static __typeof__(&(name)) real;                                                               \
    if (!real) {                                                                                   \
        real = (__typeof__(&(name)))look_up(#name);                                                \
    }

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("FAULT_CONTROL");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    void *frames[2];
    backtrace(frames, 2); /* loads what it needs */
    control = mapped == MAP_FAILED ? NULL : mapped;
}

static void note(const char *call)
{
    if (atomic_fetch_add(&control->failed, 1) > 0) {
        return;
    }
    strncpy(control->call, call, sizeof control->call - 1);
    void *frames[TRACE_MAX];
    excused = true;
    int count = backtrace(frames, TRACE_MAX);
    excused = false;
    for (int i = 0; i < count; i++) {
        control->trace[i] = (uint64_t)(uintptr_t)frames[i];
    }
}

/* Whether this call of a kind is the one. */
static bool strikes(uint32_t kind, const char *call)
{
    if (!control || excused || (atomic_load(&control->kinds) & kind) == 0) {
        return false;
    }
    int64_t left = atomic_fetch_sub(&control->left, 1);
    if (left != 1 && (left > 1 || !control->lasting)) {
        return false;
    }
    note(call);
    return true;
}

static bool fails(uint32_t kind, const char *call)
{
    if (!strikes(kind, call)) {
        return false;
    }
    errno = (int)control->error;
    return true;
}

static mode_t type_of(int fd)
{
    struct stat st;
    int saved = errno;
    long rc = syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH);
    errno = saved;
    return rc == 0 ? st.st_mode & S_IFMT : 0;
}

/* A transfer through a descriptor: true when it fails; *size shrinks when it is to be short. */
static bool transfer_fails(int fd, const char *call, size_t *size)
{
    if (!control || atomic_load(&control->kinds) == 0 || fd <= STDERR_FILENO) {
        return false;
    }
    mode_t type = type_of(fd);
    bool is_socket = type == S_IFSOCK;
    if (!is_socket && type != S_IFREG) {
        return false; /* events and pipes within the process */
    }
    if (fails(is_socket ? SOCKETS : FILES, call)) {
        return true;
    }
    if (*size > 1 && strikes(is_socket ? SHORT_SOCKET : SHORT_FILES, call)) {
        *size = *size / 2;
    }
    return false;
}

/* ---- Memory ---- */

void *malloc(size_t size)
{
    if (looking) {
        return take_early(size);
    }
    REAL(malloc);
    return fails(ALLOCATION, "malloc") ? NULL : real(size);
}

void *calloc(size_t count, size_t size)
{
    if (looking) {
        return take_early(count * size);
    }
    REAL(calloc);
    return fails(ALLOCATION, "calloc") ? NULL : real(count, size);
}

void *realloc(void *old, size_t size)
{
    if (is_early(old)) {
        abort();
    }
    REAL(realloc);
    return fails(ALLOCATION, "realloc") ? NULL : real(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
    REAL(reallocarray);
    return fails(ALLOCATION, "reallocarray") ? NULL : real(old, count, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    REAL(aligned_alloc);
    return fails(ALLOCATION, "aligned_alloc") ? NULL : real(alignment, size);
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
    REAL(posix_memalign);
    return strikes(ALLOCATION, "posix_memalign") ? ENOMEM : real(to, alignment, size);
}

char *strdup(const char *text)
{
    REAL(strdup);
    return fails(ALLOCATION, "strdup") ? NULL : real(text);
}

char *strndup(const char *text, size_t size)
{
    REAL(strndup);
    return fails(ALLOCATION, "strndup") ? NULL : real(text, size);
}

void free(void *pointer)
{
    if (looking || is_early(pointer)) {
        return; /* of what glibc keeps of an earlier look-up */
    }
    REAL(free);
    real(pointer);
}

void *mmap64(void *at, size_t size, int access, int flags, int fd, off64_t offset)
{
    REAL(mmap64);
    return fails(ALLOCATION, "mmap") ? MAP_FAILED : real(at, size, access, flags, fd, offset);
}

/* ---- Files ---- */

#define WRAP(kind, type, name, parameters, arguments, failure)                                     \
    type name parameters                                                                           \
    {                                                                                              \
        REAL(name);                                                                                \
        return fails(kind, #name) ? (failure) : real arguments;                                    \
    }

#define FILE_CALL(name, parameters, arguments) WRAP(FILES, int, name, parameters, arguments, -1)

/* With a mode, or none: passing it on does no harm. */
#define OPEN_CALL(name, parameters, arguments)                                                     \
    int name parameters                                                                            \
    {                                                                                              \
        REAL(name);                                                                                \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                  \
        va_end(rest);                                                                              \
        return fails(FILES, #name) ? -1 : real arguments;                                          \
    }

OPEN_CALL(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(openat64, (int fd, const char *path, int flags, ...), (fd, path, flags, mode))
FILE_CALL(fstat64, (int fd, struct stat64 *st), (fd, st))
FILE_CALL(stat64, (const char *path, struct stat64 *st), (path, st))
FILE_CALL(lstat64, (const char *path, struct stat64 *st), (path, st))
FILE_CALL(fstatat64, (int fd, const char *path, struct stat64 *st, int flags),
          (fd, path, st, flags))
FILE_CALL(statx, (int fd, const char *path, int flags, unsigned mask, struct statx *st),
          (fd, path, flags, mask, st))
FILE_CALL(fstatfs64, (int fd, struct statfs64 *st), (fd, st))
FILE_CALL(fstatvfs64, (int fd, struct statvfs64 *st), (fd, st))
FILE_CALL(faccessat, (int fd, const char *path, int access, int flags), (fd, path, access, flags))
FILE_CALL(fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags),
          (fd, name, value, size, flags))
FILE_CALL(fremovexattr, (int fd, const char *name), (fd, name))
FILE_CALL(linkat, (int from, const char *old, int to, const char *name, int flags),
          (from, old, to, name, flags))
FILE_CALL(symlinkat, (const char *target, int fd, const char *name), (target, fd, name))
FILE_CALL(rename, (const char *old, const char *name), (old, name))
FILE_CALL(renameat, (int from, const char *old, int to, const char *name), (from, old, to, name))
FILE_CALL(renameat2, (int from, const char *old, int to, const char *name, unsigned flags),
          (from, old, to, name, flags))
FILE_CALL(unlinkat, (int fd, const char *name, int flags), (fd, name, flags))
FILE_CALL(mkdirat, (int fd, const char *name, mode_t mode), (fd, name, mode))
FILE_CALL(futimens, (int fd, const struct timespec times[2]), (fd, times))
FILE_CALL(utimensat, (int fd, const char *path, const struct timespec times[2], int flags),
          (fd, path, times, flags))
FILE_CALL(fchmod, (int fd, mode_t mode), (fd, mode))
FILE_CALL(fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags))
FILE_CALL(ftruncate64, (int fd, off64_t size), (fd, size))
FILE_CALL(fallocate64, (int fd, int mode, off64_t offset, off64_t size), (fd, mode, offset, size))
FILE_CALL(fsync, (int fd), (fd))
FILE_CALL(sync_file_range, (int fd, off64_t offset, off64_t size, unsigned flags),
          (fd, offset, size, flags))
FILE_CALL(flock, (int fd, int how), (fd, how))
WRAP(FILES, ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t size),
     (fd, name, value, size), -1)
WRAP(FILES, ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size),
     (path, name, value, size), -1)
WRAP(FILES, ssize_t, flistxattr, (int fd, char *names, size_t size), (fd, names, size), -1)
WRAP(FILES, ssize_t, readlinkat, (int fd, const char *path, char *target, size_t size),
     (fd, path, target, size), -1)
WRAP(FILES, off64_t, lseek64, (int fd, off64_t offset, int whence), (fd, offset, whence), -1)
WRAP(FILES, DIR *, fdopendir, (int fd), (fd), NULL)
WRAP(FILES, DIR *, opendir, (const char *path), (path), NULL)
WRAP(FILES, struct dirent64 *, readdir64, (DIR * dir), (dir), NULL)

/* Locks are taken by fcntl, clones by ioctl; both have one argument of a word or none. */
int fcntl64(int fd, int command, ...)
{
    REAL(fcntl64);
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    bool is_lock = command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK ||
                   command == F_SETLK || command == F_SETLKW;
    bool strikes_here = is_lock ? fails(FILES, "fcntl-lock")
                                : command == F_DUPFD_CLOEXEC && fails(FILES, "fcntl-dup");
    return strikes_here ? -1 : real(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...)
{
    REAL(ioctl);
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return type_of(fd) == S_IFREG && fails(FILES, "ioctl") ? -1 : real(fd, request, argument);
}

long syscall(long number, ...)
{
    REAL(syscall);
    va_list rest;
    va_start(rest, number);
    long words[6];
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(rest, long);
    }
    va_end(rest);
    if ((number == SYS_openat2 && fails(FILES, "openat2")) ||
        (number == SYS_getdents64 && fails(FILES, "getdents64"))) {
        return -1;
    }
    return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* ---- Transfers ---- */

#define TRANSFER(name, parameters, arguments)                                                      \
    ssize_t name parameters                                                                        \
    {                                                                                              \
        REAL(name);                                                                                \
        return transfer_fails(fd, #name, &size) ? -1 : real arguments;                             \
    }

TRANSFER(read, (int fd, void *bytes, size_t size), (fd, bytes, size))
TRANSFER(write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
TRANSFER(pread64, (int fd, void *bytes, size_t size, off64_t offset), (fd, bytes, size, offset))
TRANSFER(pwrite64, (int fd, const void *bytes, size_t size, off64_t offset),
         (fd, bytes, size, offset))
TRANSFER(recv, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags))
TRANSFER(send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
TRANSFER(sendfile64, (int fd, int from, off64_t *offset, size_t size), (fd, from, offset, size))

ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size,
                        unsigned flags)
{
    REAL(copy_file_range);
    return transfer_fails(from, "copy_file_range", &size)
               ? -1
               : real(from, from_offset, to, to_offset, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    struct msghdr shorter = *message;
    struct iovec first = message->msg_iovlen > 0 ? message->msg_iov[0] : (struct iovec){0};
    size_t size = first.iov_len;
    if (transfer_fails(fd, "sendmsg", &size)) {
        return -1;
    }
    if (size < first.iov_len) {
        first.iov_len = size;
        shorter.msg_iov = &first;
        shorter.msg_iovlen = 1;
        return real(fd, &shorter, flags);
    }
    return real(fd, message, flags);
}

/* ---- Resources ---- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument)
{
    REAL(pthread_create);
    return strikes(RESOURCES, "pthread_create") ? EAGAIN : real(thread, attributes, body, argument);
}

WRAP(RESOURCES, int, eventfd, (unsigned count, int flags), (count, flags), -1)
WRAP(RESOURCES, int, epoll_create1, (int flags), (flags), -1)
WRAP(RESOURCES, int, epoll_ctl, (int fd, int what, int on, struct epoll_event *event),
     (fd, what, on, event), -1)
WRAP(RESOURCES, int, accept4, (int fd, struct sockaddr *peer, socklen_t *size, int flags),
     (fd, peer, size, flags), -1)
WRAP(RESOURCES, int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(RESOURCES, int, setsockopt, (int fd, int level, int option, const void *value, socklen_t size),
     (fd, level, option, value, size), -1)
WRAP(RESOURCES, int, getsockname, (int fd, struct sockaddr *name, socklen_t *size),
     (fd, name, size), -1)

/* Sanitizers ask this in each new thread, and end the process when it fails. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
    REAL(pthread_getattr_np);
    excused = true;
    int rc = real(thread, attributes);
    excused = false;
    return rc;
}
