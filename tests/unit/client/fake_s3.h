/*
 * A store behind server.h that answers as an S3 server does, as far as the client asks, and that
 * fails where a test says so. Objects and uploads live in memory. Signatures are not looked at:
 * tests/clients has the real gateway for that.
 */
#ifndef RG_TESTS_FAKE_S3_H
#define RG_TESTS_FAKE_S3_H

#include "server.h"

#include <railgate/railgate.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_OBJECTS_MAX 64
#define FAKE_PARTS_MAX   256
#define FAKE_FAULTS_MAX  8

enum fake_rdma {
    FAKE_RDMA_OFF,     /* declines, and says why */
    FAKE_RDMA_SERVE,   /* moves the bytes through fake_rail */
    FAKE_RDMA_UNAWARE, /* a server that has never heard of tokens */
    FAKE_RDMA_SILENT,  /* moves the bytes and says nothing about it */
    FAKE_RDMA_FAIL,    /* RDMATransferFailed */
};

struct fake_bytes {
    char *data;
    size_t len;
    char etag[80];
    char crc[32]; /* "" when the object has none */
};

struct fake_fault {
    const char *method; /* NULL: any */
    const char *part;   /* of the target; NULL: any */
    unsigned times;
    bool after; /* the operation is done all the same */
    enum test_how how;
    int status; /* TEST_ANSWER: with an error document */
    const char *code;
};

struct fake_s3 {
    struct test_server *server;
    pthread_mutex_t mutex;

    struct fake_object {
        bool used;
        char path[1200]; /* "bucket/key" */
        struct fake_bytes bytes;
        char type[128];
        char meta[1024]; /* x-amz-meta-colour */
        char cache[128]; /* cache-control */
        char tags[256];  /* x-amz-tagging */
    } objects[FAKE_OBJECTS_MAX];
    struct fake_upload {
        bool used;
        char id[32];
        char path[1200];
        bool with_crc;
        char type[128]; /* these four: of the object to be */
        char meta[1024];
        char cache[128];
        char tags[256];
        struct fake_bytes parts[FAKE_PARTS_MAX + 1]; /* by number */
    } uploads[FAKE_OBJECTS_MAX];
    unsigned upload_count; /* ever */
    struct fake_push {
        bool is_open;
        bool is_put;
        char path[1200];
        uint64_t size, offset;
        uint32_t cookie;
        char *staging;
    } push;

    enum fake_rdma rdma;
    const char *rail_path; /* of x-railgate-path; "ofi:fake" */
    const char *reason;    /* of declines; "rdma-off" */
    const char *reply;     /* instead of the right one; NULL */
    const char *says_path; /* instead of the right x-railgate-path; NULL */
    bool range_as_200;     /* HTTP 200 to a range that RDMA moves */
    int64_t bytes_off;     /* added to the byte count */
    bool no_byte_count;
    bool no_etag;
    bool no_checksums; /* an old server: knows nothing of CRC64NVME */
    bool sessions;     /* /.s3rdma-rc/connect works */
    bool pushes;       /* the routes below /.hipobj-rc work, for whole objects and ranges of them */
    unsigned busy_times;                    /* so many READYs are refused... */
    int busy_status;                        /* ...with this... */
    const char *busy_code;                  /* ...and this */
    const char *push_checksum, *push_crc64; /* of successful READYs; NULL: none */
    bool lost_is_declined;                  /* a token of an unknown session; else it is refused */
    bool only_ofi;                          /* tokens of other dialects are declined */
    bool decline_as_200;                    /* PUT */
    bool decline_as_error;                  /* GET */
    unsigned page_size;                     /* of listings; 0: 1000 */

    struct fake_fault faults[FAKE_FAULTS_MAX];

    /* What happened */
    unsigned puts, gets, heads, parts, completes, aborts, tokens, connects, disconnects;
    unsigned prepares, readies, cancels;
    char last_token[1024];
    char last_range[64];
    char last_session[64];
};

struct fake_s3 *fake_s3_start(void);
void fake_s3_stop(struct fake_s3 *s3);

void fake_s3_fault(struct fake_s3 *s3, struct fake_fault fault);

/* Puts an object there; the bytes are copied. */
void fake_s3_add(struct fake_s3 *s3, const char *path, const void *bytes, size_t len);
/* NULL when there is none. Only while no request is under way. */
struct fake_object *fake_s3_find(struct fake_s3 *s3, const char *path);
unsigned fake_s3_open_uploads(struct fake_s3 *s3);

#endif
