/* What another host says: messages, facts, windows, queue pairs; and the comparison of any two. */
#include "host/peer_counters.h"
#include "host/peer_facts.h"
#include "host/peer_wire.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_findings findings = {0};
    struct rg_peer_clock clock = {.known = true, .offset_us = -7, .error_us = 3};
    json_t *message = NULL;
    if (rg_peer_parse(rg_span(data, size), &message, &err) < 0) {
        return 0;
    }
    struct rg_peer_facts *facts = malloc(sizeof *facts);
    struct rg_rdma_window window;
    struct rg_lane_address lane;
    if (rg_peer_take_facts(message, facts)) {
        assert(facts->port_count <= RG_PEER_PORTS_MAX);
        rg_peer_compare(facts, facts, &clock, 3, &findings);
        rg_findings_free(&findings);
    }
    if (rg_peer_take_window(message, &window)) {
        json_t *again = rg_peer_tell_window(&window);
        struct rg_rdma_window same;
        assert(!again || rg_peer_take_window(again, &same));
        json_decref(again);
    }
    if (rg_peer_take_lane(message, &lane)) {
        json_decref(rg_peer_tell_lane(&lane));
    }
    RG_BUF(moved, 4096);
    (void)rg_peer_counters_moved(message, message, &moved);
    json_decref(message);
    free(facts);
    return 0;
}
