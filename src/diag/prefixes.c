/*
 * The set of names is a table of hashes without chains: forgetting a name costs one line's node,
 * never memory.
 */
#include "diag/prefixes.h"

#include "base/checked.h"
#include "diag/shape.h"
#include "diag/state.h"

#include <string.h>

#define NAME_BYTES_MAX 300

static uint64_t hash_of(struct span name)
{
    uint64_t hash = rg_span_hash(name);
    return hash ? hash : 1; /* 0 is an empty place */
}

static uint64_t *place_of(struct rg_prefixes *prefixes, uint64_t hash)
{
    return &prefixes->hashes[(hash ^ hash >> 32) & (RG_PREFIXES_MAX - 1)];
}

void rg_prefixes_note(struct rg_prefixes *prefixes, struct span name)
{
    uint64_t hash = hash_of(name);
    *place_of(prefixes, hash) = hash;
}

bool rg_prefixes_take(struct rg_prefixes *prefixes, struct span line, struct span *ret_name,
                      struct span *ret_rest)
{
    const char *colon = memchr(line.ptr, ':', RG_MIN(line.len, (size_t)NAME_BYTES_MAX));
    if (!colon) {
        return false;
    }
    struct span name = rg_span_head(line, (size_t)(colon - line.ptr));
    struct span rest = rg_span_skip(line, name.len + 1);
    if (rest.len > 0 && rest.ptr[0] == ' ') {
        rest = rg_span_skip(rest, 1);
    }
    if (!rg_shape_is_prefix(name)) {
        return false;
    }
    uint64_t hash = hash_of(name);
    uint64_t *place = place_of(prefixes, hash);
    if (*place != hash) {
        if (!rg_state_opens(rest)) {
            return false;
        }
        *place = hash;
    }
    *ret_name = name;
    *ret_rest = rest;
    return true;
}
