/* The resize kernels for processors with AVX2: the sums of resize.c in the same 32-bit integers, so
 * the same bytes. Chosen at run time; elsewhere this file is one function that says no. */
#include "resize.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

/* Sixteen bytes of two rows, one in each half. */
AVX2 static inline __m256i two_rows(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                   _mm_loadu_si128((const __m128i *)b), 1);
}

AVX2 static inline __m256i pair_of(const int16_t *weights)
{
    int32_t both;

    memcpy(&both, weights, sizeof both);
    return _mm256_set1_epi32(both);
}

/* Two rows' sums R G B 0, four values each, to where they belong. */
AVX2 static inline void store_rows(int16_t *out, size_t width, __m256i rows01, __m256i rows23,
                                   __m128i shift)
{
    __m256i all = _mm256_packs_epi32(_mm256_sra_epi32(rows01, shift),
                                     _mm256_sra_epi32(rows23, shift));
    __m128 even = _mm_castsi128_ps(_mm256_castsi256_si128(all));
    __m128 odd = _mm_castsi128_ps(_mm256_extracti128_si256(all, 1));

    _mm_storel_pi((__m64 *)(void *)out, even);
    _mm_storel_pi((__m64 *)(void *)(out + width), odd);
    _mm_storeh_pi((__m64 *)(void *)(out + 2 * width), even);
    _mm_storeh_pi((__m64 *)(void *)(out + 3 * width), odd);
}

/* Four source pixels are twelve bytes of a load. A shuffle makes 16-bit R0 R1 G0 G1 B0 B1 0 0 of
 * two of them, which multiply-and-add turns into 32-bit sums R G B 0. */
AVX2 static void avx2_columns(const uint8_t *source, size_t stride, int16_t *out, size_t width,
                              const struct resize_axis *columns, bool mirror)
{
    const __m256i front = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i back = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const int bits = columns->bits - RESIZE_FRACTION, taps = columns->taps;
    const bool half_used = columns->used <= 2; /* enlarging by whole factors, mostly */
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    const __m128i shift = _mm_cvtsi32_si128(bits);
    /* In the order of the results: each store's fourth value is overwritten by the next. */
    const int step = mirror ? -1 : 1, first = mirror ? columns->count - 1 : 0;
    const int32_t *start = columns->starts + first;
    const int16_t *weights = columns->weights + (ptrdiff_t)first * taps;

    for (int left = columns->count; left > 0;
         left--, start += step, weights += step * taps, out += 3) {
        const uint8_t *at = source + (size_t)*start * 3;
        __m256i sum01 = half, sum23 = half, sum45 = half, sum67 = half;
        for (int k = 0; k < taps; k += 4, at += 12) {
            const uint8_t *low = at + 4 * stride;
            __m256i a = two_rows(at, at + stride);
            __m256i b = two_rows(at + 2 * stride, at + 3 * stride);
            __m256i c = two_rows(low, low + stride);
            __m256i d = two_rows(low + 2 * stride, low + 3 * stride);
            __m256i pair = pair_of(weights + k);
#define ADD(sum, from, which)                                                                      \
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(from, which), pair))
            ADD(sum01, a, front);
            ADD(sum23, b, front);
            ADD(sum45, c, front);
            ADD(sum67, d, front);
            if (half_used)
                break;
            pair = pair_of(weights + k + 2);
            ADD(sum01, a, back);
            ADD(sum23, b, back);
            ADD(sum45, c, back);
            ADD(sum67, d, back);
#undef ADD
        }
        store_rows(out, width, sum01, sum23, shift);
        store_rows(out + 4 * width, width, sum45, sum67, shift);
    }
}

AVX2 static inline __m256i sixteen(const int16_t *const *source, int i, const int16_t *weights,
                                   int taps, __m256i half, __m128i shift)
{
    __m256i low = half, high = half;

    for (int k = 0; k < taps; k += 2) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(source[k] + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(source[k + 1] + i));
        __m256i pair = pair_of(weights + k);
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), pair));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), pair));
    }
    return _mm256_packs_epi32(_mm256_sra_epi32(low, shift), _mm256_sra_epi32(high, shift));
}

AVX2 static void avx2_rows(const int16_t *const *source, uint8_t *out, int values,
                           const int16_t *weights, int taps, int bits)
{
    const __m256i half = _mm256_set1_epi32(1 << (bits + RESIZE_FRACTION - 1));
    const __m128i shift = _mm_cvtsi32_si128(bits + RESIZE_FRACTION);

    for (int i = 0; i < values; i += 32) {
        __m256i a = sixteen(source, i, weights, taps, half, shift);
        __m256i b = sixteen(source, i + 16, weights, taps, half, shift);
        __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
        if (values - i >= 32) {
            _mm256_storeu_si256((__m256i *)(void *)(out + i), bytes);
        } else {
            uint8_t end[32];
            _mm256_storeu_si256((__m256i *)(void *)end, bytes);
            memcpy(out + i, end, (size_t)(values - i));
        }
    }
}

const struct resize_kernels *resize_kernels_avx2(void)
{
    static const struct resize_kernels kernels = {avx2_columns, avx2_rows};

    return __builtin_cpu_supports("avx2") ? &kernels : NULL;
}

#else

const struct resize_kernels *resize_kernels_avx2(void)
{
    return NULL;
}

#endif
