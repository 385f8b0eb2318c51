/* SPDX-License-Identifier: Apache-2.0
 * nn.convolution: values of torch (tests/reference/conv.py), random shapes
 * beside loops written out here, by every kernel and at every level of
 * instructions, with any number of threads; and the meaning of groups, dilation
 * and gradients. test_convolution_shapes.c has shapes and mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolution.h"

static const windows_case conv_cases[] = {
#include "conv_cases.inc"
};
enum { N_CASES = sizeof conv_cases / sizeof *conv_cases };

Test(convolution, values_and_gradients_are_those_of_torch) {
  for (int blas = 0; blas < 2; ++blas) {
    tn_runtime *rt = open_runtime(0, 0, blas != 0);
    for (size_t i = 0; i < N_CASES; ++i) check_types(rt, &conv_cases[i]);
    tn_runtime_release(rt);
  }
}

/* ------------------------------------------------------------------- loops */

/* A convolution in two dimensions. */
typedef struct form {
  int64_t images, channels, filters, groups;
  int64_t in[2], kernel[2], stride[2], dilate[2], pad[2], out[2];
} form;

static form settled(form f) {
  for (int d = 0; d < 2; ++d)
    f.out[d] = (f.in[d] + 2 * f.pad[d] - f.dilate[d] * (f.kernel[d] - 1) - 1) /
                   f.stride[d] +
               1;
  return f;
}

static int64_t place(const form *f, int d, int64_t o, int64_t t) {
  return o * f->stride[d] + t * f->dilate[d] - f->pad[d];
}

/* Calls `one` for each product: indices of out, data and weight. */
typedef void product_fn(void *arg, int64_t out, int64_t data, int64_t weight);

static void window(const form *f, const int64_t at[4], product_fn *one,
                   void *arg) {
  const int64_t channels = f->channels / f->groups;
  const int64_t group = at[1] / (f->filters / f->groups);
  const int64_t out =
      ((at[0] * f->filters + at[1]) * f->out[0] + at[2]) * f->out[1] + at[3];
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < f->kernel[0]; ++i)
      for (int64_t j = 0; j < f->kernel[1]; ++j) {
        const int64_t y = place(f, 0, at[2], i), x = place(f, 1, at[3], j);
        if (y < 0 || y >= f->in[0] || x < 0 || x >= f->in[1]) continue;
        one(arg, out,
            ((at[0] * f->channels + group * channels + c) * f->in[0] + y) *
                    f->in[1] +
                x,
            ((at[1] * channels + c) * f->kernel[0] + i) * f->kernel[1] + j);
      }
}

static void products(const form *f, product_fn *one, void *arg) {
  for (int64_t n = 0; n < f->images; ++n)
    for (int64_t k = 0; k < f->filters; ++k)
      for (int64_t y = 0; y < f->out[0]; ++y)
        for (int64_t x = 0; x < f->out[1]; ++x)
          window(f, (const int64_t[4]){n, k, y, x}, one, arg);
}

/* All that a case consists of. */
typedef struct values {
  double *data, *weight, *bias, *out, *head, *to_data, *to_weight, *to_bias;
} values;

static void add_product(void *arg, int64_t out, int64_t data, int64_t weight) {
  const values *v = arg;
  v->out[out] += v->data[data] * v->weight[weight];
  v->to_data[data] += v->head[out] * v->weight[weight];
  v->to_weight[weight] += v->head[out] * v->data[data];
}

static double *zeros(int64_t n) {
  double *v = calloc((size_t)n + 1, sizeof *v);
  cr_assert_not_null(v);
  return v;
}

/* A case with drawn operands; the loops compute the expected values. */
typedef struct made {
  windows_case c;
  values v;
  char params[256];
} made;

static void write_params(char *text, size_t size, const form *f, bool bias) {
  (void)snprintf(
      text, size,
      "kernel=[%lld,%lld] stride=[%lld,%lld] dilate=[%lld,%lld] "
      "pad=[%lld,%lld] num_filter=%lld num_group=%lld no_bias=%s",
      (long long)f->kernel[0], (long long)f->kernel[1], (long long)f->stride[0],
      (long long)f->stride[1], (long long)f->dilate[0], (long long)f->dilate[1],
      (long long)f->pad[0], (long long)f->pad[1], (long long)f->filters,
      (long long)f->groups, bias ? "false" : "true");
}

static void draw_values(const form *f, const windows_case *c, values *v) {
  const int64_t plane = f->out[0] * f->out[1];
  v->data = host_draw(windows_size(&c->in[0]), 1);
  v->weight = host_draw(windows_size(&c->in[1]), 2);
  v->bias = host_draw(f->filters, 3);
  v->head = host_draw(windows_size(&c->out), 4);
  v->out = zeros(windows_size(&c->out));
  v->to_data = zeros(windows_size(&c->in[0]));
  v->to_weight = zeros(windows_size(&c->in[1]));
  v->to_bias = zeros(f->filters);
  products(f, add_product, v);
  for (int64_t i = 0; i < windows_size(&c->out); ++i) {
    const int64_t k = i / plane % f->filters;
    v->to_bias[k] += v->head[i];
    if (c->n_in > 2) v->out[i] += v->bias[k];
  }
}

static void make(made *m, const form *f, bool bias) {
  values *v = &m->v;
  windows_case *c = &m->c;
  *c = (windows_case){
      .op = "nn.convolution",
      .params = m->params,
      .n_in = bias ? 3 : 2,
      .in = {{4, {f->images, f->channels, f->in[0], f->in[1]}, NULL},
             {4,
              {f->filters, f->channels / f->groups, f->kernel[0], f->kernel[1]},
              NULL},
             {1, {f->filters}, NULL}},
      .out = {4, {f->images, f->filters, f->out[0], f->out[1]}, NULL}};
  write_params(m->params, sizeof m->params, f, bias);
  draw_values(f, c, v);
  c->in[0].v = v->data, c->in[1].v = v->weight, c->in[2].v = v->bias;
  c->head = c->out;
  c->out.v = v->out, c->head.v = v->head;
  c->n_grads = c->n_in;
  memcpy(c->grads, c->in, sizeof c->grads);
  c->grads[0].v = v->to_data, c->grads[1].v = v->to_weight;
  c->grads[2].v = v->to_bias;
}

static void unmake(made *m) {
  double *all[] = {m->v.data, m->v.weight,  m->v.bias,      m->v.out,
                   m->v.head, m->v.to_data, m->v.to_weight, m->v.to_bias};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
}

/* Whether a kernel takes a form; the others are refused with a reason. */
static bool takes(const char *kernel, const form *f) {
  const int64_t window = f->kernel[0] * f->kernel[1];
  if (strcmp(kernel, kernels[1]) == 0)
    return window == 1 && f->stride[0] * f->stride[1] == 1 &&
           f->pad[0] + f->pad[1] == 0;
  if (strcmp(kernel, kernels[2]) == 0)
    return f->channels == f->groups && f->filters / f->groups <= 4;
  if (strcmp(kernel, kernels[3]) == 0) return window > 1;
  return true;
}

/* Elements are quarters: products are exact in f32, in any order. */
static void check_form(tn_runtime *rt, const form *f) {
  made m;
  tn_operator *op = host_operator(rt, "nn.convolution");
  make(&m, f, (f->channels + f->in[0]) % 2 == 0);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; ++k) {
    if (!takes(kernels[k], f)) continue;
    OK(tn_operator_pin(op, kernels[k]));
    windows_check(rt, &m.c, TN_F32, 0);
    if (k != 3) windows_check(rt, &m.c, TN_F64, 0);
  }
  OK(tn_operator_pin(op, NULL));
  unmake(&m);
}

static const form forms[] = {
    {1, 1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0}},
    {2, 3, 5, 1, {8, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {1, 64, 20, 1, {25, 26}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {9, 5, 8, 1, {6, 6}, {2, 3}, {2, 1}, {1, 2}, {0, 2}, {0}},
    {2, 6, 4, 2, {19, 40}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {0}},
    {1, 3, 16, 1, {30, 31}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {0}},
    {3, 40, 24, 1, {17, 13}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0}},
    {2, 8, 6, 2, {50, 51}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0}},
    {2, 8, 6, 2, {9, 8}, {1, 1}, {2, 3}, {1, 1}, {1, 0}, {0}},
    {2, 7, 7, 7, {14, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {2, 5, 10, 5, {9, 33}, {3, 3}, {1, 1}, {1, 1}, {0, 2}, {0}},
    {1, 4, 4, 4, {21, 20}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0}},
    {2, 3, 6, 3, {11, 40}, {4, 5}, {3, 2}, {2, 3}, {5, 6}, {0}},
    {1, 2, 2, 2, {5, 4}, {1, 2}, {1, 4}, {1, 1}, {3, 9}, {0}},
    {2, 3, 9, 3, {4, 5}, {2, 2}, {1, 1}, {1, 1}, {4, 4}, {0}},
    {1, 2, 3, 1, {1, 90}, {1, 11}, {1, 1}, {1, 1}, {0, 5}, {0}},
    {1, 2, 2, 2, {2, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {20, 6, 16, 1, {14, 14}, {5, 5}, {1, 1}, {1, 1}, {0, 0}, {0}},
    {2, 14, 22, 2, {70, 65}, {5, 3}, {1, 1}, {1, 2}, {2, 3}, {0}},
    {1, 3, 5, 1, {20, 130}, {2, 7}, {1, 3}, {3, 1}, {4, 7}, {0}},
    {1, 66, 63, 1, {5, 7}, {2, 3}, {2, 1}, {1, 1}, {0, 1}, {0}},
    {12, 40, 52, 1, {13, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0}},
    {3, 5, 9, 1, {1, 70}, {1, 7}, {1, 1}, {1, 1}, {0, 0}, {0}},
    {5, 40, 26, 2, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0}},
    /* more points than a block has, in one image; phases without taps; rows
     * that are multiplied in pieces */
    {1, 18, 20, 1, {40, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {1, 16, 18, 1, {1, 1100}, {1, 3}, {1, 1}, {1, 1}, {0, 1}, {0}},
    {1, 17, 16, 1, {60, 41}, {3, 2}, {2, 3}, {1, 1}, {1, 0}, {0}},
    {2, 20, 35, 1, {50, 50}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0}},
    {2, 80, 50, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {2, 32, 36, 1, {13, 12}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {0}},
    {12, 24, 40, 1, {6, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0}},
    /* windows around elements, in lines of whole vectors and of more; as many
     * lines as an image has, one image, and lines shorter than a vector */
    {3, 4, 4, 4, {5, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {1, 2, 4, 2, {7, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {2, 3, 3, 3, {1, 45}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {1, 1, 1, 1, {3, 18}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {2, 3, 3, 3, {9, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {0}},
    {2, 3, 6, 3, {6, 33}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {0}},
    {2, 3, 3, 3, {8, 20}, {2, 3}, {1, 1}, {1, 1}, {0, 1}, {0}},
    {2, 2, 2, 2, {6, 20}, {3, 3}, {1, 1}, {1, 1}, {2, 1}, {0}},
    {1, 2, 2, 2, {40, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
    /* as many images as a vector has lanes, and others: with padding, deep, one
     * line, lines of which a window has nothing, in several slices */
    {35, 3, 6, 1, {9, 10}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {0}},
    {17, 4, 6, 2, {7, 6}, {3, 2}, {1, 1}, {2, 1}, {1, 3}, {0}},
    {16, 2, 9, 1, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {4, 4}, {0}},
    {18, 40, 33, 1, {6, 7}, {3, 4}, {1, 1}, {1, 1}, {0, 1}, {0}},
    {20, 2, 3, 1, {1, 40}, {1, 9}, {1, 1}, {1, 1}, {0, 0}, {0}},
    {16, 1, 2, 1, {2, 3}, {3, 3}, {1, 1}, {4, 1}, {6, 1}, {0}},
    {19, 12, 9, 1, {40, 30}, {3, 2}, {1, 1}, {1, 1}, {1, 0}, {0}},
    /* elements of data that no window has, all of them in one phase */
    {1, 3, 5, 1, {1, 9}, {2, 1}, {2, 1}, {2, 1}, {1, 0}, {0}},
};

Test(convolution, every_kernel_has_the_results_of_the_loops) {
  const uint64_t avx512 = TN_CPU_AVX512, avx2 = TN_CPU_AVX2 | avx512;
  const uint64_t masks[] = {0, avx512, avx2};
  for (size_t m = 0; m < sizeof masks / sizeof *masks; ++m)
    for (int blas = 0; blas < 2; ++blas) {
      tn_runtime *rt = open_runtime(masks[m], 2, blas != 0);
      for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
        const form f = settled(forms[i]);
        check_form(rt, &f);
      }
      tn_runtime_release(rt);
    }
}

/* A convolution in three dimensions, without bias. */
typedef struct solid {
  int64_t images, channels, filters;
  int64_t in[3], kernel[3], stride[3], pad[3], out[3];
} solid;

/* Offset of element t of the window at `at`, or -1 in padding. */
static int64_t solid_place(const solid *s, const int64_t *at,
                           const int64_t *t) {
  int64_t place = 0;
  for (int d = 0; d < 3; ++d) {
    const int64_t i = at[d] * s->stride[d] + t[d] - s->pad[d];
    if (i < 0 || i >= s->in[d]) return -1;
    place = place * s->in[d] + i;
  }
  return place;
}

static int64_t volume(const int64_t *n) {
  return n[0] * n[1] * n[2];
}

/* Point number i of so many. */
static void unfold(int64_t i, const int64_t *n, int64_t *at) {
  at[2] = i % n[2];
  at[1] = i / n[2] % n[1];
  at[0] = i / n[2] / n[1];
}

static void solid_window(const solid *s, int64_t out, values *v) {
  const int64_t image = out / volume(s->out) / s->filters;
  const int64_t filter = out / volume(s->out) % s->filters;
  int64_t at[3], t[3];
  unfold(out % volume(s->out), s->out, at);
  for (int64_t c = 0; c < s->channels; ++c)
    for (int64_t i = 0; i < volume(s->kernel); ++i) {
      unfold(i, s->kernel, t);
      const int64_t place = solid_place(s, at, t);
      if (place < 0) continue;
      add_product(v, out, (image * s->channels + c) * volume(s->in) + place,
                  (filter * s->channels + c) * volume(s->kernel) + i);
    }
}

static void check_solid(tn_runtime *rt, solid s) {
  made m = {.c = {.op = "nn.convolution", .n_in = 2, .n_grads = 2}};
  windows_case *c = &m.c;
  for (int d = 0; d < 3; ++d)
    s.out[d] = (s.in[d] + 2 * s.pad[d] - s.kernel[d]) / s.stride[d] + 1;
  c->params = m.params;
  (void)snprintf(m.params, sizeof m.params,
                 "kernel=[%d,%d,%d] stride=[%d,%d,%d] pad=[%d,%d,%d] "
                 "num_filter=%d no_bias=true",
                 (int)s.kernel[0], (int)s.kernel[1], (int)s.kernel[2],
                 (int)s.stride[0], (int)s.stride[1], (int)s.stride[2],
                 (int)s.pad[0], (int)s.pad[1], (int)s.pad[2], (int)s.filters);
  c->in[0] = (windows_operand){
      5, {s.images, s.channels, s.in[0], s.in[1], s.in[2]}, NULL};
  c->in[1] = (windows_operand){
      5, {s.filters, s.channels, s.kernel[0], s.kernel[1], s.kernel[2]}, NULL};
  c->out = (windows_operand){
      5, {s.images, s.filters, s.out[0], s.out[1], s.out[2]}, NULL};
  m.v = (values){.data = host_draw(windows_size(&c->in[0]), 1),
                 .weight = host_draw(windows_size(&c->in[1]), 2),
                 .head = host_draw(windows_size(&c->out), 4),
                 .out = zeros(windows_size(&c->out)),
                 .to_data = zeros(windows_size(&c->in[0])),
                 .to_weight = zeros(windows_size(&c->in[1]))};
  for (int64_t i = 0; i < windows_size(&c->out); ++i) solid_window(&s, i, &m.v);
  c->head = c->out;
  memcpy(c->grads, c->in, sizeof c->grads);
  c->in[0].v = m.v.data, c->in[1].v = m.v.weight;
  c->out.v = m.v.out, c->head.v = m.v.head;
  c->grads[0].v = m.v.to_data, c->grads[1].v = m.v.to_weight;
  windows_check(rt, c, TN_F32, 0);
  windows_check(rt, c, TN_F64, 0);
  unmake(&m);
}

/* Of blocks of points that are some planes of an image, and some lines. */
Test(convolution, solids_come_out_as_the_loops_do) {
  static const solid some[] = {
      {1, 3, 17, {20, 9, 8}, {3, 2, 3}, {1, 1, 1}, {1, 0, 1}, {0}},
      {1, 16, 18, {3, 30, 31}, {2, 3, 3}, {1, 1, 1}, {0, 1, 1}, {0}},
      {2, 17, 16, {5, 9, 22}, {2, 3, 3}, {2, 1, 3}, {1, 1, 1}, {0}},
      /* plates with padding on both sides, which no kernel for two dimensions
       * supports; in the last, the only window is padding */
      {1, 1, 2, {1, 5, 6}, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {0}},
      {2, 1, 3, {1, 7, 20}, {1, 3, 3}, {2, 1, 1}, {2, 1, 1}, {0}},
      {2, 3, 4, {1, 7, 9}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0}},
      {4, 16, 16, {1, 9, 9}, {1, 3, 3}, {3, 1, 1}, {1, 1, 1}, {0}}};
  const uint64_t avx512 = TN_CPU_AVX512, avx2 = TN_CPU_AVX2 | avx512;
  const uint64_t masks[] = {0, avx512, avx2};
  for (size_t m = 0; m < sizeof masks / sizeof *masks; ++m) {
    tn_runtime *rt = open_runtime(masks[m], 2, false);
    for (size_t i = 0; i < sizeof some / sizeof *some; ++i)
      check_solid(rt, some[i]);
    tn_runtime_release(rt);
  }
}

/* Transforms are rounded: the error of a sum of n products of up to 1 each is
 * at most 1.5e-5 times the root of n, as the manifest states. */
static void check_winograd(tn_runtime *rt, const form *f) {
  made m;
  tn_operator *op = host_operator(rt, "nn.convolution");
  const int64_t n = 9 * (f->channels > f->filters ? f->channels : f->filters);
  make(&m, f, f->in[0] % 2 == 0);
  OK(tn_operator_pin(op, winograd));
  windows_check(rt, &m.c, TN_F32, 1.5e-5 * sqrt((double)n));
  OK(tn_operator_pin(op, NULL));
  unmake(&m);
}

Test(convolution, windows_of_three_by_three_come_out_nearly_as_exact) {
  static const form some[] = {
      {4, 16, 16, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {16, 16, 16, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {2, 17, 19, 1, {23, 26}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {6, 16, 16, 1, {14, 15}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0}},
      {4, 36, 34, 2, {18, 13}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {0}},
      {17, 16, 20, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {4, 16, 33, 1, {4, 70}, {3, 3}, {1, 1}, {1, 1}, {1, 0}, {0}},
      {8, 192, 16, 1, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {4, 80, 72, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {5, 200, 24, 1, {8, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}}};
  const uint64_t avx512 = TN_CPU_AVX512, avx2 = TN_CPU_AVX2 | avx512;
  const uint64_t masks[] = {0, avx512, avx2};
  for (size_t m = 0; m < sizeof masks / sizeof *masks; ++m) {
    tn_runtime *rt = open_runtime(masks[m], 2, m == 0);
    for (size_t i = 0; i < sizeof some / sizeof *some; ++i) {
      const form f = settled(some[i]);
      check_winograd(rt, &f);
    }
    tn_runtime_release(rt);
  }
}

static int64_t between(uint64_t *seed, int64_t low, int64_t high) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((*seed >> 33) % (uint64_t)(high - low + 1));
}

/* With images that a window fits into. */
static form grown(form f) {
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = f.dilate[d] * (f.kernel[d] - 1) + 1;
    if (f.in[d] + 2 * f.pad[d] < reach) f.in[d] = reach;
  }
  return settled(f);
}

static form draw_form(uint64_t *seed) {
  form f = {.images = between(seed, 1, 3), .groups = between(seed, 1, 3)};
  f.channels = f.groups * between(seed, 1, 4);
  f.filters = f.groups * between(seed, 1, 5);
  for (int d = 0; d < 2; ++d) {
    f.kernel[d] = between(seed, 1, 4);
    f.stride[d] = between(seed, 1, 3);
    f.dilate[d] = between(seed, 1, 3);
    f.pad[d] = between(seed, 0, 4);
    f.in[d] = between(seed, 1, 20);
  }
  return grown(f);
}

Test(convolution, drawn_shapes_come_out_as_the_loops_do) {
  tn_runtime *rt = open_runtime(0, 2, true);
  uint64_t seed = 11;
  for (int i = 0; i < 100; ++i) {
    const form f = draw_form(&seed);
    check_form(rt, &f);
  }
  tn_runtime_release(rt);
}

/* Small ones, with padding that may be more than they are. */
static form draw_images(uint64_t *seed) {
  form f = {.images = between(seed, 4, 40), .groups = between(seed, 1, 2)};
  f.channels = f.groups * between(seed, 1, 5);
  f.filters = f.groups * between(seed, 1, 19);
  for (int d = 0; d < 2; ++d) {
    f.kernel[d] = between(seed, 1, 5);
    f.stride[d] = 1;
    f.dilate[d] = between(seed, 1, 2);
    f.pad[d] = between(seed, 0, 1) * between(seed, 0, 5);
    f.in[d] = between(seed, 1, 9);
  }
  return grown(f);
}

Test(convolution, drawn_images_come_out_as_the_loops_do_at_every_level) {
  const uint64_t avx512 = TN_CPU_AVX512, avx2 = TN_CPU_AVX2 | avx512;
  const uint64_t masks[] = {0, avx512, avx2};
  uint64_t seed = 5;
  for (int i = 0; i < 40; ++i) {
    const form f = draw_images(&seed);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; ++m) {
      tn_runtime *rt = open_runtime(masks[m], 2, false);
      check_form(rt, &f);
      tn_runtime_release(rt);
    }
  }
}

/* ------------------------------------------------------------- meaning
 */

/* A call of f with drawn operands; the caller frees the result. */
static double *forward_of(tn_runtime *rt, const form *f, const made *m,
                          tn_dtype dtype) {
  tn_operator *op = host_operator(rt, "nn.convolution");
  tn_params *params = host_params(op, m->params);
  tn_array *in[2], *out = NULL;
  (void)f;
  for (int i = 0; i < 2; ++i)
    in[i] = host_many(rt, dtype, 4, m->c.in[i].dims, m->c.in[i].v);
  OK(tn_call(rt, op, &(tn_inputs){2, in}, params, TN_OUT(&out)));
  double *v = host_many_values(out);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
  tn_params_release(params);
  return v;
}

/* Makes elements with products that are not exact. */
static void roughen(double *v, int64_t n, double factor) {
  for (int64_t i = 0; i < n; ++i) v[i] = sin((double)i * factor);
}

/* convolution_grouping: each group is the convolution of its slice. */
Test(convolution, groups_are_convolutions_of_slices_side_by_side) {
  tn_runtime *rt = open_runtime(0, 2, true);
  const form all =
      settled((form){1, 6, 9, 3, {7, 8}, {3, 2}, {2, 1}, {1, 1}, {1, 0}, {0}});
  form part = all;
  part.channels = 2, part.filters = 3, part.groups = 1;
  made whole, slice;
  make(&whole, &all, false), make(&slice, &part, false);
  double *together = forward_of(rt, &all, &whole, TN_F64);
  const int64_t data = windows_size(&slice.c.in[0]);
  const int64_t weight = windows_size(&slice.c.in[1]);
  const int64_t out = windows_size(&slice.c.out);
  for (int64_t g = 0; g < 3; ++g) {
    slice.c.in[0].v = whole.v.data + g * data;
    slice.c.in[1].v = whole.v.weight + g * weight;
    double *alone = forward_of(rt, &part, &slice, TN_F64);
    for (int64_t i = 0; i < out; ++i)
      cr_assert_eq(alone[i], together[g * out + i]);
    free(alone);
  }
  free(together);
  unmake(&whole), unmake(&slice);
  tn_runtime_release(rt);
}

Test(convolution, an_impulse_shows_the_window_spread_by_its_dilation) {
  tn_runtime *rt = open_runtime(0, 1, true);
  const form f = settled(
      (form){1, 1, 1, 1, {11, 11}, {3, 3}, {1, 1}, {3, 2}, {3, 2}, {0}});
  made m;
  make(&m, &f, false);
  memset(m.v.data, 0, 121 * sizeof *m.v.data);
  m.v.data[5 * 11 + 5] = 1;
  for (int i = 0; i < 9; ++i) m.v.weight[i] = i + 1;
  double *out = forward_of(rt, &f, &m, TN_F32);
  for (int y = 0; y < 11; ++y)
    for (int x = 0; x < 11; ++x) {
      const int i = 8 - y, j = 7 - x; /* 3 and 2 times an element's place */
      const bool hit =
          i % 3 == 0 && j % 2 == 0 && i >= 0 && i < 9 && j >= 0 && j < 6;
      cr_assert_eq(out[y * 11 + x], hit ? i / 3 * 3 + j / 2 + 1 : 0,
                   "(%d,%d): %g", y, x, out[y * 11 + x]);
    }
  free(out);
  unmake(&m);
  tn_runtime_release(rt);
}

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/* All three gradients of one call, in f64; the caller frees them. */
static void gradients_of(tn_runtime *rt, const made *m, tn_dtype dtype,
                         double *to[2]) {
  tn_operator *op = host_operator(rt, "nn.convolution");
  tn_params *params = host_params(op, m->params);
  tn_array *in[2], *grads[2] = {NULL, NULL}, *none = NULL;
  tn_array *head = host_many(rt, dtype, 4, m->c.out.dims, m->v.head);
  for (int i = 0; i < 2; ++i)
    in[i] = host_many(rt, dtype, 4, m->c.in[i].dims, m->c.in[i].v);
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = params,
                                     .inputs = {2, in},
                                     .outputs = *TN_IN(none),
                                     .out_grads = *TN_IN(head),
                                     .in_grads = {2, grads, NULL}}));
  for (int i = 0; i < 2; ++i) {
    to[i] = host_many_values(grads[i]);
    tn_array_release(in[i]), tn_array_release(grads[i]);
  }
  tn_array_release(head);
  tn_params_release(params);
}

/* <conv(x,w),y> = <x,to_data(w,y)> = <w,to_weight(x,y)> */
Test(convolution, gradients_are_the_adjoints_of_the_convolution) {
  tn_runtime *rt = open_runtime(0, 2, true);
  uint64_t seed = 5;
  for (int i = 0; i < 20; ++i) {
    const form f = draw_form(&seed);
    made m;
    double *to[2];
    make(&m, &f, false);
    roughen(m.v.data, windows_size(&m.c.in[0]), 0.7);
    roughen(m.v.weight, windows_size(&m.c.in[1]), 1.1);
    roughen(m.v.head, windows_size(&m.c.out), 1.3);
    double *out = forward_of(rt, &f, &m, TN_F64);
    gradients_of(rt, &m, TN_F64, to);
    const double sum = dot(out, m.v.head, windows_size(&m.c.out));
    for (int k = 0; k < 2; ++k) {
      const double other = dot(to[k], m.c.in[k].v, windows_size(&m.c.in[k]));
      cr_assert(fabs(other - sum) <= 1e-11 * fmax(1, fabs(sum)), "%s: %g, %g",
                m.params, other, sum);
      free(to[k]);
    }
    free(out);
    unmake(&m);
  }
  tn_runtime_release(rt);
}

static void check_threads(const form *f) {
  static const uint32_t workers[] = {1, 2, 8};
  double *first[3] = {NULL};
  made m;
  make(&m, f, false);
  const int64_t n[3] = {windows_size(&m.c.out), windows_size(&m.c.in[0]),
                        windows_size(&m.c.in[1])};
  roughen(m.v.data, n[1], 0.7);
  roughen(m.v.weight, n[2], 1.1);
  roughen(m.v.head, n[0], 1.3);
  for (int w = 0; w < 3; ++w) {
    tn_runtime *rt = open_runtime(0, workers[w], true);
    double *now[3];
    now[0] = forward_of(rt, f, &m, TN_F32);
    gradients_of(rt, &m, TN_F32, now + 1);
    for (int k = 0; k < 3; ++k) {
      if (w == 0)
        first[k] = now[k];
      else
        cr_assert_arr_eq(now[k], first[k], (size_t)n[k] * sizeof **now);
      if (w > 0) free(now[k]);
    }
    tn_runtime_release(rt);
  }
  for (int k = 0; k < 3; ++k) free(first[k]);
  unmake(&m);
}

Test(convolution, results_are_the_same_for_every_number_of_threads) {
  static const form large[] = {
      {3, 24, 20, 1, {33, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {6, 16, 24, 1, {30, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {3, 70, 40, 1, {20, 21}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0}},
      {4, 32, 32, 32, {40, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}},
      {2, 12, 20, 2, {33, 33}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {0}},
      {33, 6, 16, 1, {14, 20}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {0}}};
  for (size_t i = 0; i < sizeof large / sizeof *large; ++i) {
    const form f = settled(large[i]);
    check_threads(&f);
  }
}
