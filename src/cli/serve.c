/*
 * railgate serve: opens a store and a gateway over it, waits for signals, drains and leaves. The
 * signals are taken by this thread alone; all others are started with them blocked.
 */
#include "cli/cli.h"
#include "cli/host_at_start.h"
#include "cli/notify.h"
#include "cli/start.h"

#include "base/log.h"
#include "base/settings.h"
#include "gate/gateway.h"
#include "gate/planes.h"
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SUMMARY_BYTES_MAX 16384

/* Descriptors besides one a connection: some per request in progress, and what the process itself
 * keeps open. */
#define FILES_PER_REQUEST 4
#define FILES_OWN         64

void rg_cli_serve_help(struct rg_buf *out)
{
    rg_buf_add_text(
        out,
        "\nEvery directory below DIR whose name is a valid bucket name is a bucket; every "
        "file in it is\nan object. The root account's credentials come from "
        "RAILGATE_ROOT_ACCESS_KEY and\nRAILGATE_ROOT_SECRET_KEY (or a settings file).\n\n"
        "Ready when GET /-/ready on the admin port answers 200; the same listener has "
        "/-/live and\n/-/metrics. A service manager is told too (NOTIFY_SOCKET, as systemd's "
        "Type=notify).\nSIGTERM and SIGINT finish the requests in progress and stop; SIGHUP "
        "reopens the access log\nand reads the TLS certificate again.\n\n"
        "A DIR that does not answer is waited for as long as storage-timeout, half a minute at "
        "least; the\nlog and the service manager are told, and SIGTERM ends it.\n\n"
        "Exit status: 0 after a stop, 2 when a setting is not valid, 1 when the start "
        "failed otherwise.\n\nOptions, all also RAILGATE_NAME in the environment or `name = "
        "value` in the file of --config:\n");
    rg_settings_help(out);
}

static void block_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGINT);
    sigaddset(ret_set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, ret_set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* The limit on open files must fit the ceilings, or they would not be the ones that hold. */
static int raise_file_limit(const struct rg_settings *settings, struct rg_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return rg_fail_errno(err, RG_INTERNAL_ERROR, errno, "cannot read the limit on open files");
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return rg_fail_errno(err, RG_INTERNAL_ERROR, errno, "cannot raise the limit on open files");
    }
    int64_t need =
        settings->connections_max + settings->requests_max * FILES_PER_REQUEST + FILES_OWN;
    if (limit.rlim_max != RLIM_INFINITY && (int64_t)limit.rlim_max < need) {
        return rg_failf(err, RG_SETTING,
                        "setting connections-max is %" PRId64 " (and requests-max %" PRId64
                        "), which needs %" PRId64 " open files, but the limit (ulimit -Hn) is "
                        "%" PRId64,
                        settings->connections_max, settings->requests_max, need,
                        (int64_t)limit.rlim_max);
    }
    return 0;
}

/* Until a signal asks to stop. */
static int wait_for_stop(struct rg_gateway *gateway, const sigset_t *signals)
{
    for (;;) {
        int caught = sigwaitinfo(signals, NULL);
        if (caught == SIGHUP) {
            rg_log_info("gateway.reload", "reopening logs and certificates");
            rg_gateway_reload(gateway);
        } else if (caught > 0) {
            return caught;
        }
    }
}

static void tell_host(struct rg_gateway *gateway, const struct rg_host_at_start *host)
{
    struct rg_error err;
    rg_autofree char *json = rg_host_at_start_json(host);
    rg_host_at_start_log(host);
    if (json && rg_gateway_set_host(gateway, json, &err) < 0) {
        rg_log_warn("doctor.failed", err.message);
    }
}

/*
 * Each thread's arena keeps the memory at its end until there is more than a threshold of it, and
 * that grows by itself to tens of MiB. With it fixed, a gateway that was busy is soon as small as
 * before.
 */
static void bound_allocator(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 4 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

static void cleanup_start(struct rg_start **start)
{
    rg_start_end(*start);
}

/* Everything between a valid command line and the exit. */
static int serve(const struct rg_settings *settings, const char *root, struct rg_error *err)
{
    sigset_t signals;
    block_signals(&signals);
    bound_allocator();
    rg_planes_preload(settings);
    int rc = raise_file_limit(settings, err);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(rg_host_at_start_free)
    struct rg_host_at_start *host = rg_host_at_start_examine(settings);
    RG_CLEANUP(cleanup_start) struct rg_start *start = NULL;
    struct rg_store *store;
    RG_BUF(summary, SUMMARY_BYTES_MAX);
    rc = rg_start_begin(root, settings, &start, err);
    rc = rc < 0 ? rc : rg_store_posix_open(root, settings, &store, &summary, err);
    if (rc < 0) {
        return rc;
    }
    rg_start_goes_on(start);
    struct rg_gateway *gateway;
    bool in_use;
    rc = rg_gateway_open(settings, store, &gateway, &in_use, err);
    if (rc < 0 && in_use) {
        _exit(rg_cli_fail(err));
    }
    if (rc < 0) {
        rg_store_close(store);
        return rc;
    }
    int caught = rg_start_end(RG_TAKE(start));
    tell_host(gateway, host);
    rg_log_info("store.open", rg_buf_text(&summary), RG_FIELD_TEXT("root", root));
    rg_log_info("gateway.ready", "serving",
                RG_FIELD_TEXT("address", settings->address[0] ? settings->address : "*"),
                RG_FIELD_INT("port", rg_gateway_port(gateway)),
                RG_FIELD_INT("admin_port", rg_gateway_admin_port(gateway)),
                RG_FIELD_TEXT("region", settings->region), RG_FIELD_TEXT("root", root),
                RG_FIELD_TEXT("version", RG_VERSION));
    rg_cli_notify("READY=1");

    caught = caught ? caught : wait_for_stop(gateway, &signals);
    rg_log_info("gateway.drain", "finishing the requests in progress",
                RG_FIELD_TEXT("signal", strsignal(caught)));
    rg_cli_notify("STOPPING=1");
    unsigned cut_off = rg_gateway_close(gateway);
    rg_log_info("gateway.stop", "stopped", RG_FIELD_INT("cut_off", cut_off));
    if (cut_off != 0) {
        /* Their threads may still be inside the store, perhaps for ever. */
        _exit(RG_EXIT_OK);
    }
    rg_store_close(store);
    return 0;
}

int rg_cli_serve(int argc, const char **argv)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_settings_free) struct rg_settings settings = {0};
    if (rg_settings_init(&settings, &err) < 0) {
        return rg_cli_fail(&err);
    }
    int count;
    if (rg_settings_load(&settings, argv, argc, (const char *const *)environ, &count, &err) < 0) {
        return rg_cli_fail(&err);
    }
    if (count != 2) {
        return rg_cli_fail_usage("serve", "name a store and its directory, as in: railgate serve "
                                          "posix DIR");
    }
    if (strcmp(argv[0], "posix") != 0) {
        return rg_cli_fail_usage("serve", "no store is called \"%.100s\"; there is: posix",
                                 argv[0]);
    }
    rg_log_setup(STDERR_FILENO, (enum rg_log_format)settings.log_format,
                 (enum rg_log_level)settings.log_level);
    return serve(&settings, argv[1], &err) < 0 ? rg_cli_fail(&err) : RG_EXIT_OK;
}
