/* Reading the DC access key. See dc_key.h. */
#include "rdma/dc_key.h"

#include "base/attr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX 256u

int rg_dc_key_parse(struct span text, uint64_t *ret_key)
{
    char digits[17];
    while (text.len && strchr(" \t\r\n", text.ptr[text.len - 1])) {
        text.len--;
    }
    text = rg_span_trim(text);
    if (rg_span_starts(text, RG_SPAN_LITERAL("0x"))) {
        text = rg_span_skip(text, 2);
    }
    if (text.len == 0 || text.len >= sizeof digits) {
        return -1;
    }
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = '\0';
    bool is_hex = strspn(digits, "0123456789abcdefABCDEF") == text.len;
    if (is_hex) {
        *ret_key = strtoull(digits, NULL, 16);
    }
    explicit_bzero(digits, sizeof digits);
    return is_hex ? 0 : -1;
}

int rg_dc_key_read(const char *path, const char *who, uint64_t *ret_key, struct rg_error *err)
{
    char text[FILE_BYTES_MAX];
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (len < 0) {
        return rg_fail_errno(err, RG_SETTING, errno, "%s: cannot read %s", who, path);
    }
    int rc = (size_t)len == sizeof text ? -1 : rg_dc_key_parse(rg_span(text, (size_t)len), ret_key);
    explicit_bzero(text, sizeof text);
    if (rc < 0) {
        return rg_failf(err, RG_SETTING, "%s: %s does not hold one key of up to 16 hex digits", who,
                        path);
    }
    return 0;
}
