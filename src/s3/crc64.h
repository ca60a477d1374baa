/*
 * CRC-64/NVME: polynomial 0xad93d23594c93659, reflected, initial value and final exclusive-or all
 * ones (NVM Express NVM Command Set Specification, 64b CRC). ISA-L has other CRC-64s, not this one.
 *
 * For checksum.c and its tests; other rooms use rg_hasher.
 */
#ifndef RG_S3_CRC64_H
#define RG_S3_CRC64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The polynomial with its bits reversed. */
#define RG_CRC64NVME_POLYNOMIAL UINT64_C(0x9a6c9329ac4bc9b5)

/*
 * The CRC of what came before (0 at the start) continued over `len` more bytes: like zlib's
 * crc32(), inversion included. Uses the fastest way this CPU has.
 */
uint64_t rg_crc64nvme(uint64_t crc, const void *bytes, size_t len);

/* The ways, for tests and benchmarks. All give the same result. */
enum rg_crc64_way { RG_CRC64_TABLES, RG_CRC64_PCLMUL, RG_CRC64_VPCLMUL, RG_CRC64_WAY_COUNT };

/* False when this CPU, or this build, lacks the instructions. TABLES always works. */
bool rg_crc64nvme_has(enum rg_crc64_way way);
const char *rg_crc64nvme_way_name(enum rg_crc64_way way);

/* `way` must be one that this CPU has. */
uint64_t rg_crc64nvme_by(enum rg_crc64_way way, uint64_t crc, const void *bytes, size_t len);

#endif
