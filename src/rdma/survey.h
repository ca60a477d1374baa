/*
 * What the verbs library says of all its devices, as plain numbers, for those who report and do not
 * transfer. Opens every device and closes it again.
 */
#ifndef RG_RDMA_SURVEY_H
#define RG_RDMA_SURVEY_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define RG_SURVEY_DEVICES_MAX 64
#define RG_SURVEY_PORTS_MAX   8
#define RG_SURVEY_NAME_MAX    63

struct rg_survey_device {
    char name[RG_SURVEY_NAME_MAX + 1];
    int os_errno; /* it cannot be opened or asked; then all below is 0 */
    uint64_t qp_max, cq_max, mr_max;
    uint64_t mr_bytes_max;
    size_t port_count;
    struct {
        unsigned number;
        unsigned state;      /* enum ibv_port_state: 1 down, 2 initialising, 3 armed, 4 active */
        unsigned link_layer; /* 1 InfiniBand, 2 Ethernet */
        unsigned lid, sm_lid;
        unsigned max_mtu, active_mtu; /* bytes */
    } ports[RG_SURVEY_PORTS_MAX];
};

/* RG_RDMA_NOT_SUPPORTED when there is no library (the sentence has the loader's words), or none was
 * there when this was built. */
int rg_survey_devices(struct rg_survey_device *devices, size_t room, size_t *ret_count,
                      struct rg_error *err);

#endif
