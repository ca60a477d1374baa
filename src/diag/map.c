/*
 * Hosts, NIDs and targets.
 */
#include "diag/map.h"

#include "base/checked.h"

#include "diag/lustre.h"

#include <stdlib.h>

bool rg_map_init(struct rg_map *map, struct rg_pool *pool)
{
    *map = (struct rg_map){.pool = pool, .host_count = 1, .target_count = 1};
    map->hosts = calloc(RG_MAP_HOSTS_MAX, sizeof(*map->hosts));
    map->targets = calloc(RG_MAP_TARGETS_MAX, sizeof(*map->targets));
    map->host_of_word = calloc(RG_WORDS_MAX, sizeof(*map->host_of_word));
    map->target_of_word = calloc(RG_WORDS_MAX, sizeof(*map->target_of_word));
    map->host_of_node = calloc(RG_MAP_HOSTS_MAX, sizeof(*map->host_of_node));
    if (!map->hosts || !map->targets || !map->host_of_word || !map->target_of_word ||
        !map->host_of_node) {
        rg_map_free(map);
        return false;
    }
    return true;
}

void rg_map_free(struct rg_map *map)
{
    free(map->hosts);
    free(map->targets);
    free(map->host_of_word);
    free(map->target_of_word);
    free(map->host_of_node);
    *map = (struct rg_map){0};
}

rg_word rg_map_nid(struct rg_map *map, struct span nid)
{
    struct span bare = rg_nid_bare(nid);
    ptrdiff_t at = rg_span_find(bare, '@');
    if (at <= 0 || rg_nid_is_local(bare)) {
        return 0;
    }
    struct span net = rg_span_skip(bare, (size_t)at + 1);
    if (net.len > 1 && net.ptr[net.len - 1] == '0' &&
        !(net.ptr[net.len - 2] >= '0' && net.ptr[net.len - 2] <= '9')) {
        bare.len--;
    }
    return rg_pool_add(map->pool, bare);
}

rg_host_id rg_map_resolve(const struct rg_map *map, rg_host_id host)
{
    while (map->hosts[host].merged) {
        host = map->hosts[host].merged;
    }
    return host;
}

const struct rg_map_host *rg_map_host(const struct rg_map *map, rg_host_id host)
{
    return &map->hosts[rg_map_resolve(map, host)];
}

static rg_host_id add_host(struct rg_map *map, rg_word name, rg_node_id node)
{
    if (map->host_count == RG_MAP_HOSTS_MAX) {
        map->full = true;
        return 0;
    }
    map->hosts[map->host_count] = (struct rg_map_host){.name = name, .node = node};
    return map->host_count++;
}

/* The address of a NID as a word of its own, so that one host's NIDs on several LNet networks meet;
 * the NID itself where addresses are mere numbers. */
static rg_word address_of(struct rg_map *map, rg_word nid)
{
    struct span text = rg_span_text(rg_pool_text(map->pool, nid));
    ptrdiff_t at = rg_span_find(text, '@');
    if (at <= 0) {
        return nid;
    }
    struct span address = rg_span_head(text, (size_t)at);
    if (rg_span_find(address, '.') < 0 && rg_span_find(address, ':') < 0) {
        return nid;
    }
    return rg_pool_add(map->pool, address);
}

static void add_nid(struct rg_map_host *host, rg_word nid)
{
    for (size_t i = 0; i < host->nid_count; i++) {
        if (host->nids[i] == nid) {
            return;
        }
    }
    if (host->nid_count < RG_MAP_NIDS_MAX) {
        host->nids[host->nid_count++] = nid;
    }
}

rg_host_id rg_map_host_of_nid(struct rg_map *map, rg_word nid)
{
    if (nid <= RG_WORD_NOT_KEPT) {
        return 0;
    }
    rg_word address = address_of(map, nid);
    if (address == RG_WORD_NOT_KEPT) {
        return 0;
    }
    if (map->host_of_word[address] == 0) {
        map->host_of_word[address] = add_host(map, nid, 0);
    }
    rg_host_id host = rg_map_resolve(map, map->host_of_word[address]);
    if (host) {
        add_nid(&map->hosts[host], nid);
    }
    return host;
}

rg_host_id rg_map_host_of_node(struct rg_map *map, rg_node_id node, const char *name)
{
    if (node >= RG_MAP_HOSTS_MAX) {
        map->full = true;
        return 0;
    }
    if (map->host_of_node[node] == 0) {
        rg_word word = rg_pool_add(map->pool, rg_span_text(name && *name ? name : "this-node"));
        /* A node that is named by its address is the host of the NIDs with it. */
        rg_host_id host = map->host_of_word[word];
        if (host == 0) {
            host = add_host(map, word, node);
            map->host_of_word[word] = host;
        } else {
            host = rg_map_resolve(map, host);
            map->hosts[host].node = node;
            map->hosts[host].name = word;
        }
        map->host_of_node[node] = host;
    }
    return rg_map_resolve(map, map->host_of_node[node]);
}

struct rg_map_target *rg_map_target(struct rg_map *map, rg_word name)
{
    uint32_t index = map->target_of_word[name];
    return index ? &map->targets[index] : NULL;
}

static struct rg_map_target *add_target(struct rg_map *map, rg_word name, enum rg_target_kind kind,
                                        int index)
{
    if (name <= RG_WORD_NOT_KEPT) {
        return NULL;
    }
    struct rg_map_target *target = rg_map_target(map, name);
    if (target) {
        return target;
    }
    if (map->target_count == RG_MAP_TARGETS_MAX) {
        map->full = true;
        return NULL;
    }
    map->target_of_word[name] = map->target_count;
    map->targets[map->target_count] =
        (struct rg_map_target){.name = name, .kind = kind, .index = index};
    return &map->targets[map->target_count++];
}

void rg_map_served(struct rg_map *map, rg_word target, enum rg_target_kind kind, int index,
                   rg_word nid, rg_host_id by, uint64_t order)
{
    struct rg_map_target *entry = add_target(map, target, kind, index);
    rg_host_id host = rg_map_host_of_nid(map, nid);
    if (!entry || !host) {
        return;
    }
    map->hosts[host].server = true;
    map->hosts[host].mgs |= kind == RG_TARGET_MGS;
    map->hosts[host].seen_by = by;
    for (size_t i = 0; i < entry->served_count; i++) {
        if (entry->served[i].nid == nid) {
            entry->served[i].last = order;
            return;
        }
    }
    if (entry->served_count < RG_MAP_NIDS_MAX) {
        entry->served[entry->served_count].nid = nid;
        entry->served[entry->served_count++].last = order;
    }
}

void rg_map_speaks(struct rg_map *map, rg_word target, enum rg_target_kind kind, int index,
                   rg_host_id host)
{
    struct rg_map_target *entry = add_target(map, target, kind, index);
    host = rg_map_resolve(map, host);
    if (!entry || !host) {
        return;
    }
    map->hosts[host].server = true;
    map->hosts[host].mgs |= kind == RG_TARGET_MGS;
    if (rg_map_resolve(map, entry->speaker) != host) {
        entry->speaker = host;
        entry->speakers++;
    }
}

void rg_map_served_during(struct rg_map *map, rg_word target, rg_word nid, int64_t from, int64_t to)
{
    struct rg_map_target *entry = rg_map_target(map, target);
    for (size_t i = 0; entry && i < entry->served_count; i++) {
        struct rg_map_served *served = &entry->served[i];
        if (served->nid == nid) {
            served->from = served->timed && served->from < from ? served->from : from;
            served->to = served->timed && served->to > to ? served->to : to;
            served->timed = true;
        }
    }
}

/* Whether `a` tells more of where the target was at that time: what was said with a time; what was
 * said last before it, and of two that were said before and after, what began later; else what was
 * said first after it. */
static bool tells_more(const struct rg_map_served *a, const struct rg_map_served *b, int64_t at)
{
    if (a->timed != b->timed || !a->timed) {
        return a->timed != b->timed ? a->timed : a->last > b->last;
    }
    if (a->from > at || b->from > at) {
        return a->from < b->from;
    }
    int64_t a_last = RG_MIN(a->to, at);
    int64_t b_last = RG_MIN(b->to, at);
    return a_last != b_last ? a_last > b_last : a->from > b->from;
}

rg_host_id rg_map_host_of_target(struct rg_map *map, rg_word name, int64_t at)
{
    struct rg_map_target *target = rg_map_target(map, name);
    if (!target) {
        return 0;
    }
    size_t best = 0;
    for (size_t i = 1; i < target->served_count; i++) {
        best = tells_more(&target->served[i], &target->served[best], at) ? i : best;
    }
    if (target->served_count) {
        return rg_map_host_of_nid(map, target->served[best].nid);
    }
    return rg_map_resolve(map, target->speaker);
}

/* `other` becomes part of `host`; both resolved. */
static void merge(struct rg_map *map, rg_host_id host, rg_host_id other)
{
    struct rg_map_host *from = &map->hosts[other];
    struct rg_map_host *into = &map->hosts[host];
    for (size_t i = 0; i < from->nid_count; i++) {
        add_nid(into, from->nids[i]);
    }
    into->server |= from->server;
    into->client |= from->client;
    into->lustre |= from->lustre;
    into->mgs |= from->mgs;
    into->router |= from->router;
    into->inferred |= from->inferred;
    from->merged = host;
}

void rg_map_owns(struct rg_map *map, rg_host_id host, rg_word nid, bool inferred)
{
    host = rg_map_resolve(map, host);
    rg_host_id other = rg_map_host_of_nid(map, nid);
    if (!host || !other || host == other || map->hosts[other].node) {
        return;
    }
    merge(map, host, other);
    map->hosts[host].inferred |= inferred;
}

void rg_map_same(struct rg_map *map, rg_word nid, rg_word other)
{
    rg_host_id a = rg_map_host_of_nid(map, nid);
    rg_host_id b = rg_map_host_of_nid(map, other);
    if (!a || !b || a == b || (map->hosts[a].node && map->hosts[b].node)) {
        return;
    }
    bool into_b = map->hosts[b].node != 0;
    merge(map, into_b ? b : a, into_b ? a : b);
}

/* The host of that name, whether its own log was read or not. */
static rg_host_id host_of_name(struct rg_map *map, struct span name)
{
    rg_word word = rg_pool_add(map->pool, name);
    if (word <= RG_WORD_NOT_KEPT) {
        return 0;
    }
    for (uint32_t i = 1; i < map->host_count && map->host_of_word[word] == 0; i++) {
        /* A node that calls itself by its long name is the host with the short one. */
        struct span known = rg_span_text(rg_pool_text(map->pool, map->hosts[i].name));
        if (map->hosts[i].node && known.len > name.len && known.ptr[name.len] == '.' &&
            rg_span_starts(known, name)) {
            map->host_of_word[word] = i;
        }
    }
    if (map->host_of_word[word] == 0) {
        map->host_of_word[word] = add_host(map, word, 0);
    }
    return rg_map_resolve(map, map->host_of_word[word]);
}

void rg_map_tell(struct rg_map *map, const struct rg_told_host *told)
{
    rg_host_id host = host_of_name(map, told->name);
    rg_word nid = rg_map_nid(map, told->nid);
    if (!host || !nid) {
        return;
    }
    rg_host_id other = rg_map_host_of_nid(map, nid);
    if (map->hosts[other].node && other != host && !map->hosts[host].node) {
        host = other; /* its own log said that the NID is its own, under another name */
    }
    rg_map_owns(map, host, nid, false);
    struct rg_map_host *entry = &map->hosts[rg_map_resolve(map, host)];
    entry->router |= told->role == RG_HOST_ROUTER;
    entry->client |= told->role == RG_HOST_CLIENT;
    entry->server |= told->role == RG_HOST_MDS || told->role == RG_HOST_OSS;
    entry->mgs |= told->role == RG_HOST_MGS;
    if (told->rack.len > 0) {
        entry->rack = rg_pool_add(map->pool, told->rack);
    }
}

/* A target that one host alone speaks for, and that clients know at one NID alone: not where that
 * host speaks of the NID as of a peer's, such as of the server it took the target over from. */
static void bind_servers(struct rg_map *map, rg_map_speaks_of *speaks_of, void *context)
{
    for (uint32_t i = 1; i < map->target_count; i++) {
        struct rg_map_target *target = &map->targets[i];
        if (target->speakers != 1 || target->served_count != 1 || target->kind == RG_TARGET_NONE) {
            continue;
        }
        rg_host_id speaker = rg_map_resolve(map, target->speaker);
        rg_host_id other = rg_map_host_of_nid(map, target->served[0].nid);
        if (rg_map_resolve(map, map->hosts[other].seen_by) != speaker &&
            !speaks_of(context, speaker, other)) {
            rg_map_owns(map, speaker, target->served[0].nid, true);
        }
    }
}

/* One host whose log is no client's but has to do with Lustre, and one server NID that nobody has
 * and that it does not speak of as of a peer's: they belong together. */
static void bind_last_server(struct rg_map *map, rg_map_speaks_of *speaks_of, void *context)
{
    rg_host_id nameless = 0;
    size_t nameless_count = 0;
    rg_host_id unbound = 0;
    size_t unbound_count = 0;
    for (uint32_t i = 1; i < map->host_count; i++) {
        const struct rg_map_host *host = &map->hosts[i];
        if (host->merged) {
            continue;
        }
        if (host->node && host->lustre && !host->client && host->nid_count == 0) {
            nameless = i;
            nameless_count++;
        } else if (!host->node && host->server) {
            unbound = i;
            unbound_count++;
        }
    }
    if (unbound_count == 1 && nameless_count == 1 &&
        rg_map_resolve(map, map->hosts[unbound].seen_by) != nameless &&
        !speaks_of(context, nameless, unbound)) {
        rg_map_owns(map, nameless, map->hosts[unbound].nids[0], true);
    }
}

void rg_map_settle(struct rg_map *map, const rg_word *client_nids, size_t count,
                   rg_map_speaks_of *speaks_of, void *context)
{
    bind_servers(map, speaks_of, context);
    rg_word unbound = 0;
    size_t unbound_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct rg_map_host *host = rg_map_host(map, rg_map_host_of_nid(map, client_nids[i]));
        if (!host->node && !host->server) {
            unbound = client_nids[i];
            unbound_count++;
        }
    }
    rg_host_id nameless = 0;
    size_t nameless_count = 0;
    for (uint32_t i = 1; i < map->host_count; i++) {
        const struct rg_map_host *host = &map->hosts[i];
        if (host->node && !host->merged && !host->server && host->nid_count == 0 && host->client) {
            nameless = i;
            nameless_count++;
        }
    }
    if (unbound_count == 1 && nameless_count == 1 &&
        !speaks_of(context, nameless, rg_map_host_of_nid(map, unbound))) {
        rg_map_owns(map, nameless, unbound, true);
    }
    bind_last_server(map, speaks_of, context);
}
