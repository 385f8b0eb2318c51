/* SPDX-License-Identifier: Apache-2.0
 * ctc_loss.c: kernels of ctc_loss.yaml. A sequence is the unit of work. Its
 * states, and the sums of their probabilities, are in one of the workspaces
 * that the slices share.
 */
#include "ctc_loss.gen.h"

#include "axis.h"
#include "workspaces.h"

enum { FRONT = 8 }; /* numbers before a row of states */

/* A sequence and its label. */
typedef struct ctc_sample {
  int64_t steps;     /* steps that count */
  int64_t all_steps; /* steps of data */
  int64_t symbols;
  int64_t distance; /* distance of steps in data, in elements */
  int64_t states;
  const int64_t *state; /* symbol of each state */
  double *skips; /* 1 for states that paths may reach from the state before the
                    last one, otherwise 0; two more follow */
  double *own;   /* room for a number of each state */
  double *sum;   /* the same */
  double *beta;  /* the same */
  double *zeros; /* a 0 for each state */
  double *alpha; /* rows of alpha: of every step, or of two in turns */
  int64_t row;   /* distance of rows */
  int keeps;     /* every step has a row */
  double loss;   /* the result */
} ctc_sample;

/* Returns the row of alpha of a step. */
static double *locate_alpha(const ctc_sample *c, int64_t step) {
  return c->alpha + (c->keeps ? step + 1 : (step + 2) % 2) * c->row;
}

/* Returns the logarithm of the sum of two exponentials. */
static double add_logarithms(double a, double b) {
  const double top = a > b ? a : b, least = a > b ? b : a;
  return top == -(double)INFINITY ? top : top + log1p(exp(least - top));
}

#define NN_EACH "ctc_rows.h"
#include "each.h"

/* ------------------------------------------------------------------- sizes */

typedef struct ctc_work {
  const tn_frame *call;
  tn_kernel_mode mode;
  int64_t steps; /* sizes of the operands */
  int64_t batch;
  int64_t symbols;
  int64_t places; /* symbols of a label, at most */
  int64_t bytes;  /* bytes of an element */
  int64_t blank;
  int64_t least;    /* least symbol of a label */
  int keeps;        /* the gradient is requested */
  int64_t *lengths; /* steps and symbols of each sequence */
  int64_t *labels;
  const char *from;
  char *to; /* gradient; or NULL */
  double *losses;
  nn_workspaces rooms;
} ctc_work;

/* Returns the numbers between two rows of states. */
static int64_t count_row(const ctc_work *w) {
  return (2 * w->places + 1 + 2 + FRONT + 7) / 8 * 8;
}

/* Creates the state of a forward call without its operands. */
static ctc_work make_work(const tn_frame *call) {
  enum { ROWS = 6 }; /* rows of a sample besides alpha, and states */
  const tn_tensor *data = &call->in[NN_CTC_LOSS_IN_DATA];
  const int is_last =
      nn_ctc_loss_params_of(call)->blank_label == NN_CTC_LOSS_BLANK_LABEL_LAST;
  ctc_work w = {.call = call,
                .steps = data->shape[0],
                .batch = data->shape[1],
                .symbols = data->shape[2],
                .places = call->in[NN_CTC_LOSS_IN_LABEL].shape[1]};
  w.mode =
      (tn_kernel_mode){tn_kernel_compute(data->dtype), tn_kernel_level(call)};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  w.blank = is_last ? w.symbols - 1 : 0;
  w.least = is_last ? 0 : 1;
  w.rooms.n = nn_choose_workspace_count(w.batch);
  /* Two rows are prepared even if there is no step. */
  const int64_t rows = (w.steps > 0 ? w.steps : 1) + 1 + ROWS;
  w.rooms.bytes = (uint64_t)(rows * count_row(&w)) * sizeof(double);
  return w;
}

/* Returns the bytes of workspace for lengths, labels and losses. */
static uint64_t count_own_bytes(const ctc_work *w) {
  return ((uint64_t)(w->batch * (3 + w->places)) * sizeof(int64_t) + 63) / 64 *
         64;
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_ctc_loss_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const ctc_work w = make_work(call);
  if (w.batch == 0) return TN_OK;
  *bytes = count_own_bytes(&w) + w.rooms.n * w.rooms.bytes +
           2 * nn_count_wide_bytes(&call->in[NN_CTC_LOSS_IN_DATA]);
  return TN_OK;
}

/* ---------------------------------------------------------------- operands */

/* Reads one number of an operand as f64. */
static double read_number(const tn_tensor *from, int64_t at) {
  const tn_kernel_mode mode = {TN_F64, 0};
  double number;
  tn_kernel_load_dense(
      &number, &mode,
      (const char *)from->data + at * tn_dtype_bytes(from->dtype), from->dtype,
      1);
  return number;
}

/* Reads the length of sequence n from an input, which must be from 0 to `most`.
 */
static int32_t read_length(const ctc_work *w, uint32_t input, int64_t n,
                           int64_t most, int64_t *to) {
  const double length = read_number(&w->call->in[input], n);
  if (!(length >= 0 && length < (double)most + 1))
    return TN_FAIL(
        w->call, TN_OUT_OF_RANGE,
        "element %lld of `%s` is %g, but it must be from 0 to %lld",
        (long long)n,
        input == NN_CTC_LOSS_IN_DATA_LENGTHS ? "data_lengths" : "label_lengths",
        length, (long long)most);
  *to = (int64_t)length;
  return TN_OK;
}

/* Reads the label of sequence n, up to a number below all symbols unless its
 * length is `length`; -1: it is not known. Sets *count to its symbols. */
static int32_t read_label(const ctc_work *w, int64_t n, int64_t length,
                          int64_t *count) {
  const tn_tensor *label = &w->call->in[NN_CTC_LOSS_IN_LABEL];
  const int64_t most = w->least + w->symbols - 2;
  const int64_t end = length < 0 ? w->places : length;
  for (*count = 0; *count < end; ++*count) {
    const int64_t at = n * w->places + *count;
    const double symbol = read_number(label, at);
    if (length < 0 && symbol < (double)w->least) return TN_OK;
    if (!(symbol >= (double)w->least && symbol < (double)most + 1))
      return TN_FAIL(w->call, TN_OUT_OF_RANGE,
                     "element %lld of `label` is %g, but its symbols are from "
                     "%lld to %lld",
                     (long long)at, symbol, (long long)w->least,
                     (long long)most);
    w->labels[at] = (int64_t)symbol;
  }
  return TN_OK;
}

/* Reads the lengths and labels of all sequences. */
static int32_t read_sequences(const ctc_work *w) {
  const nn_ctc_loss_params *p = nn_ctc_loss_params_of(w->call);
  int32_t code = TN_OK;
  for (int64_t n = 0; n < w->batch && code == TN_OK; ++n) {
    int64_t length = -1;
    w->lengths[2 * n] = w->steps;
    if (p->use_data_lengths)
      code = read_length(w, NN_CTC_LOSS_IN_DATA_LENGTHS, n, w->steps,
                         &w->lengths[2 * n]);
    if (code == TN_OK && p->use_label_lengths)
      code =
          read_length(w, NN_CTC_LOSS_IN_LABEL_LENGTHS, n, w->places, &length);
    if (code == TN_OK) code = read_label(w, n, length, &w->lengths[2 * n + 1]);
  }
  return code;
}

/* ----------------------------------------------------------------- forward */

/* Prepares the states of sequence n in a workspace. */
static ctc_sample make_sample(const ctc_work *w, int64_t n, char *memory) {
  const int64_t row = count_row(w), *label = w->labels + n * w->places;
  double *rows = (double *)(void *)memory + FRONT;
  int64_t *state = (int64_t *)(void *)rows;
  ctc_sample c = {.steps = w->lengths[2 * n],
                  .all_steps = w->steps,
                  .symbols = w->symbols,
                  .distance = w->batch * w->symbols,
                  .states = 2 * w->lengths[2 * n + 1] + 1,
                  .state = state,
                  .skips = rows + row,
                  .own = rows + 2 * row,
                  .sum = rows + 3 * row,
                  .beta = rows + 4 * row,
                  .zeros = rows + 5 * row,
                  .alpha = rows + 6 * row,
                  .row = row,
                  .keeps = w->to != NULL};
  for (int64_t s = 0; s < c.states; ++s) {
    state[s] = s % 2 == 1 ? label[s / 2] : w->blank;
    c.skips[s] = s > 1 && s % 2 == 1 && label[s / 2] != label[s / 2 - 1];
    c.zeros[s] = 0;
  }
  for (int k = 0; k < 2; ++k) {
    c.skips[c.states + k] = 0;
    c.sum[c.states + k] = -(double)INFINITY;
  }
  for (int64_t t = 0; t < (c.keeps ? w->steps + 1 : 2); ++t)
    c.alpha[t * row - 1] = c.alpha[t * row - 2] = -(double)INFINITY;
  return c;
}

/* Computes sequences [begin, end). */
static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(compute_sample);
  ctc_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->rooms);
  for (int64_t n = begin; n < end; ++n) {
    const int64_t skip = n * w->symbols * w->bytes;
    ctc_sample c = make_sample(w, n, nn_locate_workspace(&w->rooms, slot));
    const tn_kernel_block block = {
        .n = 1,
        .out = w->to ? w->to + skip : NULL,
        .in = {w->steps > 0 ? w->from + skip : NULL}};
    nn_run_loop(&w->mode, &loops, &block, &c);
    w->losses[n] = c.loss;
  }
  nn_release_workspace(&w->rooms, slot);
  return TN_OK;
}

int32_t nn_ctc_loss(const tn_frame *call) {
  const tn_kernel_mode f64 = {TN_F64, tn_kernel_level(call)};
  const tn_tensor *out = &call->out[NN_CTC_LOSS_OUT_OUT];
  const tn_tensor *gradient = &call->out[NN_CTC_LOSS_OUT_BY_DATA];
  ctc_work w = make_work(call);
  if (w.batch == 0) return TN_OK;
  w.lengths = call->ws[0];
  w.labels = w.lengths + 2 * w.batch;
  w.losses = (double *)(void *)(w.labels + w.places * w.batch);
  w.rooms.memory = (char *)call->ws[0] + count_own_bytes(&w);
  int32_t code = read_sequences(&w);
  if (code != TN_OK) return code;
  nn_wide_operands wide = nn_open_wide_operands(
      call, out->dtype, count_own_bytes(&w) + w.rooms.n * w.rooms.bytes);
  w.from = nn_widen_input(&wide, &call->in[NN_CTC_LOSS_IN_DATA]);
  w.to = nn_locate_wide_output(&wide, gradient,
                               call->req[NN_CTC_LOSS_OUT_BY_DATA]);
  code = nn_run_parallel(call, w.batch,
                         w.steps * (w.symbols + 8 * (2 * w.places + 1)),
                         forward_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, gradient, w.to);
  if (call->req[NN_CTC_LOSS_OUT_OUT] != TN_REQ_NULL)
    tn_kernel_store_dense(out->data, out->dtype, w.losses, &f64, w.batch);
  return TN_OK;
}

/* ---------------------------------------------------------------- backward */

/* Arguments of a backward call. */
typedef struct ctc_products {
  const tn_tensor *head; /* gradient of the losses */
  const tn_tensor *by_data;
  const tn_tensor *to;
  int64_t symbols;
} ctc_products;

/* Multiplies rows [begin, end) of the saved gradient by that of their loss; a
 * row has the symbols of one step of one sequence. */
static int32_t backward_slice(void *arg, int64_t begin, int64_t end) {
  enum { STAGE = 256 };
  const tn_kernel_mode mode = {TN_F64, 0};
  const ctc_products *p = arg;
  const tn_dtype dtype = p->to->dtype;
  const int64_t bytes = tn_dtype_bytes(dtype), batch = p->head->shape[0];
  double part[STAGE];
  for (int64_t r = begin; r < end; ++r) {
    const double factor = read_number(p->head, r % batch);
    for (int64_t at = 0; at < p->symbols; at += STAGE) {
      const int64_t left = p->symbols - at, n = left < STAGE ? left : STAGE;
      const int64_t skip = (r * p->symbols + at) * bytes;
      tn_kernel_load_dense(part, &mode, (const char *)p->by_data->data + skip,
                           dtype, n);
      for (int64_t i = 0; i < n; ++i) part[i] *= factor;
      tn_kernel_store_dense((char *)p->to->data + skip, dtype, part, &mode, n);
    }
  }
  return TN_OK;
}

int32_t nn_ctc_loss_backward(const tn_frame *call) {
  ctc_products p = {.head = &call->in[NN_CTC_LOSS_BACKWARD_GRAD_OUT],
                    .by_data = &call->in[NN_CTC_LOSS_BACKWARD_OUT_BY_DATA],
                    .to = &call->out[NN_CTC_LOSS_IN_DATA]};
  if (call->req[NN_CTC_LOSS_IN_DATA] == TN_REQ_NULL ||
      tn_tensor_size(p.to) == 0)
    return TN_OK;
  p.symbols = p.to->shape[2];
  return nn_run_parallel(call, tn_tensor_size(p.to) / p.symbols, p.symbols,
                         backward_slice, &p);
}
