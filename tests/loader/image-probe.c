/* What test_image.py talks to: six int32 a question on stdin, the answer's bytes on stdout.
 *   1 width height to-width to-height plain   then width * height RGB pixels: the resized picture
 *   2 width height count 0 0                  `count` random crops: x, y, width, height of each */
#include "../../loader/crop.h"
#include "../../loader/resize.h"

#include <stdio.h>
#include <stdlib.h>

static int resize(const int32_t *question)
{
    int width = question[1], height = question[2], to = question[3], high = question[4];
    size_t size = (size_t)width * (size_t)height * 3, result = (size_t)to * (size_t)high * 3;
    uint8_t *source = calloc(1, size + RESIZE_SLACK), *out = malloc(result);
    struct resizer *resizer = NULL;
    bool done = false;

    if (source && out && fread(source, size, 1, stdin) == 1 &&
        !resizer_open(&resizer, question[5] ? RESIZE_PLAIN : RESIZE_FASTEST) &&
        !resize_axis_set(resizer_columns(resizer), 0, width, width, to, 0, to,
                         RESIZE_BITS_COLUMNS) &&
        !resize_axis_set(resizer_rows(resizer), 0, height, height, high, 0, high,
                         RESIZE_BITS_ROWS)) {
        size_t first = (size_t)resizer_rows(resizer)->first * (size_t)width +
                       (size_t)resizer_columns(resizer)->first;
        done = !resizer_run(resizer, source + first * 3, (size_t)width * 3, out, false) &&
               fwrite(out, result, 1, stdout) == 1;
    }
    resizer_close(resizer);
    free(source);
    free(out);
    return done ? 0 : 1;
}

static int crops(const int32_t *question)
{
    static const struct image_recipe recipe = {.width = 224,
                                               .height = 224,
                                               .crop = IMAGE_RANDOM_RESIZED,
                                               .area_least = 0.08,
                                               .area_most = 1,
                                               .ratio_least = 3 / 4.0,
                                               .ratio_most = 4 / 3.0};

    for (int i = 0; i < question[3]; i++) {
        struct image_key key = {12, 34, (uint64_t)i};
        struct crop_plan plan;
        int32_t answer[4];
        crop_plan_make(&plan, &recipe, &key, question[1], question[2]);
        answer[0] = plan.x, answer[1] = plan.y;
        answer[2] = plan.width, answer[3] = plan.height;
        if (fwrite(answer, sizeof answer, 1, stdout) != 1)
            return 1;
    }
    return 0;
}

int main(void)
{
    int32_t question[6];

    while (fread(question, sizeof question, 1, stdin) == 1) {
        if (question[0] == 1 ? resize(question) : crops(question))
            return 1;
        fflush(stdout);
    }
    return 0;
}
