/*
 * Random bytes from the kernel. Never fails: a kernel without getrandom is not supported.
 */
#ifndef RG_BASE_RANDOM_H
#define RG_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void rg_random_bytes(void *bytes, size_t len);
uint64_t rg_random_u64(void);

#endif
