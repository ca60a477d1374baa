/* The words `peer` and `serve` of railgate doctor; argv begins behind them. */
#ifndef RG_CLI_DOCTOR_PEER_H
#define RG_CLI_DOCTOR_PEER_H

#include "base/buf.h"

int rg_cli_doctor_peer(int argc, const char **argv);
int rg_cli_doctor_serve(int argc, const char **argv);
void rg_cli_doctor_peer_help(struct rg_buf *out);

#endif
