/*
 * RDMA tokens of every dialect, and replies. What is accepted keeps the promises of token.h, means
 * the same when it is printed and read again, and is described without its key.
 */
#include "base/assert.h"
#include "base/buf.h"
#include "rdma/token.h"

#include <string.h>

static void check_promises(const struct rg_rdma_window *window)
{
    RG_ASSERT((unsigned)window->dialect < RG_DIALECT_COUNT);
    RG_ASSERT((unsigned)window->transport < RG_TRANSPORT_COUNT);
    RG_ASSERT(window->address + window->length >= window->address);
    RG_ASSERT(window->qpn <= 0xffffff && window->endpoint_len <= RG_OFI_NAME_MAX);
    RG_ASSERT(strnlen(window->session, sizeof window->session) < sizeof window->session);
    RG_ASSERT(strnlen(window->provider, sizeof window->provider) < sizeof window->provider);
    RG_ASSERT(window->transport == RG_TRANSPORT_OFI || window->rkey <= UINT32_MAX);
    RG_ASSERT(window->length > 0 || !rg_dialect_is_served(window->dialect));
}

/* The dialects that have a printer of their own. */
static bool print(const struct rg_rdma_window *window, struct rg_buf *text)
{
    switch (window->dialect) {
    case RG_DIALECT_D1:
        rg_token_print_d1(window, text);
        return true;
    case RG_DIALECT_RC_SESSION:
        rg_token_print_rc_session(window, text);
        return true;
    case RG_DIALECT_OFI1:
        rg_token_print_ofi(window, text);
        return true;
    default:
        return false;
    }
}

static void check_round_trip(const struct rg_rdma_window *window)
{
    RG_BUF(text, RG_TOKEN_MAX);
    struct rg_rdma_window again;
    if (!print(window, &text)) {
        return;
    }
    RG_ASSERT(rg_buf_ok(&text));
    RG_ASSERT(rg_token_parse(rg_buf_span(&text), &again, NULL) == 0);
    RG_ASSERT(again.dialect == window->dialect && again.transport == window->transport);
    RG_ASSERT(again.address == window->address && again.length == window->length);
    RG_ASSERT(again.rkey == window->rkey && again.qpn == window->qpn && again.lid == window->lid);
    RG_ASSERT(again.has_gid == window->has_gid);
    RG_ASSERT(memcmp(again.gid, window->gid, sizeof again.gid) == 0);
    RG_ASSERT(strcmp(again.session, window->session) == 0);
    RG_ASSERT(strcmp(again.provider, window->provider) == 0);
    RG_ASSERT(again.endpoint_len == window->endpoint_len);
    RG_ASSERT(memcmp(again.endpoint, window->endpoint, again.endpoint_len) == 0);
}

static void check_words(const struct rg_rdma_window *window)
{
    RG_BUF(described, 4096);
    RG_BUF(explained, 16384);
    rg_token_describe(window, &described);
    rg_token_explain(window, &explained);
    RG_ASSERT(rg_buf_ok(&described) && rg_buf_ok(&explained));
    RG_ASSERT(!memchr(rg_buf_text(&described), '\n', described.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    struct rg_rdma_window window;
    if (rg_token_parse(text, &window, NULL) == 0) {
        RG_ASSERT(size > 0);
        check_promises(&window);
        check_round_trip(&window);
        check_words(&window);
    }
    int reply = rg_rdma_reply_parse(text, false, NULL);
    RG_ASSERT(reply == 0 || (reply >= 100 && reply <= 599));
    int longer = rg_rdma_reply_parse(text, true, &window);
    RG_ASSERT(reply == 0 || longer == reply);
    return 0;
}
