#include "host/facts.h"

#include <string.h>

/* NAME=value, the value perhaps in quotes. */
static bool take_assignment(struct span line, struct span *ret_name, struct span *ret_value)
{
    struct span rest = rg_span_trim(line);
    *ret_name = rg_span_cut(&rest, '=');
    if (!rest.ptr || ret_name->len == 0) {
        return false;
    }
    bool quoted = rest.len >= 2 && (rest.ptr[0] == '"' || rest.ptr[0] == '\'') &&
                  rest.ptr[rest.len - 1] == rest.ptr[0];
    *ret_value = quoted ? rg_span(rest.ptr + 1, rest.len - 2) : rest;
    return true;
}

static enum rg_distribution family_of(struct span words)
{
    static const char *const rhel[] = {"rhel", "fedora", "centos", "rocky", "almalinux", "ol"};
    static const char *const debian[] = {"debian", "ubuntu"};
    while (words.ptr) {
        struct span word = rg_span_cut(&words, ' ');
        for (size_t i = 0; i < RG_ARRAY_LENGTH(rhel); i++) {
            if (rg_span_is(word, rhel[i])) {
                return RG_DISTRIBUTION_RHEL;
            }
        }
        for (size_t i = 0; i < RG_ARRAY_LENGTH(debian); i++) {
            if (rg_span_is(word, debian[i])) {
                return RG_DISTRIBUTION_DEBIAN;
            }
        }
    }
    return RG_DISTRIBUTION_OTHER;
}

void rg_host_parse_os_release(struct span content, struct rg_host_system *system)
{
    while (content.ptr) {
        struct span name;
        struct span value;
        bool cut;
        if (!take_assignment(rg_span_cut(&content, '\n'), &name, &value)) {
            continue;
        }
        if (rg_span_is(name, "PRETTY_NAME")) {
            (void)rg_host_parse_text(value.ptr, value.len, system->os_name, &cut);
        }
        if ((rg_span_is(name, "ID") || rg_span_is(name, "ID_LIKE")) &&
            system->distribution == RG_DISTRIBUTION_OTHER) {
            system->distribution = family_of(value);
        }
    }
}

/* The line "Uid:" has the real, effective, saved and file system ids. */
static void parse_status(struct span content, struct rg_host_system *system)
{
    while (content.ptr) {
        struct span line = rg_span_cut(&content, '\n');
        if (!rg_span_starts(line, RG_SPAN_LITERAL("Uid:"))) {
            continue;
        }
        struct span rest = rg_span_trim(rg_span_skip(line, strlen("Uid:")));
        (void)rg_span_cut(&rest, '\t');
        system->is_root = rest.ptr && rg_span_is(rg_span_cut(&rest, '\t'), "0");
    }
}

void rg_host_read_system(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_system *system = &facts->system;
    RG_BUF(os_release, 16384);
    RG_BUF(status, 16384);
    rg_source_text(source, &system->hostname, "/proc/sys/kernel/hostname");
    rg_source_text(source, &system->kernel, "/proc/sys/kernel/osrelease");
    rg_source_text(source, &system->boot_id, "/proc/sys/kernel/random/boot_id");
    rg_source_read(source, &os_release, &system->os_release, "/etc/os-release");
    rg_host_parse_os_release(rg_buf_span(&os_release), system);
    rg_source_read(source, &status, &system->status, "/proc/self/status");
    parse_status(rg_buf_span(&status), system);
}
