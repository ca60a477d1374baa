/*
 * The journal's structured forms: JSON (one object a line; also what container run times and log
 * shippers write) and the fields of the export format. Values that are not wanted are skipped,
 * however deep they nest; nothing recurses.
 */
#ifndef RG_DIAG_JOURNAL_H
#define RG_DIAG_JOURNAL_H

#include "base/span.h"

#include "diag/shape.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * A line that begins with '{'. Strings are unescaped in place; a MESSAGE given as an array of bytes
 * becomes those bytes. A line that was cut is read as far as it goes. True when it holds a message;
 * then *shaped is filled (shape RG_SHAPE_JSON).
 */
bool rg_journal_read_json(char *line, size_t len, struct rg_shaped *shaped);

/*
 * One line of an object that spans lines, `"NAME" : VALUE,`; may change the line in place. False
 * when it is not one. The spans are borrowed from the line.
 */
bool rg_journal_read_member(char *line, size_t len, struct span *ret_name, struct span *ret_value);

/* A name as fields of the export format have it: A-Z, 0-9 and '_'. */
bool rg_journal_is_field(struct span name);

/* Takes one field into *shaped; the value is borrowed. Fields that say nothing here are ignored.
 * Wants *shaped as rg_journal_begin made it. */
void rg_journal_take(struct rg_shaped *shaped, struct span name, struct span value);

/* True when the shaped entry keeps a reference to that field's value. */
bool rg_journal_keeps(struct span name);

void rg_journal_begin(struct rg_shaped *shaped);

/* After the last field: true when there was a message. */
bool rg_journal_finish(struct rg_shaped *shaped);

#endif
