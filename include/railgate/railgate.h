/*
 * librailgate: objects in and out of host and GPU memory, over S3 whose bodies move by RDMA where
 * both ends can and by HTTP where they cannot. Every call says which it was.
 *
 *   struct rg_client *client;
 *   struct rg_failure failure;
 *   if (rg_client_open(NULL, &client, &failure) < 0) { puts(failure.message); ... }
 *   struct rg_memory *memory;
 *   rg_memory_register(client, buffer, size, &memory, &failure);
 *   struct rg_result result;
 *   rg_put(client, "bucket", "key", memory, 0, size, NULL, &result, &failure);
 *   printf("%s over %s\n", result.etag, result.path);       // "rdma:rc", "http:no-transport" ...
 *
 * Threads: a client may be used from any number of threads at once; memory may not be registered or
 * released while a call uses it. Nothing here is global, prints, exits or catches signals.
 *
 * Strings are UTF-8 and NUL-terminated, sizes are bytes, times are milliseconds. Functions return
 * 0, or a negative enum rg_status with *ret_failure (which may be NULL) filled.
 *
 * What is never done: falling back to HTTP after an object may have been committed, handing back a
 * buffer that a NIC may still write to, taking an empty answer for a success.
 */
#ifndef RAILGATE_RAILGATE_H
#define RAILGATE_RAILGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RG_CLIENT_API __attribute__((visibility("default")))

struct rg_client; /* an endpoint, credentials, connections, rails */
struct rg_memory; /* a registered range of memory */

enum rg_status {
    RG_STATUS_OK = 0,
    RG_STATUS_USAGE,        /* an argument or setting is not valid */
    RG_STATUS_CREDENTIALS,  /* none found, or refused */
    RG_STATUS_CONNECT,      /* the endpoint cannot be reached */
    RG_STATUS_NOT_FOUND,    /* no such bucket, key or upload */
    RG_STATUS_REFUSED,      /* another 4xx: see s3_code */
    RG_STATUS_PRECONDITION, /* a condition did not hold */
    RG_STATUS_SERVER,       /* 5xx, after the retries */
    RG_STATUS_TIMEOUT,
    RG_STATUS_INTEGRITY,     /* a digest or length does not match: the bytes are not to be used */
    RG_STATUS_RDMA_DECLINED, /* RG_PATH_RDMA_ONLY, and the transfer could not be made by RDMA */
    RG_STATUS_RDMA_FAILED, /* the transfer broke; whether the object was stored is in `uncertain` */
    RG_STATUS_FILE,        /* a local file cannot be read or written */
    RG_STATUS_MEMORY,      /* out of memory, or memory that cannot be registered */
    RG_STATUS_CANCELLED,
};

struct rg_failure {
    enum rg_status status;
    int http_status;     /* 0: no answer */
    int os_errno;        /* 0: none */
    bool uncertain;      /* the operation may have taken effect at the server */
    char s3_code[64];    /* "NoSuchKey", "" when there is none */
    char request_id[64]; /* the server's, "" when there is none */
    char message[512];   /* one sentence */
};

/* The name of a status, for example "RG_STATUS_TIMEOUT". */
RG_CLIENT_API const char *rg_status_name(enum rg_status status);

enum rg_path_choice {
    RG_PATH_AUTO,      /* RDMA where both ends can, else HTTP */
    RG_PATH_RDMA_ONLY, /* anything else than RDMA is a failure */
    RG_PATH_HTTP_ONLY,
};

/*
 * How to reach the gateway. NULL or zero fields are taken from the environment and files as other
 * AWS tools do: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (refused: not
 * supported), AWS_PROFILE, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or
 * AWS_ENDPOINT_URL, AWS_CA_BUNDLE, ~/.aws/credentials and ~/.aws/config
 * (AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name others).
 */
#define RG_NO_RETRIES 0xffffffffu

struct rg_client_options {
    const char *endpoint; /* "http://host:port"; default http://127.0.0.1:9000 */
    const char *region;   /* default us-east-1 */
    const char *access_key;
    const char *secret_key;
    const char *profile; /* default "default" */
    const char *ca_file; /* PEM, for https */
    bool virtual_host;   /* BUCKET.host addressing; default path style */
    enum rg_path_choice path;
    const char
        *transports;    /* those that may be used, in order of preference; default "dc,rc,ofi";
                           "hipobj-rc-v2" is rc, spoken to gateways that know that dialect only */
    const char *device; /* RDMA device or libfabric provider; default: those that fit */
    unsigned connect_timeout_ms; /* default 5000 */
    unsigned request_timeout_ms; /* of one request without a byte moving; default 30000 */
    unsigned retries;   /* of a request that may be repeated safely; default 3, or RG_NO_RETRIES */
    uint64_t part_size; /* of multipart transfers; default 64 MiB, 5 MiB to 4 GiB - 64 KiB */
    unsigned parallel;  /* parts or ranges in flight of one call; default 8, at most 256 */
    /* Accept of a range by RDMA also HTTP 206 with reply 200 (versitygw) and HTTP 200 with reply
     * 206 (elbencho's server), when Content-Range is right. By default both must say 206. */
    bool mixed_range_replies;
    const char *dc_key_file; /* with the access key of dc in hex, the same as the server's; default:
                                the key that everybody knows */
    /* Of the packets of dc and rc; environment variables RAILGATE_RDMA_MTU and so on do the same.
     */
    unsigned mtu;           /* 256, 512, 1024, 2048, 4096 bytes; default: the port's active one */
    unsigned hop_limit;     /* 1 to 255; default 64 */
    unsigned service_level; /* InfiniBand, 0 to 15; default 0 */
    const char
        *traffic_class;    /* "auto" or "0" to "255"; default auto: by the host's DCB settings */
    const char *gid_index; /* "auto" or "0" to "255"; default auto: chosen by rule */
};

RG_CLIENT_API int rg_client_open(const struct rg_client_options *options,
                                 struct rg_client **ret_client, struct rg_failure *ret_failure);

/* No call may be under way and no memory registered. NULL is allowed. */
RG_CLIENT_API void rg_client_close(struct rg_client *client);

/* What the client found, for people: the endpoint, a line for each rail ("ofi:tcp tcp;ofi_rxm
 * 127.0.0.1"), a line for each that could not be opened. The caller frees the text; NULL when out
 * of memory. */
RG_CLIENT_API char *rg_client_describe(struct rg_client *client);

/* ---- Memory ---- */

enum rg_memory_kind { RG_MEMORY_HOST, RG_MEMORY_CUDA, RG_MEMORY_HIP };

/*
 * Registers host memory with every rail the client has. The bytes stay the caller's and must stay
 * mapped until rg_memory_release.
 */
RG_CLIENT_API int rg_memory_register(struct rg_client *client, void *address, uint64_t size,
                                     struct rg_memory **ret_memory, struct rg_failure *ret_failure);

/*
 * The same for device memory. `address` is the device pointer. It is exported as a dma-buf; where
 * that cannot be done, registered through the peer-memory module. libcuda or libamdhip64 is loaded
 * at run time. RG_STATUS_MEMORY with the reason when neither works.
 */
RG_CLIENT_API int rg_memory_register_device(struct rg_client *client, enum rg_memory_kind kind,
                                            void *address, uint64_t size,
                                            struct rg_memory **ret_memory,
                                            struct rg_failure *ret_failure);

RG_CLIENT_API void rg_memory_release(struct rg_memory *memory);

/* ---- Transfers ---- */

struct rg_result {
    uint64_t bytes; /* moved */
    uint64_t object_size;
    char etag[160];      /* without quotes */
    bool used_rdma;      /* all bytes went by RDMA */
    uint64_t rdma_bytes; /* of `bytes` */
    char path[96]; /* "rdma:rc", "rdma:ofi:tcp", "http:declined" ...; "mixed" for parts that differ
                    */
    char reason[128];  /* why not RDMA; "" when it was */
    char checksum[32]; /* CRC64NVME of the object in base64; "" when the server gave none */
    bool verified;     /* the client computed it too, over the bytes in memory, and it agrees */
    time_t modified;   /* of GET */
};

struct rg_put_options {
    enum rg_path_choice path; /* RG_PATH_AUTO: the client's choice */
    const char *content_type;
    const char *const *metadata; /* name, value, name, value ..., NULL */
    const char *if_match;        /* an ETag */
    bool if_none_match;          /* only create */
    bool no_checksum;            /* do not send CRC64NVME of host memory */
};

struct rg_get_options {
    enum rg_path_choice path;
    const char *if_match;
    bool no_checksum; /* do not verify the server's checksum of a whole object */
};

/*
 * Stores `size` bytes of `memory` from `offset` as an object: one request up to the part size, a
 * parallel multipart upload above it. On failure nothing is visible, unless failure.uncertain.
 */
RG_CLIENT_API int rg_put(struct rg_client *client, const char *bucket, const char *key,
                         struct rg_memory *memory, uint64_t offset, uint64_t size,
                         const struct rg_put_options *options, struct rg_result *ret_result,
                         struct rg_failure *ret_failure);

/*
 * Reads a whole object into `memory` at `offset`, at most `size` bytes: RG_STATUS_USAGE when the
 * object is larger. Large objects are read as parallel ranges, all of one version of the object.
 */
RG_CLIENT_API int rg_get(struct rg_client *client, const char *bucket, const char *key,
                         struct rg_memory *memory, uint64_t offset, uint64_t size,
                         const struct rg_get_options *options, struct rg_result *ret_result,
                         struct rg_failure *ret_failure);

/* Reads `length` bytes of the object from `object_offset`; fewer only where the object ends. */
RG_CLIENT_API int rg_get_range(struct rg_client *client, const char *bucket, const char *key,
                               uint64_t object_offset, uint64_t length, struct rg_memory *memory,
                               uint64_t offset, const struct rg_get_options *options,
                               struct rg_result *ret_result, struct rg_failure *ret_failure);

/* Called as bytes are done, from any of the call's threads, one at a time; false stops the call
 * (RG_STATUS_CANCELLED). `total` is 0 while unknown. */
typedef bool rg_progress(void *context, uint64_t done, uint64_t total);

struct rg_file_options {
    enum rg_path_choice path;
    rg_progress *progress; /* may be NULL */
    void *context;
    const char *content_type; /* put */
    bool resume; /* put: goes on with the unfinished upload of the same file; get: with the partial
                    file */
};

/*
 * Between a file and an object, through registered staging memory of part_size * parallel bytes at
 * the most. A download is written beside `file` and renamed when whole and verified.
 */
RG_CLIENT_API int rg_put_file(struct rg_client *client, const char *bucket, const char *key,
                              const char *file, const struct rg_file_options *options,
                              struct rg_result *ret_result, struct rg_failure *ret_failure);
RG_CLIENT_API int rg_get_file(struct rg_client *client, const char *bucket, const char *key,
                              const char *file, const struct rg_file_options *options,
                              struct rg_result *ret_result, struct rg_failure *ret_failure);

/* ---- The rest of the store ---- */

struct rg_stat {
    uint64_t size;
    time_t modified;
    char etag[160];
    char content_type[128];
    char checksum[32]; /* CRC64NVME in base64, "" when there is none */
};

RG_CLIENT_API int rg_stat_object(struct rg_client *client, const char *bucket, const char *key,
                                 struct rg_stat *ret_stat, struct rg_failure *ret_failure);
RG_CLIENT_API int rg_delete_object(struct rg_client *client, const char *bucket, const char *key,
                                   struct rg_failure *ret_failure);

/*
 * Copies an object within the server; no bytes come here. The path is "server". The copy is of the
 * version that was there when the call began.
 */
RG_CLIENT_API int rg_copy_object(struct rg_client *client, const char *from_bucket,
                                 const char *from_key, const char *bucket, const char *key,
                                 struct rg_result *ret_result, struct rg_failure *ret_failure);

RG_CLIENT_API int rg_make_bucket(struct rg_client *client, const char *bucket,
                                 struct rg_failure *ret_failure);
RG_CLIENT_API int rg_remove_bucket(struct rg_client *client, const char *bucket,
                                   struct rg_failure *ret_failure);

struct rg_listed {
    const char *key; /* or common prefix; bucket name for rg_list_buckets */
    bool is_prefix;
    uint64_t size;
    time_t modified;
    const char *etag;
};

/* Called for each entry in order; false stops. The strings live until it returns. */
typedef bool rg_listed_handler(void *context, const struct rg_listed *entry);

/* `delimiter` NULL: everything below `prefix`; "/": one level. Pages are fetched as needed. */
RG_CLIENT_API int rg_list_objects(struct rg_client *client, const char *bucket, const char *prefix,
                                  const char *delimiter, rg_listed_handler *handler, void *context,
                                  struct rg_failure *ret_failure);
RG_CLIENT_API int rg_list_buckets(struct rg_client *client, rg_listed_handler *handler,
                                  void *context, struct rg_failure *ret_failure);

#ifdef __cplusplus
}
#endif

#endif
