/* Opening a port over the fake library: which device, port and GID, what it says of itself, and
 * what it makes of events and completions. */
#include "test.h"

#include "fake_verbs.h"
#include "rdma/port.h"

#include "base/checked.h"

#include <errno.h>
#include <stdlib.h>

static struct rg_port port;
static struct rg_rail_config config;
static struct rg_error error;

static int start(void **state)
{
    fake_reset();
    config = (struct rg_rail_config)RG_RAIL_CONFIG_INIT;
    memset(&port, 0, sizeof port);
    return 0;
}

static int end(void **state)
{
    rg_port_close(&port);
    fake_expect_empty();
    rg_verbs_replace(NULL, NULL);
    return 0;
}

static void open_it(void)
{
    if (rg_port_open(&port, &fake_verbs, &config, NULL, &error) < 0) {
        fail_msg("%s", error.message);
    }
}

static void refuse(enum rg_code code, const char *word)
{
    int rc = rg_port_open(&port, &fake_verbs, &config, NULL, &error);
    if (rc != -(int)code || !strstr(error.message, word)) {
        fail_msg("%d, not %d: \"%s\" should say \"%s\"", rc, -(int)code, error.message, word);
    }
    fake_expect_empty();
}

static void set_name(char *field, size_t room, const char *name)
{
    assert_true(strlen(name) < room);
    memcpy(field, name, strlen(name) + 1);
}

#define SET(field, name) set_name(config.field, sizeof config.field, name)

/* ---- Choosing ---- */

static void describes_what_it_opened(void **state)
{
    struct rg_rail rail = {0};
    open_it();
    rg_port_describe(&port, &config, &rail);
    assert_string_equal(rail.device, "mlx5_0");
    assert_string_equal(rail.address, "192.0.2.17");
    assert_int_equal(rail.gid_index, 3);
    assert_int_equal(rail.traffic_class, 0);
    assert_int_equal(rail.mtu, 4096);
    assert_int_equal(rail.message_bytes_max, 1 << 30);
    assert_true(rail.is_hardware);
    assert_true(rail.pins_memory);
    assert_false(rail.target_needs_progress);
}

static void knows_soft_roce(void **state)
{
    struct rg_rail rail = {0};
    fake.devices[0].attributes.vendor_id = RG_VENDOR_SOFT_ROCE;
    open_it();
    rg_port_describe(&port, &config, &rail);
    assert_false(rail.is_hardware);
}

/* Old libraries tell the table entry by entry, and its types come from sysfs. */
static void reads_the_table_of_old_libraries(void **state)
{
    fake_verbs.query_gid_table = NULL;
    open_it();
    assert_int_equal(port.gids.count, 4);
    assert_int_equal(port.gid->index, 3);
    assert_int_equal(port.gid->type, RG_GID_ROCE_V2);
    assert_string_equal(port.gid->netdev, "eth0");
}

static void steps_over_holes(void **state)
{
    struct fake_device *device = &fake.devices[0];
    memset(device->ports[0].gids, 0, sizeof device->ports[0].gids);
    fake_set_gid(device, 1, 5, "2001:db8::5", RG_GID_ROCE_V2, "eth0");
    fake_set_gid(device, 1, 11, "10.9.0.1", RG_GID_ROCE_V2, "eth0");
    for (int i = 0; i < 2; i++) {
        open_it();
        assert_int_equal(port.gids.count, 2);
        assert_int_equal(port.gid->index, 11);
        rg_port_close(&port);
        fake_verbs.query_gid_table = NULL;
    }
    config.gid_index = 5;
    open_it();
    assert_int_equal(port.gid->index, 5);
    rg_port_close(&port);
    config.gid_index = 6;
    refuse(RG_SETTING, "index 6");
}

static void opens_infiniband(void **state)
{
    fake.device_count = 0;
    struct fake_device *device = fake_add_device("mlx5_ib", IBV_LINK_LAYER_INFINIBAND);
    fake_set_gid(device, 1, 0, "fe80::2:c903:a1:b2c3", RG_GID_INFINIBAND, NULL);
    device->ports[0].ip = "10.1.0.5";
    open_it();
    assert_false(port.is_ethernet);
    assert_int_equal(port.gid->index, 0);
    assert_int_equal(port.gid->type, RG_GID_INFINIBAND);
    assert_int_equal(port.traffic_class, 0);
    assert_string_equal(fake.dcb_netdev, ""); /* there is none to ask */
    rg_port_close(&port);
    SET(address, "10.1.0.5");
    open_it();
    rg_port_close(&port);
    SET(address, "10.1.0.6");
    refuse(RG_SETTING, "10.1.0.6");
}

static void finds_the_port_with_the_address(void **state)
{
    struct fake_device *first = &fake.devices[0];
    struct fake_device *second = fake_add_device("mlx5_1", IBV_LINK_LAYER_ETHERNET);
    first->attributes.phys_port_cnt = 2;
    fake_set_gid(first, 2, 0, "198.51.100.1", RG_GID_ROCE_V2, "eth1");
    fake_set_gid(second, 1, 0, "203.0.113.1", RG_GID_ROCE_V2, "eth2");
    static const struct {
        const char *address;
        const char *device;
        uint8_t port;
    } rows[] = {
        {"192.0.2.17", "mlx5_0", 1}, {"198.51.100.1", "mlx5_0", 2}, {"203.0.113.1", "mlx5_1", 1}};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        SET(address, rows[i].address);
        open_it();
        assert_string_equal(port.context->device->name, rows[i].device);
        assert_int_equal(port.number, rows[i].port);
        assert_true(rg_gid_is_address(port.gid->gid, rows[i].address));
        rg_port_close(&port);
    }
    SET(address, "203.0.113.2");
    refuse(RG_SETTING, "203.0.113.2");
    SET(address, "");
    SET(device, "mlx5_1");
    open_it();
    assert_string_equal(port.context->device->name, "mlx5_1");
}

static void passes_over_ports_that_are_down(void **state)
{
    struct fake_device *first = &fake.devices[0];
    struct fake_device *second = fake_add_device("mlx5_1", IBV_LINK_LAYER_ETHERNET);
    fake_set_gid(second, 1, 0, "203.0.113.1", RG_GID_ROCE_V2, "eth2");
    first->ports[0].attributes.state = IBV_PORT_DOWN;
    open_it();
    assert_string_equal(port.context->device->name, "mlx5_1");
    rg_port_close(&port);
    /* Named, it is waited for. */
    SET(device, "mlx5_0");
    refuse(RG_SERVICE_UNAVAILABLE, "No port of RDMA device mlx5_0 is active");
    SET(device, "");
    SET(address, "192.0.2.17");
    refuse(RG_SERVICE_UNAVAILABLE, "active");
}

static void says_why_nothing_fits(void **state)
{
    SET(device, "mlx5_7");
    refuse(RG_SETTING, "mlx5_7");
    SET(device, "mlx5_0");
    config.port = 2;
    refuse(RG_SETTING, "no port 2");
    config.port = 0;
    fake.devices[0].fail_open = EACCES;
    refuse(RG_SERVICE_UNAVAILABLE, "cannot be opened");
    fake.devices[0].fail_open = 0;
    fake.fail_query_port = EIO;
    refuse(RG_SERVICE_UNAVAILABLE, "cannot be opened");
    fake.fail_query_port = 0;
    fake.fail_pd = ENOMEM;
    refuse(RG_SERVICE_UNAVAILABLE, "protection domain");
    fake.fail_pd = 0;
    memset(fake.devices[0].ports[0].gids, 0, sizeof fake.devices[0].ports[0].gids);
    refuse(RG_SERVICE_UNAVAILABLE, "no GID");
    fake.devices[0].public.transport_type = IBV_TRANSPORT_IWARP;
    refuse(RG_RDMA_NOT_SUPPORTED, "kind");
    SET(device, "");
    fake.device_count = 0;
    refuse(RG_RDMA_NOT_SUPPORTED, "no RDMA device");
    fake.no_device_list = true;
    refuse(RG_RDMA_NOT_SUPPORTED, "no RDMA devices");
}

static void refuses_settings_that_mean_nothing(void **state)
{
    config.mtu = 1500;
    refuse(RG_SETTING, "MTU");
    config.mtu = 0;
    config.hop_limit = 0;
    refuse(RG_SETTING, "hop limit");
    config.hop_limit = 64;
    config.ack_timeout = 0;
    refuse(RG_SETTING, "time-out");
}

/* ---- What follows from the port and the host ---- */

static void takes_the_mtu_that_was_asked_for(void **state)
{
    static const struct {
        enum ibv_mtu active;
        uint32_t wanted, got;
    } rows[] = {
        {IBV_MTU_1024, 0, 1024},  {IBV_MTU_4096, 2048, 2048}, {IBV_MTU_4096, 256, 256},
        {IBV_MTU_256, 0, 256},    {IBV_MTU_4096, 4096, 4096}, {IBV_MTU_1024, 1024, 1024},
        {IBV_MTU_2048, 512, 512},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        fake.devices[0].ports[0].attributes.active_mtu = rows[i].active;
        config.mtu = rows[i].wanted;
        open_it();
        assert_int_equal(port.mtu, rows[i].got);
        rg_port_close(&port);
    }
    fake.devices[0].ports[0].attributes.active_mtu = IBV_MTU_1024;
    config.mtu = 2048;
    refuse(RG_SETTING, "MTU 2048 is above the active MTU of port 1");
    config.mtu = 4096;
    refuse(RG_SETTING, "1024 bytes (rdma-mtu)");
    config.mtu = 0;
    fake.devices[0].ports[0].attributes.active_mtu = 0;
    refuse(RG_SERVICE_UNAVAILABLE, "MTU");
}

static void converts_mtus(void **state)
{
    assert_int_equal(rg_port_mtu(0), 0);
    assert_int_equal(rg_port_mtu(255), 0);
    assert_int_equal(rg_port_mtu(256), IBV_MTU_256);
    assert_int_equal(rg_port_mtu(1500), IBV_MTU_1024);
    assert_int_equal(rg_port_mtu(4095), IBV_MTU_2048);
    assert_int_equal(rg_port_mtu(9000), IBV_MTU_4096);
}

static void takes_the_traffic_class_from_the_host(void **state)
{
    fake.dcb.known = true;
    fake.dcb.pfc_enabled = 1 << 3;
    fake.dcb.priority_of_dscp[26] = 3;
    fake.dcb.has_dscp_rules = true;
    open_it();
    assert_string_equal(fake.dcb_netdev, "eth0");
    assert_int_equal(port.traffic_class, (26 << 2) | 2);
    rg_port_close(&port);
    config.traffic_class = 96;
    open_it();
    assert_int_equal(port.traffic_class, 96);
    rg_port_close(&port);
    config.traffic_class = 0;
    open_it();
    assert_int_equal(port.traffic_class, 0);
}

static void splits_at_the_longest_message(void **state)
{
    static const struct {
        uint32_t said;
        uint64_t used;
    } rows[] = {
        {0, 1U << 30}, {1U << 20, 1U << 20}, {(1U << 20) + 5, 1U << 20}, {1U << 31, 1U << 30}};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        fake.devices[0].ports[0].attributes.max_msg_sz = rows[i].said;
        open_it();
        assert_int_equal(port.message_bytes, rows[i].used);
        rg_port_close(&port);
    }
    fake.devices[0].ports[0].attributes.max_msg_sz = 100;
    refuse(RG_RDMA_NOT_SUPPORTED, "too little");
}

/* ---- Health ---- */

static struct fake_qp *condemned;
static unsigned condemnations;

static void condemn(void *queue_context, enum ibv_event_type kind)
{
    condemned = queue_context;
    condemnations++;
}

static void follows_port_events(void **state)
{
    open_it();
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_NONE);
    fake_event(IBV_EVENT_PORT_ERR, 2, NULL); /* another port's */
    rg_port_take_events(&port, condemn);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_NONE);
    fake_event(IBV_EVENT_PORT_ERR, 1, NULL);
    rg_port_take_events(&port, condemn);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_PORT_DOWN);
    fake_event(IBV_EVENT_PORT_ACTIVE, 2, NULL);
    rg_port_take_events(&port, condemn);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_PORT_DOWN);
    fake_event(IBV_EVENT_PORT_ERR, 1, NULL);
    fake_event(IBV_EVENT_PORT_ACTIVE, 1, NULL);
    fake_event(IBV_EVENT_LID_CHANGE, 1, NULL);
    rg_port_take_events(&port, condemn);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_NONE);
    fake_event(IBV_EVENT_DEVICE_FATAL, 0, NULL);
    rg_port_take_events(&port, condemn);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_DEVICE_GONE);
    assert_int_equal(rg_port_check(&port, &error), -RG_SERVICE_UNAVAILABLE);
    assert_int_equal(condemnations, 0);
}

static void condemns_queues(void **state)
{
    open_it();
    struct ibv_cq *cq = fake_verbs.create_cq(port.context, 4, &port, NULL, 0);
    struct ibv_qp_init_attr made = {.qp_context = &config, .send_cq = cq, .recv_cq = cq};
    struct ibv_qp *qp = fake_verbs.create_qp(port.pd, &made);
    condemnations = 0;
    fake_event(IBV_EVENT_QP_ACCESS_ERR, 0, fake_qp(0));
    rg_port_take_events(&port, condemn);
    assert_ptr_equal(condemned, &config);
    fake_event(IBV_EVENT_CQ_ERR, 0, fake_qp(0));
    rg_port_take_events(&port, condemn);
    assert_ptr_equal(condemned, &port);
    assert_int_equal(condemnations, 2);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_NONE);
    fake_verbs.destroy_qp(qp);
    fake_verbs.destroy_cq(cq);
}

static void notices_a_device_that_was_pulled_out(void **state)
{
    open_it();
    rg_port_take_events(&port, condemn); /* none: that is no failure */
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_NONE);
    fake_pull_out();
    rg_port_take_events(&port, condemn);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_DEVICE_GONE);
}

static void checks_the_port(void **state)
{
    struct ibv_port_attr *attributes = &fake.devices[0].ports[0].attributes;
    open_it();
    assert_int_equal(rg_port_check(&port, &error), 0);
    attributes->state = IBV_PORT_DOWN;
    assert_int_equal(rg_port_check(&port, &error), -RG_SERVICE_UNAVAILABLE);
    assert_non_null(strstr(error.message, "not active"));
    assert_int_equal(rg_port_ask(&port), RG_CAUSE_PORT_DOWN);
    attributes->state = IBV_PORT_ACTIVE;
    assert_int_equal(rg_port_check(&port, &error), 0);
    assert_int_equal(rg_port_cause(&port), RG_CAUSE_NONE); /* that it is up again was noticed */
    /* The address moves away, and with it the GID. */
    memset(fake.devices[0].ports[0].gids[3].gid, 0, 16);
    assert_int_equal(rg_port_check(&port, &error), -RG_SERVICE_UNAVAILABLE);
    assert_non_null(strstr(error.message, "lost its address"));
    fake.fail_query_port = EIO;
    assert_int_equal(rg_port_check(&port, &error), -RG_SERVICE_UNAVAILABLE);
    assert_int_equal(rg_port_ask(&port), RG_CAUSE_DEVICE_GONE);
}

static void classifies_every_status(void **state)
{
    static const struct {
        enum ibv_wc_status status;
        enum rg_broke broke;
        enum rg_cause cause;
    } rows[] = {
        {IBV_WC_SUCCESS, RG_BROKE_NOTHING, RG_CAUSE_NONE},
        {IBV_WC_LOC_LEN_ERR, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL},
        {IBV_WC_LOC_QP_OP_ERR, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL},
        {IBV_WC_LOC_EEC_OP_ERR, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL},
        {IBV_WC_LOC_PROT_ERR, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL},
        {IBV_WC_WR_FLUSH_ERR, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED},
        {IBV_WC_MW_BIND_ERR, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL},
        {IBV_WC_BAD_RESP_ERR, RG_BROKE_CONNECTION, RG_CAUSE_OTHER},
        {IBV_WC_LOC_ACCESS_ERR, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL},
        {IBV_WC_REM_INV_REQ_ERR, RG_BROKE_CONNECTION, RG_CAUSE_REMOTE_ACCESS},
        {IBV_WC_REM_ACCESS_ERR, RG_BROKE_CONNECTION, RG_CAUSE_REMOTE_ACCESS},
        {IBV_WC_REM_OP_ERR, RG_BROKE_CONNECTION, RG_CAUSE_OTHER},
        {IBV_WC_RETRY_EXC_ERR, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE},
        {IBV_WC_RNR_RETRY_EXC_ERR, RG_BROKE_CONNECTION, RG_CAUSE_PEER_NOT_READY},
        {IBV_WC_LOC_RDD_VIOL_ERR, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL},
        {IBV_WC_REM_INV_RD_REQ_ERR, RG_BROKE_CONNECTION, RG_CAUSE_REMOTE_ACCESS},
        {IBV_WC_REM_ABORT_ERR, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE},
        {IBV_WC_INV_EECN_ERR, RG_BROKE_CONNECTION, RG_CAUSE_OTHER},
        {IBV_WC_INV_EEC_STATE_ERR, RG_BROKE_CONNECTION, RG_CAUSE_OTHER},
        {IBV_WC_FATAL_ERR, RG_BROKE_DEVICE, RG_CAUSE_DEVICE_GONE},
        {IBV_WC_RESP_TIMEOUT_ERR, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE},
        {IBV_WC_GENERAL_ERR, RG_BROKE_CONNECTION, RG_CAUSE_OTHER},
        {(enum ibv_wc_status)99, RG_BROKE_CONNECTION, RG_CAUSE_OTHER},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        enum rg_broke broke;
        enum rg_cause cause;
        rg_port_classify(rows[i].status, &broke, &cause);
        assert_int_equal(broke, rows[i].broke);
        assert_int_equal(cause, rows[i].cause);
    }
}

/* ---- Memory ---- */

static void tells_why_memory_is_not_registered(void **state)
{
    static const struct {
        int os_errno;
        enum rg_code code;
    } rows[] = {
        {EFAULT, RG_INVALID_ARGUMENT}, {EINVAL, RG_INVALID_ARGUMENT},
        {EACCES, RG_INVALID_ARGUMENT}, {EOPNOTSUPP, RG_RDMA_NOT_SUPPORTED},
        {EIO, RG_SERVICE_UNAVAILABLE},
    };
    char memory[64];
    struct rg_region *region = NULL;
    open_it();
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        fake.fail_mr = rows[i].os_errno;
        assert_int_equal(rg_port_register(&port, memory, sizeof memory, 0, &region, &error),
                         -(int)rows[i].code);
        assert_null(region);
    }
    fake.fail_mr = ENOMEM; /* which of the two depends on this process's limit */
    int rc = rg_port_register(&port, memory, sizeof memory, 0, &region, &error);
    assert_true(rc == -RG_LIMIT || rc == -RG_OUT_OF_MEMORY);
    fake.fail_mr = 0;
    assert_int_equal(
        rg_port_register(&port, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE, &region, &error), 0);
    rg_port_deregister(&port, region);
    fake_verbs.reg_dmabuf_mr = NULL;
    assert_int_equal(rg_port_register_dmabuf(&port, 0, 0, 4096, 4096, 0, &region, &error),
                     -RG_RDMA_NOT_SUPPORTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(describes_what_it_opened),
        TEST(knows_soft_roce),
        TEST(reads_the_table_of_old_libraries),
        TEST(steps_over_holes),
        TEST(opens_infiniband),
        TEST(finds_the_port_with_the_address),
        TEST(passes_over_ports_that_are_down),
        TEST(says_why_nothing_fits),
        TEST(refuses_settings_that_mean_nothing),
        TEST(takes_the_mtu_that_was_asked_for),
        TEST(converts_mtus),
        TEST(takes_the_traffic_class_from_the_host),
        TEST(splits_at_the_longest_message),
        TEST(follows_port_events),
        TEST(condemns_queues),
        TEST(notices_a_device_that_was_pulled_out),
        TEST(checks_the_port),
        TEST(classifies_every_status),
        TEST(tells_why_memory_is_not_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
