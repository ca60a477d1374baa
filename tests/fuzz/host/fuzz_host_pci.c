/* Configuration space, resource lists, link words, paths. */
#include "host/pci_text.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span bytes = rg_span(data, size);
    struct rg_pci_config config;
    uint64_t bars[RG_PCI_BARS];
    unsigned tenths;
    if (rg_pci_config_parse(bytes, &config) && config.has_express) {
        assert(config.read_request >= 128 && config.payload <= 16384);
    }
    (void)rg_pci_resource_parse(bytes, bars);
    if (rg_pci_speed_parse(bytes, &tenths)) {
        (void)rg_pci_link_mbits(tenths, 16);
    }
    struct span rest = bytes;
    struct span first = rg_span_cut(&rest, '\n');
    if (rest.ptr) {
        enum rg_pci_distance there = rg_pci_distance(first, 0, rest, 0);
        assert(there == rg_pci_distance(rest, 0, first, 0));
        (void)rg_pci_distance_name(there);
    }
    return 0;
}
