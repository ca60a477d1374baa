/* See start.h. */
#include "cli/start.h"

#include "cli/cli.h"
#include "cli/notify.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TELL_FIRST_MS     5000u
#define TELL_EVERY_MS     15000u
#define LIMIT_MS_LEAST    30000u /* however short storage-timeout is: a start asks for much */
#define STOP_MS           2000u  /* for a start that is asked to stop to get to its end */
#define MORE_MS           60000u /* asked of the service manager each time; longer than TELL_EVERY_MS */
#define SUMMARY_BYTES_MAX 16384
#define STATE_BYTES_MAX   (PATH_MAX + 256)

struct rg_start {
    const char *root;
    const struct rg_settings *settings;
    uint64_t limit_ms;
    pthread_t thread;
    int signals_fd;
    int wake_fd; /* raised when a step is over */
    _Atomic bool is_open;
    _Atomic bool is_over;

    /* Of the thread that watches; `caught` is read when it has ended. */
    uint64_t begun_ms; /* of this step */
    uint64_t tell_ms;
    uint64_t stop_ms; /* UINT64_MAX: nobody asked for it */
    bool told;
    int caught;
};

/* ---- The child ---- */

/* Nothing that others wait for is kept open by a child that cannot end. */
static void let_go(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (null >= 0) {
            (void)dup2(null, fd);
        }
    }
    (void)close_range(STDERR_FILENO + 1, UINT_MAX, 0);
}

static _Noreturn void look(const struct rg_start *start, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "rg-first-look");
    if (getppid() == parent) {
        let_go();
        RG_BUF(summary, SUMMARY_BYTES_MAX);
        struct rg_store *store;
        if (rg_store_posix_open(start->root, start->settings, &store, &summary, NULL) == 0) {
            rg_store_close(store);
        }
    }
    _exit(0);
}

/* ---- The thread that watches ---- */

static void describe(const struct rg_start *start, uint64_t now_ms, char *text, size_t room)
{
    uint64_t seconds = (now_ms - start->begun_ms) / 1000;
    if (atomic_load(&start->is_open)) {
        snprintf(text, room,
                 "the tree is open, but RDMA, the listeners or the access log are not: for "
                 "%" PRIu64 " s now",
                 seconds);
    } else {
        snprintf(text, room, "%s has not answered for %" PRIu64 " s", start->root, seconds);
    }
}

static void tell(struct rg_start *start, uint64_t now_ms)
{
    char text[STATE_BYTES_MAX];
    char state[STATE_BYTES_MAX + 128];
    describe(start, now_ms, text, sizeof text);
    rg_log_warn("start.waits", text, RG_FIELD_TEXT("root", start->root),
                RG_FIELD_INT("seconds", (now_ms - start->begun_ms) / 1000),
                RG_FIELD_INT("limit_seconds", start->limit_ms / 1000));
    snprintf(state, sizeof state,
             "STATUS=Starting: %s; the start is given up after %" PRIu64 " s\n"
             "EXTEND_TIMEOUT_USEC=%u",
             text, start->limit_ms / 1000, MORE_MS * 1000);
    rg_cli_notify(state);
    start->told = true;
    start->tell_ms = now_ms + TELL_EVERY_MS;
}

/* The other threads may be where no exit reaches them; this is all that can be done. */
static _Noreturn void give_up(const struct rg_start *start, uint64_t now_ms)
{
    char text[STATE_BYTES_MAX];
    char state[STATE_BYTES_MAX + 64];
    struct rg_error err = RG_ERROR_INIT;
    describe(start, now_ms, text, sizeof text);
    snprintf(state, sizeof state, "STATUS=Not started: %s", text);
    rg_cli_notify(state);
    (void)rg_failf(&err, RG_STORAGE_HUNG, "The start is given up: %s.", text);
    _exit(rg_cli_fail(&err));
}

static _Noreturn void stop(const struct rg_start *start, uint64_t now_ms)
{
    char text[STATE_BYTES_MAX];
    describe(start, now_ms, text, sizeof text);
    rg_log_info("gateway.stop", "stopped before it served", RG_FIELD_TEXT("root", start->root),
                RG_FIELD_TEXT("why", text));
    _exit(RG_EXIT_OK);
}

static void begin_step(struct rg_start *start)
{
    start->begun_ms = rg_clock_ms();
    start->tell_ms = start->begun_ms + TELL_FIRST_MS;
}

/* A second signal does not wait. */
static void take_signal(struct rg_start *start)
{
    struct signalfd_siginfo info;
    if (read(start->signals_fd, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    uint64_t now_ms = rg_clock_ms();
    start->stop_ms = start->caught ? now_ms : now_ms + STOP_MS;
    start->caught = (int)info.ssi_signo;
    if (!atomic_load(&start->is_over)) {
        rg_cli_notify("STOPPING=1");
    }
}

static void *watch(void *argument)
{
    struct rg_start *start = argument;
    (void)pthread_setname_np(pthread_self(), "rg-start");
    struct pollfd items[] = {{.fd = start->wake_fd, .events = POLLIN},
                             {.fd = start->signals_fd, .events = POLLIN}};
    begin_step(start);
    while (!atomic_load(&start->is_over)) {
        uint64_t now_ms = rg_clock_ms();
        uint64_t limit_ms = start->begun_ms + start->limit_ms;
        if (now_ms >= start->stop_ms) {
            stop(start, now_ms);
        } else if (now_ms >= limit_ms) {
            give_up(start, now_ms);
        } else if (now_ms >= start->tell_ms) {
            tell(start, now_ms);
        }
        uint64_t end_ms = RG_MIN(limit_ms, start->stop_ms);
        uint64_t next_ms = RG_MIN(end_ms, start->tell_ms);
        now_ms = rg_clock_ms();
        (void)poll(items, RG_ARRAY_LENGTH(items), next_ms > now_ms ? (int)(next_ms - now_ms) : 0);
        eventfd_t raised;
        if ((items[0].revents & POLLIN) && eventfd_read(start->wake_fd, &raised) == 0) {
            begin_step(start);
        }
        if (items[1].revents & POLLIN) {
            take_signal(start);
        }
    }
    return NULL;
}

/* ---- Begin and end ---- */

static void free_start(struct rg_start *start)
{
    rg_cleanup_close(&start->signals_fd);
    rg_cleanup_close(&start->wake_fd);
    free(start);
}

static void cleanup_start(struct rg_start **start)
{
    if (*start) {
        free_start(*start);
    }
}

static int open_ways(struct rg_start *start, struct rg_error *err)
{
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    start->signals_fd = signalfd(-1, &stops, SFD_NONBLOCK | SFD_CLOEXEC);
    start->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return start->signals_fd < 0 || start->wake_fd < 0
               ? rg_fail_errno(err, RG_INTERNAL_ERROR, errno, "cannot watch the start")
               : 0;
}

int rg_start_begin(const char *root, const struct rg_settings *settings,
                   struct rg_start **ret_start, struct rg_error *err)
{
    RG_CLEANUP(cleanup_start) struct rg_start *start = calloc(1, sizeof *start);
    if (!start) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    start->root = root;
    start->settings = settings;
    start->limit_ms = RG_MAX((uint64_t)settings->storage_timeout, (uint64_t)LIMIT_MS_LEAST);
    start->stop_ms = UINT64_MAX;
    start->signals_fd = start->wake_fd = -1;
    int rc = open_ways(start, err);
    if (rc < 0) {
        return rc;
    }
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        look(start, parent);
    }
    int failed = child < 0 ? errno : pthread_create(&start->thread, NULL, watch, start);
    if (failed) {
        return rg_fail_errno(err, RG_LIMIT, failed, "cannot watch the start");
    }
    /* What it found is found out again: an error is told by who meets it here. */
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    *ret_start = RG_TAKE(start);
    return 0;
}

void rg_start_goes_on(struct rg_start *start)
{
    atomic_store(&start->is_open, true);
    (void)eventfd_write(start->wake_fd, 1);
}

int rg_start_end(struct rg_start *start)
{
    if (!start) {
        return 0;
    }
    atomic_store(&start->is_over, true);
    (void)eventfd_write(start->wake_fd, 1);
    RG_MUST(pthread_join(start->thread, NULL));
    int caught = start->caught;
    if (start->told) {
        rg_cli_notify("STATUS=");
    }
    free_start(start);
    return caught;
}
