/* SPDX-License-Identifier: Apache-2.0
 * reduce.cu: reduce.h on CUDA devices: the operations on elements, and the
 * number of threads per line. Floats are combined in f64, integers in i64, as
 * on the CPU; sums have another order here.
 */
#include "reduce.cuh"
#include "reduce_big.h"

/* -------------------------------------------------------------- operations */

struct reduce_op {
  int32_t (*floats)(const reduce_run *run, const tensor_lines *v,
                    cudaStream_t stream);
  int32_t (*whole)(const reduce_run *run, const tensor_lines *v,
                   cudaStream_t stream);
  /* of u64; NULL: `whole` has the same bits */
  int32_t (*signless)(const reduce_run *run, const tensor_lines *v,
                      cudaStream_t stream) = NULL;
};

__device__ __forceinline__ double tensor_product(double a, double b) {
  return a * b;
}
__device__ __forceinline__ int64_t tensor_product(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Less than every number, or greater. */
__device__ __forceinline__ double tensor_get_lowest(double) {
  return -INFINITY;
}
__device__ __forceinline__ int64_t tensor_get_lowest(int64_t) {
  return INT64_MIN;
}
__device__ __forceinline__ uint64_t tensor_get_lowest(uint64_t) {
  return 0;
}
__device__ __forceinline__ double tensor_get_highest(double) {
  return INFINITY;
}
__device__ __forceinline__ int64_t tensor_get_highest(int64_t) {
  return INT64_MAX;
}
__device__ __forceinline__ uint64_t tensor_get_highest(uint64_t) {
  return UINT64_MAX;
}

/* Combines two records. */
template <class C>
struct tensor_by_plus {
  __device__ static C none() {
    return 0;
  }
  __device__ static C both(C a, C b) {
    return tn_cuda_sum(a, b);
  }
};
template <class C>
struct tensor_by_times {
  __device__ static C none() {
    return 1;
  }
  __device__ static C both(C a, C b) {
    return tensor_product(a, b);
  }
};
/* As in reduce_nonzero_prod: NaN beyond REDUCE_MOST. */
__device__ __forceinline__ double tensor_within(double x) {
  return fabs(x) <= REDUCE_MOST && fabs(x) >= 1 / REDUCE_MOST ? x : (double)NAN;
}
__device__ __forceinline__ int64_t tensor_within(int64_t x) {
  return x;
}
template <class C>
struct tensor_by_times_within {
  __device__ static C none() {
    return 1;
  }
  __device__ static C both(C a, C b) {
    return tensor_within(tensor_product(a, b));
  }
};
template <class C>
struct tensor_by_most {
  __device__ static C none() {
    return tensor_get_lowest(C());
  }
  __device__ static C both(C a, C b) {
    return tn_cuda_largest()(a, b);
  }
};
template <class C>
struct tensor_by_least {
  __device__ static C none() {
    return tensor_get_highest(C());
  }
  __device__ static C both(C a, C b) {
    return tn_cuda_least()(a, b);
  }
};

/* Identity: the element before it is combined. */
struct tensor_itself {
  template <class C>
  __device__ static C of(C x) {
    return x;
  }
};
struct tensor_or_0 {
  template <class C>
  __device__ static C of(C x) {
    return x == x ? x : 0;
  }
};
struct tensor_or_1 {
  template <class C>
  __device__ static C of(C x) {
    return x == x ? x : 1;
  }
};
struct tensor_size {
  template <class C>
  __device__ static C of(C x) {
    return x < 0 ? -x : x;
  }
};
struct tensor_square {
  template <class C>
  __device__ static C of(C x) {
    return x * x;
  }
};
struct tensor_but_0 {
  template <class C>
  __device__ static C of(C x) {
    return x == 0 ? 1 : x;
  }
};
struct tensor_but_0_or_nan {
  template <class C>
  __device__ static C of(C x) {
    return x == 0 || x != x ? 1 : x;
  }
};
struct tensor_is_0 {
  template <class C>
  __device__ static C of(C x) {
    return x == 0;
  }
};

template <class C, template <class> class By, class Change>
struct tensor_operation {
  typedef C element;
  typedef C record;
  __device__ static C none() {
    return By<C>::none();
  }
  __device__ static C of(C x, int64_t) {
    return Change::of(x);
  }
  __device__ static C both(C a, C b) {
    return By<C>::both(a, b);
  }
  __device__ static C result(C x) {
    return x;
  }
};

/* ------------------------------------------------------------------- lines */

static int64_t smallest_step(int32_t ndim, const int64_t *strides) {
  int64_t least = INT64_MAX;
  for (int32_t d = 0; d < ndim; ++d)
    if (llabs(strides[d]) < least) least = llabs(strides[d]);
  return least;
}

static tensor_steps<1> steps_of(int32_t ndim, const int64_t *shape,
                                const int64_t *strides) {
  tensor_steps<1> s;
  memset(&s, 0, sizeof s);
  s.n = 1;
  for (int32_t d = 0; d < ndim; ++d) {
    s.shape[d] = shape[d];
    s.step[0][d] = strides[d];
  }
  s.ndim = reduce_join_axes(ndim, s.shape, s.step[0]);
  for (int32_t d = 0; d < s.ndim; ++d) s.n *= s.shape[d];
  return s;
}

/* Chooses the threads of a line and their arrangement. */
static void share_out(tensor_lines *v) {
  enum { EACH = 4, SIDE = 32 }; /* elements of a lane, lines of a block */
  const int64_t near = smallest_step((int32_t)v->gone.ndim, v->gone.step[0]);
  const int64_t beside = llabs(v->kept.step[0][v->kept.ndim - 1]);
  v->lanes = TN_CUDA_THREADS;
  v->across = v->kept.n > 1 && (beside < near || v->gone.n == 1);
  if (v->across) {
    int32_t side = 1;
    while (side < SIDE && side < v->kept.n) side *= 2;
    v->lanes /= side;
  }
  while (v->lanes > 1 && v->lanes * EACH > v->gone.n) v->lanes /= 2;
}

/* Chooses the number of pieces of a line, so that there are blocks for a whole
 * device. */
static void cut(tensor_lines *v) {
  enum { BLOCKS = 1024, EACH = 16 }; /* enough; elements of a lane */
  const int64_t side = TN_CUDA_THREADS / v->lanes;
  const int64_t blocks = (v->kept.n + side - 1) / side;
  const int64_t least = (int64_t)v->lanes * EACH;
  int64_t pieces = (v->gone.n + least - 1) / least;
  if (pieces * blocks > BLOCKS) pieces = BLOCKS / blocks;
  if (pieces <= 1) return;
  v->piece = (v->gone.n + pieces - 1) / pieces;
  v->piece = (v->piece + v->lanes - 1) / v->lanes * v->lanes;
  v->pieces = (v->gone.n + v->piece - 1) / v->piece;
}

tensor_lines tensor_lines_of(const tn_tensor *in, const tn_tensor *out,
                             uint32_t axes, int has_room) {
  reduce_view view;
  tensor_lines v;
  memset(&v, 0, sizeof v);
  reduce_view_init(&view, in, axes);
  v.kept = steps_of(view.kept, view.shape, view.strides);
  v.gone = steps_of(view.tensor.ndim - view.kept, view.shape + view.kept,
                    view.strides + view.kept);
  v.out = steps_of(out->ndim, out->shape, out->strides);
  v.count = (double)v.gone.n;
  v.pieces = 1;
  v.piece = v.gone.n;
  share_out(&v);
  if (has_room) cut(&v);
  return v;
}

tensor_lines tensor_lines_of_records(const tensor_lines *v) {
  const int64_t shape[] = {v->kept.n, v->pieces}, strides[] = {v->pieces, 1};
  tensor_lines again = *v;
  again.kept = steps_of(1, shape, strides);
  again.gone = steps_of(1, shape + 1, strides + 1);
  again.pieces = 1;
  again.piece = v->pieces;
  share_out(&again);
  return again;
}

uint64_t reduce_count_bytes(const tn_tensor *in, const tn_tensor *out,
                            uint32_t axes) {
  if (tn_tensor_size(in) == 0) return 0;
  const tensor_lines v = tensor_lines_of(in, out, axes, 1);
  return v.pieces > 1 ? 8 * (uint64_t)(v.kept.n * v.pieces) : 0;
}

int32_t reduce_compute(const reduce_run *run) {
  if (tn_tensor_size(run->out) == 0) return TN_OK;
  const tensor_lines v =
      tensor_lines_of(run->in, run->out, run->axes, run->workspace != NULL);
  const tn_dtype wide = tensor_wide_dtype(run->in->dtype);
  return tn_cuda_on(run->call, [&](cudaStream_t stream) {
    if (run->in->dtype == TN_U64 && run->op->signless != NULL)
      return run->op->signless(run, &v, stream);
    return wide == TN_F64 ? run->op->floats(run, &v, stream)
                          : run->op->whole(run, &v, stream);
  });
}

/* ------------------------------------------------------------------ tables */

template <template <class> class By, class Change, int Finish>
static int32_t floats(const reduce_run *run, const tensor_lines *v,
                      cudaStream_t stream) {
  return tn_cuda_by_float(run->in->dtype, [&](auto type) {
    return tensor_reduce_start<tensor_operation<double, By, Change>,
                               tensor_typed<decltype(type)>>(run, *v, Finish,
                                                             stream);
  });
}

template <template <class> class By, class Change>
static int32_t whole(const reduce_run *run, const tensor_lines *v,
                     cudaStream_t stream) {
  return tensor_reduce_start<tensor_operation<int64_t, By, Change>,
                             tensor_untyped>(run, *v, TENSOR_AS_IT_IS, stream);
}

template <template <class> class By>
static int32_t signless(const reduce_run *run, const tensor_lines *v,
                        cudaStream_t stream) {
  return tensor_reduce_start<tensor_operation<uint64_t, By, tensor_itself>,
                             tensor_untyped>(run, *v, TENSOR_AS_IT_IS, stream);
}

const reduce_op reduce_sum = {
    floats<tensor_by_plus, tensor_itself, TENSOR_AS_IT_IS>,
    whole<tensor_by_plus, tensor_itself>};
const reduce_op reduce_mean = {
    floats<tensor_by_plus, tensor_itself, TENSOR_MEAN>, NULL};
const reduce_op reduce_prod = {
    floats<tensor_by_times, tensor_itself, TENSOR_AS_IT_IS>,
    whole<tensor_by_times, tensor_itself>};
const reduce_op reduce_max = {
    floats<tensor_by_most, tensor_itself, TENSOR_AS_IT_IS>,
    whole<tensor_by_most, tensor_itself>, signless<tensor_by_most>};
const reduce_op reduce_min = {
    floats<tensor_by_least, tensor_itself, TENSOR_AS_IT_IS>,
    whole<tensor_by_least, tensor_itself>, signless<tensor_by_least>};
const reduce_op reduce_nansum = {
    floats<tensor_by_plus, tensor_or_0, TENSOR_AS_IT_IS>,
    whole<tensor_by_plus, tensor_itself>};
const reduce_op reduce_nanprod = {
    floats<tensor_by_times, tensor_or_1, TENSOR_AS_IT_IS>,
    whole<tensor_by_times, tensor_itself>};
const reduce_op reduce_norm_1 = {
    floats<tensor_by_plus, tensor_size, TENSOR_AS_IT_IS>, NULL};
const reduce_op reduce_norm_2 = {
    floats<tensor_by_plus, tensor_square, TENSOR_ROOT>, NULL};
const reduce_op reduce_nonzero_prod = {
    floats<tensor_by_times_within, tensor_but_0, TENSOR_AS_IT_IS>,
    whole<tensor_by_times, tensor_but_0>};
const reduce_op reduce_nonzero_nanprod = {
    floats<tensor_by_times_within, tensor_but_0_or_nan, TENSOR_AS_IT_IS>,
    whole<tensor_by_times, tensor_but_0>};
const reduce_op reduce_zero_count = {
    floats<tensor_by_plus, tensor_is_0, TENSOR_AS_IT_IS>,
    whole<tensor_by_plus, tensor_is_0>};
