/*
 * cufile.json, the settings of cuFile (GPUDirect Storage) and of the cuObject client: as far as
 * they decide whether bytes go by RDMA. Pure.
 */
#ifndef RG_HOST_CUFILE_TEXT_H
#define RG_HOST_CUFILE_TEXT_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define RG_CUFILE_ADDRESSES_MAX 32
#define RG_CUFILE_TEXT_MAX      79

enum rg_cufile_flag { RG_CUFILE_UNSAID, RG_CUFILE_FALSE, RG_CUFILE_TRUE };

struct rg_cufile {
    enum rg_cufile_flag allow_compat; /* properties.allow_compat_mode */
    enum rg_cufile_flag force_compat; /* properties.force_compat_mode */
    bool has_addresses;               /* properties.rdma_dev_addr_list is there */
    char addresses[RG_CUFILE_ADDRESSES_MAX][RG_CUFILE_TEXT_MAX + 1];
    size_t address_count;
    bool cut;                               /* more of them, or some that is no such text */
    char peer_type[RG_CUFILE_TEXT_MAX + 1]; /* properties.rdma_peer_type; "" when not said */
    char problem[RG_CUFILE_TEXT_MAX + 81];  /* why it is not JSON, with the line; "" */
};

/* The text without comments of C (both kinds) outside strings; lines stay lines. */
void rg_cufile_uncomment(struct span text, struct rg_buf *out);

/* False when the text is no JSON object, or one of the settings above has another type: `problem`
 * says which. */
bool rg_cufile_parse(struct span text, struct rg_cufile *ret_cufile);

#endif
