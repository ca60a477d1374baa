/* The Authorization header and the headers around it, in the form of sigv4_input.h. */
#include "sigv4_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct rg_sigv4_rules rules = {
        .region = RG_SPAN_LITERAL("us-east-1"), .now_s = 1369353600, .clock_skew_ms = 900000};
    struct input input;
    read_input(data, size, &input);
    check_input(&input, &rules);
    return 0;
}
