/*
 * Addresses of the past. See stale_nid.h.
 */
#include "host/stale_nid.h"

#include "base/attr.h"
#include "host/words.h"

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

static void add_nids(struct rg_buf *out, const struct rg_nid_list *list, const char *separator)
{
    for (size_t i = 0; i < list->count; i++) {
        char text[RG_NID_TEXT_MAX + 1];
        rg_nid_text(&list->nids[i], text);
        rg_buf_addf(out, "%s%s", i ? separator : "", text);
    }
    if (list->count == 0) {
        rg_buf_add_char(out, '-');
    }
}

void rg_stale_add_list(struct rg_buf *out, const struct rg_nid_list *list)
{
    add_nids(out, list, ":");
}

/* ---- The procedure ---- */

/* A target that this machine knows, in the order in which targets are mounted. */
struct place {
    const struct rg_lustre_zfs_target *target;
    const struct rg_lustre_disk *disk; /* NULL: a dataset of ZFS */
    int rank;
};

#define PLACES_MAX (RG_LUSTRE_ZFS_MAX + RG_HOST_LUSTRE_DISKS_MAX)

enum { RANK_MGS, RANK_FIRST_MDT, RANK_MDT, RANK_OST };

static int rank_of(const struct rg_lustre_zfs_target *target)
{
    uint64_t flags = target->has_flags ? target->flags : 0;
    const char *mdt = strstr(target->svname, "-MDT");
    if (flags & RG_LDD_MGS || strcmp(target->svname, "MGS") == 0) {
        return RANK_MGS;
    }
    if (mdt && strcmp(mdt, "-MDT0000") == 0) {
        return RANK_FIRST_MDT;
    }
    return mdt || flags & RG_LDD_MDT ? RANK_MDT : RANK_OST;
}

static size_t list_places(const struct rg_host_lustre *lustre, struct place places[PLACES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < lustre->zfs.count; i++) {
        const struct rg_lustre_zfs_target *target = &lustre->zfs.targets[i];
        places[count++] = (struct place){.target = target, .rank = rank_of(target)};
    }
    for (size_t i = 0; i < lustre->disk_count; i++) {
        const struct rg_lustre_disk *disk = &lustre->disks[i].disk;
        if (rg_reading_ok(&lustre->disks[i].at)) {
            places[count++] = (struct place){
                .target = &disk->target, .disk = disk, .rank = rank_of(&disk->target)};
        }
    }
    return count;
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

static void mount_rank(struct rg_finding *finding, const struct rg_host_lustre *lustre,
                       const struct place *places, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++) {
        const char *dataset = places[i].target->dataset;
        const char *where = mounted_where(lustre, dataset);
        const char *slash = strrchr(dataset, '/');
        if (places[i].rank == rank) {
            rg_find_remedy(finding, "mount -t lustre %s %s%s", dataset, where ? where : "/mnt/",
                           where   ? ""
                           : slash ? slash + 1
                                   : dataset);
        }
    }
}

/* On ldiskfs the parameters stand in one list, which can only be written anew. */
static void correct_disk(struct rg_finding *finding, const struct rg_lustre_disk *disk,
                         const char *mgs)
{
    RG_BUF(line, 1024);
    struct span rest = rg_span_text(disk->others), word;
    rg_buf_addf(&line, "tunefs.lustre --erase-params --mgsnode=%s", mgs);
    while (rg_words_next(&rest, &word)) {
        rg_buf_addf(&line, " --param %.*s", RG_SPAN_ARG(word));
    }
    if (disk->others_cut) {
        rg_find_remedy(finding,
                       "# it has more parameters than are repeated here: write down what "
                       "`tunefs.lustre --dryrun %s` shows, and add a --param for each",
                       disk->target.dataset);
    }
    rg_buf_addf(&line, " %s", disk->target.dataset);
    rg_find_remedy_line(finding, rg_buf_text(&line));
}

static void correct_places(struct rg_finding *finding, const struct place *places, size_t count,
                           const char *mgs)
{
    bool has_failover = false;
    for (size_t i = 0; i < count; i++) {
        const struct rg_lustre_zfs_target *target = places[i].target;
        has_failover |= target->failover.count > 0;
        if (target->mgs.count == 0) {
            continue; /* a combined MGS and MDT needs none */
        }
        if (places[i].disk) {
            correct_disk(finding, places[i].disk, mgs);
        } else {
            rg_find_remedy(finding, "zfs set lustre:mgsnode=%s %s", mgs, target->dataset);
        }
    }
    if (has_failover) {
        rg_find_remedy(finding, "# failover.node names addresses too: correct those that are of "
                                "the past in the same way");
    }
}

void rg_stale_mend(struct rg_finding *finding, const struct rg_host_facts *facts,
                   const struct rg_nid_list *present)
{
    const struct rg_host_lustre *lustre = &facts->lustre;
    struct place places[PLACES_MAX];
    size_t count = list_places(lustre, places);
    struct rg_nid_list same;
    RG_BUF(mgs, 2048);
    /* Addresses of one node stand between commas, those of failover partners between colons. */
    add_nids(&mgs, present, rg_stale_mgs(facts, &same) == RG_MGS_HERE ? "," : ":");
    const char *fsname = lustre->log_fsname[0] ? lustre->log_fsname : "FSNAME";
    rg_find_remedy(finding,
                   "# The whole procedure; the order matters. On the servers of %s:", fsname);
    rg_find_remedy(finding,
                   "# 1. unmount every client, then every OST, then every MDT, on all nodes");
    rg_find_remedy(finding, "umount -a -t lustre; umount -a -t lustre_tgt");
    rg_find_remedy(finding, "# 2. correct the address in every target (--writeconf alone does not "
                            "touch it)");
    correct_places(finding, places, count, rg_buf_text(&mgs));
    rg_find_remedy(finding,
                   "# 3. make the configuration logs again, on EVERY target of every server, "
                   "while all are unmounted");
    for (size_t i = 0; i < count; i++) {
        rg_find_remedy(finding, "tunefs.lustre --writeconf %s", places[i].target->dataset);
    }
    rg_find_remedy(finding, "# 4. mount the MGS and MDT0000 first, then the other MDTs");
    for (int rank = RANK_MGS; rank < RANK_OST; rank++) {
        mount_rank(finding, lustre, places, count, rank);
    }
    rg_find_remedy(finding, "# 5. then the OSTs");
    mount_rank(finding, lustre, places, count, RANK_OST);
    rg_find_remedy(finding, "# 6. if the MDT waits for clients of the past (lctl get_param "
                            "mdt.*.recovery_status):");
    rg_find_remedy(finding, "lctl --device %s-MDT0000 abort_recovery", fsname);
    rg_find_remedy(finding, "# 7. clients last, with the present address");
    rg_find_remedy(finding, "mount -t lustre -o user_xattr %s:/%s /mnt/%s", rg_buf_text(&mgs),
                   fsname, fsname);
}
