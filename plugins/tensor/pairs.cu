/* SPDX-License-Identifier: Apache-2.0
 * pairs.cu: products of all elements of a line except two, on CUDA devices.
 * Each thread computes a line.
 */
#include "second.gen.h"

#include "reduce.h"
#include "reduce_dual.h"
#include "tensor.cuh"

enum { OUT, HEAD, DATA, SLOPE, BEFORE, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_pair_arrays;

/* All operands are dense: an element of a line has the same position in
 * each. */
struct tensor_pair_view {
  tensor_steps<1> kept; /* lines */
  tensor_steps<1> gone; /* elements of each */
  int32_t skips_nan;
  int32_t reserved;
};

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_pairs(tensor_pair_arrays a, tensor_pair_view v) {
  for (int64_t line = tensor_first<int64_t>(); line < v.kept.n;
       line += tensor_stride<int64_t>()) {
    const double out_gradient = tn_cuda_read<double>(a.at[HEAD], line);
    reduce_dual *before = (reduce_dual *)a.at[BEFORE].data + line * v.gone.n;
    reduce_dual all = reduce_dual_make_one();
    int64_t first[1], at[1];
    tensor_find(v.kept, line, first);
    for (int64_t i = 0; i < v.gone.n; ++i) {
      tensor_find(v.gone, i, at);
      const double x = tn_cuda_read<double>(a.at[DATA], first[0] + at[0]);
      before[i] = all;
      if (v.skips_nan && x != x) continue;
      reduce_dual_multiply(&all, x,
                           tn_cuda_read<double>(a.at[SLOPE], first[0] + at[0]));
    }
    all = reduce_dual_make_one();
    for (int64_t i = v.gone.n; i-- > 0;) {
      tensor_find(v.gone, i, at);
      const int64_t place = first[0] + at[0];
      const double x = tn_cuda_read<double>(a.at[DATA], place);
      const bool is_none = v.skips_nan && x != x;
      tn_cuda_write(a.at[OUT], place,
                    is_none ? 0
                            : out_gradient *
                                  reduce_dual_get_product_part(before[i], all));
      if (is_none) continue;
      reduce_dual_multiply(&all, x, tn_cuda_read<double>(a.at[SLOPE], place));
    }
  }
}

static tensor_steps<1> steps_of(const reduce_view *view, int32_t first,
                                int32_t ndim) {
  tensor_steps<1> s;
  memset(&s, 0, sizeof s);
  s.n = s.shape[0] = 1;
  s.ndim = ndim > 0 ? ndim : 1;
  for (int32_t d = 0; d < ndim; ++d) {
    s.n *= s.shape[d] = view->shape[first + d];
    s.step[0][d] = view->strides[first + d];
  }
  return s;
}

int32_t tensor_prod_pairs(const tn_frame *call) {
  const tn_tensor *data = &call->in[1];
  const int64_t size = tn_tensor_size(data);
  reduce_view view;
  tensor_pair_arrays a = {};
  tensor_pair_view v = {};
  uint32_t axes;
  const int32_t code = reduce_read_axes(call, data->ndim, &axes);
  if (code != TN_OK || size == 0 || call->req[0] == TN_REQ_NULL) return code;
  reduce_view_init(&view, data, axes);
  v.kept = steps_of(&view, 0, view.kept);
  v.gone = steps_of(&view, view.kept, data->ndim - view.kept);
  v.skips_nan = tensor_prod_pairs_params_of(call)->skip_nan;
  a.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[HEAD] = tn_cuda_from(&call->in[0]);
  a.at[DATA] = tn_cuda_from(data);
  a.at[SLOPE] = tn_cuda_from(&call->in[2]);
  a.at[BEFORE] = tn_cuda_room(call->ws[0], TN_F64, 3 * size);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, tensor_pairs, v.kept.n, stream, a, v);
  });
}
