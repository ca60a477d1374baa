/*
 * How to reach a gateway: options, then the environment and files, as other AWS tools read them.
 * No network here.
 */
#ifndef RG_CLIENT_CONFIG_H
#define RG_CLIENT_CONFIG_H

#include "base/span.h"
#include "rdma/token.h"

#include <railgate/railgate.h>

#include <stdbool.h>
#include <stdint.h>

/* A part travels in one window, and a D1 token holds 32 bits of length. */
#define RG_PART_SIZE_MIN  ((uint64_t)5 << 20)
#define RG_PART_SIZE_MAX  (((uint64_t)4 << 30) - (64 << 10))
#define RG_PARALLEL_MAX   256u
#define RG_RETRIES_MAX    100u
#define RG_TIMEOUT_MS_MAX 86400000u

#define RG_PROFILE_FILE_MAX (1u << 20) /* bytes of a credentials or config file */

struct rg_config {
    bool https;
    char *origin; /* "http://host:port" without a trailing slash */
    char *host;   /* the Host field: with the port unless it is the scheme's own */
    char *name;   /* host without port and brackets */
    char *port;   /* decimal */
    char *region;
    char *access_key;
    char *secret_key;
    char *ca_file; /* NULL: the system's */
    char *device;  /* NULL: every one */
    bool virtual_host;
    bool mixed_range_replies;
    bool has_dc_key;
    uint64_t dc_key;
    uint32_t mtu; /* 0: the port's */
    uint8_t hop_limit;
    uint8_t service_level;
    int traffic_class; /* RG_RAIL_AUTO: by the host's DCB settings */
    int gid_index;     /* RG_RAIL_AUTO: by rule */
    enum rg_path_choice path;
    enum rg_transport_kind kinds[RG_TRANSPORT_COUNT]; /* in order of preference */
    size_t kind_count;
    bool names_transports; /* the caller did, not the default */
    bool pushes;           /* rc speaks hipobj-rc-v2 */
    uint32_t connect_timeout_ms;
    uint32_t request_timeout_ms;
    uint32_t retries;
    uint64_t part_size;
    uint32_t parallel;
};

/* Looks up an environment variable; tests give their own. NULL stands for getenv. */
typedef const char *rg_environment(const char *name);

/* RG_STATUS_USAGE, RG_STATUS_CREDENTIALS, RG_STATUS_MEMORY. *ret_config is set on success only. */
int rg_config_read(const struct rg_client_options *options, rg_environment *environment,
                   struct rg_config *ret_config, struct rg_failure *failure);
void rg_config_free(struct rg_config *config);

/* ---- Files of profiles ---- */

/* What one profile says; NULL: nothing. */
struct rg_profile {
    bool found;
    char *access_key;
    char *secret_key;
    char *session_token;
    char *region;
    char *endpoint_url;
    char *s3_endpoint_url; /* of the [services] section the profile names */
    char *ca_bundle;
    char *addressing_style;
    char *elsewhere; /* name of a setting that gets credentials in a way not supported here */
};

void rg_profile_free(struct rg_profile *profile);

/*
 * Reads a credentials file ("[name]") or a config file ("[profile name]", "[default]",
 * "[services name]"): `key = value` lines, comments from '#' or ';', indented lines as settings of
 * the key above. Only fields that *profile does not have yet are filled in; when it fails, they are
 * too. RG_PARSE with the number of the line, RG_OUT_OF_MEMORY.
 */
int rg_profile_read(struct span text, bool is_config, const char *name, struct rg_profile *profile,
                    struct rg_error *err);

#endif
