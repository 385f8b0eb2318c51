/* SPDX-License-Identifier: Apache-2.0
 * choose.cu: operators over several arrays of one shape, on CUDA devices.
 */
#include "choose.gen.h"
#include "move.h"
#include "tensor.cuh"

/* Calls `run` with a value of the type in which elements of a dtype are
 * computed: integers and bool in i64, f64 in itself, other floats in f32. */
template <class Run>
static int32_t by_compute(tn_dtype dtype, Run run) {
  if (tensor_wide_dtype(dtype) == TN_I64) return run(int64_t());
  return tn_cuda_by_compute(dtype, run);
}

/* ------------------------------------------------------------------- where */

/* YES or NO without data are zeros. */
enum { CHOSEN, CONDITION, YES, NO, N_CHOICE };
typedef tn_cuda_arrays<N_CHOICE> tensor_choice;

template <class C, class Index>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_choose(tensor_choice a, tensor_steps<N_CHOICE> s) {
  for (Index i = tensor_first<Index>(); i < (Index)s.n;
       i += tensor_stride<Index>()) {
    int64_t at[N_CHOICE];
    tensor_find(s, i, at);
    const bool is_yes =
        tn_cuda_read<double>(a.at[CONDITION], at[CONDITION]) != 0;
    void *from = is_yes ? a.at[YES].data : a.at[NO].data;
    C value = 0;
    const tn_cuda_reader<C> reader = {&value};
    if (from != NULL)
      tn_cuda_visit(from, a.at[CHOSEN].dtype, is_yes ? at[YES] : at[NO],
                    reader);
    tn_cuda_write(a.at[CHOSEN], at[CHOSEN], value);
  }
}

/* Output i: of one input, of the other, or of both; NULL means zeros. */
static int32_t choose(const tn_frame *call, uint32_t i,
                      const tn_tensor *condition, const tn_tensor *yes,
                      const tn_tensor *no) {
  const tn_tensor *out = &call->out[i];
  tn_kernel_walk walk;
  tensor_view rows;
  tensor_choice a = {};
  if (call->req[i] == TN_REQ_NULL || tn_tensor_size(out) == 0) return TN_OK;
  tensor_view_init(&rows, condition);
  while (rows.tensor.ndim < out->ndim)
    tensor_view_insert(&rows, rows.tensor.ndim, 1, 0);
  tn_kernel_walk_init(&walk, out);
  const int fits = tn_kernel_walk_add(&walk, &rows.tensor) &&
                   tn_kernel_walk_add(&walk, yes ? yes : out) &&
                   tn_kernel_walk_add(&walk, no ? no : out);
  if (!fits) return TN_FAIL(call, TN_INTERNAL, "arrays of different shapes");
  tn_kernel_walk_begin(&walk);
  const tensor_steps<N_CHOICE> s = tensor_steps_of<N_CHOICE>(&walk);
  a.at[CHOSEN] = tn_cuda_to(out, call->req[i]);
  a.at[CONDITION] = tn_cuda_from(condition);
  if (yes) a.at[YES] = tn_cuda_from(yes);
  if (no) a.at[NO] = tn_cuda_from(no);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return by_compute(out->dtype, [&](auto type) {
      return tensor_by_count(s.n, [&](auto index) {
        return tn_cuda_start_each(
            call, tensor_choose<decltype(type), decltype(index)>, s.n, stream,
            a, s);
      });
    });
  });
}

int32_t tensor_where(const tn_frame *call) {
  return choose(call, 0, &call->in[TENSOR_WHERE_IN_CONDITION],
                &call->in[TENSOR_WHERE_IN_X], &call->in[TENSOR_WHERE_IN_Y]);
}

int32_t tensor_where_backward(const tn_frame *call) {
  const tn_tensor *condition = &call->in[TENSOR_WHERE_BACKWARD_IN_CONDITION];
  const tn_tensor *grad = &call->in[0];
  const int32_t code = choose(call, TENSOR_WHERE_IN_X, condition, grad, NULL);
  return code == TN_OK ? choose(call, TENSOR_WHERE_IN_Y, condition, NULL, grad)
                       : code;
}

/* ------------------------------------------------------------------- add_n */

/* Adds up a few arrays per launch; the workspace holds the partial sums. */
enum { SUM, ROOM, FIRST, SOME = 8, N_TERMS = FIRST + SOME };
typedef tn_cuda_arrays<N_TERMS> tensor_terms;

struct tensor_adding {
  int64_t n;       /* elements */
  int32_t n_terms; /* number of inputs that this launch adds */
  int16_t begins;
  int16_t ends;
};

template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_add_some(tensor_terms a, tensor_adding v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    C sum = v.begins ? (C)0 : ((const C *)a.at[ROOM].data)[i];
#pragma unroll
    for (int k = 0; k < SOME; ++k) {
      if (k >= v.n_terms) break;
      const C term = tn_cuda_read<C>(a.at[FIRST + k], i);
      sum = v.begins && k == 0 ? term : tn_cuda_sum(sum, term);
    }
    if (v.ends)
      tn_cuda_write(a.at[SUM], i, sum);
    else
      ((C *)a.at[ROOM].data)[i] = sum;
  }
}

int32_t tensor_add_n_bytes(const tn_frame *call, uint64_t *bytes) {
  const int all = (call->flags & TN_CALL_BACKWARD) || call->n_in <= SOME;
  *bytes = all ? 0 : 8 * (uint64_t)tn_tensor_size(&call->out[0]);
  return TN_OK;
}

/* Output i is the sum of the first n inputs. */
static int32_t add(const tn_frame *call, uint32_t i, uint32_t n,
                   cudaStream_t stream) {
  const tn_tensor *out = &call->out[i];
  int32_t code = TN_OK;
  tensor_adding v = {tn_tensor_size(out), 0, 0, 0};
  for (uint32_t k = 0; k < n && code == TN_OK; k += SOME) {
    tensor_terms a = {};
    v.n_terms = (int32_t)(n - k < SOME ? n - k : (uint32_t)SOME);
    v.begins = k == 0;
    v.ends = k + SOME >= n;
    if (n > SOME) a.at[ROOM] = tn_cuda_room(call->ws[0], TN_F64, v.n);
    if (v.ends) a.at[SUM] = tn_cuda_to(out, call->req[i]);
    for (int32_t j = 0; j < v.n_terms; ++j)
      a.at[FIRST + j] = tn_cuda_from(&call->in[k + (uint32_t)j]);
    code = by_compute(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, tensor_add_some<decltype(type)>, v.n,
                                stream, a, v);
    });
  }
  return code;
}

int32_t tensor_add_n(const tn_frame *call) {
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return add(call, 0, call->n_in, stream);
  });
}

/* Every input gets the output gradient: a sum of one term. */
int32_t tensor_add_n_backward(const tn_frame *call) {
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    int32_t code = TN_OK;
    for (uint32_t i = 0; i < call->n_out && code == TN_OK; ++i)
      if (call->req[i] != TN_REQ_NULL) code = add(call, i, 1, stream);
    return code;
  });
}
