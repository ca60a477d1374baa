/*
 * Reads the shapes that Lustre gives its lines and names. Every function takes whatever comes: what
 * does not fit the grammar is reported as absent, never as an error.
 */
#include "diag/lustre.h"

#include "base/attr.h"

#include <string.h>

#define FILE_SYSTEM_BYTES_MAX 16 /* Lustre allows 8; anonymisers write longer ones */
#define TARGET_DIGITS         4

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Takes `prefix` off the front of *rest. Inline: prefixes are constants of a few bytes, compared in
 * an instruction or two. */
__attribute__((always_inline)) static inline bool take(struct span *rest, const char *prefix)
{
    struct span wanted = rg_span_text(prefix);
    if (!rg_span_starts(*rest, wanted)) {
        return false;
    }
    *rest = rg_span_skip(*rest, wanted.len);
    return true;
}

/* Takes a run of decimal digits; saturates. False when there is none. */
static bool take_number(struct span *rest, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t len = 0;
    while (len < rest->len && is_digit(rest->ptr[len])) {
        uint64_t digit = (uint64_t)(rest->ptr[len] - '0');
        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
        len++;
    }
    if (len == 0) {
        return false;
    }
    *rest = rg_span_skip(*rest, len);
    *ret_number = number;
    return true;
}

/* The first byte that is neither a letter nor a space, or the first one: rare where the others are
 * everywhere. */
static size_t rarest(const char *wanted)
{
    size_t at = 0;
    while (wanted[at] && (is_word(wanted[at]) || wanted[at] == ' ')) {
        at++;
    }
    return wanted[at] ? at : 0;
}

/* By hand: memmem prepares tables, which costs more than these short searches. */
static bool find_text(struct span text, const char *wanted, size_t *ret_at)
{
    size_t len = strlen(wanted);
    size_t mark = rarest(wanted);
    for (size_t at = 0; at + len <= text.len; at++) {
        const char *next = memchr(text.ptr + at + mark, wanted[mark], text.len - len + 1 - at);
        if (!next) {
            return false;
        }
        at = (size_t)(next - text.ptr) - mark;
        if (memcmp(text.ptr + at, wanted, len) == 0) {
            *ret_at = at;
            return true;
        }
    }
    return false;
}

/* Moves *rest behind the first `wanted`. */
static bool seek(struct span *rest, const char *wanted)
{
    size_t at;
    if (!find_text(*rest, wanted, &at)) {
        return false;
    }
    *rest = rg_span_skip(*rest, at + strlen(wanted));
    return true;
}

/* ---- The prefix of a line. ---- */

static bool take_subsystem(struct span *rest, struct rg_line_prefix *prefix)
{
    if (take(rest, "LustreError: ")) {
        prefix->lustre = prefix->error = true;
    } else if (take(rest, "LNetError: ")) {
        prefix->lnet = prefix->error = true;
    } else if (take(rest, "Lustre: ")) {
        prefix->lustre = true;
    } else if (take(rest, "LNet: ")) {
        prefix->lnet = true;
    } else {
        return false;
    }
    return true;
}

/* "PID:EXTPID:" */
static void take_pids(struct span *rest)
{
    struct span after = *rest;
    uint64_t pid;
    if (take_number(&after, &pid) && take(&after, ":") && take_number(&after, &pid) &&
        take(&after, ":") && after.len > 0 && after.ptr[0] == '(') {
        *rest = after;
    }
}

/* "(file.c:LINE:func()) " */
static void take_site(struct span *rest, struct rg_line_prefix *prefix)
{
    struct span after = *rest;
    size_t end;
    if (!take(&after, "(") || !find_text(after, "()) ", &end) || end > 200) {
        return;
    }
    struct span site = rg_span_head(after, end);
    struct span left = site;
    struct span file = rg_span_cut(&left, ':');
    uint64_t line;
    if (!left.ptr || !take_number(&left, &line) || !take(&left, ":") || left.len == 0 ||
        rg_span_find(site, ' ') >= 0) {
        return;
    }
    prefix->site = site;
    prefix->file = file;
    prefix->function = left;
    *rest = rg_span_skip(after, end + 4);
}

/* "func() ", as lines look whose file and line somebody has removed. */
static void take_bare_function(struct span *rest, struct rg_line_prefix *prefix)
{
    size_t len = 0;
    while (len < rest->len && is_word(rest->ptr[len])) {
        len++;
    }
    struct span after = rg_span_skip(*rest, len);
    if (len > 3 && take(&after, "() ")) {
        prefix->function = rg_span_head(*rest, len);
        *rest = after;
    }
}

/* "11-0: ", the message codes of releases before 2.16 (LU-17844). */
static void take_code(struct span *rest, struct rg_line_prefix *prefix)
{
    size_t len = 0;
    while (len < rest->len && len < 3 && is_lower_hex(rest->ptr[len])) {
        len++;
    }
    if (len > 0 && rest->len >= len + 4 && rest->ptr[len] == '-' &&
        is_lower_hex(rest->ptr[len + 1]) && rest->ptr[len + 2] == ':' &&
        rest->ptr[len + 3] == ' ') {
        prefix->code = rg_span_head(*rest, len + 2);
        *rest = rg_span_skip(*rest, len + 4);
    }
}

void rg_line_prefix(struct span line, struct rg_line_prefix *ret_prefix)
{
    struct rg_line_prefix prefix = {
        .site = RG_SPAN_EMPTY,
        .file = RG_SPAN_EMPTY,
        .function = RG_SPAN_EMPTY,
        .code = RG_SPAN_EMPTY,
    };
    struct span rest = line;
    bool known = take_subsystem(&rest, &prefix);
    take_pids(&rest);
    take_site(&rest, &prefix);
    if (known && prefix.site.len == 0) {
        take_bare_function(&rest, &prefix);
    }
    if (known) {
        take_code(&rest, &prefix);
    }
    if (known || prefix.site.len > 0) {
        prefix.request = take(&rest, "@@@ ");
        prefix.lock = !prefix.request && take(&rest, "### ");
    }
    prefix.text = rest;
    *ret_prefix = prefix;
}

/* ---- NIDs. ---- */

struct span rg_nid_bare(struct span nid)
{
    struct span rest = nid;
    uint64_t pid;
    if (take_number(&rest, &pid) && take(&rest, "-") && rg_span_find(rest, '@') >= 0) {
        return rest;
    }
    return nid;
}

static const char *const networks[] = {
    "o2ib", "tcp", "lo", "efa", "kfi", "gni", "ptlf", "ra", "bxi3", "bxi", "sdp",
};

/* ADDR and NET apart; the network's number as text, "0" and "" being the same. */
static bool split_nid(struct span nid, struct span *ret_address, struct span *ret_network,
                      uint64_t *ret_number)
{
    struct span rest = rg_nid_bare(nid);
    struct span address = rg_span_cut(&rest, '@');
    if (!rest.ptr || address.len == 0 || rg_span_find(address, ' ') >= 0) {
        return false;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(networks); i++) {
        struct span left = rest;
        uint64_t number = 0;
        if (take(&left, networks[i]) && (left.len == 0 || take_number(&left, &number)) &&
            left.len == 0) {
            *ret_address = address;
            *ret_network = rg_span_text(networks[i]);
            *ret_number = number;
            return true;
        }
    }
    return false;
}

bool rg_nid_is(struct span nid)
{
    struct span address;
    struct span network;
    uint64_t number;
    return split_nid(nid, &address, &network, &number);
}

bool rg_nid_eq(struct span a, struct span b)
{
    struct span a_address;
    struct span b_address;
    struct span a_network;
    struct span b_network;
    uint64_t a_number;
    uint64_t b_number;
    return split_nid(a, &a_address, &a_network, &a_number) &&
           split_nid(b, &b_address, &b_network, &b_number) && rg_span_eq(a_address, b_address) &&
           rg_span_eq(a_network, b_network) && a_number == b_number;
}

bool rg_nid_is_local(struct span nid)
{
    return rg_span_is(rg_nid_bare(nid), "0@lo");
}

/* ---- Targets and devices. ---- */

static const struct rg_target_name no_target = {
    .kind = RG_TARGET_NONE,
    .file_system = {"", 0},
    .target = {"", 0},
    .index = -1,
};

/* Value of the first four bytes as hexadecimal digits, not followed by another; -1. */
static int read_index(struct span text)
{
    if (text.len < TARGET_DIGITS || (text.len > TARGET_DIGITS && is_word(text.ptr[TARGET_DIGITS]) &&
                                     text.ptr[TARGET_DIGITS] != '_')) {
        return -1;
    }
    int index = 0;
    for (size_t i = 0; i < TARGET_DIGITS; i++) {
        char c = text.ptr[i];
        if (!is_lower_hex(c) && !(c >= 'A' && c <= 'F')) {
            return -1;
        }
        int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
        index = index * 16 + digit;
    }
    return index;
}

/* FS-OST0012 or FS-MDT0000 at the start of `name`. */
static bool take_target(struct span *name, struct rg_target_name *ret_target)
{
    for (size_t i = 1; i + 4 + TARGET_DIGITS <= name->len && i <= FILE_SYSTEM_BYTES_MAX; i++) {
        if (!is_word(name->ptr[i - 1]) && name->ptr[i - 1] != '-') {
            return false;
        }
        if (name->ptr[i] != '-') {
            continue;
        }
        struct span rest = rg_span_skip(*name, i);
        bool ost = take(&rest, "-OST");
        if (!ost && !take(&rest, "-MDT")) {
            continue;
        }
        int index = read_index(rest);
        if (index < 0) {
            continue;
        }
        *ret_target = (struct rg_target_name){
            .kind = ost ? RG_TARGET_OST : RG_TARGET_MDT,
            .file_system = rg_span_head(*name, i),
            .target = rg_span_head(*name, i + 4 + TARGET_DIGITS),
            .index = index,
        };
        *name = rg_span_skip(rest, TARGET_DIGITS);
        return true;
    }
    return false;
}

static bool is_mgs(struct span name)
{
    return rg_span_is(name, "MGS") || rg_span_is(name, "MGS_UUID");
}

static const struct rg_target_name mgs_target = {
    .kind = RG_TARGET_MGS,
    .file_system = {"", 0},
    .target = {"MGS", 3},
    .index = -1,
};

/* Lock namespaces put a word before the target. */
static struct span skip_namespace(struct span name)
{
    struct span rest = name;
    struct span peek;
    struct rg_target_name target;
    if (take(&rest, "filter-") || take(&rest, "mdt-") || take(&rest, "mgs-")) {
        peek = rest;
        if (take_target(&peek, &target) || is_mgs(rest)) {
            return rest;
        }
    }
    return name;
}

bool rg_target_parse(struct span name, struct rg_target_name *ret_target)
{
    struct span rest = skip_namespace(name);
    if (is_mgs(rest) || rg_span_starts(rest, RG_SPAN_LITERAL("MGC"))) {
        *ret_target = mgs_target;
        return true;
    }
    return take_target(&rest, ret_target);
}

int rg_target_index(struct span name)
{
    struct rg_target_name target;
    struct span rest = name;
    if (take(&rest, "OST") || take(&rest, "MDT")) {
        return rest.len == TARGET_DIGITS ? read_index(rest) : -1;
    }
    return rg_target_parse(name, &target) ? target.index : -1;
}

/* "OST0018" after "-lwp-": the speaker's own target. Its name is not in the line in one piece, so
 * `target` holds only the last part. */
static struct rg_target_name short_target(struct span text, struct span file_system)
{
    struct rg_target_name target = no_target;
    struct span rest = text;
    bool ost = take(&rest, "OST");
    if (!ost && !take(&rest, "MDT")) {
        return no_target;
    }
    target.index = read_index(rest);
    if (target.index < 0) {
        return no_target;
    }
    target.kind = ost ? RG_TARGET_OST : RG_TARGET_MDT;
    target.file_system = file_system;
    target.target = rg_span_head(text, 3 + TARGET_DIGITS);
    return target;
}

/* What follows the target's name decides who speaks. */
static void read_device_tail(struct span tail, struct rg_device_name *device)
{
    static const char *const connections[] = {"-osc-", "-mdc-", "-osp-", "-lwp-"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(connections); i++) {
        struct span rest = tail;
        if (!take(&rest, connections[i])) {
            continue;
        }
        device->local = short_target(rest, device->remote.file_system);
        device->speaker = device->local.kind == RG_TARGET_NONE ? RG_ROLE_CLIENT : RG_ROLE_SERVER;
        return;
    }
    if (rg_span_is(tail, "_UUID")) {
        return; /* a target, spoken of by anyone */
    }
    device->local = device->remote;
    device->remote = no_target;
    device->speaker = RG_ROLE_SERVER;
}

bool rg_device_parse(struct span name, struct rg_device_name *ret_device)
{
    struct rg_device_name device = {
        .remote = no_target,
        .local = no_target,
        .speaker = RG_ROLE_UNKNOWN,
        .mgs_nid = RG_SPAN_EMPTY,
    };
    struct span rest = skip_namespace(name);
    if (is_mgs(rest)) {
        device.local = mgs_target;
        device.speaker = RG_ROLE_MGS;
    } else if (take(&rest, "MGC")) {
        device.remote = mgs_target;
        device.mgs_nid = rest;
    } else if (take_target(&rest, &device.remote)) {
        read_device_tail(rest, &device);
    } else {
        size_t at;
        if (!find_text(rest, "-cl", &at) || at == 0 || at > FILE_SYSTEM_BYTES_MAX) {
            return false;
        }
        struct span tail = rg_span_skip(rest, at);
        if (!take(&tail, "-clilmv-") && !take(&tail, "-clilov-") && !take(&tail, "-client")) {
            return false;
        }
        device.remote.file_system = rg_span_head(rest, at);
        device.speaker = RG_ROLE_CLIENT;
    }
    *ret_device = device;
    return true;
}

/* ---- The tail of a request. ---- */

/* A client's UUID, or another server's name as a client: the line is from whoever handles it.
 * A target's own UUID is the remote side of a requester of Lustre 1.8. */
static bool names_a_client(struct span name)
{
    if (rg_span_ends(name, RG_SPAN_LITERAL("_UUID"))) {
        struct rg_target_name target;
        struct span rest = name;
        return !(take_target(&rest, &target) && rg_span_is(rest, "_UUID")) && !is_mgs(name);
    }
    size_t dashes = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] == '-') {
            dashes++;
        } else if (!is_lower_hex(name.ptr[i])) {
            return false;
        }
    }
    return dashes > 0 && name.len >= 9;
}

/* "NAME@ADDR@NET:PORTAL/PORTAL"; NAME may hold an @ of its own (MGC192.0.2.1@o2ib). */
static void split_name_and_nid(struct span token, struct span *ret_name, struct span *ret_nid)
{
    const char *net = memrchr(token.ptr, '@', token.len);
    if (!net || net == token.ptr) {
        *ret_name = token;
        return;
    }
    const char *address = memrchr(token.ptr, '@', (size_t)(net - token.ptr));
    if (!address) {
        *ret_name = token;
        return;
    }
    *ret_name = rg_span(token.ptr, (size_t)(address - token.ptr));
    size_t end = (size_t)(net - token.ptr) + 1;
    while (end < token.len && is_word(token.ptr[end])) {
        end++;
    }
    *ret_nid = rg_nid_bare(rg_span(address + 1, end - (size_t)(address + 1 - token.ptr)));
}

static int64_t read_time(struct span text, const char *before)
{
    uint64_t number;
    if (!seek(&text, before) || !take_number(&text, &number) || number > INT64_MAX) {
        return 0;
    }
    return (int64_t)number;
}

static int read_signed(struct span text)
{
    bool negative = take(&text, "-");
    uint64_t number;
    if (!take_number(&text, &number) || number > 100000) {
        return 0;
    }
    return negative ? -(int)number : (int)number;
}

bool rg_request_tail_parse(struct span text, struct rg_request_tail *ret_tail,
                           struct span *ret_name, struct span *ret_nid)
{
    *ret_tail = (struct rg_request_tail){.opcode = -1, .flags = RG_SPAN_EMPTY};
    *ret_name = RG_SPAN_EMPTY;
    *ret_nid = RG_SPAN_EMPTY;
    ret_tail->sent = read_time(text, "[sent ");
    if (ret_tail->sent) {
        ret_tail->real = read_time(text, "/real ");
    }
    struct span rest = text;
    if (!seek(&rest, "req@") || !seek(&rest, " x")) {
        return false;
    }
    ret_tail->present = true;
    uint64_t number;
    if (take_number(&rest, &number)) {
        ret_tail->xid = number;
    }
    if (seek(&rest, " o") && take_number(&rest, &number) && number < 10000) {
        ret_tail->opcode = (int)number;
    }
    if (take(&rest, "->")) {
        struct span after = rest;
        split_name_and_nid(rg_span_cut(&after, ' '), ret_name, ret_nid);
        ret_tail->inbound = names_a_client(*ret_name);
    }
    ret_tail->deadline = read_time(rest, " dl ");
    if (seek(&rest, " fl ") && seek(&rest, ":")) {
        struct span after = rest;
        ret_tail->flags = rg_span_cut(&after, '/');
        if (ret_tail->flags.len > 40) {
            ret_tail->flags = RG_SPAN_EMPTY;
        }
    }
    if (seek(&rest, " rc ")) {
        ret_tail->rc = read_signed(rest);
    }
    return true;
}
