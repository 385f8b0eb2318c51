/* SPDX-License-Identifier: Apache-2.0
 * nms and nms_selected of plugins/nn: rows of ONNX's manual and of a NumPy
 * program (tests/reference/nms.py), many boxes, and a device (NMS_PLACE, with
 * the plugins of NMS_FILES).
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

typedef struct nms_case {
  const char *params;
  host_operand boxes, scores, rows;
} nms_case;

static const nms_case nms_cases[] = {
#include "nms_cases.inc"
};
enum { N_CASES = sizeof nms_cases / sizeof *nms_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(nms, .init = open_all, .fini = close_all);

/* Rows of the case, and then fillers. */
static void expect_rows(tn_array *out, const nms_case *c) {
  const int64_t n = c->rows.shape.dims[0] * 3, size = tn_array_size(out);
  double *v = host_many_values(out);
  cr_assert_geq(size, n, "%s: %lld numbers", c->params, (long long)size);
  for (int64_t i = 0; i < size; ++i)
    cr_assert_eq(v[i], i < n ? c->rows.v[i] : -1, "%s, number %lld: %g",
                 c->params, (long long)i, v[i]);
  free(v);
}

static void check_case(const nms_case *c, tn_dtype dtype) {
  tn_operator *fixed = host_operator(rt, "nn.nms");
  tn_operator *exact = host_operator(rt, "nn.nms_selected");
  tn_params *p = host_params(fixed, c->params);
  tn_params *q = host_params(exact, c->params);
  tn_array *boxes = host_operand_array(rt, dtype, &c->boxes), *rows = NULL;
  tn_array *scores = host_operand_array(rt, dtype, &c->scores),
           *out[2] = {NULL};
  OK(tn_call(rt, fixed, TN_IN(boxes, scores), p, &(tn_outputs){2, out, NULL}));
  expect_rows(out[0], c);
  host_expect(out[1], (double[]){(double)c->rows.shape.dims[0]}, 1, 0);
  OK(tn_call(rt, exact, TN_IN(boxes, scores), q, TN_OUT(&rows)));
  cr_assert_eq(tn_array_size(rows), 3 * c->rows.shape.dims[0]);
  cr_assert_eq(tn_array_tensor(rows)->shape[1], 3);
  expect_rows(rows, c);
  tn_array_release(boxes), tn_array_release(scores), tn_array_release(rows);
  tn_array_release(out[0]), tn_array_release(out[1]);
  tn_params_release(p), tn_params_release(q);
}

Test(nms, rows_are_those_of_onnx_and_numpy) {
  for (int i = 0; i < N_CASES; ++i) {
    check_case(&nms_cases[i], TN_F64);
    check_case(&nms_cases[i], TN_F32);
    if (i >= 10) check_case(&nms_cases[i], TN_F16); /* few bits */
  }
}

/* ---------------------------------------------------------------- many boxes
 */

enum { IMAGES = 2, CLASSES = 3, BOXES = 1500, MOST = 300 };

/* Squares of size 4 on a grid of distance 3: neighbours overlap. */
static tn_array *draw_boxes(void) {
  const int64_t dims[] = {IMAGES, BOXES, 4};
  double *v = malloc(IMAGES * BOXES * 4 * sizeof *v);
  cr_assert_not_null(v);
  for (int i = 0; i < IMAGES * BOXES; ++i) {
    const int at = i % BOXES;
    v[4 * i] = at % 50 * 3;
    v[4 * i + 1] = at / 50 * 3;
    v[4 * i + 2] = v[4 * i] + 4;
    v[4 * i + 3] = v[4 * i + 1] + 4;
  }
  tn_array *boxes = host_many(rt, TN_F32, 3, dims, v);
  free(v);
  return boxes;
}

static tn_array *draw_scores(void) {
  const int64_t dims[] = {IMAGES, CLASSES, BOXES};
  double *v = malloc(IMAGES * CLASSES * BOXES * sizeof *v);
  cr_assert_not_null(v);
  for (int i = 0; i < IMAGES * CLASSES * BOXES; ++i)
    v[i] = i * 7919 % 1009 / 8.0 - 2; /* some are equal */
  tn_array *scores = host_many(rt, TN_F32, 3, dims, v);
  free(v);
  return scores;
}

/* Rows and their number, computed at a place; the caller frees both. */
static void run_many(const char *place, double **rows, double **count) {
  tn_place at;
  tn_array *near[2] = {draw_boxes(), draw_scores()}, *in[2], *out[2] = {NULL};
  tn_operator *op = host_operator(rt, "nn.nms");
  tn_params *params =
      host_params(op, "max_output=300 iou_threshold=0.1 score_threshold=0.5");
  OK(tn_place_parse(rt, place, &at));
  for (int i = 0; i < 2; ++i) OK(tn_array_to(near[i], at, &in[i]));
  OK(tn_call(rt, op, &(tn_inputs){2, in}, params, &(tn_outputs){2, out, NULL}));
  *rows = host_near_values(out[0]);
  *count = host_near_values(out[1]);
  for (int i = 0; i < 2; ++i) {
    tn_array_release(near[i]), tn_array_release(in[i]);
    tn_array_release(out[i]);
  }
  tn_params_release(params);
}

/* Selected boxes do not overlap, and are no neighbours of the grid. */
Test(nms, selected_boxes_are_apart) {
  double *rows, *count;
  run_many("cpu", &rows, &count);
  const int n = (int)count[0];
  cr_assert(n > IMAGES * CLASSES * 100);
  for (int i = 0; i < n; ++i)
    for (int k = i + 1; k < n; ++k) {
      const double *a = rows + 3 * i, *b = rows + 3 * k;
      if (a[0] != b[0] || a[1] != b[1]) break;
      const int x = abs((int)a[2] % 50 - (int)b[2] % 50);
      const int y = abs((int)a[2] / 50 - (int)b[2] / 50);
      cr_assert(x + y > 1, "rows %d and %d are neighbours", i, k);
    }
  for (int i = 3 * n; i < IMAGES * CLASSES * MOST * 3; ++i)
    cr_assert_eq(rows[i], -1);
  free(rows), free(count);
}

Test(nms, rows_of_another_device_are_those_of_the_cpu) {
  const char *place = getenv("NMS_PLACE"), *files = getenv("NMS_FILES");
  double *rows[2], *count[2];
  if (place == NULL || files == NULL)
    cr_skip_test("NMS_PLACE and NMS_FILES name no device");
  host_load_all(rt, files);
  run_many("cpu", &rows[0], &count[0]);
  run_many(place, &rows[1], &count[1]);
  cr_assert_eq(count[0][0], count[1][0]);
  for (int i = 0; i < IMAGES * CLASSES * MOST * 3; ++i)
    cr_assert_eq(rows[0][i], rows[1][i], "number %d: %g, not %g", i, rows[1][i],
                 rows[0][i]);
  for (int i = 0; i < 2; ++i) free(rows[i]), free(count[i]);
}

/* ------------------------------------------------------------------ messages
 */

Test(nms, shapes_that_do_not_fit_are_errors) {
  const double numbers[24] = {0};
  tn_operator *op = host_operator(rt, "nn.nms");
  tn_array *boxes = host_array(rt, TN_F32, (host_shape){3, {1, 3, 4}}, numbers);
  tn_array *few = host_array(rt, TN_F32, (host_shape){3, {1, 1, 2}}, numbers);
  tn_array *flat = host_array(rt, TN_F32, (host_shape){3, {1, 4, 3}}, numbers);
  tn_array *out[2] = {NULL};
  const tn_outputs to = {2, out, NULL};
  cr_assert_eq(tn_call(rt, op, TN_IN(boxes, few), NULL, &to), TN_SHAPE);
  cr_assert_eq(tn_call(rt, op, TN_IN(flat, few), NULL, &to), TN_SHAPE);
  tn_array_release(boxes), tn_array_release(few), tn_array_release(flat);
}
