/*
 * The gateway as one thing: accounts, store, listeners, sweeper. `railgate serve` opens one, waits
 * for a signal and closes it.
 */
#ifndef RG_GATE_GATEWAY_H
#define RG_GATE_GATEWAY_H

#include "base/error.h"
#include "base/settings.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct rg_gateway;

/*
 * Starts both listeners over an open store (borrowed until close; the gateway does not close it).
 * Ready when it returns: GET /-/ready on the admin port answers 200. RG_SETTING when the settings
 * do not fit together, else the error of the step that failed; *ret_in_use then says whether
 * threads are left that use store and settings, as after rg_gateway_close.
 */
int rg_gateway_open(const struct rg_settings *settings, struct rg_store *store,
                    struct rg_gateway **ret_gateway, bool *ret_in_use, struct rg_error *err);

/*
 * What was found out about this machine before the start: a JSON object, which GET /-/ready shows
 * as rdma.host. Copied. Once for each gateway. RG_OUT_OF_MEMORY.
 */
int rg_gateway_set_host(struct rg_gateway *gateway, const char *json, struct rg_error *err);

/* The ports in use (they differ from the settings when those say 0). */
uint16_t rg_gateway_port(const struct rg_gateway *gateway);
uint16_t rg_gateway_admin_port(const struct rg_gateway *gateway);

/* SIGHUP: reopens the access log, reads the TLS certificate again. Failures are logged. */
void rg_gateway_reload(struct rg_gateway *gateway);

/*
 * Stops accepting, drains for the settings' drain_timeout, closes. Returns requests cut off. When
 * that is not 0, threads (if not of requests, then the sweeper's or the probe's) may still be
 * inside the store, perhaps for ever: it must not be closed, and only the end of the process frees
 * what they use.
 */
unsigned rg_gateway_close(struct rg_gateway *gateway);

#endif
