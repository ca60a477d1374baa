/*
 * The only file that knows libcurl. Easy handles live in a pool and keep their connections; one is
 * taken for one exchange, so that no lock is held while bytes move.
 *
 * Process-wide effects: curl_global_init is called once, by whichever client opens first, under
 * pthread_once; it is never undone, because other users of libcurl in the process may depend on it.
 * SIGPIPE is kept from the calling thread for the time of an exchange: TLS writes to a closed
 * connection would raise it, and a library may not install a handler.
 */
#include "client/http.h"

#include "client/failure.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"

#include <ctype.h>
#include <curl/curl.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_HANDLES_MAX 64u
#define BUFFER_BYTES     (512L << 10)
#define HEADER_BYTES_MAX 8192u
#define INFORM_PERIOD_MS 1000
/* A server that never answers 100 Continue gets the body after this. */
#define EXPECT_TIMEOUT_MS 1000L

struct rg_http_pool {
    struct rg_http_options options;
    char *ca_file;
    pthread_mutex_t mutex;
    CURL *idle[IDLE_HANDLES_MAX];
    size_t idle_count;
};

/* What the callbacks of one exchange share. */
struct exchange {
    const struct rg_http_request *request;
    struct rg_http_answer *answer;
    CURL *handle;
    uint32_t idle_timeout_ms;
    uint64_t source_at;
    uint64_t moved; /* of either body */
    size_t head_bytes;
    bool head_ended; /* the empty line behind the fields came */
    curl_off_t seen; /* bytes on the wire when last looked */
    uint64_t seen_ms;
    unsigned sends;
    bool sink_began;
    bool timed_out;
    bool refused; /* by cancel, sink or source */
    bool sent_twice;
    bool too_large;
    bool out_of_memory;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_init_result;

static void init_curl(void)
{
    curl_init_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static const char *const field_names[] = {
#define RG_FIELD(identifier, name) [RG_ANSWER_##identifier] = name,
    RG_ANSWER_FIELDS(RG_FIELD)
#undef RG_FIELD
};

void rg_http_answer_clear(struct rg_http_answer *answer)
{
    struct rg_buf body = answer->body;
    struct rg_buf *traits = answer->traits;
    memset(answer, 0, sizeof *answer);
    answer->body = body;
    answer->traits = traits;
    rg_buf_clear(&answer->body);
    if (traits) {
        rg_buf_clear(traits);
    }
}

void rg_http_answer_free(struct rg_http_answer *answer)
{
    rg_buf_free(&answer->body);
}

struct span rg_http_field(const struct rg_http_answer *answer, enum rg_answer_field field)
{
    return answer->has[field] ? rg_span_text(answer->value[field]) : RG_SPAN_EMPTY;
}

/* ---- Pool ---- */

int rg_http_pool_open(const struct rg_http_options *options, struct rg_http_pool **ret_pool,
                      struct rg_failure *failure)
{
    RG_MUST(pthread_once(&curl_once, init_curl));
    if (curl_init_result != CURLE_OK) {
        return rg_failure_set(failure, RG_STATUS_MEMORY, "libcurl cannot be started: %s.",
                              curl_easy_strerror(curl_init_result));
    }
    struct rg_http_pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        return rg_failure_memory(failure);
    }
    pool->options = *options;
    pool->ca_file = options->ca_file ? strdup(options->ca_file) : NULL;
    if (options->ca_file && !pool->ca_file) {
        free(pool);
        return rg_failure_memory(failure);
    }
    RG_MUST(pthread_mutex_init(&pool->mutex, NULL));
    *ret_pool = pool;
    return 0;
}

void rg_http_pool_close(struct rg_http_pool *pool)
{
    if (!pool) {
        return;
    }
    for (size_t i = 0; i < pool->idle_count; i++) {
        curl_easy_cleanup(pool->idle[i]);
    }
    RG_MUST(pthread_mutex_destroy(&pool->mutex));
    free(pool->ca_file);
    free(pool);
}

static CURL *take_handle(struct rg_http_pool *pool)
{
    CURL *handle = NULL;
    RG_MUST(pthread_mutex_lock(&pool->mutex));
    if (pool->idle_count) {
        handle = pool->idle[--pool->idle_count];
    }
    RG_MUST(pthread_mutex_unlock(&pool->mutex));
    return handle ? handle : curl_easy_init();
}

static void return_handle(struct rg_http_pool *pool, CURL *handle)
{
    curl_easy_reset(handle);
    RG_MUST(pthread_mutex_lock(&pool->mutex));
    if (pool->idle_count < IDLE_HANDLES_MAX) {
        pool->idle[pool->idle_count++] = handle;
        handle = NULL;
    }
    RG_MUST(pthread_mutex_unlock(&pool->mutex));
    if (handle) {
        curl_easy_cleanup(handle);
    }
}

/* ---- Callbacks ---- */

/* Descriptors must not leak into programs that the caller starts. */
static int on_socket(void *context, curl_socket_t socket, curlsocktype purpose)
{
    (void)context;
    (void)purpose;
    (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
    return CURL_SOCKOPT_OK;
}

/* A connection is there and the request is about to go out, also when libcurl repeats it because a
 * kept connection turned out to be dead. */
static int on_send(void *context, char *peer, char *local, int peer_port, int local_port)
{
    struct exchange *exchange = context;
    (void)peer;
    (void)local;
    (void)peer_port;
    (void)local_port;
    exchange->answer->sent = true;
    exchange->seen_ms = rg_clock_ms();
    if (exchange->sends++ && exchange->request->once) {
        exchange->sent_twice = true;
        return CURL_PREREQFUNC_ABORT;
    }
    return CURL_PREREQFUNC_OK;
}

static void count_moved(struct exchange *exchange, size_t bytes)
{
    const struct rg_http_request *request = exchange->request;
    exchange->moved += bytes;
    if (request->moved) {
        request->moved(request->moved_context, exchange->moved);
    }
}

static size_t on_read(char *to, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct rg_http_source *source = exchange->request->source;
    size_t room = size * count;
    if (!source) {
        return 0;
    }
    size_t length = (size_t)RG_MIN((uint64_t)room, source->length - exchange->source_at);
    if (source->bytes) {
        memcpy(to, (const char *)source->bytes + exchange->source_at, length);
    } else if (length && source->copy(source->context, exchange->source_at, to, length) < 0) {
        exchange->refused = true;
        return CURL_READFUNC_ABORT;
    }
    exchange->source_at += length;
    count_moved(exchange, length);
    return length;
}

static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct exchange *exchange = context;
    const struct rg_http_source *source = exchange->request->source;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > (source ? source->length : 0)) {
        return CURL_SEEKFUNC_FAIL;
    }
    exchange->source_at = (uint64_t)offset;
    exchange->moved = exchange->source_at;
    return CURL_SEEKFUNC_OK;
}

static bool is_trait(struct span name)
{
    static const char *const names[] = {
        "content-type",     "cache-control", "content-disposition",
        "content-encoding", "expires",       "x-amz-website-redirect-location",
        "content-language",
    };
    static const char meta[] = "x-amz-meta-";
    if (rg_span_is_nocase(rg_span_head(name, sizeof meta - 1), meta)) {
        return true;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_span_is_nocase(name, names[i])) {
            return true;
        }
    }
    return false;
}

static void keep_trait(struct rg_buf *traits, struct span name, struct span value)
{
    for (size_t i = 0; i < name.len; i++) {
        rg_buf_add_char(traits, (char)tolower((unsigned char)name.ptr[i]));
    }
    rg_buf_add_char(traits, '\0');
    rg_buf_add_span(traits, value);
    rg_buf_add_char(traits, '\0');
}

static void keep_field(struct rg_http_answer *answer, struct span line)
{
    struct span name = rg_span_cut(&line, ':');
    if (!line.ptr) {
        return;
    }
    struct span value = rg_span_trim(line);
    if (answer->traits && is_trait(name)) {
        keep_trait(answer->traits, name, value);
    }
    for (size_t i = 0; i < RG_ANSWER_FIELD_COUNT; i++) {
        if (!rg_span_is_nocase(name, field_names[i])) {
            continue;
        }
        answer->twice[i] = answer->has[i] || value.len > RG_ANSWER_VALUE_MAX;
        answer->has[i] = true;
        rg_failure_copy(answer->value[i], sizeof answer->value[i], value);
        return;
    }
}

void rg_http_answer_take_line(struct rg_http_answer *answer, struct span line)
{
    while (line.len && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r')) {
        line.len--;
    }
    if (rg_span_starts(line, RG_SPAN_LITERAL("HTTP/"))) {
        /* A new answer: that of 100 Continue is over. */
        bool sent = answer->sent;
        rg_http_answer_clear(answer);
        answer->sent = sent;
    } else if (line.len) {
        keep_field(answer, line);
    }
}

static size_t on_header(char *text, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    exchange->head_bytes += size * count;
    if (exchange->head_bytes > RG_ANSWER_HEAD_MAX) {
        exchange->too_large = true;
        return 0;
    }
    struct span line = rg_span(text, size * count);
    bool is_end = rg_span_is(line, "\r\n") || rg_span_is(line, "\n");
    /* Trailers of a chunked body come by here as well. */
    exchange->head_ended =
        is_end || (exchange->head_ended && !rg_span_starts(line, RG_SPAN_LITERAL("HTTP/")));
    rg_http_answer_take_line(exchange->answer, line);
    return size * count;
}

static bool begin_body(struct exchange *exchange, bool is_empty)
{
    const struct rg_http_sink *sink = exchange->request->sink;
    if (exchange->sink_began) {
        return true;
    }
    exchange->sink_began = true;
    return sink->begin(sink->context, exchange->answer, is_empty) >= 0;
}

static void learn_status(struct exchange *exchange)
{
    long status = 0;
    (void)curl_easy_getinfo(exchange->handle, CURLINFO_RESPONSE_CODE, &status);
    exchange->answer->status = (int)status;
}

static size_t on_write(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct rg_http_sink *sink = exchange->request->sink;
    size_t length = size * count;
    learn_status(exchange);
    if (sink && exchange->answer->status / 100 == 2) {
        if (!begin_body(exchange, false) || sink->take(sink->context, bytes, length) < 0) {
            exchange->refused = true;
            return 0;
        }
        count_moved(exchange, length);
        return length;
    }
    rg_buf_add(&exchange->answer->body, bytes, length);
    if (!rg_buf_ok(&exchange->answer->body)) {
        exchange->too_large = exchange->answer->body.len + length > RG_ANSWER_BODY_MAX;
        exchange->out_of_memory = !exchange->too_large;
        return 0;
    }
    return length;
}

static int on_progress(void *context, curl_off_t download_total, curl_off_t downloaded,
                       curl_off_t upload_total, curl_off_t uploaded)
{
    struct exchange *exchange = context;
    (void)download_total;
    (void)upload_total;
    const atomic_bool *cancel = exchange->request->cancel;
    if (cancel && atomic_load_explicit(cancel, memory_order_relaxed)) {
        exchange->refused = true;
        return 1;
    }
    uint64_t now = rg_clock_ms();
    if (downloaded + uploaded != exchange->seen) {
        exchange->seen = downloaded + uploaded;
        exchange->seen_ms = now;
    }
    if (exchange->answer->sent && now - exchange->seen_ms > exchange->idle_timeout_ms) {
        exchange->timed_out = true;
        return 1;
    }
    return 0;
}

/* ---- The exchange ---- */

static void cleanup_list(struct curl_slist **list)
{
    curl_slist_free_all(*list);
}

static bool add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);
    if (longer) {
        *list = longer;
    }
    return longer != NULL;
}

static int list_headers(const struct rg_http_request *request, struct curl_slist **ret_list,
                        struct rg_failure *failure)
{
    RG_CLEANUP(cleanup_list) struct curl_slist *list = NULL;
    bool is_fine = add_header(&list, "Accept:");
    for (size_t i = 0; i < request->header_count && is_fine; i++) {
        const struct rg_header *header = &request->headers[i];
        if (header->name.len + header->value.len + 2 > HEADER_BYTES_MAX) {
            return rg_failure_set(failure, RG_STATUS_USAGE, "The header %.*s is too long.",
                                  RG_SPAN_ARG(header->name));
        }
        RG_BUF(line, HEADER_BYTES_MAX);
        rg_buf_add_span(&line, header->name);
        /* The semicolon is libcurl's way to say that a field is there and empty. */
        rg_buf_add_text(&line, header->value.len ? ": " : ";");
        rg_buf_add_span(&line, header->value);
        is_fine = rg_buf_ok(&line) && add_header(&list, rg_buf_text(&line));
    }
    if (!is_fine) {
        return rg_failure_memory(failure);
    }
    *ret_list = RG_TAKE(list);
    return 0;
}

static void set_method(CURL *handle, const struct rg_http_request *request)
{
    if (strcmp(request->method, "HEAD") == 0) {
        curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
        return;
    }
    if (request->has_body) {
        uint64_t length = request->source ? request->source->length : 0;
        curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)length);
    }
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request->method);
}

static void set_callbacks(CURL *handle, struct exchange *exchange)
{
    curl_easy_setopt(handle, CURLOPT_SOCKOPTFUNCTION, on_socket);
    curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, on_send);
    curl_easy_setopt(handle, CURLOPT_PREREQDATA, exchange);
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(handle, CURLOPT_READDATA, exchange);
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, exchange);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, exchange);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
}

static void set_options(CURL *handle, const struct rg_http_pool *pool,
                        const struct rg_http_request *request, struct curl_slist *headers)
{
    curl_easy_setopt(handle, CURLOPT_URL, request->url);
    curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "librailgate");
    curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    curl_easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    curl_easy_setopt(handle, CURLOPT_EXPECT_100_TIMEOUT_MS, EXPECT_TIMEOUT_MS);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, (long)pool->options.connect_timeout_ms);
    curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
    if (pool->ca_file) {
        curl_easy_setopt(handle, CURLOPT_CAINFO, pool->ca_file);
    }
}

static int fail_curl(struct exchange *exchange, CURLcode code, const char *detail,
                     struct rg_failure *failure)
{
    long os_errno = 0;
    (void)curl_easy_getinfo(exchange->handle, CURLINFO_OS_ERRNO, &os_errno);
    if (exchange->timed_out) {
        return rg_failure_set(failure, RG_STATUS_TIMEOUT,
                              "Nothing came from the gateway for %u ms.",
                              (unsigned)exchange->idle_timeout_ms);
    }
    if (exchange->refused) {
        return rg_failure_set(failure, RG_STATUS_CANCELLED, "The call was cancelled.");
    }
    if (exchange->out_of_memory || code == CURLE_OUT_OF_MEMORY) {
        return rg_failure_memory(failure);
    }
    if (exchange->too_large) {
        bool is_head = exchange->head_bytes > RG_ANSWER_HEAD_MAX;
        return rg_failure_set(failure, RG_STATUS_SERVER,
                              "The gateway's answer is larger than %u bytes%s.",
                              is_head ? RG_ANSWER_HEAD_MAX : RG_ANSWER_BODY_MAX,
                              is_head ? " before its body begins" : "");
    }
    if (code == CURLE_SSL_CACERT_BADFILE) {
        return rg_failure_set(failure, RG_STATUS_USAGE,
                              "The file of CA certificates is not usable: %s.", detail);
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        return rg_failure_set(failure, RG_STATUS_CONNECT,
                              "The gateway's certificate is not trusted: %s. AWS_CA_BUNDLE and "
                              "ca_file name a file of CA certificates that are.",
                              detail[0] ? detail : curl_easy_strerror(code));
    }
    const char *hint = "";
    if (code == CURLE_SSL_CONNECT_ERROR) {
        hint = " (an endpoint without TLS begins with http://)";
    } else if (code == CURLE_GOT_NOTHING && strncmp(exchange->request->url, "http://", 7) == 0) {
        hint = " (an endpoint with TLS begins with https://)";
    }
    const char *words = exchange->sent_twice ? "the connection was closed before an answer came"
                        : detail[0]          ? detail
                                             : curl_easy_strerror(code);
    (void)rg_failure_set(failure, RG_STATUS_CONNECT, "%s: %s%s.",
                         exchange->answer->sent ? "The connection to the gateway broke"
                                                : "The gateway cannot be reached",
                         words, hint);
    failure->os_errno = (int)os_errno;
    return -RG_STATUS_CONNECT;
}

/* Keeps SIGPIPE from this thread. Returns whether one was pending before, which is not ours. */
static bool block_sigpipe(sigset_t *ret_saved)
{
    sigset_t pending;
    sigset_t pipe_set;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    RG_MUST(pthread_sigmask(SIG_BLOCK, &pipe_set, ret_saved));
    return sigismember(&pending, SIGPIPE) == 1;
}

static void restore_sigpipe(const sigset_t *saved, bool was_pending)
{
    sigset_t pipe_set;
    const struct timespec at_once = {.tv_sec = 0};
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    if (!was_pending) {
        (void)sigtimedwait(&pipe_set, NULL, &at_once);
    }
    RG_MUST(pthread_sigmask(SIG_SETMASK, saved, NULL));
}

static CURLcode perform(CURL *handle)
{
    sigset_t saved;
    bool was_pending = block_sigpipe(&saved);
    CURLcode code = curl_easy_perform(handle);
    restore_sigpipe(&saved, was_pending);
    return code;
}

/* Whether the whole body of the request went out; a success that came before it is none. */
static bool is_sent(const struct exchange *exchange)
{
    const struct rg_http_source *source = exchange->request->source;
    curl_off_t sent = 0;
    if (!source || exchange->answer->status / 100 != 2) {
        return true;
    }
    (void)curl_easy_getinfo(exchange->handle, CURLINFO_SIZE_UPLOAD_T, &sent);
    return sent >= 0 && (uint64_t)sent >= source->length;
}

/* An answer without a body never reached on_write. What libcurl lets pass is refused here. */
static int finish(struct exchange *exchange, struct rg_failure *failure)
{
    learn_status(exchange);
    if (!exchange->head_ended) {
        return rg_failure_set(failure, RG_STATUS_CONNECT,
                              "The connection to the gateway broke: its answer was cut off.");
    }
    if (!is_sent(exchange)) {
        return rg_failure_set(failure, RG_STATUS_SERVER,
                              "The gateway answered %d before it had all bytes of the request.",
                              exchange->answer->status);
    }
    if (exchange->answer->twice[RG_ANSWER_CONTENT_LENGTH]) {
        return rg_failure_set(failure, RG_STATUS_SERVER, "The gateway's answer has two lengths.");
    }
    if (exchange->request->sink && exchange->answer->status / 100 == 2 &&
        !begin_body(exchange, true)) {
        return rg_failure_set(failure, RG_STATUS_CANCELLED, "The call was cancelled.");
    }
    return 0;
}

int rg_http_exchange(struct rg_http_pool *pool, const struct rg_http_request *request,
                     struct rg_http_answer *answer, struct rg_failure *failure)
{
    rg_http_answer_clear(answer);
    RG_CLEANUP(cleanup_list) struct curl_slist *headers = NULL;
    int rc = list_headers(request, &headers, failure);
    if (rc < 0) {
        return rc;
    }
    CURL *handle = take_handle(pool);
    if (!handle) {
        return rg_failure_memory(failure);
    }
    struct exchange exchange = {
        .request = request,
        .answer = answer,
        .handle = handle,
        .idle_timeout_ms = pool->options.idle_timeout_ms,
        .seen_ms = rg_clock_ms(),
    };
    char detail[CURL_ERROR_SIZE] = "";
    set_options(handle, pool, request, headers);
    set_method(handle, request);
    set_callbacks(handle, &exchange);
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, detail);
    CURLcode code = perform(handle);
    if (code == CURLE_OK) {
        rc = finish(&exchange, failure);
    } else {
        learn_status(&exchange);
        rc = fail_curl(&exchange, code, detail, failure);
    }
    return_handle(pool, handle);
    return rc;
}
