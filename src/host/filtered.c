/*
 * Files that may hold secrets. See filtered.h.
 */
#include "host/filtered.h"

#include "base/attr.h"
#include "host/words.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIMEOUT_MS 2000

struct task {
    const char *path;
    rg_line_rule *keep;
};

static void keep_lines(struct span content, rg_line_rule *keep, struct rg_buf *out)
{
    struct span line;
    while (rg_words_line(&content, &line)) {
        while (line.ptr) {
            struct span part = rg_span_cut(&line, '\0');
            if (part.len && keep(part)) {
                rg_buf_add_span(out, part);
                rg_buf_add_char(out, '\n');
            }
        }
    }
}

/* In the child: what is not kept never leaves it. */
static int tell_lines(void *argument, int fd)
{
    const struct task *task = argument;
    struct stat st;
    RG_BUF(content, RG_HOST_FILE_MAX);
    RG_BUF(kept, RG_FILTERED_MAX);
    rg_autoclose int file = open(task->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0 || fstat(file, &st) < 0) {
        return errno;
    }
    /* A pipe without a writer reads like an empty file, and a device never ends. */
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    }
    for (;;) {
        char *at = rg_buf_reserve(&content, 4096);
        ssize_t got = at ? read(file, at, 4096) : 0;
        if (got < 0) {
            return errno;
        }
        if (got == 0) {
            break;
        }
        rg_buf_grew(&content, (size_t)got);
    }
    keep_lines(rg_buf_span(&content), task->keep, &kept);
    struct span all = rg_buf_span(&kept);
    return rg_probe_write(fd, all.ptr, all.len);
}

void rg_filtered_read(struct rg_source *source, const char *name, const char *path,
                      rg_line_rule *keep, struct rg_buf *out, struct rg_reading *ret_at)
{
    struct task task = {.path = path, .keep = keep};
    rg_source_probe(source, name, path, tell_lines, &task, TIMEOUT_MS, out, ret_at);
    if (rg_source_is_live(source) || ret_at->state != RG_READ_MISSING) {
        return;
    }
    RG_BUF(content, RG_HOST_FILE_MAX);
    rg_source_read(source, &content, ret_at, "%s", path);
    keep_lines(rg_buf_span(&content), keep, out);
}

bool rg_reading_is_absent(const struct rg_reading *at)
{
    return at->state == RG_READ_MISSING ||
           (at->state == RG_READ_UNREADABLE && (at->os_errno == ENOENT || at->os_errno == ENOTDIR));
}
