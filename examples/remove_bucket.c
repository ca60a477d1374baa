/*
 * Removes an empty bucket.
 *
 *   remove_bucket BUCKET
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
    if (argc != 2) {
        fprintf(stderr, "usage: %s BUCKET\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    int status = rg_remove_bucket(client, argv[1], &failure) < 0 ? fail(&failure) : 0;
    rg_client_close(client);
    return status;
}
