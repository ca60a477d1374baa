/*
 * Reads Lustre. See facts_lustre.h.
 */
#include "host/facts.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/encode.h"
#include "host/filtered.h"
#include "host/words.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TABLE_BYTES    ((size_t)1 << 19)
#define TREE_MS        3000
#define SPACE_MS       2000
#define COMMAND_MS     2500
#define IMPORT_BYTES   16384
#define LAYOUT_BYTES   4096
#define COMMAND_BYTES  RG_HOST_FILE_MAX
#define TUNEFS_BYTES   65536
#define DISKS_MS       4000 /* for all of them */
#define NAMES_EACH_MAX 512

/* ---- Mounts ---- */

static bool is_lustre_line(struct span line)
{
    struct span word;
    for (unsigned i = 0; i < 3; i++) {
        if (!rg_words_next(&line, &word)) {
            return false;
        }
    }
    return rg_span_starts(word, RG_SPAN_LITERAL("lustre"));
}

static void read_layout(struct rg_source *source, struct rg_host_lustre_mount *mount);

static void read_client(struct rg_source *source, const struct rg_host_facts *facts,
                        struct rg_host_lustre_mount *mount, size_t index)
{
    char name[64];
    RG_BUF(text, 4096);
    struct rg_tree_task task = {.path = mount->mount.target, .active = facts->plan.active};
    snprintf(name, sizeof name, "lustre/mount-%zu", index);
    rg_source_probe(source, name, mount->mount.target, rg_tree_probe, &task, TREE_MS, &text,
                    &mount->tree_at);
    if (rg_reading_ok(&mount->tree_at) && !rg_host_parse_tree(rg_buf_span(&text), &mount->tree)) {
        mount->tree_at.state = RG_READ_MALFORMED;
    }
}

static void read_mounts(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_lustre *lustre = &facts->lustre;
    RG_BUF(text, TABLE_BYTES);
    rg_autofree struct rg_mount_list *list = calloc(1, sizeof *list);
    rg_source_read(source, &text, &lustre->mounts_at, "/proc/mounts");
    rg_mounts_parse(rg_buf_span(&text), "lustre_tgt", &lustre->targets);
    if (!list) {
        return;
    }
    rg_mounts_parse(rg_buf_span(&text), "lustre", list);
    for (size_t i = 0; i < list->count; i++) {
        struct span nids;
        char fsname[RG_LUSTRE_NAME_MAX + 1];
        if (!rg_lustre_source_parse(rg_span_text(list->mounts[i].source), &nids, fsname)) {
            /* A target that was mounted with the old type. */
            if (lustre->targets.count < RG_MOUNTS_MAX) {
                lustre->targets.mounts[lustre->targets.count++] = list->mounts[i];
            }
            continue;
        }
        if (lustre->mount_count == RG_HOST_LUSTRE_MOUNTS_MAX) {
            lustre->cut = true;
            break;
        }
        struct rg_host_lustre_mount *mount = &lustre->mounts[lustre->mount_count];
        mount->mount = list->mounts[i];
        memcpy(mount->fsname, fsname, sizeof fsname);
        rg_nid_list_add(&mount->mgs, nids);
        read_client(source, facts, mount, lustre->mount_count++);
        if (rg_reading_ok(&mount->tree_at)) {
            read_layout(source, mount);
        }
    }
}

static void read_fstab(struct rg_source *source, struct rg_host_lustre *lustre)
{
    RG_BUF(text, RG_FILTERED_MAX);
    rg_filtered_read(source, "lustre/fstab", "/etc/fstab", is_lustre_line, &text,
                     &lustre->fstab_at);
    rg_mounts_parse(rg_buf_span(&text), "lustre", &lustre->fstab);
}

/* ---- Layout ---- */

static int tell_layout(void *argument, int fd)
{
    const char *path = argument;
    char bytes[LAYOUT_BYTES], hex[2 * LAYOUT_BYTES + 1];
    ssize_t len = getxattr(path, "lustre.lov", bytes, sizeof bytes);
    if (len < 0) {
        return errno;
    }
    rg_hex_encode(bytes, (size_t)len, hex);
    return rg_probe_write(fd, hex, strlen(hex));
}

static void read_layout(struct rg_source *source, struct rg_host_lustre_mount *mount)
{
    char name[96], bytes[LAYOUT_BYTES];
    RG_BUF(hex, 2 * LAYOUT_BYTES);
    snprintf(name, sizeof name, "lustre/layout-%s", mount->fsname);
    rg_source_probe(source, name, "the xattr lustre.lov", tell_layout, mount->mount.target,
                    COMMAND_MS, &hex, &mount->layout_at);
    if (!rg_reading_ok(&mount->layout_at)) {
        return;
    }
    struct span text = rg_words_bare(rg_buf_span(&hex));
    mount->has_layout = text.len / 2 <= sizeof bytes && rg_hex_decode(text, bytes, text.len / 2) &&
                        rg_lustre_layout_parse(rg_span(bytes, text.len / 2), &mount->layout);
    if (!mount->has_layout) {
        mount->layout_at.state = RG_READ_MALFORMED;
    }
}

/* ---- Connections ---- */

static const char *const roots[] = {"/sys/kernel/debug/lustre", "/proc/fs/lustre",
                                    "/sys/fs/lustre"};

static bool read_import(struct rg_source *source, const char *kind, const char *name,
                        struct rg_host_lustre_import *ret_import)
{
    struct rg_reading first_failure = {0};
    for (size_t i = 0; i < 2 * RG_ARRAY_LENGTH(roots); i++) {
        const char *root = roots[i % RG_ARRAY_LENGTH(roots)];
        bool whole = i < RG_ARRAY_LENGTH(roots);
        const char *file = whole                      ? "import"
                           : strcmp(kind, "mdc") == 0 ? "mds_server_uuid"
                                                      : "ost_server_uuid";
        RG_BUF(text, IMPORT_BYTES);
        rg_source_read(source, &text, &ret_import->at, "%s/%s/%.120s/%s", root, kind, name, file);
        if (rg_reading_ok(&ret_import->at)) {
            bool ok = whole ? rg_lustre_import_parse(rg_buf_span(&text), &ret_import->import)
                            : rg_lustre_uuid_parse(rg_buf_span(&text), &ret_import->import);
            ret_import->at.state = ok ? RG_READ_OK : RG_READ_MALFORMED;
            return true;
        }
        if (ret_import->at.state == RG_READ_UNREADABLE &&
            first_failure.state == RG_READ_NOT_ASKED) {
            first_failure = ret_import->at;
        }
    }
    if (first_failure.state == RG_READ_NOT_ASKED) {
        return false;
    }
    ret_import->at = first_failure;
    return true;
}

static void read_kind(struct rg_source *source, struct rg_host_lustre *lustre, const char *kind)
{
    RG_CLEANUP(rg_names_free) struct rg_names names = {0};
    for (size_t i = RG_ARRAY_LENGTH(roots); i > 0; i--) {
        rg_names_free(&names);
        names = (struct rg_names){0};
        rg_source_list(source, &names, "%s/%s", roots[i - 1], kind);
        if (rg_reading_ok(&names.at) && names.count) {
            break;
        }
    }
    if (rg_reading_ok(&names.at)) {
        lustre->imports_at = names.at;
    }
    for (size_t i = 0; i < names.count; i++) {
        if (!strchr(names.name[i], '-') && strncmp(names.name[i], "MGC", 3) != 0) {
            continue; /* "num_refs" and the like */
        }
        if (lustre->import_count == RG_HOST_LUSTRE_IMPORTS_MAX) {
            lustre->cut = true;
            return;
        }
        struct rg_host_lustre_import *import = &lustre->imports[lustre->import_count];
        if (!read_import(source, kind, names.name[i], import)) {
            continue;
        }
        import->is_mgc = strcmp(kind, "mgc") == 0;
        if (!import->import.target[0]) {
            rg_words_copy(import->import.target, sizeof import->import.target,
                          rg_span_text(names.name[i]));
        }
        lustre->import_count++;
    }
}

/* ---- Space, in a child: asking a target that is away waits ---- */

static bool read_number_file(const char *directory, const char *name, const char *file,
                             uint64_t *ret_number)
{
    char path[512], text[64];
    snprintf(path, sizeof path, "%s/%.200s/%s", directory, name, file);
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text);
    return len > 0 && rg_words_number(rg_span(text, (size_t)len), ret_number);
}

static void tell_target(const char *directory, const char *name, struct rg_buf *out)
{
    uint64_t total, available;
    const char *end = strstr(name, "-osc");
    size_t len = end ? (size_t)(end - name) : strlen(name);
    if (strchr(name, '-') && read_number_file(directory, name, "kbytestotal", &total) &&
        read_number_file(directory, name, "kbytesavail", &available)) {
        rg_buf_addf(out, "%.*s %" PRIu64 " %" PRIu64 "\n", (int)len, name, total, available);
    }
}

static int tell_space(void *argument, int fd)
{
    (void)argument;
    static const char *const directories[] = {"/sys/fs/lustre/osc", "/proc/fs/lustre/osc"};
    RG_BUF(text, 65536);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(directories) && text.len == 0; i++) {
        rg_autoclosedir DIR *dir = opendir(directories[i]);
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            tell_target(directories[i], entry->d_name, &text);
        }
    }
    struct span all = rg_buf_span(&text);
    return rg_probe_write(fd, all.ptr, all.len);
}

bool rg_host_parse_space(struct span lines, struct rg_host_lustre *lustre)
{
    struct span line, target, total, available;
    while (rg_words_line(&lines, &line)) {
        struct rg_host_lustre_space space;
        if (!rg_words_next(&line, &target) || !rg_words_next(&line, &total) ||
            !rg_words_next(&line, &available) || !rg_span_to_u64(total, &space.total_kib) ||
            !rg_span_to_u64(available, &space.free_kib)) {
            return false;
        }
        rg_words_copy(space.target, sizeof space.target, target);
        if (lustre->space_count == RG_HOST_LUSTRE_SPACE_MAX) {
            lustre->cut = true;
            return true;
        }
        lustre->space[lustre->space_count++] = space;
    }
    return true;
}

static void read_space(struct rg_source *source, struct rg_host_lustre *lustre)
{
    RG_BUF(text, 65536);
    rg_source_probe(source, "lustre/space", "kbytestotal and kbytesavail of every osc", tell_space,
                    NULL, SPACE_MS, &text, &lustre->space_at);
    if (rg_reading_ok(&lustre->space_at) && !rg_host_parse_space(rg_buf_span(&text), lustre)) {
        lustre->space_at.state = RG_READ_MALFORMED;
    }
}

/* ---- Servers ---- */

static void read_recovery(struct rg_source *source, struct rg_host_lustre *lustre)
{
    static const char *const kinds[] = {"mdt", "obdfilter"};
    for (size_t i = 0; i < 2 * RG_ARRAY_LENGTH(kinds); i++) {
        RG_CLEANUP(rg_names_free) struct rg_names names = {0};
        const char *root = roots[i / RG_ARRAY_LENGTH(kinds)];
        const char *kind = kinds[i % RG_ARRAY_LENGTH(kinds)];
        rg_source_list(source, &names, "%s/%s", root, kind);
        for (size_t k = 0; k < names.count; k++) {
            RG_BUF(text, IMPORT_BYTES);
            struct rg_host_lustre_recovery *entry = &lustre->recovery[lustre->recovery_count];
            if (!strchr(names.name[k], '-') ||
                lustre->recovery_count == RG_HOST_LUSTRE_RECOVER_MAX) {
                continue;
            }
            rg_source_read(source, &text, &entry->at, "%s/%s/%.120s/recovery_status", root, kind,
                           names.name[k]);
            if (entry->at.state == RG_READ_MISSING) {
                continue;
            }
            if (rg_reading_ok(&entry->at) &&
                !rg_lustre_recovery_parse(rg_buf_span(&text), &entry->recovery)) {
                entry->at.state = RG_READ_MALFORMED;
            }
            rg_words_copy(entry->target, sizeof entry->target, rg_span_text(names.name[k]));
            lustre->recovery_count++;
        }
    }
}

static void read_zfs(struct rg_source *source, struct rg_host_facts *facts)
{
    static const char *const argv[] = {
        "zfs", "get", "-H", "-s", "local", "-o", "name,property,value,source", "all", NULL};
    struct rg_host_lustre *lustre = &facts->lustre;
    RG_BUF(text, COMMAND_BYTES);
    if (rg_source_is_live(source) && !rg_source_exists(source, "/sys/module/zfs")) {
        return;
    }
    rg_source_command(source, "lustre/zfs", argv, COMMAND_MS, &text, &lustre->zfs_at);
    if (rg_reading_ok(&lustre->zfs_at)) {
        rg_lustre_zfs_parse(rg_buf_span(&text), &lustre->zfs);
        lustre->cut |= lustre->zfs.cut || lustre->zfs_at.truncated;
    }
}

/* A child a device. It only reads: --dryrun ends before it writes, and before it minds that the
 * target is mounted. */
static void read_disk(struct rg_source *source, struct rg_host_lustre_disk *entry)
{
    char name[RG_HOST_PATH_MAX + 1];
    const char *device = entry->disk.target.dataset;
    const char *const argv[] = {"tunefs.lustre", "--dryrun", device, NULL};
    RG_BUF(text, TUNEFS_BYTES);
    snprintf(name, sizeof name, "lustre/tunefs%s", device);
    for (char *at = name + strlen("lustre/"); *at; at++) {
        *at = *at == '/' ? '-' : *at;
    }
    rg_source_command(source, name, argv, COMMAND_MS, &text, &entry->at);
    if (rg_reading_ok(&entry->at) && !rg_lustre_tunefs_parse(rg_buf_span(&text), &entry->disk)) {
        entry->at.state = RG_READ_MALFORMED;
    }
}

static void read_disks(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_lustre *lustre = &facts->lustre;
    uint64_t deadline_ms = rg_clock_ms() + DISKS_MS;
    for (size_t i = 0; i < lustre->targets.count; i++) {
        const char *device = lustre->targets.mounts[i].source;
        struct rg_host_lustre_disk *entry = &lustre->disks[lustre->disk_count];
        if (device[0] != '/') {
            continue; /* a dataset of ZFS */
        }
        if (lustre->disk_count == RG_HOST_LUSTRE_DISKS_MAX ||
            strlen(device) >= sizeof entry->disk.target.dataset) {
            lustre->disks_left++;
            continue;
        }
        snprintf(entry->disk.target.dataset, sizeof entry->disk.target.dataset, "%s", device);
        lustre->disk_count++;
        if (!rg_source_is_live(source) || rg_clock_ms() < deadline_ms) {
            read_disk(source, entry);
        }
    }
}

/* "lmcfs-OST0000" belongs to lmcfs. */
static bool fsname_of(const char *svname, char ret_fsname[RG_LUSTRE_NAME_MAX + 1])
{
    const char *dash = strrchr(svname, '-');
    if (!dash || dash == svname || dash - svname > RG_LUSTRE_NAME_MAX) {
        return false;
    }
    return rg_words_copy(ret_fsname, RG_LUSTRE_NAME_MAX + 1,
                         rg_span(svname, (size_t)(dash - svname)));
}

static void read_log(struct rg_source *source, struct rg_host_lustre *lustre)
{
    char log[RG_LUSTRE_NAME_MAX + 16];
    RG_BUF(text, COMMAND_BYTES);
    for (size_t i = 0; i < lustre->zfs.count && !lustre->log_fsname[0]; i++) {
        (void)fsname_of(lustre->zfs.targets[i].svname, lustre->log_fsname);
    }
    for (size_t i = 0; i < lustre->disk_count && !lustre->log_fsname[0]; i++) {
        (void)fsname_of(lustre->disks[i].disk.target.svname, lustre->log_fsname);
    }
    for (size_t i = 0; i < lustre->recovery_count && !lustre->log_fsname[0]; i++) {
        (void)fsname_of(lustre->recovery[i].target, lustre->log_fsname);
    }
    if (!lustre->is_mgs || !lustre->log_fsname[0]) {
        return;
    }
    snprintf(log, sizeof log, "%s-client", lustre->log_fsname);
    const char *const argv[] = {"lctl", "--device", "MGS", "llog_print", log, NULL};
    rg_source_command(source, "lustre/llog", argv, COMMAND_MS, &text, &lustre->log_at);
    if (rg_reading_ok(&lustre->log_at)) {
        rg_lustre_log_parse(rg_buf_span(&text), &lustre->log);
        lustre->cut |= lustre->log_at.truncated;
    }
}

bool rg_host_is_lustre_server(const struct rg_host_facts *facts)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    return lustre->targets.count || lustre->zfs.count || lustre->recovery_count || lustre->is_mgs;
}

void rg_host_read_lustre(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_lustre *lustre = &facts->lustre;
    read_mounts(source, facts);
    read_fstab(source, lustre);
    read_zfs(source, facts);
    read_disks(source, facts);
    if (!rg_source_exists(source, "/sys/fs/lustre") && lustre->mount_count == 0) {
        return;
    }
    rg_source_text(source, &lustre->version, "/sys/fs/lustre/version");
    rg_source_number(source, &lustre->dump_on_eviction, "/sys/fs/lustre/dump_on_eviction");
    rg_source_number(source, &lustre->dump_on_timeout, "/sys/fs/lustre/dump_on_timeout");
    read_kind(source, lustre, "mgc");
    read_kind(source, lustre, "mdc");
    read_kind(source, lustre, "osc");
    read_kind(source, lustre, "osp");
    read_space(source, lustre);
    read_recovery(source, lustre);
    lustre->is_mgs = rg_source_exists(source, "/sys/fs/lustre/mgs/MGS") ||
                     rg_source_exists(source, "/proc/fs/lustre/mgs/MGS");
    read_log(source, lustre);
}
