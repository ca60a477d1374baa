/*
 * What readers of each language call the values of the enumerations. English labels are the stable
 * identifiers that JSON has; Korean ones are for reading only.
 */
#ifndef RG_DIAG_LABELS_H
#define RG_DIAG_LABELS_H

#include "diag/diagnosis.h"

/* Static strings, never NULL. */
const char *rg_scope_label(enum rg_scope scope, enum rg_language language);
const char *rg_nature_label(enum rg_nature nature, enum rg_language language);
const char *rg_data_label(enum rg_data data, enum rg_language language);
const char *rg_confidence_label(enum rg_confidence confidence, enum rg_language language);
const char *rg_urgency_label(enum rg_urgency urgency, enum rg_language language);
const char *rg_layer_label(enum rg_layer layer, enum rg_language language);
const char *rg_role_label(enum rg_role role, enum rg_language language);

/* The words of ours that stand where names do. */
#define RG_WORD_UNNAMED  "a node without a name"
#define RG_WORD_FURTHER  "further nodes"
#define RG_WORD_LEFT_OUT "(not kept)"

/* `word` itself, unless it is one of those. */
const char *rg_word_label(const char *word, enum rg_language language);

#endif
