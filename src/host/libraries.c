/*
 * The shared libraries a program needs. See libraries.h.
 */
#include "host/libraries.h"

#include "base/attr.h"
#include "host/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM_MS 2000
#define LINES_MAX  ((size_t)16 << 10)

static bool library_exists(struct rg_source *source, const char *run_path, const char *name)
{
    static const char *const directories[] = {"/lib64",
                                              "/usr/lib64",
                                              "/lib/x86_64-linux-gnu",
                                              "/usr/lib/x86_64-linux-gnu",
                                              "/lib/aarch64-linux-gnu",
                                              "/usr/lib/aarch64-linux-gnu",
                                              "/lib",
                                              "/usr/lib",
                                              "/usr/local/lib",
                                              "/usr/local/lib64"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(directories); i++) {
        if (rg_source_exists(source, "%s/%s", directories[i], name)) {
            return true;
        }
    }
    struct span rest = rg_span_text(run_path);
    while (rest.ptr) {
        struct span part = rg_span_cut(&rest, ':');
        if (part.len && part.ptr[0] == '/' && part.len < 128 &&
            rg_source_exists(source, "%.*s/%s", RG_SPAN_ARG(part), name)) {
            return true;
        }
    }
    return false;
}

/* Directories that packages add to the loader's. */
static bool library_configured(struct rg_source *source, const char *name)
{
    RG_CLEANUP(rg_names_free) struct rg_names names = {0};
    rg_source_list(source, &names, "/etc/ld.so.conf.d");
    for (size_t i = 0; i < names.count; i++) {
        RG_BUF(text, 16384);
        struct rg_reading at;
        struct span rest, line;
        rg_source_read(source, &text, &at, "/etc/ld.so.conf.d/%.100s", names.name[i]);
        rest = rg_buf_span(&text);
        while (rg_words_line(&rest, &line)) {
            line = rg_span_trim(line);
            if (line.len && line.ptr[0] == '/' && line.len < 128 &&
                rg_source_exists(source, "%.*s/%s", RG_SPAN_ARG(line), name)) {
                return true;
            }
        }
    }
    return false;
}

bool rg_host_has_library(struct rg_source *source, const char *run_path, const char *name)
{
    return library_exists(source, run_path, name) || library_configured(source, name);
}

/* ---- What a program names ---- */

static int tell_elf(const char *bytes, size_t len, int fd)
{
    RG_BUF(text, LINES_MAX);
    struct rg_elf elf;
    if (!rg_elf_parse(rg_span(bytes, len), &elf)) {
        return ENOEXEC;
    }
    for (size_t i = 0; i < elf.count; i++) {
        rg_buf_addf(&text, "needed %s\n", elf.needed[i]);
    }
    rg_buf_addf(&text, "path %s\n", elf.run_path[0] ? elf.run_path : "-");
    if (elf.is_static) {
        rg_buf_add_text(&text, "static yes\n");
    }
    struct span all = rg_buf_span(&text);
    return rg_probe_write(fd, all.ptr, all.len);
}

/* Mapped, not read: of a program of any size only the pages that name libraries are touched. */
static int tell_program(void *argument, int fd)
{
    struct stat st;
    const int *file = argument;
    if (fstat(*file, &st) < 0) {
        return errno;
    }
    if (st.st_size <= 0) {
        return ENOEXEC;
    }
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, *file, 0);
    if (bytes == MAP_FAILED) {
        return errno;
    }
    int result = tell_elf(bytes, (size_t)st.st_size, fd);
    (void)munmap(bytes, (size_t)st.st_size);
    return result;
}

bool rg_host_parse_program(struct span lines, struct rg_elf *ret_elf)
{
    struct span line, word, value;
    *ret_elf = (struct rg_elf){0};
    while (rg_words_line(&lines, &line)) {
        if (!rg_words_next(&line, &word) || !rg_words_next(&line, &value)) {
            return false;
        }
        if (rg_span_is(word, "path")) {
            rg_words_copy(ret_elf->run_path, sizeof ret_elf->run_path, value);
        } else if (rg_span_is(word, "static")) {
            ret_elf->is_static = true;
        } else if (!rg_span_is(word, "needed")) {
            return false;
        } else if (ret_elf->count == RG_ELF_NEEDED_MAX) {
            ret_elf->cut = true;
        } else {
            rg_words_copy(ret_elf->needed[ret_elf->count], sizeof ret_elf->needed[0], value);
            ret_elf->count++;
        }
    }
    return true;
}

void rg_host_read_program(struct rg_source *source, const char *name, const char *path,
                          struct rg_host_program *ret_program)
{
    RG_BUF(text, LINES_MAX);
    *ret_program = (struct rg_host_program){0};
    rg_source_probe_file(source, name, path, tell_program, PROGRAM_MS, &text, &ret_program->at);
    bool is_other = !rg_reading_ok(&ret_program->at) && ret_program->at.os_errno == ENOEXEC;
    if (is_other || (rg_reading_ok(&ret_program->at) &&
                     !rg_host_parse_program(rg_buf_span(&text), &ret_program->elf))) {
        ret_program->at.state = RG_READ_MALFORMED;
    }
    for (size_t i = 0; rg_reading_ok(&ret_program->at) && i < ret_program->elf.count; i++) {
        const char *needed = ret_program->elf.needed[i];
        if (ret_program->missing_count < RG_HOST_LIBRARIES_MISSING && !strchr(needed, '/') &&
            !rg_host_has_library(source, ret_program->elf.run_path, needed)) {
            snprintf(ret_program->missing[ret_program->missing_count++],
                     sizeof ret_program->missing[0], "%s", needed);
        }
    }
}
