/*
 * Lists one level of a bucket.
 *
 *   list BUCKET PREFIX
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
    uint64_t *sum = context;
    *sum += entry->size;
    printf("%12llu %s%s\n", (unsigned long long)entry->size, entry->key,
           entry->is_prefix ? " (more below)" : "");
    return true;
}

int main(int argc, char **argv)
{
    struct rg_client *client;
    struct rg_failure failure;
    if (argc != 3) {
        fprintf(stderr, "usage: %s BUCKET PREFIX\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    uint64_t sum = 0;
    int status = 0;
    if (rg_list_objects(client, argv[1], argv[2], "/", print, &sum, &failure) < 0) {
        status = fail(&failure);
    } else {
        printf("%12llu bytes\n", (unsigned long long)sum);
    }
    rg_client_close(client);
    return status;
}
