/*
 * A client for tests that sees every byte: opens a socket, sends what it is told, takes answers
 * apart. All waits end after WIRE_TIMEOUT_MS.
 */
#ifndef RG_TESTS_GATE_WIRE_H
#define RG_TESTS_GATE_WIRE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define WIRE_TIMEOUT_MS 20000

struct wire_answer {
    int status; /* 0: the connection ended instead */
    struct rg_buf head;
    struct rg_buf body; /* without chunk framing */
    bool whole;         /* the body was complete */
    bool chunked;
};

#define WIRE_ANSWER(name) RG_CLEANUP(wire_answer_free) struct wire_answer name = WIRE_ANSWER_INIT
#define WIRE_ANSWER_INIT                                                                           \
    {                                                                                              \
        .head = RG_BUF_INIT(1 << 20), .body = RG_BUF_INIT(64 << 20)                                \
    }

void wire_answer_free(struct wire_answer *answer);

int wire_connect(uint16_t port);
void wire_send(int fd, const char *text);

/* False when the connection broke. */
bool wire_send_bytes(int fd, const void *bytes, size_t len);

/* One byte from the socket is read at a time up to the end of the head, so that nothing of the next
 * answer is lost. `head_only`: the answer to HEAD. */
void wire_read(int fd, struct wire_answer *ret_answer, bool head_only);

/* Value of a field of the head, or NULL. */
const char *wire_field(const struct wire_answer *answer, const char *name);

/* True when the peer closes within the time-out, without further bytes. */
bool wire_is_closed(int fd);

/* True when there is something to read within timeout_ms. */
bool wire_is_readable(int fd, int timeout_ms);

#endif
