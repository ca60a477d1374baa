/*
 * The client's ends of the data plane: the rails it could open, their lanes, and what the server
 * has said against each.
 *
 * A rail whose device or port failed under a transfer is out: it is looked at again when somebody
 * wants it, at growing intervals, and opened anew when its device was gone. What is registered and
 * open on the old one keeps that alive until it is given back; so a rail has lives. One whose port
 * is down, or whose device was asked for by name and is missing, when the client is opened begins
 * like that: out, and without a life.
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

/* From one opening of a rail to the next. Counted, under the rail's mutex: lanes, registrations
 * and, while it is the current one, the rail. */
struct rg_rail_life {
    struct rg_rail *rail;
    size_t users;
};

/* One lane; belongs to the transfer that took it. */
struct rg_client_lane {
    struct rg_lane *lane;
    struct rg_client_rail *rail;
    struct rg_rail_life *life;
    bool was_paired;  /* rc */
    bool has_session; /* rc: paired with the server under this name */
    char session[RG_RC_SESSION_LENGTH + 1];
    struct rg_client_lane *next; /* in the list of idle ones */
};

struct rg_client_rail {
    const struct rg_transport *transport;
    struct rg_rail_config config;
    size_t index;          /* in rg_rails */
    pthread_mutex_t mutex; /* guards what follows */
    /* Set with the first life, and then for good: whoever has chosen the rail may read it. */
    char path[RG_RAIL_PATH_MAX + 1];
    struct rg_rail_life *life; /* NULL: it has never been open */
    bool is_out;
    bool is_working;       /* a thread looks at it, without the mutex */
    pthread_cond_t looked; /* it has */
    uint64_t retry_at_ms;  /* monotonic */
    uint64_t retry_delay_ms;
    char fault[RG_ERROR_MESSAGE_MAX]; /* why it is out */
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
 * Opens what config->kinds asks for, in that order. A rail that is not to be had is noted, nothing
 * more: *ret_rails may have none. RG_STATUS_MEMORY.
 */
int rg_rails_open(const struct rg_config *config,
                  const struct rg_transport *(*find)(enum rg_transport_kind kind),
                  struct rg_rails **ret_rails, struct rg_failure *failure);

/* All lanes must be back. */
void rg_rails_close(struct rg_rails *rails);

/*
 * The first rail, in order of preference, whose bit is in `usable`, that is not out and, with
 * `heed_declines`, that the server has not declined lately. One that is out is looked at when its
 * time has come; without `heed_declines` at once. NULL with the reason, one word, in `reason`.
 */
struct rg_client_rail *rg_rails_choose(struct rg_rails *rails, unsigned usable, bool heed_declines,
                                       char reason[RG_REASON_MAX + 1]);

/* Remembers that the server declined a transfer on this rail, for as long as the reason is likely
 * to hold: not at all when it is about the one request. */
void rg_rail_decline(struct rg_client_rail *rail, const char *reason);

/*
 * After a transfer that broke: takes the rail out if it was the rail that failed (its port is down,
 * its device is gone).
 */
void rg_rail_suspect(struct rg_client_rail *rail);

/* Whether it is out now. */
bool rg_rail_is_out(struct rg_client_rail *rail);

/* Why a rail is out: of the first that is. False when none is. */
bool rg_rails_fault(struct rg_rails *rails, char fault[RG_ERROR_MESSAGE_MAX]);

/* The current life, for a registration; give it back with rg_rail_leave_life. NULL: none yet. */
struct rg_rail_life *rg_rail_enter_life(struct rg_client_rail *rail);
/* NULL is allowed. Whoever leaves last closes it. */
void rg_rail_leave_life(struct rg_client_rail *rail, struct rg_rail_life *life);

/* A lane without a window; NULL when there is none to be had. */
struct rg_client_lane *rg_rail_take_lane(struct rg_client_rail *rail, struct rg_error *err);

/* Makes a broken lane whole, or closes it. NULL is allowed. */
void rg_rail_give_lane(struct rg_client_lane *lane);

/* Closes it: a window on it may still be reached by the peer. */
void rg_rail_drop_lane(struct rg_client_lane *lane);

/* One line a rail, then the notes. */
void rg_rails_describe(struct rg_rails *rails, struct rg_buf *out);

#endif
