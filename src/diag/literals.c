/*
 * The automaton is a full transition table (no failure links at search time): one table load a
 * byte. Bytes that occur in no string share one column, which keeps the table small.
 */
#include "diag/literals.h"

#include "base/attr.h"

#include <stdlib.h>

#define STATES_MAX 60000
#define NO_STATE   UINT32_MAX
#define REPORTS    0x80000000u /* in a transition: strings end in the state it leads to */

struct rg_literals {
    uint8_t column[256];
    uint32_t columns;
    uint32_t state_count;
    uint32_t *move;    /* [state * columns + column]: next state * columns, perhaps | REPORTS */
    uint32_t *reports; /* [state]: where its tags begin in tags[]; [state + 1] where they end */
    uint32_t *shorter; /* [state]: the longest proper suffix that reports, or NO_STATE */
    uint32_t *tags;
    uint32_t *end_of; /* [string]: state in which it ends; only while building */
};

void rg_literals_free(struct rg_literals *literals)
{
    if (!literals) {
        return;
    }
    free(literals->move);
    free(literals->reports);
    free(literals->shorter);
    free(literals->tags);
    free(literals->end_of);
    free(literals);
}

static void cleanup_literals(struct rg_literals **literals)
{
    rg_literals_free(*literals);
}

/* Gives every byte that occurs a column of its own; column 0 is for all others. */
static void assign_columns(struct rg_literals *literals, const struct rg_literal *list,
                           size_t count)
{
    literals->columns = 1;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < list[i].text.len; j++) {
            uint8_t *column = &literals->column[(uint8_t)list[i].text.ptr[j]];
            if (*column == 0 && literals->columns < 256) {
                *column = (uint8_t)literals->columns++;
            }
        }
    }
}

/* The tree of prefixes. Transitions hold plain state numbers, NO_STATE where there is none. */
static void grow_tree(struct rg_literals *literals, const struct rg_literal *list, size_t count)
{
    literals->state_count = 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t state = 0;
        for (size_t j = 0; j < list[i].text.len; j++) {
            uint8_t column = literals->column[(uint8_t)list[i].text.ptr[j]];
            uint32_t *next = &literals->move[(size_t)state * literals->columns + column];
            if (*next == NO_STATE) {
                *next = literals->state_count++;
            }
            state = *next;
        }
        literals->end_of[i] = state;
    }
}

/* Tags by the state in which their string ends, as one array with offsets (a counting sort). */
static void sort_tags(struct rg_literals *literals, const struct rg_literal *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        literals->reports[literals->end_of[i] + 1]++;
    }
    for (uint32_t state = 0; state < literals->state_count; state++) {
        literals->reports[state + 1] += literals->reports[state];
    }
    for (size_t i = count; i-- > 0;) {
        uint32_t end = literals->end_of[i];
        literals->tags[--literals->reports[end + 1]] = list[i].tag;
    }
    /* The loop above moved each end to its own beginning, which is the end of the state before. */
    for (uint32_t state = 0; state < literals->state_count; state++) {
        literals->reports[state] = literals->reports[state + 1];
    }
    literals->reports[literals->state_count] = (uint32_t)count;
}

static bool reports_itself(const struct rg_literals *literals, uint32_t state)
{
    return literals->reports[state] != literals->reports[state + 1];
}

/* Breadth first: fills in every transition from the state of the longest suffix. */
static void close_transitions(struct rg_literals *literals, uint32_t *queue, uint32_t *suffix)
{
    uint32_t head = 0;
    uint32_t tail = 0;
    queue[tail++] = 0;
    suffix[0] = 0;
    literals->shorter[0] = NO_STATE;
    while (head < tail) {
        uint32_t state = queue[head++];
        uint32_t *row = &literals->move[(size_t)state * literals->columns];
        const uint32_t *fallback = &literals->move[(size_t)suffix[state] * literals->columns];
        for (uint32_t column = 0; column < literals->columns; column++) {
            uint32_t next = row[column];
            if (next == NO_STATE) {
                row[column] = state == 0 ? 0 : fallback[column];
                continue;
            }
            uint32_t behind = state == 0 ? 0 : fallback[column];
            suffix[next] = behind;
            literals->shorter[next] =
                reports_itself(literals, behind) ? behind : literals->shorter[behind];
            queue[tail++] = next;
        }
    }
}

/* Transitions become offsets into the table, marked where something is reported. */
static void encode_transitions(struct rg_literals *literals)
{
    size_t cells = (size_t)literals->state_count * literals->columns;
    for (size_t i = 0; i < cells; i++) {
        uint32_t next = literals->move[i];
        bool reports = reports_itself(literals, next) || literals->shorter[next] != NO_STATE;
        literals->move[i] = next * literals->columns | (reports ? REPORTS : 0);
    }
}

static int check_strings(const struct rg_literal *list, size_t count, size_t *ret_bytes,
                         struct rg_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].text.len == 0 || list[i].text.len > RG_LITERAL_BYTES_MAX) {
            return rg_failf(err, RG_SETTING, "a literal must have 1 to %d bytes",
                            RG_LITERAL_BYTES_MAX);
        }
        if (list[i].tag >= RG_LITERAL_TAGS_MAX) {
            return rg_failf(err, RG_SETTING, "more than %d rows", RG_LITERAL_TAGS_MAX);
        }
        bytes += list[i].text.len;
    }
    if (bytes >= STATES_MAX) {
        return rg_failf(err, RG_SETTING, "the literals of all rows have more than %d bytes",
                        STATES_MAX);
    }
    *ret_bytes = bytes;
    return 0;
}

int rg_literals_new(const struct rg_literal *list, size_t count, struct rg_literals **ret_literals,
                    struct rg_error *err)
{
    size_t bytes;
    int rc = check_strings(list, count, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(cleanup_literals) struct rg_literals *literals = calloc(1, sizeof(*literals));
    if (!literals) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    assign_columns(literals, list, count);

    size_t states = bytes + 1;
    size_t cells = states * literals->columns;
    literals->move = malloc(cells * sizeof(*literals->move));
    literals->reports = calloc(states + 1, sizeof(*literals->reports));
    literals->shorter = malloc(states * sizeof(*literals->shorter));
    literals->tags = calloc(count + 1, sizeof(*literals->tags));
    literals->end_of = calloc(count + 1, sizeof(*literals->end_of));
    rg_autofree uint32_t *queue = malloc(states * sizeof(*queue));
    rg_autofree uint32_t *suffix = malloc(states * sizeof(*suffix));
    if (!literals->move || !literals->reports || !literals->shorter || !literals->tags ||
        !literals->end_of || !queue || !suffix) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    memset(literals->move, 0xff, cells * sizeof(*literals->move));

    grow_tree(literals, list, count);
    sort_tags(literals, list, count);
    close_transitions(literals, queue, suffix);
    encode_transitions(literals);
    *ret_literals = RG_TAKE(literals);
    return 0;
}

static void report(const struct rg_literals *literals, uint32_t state, uint64_t *found)
{
    while (state != NO_STATE) {
        for (uint32_t i = literals->reports[state]; i < literals->reports[state + 1]; i++) {
            found[literals->tags[i] / 64] |= UINT64_C(1) << (literals->tags[i] % 64);
        }
        state = literals->shorter[state];
    }
}

bool rg_literals_find(const struct rg_literals *literals, struct span text, uint64_t *found)
{
    const uint32_t *move = literals->move;
    const uint8_t *column = literals->column;
    uint32_t state = 0;
    bool any = false;
    for (size_t i = 0; i < text.len; i++) {
        state = move[state + column[(uint8_t)text.ptr[i]]];
        if (__builtin_expect(state & REPORTS, 0)) {
            state &= ~REPORTS;
            report(literals, state / literals->columns, found);
            any = true;
        }
    }
    return any;
}
