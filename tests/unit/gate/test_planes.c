/* Rails of verbs NICs as the gateway opens and chooses them, and objects moved over dc, with the
 * library of tests/unit/rdma/fake_verbs.h in the place of the real ones. */
#include "test.h"

#include "fake_verbs.h"
#include "gate/planes.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Not a multiple of anything. */
#define OBJECT_BYTES (3 * MIB + 12345)

static struct {
    struct rg_settings settings;
    struct rg_planes *planes;
    struct rg_error err;
    char summary[8192];
    int fd; /* the object's file */
    /* The client, on a NIC of its own */
    struct rg_rail *rail;
    struct rg_region *region;
    struct rg_lane *lane;
    struct rg_target *target;
    unsigned char *memory;
    struct rg_rdma_window window;
} world;

static void set(enum rg_setting_id id, const char *value)
{
    if (rg_settings_set(&world.settings, id, value, RG_FROM_OPTION, "test", &world.err) < 0) {
        fail_msg("%s", world.err.message);
    }
}

static void add_port(struct fake_device *device, uint8_t port, const char *address)
{
    fake_set_gid(device, port, 0, "fe80::1", RG_GID_ROCE_V2, "eth0");
    fake_set_gid(device, port, 1, address, RG_GID_ROCE_V1, "eth0");
    fake_set_gid(device, port, 2, address, RG_GID_ROCE_V2, "eth0");
    device->ports[port - 1].subnet_bits = 24;
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    fake_reset();
    fake.device_count = 0;
    struct fake_device *first = fake_add_device("mlx5_0", IBV_LINK_LAYER_ETHERNET);
    first->attributes.phys_port_cnt = 2;
    add_port(first, 1, "10.1.0.1");
    add_port(first, 2, "10.2.0.1");
    add_port(fake_add_device("mlx5_1", IBV_LINK_LAYER_ETHERNET), 1, "10.2.0.2");
    struct fake_device *client = fake_add_device("client", IBV_LINK_LAYER_ETHERNET);
    add_port(client, 1, "10.1.0.77");
    fake_set_gid(client, 1, 3, "10.2.0.77", RG_GID_ROCE_V2, "eth1");
    fake_set_gid(client, 1, 4, "10.9.0.77", RG_GID_ROCE_V2, "eth2");

    assert_int_equal(rg_settings_init(&world.settings, &world.err), 0);
    set(RG_SETTING_rdma_transports, "dc");
    set(RG_SETTING_rdma_devices, "mlx5_0:1,mlx5_0:2,mlx5_1");
    set(RG_SETTING_rdma_memory, "1M");
    set(RG_SETTING_rdma_slot_size, "64K");
    set(RG_SETTING_rdma_queue_wait, "50ms");
    world.fd = memfd_create("object", MFD_CLOEXEC);
    world.memory = calloc(1, OBJECT_BYTES);
    assert_true(world.fd >= 0 && world.memory);
    return 0;
}

static void leave_client(void)
{
    (void)rg_window_revoke(RG_TAKE(world.target), true, NULL);
    rg_lane_close(RG_TAKE(world.lane));
    rg_region_deregister(RG_TAKE(world.region));
    rg_rail_close(RG_TAKE(world.rail));
}

/* Nothing may be left of any test. */
static int end(void **state)
{
    fake.hold = false;
    for (size_t i = 0; world.planes && i < rg_planes_count(world.planes); i++) {
        struct rg_plane_state plane;
        rg_planes_state(world.planes, i, &plane);
        assert_int_equal(plane.pool.lanes_leased, 0);
        assert_int_equal(plane.slab.slots_in_use, 0);
    }
    rg_planes_close(world.planes);
    leave_client();
    fake_expect_empty();
    close(world.fd);
    free(world.memory);
    rg_settings_free(&world.settings);
    rg_verbs_replace(NULL, NULL);
    rg_mlx5_replace(NULL);
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

static void expect_refusal(const char *word)
{
    int rc = try_open();
    if (rc != -RG_SETTING || !strstr(world.err.message, word)) {
        fail_msg("%d: \"%s\" does not say %s", rc, world.err.message, word);
    }
    assert_null(world.planes);
    fake_expect_empty();
}

/* A client whose token names it by `address`. */
static void meet_client(uint64_t dc_key, enum rg_direction direction, const char *address)
{
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    snprintf(config.device, sizeof config.device, "client");
    config.dc_key = dc_key;
    assert_int_equal(rg_rail_open(&rg_transport_dc, &config, &world.rail, &world.err), 0);
    assert_int_equal(rg_region_register(world.rail, world.memory, OBJECT_BYTES,
                                        RG_ACCESS_REMOTE_READ | RG_ACCESS_REMOTE_WRITE,
                                        &world.region, &world.err),
                     0);
    assert_int_equal(rg_lane_open(world.rail, &world.lane, &world.err), 0);
    assert_int_equal(rg_window_mint(world.lane, world.region, 0, OBJECT_BYTES, direction,
                                    &world.target, &world.err),
                     0);
    world.window = world.target->window;
    memset(world.window.gid, 0, sizeof world.window.gid);
    world.window.gid[10] = world.window.gid[11] = 0xff;
    assert_int_equal(inet_pton(AF_INET, address, world.window.gid + 12), 1);
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 4096);
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

static int move(enum rg_plane_use use, const char *arrival, uint64_t length,
                struct rg_plane_result *ret_result)
{
    struct rg_plane_transfer transfer = {
        .use = use,
        .window = &world.window,
        .length = length,
        .file = {.fd = world.fd, .direct_fd = -1},
        .arrival = arrival,
        .account = "somebody",
    };
    return rg_planes_move(world.planes, &transfer, ret_result, &world.err);
}

/* Index of the rail that a small GET went by. */
static int rail_of_a_get(const char *arrival)
{
    struct rg_plane_result result;
    struct rg_plane_state before, after;
    uint64_t leases[3];
    for (size_t i = 0; i < rg_planes_count(world.planes); i++) {
        rg_planes_state(world.planes, i, &before);
        leases[i] = before.pool.leases;
    }
    if (move(RG_PLANE_GET, arrival, 1000, &result) < 0) {
        fail_msg("%s (%s)", world.err.message, result.reason ? result.reason : "failed");
    }
    assert_string_equal(result.path, "dc");
    for (size_t i = 0; i < rg_planes_count(world.planes); i++) {
        rg_planes_state(world.planes, i, &after);
        if (after.pool.leases > leases[i]) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- Opening ---- */

static void opens_a_rail_for_each_port(void **state)
{
    struct rg_plane_state plane;
    set(RG_SETTING_rdma_devices, "mlx5_0:1, mlx5_0:2,10.2.0.2");
    open_planes();
    assert_int_equal(rg_planes_count(world.planes), 3);
    static const char *const expected[][2] = {
        {"mlx5_0", "10.1.0.1"}, {"mlx5_0", "10.2.0.1"}, {"mlx5_1", "10.2.0.2"}};
    for (size_t i = 0; i < 3; i++) {
        rg_planes_state(world.planes, i, &plane);
        assert_string_equal(plane.pool.device, expected[i][0]);
        assert_string_equal(plane.pool.address, expected[i][1]);
        assert_true(plane.pool.up);
        assert_true(plane.pool.is_hardware);
        assert_non_null(strstr(world.summary, expected[i][1]));
    }
    assert_non_null(strstr(world.summary, "everybody knows"));
}

static void opens_whichever_there_is(void **state)
{
    struct rg_plane_state plane;
    set(RG_SETTING_rdma_devices, "");
    fake.devices[0].has_dc = false;
    open_planes();
    assert_int_equal(rg_planes_count(world.planes), 1);
    rg_planes_state(world.planes, 0, &plane);
    assert_string_equal(plane.pool.device, "mlx5_1");
}

static void starts_without_dc(void **state)
{
    struct rg_plane_result result;
    for (size_t i = 0; i < fake.device_count; i++) {
        fake.devices[i].has_dc = false;
    }
    set(RG_SETTING_rdma_devices, "");
    open_planes();
    assert_int_equal(rg_planes_count(world.planes), 0);
    assert_non_null(strstr(world.summary, "not dc"));
    world.window = (struct rg_rdma_window){.dialect = RG_DIALECT_D1,
                                           .transport = RG_TRANSPORT_DC,
                                           .address = 4096,
                                           .length = OBJECT_BYTES,
                                           .qpn = 5,
                                           .has_gid = true};
    assert_int_equal(move(RG_PLANE_GET, NULL, 10, &result), -RG_RDMA_NOT_SUPPORTED);
    assert_string_equal(result.reason, "no-transport");
    rg_planes_close(RG_TAKE(world.planes));
    set(RG_SETTING_rdma, "on");
    expect_refusal("no rail can be opened");
}

static void refuses_devices_that_are_not_there(void **state)
{
    static const struct {
        const char *list, *word;
    } rows[] = {
        {"mlx5_0:0", "mlx5_0:0"},     {"mlx5_0:one", "mlx5_0:one"},
        {"mlx5_0:256", "mlx5_0:256"}, {":1", ":1"},
        {"mlx5_0:", "mlx5_0:"},       {"mlx5_0,,mlx5_1", "empty"},
        {"mlx5_0:3", "no port 3"},    {"mlx5_9", "mlx5_9"},
        {"10.2.0.9", "10.2.0.9"},     {"fe80::99", "fe80::99"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        set(RG_SETTING_rdma_devices, rows[i].list);
        expect_refusal(rows[i].word);
    }
}

static void obeys_what_was_set(void **state)
{
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    set(RG_SETTING_rdma_gid_index, "0");
    set(RG_SETTING_rdma_traffic_class, "106");
    set(RG_SETTING_rdma_service_level, "5");
    set(RG_SETTING_rdma_hop_limit, "255");
    set(RG_SETTING_rdma_mtu, "2048");
    open_planes();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    fill_file();
    struct rg_plane_state plane;
    rg_planes_state(world.planes, 0, &plane);
    assert_string_equal(plane.pool.address, "fe80::1");
    assert_int_equal(rail_of_a_get(NULL), 0);
    assert_int_equal(fake.last_ah.sl, 5);
    assert_int_equal(fake.last_ah.grh.hop_limit, 255);
    assert_int_equal(fake.last_ah.grh.traffic_class, 106);
}

static void takes_mtu_and_hop_limit_within_their_ranges(void **state)
{
    static const char *const mtus[] = {"256", "512", "1024", "2048", "4096"};
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(mtus); i++) {
        set(RG_SETTING_rdma_mtu, mtus[i]);
        open_planes();
        meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
        fill_file();
        size_t first = fake.open_qps;
        assert_int_equal(rail_of_a_get(NULL), 0);
        assert_int_equal(fake.open_qps, first + 1);
        assert_int_equal(fake_qp(first)->steps[1].attributes.path_mtu, IBV_MTU_256 + i);
        assert_int_equal(fake.last_ah.grh.hop_limit, 64); /* as long as nobody says otherwise */
        rg_planes_close(RG_TAKE(world.planes));
        leave_client();
    }
    fake.devices[0].ports[0].attributes.active_mtu = IBV_MTU_1024;
    set(RG_SETTING_rdma_mtu, "2048");
    expect_refusal("rdma-mtu");
    static const struct {
        enum rg_setting_id id;
        const char *value;
    } rows[] = {
        {RG_SETTING_rdma_mtu, "128"},     {RG_SETTING_rdma_mtu, "8192"},
        {RG_SETTING_rdma_mtu, "1500"},    {RG_SETTING_rdma_mtu, "Auto"},
        {RG_SETTING_rdma_hop_limit, "0"}, {RG_SETTING_rdma_hop_limit, "256"},
        {RG_SETTING_rdma_hop_limit, ""},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        int rc = rg_settings_set(&world.settings, rows[i].id, rows[i].value, RG_FROM_OPTION, "test",
                                 &world.err);
        assert_int_equal(rc, -RG_SETTING);
        assert_non_null(strstr(world.err.message, rg_setting_name(rows[i].id)));
    }
}

/* As a user without privileges who may lock `limit` bytes; the exit status is the test's. */
static int open_unprivileged(rlim_t limit)
{
    const struct rlimit locked = {.rlim_cur = limit, .rlim_max = limit};
    bool unprivileged = setrlimit(RLIMIT_MEMLOCK, &locked) == 0 &&
                        (getuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    if (!unprivileged) {
        return 3;
    }
    int rc = try_open();
    if (rc == 0) {
        return 0;
    }
    return rc == -RG_SETTING && strstr(world.err.message, "RLIMIT_MEMLOCK") ? 1 : 2;
}

static int status_of_opening(rlim_t limit)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(open_unprivileged(limit));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What all rails lock together counts, not what each does: three times a huge page here. */
static void adds_up_what_is_locked(void **state)
{
    assert_int_equal(status_of_opening(6 * MIB), 0);
    assert_int_equal(status_of_opening(6 * MIB - 1), 1);
    assert_int_equal(status_of_opening(2 * MIB), 1);
}

/* ---- Choosing ---- */

static void chooses_by_the_clients_subnet(void **state)
{
    set(RG_SETTING_rdma_devices, "mlx5_0:1,mlx5_0:2");
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rail_of_a_get("10.2.0.1"), 0);
    }
    assert_int_equal(fake.last_ah.port_num, 1);
    leave_client();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.2.0.77");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rail_of_a_get("10.1.0.1"), 1);
    }
    assert_int_equal(fake.last_ah.port_num, 2);
}

static void chooses_by_the_address_of_the_request(void **state)
{
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.2.0.77"); /* two rails are in its subnet */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rail_of_a_get("10.2.0.2"), 2);
        assert_int_equal(rail_of_a_get("10.2.0.1"), 1);
    }
    unsigned times[3] = {0};
    for (int i = 0; i < 12; i++) {
        times[rail_of_a_get("127.0.0.1")]++;
    }
    assert_int_equal(times[0], 0);
    assert_true(times[1] > 2 && times[2] > 2);
    leave_client();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.9.0.77"); /* behind a router */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rail_of_a_get("10.1.0.1"), 0);
        assert_int_equal(rail_of_a_get("10.2.0.2"), 2);
    }
}

static void await_state(size_t rail, bool up)
{
    struct rg_plane_state plane;
    uint64_t deadline = rg_clock_ms() + 20000;
    do {
        rg_planes_state(world.planes, rail, &plane);
        usleep(20000);
    } while (plane.pool.up != up && rg_clock_ms() < deadline);
    assert_int_equal(plane.pool.up, up);
    if (!up) {
        assert_true(strlen(plane.pool.reason) > 0);
    }
}

static void goes_on_without_a_rail_that_failed(void **state)
{
    set(RG_SETTING_rdma_devices, "mlx5_0:1,mlx5_0:2");
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.2.0.77");
    assert_int_equal(rail_of_a_get(NULL), 1);
    fake_set_port_state(&fake.devices[0], 2, IBV_PORT_DOWN);
    await_state(1, false); /* noticed without a transfer */
    assert_int_equal(rail_of_a_get("10.2.0.1"), 0);
    fake_set_port_state(&fake.devices[0], 2, IBV_PORT_ACTIVE);
    await_state(1, true);
    assert_int_equal(rail_of_a_get(NULL), 1);
}

static void says_that_its_only_rail_is_out(void **state)
{
    struct rg_plane_result result;
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    open_planes();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    fake_set_port_state(&fake.devices[0], 1, IBV_PORT_DOWN);
    await_state(0, false);
    assert_int_equal(move(RG_PLANE_GET, NULL, 10, &result), -RG_RDMA_NOT_SUPPORTED);
    assert_string_equal(result.reason, "rail-down");
}

/* ---- Moving over dc ---- */

static void moves_objects_both_ways(void **state)
{
    struct rg_plane_result result;
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    assert_int_equal(move(RG_PLANE_GET, NULL, OBJECT_BYTES, &result), 0);
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
        if (world.memory[i] != byte_at(i)) {
            fail_msg("byte %zu differs", i);
        }
    }
    assert_in_range(fake.ahs_made, 1, 2);
    leave_client();
    meet_client(0xffeeddcc, RG_DIRECTION_PUT, "10.1.0.77");
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
        world.memory[i] = (unsigned char)~byte_at(i);
    }
    assert_int_equal(ftruncate(world.fd, 0), 0);
    assert_int_equal(move(RG_PLANE_PUT, NULL, OBJECT_BYTES, &result), 0);
    unsigned char *stored = malloc(OBJECT_BYTES);
    assert_non_null(stored);
    assert_int_equal(pread(world.fd, stored, OBJECT_BYTES, 0), OBJECT_BYTES);
    assert_memory_equal(stored, world.memory, OBJECT_BYTES);
    free(stored);
}

static void write_key(char path[], const char *text)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void takes_the_access_key_from_a_file(void **state)
{
    char path[] = "/tmp/rg-dc-key-XXXXXX";
    struct rg_plane_result result;
    write_key(path, "0x1122334455667788\n");
    set(RG_SETTING_rdma_dc_key_file, path);
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    open_planes();
    assert_null(strstr(world.summary, "everybody knows"));
    fill_file();
    meet_client(0x1122334455667788, RG_DIRECTION_GET, "10.1.0.77");
    assert_int_equal(rail_of_a_get(NULL), 0);
    leave_client();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    memset(world.memory, 0, OBJECT_BYTES);
    assert_true(move(RG_PLANE_GET, NULL, 1000, &result) < 0);
    assert_int_equal(world.memory[1], 0);
    rg_planes_close(RG_TAKE(world.planes));
    leave_client();
    unlink(path);
    expect_refusal("rdma-dc-key-file");
    char bad[] = "/tmp/rg-dc-key-XXXXXX";
    write_key(bad, "not hex");
    set(RG_SETTING_rdma_dc_key_file, bad);
    expect_refusal("hex");
    unlink(bad);
}

/* After the answer nothing of the transfer may reach the client any more. */
static void is_quiet_when_it_gives_up(void **state)
{
    struct rg_plane_result result;
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    set(RG_SETTING_rdma_budget, "200ms");
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    fake.hold = true;
    uint64_t begun = rg_clock_ms();
    assert_true(move(RG_PLANE_GET, NULL, OBJECT_BYTES, &result) < 0);
    assert_in_range(rg_clock_ms() - begun, 150, 5000);
    for (size_t i = 0; i < fake.open_qps; i++) {
        assert_int_equal(fake_qp(i)->held_count, 0);
    }
    fake.hold = false;
    assert_int_equal(world.memory[1], 0);
    assert_int_equal(rail_of_a_get(NULL), 0); /* and the rail goes on */
    assert_int_equal(world.memory[1], byte_at(1));
}

static void declines_when_all_initiators_are_taken(void **state)
{
    struct rg_plane_result result;
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    fake.qps_max = fake.open_qps; /* the device has no more */
    assert_int_equal(move(RG_PLANE_GET, NULL, 1000, &result), -RG_RDMA_NOT_SUPPORTED);
    assert_string_equal(result.reason, "no-lane");
    fake.qps_max = 0;
    assert_int_equal(rail_of_a_get(NULL), 0);
}

static void recovers_from_every_failed_completion(void **state)
{
    struct rg_plane_result result;
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    static const enum ibv_wc_status statuses[] = {IBV_WC_REM_ACCESS_ERR, IBV_WC_RETRY_EXC_ERR,
                                                  IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(statuses); i++) {
        fake.next_status = statuses[i];
        assert_true(move(RG_PLANE_GET, NULL, OBJECT_BYTES, &result) < 0);
        memset(world.memory, 0, OBJECT_BYTES);
        assert_int_equal(rail_of_a_get(NULL), 0);
        assert_int_equal(world.memory[7], byte_at(7));
    }
    /* Each is counted under the library's number. */
    RG_BUF(text, 65536);
    rg_planes_write_statuses(world.planes, "m", &text);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(statuses); i++) {
        char label[64];
        snprintf(label, sizeof label, "status=\"%d\",text=\"", statuses[i]);
        const char *found = strstr(rg_buf_text(&text), label);
        if (!found || strncmp(strstr(found, "} "), "} 1\n", 4) != 0) {
            fail_msg("%s is not counted once: %s", label, rg_buf_text(&text));
        }
    }
}

/* What a library may make up has a ceiling. */
static void counts_statuses_within_bounds(void **state)
{
    struct rg_plane_result result;
    set(RG_SETTING_rdma_devices, "mlx5_0:1");
    open_planes();
    fill_file();
    meet_client(0xffeeddcc, RG_DIRECTION_GET, "10.1.0.77");
    for (int status = 1; status <= 22; status++) {
        if (status != IBV_WC_FATAL_ERR) {
            fake.next_status = status;
            assert_true(move(RG_PLANE_GET, NULL, OBJECT_BYTES, &result) < 0);
        }
    }
    RG_BUF(text, 65536);
    rg_planes_write_statuses(world.planes, "m", &text);
    unsigned lines = 0;
    for (const char *at = rg_buf_text(&text); *at; at++) {
        lines += *at == '\n';
    }
    assert_int_equal(lines, 16);
    assert_non_null(strstr(rg_buf_text(&text), "status=\"-1\",text=\"others\"} "));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opens_a_rail_for_each_port),
        TEST(opens_whichever_there_is),
        TEST(starts_without_dc),
        TEST(refuses_devices_that_are_not_there),
        TEST(obeys_what_was_set),
        TEST(takes_mtu_and_hop_limit_within_their_ranges),
        TEST(adds_up_what_is_locked),
        TEST(chooses_by_the_clients_subnet),
        TEST(chooses_by_the_address_of_the_request),
        TEST(goes_on_without_a_rail_that_failed),
        TEST(says_that_its_only_rail_is_out),
        TEST(moves_objects_both_ways),
        TEST(takes_the_access_key_from_a_file),
        TEST(is_quiet_when_it_gives_up),
        TEST(declines_when_all_initiators_are_taken),
        TEST(recovers_from_every_failed_completion),
        TEST(counts_statuses_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
