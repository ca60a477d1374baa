/*
 * Two doctors: `serve` answers on one host, `visit` asks from another. Both exchange facts, then
 * the visitor proves the path with real transfers. The serving side changes nothing: it reads facts
 * and lends a buffer that holds nothing.
 */
#ifndef RG_HOST_PEER_H
#define RG_HOST_PEER_H

#include "base/error.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rg_peer_serve {
    const char *address;     /* numeric, to listen on */
    uint16_t port;           /* 0: the kernel chooses */
    unsigned visits;         /* ends after so many that were a doctor's; 0: never */
    const char *gpu;         /* whose memory is lent when it is asked for, "cuda:0"; "": none */
    const atomic_bool *stop; /* looked at every 200 ms; may be NULL */
    void (*ready)(const char *address, uint16_t port, void *context); /* may be NULL */
    /* Visitors cannot be let in for now (descriptors or memory have run out), or can be again (0);
     * told once each time. May be NULL. */
    void (*trouble)(int os_errno, void *context);
    void *context;
};

/* Serves one visitor at a time. RG_SETTING when it cannot listen, or `gpu` names no GPU. */
int rg_peer_serve(const struct rg_peer_serve *serve, struct rg_error *err);

struct rg_peer_visit {
    const char *host; /* name or address */
    uint16_t port;
    uint64_t bytes;    /* largest transfer */
    const char *only;  /* transports and providers to try, separated by commas; "": all that
                          there are. One that is named and is not there is a failure. */
    const char *gpu;   /* "cuda:0": its memory is moved too; "" */
    unsigned priority; /* 0 to 7: planned to be lossless */
};

/*
 * The report, owned by the caller: an object with "verdict", "own", "other" (facts), "findings"
 * and "paths". A host that answered the call and then said nothing sensible, or vanished, gives a
 * report too, of what was learned until then: "own", "other" (null unless it told its facts), the
 * findings, of which one is a failure, and "error", a sentence. RG_SETTING when `only` holds what
 * is no transport, or `gpu` what is no GPU; RG_SERVICE_UNAVAILABLE when the other side cannot be
 * reached at all.
 */
int rg_peer_visit(const struct rg_peer_visit *visit, json_t **ret_report, struct rg_error *err);

#endif
