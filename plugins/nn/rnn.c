/* SPDX-License-Identifier: Apache-2.0
 * rnn.c: shapes and the forward pass of rnn.yaml. In each layer the products of
 * W with the inputs of all steps are one matrix product. Then a slice computes
 * all steps of some rows of the batch, with R packed for this.
 */
#include "rnn.h"

#include "nn.h"
#include "tenon/kernel/philox.h"
#include "tenon/kernel/transpose.h"

#define NN_EACH "rnn_loops.h"
#include "each.h"

/* ------------------------------------------------------------------- sizes */

const tn_tensor *nn_rnn_input(const tn_frame *call, uint32_t i) {
  const uint32_t skip = call->flags & TN_CALL_BACKWARD
                            ? NN_RNN_BACKWARD_IN_DATA - NN_RNN_IN_DATA
                            : 0;
  if (skip + i >= call->n_in || call->in_flags[skip + i] & TN_IN_ABSENT)
    return NULL;
  return &call->in[skip + i];
}

nn_rnn_call nn_rnn_describe(const tn_frame *call) {
  const nn_rnn_params *p = nn_rnn_params_of(call);
  const int is_lstm = p->mode == NN_RNN_MODE_LSTM;
  const int is_gru = p->mode == NN_RNN_MODE_GRU;
  const tn_tensor *data = nn_rnn_input(call, NN_RNN_IN_DATA);
  nn_rnn_call a = {.call = call,
                   .kind = p->mode,
                   .gates = is_lstm  ? 4
                            : is_gru ? 3
                                     : 1,
                   .values = is_lstm  ? 5
                             : is_gru ? 4
                                      : 0,
                   .steps = data->shape[0],
                   .batch = data->shape[1],
                   .inputs = data->shape[2],
                   .units = p->state_size,
                   .layers = p->num_layers,
                   .directions = p->bidirectional ? 2 : 1,
                   .p = p->p};
  a.mode =
      (tn_kernel_mode){tn_kernel_compute(data->dtype), tn_kernel_level(call)};
  a.bytes = tn_dtype_bytes(a.mode.compute);
  return a;
}

/* Returns the elements of W and R of one direction of a layer. */
static int64_t count_weights(const nn_rnn_call *a, int64_t layer) {
  return a->gates * a->units * (nn_rnn_count_inputs(a, layer) + a->units);
}

int64_t nn_rnn_locate_weights(const nn_rnn_call *a, int64_t layer,
                              int64_t direction) {
  int64_t at = direction * count_weights(a, layer);
  if (layer > 0) at += a->directions * count_weights(a, 0);
  if (layer > 1) at += (layer - 1) * a->directions * count_weights(a, 1);
  return at;
}

int64_t nn_rnn_locate_biases(const nn_rnn_call *a, int64_t layer,
                             int64_t direction) {
  return nn_rnn_locate_weights(a, a->layers, 0) +
         (layer * a->directions + direction) * 2 * a->gates * a->units;
}

/* Returns the arrays of one layer's output that `kept` has for a layer. */
static int64_t count_output_copies(const nn_rnn_call *a) {
  return a->p > 0 ? 2 : 1;
}

int64_t nn_rnn_locate_output(const nn_rnn_call *a, int64_t layer) {
  return layer * count_output_copies(a) * nn_rnn_count_outputs(a);
}

int64_t nn_rnn_locate_factors(const nn_rnn_call *a, int64_t layer) {
  return nn_rnn_locate_output(a, layer) + nn_rnn_count_outputs(a);
}

int64_t nn_rnn_locate_values(const nn_rnn_call *a, int64_t layer,
                             int64_t direction) {
  return nn_rnn_locate_output(a, a->layers - 1) +
         (layer * a->directions + direction) * a->steps * a->batch * a->values *
             a->units;
}

int64_t nn_rnn_count_kept(const nn_rnn_call *a) {
  return nn_rnn_locate_values(a, a->layers, 0);
}

/* Sets the shape of `kept`, and of `parameters`. Sizes beyond 64 bits are
 * refused. */
static int32_t set_lengths(const tn_frame *call, const nn_rnn_call *a) {
  const double units = (double)a->units, layers = (double)a->layers;
  const double wide = fmax((double)a->inputs, 2 * units) + units + 2;
  const double cells = (double)a->steps * (double)a->batch * units * layers;
  if (8 * units * wide * layers > 0x1p62 || 16 * cells > 0x1p62)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "state_size=%lld and num_layers=%lld give more parameters "
                   "or kept values than 64 bits count",
                   (long long)a->units, (long long)a->layers);
  const int64_t n = nn_rnn_locate_biases(a, a->layers, 0);
  const int64_t kept = nn_rnn_count_kept(a);
  const tn_tensor *given = nn_rnn_input(call, NN_RNN_IN_PARAMETERS);
  if (given && (given->ndim > 1 || (given->ndim == 1 && given->shape[0] >= 0 &&
                                    given->shape[0] != n)))
    return TN_FAIL(call, TN_SHAPE,
                   "`parameters` %s must have %lld elements, for rows of %lld "
                   "elements in `data`",
                   nn_print_shape(given).text, (long long)n,
                   (long long)a->inputs);
  int32_t code =
      call->host->set_shape(call, TN_OPERAND_IN, NN_RNN_IN_PARAMETERS, 1, &n);
  if (code == TN_OK && a->steps >= 0 && a->batch >= 0)
    code =
        call->host->set_shape(call, TN_OPERAND_OUT, NN_RNN_OUT_KEPT, 1, &kept);
  return code;
}

int32_t nn_rnn_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_RNN_IN_DATA];
  if (data->ndim != 3 || data->shape[2] < 0) return TN_OK;
  const nn_rnn_call a = nn_rnn_describe(call);
  return set_lengths(call, &a);
}

/* Decides whether a call draws random numbers. */
int32_t nn_rnn_drops(const tn_frame *call) {
  const nn_rnn_params *p = nn_rnn_params_of(call);
  const int draws = (call->flags & TN_CALL_TRAIN) &&
                    !(call->flags & TN_CALL_BACKWARD) && p->p > 0 &&
                    p->num_layers > 1;
  return draws ? TN_OK
               : TN_FAIL(call, TN_UNSUPPORTED,
                         "only forward calls of training with p > 0 and "
                         "several layers draw random numbers");
}

/* ------------------------------------------------------------------ memory */

char *nn_rnn_take(nn_rnn_memory *memory, const nn_rnn_call *a, int64_t n) {
  const uint64_t bytes = ((uint64_t)(n * a->bytes) + 63) / 64 * 64;
  char *part = memory->at;
  memory->bytes += bytes;
  if (part) memory->at += bytes;
  return part;
}

/* Returns the elements of R of one direction, packed for vectors of any level.
 */
static int64_t count_packed(const nn_rnn_call *a) {
  enum { MOST = 16 * NN_RNN_ACROSS }; /* units of the widest strip */
  return (a->units + MOST - 1) / MOST * MOST * a->gates * a->units;
}

/* A forward pass, in the type of the computation. */
typedef struct forward_work {
  nn_rnn_call a;
  const char *data;
  const char *parameters;
  const char *state; /* NULL: zeros */
  const char *state_cell;
  char *out;
  char *state_out;
  char *cell_out;
  char *kept;     /* layer outputs, factors and values */
  char *biases;   /* sums of bW and bR, for each direction */
  char *products; /* of W and the input, for each direction */
  char *packed;   /* R, for each direction */
  char *cells;    /* lstm: c, for each direction */
  char *dropped;  /* input of the layer after dropout */
  const char *zeros;
  int keeps; /* values of the cells are kept */
  int drops;
  int64_t layer;  /* the current layer, */
  const char *x;  /* its input */
  char *y;        /* and its output */
  int64_t pieces; /* slices of the batch */
} forward_work;

/* Lays out the workspace. Values of cells are at the end of `kept`, which is
 * shorter if they are not kept. */
static forward_work plan_forward(const tn_frame *call, nn_rnn_memory *memory) {
  forward_work w = {.a = nn_rnn_describe(call)};
  const nn_rnn_call *a = &w.a;
  const int64_t cells = a->batch * a->units;
  const tn_tensor *kept = &call->out[NN_RNN_OUT_KEPT];
  w.keeps = call->req[NN_RNN_OUT_KEPT] != TN_REQ_NULL;
  w.products =
      nn_rnn_take(memory, a, a->directions * a->steps * a->gates * cells);
  w.biases = nn_rnn_take(memory, a, a->directions * a->gates * a->units);
  w.packed = nn_rnn_take(memory, a, a->directions * count_packed(a));
  w.cells = nn_rnn_take(memory, a, a->directions * cells);
  w.zeros = nn_rnn_take(memory, a, cells);
  if (a->p > 0) w.dropped = nn_rnn_take(memory, a, nn_rnn_count_outputs(a));
  if (!w.keeps || kept->dtype != a->mode.compute)
    w.kept = nn_rnn_take(
        memory, a,
        w.keeps ? nn_rnn_count_kept(a) : nn_rnn_locate_values(a, 0, 0));
  else
    w.kept = kept->data;
  if (call->req[NN_RNN_OUT_OUT] == TN_REQ_NULL)
    w.out = nn_rnn_take(memory, a, nn_rnn_count_outputs(a));
  w.pieces = (a->batch + NN_RNN_ROWS - 1) / NN_RNN_ROWS;
  return w;
}

/* Sets *bytes to the size of the workspace of a forward or backward call. */
int32_t nn_rnn_bytes(const tn_frame *call, uint64_t *bytes) {
  nn_rnn_memory memory = {NULL, 0};
  if (call->flags & TN_CALL_BACKWARD) return nn_rnn_backward_bytes(call, bytes);
  (void)plan_forward(call, &memory);
  *bytes = memory.bytes;
  for (uint32_t i = NN_RNN_IN_DATA; i <= NN_RNN_IN_STATE_CELL; ++i)
    if (nn_rnn_input(call, i))
      *bytes += nn_count_wide_bytes(nn_rnn_input(call, i));
  for (uint32_t i = NN_RNN_OUT_OUT; i <= NN_RNN_OUT_CELL_OUT; ++i)
    *bytes += nn_count_wide_bytes(&call->out[i]);
  return TN_OK;
}

/* ------------------------------------------------------------------ layers */

/* Adds the biases of a direction. Those of the third gate of gru lack bR, which
 * a factor multiplies. */
static void add_biases(const forward_work *w, int64_t direction) {
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units;
  const int64_t both = a->kind == NN_RNN_MODE_GRU ? 2 * a->units : n;
  const char *bias = nn_rnn_skip(a, w->parameters,
                                 nn_rnn_locate_biases(a, w->layer, direction));
  char *to = nn_rnn_skip(a, w->biases, direction * n);
  memcpy(to, bias, (size_t)(n * a->bytes));
  tn_kernel_add_dense(to, bias + n * a->bytes, &a->mode, both);
}

/* Computes the products of W and all inputs of a direction. */
static int32_t multiply_inputs(const forward_work *w, int64_t direction) {
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units, rows = a->steps * a->batch;
  const int64_t depth = nn_rnn_count_inputs(a, w->layer);
  char *to = nn_rnn_skip(a, w->products, direction * rows * n);
  if (rows == 0) return TN_OK;
  return nn_multiply(
      a->call, &(tn_blas_gemm){.struct_size = sizeof(tn_blas_gemm),
                               .dtype = a->mode.compute,
                               .transpose_b = 1,
                               .m = rows,
                               .n = n,
                               .k = depth,
                               .alpha = 1,
                               .a = w->x,
                               .b = nn_rnn_skip(a, w->parameters,
                                                nn_rnn_locate_weights(
                                                    a, w->layer, direction)),
                               .c = to,
                               .lda = depth,
                               .ldb = depth,
                               .ldc = n});
}

/* Packs R of a direction for vectors of `lanes` units: strip by strip, and in a
 * strip column by column (rnn_loops.h). */
static void pack_weights(const forward_work *w, int64_t direction,
                         int64_t lanes) {
  const nn_rnn_call *a = &w->a;
  const int64_t across = a->gates > 1 ? a->gates : NN_RNN_ACROSS;
  const int64_t units = a->gates > 1 ? lanes : NN_RNN_ACROSS * lanes;
  const int64_t strips = (a->units + units - 1) / units;
  const int64_t n = a->units, depth = nn_rnn_count_inputs(a, w->layer);
  char *to = nn_rnn_skip(a, w->packed, direction * count_packed(a));
  const char *from = nn_rnn_skip(
      a, w->parameters,
      nn_rnn_locate_weights(a, w->layer, direction) + a->gates * n * depth);
  if (n % units != 0)
    memset(to, 0, (size_t)(strips * n * across * lanes * a->bytes));
  for (int64_t s = 0; s < strips; ++s)
    for (int64_t g = 0; g < across; ++g) {
      const int64_t unit = a->gates > 1 ? s * lanes : s * units + g * lanes;
      const int64_t row = a->gates > 1 ? g * n + unit : unit;
      const int64_t left = n - unit;
      if (left <= 0) continue;
      tn_transpose_of(a->bytes, a->mode.level)(
          &(tn_transpose){nn_rnn_skip(a, to, (s * n * across + g) * lanes),
                          nn_rnn_skip(a, from, row * n), across * lanes, n, n,
                          left < lanes ? left : lanes});
    }
}

/* Returns the units of a vector in the loops of the call. */
static int64_t count_lanes(const nn_rnn_call *a) {
  static const nn_loops loops = NN_LOOPS(report_lanes);
  int64_t lanes = 0;
  nn_run_loop(&a->mode, &loops, &(tn_kernel_block){.out = &lanes}, NULL);
  return lanes;
}

/* Returns the first element of the state of a layer and direction; zeros if it
 * is absent. */
static const char *locate_state(const forward_work *w, const char *state,
                                int64_t direction) {
  const nn_rnn_call *a = &w->a;
  const int64_t index = w->layer * a->directions + direction;
  return state ? nn_rnn_skip(a, state, index * a->batch * a->units) : w->zeros;
}

/* Describes all steps of `rows` rows from row `first` on. */
static nn_rnn_steps make_steps(const forward_work *w, int64_t direction,
                               int64_t first, int64_t rows) {
  const nn_rnn_call *a = &w->a;
  const int64_t n = a->gates * a->units, wide = a->directions * a->units;
  const int64_t values = a->values * a->units;
  nn_rnn_steps s = {.kind = a->kind,
                    .gates = a->gates,
                    .steps = a->steps,
                    .rows = rows,
                    .units = a->units,
                    .is_reverse = direction == 1,
                    .x_step = a->batch * n,
                    .out_row = wide,
                    .out_step = a->batch * wide,
                    .kept_row = values,
                    .kept_step = a->batch * values};
  s.packed = nn_rnn_skip(a, w->packed, direction * count_packed(a));
  s.x = nn_rnn_skip(a, w->products,
                    (direction * a->steps * a->batch + first) * n);
  s.biases = nn_rnn_skip(a, w->biases, direction * n);
  s.bias = nn_rnn_skip(
      a, w->parameters,
      nn_rnn_locate_biases(a, w->layer, direction) + n + 2 * a->units);
  s.state =
      nn_rnn_skip(a, locate_state(w, w->state, direction), first * a->units);
  if (a->kind == NN_RNN_MODE_LSTM)
    s.cell =
        nn_rnn_skip(a, w->cells, (direction * a->batch + first) * a->units);
  s.out = nn_rnn_skip(a, w->y, first * wide + direction * a->units);
  if (w->keeps && a->values > 0)
    s.kept = nn_rnn_skip(
        a, w->kept,
        nn_rnn_locate_values(a, w->layer, direction) + first * values);
  return s;
}

/* Runs the slices [begin, end): each has some rows in one direction. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(run_steps);
  const forward_work *w = arg;
  const nn_rnn_call *a = &w->a;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i % w->pieces * NN_RNN_ROWS;
    const int64_t left = a->batch - first;
    const nn_rnn_steps s = make_steps(w, i / w->pieces, first,
                                      left < NN_RNN_ROWS ? left : NN_RNN_ROWS);
    if (s.cell)
      memcpy(s.cell,
             nn_rnn_skip(a, locate_state(w, w->state_cell, i / w->pieces),
                         first * a->units),
             (size_t)(s.rows * a->units * a->bytes));
    nn_run_loop(&a->mode, &loops, &(tn_kernel_block){.n = s.rows}, &s);
  }
  return TN_OK;
}

/* Writes h and c after the last step of the current layer. */
static void write_states(const forward_work *w) {
  const nn_rnn_call *a = &w->a;
  const int64_t wide = a->directions * a->units, n = a->batch * a->units;
  for (int64_t d = 0; d < a->directions; ++d) {
    const int64_t at = (w->layer * a->directions + d) * n;
    const int64_t last = d == 0 ? a->steps - 1 : 0;
    for (int64_t r = 0; w->state_out && r < a->batch; ++r) {
      const char *from =
          a->steps > 0
              ? nn_rnn_skip(a, w->y,
                            (last * a->batch + r) * wide + d * a->units)
              : nn_rnn_skip(a, locate_state(w, w->state, d), r * a->units);
      memcpy(nn_rnn_skip(a, w->state_out, at + r * a->units), from,
             (size_t)(a->units * a->bytes));
    }
    if (w->cell_out && a->kind == NN_RNN_MODE_LSTM)
      memcpy(nn_rnn_skip(a, w->cell_out, at), nn_rnn_skip(a, w->cells, d * n),
             (size_t)(n * a->bytes));
  }
}

/* ----------------------------------------------------------------- dropout */

/* Draws factors for elements [begin, end) of the output of a layer, in blocks
 * of 4, and writes their products with the output. */
static int32_t drop_slice(void *arg, int64_t begin, int64_t end) {
  const forward_work *w = arg;
  const nn_rnn_call *a = &w->a;
  const uint32_t limit = a->p < 1 ? (uint32_t)(a->p * 0x1p32) : 0;
  const double kept = a->p < 1 ? 1 / (1 - a->p) : 0;
  const int64_t size = nn_rnn_count_outputs(a);
  char *factors =
      nn_rnn_skip(a, w->kept, nn_rnn_locate_factors(a, w->layer - 1));
  for (int64_t i = begin; i < end; ++i) {
    tn_kernel_bits bits = {{0, 0, 0, 0}};
    if (w->drops)
      bits =
          tn_kernel_random(a->call->run->random[0],
                           (uint64_t)((w->layer - 1) * ((size + 3) / 4) + i));
    for (int64_t e = 4 * i; e < 4 * i + 4 && e < size; ++e) {
      const double f = !w->drops ? 1 : bits.word[e % 4] < limit ? 0 : kept;
      if (a->mode.compute == TN_F32) {
        ((float *)(void *)factors)[e] = (float)f;
        ((float *)(void *)w->dropped)[e] =
            (float)f * ((const float *)(const void *)w->x)[e];
      } else {
        ((double *)(void *)factors)[e] = f;
        ((double *)(void *)w->dropped)[e] =
            f * ((const double *)(const void *)w->x)[e];
      }
    }
  }
  return TN_OK;
}

/* Sets the input and output of the current layer. */
static int32_t open_layer(forward_work *w) {
  const nn_rnn_call *a = &w->a;
  int32_t code = TN_OK;
  w->x = w->layer == 0
             ? w->data
             : nn_rnn_skip(a, w->kept, nn_rnn_locate_output(a, w->layer - 1));
  w->y = w->layer == a->layers - 1
             ? w->out
             : nn_rnn_skip(a, w->kept, nn_rnn_locate_output(a, w->layer));
  if (w->layer == 0 || a->p <= 0) return TN_OK;
  code = nn_run_parallel(a->call, (nn_rnn_count_outputs(a) + 3) / 4, 32,
                         drop_slice, w);
  w->x = w->dropped;
  return code;
}

/* ----------------------------------------------------------------- forward */

/* Computes the current layer. */
static int32_t compute_layer(forward_work *w) {
  const nn_rnn_call *a = &w->a;
  int32_t code = open_layer(w);
  for (int64_t d = 0; d < a->directions && code == TN_OK; ++d) {
    pack_weights(w, d, count_lanes(a));
    add_biases(w, d);
    code = multiply_inputs(w, d);
  }
  if (code == TN_OK)
    code = nn_run_parallel(
        a->call, a->directions * w->pieces,
        NN_RNN_ROWS * a->steps * a->gates * a->units * (1 + a->units / 16),
        run_slice, w);
  if (code == TN_OK) write_states(w);
  return code;
}

/* Opens the operands of a call. */
static nn_wide_operands open_operands(forward_work *w, uint64_t skip) {
  const tn_frame *call = w->a.call;
  nn_wide_operands wide =
      nn_open_wide_operands(call, call->in[NN_RNN_IN_DATA].dtype, skip);
  const tn_tensor *state = nn_rnn_input(call, NN_RNN_IN_STATE);
  const tn_tensor *cell = nn_rnn_input(call, NN_RNN_IN_STATE_CELL);
  w->data = nn_widen_input(&wide, &call->in[NN_RNN_IN_DATA]);
  w->parameters = nn_widen_input(&wide, &call->in[NN_RNN_IN_PARAMETERS]);
  if (state) w->state = nn_widen_input(&wide, state);
  if (cell) w->state_cell = nn_widen_input(&wide, cell);
  if (call->req[NN_RNN_OUT_OUT] != TN_REQ_NULL)
    w->out = nn_locate_wide_output(&wide, &call->out[NN_RNN_OUT_OUT],
                                   call->req[NN_RNN_OUT_OUT]);
  w->state_out = nn_locate_wide_output(&wide, &call->out[NN_RNN_OUT_STATE_OUT],
                                       call->req[NN_RNN_OUT_STATE_OUT]);
  w->cell_out = nn_locate_wide_output(&wide, &call->out[NN_RNN_OUT_CELL_OUT],
                                      call->req[NN_RNN_OUT_CELL_OUT]);
  return wide;
}

int32_t nn_rnn(const tn_frame *call) {
  nn_rnn_memory memory = {call->ws[0], 0};
  forward_work w = plan_forward(call, &memory);
  const nn_wide_operands wide = open_operands(&w, memory.bytes);
  const int64_t cells = w.a.batch * w.a.units;
  int32_t code = TN_OK;
  if (cells > 0)
    memset((char *)(uintptr_t)w.zeros, 0, (size_t)(cells * w.a.bytes));
  w.drops = call->run->n_random > 0;
  for (; w.layer < w.a.layers && code == TN_OK; ++w.layer)
    code = compute_layer(&w);
  if (code != TN_OK) return code;
  if (call->req[NN_RNN_OUT_OUT] != TN_REQ_NULL)
    nn_store_wide_output(&wide, &call->out[NN_RNN_OUT_OUT], w.out);
  nn_store_wide_output(&wide, &call->out[NN_RNN_OUT_STATE_OUT], w.state_out);
  nn_store_wide_output(&wide, &call->out[NN_RNN_OUT_CELL_OUT], w.cell_out);
  if (w.keeps) nn_store_wide_output(&wide, &call->out[NN_RNN_OUT_KEPT], w.kept);
  return TN_OK;
}
