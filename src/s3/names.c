/*
 * Bucket, key and metadata names. Checks only; the sentence of a refusal names the rule.
 */
#include "s3/names.h"

#include <stdbool.h>
#include <string.h>

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Four groups of one to three digits: what could be taken for an address, in range or not. */
static bool looks_like_ipv4(struct span name)
{
    size_t groups = 0;
    struct span rest = name;
    while (rest.ptr) {
        struct span group = rg_span_cut(&rest, '.');
        if (group.len < 1 || group.len > 3) {
            return false;
        }
        for (size_t i = 0; i < group.len; i++) {
            if (group.ptr[i] < '0' || group.ptr[i] > '9') {
                return false;
            }
        }
        groups++;
    }
    return groups == 4;
}

static int bad_bucket(struct rg_error *err, const char *rule)
{
    return rg_failf(err, RG_INVALID_BUCKET_NAME, "The specified bucket is not valid: %s.", rule);
}

int rg_bucket_name_check(struct span name, struct rg_error *err)
{
    if (name.len < RG_BUCKET_NAME_MIN || name.len > RG_BUCKET_NAME_MAX) {
        return bad_bucket(err, "a bucket name has 3 to 63 characters");
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!is_lower_or_digit(c) && c != '.' && c != '-') {
            return bad_bucket(err, "a bucket name holds only a-z, 0-9, dots and hyphens");
        }
        if (c == '.' && i && name.ptr[i - 1] == '.') {
            return bad_bucket(err, "a bucket name does not hold two dots side by side");
        }
    }
    if (!is_lower_or_digit(name.ptr[0]) || !is_lower_or_digit(name.ptr[name.len - 1])) {
        return bad_bucket(err, "a bucket name begins and ends with a letter or digit");
    }
    if (looks_like_ipv4(name)) {
        return bad_bucket(err, "a bucket name does not look like an IPv4 address");
    }
    if (rg_span_starts(name, RG_SPAN_LITERAL("xn--"))) {
        return bad_bucket(err, "the prefix xn-- is reserved");
    }
    if (rg_span_ends(name, RG_SPAN_LITERAL("-s3alias")) ||
        rg_span_ends(name, RG_SPAN_LITERAL("--ol-s3"))) {
        return bad_bucket(err, "the suffixes -s3alias and --ol-s3 are reserved");
    }
    return 0;
}

int rg_bucket_name_check_new(struct span name, struct rg_error *err)
{
    int rc = rg_bucket_name_check(name, err);
    for (size_t i = 1; rc == 0 && i < name.len; i++) {
        char pair[] = {name.ptr[i - 1], name.ptr[i], '\0'};
        if (strcmp(pair, ".-") == 0 || strcmp(pair, "-.") == 0) {
            rc = bad_bucket(err, "a bucket name does not hold a dot and a hyphen side by side");
        }
    }
    return rc;
}

int rg_key_check(struct span key, struct rg_error *err)
{
    if (key.len == 0) {
        return rg_failf(err, RG_INVALID_URI, "The key is empty.");
    }
    if (key.len > RG_KEY_BYTES_MAX) {
        return rg_fail(err, RG_KEY_TOO_LONG);
    }
    if (rg_span_has_nul(key)) {
        return rg_failf(err, RG_INVALID_URI, "The key holds a NUL byte.");
    }
    if (!rg_span_is_utf8(key)) {
        return rg_failf(err, RG_INVALID_URI, "The key is not valid UTF-8.");
    }
    return 0;
}

static int bad_key(struct rg_error *err, const char *rule)
{
    return rg_failf(err, RG_INVALID_OBJECT_NAME,
                    "The object name cannot be stored in a file system: %s.", rule);
}

static int check_segment(struct span segment, bool first, struct rg_error *err)
{
    if (segment.len == 0) {
        return bad_key(err, first ? "it begins with '/'" : "it has an empty segment (\"//\")");
    }
    if (rg_span_is(segment, ".") || rg_span_is(segment, "..")) {
        return bad_key(err, "a segment is \".\" or \"..\"");
    }
    if (segment.len > RG_SEGMENT_BYTES_MAX) {
        return bad_key(err, "a segment between slashes is longer than 255 bytes");
    }
    if (first && rg_span_is(segment, RG_RESERVED_DIRECTORY)) {
        return bad_key(err, "the first segment \"" RG_RESERVED_DIRECTORY "\" is reserved");
    }
    if (rg_span_starts(segment, RG_SPAN_LITERAL(RG_RESERVED_PREFIX))) {
        return bad_key(err, "segments beginning with \"" RG_RESERVED_PREFIX "\" are reserved");
    }
    return 0;
}

int rg_key_storable(struct span key, struct rg_error *err)
{
    if (key.len == 0 || rg_span_has_nul(key)) {
        return bad_key(err, "it is empty or holds a NUL byte");
    }
    struct span rest = key;
    if (key.len > 1 && key.ptr[key.len - 1] == '/') {
        rest = rg_span_head(key, key.len - 1);
    }
    bool first = true;
    while (rest.ptr) {
        int result = check_segment(rg_span_cut(&rest, '/'), first, err);
        if (result != 0) {
            return result;
        }
        first = false;
    }
    return 0;
}

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

int rg_metadata_name_check(struct span name, struct rg_error *err)
{
    if (name.len == 0) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "A user metadata field has no name after x-amz-meta-.");
    }
    if (name.len > RG_METADATA_BYTES_MAX) {
        return rg_fail(err, RG_METADATA_TOO_LARGE);
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!is_token_char(name.ptr[i])) {
            return rg_failf(err, RG_INVALID_ARGUMENT,
                            "A user metadata name holds a character that HTTP does not allow.");
        }
    }
    return 0;
}
