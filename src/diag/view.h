/*
 * What the parts of a verdict share while one incident is judged: the runs seen from the hosts that
 * complain, and the words of its sentences. Lives as long as rg_verdict runs.
 *
 * Functions that fail without memory note it in view.ok; nothing else can fail.
 */
#ifndef RG_DIAG_VIEW_H
#define RG_DIAG_VIEW_H

#include "diag/correlation.h"

#define RG_USEC INT64_C(1000000)

/* Rounded up, to 1 at least: "0 s" is no wait, whatever the clock's seconds say. */
static inline int64_t rg_whole_seconds(int64_t usec)
{
    return usec <= RG_USEC ? RG_USEC : (usec + RG_USEC - 1) / RG_USEC * RG_USEC;
}

/* Hosts, nodes and targets that one incident may list; further ones count only. */
#define RG_HOST_LIST_MAX 64

struct rg_host_list {
    rg_host_id items[RG_HOST_LIST_MAX];
    size_t count; /* all, those that found no room included */
};

struct rg_view {
    struct rg_correlation *correlation;
    struct rg_incident *incident;
    int number;
    struct rg_run **runs; /* of the incident, in order of rank for causes */
    size_t run_count;
    int64_t onset; /* of the first symptom, on the base clock; INT64_MIN when unknown */
    int onset_clock;
    rg_node_id onset_node;
    bool first_answered;           /* the first symptom is an answer of the peer */
    struct rg_host_list observers; /* hosts that complain of another */
    struct rg_host_list elements;  /* servers complained of */
    struct rg_host_list silent;    /* those of them that did not answer */
    struct rg_host_list clients;   /* clients that servers complain of */
    struct rg_host_list accusers;  /* servers that complain of clients */
    struct rg_host_list ill; /* hosts with a fault of their own in the same row as the cause */
    size_t lustre_logs;
    bool cross_clock; /* runs of several nodes are compared by guessed clocks */
    bool ok;
    const struct rg_run *cause;
};

/* Once each; 0 is no host. */
void rg_host_list_add(struct rg_host_list *hosts, rg_host_id host);

bool rg_host_list_has(const struct rg_host_list *hosts, rg_host_id host);

/* Follows mergers, as all below do. */
const struct rg_map_host *rg_view_host(struct rg_view *view, rg_host_id host);

bool rg_view_is_server(struct rg_view *view, rg_host_id host);

rg_host_id rg_view_speaker(struct rg_view *view, const struct rg_run *run);

rg_word rg_view_name(struct rg_view *view, rg_host_id host);

/* "oss1 (192.0.2.15@o2ib)" where both are known. */
rg_word rg_view_full_name(struct rg_view *view, rg_host_id host);

/* Up to 12 of them, then how many there are. */
rg_word rg_view_names(struct rg_view *view, const struct rg_host_list *hosts);

/* Up to 16 of them, then how many there are. */
rg_word rg_view_list(struct rg_view *view, const struct rg_words *words);

rg_word rg_view_number(struct rg_view *view, size_t number);

rg_word rg_view_text(struct rg_view *view, const char *text);

/* Adds a sentence. */
void rg_view_say(struct rg_view *view, struct rg_phrases *phrases, enum rg_phrase_id id, rg_word a,
                 rg_word b, rg_word c);

void rg_view_headline(struct rg_view *view, enum rg_phrase_id id, rg_word a, rg_word b, rg_word c);

/* A client that looks for a lost target asks its HA partners too, and is told -19 there. */
bool rg_view_is_connect_status(struct rg_view *view, const struct rg_run *run);

/* What a run weighs as a cause of this incident; 1000 and more: it is none. */
int rg_view_rank(struct rg_view *view, const struct rg_run *run);

/* In this order, before anything else: who complains; which run is the cause; what is affected. */
void rg_view_look(struct rg_view *view);

void rg_view_choose_cause(struct rg_view *view);

enum rg_target_kind rg_view_target_kind(struct rg_view *view, rg_word target);

void rg_view_list_affected(struct rg_view *view);

/* How many affected targets that host serves. */
size_t rg_view_targets_of(struct rg_view *view, rg_host_id host, struct rg_words *ret_targets);

/* Targets of that host that the logs know and this incident does not touch. */
void rg_view_healthy_siblings(struct rg_view *view, rg_host_id host,
                              const struct rg_words *affected, struct rg_words *ret_siblings);

/* The row's title is a sentence in two languages; as a word inside evidence the id is clearer. */
rg_word rg_view_what_it_said(struct rg_view *view, const struct rg_run *run);

void rg_view_set_scope(struct rg_view *view, enum rg_scope scope, rg_word element);

rg_word rg_view_target_of_cause(struct rg_view *view);

/* 0: not known. */
rg_host_id rg_view_host_of_seen(struct rg_correlation *correlation,
                                const struct rg_node_seen *seen);

/* A message that only reports what something else did is no cause, however alone it stands. */
bool rg_run_is_mere_symptom(const struct rg_run *run);

/* Whether some run of the incident is that row's. */
bool rg_view_has_row(struct rg_view *view, const char *id);

#endif
