/* SPDX-License-Identifier: Apache-2.0
 * scatter_gradients.c: gradients of products, maxima and minima of scatter.h on
 * the CPU, in f64. A first pass finds a record for each element of the result;
 * a second one computes the gradients from it.
 */
#include "scatter.h"
#include "scatter_lines.h"

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
} task;

static int is_product(const task *t) {
  return t->g->s->op == TENSOR_SCATTER_MUL;
}

/* ------------------------------------------------------------------ records */

static void multiply_record(record *r, double factor) {
  if (tensor_is_zero(factor))
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
    tensor_load_line(t->g->data, i, n, data);
    if (!is_product(t)) tensor_load_line(t->g->s->whole, i, n, out);
    for (int64_t k = 0; k < n; ++k) {
      record *r = &t->records[i + k];
      *r = (record){1, 0};
      if (is_product(t))
        multiply_record(r, data[k]);
      else
        r->number = tensor_is_same(data[k], out[k]) ? DATA : NOTHING;
    }
  }
  return TN_OK;
}

static void record_line(const void *arg, const tensor_line *l) {
  const task *t = (const task *)arg;
  double update[TENSOR_GROUP], out;
  tensor_load_line(t->g->s->slices, l->first, l->n, update);
  for (int64_t k = 0; k < l->n; ++k) {
    record *r = &t->records[l->at[k]];
    if (is_product(t)) {
      multiply_record(r, update[k]);
    } else if (r->number == NOTHING) {
      tensor_load_places(t->g->s->whole, &l->at[k], 1, &out);
      if (tensor_is_same(update[k], out)) r->number = l->number + k * l->next;
    }
  }
}

static void record_group(void *arg, const tensor_group *g) {
  tensor_visit_lines(g, record_line, arg);
}

/* ---------------------------------------------------------------- gradients */

/* The gradient of an operand with a value and a number, from that of the
 * result. */
static double find_gradient(const task *t, const record *r, double gradient,
                            double value, int64_t number) {
  if (!is_product(t)) return r->number == number ? gradient : 0;
  if (r->number == 0) return gradient * (r->product / value);
  return r->number == 1 && tensor_is_zero(value) ? gradient * r->product : 0;
}

static int32_t data_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  double data[LINE], gradient[LINE];
  for (int64_t i = begin; i < end; i += LINE) {
    const int64_t n = end - i < LINE ? end - i : LINE;
    tensor_load_line(t->g->data, i, n, data);
    tensor_load_line(t->g->gradient, i, n, gradient);
    for (int64_t k = 0; k < n; ++k)
      gradient[k] =
          find_gradient(t, &t->records[i + k], gradient[k], data[k], DATA);
    tensor_store_line(t->g->data_gradient, i, n, gradient);
  }
  return TN_OK;
}

static void update_line(const void *arg, const tensor_line *l) {
  const task *t = (const task *)arg;
  double update[TENSOR_GROUP], gradient[TENSOR_GROUP];
  tensor_load_line(t->g->s->slices, l->first, l->n, update);
  tensor_load_places(t->g->gradient, l->at, l->n, gradient);
  for (int64_t k = 0; k < l->n; ++k)
    gradient[k] = find_gradient(t, &t->records[l->at[k]], gradient[k],
                                update[k], l->number + k * l->next);
  tensor_store_line(t->g->slice_gradient, l->first, l->n, gradient);
}

static void update_group(void *arg, const tensor_group *g) {
  tensor_visit_lines(g, update_line, arg);
}

uint64_t tensor_scatter_backward_bytes(const tensor_scatter *s) {
  return (uint64_t)s->places.size * sizeof(record);
}

int32_t tensor_scatter_backward(const tensor_scatter_gradient *g) {
  const tensor_scatter *s = g->s;
  const tn_host *host = s->call->host;
  task t = {g, (record *)s->room};
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
