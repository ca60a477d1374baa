/*
 * The outputs of a diagnosis. Each appends to a buffer and reads nothing but the diagnosis; check
 * the buffer at the end. None of them prints.
 */
#ifndef RG_DIAG_REPORT_H
#define RG_DIAG_REPORT_H

#include "diag/diagnosis.h"

/* For a terminal; `colour` adds escape sequences. */
void rg_diagnosis_text(const struct rg_diagnosis *diagnosis, enum rg_language language, bool colour,
                       struct rg_buf *out);

/* The schema is described in docs/diagnose.md. */
void rg_diagnosis_json(const struct rg_diagnosis *diagnosis, struct rg_buf *out);

/* One page that needs nothing else: timeline, matrix of nodes and targets, all incidents. */
void rg_diagnosis_html(const struct rg_diagnosis *diagnosis, enum rg_language language,
                       struct rg_buf *out);

/* An incident report to paste in a ticket. */
void rg_diagnosis_markdown(const struct rg_diagnosis *diagnosis, enum rg_language language,
                           struct rg_buf *out);

#endif
