/*
 * An AIStor (MinIO) node: which build, which settings, and whether its process really uses RDMA.
 */
#ifndef RG_HOST_FACTS_AISTOR_H
#define RG_HOST_FACTS_AISTOR_H

#include "host/aistor_text.h"
#include "host/libraries.h"
#include "host/source.h"

struct rg_host_facts;

#define RG_AISTOR_UNIT  "minio.service"
#define RG_AISTOR_EARLY "/etc/default/minio"
#define RG_AISTOR_LATE  "/etc/minio/config.env"

struct rg_host_aistor {
    bool is_here;
    char program[256];            /* of the unit, else where it usually is; "" */
    struct rg_host_program build; /* what it names, and what of that is nowhere */
    bool is_rdma_build;
    struct rg_reading early_at; /* /etc/default/minio */
    struct rg_environment early;
    struct rg_reading late_at; /* /etc/minio/config.env */
    struct rg_environment late;
    struct rg_reading running_at; /* /proc/PID/environ */
    struct rg_environment running;
    int64_t peer_port;   /* as set, else 5555 */
    bool internode;      /* MINIO_RDMA_INTERNODE is on, in the early file */
    uint64_t pool_bytes; /* count x size; 0 when not this or not readable as numbers */
    bool pool_malformed;
};

void rg_host_read_aistor(struct rg_source *source, struct rg_host_facts *facts);

#endif
