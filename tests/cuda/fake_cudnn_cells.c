/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_cells.c: recurrent layers for fake_cudnn.c, a cell at a time, in
 * f64. `reserve` has, as doubles: the last pass; the outputs of all layers; six
 * values of each cell; and the gradients of its gates, on the side of x and on
 * the side of h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cudnn_parts.h"
#include "fake_cudnn_rnn.h"

/* Doubles of a unit in a cell: up to four gates; the state c of an LSTM; the
 * product with h that a GRU multiplies by a gate. */
enum { C = 4, M = 5, VALUES = 6, GATE_GRADS = 8 };

/* ------------------------------------------------------------------- places */

/* Elements of a row that a layer reads. */
static int64_t inputs_of(const rnn_work *k, int64_t layer) {
  return layer == 0 ? k->inputs : k->directions * k->units;
}

int64_t rnn_row(const rnn_work *k, int64_t p, int64_t which) {
  return which < k->gates ? inputs_of(k, p / k->directions) : k->units;
}

static int64_t rows_of(const rnn_work *k) {
  return k->steps * k->batch;
}

/* Elements of the matrices of a layer and direction before gate `which`. */
static int64_t count_before(const rnn_work *k, int64_t p, int64_t which) {
  const int64_t x = which < k->gates ? which : k->gates;
  return k->units *
         (x * inputs_of(k, p / k->directions) + (which - x) * k->units);
}

int64_t rnn_locate(const rnn_work *k, int64_t p, int64_t which, int is_bias) {
  const int64_t n = k->layers * k->directions, all = 2 * k->gates;
  int64_t at = 0;
  for (int64_t i = 0; i < p; ++i) at += count_before(k, i, all);
  at += count_before(k, p, which);
  if (k->has_other_order) /* one element, then each matrix and its bias */
    return 1 + at + (p * all + which) * k->units +
           (is_bias ? k->units * rnn_row(k, p, which) : 0);
  if (!is_bias) return at;
  at = 0;
  for (int64_t i = 0; i < n; ++i) at += count_before(k, i, all);
  return at + (p * all + which) * k->units;
}

int64_t rnn_count_weights(const rnn_work *k) {
  const int64_t last = k->layers * k->directions - 1;
  return rnn_locate(k, last, 2 * k->gates - 1, 1) + k->units +
         (k->has_other_order ? 3 : 0);
}

static int64_t outputs_at(const rnn_work *k, int64_t layer) {
  return 1 + layer * rows_of(k) * k->directions * k->units;
}

static int64_t values_at(const rnn_work *k, int64_t p) {
  return outputs_at(k, k->layers) + p * rows_of(k) * VALUES * k->units;
}

static int64_t gate_grads_at(const rnn_work *k, int64_t p) {
  return values_at(k, k->layers * k->directions) +
         p * rows_of(k) * GATE_GRADS * k->units;
}

int64_t rnn_reserve_bytes(const rnn_work *k) {
  return 8 * gate_grads_at(k, k->layers * k->directions);
}

/* ------------------------------------------------------------------- arrays */

typedef struct layers {
  const rnn_work *k;
  double *x;
  double *hx;
  double *cx;
  double *weights; /* or their gradients */
  double *reserve;
  double *grads;     /* gradients of the output of the current layer */
  double *to_inputs; /* and of its input */
  double *carry;     /* of h, then of c: [batch, units] */
  double *cell_carry;
} layers;

static double *zeros(int64_t n) {
  double *out = calloc((size_t)n + 1, sizeof *out);
  if (!out) abort();
  return out;
}

static double *load(fake *f, const rnn_work *k, const void *from, int64_t n) {
  double *out = zeros(n);
  const void *at = from ? fake_reach(f, from) : NULL;
  for (int64_t i = 0; at && i < n; ++i) out[i] = fake_get(at, k->type, i);
  return out;
}

static void store(fake *f, const rnn_work *k, void *to, const double *from,
                  int64_t n) {
  void *at = to ? fake_reach(f, to) : NULL;
  for (int64_t i = 0; at && i < n; ++i) fake_put(at, k->type, i, from[i]);
}

static int64_t states_of(const rnn_work *k) {
  return k->layers * k->directions * k->batch * k->units;
}

/* One cell: step t of row `row`, in a layer and direction. */
typedef struct cell {
  const layers *net;
  int64_t p; /* layer * directions + direction */
  int64_t t;
  int64_t row;
} cell;

static double *output_of(const cell *c, int64_t t) {
  const rnn_work *k = c->net->k;
  const int64_t at = (t * k->batch + c->row) * k->directions * k->units;
  return c->net->reserve + outputs_at(k, c->p / k->directions) + at +
         c->p % k->directions * k->units;
}

static const double *input_of(const cell *c) {
  const rnn_work *k = c->net->k;
  const int64_t layer = c->p / k->directions, n = inputs_of(k, layer);
  const double *all =
      layer == 0 ? c->net->x : c->net->reserve + outputs_at(k, layer - 1);
  return all + (c->t * k->batch + c->row) * n;
}

/* The step before, or -1. */
static int64_t step_before(const cell *c) {
  const rnn_work *k = c->net->k;
  if (c->p % k->directions == 0) return c->t - 1;
  return c->t + 1 < k->steps ? c->t + 1 : -1;
}

static const double *h_before(const cell *c) {
  const rnn_work *k = c->net->k;
  const int64_t t = step_before(c);
  return t < 0 ? c->net->hx + (c->p * k->batch + c->row) * k->units
               : output_of(c, t);
}

static double *values_of(const cell *c, int64_t t) {
  const rnn_work *k = c->net->k;
  return c->net->reserve + values_at(k, c->p) +
         (t * k->batch + c->row) * VALUES * k->units;
}

static double *gate_grads_of(const cell *c) {
  const rnn_work *k = c->net->k;
  return c->net->reserve + gate_grads_at(k, c->p) +
         (c->t * k->batch + c->row) * GATE_GRADS * k->units;
}

static double c_before(const cell *c, int64_t u) {
  const rnn_work *k = c->net->k;
  const int64_t t = step_before(c);
  return t < 0 ? c->net->cx[(c->p * k->batch + c->row) * k->units + u]
               : values_of(c, t)[C * k->units + u];
}

/* ------------------------------------------------------------------ forward */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* A row of a matrix times a vector, plus the bias. */
static double product(const cell *c, int64_t which, int64_t u) {
  const rnn_work *k = c->net->k;
  const int64_t n = rnn_row(k, c->p, which);
  const double *v = which < k->gates ? input_of(c) : h_before(c);
  const double *w = c->net->weights + rnn_locate(k, c->p, which, 0) + u * n;
  double sum = c->net->weights[rnn_locate(k, c->p, which, 1) + u];
  for (int64_t i = 0; i < n; ++i)
    sum += k->rounds ? fake_to_tf32(w[i]) * fake_to_tf32(v[i]) : w[i] * v[i];
  return sum;
}

static void compute_cell(const cell *c) {
  const rnn_work *k = c->net->k;
  const int64_t n = k->units;
  double *v = values_of(c, c->t), *h = output_of(c, c->t);
  for (int64_t u = 0; u < n; ++u) {
    double x[4] = {0}, r[4] = {0};
    for (int64_t g = 0; g < k->gates; ++g) {
      x[g] = product(c, g, u);
      r[g] = product(c, k->gates + g, u);
    }
    if (k->kind == DNN_RNN_RELU) h[u] = x[0] + r[0] > 0 ? x[0] + r[0] : 0;
    if (k->kind == DNN_RNN_TANH) h[u] = tanh(x[0] + r[0]);
    if (k->kind == DNN_RNN_LSTM) {
      for (int g = 0; g < 4; ++g)
        v[g * n + u] = g == 2 ? tanh(x[g] + r[g]) : sigmoid(x[g] + r[g]);
      v[C * n + u] = v[n + u] * c_before(c, u) + v[u] * v[2 * n + u];
      h[u] = v[3 * n + u] * tanh(v[C * n + u]);
    }
    if (k->kind == DNN_RNN_GRU) {
      v[u] = sigmoid(x[0] + r[0]);
      v[n + u] = sigmoid(x[1] + r[1]);
      v[2 * n + u] = tanh(x[2] + v[u] * r[2]);
      v[M * n + u] = r[2];
      h[u] = (1 - v[n + u]) * v[2 * n + u] + v[n + u] * h_before(c)[u];
    }
  }
}

/* Calls `visit` for all cells of a layer and direction, in the order of the
 * steps or against it. */
static void for_cells(const layers *net, int64_t p, int is_back,
                      void (*visit)(const cell *)) {
  const rnn_work *k = net->k;
  const int from_end = (p % k->directions == 1) != is_back;
  for (int64_t s = 0; s < k->steps; ++s)
    for (int64_t row = 0; row < k->batch; ++row)
      visit(&(cell){net, p, from_end ? k->steps - 1 - s : s, row});
}

static void store_states(fake *f, const layers *net) {
  const rnn_work *k = net->k;
  double *h = zeros(states_of(k)), *c = zeros(states_of(k));
  for (int64_t p = 0; p < k->layers * k->directions; ++p)
    for (int64_t row = 0; row < k->batch; ++row) {
      const int64_t last = p % k->directions == 1 ? 0 : k->steps - 1;
      const cell one = {net, p, last, row};
      const int64_t at = (p * k->batch + row) * k->units;
      for (int64_t u = 0; u < k->units; ++u) {
        h[at + u] = output_of(&one, last)[u];
        c[at + u] = values_of(&one, last)[C * k->units + u];
      }
    }
  store(f, k, k->hy, h, states_of(k));
  store(f, k, k->cy, c, states_of(k));
  free(h), free(c);
}

static void run_forward(fake *f, const layers *net) {
  const rnn_work *k = net->k;
  for (int64_t p = 0; p < k->layers * k->directions; ++p)
    for_cells(net, p, 0, compute_cell);
  store(f, k, k->y, net->reserve + outputs_at(k, k->layers - 1),
        rows_of(k) * k->directions * k->units);
  store_states(f, net);
}

/* ---------------------------------------------------------------- gradients */

/* Gradients of the gates of unit u, of the gradient `g` of h. */
static void differentiate_unit(const cell *c, int64_t u, double g) {
  const rnn_work *k = c->net->k;
  const int64_t n = k->units;
  const double *v = values_of(c, c->t), h = output_of(c, c->t)[u];
  double *s = gate_grads_of(c), *dc = c->net->cell_carry + c->row * n + u;
  double *dh = c->net->carry + c->row * n + u;
  *dh = 0;
  if (k->kind == DNN_RNN_RELU) s[u] = h > 0 ? g : 0;
  if (k->kind == DNN_RNN_TANH) s[u] = g * (1 - h * h);
  if (k->kind == DNN_RNN_LSTM) {
    const double i = v[u], forget = v[n + u], top = v[2 * n + u];
    const double o = v[3 * n + u], t = tanh(v[C * n + u]);
    *dc += g * o * (1 - t * t);
    s[u] = *dc * top * i * (1 - i);
    s[n + u] = *dc * c_before(c, u) * forget * (1 - forget);
    s[2 * n + u] = *dc * i * (1 - top * top);
    s[3 * n + u] = g * t * o * (1 - o);
    *dc *= forget;
  }
  if (k->kind == DNN_RNN_GRU) {
    const double r = v[u], z = v[n + u], top = v[2 * n + u];
    s[2 * n + u] = g * (1 - z) * (1 - top * top);
    s[n + u] = g * (h_before(c)[u] - top) * z * (1 - z);
    s[u] = s[2 * n + u] * v[M * n + u] * r * (1 - r);
    *dh = g * z;
  }
  for (int64_t a = 0; a < k->gates; ++a) s[(4 + a) * n + u] = s[a * n + u];
  if (k->kind == DNN_RNN_GRU) s[6 * n + u] *= v[u];
}

/* to += the gradients of gates times a matrix. */
static void add_products(const cell *c, int is_x, double *to) {
  const rnn_work *k = c->net->k;
  const int64_t first = is_x ? 0 : k->gates, n = rnn_row(k, c->p, first);
  for (int64_t g = 0; g < k->gates; ++g)
    for (int64_t u = 0; u < k->units; ++u) {
      const double s = gate_grads_of(c)[((is_x ? 0 : 4) + g) * k->units + u];
      const double *w =
          c->net->weights + rnn_locate(k, c->p, first + g, 0) + u * n;
      for (int64_t i = 0; i < n; ++i) to[i] += s * w[i];
    }
}

static void differentiate_cell(const cell *c) {
  const rnn_work *k = c->net->k;
  const int64_t row = c->t * k->batch + c->row;
  const double *grad = c->net->grads + row * k->directions * k->units +
                       c->p % k->directions * k->units;
  for (int64_t u = 0; u < k->units; ++u)
    differentiate_unit(c, u, grad[u] + c->net->carry[c->row * k->units + u]);
  add_products(c, 0, c->net->carry + c->row * k->units);
  add_products(c, 1,
               c->net->to_inputs + row * inputs_of(k, c->p / k->directions));
}

/* Gradients of first and last states: of h, or of c. */
typedef struct states {
  double *last;
  double *first;
} states;

static void run_data(fake *f, layers *net) {
  const rnn_work *k = net->k;
  const int64_t n = k->batch * k->units;
  const int64_t out = rows_of(k) * k->directions * k->units;
  const states h = {load(f, k, k->dhy, states_of(k)), zeros(states_of(k))};
  const states c = {load(f, k, k->dcy, states_of(k)), zeros(states_of(k))};
  net->grads = load(f, k, k->dy, out);
  for (int64_t l = k->layers - 1; l >= 0; --l) {
    net->to_inputs = zeros(rows_of(k) * inputs_of(k, l));
    for (int64_t d = 0; d < k->directions; ++d) {
      const int64_t p = l * k->directions + d;
      net->carry = h.first + p * n;
      net->cell_carry = c.first + p * n;
      memcpy(net->carry, h.last + p * n, (size_t)n * sizeof *net->carry);
      memcpy(net->cell_carry, c.last + p * n, (size_t)n * sizeof *net->carry);
      for_cells(net, p, 1, differentiate_cell);
    }
    free(net->grads);
    net->grads = net->to_inputs;
  }
  store(f, k, k->dx, net->grads, rows_of(k) * k->inputs);
  store(f, k, k->dhx, h.first, states_of(k));
  store(f, k, k->dcx, c.first, states_of(k));
  free(net->grads), free(h.last), free(h.first), free(c.last), free(c.first);
}

/* Adds the gradients of the weights of one cell. */
static void add_weight_grads(const cell *c) {
  const rnn_work *k = c->net->k;
  for (int64_t which = 0; which < 2 * k->gates; ++which) {
    const int is_x = which < k->gates;
    const int64_t n = rnn_row(k, c->p, which);
    const int64_t g = is_x ? which : 4 + which - k->gates;
    const double *v = is_x ? input_of(c) : h_before(c);
    double *w = c->net->weights + rnn_locate(k, c->p, which, 0);
    double *b = c->net->weights + rnn_locate(k, c->p, which, 1);
    for (int64_t u = 0; u < k->units; ++u) {
      const double s = gate_grads_of(c)[g * k->units + u];
      b[u] += s;
      for (int64_t i = 0; i < n; ++i) w[u * n + i] += s * v[i];
    }
  }
}

/* -------------------------------------------------------------------- calls */

/* The passes must follow each other: of training, of data, of weights. */
static void check_order(fake *f, const rnn_work *k, const double *reserve) {
  if (k->pass == RNN_DATA && reserve[0] != RNN_FORWARD)
    fake_violate(f, "computes a gradient without the forward pass");
  if (k->pass == RNN_WEIGHTS && reserve[0] != RNN_DATA)
    fake_violate(f, "computes the gradient of weights before that of data");
}

/* cuDNN reads the output of the last layer where the caller has it. */
static void read_output(fake *f, const layers *net) {
  const rnn_work *k = net->k;
  const int64_t n = rows_of(k) * k->directions * k->units;
  double *y = load(f, k, k->y, n);
  memcpy(net->reserve + outputs_at(k, k->layers - 1), y, (size_t)n * sizeof *y);
  free(y);
}

void rnn_run(fake *f, const void *arg) {
  const rnn_work *k = arg;
  const int64_t weights = rnn_count_weights(k);
  const void *from = k->pass == RNN_WEIGHTS ? k->dweights : k->weights;
  layers net = {.k = k,
                .x = load(f, k, k->x, rows_of(k) * k->inputs),
                .hx = load(f, k, k->hx, states_of(k)),
                .cx = load(f, k, k->cx, states_of(k)),
                .weights = load(f, k, from, weights)};
  net.reserve =
      k->keeps ? fake_reach(f, k->reserve) : zeros(rnn_reserve_bytes(k) / 8);
  check_order(f, k, net.reserve);
  if (k->pass == RNN_FORWARD) run_forward(f, &net);
  if (k->pass != RNN_FORWARD) read_output(f, &net);
  if (k->pass == RNN_DATA) run_data(f, &net);
  if (k->pass == RNN_WEIGHTS) {
    for (int64_t p = 0; p < k->layers * k->directions; ++p)
      for_cells(&net, p, 0, add_weight_grads);
    store(f, k, k->dweights, net.weights, weights);
  }
  net.reserve[0] = k->pass;
  if (!k->keeps) free(net.reserve);
  free(net.x), free(net.hx), free(net.cx), free(net.weights);
}
