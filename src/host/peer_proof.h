/*
 * Proof of a path between two hosts: memory of the one side is written and read by the other over
 * a transport, in growing sizes, and compared. The serving side mints windows on a buffer that
 * holds nothing of value; the visiting side moves and measures.
 */
#ifndef RG_HOST_PEER_PROOF_H
#define RG_HOST_PEER_PROOF_H

#include "base/error.h"
#include "rdma/device.h"
#include "rdma/transport.h"

#include <jansson.h>

#define RG_PROOF_BYTES_MAX ((uint64_t)64 << 20)
#define RG_PROOF_SIZES     14

/* Which way to try: a transport, and for ofi its provider. */
struct rg_proof_way {
    enum rg_transport_kind kind;
    const char *provider; /* "" but for ofi */
};

/* Memory of a GPU, "cuda:0". */
struct rg_proof_gpu {
    bool is_named; /* else there is none, and memory of the host is used */
    enum rg_device_kind kind;
    int ordinal;
    char name[32];
};

/* "" names none. RG_SETTING when the text is no such name. */
int rg_proof_gpu_parse(const char *text, struct rg_proof_gpu *ret_gpu, struct rg_error *err);

/* The memory of one end of a proof. */
struct rg_proof_memory {
    char name[32];       /* "host", "cuda:0" */
    const char *how;     /* it was registered: "dma-buf", "peermem"; "" for the host's */
    uint64_t bar;        /* of the GPU, bytes; 0: not known, or the host's */
    uint64_t registered; /* bytes that could be registered at once */
};

struct rg_proof_result {
    char path[RG_RAIL_PATH_MAX + 1]; /* "rc", "ofi:tcp"; of the rail, else what was tried */
    char device[RG_RAIL_NAME_MAX + 1];
    bool tried; /* both sides have it */
    bool well;  /* everything moved and was the same */
    bool is_hardware;
    uint32_t mtu;                         /* bytes; 0: does not apply */
    uint64_t largest_write, largest_read; /* bytes that arrived whole; 0: none */
    uint64_t failed_size;                 /* of the first that did not */
    struct rg_proof_memory own, other;
    double latency_us; /* median of small writes */
    double write_mbits, read_mbits;
    char message[RG_ERROR_MESSAGE_MAX]; /* why it was not tried, or what failed */
};

struct rg_proof_ask {
    const struct rg_proof_way *way;
    const char *address; /* the connection's, on this side */
    uint64_t bytes;      /* largest transfer */
    /* With memory of GPUs: NULL for a proof between memory of the hosts. Where it names none the
     * other side's GPU is meant. */
    const struct rg_proof_gpu *gpu;
};

/* The visiting side; `fd` speaks peer_wire. An error means that the connection itself is of no more
 * use. */
int rg_proof_run(int fd, const struct rg_proof_ask *asked, struct rg_proof_result *ret_result,
                 struct rg_error *err);

/* ---- The serving side ---- */

struct rg_proof_host;

/* `gpu` is what it lends when GPU memory is asked for; it outlives the host. */
int rg_proof_host_open(const char *address, const struct rg_proof_gpu *gpu,
                       struct rg_proof_host **ret_host, struct rg_error *err);
/* Ends whatever is open. NULL is allowed. */
void rg_proof_host_close(struct rg_proof_host *host);

/* Answers one message ("open", "window", "revoke", "close"); the reply is the caller's, NULL when
 * memory is short. Whatever the message holds, it is answered. */
json_t *rg_proof_host_answer(struct rg_proof_host *host, const json_t *message);

#endif
