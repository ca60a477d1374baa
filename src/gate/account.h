/*
 * Who may sign requests. The root account comes from the settings; further sources of accounts plug
 * in behind rg_accounts_find without the callers changing.
 */
#ifndef RG_GATE_ACCOUNT_H
#define RG_GATE_ACCOUNT_H

#include "base/error.h"
#include "base/settings.h"
#include "base/span.h"
#include "s3/sigv4.h"

struct rg_account {
    char access_key[129];
    char secret_key[129];
    char canonical_id[65]; /* 64 hex digits, stable for the access key */
    char display_name[129];
    bool is_root;
};

struct rg_accounts;

/* RG_SETTING when the root credentials are missing, too short or hold bytes that cannot be signed
 * with. */
int rg_accounts_new(const struct rg_settings *settings, struct rg_accounts **ret_accounts,
                    struct rg_error *err);
void rg_accounts_free(struct rg_accounts *accounts);

/* Copies the account of an access key. RG_INVALID_ACCESS_KEY_ID when there is none. */
int rg_accounts_find(struct rg_accounts *accounts, struct span access_key,
                     struct rg_account *ret_account, struct rg_error *err);

/*
 * The key that signs for an account in a scope (date, region, service). It changes once a day and
 * costs four HMACs, so the last few are kept. RG_INTERNAL_ERROR only if libcrypto fails.
 */
int rg_accounts_signing_key(struct rg_accounts *accounts, const struct rg_account *account,
                            struct rg_sigv4_scope scope, struct rg_sigv4_key *ret_key,
                            struct rg_error *err);

/* The account that owns every bucket and object. */
const struct rg_account *rg_accounts_owner(const struct rg_accounts *accounts);

#endif
