/*
 * The same line of a node, collected twice: from the kernel ring and from the journal and from
 * /var/log/messages, or in two copies of one file. Wanted for lines that count (events), not for
 * all.
 *
 * Memory is fixed; what is forgotten is counted twice.
 */
#ifndef RG_DIAG_SEEN_H
#define RG_DIAG_SEEN_H

#include "base/error.h"

#include "diag/record.h"

#include <stdbool.h>

struct rg_seen;

int rg_seen_new(struct rg_seen **ret_seen, struct rg_error *err);
void rg_seen_free(struct rg_seen *seen);

/*
 * True when another source has this line of this node, and for the same seconds since the same boot
 * the same source, too; remembers it. What a source says more often than another counts as often as
 * the former says it. The same seconds since boot are the same line; so are the same second of a
 * wall clock, seconds of dmesg -T and of a wall clock that are near each other, and instants of
 * other clocks once two lines of the sources agree on the difference between them.
 */
bool rg_seen_before(struct rg_seen *seen, const struct rg_log_record *record);

/* Says that the line may be asked for soon, so that memory that no cache has is fetched meanwhile.
 */
void rg_seen_expect(const struct rg_seen *seen, const struct rg_log_record *record);

#endif
