/*
 * Names that pdsh, clush or grep put before every line of one source. Before a line with a stamp a
 * prefix is plain to see (shape.h); before the others, "nid: 192.0.2.1@o2ib" looks the same as
 * "gpu01: 192.0.2.1@o2ib". So a name counts once it stood before something that cannot be
 * mistaken, and from then on in that source.
 */
#ifndef RG_DIAG_PREFIXES_H
#define RG_DIAG_PREFIXES_H

#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define RG_PREFIXES_MAX 1024 /* a power of two; of more, some are forgotten until seen again */

/* Zero-initialised; one for each source. */
struct rg_prefixes {
    uint64_t hashes[RG_PREFIXES_MAX];
};

/* The name stood before a line that proves it. */
void rg_prefixes_note(struct rg_prefixes *prefixes, struct span name);

/*
 * Takes the prefix off a line that has neither stamp nor known shape. True when there is one: the
 * name was noted before, or what follows opens a dump (rg_state_opens). Both spans borrow from
 * `line`; of the rest only one blank is taken off.
 */
bool rg_prefixes_take(struct rg_prefixes *prefixes, struct span line, struct span *ret_name,
                      struct span *ret_rest);

#endif
