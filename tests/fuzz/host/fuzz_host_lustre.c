/* Imports, layouts, ZFS properties, tunefs.lustre, configuration logs, recovery, versions. */
#include "host/lustre_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    struct rg_lustre_import *import = malloc(sizeof *import);
    struct rg_lustre_zfs *zfs = malloc(sizeof *zfs);
    struct rg_lustre_log *log = malloc(sizeof *log);
    struct rg_lustre_layout layout;
    struct rg_lustre_recovery recovery;
    unsigned version[3];
    if (rg_lustre_import_parse(text, import) || rg_lustre_uuid_parse(text, import)) {
        (void)rg_lustre_import_is_well(import);
        int index = rg_lustre_target_index(import->target);
        assert(index >= -1 && index <= 0xffff);
    }
    if (rg_lustre_layout_parse(text, &layout)) {
        assert(layout.component_count && layout.component_count <= RG_LUSTRE_COMPONENTS_MAX);
    }
    rg_lustre_zfs_parse(text, zfs);
    assert(zfs->count <= RG_LUSTRE_ZFS_MAX);
    struct rg_lustre_disk *disk = calloc(1, sizeof *disk);
    (void)rg_lustre_tunefs_parse(text, disk);
    assert(!strpbrk(disk->others, "$`;&|<>\"'\\\n"));
    free(disk);
    rg_lustre_log_parse(text, log);
    (void)rg_lustre_version_parse(text, version);
    (void)rg_lustre_recovery_parse(text, &recovery);
    free(import);
    free(zfs);
    free(log);
    return 0;
}
