/*
 * Reads an object of at most 64 MiB and prints it.
 *
 *   get BUCKET KEY
 *
 * Endpoint and credentials come from the environment and the files that other AWS tools use.
 */
#include <railgate/railgate.h>

#include <stdio.h>
#include <stdlib.h>

static int fail(const struct rg_failure *failure)
{
    fprintf(stderr, "%s: %s\n", rg_status_name(failure->status), failure->message);
    return 1;
}

int main(int argc, char **argv)
{
    struct rg_client *client;
    struct rg_failure failure;
    if (argc != 3) {
        fprintf(stderr, "usage: %s BUCKET KEY\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    enum { ROOM = 64 << 20 };
    char *bytes = malloc(ROOM);
    struct rg_memory *memory = NULL;
    struct rg_result result;
    int status = 0;
    if (!bytes || rg_memory_register(client, bytes, ROOM, &memory, &failure) < 0 ||
        rg_get(client, argv[1], argv[2], memory, 0, ROOM, NULL, &result, &failure) < 0) {
        status = bytes ? fail(&failure) : 1;
    } else {
        fwrite(bytes, 1, result.bytes, stdout);
        fprintf(stderr, "%llu bytes by %s%s\n", (unsigned long long)result.bytes, result.path,
                result.verified ? ", verified" : "");
    }
    rg_memory_release(memory);
    rg_client_close(client);
    free(bytes);
    return status;
}
