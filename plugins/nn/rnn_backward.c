/* SPDX-License-Identifier: Apache-2.0
 * rnn_backward.c: the backward pass of rnn.yaml. Layers and steps run from the
 * last to the first. A slice computes the gradients of the gates of some rows
 * of the batch for all steps; the gradients of weights and inputs are matrix
 * products of these, for all steps at once.
 */
#include "nn.h"
#include "rnn.h"

#define NN_EACH "rnn_slopes.h"
#include "each.h"

/* A backward pass, in the type of the computation. */
typedef struct backward_work {
  nn_rnn_call a;
  const char *data;
  const char *parameters;
  const char *state; /* zeros if absent */
  const char *state_cell;
  const char *out;
  const char *kept;
  const char *head; /* gradients of the outputs; NULL: zeros */
  const char *state_head;
  const char *cell_head;
  char *to[4];      /* gradients of the inputs; NULL: not requested */
  char *slopes;     /* of the products of the input, for each direction */
  char *seconds;    /* gru: of the products of h; otherwise `slopes` */
  char *carry;      /* gradients of h, for each direction */
  char *cell_carry; /* lstm: of c */
  char *grads[2];   /* gradients of outputs of layers; one is being read */
  char *dropped;    /* input of the layer after dropout */
  char *zeros;
  int64_t layer;    /* the current layer, */
  const char *x;    /* its input, */
  const char *y;    /* its output, */
  const char *grad; /* and the gradient of that */
  int64_t pieces;   /* slices of the batch */
} backward_work;

/* Returns the elements of the gates of one direction. */
static int64_t count_gates(const nn_rnn_call *a) {
  return a->steps * a->batch * a->gates * a->units;
}

/* Lays out the workspace. */
static backward_work plan_backward(const tn_frame *call,
                                   nn_rnn_memory *memory) {
  backward_work w = {.a = nn_rnn_describe(call)};
  const nn_rnn_call *a = &w.a;
  const int64_t cells = a->directions * a->batch * a->units;
  w.slopes = nn_rnn_take(memory, a, a->directions * count_gates(a));
  w.seconds = a->kind == NN_RNN_MODE_GRU
                  ? nn_rnn_take(memory, a, a->directions * count_gates(a))
                  : w.slopes;
  w.carry = nn_rnn_take(memory, a, cells);
  w.cell_carry = nn_rnn_take(memory, a, cells);
  w.grads[0] = nn_rnn_take(memory, a, nn_rnn_count_outputs(a));
  w.grads[1] = nn_rnn_take(memory, a, nn_rnn_count_outputs(a));
  if (a->p > 0) w.dropped = nn_rnn_take(memory, a, nn_rnn_count_outputs(a));
  w.zeros = nn_rnn_take(memory, a, a->layers * cells);
  w.pieces = (a->batch + NN_RNN_ROWS - 1) / NN_RNN_ROWS;
  return w;
}

int32_t nn_rnn_backward_bytes(const tn_frame *call, uint64_t *bytes) {
  nn_rnn_memory memory = {NULL, 0};
  (void)plan_backward(call, &memory);
  *bytes = memory.bytes;
  for (uint32_t i = 0; i < call->n_in; ++i)
    if (!(call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA)))
      *bytes += nn_count_wide_bytes(&call->in[i]);
  for (uint32_t i = 0; i < call->n_out; ++i)
    *bytes += nn_count_wide_bytes(&call->out[i]);
  return TN_OK;
}

/* ------------------------------------------------------------------- steps */

/* One direction of the current layer, and some rows. */
typedef struct part {
  const backward_work *w;
  int64_t direction;
  int64_t first;
  int64_t rows;
} part;

/* Returns the address of a row at a step in an array [steps, batch, n]. */
static char *locate_row(const part *p, const char *array, int64_t t,
                        int64_t row, int64_t n) {
  const nn_rnn_call *a = &p->w->a;
  return nn_rnn_skip(a, array, (t * a->batch + p->first + row) * n);
}

/* Returns the address of a row in an array [layers * directions, batch, n] with
 * states. */
static const char *locate_state(const part *p, const char *array, int64_t row) {
  const nn_rnn_call *a = &p->w->a;
  const int64_t index = p->w->layer * a->directions + p->direction;
  return nn_rnn_skip(a, array, (index * a->batch + p->first + row) * a->units);
}

/* Returns the address of a row in an array [directions, batch, n]. */
static char *locate_carry(const part *p, char *array, int64_t row) {
  const nn_rnn_call *a = &p->w->a;
  return nn_rnn_skip(a, array,
                     (p->direction * a->batch + p->first + row) * a->units);
}

/* Returns h of a row after step t; t < 0 or beyond the last is the state. */
static const char *locate_h(const part *p, int64_t t, int64_t row) {
  const nn_rnn_call *a = &p->w->a;
  if (t < 0 || t >= a->steps) return locate_state(p, p->w->state, row);
  return nn_rnn_skip(a,
                     locate_row(p, p->w->y, t, row, a->directions * a->units),
                     p->direction * a->units);
}

/* Returns the values that were kept of a row at step t. */
static const char *locate_values(const part *p, int64_t t, int64_t row) {
  const nn_rnn_call *a = &p->w->a;
  return locate_row(
      p,
      nn_rnn_skip(a, p->w->kept,
                  nn_rnn_locate_values(a, p->w->layer, p->direction)),
      t, row, a->values * a->units);
}

/* Computes the gradients of the gates of a row at step t, which follows step
 * `before`. */
static void slope_row(const part *p, int64_t t, int64_t before, int64_t row) {
  static const nn_loops lstm = NN_LOOPS(slope_lstm);
  static const nn_loops gru = NN_LOOPS(slope_gru);
  static const nn_loops plain = NN_LOOPS(slope_plain);
  const backward_work *w = p->w;
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units;
  const int64_t gates = p->direction * count_gates(a);
  char *carry = locate_carry(p, w->carry, row);
  nn_rnn_slopes s = {.kind = a->kind, .grad = carry, .carry = carry};
  tn_kernel_block block = {
      .n = a->units,
      .out = locate_row(p, nn_rnn_skip(a, w->slopes, gates), t, row, n)};
  s.second = locate_row(p, nn_rnn_skip(a, w->seconds, gates), t, row, n);
  s.cell_carry = locate_carry(p, w->cell_carry, row);
  if (a->values > 0) block.in[0] = locate_values(p, t, row);
  block.in[1] = locate_h(p, before, row);
  block.in[2] = locate_h(p, t, row);
  if (w->grad)
    tn_kernel_add_dense(
        carry,
        nn_rnn_skip(a, locate_row(p, w->grad, t, row, a->directions * a->units),
                    p->direction * a->units),
        &a->mode, a->units);
  if (a->kind == NN_RNN_MODE_LSTM)
    s.cell = before < 0 || before >= a->steps
                 ? locate_state(p, w->state_cell, row)
                 : nn_rnn_skip(a, locate_values(p, before, row), 4 * a->units);
  nn_run_loop(&a->mode,
              a->kind == NN_RNN_MODE_LSTM  ? &lstm
              : a->kind == NN_RNN_MODE_GRU ? &gru
                                           : &plain,
              &block, &s);
}

/* Copies the gradients of the last states to the carries, or clears them. */
static void begin_carry(const part *p, const char *head, char *carry) {
  const nn_rnn_call *a = &p->w->a;
  const size_t bytes = (size_t)(p->rows * a->units * a->bytes);
  if (head)
    memcpy(locate_carry(p, carry, 0), locate_state(p, head, 0), bytes);
  else
    memset(locate_carry(p, carry, 0), 0, bytes);
}

/* Computes the gradients of all gates of a part, and of its first states. */
static void run_part(const part *p) {
  const backward_work *w = p->w;
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units;
  const char *weights =
      nn_rnn_skip(a, w->parameters,
                  nn_rnn_locate_weights(a, w->layer, p->direction) +
                      n * nn_rnn_count_inputs(a, w->layer));
  const int64_t step = p->direction == 0 ? -1 : 1;
  begin_carry(p, w->state_head, w->carry);
  begin_carry(p, w->cell_head, w->cell_carry);
  for (int64_t s = 0; s < a->steps; ++s) {
    const int64_t t = p->direction == 0 ? a->steps - 1 - s : s;
    for (int64_t r = 0; r < p->rows; ++r) slope_row(p, t, t + step, r);
    nn_multiply_block(
        &a->mode,
        &(nn_block_product){
            .m = p->rows,
            .n = a->units,
            .k = n,
            .a = {locate_row(
                      p,
                      nn_rnn_skip(a, w->seconds, p->direction * count_gates(a)),
                      t, 0, n),
                  n, 1},
            .b = {weights, a->units, 1},
            .c = locate_carry(p, w->carry, 0),
            .c_row = a->units,
            .alpha = 1,
            .beta = a->kind == NN_RNN_MODE_GRU ? 1 : 0});
  }
}

/* Runs the slices [begin, end): each has some rows in one direction. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const backward_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    part p = {.w = w,
              .direction = i / w->pieces,
              .first = i % w->pieces * NN_RNN_ROWS};
    const int64_t left = w->a.batch - p.first;
    p.rows = left < NN_RNN_ROWS ? left : NN_RNN_ROWS;
    run_part(&p);
  }
  return TN_OK;
}

/* -------------------------------------------------------- layers and weights
 */

/* Computes c = beta * c + op(a) * op(b), with dense matrices unless lda or ldb
 * is set. */
static int32_t multiply_matrices(const backward_work *w, tn_blas_gemm *g) {
  g->struct_size = sizeof *g;
  g->dtype = w->a.mode.compute;
  g->alpha = 1;
  g->ldc = g->n;
  if (g->lda == 0) g->lda = g->transpose_a ? g->m : g->k;
  if (g->ldb == 0) g->ldb = g->transpose_b ? g->k : g->n;
  return nn_multiply(w->a.call, g);
}

/* Computes the gradient of R: the products of the gradients of gates and h
 * before each step. */
static int32_t compute_r(const backward_work *w, int64_t direction, char *to) {
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units, wide = a->directions * a->units;
  const int64_t rows = (a->steps - 1) * a->batch;
  const char *slopes = nn_rnn_skip(a, w->seconds, direction * count_gates(a));
  const part p = {.w = w, .direction = direction};
  const int64_t first = direction == 0 ? 0 : rows;
  int32_t code = multiply_matrices(
      w, &(tn_blas_gemm){.transpose_a = 1,
                         .m = n,
                         .n = a->units,
                         .k = a->batch,
                         .a = nn_rnn_skip(a, slopes, first * n),
                         .b = locate_state(&p, w->state, 0),
                         .c = to});
  if (code != TN_OK || rows == 0) return code;
  return multiply_matrices(
      w, &(tn_blas_gemm){
             .transpose_a = 1,
             .m = n,
             .n = a->units,
             .k = rows,
             .beta = 1,
             .a = nn_rnn_skip(a, slopes, direction == 0 ? a->batch * n : 0),
             .b = locate_h(&p, direction == 0 ? 0 : 1, 0),
             .c = to,
             .ldb = wide});
}

/* Computes the gradient of a bias: the sums of the gradients of gates. */
static void compute_bias(const backward_work *w, const char *slopes, char *to) {
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units;
  memset(to, 0, (size_t)(n * a->bytes));
  for (int64_t r = 0; r < a->steps * a->batch; ++r)
    tn_kernel_add_dense(to, nn_rnn_skip(a, slopes, r * n), &a->mode, n);
}

/* Computes the gradients of the weights and biases of a direction. */
static int32_t compute_weights(const backward_work *w, int64_t direction) {
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units, gates = direction * count_gates(a);
  const int64_t depth = nn_rnn_count_inputs(a, w->layer);
  char *to = nn_rnn_skip(a, w->to[NN_RNN_IN_PARAMETERS],
                         nn_rnn_locate_weights(a, w->layer, direction));
  char *bias = nn_rnn_skip(a, w->to[NN_RNN_IN_PARAMETERS],
                           nn_rnn_locate_biases(a, w->layer, direction));
  const char *slopes = nn_rnn_skip(a, w->slopes, gates);
  compute_bias(w, slopes, bias);
  compute_bias(w, nn_rnn_skip(a, w->seconds, gates), nn_rnn_skip(a, bias, n));
  if (a->steps * a->batch == 0) {
    memset(to, 0, (size_t)(n * (depth + a->units) * a->bytes));
    return TN_OK;
  }
  const int32_t code =
      multiply_matrices(w, &(tn_blas_gemm){.transpose_a = 1,
                                           .m = n,
                                           .n = depth,
                                           .k = a->steps * a->batch,
                                           .a = slopes,
                                           .b = w->x,
                                           .c = to});
  return code == TN_OK ? compute_r(w, direction, nn_rnn_skip(a, to, n * depth))
                       : code;
}

/* Computes the gradient of the input of the layer, of all directions. */
static int32_t compute_input(const backward_work *w, char *to) {
  const nn_rnn_call *a = &w->a;
  const int64_t depth = nn_rnn_count_inputs(a, w->layer);
  int32_t code = TN_OK;
  for (int64_t d = 0; d < a->directions && code == TN_OK; ++d)
    code = multiply_matrices(
        w,
        &(tn_blas_gemm){.m = a->steps * a->batch,
                        .n = depth,
                        .k = a->gates * a->units,
                        .beta = d > 0,
                        .a = nn_rnn_skip(a, w->slopes, d * count_gates(a)),
                        .b = nn_rnn_skip(a, w->parameters,
                                         nn_rnn_locate_weights(a, w->layer, d)),
                        .c = to});
  return code;
}

/* Sets to = x * factors, the factors of dropout of the layer before. */
static void apply_factors(const backward_work *w, const char *x, char *to) {
  const nn_rnn_call *a = &w->a;
  const char *factors =
      nn_rnn_skip(a, w->kept, nn_rnn_locate_factors(a, w->layer - 1));
  for (int64_t i = 0; i < nn_rnn_count_outputs(a); ++i)
    if (a->mode.compute == TN_F32)
      ((float *)(void *)to)[i] = ((const float *)(const void *)x)[i] *
                                 ((const float *)(const void *)factors)[i];
    else
      ((double *)(void *)to)[i] = ((const double *)(const void *)x)[i] *
                                  ((const double *)(const void *)factors)[i];
}

/* Sets the input and output of the current layer. */
static void open_layer(backward_work *w) {
  const nn_rnn_call *a = &w->a;
  w->x = w->data;
  w->y = w->out;
  if (w->layer < a->layers - 1)
    w->y = nn_rnn_skip(a, w->kept, nn_rnn_locate_output(a, w->layer));
  if (w->layer == 0) return;
  w->x = nn_rnn_skip(a, w->kept, nn_rnn_locate_output(a, w->layer - 1));
  if (a->p <= 0) return;
  apply_factors(w, w->x, w->dropped);
  w->x = w->dropped;
}

/* Copies the gradients of the first states of the layer to a result. */
static void write_states(const backward_work *w, char *to, const char *carry) {
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->directions * a->batch * a->units;
  if (to && n > 0)
    memcpy(nn_rnn_skip(a, to, w->layer * n), carry, (size_t)(n * a->bytes));
}

/* Computes the current layer. */
static int32_t compute_layer(backward_work *w) {
  const nn_rnn_call *a = &w->a;
  char *to = w->layer == 0 ? w->to[NN_RNN_IN_DATA] : w->grads[w->layer % 2];
  open_layer(w);
  int32_t code = nn_run_parallel(
      a->call, a->directions * w->pieces,
      NN_RNN_ROWS * a->steps * a->gates * a->units * (1 + a->units / 16),
      run_slice, w);
  for (int64_t d = 0; d < a->directions && code == TN_OK; ++d)
    if (w->to[NN_RNN_IN_PARAMETERS]) code = compute_weights(w, d);
  if (code == TN_OK && to) code = compute_input(w, to);
  if (code != TN_OK) return code;
  write_states(w, w->to[NN_RNN_IN_STATE], w->carry);
  write_states(w, w->to[NN_RNN_IN_STATE_CELL], w->cell_carry);
  if (w->layer > 0 && a->p > 0) apply_factors(w, to, to);
  w->grad = to;
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* Returns an input of the call in the type of the computation; NULL if it is
 * absent. */
static const char *open_input(const backward_work *w, nn_wide_operands *wide,
                              uint32_t i) {
  const tn_frame *call = w->a.call;
  if (call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA)) return NULL;
  return nn_widen_input(wide, &call->in[i]);
}

/* Opens the operands of a call. */
static nn_wide_operands open_operands(backward_work *w, uint64_t skip) {
  const tn_frame *call = w->a.call;
  nn_wide_operands wide = nn_open_wide_operands(
      call, nn_rnn_input(call, NN_RNN_IN_DATA)->dtype, skip);
  w->head = open_input(w, &wide, NN_RNN_BACKWARD_GRAD_OUT);
  w->state_head = open_input(w, &wide, NN_RNN_BACKWARD_GRAD_STATE_OUT);
  if (w->a.kind == NN_RNN_MODE_LSTM)
    w->cell_head = open_input(w, &wide, NN_RNN_BACKWARD_GRAD_CELL_OUT);
  w->data = open_input(w, &wide, NN_RNN_BACKWARD_IN_DATA);
  w->parameters = open_input(w, &wide, NN_RNN_BACKWARD_IN_PARAMETERS);
  w->state = open_input(w, &wide, NN_RNN_BACKWARD_IN_STATE);
  w->state_cell = open_input(w, &wide, NN_RNN_BACKWARD_IN_STATE_CELL);
  w->out = open_input(w, &wide, NN_RNN_BACKWARD_OUT_OUT);
  w->kept = open_input(w, &wide, NN_RNN_BACKWARD_OUT_KEPT);
  for (uint32_t i = 0; i < 4 && i < call->n_out; ++i)
    w->to[i] = nn_locate_wide_output(&wide, &call->out[i], call->req[i]);
  if (!w->state) w->state = w->zeros;
  if (!w->state_cell) w->state_cell = w->zeros;
  return wide;
}

int32_t nn_rnn_backward(const tn_frame *call) {
  nn_rnn_memory memory = {call->ws[0], 0};
  backward_work w = plan_backward(call, &memory);
  const nn_wide_operands wide = open_operands(&w, memory.bytes);
  const nn_rnn_call *a = &w.a;
  const int64_t states = a->layers * a->directions * a->batch * a->units;
  int32_t code = TN_OK;
  if (states > 0) memset(w.zeros, 0, (size_t)(states * a->bytes));
  w.grad = w.head;
  for (w.layer = a->layers - 1; w.layer >= 0 && code == TN_OK; --w.layer)
    code = compute_layer(&w);
  for (uint32_t i = 0; i < 4 && i < call->n_out && code == TN_OK; ++i)
    nn_store_wide_output(&wide, &call->out[i], w.to[i]);
  return code;
}
