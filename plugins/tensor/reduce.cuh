/* SPDX-License-Identifier: Apache-2.0
 * reduce.cuh: reductions on CUDA devices. A line is the set of elements that
 * one output element reduces. Some threads of a block, the lanes, share a line,
 * and their records are reduced; other threads of the block have other lines.
 * If the elements of a line are far apart, neighbouring threads have
 * neighbouring lines, otherwise neighbouring elements. Long and few lines are
 * cut into pieces: a block writes a record per piece, and a second launch
 * reduces the records of a line. Shapes and strides decide all of it, so
 * results do not depend on the device.
 *
 * An operation is a struct:
 *
 *   struct largest_of {
 *     typedef double element;  type of elements
 *     typedef double record;   result of some of them
 *     __device__ static record none();                   of no elements
 *     __device__ static record of(element x, int64_t i); of element i
 *     __device__ static record both(record a, record b);
 *     __device__ static double result(record all);
 *   };
 */
#ifndef TENSOR_REDUCE_CUH_
#define TENSOR_REDUCE_CUH_

#include "move.h"
#include "reduce.h"
#include "tensor.cuh"

/* Conversion of the result of a line. */
enum { TENSOR_AS_IT_IS, TENSOR_MEAN, TENSOR_ROOT };

/* Arguments of a CUDA kernel. */
struct tensor_lines {
  tensor_steps<1> kept; /* lines */
  tensor_steps<1> gone; /* elements of each */
  tensor_steps<1> out;  /* positions of results */
  int64_t pieces; /* pieces of a line; if there are several, the kernel writes
                     records */
  int64_t piece;  /* elements of each but the last */
  int32_t lanes;  /* threads of a line: a power of two */
  int16_t across; /* neighbouring threads have neighbouring lines */
  int16_t finish; /* TENSOR_... */
  double count;   /* elements of a line */
};

/* ------------------------------------------------------------------ device */

/* Reads elements: of a float type, of any type, or records. */
template <class T>
struct tensor_typed {
  template <class C>
  __device__ static C at(const tn_cuda_array &a, int64_t i) {
    return tn_cuda_get<C>(((const T *)a.data)[i]);
  }
};

struct tensor_untyped {
  template <class C>
  __device__ static C at(const tn_cuda_array &a, int64_t i) {
    return tn_cuda_read<C>(a, i);
  }
};

struct tensor_records {
  template <class C>
  __device__ static C at(const tn_cuda_array &a, int64_t i) {
    return ((const C *)a.data)[i];
  }
};

/* The operation that merges records of the operation Op: its elements are
 * records. */
template <class Op>
struct tensor_merge_records {
  typedef typename Op::record element;
  typedef typename Op::record record;
  __device__ static record none() {
    return Op::none();
  }
  __device__ static record of(record x, int64_t) {
    return x;
  }
  __device__ static record both(record a, record b) {
    return Op::both(a, b);
  }
  __device__ static auto result(record x) {
    return Op::result(x);
  }
};

enum { TENSOR_FROM, TENSOR_TO, TENSOR_ARRAYS };
typedef tn_cuda_arrays<TENSOR_ARRAYS> tensor_reduction;

/* Distance from the first element of a line to element i. */
__device__ __forceinline__ int64_t tensor_along(const tensor_lines &v,
                                                int64_t i) {
  int64_t at[1];
  if (v.gone.n < INT32_MAX)
    tensor_find(v.gone, (uint32_t)i, at);
  else
    tensor_find(v.gone, i, at);
  return at[0];
}

/* The record that a thread computes for [begin, end) of a line. A loop along
 * one axis does so little that it loads several elements before it uses
 * them. */
template <class Op, class Read>
__device__ __forceinline__ typename Op::record tensor_reduce_part(
    const tensor_reduction &a, const tensor_lines &v, int64_t line,
    int64_t begin, int64_t end) {
  typedef typename Op::element element;
  const tn_cuda_array &from = a.at[TENSOR_FROM];
  const int64_t step = v.gone.step[0][0];
  typename Op::record all = Op::none();
  int64_t at[1];
  tensor_find(v.kept, line, at);
  if (v.gone.ndim > 1) {
    for (int64_t i = begin; i < end; i += v.lanes) {
      const int64_t place = at[0] + tensor_along(v, i);
      all = Op::both(all, Op::of(Read::template at<element>(from, place), i));
    }
    return all;
  }
#pragma unroll 4
  for (int64_t i = begin; i < end; i += v.lanes) {
    const int64_t place = at[0] + i * step;
    all = Op::both(all, Op::of(Read::template at<element>(from, place), i));
  }
  return all;
}

__device__ __forceinline__ double tensor_finish(double x,
                                                const tensor_lines &v) {
  if (v.finish == TENSOR_MEAN) return x / v.count;
  return v.finish == TENSOR_ROOT ? sqrt(x) : x;
}

__device__ __forceinline__ int64_t tensor_finish(int64_t x,
                                                 const tensor_lines &) {
  return x;
}

__device__ __forceinline__ uint64_t tensor_finish(uint64_t x,
                                                  const tensor_lines &) {
  return x;
}

template <class Op>
__device__ __forceinline__ void tensor_store_record(const tensor_reduction &a,
                                                    const tensor_lines &v,
                                                    int64_t line, int64_t piece,
                                                    typename Op::record all) {
  typedef typename Op::record record;
  int64_t at[1];
  if (v.pieces > 1) {
    ((record *)a.at[TENSOR_TO].data)[line * v.pieces + piece] = all;
    return;
  }
  tensor_find(v.out, line, at);
  tn_cuda_write(a.at[TENSOR_TO], at[0], tensor_finish(Op::result(all), v));
}

template <class Op, class Read>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_reduce(tensor_reduction a, tensor_lines v) {
  __shared__ typename Op::record part[TN_CUDA_THREADS];
  const int side = TN_CUDA_THREADS / v.lanes; /* lines of a block */
  const int thread = (int)threadIdx.x;
  const int lane = v.across ? thread / side : thread % v.lanes;
  const int own = v.across ? thread % side : thread / v.lanes;
  const int lane_distance =
      v.across ? side : 1; /* distance of two lanes, in threads */
  const int64_t blocks = (v.kept.n + side - 1) / side * v.pieces;
  for (int64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
    const int64_t line = b / v.pieces * side + own;
    const int64_t piece = b % v.pieces, begin = piece * v.piece;
    const int64_t left = v.gone.n - begin;
    const int64_t end = begin + (left < v.piece ? left : v.piece);
    part[thread] = line < v.kept.n ? tensor_reduce_part<Op, Read>(
                                         a, v, line, begin + lane, end)
                                   : Op::none();
    __syncthreads();
    for (int half = v.lanes / 2; half > 0; half /= 2) {
      if (lane < half)
        part[thread] =
            Op::both(part[thread], part[thread + half * lane_distance]);
      __syncthreads();
    }
    if (lane == 0 && line < v.kept.n)
      tensor_store_record<Op>(a, v, line, piece, part[thread]);
    __syncthreads();
  }
}

/* -------------------------------------------------------------------- host */

/* Divides the lines of `in` along `axes` among threads; `has_room` says whether
 * lines may be cut into pieces. */
tensor_lines tensor_lines_of(const tn_tensor *in, const tn_tensor *out,
                             uint32_t axes, int has_room);

/* The lines of the records that `v` writes. */
tensor_lines tensor_lines_of_records(const tensor_lines *v);

static inline int64_t tensor_blocks(const tensor_lines *v) {
  const int64_t side = TN_CUDA_THREADS / v->lanes;
  return (v->kept.n + side - 1) / side * v->pieces;
}

/* Launches an operation over elements, and, if there is room for records, over
 * the records. */
template <class Op, class Read>
static int32_t tensor_reduce_start(const reduce_run *run, tensor_lines v,
                                   int finish, cudaStream_t stream) {
  const tn_frame *call = run->call;
  tensor_reduction a;
  a.at[TENSOR_FROM] = tn_cuda_from(run->in);
  a.at[TENSOR_TO] = tn_cuda_to(run->out, run->req);
  for (tn_cuda_array &array : a.at) array.dtype = tensor_sum_dtype(array.dtype);
  v.finish = (int16_t)finish;
  if (v.pieces == 1)
    return tn_cuda_start(call, tensor_reduce<Op, Read>, tensor_blocks(&v),
                         stream, a, v);
  const int64_t records = v.kept.n * v.pieces;
  tensor_reduction first = a, then = a;
  then.at[TENSOR_FROM] = first.at[TENSOR_TO] = tn_cuda_room(
      run->workspace, TN_U8, records * (int64_t)sizeof(typename Op::record));
  then.at[TENSOR_FROM].writes = 0;
  const int32_t code = tn_cuda_start(call, tensor_reduce<Op, Read>,
                                     tensor_blocks(&v), stream, first, v);
  if (code != TN_OK) return code;
  const tensor_lines merge_lines = tensor_lines_of_records(&v);
  return tn_cuda_start(call,
                       tensor_reduce<tensor_merge_records<Op>, tensor_records>,
                       tensor_blocks(&merge_lines), stream, then, merge_lines);
}

#endif /* TENSOR_REDUCE_CUH_ */
