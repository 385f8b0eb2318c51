/* SPDX-License-Identifier: Apache-2.0
 * view.h: images of a dense tensor: the last three dimensions are (height,
 * width, channels), those before them are a batch.
 */
#ifndef IMAGE_VIEW_H_
#define IMAGE_VIEW_H_

#include "image.h"

typedef struct image_view {
  int64_t n; /* images */
  int64_t height, width, channels;
  int64_t size; /* elements of an image */
  int64_t item; /* bytes of an element */
  char *data;
} image_view;

static inline image_view image_view_of(const tn_tensor *t) {
  image_view v = {.n = 1,
                  .height = t->shape[t->ndim - 3],
                  .width = t->shape[t->ndim - 2],
                  .channels = t->shape[t->ndim - 1],
                  .item = tn_dtype_bytes(t->dtype),
                  .data = (char *)t->data};
  for (int32_t d = 0; d + 3 < t->ndim; ++d) v.n *= t->shape[d];
  v.size = v.height * v.width * v.channels;
  return v;
}

/* The first byte of a row of image i. */
static inline char *image_row(const image_view *v, int64_t i, int64_t y) {
  return v->data + (i * v->size + y * v->width * v->channels) * v->item;
}

/* Images of about this many elements are one slice. */
static inline int64_t image_grain(const image_view *v, int64_t elements) {
  return v->size > 0 && v->size < elements ? elements / v->size : 1;
}

/* Fails unless a list has no number, one, or one for each channel. */
static inline int32_t image_check_list(const tn_frame *call, const char *name,
                                       int64_t n, int64_t channels) {
  if (n == 0 || n == 1 || n == channels) return TN_OK;
  return TN_FAIL(call, TN_INVALID,
                 "`%s` has %lld numbers, but there are %lld channels; give one "
                 "for each, or one for all",
                 name, (long long)n, (long long)channels);
}

/* The number of a list for channel c. */
static inline double image_list_value(const tn_floats *list, int64_t c,
                                      double otherwise) {
  return list->n == 0 ? otherwise : list->v[list->n == 1 ? 0 : c];
}

/* Fails unless a range of two numbers is in order. */
static inline int32_t image_check_range(const tn_frame *call, const char *name,
                                        const tn_floats *range) {
  if (range->v[0] <= range->v[1]) return TN_OK;
  return TN_FAIL(call, TN_INVALID,
                 "`%s` is [%g, %g]; the first number must not be above the "
                 "second",
                 name, range->v[0], range->v[1]);
}

/* Declines the gradient of bytes. */
static inline int32_t image_take_floats_back(const tn_frame *call) {
  if (!(call->flags & TN_CALL_BACKWARD) || call->out[0].dtype != TN_U8)
    return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "u8 has no gradient; convert the images to f32 before");
}

#endif /* IMAGE_VIEW_H_ */
