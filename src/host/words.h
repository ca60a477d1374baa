/*
 * How every parser of this room walks text: lines, words, copies with an end, sizes with suffixes.
 * Pure; nothing here reads files or allocates.
 */
#ifndef RG_HOST_WORDS_H
#define RG_HOST_WORDS_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cuts the next line, without its line end, off *rest. False when nothing is left. */
bool rg_words_line(struct span *rest, struct span *ret_line);

/* Cuts the next word (blanks and tabs separate) off *rest. False when none is left. */
bool rg_words_next(struct span *rest, struct span *ret_word);

/* Leading and trailing blanks, tabs and carriage returns removed, then one pair of equal quotes
 * around what is left. */
struct span rg_words_bare(struct span text);

/*
 * Copies into `text` (`room` bytes with the terminator, at least 1), every byte that is no
 * printable ASCII as '?', so that what a strange file holds cannot reach a terminal. False when it
 * was cut.
 */
bool rg_words_copy(char *text, size_t room, struct span from);

/* Splits "name<separator>value"; both trimmed. False without the separator. */
bool rg_words_pair(struct span line, char separator, struct span *ret_name, struct span *ret_value);

/* Whether `list`, whose parts are separated by `separator`, has `part` among them. */
bool rg_words_has(struct span list, char separator, const char *part);

/* Decimal or 0x hexadecimal, nothing around it. */
bool rg_words_number(struct span text, uint64_t *ret_number);

/* Signed decimal. */
bool rg_words_signed(struct span text, int64_t *ret_number);

#define RG_WORDS_UNLIMITED UINT64_MAX

/*
 * Bytes: digits and an optional suffix K, M, G, T, P, E (1024), with or without "B" or "iB" behind
 * it; "infinity", "unlimited" and "max" are RG_WORDS_UNLIMITED.
 */
bool rg_words_bytes(struct span text, uint64_t *ret_bytes);

#endif
