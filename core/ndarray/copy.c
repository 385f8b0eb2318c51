/* SPDX-License-Identifier: Apache-2.0
 * copy.c: copies and zeros of tensors with any strides, and the walk over two
 * tensors that they share with add.c; which tensors repeat elements. No dtype
 * has a meaning here.
 */
#include <string.h>

#include "walk.h"

/* Two tensors' common shape with strides in bytes, without dimensions of 1, and
 * with those merged that can be walked as one. */
typedef struct plan {
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  int64_t to[TN_MAX_NDIM];
  int64_t from[TN_MAX_NDIM];
} plan;

static void plan_add(plan *p, int64_t n, int64_t to, int64_t from) {
  int32_t last = p->ndim - 1;
  if (n == 1) return;
  if (last >= 0 && p->to[last] == to * n && p->from[last] == from * n) {
    p->shape[last] *= n;
  } else {
    last = p->ndim++;
    p->shape[last] = n;
  }
  p->to[last] = to;
  p->from[last] = from;
}

static void plan_init(plan *p, const tn_tensor *to, const tn_tensor *from) {
  int64_t bytes = tn_dtype_bytes(to->dtype);
  p->ndim = 0;
  for (int32_t i = 0; i < to->ndim; ++i)
    plan_add(p, to->shape[i], to->strides[i] * bytes, from->strides[i] * bytes);
  if (p->ndim > 0) return;
  p->ndim = 1; /* one element is a row of one */
  p->shape[0] = 1;
  p->to[0] = p->from[0] = bytes;
}

/* Steps to the next row as an odometer does; false behind the last one. */
static bool advance(const plan *p, int64_t *index, char **to,
                    const char **from) {
  for (int32_t i = p->ndim - 2; i >= 0; --i) {
    *to += p->to[i];
    *from += p->from[i];
    if (++index[i] < p->shape[i]) return true;
    index[i] = 0;
    *to -= p->to[i] * p->shape[i];
    *from -= p->from[i] * p->shape[i];
  }
  return false;
}

void tn__walk(const tn_tensor *to, const tn_tensor *from, tn__row_fn *fn) {
  if (tn_tensor_size(to) == 0) return;
  plan p;
  plan_init(&p, to, from);
  int32_t last = p.ndim - 1;
  const tn__row row = {p.shape[last], p.to[last], p.from[last]};
  int64_t index[TN_MAX_NDIM] = {0};
  char *t = to->data;
  const char *f = from->data;
  do fn(t, f, &row);
  while (advance(&p, index, &t, &f));
}

/* memcpy of a constant size is one load and one store, whatever the pointers'
 * alignment: callers' memory need not be aligned for its type. */
#define COPY_ROW(bytes)                                                      \
  static void copy_##bytes(char *to, const char *from, const tn__row *row) { \
    if (row->to == (bytes) && row->from == (bytes)) {                        \
      memcpy(to, from, (size_t)row->n *(bytes));                             \
      return;                                                                \
    }                                                                        \
    for (int64_t i = 0; i < row->n; ++i)                                     \
      memcpy(to + i * row->to, from + i * row->from, (bytes));               \
  }
COPY_ROW(1)
COPY_ROW(2)
COPY_ROW(4)
COPY_ROW(8)

static tn__row_fn *copy_row(tn_dtype dtype) {
  switch (tn_dtype_bytes(dtype)) {
    case 1:
      return copy_1;
    case 2:
      return copy_2;
    case 4:
      return copy_4;
    default:
      return copy_8;
  }
}

void tn__tensor_copy(const tn_tensor *to, const tn_tensor *from) {
  if (to->data == from->data) return; /* identical: nothing would change */
  tn__walk(to, from, copy_row(to->dtype));
}

/* All zero bits are zero in every element type: a copy from one such element,
 * which every stride of 0 finds again. */
void tn__tensor_zero(const tn_tensor *to) {
  static const uint64_t zero = 0;
  int64_t strides[TN_MAX_NDIM] = {0};
  if (tn_tensor_is_contiguous(to)) {
    size_t n = (size_t)tn_tensor_size(to) * (size_t)tn_dtype_bytes(to->dtype);
    if (n > 0) memset(to->data, 0, n);
    return;
  }
  tn_tensor from = *to;
  from.data = (void *)(uintptr_t)&zero; /* only read */
  from.strides = strides;
  tn__walk(to, &from, copy_row(to->dtype));
}

bool tn__tensor_repeats(const tn_tensor *t) {
  bool repeated = false;
  for (int32_t i = 0; i < t->ndim; ++i) {
    if (t->shape[i] == 0) return false;
    repeated |= t->shape[i] > 1 && t->strides[i] == 0;
  }
  return repeated;
}
