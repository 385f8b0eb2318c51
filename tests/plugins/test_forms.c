/* SPDX-License-Identifier: Apache-2.0
 * A plugin with manifests that use every form of operand, hook and resource,
 * from YAML through opgen, the compiler and the loader to numbers worked out by
 * hand.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "host.h"
#include "tenon/kernel_options.h"

static tn_array *row(tn_runtime *rt, int64_t n, const double *values) {
  return host_array(rt, TN_F32, (host_shape){1, {n}}, values);
}

static void drop(size_t n, tn_array **arrays) {
  for (size_t i = 0; i < n; ++i) tn_array_release(arrays[i]);
}

Test(forms, a_parameter_says_how_many_outputs_there_are) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.split");
  tn_params *params = host_params(op, "parts=3");
  tn_array *x = row(rt, 6, (double[]){1, 2, 3, 4, 5, 6});
  tn_array *parts[3] = {NULL, NULL, NULL}, *dx = NULL;
  const tn_outputs out = {3, parts, NULL};
  OK(tn_call(rt, op, TN_IN(x), params, &out));
  host_expect(parts[0], (double[]){1, 2}, 2, 0);
  host_expect(parts[2], (double[]){5, 6}, 2, 0);
  /* The gradient of the middle part is not given: it counts as zeros. */
  tn_array *heads[3] = {parts[2], NULL, parts[0]};
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = params,
                                     .inputs = {1, &x},
                                     .out_grads = {3, heads},
                                     .in_grads = {1, &dx, NULL}}));
  host_expect(dx, (double[]){5, 6, 0, 0, 1, 2}, 6, 0);
  FAILS(tn_call(rt, op, TN_IN(x), params, TN_OUT(&dx)), TN_INVALID, "3");
  uint32_t n = 0, n_visible = 0;
  OK(tn_operator_outputs(op, params, 1, &n, &n_visible));
  cr_expect(n == 3 && n_visible == 3, "%u, %u", n, n_visible);
  FAILS(tn_operator_outputs(op, NULL, 1, &n, NULL), TN_INVALID, "parts");
  drop(3, parts), drop(1, &x), drop(1, &dx);
  tn_params_release(params);
  tn_runtime_release(rt);
}

Test(forms, a_failed_requirement_is_reported_in_the_authors_words) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.split");
  tn_params *params = host_params(op, "parts=4");
  tn_array *x = row(rt, 6, (double[]){1, 2, 3, 4, 5, 6});
  tn_array *parts[4] = {NULL, NULL, NULL, NULL};
  const tn_outputs out = {4, parts, NULL};
  FAILS(tn_call(rt, op, TN_IN(x), params, &out), TN_SHAPE,
        "the first dimension must divide into `parts`");
  tn_params *none = NULL;
  FAILS(tn_params_parse(op, "", &none), TN_INVALID, "parts");
  FAILS(tn_params_parse(op, "parts=0", &none), TN_OUT_OF_RANGE, "parts");
  drop(1, &x);
  tn_params_release(params);
  tn_runtime_release(rt);
}

Test(forms, a_hook_infers_for_any_number_of_inputs) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.join");
  tn_array *in[3] = {row(rt, 1, (double[]){1}), row(rt, 0, NULL),
                     row(rt, 2, (double[]){2, 3})};
  tn_array *whole = NULL, *grads[3] = {NULL, NULL, NULL};
  OK(tn_call(rt, op, &(tn_inputs){3, in}, NULL, TN_OUT(&whole)));
  host_expect(whole, (double[]){1, 2, 3}, 3, 0);
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .inputs = {3, in},
                                     .out_grads = {1, &whole},
                                     .in_grads = {3, grads, NULL}}));
  host_expect(grads[0], (double[]){1}, 1, 0);
  host_expect(grads[2], (double[]){2, 3}, 2, 0);
  const double six[6] = {0};
  tn_array *flat = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, six);
  tn_array *mixed[2] = {in[0], flat}, *none = NULL;
  FAILS(tn_call(rt, op, &(tn_inputs){2, mixed}, NULL, TN_OUT(&none)), TN_SHAPE,
        "part 1 has rank 2, the first has 1");
  drop(3, in), drop(3, grads), drop(1, &whole), drop(1, &flat);
  tn_runtime_release(rt);
}

/* x = [[1,2]], w = [[1,2],[3,4],[5,6]], b = [10,20,30]. */
Test(forms, an_optional_input_and_a_workspace) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.linear");
  tn_array *x =
      host_array(rt, TN_F32, (host_shape){2, {1, 2}}, (double[]){1, 2});
  tn_array *w = host_array(rt, TN_F32, (host_shape){2, {3, 2}},
                           (double[]){1, 2, 3, 4, 5, 6});
  tn_array *b = row(rt, 3, (double[]){10, 20, 30}), *y = NULL, *z = NULL;
  OK(tn_call(rt, op, TN_IN(x, w, b), NULL, TN_OUT(&y)));
  host_expect(y, (double[]){15, 31, 47}, 3, 0);
  OK(tn_call(rt, op, TN_IN(x, w), NULL, TN_OUT(&z)));
  host_expect(z, (double[]){5, 11, 17}, 3, 0);
  tn_array *bad = row(rt, 2, (double[]){0, 0}), *none = NULL;
  FAILS(tn_call(rt, op, TN_IN(x, w, bad), NULL, TN_OUT(&none)), TN_SHAPE,
        "bias");
  drop(1, &x), drop(1, &w), drop(1, &b), drop(1, &bad);
  drop(1, &y), drop(1, &z);
  tn_runtime_release(rt);
}

/* The gradient of a bias is that of out, times the factor. */
static double linear_gradient(tn_runtime *rt, tn_operator *op, tn_array **in) {
  tn_array *g = host_array(rt, TN_F32, (host_shape){2, {1, 1}}, (double[]){5});
  tn_array *grads[3] = {NULL, NULL, NULL};
  const tn_req req[3] = {TN_REQ_NULL, TN_REQ_NULL, TN_REQ_WRITE};
  double v[HOST_MAX];
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .inputs = {3, in},
                                     .out_grads = {1, &g},
                                     .in_grads = {3, grads, req}}));
  (void)host_values(grads[2], v);
  drop(3, grads), drop(1, &g);
  return v[0];
}

static double linear(tn_runtime *rt, tn_operator *op, tn_array **in) {
  tn_array *y = NULL;
  double v[HOST_MAX];
  OK(tn_call(rt, op, &(tn_inputs){3, in}, NULL, TN_OUT(&y)));
  (void)host_values(y, v);
  drop(1, &y);
  return v[0];
}

/* 2*3 + 1 */
Test(forms, options_of_a_kernel_hold_for_both_passes_from_then_on) {
  static const char id[] = "forms.linear.cpu";
  const host_shape one = {2, {1, 1}};
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.linear");
  tn_array *in[3] = {host_array(rt, TN_F32, one, (double[]){2}),
                     host_array(rt, TN_F32, one, (double[]){3}),
                     row(rt, 1, (double[]){1})};
  cr_assert_eq(linear(rt, op, in), 7);
  OK(tn_operator_tune(op, id, "factor=10"));
  cr_assert_eq(linear(rt, op, in), 70);
  cr_assert_eq(linear_gradient(rt, op, in), 50);
  FAILS(tn_operator_tune(op, id, "factor=-1"), TN_OUT_OF_RANGE, "factor");
  FAILS(tn_operator_tune(op, id, "faktor=1"), TN_NOT_FOUND, "`factor`");
  FAILS(tn_operator_tune(op, "forms.linear.gpu", "factor=1"), TN_NOT_FOUND,
        "it has forms.linear.cpu");
  FAILS(tn_operator_tune(host_operator(rt, "forms.find"), "forms.find.cpu", ""),
        TN_NOT_FOUND, "kernel forms.find.cpu has no options");
  cr_assert_eq(linear(rt, op, in), 70);
  OK(tn_operator_tune(op, id, NULL));
  cr_assert_eq(linear(rt, op, in), 7);
  cr_assert_eq(linear_gradient(rt, op, in), 5);
  drop(3, in);
  tn_runtime_release(rt);
}

/* g = [[1,10,100]]: dx = g w, dw = g^T x, db = g. */
Test(forms, a_backward_kernel_sees_only_needed_operands) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.linear");
  tn_array *in[3] = {
      host_array(rt, TN_F32, (host_shape){2, {1, 2}}, (double[]){1, 2}),
      host_array(rt, TN_F32, (host_shape){2, {3, 2}},
                 (double[]){1, 2, 3, 4, 5, 6}),
      row(rt, 3, (double[]){10, 20, 30})};
  tn_array *g =
      host_array(rt, TN_F32, (host_shape){2, {1, 3}}, (double[]){1, 10, 100});
  static const double want[3][6] = {
      {531, 642}, {1, 2, 10, 20, 100, 200}, {1, 10, 100}};
  static const int64_t size[3] = {2, 6, 3};
  for (unsigned wanted = 1; wanted < 8; ++wanted) {
    tn_array *grads[3] = {NULL, NULL, NULL};
    tn_req req[3];
    for (unsigned i = 0; i < 3; ++i)
      req[i] = (wanted >> i & 1) != 0 ? TN_REQ_WRITE : TN_REQ_NULL;
    OK(tn_call_backward(rt, op,
                        &(tn_backward){.struct_size = sizeof(tn_backward),
                                       .inputs = {3, in},
                                       .out_grads = {1, &g},
                                       .in_grads = {3, grads, req}}));
    for (unsigned i = 0; i < 3; ++i)
      if (req[i] == TN_REQ_WRITE) host_expect(grads[i], want[i], size[i], 0);
    drop(3, grads);
  }
  drop(3, in), drop(1, &g);
  tn_runtime_release(rt);
}

Test(forms, aux_states_change_in_training_and_hidden_outputs_may_be_had) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.track");
  const double eight = 8;
  tn_array *x = row(rt, 2, (double[]){1, 3});
  tn_array *average = host_array(rt, TN_F32, (host_shape){0, {0}}, &eight);
  tn_array *y = NULL, *both[2] = {NULL, NULL};
  OK(tn_call(rt, op, TN_IN(x, average), NULL, TN_OUT(&y)));
  host_expect(y, (double[]){-1, 1}, 2, 0);
  host_expect(average, &eight, 1, 0);
  const tn_outputs out = {2, both, NULL};
  OK(tn_call_train(rt, op, TN_IN(x, average), NULL, &out));
  host_expect(both[1], (double[]){2}, 1, 0);
  host_expect(average, (double[]){5}, 1, 0); /* (8 + 2) / 2 */
  const tn_backward back = {.struct_size = sizeof back,
                            .inputs = {2, (tn_array *[]){x, average}},
                            .out_grads = {1, &y},
                            .in_grads = {1, both, NULL}};
  FAILS(tn_call_backward(rt, op, &back), TN_UNSUPPORTED,
        "nobody trains through it");
  drop(2, both), drop(1, &x), drop(1, &y), drop(1, &average);
  tn_runtime_release(rt);
}

/* A call draws one block for each element of its output: two. */
Test(forms, random_streams_states_and_instances_are_each_runtimes_own) {
  for (int turn = 0; turn < 2; ++turn) {
    const tn_options options = {.struct_size = sizeof options, .seed = 7};
    tn_runtime *rt = NULL;
    OK(tn_runtime_create(&options, &rt));
    OK(tn_plugin_load(rt, PLUGIN_FILE));
    tn_operator *op = host_operator(rt, "forms.noise");
    tn_array *x = NULL, *y = NULL;
    int64_t got[2];
    OK(tn_array_create(rt, &(tn_spec){TN_I64, 1, (int64_t[]){30}}, &x));
    for (int64_t n = 0; n < 3; ++n) {
      OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)));
      OK(tn_array_get(y, got, sizeof got));
      cr_assert_eq(got[0], 37);
      cr_assert_eq(got[1], 1002 * n);
    }
    tn_array_release(x), tn_array_release(y);
    tn_runtime_release(rt);
  }
}

Test(forms, a_kernel_may_decide_the_shape_of_its_output) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.find");
  tn_array *x = row(rt, 5, (double[]){0, 4, 0, -1, 9}), *y = NULL;
  tn_array *none = row(rt, 2, (double[]){0, 0}), *z = NULL;
  int64_t got[3];
  OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)));
  OK(tn_array_get(y, got, sizeof got));
  cr_assert(got[0] == 1 && got[1] == 3 && got[2] == 4);
  OK(tn_call(rt, op, TN_IN(none), NULL, TN_OUT(&z)));
  cr_assert_eq(tn_array_size(z), 0);
  drop(1, &x), drop(1, &y), drop(1, &none), drop(1, &z);
  tn_runtime_release(rt);
}

Test(forms, an_output_is_not_copied_from_an_input_of_another_shape) {
  tn_runtime *rt = host_open();
  tn_array *x = row(rt, 2, (double[]){1, 2}), *y = NULL;
  tn_operator *op = host_operator(rt, "forms.grow");
  const tn_code rc = tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y));
  FAILS(rc, TN_SHAPE, "output `out` starts as a copy of input `data`");
  FAILS(rc, TN_SHAPE, "must be f32 (2), but it is f32 (2,1000)");
  cr_assert_null(y);
  drop(1, &x);
  tn_runtime_release(rt);
}

Test(forms, a_kernel_that_its_condition_excludes_says_so) {
  tn_runtime *rt = host_open();
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {1, 0}}, NULL);
  tn_array *w = host_array(rt, TN_F32, (host_shape){2, {3, 0}}, NULL);
  tn_array *y = NULL;
  FAILS(tn_call(rt, host_operator(rt, "forms.linear"), TN_IN(x, w), NULL,
                TN_OUT(&y)),
        TN_UNSUPPORTED, "size(weight) > 0");
  drop(1, &x), drop(1, &w);
  tn_runtime_release(rt);
}

/* ---------------------------------------------------------- prepared calls */

Test(forms, a_dynamic_parameter_changes_between_runs_of_a_prepared_call) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.scale");
  tn_params *params = host_params(op, "rate=0.5");
  tn_array *w = row(rt, 2, (double[]){10, 20});
  tn_array *g = row(rt, 2, (double[]){2, 4});
  tn_prepared *call = NULL;
  const tn_preparation what = {.struct_size = sizeof(tn_preparation),
                               .op = op,
                               .params = params,
                               .inputs = *TN_IN(w, g),
                               .outputs = *TN_OUT(&w)};
  OK(tn_call_prepare(rt, &what, &call));
  tn_params_release(params);
  OK(tn_call_run(call));
  host_expect(w, (double[]){9, 18}, 2, 0);
  const tn_value rate = tn_value_float("rate", 2),
                 low = tn_value_float("rate", -1),
                 offset = tn_value_float("offset", 1),
                 unknown = tn_value_float("rat", 1);
  OK(tn_call_set(call, &rate));
  OK(tn_call_run(call));
  host_expect(w, (double[]){5, 10}, 2, 0);
  FAILS(tn_call_set(call, &low), TN_OUT_OF_RANGE, "rate");
  FAILS(tn_call_set(call, &offset), TN_UNSUPPORTED, "not declared dynamic");
  FAILS(tn_call_set(call, &unknown), TN_NOT_FOUND, "did you mean `rate`");
  OK(tn_call_run(call));
  host_expect(w, (double[]){1, 2}, 2, 0);
  FAILS(tn_plugin_unload(rt, "forms"), TN_BUSY, "forms.scale");
  tn_prepared_release(call);
  drop(1, &w), drop(1, &g);
  OK(tn_plugin_unload(rt, "forms"));
  tn_runtime_release(rt);
}

/* ----------------------------------------------------------------- graphs */

/* A call with two inputs, recorded: alpha*x*y or y + alpha*x with alpha 10, or
 * another operator. */
typedef struct graph_call {
  tn_runtime *rt;
  tn_tape *tape;
  tn_array *x;
  tn_array *y;
  tn_array *out;
} graph_call;

static graph_call graph_open_with(const char *name, const char *text) {
  graph_call g = {.rt = host_open()};
  tn_operator *op = host_operator(g.rt, name);
  tn_params *params = host_params(op, text);
  g.x = row(g.rt, 2, (double[]){3, -5});
  g.y = row(g.rt, 2, (double[]){2, 4});
  OK(tn_tape_create(g.rt, &g.tape));
  OK(tn_tape_watch(g.tape, g.x));
  OK(tn_tape_watch(g.tape, g.y));
  OK(tn_tape_call(g.tape, op, TN_IN(g.x, g.y), params, TN_OUT(&g.out)));
  tn_params_release(params);
  return g;
}

static graph_call graph_open(const char *name) {
  return graph_open_with(name, "alpha=10");
}

static void graph_close(graph_call *g) {
  drop(3, (tn_array *[]){g->x, g->y, g->out});
  tn_tape_release(g->tape);
  tn_runtime_release(g->rt);
}

static tn_code graph_gradient(const graph_call *g, tn_array *head,
                              uint32_t flags, tn_array *grads[2]) {
  tn_array *of[2] = {g->x, g->y};
  const tn_tape_query query = {.struct_size = sizeof query,
                               .flags = flags,
                               .heads = {1, &head},
                               .of = {2, of},
                               .gradients = {2, grads, NULL}};
  return tn_tape_gradient(g->tape, &query);
}

Test(forms, a_graph_calls_other_operators_for_a_gradient) {
  graph_call g = graph_open("forms.axpy");
  tn_array *grads[2] = {NULL, NULL};
  host_expect(g.out, (double[]){32, -46}, 2, 0);
  OK(tn_plugin_load(g.rt, ELEMWISE_FILE));
  OK(graph_gradient(&g, g.out, 0, grads));
  host_expect(grads[0], (double[]){10, 10}, 2, 0);
  host_expect(grads[1], (double[]){1, 1}, 2, 0);
  drop(2, grads);
  graph_close(&g);
}

Test(forms, a_missing_operator_disables_the_gradient_and_is_named) {
  graph_call g = graph_open("forms.axpy");
  tn_array *grads[2] = {NULL, NULL};
  FAILS(graph_gradient(&g, g.out, 0, grads), TN_UNSUPPORTED,
        "there is no operator \"elemwise.quadratic@1\"");
  FAILS(graph_gradient(&g, g.out, 0, grads), TN_UNSUPPORTED, "forms.axpy@1");
  cr_expect_null(grads[0]);
  graph_close(&g);
}

Test(forms, a_failing_call_for_a_gradient_names_the_differentiated_operator) {
  graph_call g = graph_open_with("forms.lessened", "rate=-1");
  tn_array *grads[2] = {NULL, NULL};
  host_expect(g.out, (double[]){8, -6}, 2, 0);
  FAILS(graph_gradient(&g, g.out, 0, grads), TN_OUT_OF_RANGE, "forms.scale@1");
  FAILS(graph_gradient(&g, g.out, 0, grads), TN_OUT_OF_RANGE,
        "; it is called for the gradient of forms.lessened@1");
  cr_expect_null(grads[0]);
  graph_close(&g);
}

Test(forms, the_gradient_of_a_graph_can_be_differentiated_again) {
  graph_call g = graph_open("forms.product");
  tn_array *first[2] = {NULL, NULL}, *second[2] = {NULL, NULL};
  OK(tn_plugin_load(g.rt, ELEMWISE_FILE));
  OK(graph_gradient(&g, g.out, TN_TAPE_RECORD, first));
  host_expect(first[0], (double[]){20, 40}, 2, 0);
  host_expect(first[1], (double[]){30, -50}, 2, 0);
  /* d(10 y)/dy; by x there is nothing. */
  OK(graph_gradient(&g, first[0], 0, second));
  host_expect(second[1], (double[]){10, 10}, 2, 0);
  host_expect(second[0], (double[]){0, 0}, 2, 0);
  drop(2, first), drop(2, second);
  graph_close(&g);
}

Test(forms, a_backward_call_of_a_graph_is_refused_with_an_alternative) {
  graph_call g = graph_open("forms.axpy");
  tn_array *grads[2] = {NULL, NULL}, *in[2] = {g.x, g.y};
  FAILS(tn_call_backward(g.rt, host_operator(g.rt, "forms.axpy"),
                         &(tn_backward){.struct_size = sizeof(tn_backward),
                                        .inputs = {2, in},
                                        .out_grads = {1, &g.out},
                                        .in_grads = {2, grads, NULL}}),
        TN_UNSUPPORTED, "tn_tape_gradient");
  graph_close(&g);
}
