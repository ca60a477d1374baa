/*
 * The shared libraries a program needs, read from the program itself and looked for where the
 * loader looks. Nothing is executed or loaded; libraries of libraries are not followed.
 */
#ifndef RG_HOST_LIBRARIES_H
#define RG_HOST_LIBRARIES_H

#include "host/aistor_text.h"
#include "host/source.h"

#define RG_HOST_LIBRARIES_MISSING 8

struct rg_host_program {
    struct rg_reading at; /* MALFORMED: no ELF of this kind */
    struct rg_elf elf;
    char missing[RG_HOST_LIBRARIES_MISSING][96];
    size_t missing_count;
};

/* In the loader's directories, those of /etc/ld.so.conf.d, and the program's own (`run_path`, with
 * ':' between). */
bool rg_host_has_library(struct rg_source *source, const char *run_path, const char *name);

/* Programs may be of any size: a child tells what it names, which is the document `name`. */
void rg_host_read_program(struct rg_source *source, const char *name, const char *path,
                          struct rg_host_program *ret_program);

/* Lines "needed NAME", "path DIRECTORIES" and "static yes", as the child tells them; false when one
 * is not. */
bool rg_host_parse_program(struct span lines, struct rg_elf *ret_elf);

#endif
