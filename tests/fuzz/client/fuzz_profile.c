/* Files of profiles, as credentials and as config. */
#include "client/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"default", "work"};
    for (int is_config = 0; is_config < 2; is_config++) {
        for (size_t i = 0; i < 2; i++) {
            struct rg_profile profile = {.found = false};
            (void)rg_profile_read(rg_span(data, size), is_config, names[i], &profile, NULL);
            rg_profile_free(&profile);
        }
    }
    return 0;
}
