/*
 * Reads who services are and what nodes let in. See facts_access.h.
 */
#include "host/facts_access.h"

#include "base/attr.h"
#include "host/words.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TEXT_BYTES 65536
#define PROBE_MS   2500
#define LIST_BYTES 1024
#define LIST_NAME  "system.posix_acl_access"

#define READ_AND_WRITE 6u

/* The xattr's form, of linux/posix_acl_xattr.h: little-endian. */
#define LIST_VERSION 2u
#define LIST_HEAD    4
#define LIST_ENTRY   8

enum { TAG_USER = 0x02, TAG_OWNING_GROUP = 0x04, TAG_GROUP = 0x08, TAG_MASK = 0x10 };

/* ---- In children ---- */

static bool is_number(const char *text)
{
    return text[0] && text[strspn(text, "0123456789")] == '\0';
}

static const struct passwd *find_user(const char *name)
{
    uint64_t uid;
    errno = 0;
    const struct passwd *user = getpwnam(name);
    if (!user && is_number(name) && rg_span_to_u64(rg_span_text(name), &uid) && uid <= UINT32_MAX) {
        errno = 0;
        user = getpwuid((uid_t)uid);
    }
    return user;
}

static int tell_user(void *argument, int fd)
{
    gid_t gids[RG_HOST_GROUPS_MAX];
    int count = RG_HOST_GROUPS_MAX;
    RG_BUF(text, 4096);
    const struct passwd *user = find_user(argument);
    if (!user) {
        return errno ? errno : ENOENT;
    }
    if (getgrouplist(user->pw_name, user->pw_gid, gids, &count) < 0) {
        return E2BIG;
    }
    rg_buf_addf(&text, "%u", user->pw_uid);
    for (int i = 0; i < count; i++) {
        rg_buf_addf(&text, " %u", gids[i]);
    }
    struct span all = rg_buf_span(&text);
    return rg_probe_write(fd, all.ptr, all.len);
}

static int tell_group(void *argument, int fd)
{
    char text[32];
    errno = 0;
    const struct group *group = getgrnam(argument);
    if (!group) {
        return errno ? errno : ENOENT;
    }
    int len = snprintf(text, sizeof text, "%u", group->gr_gid);
    return rg_probe_write(fd, text, (size_t)len);
}

static uint32_t number_at(struct span bytes, size_t at, size_t size)
{
    uint32_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number |= (uint32_t)(unsigned char)bytes.ptr[at + i] << (8 * i);
    }
    return number;
}

bool rg_host_tell_access(struct span value, struct rg_buf *out)
{
    if (value.len < LIST_HEAD || (value.len - LIST_HEAD) % LIST_ENTRY != 0 ||
        number_at(value, 0, 4) != LIST_VERSION) {
        return false;
    }
    for (size_t at = LIST_HEAD; at < value.len; at += LIST_ENTRY) {
        uint32_t tag = number_at(value, at, 2), bits = number_at(value, at + 2, 2) & 7;
        uint32_t id = number_at(value, at + 4, 4);
        if (tag == TAG_USER || tag == TAG_GROUP) {
            rg_buf_addf(out, " %s:%u:%u", tag == TAG_USER ? "user" : "group", id, bits);
        } else if (tag == TAG_OWNING_GROUP || tag == TAG_MASK) {
            rg_buf_addf(out, " %s::%u", tag == TAG_MASK ? "mask" : "group", bits);
        }
        /* The owner's and the others' bits are the mode's. */
    }
    return true;
}

/* 0, or why the list cannot be known. */
static int add_access(const char *path, struct rg_buf *out)
{
    char value[LIST_BYTES];
    ssize_t len = getxattr(path, LIST_NAME, value, sizeof value);
    if (len < 0) {
        return errno == ENODATA || errno == EOPNOTSUPP ? 0 : errno;
    }
    return rg_host_tell_access(rg_span(value, (size_t)len), out) ? 0 : EPROTO;
}

static int tell_modes(void *argument, int fd)
{
    (void)argument;
    RG_BUF(text, TEXT_BYTES);
    rg_autoclosedir DIR *directory = opendir("/dev/infiniband");
    if (!directory) {
        return errno;
    }
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct stat st;
        char path[300];
        if ((strncmp(entry->d_name, "uverbs", 6) != 0 && strcmp(entry->d_name, "rdma_cm") != 0) ||
            fstatat(dirfd(directory), entry->d_name, &st, 0) < 0) {
            continue;
        }
        rg_buf_addf(&text, "%s %o %u %u", entry->d_name, st.st_mode & 07777, st.st_uid, st.st_gid);
        if (S_ISCHR(st.st_mode)) {
            rg_buf_addf(&text, " major::%u", major(st.st_rdev));
        }
        snprintf(path, sizeof path, "/dev/infiniband/%s", entry->d_name);
        int failure = add_access(path, &text);
        if (failure) {
            return failure;
        }
        rg_buf_add_char(&text, '\n');
    }
    struct span all = rg_buf_span(&text);
    return rg_probe_write(fd, all.ptr, all.len);
}

/* ---- Parsers ---- */

static bool take_octal(struct span word, uint32_t *ret_mode)
{
    uint32_t mode = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] < '0' || word.ptr[i] > '7' || mode > 07777) {
            return false;
        }
        mode = mode * 8 + (uint32_t)(word.ptr[i] - '0');
    }
    *ret_mode = mode;
    return word.len > 0;
}

static bool to_id(struct span word, uint32_t *ret_id)
{
    uint64_t number;
    if (!rg_span_to_u64(word, &number) || number > UINT32_MAX) {
        return false;
    }
    *ret_id = (uint32_t)number;
    return true;
}

static bool take_id(struct span *line, uint32_t *ret_id)
{
    struct span word;
    return rg_words_next(line, &word) && to_id(word, ret_id);
}

static bool take_entry(struct span word, struct rg_host_access *ret_entry)
{
    struct span tag = rg_span_cut(&word, ':');
    struct span id = word.ptr ? rg_span_cut(&word, ':') : RG_SPAN_EMPTY;
    struct rg_host_access entry = {0};
    if (!word.ptr || !take_octal(word, &entry.bits) || entry.bits > 7) {
        return false;
    }
    if (rg_span_is(tag, "mask") && id.len == 0) {
        entry.tag = RG_ACCESS_MASK;
    } else if (rg_span_is(tag, "group") && id.len == 0) {
        entry.tag = RG_ACCESS_OWNING_GROUP;
    } else if ((rg_span_is(tag, "user") || rg_span_is(tag, "group")) && to_id(id, &entry.id)) {
        entry.tag = rg_span_is(tag, "user") ? RG_ACCESS_USER : RG_ACCESS_GROUP;
    } else {
        return false;
    }
    *ret_entry = entry;
    return true;
}

/* "major::231"; false when it is something else. */
static bool take_major(struct span word, struct rg_host_mode *node)
{
    static const struct span title = {"major::", sizeof "major::" - 1};
    uint64_t number;
    if (!rg_span_starts(word, title) || !rg_span_to_u64(rg_span_skip(word, title.len), &number) ||
        number > 4095) {
        return false;
    }
    node->major = (int)number;
    return true;
}

static bool take_list(struct span line, struct rg_host_mode *node)
{
    struct span word;
    while (rg_words_next(&line, &word)) {
        if (take_major(word, node)) {
            continue;
        }
        if (node->list_count == RG_HOST_ACCESS_MAX ||
            !take_entry(word, &node->list[node->list_count])) {
            return false;
        }
        node->list_count++;
    }
    return true;
}

bool rg_host_parse_modes(struct span lines, struct rg_host_memory *memory)
{
    struct span line, name, mode;
    while (rg_words_line(&lines, &line)) {
        struct rg_host_mode node = {.major = -1};
        if (memory->mode_count == RG_HOST_MODES_MAX || !rg_words_next(&line, &name) ||
            !rg_words_next(&line, &mode) || !take_octal(mode, &node.mode) ||
            !take_id(&line, &node.uid) || !take_id(&line, &node.gid) || !take_list(line, &node)) {
            return false;
        }
        rg_words_copy(node.name, sizeof node.name, name);
        memory->modes[memory->mode_count++] = node;
    }
    return true;
}

static bool add_gid(struct rg_host_service *service, uint32_t gid)
{
    for (size_t i = 0; i < service->gid_count; i++) {
        if (service->gids[i] == gid) {
            return true;
        }
    }
    if (service->gid_count == RG_HOST_GROUPS_MAX) {
        return false;
    }
    service->gids[service->gid_count++] = gid;
    return true;
}

bool rg_host_parse_user(struct span line, struct rg_host_service *service)
{
    struct span rest = line;
    uint32_t gid;
    bool whole = rg_words_line(&rest, &line) && take_id(&line, &service->uid);
    while (whole && rg_span_trim(line).len) {
        whole = take_id(&line, &gid) && add_gid(service, gid);
    }
    return whole;
}

/* "Uid:\treal effective saved filesystem": the last is what opening a file is judged by. */
static bool take_fourth(struct span value, uint32_t *ret_id)
{
    for (unsigned i = 0; i < 4; i++) {
        if (!take_id(&value, ret_id)) {
            return false;
        }
    }
    return true;
}

static bool take_groups(struct span value, struct rg_host_service *service)
{
    uint32_t gid;
    while (rg_span_trim(value).len) {
        if (!take_id(&value, &gid) || !add_gid(service, gid)) {
            return false;
        }
    }
    return true;
}

bool rg_host_parse_identity(struct span text, struct rg_host_service *service)
{
    struct rg_host_service found = *service;
    struct span rest = text, line, name, value;
    uint64_t effective;
    uint32_t gid;
    unsigned seen = 0;
    found.gid_count = 0;
    while (rg_words_line(&rest, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        seen |= rg_span_is(name, "Uid") && take_fourth(value, &found.uid) ? 1u : 0u;
        seen |=
            rg_span_is(name, "Gid") && take_fourth(value, &gid) && add_gid(&found, gid) ? 2u : 0u;
        seen |= rg_span_is(name, "Groups") && take_groups(value, &found) ? 4u : 0u;
    }
    if (seen != 7 || !rg_capabilities_parse(text, &effective)) {
        return false;
    }
    found.overrides = effective >> RG_CAPABILITY_DAC_OVERRIDE & 1;
    *service = found;
    return true;
}

/* ---- Judging one node ---- */

static bool is_member(const struct rg_host_service *service, uint32_t gid)
{
    for (size_t i = 0; i < service->gid_count; i++) {
        if (service->gids[i] == gid) {
            return true;
        }
    }
    return false;
}

static bool lets_in(uint32_t bits)
{
    return (bits & READ_AND_WRITE) == READ_AND_WRITE;
}

bool rg_host_service_may_open(const struct rg_host_service *service,
                              const struct rg_host_mode *node)
{
    uint32_t mask = 7;
    bool lists_owning = false, is_grouped = false, group_may = false;
    if (service->uid == 0 || service->overrides) {
        return true;
    }
    if (service->uid == node->uid) {
        return lets_in(node->mode >> 6);
    }
    for (size_t i = 0; i < node->list_count; i++) {
        mask = node->list[i].tag == RG_ACCESS_MASK ? node->list[i].bits : mask;
        lists_owning |= node->list[i].tag == RG_ACCESS_OWNING_GROUP;
    }
    for (size_t i = 0; i < node->list_count; i++) {
        if (node->list[i].tag == RG_ACCESS_USER && node->list[i].id == service->uid) {
            return lets_in(node->list[i].bits & mask);
        }
    }
    for (size_t i = 0; i < node->list_count; i++) {
        const struct rg_host_access *entry = &node->list[i];
        bool matches = (entry->tag == RG_ACCESS_GROUP && is_member(service, entry->id)) ||
                       (entry->tag == RG_ACCESS_OWNING_GROUP && is_member(service, node->gid));
        is_grouped |= matches;
        group_may |= matches && lets_in(entry->bits & mask);
    }
    if (!lists_owning && is_member(service, node->gid)) {
        is_grouped = true;
        group_may |= lets_in(node->mode >> 3);
    }
    return is_grouped ? group_may : lets_in(node->mode);
}

/* ---- Reading ---- */

static bool read_identity(struct rg_source *source, struct rg_host_service *service)
{
    RG_BUF(text, TEXT_BYTES);
    struct rg_reading at;
    if (service->pid == 0) {
        return false;
    }
    rg_source_read(source, &text, &at, "/proc/%u/status", service->pid);
    if (!rg_reading_ok(&at) || !rg_host_parse_identity(rg_buf_span(&text), service)) {
        return false;
    }
    service->user_at = at;
    return true;
}

/* By name or number. */
static bool read_group(struct rg_source *source, struct span word, struct rg_host_service *service)
{
    char group[128], name[160];
    uint32_t gid;
    RG_BUF(text, 64);
    if (!to_id(word, &gid)) {
        if (!rg_words_copy(group, sizeof group, word) || strpbrk(group, "/%")) {
            service->user_at.state = RG_READ_MALFORMED;
            return false;
        }
        snprintf(name, sizeof name, "groups/%s", group);
        rg_source_probe(source, name, "the unit's Group= and SupplementaryGroups=", tell_group,
                        group, PROBE_MS, &text, &service->user_at);
        if (!rg_reading_ok(&service->user_at)) {
            return false;
        }
        if (!to_id(rg_words_bare(rg_buf_span(&text)), &gid)) {
            service->user_at.state = RG_READ_MALFORMED;
            return false;
        }
    }
    if (!add_gid(service, gid)) {
        service->user_at.state = RG_READ_MALFORMED;
        return false;
    }
    return true;
}

static bool read_name(struct rg_source *source, struct rg_host_service *service)
{
    char name[300];
    RG_BUF(text, 4096);
    if (service->parsed.dynamic_user) {
        service->uid = UINT32_MAX; /* of nobody else */
        return true;
    }
    snprintf(name, sizeof name, "users/%.100s", service->parsed.user);
    rg_source_probe(source, name, "the user of the unit's User=", tell_user, service->parsed.user,
                    PROBE_MS, &text, &service->user_at);
    if (rg_reading_ok(&service->user_at) && !rg_host_parse_user(rg_buf_span(&text), service)) {
        service->user_at.state = RG_READ_MALFORMED;
    }
    return rg_reading_ok(&service->user_at);
}

void rg_host_read_user(struct rg_source *source, struct rg_host_service *service)
{
    const struct rg_unit *unit = &service->parsed;
    struct span rest = rg_span_text(unit->groups), word;
    if (!rg_reading_ok(&service->unit_at) || read_identity(source, service) ||
        (!unit->dynamic_user &&
         (!unit->user[0] || strcmp(unit->user, "root") == 0 || strcmp(unit->user, "0") == 0))) {
        return;
    }
    service->user_at = (struct rg_reading){.state = RG_READ_OK};
    snprintf(service->user_at.path, sizeof service->user_at.path, "User= of %s", service->unit);
    service->overrides = unit->dac_override;
    if (strpbrk(unit->user, "/%") || unit->groups_cut) {
        /* "%i" and the like: systemd knows, the file does not. */
        service->user_at.state = RG_READ_MALFORMED;
        return;
    }
    if (!read_name(source, service) ||
        (unit->group[0] && !read_group(source, rg_span_text(unit->group), service))) {
        return;
    }
    while (rg_words_next(&rest, &word)) {
        if (!read_group(source, word, service)) {
            return;
        }
    }
}

void rg_host_read_modes(struct rg_source *source, struct rg_host_memory *memory)
{
    RG_BUF(text, TEXT_BYTES);
    rg_source_probe(source, "dev/infiniband-modes", "getfacl -n /dev/infiniband/*", tell_modes,
                    NULL, PROBE_MS, &text, &memory->modes_at);
    if (rg_reading_ok(&memory->modes_at) && !rg_host_parse_modes(rg_buf_span(&text), memory)) {
        memory->modes_at.state = RG_READ_MALFORMED;
    }
}
