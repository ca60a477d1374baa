/*
 * `railgate token TEXT`: explains an RDMA token in words. It shows keys: the reader already has
 * them.
 */
#include "cli/cli.h"

#include "rdma/token.h"

int rg_cli_token(int argc, const char **argv)
{
    if (argc != 1) {
        return rg_cli_fail_usage("token", "expects one token");
    }
    struct rg_rdma_window window;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_token_parse(rg_span_text(argv[0]), &window, &err) < 0) {
        return rg_cli_fail(&err);
    }
    RG_BUF(out, 16384);
    rg_token_explain(&window, &out);
    return rg_cli_print(&out);
}

void rg_cli_token_help(struct rg_buf *out)
{
    rg_buf_add_text(out,
                    "TEXT is the value of x-amz-rdma-token (or x-rdma-info, or\n"
                    "X-CuObj-RDMA-Descr) as a client sent it. The exit status is 1 when it is\n"
                    "not a token of any known dialect.\n");
}
