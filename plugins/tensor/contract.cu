/* SPDX-License-Identifier: Apache-2.0
 * contract.cu: contract.h on CUDA devices. A thread computes an element of the
 * result: floats in f64, integers in i64.
 */
#include "contract.h"

#include "tensor.cuh"

enum { OUT, LEFT, RIGHT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_contracting;

/* Arguments of the CUDA kernel. */
struct tensor_contracted {
  tensor_contraction c;
  int64_t size;    /* elements of the result */
  int64_t n_terms; /* of a sum */
};

/* Positions in both operands. */
struct tensor_pair_at {
  int64_t a, b;
};

/* Adds the positions of number i of the dimensions [begin, end). */
__device__ __forceinline__ tensor_pair_at
tensor_add_positions(const tensor_contraction &c, tensor_pair_at at, int64_t i,
                     int64_t begin, int64_t end) {
  for (int64_t d = end - 1; d >= begin; --d) {
    const int64_t place = i % c.length[d];
    i /= c.length[d];
    at.a += place * c.step_a[d];
    at.b += place * c.step_b[d];
  }
  return at;
}

__device__ __forceinline__ double tensor_add_product(double sum, double a,
                                                     double b) {
  return sum + a * b;
}

__device__ __forceinline__ int64_t tensor_add_product(int64_t sum, int64_t a,
                                                      int64_t b) {
  return (int64_t)((uint64_t)sum + (uint64_t)a * (uint64_t)b);
}

template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_contract_each(tensor_contracting a, tensor_contracted v) {
  const int64_t kept = v.c.first[TENSOR_SUMMED];
  for (int64_t i = tensor_first<int64_t>(); i < v.size;
       i += tensor_stride<int64_t>()) {
    const tensor_pair_at none = {0, 0};
    const tensor_pair_at first = tensor_add_positions(v.c, none, i, 0, kept);
    C sum = 0;
    for (int64_t k = 0; k < v.n_terms; ++k) {
      const tensor_pair_at at =
          tensor_add_positions(v.c, first, k, kept, v.c.n);
      sum = tensor_add_product(sum, tn_cuda_read<C>(a.at[LEFT], at.a),
                               tn_cuda_read<C>(a.at[RIGHT], at.b));
    }
    tn_cuda_write(a.at[OUT], i, sum);
  }
}

uint64_t tensor_contract_bytes(const tensor_contraction *c, tn_dtype dtype) {
  (void)c;
  (void)dtype;
  return 0;
}

/* Memory of the device; a tensor of a workspace has no shape. */
static tn_cuda_array array_of(const tn_tensor *tensor, int64_t n) {
  tn_cuda_array array = tn_cuda_room(tensor->data, tensor->dtype, n);
  array.data = (char *)tensor->data + tensor->byte_offset;
  return array;
}

/* Elements of an operand from its first one to the last one that is read. */
static int64_t count_reached(const tensor_contraction *c, const int64_t *step) {
  int64_t n = 1;
  for (int64_t d = 0; d < c->n; ++d) {
    if (c->length[d] == 0) return 0;
    n += (c->length[d] - 1) * step[d];
  }
  return n;
}

int32_t tensor_contract(const tn_frame *call, const tensor_contraction *c,
                        const tensor_factors *f) {
  tensor_contracted v = {*c, 1, 1};
  tensor_contracting a = {};
  for (int64_t d = 0; d < c->n; ++d)
    (d < c->first[TENSOR_SUMMED] ? v.size : v.n_terms) *= c->length[d];
  a.at[OUT] = array_of(f->out, v.size);
  a.at[LEFT] = array_of(f->a, count_reached(c, c->step_a));
  a.at[RIGHT] = array_of(f->b, count_reached(c, c->step_b));
  a.at[LEFT].writes = a.at[RIGHT].writes = 0;
  if (v.n_terms == 0) a.at[LEFT].data = a.at[RIGHT].data = NULL;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_wide(f->out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, tensor_contract_each<decltype(type)>,
                                v.size, stream, a, v);
    });
  });
}
