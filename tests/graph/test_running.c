/* SPDX-License-Identifier: Apache-2.0
 * Runs of programs: partial runs, failing runs, and programs that share memory.
 * A run allocates nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "probe.h"
#include "program_fixture.h"

/* -------------------------------------------------------- a net for training
 */

enum { DEPTH = 12, WIDE = 100 };

/* Deep, with values that backward steps read; wide enough to be fused. */
static void deep_net(void) {
  tn_entry h = var_node(g, "x");
  const tn_entry v = var_node(g, "v");
  for (int i = 0; i < DEPTH; ++i) {
    h = OP(g, "tanh", NULL, NULL,
           OP(g, "dense", "num_hidden=16", NULL, h, v, TN_ENTRY_NONE));
    h = OP(g, "tame", NULL, NULL, h, OP(g, "sigmoid", NULL, NULL, h));
  }
  HEADS(g, h);
  give_array("x", create_filled(TN_F64, SHAPE(WIDE, 16)));
  give_array("v", create_filled(TN_F64, SHAPE(16, 16)));
}

static tn_array *deep_weight(void) {
  return create_filled(TN_F64, SHAPE(WIDE, 16));
}

static void same_training(tn_program *a, tn_program *b, const char *what) {
  same_bits(head_of(a, 0), head_of(b, 0), what);
  same_bits(slope_of(a, "x"), slope_of(b, "x"), what);
  same_bits(slope_of(a, "v"), slope_of(b, "v"), what);
}

Test(running, any_budget_gives_the_same_results) {
  net_open_on(2);
  deep_net();
  tn_array *weight = deep_weight();
  tn_program *full = BIND(.request = TN_REQ_WRITE);
  const uint64_t pool = stats_of(full).pool_bytes;
  run_training(full, weight);
  cr_assert_eq(stats_of(full).repeated, 0);
  tn_program *least =
      BIND(.request = TN_REQ_WRITE, .memory = TN_MEMORY_MINIMAL);
  cr_assert_lt(stats_of(least).pool_bytes, pool);
  const uint64_t budgets[] = {
      TN_MEMORY_MINIMAL, stats_of(full).bound_bytes, pool, pool - 64,
      pool * 3 / 4,      stats_of(least).pool_bytes};
  for (size_t i = 0; i < sizeof budgets / sizeof *budgets; ++i) {
    tn_program *p = BIND(.request = TN_REQ_WRITE, .memory = budgets[i]);
    const tn_program_stats stats = stats_of(p);
    if (i > 0) cr_assert_leq(stats.pool_bytes, budgets[i]);
    if (budgets[i] < stats.bound_bytes || i == 0)
      cr_assert_gt(stats.repeated, 0);
    for (int k = 0; k < 2; ++k) {
      run_training(p, weight);
      same_training(full, p, "a budget");
    }
    tn__program_release(p);
  }
  tn_program *none = NULL;
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_WRITE,
                       .arguments = given,
                       .n_arguments = n_given,
                       .memory = 1000};
  FAILS(tn__program_bind(g, &how, &none), TN_OUT_OF_MEMORY, "1000");
  tn__program_release(full);
  tn__program_release(least);
  tn__array_release(weight);
  drop_arrays();
  net_close();
}

/* A program that fits when calls are fused recomputes nothing, although it
 * would not fit with single steps. */
Test(running, a_budget_counts_the_memory_of_fused_steps) {
  net_open_on(1);
  tn_entry h = var_node(g, "x");
  for (int i = 0; i < DEPTH; ++i) {
    h = OP(g, "tanh", NULL, NULL, h);
    h = OP(g, "tame", NULL, NULL, h, OP(g, "sigmoid", NULL, NULL, h));
  }
  HEADS(g, OP(g, "mul", NULL, NULL, h, var_node(g, "y")));
  for (int i = 0; i < 2; ++i)
    give_array(i ? "y" : "x", create_filled(TN_F64, SHAPE(1000, 16)));
  tn_program *full = BIND(.request = TN_REQ_WRITE);
  const uint64_t pool = stats_of(full).pool_bytes;
  cr_assert_gt(stats_of(full).n_fused, DEPTH);
  tn_program *same = BIND(.request = TN_REQ_WRITE, .memory = pool);
  cr_expect_eq(stats_of(same).repeated, 0);
  cr_expect_eq(stats_of(same).pool_bytes, pool);
  tn_program *less = BIND(.request = TN_REQ_WRITE, .memory = pool - 1);
  cr_expect_gt(stats_of(less).repeated, 0);
  cr_expect_lt(stats_of(less).pool_bytes, pool);
  tn__program_release(full), tn__program_release(same);
  tn__program_release(less);
  drop_arrays();
  net_close();
}

/* Number of forward calls of the operator, recomputed ones included. */
static size_t calls_of(const tn_program *p, const char *kernel) {
  tn_text *text = NULL;
  size_t n = 0;
  OK(tn__program_text(p, 0, &text));
  const char *const all = tn_text_get(text), *at = all;
  for (; (at = strstr(at, kernel)) != NULL; ++at) n += at[-1] == ' ';
  static const char gradient[] = "(gradient)  ";
  for (at = all; (at = strstr(at, gradient)) != NULL; ++at)
    n -= strncmp(at + strlen(gradient), kernel, strlen(kernel)) == 0;
  tn_text_release(text);
  return n;
}

/* Sets the attribute on every call of the operator; NULL removes it. */
static void keep_all(const char *op, const char *value) {
  for (uint32_t id = 0; id < tn__n_nodes(g); ++id) {
    const tn__node *node = tn__node_at(g, id);
    if (node->kind == TN__NODE_CALL && strcmp(node->desc->name, op) == 0)
      OK(tn__attribute_set(g, id, "keep", value));
  }
}

/* The backward part reads results of two kinds of call. The cheap one is
 * recomputed, unless the user keeps it, or states that the other one costs
 * nothing. */
Test(running, attributes_choose_the_recomputed_steps) {
  net_open_on(2);
  tn_entry h = var_node(g, "x");
  const tn_entry x = h, v = var_node(g, "v");
  for (int i = 0; i < DEPTH; ++i)
    h = OP(g, "mul", NULL, NULL, x,
           OP(g, "dense", "num_hidden=16", NULL, h, v, TN_ENTRY_NONE));
  HEADS(g, h);
  give_array("x", create_filled(TN_F64, SHAPE(WIDE, 16)));
  give_array("v", create_filled(TN_F64, SHAPE(16, 16)));
  tn_array *weight = deep_weight();
  tn_program *full = BIND(.request = TN_REQ_WRITE);
  const uint64_t budget = stats_of(full).pool_bytes * 4 / 5;
  run_training(full, weight);
  static const char *const keep[][2] = {{NULL, NULL}, {"0", NULL}, {"0", "1"}};
  for (int i = 0; i < 3; ++i) {
    keep_all("dense", keep[i][0]);
    keep_all("mul", keep[i][1]);
    tn_program *p = BIND(.request = TN_REQ_WRITE, .memory = budget);
    cr_expect_eq(calls_of(p, "lab.dense.cpu") > DEPTH, i > 0, "%d", i);
    cr_expect_eq(calls_of(p, "lab.mul.cpu") > DEPTH, i == 0, "%d", i);
    run_training(p, weight);
    same_training(full, p, "what is made again");
    tn__program_release(p);
  }
  keep_all("dense", "1");
  tn_program *p = BIND(.request = TN_REQ_WRITE, .memory = TN_MEMORY_MINIMAL);
  cr_expect_eq(stats_of(p).repeated, 0);
  tn__program_release(p), tn__program_release(full);
  tn__array_release(weight);
  drop_arrays();
  net_close();
}

Test(running, any_plan_gives_the_same_results) {
  net_open_on(2);
  deep_net();
  tn_array *weight = deep_weight();
  tn_program *none = BIND(.request = TN_REQ_WRITE, .plan = TN_PLAN_NONE);
  run_training(none, weight);
  for (uint32_t plan = 0; plan <= TN_PLAN_NONE; ++plan) {
    tn_program *p = BIND(.request = TN_REQ_WRITE, .plan = plan);
    cr_assert_leq(stats_of(p).pool_bytes, stats_of(none).pool_bytes);
    run_training(p, weight);
    same_bits(head_of(p, 0), head_of(none, 0), "a plan");
    same_bits(slope_of(p, "x"), slope_of(none, "x"), "a plan");
    tn__program_release(p);
  }
  tn__program_release(none);
  tn__array_release(weight);
  drop_arrays();
  net_close();
}

/* (x^2 + y^2) w, and x + y^2: both gradients of a sum equal its own, and are
 * only computed into separate arrays. */
static void slopes_of_sum(const char *first, const char *text) {
  const int64_t shape[] = {4, 3};
  net_open();
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 w_ = var_node(g, "w");
  const tn_entry a = OP(g, first, NULL, "first", x);
  const tn_entry s = OP(g, "add", NULL, "s", a, OP(g, "square", NULL, "b", y));
  HEADS(g, OP(g, "mul", NULL, "out", s, w_));
  const char *const all[] = {"x", "y", "w"};
  for (int i = 0; i < 3; ++i)
    give_array(all[i], create_filled(TN_F64, 2, shape));
  tn_program *p = BIND(.request = TN_REQ_WRITE, .flags = TN_BIND_NO_FUSE);
  has_text(p, text);
  tn_array *weight = create_filled(TN_F64, 2, shape);
  for (int run = 0; run < 2; ++run) {
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
  }
  double *dy = elements_of(slope_of(p, "y")),
         *dx = elements_of(slope_of(p, "x"));
  for (int64_t i = 0; i < 12; ++i) { /* x = y = w = weight */
    const double v = number_at(i), head = v * v;
    cr_expect_eq(dy[i], 2 * v * head);
    cr_expect_eq(dx[i], strcmp(first, "same") == 0 ? head : 2 * v * head);
  }
  free(dx), free(dy);
  tn__array_release(weight);
  tn__program_release(p);
  drop_arrays();
  net_close();
}

Test(running, gradients_equal_to_that_of_a_sum_are_not_computed) {
  slopes_of_sum("square", "s_backward (gradient)  in place");
  slopes_of_sum("same", "s_backward (gradient)  in place");
}

/* If its input is the program's own, other steps may read that too; an array of
 * the user is copied. */
Test(running, views_are_in_the_memory_of_their_input) {
  const int64_t shape[] = {4, 3};
  net_open();
  give_array("x", create_filled(TN_F64, 2, shape));
  const tn_entry x = var_node(g, "x");
  const tn_entry t = OP(g, "square", NULL, "t", x);
  const tn_entry v = OP(g, "seen", NULL, "v", t);
  HEADS(g, OP(g, "mul", NULL, NULL, v, x), OP(g, "cut", NULL, NULL, t),
        OP(g, "seen", NULL, "given", x));
  tn_program *p = BIND(.request = TN_REQ_WRITE);
  tn_array *weights[] = {create_filled(TN_F64, 2, shape),
                         create_filled(TN_F64, 2, shape),
                         create_filled(TN_F64, 2, shape)};
  has_text(p, "v  in place");
  has_text(p, "v_backward (gradient)  in place");
  has_text(p, "given  lab.seen.cpu");
  for (int run = 0; run < 2; ++run) {
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, weights, 3));
  }
  double *first = elements_of(head_of(p, 0)),
         *second = elements_of(head_of(p, 1)),
         *third = elements_of(head_of(p, 2)),
         *dx = elements_of(slope_of(p, "x"));
  for (int64_t i = 0; i < 12; ++i) { /* weights are x */
    const double n = number_at(i);
    cr_expect_eq(first[i], n * n * n);
    cr_expect_eq(second[i], n * n);
    cr_expect_eq(third[i], n);
    cr_expect_float_eq(dx[i], n * (3 * n * n + 1), 1e-12);
  }
  free(first), free(second), free(third), free(dx);
  for (int i = 0; i < 3; ++i) tn__array_release(weights[i]);
  tn__program_release(p);
  drop_arrays();
  net_close();
}

/* x^3 through a view that reverses gradients. */
Test(running, gradients_of_views_follow_their_formulas) {
  const int64_t shape[] = {4, 3};
  net_open();
  give_array("x", create_filled(TN_F64, 2, shape));
  const tn_entry x = var_node(g, "x");
  const tn_entry t = OP(g, "square", NULL, "t", x);
  HEADS(g, OP(g, "mul", NULL, NULL, OP(g, "against", NULL, "v", t), x));
  tn_program *p = BIND(.request = TN_REQ_WRITE, .flags = TN_BIND_NO_FUSE);
  tn_array *weight = create_filled(TN_F64, 2, shape);
  has_text(p, "v  in place");
  run_training(p, weight);
  double *dx = elements_of(slope_of(p, "x"));
  for (int64_t i = 0; i < 12; ++i) { /* the weight is x */
    const double n = number_at(i);
    cr_expect_float_eq(dx[i], -n * n * n, 1e-12);
  }
  free(dx);
  tn__array_release(weight);
  tn__program_release(p);
  drop_arrays();
  net_close();
}

/* A recomputed call would change the state twice. */
Test(running, states_change_once) {
  net_open_on(2);
  give_array("x", create_filled(TN_F64, SHAPE(10, 10)));
  tn_entry h = var_node(g, "x");
  for (int i = 0; i < 6; ++i)
    h = OP(g, "square", NULL, NULL, OP(g, "tanh", NULL, NULL, h));
  h = OP(g, "track", NULL, "tracked", h);
  for (int i = 0; i < 6; ++i)
    h = OP(g, "tame", NULL, NULL, h, OP(g, "tanh", NULL, NULL, h));
  HEADS(g, h);
  tn_array *weight = create_filled(TN_F64, SHAPE(10, 10)), *sums[2];
  tn_program *p[2];
  for (int i = 0; i < 2; ++i) {
    p[i] = BIND(.request = TN_REQ_WRITE, .memory = i ? TN_MEMORY_MINIMAL : 0);
    for (int k = 0; k < 3; ++k) run_training(p[i], weight);
    OK(tn__program_array(p[i], TN_PROGRAM_AUXILIARY, "tracked_sum", &sums[i]));
  }
  cr_assert_gt(stats_of(p[1]).repeated, 0);
  same_bits(sums[0], sums[1], "the state");
  same_bits(slope_of(p[0], "x"), slope_of(p[1], "x"), "the gradient");
  tn__program_release(p[0]), tn__program_release(p[1]);
  tn__array_release(weight);
  drop_arrays();
  net_close();
}

/* MXNet's zero_prop: nothing is kept for gradients that are blocked. */
Test(running, a_blocked_net_takes_the_memory_of_inference) {
  uint64_t pool[3];
  net_open_on(1);
  for (int i = 0; i < 3; ++i) {
    const tn_entry x = var_node(g, "x");
    tn_entry h = x;
    for (int k = 0; k < 5; ++k)
      h = OP(g, "mul", NULL, NULL, OP(g, "tanh", NULL, NULL, h), x);
    HEADS(g, OP(g, i < 2 ? "cut" : "tanh", NULL, NULL, h));
    give_array("x", create_filled(TN_F64, SHAPE(50, 20)));
    tn_program *p = BIND(.request = i == 0 ? TN_REQ_NULL : TN_REQ_WRITE);
    pool[i] = stats_of(p).pool_bytes;
    tn__program_release(p);
    drop_arrays();
    net_renew();
  }
  cr_expect_eq(pool[1], pool[0]);
  cr_expect_gt(pool[2], pool[1]);
  net_close();
}

/* For each result, how it is written; for the program, the memory of all. */
Test(running, the_table_says_how_results_are_written) {
  net_open_on(1);
  char total[80];
  const tn_entry x = var_node(g, "x");
  const tn_entry p2 = OP(g, "pair", NULL, "two", x, x);
  const tn_entry t = OP(g, "tanh", NULL, "t", p2);
  HEADS(g, OP(g, "tame", NULL, "end", t, OP(g, "sigmoid", NULL, "s", t)));
  give_array("x", create_filled(TN_F64, SHAPE(8)));
  tn_program *p = BIND(.request = TN_REQ_ADD);
  has_text(p, "  two  lab.pair.cpu  f64 (8) @0 f64 (8) unused");
  has_text(p, "  t  lab.tanh.cpu  f64 (8) in place @0");
  has_text(p, "  end  lab.tame.cpu  f64 (8) own");
  has_text(p, "  s_backward (gradient)  lab.sigmoid.cpu  f64 (8) add @");
  has_text(p, "  sum0  in place  f64 (8) in place @");
  has_text(p, "f64 (8) add own");
  const tn_program_stats stats = stats_of(p);
  (void)snprintf(total, sizeof total,
                 "\n%llu bytes in the pool, at least %llu ",
                 (unsigned long long)stats.pool_bytes,
                 (unsigned long long)stats.bound_bytes);
  has_text(p, total);
  tn_program *infers = BIND(0);
  cr_expect_lt(stats_of(infers).pool_bytes, stats.pool_bytes);
  cr_expect_eq(stats_of(infers).n_backward, 0);
  tn__program_release(p), tn__program_release(infers);
  drop_arrays();
  net_close();
}

/* --------------------------------------------------------- parts */

Test(running, parts_of_the_forward_run_lead_to_the_same) {
  net_open_on(2);
  deep_net();
  tn_array *weight = deep_weight();
  tn_program *whole = BIND(.request = TN_REQ_WRITE),
             *part = BIND(.request = TN_REQ_WRITE);
  run_training(whole, weight);
  size_t left = 1;
  const size_t n = stats_of(part).n_forward;
  for (size_t k = 0; left > 0; ++k) {
    OK(tn__program_forward_part(part, TN_CALL_TRAIN, k, &left));
    cr_assert_eq(left, n - k);
    if (left > 0)
      FAILS(tn__program_backward(part, &weight, 1), TN_INVALID, "forward");
  }
  OK(tn__program_forward_part(part, TN_CALL_TRAIN, n + 5, NULL));
  OK(tn__program_backward(part, &weight, 1));
  same_training(whole, part, "parts");
  tn__program_release(whole), tn__program_release(part);
  tn__array_release(weight);
  drop_arrays();
  net_close();
}

/* --------------------------------------------------------- shared and reshape
 */

Test(running, reshaped_programs_take_turns) {
  net_open_on(2);
  deep_net();
  tn_program *large = BIND(0), *small = NULL, *alone = NULL;
  tn_array *v = NULL, *x = NULL;
  const tn_known known = {"x", F64(WIDE / 4, 16)};
  OK(tn__program_forward(large, 0));
  const int64_t living = (int64_t)stats_of(large).pool_bytes;
  OK(tn__program_reshape(large, &known, 1, &small));
  cr_assert_lt((int64_t)stats_of(small).pool_bytes, living);
  OK(tn__program_array(small, TN_PROGRAM_ARGUMENT, "v", &v));
  cr_assert_eq(v, given[1].array);
  OK(tn__program_array(small, TN_PROGRAM_ARGUMENT, "x", &x));
  tn_array *part = create_filled(TN_F64, SHAPE(WIDE / 4, 16));
  OK(tn__array_copy(x, part));
  tn_array *all = given[0].array, *kept = NULL;
  given[0].array = part;
  alone = BIND(0);
  given[0].array = all;
  OK(tn__program_forward(alone, 0));
  tn_program *other = BIND(0);
  OK(tn__program_forward(other, 0));
  kept = head_of(other, 0);
  for (int i = 0; i < 20; ++i) {
    OK(tn__program_forward(large, 0));
    OK(tn__program_forward(small, 0));
    same_bits(head_of(large, 0), kept, "the large one");
    same_bits(head_of(small, 0), head_of(alone, 0), "the small one");
  }
  for (int i = 0; i < 20; ++i) {
    OK(tn__program_forward(large, 0));
    OK(tn__program_forward(small, 0));
  }
  tn__program_release(large); /* the pool stays for the other */
  same_bits(head_of(small, 0), head_of(alone, 0), "the small one");
  OK(tn__program_forward(small, 0));
  same_bits(head_of(small, 0), head_of(alone, 0), "the small one, left");
  tn__program_release(small), tn__program_release(alone);
  tn__program_release(other);
  tn__array_release(part);
  drop_arrays();
  net_close();
}

static uint64_t bytes_in_use(void) {
  tn__heap_stats stats;
  tn__heap_stats_get(w.env.cpu, &stats);
  return stats.live;
}

/* A program for smaller shapes needs only its arguments and heads. One for
 * larger shapes needs its own pool, which a third one shares. */
Test(running, reshaped_programs_share_their_memory) {
  enum { ROW_BYTES = 16 * 8 };
  net_open_on(1);
  deep_net();
  tn_program *first = BIND(.request = TN_REQ_WRITE), *less, *more, *third;
  const uint64_t pool = stats_of(first).pool_bytes, before = bytes_in_use();
  const tn_known few = {"x", F64(WIDE - 1, 16)},
                 many = {"x", F64(2 * WIDE, 16)};
  OK(tn__program_reshape(first, &few, 1, &less));
  cr_assert_lt(stats_of(less).pool_bytes, pool);
  const uint64_t own = bytes_in_use() - before;
  cr_expect_lt(own, 5 * WIDE * ROW_BYTES, "%llu", (unsigned long long)own);
  OK(tn__program_reshape(first, &many, 1, &more));
  const uint64_t larger = stats_of(more).pool_bytes, then = bytes_in_use();
  cr_expect_geq(then - before - own, larger);
  OK(tn__program_reshape(more, &few, 1, &third));
  cr_expect_lt(bytes_in_use() - then, 5 * WIDE * ROW_BYTES);
  tn__program_release(first), tn__program_release(less);
  tn__program_release(more), tn__program_release(third);
  drop_arrays();
  net_close();
}

Test(running, reshaping_by_a_shape_alone_keeps_the_type) {
  net_open_on(1);
  deep_net();
  tn_program *large = BIND(0), *small = NULL;
  tn_array *x = NULL;
  const tn_known known = {"x", UNTYPED(WIDE / 4, 16)};
  OK(tn__program_reshape(large, &known, 1, &small));
  OK(tn__program_array(small, TN_PROGRAM_ARGUMENT, "x", &x));
  cr_assert_eq(x->tensor.dtype, TN_F64);
  cr_assert_eq(x->tensor.shape[0], WIDE / 4);
  cr_assert_eq(head_of(small, 0)->tensor.shape[0], WIDE / 4);
  tn__program_release(small), tn__program_release(large);
  drop_arrays();
  net_close();
}

Test(running, a_run_in_shared_memory_invalidates_results_of_another) {
  net_open_on(2);
  deep_net();
  tn_array *weight = deep_weight();
  tn_program *p = BIND(.request = TN_REQ_WRITE), *other = NULL;
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = given,
                       .n_arguments = n_given,
                       .request = TN_REQ_WRITE,
                       .shared = p};
  OK(tn__program_bind(g, &how, &other));
  cr_assert_gt(stats_of(p).pool_bytes, 0);
  run_training(p, weight);
  double *want = elements_of(slope_of(p, "v"));
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_forward(other, 0));
  FAILS(tn__program_backward(p, &weight, 1), TN_INVALID, "shares", "has run");
  run_training(p, weight);
  double *have = elements_of(slope_of(p, "v"));
  cr_assert_eq(memcmp(have, want, n_elements(slope_of(p, "v")) * sizeof *have),
               0);
  free(have), free(want);
  tn__program_release(p), tn__program_release(other);
  tn__array_release(weight);
  drop_arrays();
  net_close();
}

/* ------------------------------------------------------------------- errors */

/* A call that fails if the probe is set so. */
static tn_entry broken_of(tn_entry x) {
  tn_entry broken;
  const tn_graph_node node = {.struct_size = sizeof node,
                              .n_in = 1,
                              .op = "probe.fail",
                              .name = "culprit",
                              .in = &x};
  OK(tn__graph_call(g, &node, &broken));
  return broken;
}

Test(running, a_kernel_that_fails_is_named) {
  net_open_on(2);
  give_array("x", floats(SHAPE(2), VALUES(1, 2)));
  give_array("y", floats(SHAPE(2), VALUES(3, 4)));
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry broken = broken_of(x);
  HEADS(g, OP(g, "tanh", NULL, NULL, broken), OP(g, "square", NULL, NULL, y));
  tn_program *p = BIND(0);
  float have[2];
  for (int round = 0; round < 2; ++round) {
    probe_code = TN_INVALID, probe_silent = 0;
    (void)tn__program_forward(p, 0);
    FAILS(tn__array_get(head_of(p, 0), have, sizeof have), TN_INVALID,
          "culprit", "probe.fail");
    expect(head_of(p, 1), VALUES(9, 16));
    probe_code = TN_OK, probe_silent = 1;
    OK(tn__program_forward(p, 0));
    OK(tn__array_get(head_of(p, 0), have, sizeof have));
    expect(head_of(p, 1), VALUES(9, 16));
  }
  tn__program_release(p);
  drop_arrays();
  net_close();
}

/* A failure stays in an array with request ADD: the sum has no value. */
Test(running, a_gradient_added_to_a_failed_array_has_failed) {
  net_open_on(2);
  give_array("x", floats(SHAPE(2), VALUES(1, 2)));
  tn_array *sum = floats(SHAPE(2), VALUES(0, 0));
  tn_array *weight = floats(SHAPE(2), VALUES(5, 6));
  const tn_entry broken = broken_of(var_node(g, "x"));
  HEADS(g, broken);
  tn_program *p = BIND(.n_outputs = 1, .outputs = &sum);
  probe_code = TN_INVALID, probe_silent = 0;
  (void)tn__program_forward(p, 0);
  tn__program_release(p);
  net_renew();
  HEADS(g, var_node(g, "x"));
  given[0].gradient = sum;
  p = BIND(.request = TN_REQ_ADD);
  (void)tn__program_forward(p, TN_CALL_TRAIN);
  (void)tn__program_backward(p, &weight, 1);
  float have[2];
  FAILS(tn__array_get(sum, have, sizeof have), TN_INVALID, "culprit");
  tn__program_release(p);
  tn__array_release(sum), tn__array_release(weight);
  drop_arrays();
  net_close();
}

/* --------------------------------------------------------- lifetime, memory */

Test(running, a_run_allocates_nothing) {
  net_open_on(2);
  deep_net();
  tn_array *weight = deep_weight();
  tn_program *p = BIND(.request = TN_REQ_WRITE);
  for (int i = 0; i < 10; ++i) run_training(p, weight);
  free(elements_of(head_of(p, 0)));
  const int64_t living = w.memory.living;
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  free(elements_of(head_of(p, 0)));
  const int64_t before = w.memory.asked;
  for (int i = 0; i < 200; ++i) OK(tn__program_forward(p, TN_CALL_TRAIN));
  free(elements_of(head_of(p, 0)));
  cr_assert_leq(w.memory.asked, before + 1, "%lld allocations",
                (long long)(w.memory.asked - before));
  for (int i = 0; i < 200; ++i) run_training(p, weight);
  free(elements_of(slope_of(p, "v")));
  cr_assert_leq(w.memory.living, living + 2, "%lld blocks more",
                (long long)(w.memory.living - living));
  tn__program_release(p);
  tn__array_release(weight);
  drop_arrays();
  net_close();
}

Test(running, programs_may_go_while_they_run) {
  net_open_on(2);
  deep_net();
  tn_array *weight = deep_weight();
  for (int i = 0; i < 20; ++i) {
    tn_program *p = BIND(.request = TN_REQ_WRITE);
    run_training(p, weight);
    tn_array *out = tn__array_retain(head_of(p, 0));
    tn__program_release(p);
    free(elements_of(out));
    tn__array_release(out);
  }
  tn_program *p = BIND(.request = TN_REQ_WRITE);
  tn__graph_release(g);
  drop_arrays();
  run_training(p, weight);
  free(elements_of(slope_of(p, "v")));
  tn__program_release(p);
  g = net_new();
  tn__array_release(weight);
  net_close();
}

/* In training a call needs memory that the plan does not contain. */
Test(running, a_workspace_may_be_for_training_alone) {
  net_open_on(2);
  give_array("x", create_filled(TN_F64, SHAPE(64, 100)));
  const tn_entry x = var_node(g, "x");
  const tn_entry beside =
      OP(g, "dense", "num_hidden=100", "d", x, var_node(g, "w"), TN_ENTRY_NONE);
  give_array("w", create_filled(TN_F64, SHAPE(100, 100)));
  HEADS(g, OP(g, "add", NULL, NULL, beside, OP(g, "room", NULL, NULL, x)));
  tn_program *p = BIND(0), *other = BIND(0);
  OK(tn__program_forward(p, 0));
  for (int i = 0; i < 2; ++i) {
    OK(tn__program_forward(other, TN_CALL_TRAIN));
    same_bits(head_of(p, 0), head_of(other, 0), "with a workspace");
  }
  tn__program_release(p), tn__program_release(other);
  drop_arrays();
  net_close();
}

/* -------------------------------------------------------------------- loops */

/* s' = s + x, out = s * x */
static void running_sum(int64_t n, uint32_t reverse) {
  double x[8], want_out[8], s = 10;
  tn_graph *step = net_new();
  const tn_entry e = var_node(step, "e"), t = var_node(step, "t");
  HEADS(step, OP(step, "add", NULL, NULL, t, e),
        OP(step, "mul", NULL, NULL, t, e));
  tn_entry out;
  const tn_loop what = {
      .struct_size = sizeof what,
      .n_in = 2,
      .step = step,
      .sequences = (const char *const[]){"e"},
      .states = (const char *const[]){"t"},
      .n_sequences = 1,
      .n_states = 1,
      .reverse = reverse,
      .in = (const tn_entry[]){var_node(g, "x"), var_node(g, "s")},
      .keys = (const char *const[]){"e", "t"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out, output_of(out, 1));
  for (int64_t i = 0; i < n; ++i) x[i] = (double)i + 1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = reverse ? n - 1 - i : i;
    want_out[at] = s * x[at];
    s += x[at];
  }
  give_array("x", create_doubles(SHAPE(n, 1), x));
  give_array("s", create_doubles(SHAPE(1), (const double[]){10}));
  tn_program *p = BIND(0);
  for (int k = 0; k < 2; ++k) {
    OK(tn__program_forward(p, k ? TN_CALL_TRAIN : 0));
    double *last = elements_of(head_of(p, 0)),
           *all = elements_of(head_of(p, 1));
    cr_assert_eq(last[0], s);
    for (int64_t i = 0; i < n; ++i) cr_assert_eq(all[i], want_out[i]);
    free(last), free(all);
  }
  tn__program_release(p);
  drop_arrays();
  tn__graph_release(step);
  net_renew();
}

Test(running, loops_of_any_length) {
  net_open_on(2);
  for (int64_t n = 0; n < 5; ++n) {
    running_sum(n, 0);
    running_sum(n, 1);
  }
  net_close();
}

/* Nothing to record, and no device. */
Test(running, a_program_without_steps_may_be_captured, .init = net_open,
     .fini = net_close) {
  HEADS(g, var_node(g, "x"));
  give_array("x", create_filled(TN_F64, SHAPE(2)));
  tn_program *p = BIND(.flags = TN_BIND_CAPTURE);
  for (int i = 0; i < 3; ++i) OK(tn__program_forward(p, 0));
  same_bits(head_of(p, 0), given[0].array, "a variable");
  tn__program_release(p);
  drop_arrays();
}
