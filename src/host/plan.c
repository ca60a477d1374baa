#include "host/plan.h"

#include "base/attr.h"

#include <string.h>

#define ROCE_USUAL_PRIORITY 3
#define ROCE_USUAL_DSCP     26
#define INTERVAL_MS         1000

static const char *const names[] = {
    [RG_PROFILE_ANY] = "any",
    [RG_PROFILE_GATEWAY] = "gateway",
    [RG_PROFILE_CLIENT] = "client",
    [RG_PROFILE_GPU_CLIENT] = "gpu-client",
    [RG_PROFILE_LUSTRE_CLIENT] = "lustre-client",
    [RG_PROFILE_LUSTRE_SERVER] = "lustre-server",
    [RG_PROFILE_AISTOR] = "aistor",
};

void rg_host_plan_init(struct rg_host_plan *plan)
{
    *plan = (struct rg_host_plan){
        .has_interval = true,
        .interval_ms = INTERVAL_MS,
        .roce_priority = ROCE_USUAL_PRIORITY,
        .roce_dscp = ROCE_USUAL_DSCP,
    };
}

const char *rg_profile_name(enum rg_profile profile)
{
    return names[profile];
}

bool rg_profile_parse(const char *text, enum rg_profile *ret_profile)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_profile = (enum rg_profile)i;
            return true;
        }
    }
    return false;
}
