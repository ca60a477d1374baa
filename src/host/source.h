/*
 * Where facts are read: the running machine, or a tree that `railgate doctor capture` or a test has
 * made. Reads are bounded, never follow a link out of the tree, and remember what was read and why
 * it could not be: what is not there, what may not be read and what makes no sense are three
 * different things, and none of them is a verdict. Nothing here changes the machine.
 *
 * What no file tells (netlink, ioctl, verbs calls, the output of commands) is a document: text that
 * a probe writes in a killable child. In a tree the same document is a file, so that one judgement
 * serves both. Layout of a tree, beside the paths of the machine:
 *
 *   .railgate/NAME      what the probe NAME has told, for example netlink/dcb/eth0.json
 *   .railgate/errors    a line "ERRNO PATH" for everything that could not be read
 *   .railgate/again/    the second reading of counters, in the same layout
 */
#ifndef RG_HOST_SOURCE_H
#define RG_HOST_SOURCE_H

#include "base/buf.h"
#include "base/error.h"
#include "host/probe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_HOST_PATH_MAX  255
#define RG_HOST_TEXT_MAX  127
#define RG_HOST_NAMES_MAX 4096
#define RG_HOST_FILE_MAX  ((size_t)1 << 20)

enum rg_read_state {
    RG_READ_NOT_ASKED,
    RG_READ_OK,
    RG_READ_MISSING,    /* it is not there */
    RG_READ_UNREADABLE, /* os_errno says why; ETIMEDOUT: no answer in time */
    RG_READ_MALFORMED,  /* it was read and is not what it should be */
};

/* How one read went. */
struct rg_reading {
    enum rg_read_state state;
    int os_errno;
    bool truncated;                  /* there was more than the ceiling */
    char path[RG_HOST_PATH_MAX + 1]; /* of the machine, without the tree; or the command */
};

/* One line without its white space; "" unless at.state is OK. */
struct rg_text {
    struct rg_reading at;
    char text[RG_HOST_TEXT_MAX + 1];
};

/* 0 unless at.state is OK. */
struct rg_number {
    struct rg_reading at;
    int64_t value;
};

/* Names of directory entries, sorted; owned. */
struct rg_names {
    struct rg_reading at; /* truncated: more than RG_HOST_NAMES_MAX */
    char **name;
    size_t count;
};

struct rg_source;

/* `sysroot` "" is the running machine. RG_SETTING when the tree cannot be opened. */
int rg_source_open(const char *sysroot, struct rg_source **ret_source, struct rg_error *err);
void rg_source_close(struct rg_source *source); /* NULL is allowed */
void rg_source_cleanup(struct rg_source **source);

bool rg_source_is_live(const struct rg_source *source);

/* From now on all that is read is also written below `directory`, which must be empty or missing,
 * and no symbolic link. Only for a live source. */
int rg_source_capture(struct rg_source *source, const char *directory, struct rg_error *err);

/* What capturing could not write, if anything: the first failure. */
int rg_source_capture_result(const struct rg_source *source, struct rg_error *err);

/* Reads below this path answer UNREADABLE with ETIMEDOUT at once: something hung there before. */
void rg_source_avoid(struct rg_source *source, const char *path);

/* Where progress and the path being read are noted, for a parent that shares the memory. */
struct rg_source_watch {
    struct rg_probe_watch probe;
    char path[RG_HOST_PATH_MAX + 1];
};

/* NULL for nowhere. */
void rg_source_watch(struct rg_source *source, struct rg_source_watch *watch);

/* For readers that wait on purpose: tells the parent that they live. */
void rg_source_alive(struct rg_source *source);

/* The second reading of what changes. In a tree: false when there is none. */
bool rg_source_again(struct rg_source *source, bool again);

/* ---- Files ---- */

/* All of a file up to the buffer's ceiling, and RG_HOST_FILE_MAX. */
void rg_source_read(struct rg_source *source, struct rg_buf *out, struct rg_reading *ret_at,
                    const char *path_format, ...) RG_PRINTF(4, 5);

/* The first line. Control characters make it malformed; what is too long is cut and so marked. */
void rg_source_text(struct rg_source *source, struct rg_text *ret_text, const char *path_format,
                    ...) RG_PRINTF(3, 4);

/* A decimal number, or one in hex with 0x; a sign is allowed, nothing may follow. */
void rg_source_number(struct rg_source *source, struct rg_number *ret_number,
                      const char *path_format, ...) RG_PRINTF(3, 4);

/* Free with rg_names_free. */
void rg_source_list(struct rg_source *source, struct rg_names *ret_names, const char *path_format,
                    ...) RG_PRINTF(3, 4);
void rg_names_free(struct rg_names *names);

/* The last component of what a symbolic link points to. */
void rg_source_link(struct rg_source *source, struct rg_text *ret_text, const char *path_format,
                    ...) RG_PRINTF(3, 4);

bool rg_source_exists(struct rg_source *source, const char *path_format, ...) RG_PRINTF(2, 3);

/* ---- Documents ---- */

/*
 * What the probe `name` tells, up to out->max bytes: run live in a killable child, read from the
 * tree otherwise. `where` is what a person is told as its origin. A probe that fails (exit status
 * not 0) is UNREADABLE with that status as errno; one that hangs, with ETIMEDOUT.
 */
void rg_source_probe(struct rg_source *source, const char *name, const char *where,
                     rg_probe_function *function, void *argument, unsigned timeout_ms,
                     struct rg_buf *out, struct rg_reading *ret_at);

/*
 * What `function` tells of the file `path`, which may be of any size: its argument is an int, the
 * descriptor of the regular file. Live and, where a tree has the file and not the document, in the
 * tree.
 */
void rg_source_probe_file(struct rg_source *source, const char *name, const char *path,
                          rg_probe_function *function, unsigned timeout_ms, struct rg_buf *out,
                          struct rg_reading *ret_at);

/*
 * The same for a command: argv ends with NULL. Its standard output is the document, its exit status
 * must be 0. MISSING when there is no such command; UNREADABLE with EPERM where it needs root and
 * this is another user.
 */
void rg_source_command(struct rg_source *source, const char *name, const char *const *argv,
                       unsigned timeout_ms, struct rg_buf *out, struct rg_reading *ret_at);

/* ---- Words ---- */

/* "cannot be read: Permission denied", "is not there", … for a SKIP; a static or errno text. */
void rg_reading_tell(const struct rg_reading *at, struct rg_buf *out);

static inline bool rg_reading_ok(const struct rg_reading *at)
{
    return at->state == RG_READ_OK;
}

/* Parses what rg_source_text and rg_source_number parse; for the readers of longer files. */
bool rg_host_parse_text(const char *bytes, size_t len, char ret_text[RG_HOST_TEXT_MAX + 1],
                        bool *ret_truncated);
bool rg_host_parse_number(const char *text, int64_t *ret_value);

#endif
