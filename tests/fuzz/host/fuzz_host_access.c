/* What children tell of programs, nodes, users and groups; access lists; identities of processes.
 */
#include "host/facts_access.h"
#include "host/libraries.h"

#include <assert.h>
#include <stdlib.h>

/* What is told of an access list can be read again. */
static void try_list(struct span bytes, struct rg_host_memory *memory)
{
    RG_BUF(line, 65536);
    rg_buf_add_text(&line, "uverbs0 660 0 44");
    if (rg_host_tell_access(bytes, &line) && rg_buf_ok(&line)) {
        memory->mode_count = 0;
        bool fits = rg_host_parse_modes(rg_buf_span(&line), memory);
        assert(fits || bytes.len > 4 + 8 * RG_HOST_ACCESS_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    struct rg_host_memory *memory = calloc(1, sizeof *memory);
    struct rg_host_service *service = calloc(1, sizeof *service);
    struct rg_elf *elf = malloc(sizeof *elf);
    if (rg_host_parse_program(text, elf)) {
        assert(elf->count <= RG_ELF_NEEDED_MAX);
    }
    (void)rg_host_parse_user(text, service);
    assert(service->gid_count <= RG_HOST_GROUPS_MAX);
    size_t before = service->gid_count;
    if (!rg_host_parse_identity(text, service)) {
        assert(service->gid_count == before);
    }
    (void)rg_host_parse_modes(text, memory);
    assert(memory->mode_count <= RG_HOST_MODES_MAX);
    for (size_t i = 0; i < memory->mode_count; i++) {
        assert(memory->modes[i].list_count <= RG_HOST_ACCESS_MAX);
        bool may = rg_host_service_may_open(service, &memory->modes[i]);
        assert(may || (service->uid != 0 && !service->overrides));
    }
    try_list(text, memory);
    free(memory);
    free(service);
    free(elf);
    return 0;
}
