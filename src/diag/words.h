/*
 * A pool of words (diagnosis.h): every text kept once, valid UTF-8, no control characters.
 *
 * Bounded: past the ceilings, and for a text too long, what is kept is RG_WORD_NOT_KEPT or a cut
 * text; the caller need not care. Only running out of memory is remembered (`failed`).
 */
#ifndef RG_DIAG_WORDS_H
#define RG_DIAG_WORDS_H

#include "base/buf.h"
#include "diag/diagnosis.h"

#define RG_WORDS_MAX      60000
#define RG_WORDS_BYTES    (6U << 20)
#define RG_WORD_BYTES_MAX 1200

#define RG_WORD_NOT_KEPT 1U /* "(not kept)" */

struct rg_pool {
    char **text;
    uint32_t *slots; /* hash table of indices */
    uint32_t slot_count;
    uint32_t count;
    uint32_t room;
    size_t bytes;
    bool failed; /* out of memory at some time */
    bool full;   /* a ceiling was met */
};

/* False when out of memory. */
bool rg_pool_init(struct rg_pool *pool);
void rg_pool_free(struct rg_pool *pool);

rg_word rg_pool_add(struct rg_pool *pool, struct span text);
rg_word rg_pool_addf(struct rg_pool *pool, const char *format, ...) RG_PRINTF(2, 3);
const char *rg_pool_text(const struct rg_pool *pool, rg_word word);

/* Appends the text made presentable: broken UTF-8 becomes U+FFFD, control characters spaces, and
 * what is longer than `max` bytes is cut with "…". */
void rg_text_clean(struct span text, size_t max, struct rg_buf *out);

#endif
