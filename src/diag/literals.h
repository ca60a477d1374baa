/*
 * Many fixed strings searched at once, in one pass over a text whatever the
 * strings are. It knows nothing of messages: it gives back numbers.
 */
#ifndef RG_DIAG_LITERALS_H
#define RG_DIAG_LITERALS_H

#include "base/error.h"
#include "base/span.h"

#define RG_LITERAL_BYTES_MIN 3
#define RG_LITERAL_BYTES_GOOD                                                                      \
    7 /* from here on a string is known by two grams, and rarely mistaken */
#define RG_LITERAL_BYTES_MAX 200
#define RG_LITERAL_TAGS_MAX  4096 /* tags are 0 .. RG_LITERAL_TAGS_MAX - 1 */

/* One string and the number reported when it is found; several strings may
 * share a number. */
struct rg_literal {
    struct span text; /* RG_LITERAL_BYTES_MIN .. RG_LITERAL_BYTES_MAX bytes */
    uint32_t tag;
};

struct rg_literals;

/* Copies what it needs. Fails with RG_SETTING when there are too many strings
 * or one is too short or too long, and with RG_OUT_OF_MEMORY. Free with
 * rg_literals_free. */
int rg_literals_new(const struct rg_literal *list, size_t count, struct rg_literals **ret_literals,
                    struct rg_error *err);
void rg_literals_free(struct rg_literals *literals);

/* Sets bit `tag` in found[] (RG_LITERAL_TAGS_MAX / 64 words, cleared by the
 * caller) for every string in the text. Returns whether any bit was set. */
bool rg_literals_find(const struct rg_literals *literals, struct span text, uint64_t *found);

#endif
