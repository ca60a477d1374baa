/*
 * railgate doctor --transport dc: whether a NIC does what the dc transport expects of it. Prints
 * what rdma/selftest.c finds.
 */
#include "cli/doctor_transport.h"

#include "cli/cli.h"
#include "rdma/selftest.h"

#include <stdio.h>
#include <string.h>

static void print_step(void *context, enum rg_selftest_verdict verdict, const char *step,
                       const char *sentence)
{
    static const char *const words[] = {
        [RG_SELFTEST_PASSED] = "pass",
        [RG_SELFTEST_FAILED] = "FAIL",
        [RG_SELFTEST_SKIPPED] = "skip",
    };
    unsigned *counts = context;
    counts[verdict]++;
    printf("%s  %-28s %s\n", words[verdict], step, sentence);
    fflush(stdout); /* steps may take seconds */
}

int rg_cli_doctor_transport(const char *transport, const char *device)
{
    unsigned counts[3] = {0};
    if (strcmp(transport, "dc") != 0) {
        return rg_cli_fail_usage(
            "doctor", "only the transport dc can be tested alone, not \"%.60s\"", transport);
    }
    printf("dc: bytes between an initiator and a target on one NIC of this host\n\n");
    unsigned failed = rg_dc_selftest(device, print_step, counts);
    printf("\n%u passed, %u failed, %u skipped\n", counts[RG_SELFTEST_PASSED], failed,
           counts[RG_SELFTEST_SKIPPED]);
    return failed ? 2 : RG_EXIT_OK;
}
