/* SPDX-License-Identifier: Apache-2.0
 * dot.c: products of matrices, one or many, and their gradients, which are
 * products too. A dot of any dimensions is one product of matrices: the kernel
 * flattens the dimensions that are not summed.
 */
#include "dot.gen.h"
#include "products.h"
#include "tenon/kernel/product.h"
#include "tensor.h"

/* ------------------------------------------------------------------ shapes */

enum { LHS, RHS, OUT };

/* A partly known shape; -1 is unknown. */
typedef struct inferred_shape {
  int32_t ndim;
  int64_t dims[TN_MAX_NDIM];
} inferred_shape;

static inferred_shape read_shape(const tn_tensor *tensor) {
  inferred_shape g = {.ndim = tensor->ndim};
  for (int32_t i = 0; i < tensor->ndim; ++i) g.dims[i] = tensor->shape[i];
  return g;
}

/* Unifies two dimensions that must be equal. If they contradict each other, the
 * first one wins, and the host reports the conflict with the second. */
static void merge_dims(int64_t *a, int64_t *b) {
  if (*a < 0) *a = *b;
  *b = *a;
}

static int32_t set_shapes(const tn_frame *call, inferred_shape *g) {
  int32_t code = TN_OK;
  for (uint32_t i = 0; i < 3 && code == TN_OK; ++i)
    code =
        call->host->set_shape(call, i == OUT ? TN_OPERAND_OUT : TN_OPERAND_IN,
                              i == OUT ? 0 : i, g[i].ndim, g[i].dims);
  return code;
}

/* Unifies the dimensions of the sum. */
static int32_t merge_depth(const tn_frame *call, int64_t *a, int64_t *b) {
  if (*a < 0 || *b < 0 || *a == *b) {
    merge_dims(a, b);
    return TN_OK;
  }
  return TN_FAIL(call, TN_SHAPE,
                 "the dimension of `lhs` that is summed over has length %lld, "
                 "that of `rhs` %lld: they must be equal (see transpose_a and "
                 "transpose_b)",
                 (long long)*a, (long long)*b);
}

int32_t tensor_dot_infer(const tn_frame *call) {
  const tensor_dot_params *p = tensor_dot_params_of(call);
  inferred_shape g[3] = {read_shape(&call->in[0]), read_shape(&call->in[1]),
                         read_shape(&call->out[0])};
  for (int i = 0; i < 2; ++i)
    if (g[i].ndim == 0)
      return TN_FAIL(call, TN_SHAPE,
                     "`%s` has no dimensions: a product takes one at least",
                     i == LHS ? "lhs" : "rhs");
  if (g[LHS].ndim < 0 || g[RHS].ndim < 0) return TN_OK;
  const int32_t rows = g[LHS].ndim - 1, columns = g[RHS].ndim - 1;
  if (rows + columns > TN_MAX_NDIM)
    return TN_FAIL(call, TN_SHAPE, "the product would have %d dimensions",
                   (int)(rows + columns));
  const int32_t code =
      merge_depth(call, &g[LHS].dims[p->transpose_a ? 0 : rows],
                  &g[RHS].dims[p->transpose_b ? columns : 0]);
  if (code != TN_OK) return code;
  for (int32_t i = 0; g[OUT].ndim != rows + columns && i < rows + columns; ++i)
    g[OUT].dims[i] = -1;
  g[OUT].ndim = rows + columns;
  for (int32_t i = 0; i < rows; ++i)
    merge_dims(&g[LHS].dims[p->transpose_a ? i + 1 : i], &g[OUT].dims[i]);
  for (int32_t i = 0; i < columns; ++i)
    merge_dims(&g[RHS].dims[p->transpose_b ? i : i + 1],
               &g[OUT].dims[rows + i]);
  return set_shapes(call, g);
}

/* Copies the rank of the first operand that has one to the others. */
static int32_t copy_rank(const tn_frame *call, inferred_shape *g) {
  int32_t ndim = -1;
  for (int i = 0; i < 3; ++i)
    if (ndim < 0) ndim = g[i].ndim;
  for (int i = 0; i < 3 && ndim >= 0; ++i) {
    for (int32_t d = 0; g[i].ndim < 0 && d < ndim; ++d) g[i].dims[d] = -1;
    if (g[i].ndim < 0) g[i].ndim = ndim;
    if (g[i].ndim != ndim || ndim < 2)
      return TN_FAIL(call, TN_SHAPE,
                     "`%s` has %d dimensions: `lhs`, `rhs` and `out` have "
                     "equally many, the last two being matrices",
                     i == LHS   ? "lhs"
                     : i == RHS ? "rhs"
                                : "out",
                     (int)g[i].ndim);
  }
  return TN_OK;
}

int32_t tensor_batch_dot_infer(const tn_frame *call) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(call);
  inferred_shape g[3] = {read_shape(&call->in[0]), read_shape(&call->in[1]),
                         read_shape(&call->out[0])};
  int32_t code = copy_rank(call, g);
  if (code != TN_OK || g[LHS].ndim < 0) return code;
  const int32_t last = g[LHS].ndim - 1, row = last - 1;
  const int a = p->transpose_a != 0, b = p->transpose_b != 0;
  code = merge_depth(call, &g[LHS].dims[a ? row : last],
                     &g[RHS].dims[b ? last : row]);
  if (code != TN_OK) return code;
  merge_dims(&g[LHS].dims[a ? last : row], &g[OUT].dims[row]);
  merge_dims(&g[RHS].dims[b ? row : last], &g[OUT].dims[last]);
  for (int32_t i = 0; i < row; ++i) {
    merge_dims(&g[LHS].dims[i], &g[RHS].dims[i]);
    merge_dims(&g[LHS].dims[i], &g[OUT].dims[i]);
    merge_dims(&g[LHS].dims[i], &g[RHS].dims[i]);
  }
  return set_shapes(call, g);
}

/* ---------------------------------------------------------------- products */

/* out = op(lhs) * op(rhs), `count` times: op(lhs) is m x k, op(rhs) k x n. */
typedef struct product_shape {
  int64_t count;
  int64_t m;
  int64_t n;
  int64_t k;
  uint32_t a; /* 1: lhs is transposed */
  uint32_t b;
} product_shape;

static int64_t multiply_dims(const int64_t *dims, int32_t n) {
  int64_t size = 1;
  for (int32_t i = 0; i < n; ++i) size *= dims[i];
  return size;
}

static product_shape find_dot_shape(const tn_frame *call, const tn_tensor *lhs,
                                    const tn_tensor *rhs) {
  const tensor_dot_params *p = tensor_dot_params_of(call);
  const int32_t rows = lhs->ndim - 1, columns = rhs->ndim - 1;
  return (product_shape){
      .count = 1,
      .m = multiply_dims(lhs->shape + (p->transpose_a ? 1 : 0), rows),
      .n = multiply_dims(rhs->shape + (p->transpose_b ? 0 : 1), columns),
      .k = lhs->shape[p->transpose_a ? 0 : rows],
      .a = p->transpose_a != 0,
      .b = p->transpose_b != 0};
}

static product_shape find_batch_shape(const tn_frame *call,
                                      const tn_tensor *lhs,
                                      const tn_tensor *rhs) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(call);
  const int32_t last = lhs->ndim - 1;
  return (product_shape){.count = multiply_dims(lhs->shape, last - 1),
                         .m = lhs->shape[p->transpose_a ? last : last - 1],
                         .n = rhs->shape[p->transpose_b ? last - 1 : last],
                         .k = lhs->shape[p->transpose_a ? last - 1 : last],
                         .a = p->transpose_a != 0,
                         .b = p->transpose_b != 0};
}

typedef product_shape extent_fn(const tn_frame *call, const tn_tensor *lhs,
                                const tn_tensor *rhs);

static double count_products(const tn_blas_gemm *g) {
  return (double)g->m * (double)g->n * (double)g->k;
}

/* Computes product i. Operands without elements may have no address. */
static int32_t run_product(const tensor_products *p, int64_t i) {
  const int64_t bytes = tn_dtype_bytes(p->one.dtype);
  tn_blas_gemm g = p->one;
  if (g.a != NULL) g.a = (const char *)g.a + i * p->next_a * bytes;
  if (g.b != NULL) g.b = (const char *)g.b + i * p->next_b * bytes;
  if (g.c != NULL) g.c = (char *)g.c + i * p->next_c * bytes;
  return tn_product_by(p->blas, p->call, &g);
}

static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  int32_t code = TN_OK;
  for (int64_t i = begin; i < end && code == TN_OK; ++i)
    code = run_product((const tensor_products *)arg, i);
  return code;
}

/* Workers get many small products at a time. Large ones are parallel themselves
 * and may report failures of their own, which is not allowed in a slice. */
int32_t tensor_multiply_all(const tensor_products *p) {
  const double large = 1 << 25, work = count_products(&p->one) + 1;
  void *arg = (void *)(uintptr_t)p; /* only read */
  if (p->count == 1 || work > large) return run_slice(arg, 0, p->count);
  const double grain = 2 * (double)TN_PRODUCT_SMALL / work;
  return p->call->host->parallel_for(
      p->call, p->count, grain < 1 ? 1 : (int64_t)grain, run_slice, arg);
}

/* ----------------------------------------------------------- half operands */

/* A call, and the type to compute in. Operands of another type are converted
 * into the part of the workspace that starts at `workspace`. */
typedef struct context {
  const tn_frame *call;
  const tn_blas *blas;
  tn_kernel_mode mode;
  char *workspace;
} context;

static uint64_t count_widened_bytes(const tn_tensor *tensor) {
  return ((uint64_t)tn_tensor_size(tensor) * sizeof(float) + 63) / 64 * 64;
}

int32_t tensor_dot_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 64;
  for (uint32_t i = 0; i < call->n_in; ++i)
    if (!(call->in_flags[i] & TN_IN_ABSENT))
      *bytes += count_widened_bytes(&call->in[i]);
  for (uint32_t i = 0; i < call->n_out; ++i)
    if (call->req[i] != TN_REQ_NULL)
      *bytes += count_widened_bytes(&call->out[i]);
  return TN_OK;
}

static void *open_in(context *x, const tn_tensor *in) {
  if (in->dtype == x->mode.compute || !in->data) return in->data;
  void *wide = x->workspace;
  x->workspace += count_widened_bytes(in);
  tn_kernel_load_dense(wide, &x->mode, in->data, in->dtype, tn_tensor_size(in));
  return wide;
}

static void *open_out(context *x, const tn_tensor *out) {
  void *wide = x->workspace;
  if (out->dtype == x->mode.compute) return out->data;
  x->workspace += count_widened_bytes(out);
  return wide;
}

/* Rounds a result of the workspace into the output, or adds it if requested. */
static void close_out(const context *x, uint32_t i, float *from) {
  const tn_tensor *out = &x->call->out[i];
  const int64_t size = tn_tensor_size(out);
  float old[TN_KERNEL_STAGE];
  if (out->dtype == x->mode.compute) return;
  for (int64_t at = 0; at < size; at += TN_KERNEL_STAGE) {
    const int64_t left = size - at;
    const int64_t n = left < TN_KERNEL_STAGE ? left : TN_KERNEL_STAGE;
    uint16_t *to = (uint16_t *)out->data + at;
    if (x->call->req[i] == TN_REQ_ADD) {
      tn_kernel_load_dense(old, &x->mode, to, out->dtype, n);
      tn_kernel_add_dense(from + at, old, &x->mode, n);
    }
    tn_kernel_store_dense(to, out->dtype, from + at, &x->mode, n);
  }
}

/* ------------------------------------------------------------------- calls */

static context make_context(const tn_frame *call, const tn_blas *blas) {
  return (context){
      .call = call,
      .blas = blas,
      .mode = {tn_kernel_compute(call->in[0].dtype), tn_kernel_level(call)},
      .workspace = call->n_ws > 0 ? call->ws[0] : NULL};
}

/* Computes output i as product `one`, with the address of the output. */
static int32_t multiply_one(context *x, uint32_t i, int64_t count,
                            const tn_blas_gemm *one) {
  const tn_tensor *out = &x->call->out[i];
  tensor_products p = {.call = x->call,
                       .blas = x->blas,
                       .one = *one,
                       .count = count,
                       .next_a = one->m * one->k,
                       .next_b = one->k * one->n,
                       .next_c = one->m * one->n};
  const int adds =
      x->call->req[i] == TN_REQ_ADD && out->dtype == x->mode.compute;
  p.one.struct_size = sizeof p.one;
  p.one.dtype = x->mode.compute;
  p.one.alpha = 1;
  p.one.beta = adds;
  p.one.c = open_out(x, out);
  if (tn_tensor_size(out) == 0) return TN_OK;
  const int32_t code = tensor_multiply_all(&p);
  if (code == TN_OK) close_out(x, i, p.one.c);
  return code;
}

static int32_t run_forward(const tn_frame *call, extent_fn *extent_of,
                           const tn_blas *blas) {
  context x = make_context(call, blas);
  const product_shape e = extent_of(call, &call->in[LHS], &call->in[RHS]);
  const tn_blas_gemm g = {.transpose_a = e.a,
                          .transpose_b = e.b,
                          .m = e.m,
                          .n = e.n,
                          .k = e.k,
                          .a = open_in(&x, &call->in[LHS]),
                          .b = open_in(&x, &call->in[RHS]),
                          .lda = e.a ? e.m : e.k,
                          .ldb = e.b ? e.k : e.n,
                          .ldc = e.n};
  return multiply_one(&x, 0, e.count, &g);
}

/* The gradient of lhs: grad * op(rhs)^T, or the transpose of that. */
static tn_blas_gemm compute_lhs_gradient(const product_shape *e,
                                         const void *grad, const void *rhs) {
  const int64_t ldb = e->b ? e->k : e->n;
  if (e->a)
    return (tn_blas_gemm){.transpose_a = e->b,
                          .transpose_b = 1,
                          .m = e->k,
                          .n = e->m,
                          .k = e->n,
                          .a = rhs,
                          .b = grad,
                          .lda = ldb,
                          .ldb = e->n,
                          .ldc = e->m};
  return (tn_blas_gemm){.transpose_b = !e->b,
                        .m = e->m,
                        .n = e->k,
                        .k = e->n,
                        .a = grad,
                        .b = rhs,
                        .lda = e->n,
                        .ldb = ldb,
                        .ldc = e->k};
}

/* The gradient of rhs: op(lhs)^T * grad, or the transpose of that. */
static tn_blas_gemm compute_rhs_gradient(const product_shape *e,
                                         const void *grad, const void *lhs) {
  const int64_t lda = e->a ? e->m : e->k;
  if (e->b)
    return (tn_blas_gemm){.transpose_a = 1,
                          .transpose_b = e->a,
                          .m = e->n,
                          .n = e->k,
                          .k = e->m,
                          .a = grad,
                          .b = lhs,
                          .lda = e->n,
                          .ldb = lda,
                          .ldc = e->k};
  return (tn_blas_gemm){.transpose_a = !e->a,
                        .m = e->k,
                        .n = e->n,
                        .k = e->m,
                        .a = lhs,
                        .b = grad,
                        .lda = lda,
                        .ldb = e->n,
                        .ldc = e->n};
}

/* in: the gradient of out, then lhs and rhs. An unused input has no data and
 * may have no shape; the gradients then have it. The gradient of lhs is the
 * last one: it may be in the memory of lhs. */
static int32_t run_backward(const tn_frame *call, extent_fn *extent_of,
                            const tn_blas *blas) {
  context x = make_context(call, blas);
  const tn_tensor *lhs = &call->in[1 + LHS], *rhs = &call->in[1 + RHS];
  const product_shape e = extent_of(call, lhs->ndim < 0 ? &call->out[LHS] : lhs,
                                    rhs->ndim < 0 ? &call->out[RHS] : rhs);
  const void *grad = open_in(&x, &call->in[0]);
  int32_t code = TN_OK;
  if (call->req[RHS] != TN_REQ_NULL) {
    const tn_blas_gemm g = compute_rhs_gradient(&e, grad, open_in(&x, lhs));
    code = multiply_one(&x, RHS, e.count, &g);
  }
  if (call->req[LHS] != TN_REQ_NULL && code == TN_OK) {
    const tn_blas_gemm g = compute_lhs_gradient(&e, grad, open_in(&x, rhs));
    code = multiply_one(&x, LHS, e.count, &g);
  }
  return code;
}

static const tn_blas *get_blas(const tn_frame *call) {
  return ((const tensor_instance *)call->instance)->blas;
}

/* The three kernels of an operator. */
#define KERNELS(name, extent_of)                                 \
  int32_t tensor_##name##_blas(const tn_frame *call) {           \
    return run_forward(call, extent_of, get_blas(call));         \
  }                                                              \
  int32_t tensor_##name##_blas_backward(const tn_frame *call) {  \
    return run_backward(call, extent_of, get_blas(call));        \
  }                                                              \
  int32_t tensor_##name##_plain(const tn_frame *call) {          \
    return run_forward(call, extent_of, NULL);                   \
  }                                                              \
  int32_t tensor_##name##_plain_backward(const tn_frame *call) { \
    return run_backward(call, extent_of, NULL);                  \
  }                                                              \
  int32_t tensor_##name##_half(const tn_frame *call) {           \
    return run_forward(call, extent_of, get_blas(call));         \
  }                                                              \
  int32_t tensor_##name##_half_backward(const tn_frame *call) {  \
    return run_backward(call, extent_of, get_blas(call));        \
  }
KERNELS(dot, find_dot_shape)
KERNELS(batch_dot, find_batch_shape)
