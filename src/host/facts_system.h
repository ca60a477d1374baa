/*
 * The operating system: what the remedies depend on, and what names the report.
 */
#ifndef RG_HOST_FACTS_SYSTEM_H
#define RG_HOST_FACTS_SYSTEM_H

#include "host/source.h"

struct rg_host_facts;

enum rg_distribution { RG_DISTRIBUTION_OTHER, RG_DISTRIBUTION_RHEL, RG_DISTRIBUTION_DEBIAN };

struct rg_host_system {
    struct rg_text hostname;
    struct rg_text kernel;  /* release, as uname -r */
    struct rg_text boot_id; /* changes with every boot */
    struct rg_reading os_release;
    char os_name[RG_HOST_TEXT_MAX + 1]; /* "Rocky Linux 9.4 (Blue Onyx)" */
    enum rg_distribution distribution;
    struct rg_reading status; /* of this process */
    bool is_root;             /* false when not known */
};

void rg_host_read_system(struct rg_source *source, struct rg_host_facts *facts);

/* Parses /etc/os-release into os_name and distribution. */
void rg_host_parse_os_release(struct span content, struct rg_host_system *system);

#endif
