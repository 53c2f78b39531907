/* Normalisation for processors with AVX2, FMA and F16C: computed, where the table's loads would be
 * the limit, and equal to the table. v / 255 and (...) / deviation are a product with the
 * reciprocal, put right by one step of the remainder (Markstein, "Computation of elementary
 * functions on the IBM RISC System/6000", 1990): that is the rounded quotient but for a few odd
 * divisors, so pixels_table_fill() compares all 256 values and keeps the table if any differs. */
#include "pixels_vector.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>

#define VECTOR __attribute__((target("avx2,fma,f16c")))

struct constants {
    __m256 mean, deviation, reciprocal, whole, part; /* 255 and 1 / 255 */
};

VECTOR static inline struct constants constants_of(const struct pixels_table *table, int channel)
{
    return (struct constants){_mm256_set1_ps(table->mean[channel]),
                              _mm256_set1_ps(table->deviation[channel]),
                              _mm256_set1_ps(1.0f / table->deviation[channel]),
                              _mm256_set1_ps(255.0f), _mm256_set1_ps(1.0f / 255.0f)};
}

VECTOR static inline __m256 divide(__m256 value, __m256 by, __m256 reciprocal)
{
    __m256 quotient = _mm256_mul_ps(value, reciprocal);
    __m256 remainder = _mm256_fnmadd_ps(quotient, by, value);

    return _mm256_fmadd_ps(remainder, reciprocal, quotient);
}

VECTOR static inline __m256 normalise(__m128i bytes, const struct constants *of)
{
    __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));

    value = _mm256_sub_ps(divide(value, of->whole, of->part), of->mean);
    return divide(value, of->deviation, of->reciprocal);
}

/* One channel of sixteen pixels. */
VECTOR static inline __m128i gather(const uint8_t *rgb, int channel)
{
    static const int8_t from[3][3][16] = {
        {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
        {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
        {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}}};
    __m128i all = _mm_setzero_si128();

    for (int i = 0; i < 3; i++)
        all = _mm_or_si128(
            all,
            _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(rgb + 16 * i)),
                             _mm_loadu_si128((const __m128i *)(const void *)from[channel][i])));
    return all;
}

VECTOR void pixels_vector_floats(float *out, const uint8_t *rgb, size_t count,
                                 const struct pixels_table *table)
{
    const struct constants of[3] = {constants_of(table, 0), constants_of(table, 1),
                                    constants_of(table, 2)};

    for (size_t i = 0; i < count; i += 16, rgb += 48)
        for (int channel = 0; channel < 3; channel++) {
            float *to = out + (size_t)channel * count + i;
            __m128i bytes = gather(rgb, channel);
            _mm256_stream_ps(to, normalise(bytes, &of[channel]));
            _mm256_stream_ps(to + 8, normalise(_mm_srli_si128(bytes, 8), &of[channel]));
        }
    _mm_sfence(); /* before any other thread is told that they are there */
}

VECTOR void pixels_vector_halves(uint16_t *out, const uint8_t *rgb, size_t count,
                                 const struct pixels_table *table)
{
    const struct constants of[3] = {constants_of(table, 0), constants_of(table, 1),
                                    constants_of(table, 2)};

    for (size_t i = 0; i < count; i += 16, rgb += 48)
        for (int channel = 0; channel < 3; channel++) {
            __m128i bytes = gather(rgb, channel);
            __m128i low = _mm256_cvtps_ph(normalise(bytes, &of[channel]),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            __m128i high = _mm256_cvtps_ph(normalise(_mm_srli_si128(bytes, 8), &of[channel]),
                                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            _mm256_stream_si256((__m256i *)(void *)(out + (size_t)channel * count + i),
                                _mm256_set_m128i(high, low));
        }
    _mm_sfence();
}

bool pixels_vector_supported(void)
{
    unsigned a, b, c = 0, d;

    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

#else

bool pixels_vector_supported(void)
{
    return false;
}

void pixels_vector_floats(float *out, const uint8_t *rgb, size_t count,
                          const struct pixels_table *table)
{
    (void)out, (void)rgb, (void)count, (void)table;
}

void pixels_vector_halves(uint16_t *out, const uint8_t *rgb, size_t count,
                          const struct pixels_table *table)
{
    (void)out, (void)rgb, (void)count, (void)table;
}

#endif
