/* The installed header must stand alone in C99, and the library must link. */
#include <railgate/railgate.h>

int main(void)
{
    struct rg_failure failure;
    struct rg_client *client;
    struct rg_client_options options = {0};
    options.endpoint = "nonsense";
    options.access_key = "a";
    options.secret_key = "b";
    return rg_client_open(&options, &client, &failure) == -RG_STATUS_USAGE &&
                   failure.status == RG_STATUS_USAGE
               ? 0
               : 1;
}
