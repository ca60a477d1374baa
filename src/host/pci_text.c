/*
 * PCI facts out of sysfs. See pci_text.h. Register layouts: PCI Local Bus 3.0 (6.7), PCI Express
 * Base 4.0 (7.5.3 and 7.7.8).
 */
#include "host/pci_text.h"

#include "base/checked.h"
#include "base/encode.h"
#include "host/words.h"

#define HEADER_BYTES       64
#define STATUS             0x06
#define STATUS_LIST        0x10
#define CAPABILITY_POINTER 0x34
#define CAPABILITY_EXPRESS 0x10
#define EXTENDED_START     0x100
#define EXTENDED_ACS       0x000d
#define LEGACY_BYTES       256
#define CAPABILITIES_MAX   48   /* that fit 256 bytes */
#define EXTENDED_MAX       1024 /* that fit 4096 bytes */

static uint16_t read16(struct span bytes, size_t at)
{
    const unsigned char *p = (const unsigned char *)bytes.ptr + at;
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t read32(struct span bytes, size_t at)
{
    return read16(bytes, at) | (uint32_t)read16(bytes, at + 2) << 16;
}

static void parse_express(struct span bytes, size_t at, struct rg_pci_config *config)
{
    uint16_t flags = read16(bytes, at + 2);
    uint32_t able = read32(bytes, at + 4);
    uint16_t control = read16(bytes, at + 8);
    config->has_express = true;
    config->type = flags >> 4 & 0xf;
    config->payload_able = 128u << (able & 7);
    config->payload = 128u << (control >> 5 & 7);
    config->read_request = 128u << (control >> 12 & 7);
    config->relaxed_ordering = control & 0x10;
}

static bool walk_capabilities(struct span bytes, struct rg_pci_config *config)
{
    size_t at = (unsigned char)bytes.ptr[CAPABILITY_POINTER] & ~3u;
    for (unsigned count = 0; at != 0; count++) {
        if (count == CAPABILITIES_MAX || at < HEADER_BYTES) {
            return false;
        }
        if (at + 10 > RG_MIN(bytes.len, (size_t)LEGACY_BYTES)) {
            return true;
        }
        if ((unsigned char)bytes.ptr[at] == CAPABILITY_EXPRESS) {
            parse_express(bytes, at, config);
        }
        at = (unsigned char)bytes.ptr[at + 1] & ~3u;
    }
    return true;
}

static bool walk_extended(struct span bytes, struct rg_pci_config *config)
{
    size_t at = EXTENDED_START;
    for (unsigned count = 0; at >= EXTENDED_START; count++) {
        if (count == EXTENDED_MAX) {
            return false;
        }
        if (at + 8 > bytes.len) {
            return true;
        }
        uint32_t header = read32(bytes, at);
        if (header == 0 || header == UINT32_MAX) {
            return true;
        }
        if ((header & 0xffff) == EXTENDED_ACS) {
            config->has_acs = true;
            config->acs_control = read16(bytes, at + 6);
        }
        at = header >> 20 & ~3u;
    }
    return true;
}

bool rg_pci_config_parse(struct span bytes, struct rg_pci_config *ret_config)
{
    *ret_config = (struct rg_pci_config){0};
    if (bytes.len < HEADER_BYTES || read16(bytes, 0) == UINT16_MAX) {
        return false;
    }
    ret_config->short_read = bytes.len < LEGACY_BYTES;
    ret_config->has_extended = bytes.len > LEGACY_BYTES;
    if (ret_config->short_read || !(read16(bytes, STATUS) & STATUS_LIST)) {
        return true;
    }
    return walk_capabilities(bytes, ret_config) && walk_extended(bytes, ret_config);
}

static bool parse_range(struct span line, uint64_t *ret_bytes)
{
    struct span first, last, flags;
    uint64_t start, end, kind;
    if (!rg_words_next(&line, &first) || !rg_words_next(&line, &last) ||
        !rg_words_next(&line, &flags) || !rg_words_number(first, &start) ||
        !rg_words_number(last, &end) || !rg_words_number(flags, &kind)) {
        return false;
    }
    bool empty = end < start || (start == 0 && end == 0);
    *ret_bytes = empty || end - start == UINT64_MAX ? 0 : end - start + 1;
    return true;
}

bool rg_pci_resource_parse(struct span text, uint64_t ret_bytes[RG_PCI_BARS])
{
    struct span line;
    for (size_t i = 0; i < RG_PCI_BARS; i++) {
        if (!rg_words_line(&text, &line) || !parse_range(line, &ret_bytes[i])) {
            return false;
        }
    }
    return true;
}

bool rg_pci_speed_parse(struct span text, unsigned *ret_tenths)
{
    struct span number, unit, whole, part;
    text = rg_words_bare(text);
    if (!rg_words_next(&text, &number) || !rg_words_next(&text, &unit) ||
        !rg_span_starts(unit, RG_SPAN_LITERAL("GT/s"))) {
        return false;
    }
    uint64_t units, tenths = 0;
    if (!rg_words_pair(number, '.', &whole, &part)) {
        whole = number;
    } else if (!rg_span_to_u64(rg_span_head(part, 1), &tenths)) {
        return false;
    }
    if (!rg_span_to_u64(whole, &units) || units > 1000) {
        return false;
    }
    *ret_tenths = (unsigned)(units * 10 + tenths);
    return true;
}

uint64_t rg_pci_link_mbits(unsigned speed_tenths, unsigned width)
{
    uint64_t raw = (uint64_t)speed_tenths * 100 * width;
    if (speed_tenths <= 50) {
        return raw * 8 / 10;
    }
    return speed_tenths < 640 ? raw * 128 / 130 : raw * 242 / 256;
}

bool rg_pci_is_address(struct span text)
{
    return rg_hex_has_shape(text, "xxxx:xx:xx.x");
}

/* The next component that is a PCI root or address. */
static bool next_hop(struct span *rest, struct span *ret_hop)
{
    while (rest->ptr) {
        struct span part = rg_span_cut(rest, '/');
        if (rg_pci_is_address(part) || rg_span_starts(part, RG_SPAN_LITERAL("pci"))) {
            *ret_hop = part;
            return true;
        }
    }
    return false;
}

static bool same_node(int a, int b)
{
    return a < 0 || b < 0 || a == b;
}

enum rg_pci_distance rg_pci_distance(struct span path_a, int node_a, struct span path_b, int node_b)
{
    size_t shared = 0, own_a = 0, own_b = 0;
    struct span a = RG_SPAN_EMPTY, b = RG_SPAN_EMPTY;
    bool more_a = next_hop(&path_a, &a), more_b = next_hop(&path_b, &b);
    while (more_a && more_b && rg_span_eq(a, b)) {
        shared++;
        more_a = next_hop(&path_a, &a);
        more_b = next_hop(&path_b, &b);
    }
    for (; more_a; more_a = next_hop(&path_a, &a)) {
        own_a++;
    }
    for (; more_b; more_b = next_hop(&path_b, &b)) {
        own_b++;
    }
    if (!same_node(node_a, node_b)) {
        return RG_PCI_SYS;
    }
    if (shared < 2) {
        return shared == 0 ? RG_PCI_NODE : RG_PCI_PHB;
    }
    /* Below one bridge, a switch's two downstream ports lie between two functions. */
    return own_a <= 2 && own_b <= 2 ? RG_PCI_PIX : RG_PCI_PXB;
}

const char *rg_pci_distance_name(enum rg_pci_distance distance)
{
    static const char *const names[] = {[RG_PCI_PIX] = "PIX",
                                        [RG_PCI_PXB] = "PXB",
                                        [RG_PCI_PHB] = "PHB",
                                        [RG_PCI_NODE] = "NODE",
                                        [RG_PCI_SYS] = "SYS"};
    return names[distance];
}
