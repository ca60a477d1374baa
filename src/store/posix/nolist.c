/*
 * Stands in for list.c until that is there (remove this file with it): every listing is refused.
 */
#include "store/posix/posix.h"

struct rg_posix_listing *rg_posix_listing_new(size_t memory_max)
{
    (void)memory_max;
    return calloc(1, 1);
}

void rg_posix_listing_free(struct rg_posix_listing *listing)
{
    free(listing);
}

void rg_posix_listing_counters(struct rg_posix_listing *listing, struct rg_store_counters *counters)
{
    (void)listing;
    (void)counters;
}

int rg_posix_list(struct rg_store *store, struct span bucket, const struct rg_list_query *query,
                  struct rg_list_page *ret_page, struct rg_error *err)
{
    return rg_fail(err, RG_NOT_IMPLEMENTED);
}

int rg_posix_upload_list(struct rg_store *store, struct span bucket,
                         const struct rg_upload_query *query, struct rg_upload_page *ret_page,
                         struct rg_error *err)
{
    return rg_fail(err, RG_NOT_IMPLEMENTED);
}

void rg_list_page_free(struct rg_list_page *page)
{
    *page = (struct rg_list_page){.entries = NULL};
}

void rg_upload_page_free(struct rg_upload_page *page)
{
    *page = (struct rg_upload_page){.entries = NULL};
}
