#include "gate/head.h"

#include <stdlib.h>

/* The connection's memory bounds what arrives; this bounds the copy. */
#define TEXT_BYTES_MAX (2u << 20)
#define METHOD_MAX     32

void rg_head_clear(struct rg_head *head, size_t field_max)
{
    rg_buf_clear(&head->text);
    head->text.max = TEXT_BYTES_MAX;
    head->field_count = 0;
    head->field_max = field_max;
    head->method = 0;
    head->version = 0;
    head->target = (struct rg_head_field){0};
    head->content_length = -1;
    head->chunked = false;
    head->has_body = false;
    head->expects_continue = false;
    head->refusal = RG_OK;
    head->reason = NULL;
}

void rg_head_free(struct rg_head *head)
{
    rg_buf_free(&head->text);
    free(head->fields);
    *head = (struct rg_head){0};
}

void rg_head_refuse(struct rg_head *head, enum rg_code code, const char *reason)
{
    if (head->refusal == RG_OK) {
        head->refusal = code;
        head->reason = reason;
    }
}

static uint32_t store(struct rg_head *head, struct span text)
{
    size_t at = head->text.len;
    rg_buf_add_span(&head->text, text);
    rg_buf_add_char(&head->text, '\0');
    return (uint32_t)at;
}

static struct span stored(const struct rg_head *head, uint32_t at, uint32_t len)
{
    return rg_buf_ok(&head->text) && head->text.data ? rg_span(head->text.data + at, len)
                                                     : RG_SPAN_EMPTY;
}

/* RFC 9110, section 5.6.2. */
static const bool token_bytes[256] = {
    ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['!'] = true,  ['#'] = true,
    ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true, ['*'] = true,
    ['+'] = true,         ['-'] = true,         ['.'] = true,         ['^'] = true,  ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
};

static bool is_token(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!token_bytes[(unsigned char)text.ptr[i]]) {
            return false;
        }
    }
    return text.len > 0;
}

static bool is_field_value(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool grow_fields(struct rg_head *head)
{
    size_t room = head->field_room ? head->field_room * 2 : 16;
    struct rg_head_field *fields = realloc(head->fields, room * sizeof *fields);
    if (!fields) {
        return false;
    }
    head->fields = fields;
    head->field_room = room;
    return true;
}

void rg_head_add(struct rg_head *head, struct span name, struct span value)
{
    if (head->refusal != RG_OK) {
        return;
    }
    if (head->field_count == head->field_max) {
        rg_head_refuse(head, RG_REQUEST_HEADER_TOO_LARGE, "too many header fields");
        return;
    }
    if (!is_token(name) || !is_field_value(value)) {
        rg_head_refuse(head, RG_BAD_REQUEST, "a header field holds bytes that it may not");
        return;
    }
    if (head->field_count == head->field_room && !grow_fields(head)) {
        rg_head_refuse(head, RG_OUT_OF_MEMORY, "out of memory");
        return;
    }
    value = rg_span_trim(value);
    struct rg_head_field *field = &head->fields[head->field_count++];
    field->name_len = (uint32_t)name.len;
    field->value_len = (uint32_t)value.len;
    field->name = store(head, name);
    field->value = store(head, value);
}

/* Cuts "http://host" off an absolute-form target; the host must be the one of the Host field. */
static struct span strip_authority(struct rg_head *head, struct span target)
{
    struct span rest = target;
    if (rg_span_is_nocase(rg_span_head(target, 7), "http://")) {
        rest = rg_span_skip(target, 7);
    } else if (rg_span_is_nocase(rg_span_head(target, 8), "https://")) {
        rest = rg_span_skip(target, 8);
    } else {
        return target;
    }
    size_t len = 0;
    while (len < rest.len && rest.ptr[len] != '/' && rest.ptr[len] != '?') {
        len++;
    }
    struct span host = RG_SPAN_EMPTY;
    bool same = rg_head_find(head, "host", &host) && host.len == len &&
                strncasecmp(host.ptr, rest.ptr, len) == 0;
    if (len == 0 || !same) {
        rg_head_refuse(head, RG_BAD_REQUEST, "the request target's host is not that of Host");
    }
    return rg_span_skip(rest, len);
}

/* Path and query. "*" (OPTIONS) is left as it is for the router to refuse or serve. */
static void set_target(struct rg_head *head, struct span target)
{
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.ptr[i];
        if (c <= ' ' || c == 0x7f) {
            rg_head_refuse(head, RG_INVALID_URI,
                           "the request target holds a space or control byte");
            return;
        }
    }
    struct span query = strip_authority(head, target);
    bool absolute = query.ptr != target.ptr;
    struct span path = rg_span_cut(&query, '?');
    query = query.ptr ? query : RG_SPAN_EMPTY;
    if (path.len == 0 && absolute) {
        path = RG_SPAN_LITERAL("/");
    }
    if (path.len == 0 || (path.ptr[0] != '/' && !rg_span_is(path, "*"))) {
        rg_head_refuse(head, RG_INVALID_URI, "the request target is not a path");
    }
    head->target.name_len = (uint32_t)path.len;
    head->target.value_len = (uint32_t)query.len;
    head->target.name = store(head, path);
    head->target.value = store(head, query);
}

/* Most names differ in length already: many look-ups are made for one request. */
static bool has_name(const struct rg_head *head, size_t i, const char *name, size_t name_len)
{
    const struct rg_head_field *field = &head->fields[i];
    return field->name_len == name_len &&
           strncasecmp(head->text.data + field->name, name, name_len) == 0;
}

/* How many fields have the name; *ret_value is the first. */
static size_t count_fields(const struct rg_head *head, const char *name, struct span *ret_value)
{
    size_t count = 0;
    size_t name_len = strlen(name);
    size_t all = rg_buf_ok(&head->text) ? head->field_count : 0;
    for (size_t i = 0; i < all; i++) {
        if (has_name(head, i, name, name_len) && count++ == 0) {
            *ret_value = stored(head, head->fields[i].value, head->fields[i].value_len);
        }
    }
    return count;
}

/* RFC 9112, section 6.3; where it leaves a choice between repairing and refusing, we refuse. */
static void set_framing(struct rg_head *head, bool old_version)
{
    struct span coding = RG_SPAN_EMPTY;
    struct span length = RG_SPAN_EMPTY;
    size_t codings = count_fields(head, "transfer-encoding", &coding);
    size_t lengths = count_fields(head, "content-length", &length);
    if (codings && lengths) {
        rg_head_refuse(head, RG_BAD_REQUEST, "both Content-Length and Transfer-Encoding");
    }
    if (codings > 1 || lengths > 1) {
        rg_head_refuse(head, RG_BAD_REQUEST, "Content-Length or Transfer-Encoding more than once");
    }
    if (codings && old_version) {
        rg_head_refuse(head, RG_BAD_REQUEST, "Transfer-Encoding in an HTTP/1.0 request");
    }
    if (codings && !rg_span_is_nocase(coding, "chunked")) {
        rg_head_refuse(head, RG_NOT_IMPLEMENTED, "a Transfer-Encoding other than chunked");
    }
    uint64_t bytes = 0;
    if (lengths && (!rg_span_to_u64(length, &bytes) || bytes > INT64_MAX)) {
        rg_head_refuse(head, RG_BAD_REQUEST, "Content-Length is not a number of bytes");
    }
    head->chunked = codings > 0;
    head->content_length = lengths ? (int64_t)(bytes & INT64_MAX) : -1;
    head->has_body = head->chunked || head->content_length > 0;
}

static void check_host(struct rg_head *head, bool old_version)
{
    struct span host = RG_SPAN_EMPTY;
    size_t hosts = count_fields(head, "host", &host);
    if (hosts > 1) {
        rg_head_refuse(head, RG_BAD_REQUEST, "more than one Host");
    }
    if (hosts == 0 && !old_version) {
        rg_head_refuse(head, RG_BAD_REQUEST, "no Host");
    }
}

/* Also before what is stored is judged: without it there seems to be nothing. */
static void check_memory(struct rg_head *head)
{
    if (!rg_buf_ok(&head->text)) {
        rg_head_refuse(head, RG_OUT_OF_MEMORY, "out of memory");
    }
}

void rg_head_finish(struct rg_head *head, struct span method, struct span target,
                    struct span version)
{
    bool old_version = rg_span_is(version, "HTTP/1.0");
    if (!is_token(method) || method.len > METHOD_MAX) {
        rg_head_refuse(head, RG_BAD_REQUEST, "the method is not a token");
        method = RG_SPAN_LITERAL("-");
    }
    head->method = store(head, method);
    head->version = store(head, version);
    check_memory(head);
    check_host(head, old_version);
    set_framing(head, old_version);
    set_target(head, target);
    struct span expect = RG_SPAN_EMPTY;
    head->expects_continue = !old_version && rg_head_find(head, "expect", &expect) &&
                             rg_span_is_nocase(expect, "100-continue");
    check_memory(head);
}

const char *rg_head_method(const struct rg_head *head)
{
    return rg_buf_ok(&head->text) && head->text.data ? head->text.data + head->method : "-";
}

const char *rg_head_version(const struct rg_head *head)
{
    return rg_buf_ok(&head->text) && head->text.data ? head->text.data + head->version : "-";
}

struct span rg_head_path(const struct rg_head *head)
{
    return stored(head, head->target.name, head->target.name_len);
}

struct span rg_head_query(const struct rg_head *head)
{
    return stored(head, head->target.value, head->target.value_len);
}

bool rg_head_field_at(const struct rg_head *head, size_t i, struct span *ret_name,
                      struct span *ret_value)
{
    if (i >= head->field_count || !rg_buf_ok(&head->text)) {
        return false;
    }
    const struct rg_head_field *field = &head->fields[i];
    *ret_name = stored(head, field->name, field->name_len);
    *ret_value = stored(head, field->value, field->value_len);
    return true;
}

bool rg_head_find(const struct rg_head *head, const char *name, struct span *ret_value)
{
    return count_fields(head, name, ret_value) > 0;
}
