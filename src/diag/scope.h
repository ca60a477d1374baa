/*
 * The scope of an incident. Each rg_scope_… that returns nothing fills scope, headline and
 * evidence; those that return bool only look, or fill it when they say true.
 */
#ifndef RG_DIAG_SCOPE_H
#define RG_DIAG_SCOPE_H

#include "diag/view.h"

void rg_scope_decide(struct rg_view *view);

/* Nodes that were logging Lustre and have no part in it. */
void rg_scope_say_who_is_fine(struct rg_view *view);

/* What dumps of state say of the hosts and targets of the incident. */
void rg_scope_say_states(struct rg_view *view);

/* How requests ended, for those that have no better cause. */
void rg_scope_say_endings(struct rg_view *view);

/* ---- scope_patterns.c ---- */

/* What the shape in time and other trouble on the same hosts say. After rg_scope_say_endings. */
void rg_scope_say_patterns(struct rg_view *view);

/* Nothing but checksum errors of several nodes, all through one router: fills the scope. */
bool rg_scope_damaging_router(struct rg_view *view);

/* ---- scope_cause.c ---- */

void rg_scope_storage(struct rg_view *view);

void rg_scope_own_fault(struct rg_view *view);

void rg_scope_planned(struct rg_view *view);

void rg_scope_restart(struct rg_view *view);

/* Whether some target was lost at one NID and came back at another. */
const struct rg_run *rg_scope_find_move(struct rg_view *view, const struct rg_run **ret_lost);

void rg_scope_slow(struct rg_view *view);

bool rg_scope_only_mgs(struct rg_view *view, rg_word *ret_nid, bool *ret_mount);

void rg_scope_mgs(struct rg_view *view, rg_word nid, bool mount);

void rg_scope_config(struct rg_view *view);

/* A mount or its connects failed, and nothing that was in place was lost. */
bool rg_scope_only_mounting(struct rg_view *view);

void rg_scope_mounting(struct rg_view *view);

/* A read that met a lock, object or handle that was gone: the server answered -116. */
bool rg_scope_is_stale_race(const struct rg_run *cause);

bool rg_scope_all_were_evicted(const struct rg_run *run);

/* No client at all came back: nobody could reach the server, or all lost power with it. */
void rg_scope_nobody_back(struct rg_view *view, const struct rg_run *over);

/* ---- scope_peers.c ---- */

/* Servers complain of clients, and nobody else says anything. */
void rg_scope_clients(struct rg_view *view);

void rg_scope_name_symptom(struct rg_view *view, rg_host_id element);

/* One node complains of one server. */
void rg_scope_one_to_one(struct rg_view *view);

/* One node complains of several servers. */
void rg_scope_one_to_many(struct rg_view *view);

/* Several nodes complain of one server. */
void rg_scope_many_to_one(struct rg_view *view);

/* All who complain stand in one rack, or all whom they complain of do, and others are fine. */
bool rg_scope_rack(struct rg_view *view);

/* Every message of the LND and LNet about a peer names one and the same router. */
bool rg_scope_told_router(struct rg_view *view);

void rg_scope_many_to_many(struct rg_view *view);

#endif
