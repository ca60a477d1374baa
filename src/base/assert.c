#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void rg_assert_failed(const char *file, int line, const char *function, const char *what)
{
    fprintf(stderr, "railgate: %s:%d: %s: %s\n", file, line, function, what);
    abort();
}
