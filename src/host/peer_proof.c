/*
 * Moving bytes between two hosts. See peer_proof.h.
 */
#include "host/peer_proof.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "host/json.h"
#include "host/peer_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP_MS        10000 /* one transfer, however large */
#define ANSWER_MS      15000
#define LATENCY_ROUNDS 400
#define LATENCY_MS     300
#define BANDWIDTH_MS   400
#define PIECE_BYTES    ((uint64_t)1 << 20)
#define WINDOW_BYTES   ((uint64_t)1 << 30) /* of a GPU's BAR, at most, is tried */
#define WINDOW_STEPS   8
#define PAGE_BYTES     ((uint64_t)64 << 10) /* what exports come in */

/* From one packet over every usual MTU to a large buffer. */
static const uint64_t sizes[RG_PROOF_SIZES] = {64,      256,     1024,     1500,    2048,
                                               4096,    8192,    9000,     65536,   262144,
                                               1048576, 4194304, 16777216, 67108864};

static uint8_t pattern(uint64_t offset, uint64_t seed)
{
    return (uint8_t)((offset + seed) * 0x9e3779b97f4a7c15u >> 53);
}

static void fill(uint8_t *bytes, uint64_t first, uint64_t length, uint64_t seed)
{
    for (uint64_t i = 0; i < length; i++) {
        bytes[i] = pattern(first + i, seed);
    }
}

static bool is_pattern(const uint8_t *bytes, uint64_t first, uint64_t length, uint64_t seed)
{
    for (uint64_t i = 0; i < length; i++) {
        if (bytes[i] != pattern(first + i, seed)) {
            return false;
        }
    }
    return true;
}

#define SEED_WRITE 17
#define SEED_READ  4711

/* ---- What both sides open ---- */

struct end {
    struct rg_rail *rail;
    struct rg_lane *lane;
    struct rg_region *region;
    uint8_t *memory;          /* of the host; for a GPU PIECE_BYTES on the way to it */
    uint64_t bytes;           /* mapped */
    struct rg_device *device; /* NULL: memory of the host */
    uint64_t address;         /* on the device */
    struct rg_proof_memory told;
};

int rg_proof_gpu_parse(const char *text, struct rg_proof_gpu *ret_gpu, struct rg_error *err)
{
    struct span ordinal = rg_span_text(text);
    struct span kind = rg_span_cut(&ordinal, ':');
    bool is_cuda = rg_span_is(kind, "cuda");
    uint64_t number = 0;
    *ret_gpu = (struct rg_proof_gpu){0};
    if (!text[0]) {
        return 0;
    }
    if ((!is_cuda && !rg_span_is(kind, "hip")) || !ordinal.ptr ||
        !rg_span_to_u64(ordinal, &number) || number > 255) {
        return rg_failf(err, RG_SETTING, "\"%.60s\" names no GPU: cuda:0, hip:0 and so on do",
                        text);
    }
    ret_gpu->is_named = true;
    ret_gpu->kind = is_cuda ? RG_DEVICE_CUDA : RG_DEVICE_HIP;
    ret_gpu->ordinal = (int)number;
    snprintf(ret_gpu->name, sizeof ret_gpu->name, "%.8s:%d", is_cuda ? "cuda" : "hip",
             ret_gpu->ordinal);
    return 0;
}

static void end_close(struct end *end)
{
    rg_lane_close(end->lane);
    rg_region_deregister(end->region);
    if (end->rail) {
        rg_rail_close(end->rail);
    }
    rg_device_close(end->device);
    if (end->memory) {
        munmap(end->memory, end->bytes);
    }
    *end = (struct end){0};
}

static int map_memory(struct end *end, uint64_t bytes, struct rg_error *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    end->memory = memory;
    end->bytes = bytes;
    return 0;
}

/* Registers as much of `bytes` as goes, in halves. */
static int open_memory(struct end *end, uint64_t bytes, unsigned access, struct rg_error *err)
{
    int rc = map_memory(end, bytes, err);
    if (rc < 0) {
        return rc;
    }
    rc = -1;
    for (uint64_t try = bytes; rc < 0 && try >= PIECE_BYTES; try /= 2) {
        rc = rg_region_register(end->rail, end->memory, try, access, &end->region, err);
    }
    if (rc == 0) {
        end->told.registered = end->region->length;
    }
    return rc;
}

/* ---- Memory of a GPU ---- */

/* As librailgate does: by dma-buf, else by its address where the peer-memory module is. */
static int register_device(struct end *end, uint64_t bytes, unsigned access,
                           struct rg_region **ret_region, struct rg_error *err)
{
    struct rg_device_export export;
    int rc = rg_device_export(end->device, end->address, bytes, &export, err);
    if (rc == 0) {
        rc = rg_region_register_dmabuf(end->rail, export.fd, export.fd_offset, end->address, bytes,
                                       access, ret_region, err);
        close(export.fd);
        end->told.how = "dma-buf";
    }
    if (rc < 0 && rg_device_has_peermem(end->device)) {
        void *pointer = (void *)(uintptr_t)end->address; // NOLINT(performance-no-int-to-ptr)
        rc = rg_region_register(end->rail, pointer, bytes, access, ret_region, err);
        end->told.how = "peermem";
    }
    return rc;
}

/* As much as there may be, in halves: a GPU may be full. */
static int allocate_device(struct end *end, const struct rg_proof_gpu *gpu, uint64_t bytes,
                           uint64_t *ret_bytes, struct rg_error *err)
{
    int rc = -1;
    for (uint64_t try = bytes; rc < 0 && try >= PIECE_BYTES; try /= 2) {
        rc = rg_device_allocate(gpu->kind, gpu->ordinal, try, &end->device, &end->address, err);
        *ret_bytes = try;
        if (rc < 0 && rc != -RG_OUT_OF_MEMORY) {
            return rc;
        }
    }
    return rc;
}

/* How much goes through the GPU's window onto PCI at once: all there is, for a moment, then less by
 * eighths. What is asked for stays registered, or less when there is less. */
static int open_window(struct end *end, uint64_t have, uint64_t bytes, unsigned access,
                       struct rg_error *err)
{
    int rc = -1;
    for (unsigned i = WINDOW_STEPS; i > 0 && rc < 0; i--) {
        uint64_t try = have / WINDOW_STEPS / PAGE_BYTES * PAGE_BYTES * i;
        rc = register_device(end, try, access, &end->region, err);
        if (rc == 0) {
            end->told.registered = try;
        }
    }
    if (rc < 0 || end->told.registered <= bytes) {
        return rc;
    }
    rg_region_deregister(end->region);
    end->region = NULL;
    return register_device(end, bytes, access, &end->region, err);
}

static int open_device(struct end *end, const struct rg_proof_gpu *gpu, uint64_t bytes,
                       unsigned access, struct rg_error *err)
{
    uint64_t have = 0;
    snprintf(end->told.name, sizeof end->told.name, "%s", gpu->name);
    int rc = map_memory(end, PIECE_BYTES, err);
    rc = rc < 0 ? rc : allocate_device(end, gpu, bytes, &have, err);
    if (rc < 0) {
        return rc;
    }
    end->told.bar = rg_device_bar(end->device);
    uint64_t most = RG_MIN(end->told.bar, WINDOW_BYTES);
    if (most > have) {
        rg_device_close(end->device);
        end->device = NULL;
        rc = allocate_device(end, gpu, most, &have, err);
        if (rc < 0) {
            return rc;
        }
    }
    return open_window(end, have, bytes, access, err);
}

static int put_pattern(struct end *end, uint64_t length, uint64_t seed, struct rg_error *err)
{
    int rc = 0;
    if (!end->device) {
        fill(end->memory, 0, length, seed);
        return 0;
    }
    for (uint64_t at = 0; rc == 0 && at < length; at += PIECE_BYTES) {
        uint64_t piece = RG_MIN(PIECE_BYTES, length - at);
        fill(end->memory, at, piece, seed);
        rc = rg_device_write(end->device, end->address + at, end->memory, piece, err);
    }
    return rc;
}

static int clear(struct end *end, uint64_t length, struct rg_error *err)
{
    int rc = 0;
    memset(end->memory, 0, end->device ? PIECE_BYTES : length);
    for (uint64_t at = 0; end->device && rc == 0 && at < length; at += PIECE_BYTES) {
        rc = rg_device_write(end->device, end->address + at, end->memory,
                             RG_MIN(PIECE_BYTES, length - at), err);
    }
    return rc;
}

/* False also when the device does not give its bytes back. */
static bool has_pattern(struct end *end, uint64_t length, uint64_t seed)
{
    bool same = true;
    if (!end->device) {
        return is_pattern(end->memory, 0, length, seed);
    }
    for (uint64_t at = 0; same && at < length; at += PIECE_BYTES) {
        uint64_t piece = RG_MIN(PIECE_BYTES, length - at);
        same = rg_device_read(end->device, end->address + at, end->memory, piece, NULL) == 0 &&
               is_pattern(end->memory, at, piece, seed);
    }
    return same;
}

/* ---- Both ---- */

static int end_open(struct end *end, enum rg_transport_kind kind, const char *provider,
                    const char *address, const struct rg_proof_gpu *gpu, uint64_t bytes,
                    unsigned access, struct rg_error *err)
{
    end->told = (struct rg_proof_memory){.name = "host", .how = ""};
    const struct rg_transport *transport = rg_transport_find(kind);
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    if (!transport) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "this build has no such transport");
    }
    if (kind == RG_TRANSPORT_OFI) {
        snprintf(config.device, sizeof config.device, "%.60s", provider);
        snprintf(config.address, sizeof config.address, "%.100s", address);
    }
    int rc = rg_rail_open(transport, &config, &end->rail, err);
    if (rc == 0) {
        rc = gpu && gpu->is_named ? open_device(end, gpu, bytes, access, err)
                                  : open_memory(end, bytes, access, err);
    }
    if (rc == 0) {
        rc = rg_lane_open(end->rail, &end->lane, err);
    }
    return rc;
}

/* ---- The visiting side: moving ---- */

/* Takes one completion; RG_RDMA_TRANSFER_FAILED with what the NIC calls it when it failed. */
static int take_one(struct rg_lane *lane, uint64_t deadline_ms, struct rg_error *err)
{
    struct rg_completion completion;
    size_t count = 0;
    uint64_t now = rg_clock_ms();
    int rc = rg_lane_wait(lane, &completion, 1, -1,
                          now < deadline_ms ? (uint32_t)(deadline_ms - now) : 0, &count, err);
    if (rc < 0 || count == 0) {
        return rc < 0 ? rc : rg_failf(err, RG_TIMED_OUT, "no completion in time");
    }
    if (completion.broke != RG_BROKE_NOTHING) {
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "%s (%s)",
                        rg_cause_sentence(completion.cause), completion.provider_text);
    }
    return 0;
}

/* Posts one operation, making room when the lane has none. */
static int post(struct end *end, bool write, uint64_t offset, uint64_t length, uint64_t deadline_ms,
                struct rg_error *err)
{
    for (;;) {
        int rc = write ? rg_lane_write(end->lane, end->region, offset, offset, length, 0, err)
                       : rg_lane_read(end->lane, end->region, offset, offset, length, 0, err);
        if (rc != -RG_LIMIT) {
            return rc;
        }
        if (rg_clock_ms() >= deadline_ms) {
            return rg_failf(err, RG_TIMED_OUT, "the lane stays busy");
        }
        /* With nothing outstanding a provider may be connecting: waiting drives it. */
        uint64_t until = end->lane->outstanding ? deadline_ms : rg_clock_ms() + 20;
        rc = take_one(end->lane, until, err);
        if (rc < 0 && rc != -RG_TIMED_OUT) {
            return rc;
        }
    }
}

static int drain(struct end *end, uint64_t deadline_ms, struct rg_error *err)
{
    while (end->lane->outstanding) {
        int rc = take_one(end->lane, deadline_ms, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* All of [0, length), in pieces that the transport takes. */
static int move(struct end *end, bool write, uint64_t length, struct rg_error *err)
{
    uint64_t deadline_ms = rg_clock_ms() + STEP_MS;
    uint64_t piece = RG_MIN(PIECE_BYTES, end->rail->operation_bytes_max);
    if (length <= piece) {
        piece = length;
    }
    for (uint64_t at = 0; at < length; at += piece) {
        int rc = post(end, write, at, RG_MIN(piece, length - at), deadline_ms, err);
        if (rc < 0) {
            return rc;
        }
    }
    return drain(end, deadline_ms, err);
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void measure_latency(struct end *end, struct rg_proof_result *result)
{
    double rounds[LATENCY_ROUNDS];
    size_t count = 0;
    uint64_t stop = rg_clock_ms() + LATENCY_MS;
    while (count < LATENCY_ROUNDS && rg_clock_ms() < stop) {
        uint64_t begin = rg_clock_ns();
        if (move(end, true, 8, NULL) < 0) {
            return;
        }
        rounds[count++] = (double)(rg_clock_ns() - begin) / 1000;
    }
    if (count) {
        qsort(rounds, count, sizeof rounds[0], compare_doubles);
        result->latency_us = rounds[count / 2];
    }
}

static double measure_bandwidth(struct end *end, bool write, uint64_t length)
{
    uint64_t moved = 0, begin = rg_clock_ns();
    uint64_t stop = rg_clock_ms() + BANDWIDTH_MS;
    do {
        if (move(end, write, length, NULL) < 0) {
            return 0;
        }
        moved += length;
    } while (rg_clock_ms() < stop);
    return (double)moved * 8000 / (double)(rg_clock_ns() - begin);
}

/* ---- The visiting side: talking ---- */

/* Sends, and takes the answer: of another type than "error", else its sentence. */
static int ask(int fd, json_t *question, json_t **ret_answer, bool *ret_refused,
               struct rg_error *err)
{
    *ret_refused = false;
    int rc = rg_peer_send(fd, question, ANSWER_MS, err);
    if (rc == 0) {
        rc = rg_peer_receive(fd, ANSWER_MS, ret_answer, err);
    }
    if (rc == 0 && strcmp(rg_peer_type(*ret_answer), "error") == 0) {
        *ret_refused = true;
        rc = rg_failf(err, RG_RDMA_NOT_SUPPORTED, "the other host: %.300s",
                      rg_peer_text(*ret_answer, "message"));
    }
    return rc;
}

static json_t *tell_open(const struct rg_proof_ask *asked, struct end *end, uint64_t bytes,
                         struct rg_error *err)
{
    const struct rg_proof_way *way = asked->way;
    json_t *message =
        json_pack("{s:s, s:i, s:s, s:I, s:b}", "type", "open", "transport", way->kind, "provider",
                  way->provider, "bytes", (json_int_t)bytes, "gpu", asked->gpu != NULL);
    if (way->kind == RG_TRANSPORT_RC) {
        struct rg_lane_address own;
        if (rg_lane_address(end->lane, &own, err) < 0) {
            json_decref(message);
            return NULL;
        }
        (void)json_object_set_new(message, "lane", rg_peer_tell_lane(&own));
    }
    return message;
}

/* What the other host says of its memory. */
static void take_memory(const json_t *answer, struct rg_proof_memory *ret_memory)
{
    static const char *const names[] = {"dma-buf", "peermem"};
    const char *name = rg_peer_text(answer, "memory"), *how = rg_peer_text(answer, "how");
    *ret_memory = (struct rg_proof_memory){.how = ""};
    snprintf(ret_memory->name, sizeof ret_memory->name, "%.31s", name[0] ? name : "host");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        ret_memory->how = strcmp(how, names[i]) == 0 ? names[i] : ret_memory->how;
    }
    ret_memory->bar = (uint64_t)rg_peer_number(answer, "bar", 0, INT64_MAX / 2, 0);
    ret_memory->registered = (uint64_t)rg_peer_number(answer, "registered", 0, INT64_MAX / 2, 0);
}

static int open_there(int fd, const struct rg_proof_ask *asked, struct end *end, uint64_t *bytes,
                      struct rg_proof_memory *ret_memory, bool *ret_alive, struct rg_error *err)
{
    const struct rg_proof_way *way = asked->way;
    RG_CLEANUP(rg_host_json_free) json_t *answer = NULL;
    struct rg_lane_address theirs;
    bool refused;
    *ret_alive = true;
    json_t *question = tell_open(asked, end, *bytes, err);
    if (!question) {
        return -RG_RDMA_NOT_SUPPORTED;
    }
    int rc = ask(fd, question, &answer, &refused, err);
    *ret_alive = rc == 0 || refused;
    if (rc < 0) {
        return rc;
    }
    take_memory(answer, ret_memory);
    *bytes = (uint64_t)rg_peer_number(answer, "bytes", 0, (int64_t)RG_PROOF_BYTES_MAX, 0);
    if (*bytes < sizes[0]) {
        /* Nothing would move, and nothing could fail. */
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "the other host lends no memory");
    }
    if (way->kind != RG_TRANSPORT_RC) {
        return 0;
    }
    return rg_peer_take_lane(json_object_get(answer, "lane"), &theirs)
               ? rg_lane_pair(end->lane, &theirs, err)
               : rg_failf(err, RG_PARSE, "the other host tells no queue pair");
}

static int bind_window(int fd, bool write, uint64_t bytes, struct end *end, bool *ret_alive,
                       struct rg_error *err)
{
    RG_CLEANUP(rg_host_json_free) json_t *answer = NULL;
    struct rg_rdma_window window;
    bool refused;
    int rc = ask(
        fd,
        json_pack("{s:s, s:b, s:I}", "type", "window", "write", write, "bytes", (json_int_t)bytes),
        &answer, &refused, err);
    *ret_alive = rc == 0 || refused;
    if (rc < 0) {
        return rc;
    }
    return rg_peer_take_window(json_object_get(answer, "window"), &window)
               ? rg_lane_bind(end->lane, &window, err)
               : rg_failf(err, RG_PARSE, "the other host tells no window");
}

/* Whether what was written is there: the other host has looked. */
static int revoke_window(int fd, uint64_t written, bool settled, bool *ret_same, bool *ret_alive,
                         struct rg_error *err)
{
    RG_CLEANUP(rg_host_json_free) json_t *answer = NULL;
    bool refused;
    int rc = ask(fd,
                 json_pack("{s:s, s:I, s:b}", "type", "revoke", "written", (json_int_t)written,
                           "settled", settled),
                 &answer, &refused, err);
    *ret_alive = rc == 0 || refused;
    *ret_same = rc == 0 && json_is_true(json_object_get(answer, "same"));
    return rc;
}

static int move_sizes(struct end *end, bool write, uint64_t bytes, struct rg_proof_result *result,
                      struct rg_error *err)
{
    uint64_t *largest = write ? &result->largest_write : &result->largest_read;
    for (size_t i = 0; i < RG_PROOF_SIZES && sizes[i] <= bytes; i++) {
        int rc = write ? 0 : clear(end, sizes[i], err);
        rc = rc < 0 ? rc : move(end, write, sizes[i], err);
        if (rc == 0 && !write && !has_pattern(end, sizes[i], SEED_READ)) {
            rc = rg_failf(err, RG_RDMA_TRANSFER_FAILED, "what was read is not what is there");
        }
        if (rc < 0) {
            result->failed_size = sizes[i];
            return rc;
        }
        *largest = sizes[i];
    }
    return 0;
}

static int prove_direction(int fd, bool write, uint64_t bytes, struct end *end,
                           struct rg_proof_result *result, bool *ret_alive, struct rg_error *err)
{
    bool same = false;
    struct rg_error later = RG_ERROR_INIT;
    int rc = bind_window(fd, write, bytes, end, ret_alive, err);
    if (rc < 0) {
        return rc;
    }
    rc = move_sizes(end, write, bytes, result, err);
    uint64_t large = write ? result->largest_write : result->largest_read;
    if (rc == 0 && write) {
        measure_latency(end, result);
    }
    if (rc == 0 && large >= PIECE_BYTES) {
        *(write ? &result->write_mbits : &result->read_mbits) =
            measure_bandwidth(end, write, RG_MIN(large, 8 * PIECE_BYTES));
    }
    if (rc == 0) {
        rg_lane_unbind(end->lane);
    } else {
        unsigned quiet;
        (void)rg_lane_flush(end->lane, &quiet, NULL);
    }
    int closing = revoke_window(fd, write ? result->largest_write : 0, rc == 0, &same, ret_alive,
                                rc == 0 ? err : &later);
    if (rc < 0) {
        return rc;
    }
    if (closing == 0 && write && !same) {
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "the other host has not what was written");
    }
    return closing;
}

static const char *way_name(const struct rg_proof_way *way, char room[80])
{
    snprintf(room, 80, "%s%s%.60s", rg_transport_kind_name(way->kind), way->provider[0] ? ":" : "",
             way->provider);
    return room;
}

int rg_proof_run(int fd, const struct rg_proof_ask *asked, struct rg_proof_result *ret_result,
                 struct rg_error *err)
{
    const struct rg_proof_way *way = asked->way;
    struct rg_error why = RG_ERROR_INIT;
    RG_CLEANUP(end_close) struct end end = {0};
    char name[80];
    bool alive = true;
    memset(ret_result, 0, sizeof *ret_result);
    snprintf(ret_result->path, sizeof ret_result->path, "%.60s", way_name(way, name));
    int rc = end_open(&end, way->kind, way->provider, asked->address, asked->gpu, asked->bytes,
                      RG_ACCESS_LOCAL, &why);
    rc = rc < 0 ? rc : put_pattern(&end, end.region->length, SEED_WRITE, &why);
    ret_result->own = end.told;
    ret_result->other = (struct rg_proof_memory){.how = ""};
    if (rc < 0) {
        snprintf(ret_result->message, sizeof ret_result->message, "%s", why.message);
        return 0;
    }
    snprintf(ret_result->path, sizeof ret_result->path, "%s", rg_rail_path(end.rail));
    snprintf(ret_result->device, sizeof ret_result->device, "%s", end.rail->device);
    ret_result->mtu = end.rail->mtu;
    ret_result->is_hardware = end.rail->is_hardware;
    uint64_t both = end.region->length;
    rc = open_there(fd, asked, &end, &both, &ret_result->other, &alive, &why);
    if (rc == 0) {
        ret_result->tried = true;
        both = RG_MIN(both, end.region->length);
        rc = prove_direction(fd, true, both, &end, ret_result, &alive, &why);
    }
    if (rc == 0) {
        rc = prove_direction(fd, false, both, &end, ret_result, &alive, &why);
    }
    ret_result->well = rc == 0;
    if (rc < 0) {
        snprintf(ret_result->message, sizeof ret_result->message, "%s", why.message);
        ret_result->tried |= why.code != RG_RDMA_NOT_SUPPORTED;
    }
    if (!alive) {
        return rg_failf(err, RG_DISCONNECTED, "%.400s", why.message);
    }
    RG_CLEANUP(rg_host_json_free) json_t *answer = NULL;
    bool refused;
    rc = ask(fd, json_pack("{s:s}", "type", "close"), &answer, &refused, err);
    return refused ? 0 : rc;
}

/* ---- The serving side ---- */

struct rg_proof_host {
    char address[64];
    const struct rg_proof_gpu *gpu;
    struct end end;
    struct rg_target *target;
    struct rg_progress *progress;
    bool writable; /* by the peer: of the window */
};

int rg_proof_host_open(const char *address, const struct rg_proof_gpu *gpu,
                       struct rg_proof_host **ret_host, struct rg_error *err)
{
    struct rg_proof_host *host = calloc(1, sizeof *host);
    if (!host) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    snprintf(host->address, sizeof host->address, "%s", address);
    host->gpu = gpu;
    *ret_host = host;
    return 0;
}

static void end_window(struct rg_proof_host *host, bool settled)
{
    if (host->progress) {
        (void)rg_progress_stop(host->progress, NULL);
        host->progress = NULL;
    }
    if (host->target) {
        (void)rg_window_revoke(host->target, settled, NULL);
        host->target = NULL;
    }
}

static void end_all(struct rg_proof_host *host)
{
    end_window(host, false);
    end_close(&host->end);
}

void rg_proof_host_close(struct rg_proof_host *host)
{
    if (host) {
        end_all(host);
        free(host);
    }
}

static int answer_open(struct rg_proof_host *host, const json_t *message, json_t *answer,
                       struct rg_error *err)
{
    struct rg_lane_address theirs, own;
    int64_t kind = rg_peer_number(message, "transport", 0, RG_TRANSPORT_COUNT - 1, -1);
    int64_t bytes = rg_peer_number(message, "bytes", (int64_t)PIECE_BYTES,
                                   (int64_t)RG_PROOF_BYTES_MAX, (int64_t)PIECE_BYTES);
    end_all(host);
    if (kind < 0) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "no such transport");
    }
    int rc = end_open(
        &host->end, (enum rg_transport_kind)kind, rg_peer_text(message, "provider"), host->address,
        json_is_true(json_object_get(message, "gpu")) ? host->gpu : NULL, (uint64_t)bytes,
        RG_ACCESS_LOCAL | RG_ACCESS_REMOTE_WRITE | RG_ACCESS_REMOTE_READ, err);
    if (rc == 0 && kind == RG_TRANSPORT_RC) {
        if (!rg_peer_take_lane(json_object_get(message, "lane"), &theirs)) {
            return rg_failf(err, RG_PARSE, "no queue pair to pair with");
        }
        rc = rg_lane_address_toward(host->end.lane, &theirs, &own, err);
        rc = rc < 0 ? rc : rg_lane_pair(host->end.lane, &theirs, err);
        (void)json_object_set_new(answer, "lane", rc < 0 ? json_null() : rg_peer_tell_lane(&own));
    }
    if (rc == 0) {
        const struct rg_proof_memory *told = &host->end.told;
        (void)json_object_set_new(answer, "bytes",
                                  json_integer((json_int_t)host->end.region->length));
        (void)json_object_set_new(answer, "memory", json_string(told->name));
        (void)json_object_set_new(answer, "how", json_string(told->how));
        (void)json_object_set_new(answer, "bar", json_integer((json_int_t)told->bar));
        (void)json_object_set_new(answer, "registered", json_integer((json_int_t)told->registered));
    }
    return rc;
}

static int answer_window(struct rg_proof_host *host, const json_t *message, json_t *answer,
                         struct rg_error *err)
{
    if (!host->end.lane || host->target) {
        return rg_failf(err, RG_INVALID_REQUEST, "nothing is open, or a window is out already");
    }
    struct rg_region *region = host->end.region;
    int64_t bytes =
        rg_peer_number(message, "bytes", 1, (int64_t)region->length, (int64_t)region->length);
    host->writable = json_is_true(json_object_get(message, "write"));
    int rc = host->writable ? clear(&host->end, (uint64_t)bytes, err)
                            : put_pattern(&host->end, (uint64_t)bytes, SEED_READ, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_window_mint(host->end.lane, region, 0, (uint64_t)bytes,
                        host->writable ? RG_DIRECTION_GET : RG_DIRECTION_PUT, &host->target, err);
    if (rc == 0) {
        rc = rg_progress_start(host->end.lane, &host->progress, err);
    }
    if (rc == 0) {
        (void)json_object_set_new(answer, "window", rg_peer_tell_window(&host->target->window));
    } else {
        end_window(host, false);
    }
    return rc;
}

static int answer_revoke(struct rg_proof_host *host, const json_t *message, json_t *answer,
                         struct rg_error *err)
{
    if (!host->target) {
        return rg_failf(err, RG_INVALID_REQUEST, "no window is out");
    }
    int64_t written = rg_peer_number(message, "written", 0, (int64_t)host->end.region->length, 0);
    end_window(host, json_is_true(json_object_get(message, "settled")));
    (void)json_object_set_new(
        answer, "same",
        json_boolean(host->writable && has_pattern(&host->end, (uint64_t)written, SEED_WRITE)));
    return 0;
}

json_t *rg_proof_host_answer(struct rg_proof_host *host, const json_t *message)
{
    struct rg_error err = RG_ERROR_INIT;
    const char *type = rg_peer_type(message);
    json_t *answer = json_pack("{s:s}", "type", "done");
    int rc;
    if (!answer) {
        return NULL;
    }
    if (strcmp(type, "open") == 0) {
        rc = answer_open(host, message, answer, &err);
    } else if (strcmp(type, "window") == 0) {
        rc = answer_window(host, message, answer, &err);
    } else if (strcmp(type, "revoke") == 0) {
        rc = answer_revoke(host, message, answer, &err);
    } else if (strcmp(type, "close") == 0) {
        end_all(host);
        rc = 0;
    } else {
        rc = rg_failf(&err, RG_PARSE, "a message of a type that is not known");
    }
    if (rc < 0) {
        json_decref(answer);
        answer = json_pack("{s:s, s:s}", "type", "error", "message", err.message);
        if (!host->target) {
            end_all(host);
        }
    }
    return answer;
}
