/* SPDX-License-Identifier: Apache-2.0
 * Matrix products of plugins/cuda, requested as a kernel does, on the simulated
 * driver with the simulated cuBLASLt: properties that kernels of
 * plugins/cublaslt do not show.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "../host_failure.h"
#include "bare_device.h"

enum { N = 64 };

static bare_device device;
static float *memory; /* N floats of the device */
static tn_run run = {.struct_size = sizeof run, .device_type = TN_DEVICE_CUDA};

static const tn_host host = {.struct_size = sizeof host, .fail = store_failure};
static const tn_frame frame = {
    .struct_size = sizeof frame, .host = &host, .run = &run};

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, failure)

static void setup(void) {
  open_bare(&device, 0, (N + 1024) * sizeof *memory);
  cr_assert(cuda_products_open(&device.cuda, failure), "%s", failure);
  memory = (float *)(void *)device.memory;
  run.stream = cuda_queue_stream(&device.cuda, device.queue);
}

static void teardown(void) {
  free_bare(&device);
  cuda_products_close(&device.cuda);
  close_bare(&device);
}

TestSuite(products, .init = setup, .fini = teardown);

/* a, b, c and a bias begin at these elements of `v`, which is replaced with the
 * result. */
static void multiply_with(const tn_device_product *what, float v[N], int a,
                          int b, int c, int bias) {
  const tn_device_blas *blas = &device.cuda.products;
  uint64_t bytes = 0;
  void *plan = NULL;
  OK(blas->plan(blas, &frame, what, &plan, &bytes));
  cr_assert(bytes <= 1024 * sizeof(float));
  put_bytes(&device, memory, v, N * sizeof *memory);
  OK(blas->multiply(
      blas, &frame, plan,
      &(tn_device_operands){.struct_size = sizeof(tn_device_operands),
                            .a = memory + a,
                            .b = memory + b,
                            .c = memory + c,
                            .bias = bias < 0 ? NULL : memory + bias,
                            .ws = memory + N}));
  get_bytes(&device, v, memory, N * sizeof *memory);
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
  cr_assert_eq(device.cuda.products.plan(&device.cuda.products, &frame, what,
                                         &plan, &bytes),
               code);
  cr_assert_null(plan);
  cr_assert_not_null(strstr(failure, why), "%s lacks `%s`", failure, why);
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
