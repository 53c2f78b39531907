/* What becomes of the pixels of a picture, for the host's tables and for the kernel on a GPU alike:
 * C and CUDA both compile this, so both give the same bits. Each step is rounded to float, none is
 * fused with another (the host is built with -ffp-contract=off, CUDA is told by name): that is what
 * torchvision's ToTensor and Normalize give, ((v / 255) - mean) / std. Conversions to the two short
 * formats are whole numbers' arithmetic, ties to even, as Tensor.half() and Tensor.bfloat16().
 *
 * A job is a batch of pictures of bytes (rows of R G B) that become planes. It is cut into groups
 * of four neighbouring pixels of one picture: one group is one thread's work on a GPU, and one turn
 * of a loop in C. Owns nothing. */
#ifndef SHUFFLELOAD_PIXELS_BODY_H
#define SHUFFLELOAD_PIXELS_BODY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define PIXELS_BODY static __host__ __device__ __forceinline__
#else
#define PIXELS_BODY static inline
#endif

enum { PIXELS_GROUP = 4 };

enum pixels_format { PIXELS_FLOAT32, PIXELS_FLOAT16, PIXELS_BFLOAT16 };

struct pixels_job {
    const uint8_t *rgb; /* images * pixels * 3; aligned to 4 bytes */
    void *planes;       /* of the format, as many; aligned to 16 bytes */
    uint32_t images, pixels;
    enum pixels_format format;
    float mean[3], deviation[3];
};

PIXELS_BODY uint32_t pixels_bits(float value)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

PIXELS_BODY float pixels_normalise(unsigned char value, float mean, float deviation)
{
#ifdef __CUDA_ARCH__
    return __fdiv_rn(__fsub_rn(__fdiv_rn((float)value, 255.0f), mean), deviation);
#else
    return ((float)value / 255.0f - mean) / deviation;
#endif
}

/* float -> IEEE 754 binary16, ties to even; NaN stays NaN. */
PIXELS_BODY uint16_t pixels_half(float value)
{
    uint32_t bits = pixels_bits(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: counts of 2^-24 */
        uint32_t exponent = magnitude >> 23, significand = (magnitude & 0x7fffff) | 0x800000;
        uint32_t drop = 126 - exponent, half;

        if (drop > 24) /* below 2^-25: nothing is left of it */
            return sign;
        half = (uint32_t)1 << (drop - 1);
        significand += half - 1 + (significand >> drop & 1);
        return (uint16_t)(sign | significand >> drop);
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (uint16_t)((magnitude >> 13) - (112 << 10)));
}

/* float -> bfloat16, the upper half of a float's bits, ties to even; NaN stays NaN. */
PIXELS_BODY uint16_t pixels_bfloat(float value)
{
    uint32_t bits = pixels_bits(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x0040);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Four pixels' bytes, from an address that is a multiple of four. */
PIXELS_BODY void pixels_load_group(uint8_t out[12], const uint8_t *rgb)
{
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int word = 0; word < 3; word++) {
        uint32_t bytes = ((const uint32_t *)rgb)[word];
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[word * 4 + i] = (uint8_t)(bytes >> (8 * i));
    }
#else
    memcpy(out, rgb, 12);
#endif
}

PIXELS_BODY void pixels_store_floats(float *to, const float values[4])
{
#ifdef __CUDA_ARCH__
    *(float4 *)to = make_float4(values[0], values[1], values[2], values[3]);
#else
    memcpy(to, values, 4 * sizeof *to);
#endif
}

PIXELS_BODY void pixels_store_shorts(uint16_t *to, const uint16_t values[4])
{
#ifdef __CUDA_ARCH__
    *(uint2 *)to = make_uint2(values[0] | (uint32_t)values[1] << 16,
                              values[2] | (uint32_t)values[3] << 16);
#else
    memcpy(to, values, 4 * sizeof *to);
#endif
}

PIXELS_BODY uint16_t pixels_short(float value, enum pixels_format format)
{
    return format == PIXELS_FLOAT16 ? pixels_half(value) : pixels_bfloat(value);
}

/* Pixels [4 * group, 4 * group + 4) of a picture, as far as there are any. `format` is the job's: a
 * constant where the compiler is to leave the other ones out. */
PIXELS_BODY void pixels_do_group(const struct pixels_job *job, uint32_t image, uint32_t group,
                                 enum pixels_format format)
{
    size_t plane = job->pixels, first = (size_t)group * PIXELS_GROUP;
    const uint8_t *rgb = job->rgb + ((size_t)image * plane + first) * 3;
    size_t at = (size_t)image * plane * 3 + first;

    if (job->pixels % PIXELS_GROUP == 0) {
        uint8_t bytes[12];

        pixels_load_group(bytes, rgb);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int channel = 0; channel < 3; channel++, at += plane) {
            float values[4];
            uint16_t shorts[4];

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
            for (int i = 0; i < PIXELS_GROUP; i++) {
                values[i] = pixels_normalise(bytes[i * 3 + channel], job->mean[channel],
                                             job->deviation[channel]);
                if (format != PIXELS_FLOAT32)
                    shorts[i] = pixels_short(values[i], format);
            }
            if (format == PIXELS_FLOAT32)
                pixels_store_floats((float *)job->planes + at, values);
            else
                pixels_store_shorts((uint16_t *)job->planes + at, shorts);
        }
        return;
    }
    for (size_t i = 0; i < PIXELS_GROUP && first + i < plane; i++)
        for (int channel = 0; channel < 3; channel++) {
            float value = pixels_normalise(rgb[i * 3 + (size_t)channel], job->mean[channel],
                                           job->deviation[channel]);
            size_t to = at + (size_t)channel * plane + i;

            if (format == PIXELS_FLOAT32)
                ((float *)job->planes)[to] = value;
            else
                ((uint16_t *)job->planes)[to] = pixels_short(value, format);
        }
}

#endif
