/*
 * Settings files of services (/etc/default/minio), environments of processes, listening sockets,
 * GPU driver texts, and the library a program needs. Pure.
 */
#ifndef RG_HOST_AISTOR_TEXT_H
#define RG_HOST_AISTOR_TEXT_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- NAME=VALUE ---- */

#define RG_ENVIRONMENT_MAX 48

/* Settings whose name begins with a prefix. */
struct rg_environment {
    struct {
        char name[64];
        char value[128];
        bool exported; /* "export NAME=VALUE": a shell reads it, systemd does not */
        bool spaced;   /* blanks around '=' */
    } entries[RG_ENVIRONMENT_MAX];
    size_t count;
    bool cut;
};

/* A file: one assignment a line, '#' and ';' begin comments, quotes are taken off; a later line
 * wins. Adds to what is there: start from all zero. */
void rg_environment_parse(struct span text, const char *prefix, struct rg_environment *environment);

/* /proc/PID/environ: assignments that end with NUL. */
void rg_environ_parse(struct span bytes, const char *prefix, struct rg_environment *environment);

/* The value, or NULL. */
const char *rg_environment_get(const struct rg_environment *environment, const char *name);

/* ---- /proc/net/tcp and tcp6 ---- */

struct rg_listeners {
    struct {
        uint16_t port;
        bool any;      /* all addresses */
        bool loopback; /* only this machine */
    } sockets[64];
    size_t count;
    bool cut;
};

/* Adds the sockets that listen. False when the text is no such table. */
bool rg_listeners_parse(struct span text, struct rg_listeners *listeners);

/* ---- NVIDIA's driver ---- */

/* /proc/driver/nvidia/version: "550.54.15"; whether the kernel modules are the open ones. */
bool rg_nvidia_version_parse(struct span text, char ret_version[32], bool *ret_open);

/* The value behind "Model:" in /proc/driver/nvidia/gpus/ADDRESS/information. */
bool rg_nvidia_model_parse(struct span text, char ret_model[64]);

/* ---- /proc/modules ---- */

struct rg_module_line {
    bool loaded;
    uint64_t users;
    char used_by[192]; /* "a,b," as the kernel writes it */
};

/* The line of one module; loaded is false when it has none. */
void rg_module_parse(struct span text, const char *name, struct rg_module_line *ret_module);

/* ---- modinfo ---- */

struct rg_modinfo {
    char path[192];      /* "(builtin)" for what is part of the kernel */
    char srcversion[64]; /* "" when it has none */
};

/* The output of `modinfo NAME`. False when it names no file. */
bool rg_modinfo_parse(struct span text, struct rg_modinfo *ret_info);

/* ---- ELF: which libraries a program needs ---- */

#define RG_ELF_NEEDED_MAX 64

struct rg_elf {
    char needed[RG_ELF_NEEDED_MAX][96];
    size_t count;
    char run_path[192]; /* directories to look in first, separated by ':'; "" */
    bool is_static;     /* no dynamic section */
    bool cut;
};

/*
 * The beginning of a file (64-bit, little-endian). False when that is no such program, or when
 * what names the libraries lies beyond the bytes given.
 */
bool rg_elf_parse(struct span bytes, struct rg_elf *ret_elf);

#endif
