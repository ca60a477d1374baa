/*
 * JSON of documents, for readers and probes. Includes jansson: not for headers of facts.
 */
#ifndef RG_HOST_JSON_H
#define RG_HOST_JSON_H

#include <jansson.h>

/* Ends a probe: writes the document, which it takes over (NULL: there was no memory), to `fd`. 0 or
 * an errno value. */
int rg_host_tell_json(json_t *document, int fd);

/* For RG_CLEANUP. */
void rg_host_json_free(json_t **json);

/* The number under `name`, 0 when there is none or it does not fit. */
unsigned rg_host_json_unsigned(const json_t *object, const char *name);

#endif
