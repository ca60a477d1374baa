/*
 * Replaces hosts, addresses and users by placeholders that are stable within one diagnosis:
 * the same name becomes the same placeholder everywhere, quoted lines and commands included.
 */
#ifndef RG_DIAG_ANONYMISE_H
#define RG_DIAG_ANONYMISE_H

#include "base/error.h"
#include "diag/diagnosis.h"

/* Rewrites every word of the diagnosis. Fails with RG_OUT_OF_MEMORY; the diagnosis must then not be
 * shown to anybody. */
int rg_diagnosis_anonymise(struct rg_diagnosis *diagnosis, struct rg_error *err);

#endif
