/*
 * Registers one buffer and uses it for several objects.
 *
 *   memory BUCKET
 *
 * Endpoint and credentials come from the environment and the files that other AWS tools use.
 */
#include <railgate/railgate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct rg_failure *failure)
{
    fprintf(stderr, "%s: %s\n", rg_status_name(failure->status), failure->message);
    return 1;
}

int main(int argc, char **argv)
{
    struct rg_client *client;
    struct rg_failure failure;
    if (argc != 2) {
        fprintf(stderr, "usage: %s BUCKET\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    enum { SLOT = 4096, SLOTS = 8 };
    char *bytes = calloc(SLOTS, SLOT);
    struct rg_memory *memory = NULL;
    int status = 0;
    if (!bytes || rg_memory_register(client, bytes, SLOTS * SLOT, &memory, &failure) < 0) {
        status = bytes ? fail(&failure) : 1;
    }
    for (int i = 0; i < SLOTS && status == 0; i++) {
        char key[32];
        snprintf(key, sizeof key, "slot-%d", i);
        memset(bytes + i * SLOT, 'a' + i, SLOT);
        if (rg_put(client, argv[1], key, memory, (uint64_t)i * SLOT, SLOT, NULL, NULL, &failure) <
            0) {
            status = fail(&failure);
        }
    }
    /* Memory goes before the client, and the bytes go last. */
    rg_memory_release(memory);
    rg_client_close(client);
    free(bytes);
    return status;
}
