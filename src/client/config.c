/*
 * Gathers the configuration of a client. Ranks, the first that says something wins: options, the
 * environment, the profile in the credentials file, the profile in the config file, defaults. A
 * profile that the options name outranks keys in the environment, as it does in aws-cli.
 */
#include "client/config.h"

#include "client/failure.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "rdma/dc_key.h"
#include "rdma/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_ENDPOINT   "http://127.0.0.1:9000"
#define DEFAULT_REGION     "us-east-1"
#define DEFAULT_TRANSPORTS "dc,rc,ofi"

/* The rc transport, spoken to gateways that know it by the three routes of this dialect. */
#define PUSH_WORD          "hipobj-rc-v2"
#define DEFAULT_CONNECT_MS 5000
#define DEFAULT_REQUEST_MS 30000
#define DEFAULT_RETRIES    3
#define DEFAULT_PART_SIZE  ((uint64_t)64 << 20)
#define DEFAULT_PARALLEL   8
#define DEFAULT_HOP_LIMIT  64
#define NAME_BYTES_MAX     255u
#define PATH_BYTES_MAX     4096u

/* The texts that were found, before they are checked. Spans borrow from the sources. */
struct sources {
    const struct rg_client_options *options;
    rg_environment *environment;
    struct rg_profile profile;
    char *profile_name;
    char *credentials_path;
    char *config_path;
};

static void free_sources(struct sources *sources)
{
    rg_profile_free(&sources->profile);
    free(sources->profile_name);
    free(sources->credentials_path);
    free(sources->config_path);
}

/* An empty variable counts as one that is not set. */
static const char *variable(const struct sources *sources, const char *name)
{
    const char *value = sources->environment(name);
    return value && value[0] ? value : NULL;
}

static const char *process_environment(const char *name)
{
    return getenv(name);
}

static const char *first(const char *a, const char *b)
{
    return a && a[0] ? a : b;
}

static int copy_text(const char *text, char **ret_text, struct rg_failure *failure)
{
    *ret_text = text ? strdup(text) : NULL;
    return text && !*ret_text ? rg_failure_memory(failure) : 0;
}

/* ---- Files ---- */

static int read_whole(int fd, const char *path, struct rg_buf *ret_text, struct rg_failure *failure)
{
    for (;;) {
        char *at = rg_buf_reserve(ret_text, 4096);
        if (!at) {
            return rg_failure_set(failure, RG_STATUS_USAGE, "%s is larger than %u bytes.", path,
                                  RG_PROFILE_FILE_MAX);
        }
        ssize_t got = read(fd, at, 4096);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return rg_failure_errno(failure, RG_STATUS_USAGE, errno, "%s cannot be read", path);
        }
        if (got == 0) {
            return 0;
        }
        rg_buf_grew(ret_text, (size_t)got);
    }
}

/* A file that is not there says nothing. */
static int read_profile_file(struct sources *sources, const char *path, bool is_config,
                             struct rg_failure *failure)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            return 0;
        }
        return rg_failure_errno(failure, RG_STATUS_USAGE, errno, "%s cannot be opened", path);
    }
    RG_BUF(text, RG_PROFILE_FILE_MAX);
    int rc = read_whole(fd, path, &text, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    rc = rg_profile_read(rg_buf_span(&text), is_config, sources->profile_name, &sources->profile,
                         &err);
    if (text.data) {
        explicit_bzero(text.data, text.len);
    }
    if (rc == 0) {
        return 0;
    }
    (void)rg_failure_take(failure, RG_STATUS_USAGE, &err);
    return err.code == RG_OUT_OF_MEMORY ? -RG_STATUS_MEMORY
                                        : rg_failure_context(failure, "%s", path);
}

static int home_directory(const struct sources *sources, char *path, size_t room)
{
    const char *home = variable(sources, "HOME");
    struct passwd entry;
    struct passwd *found = NULL;
    char text[PATH_BYTES_MAX];
    if (!home && getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found) {
        home = entry.pw_dir;
    }
    int len = snprintf(path, room, "%s", home ? home : "");
    return len > 0 && (size_t)len < room ? 0 : -1;
}

/* "~/..." is what people write into AWS_CONFIG_FILE; the shell does not expand it there. */
static int name_file(const struct sources *sources, const char *name, const char *fallback,
                     char **ret_path, struct rg_failure *failure)
{
    const char *named = variable(sources, name);
    if (named && named[0] != '~') {
        return copy_text(named, ret_path, failure);
    }
    char home[PATH_BYTES_MAX];
    char path[PATH_BYTES_MAX + NAME_BYTES_MAX];
    if (home_directory(sources, home, sizeof home) < 0) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/%s", home, named ? named + strspn(named, "~/") : fallback);
    return copy_text(path, ret_path, failure);
}

static int name_profile(struct sources *sources, struct rg_failure *failure)
{
    const char *name = first(sources->options->profile, variable(sources, "AWS_PROFILE"));
    name = first(name, variable(sources, "AWS_DEFAULT_PROFILE"));
    return copy_text(first(name, "default"), &sources->profile_name, failure);
}

static bool is_profile_named(const struct sources *sources)
{
    return first(sources->options->profile, variable(sources, "AWS_PROFILE")) != NULL;
}

static int read_files(struct sources *sources, struct rg_failure *failure)
{
    int rc = name_profile(sources, failure);
    if (rc == 0) {
        rc = name_file(sources, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials",
                       &sources->credentials_path, failure);
    }
    if (rc == 0) {
        rc = name_file(sources, "AWS_CONFIG_FILE", ".aws/config", &sources->config_path, failure);
    }
    if (rc == 0 && sources->credentials_path) {
        rc = read_profile_file(sources, sources->credentials_path, false, failure);
    }
    if (rc == 0 && sources->config_path) {
        rc = read_profile_file(sources, sources->config_path, true, failure);
    }
    if (rc == 0 && is_profile_named(sources) && !sources->profile.found) {
        rc = rg_failure_set(
            failure, RG_STATUS_USAGE, "The profile \"%.100s\" stands neither in %s nor in %s.",
            sources->profile_name, first(sources->credentials_path, "~/.aws/credentials"),
            first(sources->config_path, "~/.aws/config"));
    }
    return rc;
}

/* ---- Endpoint ---- */

static int fail_endpoint(struct rg_failure *failure, const char *text, const char *why)
{
    return rg_failure_set(failure, RG_STATUS_USAGE, "The endpoint \"%.200s\" %s.", text, why);
}

static bool is_host_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
        if (!is_fine) {
            return false;
        }
    }
    return name.len > 0 && name.len <= NAME_BYTES_MAX;
}

static bool is_ipv6(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!strchr("0123456789abcdefABCDEF:.", name.ptr[i]) || name.ptr[i] == '\0') {
            return false;
        }
    }
    return name.len > 1 && name.len <= NAME_BYTES_MAX;
}

/* Cuts "host", "host:port", "[v6]" or "[v6]:port". */
static bool cut_authority(struct span text, struct span *ret_name, struct span *ret_port,
                          bool *ret_bracketed)
{
    *ret_bracketed = text.len > 0 && text.ptr[0] == '[';
    if (*ret_bracketed) {
        ptrdiff_t end = rg_span_find(text, ']');
        if (end < 0 || !is_ipv6(rg_span(text.ptr + 1, (size_t)end - 1))) {
            return false;
        }
        *ret_name = rg_span(text.ptr + 1, (size_t)end - 1);
        text = rg_span_skip(text, (size_t)end + 1);
    } else {
        ptrdiff_t colon = rg_span_find(text, ':');
        *ret_name = rg_span_head(text, colon < 0 ? text.len : (size_t)colon);
        text = rg_span_skip(text, ret_name->len);
        if (!is_host_name(*ret_name)) {
            return false;
        }
    }
    *ret_port = RG_SPAN_EMPTY;
    if (text.len == 0) {
        return true;
    }
    *ret_port = rg_span_skip(text, 1);
    return text.ptr[0] == ':' && ret_port->len > 0;
}

static int read_endpoint(const char *text, struct rg_config *config, struct rg_failure *failure)
{
    struct span rest = rg_span_text(text);
    if (rest.len >= 8 && strncasecmp(rest.ptr, "https://", 8) == 0) {
        config->https = true;
        rest = rg_span_skip(rest, 8);
    } else if (rest.len >= 7 && strncasecmp(rest.ptr, "http://", 7) == 0) {
        rest = rg_span_skip(rest, 7);
    } else {
        return fail_endpoint(failure, text, "must begin with http:// or https://");
    }
    if (rest.len && rest.ptr[rest.len - 1] == '/') {
        rest = rg_span_head(rest, rest.len - 1);
    }
    if (rg_span_find(rest, '/') >= 0) {
        return fail_endpoint(failure, text, "has a path, and must be a scheme, a host and a port");
    }
    struct span name;
    struct span port;
    bool is_bracketed;
    uint64_t number = config->https ? 443 : 80;
    if (!cut_authority(rest, &name, &port, &is_bracketed)) {
        return fail_endpoint(failure, text, "must be a scheme, a host and a port, nothing else");
    }
    if (port.len && (!rg_span_to_u64(port, &number) || number == 0 || number > 65535)) {
        return fail_endpoint(failure, text, "has a port that is not one");
    }
    char host[NAME_BYTES_MAX + 16];
    char whole[NAME_BYTES_MAX + 32];
    char digits[8];
    bool is_usual = number == (config->https ? 443u : 80u);
    snprintf(digits, sizeof digits, "%u", (unsigned)number);
    snprintf(host, sizeof host, "%s%.*s%s%s%s", is_bracketed ? "[" : "", RG_SPAN_ARG(name),
             is_bracketed ? "]" : "", is_usual ? "" : ":", is_usual ? "" : digits);
    snprintf(whole, sizeof whole, "%s://%s", config->https ? "https" : "http", host);
    config->name = rg_span_dup(name);
    config->host = strdup(host);
    config->origin = strdup(whole);
    config->port = strdup(digits);
    return config->name && config->host && config->origin && config->port
               ? 0
               : rg_failure_memory(failure);
}

static int choose_endpoint(const struct sources *sources, struct rg_config *config,
                           struct rg_failure *failure)
{
    const char *text = sources->options->endpoint;
    const char *ignore = variable(sources, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    if (!ignore || strcasecmp(ignore, "true") != 0) {
        text = first(text, variable(sources, "AWS_ENDPOINT_URL_S3"));
        text = first(text, variable(sources, "AWS_ENDPOINT_URL"));
        text = first(text, sources->profile.s3_endpoint_url);
        text = first(text, sources->profile.endpoint_url);
    }
    return read_endpoint(first(text, DEFAULT_ENDPOINT), config, failure);
}

/* ---- Credentials ---- */

static int refuse_session(struct rg_failure *failure, const char *where)
{
    return rg_failure_set(failure, RG_STATUS_CREDENTIALS,
                          "%s gives a session token, and temporary credentials are not supported.",
                          where);
}

/* `access` or `secret` may be NULL. 1: both were there. */
static int take_pair(const char *access, const char *secret, const char *where,
                     struct rg_config *config, struct rg_failure *failure)
{
    if (!first(access, NULL) && !first(secret, NULL)) {
        return 0;
    }
    if (!first(access, NULL) || !first(secret, NULL)) {
        return rg_failure_set(failure, RG_STATUS_CREDENTIALS, "%s: the %s key is missing.", where,
                              first(access, NULL) ? "secret" : "access");
    }
    int rc = copy_text(access, &config->access_key, failure);
    if (rc == 0) {
        rc = copy_text(secret, &config->secret_key, failure);
    }
    return rc < 0 ? rc : 1;
}

static int take_environment(const struct sources *sources, struct rg_config *config,
                            struct rg_failure *failure)
{
    int rc = take_pair(variable(sources, "AWS_ACCESS_KEY_ID"),
                       variable(sources, "AWS_SECRET_ACCESS_KEY"),
                       "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", config, failure);
    if (rc == 1 && variable(sources, "AWS_SESSION_TOKEN")) {
        return refuse_session(failure, "AWS_SESSION_TOKEN");
    }
    return rc;
}

static int take_profile(const struct sources *sources, struct rg_config *config,
                        struct rg_failure *failure)
{
    char where[NAME_BYTES_MAX];
    snprintf(where, sizeof where, "The profile \"%.100s\"", sources->profile_name);
    const struct rg_profile *profile = &sources->profile;
    int rc = take_pair(profile->access_key, profile->secret_key, where, config, failure);
    if (rc == 1 && profile->session_token) {
        return refuse_session(failure, where);
    }
    if (rc == 0 && profile->elsewhere) {
        return rg_failure_set(failure, RG_STATUS_CREDENTIALS,
                              "%s gets its credentials by %.60s, which is not supported.", where,
                              profile->elsewhere);
    }
    return rc;
}

static int choose_credentials(const struct sources *sources, struct rg_config *config,
                              struct rg_failure *failure)
{
    const struct rg_client_options *options = sources->options;
    int rc = take_pair(options->access_key, options->secret_key, "The options", config, failure);
    if (rc == 0 && !first(options->profile, NULL)) {
        rc = take_environment(sources, config, failure);
    }
    if (rc == 0) {
        rc = take_profile(sources, config, failure);
    }
    if (rc == 0) {
        return rg_failure_set(failure, RG_STATUS_CREDENTIALS,
                              "No credentials were found: set AWS_ACCESS_KEY_ID and "
                              "AWS_SECRET_ACCESS_KEY, or write %s.",
                              first(sources->credentials_path, "~/.aws/credentials"));
    }
    return rc < 0 ? rc : 0;
}

/* ---- The rest ---- */

static bool find_kind(struct span word, enum rg_transport_kind *ret_kind)
{
    for (int kind = 0; kind < RG_TRANSPORT_COUNT; kind++) {
        if (rg_span_is(word, rg_transport_kind_name((enum rg_transport_kind)kind))) {
            *ret_kind = (enum rg_transport_kind)kind;
            return true;
        }
    }
    return false;
}

static int choose_transports(const char *text, struct rg_config *config, struct rg_failure *failure)
{
    struct span rest = rg_span_text(text);
    while (rest.ptr) {
        struct span word = rg_span_trim(rg_span_cut(&rest, ','));
        enum rg_transport_kind kind;
        if (rg_span_is(word, PUSH_WORD)) {
            config->pushes = true;
            kind = RG_TRANSPORT_RC;
        } else if (!find_kind(word, &kind)) {
            return rg_failure_set(failure, RG_STATUS_USAGE,
                                  "\"%.*s\" is not a transport: dc, rc (also as " PUSH_WORD
                                  ") and ofi are.",
                                  (int)RG_MIN(word.len, (size_t)40), word.ptr);
        }
        for (size_t i = 0; i < config->kind_count; i++) {
            if (config->kinds[i] == kind) {
                return rg_failure_set(failure, RG_STATUS_USAGE, "The transport %s is named twice.",
                                      rg_transport_kind_name(kind));
            }
        }
        config->kinds[config->kind_count++] = kind;
    }
    return 0;
}

static int choose_number(const char *name, uint64_t asked, uint64_t fallback, uint64_t least,
                         uint64_t most, uint64_t *ret_value, struct rg_failure *failure)
{
    *ret_value = asked ? asked : fallback;
    if (*ret_value >= least && *ret_value <= most) {
        return 0;
    }
    return rg_failure_set(
        failure, RG_STATUS_USAGE, "%s is %llu, and must lie between %llu and %llu.", name,
        (unsigned long long)*ret_value, (unsigned long long)least, (unsigned long long)most);
}

static int choose_numbers(const struct rg_client_options *options, struct rg_config *config,
                          struct rg_failure *failure)
{
    uint64_t connect_ms;
    uint64_t request_ms;
    uint64_t retries;
    uint64_t parallel;
    bool is_once = options->retries == RG_NO_RETRIES;
    int rc = choose_number("connect_timeout_ms", options->connect_timeout_ms, DEFAULT_CONNECT_MS, 1,
                           RG_TIMEOUT_MS_MAX, &connect_ms, failure);
    if (rc == 0) {
        rc = choose_number("request_timeout_ms", options->request_timeout_ms, DEFAULT_REQUEST_MS, 1,
                           RG_TIMEOUT_MS_MAX, &request_ms, failure);
    }
    if (rc == 0) {
        rc = choose_number("retries", is_once ? 0 : options->retries, DEFAULT_RETRIES, 1,
                           RG_RETRIES_MAX, &retries, failure);
    }
    if (rc == 0) {
        rc = choose_number("part_size", options->part_size, DEFAULT_PART_SIZE, RG_PART_SIZE_MIN,
                           RG_PART_SIZE_MAX, &config->part_size, failure);
    }
    if (rc == 0) {
        rc = choose_number("parallel", options->parallel, DEFAULT_PARALLEL, 1, RG_PARALLEL_MAX,
                           &parallel, failure);
    }
    if (rc == 0) {
        config->connect_timeout_ms = (uint32_t)connect_ms;
        config->request_timeout_ms = (uint32_t)request_ms;
        config->retries = is_once ? 0 : (uint32_t)retries;
        config->parallel = (uint32_t)parallel;
    }
    return rc;
}

static int choose_texts(const struct sources *sources, struct rg_config *config,
                        struct rg_failure *failure)
{
    const struct rg_client_options *options = sources->options;
    const struct rg_profile *profile = &sources->profile;
    const char *region = first(options->region, variable(sources, "AWS_REGION"));
    region = first(region, variable(sources, "AWS_DEFAULT_REGION"));
    region = first(first(region, profile->region), DEFAULT_REGION);
    const char *ca = first(options->ca_file, variable(sources, "AWS_CA_BUNDLE"));
    const char *style = profile->addressing_style;
    config->virtual_host = options->virtual_host || (style && strcmp(style, "virtual") == 0);
    int rc = copy_text(region, &config->region, failure);
    if (rc == 0) {
        rc = copy_text(first(ca, profile->ca_bundle), &config->ca_file, failure);
    }
    if (rc == 0) {
        rc = copy_text(first(options->device, NULL), &config->device, failure);
    }
    return rc;
}

static int choose_dc_key(const struct sources *sources, struct rg_config *config,
                         struct rg_failure *failure)
{
    struct rg_error err = RG_ERROR_INIT;
    const char *path =
        first(sources->options->dc_key_file, variable(sources, "RAILGATE_RDMA_DC_KEY_FILE"));
    config->has_dc_key = path != NULL;
    if (path && rg_dc_key_read(path, "dc_key_file", &config->dc_key, &err) < 0) {
        return rg_failure_set(failure, RG_STATUS_USAGE, "%s.", err.message);
    }
    return 0;
}

/* ---- Packets of dc and rc ---- */

/* The option, or else the variable, as a number; `automatic` where neither is given, or "auto". */
static int choose_word(const struct sources *sources, const char *option, const char *name,
                       const char *variable_name, int automatic, uint64_t most, int *ret_value,
                       struct rg_failure *failure)
{
    uint64_t value;
    const char *text = first(option, variable(sources, variable_name));
    *ret_value = automatic;
    if (!text || strcmp(text, "auto") == 0) {
        return 0;
    }
    if (!rg_span_to_u64(rg_span_text(text), &value) || value > most) {
        return rg_failure_set(failure, RG_STATUS_USAGE,
                              "%s is \"%.40s\", and must be auto or a number up to %llu.", name,
                              text, (unsigned long long)most);
    }
    *ret_value = (int)value;
    return 0;
}

static bool is_mtu(int bytes)
{
    return bytes == 0 || bytes == 256 || bytes == 512 || bytes == 1024 || bytes == 2048 ||
           bytes == 4096;
}

static int choose_packets(const struct sources *sources, struct rg_config *config,
                          struct rg_failure *failure)
{
    const struct rg_client_options *options = sources->options;
    int mtu = 0;
    int hop_limit = 0;
    int level = 0;
    const struct {
        const char *option;
        unsigned number; /* the option, where it is one; 0: not given */
        const char *name, *variable;
        int automatic;
        uint64_t most;
        int *value;
    } rows[] = {
        {options->traffic_class, 0, "traffic_class", "RAILGATE_RDMA_TRAFFIC_CLASS", RG_RAIL_AUTO,
         255, &config->traffic_class},
        {options->gid_index, 0, "gid_index", "RAILGATE_RDMA_GID_INDEX", RG_RAIL_AUTO, 255,
         &config->gid_index},
        {NULL, options->mtu, "mtu", "RAILGATE_RDMA_MTU", 0, 4096, &mtu},
        {NULL, options->hop_limit, "hop_limit", "RAILGATE_RDMA_HOP_LIMIT", DEFAULT_HOP_LIMIT, 255,
         &hop_limit},
        {NULL, options->service_level, "service_level", "RAILGATE_RDMA_SERVICE_LEVEL", 0, 15,
         &level},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < RG_ARRAY_LENGTH(rows); i++) {
        char digits[16];
        snprintf(digits, sizeof digits, "%u", rows[i].number);
        rc = choose_word(sources, rows[i].number ? digits : rows[i].option, rows[i].name,
                         rows[i].variable, rows[i].automatic, rows[i].most, rows[i].value, failure);
    }
    if (rc == 0 && !is_mtu(mtu)) {
        rc = rg_failure_set(failure, RG_STATUS_USAGE,
                            "mtu is %d, and must be 256, 512, 1024, 2048 or 4096.", mtu);
    }
    if (rc == 0 && hop_limit == 0) {
        rc = rg_failure_set(failure, RG_STATUS_USAGE, "hop_limit must not be 0.");
    }
    config->mtu = (uint32_t)mtu;
    config->hop_limit = (uint8_t)hop_limit;
    config->service_level = (uint8_t)level;
    return rc;
}

static int choose_all(struct sources *sources, struct rg_config *config, struct rg_failure *failure)
{
    const struct rg_client_options *options = sources->options;
    if ((unsigned)options->path > RG_PATH_HTTP_ONLY) {
        return rg_failure_set(failure, RG_STATUS_USAGE, "path is not one of enum rg_path_choice.");
    }
    config->path = options->path;
    config->mixed_range_replies = options->mixed_range_replies;
    int rc = read_files(sources, failure);
    if (rc == 0) {
        rc = choose_endpoint(sources, config, failure);
    }
    if (rc == 0) {
        rc = choose_credentials(sources, config, failure);
    }
    if (rc == 0) {
        rc = choose_texts(sources, config, failure);
    }
    if (rc == 0) {
        rc = choose_dc_key(sources, config, failure);
    }
    if (rc == 0) {
        rc = choose_packets(sources, config, failure);
    }
    config->names_transports = first(options->transports, NULL) != NULL;
    if (rc == 0) {
        rc = choose_transports(first(options->transports, DEFAULT_TRANSPORTS), config, failure);
    }
    return rc == 0 ? choose_numbers(options, config, failure) : rc;
}

int rg_config_read(const struct rg_client_options *options, rg_environment *environment,
                   struct rg_config *ret_config, struct rg_failure *failure)
{
    static const struct rg_client_options none;
    RG_CLEANUP(free_sources)
    struct sources sources = {
        .options = options ? options : &none,
        .environment = environment ? environment : process_environment,
    };
    struct rg_config config = {.https = false};
    int rc = choose_all(&sources, &config, failure);
    if (rc < 0) {
        rg_config_free(&config);
        return rc;
    }
    *ret_config = config;
    return 0;
}

void rg_config_free(struct rg_config *config)
{
    free(config->origin);
    free(config->host);
    free(config->name);
    free(config->port);
    free(config->region);
    free(config->access_key);
    if (config->secret_key) {
        explicit_bzero(config->secret_key, strlen(config->secret_key));
    }
    free(config->secret_key);
    free(config->ca_file);
    free(config->device);
    memset(config, 0, sizeof *config);
}
