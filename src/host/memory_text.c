/*
 * Texts about memory, limits and services. See memory_text.h.
 */
#include "host/memory_text.h"

#include "base/checked.h"

#include <string.h>

bool rg_limit_locked_parse(struct span text, uint64_t *ret_soft, uint64_t *ret_hard)
{
    static const struct span title = {"Max locked memory", sizeof "Max locked memory" - 1};
    struct span line, soft, hard;
    while (rg_words_line(&text, &line)) {
        if (!rg_span_starts(line, title)) {
            continue;
        }
        struct span rest = rg_span_skip(line, title.len);
        return rg_words_next(&rest, &soft) && rg_words_next(&rest, &hard) &&
               rg_words_bytes(soft, ret_soft) && rg_words_bytes(hard, ret_hard);
    }
    return false;
}

/* ---- systemd units ---- */

static void set_memlock(struct rg_unit *unit, struct span value)
{
    struct span soft, hard;
    uint64_t low, high;
    if (value.len == 0) {
        unit->has_memlock = false;
        unit->bad_memlock = false;
        return;
    }
    if (!rg_words_pair(value, ':', &soft, &hard)) {
        soft = hard = value;
    }
    if (!rg_words_bytes(soft, &low) || !rg_words_bytes(hard, &high) || low > high) {
        unit->bad_memlock = true;
        return;
    }
    unit->has_memlock = true;
    unit->bad_memlock = false;
    unit->memlock_soft = low;
    unit->memlock_hard = high;
}

static void set_exec(struct rg_unit *unit, struct span value)
{
    unit->exec_optional = false;
    if (value.len == 0) {
        unit->exec[0] = '\0';
        return;
    }
    while (value.len && strchr("-@:+!|", value.ptr[0])) {
        unit->exec_optional |= value.ptr[0] == '-';
        value = rg_span_skip(value, 1);
    }
    struct span program;
    if (unit->exec[0] == '\0' && rg_words_next(&value, &program)) {
        rg_words_copy(unit->exec, sizeof unit->exec, rg_words_bare(program));
    }
}

static void add_environment_file(struct rg_unit *unit, struct span value)
{
    if (value.len == 0) {
        unit->environment_file_count = 0;
        return;
    }
    bool optional = value.ptr[0] == '-';
    if (unit->environment_file_count == RG_UNIT_FILES_MAX) {
        return;
    }
    size_t at = unit->environment_file_count++;
    unit->environment_files[at].optional = optional;
    rg_words_copy(unit->environment_files[at].path, sizeof unit->environment_files[at].path,
                  rg_words_bare(optional ? rg_span_skip(value, 1) : value));
}

static bool is_yes(struct span value)
{
    return rg_span_is_nocase(value, "yes") || rg_span_is_nocase(value, "true") ||
           rg_span_is_nocase(value, "on") || rg_span_is(value, "1");
}

static void add_groups(struct rg_unit *unit, struct span value)
{
    size_t used = strlen(unit->groups);
    if (value.len == 0) {
        unit->groups[0] = '\0';
        unit->groups_cut = false;
        return;
    }
    if (used + 1 + value.len >= sizeof unit->groups) {
        unit->groups_cut = true;
        return;
    }
    if (used) {
        unit->groups[used++] = ' ';
    }
    rg_words_copy(unit->groups + used, sizeof unit->groups - used, value);
}

/* "~" before the list means all but these. */
static void set_capabilities(struct rg_unit *unit, struct span value)
{
    if (value.len == 0) {
        unit->dac_override = unit->may_lock = false;
        return;
    }
    bool inverted = value.ptr[0] == '~';
    struct span word, list = inverted ? rg_span_skip(value, 1) : value;
    bool overrides = false, locks = false;
    while (rg_words_next(&list, &word)) {
        overrides |= rg_span_is_nocase(word, "CAP_DAC_OVERRIDE");
        locks |= rg_span_is_nocase(word, "CAP_IPC_LOCK");
    }
    unit->dac_override = inverted ? !overrides : unit->dac_override || overrides;
    unit->may_lock = inverted ? !locks : unit->may_lock || locks;
}

/* As systemd merges several: what is listed is added, or taken away with "~", but for the first and
 * for an empty list, which say all of it. */
static void set_bounds(struct rg_unit *unit, struct span value)
{
    bool inverted = value.len && value.ptr[0] == '~';
    struct span word, list = inverted ? rg_span_skip(value, 1) : value;
    bool locks = false, any = false;
    while (rg_words_next(&list, &word)) {
        locks |= rg_span_is_nocase(word, "CAP_IPC_LOCK");
        any = true;
    }
    bool afresh = !unit->is_bounded || !any;
    unit->bound_has_lock = inverted ? (afresh || unit->bound_has_lock) && !locks
                                    : (!afresh && unit->bound_has_lock) || locks;
    unit->is_bounded = any || !inverted;
}

static void set_device_policy(struct rg_unit *unit, struct span value)
{
    if (rg_span_is(value, "closed")) {
        unit->device_policy = RG_UNIT_DEVICES_CLOSED;
    } else if (rg_span_is(value, "strict")) {
        unit->device_policy = RG_UNIT_DEVICES_STRICT;
    } else if (rg_span_is(value, "auto") || value.len == 0) {
        unit->device_policy = RG_UNIT_DEVICES_AUTO;
    }
}

static void add_device(struct rg_unit *unit, struct span value)
{
    struct span node, access = RG_SPAN_LITERAL("rwm");
    if (value.len == 0) {
        unit->device_count = 0;
        unit->devices_cut = false;
        return;
    }
    if (!rg_words_next(&value, &node)) {
        return;
    }
    (void)rg_words_next(&value, &access);
    struct rg_unit_device device = {.may_read = memchr(access.ptr, 'r', access.len) != NULL,
                                    .may_write = memchr(access.ptr, 'w', access.len) != NULL};
    if (unit->device_count == RG_UNIT_DEVICES_MAX ||
        !rg_words_copy(device.node, sizeof device.node, rg_words_bare(node))) {
        unit->devices_cut = true;
        return;
    }
    unit->devices[unit->device_count++] = device;
}

static void set_order(struct rg_unit *unit, struct span value)
{
    unit->after_lnet |= rg_words_has(value, ' ', "lnet.service");
    unit->after_network |=
        rg_words_has(value, ' ', "network-online.target") ||
        rg_words_has(value, ' ', "network.target") || rg_words_has(value, ' ', "rdma.service") ||
        rg_words_has(value, ' ', "openibd.service") || rg_words_has(value, ' ', "rdma-hw.target");
}

void rg_unit_parse(struct span text, struct rg_unit *unit)
{
    bool in_service = false, in_unit = false;
    struct span line, name, value;
    while (rg_words_line(&text, &line)) {
        line = rg_span_trim(line);
        if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';') {
            continue;
        }
        if (line.ptr[0] == '[') {
            in_service = rg_span_is(line, "[Service]");
            in_unit = rg_span_is(line, "[Unit]");
            continue;
        }
        if (!rg_words_pair(line, '=', &name, &value)) {
            continue;
        }
        if (in_service && rg_span_is(name, "LimitMEMLOCK")) {
            set_memlock(unit, value);
        } else if (in_service && rg_span_is(name, "User")) {
            rg_words_copy(unit->user, sizeof unit->user, value);
        } else if (in_service && rg_span_is(name, "ExecStart")) {
            set_exec(unit, value);
        } else if (in_service && rg_span_is(name, "EnvironmentFile")) {
            add_environment_file(unit, value);
        } else if (in_service && rg_span_is(name, "PrivateDevices")) {
            unit->private_devices = is_yes(value);
        } else if (in_service && rg_span_is(name, "DevicePolicy")) {
            set_device_policy(unit, value);
        } else if (in_service && rg_span_is(name, "DeviceAllow")) {
            add_device(unit, value);
        } else if (in_service && rg_span_is(name, "Group")) {
            rg_words_copy(unit->group, sizeof unit->group, value);
        } else if (in_service && rg_span_is(name, "SupplementaryGroups")) {
            add_groups(unit, value);
        } else if (in_service && rg_span_is(name, "DynamicUser")) {
            unit->dynamic_user = is_yes(value);
        } else if (in_service && rg_span_is(name, "AmbientCapabilities")) {
            set_capabilities(unit, value);
        } else if (in_service && rg_span_is(name, "CapabilityBoundingSet")) {
            set_bounds(unit, value);
        } else if (in_unit && (rg_span_is(name, "After") || rg_span_is(name, "Requires") ||
                               rg_span_is(name, "Wants") || rg_span_is(name, "BindsTo"))) {
            set_order(unit, value);
        }
    }
}

/* ---- /proc/meminfo ---- */

static bool kilobytes(struct span value, uint64_t *ret_bytes)
{
    struct span number;
    uint64_t count;
    return rg_words_next(&value, &number) && rg_span_to_u64(number, &count) &&
           rg_mul_checked(count, (uint64_t)1024, ret_bytes);
}

void rg_meminfo_parse(struct span text, struct rg_meminfo *ret_memory)
{
    struct span line, name, value;
    *ret_memory = (struct rg_meminfo){0};
    while (rg_words_line(&text, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        if (rg_span_is(name, "MemTotal")) {
            ret_memory->known = kilobytes(value, &ret_memory->total_bytes);
        } else if (rg_span_is(name, "MemAvailable")) {
            kilobytes(value, &ret_memory->available_bytes);
        } else if (rg_span_is(name, "HugePages_Total")) {
            rg_span_to_u64(value, &ret_memory->huge_total);
        } else if (rg_span_is(name, "HugePages_Free")) {
            rg_span_to_u64(value, &ret_memory->huge_free);
        } else if (rg_span_is(name, "Hugepagesize")) {
            kilobytes(value, &ret_memory->huge_page_bytes);
        }
    }
}

/* ---- Control groups ---- */

bool rg_cgroup_path_parse(struct span text, const char *controller, char *ret_path, size_t room)
{
    struct span line;
    while (rg_words_line(&text, &line)) {
        struct span rest = line;
        rg_span_cut(&rest, ':');
        if (!rest.ptr) {
            continue;
        }
        struct span controllers = rg_span_cut(&rest, ':');
        if (!rest.ptr || rest.len == 0 || rest.ptr[0] != '/') {
            continue;
        }
        if (controller ? rg_words_has(controllers, ',', controller) : controllers.len == 0) {
            return rg_words_copy(ret_path, room, rest);
        }
    }
    return false;
}

bool rg_rdma_cgroup_parse(struct span text, const char *device, uint64_t *ret_handles,
                          uint64_t *ret_objects)
{
    struct span line, word, name, value;
    while (rg_words_line(&text, &line)) {
        if (!rg_words_next(&line, &word) || !rg_span_is(word, device)) {
            continue;
        }
        uint64_t handles = RG_WORDS_UNLIMITED, objects = RG_WORDS_UNLIMITED;
        while (rg_words_next(&line, &word)) {
            if (!rg_words_pair(word, '=', &name, &value)) {
                return false;
            }
            if (rg_span_is(name, "hca_handle") && !rg_words_bytes(value, &handles)) {
                return false;
            }
            if (rg_span_is(name, "hca_object") && !rg_words_bytes(value, &objects)) {
                return false;
            }
        }
        *ret_handles = handles;
        *ret_objects = objects;
        return true;
    }
    return false;
}

bool rg_capabilities_parse(struct span text, uint64_t *ret_effective)
{
    struct span line, name, value;
    while (rg_words_line(&text, &line)) {
        if (rg_words_pair(line, ':', &name, &value) && rg_span_is(name, "CapEff")) {
            char hex[2 + 16 + 1] = "0x";
            return value.len <= 16 && value.len > 0 &&
                   rg_words_copy(hex + 2, sizeof hex - 2, value) &&
                   rg_words_number(rg_span_text(hex), ret_effective);
        }
    }
    return false;
}
