/*
 * Error counters, read twice: what they stand at is history, only the difference accuses. The
 * earlier reading is taken a moment before, or comes from an earlier report (--baseline).
 */
#ifndef RG_HOST_FACTS_COUNTERS_H
#define RG_HOST_FACTS_COUNTERS_H

#include "host/facts_ports.h"

struct rg_host_facts;

#define RG_HOST_COUNTERS_MAX    8192
#define RG_HOST_COUNTER_SUBJECT RG_HOST_PORT_SUBJECT_MAX

struct rg_counter {
    char subject[RG_HOST_COUNTER_SUBJECT]; /* "mlx5_0/1", or an interface */
    char name[RG_HOST_WORD_MAX + 1];
    bool is_hardware; /* of hw_counters; else of counters, or of the interface */
    bool is_netdev;   /* the subject is an interface: carrier_changes, ethtool -S */
    bool has_before;
    int64_t before, now; /* not negative */
};

struct rg_host_counters {
    struct rg_counter list[RG_HOST_COUNTERS_MAX];
    size_t count;
    size_t next; /* where the second reading is */
    bool truncated;
    bool is_second;    /* there are two readings */
    uint64_t apart_ms; /* between them */
    struct rg_reading baseline_at;
    char firmware_then[RG_HOST_RDMA_MAX]
                      [RG_HOST_WORD_MAX + 1]; /* of devices.rdma[i]; "": not told */
    bool other_boot;                          /* the baseline is of before a reboot: useless */
};

void rg_host_read_counters(struct rg_source *source, struct rg_host_facts *facts);

/* Takes the earlier values from a report; false when it is none. */
bool rg_host_parse_baseline(struct span json, struct rg_host_facts *facts);

/* Numbers of {NAME: number} for an interface. `again`: the second reading of known ones. */
bool rg_host_parse_counters(struct span json, const char *netdev, bool again,
                            struct rg_host_counters *counters);

const struct rg_counter *rg_host_counter(const struct rg_host_counters *counters,
                                         const char *subject, const char *name);

#endif
