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
 * True when this line of this node was met before; remembers it else. The same seconds since the
 * same boot and text are the same line; so are, from another source, the same text at the same
 * second of a wall clock. Clocks of different kinds are compared once two lines of the sources
 * agree on the difference between them.
 */
bool rg_seen_before(struct rg_seen *seen, const struct rg_log_record *record);

/* Says that the line may be asked for soon, so that memory that no cache has is fetched meanwhile.
 */
void rg_seen_expect(const struct rg_seen *seen, const struct rg_log_record *record);

#endif
