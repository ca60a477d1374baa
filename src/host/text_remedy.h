/*
 * Remedies that several groups share beside those of remedy.h: kernel arguments, limits of
 * services, locked memory of users.
 */
#ifndef RG_HOST_TEXT_REMEDY_H
#define RG_HOST_TEXT_REMEDY_H

#include "host/check.h"
#include "host/facts.h"

/* The lines that add a word to the kernel's command line, as the distribution does it. */
void rg_remedy_kernel_argument(struct rg_finding *finding, const struct rg_host_facts *facts,
                               const char *word);

/* The lines that set `assignment` ("LimitMEMLOCK=infinity") in a service and restart it. */
void rg_remedy_unit(struct rg_finding *finding, const char *unit, const char *assignment);

/* "1.5 GiB", "64 KiB", "unlimited". */
#define RG_BYTES_TEXT_MAX 31
void rg_bytes_text(uint64_t bytes, char ret_text[RG_BYTES_TEXT_MAX + 1]);

#endif
