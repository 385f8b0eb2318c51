/* SPDX-License-Identifier: Apache-2.0
 * Matrix products of plugins/cuda, requested as a kernel does, on the simulated
 * driver with the simulated cuBLASLt: properties that kernels of
 * plugins/cublaslt do not show.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../must.h"
#include "devices.h"
#include "fake_cuda.h"

enum { N = 64 };

static cuda_instance self;
static void *queue;
static float *memory; /* N floats of the device */
static char said[256];
static tn_run run = {.struct_size = sizeof run, .device_type = TN_DEVICE_CUDA};

static int32_t fail(const tn_frame *call, int32_t code, const char *file,
                    int32_t line, const char *format, ...) {
  va_list args;
  (void)call, (void)file, (void)line;
  va_start(args, format);
  (void)vsnprintf(said, sizeof said, format, args);
  va_end(args);
  return code;
}

static const tn_host host = {.struct_size = sizeof host, .fail = fail};
static const tn_frame frame = {
    .struct_size = sizeof frame, .host = &host, .run = &run};

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, said)

static void setup(void) {
  tn_device_error error = {.struct_size = sizeof error};
  fake_cuda_begin(&(fake_cuda_options){.devices = 1});
  cr_assert(cuda_driver_open(&self.driver, cuda_driver_names, said), "%s",
            said);
  OK(cuda_devices_open(&self));
  cr_assert(cuda_products_open(&self, said), "%s", said);
  OK(cuda_queue_open(&self, 0, TN_QUEUE_COMPUTE, 0, &queue, &error));
  OK(cuda_alloc(&self, 0, TN_MEMORY_DEVICE, (N + 1024) * sizeof *memory,
                (void **)&memory, &error));
  run.stream = cuda_queue_stream(&self, queue);
}

static void teardown(void) {
  cuda_queue_close(&self, queue);
  cuda_free(&self, 0, TN_MEMORY_DEVICE, memory);
  cuda_products_close(&self);
  cuda_devices_close(&self);
  must_be_silent(fake_cuda_end());
}

TestSuite(products, .init = setup, .fini = teardown);

static void move(void *to, const void *from, int is_in) {
  tn_device_error error = {.struct_size = sizeof error};
  void *fence = NULL;
  const tn_copy copy = {.struct_size = sizeof copy,
                        .to = to,
                        .from = from,
                        .bytes = N * sizeof(float),
                        .to_type = is_in ? TN_DEVICE_CUDA : TN_DEVICE_CPU,
                        .from_type = is_in ? TN_DEVICE_CPU : TN_DEVICE_CUDA};
  OK(cuda_copy(&self, queue, &copy, &error));
  OK(cuda_fence_open(&self, 0, &fence, &error));
  OK(cuda_fence_record(&self, fence, queue, &error));
  OK(cuda_fence_wait(&self, fence, &error));
  cuda_fence_close(&self, fence);
}

/* a, b, c and a bias begin at these elements of `v`, which is replaced with the
 * result. */
static void multiply_with(const tn_device_product *what, float v[N], int a,
                          int b, int c, int bias) {
  const tn_device_blas *blas = &self.products;
  uint64_t bytes = 0;
  void *plan = NULL;
  OK(blas->plan(blas, &frame, what, &plan, &bytes));
  cr_assert(bytes <= 1024 * sizeof(float));
  move(memory, v, 1);
  OK(blas->multiply(
      blas, &frame, plan,
      &(tn_device_operands){.struct_size = sizeof(tn_device_operands),
                            .a = memory + a,
                            .b = memory + b,
                            .c = memory + c,
                            .bias = bias < 0 ? NULL : memory + bias,
                            .ws = memory + N}));
  move(v, memory, 0);
  blas->release(blas, plan);
}

static void multiply(const tn_device_product *what, float v[N], int a, int b,
                     int c) {
  multiply_with(what, v, a, b, c, -1);
}

static tn_device_product number(void) {
  return (tn_device_product){.struct_size = sizeof(tn_device_product),
                             .dtype = TN_F32,
                             .m = 1,
                             .n = 1,
                             .k = 1,
                             .lda = 1,
                             .ldb = 1,
                             .ldc = 1,
                             .alpha = 1};
}

/* 2^-12 is lost by TF32, which has 10 bits after the binary point. */
Test(products, lose_bits_of_factors_only_if_that_is_allowed) {
  tn_device_product what = number();
  float exact[N] = {1 + 0x1p-12f, 3}, fast[N] = {1 + 0x1p-12f, 3};
  multiply(&what, exact, 0, 1, 2);
  what.flags = TN_PRODUCT_FAST;
  multiply(&what, fast, 0, 1, 2);
  cr_expect_eq(exact[2], 3 + 3 * 0x1p-12f);
  cr_expect_eq(fast[2], 3);
}

Test(products, come_in_batches_with_steps) {
  tn_device_product what = number();
  float v[N] = {2, 0, 3, 0, 5, 10, -1, -1, -1, -1, -1};
  what.count = 3;
  what.step_a = 2;
  what.step_c = 2;
  multiply(&what, v, 0, 5, 6); /* b is the same each time */
  cr_expect_arr_eq(v + 6, ((float[]){20, -1, 30, -1, 50}), 5 * sizeof *v);
}

Test(products, of_nothing_are_zeros_in_every_matrix) {
  tn_device_product what = number();
  float v[N] = {1, 1, 1, 1, 1, 1, 1, 1};
  what.k = 0;
  what.n = 2;
  what.ldb = what.ldc = 2;
  what.count = 2;
  what.step_c = 3;
  multiply(&what, v, 40, 40, 0);
  cr_expect_arr_eq(v, ((float[]){0, 0, 1, 0, 0, 1, 1, 1}), 8 * sizeof *v);
  what.step_c = 2;
  multiply(&what, v, 40, 40, 4);
  cr_expect_arr_eq(v, ((float[]){0, 0, 1, 0, 0, 0, 0, 0}), 8 * sizeof *v);
}

/* The simulated cuBLASLt notices a bias at another address than the declared
 * one. */
Test(products, have_a_bias_at_any_address) {
  tn_device_product what = number();
  float v[N] = {2, 0, 0, 0, 3, 0, 0, 0, 5, 7, 0, 0, 0, 11};
  what.flags = TN_PRODUCT_BIAS;
  multiply_with(&what, v, 0, 4, 16, 8);
  cr_expect_eq(v[16], 11);
  multiply_with(&what, v, 0, 4, 17, 9);
  cr_expect_eq(v[17], 13);
  multiply_with(&what, v, 0, 4, 20, 13);
  cr_expect_eq(v[20], 17);
}

/* Where there is no epilogue for any address, aligned operands have theirs. */
Test(products, of_halves_have_a_bias_at_any_address) {
  tn_device_product what = number();
  uint16_t *v = (uint16_t[2 * N]){0x4000, [8] = 0x4200, [16] = 0x4500, 0x4700};
  what.dtype = TN_F16;
  what.flags = TN_PRODUCT_BIAS;
  multiply_with(&what, (float *)(void *)v, 0, 4, 12, 8);
  cr_expect_eq(v[24], 0x4980, "2 * 3 + 5 = 11");
}

/* A plugin that was compiled before there were several knows of one. */
Test(products, of_an_older_struct_are_one) {
  tn_device_product what = number();
  float v[N] = {2, 7, 3};
  what.struct_size = offsetof(tn_device_product, count);
  what.count = 5;
  multiply(&what, v, 0, 1, 4);
  cr_expect_arr_eq(v, ((float[]){2, 7, 3, 0, 14, 0}), 6 * sizeof *v);
}

static void refuses(const tn_device_product *what, int32_t code,
                    const char *why) {
  uint64_t bytes = 0;
  void *plan = &bytes;
  cr_assert_eq(self.products.plan(&self.products, &frame, what, &plan, &bytes),
               code);
  cr_assert_null(plan);
  cr_assert_not_null(strstr(said, why), "%s lacks `%s`", said, why);
}

Test(products, that_cannot_be_are_refused) {
  tn_device_product what = number();
  what.count = 2;
  what.flags = TN_PRODUCT_BIAS;
  refuses(&what, TN_UNSUPPORTED,
          "several products have neither a bias nor sums");
  what.flags = 0;
  what.count = 1ll << 31;
  refuses(&what, TN_UNSUPPORTED, "more than 2^31 - 1 products at once");
  what.count = 1;
  what.k = 0;
  what.beta = 0.5;
  refuses(&what, TN_UNSUPPORTED, "a product of nothing goes with beta 0 or 1");
  what.k = 1;
  what.dtype = TN_I32;
  refuses(&what, TN_DTYPE, "f16, bf16, f32 or f64");
}
