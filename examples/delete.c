/*
 * Deletes an object.
 *
 *   delete BUCKET KEY
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
    if (argc != 3) {
        fprintf(stderr, "usage: %s BUCKET KEY\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    int status = rg_delete_object(client, argv[1], argv[2], &failure) < 0 ? fail(&failure) : 0;
    rg_client_close(client);
    return status;
}
