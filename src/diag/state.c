/*
 * Reading imports, line by line: "target: NAME_UUID", then "failover_nids: [ … ]" and
 * "current_connection: NID". Anything else in between is passed over; a line with a stamp, another
 * node or another file ends the block.
 */
#include "diag/state.h"

#include "diag/lustre.h"

#include <string.h>

#define BLOCK_LINES_MAX 40 /* from the name of the target to its connection */

static struct span behind(struct span text, const char *key)
{
    struct span name = rg_span_text(key);
    return rg_span_starts(text, name) ? rg_span_trim(rg_span_skip(text, name.len)) : RG_SPAN_EMPTY;
}

static void begin(struct rg_state *state, const struct rg_record *record, struct span value)
{
    struct rg_target_name name;
    struct span suffix = RG_SPAN_LITERAL("_UUID");
    state->target[0] = '\0';
    if (rg_span_ends(value, suffix)) {
        value.len -= suffix.len;
    }
    if (rg_target_parse(value, &name) && value.len < sizeof(state->target)) {
        memcpy(state->target, value.ptr, value.len);
        state->target[value.len] = '\0';
        state->line = record->line;
        state->node = record->node;
        state->source = record->source;
    }
}

/* "[ 192.0.2.11@o2ib, 192.0.2.12@o2ib ]", or one NID, with quotes or without. */
static void read_nids(struct span value, struct rg_state_fact *fact)
{
    while (value.len > 0 && fact->nid_count < RG_STATE_NIDS_MAX) {
        struct span word = rg_span_trim(rg_span_cut(&value, ','));
        while (word.len > 0 && strchr("[]\"' ", word.ptr[0])) {
            word = rg_span_skip(word, 1);
        }
        while (word.len > 0 && strchr("[]\"' ", word.ptr[word.len - 1])) {
            word.len--;
        }
        if (rg_nid_is(word) && !rg_nid_is_local(word)) {
            fact->nids[fact->nid_count++] = word;
        }
    }
}

bool rg_state_read(struct rg_state *state, const struct rg_record *record,
                   struct rg_state_fact *ret_fact)
{
    struct span text = rg_span_trim(record->text);
    if (record->stamp.kind != RG_STAMP_NONE || text.len < 8) {
        state->target[0] = '\0';
        return false;
    }
    struct span target = behind(text, "target: ");
    if (target.len > 0) {
        begin(state, record, target);
        return false;
    }
    if (state->target[0] == '\0' || state->node != record->node ||
        state->source != record->source || record->line > state->line + BLOCK_LINES_MAX) {
        state->target[0] = '\0';
        return false;
    }
    struct span current = behind(text, "current_connection: ");
    struct rg_state_fact fact = {.target = rg_span_text(state->target), .current = current.len > 0};
    read_nids(current.len > 0 ? current : behind(text, "failover_nids: "), &fact);
    *ret_fact = fact;
    return fact.nid_count > 0;
}
