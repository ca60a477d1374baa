/*
 * Downloads an object into a file; goes on with a download that was cut off.
 *
 *   get_file BUCKET KEY FILE
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

/* Called from one thread at a time; false would stop the transfer. */
static bool show(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    fprintf(stderr, "\r%llu of %llu bytes", (unsigned long long)done, (unsigned long long)total);
    return true;
}

int main(int argc, char **argv)
{
    struct rg_client *client;
    struct rg_failure failure;
    if (argc != 4) {
        fprintf(stderr, "usage: %s BUCKET KEY FILE\n", argv[0]);
        return 2;
    }
    if (rg_client_open(NULL, &client, &failure) < 0) {
        return fail(&failure);
    }
    struct rg_result result;
    struct rg_file_options options = {.progress = show, .resume = true};
    int status = 0;
    if (rg_get_file(client, argv[1], argv[2], argv[3], &options, &result, &failure) < 0) {
        status = fail(&failure);
    } else {
        fprintf(stderr, "\n%llu bytes by %s%s\n", (unsigned long long)result.object_size,
                result.path, result.verified ? ", verified" : "");
    }
    rg_client_close(client);
    return status;
}
