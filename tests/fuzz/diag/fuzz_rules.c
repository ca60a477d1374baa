/*
 * A site's rules file: read, compiled, its examples matched.
 */
#include "diag/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rg_autoclose int fd = memfd_create("rules", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        abort();
    }
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const char *files[] = {path};
    struct rg_catalogue *catalogue;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_catalogue_open(files, 1, &catalogue, &err) < 0) {
        return 0;
    }
    for (size_t i = 0; i < rg_catalogue_row_count(catalogue); i++) {
        const struct rg_catalogue_row *row = rg_catalogue_row_at(catalogue, i);
        if (row->source[0] == '/') {
            RG_BUF(text, 1 << 20);
            rg_catalogue_explain(row, RG_KOREAN, &text);
        }
    }
    static const char line[] =
        "LustreError: 1:0:(a.c:1:b()) aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0x1";
    struct rg_log_record record = {.text = RG_SPAN_LITERAL(line)};
    struct rg_event event;
    rg_catalogue_match(catalogue, &record, &event);
    rg_catalogue_free(catalogue);
    return 0;
}
