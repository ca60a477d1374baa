/*
 * What a unit says about devices. See device_policy.h.
 */
#include "host/device_policy.h"

#include <fnmatch.h>
#include <string.h>

#define GROUP "char-"

bool rg_char_devices_parse(struct span text, struct rg_char_devices *ret_devices)
{
    struct span line, word;
    uint64_t major;
    bool in_list = false, seen = false;
    *ret_devices = (struct rg_char_devices){0};
    while (rg_words_line(&text, &line)) {
        if (rg_span_starts(line, RG_SPAN_LITERAL("Character devices"))) {
            in_list = seen = true;
        } else if (rg_span_starts(line, RG_SPAN_LITERAL("Block devices"))) {
            in_list = false;
        } else if (in_list && rg_words_next(&line, &word) && rg_span_to_u64(word, &major) &&
                   major < 4096 && ret_devices->count < RG_CHAR_DEVICES_MAX) {
            ret_devices->list[ret_devices->count].major = (unsigned)major;
            rg_words_copy(ret_devices->list[ret_devices->count].name,
                          sizeof ret_devices->list[0].name, rg_span_trim(line));
            ret_devices->count++;
        }
    }
    return seen;
}

bool rg_unit_limits_devices(const struct rg_unit *unit)
{
    return unit->private_devices || unit->device_policy != RG_UNIT_DEVICES_AUTO ||
           unit->device_count > 0 || unit->devices_cut;
}

/* The whole number range of the group counts, not the one node. */
static enum rg_device_answer match_group(const struct rg_char_devices *devices, const char *pattern,
                                         int major)
{
    if (major < 0 || devices->count == 0) {
        return RG_DEVICE_UNKNOWN;
    }
    for (size_t i = 0; i < devices->count; i++) {
        if (devices->list[i].major == (unsigned)major &&
            fnmatch(pattern, devices->list[i].name, 0) == 0) {
            return RG_DEVICE_ALLOWED;
        }
    }
    return RG_DEVICE_DENIED;
}

static enum rg_device_answer match(const struct rg_unit_device *allowed,
                                   const struct rg_char_devices *devices, const char *path,
                                   int major)
{
    if (strchr(allowed->node, '%')) {
        return RG_DEVICE_UNKNOWN; /* systemd knows what stands for it, the file does not */
    }
    if (!allowed->may_read || !allowed->may_write) {
        return RG_DEVICE_DENIED;
    }
    if (strncmp(allowed->node, GROUP, strlen(GROUP)) == 0) {
        return match_group(devices, allowed->node + strlen(GROUP), major);
    }
    return strcmp(allowed->node, path) == 0 ? RG_DEVICE_ALLOWED : RG_DEVICE_DENIED;
}

enum rg_device_answer rg_unit_device(const struct rg_unit *unit,
                                     const struct rg_char_devices *devices, const char *path,
                                     int major)
{
    bool unknown = unit->devices_cut;
    if (unit->private_devices) {
        return RG_DEVICE_HIDDEN;
    }
    if (!rg_unit_limits_devices(unit)) {
        return RG_DEVICE_ALLOWED;
    }
    for (size_t i = 0; i < unit->device_count; i++) {
        enum rg_device_answer answer = match(&unit->devices[i], devices, path, major);
        if (answer == RG_DEVICE_ALLOWED) {
            return answer;
        }
        unknown |= answer == RG_DEVICE_UNKNOWN;
    }
    return unknown ? RG_DEVICE_UNKNOWN : RG_DEVICE_DENIED;
}
