/* SPDX-License-Identifier: Apache-2.0
 * linear_attention.c: kernels of linear_attention.yaml. A slice of the work is
 * a head of keys of one batch, with all heads of queries that read its state:
 * steps depend on each other, heads do not.
 */
#include "linear_attention.h"

#include <math.h>

#include "axis.h"
#include "linear_attention.gen.h"
#include "nn.h"
#include "operands.h"
#include "workspaces.h"

#define NN_EACH "linear_attention_loops.h"
#include "each.h"

/* ------------------------------------------------------------------ shapes */

/* Infers the shape of the decays, of which a step has one or `depth`. */
int32_t nn_linear_attention_infer(const tn_frame *call) {
  const tn_tensor *k = &call->in[NN_LINEAR_ATTENTION_IN_K];
  const tn_tensor *decay = &call->in[NN_LINEAR_ATTENTION_IN_DECAY];
  if (call->n_in <= NN_LINEAR_ATTENTION_IN_DECAY ||
      call->in_flags[NN_LINEAR_ATTENTION_IN_DECAY] & TN_IN_ABSENT ||
      k->ndim != 4)
    return TN_OK;
  int64_t shape[4] = {k->shape[0], k->shape[1], k->shape[2], -1};
  if (decay->ndim == 4) shape[3] = decay->shape[3];
  if (shape[3] >= 0 && k->shape[3] >= 0 && shape[3] != 1 &&
      shape[3] != k->shape[3])
    return TN_FAIL(call, TN_SHAPE,
                   "`decay` %s must have one number or %lld for each step of "
                   "`k`, in its last dimension",
                   nn_print_shape(decay).text, (long long)k->shape[3]);
  return call->host->set_shape(call, TN_OPERAND_IN,
                               NN_LINEAR_ATTENTION_IN_DECAY, 4, shape);
}

/* ------------------------------------------------------------------- calls */

/* The operands of a call, as the argument of a parallel loop. The head is that
 * of the first slice. */
typedef struct linear_work {
  nn_linear_head head;
  nn_linear_gradients gradients;
  tn_kernel_mode mode;
  int64_t slices;
  int64_t bytes; /* bytes of a number */
  int is_back;
  nn_workspaces rooms;
} linear_work;

/* Returns input i of the forward call, in a forward or a backward call; NULL if
 * it is absent. */
static const tn_tensor *find_input(const tn_frame *call, uint32_t i) {
  const uint32_t skip = call->flags & TN_CALL_BACKWARD
                            ? (uint32_t)NN_LINEAR_ATTENTION_BACKWARD_IN_Q
                            : (uint32_t)NN_LINEAR_ATTENTION_IN_Q;
  if (skip + i >= call->n_in || call->in_flags[skip + i] & TN_IN_ABSENT)
    return NULL;
  return &call->in[skip + i];
}

/* Returns the sizes of a call, and its rooms. */
static linear_work make_work(const tn_frame *call) {
  const nn_linear_attention_params *p = nn_linear_attention_params_of(call);
  const tn_tensor *q = find_input(call, NN_LINEAR_ATTENTION_IN_Q);
  const tn_tensor *v = find_input(call, NN_LINEAR_ATTENTION_IN_V);
  const tn_tensor *decay = find_input(call, NN_LINEAR_ATTENTION_IN_DECAY);
  linear_work w = {.is_back = (call->flags & TN_CALL_BACKWARD) != 0};
  nn_linear_head *h = &w.head;
  h->steps = q->shape[2];
  h->depth = q->shape[3];
  h->width = v->shape[3];
  h->queries = v->shape[1] > 0 ? q->shape[1] / v->shape[1] : 0;
  h->decays = decay ? decay->shape[3] : 0;
  h->scale = p->has_scale   ? p->scale
             : h->depth > 0 ? 1 / sqrt((double)h->depth)
                            : 1;
  w.mode = (tn_kernel_mode){tn_kernel_compute(q->dtype), tn_kernel_level(call)};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  w.slices = v->shape[0] * v->shape[1];
  w.gradients.chunk = (int64_t)ceil(sqrt((double)h->steps));
  if (w.gradients.chunk < 1) w.gradients.chunk = 1;
  const int64_t numbers = w.is_back
                              ? nn_linear_count_backward(h, w.gradients.chunk)
                              : nn_linear_count_forward(h->depth, h->width);
  w.rooms.n = nn_choose_workspace_count(w.slices);
  w.rooms.bytes = ((uint64_t)(numbers * w.bytes) + 63) / 64 * 64;
  return w;
}

/* Sets *bytes to the size of the workspace of a call. */
int32_t nn_linear_attention_bytes(const tn_frame *call, uint64_t *bytes) {
  const linear_work w = make_work(call);
  *bytes = nn_operands_count_bytes(call) + w.rooms.n * w.rooms.bytes;
  return TN_OK;
}

/* Returns the address of element i of an array; NULL if there is no array. */
static void *skip_elements(const linear_work *w, const void *array, int64_t i) {
  return array ? (char *)(uintptr_t)array + i * w->bytes : NULL;
}

/* Returns the head of a slice. */
static nn_linear_head find_head(const linear_work *w, int64_t slice,
                                void *room) {
  nn_linear_head h = w->head;
  const int64_t keys = slice * h.steps * h.depth;
  const int64_t values = slice * h.steps * h.width;
  const int64_t states = slice * h.depth * h.width;
  h.q = skip_elements(w, h.q, keys * h.queries);
  h.k = skip_elements(w, h.k, keys);
  h.v = skip_elements(w, h.v, values);
  h.decay = skip_elements(w, h.decay, slice * h.steps * h.decays);
  h.beta = skip_elements(w, h.beta, slice * h.steps);
  h.state = skip_elements(w, h.state, states);
  h.out = skip_elements(w, h.out, values * h.queries);
  h.state_out = skip_elements(w, h.state_out, states);
  h.room = room;
  return h;
}

/* Computes the gradients of a slice. */
static void slope_slice(const linear_work *w, const nn_linear_head *h,
                        int64_t slice) {
  static const nn_loops loops = NN_LOOPS(slope_head);
  const tn_kernel_block block = {0};
  nn_linear_gradients g = w->gradients;
  const int64_t keys = slice * h->steps * h->depth;
  const int64_t values = slice * h->steps * h->width;
  const int64_t states = slice * h->depth * h->width;
  g.head = h;
  g.out = skip_elements(w, g.out, values * h->queries);
  g.state_out = skip_elements(w, g.state_out, states);
  g.q = skip_elements(w, g.q, keys * h->queries);
  g.k = skip_elements(w, g.k, keys);
  g.v = skip_elements(w, g.v, values);
  g.decay = skip_elements(w, g.decay, slice * h->steps * h->decays);
  g.beta = skip_elements(w, g.beta, slice * h->steps);
  g.state = skip_elements(w, g.state, states);
  nn_run_loop(&w->mode, &loops, &block, &g);
}

/* Computes slices [begin, end). */
static int32_t run_slices(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(run_head);
  const tn_kernel_block block = {0};
  linear_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->rooms);
  for (int64_t i = begin; i < end; ++i) {
    const nn_linear_head h =
        find_head(w, i, nn_locate_workspace(&w->rooms, slot));
    if (w->is_back)
      slope_slice(w, &h, i);
    else
      nn_run_loop(&w->mode, &loops, &block, &h);
  }
  nn_release_workspace(&w->rooms, slot);
  return TN_OK;
}

/* Opens input i of the forward call; NULL if it is absent. */
static const void *open_input(nn_operands *x, uint32_t i) {
  const tn_tensor *in = find_input(x->call, i);
  return in ? nn_operands_open_input(x, (uint32_t)(in - x->call->in)) : NULL;
}

/* Opens the inputs of the forward call. */
static void open_inputs(linear_work *w, nn_operands *x) {
  w->head.q = open_input(x, NN_LINEAR_ATTENTION_IN_Q);
  w->head.k = open_input(x, NN_LINEAR_ATTENTION_IN_K);
  w->head.v = open_input(x, NN_LINEAR_ATTENTION_IN_V);
  w->head.decay = open_input(x, NN_LINEAR_ATTENTION_IN_DECAY);
  w->head.beta = open_input(x, NN_LINEAR_ATTENTION_IN_BETA);
  w->head.state = open_input(x, NN_LINEAR_ATTENTION_IN_STATE);
}

/* Opens output i; NULL if it is not requested. */
static void *open_output(nn_operands *x, uint32_t i) {
  if (i >= x->call->n_out || x->call->req[i] == TN_REQ_NULL) return NULL;
  return nn_operands_open_output(x, i);
}

/* Runs the slices of a call, and stores its results, which are in `to`. */
static int32_t run_call(linear_work *w, nn_operands *x, void *const *to) {
  const tn_frame *call = x->call;
  const int64_t cost = w->head.steps * w->head.depth * w->head.width + 1;
  w->rooms.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  const int32_t code = nn_run_parallel(call, w->slices, cost, run_slices, w);
  for (uint32_t i = 0; code == TN_OK && i < call->n_out; ++i)
    if (to[i]) nn_operands_close_output(x, i, to[i]);
  return code;
}

int32_t nn_linear_attention(const tn_frame *call) {
  linear_work w = make_work(call);
  nn_operands x = nn_operands_open(call, call->ws[0]);
  void *to[2];
  open_inputs(&w, &x);
  to[0] = w.head.out = open_output(&x, NN_LINEAR_ATTENTION_OUT_OUT);
  to[1] = w.head.state_out = open_output(&x, NN_LINEAR_ATTENTION_OUT_STATE_OUT);
  return run_call(&w, &x, to);
}

int32_t nn_linear_attention_backward(const tn_frame *call) {
  enum { N = NN_LINEAR_ATTENTION_IN_STATE + 1 };
  linear_work w = make_work(call);
  nn_operands x = nn_operands_open(call, call->ws[0]);
  void *to[N];
  w.gradients.out =
      nn_operands_open_input(&x, NN_LINEAR_ATTENTION_BACKWARD_GRAD_OUT);
  w.gradients.state_out =
      nn_operands_open_input(&x, NN_LINEAR_ATTENTION_BACKWARD_GRAD_STATE_OUT);
  open_inputs(&w, &x);
  for (uint32_t i = 0; i < N; ++i) to[i] = open_output(&x, i);
  w.gradients.q = to[NN_LINEAR_ATTENTION_IN_Q];
  w.gradients.k = to[NN_LINEAR_ATTENTION_IN_K];
  w.gradients.v = to[NN_LINEAR_ATTENTION_IN_V];
  w.gradients.decay = to[NN_LINEAR_ATTENTION_IN_DECAY];
  w.gradients.beta = to[NN_LINEAR_ATTENTION_IN_BETA];
  w.gradients.state = to[NN_LINEAR_ATTENTION_IN_STATE];
  return run_call(&w, &x, to);
}
