/*
 * What a service manager is told of the process's state, by the protocol of sd_notify(3): one
 * datagram to the socket that NOTIFY_SOCKET names. libsystemd is not linked for it: it brings
 * compression and encryption libraries into a process that faces the network.
 */
#ifndef RG_CLI_NOTIFY_H
#define RG_CLI_NOTIFY_H

/*
 * Sends `state` ("READY=1", "STOPPING=1"). Nothing happens without a service manager; a socket
 * that cannot be reached is logged and otherwise ignored, as nothing depends on it here.
 */
void rg_cli_notify(const char *state);

#endif
