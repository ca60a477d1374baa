/*
 * The access log: one line a request in the form of S3's server access logs, so that the tools made
 * for those read it. One write(2) a line; a line that cannot be written is counted, and the first
 * of a row of failures is logged. A request never fails or waits for the log's sake, except as long
 * as write(2) to its file takes.
 */
#ifndef RG_GATE_ACCESS_LOG_H
#define RG_GATE_ACCESS_LOG_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct rg_access_log;

/* Texts that are empty or NULL, and numbers below 0, are shown as "-". */
struct rg_access_record {
    const char *owner; /* canonical id */
    const char *bucket;
    struct timespec time; /* when the request began, wall clock */
    const char *remote_ip;
    const char *requester; /* canonical id */
    const char *request_id;
    const char *operation; /* "REST.GET.OBJECT" */
    const char *key;       /* decoded */
    const char *method;
    struct span path; /* as on the wire */
    struct span query;
    const char *version; /* "HTTP/1.1" */
    int status;
    const char *error_code;
    int64_t bytes_sent;
    int64_t object_size;
    int64_t total_ms;
    int64_t turnaround_ms;
    struct span referer;
    struct span user_agent;
    struct span version_id;
    const char *host_id;
    const char *signature_version; /* "SigV4" */
    const char *cipher_suite;
    const char *auth_type; /* "AuthHeader", "QueryString" */
    struct span host;
    const char *tls_version; /* "TLSv1.3" */
};

/* Appends to the file at `path`, which is made if need be (mode 0640). RG_SETTING. */
int rg_access_log_open(const char *path, struct rg_access_log **ret_log, struct rg_error *err);
void rg_access_log_close(struct rg_access_log *log);

/* After the file was moved away: opens `path` again. On failure the old file stays in use. */
int rg_access_log_reopen(struct rg_access_log *log, struct rg_error *err);

void rg_access_log_write(struct rg_access_log *log, const struct rg_access_record *record);

/* Lines that were lost. */
uint64_t rg_access_log_failures(struct rg_access_log *log);

/* The line for a record, with its newline. */
void rg_access_log_format(const struct rg_access_record *record, struct rg_buf *out);

#endif
