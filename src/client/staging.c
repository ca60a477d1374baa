/*
 * Staging buffers of a client. See staging.h.
 */
#include "client/staging.h"

#include "client/failure.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ROOM_MIN      ((uint64_t)64 << 10)
#define WAIT_SLICE_MS 50

struct rg_staging {
    struct rg_client *client;
    uint64_t budget;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t given;
    uint64_t held; /* bytes, in use or idle */
    struct rg_staging_buffer *idle;
};

int rg_staging_open(struct rg_client *client, struct rg_staging **ret_staging,
                    struct rg_failure *failure)
{
    struct rg_staging *staging = calloc(1, sizeof *staging);
    if (!staging) {
        return rg_failure_memory(failure);
    }
    staging->client = client;
    staging->budget = client->config.part_size * client->config.parallel;
    RG_MUST(pthread_mutex_init(&staging->mutex, NULL));
    RG_MUST(pthread_cond_init(&staging->given, NULL));
    *ret_staging = staging;
    return 0;
}

static void free_buffer(struct rg_staging_buffer *buffer)
{
    rg_memory_release(buffer->memory);
    if (buffer->bytes) {
        RG_MUST(munmap(buffer->bytes, buffer->room));
    }
    free(buffer);
}

void rg_staging_close(struct rg_staging *staging)
{
    if (!staging) {
        return;
    }
    while (staging->idle) {
        struct rg_staging_buffer *buffer = staging->idle;
        staging->idle = buffer->next;
        staging->held -= buffer->room;
        free_buffer(buffer);
    }
    RG_ASSERT(staging->held == 0);
    RG_MUST(pthread_cond_destroy(&staging->given));
    RG_MUST(pthread_mutex_destroy(&staging->mutex));
    free(staging);
}

/* Few sizes, so that buffers can be used again: powers of two up to the part size. */
static uint64_t room_for(const struct rg_staging *staging, uint64_t bytes)
{
    uint64_t room = ROOM_MIN;
    while (room < bytes) {
        room *= 2;
    }
    uint64_t part_size = (staging->client->config.part_size + 4095) / 4096 * 4096;
    return bytes <= part_size && room > part_size ? part_size : room;
}

static int make_buffer(struct rg_client *client, uint64_t room,
                       struct rg_staging_buffer **ret_buffer, struct rg_failure *failure)
{
    struct rg_staging_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
        return rg_failure_memory(failure);
    }
    buffer->room = room;
    void *bytes = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        free(buffer);
        return rg_failure_memory(failure);
    }
    buffer->bytes = bytes;
    int rc = rg_memory_register(client, bytes, room, &buffer->memory, failure);
    if (rc < 0) {
        free_buffer(buffer);
        return rc;
    }
    *ret_buffer = buffer;
    return 0;
}

static struct rg_staging_buffer *take_idle(struct rg_staging *staging, uint64_t room)
{
    for (struct rg_staging_buffer **at = &staging->idle; *at; at = &(*at)->next) {
        struct rg_staging_buffer *buffer = *at;
        if (buffer->room == room) {
            *at = buffer->next;
            return buffer;
        }
    }
    return NULL;
}

/* Gives up idle buffers of other sizes until `room` fits the budget. */
static void make_way(struct rg_staging *staging, uint64_t room)
{
    while (staging->idle && staging->held + room > staging->budget) {
        struct rg_staging_buffer *buffer = staging->idle;
        staging->idle = buffer->next;
        staging->held -= buffer->room;
        free_buffer(buffer);
    }
}

/* 1: *ret_buffer is set, or room is reserved and it is NULL; 0: none now. A request larger than the
 * budget goes through when nothing else is held. */
static int try_take(struct rg_staging *staging, uint64_t room,
                    struct rg_staging_buffer **ret_buffer)
{
    *ret_buffer = take_idle(staging, room);
    if (*ret_buffer) {
        return 1;
    }
    make_way(staging, room);
    if (staging->held > 0 && staging->held + room > staging->budget) {
        return 0;
    }
    staging->held += room;
    return 1;
}

static bool wait_for_room(struct rg_staging *staging, uint64_t room, const atomic_bool *cancel,
                          struct rg_staging_buffer **ret_buffer)
{
    RG_MUST(pthread_mutex_lock(&staging->mutex));
    int taken = try_take(staging, room, ret_buffer);
    while (!taken && !(cancel && atomic_load(cancel))) {
        struct timespec until = rg_clock_deadline(WAIT_SLICE_MS);
        (void)pthread_cond_clockwait(&staging->given, &staging->mutex, CLOCK_MONOTONIC, &until);
        taken = try_take(staging, room, ret_buffer);
    }
    RG_MUST(pthread_mutex_unlock(&staging->mutex));
    return taken;
}

static void give_up_room(struct rg_staging *staging, uint64_t room)
{
    RG_MUST(pthread_mutex_lock(&staging->mutex));
    staging->held -= room;
    RG_MUST(pthread_cond_broadcast(&staging->given));
    RG_MUST(pthread_mutex_unlock(&staging->mutex));
}

int rg_staging_take(struct rg_client *client, uint64_t bytes, const atomic_bool *cancel,
                    struct rg_staging_buffer **ret_buffer, struct rg_failure *failure)
{
    struct rg_staging *staging = client->staging;
    uint64_t room = room_for(staging, RG_MAX(bytes, (uint64_t)1));
    struct rg_staging_buffer *buffer = NULL;
    if (!wait_for_room(staging, room, cancel, &buffer)) {
        return rg_failure_set(failure, RG_STATUS_CANCELLED, "The call was cancelled.");
    }
    if (!buffer) {
        int rc = make_buffer(client, room, &buffer, failure);
        if (rc < 0) {
            give_up_room(staging, room);
            return rc;
        }
    }
    *ret_buffer = buffer;
    return 0;
}

void rg_staging_give(struct rg_client *client, struct rg_staging_buffer *buffer)
{
    struct rg_staging *staging = client->staging;
    if (!buffer) {
        return;
    }
    RG_MUST(pthread_mutex_lock(&staging->mutex));
    buffer->next = staging->idle;
    staging->idle = buffer;
    RG_MUST(pthread_cond_broadcast(&staging->given));
    RG_MUST(pthread_mutex_unlock(&staging->mutex));
}

int rg_staging_with(struct rg_client *client, uint64_t bytes, const atomic_bool *cancel,
                    rg_staging_work *work, void *context, uint32_t index,
                    struct rg_failure *failure)
{
    struct rg_staging_buffer *buffer = NULL;
    int rc = rg_staging_take(client, bytes, cancel, &buffer, failure);
    if (rc < 0) {
        return rc;
    }
    rc = work(context, index, buffer, failure);
    rg_staging_give(client, buffer);
    return rc;
}
