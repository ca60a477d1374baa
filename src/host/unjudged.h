/*
 * What a role stands on and nobody could judge. A skipped check is no fault, but a role whose
 * devices, ports or limits were hidden from doctor has not been found to be well.
 */
#ifndef RG_HOST_UNJUDGED_H
#define RG_HOST_UNJUDGED_H

#include "host/check.h"
#include "host/facts.h"

#include <jansson.h>

/* *ret_unjudged: {"checks": ids, "hidden": sentences, "remedy": shell lines}, owned by the caller;
 * NULL when every check that the plan's role stands on was judged. What cannot be there because of
 * a failure that is told already (GIDs of a machine without devices) is left out. 0, or -1 when out
 * of memory: *ret_unjudged is NULL then too, and says nothing. */
int rg_unjudged(const struct rg_host_facts *facts, const struct rg_findings *findings,
                json_t **ret_unjudged);

/* The profiles that stand on this check, as bits 1 << enum rg_profile. */
unsigned rg_unjudged_profiles(const struct rg_check *check);

#endif
