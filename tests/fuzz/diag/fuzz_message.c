/*
 * The catalogue on lines that anyone may have written: matching, fields, commands, shapes.
 */
#include "diag/catalogue.h"
#include "diag/lustre.h"

#include <stdlib.h>

/* Reads every byte, so that the sanitizer sees spans that point elsewhere. */
static volatile unsigned char seen;

static void check_span(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        seen ^= (unsigned char)text.ptr[i];
    }
}

static void look_at(const struct rg_event *event)
{
    const struct span spans[] = {
        event->file_system, event->target,    event->nid,           event->nid_to,
        event->nid_local,   event->device,    event->client,        event->detail,
        event->site,        event->operation, event->request.flags,
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(spans); i++) {
        check_span(spans[i]);
    }
    RG_BUF(text, 4096);
    for (size_t i = 0; i < event->row->next_count; i++) {
        rg_catalogue_command(event->row->next[i].command, event, &text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rg_catalogue *catalogue;
    if (!catalogue && rg_catalogue_open(NULL, 0, &catalogue, NULL) < 0) {
        abort();
    }
    struct span rest = rg_span(data, size);
    struct rg_unmatched unmatched = {0};
    while (rest.ptr) {
        struct rg_log_record record = {.text = rg_span_cut(&rest, '\n'), .priority = -1};
        struct rg_event event;
        enum rg_match match = rg_catalogue_match(catalogue, &record, &event);
        if (match == RG_MATCH_ROW) {
            look_at(&event);
        } else if (match == RG_MATCH_SUSPECT) {
            rg_unmatched_add(&unmatched, &record);
        }
        struct rg_device_name device;
        struct rg_target_name target;
        rg_device_parse(record.text, &device);
        rg_target_parse(record.text, &target);
        rg_nid_is(record.text);
    }
    rg_unmatched_free(&unmatched);
    return 0;
}
