/*
 * One request from its head to its answer: route, authenticate, authorise, run the verb, and in one
 * place turn whatever failed into S3's error document. It also keeps what all requests share.
 */
#include "gate/dispatch.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/encode.h"
#include "base/log.h"
#include "gate/authenticate.h"
#include "gate/body.h"
#include "gate/call.h"
#include "gate/health.h"
#include "gate/patience.h"
#include "gate/rdma_ask.h"
#include "gate/rdma_session.h"
#include "gate/verbs.h"
#include "s3/names.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES_MAX 65536u
#define SERVER_NAME    "Railgate"

/* When slow work begins to be kept alive, how often, and for how long at most. */
#define PATIENCE_FIRST_MS 4000u
#define PATIENCE_NEXT_MS  5000u
#define PATIENCE_MOST_MS  86400000u

/* ---- What all requests share ---- */

/*
 * The key of continuation tokens follows from the root account's secret, so that a listing begun at
 * one gateway of a tree goes on at another.
 */
static int derive_token_key(struct rg_gate *gate, struct rg_error *err)
{
    static const char label[] = "railgate continuation token 1";
    const struct rg_account *owner = rg_accounts_owner(gate->accounts);
    unsigned len = 0;
    if (!HMAC(EVP_sha256(), owner->secret_key, (int)strlen(owner->secret_key),
              (const unsigned char *)label, sizeof label - 1, gate->token_key, &len) ||
        len != sizeof gate->token_key) {
        return rg_failf(err, RG_INTERNAL_ERROR, "libcrypto cannot compute HMAC-SHA256");
    }
    return 0;
}

static void name_host(struct rg_gate *gate)
{
    char name[256] = "";
    unsigned char digest[SHA256_DIGEST_LENGTH];
    gethostname(name, sizeof name - 1);
    SHA256((const unsigned char *)name, strlen(name), digest);
    rg_base64_encode(digest, sizeof digest, gate->host_id);
}

const char *rg_gate_host_id(const struct rg_gate *gate)
{
    return gate->host_id;
}

void rg_gate_free(struct rg_gate *gate)
{
    if (!gate) {
        return;
    }
    rg_patience_free(gate->patience);
    rg_buffers_free(gate->buffers);
    rg_accounts_free(gate->accounts);
    OPENSSL_cleanse(gate->token_key, sizeof gate->token_key);
    free(gate);
}

static void cleanup_gate(struct rg_gate **gate)
{
    rg_gate_free(*gate);
}

int rg_gate_new(const struct rg_settings *settings, struct rg_store *store,
                struct rg_gate **ret_gate, struct rg_error *err)
{
    RG_CLEANUP(cleanup_gate) struct rg_gate *gate = calloc(1, sizeof *gate);
    if (!gate) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    gate->settings = settings;
    gate->store = store;
    int rc = rg_accounts_new(settings, &gate->accounts, err);
    if (rc < 0) {
        return rc;
    }
    rc = derive_token_key(gate, err);
    if (rc < 0) {
        return rc;
    }
    name_host(gate);
    /* A worker given up by its connection keeps its buffer, while its place is taken by another. */
    rc = rg_buffers_new(2 * (unsigned)settings->requests_max, &gate->buffers, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_patience_config patience = {
        .first_ms = PATIENCE_FIRST_MS,
        .next_ms = PATIENCE_NEXT_MS,
        .most_ms = PATIENCE_MOST_MS,
    };
    rc = rg_patience_new(&patience, &gate->patience, err);
    if (rc < 0) {
        return rc;
    }
    *ret_gate = RG_TAKE(gate);
    return 0;
}

/* There is no sense in waiting for what is on a mount that hangs. */
static bool is_hopeless(struct rg_http_request *request)
{
    struct rg_call *call = rg_http_user(request);
    bool hopeless = false;
    pthread_mutex_lock(&call->lock);
    for (size_t i = 0; i < call->mount_count; i++) {
        hopeless = hopeless || rg_mount_hangs(call->mounts[i]);
    }
    pthread_mutex_unlock(&call->lock);
    return hopeless;
}

void rg_gate_watch(struct rg_gate *gate, struct rg_health *health)
{
    gate->health = health;
    rg_patience_watch(gate->patience, is_hopeless);
}

void rg_gate_set_planes(struct rg_gate *gate, struct rg_planes *planes)
{
    gate->planes = planes;
}

/* ---- The call ---- */

static void free_call(void *user)
{
    struct rg_call *call = user;
    for (size_t i = 0; i < call->detail_count; i++) {
        free(call->detail_texts[i]);
    }
    rg_sigv4_free(&call->auth);
    rg_sigv4_key_wipe(&call->signing_key);
    OPENSSL_cleanse(&call->account, sizeof call->account);
    rg_query_free(&call->query);
    rg_buf_free(&call->path);
    free(call->headers);
    rg_push_order_free(call->rdma.order);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

/* Belongs to the request. NULL when out of memory. */
static struct rg_call *new_call(struct rg_http_request *request, struct rg_gate *gate)
{
    struct rg_call *call = calloc(1, sizeof *call);
    if (!call) {
        return NULL;
    }
    call->gate = gate;
    call->settings = gate->settings;
    call->store = gate->store;
    call->http = request;
    call->is_head = strcmp(rg_http_method(request), "HEAD") == 0;
    call->path.max = PATH_BYTES_MAX;
    call->info = rg_operation_info(RG_OP_UNKNOWN);
    RG_MUST(pthread_mutex_init(&call->lock, NULL));
    call->outcome.operation = call->info->name;
    call->outcome.log_operation = call->info->log_name;
    call->outcome.auth_type = "-";
    call->outcome.object_size = -1;
    rg_http_set_user(request, call, free_call);
    return call;
}

static int collect_headers(struct rg_call *call, struct rg_error *err)
{
    struct span name, value;
    size_t count = 0;
    while (rg_http_header_at(call->http, count, &name, &value)) {
        count++;
    }
    call->headers = calloc(count ? count : 1, sizeof *call->headers);
    if (!call->headers) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        rg_http_header_at(call->http, i, &call->headers[i].name, &call->headers[i].value);
    }
    call->header_count = count;
    return 0;
}

static void copy_text(char *to, size_t room, struct span from)
{
    size_t len = RG_MIN(from.len, room - 1);
    memcpy(to, from.ptr, len);
    to[len] = '\0';
}

/* From here on the outcome says where the request goes. */
static int route(struct rg_call *call, struct span method, struct span host, struct span domain,
                 struct rg_error *err)
{
    struct span copy_source;
    int rc = rg_address_parse(host, domain, rg_buf_span(&call->path), &call->address, err);
    if (rc < 0) {
        return rc;
    }
    call->bucket = call->address.bucket;
    call->key = call->address.key;
    rc = rg_route(method, &call->address, &call->query,
                  rg_call_header(call, "x-amz-copy-source", &copy_source), &call->operation, err);
    call->info = rg_operation_info(call->operation);

    pthread_mutex_lock(&call->lock);
    call->outcome.operation = call->info->name;
    call->outcome.log_operation = call->info->log_name;
    copy_text(call->outcome.bucket, sizeof call->outcome.bucket, call->bucket);
    copy_text(call->outcome.key, sizeof call->outcome.key, call->key);
    pthread_mutex_unlock(&call->lock);
    return rc;
}

static int find_route(struct rg_call *call, struct rg_error *err)
{
    struct span host = RG_SPAN_EMPTY;
    int rc = collect_headers(call, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_url_decode(rg_http_path(call->http), RG_URL_PATH, &call->path, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_query_parse(rg_http_query(call->http), &call->query, err);
    if (rc < 0) {
        return rc;
    }
    rg_call_header(call, "host", &host);
    return route(call, rg_span_text(rg_http_method(call->http)), host,
                 rg_span_text(call->settings->domain), err);
}

int rg_dispatch_route(struct rg_call *call, struct span method, struct span path, struct span query,
                      struct rg_error *err)
{
    rg_buf_clear(&call->path);
    rg_query_free(&call->query);
    int rc = rg_url_decode(path, RG_URL_PATH, &call->path, err);
    if (rc == 0) {
        rc = rg_query_parse(query, &call->query, err);
    }
    return rc < 0 ? rc : route(call, method, RG_SPAN_EMPTY, RG_SPAN_EMPTY, err);
}

/* ---- What every operation is asked ---- */

/* The seam for policies: so far the root account may do everything, and nobody else anything. */
static int authorise(struct rg_call *call, struct rg_error *err)
{
    if (call->auth.kind == RG_AUTH_ANONYMOUS || !call->account.is_root) {
        return rg_fail(err, RG_ACCESS_DENIED);
    }
    return 0;
}

int rg_dispatch_authorise(struct rg_call *call, struct rg_error *err)
{
    return authorise(call, err);
}

static int check_names(struct rg_call *call, struct rg_error *err)
{
    if (call->address.level == RG_LEVEL_SERVICE) {
        return 0;
    }
    int rc = rg_bucket_name_check(call->bucket, err);
    if (rc < 0) {
        rg_call_detail(call, "BucketName", rg_span_head(call->bucket, 256));
        return rc;
    }
    if (call->address.level == RG_LEVEL_BUCKET) {
        return 0;
    }
    rc = rg_key_check(call->key, err);
    if (rc == -RG_KEY_TOO_LONG) {
        char text[24];
        snprintf(text, sizeof text, "%zu", call->key.len);
        rg_call_detail(call, "Size", rg_span_text(text));
        snprintf(text, sizeof text, "%u", RG_KEY_BYTES_MAX);
        rg_call_detail(call, "MaxSizeAllowed", rg_span_text(text));
    }
    return rc;
}

/* x-amz-expected-bucket-owner and its twin for the source of a copy: the owner's canonical id. */
static int check_expected_owner(const struct rg_call *call, const char *field, struct rg_error *err)
{
    struct span expected;
    const struct rg_account *owner = rg_accounts_owner(call->gate->accounts);
    if (rg_call_header(call, field, &expected) && !rg_span_is(expected, owner->canonical_id)) {
        return rg_fail(err, RG_ACCESS_DENIED);
    }
    return 0;
}

/* Fields that ask for what is not there. To ignore one would be to promise what is not kept. */
static const char *const unsupported[] = {
    "x-amz-server-side-encryption",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-object-lock-",
    "x-amz-grant-",
    "x-amz-write-offset-bytes",
    "x-amz-fwd-",
    "x-amz-rename-source",
    "x-amz-website-redirect-location",
    "x-amz-if-",
};

static int refuse_header(struct rg_call *call, struct span name, struct rg_error *err)
{
    rg_call_detail(call, "Header", name);
    return rg_failf(err, RG_NOT_IMPLEMENTED,
                    "A header you provided implies functionality that is not implemented.");
}

static int refuse_unsupported(struct rg_call *call, struct rg_error *err)
{
    for (size_t i = 0; i < call->header_count; i++) {
        struct span name = call->headers[i].name;
        for (size_t u = 0; u < RG_ARRAY_LENGTH(unsupported); u++) {
            size_t len = strlen(unsupported[u]);
            if (name.len >= len && strncasecmp(name.ptr, unsupported[u], len) == 0) {
                return refuse_header(call, name, err);
            }
        }
    }
    return 0;
}

/*
 * A write goes ahead only under the conditions it was sent with. Reads compare theirs where S3
 * does; of writes these four compare some and refuse the others themselves, and all others have
 * none.
 */
static int refuse_conditions(struct rg_call *call, struct rg_error *err)
{
    static const char *const names[] = {"if-match", "if-none-match", "if-modified-since",
                                        "if-unmodified-since"};
    const char *method = call->info->method;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
        call->operation == RG_OP_PUT_OBJECT || call->operation == RG_OP_COPY_OBJECT ||
        call->operation == RG_OP_COMPLETE_MULTIPART_UPLOAD ||
        call->operation == RG_OP_DELETE_OBJECT) {
        return 0;
    }
    struct span value;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_call_header(call, names[i], &value)) {
            return refuse_header(call, rg_span_text(names[i]), err);
        }
    }
    return 0;
}

/* Only the owner may do anything, which is what these two say. */
static int check_canned_acl(struct rg_call *call, struct rg_error *err)
{
    static const char *const known[] = {"public-read",       "public-read-write",
                                        "aws-exec-read",     "authenticated-read",
                                        "bucket-owner-read", "log-delivery-write"};
    struct span acl;
    if (!rg_call_header(call, "x-amz-acl", &acl) || rg_span_is(acl, "private") ||
        rg_span_is(acl, "bucket-owner-full-control")) {
        return 0;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(known); i++) {
        if (rg_span_is(acl, known[i])) {
            rg_call_detail(call, "Header", RG_SPAN_LITERAL("x-amz-acl"));
            return rg_failf(err, RG_NOT_IMPLEMENTED,
                            "Access control lists other than private are not implemented.");
        }
    }
    return rg_call_invalid(call, "x-amz-acl", acl, "The canned ACL is not valid.", err);
}

/* A signed hash of a body that is not there. Verbs that read a body compare it themselves. */
static int check_absent_body(const struct rg_call *call, struct rg_error *err)
{
    if (rg_http_has_body(call->http) || call->auth.payload != RG_PAYLOAD_SHA256 ||
        rg_span_is_nocase(call->auth.payload_text, RG_SHA256_EMPTY)) {
        return 0;
    }
    return rg_fail(err, RG_X_AMZ_CONTENT_SHA256_MISMATCH);
}

static int check_request(struct rg_call *call, struct rg_error *err)
{
    int rc = check_names(call, err);
    if (rc == 0) {
        rc = check_expected_owner(call, "x-amz-expected-bucket-owner", err);
    }
    if (rc == 0) {
        rc = check_expected_owner(call, "x-amz-source-expected-bucket-owner", err);
    }
    if (rc == 0) {
        rc = refuse_unsupported(call, err);
    }
    if (rc == 0) {
        rc = refuse_conditions(call, err);
    }
    if (rc == 0) {
        rc = check_canned_acl(call, err);
    }
    if (rc == 0) {
        rc = check_absent_body(call, err);
    }
    if (rc == 0) {
        rc = rg_rdma_look(call, err);
    }
    return rc;
}

/* ---- Verbs ---- */

static rg_verb *const verbs[RG_OPERATION_COUNT] = {
    [RG_OP_LIST_BUCKETS] = rg_verb_list_buckets,
    [RG_OP_CREATE_BUCKET] = rg_verb_create_bucket,
    [RG_OP_HEAD_BUCKET] = rg_verb_head_bucket,
    [RG_OP_DELETE_BUCKET] = rg_verb_delete_bucket,
    [RG_OP_GET_BUCKET_LOCATION] = rg_verb_get_bucket_location,
    [RG_OP_PUT_BUCKET_ACL] = rg_verb_put_acl,
    [RG_OP_LIST_OBJECTS] = rg_verb_list_objects,
    [RG_OP_LIST_OBJECTS_V2] = rg_verb_list_objects_v2,
    [RG_OP_LIST_OBJECT_VERSIONS] = rg_verb_list_object_versions,
    [RG_OP_LIST_MULTIPART_UPLOADS] = rg_verb_list_multipart_uploads,
    [RG_OP_GET_BUCKET_TAGGING] = rg_verb_get_bucket_tagging,
    [RG_OP_PUT_BUCKET_TAGGING] = rg_verb_put_bucket_tagging,
    [RG_OP_DELETE_BUCKET_TAGGING] = rg_verb_delete_bucket_tagging,
    [RG_OP_PUT_OBJECT] = rg_verb_put_object,
    [RG_OP_COPY_OBJECT] = rg_verb_copy_object,
    [RG_OP_GET_OBJECT] = rg_verb_get_object,
    [RG_OP_HEAD_OBJECT] = rg_verb_get_object,
    [RG_OP_DELETE_OBJECT] = rg_verb_delete_object,
    [RG_OP_DELETE_OBJECTS] = rg_verb_delete_objects,
    [RG_OP_GET_OBJECT_ATTRIBUTES] = rg_verb_get_object_attributes,
    [RG_OP_PUT_OBJECT_ACL] = rg_verb_put_acl,
    [RG_OP_GET_OBJECT_TAGGING] = rg_verb_get_object_tagging,
    [RG_OP_PUT_OBJECT_TAGGING] = rg_verb_put_object_tagging,
    [RG_OP_DELETE_OBJECT_TAGGING] = rg_verb_delete_object_tagging,
    [RG_OP_CREATE_MULTIPART_UPLOAD] = rg_verb_create_multipart_upload,
    [RG_OP_UPLOAD_PART] = rg_verb_upload_part,
    [RG_OP_UPLOAD_PART_COPY] = rg_verb_upload_part_copy,
    [RG_OP_COMPLETE_MULTIPART_UPLOAD] = rg_verb_complete_multipart_upload,
    [RG_OP_ABORT_MULTIPART_UPLOAD] = rg_verb_abort_multipart_upload,
    [RG_OP_LIST_PARTS] = rg_verb_list_parts,
};

/*
 * One bucket whose storage hangs, or whose clients are slow, must not take every place: the others
 * are still to be served. A bucket may have SHARE_FACTOR times as many places as are free now, so
 * that, however many buckets are stuck, some remain. What names no bucket may hang on any: it has
 * the share of a bucket without a name.
 */
#define SHARE_FACTOR 3u

static _Atomic unsigned *share_of(const struct rg_call *call)
{
    uint64_t hash = rg_span_hash(call->bucket);
    return &call->gate->shares[(hash ^ (hash >> 32)) % RG_GATE_SHARES];
}

/* Mounts of one request are few; what is on the same twice is counted there once. */
void rg_call_enter_mount(struct rg_call *call, struct span bucket, struct span key)
{
    if (!call->gate->health) {
        return;
    }
    struct rg_mount *mount = rg_health_enter(call->gate->health, bucket, key);
    pthread_mutex_lock(&call->lock);
    bool counted = call->mount_count == RG_CALL_MOUNTS_MAX;
    for (size_t i = 0; i < call->mount_count; i++) {
        counted = counted || call->mounts[i] == mount;
    }
    if (!counted) {
        call->mounts[call->mount_count++] = mount;
        if (call->given_up) {
            rg_mount_give_up(mount);
        }
    }
    pthread_mutex_unlock(&call->lock);
    if (counted) {
        rg_mount_leave(mount, false);
    }
}

static void leave_mounts(struct rg_call *call)
{
    pthread_mutex_lock(&call->lock);
    for (size_t i = 0; i < call->mount_count; i++) {
        rg_mount_leave(call->mounts[i], call->given_up);
    }
    call->mount_count = 0;
    pthread_mutex_unlock(&call->lock);
}

void rg_dispatch_given_up(struct rg_http_request *request)
{
    struct rg_call *call = rg_http_user(request);
    if (!call) {
        return;
    }
    pthread_mutex_lock(&call->lock);
    for (size_t i = 0; i < call->mount_count && !call->given_up; i++) {
        rg_mount_give_up(call->mounts[i]);
    }
    call->given_up = true;
    pthread_mutex_unlock(&call->lock);
}

/* Counts the request in. Two that come at once may both get the last place. */
static int enter_share(struct rg_call *call, struct rg_error *err)
{
    unsigned all = (unsigned)call->settings->requests_max;
    unsigned total = atomic_load(&call->gate->in_progress);
    unsigned left = total < all ? all - total : 0;
    if (atomic_load(share_of(call)) >= SHARE_FACTOR * left) {
        return rg_failf(err, RG_SLOW_DOWN,
                        "Too many requests are in progress on this bucket. Try again.");
    }
    atomic_fetch_add(&call->gate->in_progress, 1);
    atomic_fetch_add(share_of(call), 1);
    return 0;
}

static void leave_share(struct rg_call *call)
{
    atomic_fetch_sub(share_of(call), 1);
    atomic_fetch_sub(&call->gate->in_progress, 1);
}

static int run_verb(struct rg_call *call, struct rg_error *err)
{
    if (call->info->answer != RG_ANSWER_VERB) {
        return rg_verb_default(call, err);
    }
    rg_verb *verb = verbs[call->operation];
    return verb ? verb(call, err) : rg_fail(err, RG_NOT_IMPLEMENTED);
}

int rg_dispatch_admit(struct rg_call *call, struct rg_error *err)
{
    int rc = authorise(call, err);
    return rc < 0 ? rc : check_request(call, err);
}

int rg_dispatch_run(struct rg_call *call, struct rg_error *err)
{
    int rc = enter_share(call, err);
    if (rc < 0) {
        return rc;
    }
    rg_call_enter_mount(call, call->bucket, call->key);
    rc = run_verb(call, err);
    leave_mounts(call);
    leave_share(call);
    return rc;
}

static int serve_control(struct rg_call *call, struct rg_error *err)
{
    int rc = collect_headers(call, err);
    return rc < 0 ? rc : rg_rdma_control(call, err);
}

static int serve(struct rg_call *call, struct rg_error *err)
{
    if (rg_rdma_is_control(rg_http_path(call->http))) {
        return serve_control(call, err);
    }
    int rc = find_route(call, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_authenticate(call, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_dispatch_admit(call, err);
    return rc < 0 ? rc : rg_dispatch_run(call, err);
}

/* ---- Answers ---- */

static void set_common_fields(struct rg_http_request *request, const struct rg_gate *gate)
{
    rg_http_header_set(request, "Server", SERVER_NAME);
    rg_http_header_set(request, "x-amz-request-id", rg_http_request_id(request));
    rg_http_header_set(request, "x-amz-id-2", gate->host_id);
}

/* Which element S3 puts beside an error about something that is not there. */
static void add_subject(struct rg_call *call, enum rg_code code)
{
    if (code == RG_NO_SUCH_BUCKET || code == RG_BUCKET_NOT_EMPTY ||
        code == RG_BUCKET_ALREADY_OWNED) {
        rg_call_detail(call, "BucketName", call->bucket);
    } else if (code == RG_NO_SUCH_KEY) {
        rg_call_detail(call, "Key", call->key);
    } else if (code == RG_NO_SUCH_UPLOAD) {
        struct span id;
        if (rg_call_param(call, "uploadId", &id)) {
            rg_call_detail(call, "UploadId", rg_span_head(id, 1024));
        }
    } else if (code == RG_METHOD_NOT_ALLOWED) {
        rg_call_detail(call, "Method", rg_span_text(rg_http_method(call->http)));
    }
}

/* The cuObject draft declines a PUT with 200, the reply field saying 501 and no ETag. */
static int failure_status(const struct rg_call *call, const struct rg_error *err)
{
    bool draft = err->code == RG_RDMA_NOT_SUPPORTED &&
                 call->settings->rdma_decline_put == RG_DECLINE_WITH_200 &&
                 strcmp(rg_http_method(call->http), "PUT") == 0;
    return draft ? 200 : rg_call_error_status(err);
}

/* The one place where failures become answers. */
static void answer_failure(struct rg_call *call, const struct rg_error *err)
{
    int status = failure_status(call, err);
    rg_call_note_failure(call, err);
    if (rg_http_answered(call->http)) {
        return;
    }
    if (status == 405) {
        rg_http_header_set(call->http, "Allow", "GET, HEAD, PUT, POST, DELETE");
    }
    if (status == 503) {
        rg_http_header_set(call->http, "Retry-After", "1");
    }
    if (call->is_head || status == 304) {
        rg_http_answer_head(call->http, status, -1);
        return;
    }
    add_subject(call, err->code);
    RG_BUF(document, RG_CALL_ERROR_BYTES_MAX);
    rg_call_error_document(call, err, &document);
    if (!rg_buf_ok(&document)) {
        rg_http_answer_starved(call->http);
        return;
    }
    rg_http_header_set(call->http, "Content-Type", "application/xml");
    rg_http_answer(call->http, status, document.data, document.len);
}

/* A failure of a request that may never have been looked at, on the connection's own thread. */
static void answer_unserved(struct rg_http_request *request, struct rg_gate *gate,
                            const struct rg_error *err)
{
    set_common_fields(request, gate);
    struct rg_call *call = new_call(request, gate);
    if (!call) {
        rg_http_answer_starved(request);
        return;
    }
    if (err->code == RG_SLOW_DOWN) {
        find_route(call, NULL); /* for the log only */
    }
    answer_failure(call, err);
}

void rg_dispatch(struct rg_http_request *request, void *context)
{
    struct rg_gate *gate = context;
    struct rg_error err = RG_ERROR_INIT;
    rg_log_set_request(rg_http_request_id(request));
    set_common_fields(request, gate);
    struct rg_call *call = new_call(request, gate);
    if (!call) {
        rg_http_answer_starved(request);
    } else if (serve(call, &err) < 0) {
        answer_failure(call, &err);
    } else if (!rg_http_answered(request)) {
        rg_failf(&err, RG_INTERNAL_ERROR, "%s ended without an answer", call->info->name);
        answer_failure(call, &err);
    }
    rg_log_set_request(NULL);
}

void rg_dispatch_busy(struct rg_http_request *request, void *context)
{
    struct rg_error err = RG_ERROR_INIT;
    rg_fail(&err, RG_SLOW_DOWN);
    answer_unserved(request, context, &err);
}

void rg_dispatch_refused(struct rg_http_request *request, void *context)
{
    struct rg_error err = RG_ERROR_INIT;
    enum rg_code code = rg_http_refusal(request);
    const char *reason = rg_http_refusal_reason(request);
    if (*reason) {
        rg_failf(&err, code, "%s", reason);
    } else {
        rg_fail(&err, code);
    }
    answer_unserved(request, context, &err);
}

void rg_dispatch_hung(struct rg_http_request *request, void *context)
{
    struct rg_gate *gate = context;
    struct rg_error err = RG_ERROR_INIT;
    rg_fail(&err, RG_STORAGE_HUNG);
    struct rg_call *call = rg_http_user(request);
    if (call) {
        rg_call_note_failure(call, &err);
    }

    /* The call is the worker's, which may be using it: this answer takes nothing from it. */
    set_common_fields(request, gate);
    struct rg_xml_error error = {
        .code = rg_code_s3_name(err.code),
        .message = err.message,
        .resource = rg_http_path(request),
        .request_id = rg_http_request_id(request),
        .host_id = gate->host_id,
    };
    RG_BUF(document, RG_CALL_ERROR_BYTES_MAX);
    rg_xml_error(&document, &error);
    if (!rg_buf_ok(&document)) {
        rg_http_answer_starved(request);
        return;
    }
    int status = rg_code_http_status(err.code);
    rg_http_header_set(request, "Retry-After", "1");
    if (strcmp(rg_http_method(request), "HEAD") == 0) {
        rg_http_answer_head(request, status, -1);
        return;
    }
    rg_http_header_set(request, "Content-Type", "application/xml");
    rg_http_answer(request, status, document.data, document.len);
}

bool rg_dispatch_outcome(const struct rg_http_request *request, struct rg_outcome *ret_outcome)
{
    struct rg_call *call = rg_http_user(request);
    if (!call) {
        const struct rg_operation_info *info = rg_operation_info(RG_OP_UNKNOWN);
        *ret_outcome = (struct rg_outcome){
            .operation = info->name,
            .log_operation = info->log_name,
            .auth_type = "-",
            .object_size = -1,
        };
        return false;
    }
    pthread_mutex_lock(&call->lock);
    *ret_outcome = call->outcome;
    pthread_mutex_unlock(&call->lock);
    return true;
}
