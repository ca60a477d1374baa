/*
 * Copies an object within the server.
 *
 *   copy FROM-BUCKET FROM-KEY BUCKET KEY
 *
 * Endpoint and credentials come from the environment and the files that other AWS tools use.
 */
#include <railgate/railgate.h>

#include <stdio.h>

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
        fprintf(stderr, "usage: %s FROM-BUCKET FROM-KEY BUCKET KEY\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    struct rg_result result;
    int status = 0;
    if (rg_copy_object(client, argv[1], argv[2], argv[3], argv[4], &result, &failure) < 0) {
        status = fail(&failure);
    } else {
        printf("%llu bytes, ETag %s\n", (unsigned long long)result.bytes, result.etag);
    }
    rg_client_close(client);
    return status;
}
