/* See server.h. Only what the tests need of HTTP/1.1. */
#include "server.h"

#include "base/assert.h"
#include "base/span.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4096

struct test_server {
    test_handler *handler;
    void *context;
    int fd;
    char url[64];
    pthread_t thread;
    atomic_bool stop;
    atomic_uint requests;
    atomic_uint connections;
    pthread_t threads[CONNECTIONS_MAX];
};

struct connection {
    struct test_server *server;
    int fd;
    char *data; /* read and not used yet */
    size_t len;
    size_t room;
};

bool test_request_header(const struct test_request *request, const char *name, char *value,
                         size_t room)
{
    struct span rest = rg_span_text(request->head);
    value[0] = '\0';
    while (rest.ptr) {
        struct span line = rg_span_cut(&rest, '\n');
        struct span field = rg_span_cut(&line, ':');
        if (line.ptr && rg_span_is_nocase(field, name)) {
            if (line.len && line.ptr[line.len - 1] == '\r') {
                line.len--;
            }
            line = rg_span_trim(line);
            snprintf(value, room, "%.*s", RG_SPAN_ARG(line));
            return true;
        }
    }
    return false;
}

void test_answer_header(struct test_answer *answer, const char *name, const char *value)
{
    rg_buf_addf(&answer->head, "%s: %s\r\n", name, value);
}

static bool send_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len) {
        ssize_t put = send(fd, at, len, MSG_NOSIGNAL);
        if (put <= 0) {
            return false;
        }
        at += put;
        len -= (size_t)put;
    }
    return true;
}

/* False at the end of the connection or of the server. */
static bool read_more(struct connection *connection)
{
    struct pollfd poller = {.fd = connection->fd, .events = POLLIN};
    while (poll(&poller, 1, 50) <= 0) {
        if (connection->server->stop) {
            return false;
        }
    }
    if (connection->len == connection->room) {
        connection->room = connection->room ? 2 * connection->room : 65536;
        connection->data = realloc(connection->data, connection->room);
        RG_ASSERT(connection->data);
    }
    ssize_t got = recv(connection->fd, connection->data + connection->len,
                       connection->room - connection->len, 0);
    if (got <= 0) {
        return false;
    }
    connection->len += (size_t)got;
    return true;
}

static void drop(struct connection *connection, size_t count)
{
    memmove(connection->data, connection->data + count, connection->len - count);
    connection->len -= count;
}

static bool read_head(struct connection *connection, struct test_request *request)
{
    char *end;
    while (!connection->len || !(end = memmem(connection->data, connection->len, "\r\n\r\n", 4))) {
        if (!read_more(connection)) {
            return false;
        }
    }
    size_t head = (size_t)(end - connection->data) + 4;
    struct span all = rg_span(connection->data, head);
    struct span line = rg_span_cut(&all, '\n');
    struct span method = rg_span_cut(&line, ' ');
    struct span target = rg_span_cut(&line, ' ');
    snprintf(request->method, sizeof request->method, "%.*s", RG_SPAN_ARG(method));
    snprintf(request->target, sizeof request->target, "%.*s", RG_SPAN_ARG(target));
    snprintf(request->head, sizeof request->head, "%.*s", RG_SPAN_ARG(all));
    drop(connection, head);
    return true;
}

static bool read_body(struct connection *connection, struct test_request *request)
{
    char value[64];
    if (test_request_header(request, "Expect", value, sizeof value)) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        (void)send_all(connection->fd, go_on, sizeof go_on - 1);
    }
    if (!test_request_header(request, "Content-Length", value, sizeof value)) {
        return true;
    }
    size_t length = strtoull(value, NULL, 10);
    while (connection->len < length) {
        if (!read_more(connection)) {
            return false;
        }
    }
    request->body = malloc(length + 1);
    RG_ASSERT(request->body);
    if (length) {
        memcpy(request->body, connection->data, length);
    }
    request->body[length] = '\0';
    request->body_len = length;
    drop(connection, length);
    return true;
}

static bool send_answer(struct connection *connection, const struct test_request *request,
                        const struct test_answer *answer)
{
    RG_BUF(head, 65536);
    bool is_head = strcmp(request->method, "HEAD") == 0;
    uint64_t length = is_head ? answer->head_length : answer->body.len;
    rg_buf_addf(&head, "HTTP/1.1 %d Test\r\nContent-Length: %llu\r\n%s\r\n", answer->status,
                (unsigned long long)length, rg_buf_text(&answer->head));
    size_t body = is_head ? 0 : answer->body.len;
    bool cut = answer->how == TEST_CUT_BODY;
    return send_all(connection->fd, head.data, head.len) &&
           (!body || send_all(connection->fd, answer->body.data, cut ? body / 2 : body)) && !cut;
}

static void wait_for_end(struct connection *connection)
{
    while (!connection->server->stop) {
        char byte;
        struct pollfd poller = {.fd = connection->fd, .events = POLLIN};
        if (poll(&poller, 1, 20) > 0 && recv(connection->fd, &byte, 1, MSG_PEEK) <= 0) {
            return;
        }
    }
}

static bool serve_one(struct connection *connection, struct test_request *request)
{
    struct test_server *server = connection->server;
    struct test_answer answer = {
        .status = 200, .head = RG_BUF_INIT(32768), .body = RG_BUF_INIT(256u << 20)};
    memset(request, 0, sizeof *request);
    bool goes_on = read_head(connection, request) && read_body(connection, request);
    if (goes_on) {
        request->number = atomic_fetch_add(&server->requests, 1);
        server->handler(server->context, request, &answer);
        if (answer.delay_ms) {
            usleep(answer.delay_ms * 1000);
        }
        if (answer.how == TEST_SILENCE) {
            wait_for_end(connection);
        }
        goes_on = (answer.how == TEST_ANSWER || answer.how == TEST_CUT_BODY) &&
                  send_answer(connection, request, &answer);
    }
    free(request->body);
    rg_buf_free(&answer.head);
    rg_buf_free(&answer.body);
    return goes_on;
}

static void *serve_connection(void *argument)
{
    struct connection *connection = argument;
    struct test_request *request = malloc(sizeof *request);
    RG_ASSERT(request);
    while (serve_one(connection, request)) {
    }
    shutdown(connection->fd, SHUT_RDWR);
    close(connection->fd);
    free(request);
    free(connection->data);
    free(connection);
    return NULL;
}

static void *accept_all(void *argument)
{
    struct test_server *server = argument;
    while (!server->stop) {
        struct pollfd poller = {.fd = server->fd, .events = POLLIN};
        if (poll(&poller, 1, 20) <= 0) {
            continue;
        }
        int fd = accept(server->fd, NULL, NULL);
        if (fd < 0) {
            continue;
        }
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *connection = calloc(1, sizeof *connection);
        unsigned index = server->connections;
        RG_ASSERT(connection && index < CONNECTIONS_MAX);
        connection->server = server;
        connection->fd = fd;
        RG_MUST(pthread_create(&server->threads[index], NULL, serve_connection, connection));
        server->connections = index + 1;
    }
    return NULL;
}

struct test_server *test_server_start(test_handler *handler, void *context)
{
    struct test_server *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    RG_ASSERT(server);
    server->handler = handler;
    server->context = context;
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    RG_MUST(bind(server->fd, (struct sockaddr *)&address, sizeof address));
    RG_MUST(listen(server->fd, 128));
    RG_MUST(getsockname(server->fd, (struct sockaddr *)&address, &len));
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    RG_MUST(pthread_create(&server->thread, NULL, accept_all, server));
    return server;
}

void test_server_stop(struct test_server *server)
{
    server->stop = true;
    RG_MUST(pthread_join(server->thread, NULL));
    for (unsigned i = 0; i < server->connections; i++) {
        RG_MUST(pthread_join(server->threads[i], NULL));
    }
    close(server->fd);
    free(server);
}

const char *test_server_url(const struct test_server *server)
{
    return server->url;
}

unsigned test_server_requests(const struct test_server *server)
{
    return server->requests;
}

unsigned test_server_connections(const struct test_server *server)
{
    return server->connections;
}
