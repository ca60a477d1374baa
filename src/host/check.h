/*
 * The table of checks and what they find. A check is a row of checks.tbl and one pure function,
 * judge_NAME, from facts to findings: a finding is a verdict on one subject (a port, an interface,
 * a mount), with the raw value, where it was read, and the command that mends it. Judges never read
 * the machine.
 */
#ifndef RG_HOST_CHECK_H
#define RG_HOST_CHECK_H

#include "base/attr.h"
#include "base/error.h"
#include "host/plan.h"
#include "host/source.h"

#include <stdbool.h>
#include <stddef.h>

#define RG_FINDINGS_MAX    4096
#define RG_FINDING_TEXT    4096
#define RG_SUBJECT_MAX     95
#define RG_HOST_REMEDY_MAX 8192

struct rg_host_facts;
struct rg_findings;

/* In rising order of gravity, but SKIP: nothing is known. */
enum rg_verdict { RG_VERDICT_SKIP, RG_VERDICT_OK, RG_VERDICT_WARN, RG_VERDICT_FAIL };

/* Groups, in the order of the report. RG_HOST_GROUP(name, title) */
enum rg_group {
#define RG_HOST_GROUP(name, title) RG_GROUP_##name,
#include "host/groups.tbl"
#undef RG_HOST_GROUP
    RG_GROUP_COUNT
};

struct rg_check {
    const char *id; /* for example PFC-ON */
    enum rg_group group;
    const char *title;
    const char *why;   /* what breaks without it, and how it was found out */
    unsigned profiles; /* bits 1 << enum rg_profile: those that need it */
    /* NULL in group peer: `railgate doctor peer` finds, with what two hosts tell. */
    void (*judge)(const struct rg_host_facts *facts, struct rg_findings *findings);
};

/* One function a row, in checks_GROUP.c. */
#define RG_HOST_CHECK(name, id, group, profiles, title, why)                                       \
    void judge_##name(const struct rg_host_facts *facts, struct rg_findings *findings);
#include "host/checks.tbl"
#undef RG_HOST_CHECK

size_t rg_check_count(void);
const struct rg_check *rg_check_at(size_t index);
/* By id, in any case; the PEER- of what two hosts are compared by may be left out. NULL. */
const struct rg_check *rg_check_find(const char *id);

const char *rg_group_name(enum rg_group group);
const char *rg_group_title(enum rg_group group);
const char *rg_verdict_name(enum rg_verdict verdict); /* "ok", "warn", "fail", "skip" */

struct rg_finding {
    const struct rg_check *check;
    enum rg_verdict verdict;
    char subject[RG_SUBJECT_MAX + 1]; /* "" for the whole machine */
    char *summary;                    /* one sentence; the others may be NULL */
    char *value;                      /* as it was read */
    char *where;                      /* file or command */
    char *remedy;                     /* shell lines; comments explain */
};

struct rg_findings {
    const struct rg_check *check; /* being judged */
    struct rg_finding *list;
    size_t count;
    bool failed; /* out of memory, or more than RG_FINDINGS_MAX */
};

void rg_findings_free(struct rg_findings *findings);

/*
 * Adds a finding and returns it, for the functions below; never NULL (when memory is short, a place
 * that is thrown away). Control characters from outside are replaced.
 */
struct rg_finding *rg_find(struct rg_findings *findings, enum rg_verdict verdict,
                           const char *subject, const char *format, ...) RG_PRINTF(4, 5);
void rg_find_value(struct rg_finding *finding, const char *format, ...) RG_PRINTF(2, 3);
void rg_find_where(struct rg_finding *finding, const struct rg_reading *at);
void rg_find_where_text(struct rg_finding *finding, const char *format, ...) RG_PRINTF(2, 3);
/* A line of shell, or several; called again, it appends. Texts among the arguments stay one word
 * each, whatever is in them (shell_words.h). */
void rg_find_remedy(struct rg_finding *finding, const char *format, ...) RG_PRINTF(2, 3);
/* A line that is shell already. */
void rg_find_remedy_line(struct rg_finding *finding, const char *line);

/* The usual end when a fact is not known: SKIP, and why it could not be read. */
struct rg_finding *rg_find_unread(struct rg_findings *findings, const char *subject,
                                  const struct rg_reading *at);

/* Runs every check that `facts->plan` needs. A check without findings gets one SKIP.
 * RG_OUT_OF_MEMORY.
 */
int rg_host_judge(const struct rg_host_facts *facts, struct rg_findings *ret_findings,
                  struct rg_error *err);

/* The worst of a check, of a group, of all: FAIL, WARN, OK, SKIP in this order. */
enum rg_verdict rg_findings_verdict(const struct rg_findings *findings,
                                    const struct rg_check *check);

#endif
