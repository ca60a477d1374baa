/* Slow work through the real server: when the head goes out, what keeps it alive, and when that
 * ends. */
#include "test.h"

#include "base/attr.h"
#include "gate/http.h"
#include "gate/patience.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rg_patience *patience;
static struct rg_http_server *server;
static _Atomic unsigned work_ms;

static void handle(struct rg_http_request *request, void *context)
{
    struct rg_wait wait;
    rg_patience_begin(patience, &wait, request);
    usleep(work_ms * 1000);
    if (!rg_patience_end(patience, &wait)) {
        rg_http_answer(request, 409, "quick", 5);
        return;
    }
    rg_http_stream_write(request, "<Slow/>", 7, NULL);
    rg_http_stream_end(request);
}

static void refuse(struct rg_http_request *request, void *context)
{
    rg_http_answer(request, 503, "refused", 7);
}

static void begin(unsigned first_ms, unsigned next_ms, uint64_t most_ms, unsigned timeout_ms)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_patience_config waits = {
        .first_ms = first_ms, .next_ms = next_ms, .most_ms = most_ms};
    assert_int_equal(rg_patience_new(&waits, &patience, &err), 0);
    struct rg_http_config config = {
        .address = "127.0.0.1",
        .tls_cert = "",
        .tls_key = "",
        .connections_max = 64,
        .workers_max = 16,
        .connection_memory = 65536,
        .header_count_max = 64,
        .idle_timeout_ms = 20000,
        .handler_timeout_ms = timeout_ms,
        .handler = handle,
        .busy = refuse,
        .hung = refuse,
        .refused = refuse,
    };
    assert_int_equal(rg_http_start(&config, &server, &err), 0);
}

static void end(void)
{
    usleep(work_ms * 1000);
    assert_int_equal(rg_http_stop(server, 10000), 0);
    rg_patience_free(patience);
}

static int dial(void)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(rg_http_port(server)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
    return fd;
}

static void receive(int fd, char *text, size_t room)
{
    size_t len = 0;
    ssize_t got;
    while ((got = recv(fd, text + len, room - 1 - len, 0)) > 0) {
        len += (size_t)got;
    }
    close(fd);
    text[len] = '\0';
}

static size_t count_spaces(const char *text)
{
    size_t count = 0;
    const char *body = strstr(text, "?>");
    for (const char *c = body ? body : ""; *c; c++) {
        count += *c == ' ';
    }
    return count;
}

static void quick_work_has_its_own_status(void **state)
{
    char text[4096];
    begin(5000, 10, 60000, 20000);
    work_ms = 20;
    receive(dial(), text, sizeof text);
    assert_ptr_equal(strstr(text, "HTTP/1.1 409"), text);
    assert_non_null(strstr(text, "\r\n\r\nquick"));
    end();
}

static void slow_work_is_kept_alive(void **state)
{
    char text[4096];
    begin(30, 20, 60000, 20000);
    work_ms = 400;
    receive(dial(), text, sizeof text);
    assert_ptr_equal(strstr(text, "HTTP/1.1 200"), text);
    assert_non_null(strstr(text, "<?xml version=\"1.0\""));
    assert_non_null(strstr(text, "<Slow/>"));
    assert_true(count_spaces(text) >= 3);
    end();
}

static void spaces_keep_the_time_out_away(void **state)
{
    char text[4096];
    begin(30, 20, 60000, 800);
    work_ms = 2400;
    receive(dial(), text, sizeof text);
    assert_non_null(strstr(text, "<Slow/>"));
    end();
}

static void patience_ends(void **state)
{
    char text[4096];
    begin(30, 20, 100, 800);
    work_ms = 2400;
    receive(dial(), text, sizeof text);
    assert_ptr_equal(strstr(text, "HTTP/1.1 200"), text);
    assert_null(strstr(text, "<Slow/>"));
    assert_null(strstr(text, "\r\n0\r\n")); /* nor does it look whole */
    end();
}

static bool always(struct rg_http_request *request)
{
    return true;
}

static void a_hung_mount_is_not_waited_for(void **state)
{
    char text[4096];
    begin(30, 20, 60000, 150);
    rg_patience_watch(patience, always);
    work_ms = 500;
    receive(dial(), text, sizeof text);
    assert_ptr_equal(strstr(text, "HTTP/1.1 503"), text);
    assert_non_null(strstr(text, "refused"));
    end();
}

static void many_wait_at_a_time(void **state)
{
    int fds[12];
    char text[4096];
    begin(30, 20, 60000, 20000);
    work_ms = 300;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(fds); i++) {
        fds[i] = dial();
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(fds); i++) {
        receive(fds[i], text, sizeof text);
        assert_non_null(strstr(text, "<Slow/>"));
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_work_has_its_own_status),  cmocka_unit_test(slow_work_is_kept_alive),
        cmocka_unit_test(spaces_keep_the_time_out_away),  cmocka_unit_test(patience_ends),
        cmocka_unit_test(a_hung_mount_is_not_waited_for), cmocka_unit_test(many_wait_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
