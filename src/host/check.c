/*
 * Runs the table of checks and keeps what they find. See check.h.
 */
#include "host/check.h"

#include "base/buf.h"
#include "base/checked.h"
#include "host/facts.h"
#include "host/shell_words.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

static const struct rg_check checks[] = {
#define RG_HOST_CHECK(name, id, group, profiles, title, why)                                       \
    {id, RG_GROUP_##group, title, why, (profiles) | RG_FOR(ANY), judge_##name},
#include "host/checks.tbl"
#undef RG_HOST_CHECK
#define RG_PEER_CHECK(id, title, why) {id, RG_GROUP_peer, title, why, RG_FOR_RDMA, NULL},
#include "host/checks_peer.tbl"
#undef RG_PEER_CHECK
};

static const char *const group_names[] = {
#define RG_HOST_GROUP(name, title) #name,
#include "host/groups.tbl"
#undef RG_HOST_GROUP
};

static const char *const group_titles[] = {
#define RG_HOST_GROUP(name, title) title,
#include "host/groups.tbl"
#undef RG_HOST_GROUP
};

size_t rg_check_count(void)
{
    return RG_ARRAY_LENGTH(checks);
}

const struct rg_check *rg_check_at(size_t index)
{
    return &checks[index];
}

const struct rg_check *rg_check_find(const char *id)
{
    const struct rg_check *peer = NULL;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(checks); i++) {
        if (strcasecmp(checks[i].id, id) == 0) {
            return &checks[i];
        }
        if (checks[i].group == RG_GROUP_peer &&
            strcasecmp(checks[i].id + strlen("PEER-"), id) == 0) {
            peer = &checks[i];
        }
    }
    return peer;
}

const char *rg_group_name(enum rg_group group)
{
    return group_names[group];
}

const char *rg_group_title(enum rg_group group)
{
    return group_titles[group];
}

const char *rg_verdict_name(enum rg_verdict verdict)
{
    static const char *const names[] = {"skip", "ok", "warn", "fail"};
    return names[verdict];
}

/* ---- Findings ---- */

void rg_findings_free(struct rg_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->list[i].summary);
        free(findings->list[i].value);
        free(findings->list[i].where);
        free(findings->list[i].remedy);
    }
    free(findings->list);
    *findings = (struct rg_findings){0};
}

/* What came from files may hold anything; a report is text. */
static void clean(char *text)
{
    for (char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
            *at = '?';
        }
    }
    struct span all = rg_span_text(text);
    for (size_t i = 0; !rg_span_is_utf8(all) && i < all.len; i++) {
        text[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    }
}

/* NULL when memory is short: the finding then says less. */
RG_PRINTF(2, 0)
static char *compose(size_t most, const char *format, va_list args)
{
    char text[RG_HOST_REMEDY_MAX];
    vsnprintf(text, RG_MIN(most, sizeof text), format, args);
    clean(text);
    return strdup(text);
}

static struct rg_finding *add(struct rg_findings *findings)
{
    static struct rg_finding thrown_away;
    if (!findings->list) {
        findings->list = calloc(RG_FINDINGS_MAX, sizeof *findings->list);
    }
    if (!findings->list || findings->count == RG_FINDINGS_MAX) {
        findings->failed = true;
        free(thrown_away.summary);
        free(thrown_away.value);
        free(thrown_away.where);
        free(thrown_away.remedy);
        thrown_away = (struct rg_finding){0};
        return &thrown_away;
    }
    return &findings->list[findings->count++];
}

struct rg_finding *rg_find(struct rg_findings *findings, enum rg_verdict verdict,
                           const char *subject, const char *format, ...)
{
    struct rg_finding *finding = add(findings);
    finding->check = findings->check;
    finding->verdict = verdict;
    snprintf(finding->subject, sizeof finding->subject, "%s", subject);
    clean(finding->subject);
    va_list args;
    va_start(args, format);
    finding->summary = compose(RG_FINDING_TEXT, format, args);
    va_end(args);
    findings->failed |= !finding->summary;
    return finding;
}

void rg_find_value(struct rg_finding *finding, const char *format, ...)
{
    va_list args;
    free(finding->value);
    va_start(args, format);
    finding->value = compose(RG_FINDING_TEXT, format, args);
    va_end(args);
}

void rg_find_where(struct rg_finding *finding, const struct rg_reading *at)
{
    rg_find_where_text(finding, "%s", at->path);
}

void rg_find_where_text(struct rg_finding *finding, const char *format, ...)
{
    va_list args;
    free(finding->where);
    va_start(args, format);
    finding->where = compose(RG_FINDING_TEXT, format, args);
    va_end(args);
}

void rg_find_remedy_line(struct rg_finding *finding, const char *line)
{
    char *both = NULL;
    if (!finding->remedy) {
        finding->remedy = strdup(line);
        if (finding->remedy) {
            clean(finding->remedy);
        }
        return;
    }
    if (strlen(finding->remedy) + strlen(line) < RG_HOST_REMEDY_MAX &&
        asprintf(&both, "%s\n%s", finding->remedy, line) >= 0) {
        free(finding->remedy);
        finding->remedy = both;
        clean(both);
    }
}

void rg_find_remedy(struct rg_finding *finding, const char *format, ...)
{
    RG_BUF(line, RG_HOST_REMEDY_MAX);
    va_list args;
    va_start(args, format);
    rg_shell_compose(&line, format, args);
    va_end(args);
    if (rg_buf_ok(&line)) {
        rg_find_remedy_line(finding, rg_buf_text(&line));
    }
}

struct rg_finding *rg_find_unread(struct rg_findings *findings, const char *subject,
                                  const struct rg_reading *at)
{
    RG_BUF(why, 1024);
    rg_reading_tell(at, &why);
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_SKIP, subject, "Not known: %s.", rg_buf_text(&why));
    rg_find_where(finding, at);
    return finding;
}

/* ---- Judging ---- */

int rg_host_judge(const struct rg_host_facts *facts, struct rg_findings *ret_findings,
                  struct rg_error *err)
{
    struct rg_findings findings = {0};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(checks); i++) {
        size_t before = findings.count;
        if (!checks[i].judge || !(checks[i].profiles & 1u << facts->plan.profile)) {
            continue;
        }
        findings.check = &checks[i];
        checks[i].judge(facts, &findings);
        if (findings.count == before) {
            (void)rg_find(&findings, RG_VERDICT_SKIP, "", "Does not apply to this machine.");
        }
    }
    if (findings.failed) {
        rg_findings_free(&findings);
        return rg_failf(err, RG_OUT_OF_MEMORY, "There is more to report than memory allows.");
    }
    *ret_findings = findings;
    return 0;
}

enum rg_verdict rg_findings_verdict(const struct rg_findings *findings,
                                    const struct rg_check *check)
{
    enum rg_verdict worst = RG_VERDICT_SKIP;
    for (size_t i = 0; i < findings->count; i++) {
        if (!check || findings->list[i].check == check) {
            worst = RG_MAX(worst, findings->list[i].verdict);
        }
    }
    return worst;
}
