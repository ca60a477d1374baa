/*
 * Who sent a request: verifies its signature against the accounts. Says nothing about what that
 * account may do: dispatch.c asks that next.
 */
#ifndef RG_GATE_AUTHENTICATE_H
#define RG_GATE_AUTHENTICATE_H

#include "gate/call.h"

/*
 * Fills call->auth, call->signing_key and call->account. A request without credentials succeeds
 * with call->auth.kind RG_AUTH_ANONYMOUS and an empty account. Errors: those of rg_sigv4_parse and
 * rg_sigv4_verify, and RG_INVALID_ACCESS_KEY_ID; what helps a client's author to find the mistake
 * is added to the call's details.
 */
int rg_authenticate(struct rg_call *call, struct rg_error *err);

/*
 * The same for the routes of RDMA sessions, whose clients may sign for the service "hipobj", leave
 * x-amz-content-sha256 out, and sign the host with or without the port whatever they send.
 */
int rg_authenticate_control(struct rg_call *call, struct rg_error *err);

#endif
