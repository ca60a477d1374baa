/*
 * Memory that may be pinned, and whose: limits of this process and of the service, a real
 * registration, huge pages, control groups, and how many RDMA objects are in use.
 */
#ifndef RG_HOST_FACTS_MEMORY_H
#define RG_HOST_FACTS_MEMORY_H

#include "host/device_policy.h"
#include "host/memory_text.h"
#include "host/nldev_text.h"
#include "host/source.h"

struct rg_host_facts;

#define RG_HOST_SERVICES_MAX  4
#define RG_HOST_MR_PROBES_MAX 64
#define RG_HOST_MR_SIZES      3
#define RG_HOST_GROUPS_MAX    64
#define RG_HOST_MODES_MAX     256
#define RG_HOST_ACCESS_MAX    16

/* A systemd service that pins memory: the one of the plan, the gateway's, AIStor's. */
struct rg_host_service {
    char unit[80];             /* "railgate.service" */
    struct rg_reading unit_at; /* of the unit file; MISSING: not installed */
    struct rg_unit parsed;     /* with its drop-ins */
    struct rg_reading user_at; /* of who it is; NOT_ASKED: root by its unit, or no unit */
    uint32_t uid;
    uint32_t gids[RG_HOST_GROUPS_MAX];
    size_t gid_count;
    bool overrides; /* CAP_DAC_OVERRIDE: modes do not hold for it */
    uint32_t pid;   /* 0: it does not run */
    struct rg_reading limits_at;
    bool has_limits;
    uint64_t soft, hard; /* of the running process, bytes */
    bool has_capabilities;
    bool may_lock;          /* CAP_IPC_LOCK: the limit does not hold for it */
    char cpus_allowed[128]; /* "" when not known */
    struct rg_reading memory_max_at;
    uint64_t memory_max; /* of its control group, when OK */
    struct rg_reading rdma_max_at;
    char rdma_max[512];
};

/* What registering in a child answered: errno values, 0 is success, -1 not tried. */
struct rg_host_mr_probe {
    char device[64];
    int open_errno;
    uint64_t bytes[RG_HOST_MR_SIZES];
    int result[RG_HOST_MR_SIZES];
    int dmabuf; /* of ibv_reg_dmabuf_mr with a bad descriptor; EBADF: it is supported */
};

/* An entry of an access list. */
struct rg_host_access {
    enum { RG_ACCESS_USER, RG_ACCESS_GROUP, RG_ACCESS_OWNING_GROUP, RG_ACCESS_MASK } tag;
    uint32_t id; /* of RG_ACCESS_USER and RG_ACCESS_GROUP */
    uint32_t bits;
};

/* A node below /dev/infiniband. Where it has an access list the group's bits of the mode are its
 * mask. */
struct rg_host_mode {
    char name[64];
    uint32_t mode, uid, gid;
    int major; /* -1: not told */
    struct rg_host_access list[RG_HOST_ACCESS_MAX];
    size_t list_count;
};

struct rg_host_memory {
    struct rg_reading modes_at;
    struct rg_host_mode modes[RG_HOST_MODES_MAX];
    size_t mode_count;
    struct rg_reading char_devices_at; /* /proc/devices */
    struct rg_char_devices char_devices;
    struct rg_reading self_at;
    bool has_self;
    uint64_t self_soft, self_hard;
    bool self_may_lock;
    struct rg_host_service services[RG_HOST_SERVICES_MAX];
    size_t service_count;
    struct rg_text manager_memlock; /* DefaultLimitMEMLOCK of systemd, as it stands there */
    struct rg_reading meminfo_at;
    struct rg_meminfo meminfo;
    struct rg_text transparent; /* "always [madvise] never" */
    struct rg_reading mr_at;    /* of the registration probe */
    struct rg_host_mr_probe mr[RG_HOST_MR_PROBES_MAX];
    size_t mr_count;
    struct rg_reading resources_at; /* lines of rg_nldev_tell */
    char *resources;                /* owned by facts, NULL when unread */
    struct rg_reading system_at;    /* line of rg_nldev_tell_system */
    bool copies_on_fork;
    char own_cgroup[256]; /* "" when not known */
    struct rg_reading own_memory_max_at, own_rdma_max_at;
    uint64_t own_memory_max;
    char own_rdma_max[512];
};

void rg_host_read_memory(struct rg_source *source, struct rg_host_facts *facts);

/* After everything that says how much is going to be pinned: fills in `mr`. */
void rg_host_read_registrations(struct rg_source *source, struct rg_host_facts *facts);
void rg_host_free_memory(struct rg_host_memory *memory);

/* Lines "mr DEVICE OPEN-ERRNO DMABUF-ERRNO BYTES ERRNO [BYTES ERRNO ...]"; false when one is not.
 */
bool rg_host_parse_mr(struct span lines, struct rg_host_memory *memory);

/*
 * What is going to be pinned: the plan's figure, the gateway's rdma-memory, or AIStor's pool;
 * 0 when nothing says. *ret_origin says which, a static text.
 */
uint64_t rg_host_pinned(const struct rg_host_facts *facts, const char **ret_origin);

/* The service with this unit, or NULL. */
const struct rg_host_service *rg_host_service(const struct rg_host_facts *facts, const char *unit);

/* Bytes that it may lock: of its process when it runs, else as its unit says; RG_WORDS_UNLIMITED
 * where nothing limits it. False when that is not known; the service may be NULL. */
bool rg_host_service_lock_limit(const struct rg_host_facts *facts,
                                const struct rg_host_service *service, uint64_t *ret_bytes);

#endif
