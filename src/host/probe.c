/*
 * Probes in children. See probe.h.
 */
#include "host/probe.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES   16384
#define DIE_WITHIN_MS 200
#define LOOK_MS       100

int rg_probe_write(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t written = write(fd, text, len);
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        if (written > 0) {
            text += written;
            len -= (size_t)written;
        }
    }
    return 0;
}

RG_NORETURN static void be_child(rg_probe_function *function, void *argument, int fd)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    /* Its own group, so that what it starts dies with it. */
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = function(argument, fd);
    _exit(status < 0 || status > 255 ? 255 : status);
}

/* What does not fit is read and dropped: the child must not block on it. */
static void take(const char *bytes, size_t len, struct rg_buf *out, struct rg_probe_result *result)
{
    size_t room = out->max - RG_MIN(out->len, out->max);
    if (len > room) {
        result->truncated = true;
        len = room;
    }
    rg_buf_add(out, bytes, len);
}

/* How long the child has made no progress. */
struct stall {
    const struct rg_probe_watch *watch; /* NULL: nobody watches */
    unsigned progress;
    uint64_t since_ms;
};

static bool is_stalled(struct stall *stall, uint64_t now_ms)
{
    if (!stall->watch) {
        return false;
    }
    unsigned progress = atomic_load(&stall->watch->progress);
    if (progress != stall->progress) {
        stall->progress = progress;
        stall->since_ms = now_ms;
    }
    return now_ms - stall->since_ms >= stall->watch->stall_ms;
}

/* Until the end of the pipe; false when the time is over first. */
static bool collect(int fd, uint64_t deadline_ms, const struct rg_probe_watch *watch,
                    struct rg_buf *out, struct rg_probe_result *result)
{
    char piece[PIECE_BYTES];
    struct stall stall = {.watch = watch, .since_ms = rg_clock_ms()};
    uint64_t look_ms = watch ? LOOK_MS : 60000;
    for (;;) {
        uint64_t now = rg_clock_ms();
        if (now >= deadline_ms || is_stalled(&stall, now)) {
            return false;
        }
        struct pollfd item = {.fd = fd, .events = POLLIN};
        int ready = poll(&item, 1, (int)RG_MIN(deadline_ms - now, look_ms));
        if (ready <= 0) {
            continue;
        }
        ssize_t len = read(fd, piece, sizeof piece);
        if (len == 0 || (len < 0 && errno != EINTR && errno != EAGAIN)) {
            return true;
        }
        if (len > 0) {
            take(piece, (size_t)len, out, result);
        }
    }
}

/* True when the child has ended by then. */
static bool reap(pid_t pid, uint64_t deadline_ms, int *ret_status)
{
    for (;;) {
        pid_t got = waitpid(pid, ret_status, WNOHANG);
        if (got == pid) {
            return true;
        }
        if (got < 0 && errno != EINTR) {
            *ret_status = 0;
            return true;
        }
        if (rg_clock_ms() >= deadline_ms) {
            return false;
        }
        struct timespec pause = {.tv_nsec = 500000};
        (void)nanosleep(&pause, NULL);
    }
}

static void finish(pid_t pid, bool in_time, uint64_t deadline_ms, struct rg_probe_result *result)
{
    int status = 0;
    if (in_time && reap(pid, deadline_ms, &status)) {
        result->end = WIFSIGNALED(status)        ? RG_PROBE_CRASHED
                      : WEXITSTATUS(status) == 0 ? RG_PROBE_DONE
                                                 : RG_PROBE_FAILED;
        result->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
        return;
    }
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    result->end =
        reap(pid, rg_clock_ms() + DIE_WITHIN_MS, &status) ? RG_PROBE_KILLED : RG_PROBE_STUCK;
}

int rg_probe_run(rg_probe_function *function, void *argument, unsigned timeout_ms,
                 struct rg_buf *out, struct rg_probe_result *ret_result, struct rg_error *err)
{
    return rg_probe_run_watched(function, argument, timeout_ms, NULL, out, ret_result, err);
}

int rg_probe_run_watched(rg_probe_function *function, void *argument, unsigned timeout_ms,
                         const struct rg_probe_watch *watch, struct rg_buf *out,
                         struct rg_probe_result *ret_result, struct rg_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno, "There is no pipe for a probe");
    }
    rg_autoclose int reader = ends[0];
    rg_autoclose int writer = ends[1];
    uint64_t deadline_ms = rg_clock_ms() + timeout_ms;
    pid_t pid = fork();
    if (pid < 0) {
        return rg_fail_errno(err, RG_SERVICE_UNAVAILABLE, errno, "There is no process for a probe");
    }
    if (pid == 0) {
        be_child(function, argument, writer);
    }
    close(RG_TAKE_FD(writer));
    (void)setpgid(pid, pid);
    struct rg_probe_result result = {.end = RG_PROBE_DONE};
    bool in_time = collect(reader, deadline_ms, watch, out, &result);
    finish(pid, in_time, deadline_ms, &result);
    *ret_result = result;
    return 0;
}

/* ---- Commands ---- */

static const char *const directories[] = {"/usr/sbin", "/usr/bin",        "/sbin",
                                          "/bin",      "/usr/local/sbin", "/usr/local/bin"};

static int exec_command(void *argument, int fd)
{
    const char *const *argv = argument;
    static const char *const environment[] = {
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin", "LC_ALL=C", NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
        dup2(fd, STDOUT_FILENO) < 0) {
        return 255;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(directories); i++) {
        char path[256];
        if (snprintf(path, sizeof path, "%s/%s", directories[i], argv[0]) < (int)sizeof path) {
            execve(path, (char *const *)argv, (char *const *)environment);
        }
    }
    return RG_PROBE_NO_COMMAND;
}

int rg_probe_command(const char *const *argv, unsigned timeout_ms, struct rg_buf *out,
                     struct rg_probe_result *ret_result, struct rg_error *err)
{
    return rg_probe_run(exec_command, (void *)argv, timeout_ms, out, ret_result, err);
}
