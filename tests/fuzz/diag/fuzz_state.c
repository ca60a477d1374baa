/*
 * Pasted state, line by line.
 */
#include "diag/state.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_state state = {0};
    if (size < 1) {
        return 0;
    }
    struct span name = data[0] & 1 ? RG_SPAN_LITERAL("sos/lctl_list_nids") : RG_SPAN_LITERAL("x");
    struct span rest = rg_span(data + 1, size - 1);
    for (uint64_t line = 1; rest.len > 0; line++) {
        struct rg_log_record record = {.line = line, .source = 1, .text = rg_span_cut(&rest, '\n')};
        struct rg_state_fact fact;
        if (rg_state_read(&state, &record, name, &fact) != RG_STATE_FACT) {
            continue;
        }
        bool space = fact.kind == RG_STATE_SPACE;
        size_t least = space || fact.value.len ? 0 : fact.kind == RG_STATE_PEER ? 2 : 1;
        bool named = fact.kind != RG_STATE_IMPORT && !space;
        if (fact.kind >= RG_STATE_KIND_COUNT || fact.nid_count < least ||
            fact.nid_count > RG_STATE_NIDS_MAX || (!named && fact.target.len == 0) ||
            (fact.bad && fact.value.len == 0 && fact.kind == RG_STATE_SPACE)) {
            abort();
        }
        rg_state_kind_name(fact.kind);
    }
    return 0;
}
