/*
 * CRC-64/NVME by tables (any CPU) and by carry-less multiplication (x86-64).
 *
 * The folding follows from one fact: a message may be replaced by any other that is congruent to it
 * modulo the polynomial. 128 bits that stand D bits before others are multiplied by x^D mod P and
 * added to those, until 128 bits are left; these go through the tables like any 16 bytes. All fold
 * constants are computed at the first use from the polynomial, none is copied from anywhere.
 */
#include "s3/crc64.h"

#include "base/assert.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_PCLMUL 1
#endif

/* table[k][b]: what byte b does to the CRC when k further bytes follow it. */
static uint64_t table[8][256];
static enum rg_crc64_way best = RG_CRC64_TABLES;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

/* Multiplies by x, in reflected order (bit 63 is the coefficient of x^0). */
static uint64_t times_x(uint64_t a)
{
    return (a >> 1) ^ (a & 1 ? RG_CRC64NVME_POLYNOMIAL : 0);
}

static void fill_tables(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint64_t crc = byte;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = times_x(crc);
        }
        table[0][byte] = crc;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        for (unsigned k = 1; k < 8; k++) {
            uint64_t crc = table[k - 1][byte];
            table[k][byte] = (crc >> 8) ^ table[0][crc & 0xff];
        }
    }
}

static uint64_t load_le64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* The bare register, without inversion: eight bytes a step. */
static uint64_t by_tables(uint64_t state, const uint8_t *bytes, size_t len)
{
    for (; len >= 8; bytes += 8, len -= 8) {
        uint64_t word = state ^ load_le64(bytes);
        state = table[7][word & 0xff] ^ table[6][(word >> 8) & 0xff] ^
                table[5][(word >> 16) & 0xff] ^ table[4][(word >> 24) & 0xff] ^
                table[3][(word >> 32) & 0xff] ^ table[2][(word >> 40) & 0xff] ^
                table[1][(word >> 48) & 0xff] ^ table[0][word >> 56];
    }
    for (; len; bytes++, len--) {
        state = (state >> 8) ^ table[0][(state ^ *bytes) & 0xff];
    }
    return state;
}

#ifdef HAVE_PCLMUL

/*
 * Constants to move 16 bytes forward by a distance: `near` multiplies the later eight bytes, `far`
 * the earlier. The product of two reflected 64-bit polynomials is the reflected product times x,
 * so that the exponents are one less than the distance in bits.
 */
struct fold {
    uint64_t far;
    uint64_t near;
};

static struct fold fold16;
static struct fold fold128;
static struct fold fold256;

static uint64_t power_of_x(unsigned exponent)
{
    uint64_t value = UINT64_C(1) << 63;
    while (exponent--) {
        value = times_x(value);
    }
    return value;
}

static struct fold make_fold(unsigned distance_bytes)
{
    unsigned bits = distance_bytes * 8;
    return (struct fold){.far = power_of_x(bits + 63), .near = power_of_x(bits - 1)};
}

static void fill_folds(void)
{
    fold16 = make_fold(16);
    fold128 = make_fold(128);
    fold256 = make_fold(256);
}

#define PCLMUL_TARGET  __attribute__((target("pclmul,sse4.1")))
#define VPCLMUL_TARGET __attribute__((target("vpclmulqdq,avx512f,avx512vl,pclmul,sse4.1")))

PCLMUL_TARGET static inline __m128i load_fold(const struct fold *fold)
{
    return _mm_set_epi64x((long long)fold->near, (long long)fold->far);
}

PCLMUL_TARGET static inline __m128i move_forward(__m128i value, __m128i fold)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(value, fold, 0x00),
                         _mm_clmulepi64_si128(value, fold, 0x11));
}

/* Ends both ways: `value` stands for everything before `bytes`. */
PCLMUL_TARGET static uint64_t finish(__m128i value, const uint8_t *bytes, size_t len)
{
    __m128i fold = load_fold(&fold16);
    for (; len >= 16; bytes += 16, len -= 16) {
        value = _mm_xor_si128(move_forward(value, fold),
                              _mm_loadu_si128((const __m128i *)(const void *)bytes));
    }
    uint8_t last[16];
    _mm_storeu_si128((__m128i *)(void *)last, value);
    return by_tables(by_tables(0, last, sizeof(last)), bytes, len);
}

PCLMUL_TARGET static uint64_t by_pclmul(uint64_t state, const uint8_t *bytes, size_t len)
{
    if (len < 128) {
        return by_tables(state, bytes, len);
    }
    __m128i lane[8];
    for (unsigned i = 0; i < 8; i++) {
        lane[i] = _mm_loadu_si128((const __m128i *)(const void *)(bytes + 16 * i));
    }
    lane[0] = _mm_xor_si128(lane[0], _mm_set_epi64x(0, (long long)state));
    bytes += 128;
    len -= 128;

    __m128i fold = load_fold(&fold128);
    for (; len >= 128; bytes += 128, len -= 128) {
        for (unsigned i = 0; i < 8; i++) {
            lane[i] =
                _mm_xor_si128(move_forward(lane[i], fold),
                              _mm_loadu_si128((const __m128i *)(const void *)(bytes + 16 * i)));
        }
    }

    fold = load_fold(&fold16);
    __m128i value = lane[0];
    for (unsigned i = 1; i < 8; i++) {
        value = _mm_xor_si128(move_forward(value, fold), lane[i]);
    }
    return finish(value, bytes, len);
}

VPCLMUL_TARGET static uint64_t by_vpclmul(uint64_t state, const uint8_t *bytes, size_t len)
{
    if (len < 512) {
        return by_pclmul(state, bytes, len);
    }
    __m512i lane[4];
    for (unsigned i = 0; i < 4; i++) {
        lane[i] = _mm512_loadu_si512(bytes + 64 * i);
    }
    lane[0] =
        _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(_mm_set_epi64x(0, (long long)state)));
    bytes += 256;
    len -= 256;

    __m512i fold = _mm512_broadcast_i32x4(load_fold(&fold256));
    for (; len >= 256; bytes += 256, len -= 256) {
        for (unsigned i = 0; i < 4; i++) {
            /* 0x96: the exclusive or of all three. */
            lane[i] = _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lane[i], fold, 0x00),
                                                _mm512_clmulepi64_epi128(lane[i], fold, 0x11),
                                                _mm512_loadu_si512(bytes + 64 * i), 0x96);
        }
    }

    uint8_t rest[256];
    for (unsigned i = 0; i < 4; i++) {
        _mm512_storeu_si512(rest + 64 * i, lane[i]);
    }
    __m128i value = _mm_loadu_si128((const __m128i *)(const void *)rest);
    __m128i step = load_fold(&fold16);
    for (unsigned i = 1; i < 16; i++) {
        value = _mm_xor_si128(move_forward(value, step),
                              _mm_loadu_si128((const __m128i *)(const void *)(rest + 16 * i)));
    }
    return finish(value, bytes, len);
}

static bool cpu_has(enum rg_crc64_way way)
{
    __builtin_cpu_init();
    bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    if (way == RG_CRC64_PCLMUL) {
        return pclmul;
    }
    return pclmul && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl");
}

#endif

static void prepare(void)
{
    fill_tables();
#ifdef HAVE_PCLMUL
    fill_folds();
    if (cpu_has(RG_CRC64_VPCLMUL)) {
        best = RG_CRC64_VPCLMUL;
    } else if (cpu_has(RG_CRC64_PCLMUL)) {
        best = RG_CRC64_PCLMUL;
    }
#endif
}

static uint64_t run(enum rg_crc64_way way, uint64_t crc, const void *bytes, size_t len)
{
    switch (way) {
    case RG_CRC64_TABLES:
        return ~by_tables(~crc, bytes, len);
#ifdef HAVE_PCLMUL
    case RG_CRC64_PCLMUL:
        return ~by_pclmul(~crc, bytes, len);
    case RG_CRC64_VPCLMUL:
        return ~by_vpclmul(~crc, bytes, len);
#endif
    default:
        RG_UNREACHABLE();
    }
}

uint64_t rg_crc64nvme(uint64_t crc, const void *bytes, size_t len)
{
    RG_MUST(pthread_once(&prepared, prepare));
    return run(best, crc, bytes, len);
}

uint64_t rg_crc64nvme_by(enum rg_crc64_way way, uint64_t crc, const void *bytes, size_t len)
{
    RG_MUST(pthread_once(&prepared, prepare));
    RG_ASSERT(rg_crc64nvme_has(way));
    return run(way, crc, bytes, len);
}

bool rg_crc64nvme_has(enum rg_crc64_way way)
{
    if (way == RG_CRC64_TABLES) {
        return true;
    }
#ifdef HAVE_PCLMUL
    return way < RG_CRC64_WAY_COUNT && cpu_has(way);
#else
    return false;
#endif
}

const char *rg_crc64nvme_way_name(enum rg_crc64_way way)
{
    static const char *const names[] = {
        [RG_CRC64_TABLES] = "tables",
        [RG_CRC64_PCLMUL] = "pclmul",
        [RG_CRC64_VPCLMUL] = "vpclmul",
    };
    RG_ASSERT((size_t)way < sizeof(names) / sizeof(names[0]));
    return names[way];
}
