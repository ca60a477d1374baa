/* Texts of limits, units, control groups, mounts and interrupts. */
#include "host/device_policy.h"
#include "host/irq_text.h"
#include "host/memory_text.h"
#include "host/mount_text.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    uint64_t a, b;
    char path[64];
    struct rg_unit unit = {0};
    struct rg_meminfo memory;
    struct rg_irq_spread spread;
    (void)rg_limit_locked_parse(text, &a, &b);
    rg_unit_parse(text, &unit);
    rg_unit_parse(text, &unit);
    assert(unit.environment_file_count <= RG_UNIT_FILES_MAX);
    assert(unit.device_count <= RG_UNIT_DEVICES_MAX);
    struct rg_char_devices *devices = malloc(sizeof *devices);
    bool is_list = rg_char_devices_parse(text, devices);
    assert(is_list || devices->count == 0);
    (void)rg_unit_device(&unit, devices, "/dev/infiniband/uverbs0", 231);
    free(devices);
    rg_meminfo_parse(text, &memory);
    (void)rg_cgroup_path_parse(text, NULL, path, sizeof path);
    (void)rg_cgroup_path_parse(text, "rdma", path, sizeof path);
    (void)rg_rdma_cgroup_parse(text, "mlx5_0", &a, &b);
    (void)rg_capabilities_parse(text, &a);
    RG_BUF(table, 65536);
    struct span rest = text;
    while (rest.ptr) {
        struct span line = rg_span_cut(&rest, '\n');
        (void)rg_irq_shorten_head(line, &table);
        rg_irq_shorten(line, &table);
    }
    (void)rg_irq_parse(rg_buf_span(&table), "0000:3b:00.0", "ens1", &spread);
    if (rg_irq_parse(text, "0000:3b:00.0", "ens1", &spread)) {
        assert(spread.busy <= spread.vectors && spread.cpus <= spread.busy);
    }
    struct rg_mount_list *list = malloc(sizeof *list);
    rg_mounts_parse(text, NULL, list);
    for (size_t i = 0; i < list->count; i++) {
        struct span nids, value;
        char name[RG_LUSTRE_NAME_MAX + 1];
        (void)rg_lustre_source_parse(rg_span_text(list->mounts[i].source), &nids, name);
        (void)rg_mount_value(list->mounts[i].options, "x", &value);
        (void)rg_mount_of(list, list->mounts[i].target);
    }
    free(list);
    return 0;
}
