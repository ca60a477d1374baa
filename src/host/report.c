/*
 * Facts and findings as one document. See report.h.
 */
#include "host/report.h"

#include "host/unjudged.h"

#include "base/checked.h"
#include "base/clock.h"

#include <string.h>
#include <strings.h>
#include <time.h>

static void add_text(json_t *object, const char *name, const char *text)
{
    if (text && text[0]) {
        (void)json_object_set_new(object, name, json_string(text));
    }
}

static json_t *tell_finding(const struct rg_finding *finding)
{
    json_t *object = json_object();
    add_text(object, "verdict", rg_verdict_name(finding->verdict));
    add_text(object, "subject", finding->subject);
    add_text(object, "summary", finding->summary);
    add_text(object, "value", finding->value);
    add_text(object, "where", finding->where);
    add_text(object, "remedy", finding->remedy);
    return object;
}

static json_t *tell_check(const struct rg_check *check, const struct rg_findings *findings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->list[i].check == check) {
            (void)json_array_append_new(list, tell_finding(&findings->list[i]));
        }
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", check->id, "group",
                     rg_group_name(check->group), "title", check->title, "verdict",
                     rg_verdict_name(rg_findings_verdict(findings, check)), "findings", list);
}

static bool was_judged(const struct rg_check *check, const struct rg_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->list[i].check == check) {
            return true;
        }
    }
    return false;
}

static json_t *tell_counts(const struct rg_findings *findings)
{
    json_int_t counts[RG_VERDICT_FAIL + 1] = {0};
    for (size_t i = 0; i < rg_check_count(); i++) {
        if (was_judged(rg_check_at(i), findings)) {
            counts[rg_findings_verdict(findings, rg_check_at(i))]++;
        }
    }
    return json_pack("{s:I, s:I, s:I, s:I}", "ok", counts[RG_VERDICT_OK], "warn",
                     counts[RG_VERDICT_WARN], "fail", counts[RG_VERDICT_FAIL], "skip",
                     counts[RG_VERDICT_SKIP]);
}

/* All that were read: the baseline of a later report. */
static json_t *tell_counters(const struct rg_host_counters *counters)
{
    json_t *object = json_object();
    for (size_t i = 0; i < counters->count; i++) {
        char name[RG_HOST_COUNTER_SUBJECT + RG_HOST_WORD_MAX + 8];
        const struct rg_counter *counter = &counters->list[i];
        snprintf(name, sizeof name, "%s %s", counter->subject, counter->name);
        (void)json_object_set_new(object, name, json_integer(counter->now));
    }
    return object;
}

/* Of every RDMA device: a later report is compared with it. */
static json_t *tell_firmware(const struct rg_host_devices *devices)
{
    json_t *object = json_object();
    for (size_t i = 0; i < devices->rdma_count; i++) {
        if (devices->rdma[i].firmware.text[0]) {
            (void)json_object_set_new(object, devices->rdma[i].name,
                                      json_string(devices->rdma[i].firmware.text));
        }
    }
    return object;
}

/* Nothing known is nothing to rely on: a report without one answer must not pass for a good one. */
static enum rg_verdict verdict_of(const struct rg_findings *findings)
{
    enum rg_verdict verdict = rg_findings_verdict(findings, NULL);
    return verdict == RG_VERDICT_SKIP ? RG_VERDICT_WARN : verdict;
}

/* What there was more of than there is room for: the checks have not seen all. */
static json_t *tell_cut(const struct rg_host_facts *facts)
{
    const struct {
        bool is_cut;
        const char *what;
    } rows[] = {
        {facts->devices.truncated, "PCI functions, interfaces, RDMA devices or modules"},
        {facts->ports.truncated, "RDMA ports or addresses"},
        {facts->lossless.truncated, "interfaces below RDMA ports"},
        {facts->counters.truncated, "counters"},
        {facts->pcie.cut, "PCI Express paths"},
        {facts->lustre.cut, "Lustre mounts, targets or log entries"},
    };
    json_t *list = json_array();
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        if (rows[i].is_cut) {
            (void)json_array_append_new(list, json_string(rows[i].what));
        }
    }
    return list;
}

/* False when out of memory: the verdict is as it was. */
static bool warn_at_least(json_t *report)
{
    return rg_report_verdict(report) >= RG_VERDICT_WARN ||
           json_object_set_new(report, "verdict", json_string(rg_verdict_name(RG_VERDICT_WARN))) ==
               0;
}

static bool add_cut(json_t *report, const struct rg_host_facts *facts)
{
    json_t *cut = tell_cut(facts);
    if (json_array_size(cut) == 0) {
        json_decref(cut);
        return true;
    }
    (void)json_object_set_new(report, "cut", cut);
    return warn_at_least(report);
}

static bool add_unjudged(json_t *report, const struct rg_host_facts *facts,
                         const struct rg_findings *findings)
{
    json_t *unjudged;
    int rc = rg_unjudged(facts, findings, &unjudged);
    if (unjudged) {
        (void)json_object_set_new(report, "unjudged", unjudged);
    }
    /* Where it could not be found out, nobody may take the role for well. */
    return rc == 0 && !unjudged ? true : warn_at_least(report);
}

json_t *rg_report_build(const struct rg_host_facts *facts, const struct rg_findings *findings)
{
    char time[32];
    struct tm tm;
    struct timespec now = rg_clock_wall();
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now.tv_sec, &tm));
    json_t *report = json_pack(
        "{s:i, s:s, s:s, s:I, s:s, s:b, s:b, s:s, s:o}", "railgate_doctor", RG_REPORT_SCHEMA,
        "version", RG_VERSION, "time", time, "seconds", (json_int_t)now.tv_sec, "profile",
        rg_profile_name(facts->plan.profile), "live", facts->is_live, "root", facts->system.is_root,
        "verdict", rg_verdict_name(verdict_of(findings)), "counts", tell_counts(findings));
    json_t *checks = json_array();
    for (size_t i = 0; i < rg_check_count(); i++) {
        if (was_judged(rg_check_at(i), findings)) {
            (void)json_array_append_new(checks, tell_check(rg_check_at(i), findings));
        }
    }
    if (!report || json_object_set_new(report, "checks", checks) < 0) {
        json_decref(report);
        return NULL;
    }
    if (rg_findings_verdict(findings, NULL) == RG_VERDICT_SKIP) {
        (void)json_object_set_new(report, "nothing_judged", json_true());
    }
    if (!add_cut(report, facts) || !add_unjudged(report, facts, findings)) {
        json_decref(report);
        return NULL;
    }
    (void)json_object_set_new(report, "counters", tell_counters(&facts->counters));
    (void)json_object_set_new(report, "firmware", tell_firmware(&facts->devices));
    add_text(report, "host", facts->system.hostname.text);
    add_text(report, "kernel", facts->system.kernel.text);
    add_text(report, "os", facts->system.os_name);
    add_text(report, "boot_id", facts->system.boot_id.text);
    return report;
}

void rg_report_add_hang(json_t *report, const char *path)
{
    json_t *hung = json_object_get(report, "hung");
    if (!hung) {
        hung = json_array();
        (void)json_object_set_new(report, "hung", hung);
    }
    (void)json_array_append_new(hung, json_string(path));
    (void)json_object_set_new(report, "verdict", json_string(rg_verdict_name(RG_VERDICT_FAIL)));
}

static enum rg_verdict parse_verdict(const json_t *text)
{
    const char *word = json_string_value(text);
    for (int verdict = RG_VERDICT_FAIL; word && verdict > RG_VERDICT_SKIP; verdict--) {
        if (strcmp(word, rg_verdict_name((enum rg_verdict)verdict)) == 0) {
            return (enum rg_verdict)verdict;
        }
    }
    return RG_VERDICT_SKIP;
}

enum rg_verdict rg_report_verdict(const json_t *report)
{
    return parse_verdict(json_object_get(report, "verdict"));
}

enum rg_verdict rg_report_group_verdict(const json_t *report, enum rg_group group)
{
    enum rg_verdict worst = RG_VERDICT_SKIP;
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), index, check)
    {
        const char *name = json_string_value(json_object_get(check, "group"));
        if (name && strcmp(name, rg_group_name(group)) == 0) {
            worst = RG_MAX(worst, parse_verdict(json_object_get(check, "verdict")));
        }
    }
    return worst;
}

static bool is_of_rdma(const json_t *check)
{
    static const enum rg_group groups[] = {RG_GROUP_devices, RG_GROUP_ports, RG_GROUP_lossless};
    const char *name = json_string_value(json_object_get(check, "group"));
    for (size_t i = 0; name && i < RG_ARRAY_LENGTH(groups); i++) {
        if (strcmp(name, rg_group_name(groups[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void add_unwell(const json_t *check, json_t *list)
{
    size_t index;
    json_t *finding;
    json_array_foreach(json_object_get(check, "findings"), index, finding)
    {
        if (parse_verdict(json_object_get(finding, "verdict")) < RG_VERDICT_WARN) {
            continue;
        }
        json_t *copy = json_copy(finding);
        (void)json_object_set(copy, "check", json_object_get(check, "id"));
        (void)json_array_append_new(list, copy);
    }
}

json_t *rg_report_rdma(const json_t *report)
{
    enum rg_verdict worst = RG_VERDICT_SKIP;
    json_t *list = json_array();
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), index, check)
    {
        if (is_of_rdma(check)) {
            worst = RG_MAX(worst, parse_verdict(json_object_get(check, "verdict")));
            add_unwell(check, list);
        }
    }
    return json_pack("{s:s, s:o}", "verdict", rg_verdict_name(worst), "findings", list);
}
