/*
 * The self-test, over the interface of transport.h only. See selftest.h. One step after the other;
 * the first that fails in a way that makes the rest meaningless ends it, and the rest is reported
 * as skipped.
 */
#include "rdma/selftest.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define MEMORY_BYTES (16 * MIB + 4096)
#define GUARD_BYTES  64
#define WAIT_MS      10000

/* Around the limits of packets, pages and slots. */
static const uint64_t sizes[] = {
    1,    2,     255,   256,   1023,    1024, 1025,    4095,    4096,     4097,
    8193, 65535, 65536, 65537, MIB - 1, MIB,  MIB + 1, 2 * MIB, 16 * MIB,
};

struct test {
    rg_selftest_report report;
    void *context;
    unsigned failed;
    enum rg_transport_kind kind;
    struct rg_rail_config config;
    struct rg_rail *rail;
    unsigned char *here, *there; /* the gateway's side and the client's */
    struct rg_region *here_region, *there_region;
    struct rg_lane *initiator, *client;
    struct rg_target *target;
    struct rg_error error;
};

static void tell(struct test *test, enum rg_selftest_verdict verdict, const char *step,
                 const char *sentence)
{
    test->failed += verdict == RG_SELFTEST_FAILED;
    test->report(test->context, verdict, step, sentence);
}

/* Reports a step that ended with `rc` and test->error; true when it passed. */
static bool judge(struct test *test, const char *step, int rc, const char *sentence)
{
    tell(test, rc < 0 ? RG_SELFTEST_FAILED : RG_SELFTEST_PASSED, step,
         rc < 0 ? test->error.message : sentence);
    return rc >= 0;
}

/* Different for every seed, and no two neighbours alike. */
static void fill(unsigned char *bytes, uint64_t length, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (uint64_t i = 0; i < length; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (unsigned char)(state >> 56);
    }
}

/* For people to compare. */
static uint64_t digest(const unsigned char *bytes, uint64_t length)
{
    return rg_span_hash(rg_span((const char *)bytes, length));
}

/* ---- Opening ---- */

static bool open_rail(struct test *test)
{
    const struct rg_transport *transport = rg_transport_find(test->kind);
    if (!transport) {
        tell(test, RG_SELFTEST_FAILED, "library",
             "This build has no such transport: it was made without the headers of the library.");
        return false;
    }
    if (!judge(test, "library", rg_transport_load(transport, &test->error),
               "The libraries are there and new enough.")) {
        return false;
    }
    int rc = rg_rail_open(transport, &test->config, &test->rail, &test->error);
    char words[256] = "";
    if (rc == 0) {
        snprintf(words, sizeof words,
                 "%s, address %s, GID index %d, MTU %" PRIu32
                 ", traffic class %d, messages of up to %" PRIu64 " bytes.",
                 test->rail->device, test->rail->address, test->rail->gid_index, test->rail->mtu,
                 test->rail->traffic_class, test->rail->message_bytes_max);
    }
    return judge(test, "rail", rc, words);
}

static bool register_memory(struct test *test)
{
    int rc = rg_region_register(test->rail, test->here, MEMORY_BYTES, RG_ACCESS_LOCAL,
                                &test->here_region, &test->error);
    if (rc == 0) {
        rc = rg_region_register(test->rail, test->there, MEMORY_BYTES,
                                RG_ACCESS_REMOTE_WRITE | RG_ACCESS_REMOTE_READ, &test->there_region,
                                &test->error);
    }
    return judge(test, "memory", rc, "Both sides' memory is registered.");
}

static bool open_lanes(struct test *test)
{
    if (!judge(test, "initiator", rg_lane_open(test->rail, &test->initiator, &test->error),
               "An initiator was made and brought to where it can send.")) {
        return false;
    }
    int rc = rg_lane_open(test->rail, &test->client, &test->error);
    if (rc == 0) {
        rc = rg_window_mint(test->client, test->there_region, 0, 4096, RG_DIRECTION_GET,
                            &test->target, &test->error);
    }
    return judge(test, "target", rc, "A target was made, and a window on it.");
}

/* ---- Windows ---- */

/* Ends the window there is, if any. */
static int end_window(struct test *test)
{
    return rg_window_revoke(RG_TAKE(test->target), true, &test->error);
}

/* What a client sends and what a gateway understands are both in use, where there is a token. */
static int through_token(struct test *test, struct rg_rdma_window *window)
{
    if (test->kind != RG_TRANSPORT_DC) {
        return 0;
    }
    RG_BUF(text, RG_TOKEN_MAX);
    rg_token_print_d1(&test->target->window, &text);
    return rg_token_parse(rg_buf_span(&text), window, &test->error);
}

/* A new window on [offset, + length), bound to the initiator. */
static int make_window(struct test *test, uint64_t offset, uint64_t length,
                       enum rg_direction direction)
{
    int rc = end_window(test);
    if (rc == 0) {
        rc = rg_window_mint(test->client, test->there_region, offset, length, direction,
                            &test->target, &test->error);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_rdma_window window = test->target->window;
    rc = through_token(test, &window);
    return rc < 0 ? rc : rg_lane_bind(test->initiator, &window, &test->error);
}

/* One operation and its completion. */
static int move(struct test *test, uint64_t length, enum rg_direction direction,
                struct rg_completion *ret_completion)
{
    size_t count = 0;
    int rc = direction == RG_DIRECTION_GET
                 ? rg_lane_write(test->initiator, test->here_region, GUARD_BYTES, 0, length, length,
                                 &test->error)
                 : rg_lane_read(test->initiator, test->here_region, GUARD_BYTES, 0, length, length,
                                &test->error);
    if (rc == 0) {
        rc = rg_lane_wait(test->initiator, ret_completion, 1, -1, WAIT_MS, &count, &test->error);
    }
    if (rc == -RG_TIMED_OUT) {
        rc = rg_failf(&test->error, RG_TIMED_OUT, "No completion came within %d ms.", WAIT_MS);
    }
    return rc;
}

static int fail_completion(struct test *test, const struct rg_completion *completion)
{
    return rg_failf(&test->error, RG_RDMA_TRANSFER_FAILED,
                    "The transfer failed: %s (%s; status %d, \"%s\").",
                    rg_cause_sentence(completion->cause), rg_cause_name(completion->cause),
                    completion->provider_status, completion->provider_text);
}

/* ---- Moving ---- */

/* The bytes that arrived, and that none around them changed. */
static int compare(struct test *test, const unsigned char *source, unsigned char *got,
                   uint64_t length)
{
    uint64_t expected = digest(source, length);
    uint64_t found = digest(got, length);
    if (expected != found || memcmp(source, got, length) != 0) {
        uint64_t at = 0;
        while (at < length && source[at] == got[at]) {
            at++;
        }
        return rg_failf(&test->error, RG_RDMA_TRANSFER_FAILED,
                        "The bytes differ from byte %" PRIu64 " on: digest %016" PRIx64
                        ", not %016" PRIx64 ".",
                        at, found, expected);
    }
    for (uint64_t i = 0; i < GUARD_BYTES; i++) {
        if ((got - GUARD_BYTES)[i] != 0xa5 || (got + length)[i] != 0xa5) {
            return rg_failf(&test->error, RG_RDMA_TRANSFER_FAILED,
                            "Bytes outside the window were written.");
        }
    }
    return 0;
}

static int move_checked(struct test *test, uint64_t length, enum rg_direction direction)
{
    bool is_get = direction == RG_DIRECTION_GET;
    unsigned char *source = (is_get ? test->here : test->there) + GUARD_BYTES;
    unsigned char *got = (is_get ? test->there : test->here) + GUARD_BYTES;
    struct rg_completion completion;
    fill(source, length, length + (is_get ? 0 : 1));
    memset(got - GUARD_BYTES, 0xa5, length + 2 * GUARD_BYTES);
    int rc = make_window(test, GUARD_BYTES, length, direction);
    if (rc == 0) {
        rc = move(test, length, direction, &completion);
    }
    if (rc == 0 && completion.broke) {
        rc = fail_completion(test, &completion);
    }
    return rc < 0 ? rc : compare(test, source, got, length);
}

static bool move_all(struct test *test, enum rg_direction direction)
{
    const char *verb = direction == RG_DIRECTION_GET ? "write" : "read";
    for (size_t i = 0; i < RG_ARRAY_LENGTH(sizes); i++) {
        char step[64], words[128];
        uint64_t begun = rg_clock_ns();
        int rc = move_checked(test, sizes[i], direction);
        const unsigned char *got =
            (direction == RG_DIRECTION_GET ? test->there : test->here) + GUARD_BYTES;
        snprintf(step, sizeof step, "%s %" PRIu64 " bytes", verb, sizes[i]);
        snprintf(words, sizeof words, "Digest %016" PRIx64 " on both sides, in %" PRIu64 " us.",
                 rc < 0 ? 0 : digest(got, sizes[i]), (rg_clock_ns() - begun) / 1000);
        if (!judge(test, step, rc, words)) {
            return false;
        }
    }
    return true;
}

/* ---- What must fail, and that work goes on after it ---- */

/* The initiator is as new, and moves bytes. */
static bool recover(struct test *test, const char *step)
{
    int rc = rg_lane_reset(test->initiator, &test->error);
    if (rc == 0) {
        rc = move_checked(test, 4097, RG_DIRECTION_GET);
    }
    return judge(test, step, rc, "The initiator was reset and moves bytes again.");
}

/* Writes through `window`; it must not arrive. */
static bool refuse(struct test *test, const char *step, const struct rg_rdma_window *window)
{
    struct rg_completion completion = {0};
    int rc = rg_lane_bind(test->initiator, window, &test->error);
    if (rc == 0) {
        rc = move(test, 1, RG_DIRECTION_GET, &completion);
    }
    char words[256];
    if (rc < 0) {
        return judge(test, step, rc, "");
    }
    if (!completion.broke) {
        tell(test, RG_SELFTEST_FAILED, step, "The transfer succeeded, and must not have.");
        return false;
    }
    snprintf(words, sizeof words, "Refused, as it must be: %s (status %d, \"%s\").",
             rg_cause_name(completion.cause), completion.provider_status, completion.provider_text);
    tell(test, RG_SELFTEST_PASSED, step, words);
    return true;
}

static bool refuse_all(struct test *test)
{
    struct rg_rdma_window window;
    int rc = make_window(test, 0, 4096, RG_DIRECTION_GET);
    if (rc < 0) {
        return judge(test, "wrong key", rc, "");
    }
    window = test->target->window;
    window.rkey ^= 0x5500;
    if (!refuse(test, "wrong key", &window) || !recover(test, "reset after a wrong key")) {
        return false;
    }
    rc = make_window(test, 4096, 4096, RG_DIRECTION_GET);
    if (rc < 0) {
        return judge(test, "one byte before the window", rc, "");
    }
    window = test->target->window;
    window.address--;
    if (!refuse(test, "one byte before the window", &window) ||
        !recover(test, "reset after a wrong address")) {
        return false;
    }
    rc = make_window(test, 0, 4096, RG_DIRECTION_GET);
    window = test->target ? test->target->window : window;
    if (rc == 0) {
        rc = end_window(test);
    }
    if (rc < 0) {
        return judge(test, "a window that was taken back", rc, "");
    }
    return refuse(test, "a window that was taken back", &window) &&
           recover(test, "reset after a late write");
}

/* A target with another access key must not let anybody in. */
static bool refuse_other_key(struct test *test)
{
    static const char step[] = "wrong access key";
    struct rg_rail_config config = test->config;
    struct rg_rail *rail = NULL;
    struct rg_region *region = NULL;
    struct rg_lane *lane = NULL;
    struct rg_target *target = NULL;
    bool passed = false;
    if (test->kind != RG_TRANSPORT_DC) {
        tell(test, RG_SELFTEST_SKIPPED, step, "This transport has none.");
        return true;
    }
    config.dc_key ^= 0xff;
    int rc = rg_rail_open(test->rail->transport, &config, &rail, &test->error);
    if (rc == 0) {
        rc = rg_region_register(rail, test->there, 4096, RG_ACCESS_REMOTE_WRITE, &region,
                                &test->error);
    }
    if (rc == 0) {
        rc = rg_lane_open(rail, &lane, &test->error);
    }
    if (rc == 0) {
        rc = rg_window_mint(lane, region, 0, 4096, RG_DIRECTION_GET, &target, &test->error);
    }
    if (rc < 0) {
        (void)judge(test, step, rc, "");
    } else {
        passed =
            refuse(test, step, &target->window) && recover(test, "reset after a wrong access key");
    }
    (void)rg_window_revoke(target, true, NULL);
    rg_lane_close(lane);
    rg_region_deregister(region);
    rg_rail_close(rail);
    return passed;
}

/* Ending what is on its way leaves a lane that can be used again. */
static bool flush_and_go_on(struct test *test)
{
    unsigned quiet = 0;
    int rc = make_window(test, GUARD_BYTES, 16 * MIB, RG_DIRECTION_GET);
    for (uint64_t i = 0; i < 4 && rc == 0 && i < test->initiator->depth; i++) {
        rc = rg_lane_write(test->initiator, test->here_region, GUARD_BYTES, 0, 4 * MIB, i,
                           &test->error);
    }
    if (rc == 0) {
        rc = rg_lane_flush(test->initiator, &quiet, &test->error);
    }
    if (rc == 0 && !(quiet & RG_QUIET_LOCAL)) {
        rc = rg_failf(&test->error, RG_RDMA_TRANSFER_FAILED,
                      "After the flush the NIC may still read our memory.");
    }
    return judge(test, "flush", rc, "What was on its way ended, and the NIC is done with it.") &&
           recover(test, "reset after a flush");
}

/* ---- All of it ---- */

static bool run(struct test *test)
{
    return open_rail(test) && register_memory(test) && open_lanes(test) &&
           move_all(test, RG_DIRECTION_GET) && move_all(test, RG_DIRECTION_PUT) &&
           refuse_all(test) && refuse_other_key(test) && flush_and_go_on(test);
}

static void close_all(struct test *test)
{
    (void)rg_window_revoke(test->target, true, NULL);
    rg_lane_close(test->initiator);
    rg_lane_close(test->client);
    rg_region_deregister(test->here_region);
    rg_region_deregister(test->there_region);
    rg_rail_close(test->rail);
}

unsigned rg_selftest(enum rg_transport_kind kind, const struct rg_rail_config *config,
                     rg_selftest_report report, void *context)
{
    struct test test = {.report = report, .context = context, .kind = kind, .config = *config};
    unsigned char *memory =
        mmap(NULL, 2 * MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        tell(&test, RG_SELFTEST_FAILED, "memory", "There is not enough memory.");
        return test.failed;
    }
    test.here = memory;
    test.there = memory + MEMORY_BYTES;
    if (!run(&test)) {
        tell(&test, RG_SELFTEST_SKIPPED, "the rest", "It makes no sense after that failure.");
    }
    close_all(&test);
    (void)munmap(memory, 2 * MEMORY_BYTES);
    return test.failed;
}

unsigned rg_dc_selftest(const char *device, rg_selftest_report report, void *context)
{
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    rg_random_bytes(&config.dc_key, sizeof config.dc_key);
    config.ack_timeout = 14; /* what must fail shall fail soon */
    if (device && strlen(device) >= sizeof config.device) {
        report(context, RG_SELFTEST_FAILED, "rail", "The device's name is too long.");
        return 1;
    }
    if (device) {
        memcpy(config.device, device, strlen(device) + 1);
    }
    return rg_selftest(RG_TRANSPORT_DC, &config, report, context);
}
