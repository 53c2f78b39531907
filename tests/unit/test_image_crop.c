/* Random numbers and crop geometry. */
#include "unit.h"

#include "../../loader/crop.h"
#include "../../loader/random.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const struct image_recipe imagenet = {.width = 224,
                                             .height = 224,
                                             .crop = IMAGE_RANDOM_RESIZED,
                                             .area_least = 0.08,
                                             .area_most = 1,
                                             .ratio_least = 3 / 4.0,
                                             .ratio_most = 4 / 3.0,
                                             .flip = 0.5,
                                             .pixels_most = 1 << 26,
                                             .scans_most = 100};

/* Random123's known answers (tests/kat_vectors, philox4x64 10): all zeros; numpy gives the others:
 * Philox(key=[7, 0], counter=[2**64 - 1, 41, 3, 2]), whose first block is that of counter + 1. */
Test(image_crop, random_numbers_are_philox)
{
    static const uint64_t zero[4] = {UINT64_C(0x16554d9eca36314c), UINT64_C(0xdb20fe9d672d0fdc),
                                     UINT64_C(0xd7e772cee186176b), UINT64_C(0x7e68b68aec7ba23b)};
    static const uint64_t numpy[6] = {UINT64_C(0x1e1d31fd4fe0b66b), UINT64_C(0x1c2bac77f3538c80),
                                      UINT64_C(0xcc698f08d1948844), UINT64_C(0xb7f0d2784412eeb1),
                                      UINT64_C(0x41934fc7176c8598), UINT64_C(0xa3fdb28cfc30918e)};
    struct random_stream random;

    random_start(&random, 0, 0, 0, 0);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(random_word(&random), zero[i]);
    random_start(&random, 7, 3, 42, 2);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(random_word(&random), numpy[i]);
}

Test(image_crop, random_below_stays_below_and_reaches_all)
{
    struct random_stream random;
    unsigned seen[7] = {0};

    random_start(&random, 1, 2, 3, 4);
    for (int i = 0; i < 7000; i++) {
        uint64_t n = random_below(&random, 7);
        cr_assert(n < 7);
        seen[n]++;
    }
    for (int i = 0; i < 7; i++)
        cr_assert(seen[i] > 850 && seen[i] < 1150);
    cr_assert_eq(random_below(&random, 1), 0);
}

Test(image_crop, random_crops_lie_inside_and_keep_area_and_ratio)
{
    struct crop_plan plan;
    int flips = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        int width = 1 + (int)(i * 7919 % 700), height = 1 + (int)(i * 104729 % 500);
        struct image_key key = {5, 1, i};
        crop_plan_make(&plan, &imagenet, &key, width, height);
        cr_assert(plan.x >= 0 && plan.y >= 0 && plan.width >= 1 && plan.height >= 1);
        cr_assert(plan.x + plan.width <= width && plan.y + plan.height <= height);
        cr_assert(plan.full_width == 224 && plan.full_height == 224 && !plan.left && !plan.top);
        flips += plan.flip;
        if (width < 100 || height < 100 || width > height * 1.3 || height > width * 1.3)
            continue;
        cr_assert((double)plan.width / plan.height > 0.72 &&
                  (double)plan.width / plan.height < 1.39);
        cr_assert((double)plan.width * plan.height > 0.075 * width * height);
    }
    cr_assert(flips > 9700 && flips < 10300);
}

/* No try fits a strip: torchvision then takes the largest allowed part of the middle. */
Test(image_crop, strips_fall_back_to_the_middle)
{
    struct image_recipe recipe = imagenet;
    struct image_key key = {1, 2, 3};
    struct crop_plan plan;

    recipe.area_least = recipe.area_most = 1;
    crop_plan_make(&plan, &recipe, &key, 1000, 100);
    cr_assert(plan.width == 133 && plan.height == 100 && plan.x == 433 && plan.y == 0);
    crop_plan_make(&plan, &recipe, &key, 100, 1000);
    cr_assert(plan.width == 100 && plan.height == 133 && plan.x == 0 && plan.y == 433);
    recipe.area_least = 0.08;
    crop_plan_make(&plan, &recipe, &key, 1, 1);
    cr_assert(plan.width == 1 && plan.height == 1);
}

/* torchvision: Resize(256) gives 341x256 of 500x375 (cut, not rounded), CenterCrop(224) starts at
 * round(58.5) = 58 (half to even) and round(16). */
Test(image_crop, centre_is_resize_and_centre_crop)
{
    struct image_recipe recipe = {.width = 224,
                                  .height = 224,
                                  .crop = IMAGE_CENTRE,
                                  .shorter = 256,
                                  .pixels_most = 1 << 20,
                                  .scans_most = 1};
    struct image_key key = {0, 0, 0};
    struct crop_plan plan;

    crop_plan_make(&plan, &recipe, &key, 500, 375);
    cr_assert(plan.width == 500 && plan.height == 375 && plan.x == 0 && plan.y == 0);
    cr_assert(plan.full_width == 341 && plan.full_height == 256 && plan.left == 58 &&
              plan.top == 16 && !plan.flip);
    crop_plan_make(&plan, &recipe, &key, 100, 333);
    cr_assert(plan.full_width == 256 && plan.full_height == 852 && plan.left == 16 &&
              plan.top == 314);
}

Test(image_crop, recipes_that_make_no_sense_are_refused)
{
    struct image_recipe recipe = imagenet;

    cr_assert_eq(crop_recipe_check(&recipe), 0);
    recipe.width = 0;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe = imagenet, recipe.height = IMAGE_TARGET_MAX + 1;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe = imagenet, recipe.area_least = 0;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe = imagenet, recipe.area_most = 1.5;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe = imagenet, recipe.ratio_least = 2;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe = imagenet, recipe.ratio_most = NAN;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe = imagenet, recipe.flip = NAN;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe = imagenet, recipe.crop = IMAGE_CENTRE, recipe.shorter = 223;
    cr_assert_eq(crop_recipe_check(&recipe), -EINVAL);
    recipe.shorter = 224;
    cr_assert_eq(crop_recipe_check(&recipe), 0);
}

Test(image_crop, crops_depend_on_the_key_alone)
{
    struct crop_plan a, b;
    struct image_key key = {11, 4, 1000}, other = {11, 5, 1000};
    int same = 0;

    crop_plan_make(&a, &imagenet, &key, 500, 375);
    crop_plan_make(&b, &imagenet, &other, 500, 375);
    cr_assert(memcmp(&a, &b, offsetof(struct crop_plan, flip)) != 0);
    crop_plan_make(&b, &imagenet, &key, 500, 375);
    cr_assert(a.x == b.x && a.y == b.y && a.width == b.width && a.height == b.height &&
              a.flip == b.flip);
    /* Neighbouring keys share nothing. */
    for (uint64_t i = 0; i < 1000; i++) {
        struct image_key one = {i, 0, 0}, two = {0, i + 1, 0};
        crop_plan_make(&a, &imagenet, &one, 500, 375);
        crop_plan_make(&b, &imagenet, &two, 500, 375);
        same += a.x == b.x && a.y == b.y && a.width == b.width;
    }
    cr_assert(same <= 1);
}
