/* Settings of services, sockets, GPU drivers, modules, ELF files. */
#include "host/aistor_text.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    struct rg_environment *environment = calloc(1, sizeof *environment);
    struct rg_listeners *listeners = calloc(1, sizeof *listeners);
    struct rg_elf *elf = malloc(sizeof *elf);
    struct rg_module_line module;
    char version[32], model[64];
    bool open;
    rg_environment_parse(text, "MINIO_", environment);
    rg_environ_parse(text, "MINIO_", environment);
    assert(environment->count <= RG_ENVIRONMENT_MAX);
    for (size_t i = 0; i < environment->count; i++) {
        assert(rg_environment_get(environment, environment->entries[i].name));
    }
    (void)rg_listeners_parse(text, listeners);
    (void)rg_nvidia_version_parse(text, version, &open);
    (void)rg_nvidia_model_parse(text, model);
    rg_module_parse(text, "ib_core", &module);
    struct rg_modinfo info;
    assert(rg_modinfo_parse(text, &info) == (info.path[0] != '\0'));
    if (rg_elf_parse(text, elf)) {
        assert(elf->count <= RG_ELF_NEEDED_MAX);
    }
    free(environment);
    free(listeners);
    free(elf);
    return 0;
}
