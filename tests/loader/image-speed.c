/* image-speed SHARD.tar [ROUNDS]: pictures a second that one thread decodes, crops at random,
 * resizes to 224, mirrors and normalises to float32, beside what libjpeg-turbo alone takes to
 * decode the same regions. The two take turns, picture by picture, so that whatever else the
 * machine does slows both. A yardstick: plain ustar only. */
#include "../../loader/crop.h"
#include "../../loader/image.h"
#include "../../loader/pixels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

enum { SIDE = 224, BATCH = 256 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What libjpeg-turbo needs for the region: no margin, no trimming, no error handling. */
static void decode_only(struct jpeg_decompress_struct *libjpeg, const unsigned char *bytes,
                        size_t size, const struct image_recipe *recipe, const struct image_key *key,
                        unsigned char *out)
{
    struct crop_plan plan;
    JDIMENSION x, y, width, height, scale = 1;

    jpeg_mem_src(libjpeg, bytes, size);
    jpeg_read_header(libjpeg, TRUE);
    crop_plan_make(&plan, recipe, key, (int)libjpeg->image_width, (int)libjpeg->image_height);
    while (scale < 8 && (unsigned)plan.width / (2 * scale) >= SIDE &&
           (unsigned)plan.height / (2 * scale) >= SIDE)
        scale *= 2;
    libjpeg->scale_num = 1;
    libjpeg->scale_denom = scale;
    libjpeg->out_color_space = JCS_RGB;
    x = (unsigned)plan.x / scale;
    y = (unsigned)plan.y / scale;
    width = ((unsigned)plan.width + scale - 1) / scale;
    height = ((unsigned)plan.height + scale - 1) / scale;
    jpeg_start_decompress(libjpeg);
    if (x + width > libjpeg->output_width)
        width = libjpeg->output_width - x;
    jpeg_crop_scanline(libjpeg, &x, &width);
    if (y)
        jpeg_skip_scanlines(libjpeg, y);
    for (JDIMENSION i = 0; i < height && libjpeg->output_scanline < libjpeg->output_height; i++) {
        JSAMPROW row = out + (size_t)i * libjpeg->output_width * 3;
        jpeg_read_scanlines(libjpeg, &row, 1);
    }
    jpeg_abort_decompress(libjpeg);
}

int main(int count, char **arguments)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    static char head[512];
    static unsigned char in[8 << 20], out[64 << 20];
    static uint8_t rgb[SIDE * SIDE * 3];
    struct image_recipe recipe = {
        SIDE,    SIDE, IMAGE_RANDOM_RESIZED, 0, 0.08, 1, 0.75, 4 / 3.0, 0.5, false, false,
        1 << 28, 500};
    struct image_times times;
    struct image_decoder *decoder;
    struct image_report report;
    struct pixels_table table;
    struct jpeg_decompress_struct libjpeg;
    struct jpeg_error_mgr errors;
    double alone = 0, whole = 0, tensor = 0;
    int pictures = 0, rounds = count > 2 ? atoi(arguments[2]) : 1;
    float *batch = aligned_alloc(64, sizeof *batch * BATCH * 3 * SIDE * SIDE);
    FILE *shard;

    if (count < 2 || !batch || !(shard = fopen(arguments[1], "rb")) ||
        image_decoder_open(&decoder, &recipe))
        return 2;
    memset(batch, 1, sizeof *batch * BATCH * 3 * SIDE * SIDE);
    pixels_table_fill(&table, mean, deviation);
    image_decoder_times(decoder, &times);
    libjpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&libjpeg);
    for (int round = 0; round < rounds; round++, rewind(shard))
        while (fread(head, 512, 1, shard) == 1 && head[0]) {
            size_t size = strtoul(head + 124, NULL, 8), padded = (size + 511) & ~(size_t)511;
            struct image_key key = {1, (uint64_t)round, (uint64_t)pictures};
            double start, middle;
            if (padded > sizeof in || fread(in, 1, padded, shard) != padded)
                return 1;
            if (!strstr(head, ".jpg"))
                continue;
            for (int turn = 0; turn < 2; turn++) {
                start = now();
                if (turn == (pictures & 1)) {
                    decode_only(&libjpeg, in, size, &recipe, &key, out);
                    alone += now() - start;
                    continue;
                }
                if (image_decode(decoder, in, size, &key, rgb, &report)) {
                    printf("%s: %s\n", head, report.why);
                    return 1;
                }
                middle = now();
                pixels_to_floats(batch + (size_t)(pictures % BATCH) * 3 * SIDE * SIDE, rgb,
                                 (size_t)SIDE * SIDE, &table);
                whole += now() - start;
                tensor += now() - middle;
            }
            pictures++;
        }
    printf("%d pictures, one thread: libjpeg-turbo's region decode alone %.0f/s; all of it %.0f/s, "
           "%.0f %%\n",
           pictures, pictures / alone, pictures / whole, 100 * alone / whole);
    printf("microseconds a picture: %.0f alone; %.0f decode + %.0f resize + %.0f tensor\n",
           1e6 * alone / pictures, (double)times.decode_ns / 1e3 / pictures,
           (double)times.resize_ns / 1e3 / pictures, 1e6 * tensor / pictures);
    image_decoder_close(decoder);
    jpeg_destroy_decompress(&libjpeg);
    free(batch);
    fclose(shard);
    return 0;
}
