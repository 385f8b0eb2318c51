/* SPDX-License-Identifier: Apache-2.0
 * Fourier transforms of plugins/tensor: values and gradients of NumPy
 * (tests/reference/dft.py), lengths of every kind against the sum that defines
 * them, and messages about shapes that do not fit.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

typedef struct dft_case {
  const char *op;
  const char *params;
  size_t n_in;
  host_operand data, window;
  host_operand out, head, gradient;
} dft_case;

static const dft_case dft_cases[] = {
#include "dft_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(dft, .init = open_all, .fini = close_all);

static void check_case(const dft_case *c, tn_dtype dtype, double tolerance) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[2] = {NULL, NULL}, *out = NULL, *grad = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  in[0] = host_array(rt, dtype, c->data.shape, c->data.v);
  if (c->n_in > 1) in[1] = host_array(rt, dtype, c->window.shape, c->window.v);
  OK(tn_tape_watch(tape, in[0]));
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  host_expect_operand(out, &c->out, tolerance, c->op, c->params);
  tn_array *head = host_array(rt, dtype, c->head.shape, c->head.v);
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(out),
                                       .head_gradients = *TN_IN(head),
                                       .of = {1, in},
                                       .gradients = *TN_OUT(&grad)}));
  host_expect_operand(grad, &c->gradient, tolerance, c->op, c->params);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
  tn_array_release(head), tn_array_release(grad);
  tn_tape_release(tape);
  tn_params_release(params);
}

/* The values in the file have 12 digits. */
Test(dft, values_and_gradients_are_those_of_numpy) {
  for (size_t i = 0; i < sizeof dft_cases / sizeof *dft_cases; ++i) {
    check_case(&dft_cases[i], TN_F64, 1e-10);
    check_case(&dft_cases[i], TN_F32, 2e-5);
    if (strcmp(dft_cases[i].op, "tensor.dft") == 0)
      check_case(&dft_cases[i], TN_F16, 2e-2);
  }
}

/* ------------------------------------------------------------------ lengths */

enum { LINES = 11 };

/* A number from -1 to 1 without a pattern. */
static double number(int64_t i) {
  return (double)((uint64_t)i * 2654435761u % 2001) / 1000 - 1;
}

/* One result as the sum of its definition. */
static void add_terms(int64_t length, int64_t line, int64_t k, double *sum) {
  sum[0] = sum[1] = 0;
  for (int64_t i = 0; i < length; ++i) {
    const double x = number((line * length + i) * 2);
    const double y = number((line * length + i) * 2 + 1);
    const double angle =
        -2 * 3.141592653589793238 * (double)(k * i % length) / (double)length;
    sum[0] += x * cos(angle) - y * sin(angle);
    sum[1] += x * sin(angle) + y * cos(angle);
  }
}

static void check_length(int64_t length, tn_dtype dtype, double tolerance) {
  const int64_t n = LINES * length * 2;
  tn_operator *op = host_operator(rt, "tensor.dft");
  double *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; ++i) v[i] = number(i);
  tn_array *x = host_many(rt, dtype, 3, (int64_t[]){LINES, length, 2}, v);
  tn_array *y = NULL;
  OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)));
  double *got = host_many_values(y);
  const double most = tolerance * sqrt((double)length);
  for (int64_t line = 0; line < LINES; line += 5)
    for (int64_t k = 0; k < length; k += 1 + length / 7) {
      double want[2];
      add_terms(length, line, k, want);
      const double *have = got + (line * length + k) * 2;
      cr_assert(
          fabs(have[0] - want[0]) <= most && fabs(have[1] - want[1]) <= most,
          "length %lld, line %lld, result %lld: %g and %g, not %g and %g",
          (long long)length, (long long)line, (long long)k, have[0], have[1],
          want[0], want[1]);
    }
  free(v), free(got);
  tn_array_release(x), tn_array_release(y);
}

/* Powers of small factors, and primes and their products above 31. */
Test(dft, any_length_is_transformed) {
  static const int64_t lengths[] = {
      1,   13,  23,  37,  49,  64,   97,   128,  121,  210,  243,
      256, 272, 509, 625, 961, 1024, 1369, 2000, 4099, 8192, 13440};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    check_length(lengths[i], TN_F64, 1e-12);
    check_length(lengths[i], TN_F32, 4e-6);
  }
}

/* With the instructions of any x86, of AVX2 and of AVX-512. */
Test(dft, every_level_of_instructions_gives_the_same) {
  static const uint64_t masks[] = {TN_CPU_AVX512 | TN_CPU_AVX2, TN_CPU_AVX512};
  for (size_t i = 0; i < sizeof masks / sizeof *masks; ++i) {
    const tn_options options = {
        .struct_size = sizeof options, .workers = 3, .cpu_mask = masks[i]};
    tn_runtime_release(rt);
    rt = NULL;
    OK(tn_runtime_create(&options, &rt));
    OK(tn_plugin_load(rt, PLUGIN_FILE));
    for (int64_t length = 30; length < 40; ++length) {
      check_length(length, TN_F64, 1e-12);
      check_length(length, TN_F32, 4e-6);
      check_length(16 * length, TN_F64, 1e-12);
      check_length(16 * length, TN_F32, 4e-6);
    }
  }
}

/* ---------------------------------------------------------------- messages */

static tn_code call_op(const char *name, const char *text, tn_array *x) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *y = NULL;
  const tn_code code = tn_call(rt, op, TN_IN(x), params, TN_OUT(&y));
  tn_params_release(params);
  tn_array_release(y);
  return code;
}

static tn_array *zeros(int32_t ndim, const int64_t *dims) {
  int64_t n = 1;
  for (int32_t d = 0; d < ndim; ++d) n *= dims[d];
  double *v = calloc((size_t)n + 1, sizeof *v);
  tn_array *array = host_many(rt, TN_F32, ndim, dims, v);
  free(v);
  return array;
}

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

Test(dft, shapes_that_do_not_fit_are_errors) {
  tn_array *pairs = zeros(2, DIMS(4, 2)), *three = zeros(2, DIMS(4, 3));
  tn_array *flat = zeros(1, DIMS(4)), *none = zeros(2, DIMS(0, 1));
  FAILS(call_op("tensor.dft", "", three), TN_SHAPE,
        "the last dimension of `data` has length 3; it is 1 for real numbers");
  FAILS(call_op("tensor.dft", "", flat), TN_SHAPE,
        "`data` has 1 dimensions; it needs an axis");
  FAILS(call_op("tensor.dft", "axis=1", pairs), TN_OUT_OF_RANGE,
        "axis=1 is the last dimension");
  FAILS(call_op("tensor.dft", "onesided=true", pairs), TN_SHAPE,
        "`data` has pairs");
  FAILS(call_op("tensor.dft", "onesided=true inverse=true", pairs), TN_SHAPE,
        "an inverse transform has no half of results");
  FAILS(call_op("tensor.dft", "", none), TN_SHAPE,
        "there is no transform of no elements; pass `length`");
  OK(call_op("tensor.dft", "length=3", none));
  FAILS(call_op("tensor.stft", "frame_step=1 frame_length=2", pairs), TN_SHAPE,
        "`signal` has 2 dimensions; it needs three");
  tn_array_release(pairs), tn_array_release(three);
  tn_array_release(flat), tn_array_release(none);
}

/* A signal that is shorter than a frame has none. */
Test(dft, a_short_signal_has_no_frames) {
  tn_operator *op = host_operator(rt, "tensor.stft");
  tn_params *params = host_params(op, "frame_step=1 frame_length=4");
  tn_array *x = zeros(3, DIMS(2, 3, 1)), *y = NULL;
  OK(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)));
  cr_assert_eq(tn_array_tensor(y)->shape[1], 0);
  cr_assert_eq(tn_array_tensor(y)->shape[2], 3);
  tn_array_release(x), tn_array_release(y);
  tn_params_release(params);
}
