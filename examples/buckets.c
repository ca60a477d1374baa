/*
 * Lists the buckets.
 *
 *   buckets
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

static bool print(void *context, const struct rg_listed *entry)
{
    (void)context;
    puts(entry->key);
    return true;
}

int main(void)
{
    struct rg_client *client;
    struct rg_failure failure;
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    int status = rg_list_buckets(client, print, NULL, &failure) < 0 ? fail(&failure) : 0;
    rg_client_close(client);
    return status;
}
