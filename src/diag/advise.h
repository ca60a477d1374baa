/*
 * What an incident's reader should do next, and what not.
 */
#ifndef RG_DIAG_ADVISE_H
#define RG_DIAG_ADVISE_H

#include "diag/view.h"

rg_word rg_advise_ping(struct rg_view *view, rg_host_id host, rg_word nid);

void rg_advise_next(struct rg_view *view);

void rg_advise_against(struct rg_view *view);

#endif
