/*
 * The client's ends of the data plane: the rails it could open, their lanes, and what the server
 * has said against each.
 */
#ifndef RG_CLIENT_RAILS_H
#define RG_CLIENT_RAILS_H

#include "client/client.h"

#include "base/buf.h"
#include "base/error.h"
#include "rdma/transport.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_RAILS_MAX           8u
#define RG_RAIL_LANES_MAX      512u /* of one rail, in use or idle */
#define RG_RAIL_LANES_IDLE_MAX 64u
#define RG_REASON_MAX          95u

/* One lane; belongs to the transfer that took it. */
struct rg_client_lane {
    struct rg_lane *lane;
    struct rg_client_rail *rail;
    bool was_paired;  /* rc */
    bool has_session; /* rc: paired with the server under this name */
    char session[RG_RC_SESSION_LENGTH + 1];
    struct rg_client_lane *next; /* in the list of idle ones */
};

struct rg_client_rail {
    struct rg_rail *rail;
    size_t index;          /* in rg_rails */
    pthread_mutex_t mutex; /* guards what follows */
    struct rg_client_lane *idle;
    size_t idle_count;
    size_t lane_count;
    uint64_t declined_until_ms; /* monotonic */
    char reason[RG_REASON_MAX + 1];
};

struct rg_rails {
    struct rg_client_rail rails[RG_RAILS_MAX];
    size_t count;
    char *notes; /* why others could not be opened, lines of text */
};

/*
 * Opens what config->kinds asks for, in that order. A rail that cannot be opened is noted, nothing
 * more: *ret_rails may have none. RG_STATUS_MEMORY.
 */
int rg_rails_open(const struct rg_config *config,
                  const struct rg_transport *(*find)(enum rg_transport_kind kind),
                  struct rg_rails **ret_rails, struct rg_failure *failure);

/* All lanes must be back. */
void rg_rails_close(struct rg_rails *rails);

/*
 * The first rail, in order of preference, whose bit is in `usable` and, with `heed_declines`, that
 * the server has not declined lately. NULL with the reason, one word, in `reason`.
 */
struct rg_client_rail *rg_rails_choose(struct rg_rails *rails, unsigned usable, bool heed_declines,
                                       char reason[RG_REASON_MAX + 1]);

/* Remembers that the server declined a transfer on this rail, for as long as the reason is likely
 * to hold: not at all when it is about the one request. */
void rg_rail_decline(struct rg_client_rail *rail, const char *reason);

/* A lane without a window; NULL when there is none to be had. */
struct rg_client_lane *rg_rail_take_lane(struct rg_client_rail *rail, struct rg_error *err);

/* Makes a broken lane whole, or closes it. NULL is allowed. */
void rg_rail_give_lane(struct rg_client_lane *lane);

/* Closes it: a window on it may still be reached by the peer. */
void rg_rail_drop_lane(struct rg_client_lane *lane);

/* One line a rail, then the notes. */
void rg_rails_describe(struct rg_rails *rails, struct rg_buf *out);

#endif
