/* SPDX-License-Identifier: Apache-2.0
 * reduce_far.c: gradients of products in lines with products that f64 may not
 * hold, on the CPU. The product of a line is kept as factor and power
 * (reduce_big.h).
 */
#include "reduce_big.h"
#include "reduce_loops.h"

enum { PART = 256 }; /* elements in one conversion */

/* ------------------------------------------------------------------- lines */

typedef struct work {
  const reduce_overflow_lines *overflow;
  reduce_view out_gradient, data, out; /* axes of lines last */
  tn_kernel_mode mode;
} work;

/* A part of a line: elements along the last axis. */
typedef struct part {
  tn_kernel_line data;
  tn_kernel_line out;
} part;

/* Returns the address of line number `line` in a tensor. */
static char *locate_line(const reduce_view *v, int64_t line) {
  int64_t at = 0;
  for (int32_t d = v->kept; d-- > 0; line /= v->shape[d])
    at += line % v->shape[d] * v->strides[d];
  return (char *)v->tensor.data + at * tn_dtype_bytes(v->tensor.dtype);
}

/* Moves `line` to elements [k, k + n) of the last axis, of row `row`. */
static void set_line(tn_kernel_line *line, const reduce_view *v, char *first,
                     int64_t row, int64_t k, int64_t n) {
  const int32_t last = v->tensor.ndim - 1;
  int64_t at = k * v->strides[last];
  for (int32_t d = last; d-- > v->kept; row /= v->shape[d])
    at += row % v->shape[d] * v->strides[d];
  *line = (tn_kernel_line){first + at * tn_dtype_bytes(v->tensor.dtype),
                           v->strides[last], n, v->tensor.dtype};
}

typedef void visit(const work *w, const part *p, void *arg);

static void visit_parts(const work *w, int64_t line, visit *body, void *arg) {
  const reduce_view *v = &w->data;
  char *from = locate_line(v, line), *to = locate_line(&w->out, line);
  int64_t rows = 1;
  if (v->kept == v->tensor.ndim) { /* a line is one element */
    body(
        w,
        &(part){{from, 1, 1, v->tensor.dtype}, {to, 1, 1, w->out.tensor.dtype}},
        arg);
    return;
  }
  const int64_t length = v->shape[v->tensor.ndim - 1];
  for (int32_t d = v->kept; d < v->tensor.ndim - 1; ++d) rows *= v->shape[d];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < length; k += PART) {
      const int64_t n = length - k < PART ? length - k : PART;
      part p;
      set_line(&p.data, v, from, row, k, n);
      set_line(&p.out, &w->out, to, row, k, n);
      body(w, &p, arg);
    }
}

enum { LANES = 8, BIAS = 1023 };

/* The biased exponent of an f64: 0 for 0 and denormal numbers, 2047 for
 * infinities and NaN. */
static inline int64_t read_exponent(double x) {
  return (int64_t)(tn_kernel_f64_bits(x) >> 52 & 0x7ff);
}

static inline double with_exponent(double x, int64_t exponent) {
  const uint64_t rest = tn_kernel_f64_bits(x) & ~(UINT64_C(0x7ff) << 52);
  return tn_kernel_f64_from_bits(rest | (uint64_t)exponent << 52);
}

static int has_only_normal(const double *x, int64_t n) {
  int special = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t e = read_exponent(x[i]);
    special |= (e == 0) | (e == 2047);
  }
  return !special;
}

/* Multiplies a part of plain elements: no product of their factors
 * overflows. */
static void multiply_normal(reduce_scaled *all, const double *x) {
  double factor[LANES];
  int64_t power[LANES];
  for (int j = 0; j < LANES; ++j) factor[j] = 1, power[j] = 0;
  for (int64_t i = 0; i < PART; i += LANES)
    for (int j = 0; j < LANES; ++j) {
      factor[j] *= with_exponent(x[i + j], BIAS);
      power[j] += read_exponent(x[i + j]) - BIAS;
    }
  for (int j = 0; j < LANES; ++j) {
    reduce_scaled_multiply(all, factor[j]);
    all->power += power[j];
  }
}

/* Computes the gradient of a product for each of n elements: `head` times the
 * product of all others. The line must pass has_only_normal. */
static void compute_normal_others(double *y, const double *x, int64_t n,
                                  double out_gradient,
                                  const reduce_scaled *all) {
  for (int64_t i = 0; i < n; ++i) {
    const double factor = all->factor / with_exponent(x[i], BIAS);
    const int64_t power = all->power - (read_exponent(x[i]) - BIAS);
    const int64_t low = power < -2000 ? -2000 : power;
    const int64_t q = low > 2000 ? 2000 : low, half = q / 2;
    y[i] = out_gradient * (factor * with_exponent(1, BIAS + half) *
                           with_exponent(1, BIAS + q - half));
  }
}

static void multiply_part(const work *w, const part *p, void *arg) {
  double x[PART];
  tn_kernel_load(x, &w->mode, &p->data);
  if (p->data.n == PART && has_only_normal(x, PART)) {
    multiply_normal(arg, x);
    return;
  }
  for (int64_t i = 0; i < p->data.n; ++i)
    if (x[i] == x[i] || !w->overflow->skips_nan)
      reduce_scaled_multiply(arg, x[i]);
}

typedef struct products {
  double out_gradient;
  reduce_scaled all;
} products;

static void compute_others(double *y, const double *x, int64_t n, int skips_nan,
                           const products *line) {
  for (int64_t i = 0; i < n; ++i) {
    const int is_none = skips_nan && x[i] != x[i];
    y[i] = is_none ? 0
                   : line->out_gradient *
                         reduce_scaled_remove_factor(line->all, x[i]);
  }
}

static void put_others(const work *w, const part *p, void *arg) {
  const products *line = (const products *)arg;
  const reduce_scaled *all = &line->all;
  const int is_plain = all->zeros + all->infinities + all->nans == 0;
  double x[PART], y[PART], old[PART];
  tn_kernel_load(x, &w->mode, &p->data);
  if (is_plain && has_only_normal(x, p->data.n))
    compute_normal_others(y, x, p->data.n, line->out_gradient, all);
  else
    compute_others(y, x, p->data.n, w->overflow->skips_nan, line);
  if (w->overflow->call->req[0] == TN_REQ_ADD) {
    tn_kernel_load(old, &w->mode, &p->out);
    for (int64_t i = 0; i < p->data.n; ++i) y[i] += old[i];
  }
  tn_kernel_store(&p->out, &w->mode, y);
}

static int32_t compute_far_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = (const work *)arg;
  for (int64_t line = begin; line < end; ++line) {
    products p = {.all = reduce_scaled_make_one()};
    if (w->overflow->rests[line] == w->overflow->rests[line]) continue;
    const tn_kernel_line out_gradient = {locate_line(&w->out_gradient, line), 1,
                                         1, w->out_gradient.tensor.dtype};
    tn_kernel_load(&p.out_gradient, &w->mode, &out_gradient);
    visit_parts(w, line, multiply_part, &p.all);
    visit_parts(w, line, put_others, &p);
  }
  return TN_OK;
}

int reduce_mark_overflow_lines(const reduce_overflow_lines *overflow) {
  int any = 0;
  for (int64_t i = 0; i < overflow->lines; ++i)
    any |= overflow->rests[i] != overflow->rests[i];
  for (int64_t i = 0; any && i < overflow->lines; ++i)
    if (overflow->rests[i] != overflow->rests[i]) overflow->zeros[i] = 2;
  return any;
}

int32_t reduce_run_overflow_lines(const reduce_overflow_lines *overflow) {
  const tn_frame *call = overflow->call;
  work w = {.overflow = overflow, .mode = {TN_F64, tn_kernel_level(call)}};
  const int64_t length = tn_tensor_size(overflow->data) / overflow->lines;
  const int64_t grain = TN_KERNEL_GRAIN / length;
  reduce_view_init(&w.out_gradient, overflow->out_gradient, overflow->axes);
  reduce_view_init(&w.data, overflow->data, overflow->axes);
  reduce_view_init(&w.out, &call->out[0], overflow->axes);
  return call->host->parallel_for(call, overflow->lines, grain > 0 ? grain : 1,
                                  compute_far_slice, &w);
}
