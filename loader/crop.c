/* The crops of torchvision.transforms, from their documented behaviour. Draws of a random crop, in
 * order, from the stream RANDOM_CROP: for each try the area, the ratio, then, of the try that fits,
 * row and column. */
#include "crop.h"

#include "random.h"

#include <errno.h>
#include <math.h>

#define TRIES 10

int crop_recipe_check(const struct image_recipe *recipe)
{
    if (recipe->width < 1 || recipe->width > IMAGE_TARGET_MAX || recipe->height < 1 ||
        recipe->height > IMAGE_TARGET_MAX || !(recipe->flip >= 0 && recipe->flip <= 1))
        return -EINVAL;
    switch (recipe->crop) {
    case IMAGE_STRETCH:
        return 0;
    case IMAGE_RANDOM_RESIZED:
        return recipe->area_least > 0 && recipe->area_least <= recipe->area_most &&
                       recipe->area_most <= 1 && recipe->ratio_least >= 1.0 / IMAGE_SIDE_MAX &&
                       recipe->ratio_least <= recipe->ratio_most &&
                       recipe->ratio_most <= IMAGE_SIDE_MAX
                   ? 0
                   : -EINVAL;
    case IMAGE_CENTRE:
        /* torchvision pads with black what a resized picture lacks; here it may lack nothing. */
        return recipe->shorter >= recipe->width && recipe->shorter >= recipe->height &&
                       recipe->shorter <= IMAGE_TARGET_MAX
                   ? 0
                   : -EINVAL;
    }
    return -EINVAL;
}

static int between(double value, int least, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

/* Python's round(): ties to even, as rint() in the default rounding mode. */
static int rounded(double value)
{
    return between(rint(value), 0, 1 << 30);
}

static void random_resized(struct crop_plan *plan, const struct image_recipe *recipe,
                           const struct image_key *key, int width, int height)
{
    struct random_stream random;
    double area = (double)width * height, shape = (double)width / height;
    double log_least = log(recipe->ratio_least), log_most = log(recipe->ratio_most);

    random_start(&random, key->seed, key->epoch, key->position, RANDOM_CROP);
    for (int i = 0; i < TRIES; i++) {
        double part = recipe->area_least +
                      (recipe->area_most - recipe->area_least) * random_unit(&random);
        double ratio = exp(log_least + (log_most - log_least) * random_unit(&random));
        int w = rounded(sqrt(area * part * ratio)), h = rounded(sqrt(area * part / ratio));
        if (w < 1 || w > width || h < 1 || h > height)
            continue;
        plan->width = w;
        plan->height = h;
        plan->y = (int)random_below(&random, (uint64_t)(height - h) + 1);
        plan->x = (int)random_below(&random, (uint64_t)(width - w) + 1);
        return;
    }
    /* None fitted: the largest part from the centre that has an allowed ratio. */
    plan->width = width;
    plan->height = height;
    if (shape < recipe->ratio_least)
        plan->height = between(rint(width / recipe->ratio_least), 1, height);
    else if (shape > recipe->ratio_most)
        plan->width = between(rint(height * recipe->ratio_most), 1, width);
    plan->x = (width - plan->width) / 2;
    plan->y = (height - plan->height) / 2;
}

void crop_plan_make(struct crop_plan *plan, const struct image_recipe *recipe,
                    const struct image_key *key, int width, int height)
{
    struct random_stream random;

    *plan = (struct crop_plan){.width = width,
                               .height = height,
                               .full_width = recipe->width,
                               .full_height = recipe->height};
    if (recipe->crop == IMAGE_RANDOM_RESIZED)
        random_resized(plan, recipe, key, width, height);
    if (recipe->crop == IMAGE_CENTRE) {
        /* Resize(shorter) cuts the longer side's fraction off; CenterCrop rounds half to even. */
        int64_t least = width < height ? width : height, most = width < height ? height : width;
        int longer = (int)(recipe->shorter * most / least); /* below 2^30: 16384 * 65535 */
        plan->full_width = width < height ? recipe->shorter : longer;
        plan->full_height = width < height ? longer : recipe->shorter;
        plan->left = rounded((plan->full_width - recipe->width) / 2.0);
        plan->top = rounded((plan->full_height - recipe->height) / 2.0);
    }
    if (recipe->flip > 0) {
        random_start(&random, key->seed, key->epoch, key->position, RANDOM_FLIP);
        plan->flip = random_unit(&random) < recipe->flip;
    }
}
