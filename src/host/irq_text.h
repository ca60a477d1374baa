/*
 * /proc/interrupts: which lines belong to a device, and how many CPUs take them. Pure.
 */
#ifndef RG_HOST_IRQ_TEXT_H
#define RG_HOST_IRQ_TEXT_H

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
 * `address` is the device's PCI address, `netdev` its interface ("" for none): a line counts when
 * its name is a completion vector of either ("mlx5_comp3@pci:0000:3b:00.0", "ice-ens1f0-TxRx-3",
 * "irdma-ens1f0-CEQ-0", "irdma-0000:3b:00.0-CEQ-1", "bnxt_re-nq-0@pci:0000:..."). False when the
 * text is no such table.
 */
bool rg_irq_parse(struct span text, const char *address, const char *netdev,
                  struct rg_irq_spread *ret_spread);

#endif
