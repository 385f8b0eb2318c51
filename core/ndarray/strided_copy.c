/* SPDX-License-Identifier: Apache-2.0
 * strided_copy.c: copies and zeros of tensors with any strides, and the check
 * for repeated elements. Only the size of an element matters here, not its
 * dtype.
 */
#include <string.h>

#include "strided_walk.h"

enum { SHORT_BYTES = 1 << 14 }; /* so few dense bytes need no walk */

/* memcpy of a constant size is one load and one store for any alignment:
 * callers' memory need not be aligned for its type. */
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
  tn__tensor_copy_shared(NULL, to, from);
}

void tn__tensor_copy_shared(tn__engine *engine, const tn_tensor *to,
                            const tn_tensor *from) {
  if (to->data == from->data) return; /* identical: nothing changes */
  const size_t bytes = tn__dense_bytes(to);
  if (bytes == 0) return;
  if (tn_dtype_is_packed(to->dtype) ||
      (bytes <= SHORT_BYTES && tn_tensor_is_contiguous(to) &&
       tn_tensor_is_contiguous(from)))
    memcpy(to->data, from->data, bytes);
  else
    tn__walk_rows_shared(engine, to, from, copy_row(to->dtype), NULL);
}

/* All zero bits are zero in every element type. Copies from one such element,
 * with every stride 0. */
void tn__tensor_zero(const tn_tensor *to) {
  static const uint64_t zero = 0;
  int64_t strides[TN_MAX_NDIM] = {0};
  if (tn_tensor_is_contiguous(to)) {
    const size_t n = tn__dense_bytes(to);
    if (n > 0) memset(to->data, 0, n);
    return;
  }
  tn_tensor from = *to;
  from.data = (void *)(uintptr_t)&zero; /* only read */
  from.strides = strides;
  tn__walk_rows(to, &from, copy_row(to->dtype), NULL);
}

bool tn__tensor_has_repeats(const tn_tensor *t) {
  bool repeated = false;
  for (int32_t i = 0; i < t->ndim; ++i) {
    if (t->shape[i] == 0) return false;
    repeated |= t->shape[i] > 1 && t->strides[i] == 0;
  }
  return repeated;
}
