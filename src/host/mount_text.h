/*
 * /proc/mounts and /etc/fstab, and the source of a Lustre mount. Pure.
 */
#ifndef RG_HOST_MOUNT_TEXT_H
#define RG_HOST_MOUNT_TEXT_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define RG_MOUNTS_MAX        32
#define RG_MOUNT_TEXT_MAX    511
#define RG_MOUNT_OPTIONS_MAX 1023

struct rg_mount {
    char source[RG_MOUNT_TEXT_MAX + 1];
    char target[RG_MOUNT_TEXT_MAX + 1]; /* octal escapes resolved */
    char type[32];
    char options[RG_MOUNT_OPTIONS_MAX + 1];
};

struct rg_mount_list {
    struct rg_mount mounts[RG_MOUNTS_MAX];
    size_t count;
    bool cut; /* there were more, or some field was too long */
};

/*
 * The lines whose type is one of the words in `types` (separated by '|', NULL: all). Both files
 * have the same four first fields; comments are skipped.
 */
void rg_mounts_parse(struct span text, const char *types, struct rg_mount_list *ret_list);

/* Whether `options` has this word; with `ret_value` the text behind "word=". */
bool rg_mount_has(const char *options, const char *word);
bool rg_mount_value(const char *options, const char *word, struct span *ret_value);

/* The mount that holds `path`: the longest target that is a prefix of it, or NULL. */
const struct rg_mount *rg_mount_of(const struct rg_mount_list *list, const char *path);

#define RG_LUSTRE_NAME_MAX 63

/*
 * "NID[,NID][:NID...]:/fsname[/subdirectory]". *ret_nids borrows from `source`.
 */
bool rg_lustre_source_parse(struct span source, struct span *ret_nids,
                            char ret_fsname[RG_LUSTRE_NAME_MAX + 1]);

#endif
