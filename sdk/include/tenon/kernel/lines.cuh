/* SPDX-License-Identifier: Apache-2.0
 * lines.cuh: kernels on CUDA devices for formulas with reductions, like lines.h
 * on the CPU. For CUDA C++ only; nothing here is part of the ABI.
 *
 * opgen writes a struct for each type to compute in. Its operator() computes
 * one element of a step from elements of the operands, which `x` reads, and
 * from the results `r` of earlier steps. A block of threads computes one line
 * at a time. It adds in f64, in an order that depends on the length alone.
 *
 * Outputs with one element for each place need sums over lines. Then the call
 * is four launches: reductions, sums of groups of lines, sums of the groups,
 * and outputs of the loop, which may have the memory of an operand.
 */
#ifndef TENON_KERNEL_LINES_CUH_
#define TENON_KERNEL_LINES_CUH_

#include "tenon/kernel/elementwise.cuh"
#include "tenon/kernel/line_walk.h"

enum {
  TN_CUDA_LINE_GROUPS = 256, /* most groups of lines with sums of their own */
  /* Parts of the work of tn_cuda_line_loop: */
  TN_CUDA_LINES_LOAD = 1,   /* results are read, not computed */
  TN_CUDA_LINES_STORE = 2,  /* results are written */
  TN_CUDA_LINES_VALUES = 4, /* outputs of a line */
  TN_CUDA_LINES_ROWS = 8    /* outputs of the loop */
};

/* The arrays of a launch: operands, outputs, results of the steps of all lines,
 * sums of groups, parameters on the device. */
template <class Steps>
struct tn_cuda_lines_shape {
  enum {
    n_in = Steps::n_in,
    n = Steps::n_in + Steps::n_out,
    RESULTS = n,
    SUMS = n + 1,
    LIVE = n + 2,
    n_arrays = n + 3,
    n_dims = n <= 12 ? 8 : 4 /* the arguments of a launch have 4096 bytes */
  };
};

template <class Steps>
struct tn_cuda_lines_extent {
  enum {
    n = tn_cuda_lines_shape<Steps>::n,
    n_dims = tn_cuda_lines_shape<Steps>::n_dims
  };
  Steps steps;
  int64_t lines, length;
  int64_t each, groups; /* lines of a group with its own sums */
  uint64_t active;      /* bit k: step k */
  int part;             /* TN_CUDA_LINES_*, set */
  int n_places;
  int n_kept, n_reduced;
  int64_t kept[n_dims], reduced[n_dims];
  int64_t kept_stride[n][n_dims], reduced_stride[n][n_dims];
  uint8_t kind[Steps::n_steps], out[Steps::n_steps], level[Steps::n_steps];

  explicit tn_cuda_lines_extent(const void *params)
      : steps(params), active(0), part(0) {}
};

/* ------------------------------------------------------------------- device */

/* Constructs the steps again from the parameters on the device, in recorded
 * calls of operators with parameters that change (tenon/draft/capture.h). */
struct tn_cuda_lines_live {};

template <class Steps>
__device__ __forceinline__ void tn_cuda_renew_lines(
    Steps *steps, const void *params, const tn_cuda_lines_live *) {
  if (params != NULL) *steps = Steps(params);
}

template <class Steps>
__device__ __forceinline__ void tn_cuda_renew_lines(Steps *, const void *,
                                                    const void *) {}

/* One line; reads elements of operands. */
template <class Steps>
struct tn_cuda_line {
  typedef typename Steps::type C;
  typedef tn_cuda_lines_shape<Steps> shape;
  typedef tn_cuda_lines_extent<Steps> extent;
  const tn_cuda_arrays<shape::n_arrays> &a;
  const extent &v;
  int64_t base[shape::n]; /* first element of the line in each array */
  int64_t i;              /* element of the line */

  __device__ tn_cuda_line(const tn_cuda_arrays<shape::n_arrays> &arrays,
                          const extent &all)
      : a(arrays), v(all), i(0) {}

  __device__ void move(int64_t line) {
    for (int k = 0; k < shape::n; ++k) base[k] = 0;
    for (int d = v.n_kept - 1; d >= 0; --d) {
      const int64_t place = d == 0 ? line : line % v.kept[d];
      for (int k = 0; k < shape::n; ++k) base[k] += place * v.kept_stride[k][d];
      line /= v.kept[d];
    }
  }

  __device__ int64_t find(int k) const {
    int64_t at = base[k], left = i;
    for (int d = v.n_reduced - 1; d > 0; --d) {
      at += left % v.reduced[d] * v.reduced_stride[k][d];
      left /= v.reduced[d];
    }
    return at + left * v.reduced_stride[k][0];
  }

  __device__ C count() const {
    return (C)v.length;
  }

  __device__ C operator()(int operand) const {
    return tn_cuda_read<C>(a.at[operand], find(operand));
  }
};

/* The type of sums: f64, or i64, which wraps. */
template <class C>
struct tn_cuda_line_sum {
  typedef int64_t type;
  static __device__ type most() {
    return INT64_MAX;
  }
  static __device__ type least() {
    return INT64_MIN;
  }
  static __device__ type mean(type all, int64_t) {
    return all;
  }
};

struct tn_cuda_line_real_sum {
  typedef double type;
  static __device__ type most() {
    return (double)INFINITY;
  }
  static __device__ type least() {
    return -(double)INFINITY;
  }
  static __device__ type mean(type all, int64_t n) {
    return all / (double)n;
  }
};

template <>
struct tn_cuda_line_sum<float> : tn_cuda_line_real_sum {};
template <>
struct tn_cuda_line_sum<double> : tn_cuda_line_real_sum {};

/* One reduction of a line, for all threads of a block. */
template <class Steps>
__device__ typename Steps::type tn_cuda_reduce_line(
    const Steps &steps, int k, tn_cuda_line<Steps> &x,
    const typename Steps::type *r,
    typename tn_cuda_line_sum<typename Steps::type>::type *part) {
  typedef typename Steps::type C;
  typedef tn_cuda_line_sum<C> sum;
  typedef typename sum::type S;
  const int kind = x.v.kind[k];
  S all = kind == TN_LINES_MAX   ? sum::least()
          : kind == TN_LINES_MIN ? sum::most()
                                 : (S)0;
  for (x.i = threadIdx.x; x.i < x.v.length; x.i += TN_CUDA_THREADS) {
    const S value = (S)steps(k, x, r);
    if (kind == TN_LINES_MAX)
      all = tn_cuda_largest()(all, value);
    else if (kind == TN_LINES_MIN)
      all = tn_cuda_least()(all, value);
    else
      all = tn_cuda_sum(all, value);
  }
  if (kind == TN_LINES_MAX)
    all = tn_cuda_reduce(part, all, tn_cuda_largest());
  else if (kind == TN_LINES_MIN)
    all = tn_cuda_reduce(part, all, tn_cuda_least());
  else
    all = tn_cuda_reduce(part, all, tn_cuda_plus());
  return (C)(kind == TN_LINES_MEAN ? sum::mean(all, x.v.length) : all);
}

/* Writes one output of a line. */
template <class Steps>
__device__ void tn_cuda_write_line(const Steps &steps, int k,
                                   tn_cuda_line<Steps> &x,
                                   const typename Steps::type *r) {
  const int to = tn_cuda_lines_shape<Steps>::n_in + x.v.out[k];
  x.i = 0;
  if (x.v.level[k] == TN_LINES_LINE) {
    if ((x.v.part & TN_CUDA_LINES_VALUES) && threadIdx.x == 0)
      tn_cuda_write(x.a.at[to], x.base[to], steps(k, x, r));
    return;
  }
  if (x.v.level[k] != TN_LINES_FULL || !(x.v.part & TN_CUDA_LINES_ROWS)) return;
  for (x.i = threadIdx.x; x.i < x.v.length; x.i += TN_CUDA_THREADS)
    tn_cuda_write(x.a.at[to], x.find(to), steps(k, x, r));
}

template <class Steps>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tn_cuda_line_loop(tn_cuda_arrays<tn_cuda_lines_shape<Steps>::n_arrays> a,
                      tn_cuda_lines_extent<Steps> v) {
  typedef typename Steps::type C;
  typedef tn_cuda_lines_shape<Steps> shape;
  __shared__ typename tn_cuda_line_sum<C>::type part[TN_CUDA_THREADS];
  C *results = (C *)a.at[shape::RESULTS].data;
  tn_cuda_line<Steps> x(a, v);
  Steps steps = v.steps;
  C r[Steps::n_steps];
  tn_cuda_renew_lines(&steps, a.at[shape::LIVE].data, (const Steps *)NULL);
  for (int64_t line = blockIdx.x; line < v.lines; line += gridDim.x) {
    x.move(line);
    for (int k = 0; k < Steps::n_steps; ++k) {
      if (!(v.active >> k & 1)) continue;
      if (v.kind[k] == TN_LINES_OUT) {
        tn_cuda_write_line(steps, k, x, r);
        continue;
      }
      if (v.part & TN_CUDA_LINES_LOAD)
        r[k] = results[line * Steps::n_steps + k];
      else if (v.kind[k] == TN_LINES_VALUE)
        r[k] = steps(k, x, r);
      else
        r[k] = tn_cuda_reduce_line(steps, k, x, r, part);
      if ((v.part & TN_CUDA_LINES_STORE) && threadIdx.x == 0)
        results[line * Steps::n_steps + k] = r[k];
    }
  }
}

/* The sums of outputs of level PLACE over the lines of a group: a thread for
 * each place of each group. */
template <class Steps>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tn_cuda_line_places(tn_cuda_arrays<tn_cuda_lines_shape<Steps>::n_arrays> a,
                        tn_cuda_lines_extent<Steps> v) {
  typedef typename Steps::type C;
  typedef tn_cuda_lines_shape<Steps> shape;
  const C *results = (const C *)a.at[shape::RESULTS].data;
  double *sums = (double *)a.at[shape::SUMS].data;
  tn_cuda_line<Steps> x(a, v);
  Steps steps = v.steps;
  tn_cuda_renew_lines(&steps, a.at[shape::LIVE].data, (const Steps *)NULL);
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  for (int64_t at = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
       at < v.groups * v.length; at += step) {
    const int64_t group = at / v.length;
    const int64_t end = (group + 1) * v.each;
    int which = 0;
    x.i = at % v.length;
    for (int k = 0; k < Steps::n_steps; ++k) {
      if (!(v.active >> k & 1) || v.kind[k] != TN_LINES_OUT ||
          v.level[k] != TN_LINES_PLACE)
        continue;
      double all = 0;
      for (int64_t line = group * v.each; line < v.lines && line < end;
           ++line) {
        x.move(line);
        all += (double)steps(k, x, results + line * Steps::n_steps);
      }
      sums[(group * v.n_places + which++) * v.length + x.i] = all;
    }
  }
}

/* The sums of all groups, in their order: a thread for each place. */
template <class Steps>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tn_cuda_line_groups(tn_cuda_arrays<tn_cuda_lines_shape<Steps>::n_arrays> a,
                        tn_cuda_lines_extent<Steps> v) {
  typedef tn_cuda_lines_shape<Steps> shape;
  const double *sums = (const double *)a.at[shape::SUMS].data;
  tn_cuda_line<Steps> x(a, v);
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  x.move(0);
  for (x.i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
       x.i < v.length; x.i += step) {
    int which = 0;
    for (int k = 0; k < Steps::n_steps; ++k) {
      if (!(v.active >> k & 1) || v.kind[k] != TN_LINES_OUT ||
          v.level[k] != TN_LINES_PLACE)
        continue;
      const int to = shape::n_in + v.out[k];
      double all = 0;
      for (int64_t group = 0; group < v.groups; ++group)
        all += sums[(group * v.n_places + which) * v.length + x.i];
      ++which;
      tn_cuda_write(a.at[to], x.find(to), all);
    }
  }
}

/* --------------------------------------------------------------------- host */

/* Bytes of workspace: the results of all lines, then the sums of all groups;
 * none if no output has one element for each place. */
struct tn_cuda_lines_room {
  int64_t each, groups;
  int64_t results, sums;
};

static inline tn_cuda_lines_room tn_cuda_lines_find_room(
    const tn_lines_work *w) {
  tn_cuda_lines_room room;
  room.each = (w->lines + TN_CUDA_LINE_GROUPS - 1) / TN_CUDA_LINE_GROUPS;
  if (room.each < 1) room.each = 1;
  room.groups = (w->lines + room.each - 1) / room.each;
  room.results =
      w->n_places > 0 ? w->lines * (int64_t)w->map->n_steps * w->bytes : 0;
  room.sums =
      room.groups * (int64_t)w->n_places * w->length * (int64_t)sizeof(double);
  return room;
}

/* The `prepare` of a kernel over lines. [any] */
static inline int32_t tn_cuda_lines_prepare(const tn_frame *call, tn_plan *plan,
                                            const tn_lines_map *map,
                                            const tn_lines_axes *axes) {
  tn_lines_work w;
  const int32_t code = tn_lines_begin(&w, call, map, axes);
  if (code != TN_OK) return code;
  const tn_cuda_lines_room room = tn_cuda_lines_find_room(&w);
  if (w.n_places == 0) return TN_OK;
  plan->n_ws = 2;
  plan->ws[0].bytes = (uint64_t)room.results;
  plan->ws[1].bytes = (uint64_t)room.sums;
  return TN_OK;
}

/* The strides of one array. */
template <class Steps>
static void tn_cuda_lines_add(const tn_lines_work *w, const tn_lines_part *part,
                              int k, tn_cuda_lines_extent<Steps> *v) {
  for (int d = 0; d < w->n_kept; ++d) v->kept_stride[k][d] = part->kept[d];
  for (int d = 0; d < w->n_reduced; ++d)
    v->reduced_stride[k][d] = part->reduced[d];
}

template <class Steps>
static void tn_cuda_lines_describe_steps(const tn_lines_work *w,
                                         tn_cuda_lines_extent<Steps> *v) {
  for (int k = 0; k < Steps::n_steps; ++k) {
    const tn_lines_step *step = &w->map->steps[k];
    v->kind[k] = step->kind;
    v->out[k] = step->out;
    v->level[k] =
        step->kind == TN_LINES_OUT ? w->map->out_levels[step->out] : 0;
    if (tn_lines_is_active(w, (uint32_t)k)) v->active |= (uint64_t)1 << k;
  }
}

template <class Steps>
static tn_cuda_lines_extent<Steps> tn_cuda_lines_describe(
    const tn_lines_work *w, const tn_cuda_lines_room *room) {
  const tn_frame *call = w->call;
  tn_cuda_lines_extent<Steps> v(call->params);
  v.lines = w->lines;
  v.length = w->length;
  v.each = room->each;
  v.groups = room->groups;
  v.n_places = (int)w->n_places;
  v.n_kept = w->n_kept;
  v.n_reduced = w->n_reduced;
  for (int d = 0; d < v.n_kept; ++d) v.kept[d] = w->kept[d];
  for (int d = 0; d < v.n_reduced; ++d) v.reduced[d] = w->reduced[d];
  for (int k = 0; k < Steps::n_in; ++k) tn_cuda_lines_add(w, &w->in[k], k, &v);
  for (int o = 0; o < Steps::n_out; ++o)
    tn_cuda_lines_add(w, &w->out[o], Steps::n_in + o, &v);
  tn_cuda_lines_describe_steps(w, &v);
  return v;
}

template <class Steps>
static tn_cuda_arrays<tn_cuda_lines_shape<Steps>::n_arrays>
tn_cuda_lines_arrays(const tn_lines_work *w, const tn_cuda_lines_room *room) {
  typedef tn_cuda_lines_shape<Steps> shape;
  const tn_frame *call = w->call;
  tn_cuda_arrays<shape::n_arrays> a;
  const int64_t n = room->results / w->bytes;
  for (int k = 0; k < Steps::n_in; ++k)
    a.at[k] = tn_cuda_from(&call->in[w->map->operands[k]]);
  for (int o = 0; o < Steps::n_out; ++o)
    a.at[Steps::n_in + o] = tn_cuda_to(&call->out[o], call->req[o]);
  a.at[shape::RESULTS] =
      tn_cuda_room(n > 0 ? call->ws[0] : NULL, w->mode.compute, n);
  a.at[shape::SUMS] = tn_cuda_room(room->sums > 0 ? call->ws[1] : NULL, TN_F64,
                                   room->sums / (int64_t)sizeof(double));
  a.at[shape::LIVE] = tn_cuda_live_params(call, (int64_t)Steps::live_bytes);
  return a;
}

/* Launches the sums over lines: the results of the lines, the sums of groups,
 * and their sums. */
template <class Steps>
static int32_t tn_cuda_lines_add_up(
    const tn_lines_work *w, cudaStream_t stream,
    const tn_cuda_arrays<tn_cuda_lines_shape<Steps>::n_arrays> &a,
    tn_cuda_lines_extent<Steps> *v) {
  const tn_frame *call = w->call;
  v->part = TN_CUDA_LINES_STORE | TN_CUDA_LINES_VALUES;
  int32_t code =
      tn_cuda_start(call, tn_cuda_line_loop<Steps>, w->lines, stream, a, *v);
  if (code == TN_OK)
    code = tn_cuda_start_each(call, tn_cuda_line_places<Steps>,
                              v->groups * v->length, stream, a, *v);
  if (code == TN_OK)
    code = tn_cuda_start_each(call, tn_cuda_line_groups<Steps>, v->length,
                              stream, a, *v);
  v->part = TN_CUDA_LINES_LOAD | TN_CUDA_LINES_ROWS;
  return code;
}

/* Launches a call in one type to compute in. [worker] */
template <class Steps>
static int32_t tn_cuda_lines_launch(const tn_lines_work *w) {
  typedef tn_cuda_lines_shape<Steps> shape;
  const tn_frame *call = w->call;
  const tn_cuda_lines_room room = tn_cuda_lines_find_room(w);
  if (w->n_kept > shape::n_dims || w->n_reduced > shape::n_dims)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "the operands have more than %d separate dimensions; make "
                   "them contiguous",
                   (int)shape::n_dims);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    const auto a = tn_cuda_lines_arrays<Steps>(w, &room);
    auto v = tn_cuda_lines_describe<Steps>(w, &room);
    int32_t code = TN_OK;
    v.part = TN_CUDA_LINES_VALUES | TN_CUDA_LINES_ROWS;
    if (w->n_places > 0) code = tn_cuda_lines_add_up<Steps>(w, stream, a, &v);
    if (code != TN_OK) return code;
    return tn_cuda_start(call, tn_cuda_line_loop<Steps>, w->lines, stream, a,
                         v);
  });
}

/* One pass of an operator; NULL: not computed in that type. */
struct tn_cuda_lines_map {
  int32_t (*run[4])(const tn_lines_work *w); /* f32, f64, i32, i64 */
  const tn_lines_map *lines;
};

/* Launches every requested output. TN_OK, or a code with TN_FAIL. [worker] */
static inline int32_t tn_cuda_lines_run(const tn_frame *call,
                                        const tn_cuda_lines_map *map,
                                        const tn_lines_axes *axes) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_I32, TN_I64};
  tn_lines_work w;
  int32_t code = tn_lines_begin(&w, call, map->lines, axes);
  if (code == TN_OK) code = tn_lines_check_length(&w);
  if (code != TN_OK || w.requested == 0) return code;
  for (int c = 0; c < 4; ++c)
    if (types[c] == w.mode.compute && map->run[c] != NULL)
      return map->run[c](&w);
  return TN_FAIL(call, TN_DTYPE, "this kernel does not compute in %s",
                 tn_kernel_compute_name(w.mode.compute));
}

#endif /* TENON_KERNEL_LINES_CUH_ */
