#include "gate/access_log.h"

#include "base/assert.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Request lines and header fields are bounded by the connection's memory; quoting may quadruple. */
#define LINE_BYTES_MAX (4u << 20)

/* A pipe whose reader is slow is waited for; the next lines after that are lost until it reads. */
#define PIPE_WAIT_MS 1000

struct rg_access_log {
    char *path;
    int fd; /* the number stays, reopening puts another file behind it */
    _Atomic uint64_t failures;
    _Atomic bool failing;
    pthread_mutex_t lock; /* of the line that is being written: a pipe may take it in pieces */
    _Atomic bool is_torn; /* what was written last has no end */
};

/* Not blocking, for the sake of pipes: one that nobody reads is ENXIO, where the signals of the
 * whole gateway would wait for a reader, and one that nobody empties holds up no request. */
static int open_file(const char *path, int *ret_fd, struct rg_error *err)
{
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, flags, 0640);
    if (fd < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "cannot open the access log %s", path);
    }
    *ret_fd = fd;
    return 0;
}

int rg_access_log_open(const char *path, struct rg_access_log **ret_log, struct rg_error *err)
{
    rg_autoclose int fd = -1;
    int rc = open_file(path, &fd, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_access_log *log = calloc(1, sizeof *log);
    char *copy = strdup(path);
    if (!log || !copy) {
        free(log);
        free(copy);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_MUST(pthread_mutex_init(&log->lock, NULL));
    log->path = copy;
    log->fd = RG_TAKE_FD(fd);
    *ret_log = log;
    return 0;
}

void rg_access_log_close(struct rg_access_log *log)
{
    if (log) {
        close(log->fd);
        RG_MUST(pthread_mutex_destroy(&log->lock));
        free(log->path);
        free(log);
    }
}

int rg_access_log_reopen(struct rg_access_log *log, struct rg_error *err)
{
    rg_autoclose int fd = -1;
    int rc = open_file(log->path, &fd, err);
    if (rc < 0) {
        return rc;
    }
    if (dup3(fd, log->fd, O_CLOEXEC) < 0) {
        return rg_fail_errno(err, RG_INTERNAL_ERROR, errno, "cannot switch the access log");
    }
    atomic_store(&log->is_torn, false);
    return 0;
}

uint64_t rg_access_log_failures(struct rg_access_log *log)
{
    return atomic_load(&log->failures);
}

/* ---- The line ---- */

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           strchr("-._~/", c) != NULL;
}

/* Percent-encoded, so that it is one word; "-" when empty. */
static void add_encoded(struct rg_buf *out, struct span text)
{
    if (text.len == 0) {
        rg_buf_add_char(out, '-');
    }
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c && is_plain(c)) {
            rg_buf_add_char(out, (char)c);
        } else {
            rg_buf_addf(out, "%%%02X", c);
        }
    }
}

/* Printable as it is; what would end the quotes or the line as \xNN, or %NN in a URI. */
static void add_quotable(struct rg_buf *out, struct span text, bool is_uri)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= ' ' && c < 0x7f && c != '"' && (is_uri || c != '\\')) {
            rg_buf_add_char(out, (char)c);
        } else {
            rg_buf_addf(out, is_uri ? "%%%02X" : "\\x%02x", c);
        }
    }
}

static void add_quoted(struct rg_buf *out, struct span text)
{
    rg_buf_add_text(out, " \"");
    if (text.len == 0) {
        rg_buf_add_char(out, '-');
    }
    add_quotable(out, text, false);
    rg_buf_add_char(out, '"');
}

/* One word: anything that could split it is encoded. */
static void add_word(struct rg_buf *out, struct span text)
{
    rg_buf_add_char(out, ' ');
    if (text.len == 0) {
        rg_buf_add_char(out, '-');
    }
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c > ' ' && c < 0x7f && c != '"') {
            rg_buf_add_char(out, (char)c);
        } else {
            rg_buf_addf(out, "%%%02X", c);
        }
    }
}

static void add_text(struct rg_buf *out, const char *text)
{
    add_word(out, rg_span_text(text));
}

static void add_number(struct rg_buf *out, int64_t number)
{
    if (number < 0) {
        rg_buf_add_text(out, " -");
    } else {
        rg_buf_addf(out, " %" PRId64, number);
    }
}

/* [06/Feb/2019:00:00:38 +0000] */
static void add_time(struct rg_buf *out, struct timespec time)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm utc;
    gmtime_r(&time.tv_sec, &utc);
    rg_buf_addf(out, " [%02d/%s/%04d:%02d:%02d:%02d +0000]", utc.tm_mday, months[utc.tm_mon],
                utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

static void add_request_line(struct rg_buf *out, const struct rg_access_record *record)
{
    rg_buf_add_text(out, " \"");
    add_quotable(out, rg_span_text(record->method), true);
    rg_buf_add_char(out, ' ');
    add_quotable(out, record->path, true);
    if (record->query.len) {
        rg_buf_add_char(out, '?');
        add_quotable(out, record->query, true);
    }
    rg_buf_add_char(out, ' ');
    add_quotable(out, rg_span_text(record->version), true);
    rg_buf_add_char(out, '"');
}

void rg_access_log_format(const struct rg_access_record *record, struct rg_buf *out)
{
    add_encoded(out, rg_span_text(record->owner));
    add_text(out, record->bucket);
    add_time(out, record->time);
    add_text(out, record->remote_ip);
    add_text(out, record->requester);
    add_text(out, record->request_id);
    add_text(out, record->operation);
    rg_buf_add_char(out, ' ');
    add_encoded(out, rg_span_text(record->key));
    add_request_line(out, record);
    add_number(out, record->status > 0 ? record->status : -1);
    add_text(out, record->error_code);
    add_number(out, record->bytes_sent);
    add_number(out, record->object_size);
    add_number(out, record->total_ms);
    add_number(out, record->turnaround_ms);
    add_quoted(out, record->referer);
    add_quoted(out, record->user_agent);
    add_word(out, record->version_id);
    add_text(out, record->host_id);
    add_text(out, record->signature_version);
    add_text(out, record->cipher_suite);
    add_text(out, record->auth_type);
    add_word(out, record->host);
    add_text(out, record->tls_version);
    /* Access point, and whether an ACL was needed: there are none. */
    rg_buf_add_text(out, " - -\n");
}

/* ---- Writing ---- */

static void note_failure(struct rg_access_log *log, int os_errno)
{
    atomic_fetch_add(&log->failures, 1);
    if (!atomic_exchange(&log->failing, true)) {
        rg_log_error("access_log.write", "access log lines are being lost",
                     RG_FIELD_TEXT("path", log->path), RG_FIELD_TEXT("error", strerror(os_errno)));
    }
}

/* Whether to try again after a write that failed. */
static bool is_worth_waiting(struct rg_access_log *log, int os_errno)
{
    if (os_errno == EINTR) {
        return true;
    }
    struct pollfd pipe = {.fd = log->fd, .events = POLLOUT};
    return os_errno == EAGAIN && !atomic_load(&log->failing) && poll(&pipe, 1, PIPE_WAIT_MS) > 0;
}

/* With the lock held. 0, or the errno of what was not written to its end. */
static int write_all(struct rg_access_log *log, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t written = write(log->fd, bytes.ptr, bytes.len);
        int failed = written < 0 ? errno : 0;
        if (written > 0) {
            bytes = rg_span_skip(bytes, (size_t)written);
            atomic_store(&log->is_torn, bytes.len > 0);
        } else if (!is_worth_waiting(log, failed)) {
            return failed ? failed : ENOSPC;
        }
    }
    return 0;
}

/* Behind what is left of one that was lost, a line begins anew. */
static int write_line(struct rg_access_log *log, struct span line)
{
    RG_MUST(pthread_mutex_lock(&log->lock));
    int failed = atomic_load(&log->is_torn) ? write_all(log, RG_SPAN_LITERAL("\n")) : 0;
    failed = failed ? failed : write_all(log, line);
    RG_MUST(pthread_mutex_unlock(&log->lock));
    return failed;
}

void rg_access_log_write(struct rg_access_log *log, const struct rg_access_record *record)
{
    RG_BUF(line, LINE_BYTES_MAX);
    rg_access_log_format(record, &line);
    if (!rg_buf_ok(&line)) {
        note_failure(log, ENOMEM);
        return;
    }
    int failed = write_line(log, rg_buf_span(&line));
    if (failed) {
        note_failure(log, failed);
        return;
    }
    if (atomic_exchange(&log->failing, false)) {
        rg_log_info("access_log.write", "access log lines are written again",
                    RG_FIELD_TEXT("path", log->path),
                    RG_FIELD_INT("lost", atomic_load(&log->failures)));
    }
}
