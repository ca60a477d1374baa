/*
 * The names in a directory as listings need them: those that are not hidden and may be objects,
 * read with large system calls; packed into records; hashed; sorted.
 *
 * Only for snapshot.c.
 */
#ifndef RG_STORE_POSIX_NAMES_H
#define RG_STORE_POSIX_NAMES_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longest name, the "/" of a directory included. Longer ones, which some FUSE file systems have,
 * cannot be part of a key and are left out. */
#define RG_NAME_TEXT_MAX 256u

/* ---- Reading ---- */

/* One system call's worth. More is not faster, and malloc would map it. */
#define RG_NAMES_READ_BYTES 65536u

struct rg_names_reader {
    int fd;
    bool ignore_types;
    char *buffer; /* RG_NAMES_READ_BYTES */
    size_t filled;
    size_t next;
};

struct rg_name_found {
    char text[RG_NAME_TEXT_MAX]; /* with room for "/" */
    size_t len;                  /* without it */
    enum { RG_NAME_FILE, RG_NAME_DIRECTORY, RG_NAME_UNSURE } kind;
};

/* Begins (again) at the start. */
int rg_names_rewind(struct rg_names_reader *reader, struct rg_error *err) RG_CHECK;

/* 1 and *ret_found, 0 at the end, or a negative code. */
int rg_names_next(struct rg_names_reader *reader, struct rg_name_found *ret_found,
                  struct rg_error *err) RG_CHECK;

/* ---- Hashing ---- */

/* Mixes two numbers, of which one is secret. */
static inline uint64_t rg_names_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* What a set of names hashes to, in whatever order they come. */
struct rg_names_print {
    uint64_t count;
    uint64_t sum;
    uint64_t mix;
};

/* `key`: random, odd numbers. */
void rg_names_print_add(struct rg_names_print *print, const uint64_t key[2],
                        const struct rg_name_found *name);
bool rg_names_print_same(const struct rg_names_print *a, const struct rg_names_print *b);

/* ---- Records: flags, length - 1, bytes ---- */

#define RG_NAME_RECORD_HEAD   2u
#define RG_NAME_RECORD_MAX    (RG_NAME_RECORD_HEAD + RG_NAME_TEXT_MAX)
#define RG_NAME_RECORD_UNSURE 1u /* flag: the type is not known */

static inline struct span rg_name_record_text(const char *record)
{
    return rg_span(record + RG_NAME_RECORD_HEAD, (size_t)(unsigned char)record[1] + 1);
}

/* Returns the length of the record. A directory gets its "/". */
static inline size_t rg_name_record_write(char *record, const struct rg_name_found *name,
                                          bool directory)
{
    size_t len = name->len + directory;
    record[0] = name->kind == RG_NAME_UNSURE ? RG_NAME_RECORD_UNSURE : 0;
    record[1] = (char)(unsigned char)(len - 1);
    memcpy(record + RG_NAME_RECORD_HEAD, name->text, name->len);
    if (directory) {
        record[RG_NAME_RECORD_HEAD + name->len] = '/';
    }
    return RG_NAME_RECORD_HEAD + len;
}

/* ---- Sorting ---- */

/* A name being sorted: the next eight bytes of it as a number, and where it stands. */
struct rg_name_item {
    uint64_t head;
    uint32_t offset;
};

/* Sorts names by their bytes; of each item only `offset`, of a record in the arena, is read. In
 * place. */
void rg_names_sort(const char *arena, struct rg_name_item *items, size_t count);

#endif
