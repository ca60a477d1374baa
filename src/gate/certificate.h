/*
 * The TLS certificate of a listener, which may be replaced while connections use it.
 */
#ifndef RG_GATE_CERTIFICATE_H
#define RG_GATE_CERTIFICATE_H

#include "base/error.h"

#include <gnutls/abstract.h>

struct rg_certificate;

/* Reads the PEM files; RG_SETTING with the file's name when one cannot be read, is malformed, or
 * the key does not belong to the certificate. Strings are copied. */
int rg_certificate_open(const char *cert_path, const char *key_path,
                        struct rg_certificate **ret_certificate, struct rg_error *err);
void rg_certificate_close(struct rg_certificate *certificate);

/* Reads the files again. On failure what was read before stays in use. */
int rg_certificate_reload(struct rg_certificate *certificate, struct rg_error *err);

/* For a handshake: chain and key stay valid for several minutes after they were replaced. */
void rg_certificate_use(struct rg_certificate *certificate, gnutls_pcert_st **ret_chain,
                        unsigned *ret_count, gnutls_privkey_t *ret_key);

#endif
