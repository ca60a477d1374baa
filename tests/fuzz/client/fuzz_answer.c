/* The XML that a server answers with, as each document in turn. */
#include "client/answer.h"
#include "client/piece.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span body = rg_span(data, size);
    struct rg_answer_error error;
    struct rg_answer_page page;
    struct rg_answer_stored stored;
    struct rg_answer_parts parts;
    struct rg_answer_uploads uploads;
    char *id;
    uint64_t first;
    uint64_t last;
    uint64_t whole;
    (void)rg_answer_error_read(body, &error);
    if (rg_answer_objects_read(body, &page, NULL) == 0) {
        rg_answer_page_free(&page);
    }
    if (rg_answer_buckets_read(body, &page, NULL) == 0) {
        rg_answer_page_free(&page);
    }
    if (rg_answer_upload_id_read(body, &id, NULL) == 0) {
        free(id);
    }
    (void)rg_answer_stored_read(body, &stored, NULL);
    if (rg_answer_parts_read(body, &parts, NULL) == 0) {
        rg_answer_parts_free(&parts);
    }
    if (rg_answer_uploads_read(body, &uploads, NULL) == 0) {
        rg_answer_uploads_free(&uploads);
    }
    (void)rg_content_range_read(body, &first, &last, &whole);
    return 0;
}
