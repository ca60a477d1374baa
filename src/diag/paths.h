/*
 * What the path of a log tells: its node, its place among rotated files, whether it is a log of a
 * sos report.
 */
#ifndef RG_DIAG_PATHS_H
#define RG_DIAG_PATHS_H

#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define RG_RANK_BARE INT64_C(2000000000) /* of a file without a rotation: the youngest */

/*
 * The name of a node in the name of a file, directories included: "gpu01/dmesg", "gpu01.dmesg.gz",
 * "messages-oss1-20261129", "sosreport-oss1-2026-11-29-abcdef/…". Words that name a kind of log,
 * dates and numbers are no names. Empty when there is none; else borrowed from `path`.
 */
struct span rg_node_name_from_path(struct span path);

/*
 * The place of a file among its rotated siblings: what is left of the name without the rotation's
 * suffix and compression (borrowed), and a rank, lower for older. "messages-20261101.gz",
 * "syslog.2.gz", "dmesg.old".
 */
struct span rg_rotation_of(struct span name, int64_t *ret_rank);

/* True for the files of a sos report that hold logs; `path` is relative to the report's root. */
bool rg_sos_is_log(struct span path);

#endif
