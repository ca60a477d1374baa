/*
 * What kind of bytes a stream begins with.
 */
#ifndef RG_DIAG_CONTENT_H
#define RG_DIAG_CONTENT_H

#include "base/span.h"

enum rg_content {
    RG_CONTENT_LOG,
    RG_CONTENT_UTF16,
    RG_CONTENT_ARCHIVE, /* or compressed */
    RG_CONTENT_JOURNAL, /* systemd's own file */
    RG_CONTENT_BINARY,
    RG_CONTENT_EMPTY
};

/* Tells it from the first bytes, of which a few thousand suffice. */
enum rg_content rg_content_of(struct span head);

#endif
