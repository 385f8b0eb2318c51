/* SPDX-License-Identifier: Apache-2.0
 * scatter_second.c: gradients of the gradients of products, maxima and minima
 * of scatter.h on the CPU, in f64. The passes are those of
 * scatter_gradients.c.
 */
#include "scatter.h"
#include "scatter_lines.h"

enum { LINE = 512 }; /* elements that are converted at a time */

/* Of an element of the result. An operand x has a weight c, which is the
 * gradient of its gradient. Of a product: the product of the factors that are
 * not 0, the number of zeros, the sum of c / x of the former, and the sum of c
 * of the latter. Otherwise `number` is 1 if the operand that equals the result
 * was found, and `shares` is its weight. */
typedef struct record {
  double product;
  int64_t number;
  double shares;
  double zero_weights;
} record;

typedef struct task {
  const tensor_scatter_second *g;
  record *records;
} task;

static int is_product(const task *t) {
  return t->g->s->op == TENSOR_SCATTER_MUL;
}

/* ------------------------------------------------------------------ records */

static void add_factor(record *r, double x, double weight) {
  if (tensor_is_zero(x)) {
    ++r->number;
    r->zero_weights += weight;
  } else {
    r->product *= x;
    r->shares += weight / x;
  }
}

/* The first operand that equals the result counts. */
static void add_candidate(record *r, double x, double out, double weight) {
  if (r->number > 0 || !tensor_is_same(x, out)) return;
  r->number = 1;
  r->shares = weight;
}

static int32_t begin_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  double data[LINE], weight[LINE], out[LINE];
  for (int64_t i = begin; i < end; i += LINE) {
    const int64_t n = end - i < LINE ? end - i : LINE;
    tensor_load_line(t->g->data, i, n, data);
    tensor_load_line(t->g->data_weight, i, n, weight);
    tensor_load_line(t->g->s->whole, i, n, out);
    for (int64_t k = 0; k < n; ++k) {
      record *r = &t->records[i + k];
      *r = (record){1, 0, 0, 0};
      if (is_product(t))
        add_factor(r, data[k], weight[k]);
      else
        add_candidate(r, data[k], out[k], weight[k]);
    }
  }
  return TN_OK;
}

static void record_line(const void *arg, const tensor_line *l) {
  const task *t = (const task *)arg;
  double update[TENSOR_GROUP], weight[TENSOR_GROUP], out[TENSOR_GROUP];
  tensor_load_line(t->g->s->slices, l->first, l->n, update);
  tensor_load_line(t->g->slice_weight, l->first, l->n, weight);
  tensor_load_places(t->g->s->whole, l->at, l->n, out);
  for (int64_t k = 0; k < l->n; ++k) {
    record *r = &t->records[l->at[k]];
    if (is_product(t))
      add_factor(r, update[k], weight[k]);
    else
      add_candidate(r, update[k], out[k], weight[k]);
  }
}

static void record_group(void *arg, const tensor_group *g) {
  tensor_visit_lines(g, record_line, arg);
}

/* ---------------------------------------------------------------- gradients */

/* By the gradient of the result: the weights of the operands, times the other
 * factors. */
static double find_head(const task *t, const record *r) {
  if (!is_product(t)) return r->shares;
  if (r->number == 0) return r->product * r->shares;
  return r->number == 1 ? r->product * r->zero_weights : 0;
}

/* By a factor: the weights of the other factors, times the product of all
 * factors but these two. Maxima and minima have no such term. */
static double find_operand(const task *t, const record *r, double x,
                           double weight) {
  const int is_zero = tensor_is_zero(x);
  if (!is_product(t)) return 0;
  if (r->number == 0) return r->product / x * (r->shares - weight / x);
  if (r->number == 1)
    return is_zero ? r->product * r->shares : r->product / x * r->zero_weights;
  return r->number == 2 && is_zero ? r->product * (r->zero_weights - weight)
                                   : 0;
}

static int32_t data_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  double data[LINE], weight[LINE], head[LINE], result[LINE];
  for (int64_t i = begin; i < end; i += LINE) {
    const int64_t n = end - i < LINE ? end - i : LINE;
    for (int64_t k = 0; k < n; ++k)
      result[k] = find_head(t, &t->records[i + k]);
    if (t->g->head_gradient != NULL)
      tensor_store_line(t->g->head_gradient, i, n, result);
    if (t->g->data_gradient == NULL) continue;
    tensor_load_line(t->g->data, i, n, data);
    tensor_load_line(t->g->data_weight, i, n, weight);
    tensor_load_line(t->g->head, i, n, head);
    for (int64_t k = 0; k < n; ++k)
      result[k] =
          head[k] * find_operand(t, &t->records[i + k], data[k], weight[k]);
    tensor_store_line(t->g->data_gradient, i, n, result);
  }
  return TN_OK;
}

static void update_line(const void *arg, const tensor_line *l) {
  const task *t = (const task *)arg;
  double update[TENSOR_GROUP], weight[TENSOR_GROUP], head[TENSOR_GROUP];
  tensor_load_line(t->g->s->slices, l->first, l->n, update);
  tensor_load_line(t->g->slice_weight, l->first, l->n, weight);
  tensor_load_places(t->g->head, l->at, l->n, head);
  for (int64_t k = 0; k < l->n; ++k)
    head[k] *= find_operand(t, &t->records[l->at[k]], update[k], weight[k]);
  tensor_store_line(t->g->slice_gradient, l->first, l->n, head);
}

static void update_group(void *arg, const tensor_group *g) {
  tensor_visit_lines(g, update_line, arg);
}

uint64_t tensor_scatter_second_bytes(const tensor_scatter *s) {
  return (uint64_t)s->places.size * sizeof(record);
}

int32_t tensor_scatter_second_backward(const tensor_scatter_second *g) {
  const tensor_scatter *s = g->s;
  const tn_host *host = s->call->host;
  task t = {g, (record *)s->room};
  tensor_walk walk = {s->call, &s->places, s->indices, record_group, &t};
  const int64_t n = s->places.size;
  int32_t code = TN_OK;
  if (n > 0)
    code = host->parallel_for(s->call, n, TN_KERNEL_GRAIN, begin_slice, &t);
  if (code == TN_OK) code = tensor_walk_in_order(&walk);
  if (code == TN_OK && n > 0)
    code = host->parallel_for(s->call, n, TN_KERNEL_GRAIN, data_slice, &t);
  walk.visit = update_group;
  return code == TN_OK && g->slice_gradient != NULL
             ? tensor_walk_in_any_order(&walk)
             : code;
}
