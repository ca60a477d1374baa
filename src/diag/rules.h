/*
 * The text format of message rows: the compiled-in table (messages.tbl) and the files of a site
 * (`--rules FILE`) have the same one. Reading only: whether patterns compile and examples match is
 * the catalogue's to check.
 *
 *   # a comment
 *   id: MY-RAID
 *   title: RAID controller lost its cache battery
 *   re: (?<device>sd[a-z]+): cache battery failed, rc (?<rc>-?[0-9]+)
 *   example: sdb: cache battery failed, rc -5
 *   layer: backend
 *
 * A row begins with `id:` and ends before the next. A line that begins with white space continues
 * the one before it, joined by one space. `literal`, `example` and `next` may stand several times.
 */
#ifndef RG_DIAG_RULES_H
#define RG_DIAG_RULES_H

#include "diag/catalogue.h"

#define RG_RULES_BYTES_MAX   (2 << 20)
#define RG_RULES_ROWS_MAX    2000 /* of all sources together */
#define RG_RULE_LINE_MAX     4096
#define RG_RULE_ID_BYTES_MAX 40

/* Rows and the memory behind their texts. */
struct rg_rules {
    struct rg_catalogue_row *rows;
    size_t count;
    size_t room;
    char **texts;
    size_t text_count;
    size_t text_room;
};

void rg_rules_free(struct rg_rules *rules);

/*
 * Appends the rows of `text` to *rules. `source` names it in errors ("site.rules"); `built_in`
 * rows have the source "built in". Fails with RG_SETTING: "SOURCE:LINE: reason".
 */
int rg_rules_read(struct rg_rules *rules, struct span text, const char *source, bool built_in,
                  struct rg_error *err);

/* A copy of the text that lives as long as the rules; NULL when out of memory. */
const char *rg_rules_keep(struct rg_rules *rules, struct span text);

/* The keys, for the manual: "name", what it holds. Ends with a NULL name. */
struct rg_rule_key {
    const char *name;
    const char *sentence;
};
const struct rg_rule_key *rg_rules_keys(void);

#endif
