/* The kernel's answer about DCB: any bytes are read or refused, and give some traffic class. */
#include "base/assert.h"
#include "rdma/dcb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_dcb dcb;
    if (rg_dcb_parse(data, size, &dcb, NULL) == 0) {
        uint8_t traffic_class = rg_dcb_traffic_class(&dcb);
        RG_ASSERT(dcb.pfc_enabled || traffic_class == 0);
    }
    return 0;
}
