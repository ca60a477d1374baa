/*
 * Interned names in one growing array and one open hash table. It knows nothing of logs but the
 * rule that a short host name and its long form are one node.
 */
#include "diag/nodes.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>

#define SLOTS_FIRST 64

struct name {
    char *text;
    uint32_t len;
    uint32_t twin; /* of a node: the number it stands for, when it is another spelling; else 0 */
    uint64_t hash;
    bool has_domain; /* of a node: some spelling of it has one */
};

struct rg_interned {
    uint32_t count_max;
    uint32_t count;
    uint32_t room;
    struct name *names; /* names[0] is the empty one */
    uint32_t slot_count;
    uint32_t *slots; /* numbers; 0: free */
    uint64_t refused;
};

static uint64_t hash_name(struct span name)
{
    uint64_t hash = rg_span_hash(name);
    return hash ^ (hash >> 29);
}

void rg_interned_free(struct rg_interned *names)
{
    if (!names) {
        return;
    }
    for (uint32_t i = 0; names->names && i <= names->count; i++) {
        free(names->names[i].text);
    }
    free(names->names);
    free(names->slots);
    free(names);
}

int rg_interned_new(uint32_t count_max, struct rg_interned **ret_names, struct rg_error *err)
{
    struct rg_interned *names = calloc(1, sizeof(*names));
    if (!names) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    names->count_max = count_max;
    names->room = 16;
    names->slot_count = SLOTS_FIRST;
    names->names = calloc(names->room, sizeof(*names->names));
    names->slots = calloc(names->slot_count, sizeof(*names->slots));
    if (!names->names || !names->slots) {
        rg_interned_free(names);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *ret_names = names;
    return 0;
}

static struct span name_span(const struct name *name)
{
    return name->text ? rg_span(name->text, name->len) : RG_SPAN_EMPTY;
}

/* The slot that holds the name, or the free one where it belongs. */
static uint32_t find_slot(const struct rg_interned *names, struct span name, uint64_t hash)
{
    uint32_t mask = names->slot_count - 1;
    uint32_t slot = (uint32_t)hash & mask;
    while (names->slots[slot] != 0) {
        const struct name *there = &names->names[names->slots[slot]];
        if (there->hash == hash && rg_span_eq(name_span(there), name)) {
            break;
        }
        slot = (slot + 1) & mask;
    }
    return slot;
}

static bool grow_slots(struct rg_interned *names)
{
    uint32_t slot_count = names->slot_count * 2;
    uint32_t *slots = calloc(slot_count, sizeof(*slots));
    if (!slots) {
        return false;
    }
    for (uint32_t i = 1; i <= names->count; i++) {
        uint32_t slot = (uint32_t)names->names[i].hash & (slot_count - 1);
        while (slots[slot] != 0) {
            slot = (slot + 1) & (slot_count - 1);
        }
        slots[slot] = i;
    }
    free(names->slots);
    names->slots = slots;
    names->slot_count = slot_count;
    return true;
}

/* Room for one more name, in both tables. */
static bool make_room(struct rg_interned *names)
{
    if (names->count >= names->count_max) {
        return false;
    }
    if (names->count + 1 >= names->room) {
        uint32_t room = names->room * 2;
        struct name *grown = realloc(names->names, room * sizeof(*grown));
        if (!grown) {
            return false;
        }
        names->names = grown;
        names->room = room;
    }
    return (names->count + 1) * 2 < names->slot_count || grow_slots(names);
}

uint32_t rg_interned_find(const struct rg_interned *names, struct span name)
{
    name = rg_span_head(name, RG_NAME_BYTES_MAX);
    return name.len == 0 ? 0 : names->slots[find_slot(names, name, hash_name(name))];
}

uint32_t rg_interned_add(struct rg_interned *names, struct span name)
{
    name = rg_span_head(name, RG_NAME_BYTES_MAX);
    uint32_t number = rg_interned_find(names, name);
    if (number != 0 || name.len == 0) {
        return number;
    }
    rg_autofree char *text = make_room(names) ? rg_span_dup(name) : NULL;
    if (!text) {
        names->refused++;
        return 0;
    }
    uint64_t hash = hash_name(name);
    uint32_t slot = find_slot(names, name, hash);
    number = ++names->count;
    names->names[number] =
        (struct name){.text = RG_TAKE(text), .len = (uint32_t)name.len, .hash = hash};
    names->slots[slot] = number;
    return number;
}

struct span rg_interned_text(const struct rg_interned *names, uint32_t number)
{
    return number == 0 || number > names->count ? RG_SPAN_EMPTY : name_span(&names->names[number]);
}

uint32_t rg_interned_count(const struct rg_interned *names)
{
    return names->count;
}

uint64_t rg_interned_refused(const struct rg_interned *names)
{
    return names->refused;
}

/* Addresses have dots or colons that separate no domain. */
static bool is_address(struct span name)
{
    bool digits_only = true;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c == ':') {
            return true;
        }
        digits_only = digits_only && ((c >= '0' && c <= '9') || c == '.');
    }
    return digits_only;
}

static rg_node_id stands_for(const struct rg_interned *nodes, uint32_t number)
{
    return nodes->names[number].twin != 0 ? nodes->names[number].twin : number;
}

/* Records that the spelling `number` is the node `node`. */
static rg_node_id join(struct rg_interned *nodes, uint32_t number, rg_node_id node)
{
    if (number != 0) {
        nodes->names[number].twin = node;
    }
    return node;
}

rg_node_id rg_nodes_add(struct rg_interned *nodes, struct span name)
{
    name = rg_span_head(name, RG_NAME_BYTES_MAX);
    uint32_t known = rg_interned_find(nodes, name);
    if (known != 0) {
        return stands_for(nodes, known);
    }
    ptrdiff_t dot = is_address(name) ? -1 : rg_span_find(name, '.');
    if (dot <= 0) {
        return rg_interned_add(nodes, name);
    }
    struct span brief = rg_span_head(name, (size_t)dot);
    uint32_t brief_number = rg_interned_find(nodes, brief);
    if (brief_number == 0) {
        /* The long name is met first: the short one is reserved for it. */
        rg_node_id node = rg_interned_add(nodes, name);
        if (node != 0) {
            nodes->names[node].has_domain = true;
            join(nodes, rg_interned_add(nodes, brief), node);
        }
        return node;
    }
    rg_node_id node = stands_for(nodes, brief_number);
    uint32_t number = rg_interned_add(nodes, name);
    if (number == 0 || nodes->names[node].has_domain) {
        return number; /* another domain: another node */
    }
    nodes->names[node].has_domain = true;
    return join(nodes, number, node);
}
