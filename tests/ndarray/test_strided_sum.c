/* SPDX-License-Identifier: Apache-2.0
 * Gradients of broadcast inputs: an elementwise kernel computes them at the
 * shape of the output, and the core sums them. probe.wide is x*z with
 * broadcast, so its gradients are sums of g*z and of g*x.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "probe.h"

TestSuite(sum, .init = world_open, .fini = world_close);

/* ----------------------------------------------------------------- backward */

static tn_code call_gradients(tn_array *x, tn_array *z, tn_array *g,
                              tn_array **grads, tn_req req) {
  tn_array *in[] = {x, z};
  const tn_req reqs[] = {req, req};
  const tn_backward call = {.struct_size = sizeof call,
                            .inputs = {2, in},
                            .out_grads = {1, &g},
                            .in_grads = {2, grads, reqs}};
  return tn__call_backward(&w.caller, op_get("probe.wide"), &call);
}

static void release_all(tn_array *a, tn_array *b, tn_array *c,
                        tn_array **grads) {
  tn__array_release(a);
  tn__array_release(b);
  tn__array_release(c);
  for (int i = 0; i < 2; ++i) tn__array_release(grads[i]);
}

Test(sum, the_gradient_of_a_row_is_the_sum_of_the_rows) {
  tn_array *x = floats(SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)),
           *z = floats(SHAPE(3), VALUES(10, 20, 30)),
           *g = floats(SHAPE(2, 3), VALUES(1, 1, 1, 2, 2, 2)),
           *grads[2] = {NULL, NULL};
  cr_assert_eq(call_gradients(x, z, g, grads, TN_REQ_WRITE), TN_OK, "%s",
               tn_error_text());
  expect(grads[0], VALUES(10, 20, 30, 20, 40, 60));
  expect(grads[1], VALUES(9, 12, 15)); /* 1*1+2*4, 1*2+2*5, 1*3+2*6 */
  release_all(x, z, g, grads);
}

/* The kernel would have written it at the shape of the sum's terms. */
Test(sum, a_gradient_without_request_has_the_shape_of_its_terms) {
  tn_array *in[] = {floats(SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)),
                    floats(SHAPE(3), VALUES(10, 20, 30))},
           *g = floats(SHAPE(2, 3), VALUES(1, 1, 1, 2, 2, 2)),
           *grads[2] = {NULL, NULL};
  const tn_req reqs[] = {TN_REQ_WRITE, TN_REQ_NULL};
  const tn_backward call = {.struct_size = sizeof call,
                            .inputs = {2, in},
                            .out_grads = {1, &g},
                            .in_grads = {2, grads, reqs}};
  cr_assert_eq(tn__call_backward(&w.caller, op_get("probe.wide"), &call), TN_OK,
               "%s", tn_error_text());
  cr_assert_eq(probe.out[1].ndim, 2);
  cr_assert_null(probe.out[1].data);
  release_all(in[0], in[1], g, grads);
}

Test(sum, both_inputs_may_be_broadcast) {
  tn_array *x = floats(SHAPE(2, 1), VALUES(1, 2)),
           *z = floats(SHAPE(1, 3), VALUES(10, 20, 30)),
           *g = floats(SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)),
           *grads[2] = {NULL, NULL};
  cr_assert_eq(call_gradients(x, z, g, grads, TN_REQ_WRITE), TN_OK, "%s",
               tn_error_text());
  expect(grads[0], VALUES(140, 320)); /* 10+40+90, 40+100+180 */
  expect(grads[1], VALUES(9, 12, 15));
  cr_assert_eq(grads[0]->tensor.ndim, 2);
  release_all(x, z, g, grads);
}

Test(sum, a_scalar_gets_the_sum_of_all) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)), *z = scalar(5),
           *g = floats(SHAPE(2, 2), VALUES(1, 1, 1, 1)),
           *grads[2] = {NULL, NULL};
  cr_assert_eq(call_gradients(x, z, g, grads, TN_REQ_WRITE), TN_OK, "%s",
               tn_error_text());
  expect(grads[0], VALUES(5, 5, 5, 5));
  expect(grads[1], VALUES(10));
  cr_assert_eq(grads[1]->tensor.ndim, 0);
  release_all(x, z, g, grads);
}

Test(sum, sums_are_added_where_requested) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)),
           *z = floats(SHAPE(2, 1), VALUES(1, 2)),
           *g = floats(SHAPE(2, 2), VALUES(1, 1, 1, 1)),
           *grads[2] = {floats(SHAPE(2, 2), VALUES(100, 100, 100, 100)),
                        floats(SHAPE(2, 1), VALUES(1000, 2000))};
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(call_gradients(x, z, g, grads, TN_REQ_ADD), TN_OK, "%s",
                 tn_error_text());
  expect(grads[0], VALUES(102, 102, 104, 104));
  expect(grads[1], VALUES(1006, 2014));
  release_all(x, z, g, grads);
}

/* A sum that is added does not overwrite. */
Test(sum, an_error_stays_when_a_sum_is_added) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)),
           *z = floats(SHAPE(1), VALUES(1)),
           *g = floats(SHAPE(2, 2), VALUES(1, 1, 1, 1)),
           *grads[2] = {floats(SHAPE(2, 2), VALUES(0, 0, 0, 0)),
                        floats(SHAPE(1), VALUES(0))};
  probe_code = TN_OUT_OF_RANGE;
  cr_assert_eq(call("probe.fail", IN(z), &grads[1]), TN_OUT_OF_RANGE);
  cr_assert_eq(call_gradients(x, z, g, grads, TN_REQ_ADD), TN_OUT_OF_RANGE);
  cr_assert_eq(call_gradients(x, z, g, grads, TN_REQ_WRITE), TN_OK, "%s",
               tn_error_text());
  expect(grads[1], VALUES(10));
  (void)tn__wait_all(w.env.engine);
  release_all(x, z, g, grads);
}

Test(sum, nothing_sums_to_zero) {
  tn_array *x = empty(TN_F32, SHAPE(0, 2)), *z = floats(SHAPE(2), VALUES(1, 2)),
           *g = empty(TN_F32, SHAPE(0, 2)),
           *grads[2] = {NULL, floats(SHAPE(2), VALUES(7, 8))};
  cr_assert_eq(call_gradients(x, z, g, grads, TN_REQ_WRITE), TN_OK, "%s",
               tn_error_text());
  expect(grads[1], VALUES(0, 0));
  release_all(x, z, g, grads);
}

/* ----------------------------------------------------------- the sums alone */

typedef struct sample {
  tn_tensor to, from;
  int64_t to_shape[4], from_shape[4], to_strides[4], from_strides[4];
} sample;

/* Small integers, so that every sum is exact in any order. */
static float value_of(int64_t i) {
  return (float)((i * 7919) % 17 - 8);
}

static void set_dense(tn_tensor *t) {
  tn__strides_dense(t->ndim, t->shape, t->strides);
}

/* A sample of `ndim` dimensions; `to` repeats dimension d if bit d of `cut` is
 * set. */
static void sample_init(sample *s, const int64_t *shape, int32_t ndim,
                        uint32_t cut) {
  *s = (sample){0};
  s->from = (tn_tensor){.ndim = ndim,
                        .dtype = TN_F32,
                        .shape = s->from_shape,
                        .strides = s->from_strides};
  s->to = (tn_tensor){.ndim = ndim,
                      .dtype = TN_F32,
                      .shape = s->to_shape,
                      .strides = s->to_strides};
  for (int32_t d = 0; d < ndim; ++d) {
    s->from_shape[d] = shape[d];
    s->to_shape[d] = cut >> d & 1 ? 1 : shape[d];
  }
  set_dense(&s->from);
  set_dense(&s->to);
}

/* Columns first. */
static void set_transposed(tn_tensor *t) {
  int64_t step = 1;
  for (int32_t d = 0; d < t->ndim; ++d) {
    t->strides[d] = step;
    step *= t->shape[d];
  }
}

static int64_t offset_of(const tn_tensor *t, const int64_t *index) {
  int64_t offset = 0;
  for (int32_t d = 0; d < t->ndim; ++d)
    if (t->shape[d] != 1) offset += index[d] * t->strides[d];
  return offset;
}

static void sum_naively(const sample *s, double *sums) {
  int64_t index[4] = {0};
  const float *from = s->from.data;
  for (int64_t i = 0; i < tn_tensor_size(&s->from); ++i) {
    sums[offset_of(&s->to, index)] += (double)from[offset_of(&s->from, index)];
    for (int32_t d = s->from.ndim - 1; d >= 0; --d) {
      if (++index[d] < s->from.shape[d]) break;
      index[d] = 0;
    }
  }
}

static void compare_sums(sample *s, tn__engine *engine) {
  const int64_t n = tn_tensor_size(&s->from), m = tn_tensor_size(&s->to);
  float *from = malloc((size_t)n * sizeof *from);
  float *to = malloc((size_t)m * sizeof *to);
  double *sums = calloc((size_t)m, sizeof *sums);
  cr_assert(from && to && sums);
  for (int64_t i = 0; i < n; ++i) from[i] = value_of(i);
  for (int64_t i = 0; i < m; ++i) to[i] = 3;
  s->from.data = from;
  s->to.data = to;
  sum_naively(s, sums);
  tn__tensor_sum(engine, &s->to, &s->from, true);
  for (int64_t i = 0; i < m; ++i) cr_assert_eq(to[i], (float)(sums[i] + 3));
  tn__tensor_sum(engine, &s->to, &s->from, false);
  for (int64_t i = 0; i < m; ++i) cr_assert_eq(to[i], (float)sums[i]);
  free(from);
  free(to);
  free(sums);
}

Test(sum, equals_a_plain_loop_for_any_axes_and_strides) {
  static const int64_t shapes[][4] = {{2, 3, 4, 5},
                                      {1, 7, 1, 9},
                                      {3, 1025, 2, 1},
                                      {1, 1, 1, 1},
                                      {5, 2, 1, 600}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (uint32_t cut = 0; cut < 16; ++cut)
      for (int order = 0; order < 4; ++order) {
        sample s;
        sample_init(&s, shapes[i], 4, cut);
        if (order & 1) set_transposed(&s.from);
        if (order & 2) set_transposed(&s.to);
        compare_sums(&s, NULL);
      }
}

Test(sum, large_ones_are_divided_among_the_workers) {
  static const int64_t shapes[][4] = {
      {2, 64, 1024, 2}, {262144, 2, 1, 1}, {1, 2, 1, 262144}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (uint32_t cut = 0; cut < 16; ++cut) {
      sample s;
      sample_init(&s, shapes[i], 4, cut);
      compare_sums(&s, w.env.engine);
    }
}

/* One by one in f32, the sum of this many ones would stay at 2^24, and that of
 * f16 at 2048. */
Test(sum, is_kept_in_f64_and_rounded_once) {
  const int64_t n = (1 << 24) + 8;
  int64_t one = 1, shape[] = {n}, strides[] = {1}, unit[] = {1};
  uint16_t *halves = malloc((size_t)n * sizeof *halves), half = 0;
  float *floats_ = malloc((size_t)n * sizeof *floats_), single = 0;
  cr_assert(halves && floats_);
  for (int64_t i = 0; i < n; ++i) floats_[i] = 1;
  for (int64_t i = 0; i < 4096; ++i) halves[i] = 0x3c00; /* 1 */
  tn_tensor from = {.data = floats_,
                    .ndim = 1,
                    .dtype = TN_F32,
                    .shape = shape,
                    .strides = strides};
  tn_tensor to = {.data = &single,
                  .ndim = 1,
                  .dtype = TN_F32,
                  .shape = &one,
                  .strides = unit};
  tn__tensor_sum(w.env.engine, &to, &from, false);
  cr_assert_eq(single, 16777224.0f);
  shape[0] = 4096;
  from.data = halves;
  from.dtype = to.dtype = TN_F16;
  to.data = &half;
  tn__tensor_sum(NULL, &to, &from, false);
  cr_assert_eq(half, 0x6c00); /* 4096 */
  free(halves);
  free(floats_);
}
