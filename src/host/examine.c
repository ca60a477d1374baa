#include "host/examine.h"

#include "host/json.h"
#include "host/probe.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ATTEMPTS_MAX 5

/* Longer than any probe may take. Whoever goes on making progress, on a machine that is busy with
 * other things, is given time. */
#define STALL_MS 15000
#define TOTAL_MS 180000

struct attempt {
    const struct rg_examination *what;
    struct rg_source_watch *watch; /* shared */
    char hung[ATTEMPTS_MAX][RG_HOST_PATH_MAX + 1];
    size_t hung_count;
};

/* ---- In the child ---- */

static int check_baseline(const struct rg_host_facts *facts, struct rg_error *err)
{
    const struct rg_reading *at = &facts->counters.baseline_at;
    if (!facts->plan.baseline[0] || rg_reading_ok(at)) {
        return 0;
    }
    RG_BUF(why, 1024);
    rg_reading_tell(at, &why);
    return rg_failf(err, RG_SETTING, "The baseline is no use: %s", rg_buf_text(&why));
}

static json_t *examine(struct attempt *attempt, struct rg_error *err)
{
    const struct rg_examination *what = attempt->what;
    RG_CLEANUP(rg_source_cleanup) struct rg_source *source = NULL;
    RG_CLEANUP(rg_host_facts_cleanup) struct rg_host_facts *facts = NULL;
    RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
    if (rg_source_open(what->sysroot, &source, err) < 0 ||
        (what->capture && rg_source_capture(source, what->capture, err) < 0)) {
        return NULL;
    }
    rg_source_watch(source, attempt->watch);
    for (size_t i = 0; i < attempt->hung_count; i++) {
        rg_source_avoid(source, attempt->hung[i]);
    }
    if (rg_host_read(source, what->plan, &facts, err) < 0 || check_baseline(facts, err) < 0 ||
        rg_host_judge(facts, &findings, err) < 0 ||
        (what->capture && rg_source_capture_result(source, err) < 0)) {
        return NULL;
    }
    json_t *report = rg_report_build(facts, &findings);
    if (!report) {
        (void)rg_fail(err, RG_OUT_OF_MEMORY);
    }
    return report;
}

static int run_examination(void *argument, int fd)
{
    struct rg_error err = RG_ERROR_INIT;
    json_t *report = examine(argument, &err);
    if (!report) {
        report = json_pack("{s:i, s:s}", "code", err.code, "error", err.message);
    }
    return rg_host_tell_json(report, fd);
}

/* ---- In the parent ---- */

/* What the child could not do, as its error. */
static int take_error(const json_t *report, struct rg_error *err)
{
    const char *words = json_string_value(json_object_get(report, "error"));
    json_int_t code = json_integer_value(json_object_get(report, "code"));
    if (!words) {
        return 0;
    }
    bool is_known = code > RG_OK && code < RG_CODE_COUNT;
    return rg_failf(err, is_known ? (enum rg_code)code : RG_SERVICE_UNAVAILABLE, "%s", words);
}

static int take_report(struct attempt *attempt, const struct rg_buf *text,
                       const struct rg_probe_result *result, json_t **ret_report,
                       struct rg_error *err)
{
    RG_CLEANUP(rg_host_json_free)
    json_t *report = json_loadb(rg_buf_text(text), text->len, 0, NULL);
    if (result->end != RG_PROBE_DONE || !json_is_object(report)) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE,
                        "The examination broke off (status %d) while reading %s.", result->status,
                        attempt->watch->path[0] ? attempt->watch->path : "nothing");
    }
    int rc = take_error(report, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < attempt->hung_count; i++) {
        rg_report_add_hang(report, attempt->hung[i]);
    }
    *ret_report = RG_TAKE(report);
    return 0;
}

static int attempt_all(struct attempt *attempt, json_t **ret_report, struct rg_error *err)
{
    const struct rg_examination *what = attempt->what;
    for (;;) {
        RG_BUF(text, RG_REPORT_BYTES_MAX);
        struct rg_probe_result result;
        int rc = rg_probe_run_watched(run_examination, attempt, TOTAL_MS, &attempt->watch->probe,
                                      &text, &result, err);
        if (rc < 0) {
            return rc;
        }
        bool hung = result.end == RG_PROBE_KILLED || result.end == RG_PROBE_STUCK;
        if (!hung) {
            return take_report(attempt, &text, &result, ret_report, err);
        }
        attempt->watch->path[RG_HOST_PATH_MAX] = 0;
        if (what->capture || !attempt->watch->path[0] || attempt->hung_count == ATTEMPTS_MAX) {
            return rg_failf(err, RG_SERVICE_UNAVAILABLE, "Reading %s hangs.",
                            attempt->watch->path[0] ? attempt->watch->path : "this machine");
        }
        memcpy(attempt->hung[attempt->hung_count++], attempt->watch->path, RG_HOST_PATH_MAX + 1);
    }
}

int rg_host_examine(const struct rg_examination *what, json_t **ret_report, struct rg_error *err)
{
    struct attempt attempt = {.what = what};
    struct rg_source_watch *watch =
        mmap(NULL, sizeof *watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (watch == MAP_FAILED) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    watch->probe.stall_ms = what->stall_ms ? what->stall_ms : STALL_MS;
    attempt.watch = watch;
    int rc = attempt_all(&attempt, ret_report, err);
    (void)munmap(watch, sizeof *watch);
    return rc;
}
