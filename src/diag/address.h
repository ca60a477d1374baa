/*
 * Addresses in text: IPv4, IPv6, MAC in all its spellings, GUID and GID.
 */
#ifndef RG_DIAG_ADDRESS_H
#define RG_DIAG_ADDRESS_H

#include "base/span.h"

/* The length of the address that begins at `at`, or 0. What stands around it is looked at: digits
 * within a longer word or number are none. */
size_t rg_address_length(struct span text, size_t at);

/* The length of "192.0.2.1" at the start of the text, or 0. */
size_t rg_address_ipv4_length(struct span text);

/* How many hexadecimal digits the text begins with. */
size_t rg_address_hex_length(struct span text);

/* The whole word is an address with colons: IPv6, MAC, GUID, GID. */
bool rg_address_is_colon(struct span token);

#endif
