/*
 * Reads an AIStor node. See facts_aistor.h.
 */
#include "host/facts.h"

#include "base/attr.h"
#include "base/checked.h"
#include "host/filtered.h"
#include "host/libraries.h"
#include "host/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PEER_PORT_USUAL  5555
#define POOL_COUNT_USUAL 256
#define POOL_SIZE_USUAL  ((uint64_t)64 << 20)
#define PREFIX           "MINIO_RDMA_"

/* Credentials stand in the same files. */
static bool keep_rdma(struct span line)
{
    line = rg_span_trim(line);
    if (rg_span_starts(line, RG_SPAN_LITERAL("export "))) {
        line = rg_span_trim(rg_span_skip(line, sizeof "export " - 1));
    }
    return rg_span_starts(line, RG_SPAN_LITERAL(PREFIX));
}

static void read_settings(struct rg_source *source, const char *name, const char *path,
                          struct rg_reading *ret_at, struct rg_environment *environment)
{
    RG_BUF(text, RG_FILTERED_MAX);
    rg_filtered_read(source, name, path, keep_rdma, &text, ret_at);
    rg_environment_parse(rg_buf_span(&text), PREFIX, environment);
}

/* ---- The program and its libraries ---- */

static bool names_rdma(const char *library)
{
    return strstr(library, "ibverbs") || strstr(library, "rdma");
}

static void read_program(struct rg_source *source, struct rg_host_aistor *aistor)
{
    rg_host_read_program(source, "aistor/program", aistor->program, &aistor->build);
    for (size_t i = 0; i < aistor->build.elf.count; i++) {
        aistor->is_rdma_build |= names_rdma(aistor->build.elf.needed[i]);
    }
}

static void find_program(struct rg_source *source, const struct rg_host_service *service,
                         struct rg_host_aistor *aistor)
{
    static const char *const usual[] = {"/usr/local/bin/minio.rdma", "/usr/local/bin/minio",
                                        "/usr/bin/minio"};
    if (service && service->parsed.exec[0] == '/') {
        snprintf(aistor->program, sizeof aistor->program, "%s", service->parsed.exec);
        return;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(usual) && !aistor->program[0]; i++) {
        if (rg_source_exists(source, "%s", usual[i])) {
            snprintf(aistor->program, sizeof aistor->program, "%s", usual[i]);
        }
    }
}

/* ---- What the settings mean ---- */

static bool is_on(const char *value)
{
    return value && (strcmp(value, "on") == 0 || strcmp(value, "true") == 0 ||
                     strcmp(value, "1") == 0 || strcmp(value, "yes") == 0);
}

static void understand(struct rg_host_aistor *aistor)
{
    const char *count = rg_environment_get(&aistor->early, PREFIX "POOL_COUNT");
    const char *size = rg_environment_get(&aistor->early, PREFIX "POOL_BUF_SIZE");
    const char *port = rg_environment_get(&aistor->early, PREFIX "PEER_PORT");
    uint64_t buffers = POOL_COUNT_USUAL, bytes = POOL_SIZE_USUAL, number;
    aistor->internode = is_on(rg_environment_get(&aistor->early, PREFIX "INTERNODE"));
    aistor->peer_port = PEER_PORT_USUAL;
    if (port && rg_span_to_u64(rg_span_text(port), &number) && number >= 1 && number <= 65535) {
        aistor->peer_port = (int64_t)number;
    }
    if ((count && !rg_span_to_u64(rg_span_text(count), &buffers)) ||
        (size && !rg_words_bytes(rg_span_text(size), &bytes)) ||
        !rg_mul_checked(buffers, bytes, &aistor->pool_bytes)) {
        aistor->pool_malformed = true;
        aistor->pool_bytes = 0;
    }
}

void rg_host_read_aistor(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_aistor *aistor = &facts->aistor;
    const struct rg_host_service *service = rg_host_service(facts, RG_AISTOR_UNIT);
    find_program(source, service, aistor);
    read_settings(source, "aistor/early", RG_AISTOR_EARLY, &aistor->early_at, &aistor->early);
    aistor->is_here = aistor->program[0] || rg_reading_ok(&aistor->early_at) ||
                      (service && (service->pid || rg_reading_ok(&service->unit_at)));
    if (!aistor->is_here) {
        return;
    }
    read_settings(source, "aistor/late", RG_AISTOR_LATE, &aistor->late_at, &aistor->late);
    if (aistor->program[0]) {
        read_program(source, aistor);
    }
    if (service && service->pid) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%u/environ", service->pid);
        read_settings(source, "aistor/running", path, &aistor->running_at, &aistor->running);
    }
    understand(aistor);
}
