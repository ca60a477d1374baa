/*
 * Header fields of the session routes: lines "name: value", read by each route's parser. What is
 * accepted must keep the promises of session_wire.h.
 */
#include "base/assert.h"
#include "rdma/session_wire.h"

#define FIELDS_MAX 32

static size_t cut_fields(struct span text, struct rg_wire_field *fields)
{
    size_t count = 0;
    while (text.ptr && count < FIELDS_MAX) {
        struct span value = rg_span_cut(&text, '\n');
        struct span name = rg_span_cut(&value, ':');
        fields[count++] = (struct rg_wire_field){.name = name, .value = value};
    }
    return count;
}

static void check_prepare(const struct rg_wire_head *head, bool strict)
{
    struct rg_push_prepare prepare;
    if (rg_push_prepare_parse(head, strict, &prepare, NULL) < 0) {
        return;
    }
    RG_ASSERT(prepare.peer.psn && prepare.peer.psn <= 0xffffff && prepare.peer.qpn <= 0xffffff);
    RG_ASSERT(prepare.peer.has_gid != prepare.is_loopback);
    RG_ASSERT(prepare.size && prepare.size <= RG_PUSH_SIZE_MAX);
    RG_ASSERT(prepare.offset + prepare.size <= INT64_MAX);
    RG_ASSERT(prepare.path.len >= 4 && prepare.path.ptr[0] == '/');
    RG_ASSERT(prepare.path.len + prepare.query.len <= RG_PUSH_TARGET_MAX);
    RG_ASSERT(!strict || prepare.cookie);
    struct rg_session_id id = {{0}};
    struct rg_session_answer answer;
    RG_ASSERT(rg_session_answer_print(&id, &prepare.peer, NULL, &answer, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_wire_field fields[FIELDS_MAX];
    struct rg_wire_head head = {.fields = fields};
    struct rg_push_ready ready;
    struct rg_session_id id;
    struct rg_lane_address peer;
    head.count = cut_fields(rg_span(data, size), fields);
    check_prepare(&head, true);
    check_prepare(&head, false);
    if (rg_push_ready_parse(&head, false, &ready, NULL) == 0) {
        RG_ASSERT(ready.qpn && ready.qpn <= 0xffffff);
    }
    (void)rg_push_cancel_parse(&head, &id, NULL);
    (void)rg_session_disconnect_parse(&head, &id, NULL);
    if (rg_session_connect_parse(&head, &peer, NULL) == 0) {
        RG_ASSERT(peer.qpn && peer.psn && peer.has_gid);
    }
    return 0;
}
