/*
 * The map's eliminations: which NID is given to which host when only one is left, and what speaks
 * against it.
 */
#include "diag/map.h"

#include "test.h"

/* The one host that speaks of another. */
struct spoken {
    rg_host_id host;
    rg_host_id peer;
};

static bool speaks_of(void *context, rg_host_id host, rg_host_id peer)
{
    const struct spoken *spoken = context;
    return host == spoken->host && peer == spoken->peer;
}

struct fixture {
    struct rg_pool pool;
    struct rg_map map;
    rg_word nid; /* nobody's */
    rg_host_id client;
    rg_host_id server;
    rg_host_id peer; /* the host of the NID, until it is given to another */
};

static void open_map(struct fixture *ret_fixture)
{
    struct rg_map *map = &ret_fixture->map;
    assert_true(rg_pool_init(&ret_fixture->pool));
    assert_true(rg_map_init(map, &ret_fixture->pool));
    ret_fixture->nid = rg_map_nid(map, RG_SPAN_LITERAL("192.0.2.81@o2ib"));
    ret_fixture->client = rg_map_host_of_node(map, 1, "gpu01");
    ret_fixture->server = rg_map_host_of_node(map, 2, "oss1");
    map->hosts[ret_fixture->client].client = true;
    map->hosts[ret_fixture->server].server = true;
    ret_fixture->peer = rg_map_host_of_nid(map, ret_fixture->nid);
    assert_true(ret_fixture->peer != ret_fixture->client &&
                ret_fixture->peer != ret_fixture->server);
}

static void close_map(struct fixture *fixture)
{
    rg_map_free(&fixture->map);
    rg_pool_free(&fixture->pool);
}

/* Who has the NID at last: the one target's only speaker, unless it speaks of it itself. */
static rg_host_id settle_target(struct fixture *fixture, rg_host_id speaks)
{
    struct rg_map *map = &fixture->map;
    rg_word target = rg_pool_add(map->pool, RG_SPAN_LITERAL("scr-OST0001"));
    rg_map_served(map, target, RG_TARGET_OST, 1, fixture->nid, fixture->client, 1);
    rg_map_speaks(map, target, RG_TARGET_OST, 1, fixture->server);
    struct spoken spoken = {speaks, fixture->peer};
    rg_map_settle(map, NULL, 0, speaks_of, &spoken);
    return rg_map_host_of_nid(map, fixture->nid);
}

static rg_host_id settle_client(struct fixture *fixture, rg_host_id speaks)
{
    struct spoken spoken = {speaks, fixture->peer};
    rg_map_settle(&fixture->map, &fixture->nid, 1, speaks_of, &spoken);
    return rg_map_host_of_nid(&fixture->map, fixture->nid);
}

/* Who would have the NID if nothing spoke against it does not have it when it speaks of it itself.
 */
static void check(rg_host_id settle(struct fixture *fixture, rg_host_id speaks), bool is_server)
{
    for (int by_itself = 0; by_itself <= 1; by_itself++) {
        struct fixture fixture;
        open_map(&fixture);
        rg_host_id own = is_server ? fixture.server : fixture.client;
        rg_host_id other = is_server ? fixture.client : fixture.server;
        assert_int_equal(by_itself ? fixture.peer : own, settle(&fixture, by_itself ? own : other));
        assert_int_equal(fixture.map.hosts[own].inferred, !by_itself);
        close_map(&fixture);
    }
}

static void a_server_does_not_have_the_nid_that_it_speaks_of(void **state)
{
    check(settle_target, true);
}

static void a_client_does_not_have_the_nid_that_it_speaks_of(void **state)
{
    check(settle_client, false);
}

/* At A from 0 to 300, at B from 100 to 200, at C later; and what was said of D has no time. */
static void a_target_is_where_it_was_then(void **state)
{
    struct fixture fixture;
    open_map(&fixture);
    struct rg_map *map = &fixture.map;
    rg_word target = rg_pool_add(map->pool, RG_SPAN_LITERAL("scr-OST0001"));
    static const struct {
        const char *nid;
        int64_t from, to;
    } said[] = {
        {"192.0.2.3@o2ib", 500, 600}, {"192.0.2.1@o2ib", 0, 300}, {"192.0.2.2@o2ib", 100, 200}};
    rg_host_id hosts[4];
    for (size_t i = 0; i < 3; i++) {
        rg_word nid = rg_map_nid(map, rg_span_text(said[i].nid));
        hosts[i] = rg_map_host_of_nid(map, nid);
        rg_map_served(map, target, RG_TARGET_OST, 1, nid, fixture.client, 3 - i);
    }
    assert_true(rg_map_host_of_target(map, target, 0) == hosts[0]); /* the last that was read */
    for (size_t i = 0; i < 3; i++) {
        rg_map_served_during(map, target, rg_map_nid(map, rg_span_text(said[i].nid)), said[i].from,
                             said[i].to);
    }
    rg_word timeless = rg_map_nid(map, RG_SPAN_LITERAL("192.0.2.4@o2ib"));
    rg_map_served(map, target, RG_TARGET_OST, 1, timeless, fixture.client, 9);
    static const struct {
        int64_t at;
        size_t host;
    } asked[] = {{-5, 1}, {50, 1}, {150, 2}, {250, 1}, {400, 1}, {550, 0}, {RG_MAP_LATEST, 0}};
    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        assert_int_equal(rg_map_host_of_target(map, target, asked[i].at), hosts[asked[i].host]);
    }
    close_map(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_is_where_it_was_then),
        cmocka_unit_test(a_server_does_not_have_the_nid_that_it_speaks_of),
        cmocka_unit_test(a_client_does_not_have_the_nid_that_it_speaks_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
