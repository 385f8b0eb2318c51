/* SPDX-License-Identifier: Apache-2.0
 * reduce.cuh: one element of many on CUDA devices. A line is what one element
 * of the output is made of. Its elements are shared out among some threads of a
 * block, the lanes, and what these have found is folded; the other threads have
 * other lines. Where lines lie across memory, neighbouring threads have
 * neighbouring lines, otherwise neighbouring elements. Lines that are long and
 * few are cut into pieces, of each of which a block leaves a record; the
 * records of a line are then its elements. All of that follows from shapes and
 * strides, so results do not depend on the device.
 *
 * An operation is a struct:
 *
 *   struct largest_of {
 *     typedef double element;  what elements are read as
 *     typedef double record;   what is found out of some of them
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

/* What becomes of the result of a line. */
enum { TENSOR_AS_IT_IS, TENSOR_MEAN, TENSOR_ROOT };

/* What a kernel is handed. */
struct tensor_lines {
  tensor_steps<1> kept; /* lines */
  tensor_steps<1> gone; /* elements of each */
  tensor_steps<1> out;  /* where results go */
  int64_t pieces;       /* of a line; if there are several, records are left */
  int64_t piece;        /* elements of each but the last */
  int32_t lanes;        /* threads of a line: a power of two */
  int16_t across;       /* neighbouring threads have neighbouring lines */
  int16_t finish;       /* TENSOR_... */
  double count;         /* elements of a line */
};

/* ------------------------------------------------------------------- device */

/* How elements are read: of a float type, of any type, records. */
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

/* The same operation with records as elements. */
template <class Op>
struct tensor_again {
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

/* How far element i of a line lies from its first. */
__device__ __forceinline__ int64_t tensor_along(const tensor_lines &v,
                                                int64_t i) {
  int64_t at[1];
  if (v.gone.n < INT32_MAX)
    tensor_find(v.gone, (uint32_t)i, at);
  else
    tensor_find(v.gone, i, at);
  return at[0];
}

/* What a thread finds in [begin, end) of a line. A loop along one axis has so
 * little to do that several elements are on their way at a time. */
template <class Op, class Read>
__device__ __forceinline__ typename Op::record tensor_look(
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

template <class Op>
__device__ __forceinline__ void tensor_leave(const tensor_reduction &a,
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
  const int apart = v.across ? side : 1; /* threads between two lanes */
  const int64_t blocks = (v.kept.n + side - 1) / side * v.pieces;
  for (int64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
    const int64_t line = b / v.pieces * side + own;
    const int64_t piece = b % v.pieces, begin = piece * v.piece;
    const int64_t left = v.gone.n - begin;
    const int64_t end = begin + (left < v.piece ? left : v.piece);
    part[thread] = line < v.kept.n
                       ? tensor_look<Op, Read>(a, v, line, begin + lane, end)
                       : Op::none();
    __syncthreads();
    for (int half = v.lanes / 2; half > 0; half /= 2) {
      if (lane < half)
        part[thread] = Op::both(part[thread], part[thread + half * apart]);
      __syncthreads();
    }
    if (lane == 0 && line < v.kept.n)
      tensor_leave<Op>(a, v, line, piece, part[thread]);
    __syncthreads();
  }
}

/* --------------------------------------------------------------------- host */

/* How the lines of `in` along `axes` are shared out; `has_room` is whether they
 * may be cut into pieces. */
tensor_lines tensor_lines_of(const tn_tensor *in, const tn_tensor *out,
                             uint32_t axes, int has_room);

/* Those of the records that it leaves. */
tensor_lines tensor_lines_of_records(const tensor_lines *v);

static inline int64_t tensor_blocks(const tensor_lines *v) {
  const int64_t side = TN_CUDA_THREADS / v->lanes;
  return (v->kept.n + side - 1) / side * v->pieces;
}

/* Launches an operation: over elements, and if there is room for records, over
 * these. */
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
      run->room, TN_U8, records * (int64_t)sizeof(typename Op::record));
  then.at[TENSOR_FROM].writes = 0;
  const int32_t code = tn_cuda_start(call, tensor_reduce<Op, Read>,
                                     tensor_blocks(&v), stream, first, v);
  if (code != TN_OK) return code;
  const tensor_lines again = tensor_lines_of_records(&v);
  return tn_cuda_start(call, tensor_reduce<tensor_again<Op>, tensor_records>,
                       tensor_blocks(&again), stream, then, again);
}

#endif /* TENSOR_REDUCE_CUH_ */
