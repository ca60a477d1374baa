/*
 * Which boot of its node a line belongs to. Boots are numbered per node in the order in which the
 * input shows them. A boot begins at the kernel's first line, where the seconds since boot go back,
 * or where the journal says so; the same boot met again in another file keeps its number as far as
 * its lines give it away.
 */
#ifndef RG_DIAG_BOOTS_H
#define RG_DIAG_BOOTS_H

#include "base/error.h"

#include "diag/record.h"

struct rg_boots;

int rg_boots_new(struct rg_boots **ret_boots, struct rg_error *err);
void rg_boots_free(struct rg_boots *boots);

/*
 * Sets record->boot; wants node, stamps, speaker and text. `family` tells apart the streams of one
 * node that run in order by themselves (a file with its rotated predecessors is one). `id` is the
 * journal's id of the boot, or empty.
 */
void rg_boots_assign(struct rg_boots *boots, uint32_t family, struct span id,
                     struct rg_log_record *record);

/* The next record of that node and family begins a new boot ("-- Reboot --"). */
void rg_boots_split(struct rg_boots *boots, uint32_t family, rg_node_id node);

/*
 * Which boot a number that was given stands for. A boot that a file begins to show has a number of
 * its own until its lines tell that another file had it; both numbers are the same boot then, and
 * the smaller one is returned. Of all other numbers, the number itself.
 */
uint32_t rg_boots_same(struct rg_boots *boots, rg_node_id node, uint32_t boot);

/* How many numbers of boots of a node were given: at least 1 once it spoke. */
uint32_t rg_boots_count(const struct rg_boots *boots, rg_node_id node);

#endif
