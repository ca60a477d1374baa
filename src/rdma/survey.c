#include "rdma/survey.h"

#ifdef RG_HAVE_RC

#include "base/checked.h"
#include "rdma/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

static void ask_port(const struct rg_verbs *verbs, struct ibv_context *context, uint8_t number,
                     struct rg_survey_device *device)
{
    struct ibv_port_attr port;
    if (device->port_count == RG_SURVEY_PORTS_MAX ||
        verbs->query_port(context, number, &port) != 0) {
        return;
    }
    size_t i = device->port_count++;
    device->ports[i].number = number;
    device->ports[i].state = port.state;
    device->ports[i].link_layer = port.link_layer;
    device->ports[i].lid = port.lid;
    device->ports[i].sm_lid = port.sm_lid;
    device->ports[i].max_mtu = mtu_bytes(port.max_mtu);
    device->ports[i].active_mtu = mtu_bytes(port.active_mtu);
}

static void ask_device(const struct rg_verbs *verbs, struct ibv_device *from,
                       struct rg_survey_device *device)
{
    struct ibv_device_attr attributes;
    memset(device, 0, sizeof *device);
    snprintf(device->name, sizeof device->name, "%s", from->name);
    errno = 0;
    struct ibv_context *context = verbs->open_device(from);
    if (!context) {
        device->os_errno = rg_verbs_errno(-1);
        return;
    }
    int failed = verbs->query_device(context, &attributes);
    if (failed) {
        device->os_errno = rg_verbs_errno(failed);
    } else {
        device->qp_max = (uint64_t)RG_MAX(attributes.max_qp, 0);
        device->cq_max = (uint64_t)RG_MAX(attributes.max_cq, 0);
        device->mr_max = (uint64_t)RG_MAX(attributes.max_mr, 0);
        device->mr_bytes_max = attributes.max_mr_size;
        for (unsigned number = 1; number <= attributes.phys_port_cnt; number++) {
            ask_port(verbs, context, (uint8_t)number, device);
        }
    }
    (void)verbs->close_device(context);
}

int rg_survey_devices(struct rg_survey_device *devices, size_t room, size_t *ret_count,
                      struct rg_error *err)
{
    const struct rg_verbs *verbs;
    int rc = rg_verbs_load(&verbs, err);
    if (rc < 0) {
        return rc;
    }
    int count = 0;
    struct ibv_device **list = verbs->get_device_list(&count);
    size_t found = 0;
    for (int i = 0; list && i < count && found < room; i++) {
        ask_device(verbs, list[i], &devices[found++]);
    }
    if (list) {
        verbs->free_device_list(list);
    }
    *ret_count = found;
    return 0;
}

#else

int rg_survey_devices(struct rg_survey_device *devices, size_t room, size_t *ret_count,
                      struct rg_error *err)
{
    (void)devices;
    (void)room;
    (void)ret_count;
    return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "This program was built without verbs.");
}

#endif
