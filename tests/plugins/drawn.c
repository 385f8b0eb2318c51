/* SPDX-License-Identifier: Apache-2.0
 * drawn.c: see drawn.h.
 */
#include "drawn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dice.h"

enum { TRIES = 40, MOST_WORK = 60000, MOST_LENGTH = 200 };

struct drawn_op {
  const char *name;
  const char *params;
  uint32_t which;
  bool (*fit)(drawn *c); /* inputs, and shapes of outputs */
  void (*compute)(drawn *c);
  number (*one)(number a);
  number (*two)(number a, number b);
};

static int64_t most_elements;

/* ------------------------------------------------------------------ shapes */

static void pick(drawn *c, size_t n) {
  for (c->n_in = 0; c->n_in < n; ++c->n_in) c->in[c->n_in] = live_pick();
}

static bool gives(drawn *c, part shape) {
  c->out[c->n_out++] = shape;
  return part_size(&shape) <= most_elements;
}

static bool gives_alike(drawn *c) {
  return gives(c, part_shaped(c->in[0].ndim, c->in[0].shape));
}

static bool fit_one(drawn *c) {
  pick(c, 1);
  return gives_alike(c);
}

static bool fit_two(drawn *c) {
  pick(c, 2);
  if (dice_once_in(4)) c->in[1] = c->in[0];
  return part_alike(&c->in[0], &c->in[1]) && gives_alike(c);
}

/* Dimension k from the last; there are enough of 1. */
static int64_t size_at(const part *p, int32_t k) {
  return k < p->ndim ? p->shape[p->ndim - 1 - k] : 1;
}

static bool fit_broadcast(drawn *c) {
  int64_t shape[MOST_DIMS];
  pick(c, 2);
  const part *a = &c->in[0], *b = &c->in[1];
  const int32_t ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int32_t k = 0; k < ndim; ++k) {
    const int64_t x = size_at(a, k), y = size_at(b, k);
    if (x != y && x != 1 && y != 1) return false;
    shape[ndim - 1 - k] = x == 1 ? y : x;
  }
  return gives(c, part_shaped(ndim, shape));
}

static bool fit_total(drawn *c) {
  pick(c, 1);
  return gives(c, part_shaped(0, NULL));
}

static bool fit_rows_total(drawn *c) {
  pick(c, 1);
  const part *a = &c->in[0];
  return a->ndim > 0 && gives(c, part_shaped(a->ndim - 1, a->shape + 1));
}

static bool fit_dot(drawn *c) {
  pick(c, 2);
  const part *a = &c->in[0], *b = &c->in[1];
  if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != b->shape[0]) return false;
  if (part_size(a) * b->shape[1] > MOST_WORK) return false;
  return gives(c, part_shaped(2, (int64_t[]){a->shape[0], b->shape[1]}));
}

static bool fit_join(drawn *c) {
  pick(c, 2 + dice_below(2));
  part out = part_shaped(c->in[0].ndim, c->in[0].shape);
  if (out.ndim == 0) return false;
  for (size_t i = 1; i < c->n_in; ++i) {
    part like = c->in[i];
    out.shape[0] += like.shape[0];
    like.shape[0] = c->in[0].shape[0];
    if (!part_alike(&like, &c->in[0])) return false;
  }
  return out.shape[0] <= MOST_LENGTH && gives(c, out);
}

static bool fit_halves(drawn *c) {
  pick(c, 1);
  part half = part_shaped(c->in[0].ndim, c->in[0].shape);
  if (half.ndim == 0 || half.shape[0] == 0 || half.shape[0] % 2) return false;
  half.shape[0] /= 2;
  return gives(c, half) && gives(c, half);
}

static bool fit_many(drawn *c) {
  pick(c, 1 + dice_below(MOST_IN));
  for (size_t i = 1; i < c->n_in; ++i) {
    if (dice_once_in(2)) c->in[i] = c->in[0];
    if (!part_alike(&c->in[i], &c->in[0])) return false;
  }
  return gives_alike(c);
}

static part transposed(const part *of) {
  part t = *of;
  for (int32_t i = 0; i < of->ndim; ++i) {
    t.shape[i] = of->shape[of->ndim - 1 - i];
    t.strides[i] = of->strides[of->ndim - 1 - i];
  }
  return t;
}

static bool fit_transpose(drawn *c) {
  pick(c, 1);
  const part t = transposed(&c->in[0]);
  return gives(c, part_shaped(t.ndim, t.shape));
}

/* A weight, its gradient, and a state, which may not alias an input. */
static bool fit_update(drawn *c) {
  pick(c, 3);
  const part *state = &c->in[2];
  return part_alike(&c->in[0], &c->in[1]) && part_alike(&c->in[0], state) &&
         !part_repeats(state) && state->block != c->in[0].block &&
         state->block != c->in[1].block && gives_alike(c);
}

static bool fit_lookup(drawn *c) {
  pick(c, 2);
  const part *index = &c->in[0], *rows = &c->in[1];
  if (rows->ndim != 2 || part_size(rows) == 0) return false;
  if (index->ndim >= MOST_DIMS) return false;
  part out = part_shaped(index->ndim, index->shape);
  out.shape[out.ndim++] = rows->shape[1];
  (void)snprintf(c->params, sizeof c->params, "input_dim=%lld output_dim=%lld",
                 (long long)rows->shape[0], (long long)rows->shape[1]);
  return gives(c, part_shaped(out.ndim, out.shape));
}

/* ----------------------------------------------------------------- results */

static void compute_one(drawn *c) {
  const number *a = part_read(&c->in[0]);
  for (int64_t i = 0; i < part_size(&c->out[0]); ++i)
    c->results[0][i] = c->op->one(a[i]);
}

/* Repeated to a larger shape. */
static number *read_as(const part *p, const part *shape) {
  part wide = *p;
  wide.ndim = shape->ndim;
  for (int32_t k = 0; k < shape->ndim; ++k) {
    const int32_t to = shape->ndim - 1 - k, from = p->ndim - 1 - k;
    wide.shape[to] = shape->shape[to];
    wide.strides[to] =
        size_at(p, k) == shape->shape[to] && from >= 0 ? p->strides[from] : 0;
  }
  return part_read(&wide);
}

static void compute_two(drawn *c) {
  const number *a = read_as(&c->in[0], &c->out[0]);
  const number *b = read_as(&c->in[1], &c->out[0]);
  for (int64_t i = 0; i < part_size(&c->out[0]); ++i)
    c->results[0][i] = c->op->two(a[i], b[i]);
}

/* Of all elements, or of all rows. */
static void compute_sums(drawn *c) {
  const int64_t n = part_size(&c->out[0]);
  const int64_t rows =
      c->out[0].ndim == 0 ? part_size(&c->in[0]) : c->in[0].shape[0];
  const number *a = part_read(&c->in[0]);
  for (int64_t i = 0; i < n; ++i) {
    number sum = number_constant(0);
    for (int64_t k = 0; k < rows; ++k) sum = number_sum(sum, a[k * n + i]);
    c->results[0][i] = sum;
  }
}

static void compute_dot(drawn *c) {
  const number *a = part_read(&c->in[0]), *b = part_read(&c->in[1]);
  const int64_t inner = c->in[0].shape[1], n = c->in[1].shape[1];
  for (int64_t i = 0; i < part_size(&c->out[0]); ++i) {
    number sum = number_constant(0);
    for (int64_t k = 0; k < inner; ++k)
      sum = number_sum(sum,
                       number_product(a[i / n * inner + k], b[k * n + i % n]));
    c->results[0][i] = sum;
  }
}

static void compute_join(drawn *c) {
  number *to = c->results[0];
  for (size_t i = 0; i < c->n_in; ++i) {
    const number *a = part_read(&c->in[i]);
    for (int64_t k = 0; k < part_size(&c->in[i]); ++k)
      *to++ = number_same(a[k]);
  }
}

static void compute_halves(drawn *c) {
  const number *a = part_read(&c->in[0]);
  for (size_t i = 0; i < 2; ++i)
    for (int64_t k = 0; k < part_size(&c->out[i]); ++k)
      c->results[i][k] = number_same(*a++);
}

static void compute_many(drawn *c) {
  const int64_t n = part_size(&c->out[0]);
  for (int64_t k = 0; k < n; ++k) c->results[0][k] = number_constant(0);
  for (size_t i = 0; i < c->n_in; ++i) {
    const number *a = part_read(&c->in[i]);
    for (int64_t k = 0; k < n; ++k)
      c->results[0][k] = number_sum(c->results[0][k], a[k]);
  }
}

static void compute_transpose(drawn *c) {
  const part t = transposed(&c->in[0]);
  const number *a = part_read(&t);
  for (int64_t i = 0; i < part_size(&t); ++i)
    c->results[0][i] = number_same(a[i]);
}

/* With a momentum of 1/2: state = state/2 - lr*gradient; weight += state. */
static void compute_update(drawn *c) {
  const int64_t n = part_size(&c->out[0]);
  const number *weight = part_read(&c->in[0]), *slope = part_read(&c->in[1]);
  const number half = number_constant(0.5), lr = number_constant(c->lr);
  c->state = part_read(&c->in[2]);
  for (int64_t i = 0; i < n; ++i) {
    c->state[i] = number_difference(number_product(half, c->state[i]),
                                    number_product(lr, slope[i]));
    c->results[0][i] = number_sum(weight[i], c->state[i]);
  }
}

static void compute_lookup(drawn *c) {
  const number *index = part_read(&c->in[0]), *rows = part_read(&c->in[1]);
  const int64_t n_rows = c->in[1].shape[0], n = c->in[1].shape[1];
  for (int64_t i = 0; i < part_size(&c->in[0]); ++i) {
    const double at = number_value(index[i]);
    c->unknown |= isnan(at);
    if (!(at > -1 && at < (double)n_rows)) {
      c->fails = true;
      continue;
    }
    for (int64_t k = 0; k < n; ++k)
      c->results[0][i * n + k] = rows[(int64_t)at * n + k];
  }
}

/* --------------------------------------------------------------- operators */

static number hidden(number a) {
  return number_fixed(a);
}

static const drawn_op ops[] = {
    {"elemwise.sin", "", DRAWN_SMOOTH, fit_one, compute_one, number_sine, 0},
    {"elemwise.square", "", DRAWN_SMOOTH, fit_one, compute_one, number_square,
     0},
    {"elemwise.negative", "", DRAWN_SMOOTH, fit_one, compute_one,
     number_negative, 0},
    {"elemwise.copy", "", DRAWN_SMOOTH, fit_one, compute_one, number_same, 0},
    {"elemwise.stop_gradient", "", DRAWN_SMOOTH, fit_one, compute_one, hidden,
     0},
    {"elemwise.add", "", DRAWN_SMOOTH, fit_two, compute_two, 0, number_sum},
    {"elemwise.mul", "", DRAWN_SMOOTH, fit_two, compute_two, 0, number_product},
    {"elemwise.sub", "", DRAWN_SMOOTH, fit_two, compute_two, 0,
     number_difference},
    {"elemwise.broadcast_add", "", DRAWN_SMOOTH, fit_broadcast, compute_two, 0,
     number_sum},
    {"elemwise.broadcast_mul", "", DRAWN_SMOOTH, fit_broadcast, compute_two, 0,
     number_product},
    {"tensor.sum", "", DRAWN_SMOOTH, fit_total, compute_sums, 0, 0},
    {"tensor.sum", "axis=[0]", DRAWN_SMOOTH, fit_rows_total, compute_sums, 0,
     0},
    {"tensor.dot", "", DRAWN_SMOOTH, fit_dot, compute_dot, 0, 0},
    {"tensor.concat", "dim=0", DRAWN_SMOOTH, fit_join, compute_join, 0, 0},
    {"tensor.split", "num_outputs=2 axis=0", DRAWN_SMOOTH, fit_halves,
     compute_halves, 0, 0},
    {"tensor.add_n", "", DRAWN_SMOOTH, fit_many, compute_many, 0, 0},
    {"tensor.transpose", "", DRAWN_SMOOTH, fit_transpose, compute_transpose, 0,
     0},
    {"optim.sgd_mom_update", "lr=0.5 momentum=0.5", DRAWN_STATEFUL, fit_update,
     compute_update, 0, 0},
    {"nn.embedding", "", DRAWN_FAILING, fit_lookup, compute_lookup, 0, 0}};

enum { N_OPS = sizeof ops / sizeof *ops };

static tn_operator *handles[N_OPS];
static uint32_t n_ops; /* that are drawn: the first */

void drawn_open(tn_runtime *rt, uint32_t which, int64_t most) {
  most_elements = most;
  for (n_ops = 0; n_ops < N_OPS && ops[n_ops].which & which; ++n_ops)
    GOES(tn_operator_get(rt, ops[n_ops].name, &handles[n_ops]));
}

bool drawn_fit(drawn *c) {
  const uint32_t k = dice_below(n_ops);
  *c = (drawn){.op = &ops[k], .handle = handles[k], .lr = 0.5};
  (void)snprintf(c->params, sizeof c->params, "%s", c->op->params);
  for (int i = 0; i < TRIES; ++i) {
    c->n_out = 0;
    if (c->op->fit(c)) return true;
  }
  return false;
}

/* Whether an earlier output or a state uses the block. */
static bool is_taken(const drawn *c, size_t n, const block *b) {
  if (drawn_has_state(c) && c->in[c->n_in - 1].block == b) return true;
  for (size_t i = 0; i < n; ++i)
    if (c->out[i].block == b) return true;
  return false;
}

/* `fit`: it can be written. */
static void place(drawn *c, size_t i, bool fit) {
  for (int t = 0; t < TRIES; ++t) {
    const part p = live_pick();
    const bool alike = part_alike(&p, &c->out[i]), repeats = part_repeats(&p);
    if ((alike && !repeats) != fit || is_taken(c, i, p.block)) continue;
    c->misshapen |= !alike;
    c->repeating |= repeats;
    c->out[i] = p;
    if (dice_once_in(fit ? 3 : 2)) c->req[i] = TN_REQ_ADD;
    return;
  }
}

void drawn_place(drawn *c, uint32_t rare) {
  for (size_t i = 0; i < c->n_out; ++i) {
    c->req[i] = dice_once_in(10) ? TN_REQ_NULL : TN_REQ_WRITE;
    if (c->req[i] != TN_REQ_NULL && dice_once_in(rare))
      place(c, i, !dice_once_in(20));
  }
}

bool drawn_is_misfit(const drawn *c) {
  return c->misshapen || c->repeating;
}

bool drawn_refuses(const drawn *c, tn_code rc) {
  if (c->misshapen && rc == TN_SHAPE)
    return strstr(tn_error_text(), "output") != NULL;
  return c->repeating && rc == TN_INVALID &&
         strstr(tn_error_text(), "repeats elements");
}

void drawn_compute(drawn *c) {
  c->fails = c->unknown = false;
  for (size_t i = 0; i < c->n_out; ++i) c->results[i] = part_room(&c->out[i]);
  c->op->compute(c);
}

number *drawn_value(const drawn *c, size_t i) {
  const int64_t n = part_size(&c->out[i]);
  const number *old = c->req[i] == TN_REQ_ADD ? part_read(&c->out[i]) : NULL;
  number *values = part_room(&c->out[i]);
  for (int64_t k = 0; k < n; ++k)
    values[k] = old ? number_sum(old[k], c->results[i][k]) : c->results[i][k];
  return values;
}

const char *drawn_name(const drawn *c) {
  return c->op->name;
}

const char *drawn_text(const drawn *c) {
  enum { ROOM = 1000 };
  char *text = dice_take(ROOM);
  int n = snprintf(text, ROOM, "%s {%s} of", c->op->name, c->params);
  for (size_t i = 0; i < c->n_in; ++i)
    n += snprintf(text + n, (size_t)(ROOM - n), " %s", part_text(&c->in[i]));
  for (size_t i = 0; i < c->n_out; ++i) {
    static const char *const what[] = {"nothing", "write", "inplace", "add"};
    n += snprintf(text + n, (size_t)(ROOM - n), "%s %s %s", i ? "," : " to",
                  what[c->req[i]], part_text(&c->out[i]));
  }
  return text;
}

bool drawn_has_state(const drawn *c) {
  return c->op->compute == compute_update;
}

bool drawn_hides(const drawn *c) {
  return c->op->one == hidden;
}

bool drawn_wants(const drawn *c) {
  for (size_t i = 0; i < c->n_out; ++i)
    if (c->req[i] != TN_REQ_NULL) return true;
  return false;
}

/* ------------------------------------------------------------------- lists */

void drawn_lists_init(drawn_lists *lists, const drawn *c) {
  *lists = (drawn_lists){.in = {c->n_in, lists->in_arrays},
                         .out = {c->n_out, lists->out_arrays, c->req}};
  for (size_t i = 0; i < c->n_in; ++i) lists->in_arrays[i] = c->in[i].array;
  for (size_t i = 0; i < c->n_out; ++i) lists->out_arrays[i] = c->out[i].array;
  GOES(tn_params_parse(c->handle, c->params, &lists->params));
}

void drawn_adopt(drawn *c, const drawn_lists *lists) {
  for (size_t i = 0; i < c->n_out; ++i)
    if (c->req[i] != TN_REQ_NULL && !c->out[i].block)
      c->out[i] = live_adopt(&c->out[i], lists->out_arrays[i]);
}
