/* SPDX-License-Identifier: Apache-2.0
 * Gradients of repeated halves on a device: the terms of their sums are f32
 * where the table and the kernel support it, and halves elsewhere. The operator
 * is times, out = x * z; its kernel writes g * x, the gradient of z.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "tenon/kernel/kernel.h"

/* After kernel.h, where short names of these would be shadowed. */
#include "../by_hand.h"
#include "fake_end.h"
#include "fixture.h"

enum { N_TERMS = 128 };

/* ------------------------------------------------------------------- kernel */

static tn_dtype written; /* dtype of the output that the kernel received */

typedef struct product {
  const void *in[2];
  void *out;
  tn_dtype dtype; /* of the inputs */
  tn_dtype out_dtype;
} product;

static float widen(tn_dtype dtype, uint16_t half) {
  return dtype == TN_F16 ? tn_kernel_f16_to_f32(half)
                         : tn_kernel_bf16_to_f32(half);
}

static uint16_t narrow(tn_dtype dtype, float x) {
  return dtype == TN_F16 ? tn_kernel_f32_to_f16(x) : tn_kernel_f32_to_bf16(x);
}

static void multiply(fake *f, const void *arg) {
  const product *p = arg;
  const uint16_t *head = fake_reach(f, p->in[0]), *x = fake_reach(f, p->in[1]);
  float *wide = fake_reach(f, p->out);
  uint16_t *half = fake_reach(f, p->out);
  for (int i = 0; i < N_TERMS; ++i) {
    const float term = widen(p->dtype, head[i]) * widen(p->dtype, x[i]);
    if (p->out_dtype == TN_F32)
      wide[i] = term;
    else
      half[i] = narrow(p->dtype, term);
  }
}

/* in = [grad out, x, z], out = [grad x, grad z] */
static int32_t launch_product(const tn_frame *call) {
  const tn_tensor *out = &call->out[1];
  const product p = {.in = {call->in[0].data, call->in[1].data},
                     .out = out->data,
                     .dtype = call->in[0].dtype,
                     .out_dtype = out->dtype};
  const void *writes[] = {p.out};
  written = out->dtype;
  return fake_launch(call->run->stream,
                     &(fake_work){.run = multiply,
                                  .arg = &p,
                                  .arg_bytes = sizeof p,
                                  .bytes = N_TERMS * sizeof(uint16_t),
                                  .reads = p.in,
                                  .n_reads = 2,
                                  .writes = writes,
                                  .n_writes = 1});
}

/* ------------------------------------------------------------------- tables */

#define ARG(text, kind)                                                    \
  {                                                                        \
    .struct_size = sizeof(tn_arg), .dtype_var = 0, .dtype_param = TN_NONE, \
    .shape_kind = (kind), .inplace = TN_NONE, .init = TN_NONE,             \
    .count = TN_NONE, .name = (text)                                       \
  }
static const tn_arg in_x = ARG("x", TN_SHAPE_ANY),
                    in_z = ARG("z", TN_SHAPE_ANY),
                    out_y = ARG("out", TN_SHAPE_BROADCAST);
static const tn_arg *const ins[] = {&in_x, &in_z}, *const outs[] = {&out_y};
static const tn_dtype_var halves = {.struct_size = sizeof halves,
                                    .allowed = TN_BIT_F16 | TN_BIT_BF16,
                                    .name = "T"};
static const tn_dtype_var *const vars[] = {&halves};
static const tn_need need_x[] = {{TN_NEED_GRAD_OUT, 0, 0, 0},
                                 {TN_NEED_IN, 1, 0, 0}},
                     need_z[] = {{TN_NEED_GRAD_OUT, 0, 0, 0},
                                 {TN_NEED_IN, 0, 0, 0}};
static const tn_input_gradient of_x = {.struct_size = sizeof of_x,
                                       .n_needs = 2,
                                       .inplace = TN_NONE,
                                       .needs = need_x},
                               of_z = {.struct_size = sizeof of_z,
                                       .n_needs = 2,
                                       .inplace = TN_NONE,
                                       .needs = need_z};
static const tn_input_gradient *const gradients[] = {&of_x, &of_z};
static const tn_gradient gradient = {.struct_size = sizeof gradient,
                                     .kind = TN_GRADIENT_KERNEL,
                                     .n_inputs = 2,
                                     .inputs = gradients};
static const tn_op times = {.struct_size = sizeof times,
                            .interface = 1,
                            .since = 1,
                            .n_dtype_vars = 1,
                            .n_inputs = 2,
                            .n_outputs = 1,
                            .name = "times",
                            .summary = "Product",
                            .dtype_vars = vars,
                            .inputs = ins,
                            .outputs = outs,
                            .gradient = &gradient};
static const uint64_t half_bits[] = {TN_BIT_F16 | TN_BIT_BF16};
#define KERNEL(more)                                                         \
  {                                                                          \
    .struct_size = sizeof(tn_kernel),                                        \
    .flags = TN_KERNEL_REENTRANT | TN_KERNEL_ASYNC | TN_KERNEL_ELEMENTWISE | \
             (more),                                                         \
    .pass = TN_PASS_BACKWARD, .device_type = TN_DEVICE_EXT,                  \
    .writes = TN_WRITES_WRITE, .n_dtype_sets = 1, .when = TN_NONE,           \
    .op = "halves.times@1", .id = "halves.times.fake",                       \
    .dtype_sets = half_bits, .compute = launch_product                       \
  }
static const tn_kernel wide_kernel = KERNEL(TN_KERNEL_WIDE_OUT),
                       half_kernel = KERNEL(0);
static const tn_op *const ops[] = {&times};
static const tn_kernel *const wide_kernels[] = {&wide_kernel},
                              *const half_kernels[] = {&half_kernel};
#define PLUGIN(list)                                                          \
  {                                                                           \
    PLUGIN_BY_HAND("halves", 1, "Products of halves"),                        \
        .n_operators = 1, .n_kernels = 1, .operators = ops, .kernels = (list) \
  }
static const tn_plugin with_wide = PLUGIN(wide_kernels),
                       without_wide = PLUGIN(half_kernels);

/* ------------------------------------------------------------------ fixture */

static fake *f;
static tn_device table;
static tn__device *there;

static void open_with(const tn_plugin *plugin, bool is_wide,
                      size_t table_bytes) {
  world_open();
  f = fake_create(&(fake_options){
      .count = 1, .latency_us = 20, .seed = 5, .no_wide_sums = !is_wide});
  table = *fake_table(f);
  table.struct_size = (uint32_t)table_bytes;
  cr_assert_eq(tn__devices_add(w.devices, &table), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__device_parse(w.devices, "fake(0)", &there), TN_OK);
  cr_assert_eq(tn__plugin_add(w.registry, plugin), TN_OK, "%s",
               tn_error_text());
}

static void close_all(void) {
  world_close();
  end_fake(f);
}

static tn_array *make_halves(tn_dtype dtype, size_t ndim, size_t n,
                             const uint16_t *bits) {
  const int64_t shape[] = {(int64_t)n};
  tn_array *x = NULL;
  cr_assert_eq(
      tn__array_create_on(there, &(tn_spec){dtype, (int32_t)ndim, shape}, &x),
      TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__array_set(x, bits, n * sizeof *bits), TN_OK, "%s",
               tn_error_text());
  return x;
}

/* Returns the bits of the gradient of z: the sum of 64 pairs of products,
 * (1 + e) (1 + e) and -(1 + 2 e), with e the last bit of 1. Each pair is e^2,
 * or 0 if its products are rounded first. */
static uint16_t sum_pairs(tn_dtype dtype, tn_req req, uint16_t start) {
  const uint16_t one = dtype == TN_F16 ? 0x3c00 : 0x3f80;
  uint16_t x[N_TERMS], head[N_TERMS], got = 0xffff;
  for (int i = 0; i < N_TERMS; ++i) {
    x[i] = (uint16_t)(i % 2 ? one + 1 : one + 2);
    head[i] = (uint16_t)(i % 2 ? one + 1 : one | 0x8000);
  }
  tn_array *in[] = {make_halves(dtype, 1, N_TERMS, x),
                    make_halves(dtype, 0, 1, &one)},
           *out[] = {NULL}, *heads[] = {make_halves(dtype, 1, N_TERMS, head)},
           *grads[] = {NULL, make_halves(dtype, 0, 1, &start)};
  const tn_req reqs[] = {TN_REQ_NULL, req};
  const tn_backward call = {.struct_size = sizeof call,
                            .inputs = {2, in},
                            .outputs = {1, out},
                            .out_grads = {1, heads},
                            .in_grads = {2, grads, reqs}};
  cr_assert_eq(tn__call_backward(&w.caller, op_get("halves.times"), &call),
               TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__array_get(grads[1], &got, sizeof got), TN_OK, "%s",
               tn_error_text());
  tn__array_release(in[0]), tn__array_release(in[1]);
  tn__array_release(heads[0]), tn__array_release(grads[1]);
  return got;
}

/* -------------------------------------------------------------------- tests */

/* 64 e^2 is 2^-14 in f16 and 2^-8 in bf16. */
Test(wide_sums, of_halves_round_only_the_result) {
  open_with(&with_wide, true, sizeof table);
  cr_assert_eq(sum_pairs(TN_F16, TN_REQ_WRITE, 0x7e00), 0x0400);
  cr_assert_eq(written, TN_F32);
  cr_assert_eq(sum_pairs(TN_BF16, TN_REQ_WRITE, 0x7fc0), 0x3b80);
  cr_assert_eq(sum_pairs(TN_F16, TN_REQ_ADD, 0x0400), 0x0800);
  cr_assert_eq(sum_pairs(TN_BF16, TN_REQ_ADD, 0x3b80), 0x3c00);
  close_all();
}

Test(wide_sums, are_not_requested_from_an_older_table) {
  open_with(&with_wide, false, offsetof(tn_device, sum_flags));
  table.sum_flags = TN_SUM_WIDE; /* which the host must not read */
  cr_assert_eq(sum_pairs(TN_F16, TN_REQ_WRITE, 0x7e00), 0);
  cr_assert_eq(written, TN_F16);
  cr_assert_eq(sum_pairs(TN_BF16, TN_REQ_ADD, 0x3b80), 0x3b80);
  close_all();
}

Test(wide_sums, are_not_requested_from_a_table_without_the_flag) {
  open_with(&with_wide, false, sizeof table);
  cr_assert_eq(sum_pairs(TN_F16, TN_REQ_WRITE, 0x7e00), 0);
  cr_assert_eq(written, TN_F16);
  close_all();
}

Test(wide_sums, need_a_kernel_that_writes_wide_terms) {
  open_with(&without_wide, true, sizeof table);
  cr_assert_eq(sum_pairs(TN_F16, TN_REQ_WRITE, 0x7e00), 0);
  cr_assert_eq(written, TN_F16);
  close_all();
}
