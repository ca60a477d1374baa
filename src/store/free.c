/*
 * Releasing what the store's calls return.
 */
#include "store/store.h"

#include <stdlib.h>

void rg_object_info_free(struct rg_object_info *info)
{
    rg_meta_free(&info->meta);
}

void rg_upload_info_free(struct rg_upload_info *info)
{
    free(info->key);
    info->key = NULL;
    rg_meta_free(&info->meta);
}

void rg_part_page_free(struct rg_part_page *page)
{
    free(page->parts);
    *page = (struct rg_part_page){.parts = NULL};
}

void rg_store_mounts_free(struct rg_store_mount *mounts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(mounts[i].path);
    }
    free(mounts);
}
