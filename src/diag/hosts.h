/*
 * The table of a site's hosts (--hosts FILE): which NID is which host's, what the host does, and in
 * which rack or behind which leaf switch it stands. One line a NID: "NID HOST ROLE [RACK]"; "#"
 * begins a comment.
 *
 * It knows nothing of logs.
 */
#ifndef RG_DIAG_HOSTS_H
#define RG_DIAG_HOSTS_H

#include "base/error.h"
#include "base/span.h"

#include <stddef.h>

#define RG_HOSTS_MAX       16384
#define RG_HOSTS_BYTES_MAX (4 << 20)

enum rg_host_role {
    RG_HOST_CLIENT,
    RG_HOST_MDS,
    RG_HOST_OSS,
    RG_HOST_MGS,
    RG_HOST_ROUTER,
};

/* The spans point into the table's text. */
struct rg_told_host {
    struct span nid;
    struct span name;
    struct span rack; /* empty when not stated */
    enum rg_host_role role;
};

struct rg_hosts {
    char *text;
    struct rg_told_host *items;
    size_t count;
};

/* Reads a table; `name` is for errors. RG_SETTING names the first line that is not right,
 * RG_OUT_OF_MEMORY. The caller frees the hosts, which copy the text. */
int rg_hosts_read(struct span text, const char *name, struct rg_hosts *ret_hosts,
                  struct rg_error *err);

/* The same from a regular file of up to RG_HOSTS_BYTES_MAX bytes. */
int rg_hosts_load(const char *path, struct rg_hosts *ret_hosts, struct rg_error *err);

void rg_hosts_free(struct rg_hosts *hosts);

#endif
