/*
 * Lustre's texts. See lustre_text.h.
 */
#include "host/lustre_text.h"

#include "base/checked.h"
#include "host/words.h"

#include <string.h>

static struct span without_suffix(struct span name, const char *suffix)
{
    struct span end = rg_span_text(suffix);
    return rg_span_ends(name, end) ? rg_span_head(name, name.len - end.len) : name;
}

static void copy_target(char ret_target[RG_LUSTRE_TARGET_MAX + 1], struct span name)
{
    rg_words_copy(ret_target, RG_LUSTRE_TARGET_MAX + 1, without_suffix(name, "_UUID"));
}

/* ---- A client's connections ---- */

/* "[ 10.0.0.1@tcp, 10.0.0.2@tcp ]" */
static struct span inside_brackets(struct span text)
{
    text = rg_words_bare(text);
    if (text.len >= 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']') {
        text = rg_span(text.ptr + 1, text.len - 2);
    }
    return text;
}

static void add_quoted_nids(struct rg_nid_list *list, struct span text)
{
    text = inside_brackets(text);
    while (text.ptr) {
        struct span part = rg_words_bare(rg_span_cut(&text, ','));
        if (part.len) {
            rg_nid_list_add(list, part);
        }
    }
}

bool rg_lustre_import_parse(struct span text, struct rg_lustre_import *ret_import)
{
    struct span line, name, value;
    memset(ret_import, 0, sizeof *ret_import);
    while (rg_words_line(&text, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        value = rg_words_bare(value);
        if (rg_span_is(name, "target")) {
            copy_target(ret_import->target, value);
        } else if (rg_span_is(name, "state") && ret_import->state[0] == '\0') {
            rg_words_copy(ret_import->state, sizeof ret_import->state, value);
        } else if (rg_span_is(name, "target_version")) {
            rg_words_copy(ret_import->version, sizeof ret_import->version, value);
        } else if (rg_span_is(name, "current_connection")) {
            rg_words_copy(ret_import->connection, sizeof ret_import->connection, value);
        } else if (rg_span_is(name, "failover_nids")) {
            add_quoted_nids(&ret_import->nids, value);
        } else if (rg_span_is(name, "import_flags")) {
            ret_import->deactivated |= rg_words_has(inside_brackets(value), ',', "deactive");
        }
    }
    return ret_import->state[0] != '\0';
}

bool rg_lustre_uuid_parse(struct span text, struct rg_lustre_import *ret_import)
{
    struct span line, target, state, more;
    memset(ret_import, 0, sizeof *ret_import);
    if (!rg_words_line(&text, &line) || !rg_words_next(&line, &target) ||
        !rg_words_next(&line, &state)) {
        return false;
    }
    copy_target(ret_import->target, target);
    rg_words_copy(ret_import->state, sizeof ret_import->state, state);
    ret_import->deactivated = rg_words_next(&line, &more) && rg_span_is(more, "DEACTIVATED");
    return true;
}

bool rg_lustre_import_is_well(const struct rg_lustre_import *import)
{
    return !import->deactivated &&
           (strcmp(import->state, "FULL") == 0 || strcmp(import->state, "IDLE") == 0);
}

/* ---- Layout; structures of lustre_user.h, little-endian ---- */

#define LOV_V1         0x0bd10bd0u
#define LOV_V3         0x0bd30bd0u
#define LOV_FOREIGN    0x0bd70bd0u
#define LOV_COMPOSITE  0x0bd60bd0u
#define PATTERN_MDT    0x100u
#define LOV_HEAD       32
#define COMPOSITE_HEAD 32
#define ENTRY_BYTES    48

static uint64_t read_number(struct span bytes, size_t at, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number |= (uint64_t)(unsigned char)bytes.ptr[at + i] << (8 * i);
    }
    return number;
}

static bool parse_component(struct span blob, struct rg_lustre_layout *layout, uint64_t begin,
                            uint64_t end)
{
    if (blob.len < LOV_HEAD) {
        return false;
    }
    uint32_t magic = (uint32_t)read_number(blob, 0, 4);
    if (magic != LOV_V1 && magic != LOV_V3) {
        return false;
    }
    if (layout->component_count == RG_LUSTRE_COMPONENTS_MAX) {
        layout->cut = true;
        return true;
    }
    size_t at = layout->component_count++;
    bool on_mdt = read_number(blob, 4, 4) & PATTERN_MDT;
    layout->components[at].begin = begin;
    layout->components[at].end = end;
    layout->components[at].stripe_size = (uint32_t)read_number(blob, 24, 4);
    layout->components[at].stripe_count = (uint16_t)read_number(blob, 28, 2);
    layout->components[at].on_mdt = on_mdt;
    layout->on_mdt |= on_mdt;
    return true;
}

bool rg_lustre_layout_parse(struct span bytes, struct rg_lustre_layout *ret_layout)
{
    memset(ret_layout, 0, sizeof *ret_layout);
    if (bytes.len < COMPOSITE_HEAD || read_number(bytes, 0, 4) == LOV_FOREIGN) {
        return false;
    }
    if (read_number(bytes, 0, 4) != LOV_COMPOSITE) {
        return parse_component(bytes, ret_layout, 0, UINT64_MAX);
    }
    ret_layout->composite = true;
    size_t entries = (size_t)read_number(bytes, 14, 2);
    for (size_t i = 0; i < entries; i++) {
        size_t at = COMPOSITE_HEAD + i * ENTRY_BYTES;
        if (at + ENTRY_BYTES > bytes.len) {
            return false;
        }
        uint64_t begin = read_number(bytes, at + 8, 8), end = read_number(bytes, at + 16, 8);
        size_t offset = (size_t)read_number(bytes, at + 24, 4);
        size_t size = (size_t)read_number(bytes, at + 28, 4);
        if (offset > bytes.len || size > bytes.len - offset ||
            !parse_component(rg_span(bytes.ptr + offset, size), ret_layout, begin, end)) {
            return false;
        }
    }
    return ret_layout->component_count > 0;
}

/* ---- ZFS ---- */

static struct rg_lustre_zfs_target *target_of(struct rg_lustre_zfs *zfs, struct span dataset)
{
    for (size_t i = 0; i < zfs->count; i++) {
        if (rg_span_is(dataset, zfs->targets[i].dataset)) {
            return &zfs->targets[i];
        }
    }
    if (zfs->count == RG_LUSTRE_ZFS_MAX) {
        zfs->cut = true;
        return NULL;
    }
    struct rg_lustre_zfs_target *target = &zfs->targets[zfs->count];
    memset(target, 0, sizeof *target);
    if (!rg_words_copy(target->dataset, sizeof target->dataset, dataset)) {
        zfs->cut = true;
        return NULL;
    }
    zfs->count++;
    return target;
}

void rg_lustre_zfs_parse(struct span text, struct rg_lustre_zfs *ret_zfs)
{
    static const struct span prefix = {"lustre:", sizeof "lustre:" - 1};
    struct span line;
    ret_zfs->count = 0;
    ret_zfs->cut = false;
    while (rg_words_line(&text, &line)) {
        struct span dataset = rg_span_cut(&line, '\t');
        struct span property = line.ptr ? rg_span_cut(&line, '\t') : RG_SPAN_EMPTY;
        struct span value = line.ptr ? rg_span_cut(&line, '\t') : RG_SPAN_EMPTY;
        if (dataset.len == 0 || !rg_span_starts(property, prefix) || rg_span_is(value, "-")) {
            continue;
        }
        struct rg_lustre_zfs_target *target = target_of(ret_zfs, dataset);
        property = rg_span_skip(property, prefix.len);
        if (!target) {
            continue;
        }
        if (rg_span_is(property, "mgsnode")) {
            rg_nid_list_add(&target->mgs, value);
        } else if (rg_span_is(property, "failover.node")) {
            rg_nid_list_add(&target->failover, value);
        } else if (rg_span_is(property, "svname")) {
            rg_words_copy(target->svname, sizeof target->svname, value);
        } else if (rg_span_is(property, "flags")) {
            target->has_flags = rg_span_to_u64(value, &target->flags);
        }
    }
}

/* Before it has registered a target is "lmcfs:OST0000", after --writeconf "lmcfs=OST0000". */
static void copy_svname(char ret_svname[RG_LUSTRE_TARGET_MAX + 1], struct span value)
{
    rg_words_copy(ret_svname, RG_LUSTRE_TARGET_MAX + 1, value);
    for (char *at = ret_svname; *at; at++) {
        *at = *at == ':' || *at == '=' ? '-' : *at;
    }
}

/* They go back onto a command line. */
static bool is_plain_parameter(struct span word)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_.-=@:,/+%*[]";
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == '\0' || !strchr(allowed, word.ptr[i])) {
            return false;
        }
    }
    return rg_span_find(word, '=') > 0;
}

static void add_other(struct rg_lustre_disk *disk, struct span word)
{
    size_t used = strlen(disk->others);
    if (!is_plain_parameter(word) || used + 1 + word.len >= sizeof disk->others) {
        disk->others_cut = true;
        return;
    }
    if (used) {
        disk->others[used++] = ' ';
    }
    rg_words_copy(disk->others + used, sizeof disk->others - used, word);
}

static void take_parameters(struct rg_lustre_disk *disk, struct span text)
{
    static const struct span mgs = {"mgsnode=", sizeof "mgsnode=" - 1};
    static const struct span failover = {"failover.node=", sizeof "failover.node=" - 1};
    struct span word;
    while (rg_words_next(&text, &word)) {
        if (rg_span_starts(word, mgs)) {
            rg_nid_list_add(&disk->target.mgs, rg_span_skip(word, mgs.len));
            continue;
        }
        if (rg_span_starts(word, failover)) {
            rg_nid_list_add(&disk->target.failover, rg_span_skip(word, failover.len));
        }
        add_other(disk, word);
    }
}

bool rg_lustre_tunefs_parse(struct span text, struct rg_lustre_disk *disk)
{
    struct span line, name, value;
    bool begun = false;
    while (rg_words_line(&text, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        if (rg_span_is(name, "Target")) {
            if (begun) {
                break; /* "Permanent disk data" */
            }
            begun = value.len > 0;
            copy_svname(disk->target.svname, value);
        } else if (!begun) {
            continue;
        } else if (rg_span_is(name, "Lustre FS")) {
            rg_words_copy(disk->fsname, sizeof disk->fsname, value);
        } else if (rg_span_is(name, "Mount type")) {
            rg_words_copy(disk->kind, sizeof disk->kind, value);
        } else if (rg_span_is(name, "Flags")) {
            disk->target.has_flags = rg_words_number(value, &disk->target.flags);
        } else if (rg_span_is(name, "Parameters")) {
            take_parameters(disk, value);
        }
    }
    return begun;
}

int rg_lustre_target_index(const char *target)
{
    const char *at = strrchr(target, '-');
    uint64_t index;
    char hex[8] = "0x";
    if (!at || strlen(at) != 8 ||
        (memcmp(at + 1, "MDT", 3) != 0 && memcmp(at + 1, "OST", 3) != 0)) {
        return -1;
    }
    memcpy(hex + 2, at + 4, 5);
    return rg_words_number(rg_span_text(hex), &index) ? (int)index : -1;
}

/* ---- Configuration log ---- */

static bool contains(struct span text, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = 0; i + len <= text.len; i++) {
        if (memcmp(text.ptr + i, part, len) == 0) {
            return true;
        }
    }
    return false;
}

/* What follows `name` up to a byte that ends a value; the number in brackets is left out. */
static bool field(struct span line, const char *name, struct span *ret_value)
{
    size_t len = strlen(name);
    for (size_t i = 0; i + len <= line.len; i++) {
        bool begins = i == 0 || line.ptr[i - 1] == ' ' || line.ptr[i - 1] == '\t' ||
                      line.ptr[i - 1] == ',' || line.ptr[i - 1] == '{';
        if (!begins || memcmp(line.ptr + i, name, len) != 0) {
            continue;
        }
        struct span value = rg_span_trim(rg_span_skip(line, i + len));
        size_t end = 0;
        while (end < value.len && !strchr(" \t,}(", value.ptr[end])) {
            end++;
        }
        *ret_value = rg_span_head(value, end);
        return end > 0;
    }
    return false;
}

void rg_lustre_log_parse(struct span text, struct rg_lustre_log *ret_log)
{
    struct span line, value;
    memset(ret_log, 0, sizeof *ret_log);
    while (rg_words_line(&text, &line)) {
        if (rg_span_has_nul(line) || line.len == 0 || (line.ptr[0] != '-' && line.ptr[0] != '#')) {
            continue;
        }
        ret_log->records++;
        bool skipped = contains(line, "SKIP");
        bool names_peer = contains(line, "add_uuid") || contains(line, "add_conn");
        if (skipped || !names_peer) {
            continue;
        }
        if (field(line, "nid:", &value) || field(line, "nid=", &value)) {
            if (rg_span_find(value, '@') > 0) {
                rg_nid_list_add(&ret_log->nids, value);
            }
        } else if (field(line, "node:", &value) && rg_span_find(value, '@') > 0) {
            rg_nid_list_add(&ret_log->nids, value);
        }
    }
}

/* ---- Versions, recovery ---- */

bool rg_lustre_version_parse(struct span text, unsigned ret_version[3])
{
    size_t at = 0;
    unsigned numbers[3] = {0};
    while (at < text.len && (text.ptr[at] < '0' || text.ptr[at] > '9')) {
        at++;
    }
    if (at == text.len) {
        return false;
    }
    for (size_t part = 0; part < 3 && at < text.len; part++) {
        unsigned digits = 0;
        for (; at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9' && digits < 6;
             digits++) {
            numbers[part] = numbers[part] * 10 + (unsigned)(text.ptr[at++] - '0');
        }
        if (digits == 0 || at == text.len || text.ptr[at] != '.') {
            break;
        }
        at++;
    }
    memcpy(ret_version, numbers, sizeof numbers);
    return true;
}

static void parse_fraction(struct span value, struct rg_lustre_recovery *recovery)
{
    struct span some, all;
    uint64_t connected, clients;
    if (rg_words_pair(value, '/', &some, &all) && rg_span_to_u64(some, &connected) &&
        rg_span_to_u64(all, &clients)) {
        recovery->connected = connected;
        recovery->clients = clients;
    }
}

bool rg_lustre_recovery_parse(struct span text, struct rg_lustre_recovery *ret_recovery)
{
    struct span line, name, value;
    memset(ret_recovery, 0, sizeof *ret_recovery);
    while (rg_words_line(&text, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        if (rg_span_is(name, "status")) {
            rg_words_copy(ret_recovery->status, sizeof ret_recovery->status, value);
        } else if (rg_span_is(name, "connected_clients") || rg_span_is(name, "completed_clients")) {
            parse_fraction(value, ret_recovery);
        } else if (rg_span_is(name, "time_remaining")) {
            rg_span_to_u64(value, &ret_recovery->remaining_s);
        }
    }
    return ret_recovery->status[0] != '\0';
}
