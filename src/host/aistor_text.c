/*
 * Texts of services and drivers. See aistor_text.h.
 */
#include "host/aistor_text.h"

#include "base/attr.h"
#include "base/checked.h"
#include "host/words.h"

#include <elf.h>
#include <string.h>

/* ---- NAME=VALUE ---- */

static void set_entry(struct rg_environment *environment, struct span name, struct span value,
                      bool exported, bool spaced)
{
    size_t at = 0;
    while (at < environment->count && !rg_span_is(name, environment->entries[at].name)) {
        at++;
    }
    if (at == RG_ENVIRONMENT_MAX || name.len >= sizeof environment->entries[0].name) {
        environment->cut = true;
        return;
    }
    environment->count = RG_MAX(environment->count, at + 1);
    rg_words_copy(environment->entries[at].name, sizeof environment->entries[at].name, name);
    environment->cut |= !rg_words_copy(environment->entries[at].value,
                                       sizeof environment->entries[at].value, value);
    environment->entries[at].exported = exported;
    environment->entries[at].spaced = spaced;
}

void rg_environment_parse(struct span text, const char *prefix, struct rg_environment *environment)
{
    struct span line, name, value;
    while (rg_words_line(&text, &line)) {
        line = rg_span_trim(line);
        if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';') {
            continue;
        }
        bool exported = rg_span_starts(line, RG_SPAN_LITERAL("export "));
        line = rg_span_trim(rg_span_skip(line, exported ? sizeof "export " - 1 : 0));
        ptrdiff_t at = rg_span_find(line, '=');
        if (!rg_words_pair(line, '=', &name, &value) ||
            !rg_span_starts(name, rg_span_text(prefix))) {
            continue;
        }
        bool spaced = (size_t)at != name.len || (value.len && value.ptr != line.ptr + at + 1);
        set_entry(environment, name, rg_words_bare(value), exported, spaced);
    }
}

void rg_environ_parse(struct span bytes, const char *prefix, struct rg_environment *environment)
{
    struct span name, value;
    while (bytes.ptr) {
        struct span entry = rg_span_cut(&bytes, '\0');
        if (rg_span_starts(entry, rg_span_text(prefix)) &&
            rg_words_pair(entry, '=', &name, &value)) {
            set_entry(environment, name, value, false, false);
        }
    }
}

const char *rg_environment_get(const struct rg_environment *environment, const char *name)
{
    for (size_t i = 0; i < environment->count; i++) {
        if (strcmp(environment->entries[i].name, name) == 0) {
            return environment->entries[i].value;
        }
    }
    return NULL;
}

/* ---- Sockets ---- */

#define TCP_LISTEN_STATE "0A"

static bool is_all(struct span hex, char digit)
{
    for (size_t i = 0; i < hex.len; i++) {
        if (hex.ptr[i] != digit) {
            return false;
        }
    }
    return true;
}

static bool is_loopback(struct span hex)
{
    /* The address is in host order of 32-bit words: 127.0.0.1 is 0100007F on little-endian. */
    if (hex.len == 8) {
        return rg_span_ends(hex, RG_SPAN_LITERAL("7F")) ||
               rg_span_starts(hex, RG_SPAN_LITERAL("7F"));
    }
    return hex.len == 32 && is_all(rg_span_head(hex, 24), '0') &&
           (rg_span_ends(hex, RG_SPAN_LITERAL("01000000")) ||
            rg_span_ends(hex, RG_SPAN_LITERAL("00000001")));
}

static void add_listener(struct rg_listeners *listeners, struct span address, uint16_t port)
{
    if (listeners->count == RG_ARRAY_LENGTH(listeners->sockets)) {
        listeners->cut = true;
        return;
    }
    size_t at = listeners->count++;
    listeners->sockets[at].port = port;
    listeners->sockets[at].any = is_all(address, '0');
    listeners->sockets[at].loopback = is_loopback(address);
}

bool rg_listeners_parse(struct span text, struct rg_listeners *listeners)
{
    struct span line, word, local, remote, state, address, port;
    if (!rg_words_line(&text, &line) || !rg_words_next(&line, &word) || !rg_span_is(word, "sl")) {
        return false;
    }
    while (rg_words_line(&text, &line)) {
        char hex[2 + 4 + 1] = "0x";
        uint64_t number;
        if (!rg_words_next(&line, &word) || !rg_words_next(&line, &local) ||
            !rg_words_next(&line, &remote) || !rg_words_next(&line, &state) ||
            !rg_span_is(state, TCP_LISTEN_STATE) || !rg_words_pair(local, ':', &address, &port) ||
            (address.len != 8 && address.len != 32) || port.len != 4) {
            continue;
        }
        rg_words_copy(hex + 2, sizeof hex - 2, port);
        if (rg_words_number(rg_span_text(hex), &number)) {
            add_listener(listeners, address, (uint16_t)number);
        }
    }
    return true;
}

/* ---- NVIDIA ---- */

static bool is_version(struct span word)
{
    size_t dots = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == '.') {
            dots++;
        } else if (word.ptr[i] < '0' || word.ptr[i] > '9') {
            return false;
        }
    }
    return dots >= 1 && word.len >= 3;
}

bool rg_nvidia_version_parse(struct span text, char ret_version[32], bool *ret_open)
{
    struct span line, word;
    bool is_open = false;
    if (!rg_words_line(&text, &line) || !rg_span_starts(line, RG_SPAN_LITERAL("NVRM version"))) {
        return false;
    }
    while (rg_words_next(&line, &word)) {
        is_open |= rg_span_is(word, "Open");
        if (is_version(word)) {
            *ret_open = is_open;
            return rg_words_copy(ret_version, 32, word);
        }
    }
    return false;
}

bool rg_nvidia_model_parse(struct span text, char ret_model[64])
{
    struct span line, name, value;
    while (rg_words_line(&text, &line)) {
        if (rg_words_pair(line, ':', &name, &value) && rg_span_is(name, "Model")) {
            rg_words_copy(ret_model, 64, value);
            return true;
        }
    }
    return false;
}

/* ---- Modules ---- */

void rg_module_parse(struct span text, const char *name, struct rg_module_line *ret_module)
{
    struct span line, word, size, users, by;
    *ret_module = (struct rg_module_line){0};
    while (rg_words_line(&text, &line)) {
        if (!rg_words_next(&line, &word) || !rg_span_is(word, name)) {
            continue;
        }
        ret_module->loaded = true;
        if (rg_words_next(&line, &size) && rg_words_next(&line, &users)) {
            rg_span_to_u64(users, &ret_module->users);
        }
        if (rg_words_next(&line, &by) && !rg_span_is(by, "-")) {
            rg_words_copy(ret_module->used_by, sizeof ret_module->used_by, by);
        }
        return;
    }
}

bool rg_modinfo_parse(struct span text, struct rg_modinfo *ret_info)
{
    struct span line, name, value;
    *ret_info = (struct rg_modinfo){0};
    while (rg_words_line(&text, &line)) {
        if (!rg_words_pair(line, ':', &name, &value)) {
            continue;
        }
        if (rg_span_is(name, "filename") && !ret_info->path[0]) {
            rg_words_copy(ret_info->path, sizeof ret_info->path, value);
        } else if (rg_span_is(name, "srcversion") && !ret_info->srcversion[0]) {
            rg_words_copy(ret_info->srcversion, sizeof ret_info->srcversion, value);
        }
    }
    return ret_info->path[0] != '\0';
}

/* ---- ELF ---- */

static bool copy_out(struct span bytes, uint64_t at, void *to, size_t size)
{
    if (at > bytes.len || size > bytes.len - at) {
        return false;
    }
    memcpy(to, bytes.ptr + at, size);
    return true;
}

/* Where a virtual address lies in the file. */
static bool file_offset(struct span bytes, const Elf64_Ehdr *header, uint64_t address,
                        uint64_t *ret_offset)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!copy_out(bytes, header->e_phoff + (uint64_t)i * sizeof segment, &segment,
                      sizeof segment)) {
            return false;
        }
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz) {
            return rg_add_checked(segment.p_offset, address - segment.p_vaddr, ret_offset);
        }
    }
    return false;
}

/* False when the segments cannot be read; *ret_found tells whether one is dynamic. */
static bool find_dynamic(struct span bytes, const Elf64_Ehdr *header, Elf64_Phdr *ret_segment,
                         bool *ret_found)
{
    *ret_found = false;
    for (unsigned i = 0; i < header->e_phnum && !*ret_found; i++) {
        if (!copy_out(bytes, header->e_phoff + (uint64_t)i * sizeof *ret_segment, ret_segment,
                      sizeof *ret_segment)) {
            return false;
        }
        *ret_found = ret_segment->p_type == PT_DYNAMIC;
    }
    return true;
}

static bool string_at(struct span bytes, uint64_t at, struct span *ret_text)
{
    if (at >= bytes.len) {
        return false;
    }
    struct span rest = rg_span_skip(bytes, at);
    *ret_text = rg_span_head(rest, strnlen(rest.ptr, rest.len));
    return ret_text->len < rest.len;
}

static bool add_needed(struct span bytes, uint64_t at, struct rg_elf *elf)
{
    struct span name;
    if (!string_at(bytes, at, &name)) {
        return false;
    }
    if (elf->count == RG_ELF_NEEDED_MAX) {
        elf->cut = true;
        return true;
    }
    elf->cut |= !rg_words_copy(elf->needed[elf->count], sizeof elf->needed[0], name);
    elf->count++;
    return true;
}

#define ELF_DYNAMIC_MAX 4096

/* Calls nothing for DT_STRTAB on the first pass, names the libraries on the second. */
static bool walk_dynamic(struct span bytes, const Elf64_Phdr *segment, uint64_t strings,
                         uint64_t *ret_strings, struct rg_elf *elf)
{
    uint64_t count = RG_MIN(segment->p_filesz / sizeof(Elf64_Dyn), (uint64_t)ELF_DYNAMIC_MAX);
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Dyn entry;
        uint64_t at;
        if (!rg_add_checked(segment->p_offset, i * sizeof entry, &at) ||
            !copy_out(bytes, at, &entry, sizeof entry)) {
            return false;
        }
        if (entry.d_tag == DT_NULL) {
            return true;
        }
        if (entry.d_tag == DT_STRTAB && ret_strings) {
            *ret_strings = entry.d_un.d_ptr;
        }
        bool is_path = entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH;
        if (!elf || (entry.d_tag != DT_NEEDED && !is_path)) {
            continue;
        }
        struct span path;
        if (!rg_add_checked(strings, entry.d_un.d_val, &at) ||
            (is_path ? !string_at(bytes, at, &path) : !add_needed(bytes, at, elf))) {
            return false;
        }
        if (is_path) {
            elf->cut |= !rg_words_copy(elf->run_path, sizeof elf->run_path, path);
        }
    }
    return true;
}

bool rg_elf_parse(struct span bytes, struct rg_elf *ret_elf)
{
    Elf64_Ehdr header;
    Elf64_Phdr dynamic;
    uint64_t strings_address = 0, strings;
    bool found;
    memset(ret_elf, 0, sizeof *ret_elf);
    if (!copy_out(bytes, 0, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_phentsize != sizeof(Elf64_Phdr) ||
        header.e_phoff > bytes.len) {
        return false;
    }
    if (!find_dynamic(bytes, &header, &dynamic, &found)) {
        return false;
    }
    if (!found) {
        ret_elf->is_static = true;
        return true;
    }
    return walk_dynamic(bytes, &dynamic, 0, &strings_address, NULL) &&
           file_offset(bytes, &header, strings_address, &strings) &&
           walk_dynamic(bytes, &dynamic, strings, NULL, ret_elf);
}
