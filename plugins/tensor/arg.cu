/* SPDX-License-Identifier: Apache-2.0
 * arg.cu: positions of the largest and least elements on CUDA devices. A
 * reduction; its records contain the positions of their elements.
 */
#include "arg.gen.h"
#include "reduce.cuh"

template <class C>
struct tensor_found {
  C value;
  int64_t place; /* in the line; -1: no element yet */
};

template <class C, bool Least>
struct tensor_where_best {
  typedef C element;
  typedef tensor_found<C> record;
  __device__ static record none() {
    return {0, -1};
  }
  __device__ static record of(C x, int64_t i) {
    return {x, i};
  }
  __device__ static bool is_better(C x, C than) {
    return than == than && (x != x || (Least ? x < than : x > than));
  }
  /* Returns the better of two records; of equal ones that with the lower
   * position, in any order of a and b. */
  __device__ static record both(record a, record b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    if (is_better(b.value, a.value)) return b;
    if (is_better(a.value, b.value)) return a;
    return a.place < b.place ? a : b;
  }
  __device__ static int64_t result(record x) {
    return x.place;
  }
};

/* Both operators have these params. */
static int32_t axes_of(const tn_frame *call, uint32_t *axes) {
  const tensor_argmax_params *p = tensor_argmax_params_of(call);
  return reduce_read_axis(call, p->has_axis ? &p->axis : NULL, call->in[0].ndim,
                          axes);
}

int32_t tensor_arg_bytes(const tn_frame *call, uint64_t *bytes) {
  uint32_t axes;
  *bytes = 0;
  const int32_t code = axes_of(call, &axes);
  if (code != TN_OK || tn_tensor_size(&call->in[0]) == 0) return code;
  const tensor_lines v = tensor_lines_of(&call->in[0], &call->out[0], axes, 1);
  if (v.pieces > 1)
    *bytes = sizeof(tensor_found<double>) * (uint64_t)(v.kept.n * v.pieces);
  return TN_OK;
}

template <bool Least>
static int32_t run(const tn_frame *call) {
  const tn_dtype dtype = call->in[0].dtype;
  reduce_run run = {};
  const int32_t code = axes_of(call, &run.axes);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  run.call = call;
  run.in = &call->in[0];
  run.out = &call->out[0];
  run.req = call->req[0];
  run.workspace = call->n_ws > 0 && call->ws_bytes[0] > 0 ? call->ws[0] : NULL;
  const tensor_lines v =
      tensor_lines_of(run.in, run.out, run.axes, run.workspace != NULL);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    if (dtype == TN_U64)
      return tensor_reduce_start<tensor_where_best<uint64_t, Least>,
                                 tensor_untyped>(&run, v, TENSOR_AS_IT_IS,
                                                 stream);
    if (tensor_wide_dtype(dtype) == TN_I64)
      return tensor_reduce_start<tensor_where_best<int64_t, Least>,
                                 tensor_untyped>(&run, v, TENSOR_AS_IT_IS,
                                                 stream);
    return tn_cuda_by_float(dtype, [&](auto type) {
      return tensor_reduce_start<tensor_where_best<double, Least>,
                                 tensor_typed<decltype(type)>>(
          &run, v, TENSOR_AS_IT_IS, stream);
    });
  });
}

int32_t tensor_argmax(const tn_frame *call) {
  return run<false>(call);
}

int32_t tensor_argmin(const tn_frame *call) {
  return run<true>(call);
}
