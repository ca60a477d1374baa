/*
 * Reads who claims to have signed a request, from the Authorization header or the query, and
 * refuses every claim that could not be true whatever the secret. Must not decide anything that
 * needs the secret, and must not let a security parameter pass unread.
 */
#include "s3/sigv4.h"

#include "base/encode.h"

#include <stdlib.h>
#include <string.h>

#define ALGORITHM       "AWS4-HMAC-SHA256"
#define ALGORITHM_ECDSA "AWS4-ECDSA-P256-SHA256"
#define QUERY_ERROR     RG_AUTHORIZATION_QUERY_PARAMETERS
#define HEADER_ERROR    RG_AUTHORIZATION_HEADER_MALFORMED

/* A piece of a request made fit for a sentence: short, printable ASCII. */
struct shown {
    char text[65];
};

static struct shown show(struct span piece)
{
    struct shown shown = {""};
    for (size_t i = 0; i < piece.len && i < sizeof shown.text - 1; i++) {
        char c = piece.ptr[i];
        shown.text[i] = c;
        if (c < 0x20 || c > 0x7e) {
            shown.text[i] = '?';
        }
    }
    return shown;
}

static bool is_digits(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
    }
    return true;
}

static bool is_visible(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < 0x21 || text.ptr[i] > 0x7e) {
            return false;
        }
    }
    return text.len != 0;
}

/* The value must be there at most once: two of them leave open which one was meant. */
static int find_single_header(const struct rg_sigv4_request *request, const char *name,
                              const struct rg_header **ret_header, struct rg_error *err)
{
    const struct rg_header *found = NULL;
    for (size_t i = 0; i < request->header_count; i++) {
        if (!rg_span_is_nocase(request->headers[i].name, name)) {
            continue;
        }
        if (found) {
            return rg_failf(err, RG_INVALID_ARGUMENT, "The header %s came more than once.", name);
        }
        found = &request->headers[i];
    }
    *ret_header = found;
    return 0;
}

int rg_payload_parse(struct span value, enum rg_payload_kind *ret_kind, unsigned char *ret_sha256,
                     struct rg_error *err)
{
    static const struct {
        const char *text;
        enum rg_payload_kind kind;
    } words[] = {
        {"UNSIGNED-PAYLOAD", RG_PAYLOAD_UNSIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", RG_PAYLOAD_STREAMING_SIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", RG_PAYLOAD_STREAMING_SIGNED_TRAILER},
        {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(words); i++) {
        if (rg_span_is(value, words[i].text)) {
            *ret_kind = words[i].kind;
            return 0;
        }
    }
    unsigned char sha256[32];
    if (rg_hex_decode(value, sha256, sizeof sha256)) {
        *ret_kind = RG_PAYLOAD_SHA256;
        if (ret_sha256) {
            memcpy(ret_sha256, sha256, sizeof sha256);
        }
        return 0;
    }
    if (rg_span_starts(value, RG_SPAN_LITERAL("STREAMING-AWS4-ECDSA-"))) {
        return rg_failf(err, RG_NOT_IMPLEMENTED,
                        "Signature Version 4A (ECDSA) is not implemented; use AWS4-HMAC-SHA256.");
    }
    return rg_failf(err, RG_INVALID_ARGUMENT,
                    "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, "
                    "STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, "
                    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a SHA-256 in hexadecimal.");
}

/* Cuts off the last piece behind a '/'; false if there is no '/'. */
static bool cut_last(struct span *text, struct span *ret_last)
{
    for (size_t i = text->len; i > 0; i--) {
        if (text->ptr[i - 1] == '/') {
            *ret_last = rg_span_skip(*text, i);
            *text = rg_span_head(*text, i - 1);
            return true;
        }
    }
    return false;
}

int rg_sigv4_credential_parse(struct span credential, struct span *ret_access_key,
                              struct rg_sigv4_scope *ret_scope, struct rg_error *err)
{
    struct span rest = credential;
    struct span terminator;
    struct rg_sigv4_scope scope;
    if (!cut_last(&rest, &terminator) || !cut_last(&rest, &scope.service) ||
        !cut_last(&rest, &scope.region) || !cut_last(&rest, &scope.date)) {
        return rg_failf(err, HEADER_ERROR,
                        "The credential must have the form "
                        "<access key>/YYYYMMDD/<region>/<service>/aws4_request.");
    }
    if (!rg_span_is(terminator, "aws4_request")) {
        return rg_failf(err, HEADER_ERROR, "The credential must end with aws4_request, not '%s'.",
                        show(terminator).text);
    }
    if (scope.date.len != 8 || !is_digits(scope.date)) {
        return rg_failf(err, HEADER_ERROR,
                        "The credential's date '%s' is not of the form YYYYMMDD.",
                        show(scope.date).text);
    }
    if (!is_visible(rest) || rest.len > RG_SIGV4_ACCESS_KEY_MAX) {
        return rg_failf(err, HEADER_ERROR, "The credential's access key is not valid.");
    }
    *ret_access_key = rest;
    *ret_scope = scope;
    return 0;
}

/* The same check speaks of the header or of the query parameters. */
static int as_kind(enum rg_auth_kind kind, int result, struct rg_error *err)
{
    if (result != -(int)HEADER_ERROR || kind != RG_AUTH_PRESIGNED) {
        return result;
    }
    if (err) {
        err->code = QUERY_ERROR;
    }
    return -(int)QUERY_ERROR;
}

static enum rg_code syntax_code(const struct rg_sigv4 *auth)
{
    return auth->kind == RG_AUTH_PRESIGNED ? QUERY_ERROR : HEADER_ERROR;
}

static int check_scope(const struct rg_sigv4 *auth, const struct rg_sigv4_rules *rules,
                       struct rg_error *err)
{
    enum rg_code code = syntax_code(auth);
    if (!rg_span_eq(auth->scope.region, rules->region)) {
        return rg_failf(err, code, "The region '%s' is wrong; expecting '%s'.",
                        show(auth->scope.region).text, show(rules->region).text);
    }
    bool other = rules->other_service.len && rg_span_eq(auth->scope.service, rules->other_service);
    if (!other && !rg_span_is(auth->scope.service, "s3")) {
        return rg_failf(err, code, "The service '%s' is wrong; expecting 's3'.",
                        show(auth->scope.service).text);
    }
    if (!rg_span_eq(auth->scope.date, rg_span(auth->timestamp, 8))) {
        return rg_failf(err, code,
                        "The credential's date %s is not the day of the request's date %s.",
                        show(auth->scope.date).text, auth->timestamp);
    }
    return 0;
}

static bool is_header_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))) {
            return false;
        }
    }
    return name.len != 0;
}

/* Lower-case names, none twice, not too many. */
static int check_signed_headers(const struct rg_sigv4 *auth, struct rg_error *err)
{
    struct span seen[RG_SIGV4_SIGNED_HEADERS_MAX];
    size_t count = 0;
    struct span rest = auth->signed_headers;
    while (rest.ptr) {
        struct span name = rg_span_cut(&rest, ';');
        if (!is_header_name(name)) {
            return rg_failf(err, syntax_code(auth),
                            "SignedHeaders must be header names in lower case, joined by ';'.");
        }
        for (size_t i = 0; i < count; i++) {
            if (rg_span_eq(seen[i], name)) {
                return rg_failf(err, syntax_code(auth), "SignedHeaders names %s twice.",
                                show(name).text);
            }
        }
        if (count == RG_ARRAY_LENGTH(seen)) {
            return rg_failf(err, syntax_code(auth), "SignedHeaders has more than %u names.",
                            RG_SIGV4_SIGNED_HEADERS_MAX);
        }
        seen[count++] = name;
    }
    return 0;
}

static bool may_be_unsigned(const struct rg_sigv4_rules *rules, struct span name)
{
    for (size_t i = 0; i < rules->unsigned_allowed_count; i++) {
        if (rg_span_is_nocase(name, rules->unsigned_allowed[i])) {
            return true;
        }
    }
    return false;
}

static bool names_header(const struct rg_sigv4 *auth, struct span header_name)
{
    struct span rest = auth->signed_headers;
    while (rest.ptr) {
        struct span name = rg_span_cut(&rest, ';');
        if (name.len == header_name.len && strncasecmp(name.ptr, header_name.ptr, name.len) == 0) {
            return true;
        }
    }
    return false;
}

/* Host and everything that S3 gives a meaning to must be under the signature. */
static int check_coverage(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                          const struct rg_sigv4_rules *rules, struct rg_error *err)
{
    static const char prefix[] = "x-amz-";
    if (!names_header(auth, RG_SPAN_LITERAL("host"))) {
        return rg_failf(err, RG_ACCESS_DENIED,
                        "There were headers present in the request which were not signed: host");
    }
    for (size_t i = 0; i < request->header_count; i++) {
        struct span name = request->headers[i].name;
        if (!rg_span_is_nocase(rg_span_head(name, sizeof prefix - 1), prefix) ||
            names_header(auth, name) || may_be_unsigned(rules, name)) {
            continue;
        }
        return rg_failf(err, RG_ACCESS_DENIED,
                        "There were headers present in the request which were not signed: %s",
                        show(name).text);
    }
    return 0;
}

static int read_signature(struct rg_sigv4 *auth, struct span hex, struct rg_error *err)
{
    bool lower = true;
    for (size_t i = 0; i < hex.len; i++) {
        lower = lower && !(hex.ptr[i] >= 'A' && hex.ptr[i] <= 'F');
    }
    if (!lower || !rg_hex_decode(hex, auth->signature, sizeof auth->signature)) {
        return rg_failf(err, syntax_code(auth),
                        "The signature is not 64 lower-case hexadecimal digits.");
    }
    return 0;
}

static void set_time(struct rg_sigv4 *auth, int64_t time_s)
{
    auth->time_s = time_s;
    rg_date_format_amz(time_s, auth->timestamp);
}

static int read_payload(struct rg_sigv4 *auth, struct span text, struct rg_error *err)
{
    auth->payload_text = text;
    return rg_payload_parse(text, &auth->payload, auth->payload_sha256, err);
}

/* -- Authorization header ---------------------------------------------------------------------- */

struct authorization {
    struct span credential;
    struct span signed_headers;
    struct span signature;
};

static struct span *field_of(struct authorization *fields, struct span name)
{
    if (rg_span_is(name, "Credential")) {
        return &fields->credential;
    }
    if (rg_span_is(name, "SignedHeaders")) {
        return &fields->signed_headers;
    }
    return rg_span_is(name, "Signature") ? &fields->signature : NULL;
}

/* "Credential=..., SignedHeaders=..., Signature=..." in any order. */
static int split_authorization(struct span text, struct authorization *ret_fields,
                               struct rg_error *err)
{
    struct authorization fields = {.credential = {NULL, 0}};
    struct span rest = text;
    while (rest.ptr) {
        struct span value = rg_span_trim(rg_span_cut(&rest, ','));
        struct span name = rg_span_cut(&value, '=');
        struct span *field = field_of(&fields, name);
        if (!field || !value.ptr || field->ptr) {
            return rg_failf(err, HEADER_ERROR,
                            "The authorization header must have Credential, SignedHeaders and "
                            "Signature, once each, separated by commas.");
        }
        *field = value;
    }
    if (!fields.credential.len || !fields.signed_headers.len || !fields.signature.len) {
        return rg_failf(err, HEADER_ERROR,
                        "The authorization header lacks Credential, SignedHeaders or Signature.");
    }
    *ret_fields = fields;
    return 0;
}

/* The first word says the scheme; *ret_fields is what follows it. */
static int read_scheme(struct span value, struct span *ret_fields, struct rg_error *err)
{
    struct span rest = rg_span_trim(value);
    struct span scheme = rg_span_cut(&rest, ' ');
    if (scheme.len == 0) {
        return rg_failf(err, RG_ACCESS_DENIED, "The authorization header is empty.");
    }
    if (rg_span_is(scheme, "AWS")) {
        return rg_fail(err, RG_SIGNATURE_V2);
    }
    if (rg_span_is(scheme, ALGORITHM_ECDSA)) {
        return rg_failf(err, RG_NOT_IMPLEMENTED,
                        "Signature Version 4A (ECDSA) is not implemented; use " ALGORITHM ".");
    }
    if (!rg_span_is(scheme, ALGORITHM)) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "Unsupported Authorization Type '%s'.",
                        show(scheme).text);
    }
    *ret_fields = rest.ptr ? rest : RG_SPAN_EMPTY;
    return 0;
}

/* x-amz-date, or Date in either spelling where that is absent. */
static int read_request_date(struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                             const struct rg_sigv4_rules *rules, struct rg_error *err)
{
    const struct rg_header *amz_date;
    const struct rg_header *date;
    int result = find_single_header(request, "x-amz-date", &amz_date, err);
    if (result == 0) {
        result = find_single_header(request, "date", &date, err);
    }
    if (result != 0) {
        return result;
    }
    int64_t time_s;
    bool valid = false;
    if (amz_date) {
        valid = rg_date_parse_amz(rg_span_trim(amz_date->value), &time_s);
    } else if (date) {
        struct span text = rg_span_trim(date->value);
        valid = rg_date_parse_amz(text, &time_s) || rg_date_parse_http(text, rules->now_s, &time_s);
    }
    if (!valid) {
        return rg_failf(err, RG_ACCESS_DENIED,
                        "AWS authentication requires a valid Date or x-amz-date header");
    }
    set_time(auth, time_s);
    return 0;
}

static bool is_skewed(int64_t time_s, const struct rg_sigv4_rules *rules)
{
    return llabs(rules->now_s - time_s) > rules->clock_skew_ms / 1000;
}

static int read_header_payload(struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                               const struct rg_sigv4_rules *rules, struct rg_error *err)
{
    const struct rg_header *header;
    int result = find_single_header(request, "x-amz-content-sha256", &header, err);
    if (result != 0) {
        return result;
    }
    if (header) {
        return read_payload(auth, rg_span_trim(header->value), err);
    }
    if (!rules->payload_hash_optional) {
        return rg_failf(err, RG_MISSING_SECURITY_HEADER,
                        "Missing required header for this request: x-amz-content-sha256");
    }
    auth->payload = RG_PAYLOAD_NOT_STATED;
    auth->payload_text = RG_SPAN_LITERAL(RG_SHA256_EMPTY);
    return 0;
}

static int parse_header_form(struct rg_sigv4 *auth, struct span value,
                             const struct rg_sigv4_request *request,
                             const struct rg_sigv4_rules *rules, struct rg_error *err)
{
    auth->kind = RG_AUTH_HEADER;
    struct span text;
    struct authorization fields;
    int result = read_scheme(value, &text, err);
    if (result == 0) {
        result = split_authorization(text, &fields, err);
    }
    if (result == 0) {
        result = rg_sigv4_credential_parse(fields.credential, &auth->access_key, &auth->scope, err);
    }
    if (result == 0) {
        result = read_signature(auth, fields.signature, err);
    }
    if (result == 0) {
        auth->signed_headers = fields.signed_headers;
        result = check_signed_headers(auth, err);
    }
    if (result == 0) {
        result = read_request_date(auth, request, rules, err);
    }
    if (result == 0 && is_skewed(auth->time_s, rules)) {
        result = rg_fail(err, RG_REQUEST_TIME_TOO_SKEWED);
    }
    if (result == 0) {
        result = check_scope(auth, rules, err);
    }
    if (result == 0) {
        result = read_header_payload(auth, request, rules, err);
    }
    return result == 0 ? check_coverage(auth, request, rules, err) : result;
}

/* -- Presigned URL ----------------------------------------------------------------------------- */

/* A parameter that must be there exactly once and not be empty. */
static int take_param(const struct rg_sigv4 *auth, const char *name, struct span *ret_value,
                      struct rg_error *err)
{
    const struct rg_query_param *param = rg_query_find(&auth->query, name);
    if (!param || param->value.len == 0) {
        return rg_failf(err, QUERY_ERROR,
                        "A presigned URL requires the parameters X-Amz-Algorithm, "
                        "X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders and "
                        "X-Amz-Expires; %s is missing.",
                        name);
    }
    if (rg_query_count(&auth->query, name) != 1) {
        return rg_failf(err, QUERY_ERROR, "%s came more than once.", name);
    }
    *ret_value = param->value;
    return 0;
}

static int read_algorithm(struct span algorithm, struct rg_error *err)
{
    if (rg_span_is(algorithm, ALGORITHM_ECDSA)) {
        return rg_failf(err, RG_NOT_IMPLEMENTED,
                        "Signature Version 4A (ECDSA) is not implemented; use " ALGORITHM ".");
    }
    if (!rg_span_is(algorithm, ALGORITHM)) {
        return rg_failf(err, QUERY_ERROR, "X-Amz-Algorithm only supports " ALGORITHM ".");
    }
    return 0;
}

static int read_validity(struct rg_sigv4 *auth, struct span date, struct span expires,
                         const struct rg_sigv4_rules *rules, struct rg_error *err)
{
    int64_t time_s;
    uint64_t expires_s;
    if (!rg_date_parse_amz(date, &time_s)) {
        return rg_failf(err, QUERY_ERROR, "X-Amz-Date must be of the form YYYYMMDDTHHMMSSZ.");
    }
    if (!rg_span_to_u64(expires, &expires_s) || expires_s < 1 ||
        expires_s > RG_SIGV4_EXPIRES_MAX_S) {
        return rg_failf(err, QUERY_ERROR, "X-Amz-Expires must be a number of seconds from 1 to %d.",
                        RG_SIGV4_EXPIRES_MAX_S);
    }
    set_time(auth, time_s);
    auth->expires_s = (int64_t)expires_s;
    if (time_s > rules->now_s && is_skewed(time_s, rules)) {
        return rg_failf(err, RG_ACCESS_DENIED, "Request is not valid yet.");
    }
    if (rules->now_s > time_s + auth->expires_s) {
        return rg_fail(err, RG_REQUEST_EXPIRED);
    }
    return 0;
}

/* A signed header, else the parameter some presigners add, else nothing is promised. */
static int read_presigned_payload(struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                                  struct rg_error *err)
{
    static const char name[] = "X-Amz-Content-Sha256";
    const struct rg_header *header;
    int result = find_single_header(request, name, &header, err);
    if (result != 0) {
        return result;
    }
    if (header) {
        return read_payload(auth, rg_span_trim(header->value), err);
    }
    if (!rg_query_find(&auth->query, name)) {
        return read_payload(auth, RG_SPAN_LITERAL("UNSIGNED-PAYLOAD"), err);
    }
    struct span value;
    result = take_param(auth, name, &value, err);
    return result == 0 ? read_payload(auth, value, err) : result;
}

static int parse_query_form(struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                            const struct rg_sigv4_rules *rules, struct rg_error *err)
{
    auth->kind = RG_AUTH_PRESIGNED;
    struct span algorithm, credential, date, expires, signature;
    const struct {
        const char *name;
        struct span *value;
    } wanted[] = {
        {"X-Amz-Algorithm", &algorithm}, {"X-Amz-Credential", &credential},
        {"X-Amz-Date", &date},           {"X-Amz-Expires", &expires},
        {"X-Amz-Signature", &signature}, {"X-Amz-SignedHeaders", &auth->signed_headers},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(wanted); i++) {
        int result = take_param(auth, wanted[i].name, wanted[i].value, err);
        if (result != 0) {
            return result;
        }
    }
    int result = read_algorithm(algorithm, err);
    if (result == 0) {
        result = as_kind(
            auth->kind, rg_sigv4_credential_parse(credential, &auth->access_key, &auth->scope, err),
            err);
    }
    if (result == 0) {
        result = read_signature(auth, signature, err);
    }
    if (result == 0) {
        result = check_signed_headers(auth, err);
    }
    if (result == 0) {
        result = read_validity(auth, date, expires, rules, err);
    }
    if (result == 0) {
        result = check_scope(auth, rules, err);
    }
    if (result == 0) {
        result = read_presigned_payload(auth, request, err);
    }
    return result == 0 ? check_coverage(auth, request, rules, err) : result;
}

/* -- Which of them ----------------------------------------------------------------------------- */

static bool has_any_param(const struct rg_query *query, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rg_query_find(query, names[i])) {
            return true;
        }
    }
    return false;
}

static bool is_presigned(const struct rg_query *query)
{
    static const char *const names[] = {"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature",
                                        "X-Amz-SignedHeaders"};
    return has_any_param(query, names, RG_ARRAY_LENGTH(names));
}

static bool is_presigned_v2(const struct rg_query *query)
{
    static const char *const names[] = {"AWSAccessKeyId", "Signature"};
    return has_any_param(query, names, RG_ARRAY_LENGTH(names));
}

/* There is no token service here, and a token that is ignored would be a check left out. */
static int refuse_session_token(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                                struct rg_error *err)
{
    static const char name[] = "x-amz-security-token";
    bool found = rg_header_find(request->headers, request->header_count, name) != NULL;
    for (size_t i = 0; i < auth->query.count; i++) {
        found = found || rg_span_is_nocase(auth->query.params[i].name, name);
    }
    return found ? rg_failf(err, RG_NOT_IMPLEMENTED,
                            "Temporary credentials (x-amz-security-token) are not implemented.")
                 : 0;
}

static int parse_anonymous(struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                           struct rg_error *err)
{
    auth->kind = RG_AUTH_ANONYMOUS;
    auth->payload = RG_PAYLOAD_NOT_STATED;
    const struct rg_header *header;
    int result = find_single_header(request, "x-amz-content-sha256", &header, err);
    if (result != 0 || !header) {
        return result;
    }
    result = read_payload(auth, rg_span_trim(header->value), err);
    if (result != 0) {
        return result;
    }
    if (auth->payload == RG_PAYLOAD_STREAMING_SIGNED ||
        auth->payload == RG_PAYLOAD_STREAMING_SIGNED_TRAILER) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "A request without a signature cannot have signed chunks.");
    }
    return 0;
}

static int parse(struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                 const struct rg_sigv4_rules *rules, struct rg_error *err)
{
    const struct rg_header *authorization;
    int result = find_single_header(request, "authorization", &authorization, err);
    if (result != 0) {
        return result;
    }
    bool presigned = is_presigned(&auth->query);
    bool presigned_v2 = is_presigned_v2(&auth->query);
    if ((authorization != NULL) + presigned + presigned_v2 > 1) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "Only one authentication mechanism is allowed: the Authorization header, "
                        "X-Amz-Algorithm in the query, or Signature in the query.");
    }
    result = refuse_session_token(auth, request, err);
    if (result != 0) {
        return result;
    }
    if (presigned_v2) {
        return rg_fail(err, RG_SIGNATURE_V2);
    }
    if (presigned) {
        return parse_query_form(auth, request, rules, err);
    }
    return authorization ? parse_header_form(auth, authorization->value, request, rules, err)
                         : parse_anonymous(auth, request, err);
}

int rg_sigv4_parse(const struct rg_sigv4_request *request, const struct rg_sigv4_rules *rules,
                   struct rg_sigv4 *ret_auth, struct rg_error *err)
{
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_ANONYMOUS};
    int result = 0;
    if (request->parsed) {
        auth.query = *request->parsed;
        auth.query_is_borrowed = true;
    } else {
        result = rg_query_parse(request->query, &auth.query, err);
    }
    if (result == 0) {
        result = parse(&auth, request, rules, err);
    }
    if (result != 0) {
        return result;
    }
    *ret_auth = auth;
    auth.query = (struct rg_query)RG_QUERY_INIT; /* moved */
    return 0;
}
