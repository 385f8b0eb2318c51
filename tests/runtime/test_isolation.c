/* SPDX-License-Identifier: Apache-2.0
 * test_isolation.c: the result of a call does not depend on whether its arrays
 * are ready, on earlier calls, or on earlier contents of memory.
 */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stddef.h>
#include <string.h>

#include "../by_hand.h"
#include "runtime.h"

/* ------------------------------------------------------------------ plugin */

typedef struct scale_params {
  double a;
} scale_params;

typedef struct text_params {
  const char *s;
} text_params;

static sem_t gate;
static int gated; /* calls of review.scale that wait for the gate */

static int32_t run_scale(const tn_frame *call) {
  const scale_params *p = call->params;
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  if (gated > 0) sem_wait(&gate);
  for (int64_t i = 0; i < n; ++i) y[i] = (float)p->a * x[i];
  return TN_OK;
}

static size_t text_length;

static int32_t run_text(const tn_frame *call) {
  const text_params *p = call->params;
  text_length = strlen(p->s);
  *(float *)call->out[0].data = *(const float *)call->in[0].data;
  return TN_OK;
}

static uint64_t drawn_key, drawn_offset;

static int32_t run_draw(const tn_frame *call) {
  drawn_key = call->run->random[0]->key;
  drawn_offset = call->run->random[0]->offset;
  *(float *)call->out[0].data = *(const float *)call->in[0].data;
  return TN_OK;
}

static int32_t prepare_draw(const tn_frame *call, tn_plan *plan) {
  (void)call;
  plan->random_blocks = 10;
  plan->n_ws = 1;
  plan->ws[0] = (tn_workspace){64, 0};
  return TN_OK;
}

static const tn_arg arg_x = {.struct_size = sizeof(tn_arg),
                             .dtype_var = 0,
                             .dtype_param = TN_NONE,
                             .shape_kind = TN_SHAPE_ANY,
                             .inplace = TN_NONE,
                             .init = TN_NONE,
                             .count = TN_NONE,
                             .name = "x",
                             .doc = "x"};
static const tn_arg arg_y = {.struct_size = sizeof(tn_arg),
                             .dtype_var = 0,
                             .dtype_param = TN_NONE,
                             .shape_kind = TN_SHAPE_SAME,
                             .inplace = TN_NONE,
                             .init = TN_NONE,
                             .count = TN_NONE,
                             .name = "y",
                             .doc = "y"};
static const tn_arg *const ins[] = {&arg_x}, *const outs[] = {&arg_y};
static const tn_dtype_var var_t = {
    .struct_size = sizeof(tn_dtype_var), .allowed = TN_BIT_F32, .name = "T"};
static const tn_dtype_var *const vars[] = {&var_t};
static const tn_gradient no_gradient = {.struct_size = sizeof(tn_gradient),
                                        .kind = TN_GRADIENT_NONE,
                                        .why = "it is a test"};
static const tn_field field_a = {.struct_size = sizeof(tn_field),
                                 .type = TN_FIELD_FLOAT,
                                 .flags = TN_FIELD_DYNAMIC,
                                 .offset = offsetof(scale_params, a),
                                 .has_offset = TN_NONE,
                                 .rank_of = TN_NONE,
                                 .max_rank = TN_NONE,
                                 .name = "a",
                                 .default_text = "2",
                                 .doc = "a"};
static const tn_field field_s = {.struct_size = sizeof(tn_field),
                                 .type = TN_FIELD_STRING,
                                 .offset = offsetof(text_params, s),
                                 .has_offset = TN_NONE,
                                 .rank_of = TN_NONE,
                                 .max_rank = TN_NONE,
                                 .name = "s",
                                 .default_text = "abc",
                                 .doc = "s"};
static const tn_field *const fields_a[] = {&field_a}, *const fields_s[] = {
                                                          &field_s};

#define OP(id, text, list, n, bytes)                     \
  static const tn_op id = {.struct_size = sizeof(tn_op), \
                           .interface = 1,               \
                           .since = 1,                   \
                           .params_size = (bytes),       \
                           .n_params = (n),              \
                           .n_dtype_vars = 1,            \
                           .n_inputs = 1,                \
                           .n_outputs = 1,               \
                           .name = (text),               \
                           .summary = (text),            \
                           .params = (list),             \
                           .dtype_vars = vars,           \
                           .inputs = ins,                \
                           .outputs = outs,              \
                           .gradient = &no_gradient}
OP(op_scale, "scale", fields_a, 1, sizeof(scale_params));
OP(op_text, "text", fields_s, 1, sizeof(text_params));
OP(op_draw, "draw", NULL, 0, 0);
static const tn_op *const operators[] = {&op_scale, &op_text, &op_draw};

static const uint32_t rng[] = {TN_RESOURCE_RANDOM};
#define KERNEL(id_, text, fn, plan, n)                            \
  static const tn_kernel id_ = {.struct_size = sizeof(tn_kernel), \
                                .flags = TN_KERNEL_REENTRANT,     \
                                .pass = TN_PASS_FORWARD,          \
                                .device_type = TN_DEVICE_CPU,     \
                                .writes = TN_WRITES_WRITE,        \
                                .n_resources = (n),               \
                                .when = TN_NONE,                  \
                                .op = "review." text "@1",        \
                                .id = "review." text ".cpu",      \
                                .resources = rng,                 \
                                .prepare = (plan),                \
                                .compute = (fn)}
KERNEL(k_scale, "scale", run_scale, NULL, 0);
KERNEL(k_text, "text", run_text, NULL, 0);
KERNEL(k_draw, "draw", run_draw, prepare_draw, 1);
static const tn_kernel *const kernels[] = {&k_scale, &k_text, &k_draw};
static const tn_plugin review_plugin = {
    PLUGIN_BY_HAND("review", 1, "Waits, draws, reads text"), .n_operators = 3,
    .n_kernels = 3, .operators = operators, .kernels = kernels};

/* ----------------------------------------------------------------- fixture */

static tn_runtime *rt;

static tn_runtime *open_with(uint32_t engine) {
  tn_runtime *made = NULL;
  const tn_options options = {
      .struct_size = sizeof options, .engine = engine, .workers = 2, .seed = 5};
  cr_assert_eq(tn_runtime_create(&options, &made), TN_OK);
  cr_assert_eq(tn_plugin_add(made, &review_plugin), TN_OK, "%s",
               tn_error_text());
  return made;
}

static void setup(void) {
  gated = 0;
  sem_init(&gate, 0, 0);
  rt = open_with(TN_ENGINE_POOLED);
}

static void teardown(void) {
  tn_runtime_release(rt);
}

TestSuite(isolation, .init = setup, .fini = teardown, .timeout = 100);

static tn_operator *op_of(tn_runtime *in, const char *name) {
  tn_operator *op = NULL;
  cr_assert_eq(tn_operator_get(in, name, &op), TN_OK, "%s", tn_error_text());
  return op;
}

enum {
  BIG = 100000
}; /* too many elements for a call to compute on its caller */

static tn_array *make_array(int64_t n) {
  tn_array *x = NULL;
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  return x;
}

static tn_array *make_filled(int64_t n, float value) {
  static float values[BIG];
  tn_array *x = make_array(n);
  for (int64_t i = 0; i < n; ++i) values[i] = value;
  cr_assert_eq(tn_array_set(x, values, (size_t)n * sizeof value), TN_OK);
  return x;
}

static float first_of(tn_array *x) {
  static float values[BIG];
  cr_assert_eq(
      tn_array_get(x, values, (size_t)tn_array_size(x) * sizeof *values), TN_OK,
      "%s", tn_error_text());
  return values[0];
}

static void call_operator(const char *name, tn_array *x, tn_array **y) {
  cr_assert_eq(tn_call(rt, op_of(rt, name), TN_IN(x), NULL, TN_OUT(y)), TN_OK,
               "%s", tn_error_text());
}

/* Returns the first element of an array that a worker computes when the gate
 * opens. */
static tn_array *make_pending(tn_array **big, tn_array **source) {
  tn_array *one = NULL;
  *source = make_filled(BIG, 1);
  *big = NULL;
  gated = 1;
  call_operator("review.scale", *source, big);
  cr_assert_eq(tn_array_slice(*big, &(tn_range){0, 0, 0, 1, 1}, &one), TN_OK);
  return one;
}

static void release_four(tn_array *a, tn_array *b, tn_array *c, tn_array *d) {
  tn_array_release(a), tn_array_release(b), tn_array_release(c),
      tn_array_release(d);
}

/* ------------------------------------------------------------------- draws */

Test(isolation, a_new_seed_is_for_later_calls) {
  tn_array *big, *source, *x = make_pending(&big, &source), *y = NULL;
  call_operator("review.draw", x, &y);
  cr_assert_eq(tn_array_wait_for(y, 0), TN_BUSY);
  sem_post(&gate);
  cr_assert_eq(tn_random_seed(rt, 123), TN_OK);
  cr_assert_eq(tn_array_wait(y), TN_OK);
  cr_assert_eq(drawn_key, 5);
  call_operator("review.draw", x, &y);
  cr_assert_eq(tn_array_wait(y), TN_OK);
  cr_assert(drawn_key == 123 && drawn_offset == 0);
  release_four(big, source, x, y);
}

Test(isolation, the_state_of_a_stream_counts_pending_calls) {
  tn_array *big, *source, *x = make_pending(&big, &source), *y = NULL;
  tn_random_state state;
  call_operator("review.draw", x, &y);
  sem_post(&gate);
  cr_assert_eq(tn_random_get(rt, &state), TN_OK);
  cr_assert_eq(state.drawn, 10);
  release_four(big, source, x, y);
}

/* Each call claims ten blocks, even if all temporary space is in use. */
Test(isolation, a_call_draws_the_same_numbers_with_other_calls) {
  tn_array *x = make_filled(1, 1), *y = make_filled(1, 0);
  for (int i = 0; i < 2; ++i) call_operator("review.draw", x, &y);
  cr_assert_eq(tn_array_wait(y), TN_OK);
  cr_assert_eq(drawn_offset, 10);
  /* All temporary space is in use. */
  tn__device *cpu = rt->env.cpu;
  for (uint32_t i = 0; i < cpu->n_spaces; ++i) {
    (void)tn__fail(TN_DEVICE, "as if in use");
    cr_assert(tn__gate_enter(rt->env.engine));
    tn__var_fail(rt->env.engine, &cpu->spaces[i].var, TN_DEVICE);
    tn__gate_leave(rt->env.engine);
  }
  call_operator("review.draw", x, &y);
  cr_assert_eq(tn_array_wait(y), TN_OK);
  cr_assert_eq(drawn_offset, 20, "%llu", (unsigned long long)drawn_offset);
  cr_assert_eq(tn_wait_all(rt), TN_DEVICE);
  release_four(x, y, NULL, NULL);
}

/* ------------------------------------------------------------------ params */

Test(isolation, params_of_another_runtime_are_refused_each_time) {
  tn_runtime *other = open_with(TN_ENGINE_POOLED);
  tn_params *mine = NULL, *theirs = NULL;
  tn_array *x = make_filled(1, 1), *y = make_filled(1, 0);
  tn_operator *op = op_of(rt, "review.text");
  cr_assert_eq(tn_params_parse(op, "s=abcd", &mine), TN_OK);
  cr_assert_eq(tn_params_parse(op_of(other, "review.scale"), "a=1", &theirs),
               TN_OK);
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(tn_call(rt, op, TN_IN(x), mine, TN_OUT(&y)), TN_OK);
  cr_assert_eq(tn_call(rt, op, TN_IN(x), theirs, TN_OUT(&y)), TN_INVALID);
  tn_params_release(mine), tn_params_release(theirs);
  release_four(x, y, NULL, NULL);
  tn_runtime_release(other);
}

/* ------------------------------------------------------- never written arrays
 */

/* Leaves sevens in memory that later arrays get. */
static void fill_freed_memory(void) {
  tn_array *x = make_filled(BIG, 7);
  tn_array_release(x);
}

Test(isolation, a_never_written_array_reads_as_zeros_after_a_call_read_it) {
  fill_freed_memory();
  tn_array *x = make_array(BIG), *y = NULL;
  call_operator("review.scale", x, &y);
  cr_assert_eq(first_of(x), 0);
  cr_assert_eq(first_of(y), 0);
  release_four(x, y, NULL, NULL);
}

Test(isolation, a_prepared_call_does_not_write_its_new_output) {
  fill_freed_memory();
  tn_array *x = make_filled(BIG, 1), *y = NULL;
  tn_prepared *prepared = NULL;
  fill_freed_memory();
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = op_of(rt, "review.scale"),
                               .inputs = *TN_IN(x),
                               .outputs = *TN_OUT(&y)};
  cr_assert_eq(tn_call_prepare(rt, &what, &prepared), TN_OK);
  cr_assert_eq(first_of(y), 0);
  tn_prepared_release(prepared);
  release_four(x, y, NULL, NULL);
}

Test(isolation, a_copy_of_a_not_yet_written_array_is_zeros) {
  tn_array *big, *source, *x = make_pending(&big, &source), *from = NULL;
  fill_freed_memory();
  from = make_array(BIG);
  cr_assert_eq(tn_array_copy(big, from), TN_OK); /* after the call */
  static float ones[BIG];
  for (int i = 0; i < BIG; ++i) ones[i] = 1;
  sem_post(&gate);
  cr_assert_eq(tn_array_set(from, ones, sizeof ones), TN_OK);
  cr_assert_eq(first_of(big), 0);
  release_four(big, source, x, from);
}

Test(isolation, a_written_part_leaves_zeros_elsewhere) {
  fill_freed_memory();
  tn_array *x = make_array(BIG), *last = NULL;
  const float one = 1;
  cr_assert_eq(tn_array_slice(x, &(tn_range){0, 0, -1, BIG, 1}, &last), TN_OK);
  cr_assert_eq(tn_array_set(last, &one, sizeof one), TN_OK);
  cr_assert_eq(first_of(x), 0);
  release_four(x, last, NULL, NULL);
}

/* ---------------------------------------------------------------- prepared */

Test(isolation, a_failed_or_dispatched_call_frees_all_that_was_released) {
  tn_array *big, *source, *x = make_pending(&big, &source), *y = NULL;
  tn_params *params = NULL;
  tn_operator *op = op_of(rt, "review.scale");
  cr_assert_eq(tn_params_parse(op, "a=3", &params), TN_OK);
  cr_assert_eq(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)), TN_OK);
  tn_params_release(params);
  release_four(big, source, x, NULL);
  sem_post(&gate), sem_post(&gate), sem_post(&gate);
  cr_assert_eq(first_of(y), 6);
  tn_array_release(y);
}
