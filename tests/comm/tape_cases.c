/* SPDX-License-Identifier: Apache-2.0
 * tape_cases.c: gradients on tapes. The weight of rank r is r + 1, so that the
 * sum over ranks of weight times result has closed gradients.
 */
#include "ranks.h"

/* The gradient of weight*out by `data`, with the weights of all ranks. */
static const char *differentiates(member *me, const char *op,
                                  const char *params, int64_t n_in,
                                  int64_t n_out, const double *want) {
  double values[64], weights[64];
  tn_tape *tape = NULL;
  tn_operator *handle = NULL;
  tn_params *how = NULL;
  tn_array *out = NULL, *gradient = NULL;
  for (int64_t i = 0; i < n_in; ++i) values[i] = (double)i;
  for (int64_t i = 0; i < n_out; ++i)
    weights[i] = (double)((me->rank + 1) * (i + 1));
  tn_array *in = make_vector(me, TN_F32, n_in, values);
  tn_array *weight = make_vector(me, TN_F32, n_out, weights);
  OK(tn_tape_create(me->rt, &tape));
  OK(tn_tape_watch(tape, in));
  OK(tn_operator_get(me->rt, op, &handle));
  OK(tn_params_parse(handle, params, &how));
  OK(tn_tape_call(tape, handle, TN_IN(in), how, TN_OUT(&out)));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(out),
                                       .head_gradients = *TN_IN(weight),
                                       .of = *TN_IN(in),
                                       .gradients = *TN_OUT(&gradient)}));
  const char *failure = expect(me, gradient, want, n_in, 1e-6);
  if (failure) {
    char text[200];
    snprintf(text, sizeof text, "%s", failure);
    FAIL("gradient of %s %s: %s", op, params, text);
  }
  tn_array_release(gradient);
  tn_array_release(out);
  tn_array_release(in);
  tn_array_release(weight);
  tn_params_release(how);
  tn_tape_release(tape);
  return NULL;
}

static const char *differentiates_reductions(member *me) {
  const int n = me->size;
  const double ranks = n * (n + 1) / 2.0; /* sum of r + 1 */
  double want[64];
  for (int i = 0; i < 3; ++i) want[i] = ranks * (i + 1);
  TRY(differentiates(me, "comm.all_reduce", "", 3, 3, want));
  for (int i = 0; i < 3; ++i) want[i] = ranks * (i + 1) / n;
  TRY(differentiates(me, "comm.all_reduce", "op=mean", 3, 3, want));
  /* element i of part r is part r's weight on rank r */
  for (int i = 0; i < 2 * n; ++i) want[i] = (i / 2 + 1) * (i % 2 + 1);
  TRY(differentiates(me, "comm.reduce_scatter", "", 2 * n, 2, want));
  for (int i = 0; i < 2 * n; ++i) want[i] /= n;
  TRY(differentiates(me, "comm.reduce_scatter", "op=mean", 2 * n, 2, want));
  for (int i = 0; i < 2; ++i) want[i] = n * (i + 1); /* of the last rank */
  char params[40];
  snprintf(params, sizeof params, "root=%d", n - 1);
  TRY(differentiates(me, "comm.reduce", params, 2, 2, want));
  for (int i = 0; i < 2; ++i) want[i] = i + 1;
  snprintf(params, sizeof params, "op=mean root=%d", n - 1);
  return differentiates(me, "comm.reduce", params, 2, 2, want);
}

static const char *differentiates_exchanges(member *me) {
  const int n = me->size;
  const double ranks = n * (n + 1) / 2.0;
  double want[64];
  for (int i = 0; i < 2; ++i) want[i] = ranks * (2 * me->rank + i + 1);
  TRY(differentiates(me, "comm.all_gather", "", 2, 2 * n, want));
  for (int i = 0; i < 2; ++i) want[i] = me->rank == 0 ? ranks * (i + 1) : 0;
  TRY(differentiates(me, "comm.broadcast", "", 2, 2, want));
  /* part s of data is part `rank` of the result of rank s */
  for (int s = 0; s < n; ++s) want[s] = (s + 1) * (me->rank + 1);
  return differentiates(me, "comm.all_to_all", "", n, n, want);
}

/* Two arrays of one call; only the second one is watched. */
static const char *differentiates_one_of_several(member *me) {
  const double values[] = {1, 2}, weights[] = {me->rank + 1, 10};
  const double want[] = {me->size * (me->size + 1) / 2.0, 10 * me->size};
  tn_tape *tape = NULL;
  tn_operator *op = NULL;
  tn_params *how = NULL;
  tn_array *out[2] = {NULL, NULL}, *gradient = NULL;
  tn_array *in[] = {make_vector(me, TN_BF16, 1, values),
                    make_vector(me, TN_BF16, 2, values)};
  tn_array *weight = make_vector(me, TN_BF16, 2, weights);
  OK(tn_tape_create(me->rt, &tape));
  OK(tn_tape_watch(tape, in[1]));
  OK(tn_operator_get(me->rt, "comm.all_reduce", &op));
  OK(tn_params_parse(op, "num_arrays=2", &how));
  OK(tn_tape_call(tape, op, &(tn_inputs){2, in}, how,
                  &(tn_outputs){2, out, NULL}));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(out[1]),
                                       .head_gradients = *TN_IN(weight),
                                       .of = *TN_IN(in[1]),
                                       .gradients = *TN_OUT(&gradient)}));
  TRY(expect(me, gradient, want, 2, 0));
  for (int k = 0; k < 2; ++k) {
    tn_array_release(in[k]);
    tn_array_release(out[k]);
  }
  tn_array_release(weight);
  tn_array_release(gradient);
  tn_params_release(how);
  tn_tape_release(tape);
  return NULL;
}

/* Rank 0 sends x to the last rank, which computes y = 3*x; rank 0 gets the
 * gradient. */
static const char *differentiates_messages(member *me) {
  const double values[] = {1, 2}, weights[] = {5, 7}, want[] = {15, 21};
  const double zeros[] = {0};
  char params[80];
  tn_tape *tape = NULL;
  tn_operator *op = NULL, *mul = NULL;
  tn_params *how = NULL, *three = NULL;
  tn_array *out = NULL, *y = NULL, *gradient = NULL;
  const int last = me->size - 1;
  if (me->rank != 0 && me->rank != last) return meet(me);
  OK(tn_tape_create(me->rt, &tape));
  if (me->rank == 0) {
    tn_array *x = make_vector(me, TN_F32, 2, values);
    snprintf(params, sizeof params, "to=%d", last);
    OK(tn_tape_watch(tape, x));
    OK(tn_operator_get(me->rt, "comm.send", &op));
    OK(tn_params_parse(op, params, &how));
    OK(tn_tape_call(tape, op, TN_IN(x), how, TN_OUT(&out)));
    OK(tn_tape_gradient(tape,
                        &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                         .heads = *TN_IN(out),
                                         .of = *TN_IN(x),
                                         .gradients = *TN_OUT(&gradient)}));
    TRY(expect(me, gradient, want, 2, 0));
    tn_array_release(x);
  } else {
    tn_array *after = make_vector(me, TN_F32, 1, zeros);
    tn_array *weight = make_vector(me, TN_F32, 2, weights);
    OK(tn_tape_watch(tape, after));
    OK(tn_operator_get(me->rt, "comm.recv", &op));
    OK(tn_params_parse(op, "from=0 shape=(2)", &how));
    OK(tn_tape_call(tape, op, TN_IN(after), how, TN_OUT(&out)));
    OK(tn_operator_get(me->rt, "elemwise.mul_scalar", &mul));
    OK(tn_params_parse(mul, "scalar=3", &three));
    OK(tn_tape_call(tape, mul, TN_IN(out), three, TN_OUT(&y)));
    OK(tn_tape_gradient(tape,
                        &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                         .heads = *TN_IN(y),
                                         .head_gradients = *TN_IN(weight),
                                         .of = *TN_IN(after),
                                         .gradients = *TN_OUT(&gradient)}));
    const double got[] = {3, 6};
    TRY(expect(me, y, got, 2, 0));
    TRY(expect(me, gradient, zeros, 1, 0));
    tn_array_release(after);
    tn_array_release(weight);
    tn_array_release(y);
  }
  tn_array_release(out);
  tn_array_release(gradient);
  tn_params_release(how);
  tn_params_release(three);
  tn_tape_release(tape);
  return meet(me);
}

static const char *has_no_gradient_of_extremes(member *me) {
  const double values[] = {1};
  tn_tape *tape = NULL;
  tn_operator *op = NULL;
  tn_params *how = NULL;
  tn_array *out = NULL, *gradient = NULL;
  tn_array *x = make_vector(me, TN_F32, 1, values);
  OK(tn_tape_create(me->rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_operator_get(me->rt, "comm.all_reduce", &op));
  OK(tn_params_parse(op, "op=max", &how));
  OK(tn_tape_call(tape, op, TN_IN(x), how, TN_OUT(&out)));
  FAILS(tn_tape_gradient(tape,
                         &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                          .heads = *TN_IN(out),
                                          .of = *TN_IN(x),
                                          .gradients = *TN_OUT(&gradient)}),
        TN_UNSUPPORTED, "op=max has no gradient");
  tn_array_release(x);
  tn_array_release(out);
  tn_params_release(how);
  tn_tape_release(tape);
  return NULL;
}

const test_case tape_cases[] = {
    {.name = "differentiates_reductions", .run = differentiates_reductions},
    {.name = "differentiates_exchanges", .run = differentiates_exchanges},
    {.name = "differentiates_one_of_several",
     .run = differentiates_one_of_several},
    {.name = "differentiates_messages", .run = differentiates_messages},
    {.name = "has_no_gradient_of_extremes", .run = has_no_gradient_of_extremes},
    {.name = NULL}};
