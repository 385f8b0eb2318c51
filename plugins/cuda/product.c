/* SPDX-License-Identifier: Apache-2.0
 * product.c: "blas.cuda/1" with cuBLASLt. Its matrices are column-major, so a
 * row-major matrix is a transposed one there, and it computes c^T = b^T a^T: b
 * is the first factor, m and n are exchanged, and no data moves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blaslt.h"
#include "devices.h"

enum {
  MOST_WORKSPACE = 32 << 20, /* the largest that the heuristics request on
                              * sm_90 */
  ALIGNED = 16,              /* loads of the fast kernels */
  N_WAYS = 2                 /* for aligned operands, and for any */
};

/* Algorithm for operands with addresses of one alignment. */
typedef struct algorithm {
  blaslt_found found;
  int status;   /* the reason, if it is not BLASLT_OK */
  int has_bias; /* added by cuBLASLt itself; otherwise c begins as the bias */
  double beta;
} algorithm;

/* Algorithm of one product; constant after its creation. */
typedef struct plan {
  tn_device_product what;
  cuda_device *device;
  blaslt_layout a; /* cuBLASLt's a, our b */
  blaslt_layout b;
  blaslt_layout c;
  algorithm ways[N_WAYS];
} plan;

/* --------------------------------------------------------------- failures */

/* Reports a failure. A fault of an earlier operation appears in the next call
 * of any function; then the device knows the reason. */
static int32_t report_failure(const tn_frame *call, cuda_device *device,
                              int status, const char *doing) {
  const cuda_blaslt *blaslt = device->instance->blaslt;
  const int32_t code = status == BLASLT_NO_MEMORY       ? TN_OUT_OF_MEMORY
                       : status == BLASLT_NOT_SUPPORTED ? TN_UNSUPPORTED
                                                        : TN_DEVICE;
  tn_device_error error = {.struct_size = sizeof error};
  if (code == TN_DEVICE && cuda_check_status(device, &error) != TN_OK)
    return TN_FAIL(call, TN_DEVICE, "%s: %s: %s", blaslt->name, doing,
                   error.text);
  return TN_FAIL(call, code, "%s: %s: %s", blaslt->name, doing,
                 blaslt->say(status));
}

/* Enters the device of a call. */
static int32_t enter_device(const tn_frame *call, cuda_device *device) {
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t code = cuda_enter(device, &error);
  return code == TN_OK ? TN_OK : TN_FAIL(call, code, "%s", error.text);
}

static int32_t check_result(const tn_frame *call, cuda_device *device,
                            int result) {
  tn_device_error error = {.struct_size = sizeof error};
  if (result == CUDA_OK) return TN_OK;
  const int32_t code = cuda_fail(device, result, &error);
  return TN_FAIL(call, code, "%s", error.text);
}

/* --------------------------------------------------------------- a product */

static int get_type(tn_dtype dtype) {
  switch (dtype) {
    case TN_F64:
      return BLASLT_F64;
    case TN_F16:
      return BLASLT_F16;
    case TN_BF16:
      return BLASLT_BF16;
    default:
      return BLASLT_F32;
  }
}

/* Type of sums and factors. */
static int get_scale_type(const tn_device_product *p) {
  return p->dtype == TN_F64 ? BLASLT_F64 : BLASLT_F32;
}

static int get_compute_type(const tn_device_product *p) {
  if (p->dtype == TN_F64) return BLASLT_COMPUTE_64F;
  return p->dtype == TN_F32 && (p->flags & TN_PRODUCT_FAST)
             ? BLASLT_COMPUTE_32F_TF32
             : BLASLT_COMPUTE_32F;
}

static uint32_t choose_epilogue(const plan *x, const algorithm *how) {
  uint32_t epilogue = how->has_bias ? BLASLT_BIAS : 0;
  if (x->what.flags & TN_PRODUCT_RELU) epilogue |= BLASLT_RELU;
  return epilogue ? epilogue : BLASLT_DEFAULT;
}

/* Creates a description for each call, because it contains the bias. */
static int create_description(const cuda_blaslt *lt, const plan *x,
                              const algorithm *how, const void *bias,
                              blaslt_what *out) {
  const int32_t a = x->what.transpose_b ? BLASLT_OP_T : BLASLT_OP_N;
  const int32_t b = x->what.transpose_a ? BLASLT_OP_T : BLASLT_OP_N;
  const uint32_t epilogue = choose_epilogue(x, how);
  const int32_t type = get_type(x->what.dtype);
  int status = lt->what_create(out, get_compute_type(&x->what),
                               get_scale_type(&x->what));
  if (status != BLASLT_OK) return status;
  status = lt->what_set(*out, BLASLT_TRANSA, &a, sizeof a);
  if (status == BLASLT_OK)
    status = lt->what_set(*out, BLASLT_TRANSB, &b, sizeof b);
  if (status == BLASLT_OK)
    status = lt->what_set(*out, BLASLT_EPILOGUE, &epilogue, sizeof epilogue);
  if (status == BLASLT_OK && how->has_bias)
    status = lt->what_set(*out, BLASLT_BIAS_TYPE, &type, sizeof type);
  if (status == BLASLT_OK && how->has_bias)
    status = lt->what_set(*out, BLASLT_BIAS_POINTER, &bias, sizeof bias);
  if (status != BLASLT_OK) (void)lt->what_destroy(*out);
  return status;
}

static int is_empty(const tn_device_product *p) {
  return p->m == 0 || p->n == 0 || p->k == 0;
}

/* -------------------------------------------------------------------- plan */

/* One of a product's matrices, as cuBLASLt has it. */
typedef struct matrix {
  uint64_t rows;
  uint64_t columns;
  int64_t ld;
  int64_t step;
} matrix;

static int create_layout(const cuda_blaslt *lt, const tn_device_product *p,
                         matrix of, blaslt_layout *out) {
  const int32_t count = (int32_t)p->count;
  int status =
      lt->layout_create(out, get_type(p->dtype), of.rows, of.columns, of.ld);
  if (status == BLASLT_OK && count > 1)
    status = lt->layout_set(*out, BLASLT_BATCH_COUNT, &count, sizeof count);
  if (status == BLASLT_OK && count > 1)
    status = lt->layout_set(*out, BLASLT_BATCH_STEP, &of.step, sizeof of.step);
  return status;
}

static int create_layouts(const cuda_blaslt *lt, plan *x) {
  const tn_device_product *p = &x->what;
  const uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
  const uint64_t a = p->transpose_b ? k : n, b = p->transpose_a ? m : k;
  int status =
      create_layout(lt, p, (matrix){a, n + k - a, p->ldb, p->step_b}, &x->a);
  if (status == BLASLT_OK)
    status =
        create_layout(lt, p, (matrix){b, m + k - b, p->lda, p->step_a}, &x->b);
  if (status == BLASLT_OK)
    status = create_layout(lt, p, (matrix){n, m, p->ldc, p->step_c}, &x->c);
  return status;
}

/* Preferences for operands with addresses that are multiples of `align`.
 * Without the mask, cuBLASLt would store partial sums in the type of the
 * elements. */
static int create_preference(const cuda_blaslt *lt, tn_dtype dtype,
                             uint32_t align, blaslt_wish *out) {
  const uint64_t most = MOST_WORKSPACE;
  const uint32_t sums = BLASLT_SUMS_COMPUTE_TYPE;
  int status = lt->wish_create(out);
  if (status != BLASLT_OK) return status;
  status = lt->wish_set(*out, BLASLT_MOST_WORKSPACE, &most, sizeof most);
  for (int which = BLASLT_ALIGN_A; which <= BLASLT_ALIGN_D; ++which)
    if (status == BLASLT_OK)
      status = lt->wish_set(*out, which, &align, sizeof align);
  if (status == BLASLT_OK && (dtype == TN_F16 || dtype == TN_BF16))
    status = lt->wish_set(*out, BLASLT_SUMS_OF_PARTS, &sums, sizeof sums);
  if (status != BLASLT_OK) (void)lt->wish_destroy(*out);
  return status;
}

/* cuBLASLt derives the alignment of the bias from its address, and does not
 * read it. So any address with that alignment is right, except NULL, which has
 * every alignment. */
static int find_algorithm(const cuda_blaslt *lt, const plan *x, uint32_t align,
                          algorithm *how) {
  const void *bias = (const void *)(uintptr_t)align;
  blaslt_what what = NULL;
  blaslt_wish wish = NULL;
  int n = 0;
  int status = create_description(lt, x, how, bias, &what);
  if (status != BLASLT_OK) return status;
  status = create_preference(lt, x->what.dtype, align, &wish);
  if (status == BLASLT_OK) {
    status = lt->choose(x->device->blaslt, what, x->a, x->b, x->c, x->c, wish,
                        1, &how->found, &n);
    (void)lt->wish_destroy(wish);
  }
  (void)lt->what_destroy(what);
  if (status == BLASLT_OK && n == 0) status = BLASLT_NOT_SUPPORTED;
  return status == BLASLT_OK ? how->found.state : status;
}

/* If cuBLASLt has no epilogue for a bias, c begins as the bias. */
static void choose_algorithm(const cuda_blaslt *lt, const plan *x,
                             uint32_t align, algorithm *how) {
  how->has_bias = (x->what.flags & TN_PRODUCT_BIAS) != 0;
  how->beta = x->what.beta;
  how->status = find_algorithm(lt, x, align, how);
  if (how->status == BLASLT_OK || !how->has_bias || !cuda_sum) return;
  how->has_bias = 0;
  how->beta = 1;
  how->status = find_algorithm(lt, x, align, how);
}

/* An algorithm for any address is also right for aligned operands. */
static int choose_algorithms(const cuda_blaslt *lt, plan *x) {
  choose_algorithm(lt, x, ALIGNED, &x->ways[0]);
  choose_algorithm(lt, x, (uint32_t)tn_dtype_bytes(x->what.dtype), &x->ways[1]);
  if (x->ways[0].status != BLASLT_OK) x->ways[0] = x->ways[1];
  return x->ways[0].status;
}

/* The handle of cuBLASLt for a device that is current. */
static int open_handle(const cuda_blaslt *lt, cuda_device *device) {
  int status = BLASLT_OK;
  (void)pthread_mutex_lock(&device->lock);
  if (!device->blaslt) status = lt->create(&device->blaslt);
  (void)pthread_mutex_unlock(&device->lock);
  return status;
}

static void release_plan(const tn_device_blas *blas, void *given) {
  const cuda_instance *instance = blas->data;
  plan *x = given;
  if (!x) return;
  if (x->a) (void)instance->blaslt->layout_destroy(x->a);
  if (x->b) (void)instance->blaslt->layout_destroy(x->b);
  if (x->c) (void)instance->blaslt->layout_destroy(x->c);
  free(x);
}

static int32_t fill_plan(const tn_frame *call, const cuda_blaslt *lt, plan *x) {
  const int32_t code = enter_device(call, x->device);
  if (code != TN_OK) return code;
  int status = open_handle(lt, x->device);
  if (status == BLASLT_OK && !is_empty(&x->what))
    status = create_layouts(lt, x);
  if (status == BLASLT_OK && !is_empty(&x->what))
    status = choose_algorithms(lt, x);
  cuda_leave(x->device);
  return status == BLASLT_OK
             ? TN_OK
             : report_failure(call, x->device, status, "planning a product");
}

static int32_t check_product(const tn_frame *call, const tn_device_product *p) {
  const uint32_t needs_sum = TN_PRODUCT_BIAS | TN_PRODUCT_SUMS;
  if (p->count > 1 && (p->flags & needs_sum))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "several products have neither a bias nor sums");
  if (p->count > INT32_MAX)
    return TN_FAIL(call, TN_UNSUPPORTED, "more than 2^31 - 1 products at once");
  if (p->dtype != TN_F16 && p->dtype != TN_BF16 && p->dtype != TN_F32 &&
      p->dtype != TN_F64)
    return TN_FAIL(call, TN_DTYPE,
                   "a matrix product is in f16, bf16, f32 or f64");
  if (!cuda_sum &&
      ((p->flags & TN_PRODUCT_SUMS) || (is_empty(p) && (p->flags & needs_sum))))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "sums of rows need kernels that are compiled by nvcc; this "
                   "cuda.so was built without");
  if ((p->flags & TN_PRODUCT_BIAS) && p->beta != 0 && p->beta != 1)
    return TN_FAIL(call, TN_UNSUPPORTED, "a bias goes with beta 0 or 1");
  if (p->k == 0 && p->beta != 0 && p->beta != 1)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "a product of nothing goes with beta 0 or 1");
  if (p->k == 0 && (p->flags & TN_PRODUCT_RELU))
    return TN_FAIL(call, TN_UNSUPPORTED, "a product of nothing has no relu");
  return TN_OK;
}

/* Fills in the fields that the caller's struct does not have. */
static tn_device_product complete_product(const tn_device_product *given) {
  tn_device_product what = {0};
  memcpy(&what, given,
         given->struct_size < sizeof what ? given->struct_size : sizeof what);
  if (what.count == 0) what.count = 1;
  return what;
}

static int32_t plan_product(const tn_device_blas *blas, const tn_frame *call,
                            const tn_device_product *product, void **out,
                            uint64_t *ws_bytes) {
  cuda_instance *instance = blas->data;
  *out = NULL;
  *ws_bytes = 0;
  const tn_device_product what = complete_product(product);
  int32_t code = check_product(call, &what);
  if (code != TN_OK) return code;
  plan *x = calloc(1, sizeof *x);
  if (!x)
    return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for a plan of a product");
  x->what = what;
  x->device = &instance->devices[call->run->device_id];
  code = fill_plan(call, instance->blaslt, x);
  if (code != TN_OK) {
    release_plan(blas, x);
    return code;
  }
  for (int i = 0; i < N_WAYS; ++i)
    if (x->ways[i].found.workspace > *ws_bytes)
      *ws_bytes = x->ways[i].found.workspace;
  *out = x;
  return TN_OK;
}

/* ---------------------------------------------------------------- multiply */

/* Every row of c becomes the bias, or grows by it where beta is 1. */
static int start_from(const plan *x, const tn_frame *call, void *c,
                      const void *bias) {
  const tn_sum_axis axes[] = {{x->what.m, x->what.ldc, 0}, {x->what.n, 1, 1}};
  const tn_device_sum sum = {.struct_size = sizeof sum,
                             .flags = x->what.beta != 0 ? TN_SUM_ADD : 0,
                             .dtype = x->what.dtype,
                             .n_kept = 2,
                             .axes = axes,
                             .to = c,
                             .from = bias};
  return cuda_sum(call->run->stream, &sum);
}

/* The sum of every row of op(a). */
static int sum_rows(const plan *x, const tn_frame *call,
                    const tn_device_operands *o) {
  const tn_device_product *p = &x->what;
  const int64_t down = p->transpose_a ? 1 : p->lda;
  const int64_t along = p->transpose_a ? p->lda : 1;
  const tn_sum_axis axes[] = {{p->m, 1, down}, {p->k, 0, along}};
  const tn_device_sum sum = {
      .struct_size = sizeof sum,
      .flags = p->flags & TN_PRODUCT_SUMS_ADD ? TN_SUM_ADD : 0,
      .dtype = p->dtype,
      .n_kept = 1,
      .n_summed = p->k > 0,
      .axes = axes,
      .to = o->sums,
      .from = p->k > 0 ? o->a : NULL};
  if (p->m == 0 || (p->k == 0 && sum.flags)) return CUDA_OK;
  return cuda_sum(call->run->stream, &sum);
}

/* Writes zeros to c, in as few pieces as its layout allows. */
static int clear_result(const plan *x, const tn_frame *call, char *c) {
  const tn_device_product *p = &x->what;
  const cuda_driver *driver = &x->device->instance->driver;
  const int64_t width = tn_dtype_bytes(p->dtype);
  const int dense = p->ldc == p->n;
  const int one = dense && (p->count == 1 || p->step_c == p->m * p->n);
  const int64_t n = (one ? p->count : 1) * (dense ? p->m : 1) * p->n;
  int result = CUDA_OK;
  for (int64_t i = 0; i < (one ? 1 : p->count); ++i)
    for (int64_t k = 0; k < (dense ? 1 : p->m) && result == CUDA_OK; ++k)
      result = driver->fill(
          (cuda_address)(uintptr_t)(c + (i * p->step_c + k * p->ldc) * width),
          0, (uint64_t)(n * width), call->run->stream);
  return result;
}

/* A product with no terms: c keeps its start value. */
static int multiply_empty(const plan *x, const tn_frame *call,
                          const tn_device_operands *o) {
  const tn_device_product *p = &x->what;
  if (p->m == 0 || p->n == 0) return CUDA_OK;
  if (p->flags & TN_PRODUCT_BIAS) return start_from(x, call, o->c, o->bias);
  return p->beta == 1 ? CUDA_OK : clear_result(x, call, o->c);
}

static int is_aligned(const plan *x, const tn_device_operands *o) {
  const tn_device_product *p = &x->what;
  const uint64_t steps =
      p->count > 1 ? (uint64_t)(p->step_a | p->step_b | p->step_c) : 0;
  return (((uintptr_t)o->a | (uintptr_t)o->b | (uintptr_t)o->c |
           (uintptr_t)o->bias | steps * (uint64_t)tn_dtype_bytes(p->dtype)) &
          (ALIGNED - 1)) == 0;
}

static int multiply_full(const cuda_blaslt *lt, const plan *x,
                         const algorithm *how, const tn_frame *call,
                         const tn_device_operands *o) {
  const blaslt_found *found = &how->found;
  const float alpha = (float)x->what.alpha, beta = (float)how->beta;
  const int wide = x->what.dtype == TN_F64;
  blaslt_what what = NULL;
  int status = create_description(lt, x, how, o->bias, &what);
  if (status != BLASLT_OK) return status;
  status = lt->multiply(
      x->device->blaslt, what, wide ? (const void *)&x->what.alpha : &alpha,
      o->b, x->a, o->a, x->b, wide ? (const void *)&how->beta : &beta, o->c,
      x->c, o->c, x->c, &found->algo, o->ws, found->workspace,
      call->run->stream);
  (void)lt->what_destroy(what);
  return status;
}

/* The device is current. */
static int32_t run_plan(const plan *x, const tn_frame *call,
                        const tn_device_operands *o) {
  const cuda_blaslt *lt = x->device->instance->blaslt;
  const algorithm *how = &x->ways[is_aligned(x, o) ? 0 : 1];
  const int begins = (x->what.flags & TN_PRODUCT_BIAS) && !how->has_bias;
  int result = CUDA_OK;
  if (how->status != BLASLT_OK)
    return report_failure(call, x->device, how->status,
                          "a matrix product of operands at such addresses");
  if (x->what.flags & TN_PRODUCT_SUMS) result = sum_rows(x, call, o);
  if (result == CUDA_OK && is_empty(&x->what))
    result = multiply_empty(x, call, o);
  else if (result == CUDA_OK && begins)
    result = start_from(x, call, o->c, o->bias);
  if (result != CUDA_OK || is_empty(&x->what))
    return check_result(call, x->device, result);
  const int status = multiply_full(lt, x, how, call, o);
  return status == BLASLT_OK
             ? TN_OK
             : report_failure(call, x->device, status, "a matrix product");
}

static int32_t run_product(const tn_device_blas *blas, const tn_frame *call,
                           const void *given, const tn_device_operands *o) {
  const plan *x = given;
  (void)blas;
  int32_t code = enter_device(call, x->device);
  if (code != TN_OK) return code;
  code = run_plan(x, call, o);
  cuda_leave(x->device);
  return code;
}

/* ---------------------------------------------------------- open and close */

int cuda_products_open(cuda_instance *instance, char why[240]) {
  instance->blaslt = calloc(1, sizeof *instance->blaslt);
  if (!instance->blaslt) {
    (void)snprintf(why, 240, "no memory");
    return 0;
  }
  if (!cuda_blaslt_open(instance->blaslt, instance->driver.version, why)) {
    free(instance->blaslt);
    instance->blaslt = NULL;
    return 0;
  }
  instance->products = (tn_device_blas){.struct_size = sizeof(tn_device_blas),
                                        .device_type = TN_DEVICE_CUDA,
                                        .data = instance,
                                        .name = instance->blaslt->name,
                                        .plan = plan_product,
                                        .multiply = run_product,
                                        .release = release_plan};
  return 1;
}

void cuda_products_close(cuda_instance *instance) {
  if (!instance->blaslt) return;
  for (int32_t id = 0; id < instance->n_devices; ++id) {
    cuda_device *device = &instance->devices[id];
    tn_device_error error = {.struct_size = sizeof error};
    if (!device->blaslt || cuda_enter(device, &error) != TN_OK) continue;
    (void)instance->blaslt->destroy(device->blaslt);
    cuda_leave(device);
  }
  cuda_blaslt_close(instance->blaslt);
  free(instance->blaslt);
}
