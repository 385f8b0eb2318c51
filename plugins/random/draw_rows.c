/* SPDX-License-Identifier: Apache-2.0
 * draw_rows.c: draw_rows.h on the CPU: element after element in f64, parts of a
 * call on all workers. The first trials of gamma numbers and large counts of
 * one row are vectorised; the few elements that need another continue alone.
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
#include "draw_trials.h"

/* Elements of a part, and parts of the least slice; elements of a row from
 * which on their first trials are vectorised. */
enum { PART = DRAW_AT_ONCE, LEAST_PARTS = 4, MANY = 16 };

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
  int64_t columns; /* elements with the same parameters */
  uint32_t level;
} drawing;

/* Elements of one row: n from number `first` on. */
typedef struct row_part {
  int64_t first, n;
  double a, b; /* parameters */
} row_part;

static draw_source find_source(const drawing *d, int64_t i) {
  const tn_random *random = d->call->run->random[0];
  return (draw_source){random->key, random->offset + (uint64_t)i};
}

static void draw_gammas(const drawing *d, const row_part *p, double *made) {
  draw_trials t;
  const draw_source source = find_source(d, p->first);
  draw_trials_gamma(&t, &source, p->n, p->a, d->level);
  for (int64_t i = 0; i < p->n; ++i) {
    const draw_source own = find_source(d, p->first + i);
    made[i] =
        p->b * (t.is_taken[i] ? t.made[i] : draw_gamma_from(&own, p->a, 1));
  }
}

static void draw_counts(const drawing *d, const row_part *p, double *made) {
  draw_trials t;
  const draw_source source = find_source(d, p->first);
  const draw_count_rule rule = draw_rule_of(p->a);
  draw_trials_count(&t, &source, p->n, &rule, d->level);
  for (int64_t i = 0; i < p->n; ++i) {
    const draw_source own = find_source(d, p->first + i);
    made[i] = t.is_taken[i] ? t.made[i] : draw_large_count(&own, &rule, 1);
  }
}

static void draw_row_part(const drawing *d, const row_part *p, double *made) {
  const draw_row_kind kind = d->params->kind;
  const int is_valid = draw_is_valid(kind, p->a, p->b);
  if (is_valid && kind == DRAW_ROW_GAMMA && d->columns >= MANY) {
    draw_gammas(d, p, made);
    return;
  }
  if (is_valid && kind == DRAW_ROW_POISSON && p->a >= DRAW_LARGE_MEAN &&
      d->columns >= MANY) {
    draw_counts(d, p, made);
    return;
  }
  for (int64_t i = 0; i < p->n; ++i) {
    const draw_source source = find_source(d, p->first + i);
    made[i] = draw_one(&source, kind, p->a, p->b, d->call->out[0].dtype);
  }
}

static void draw_part(const drawing *d, int64_t first, int64_t n) {
  static const tn_kernel_mode mode = {TN_F64, 0};
  const tn_tensor *out = &d->call->out[0];
  const int64_t columns = d->columns;
  double made[PART];
  for (int64_t i = 0; i < n;) {
    row_part p = {.first = first + i};
    const int64_t left = columns - p.first % columns;
    p.n = left < n - i ? left : n - i;
    read_row(d->call, d->params, p.first / columns, &p.a, &p.b);
    draw_row_part(d, &p, made + i);
    i += p.n;
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
  const int64_t size = tn_tensor_size(&call->out[0]);
  drawing d = {call, params, params->of_inputs ? params->columns : size,
               tn_kernel_level(call)};
  const int32_t code = check_rows(call, params);
  if (code != TN_OK || size == 0) return code;
  return call->host->parallel_for(call, (size + PART - 1) / PART, LEAST_PARTS,
                                  draw_slice, &d);
}
