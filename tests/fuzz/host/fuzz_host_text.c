/* The readers' parsers of text files: the first byte chooses one. */
#include "host/facts.h"

#include <stdlib.h>
#include <string.h>

static struct rg_host_facts *facts;

static void parse_line(struct span rest)
{
    char text[RG_HOST_TEXT_MAX + 1];
    bool cut = false;
    int64_t number;
    uint8_t gid[16];
    if (rg_host_parse_text(rest.ptr, rest.len, text, &cut)) {
        (void)rg_host_parse_number(text, &number);
        (void)rg_host_parse_gid(text, gid);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!facts) {
        facts = malloc(sizeof *facts);
    }
    if (!facts || size == 0) {
        return 0;
    }
    struct rg_reading at = {.state = RG_READ_OK};
    struct span rest = rg_span(data + 1, size - 1);
    memset(facts, 0, sizeof *facts);
    switch (data[0] % 5) {
    case 0:
        parse_line(rest);
        break;
    case 1:
        rg_host_parse_os_release(rest, &facts->system);
        break;
    case 2:
        rg_host_parse_modules(rest, &facts->devices);
        break;
    case 3:
        rg_host_parse_gid_settings(rest, &at, &facts->ports);
        break;
    default: {
        struct rg_firewall firewall;
        rg_firewall_parse(rest, &firewall);
        (void)rg_firewall_blocks(&firewall, true, 9000);
    }
    }
    return 0;
}
