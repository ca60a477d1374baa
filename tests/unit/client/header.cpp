// The installed header must stand alone in C++, and the library must link.
#include <railgate/railgate.h>

int main()
{
    rg_failure failure;
    rg_client *client;
    rg_client_options options = {};
    options.endpoint = "nonsense";
    options.access_key = "a";
    options.secret_key = "b";
    return rg_client_open(&options, &client, &failure) == -RG_STATUS_USAGE ? 0 : 1;
}
