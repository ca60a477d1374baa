/*
 * Everything known about this machine, as plain data: one structure a group, filled by the reader
 * of that group (facts_GROUP.c) and changed by nobody after that. Facts hold how they were read; a
 * fact that could not be read is not a fact that something is wrong.
 *
 * A new group: facts_GROUP.h with a structure and rg_host_read_GROUP, one line here, one in the
 * list of facts.c, checks_GROUP.tbl and checks_GROUP.c.
 */
#ifndef RG_HOST_FACTS_H
#define RG_HOST_FACTS_H

#include "host/facts_aistor.h"
#include "host/facts_container.h"
#include "host/facts_counters.h"
#include "host/facts_devices.h"
#include "host/facts_gateway.h"
#include "host/facts_gpu.h"
#include "host/facts_lnet.h"
#include "host/facts_lossless.h"
#include "host/facts_lustre.h"
#include "host/facts_memory.h"
#include "host/facts_numa.h"
#include "host/facts_pcie.h"
#include "host/facts_ports.h"
#include "host/facts_system.h"
#include "host/plan.h"
#include "host/source.h"

struct rg_host_facts {
    struct rg_host_plan plan;
    bool is_live;
    struct rg_host_system system;
    struct rg_host_devices devices;
    struct rg_host_ports ports;
    struct rg_host_lossless lossless;
    struct rg_host_counters counters;
    struct rg_host_pcie pcie;
    struct rg_host_memory memory;
    struct rg_host_numa numa;
    struct rg_host_gpus gpu;
    struct rg_host_container container;
    struct rg_host_gateway gateway;
    struct rg_host_aistor aistor;
    struct rg_host_lustre lustre;
    struct rg_host_lnet lnet;
};

/* Reads everything. It fails only for want of memory: what cannot be read is a fact too. Free with
 * rg_host_facts_free. */
int rg_host_read(struct rg_source *source, const struct rg_host_plan *plan,
                 struct rg_host_facts **ret_facts, struct rg_error *err);
void rg_host_facts_free(struct rg_host_facts *facts);
void rg_host_facts_cleanup(struct rg_host_facts **facts);

#endif
