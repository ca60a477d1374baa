/*
 * LNet's texts. See lnet_text.h.
 */
#include "host/lnet_text.h"

#include "host/words.h"

#include <stdio.h>

/* ---- Network identifiers ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_address_byte(char c)
{
    return is_letter(c) || is_digit(c) || c == '.' || c == ':' || c == '-' || c == '_';
}

/* "o2ib0" is "o2ib"; what is no net's name is refused. */
static bool copy_net(char ret_net[RG_LNET_NET_MAX + 1], struct span net)
{
    if (net.len == 0 || net.len > RG_LNET_NET_MAX || !is_letter(net.ptr[0])) {
        return false;
    }
    for (size_t i = 0; i < net.len; i++) {
        if (!is_letter(net.ptr[i]) && !is_digit(net.ptr[i])) {
            return false;
        }
    }
    if (net.len >= 2 && net.ptr[net.len - 1] == '0' && !is_digit(net.ptr[net.len - 2])) {
        net.len--;
    }
    return rg_words_copy(ret_net, RG_LNET_NET_MAX + 1, net);
}

bool rg_nid_parse(struct span text, struct rg_nid *ret_nid)
{
    struct span address = rg_words_bare(text), net = RG_SPAN_LITERAL("tcp");
    ptrdiff_t at = rg_span_find(address, '@');
    if (at >= 0) {
        net = rg_span_skip(address, (size_t)at + 1);
        address = rg_span_head(address, (size_t)at);
    }
    struct rg_nid nid;
    if (address.len == 0 || address.len > RG_NID_MAX || !copy_net(nid.net, net)) {
        return false;
    }
    for (size_t i = 0; i < address.len; i++) {
        if (!is_address_byte(address.ptr[i])) {
            return false;
        }
    }
    rg_words_copy(nid.address, sizeof nid.address, address);
    *ret_nid = nid;
    return true;
}

bool rg_nid_is_same(const struct rg_nid *a, const struct rg_nid *b)
{
    return strcmp(a->address, b->address) == 0 && strcmp(a->net, b->net) == 0;
}

void rg_nid_text(const struct rg_nid *nid, char ret_text[RG_NID_TEXT_MAX + 1])
{
    snprintf(ret_text, RG_NID_TEXT_MAX + 1, "%s@%s", nid->address, nid->net);
}

static void add_nid(struct rg_nid_list *list, struct span text)
{
    struct rg_nid nid;
    if (text.len == 0) {
        return;
    }
    if (!rg_nid_parse(text, &nid) || list->count == RG_LNET_LIST_MAX) {
        list->cut = true;
        return;
    }
    if (!rg_nid_list_has(list, &nid)) {
        list->nids[list->count++] = nid;
    }
}

/* Two colons before the '@', or "::", make an IPv6 address. */
static bool is_ipv6(struct span text)
{
    struct span address = text;
    ptrdiff_t at = rg_span_find(text, '@');
    if (at >= 0) {
        address = rg_span_head(text, (size_t)at);
    }
    size_t colons = 0;
    for (size_t i = 0; i < address.len; i++) {
        colons += address.ptr[i] == ':';
    }
    return colons >= 2;
}

void rg_nid_list_add(struct rg_nid_list *list, struct span text)
{
    size_t begin = 0;
    for (size_t i = 0; i <= text.len; i++) {
        char c = i < text.len ? text.ptr[i] : ',';
        if (c != ',' && c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            continue;
        }
        struct span group = rg_span(text.ptr + begin, i - begin);
        begin = i + 1;
        if (is_ipv6(group)) {
            add_nid(list, group);
            continue;
        }
        for (struct span rest = group; rest.ptr;) {
            add_nid(list, rg_span_cut(&rest, ':'));
        }
    }
}

bool rg_nid_list_has(const struct rg_nid_list *list, const struct rg_nid *nid)
{
    for (size_t i = 0; i < list->count; i++) {
        if (rg_nid_is_same(&list->nids[i], nid)) {
            return true;
        }
    }
    return false;
}

/* ---- YAML, as far as lnetctl writes it ---- */

struct item {
    size_t indent; /* of the key */
    bool dash;     /* begins an element of a list */
    struct span key, value;
};

static bool next_item(struct span *rest, struct item *ret_item)
{
    struct span line;
    while (rg_words_line(rest, &line)) {
        size_t indent = 0;
        bool dash = false;
        while (indent < line.len && (line.ptr[indent] == ' ' || line.ptr[indent] == '-')) {
            dash |= line.ptr[indent] == '-';
            indent++;
        }
        struct span body = rg_span_skip(line, indent);
        struct item item = {.indent = indent, .dash = dash};
        if (body.len && body.ptr[0] != '#' && rg_words_pair(body, ':', &item.key, &item.value) &&
            item.key.len) {
            item.value = rg_words_bare(item.value);
            *ret_item = item;
            return true;
        }
    }
    return false;
}

static const struct rg_lnet_ni empty_ni = {
    .peer_credits = -1, .peer_credits_high = -1, .map_on_demand = -1, .conns_per_peer = -1};

static struct rg_lnet_ni *add_ni(struct rg_lnet_conf *conf, const char *net)
{
    if (conf->ni_count == RG_LNET_NIS_MAX) {
        conf->cut = true;
        return NULL;
    }
    struct rg_lnet_ni *ni = &conf->nis[conf->ni_count++];
    *ni = empty_ni;
    snprintf(ni->net, sizeof ni->net, "%s", net);
    return ni;
}

static void set_ni(struct rg_lnet_ni *ni, const struct item *item)
{
    struct span key = item->key;
    int64_t number = 0;
    bool is_number = rg_words_signed(item->value, &number);
    if (rg_span_is(key, "nid")) {
        ni->has_nid = rg_nid_parse(item->value, &ni->nid);
    } else if (rg_span_is(key, "status")) {
        rg_words_copy(ni->status, sizeof ni->status, item->value);
    } else if (!is_number) {
        return;
    } else if (rg_span_is(key, "health value")) {
        ni->has_health = true;
        ni->health = number;
    } else if (rg_span_is(key, "fatal_error")) {
        ni->fatal_error = number;
    } else if (rg_span_is(key, "send_count") && number >= 0) {
        ni->has_traffic = true;
        ni->sent = (uint64_t)number;
    } else if (rg_span_is(key, "recv_count") && number >= 0) {
        ni->received = (uint64_t)number;
    } else if (rg_span_is(key, "drop_count") && number >= 0) {
        ni->dropped = (uint64_t)number;
    } else if (rg_span_is(key, "peer_credits")) {
        ni->peer_credits = number;
    } else if (rg_span_is(key, "peercredits_hiw")) {
        ni->peer_credits_high = number;
    } else if (rg_span_is(key, "map_on_demand")) {
        ni->map_on_demand = number;
    } else if (rg_span_is(key, "conns_per_peer")) {
        ni->conns_per_peer = number;
    }
}

/* Where the walk over the text is. */
struct walk {
    enum { IN_NOTHING, IN_NET, IN_PEER, IN_ROUTE } section;
    char net[RG_LNET_NET_MAX + 1];
    struct rg_lnet_ni *ni;
    size_t ni_indent;         /* of the keys of the current interface; 0: none */
    size_t interfaces_indent; /* of the key "interfaces"; its children are names */
    bool in_interfaces;
    struct rg_nid peer;
    struct rg_lnet_route *route;
};

static void walk_net(struct walk *walk, const struct item *item, struct rg_lnet_conf *conf)
{
    if (rg_span_is(item->key, "net type") || rg_span_is(item->key, "net-spec")) {
        walk->ni = NULL;
        walk->in_interfaces = false;
        if (!copy_net(walk->net, item->value)) {
            walk->net[0] = '\0';
            conf->cut = true;
        }
        return;
    }
    if (walk->in_interfaces && item->indent > walk->interfaces_indent) {
        if (walk->ni && walk->ni->interface_count++ == 0) {
            rg_words_copy(walk->ni->interface, sizeof walk->ni->interface, item->value);
        }
        return;
    }
    walk->in_interfaces = false;
    if (item->dash && walk->net[0] &&
        (rg_span_is(item->key, "nid") || rg_span_is(item->key, "interfaces"))) {
        walk->ni = add_ni(conf, walk->net);
    } else if (!walk->ni && walk->net[0] && rg_span_is(item->key, "interfaces")) {
        walk->ni = add_ni(conf, walk->net); /* ip2nets: directly below the net */
    }
    if (rg_span_is(item->key, "interfaces")) {
        walk->in_interfaces = true;
        walk->interfaces_indent = item->indent;
    } else if (walk->ni) {
        set_ni(walk->ni, item);
    }
}

static void walk_peer(struct walk *walk, const struct item *item, struct rg_lnet_conf *conf)
{
    if (rg_span_is(item->key, "primary nid")) {
        conf->peer_count++;
        walk->peer = (struct rg_nid){0};
    } else if (rg_span_is(item->key, "nid")) {
        rg_nid_parse(item->value, &walk->peer);
    } else if (rg_span_is(item->key, "state") && rg_span_is(item->value, "down")) {
        if (conf->peers_down++ == 0) {
            conf->first_peer_down = walk->peer;
        }
    }
}

static void walk_route(struct walk *walk, const struct item *item, struct rg_lnet_conf *conf)
{
    if (item->dash) {
        walk->route = NULL;
        if (conf->route_count == RG_LNET_LIST_MAX) {
            conf->cut = true;
            return;
        }
        walk->route = &conf->routes[conf->route_count++];
        *walk->route = (struct rg_lnet_route){0};
    }
    if (!walk->route) {
        return;
    }
    if (rg_span_is(item->key, "net")) {
        copy_net(walk->route->net, item->value);
    } else if (rg_span_is(item->key, "gateway")) {
        rg_words_copy(walk->route->gateway, sizeof walk->route->gateway, item->value);
    } else if (rg_span_is(item->key, "state")) {
        rg_words_copy(walk->route->state, sizeof walk->route->state, item->value);
    }
}

static void enter_section(struct walk *walk, const struct item *item, struct rg_lnet_conf *conf)
{
    *walk = (struct walk){0};
    if (rg_span_is(item->key, "net") || rg_span_is(item->key, "ip2nets")) {
        walk->section = IN_NET;
    } else if (rg_span_is(item->key, "peer")) {
        walk->section = IN_PEER;
    } else if (rg_span_is(item->key, "route")) {
        walk->section = IN_ROUTE;
    }
}

void rg_lnet_yaml_parse(struct span text, struct rg_lnet_conf *ret_conf)
{
    struct walk walk = {0};
    struct item item;
    memset(ret_conf, 0, sizeof *ret_conf);
    while (next_item(&text, &item)) {
        int64_t number;
        if (item.indent == 0) {
            enter_section(&walk, &item, ret_conf);
        } else if (walk.section == IN_NET) {
            walk_net(&walk, &item, ret_conf);
        } else if (walk.section == IN_PEER) {
            walk_peer(&walk, &item, ret_conf);
        } else if (walk.section == IN_ROUTE) {
            walk_route(&walk, &item, ret_conf);
        } else if (rg_span_is(item.key, "errno") && rg_words_signed(item.value, &number)) {
            ret_conf->has_error |= number != 0;
        }
    }
}

/* ---- The kernel's table ---- */

bool rg_lnet_nis_parse(struct span text, struct rg_lnet_conf *ret_conf)
{
    struct span line, word, status;
    memset(ret_conf, 0, sizeof *ret_conf);
    if (!rg_words_line(&text, &line) || !rg_words_next(&line, &word) || !rg_span_is(word, "nid")) {
        return false;
    }
    while (rg_words_line(&text, &line)) {
        struct rg_nid nid;
        if (!rg_words_next(&line, &word) || !rg_words_next(&line, &status) ||
            !rg_nid_parse(word, &nid)) {
            continue;
        }
        /* A table has one line for each CPU partition. */
        bool known = false;
        for (size_t i = 0; i < ret_conf->ni_count; i++) {
            known |= rg_nid_is_same(&ret_conf->nis[i].nid, &nid);
        }
        struct rg_lnet_ni *ni = known ? NULL : add_ni(ret_conf, nid.net);
        if (ni) {
            ni->has_nid = true;
            ni->nid = nid;
            rg_words_copy(ni->status, sizeof ni->status, status);
        }
    }
    return true;
}

/* ---- Module options ---- */

static void add_module_net(struct rg_lnet_module *module, struct span net, struct span interface)
{
    if (module->count == RG_LNET_LIST_MAX) {
        module->cut = true;
        return;
    }
    struct rg_lnet_module_net *entry = &module->nets[module->count];
    if (!copy_net(entry->net, rg_words_bare(net))) {
        return;
    }
    ptrdiff_t end = rg_span_find(interface, '['); /* CPU partitions */
    if (end >= 0) {
        interface = rg_span_head(interface, (size_t)end);
    }
    rg_words_copy(entry->interface, sizeof entry->interface, rg_words_bare(interface));
    module->count++;
}

/* "ib0,ib1[0,1]": commas in square brackets separate CPU partitions. */
static void add_module_interfaces(struct rg_lnet_module *module, struct span net, struct span list)
{
    size_t begin = 0, depth = 0;
    for (size_t i = 0; i <= list.len; i++) {
        char c = i < list.len ? list.ptr[i] : ',';
        if (c == '[') {
            depth++;
        } else if (c == ']' && depth) {
            depth--;
        } else if (i == list.len || (c == ',' && depth == 0)) {
            add_module_net(module, net, rg_span(list.ptr + begin, i - begin));
            begin = i + 1;
        }
    }
}

/* "o2ib0(ib0,ib1),tcp(eth0)": commas inside brackets separate interfaces. */
static void parse_networks(struct rg_lnet_module *module, struct span text)
{
    while (text.len) {
        size_t end = 0;
        while (end < text.len && text.ptr[end] != ',' && text.ptr[end] != '(') {
            end++;
        }
        struct span net = rg_span_head(text, end);
        text = rg_span_skip(text, end);
        if (text.len && text.ptr[0] == '(') {
            ptrdiff_t close = rg_span_find(text, ')');
            size_t length = close < 0 ? text.len : (size_t)close;
            struct span inside = rg_span_skip(rg_span_head(text, length), 1);
            add_module_interfaces(module, net, inside);
            text = rg_span_skip(text, length + 1);
        } else if (net.len) {
            add_module_net(module, net, RG_SPAN_EMPTY);
        }
        if (text.len && text.ptr[0] == ',') {
            text = rg_span_skip(text, 1);
        }
    }
}

/* "o2ib0(ib0) 10.1.*.*; tcp(eth0) 10.2.*.*": the first word of each part. */
static void parse_ip2nets(struct rg_lnet_module *module, struct span text)
{
    while (text.ptr) {
        struct span part = rg_span_cut(&text, ';'), net;
        if (rg_words_next(&part, &net)) {
            parse_networks(module, net);
        }
    }
}

/* The value of `name=` in a line of options; quotes around it may hold blanks. */
static bool find_option(struct span line, const char *name, struct span *ret_value)
{
    size_t len = strlen(name);
    for (size_t i = 0; i + len < line.len; i++) {
        bool begins = i == 0 || line.ptr[i - 1] == ' ' || line.ptr[i - 1] == '\t';
        if (!begins || memcmp(line.ptr + i, name, len) != 0 || line.ptr[i + len] != '=') {
            continue;
        }
        struct span value = rg_span_skip(line, i + len + 1);
        char quote = value.len && (value.ptr[0] == '"' || value.ptr[0] == '\'') ? value.ptr[0] : 0;
        value = rg_span_skip(value, quote ? 1 : 0);
        size_t end = 0;
        while (end < value.len && (quote ? value.ptr[end] != quote : value.ptr[end] != ' ')) {
            end++;
        }
        *ret_value = rg_span_head(value, end);
        return true;
    }
    return false;
}

void rg_lnet_module_parse(struct span text, struct rg_lnet_module *module)
{
    struct span line, word, rest, value;
    while (rg_words_line(&text, &line)) {
        rest = line;
        if (!rg_words_next(&rest, &word) || !rg_span_is(word, "options") ||
            !rg_words_next(&rest, &word) || !rg_span_is(word, "lnet")) {
            continue;
        }
        if (find_option(rest, "networks", &value)) {
            module->has_networks = true;
            parse_networks(module, value);
        }
        if (find_option(rest, "ip2nets", &value)) {
            module->has_ip2nets = true;
            parse_ip2nets(module, value);
        }
    }
}

/* ---- Scripts ---- */

static bool adds_net(struct span line, bool *ret_wrong)
{
    struct span word;
    unsigned matched = 0;
    *ret_wrong = false;
    while (rg_words_next(&line, &word)) {
        static const char *const words[] = {"lnetctl", "net", "add"};
        if (matched < 3) {
            bool hit = matched == 0 ? rg_span_ends(word, RG_SPAN_LITERAL("lnetctl"))
                                    : rg_span_is(word, words[matched]);
            matched = hit ? matched + 1 : 0;
        } else if (rg_span_starts(word, RG_SPAN_LITERAL("--interface"))) {
            *ret_wrong = true;
        }
    }
    return matched == 3;
}

bool rg_lnet_script_parse(struct span text, size_t *ret_line)
{
    struct span line;
    bool wrong;
    for (size_t number = 1; rg_words_line(&text, &line); number++) {
        struct span body = rg_span_trim(line);
        if (body.len && body.ptr[0] != '#' && adds_net(body, &wrong) && wrong) {
            *ret_line = number;
            return true;
        }
    }
    return false;
}
