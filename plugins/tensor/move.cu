/* SPDX-License-Identifier: Apache-2.0
 * move.cu: move.h on CUDA devices. A thread moves one element, or up to 16
 * bytes of elements that are contiguous in both operands. If the operands are
 * contiguous along different dimensions, it transposes squares in shared
 * memory, so that both are read and written in whole lines.
 */
#include "move.h"
#include "reduce.h"
#include "tensor.cuh"

enum { TO, FROM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_pair;

/* ------------------------------------------------------------------ copies */

template <class T, class Index>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_copy_each(tensor_pair a, tensor_steps<2> s) {
  for (Index i = tensor_first<Index>(); i < (Index)s.n;
       i += tensor_stride<Index>()) {
    int64_t at[2];
    tensor_find(s, i, at);
    ((T *)a.at[TO].data)[at[TO]] = ((const T *)a.at[FROM].data)[at[FROM]];
  }
}

/* One element, or several copies of it, for all of an array. */
struct tensor_filling {
  tensor_steps<1> steps;
  uint64_t bits[2];
};

template <class T, class Index>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_fill_each(tn_cuda_arrays<1> a, tensor_filling f) {
  T value;
  memcpy(&value, f.bits, sizeof value);
  for (Index i = tensor_first<Index>(); i < (Index)f.steps.n;
       i += tensor_stride<Index>()) {
    int64_t at[1];
    tensor_find(f.steps, i, at);
    ((T *)a.at[TO].data)[at[TO]] = value;
  }
}

/* Squares: `rows` are contiguous in FROM, `columns` in TO. `outer` has the
 * other dimensions. */
struct tensor_turning {
  tensor_steps<2> outer;
  int64_t rows, columns;
  int64_t row_step;    /* distance between rows of TO */
  int64_t column_step; /* distance between columns of FROM */
};

enum { SQUARE = 32, AT_ONCE = TN_CUDA_THREADS / SQUARE };

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_turn(tensor_pair a, tensor_turning t) {
  __shared__ T square[SQUARE][SQUARE + 1]; /* elements of a column are in
                                            * different banks */
  const int x = (int)threadIdx.x % SQUARE, y = (int)threadIdx.x / SQUARE;
  const int64_t down = (t.rows + SQUARE - 1) / SQUARE;
  const int64_t across = (t.columns + SQUARE - 1) / SQUARE;
  for (int64_t i = blockIdx.x; i < t.outer.n * down * across; i += gridDim.x) {
    const int64_t row = i % down * SQUARE, column = i / down % across * SQUARE;
    int64_t at[2];
    tensor_find(t.outer, i / (down * across), at);
    const T *from = (const T *)a.at[FROM].data + at[FROM];
    T *to = (T *)a.at[TO].data + at[TO];
    for (int k = y; k < SQUARE; k += AT_ONCE)
      if (row + x < t.rows && column + k < t.columns)
        square[k][x] = from[row + x + (column + k) * t.column_step];
    __syncthreads();
    for (int k = y; k < SQUARE; k += AT_ONCE)
      if (row + k < t.rows && column + x < t.columns)
        to[(row + k) * t.row_step + column + x] = square[x][k];
    __syncthreads();
  }
}

/* ----------------------------------------------------------------- numbers */

template <class C, class Index>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_convert_each(tensor_pair a, tensor_steps<2> s) {
  for (Index i = tensor_first<Index>(); i < (Index)s.n;
       i += tensor_stride<Index>()) {
    int64_t at[2];
    tensor_find(s, i, at);
    tn_cuda_write(a.at[TO], at[TO], tn_cuda_read<C>(a.at[FROM], at[FROM]));
  }
}

/* The numbers to count, and their count. */
struct tensor_numbers {
  tensor_range range;
  int64_t n;
};

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_count_each(tn_cuda_arrays<1> a, tensor_numbers v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const double x =
        v.range.begin + (double)(i / v.range.repeat) * v.range.step;
    tn_cuda_write(a.at[TO], i, x);
  }
}

/* -------------------------------------------------------------------- host */

/* Whether two neighbours can be moved as one. */
static int can_pair(const tn_kernel_walk *walk, int64_t width) {
  const int32_t last = walk->ndim - 1;
  int pairs = walk->shape[last] % 2 == 0;
  for (uint32_t k = 0; k < walk->n_operands; ++k) {
    pairs = pairs && walk->stride[k][last] == 1 &&
            (uintptr_t)walk->data[k] % (uint64_t)(2 * width) == 0;
    for (int32_t d = 0; d < last; ++d)
      pairs = pairs && walk->stride[k][d] % 2 == 0;
  }
  return pairs;
}

/* Combines several elements into one of the same memory; returns its bytes. */
static int64_t widen(tn_kernel_walk *walk) {
  const int32_t last = walk->ndim - 1;
  int64_t width = walk->bytes[0];
  for (; width < 16 && can_pair(walk, width); width *= 2) {
    walk->shape[last] /= 2;
    walk->size /= 2;
    for (uint32_t k = 0; k < walk->n_operands; ++k)
      for (int32_t d = 0; d < last; ++d) walk->stride[k][d] /= 2;
  }
  return width;
}

/* Whether squares can be transposed, and along which dimension of the walk. */
static int find_turn(const tn_kernel_walk *walk, int32_t *rows) {
  const int32_t last = walk->ndim - 1;
  if (walk->stride[TO][last] != 1 || walk->stride[FROM][last] == 1 ||
      walk->stride[FROM][last] == 0 || walk->shape[last] < 4)
    return 0;
  for (*rows = 0; *rows < last; ++*rows)
    if (walk->stride[FROM][*rows] == 1 && walk->shape[*rows] >= 4) return 1;
  return 0;
}

static int32_t turn(const tn_frame *call, const tn_kernel_walk *walk,
                    int32_t rows, const tensor_pair &a) {
  const int32_t last = walk->ndim - 1;
  tn_kernel_walk outer = *walk;
  tensor_turning t;
  t.rows = walk->shape[rows];
  t.columns = walk->shape[last];
  t.row_step = walk->stride[TO][rows];
  t.column_step = walk->stride[FROM][last];
  outer.shape[rows] = outer.shape[last] = 1;
  outer.size = walk->size / t.rows / t.columns;
  t.outer = tensor_steps_of<2>(&outer);
  const int64_t squares = outer.size * ((t.rows + SQUARE - 1) / SQUARE) *
                          ((t.columns + SQUARE - 1) / SQUARE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_width(tn_dtype_bytes(a.at[TO].dtype), [&](auto type) {
      return tn_cuda_start(call, tensor_turn<decltype(type)>, squares, stream,
                           a, t);
    });
  });
}

static int32_t pair_walk(const tn_frame *call, tn_kernel_walk *walk,
                         const tn_tensor *to, const tn_tensor *from) {
  tn_kernel_walk_init(walk, to);
  if (!tn_kernel_walk_add(walk, from))
    return TN_FAIL(call, TN_INTERNAL, "views of different shapes: %s and %s",
                   tensor_shape_text(to->ndim, to->shape).text,
                   tensor_shape_text(from->ndim, from->shape).text);
  tn_kernel_walk_begin(walk);
  return TN_OK;
}

static tensor_pair arrays_of(const tn_tensor *to, const tn_tensor *from) {
  tensor_pair a;
  a.at[TO] = tn_cuda_to(to, TN_REQ_WRITE);
  a.at[FROM] = tn_cuda_from(from);
  return a;
}

int32_t tensor_copy(const tn_frame *call, const tn_tensor *to,
                    const tn_tensor *from) {
  tn_kernel_walk walk;
  int32_t rows;
  if (tn_tensor_size(to) == 0) return TN_OK;
  const int32_t code = pair_walk(call, &walk, to, from);
  if (code != TN_OK) return code;
  const tensor_pair a = arrays_of(to, from);
  if (find_turn(&walk, &rows)) return turn(call, &walk, rows, a);
  const int64_t width = widen(&walk);
  const tensor_steps<2> s = tensor_steps_of<2>(&walk);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_unit(width, [&](auto type) {
      return tensor_by_count(s.n, [&](auto index) {
        return tn_cuda_start_each(
            call, tensor_copy_each<decltype(type), decltype(index)>, s.n,
            stream, a, s);
      });
    });
  });
}

int32_t tensor_copy_pieces(const tn_frame *call, uint32_t n,
                           const tensor_piece *pieces) {
  int32_t code = TN_OK;
  for (uint32_t k = 0; k < n && code == TN_OK; ++k)
    code = tensor_copy(call, pieces[k].to, pieces[k].from);
  return code;
}

int32_t tensor_fill(const tn_frame *call, const tn_tensor *to,
                    const void *element) {
  tn_kernel_walk walk;
  tensor_filling f;
  tn_cuda_arrays<1> a;
  if (tn_tensor_size(to) == 0) return TN_OK;
  tn_kernel_walk_init(&walk, to);
  tn_kernel_walk_begin(&walk);
  tensor_repeat(f.bits, element, walk.bytes[0]);
  const int64_t width = widen(&walk);
  f.steps = tensor_steps_of<1>(&walk);
  a.at[TO] = tn_cuda_to(to, TN_REQ_WRITE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_unit(width, [&](auto type) {
      return tensor_by_count(f.steps.n, [&](auto index) {
        return tn_cuda_start_each(
            call, tensor_fill_each<decltype(type), decltype(index)>, f.steps.n,
            stream, a, f);
      });
    });
  });
}

static int32_t convert(const tn_frame *call, const tn_tensor *to,
                       const tn_tensor *from, int adds) {
  tn_kernel_walk walk;
  if (tn_tensor_size(to) == 0) return TN_OK;
  const int32_t code = pair_walk(call, &walk, to, from);
  if (code != TN_OK) return code;
  tensor_pair a = arrays_of(to, from);
  const tensor_steps<2> s = tensor_steps_of<2>(&walk);
  a.at[TO].adds = (int16_t)adds;
  a.at[TO].dtype = tensor_sum_dtype(to->dtype);
  a.at[FROM].dtype = tensor_sum_dtype(from->dtype);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_wide(to->dtype, [&](auto type) {
      return tensor_by_count(s.n, [&](auto index) {
        return tn_cuda_start_each(
            call, tensor_convert_each<decltype(type), decltype(index)>, s.n,
            stream, a, s);
      });
    });
  });
}

int32_t tensor_convert(const tn_frame *call, const tn_tensor *to,
                       const tn_tensor *from) {
  return convert(call, to, from, 0);
}

int32_t tensor_add(const tn_frame *call, const tn_tensor *to,
                   const tn_tensor *from) {
  return convert(call, to, from, 1);
}

int32_t tensor_count(const tn_frame *call, const tn_tensor *to,
                     const tensor_range *range) {
  const tensor_numbers v = {*range, tn_tensor_size(to)};
  tn_cuda_arrays<1> a;
  a.at[TO] = tn_cuda_to(to, TN_REQ_WRITE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, tensor_count_each, v.n, stream, a, v);
  });
}

int32_t tensor_sum_front(const tn_frame *call, const tn_tensor *to,
                         const tn_tensor *from, int32_t n_axes) {
  reduce_run run = {};
  run.call = call;
  run.op = &reduce_sum;
  run.in = from;
  run.out = to;
  run.axes = (1u << n_axes) - 1;
  run.req = TN_REQ_WRITE;
  return reduce_compute(&run);
}
