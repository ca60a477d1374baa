#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

void wire_answer_free(struct wire_answer *answer)
{
    rg_buf_free(&answer->head);
    rg_buf_free(&answer->body);
}

int wire_connect(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        abort();
    }
    struct timeval limit = {.tv_sec = WIRE_TIMEOUT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

bool wire_send_bytes(int fd, const void *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0) {
            return false;
        }
        bytes = (const char *)bytes + sent;
        len -= (size_t)sent;
    }
    return true;
}

void wire_send(int fd, const char *text)
{
    wire_send_bytes(fd, text, strlen(text));
}

static bool read_head(int fd, struct wire_answer *answer)
{
    rg_buf_clear(&answer->head);
    while (answer->head.len < 4 ||
           memcmp(answer->head.data + answer->head.len - 4, "\r\n\r\n", 4) != 0) {
        char c;
        if (recv(fd, &c, 1, 0) != 1) {
            return false;
        }
        rg_buf_add_char(&answer->head, c);
    }
    return true;
}

static bool read_bytes(int fd, struct wire_answer *answer, uint64_t len)
{
    char block[65536];
    while (len > 0) {
        ssize_t got = recv(fd, block, len < sizeof block ? (size_t)len : sizeof block, 0);
        if (got <= 0) {
            return false;
        }
        rg_buf_add(&answer->body, block, (size_t)got);
        len -= (uint64_t)got;
    }
    return true;
}

static bool read_line(int fd, char *line, size_t room)
{
    size_t len = 0;
    while (len < 2 || memcmp(line + len - 2, "\r\n", 2) != 0) {
        if (len + 1 >= room || recv(fd, line + len, 1, 0) != 1) {
            return false;
        }
        len++;
    }
    line[len - 2] = '\0';
    return true;
}

static bool read_chunks(int fd, struct wire_answer *answer)
{
    char line[128];
    for (;;) {
        if (!read_line(fd, line, sizeof line)) {
            return false;
        }
        uint64_t len = strtoull(line, NULL, 16);
        if (!read_bytes(fd, answer, len) || !read_line(fd, line, sizeof line)) {
            return false;
        }
        if (len == 0) {
            return true;
        }
    }
}

void wire_read(int fd, struct wire_answer *ret_answer, bool head_only)
{
    rg_buf_clear(&ret_answer->body);
    ret_answer->status = 0;
    ret_answer->whole = false;
    if (!read_head(fd, ret_answer)) {
        return;
    }
    ret_answer->status = atoi(rg_buf_text(&ret_answer->head) + strlen("HTTP/1.1 "));
    if (head_only || ret_answer->status == 100 || ret_answer->status == 204 ||
        ret_answer->status == 304) {
        ret_answer->whole = true;
        return;
    }
    const char *length = wire_field(ret_answer, "Content-Length");
    const char *coding = wire_field(ret_answer, "Transfer-Encoding");
    ret_answer->chunked = coding != NULL;
    if (coding) {
        ret_answer->whole = read_chunks(fd, ret_answer);
    } else if (length) {
        ret_answer->whole = read_bytes(fd, ret_answer, strtoull(length, NULL, 10));
    } else {
        read_bytes(fd, ret_answer, UINT64_MAX);
        ret_answer->whole = true;
    }
}

const char *wire_field(const struct wire_answer *answer, const char *name)
{
    static _Thread_local char value[1024];
    size_t name_len = strlen(name);
    for (const char *line = strstr(rg_buf_text(&answer->head), "\r\n"); line;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
            line += name_len + 1;
            line += *line == ' ';
            size_t len = strcspn(line, "\r");
            len = len < sizeof value ? len : sizeof value - 1;
            memcpy(value, line, len);
            value[len] = '\0';
            return value;
        }
    }
    return NULL;
}

bool wire_is_readable(int fd, int timeout_ms)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    return poll(&readable, 1, timeout_ms) > 0;
}

bool wire_is_closed(int fd)
{
    char c;
    if (!wire_is_readable(fd, WIRE_TIMEOUT_MS)) {
        return false;
    }
    ssize_t got = recv(fd, &c, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}
