/*
 * What the machine is to be ready for: which role, and what that role is going to use. The facts
 * are judged against it.
 */
#ifndef RG_HOST_PLAN_H
#define RG_HOST_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum rg_profile {
    RG_PROFILE_ANY, /* nothing said: every check counts, roles that are not there are skipped */
    RG_PROFILE_GATEWAY,
    RG_PROFILE_CLIENT,
    RG_PROFILE_GPU_CLIENT,
    RG_PROFILE_LUSTRE_CLIENT,
    RG_PROFILE_LUSTRE_SERVER,
    RG_PROFILE_AISTOR,
    RG_PROFILE_COUNT
};

/* Sets of profiles for the table of checks; ANY always belongs to them. */
#define RG_FOR(profile)      (1u << RG_PROFILE_##profile)
#define RG_FOR_RDMA          (~0u)                          /* all roles move bytes by RDMA */
#define RG_FOR_PROGRAMS      (RG_FOR_RDMA & ~RG_FOR_LUSTRE) /* Lustre does so in the kernel */
#define RG_FOR_GATEWAY       RG_FOR(GATEWAY)
#define RG_FOR_GPU           RG_FOR(GPU_CLIENT)
#define RG_FOR_LUSTRE        (RG_FOR(LUSTRE_CLIENT) | RG_FOR(LUSTRE_SERVER))
#define RG_FOR_LUSTRE_CLIENT RG_FOR(LUSTRE_CLIENT)
#define RG_FOR_LUSTRE_SERVER RG_FOR(LUSTRE_SERVER)
#define RG_FOR_AISTOR        RG_FOR(AISTOR)

#define RG_PLAN_TEXT_MAX 255

struct rg_host_plan {
    enum rg_profile profile;
    bool active;       /* probes that leave traces are allowed */
    bool has_interval; /* counters are read twice, interval_ms apart */
    unsigned interval_ms;
    uint8_t roce_priority;               /* that is to be lossless */
    uint8_t roce_dscp;                   /* that is to lead to it */
    uint64_t pinned_bytes;               /* that the service registers; 0: not known */
    char unit[RG_PLAN_TEXT_MAX + 1];     /* the systemd unit of the service, or "" */
    char root[RG_PLAN_TEXT_MAX + 1];     /* the directory the gateway serves, or "" */
    char config[RG_PLAN_TEXT_MAX + 1];   /* its settings file, or "" */
    char binary[RG_PLAN_TEXT_MAX + 1];   /* a program whose libraries have to be there, or "" */
    char baseline[RG_PLAN_TEXT_MAX + 1]; /* an earlier report in JSON, or "" */
};

/* What is usual: priority 3, DSCP 26, one second between the readings. */
void rg_host_plan_init(struct rg_host_plan *plan);

const char *rg_profile_name(enum rg_profile profile); /* as after --for; "any" */
bool rg_profile_parse(const char *text, enum rg_profile *ret_profile);

#endif
