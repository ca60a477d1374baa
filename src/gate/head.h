/*
 * The head of an HTTP/1 request as a value of its own: request target, fields, framing. It is a
 * copy, because a request may outlive its connection, and it is where a head that two parsers could
 * read differently is refused (RFC 9112, sections 2.2, 3.2, 5 and 6.3).
 *
 * Pure: no I/O, no threads.
 */
#ifndef RG_GATE_HEAD_H
#define RG_GATE_HEAD_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_head_field {
    uint32_t name;
    uint32_t name_len;
    uint32_t value;
    uint32_t value_len;
};

struct rg_head {
    struct rg_buf text; /* all strings, each followed by NUL; the rest are places in it */
    struct rg_head_field *fields;
    size_t field_count;
    size_t field_room;
    size_t field_max;
    uint32_t method;
    uint32_t version;
    struct rg_head_field target; /* name: path; value: query */
    int64_t content_length;      /* -1: none */
    bool chunked;
    bool has_body;
    bool expects_continue;
    enum rg_code refusal; /* RG_OK: a head to be served */
    const char *reason;   /* what is wrong with it; static */
};

/* Empties it for a head of at most `field_max` fields; keeps the memory. */
void rg_head_clear(struct rg_head *head, size_t field_max);
void rg_head_free(struct rg_head *head);

/* Adds one field, the value without the white space around it. Too many, or out of memory: the head
 * is refused. */
void rg_head_add(struct rg_head *head, struct span name, struct span value);

/* Refuses the head, unless it is already. */
void rg_head_refuse(struct rg_head *head, enum rg_code code, const char *reason);

/*
 * The rest of the head, after all fields: `target` as on the wire, `version` as "HTTP/1.1". Works
 * out path, query and framing, and sets `refusal` when something is wrong.
 */
void rg_head_finish(struct rg_head *head, struct span method, struct span target,
                    struct span version);

const char *rg_head_method(const struct rg_head *head);
const char *rg_head_version(const struct rg_head *head);
struct span rg_head_path(const struct rg_head *head);
struct span rg_head_query(const struct rg_head *head);
bool rg_head_field_at(const struct rg_head *head, size_t i, struct span *ret_name,
                      struct span *ret_value);
bool rg_head_find(const struct rg_head *head, const char *name, struct span *ret_value);

#endif
