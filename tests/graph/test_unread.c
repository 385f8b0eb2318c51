/* SPDX-License-Identifier: Apache-2.0
 * test_unread.c: gradients with calls that need the shape of a variable without
 * readers, and arrays for variables that no head needs.
 */
#include <stdlib.h>

#include "evaluate.h"

static tn_array *create_table(size_t ndim, const int64_t *shape) {
  double values[64];
  for (int i = 0; i < 64; ++i) values[i] = i + 1;
  return create_doubles(ndim, shape, values);
}

static tn_entry add_gradient(tn_entry head, tn_entry weight, tn_entry of) {
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
  tn_array *data = create_table(2, (const int64_t[]){2, 3});
  tn_array *bias = create_table(1, (const int64_t[]){3}), *out = NULL;
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
  double *have = elements_of(out);
  for (int i = 0; i < 6; ++i)
    cr_assert_eq(have[i], 2.0 * (i + 1) * (weighted ? i + 1 : 1));
  free(have);
  tn__program_release(p);
  tn__array_release(data), tn__array_release(bias);
}

/* y = x^2 + b, so dx = 2 x times the weight, for any b. */
static void build_net(bool weighted) {
  const tn_entry x = var_node(g, "x"), b = var_node(g, "b"),
                 weight = var_node(g, "weight");
  const tn_entry y =
      OP(g, "plus_all", NULL, "y", OP(g, "square", NULL, "sq", x), b);
  HEADS(g, add_gradient(y, weighted ? weight : TN_ENTRY_NONE, x));
}

Test(unread, binds_a_gradient_as_the_only_head) {
  net_open();
  build_net(false);
  expect_slope(3, false);
  net_close();
}

Test(unread, names_the_variable_of_a_missing_shape) {
  net_open();
  build_net(true);
  tn_array *data = create_table(2, (const int64_t[]){2, 3});
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
  HEADS(g, OP(g, "scored", NULL, "score", var_node(g, "x")));
  (void)OP(g, "square", NULL, "other", var_node(g, "y"));
  tn_array *data = create_table(2, (const int64_t[]){2, 3}), *slope = NULL;
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
  double *have = elements_of(slope);
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
  build_net(true);
  expect_slope(3, true);
  net_close();
}

/* --------------------------------------------------------------- by chance */

static uint32_t state;

static uint32_t random_number(uint32_t n) {
  state = state * 1664525u + 1013904223u;
  return (state >> 16) % n;
}

enum { N_VARIABLES = 4 };

/* A chain of calls from x, with operands that are repeated along its rows. */
static tn_entry chain_of(const tn_entry *v) {
  static const char *const unary[] = {"square", "scored"};
  static const char *const binary[] = {"plus_all", "times_all"};
  tn_entry y = v[0];
  for (uint32_t k = 2 + random_number(4); k > 0; --k)
    y = random_number(2) ? OP(g, unary[random_number(2)], NULL, NULL, y)
                         : OP(g, binary[random_number(2)], NULL, NULL, y,
                              v[1 + random_number(2)]);
  return y;
}

Test(unread, gradients_of_random_chains_are_bound) {
  static const char *const names[] = {"x", "b", "c", "weight"};
  net_open();
  for (uint32_t seed = 0; seed < 300; ++seed) {
    tn_argument arguments[N_VARIABLES];
    tn_entry v[N_VARIABLES];
    tn_program *p = NULL;
    state = seed;
    for (int i = 0; i < N_VARIABLES; ++i) v[i] = var_node(g, names[i]);
    const tn_entry y = chain_of(v);
    HEADS(g, add_gradient(y, random_number(2) ? v[3] : TN_ENTRY_NONE, v[0]));
    for (int i = 0; i < N_VARIABLES; ++i)
      arguments[i] = (tn_argument){
          .name = names[i],
          .array = i == 0 || i == 3 ? create_table(2, (const int64_t[]){2, 3})
                                    : create_table(1, (const int64_t[]){3})};
    cr_assert_eq(tn__program_bind(g,
                                  &(tn_bind){.struct_size = sizeof(tn_bind),
                                             .arguments = arguments,
                                             .n_arguments = N_VARIABLES},
                                  &p),
                 TN_OK, "seed %u: %s", seed, tn_error_text());
    OK(tn__program_forward(p, 0));
    tn__program_release(p);
    for (int i = 0; i < N_VARIABLES; ++i) tn__array_release(arguments[i].array);
    net_renew();
  }
  net_close();
}
