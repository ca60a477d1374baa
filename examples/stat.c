/*
 * Tells what is known of an object.
 *
 *   stat BUCKET KEY
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
    struct rg_stat stat;
    int status = 0;
    if (rg_stat_object(client, argv[1], argv[2], &stat, &failure) < 0) {
        status = fail(&failure);
    } else {
        printf("%llu bytes, %s, ETag %s, CRC64NVME %s\n", (unsigned long long)stat.size,
               stat.content_type, stat.etag, stat.checksum[0] ? stat.checksum : "none");
    }
    rg_client_close(client);
    return status;
}
