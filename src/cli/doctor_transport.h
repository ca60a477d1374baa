/*
 * The self-test of a transport, as the doctor prints it.
 */
#ifndef RG_CLI_DOCTOR_TRANSPORT_H
#define RG_CLI_DOCTOR_TRANSPORT_H

/* Exit status: 0 all passed, 2 something failed or a wrong word. `device` may be NULL: the first
 * that fits. */
int rg_cli_doctor_transport(const char *transport, const char *device);

#endif
