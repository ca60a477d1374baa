/*
 * Says of incidents that they come back at the same time of day, on different days.
 */
#ifndef RG_DIAG_RECURRENCE_H
#define RG_DIAG_RECURRENCE_H

#include "diag/correlation.h"

/* Adds a sentence to the evidence of each of at least three incidents with the same headline, scope
 * and subject that began at the same time of day in UTC. False when out of memory. */
bool rg_recurrence_say(struct rg_correlation *correlation, struct rg_incident *incidents,
                       size_t count);

#endif
