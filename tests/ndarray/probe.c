/* SPDX-License-Identifier: Apache-2.0
 * probe.c: see probe.h. The kernels are slow and simple on purpose.
 */
#include "probe.h"
#include "../by_hand.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

probe_record probe;
int32_t probe_code;
int probe_silent;
int probe_shape;

/* ---------------------------------------------------------------- recording */

static void record_frame(const tn_frame *call) {
  probe.n_in = call->n_in;
  probe.n_out = call->n_out;
  probe.n_aux = call->n_aux;
  probe.n_ws = call->n_ws;
  probe.flags = call->flags;
  probe.prepared = call->prepared;
  for (uint32_t i = 0; i < call->n_in && i < PROBE_MAX; ++i) {
    probe.in[i] = call->in[i];
    probe.in_flags[i] = call->in_flags[i];
    if (!(call->in_flags[i] & TN_IN_ABSENT))
      probe.in_dense[i] = tn_tensor_is_contiguous(&call->in[i]);
  }
  for (uint32_t i = 0; i < call->n_out && i < PROBE_MAX; ++i) {
    probe.out[i] = call->out[i];
    probe.req[i] = call->req[i];
    probe.alias[i] = call->alias[i];
    probe.out_dense[i] = tn_tensor_is_contiguous(&call->out[i]);
  }
  for (uint32_t i = 0; i < call->n_ws && i < PROBE_MAX; ++i) {
    probe.ws[i] = call->ws[i];
    probe.ws_bytes[i] = call->ws_bytes[i];
  }
  ++probe.calls;
}

/* ----------------------------------------------------------------- elements */

static float *element_at(const tn_tensor *t, int64_t i) {
  int64_t offset = 0;
  for (int32_t d = t->ndim - 1; d >= 0; --d) {
    offset += i % t->shape[d] * t->strides[d];
    i /= t->shape[d];
  }
  return (float *)t->data + offset;
}

static void put_element(const tn_frame *call, uint32_t o, int64_t i,
                        float value) {
  float *to = NULL;
  if (call->req[o] == TN_REQ_NULL) return;
  to = element_at(&call->out[o], i);
  *to = call->req[o] == TN_REQ_ADD ? *to + value : value;
}

static int is_absent(const tn_frame *call, uint32_t i) {
  return (call->in_flags[i] & TN_IN_ABSENT) != 0;
}

/* ------------------------------------------------------------------ kernels */

static int32_t run_twice(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
    put_element(call, 0, i, 2 * *element_at(&call->in[0], i));
  return TN_OK;
}

void (*second_plugin_hook)(void);

static int32_t run_second(const tn_frame *call) {
  second_plugin_hook();
  return run_twice(call);
}

static int32_t run_sum(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    float sum = 0;
    for (uint32_t k = 0; k < call->n_in; ++k)
      sum += is_absent(call, k) ? 100 : *element_at(&call->in[k], i);
    put_element(call, 0, i, sum);
  }
  return TN_OK;
}

/* The output starts as a copy of input 0. */
static int32_t run_onto(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    *element_at(&call->out[0], i) += 3 * *element_at(&call->in[1], i);
  return TN_OK;
}

static int32_t run_split(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    float x = *element_at(&call->in[0], i);
    put_element(call, 0, i, x + 1);
    put_element(call, 1, i, x * 10);
  }
  return TN_OK;
}

static int32_t run_fill(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    put_element(call, 0, i, 7);
  return TN_OK;
}

static int32_t run_fail(const tn_frame *call) {
  record_frame(call);
  if (probe_silent) return probe_code;
  return TN_FAIL(call, probe_code, "element %d is odd", 3);
}

/* Copies the elements above zero, in their order. */
static int32_t run_pick(const tn_frame *call) {
  int64_t n = 0, all = tn_tensor_size(&call->in[0]), k = 0;
  record_frame(call);
  for (int64_t i = 0; i < all; ++i) n += *element_at(&call->in[0], i) > 0;
  const int64_t shape[] = {n, 1};
  if (probe_shape == 1) return TN_OK;
  int32_t rank = probe_shape == 3 ? 2 : 1;
  int32_t rc = call->host->set_shape(call, TN_OPERAND_OUT, 0, rank, shape);
  if (rc) return rc;
  if (probe_shape == 2)
    return call->host->set_shape(call, TN_OPERAND_OUT, 0, 1, shape);
  for (int64_t i = 0; i < all; ++i)
    if (*element_at(&call->in[0], i) > 0)
      put_element(call, 0, k++, *element_at(&call->in[0], i));
  return TN_OK;
}

static int32_t run_state(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    *element_at(&call->aux[0], 0) += *element_at(&call->in[0], i);
    put_element(call, 0, i, *element_at(&call->in[0], i));
  }
  return TN_OK;
}

static int32_t run_scratch(const tn_frame *call) {
  record_frame(call);
  for (uint32_t i = 0; i < call->n_ws; ++i)
    memset(call->ws[i], 0xff, (size_t)call->ws_bytes[i]);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
    put_element(call, 0, i, *element_at(&call->in[0], i));
  return TN_OK;
}

static void destroy_scratch(void *prepared) {
  ++probe.destroys;
  free(prepared);
}

static int32_t prepare_scratch(const tn_frame *call, tn_plan *plan) {
  ++probe.prepares;
  probe.data_in_prepare = call->in[0].data || call->out[0].data || call->ws;
  plan->n_ws = 3;
  plan->ws[0] = (tn_workspace){5, 0};
  plan->ws[1] = (tn_workspace){100, 4096};
  plan->ws[2] = (tn_workspace){0, 8};
  plan->prepared = malloc(16);
  plan->destroy = destroy_scratch;
  return plan->prepared ? TN_OK
                        : TN_FAIL(call, TN_OUT_OF_MEMORY, "no 16 bytes");
}

static int32_t prepare_bad(const tn_frame *call, tn_plan *plan) {
  (void)call;
  plan->n_ws = 1;
  plan->ws[0] = (tn_workspace){8, 24};
  plan->destroy = destroy_scratch;
  return TN_OK;
}

static int32_t prepare_random(const tn_frame *call, tn_plan *plan) {
  (void)call;
  plan->random_blocks = 10;
  return TN_OK;
}

static int32_t run_random(const tn_frame *call) {
  record_frame(call);
  probe.key = call->run->random[0]->key;
  probe.offset = call->run->random[0]->offset;
  return run_fill(call);
}

static int32_t run_draw(const tn_frame *call) {
  probe.offset = call->run->random[0]->offset;
  return run_pick(call);
}

/* in = [grad out, a, b, out], out = [grad a, grad b] */
static int32_t back_mul(const tn_frame *call) {
  record_frame(call);
  for (uint32_t k = 0; k < 2; ++k) {
    if (call->req[k] == TN_REQ_NULL) continue;
    const tn_tensor *other = &call->in[2 - k];
    for (int64_t i = 0; i < tn_tensor_size(&call->out[k]); ++i)
      put_element(call, k, i,
                  *element_at(&call->in[0], i) * *element_at(other, i));
  }
  return TN_OK;
}

static int32_t run_mul(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
    put_element(call, 0, i,
                *element_at(&call->in[0], i) * *element_at(&call->in[1], i));
  return TN_OK;
}

/* in = [grad out, grad high, x, out, high], out = [grad x] */
static int32_t back_split(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    put_element(
        call, 0, i,
        *element_at(&call->in[0], i) + 10 * *element_at(&call->in[1], i));
  return TN_OK;
}

/* in = [grad out, x, label, out], out = [grad x, grad label]; the number of
 * elements of x counts, not their values. */
static int32_t back_loss(const tn_frame *call) {
  record_frame(call);
  int64_t n = tn_tensor_size(&call->in[1]);
  for (int64_t i = 0; i < n; ++i)
    put_element(call, 0, i, (float)n * *element_at(&call->in[3], i));
  return TN_OK;
}

/* in = [grad out, grad high, x, out, high], out = [grad x]: as if high were the
 * gradient of out. */
static int32_t back_keep(const tn_frame *call) {
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    put_element(call, 0, i,
                *element_at(&call->in[0], i) * *element_at(&call->in[4], i));
  return TN_OK;
}

/* Returns element i of a broadcast to the shape of `like`. */
static float *at_wide(const tn_tensor *t, const tn_tensor *like, int64_t i) {
  int64_t offset = 0;
  for (int32_t d = like->ndim - 1; d >= 0; --d) {
    const int32_t own = d - (like->ndim - t->ndim);
    if (own >= 0 && t->shape[own] != 1)
      offset += i % like->shape[d] * t->strides[own];
    i /= like->shape[d];
  }
  return (float *)t->data + offset;
}

static int32_t run_wide(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  record_frame(call);
  for (int64_t i = 0; i < tn_tensor_size(out); ++i)
    put_element(
        call, 0, i,
        *at_wide(&call->in[0], out, i) * *at_wide(&call->in[1], out, i));
  return TN_OK;
}

/* The same as back_mul, element by element at the shape of the output gradient.
 */
static int32_t back_wide(const tn_frame *call) {
  record_frame(call);
  for (uint32_t k = 0; k < 2; ++k) {
    if (call->req[k] == TN_REQ_NULL) continue;
    for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
      put_element(call, k, i,
                  *element_at(&call->in[0], i) *
                      *at_wide(&call->in[2 - k], &call->in[0], i));
  }
  return TN_OK;
}

/* in = [grad out, all inputs, out]; each input has the gradient of out. */
static int32_t back_fan(const tn_frame *call) {
  record_frame(call);
  for (uint32_t k = 0; k < call->n_out; ++k) {
    if (call->req[k] == TN_REQ_NULL) continue;
    for (int64_t i = 0; i < tn_tensor_size(&call->out[k]); ++i)
      put_element(call, k, i, *element_at(&call->in[0], i));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- tables */

#define ARG(id, text, bits, kind, place, start)            \
  static const tn_arg id = {.struct_size = sizeof(tn_arg), \
                            .flags = (bits),               \
                            .dtype_var = 0,                \
                            .dtype_param = TN_NONE,        \
                            .shape_kind = (kind),          \
                            .inplace = (place),            \
                            .init = (start),               \
                            .count = TN_NONE,              \
                            .name = (text),                \
                            .doc = (text)}
ARG(in_x, "x", 0, TN_SHAPE_ANY, TN_NONE, TN_NONE);
ARG(in_y, "y", 0, TN_SHAPE_SAME, TN_NONE, TN_NONE);
ARG(in_z, "z", 0, TN_SHAPE_ANY, TN_NONE, TN_NONE);
ARG(in_dense, "x", TN_ARG_CONTIGUOUS, TN_SHAPE_ANY, TN_NONE, TN_NONE);
ARG(in_more, "more", TN_ARG_VARIADIC, TN_SHAPE_SAME, TN_NONE, TN_NONE);
ARG(in_opt, "bias", TN_ARG_OPTIONAL, TN_SHAPE_SAME, TN_NONE, TN_NONE);
ARG(in_label, "label", 0, TN_SHAPE_SAME, TN_NONE, TN_NONE);
ARG(out_new, "out", 0, TN_SHAPE_SAME, TN_NONE, TN_NONE);
ARG(out_in, "out", 0, TN_SHAPE_SAME, 0, TN_NONE);
ARG(out_dense, "out", TN_ARG_CONTIGUOUS, TN_SHAPE_SAME, 0, TN_NONE);
ARG(out_onto, "out", 0, TN_SHAPE_SAME, 0, 0);
ARG(out_high, "high", TN_ARG_HIDDEN, TN_SHAPE_SAME, TN_NONE, TN_NONE);
ARG(out_any, "out", 0, TN_SHAPE_ANY, TN_NONE, TN_NONE);
ARG(out_flat, "out", 0, TN_SHAPE_ANY, 0, TN_NONE);
ARG(out_wide, "out", 0, TN_SHAPE_BROADCAST, TN_NONE, TN_NONE);
ARG(out_some, "some", TN_ARG_DYNAMIC, TN_SHAPE_ANY, TN_NONE, TN_NONE);
ARG(aux_sum, "total", 0, TN_SHAPE_ANY, TN_NONE, TN_NONE);

static const tn_arg *const
    only_x[] = {&in_x},
    *const x_y[] = {&in_x, &in_y}, *const x_z[] = {&in_x, &in_z},
    *const dense_x[] = {&in_dense}, *const x_more[] = {&in_x, &in_more},
    *const x_opt[] = {&in_x, &in_opt}, *const x_label[] = {&in_x, &in_label};
static const tn_arg *const
    to_new[] = {&out_new},
    *const to_in[] = {&out_in}, *const to_dense[] = {&out_dense},
    *const to_onto[] = {&out_onto}, *const to_two[] = {&out_new, &out_high},
    *const to_any[] = {&out_any}, *const to_wide[] = {&out_wide},
    *const to_some[] = {&out_some}, *const to_flat[] = {&out_flat};
static const tn_arg *const sum_state[] = {&aux_sum};

static const tn_dtype_var var_t = {.struct_size = sizeof(tn_dtype_var),
                                   .allowed = TN_BIT_F32 | TN_BIT_F64,
                                   .name = "T"};
static const tn_dtype_var *const vars[] = {&var_t};

static const tn_need need_a[] = {{TN_NEED_GRAD_OUT, 0, 0, 0},
                                 {TN_NEED_IN, 1, 0, 0}};
static const tn_need need_b[] = {{TN_NEED_GRAD_OUT, 0, 0, 0},
                                 {TN_NEED_IN, 0, 0, 0}};
static const tn_need need_heads[] = {{TN_NEED_GRAD_OUT, 0, 0, 0},
                                     {TN_NEED_GRAD_OUT, 1, 0, 0}};
static const tn_need need_keep[] = {{TN_NEED_GRAD_OUT, 0, 0, 0},
                                    {TN_NEED_OUT, 1, 0, 0}};
static const tn_need need_head[] = {{TN_NEED_GRAD_OUT, 0, 0, 0}};
static const tn_need need_loss[] = {{TN_NEED_IN, 0, 1, 0},
                                    {TN_NEED_OUT, 0, 0, 0}};
#define RULE(id, list, place, never)                                          \
  static const tn_input_gradient id = {.struct_size = sizeof id,              \
                                       .stop = (never),                       \
                                       .n_needs = sizeof list / sizeof *list, \
                                       .inplace = (place),                    \
                                       .needs = list}
RULE(rule_a, need_a, 0, 0);
RULE(rule_b, need_b, TN_NONE, 0);
RULE(rule_heads, need_heads, TN_NONE, 0);
RULE(rule_loss, need_loss, TN_NONE, 0);
RULE(rule_keep, need_keep, TN_NONE, 0);
RULE(rule_head, need_head, TN_NONE, 0);
static const tn_input_gradient rule_stop = {
    .struct_size = sizeof rule_stop, .stop = 1, .inplace = TN_NONE};
static const tn_input_gradient *const rules_mul[] = {&rule_a, &rule_b},
                                      *const rules_split[] = {&rule_heads},
                                      *const rules_loss[] = {&rule_loss,
                                                             &rule_stop},
                                      *const rules_keep[] = {&rule_keep},
                                      *const rules_fan[] = {&rule_head,
                                                            &rule_head};
#define GRADIENT(id, list)                                               \
  static const tn_gradient id = {.struct_size = sizeof id,               \
                                 .kind = TN_GRADIENT_KERNEL,             \
                                 .n_inputs = sizeof list / sizeof *list, \
                                 .inputs = list}
GRADIENT(gradient_mul, rules_mul);
GRADIENT(gradient_split, rules_split);
GRADIENT(gradient_loss, rules_loss);
GRADIENT(gradient_keep, rules_keep);
GRADIENT(gradient_fan, rules_fan);
static const tn_gradient gradient_none = {.struct_size = sizeof gradient_none,
                                          .kind = TN_GRADIENT_NONE,
                                          .why = "it only records"};

#define N(list) ((uint32_t)(sizeof list / sizeof *list))
#define OP_AUX(id, text, ins, outs, n_states, states, grad) \
  static const tn_op id = {.struct_size = sizeof(tn_op),    \
                           .interface = 1,                  \
                           .since = 1,                      \
                           .n_dtype_vars = 1,               \
                           .n_inputs = N(ins),              \
                           .n_outputs = N(outs),            \
                           .n_aux = (n_states),             \
                           .name = (text),                  \
                           .summary = (text),               \
                           .dtype_vars = vars,              \
                           .inputs = ins,                   \
                           .outputs = outs,                 \
                           .aux = (states),                 \
                           .gradient = &(grad)}
#define OP(id, text, ins, outs, grad) OP_AUX(id, text, ins, outs, 0, NULL, grad)
OP(op_all, "all", only_x, to_in, gradient_none);
OP(op_write, "write", only_x, to_in, gradient_none);
OP(op_add, "add", only_x, to_in, gradient_none);
OP(op_place, "place", only_x, to_in, gradient_none);
OP(op_sum, "sum", x_y, to_in, gradient_none);
OP(op_dense, "dense", dense_x, to_dense, gradient_none);
OP(op_onto, "onto", x_y, to_onto, gradient_none);
OP(op_flat, "flat", only_x, to_flat, gradient_none);
OP(op_split, "split", only_x, to_two, gradient_split);
OP(op_fail, "fail", only_x, to_new, gradient_none);
OP(op_pick, "pick", only_x, to_some, gradient_none);
OP_AUX(op_state, "state", only_x, to_new, 1, sum_state, gradient_none);
OP(op_join, "join", x_more, to_new, gradient_none);
OP(op_opt, "opt", x_opt, to_new, gradient_none);
OP(op_scratch, "scratch", only_x, to_new, gradient_none);
OP(op_bad, "bad", only_x, to_new, gradient_none);
OP(op_random, "random", only_x, to_new, gradient_none);
OP(op_noise, "noise", only_x, to_new, gradient_none);
OP(op_draw, "draw", only_x, to_some, gradient_none);
OP(op_mul, "mul", x_y, to_new, gradient_mul);
OP(op_loss, "loss", x_label, to_new, gradient_loss);
OP(op_keep, "keep", only_x, to_two, gradient_keep);
OP(op_fan, "fan", x_more, to_new, gradient_fan);
OP(op_wide, "wide", x_z, to_wide, gradient_mul);
OP(op_either, "either", x_y, to_in, gradient_none);
OP(op_second, "second", x_y, to_in, gradient_none);
OP(op_older, "older", x_y, to_in, gradient_none);
OP(op_times, "times", x_y, to_new, gradient_mul);
static const tn_op op_fill = {.struct_size = sizeof(tn_op),
                              .interface = 1,
                              .since = 1,
                              .n_dtype_vars = 1,
                              .n_outputs = 1,
                              .name = "fill",
                              .summary = "fill",
                              .dtype_vars = vars,
                              .outputs = to_any,
                              .gradient = &gradient_none};
static const tn_op *const operators[] = {
    &op_all,  &op_write,   &op_add,    &op_place,  &op_sum,   &op_dense,
    &op_onto, &op_split,   &op_fail,   &op_pick,   &op_state, &op_join,
    &op_opt,  &op_scratch, &op_bad,    &op_random, &op_mul,   &op_loss,
    &op_fill, &op_keep,    &op_fan,    &op_wide,   &op_flat,  &op_noise,
    &op_draw, &op_either,  &op_second, &op_older,  &op_times};

#define W TN_WRITES_WRITE
#define I TN_WRITES_INPLACE
#define A TN_WRITES_ADD
static const uint32_t rng[] = {TN_RESOURCE_RANDOM};
static const uint64_t only_f32[] = {TN_BIT_F32};
#define KERNEL_OF(id_, text, way, bits, how, plan_, n_rng, more)       \
  static const tn_kernel id_ = {.struct_size = sizeof(tn_kernel),      \
                                .flags = TN_KERNEL_REENTRANT | (more), \
                                .pass = (way),                         \
                                .device_type = TN_DEVICE_CPU,          \
                                .writes = (bits),                      \
                                .n_dtype_sets = 1,                     \
                                .n_resources = (n_rng),                \
                                .when = TN_NONE,                       \
                                .op = "probe." text "@1",              \
                                .id = "probe." text ".cpu",            \
                                .dtype_sets = only_f32,                \
                                .resources = rng,                      \
                                .prepare = (plan_),                    \
                                .compute = (how)}
#define KERNEL(id, text, way, bits, how, plan, n_rng) \
  KERNEL_OF(id, text, way, bits, how, plan, n_rng, 0)
#define FORWARD(id, text, bits, how) \
  KERNEL(id, text, TN_PASS_FORWARD, bits, how, NULL, 0)
#define BACKWARD(id, text, bits, how) \
  KERNEL(id, text, TN_PASS_BACKWARD, bits, how, NULL, 0)
FORWARD(k_all, "all", W | I | A, run_twice);
FORWARD(k_write, "write", W, run_twice);
FORWARD(k_add, "add", A, run_twice);
FORWARD(k_place, "place", I, run_twice);
FORWARD(k_sum, "sum", W | I | A, run_sum);
FORWARD(k_dense, "dense", W | I | A, run_twice);
FORWARD(k_onto, "onto", W | I | A, run_onto);
FORWARD(k_flat, "flat", W | I, run_twice);
FORWARD(k_split, "split", W, run_split);
FORWARD(k_fail, "fail", W, run_fail);
FORWARD(k_pick, "pick", W, run_pick);
FORWARD(k_state, "state", W, run_state);
FORWARD(k_join, "join", W, run_sum);
FORWARD(k_opt, "opt", W, run_sum);
KERNEL(k_scratch, "scratch", TN_PASS_FORWARD, W, run_scratch, prepare_scratch,
       0);
KERNEL(k_bad, "bad", TN_PASS_FORWARD, W, run_scratch, prepare_bad, 0);
KERNEL(k_random, "random", TN_PASS_FORWARD, W, run_random, prepare_random, 1);
FORWARD(k_mul, "mul", W, run_mul);
FORWARD(k_loss, "loss", W, run_mul);
FORWARD(k_fill, "fill", W, run_fill);
FORWARD(k_keep, "keep", W, run_split);
FORWARD(k_fan, "fan", W, run_sum);
BACKWARD(b_mul, "mul", W | I | A, back_mul);
BACKWARD(b_split, "split", W, back_split);
BACKWARD(b_loss, "loss", W | A, back_loss);
BACKWARD(b_keep, "keep", W, back_keep);
BACKWARD(b_fan, "fan", W | A, back_fan);
FORWARD(k_wide, "wide", W, run_wide);
KERNEL(k_noise, "noise", TN_PASS_FORWARD, W, run_random, NULL, 1);
KERNEL(k_draw, "draw", TN_PASS_FORWARD, W, run_draw, NULL, 1);
KERNEL_OF(b_wide, "wide", TN_PASS_BACKWARD, W | A, back_wide, NULL, 0,
          TN_KERNEL_ELEMENTWISE);

/* Kernels with a list of pairs; the operator names input 0. The third has the
 * size of a table of ABI 0.1, which ends before the list. */
static const tn_inplace pairs_either[] = {{0, 0}, {1, 0}};
static const tn_inplace pairs_second[] = {{1, 0}};
/* The gradient of x comes first: it may overwrite y, which only it reads. */
static const tn_inplace pairs_times[] = {{2, 0}, {0, 1}, {1, 1}};
#define KERNEL_PAIRS(id_, text, way, bytes, how, list)            \
  static const tn_kernel id_ = {.struct_size = (uint32_t)(bytes), \
                                .flags = TN_KERNEL_REENTRANT,     \
                                .pass = (way),                    \
                                .device_type = TN_DEVICE_CPU,     \
                                .writes = W | I,                  \
                                .when = TN_NONE,                  \
                                .op = "probe." text "@1",         \
                                .id = "probe." text ".cpu",       \
                                .compute = (how),                 \
                                .n_inplace = N(list),             \
                                .inplace = list}
KERNEL_PAIRS(k_either, "either", TN_PASS_FORWARD, sizeof(tn_kernel), run_sum,
             pairs_either);
KERNEL_PAIRS(k_second, "second", TN_PASS_FORWARD, sizeof(tn_kernel), run_sum,
             pairs_second);
KERNEL_PAIRS(k_older, "older", TN_PASS_FORWARD, offsetof(tn_kernel, n_inplace),
             run_sum, pairs_either);
FORWARD(k_times, "times", W, run_mul);
KERNEL_PAIRS(b_times, "times", TN_PASS_BACKWARD, sizeof(tn_kernel), back_mul,
             pairs_times);
static const tn_kernel *const kernels[] = {
    &k_all,  &k_write,   &k_add,    &k_place,  &k_sum,   &k_dense,
    &k_onto, &k_split,   &k_fail,   &k_pick,   &k_state, &k_join,
    &k_opt,  &k_scratch, &k_bad,    &k_random, &k_mul,   &k_loss,
    &k_fill, &k_keep,    &k_fan,    &b_mul,    &b_split, &b_loss,
    &b_keep, &b_fan,     &k_wide,   &b_wide,   &k_flat,  &k_noise,
    &k_draw, &k_either,  &k_second, &k_older,  &k_times, &b_times};

const tn_plugin probe_plugin = {
    PLUGIN_BY_HAND("probe", 3, "Records how it is called"),
    .n_operators = N(operators), .n_kernels = N(kernels),
    .operators = operators, .kernels = kernels};

/* A second plugin: a better kernel for an operator of the first. */
static const tn_kernel second_kernel = {.struct_size = sizeof(tn_kernel),
                                        .flags = TN_KERNEL_REENTRANT,
                                        .pass = TN_PASS_FORWARD,
                                        .device_type = TN_DEVICE_CPU,
                                        .priority = 5,
                                        .writes = W,
                                        .n_dtype_sets = 1,
                                        .when = TN_NONE,
                                        .op = "probe.all@1",
                                        .id = "guest.all.cpu",
                                        .dtype_sets = only_f32,
                                        .compute = run_second};
static const tn_kernel *const second_kernels[] = {&second_kernel};
static const tn_target second_target = {.struct_size = sizeof(tn_target),
                                        .op = "probe.all@1"};
static const tn_target *const second_targets[] = {&second_target};

const tn_plugin second_plugin = {
    PLUGIN_BY_HAND("guest", 1, "Kernels for operators of probe"),
    .n_kernels = 1, .n_targets = 1, .kernels = second_kernels,
    .targets = second_targets};
