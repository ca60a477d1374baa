/*
 * Addressing and routing over routes.tbl.
 */
#include "s3/route.h"

#include "base/assert.h"

#define BY_PLAIN false
#define BY_COPY  true

static const struct rg_operation_info operations[RG_OPERATION_COUNT] = {
    [RG_OP_UNKNOWN] = {.name = "Unknown",
                       .log_name = "-",
                       .action = "",
                       .method = "",
                       .subresource = "",
                       .answer = RG_ANSWER_FAILURE,
                       .failure = RG_METHOD_NOT_ALLOWED},
#define RG_ROUTE(identifier, method_, level_, subresource_, by_, name_, log_name_, action_,        \
                 answer_, failure_)                                                                \
    [RG_OP_##identifier] = {.name = name_,                                                         \
                            .log_name = log_name_,                                                 \
                            .action = action_,                                                     \
                            .method = method_,                                                     \
                            .level = RG_LEVEL_##level_,                                            \
                            .subresource = subresource_,                                           \
                            .by_copy_source = BY_##by_,                                            \
                            .answer = RG_ANSWER_##answer_,                                         \
                            .failure = RG_##failure_},
#include "s3/routes.tbl"
#undef RG_ROUTE
};

const struct rg_operation_info *rg_operation_info(enum rg_operation operation)
{
    RG_ASSERT((unsigned)operation < RG_OPERATION_COUNT);
    return &operations[operation];
}

/* ---- Addressing ---- */

/* Without ":port" and a final dot. "[::1]:80" keeps its brackets. */
static struct span host_name(struct span host)
{
    size_t end = host.len;
    while (end && host.ptr[end - 1] >= '0' && host.ptr[end - 1] <= '9') {
        end--;
    }
    if (end && host.ptr[end - 1] == ':') {
        host.len = end - 1;
    }
    if (host.len && host.ptr[host.len - 1] == '.') {
        host.len--;
    }
    return host;
}

/* The bucket in front of ".domain"; empty when the host is not of that shape. */
static struct span bucket_of_host(struct span host, struct span domain)
{
    host = host_name(host);
    if (domain.len == 0 || host.len <= domain.len + 1) {
        return RG_SPAN_EMPTY;
    }
    struct span tail = rg_span_skip(host, host.len - domain.len);
    if (strncasecmp(tail.ptr, domain.ptr, domain.len) != 0 || tail.ptr[-1] != '.') {
        return RG_SPAN_EMPTY;
    }
    return rg_span_head(host, host.len - domain.len - 1);
}

int rg_address_parse(struct span host, struct span domain, struct span path,
                     struct rg_address *ret_address, struct rg_error *err)
{
    if (path.len == 0 || path.ptr[0] != '/') {
        return rg_failf(err, RG_INVALID_URI, "The path must begin with a slash.");
    }
    struct rg_address address = {.bucket = bucket_of_host(host, domain), .key = RG_SPAN_EMPTY};
    struct span rest = rg_span_skip(path, 1);
    address.virtual_host = address.bucket.len != 0;
    if (!address.virtual_host && rest.len) {
        address.bucket = rg_span_cut(&rest, '/');
        if (address.bucket.len == 0) {
            return rg_failf(err, RG_INVALID_URI, "The path does not begin with a bucket name.");
        }
    }
    if (rest.len) {
        address.key = rest;
    }
    address.level = address.key.len      ? RG_LEVEL_OBJECT
                    : address.bucket.len ? RG_LEVEL_BUCKET
                                         : RG_LEVEL_SERVICE;
    *ret_address = address;
    return 0;
}

/* ---- Routing ---- */

/* Like rg_span_is; most names differ in their first character. */
static bool is_named(struct span name, const char *subresource)
{
    return name.len && name.ptr[0] == subresource[0] && rg_span_is(name, subresource);
}

/* list-type and uploadId's companion are parameters of an operation more than subresources. */
static bool is_subresource(struct span name)
{
    /* The X-Amz- parameters of presigned requests are many, and every subresource is lower case. */
    if (name.len == 0 || name.ptr[0] == 'X' || rg_span_is(name, "list-type")) {
        return false;
    }
    for (size_t i = 1; i < RG_OPERATION_COUNT; i++) {
        if (is_named(name, operations[i].subresource)) {
            return true;
        }
    }
    return false;
}

static bool known_at(struct span name, enum rg_route_level level)
{
    for (size_t i = 1; i < RG_OPERATION_COUNT; i++) {
        if (operations[i].level == level && is_named(name, operations[i].subresource)) {
            return true;
        }
    }
    return false;
}

/* The one subresource among the parameters; empty when there is none. */
static int find_subresource(const struct rg_query *query, struct span *ret_name,
                            struct rg_error *err)
{
    struct span name = RG_SPAN_EMPTY;
    for (size_t i = 0; i < query->count; i++) {
        struct span candidate = query->params[i].name;
        if (!is_subresource(candidate) || rg_span_eq(candidate, name)) {
            continue;
        }
        if (name.len) {
            return rg_failf(err, RG_INVALID_ARGUMENT,
                            "Conflicting query string parameters: %.*s, %.*s", RG_SPAN_ARG(name),
                            RG_SPAN_ARG(candidate));
        }
        name = candidate;
    }
    *ret_name = name;
    return 0;
}

static enum rg_operation find_operation(struct span method, enum rg_route_level level,
                                        struct span subresource, bool by_copy_source)
{
    for (size_t i = 1; i < RG_OPERATION_COUNT; i++) {
        const struct rg_operation_info *info = &operations[i];
        if (info->level == level && info->by_copy_source == by_copy_source &&
            rg_span_is(method, info->method) && rg_span_is(subresource, info->subresource)) {
            return (enum rg_operation)i;
        }
    }
    return RG_OP_UNKNOWN;
}

/* A PUT with half of what makes it a part must not become an object. */
static int check_part(const struct rg_query *query, struct rg_error *err)
{
    bool has_id = rg_query_find(query, "uploadId");
    bool has_number = rg_query_find(query, "partNumber");
    if (has_id == has_number) {
        return 0;
    }
    return rg_failf(err, RG_INVALID_ARGUMENT, "This operation does not accept %s without %s.",
                    has_id ? "uploadId" : "partNumber", has_id ? "partNumber" : "uploadId");
}

static int check_list_type(const struct rg_query *query, struct span *subresource,
                           struct rg_error *err)
{
    const struct rg_query_param *type = rg_query_find(query, "list-type");
    if (!type || subresource->len) {
        return 0;
    }
    if (!rg_span_is(type->value, "2")) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "Invalid List Type specified in Query");
    }
    *subresource = RG_SPAN_LITERAL("list-type");
    return 0;
}

int rg_route(struct span method, const struct rg_address *address, const struct rg_query *query,
             bool has_copy_source, enum rg_operation *ret_operation, struct rg_error *err)
{
    *ret_operation = RG_OP_UNKNOWN;
    struct span subresource;
    int rc = find_subresource(query, &subresource, err);
    if (rc) {
        return rc;
    }
    if (subresource.len && !known_at(subresource, address->level)) {
        return rg_failf(err, RG_NOT_IMPLEMENTED,
                        "The query parameter %.*s implies functionality that is not implemented "
                        "here.",
                        RG_SPAN_ARG(subresource));
    }
    if (address->level == RG_LEVEL_BUCKET && rg_span_is(method, "GET")) {
        rc = check_list_type(query, &subresource, err);
    } else if (address->level == RG_LEVEL_OBJECT && rg_span_is(method, "PUT")) {
        rc = check_part(query, err);
    }
    if (rc) {
        return rc;
    }
    enum rg_operation operation = RG_OP_UNKNOWN;
    if (has_copy_source) {
        operation = find_operation(method, address->level, subresource, true);
    }
    if (operation == RG_OP_UNKNOWN) {
        operation = find_operation(method, address->level, subresource, false);
    }
    if (operation == RG_OP_UNKNOWN) {
        return rg_fail(err, RG_METHOD_NOT_ALLOWED);
    }
    *ret_operation = operation;
    return 0;
}
