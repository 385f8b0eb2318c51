/* SPDX-License-Identifier: Apache-2.0
 * tenon/kernel/operand.h: dense views of operands and the queue of a call, on a
 * call that is made by hand.
 */
#include "tenon/kernel/operand.h"

#include <criterion/criterion.h>
#include <string.h>

#include "../host_failure.h"

static const tn_host host = {.struct_size = sizeof(tn_host),
                             .fail = store_failure};

/* A call with one input and one output of 2 x 3 x 4 floats. */
typedef struct frame {
  int64_t shape[3], strides[3];
  float elements[24];
  tn_tensor in[1], out[1];
  tn_run run;
  tn_frame call;
} frame;

static void frame_init(frame *f) {
  const int64_t shape[] = {2, 3, 4}, strides[] = {12, 4, 1};
  memset(f, 0, sizeof *f);
  memcpy(f->shape, shape, sizeof shape);
  memcpy(f->strides, strides, sizeof strides);
  f->in[0] = (tn_tensor){.data = f->elements,
                         .device_type = TN_DEVICE_CPU,
                         .ndim = 3,
                         .dtype = TN_F32,
                         .shape = f->shape,
                         .strides = f->strides};
  f->out[0] = f->in[0];
  f->run = (tn_run){.struct_size = sizeof f->run, .device_type = TN_DEVICE_CPU};
  f->call = (tn_frame){.struct_size = sizeof f->call,
                       .n_in = 1,
                       .n_out = 1,
                       .in = f->in,
                       .out = f->out,
                       .host = &host,
                       .run = &f->run};
}

static void expect_shape(frame *f, int32_t ndim, const int64_t *shape) {
  tn_dense view = {.dtype = TN_F32, .ndim = ndim, .shape = {-1, -1, -1, -1}};
  cr_assert_eq(tn_dense_open(&f->call, &f->in[0], &view), TN_OK, "%s", failure);
  cr_assert_eq(view.data, f->elements);
  for (int32_t i = 0; i < ndim; ++i)
    cr_assert_eq(view.shape[i], shape[i], "%d of %d", i, ndim);
}

Test(operand, dimensions_are_merged_or_added_in_front) {
  frame f;
  frame_init(&f);
  expect_shape(&f, 1, (int64_t[]){24});
  expect_shape(&f, 2, (int64_t[]){6, 4});
  expect_shape(&f, 3, (int64_t[]){2, 3, 4});
  expect_shape(&f, 4, (int64_t[]){1, 2, 3, 4});
  f.in[0].ndim = 0;
  expect_shape(&f, 2, (int64_t[]){1, 1});
}

static int32_t open_with(frame *f, const tn_tensor *t, tn_dense view) {
  failure[0] = 0;
  return tn_dense_open(&f->call, t, &view);
}

Test(operand, says_where_the_operand_differs) {
  frame f;
  frame_init(&f);
  const tn_dense wanted = {.dtype = TN_F32, .ndim = 2, .shape = {6, 4}};
  tn_dense other = wanted;
  cr_expect_eq(open_with(&f, &f.in[0], wanted), TN_OK);
  other.shape[1] = 5;
  cr_expect_eq(open_with(&f, &f.out[0], other), TN_SHAPE);
  cr_expect_str_eq(failure,
                   "output 0 has the length 4 in place 1 of 2, and the kernel "
                   "wants 5");
  other = wanted;
  other.dtype = TN_I32;
  cr_expect_eq(open_with(&f, &f.in[0], other), TN_DTYPE);
  cr_expect(strstr(failure, "input 0 has the type"), "%s", failure);
  f.strides[2] = 2;
  cr_expect_eq(open_with(&f, &f.in[0], wanted), TN_INVALID);
  cr_expect(strstr(failure, "`layout: contiguous`"), "%s", failure);
}

Test(operand, refuses_ranks_and_products_out_of_range) {
  frame f;
  frame_init(&f);
  const tn_dense none = {.dtype = TN_F32}, five = {.dtype = TN_F32, .ndim = 5};
  cr_expect_eq(open_with(&f, &f.in[0], none), TN_INVALID);
  cr_expect_eq(open_with(&f, &f.in[0], five), TN_INVALID);
  cr_expect(strstr(failure, "5 dimensions; it has 1 to 4"), "%s", failure);
  f.in[0].ndim = -2;
  cr_expect_eq(open_with(&f, &f.in[0], (tn_dense){.dtype = TN_F32, .ndim = 1}),
               TN_INVALID);
  cr_expect_str_eq(failure, "input 0 is absent");
}

/* Zero times more than 64 bits hold is still zero. */
Test(operand, an_empty_operand_has_no_elements) {
  frame f;
  frame_init(&f);
  f.shape[0] = INT64_MAX;
  f.shape[1] = 0;
  f.in[0].data = NULL;
  tn_dense view = {.dtype = TN_F32, .ndim = 2, .shape = {-1, 4}};
  cr_assert_eq(tn_dense_length(&f.in[0], 1, 0), 0);
  f.shape[0] = 2;
  cr_assert_eq(tn_dense_open(&f.call, &f.in[0], &view), TN_OK, "%s", failure);
  cr_assert_eq(view.shape[0], 0);
  cr_assert_null(view.data);
}

Test(operand, gives_the_queue_of_the_right_device_only) {
  frame f;
  void *stream = &f;
  frame_init(&f);
  cr_assert_eq(tn_call_stream(&f.call, TN_DEVICE_CPU, &stream), TN_OK);
  cr_assert_null(stream);
  cr_assert_eq(tn_call_stream(&f.call, TN_DEVICE_CUDA, &stream), TN_DEVICE);
  cr_assert(strstr(failure, "check `device` in its manifest"), "%s", failure);
  f.run.device_type = TN_DEVICE_CUDA;
  f.run.stream = &f.run;
  cr_assert_eq(tn_call_stream(&f.call, TN_DEVICE_CUDA, &stream), TN_OK);
  cr_assert_eq(stream, &f.run);
}
