/*
 * What the ethtool ioctl tells of an interface, as documents for rg_source_probe. Only questions
 * that need no privilege.
 */
#ifndef RG_HOST_ETHTOOL_H
#define RG_HOST_ETHTOOL_H

#include <stdbool.h>

/* Probes; the argument is the interface's name. {"pause": {"rx": bool, "tx": bool}, "flags": {NAME:
 * bool}} without what the driver does not know; EOPNOTSUPP when it knows nothing. */
int rg_host_tell_ethtool(void *netdev, int fd);

/* {NAME: number}, of those statistics that have to do with flow control, loss and damage. */
int rg_host_tell_ethtool_stats(void *netdev, int fd);

/* Whether a statistic of this name is one of those. */
bool rg_host_ethtool_matters(const char *name);

#endif
