#include "base/random.h"

#include "base/assert.h"

#include <errno.h>
#include <sys/random.h>

void rg_random_bytes(void *bytes, size_t len)
{
    char *at = bytes;
    while (len) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0) {
            RG_ASSERT(errno == EINTR);
            continue;
        }
        at += got;
        len -= (size_t)got;
    }
}

uint64_t rg_random_u64(void)
{
    uint64_t value;
    rg_random_bytes(&value, sizeof value);
    return value;
}
