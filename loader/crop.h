/* Which part of a picture becomes the result: geometry only, no pixels. All coordinates are of the
 * upright picture. */
#ifndef SHUFFLELOAD_CROP_H
#define SHUFFLELOAD_CROP_H

#include "image.h"

/* Resize the part at (x, y), width x height, to full_width x full_height; the result is the
 * recipe's width x height of that, from (left, top) on; then mirror it if `flip`. */
struct crop_plan {
    int x, y, width, height;
    int full_width, full_height;
    int left, top;
    bool flip;
};

/* Is this a recipe that crop_plan_make can follow? 0 or -EINVAL. */
int crop_recipe_check(const struct image_recipe *recipe);

/* The plan for a picture of width x height, both 1..IMAGE_SIDE_MAX. Never fails. */
void crop_plan_make(struct crop_plan *plan, const struct image_recipe *recipe,
                    const struct image_key *key, int width, int height);

#endif
