/*
 * Conditional requests: reading the fields and evaluating them.
 */
#include "s3/conditions.h"

#include "s3/date.h"

struct names {
    const char *match;
    const char *none_match;
    const char *modified;
    const char *unmodified;
};

static const struct names names_of[] = {
    [RG_CONDITIONS_REQUEST] = {"if-match", "if-none-match", "if-modified-since",
                               "if-unmodified-since"},
    [RG_CONDITIONS_COPY_SOURCE] = {"x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match",
                                   "x-amz-copy-source-if-modified-since",
                                   "x-amz-copy-source-if-unmodified-since"},
};

static struct span value_of(const struct rg_header *headers, size_t count, const char *name)
{
    const struct rg_header *header = rg_header_find(headers, count, name);
    if (!header) {
        return rg_span(NULL, 0);
    }
    return header->value.ptr ? header->value : RG_SPAN_EMPTY;
}

static bool date_of(const struct rg_header *headers, size_t count, const char *name,
                    int64_t now_seconds, int64_t *ret_seconds)
{
    struct span text = value_of(headers, count, name);
    return text.ptr && rg_date_parse_http(rg_span_trim(text), now_seconds, ret_seconds);
}

void rg_conditions_read(const struct rg_header *headers, size_t count,
                        enum rg_conditions_source source, int64_t now_seconds,
                        struct rg_conditions *ret_conditions)
{
    const struct names *names = &names_of[source];
    struct rg_conditions c = RG_CONDITIONS_INIT;
    c.if_match = value_of(headers, count, names->match);
    c.if_none_match = value_of(headers, count, names->none_match);
    c.has_modified_since =
        date_of(headers, count, names->modified, now_seconds, &c.modified_since) &&
        c.modified_since <= now_seconds;
    c.has_unmodified_since =
        date_of(headers, count, names->unmodified, now_seconds, &c.unmodified_since);
    *ret_conditions = c;
}

bool rg_conditions_empty(const struct rg_conditions *conditions)
{
    return !conditions->if_match.ptr && !conditions->if_none_match.ptr &&
           !conditions->has_modified_since && !conditions->has_unmodified_since;
}

static struct span skip_separators(struct span list)
{
    while (list.len && (list.ptr[0] == ',' || list.ptr[0] == ' ' || list.ptr[0] == '\t')) {
        list = rg_span_skip(list, 1);
    }
    return list;
}

/* Takes one tag, without quotes and W/, off the front of a list that begins with one. */
static struct span take_tag(struct span *list)
{
    if (rg_span_starts(*list, RG_SPAN_LITERAL("W/\""))) {
        *list = rg_span_skip(*list, 2);
    }
    if (list->ptr[0] == '"') {
        *list = rg_span_skip(*list, 1);
        struct span tag = rg_span_cut(list, '"');
        if (!list->ptr) { /* no closing quote */
            *list = RG_SPAN_EMPTY;
        }
        return tag;
    }
    struct span tag = rg_span_trim(rg_span_cut(list, ','));
    if (!list->ptr) {
        *list = RG_SPAN_EMPTY;
    }
    return tag;
}

bool rg_etag_list_matches(struct span list, struct span etag)
{
    if (rg_span_is(rg_span_trim(list), "*")) {
        return true;
    }
    list = skip_separators(list);
    while (list.len) {
        struct span tag = take_tag(&list);
        if (tag.len && rg_span_eq(tag, etag)) {
            return true;
        }
        list = skip_separators(list);
    }
    return false;
}

static int precondition_failed(const char *field, struct rg_error *err)
{
    return rg_failf(err, RG_PRECONDITION_FAILED,
                    "At least one of the preconditions that you specified did not hold: %s.",
                    field);
}

int rg_conditions_check_read(const struct rg_conditions *conditions, struct span etag,
                             int64_t modified_s, struct rg_error *err)
{
    if (conditions->if_match.ptr) {
        if (!rg_etag_list_matches(conditions->if_match, etag)) {
            return precondition_failed("If-Match", err);
        }
    } else if (conditions->has_unmodified_since && modified_s > conditions->unmodified_since) {
        return precondition_failed("If-Unmodified-Since", err);
    }
    if (conditions->if_none_match.ptr) {
        if (rg_etag_list_matches(conditions->if_none_match, etag)) {
            return rg_fail(err, RG_NOT_MODIFIED);
        }
    } else if (conditions->has_modified_since && modified_s <= conditions->modified_since) {
        return rg_fail(err, RG_NOT_MODIFIED);
    }
    return 0;
}

int rg_conditions_check_copy_source(const struct rg_conditions *conditions, struct span etag,
                                    int64_t modified_s, struct rg_error *err)
{
    int rc = rg_conditions_check_read(conditions, etag, modified_s, NULL);
    if (rc == 0) {
        return 0;
    }
    if (rc == -RG_NOT_MODIFIED) {
        return precondition_failed(conditions->if_none_match.ptr
                                       ? "x-amz-copy-source-If-None-Match"
                                       : "x-amz-copy-source-If-Modified-Since",
                                   err);
    }
    return precondition_failed(conditions->if_match.ptr ? "x-amz-copy-source-If-Match"
                                                        : "x-amz-copy-source-If-Unmodified-Since",
                               err);
}

int rg_conditions_check_supported(const struct rg_conditions *conditions, struct rg_error *err)
{
    const char *field = NULL;
    if (conditions->has_modified_since) {
        field = "If-Modified-Since";
    } else if (conditions->has_unmodified_since) {
        field = "If-Unmodified-Since";
    } else if (conditions->if_none_match.ptr &&
               (conditions->if_match.ptr ||
                !rg_span_is(rg_span_trim(conditions->if_none_match), "*"))) {
        field = "If-None-Match";
    }
    if (!field) {
        return 0;
    }
    return rg_failf(err, RG_NOT_IMPLEMENTED,
                    "A header you provided implies functionality that is not implemented: %s",
                    field);
}

static int check_match(const struct rg_conditions *conditions, bool exists, struct span etag,
                       struct rg_error *err)
{
    if (!conditions->if_match.ptr) {
        return 0;
    }
    if (!exists) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    if (!rg_etag_list_matches(conditions->if_match, etag)) {
        return precondition_failed("If-Match", err);
    }
    return 0;
}

int rg_conditions_check_write(const struct rg_conditions *conditions, bool exists, struct span etag,
                              struct rg_error *err)
{
    if (!conditions) {
        return 0;
    }
    if (conditions->if_none_match.ptr && exists &&
        rg_etag_list_matches(conditions->if_none_match, etag)) {
        return precondition_failed("If-None-Match", err);
    }
    return check_match(conditions, exists, etag, err);
}

int rg_conditions_check_delete(const struct rg_conditions *conditions, bool exists,
                               struct span etag, struct rg_error *err)
{
    return conditions ? check_match(conditions, exists, etag, err) : 0;
}
