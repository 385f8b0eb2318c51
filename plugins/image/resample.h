/* SPDX-License-Identifier: Apache-2.0
 * resample.h: computes pixels from the weights of taps.h: first along rows,
 * then along columns. Between the two, bytes are rounded to bytes, as Pillow
 * does.
 */
#ifndef IMAGE_RESAMPLE_H_
#define IMAGE_RESAMPLE_H_

#include "taps.h"

/* One image. */
typedef struct image_resampling {
  image_taps across, down;
  int64_t channels;
  const void *from;
  int64_t from_stride; /* elements between rows */
  void *to;
  int64_t to_stride;
  uint32_t level; /* of instructions */
} image_resampling;

/* Computes rows [begin, end) of the result. The scratch holds rows between both
 * passes. False without memory. */
bool image_resample_u8(const image_resampling *r, int64_t begin, int64_t end,
                       image_room *middle);
bool image_resample_f32(const image_resampling *r, int64_t begin, int64_t end,
                        image_room *middle);

#endif /* IMAGE_RESAMPLE_H_ */
