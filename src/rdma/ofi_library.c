/*
 * libfabric itself: loaded at run time, with the settings and the signal handlers of the process
 * left as they were, and its errors in words.
 */
#include "rdma/ofi_inside.h"

#include "base/attr.h"
#include "base/checked.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct rg_ofi_library rg_ofi_library;

void rg_ofi_save_signals(struct rg_ofi_signals *saved)
{
    for (int number = 1; number < 32; number++) {
        (void)sigaction(number, NULL, &saved->actions[number]);
    }
}

void rg_ofi_restore_signals(const struct rg_ofi_signals *saved)
{
    for (int number = 1; number < 32; number++) {
        if (number != SIGKILL && number != SIGSTOP) {
            (void)sigaction(number, &saved->actions[number], NULL);
        }
    }
}

/*
 * What the rxm layer takes from the environment only, when the library is loaded: by default an
 * endpoint has 4096 receive buffers, which we never use, and looks for connections every 10 ms. Set
 * only while no other thread can be reading the environment, and never against what is there.
 *
 * FI_OFI_RXM_BUFFER_SIZE stays as it is, although its pools cost some 70 MB: rxm refuses a peer
 * that has another one, and a peer may be a program with threads, or not ours.
 */
static void suggest_settings(void)
{
    static const char *const wishes[][2] = {
        {"FI_OFI_RXM_MSG_RX_SIZE", "8"},
        {"FI_OFI_RXM_MSG_TX_SIZE", "64"},
        {"FI_OFI_RXM_CM_PROGRESS_INTERVAL", "200"}, /* microseconds */
    };
    unsigned threads = 0;
    rg_autoclosedir DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
        threads += entry->d_name[0] != '.';
    }
    for (size_t i = 0; threads == 1 && i < RG_ARRAY_LENGTH(wishes); i++) {
        (void)setenv(wishes[i][0], wishes[i][1], 0);
    }
}

static bool find(void *handle, const char *name, void *ret_function)
{
    void *address = dlsym(handle, name);
    memcpy(ret_function, &address, sizeof address);
    return address != NULL;
}

int rg_ofi_load(struct rg_error *err)
{
    if (rg_ofi_library.handle) {
        return 0;
    }
    struct rg_ofi_signals signals;
    rg_ofi_save_signals(&signals);
    suggest_settings();
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    rg_ofi_restore_signals(&signals);
    if (!handle) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libfabric cannot be loaded: %s", dlerror());
    }
    if (!find(handle, "fi_getinfo", &rg_ofi_library.getinfo) ||
        !find(handle, "fi_freeinfo", &rg_ofi_library.freeinfo) ||
        !find(handle, "fi_dupinfo", &rg_ofi_library.dupinfo) ||
        !find(handle, "fi_fabric", &rg_ofi_library.fabric) ||
        !find(handle, "fi_strerror", &rg_ofi_library.strerror)) {
        int rc = rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libfabric is not usable: %s", dlerror());
        dlclose(handle);
        return rc;
    }
    rg_ofi_library.handle = handle;
    return 0;
}

const char *rg_ofi_explain(ssize_t rc)
{
    return rg_ofi_library.strerror((int)(rc < 0 ? -rc : rc));
}

int rg_ofi_fail(struct rg_error *err, const char *what, const char *provider, ssize_t rc)
{
    enum rg_code code = RG_RDMA_NOT_SUPPORTED;
    if (rc == -FI_ENOMEM) {
        code = RG_OUT_OF_MEMORY;
    } else if (rc == -FI_EMFILE || rc == -FI_ENOSPC || rc == -FI_EAGAIN) {
        code = RG_LIMIT;
    }
    return rg_failf(err, code, "libfabric provider %s: %s: %s", provider, what, rg_ofi_explain(rc));
}
