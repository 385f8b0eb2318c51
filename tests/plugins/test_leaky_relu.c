/* SPDX-License-Identifier: Apache-2.0
 * nn.leaky_relu: NumPy's values of four functions, the drawn slopes of the
 * fifth, gradients of learned slopes over many pieces, and refused parameters.
 */
#include <stdlib.h>

#include "cases.h"
#include "tenon/graph.h"
#include "tenon/kernel/kernel.h"

Test(leaky_relu, values_and_gradients_are_those_of_numpy) {
  tn_runtime *rt = host_open();
  cases_check(rt, "nn.leaky_relu", 8);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------ random slopes */

enum { N = 50001 };

static void make_random_of(tn_runtime *rt, tn_dtype dtype, cases_call *c) {
  const int64_t dims[1] = {N};
  *c = (cases_call){.op = "nn.leaky_relu",
                    .params = "act_type=rrelu lower=0.25 upper=0.5",
                    .flags = TN_CALL_TRAIN,
                    .n_in = 1,
                    .n_out = 2};
  c->in[0] = cases_array(rt, dtype, 1, dims, cases_noise);
  c->heads[0] = cases_array(rt, dtype, 1, dims, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

static void make_random(tn_runtime *rt, cases_call *c) {
  make_random_of(rt, TN_F32, c);
}

Test(leaky_relu, slopes_are_drawn_from_the_words_of_elements) {
  tn_runtime *rt = host_open();
  cases_call c;
  make_random(rt, &c);
  OK(tn_random_seed(rt, 21));
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.out[0]);
  double *slope = cases_values(c.grads[0]), *kept = cases_values(c.out[1]);
  for (int64_t i = 0; i < N; ++i) {
    const tn_kernel_bits bits = tn_kernel_philox(21, (uint64_t)i / 4, 0);
    const double r = .25 + .25 * ((double)bits.word[i % 4] * 0x1p-32);
    const double want = x[i] > 0 ? 1 : r;
    cr_assert(fabs(kept[i] - want) < 1e-6, "%lld: %g, not %g", (long long)i,
              kept[i], want);
    cr_assert(fabs(y[i] - x[i] * want) < 1e-6);
    cr_assert(fabs(slope[i] - x[i] * want) < 1e-6);
  }
  free(x), free(y), free(slope), free(kept);
  cases_release(&c);
  tn_runtime_release(rt);
}

/* The hidden output is the factor of each element. */
static void check_scale(tn_dtype dtype) {
  tn_runtime *rt = host_open();
  cases_call c;
  make_random_of(rt, dtype, &c);
  cases_expect_factor(rt, &c);
  tn_runtime_release(rt);
}

Test(leaky_relu, drawn_slopes_are_the_same_forward_and_backward) {
  check_scale(TN_F16);
  check_scale(TN_BF16);
}

/* Rounding to the type of `data` must not raise a slope to `upper`. */
static void check_bound(tn_dtype dtype) {
  tn_runtime *rt = host_open();
  cases_call c;
  make_random_of(rt, dtype, &c);
  OK(tn_random_seed(rt, 3));
  cases_forward(rt, &c);
  double *x = cases_values(c.in[0]), *kept = cases_values(c.out[1]);
  int reached = 0;
  for (int64_t i = 0; i < N; ++i)
    reached += x[i] <= 0 && (kept[i] < 0.25 || kept[i] >= 0.5);
  cr_expect_eq(reached, 0, "%d slopes are not in [0.25, 0.5)", reached);
  free(x), free(kept);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(leaky_relu, drawn_slopes_stay_below_upper) {
  check_bound(TN_F16);
  check_bound(TN_BF16);
  check_bound(TN_F32);
  check_bound(TN_F64);
}

/* ----------------------------------------------------------- learned slopes */

static void fill(tn_runtime *rt, cases_call *c, const int64_t *dims,
                 int64_t slopes) {
  *c = (cases_call){
      .op = "nn.leaky_relu", .params = "act_type=prelu", .n_in = 2, .n_out = 2};
  c->in[0] = cases_array(rt, TN_F32, 3, dims, cases_noise);
  c->in[1] = cases_array(rt, TN_F32, 1, &slopes, cases_noise);
  c->heads[0] = cases_array(rt, TN_F32, 3, dims, cases_noise);
  c->req[0] = c->req[1] = TN_REQ_WRITE;
}

/* x*g where x is not above 0 is x^2 here, as head and data are equal. */
static void check_sums(tn_runtime *rt, const int64_t *dims, int64_t slopes) {
  cases_call c;
  fill(rt, &c, dims, slopes);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *x = cases_values(c.in[0]), *got = cases_values(c.grads[1]);
  double *want = calloc((size_t)slopes, sizeof *want);
  cr_assert_not_null(want);
  for (int64_t i = 0; i < dims[0] * dims[1] * dims[2]; ++i)
    if (x[i] <= 0) want[slopes > 1 ? i / dims[2] % dims[1] : 0] += x[i] * x[i];
  for (int64_t i = 0; i < slopes; ++i)
    cr_assert(fabs(got[i] - want[i]) < 1e-6 * want[i], "%lld: %.9g, not %.9g",
              (long long)i, got[i], want[i]);
  free(x), free(got), free(want);
  cases_release(&c);
}

Test(leaky_relu, gradients_of_slopes_are_sums_over_all_pieces) {
  tn_runtime *rt = host_open();
  check_sums(rt, (const int64_t[]){3, 5, 9000}, 5);
  check_sums(rt, (const int64_t[]){1000, 300, 1}, 300);
  check_sums(rt, (const int64_t[]){90, 20, 7}, 20);
  check_sums(rt, (const int64_t[]){11, 20, 700}, 1);
  tn_runtime_release(rt);
}

static void make_learned(tn_runtime *rt, cases_call *c) {
  fill(rt, c, (const int64_t[]){7, 30, 900}, 30);
}

static void make_plain(tn_runtime *rt, cases_call *c) {
  fill(rt, c, (const int64_t[]){7, 30, 900}, 30);
  c->params = "act_type=elu";
  c->n_in = c->n_out = 1;
}

Test(leaky_relu, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_learned);
  cases_same_for_all_threads(make_plain);
  cases_same_for_all_threads(make_random);
}

/* ------------------------------------------------------------------ mistakes
 */

static tn_code infer(tn_runtime *rt, const char *text, uint32_t n_in,
                     const tn_sig *gamma) {
  tn_operator *op = host_operator(rt, "nn.leaky_relu");
  tn_params *params = host_params(op, text);
  tn_sig in[2] = {{TN_F32, 2, {3, 4}}, *gamma};
  tn_sig out[2] = {{.ndim = -1}, {.ndim = -1}};
  const uint32_t n_out = strstr(text, "relu") ? 2 : 1;
  const tn_code rc = tn_operator_infer(
      op, params, &(tn_signature){n_in, n_out, 0, 0, in, out, NULL});
  if (rc == TN_OK && n_in > 1) cr_assert_eq(in[1].shape[0], 4);
  tn_params_release(params);
  return rc;
}

Test(leaky_relu, slopes_that_do_not_fit_are_refused) {
  const tn_sig unknown = {.ndim = -1}, four = {TN_F32, 1, {4}};
  const tn_sig three = {TN_F32, 1, {3}}, square = {TN_F32, 2, {4, 1}};
  tn_runtime *rt = host_open();
  tn_params *none = NULL;
  tn_operator *op = host_operator(rt, "nn.leaky_relu");
  OK(infer(rt, "act_type=prelu", 2, &unknown));
  OK(infer(rt, "act_type=prelu", 2, &four));
  FAILS(infer(rt, "act_type=prelu", 2, &three), TN_SHAPE,
        "`gamma` (3) must have one number, or one for each index along the "
        "second dimension of `data` (3,4)");
  FAILS(infer(rt, "act_type=prelu", 2, &square), TN_SHAPE, "`gamma` (4,1)");
  FAILS(infer(rt, "act_type=prelu", 1, &four), TN_SHAPE,
        "give `gamma` with act_type=prelu and only then");
  FAILS(infer(rt, "act_type=elu", 2, &four), TN_SHAPE, "only then");
  FAILS(infer(rt, "act_type=rrelu lower=0.5 upper=0.25", 1, &four),
        TN_OUT_OF_RANGE, "`lower` is 0.5, but must not be above `upper`");
  FAILS(infer(rt, "act_type=rrelu lower=-inf", 1, &four), TN_OUT_OF_RANGE,
        "`lower` is -inf and `upper` is 0.334: both must be finite");
  FAILS(infer(rt, "act_type=rrelu upper=inf", 1, &four), TN_OUT_OF_RANGE,
        "both must be finite");
  FAILS(infer(rt, "act_type=rrelu upper=nan", 1, &four), TN_OUT_OF_RANGE,
        "`upper` is nan");
  FAILS(tn_params_parse(op, "slope=-1", &none), TN_OUT_OF_RANGE, "slope");
  FAILS(tn_params_parse(op, "act_type=relu", &none), TN_INVALID, "rrelu");
  tn_runtime_release(rt);
}

/* `kept` is there for some functions only, and hidden: without it there is one
 * output still, and not none. */
Test(leaky_relu, a_hidden_output_that_is_not_there_takes_no_others_place) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.leaky_relu");
  const int64_t dims[1] = {4};
  tn_array *x = cases_array(rt, TN_F32, 1, dims, cases_noise);
  tn_array *places[2] = {NULL, NULL};
  const tn_inputs in = {1, &x};
  const tn_outputs none = {0, places, NULL}, two = {2, places, NULL};
  FAILS(tn_call(rt, op, &in, NULL, &none), TN_INVALID,
        "nn.leaky_relu@1 has 1 output (out), but 0 places were given");
  FAILS(tn_call(rt, op, &in, NULL, &two), TN_INVALID,
        "nn.leaky_relu@1 has 1 output (out), but 2 places were given");
  OK(tn_call(rt, op, &in, NULL, TN_OUT(places)));
  tn_array_release(places[0]);
  tn_array_release(x);
  tn_sig sigs[3] = {{TN_F32, 1, {4}}, {.ndim = -1}, {.ndim = -1}};
  tn_signature io = {.n_in = 1, .in = sigs, .out = sigs + 1};
  FAILS(tn_operator_infer(op, NULL, &io), TN_INVALID, "1 outputs");
  tn_runtime_release(rt);
}

static void outputs_are(tn_operator *op, const char *params, uint32_t n_in,
                        uint32_t n, uint32_t n_visible) {
  tn_params *given = host_params(op, params);
  uint32_t have = 0, visible = 0;
  OK(tn_operator_outputs(op, given, n_in, &have, &visible));
  cr_expect_eq(have, n, "%s: %u", params, have);
  cr_expect_eq(visible, n_visible, "%s: %u", params, visible);
  OK(tn_operator_outputs(op, given, n_in, NULL, NULL));
  tn_params_release(given);
}

Test(leaky_relu, the_host_learns_the_number_of_outputs) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.leaky_relu");
  outputs_are(op, "act_type=leaky", 1, 1, 1);
  outputs_are(op, "act_type=rrelu", 1, 2, 1);
  FAILS(tn_operator_outputs(op, NULL, 3, NULL, NULL), TN_INVALID,
        "nn.leaky_relu@1 takes 1 to 2 inputs (data, gamma), but 3 were given");
  outputs_are(host_operator(rt, "nn.batch_norm"), "", 3, 3, 1);
  tn_runtime_release(rt);
}

/* One number for all columns, which another node says, in either order. */
Test(leaky_relu, slopes_of_unknown_length_are_not_guessed) {
  tn_runtime *rt = host_open();
  for (int first = 0; first < 2; ++first) {
    const tn_sig table = {TN_F32, 2, {4, 3}};
    tn_graph *net = NULL;
    tn_entry data, gamma, weight, heads[2];
    tn_sig sig;
    OK(tn_graph_create(rt, &net));
    OK(tn_graph_variable(net, "data", &table, &data));
    OK(tn_graph_variable(net, "gamma", NULL, &gamma));
    OK(tn_graph_variable(net, "weight", NULL, &weight));
    const tn_entry act[] = {data, gamma}, layer[] = {data, weight, gamma};
    const tn_graph_node nodes[] = {
        {.struct_size = sizeof(tn_graph_node),
         .op = "nn.leaky_relu",
         .params = "act_type=prelu",
         .n_in = 2,
         .in = act},
        {.struct_size = sizeof(tn_graph_node),
         .op = "nn.fully_connected", /* with gamma as the bias: (1) */
         .params = "num_hidden=1",
         .n_in = 3,
         .in = layer}};
    OK(tn_graph_call(net, &nodes[first], &heads[0]));
    OK(tn_graph_call(net, &nodes[1 - first], &heads[1]));
    OK(tn_graph_heads_set(net, heads, 2));
    OK(tn_graph_infer(net, NULL, 0));
    OK(tn_graph_sig(net, gamma, &sig));
    cr_assert_eq(sig.ndim, 1);
    cr_assert_eq(sig.shape[0], 1);
    tn_graph_release(net);
  }
  tn_runtime_release(rt);
}
