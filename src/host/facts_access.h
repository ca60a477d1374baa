/*
 * Who a service is, and which RDMA nodes let it in: user, groups and capabilities of its process or
 * of its unit; modes and access lists of the nodes below /dev/infiniband.
 */
#ifndef RG_HOST_FACTS_ACCESS_H
#define RG_HOST_FACTS_ACCESS_H

#include "host/facts_memory.h"
#include "host/source.h"

/* After its unit and its process have been found. */
void rg_host_read_user(struct rg_source *source, struct rg_host_service *service);
void rg_host_read_modes(struct rg_source *source, struct rg_host_memory *memory);

/* Whether it may read and write the node: POSIX.1e's order, capabilities first. */
bool rg_host_service_may_open(const struct rg_host_service *service,
                              const struct rg_host_mode *node);

/* ---- Parsers ---- */

/*
 * Lines "NAME MODE UID GID", the mode in octal, and behind that the entries of the access list:
 * "user:ID:BITS", "group:ID:BITS", "group::BITS", "mask::BITS"; and "major::NUMBER". False when a
 * line is none; what is beyond the ceilings is false too: half a list may not be judged.
 */
bool rg_host_parse_modes(struct span lines, struct rg_host_memory *memory);

/* One line "UID GID ...". False when it is none, or has more groups than fit. */
bool rg_host_parse_user(struct span line, struct rg_host_service *service);

/* Uid, Gid, Groups and CapEff of /proc/PID/status, the effective ones. False without them;
 * `service` is then as it was. */
bool rg_host_parse_identity(struct span text, struct rg_host_service *service);

/* The entries of the value of system.posix_acl_access, as text with a blank before each. False when
 * it is none. */
bool rg_host_tell_access(struct span value, struct rg_buf *out);

#endif
