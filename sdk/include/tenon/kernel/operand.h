/* SPDX-License-Identifier: Apache-2.0
 * tenon/kernel/operand.h: checked access to the operands and the queue of a
 * call, for kernels that are written by hand. The host gives a kernel only the
 * types and layouts that its manifest declares; these functions find out where
 * the code and the manifest differ, before memory is read as another type.
 *
 *   tn_dense x = {.dtype = TN_F32, .ndim = 2, .shape = {-1, 64}};
 *   const int32_t code = tn_dense_open(call, &call->in[0], &x);
 *   if (code != TN_OK) return code;
 *   const float *row = (const float *)x.data;
 */
#ifndef TENON_KERNEL_OPERAND_H_
#define TENON_KERNEL_OPERAND_H_

#include "tenon/kernel/checked_size.h"
#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most dimensions of a tn_dense. */
#define TN_DENSE_MAX 4

/* A dense operand, seen with a number of dimensions that the kernel chooses. */
typedef struct tn_dense {
  tn_dtype dtype;              /* the type that the kernel reads */
  int32_t ndim;                /* 1 to TN_DENSE_MAX */
  int64_t shape[TN_DENSE_MAX]; /* wanted lengths, -1 for any; then the real
                                  ones */
  void *data;                  /* NULL if there are no elements */
} tn_dense;

/* The place of an operand in its call, for messages: its kind, and its number
 * among these. [worker] */
static inline const char *tn_operand_place(const tn_frame *call,
                                           const tn_tensor *t, int *number) {
  const tn_tensor *const lists[] = {call->in, call->out, call->aux};
  const uint32_t counts[] = {call->n_in, call->n_out, call->n_aux};
  static const char *const kinds[] = {"input", "output", "state"};
  for (int k = 0; k < 3; ++k)
    for (uint32_t i = 0; i < counts[k]; ++i)
      if (t == &lists[k][i]) {
        *number = (int)i;
        return kinds[k];
      }
  *number = 0;
  return "tensor";
}

/* Length `i` of the tensor seen with `ndim` dimensions: the first ones are
 * multiplied if it has more, and are 1 if it has fewer. -1 if 64 bits do not
 * hold the product. */
static inline int64_t tn_dense_length(const tn_tensor *t, int32_t ndim,
                                      int32_t i) {
  const int32_t extra = t->ndim - ndim;
  int64_t n = 1;
  if (i > 0 || extra <= 0) return i + extra < 0 ? 1 : t->shape[i + extra];
  for (int32_t d = 0; d <= extra && n >= 0; ++d)
    n = t->shape[d] == 0 ? 0 : tn_size_times(n, t->shape[d]);
  return n;
}

/* Opens the operand `t` of the call as `view`, whose dtype, ndim and wanted
 * lengths are set. A tensor with more dimensions has its first ones merged, one
 * with fewer gets ones in front. TN_OK, or a code after TN_FAIL: TN_DTYPE if it
 * has another type, TN_SHAPE if a length differs, TN_INVALID if it is absent or
 * not dense, or if view->ndim is out of range. [worker] */
static inline int32_t tn_dense_open(const tn_frame *call, const tn_tensor *t,
                                    tn_dense *view) {
  int number;
  const char *kind = tn_operand_place(call, t, &number);
  if (view->ndim < 1 || view->ndim > TN_DENSE_MAX)
    return TN_FAIL(call, TN_INVALID,
                   "a dense view of %d dimensions; it has 1 to %d",
                   (int)view->ndim, TN_DENSE_MAX);
  if (t->ndim < 0 || (t->ndim > 0 && !t->shape))
    return TN_FAIL(call, TN_INVALID, "%s %d is absent", kind, number);
  if (t->dtype != view->dtype)
    return TN_FAIL(call, TN_DTYPE,
                   "%s %d has the type 0x%x, and the kernel reads 0x%x", kind,
                   number, (unsigned)t->dtype, (unsigned)view->dtype);
  if (!tn_tensor_is_contiguous(t))
    return TN_FAIL(call, TN_INVALID,
                   "%s %d is not dense; declare `layout: contiguous` for it",
                   kind, number);
  for (int32_t i = 0; i < view->ndim; ++i) {
    const int64_t n = tn_dense_length(t, view->ndim, i);
    if (n < 0 || (view->shape[i] >= 0 && view->shape[i] != n))
      return TN_FAIL(call, TN_SHAPE,
                     "%s %d has the length %lld in place %d of %d, and the "
                     "kernel wants %lld",
                     kind, number, (long long)n, (int)i, (int)view->ndim,
                     (long long)view->shape[i]);
    view->shape[i] = n;
  }
  view->data = t->data;
  return TN_OK;
}

/* The queue of the call in *stream, if it is on a device of this type
 * (TN_DEVICE_*); on the CPU it is NULL. TN_OK, or TN_DEVICE after TN_FAIL if
 * the call is on another device. [worker] */
static inline int32_t tn_call_stream(const tn_frame *call, int32_t device_type,
                                     void **stream) {
  *stream = 0;
  if (call->run->device_type != device_type)
    return TN_FAIL(call, TN_DEVICE,
                   "the call is on a device of type %d, and this kernel is for "
                   "type %d; check `device` in its manifest",
                   (int)call->run->device_type, (int)device_type);
  *stream = call->run->stream;
  return TN_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_OPERAND_H_ */
