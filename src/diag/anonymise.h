/*
 * Replaces hosts, addresses and users by placeholders that are stable within one diagnosis:
 * the same name becomes the same placeholder everywhere, quoted lines and commands included.
 */
#ifndef RG_DIAG_ANONYMISE_H
#define RG_DIAG_ANONYMISE_H

#include "base/error.h"
#include "diag/diagnosis.h"

/* Rewrites every word of the diagnosis, and the `count` texts (owned by the caller, replaced in
 * place; names of inputs and what is said of them). Fails with RG_OUT_OF_MEMORY; neither the
 * diagnosis nor the texts must then be shown to anybody. */
int rg_diagnosis_anonymise(struct rg_diagnosis *diagnosis, char **texts, size_t count,
                           struct rg_error *err);

#endif
