/* SPDX-License-Identifier: Apache-2.0
 * plugins/nn through the public API: values of NumPy (tests/reference/nn.py),
 * shapes and dtypes in both directions, unusual labels, and messages about
 * operands that do not fit. Large products are tested in test_product.c.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "host.h"

/* ---------------------------------------------------------- NumPy's values */

typedef struct nn_case {
  const char *op;
  const char *params;
  size_t n_in;
  host_operand in[3];
  host_operand out;
  host_operand head; /* gradient of out */
  size_t n_grads;
  host_operand grads[3]; /* of the first n_grads inputs */
} nn_case;

static const nn_case nn_cases[] = {
#include "nn_cases.inc"
};
enum { N_CASES = sizeof nn_cases / sizeof *nn_cases };

static void check_case(tn_runtime *rt, const nn_case *c, tn_dtype dtype,
                       double tolerance) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[3] = {NULL}, *grads[3] = {NULL}, *out = NULL;
  tn_array *head = host_array(rt, dtype, c->head.shape, c->head.v);
  const tn_req req[3] = {TN_REQ_WRITE,
                         c->n_grads > 1 ? TN_REQ_WRITE : TN_REQ_NULL,
                         c->n_grads > 2 ? TN_REQ_WRITE : TN_REQ_NULL};
  for (size_t i = 0; i < c->n_in; ++i)
    in[i] = host_array(rt, dtype, c->in[i].shape, c->in[i].v);
  OK(tn_call(rt, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  host_expect_operand(out, &c->out, tolerance, c->op, c->params);
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = params,
                                     .inputs = {c->n_in, in},
                                     .outputs = {1, &out},
                                     .out_grads = {1, &head},
                                     .in_grads = {c->n_in, grads, req}}));
  for (size_t i = 0; i < c->n_grads; ++i)
    host_expect_operand(grads[i], &c->grads[i], tolerance, c->op, c->params);
  for (size_t i = 0; i < 3; ++i) tn_array_release(in[i]);
  for (size_t i = 0; i < 3; ++i) tn_array_release(grads[i]);
  tn_array_release(head), tn_array_release(out);
  tn_params_release(params);
}

Test(nn, values_and_gradients_are_those_of_numpy) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < N_CASES; ++i) {
    check_case(rt, &nn_cases[i], TN_F64, 1e-14);
    check_case(rt, &nn_cases[i], TN_F32, 2e-6);
  }
  tn_runtime_release(rt);
}

/* -------------------------------------------------------- shapes and dtypes */

/* The shape of a signature, of which -1 dimensions are not known. */
typedef struct partial {
  int32_t ndim;
  int64_t dims[4];
} partial;

static tn_sig sig_of(const partial *p) {
  tn_sig sig = {.dtype = TN_F32, .ndim = p->ndim};
  for (int32_t d = 0; d < p->ndim; ++d) sig.shape[d] = p->dims[d];
  return sig;
}

/* The known types and shapes of up to three inputs and the output, before and
 * after. */
typedef struct shape_case {
  const char *op;
  const char *params;
  uint32_t n_in;
  partial before[4]; /* the output last */
  partial after[4];
} shape_case;

static const shape_case shape_cases[] = {
    /* mlp2_infer_shape: (100,100) through 1000 to 10 */
    {"nn.fully_connected",
     "num_hidden=1000",
     3,
     {{2, {100, 100}}, {-1, {0}}, {-1, {0}}, {-1, {0}}},
     {{2, {100, 100}}, {2, {1000, 100}}, {1, {1000}}, {2, {100, 1000}}}},
    {"nn.fully_connected",
     "num_hidden=10",
     3,
     {{2, {100, 1000}}, {-1, {0}}, {-1, {0}}, {-1, {0}}},
     {{2, {100, 1000}}, {2, {10, 1000}}, {1, {10}}, {2, {100, 10}}}},
    /* incomplete_infer_mlp: data (?,10) and out (5,?) */
    {"nn.fully_connected",
     "num_hidden=21",
     3,
     {{2, {-1, 10}}, {-1, {0}}, {-1, {0}}, {2, {5, -1}}},
     {{2, {5, 10}}, {2, {21, 10}}, {1, {21}}, {2, {5, 21}}}},
    /* From the weight back to the one dimension that is missing. */
    {"nn.fully_connected",
     "num_hidden=2 no_bias=true",
     2,
     {{4, {7, 3, -1, 2}}, {2, {2, 24}}, {-1, {0}}},
     {{4, {7, 3, 4, 2}}, {2, {2, 24}}, {2, {7, 2}}}},
    {"nn.fully_connected",
     "num_hidden=4 no_bias=true flatten=false",
     2,
     {{3, {-1, 3, 5}}, {-1, {0}}, {3, {2, -1, -1}}},
     {{3, {2, 3, 5}}, {2, {4, 5}}, {3, {2, 3, 4}}}},
    /* The rank of data from that of out. */
    {"nn.fully_connected",
     "num_hidden=4 no_bias=true flatten=false",
     2,
     {{-1, {0}}, {2, {-1, 6}}, {3, {2, 3, -1}}},
     {{3, {2, 3, 6}}, {2, {4, 6}}, {3, {2, 3, 4}}}},
    {"nn.activation",
     "act_type=tanh",
     1,
     {{2, {-1, 3}}, {2, {2, -1}}},
     {{2, {2, 3}}, {2, {2, 3}}}},
    {"nn.softmax_output",
     "",
     2,
     {{2, {-1, 10}}, {-1, {0}}, {2, {64, -1}}},
     {{2, {64, 10}}, {1, {64}}, {2, {64, 10}}}},
    {"nn.softmax_output",
     "",
     2,
     {{3, {-1, 2, 5}}, {1, {8}}, {-1, {0}}},
     {{3, {8, 2, 5}}, {1, {8}}, {3, {8, 2, 5}}}},
    {"nn.softmax_output",
     "multi_output=true",
     2,
     {{4, {2, 4, -1, 6}}, {3, {-1, 5, -1}}, {-1, {0}}},
     {{4, {2, 4, 5, 6}}, {3, {2, 5, 6}}, {4, {2, 4, 5, 6}}}},
    {"nn.softmax_output",
     "preserve_shape=true",
     2,
     {{3, {2, -1, 7}}, {2, {-1, 3}}, {-1, {0}}},
     {{3, {2, 3, 7}}, {2, {2, 3}}, {3, {2, 3, 7}}}},
    /* Probabilities have the shape of data. */
    {"nn.softmax_output",
     "",
     2,
     {{2, {-1, 10}}, {2, {3, -1}}, {-1, {0}}},
     {{2, {3, 10}}, {2, {3, 10}}, {2, {3, 10}}}},
};

static void check_shapes(tn_runtime *rt, const shape_case *c) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_sig sigs[4];
  for (uint32_t i = 0; i <= c->n_in; ++i) sigs[i] = sig_of(&c->before[i]);
  tn_signature io = {c->n_in, 1, 0, 0, sigs, &sigs[c->n_in], NULL};
  OK(tn_operator_infer(op, params, &io));
  for (uint32_t i = 0; i <= c->n_in; ++i) {
    cr_assert_eq(sigs[i].ndim, c->after[i].ndim, "%s %s, operand %u", c->op,
                 c->params, i);
    for (int32_t d = 0; d < sigs[i].ndim; ++d)
      cr_assert_eq(sigs[i].shape[d], c->after[i].dims[d],
                   "%s %s, operand %u, dimension %d: %lld", c->op, c->params, i,
                   (int)d, (long long)sigs[i].shape[d]);
  }
  tn_params_release(params);
}

Test(nn, known_dimensions_reach_all_shapes) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof shape_cases / sizeof *shape_cases; ++i)
    check_shapes(rt, &shape_cases[i]);
  tn_runtime_release(rt);
}

/* fc_infer_type: float16 goes on to the weights. */
Test(nn, the_dtype_of_data_is_that_of_the_weights_and_of_the_result) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.fully_connected");
  tn_params *params = host_params(op, "num_hidden=3");
  tn_sig in[3] = {{.dtype = TN_F16, .ndim = 2, .shape = {2, 5}},
                  {.ndim = -1},
                  {.ndim = -1}};
  tn_sig out = {.ndim = -1};
  OK(tn_operator_infer(op, params,
                       &(tn_signature){3, 1, 0, 0, in, &out, NULL}));
  cr_assert_eq(in[1].dtype, TN_F16);
  cr_assert_eq(in[2].dtype, TN_F16);
  cr_assert_eq(out.dtype, TN_F16);
  tn_params_release(params);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------ mistakes
 */

typedef struct mistake {
  const char *op;
  const char *params;
  uint32_t n_in;
  partial in[3];
  tn_code code;
  const char *texts[4]; /* all of them are said */
} mistake;

static const mistake mistakes[] = {
    {"nn.fully_connected",
     "num_hidden=1000",
     3,
     {{2, {100, 100}}, {2, {1, 100}}, {1, {1000}}},
     TN_SHAPE,
     {"nn.fully_connected", "weight", "1000", "1"}},
    {"nn.fully_connected",
     "num_hidden=2",
     3,
     {{2, {4, 6}}, {2, {2, 5}}, {1, {2}}},
     TN_SHAPE,
     {"`data` (4,6) has 6", "`weight` (2,5) has 5", NULL}},
    {"nn.fully_connected",
     "num_hidden=2",
     3,
     {{3, {4, 3, -1}}, {2, {2, 7}}, {1, {2}}},
     TN_SHAPE,
     {"a multiple of 3 elements", "`weight` (2,7) has 7", NULL}},
    {"nn.fully_connected",
     "num_hidden=2",
     3,
     {{2, {4, 6}}, {2, {2, 6}}, {1, {3}}},
     TN_SHAPE,
     {"bias", "3", "2"}},
    {"nn.fully_connected",
     "num_hidden=2",
     2,
     {{2, {4, 6}}, {2, {2, 6}}},
     TN_SHAPE,
     {"give `bias` or set no_bias=true", NULL}},
    {"nn.fully_connected",
     "num_hidden=2 no_bias=true",
     3,
     {{2, {4, 6}}, {2, {2, 6}}, {1, {2}}},
     TN_SHAPE,
     {"give `bias` or set no_bias=true", NULL}},
    {"nn.fully_connected",
     "num_hidden=2 no_bias=true",
     2,
     {{0, {0}}, {2, {2, 6}}},
     TN_SHAPE,
     {"`data` has no dimension", NULL}},
    {"nn.softmax_output",
     "",
     2,
     {{2, {4, 6}}, {1, {5}}},
     TN_SHAPE,
     {"`label` (5)", "`data` (4,6)", NULL}},
    {"nn.softmax_output",
     "",
     2,
     {{1, {4}}, {1, {4}}},
     TN_SHAPE,
     {"rank 1", "dimension 1", NULL}},
    {"nn.softmax_output",
     "multi_output=true",
     2,
     {{3, {2, 4, 3}}, {1, {2}}},
     TN_SHAPE,
     {"`label` (2)", "`data` (2,4,3)", NULL}},
};

Test(nn, operands_that_do_not_fit_are_named_with_their_shapes) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    const mistake *m = &mistakes[i];
    tn_operator *op = host_operator(rt, m->op);
    tn_params *params = host_params(op, m->params);
    tn_sig in[3], out = {.ndim = -1};
    for (uint32_t k = 0; k < m->n_in; ++k) in[k] = sig_of(&m->in[k]);
    const tn_code rc = tn_operator_infer(
        op, params, &(tn_signature){m->n_in, 1, 0, 0, in, &out, NULL});
    cr_assert_eq(rc, m->code, "mistake %zu: %s", i, tn_error_text());
    for (int k = 0; k < 4 && m->texts[k]; ++k)
      cr_assert_not_null(strstr(tn_error_text(), m->texts[k]),
                         "mistake %zu: \"%s\" lacks \"%s\"", i, tn_error_text(),
                         m->texts[k]);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}

Test(nn, parameters_outside_their_range_are_refused) {
  tn_runtime *rt = host_open();
  tn_params *none = NULL;
  tn_operator *fc = host_operator(rt, "nn.fully_connected");
  tn_operator *act = host_operator(rt, "nn.activation");
  tn_operator *loss = host_operator(rt, "nn.softmax_output");
  FAILS(tn_params_parse(fc, "", &none), TN_INVALID, "num_hidden");
  FAILS(tn_params_parse(fc, "num_hidden=0", &none), TN_OUT_OF_RANGE,
        "num_hidden");
  FAILS(tn_params_parse(act, "act_type=gelu", &none), TN_INVALID, "softsign");
  FAILS(tn_params_parse(loss, "smooth_alpha=1.5", &none), TN_OUT_OF_RANGE,
        "smooth_alpha");
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------ odd operands */

static tn_array *empty(tn_runtime *rt, int64_t rows, int64_t columns) {
  return host_array(rt, TN_F32, (host_shape){2, {rows, columns}}, NULL);
}

/* A sum of nothing is nothing, but the bias is still added. */
Test(nn, rows_without_elements_give_the_bias_and_no_rows_give_nothing) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.fully_connected");
  tn_params *params = host_params(op, "num_hidden=2");
  tn_array *bias =
      host_array(rt, TN_F32, (host_shape){1, {2}}, (double[]){3, 4});
  tn_array *data = empty(rt, 3, 0), *weight = empty(rt, 2, 0), *out = NULL;
  OK(tn_call(rt, op, TN_IN(data, weight, bias), params, TN_OUT(&out)));
  host_expect(out, (double[]){3, 4, 3, 4, 3, 4}, 6, 0);
  tn_array_release(data), tn_array_release(weight), tn_array_release(out);
  out = NULL, data = empty(rt, 0, 1);
  weight = host_array(rt, TN_F32, (host_shape){2, {2, 1}}, (double[]){1, 2});
  OK(tn_call(rt, op, TN_IN(data, weight, bias), params, TN_OUT(&out)));
  cr_assert_eq(tn_array_size(out), 0);
  tn_array *grads[3] = {NULL, NULL, NULL};
  OK(tn_call_backward(
      rt, op,
      &(tn_backward){.struct_size = sizeof(tn_backward),
                     .params = params,
                     .inputs = {3, (tn_array *[]){data, weight, bias}},
                     .outputs = {1, &out},
                     .out_grads = {1, &out},
                     .in_grads = {3, grads, NULL}}));
  cr_assert_eq(tn_array_size(grads[0]), 0);
  host_expect(grads[1], (double[]){0, 0}, 2, 0);
  host_expect(grads[2], (double[]){0, 0}, 2, 0);
  for (int i = 0; i < 3; ++i) tn_array_release(grads[i]);
  tn_array_release(data), tn_array_release(weight), tn_array_release(out);
  tn_array_release(bias);
  tn_params_release(params);
  tn_runtime_release(rt);
}

/* The gradient of softmax_output for rows of two equal elements; of
 * multi_output, for such columns, one after the other. */
static void slopes(tn_runtime *rt, const char *text, const double *labels,
                   tn_dtype dtype, double *slope) {
  tn_operator *op = host_operator(rt, "nn.softmax_output");
  tn_params *params = host_params(op, text);
  const double zeros[8] = {0};
  const host_shape rows = {2, {4, 2}}, columns = {3, {1, 2, 4}};
  const int multi = strstr(text, "multi_output") != NULL;
  tn_array *data = host_array(rt, TN_F64, multi ? columns : rows, zeros);
  tn_array *label = host_array(
      rt, dtype, multi ? (host_shape){2, {1, 4}} : (host_shape){1, {4}},
      labels);
  tn_array *out = NULL, *grads[2] = {NULL, NULL}, *no_head = NULL;
  const tn_req req[2] = {TN_REQ_WRITE, TN_REQ_NULL};
  OK(tn_call(rt, op, TN_IN(data, label), params, TN_OUT(&out)));
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = params,
                                     .inputs = {2, (tn_array *[]){data, label}},
                                     .outputs = {1, &out},
                                     .out_grads = {1, &no_head},
                                     .in_grads = {2, grads, req}}));
  cr_assert_eq(host_values(grads[0], slope), 8);
  tn_array_release(data), tn_array_release(label), tn_array_release(out);
  tn_array_release(grads[0]);
  tn_params_release(params);
}

Test(nn, a_label_that_is_no_class_is_none_of_them) {
  tn_runtime *rt = host_open();
  double slope[8];
  slopes(rt, "", (double[]){2, -1, NAN, 1}, TN_F64, slope);
  for (int i = 0; i < 6; ++i) cr_assert_eq(slope[i], .5, "%g", slope[i]);
  cr_assert_eq(slope[6], .5);
  cr_assert_eq(slope[7], -.5);
  slopes(rt, "use_ignore=true", (double[]){0, -1, -1, 1}, TN_F32, slope);
  for (int i = 2; i < 6; ++i) cr_assert_eq(slope[i], 0, "%g", slope[i]);
  cr_assert_eq(slope[0], -.5);
  cr_assert_eq(slope[7], -.5);
  tn_runtime_release(rt);
}

/* Nor is anything taken from the others, as if one were. */
Test(nn, a_label_that_is_no_class_has_no_smoothed_ones) {
  tn_runtime *rt = host_open();
  const double labels[4] = {2, -0.5, NAN, 1};
  double slope[8];
  slopes(rt, "smooth_alpha=0.25", labels, TN_F64, slope);
  for (int i = 0; i < 6; ++i) cr_assert_eq(slope[i], .5, "%g", slope[i]);
  cr_assert_eq(slope[6], .25);
  cr_assert_eq(slope[7], -.25);
  slopes(rt, "smooth_alpha=0.25 multi_output=true grad_scale=4", labels, TN_F64,
         slope);
  for (int i = 0; i < 8; ++i)
    if (i % 4 != 3) cr_assert_eq(slope[i], .5, "%g", slope[i]);
  cr_assert_eq(slope[3], .25);
  cr_assert_eq(slope[7], -.25);
  tn_runtime_release(rt);
}

Test(nn, if_every_label_is_ignored_the_divisor_is_one) {
  tn_runtime *rt = host_open();
  double slope[8];
  slopes(rt, "normalization=valid ignore_label=0", (double[]){0, 0, 0, 0},
         TN_F64, slope);
  for (int i = 0; i < 8; i += 2) cr_assert_eq(slope[i], -.5, "%g", slope[i]);
  tn_runtime_release(rt);
}

/* exp(1000) is infinite in every type. */
Test(nn, a_softmax_of_huge_numbers_does_not_overflow) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.softmax_output");
  const double values[6] = {1000, 1000, -1000, -1e30, 0, 1e30};
  tn_array *data = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, values);
  tn_array *label =
      host_array(rt, TN_F32, (host_shape){1, {2}}, (double[]){0, 0});
  tn_array *out = NULL;
  OK(tn_call(rt, op, TN_IN(data, label), NULL, TN_OUT(&out)));
  host_expect(out, (double[]){.5, .5, 0, 0, 0, 1}, 6, 0);
  tn_array_release(data), tn_array_release(label), tn_array_release(out);
  tn_runtime_release(rt);
}

/* 600 places are looked at in three parts, and 300 rows in two. */
static void check_long(tn_runtime *rt, const char *text, int64_t classes,
                       int64_t outer, int64_t places) {
  tn_operator *op = host_operator(rt, "nn.softmax_output");
  tn_params *params = host_params(op, text);
  const int64_t shape[3] = {outer, classes, places};
  const int64_t labels[2] = {outer, places};
  const int32_t ndim = places > 1 ? 3 : 2;
  const size_t n = (size_t)(outer * classes * places);
  static double x[8192], got[8192], goal[2048];
  tn_array *data = NULL, *label = NULL, *out = NULL, *grads[2] = {NULL, NULL};
  tn_array *no_head = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_F64, ndim, shape}, &data));
  OK(tn_array_create(rt, &(tn_spec){TN_F64, ndim - 1, labels}, &label));
  for (size_t i = 0; i < n; ++i) x[i] = (double)(i * 7919 % 101) / 16;
  for (int64_t i = 0; i < outer * places; ++i) goal[i] = (double)(i % classes);
  OK(tn_array_set(data, x, n * sizeof *x));
  OK(tn_array_set(label, goal, (size_t)(outer * places) * sizeof *goal));
  OK(tn_call(rt, op, TN_IN(data, label), params, TN_OUT(&out)));
  OK(tn_call_backward(
      rt, op,
      &(tn_backward){
          .struct_size = sizeof(tn_backward),
          .params = params,
          .inputs = {2, (tn_array *[]){data, label}},
          .outputs = {1, &out},
          .out_grads = {1, &no_head},
          .in_grads = {2, grads, (tn_req[]){TN_REQ_WRITE, TN_REQ_NULL}}}));
  OK(tn_array_get(grads[0], got, n * sizeof *got));
  for (int64_t i = 0; i < (int64_t)n; ++i) {
    const int64_t o = i / (classes * places), s = i % places;
    const int64_t k = i / places % classes;
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j)
      sum += exp(x[(o * classes + j) * places + s] - x[i]);
    const double want =
        (1 / sum - ((o * places + s) % classes == k)) / (double)places;
    cr_assert(fabs(got[i] - want) < 1e-14, "element %lld: %g, not %g",
              (long long)i, got[i], want);
  }
  tn_array_release(data), tn_array_release(label), tn_array_release(out);
  tn_array_release(grads[0]);
  tn_params_release(params);
}

Test(nn, long_rows_of_places_and_labels_are_all_seen) {
  tn_runtime *rt = host_open();
  check_long(rt, "multi_output=true", 3, 2, 600);
  check_long(rt, "", 5, 700, 1);
  tn_runtime_release(rt);
}

/* The written kernel and the generated one that is its reference. */
Test(nn, both_kernels_of_activation_agree) {
  static const char *const types[] = {"relu", "sigmoid", "tanh", "softrelu",
                                      "softsign"};
  const double x[6] = {-30, -2.5, -0.125, 0, 1.5, 21};
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.activation");
  for (size_t i = 0; i < 5; ++i) {
    char text[32] = "act_type=";
    double want[6];
    tn_params *params = host_params(op, strcat(text, types[i]));
    tn_array *data = host_array(rt, TN_F64, (host_shape){1, {6}}, x);
    tn_array *out = NULL, *again = NULL;
    OK(tn_call(rt, op, TN_IN(data), params, TN_OUT(&out)));
    OK(tn_operator_pin(op, "nn.activation.cpu.generated"));
    OK(tn_call(rt, op, TN_IN(data), params, TN_OUT(&again)));
    OK(tn_operator_pin(op, NULL));
    host_values(again, want);
    host_expect(out, want, 6, 1e-15);
    tn_array_release(data), tn_array_release(out), tn_array_release(again);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}
