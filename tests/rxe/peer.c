/* See peer.h. */
#include "peer.h"

#include "base/assert.h"
#include "rdma/verbs.h"

#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum verb {
    VERB_OPEN,
    VERB_CLOSE,
    VERB_RESET,
    VERB_ADDRESS,
    VERB_PAIR,
    VERB_RECEIVE,
    VERB_WAIT,
    VERB_BROKE,
    VERB_MINT,
    VERB_REVOKE,
    VERB_WRITE,
    VERB_FILL,
    VERB_DIGEST,
    VERB_STOP,
};

struct command {
    enum verb verb;
    unsigned lane;
    unsigned target;
    uint64_t offset;
    uint64_t length;
    uint64_t number; /* cookie, seed or time-out */
    enum rg_direction direction;
    bool flag;
    bool has_address;
    struct rg_lane_address address;
    struct rg_rdma_window window;
    bool has_immediate;
    uint32_t immediate;
};

struct answer {
    int rc;
    struct rg_error error;
    struct rg_lane_address address;
    struct rg_completion completion;
    struct rg_rdma_window window;
    uint64_t number;
};

/* ---- Bytes ---- */

void fill(void *bytes, uint64_t length, uint64_t seed)
{
    uint8_t *out = bytes;
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t i = 0; i < length; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(out + i, &state, length - i < 8 ? length - i : 8);
    }
}

uint64_t digest(const void *bytes, uint64_t length)
{
    const uint8_t *in = bytes;
    uint64_t sum = length;
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        memcpy(&word, in + i, length - i < 8 ? length - i : 8);
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    return sum;
}

/* ---- The process ---- */

static struct rg_rail *rail;
static struct rg_region *region;
static char *memory;
static struct rg_lane *lanes[PEER_LANES_MAX];
static struct rg_target *targets[PEER_TARGETS_MAX];

static const struct rg_verbs *real;

static int query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
    int failed = real->query_device(context, attributes);
    attributes->vendor_id = 1;
    return failed;
}

static void pose_as_hardware(void)
{
    static struct rg_verbs posing;
    RG_ASSERT(rg_verbs_load(&real, NULL) == 0);
    posing = *real;
    posing.query_device = query_device;
    rg_verbs_replace(&posing, NULL);
}

static void start(const struct rg_rail_config *config, uint64_t bytes, unsigned access,
                  struct answer *answer)
{
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RG_ASSERT(memory != MAP_FAILED);
    answer->rc = rg_rail_open(rg_transport_find(RG_TRANSPORT_RC), config, &rail, &answer->error);
    if (answer->rc == 0) {
        answer->rc = rg_region_register(rail, memory, bytes, access, &region, &answer->error);
    }
}

static int write_all(const struct command *command, struct rg_error *err)
{
    struct rg_lane *lane = lanes[command->lane];
    struct rg_completion completion;
    size_t count = 0;
    int rc = rg_lane_bind(lane, &command->window, err);
    if (rc == 0) {
        rc = command->has_immediate
                 ? rg_lane_write_immediate(lane, region, command->offset, 0, command->length,
                                           command->immediate, 1, err)
                 : rg_lane_write(lane, region, command->offset, 0, command->length, 1, err);
    }
    if (rc == 0) {
        rc = rg_lane_wait(lane, &completion, 1, -1, 60000, &count, err);
    }
    if (rc == 0 && completion.broke) {
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "%s", completion.provider_text);
    }
    return rc;
}

static void obey(const struct command *command, struct answer *answer)
{
    struct rg_lane **lane = &lanes[command->lane];
    struct rg_target **target = &targets[command->target];
    struct rg_error *err = &answer->error;
    const struct rg_lane_address *address = command->has_address ? &command->address : NULL;
    size_t count;
    switch (command->verb) {
    case VERB_OPEN:
        answer->rc = rg_lane_open(rail, lane, err);
        break;
    case VERB_CLOSE:
        rg_lane_close(*lane);
        *lane = NULL;
        break;
    case VERB_RESET:
        answer->rc = rg_lane_reset(*lane, err);
        break;
    case VERB_ADDRESS:
        answer->rc = rg_lane_address_toward(*lane, address, &answer->address, err);
        break;
    case VERB_PAIR:
        answer->rc = rg_lane_pair(*lane, address, err);
        break;
    case VERB_RECEIVE:
        answer->rc = rg_lane_receive(*lane, command->number, err);
        break;
    case VERB_WAIT:
        answer->rc =
            rg_lane_wait(*lane, &answer->completion, 1, -1, (uint32_t)command->number, &count, err);
        break;
    case VERB_BROKE:
        answer->number = (*lane)->broke;
        break;
    case VERB_MINT:
        answer->rc = rg_window_mint(*lane, region, command->offset, command->length,
                                    command->direction, target, err);
        if (answer->rc == 0) {
            answer->window = (*target)->window;
        }
        break;
    case VERB_REVOKE:
        answer->rc = rg_window_revoke(*target, command->flag, err);
        *target = NULL;
        break;
    case VERB_WRITE:
        answer->rc = write_all(command, err);
        break;
    case VERB_FILL:
        fill(memory + command->offset, command->length, command->number);
        break;
    case VERB_DIGEST:
        answer->number = digest(memory + command->offset, command->length);
        break;
    case VERB_STOP:
        break;
    }
}

static void clean_up(void)
{
    for (size_t i = 0; i < PEER_TARGETS_MAX; i++) {
        (void)rg_window_revoke(targets[i], false, NULL);
    }
    for (size_t i = 0; i < PEER_LANES_MAX; i++) {
        rg_lane_close(lanes[i]);
    }
    rg_region_deregister(region);
    rg_rail_close(rail);
}

static void send_whole(int fd, const void *bytes, size_t len)
{
    RG_ASSERT(send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

static void serve(int fd)
{
    struct command command;
    for (;;) {
        struct answer answer = {.rc = 0};
        if (recv(fd, &command, sizeof command, 0) != sizeof command) {
            _exit(3); /* the test is gone */
        }
        obey(&command, &answer);
        if (command.verb == VERB_STOP) {
            clean_up();
        }
        send_whole(fd, &answer, sizeof answer);
        if (command.verb == VERB_STOP) {
            exit(0);
        }
    }
}

/* ---- The test's side ---- */

static struct answer await(struct peer *peer)
{
    struct answer answer;
    ssize_t len;
    do {
        len = recv(peer->fd, &answer, sizeof answer, 0);
    } while (len < 0 && errno == EINTR);
    if (len != sizeof answer) {
        fail_msg("the peer has died");
    }
    peer->error = answer.error;
    return answer;
}

static struct answer tell(struct peer *peer, const struct command *command)
{
    send_whole(peer->fd, command, sizeof *command);
    return await(peer);
}

void peer_start(struct peer *peer, const struct rg_rail_config *config, uint64_t bytes,
                unsigned access)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    (void)fflush(NULL);
    peer->pid = fork();
    assert_true(peer->pid >= 0);
    if (peer->pid == 0) {
        struct answer answer = {.rc = 0};
        close(ends[0]);
        if (peer->pose_as_hardware) {
            pose_as_hardware();
        }
        start(config, bytes, access, &answer);
        send_whole(ends[1], &answer, sizeof answer);
        serve(ends[1]);
    }
    close(ends[1]);
    peer->fd = ends[0];
    if (await(peer).rc < 0) {
        fail_msg("the peer does not start: %s", peer->error.message);
    }
}

static void reap(struct peer *peer, int expected)
{
    int status;
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    close(peer->fd);
    assert_int_equal(status, expected);
}

void peer_stop(struct peer *peer)
{
    struct command command = {.verb = VERB_STOP};
    (void)tell(peer, &command);
    reap(peer, 0);
}

void peer_kill(struct peer *peer)
{
    assert_int_equal(kill(peer->pid, SIGKILL), 0);
    reap(peer, SIGKILL);
}

int peer_lane_open(struct peer *peer, unsigned lane)
{
    struct command command = {.verb = VERB_OPEN, .lane = lane};
    return tell(peer, &command).rc;
}

int peer_lane_close(struct peer *peer, unsigned lane)
{
    struct command command = {.verb = VERB_CLOSE, .lane = lane};
    return tell(peer, &command).rc;
}

int peer_lane_reset(struct peer *peer, unsigned lane)
{
    struct command command = {.verb = VERB_RESET, .lane = lane};
    return tell(peer, &command).rc;
}

int peer_lane_address(struct peer *peer, unsigned lane, const struct rg_lane_address *toward,
                      struct rg_lane_address *ret_address)
{
    struct command command = {.verb = VERB_ADDRESS, .lane = lane, .has_address = toward != NULL};
    if (toward) {
        command.address = *toward;
    }
    struct answer answer = tell(peer, &command);
    *ret_address = answer.address;
    return answer.rc;
}

int peer_lane_pair(struct peer *peer, unsigned lane, const struct rg_lane_address *address)
{
    struct command command = {
        .verb = VERB_PAIR, .lane = lane, .has_address = true, .address = *address};
    return tell(peer, &command).rc;
}

int peer_lane_receive(struct peer *peer, unsigned lane, uint64_t cookie)
{
    struct command command = {.verb = VERB_RECEIVE, .lane = lane, .number = cookie};
    return tell(peer, &command).rc;
}

int peer_lane_wait(struct peer *peer, unsigned lane, uint32_t timeout_ms,
                   struct rg_completion *ret_completion)
{
    struct command command = {.verb = VERB_WAIT, .lane = lane, .number = timeout_ms};
    struct answer answer = tell(peer, &command);
    *ret_completion = answer.completion;
    return answer.rc;
}

int peer_lane_broke(struct peer *peer, unsigned lane)
{
    struct command command = {.verb = VERB_BROKE, .lane = lane};
    return (int)tell(peer, &command).number;
}

int peer_mint(struct peer *peer, unsigned target, unsigned lane, uint64_t offset, uint64_t length,
              enum rg_direction direction, struct rg_rdma_window *ret_window)
{
    struct command command = {.verb = VERB_MINT,
                              .target = target,
                              .lane = lane,
                              .offset = offset,
                              .length = length,
                              .direction = direction};
    struct answer answer = tell(peer, &command);
    *ret_window = answer.window;
    return answer.rc;
}

int peer_revoke(struct peer *peer, unsigned target, bool settled)
{
    struct command command = {.verb = VERB_REVOKE, .target = target, .flag = settled};
    return tell(peer, &command).rc;
}

int peer_write(struct peer *peer, unsigned lane, const struct rg_rdma_window *window,
               uint64_t offset, uint64_t length, const uint32_t *immediate)
{
    struct command command = {.verb = VERB_WRITE,
                              .lane = lane,
                              .window = *window,
                              .offset = offset,
                              .length = length,
                              .has_immediate = immediate != NULL,
                              .immediate = immediate ? *immediate : 0};
    return tell(peer, &command).rc;
}

void peer_fill(struct peer *peer, uint64_t offset, uint64_t length, uint64_t seed)
{
    struct command command = {
        .verb = VERB_FILL, .offset = offset, .length = length, .number = seed};
    (void)tell(peer, &command);
}

uint64_t peer_digest(struct peer *peer, uint64_t offset, uint64_t length)
{
    struct command command = {.verb = VERB_DIGEST, .offset = offset, .length = length};
    return tell(peer, &command).number;
}
