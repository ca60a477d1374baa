/*
 * Pasted state, line by line.
 */
#include "diag/state.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_state state = {0};
    struct span rest = rg_span(data, size);
    for (uint64_t line = 1; rest.len > 0; line++) {
        struct rg_record record = {.line = line, .text = rg_span_cut(&rest, '\n')};
        struct rg_state_fact fact;
        if (rg_state_read(&state, &record, &fact) &&
            (fact.nid_count == 0 || fact.nid_count > RG_STATE_NIDS_MAX || fact.target.len == 0)) {
            abort();
        }
    }
    return 0;
}
