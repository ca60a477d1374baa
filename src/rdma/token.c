/*
 * Token parsers and printers. Widths and colons are checked to the letter: a token that is nearly
 * right would move bytes to a place nobody named.
 */
#include "rdma/token.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/encode.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    enum rg_transport_kind transport;
    bool served;
    const char *title;
} table[RG_DIALECT_COUNT] = {
#define RG_DIALECT(identifier, label, kind, is_served, text)                                       \
    [RG_DIALECT_##identifier] = {label, RG_TRANSPORT_##kind, is_served, text},
#include "rdma/token.tbl"
#undef RG_DIALECT
};

const char *rg_dialect_name(enum rg_dialect dialect)
{
    RG_ASSERT((unsigned)dialect < RG_DIALECT_COUNT);
    return table[dialect].name;
}

const char *rg_dialect_title(enum rg_dialect dialect)
{
    RG_ASSERT((unsigned)dialect < RG_DIALECT_COUNT);
    return table[dialect].title;
}

bool rg_dialect_is_served(enum rg_dialect dialect)
{
    RG_ASSERT((unsigned)dialect < RG_DIALECT_COUNT);
    return table[dialect].served;
}

const char *rg_transport_kind_name(enum rg_transport_kind kind)
{
    static const char *const names[] = {"dc", "rc", "ofi"};
    RG_ASSERT((unsigned)kind < RG_TRANSPORT_COUNT);
    return names[kind];
}

static int bad(struct rg_error *err, const char *what)
{
    return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The RDMA token is not valid: %s.", what);
}

/* The next field, which must be exactly `width` hex digits and end at a colon or the end. */
static bool take_field(struct span *rest, size_t width, uint64_t *ret_value)
{
    if (!rest->ptr) {
        return false;
    }
    struct span field = rg_span_cut(rest, ':');
    return field.len == width && rg_hex_to_u64(field, ret_value);
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    uint8_t any = 0;
    for (size_t i = 0; i < len; i++) {
        any |= bytes[i];
    }
    return any == 0;
}

static int check_window(const struct rg_rdma_window *window, struct rg_error *err)
{
    uint64_t end;
    if (window->length == 0) {
        return bad(err, "the window has no bytes");
    }
    if (!rg_add_checked(window->address, window->length, &end)) {
        return bad(err, "the window wraps around the address space");
    }
    return 0;
}

static int parse_d1(struct span text, struct rg_rdma_window *window, struct rg_error *err)
{
    struct span rest = text;
    uint64_t lid, dctn, has_gid;
    if (!take_field(&rest, 16, &window->address) || !take_field(&rest, 8, &window->length) ||
        !take_field(&rest, 8, &window->rkey) || !take_field(&rest, 4, &lid) ||
        !take_field(&rest, 6, &dctn) || !take_field(&rest, 1, &has_gid) || !rest.ptr ||
        !rg_hex_decode(rest, window->gid, sizeof window->gid)) {
        return bad(err, "it is not 16:8:8:4:6:1:32 hex digits");
    }
    if (has_gid > 1) {
        return bad(err, "the GID flag is neither 0 nor 1");
    }
    if (has_gid && is_zero(window->gid, sizeof window->gid)) {
        return bad(err, "the GID flag is set and the GID is zero");
    }
    if (!has_gid && lid == 0) {
        return bad(err, "it has neither a GID nor a LID");
    }
    if (dctn == 0) {
        return bad(err, "the DC target number is zero");
    }
    window->dialect = RG_DIALECT_D1;
    window->lid = (uint16_t)lid;
    window->qpn = (uint32_t)dctn;
    window->has_gid = has_gid == 1;
    return check_window(window, err);
}

/* ":<16 hex address>:<16 hex size>" behind a descriptor narrows the window; two zeros do not. */
static int parse_d1_suffix(struct span text, struct rg_rdma_window *window, struct rg_error *err)
{
    int rc = parse_d1(rg_span_head(text, RG_D1_TOKEN_LENGTH), window, err);
    if (rc < 0) {
        return rc;
    }
    struct span rest = rg_span_skip(text, RG_D1_TOKEN_LENGTH + 1);
    uint64_t start, size, end;
    if (!take_field(&rest, 16, &start) || !take_field(&rest, 16, &size) || rest.ptr) {
        return bad(err, "the suffix is not 16:16 hex digits");
    }
    window->dialect = RG_DIALECT_D1_SUFFIX;
    if (start == 0 && size == 0) {
        return 0;
    }
    if (size == 0 || start < window->address || !rg_add_checked(start, size, &end) ||
        end > window->address + window->length) {
        return bad(err, "the suffix names bytes outside the descriptor's window");
    }
    window->address = start;
    window->length = size;
    return 0;
}

static int parse_base64(struct span text, struct rg_rdma_window *window, struct rg_error *err)
{
    char plain[RG_D1_TOKEN_LENGTH + 3];
    size_t len;
    if (!rg_base64_decode(text, plain, sizeof plain, &len)) {
        return bad(err, "it is neither a known form nor base64");
    }
    if (len == RG_D1_TOKEN_LENGTH + 1 && plain[RG_D1_TOKEN_LENGTH] == '\0') {
        len--;
    }
    if (len != RG_D1_TOKEN_LENGTH) {
        return bad(err, "the base64 text is not a descriptor of 81 characters");
    }
    int rc = parse_d1(rg_span(plain, len), window, err);
    window->dialect = RG_DIALECT_D1_BASE64;
    return rc;
}

/* rc:<32 hex session>:<16 hex address>:<8 hex size>:<8 hex rkey> */
static int parse_rc_session(struct span text, struct rg_rdma_window *window, struct rg_error *err)
{
    struct span rest = rg_span_skip(text, 3);
    struct span session = rg_span_cut(&rest, ':');
    uint8_t binary[RG_RC_SESSION_LENGTH / 2];
    if (!rg_hex_decode(session, binary, sizeof binary) ||
        !take_field(&rest, 16, &window->address) || !take_field(&rest, 8, &window->length) ||
        !take_field(&rest, 8, &window->rkey) || rest.ptr) {
        return bad(err, "it is not rc: and 32:16:8:8 hex digits");
    }
    window->dialect = RG_DIALECT_RC_SESSION;
    rg_hex_encode(binary, sizeof binary, window->session);
    return check_window(window, err);
}

static uint64_t little_endian(const uint8_t *bytes, size_t len)
{
    uint64_t value = 0;
    for (size_t i = len; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

/* 44 bytes as 88 hex digits, little-endian integers; ":address:size" may follow and is not used. */
static int parse_hipobj(struct span text, struct rg_rdma_window *window, struct rg_error *err)
{
    struct span rest = text;
    uint8_t bytes[RG_HIPOBJ_TOKEN_LENGTH / 2];
    if (!rg_hex_decode(rg_span_cut(&rest, ':'), bytes, sizeof bytes)) {
        return bad(err, "it is not 88 hex digits");
    }
    uint64_t unused;
    if (rest.ptr && (!rg_hex_to_u64(rg_span_cut(&rest, ':'), &unused) || !rest.ptr ||
                     !rg_hex_to_u64(rest, &unused))) {
        return bad(err, "the suffix is not two hex numbers");
    }
    if (bytes[0] > 1) {
        return bad(err, "the transport is neither DC (0) nor RC (1)");
    }
    uint64_t qpn = little_endian(bytes + 1, 4);
    if (qpn > 0xffffff) {
        return bad(err, "the queue pair number has more than 24 bits");
    }
    window->dialect = RG_DIALECT_HIPOBJ_V1;
    window->transport = bytes[0] == 1 ? RG_TRANSPORT_RC : RG_TRANSPORT_DC;
    window->qpn = (uint32_t)qpn;
    memcpy(window->gid, bytes + 5, sizeof window->gid);
    window->has_gid = !is_zero(window->gid, sizeof window->gid);
    window->rkey = little_endian(bytes + 21, 4);
    window->address = little_endian(bytes + 25, 8);
    window->length = little_endian(bytes + 33, 8);
    window->port = bytes[41];
    window->lid = (uint16_t)little_endian(bytes + 42, 2);
    uint64_t end;
    if (!rg_add_checked(window->address, window->length, &end)) {
        return bad(err, "the window wraps around the address space");
    }
    return 0;
}

static bool is_provider_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == ';' || c == '.' || c == '^';
}

static bool is_provider(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is_provider_byte(text.ptr[i])) {
            return false;
        }
    }
    return text.len > 0 && text.len <= RG_OFI_PROVIDER_MAX;
}

/* <base hex>:<size hex>:ofi1:<provider>:<endpoint name hex>:<key hex> */
static int parse_ofi(struct span text, struct rg_rdma_window *window, struct rg_error *err)
{
    struct span rest = text;
    struct span address = rg_span_cut(&rest, ':');
    struct span length = rg_span_cut(&rest, ':');
    rg_span_cut(&rest, ':');
    if (!rg_hex_to_u64(address, &window->address) || !rg_hex_to_u64(length, &window->length)) {
        return bad(err, "the base or the size is not a hex number");
    }
    struct span provider = rest.ptr ? rg_span_cut(&rest, ':') : RG_SPAN_EMPTY;
    if (!is_provider(provider)) {
        return bad(err, "the provider is missing, too long or holds a strange character");
    }
    struct span name = rest.ptr ? rg_span_cut(&rest, ':') : RG_SPAN_EMPTY;
    if (name.len == 0 || name.len / 2 > RG_OFI_NAME_MAX ||
        !rg_hex_decode(name, window->endpoint, name.len / 2)) {
        return bad(err, "the endpoint name is not 1 to 192 bytes in hex");
    }
    struct span key = rest.ptr ? rg_span_cut(&rest, ':') : RG_SPAN_EMPTY;
    if (rest.ptr || !rg_hex_to_u64(key, &window->rkey)) {
        return bad(err, "the memory key is not a hex number");
    }
    window->dialect = RG_DIALECT_OFI1;
    window->endpoint_len = name.len / 2;
    memcpy(window->provider, provider.ptr, provider.len);
    return check_window(window, err);
}

static bool third_field_is(struct span text, const char *word)
{
    struct span rest = text;
    rg_span_cut(&rest, ':');
    if (rest.ptr) {
        rg_span_cut(&rest, ':');
    }
    return rest.ptr && rg_span_is(rg_span_cut(&rest, ':'), word);
}

int rg_token_parse(struct span text, struct rg_rdma_window *ret_window, struct rg_error *err)
{
    text = rg_span_trim(text);
    if (text.len && text.ptr[text.len - 1] == ';') {
        text = rg_span_trim(rg_span_head(text, text.len - 1));
    }
    if (text.len == 0 || text.len > RG_TOKEN_MAX) {
        return bad(err, text.len ? "it is too long" : "it is empty");
    }
    struct rg_rdma_window window = {0};
    ptrdiff_t colon = rg_span_find(text, ':');
    int rc;
    if (rg_span_starts(text, RG_SPAN_LITERAL("rc:"))) {
        rc = parse_rc_session(text, &window, err);
    } else if (third_field_is(text, "ofi1")) {
        rc = parse_ofi(text, &window, err);
    } else if (text.len == RG_D1_TOKEN_LENGTH && colon == 16) {
        rc = parse_d1(text, &window, err);
    } else if (text.len == RG_D1_SUFFIXED_LENGTH && colon == 16 &&
               text.ptr[RG_D1_TOKEN_LENGTH] == ':') {
        rc = parse_d1_suffix(text, &window, err);
    } else if (colon == RG_HIPOBJ_TOKEN_LENGTH ||
               (colon < 0 && text.len == RG_HIPOBJ_TOKEN_LENGTH)) {
        rc = parse_hipobj(text, &window, err);
    } else if (colon < 0) {
        rc = parse_base64(text, &window, err);
    } else {
        rc = bad(err, "its form is not known");
    }
    if (rc < 0) {
        return rc;
    }
    if (window.dialect != RG_DIALECT_HIPOBJ_V1) {
        window.transport = table[window.dialect].transport;
    }
    *ret_window = window;
    return 0;
}

static void print_hex_bytes(const uint8_t *bytes, size_t len, struct rg_buf *ret_text)
{
    for (size_t i = 0; i < len; i++) {
        rg_buf_addf(ret_text, "%02x", bytes[i]);
    }
}

void rg_token_print_d1(const struct rg_rdma_window *window, struct rg_buf *ret_text)
{
    RG_ASSERT(window->length && window->length <= UINT32_MAX && window->rkey <= UINT32_MAX);
    RG_ASSERT(window->qpn && window->qpn <= 0xffffff);
    rg_buf_addf(ret_text,
                "%016" PRIx64 ":%08" PRIx64 ":%08" PRIx64 ":%04x:%06x:%x:", window->address,
                window->length, window->rkey, window->lid, window->qpn, window->has_gid);
    print_hex_bytes(window->gid, sizeof window->gid, ret_text);
}

void rg_token_print_rc_session(const struct rg_rdma_window *window, struct rg_buf *ret_text)
{
    RG_ASSERT(window->length && window->length <= UINT32_MAX && window->rkey <= UINT32_MAX);
    RG_ASSERT(strlen(window->session) == RG_RC_SESSION_LENGTH);
    rg_buf_addf(ret_text, "rc:%s:%016" PRIx64 ":%08" PRIx64 ":%08" PRIx64, window->session,
                window->address, window->length, window->rkey);
}

void rg_token_print_ofi(const struct rg_rdma_window *window, struct rg_buf *ret_text)
{
    RG_ASSERT(window->length && window->provider[0]);
    RG_ASSERT(window->endpoint_len && window->endpoint_len <= RG_OFI_NAME_MAX);
    rg_buf_addf(ret_text, "%" PRIx64 ":%" PRIx64 ":ofi1:%s:", window->address, window->length,
                window->provider);
    print_hex_bytes(window->endpoint, window->endpoint_len, ret_text);
    rg_buf_addf(ret_text, ":%" PRIx64, window->rkey);
}

static void print_little_endian(uint64_t value, size_t len, struct rg_buf *ret_text)
{
    for (size_t i = 0; i < len; i++) {
        rg_buf_addf(ret_text, "%02x", (unsigned)(value >> (8 * i) & 0xff));
    }
}

void rg_token_print_hipobj(const struct rg_rdma_window *window, struct rg_buf *ret_text)
{
    RG_ASSERT(window->qpn <= 0xffffff && window->rkey <= UINT32_MAX);
    RG_ASSERT(window->transport != RG_TRANSPORT_OFI);
    print_little_endian(window->transport == RG_TRANSPORT_RC, 1, ret_text);
    print_little_endian(window->qpn, 4, ret_text);
    print_hex_bytes(window->gid, sizeof window->gid, ret_text);
    print_little_endian(window->rkey, 4, ret_text);
    print_little_endian(window->address, 8, ret_text);
    print_little_endian(window->length, 8, ret_text);
    print_little_endian(window->port, 1, ret_text);
    print_little_endian(window->lid, 2, ret_text);
}

void rg_token_describe(const struct rg_rdma_window *window, struct rg_buf *ret_text)
{
    rg_buf_addf(ret_text, "%s, %" PRIu64 " bytes near 0x%" PRIx64, rg_dialect_name(window->dialect),
                window->length, window->address & ~UINT64_C(0xfff));
    if (window->has_gid) {
        rg_buf_addf(ret_text, ", GID ending %02x%02x", window->gid[14], window->gid[15]);
    }
    if (window->provider[0]) {
        rg_buf_addf(ret_text, ", provider %s", window->provider);
    }
}

static bool is_ipv4_mapped(const uint8_t *gid)
{
    return is_zero(gid, 10) && gid[10] == 0xff && gid[11] == 0xff;
}

static void explain_gid(const struct rg_rdma_window *window, struct rg_buf *ret_text)
{
    if (!window->has_gid) {
        rg_buf_add_text(ret_text, "GID            none: routed by LID\n");
        return;
    }
    rg_buf_add_text(ret_text, "GID            ");
    for (size_t i = 0; i < sizeof window->gid; i += 2) {
        rg_buf_addf(ret_text, "%s%02x%02x", i ? ":" : "", window->gid[i], window->gid[i + 1]);
    }
    if (is_ipv4_mapped(window->gid)) {
        rg_buf_addf(ret_text, " (RoCE v2, IPv4 %u.%u.%u.%u)", window->gid[12], window->gid[13],
                    window->gid[14], window->gid[15]);
    } else if (window->gid[0] == 0xfe && (window->gid[1] & 0xc0) == 0x80) {
        rg_buf_add_text(ret_text, " (link-local)");
    }
    rg_buf_add_char(ret_text, '\n');
}

void rg_token_explain(const struct rg_rdma_window *window, struct rg_buf *ret_text)
{
    rg_buf_addf(ret_text, "dialect        %s (%s)\n", rg_dialect_name(window->dialect),
                rg_dialect_title(window->dialect));
    rg_buf_addf(ret_text, "transport      %s\n", rg_transport_kind_name(window->transport));
    rg_buf_addf(ret_text, "address        0x%" PRIx64 "\n", window->address);
    rg_buf_addf(ret_text, "length         %" PRIu64 " bytes\n", window->length);
    rg_buf_addf(ret_text, "key            0x%" PRIx64 "\n", window->rkey);
    if (window->session[0]) {
        rg_buf_addf(ret_text, "session        %s\n", window->session);
        return;
    }
    if (window->transport == RG_TRANSPORT_OFI) {
        rg_buf_addf(ret_text, "provider       %s\nendpoint       ", window->provider);
        print_hex_bytes(window->endpoint, window->endpoint_len, ret_text);
        rg_buf_add_char(ret_text, '\n');
        return;
    }
    rg_buf_addf(ret_text, "%s 0x%06x\n",
                window->transport == RG_TRANSPORT_DC ? "DC target     " : "queue pair    ",
                window->qpn);
    rg_buf_addf(ret_text, "LID            %u%s\n", window->lid,
                window->lid ? " (InfiniBand)" : " (Ethernet)");
    explain_gid(window, ret_text);
}

int rg_rdma_reply_parse(struct span text, bool token_allowed, struct rg_rdma_window *ret_window)
{
    text = rg_span_trim(text);
    if (token_allowed && rg_span_starts(text, RG_SPAN_LITERAL("200:"))) {
        struct rg_rdma_window window = {0};
        struct span token = rg_span_skip(text, 4);
        if (token.len != RG_HIPOBJ_TOKEN_LENGTH || parse_hipobj(token, &window, NULL) < 0) {
            return 0;
        }
        *ret_window = window;
        return 200;
    }
    uint64_t code;
    if (text.len != 3 || !rg_span_to_u64(text, &code) || code < 100 || code > 599) {
        return 0;
    }
    return (int)code;
}
