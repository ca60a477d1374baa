/* Netlink answers about RDMA resources, and the lines made of them. */
#include "host/nldev_text.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span bytes = rg_span(data, size);
    struct rg_error err = RG_ERROR_INIT;
    struct rg_nldev_qps qps = {0};
    struct rg_nldev_devices *devices = calloc(1, sizeof *devices);
    struct rg_nldev_use use;
    uint64_t count;
    bool done;
    (void)rg_nldev_qps_parse(bytes, &qps, &done, &err);
    assert(qps.count <= RG_NLDEV_QPS_MAX);
    rg_nldev_qps_free(&qps);
    (void)rg_nldev_devices_parse(bytes, devices, &done, &err);
    assert(devices->count <= RG_NLDEV_DEVICES_MAX);
    struct rg_nldev_system system;
    (void)rg_nldev_system_parse(bytes, &system, &err);
    rg_nldev_use_parse(bytes, 700, &use);
    (void)rg_nldev_count_parse(bytes, "mlx5_0", "qp", &count);
    free(devices);
    return 0;
}
