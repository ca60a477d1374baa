/*
 * Counting what is missing, per node. Runs on every line, so the first bytes decide.
 */
#include "diag/holes.h"

#include "diag/labels.h"

#include "base/attr.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX        64 /* further ones are counted together, as node 0 */
#define RING_BEGINS_USEC (5 * 1000000)

enum hole { HOLE_KERNEL, HOLE_DAEMON, HOLE_LIMIT, HOLE_COUNT };

struct node_holes {
    rg_node_id node;
    uint64_t lines[HOLE_COUNT];
    int64_t ring_usec; /* the first line of a ring came so long after boot; 0: none */
};

struct rg_holes {
    struct node_holes nodes[NODES_MAX + 1]; /* the last is for all that found no place */
    size_t count;
    rg_source_id source; /* of the last record */
};

int rg_holes_new(struct rg_holes **ret_holes, struct rg_error *err)
{
    *ret_holes = calloc(1, sizeof(**ret_holes));
    return *ret_holes ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

void rg_holes_free(struct rg_holes *holes)
{
    free(holes);
}

static struct node_holes *holes_of(struct rg_holes *holes, rg_node_id node)
{
    for (size_t i = 0; i < holes->count; i++) {
        if (holes->nodes[i].node == node) {
            return &holes->nodes[i];
        }
    }
    if (holes->count == NODES_MAX) {
        return &holes->nodes[NODES_MAX];
    }
    holes->nodes[holes->count].node = node;
    return &holes->nodes[holes->count++];
}

/* The number that stands at the start of `text`, before `behind`; 0 when it does not. */
static uint64_t count_before(struct span text, const char *behind)
{
    size_t digits = 0;
    while (digits < text.len && digits < 18 && text.ptr[digits] >= '0' && text.ptr[digits] <= '9') {
        digits++;
    }
    uint64_t count;
    return rg_span_to_u64(rg_span_head(text, digits), &count) &&
                   rg_span_starts(rg_span_skip(text, digits), rg_span_text(behind))
               ? count
               : 0;
}

static struct span behind(struct span text, const char *what)
{
    size_t len = strlen(what);
    const char *at = text.len >= len ? memmem(text.ptr, text.len, what, len) : NULL;
    return at ? rg_span_skip(text, (size_t)(at - text.ptr) + len) : RG_SPAN_EMPTY;
}

/* "printk: 12 messages dropped", "** 12 printk messages dropped **", "f: 12 callbacks suppressed".
 */
static uint64_t read_kernel(struct span text, enum hole *ret_hole)
{
    *ret_hole = HOLE_KERNEL;
    if (text.ptr[0] == '*') {
        return count_before(behind(text, "** "), " printk messages dropped");
    }
    if (rg_span_starts(text, RG_SPAN_LITERAL("printk: "))) {
        return count_before(rg_span_skip(text, 8), " messages dropped");
    }
    if (rg_span_ends(text, RG_SPAN_LITERAL(" callbacks suppressed"))) {
        *ret_hole = HOLE_LIMIT;
        return count_before(behind(text, ": "), " callbacks suppressed");
    }
    return 0;
}

/* "imjournal: 12 messages lost due to rate-limiting", "Suppressed 12 messages from /x". */
static uint64_t read_daemon(struct span text)
{
    uint64_t count = count_before(behind(text, "Suppressed "), " messages from");
    return count ? count : count_before(behind(text, "imjournal: "), " messages lost");
}

static bool is_daemon(struct span program)
{
    return rg_span_is(program, "systemd-journald") || rg_span_is(program, "rsyslogd") ||
           rg_span_is(program, "journal");
}

static void note_ring(struct rg_holes *holes, const struct rg_log_record *record)
{
    bool first = record->source != holes->source;
    holes->source = record->source;
    if (first && record->stamp.kind == RG_STAMP_BOOT && record->stamp.usec > RING_BEGINS_USEC) {
        struct node_holes *node = holes_of(holes, record->node);
        if (node->ring_usec == 0 || record->stamp.usec < node->ring_usec) {
            node->ring_usec = record->stamp.usec;
        }
    }
}

void rg_holes_note(struct rg_holes *holes, const struct rg_log_record *record)
{
    enum hole hole = HOLE_DAEMON;
    uint64_t count = 0;
    if (record->source != holes->source) {
        note_ring(holes, record);
    }
    if (record->text.len == 0) {
        return;
    }
    if (record->speaker == RG_SPEAKER_KERNEL) {
        count = read_kernel(record->text, &hole);
    } else if (record->speaker == RG_SPEAKER_PROGRAM && is_daemon(record->program)) {
        count = read_daemon(record->text);
    }
    if (count > 0) {
        uint64_t *lines = &holes_of(holes, record->node)->lines[hole];
        *lines = *lines + count < *lines ? UINT64_MAX : *lines + count;
    }
}

static void tell_node(const struct node_holes *node, struct span name, rg_hole_teller tell,
                      void *context)
{
    static const enum rg_phrase_id sentences[HOLE_COUNT] = {
        [HOLE_KERNEL] = RG_PHRASE_HOLE_KERNEL,
        [HOLE_DAEMON] = RG_PHRASE_HOLE_DAEMON,
        [HOLE_LIMIT] = RG_PHRASE_HOLE_LIMIT,
    };
    for (int i = 0; i < HOLE_COUNT; i++) {
        if (node->lines[i] > 0) {
            tell(context, sentences[i], name, node->lines[i]);
        }
    }
    if (node->ring_usec > 0) {
        tell(context, RG_PHRASE_HOLE_RING, name, (uint64_t)(node->ring_usec / 1000000));
    }
}

void rg_holes_tell(const struct rg_holes *holes, const struct rg_interned *nodes,
                   rg_hole_teller tell, void *context)
{
    for (size_t i = 0; i < holes->count; i++) {
        struct span name = rg_interned_text(nodes, holes->nodes[i].node);
        tell_node(&holes->nodes[i], name.len ? name : RG_SPAN_LITERAL(RG_WORD_UNNAMED), tell,
                  context);
    }
    tell_node(&holes->nodes[NODES_MAX], RG_SPAN_LITERAL(RG_WORD_FURTHER), tell, context);
}
