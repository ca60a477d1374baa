/*
 * /proc/interrupts: which lines belong to a device, and how many CPUs take them. Pure. With
 * hundreds of CPUs the table has tens of megabytes, so it is shortened line by line first.
 */
#ifndef RG_HOST_IRQ_TEXT_H
#define RG_HOST_IRQ_TEXT_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define RG_IRQ_CPUS_MAX  4096
#define RG_IRQ_LINES_MAX 512

struct rg_irq_spread {
    size_t vectors;     /* lines of the device that move data */
    size_t busy;        /* of these, with a count above zero */
    size_t cpus;        /* different CPUs that took the most of a busy vector's interrupts */
    uint64_t total;     /* interrupts of the busy ones */
    unsigned first_cpu; /* the CPU, when `cpus` is 1 */
    unsigned numbers[RG_IRQ_LINES_MAX]; /* the vectors' interrupt numbers */
    size_t online;                      /* CPUs of the table */
    bool cut;                           /* more lines or CPUs than the ceilings */
};

/*
 * Shortens one line of the table, without its end, and appends it: "cpus N" of the first (false
 * when it is none), then "NUMBER CPU MOST SUM NAME" for each interrupt that has a number; the CPU
 * is the one that took the most of them.
 */
bool rg_irq_shorten_head(struct span line, struct rg_buf *out);
void rg_irq_shorten(struct span line, struct rg_buf *out);

/*
 * `text` is the shortened table. `address` is the device's PCI address, `netdev` its interface (""
 * for none): a line counts when its name is a completion vector of either
 * ("mlx5_comp3@pci:0000:3b:00.0", "ice-ens1f0-TxRx-3", "irdma-ens1f0-CEQ-0",
 * "irdma-0000:3b:00.0-CEQ-1", "bnxt_re-nq-0@pci:0000:..."). False when the text is none.
 */
bool rg_irq_parse(struct span text, const char *address, const char *netdev,
                  struct rg_irq_spread *ret_spread);

#endif
