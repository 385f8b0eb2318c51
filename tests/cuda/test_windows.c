/* SPDX-License-Identifier: Apache-2.0
 * nn.convolution on the first CUDA device: values of torch, and random shapes
 * beside the cpu; values of the operators that nn itself computes there, in the
 * companion that WINDOWS_COMPANION names. The plugins are those of the
 * environment, so that the same program runs with fakes here and with a GPU
 * elsewhere (./dev gpu-test):
 *
 *   WINDOWS_FILES=cuda.so:nn.so:cudnn.so WINDOWS_SEED=7 test_windows
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugins/windows.h"

static const windows_case conv_cases[] = {
#include "../plugins/conv_cases.inc"
};
enum { N_CASES = sizeof conv_cases / sizeof *conv_cases, N_DRAWN = 24 };

static tn_runtime *rt;

/* The test is skipped where there is no device. */
static void open_all(void) {
  const char *files = getenv("WINDOWS_FILES");
  tn_device_entry entry;
  if (!files) cr_skip_test("WINDOWS_FILES names no plugins");
  OK(tn_runtime_create(NULL, &rt));
  host_load_all(rt, files);
  OK(tn_device_at(rt, 1, &entry));
  if (entry.count == 0) cr_skip_test("%s", entry.detail);
  windows_place = "cuda";
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(windows, .fini = close_all);

/* Sums of products in f32 may be made by transforms, which are rounded. */
static double tolerance_of(tn_dtype dtype) {
  switch (dtype) {
    case TN_F64:
      return 1e-13;
    case TN_F32:
      return 1e-4;
    default:
      return dtype == TN_F16 ? 0x1p-9 : 0x1p-6;
  }
}

static const tn_dtype types[] = {TN_F64, TN_F32, TN_F16, TN_BF16};

Test(windows, values_and_gradients_are_those_of_torch) {
  open_all();
  for (size_t i = 0; i < N_CASES; ++i)
    for (size_t t = 0; t < 4; ++t)
      windows_check(rt, &conv_cases[i], types[t], tolerance_of(types[t]));
}

static const windows_case own_cases[] = {
#include "../plugins/deconv_cases.inc"
#include "../plugins/deformable_cases.inc"
#include "../plugins/dilated_cases.inc"
#include "../plugins/fold_cases.inc"
#include "../plugins/region_cases.inc"
#include "../plugins/resize_cases.inc"
#include "../plugins/sample_cases.inc"
};

Test(windows, values_of_kernels_without_cudnn_are_those_of_references) {
  const char *companion = getenv("WINDOWS_COMPANION");
  if (!companion) cr_skip_test("WINDOWS_COMPANION names no file");
  open_all();
  host_load_all(rt, companion);
  for (size_t i = 0; i < sizeof own_cases / sizeof *own_cases; ++i)
    for (size_t t = 0; t < 4; ++t)
      windows_check(rt, &own_cases[i], types[t], tolerance_of(types[t]));
}

/* ------------------------------------------------------------ random shapes
 */

static uint64_t state;

static int64_t draw(int64_t from, int64_t to) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return from + (int64_t)((state >> 33) % (uint64_t)(to - from + 1));
}

/* A drawn case; the cpu computes the expected values, in f64. */
typedef struct drawn {
  windows_case c;
  char params[320];
  double *v[8];
  int n_v;
} drawn;

static const double *keep(drawn *d, double *v) {
  d->v[d->n_v++] = v;
  return v;
}

static void append(char *text, size_t size, const char *name, int64_t n,
                   const int64_t *v) {
  size_t at = strlen(text);
  at += (size_t)snprintf(text + at, size - at, " %s=[", name);
  for (int64_t i = 0; i < n; ++i)
    at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? "," : "",
                           (long long)v[i]);
  (void)snprintf(text + at, size - at, "]");
}

/* Windows that fit into images of up to a few dozen elements. */
static void draw_shape(drawn *d) {
  const int32_t rank = (int32_t)draw(1, 3);
  const int64_t groups = draw(1, 3), of_group = draw(1, 9), each = draw(1, 9);
  const int64_t images = draw(1, 4), most = rank == 3 ? 9 : 24;
  int64_t kernel[3], stride[3], dilate[3], pad[3];
  windows_case *c = &d->c;
  const bool has_bias = draw(0, 1) == 1;
  *c = (windows_case){
      .op = "nn.convolution", .params = d->params, .n_in = has_bias ? 3 : 2};
  c->in[0] = (windows_operand){rank + 2, {images, groups * of_group}, NULL};
  c->in[1] = (windows_operand){rank + 2, {groups * each, of_group}, NULL};
  c->in[2] = (windows_operand){1, {groups * each}, NULL};
  c->out = (windows_operand){rank + 2, {images, groups * each}, NULL};
  for (int32_t i = 0; i < rank; ++i) {
    kernel[i] = draw(1, 5), stride[i] = draw(1, 3), dilate[i] = draw(1, 2);
    pad[i] = draw(0, 3);
    const int64_t reach = dilate[i] * (kernel[i] - 1) + 1;
    const int64_t in = draw(reach, reach + most);
    c->in[0].dims[i + 2] = in;
    c->in[1].dims[i + 2] = kernel[i];
    c->out.dims[i + 2] = (in + 2 * pad[i] - reach) / stride[i] + 1;
  }
  (void)snprintf(d->params, sizeof d->params,
                 "num_filter=%lld num_group=%lld no_bias=%s",
                 (long long)(groups * each), (long long)groups,
                 has_bias ? "false" : "true");
  append(d->params, sizeof d->params, "kernel", rank, kernel);
  append(d->params, sizeof d->params, "stride", rank, stride);
  append(d->params, sizeof d->params, "dilate", rank, dilate);
  append(d->params, sizeof d->params, "pad", rank, pad);
}

static void compute(drawn *d) {
  windows_case *c = &d->c;
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[3] = {NULL}, *grads[3] = {NULL}, *out = NULL;
  const tn_req req[3] = {TN_REQ_WRITE, TN_REQ_WRITE, TN_REQ_WRITE};
  for (size_t i = 0; i < c->n_in; ++i)
    in[i] = host_many(rt, TN_F64, c->in[i].ndim, c->in[i].dims, c->in[i].v);
  tn_array *head = host_many(rt, TN_F64, c->head.ndim, c->head.dims, c->head.v);
  OK(tn_call(rt, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = params,
                                     .inputs = {c->n_in, in},
                                     .outputs = *TN_IN(out),
                                     .out_grads = *TN_IN(head),
                                     .in_grads = {c->n_in, grads, req}}));
  c->out.v = keep(d, host_many_values(out));
  for (size_t i = 0; i < c->n_in; ++i) {
    c->grads[i].v = keep(d, host_many_values(grads[i]));
    tn_array_release(in[i]), tn_array_release(grads[i]);
  }
  tn_array_release(head), tn_array_release(out);
  tn_params_release(params);
}

static void draw_case(drawn *d) {
  windows_case *c = &d->c;
  *d = (drawn){.n_v = 0};
  draw_shape(d);
  for (size_t i = 0; i < c->n_in; ++i)
    c->in[i].v = keep(d, host_draw(windows_size(&c->in[i]), state + i));
  c->head = c->out;
  c->head.v = keep(d, host_draw(windows_size(&c->head), state + 3));
  c->n_grads = c->n_in;
  memcpy(c->grads, c->in, sizeof c->grads);
  compute(d);
}

/* Drawn elements are quarters, so that sums of their products are exact in f32;
 * halves are compared where sums stay small. */
static void check_drawn(const drawn *d) {
  windows_check(rt, &d->c, TN_F64, tolerance_of(TN_F64));
  windows_check(rt, &d->c, TN_F32, tolerance_of(TN_F32));
  windows_check(rt, &d->c, TN_F16, tolerance_of(TN_F16));
  windows_check(rt, &d->c, TN_BF16, tolerance_of(TN_BF16));
}

Test(windows, random_shapes_come_out_as_on_the_cpu) {
  const char *seed = getenv("WINDOWS_SEED");
  open_all();
  state = seed ? strtoull(seed, NULL, 0) : 1;
  (void)fprintf(stderr, "# seed %llu\n", (unsigned long long)state);
  for (int i = 0; i < N_DRAWN; ++i) {
    drawn d;
    draw_case(&d);
    check_drawn(&d);
    while (d.n_v > 0) free(d.v[--d.n_v]);
  }
}
