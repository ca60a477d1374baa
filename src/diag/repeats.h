/*
 * Lines that say that other lines were left out, turned back into the lines they speak of.
 *
 * Memory is fixed: a message that is no longer remembered makes the line be handed on as it is.
 */
#ifndef RG_DIAG_REPEATS_H
#define RG_DIAG_REPEATS_H

#include "base/error.h"

#include "diag/record.h"

struct rg_repeats;

int rg_repeats_new(struct rg_repeats **ret_repeats, struct rg_error *err);
void rg_repeats_free(struct rg_repeats *repeats);

/*
 * To be called with every record in order. Remembers messages that a later line may speak of, and
 * when this is such a line:
 *
 *   (client.c:2141:ptlrpc_expire_one_request()) Skipped 24 previous similar messages
 *   last message repeated 3 times
 *   message repeated 3 times: [ TEXT]
 *
 * replaces text (and for the second also speaker, program and priority) by those of the message
 * meant and sets repeats. Text that comes from memory is valid until the next call. `syslog`: the
 * record came through a syslog daemon, which writes the second kind.
 */
void rg_repeats_expand(struct rg_repeats *repeats, bool syslog, struct rg_log_record *record);

#endif
