/* decode-limit THREADS FOLDER: JPEGs a second that libjpeg-turbo alone decodes, by so many threads.
 *
 * Each picture of FOLDER (however deep) is read into memory first. Then each thread decodes its
 * share of them: the region of a RandomResizedCrop (area 0.08 to 1, ratio 3/4 to 4/3) to RGB,
 * halved by DCT scaling as long as the region stays at least 224 wide and high; nothing is resized
 * or normalised. That is what any loader which crops before it resizes has left to reach. */
#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

enum { SIDE = 224, OPEN_FOLDERS = 16, THREADS_MOST = 256 };

static struct picture {
    unsigned char *bytes;
    unsigned long size;
} * pictures;
static size_t count, room;
static atomic_size_t next;

static int take(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    const char *dot = strrchr(path, '.');
    struct picture picture = {.size = (unsigned long)status->st_size};
    FILE *file;

    (void)place;
    if (kind != FTW_F || !dot || strcmp(dot, ".jpg") != 0 || picture.size == 0)
        return 0;
    if (count == room) {
        room = room ? 2 * room : 1024;
        pictures = realloc(pictures, room * sizeof *pictures);
    }
    picture.bytes = malloc(picture.size);
    file = fopen(path, "rb");
    if (!pictures || !picture.bytes || !file ||
        fread(picture.bytes, 1, picture.size, file) != picture.size) {
        fprintf(stderr, "decode-limit: %s: cannot be read\n", path);
        return -1;
    }
    fclose(file);
    pictures[count++] = picture;
    return 0;
}

static double share(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

struct region {
    JDIMENSION x, y, width, height;
};

static struct region choose(JDIMENSION width, JDIMENSION height, uint64_t *state)
{
    double area = (double)width * height * (0.08 + 0.92 * share(state));
    double ratio = exp(log(0.75) + (log(4.0 / 3) - log(0.75)) * share(state));
    struct region region = {.width = (JDIMENSION)fmin(width, sqrt(area * ratio)),
                            .height = (JDIMENSION)fmin(height, sqrt(area / ratio))};

    region.width += !region.width;
    region.height += !region.height;
    region.x = (JDIMENSION)(share(state) * (width - region.width));
    region.y = (JDIMENSION)(share(state) * (height - region.height));
    return region;
}

static void decode(struct jpeg_decompress_struct *jpeg, const struct picture *picture,
                   uint64_t *state, JSAMPROW row)
{
    struct region region;
    JDIMENSION end;

    jpeg_mem_src(jpeg, picture->bytes, picture->size);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = JCS_RGB;
    region = choose(jpeg->image_width, jpeg->image_height, state);
    jpeg->scale_num = jpeg->scale_denom = 1;
    while (jpeg->scale_denom < 8 && region.width / (2 * jpeg->scale_denom) >= SIDE &&
           region.height / (2 * jpeg->scale_denom) >= SIDE)
        jpeg->scale_denom *= 2;
    region.x /= jpeg->scale_denom;
    region.y /= jpeg->scale_denom;
    region.width /= jpeg->scale_denom;
    region.height /= jpeg->scale_denom;
    jpeg_start_decompress(jpeg);
    jpeg_crop_scanline(jpeg, &region.x, &region.width);
    if (region.y)
        jpeg_skip_scanlines(jpeg, region.y);
    end = region.y + region.height;
    while (jpeg->output_scanline < end && jpeg->output_scanline < jpeg->output_height)
        jpeg_read_scanlines(jpeg, &row, 1);
    jpeg_abort_decompress(jpeg);
}

static void *be_thread(void *context)
{
    uint64_t state = (uintptr_t)context;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    JSAMPROW row = malloc((size_t)JPEG_MAX_DIMENSION * 3);
    size_t i;

    jpeg.err = jpeg_std_error(&errors); /* ends the process: these are sound pictures */
    jpeg_create_decompress(&jpeg);
    while (row && (i = atomic_fetch_add(&next, 1)) < count)
        decode(&jpeg, &pictures[i], &state, row);
    jpeg_destroy_decompress(&jpeg);
    free(row);
    return NULL;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int words, char **arguments)
{
    long threads = words == 3 ? strtol(arguments[1], NULL, 10) : 0;
    pthread_t running[THREADS_MOST];
    double start;

    if (threads < 1 || threads > THREADS_MOST) {
        fprintf(stderr, "usage: decode-limit THREADS FOLDER\n");
        return 2;
    }
    if (nftw(arguments[2], take, OPEN_FOLDERS, FTW_PHYS) || count == 0) {
        fprintf(stderr, "decode-limit: %s: no pictures\n", arguments[2]);
        return 1;
    }
    start = now();
    for (long i = 0; i < threads; i++)
        if (pthread_create(&running[i], NULL, be_thread, (void *)(intptr_t)(i + 1)))
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    printf("%.1f\n", (double)count / (now() - start));
    return 0;
}
