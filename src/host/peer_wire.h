/*
 * What two doctors say to each other over TCP: one JSON object a message, behind its length (4
 * bytes, big-endian). The other side is not trusted: every message has a ceiling, every wait a
 * deadline, every field a range.
 */
#ifndef RG_HOST_PEER_WIRE_H
#define RG_HOST_PEER_WIRE_H

#include "base/error.h"
#include "base/span.h"
#include "rdma/transport.h"

#include <jansson.h>

#define RG_PEER_PROTOCOL    1
#define RG_PEER_PORT        9002
#define RG_PEER_MESSAGE_MAX ((size_t)256 << 10)

/* Sends the object and drops the reference (NULL is out of memory). RG_DISCONNECTED, RG_TIMED_OUT.
 */
int rg_peer_send(int fd, json_t *message, unsigned timeout_ms, struct rg_error *err);

/* The next message, an object; the caller owns it. RG_PARSE, RG_LIMIT (too long), RG_DISCONNECTED,
 * RG_TIMED_OUT. */
int rg_peer_receive(int fd, unsigned timeout_ms, json_t **ret_message, struct rg_error *err);

/* The object in the text of one message, without its length. */
int rg_peer_parse(struct span text, json_t **ret_message, struct rg_error *err);

/* Its "type", "" when there is none. */
const char *rg_peer_type(const json_t *message);

/* A text field, "" when it is missing or no text; a number, `fallback` when it is missing or not
 * within [least, most]. */
const char *rg_peer_text(const json_t *message, const char *name);
int64_t rg_peer_number(const json_t *message, const char *name, int64_t least, int64_t most,
                       int64_t fallback);

/* Windows and the numbers of queue pairs, both ways. False when something is out of range. */
json_t *rg_peer_tell_window(const struct rg_rdma_window *window);
bool rg_peer_take_window(const json_t *object, struct rg_rdma_window *ret_window);
json_t *rg_peer_tell_lane(const struct rg_lane_address *address);
bool rg_peer_take_lane(const json_t *object, struct rg_lane_address *ret_address);

#endif
