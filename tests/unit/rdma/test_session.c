/* The table of sessions: ceilings, owners, what is reaped, and that nothing is left over. */
#include "test.h"

#include "mock_rc.h"

#include "base/clock.h"
#include "rdma/session.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define SLOT   65536u
#define COOKIE 0x5eed1234u

static struct {
    struct rg_slab *slab;
    struct rg_pool *pool;
    struct rg_sessions *sessions;
    struct rg_sessions_config config;
} world;
static struct rg_error error;
static char memory[4 * SLOT];

static const struct rg_lane_address peer = {.qpn = 0x1a2, .psn = 0x0a1b2c, .has_gid = true};

static void nap(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000},
              NULL);
}

static int begin(void **state)
{
    mock_rc_reset();
    struct rg_slab_config slab = {.slot_bytes = SLOT, .slot_count = 4};
    assert_int_equal(rg_slab_open(&slab, &world.slab, &error), 0);
    struct rg_pool_config pool = RG_POOL_CONFIG_INIT;
    pool.transport = &mock_rc_transport;
    pool.slab = world.slab;
    pool.lanes_max = 2;
    pool.sessions_only = true;
    pool.retry_ms_min = 20;
    assert_int_equal(rg_pool_open(&pool, &world.pool, &error), 0);
    world.config = (struct rg_sessions_config){
        .sessions_max = 4,
        .principal_max = 3,
        .staging_max = 100000,
        .staging_principal_max = 60000,
        .idle_ms = 60000,
        .evict_ms = 60000,
        .prepare_ms = 60000,
    };
    return 0;
}

static void open_table(void)
{
    assert_int_equal(rg_sessions_new(&world.config, &world.sessions, &error), 0);
}

static int end(void **state)
{
    rg_sessions_free(world.sessions);
    world.sessions = NULL;
    assert_int_equal(mock.lanes_open, 0);
    assert_int_equal(mock_rc.windows, 0);
    assert_int_equal(mock.regions, rg_slab_region(world.slab) ? 1 : 0); /* the slab's own */
    rg_pool_close(world.pool);
    rg_slab_close(world.slab);
    assert_int_equal(mock.rails_open, 0);
    return 0;
}

static struct rg_sessions_state look(void)
{
    struct rg_sessions_state state;
    rg_sessions_state(world.sessions, &state);
    return state;
}

static uint64_t events(enum rg_session_kind kind, enum rg_session_event event)
{
    return look().events[kind][event];
}

/* ---- D2 ---- */

static struct rg_session_id connect_as(const char *principal)
{
    struct rg_session_opened opened;
    assert_int_equal(
        rg_sessions_connect(world.sessions, world.pool, principal, &peer, &opened, &error), 0);
    assert_false(opened.has_staging);
    assert_int_equal(opened.own.psn, 0xbeef);
    return opened.id;
}

static void refuse_connect(const char *principal, enum rg_code code)
{
    struct rg_session_opened opened;
    assert_int_equal(
        rg_sessions_connect(world.sessions, world.pool, principal, &peer, &opened, &error),
        -(int)code);
}

static struct rg_session *take(const char *principal, const struct rg_session_id *id)
{
    struct rg_session *session;
    assert_int_equal(rg_sessions_take(world.sessions, principal, id, 0, &session, &error), 0);
    return session;
}

static void refuse_take(const char *principal, const struct rg_session_id *id, uint32_t wait_ms,
                        enum rg_code code)
{
    struct rg_session *session;
    assert_int_equal(rg_sessions_take(world.sessions, principal, id, wait_ms, &session, &error),
                     -(int)code);
}

static void a_session_is_taken_and_given(void **state)
{
    open_table();
    struct rg_session_id id = connect_as("alice");
    assert_int_equal(mock_rc.pairings, 1);
    assert_int_equal(mock_rc.last_peer_qpn, 0x1a2);
    for (int i = 0; i < 3; i++) {
        struct rg_session *session = take("alice", &id);
        assert_ptr_equal(rg_session_pool(session), world.pool);
        assert_non_null(rg_session_lane(session));
        assert_int_equal(look().taken[RG_SESSION_RC], 1);
        rg_sessions_give(session);
        assert_int_equal(look().taken[RG_SESSION_RC], 0);
    }
    assert_int_equal(mock.lanes_open, 1);
    assert_int_equal(rg_sessions_disconnect(world.sessions, "alice", &id, &error), 0);
    assert_int_equal(mock.lanes_open, 0);
    assert_int_equal(look().open[RG_SESSION_RC], 0);
    refuse_take("alice", &id, 0, RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(rg_sessions_disconnect(world.sessions, "alice", &id, &error),
                     -RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(events(RG_SESSION_RC, RG_SESSION_EVENT_FINISHED), 1);
}

static void another_principal_finds_nothing(void **state)
{
    open_table();
    struct rg_session_id id = connect_as("alice");
    struct rg_session_id wrong = id;
    wrong.bytes[15] ^= 1;
    refuse_take("bob", &id, 0, RG_RDMA_NO_SUCH_SESSION);
    refuse_take("", &id, 0, RG_RDMA_NO_SUCH_SESSION);
    refuse_take("alice", &wrong, 0, RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(rg_sessions_disconnect(world.sessions, "bob", &id, &error),
                     -RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(rg_sessions_cancel(world.sessions, "alice", &id, &error),
                     -RG_RDMA_NO_SUCH_SESSION); /* of the other dialect */
    rg_sessions_give(take("alice", &id));
}

static void ceilings_hold(void **state)
{
    open_table();
    connect_as("alice");
    connect_as("alice");
    connect_as("alice");
    refuse_connect("alice", RG_SLOW_DOWN);
    struct rg_session_id id = connect_as("bob");
    refuse_connect("bob", RG_SLOW_DOWN);
    refuse_connect("carol", RG_SLOW_DOWN);
    assert_int_equal(mock.lanes_open, 4);
    assert_int_equal(events(RG_SESSION_RC, RG_SESSION_EVENT_REFUSED), 3);
    assert_int_equal(rg_sessions_disconnect(world.sessions, "bob", &id, &error), 0);
    connect_as("carol");
}

static void an_idle_one_makes_room(void **state)
{
    world.config.evict_ms = 10;
    open_table();
    struct rg_session_id oldest = connect_as("alice");
    struct rg_session_id other = connect_as("alice");
    struct rg_session_id busy = connect_as("alice");
    struct rg_session *session = take("alice", &busy);
    nap(15);
    rg_sessions_give(take("alice", &oldest)); /* no longer the one that idles the longest */
    struct rg_session_id fresh = connect_as("alice");
    refuse_take("alice", &other, 0, RG_RDMA_NO_SUCH_SESSION);
    rg_sessions_give(take("alice", &fresh));
    rg_sessions_give(take("alice", &oldest));
    assert_int_equal(events(RG_SESSION_RC, RG_SESSION_EVENT_EVICTED), 1);
    /* What belongs to others, or is in use, never goes. */
    connect_as("bob");
    nap(15);
    refuse_connect("carol", RG_SLOW_DOWN);
    rg_sessions_give(session);
}

static void *give_soon(void *session)
{
    nap(30);
    rg_sessions_give(session);
    return NULL;
}

static void one_transfer_at_a_time(void **state)
{
    open_table();
    struct rg_session_id id = connect_as("alice");
    struct rg_session *session = take("alice", &id);
    refuse_take("alice", &id, 0, RG_LIMIT);
    refuse_take("alice", &id, 20, RG_LIMIT);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_soon, session), 0);
    assert_int_equal(rg_sessions_take(world.sessions, "alice", &id, 5000, &session, &error), 0);
    pthread_join(thread, NULL);
    /* A disconnect while it is in use takes effect at its end. */
    assert_int_equal(rg_sessions_disconnect(world.sessions, "alice", &id, &error), 0);
    assert_int_equal(mock.lanes_open, 1);
    refuse_take("alice", &id, 0, RG_RDMA_NO_SUCH_SESSION);
    rg_sessions_give(session);
    assert_int_equal(mock.lanes_open, 0);
}

static void idle_sessions_are_reaped(void **state)
{
    world.config.idle_ms = 30;
    open_table();
    struct rg_session_id idle = connect_as("alice");
    struct rg_session_id busy = connect_as("alice");
    struct rg_session *session = take("alice", &busy);
    assert_int_equal(rg_sessions_tick(world.sessions), 0);
    nap(40);
    assert_int_equal(rg_sessions_tick(world.sessions), 1);
    refuse_take("alice", &idle, 0, RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(mock.lanes_open, 1);
    rg_sessions_give(session);
    assert_int_equal(rg_sessions_tick(world.sessions), 0);
    assert_int_equal(events(RG_SESSION_RC, RG_SESSION_EVENT_REAPED), 1);
}

static void a_broken_lane_ends_the_session(void **state)
{
    open_table();
    struct rg_session_id id = connect_as("alice");
    struct rg_session *session = take("alice", &id);
    (void)rg_lane_break(rg_session_lane(session), RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE, NULL,
                        NULL);
    rg_sessions_give(session);
    assert_int_equal(mock.lanes_open, 0);
    refuse_take("alice", &id, 0, RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(events(RG_SESSION_RC, RG_SESSION_EVENT_BROKEN), 1);
    struct rg_pool_state pool;
    rg_pool_state(world.pool, &pool);
    assert_true(pool.up); /* that was the peer's fault */
    assert_int_equal(pool.lanes_broken, 1);
    assert_int_equal(pool.broken_by_cause[RG_CAUSE_PEER_GONE], 1);
}

static void a_broken_rail_ends_them_all(void **state)
{
    open_table();
    struct rg_session_id id = connect_as("alice");
    struct rg_session_id other = connect_as("bob");
    struct rg_session *session = take("alice", &id);
    mock.fail_rail_open = true;
    (void)rg_lane_break(rg_session_lane(session), RG_BROKE_DEVICE, RG_CAUSE_PORT_DOWN, NULL, NULL);
    rg_sessions_give(session);
    assert_false(rg_pool_is_up(world.pool));
    refuse_take("bob", &other, 0, RG_RDMA_NO_SUCH_SESSION);
    refuse_connect("bob", RG_SERVICE_UNAVAILABLE);
    assert_int_equal(mock.rails_open, 1); /* bob's session still holds it */
    assert_int_equal(rg_sessions_tick(world.sessions), 1);
    assert_int_equal(mock.lanes_open, 0);
    assert_int_equal(mock.rails_open, 0);
    mock.fail_rail_open = false;
    nap(30);
    rg_pool_tick(world.pool);
    assert_true(rg_pool_is_up(world.pool));
    id = connect_as("alice");
    rg_sessions_give(take("alice", &id));
}

static void what_cannot_be_opened_leaves_nothing(void **state)
{
    open_table();
    mock.fail_lane_open = true;
    refuse_connect("alice", RG_SLOW_DOWN);
    mock.fail_lane_open = false;
    mock_rc.fail_pair = true;
    refuse_connect("alice", RG_RDMA_TRANSFER_FAILED);
    mock_rc.fail_pair = false;
    assert_int_equal(look().open[RG_SESSION_RC], 0);
    assert_int_equal(mock.lanes_open, 0);
    connect_as("alice");
}

static void stopping_lets_nobody_in(void **state)
{
    open_table();
    struct rg_session_id id = connect_as("alice");
    struct rg_session *session = take("alice", &id);
    rg_sessions_stop(world.sessions);
    refuse_connect("alice", RG_CANCELLED);
    refuse_take("alice", &id, 1000, RG_CANCELLED);
    assert_true(*rg_session_cancel(session));
    rg_sessions_give(session);
}

/* ---- D4 ---- */

static atomic_int orders_freed;

static void free_order(void *order)
{
    assert_string_equal(order, "order");
    orders_freed++;
}

static struct rg_push_prepare order_of(enum rg_direction direction, uint64_t size)
{
    return (struct rg_push_prepare){
        .peer = peer,
        .cookie = COOKIE,
        .direction = direction,
        .size = size,
    };
}

static char order[] = "order";

static int prepare(const char *principal, enum rg_direction direction, uint64_t size,
                   struct rg_session_opened *ret_opened)
{
    struct rg_push_prepare wanted = order_of(direction, size);
    return rg_sessions_prepare(world.sessions, world.pool, principal, &wanted, order, free_order,
                               ret_opened, &error);
}

static struct rg_session_opened must_prepare(enum rg_direction direction, uint64_t size)
{
    struct rg_session_opened opened;
    assert_int_equal(prepare("alice", direction, size, &opened), 0);
    return opened;
}

static struct rg_push_ready ready_for(const struct rg_session_opened *opened)
{
    return (struct rg_push_ready){
        .session = opened->id,
        .cookie = COOKIE,
        .qpn = 0x333,
        .has_window = true,
        .address = (uintptr_t)memory,
        .rkey = 7,
    };
}

static struct rg_session *make_ready(const struct rg_session_opened *opened)
{
    struct rg_push_ready ready = ready_for(opened);
    struct rg_session *session;
    assert_int_equal(rg_sessions_ready(world.sessions, "alice", &ready, &session, &error), 0);
    return session;
}

static void refuse_ready(const char *principal, const struct rg_push_ready *ready,
                         enum rg_code code)
{
    struct rg_session *session;
    assert_int_equal(rg_sessions_ready(world.sessions, principal, ready, &session, &error),
                     -(int)code);
}

static void a_push_arrives(void **state)
{
    open_table();
    orders_freed = 0;
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_PUT, 5000);
    assert_true(opened.has_staging);
    assert_int_equal(opened.staging.length, 5000);
    assert_int_equal(mock_rc.receives, 1); /* before READY: the peer need not wait */
    assert_int_equal(mock_rc.pairings, 0);
    assert_int_equal(look().staging_bytes, 5000);
    struct rg_session *session = make_ready(&opened);
    assert_int_equal(mock_rc.last_peer_qpn, 0x333); /* READY's, not the token's */
    assert_string_equal(rg_session_order(session), "order");
    memset((void *)(uintptr_t)opened.staging.address, 'x', 5000); /* NOLINT */
    mock_rc_push(COOKIE, 5000);
    struct span bytes;
    assert_int_equal(rg_session_await_push(session, 1000, &bytes, &error), 0);
    assert_int_equal(mock_rc.windows, 0); /* the key is gone before the bytes are read */
    assert_int_equal(mock.regions, 1);
    assert_int_equal(bytes.len, 5000);
    assert_int_equal(bytes.ptr[4999], 'x');
    rg_sessions_finish(session);
    assert_int_equal(orders_freed, 1);
    assert_int_equal(look().staging_bytes, 0);
    assert_int_equal(look().open[RG_SESSION_PUSH], 0);
    assert_int_equal(events(RG_SESSION_PUSH, RG_SESSION_EVENT_FINISHED), 1);
}

static void push_wrongly(uint32_t immediate, uint64_t length, enum rg_broke broke,
                         enum rg_code code)
{
    struct span bytes;
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_PUT, 5000);
    struct rg_session *session = make_ready(&opened);
    mock_rc.push_broke = broke;
    mock_rc_push(immediate, length);
    assert_int_equal(rg_session_await_push(session, 1000, &bytes, &error), -(int)code);
    rg_sessions_finish(session);
    assert_int_equal(look().staging_bytes, 0);
    assert_int_equal(mock.lanes_open, 0);
    mock_rc.push_broke = RG_BROKE_NOTHING;
}

static void a_wrong_push_is_refused(void **state)
{
    open_table();
    push_wrongly(COOKIE + 1, 5000, RG_BROKE_NOTHING, RG_INVALID_REQUEST);
    push_wrongly(COOKIE, 4999, RG_BROKE_NOTHING, RG_INVALID_REQUEST);
    push_wrongly(COOKIE, 5001, RG_BROKE_NOTHING, RG_INVALID_REQUEST);
    push_wrongly(COOKIE, 5000, RG_BROKE_CONNECTION, RG_RDMA_TRANSFER_FAILED);
}

static void a_push_that_does_not_come(void **state)
{
    open_table();
    struct span bytes;
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_PUT, 5000);
    struct rg_session *session = make_ready(&opened);
    assert_int_equal(rg_session_await_push(session, 50, &bytes, &error), -RG_RDMA_TIMED_OUT);
    rg_sessions_finish(session);
    opened = must_prepare(RG_DIRECTION_PUT, 5000);
    session = make_ready(&opened);
    assert_int_equal(rg_sessions_cancel(world.sessions, "alice", &opened.id, &error), 0);
    assert_int_equal(rg_session_await_push(session, 5000, &bytes, &error), -RG_CANCELLED);
    rg_sessions_finish(session);
    assert_int_equal(events(RG_SESSION_PUSH, RG_SESSION_EVENT_CANCELLED), 1);
}

static void staging_has_ceilings(void **state)
{
    open_table();
    struct rg_session_opened opened;
    assert_int_equal(prepare("alice", RG_DIRECTION_PUT, 60001, &opened), -RG_RDMA_TOO_LARGE);
    assert_int_equal(prepare("alice", RG_DIRECTION_PUT, 60000, &opened), 0);
    struct rg_session_id id = opened.id;
    assert_int_equal(prepare("alice", RG_DIRECTION_PUT, 1, &opened), -RG_SLOW_DOWN);
    assert_int_equal(prepare("bob", RG_DIRECTION_PUT, 40001, &opened), -RG_SLOW_DOWN);
    assert_int_equal(prepare("bob", RG_DIRECTION_PUT, 40000, &opened), 0);
    assert_int_equal(prepare("carol", RG_DIRECTION_GET, 1 << 30, &opened), 0); /* needs none */
    assert_false(opened.has_staging);
    assert_int_equal(rg_sessions_cancel(world.sessions, "alice", &id, &error), 0);
    assert_int_equal(look().staging_bytes, 40000);
    assert_int_equal(prepare("alice", RG_DIRECTION_PUT, 60000, &opened), 0);
    assert_int_equal(prepare("alice", RG_DIRECTION_PUT, 1, &opened), -RG_SLOW_DOWN);
    assert_int_equal(events(RG_SESSION_PUSH, RG_SESSION_EVENT_REFUSED), 4);
}

static void ready_is_asked_for_all_it_must_say(void **state)
{
    open_table();
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_GET, 5000);
    struct rg_push_ready ready = ready_for(&opened);
    refuse_ready("bob", &ready, RG_RDMA_NO_SUCH_SESSION);
    ready.cookie++;
    refuse_ready("alice", &ready, RG_RDMA_NO_SUCH_SESSION);
    ready = ready_for(&opened);
    ready.session.bytes[3] ^= 1;
    refuse_ready("alice", &ready, RG_RDMA_NO_SUCH_SESSION);
    ready = ready_for(&opened);
    ready.has_window = false;
    refuse_ready("alice", &ready, RG_INVALID_REQUEST);
    ready = ready_for(&opened);
    ready.address = UINT64_MAX - 100;
    refuse_ready("alice", &ready, RG_INVALID_REQUEST);
    /* None of that harmed it. */
    struct rg_session *session = make_ready(&opened);
    ready = ready_for(&opened);
    refuse_ready("alice", &ready, RG_RDMA_IN_PROGRESS);
    rg_sessions_finish(session);
    refuse_ready("alice", &ready, RG_RDMA_NO_SUCH_SESSION);

    opened = must_prepare(RG_DIRECTION_GET, 5000);
    ready = ready_for(&opened);
    mock_rc.fail_pair = true;
    refuse_ready("alice", &ready, RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(look().open[RG_SESSION_PUSH], 0);
}

static void bind(struct rg_session *session)
{
    assert_int_equal(rg_lane_bind(rg_session_lane(session), rg_session_window(session), &error), 0);
}

static void the_peer_of_a_get_is_told(void **state)
{
    open_table();
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_GET, 5000);
    struct rg_session *session = make_ready(&opened);
    assert_int_equal(rg_session_window(session)->length, 5000);
    bind(session);
    assert_int_equal(rg_session_notify(session, rg_slab_region(world.slab), 1000, &error), 0);
    assert_int_equal(mock_rc.immediates, 1);
    assert_int_equal(mock_rc.last_immediate, COOKIE);
    rg_sessions_finish(session);
}

static void an_absent_peer_may_come_back(void **state)
{
    open_table();
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_GET, 5000);
    for (unsigned i = 0; i < RG_SESSION_REARMS_MAX; i++) {
        struct rg_session *session = make_ready(&opened);
        bind(session);
        mock.stuck = i % 2;
        mock.fail_operation = mock.operations + 1;
        mock.fail_broke = RG_BROKE_CONNECTION;
        mock.fail_cause = RG_CAUSE_PEER_GONE;
        assert_int_equal(rg_session_notify(session, rg_slab_region(world.slab), 30, &error),
                         -RG_RDMA_PEER_BUSY);
        mock.stuck = false;
        assert_int_equal(rg_sessions_rearm(session, &error), 0);
        assert_int_equal(look().taken[RG_SESSION_PUSH], 0);
    }
    assert_int_equal(rg_sessions_rearm(make_ready(&opened), &error), -RG_LIMIT);
    assert_int_equal(look().open[RG_SESSION_PUSH], 0);
    assert_int_equal(mock.lanes_open, 0);
}

static void a_cancelled_push_does_not_come_back(void **state)
{
    open_table();
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_GET, 5000);
    struct rg_session *session = make_ready(&opened);
    bind(session);
    assert_int_equal(rg_sessions_cancel(world.sessions, "alice", &opened.id, &error), 0);
    assert_int_equal(rg_sessions_rearm(session, &error), -RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(look().open[RG_SESSION_PUSH], 0);
    assert_int_equal(events(RG_SESSION_PUSH, RG_SESSION_EVENT_CANCELLED), 1);
    assert_int_equal(mock.lanes_open, 0);
}

static void an_abandoned_push_is_reaped(void **state)
{
    world.config.prepare_ms = 30;
    open_table();
    struct rg_session_opened opened = must_prepare(RG_DIRECTION_PUT, 5000);
    struct rg_session_opened busy = must_prepare(RG_DIRECTION_PUT, 5000);
    struct rg_session *session = make_ready(&busy);
    nap(40);
    struct rg_push_ready late = ready_for(&opened);
    refuse_ready("alice", &late, RG_RDMA_NO_SUCH_SESSION);
    assert_int_equal(rg_sessions_tick(world.sessions), 1);
    assert_int_equal(look().staging_bytes, 5000);
    assert_int_equal(events(RG_SESSION_PUSH, RG_SESSION_EVENT_REAPED), 1);
    rg_sessions_finish(session);
}

static void a_failed_prepare_leaves_the_order(void **state)
{
    open_table();
    orders_freed = 0;
    struct rg_session_opened opened;
    mock_rc.fail_receive = true;
    assert_int_equal(prepare("alice", RG_DIRECTION_PUT, 5000, &opened), -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(orders_freed, 0);
    assert_int_equal(look().staging_bytes, 0);
    assert_int_equal(look().open[RG_SESSION_PUSH], 0);
}

/* ---- All at once ---- */

#define THREADS 8
#define ROUNDS  200

static void *hurry(void *principal)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct rg_session_opened opened;
        struct rg_session *session;
        struct rg_error own = RG_ERROR_INIT;
        struct rg_push_prepare wanted = order_of(RG_DIRECTION_PUT, 1000);
        if (i % 2 &&
            rg_sessions_connect(world.sessions, world.pool, principal, &peer, &opened, &own) == 0) {
            if (rg_sessions_take(world.sessions, principal, &opened.id, 10, &session, &own) == 0) {
                rg_sessions_give(session);
            }
            (void)rg_sessions_disconnect(world.sessions, principal, &opened.id, NULL);
        } else if (rg_sessions_prepare(world.sessions, world.pool, principal, &wanted, order,
                                       free_order, &opened, &own) == 0) {
            struct rg_push_ready ready = ready_for(&opened);
            if (i % 3 &&
                rg_sessions_ready(world.sessions, principal, &ready, &session, &own) == 0) {
                rg_sessions_finish(session);
            } else {
                (void)rg_sessions_cancel(world.sessions, principal, &opened.id, NULL);
            }
        }
        (void)rg_sessions_tick(world.sessions);
    }
    return NULL;
}

static void many_threads_leave_nothing(void **state)
{
    open_table();
    static char names[THREADS][2];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        names[i][0] = (char)('a' + i % 4);
        assert_int_equal(pthread_create(&threads[i], NULL, hurry, names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    struct rg_sessions_state all = look();
    for (int kind = 0; kind < RG_SESSION_KIND_COUNT; kind++) {
        assert_int_equal(all.open[kind], 0);
        assert_int_equal(all.taken[kind], 0);
        assert_true(all.events[kind][RG_SESSION_EVENT_OPENED] > 0);
    }
    assert_int_equal(all.staging_bytes, 0);
}

static void wrong_ceilings_are_refused(void **state)
{
    struct rg_sessions *sessions;
    world.config.sessions_max = 0;
    assert_int_equal(rg_sessions_new(&world.config, &sessions, &error), -RG_SETTING);
    world.config.sessions_max = RG_SESSIONS_MAX + 1;
    assert_int_equal(rg_sessions_new(&world.config, &sessions, &error), -RG_SETTING);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_session_is_taken_and_given),
        TEST(another_principal_finds_nothing),
        TEST(ceilings_hold),
        TEST(an_idle_one_makes_room),
        TEST(one_transfer_at_a_time),
        TEST(idle_sessions_are_reaped),
        TEST(a_broken_lane_ends_the_session),
        TEST(a_broken_rail_ends_them_all),
        TEST(what_cannot_be_opened_leaves_nothing),
        TEST(stopping_lets_nobody_in),
        TEST(a_push_arrives),
        TEST(a_wrong_push_is_refused),
        TEST(a_push_that_does_not_come),
        TEST(staging_has_ceilings),
        TEST(ready_is_asked_for_all_it_must_say),
        TEST(the_peer_of_a_get_is_told),
        TEST(an_absent_peer_may_come_back),
        TEST(a_cancelled_push_does_not_come_back),
        TEST(an_abandoned_push_is_reaped),
        TEST(a_failed_prepare_leaves_the_order),
        TEST(many_threads_leave_nothing),
        TEST(wrong_ceilings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
