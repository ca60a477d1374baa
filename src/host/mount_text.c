/*
 * Mount tables. See mount_text.h.
 */
#include "host/mount_text.h"

#include "host/words.h"

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* The kernel writes blank, tab, newline and backslash as \ooo. Control bytes become '?'. */
static bool unescape(char *text, size_t room, struct span from)
{
    size_t len = 0;
    for (size_t i = 0; i < from.len; i++) {
        unsigned char c = (unsigned char)from.ptr[i];
        if (c == '\\' && i + 3 < from.len && is_octal(from.ptr[i + 1]) &&
            is_octal(from.ptr[i + 2]) && is_octal(from.ptr[i + 3])) {
            c = (unsigned char)((from.ptr[i + 1] - '0') << 6 | (from.ptr[i + 2] - '0') << 3 |
                                (from.ptr[i + 3] - '0'));
            i += 3;
        }
        if (len + 1 == room) {
            text[len] = '\0';
            return false;
        }
        text[len++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    text[len] = '\0';
    return true;
}

void rg_mounts_parse(struct span text, const char *types, struct rg_mount_list *ret_list)
{
    struct span line, source, target, type, options;
    ret_list->count = 0;
    ret_list->cut = false;
    while (rg_words_line(&text, &line)) {
        if (!rg_words_next(&line, &source) || source.ptr[0] == '#' ||
            !rg_words_next(&line, &target) || !rg_words_next(&line, &type) ||
            !rg_words_next(&line, &options)) {
            continue;
        }
        struct rg_mount mount;
        if (!rg_words_copy(mount.type, sizeof mount.type, type) ||
            (types && !rg_words_has(rg_span_text(types), '|', mount.type))) {
            continue;
        }
        if (ret_list->count == RG_MOUNTS_MAX) {
            ret_list->cut = true;
            return;
        }
        bool whole = unescape(mount.source, sizeof mount.source, source);
        whole &= unescape(mount.target, sizeof mount.target, target);
        whole &= unescape(mount.options, sizeof mount.options, options);
        ret_list->cut |= !whole;
        ret_list->mounts[ret_list->count++] = mount;
    }
}

bool rg_mount_has(const char *options, const char *word)
{
    return rg_words_has(rg_span_text(options), ',', word);
}

bool rg_mount_value(const char *options, const char *word, struct span *ret_value)
{
    struct span rest = rg_span_text(options), name, value;
    while (rest.ptr) {
        if (rg_words_pair(rg_span_cut(&rest, ','), '=', &name, &value) && rg_span_is(name, word)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

const struct rg_mount *rg_mount_of(const struct rg_mount_list *list, const char *path)
{
    const struct rg_mount *best = NULL;
    size_t best_len = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *target = list->mounts[i].target;
        size_t len = strlen(target);
        bool covers = strncmp(path, target, len) == 0 &&
                      (path[len] == '\0' || path[len] == '/' || (len == 1 && target[0] == '/'));
        if (len && covers && len >= best_len) {
            best = &list->mounts[i];
            best_len = len;
        }
    }
    return best;
}

bool rg_lustre_source_parse(struct span source, struct span *ret_nids,
                            char ret_fsname[RG_LUSTRE_NAME_MAX + 1])
{
    for (size_t i = 0; i + 1 < source.len; i++) {
        if (source.ptr[i] == ':' && source.ptr[i + 1] == '/') {
            struct span name = rg_span_skip(source, i + 2);
            ptrdiff_t slash = rg_span_find(name, '/');
            if (slash >= 0) {
                name = rg_span_head(name, (size_t)slash);
            }
            if (i == 0 || name.len == 0 || name.len > RG_LUSTRE_NAME_MAX) {
                return false;
            }
            *ret_nids = rg_span_head(source, i);
            return rg_words_copy(ret_fsname, RG_LUSTRE_NAME_MAX + 1, name);
        }
    }
    return false;
}
