/* cufile.json: comments, then JSON. */
#include "host/cufile_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t count_lines(struct span text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n';
    }
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    struct rg_cufile *cufile = malloc(sizeof *cufile);
    RG_BUF(plain, (size_t)1 << 20);
    rg_cufile_uncomment(text, &plain);
    if (rg_buf_ok(&plain)) {
        /* Problems are told by line. */
        assert(count_lines(rg_buf_span(&plain)) == count_lines(text));
    }
    if (rg_cufile_parse(text, cufile)) {
        assert(cufile->problem[0] == '\0' && cufile->address_count <= RG_CUFILE_ADDRESSES_MAX);
    } else {
        assert(cufile->problem[0]);
    }
    free(cufile);
    return 0;
}
