/* SPDX-License-Identifier: Apache-2.0
 * The choice of a kernel, the reasons against the others, and the objects that
 * are held meanwhile.
 */
#include "../must.h"
#include "tables.h"

/* ------------------------------------------------------------------ kernels */

/* An operator with a list parameter, one type variable, and these kernels:
 * portable cpu, fast cpu for f32 in 2-D, a gpu one, and one backward. */
typedef struct pool_params {
  tn_ints kernel;
} pool_params;

#define FIELDS_OF pool_params
static const tn_field *const pool_fields[] = {
    FIELD(TN_FIELD_INTS, kernel, "[2, 2]", PLAIN)};
#undef FIELDS_OF

static const tn_arg *const pool_inputs[] = {ARG("data", T_ONE)};
static const tn_arg *const pool_outputs[] = {ARG("out", T_ONE)};
static const tn_op pool_op = {.struct_size = sizeof(tn_op),
                              .name = "pool",
                              .params_size = sizeof(pool_params),
                              .n_params = 1,
                              .params = pool_fields,
                              .n_dtype_vars = 1,
                              .dtype_vars = float_vars,
                              .n_inputs = 1,
                              .inputs = pool_inputs,
                              .n_outputs = 1,
                              .outputs = pool_outputs};

/* rank(kernel) >= 2 */
static const tn_node when_nodes[] = {{TN_NODE_PARAM, 0, 0, 0, 0},
                                     {TN_NODE_RANK, 0, 0, 0, 0},
                                     {TN_NODE_CONST, 0, 0, 0, 2},
                                     {TN_NODE_GE, 1, 2, 0, 0}};
static const uint64_t f32_only[] = {TN_BIT_F32};
static const uint64_t all_types[] = {0};

static int supports_calls;
static const void *supports_instance;

/* Supports batches of at most 4. */
static int32_t small_batches(const tn_frame *frame) {
  ++supports_calls;
  supports_instance = frame->instance;
  if (frame->in[0].shape[0] > 4)
    return TN_FAIL(frame, TN_UNSUPPORTED, "batch too large");
  return TN_OK;
}

static int32_t host_fail(const tn_frame *frame, int32_t code, const char *file,
                         int32_t line, const char *format, ...) {
  tn__slot *slot = frame->run->host_data;
  (void)file, (void)line;
  (void)snprintf(slot->text, sizeof slot->text, "%s", format);
  return slot->code = code;
}

#define KERNEL(text, device, rank, ...)                                  \
  {                                                                      \
    .struct_size = sizeof(tn_kernel), .id = (text), .op = "demo.pool@1", \
    .n_dtype_sets = 1, .device_type = (device), .priority = (rank),      \
    __VA_ARGS__                                                          \
  }
#define ALWAYS .when = TN_NONE, .dtype_sets = all_types
#define WHEN_2D                                                 \
  .when = 3, .n_nodes = COUNT(when_nodes), .nodes = when_nodes, \
  .when_text = "rank(kernel) >= 2"

enum { FAST, GPU, PORTABLE, BACKWARD, N_KERNELS };

static const tn_kernel descs[N_KERNELS] = {
    KERNEL("fast.pool", TN_DEVICE_CPU, 10, .dtype_sets = f32_only, WHEN_2D,
           .supports = small_batches),
    KERNEL("gpu.pool", TN_DEVICE_CUDA, 5, ALWAYS),
    KERNEL("demo.pool.cpu", TN_DEVICE_CPU, 0, ALWAYS),
    KERNEL("demo.pool.cpu", TN_DEVICE_CPU, 0, ALWAYS,
           .pass = TN_PASS_BACKWARD)};

/* ------------------------------------------------------------------ support */

static world w;
static tn_plugin other_entry;
static tn__plugin other;
static tn_kernel copies[N_KERNELS];
static tn__kernel kernels[N_KERNELS];
static void *order[N_KERNELS];
static int instance;

static int64_t shape[] = {4, 8};
static tn_tensor tensors[2];
static tn_sig sigs[2];
static tn_signature io = {1, 1, 0, 0, sigs, sigs + 1, NULL};
static tn_frame frame;
static pool_params params;
static const int64_t window[] = {2, 2};
static tn_dtype vars[] = {TN_F32};
static tn__query query;

static void setup(void) {
  world_init(&w, &pool_op, "demo.pool");
  other_entry.name = "other";
  other = (tn__plugin){.entry = &other_entry, .instance = &instance};
  other.host.fail = w.plugin.host.fail = host_fail;
  other.registry = &w.registry;
  for (size_t i = 0; i < N_KERNELS; ++i) {
    copies[i] = descs[i];
    kernels[i] = (tn__kernel){.desc = &copies[i], .op = &w.op};
    kernels[i].plugin = i == FAST || i == GPU ? &other : &w.plugin;
    order[i] = &kernels[i];
  }
  w.op.kernels = (tn__vec){order, N_KERNELS, N_KERNELS};
  params.kernel = (tn_ints){window, 2};
  tensors[0] = tensors[1] =
      (tn_tensor){.ndim = 2, .dtype = TN_F32, .shape = shape};
  frame = (tn_frame){.struct_size = sizeof frame,
                     .n_in = 1,
                     .n_out = 1,
                     .in = tensors,
                     .out = tensors + 1,
                     .params = &params};
  query = (tn__query){.pass = TN_PASS_FORWARD,
                      .device_type = TN_DEVICE_CPU,
                      .vars = vars,
                      .frame = &frame,
                      .io = &io};
  sigs[0] = sigs[1] = (tn_sig){TN_F32, 2, {shape[0], shape[1]}};
}

static void teardown(void) {
  must_hold(atomic_load(&w.op.calls) == 0, "calls are left");
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; ++i)
    must_hold(atomic_load(&kernels[i].calls) == 0,
              "calls of a kernel are left");
}

TestSuite(choose, .init = setup, .fini = teardown);

/* Expects this kernel and releases it. */
static void expect_choice(int index) {
  tn__choice choice;
  cr_assert_eq(tn__kernel_choose(&w.op, &query, &choice), TN_OK, "%s",
               tn_error_text());
  cr_assert_str_eq(choice.kernel->desc->id, kernels[index].desc->id);
  cr_assert_eq(choice.kernel, &kernels[index]);
  tn__kernel_release(&choice);
}

static void fails_with(const char *part) {
  tn__choice choice;
  cr_assert_eq(tn__kernel_choose(&w.op, &query, &choice), TN_UNSUPPORTED);
  cr_assert_null(choice.kernel);
  cr_assert_not_null(strstr(tn_error_text(), part), "%s", tn_error_text());
}

static void expect_explanation(const char *text) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__kernel_explain(&w.op, &query, &buf);
  cr_assert_str_eq(buf.s, text);
  tn__buf_deinit(&buf);
}

/* ------------------------------------------------------------------- choice */

Test(choose, the_highest_priority_that_applies_wins) {
  expect_choice(FAST);
  cr_assert_eq(supports_calls, 1);
}

Test(choose, the_chosen_kernels_plugin_serves_the_call) {
  tn__choice choice;
  cr_assert_eq(tn__kernel_choose(&w.op, &query, &choice), TN_OK);
  cr_assert_eq(frame.instance, &instance);
  cr_assert_eq(frame.host, &other.host);
  cr_assert_eq(supports_instance, &instance);
  cr_assert_eq(choice.kernel->plugin, &other);
  cr_assert_eq(atomic_load(&choice.kernel->calls), 1);
  tn__kernel_release(&choice);
}

Test(choose, the_order_of_loading_does_not_matter) {
  order[0] = &kernels[PORTABLE];
  order[2] = &kernels[FAST];
  expect_choice(FAST);
}

Test(choose, each_pass_has_its_own_kernels) {
  query.pass = TN_PASS_BACKWARD;
  frame.flags = TN_CALL_BACKWARD;
  expect_choice(BACKWARD);
}

Test(choose, a_kernel_of_another_device_is_not_chosen) {
  query.device_type = TN_DEVICE_CUDA;
  expect_choice(GPU);
}

Test(choose, a_kernel_without_the_type_is_not_chosen) {
  vars[0] = TN_F64;
  expect_choice(PORTABLE);
  cr_assert_eq(supports_calls, 0); /* called only after the cheaper checks */
}

static int32_t returns_nonsense(const tn_frame *call) {
  (void)call;
  return 42;
}

static int32_t fails_silently(const tn_frame *call) {
  (void)call;
  return TN_INVALID;
}

/* Removes the other kernels, so that the reason of the first one is the
 * message. */
Test(choose, reasons_are_whole_sentences) {
  static const uint64_t i32_only[] = {TN_BIT_I32};
  w.op.kernels.n = 1;
  copies[FAST].supports = returns_nonsense;
  fails_with("its supports function returned 42, which is no code");
  copies[FAST].supports = fails_silently;
  fails_with("its supports function failed (TN_INVALID): it gives no reason");
  copies[FAST].dtype_sets = i32_only;
  fails_with("T is f32, it takes none of the types that the operator has");
  copies[FAST].device_type = 12;
  fails_with("is for devices of type 12, the call is on cpu");
}

Test(choose, a_kernel_with_a_false_condition_is_not_chosen) {
  params.kernel.n = 1;
  expect_choice(PORTABLE);
  cr_assert_eq(supports_calls, 0);
}

/* A gradient's frame has [gradient of out, data, out]. It has no data if no
 * gradient needs it. */
Test(choose, conditions_of_a_gradient_use_the_forward_operands) {
  static const tn_node nodes[] = {
      {TN_NODE_OPERAND_SIZE, TN_OPERAND_IN, 0, 0, 0},
      {TN_NODE_CONST, 0, 0, 0, 32},
      {TN_NODE_EQ, 0, 1, 0, 0}};
  tn_tensor in[3] = {tensors[0], {.ndim = -1}, tensors[0]};
  frame.flags = TN_CALL_BACKWARD;
  frame.in = in, frame.n_in = 3;
  query.pass = TN_PASS_BACKWARD;
  copies[BACKWARD].nodes = nodes, copies[BACKWARD].n_nodes = COUNT(nodes);
  copies[BACKWARD].when = 2, copies[BACKWARD].when_text = "size(data) == 32";
  expect_choice(BACKWARD);
  sigs[0].shape[0] = 5;
  fails_with("only when size(data) == 32");
}

Test(choose, a_kernel_may_decline) {
  shape[0] = 5;
  expect_choice(PORTABLE);
  cr_assert_null(frame.run); /* the reason went into a separate slot */
}

Test(choose, a_withdrawn_kernel_is_never_chosen) {
  static char why[] = "no such library";
  kernels[FAST].withdrawn = why;
  expect_choice(PORTABLE);
}

Test(choose, a_pin_allows_no_other_kernel) {
  w.op.pin = &kernels[PORTABLE];
  expect_choice(PORTABLE);
  query.pass = TN_PASS_BACKWARD; /* the same id */
  frame.flags = TN_CALL_BACKWARD;
  expect_choice(BACKWARD);
  query.pass = TN_PASS_FORWARD;
  frame.flags = 0;
  w.op.pin = &kernels[FAST];
  shape[0] = 5;
  fails_with("demo.pool.cpu (plugin demo): fast.pool is pinned");
}

Test(choose, a_pin_of_one_pass_leaves_the_other_free) {
  w.op.pin = &kernels[FAST];
  query.pass = TN_PASS_BACKWARD;
  frame.flags = TN_CALL_BACKWARD;
  expect_choice(BACKWARD);
}

Test(choose, a_tie_between_plugins_is_an_error_that_names_both) {
  copies[PORTABLE].priority = 10;
  fails_with(
      "apply with the same priority 10: fast.pool (plugin other) and "
      "demo.pool.cpu (plugin demo); pin one of them");
  shape[0] = 5; /* one of them declines: no tie */
  expect_choice(PORTABLE);
  shape[0] = 4;
  w.op.pin = &kernels[FAST];
  expect_choice(FAST);
}

Test(choose, a_tie_within_a_plugin_goes_to_the_first) {
  copies[PORTABLE].priority = 10;
  kernels[PORTABLE].plugin = &other;
  expect_choice(FAST);
}

Test(choose, a_tie_below_the_top_does_not_matter) {
  copies[GPU].device_type = TN_DEVICE_CPU;
  copies[GPU].priority = 0;
  expect_choice(FAST);
}

Test(choose, without_an_applicable_kernel_all_candidates_are_listed) {
  shape[0] = 5;
  w.op.kernels.n = 2;
  tn__choice choice;
  cr_assert_eq(tn__kernel_choose(&w.op, &query, &choice), TN_UNSUPPORTED);
  cr_assert_str_eq(tn_error_text(),
                   "no forward kernel of demo.pool@1 takes this call:\n"
                   "  fast.pool (plugin other): declines: batch too large\n"
                   "  gpu.pool (plugin other): is for cuda, the call is on "
                   "cpu");
  w.op.kernels.n = 0;
  fails_with("operator demo.pool@1 has no forward kernel; load a plugin");
}

/* ------------------------------------------------------------------ explain */

Test(choose, the_explanation_of_a_call_names_the_winner_and_the_reasons) {
  vars[0] = TN_F64;
  expect_explanation(
      "demo.pool@1\n"
      "forward\n"
      "  - fast.pool      other  cpu   priority 10    T: f32  | T is f64, it "
      "takes f32\n"
      "  - gpu.pool       other  cuda  priority 5     T: f16 bf16 f32 f64  | "
      "is for cuda, the call is on cpu\n"
      "  * demo.pool.cpu  demo   cpu   priority 0     T: f16 bf16 f32 f64  | "
      "taken\n"
      "backward\n"
      "  * demo.pool.cpu  demo   cpu   priority 0     T: f16 bf16 f32 f64  | "
      "asked first\n");
}

Test(choose, without_a_call_only_its_static_reasons_are_explained) {
  query.frame = NULL;
  query.vars = NULL;
  w.op.kernels.n = 3;
  expect_explanation(
      "demo.pool@1\n"
      "forward\n"
      "  * fast.pool      other  cpu   priority 10    T: f32  | asked first; "
      "only when rank(kernel) >= 2; may decline a call\n"
      "  - gpu.pool       other  cuda  priority 5     T: f16 bf16 f32 f64  | "
      "is for cuda, the call is on cpu\n"
      "  - demo.pool.cpu  demo   cpu   priority 0     T: f16 bf16 f32 f64  | "
      "applies, but fast.pool is preferred\n"
      "backward\n"
      "  (no kernel)\n");
}

/* ------------------------------------------------------------------ holding */

Test(choose, a_held_operator_counts_as_a_call) {
  cr_assert_eq(tn__operator_hold(&w.op), TN_OK);
  cr_assert_eq(atomic_load(&w.op.calls), 1);
  tn__operator_unhold(&w.op);
  w.op.desc = NULL;
  cr_assert_eq(tn__operator_hold(&w.op), TN_NOT_FOUND);
  cr_assert_not_null(strstr(tn_error_text(), "demo.pool@1"));
}

static void *hold_often(void *arg) {
  (void)arg;
  for (int i = 0; i < 2000; ++i) {
    tn__query bare = {.device_type = TN_DEVICE_CPU, .vars = vars};
    tn__choice choice;
    if (tn__operator_hold(&w.op) != TN_OK) continue;
    if (tn__kernel_choose(&w.op, &bare, &choice) == TN_OK)
      tn__kernel_release(&choice);
    tn__operator_unhold(&w.op);
  }
  return NULL;
}

Test(choose, threads_may_hold_and_choose_at_the_same_time) {
  pthread_t threads[4];
  for (size_t i = 0; i < 4; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, hold_often, NULL), 0);
  for (size_t i = 0; i < 4; ++i) (void)pthread_join(threads[i], NULL);
}
