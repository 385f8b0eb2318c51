/* SPDX-License-Identifier: Apache-2.0
 * Operators of plugins/image on arrays: values and gradients of Pillow, torch
 * and torchvision (tests/reference/image.py), random choices, and messages.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

typedef struct image_case {
  const char *op;
  const char *params;
  tn_dtype dtype;
  double tolerance;
  host_operand data, out;
  host_operand head, gradient; /* of f32, or empty */
} image_case;

static const image_case image_cases[] = {
#include "image_cases.inc"
};
enum { N_CASES = sizeof image_cases / sizeof *image_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(image, .init = open_all, .fini = close_all);

/* ------------------------------------------------------------------ values */

static void check_gradient(const image_case *c, tn_tape *tape, tn_array *in,
                           tn_array *out) {
  tn_array *head = host_operand_array(rt, TN_F32, &c->head), *grad = NULL;
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(out),
                                       .head_gradients = *TN_IN(head),
                                       .of = *TN_IN(in),
                                       .gradients = *TN_OUT(&grad)}));
  host_expect_operand(grad, &c->gradient, 1e-5, c->op, c->params);
  tn_array_release(head), tn_array_release(grad);
}

static void check_case(const image_case *c) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  const bool has_gradient = c->head.shape.ndim > 0;
  tn_array *in = host_operand_array(rt, c->dtype, &c->data), *out = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  if (has_gradient) OK(tn_tape_watch(tape, in));
  OK(tn_tape_call(tape, op, TN_IN(in), params, TN_OUT(&out)));
  if (c->dtype == TN_U8) {
    host_expect_shape(out, &c->out.shape, c->op, c->params);
    double *have = host_many_values(out);
    for (int64_t i = 0; i < host_count(&c->out.shape); ++i)
      cr_expect(fabs(have[i] - c->out.v[i]) <= c->tolerance,
                "%s %s: element %lld is %g, not %g", c->op, c->params,
                (long long)i, have[i], c->out.v[i]);
    free(have);
  } else {
    host_expect_operand(out, &c->out, c->tolerance, c->op, c->params);
  }
  if (has_gradient) check_gradient(c, tape, in, out);
  tn_array_release(in), tn_array_release(out);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(image, values_are_those_of_pillow_and_torchvision) {
  for (int i = 0; i < N_CASES; ++i) check_case(&image_cases[i]);
}

/* ----------------------------------------------------------------- choices */

/* Calls an operator with one input; the caller releases the result. */
static tn_array *call_one(const char *name, const char *text, tn_array *in) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *out = NULL;
  OK(tn_call(rt, op, TN_IN(in), params, TN_OUT(&out)));
  tn_params_release(params);
  return out;
}

/* n images of the same 6 x 8 pixels, numbered from 1. */
static tn_array *make_numbered(int64_t n) {
  const int64_t dims[] = {n, 6, 8, 1};
  double *v = calloc((size_t)(n * 48), sizeof *v);
  for (int64_t i = 0; i < n * 48; ++i) v[i] = (double)(i % 48 + 1);
  tn_array *images = host_many(rt, TN_U8, 4, dims, v);
  free(v);
  return images;
}

Test(image, random_crops_are_parts_at_all_places) {
  enum { N = 600 };
  tn_array *in = make_numbered(N);
  tn_array *out = call_one("image.random_crop", "height=4 width=5", in);
  double *v = host_many_values(out);
  int seen[48] = {0};
  for (int i = 0; i < N; ++i) {
    const int first = (int)v[i * 20] - 1;
    cr_assert(first / 8 <= 2 && first % 8 <= 3);
    ++seen[first];
    for (int k = 0; k < 20; ++k)
      cr_assert_eq(v[i * 20 + k], first + k / 5 * 8 + k % 5 + 1);
  }
  for (int i = 0; i < 12; ++i) /* 50 of each are likely */
    cr_assert(seen[i / 4 * 8 + i % 4] > 20, "place %d: %d", i,
              seen[i / 4 * 8 + i % 4]);
  free(v);
  tn_array_release(in), tn_array_release(out);
}

Test(image, padding_surrounds_an_image_with_zeros) {
  enum { N = 200 };
  tn_array *in = make_numbered(N);
  tn_array *out =
      call_one("image.random_crop", "height=8 width=10 padding=1", in);
  double *v = host_many_values(out);
  for (int k = 0; k < 80; ++k) {
    const int y = k / 10 - 1, x = k % 10 - 1;
    const bool is_inside = y >= 0 && y < 6 && x >= 0 && x < 8;
    cr_assert_eq(v[k], is_inside ? y * 8 + x + 1 : 0);
  }
  free(v);
  tn_array_release(in), tn_array_release(out);
}

Test(image, random_flips_have_their_probabilities) {
  enum { N = 1000 };
  int across = 0, down = 0, both = 0;
  tn_array *in = make_numbered(N);
  tn_array *out =
      call_one("image.random_flip", "horizontal=0.5 vertical=0.25", in);
  double *v = host_many_values(out);
  for (int i = 0; i < N; ++i) {
    const int first = (int)v[i * 48] - 1;
    cr_assert(first == 0 || first == 7 || first == 40 || first == 47);
    across += first % 8 == 7, down += first >= 40, both += first == 47;
  }
  cr_assert(across > 430 && across < 570, "%d", across);
  cr_assert(down > 190 && down < 310, "%d", down);
  cr_assert(both > 80 && both < 170, "%d", both);
  free(v);
  tn_array_release(in), tn_array_release(out);
}

/* The area of a part follows from the range of the numbers in it. */
Test(image, random_parts_have_areas_in_the_range) {
  enum { N = 200 };
  const int64_t dims[] = {N, 32, 32, 1};
  static double v[N * 1024];
  for (int i = 0; i < N * 1024; ++i) v[i] = i % 1024 % 32 / 32.0;
  tn_array *in = host_many(rt, TN_F32, 4, dims, v);
  tn_array *out = call_one("image.random_resized_crop",
                           "height=1 width=32 area=[0.25,0.25] ratio=[1,1] "
                           "filter=nearest",
                           in);
  double *have = host_many_values(out);
  int distinct = 0;
  for (int i = 0; i < N; ++i) {
    const double width = (have[i * 32 + 31] - have[i * 32]) * 32 + 1;
    cr_assert_float_eq(width, 16, 1e-6);
    distinct += i > 0 && have[i * 32] != have[i * 32 - 32];
  }
  cr_assert(distinct > N / 2);
  free(have);
  tn_array_release(in), tn_array_release(out);
}

/* Equal words for both runtimes, which divide the work differently. */
Test(image, random_results_do_not_depend_on_workers) {
  static const char *const calls[][2] = {
      {"image.random_crop", "height=3 width=4"},
      {"image.random_flip", "vertical=0.5"},
      {"image.random_resized_crop", "height=3 width=3"},
      {"image.color_jitter",
       "brightness=[0.5,1.5] contrast=[0.5,1.5] saturation=[0.5,1.5] "
       "hue=[-0.2,0.2]"}};
  for (size_t k = 0; k < sizeof calls / sizeof *calls; ++k) {
    double *have[2];
    int64_t n = 0;
    for (int w = 0; w < 2; ++w) {
      tn_runtime_release(rt);
      OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                         .workers = w == 0 ? 1 : 5},
                           &rt));
      OK(tn_plugin_load(rt, PLUGIN_FILE));
      tn_array *in = make_numbered(40);
      tn_array *out = call_one(calls[k][0], calls[k][1], in);
      have[w] = host_many_values(out);
      n = tn_array_size(out);
      tn_array_release(in), tn_array_release(out);
    }
    for (int64_t i = 0; i < n; ++i) cr_assert_eq(have[0][i], have[1][i]);
    free(have[0]), free(have[1]);
  }
}

/* --------------------------------------------------- gradients of gradients */

/* The variables of a graph for `check_second`: the input, the gradient of the
 * result, and that of the gradient. */
enum { INPUT, HEAD, SECOND, VARIABLES };

/* Builds the gradient of the gradient by HEAD. */
static void build_second(tn_graph *g, const char *op, const char *params,
                         const host_shape *shapes) {
  static const char *const names[] = {"x", "w", "v"};
  tn_entry v[VARIABLES], y, slope, second;
  for (int i = 0; i < VARIABLES; ++i) {
    tn_sig sig = {.dtype = TN_F32, .ndim = shapes[i].ndim};
    memcpy(sig.shape, shapes[i].dims, sizeof shapes[i].dims);
    OK(tn_graph_variable(g, names[i], &sig, &v[i]));
  }
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = op,
                                    .params = params,
                                    .n_in = 1,
                                    .in = &v[INPUT]},
                   &y));
  const tn_gradient_query first = {.heads = &y,
                                   .weights = &v[HEAD],
                                   .n_heads = 1,
                                   .of = &v[INPUT],
                                   .n_of = 1};
  const tn_gradient_query next = {.heads = &slope,
                                  .weights = &v[SECOND],
                                  .n_heads = 1,
                                  .of = &v[HEAD],
                                  .n_of = 1};
  OK(tn_graph_gradient(g, &first, &slope));
  OK(tn_graph_gradient(g, &next, &second));
  const tn_entry heads[] = {second, slope, y};
  OK(tn_graph_heads_set(g, heads, 3));
}

/* The operators are linear, so the gradient of the gradient is the operator
 * itself. */
static void check_second(const char *op, const char *params, host_shape from,
                         host_shape to) {
  const host_shape shapes[] = {from, to, from};
  static const char *const names[] = {"x", "w", "v"};
  tn_argument arguments[VARIABLES];
  tn_graph *g = NULL;
  tn_program *program = NULL;
  tn_array *have = NULL;
  OK(tn_graph_create(rt, &g));
  build_second(g, op, params, shapes);
  for (int i = 0; i < VARIABLES; ++i) {
    double *v = host_draw(host_count(&shapes[i]), (uint64_t)i + 1);
    arguments[i] = (tn_argument){
        .name = names[i],
        .array = host_many(rt, TN_F32, shapes[i].ndim, shapes[i].dims, v)};
    free(v);
  }
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .arguments = arguments,
                                .n_arguments = VARIABLES},
                     &program));
  OK(tn_program_forward(program, 0));
  OK(tn_program_output(program, 0, &have));
  tn_array *want = call_one(op, params, arguments[SECOND].array);
  double *u = host_many_values(have), *v = host_many_values(want);
  cr_assert_eq(tn_array_size(have), tn_array_size(want));
  for (int64_t i = 0; i < tn_array_size(want); ++i)
    cr_assert_float_eq(u[i], v[i], 1e-6, "%s: %g, not %g", op, u[i], v[i]);
  free(u), free(v);
  tn_array_release(want);
  for (int i = 0; i < VARIABLES; ++i) tn_array_release(arguments[i].array);
  tn_program_release(program);
  tn_graph_release(g);
}

Test(image, gradients_have_gradients) {
  const host_shape image = {3, {4, 5, 2}};
  check_second("image.resize", "height=3 width=7", image,
               (host_shape){3, {3, 7, 2}});
  check_second("image.crop", "top=1 left=2 height=2 width=3", image,
               (host_shape){3, {2, 3, 2}});
  check_second("image.flip", "vertical=true", image, image);
  check_second("image.normalize", "scale=2 std=[4,0.5] layout=hwc", image,
               image);
  check_second("image.to_chw", "", image, (host_shape){3, {2, 4, 5}});
}

/* ------------------------------------------------------------------- sizes */

/* A large image, in several slices, beside the one that a part of it gives. */
Test(image, slices_of_a_large_image_fit_together) {
  enum { H = 300, W = 40 };
  const int64_t dims[] = {H, W, 3};
  static double v[H * W * 3];
  for (int i = 0; i < H * W * 3; ++i) v[i] = i * 7919 % 251;
  tn_array *in = host_many(rt, TN_U8, 3, dims, v);
  tn_array *out = call_one("image.resize", "height=200 width=40", in);
  double *have = host_many_values(out);
  for (int y = 0; y < 200; ++y)
    for (int x = 0; x < W * 3; ++x) {
      /* Weights of the triangle of width 3 about 1.5*y + 0.75 */
      double sum = 0, weights = 0;
      for (int k = 0; k < H; ++k) {
        const double d = fabs(k + 0.5 - (y + 0.5) * 1.5) / 1.5;
        if (d >= 1) continue;
        sum += (1 - d) * v[k * W * 3 + x], weights += 1 - d;
      }
      cr_assert(fabs(have[y * W * 3 + x] - sum / weights) < 0.51);
    }
  free(have);
  tn_array_release(in), tn_array_release(out);
}

/* Every level of instructions has the same integers. */
Test(image, levels_of_instructions_give_the_same_bytes) {
  enum { H = 40, W = 37 };
  static double v[H * W * 4];
  for (int i = 0; i < H * W * 4; ++i) v[i] = i * 7919 % 256;
  for (int64_t channels = 1; channels <= 4; ++channels) {
    static const uint64_t masks[] = {UINT64_MAX, TN_CPU_AVX512, 0}; /* hidden */
    const int64_t dims[] = {H, W, channels};
    double *have[3];
    for (int k = 0; k < 3; ++k) {
      tn_runtime_release(rt);
      OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                         .cpu_mask = masks[k]},
                           &rt));
      OK(tn_plugin_load(rt, PLUGIN_FILE));
      tn_array *in = host_many(rt, TN_U8, 3, dims, v);
      tn_array *out =
          call_one("image.resize", "height=13 width=17 filter=bicubic", in);
      have[k] = host_many_values(out);
      tn_array_release(in), tn_array_release(out);
    }
    for (int64_t i = 0; i < 13 * 17 * channels; ++i)
      cr_assert(have[0][i] == have[1][i] && have[0][i] == have[2][i]);
    for (int k = 0; k < 3; ++k) free(have[k]);
  }
}

/* NaN has no hue and is no byte. */
Test(image, invalid_numbers_do_no_harm) {
  const double v[6] = {NAN, 1, 0, 0.5, INFINITY, 0.25};
  const int64_t dims[] = {1, 2, 3};
  tn_array *in = host_many(rt, TN_F32, 3, dims, v);
  tn_array *bytes = host_many(rt, TN_U8, 3, dims, (double[6]){0});
  tn_array *hue = call_one("image.color_jitter", "hue=[0.25,0.25]", in);
  tn_array *turned = call_one("image.rotate", "angle=90 fill=[nan]", bytes);
  double *have = host_many_values(turned);
  for (int i = 0; i < 6; ++i) cr_assert_eq(have[i], 0);
  free(have);
  tn_array_release(in), tn_array_release(bytes);
  tn_array_release(hue), tn_array_release(turned);
}

/* ---------------------------------------------------------------- messages */

static void expect_failure(const char *name, const char *text, tn_code code,
                           const char *part) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  const int64_t dims[] = {4, 4, 2};
  const double v[32] = {0};
  tn_array *in = host_many(rt, TN_F32, 3, dims, v), *out = NULL;
  FAILS(tn_call(rt, op, TN_IN(in), params, TN_OUT(&out)), code, part);
  tn_array_release(in);
  tn_params_release(params);
}

Test(image, messages_name_the_rule) {
  expect_failure("image.crop", "top=2 left=0 height=3 width=1", TN_SHAPE,
                 "`top` + `height` must be within the height of `data`");
  expect_failure("image.random_crop", "height=4 width=7 padding=1", TN_SHAPE,
                 "`width` must be within the width of `data`, with `padding`");
  expect_failure("image.random_resized_crop", "height=1 width=1 area=[1,0.5]",
                 TN_INVALID, "`area` is [1, 0.5]");
  expect_failure("image.rotate", "angle=1 fill=[1,2,3]", TN_INVALID,
                 "`fill` has 3 numbers, but there are 2 channels");
  expect_failure("image.color_jitter", "", TN_SHAPE,
                 "`data` must have 1 or 3 channels");
  expect_failure("image.normalize", "mean=[1,2,3] layout=hwc", TN_INVALID,
                 "`mean` has 3 numbers, but there are 2 channels");
}

Test(image, an_image_without_pixels_cannot_be_resized) {
  const int64_t dims[] = {0, 4, 3};
  const double none[1] = {0};
  tn_operator *op = host_operator(rt, "image.resize");
  tn_params *params = host_params(op, "height=2 width=2");
  tn_array *in = host_many(rt, TN_F32, 3, dims, none), *out = NULL;
  FAILS(tn_call(rt, op, TN_IN(in), params, TN_OUT(&out)), TN_SHAPE,
        "images of 0 x 4 pixels cannot be resized");
  tn_array_release(in);
  tn_params_release(params);
}
