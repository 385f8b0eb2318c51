/* SPDX-License-Identifier: Apache-2.0
 * Graphs and loops within graphs and loops: what they use, what their gradients
 * know of shapes, and programs of them for other shapes.
 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "given.h"

TestSuite(nested, .init = net_open, .fini = net_close);

static const char *const sequence[] = {"x"}, *const state[] = {"h"};

/* A loop over x with the state h, and what else its step reads. */
static tn_entry loop(tn_graph *graph, const tn_graph *step, size_t n,
                     const char *const *keys, const tn_entry *in) {
  tn_entry out;
  OK(tn__graph_loop(graph,
                    &(tn_loop){.struct_size = sizeof(tn_loop),
                               .n_in = (uint32_t)n,
                               .step = step,
                               .sequences = sequence,
                               .states = state,
                               .n_sequences = 1,
                               .n_states = 1,
                               .in = in,
                               .keys = keys},
                    &out));
  return out;
}

static const char *const keys[] = {"x", "h", "all", "z"};

static void expect_all(tn_array *array, double want) {
  double *v = elements(array);
  for (size_t i = 0; i < n_elements(array); ++i) cr_expect_eq(v[i], want);
  free(v);
}

static tn_array *same(double value, size_t ndim, const int64_t *shape) {
  double v[16];
  for (int i = 0; i < 16; ++i) v[i] = value;
  return doubles(ndim, shape, v);
}

/* h + the sum of x. */
static tn_graph *adding(void) {
  tn_graph *s = net_new();
  HEADS(s, OP(s, "add", NULL, NULL, var(s, "h"), var(s, "x")));
  return s;
}

/* The step has many more entries than the graph around it, and a loop behind
 * them all: each step adds 100 z, all that `all` has, and x. */
Test(nested, loops_in_loops_use_what_is_theirs) {
  enum { LONG = 100 };
  tn_graph *inner = adding(), *step = net_new();
  const tn_entry all = var(step, "all"), z = var(step, "z");
  tn_entry h = var(step, "h");
  for (int i = 0; i < LONG; ++i) h = OP(step, "add", NULL, NULL, h, z);
  h = loop(step, inner, 2, keys, (const tn_entry[]){all, h});
  HEADS(step, OP(step, "add", NULL, NULL, h, var(step, "x")));
  const tn_entry in[] = {var(g, "x"), var(g, "h"), var(g, "all"), var(g, "z")};
  HEADS(g, loop(g, step, 4, keys, in));
  give("x", same(2, SHAPE(5, 2)));
  give("h", same(1, SHAPE(2)));
  give("all", same(0.5, SHAPE(3, 2)));
  give("z", same(0.25, SHAPE(2)));
  for (uint32_t plan = TN_PLAN_DEFAULT; plan <= TN_PLAN_COMPAT_SHARE; ++plan) {
    tn_program *p = BIND(.plan = plan);
    OK(tn__program_forward(p, 0));
    expect_all(head_of(p, 0), 1 + 5 * (LONG * 0.25 + 3 * 0.5 + 2));
    tn__program_release(p);
  }
  drop_given();
  tn__graph_release(step);
  tn__graph_release(inner);
}

/* -------------------------------------------------------------------- shapes
 */

/* What is collected of a state has the loop's length and the state's shape, of
 * which nothing is said: it stays. */
Test(nested, a_given_head_of_another_length_is_made_anew) {
  tn_graph *step = net_new();
  const tn_entry h = var(step, "h");
  HEADS(step, OP(step, "add", NULL, NULL, h, h), h, var(step, "x"));
  const tn_entry in[] = {var(g, "x"), var(g, "h")};
  const tn_entry out = loop(g, step, 2, keys, in);
  HEADS(g, output(out, 1), out);
  give("x", same(2, SHAPE(4, 2)));
  give("h", same(1, SHAPE(3)));
  tn_array *mine[] = {same(0, SHAPE(4, 3)), same(0, SHAPE(3))};
  tn_program *p = BIND(.outputs = mine, .n_outputs = 2), *other = NULL;
  OK(tn__program_reshape(p, &(tn_known){"x", UNTYPED(2, 2)}, 1, &other));
  cr_assert_neq(head_of(other, 0), mine[0]);
  cr_assert_eq(head_of(other, 1), mine[1]);
  cr_assert_eq(n_elements(head_of(other, 0)), 6);
  OK(tn__program_forward(p, 0));
  expect_all(mine[1], 16);
  OK(tn__program_forward(other, 0));
  expect_all(mine[1], 4);
  tn__program_release(other);
  tn__program_release(p);
  tn__array_release(mine[0]), tn__array_release(mine[1]);
  drop_given();
  tn__graph_release(step);
}
