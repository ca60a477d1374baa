/*
 * Registers memory for real on every verbs device, and asks whether the device takes dma-buf
 * memory. Runs in a child (host/probe.h): registration pins, and a driver may hang.
 */
#ifndef RG_HOST_MR_PROBE_H
#define RG_HOST_MR_PROBE_H

/*
 * A probe function: `argument` points to a uint64_t, the bytes that are planned to be pinned (0:
 * not known). Writes the lines that rg_host_parse_mr reads. Never more than half of the memory that
 * is available is registered.
 */
int rg_mr_probe(void *argument, int fd);

#endif
