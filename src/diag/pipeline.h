/*
 * From inputs to a diagnosis: drives readers, clocks, catalogue and correlation. The command
 * line and the tests both go through it.
 */
#ifndef RG_DIAG_PIPELINE_H
#define RG_DIAG_PIPELINE_H

#include "base/error.h"

#include "diag/catalogue.h"
#include "diag/diagnosis.h"
#include "diag/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_pipeline_options {
    const char *const *rules_files; /* a site's own rows; catalogue.h */
    size_t rules_count;
    const char *hosts_file; /* hosts.h, or NULL */
    struct rg_inputs_options inputs;
};

struct rg_pipeline_counts {
    uint64_t sources;
    uint64_t lines;
    uint64_t truncated; /* lines beyond the ceiling */
    uint64_t records;
    uint64_t events;
    uint64_t twice;   /* events collected twice and counted once */
    uint64_t suspect; /* error-looking lines that match no row */
    uint64_t shapes[RG_SHAPE_COUNT];
    uint64_t gave_up; /* times a pattern met its limit on a line and counted as not matching */
    uint64_t names_refused; /* nodes or sources beyond their ceilings */
};

struct rg_pipeline;

/* Strings in the options are borrowed until the pipeline is closed. */
int rg_pipeline_open(const struct rg_pipeline_options *options, struct rg_pipeline **ret_pipeline,
                     struct rg_error *err);
void rg_pipeline_close(struct rg_pipeline *pipeline);

/* "NODE=ZONE", or "ZONE" for all nodes (clock.h). RG_SETTING when it is not valid. */
int rg_pipeline_set_zone(struct rg_pipeline *pipeline, const char *text, struct rg_error *err);

/* As rg_inputs_add and rg_inputs_add_live. */
int rg_pipeline_add(struct rg_pipeline *pipeline, const char *path, struct rg_error *err);
int rg_pipeline_add_live(struct rg_pipeline *pipeline, struct rg_error *err);

/* Reads all inputs and judges. Once. The diagnosis borrows rows of the pipeline's catalogue: free
 * it (rg_diagnosis_free) before closing the pipeline. */
int rg_pipeline_run(struct rg_pipeline *pipeline, struct rg_diagnosis **ret_diagnosis,
                    struct rg_error *err);

/* For the problems. */
const struct rg_inputs *rg_pipeline_inputs(const struct rg_pipeline *pipeline);
struct rg_pipeline_counts rg_pipeline_counts(const struct rg_pipeline *pipeline);

#endif
