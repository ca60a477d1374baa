/* Several addresses of one libfabric provider, each a rail, and objects moved over them: the real
 * tcp provider on two addresses of the loopback. */
#include "test.h"

#include "gate/planes.h"

#include "base/attr.h"
#include "base/checked.h"
#include "rdma/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB          ((size_t)1 << 10)
#define OBJECT_BYTES (300 * KIB + 123)

static struct {
    struct rg_settings settings;
    struct rg_planes *planes;
    struct rg_error err;
    char summary[8192];
    int fd;
    /* The client */
    struct rg_rail *rail;
    struct rg_region *region;
    struct rg_lane *lane;
    struct rg_target *target;
    struct rg_progress *progress;
    unsigned char *memory;
} world;

static void set(enum rg_setting_id id, const char *value)
{
    if (rg_settings_set(&world.settings, id, value, RG_FROM_OPTION, "test", &world.err) < 0) {
        fail_msg("%s", world.err.message);
    }
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    assert_int_equal(rg_settings_init(&world.settings, &world.err), 0);
    set(RG_SETTING_rdma_transports, "ofi");
    set(RG_SETTING_rdma_providers, "tcp");
    set(RG_SETTING_rdma_memory, "1M");
    set(RG_SETTING_rdma_slot_size, "64K");
    set(RG_SETTING_rdma_lanes, "4");
    world.fd = memfd_create("object", MFD_CLOEXEC);
    world.memory = calloc(1, OBJECT_BYTES);
    assert_true(world.fd >= 0 && world.memory);
    return 0;
}

static void leave_client(void)
{
    if (world.progress) {
        (void)rg_progress_stop(RG_TAKE(world.progress), NULL);
    }
    if (world.target) {
        (void)rg_window_revoke(RG_TAKE(world.target), true, NULL);
    }
    rg_region_deregister(RG_TAKE(world.region));
    rg_lane_close(RG_TAKE(world.lane));
    rg_rail_close(RG_TAKE(world.rail));
}

static int end(void **state)
{
    for (size_t i = 0; world.planes && i < rg_planes_count(world.planes); i++) {
        struct rg_plane_state plane;
        rg_planes_state(world.planes, i, &plane);
        assert_int_equal(plane.pool.lanes_leased, 0);
        assert_int_equal(plane.slab.slots_in_use, 0);
    }
    rg_planes_close(world.planes);
    leave_client();
    close(world.fd);
    free(world.memory);
    rg_settings_free(&world.settings);
    return 0;
}

static int try_open(void)
{
    RG_BUF(summary, sizeof world.summary);
    int rc = rg_planes_open(&world.settings, &world.planes, &summary, &world.err);
    snprintf(world.summary, sizeof world.summary, "%s", rg_buf_text(&summary));
    return rc;
}

static void open_planes(void)
{
    if (try_open() < 0) {
        fail_msg("%s", world.err.message);
    }
}

static void meet_client(enum rg_direction direction)
{
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    unsigned access =
        direction == RG_DIRECTION_GET ? RG_ACCESS_REMOTE_WRITE : RG_ACCESS_REMOTE_READ;
    snprintf(config.device, sizeof config.device, "tcp");
    assert_int_equal(rg_rail_open(&rg_transport_ofi, &config, &world.rail, &world.err), 0);
    assert_int_equal(rg_region_register(world.rail, world.memory, OBJECT_BYTES, access,
                                        &world.region, &world.err),
                     0);
    assert_int_equal(rg_lane_open(world.rail, &world.lane, &world.err), 0);
    assert_int_equal(rg_window_mint(world.lane, world.region, 0, OBJECT_BYTES, direction,
                                    &world.target, &world.err),
                     0);
    assert_int_equal(rg_progress_start(world.lane, &world.progress, &world.err), 0);
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 4096 + 1);
}

/* Moves the object and tells by which rail. */
static int rail_of(enum rg_plane_use use, const char *arrival)
{
    struct rg_plane_result result;
    struct rg_plane_state state;
    uint64_t leases[4] = {0};
    for (size_t i = 0; i < rg_planes_count(world.planes); i++) {
        rg_planes_state(world.planes, i, &state);
        leases[i] = state.pool.leases;
    }
    const struct rg_plane_transfer transfer = {
        .use = use,
        .window = &world.target->window,
        .length = OBJECT_BYTES,
        .file = {.fd = world.fd, .direct_fd = -1},
        .arrival = arrival,
        .account = "somebody",
    };
    if (rg_planes_move(world.planes, &transfer, &result, &world.err) < 0) {
        fail_msg("%s (%s)", world.err.message, result.reason ? result.reason : "failed");
    }
    assert_string_equal(result.path, "ofi:tcp");
    for (size_t i = 0; i < rg_planes_count(world.planes); i++) {
        rg_planes_state(world.planes, i, &state);
        if (state.pool.leases > leases[i]) {
            return (int)i;
        }
    }
    return -1;
}

static void fill_file(void)
{
    unsigned char *bytes = malloc(OBJECT_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
        bytes[i] = byte_at(i);
    }
    assert_int_equal(pwrite(world.fd, bytes, OBJECT_BYTES, 0), OBJECT_BYTES);
    free(bytes);
}

static void expect_object(const unsigned char *bytes)
{
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
        if (bytes[i] != byte_at(i)) {
            fail_msg("byte %zu differs", i);
        }
    }
}

/* ---- Opening ---- */

static void opens_a_rail_for_each_address(void **state)
{
    struct rg_plane_state plane;
    set(RG_SETTING_rdma_address, "127.0.0.1, 127.0.0.2");
    set(RG_SETTING_rdma_providers, "tcp,shm");
    open_planes();
    assert_int_equal(rg_planes_count(world.planes), 3);
    static const char *const paths[] = {"ofi:tcp", "ofi:tcp", "ofi:shm"};
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2", ""};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(paths); i++) {
        rg_planes_state(world.planes, i, &plane);
        assert_string_equal(plane.pool.path, paths[i]);
        assert_string_equal(plane.pool.address, addresses[i]);
        assert_true(plane.pool.up);
    }
    assert_non_null(strstr(world.summary, "3 rails"));
    assert_non_null(strstr(world.summary, "127.0.0.2"));
}

static void opens_one_where_the_listener_is(void **state)
{
    static const char *const rows[][2] = {
        {"", "127.0.0.1"}, {"0.0.0.0", "127.0.0.1"}, {"127.0.0.2", "127.0.0.2"}};
    struct rg_plane_state plane;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        set(RG_SETTING_address, rows[i][0]);
        open_planes();
        assert_int_equal(rg_planes_count(world.planes), 1);
        rg_planes_state(world.planes, 0, &plane);
        assert_string_equal(plane.pool.address, rows[i][1]);
        rg_planes_close(RG_TAKE(world.planes));
    }
}

static void refuses_addresses_that_cannot_be(void **state)
{
    static const char *const rows[][2] = {
        {"127.0.0.1,,127.0.0.2", "empty"},    {"127.0.0.1,", "empty"},
        {"127.0.0.1, 127.0.0.1", "twice"},    {"127.0.0.1,localhost", "localhost"},
        {"127.0.0.1,192.0.2.1", "192.0.2.1"}, {"300.0.0.1", "300.0.0.1"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        set(RG_SETTING_rdma_address, rows[i][0]);
        int rc = try_open();
        if (rc != -RG_SETTING || !strstr(world.err.message, rows[i][1]) ||
            !strstr(world.err.message, "rdma-address")) {
            fail_msg("%s: %d, \"%s\"", rows[i][0], rc, world.err.message);
        }
        assert_null(world.planes);
    }
}

static double metric(void (*write)(struct rg_planes *, const char *, struct rg_buf *),
                     const char *line)
{
    RG_BUF(text, 65536);
    write(world.planes, "m", &text);
    const char *found = strstr(rg_buf_text(&text), line);
    if (!found) {
        fail_msg("no %s in %s", line, rg_buf_text(&text));
    }
    return strtod(found + strlen(line), NULL);
}

/* ---- Choosing, and moving ---- */

static void goes_by_the_address_of_the_request(void **state)
{
    set(RG_SETTING_rdma_address, "127.0.0.1,127.0.0.2");
    open_planes();
    fill_file();
    meet_client(RG_DIRECTION_GET);
    for (int i = 0; i < 3; i++) {
        memset(world.memory, 0, OBJECT_BYTES);
        assert_int_equal(rail_of(RG_PLANE_GET, "127.0.0.2"), 1);
        expect_object(world.memory);
        memset(world.memory, 0, OBJECT_BYTES);
        assert_int_equal(rail_of(RG_PLANE_GET, "127.0.0.1"), 0);
        expect_object(world.memory);
    }
    /* Nothing of a software provider is pinned; the slots hold what has been used of them. */
    assert_true(metric(rg_planes_write_pinned, "rail=\"0\"}") == 0);
    assert_true(metric(rg_planes_write_slabs, "rail=\"0\",state=\"mapped\"}") == 1024 * KIB);
    double resident = metric(rg_planes_write_slabs, "rail=\"0\",state=\"resident\"}");
    assert_true(resident >= 64 * KIB && resident <= 1024 * KIB);
    unsigned times[2] = {0};
    for (int i = 0; i < 6; i++) {
        times[rail_of(RG_PLANE_GET, NULL)]++;
    }
    assert_int_equal(times[0], 3);
    assert_int_equal(times[1], 3);
}

static void takes_objects_by_either(void **state)
{
    static const char *const arrivals[] = {"127.0.0.1", "127.0.0.2"};
    unsigned char *stored = malloc(OBJECT_BYTES);
    assert_non_null(stored);
    set(RG_SETTING_rdma_address, "127.0.0.1,127.0.0.2");
    open_planes();
    meet_client(RG_DIRECTION_PUT);
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
        world.memory[i] = byte_at(i);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ftruncate(world.fd, 0), 0);
        assert_int_equal(rail_of(RG_PLANE_PUT, arrivals[i]), i);
        assert_int_equal(pread(world.fd, stored, OBJECT_BYTES, 0), OBJECT_BYTES);
        expect_object(stored);
    }
    free(stored);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* What libfabric takes from the environment when it is loaded: ours, or the person's. */
static void suggests_small_endpoints(void **state)
{
    assert_string_equal(getenv("FI_OFI_RXM_MSG_TX_SIZE"), "64");
    assert_null(getenv("FI_OFI_RXM_BUFFER_SIZE"));               /* both ends need the same */
    assert_string_equal(getenv("FI_OFI_RXM_MSG_RX_SIZE"), "16"); /* as main has it */
}

int main(void)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_settings settings;
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 1);
    unsetenv("FI_OFI_RXM_MSG_TX_SIZE");
    unsetenv("FI_OFI_RXM_BUFFER_SIZE");
    assert_int_equal(rg_settings_init(&settings, &err), 0);
    rg_planes_preload(&settings);
    rg_settings_free(&settings);
    if (rg_transport_load(&rg_transport_ofi, &err) < 0) {
        print_message("%s\n", err.message);
        return 77; /* skipped */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggests_small_endpoints), TEST(opens_a_rail_for_each_address),
        TEST(opens_one_where_the_listener_is),      TEST(refuses_addresses_that_cannot_be),
        TEST(goes_by_the_address_of_the_request),   TEST(takes_objects_by_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
