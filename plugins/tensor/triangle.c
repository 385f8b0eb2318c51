/* SPDX-License-Identifier: Apache-2.0
 * triangle.c: triangle.h on the CPU: each row has one kept part.
 */
#include "triangle.h"

#include <string.h>

#include "tenon/kernel/kernel.h"

typedef struct copy_args {
  const tensor_triangle *side;
  const tn_tensor *to, *from;
  const void *one;
  size_t bytes; /* of an element */
} copy_args;

/* A column number within a row. */
static int64_t clip_column(int64_t column, int64_t columns) {
  if (column < 0) return 0;
  return column < columns ? column : columns;
}

static void fill_elements(char *to, const void *element, size_t bytes,
                          int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    memcpy(to + (size_t)i * bytes, element, bytes);
}

static int32_t copy_rows(void *arg, int64_t begin, int64_t end) {
  const copy_args *t = (const copy_args *)arg;
  const tensor_triangle *side = t->side;
  const int64_t n = side->columns;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t on = row % side->rows + side->k;
    const int64_t first = side->upper ? clip_column(on, n) : 0;
    const int64_t last = side->upper ? n : clip_column(on + 1, n);
    const size_t at = (size_t)(row * n) * t->bytes;
    char *to = (char *)t->to->data + at;
    char *kept = to + (size_t)first * t->bytes;
    if (t->from == NULL)
      fill_elements(kept, t->one, t->bytes, last - first);
    else if (t->from->data != t->to->data)
      memcpy(kept, (const char *)t->from->data + at + (size_t)first * t->bytes,
             (size_t)(last - first) * t->bytes);
    memset(to, 0, (size_t)first * t->bytes);
    memset(to + (size_t)last * t->bytes, 0, (size_t)(n - last) * t->bytes);
  }
  return TN_OK;
}

int32_t tensor_copy_triangle(const tn_frame *call, const tensor_triangle *side,
                             const tn_tensor *to, const tn_tensor *from,
                             const void *one) {
  copy_args t = {side, to, from, one, (size_t)tn_dtype_bytes(to->dtype)};
  const int64_t size = tn_tensor_size(to);
  if (size == 0) return TN_OK;
  const int64_t grain = TN_KERNEL_GRAIN / side->columns;
  return call->host->parallel_for(call, size / side->columns,
                                  grain > 0 ? grain : 1, copy_rows, &t);
}
