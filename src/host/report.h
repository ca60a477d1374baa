/*
 * The report: one JSON document (docs/doctor.md has its schema) that is built from facts and
 * findings, and its forms for people. The forms take the document, so that a report of another
 * machine or an earlier day reads the same.
 */
#ifndef RG_HOST_REPORT_H
#define RG_HOST_REPORT_H

#include "base/buf.h"
#include "host/check.h"
#include "host/facts.h"

#include <jansson.h>

#define RG_REPORT_SCHEMA    1
#define RG_REPORT_BYTES_MAX ((size_t)16 << 20)

/* NULL when out of memory. The caller owns it. Where every check is skipped the verdict is WARN,
 * and "nothing_judged" says so; where a check was skipped that the role stands on (unjudged.h) it
 * is WARN at least, and "unjudged" names them. */
json_t *rg_report_build(const struct rg_host_facts *facts, const struct rg_findings *findings);

/* Notes that reading `path` hung: that alone makes the verdict FAIL. */
void rg_report_add_hang(json_t *report, const char *path);

/* SKIP when the document is none. */
enum rg_verdict rg_report_verdict(const json_t *report);

/* Of the checks of one group of the report. */
enum rg_verdict rg_report_group_verdict(const json_t *report, enum rg_group group);

/* What RDMA stands on (devices, ports, lossless Ethernet), short: {"verdict", "findings": those
 * that are not well}, for health pages. The caller owns it; NULL when out of memory. */
json_t *rg_report_rdma(const json_t *report);

struct rg_report_style {
    bool colour;
    bool verbose; /* every finding, with value, origin and remedy */
};

/* One line a check. */
void rg_report_text(const json_t *report, const struct rg_report_style *style, struct rg_buf *out);

/* One page that needs nothing else. */
void rg_report_html(const json_t *report, struct rg_buf *out);

#endif
