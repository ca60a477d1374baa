/*
 * Judges of the group "gateway" (checks_gateway.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/filtered.h"
#include "host/text_remedy.h"
#include "host/words.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MAGIC_LUSTRE 0x0bd00bd0

/* ---- GW-SETTINGS ---- */

void judge_gw_settings(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gateway *gateway = &facts->gateway;
    if (!rg_host_has_gateway(facts)) {
        return;
    }
    if (gateway->settings_error[0]) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, "", "%s", gateway->settings_error);
        rg_find_value(finding, "%s is not valid", gateway->settings_at.path);
        rg_find_where(finding, &gateway->settings_at);
        rg_find_remedy(finding, "railgate config --config %s   # the effective settings",
                       gateway->settings_at.path);
        return;
    }
    if (!gateway->has_settings && rg_reading_is_absent(&gateway->settings_at)) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, "", "The settings file is not there.");
        rg_find_value(finding, "no %s", gateway->settings_at.path);
        rg_find_where(finding, &gateway->settings_at);
        rg_find_remedy(finding, "railgate config >%s   # the defaults, to begin with",
                       gateway->settings_at.path);
        return;
    }
    if (!gateway->has_settings) {
        (void)rg_find_unread(findings, "", &gateway->settings_at);
        return;
    }
    struct rg_finding *finding =
        rg_find(findings, gateway->rdma_off ? RG_VERDICT_WARN : RG_VERDICT_OK, "",
                gateway->rdma_off                      ? "The settings are valid, but rdma is off: "
                                                         "everything is declined."
                : rg_reading_ok(&gateway->settings_at) ? "The settings are valid."
                                                       : "No settings file: the defaults hold.");
    rg_find_value(finding, "port %" PRId64 ", admin-port %" PRId64 ", rdma-memory %" PRIu64 " MiB",
                  gateway->port, gateway->admin_port, gateway->rdma_memory >> 20);
    rg_find_where(finding, &gateway->settings_at);
    if (gateway->rdma_off) {
        rg_find_remedy(finding, "# in %s: rdma = auto", gateway->settings_at.path);
    }
}

/* ---- GW-PORT ---- */

static bool listens(const struct rg_listeners *listeners, int64_t port)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->sockets[i].port == port) {
            return true;
        }
    }
    return false;
}

static void judge_port(const struct rg_host_facts *facts, const char *name, int64_t port,
                       struct rg_findings *findings)
{
    const struct rg_host_gateway *gateway = &facts->gateway;
    const struct rg_host_service *service = rg_host_service(facts, RG_GATEWAY_UNIT);
    bool runs = service && service->pid, taken = listens(&gateway->listeners, port);
    bool bad = runs != taken;
    if (port == 0) {
        return;
    }
    struct rg_finding *finding =
        rg_find(findings,
                !bad   ? RG_VERDICT_OK
                : runs ? RG_VERDICT_FAIL
                       : RG_VERDICT_WARN,
                name,
                bad    ? runs ? "The gateway runs and nothing listens on port %" PRId64 "."
                              : "Something listens on port %" PRId64 ", and it is not the service "
                                "railgate."
                : runs ? "The gateway listens on port %" PRId64 "."
                       : "Port %" PRId64 " is free.",
                port);
    rg_find_value(finding, "%" PRId64, port);
    rg_find_where(finding, &gateway->sockets_at);
    if (bad) {
        rg_find_remedy(finding, "ss -tlnp 'sport = :%" PRId64 "'   # who it is", port);
        rg_find_remedy(finding,
                       runs ? "journalctl -u railgate -n 50"
                            : "# stop it, or set %s to "
                              "another port",
                       name);
    }
}

void judge_gw_port(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gateway *gateway = &facts->gateway;
    if (!rg_host_has_gateway(facts) || !gateway->has_settings) {
        return;
    }
    if (!rg_reading_ok(&gateway->sockets_at)) {
        (void)rg_find_unread(findings, "", &gateway->sockets_at);
        return;
    }
    judge_port(facts, "port", gateway->port, findings);
    judge_port(facts, "admin-port", gateway->admin_port, findings);
}

/* ---- GW-TREE ---- */

/* The Lustre mount that the gateway's directory is in; NULL. */
static const struct rg_mount *mount_below(const struct rg_host_facts *facts)
{
    const struct rg_mount *found = NULL;
    const char *root = facts->plan.root;
    for (size_t i = 0; i < facts->lustre.mount_count; i++) {
        const struct rg_mount *mount = &facts->lustre.mounts[i].mount;
        size_t len = strlen(mount->target);
        bool is_in = strncmp(root, mount->target, len) == 0 &&
                     (root[len] == '\0' || root[len] == '/' || strcmp(mount->target, "/") == 0);
        found = is_in && (!found || len > strlen(found->target)) ? mount : found;
    }
    return found;
}

/* As it is mounted, and with user xattrs: what is not said again (flock) would be lost. */
static void with_xattrs(const struct rg_mount *mount, struct rg_buf *out)
{
    struct span rest = rg_span_text(mount ? mount->options : "flock");
    while (rest.ptr) {
        struct span option = rg_span_cut(&rest, ',');
        /* seclabel is only shown: no mount takes it. */
        if (option.len && !rg_span_is(option, "nouser_xattr") &&
            !rg_span_is(option, "user_xattr") && !rg_span_is(option, "seclabel")) {
            rg_buf_addf(out, "%.*s,", RG_SPAN_ARG(option));
        }
    }
    rg_buf_add_text(out, "user_xattr");
}

static void mend_xattr(struct rg_finding *finding, const struct rg_host_facts *facts)
{
    const struct rg_mount *mount = mount_below(facts);
    if (facts->gateway.tree.type == MAGIC_LUSTRE) {
        const char *target = mount ? mount->target : facts->plan.root;
        RG_BUF(options, RG_MOUNT_OPTIONS_MAX + 32);
        with_xattrs(mount, &options);
        rg_find_remedy(finding, "umount %s   # a remount changes nothing", target);
        rg_find_remedy(finding, "mount -t lustre -o %s %s %s", rg_buf_text(&options),
                       mount ? mount->source : "MGSNID:/FSNAME", target);
        rg_find_remedy(finding, "# and user_xattr into the options in /etc/fstab");
    } else {
        rg_find_remedy(finding,
                       "findmnt -T %s   # serve a file system with user xattrs (xfs, ext4, "
                       "Lustre with user_xattr); tmpfs has none before Linux 6.6, NFS only "
                       "with 4.2",
                       facts->plan.root);
    }
}

#define FREE_PERCENT_LOW 5

static bool judge_xattrs(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gateway *gateway = &facts->gateway;
    const struct rg_host_tree *tree = &gateway->tree;
    /* The mount's answer is ENODATA; who may not write the directory gets only the reading's. */
    int number = tree->replace_errno == EACCES || tree->replace_errno == EPERM ||
                         tree->replace_errno == EROFS || tree->replace_errno < 0
                     ? tree->get_errno
                     : tree->replace_errno;
    if (tree->file_errno > 0) {
        number = tree->file_errno;
    }
    if (number == ENODATA || number == 0) {
        return true;
    }
    struct rg_finding *finding = rg_find(
        findings, number == EOPNOTSUPP ? RG_VERDICT_FAIL : RG_VERDICT_SKIP, facts->plan.root,
        number == EOPNOTSUPP ? "The file system has no user xattrs: objects cannot keep their "
                               "metadata."
                             : "User xattrs could not be tried.");
    rg_find_value(finding, "setxattr: errno %d, getxattr: errno %d", tree->replace_errno,
                  tree->get_errno);
    rg_find_where(finding, &gateway->tree_at);
    if (number == EOPNOTSUPP) {
        mend_xattr(finding, facts);
    }
    return false;
}

static void tell_unusable(const struct rg_host_facts *facts, const char *why, int number,
                          struct rg_findings *findings)
{
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_FAIL, facts->plan.root, "%s: %s.", why, strerror(number));
    rg_find_value(finding, "errno %d", number);
    rg_find_where(finding, &facts->gateway.tree_at);
    rg_find_remedy(finding, "findmnt -T %s; ls -ld %s; id   # run doctor as the service's user",
                   facts->plan.root, facts->plan.root);
}

void judge_gw_tree(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gateway *gateway = &facts->gateway;
    const struct rg_host_tree *tree = &gateway->tree;
    if (!facts->plan.root[0]) {
        return;
    }
    if (gateway->tree_at.state == RG_READ_UNREADABLE && gateway->tree_at.os_errno == ETIMEDOUT) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_FAIL, facts->plan.root,
                                             "The tree does not answer: the mount hangs.");
        rg_find_value(finding, "errno %d (%s)", ETIMEDOUT, strerror(ETIMEDOUT));
        rg_find_where(finding, &gateway->tree_at);
        rg_find_remedy(finding, "railgate doctor --for lustre-client   # for Lustre: which target");
        return;
    }
    if (!rg_reading_ok(&gateway->tree_at)) {
        (void)rg_find_unread(findings, facts->plan.root, &gateway->tree_at);
        return;
    }
    if (tree->open_errno) {
        tell_unusable(facts, "The tree cannot be opened", tree->open_errno, findings);
        return;
    }
    if (tree->write_errno > 0) {
        tell_unusable(facts, "This user may not write into the tree", tree->write_errno, findings);
        return;
    }
    if (!judge_xattrs(facts, findings)) {
        return;
    }
    bool full = tree->blocks && tree->blocks_free < tree->blocks / 100 * FREE_PERCENT_LOW;
    struct rg_finding *finding =
        rg_find(findings, full ? RG_VERDICT_WARN : RG_VERDICT_OK, facts->plan.root,
                full ? "The tree takes user xattrs; less than %d %% is free."
                     : "The tree takes user xattrs and has space.",
                FREE_PERCENT_LOW);
    rg_find_value(finding,
                  "f_type 0x%" PRIx64 ", O_TMPFILE %s, %" PRIu64 " of %" PRIu64 " blocks free",
                  tree->type,
                  tree->tmpfile_errno < 0    ? "not tried"
                  : tree->tmpfile_errno == 0 ? "yes"
                                             : "no",
                  tree->blocks_free, tree->blocks);
    rg_find_where(finding, &gateway->tree_at);
    if (full) {
        rg_find_remedy(finding, "df -h %s", facts->plan.root);
    }
}

/* ---- GW-PIN ---- */

void judge_gw_pin(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_gateway *gateway = &facts->gateway;
    const struct rg_host_service *service = rg_host_service(facts, RG_GATEWAY_UNIT);
    const struct rg_meminfo *info = &facts->memory.meminfo;
    char total[RG_BYTES_TEXT_MAX + 1], wants[RG_BYTES_TEXT_MAX + 1], limit[RG_BYTES_TEXT_MAX + 1];
    uint64_t need;
    if (!rg_host_has_gateway(facts) || !gateway->has_settings || gateway->rdma_off) {
        return;
    }
    if (!info->known) {
        (void)rg_find_unread(findings, "", &facts->memory.meminfo_at);
        return;
    }
    size_t rails = RG_MAX(facts->devices.rdma_count, (size_t)1);
    if (!rg_mul_checked(gateway->rdma_memory, (uint64_t)rails, &need)) {
        need = UINT64_MAX - 1;
    }
    uint64_t most = RG_WORDS_UNLIMITED;
    bool knows = rg_host_service_lock_limit(facts, service, &most);
    bool over = knows && need > most, much = need > info->total_bytes / 2;
    rg_bytes_text(need, wants);
    rg_bytes_text(info->total_bytes, total);
    rg_bytes_text(most, limit);
    struct rg_finding *finding =
        rg_find(findings,
                over   ? RG_VERDICT_FAIL
                : much ? RG_VERDICT_WARN
                       : RG_VERDICT_OK,
                "",
                over   ? "Staging memory is more than the service may lock."
                : much ? "Staging memory takes more than half of the machine's memory."
                       : "Staging memory fits.");
    rg_find_value(finding, "%s for %zu rails; memory %s, limit %s", wants, rails, total,
                  knows ? limit : "not known");
    rg_find_where(finding, &gateway->settings_at);
    if (over) {
        rg_remedy_unit(finding, RG_GATEWAY_UNIT, "LimitMEMLOCK=infinity");
    }
    if (over || much) {
        rg_find_remedy(finding, "# or a smaller rdma-memory in %s", gateway->settings_at.path);
    }
}
