/*
 * See notify.h. The socket is one of the file system or, with a leading @, of the abstract
 * namespace.
 */
#include "cli/notify.h"

#include "base/attr.h"
#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* 0, or an errno. */
static int send_state(const char *name, const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length < 2) {
        return EAFNOSUPPORT;
    }
    if (length >= sizeof(address.sun_path)) {
        return ENAMETOOLONG;
    }
    memcpy(address.sun_path, name, length);
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    rg_autoclose int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                          (const struct sockaddr *)&address, size);
    return sent < 0 ? errno : 0;
}

void rg_cli_notify(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET");
    if (!name) {
        return;
    }
    int failed = send_state(name, state);
    if (failed != 0) {
        rg_log_warn("notify.failed", "cannot tell the service manager",
                    RG_FIELD_TEXT("state", state), RG_FIELD_TEXT("socket", name),
                    RG_FIELD_TEXT("why", strerror(failed)));
    }
}
