#include "cli/host_at_start.h"

#include "base/log.h"
#include "host/examine.h"

#include <stdlib.h>
#include <string.h>

#define STALL_MS 4000

struct rg_host_at_start {
    bool must_have_rdma; /* rdma = on */
    json_t *report;      /* NULL: error says why */
    struct rg_error error;
};

struct rg_host_at_start *rg_host_at_start_examine(const struct rg_settings *settings)
{
    struct rg_host_at_start *host = calloc(1, sizeof *host);
    if (!host || settings->rdma == RG_RDMA_OFF) {
        free(host);
        return NULL;
    }
    struct rg_host_plan plan;
    rg_host_plan_init(&plan);
    plan.profile = RG_PROFILE_GATEWAY;
    plan.has_interval = false;
    plan.pinned_bytes = (uint64_t)settings->rdma_memory;
    struct rg_examination what = {.plan = &plan, .sysroot = "", .stall_ms = STALL_MS};
    host->must_have_rdma = settings->rdma == RG_RDMA_ON;
    (void)rg_host_examine(&what, &host->report, &host->error);
    return host;
}

void rg_host_at_start_free(struct rg_host_at_start **host)
{
    if (*host) {
        json_decref((*host)->report);
        free(*host);
    }
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* The gateway tries its own settings, ports and tree by itself, and better. */
static bool is_wanted(const json_t *check)
{
    return strcmp(text_of(check, "group"), rg_group_name(RG_GROUP_gateway)) != 0;
}

static void log_check(const json_t *check)
{
    size_t index;
    const json_t *finding;
    json_array_foreach(json_object_get(check, "findings"), index, finding)
    {
        const char *verdict = text_of(finding, "verdict");
        if (strcmp(verdict, "warn") != 0 && strcmp(verdict, "fail") != 0) {
            continue;
        }
        rg_log_warn(verdict[0] == 'w' ? "doctor.warn" : "doctor.fail", text_of(finding, "summary"),
                    RG_FIELD_TEXT("check", text_of(check, "id")),
                    RG_FIELD_TEXT("subject", text_of(finding, "subject")),
                    RG_FIELD_TEXT("value", text_of(finding, "value")));
    }
}

/* On a machine without RDMA nothing of it can be wrong. */
static bool has_device(const json_t *report)
{
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), index, check)
    {
        if (strcmp(text_of(check, "id"), "DEV-PROTO") == 0) {
            return strcmp(text_of(check, "verdict"), "skip") != 0;
        }
    }
    return false;
}

/* A card that could have a device is worth a warning. */
static bool has_card(const json_t *report)
{
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), index, check)
    {
        if (strcmp(text_of(check, "id"), "DEV-PCI") == 0 ||
            strcmp(text_of(check, "id"), "DEV-BOND") == 0) {
            if (strcmp(text_of(check, "verdict"), "skip") != 0) {
                return true;
            }
        }
    }
    return false;
}

void rg_host_at_start_log(const struct rg_host_at_start *host)
{
    if (!host) {
        return;
    }
    if (!host->report) {
        rg_log_warn("doctor.failed", host->error.message);
        return;
    }
    if (!host->must_have_rdma && !has_device(host->report) && !has_card(host->report)) {
        rg_log_info("doctor.no_rdma", "this machine has no RDMA device");
        return;
    }
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(host->report, "checks"), index, check)
    {
        if (is_wanted(check)) {
            log_check(check);
        }
    }
}

char *rg_host_at_start_json(const struct rg_host_at_start *host)
{
    json_t *rdma = host && host->report ? rg_report_rdma(host->report) : NULL;
    char *text = rdma ? json_dumps(rdma, JSON_COMPACT) : NULL;
    json_decref(rdma);
    return text;
}
