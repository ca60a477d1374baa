/*
 * What a host's packet filter lets in. See firewall_text.h.
 */
#include "host/firewall_text.h"

#include "host/words.h"

#include <string.h>

static bool has(struct span line, const char *word)
{
    return line.ptr && memmem(line.ptr, line.len, word, strlen(word)) != NULL;
}

static bool is_dropping(struct span line)
{
    return has(line, "drop") || has(line, "reject") || has(line, "-j DROP") ||
           has(line, "-j REJECT");
}

static bool is_accepting(struct span line)
{
    return has(line, "accept") || has(line, "-j ACCEPT");
}

/* A chain that sends everything left to its end: "drop", "counter packets 0 bytes 0 drop",
 * "reject with icmpx admin-prohibited", "-A INPUT -j REJECT …". */
static bool is_final(struct span line, bool in_input)
{
    if (rg_span_starts(line, RG_SPAN_LITERAL("-A INPUT -j "))) {
        return is_dropping(line);
    }
    return in_input && is_dropping(line) &&
           (rg_span_starts(line, RG_SPAN_LITERAL("drop")) ||
            rg_span_starts(line, RG_SPAN_LITERAL("reject")) ||
            rg_span_starts(line, RG_SPAN_LITERAL("counter")));
}

/* What lets in without a port, but for what every filter has: answers, loopback, ICMP. */
static bool is_wide(struct span line)
{
    return is_accepting(line) && !has(line, "ct state") && !has(line, "ctstate") &&
           !has(line, "--state") && !has(line, "\"lo\"") && !has(line, "-i lo ") &&
           !has(line, "icmp") && !has(line, "policy") && !has(line, "port") &&
           (line.ptr[0] != '-' || rg_span_starts(line, RG_SPAN_LITERAL("-A INPUT ")));
}

/* The digits at the beginning of *text, cut off. */
static bool take_port(struct span *text, uint16_t *ret_port)
{
    uint64_t port = 0;
    size_t len = 0;
    while (len < text->len && len < 6 && text->ptr[len] >= '0' && text->ptr[len] <= '9') {
        len++;
    }
    if (len == 0 || !rg_span_to_u64(rg_span_head(*text, len), &port) || port > UINT16_MAX) {
        return false;
    }
    *text = rg_span_skip(*text, len);
    *ret_port = (uint16_t)port;
    return true;
}

static void add_range(struct rg_firewall *firewall, struct span line, uint16_t first, uint16_t last)
{
    if (firewall->count == RG_FIREWALL_RANGES_MAX) {
        firewall->cut = true;
        return;
    }
    firewall->ranges[firewall->count++] = (struct rg_firewall_range){
        .tcp = !has(line, "udp "),
        .udp = !has(line, "tcp "),
        .drops = is_dropping(line),
        .first = first,
        .last = last,
    };
}

/* "9000", "{ 22, 9000-9010 }" or "22,9000:9010" behind the word. */
static void take_ports(struct rg_firewall *firewall, struct span line, struct span rest)
{
    while (rest.len) {
        uint16_t first, last;
        char c = rest.ptr[0];
        if (c == ' ' || c == '{' || c == ',') {
            rest = rg_span_skip(rest, 1);
            continue;
        }
        if (!take_port(&rest, &first)) {
            return;
        }
        last = first;
        if (rest.len && (rest.ptr[0] == '-' || rest.ptr[0] == ':')) {
            rest = rg_span_skip(rest, 1);
            if (!take_port(&rest, &last)) {
                return;
            }
        }
        add_range(firewall, line, first, last);
        /* Behind a single number, or the last of a list, other words follow. */
        if (rest.len == 0 || rest.ptr[0] != ',') {
            return;
        }
    }
}

static void take_rule(struct rg_firewall *firewall, struct span line)
{
    static const char *const words[] = {"dports ", "dport "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *at = memmem(line.ptr, line.len, words[i], strlen(words[i]));
        if (at) {
            size_t skip = (size_t)(at - line.ptr) + strlen(words[i]);
            take_ports(firewall, line, rg_span_skip(line, skip));
            return;
        }
    }
}

void rg_firewall_parse(struct span ruleset, struct rg_firewall *ret_firewall)
{
    struct span line;
    bool in_input = false;
    memset(ret_firewall, 0, sizeof *ret_firewall);
    while (rg_words_line(&ruleset, &line)) {
        line = rg_span_trim(line);
        if (line.len == 0) {
            continue;
        }
        if (line.ptr[0] == '}') {
            in_input = false;
        } else if (has(line, "hook input")) {
            in_input = true;
            ret_firewall->drops |= has(line, "policy drop");
        } else if (rg_span_starts(line, RG_SPAN_LITERAL(":INPUT DROP"))) {
            ret_firewall->drops = true;
        } else if (is_final(line, in_input)) {
            ret_firewall->drops = true;
        } else if (has(line, "dport")) {
            take_rule(ret_firewall, line);
        } else {
            ret_firewall->accepts_other |= is_wide(line);
        }
    }
}

bool rg_firewall_blocks(const struct rg_firewall *firewall, bool is_tcp, uint16_t port)
{
    for (size_t i = 0; i < firewall->count; i++) {
        const struct rg_firewall_range *range = &firewall->ranges[i];
        if ((is_tcp ? range->tcp : range->udp) && port >= range->first && port <= range->last) {
            return range->drops; /* the first rule that fits */
        }
    }
    return firewall->drops && !firewall->accepts_other && !firewall->cut;
}
