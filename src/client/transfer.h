/*
 * What objects in memory and objects in files have in common: argument checks, the parts of a call
 * done side by side, progress.
 */
#ifndef RG_CLIENT_TRANSFER_H
#define RG_CLIENT_TRANSFER_H

#include "client/client.h"
#include "client/piece.h"
#include "client/plan.h"

#include <railgate/railgate.h>

#include <pthread.h>
#include <stdatomic.h>

/* RG_STATUS_USAGE unless there is a client, a bucket and a key that can be one. */
int rg_transfer_check(const struct rg_client *client, const char *bucket, const char *key,
                      struct rg_failure *failure);

/* The same, and the name of a file. */
int rg_transfer_check_file(const struct rg_client *client, const char *bucket, const char *key,
                           const char *file, struct rg_failure *failure);

/* Progress of a whole call; its callback is called by one thread at a time. */
struct rg_transfer_progress {
    rg_progress *callback; /* NULL: none */
    void *context;
    uint64_t total;
    pthread_mutex_t mutex;
    uint64_t done;
    atomic_bool *cancel; /* set when the callback says so */
};

void rg_transfer_progress_init(struct rg_transfer_progress *progress, rg_progress *callback,
                               void *context, uint64_t total, atomic_bool *cancel);
void rg_transfer_progress_destroy(struct rg_transfer_progress *progress);

/* Counts `bytes` more at once. */
void rg_transfer_progress_add(struct rg_transfer_progress *progress, uint64_t bytes);

/* The share of one piece: hand rg_transfer_moved and this to the piece. */
struct rg_transfer_share {
    struct rg_transfer_progress *progress;
    uint64_t counted;
};

void rg_transfer_moved(void *share, uint64_t bytes);

/* Fails with RG_STATUS_CANCELLED when the callback has said no. */
int rg_transfer_stopped(const struct rg_transfer_progress *progress, struct rg_failure *failure);

#endif
