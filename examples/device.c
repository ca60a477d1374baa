/*
 * Registers memory of a GPU. ADDRESS is what cudaMalloc gave, in hex; a real program has it at
 * hand.
 *
 *   device BUCKET KEY ADDRESS SIZE
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
        fprintf(stderr, "usage: %s BUCKET KEY ADDRESS SIZE\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    void *address = (void *)(uintptr_t)strtoull(argv[3], NULL, 16);
    uint64_t size = strtoull(argv[4], NULL, 10);
    struct rg_memory *memory = NULL;
    struct rg_result result;
    struct rg_put_options options = {.path = RG_PATH_RDMA_ONLY};
    int status = 0;
    if (rg_memory_register_device(client, RG_MEMORY_CUDA, address, size, &memory, &failure) < 0 ||
        rg_put(client, argv[1], argv[2], memory, 0, size, &options, &result, &failure) < 0) {
        status = fail(&failure);
    } else {
        printf("%s\n", result.path);
    }
    rg_memory_release(memory);
    rg_client_close(client);
    return status;
}
