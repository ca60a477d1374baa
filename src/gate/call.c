/*
 * What verbs do with a call: look things up in the request, add to the answer, keep the record of
 * what became of it. Nothing here decides anything about S3.
 */
#include "gate/call.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rg_call_header(const struct rg_call *call, const char *name, struct span *ret_value)
{
    const struct rg_header *header = rg_header_find(call->headers, call->header_count, name);
    if (!header) {
        return false;
    }
    *ret_value = rg_span_trim(header->value);
    return true;
}

bool rg_call_param(const struct rg_call *call, const char *name, struct span *ret_value)
{
    const struct rg_query_param *param = rg_query_find(&call->query, name);
    if (!param) {
        return false;
    }
    *ret_value = param->value;
    return true;
}

void rg_call_detail(struct rg_call *call, const char *name, struct span value)
{
    if (call->detail_count == RG_CALL_DETAILS_MAX) {
        return;
    }
    char *text = rg_span_dup(value);
    if (!text) {
        return; /* the document is understood without it */
    }
    call->detail_texts[call->detail_count] = text;
    call->details[call->detail_count++] =
        (struct rg_xml_error_extra){.name = name, .value = rg_span(text, value.len)};
}

int rg_call_invalid(struct rg_call *call, const char *name, struct span value, const char *sentence,
                    struct rg_error *err)
{
    rg_call_detail(call, "ArgumentName", rg_span_text(name));
    rg_call_detail(call, "ArgumentValue", rg_span_head(value, 1024));
    return rg_failf(err, RG_INVALID_ARGUMENT, "%s", sentence);
}

int rg_call_check_version(struct rg_call *call, struct rg_error *err)
{
    struct span version;
    if (!rg_call_param(call, "versionId", &version) || rg_span_is(version, "null")) {
        return 0;
    }
    if (version.len == 0) {
        return rg_call_invalid(call, "versionId", version, "Version id cannot be the empty string",
                               err);
    }
    rg_call_detail(call, "Key", call->key);
    rg_call_detail(call, "VersionId", rg_span_head(version, 1024));
    return rg_fail(err, RG_NO_SUCH_VERSION);
}

int rg_call_number(struct rg_call *call, const char *name, uint32_t *ret_value,
                   struct rg_error *err)
{
    struct span text;
    uint64_t value;
    if (!rg_call_param(call, name, &text) || text.len == 0) {
        return 0;
    }
    if (!rg_span_to_u64(text, &value) || value > INT32_MAX) {
        char sentence[128];
        snprintf(sentence, sizeof sentence, "Provided %s not an integer or within integer range",
                 name);
        return rg_call_invalid(call, name, text, sentence, err);
    }
    *ret_value = (uint32_t)value;
    return 0;
}

int rg_call_encoding(struct rg_call *call, bool *ret_url, struct rg_error *err)
{
    struct span text;
    *ret_url = rg_call_param(call, "encoding-type", &text) && text.len != 0;
    if (*ret_url && !rg_span_is(text, "url")) {
        return rg_call_invalid(call, "encoding-type", text,
                               "Invalid Encoding Method specified in Request", err);
    }
    return 0;
}

struct rg_xml_owner rg_call_owner(const struct rg_call *call)
{
    const struct rg_account *owner = rg_accounts_owner(call->gate->accounts);
    return (struct rg_xml_owner){.id = owner->canonical_id, .display_name = owner->display_name};
}

int rg_call_answer_xml(struct rg_call *call, int status, const struct rg_buf *document,
                       struct rg_error *err)
{
    if (!rg_buf_ok(document)) {
        return rg_failf(err, RG_OUT_OF_MEMORY, "the answer's document did not fit");
    }
    rg_http_header_set(call->http, "Content-Type", "application/xml");
    rg_http_answer(call->http, status, document->data, document->len);
    return 0;
}

int rg_call_answer_empty(struct rg_call *call, int status)
{
    rg_http_answer(call->http, status, NULL, 0);
    return 0;
}

void rg_call_set_path(struct rg_call *call, const char *transport, const char *reason)
{
    char path[sizeof call->outcome.path];
    snprintf(path, sizeof path, "%s:%s", transport, reason);
    pthread_mutex_lock(&call->lock);
    memcpy(call->outcome.path, path, sizeof path);
    pthread_mutex_unlock(&call->lock);
    rg_http_header_set(call->http, "x-railgate-path", path);
}

void rg_call_set_operation(struct rg_call *call, const char *name)
{
    pthread_mutex_lock(&call->lock);
    call->outcome.operation = name;
    pthread_mutex_unlock(&call->lock);
}

void rg_call_set_object_size(struct rg_call *call, uint64_t size)
{
    pthread_mutex_lock(&call->lock);
    call->outcome.object_size = (int64_t)RG_MIN(size, (uint64_t)INT64_MAX);
    pthread_mutex_unlock(&call->lock);
}

void rg_call_add_moved(struct rg_call *call, uint64_t bytes)
{
    pthread_mutex_lock(&call->lock);
    call->outcome.moved_bytes += bytes;
    pthread_mutex_unlock(&call->lock);
}

void rg_call_add_copied(struct rg_call *call, uint64_t bytes)
{
    pthread_mutex_lock(&call->lock);
    call->outcome.copied_bytes += bytes;
    pthread_mutex_unlock(&call->lock);
}

void rg_call_note_failure(struct rg_call *call, const struct rg_error *err)
{
    pthread_mutex_lock(&call->lock);
    if (!call->settled) {
        call->settled = true;
        call->outcome.failure = err->code;
        call->outcome.os_errno = err->os_errno;
        memcpy(call->outcome.message, err->message, sizeof call->outcome.message);
    }
    pthread_mutex_unlock(&call->lock);
}

/* A code that clients know: those for our own use say no more than that we failed. */
static enum rg_code public_code(enum rg_code code)
{
    switch (code) {
    case RG_LIMIT:
        return RG_SLOW_DOWN;
    case RG_TIMED_OUT:
    case RG_CANCELLED:
    case RG_DISCONNECTED:
        return RG_SERVICE_UNAVAILABLE;
    case RG_SETTING:
    case RG_NOT_FOUND:
    case RG_PARSE:
        return RG_INTERNAL_ERROR;
    default:
        return code;
    }
}

/* What failed below us is told in general terms: the story, with its paths, is for the log. */
static const char *public_message(enum rg_code code, const struct rg_error *err)
{
    int status = rg_code_http_status(code);
    bool ours = code != err->code || err->os_errno != 0 || (status >= 500 && status != 501);
    return ours || err->message[0] == '\0' ? rg_code_sentence(code) : err->message;
}

void rg_call_error_document(struct rg_call *call, const struct rg_error *err,
                            struct rg_buf *ret_document)
{
    enum rg_code code = public_code(err->code);
    struct rg_xml_error error = {
        .code = rg_code_s3_name(code),
        .message = public_message(code, err),
        .resource = rg_buf_span(&call->path),
        .request_id = rg_http_request_id(call->http),
        .host_id = call->gate->host_id,
        .extra = call->details,
        .extra_count = call->detail_count,
    };
    rg_xml_error(ret_document, &error);
}

int rg_call_error_status(const struct rg_error *err)
{
    return rg_code_http_status(public_code(err->code));
}

int rg_call_finish_long(struct rg_call *call, bool begun, int rc, const struct rg_buf *document,
                        struct rg_error *err)
{
    if (rc == 0 && !rg_buf_ok(document)) {
        rc = rg_failf(err, RG_OUT_OF_MEMORY, "the answer's document did not fit");
    }
    if (!begun) {
        return rc < 0 ? rc : rg_call_answer_xml(call, 200, document, err);
    }
    RG_BUF(failure, RG_CALL_ERROR_BYTES_MAX);
    if (rc < 0) {
        rg_call_error_document(call, err, &failure);
        rg_call_note_failure(call, err);
        document = &failure;
    }
    struct span rest = rg_xml_without_declaration(rg_buf_span(document));
    if (rg_http_stream_write(call->http, rest.ptr, rest.len, err) == 0) {
        rg_http_stream_end(call->http);
    }
    return 0;
}
