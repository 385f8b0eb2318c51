/* SPDX-License-Identifier: Apache-2.0
 * Numbers at their bounds, through the public API. Parameters and shapes with
 * sums and products over 64 bits are refused by name. Those that fit give the
 * results counted by hand, at once, however large they are.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define LEAST "-9223372036854775808"
#define GREATEST "9223372036854775807"
#define LONG "2147483647" /* the greatest that windows and repeats take */

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
  OK(tn_plugin_load(rt, PLUGIN_OTHER));
  OK(tn_plugin_load(rt, PLUGIN_THIRD));
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(limits, .init = open_all, .fini = close_all, .timeout = 100);

enum { MOST_IN = 3, MOST_RANK = 5 };

typedef struct box {
  int32_t ndim;
  int64_t dims[MOST_RANK];
} box;

/* 1, 2, 3, ... or, with a step of 0, ones. */
static tn_array *counted(tn_dtype dtype, const box *shape, double step) {
  double values[HOST_MAX];
  for (int i = 0; i < HOST_MAX; ++i) values[i] = 1 + i * step;
  return host_many(rt, dtype, shape->ndim, shape->dims, values);
}

/* ----------------------------------------------------------------- refusals */

/* A call that is refused: its parameters, or its shapes, or the memory that it
 * takes. Shapes of more than HOST_MAX elements are not called with. */
typedef struct refusal {
  const char *op;
  const char *params;
  tn_code code;
  const char *part; /* of the text */
  uint32_t n_in;
  box shapes[MOST_IN];
} refusal;

#define WINDOW_1   \
  1, {             \
    {              \
      4, {         \
        1, 1, 4, 4 \
      }            \
    }              \
  }
#define WINDOW_2         \
  2, {                   \
    {4, {1, 1, 4, 4}}, { \
      4, {               \
        1, 1, 2, 2       \
      }                  \
    }                    \
  }
#define WINDOW(numbers) "kernel=[2,2] num_filter=1 no_bias=true " numbers
#define ROW(n) \
  1, {         \
    {          \
      1, {     \
        n      \
      }        \
    }          \
  }
#define UNKNOWN \
  {             \
    -1, {       \
      0         \
    }           \
  }
#define NUMBER \
  1, {         \
    {          \
      0, {     \
        0      \
      }        \
    }          \
  }

static const refusal refusals[] = {
    /* windows */
    {"nn.convolution", WINDOW("stride=[4611686018427387903,1]"),
     TN_OUT_OF_RANGE, "stride", WINDOW_2},
    {"nn.convolution", WINDOW("stride=[1," GREATEST "]"), TN_OUT_OF_RANGE,
     "stride", WINDOW_2},
    {"nn.convolution",
     WINDOW("dilate=[4611686018427387903,1] pad=[2305843009213693951,0]"),
     TN_OUT_OF_RANGE, "dilate", WINDOW_2},
    {"nn.convolution", WINDOW("pad=[2147483648,0]"), TN_OUT_OF_RANGE, "pad",
     WINDOW_2},
    {"nn.convolution", "kernel=[2147483648] num_filter=1", TN_OUT_OF_RANGE,
     "kernel", WINDOW_2},
    {"nn.convolution_activation",
     WINDOW("act_type=relu stride=[4611686018427387903,1]"), TN_OUT_OF_RANGE,
     "stride", WINDOW_2},
    {"nn.convolution", WINDOW("pad=[" LONG "," LONG "]"), TN_OUT_OF_RANGE,
     "(1,1,4294967297,4294967297) has more bytes", WINDOW_2},
    {"nn.pooling", "kernel=[2,2] stride=[" GREATEST "," GREATEST "]",
     TN_OUT_OF_RANGE, "stride", WINDOW_1},
    {"nn.pooling", "kernel=[3,3] pad=[" GREATEST "," GREATEST "]",
     TN_OUT_OF_RANGE, "pad", WINDOW_1},
    {"nn.pooling", "kernel=[2147483648,1]", TN_OUT_OF_RANGE, "kernel",
     WINDOW_1},
    {"nn.pooling", "kernel=[1," LONG "] pooling_convention=same",
     TN_OUT_OF_RANGE, "a window of " LONG " elements needs 1073741823",
     WINDOW_1},
    {"nn.pooling", "kernel=[" LONG ",1]", TN_SHAPE,
     "is larger than dimension 2", WINDOW_1},
    {"nn.pooling",
     "kernel=[1] pad=[1]",
     TN_OUT_OF_RANGE,
     "dimension 2 of `data` (0,1," GREATEST ") and `pad` of 1",
     1,
     {{3, {0, 1, INT64_MAX}}}},
    {"nn.fully_connected",
     "num_hidden=2 no_bias=true",
     TN_OUT_OF_RANGE,
     "a row of `data` (2,4294967296,4294967296) has more elements",
     2,
     {{3, {2, 1LL << 32, 1LL << 32}}, UNKNOWN}},
    {"nn.softmax", "axis=" LEAST, TN_OUT_OF_RANGE, "there is no axis " LEAST,
     ROW(3)},
    {"nn.layer_norm",
     "axis=0",
     TN_OUT_OF_RANGE,
     "no axis 0 in () of rank 0: it has none",
     3,
     {{0, {0}}, UNKNOWN, UNKNOWN}},
    /* copies */
    {"tensor.pad", "pad_width=[" GREATEST "," GREATEST "]", TN_OUT_OF_RANGE,
     "pad_width", ROW(4)},
    {"tensor.pad", "pad_width=[0,1]", TN_OUT_OF_RANGE,
     "axis 0 of `data` has length " GREATEST "; with the 0 and 1",
     ROW(INT64_MAX)},
    {"tensor.pad_grad", "pad_width=[4611686018427387904,0]", TN_OUT_OF_RANGE,
     "pad_width", ROW(4)},
    {"tensor.repeat", "repeats=6148914691236517206", TN_OUT_OF_RANGE, "repeats",
     ROW(3)},
    {"tensor.repeat", "repeats=4611686018427387904 axis=0", TN_OUT_OF_RANGE,
     "repeats", ROW(4)},
    {"tensor.repeat", "repeats=16", TN_OUT_OF_RANGE,
     "`data` (2305843009213693951) with repeats=16", ROW((1LL << 61) - 1)},
    {"tensor.repeat",
     "repeats=16",
     TN_OUT_OF_RANGE,
     "with repeats=16",
     1,
     {{2, {1LL << 30, 1LL << 30}}}},
    {"tensor.repeat", "repeats=16 axis=-1", TN_OUT_OF_RANGE, "with repeats=16",
     ROW((1LL << 61) - 1)},
    {"tensor.tile", "reps=[6148914691236517206]", TN_OUT_OF_RANGE, "reps",
     ROW(3)},
    {"tensor.tile", "reps=[2," LONG "]", TN_OUT_OF_RANGE,
     "`data` (4294967299) with reps=" LONG, ROW((1LL << 32) + 3)},
    {"tensor.tile", "reps=[" LONG "," LONG "," LONG "]", TN_OUT_OF_RANGE,
     "has more bytes", ROW(3)},
    {"tensor.concat",
     "dim=0",
     TN_OUT_OF_RANGE,
     "more places along axis 0 than 64 bits",
     2,
     {{1, {1LL << 62}}, {1, {1LL << 62}}}},
    {"tensor.broadcast_to", "shape=[4611686018427387904,4]", TN_OUT_OF_RANGE,
     "has more bytes", ROW(1)},
    {"tensor.broadcast_axis", "axis=[" LEAST "] size=[2]", TN_OUT_OF_RANGE,
     LEAST, ROW(1)},
    /* shapes */
    {"tensor.reshape", "shape=[4294967296,4294967296]", TN_SHAPE,
     "`data` (0) has 0 elements, which do not fit", ROW(0)},
    {"tensor.reshape", "shape=[-4,4294967296,4294967296]", TN_SHAPE,
     "cannot split a dimension of 0", ROW(0)},
    {"tensor.reshape", "shape=[4294967296,4294967296,-1]", TN_SHAPE,
     "`data` (6) has 6 elements, which do not fit", ROW(6)},
    {"tensor.reshape",
     "shape=[-3]",
     TN_OUT_OF_RANGE,
     "cannot merge dimensions of 4294967296 and 4294967296",
     1,
     {{2, {1LL << 32, 1LL << 32}}}},
    {"tensor.reshape",
     "shape=[-1]",
     TN_OUT_OF_RANGE,
     "dimensions 0 to 1 of `data` (4294967296,4294967296)",
     1,
     {{2, {1LL << 32, 1LL << 32}}}},
    {"tensor.flatten",
     "",
     TN_OUT_OF_RANGE,
     "dimensions 1 to 2 of `data` (2,4294967296,4294967296)",
     1,
     {{3, {2, 1LL << 32, 1LL << 32}}}},
    {"tensor.expand_dims", "axis=" LEAST, TN_OUT_OF_RANGE, "axis=" LEAST,
     ROW(2)},
    {"tensor.swap_axes", "dim1=" LEAST, TN_OUT_OF_RANGE, "dim1=" LEAST, ROW(2)},
    {"tensor.reverse", "axis=[0]", TN_OUT_OF_RANGE,
     "axis=0: an array of 0 dimensions has no axes", NUMBER},
    {"tensor.take",
     "axis=" LEAST,
     TN_OUT_OF_RANGE,
     "axis=" LEAST,
     2,
     {{1, {2}}, {1, {2}}}},
    {"tensor.sum", "axis=[" LEAST "]", TN_OUT_OF_RANGE, "axis " LEAST, ROW(2)},
    {"tensor.split", "num_outputs=4611686018427387904 axis=0", TN_OUT_OF_RANGE,
     "4611686018427387904 outputs `part` cannot be", ROW(4)},
    /* operators that create numbers */
    {"tensor.one_hot", "depth=-1", TN_OUT_OF_RANGE, "depth", ROW(2)},
    {"tensor.one_hot", "depth=" GREATEST, TN_OUT_OF_RANGE, "has more bytes",
     ROW(2)},
    {"tensor.zeros",
     "shape=[4611686018427387904,4]",
     TN_OUT_OF_RANGE,
     "has more bytes",
     0,
     {{0, {0}}}},
    {"tensor.arange",
     "start=1 repeat=4611686018427387904",
     TN_OUT_OF_RANGE,
     "repeat=4611686018427387904: that are 4.61169e+18",
     0,
     {{0, {0}}}},
    {"tensor.arange",
     "start=1e300",
     TN_OUT_OF_RANGE,
     "that are 1e+300",
     0,
     {{0, {0}}}},
    {"tensor.arange",
     "start=0 stop=inf",
     TN_OUT_OF_RANGE,
     "from 0 to inf",
     0,
     {{0, {0}}}},
    {"tensor.arange",
     "start=nan",
     TN_INVALID,
     "nor any of them NaN",
     0,
     {{0, {0}}}},
    {"random.uniform",
     "shape=[4611686018427387904,4]",
     TN_OUT_OF_RANGE,
     "has more bytes",
     0,
     {{0, {0}}}},
    {"random.randint",
     "low=" LEAST " high=" LEAST,
     TN_INVALID,
     "there is no number",
     0,
     {{0, {0}}}},
};

static int is_small(const box *s) {
  int64_t n = s->ndim < 0 ? HOST_MAX + 1 : 1;
  for (int32_t d = 0; d < s->ndim; ++d) {
    if (s->dims[d] > HOST_MAX) return 0;
    n *= s->dims[d];
  }
  return n <= HOST_MAX;
}

/* The message of the call itself, for shapes that fit the memory. */
static tn_code call_small(tn_operator *op, const tn_params *params,
                          const refusal *r) {
  tn_array *in[MOST_IN] = {NULL}, *out = NULL;
  tn_code code = TN_OK;
  for (uint32_t i = 0; i < r->n_in; ++i)
    if (!is_small(&r->shapes[i])) return code;
  for (uint32_t i = 0; i < r->n_in; ++i)
    in[i] = counted(TN_F32, &r->shapes[i], 1);
  code = tn_call(rt, op, &(tn_inputs){r->n_in, in}, params, TN_OUT(&out));
  for (uint32_t i = 0; i < r->n_in; ++i) tn_array_release(in[i]);
  tn_array_release(out);
  return code;
}

static tn_sig sig_of(const box *shape) {
  tn_sig sig = {.dtype = TN_F32, .ndim = shape->ndim};
  memcpy(sig.shape, shape->dims, sizeof shape->dims);
  return sig;
}

static tn_code code_of(const refusal *r) {
  tn_operator *op = host_operator(rt, r->op);
  tn_params *params = NULL;
  tn_sig in[MOST_IN], out = {.ndim = -1};
  tn_code code = tn_params_parse(op, r->params, &params);
  if (code != TN_OK) return code;
  for (uint32_t i = 0; i < r->n_in; ++i) in[i] = sig_of(&r->shapes[i]);
  code = tn_operator_infer(op, params,
                           &(tn_signature){r->n_in, 1, 0, 0, in, &out, NULL});
  if (code == TN_OK || code == TN_INCOMPLETE) code = call_small(op, params, r);
  tn_params_release(params);
  return code;
}

Test(limits, sizes_over_64_bits_are_refused_by_name) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    const refusal *r = &refusals[i];
    const tn_code code = code_of(r);
    cr_expect(code == r->code && strstr(tn_error_text(), r->part),
              "%s %s: %s, %s, instead of %s with `%s`", r->op, r->params,
              tn_code_name(code), code == TN_OK ? "no error" : tn_error_text(),
              tn_code_name(r->code), r->part);
  }
}

Test(limits, parts_of_a_too_long_whole_are_refused) {
  tn_operator *op = host_operator(rt, "tensor.split");
  tn_params *params = host_params(op, "num_outputs=2 axis=0");
  const box part = {1, {1LL << 62}};
  tn_sig whole = {.ndim = -1}, parts[2] = {sig_of(&part), sig_of(&part)};
  FAILS(tn_operator_infer(op, params,
                          &(tn_signature){1, 2, 0, 0, &whole, parts, NULL}),
        TN_OUT_OF_RANGE, "num_outputs=2 parts of length 4611686018427387904");
  tn_params_release(params);
}

/* ------------------------------------------------------------------ answers */

/* A call with a first input that counts from 1, as do its output gradients; the
 * other input is ones. */
typedef struct answer {
  const char *op;
  const char *params;
  uint32_t n_in;
  box shapes[MOST_IN];
  box out;
  double values[HOST_MAX];
  double grad[HOST_MAX]; /* of the first input */
} answer;

#define FAR(n) "dilate=[" n "] pad=[" n "]"
#define BILLION "1000000000"

static const answer answers[] = {
    /* One window, as the next one would be after the image. */
    {"nn.convolution",
     WINDOW("stride=[" LONG "," LONG "]"),
     WINDOW_2,
     {4, {1, 1, 1, 1}},
     {1 + 2 + 5 + 6},
     {1, 1, 0, 0, 1, 1}},
    /* The same along one dimension, of three channels. */
    {"nn.convolution",
     "kernel=[2,2] num_filter=2 no_bias=true stride=[" LONG ",1]",
     2,
     {{4, {1, 3, 4, 4}}, {4, {2, 3, 2, 2}}},
     {4, {1, 2, 1, 3}},
     {234, 246, 258, 234, 246, 258},
     {5, 12, 16, 9, 5, 12, 16, 9, 0, 0, 0, 0, 0, 0,  0,  0, 5, 12, 16, 9,
      5, 12, 16, 9, 0, 0,  0,  0, 0, 0, 0, 0, 5, 12, 16, 9, 5, 12, 16, 9}},
    /* Only the middle of a window is not in the padding. */
    {"nn.convolution",
     "kernel=[3,3] num_filter=1 no_bias=true " FAR(BILLION "," BILLION),
     2,
     {{4, {1, 1, 2, 3}}, {4, {1, 1, 3, 3}}},
     {4, {1, 1, 2, 3}},
     {1, 2, 3, 4, 5, 6},
     {1, 2, 3, 4, 5, 6}},
    {"nn.convolution",
     "kernel=[3] num_filter=2 no_bias=true " FAR(BILLION),
     2,
     {{3, {1, 3, 5}}, {3, {2, 3, 3}}},
     {3, {1, 2, 5}},
     {18, 21, 24, 27, 30, 18, 21, 24, 27, 30},
     {7, 9, 11, 13, 15, 7, 9, 11, 13, 15, 7, 9, 11, 13, 15}},
    {"nn.convolution",
     "kernel=[3,3,3] num_filter=2 no_bias=true " FAR(BILLION "," BILLION
                                                             "," BILLION),
     2,
     {{5, {1, 1, 2, 2, 2}}, {5, {2, 1, 3, 3, 3}}},
     {5, {1, 2, 2, 2, 2}},
     {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
     {10, 12, 14, 16, 18, 20, 22, 24}},
    /* All of a window is. */
    {"nn.convolution",
     WINDOW("dilate=[" BILLION "," BILLION "] pad=[500000000,500000000]"),
     WINDOW_2,
     {4, {1, 1, 4, 4}},
     {0},
     {0}},
    {"nn.pooling",
     "kernel=[2,2] stride=[" LONG "," LONG
     "] pool_type=avg pooling_convention=same",
     WINDOW_1,
     {4, {1, 1, 1, 1}},
     {3.5},
     {0.25, 0.25, 0, 0, 0.25, 0.25}},
    /* Rounded up, there is a window after the image. */
    {"nn.pooling",
     "kernel=[2,2] stride=[" LONG "," LONG
     "] pool_type=avg pooling_convention=full",
     WINDOW_1,
     {4, {1, 1, 2, 2}},
     {3.5},
     {0.25, 0.25, 0, 0, 0.25, 0.25}},
    {"nn.pooling",
     "kernel=[2,2] stride=[" LONG "," LONG "] pooling_convention=full",
     WINDOW_1,
     {4, {1, 1, 2, 2}},
     {6, -INFINITY, -INFINITY, -INFINITY},
     {0, 0, 0, 0, 0, 1}},
    /* The second window along each dimension is the image's first. */
    {"nn.pooling",
     "kernel=[2,2] stride=[65536,65536] pad=[65536,65536]",
     WINDOW_1,
     {4, {1, 1, 3, 3}},
     {-INFINITY, -INFINITY, -INFINITY, -INFINITY, 6, -INFINITY, -INFINITY,
      -INFINITY, -INFINITY},
     {0, 0, 0, 0, 0, 5}},
    {"tensor.slice",
     "begin=[-1] end=[" LEAST "] step=[" LEAST "]",
     ROW(3),
     {1, {1}},
     {3},
     {0, 0, 1}},
    {"tensor.slice",
     "begin=[" LEAST "] end=[" GREATEST "] step=[" GREATEST "]",
     ROW(3),
     {1, {1}},
     {1},
     {1, 0, 0}},
    {"tensor.slice",
     "begin=[" GREATEST "] end=[" LEAST "] step=[-2]",
     ROW(3),
     {1, {2}},
     {3, 1},
     {2, 0, 1}},
    {"tensor.slice_axis",
     "axis=0 begin=" LEAST " end=" GREATEST,
     ROW(3),
     {1, {3}},
     {1, 2, 3},
     {1, 2, 3}},
    {"tensor.tile", "reps=[0," LONG "]", ROW(0), {2, {0, 0}}, {0}, {0}},
    {"tensor.repeat", "repeats=" LONG, ROW(0), {1, {0}}, {0}, {0}},
};

/* No more than its dimensions and its elements. */
static void expect(tn_array *array, const box *shape, const double *values,
                   const answer *a) {
  const tn_tensor *t = tn_array_tensor(array);
  int64_t n = 1;
  cr_assert_eq(t->ndim, shape->ndim, "%s %s: rank %d", a->op, a->params,
               (int)t->ndim);
  for (int32_t d = 0; d < t->ndim; n *= t->shape[d++])
    cr_assert_eq(t->shape[d], shape->dims[d], "%s %s: dimension %d is %lld",
                 a->op, a->params, (int)d, (long long)t->shape[d]);
  double *got = host_many_values(array);
  for (int64_t i = 0; i < n; ++i)
    cr_expect_eq(got[i], values[i], "%s %s, element %d: %g, not %g", a->op,
                 a->params, (int)i, got[i], values[i]);
  free(got);
}

static void drop(tn_array **arrays, size_t n) {
  for (size_t i = 0; i < n; ++i) tn_array_release(arrays[i]);
}

static void check_answer(const answer *a, tn_dtype dtype) {
  tn_operator *op = host_operator(rt, a->op);
  tn_params *params = host_params(op, a->params);
  tn_array *in[MOST_IN] = {NULL}, *grads[MOST_IN] = {NULL};
  tn_array *out = NULL, *head = counted(dtype, &a->out, 1);
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  for (uint32_t i = 0; i < a->n_in; ++i) {
    in[i] = counted(dtype, &a->shapes[i], i == 0);
    OK(tn_tape_watch(tape, in[i]));
  }
  OK(tn_tape_call(tape, op, &(tn_inputs){a->n_in, in}, params, TN_OUT(&out)));
  expect(out, &a->out, a->values, a);
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = {1, &out},
                                       .head_gradients = {1, &head},
                                       .of = {a->n_in, in},
                                       .gradients = {a->n_in, grads, NULL}}));
  expect(grads[0], &a->shapes[0], a->grad, a);
  drop(in, MOST_IN), drop(grads, MOST_IN), drop(&out, 1), drop(&head, 1);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(limits, far_reaching_windows_are_computed_on_the_elements) {
  for (size_t i = 0; i < sizeof answers / sizeof *answers; ++i) {
    check_answer(&answers[i], TN_F32);
    check_answer(&answers[i], TN_F64);
    check_answer(&answers[i], TN_F16);
  }
}

/* Every element is a phase of its own, and all but two get nothing. */
Test(limits, the_gradient_of_a_wide_stride_takes_time_in_proportion) {
  enum { LENGTH = 200000, CHANNELS = 2 };
  tn_operator *op = host_operator(rt, "nn.convolution");
  tn_params *params =
      host_params(op, "kernel=[2] num_filter=2 no_bias=true stride=[" LONG "]");
  double *zeros = calloc(CHANNELS * LENGTH, sizeof *zeros);
  const box weight = {3, {2, CHANNELS, 2}}, head = {3, {1, 2, 1}};
  tn_array *in[] = {
      host_many(rt, TN_F32, 3, (int64_t[]){1, CHANNELS, LENGTH}, zeros),
      counted(TN_F32, &weight, 1)};
  tn_array *heads = counted(TN_F32, &head, 0), *out = NULL;
  tn_array *slopes[] = {NULL, NULL};
  const tn_backward call = {
      .struct_size = sizeof call,
      .params = params,
      .inputs = {2, in},
      .outputs = {1, &out},
      .out_grads = {1, &heads},
      .in_grads = {2, slopes, (tn_req[]){TN_REQ_WRITE, TN_REQ_NULL}}};
  OK(tn_call_backward(rt, op, &call));
  double *got = host_many_values(slopes[0]);
  const double first[CHANNELS][2] = {{1 + 5, 2 + 6}, {3 + 7, 4 + 8}};
  for (int c = 0; c < CHANNELS; ++c)
    for (int i = 0; i < LENGTH; ++i)
      cr_assert_eq(got[c * LENGTH + i], i < 2 ? first[c][i] : 0);
  free(got), free(zeros);
  drop(in, 2), drop(slopes, 1), drop(&heads, 1);
  tn_params_release(params);
}

/* ------------------------------------------------------------------- empty */

/* A call without elements to compute. One dimension is so long that a workspace
 * with a number for each of its indices cannot be allocated. */
typedef struct empty_call {
  const char *op;
  const char *params;
  uint32_t n_in;
  box shapes[MOST_IN];
} empty_call;

static const empty_call empty_calls[] = {
    {"nn.nms_selected",
     "max_output=1",
     2,
     {{3, {1LL << 45, 0, 4}}, {3, {1LL << 45, 1, 0}}}},
    {"nn.ctc_loss", "", 2, {{3, {1, 0, 3}}, {2, {0, 1LL << 45}}}},
    {"nn.l2_normalization", "", 1, {{2, {1LL << 45, 0}}}},
    {"nn.rms_norm", "", 2, {{2, {1LL << 45, 0}}, {1, {0}}}},
};

Test(limits, empty_calls_need_no_workspace) {
  for (size_t i = 0; i < sizeof empty_calls / sizeof *empty_calls; ++i) {
    const empty_call *c = &empty_calls[i];
    tn_operator *op = host_operator(rt, c->op);
    tn_params *params = host_params(op, c->params);
    tn_array *in[MOST_IN] = {NULL}, *out = NULL;
    for (uint32_t k = 0; k < c->n_in; ++k)
      in[k] = counted(TN_F32, &c->shapes[k], 1);
    const tn_code code =
        tn_call(rt, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out));
    cr_expect_eq(code, TN_OK, "%s: %s", c->op, tn_error_text());
    for (uint32_t k = 0; k < c->n_in; ++k) tn_array_release(in[k]);
    tn_array_release(out);
    tn_params_release(params);
  }
}
