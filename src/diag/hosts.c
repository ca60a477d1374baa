/*
 * The table of a site's hosts, line by line.
 */
#include "diag/hosts.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "diag/lustre.h"
#include "diag/shape.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 65536

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line; empty at its end. */
static struct span next_word(struct span *rest)
{
    while (rest->len > 0 && is_blank(rest->ptr[0])) {
        *rest = rg_span_skip(*rest, 1);
    }
    size_t len = 0;
    while (len < rest->len && !is_blank(rest->ptr[len])) {
        len++;
    }
    struct span word = rg_span_head(*rest, len);
    *rest = rg_span_skip(*rest, len);
    return word;
}

static bool read_role(struct span word, enum rg_host_role *ret_role)
{
    static const char *const names[] = {[RG_HOST_CLIENT] = "client",
                                        [RG_HOST_MDS] = "mds",
                                        [RG_HOST_OSS] = "oss",
                                        [RG_HOST_MGS] = "mgs",
                                        [RG_HOST_ROUTER] = "router"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_span_is_nocase(word, names[i])) {
            *ret_role = (enum rg_host_role)i;
            return true;
        }
    }
    return false;
}

/* 1: a host; 0: nothing on the line. */
static int read_line(struct span line, const char *name, size_t number, struct rg_told_host *host,
                     struct rg_error *err)
{
    struct span rest = rg_span_cut(&line, '#');
    host->nid = next_word(&rest);
    host->name = next_word(&rest);
    struct span role = next_word(&rest);
    host->rack = next_word(&rest);
    if (host->nid.len == 0) {
        return 0;
    }
    if (!rg_nid_is(host->nid) || rg_nid_is_local(host->nid)) {
        return rg_failf(err, RG_SETTING, "%s:%zu: \"%.*s\" is no NID", name, number,
                        (int)RG_MIN(host->nid.len, (size_t)64), host->nid.ptr);
    }
    if (!rg_shape_is_host(host->name)) {
        return rg_failf(err, RG_SETTING, "%s:%zu: \"%.*s\" is no host name", name, number,
                        (int)RG_MIN(host->name.len, (size_t)64), host->name.ptr);
    }
    if (!read_role(role, &host->role)) {
        return rg_failf(err, RG_SETTING, "%s:%zu: the role is one of client, mds, oss, mgs, router",
                        name, number);
    }
    if (next_word(&rest).len > 0) {
        return rg_failf(err, RG_SETTING, "%s:%zu: more than NID HOST ROLE [RACK]", name, number);
    }
    return 1;
}

void rg_hosts_free(struct rg_hosts *hosts)
{
    free(hosts->items);
    free(hosts->text);
    *hosts = (struct rg_hosts){0};
}

static void cleanup_hosts(struct rg_hosts *hosts)
{
    rg_hosts_free(hosts);
}

int rg_hosts_read(struct span text, const char *name, struct rg_hosts *ret_hosts,
                  struct rg_error *err)
{
    RG_CLEANUP(cleanup_hosts) struct rg_hosts hosts = {0};
    if (rg_span_has_nul(text) || !rg_span_is_utf8(text)) {
        return rg_failf(err, RG_SETTING, "%s: not a text file", name);
    }
    hosts.text = rg_span_dup(text);
    hosts.items = calloc(RG_HOSTS_MAX, sizeof(*hosts.items));
    if (!hosts.text || !hosts.items) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct span rest = rg_span(hosts.text, text.len);
    for (size_t number = 1; rest.len > 0; number++) {
        struct rg_told_host host;
        int rc = read_line(rg_span_cut(&rest, '\n'), name, number, &host, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0 && hosts.count == RG_HOSTS_MAX) {
            return rg_failf(err, RG_SETTING, "%s: more than %d hosts", name, RG_HOSTS_MAX);
        }
        if (rc > 0) {
            hosts.items[hosts.count++] = host;
        }
    }
    *ret_hosts = hosts;
    hosts = (struct rg_hosts){0};
    return 0;
}

int rg_hosts_load(const char *path, struct rg_hosts *ret_hosts, struct rg_error *err)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat facts;
    if (fd < 0 || fstat(fd, &facts) < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "%s: cannot be opened", path);
    }
    if (!S_ISREG(facts.st_mode)) {
        return rg_failf(err, RG_SETTING, "%s: not a regular file", path);
    }
    RG_BUF(text, RG_HOSTS_BYTES_MAX + PIECE);
    for (;;) {
        char *room = text.len > RG_HOSTS_BYTES_MAX ? NULL : rg_buf_reserve(&text, PIECE);
        if (!room) {
            return rg_failf(err, RG_SETTING, "%s: larger than %d bytes", path, RG_HOSTS_BYTES_MAX);
        }
        ssize_t got = read(fd, room, PIECE);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return rg_fail_errno(err, RG_SETTING, errno, "%s: cannot be read", path);
        }
        if (got == 0) {
            return rg_hosts_read(rg_buf_span(&text), path, ret_hosts, err);
        }
        rg_buf_grew(&text, (size_t)got);
    }
}
