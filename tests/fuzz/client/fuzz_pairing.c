/* The head of an answer, line by line, read as an answer to connect, PREPARE and READY. What is
 * accepted must be fit to give to a NIC. */
#include "base/assert.h"
#include "base/checked.h"
#include "client/pairing.h"
#include "client/piece.h"

#include <string.h>

#define COOKIE 0x5eed1234u

static void check_peer(const struct rg_pairing *pairing)
{
    const struct rg_lane_address *peer = &pairing->peer;
    RG_ASSERT(peer->qpn && peer->qpn <= 0xffffff && peer->psn <= 0xffffff);
    RG_ASSERT(peer->mtu == 0 || (peer->mtu >= 256 && peer->mtu <= 4096));
    RG_ASSERT(strlen(pairing->session) == RG_RC_SESSION_LENGTH);
    RG_ASSERT(peer->reads_max == 0);
}

static void check_prepared(const struct rg_http_answer *answer, uint64_t length)
{
    struct rg_pairing pairing;
    uint64_t end;
    if (!rg_pairing_read_prepare(answer, length, &pairing)) {
        return;
    }
    check_peer(&pairing);
    RG_ASSERT(pairing.has_staging == (length > 0));
    RG_ASSERT(!length ||
              (pairing.staging_address && rg_add_checked(pairing.staging_address, length, &end)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    struct rg_pairing pairing;
    char reason[RG_REASON_MAX + 1];
    struct span rest = rg_span(data, size);
    while (rest.ptr) {
        rg_http_answer_take_line(&answer, rg_span_cut(&rest, '\n'));
    }
    if (rg_pairing_read_connect(&answer, &pairing)) {
        check_peer(&pairing);
    }
    check_prepared(&answer, 0);
    check_prepared(&answer, 1);
    check_prepared(&answer, INT32_MAX);
    (void)rg_pairing_is_about(&answer, COOKIE);
    (void)rg_piece_reply(&answer);
    rg_piece_reason(&answer, reason);
    RG_ASSERT(reason[0]);
    rg_http_answer_free(&answer);
    return 0;
}
