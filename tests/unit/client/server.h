/*
 * A small HTTP server inside the test: one thread a connection, every answer made by a handler. It
 * can also misbehave: hang up, cut a body, say nothing.
 */
#ifndef RG_TESTS_SERVER_H
#define RG_TESTS_SERVER_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test_request {
    char method[16];
    char target[8192]; /* as it came: path and query */
    char head[32768];  /* header lines */
    char *body;
    size_t body_len;
    unsigned number; /* of all requests, from 0 */
};

/* False, and "" in `value`, when the field is not there. */
bool test_request_header(const struct test_request *request, const char *name, char *value,
                         size_t room);

enum test_how {
    TEST_ANSWER,
    TEST_HANG_UP,  /* close without a byte */
    TEST_CUT_BODY, /* close in the middle of the body */
    TEST_SILENCE,  /* keep the connection and say nothing */
};

struct test_answer {
    enum test_how how;
    int status;
    struct rg_buf head; /* further lines, each with its CR LF */
    struct rg_buf body;
    uint64_t head_length; /* Content-Length of an answer to HEAD */
    unsigned delay_ms;
};

/* Adds "name: value". */
void test_answer_header(struct test_answer *answer, const char *name, const char *value);

typedef void test_handler(void *context, const struct test_request *request,
                          struct test_answer *answer);

struct test_server;

struct test_server *test_server_start(test_handler *handler, void *context);
void test_server_stop(struct test_server *server);

/* "http://127.0.0.1:PORT" */
const char *test_server_url(const struct test_server *server);
unsigned test_server_requests(const struct test_server *server);
unsigned test_server_connections(const struct test_server *server);

#endif
