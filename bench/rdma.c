/*
 * Measures the RDMA data plane over libfabric's shm and tcp providers, gateway and clients on this
 * machine: one gateway process with a thread a transfer, one process a client. One run, one table.
 *
 *   bench-rdma [--dir DIR] [--quick] [--slots N] [--slot-kib N] [--direct] [--overlap]
 *
 * Every figure that matters is a ratio within the run:
 *   overlap   wall time of a transfer over the larger of file alone and wire alone: 1.00 is perfect
 *             overlap, the sum of both is none
 *   scaling   throughput of all clients over that of one
 *   per CPU   bytes per CPU-second, both ends together, over those of a plain socket that
 *             carries the same file with pread, send and recv: what HTTP costs at the least
 * Files come from the page cache unless --direct is given and DIR's file system takes O_DIRECT.
 */
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "rdma/deposit.h"
#include "rdma/lane.h"
#include "rdma/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS_MAX   64
#define MEMORY_BUDGET ((uint64_t)2 << 30) /* of all clients' buffers together */

static struct {
    const char *directory;
    bool quick, direct, overlap_only;
    size_t slots, slot_bytes;
} options = {.directory = ".", .slots = 64, .slot_bytes = 1 << 20};

static void die(const char *what, const struct rg_error *err)
{
    fprintf(stderr, "bench-rdma: %s: %s\n", what, err ? err->message : strerror(errno));
    exit(1);
}

static double cpu_seconds(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(rg_clock_ns() - start_ns) / 1e9;
}

static void *map(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        die("mmap", NULL);
    }
    memset(memory, 0x5a, bytes);
    return memory;
}

static int make_file(uint64_t bytes)
{
    char name[4200];
    snprintf(name, sizeof name, "%s/bench-rdma-XXXXXX", options.directory);
    int fd = mkstemp(name);
    if (fd < 0) {
        die(name, NULL);
    }
    unlink(name);
    rg_autofree char *block = calloc(1, 1 << 20);
    for (uint64_t done = 0; bytes > done; done += 1 << 20) {
        size_t piece = (size_t)RG_MIN(bytes - done, (uint64_t)1 << 20);
        memset(block, (int)(done >> 20), piece);
        if (pwrite(fd, block, piece, (off_t)done) != (ssize_t)piece) {
            die("cannot write the file", NULL);
        }
    }
    return fd;
}

static struct rg_file open_file(int fd)
{
    struct rg_file file = {.fd = fd, .direct_fd = -1, .direct_align = 4096};
    if (options.direct) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        file.direct_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
        (void)fdatasync(fd);
    }
    return file;
}

static void close_file(struct rg_file *file)
{
    close(file->fd);
    if (file->direct_fd >= 0) {
        close(file->direct_fd);
    }
}

/* ---- A client ---- */

struct order {
    enum rg_direction direction;
    uint64_t length; /* 0: report and end */
    unsigned rounds;
};

struct client {
    pid_t pid;
    int fd;
};

static void run_client(const char *provider, int fd)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    struct rg_rail *rail;
    struct rg_lane *lane;
    struct order order;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(config.device, sizeof config.device, "%s", provider);
    const struct rg_transport *ofi = rg_transport_find(RG_TRANSPORT_OFI);
    if (rg_rail_open(ofi, &config, &rail, &err) < 0 || rg_lane_open(rail, &lane, &err) < 0) {
        die(provider, &err);
    }
    while (recv(fd, &order, sizeof order, MSG_WAITALL) == sizeof order && order.length) {
        void *memory = map(order.length);
        struct rg_region *region;
        if (rg_region_register(rail, memory, order.length,
                               RG_ACCESS_REMOTE_READ | RG_ACCESS_REMOTE_WRITE, &region, &err) < 0) {
            die("register", &err);
        }
        char go = 'r';
        (void)!write(fd, &go, 1);
        (void)!read(fd, &go, 1);
        double cpu = cpu_seconds(RUSAGE_SELF);
        for (unsigned i = 0; i < order.rounds; i++) {
            struct rg_target *target;
            struct rg_progress *progress;
            if (rg_window_mint(lane, region, 0, order.length, order.direction, &target, &err) < 0 ||
                rg_progress_start(lane, &progress, &err) < 0) {
                die("mint", &err);
            }
            (void)!write(fd, &target->window, sizeof target->window);
            if (read(fd, &go, 1) != 1 || rg_progress_stop(progress, &err) < 0 ||
                rg_window_revoke(target, true, &err) < 0) {
                die("transfer", &err);
            }
        }
        cpu = cpu_seconds(RUSAGE_SELF) - cpu;
        (void)!write(fd, &cpu, sizeof cpu);
        rg_region_deregister(region);
        munmap(memory, order.length);
    }
    _exit(0);
}

static void start_clients(const char *provider, struct client *clients, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
            die("socketpair", NULL);
        }
        clients[i] = (struct client){.pid = fork(), .fd = fds[0]};
        if (clients[i].pid == 0) {
            close(fds[0]);
            run_client(provider, fds[1]);
        }
        close(fds[1]);
    }
}

static void end_clients(struct client *clients, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct order end = {0};
        (void)!write(clients[i].fd, &end, sizeof end);
        close(clients[i].fd);
        waitpid(clients[i].pid, NULL, 0);
    }
}

/* ---- The gateway ---- */

struct gateway {
    struct rg_slab *slab;
    struct rg_pool *pool;
};

static bool open_gateway(const char *provider, struct gateway *gateway)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_slab_config slab = {
        .slot_bytes = options.slot_bytes, .slot_count = options.slots, .huge_pages = true};
    struct rg_pool_config pool = RG_POOL_CONFIG_INIT;
    pool.transport = rg_transport_find(RG_TRANSPORT_OFI);
    snprintf(pool.rail.device, sizeof pool.rail.device, "%s", provider);
    if (rg_slab_open(&slab, &gateway->slab, &err) < 0) {
        die("slab", &err);
    }
    pool.slab = gateway->slab;
    pool.lanes_max = CLIENTS_MAX;
    if (!pool.transport || rg_pool_open(&pool, &gateway->pool, &err) < 0) {
        printf("ofi:%s is not available here: %s\n", provider, err.message);
        rg_slab_close(gateway->slab);
        return false;
    }
    return true;
}

static void close_gateway(struct gateway *gateway)
{
    rg_pool_close(gateway->pool);
    rg_slab_close(gateway->slab);
}

struct worker {
    struct gateway *gateway;
    struct client *client;
    struct order order;
    struct rg_file file;
    pthread_t thread;
    struct rg_transfer_report sum;
    double client_cpu;
};

static void move_one(struct worker *worker)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_rdma_window window;
    struct rg_lease lease;
    struct rg_transfer_report report;
    if (recv(worker->client->fd, &window, sizeof window, MSG_WAITALL) != sizeof window) {
        die("client", NULL);
    }
    if (rg_pool_lease_for(worker->gateway->pool, &window, 60000, &lease, &err) < 0) {
        die("lease", &err);
    }
    struct rg_transfer transfer = RG_TRANSFER_INIT;
    transfer.lane = lease.lane;
    transfer.disk = lease.disk;
    transfer.slab = worker->gateway->slab;
    transfer.window = &window;
    transfer.file = worker->file;
    transfer.length = worker->order.length;
    transfer.queue_ms = 60000;
    transfer.budget_ms = 120000;
    int rc = worker->order.direction == RG_DIRECTION_GET
                 ? rg_pipeline_get(&transfer, &report, &err)
                 : rg_pipeline_put(&transfer, &report, &err);
    if (rc < 0) {
        die("transfer", &err);
    }
    rg_pool_return(&lease);
    worker->sum.bytes += report.bytes;
    worker->sum.wall_ns += report.wall_ns;
    worker->sum.disk_ns += report.disk_ns;
    worker->sum.wire_ns += report.wire_ns;
    worker->sum.slot_wait_ns += report.slot_wait_ns;
    char done = 'd';
    (void)!write(worker->client->fd, &done, 1);
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    for (unsigned i = 0; i < worker->order.rounds; i++) {
        move_one(worker);
    }
    if (read(worker->client->fd, &worker->client_cpu, sizeof worker->client_cpu) !=
        sizeof worker->client_cpu) {
        die("client", NULL);
    }
    return NULL;
}

struct result {
    double rate;    /* bytes a second, all clients */
    double per_cpu; /* bytes a CPU-second, both ends */
};

static struct result run_cell(struct gateway *gateway, struct client *clients, unsigned count,
                              enum rg_direction direction, uint64_t length, unsigned rounds)
{
    static struct worker workers[CLIENTS_MAX];
    char byte = 'g';
    for (unsigned i = 0; i < count; i++) {
        struct order order = {.direction = direction, .length = length, .rounds = rounds};
        workers[i] = (struct worker){.gateway = gateway, .client = &clients[i], .order = order};
        workers[i].file = open_file(make_file(length));
        (void)!write(clients[i].fd, &order, sizeof order);
        (void)!read(clients[i].fd, &byte, 1);
    }
    double cpu = cpu_seconds(RUSAGE_SELF);
    uint64_t start = rg_clock_ns();
    for (unsigned i = 0; i < count; i++) {
        (void)!write(clients[i].fd, &byte, 1);
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i])) {
            die("thread", NULL);
        }
    }
    double bytes = 0;
    double client_cpu = 0;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        bytes += (double)workers[i].sum.bytes;
        client_cpu += workers[i].client_cpu;
    }
    double took = seconds_since(start);
    cpu = cpu_seconds(RUSAGE_SELF) - cpu + client_cpu;
    for (unsigned i = 0; i < count; i++) {
        close_file(&workers[i].file);
    }
    return (struct result){.rate = bytes / took, .per_cpu = bytes / cpu};
}

/* ---- Each half alone ---- */

/* The file side: the same pieces, the same ring, no network. */
static double file_alone(struct gateway *gateway, const struct rg_file *file, bool is_put,
                         uint64_t length)
{
    struct rg_slot slots[RG_TRANSFER_SLOTS_DEFAULT];
    struct rg_disk *disk;
    size_t count;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_slab_lease(gateway->slab, RG_TRANSFER_SLOTS_DEFAULT, RG_TRANSFER_SLOTS_DEFAULT, 1000,
                      slots, &count, &err) < 0 ||
        rg_disk_open(RG_TRANSFER_SLOTS_DEFAULT, true, &disk, &err) < 0) {
        die("file alone", &err);
    }
    uint64_t start = rg_clock_ns();
    uint64_t started = 0;
    uint64_t ended = 0;
    unsigned unused = (1u << count) - 1;
    while (ended < length) {
        while (started < length && unused) {
            unsigned slot = (unsigned)__builtin_ctz(unused);
            size_t piece = (size_t)RG_MIN(length - started, (uint64_t)options.slot_bytes);
            unused &= unused - 1;
            if (is_put) {
                rg_disk_write(disk, file, started, slots[slot].address, piece, slot);
            } else {
                rg_disk_read(disk, file, started, slots[slot].address, piece, slots[slot].bytes,
                             slot);
            }
            started += piece;
        }
        rg_disk_submit(disk);
        struct rg_disk_done done[RG_TRANSFER_SLOTS_DEFAULT];
        size_t reaped = rg_disk_reap(disk, done, RG_ARRAY_LENGTH(done));
        for (size_t i = 0; i < reaped; i++) {
            ended += done[i].bytes;
            unused |= 1u << done[i].cookie;
        }
        if (reaped == 0) {
            rg_disk_wait(disk, 1000);
        }
    }
    double took = seconds_since(start);
    rg_disk_close(disk);
    rg_slab_return(gateway->slab, slots, count);
    return took;
}

/* The network side: the same pieces from the same slots, no file. */
static double wire_alone(struct gateway *gateway, const struct rg_rdma_window *window, bool is_put)
{
    struct rg_slot slots[RG_TRANSFER_SLOTS_DEFAULT];
    struct rg_lease lease;
    size_t count;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_pool_lease(gateway->pool, 1000, &lease, &err) < 0 ||
        rg_lane_bind(lease.lane, window, &err) < 0 ||
        rg_slab_lease(gateway->slab, RG_TRANSFER_SLOTS_DEFAULT, RG_TRANSFER_SLOTS_DEFAULT, 1000,
                      slots, &count, &err) < 0) {
        die("wire alone", &err);
    }
    struct rg_region *region = rg_slab_region(gateway->slab);
    uint64_t start = rg_clock_ns();
    uint64_t started = 0;
    uint64_t ended = 0;
    unsigned unused = (1u << count) - 1;
    while (ended < window->length) {
        int rc = 0;
        while (started < window->length && unused && rc == 0) {
            unsigned slot = (unsigned)__builtin_ctz(unused);
            uint64_t piece = RG_MIN(window->length - started, (uint64_t)options.slot_bytes);
            rc = is_put ? rg_lane_read(lease.lane, region, slots[slot].region_offset, started,
                                       piece, slot, &err)
                        : rg_lane_write(lease.lane, region, slots[slot].region_offset, started,
                                        piece, slot, &err);
            if (rc == 0) {
                unused &= unused - 1;
                started += piece;
            }
        }
        if (rc < 0 && rc != -RG_LIMIT) {
            die("wire alone", &err);
        }
        struct rg_completion done[RG_TRANSFER_SLOTS_DEFAULT];
        size_t reaped = 0;
        rc = rg_lane_wait(lease.lane, done, RG_ARRAY_LENGTH(done), -1,
                          lease.lane->outstanding ? 1000 : 1, &reaped, &err);
        if (rc < 0 && rc != -RG_TIMED_OUT) {
            die("wire alone", &err);
        }
        for (size_t i = 0; rc == 0 && i < reaped; i++) {
            ended += done[i].length;
            unused |= 1u << done[i].cookie;
        }
    }
    double took = seconds_since(start);
    rg_pool_return(&lease);
    rg_slab_return(gateway->slab, slots, count);
    return took;
}

static void print_overlap(struct gateway *gateway, const char *provider, struct client *client,
                          bool is_put)
{
    uint64_t length = options.quick ? (uint64_t)128 << 20 : (uint64_t)1 << 30;
    unsigned rounds = 5;
    struct rg_file file = open_file(make_file(length));
    struct order order = {.direction = is_put ? RG_DIRECTION_PUT : RG_DIRECTION_GET,
                          .length = length,
                          .rounds = 2 * rounds};
    char byte;
    double best_file = 1e9;
    double best_wire = 1e9;
    double best_wall = 1e9;
    struct worker worker = {.gateway = gateway, .client = client, .order = order, .file = file};
    (void)!write(client->fd, &order, sizeof order);
    (void)!read(client->fd, &byte, 1);
    (void)!write(client->fd, &byte, 1);
    /* The best of several, turn by turn, so that what disturbs one kind disturbs the others. */
    for (unsigned i = 0; i < rounds; i++) {
        struct rg_rdma_window window;
        if (recv(client->fd, &window, sizeof window, MSG_WAITALL) != sizeof window) {
            die("client", NULL);
        }
        double took = wire_alone(gateway, &window, is_put);
        best_wire = RG_MIN(best_wire, took);
        (void)!write(client->fd, &byte, 1);
        took = file_alone(gateway, &file, is_put, length);
        best_file = RG_MIN(best_file, took);
        uint64_t before = worker.sum.wall_ns;
        move_one(&worker);
        took = (double)(worker.sum.wall_ns - before) / 1e9;
        best_wall = RG_MIN(best_wall, took);
    }
    double cpu;
    (void)!read(client->fd, &cpu, sizeof cpu);
    double larger = best_file > best_wire ? best_file : best_wire;
    printf("  ofi:%-4s %-3s %6" PRIu64 " MiB   file %7.2f   wire %7.2f   both %7.2f GB/s   "
           "overlap %.2f (none would be %.2f)\n",
           provider, is_put ? "PUT" : "GET", length >> 20, (double)length / best_file / 1e9,
           (double)length / best_wire / 1e9, (double)length / best_wall / 1e9, best_wall / larger,
           (best_file + best_wire) / larger);
    close_file(&file);
}

/* ---- Bytes that came as a whole: file and checksum ---- */

static int add_up(void *context, struct span bytes, struct rg_error *err)
{
    uint64_t *sum = context;
    (void)err;
    for (size_t i = 0; i < bytes.len; i++) {
        *sum = (*sum ^ (unsigned char)bytes.ptr[i]) * 0x100000001b3u;
    }
    return 0;
}

static double deposit_once(const struct rg_deposit *deposit)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_deposit_report report;
    uint64_t start = rg_clock_ns();
    if (rg_deposit_run(deposit, &report, &err) < 0) {
        die("deposit", &err);
    }
    return seconds_since(start);
}

static void print_deposit(void)
{
    uint64_t length = options.quick ? (uint64_t)64 << 20 : (uint64_t)512 << 20;
    void *memory = map(length);
    struct rg_file file = open_file(make_file(length));
    uint64_t sum = 0;
    double best_file = 1e9;
    double best_sum = 1e9;
    double best_wall = 1e9;
    struct rg_deposit deposit = {
        .bytes = rg_span(memory, length), .file = file, .allow_uring = true};
    for (unsigned i = 0; i < 5; i++) {
        deposit.consume = NULL;
        best_file = RG_MIN(best_file, deposit_once(&deposit));
        uint64_t start = rg_clock_ns();
        (void)add_up(&sum, deposit.bytes, NULL);
        best_sum = RG_MIN(best_sum, seconds_since(start));
        deposit.consume = add_up;
        deposit.consume_context = &sum;
        best_wall = RG_MIN(best_wall, deposit_once(&deposit));
    }
    double larger = RG_MAX(best_file, best_sum);
    printf("  hipobj-rc-v2 PUT, when all is there: %" PRIu64 " MiB   file %.2f   checksum %.2f   "
           "both %.2f GB/s   overlap %.2f (none would be %.2f)\n",
           length >> 20, (double)length / best_file / 1e9, (double)length / best_sum / 1e9,
           (double)length / best_wall / 1e9, best_wall / larger, (best_file + best_sum) / larger);
    close_file(&file);
    munmap(memory, length);
}

/* ---- What a socket costs ---- */

static struct result run_socket(uint64_t length, unsigned rounds)
{
    int fds[2];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage address = {.ss_family = AF_INET};
    socklen_t size = sizeof address;
    ((unsigned char *)&address)[4] = 127;
    ((unsigned char *)&address)[7] = 1;
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, 16) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
        connect(fds[0], (struct sockaddr *)&address, 16) < 0 ||
        (fds[1] = accept(listener, NULL, NULL)) < 0) {
        die("socket", NULL);
    }
    close(listener);
    struct rusage before;
    getrusage(RUSAGE_CHILDREN, &before);
    double children = cpu_seconds(RUSAGE_CHILDREN);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        char *memory = map(length);
        for (unsigned i = 0; i < rounds; i++) {
            for (uint64_t done = 0; done < length;) {
                ssize_t got = recv(fds[1], memory + done, length - done, 0);
                if (got <= 0) {
                    _exit(1);
                }
                done += (uint64_t)got;
            }
        }
        _exit(0);
    }
    close(fds[1]);
    int file = make_file(length);
    rg_autofree char *block = malloc(options.slot_bytes);
    double cpu = cpu_seconds(RUSAGE_SELF);
    uint64_t start = rg_clock_ns();
    for (unsigned i = 0; i < rounds; i++) {
        for (uint64_t done = 0; done < length;) {
            ssize_t got = pread(file, block, options.slot_bytes, (off_t)done);
            for (ssize_t sent = 0; sent < got;) {
                ssize_t now = send(fds[0], block + sent, (size_t)(got - sent), MSG_NOSIGNAL);
                if (now <= 0) {
                    die("send", NULL);
                }
                sent += now;
            }
            done += (uint64_t)got;
        }
    }
    int status;
    waitpid(pid, &status, 0);
    double took = seconds_since(start);
    cpu = cpu_seconds(RUSAGE_SELF) - cpu + cpu_seconds(RUSAGE_CHILDREN) - children;
    close(fds[0]);
    close(file);
    double bytes = (double)length * rounds;
    return (struct result){.rate = bytes / took, .per_cpu = bytes / cpu};
}

/* ---- The table ---- */

static unsigned choose_rounds(uint64_t length, unsigned clients)
{
    uint64_t wanted = options.quick ? (uint64_t)256 << 20 : (uint64_t)2 << 30;
    uint64_t rounds = RG_MIN(wanted / (length * clients), (uint64_t)4096 / clients);
    return (unsigned)RG_MAX(rounds, (uint64_t)2);
}

static void print_cells(struct gateway *gateway, const char *provider, struct client *clients,
                        double socket_per_cpu)
{
    static const uint64_t lengths[] = {64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30};
    static const unsigned counts[] = {1, 4, 16, 64};
    for (int is_put = 0; is_put < 2; is_put++) {
        for (size_t i = 0; i < RG_ARRAY_LENGTH(lengths); i++) {
            double one = 0;
            for (size_t j = 0; j < RG_ARRAY_LENGTH(counts); j++) {
                if (lengths[i] * counts[j] > MEMORY_BUDGET ||
                    (options.quick && lengths[i] > 64 << 20)) {
                    continue;
                }
                struct result result = run_cell(gateway, clients, counts[j],
                                                is_put ? RG_DIRECTION_PUT : RG_DIRECTION_GET,
                                                lengths[i], choose_rounds(lengths[i], counts[j]));
                one = j == 0 ? result.rate : one;
                printf("  ofi:%-4s %-3s %8" PRIu64
                       " KiB  %2u clients  %7.2f GB/s   scaling %5.2f   "
                       "%7.2f GB/CPU-s   per CPU %5.2f\n",
                       provider, is_put ? "PUT" : "GET", lengths[i] >> 10, counts[j],
                       result.rate / 1e9, result.rate / one, result.per_cpu / 1e9,
                       result.per_cpu / socket_per_cpu);
                fflush(stdout);
            }
        }
    }
}

static void parse_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0) {
            options.quick = true;
        } else if (strcmp(argv[i], "--overlap") == 0) {
            options.overlap_only = true;
        } else if (strcmp(argv[i], "--direct") == 0) {
            options.direct = true;
        } else if (strcmp(argv[i], "--dir") == 0 && has_value) {
            options.directory = argv[++i];
        } else if (strcmp(argv[i], "--slots") == 0 && has_value) {
            options.slots = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--slot-kib") == 0 && has_value) {
            options.slot_bytes = strtoul(argv[++i], NULL, 10) << 10;
        } else {
            fprintf(stderr, "usage: bench-rdma [--dir DIR] [--quick] [--slots N] [--slot-kib N] "
                            "[--direct]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const providers[] = {"shm", "tcp"};
    parse_options(argc, argv);
    struct result socket_floor = run_socket((uint64_t)256 << 20, options.quick ? 2 : 8);
    printf("%zu slots of %zu KiB, files %s\n", options.slots, options.slot_bytes >> 10,
           options.direct ? "past the page cache where the file system allows"
                          : "in the page cache");
    printf("  socket   pread, send, recv          %7.2f GB/s                  %7.2f GB/CPU-s   "
           "per CPU  1.00\n",
           socket_floor.rate / 1e9, socket_floor.per_cpu / 1e9);
    print_deposit();
    for (size_t i = 0; i < RG_ARRAY_LENGTH(providers); i++) {
        /* Before the gateway has threads and a library of its own to inherit. */
        struct client clients[CLIENTS_MAX];
        struct gateway gateway;
        start_clients(providers[i], clients, CLIENTS_MAX);
        if (open_gateway(providers[i], &gateway)) {
            print_overlap(&gateway, providers[i], &clients[0], false);
            print_overlap(&gateway, providers[i], &clients[0], true);
            if (!options.overlap_only) {
                print_cells(&gateway, providers[i], clients, socket_floor.per_cpu);
            }
            close_gateway(&gateway);
        }
        end_clients(clients, CLIENTS_MAX);
    }
    return 0;
}
