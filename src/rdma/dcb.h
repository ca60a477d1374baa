/*
 * What the host's data center bridging says about RDMA traffic: which priorities are lossless (PFC)
 * and which DSCP leads to one. IEEE 802.1Qaz, as Linux tells it over rtnetlink (RTM_GETDCB). The
 * parser is pure; the reader asks the kernel. Nothing here changes a setting.
 */
#ifndef RG_RDMA_DCB_H
#define RG_RDMA_DCB_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_DCB_PRIORITIES 8
#define RG_DCB_DSCPS      64
#define RG_DCB_NONE       (-1)

/* Bits of rg_dcb.dcbx: who runs the exchange of settings with the switch, and in which form. */
#define RG_DCBX_HOST     0x01 /* a program on the host, such as lldpad */
#define RG_DCBX_FIRMWARE 0x02 /* the card's own agent */
#define RG_DCBX_CEE      0x04
#define RG_DCBX_IEEE     0x08

/* Start from rg_dcb_init. */
struct rg_dcb {
    bool known;          /* the interface has DCB and has told */
    uint8_t pfc_enabled; /* bit n: priority n is lossless */
    bool has_peer_pfc;   /* the switch has told its own, by LLDP */
    uint8_t peer_pfc_enabled;
    bool has_ets;
    uint8_t class_of_priority[RG_DCB_PRIORITIES];
    uint8_t bandwidth[RG_DCB_PRIORITIES]; /* of a traffic class, per cent */
    uint8_t algorithm[RG_DCB_PRIORITIES]; /* of a traffic class: 0 strict, 2 ETS, … */
    bool has_dcbx;
    uint8_t dcbx;                          /* RG_DCBX_… */
    int8_t priority_of_dscp[RG_DCB_DSCPS]; /* RG_DCB_NONE: no rule */
    bool has_dscp_rules;                   /* then the port trusts DSCP */
    int8_t roce_priority;                  /* that a rule for UDP port 4791 names, or RG_DCB_NONE */
};

/* No DCB: nothing is lossless, no rules, all in class 0. */
void rg_dcb_init(struct rg_dcb *dcb);

/*
 * Reads the answer to a DCB_CMD_IEEE_GET: one netlink message, header included. Attributes it does
 * not know are skipped. RG_PARSE when lengths do not fit; *ret_dcb is set only on success.
 */
int rg_dcb_parse(const void *message, size_t len, struct rg_dcb *ret_dcb, struct rg_error *err);

/*
 * The traffic class (IPv6) or type of service (IPv4) byte for RDMA: the DSCP that leads to the
 * lossless priority, and ECN-capable transport in the two low bits. 0 when nothing is lossless.
 *
 * Of several lossless priorities the one that a rule for RoCE names wins, then those a DSCP rule
 * leads to, then 3, then the lowest. Of several DSCPs: 26, then 8 * priority, then the
 * lowest. Without a rule for the priority: 8 * priority, which is where ports that trust DSCP
 * begin.
 */
uint8_t rg_dcb_traffic_class(const struct rg_dcb *dcb);

/*
 * Asks the kernel about a network interface. An interface without DCB is no error: *ret_dcb says
 * known = false. RG_SERVICE_UNAVAILABLE when the kernel cannot be asked.
 */
int rg_dcb_read(const char *netdev, struct rg_dcb *ret_dcb, struct rg_error *err);

#endif
