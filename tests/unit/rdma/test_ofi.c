/*
 * The ofi transport over the tcp and shm providers, gateway and client in two processes (and once
 * in two threads): whole transfers through the pipeline, and everything that may go wrong between
 * them.
 */
#include "test.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "rdma/lane.h"
#include "rdma/pipeline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOT  ((size_t)256 << 10)
#define GUARD 4096

static const char *provider; /* of the running group */

static const struct rg_transport *ofi(void)
{
    return rg_transport_find(RG_TRANSPORT_OFI);
}

static struct rg_rail_config rail_config(void)
{
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    snprintf(config.device, sizeof config.device, "%s", provider);
    return config;
}

static uint8_t pattern(uint64_t offset, uint64_t seed)
{
    return (uint8_t)((offset + seed) * 0x9e3779b97f4a7c15u >> 37);
}

static uint64_t digest(const uint8_t *bytes, size_t length)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) {
        sum = (sum ^ bytes[i]) * 0x100000001b3u;
    }
    return sum;
}

static void fill(uint8_t *bytes, size_t length, uint64_t seed)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = pattern(i, seed);
    }
}

/* ---- The client: a process that mints a window for each request it is told of ---- */

struct request {
    enum { REQUEST_MINT, REQUEST_END, REQUEST_RESET, REQUEST_QUIT } kind;
    uint32_t lane;
    enum rg_direction direction;
    uint64_t length, seed;
    bool settled;
};

struct reply {
    bool ok;
    char token[RG_TOKEN_MAX];
    uint64_t digest;
    bool guards_whole;
    char message[RG_ERROR_MESSAGE_MAX];
};

struct client_lane {
    struct rg_lane *lane;
    struct rg_region *region;
    struct rg_target *target;
    struct rg_progress *progress;
    uint8_t *memory;
    uint64_t length;
};

#define CLIENT_LANES 64

static bool client_mint(struct rg_rail *rail, struct client_lane *client,
                        const struct request *request, struct reply *reply, struct rg_error *err)
{
    if (!client->lane && rg_lane_open(rail, &client->lane, err) < 0) {
        return false;
    }
    if (client->lane->broke != RG_BROKE_NOTHING && rg_lane_reset(client->lane, err) < 0) {
        return false;
    }
    client->length = request->length;
    client->memory = calloc(1, request->length + 2 * GUARD);
    if (request->direction == RG_DIRECTION_PUT) {
        fill(client->memory + GUARD, request->length, request->seed);
    }
    unsigned access =
        request->direction == RG_DIRECTION_GET ? RG_ACCESS_REMOTE_WRITE : RG_ACCESS_REMOTE_READ;
    if (rg_region_register(rail, client->memory, request->length + 2 * GUARD, access,
                           &client->region, err) < 0 ||
        rg_window_mint(client->lane, client->region, GUARD, request->length, request->direction,
                       &client->target, err) < 0) {
        return false;
    }
    RG_BUF(text, RG_TOKEN_MAX);
    rg_token_print_ofi(&client->target->window, &text);
    snprintf(reply->token, sizeof reply->token, "%s", rg_buf_text(&text));
    return rg_progress_start(client->lane, &client->progress, err) == 0;
}

static bool client_end(struct client_lane *client, const struct request *request,
                       struct reply *reply, struct rg_error *err)
{
    bool ok = rg_progress_stop(RG_TAKE(client->progress), err) == 0;
    ok = rg_window_revoke(RG_TAKE(client->target), request->settled, err) == 0 && ok;
    rg_region_deregister(RG_TAKE(client->region));
    reply->digest = digest(client->memory + GUARD, client->length);
    reply->guards_whole = true;
    for (size_t i = 0; i < GUARD; i++) {
        if (client->memory[i] || client->memory[GUARD + client->length + i]) {
            reply->guards_whole = false;
        }
    }
    free(RG_TAKE(client->memory));
    return ok;
}

static void run_client(int fd)
{
    static struct client_lane lanes[CLIENT_LANES];
    struct rg_rail *rail = NULL;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_rail_config config = rail_config();
    struct request request;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rg_rail_open(ofi(), &config, &rail, &err) < 0) {
        _exit(1);
    }
    while (recv(fd, &request, sizeof request, MSG_WAITALL) == sizeof request) {
        struct reply reply = {.ok = true};
        struct client_lane *client = &lanes[request.lane];
        rg_error_clear(&err);
        if (request.kind == REQUEST_QUIT) {
            break;
        }
        if (request.kind == REQUEST_MINT) {
            reply.ok = client_mint(rail, client, &request, &reply, &err);
        } else {
            reply.ok = client_end(client, &request, &reply, &err);
        }
        snprintf(reply.message, sizeof reply.message, "%s", err.message);
        if (send(fd, &reply, sizeof reply, MSG_NOSIGNAL) != sizeof reply) {
            break;
        }
    }
    for (size_t i = 0; i < CLIENT_LANES; i++) {
        rg_lane_close(lanes[i].lane);
    }
    rg_rail_close(rail);
    _exit(0);
}

struct client {
    pid_t pid;
    int fd;
    pthread_mutex_t lock;
};

static void start_client(struct client *client)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    client->pid = fork();
    assert_true(client->pid >= 0);
    if (client->pid == 0) {
        close(fds[0]);
        run_client(fds[1]);
    }
    close(fds[1]);
    client->fd = fds[0];
    pthread_mutex_init(&client->lock, NULL);
}

static bool ask(struct client *client, const struct request *request, struct reply *reply)
{
    pthread_mutex_lock(&client->lock);
    bool ok = send(client->fd, request, sizeof *request, MSG_NOSIGNAL) == sizeof *request &&
              recv(client->fd, reply, sizeof *reply, MSG_WAITALL) == sizeof *reply;
    pthread_mutex_unlock(&client->lock);
    return ok;
}

static void reap_client(struct client *client)
{
    int status;
    close(client->fd);
    assert_int_equal(waitpid(client->pid, &status, 0), client->pid);
}

static void stop_client(struct client *client)
{
    struct request request = {.kind = REQUEST_QUIT};
    int status;
    assert_int_equal(send(client->fd, &request, sizeof request, MSG_NOSIGNAL), sizeof request);
    assert_int_equal(waitpid(client->pid, &status, 0), client->pid);
    assert_int_equal(status, 0);
    close(client->fd);
}

static struct rg_rdma_window mint(struct client *client, uint32_t lane, enum rg_direction direction,
                                  uint64_t length, uint64_t seed)
{
    struct request request = {
        .kind = REQUEST_MINT, .lane = lane, .direction = direction, .length = length, .seed = seed};
    struct reply reply;
    struct rg_rdma_window window;
    assert_true(ask(client, &request, &reply));
    if (!reply.ok) {
        print_error("%s\n", reply.message);
    }
    assert_true(reply.ok);
    assert_int_equal(rg_token_parse(rg_span_text(reply.token), &window, NULL), 0);
    assert_int_equal(window.length, length);
    return window;
}

static uint64_t end(struct client *client, uint32_t lane, bool settled)
{
    struct request request = {.kind = REQUEST_END, .lane = lane, .settled = settled};
    struct reply reply;
    assert_true(ask(client, &request, &reply));
    if (!reply.ok) {
        print_error("%s\n", reply.message);
    }
    assert_true(reply.ok);
    assert_true(reply.guards_whole);
    return reply.digest;
}

/* ---- The gateway's side ---- */

struct gateway {
    struct rg_slab *slab;
    struct rg_pool *pool;
};

static void open_gateway(struct gateway *gateway, size_t slots, size_t lanes)
{
    struct rg_slab_config slab = {.slot_bytes = SLOT, .slot_count = slots};
    struct rg_pool_config pool = RG_POOL_CONFIG_INIT;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_slab_open(&slab, &gateway->slab, &err), 0);
    pool.transport = ofi();
    pool.rail = rail_config();
    pool.slab = gateway->slab;
    pool.lanes_max = lanes;
    int rc = rg_pool_open(&pool, &gateway->pool, &err);
    if (rc < 0) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(rc, 0);
}

static void close_gateway(struct gateway *gateway)
{
    struct rg_slab_state slab;
    struct rg_pool_state pool;
    rg_slab_state(gateway->slab, &slab);
    rg_pool_state(gateway->pool, &pool);
    assert_int_equal(slab.slots_in_use, 0);
    assert_int_equal(pool.lanes_leased, 0);
    assert_true(pool.up);
    rg_pool_close(gateway->pool);
    rg_slab_close(gateway->slab);
}

static int make_file(void)
{
    char name[] = "ofi-test-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    return fd;
}

static int file_with(size_t length, uint64_t seed, uint64_t *ret_digest)
{
    int fd = make_file();
    rg_autofree uint8_t *bytes = malloc(length);
    fill(bytes, length, seed);
    assert_int_equal(pwrite(fd, bytes, length, 0), length);
    *ret_digest = digest(bytes, length);
    return fd;
}

static uint64_t digest_file(int fd, size_t length)
{
    rg_autofree uint8_t *bytes = malloc(length);
    assert_int_equal(lseek(fd, 0, SEEK_END), length);
    assert_int_equal(pread(fd, bytes, length, 0), length);
    return digest(bytes, length);
}

static int transfer(struct gateway *gateway, const struct rg_rdma_window *window,
                    enum rg_direction direction, int fd, uint64_t length, uint32_t budget_ms,
                    struct rg_transfer_report *report, struct rg_error *err)
{
    struct rg_lease lease;
    *report = (struct rg_transfer_report){0};
    int rc = rg_pool_lease_for(gateway->pool, window, 20000, &lease, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_transfer work = RG_TRANSFER_INIT;
    work.lane = lease.lane;
    work.disk = lease.disk;
    work.slab = gateway->slab;
    work.window = window;
    work.file.fd = fd;
    work.length = length;
    work.queue_ms = budget_ms;
    work.budget_ms = budget_ms;
    rc = direction == RG_DIRECTION_GET ? rg_pipeline_get(&work, report, err)
                                       : rg_pipeline_put(&work, report, err);
    rg_pool_return(&lease);
    return rc;
}

static void must_move(struct gateway *gateway, struct client *client, uint32_t lane, size_t length,
                      uint64_t seed)
{
    struct rg_transfer_report report;
    struct rg_error err = RG_ERROR_INIT;
    uint64_t expected;
    struct rg_rdma_window window = mint(client, lane, RG_DIRECTION_GET, length, 0);
    rg_autoclose int source = file_with(length, seed, &expected);
    int rc = transfer(gateway, &window, RG_DIRECTION_GET, source, length, 30000, &report, &err);
    if (rc < 0) {
        print_error("GET of %zu bytes: %s\n", length, err.message);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(report.bytes, length);
    assert_int_equal(end(client, lane, true), expected);

    window = mint(client, lane, RG_DIRECTION_PUT, length, seed);
    rg_autoclose int sink = make_file();
    rc = transfer(gateway, &window, RG_DIRECTION_PUT, sink, length, 30000, &report, &err);
    if (rc < 0) {
        print_error("PUT of %zu bytes: %s\n", length, err.message);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(digest_file(sink, length), expected);
    assert_int_equal(end(client, lane, true), expected);
}

static void moves_every_length(void **state)
{
    static const size_t lengths[] = {1,
                                     4095,
                                     4096,
                                     4097,
                                     SLOT - 1,
                                     SLOT,
                                     SLOT + 1,
                                     2 * SLOT - 1,
                                     2 * SLOT + 1,
                                     4 * SLOT,
                                     5 * SLOT + 13,
                                     (size_t)16 << 20,
                                     ((size_t)64 << 20) - 1,
                                     (size_t)64 << 20};
    struct client client;
    struct gateway gateway;
    start_client(&client);
    open_gateway(&gateway, 4, 1);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lengths); i++) {
        must_move(&gateway, &client, 0, lengths[i], i * 7919);
    }
    close_gateway(&gateway);
    stop_client(&client);
}

static void names_the_path(void **state)
{
    struct rg_rail_config config = rail_config();
    struct rg_rail *rail;
    assert_int_equal(rg_rail_open(ofi(), &config, &rail, NULL), 0);
    char expected[32];
    snprintf(expected, sizeof expected, "ofi:%s", provider);
    assert_string_equal(rg_rail_path(rail), expected);
    assert_false(rail->is_hardware);
    assert_true(rail->target_needs_progress);
    assert_false(rail->pins_memory);
    struct sigaction action;
    assert_int_equal(sigaction(SIGTERM, NULL, &action), 0);
    assert_ptr_equal(action.sa_handler, SIG_DFL);
    rg_rail_close(rail);
}

/* An address of this machine can be chosen; another one's, or none at all, is refused at the start.
 */
static void address_is_chosen(void **state)
{
    static const struct {
        const char *address;
        bool good;
    } cases[] = {{"127.0.0.2", true},  {"::1", true},          {"203.0.113.9", false},
                 {"not-an-ip", false}, {"127.0.0.1:9", false}, {"localhost", false}};
    for (size_t i = 0; strcmp(provider, "tcp") == 0 && i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_rail_config config = rail_config();
        struct rg_rail *rail;
        struct rg_lane *lane;
        struct rg_region *region;
        struct rg_target *target;
        struct rg_error err = RG_ERROR_INIT;
        char memory[64];
        snprintf(config.address, sizeof config.address, "%s", cases[i].address);
        int rc = rg_rail_open(ofi(), &config, &rail, &err);
        if (!cases[i].good) {
            if (rc != -RG_SETTING) {
                print_error("%s: %d %s\n", cases[i].address, rc, err.message);
            }
            assert_int_equal(rc, -RG_SETTING);
            assert_non_null(strstr(err.message, cases[i].address));
            continue;
        }
        if (rc < 0 && strchr(cases[i].address, ':')) {
            print_message("[  SKIPPED ] %s: %s\n", cases[i].address, err.message);
            continue; /* a machine without IPv6 */
        }
        assert_int_equal(rc, 0);
        assert_string_equal(rail->address, cases[i].address);
        assert_int_equal(rg_lane_open(rail, &lane, NULL), 0);
        assert_int_equal(
            rg_region_register(rail, memory, sizeof memory, RG_ACCESS_REMOTE_READ, &region, NULL),
            0);
        assert_int_equal(
            rg_window_mint(lane, region, 0, sizeof memory, RG_DIRECTION_PUT, &target, NULL), 0);
        assert_int_equal(target->window.endpoint_len, strchr(cases[i].address, ':') ? 28 : 16);
        assert_int_equal(rg_window_revoke(target, true, NULL), 0);
        rg_region_deregister(region);
        rg_lane_close(lane);
        rg_rail_close(rail);
    }
}

/* A key that is not there, a window longer than what was registered: nothing moves. */
static void refuses_wrong_windows(void **state)
{
    struct client client;
    struct gateway gateway;
    start_client(&client);
    open_gateway(&gateway, 4, 1);
    uint64_t source_digest;
    rg_autoclose int source = file_with(4 * SLOT, 1, &source_digest);
    for (int how = 0; how < 2; how++) {
        for (int is_put = 0; is_put < 2; is_put++) {
            enum rg_direction direction = is_put ? RG_DIRECTION_PUT : RG_DIRECTION_GET;
            struct rg_rdma_window window = mint(&client, 0, direction, SLOT, 5);
            if (how == 0) {
                window.rkey ^= 0x55;
            } else {
                window.length += 1;
            }
            struct rg_transfer_report report;
            struct rg_error err = RG_ERROR_INIT;
            rg_autoclose int sink = make_file();
            uint64_t start = rg_clock_ms();
            int rc = transfer(&gateway, &window, direction, is_put ? sink : source, window.length,
                              400, &report, &err);
            assert_true(rc == -RG_RDMA_TRANSFER_FAILED || rc == -RG_TIMED_OUT);
            assert_in_range(rg_clock_ms() - start, 0, 3000);
            if (how == 0 && is_put) {
                assert_int_equal(lseek(sink, 0, SEEK_END), 0);
            }
            rg_autofree uint8_t *untouched = calloc(1, SLOT);
            if (is_put) {
                fill(untouched, SLOT, 5);
            }
            uint64_t seen = end(&client, 0, false);
            if (how == 0 || is_put) {
                assert_int_equal(seen, digest(untouched, SLOT));
            }
        }
    }
    must_move(&gateway, &client, 0, SLOT + 1, 3);
    close_gateway(&gateway);
    stop_client(&client);
}

/* A window that the client has given up is dead, however late the gateway comes. */
static void revoked_window_is_dead(void **state)
{
    struct client client;
    struct gateway gateway;
    start_client(&client);
    open_gateway(&gateway, 4, 1);
    uint64_t source_digest;
    rg_autoclose int source = file_with(SLOT, 1, &source_digest);
    for (int settled = 0; settled < 2; settled++) {
        struct rg_rdma_window window = mint(&client, 0, RG_DIRECTION_GET, SLOT, 0);
        (void)end(&client, 0, settled);
        struct rg_rdma_window other = mint(&client, 0, RG_DIRECTION_GET, SLOT, 0);
        struct rg_transfer_report report;
        int rc = transfer(&gateway, &window, RG_DIRECTION_GET, source, SLOT, 300, &report, NULL);
        assert_true(rc < 0);
        rg_autofree uint8_t *zeros = calloc(1, SLOT);
        assert_int_equal(end(&client, 0, false), digest(zeros, SLOT));
        (void)other;
    }
    must_move(&gateway, &client, 0, 2 * SLOT, 3);
    close_gateway(&gateway);
    stop_client(&client);
}

struct killer {
    pid_t pid;
    int signal;
    unsigned after_us;
};

static void *run_killer(void *argument)
{
    struct killer *killer = argument;
    usleep(killer->after_us);
    kill(killer->pid, killer->signal);
    return NULL;
}

/* A client that dies at any moment of a transfer: a failure in good time, nothing left over. */
static void dead_peer_does_not_hang(void **state)
{
    struct gateway gateway;
    open_gateway(&gateway, 4, 1);
    size_t length = (size_t)64 << 20;
    uint64_t source_digest;
    rg_autoclose int source = file_with(length, 1, &source_digest);
    rg_autoclose int sink = make_file();
    unsigned ended = 0;
    const char *more = getenv("RG_TEST_KILLS"); /* for a long look */
    unsigned kills = more ? (unsigned)atoi(more) : 24;
    for (unsigned i = 0; i < kills; i++) {
        struct client client;
        start_client(&client);
        enum rg_direction direction = i % 2 ? RG_DIRECTION_PUT : RG_DIRECTION_GET;
        struct rg_rdma_window window = mint(&client, 0, direction, length, 5);
        struct killer killer = {client.pid, SIGKILL, i / 2 % 12 * 10000 + i};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_killer, &killer), 0);
        struct rg_transfer_report report;
        struct rg_error err = RG_ERROR_INIT;
        uint64_t start = rg_clock_ms();
        int rc =
            transfer(&gateway, &window, direction, direction == RG_DIRECTION_GET ? source : sink,
                     length, 8000, &report, &err);
        uint64_t took = rg_clock_ms() - start;
        pthread_join(thread, NULL);
        reap_client(&client);
        if (getenv("RG_TEST_VERBOSE")) {
            print_message("%u: %d in %d ms, touched %d, %zu bytes: %s\n", i, rc, (int)took,
                          report.touched, (size_t)report.bytes, err.message);
        }
        if (rc < 0) {
            ended++;
            assert_int_equal(rc, -RG_RDMA_TRANSFER_FAILED);
        }
        assert_in_range(took, 0, 5000);
    }
    assert_true(ended > 0);
    struct client client;
    start_client(&client);
    must_move(&gateway, &client, 0, 2 * SLOT, 3);
    stop_client(&client);
    close_gateway(&gateway);
}

/* A client that stands still: the budget ends the transfer; what it does when it goes on again must
 * not reach memory that others use by then. */
static void stopped_peer_runs_into_the_budget(void **state)
{
    struct gateway gateway;
    open_gateway(&gateway, 4, 1);
    size_t length = (size_t)32 << 20;
    uint64_t source_digest;
    rg_autoclose int source = file_with(length, 1, &source_digest);
    for (int is_put = 0; is_put < 2; is_put++) {
        struct client stopped, lively;
        start_client(&stopped);
        start_client(&lively);
        enum rg_direction direction = is_put ? RG_DIRECTION_PUT : RG_DIRECTION_GET;
        struct rg_rdma_window window = mint(&stopped, 0, direction, length, 5);
        struct killer killer = {stopped.pid, SIGSTOP, 3000};
        pthread_t thread;
        rg_autoclose int sink = make_file();
        assert_int_equal(pthread_create(&thread, NULL, run_killer, &killer), 0);
        struct rg_transfer_report report;
        struct rg_error err = RG_ERROR_INIT;
        uint64_t start = rg_clock_ms();
        int rc = transfer(&gateway, &window, direction, is_put ? sink : source, length, 500,
                          &report, &err);
        pthread_join(thread, NULL);
        assert_in_range(rg_clock_ms() - start, 0, 4000);
        if (rc < 0) {
            assert_int_equal(rc, -RG_TIMED_OUT);
            struct rg_slab_state slab;
            rg_slab_state(gateway.slab, &slab);
            assert_true((report.quiet & RG_QUIET_LOCAL) || slab.condemnations > 0);
        }
        kill(stopped.pid, SIGCONT);
        for (int i = 0; i < 4; i++) {
            must_move(&gateway, &lively, 0, 4 * SLOT, 11);
        }
        (void)end(&stopped, 0, false);
        must_move(&gateway, &stopped, 0, SLOT, 4);
        stop_client(&stopped);
        stop_client(&lively);
    }
    close_gateway(&gateway);
}

struct worker {
    struct gateway *gateway;
    struct client *client;
    uint32_t lane;
    pthread_t thread;
    char trouble[256];
};

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    size_t length = 3 * SLOT + worker->lane * 1001;
    for (int i = 0; i < 4; i++) {
        bool is_put = (i + worker->lane) % 2;
        enum rg_direction direction = is_put ? RG_DIRECTION_PUT : RG_DIRECTION_GET;
        uint64_t expected;
        rg_autoclose int source = file_with(length, worker->lane, &expected);
        rg_autoclose int sink = make_file();
        struct rg_rdma_window window =
            mint(worker->client, worker->lane, direction, length, worker->lane);
        struct rg_transfer_report report;
        struct rg_error err = RG_ERROR_INIT;
        int rc = transfer(worker->gateway, &window, direction, is_put ? sink : source, length,
                          60000, &report, &err);
        uint64_t seen = end(worker->client, worker->lane, rc == 0);
        if (rc < 0) {
            snprintf(worker->trouble, sizeof worker->trouble, "%.200s", err.message);
            return NULL;
        }
        if (seen != expected || (is_put && digest_file(sink, length) != expected)) {
            snprintf(worker->trouble, sizeof worker->trouble, "lane %u: the bytes differ",
                     worker->lane);
            return NULL;
        }
    }
    return NULL;
}

static void many_transfers_share_few_slots(void **state)
{
    struct client clients[2];
    struct gateway gateway;
    start_client(&clients[0]);
    start_client(&clients[1]);
    open_gateway(&gateway, 6, 16);
    static struct worker workers[64];
    for (uint32_t i = 0; i < RG_ARRAY_LENGTH(workers); i++) {
        workers[i] = (struct worker){.gateway = &gateway, .client = &clients[i % 2], .lane = i / 2};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(workers); i++) {
        pthread_join(workers[i].thread, NULL);
        assert_string_equal(workers[i].trouble, "");
    }
    struct rg_slab_state slab;
    rg_slab_state(gateway.slab, &slab);
    assert_int_equal(slab.condemnations, 0);
    close_gateway(&gateway);
    stop_client(&clients[0]);
    stop_client(&clients[1]);
}

/* Many clients in turn on one lane: more than it keeps addresses for. */
static void many_clients_in_turn(void **state)
{
    struct gateway gateway;
    open_gateway(&gateway, 2, 1);
    struct client client;
    start_client(&client);
    for (uint32_t i = 0; i < 40; i++) {
        must_move(&gateway, &client, i % 20, 1000 + i, i);
    }
    /* And many windows on one of the client's lanes: more than a shm endpoint is kept for. */
    for (uint32_t i = 0; i < 80; i++) {
        must_move(&gateway, &client, 0, 1000 + i, i);
    }
    close_gateway(&gateway);
    stop_client(&client);
}

/* A target in the gateway's own process. */
struct own {
    struct rg_rail *rail;
    struct rg_lane *lane;
    struct rg_region *region;
    uint8_t *memory;
    size_t length;
};

static void open_own(struct own *own, size_t length)
{
    struct rg_rail_config config = rail_config();
    *own = (struct own){.memory = calloc(1, length), .length = length};
    assert_int_equal(rg_rail_open(ofi(), &config, &own->rail, NULL), 0);
    assert_int_equal(rg_lane_open(own->rail, &own->lane, NULL), 0);
    assert_int_equal(rg_region_register(own->rail, own->memory, length, RG_ACCESS_REMOTE_WRITE,
                                        &own->region, NULL),
                     0);
}

static void close_own(struct own *own)
{
    rg_region_deregister(own->region);
    rg_lane_close(own->lane);
    rg_rail_close(own->rail);
    free(own->memory);
}

static struct rg_target *mint_own(struct own *own)
{
    struct rg_target *target;
    assert_int_equal(
        rg_window_mint(own->lane, own->region, 0, own->length, RG_DIRECTION_GET, &target, NULL), 0);
    return target;
}

/* A file of that seed goes to the target whole. */
static void must_get_own(struct gateway *gateway, struct own *own, uint64_t seed)
{
    struct rg_progress *progress;
    struct rg_transfer_report report;
    uint64_t expected;
    rg_autoclose int source = file_with(own->length, seed, &expected);
    struct rg_target *target = mint_own(own);
    struct rg_rdma_window window = target->window;
    assert_int_equal(rg_progress_start(own->lane, &progress, NULL), 0);
    assert_int_equal(
        transfer(gateway, &window, RG_DIRECTION_GET, source, own->length, 10000, &report, NULL), 0);
    assert_int_equal(rg_progress_stop(progress, NULL), 0);
    assert_int_equal(rg_window_revoke(target, true, NULL), 0);
    assert_int_equal(digest(own->memory, own->length), expected);
}

/* Gateway and client in one process. */
static void moves_between_threads(void **state)
{
    struct gateway gateway;
    struct own own;
    open_gateway(&gateway, 4, 1);
    open_own(&own, 5 * SLOT + 1);
    for (uint64_t i = 0; i < 3; i++) {
        struct rg_target *target;
        /* Not allowed in this direction. */
        assert_int_equal(
            rg_window_mint(own.lane, own.region, 0, own.length, RG_DIRECTION_PUT, &target, NULL),
            -RG_INVALID_ARGUMENT);
        assert_int_equal(rg_window_mint(own.lane, own.region, 0, own.length + 1, RG_DIRECTION_GET,
                                        &target, NULL),
                         -RG_INVALID_ARGUMENT);
        must_get_own(&gateway, &own, i);
    }
    close_gateway(&gateway);
    close_own(&own);
}

/* One lane of the gateway and more targets, in turn, than a shm endpoint has numbers for. */
static void more_targets_than_numbers(void **state)
{
    if (strcmp(provider, "shm") != 0) {
        return;
    }
    struct gateway gateway;
    struct own own;
    open_gateway(&gateway, 2, 1);
    open_own(&own, 10001);
    for (uint64_t i = 0; i < 300; i++) {
        assert_int_equal(rg_lane_reset(own.lane, NULL), 0);
        must_get_own(&gateway, &own, i);
    }
    close_gateway(&gateway);
    close_own(&own);
}

/* Good tokens, and addresses that can be no one's here. */
static void declines_useless_addresses(struct gateway *gateway, struct rg_rdma_window *window,
                                       int sink)
{
    static const struct {
        size_t len;
        int rc;
        uint8_t name[28];
    } cases[] = {
        {16, -RG_RDMA_TRANSFER_FAILED, {2, 0, 0, 0, 127, 0, 0, 1}},       /* port 0 */
        {16, -RG_RDMA_TRANSFER_FAILED, {2, 0, 0x4e, 0x20}},               /* any */
        {16, -RG_RDMA_TRANSFER_FAILED, {2, 0, 0x4e, 0x20, 224, 0, 0, 1}}, /* multicast */
        {16, -RG_RDMA_TRANSFER_FAILED, {2, 0, 0x4e, 0x20, 255, 255, 255, 255}},
        {28, -RG_RDMA_NOT_SUPPORTED, {10, 0, 0x4e, 0x20, [23] = 1}}, /* ::1 */
        {28, -RG_RDMA_NOT_SUPPORTED, {10, 0, 0x4e, 0x20}},           /* :: */
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_transfer_report report;
        memset(window->endpoint, 0, sizeof window->endpoint);
        window->endpoint_len = cases[i].len;
        memcpy(window->endpoint, cases[i].name, cases[i].len);
        assert_int_equal(transfer(gateway, window, RG_DIRECTION_PUT, sink, 10, 300, &report, NULL),
                         cases[i].rc);
        assert_false(report.touched);
    }
}

static void refuses_hostile_names(void **state)
{
    struct gateway gateway;
    open_gateway(&gateway, 2, 1);
    static const char *const shm_names[] = {
        "x",
        "../../etc/passwd",
        "/railgate-t-0123456789abcdef0123456789abcdef",
        "railgate-t-0123456789abcdef0123456789abcdeg",
        "railgate-i-0123456789abcdef0123456789abcdef",
        "fi_shm://1:0:0",
        "railgate-t-0123456789abcdef0123456789abcdef0",
    };
    static const uint8_t ip_names[][16] = {
        {0}, {10, 0, 0x4e, 0x20, 127, 0, 0, 1}, /* another family, and the length of this one */
    };
    bool is_shm = strcmp(provider, "shm") == 0;
    size_t count = is_shm ? RG_ARRAY_LENGTH(shm_names) : RG_ARRAY_LENGTH(ip_names);
    struct rg_rdma_window window = {.dialect = RG_DIALECT_OFI1,
                                    .transport = RG_TRANSPORT_OFI,
                                    .address = 4096,
                                    .length = 10,
                                    .rkey = 1};
    snprintf(window.provider, sizeof window.provider, "%s", is_shm ? "shm" : "tcp;ofi_rxm");
    rg_autoclose int sink = make_file();
    for (size_t i = 0; i < count; i++) {
        memset(window.endpoint, 0, sizeof window.endpoint);
        window.endpoint_len = is_shm ? strlen(shm_names[i]) + 1 : 16;
        memcpy(window.endpoint, is_shm ? (const void *)shm_names[i] : (const void *)ip_names[i],
               window.endpoint_len);
        struct rg_transfer_report report;
        assert_int_equal(
            transfer(&gateway, &window, RG_DIRECTION_PUT, sink, 10, 300, &report, NULL),
            -RG_INVALID_RDMA_TOKEN);
        assert_false(report.touched);
    }
    window.endpoint_len = is_shm ? RG_OFI_NAME_MAX : 15;
    struct rg_transfer_report report;
    assert_int_equal(transfer(&gateway, &window, RG_DIRECTION_PUT, sink, 10, 300, &report, NULL),
                     -RG_INVALID_RDMA_TOKEN);
    if (!is_shm) {
        declines_useless_addresses(&gateway, &window, sink);
    }
    /* Well formed, but nobody is there. */
    if (is_shm) {
        strcpy((char *)window.endpoint, "railgate-t-0123456789abcdef0123456789abcdef");
        window.endpoint_len = strlen((char *)window.endpoint) + 1;
    } else {
        static const uint8_t nobody[16] = {2, 0, 0, 1, 127, 0, 0, 1};
        memcpy(window.endpoint, nobody, 16);
        window.endpoint_len = 16;
    }
    uint64_t start = rg_clock_ms();
    assert_int_equal(transfer(&gateway, &window, RG_DIRECTION_PUT, sink, 10, 8000, &report, NULL),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_false(report.touched);
    assert_in_range(rg_clock_ms() - start, 0, 5000);
    /* Another provider's token. */
    snprintf(window.provider, sizeof window.provider, "psm2");
    assert_int_equal(transfer(&gateway, &window, RG_DIRECTION_PUT, sink, 10, 300, &report, NULL),
                     -RG_RDMA_NOT_SUPPORTED);
    close_gateway(&gateway);
}

static unsigned count_shm_files(const char *only)
{
    unsigned count = 0;
    rg_autoclosedir DIR *directory = opendir("/dev/shm");
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        count += strncmp(entry->d_name, only, strlen(only)) == 0;
    }
    return count;
}

/* The provider's file of 16 MiB holds few pages once it is made, and a lane gets new ones in time.
 */
static void endpoints_are_small_and_renewed(void **state)
{
    if (strcmp(provider, "shm") != 0) {
        return;
    }
    struct own own;
    char first[128] = "", last[128] = "";
    open_own(&own, 64);
    for (int i = 0; i < 256; i++) {
        struct rg_target *target = mint_own(&own);
        snprintf(last, sizeof last, "/dev/shm/%.*s", (int)target->window.endpoint_len,
                 (const char *)target->window.endpoint);
        if (i == 0) {
            memcpy(first, last, sizeof first);
        }
        struct stat facts;
        assert_int_equal(stat(last, &facts), 0);
        assert_true(facts.st_blocks * 512 < 1 << 20);
        assert_int_equal(rg_window_revoke(target, true, NULL), 0);
    }
    assert_string_not_equal(first, last);
    assert_int_equal(access(first, F_OK), -1);
    close_own(&own);
}

/* What a killed process leaves in /dev/shm goes when the next rail opens; a live one's stays. */
static void leftovers_are_removed(void **state)
{
    if (strcmp(provider, "shm") != 0) {
        return;
    }
    struct client dead, alive;
    struct gateway gateway;
    start_client(&dead);
    start_client(&alive);
    struct rg_rdma_window gone = mint(&dead, 0, RG_DIRECTION_GET, 10, 0);
    struct rg_rdma_window stays = mint(&alive, 0, RG_DIRECTION_GET, 10, 0);
    kill(dead.pid, SIGKILL);
    reap_client(&dead);
    const char *const names[] = {(char *)gone.endpoint, (char *)stays.endpoint};
    for (int i = 0; i < 2; i++) {
        char path[300];
        struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        snprintf(path, sizeof path, "/dev/shm/%s", names[i]);
        assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
    open_gateway(&gateway, 1, 1);
    assert_int_equal(count_shm_files(names[0]), 0);
    assert_int_equal(count_shm_files(names[1]), 1);
    close_gateway(&gateway);
    (void)end(&alive, 0, true);
    stop_client(&alive);
    assert_int_equal(count_shm_files(names[1]), 0);
}

static int skip_all(const char *reason)
{
    print_message("[  SKIPPED ] ofi over %s: %s\n", provider, reason);
    return 0;
}

static int run_provider(const char *name)
{
    provider = name;
    if (!ofi()) {
        return skip_all("this build has no libfabric headers");
    }
    struct rg_rail_config config = rail_config();
    struct rg_rail *rail;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_rail_open(ofi(), &config, &rail, &err) < 0) {
        return skip_all(err.message);
    }
    rg_rail_close(rail);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_path),
        cmocka_unit_test(address_is_chosen),
        cmocka_unit_test(moves_every_length),
        cmocka_unit_test(moves_between_threads),
        cmocka_unit_test(many_clients_in_turn),
        cmocka_unit_test(more_targets_than_numbers),
        cmocka_unit_test(refuses_wrong_windows),
        cmocka_unit_test(revoked_window_is_dead),
        cmocka_unit_test(refuses_hostile_names),
        cmocka_unit_test(leftovers_are_removed),
        cmocka_unit_test(endpoints_are_small_and_renewed),
        cmocka_unit_test(dead_peer_does_not_hang),
        cmocka_unit_test(stopped_peer_runs_into_the_budget),
        cmocka_unit_test(many_transfers_share_few_slots),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    int failed = 0;
    const char *only = getenv("RG_TEST_ONLY"); /* a pattern */
    if (only) {
        cmocka_set_test_filter(only);
    }
    if (argc < 2 || strcmp(argv[1], "tcp") == 0) {
        failed += run_provider("tcp");
    }
    if (argc < 2 || strcmp(argv[1], "shm") == 0) {
        failed += run_provider("shm");
    }
    return failed;
}
