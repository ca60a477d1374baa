/*
 * Keeps clients waiting for slow work: Copy, Complete and DeleteObjects may move terabytes, and a
 * client that hears nothing for a minute gives up. Work that is done within a few seconds is
 * answered as usual, with the status it deserves; after that the head of a 200 goes out with the
 * XML declaration, a space follows every few seconds, and what became of it stands in the document,
 * as S3 does it ("200 OK can contain either a success or an error").
 *
 *   struct rg_wait wait;
 *   rg_patience_begin(gate->patience, &wait, call->http);
 *   rc = long work
 *   if (rg_patience_end(gate->patience, &wait)) { the head is out: write the rest }
 *
 * One thread serves all requests that wait. It does not know what the work is.
 */
#ifndef RG_GATE_PATIENCE_H
#define RG_GATE_PATIENCE_H

#include "base/error.h"
#include "gate/http.h"

#include <stdbool.h>
#include <stdint.h>

struct rg_patience;

struct rg_patience_config {
    unsigned first_ms; /* before the head goes out */
    unsigned next_ms;  /* between spaces */
    uint64_t most_ms;  /* after that no more spaces come, and the server's time-out takes over */
};

/* Whether there is no sense in waiting: the mount hangs. Answers at once. */
typedef bool rg_patience_hopeless(struct rg_http_request *request);

/* Between rg_patience_begin and _end in the caller's frame; private. */
struct rg_wait {
    struct rg_http_request *request;
    struct rg_wait *next;
    struct rg_wait *previous;
    uint64_t started_ns;
    uint64_t due_ns;
    bool begun;
};

int rg_patience_new(const struct rg_patience_config *config, struct rg_patience **ret_patience,
                    struct rg_error *err);

/* While `hopeless` says so of a request no spaces come, as after most_ms. Before the first wait. */
void rg_patience_watch(struct rg_patience *patience, rg_patience_hopeless *hopeless);

/* Nobody may be waiting any more. */
void rg_patience_free(struct rg_patience *patience);

/* Until rg_patience_end the request's answer belongs to the other thread: the caller must not touch
 * it. Fields that the answer is to have must have been set. */
void rg_patience_begin(struct rg_patience *patience, struct rg_wait *wait,
                       struct rg_http_request *request);

/* True when the head and the XML declaration have gone out: the rest is the caller's to write with
 * rg_http_stream_write and to end with rg_http_stream_end. */
bool rg_patience_end(struct rg_patience *patience, struct rg_wait *wait);

#endif
