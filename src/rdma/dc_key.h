/*
 * The DC access key, which both ends must have been given: from a file, so that it stands in no
 * process list and no settings page. It must never be logged.
 */
#ifndef RG_RDMA_DC_KEY_H
#define RG_RDMA_DC_KEY_H

#include "base/error.h"
#include "base/span.h"

#include <stdint.h>

/* One key of 1 to 16 hex digits, 0x before them and white space around them allowed; -1: none. */
int rg_dc_key_parse(struct span text, uint64_t *ret_key);

/* The key in a file. RG_SETTING with `who` asked for it ("setting rdma-dc-key-file") and why it
 * cannot be had; the sentence never has the file's contents. *ret_key is set on success only. */
int rg_dc_key_read(const char *path, const char *who, uint64_t *ret_key, struct rg_error *err);

#endif
