/*
 * A site's table of hosts, told to a map.
 */
#include "diag/hosts.h"
#include "diag/map.h"

#include <stdlib.h>

static bool speaks_of(void *context, rg_host_id host, rg_host_id peer)
{
    return host % 2 == peer % 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_hosts hosts;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_hosts_read(rg_span(data, size), "hosts", &hosts, &err) < 0) {
        return 0;
    }
    struct rg_pool pool;
    struct rg_map map;
    if (!rg_pool_init(&pool) || !rg_map_init(&map, &pool)) {
        abort();
    }
    for (size_t i = 0; i < hosts.count; i++) {
        rg_map_tell(&map, &hosts.items[i]);
    }
    rg_map_settle(&map, NULL, 0, speaks_of, NULL);
    rg_map_free(&map);
    rg_pool_free(&pool);
    rg_hosts_free(&hosts);
    return 0;
}
