/*
 * Heads of requests: one line "METHOD TARGET VERSION", then a field a line. What is not refused
 * must be unambiguous.
 */
#include "gate/head.h"

#include "base/assert.h"

#include <stdlib.h>

#define FIELDS_MAX 64

static size_t count(const struct rg_head *head, const char *wanted)
{
    size_t found = 0;
    struct span name;
    struct span value;
    for (size_t i = 0; rg_head_field_at(head, i, &name, &value); i++) {
        RG_ASSERT(name.len > 0 && !rg_span_has_nul(name) && !rg_span_has_nul(value));
        RG_ASSERT(name.ptr[name.len] == '\0' && value.ptr[value.len] == '\0');
        found += rg_span_is_nocase(name, wanted);
    }
    return found;
}

static void check(const struct rg_head *head)
{
    struct span path = rg_head_path(head);
    bool old = strcmp(rg_head_version(head), "HTTP/1.0") == 0;
    RG_ASSERT(path.len > 0 && (path.ptr[0] == '/' || rg_span_is(path, "*")));
    RG_ASSERT(rg_span_find(path, ' ') < 0 && rg_span_find(path, '?') < 0);
    size_t lengths = count(head, "content-length");
    size_t codings = count(head, "transfer-encoding");
    RG_ASSERT(lengths + codings <= 1);
    RG_ASSERT(head->chunked == (codings == 1));
    RG_ASSERT((head->content_length >= 0) == (lengths == 1));
    RG_ASSERT(head->has_body == (head->chunked || head->content_length > 0));
    size_t hosts = count(head, "host");
    RG_ASSERT(hosts == 1 || (hosts == 0 && old));
    RG_ASSERT(head->field_count <= FIELDS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_head head = {0};
    struct span rest = rg_span(data, size);
    struct span line = rg_span_cut(&rest, '\n');
    struct span method = rg_span_cut(&line, ' ');
    struct span target = rg_span_cut(&line, ' ');
    rg_head_clear(&head, FIELDS_MAX);
    while (rest.ptr) {
        struct span value = rg_span_cut(&rest, '\n');
        struct span name = rg_span_cut(&value, ':');
        rg_head_add(&head, name, value.ptr ? value : RG_SPAN_EMPTY);
    }
    rg_head_finish(&head, method, target.ptr ? target : RG_SPAN_EMPTY,
                   line.ptr ? line : RG_SPAN_EMPTY);
    if (head.refusal == RG_OK) {
        check(&head);
    } else {
        RG_ASSERT(head.reason);
    }
    rg_head_free(&head);
    return 0;
}
