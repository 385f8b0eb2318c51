/* SPDX-License-Identifier: Apache-2.0
 * dice.h: random choices for one image. They depend on a key and the number of
 * the image alone, so they are the same for every number of workers.
 */
#ifndef IMAGE_DICE_H_
#define IMAGE_DICE_H_

#include <math.h>

#include "image.h"
#include "tenon/kernel/kernel.h"

/* The choices of one image: each has a number. */
typedef struct image_dice {
  uint64_t key, counter;
} image_dice;

/* Choices of image i by the stream of a call with the resource `rng`. The call
 * has at least as many elements of output as images. */
static inline image_dice image_call_dice(const tn_frame *call, int64_t i) {
  const tn_random *random = call->run->random[0];
  return (image_dice){random->key, random->offset + (uint64_t)i};
}

static inline tn_kernel_bits image_roll(const image_dice *dice,
                                        uint32_t choice) {
  return tn_kernel_philox(dice->key, dice->counter, choice);
}

/* A number in [low, high) by a random word. */
static inline double image_between(uint32_t word, double low, double high) {
  return low + (high - low) * ((double)word * 0x1p-32);
}

/* A whole number from 0 to n - 1, n from 1 to 2^32. */
static inline int64_t image_below(uint32_t word, int64_t n) {
  return (int64_t)((uint64_t)word * (uint64_t)n >> 32);
}

/* Whether a choice of probability p is made, exact to 2^-32. */
static inline bool image_happens(uint32_t word, double p) {
  return (double)word < p * 0x1p32;
}

/* A part of an image. */
typedef struct image_box {
  int64_t top, left, height, width;
} image_box;

/* How a part is drawn: the range of its area, as a fraction of the image, the
 * range of its width for a height of 1, and its first choice; 10 of them may be
 * used. */
typedef struct image_box_rule {
  const double *area, *ratio;
  uint32_t choice;
} image_box_rule;

/* Draws a part of an image. The ratio is uniform by its logarithm, as in
 * torchvision's RandomResizedCrop. If 10 draws do not fit, it is the largest
 * part in the middle with a ratio in the range. */
image_box image_draw_box(const image_dice *dice, const image_box_rule *rule,
                         int64_t height, int64_t width);

#endif /* IMAGE_DICE_H_ */
