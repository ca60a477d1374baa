/*
 * Which device nodes a service's unit lets it open, whoever its user is: PrivateDevices=,
 * DevicePolicy= and DeviceAllow= of systemd.exec(5) and systemd.resource-control(5). Pure.
 */
#ifndef RG_HOST_DEVICE_POLICY_H
#define RG_HOST_DEVICE_POLICY_H

#include "host/memory_text.h"

#define RG_CHAR_DEVICES_MAX 512

/* The character devices of /proc/devices, by which "char-NAME" is understood. */
struct rg_char_devices {
    struct {
        char name[32];
        unsigned major;
    } list[RG_CHAR_DEVICES_MAX];
    size_t count;
};

/* False when the text is no such list. */
bool rg_char_devices_parse(struct span text, struct rg_char_devices *ret_devices);

enum rg_device_answer {
    RG_DEVICE_ALLOWED,
    RG_DEVICE_HIDDEN,  /* by PrivateDevices=: the service sees no such node */
    RG_DEVICE_DENIED,  /* by DevicePolicy= or DeviceAllow= */
    RG_DEVICE_UNKNOWN, /* it depends on what is not known */
};

/* Whether there is anything in the unit that forbids nodes. */
bool rg_unit_limits_devices(const struct rg_unit *unit);

/* `path` is the node's, `major` its number or -1. */
enum rg_device_answer rg_unit_device(const struct rg_unit *unit,
                                     const struct rg_char_devices *devices, const char *path,
                                     int major);

#endif
