#include "gate/certificate.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX      16
#define FILE_BYTES_MAX (1u << 20)

/* Handshakes that began with a replaced certificate are over by then: see rg_http_config's
 * idle_timeout_ms, at most an hour by the settings. */
#define RETIRED_KEPT_NS (2ull * 3600 * 1000000000u)
#define RETIRED_MAX     64

/* What the two files held at one time. */
struct pair {
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned count;
    gnutls_privkey_t key;
    struct pair *older;
    uint64_t retired_ns;
};

struct rg_certificate {
    char *cert_path;
    char *key_path;
    pthread_mutex_t lock;
    struct pair *current; /* followed by the retired ones, newest first */
};

static void free_pair(struct pair *pair)
{
    for (unsigned i = 0; i < pair->count; i++) {
        gnutls_pcert_deinit(&pair->chain[i]);
    }
    if (pair->key) {
        gnutls_privkey_deinit(pair->key);
    }
    free(pair);
}

static void free_file(gnutls_datum_t *file)
{
    if (file->data) {
        gnutls_memset(file->data, 0, file->size);
    }
    free(file->data);
}

static int read_file(const char *path, gnutls_datum_t *ret_file, struct rg_error *err)
{
    rg_autofclose FILE *file = fopen(path, "re");
    if (!file) {
        return rg_fail_errno(err, RG_SETTING, errno, "cannot read %s", path);
    }
    char *data = malloc(FILE_BYTES_MAX);
    if (!data) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    size_t len = fread(data, 1, FILE_BYTES_MAX, file);
    if (ferror(file) || len == FILE_BYTES_MAX) {
        int failed = ferror(file) ? errno : EFBIG;
        free(data);
        return rg_fail_errno(err, RG_SETTING, failed, "cannot read %s", path);
    }
    *ret_file = (gnutls_datum_t){.data = (unsigned char *)data, .size = (unsigned)len};
    return 0;
}

static int load_chain(const char *path, struct pair *pair, struct rg_error *err)
{
    RG_CLEANUP(free_file) gnutls_datum_t file = {0};
    int rc = read_file(path, &file, err);
    if (rc < 0) {
        return rc;
    }
    unsigned count = CHAIN_MAX;
    rc = gnutls_pcert_list_import_x509_raw(pair->chain, &count, &file, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0 || count == 0) {
        return rg_failf(err, RG_SETTING, "%s holds no usable certificate: %s", path,
                        rc < 0 ? gnutls_strerror(rc) : "empty");
    }
    pair->count = count;
    return 0;
}

static int load_key(const char *path, struct pair *pair, struct rg_error *err)
{
    RG_CLEANUP(free_file) gnutls_datum_t file = {0};
    int rc = read_file(path, &file, err);
    if (rc < 0) {
        return rc;
    }
    rc = gnutls_privkey_init(&pair->key);
    if (rc < 0) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rc = gnutls_privkey_import_x509_raw(pair->key, &file, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc < 0) {
        return rg_failf(err, RG_SETTING, "%s holds no usable private key: %s", path,
                        gnutls_strerror(rc));
    }
    return 0;
}

/* Whether the key is that of the chain's first certificate. */
static bool is_match(const struct pair *pair)
{
    unsigned char of_cert[64];
    unsigned char of_key[64];
    size_t cert_len = sizeof of_cert;
    size_t key_len = sizeof of_key;
    gnutls_pubkey_t public_key;
    if (gnutls_pubkey_init(&public_key) < 0) {
        return false;
    }
    bool match =
        gnutls_pubkey_import_privkey(public_key, pair->key, 0, 0) >= 0 &&
        gnutls_pubkey_get_key_id(public_key, GNUTLS_KEYID_USE_SHA256, of_key, &key_len) >= 0 &&
        gnutls_pubkey_get_key_id(pair->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, of_cert,
                                 &cert_len) >= 0 &&
        key_len == cert_len && memcmp(of_key, of_cert, key_len) == 0;
    gnutls_pubkey_deinit(public_key);
    return match;
}

static int load_pair(const struct rg_certificate *certificate, struct pair **ret_pair,
                     struct rg_error *err)
{
    struct pair *pair = calloc(1, sizeof *pair);
    if (!pair) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = load_chain(certificate->cert_path, pair, err);
    if (rc < 0) {
        rc = rg_error_context(err, "tls-cert");
    } else {
        rc = load_key(certificate->key_path, pair, err);
        rc = rc < 0 ? rg_error_context(err, "tls-key") : 0;
    }
    if (rc == 0 && !is_match(pair)) {
        rc = rg_failf(err, RG_SETTING,
                      "the private key in %s does not belong to the certificate "
                      "in %s",
                      certificate->key_path, certificate->cert_path);
    }
    if (rc < 0) {
        free_pair(pair);
        return rc;
    }
    *ret_pair = pair;
    return 0;
}

int rg_certificate_open(const char *cert_path, const char *key_path,
                        struct rg_certificate **ret_certificate, struct rg_error *err)
{
    struct rg_certificate *certificate = calloc(1, sizeof *certificate);
    if (!certificate) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_MUST(pthread_mutex_init(&certificate->lock, NULL));
    certificate->cert_path = strdup(cert_path);
    certificate->key_path = strdup(key_path);
    int rc = certificate->cert_path && certificate->key_path ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
    rc = rc < 0 ? rc : load_pair(certificate, &certificate->current, err);
    if (rc < 0) {
        rg_certificate_close(certificate);
        return rc;
    }
    *ret_certificate = certificate;
    return 0;
}

void rg_certificate_close(struct rg_certificate *certificate)
{
    while (certificate->current) {
        struct pair *pair = certificate->current;
        certificate->current = pair->older;
        free_pair(pair);
    }
    free(certificate->cert_path);
    free(certificate->key_path);
    RG_MUST(pthread_mutex_destroy(&certificate->lock));
    free(certificate);
}

/* With the lock held: frees what was retired long ago; returns how many are kept. */
static unsigned drop_old(struct rg_certificate *certificate)
{
    unsigned kept = 0;
    struct pair **at = &certificate->current->older;
    while (*at) {
        struct pair *pair = *at;
        if (rg_clock_ns() - pair->retired_ns > RETIRED_KEPT_NS) {
            *at = pair->older;
            free_pair(pair);
        } else {
            at = &pair->older;
            kept++;
        }
    }
    return kept;
}

int rg_certificate_reload(struct rg_certificate *certificate, struct rg_error *err)
{
    struct pair *pair;
    int rc = load_pair(certificate, &pair, err);
    if (rc < 0) {
        return rc;
    }
    RG_MUST(pthread_mutex_lock(&certificate->lock));
    bool room = drop_old(certificate) < RETIRED_MAX;
    if (room) {
        certificate->current->retired_ns = rg_clock_ns();
        pair->older = certificate->current;
        certificate->current = pair;
    }
    RG_MUST(pthread_mutex_unlock(&certificate->lock));
    if (!room) {
        free_pair(pair);
        return rg_failf(err, RG_LIMIT, "the certificate was read again %d times within two hours",
                        RETIRED_MAX);
    }
    return 0;
}

void rg_certificate_use(struct rg_certificate *certificate, gnutls_pcert_st **ret_chain,
                        unsigned *ret_count, gnutls_privkey_t *ret_key)
{
    RG_MUST(pthread_mutex_lock(&certificate->lock));
    struct pair *pair = certificate->current;
    *ret_chain = pair->chain;
    *ret_count = pair->count;
    *ret_key = pair->key;
    RG_MUST(pthread_mutex_unlock(&certificate->lock));
}
