/* The readers' parsers of documents, which a captured tree may hold in any form: the first byte
 * chooses one. */
#include "host/facts.h"

#include <stdlib.h>
#include <string.h>

static struct rg_host_facts *facts;

/* Something for the documents to be about. */
static void prepare(void)
{
    memset(facts, 0, sizeof *facts);
    facts->devices.rdma_count = 1;
    memcpy(facts->devices.rdma[0].name, "mlx5_0", sizeof "mlx5_0");
    (void)rg_host_parse_counters(RG_SPAN_LITERAL("{\"a\":1,\"b\":2}"), "eth0", false,
                                 &facts->counters);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!facts) {
        facts = malloc(sizeof *facts);
    }
    if (!facts || size == 0) {
        return 0;
    }
    struct span rest = rg_span(data + 1, size - 1);
    struct rg_dcb dcb;
    prepare();
    switch (data[0] % 8) {
    case 0:
        (void)rg_host_parse_survey(rest, &facts->devices);
        break;
    case 1:
        (void)rg_host_parse_nodes(rest, &facts->devices);
        break;
    case 2:
        (void)rg_host_parse_addresses(rest, &facts->ports);
        break;
    case 3:
        if (rg_host_parse_dcb(rest, &dcb)) {
            (void)rg_dcb_traffic_class(&dcb);
        }
        break;
    case 4:
        (void)rg_host_parse_ethtool(rest, &facts->lossless.links[0]);
        break;
    case 5:
        (void)rg_host_parse_counters(rest, "eth0", true, &facts->counters);
        break;
    case 6:
        (void)rg_host_parse_counters(rest, "eth1", false, &facts->counters);
        break;
    default:
        (void)rg_host_parse_baseline(rest, facts);
    }
    return 0;
}
