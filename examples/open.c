/*
 * Opens a client and tells what it found.
 *
 *   open
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

int main(void)
{
    struct rg_client *client;
    struct rg_failure failure;
    struct rg_client_options options = {.retries = RG_NO_RETRIES, .parallel = 4};
    if (rg_client_open(&options, &client, &failure) < 0) {
        return fail(&failure);
    }
    char *text = rg_client_describe(client);
    fputs(text ? text : "out of memory\n", stdout);
    free(text);
    rg_client_close(client);
    return 0;
}
