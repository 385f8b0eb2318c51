/* SPDX-License-Identifier: Apache-2.0
 * Fused pairs: two calls that an operator computes together are one step of a
 * program, and all its visible results are those of two steps. These tests make
 * the plugin of the pairs from operators of lab: `same` changes nothing, so the
 * operator before it computes both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../by_hand.h"
#include "evaluate.h"
#include "program_fixture.h"

/* ------------------------------------------------------------------ a plugin
 */

#define PAIR(one, two, three)                                              \
  {                                                                        \
    .struct_size = sizeof(tn_fused_pair), .first = (one), .second = (two), \
    .both = (three),                                                       \
  }

static const tn_fused_pair pairs[] = {
    PAIR("lab.dense@1", "lab.same@1", "lab.dense@1"),
    PAIR("lab.keep@1", "lab.same@1", "lab.keep@1"),
    PAIR("lab.track@1", "lab.same@1", "lab.track@1"),
    PAIR("lab.noise@1", "lab.same@1", "lab.noise@1"),
    PAIR("lab.mul@1", "lab.same@1", "lab.mul@1"),
    PAIR("lab.dense@1", "lab.scaled@1", "lab.dense@1"),
    PAIR("lab.dense@1", "lab.affine@1", "lab.dense@1"),
    PAIR("lab.track@1", "lab.tanh@1", "lab.dense@1"),
    PAIR("lab.dense@1", "lab.tanh@1", "lab.unheard_of@1"),
};

static int32_t teller_init(const tn_host *host, tn_registrar *registrar,
                           void **instance) {
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  int32_t code = TN_OK;
  (void)instance;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && code == TN_OK; ++i)
    code = passes->add_pair(registrar, &pairs[i]);
  return code;
}

static const tn_plugin teller = {PLUGIN_BY_HAND("teller", 1, "Pairs"),
                                 .init = teller_init};

static void open_all(void) {
  static tn_plugin plugin; /* outlives the test */
  net_open();
  plugin = teller;
  w.registry->passes = &tn__passes_table;
  OK(tn__plugin_add(w.registry, &plugin));
}

TestSuite(fused_pairs, .init = open_all, .fini = net_close);

/* ----------------------------------------------------------------- programs */

enum { ROWS = 3, COLUMNS = 4, HIDDEN = 2 };

static void same_array(const tn_program *a, const tn_program *b, uint32_t what,
                       const char *name) {
  tn_array *x = NULL, *y = NULL;
  OK(tn__program_array(a, what, name, &x));
  OK(tn__program_array(b, what, name, &y));
  same_bits(x, y, name);
}

static void run_once(tn_program *p, bool train, tn_array *weight) {
  OK(tn__program_forward(p, train ? TN_CALL_TRAIN : 0));
  if (train) OK(tn__program_backward(p, &weight, 1));
}

/* y = same(dense(x)), z = tanh(y) */
static void dense_net(void) {
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  give_array("d_weight", create_filled(TN_F64, SHAPE(HIDDEN, COLUMNS)));
  give_array("d_bias", create_filled(TN_F64, SHAPE(HIDDEN)));
  const tn_entry d = OP(g, "dense", "num_hidden=2", "d", var_node(g, "x"));
  HEADS(g, OP(g, "tanh", NULL, "z", OP(g, "same", NULL, "y", d)));
}

/* A program with pairs gives the bits of one without, in both passes. */
static void compare_programs(tn_program *one, tn_program *two) {
  tn_array *weight = numbers_of(TN_F64, SHAPE(ROWS, HIDDEN), number_at);
  run_once(one, true, weight), run_once(two, true, weight);
  same_array(one, two, TN_PROGRAM_OUTPUT, "z_output");
  same_array(one, two, TN_PROGRAM_GRADIENT, "x");
  same_array(one, two, TN_PROGRAM_GRADIENT, "d_weight");
  same_array(one, two, TN_PROGRAM_GRADIENT, "d_bias");
  run_once(one, false, NULL), run_once(two, false, NULL);
  same_array(one, two, TN_PROGRAM_OUTPUT, "z_output");
  tn__array_release(weight);
}

Test(fused_pairs, compute_the_results_of_two_calls) {
  dense_net();
  tn_program *one = BIND(.flags = TN_BIND_NO_FUSE, .request = TN_REQ_WRITE);
  tn_program *two = BIND(.request = TN_REQ_WRITE);
  cr_expect_eq(stats_of(one).n_fused, 0);
  cr_expect_eq(stats_of(one).n_forward, 3);
  cr_expect_eq(stats_of(two).n_fused, 2);
  cr_expect_eq(stats_of(two).n_forward, 2);
  cr_expect_eq(stats_of(two).n_backward, stats_of(one).n_backward);
  compare_programs(one, two);
  tn__program_release(one), tn__program_release(two);
  drop_arrays();
}

Test(fused_pairs, are_listed_with_the_calls_that_they_are) {
  dense_net();
  tn_program *p = BIND(0);
  has_text(p, "  d  lab.dense.cpu  f64 (3,2) @");
  has_text(p, "\n  - d  lab.dense.cpu  f64 (3,2)\n  - y  lab.same.cpu  f64");
  tn__program_release(p);
  drop_arrays();
}

Test(fused_pairs, leave_programs_of_other_shapes_unchanged) {
  tn_program *small = NULL;
  dense_net();
  tn_program *p = BIND(.request = TN_REQ_WRITE);
  const tn_known known = {.name = "x", .sig = F64(1, COLUMNS)};
  OK(tn__program_reshape(p, &known, 1, &small));
  cr_expect_eq(stats_of(small).n_fused, 2);
  tn__program_release(small), tn__program_release(p);
  drop_arrays();
}

Test(fused_pairs, may_be_made_again_to_save_memory) {
  dense_net();
  tn_program *one = BIND(.flags = TN_BIND_NO_FUSE, .request = TN_REQ_WRITE,
                         .memory = TN_MEMORY_MINIMAL);
  tn_program *two = BIND(.request = TN_REQ_WRITE, .memory = TN_MEMORY_MINIMAL);
  compare_programs(one, two);
  tn__program_release(one), tn__program_release(two);
  drop_arrays();
}

/* -------------------------------------------------------- outputs and states
 */

static void same_head(tn_program *one, tn_program *two, const char *name) {
  run_once(one, false, NULL), run_once(two, false, NULL);
  same_array(one, two, TN_PROGRAM_OUTPUT, name);
}

Test(fused_pairs, keep_the_other_outputs) {
  give_array("k_x", create_filled(TN_F64, SHAPE(5)));
  give_array("k_y", create_filled(TN_F64, SHAPE(5)));
  const tn_entry k =
      OP(g, "keep", NULL, "k", var_node(g, "k_x"), var_node(g, "k_y"));
  const tn_entry y = OP(g, "same", NULL, "y", k);
  HEADS(g, y, output_of(k, 1));
  tn_program *one = BIND(.flags = TN_BIND_NO_FUSE), *two = BIND(0);
  cr_expect_eq(stats_of(two).n_fused, 2);
  same_head(one, two, "y_output");
  same_array(one, two, TN_PROGRAM_OUTPUT, "k_slope");
  tn__program_release(one), tn__program_release(two);
  drop_arrays();
}

Test(fused_pairs, change_states_once) {
  give_array("x", create_filled(TN_F64, SHAPE(5)));
  HEADS(g,
        OP(g, "same", NULL, "y", OP(g, "track", NULL, "t", var_node(g, "x"))));
  tn_program *one = BIND(.flags = TN_BIND_NO_FUSE), *two = BIND(0);
  cr_expect_eq(stats_of(two).n_fused, 2);
  for (int i = 0; i < 3; ++i) same_head(one, two, "y_output");
  same_array(one, two, TN_PROGRAM_AUXILIARY, "t_sum");
  tn__program_release(one), tn__program_release(two);
  drop_arrays();
}

/* h' = same(keep(h, x)), four times. */
Test(fused_pairs, are_made_in_the_steps_of_loops) {
  tn_graph *step = net_new();
  tn_entry out;
  const tn_entry k =
      OP(step, "keep", NULL, "k", var_node(step, "h"), var_node(step, "x"));
  HEADS(step, OP(step, "same", NULL, "y", k));
  give_array("x", create_filled(TN_F64, SHAPE(4, 5)));
  give_array("h", create_filled(TN_F64, SHAPE(5)));
  const tn_loop what = {
      .struct_size = sizeof what,
      .n_in = 2,
      .step = step,
      .name = "loop",
      .sequences = (const char *const[]){"x"},
      .states = (const char *const[]){"h"},
      .n_sequences = 1,
      .n_states = 1,
      .in = (const tn_entry[]){var_node(g, "x"), var_node(g, "h")},
      .keys = (const char *const[]){"x", "h"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out);
  tn_array *weight = numbers_of(TN_F64, SHAPE(5), number_at);
  tn_program *one = BIND(.flags = TN_BIND_NO_FUSE, .request = TN_REQ_WRITE);
  tn_program *two = BIND(.request = TN_REQ_WRITE);
  run_once(one, true, weight), run_once(two, true, weight);
  tn_array *outs[2] = {NULL};
  OK(tn__program_output(one, 0, &outs[0]));
  OK(tn__program_output(two, 0, &outs[1]));
  same_bits(outs[0], outs[1], "the last state");
  same_array(one, two, TN_PROGRAM_GRADIENT, "x");
  same_array(one, two, TN_PROGRAM_GRADIENT, "h");
  tn__program_release(one), tn__program_release(two);
  tn__array_release(weight);
  tn__graph_release(step);
  drop_arrays();
}

/* ---------------------------------------------------------------- monitors */

typedef struct sight {
  char names[8][40];
  double first[8];
  uint32_t n;
} sight;

static void note_sight(void *ctx, const char *name, tn_array *array) {
  sight *s = ctx;
  double all[64];
  if (s->n == 8) return;
  (void)snprintf(s->names[s->n], sizeof *s->names, "%s", name);
  OK(tn__array_get(array, all, n_elements(array) * sizeof *all));
  s->first[s->n++] = all[0];
}

Test(fused_pairs, show_monitors_both_calls) {
  sight seen[2] = {{.n = 0}, {.n = 0}};
  dense_net();
  for (int k = 0; k < 2; ++k) {
    tn_program *p = BIND(.flags = k == 0 ? TN_BIND_NO_FUSE : 0);
    OK(tn__program_monitor(p, note_sight, &seen[k]));
    OK(tn__program_forward(p, 0));
    OK(tn__program_monitor(p, NULL, NULL));
    OK(tn__program_forward(p, 0));
    tn__program_release(p);
  }
  cr_assert_eq(seen[0].n, 3);
  cr_assert_eq(seen[1].n, 3);
  for (int i = 0; i < 3; ++i) {
    cr_expect_str_eq(seen[0].names[i], seen[1].names[i]);
    cr_expect_eq(seen[0].first[i], seen[1].first[i]);
  }
  drop_arrays();
}

/* ------------------------------------------------------------------ two steps
 */

/* Expects two steps, and the reason in the table. */
static void stay_two(const char *why) {
  tn_program *p = BIND(.request = TN_REQ_WRITE);
  cr_expect_eq(stats_of(p).n_fused, 0);
  has_text(p, why);
  tn__program_release(p);
  drop_arrays();
}

static tn_entry a_dense(void) {
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  return OP(g, "dense", "num_hidden=2", "d", var_node(g, "x"));
}

Test(fused_pairs, are_not_made_across_a_head) {
  const tn_entry d = a_dense();
  HEADS(g, OP(g, "same", NULL, "y", d), d);
  stay_two("; not one with d: other steps use its input");
}

Test(fused_pairs, are_not_made_if_others_read_the_result) {
  const tn_entry d = a_dense();
  HEADS(g, OP(g, "add", NULL, "s", OP(g, "same", NULL, "y", d), d));
  stay_two("; not one with d: other steps use its input");
}

Test(fused_pairs, are_not_made_where_parameters_may_change) {
  HEADS(g, OP(g, "scaled", "rate=2", "y", a_dense()));
  stay_two("; not one with d: parameters of one of them may change");
}

Test(fused_pairs, need_an_operator_that_takes_their_parameters) {
  HEADS(g, OP(g, "affine", "scale=2", "y", a_dense()));
  stay_two("; not one with d: `scale` is not a parameter of lab.dense@1");
}

Test(fused_pairs, need_an_operator_that_takes_their_operands) {
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  HEADS(g,
        OP(g, "tanh", NULL, "y", OP(g, "track", NULL, "t", var_node(g, "x"))));
  stay_two("; not one with t: ");
}

Test(fused_pairs, leave_elementwise_calls_to_be_fused) {
  give_array("x", create_filled(TN_F64, SHAPE(5)));
  const tn_entry x = var_node(g, "x");
  HEADS(g, OP(g, "same", NULL, "y", OP(g, "mul", NULL, "m", x, x)));
  stay_two("; not one with m: runs of elementwise calls are fused");
}

Test(fused_pairs, are_not_made_if_others_wait_for_a_call) {
  const tn_entry d = a_dense(), y = OP(g, "same", NULL, "y", d);
  const tn_entry t = OP(g, "tanh", NULL, "t", var_node(g, "x2"));
  give_array("x2", create_filled(TN_F64, SHAPE(5)));
  OK(tn__graph_depends(g, t.node, d.node));
  HEADS(g, y, t);
  stay_two("; not one with d: one waits for another, or another for it");
}

Test(fused_pairs, leave_a_pinned_kernel_in_its_place) {
  tn_operator *op = op_get("lab.dense");
  HEADS(g, OP(g, "same", NULL, "y", a_dense()));
  OK(tn__operator_pin(op, "lab.dense.cpu"));
  stay_two("; not one with d: a kernel of one of them is pinned");
  OK(tn__operator_pin(op, NULL));
}

Test(fused_pairs, of_operators_that_are_not_there_are_none) {
  HEADS(g, OP(g, "tanh", NULL, "y", a_dense()));
  tn_program *p = BIND(0);
  cr_expect_eq(stats_of(p).n_fused, 0);
  tn__program_release(p);
  drop_arrays();
}

Test(fused_pairs, are_gone_with_their_plugin) {
  dense_net();
  OK(tn__plugin_unload(w.registry, "teller"));
  tn_program *p = BIND(0);
  cr_expect_eq(stats_of(p).n_fused, 0);
  tn__program_release(p);
  drop_arrays();
}

/* ------------------------------------------------------------------- loading
 */

static tn_fused_pair extra_pair;
static int guest_times;

static int32_t guest_init(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  (void)instance;
  for (int i = 0; i < guest_times; ++i) /* it ignores the result */
    (void)passes->add_pair(registrar, &extra_pair);
  return TN_OK;
}

static const tn_plugin guest = {PLUGIN_BY_HAND("guest", 1, "A pair"),
                                .init = guest_init};

static void expect_mistake(tn_code code, tn_fused_pair pair, const char *why) {
  extra_pair = pair;
  FAILS(tn__plugin_add(w.registry, &guest), code,
        "init of the plugin \"guest\" failed", why);
}

Test(fused_pairs, that_are_wrong_refuse_their_plugin) {
  guest_times = 1;
  expect_mistake(TN_INVALID, (tn_fused_pair)PAIR("a.b@1", "a.c@1", NULL),
                 "no size or no full name");
  expect_mistake(TN_INVALID, (tn_fused_pair)PAIR("a.b@1", "a.c@1", "a.d"),
                 "\"a.d\" cannot be an operator for two");
  expect_mistake(TN_INVALID, (tn_fused_pair){.first = "a.b@1", .both = "a.d@1"},
                 "\"a.d@1\" cannot be an operator for two");
  expect_mistake(TN_INVALID, (tn_fused_pair)PAIR("a.b", "a.c@1", "a.d@1"),
                 "\"a.d@1\" is an operator for two that have no full names");
  tn_fused_pair newer = PAIR("a.b@1", "a.c@1", "a.d@1");
  newer.reserved = 1;
  expect_mistake(TN_INVALID, newer,
                 "\"a.d@1\" is an operator for two that sets");
  guest_times = 2;
  expect_mistake(TN_EXISTS, (tn_fused_pair)PAIR("a.b@1", "a.c@1", "a.d@1"),
                 "\"a.d@1\" is an operator for two that have one already");
}

/* -------------------------------------------------------------------- faults
 */

/* Each allocation fails in turn: a bind makes a program, or leaves nothing. */
Test(fused_pairs, survive_every_failed_allocation) {
  tn_code rc = TN_OUT_OF_MEMORY;
  dense_net();
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = given, .n_arguments = n_given};
  for (int64_t i = 1; rc != TN_OK; ++i) {
    tn_program *p = NULL;
    w.memory.fail_at = atomic_load(&w.memory.asked) + i;
    rc = tn__program_bind(g, &how, &p);
    w.memory.fail_at = 0;
    cr_assert(rc == TN_OK || rc == TN_OUT_OF_MEMORY, "%s", tn_error_text());
    if (rc == TN_OK) cr_expect_eq(stats_of(p).n_fused, 2);
    tn__program_release(p);
    cr_assert_lt(i, 10000);
  }
  drop_arrays();
}

/* ------------------------------------------------------------ late heads */

/* The step that overwrites `a` remains after the call that reads it. */
static void check_overwrite(uint32_t flags) {
  const int64_t shape[] = {ROWS, HIDDEN};
  tn_array *outputs[2];
  give_array("a", create_filled(TN_F64, 2, shape)),
      give_array("b", create_filled(TN_F64, 2, shape));
  for (int i = 0; i < 2; ++i) outputs[i] = given[i].array;
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  give_array("d_weight", create_filled(TN_F64, SHAPE(HIDDEN, COLUMNS)));
  give_array("d_bias", create_filled(TN_F64, SHAPE(HIDDEN)));
  const tn_entry d = OP(g, "dense", "num_hidden=2", "d", var_node(g, "x"));
  const tn_entry next = OP(g, "affine", "shift=1", NULL, var_node(g, "a"));
  HEADS(g, OP(g, "same", NULL, "y", d),
        OP(g, "add", NULL, NULL, next, var_node(g, "b")));
  tn_program *p = BIND(.flags = flags, .n_outputs = 2, .outputs = outputs);
  OK(tn__program_forward(p, 0));
  double *sum = elements_of(outputs[1]);
  for (int64_t i = 0; i < ROWS * HIDDEN; ++i)
    cr_expect_eq(sum[i], 2 * number_at(i) + 1, "%g", sum[i]);
  free(sum);
  tn__program_release(p);
  drop_arrays();
  net_renew();
}

Test(fused_pairs, follow_the_readers_of_the_memory_that_they_overwrite) {
  check_overwrite(TN_BIND_NO_FUSE);
  check_overwrite(0);
}
