/*
 * The admin listener, for operators and machines that watch: health, metrics, settings in effect.
 * It is an HTTP server of its own, and answers when the other is full or the store hangs.
 *
 *   GET /-/live      200 while the process runs
 *   GET /-/ready     200 when it serves and the mount answers; else 503, and what is wrong
 *   GET /-/metrics   Prometheus
 *   GET /-/config    the settings in effect and where each came from; secrets are not shown
 */
#ifndef RG_GATE_ADMIN_H
#define RG_GATE_ADMIN_H

#include "base/error.h"
#include "base/settings.h"
#include "gate/health.h"
#include "gate/metrics.h"

#include <stdint.h>

struct rg_admin;

/* All borrowed until rg_admin_close. */
struct rg_admin_config {
    const struct rg_settings *settings;
    struct rg_health *health;
    struct rg_metrics *metrics;
    /* Fills in what only the gateway knows; `context` is handed to it. */
    void (*sample)(void *context, struct rg_metrics_sample *ret_sample);
    void *context;
};

int rg_admin_open(const struct rg_admin_config *config, struct rg_admin **ret_admin,
                  struct rg_error *err);
uint16_t rg_admin_port(const struct rg_admin *admin);

/* False when a request is stuck: then nothing that `config` names may be freed. NULL is fine. */
bool rg_admin_close(struct rg_admin *admin);

#endif
