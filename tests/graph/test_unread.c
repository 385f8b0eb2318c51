/* SPDX-License-Identifier: Apache-2.0
 * test_unread.c: gradients whose calls need the shape of a variable that no
 * node reads, and arrays for variables that no head needs.
 */
#include <stdlib.h>

#include "evaluate.h"

static tn_array *table(size_t ndim, const int64_t *shape) {
  double values[64];
  for (int i = 0; i < 64; ++i) values[i] = i + 1;
  return doubles(ndim, shape, values);
}

static tn_entry gradient(tn_entry head, tn_entry weight, tn_entry of) {
  tn_entry out;
  OK(tn__graph_gradient(g,
                        &(tn__gradient_spec){.query = {.heads = &head,
                                                       .weights = &weight,
                                                       .of = &of,
                                                       .n_heads = 1,
                                                       .n_of = 1}},
                        &out));
  return out;
}

/* Binds the first `n` of x, weight and b, computes, and compares all elements
 * of the first head with twice x, times the weight. */
static void expect_slope(size_t n, bool weighted) {
  tn_array *data = table(2, (const int64_t[]){2, 3});
  tn_array *bias = table(1, (const int64_t[]){3}), *out = NULL;
  const tn_argument arguments[] = {{.name = "x", .array = data},
                                   {.name = "weight", .array = data},
                                   {.name = "b", .array = bias}};
  tn_program *p = NULL;
  OK(tn__program_bind(g,
                      &(tn_bind){.struct_size = sizeof(tn_bind),
                                 .arguments = arguments,
                                 .n_arguments = n},
                      &p));
  OK(tn__program_forward(p, 0));
  OK(tn__program_output(p, 0, &out));
  double *have = elements(out);
  for (int i = 0; i < 6; ++i)
    cr_assert_eq(have[i], 2.0 * (i + 1) * (weighted ? i + 1 : 1));
  free(have);
  tn__program_release(p);
  tn__array_release(data), tn__array_release(bias);
}

/* y = x^2 + b, so dx = 2 x times the weight, whatever b is. */
static void build(bool weighted) {
  const tn_entry x = var(g, "x"), b = var(g, "b"), weight = var(g, "weight");
  const tn_entry y =
      OP(g, "plus_all", NULL, "y", OP(g, "square", NULL, "sq", x), b);
  HEADS(g, gradient(y, weighted ? weight : TN_ENTRY_NONE, x));
}

Test(unread, binds_a_gradient_as_the_only_head) {
  net_open();
  build(false);
  expect_slope(3, false);
  net_close();
}

Test(unread, names_the_variable_whose_shape_is_wanted) {
  net_open();
  build(true);
  tn_array *data = table(2, (const int64_t[]){2, 3});
  const tn_argument arguments[] = {{.name = "x", .array = data},
                                   {.name = "weight", .array = data}};
  tn_program *p = NULL;
  FAILS(tn__program_bind(g,
                         &(tn_bind){.struct_size = sizeof(tn_bind),
                                    .arguments = arguments,
                                    .n_arguments = 2},
                         &p),
        TN_INCOMPLETE, "not enough is known of `b` of unknown shape");
  tn__array_release(data);
  net_close();
}

/* A gradient of a variable that no head needs is zeros. */
Test(unread, takes_a_whole_dictionary) {
  net_open();
  HEADS(g, OP(g, "scored", NULL, "score", var(g, "x")));
  (void)OP(g, "square", NULL, "other", var(g, "y"));
  tn_array *data = table(2, (const int64_t[]){2, 3}), *slope = NULL;
  const tn_argument arguments[] = {{.name = "y", .array = data},
                                   {.name = "x", .array = data}};
  tn_program *p = NULL, *q = NULL;
  OK(tn__program_bind(g,
                      &(tn_bind){.struct_size = sizeof(tn_bind),
                                 .request = TN_REQ_WRITE,
                                 .arguments = arguments,
                                 .n_arguments = 2},
                      &p));
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, NULL, 0));
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "y", &slope));
  double *have = elements(slope);
  for (int i = 0; i < 6; ++i) cr_assert_eq(have[i], 0);
  free(have);
  const tn_known known = {"x", F64(4, 3)};
  OK(tn__program_reshape(p, &known, 1, &q));
  tn__program_release(q), tn__program_release(p);
  tn__array_release(data);
  net_close();
}

Test(unread, binds_a_weighted_gradient_as_the_only_head) {
  net_open();
  build(true);
  expect_slope(3, true);
  net_close();
}
