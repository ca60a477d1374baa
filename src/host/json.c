#include "host/json.h"

#include "host/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int rg_host_tell_json(json_t *document, int fd)
{
    char *text = document ? json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(document);
    if (!text) {
        return ENOMEM;
    }
    int failed = rg_probe_write(fd, text, strlen(text));
    free(text);
    return failed;
}

void rg_host_json_free(json_t **json)
{
    json_decref(*json);
}

unsigned rg_host_json_unsigned(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 && value <= UINT32_MAX ? (unsigned)value : 0;
}
