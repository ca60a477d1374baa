/*
 * What a gateway on this machine is going to need: its settings, its ports, the tree it serves.
 */
#ifndef RG_HOST_FACTS_GATEWAY_H
#define RG_HOST_FACTS_GATEWAY_H

#include "host/aistor_text.h"
#include "host/source.h"

struct rg_host_facts;

/* The tree, as a probe in a child found it; errno values, 0 is success, -1 not tried. */
struct rg_host_tree {
    bool known;
    int open_errno;                            /* of the directory */
    uint64_t type;                             /* f_type of statfs */
    uint64_t block_bytes, blocks, blocks_free; /* free to users */
    bool read_only;
    int get_errno;     /* getxattr of a user attribute that is not there: ENODATA is right */
    int replace_errno; /* setxattr(XATTR_REPLACE) of it, which changes nothing: ENODATA is right */
    int write_errno;   /* access for writing */
    int tmpfile_errno; /* O_TMPFILE, only with --active; the file never has a name */
    int file_errno; /* only with --active: set, get and remove on a file that is made and removed */
    int direct_errno;    /* with --active: O_DIRECT, 4 KiB and 1 MiB written and read back */
    int unaligned_errno; /* the same with 1000 bytes more: EINVAL is usual */
    int clone_errno;     /* FICLONE of one such file to another */
    int allocate_errno;  /* fallocate(KEEP_SIZE) of 1 MiB */
};

struct rg_host_gateway {
    struct rg_reading settings_at; /* of plan.config */
    bool has_settings;             /* read and valid, or no file and so the defaults */
    char settings_error[512];      /* "" when valid */
    int64_t port, admin_port;
    uint64_t rdma_memory; /* bytes, of each rail */
    bool rdma_off;
    struct rg_reading sockets_at; /* /proc/net/tcp and tcp6 */
    struct rg_listeners listeners;
    struct rg_reading tree_at; /* of the probe on plan.root */
    struct rg_host_tree tree;
};

void rg_host_read_gateway(struct rg_source *source, struct rg_host_facts *facts);

/* Lines "NAME NUMBER" of the tree probe; false when one is not. */
bool rg_host_parse_tree(struct span lines, struct rg_host_tree *ret_tree);

#define RG_GATEWAY_UNIT "railgate.service"

/* Whether this host is to be a gateway: the plan says so, or it has its settings or its unit. Only
 * then do settings count, which without a file are the defaults. */
bool rg_host_has_gateway(const struct rg_host_facts *facts);

struct rg_tree_task {
    const char *path;
    bool active; /* a file may be made and removed */
};

/*
 * A probe function: `argument` is a struct rg_tree_task. Unless active it makes no change:
 * XATTR_REPLACE of an attribute that does not exist fails on every mount, but how it fails tells.
 */
int rg_tree_probe(void *argument, int fd);

#define RG_TREE_PROBE_ATTRIBUTE "user.railgate.doctor"

#endif
