/*
 * A client that lives as long as its standard input, for tests of what it does when the rail under
 * it goes and comes back: reads "KEY" lines, puts one object of fixed bytes under each into bucket
 * rdma, and says on one line by which path, or why not.
 */
#include <railgate/railgate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_BYTES (3u << 20)

int main(int argc, char **argv)
{
    struct rg_client_options options = {.transports = argc > 1 ? argv[1] : "rc"};
    struct rg_client *client = NULL;
    struct rg_memory *memory = NULL;
    struct rg_failure failure;
    struct rg_result result;
    char key[256];
    char *bytes = malloc(OBJECT_BYTES);
    for (size_t i = 0; bytes && i < OBJECT_BYTES; i++) {
        bytes[i] = (char)(i * 131 + (i >> 12));
    }
    if (!bytes || rg_client_open(&options, &client, &failure) < 0 ||
        rg_memory_register(client, bytes, OBJECT_BYTES, &memory, &failure) < 0) {
        fprintf(stderr, "%s\n", bytes ? failure.message : "no memory");
        return 1;
    }
    while (fgets(key, sizeof key, stdin)) {
        key[strcspn(key, "\n")] = '\0';
        int rc = rg_put(client, "rdma", key, memory, 0, OBJECT_BYTES, NULL, &result, &failure);
        printf("%s\n", rc < 0 ? failure.message : result.path);
        fflush(stdout);
    }
    rg_memory_release(memory);
    rg_client_close(client);
    free(bytes);
    return 0;
}
