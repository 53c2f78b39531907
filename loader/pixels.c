/* Tensors of pictures: see pixels.h. */
#include "pixels.h"

#include "pixels_vector.h"

#include <stdbool.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

void pixels_table_fill(struct pixels_table *table, const float mean[3], const float deviation[3])
{
    uint8_t rgb[256 * 3];
    _Alignas(32) float floats[3][256];
    _Alignas(32) uint16_t halves[3][256];

    memcpy(table->mean, mean, sizeof table->mean);
    memcpy(table->deviation, deviation, sizeof table->deviation);
    table->computed = false;
    for (int channel = 0; channel < 3; channel++)
        for (int value = 0; value < 256; value++) {
            float result = pixels_normalise((unsigned char)value, mean[channel],
                                            deviation[channel]);
            rgb[value * 3 + channel] = (uint8_t)value;
            table->floats[channel][value] = result;
            table->halves[channel][value] = pixels_half(result);
            table->bfloats[channel][value] = pixels_bfloat(result);
        }
    if (!pixels_vector_supported())
        return;
    pixels_vector_floats(floats[0], rgb, 256, table);
    pixels_vector_halves(halves[0], rgb, 256, table);
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the very bits, -0 and NaN too */
    table->computed = memcmp(floats, table->floats, sizeof floats) == 0 &&
                      memcmp(halves, table->halves, sizeof halves) == 0;
}

void pixels_to_bytes(uint8_t *out, const uint8_t *rgb, size_t count)
{
    memcpy(out, rgb, count * 3);
}

/* On x86 a batch is written past the caches: it is far larger than they are, and reading each line
 * before writing it doubles the traffic. Measured on 224x224 float32, a picture: the table 95 us
 * through the caches and 48 us past them, the vector code 46 and 38. Such stores are aligned. */
#ifdef __SSE2__
static bool streams(const void *out, size_t plane_bytes)
{
    return ((uintptr_t)out | plane_bytes) % 16 == 0;
}

static void stream_floats(float *out, const uint8_t *rgb, size_t count, const float *table)
{
    for (size_t i = 0; i < count; i += 4, rgb += 12)
        _mm_stream_ps(out + i,
                      _mm_setr_ps(table[rgb[0]], table[rgb[3]], table[rgb[6]], table[rgb[9]]));
}

static void stream_shorts(uint16_t *out, const uint8_t *rgb, size_t count, const uint16_t *table)
{
    for (size_t i = 0; i < count; i += 8, rgb += 24)
        _mm_stream_si128((__m128i *)(void *)(out + i),
                         _mm_setr_epi16((short)table[rgb[0]], (short)table[rgb[3]],
                                        (short)table[rgb[6]], (short)table[rgb[9]],
                                        (short)table[rgb[12]], (short)table[rgb[15]],
                                        (short)table[rgb[18]], (short)table[rgb[21]]));
}
#endif

void pixels_to_floats(float *out, const uint8_t *rgb, size_t count,
                      const struct pixels_table *table)
{
    if (table->computed && count % 16 == 0 && (uintptr_t)out % 32 == 0) {
        pixels_vector_floats(out, rgb, count, table);
        return;
    }
#ifdef __SSE2__
    if (streams(out, count * sizeof *out)) {
        for (int channel = 0; channel < 3; channel++)
            stream_floats(out + (size_t)channel * count, rgb + channel, count,
                          table->floats[channel]);
        _mm_sfence(); /* before any other thread is told that they are there */
        return;
    }
#endif
    for (int channel = 0; channel < 3; channel++)
        for (size_t i = 0; i < count; i++)
            *out++ = table->floats[channel][rgb[i * 3 + (size_t)channel]];
}

static void to_shorts(uint16_t *out, const uint8_t *rgb, size_t count, const uint16_t table[3][256])
{
#ifdef __SSE2__
    if (streams(out, count * sizeof *out)) {
        for (int channel = 0; channel < 3; channel++)
            stream_shorts(out + (size_t)channel * count, rgb + channel, count, table[channel]);
        _mm_sfence();
        return;
    }
#endif
    for (int channel = 0; channel < 3; channel++)
        for (size_t i = 0; i < count; i++)
            *out++ = table[channel][rgb[i * 3 + (size_t)channel]];
}

void pixels_to_halves(uint16_t *out, const uint8_t *rgb, size_t count,
                      const struct pixels_table *table)
{
    if (table->computed && count % 16 == 0 && (uintptr_t)out % 32 == 0)
        pixels_vector_halves(out, rgb, count, table);
    else
        to_shorts(out, rgb, count, table->halves);
}

void pixels_to_bfloats(uint16_t *out, const uint8_t *rgb, size_t count,
                       const struct pixels_table *table)
{
    to_shorts(out, rgb, count, table->bfloats);
}

void pixels_do_job(const struct pixels_job *job)
{
    uint32_t groups = job->pixels / PIXELS_GROUP + (job->pixels % PIXELS_GROUP != 0);

    for (uint32_t image = 0; image < job->images; image++)
        for (uint32_t group = 0; group < groups; group++)
            pixels_do_group(job, image, group, job->format);
}
