/*
 * Routing: every row of the table is reached by its own request and by no other, and what the table
 * does not hold fails as documented. Addressing.
 */
#include "test.h"

#include "base/attr.h"
#include "s3/route.h"

#include <stdio.h>
#include <stdlib.h>

static int route(const char *method, const char *path, const char *query_text, bool copy,
                 enum rg_operation *ret_operation)
{
    struct rg_address address;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(
        rg_address_parse(RG_SPAN_EMPTY, RG_SPAN_EMPTY, rg_span_text(path), &address, &err), 0);
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    assert_int_equal(rg_query_parse(rg_span_text(query_text), &query, &err), 0);
    int rc = rg_route(rg_span_text(method), &address, &query, copy, ret_operation, &err);
    assert_int_equal(rc != 0, *ret_operation == RG_OP_UNKNOWN);
    return rc;
}

static const char *path_of(enum rg_route_level level)
{
    return level == RG_LEVEL_SERVICE ? "/" : level == RG_LEVEL_BUCKET ? "/b" : "/b/k";
}

static void every_row_is_reached(void **state)
{
    unsigned implemented = 0;
    for (int i = 1; i < RG_OPERATION_COUNT; i++) {
        const struct rg_operation_info *info = rg_operation_info((enum rg_operation)i);
        char query[128];
        const char *value = strcmp(info->subresource, "list-type") == 0 ? "=2" : "";
        snprintf(query, sizeof(query), "%s%s", info->subresource, value);
        if (strcmp(info->subresource, "uploadId") == 0) {
            snprintf(query, sizeof(query), "uploadId=x%s",
                     strcmp(info->method, "PUT") == 0 ? "&partNumber=1" : "");
        }
        enum rg_operation found;
        assert_int_equal(
            route(info->method, path_of(info->level), query, info->by_copy_source, &found), 0);
        assert_int_equal(found, i);
        implemented += info->answer == RG_ANSWER_VERB;

        /* Parameters nobody knows change nothing. */
        strcat(query, "&x-id=Whatever&response-expires=0");
        assert_int_equal(
            route(info->method, path_of(info->level), query, info->by_copy_source, &found), 0);
        assert_int_equal(found, i);
    }
    print_message("%u operations have a verb\n", implemented);
}

static void table_is_sound(void **state)
{
    for (int i = 1; i < RG_OPERATION_COUNT; i++) {
        const struct rg_operation_info *a = rg_operation_info((enum rg_operation)i);
        assert_true(strncmp(a->log_name, "REST.", 5) == 0);
        assert_true(strncmp(a->action, "s3", 2) == 0);
        assert_int_equal(a->answer == RG_ANSWER_FAILURE, a->failure != RG_OK);
        for (int j = 1; j < i; j++) {
            const struct rg_operation_info *b = rg_operation_info((enum rg_operation)j);
            assert_string_not_equal(a->name, b->name);
            assert_false(strcmp(a->method, b->method) == 0 && a->level == b->level &&
                         strcmp(a->subresource, b->subresource) == 0 &&
                         a->by_copy_source == b->by_copy_source);
        }
    }
    assert_string_equal(rg_operation_info(RG_OP_UNKNOWN)->name, "Unknown");
    assert_string_equal(rg_operation_info(RG_OP_PUT_OBJECT)->log_name, "REST.PUT.OBJECT");
}

static void requests(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        const char *query;
        bool copy;
        enum rg_operation operation;
        enum rg_code code;
    } rows[] = {
        {"GET", "/", "x-id=ListBuckets", false, RG_OP_LIST_BUCKETS, RG_OK},
        {"PUT", "/", "", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"HEAD", "/", "", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"GET", "/", "acl", false, RG_OP_UNKNOWN, RG_NOT_IMPLEMENTED},
        {"GET", "/b", "prefix=a&delimiter=/", false, RG_OP_LIST_OBJECTS, RG_OK},
        {"GET", "/b/", "list-type=2&prefix=a", false, RG_OP_LIST_OBJECTS_V2, RG_OK},
        {"GET", "/b", "list-type=1", false, RG_OP_UNKNOWN, RG_INVALID_ARGUMENT},
        {"GET", "/b", "list-type", false, RG_OP_UNKNOWN, RG_INVALID_ARGUMENT},
        {"HEAD", "/b", "list-type=1", false, RG_OP_HEAD_BUCKET, RG_OK},
        {"GET", "/b", "location=", false, RG_OP_GET_BUCKET_LOCATION, RG_OK},
        {"GET", "/b", "Location", false, RG_OP_LIST_OBJECTS, RG_OK},
        {"POST", "/b", "delete", false, RG_OP_DELETE_OBJECTS, RG_OK},
        {"POST", "/b", "delete=&x-id=DeleteObjects", false, RG_OP_DELETE_OBJECTS, RG_OK},
        {"GET", "/b", "delete", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"POST", "/b", "acl", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"GET", "/b", "acl&tagging", false, RG_OP_UNKNOWN, RG_INVALID_ARGUMENT},
        {"GET", "/b", "acl&acl", false, RG_OP_GET_BUCKET_ACL, RG_OK},
        {"PUT", "/b/k", "", true, RG_OP_COPY_OBJECT, RG_OK},
        {"PUT", "/b/k", "tagging", true, RG_OP_PUT_OBJECT_TAGGING, RG_OK},
        {"GET", "/b/k", "", true, RG_OP_GET_OBJECT, RG_OK},
        {"PUT", "/b", "", true, RG_OP_CREATE_BUCKET, RG_OK},
        {"PUT", "/b/k", "partNumber=1&uploadId=u", false, RG_OP_UPLOAD_PART, RG_OK},
        {"PUT", "/b/k", "uploadId=u&partNumber=1", true, RG_OP_UPLOAD_PART_COPY, RG_OK},
        {"PUT", "/b/k", "uploadId=u", false, RG_OP_UNKNOWN, RG_INVALID_ARGUMENT},
        {"PUT", "/b/k", "partNumber=1", false, RG_OP_UNKNOWN, RG_INVALID_ARGUMENT},
        {"PUT", "/b/k", "partNumber=1", true, RG_OP_UNKNOWN, RG_INVALID_ARGUMENT},
        {"GET", "/b/k", "partNumber=1", false, RG_OP_GET_OBJECT, RG_OK},
        {"HEAD", "/b/k", "partNumber=1&versionId=null", false, RG_OP_HEAD_OBJECT, RG_OK},
        {"GET", "/b/k", "uploadId=u", false, RG_OP_LIST_PARTS, RG_OK},
        {"DELETE", "/b/k", "uploadId=u", false, RG_OP_ABORT_MULTIPART_UPLOAD, RG_OK},
        {"HEAD", "/b/k", "uploadId=u", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"POST", "/b/k", "", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"POST", "/b/k", "select&select-type=2", false, RG_OP_SELECT_OBJECT_CONTENT, RG_OK},
        {"GET", "/b/k", "policy", false, RG_OP_UNKNOWN, RG_NOT_IMPLEMENTED},
        {"DELETE", "/b/k", "lifecycle", false, RG_OP_UNKNOWN, RG_NOT_IMPLEMENTED},
        {"PUT", "/b/k", "versioning", false, RG_OP_UNKNOWN, RG_NOT_IMPLEMENTED},
        {"DELETE", "/b", "retention", false, RG_OP_UNKNOWN, RG_NOT_IMPLEMENTED},
        {"PUT", "/b", "policy", false, RG_OP_PUT_BUCKET_POLICY, RG_OK},
        {"DELETE", "/b", "policy", false, RG_OP_DELETE_BUCKET_POLICY, RG_OK},
        {"get", "/b/k", "", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"PATCH", "/b/k", "", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"", "/b/k", "", false, RG_OP_UNKNOWN, RG_METHOD_NOT_ALLOWED},
        {"GET", "/b/k", "=x", false, RG_OP_GET_OBJECT, RG_OK},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        enum rg_operation found;
        assert_int_equal(route(rows[i].method, rows[i].path, rows[i].query, rows[i].copy, &found),
                         -(int)rows[i].code);
        assert_int_equal(found, rows[i].operation);
    }
}

/* A bare PUT or DELETE must only ever come from a request without any known subresource. */
static void nothing_known_is_ignored(void **state)
{
    for (int i = 1; i < RG_OPERATION_COUNT; i++) {
        const struct rg_operation_info *info = rg_operation_info((enum rg_operation)i);
        if (!info->subresource[0] || strcmp(info->subresource, "list-type") == 0) {
            continue;
        }
        static const char *const methods[] = {"GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS"};
        for (size_t m = 0; m < RG_ARRAY_LENGTH(methods); m++) {
            for (int level = RG_LEVEL_SERVICE; level <= RG_LEVEL_OBJECT; level++) {
                enum rg_operation found;
                int rc = route(methods[m], path_of((enum rg_route_level)level), info->subresource,
                               false, &found);
                if (rc == 0) {
                    assert_string_equal(rg_operation_info(found)->subresource, info->subresource);
                }
            }
        }
    }
}

static void addresses(void **state)
{
    static const struct {
        const char *host;
        const char *domain;
        const char *path;
        const char *bucket;
        const char *key;
        bool virtual_host;
    } rows[] = {
        {"s3.test", "", "/", "", "", false},
        {"s3.test", "", "/b", "b", "", false},
        {"s3.test", "", "/b/", "b", "", false},
        {"s3.test", "", "/b/k/l/", "b", "k/l/", false},
        {"s3.test", "", "/b//k", "b", "/k", false},
        {"b.s3.test", "", "/k", "k", "", false},
        {"b.s3.test", "s3.test", "/", "b", "", true},
        {"b.s3.test:9000", "s3.test", "/k/l", "b", "k/l", true},
        {"b.c.s3.test", "s3.test", "/k", "b.c", "k", true},
        {"B.S3.Test.", "s3.test", "/k", "B", "k", true},
        {"b.s3.test.:80", "s3.test", "/k", "b", "k", true},
        {"b.s3.test", "s3.test", "//k", "b", "/k", true},
        {"s3.test", "s3.test", "/b/k", "b", "k", false},
        {".s3.test", "s3.test", "/b/k", "b", "k", false},
        {"xs3.test", "s3.test", "/b/k", "b", "k", false},
        {"127.0.0.1:9000", "s3.test", "/b/k", "b", "k", false},
        {"[::1]:9000", "s3.test", "/b/k", "b", "k", false},
        {"[::1]", "s3.test", "/b/k", "b", "k", false},
        {"", "s3.test", "/b/k", "b", "k", false},
        {":80", "s3.test", "/b/k", "b", "k", false},
        {"80", "s3.test", "/b/k", "b", "k", false},
        {"localhost", "localhost", "/b/k", "b", "k", false},
        {"b.localhost:1", "localhost", "/k", "b", "k", true},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_address address;
        assert_int_equal(rg_address_parse(rg_span_text(rows[i].host), rg_span_text(rows[i].domain),
                                          rg_span_text(rows[i].path), &address, NULL),
                         0);
        assert_true(rg_span_is(address.bucket, rows[i].bucket));
        assert_true(rg_span_is(address.key, rows[i].key));
        assert_int_equal(address.virtual_host, rows[i].virtual_host);
        assert_int_equal(address.level, rows[i].key[0]      ? RG_LEVEL_OBJECT
                                        : rows[i].bucket[0] ? RG_LEVEL_BUCKET
                                                            : RG_LEVEL_SERVICE);
    }
    static const char *const bad[] = {"", "b/k", "//", "//k", "*"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        struct rg_address address;
        assert_int_equal(
            rg_address_parse(RG_SPAN_EMPTY, RG_SPAN_EMPTY, rg_span_text(bad[i]), &address, NULL),
            -RG_INVALID_URI);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_reached),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(requests),
        cmocka_unit_test(nothing_known_is_ignored),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
