/*
 * The checks that each role stands on. See unjudged.h.
 */
#include "host/unjudged.h"

#include "base/attr.h"
#include "base/buf.h"
#include "host/json.h"

#include <string.h>

#define HIDDEN_MAX 6

struct need {
    const char *check;
    unsigned profiles;
    const char *after; /* whose failure explains that this one has nothing to look at; or NULL */
};

#define ANY  RG_FOR(ANY)
#define USER (RG_FOR(GATEWAY) | RG_FOR(CLIENT) | RG_FOR(GPU_CLIENT) | RG_FOR(AISTOR))

static const struct need needs[] = {
    {"DEV-RDMA", RG_FOR_RDMA, NULL},
    {"UVERBS", ANY | USER, "DEV-RDMA"},
    {"PORT-STATE", RG_FOR_RDMA, "DEV-RDMA"},
    {"GID-TABLE", RG_FOR_RDMA, "DEV-RDMA"},
    {"MEMLOCK", USER, NULL},
    {"GPU-DRV", RG_FOR_GPU, NULL},
    {"PEERMEM", RG_FOR_GPU, "GPU-DRV"},
    {"MNT", RG_FOR_LUSTRE_CLIENT, NULL},
    {"RESP", RG_FOR_LUSTRE_CLIENT, "MNT"},
    {"LN-MOD", RG_FOR_LUSTRE, NULL},
    {"LN-NI", RG_FOR_LUSTRE, "LN-MOD"},
    {"LN-IP", RG_FOR_LUSTRE_SERVER, "LN-MOD"},
    {"GW-SETTINGS", RG_FOR_GATEWAY, NULL},
    {"AI-BUILD", RG_FOR_AISTOR, NULL},
    {"AI-ENV", RG_FOR_AISTOR, "AI-BUILD"},
};

unsigned rg_unjudged_profiles(const struct rg_check *check)
{
    unsigned profiles = 0;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(needs); i++) {
        if (strcmp(needs[i].check, check->id) == 0) {
            profiles |= needs[i].profiles;
        }
    }
    return profiles & ((1u << RG_PROFILE_COUNT) - 1);
}

static enum rg_verdict verdict_of(const struct rg_findings *findings, const char *id)
{
    return rg_findings_verdict(findings, rg_check_find(id));
}

static bool is_unjudged(const struct need *need, const struct rg_host_facts *facts,
                        const struct rg_findings *findings)
{
    return need->profiles & 1u << facts->plan.profile &&
           verdict_of(findings, need->check) == RG_VERDICT_SKIP &&
           !(need->after && verdict_of(findings, need->after) == RG_VERDICT_FAIL);
}

static bool has_text(const json_t *list, const char *text)
{
    size_t index;
    const json_t *item;
    json_array_foreach(list, index, item)
    {
        if (strcmp(json_string_value(item), text) == 0) {
            return true;
        }
    }
    return false;
}

/* Why, each reason once. A finding without an origin only says that there was nothing to judge.
 * False when out of memory. */
static bool add_hidden(const struct rg_findings *findings, const struct rg_check *check,
                       json_t *list)
{
    for (size_t i = 0; i < findings->count && json_array_size(list) < HIDDEN_MAX; i++) {
        const struct rg_finding *finding = &findings->list[i];
        if (finding->check == check && finding->where && finding->summary &&
            !has_text(list, finding->summary) &&
            json_array_append_new(list, json_string(finding->summary)) < 0) {
            return false;
        }
    }
    return true;
}

/* ---- How it would be seen ---- */

static void add_line(struct rg_buf *out, const char *line)
{
    rg_buf_addf(out, "%s%s", out->len ? "\n" : "", line);
}

/* What has to be run where more is to be seen: this, or what makes the tree anew. */
static void add_command(const struct rg_host_facts *facts, struct rg_buf *out)
{
    if (!facts->is_live) {
        rg_buf_add_text(out, "railgate doctor capture DIR");
        return;
    }
    rg_buf_add_text(out, "railgate doctor");
    if (facts->plan.profile != RG_PROFILE_ANY) {
        rg_buf_addf(out, " --for %s", rg_profile_name(facts->plan.profile));
    }
}

static void mend_container(const struct rg_host_facts *facts, struct rg_buf *out)
{
    const struct rg_host_container *container = &facts->container;
    if (container->is_kubernetes) {
        add_line(out, "# in the pod: hostNetwork: true, hostPID: true, securityContext.privileged: "
                      "true, and hostPath volumes for /sys and /dev/infiniband at the same paths; "
                      "then:");
        add_line(out, "");
        add_command(facts, out);
        return;
    }
    const char *runtime = strcmp(container->sign, "/.dockerenv") == 0 ? "docker" : "podman";
    add_line(out, "");
    rg_buf_addf(out,
                "%s run --rm --network=host --pid=host --device=/dev/infiniband "
                "--cap-add=IPC_LOCK -v /sys:/sys:ro IMAGE ",
                runtime);
    add_command(facts, out);
    add_line(out, "# or on the host itself, outside of the container");
}

static void mend(const struct rg_host_facts *facts, struct rg_buf *out)
{
    bool no_sysfs = !rg_reading_ok(&facts->devices.netdevs_at) ||
                    facts->devices.rdma_at.state == RG_READ_UNREADABLE;
    if (facts->container.is_here && no_sysfs) {
        mend_container(facts, out);
    } else if (!facts->is_live) {
        add_line(out, "# on the host itself, as root, into a new directory:");
        add_line(out, "railgate doctor capture DIR");
    } else {
        if (no_sysfs) {
            add_line(out, "mount -t sysfs sysfs /sys   # it is not mounted, or hidden from this "
                          "process");
        }
        add_line(out, facts->system.is_root ? "" : "sudo ");
        add_command(facts, out);
        rg_buf_add_text(out, " -v   # tells what each skipped check lacks");
    }
}

int rg_unjudged(const struct rg_host_facts *facts, const struct rg_findings *findings,
                json_t **ret_unjudged)
{
    RG_BUF(remedy, 2048);
    RG_CLEANUP(rg_host_json_free) json_t *checks = json_array();
    RG_CLEANUP(rg_host_json_free) json_t *hidden = json_array();
    *ret_unjudged = NULL;
    if (!checks || !hidden) {
        return -1;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(needs); i++) {
        if (is_unjudged(&needs[i], facts, findings) &&
            (json_array_append_new(checks, json_string(needs[i].check)) < 0 ||
             !add_hidden(findings, rg_check_find(needs[i].check), hidden))) {
            return -1;
        }
    }
    if (json_array_size(checks) == 0) {
        return 0;
    }
    mend(facts, &remedy);
    *ret_unjudged = json_pack("{s:O, s:O, s:s}", "checks", checks, "hidden", hidden, "remedy",
                              rg_buf_text(&remedy));
    return *ret_unjudged ? 0 : -1;
}
