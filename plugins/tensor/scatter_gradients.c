/* SPDX-License-Identifier: Apache-2.0
 * scatter_gradients.c: gradients of products, maxima and minima of scatter.h on
 * the CPU, in f64. A first pass finds a record for each element of the result;
 * a second one computes the gradients from it.
 */
#include "move.h"
#include "places_walk.h"
#include "scatter.h"
#include "tenon/kernel/kernel.h"

enum { LINE = 512 }; /* elements that are converted at a time */

/* Of an element of the result: the product of the factors that are not 0 and
 * the number of zeros, or the number of the operand that equals the result. */
typedef struct record {
  double product;
  int64_t number; /* of zeros, or of the operand */
} record;

enum { DATA = -1, NOTHING = -2 }; /* operands that are no slices */

typedef struct task {
  const tensor_scatter_gradient *g;
  record *records;
  tn_kernel_mode mode;
  tn_dtype dtype;
  int64_t bytes;
} task;

static int is_product(const task *t) {
  return t->g->s->op == TENSOR_SCATTER_MUL;
}

static int is_same(double a, double b) {
  return (a != a && b != b) || (a >= b && a <= b);
}

static void load_line(const task *t, const tn_tensor *from, int64_t first,
                      int64_t n, double *to) {
  tn_kernel_load_dense(
      to, &t->mode, (const char *)from->data + first * t->bytes, t->dtype, n);
}

/* Elements of `from` at the positions of some elements of a group. */
static void load_places(const task *t, const tn_tensor *from, const int64_t *at,
                        int64_t n, double *to) {
  char some[TENSOR_GROUP * 8];
  for (int64_t k = 0; k < n; ++k)
    memcpy(some + k * t->bytes, (const char *)from->data + at[k] * t->bytes,
           (size_t)t->bytes);
  tn_kernel_load_dense(to, &t->mode, some, t->dtype, n);
}

/* ------------------------------------------------------------------ records */

static void multiply_record(record *r, double factor) {
  if (factor >= 0 && factor <= 0)
    ++r->number;
  else
    r->product *= factor;
}

/* The records of elements [begin, end), from data alone. */
static int32_t begin_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  double data[LINE], out[LINE];
  for (int64_t i = begin; i < end; i += LINE) {
    const int64_t n = end - i < LINE ? end - i : LINE;
    load_line(t, t->g->data, i, n, data);
    if (!is_product(t)) load_line(t, t->g->s->whole, i, n, out);
    for (int64_t k = 0; k < n; ++k) {
      record *r = &t->records[i + k];
      *r = (record){1, 0};
      if (is_product(t))
        multiply_record(r, data[k]);
      else
        r->number = is_same(data[k], out[k]) ? DATA : NOTHING;
    }
  }
  return TN_OK;
}

/* Calls `use` for lines of at most TENSOR_GROUP elements. `number` is that of
 * the first element's slice, `next` the distance to that of the next element:
 * 0 in one slice. */
typedef struct line {
  const int64_t *at;
  int64_t first, n;
  int64_t number, next;
} line;

typedef void line_fn(const task *t, const line *l);

static void visit_lines(const task *t, const tensor_group *g, line_fn *use) {
  if (g->step == 1) {
    const line whole = {g->at, g->first, g->n, g->number, 1};
    use(t, &whole);
    return;
  }
  for (int64_t k = 0; k < g->n; ++k)
    for (int64_t j = 0; j < g->width; j += TENSOR_GROUP) {
      int64_t at[TENSOR_GROUP];
      const int64_t left = g->width - j;
      const line part = {at, g->first + k * g->step + j,
                         left < TENSOR_GROUP ? left : TENSOR_GROUP,
                         g->number + k, 0};
      for (int64_t i = 0; i < part.n; ++i) at[i] = g->at[k] + j + i;
      use(t, &part);
    }
}

static void record_line(const task *t, const line *l) {
  double update[TENSOR_GROUP], out;
  load_line(t, t->g->s->slices, l->first, l->n, update);
  for (int64_t k = 0; k < l->n; ++k) {
    record *r = &t->records[l->at[k]];
    if (is_product(t)) {
      multiply_record(r, update[k]);
    } else if (r->number == NOTHING) {
      load_places(t, t->g->s->whole, &l->at[k], 1, &out);
      if (is_same(update[k], out)) r->number = l->number + k * l->next;
    }
  }
}

static void record_group(void *arg, const tensor_group *g) {
  visit_lines((const task *)arg, g, record_line);
}

/* ---------------------------------------------------------------- gradients */

/* The gradient of an operand with a value and a number, from that of the
 * result. */
static double find_gradient(const task *t, const record *r, double gradient,
                            double value, int64_t number) {
  const int is_zero = value >= 0 && value <= 0;
  if (!is_product(t)) return r->number == number ? gradient : 0;
  if (r->number == 0) return gradient * (r->product / value);
  return r->number == 1 && is_zero ? gradient * r->product : 0;
}

static int32_t data_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  const tn_tensor *to = t->g->data_gradient;
  double data[LINE], gradient[LINE];
  for (int64_t i = begin; i < end; i += LINE) {
    const int64_t n = end - i < LINE ? end - i : LINE;
    load_line(t, t->g->data, i, n, data);
    load_line(t, t->g->gradient, i, n, gradient);
    for (int64_t k = 0; k < n; ++k)
      gradient[k] =
          find_gradient(t, &t->records[i + k], gradient[k], data[k], DATA);
    tn_kernel_store_dense((char *)to->data + i * t->bytes, t->dtype, gradient,
                          &t->mode, n);
  }
  return TN_OK;
}

static void update_line(const task *t, const line *l) {
  double update[TENSOR_GROUP], gradient[TENSOR_GROUP];
  load_line(t, t->g->s->slices, l->first, l->n, update);
  load_places(t, t->g->gradient, l->at, l->n, gradient);
  for (int64_t k = 0; k < l->n; ++k)
    gradient[k] = find_gradient(t, &t->records[l->at[k]], gradient[k],
                                update[k], l->number + k * l->next);
  tn_kernel_store_dense(
      (char *)t->g->slice_gradient->data + l->first * t->bytes, t->dtype,
      gradient, &t->mode, l->n);
}

static void update_group(void *arg, const tensor_group *g) {
  visit_lines((const task *)arg, g, update_line);
}

uint64_t tensor_scatter_backward_bytes(const tensor_scatter *s) {
  return (uint64_t)s->places.size * sizeof(record);
}

int32_t tensor_scatter_backward(const tensor_scatter_gradient *g) {
  const tensor_scatter *s = g->s;
  const tn_host *host = s->call->host;
  task t = {g,
            (record *)s->room,
            {TN_F64, tn_kernel_level(s->call)},
            s->whole->dtype,
            tn_dtype_bytes(s->whole->dtype)};
  tensor_walk walk = {s->call, &s->places, s->indices, record_group, &t};
  const int64_t n = s->places.size;
  int32_t code = TN_OK;
  if (n > 0)
    code = host->parallel_for(s->call, n, TN_KERNEL_GRAIN, begin_slice, &t);
  if (code == TN_OK) code = tensor_walk_in_order(&walk);
  if (code == TN_OK && g->data_gradient != NULL && n > 0)
    code = host->parallel_for(s->call, n, TN_KERNEL_GRAIN, data_slice, &t);
  walk.visit = update_group;
  return code == TN_OK && g->slice_gradient != NULL
             ? tensor_walk_in_any_order(&walk)
             : code;
}
