/* SPDX-License-Identifier: Apache-2.0
 * dice.c: dice.h.
 */
#include "dice.h"

enum { TRIES = 10 };

static image_box cut_middle(int64_t height, int64_t width,
                            const double ratio[2]) {
  const double own = (double)width / (double)height;
  image_box box = {.height = height, .width = width};
  if (own < ratio[0])
    box.height = (int64_t)nearbyint((double)width / ratio[0]);
  else if (own > ratio[1])
    box.width = (int64_t)nearbyint((double)height * ratio[1]);
  if (box.height < 1) box.height = 1;
  if (box.width < 1) box.width = 1;
  if (box.height > height) box.height = height;
  if (box.width > width) box.width = width;
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

image_box image_draw_box(const image_dice *dice, const image_box_rule *rule,
                         int64_t height, int64_t width) {
  const double all = (double)height * (double)width;
  const double low = log(rule->ratio[0]), high = log(rule->ratio[1]);
  for (uint32_t i = 0; i < TRIES; ++i) {
    const tn_kernel_bits bits = image_roll(dice, rule->choice + i);
    const double part =
        all * image_between(bits.word[0], rule->area[0], rule->area[1]);
    const double aspect = exp(image_between(bits.word[1], low, high));
    const double w = nearbyint(sqrt(part * aspect));
    const double h = nearbyint(sqrt(part / aspect));
    if (!(w >= 1 && h >= 1 && w <= (double)width && h <= (double)height))
      continue;
    image_box box = {.height = (int64_t)h, .width = (int64_t)w};
    box.top = image_below(bits.word[2], height - box.height + 1);
    box.left = image_below(bits.word[3], width - box.width + 1);
    return box;
  }
  return cut_middle(height, width, rule->ratio);
}
