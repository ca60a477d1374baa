/*
 * The accounts: so far the root account of the settings. It must not know about requests.
 */
#include "gate/account.h"

#include "base/assert.h"
#include "base/encode.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ACCESS_KEY_MIN 3u
#define SECRET_KEY_MIN 8u

/* Scopes in use at a time: today, yesterday, and the week of presigned URLs. */
#define KEYS_KEPT     16u
#define KEY_NAME_SIZE 256u

struct kept_key {
    char name[KEY_NAME_SIZE]; /* access key and scope; "": unused */
    struct rg_sigv4_key key;
};

struct rg_accounts {
    struct rg_account root;
    pthread_mutex_t lock; /* over what follows */
    struct kept_key keys[KEYS_KEPT];
    size_t next; /* to be replaced */
};

/* Printable ASCII without space: what an Authorization header and a URL carry unharmed. */
static bool is_printable(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] <= 0x20 || text.ptr[i] >= 0x7f) {
            return false;
        }
    }
    return true;
}

static int check_access_key(struct span key, struct rg_error *err)
{
    if (key.len == 0) {
        return rg_failf(err, RG_SETTING,
                        "root-access-key is not set (RAILGATE_ROOT_ACCESS_KEY): the gateway needs "
                        "the root account's access key");
    }
    if (key.len < ACCESS_KEY_MIN) {
        return rg_failf(err, RG_SETTING, "root-access-key: must have at least %u characters",
                        ACCESS_KEY_MIN);
    }
    /* These separate fields in the Authorization header and the credential. */
    if (!is_printable(key) || rg_span_find(key, '/') >= 0 || rg_span_find(key, ',') >= 0 ||
        rg_span_find(key, '=') >= 0) {
        return rg_failf(err, RG_SETTING,
                        "root-access-key: must be printable ASCII without space, '/', ',' or '='");
    }
    return 0;
}

static int check_secret_key(struct span key, struct rg_error *err)
{
    if (key.len == 0) {
        return rg_failf(err, RG_SETTING,
                        "root-secret-key is not set (RAILGATE_ROOT_SECRET_KEY): the gateway needs "
                        "the root account's secret key");
    }
    if (key.len < SECRET_KEY_MIN) {
        return rg_failf(err, RG_SETTING, "root-secret-key: must have at least %u characters",
                        SECRET_KEY_MIN);
    }
    if (!is_printable(key)) {
        return rg_failf(err, RG_SETTING, "root-secret-key: must be printable ASCII without space");
    }
    return 0;
}

static void copy_text(char *to, size_t room, struct span from)
{
    size_t len = from.len < room ? from.len : room - 1;
    memcpy(to, from.ptr, len);
    to[len] = '\0';
}

int rg_accounts_new(const struct rg_settings *settings, struct rg_accounts **ret_accounts,
                    struct rg_error *err)
{
    struct span access_key = rg_span_text(settings->root_access_key);
    struct span secret_key = rg_span_text(settings->root_secret_key);
    int rc = check_access_key(access_key, err);
    if (rc == 0) {
        rc = check_secret_key(secret_key, err);
    }
    if (rc < 0) {
        return rc;
    }

    struct rg_accounts *accounts = calloc(1, sizeof *accounts);
    if (!accounts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_MUST(pthread_mutex_init(&accounts->lock, NULL));
    struct rg_account *root = &accounts->root;
    copy_text(root->access_key, sizeof root->access_key, access_key);
    copy_text(root->secret_key, sizeof root->secret_key, secret_key);
    copy_text(root->display_name, sizeof root->display_name, access_key);
    root->is_root = true;

    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)access_key.ptr, access_key.len, digest);
    rg_hex_encode(digest, sizeof digest, root->canonical_id);
    *ret_accounts = accounts;
    return 0;
}

void rg_accounts_free(struct rg_accounts *accounts)
{
    if (accounts) {
        RG_MUST(pthread_mutex_destroy(&accounts->lock));
        OPENSSL_cleanse(accounts, sizeof *accounts);
        free(accounts);
    }
}

int rg_accounts_find(struct rg_accounts *accounts, struct span access_key,
                     struct rg_account *ret_account, struct rg_error *err)
{
    if (!rg_span_is(access_key, accounts->root.access_key)) {
        return rg_fail(err, RG_INVALID_ACCESS_KEY_ID);
    }
    *ret_account = accounts->root;
    return 0;
}

/* False when the name is too long to be kept under. */
static bool name_key(const struct rg_account *account, struct rg_sigv4_scope scope,
                     char name[KEY_NAME_SIZE])
{
    const struct span words[] = {rg_span_text(account->access_key), scope.date, scope.region,
                                 scope.service};
    size_t at = 0;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(words); i++) {
        if (words[i].len + 1 > KEY_NAME_SIZE - at) {
            return false;
        }
        memcpy(name + at, words[i].ptr, words[i].len);
        at += words[i].len;
        name[at++] = i + 1 < RG_ARRAY_LENGTH(words) ? '/' : '\0';
    }
    return true;
}

static bool find_key(struct rg_accounts *accounts, const char *name, struct rg_sigv4_key *ret_key)
{
    bool found = false;
    RG_MUST(pthread_mutex_lock(&accounts->lock));
    for (size_t i = 0; i < KEYS_KEPT && !found; i++) {
        found = strcmp(accounts->keys[i].name, name) == 0;
        if (found) {
            *ret_key = accounts->keys[i].key;
        }
    }
    RG_MUST(pthread_mutex_unlock(&accounts->lock));
    return found;
}

static void keep_key(struct rg_accounts *accounts, const char *name, const struct rg_sigv4_key *key)
{
    RG_MUST(pthread_mutex_lock(&accounts->lock));
    struct kept_key *kept = &accounts->keys[accounts->next++ % KEYS_KEPT];
    memcpy(kept->name, name, strlen(name) + 1);
    kept->key = *key;
    RG_MUST(pthread_mutex_unlock(&accounts->lock));
}

int rg_accounts_signing_key(struct rg_accounts *accounts, const struct rg_account *account,
                            struct rg_sigv4_scope scope, struct rg_sigv4_key *ret_key,
                            struct rg_error *err)
{
    char name[KEY_NAME_SIZE];
    bool may_keep = name_key(account, scope, name);
    if (may_keep && find_key(accounts, name, ret_key)) {
        return 0;
    }
    int rc = rg_sigv4_key_derive(rg_span_text(account->secret_key), scope, ret_key, err);
    if (rc == 0 && may_keep) {
        keep_key(accounts, name, ret_key);
    }
    return rc;
}

const struct rg_account *rg_accounts_owner(const struct rg_accounts *accounts)
{
    return &accounts->root;
}
