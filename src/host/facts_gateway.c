/*
 * Reads what a gateway needs. See facts_gateway.h.
 */
#include "host/facts.h"

#include "base/attr.h"
#include "base/settings.h"
#include "host/filtered.h"
#include "host/words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SOCKETS_BYTES RG_HOST_FILE_MAX
#define TREE_MS       2000

#define DIRECT_ALIGNMENT 4096
#define DIRECT_SMALL     ((size_t)4096)
#define DIRECT_LARGE     ((size_t)1 << 20)
#define DIRECT_ROOM      DIRECT_LARGE
#define DIRECT_ODD       ((size_t)1000)

/* ---- Settings ---- */

/* Everything but secrets: what is left out is not checked. */
static bool keep_setting(struct span line)
{
    struct span name, value;
    line = rg_span_trim(line);
    if (line.len == 0 || line.ptr[0] == '#') {
        return false;
    }
    return !rg_words_pair(line, '=', &name, &value) ||
           (!rg_span_is(name, "root-secret-key") && !rg_span_is(name, "root-access-key"));
}

static int take_setting(struct rg_settings *settings, struct span line, const char *origin,
                        struct rg_error *err)
{
    struct span name, text;
    if (rg_span_has_nul(line) || !rg_words_pair(line, '=', &name, &text)) {
        return rg_failf(err, RG_SETTING, "%s: not of the form `name = value`", origin);
    }
    for (int id = 0; id < RG_SETTING_COUNT; id++) {
        if (rg_span_is(name, rg_setting_name((enum rg_setting_id)id))) {
            rg_autofree char *value = rg_span_dup(text);
            return value ? rg_settings_set(settings, (enum rg_setting_id)id, value, RG_FROM_FILE,
                                           origin, err)
                         : rg_fail(err, RG_OUT_OF_MEMORY);
        }
    }
    char shown[64];
    rg_words_copy(shown, sizeof shown, name);
    return rg_failf(err, RG_SETTING, "%s: no setting is called \"%s\"", origin, shown);
}

static int take_settings(struct rg_settings *settings, struct span text, const char *path,
                         struct rg_error *err)
{
    struct span line;
    while (rg_words_line(&text, &line)) {
        line = rg_span_trim(line);
        int rc = line.len && line.ptr[0] != '#' ? take_setting(settings, line, path, err) : 0;
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static void read_settings(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_gateway *gateway = &facts->gateway;
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_settings_free) struct rg_settings settings = {0};
    RG_BUF(text, RG_FILTERED_MAX);
    const char *path = facts->plan.config[0] ? facts->plan.config : "/etc/railgate/railgate.conf";
    if (rg_settings_init(&settings, &err) < 0) {
        return;
    }
    rg_filtered_read(source, "gateway/settings", path, keep_setting, &text, &gateway->settings_at);
    bool absent = rg_reading_is_absent(&gateway->settings_at);
    if (!rg_reading_ok(&gateway->settings_at) && !(absent && !facts->plan.config[0])) {
        return;
    }
    if (!rg_buf_ok(&text) || take_settings(&settings, rg_buf_span(&text), path, &err) < 0) {
        rg_words_copy(gateway->settings_error, sizeof gateway->settings_error,
                      rg_span_text(err.message));
        return;
    }
    gateway->has_settings = true;
    gateway->port = settings.port;
    gateway->admin_port = settings.admin_port;
    gateway->rdma_memory = (uint64_t)settings.rdma_memory;
    gateway->rdma_off = settings.rdma == RG_RDMA_OFF;
}

/* ---- Sockets ---- */

static void read_sockets(struct rg_source *source, struct rg_host_gateway *gateway)
{
    static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(files); i++) {
        struct rg_reading at;
        RG_BUF(text, SOCKETS_BYTES);
        rg_source_read(source, &text, &at, "%s", files[i]);
        if (rg_reading_ok(&at) && !rg_listeners_parse(rg_buf_span(&text), &gateway->listeners)) {
            at.state = RG_READ_MALFORMED;
        }
        if (i == 0) {
            gateway->sockets_at = at; /* without IPv6 there is no second */
        }
    }
}

/* ---- The tree ---- */

static int result_of(ssize_t result)
{
    return result < 0 ? errno : 0;
}

static int probe_tmpfile(const char *path)
{
    int fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    int result = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return result;
}

/* A file without a name, *ret_direct the same for direct I/O or -1 with *ret_errno; its descriptor
 * or -1. */
static int make_file(const char *directory, int *ret_direct, int *ret_errno)
{
    char path[PATH_MAX];
    *ret_direct = -1;
    if (snprintf(path, sizeof path, "%s/.railgate-doctor-XXXXXX", directory) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        *ret_direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
        *ret_errno = *ret_direct < 0 ? errno : 0;
        (void)unlink(path);
    }
    return fd;
}

/* A user attribute of a real file, there and back. */
static int probe_attribute(int fd)
{
    char value[2];
    int result = 0;
    if (fsetxattr(fd, RG_TREE_PROBE_ATTRIBUTE, "1", 1, 0) < 0 ||
        fgetxattr(fd, RG_TREE_PROBE_ATTRIBUTE, value, sizeof value) != 1 ||
        fremovexattr(fd, RG_TREE_PROBE_ATTRIBUTE) < 0) {
        result = errno ? errno : EIO;
    }
    return result;
}

static int transfer(int fd, char *out, char *in, size_t bytes)
{
    memset(out, 0x5a, bytes);
    memset(in, 0, bytes);
    ssize_t written = pwrite(fd, out, bytes, 0);
    if (written < 0) {
        return errno;
    }
    ssize_t read = written == (ssize_t)bytes ? pread(fd, in, bytes, 0) : 0;
    if (read < 0) {
        return errno;
    }
    return read == (ssize_t)bytes && memcmp(out, in, bytes) == 0 ? 0 : EIO;
}

static void probe_direct(int fd, struct rg_buf *text)
{
    void *buffers = NULL;
    if (posix_memalign(&buffers, DIRECT_ALIGNMENT, 2 * DIRECT_ROOM) != 0) {
        return;
    }
    char *out = buffers, *in = out + DIRECT_ROOM;
    int result = transfer(fd, out, in, DIRECT_SMALL);
    result = result ? result : transfer(fd, out, in, DIRECT_LARGE);
    rg_buf_addf(text, "direct %d\nunaligned %d\n", result,
                transfer(fd, out, in, DIRECT_SMALL + DIRECT_ODD));
    free(buffers);
}

/* What a file system can do with files that are made and removed for it. */
static void probe_files(const char *directory, struct rg_buf *text)
{
    int number = 0, ignored;
    rg_autoclose int direct = -1, other_direct = -1;
    rg_autoclose int fd = make_file(directory, &direct, &number);
    if (fd < 0) {
        rg_buf_addf(text, "file %d\n", errno);
        return;
    }
    rg_buf_addf(text, "file %d\n", probe_attribute(fd));
    if (direct < 0) {
        rg_buf_addf(text, "direct %d\n", number);
    } else {
        probe_direct(direct, text);
    }
    rg_autoclose int other = make_file(directory, &other_direct, &ignored);
    if (other >= 0) {
        rg_buf_addf(text, "clone %d\n", result_of(ioctl(other, FICLONE, fd)));
    }
    rg_buf_addf(text, "allocate %d\n",
                result_of(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, DIRECT_LARGE)));
}

int rg_tree_probe(void *argument, int fd)
{
    const struct rg_tree_task *task = argument;
    const char *path = task->path;
    char byte;
    struct statfs st;
    RG_BUF(text, 4096);
    rg_autoclose int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_buf_addf(&text, "open %d\n", dir < 0 ? errno : 0);
    if (dir >= 0 && fstatfs(dir, &st) == 0) {
        rg_buf_addf(&text,
                    "type %" PRIu64 "\nblock_bytes %" PRIu64 "\nblocks %" PRIu64
                    "\nblocks_free %" PRIu64 "\nread_only %d\n",
                    (uint64_t)(uint32_t)st.f_type, (uint64_t)st.f_bsize, (uint64_t)st.f_blocks,
                    (uint64_t)st.f_bavail, (st.f_flags & ST_RDONLY) != 0);
    }
    if (dir >= 0) {
        rg_buf_addf(&text, "get %d\n",
                    result_of(fgetxattr(dir, RG_TREE_PROBE_ATTRIBUTE, &byte, sizeof byte)));
        rg_buf_addf(&text, "replace %d\n",
                    result_of(fsetxattr(dir, RG_TREE_PROBE_ATTRIBUTE, "1", 1, XATTR_REPLACE)));
        rg_buf_addf(&text, "write %d\n", result_of(faccessat(AT_FDCWD, path, W_OK | X_OK, 0)));
    }
    if (dir >= 0 && task->active) {
        rg_buf_addf(&text, "tmpfile %d\n", probe_tmpfile(path));
        probe_files(path, &text);
    }
    struct span all = rg_buf_span(&text);
    return rg_probe_write(fd, all.ptr, all.len);
}

bool rg_host_parse_tree(struct span lines, struct rg_host_tree *ret_tree)
{
    struct span line, name, word;
    *ret_tree = (struct rg_host_tree){.open_errno = -1,
                                      .get_errno = -1,
                                      .replace_errno = -1,
                                      .write_errno = -1,
                                      .tmpfile_errno = -1,
                                      .file_errno = -1,
                                      .direct_errno = -1,
                                      .unaligned_errno = -1,
                                      .clone_errno = -1,
                                      .allocate_errno = -1};
    while (rg_words_line(&lines, &line)) {
        uint64_t number;
        if (!rg_words_next(&line, &name) || !rg_words_next(&line, &word) ||
            !rg_span_to_u64(word, &number)) {
            return false;
        }
        bool is_errno = number <= 4095;
        if (rg_span_is(name, "open") && is_errno) {
            ret_tree->open_errno = (int)number;
        } else if (rg_span_is(name, "type")) {
            ret_tree->type = number;
        } else if (rg_span_is(name, "block_bytes")) {
            ret_tree->block_bytes = number;
        } else if (rg_span_is(name, "blocks")) {
            ret_tree->blocks = number;
        } else if (rg_span_is(name, "blocks_free")) {
            ret_tree->blocks_free = number;
        } else if (rg_span_is(name, "read_only")) {
            ret_tree->read_only = number != 0;
        } else if (rg_span_is(name, "get") && is_errno) {
            ret_tree->get_errno = (int)number;
        } else if (rg_span_is(name, "replace") && is_errno) {
            ret_tree->replace_errno = (int)number;
        } else if (rg_span_is(name, "write") && is_errno) {
            ret_tree->write_errno = (int)number;
        } else if (rg_span_is(name, "tmpfile") && is_errno) {
            ret_tree->tmpfile_errno = (int)number;
        } else if (rg_span_is(name, "file") && is_errno) {
            ret_tree->file_errno = (int)number;
        } else if (rg_span_is(name, "direct") && is_errno) {
            ret_tree->direct_errno = (int)number;
        } else if (rg_span_is(name, "unaligned") && is_errno) {
            ret_tree->unaligned_errno = (int)number;
        } else if (rg_span_is(name, "clone") && is_errno) {
            ret_tree->clone_errno = (int)number;
        } else if (rg_span_is(name, "allocate") && is_errno) {
            ret_tree->allocate_errno = (int)number;
        } else {
            return false;
        }
    }
    ret_tree->known = ret_tree->open_errno >= 0;
    return ret_tree->known;
}

static void read_tree(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_gateway *gateway = &facts->gateway;
    struct rg_tree_task task = {.path = facts->plan.root, .active = facts->plan.active};
    RG_BUF(text, 4096);
    if (!facts->plan.root[0]) {
        return;
    }
    rg_source_probe(source, "gateway/tree", facts->plan.root, rg_tree_probe, &task, TREE_MS, &text,
                    &gateway->tree_at);
    if (rg_reading_ok(&gateway->tree_at) &&
        !rg_host_parse_tree(rg_buf_span(&text), &gateway->tree)) {
        gateway->tree_at.state = RG_READ_MALFORMED;
    }
}

void rg_host_read_gateway(struct rg_source *source, struct rg_host_facts *facts)
{
    read_settings(source, facts);
    read_sockets(source, &facts->gateway);
    read_tree(source, facts);
}

bool rg_host_has_gateway(const struct rg_host_facts *facts)
{
    const struct rg_host_service *service = rg_host_service(facts, RG_GATEWAY_UNIT);
    return facts->plan.profile == RG_PROFILE_GATEWAY || facts->plan.root[0] ||
           facts->plan.config[0] || rg_reading_ok(&facts->gateway.settings_at) ||
           (service && (service->pid || service->unit_at.state != RG_READ_MISSING));
}
