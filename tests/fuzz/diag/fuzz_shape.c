/*
 * One line: its shape, the journal's JSON, the name of a node in a path, the rotation of a file.
 */
#include "diag/journal.h"
#include "diag/paths.h"
#include "diag/shape.h"

#include <stdlib.h>
#include <string.h>

/* A borrowed span lies within the line, or is empty. */
static void check(struct span span, const char *line, size_t len)
{
    if (span.len > 0 && (span.ptr < line || span.ptr + span.len > line + len)) {
        abort();
    }
}

static void check_shaped(const struct rg_shaped *shaped, const char *line, size_t len)
{
    check(shaped->text, line, len);
    check(shaped->host, line, len);
    check(shaped->prefix, line, len);
    check(shaped->program, line, len);
    check(shaped->boot, line, len);
    if (shaped->priority < -1 || shaped->priority > 7 || shaped->shape >= RG_SHAPE_COUNT) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + (size == 0));
    if (!line) {
        return 0;
    }
    struct rg_shaped shaped;
    memcpy(line, data, size);
    rg_shape_read(line, size, &shaped);
    check_shaped(&shaped, line, size);

    memcpy(line, data, size);
    if (rg_journal_read_json(line, size, &shaped)) {
        check_shaped(&shaped, line, size);
    }
    memcpy(line, data, size);
    struct span name, value;
    if (rg_journal_read_member(line, size, &name, &value)) {
        check(name, line, size);
        check(value, line, size);
    }
    memcpy(line, data, size);
    check(rg_node_name_from_path(rg_span(line, size)), line, size);
    int64_t rank;
    check(rg_rotation_of(rg_span(line, size), &rank), line, size);
    free(line);
    return 0;
}
