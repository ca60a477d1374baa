/*
 * Shell lines that a person will copy, made of a format and of names that come from a machine:
 * names of interfaces, mounts and settings may hold blanks, quotes and whatever else a shell acts
 * on.
 */
#ifndef RG_HOST_SHELL_WORDS_H
#define RG_HOST_SHELL_WORDS_H

#include "base/buf.h"

#include <stdarg.h>

/*
 * As vprintf, with %s, %.*s and integers (no widths of texts, no floating point). A text stays one
 * word: it is put into quotes where it needs them, and escaped where the format has quotes around
 * it. In comments it stands as it is.
 */
void rg_shell_compose(struct rg_buf *out, const char *format, va_list args);

#endif
