/*
 * Judges of the group "lustre" (checks_lustre.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/filtered.h"
#include "host/stale_nid.h"
#include "host/text_remedy.h"
#include "host/words.h"

#include "base/checked.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- MNT ---- */

static const struct rg_host_lustre_mount *mounted_at(const struct rg_host_lustre *lustre,
                                                     const char *target)
{
    for (size_t i = 0; i < lustre->mount_count; i++) {
        if (strcmp(lustre->mounts[i].mount.target, target) == 0) {
            return &lustre->mounts[i];
        }
    }
    return NULL;
}

static bool is_client_line(const struct rg_mount *line)
{
    struct span nids;
    char fsname[RG_LUSTRE_NAME_MAX + 1];
    return rg_lustre_source_parse(rg_span_text(line->source), &nids, fsname);
}

void judge_mnt(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    if (!rg_reading_ok(&lustre->mounts_at)) {
        (void)rg_find_unread(findings, "", &lustre->mounts_at);
        return;
    }
    for (size_t i = 0; i < lustre->fstab.count; i++) {
        const struct rg_mount *line = &lustre->fstab.mounts[i];
        if (!is_client_line(line) || rg_mount_has(line->options, "noauto") ||
            mounted_at(lustre, line->target)) {
            continue;
        }
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_FAIL, line->target,
                                             "It stands in fstab and is not mounted.");
        rg_find_value(finding, "%s %s lustre %s", line->source, line->target, line->options);
        rg_find_where(finding, &lustre->fstab_at);
        rg_find_remedy(finding, "lctl list_nids   # LNet must be up; else: systemctl start lnet");
        rg_find_remedy(finding, "mount %s && dmesg | tail", line->target);
    }
    for (size_t i = 0; i < lustre->mount_count; i++) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, lustre->mounts[i].mount.target, "Mounted.");
        rg_find_value(finding, "%s %s", lustre->mounts[i].mount.source,
                      lustre->mounts[i].mount.options);
        rg_find_where(finding, &lustre->mounts_at);
    }
    if (lustre->mount_count == 0 && lustre->fstab.count == 0 &&
        facts->plan.profile == RG_PROFILE_LUSTRE_CLIENT) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, "", "No Lustre file system is mounted.");
        rg_find_value(finding, "no line of type lustre");
        rg_find_where(finding, &lustre->mounts_at);
        rg_find_remedy(finding, "mount -t lustre -o user_xattr MGSNID:/FSNAME /mnt/FSNAME");
    }
}

/* ---- RESP ---- */

static bool is_of(const struct rg_host_lustre_import *import, const char *fsname)
{
    size_t len = strlen(fsname);
    return strncmp(import->import.target, fsname, len) == 0 && import->import.target[len] == '-';
}

static bool is_of_mount(const struct rg_host_lustre_mount *mount, const char *target)
{
    size_t len = strlen(mount->fsname);
    return len && strncmp(target, mount->fsname, len) == 0 && target[len] == '-';
}

/* The targets that are not well, as one line. */
static void add_unwell(const struct rg_host_lustre *lustre, const char *fsname, struct rg_buf *out)
{
    for (size_t i = 0; i < lustre->import_count; i++) {
        const struct rg_host_lustre_import *import = &lustre->imports[i];
        if (rg_reading_ok(&import->at) && is_of(import, fsname) &&
            !rg_lustre_import_is_well(&import->import)) {
            rg_buf_addf(out, "%s%s %s", out->len ? ", " : "", import->import.target,
                        import->import.state);
        }
    }
}

static void judge_answer(const struct rg_host_facts *facts,
                         const struct rg_host_lustre_mount *mount, struct rg_findings *findings)
{
    RG_BUF(unwell, 2048);
    bool hangs = mount->tree_at.state == RG_READ_UNREADABLE && mount->tree_at.os_errno == ETIMEDOUT;
    if (!hangs && !rg_reading_ok(&mount->tree_at)) {
        (void)rg_find_unread(findings, mount->mount.target, &mount->tree_at);
        return;
    }
    if (!hangs && mount->tree.open_errno == 0) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, mount->mount.target, "It answers.");
        rg_find_where(finding, &mount->tree_at);
        return;
    }
    if (!hangs && (mount->tree.open_errno == EACCES || mount->tree.open_errno == EPERM)) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_OK, mount->mount.target,
                                             "It answers; this user may not look inside.");
        rg_find_where(finding, &mount->tree_at);
        return;
    }
    add_unwell(&facts->lustre, mount->fsname, &unwell);
    struct rg_finding *finding =
        hangs ? rg_find(findings, RG_VERDICT_FAIL, mount->mount.target,
                        "The mount hangs; not connected: %s.",
                        unwell.len ? rg_buf_text(&unwell) : "not known")
              : rg_find(findings, RG_VERDICT_FAIL, mount->mount.target,
                        "The mount answers with an error: %s.", strerror(mount->tree.open_errno));
    rg_find_value(finding, hangs ? "no answer in time" : "errno %d", mount->tree.open_errno);
    rg_find_where(finding, &mount->tree_at);
    rg_find_remedy(finding,
                   "lctl get_param -n mdc.*.mds_server_uuid osc.*.ost_server_uuid   # never "
                   "waits; df and ls would");
    rg_find_remedy(finding, "lctl dk /tmp/dk.$(hostname)   # now: the buffer is a ring");
    rg_find_remedy(finding, "lctl set_param printk=+neterror   # for the next time");
}

void judge_resp(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lustre.mount_count; i++) {
        judge_answer(facts, &facts->lustre.mounts[i], findings);
    }
}

/* ---- IMPORT ---- */

void judge_import(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    size_t well = 0;
    for (size_t i = 0; i < lustre->import_count; i++) {
        const struct rg_host_lustre_import *import = &lustre->imports[i];
        if (!rg_reading_ok(&import->at)) {
            (void)rg_find_unread(findings, import->import.target, &import->at);
            continue;
        }
        if (rg_lustre_import_is_well(&import->import)) {
            well++;
            continue;
        }
        int index = rg_lustre_target_index(import->import.target);
        struct rg_finding *finding = rg_find(
            findings, RG_VERDICT_WARN, import->import.target, "The connection is %s%s.",
            import->import.state, import->import.deactivated ? ", and deactivated by hand" : "");
        rg_find_value(finding, "index %d, %s", index,
                      import->import.connection[0] ? import->import.connection : "-");
        rg_find_where(finding, &import->at);
        if (import->import.deactivated) {
            rg_find_remedy(finding,
                           "lctl --device $(lctl dl | awk '/%s/ {print $1; exit}') activate",
                           import->import.target);
        } else {
            rg_find_remedy(finding, "lctl get_param *.%s*.import   # where it tries",
                           import->import.target);
            rg_find_remedy(finding, "# on the server: lctl dl | grep %s; is the target mounted?",
                           import->import.target);
        }
    }
    if (well) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, "", "%zu targets are connected.", well);
        rg_find_where(finding, &lustre->imports_at);
    }
}

/* ---- XATTR-MODE, XATTR-PROBE ---- */

static void mend_xattr(struct rg_finding *finding, const struct rg_mount *mount)
{
    rg_find_remedy(finding, "umount %s", mount->target);
    rg_find_remedy(finding, "mount -t lustre -o user_xattr %s %s", mount->source, mount->target);
    rg_find_remedy(finding, "# not mount -o remount: it answers success and changes nothing; put "
                            "user_xattr into fstab as well");
}

void judge_xattr_mode(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lustre.mount_count; i++) {
        const struct rg_mount *mount = &facts->lustre.mounts[i].mount;
        bool off = rg_mount_has(mount->options, "nouser_xattr");
        bool on = rg_mount_has(mount->options, "user_xattr");
        struct rg_finding *finding =
            rg_find(findings,
                    off  ? RG_VERDICT_WARN
                    : on ? RG_VERDICT_OK
                         : RG_VERDICT_SKIP,
                    mount->target,
                    off  ? "Mounted without user xattrs, which is Lustre's default."
                    : on ? "Mounted with user_xattr."
                         : "The options do not say (Lustre before 2.15); see XATTR-PROBE.");
        rg_find_value(finding, "%s", mount->options);
        rg_find_where(finding, &facts->lustre.mounts_at);
        if (off) {
            mend_xattr(finding, mount);
        }
    }
}

static void judge_setxattr(const struct rg_host_lustre_mount *mount, struct rg_findings *findings)
{
    const struct rg_host_tree *tree = &mount->tree;
    bool denied = tree->replace_errno == EACCES || tree->replace_errno == EPERM ||
                  tree->replace_errno == EROFS;
    int number = denied ? tree->get_errno : tree->replace_errno;
    if (!rg_reading_ok(&mount->tree_at) || tree->open_errno) {
        (void)rg_find_unread(findings, mount->mount.target, &mount->tree_at);
        return;
    }
    if (tree->file_errno >= 0 && tree->file_errno != EACCES && tree->file_errno != EPERM) {
        number = tree->file_errno; /* a file was really made for it */
        denied = false;
    }
    bool none = number == EOPNOTSUPP, fine = number == ENODATA || number == 0;
    struct rg_finding *finding = rg_find(
        findings,
        none   ? RG_VERDICT_FAIL
        : fine ? RG_VERDICT_OK
               : RG_VERDICT_SKIP,
        mount->mount.target,
        none   ? "setxattr fails: this mount has no user xattrs, not even for root."
        : fine ? denied ? "getxattr works; this user may not try setxattr here." : "setxattr works."
               : "It could not be tried: %s.",
        strerror(number < 0 ? EINVAL : number));
    rg_find_value(finding, "setxattr(XATTR_REPLACE): errno %d, getxattr: errno %d, on a file: %d",
                  tree->replace_errno, tree->get_errno, tree->file_errno);
    rg_find_where(finding, &mount->tree_at);
    if (none) {
        mend_xattr(finding, &mount->mount);
        if (rg_mount_has(mount->mount.options, "user_xattr")) {
            rg_find_remedy(finding,
                           "# the options say user_xattr: the server refuses them. On the MDS: "
                           "lctl get_param mdt.*.* | grep xattr, and dmesg here for "
                           "\"disabling user_xattr\"");
        }
    }
}

void judge_xattr_probe(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lustre.mount_count; i++) {
        judge_setxattr(&facts->lustre.mounts[i], findings);
    }
}

/* ---- ODIRECT, REFLINK, FALLOC: of Lustre mounts, and of the tree that the gateway serves ---- */

typedef void tree_judge(const char *subject, const struct rg_host_tree *tree,
                        const struct rg_reading *at, struct rg_findings *findings);

static void judge_trees(const struct rg_host_facts *facts, tree_judge *judge,
                        struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lustre.mount_count; i++) {
        const struct rg_host_lustre_mount *mount = &facts->lustre.mounts[i];
        judge(mount->mount.target, &mount->tree, &mount->tree_at, findings);
    }
    if (facts->plan.root[0]) {
        judge(facts->plan.root, &facts->gateway.tree, &facts->gateway.tree_at, findings);
    }
}

/* Whether it was tried; says why not. */
static bool was_tried(const char *subject, int number, const struct rg_reading *at,
                      struct rg_findings *findings)
{
    if (!rg_reading_ok(at)) {
        (void)rg_find_unread(findings, subject, at);
        return false;
    }
    if (number < 0) {
        (void)rg_find(findings, RG_VERDICT_SKIP, subject,
                      "Not tried: --active allows a file to be made and removed there.");
    }
    return number >= 0;
}

static void judge_direct(const char *subject, const struct rg_host_tree *tree,
                         const struct rg_reading *at, struct rg_findings *findings)
{
    int number = tree->direct_errno, odd = tree->unaligned_errno;
    if (!was_tried(subject, number, at, findings)) {
        return;
    }
    struct rg_finding *finding =
        number
            ? rg_find(findings, RG_VERDICT_FAIL, subject, "Direct I/O fails: %s.", strerror(number))
            : rg_find(findings, RG_VERDICT_OK, subject, "Direct I/O works%s.",
                      odd == 0 ? ", of any length" : " in whole blocks");
    rg_find_value(finding, "aligned: errno %d; with 1000 bytes more: %d", number, odd);
    rg_find_where(finding, at);
    if (number == EINVAL || number == EOPNOTSUPP) {
        rg_find_remedy(finding,
                       "findmnt -T %s   # a file system without direct I/O (overlay, some "
                       "FUSE): serve a directory of Lustre, XFS or ext4",
                       subject);
    } else if (number) {
        rg_find_remedy(finding, "dmesg | tail -50   # what the file system says about it");
    }
}

void judge_odirect(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    judge_trees(facts, judge_direct, findings);
}

/* Refusals by which a file system says that it has no such thing. */
static bool is_refusal(int number)
{
    return number == EOPNOTSUPP || number == ENOTTY || number == EINVAL || number == EXDEV ||
           number == ENOSYS || number == EISDIR;
}

static const char *has_or_not(int number)
{
    return number == 0 ? "yes" : number > 0 && is_refusal(number) ? "no" : "not known";
}

static void judge_making(const char *subject, const struct rg_host_tree *tree,
                         const struct rg_reading *at, struct rg_findings *findings)
{
    int made = tree->tmpfile_errno, cloned = tree->clone_errno;
    if (!was_tried(subject, RG_MAX(made, cloned), at, findings)) {
        return;
    }
    bool strange = (made > 0 && !is_refusal(made)) || (cloned > 0 && !is_refusal(cloned));
    int number = made > 0 && !is_refusal(made) ? made : cloned;
    struct rg_finding *finding =
        strange ? rg_find(findings, RG_VERDICT_WARN, subject, "Making or cloning a file fails: %s.",
                          strerror(number))
                : rg_find(findings, RG_VERDICT_OK, subject, "O_TMPFILE: %s, reflinks: %s.",
                          has_or_not(made), has_or_not(cloned));
    rg_find_value(finding, "O_TMPFILE: errno %d, FICLONE: %d", made, cloned);
    rg_find_where(finding, at);
    if (strange) {
        rg_find_remedy(finding, "df -h %s; df -i %s; dmesg | tail -50", subject, subject);
    }
}

void judge_reflink(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    judge_trees(facts, judge_making, findings);
}

static void judge_reserving(const char *subject, const struct rg_host_tree *tree,
                            const struct rg_reading *at, struct rg_findings *findings)
{
    int number = tree->allocate_errno;
    if (!was_tried(subject, number, at, findings)) {
        return;
    }
    struct rg_finding *finding =
        number == 0          ? rg_find(findings, RG_VERDICT_OK, subject, "Space can be reserved.")
        : is_refusal(number) ? rg_find(findings, RG_VERDICT_OK, subject,
                                       "Space cannot be reserved (targets on ZFS, for example).")
                             : rg_find(findings, RG_VERDICT_WARN, subject,
                                       "Reserving 1 MiB fails: %s.", strerror(number));
    rg_find_value(finding, "errno %d", number);
    rg_find_where(finding, at);
    if (number && !is_refusal(number)) {
        rg_find_remedy(finding, "lfs df -h %s   # a target may be full, or a quota reached",
                       subject);
    }
}

void judge_falloc(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    judge_trees(facts, judge_reserving, findings);
}

/* ---- FLOCK ---- */

void judge_flock(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lustre.mount_count; i++) {
        const struct rg_mount *mount = &facts->lustre.mounts[i].mount;
        bool local = rg_mount_has(mount->options, "localflock");
        bool none = rg_mount_has(mount->options, "noflock");
        bool cluster = rg_mount_has(mount->options, "flock");
        struct rg_finding *finding =
            rg_find(findings, local || none ? RG_VERDICT_WARN : RG_VERDICT_OK, mount->target,
                    local     ? "localflock: every node gets the same lock."
                    : none    ? "noflock: there are no locks."
                    : cluster ? "flock: locks hold across clients."
                              : "The options name no lock mode: flock is the default since 2.13.");
        rg_find_value(finding, "%s", mount->options);
        rg_find_where(finding, &facts->lustre.mounts_at);
        if (local || none) {
            rg_find_remedy(finding, "umount %s && mount -t lustre -o flock,user_xattr %s %s",
                           mount->target, mount->source, mount->target);
        }
    }
}

/* ---- LAYOUT ---- */

#define STRIPE_ALL 0xffff

/* A client may have mounted several file systems. */
static size_t count_targets(const struct rg_host_lustre *lustre,
                            const struct rg_host_lustre_mount *mount)
{
    size_t count = 0;
    for (size_t i = 0; i < lustre->space_count; i++) {
        count += is_of_mount(mount, lustre->space[i].target);
    }
    return count;
}

void judge_layout(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->lustre.mount_count; i++) {
        const struct rg_host_lustre_mount *mount = &facts->lustre.mounts[i];
        const struct rg_lustre_layout *layout = &mount->layout;
        size_t targets = count_targets(&facts->lustre, mount);
        unsigned widest = 0;
        if (mount->layout_at.state == RG_READ_NOT_ASKED) {
            continue;
        }
        if (!mount->has_layout) {
            /* A root without a layout of its own: ENODATA. */
            bool usual = mount->layout_at.os_errno == ENODATA;
            struct rg_finding *finding =
                usual
                    ? rg_find(findings, RG_VERDICT_SKIP, mount->mount.target,
                              "Its root has no layout of its own: the file system's default holds.")
                    : rg_find_unread(findings, mount->mount.target, &mount->layout_at);
            rg_find_where(finding, &mount->layout_at);
            continue;
        }
        for (size_t k = 0; k < layout->component_count; k++) {
            widest = layout->components[k].stripe_count > widest
                         ? layout->components[k].stripe_count
                         : widest;
        }
        bool narrow = widest <= 1 && targets > 1;
        struct rg_finding *finding =
            rg_find(findings, narrow ? RG_VERDICT_WARN : RG_VERDICT_OK, mount->mount.target,
                    narrow ? "New files get one stripe, of %zu targets."
                           : "New files may be spread over the targets (%zu).",
                    targets);
        rg_find_value(finding, "%zu components, at most %d stripes%s", layout->component_count,
                      widest == STRIPE_ALL ? -1 : (int)widest,
                      layout->on_mdt ? ", the beginning on the MDT" : "");
        rg_find_where(finding, &mount->layout_at);
        if (narrow) {
            rg_find_remedy(finding,
                           "lfs setstripe -E 64M -c 1 -E 1G -c 4 -E -1 -c -1 %s   # for new "
                           "files",
                           mount->mount.target);
        }
    }
}

/* ---- SPACE ---- */

#define FREE_PERCENT_LOW 10

static void mend_space(struct rg_finding *finding, const struct rg_host_lustre *lustre,
                       const struct rg_host_lustre_space *space)
{
    const char *where = NULL;
    for (size_t i = 0; i < lustre->mount_count && !where; i++) {
        where =
            is_of_mount(&lustre->mounts[i], space->target) ? lustre->mounts[i].mount.target : NULL;
    }
    if (!where) {
        rg_find_remedy(finding, "lctl get_param -n osd-*.%s.kbytesavail   # on its server",
                       space->target);
        return;
    }
    rg_find_remedy(finding, "lfs df -h %s   # per target", where);
    if (strstr(space->target, "-MDT")) {
        rg_find_remedy(finding, "lfs find %s --mdt %d --type f | head   # what is on it", where,
                       rg_lustre_target_index(space->target));
    } else {
        rg_find_remedy(finding, "lfs find %s --ost %d --size +10G | lfs_migrate -y", where,
                       rg_lustre_target_index(space->target));
    }
}

void judge_space(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    size_t well = 0;
    if (lustre->space_at.state == RG_READ_NOT_ASKED) {
        return;
    }
    if (!rg_reading_ok(&lustre->space_at)) {
        (void)rg_find_unread(findings, "", &lustre->space_at);
        return;
    }
    for (size_t i = 0; i < lustre->space_count; i++) {
        const struct rg_host_lustre_space *space = &lustre->space[i];
        bool full = space->total_kib && space->free_kib < space->total_kib / 1000;
        bool low = space->free_kib < space->total_kib / 100 * FREE_PERCENT_LOW;
        if (!full && !low) {
            well++;
            continue;
        }
        struct rg_finding *finding =
            rg_find(findings, full ? RG_VERDICT_FAIL : RG_VERDICT_WARN, space->target,
                    full ? "The target is full: what it holds can no longer be written."
                         : "Less than %d %% of the target is free.",
                    FREE_PERCENT_LOW);
        rg_find_value(finding, "%" PRIu64 " of %" PRIu64 " KiB free, index %d", space->free_kib,
                      space->total_kib, rg_lustre_target_index(space->target));
        rg_find_where(finding, &lustre->space_at);
        mend_space(finding, lustre, space);
    }
    if (well) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, "", "%zu targets have space.", well);
        rg_find_where(finding, &lustre->space_at);
    }
}

/* ---- VERSION ---- */

/* Each minor release works with those back to the long-term one before it, at least. */
static bool versions_fit(const unsigned a[3], const unsigned b[3])
{
    static const unsigned long_term[] = {5, 7, 10, 12, 15};
    /* From .50 on it is what the next one is being made of. */
    unsigned one = a[1] + (a[2] >= 50), other = b[1] + (b[2] >= 50);
    unsigned newer = RG_MAX(one, other), older = RG_MIN(one, other), oldest = 0;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(long_term) && long_term[i] < newer; i++) {
        oldest = long_term[i];
    }
    return a[0] == b[0] && older >= oldest;
}

void judge_lversion(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    unsigned own[3], other[3];
    const char *theirs = "";
    if (lustre->version.at.state == RG_READ_NOT_ASKED) {
        return;
    }
    if (!rg_reading_ok(&lustre->version.at) ||
        !rg_lustre_version_parse(rg_span_text(lustre->version.text), own)) {
        (void)rg_find_unread(findings, "", &lustre->version.at);
        return;
    }
    bool apart = false;
    for (size_t i = 0; i < lustre->import_count && !apart; i++) {
        if (rg_lustre_version_parse(rg_span_text(lustre->imports[i].import.version), other)) {
            theirs = lustre->imports[i].import.version;
            apart = !versions_fit(own, other);
        }
    }
    struct rg_finding *finding =
        rg_find(findings, apart ? RG_VERDICT_WARN : RG_VERDICT_OK, "",
                apart       ? "Client and server are far apart."
                : theirs[0] ? "Client and server versions fit."
                            : "The version is known; no server has told its own.");
    rg_find_value(finding, "here %s, server %s", lustre->version.text, theirs[0] ? theirs : "-");
    rg_find_where(finding, &lustre->version.at);
    if (apart) {
        rg_find_remedy(finding,
                       "# install client packages of the servers' release, built for kernel %s",
                       facts->system.kernel.text);
    }
}

/* ---- ZFS-PROP, CFGLOG: stale_nid.h has the procedure ---- */

/* What the target names against what the MGS has. */
static void judge_mgsnode(const struct rg_host_facts *facts,
                          const struct rg_lustre_zfs_target *target, bool is_zfs,
                          const struct rg_reading *at, struct rg_findings *findings)
{
    struct rg_nid_list present;
    const char *word = is_zfs ? "lustre:mgsnode" : "mgsnode";
    char stale[RG_NID_TEXT_MAX + 1];
    enum rg_mgs_truth truth = rg_stale_mgs(facts, &present);
    if (truth == RG_MGS_UNKNOWN) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_SKIP, target->dataset,
                    "Which addresses the MGS has now is not known on this machine.");
        rg_find_where(finding, at);
        rg_find_remedy(finding,
                       is_zfs ? "zfs get -s local lustre:mgsnode %s   # compare with lctl "
                                "list_nids on the MGS"
                              : "tunefs.lustre --dryrun %s   # compare with lctl list_nids on the "
                                "MGS",
                       target->dataset);
        return;
    }
    /* One right address is enough: the others are of failover partners. */
    bool bad = !rg_stale_meet(&target->mgs, &present) &&
               rg_stale_find(&target->mgs, &present, truth == RG_MGS_CONNECTED, stale);
    struct rg_finding *finding =
        rg_find(findings, bad ? RG_VERDICT_FAIL : RG_VERDICT_OK, target->dataset,
                bad ? "%s names %s, which is no address of the MGS." : "%s names the MGS%s.", word,
                bad ? stale : "");
    RG_BUF(value, 2048);
    rg_stale_add_list(&value, &target->mgs);
    rg_buf_add_text(&value, truth == RG_MGS_HERE ? "; the MGS (here) has "
                                                 : "; the MGS that is connected has ");
    rg_stale_add_list(&value, &present);
    rg_find_value(finding, "%s=%s", word, rg_buf_text(&value));
    rg_find_where(finding, at);
    if (bad) {
        rg_stale_mend(finding, facts, &present);
    }
}

void judge_zfs_prop(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    if (lustre->zfs_at.state == RG_READ_NOT_ASKED ||
        (lustre->zfs_at.state == RG_READ_MISSING && !rg_host_is_lustre_server(facts))) {
        return;
    }
    if (!rg_reading_ok(&lustre->zfs_at)) {
        (void)rg_find_unread(findings, "", &lustre->zfs_at);
        return;
    }
    for (size_t i = 0; i < lustre->zfs.count; i++) {
        const struct rg_lustre_zfs_target *target = &lustre->zfs.targets[i];
        if (target->mgs.count) { /* a combined MGS and MDT needs none */
            judge_mgsnode(facts, target, true, &lustre->zfs_at, findings);
        }
    }
}

/* ---- MGSNODE ---- */

static void judge_disk(const struct rg_host_facts *facts, const struct rg_host_lustre_disk *entry,
                       struct rg_findings *findings)
{
    const struct rg_lustre_zfs_target *target = &entry->disk.target;
    bool is_mgs = target->has_flags && target->flags & RG_LDD_MGS;
    if (entry->at.state == RG_READ_NOT_ASKED) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_SKIP, target->dataset,
                                             "Asking the targets before it took too long.");
        rg_find_remedy(finding, "tunefs.lustre --dryrun %s   # reads only", target->dataset);
        return;
    }
    if (!rg_reading_ok(&entry->at)) {
        (void)rg_find_unread(findings, target->dataset, &entry->at);
        return;
    }
    if (target->mgs.count) {
        judge_mgsnode(facts, target, false, &entry->at, findings);
        return;
    }
    struct rg_finding *finding = rg_find(
        findings, is_mgs ? RG_VERDICT_OK : RG_VERDICT_WARN, target->dataset,
        is_mgs ? "%s is the MGS itself." : "%s names no MGS: it cannot register.", target->svname);
    rg_find_value(finding, "no mgsnode, flags 0x%" PRIx64, target->flags);
    rg_find_where(finding, &entry->at);
    if (!is_mgs) {
        struct rg_nid_list present;
        char nid[RG_NID_TEXT_MAX + 1] = "MGS_NID";
        if (rg_stale_mgs(facts, &present) != RG_MGS_UNKNOWN) {
            rg_nid_text(&present.nids[0], nid);
        }
        rg_find_remedy(finding, "umount %s && tunefs.lustre --mgsnode=%s %s", target->dataset, nid,
                       target->dataset);
    }
}

void judge_disk_mgsnode(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    for (size_t i = 0; i < lustre->disk_count; i++) {
        judge_disk(facts, &lustre->disks[i], findings);
    }
    if (lustre->disks_left) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "%zu more targets are mounted than are looked at.", lustre->disks_left);
    }
}

void judge_cfglog(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    struct rg_nid_list present;
    char stale[RG_NID_TEXT_MAX + 1] = "";
    if (lustre->log_at.state == RG_READ_NOT_ASKED) {
        return;
    }
    if (!rg_reading_ok(&lustre->log_at)) {
        (void)rg_find_unread(findings, lustre->log_fsname, &lustre->log_at);
        return;
    }
    if (lustre->log.nids.count == 0 || rg_stale_mgs(facts, &present) != RG_MGS_HERE) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_SKIP, lustre->log_fsname,
                    "The log names no address, or this machine's own are not known.");
        rg_find_where(finding, &lustre->log_at);
        return;
    }
    /* A target of this machine is in the log by one of this machine's addresses. Another server's
     * address may be that of one that is down: that is for whoever looks. */
    bool serves = lustre->recovery_count || lustre->targets.count;
    bool bad = serves && !rg_stale_meet(&lustre->log.nids, &present);
    rg_stale_add_servers(facts, &present);
    bool doubtful = rg_stale_find(&lustre->log.nids, &present, false, stale);
    struct rg_finding *finding =
        rg_find(findings,
                bad        ? RG_VERDICT_FAIL
                : doubtful ? RG_VERDICT_WARN
                           : RG_VERDICT_OK,
                lustre->log_fsname,
                bad        ? "The log sends clients to %s and not to this server."
                : doubtful ? "The log sends clients to %s, which this server is not connected to."
                           : "The log names addresses that servers have now%s.",
                bad || doubtful ? stale : "");
    RG_BUF(value, 2048);
    rg_stale_add_list(&value, &lustre->log.nids);
    rg_find_value(finding, "%s", rg_buf_text(&value));
    rg_find_where(finding, &lustre->log_at);
    if (bad) {
        (void)rg_stale_mgs(facts, &present);
        rg_stale_mend(finding, facts, &present);
    } else if (doubtful) {
        rg_find_remedy(finding, "lctl ping %s   # is there such a server? it leaves a peer entry",
                       stale);
    }
}

/* ---- RECOVERY ---- */

void judge_recovery(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    for (size_t i = 0; i < lustre->recovery_count; i++) {
        const struct rg_host_lustre_recovery *entry = &lustre->recovery[i];
        if (!rg_reading_ok(&entry->at)) {
            (void)rg_find_unread(findings, entry->target, &entry->at);
            continue;
        }
        bool waits = strncmp(entry->recovery.status, "WAITING", 7) == 0 ||
                     strcmp(entry->recovery.status, "RECOVERING") == 0;
        struct rg_finding *finding = rg_find(
            findings, waits ? RG_VERDICT_WARN : RG_VERDICT_OK, entry->target,
            waits ? "It waits for clients (%s): new mounts hang meanwhile." : "Recovery: %s.",
            entry->recovery.status);
        rg_find_value(finding, "%s, %" PRIu64 "/%" PRIu64 " clients", entry->recovery.status,
                      entry->recovery.connected, entry->recovery.clients);
        rg_find_where(finding, &entry->at);
        if (waits) {
            rg_find_remedy(finding,
                           "# when the missing clients are known to be gone (their unwritten "
                           "data is lost):");
            rg_find_remedy(finding, "lctl --device %s abort_recovery", entry->target);
        }
    }
}

/* ---- FSTAB ---- */

static const struct rg_host_lustre_import *mgc_of(const struct rg_host_lustre *lustre)
{
    for (size_t i = 0; i < lustre->import_count; i++) {
        if (lustre->imports[i].is_mgc && rg_reading_ok(&lustre->imports[i].at)) {
            return &lustre->imports[i];
        }
    }
    return NULL;
}

/* The options that a line lacks, separated by commas. */
static void add_lacking(const struct rg_mount *line, bool has_unit, struct rg_buf *out)
{
    struct span value;
    if (!rg_mount_has(line->options, "user_xattr")) {
        rg_buf_add_text(out, "user_xattr,");
    }
    if (!rg_mount_has(line->options, "_netdev")) {
        rg_buf_add_text(out, "_netdev,");
    }
    if (has_unit && !rg_mount_value(line->options, "x-systemd.requires", &value)) {
        rg_buf_add_text(out, "x-systemd.requires=lnet.service,");
    }
}

static bool fstab_is_obsolete(const struct rg_host_lustre *lustre, const struct rg_mount *line,
                              char ret_nid[RG_NID_TEXT_MAX + 1])
{
    const struct rg_host_lustre_import *mgc = mgc_of(lustre);
    struct rg_nid_list named = {0};
    struct span nids;
    char fsname[RG_LUSTRE_NAME_MAX + 1];
    struct rg_nid now;
    if (!mgc || !rg_lustre_import_is_well(&mgc->import) ||
        !rg_nid_parse(rg_span_text(mgc->import.connection), &now) ||
        !rg_lustre_source_parse(rg_span_text(line->source), &nids, fsname)) {
        return false;
    }
    rg_nid_list_add(&named, nids);
    if (named.count == 0 || rg_nid_list_has(&named, &now)) {
        return false;
    }
    rg_nid_text(&named.nids[0], ret_nid);
    return true;
}

void judge_fstab(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    if (!rg_reading_ok(&lustre->fstab_at) && !rg_reading_is_absent(&lustre->fstab_at)) {
        (void)rg_find_unread(findings, "", &lustre->fstab_at);
        return;
    }
    for (size_t i = 0; i < lustre->fstab.count; i++) {
        const struct rg_mount *line = &lustre->fstab.mounts[i];
        char obsolete[RG_NID_TEXT_MAX + 1] = "";
        RG_BUF(lacking, 256);
        if (!is_client_line(line)) {
            continue;
        }
        add_lacking(line, facts->lnet.unit_exists, &lacking);
        bool old = fstab_is_obsolete(lustre, line, obsolete);
        struct rg_finding *finding =
            rg_find(findings, lacking.len || old ? RG_VERDICT_WARN : RG_VERDICT_OK, line->target,
                    old           ? "fstab names the MGS %s, which the running client does not use."
                    : lacking.len ? "fstab lacks options for this mount%s."
                                  : "fstab has what it needs%s.",
                    obsolete);
        rg_find_value(finding, "%s %s", line->source, line->options);
        rg_find_where(finding, &lustre->fstab_at);
        if (lacking.len) {
            rg_find_remedy(finding, "# in /etc/fstab: %s %s lustre %s%s 0 0", line->source,
                           line->target, rg_buf_text(&lacking), line->options);
        }
        if (old) {
            rg_find_remedy(finding,
                           "lctl get_param mgc.*.import   # the MGS's address now; put it into "
                           "/etc/fstab");
        }
    }
}

/* ---- DUMP ---- */

void judge_dump(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_number *eviction = &facts->lustre.dump_on_eviction;
    const struct rg_number *timeout = &facts->lustre.dump_on_timeout;
    if (eviction->at.state == RG_READ_NOT_ASKED || eviction->at.state == RG_READ_MISSING) {
        return;
    }
    if (!rg_reading_ok(&eviction->at)) {
        (void)rg_find_unread(findings, "", &eviction->at);
        return;
    }
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_OK, "",
                eviction->value ? "The debug buffer is written at an eviction."
                                : "Nothing is written at an eviction (usual).");
    rg_find_value(finding, "dump_on_eviction %" PRId64 ", dump_on_timeout %" PRId64,
                  eviction->value, timeout->value);
    rg_find_where(finding, &eviction->at);
    if (!eviction->value) {
        rg_find_remedy(finding, "lctl set_param dump_on_eviction=1   # while you look for a cause");
    }
}
