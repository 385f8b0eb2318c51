/* SPDX-License-Identifier: Apache-2.0
 * draw_rows.c: draw_rows.h on the CPU: element after element in f64, parts of a
 * call on all workers.
 */
#include "draw_rows.h"

#include <math.h>

#include "numbers.h"
#include "tenon/kernel/philox.h"

/* The place of an element in the stream of the call. */
typedef struct draw_source {
  uint64_t key, counter;
} draw_source;

#define DRAW_ONE static inline

DRAW_ONE tn_kernel_bits draw_block(const draw_source *source, uint32_t sub) {
  return tn_kernel_philox(source->key, source->counter, sub);
}

#include "draw_one.h"

/* Elements of a part, and parts of the least slice. */
enum { PART = 256, LEAST_PARTS = 4 };

/* The parameters of a row. */
static void read_row(const tn_frame *call, const draw_rows_params *p,
                     int64_t row, double *a, double *b) {
  *a = p->of_inputs ? read_number(&call->in[0], row) : p->a;
  *b = !p->of_inputs    ? p->b
       : call->n_in > 1 ? read_number(&call->in[1], row)
                        : 0;
}

/* One call. */
typedef struct drawing {
  const tn_frame *call;
  const draw_rows_params *params;
} drawing;

static void draw_part(const drawing *d, int64_t first, int64_t n) {
  static const tn_kernel_mode mode = {TN_F64, 0};
  const tn_tensor *out = &d->call->out[0];
  const tn_random *random = d->call->run->random[0];
  double made[PART];
  for (int64_t i = 0; i < n; ++i) {
    const draw_source source = {random->key,
                                random->offset + (uint64_t)(first + i)};
    double a, b;
    read_row(d->call, d->params, (first + i) / d->params->columns, &a, &b);
    made[i] = draw_one(&source, d->params->kind, a, b, out->dtype);
  }
  tn_kernel_store_dense((char *)out->data + first * tn_dtype_bytes(out->dtype),
                        out->dtype, made, &mode, n);
}

static int32_t draw_slice(void *arg, int64_t begin, int64_t end) {
  const drawing *d = (const drawing *)arg;
  const int64_t size = tn_tensor_size(&d->call->out[0]);
  for (int64_t i = begin * PART; i < size && i < end * PART; i += PART)
    draw_part(d, i, size - i < PART ? size - i : PART);
  return TN_OK;
}

static int32_t check_rows(const tn_frame *call, const draw_rows_params *p) {
  const int64_t rows = p->of_inputs ? tn_tensor_size(&call->in[0]) : 1;
  for (int64_t row = 0; row < rows; ++row) {
    double a, b;
    read_row(call, p, row, &a, &b);
    if (draw_is_valid(p->kind, a, b)) continue;
    if (call->n_in == 1)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "row %lld has the parameter %g, for which there is no "
                     "such distribution; its manual page has the range",
                     (long long)row, a);
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "row %lld has the parameters %g and %g, for which there is "
                   "no such distribution; its manual page has their ranges",
                   (long long)row, a, b);
  }
  return TN_OK;
}

int32_t draw_rows(const tn_frame *call, const draw_rows_params *params) {
  drawing d = {call, params};
  const int64_t size = tn_tensor_size(&call->out[0]);
  const int32_t code = check_rows(call, params);
  if (code != TN_OK || size == 0) return code;
  return call->host->parallel_for(call, (size + PART - 1) / PART, LEAST_PARTS,
                                  draw_slice, &d);
}
