/*
 * railgate config: what `railgate serve` with the same options, environment and file would use.
 */
#include "cli/cli.h"

#include "base/settings.h"

#include <unistd.h>

#define SHOW_BYTES_MAX (1 << 20)

void rg_cli_config_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\nTakes the options of `railgate serve` and reads the same file and "
                         "environment.\nOne line a setting: its name, its value, and where that "
                         "came from (default, file,\nenvironment, option). Secrets are not "
                         "printed.\n\nExit status: 0, 2 when a setting is not valid, 1 when it "
                         "cannot be printed.\n");
}

int rg_cli_config(int argc, const char **argv)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_settings_free) struct rg_settings settings = {0};
    if (rg_settings_init(&settings, &err) < 0) {
        return rg_cli_fail(&err);
    }
    int count;
    if (rg_settings_load(&settings, argv, argc, (const char *const *)environ, &count, &err) < 0) {
        return rg_cli_fail(&err);
    }
    if (count != 0) {
        return rg_cli_fail_usage("config", "unexpected word \"%.100s\"", argv[0]);
    }
    RG_BUF(text, SHOW_BYTES_MAX);
    rg_settings_show(&settings, &text);
    return rg_cli_print(&text);
}
