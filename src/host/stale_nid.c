/*
 * Addresses of the past. See stale_nid.h.
 */
#include "host/stale_nid.h"

#include <string.h>

enum rg_mgs_truth rg_stale_mgs(const struct rg_host_facts *facts, struct rg_nid_list *ret_nids)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    memset(ret_nids, 0, sizeof *ret_nids);
    if (lustre->is_mgs) {
        *ret_nids = facts->lnet.own;
        return ret_nids->count ? RG_MGS_HERE : RG_MGS_UNKNOWN;
    }
    for (size_t i = 0; i < lustre->import_count; i++) {
        const struct rg_host_lustre_import *import = &lustre->imports[i];
        if (import->is_mgc && rg_reading_ok(&import->at) &&
            rg_lustre_import_is_well(&import->import) && import->import.connection[0]) {
            rg_nid_list_add(ret_nids, rg_span_text(import->import.connection));
        }
    }
    return ret_nids->count ? RG_MGS_CONNECTED : RG_MGS_UNKNOWN;
}

void rg_stale_add_servers(const struct rg_host_facts *facts, struct rg_nid_list *nids)
{
    for (size_t i = 0; i < facts->lustre.import_count; i++) {
        const struct rg_host_lustre_import *import = &facts->lustre.imports[i];
        if (rg_reading_ok(&import->at) && rg_lustre_import_is_well(&import->import) &&
            import->import.connection[0]) {
            rg_nid_list_add(nids, rg_span_text(import->import.connection));
        }
    }
    for (size_t i = 0; i < facts->lnet.alive.count; i++) {
        char text[RG_NID_TEXT_MAX + 1];
        rg_nid_text(&facts->lnet.alive.nids[i], text);
        rg_nid_list_add(nids, rg_span_text(text));
    }
}

static bool has_net(const struct rg_nid_list *list, const char *net)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->nids[i].net, net) == 0) {
            return true;
        }
    }
    return false;
}

bool rg_stale_meet(const struct rg_nid_list *a, const struct rg_nid_list *b)
{
    for (size_t i = 0; i < a->count; i++) {
        if (rg_nid_list_has(b, &a->nids[i])) {
            return true;
        }
    }
    return false;
}

bool rg_stale_find(const struct rg_nid_list *named, const struct rg_nid_list *present,
                   bool same_net, char ret_nid[RG_NID_TEXT_MAX + 1])
{
    for (size_t i = 0; i < named->count; i++) {
        const struct rg_nid *nid = &named->nids[i];
        if (!rg_nid_list_has(present, nid) && (!same_net || has_net(present, nid->net))) {
            rg_nid_text(nid, ret_nid);
            return true;
        }
    }
    return false;
}

void rg_stale_add_list(struct rg_buf *out, const struct rg_nid_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char text[RG_NID_TEXT_MAX + 1];
        rg_nid_text(&list->nids[i], text);
        rg_buf_addf(out, "%s%s", i ? ":" : "", text);
    }
    if (list->count == 0) {
        rg_buf_add_char(out, '-');
    }
}

static bool is_mdt(const struct rg_lustre_zfs_target *target)
{
    return strstr(target->svname, "-MDT") || strcmp(target->svname, "MGS") == 0 ||
           (target->has_flags && (target->flags & (RG_LDD_MDT | RG_LDD_MGS)));
}

static const char *mounted_where(const struct rg_host_lustre *lustre, const char *dataset)
{
    for (size_t i = 0; i < lustre->targets.count; i++) {
        if (strcmp(lustre->targets.mounts[i].source, dataset) == 0) {
            return lustre->targets.mounts[i].target;
        }
    }
    return NULL;
}

static void mount_targets(struct rg_finding *finding, const struct rg_host_lustre *lustre,
                          bool metadata)
{
    for (size_t i = 0; i < lustre->zfs.count; i++) {
        const struct rg_lustre_zfs_target *target = &lustre->zfs.targets[i];
        const char *where = mounted_where(lustre, target->dataset);
        if (is_mdt(target) == metadata) {
            rg_find_remedy(finding, "mount -t lustre %s %s%s", target->dataset,
                           where ? where : "/mnt/",
                           where                           ? ""
                           : strrchr(target->dataset, '/') ? strrchr(target->dataset, '/') + 1
                                                           : target->dataset);
        }
    }
}

void rg_stale_mend(struct rg_finding *finding, const struct rg_host_facts *facts,
                   const struct rg_nid_list *present)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    RG_BUF(mgs, 2048);
    rg_stale_add_list(&mgs, present);
    const char *fsname = lustre->log_fsname[0] ? lustre->log_fsname : "FSNAME";
    rg_find_remedy(finding,
                   "# The whole procedure; the order matters. On the servers of %s:", fsname);
    rg_find_remedy(finding,
                   "# 1. unmount every client, then every OST, then every MDT, on all nodes");
    rg_find_remedy(finding, "umount -a -t lustre; umount -a -t lustre_tgt");
    rg_find_remedy(finding,
                   "# 2. correct the property of every dataset (--writeconf does not touch it)");
    for (size_t i = 0; i < lustre->zfs.count; i++) {
        const struct rg_lustre_zfs_target *target = &lustre->zfs.targets[i];
        if (target->mgs.count) {
            rg_find_remedy(finding, "zfs set lustre:mgsnode=%s %s", rg_buf_text(&mgs),
                           target->dataset);
        }
    }
    rg_find_remedy(finding,
                   "# 3. make the configuration logs again, on EVERY target of every server, "
                   "while all are unmounted");
    for (size_t i = 0; i < lustre->zfs.count; i++) {
        rg_find_remedy(finding, "tunefs.lustre --writeconf %s", lustre->zfs.targets[i].dataset);
    }
    rg_find_remedy(finding, "# 4. mount the MGS and MDT0000 first, then the other MDTs");
    mount_targets(finding, lustre, true);
    rg_find_remedy(finding, "# 5. then the OSTs");
    mount_targets(finding, lustre, false);
    rg_find_remedy(finding, "# 6. if the MDT waits for clients of the past (lctl get_param "
                            "mdt.*.recovery_status):");
    rg_find_remedy(finding, "lctl --device %s-MDT0000 abort_recovery", fsname);
    rg_find_remedy(finding, "# 7. clients last, with the present address");
    rg_find_remedy(finding, "mount -t lustre -o user_xattr %s:/%s /mnt/%s", rg_buf_text(&mgs),
                   fsname, fsname);
}
