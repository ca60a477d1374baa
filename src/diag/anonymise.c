/*
 * Placeholders for hosts, addresses and users.
 *
 * Every word is rewritten in passes, one for each kind of name. What looks like a name and is none
 * (a version with four numbers, say) may become a placeholder too: losing a detail is better than
 * leaking a name.
 */
#include "diag/anonymise.h"

#include "base/checked.h"
#include "diag/address.h"
#include "diag/paths.h"
#include "diag/words.h"

#include <ctype.h>
#include <stdlib.h>

#define TEXT_MAX (64U << 10)

struct anonymiser {
    struct rg_pool hosts; /* from 2 on: the original names, index - 1 is the placeholder's number */
    struct rg_pool addresses;
    struct rg_pool users;
    struct rg_pool persons; /* names that stood where only users stand: hidden wherever they are */
    struct rg_pool stems;   /* "gpu-" when a node is called gpu-017 */
    struct rg_pool domains; /* "cluster.example.org" */
    bool failed;
};

/* Top-level names that make a dotted word a host. */
static const char *const top_levels[] = {
    "com", "org",      "net", "edu",   "gov",     "mil",  "int",  "io",       "ai",
    "kr",  "de",       "uk",  "fr",    "ch",      "jp",   "cn",   "eu",       "local",
    "lan", "internal", "hpc", "cloud", "cluster", "home", "corp", "intranet", "localdomain",
};

static bool is_name_byte(char byte)
{
    return isalnum((unsigned char)byte) != 0;
}

static void placeholder(struct anonymiser *anonymiser, struct rg_pool *pool, const char *kind,
                        struct span original, struct rg_buf *out)
{
    char lower[256];
    size_t len = RG_MIN(original.len, sizeof(lower));
    for (size_t i = 0; i < len; i++) {
        lower[i] = (char)tolower((unsigned char)original.ptr[i]);
    }
    rg_word number = rg_pool_add(pool, rg_span(lower, len));
    anonymiser->failed |= pool->failed;
    rg_buf_addf(out, "%s%u", kind, number <= RG_WORD_NOT_KEPT ? 0 : number - 1);
}

/* ---- Addresses. ---- */

static void hide_addresses(struct anonymiser *anonymiser, struct span text, struct rg_buf *out)
{
    for (size_t i = 0; i < text.len;) {
        size_t len = rg_address_length(text, i);
        if (len) {
            placeholder(anonymiser, &anonymiser->addresses, "addr",
                        rg_span_head(rg_span_skip(text, i), len), out);
            i += len;
        } else {
            rg_buf_add_char(out, text.ptr[i++]);
        }
    }
}

static const char *const nets[] = {"o2ib", "tcp", "efa", "kfi", "gni", "ptlf", "ra", "bxi"};

/* "o2ib", "tcp1": a network of LNet. */
static bool is_net(struct span name)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(nets); i++) {
        struct span rest = rg_span_skip(name, RG_MIN(name.len, strlen(nets[i])));
        while (rest.len > 0 && isdigit((unsigned char)rest.ptr[0])) {
            rest = rg_span_skip(rest, 1);
        }
        if (rg_span_starts(name, rg_span_text(nets[i])) && rest.len == 0) {
            return true;
        }
    }
    return false;
}

/* What stands before "@o2ib" and the like and is no IP address: a number, a name, "<OST-IP>". */
static void hide_nids(struct anonymiser *anonymiser, struct span text, struct rg_buf *out)
{
    size_t done = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool known = false;
        for (size_t k = 0; text.ptr[i] == '@' && k < RG_ARRAY_LENGTH(nets); k++) {
            known |= rg_span_starts(rg_span_skip(text, i + 1), rg_span_text(nets[k]));
        }
        if (!known) {
            continue;
        }
        size_t start = i;
        while (start > done && !isspace((unsigned char)text.ptr[start - 1]) &&
               !strchr(",;()[]@'\"=:>", text.ptr[start - 1])) {
            start--;
        }
        struct span address = rg_span(text.ptr + start, i - start);
        struct span prefix = RG_SPAN_EMPTY;
        if (rg_span_starts(address, RG_SPAN_LITERAL("12345-"))) {
            prefix = rg_span_head(address, 6);
        } else if (rg_span_starts(address, RG_SPAN_LITERAL("MGC"))) {
            prefix = rg_span_head(address, 3);
        }
        struct span bare = rg_span_skip(address, prefix.len);
        rg_buf_add(out, text.ptr + done, start - done);
        rg_buf_add_span(out, prefix);
        if (bare.len == 0 || rg_span_starts(bare, RG_SPAN_LITERAL("addr"))) {
            rg_buf_add_span(out, bare);
        } else {
            placeholder(anonymiser, &anonymiser->addresses, "addr", bare, out);
        }
        done = i;
    }
    rg_buf_add_span(out, rg_span_skip(text, done));
}

/* ---- Hosts. ---- */

static bool is_host_byte(char byte)
{
    return is_name_byte(byte) || byte == '-' || byte == '.' || byte == '_';
}

static bool pool_has(const struct rg_pool *pool, struct span text)
{
    for (uint32_t i = 2; i < pool->count; i++) {
        const char *there = pool->text[i];
        if (strlen(there) == text.len && strncasecmp(there, text.ptr, text.len) == 0) {
            return true;
        }
    }
    return false;
}

static struct span without_digits(struct span name)
{
    while (name.len > 0 && isdigit((unsigned char)name.ptr[name.len - 1])) {
        name.len--;
    }
    return name;
}

static bool has_host_domain(const struct anonymiser *anonymiser, struct span token)
{
    ptrdiff_t dot = rg_span_find(token, '.');
    if (dot <= 0) {
        return false;
    }
    if (pool_has(&anonymiser->domains, rg_span_skip(token, (size_t)dot + 1))) {
        return true;
    }
    size_t last = token.len;
    while (last > 0 && token.ptr[last - 1] != '.') {
        last--;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(top_levels); i++) {
        if (rg_span_is_nocase(rg_span_skip(token, last), top_levels[i])) {
            return true;
        }
    }
    return false;
}

/* ip-192-0-2-1, as clouds name hosts. */
static bool is_address_name(struct span token)
{
    char dotted[16];
    struct span digits = rg_span_skip(token, 3);
    if (!rg_span_starts(token, RG_SPAN_LITERAL("ip-")) || digits.len >= sizeof(dotted)) {
        return false;
    }
    for (size_t i = 0; i < digits.len; i++) {
        dotted[i] = digits.ptr[i] == '-' ? '.' : digits.ptr[i];
    }
    return digits.len > 0 && rg_address_ipv4_length(rg_span(dotted, digits.len)) == digits.len;
}

static bool is_host(const struct anonymiser *anonymiser, struct span token)
{
    if (token.len == 0 || pool_has(&anonymiser->hosts, token)) {
        return token.len != 0;
    }
    if (is_address_name(token)) {
        return true;
    }
    struct span stem = without_digits(token);
    if (stem.len < token.len && pool_has(&anonymiser->stems, stem)) {
        return true;
    }
    return has_host_domain(anonymiser, token);
}

/* The longest piece of the token, from its start, that is a host; whole names before parts. */
static size_t host_length(const struct anonymiser *anonymiser, struct span token)
{
    size_t len = token.len;
    while (len > 0) {
        struct span piece = rg_span_head(token, len);
        while (piece.len > 0 && !is_name_byte(piece.ptr[piece.len - 1])) {
            piece.len--;
        }
        if (piece.len == 0) {
            return 0;
        }
        if (is_host(anonymiser, piece)) {
            return piece.len;
        }
        len = piece.len;
        while (len > 0 && is_name_byte(token.ptr[len - 1])) {
            len--;
        }
    }
    return 0;
}

static void hide_hosts(struct anonymiser *anonymiser, struct span text, struct rg_buf *out)
{
    for (size_t i = 0; i < text.len;) {
        char before = i ? text.ptr[i - 1] : ' ';
        if (!is_name_byte(text.ptr[i]) || is_name_byte(before)) {
            rg_buf_add_char(out, text.ptr[i++]);
            continue;
        }
        size_t end = i;
        while (end < text.len && is_host_byte(text.ptr[end])) {
            end++;
        }
        size_t len = host_length(anonymiser, rg_span(text.ptr + i, end - i));
        if (len) {
            placeholder(anonymiser, &anonymiser->hosts, "host", rg_span(text.ptr + i, len), out);
            i += len;
        } else {
            rg_buf_add_char(out, text.ptr[i++]);
        }
    }
}

/* ---- Users. ---- */

enum trust { MAYBE, SURELY };

static const struct {
    const char *before;
    const char *ends; /* bytes that end the name */
    enum trust trust; /* whether nothing but a user stands there */
} user_places[] = {
    {"job:'", "'", MAYBE},         {"/home/", "/ :'\"),", SURELY}, {"/users/", "/ :'\"),", SURELY},
    {"/u/", "/ :'\"),", MAYBE},    {"uid:", " ,)", MAYBE},         {"gid:", " ,)", MAYBE},
    {"projid:", " ,)", MAYBE},     {"user=", " ,;)", SURELY},      {"user ", " ,;)", MAYBE},
    {"USER=", " ,;)", SURELY},     {"uid=", " ,;()", MAYBE},       {"auid=", " ,;()", MAYBE},
    {"acct=\"", "\"", SURELY},     {"for user ", " ,;)", MAYBE},   {"owner=", " ,;)", SURELY},
    {"username=", " ,;)", SURELY}, {"LOGNAME=", " ,;)", SURELY},   {"logname=", " ,;)", SURELY},
    {"euid=", " ,;()", MAYBE},     {"UID=", " ,;()", MAYBE},       {"owner: ", " ,;)", SURELY},
    {"Owner: ", " ,;)", SURELY},   {"user: ", " ,;)", SURELY},     {"User: ", " ,;)", SURELY},
    {"user:", " ,;)", SURELY},     {"username: ", " ,;)", SURELY}, {"login: ", " ,;)", SURELY},
    {"account: ", " ,;)", SURELY}, {"owner '", "'", SURELY},       {"owner \"", "\"", SURELY},
    {"owner=\"", "\"", SURELY},    {"user '", "'", SURELY},        {"user \"", "\"", SURELY},
    {"user=\"", "\"", SURELY},     {"owner ", " ,;)", MAYBE},      {"uid: ", " ,;)", MAYBE},
    {"gid: ", " ,;)", MAYBE},      {"UID: ", " ,;)", MAYBE},       {"owner:", " ,;)", SURELY},
    {"Owner:", " ,;)", SURELY},
};

static size_t length_until(struct span text, size_t at, const char *ends)
{
    size_t len = 0;
    while (at + len < text.len && !strchr(ends, text.ptr[at + len])) {
        len++;
    }
    return len;
}

static bool ends_with(struct span text, size_t at, const char *what)
{
    size_t len = strlen(what);
    return at >= len && memcmp(text.ptr + at - len, what, len) == 0;
}

/* The name in "uid=1000(name)"; sshd's "for NAME from". */
static size_t phrase_length(struct span text, size_t at)
{
    if (at > 0 && text.ptr[at - 1] == '(') {
        size_t start = at - 1;
        while (start > 0 && is_name_byte(text.ptr[start - 1])) {
            start--;
        }
        return ends_with(text, start, "id=") ? length_until(text, at, ") ,;") : 0;
    }
    if (ends_with(text, at, "for ")) {
        size_t len = length_until(text, at, " ,;)");
        return rg_span_starts(rg_span_skip(text, at + len), RG_SPAN_LITERAL(" from ")) ? len : 0;
    }
    return 0;
}

/* Length of the user name at the start of the text if a user place ends right before it. */
static size_t user_length(struct span text, size_t at, enum trust *ret_trust)
{
    if (at == 0 || !strchr("=:'\"/ (", text.ptr[at - 1])) {
        return 0;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(user_places); i++) {
        const char *before = user_places[i].before;
        size_t start = at - RG_MIN(at, strlen(before));
        if (!ends_with(text, at, before) ||
            (is_name_byte(before[0]) && start > 0 && is_name_byte(text.ptr[start - 1]))) {
            continue;
        }
        *ret_trust = user_places[i].trust;
        return length_until(text, at, user_places[i].ends);
    }
    *ret_trust = SURELY;
    return phrase_length(text, at);
}

/* Names that say nothing, or whose words are everywhere. */
static bool is_person(struct span name)
{
    static const char *const nobodies[] = {
        "root",    "nobody", "user",   "users", "kernel",  "lustre", "unknown", "none",
        "null",    "the",    "not",    "pid",   "memory",  "space",  "mode",    "process",
        "invalid", "failed", "cannot", "pages", "request", "buffer", "data",    "interface",
        "thread",  "task",   "lock",   "has",   "was",     "for",    "and"};
    bool letters = false;
    for (size_t i = 0; i < name.len; i++) {
        letters |= isalpha((unsigned char)name.ptr[i]) != 0;
        if (!is_host_byte(name.ptr[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(nobodies); i++) {
        if (rg_span_is_nocase(name, nobodies[i])) {
            return false;
        }
    }
    return letters && name.len >= 3;
}

/* Length of the whole word at `at`, as hosts and users are written. */
static size_t word_length(struct span text, size_t at)
{
    size_t end = at;
    while (end < text.len && is_host_byte(text.ptr[end])) {
        end++;
    }
    while (end > at && !is_name_byte(text.ptr[end - 1])) {
        end--;
    }
    return end - at;
}

/* Where hosts stand that no log is of. */
static const struct {
    const char *before;
    enum trust trust; /* MAYBE: only a name with a number in it */
} host_places[] = {
    {"nfs: server ", SURELY}, {"rhost=", SURELY},     {"hostname=", SURELY}, {"HOSTNAME=", SURELY},
    {"nodename=", SURELY},    {"uname=", SURELY},     {"host '", SURELY},    {"host \"", SURELY},
    {"hostname: ", SURELY},   {"Hostname: ", SURELY}, {"host=", MAYBE},      {"Host ", MAYBE},
    {"host ", MAYBE},         {"host: ", MAYBE},      {"Node ", MAYBE},      {"node ", MAYBE},
    {"node: ", MAYBE},        {"node=", MAYBE},       {"server ", MAYBE},    {"server=", MAYBE},
    {"peer ", MAYBE},         {"target=", MAYBE},     {"nodes: ", MAYBE},
};

static bool has_digit(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (isdigit((unsigned char)name.ptr[i])) {
            return true;
        }
    }
    return false;
}

static bool holds(struct span text, const char *what)
{
    for (size_t i = 0; i < text.len; i++) {
        if (rg_span_starts(rg_span_skip(text, i), rg_span_text(what))) {
            return true;
        }
    }
    return false;
}

/* Looks like a host, and like nothing else that has letters and digits. */
static bool may_be_host(struct span name)
{
    return is_person(name) && !rg_span_starts(name, RG_SPAN_LITERAL("0x")) &&
           rg_address_hex_length(name) < name.len && !holds(name, "-OST") && !holds(name, "-MDT") &&
           !rg_span_starts(name, RG_SPAN_LITERAL("MGC")) &&
           !rg_span_starts(name, RG_SPAN_LITERAL("addr"));
}

/* "node7 state is now lost", "bastion port 22", "fileserver:/export": what follows tells. */
static bool is_told_by_end(struct span text, size_t at, struct span behind)
{
    static const char *const states[] = {" state is ",        " is now ",   " will be fenced",
                                         " is unclean",       " is online", " is offline",
                                         " left the cluster", " joined"};
    if (behind.len > 2 && behind.ptr[0] == ':' && behind.ptr[1] == '/' &&
        isalpha((unsigned char)behind.ptr[2]) && !ends_with(text, at, "fl ")) {
        return at == 0 || strchr(" '\"=([,", text.ptr[at - 1]);
    }
    if (ends_with(text, at, "from ")) {
        return rg_span_starts(behind, RG_SPAN_LITERAL(" port "));
    }
    for (size_t i = 0; ends_with(text, at, "Node ") && i < RG_ARRAY_LENGTH(states); i++) {
        if (rg_span_starts(behind, rg_span_text(states[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_told_host(struct span text, size_t at, struct span name)
{
    if (is_told_by_end(text, at, rg_span_skip(text, at + name.len))) {
        return true;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(host_places); i++) {
        const char *before = host_places[i].before;
        size_t start = at - RG_MIN(at, strlen(before));
        if (ends_with(text, at, before) && (start == 0 || !is_name_byte(text.ptr[start - 1]))) {
            return host_places[i].trust == SURELY || has_digit(name);
        }
    }
    return false;
}

static void learn_host(struct anonymiser *anonymiser, struct span name)
{
    if (name.len == 0 || rg_span_is(name, "this-node") ||
        rg_address_ipv4_length(name) == name.len || rg_address_is_colon(name)) {
        return;
    }
    rg_pool_add(&anonymiser->hosts, name);
    ptrdiff_t dot = rg_span_find(name, '.');
    struct span label = dot > 0 ? rg_span_head(name, (size_t)dot) : name;
    if (dot > 0) {
        rg_pool_add(&anonymiser->domains, rg_span_skip(name, (size_t)dot + 1));
        rg_pool_add(&anonymiser->hosts, label);
    }
    struct span stem = without_digits(label);
    if (stem.len >= 2 && stem.len < label.len) {
        rg_pool_add(&anonymiser->stems, stem);
    }
}

static void learn_hosts(struct anonymiser *anonymiser, struct span text)
{
    for (size_t i = 0; i < text.len;) {
        size_t len = is_name_byte(text.ptr[i]) ? word_length(text, i) : 0;
        struct span name = rg_span(text.ptr + i, len);
        if (len && may_be_host(name) && is_told_host(text, i, name)) {
            learn_host(anonymiser, name);
        }
        i += len ? len : 1;
    }
}

static void learn_persons(struct anonymiser *anonymiser, struct span text)
{
    for (size_t i = 1; i < text.len; i++) {
        enum trust trust;
        struct span name = rg_span(text.ptr + i, user_length(text, i, &trust));
        if (trust == SURELY && is_person(name)) {
            rg_pool_add(&anonymiser->persons, name);
            anonymiser->failed |= anonymiser->persons.failed;
        }
    }
}

static size_t person_length(const struct anonymiser *anonymiser, struct span text, size_t at)
{
    if (!is_name_byte(text.ptr[at]) || (at > 0 && is_host_byte(text.ptr[at - 1]))) {
        return 0;
    }
    size_t len = word_length(text, at);
    return pool_has(&anonymiser->persons, rg_span(text.ptr + at, len)) ? len : 0;
}

/* Takes the name before the "@" of mail@address, and user@host of a log, from the end of `out`. */
static bool hide_mail_user(struct anonymiser *anonymiser, struct rg_buf *out)
{
    size_t start = out->len;
    while (start > 0 && is_host_byte(out->data[start - 1])) {
        start--;
    }
    struct span name = rg_span(out->data + start, out->len - start);
    bool request = rg_span_is(name, "req") || rg_span_is(name, "MGS") ||
                   rg_span_starts(name, RG_SPAN_LITERAL("addr")) ||
                   rg_span_starts(name, RG_SPAN_LITERAL("12345-addr")) || is_net(name) ||
                   rg_span_starts(name, RG_SPAN_LITERAL("MGC")) || rg_span_is(name, "0") ||
                   memmem(name.ptr, name.len, "-OST", 4) || memmem(name.ptr, name.len, "-MDT", 4);
    if (request) {
        return false;
    }
    RG_BUF(copy, 1024);
    rg_buf_add_span(&copy, rg_span_head(name, 512));
    out->len = start;
    placeholder(anonymiser, &anonymiser->users, "user", rg_buf_span(&copy), out);
    return true;
}

static bool is_placeholder(struct span word)
{
    struct span number = rg_span_skip(word, 4);
    bool named = rg_span_starts(word, RG_SPAN_LITERAL("host")) ||
                 rg_span_starts(word, RG_SPAN_LITERAL("addr"));
    return named && number.len > 0 && isdigit((unsigned char)number.ptr[0]);
}

/* The same without the full stop of a sentence. */
static size_t without_stop(struct span text, size_t at, size_t len)
{
    return len > 0 && text.ptr[at + len - 1] == '.' ? len - 1 : len;
}

static void hide_users(struct anonymiser *anonymiser, struct span text, struct rg_buf *out)
{
    for (size_t i = 0; i < text.len;) {
        enum trust trust;
        size_t len = user_length(text, i, &trust);
        if (!len) {
            len = person_length(anonymiser, text, i);
            trust = SURELY;
        }
        bool prose = len && trust == MAYBE && ends_with(text, i, "user ") &&
                     !is_person(rg_span(text.ptr + i, without_stop(text, i, len))) &&
                     !has_digit(rg_span(text.ptr + i, len));
        if (len && !prose) {
            placeholder(anonymiser, &anonymiser->users, "user", rg_span(text.ptr + i, len), out);
            i += len;
            continue;
        }
        /* NIDs have been dealt with. */
        bool mail = text.ptr[i] == '@' && i > 0 && is_name_byte(text.ptr[i - 1]) &&
                    i + 1 < text.len && is_name_byte(text.ptr[i + 1]) && out->len > 0 &&
                    hide_mail_user(anonymiser, out);
        rg_buf_add_char(out, text.ptr[i++]);
        struct span host = rg_span(text.ptr + i, mail ? word_length(text, i) : 0);
        if (host.len && !is_placeholder(host)) {
            placeholder(anonymiser, &anonymiser->hosts, "host", host, out);
            i += host.len;
        }
    }
}

static char *rewritten(struct anonymiser *anonymiser, const char *original)
{
    RG_BUF(first, TEXT_MAX);
    RG_BUF(second, TEXT_MAX);
    hide_addresses(anonymiser, rg_span_text(original), &first);
    hide_nids(anonymiser, rg_buf_span(&first), &second);
    rg_buf_clear(&first);
    hide_hosts(anonymiser, rg_buf_span(&second), &first);
    rg_buf_clear(&second);
    hide_users(anonymiser, rg_buf_span(&first), &second);
    if (!rg_buf_ok(&first) || !rg_buf_ok(&second)) {
        anonymiser->failed = true;
        return NULL;
    }
    return strdup(rg_buf_text(&second));
}

/* A file that could not be read may be called after a host that nothing else names. Only numbered
 * names: "backup" or "broken" would hide words that are everywhere. */
static void learn_host_of_path(struct anonymiser *anonymiser, const char *path)
{
    struct span name = rg_node_name_from_path(rg_span_text(path));
    if (without_digits(name).len < name.len) {
        learn_host(anonymiser, name);
    }
}

static bool rewrite(struct anonymiser *anonymiser, char **text)
{
    char *hidden = rewritten(anonymiser, *text);
    if (!hidden || anonymiser->failed) {
        free(hidden);
        return false;
    }
    free(*text);
    *text = hidden;
    return true;
}

static void free_anonymiser(struct anonymiser *anonymiser)
{
    rg_pool_free(&anonymiser->hosts);
    rg_pool_free(&anonymiser->addresses);
    rg_pool_free(&anonymiser->users);
    rg_pool_free(&anonymiser->persons);
    rg_pool_free(&anonymiser->stems);
    rg_pool_free(&anonymiser->domains);
}

int rg_diagnosis_anonymise(struct rg_diagnosis *diagnosis, char **texts, size_t count,
                           struct rg_error *err)
{
    RG_CLEANUP(free_anonymiser) struct anonymiser anonymiser = {0};
    if (!rg_pool_init(&anonymiser.hosts) || !rg_pool_init(&anonymiser.addresses) ||
        !rg_pool_init(&anonymiser.users) || !rg_pool_init(&anonymiser.persons) ||
        !rg_pool_init(&anonymiser.stems) || !rg_pool_init(&anonymiser.domains)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < diagnosis->node_count; i++) {
        learn_host(&anonymiser,
                   rg_span_text(rg_diagnosis_word(diagnosis, diagnosis->nodes[i].name)));
    }
    for (size_t i = 0; i < diagnosis->told_count; i++) {
        learn_host(&anonymiser, rg_span_text(rg_diagnosis_word(diagnosis, diagnosis->told[i])));
    }
    for (size_t i = 0; i < count; i++) {
        learn_host_of_path(&anonymiser, texts[i]);
        learn_persons(&anonymiser, rg_span_text(texts[i]));
        learn_hosts(&anonymiser, rg_span_text(texts[i]));
    }
    for (size_t i = 1; i < diagnosis->word_count; i++) {
        learn_persons(&anonymiser, rg_span_text(diagnosis->words[i]));
        learn_hosts(&anonymiser, rg_span_text(diagnosis->words[i]));
    }
    bool ok = true;
    for (size_t i = 1; ok && i < diagnosis->word_count; i++) {
        ok = rewrite(&anonymiser, &diagnosis->words[i]);
    }
    for (size_t i = 0; ok && i < count; i++) {
        ok = rewrite(&anonymiser, &texts[i]);
    }
    if (!ok) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    diagnosis->anonymous = true;
    return 0;
}
