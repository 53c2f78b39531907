/* A batch as one picture, to look at what training sees: contact-sheet PATH [ROWS COLUMNS] > x.ppm
 *
 * Each image is cropped, resized and flipped as in training; a bad one's place is grey. */
#include <shuffleload.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct sl_loader *loader;
    struct sl_batch *batch;
    size_t rows = count > 3 ? strtoul(arguments[2], NULL, 10) : 4;
    size_t columns = count > 3 ? strtoul(arguments[3], NULL, 10) : 8;
    size_t line, width;
    uint8_t *sheet;
    int status;

    config.path = count > 1 ? arguments[1] : NULL;
    config.batch_size = rows * columns;
    config.width = config.height = 160;
    config.flip = 0.5;
    config.bad = SL_BAD_SKIP;
    if (sl_open(&loader, &config) < 0) {
        fprintf(stderr, "%s\n", sl_error(NULL));
        return 1;
    }
    status = sl_next(loader, &batch, -1);
    if (status < 0 || status == SL_END) {
        fprintf(stderr, "%s\n", status < 0 ? sl_error(loader) : "there are no samples");
        sl_close(loader);
        return 1;
    }
    width = (size_t)batch->shape[2] * 3; /* bytes of an image's row */
    line = width * columns;              /* of the sheet's */
    sheet = malloc(line * rows * (size_t)batch->shape[1]);
    if (sheet) {
        memset(sheet, 128, line * rows * (size_t)batch->shape[1]);
        for (size_t i = 0; i < batch->count; i++)
            for (size_t y = 0; y < (size_t)batch->shape[1]; y++)
                memcpy(sheet + (i / columns * (size_t)batch->shape[1] + y) * line +
                           i % columns * width,
                       (uint8_t *)batch->data + (int64_t)i * batch->strides[0] +
                           (int64_t)y * batch->strides[1],
                       width);
        printf("P6\n%zu %zu\n255\n", line / 3, rows * (size_t)batch->shape[1]);
        fwrite(sheet, line, rows * (size_t)batch->shape[1], stdout);
    }
    for (size_t i = 0; i < batch->asked; i++)
        fprintf(stderr, "%s %lld%s%s\n", batch->names[i], (long long)batch->labels[i],
                batch->statuses[i] ? " " : "",
                batch->statuses[i] ? sl_status_text(batch->statuses[i]) : "");
    free(sheet);
    sl_close(loader);
    return fflush(stdout) != 0;
}
