/*
 * Common ground of transfers. See transfer.h.
 */
#include "client/transfer.h"

#include "client/failure.h"

#include "base/assert.h"

#include <string.h>

#define KEY_BYTES_MAX    1024u
#define BUCKET_BYTES_MAX 255u

int rg_transfer_check(const struct rg_client *client, const char *bucket, const char *key,
                      struct rg_failure *failure)
{
    if (!client || !bucket || !key) {
        return rg_failure_set(failure, RG_STATUS_USAGE, "A client, a bucket and a key are needed.");
    }
    if (!bucket[0] || strlen(bucket) > BUCKET_BYTES_MAX || strchr(bucket, '/')) {
        return rg_failure_set(failure, RG_STATUS_USAGE, "\"%.100s\" cannot be a bucket.", bucket);
    }
    if (!key[0] || strlen(key) > KEY_BYTES_MAX) {
        return rg_failure_set(failure, RG_STATUS_USAGE, "A key has 1 to %u bytes.", KEY_BYTES_MAX);
    }
    return 0;
}

int rg_transfer_check_file(const struct rg_client *client, const char *bucket, const char *key,
                           const char *file, struct rg_failure *failure)
{
    int rc = rg_transfer_check(client, bucket, key, failure);
    if (rc == 0 && !file) {
        rc = rg_failure_set(failure, RG_STATUS_USAGE, "The name of a file is needed.");
    }
    return rc;
}

void rg_transfer_progress_init(struct rg_transfer_progress *progress, rg_progress *callback,
                               void *context, uint64_t total, atomic_bool *cancel)
{
    *progress = (struct rg_transfer_progress){
        .callback = callback, .context = context, .total = total, .cancel = cancel};
    RG_MUST(pthread_mutex_init(&progress->mutex, NULL));
}

void rg_transfer_progress_destroy(struct rg_transfer_progress *progress)
{
    RG_MUST(pthread_mutex_destroy(&progress->mutex));
}

/* Under the lock. */
static void tell(struct rg_transfer_progress *progress)
{
    if (progress->callback &&
        !progress->callback(progress->context, progress->done, progress->total)) {
        atomic_store(progress->cancel, true);
    }
}

void rg_transfer_progress_add(struct rg_transfer_progress *progress, uint64_t bytes)
{
    RG_MUST(pthread_mutex_lock(&progress->mutex));
    progress->done += bytes;
    tell(progress);
    RG_MUST(pthread_mutex_unlock(&progress->mutex));
}

/* A piece that is begun anew counts from 0 again: what it had counted is taken back. */
void rg_transfer_moved(void *context, uint64_t bytes)
{
    struct rg_transfer_share *share = context;
    struct rg_transfer_progress *progress = share->progress;
    RG_MUST(pthread_mutex_lock(&progress->mutex));
    progress->done = progress->done - share->counted + bytes;
    share->counted = bytes;
    tell(progress);
    RG_MUST(pthread_mutex_unlock(&progress->mutex));
}

int rg_transfer_stopped(const struct rg_transfer_progress *progress, struct rg_failure *failure)
{
    return atomic_load(progress->cancel)
               ? rg_failure_set(failure, RG_STATUS_CANCELLED, "The call was cancelled.")
               : 0;
}
