/*
 * GetObject, HeadObject and GetObjectAttributes. The bytes are sent by the connection's thread,
 * from a descriptor of its own: the worker is free again before the first of them leaves.
 */
#include "gate/verbs.h"

#include "base/checked.h"
#include "base/clock.h"
#include "gate/object.h"
#include "gate/rdma_ask.h"
#include "gate/rdma_session.h"
#include "s3/conditions.h"
#include "s3/date.h"
#include "s3/range.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ATTRIBUTES_BYTES_MAX (1u << 20)
#define ATTRIBUTE_PARTS_MAX  1000u

/* ---- Which bytes ---- */

struct selection {
    struct rg_range range;
    uint32_t part; /* partNumber; 0: not given */
};

/* If-Range: the range counts only while the object is still the one the client knows. */
static bool range_is_current(const struct rg_call *call, const struct rg_object_info *info)
{
    struct span text;
    int64_t seconds;
    if (!rg_call_header(call, "if-range", &text)) {
        return true;
    }
    if (rg_date_parse_http(text, rg_clock_wall().tv_sec, &seconds)) {
        return seconds == info->modified.tv_sec;
    }
    return rg_etag_list_matches(text, rg_span_text(info->meta.etag));
}

/* What is wrong whatever the object is like is said whether there is one or not. */
static int read_part(struct rg_call *call, struct selection *ret_selection, struct rg_error *err)
{
    struct span number;
    struct span range;
    *ret_selection = (struct selection){0};
    if (!rg_call_param(call, "partNumber", &number)) {
        return 0;
    }
    if (rg_call_header(call, "range", &range)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Cannot specify both Range header and partNumber query parameter");
    }
    uint32_t most = (uint32_t)call->settings->part_count_max;
    return rg_part_number_parse(number, most, &ret_selection->part, err);
}

static int select_part(struct rg_call *call, const struct rg_object_info *info,
                       struct selection *ret_selection, struct rg_error *err)
{
    int rc = rg_range_of_part(info->meta.parts, info->meta.part_count, info->size,
                              ret_selection->part, &ret_selection->range, err);
    if (rc == -RG_INVALID_PART_NUMBER) {
        char text[24];
        snprintf(text, sizeof text, "%" PRIu32, ret_selection->part);
        rg_call_detail(call, "PartNumberRequested", rg_span_text(text));
        snprintf(text, sizeof text, "%zu", RG_MAX(info->meta.part_count, (size_t)1));
        rg_call_detail(call, "ActualPartCount", rg_span_text(text));
    }
    return rc;
}

static int select_range(struct rg_call *call, const struct rg_object_info *info,
                        struct selection *ret_selection, struct rg_error *err)
{
    struct span text = {NULL, 0};
    if (rg_call_header(call, "range", &text) && !range_is_current(call, info)) {
        text = (struct span){NULL, 0};
    }
    int rc = rg_range_parse(text, info->size, &ret_selection->range, err);
    if (rc == -RG_INVALID_RANGE) {
        char refused[RG_CONTENT_RANGE_SIZE];
        rg_range_format_refused(info->size, refused);
        rg_http_header_set(call->http, "Content-Range", refused);
        rg_call_detail(call, "RangeRequested", rg_span_head(text, 256));
        snprintf(refused, sizeof refused, "%" PRIu64, info->size);
        rg_call_detail(call, "ActualObjectSize", rg_span_text(refused));
    }
    return rc;
}

static int select_bytes(struct rg_call *call, const struct rg_object_info *info,
                        struct selection *ret_selection, struct rg_error *err)
{
    return ret_selection->part ? select_part(call, info, ret_selection, err)
                               : select_range(call, info, ret_selection, err);
}

static int select_wanted(struct rg_call *call, const struct rg_object_info *info,
                         struct selection *ret_selection, struct rg_error *err)
{
    int rc = select_bytes(call, info, ret_selection, err);
    return rc == 0 && call->rdma.push ? rg_push_select(call, info, &ret_selection->range, err) : rc;
}

/* ---- The answer ---- */

/* A 304 says which version the client has. */
static int check_conditions(struct rg_call *call, const struct rg_object_info *info,
                            struct rg_error *err)
{
    struct rg_conditions conditions;
    rg_conditions_read(call->headers, call->header_count, RG_CONDITIONS_REQUEST,
                       rg_clock_wall().tv_sec, &conditions);
    int rc = rg_conditions_check_read(&conditions, rg_span_text(info->meta.etag),
                                      info->modified.tv_sec, err);
    if (rc == -RG_NOT_MODIFIED) {
        rg_object_answer_etag(call, info->meta.etag);
        rg_object_answer_modified(call, info);
        const char *control = info->meta.header[RG_META_CACHE_CONTROL];
        if (control) {
            rg_http_header_set(call->http, "Cache-Control", control);
        }
    }
    rg_object_explain_condition(call, &conditions, rc);
    return rc;
}

/* The checksum of what is sent: of the object, or of the part that was asked for. */
static void answer_checksum(struct rg_call *call, const struct rg_object_info *info,
                            const struct selection *selection)
{
    struct span mode;
    if (!rg_call_header(call, "x-amz-checksum-mode", &mode) ||
        !rg_span_is_nocase(mode, "ENABLED")) {
        return;
    }
    if (selection->part && info->meta.part_count) {
        rg_object_answer_checksum(call, &info->meta.parts[selection->part - 1].checksum);
    } else if (selection->part || !selection->range.partial) {
        rg_object_answer_checksum(call, &info->meta.checksum);
    }
}

static void answer_fields(struct rg_call *call, const struct rg_object_info *info,
                          const struct selection *selection)
{
    rg_object_answer_info(call, info);
    answer_checksum(call, info, selection);
    if (selection->part && info->meta.part_count) {
        rg_http_header_setf(call->http, "x-amz-mp-parts-count", "%zu", info->meta.part_count);
    }
    if (selection->range.partial && !call->rdma.push) {
        char text[RG_CONTENT_RANGE_SIZE];
        rg_range_format(&selection->range, info->size, text);
        rg_http_header_set(call->http, "Content-Range", text);
    }
}

/* A descriptor for the connection's thread; -1 when there are no bytes to send. */
static int open_bytes(struct rg_call *call, const struct rg_opened *opened,
                      const struct rg_range *range, int *ret_fd, struct rg_error *err)
{
    *ret_fd = -1;
    if (call->is_head || range->length == 0) {
        return 0;
    }
    *ret_fd = fcntl(rg_store_object_fd(call->store, opened->object), F_DUPFD_CLOEXEC, 0);
    if (*ret_fd < 0) {
        return rg_fail_storage(err, errno, "cannot duplicate the object's descriptor");
    }
    return 0;
}

static bool moves_by_rdma(const struct rg_call *call)
{
    return call->rdma.wanted || call->rdma.push || call->rdma.declined;
}

/*
 * Few bytes cost less when they are read here than when a descriptor is handed over. *ret_done is
 * false when they are many, or when the file has become shorter: then the connection finds out.
 */
static int read_small(struct rg_call *call, struct rg_opened *opened, const struct rg_range *range,
                      bool *ret_done, struct rg_error *err)
{
    *ret_done = false;
    if (call->is_head || moves_by_rdma(call) || range->length == 0 ||
        range->length > RG_HTTP_SMALL_BYTES) {
        return 0;
    }
    char *space = rg_http_answer_space(call->http, range->length);
    size_t len = 0;
    int rc = space ? rg_store_object_read(call->store, opened->object, range->offset, space,
                                          range->length, &len, err)
                   : 0;
    *ret_done = rc == 0 && len == range->length;
    return rc;
}

int rg_verb_get_object(struct rg_call *call, struct rg_error *err)
{
    rg_autoopened opened = {0};
    rg_autoclose int fd = -1;
    bool is_read = false;
    struct selection selection;
    int rc = rg_call_check_version(call, err);
    if (rc == 0) {
        rc = rg_object_check_overrides(call, err);
    }
    if (rc == 0) {
        rc = read_part(call, &selection, err);
    }
    if (rc == 0) {
        rc = rg_object_open(call, call->bucket, call->key, &opened, err);
    }
    if (rc < 0) {
        return rc;
    }
    const struct rg_object_info *info = rg_opened_info(&opened);
    rg_call_set_object_size(call, info->size);
    rc = check_conditions(call, info, err);
    if (rc < 0) {
        return rc;
    }
    rc = select_wanted(call, info, &selection, err);
    if (rc < 0 || rg_push_only_looks(call)) {
        return rc;
    }

    /* Whatever can still fail does so before the first field of a success is set. */
    rc = read_small(call, &opened, &selection.range, &is_read, err);
    if (rc == 0 && !is_read) {
        rc = open_bytes(call, &opened, &selection.range, &fd, err);
    }
    if (rc < 0) {
        return rc;
    }

    rc = call->is_head || is_read ? 0 : rg_rdma_send(call, fd, &selection.range, err);
    if (rc < 0) {
        return rc;
    }

    int status = selection.range.partial && !call->rdma.push ? 206 : 200;
    answer_fields(call, info, &selection);
    if (call->is_head) {
        rg_http_answer_head(call->http, status, (int64_t)selection.range.length);
        return 0;
    }
    rg_rdma_answer(call, status);
    if (is_read) {
        rg_http_answer_filled(call->http, status, selection.range.length);
        return 0;
    }
    if (fd < 0 || call->rdma.moved) {
        return rg_call_answer_empty(call, status);
    }
    rg_http_answer_fd(call->http, status, RG_TAKE_FD(fd), selection.range.offset,
                      selection.range.length);
    return 0;
}

/* ---- GetObjectAttributes ---- */

static int read_names(struct rg_call *call, struct span list, struct rg_xml_attributes *ret_wanted,
                      bool *any, struct rg_error *err)
{
    const struct {
        const char *name;
        bool *wanted;
    } attributes[] = {
        {"ETag", &ret_wanted->want_etag},         {"Checksum", &ret_wanted->want_checksum},
        {"ObjectParts", &ret_wanted->want_parts}, {"StorageClass", &ret_wanted->want_storage_class},
        {"ObjectSize", &ret_wanted->want_size},
    };
    while (list.ptr) {
        struct span name = rg_span_trim(rg_span_cut(&list, ','));
        size_t i = 0;
        while (i < RG_ARRAY_LENGTH(attributes) && !rg_span_is(name, attributes[i].name)) {
            i++;
        }
        if (i < RG_ARRAY_LENGTH(attributes)) {
            *attributes[i].wanted = true;
            *any = true;
        } else if (name.len) {
            return rg_call_invalid(call, "x-amz-object-attributes", name,
                                   "Invalid attribute name specified.", err);
        }
    }
    return 0;
}

/* A list in one field, or a field for each name, as the SDK for Go sends it. */
static int read_wanted(struct rg_call *call, struct rg_xml_attributes *ret_wanted,
                       struct rg_error *err)
{
    bool any = false;
    for (size_t i = 0; i < call->header_count; i++) {
        const struct rg_header *field = &call->headers[i];
        if (!rg_span_is_nocase(field->name, "x-amz-object-attributes")) {
            continue;
        }
        int rc = read_names(call, field->value, ret_wanted, &any, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (!any) {
        return rg_call_invalid(call, "x-amz-object-attributes", RG_SPAN_EMPTY,
                               "The x-amz-object-attributes header specifying the attributes to "
                               "be retrieved is either missing or empty",
                               err);
    }
    return 0;
}

/* A number in a field of the request. */
static int read_number_field(struct rg_call *call, const char *name, uint32_t *ret_value,
                             struct rg_error *err)
{
    struct span text;
    uint64_t value;
    if (!rg_call_header(call, name, &text)) {
        return 0;
    }
    if (!rg_span_to_u64(text, &value) || value > INT32_MAX) {
        return rg_call_invalid(call, name, text, "The value is not a number in range.", err);
    }
    *ret_value = (uint32_t)value;
    return 0;
}

/* The page of the part table that was asked for. *ret_parts is the caller's to free. */
static int select_parts(struct rg_call *call, const struct rg_meta *meta,
                        struct rg_xml_attributes *attributes, struct rg_xml_part **ret_parts,
                        struct rg_error *err)
{
    uint32_t marker = 0;
    uint32_t most = ATTRIBUTE_PARTS_MAX;
    int rc = read_number_field(call, "x-amz-part-number-marker", &marker, err);
    if (rc == 0) {
        rc = read_number_field(call, "x-amz-max-parts", &most, err);
    }
    if (rc < 0) {
        return rc;
    }
    size_t first = RG_MIN((size_t)marker, meta->part_count);
    size_t wanted = RG_MIN(most, ATTRIBUTE_PARTS_MAX);
    size_t count = RG_MIN(meta->part_count - first, wanted);
    struct rg_xml_part *parts = calloc(count ? count : 1, sizeof *parts);
    if (!parts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        parts[i].number = (uint32_t)(first + i + 1);
        parts[i].size = meta->parts[first + i].size;
        parts[i].checksum = meta->parts[first + i].checksum;
    }
    attributes->part_total = meta->part_count;
    attributes->part_marker = marker;
    attributes->next_part_marker = (uint32_t)(first + count);
    attributes->max_parts = RG_MIN(most, ATTRIBUTE_PARTS_MAX);
    attributes->parts_truncated = first + count < meta->part_count;
    attributes->parts = parts;
    attributes->part_count = count;
    *ret_parts = parts;
    return 0;
}

int rg_verb_get_object_attributes(struct rg_call *call, struct rg_error *err)
{
    rg_autoopened opened = {0};
    rg_autofree struct rg_xml_part *parts = NULL;
    struct rg_xml_attributes attributes = {0};
    int rc = rg_call_check_version(call, err);
    if (rc == 0) {
        rc = read_wanted(call, &attributes, err);
    }
    if (rc == 0) {
        rc = rg_object_open(call, call->bucket, call->key, &opened, err);
    }
    if (rc < 0) {
        return rc;
    }
    const struct rg_object_info *info = rg_opened_info(&opened);
    rc = select_parts(call, &info->meta, &attributes, &parts, err);
    if (rc < 0) {
        return rc;
    }
    attributes.etag = rg_span_text(info->meta.etag);
    attributes.checksum = info->meta.checksum;
    attributes.size = info->size;

    RG_BUF(document, ATTRIBUTES_BYTES_MAX);
    rg_xml_object_attributes(&document, &attributes);
    if (!rg_buf_ok(&document)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rg_object_answer_modified(call, info);
    return rg_call_answer_xml(call, 200, &document, err);
}
