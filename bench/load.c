/*
 * An S3 load generator for comparisons on one machine: N connections, each a thread with blocking
 * sockets and keep-alive, cycling over K keys with presigned URLs (signed once, before the clock
 * starts, so that the client's own cost stays small). Prints one JSON object: rates, latency
 * percentiles, bytes, and the CPU seconds that the server process used meanwhile.
 *
 * It is a bench, not a client: it speaks plain HTTP to a numeric address, and any answer other than
 * the expected status ends the run with exit status 1.
 */
#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/span.h"
#include "s3/sigv4.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES         (256 * 1024)
#define BUCKETS_PER_OCTAVE 16
#define HISTOGRAM_BUCKETS  (40 * BUCKETS_PER_OCTAVE)

static struct {
    const char *address;
    uint16_t port;
    const char *prefix; /* "/bucket/name-" */
    const char *method;
    uint64_t size;
    unsigned connections;
    unsigned keys;
    double seconds;
    uint64_t requests_max;
    int server_pid;
    bool plain; /* no signature: for a server without authentication */
} options = {"127.0.0.1", 0, NULL, "GET", 4096, 1, 16, 3.0, UINT64_MAX, 0, false};

static char **targets; /* request targets with their signatures */
static char *payload;
static atomic_uint_fast64_t tickets;
static atomic_uint_fast64_t histogram[HISTOGRAM_BUCKETS];
static atomic_uint_fast64_t done_requests;
static atomic_uint_fast64_t done_bytes;
static atomic_bool failed;
static uint64_t stop_ns;

RG_PRINTF(1, 2) RG_NORETURN static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* Logarithmic buckets, about 4 % wide. */
static unsigned bucket_of(uint64_t ns)
{
    if (ns < 2) {
        return 0;
    }
    unsigned octave = 63u - (unsigned)__builtin_clzll(ns);
    uint64_t within = octave >= 4 ? (ns >> (octave - 4)) & 15 : 0;
    unsigned bucket = octave * BUCKETS_PER_OCTAVE + (unsigned)within;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static double bucket_us(unsigned bucket)
{
    unsigned octave = bucket / BUCKETS_PER_OCTAVE;
    double base = (double)(UINT64_C(1) << octave);
    return base * (1.0 + (bucket % BUCKETS_PER_OCTAVE) / 16.0) / 1000.0;
}

static double percentile_us(double share)
{
    uint64_t wanted = (uint64_t)((double)done_requests * share);
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram[i];
        if (seen > wanted) {
            return bucket_us(i);
        }
    }
    return 0;
}

static int connect_to_server(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(options.port)};
    if (inet_pton(AF_INET, options.address, &peer.sin_addr) != 1) {
        die("%s is not an IPv4 address", options.address);
    }
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0) {
        die("cannot connect: %s", strerror(errno));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* Reads one answer and throws its body away. Returns the status, 0 when the connection broke. */
static int read_answer(int fd, char *block, bool has_body, uint64_t *ret_bytes)
{
    size_t have = 0;
    char *end = NULL;
    while (!end) {
        ssize_t got = recv(fd, block + have, READ_BYTES - 1 - have, 0);
        if (got <= 0) {
            return 0;
        }
        have += (size_t)got;
        block[have] = '\0';
        end = strstr(block, "\r\n\r\n");
    }
    int status = atoi(block + 9);
    const char *length = strcasestr(block, "\r\ncontent-length:");
    uint64_t want = has_body && length && length < end ? strtoull(length + 17, NULL, 10) : 0;
    uint64_t got_bytes = have - (size_t)(end + 4 - block);
    while (got_bytes < want) {
        ssize_t got = recv(fd, block, READ_BYTES, 0);
        if (got <= 0) {
            return 0;
        }
        got_bytes += (uint64_t)got;
    }
    *ret_bytes = got_bytes;
    return status;
}

static void *run_connection(void *unused RG_UNUSED)
{
    bool put = strcmp(options.method, "PUT") == 0;
    bool head = strcmp(options.method, "HEAD") == 0;
    int expected = strcmp(options.method, "DELETE") == 0 ? 204 : 200;
    char *block = malloc(READ_BYTES);
    RG_ASSERT(block);
    int fd = connect_to_server();
    RG_BUF(request, 65536);
    while (!failed && rg_clock_ns() < stop_ns) {
        uint64_t ticket = tickets++;
        if (ticket >= options.requests_max) {
            break;
        }
        rg_buf_clear(&request);
        rg_buf_addf(&request, "%s %s HTTP/1.1\r\nHost: %s:%u\r\n", options.method,
                    targets[ticket % options.keys], options.address, options.port);
        if (put) {
            rg_buf_addf(&request, "Content-Length: %" PRIu64 "\r\n", options.size);
        }
        rg_buf_add_text(&request, "\r\n");
        uint64_t start = rg_clock_ns();
        uint64_t bytes = 0;
        if (!send_all(fd, request.data, request.len) ||
            (put && !send_all(fd, payload, options.size))) {
            fprintf(stderr, "the connection broke while sending\n");
            failed = true;
            break;
        }
        int status = read_answer(fd, block, !head, &bytes);
        if (status != expected && !(put && (status == 201 || status == 204))) {
            fprintf(stderr, "%s answered %d:\n%.400s\n", options.method, status, block);
            failed = true;
            break;
        }
        histogram[bucket_of(rg_clock_ns() - start)]++;
        done_requests++;
        done_bytes += put ? options.size : bytes;
    }
    close(fd);
    free(block);
    return NULL;
}

/* User and system seconds of a process, from /proc. */
static double cpu_seconds(int pid)
{
    char path[64];
    char line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    rg_autofclose FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file)) {
        return 0;
    }
    const char *after = strrchr(line, ')');
    unsigned long user, system;
    if (!after || sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                         &system) != 2) {
        return 0;
    }
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void make_targets(void)
{
    const char *access_key = getenv("AWS_ACCESS_KEY_ID");
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY");
    char host[128];
    snprintf(host, sizeof host, "%s:%u", options.address, options.port);
    targets = calloc(options.keys, sizeof *targets);
    RG_ASSERT(targets);
    for (unsigned i = 0; i < options.keys; i++) {
        RG_BUF(target, 16384);
        rg_buf_addf(&target, "%s%u", options.prefix, i);
        if (!options.plain) {
            struct rg_header headers[] = {{RG_SPAN_LITERAL("host"), rg_span_text(host)}};
            char *path = rg_span_dup(rg_buf_span(&target));
            struct rg_sigv4_request request = {
                .method = rg_span_text(options.method),
                .path = rg_span_text(path),
                .query = RG_SPAN_EMPTY,
                .headers = headers,
                .header_count = 1,
            };
            struct rg_sigv4_signer signer = {rg_span_text(access_key), rg_span_text(secret),
                                             RG_SPAN_LITERAL("us-east-1"), RG_SPAN_LITERAL("s3")};
            struct rg_error err = RG_ERROR_INIT;
            rg_buf_add_char(&target, '?');
            if (rg_sigv4_presign(&signer, &request, rg_clock_wall().tv_sec, 86400, &target, &err) <
                0) {
                die("cannot sign: %s", err.message);
            }
            free(path);
        }
        targets[i] = rg_buf_take(&target);
        RG_ASSERT(targets[i]);
    }
}

static void parse_options(int argc, char **argv)
{
    static const struct option words[] = {
        {"address", required_argument, NULL, 'a'},  {"port", required_argument, NULL, 'p'},
        {"prefix", required_argument, NULL, 'x'},   {"method", required_argument, NULL, 'm'},
        {"size", required_argument, NULL, 's'},     {"connections", required_argument, NULL, 'c'},
        {"keys", required_argument, NULL, 'k'},     {"seconds", required_argument, NULL, 't'},
        {"requests", required_argument, NULL, 'n'}, {"server-pid", required_argument, NULL, 'i'},
        {"plain", no_argument, NULL, 'u'},          {0},
    };
    int word;
    while ((word = getopt_long(argc, argv, "", words, NULL)) != -1) {
        switch (word) {
        case 'a':
            options.address = optarg;
            break;
        case 'p':
            options.port = (uint16_t)atoi(optarg);
            break;
        case 'x':
            options.prefix = optarg;
            break;
        case 'm':
            options.method = optarg;
            break;
        case 's':
            options.size = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            options.connections = (unsigned)atoi(optarg);
            break;
        case 'k':
            options.keys = (unsigned)atoi(optarg);
            break;
        case 't':
            options.seconds = atof(optarg);
            break;
        case 'n':
            options.requests_max = strtoull(optarg, NULL, 10);
            break;
        case 'i':
            options.server_pid = atoi(optarg);
            break;
        case 'u':
            options.plain = true;
            break;
        default:
            exit(2);
        }
    }
    if (!options.port || !options.prefix || !options.connections || !options.keys) {
        die("usage: load --port N --prefix /bucket/name- [--method M] [--size BYTES] "
            "[--connections N] [--keys N] [--seconds S] [--requests N] [--server-pid PID] "
            "[--plain]; signs with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    }
    if (!options.plain && (!getenv("AWS_ACCESS_KEY_ID") || !getenv("AWS_SECRET_ACCESS_KEY"))) {
        die("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are needed to sign");
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    make_targets();
    payload = malloc(options.size + 1);
    RG_ASSERT(payload);
    for (uint64_t i = 0; i < options.size; i++) {
        payload[i] = (char)(i * 131 + (i >> 12));
    }
    pthread_t *threads = calloc(options.connections, sizeof *threads);
    RG_ASSERT(threads);
    double cpu_before = options.server_pid ? cpu_seconds(options.server_pid) : 0;
    uint64_t start = rg_clock_ns();
    stop_ns = start + (uint64_t)(options.seconds * 1e9);
    for (unsigned i = 0; i < options.connections; i++) {
        RG_MUST(pthread_create(&threads[i], NULL, run_connection, NULL));
    }
    for (unsigned i = 0; i < options.connections; i++) {
        RG_MUST(pthread_join(threads[i], NULL));
    }
    double wall = (double)(rg_clock_ns() - start) / 1e9;
    double cpu = options.server_pid ? cpu_seconds(options.server_pid) - cpu_before : 0;
    printf("{\"method\":\"%s\",\"size\":%" PRIu64 ",\"connections\":%u,\"requests\":%" PRIu64
           ",\"bytes\":%" PRIu64 ",\"seconds\":%.3f,\"requests_per_second\":%.1f,"
           "\"bytes_per_second\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"server_cpu_seconds\":%.3f,"
           "\"server_cpu_us_per_request\":%.2f}\n",
           options.method, options.size, options.connections, (uint64_t)done_requests,
           (uint64_t)done_bytes, wall, (double)done_requests / wall, (double)done_bytes / wall,
           percentile_us(0.5), percentile_us(0.99), cpu,
           done_requests ? cpu * 1e6 / (double)done_requests : 0);
    return failed || done_requests == 0;
}
