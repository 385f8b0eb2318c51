/* SPDX-License-Identifier: Apache-2.0
 * test_losses.c: heads that are losses need no gradient. lab.scored is x*x with
 * the role of a loss, and its gradient reads that of its output.
 */
#include <stdlib.h>

#include "evaluate.h"

static tn_array *create_row(double a, double b) {
  return create_doubles(1, (const int64_t[]){2}, (const double[]){a, b});
}

static tn_program *bind_loss(tn_array *x, tn_array *out) {
  const tn_argument argument = {.name = "x", .array = x};
  tn_program *p = NULL;
  OK(tn__program_bind(g,
                      &(tn_bind){.struct_size = sizeof(tn_bind),
                                 .request = TN_REQ_WRITE,
                                 .arguments = &argument,
                                 .n_arguments = 1,
                                 .outputs = &out,
                                 .n_outputs = out ? 1 : 0},
                      &p));
  return p;
}

static void slope_is(tn_program *p, tn_array *weight, double a, double b) {
  tn_array *slope = NULL;
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, weight ? &weight : NULL, weight ? 1 : 0));
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "x", &slope));
  double *have = elements_of(slope);
  cr_assert_eq(have[0], a, "%g, not %g", have[0], a);
  cr_assert_eq(have[1], b, "%g, not %g", have[1], b);
  free(have);
}

Test(losses, a_missing_gradient_of_a_loss_is_ones) {
  net_open();
  tn_array *x = create_row(3, -5), *weight = create_row(10, 100);
  HEADS(g, OP(g, "scored", NULL, "score", var_node(g, "x")));
  tn_program *p = bind_loss(x, NULL);
  slope_is(p, NULL, 6, -10);
  slope_is(p, weight, 60, -1000);
  slope_is(p, NULL, 6, -10);
  slope_is(p, NULL, 6, -10);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(weight);
  net_close();
}

/* The head is then a copy of the loss. */
Test(losses, a_loss_in_an_array_of_the_user_is_still_one) {
  net_open();
  tn_array *x = create_row(3, -5), *out = create_row(0, 0);
  const tn_entry score = OP(g, "scored", NULL, "score", var_node(g, "x"));
  HEADS(g, score, score);
  tn_program *p = bind_loss(x, out);
  slope_is(p, NULL, 12, -20);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(out);
  net_close();
}

Test(losses, a_loss_of_an_embedded_graph_is_one) {
  tn_entry out;
  net_open();
  tn_graph *inner = net_new();
  HEADS(inner, OP(inner, "scored", NULL, "score", var_node(inner, "in")));
  const tn_entry x = var_node(g, "x");
  OK(tn__graph_embed(g,
                     &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                     .inner = inner,
                                     .name = "block",
                                     .n_in = 1,
                                     .in = &x},
                     &out));
  HEADS(g, out);
  tn_array *array = create_row(3, -5);
  tn_program *p = bind_loss(array, NULL);
  slope_is(p, NULL, 6, -10);
  tn__program_release(p);
  tn__array_release(array);
  tn__graph_release(inner);
  net_close();
}

/* state' = state + x[t], output[t] = state'^2 as a loss. */
Test(losses, a_collected_loss_of_a_loop_is_a_loss) {
  tn_entry out;
  net_open();
  tn_graph *step = net_new();
  const tn_entry next = OP(step, "add", NULL, "next", var_node(step, "item"),
                           var_node(step, "state"));
  HEADS(step, next, OP(step, "scored", NULL, "score", next));
  const tn_entry in[] = {var_node(g, "x"),
                         typed_var(g, "begin", SCALAR(TN_F64))};
  const char *sequence = "item", *state = "state";
  OK(tn__graph_loop(g,
                    &(tn_loop){.struct_size = sizeof(tn_loop),
                               .n_in = 2,
                               .step = step,
                               .sequences = &sequence,
                               .states = &state,
                               .n_sequences = 1,
                               .n_states = 1,
                               .in = in},
                    &out));
  HEADS(g, output_of(out, 1));
  tn_array *x = create_row(3, -5);
  tn_program *p = bind_loss(x, NULL);
  /* 3^2 + (3 - 5)^2: derivatives 2*3 + 2*(-2) and 2*(-2). */
  slope_is(p, NULL, 2, -4);
  tn__program_release(p);
  tn__array_release(x);
  tn__graph_release(step);
  net_close();
}

Test(losses, an_incomplete_inference_names_the_place_for_types) {
  tn_program *p = NULL;
  net_open();
  HEADS(g, OP(g, "scored", NULL, "score", var_node(g, "x")));
  FAILS(tn__program_bind(g, &(tn_bind){.struct_size = sizeof(tn_bind)}, &p),
        TN_INCOMPLETE, "`x` of unknown shape", "tn_argument.known");
  net_close();
}
