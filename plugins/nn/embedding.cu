/* SPDX-License-Identifier: Apache-2.0
 * embedding.cu: embedding.yaml on CUDA devices. A backward call adds slices of
 * the output gradient to the rows of their indices (scatter.cuh).
 */
#include "embedding.gen.h"

#include "nn.cuh"
#include "tenon/kernel/scatter.cuh"

/* Indices of the arrays that CUDA kernels get; TO is the one that they write.
 */
enum { TO, INDEX, WEIGHT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_embedding_arrays;

struct nn_embedding_view {
  int64_t n; /* positions */
  int64_t rows;
  int64_t length; /* elements of a row */
  tn_cuda_divisor by_length;
};

/* Returns the row that the index at a position selects; v.rows if the index is
 * out of range. */
__device__ __forceinline__ int64_t
nn_embedding_read_row(const nn_embedding_arrays &a, const nn_embedding_view &v,
                      int64_t position) {
  const double index = tn_cuda_read<double>(a.at[INDEX], position);
  return index > -1 && index < (double)v.rows ? (int64_t)index : v.rows;
}

/* Copies the row of each position to TO; NaN for an index out of range. Rows
 * consist of `length` packs of N elements. */
template <class T, int N>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_embedding_copy_rows(nn_embedding_arrays a, nn_embedding_view v) {
  typedef nn_compute_type<T> C;
  tn_cuda_each(
      v.n * v.length,
      [&](int64_t i) {
        const int64_t position = tn_cuda_quotient(i, v.by_length);
        const int64_t row = nn_embedding_read_row(a, v, position);
        nn_pack<C, N> x;
        for (int k = 0; k < N; ++k) x.x[k] = (C)NAN;
        if (row == v.rows) return x;
        return nn_load_pack<T, N>(a.at[WEIGHT],
                                  i + (row - position) * v.length);
      },
      [&](int64_t i, const nn_pack<C, N> &x) {
        nn_store_pack<T, N>(a.at[TO], i, x);
      });
}

/* Writes the sort key of each position: the row of the table. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_embedding_write_keys(nn_embedding_arrays a, nn_embedding_view v) {
  tn_cuda_key *keys = (tn_cuda_key *)a.at[TO].data;
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step()) {
    keys[i].value = nn_embedding_read_row(a, v, i);
    keys[i].i = i;
  }
}

/* Fills the gradient of the table with zeros. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_embedding_clear_rows(nn_embedding_arrays a, nn_embedding_view v) {
  for (int64_t i = nn_first_index(); i < v.rows * v.length;
       i += nn_index_step())
    nn_store_element<T>(a.at[TO], i, 0);
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry of a call, for its CUDA kernels. */
static nn_embedding_view nn_embedding_make_view(const tn_frame *call) {
  const nn_embedding_params *p = nn_embedding_params_of(call);
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  nn_embedding_view v = {};
  v.n = tn_tensor_size(&call->in[back ? (int)NN_EMBEDDING_BACKWARD_IN_DATA
                                      : (int)NN_EMBEDDING_IN_DATA]);
  v.rows = p->input_dim;
  v.length = p->output_dim;
  v.by_length = tn_cuda_divisor_of(v.length);
  return v;
}

/* Describes the addition of rows at their indices, for tn_cuda_scatter. */
static tn_cuda_scatter nn_embedding_make_scatter(const nn_embedding_view &v) {
  return tn_cuda_scatter_of(1, v.rows, v.n, v.length);
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_embedding_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD)) return TN_OK;
  const tn_cuda_scatter places =
      nn_embedding_make_scatter(nn_embedding_make_view(call));
  *bytes = tn_cuda_scatter_bytes(&places);
  return TN_OK;
}

int32_t nn_embedding_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_EMBEDDING_OUT_OUT];
  nn_embedding_view v = nn_embedding_make_view(call);
  nn_embedding_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_EMBEDDING_OUT_OUT]);
  a.at[INDEX] = tn_cuda_from(&call->in[NN_EMBEDDING_IN_DATA]);
  a.at[WEIGHT] = tn_cuda_from(&call->in[NN_EMBEDDING_IN_WEIGHT]);
  const bool are_fours = nn_has_packs_of_4(a.at[TO], v.length) &&
                         nn_has_packs_of_4(a.at[WEIGHT], v.length);
  if (are_fours) v.length /= 4;
  if (are_fours) v.by_length = tn_cuda_divisor_of(v.length);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return nn_run_by_pack_size(are_fours, [&](auto size) {
        return tn_cuda_start_each(
            call, nn_embedding_copy_rows<decltype(type), decltype(size)::value>,
            v.n * v.length, stream, a, v);
      });
    });
  });
}

/* Fills the gradient of the weight with zeros, unless the request is add. */
static int32_t nn_embedding_clear_output(const tn_frame *call,
                                         const nn_embedding_view &v,
                                         const tn_cuda_array &to,
                                         cudaStream_t stream) {
  nn_embedding_arrays a = {};
  a.at[TO] = to;
  if (to.adds) return TN_OK;
  return tn_cuda_by_float(to.dtype, [&](auto type) {
    return tn_cuda_start_each(call, nn_embedding_clear_rows<decltype(type)>,
                              v.rows * v.length, stream, a, v);
  });
}

/* Launches the kernel that writes the sort key of each position: its row. */
static int32_t nn_embedding_launch_keys(const tn_frame *call,
                                        const nn_embedding_view &v,
                                        cudaStream_t stream) {
  nn_embedding_arrays a = {};
  a.at[TO] = tn_cuda_key_array(call->ws[0], v.n);
  a.at[INDEX] = tn_cuda_from(&call->in[NN_EMBEDDING_BACKWARD_IN_DATA]);
  return tn_cuda_start_each(call, nn_embedding_write_keys, v.n, stream, a, v);
}

int32_t nn_embedding_cuda_backward(const tn_frame *call) {
  const nn_embedding_view v = nn_embedding_make_view(call);
  tn_cuda_scatter_arrays a = {};
  if (call->req[NN_EMBEDDING_IN_WEIGHT] == TN_REQ_NULL) return TN_OK;
  a.at[TN_CUDA_SCATTER_TO] = tn_cuda_to(&call->out[NN_EMBEDDING_IN_WEIGHT],
                                        call->req[NN_EMBEDDING_IN_WEIGHT]);
  a.at[TN_CUDA_SCATTER_SLICES] =
      tn_cuda_from(&call->in[NN_EMBEDDING_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    int32_t code =
        nn_embedding_clear_output(call, v, a.at[TN_CUDA_SCATTER_TO], stream);
    if (code == TN_OK) code = nn_embedding_launch_keys(call, v, stream);
    if (code != TN_OK) return code;
    return tn_cuda_by_float(a.at[TN_CUDA_SCATTER_TO].dtype, [&](auto type) {
      return tn_cuda_scatter_add<decltype(type)>(
          call, call->ws[0], nn_embedding_make_scatter(v), a, stream);
    });
  });
}
