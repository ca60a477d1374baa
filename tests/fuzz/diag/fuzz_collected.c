/*
 * What `date` and `uptime` print.
 */
#include "diag/collected.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_collected collected = {.has_local = false};
    bool date = rg_collected_read_date(rg_span(data, size), &collected);
    bool uptime = rg_collected_read_uptime(rg_span(data, size), &collected);
    if (date != collected.has_local || uptime != collected.has_uptime ||
        (uptime && (collected.up_s < 0 || collected.clock_s < 0)) ||
        (date && (collected.local_usec < 0 || collected.utc_usec < 0))) {
        abort();
    }
    return 0;
}
