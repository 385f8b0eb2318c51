/* SPDX-License-Identifier: Apache-2.0
 * test_order.c: kernels with TN_RESOURCE_ORDER run in the order of their
 * pushes, and hear of calls that cannot run.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "../by_hand.h"
#include "runtime.h"
#include "tenon/engine.h"
#include "tenon/graph.h"

enum { MOST = 64 };

/* The values that compute saw: x[0] of each call, or TOLD. */
enum { TOLD = -1 };
static _Atomic int n_seen;
static int seen[MOST];
static _Atomic int inside, overlaps;

static int32_t run_note(const tn_frame *call) {
  if (atomic_fetch_add(&inside, 1) != 0) atomic_fetch_add(&overlaps, 1);
  const int at = atomic_fetch_add(&n_seen, 1);
  if (call->flags & TN_CALL_TOLD) {
    seen[at] = TOLD;
    atomic_fetch_sub(&inside, 1);
    return TN_FAIL(call, TN_IO, "nobody reads this");
  }
  seen[at] = (int)*(const float *)call->in[0].data;
  *(float *)call->out[0].data = (float)seen[at];
  atomic_fetch_sub(&inside, 1);
  return TN_OK;
}

#define ARG(text, kind)                                                   \
  {                                                                       \
    .struct_size = sizeof(tn_arg), .dtype_var = TN_NONE, .dtype = TN_F32, \
    .dtype_param = TN_NONE, .shape_kind = (kind), .inplace = TN_NONE,     \
    .init = TN_NONE, .count = TN_NONE, .name = (text)                     \
  }
static const tn_arg in_x = ARG("x", TN_SHAPE_ANY);
static const tn_arg out_y = ARG("y", TN_SHAPE_SAME);
static const tn_arg *const ins[] = {&in_x}, *const outs[] = {&out_y};
static const tn_op op = {.struct_size = sizeof op,
                         .interface = 1,
                         .since = 1,
                         .n_inputs = 1,
                         .n_outputs = 1,
                         .name = "note",
                         .summary = "Notes when it runs.",
                         .inputs = ins,
                         .outputs = outs};
static const uint32_t resources[] = {TN_RESOURCE_ORDER};
static const tn_kernel kernel = {.struct_size = sizeof kernel,
                                 .flags = TN_KERNEL_REENTRANT,
                                 .device_type = TN_DEVICE_CPU,
                                 .writes = TN_WRITES_WRITE,
                                 .when = TN_NONE,
                                 .n_resources = 1,
                                 .resources = resources,
                                 .op = "march.note@1",
                                 .id = "march.note.cpu",
                                 .compute = run_note};
static tn_op late_op;
static tn_kernel late_kernel;
static const tn_op *const ops[] = {&op, &late_op};
static const tn_kernel *const kernels[] = {&kernel, &late_kernel};
static const tn_plugin plugin = {PLUGIN_BY_HAND("march", 1, "For tests."),
                                 .n_operators = 2, .n_kernels = 2,
                                 .operators = ops, .kernels = kernels};

/* The same, but the call completes later. */
static int32_t run_note_later(const tn_frame *call) {
  tn_later *later = call->flags & TN_CALL_TOLD ? NULL : call->host->defer(call);
  const int32_t code = run_note(call);
  if (later) call->host->complete(later, code, NULL);
  return later ? TN_LATER : code;
}

static tn_runtime *rt;
static tn_operator *note;

static void setup(void) {
  const tn_options options = {.struct_size = sizeof options, .workers = 4};
  atomic_store(&n_seen, 0);
  late_op = op;
  late_op.name = "note_later";
  late_kernel = kernel;
  late_kernel.flags |= TN_KERNEL_LATER;
  late_kernel.op = "march.note_later@1";
  late_kernel.id = "march.note_later.cpu";
  late_kernel.compute = run_note_later;
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_plugin_add(rt, &plugin), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_operator_get(rt, "march.note", &note), TN_OK);
}

static void teardown(void) {
  tn_runtime_release(rt);
}

TestSuite(order, .init = setup, .fini = teardown, .timeout = 100);

static tn_array *number(float value) {
  tn_array *x = NULL;
  const int64_t one = 1;
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 1, &one}, &x), TN_OK);
  cr_assert_eq(tn_array_set(x, &value, sizeof value), TN_OK);
  return x;
}

static tn_array *push_note(tn_array *x) {
  tn_array *y = NULL;
  cr_assert_eq(tn_call(rt, note, TN_IN(x), NULL, TN_OUT(&y)), TN_OK, "%s",
               tn_error_text());
  return y;
}

/* A job that writes an array and waits until it may end. */
typedef struct gate {
  _Atomic int open;
  tn_code code;
} gate;

static tn_code wait_at_gate(void *arg) {
  gate *self = (gate *)arg;
  while (atomic_load(&self->open) == 0) sched_yield();
  return self->code == TN_OK ? TN_OK : tn_fail(self->code, "the gate failed");
}

static void push_gate(tn_array *array, gate *self) {
  tn_variable *variable = NULL;
  cr_assert_eq(tn_array_variable(array, &variable), TN_OK);
  const tn_job job = {.struct_size = sizeof job,
                      .name = "gate",
                      .run = wait_at_gate,
                      .arg = self,
                      TN_USES({variable, TN_UPDATE})};
  cr_assert_eq(tn_push(rt, &job), TN_OK, "%s", tn_error_text());
  tn_variable_release(variable);
}

Test(order, calls_run_as_they_were_pushed) {
  enum { N = 40 };
  tn_array *x[N], *y[N];
  gate late = {0, TN_OK};
  for (int i = 0; i < N; ++i) x[i] = number((float)i);
  push_gate(x[0], &late);
  for (int i = 0; i < N; ++i) y[i] = push_note(x[i]);
  cr_assert_eq(n_seen, 0, "the first one waits for its input");
  atomic_store(&late.open, 1);
  cr_assert_eq(tn_wait_all(rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(n_seen, N);
  cr_assert_eq(overlaps, 0);
  for (int i = 0; i < N; ++i) cr_assert_eq(seen[i], i);
  for (int i = 0; i < N; ++i) tn_array_release(x[i]), tn_array_release(y[i]);
}

static void expect_told_in_turn(void) {
  tn_array *x[3], *y[3];
  gate failing = {0, TN_IO};
  for (int i = 0; i < 3; ++i) x[i] = number((float)i);
  push_gate(x[1], &failing);
  for (int i = 0; i < 3; ++i) y[i] = push_note(x[i]);
  atomic_store(&failing.open, 1);
  cr_assert_eq(tn_array_wait(y[2]), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_array_wait(y[1]), TN_IO);
  cr_assert_not_null(strstr(tn_error_text(), "the gate failed"));
  cr_assert_null(strstr(tn_error_text(), "nobody"));
  cr_assert_eq(n_seen, 3);
  cr_assert(seen[0] == 0 && seen[1] == TOLD && seen[2] == 2);
  for (int i = 0; i < 3; ++i) tn_array_release(x[i]), tn_array_release(y[i]);
  cr_assert_eq(tn_wait_all(rt), TN_IO);
}

Test(order, a_call_that_cannot_run_is_told_in_its_turn) {
  expect_told_in_turn();
}

Test(order, a_call_that_completes_later_is_told_in_its_turn) {
  cr_assert_eq(tn_operator_get(rt, "march.note_later", &note), TN_OK);
  for (int i = 0; i < 20; ++i) {
    atomic_store(&n_seen, 0);
    expect_told_in_turn();
  }
}

Test(order, prepared_calls_take_their_turn_too) {
  tn_array *x = number(7), *other = number(8), *y = NULL;
  tn_prepared *prepared = NULL;
  gate late = {0, TN_OK};
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = note,
                               .inputs = {1, &other},
                               .outputs = {1, &y, NULL}};
  cr_assert_eq(tn_call_prepare(rt, &what, &prepared), TN_OK, "%s",
               tn_error_text());
  push_gate(x, &late);
  tn_array *first = push_note(x);
  for (int i = 0; i < 3; ++i) cr_assert_eq(tn_call_run(prepared), TN_OK);
  cr_assert_eq(n_seen, 0);
  atomic_store(&late.open, 1);
  cr_assert_eq(tn_wait_all(rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(n_seen, 4);
  cr_assert(seen[0] == 7 && seen[1] == 8 && seen[3] == 8);
  tn_prepared_release(prepared);
  tn_array_release(x), tn_array_release(other), tn_array_release(y),
      tn_array_release(first);
}

/* ---------------------------------------------------------------- programs */

/* note1 -> sum, note2 and note3 besides: branches that could run in any order.
 */
static tn_program *bind_notes(tn_array *const x[3]) {
  static const char *const names[] = {"x0", "x1", "x2"};
  tn_graph *g = NULL;
  tn_program *program = NULL;
  tn_entry heads[3];
  tn_argument arguments[3];
  cr_assert_eq(tn_graph_create(rt, &g), TN_OK);
  for (int i = 0; i < 3; ++i) {
    cr_assert_eq(tn_graph_variable(g, names[i], NULL, &heads[i]), TN_OK);
    cr_assert_eq(
        tn_graph_call(g,
                      &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                       .op = "march.note",
                                       .n_in = 1,
                                       .in = &heads[i]},
                      &heads[i]),
        TN_OK);
    arguments[i] = (tn_argument){.name = names[i], .array = x[i]};
  }
  cr_assert_eq(tn_graph_heads_set(g, heads, 3), TN_OK);
  cr_assert_eq(tn_program_bind(g,
                               &(tn_bind){.struct_size = sizeof(tn_bind),
                                          .arguments = arguments,
                                          .n_arguments = 3},
                               &program),
               TN_OK, "%s", tn_error_text());
  tn_graph_release(g);
  return program;
}

Test(order, steps_of_a_program_take_their_turn) {
  tn_array *x[3], *other = number(9);
  gate late = {0, TN_OK};
  for (int i = 0; i < 3; ++i) x[i] = number((float)i);
  tn_program *program = bind_notes(x);
  push_gate(x[0], &late);
  cr_assert_eq(tn_program_forward(program, 0), TN_OK, "%s", tn_error_text());
  tn_array *last = push_note(other);
  atomic_store(&late.open, 1);
  cr_assert_eq(tn_wait_all(rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(n_seen, 4);
  cr_assert(seen[0] == 0 && seen[1] == 1 && seen[2] == 2 && seen[3] == 9);
  tn_program_release(program);
  for (int i = 0; i < 3; ++i) tn_array_release(x[i]);
  tn_array_release(other), tn_array_release(last);
}

Test(order, a_step_that_cannot_run_is_told_in_its_turn) {
  tn_array *x[3], *y = NULL;
  gate failing = {0, TN_IO};
  for (int i = 0; i < 3; ++i) x[i] = number((float)i);
  tn_program *program = bind_notes(x);
  push_gate(x[1], &failing);
  cr_assert_eq(tn_program_forward(program, 0), TN_OK, "%s", tn_error_text());
  atomic_store(&failing.open, 1);
  cr_assert_eq(tn_program_output(program, 2, &y), TN_OK);
  cr_assert_eq(tn_array_wait(y), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_program_output(program, 1, &y), TN_OK);
  cr_assert_eq(tn_array_wait(y), TN_IO);
  cr_assert_eq(n_seen, 3);
  cr_assert(seen[0] == 0 && seen[1] == TOLD && seen[2] == 2);
  tn_program_release(program);
  for (int i = 0; i < 3; ++i) tn_array_release(x[i]);
  cr_assert_eq(tn_wait_all(rt), TN_IO);
}
