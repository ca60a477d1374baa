/* Machines as text (tests/host/README): unpacks them into a directory, changed if wanted. */
#ifndef RG_TESTS_HOST_TREE_H
#define RG_TESTS_HOST_TREE_H

#include "host/facts.h"

#include <stddef.h>

/* Unpacks tests/host/NAME.tree, then the lines of `changes` (may be NULL), into a new directory
 * below the temporary one; what the tree says of the plan goes to *ret_plan. Returns the
 * directory, malloc'ed. Errors in a tree fail the test. */
char *tree_make(const char *name, const char *changes, struct rg_host_plan *ret_plan);

/* Puts rubbish into about half of its files, by the seed: nothing, binary, too much, too large
 * numbers, JSON of another kind. */
void tree_spoil(const char *directory, unsigned seed);

/* Removes it and frees the name. */
void tree_remove(char *directory);

/* Makes, reads and removes a tree. */
struct rg_host_facts *tree_read(const char *name, const char *changes);

#endif
