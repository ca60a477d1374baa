/*
 * The manual's page of messages, by itself: who prints pages needs nothing else of this room.
 */
#ifndef RG_DIAG_REFERENCE_H
#define RG_DIAG_REFERENCE_H

#include "base/buf.h"

/* docs/messages.md: every built-in row, errno and ib_wc_status, the format of rules files. */
void rg_catalogue_reference(struct rg_buf *out);

#endif
