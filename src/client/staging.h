/*
 * Registered buffers for transfers between files and objects. One budget for the whole client, of
 * part_size * parallel bytes: whoever finds it used up waits for a buffer to come back.
 */
#ifndef RG_CLIENT_STAGING_H
#define RG_CLIENT_STAGING_H

#include "client/client.h"

#include <railgate/railgate.h>

struct rg_staging_buffer {
    char *bytes;
    uint64_t room;
    struct rg_memory *memory;
    struct rg_staging_buffer *next;
};

int rg_staging_open(struct rg_client *client, struct rg_staging **ret_staging,
                    struct rg_failure *failure);

/* All buffers must be back. */
void rg_staging_close(struct rg_staging *staging);

/* A buffer with room for `bytes` (at least 1). RG_STATUS_CANCELLED, RG_STATUS_MEMORY. */
int rg_staging_take(struct rg_client *client, uint64_t bytes, const atomic_bool *cancel,
                    struct rg_staging_buffer **ret_buffer, struct rg_failure *failure);
void rg_staging_give(struct rg_client *client, struct rg_staging_buffer *buffer);

/* One part of a file, with a buffer of `bytes` bytes for as long as it takes. */
typedef int rg_staging_work(void *context, uint32_t index, struct rg_staging_buffer *buffer,
                            struct rg_failure *failure);
int rg_staging_with(struct rg_client *client, uint64_t bytes, const atomic_bool *cancel,
                    rg_staging_work *work, void *context, uint32_t index,
                    struct rg_failure *failure);

#endif
