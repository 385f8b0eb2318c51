/* SPDX-License-Identifier: Apache-2.0
 * Register runs of calls with two outputs, one of which may overwrite the
 * input. A kernel computes both outputs of an element before it writes either;
 * register kernels compute one after the other.
 */
#include <stdio.h>

#include "../by_hand.h"
#include "levels.h"

enum { N = 9001 };

/* ----------------------------------------------------------------- operators
 */

static int32_t run_both(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *more = call->out[0].data, *twice = call->out[1].data;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    const float each = x[i];
    more[i] = each + 1;
    twice[i] = 2 * each;
  }
  return TN_OK;
}

TN_KERNEL_BODY void more_of(const tn_kernel_block *block, const void *params) {
  const float *x = block->in[0];
  float *y = block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] = x[i] + 1;
}
TN_KERNEL_REGISTERS_1(more_of)

TN_KERNEL_BODY void twice_of(const tn_kernel_block *block, const void *params) {
  const float *x = block->in[0];
  float *y = block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] = 2 * x[i];
}
TN_KERNEL_REGISTERS_1(twice_of)

static const tn_kernel_map maps[] = {
    {.out = 0,
     .n_in = 1,
     .in = {0},
     .registers = TN_KERNEL_IN_REGISTERS_1(more_of)},
    {.out = 1,
     .n_in = 1,
     .in = {0},
     .registers = TN_KERNEL_IN_REGISTERS_1(twice_of)}};

static int32_t prepare_both(const tn_frame *call, tn_plan *plan) {
  if (!(call->flags & TN_CALL_REGISTERS)) return TN_OK;
  return tn_kernel_map_offer(call, plan, maps, 2);
}

/* Not element by element: its operands are in memory. */
static int32_t run_turn(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  for (int64_t i = 0; i < n; ++i) y[i] = x[n - 1 - i];
  return TN_OK;
}

#define ARG(text, kind, place)                                     \
  {                                                                \
    .struct_size = sizeof(tn_arg), .flags = TN_ARG_CONTIGUOUS,     \
    .dtype_var = TN_NONE, .dtype = TN_F32, .dtype_param = TN_NONE, \
    .shape_kind = (kind), .inplace = (place), .init = TN_NONE,     \
    .count = TN_NONE, .name = (text)                               \
  }
static const tn_arg x_arg = ARG("x", TN_SHAPE_ANY, TN_NONE),
                    more_arg = ARG("more", TN_SHAPE_SAME, 0),
                    twice_arg = ARG("twice", TN_SHAPE_SAME, TN_NONE);
static const tn_arg *const ins[] = {&x_arg},
                           *const both[] = {&more_arg, &twice_arg},
                           *const turned[] = {&twice_arg};
static const tn_gradient no_gradient = {.struct_size = sizeof(tn_gradient),
                                        .why = "nobody needs one"};
#define OPERATOR(text, n, made)                                              \
  {                                                                          \
    .struct_size = sizeof(tn_op), .interface = 1, .since = 1, .n_inputs = 1, \
    .n_outputs = (n), .name = (text), .summary = (text), .inputs = ins,      \
    .outputs = (made), .gradient = &no_gradient                              \
  }
static const tn_op both_op = OPERATOR("both", 2, both),
                   turn_op = OPERATOR("turn", 1, turned);
static const tn_op *const ops[] = {&both_op, &turn_op};
static const tn_kernel both_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags = TN_KERNEL_REENTRANT | TN_KERNEL_ELEMENTWISE | TN_KERNEL_REGISTERS,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE,
    .when = TN_NONE,
    .op = "twins.both@1",
    .id = "twins.both.cpu",
    .prepare = prepare_both,
    .compute = run_both};
static const tn_kernel turn_kernel = {.struct_size = sizeof(tn_kernel),
                                      .flags = TN_KERNEL_REENTRANT,
                                      .device_type = TN_DEVICE_CPU,
                                      .writes = TN_WRITES_WRITE,
                                      .when = TN_NONE,
                                      .op = "twins.turn@1",
                                      .id = "twins.turn.cpu",
                                      .compute = run_turn};
static const tn_kernel *const kernels[] = {&both_kernel, &turn_kernel};
static const tn_plugin twins = {
    PLUGIN_BY_HAND("twins", 1, "Two outputs of one input"), .n_operators = 2,
    .n_kernels = 2, .operators = ops, .kernels = kernels};

/* --------------------------------------------------------------------- tests
 */

/* After register_loops.h, because this header defines names of one letter. */
#include "evaluate.h"

static double number_for(int64_t i) {
  return (double)(i % 511) - 255;
}

static tn_entry twin_of(const char *op, tn_entry in) {
  const tn_graph_node node = {
      .struct_size = sizeof node, .n_in = 1, .op = op, .in = &in};
  tn_entry out;
  OK(tn__graph_call(g, &node, &out));
  return out;
}

static void expect_value(const tn_program *p, size_t head, int64_t i,
                         double wanted) {
  tn_array *array = NULL;
  OK(tn__program_output(p, head, &array));
  const float found = ((const float *)tn__array_data(array))[i];
  cr_assert_eq(found, (float)wanted, "head %zu, element %d: %g instead of %g",
               head, (int)i, (double)found, wanted);
}

/* `more` is read by a call of its own, and twice by the next register kernel.
 */
static void run_at(uint64_t features, bool in_registers) {
  world_features = features;
  net_open_on(1);
  OK(tn__plugin_add(w.registry, &twins));
  tn_array *x = numbers_of(TN_F32, SHAPE(N), number_for);
  const tn_entry made =
      twin_of("twins.both", twin_of("twins.turn", var_node(g, "x")));
  HEADS(g, OP(g, "affine", "scale=0.5 shift=3", NULL, output_of(made, 1)),
        twin_of("twins.turn", made));
  const tn_argument argument = {.name = "x", .array = x};
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = &argument, .n_arguments = 1};
  tn_program *p = NULL;
  OK(tn__program_bind(g, &how, &p));
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  cr_assert_eq(stats.n_in_registers, in_registers ? 2 : 0,
               "%d calls use registers", (int)stats.n_in_registers);
  OK(tn__program_forward(p, 0));
  for (int64_t i = 0; i < N; ++i) {
    expect_value(p, 0, i, number_for(N - 1 - i) + 3);
    expect_value(p, 1, i, number_for(i) + 1);
  }
  tn__program_release(p);
  tn__array_release(x);
  net_close();
  world_features = 0;
}

Test(register_pairs, read_their_input_before_it_is_overwritten) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  if (n < TN_KERNEL_N_LEVELS)
    printf("# SKIPPED: this machine has %zu of 3 levels of instructions\n", n);
  for (size_t i = 0; i < n; ++i)
    run_at(features[i], i > 0 && TN_KERNEL_HAS_REGISTERS);
}
