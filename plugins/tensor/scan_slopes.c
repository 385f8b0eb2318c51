/* SPDX-License-Identifier: Apache-2.0
 * scan_slopes.c: the gradient of cumprod on the CPU, and that of the gradient.
 * With the product p before an element x and the gradient h of its result, the
 * gradient is p*s, where s is the sum of h and of x*s of the next element: a
 * pass from the beginning of a line finds p, and one from its end s.
 */
#include "scan.gen.h"
#include "scan.h"

enum { UNITS = 64 /* slices, each with a workspace */ };

/* ---------------------------------------------------------------- gradients */

typedef struct slope_args {
  scan_args scan;        /* of data, from the first element on */
  const tn_tensor *head; /* gradient of out */
  int64_t units;
  scan_number *products; /* n of each unit: those before each element */
} slope_args;

/* The products of the elements before each element of line i. */
static void write_products(const slope_args *s, int64_t i,
                           scan_number *products) {
  const scan_args *a = &s->scan;
  scan_number before = scan_find_none(a);
  scan_chunk in, out;
  for (int64_t at = 0; at < a->n; at += SCAN_CHUNK) {
    const int64_t n = scan_find_least(a->n - at, SCAN_CHUNK);
    const tn_kernel_line from = scan_find_part(a, a->from, i, at, n);
    tn_kernel_load(&in, &a->mode, &from);
    before = scan_elements(a, &in, n, before, &out);
    memcpy(products + at, &out, (size_t)n * sizeof *products);
  }
}

/* Elements [0, n) of a chunk become gradients: `rest` is the gradient of the
 * product that ends before element i, divided by it. */
#define SLOPES(name, type, field)                                              \
  static type name(const scan_chunk *head, const scan_number *products,        \
                   scan_chunk *x, int64_t n, type rest, int exclusive) {       \
    for (int64_t k = 0; k < n; ++k) {                                          \
      const type product = products[-k].field;                                 \
      const type after = rest, own = rest + head->field[k];                    \
      rest =                                                                   \
          exclusive ? head->field[k] + x->field[k] * rest : x->field[k] * own; \
      x->field[k] = product * (exclusive ? after : own);                       \
    }                                                                          \
    return rest;                                                               \
  }
SLOPES(slope_f64, double, f64)
SLOPES(slope_i64, uint64_t, i64)

/* Goes from the end of line i to its beginning. */
static void write_slopes(const slope_args *s, int64_t i,
                         const scan_number *products) {
  scan_args back = s->scan;
  scan_number rest = {.i64 = 0};
  scan_chunk head, x;
  back.reverse = !back.reverse;
  for (int64_t at = 0; at < back.n; at += SCAN_CHUNK) {
    const int64_t n = scan_find_least(back.n - at, SCAN_CHUNK);
    const scan_number *last = products + back.n - 1 - at;
    const tn_kernel_line heads = scan_find_part(&back, s->head, i, at, n);
    const tn_kernel_line data = scan_find_part(&back, back.from, i, at, n);
    const tn_kernel_line to = scan_find_part(&back, back.to, i, at, n);
    tn_kernel_load(&head, &back.mode, &heads);
    tn_kernel_load(&x, &back.mode, &data);
    if (back.mode.compute == TN_F64)
      rest.f64 = slope_f64(&head, last, &x, n, rest.f64, back.exclusive);
    else
      rest.i64 = slope_i64(&head, last, &x, n, rest.i64, back.exclusive);
    tn_kernel_store(&to, &back.mode, &x);
  }
}

static int32_t slope_slice(void *arg, int64_t begin, int64_t end) {
  const slope_args *s = (const slope_args *)arg;
  const int64_t lines = s->scan.outer * s->scan.inner;
  for (int64_t unit = begin; unit < end; ++unit) {
    scan_number *products = s->products + unit * s->scan.n;
    for (int64_t i = unit * lines / s->units; i < (unit + 1) * lines / s->units;
         ++i) {
      write_products(s, i, products);
      write_slopes(s, i, products);
    }
  }
  return TN_OK;
}

/* A unit has at least 4096 elements, if there are enough. */
static int64_t count_units(const scan_args *a) {
  const int64_t lines = a->outer * a->inner;
  return scan_find_least(scan_find_least(lines, UNITS),
                         lines * a->n / 4096 + 1);
}

int32_t tensor_cumprod_bytes(const tn_frame *call, uint64_t *bytes) {
  scan_args a;
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD)) return TN_OK;
  const int32_t code = scan_init_args(&a, call, NULL);
  if (code == TN_OK)
    *bytes = (uint64_t)(count_units(&a) * a.n) * sizeof(scan_number);
  return code;
}

/* in = [gradient of out, data, out] */
int32_t tensor_cumprod_backward(const tn_frame *call) {
  slope_args s = {.head = &call->in[TENSOR_CUMPROD_BACKWARD_GRAD_OUT]};
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code =
      scan_init_args(&s.scan, call, &call->in[TENSOR_CUMPROD_BACKWARD_IN_DATA]);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  s.scan.is_product = 1;
  s.units = count_units(&s.scan);
  s.products = (scan_number *)call->ws[0];
  return call->host->parallel_for(call, s.units, 1, slope_slice, &s);
}

int32_t tensor_cumprod_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  tn_frame own = *call;
  own.flags |= TN_CALL_BACKWARD;
  return tensor_cumprod_bytes(&own, bytes);
}

/* --------------------------------------------------------- second gradients */

/* A number, and its derivative along a direction of data. */
typedef struct scan_dual {
  double value, slope;
} scan_dual;

typedef struct dual_args {
  scan_args scan; /* of data */
  const tn_tensor *direction;
  const tn_tensor *head; /* gradient of out */
  int64_t units;
  scan_dual *products; /* n of each unit: those before each element */
} dual_args;

/* Loads a part of a line in the type of the computation. */
static void load_part(const scan_args *a, const tn_tensor *tensor,
                      const tn_kernel_line *like, scan_chunk *to) {
  const int64_t at = like->at - (char *)a->from->data;
  const tn_kernel_line line = {(char *)tensor->data + at, like->stride, like->n,
                               like->dtype};
  tn_kernel_load(to, &a->mode, &line);
}

static scan_dual multiply_dual(scan_dual a, double x, double direction) {
  return (scan_dual){a.value * x, a.slope * x + a.value * direction};
}

/* Finds the products before each element of line i, for as many as `products`
 * has; and writes the derivatives of the results to `to`. Both may be NULL. */
static void scan_duals(const dual_args *d, int64_t i, scan_dual *products,
                       const tn_tensor *to) {
  const scan_args *a = &d->scan;
  scan_dual all = {1, 0};
  scan_chunk x, v;
  for (int64_t at = 0; at < a->n; at += SCAN_CHUNK) {
    const int64_t n = scan_find_least(a->n - at, SCAN_CHUNK);
    const tn_kernel_line from = scan_find_part(a, a->from, i, at, n);
    tn_kernel_load(&x, &a->mode, &from);
    load_part(a, d->direction, &from, &v);
    for (int64_t k = 0; k < n; ++k) {
      const scan_dual before = all;
      if (products) products[at + k] = before;
      all = multiply_dual(all, x.f64[k], v.f64[k]);
      x.f64[k] = a->exclusive ? before.slope : all.slope;
    }
    if (!to) continue;
    const tn_kernel_line out = scan_find_part(a, to, i, at, n);
    tn_kernel_store(&out, &a->mode, &x);
  }
}

static int32_t tangent_slice(void *arg, int64_t begin, int64_t end) {
  const dual_args *d = (const dual_args *)arg;
  for (int64_t i = begin; i < end; ++i) scan_duals(d, i, NULL, d->scan.to);
  return TN_OK;
}

/* in = [data, direction] */
int32_t tensor_cumprod_tangent(const tn_frame *call) {
  dual_args d = {.direction = &call->in[TENSOR_CUMPROD_TANGENT_IN_DIRECTION]};
  const int32_t code =
      scan_init_args(&d.scan, call, &call->in[TENSOR_CUMPROD_TANGENT_IN_DATA]);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  return call->host->parallel_for(call, d.scan.outer * d.scan.inner,
                                  TN_KERNEL_GRAIN / 8 / d.scan.n + 1,
                                  tangent_slice, &d);
}

/* The pass of write_slopes, with derivatives. */
static void write_dual_slopes(const dual_args *d, int64_t i,
                              const scan_dual *products) {
  scan_args back = d->scan;
  scan_dual rest = {0, 0};
  scan_chunk x, v, head;
  back.reverse = !back.reverse;
  for (int64_t at = 0; at < back.n; at += SCAN_CHUNK) {
    const int64_t n = scan_find_least(back.n - at, SCAN_CHUNK);
    const tn_kernel_line from = scan_find_part(&back, back.from, i, at, n);
    tn_kernel_load(&x, &back.mode, &from);
    load_part(&back, d->direction, &from, &v);
    load_part(&back, d->head, &from, &head);
    for (int64_t k = 0; k < n; ++k) {
      const scan_dual product = products[back.n - 1 - at - k];
      const scan_dual own = {rest.value + head.f64[k], rest.slope};
      const scan_dual used = back.exclusive ? rest : own;
      rest = multiply_dual(used, x.f64[k], v.f64[k]);
      if (back.exclusive) rest.value += head.f64[k];
      x.f64[k] = product.slope * used.value + product.value * used.slope;
    }
    const tn_kernel_line to = scan_find_part(&back, back.to, i, at, n);
    tn_kernel_store(&to, &back.mode, &x);
  }
}

static int32_t dual_slice(void *arg, int64_t begin, int64_t end) {
  const dual_args *d = (const dual_args *)arg;
  const int64_t lines = d->scan.outer * d->scan.inner;
  for (int64_t unit = begin; unit < end; ++unit) {
    scan_dual *products = d->products + unit * d->scan.n;
    const int64_t last = (unit + 1) * lines / d->units;
    for (int64_t i = unit * lines / d->units; i < last; ++i) {
      scan_duals(d, i, products, NULL);
      write_dual_slopes(d, i, products);
    }
  }
  return TN_OK;
}

int32_t tensor_cumprod_second_bytes(const tn_frame *call, uint64_t *bytes) {
  scan_args a;
  *bytes = 0;
  const int32_t code = scan_init_args(&a, call, NULL);
  if (code == TN_OK)
    *bytes = (uint64_t)(count_units(&a) * a.n) * sizeof(scan_dual);
  return code;
}

/* in = [gradient of out, data, direction] */
int32_t tensor_cumprod_second(const tn_frame *call) {
  dual_args d = {.direction = &call->in[TENSOR_CUMPROD_SECOND_IN_DIRECTION],
                 .head = &call->in[TENSOR_CUMPROD_SECOND_IN_OUT_HEAD]};
  const int32_t code =
      scan_init_args(&d.scan, call, &call->in[TENSOR_CUMPROD_SECOND_IN_DATA]);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  d.units = count_units(&d.scan);
  d.products = (scan_dual *)call->ws[0];
  return call->host->parallel_for(call, d.units, 1, dual_slice, &d);
}
