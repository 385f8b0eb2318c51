/* SPDX-License-Identifier: Apache-2.0
 * nn.pooling: values that torch confirms (tests/reference/conv.py), random
 * shapes beside loops written out here at every level of instructions and with
 * any number of threads, unusual operands, shapes, and messages about mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

static const windows_case pool_cases[] = {
#include "pool_cases.inc"
};
enum { N_CASES = sizeof pool_cases / sizeof *pool_cases };

static tn_runtime *open_runtime(uint64_t mask, uint32_t workers) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .cpu_mask = mask,
                                     .workers = workers},
                       &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

static bool is_max(const windows_case *c) {
  return strstr(c->params, "pool_type=max") != NULL;
}

/* Quarters up to 64 are rounded in no type. */
Test(pooling, values_and_gradients_are_those_of_torch) {
  tn_runtime *rt = open_runtime(0, 2);
  for (size_t i = 0; i < N_CASES; ++i) {
    const windows_case *c = &pool_cases[i];
    const bool exact = is_max(c);
    windows_check(rt, c, TN_F64, exact ? 0 : 1e-14);
    windows_check(rt, c, TN_F32, exact ? 0 : 1e-6);
    windows_check(rt, c, TN_F16, 0x1p-10);
    windows_check(rt, c, TN_BF16, 0x1p-7);
  }
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------- loops */

enum { VALID, FULL, SAME };
static const char *const conventions[] = {"valid", "full", "same"};
static const char *const types[] = {"max", "avg", "sum"};

/* A pooling in two dimensions. */
typedef struct form {
  int64_t images;
  int64_t in[2], kernel[2], stride[2], pad[2], out[2];
  int64_t first[2]; /* padding before the data, which `same` computes itself */
  int64_t last[2];  /* where padding ends */
  int type;
  int convention;
  bool counts;
} form;

static int64_t up(int64_t a, int64_t b) {
  return (int64_t)ceil((double)a / (double)b);
}

static form settled(form f) {
  for (int d = 0; d < 2; ++d) {
    const int64_t room = f.in[d] + 2 * f.pad[d] - f.kernel[d];
    f.out[d] = f.convention == FULL ? up(room, f.stride[d]) + 1
                                    : room / f.stride[d] + 1;
    f.first[d] = f.pad[d];
    f.last[d] = f.in[d] + f.pad[d];
    if (f.convention != SAME) continue;
    f.out[d] = up(f.in[d], f.stride[d]);
    const int64_t more = (f.out[d] - 1) * f.stride[d] + f.kernel[d] - f.in[d];
    f.first[d] = more > 0 ? more / 2 : 0;
    f.last[d] = more > 0 ? f.in[d] + more - f.first[d] : f.in[d];
  }
  return f;
}

/* The result of one window: the largest element and its place; the sum; and the
 * number of counted elements. */
typedef struct view {
  double largest, sum;
  int64_t where, n, padded;
} view;

static bool beats(double a, double b) {
  return a > b || (a != a && b == b);
}

static view look(const form *f, const double *x, int64_t y0, int64_t x0) {
  view v = {-INFINITY, 0, -1, 0, 0};
  const int64_t y1 = y0 * f->stride[0] - f->first[0];
  const int64_t x1 = x0 * f->stride[1] - f->first[1];
  for (int64_t i = y1; i < y1 + f->kernel[0]; ++i)
    for (int64_t j = x1; j < x1 + f->kernel[1]; ++j) {
      v.padded += i < f->last[0] && j < f->last[1];
      if (i < 0 || i >= f->in[0] || j < 0 || j >= f->in[1]) continue;
      const double e = x[i * f->in[1] + j];
      ++v.n;
      v.sum += e;
      if (v.where >= 0 && !beats(e, v.largest)) continue;
      v.largest = e;
      v.where = i * f->in[1] + j;
    }
  return v;
}

static void give(const form *f, double *to, int64_t y0, int64_t x0, double g) {
  const int64_t y1 = y0 * f->stride[0] - f->first[0];
  const int64_t x1 = x0 * f->stride[1] - f->first[1];
  for (int64_t i = y1; i < y1 + f->kernel[0]; ++i)
    for (int64_t j = x1; j < x1 + f->kernel[1]; ++j)
      if (i >= 0 && i < f->in[0] && j >= 0 && j < f->in[1])
        to[i * f->in[1] + j] += g;
}

static void pool(const form *f, const double *x, const double *head,
                 double *out, double *to) {
  for (int64_t i = 0; i < f->out[0]; ++i)
    for (int64_t j = 0; j < f->out[1]; ++j, ++out, ++head) {
      const view v = look(f, x, i, j);
      const int64_t n = f->counts ? v.padded : v.n;
      const double divisor = f->type == 1 && n > 0 ? (double)n : 1;
      *out = f->type == 0 ? v.largest : v.sum / divisor;
      if (f->type != 0)
        give(f, to, i, j, *head / divisor);
      else if (v.where >= 0)
        to[v.where] += *head;
    }
}

/* A case with drawn operands; the loops compute the expected values. */
typedef struct made {
  windows_case c;
  double *data, *head, *out, *to;
  char params[256];
} made;

static double *zeros(int64_t n) {
  double *v = calloc((size_t)n + 1, sizeof *v);
  cr_assert_not_null(v);
  return v;
}

static void make(made *m, const form *f, uint64_t seed) {
  const int64_t in = f->in[0] * f->in[1], out = f->out[0] * f->out[1];
  (void)snprintf(m->params, sizeof m->params,
                 "kernel=[%lld,%lld] stride=[%lld,%lld] pad=[%lld,%lld] "
                 "pool_type=%s pooling_convention=%s count_include_pad=%s",
                 (long long)f->kernel[0], (long long)f->kernel[1],
                 (long long)f->stride[0], (long long)f->stride[1],
                 (long long)f->pad[0], (long long)f->pad[1], types[f->type],
                 conventions[f->convention], f->counts ? "true" : "false");
  m->data = host_draw(f->images * in, seed);
  m->head = host_draw(f->images * out, seed + 1);
  m->out = zeros(f->images * out), m->to = zeros(f->images * in);
  for (int64_t i = 0; i < f->images; ++i)
    pool(f, m->data + i * in, m->head + i * out, m->out + i * out,
         m->to + i * in);
  const windows_operand x = {4, {1, f->images, f->in[0], f->in[1]}, m->data};
  const windows_operand y = {4, {1, f->images, f->out[0], f->out[1]}, m->out};
  m->c = (windows_case){"nn.pooling", m->params, 1, {x}, y, y, 1, {x}};
  m->c.head.v = m->head;
  m->c.grads[0].v = m->to;
}

static void unmake(made *m) {
  free(m->data), free(m->head), free(m->out), free(m->to);
}

/* Sums of quarters are exact, the divisions of means are rounded. */
static void check_form(tn_runtime *rt, const form *f, uint64_t seed) {
  made m;
  make(&m, f, seed);
  windows_check(rt, &m.c, TN_F32, f->type == 1 ? 1e-6 : 0);
  windows_check(rt, &m.c, TN_F64, f->type == 1 ? 1e-14 : 0);
  unmake(&m);
}

static int64_t between(uint64_t *seed, int64_t low, int64_t high) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((*seed >> 33) % (uint64_t)(high - low + 1));
}

static form draw_form(uint64_t *seed, int64_t most) {
  form f = {.images = between(seed, 1, 5),
            .type = (int)between(seed, 0, 2),
            .convention = (int)between(seed, 0, 2),
            .counts = between(seed, 0, 1) != 0};
  for (int d = 0; d < 2; ++d) {
    f.kernel[d] = between(seed, 1, 5);
    f.stride[d] = between(seed, 1, 4);
    f.pad[d] = f.convention == SAME ? 0 : between(seed, 0, 3);
    f.in[d] = between(seed, 1, most);
    if (f.convention != SAME && f.in[d] + 2 * f.pad[d] < f.kernel[d])
      f.in[d] = f.kernel[d];
  }
  return settled(f);
}

/* The same with windows of 2 x 2 that do not overlap, which have loops of their
 * own. */
static form in_pairs(form f) {
  for (int d = 0; d < 2; ++d) {
    f.kernel[d] = f.stride[d] = 2;
    f.pad[d] = 0;
    if (f.in[d] < 2) f.in[d] = 2;
  }
  return settled(f);
}

/* The same with windows of 3 x 3 that are two apart, which have as well. */
static form in_threes(form f, uint64_t *seed) {
  f.type = 0;
  for (int d = 0; d < 2; ++d) {
    f.kernel[d] = 3, f.stride[d] = 2;
    f.pad[d] = f.convention == SAME ? 0 : between(seed, 0, 1);
    f.in[d] = between(seed, 3, d == 0 ? 9 : 140);
  }
  return settled(f);
}

/* Checks windows of three with NaN in some of them. */
static void check_nan(tn_runtime *rt, uint64_t *seed) {
  const form f = in_threes((form){.images = 2}, seed);
  const int64_t n = f.in[0] * f.in[1], windows = f.out[0] * f.out[1];
  made m;
  make(&m, &f, *seed);
  for (int k = 0; k < 3; ++k) m.data[between(seed, 0, n - 1)] = NAN;
  memset(m.to, 0, (size_t)(2 * n) * sizeof *m.to);
  for (int64_t i = 0; i < 2; ++i)
    pool(&f, m.data + i * n, m.head + i * windows, m.out + i * windows,
         m.to + i * n);
  windows_check(rt, &m.c, TN_F32, 0);
  unmake(&m);
}

Test(pooling, drawn_shapes_come_out_as_the_loops_do) {
  const uint64_t avx512 = TN_CPU_AVX512, avx2 = TN_CPU_AVX2 | avx512;
  const uint64_t masks[] = {0, avx512, avx2};
  for (size_t m = 0; m < sizeof masks / sizeof *masks; ++m) {
    tn_runtime *rt = open_runtime(masks[m], 2);
    uint64_t seed = 3 + m;
    for (int i = 0; i < 150; ++i) {
      form f = draw_form(&seed, i % 3 == 0 ? 70 : 20);
      if (i % 4 == 0) f = in_pairs(f);
      if (i % 4 == 1) f = in_threes(f, &seed);
      check_form(rt, &f, seed);
    }
    for (int i = 0; i < 20; ++i) check_nan(rt, &seed);
    tn_runtime_release(rt);
  }
}

/* Gradients that no cache holds are written past the caches, in whole lines of
 * these, which images do not begin at where they are 847 wide. */
static void check_large(int64_t wide, int64_t kernel, uint64_t mask) {
  form f = {.images = 5,
            .in = {1001, wide},
            .kernel = {kernel, kernel},
            .stride = {2, 2},
            .pad = {kernel - 2, kernel - 2}};
  for (f.type = 0; f.type < 2; ++f.type) {
    const form whole = settled(f);
    made m;
    tn_runtime *rt = open_runtime(mask, 2);
    make(&m, &whole, 11);
    windows_check(rt, &m.c, TN_F32, f.type == 1 ? 1e-6 : 0);
    unmake(&m);
    tn_runtime_release(rt);
  }
}

Test(pooling, large_gradients_come_out_as_the_loops_do) {
  check_large(847, 3, 0);
  check_large(848, 3, 0);
  check_large(849, 2, 0);
  check_large(847, 3, TN_CPU_AVX512);
  check_large(848, 3, TN_CPU_AVX512);
}

/* The bits of out and of the gradient, for 1, 2 and 8 threads. */
Test(pooling, results_are_the_same_for_every_number_of_threads) {
  static const uint32_t workers[] = {1, 2, 8};
  for (int type = 0; type < 3; ++type) {
    const form f = settled((form){.images = 40,
                                  .in = {60, 61},
                                  .kernel = {3, 3},
                                  .stride = {2, 2},
                                  .pad = {1, 1},
                                  .type = type});
    made m;
    double *first = NULL;
    make(&m, &f, 9);
    for (int64_t i = 0; i < windows_size(&m.c.in[0]); ++i)
      m.data[i] = sin((double)i * 0.7);
    for (int w = 0; w < 3; ++w) {
      tn_runtime *rt = open_runtime(0, workers[w]);
      tn_operator *op = host_operator(rt, "nn.pooling");
      tn_params *params = host_params(op, m.params);
      tn_array *in = host_many(rt, TN_F32, 4, m.c.in[0].dims, m.data);
      tn_array *out = NULL;
      OK(tn_call(rt, op, TN_IN(in), params, TN_OUT(&out)));
      double *v = host_many_values(out);
      if (first)
        cr_assert_arr_eq(v, first, (size_t)windows_size(&m.c.out) * sizeof *v);
      if (first) free(v);
      if (!first) first = v;
      tn_array_release(in), tn_array_release(out);
      tn_params_release(params);
      tn_runtime_release(rt);
    }
    free(first);
    unmake(&m);
  }
}

/* -------------------------------------------------------------- odd operands
 */

static const double none[1] = {0};

Test(pooling, no_images_and_no_channels_give_nothing) {
  const windows_case cases[] = {{"nn.pooling",
                                 "kernel=[2,2]",
                                 1,
                                 {{4, {0, 3, 4, 4}, none}},
                                 {4, {0, 3, 3, 3}, none},
                                 {4, {0, 3, 3, 3}, none},
                                 1,
                                 {{4, {0, 3, 4, 4}, none}}},
                                {"nn.pooling",
                                 "global_pool=true pool_type=avg",
                                 1,
                                 {{3, {2, 0, 4}, none}},
                                 {3, {2, 0, 1}, none},
                                 {3, {2, 0, 1}, none},
                                 1,
                                 {{3, {2, 0, 4}, none}}}};
  tn_runtime *rt = open_runtime(0, 1);
  for (size_t i = 0; i < 2; ++i) {
    windows_check(rt, &cases[i], TN_F32, 0);
    windows_check(rt, &cases[i], TN_BF16, 0);
  }
  tn_runtime_release(rt);
}

/* A window without elements has no largest one, and a sum of 0. */
Test(pooling, windows_that_are_all_padding_are_minus_infinity_or_zero) {
  static const double data[1] = {7}, ones[3] = {1, 1, 1}, one[1] = {1};
  static const double most[3] = {-INFINITY, 7, -INFINITY};
  static const double sums[3] = {0, 7, 0};
  windows_case c = {
      "nn.pooling",         "kernel=[1] pad=[1]", 1, {{3, {1, 1, 1}, data}},
      {3, {1, 1, 3}, most}, {3, {1, 1, 3}, ones}, 1, {{3, {1, 1, 1}, one}}};
  tn_runtime *rt = open_runtime(0, 1);
  windows_check(rt, &c, TN_F32, 0);
  c.params = "kernel=[1] pad=[1] pool_type=avg count_include_pad=false";
  c.out.v = sums;
  windows_check(rt, &c, TN_F32, 0);
  windows_check(rt, &c, TN_F16, 0);
  /* No element at all, but padding around it. */
  c.params = "kernel=[2] pad=[2]";
  c.in[0].dims[2] = c.grads[0].dims[2] = 0;
  static const double nothing[3] = {-INFINITY, -INFINITY, -INFINITY};
  c.out.v = nothing;
  windows_check(rt, &c, TN_F64, 0);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------- shapes and mistakes
 */

static tn_code infer(tn_runtime *rt, const char *text, tn_sig *in,
                     tn_sig *out) {
  tn_operator *op = host_operator(rt, "nn.pooling");
  tn_params *params = host_params(op, text);
  const tn_code code =
      tn_operator_infer(op, params, &(tn_signature){1, 1, 0, 0, in, out, NULL});
  tn_params_release(params);
  return code;
}

#define SIG(n, ...)                                      \
  {                                                      \
    .dtype = TN_F32, .ndim = n, .shape = { __VA_ARGS__ } \
  }
#define UNKNOWN \
  { .ndim = -1 }

typedef struct shape_case {
  const char *params;
  tn_sig in, out;             /* the known types and shapes */
  tn_sig whole_in, whole_out; /* and then */
  tn_code code;               /* TN_INCOMPLETE: not all of it */
} shape_case;

static const shape_case shape_cases[] = {
    {"kernel=[3,3] stride=[2,2] pad=[1,1]", SIG(4, 8, 64, 112, 112), UNKNOWN,
     SIG(4, 8, 64, 112, 112), SIG(4, 8, 64, 56, 56), TN_OK},
    /* (6 - 3)/2 is 1 and a half. */
    {"kernel=[3] stride=[2]", SIG(3, 1, 1, 6), UNKNOWN, SIG(3, 1, 1, 6),
     SIG(3, 1, 1, 2), TN_OK},
    {"kernel=[3] stride=[2] pooling_convention=full", SIG(3, 1, 1, 6), UNKNOWN,
     SIG(3, 1, 1, 6), SIG(3, 1, 1, 3), TN_OK},
    {"kernel=[3] stride=[4] pooling_convention=same", SIG(3, 1, 1, 6), UNKNOWN,
     SIG(3, 1, 1, 6), SIG(3, 1, 1, 2), TN_OK},
    {"global_pool=true", SIG(5, 2, 3, 4, 5, 6), UNKNOWN, SIG(5, 2, 3, 4, 5, 6),
     SIG(5, 2, 3, 1, 1, 1), TN_OK},
    /* Back, where one number only will do. */
    {"kernel=[3,2] pad=[1,0]", SIG(4, -1, 3, -1, -1), SIG(4, 2, -1, 8, 8),
     SIG(4, 2, 3, 8, 9), SIG(4, 2, 3, 8, 8), TN_OK},
    {"kernel=[3,3] stride=[1,2]", UNKNOWN, SIG(4, 2, 3, 8, 8),
     SIG(4, 2, 3, 10, -1), SIG(4, 2, 3, 8, 8), TN_INCOMPLETE},
};

static void is_sig(const tn_sig *got, const tn_sig *want, size_t i) {
  cr_assert_eq(got->ndim, want->ndim, "case %zu", i);
  for (int32_t d = 0; d < got->ndim; ++d)
    cr_assert_eq(got->shape[d], want->shape[d], "case %zu, dimension %d: %lld",
                 i, (int)d, (long long)got->shape[d]);
}

Test(pooling, shapes_follow_from_each_other) {
  tn_runtime *rt = open_runtime(0, 1);
  for (size_t i = 0; i < sizeof shape_cases / sizeof *shape_cases; ++i) {
    const shape_case *c = &shape_cases[i];
    tn_sig in = c->in, out = c->out;
    in.dtype = TN_F32;
    cr_assert_eq(infer(rt, c->params, &in, &out), c->code, "case %zu: %s", i,
                 tn_error_text());
    is_sig(&in, &c->whole_in, i);
    is_sig(&out, &c->whole_out, i);
  }
  tn_runtime_release(rt);
}

typedef struct mistake {
  const char *params;
  tn_sig in;
  tn_code code;
  const char *says[3];
} mistake;

static const mistake mistakes[] = {
    {"kernel=[3,5] pad=[0,1]",
     SIG(4, 1, 1, 3, 2),
     TN_SHAPE,
     {"a window of 5 elements is larger than dimension 3", "`data` (1,1,3,2)",
      "1 of padding"}},
    {"kernel=[3,3]",
     SIG(3, 1, 1, 3),
     TN_SHAPE,
     {"`kernel` has 2 dimensions", "must have 4", "(1,1,3) has 3"}},
    {"", SIG(3, 1, 1, 3), TN_INVALID, {"give `kernel` or set global_pool"}},
    {"kernel=[3] pad=[1] pooling_convention=same",
     SIG(3, 1, 1, 3),
     TN_INVALID,
     {"pooling_convention=same", "`pad` is 1, but must be 0"}},
    {"global_pool=true", SIG(2, 1, 3), TN_SHAPE, {"`data` has rank 2"}},
    {"global_pool=true",
     SIG(4, 1, 3, 0, 4),
     TN_SHAPE,
     {"dimension 2 of `data` (1,3,0,4) is empty"}},
};

Test(pooling, operands_that_do_not_fit_are_named_with_their_shapes) {
  tn_runtime *rt = open_runtime(0, 1);
  tn_operator *op = host_operator(rt, "nn.pooling");
  tn_params *params = NULL;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    const mistake *m = &mistakes[i];
    tn_sig in = m->in, out = UNKNOWN;
    cr_assert_eq(infer(rt, m->params, &in, &out), m->code, "%s: %s", m->params,
                 tn_error_text());
    for (int k = 0; k < 3 && m->says[k]; ++k)
      cr_assert_not_null(strstr(tn_error_text(), m->says[k]),
                         "\"%s\" lacks \"%s\"", tn_error_text(), m->says[k]);
  }
  FAILS(tn_params_parse(op, "kernel=[0]", &params), TN_OUT_OF_RANGE, "kernel");
  FAILS(tn_params_parse(op, "kernel=[2] stride=[0]", &params), TN_OUT_OF_RANGE,
        "stride");
  FAILS(tn_params_parse(op, "kernel=[2] pool_type=median", &params), TN_INVALID,
        "avg");
  tn_runtime_release(rt);
}
