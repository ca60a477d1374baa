/*
 * Files that may hold secrets beside what concerns us: settings, environments, units, fstab. Only
 * the lines that a rule keeps are read into facts, reports and captured trees.
 */
#ifndef RG_HOST_FILTERED_H
#define RG_HOST_FILTERED_H

#include "host/source.h"

#include "base/span.h"

#define RG_FILTERED_MAX 65536

/* Whether a line, without its end, may be kept. */
typedef bool rg_line_rule(struct span line);

/*
 * The kept lines of the machine's file `path`, as the document `name`; in a tree without that
 * document, of the tree's file `path`. Lines end with '\n' also where the file has NULs
 * (/proc/PID/environ).
 */
void rg_filtered_read(struct rg_source *source, const char *name, const char *path,
                      rg_line_rule *keep, struct rg_buf *out, struct rg_reading *ret_at);

/* Whether a reading says that there is no such thing, as against that it cannot be read. */
bool rg_reading_is_absent(const struct rg_reading *at);

#endif
