/*
 * /dev/kmsg gives one record a read and says EPIPE where the ring was overwritten meanwhile; both
 * are hidden here. The child runs journalctl without a shell and with its own deadline.
 */
#include "diag/live.h"

#include "base/attr.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define RING_BYTES_MAX     (64 << 20)
#define SYSLOG_READ_ALL    3
#define SYSLOG_SIZE_BUFFER 10
#define CLOSE_WAIT_MS      2000
#define CLOSE_POLL_USEC    20000

struct rg_live {
    int fd;
    bool kmsg;
    pid_t child; /* 0: none */
    uint64_t deadline_ms;
    bool timed_out;
    char *ring; /* of syslog(2) */
    size_t ring_len;
    size_t ring_at;
};

static struct rg_live *make_live(void)
{
    struct rg_live *live = calloc(1, sizeof(*live));
    if (live) {
        live->fd = -1;
    }
    return live;
}

static int open_klog(struct rg_live *live, struct rg_error *err)
{
    int size = klogctl(SYSLOG_SIZE_BUFFER, NULL, 0);
    if (size <= 0 || size > RING_BYTES_MAX) {
        return rg_fail_errno(err, RG_STORAGE_FAULT, errno, "cannot read the kernel ring");
    }
    live->ring = malloc((size_t)size);
    if (!live->ring) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int len = klogctl(SYSLOG_READ_ALL, live->ring, size);
    if (len < 0) {
        return rg_fail_errno(err, RG_STORAGE_FAULT, errno, "cannot read the kernel ring");
    }
    live->ring_len = (size_t)len;
    return 0;
}

int rg_live_open_ring(struct rg_live **ret_live, struct rg_error *err)
{
    struct rg_live *live = make_live();
    if (!live) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    live->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    live->kmsg = live->fd >= 0;
    int rc = live->kmsg ? 0 : open_klog(live, err);
    if (rc < 0) {
        rg_live_close(live, NULL);
        return rc;
    }
    *ret_live = live;
    return 0;
}

/* Starts journalctl with its output in a pipe; its errors go nowhere. */
static int spawn_journalctl(int output, pid_t *ret_child)
{
    /* posix_spawn wants words it could write to. */
    static char command[] = "journalctl", quiet[] = "--quiet", pager[] = "--no-pager";
    static char output_form[] = "--output=export", since[] = "--since=-24h";
    static char *const words[] = {command, quiet, pager, output_form, since, NULL};
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) {
        return rc;
    }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    rc = posix_spawnp(ret_child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

int rg_live_open_journal(unsigned timeout_s, struct rg_live **ret_live, struct rg_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return rg_fail_errno(err, RG_INTERNAL_ERROR, errno, "cannot make a pipe");
    }
    struct rg_live *live = make_live();
    int rc = live ? spawn_journalctl(ends[1], &live->child) : ENOMEM;
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        free(live);
        return rg_fail_errno(err, RG_NOT_FOUND, rc, "cannot run journalctl");
    }
    live->fd = ends[0];
    live->deadline_ms = rg_clock_ms() + (uint64_t)timeout_s * 1000;
    *ret_live = live;
    return 0;
}

static ssize_t read_kmsg(struct rg_live *live, char *bytes, size_t room, struct rg_error *err)
{
    for (;;) {
        ssize_t got = read(live->fd, bytes, room);
        if (got >= 0) {
            return got;
        }
        if (errno == EAGAIN) {
            return 0; /* all that is there now */
        }
        if (errno != EPIPE && errno != EINTR) {
            return rg_fail_errno(err, RG_STORAGE_FAULT, errno, "cannot read the kernel ring");
        }
    }
}

static ssize_t read_child(struct rg_live *live, char *bytes, size_t room, struct rg_error *err)
{
    for (;;) {
        uint64_t now = rg_clock_ms();
        struct pollfd waiting = {.fd = live->fd, .events = POLLIN};
        int wait_ms = now < live->deadline_ms ? (int)(live->deadline_ms - now) : 0;
        int rc = poll(&waiting, 1, wait_ms);
        if (rc == 0) {
            live->timed_out = true;
            return rg_failf(err, RG_TIMED_OUT, "journalctl did not finish in time");
        }
        ssize_t got = rc > 0 ? read(live->fd, bytes, room) : -1;
        if (got >= 0) {
            return got;
        }
        if (errno != EINTR) {
            return rg_fail_errno(err, RG_INTERNAL_ERROR, errno, "cannot read from journalctl");
        }
    }
}

static ssize_t read_live(void *context, char *bytes, size_t room, struct rg_error *err)
{
    struct rg_live *live = context;
    if (live->kmsg) {
        return read_kmsg(live, bytes, room, err);
    }
    if (live->child != 0) {
        return read_child(live, bytes, room, err);
    }
    size_t left = live->ring_len - live->ring_at;
    size_t len = left < room ? left : room;
    memcpy(bytes, live->ring + live->ring_at, len);
    live->ring_at += len;
    return (ssize_t)len;
}

struct rg_stream rg_live_stream(struct rg_live *live)
{
    return (struct rg_stream){.read = read_live, .context = live};
}

/* Waits a little for the child, then kills it. */
static int reap(pid_t child, struct rg_error *err)
{
    uint64_t deadline_ms = rg_clock_ms() + CLOSE_WAIT_MS;
    int status = 0;
    pid_t done = 0;
    while ((done = waitpid(child, &status, WNOHANG)) == 0 && rg_clock_ms() < deadline_ms) {
        usleep(CLOSE_POLL_USEC);
    }
    if (done == 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return rg_failf(err, RG_TIMED_OUT, "journalctl had to be stopped");
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        return rg_failf(err, RG_INTERNAL_ERROR, "journalctl ended with status %d",
                        WEXITSTATUS(status));
    }
    return 0;
}

int rg_live_close(struct rg_live *live, struct rg_error *err)
{
    int rc = 0;
    if (live->fd >= 0) {
        close(live->fd);
    }
    if (live->child > 0) {
        if (live->timed_out) {
            kill(live->child, SIGKILL);
        }
        rc = reap(live->child, err);
    }
    free(live->ring);
    free(live);
    return rc;
}
