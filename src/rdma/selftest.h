/*
 * Whether a NIC does what the dc transport expects of it: bytes from one place in this process's
 * memory to another, out of the NIC and back in, with an initiator and a target of its own. For a
 * person who has the hardware (`railgate doctor --transport dc`); no gateway, no client and no
 * second machine is needed.
 *
 * It shows that this NIC, this driver and this firmware agree with our reading of mlx5dv. It does
 * not show that the fabric works, nor that another vendor's client agrees with us.
 */
#ifndef RG_RDMA_SELFTEST_H
#define RG_RDMA_SELFTEST_H

#include "base/error.h"
#include "rdma/transport.h"

#include <stdbool.h>

enum rg_selftest_verdict { RG_SELFTEST_PASSED, RG_SELFTEST_FAILED, RG_SELFTEST_SKIPPED };

/* One step: a short name ("write 65536 bytes") and one sentence on what was found or what is wrong.
 * Both texts are the caller's only during the call. */
typedef void (*rg_selftest_report)(void *context, enum rg_selftest_verdict verdict,
                                   const char *step, const char *sentence);

/*
 * Tests `device` ("mlx5_0"; NULL or "": the first that fits) with an access key of its own. Returns
 * the number of steps that failed: 0 means that all passed, which is never so when the transport is
 * not there (no library, no such device: the first steps fail with the reason, the others are
 * skipped). Blocks for at most about half a minute; pins about 50 MiB.
 */
unsigned rg_dc_selftest(const char *device, rg_selftest_report report, void *context);

/*
 * The same for any transport whose lanes need no pairing, with a rail as configured. A step that
 * needs what only dc has is skipped.
 */
unsigned rg_selftest(enum rg_transport_kind kind, const struct rg_rail_config *config,
                     rg_selftest_report report, void *context);

#endif
