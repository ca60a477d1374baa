/*
 * Stores a text as an object, only if there is none yet, and tells how its bytes went.
 *
 *   put BUCKET KEY TEXT
 *
 * Endpoint and credentials come from the environment and the files that other AWS tools use.
 */
#include <railgate/railgate.h>

#include <stdio.h>
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
    if (argc != 4) {
        fprintf(stderr, "usage: %s BUCKET KEY TEXT\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    struct rg_memory *memory = NULL;
    struct rg_result result;
    const char *const metadata[] = {"made-by", "example", NULL};
    struct rg_put_options options = {
        .content_type = "text/plain", .metadata = metadata, .if_none_match = true};
    size_t size = strlen(argv[3]);
    int status = 0;
    if ((size && rg_memory_register(client, argv[3], size, &memory, &failure) < 0) ||
        rg_put(client, argv[1], argv[2], memory, 0, size, &options, &result, &failure) < 0) {
        status = fail(&failure);
    } else {
        printf("%llu bytes by %s, ETag %s\n", (unsigned long long)result.bytes, result.path,
               result.etag);
    }
    rg_memory_release(memory);
    rg_client_close(client);
    return status;
}
