/*
 * Prints part of an object.
 *
 *   get_range BUCKET KEY OFFSET LENGTH
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
    if (argc != 5) {
        fprintf(stderr, "usage: %s BUCKET KEY OFFSET LENGTH\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    unsigned long long offset = strtoull(argv[3], NULL, 10);
    unsigned long long length = strtoull(argv[4], NULL, 10);
    char *bytes = malloc(length ? length : 1);
    struct rg_memory *memory = NULL;
    struct rg_result result;
    int status = 0;
    if (!bytes || rg_memory_register(client, bytes, length ? length : 1, &memory, &failure) < 0 ||
        rg_get_range(client, argv[1], argv[2], offset, length, memory, 0, NULL, &result, &failure) <
            0) {
        status = bytes ? fail(&failure) : 1;
    } else {
        fwrite(bytes, 1, result.bytes, stdout);
    }
    rg_memory_release(memory);
    rg_client_close(client);
    free(bytes);
    return status;
}
