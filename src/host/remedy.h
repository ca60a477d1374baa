/*
 * Words that remedies share: what differs between distributions and drivers.
 */
#ifndef RG_HOST_REMEDY_H
#define RG_HOST_REMEDY_H

#include "host/check.h"
#include "host/facts.h"

/* The line that installs a package; both spellings when the distribution is not known. */
void rg_remedy_install(struct rg_finding *finding, const struct rg_host_facts *facts,
                       const char *rhel, const char *debian);

/* The lines that let other nodes of the cluster, and nobody else, in to a TCP port; the addresses
 * are the operator's to fill in. */
void rg_remedy_let_nodes_in(struct rg_finding *finding, const struct rg_host_facts *facts,
                            unsigned port);

/* The lines that load a module now and at every boot. */
void rg_remedy_load(struct rg_finding *finding, const char *module);

#endif
