/* SPDX-License-Identifier: Apache-2.0
 * draw.cu: draw.h on CUDA devices. Each thread makes two or four neighbouring
 * elements of one block of random words.
 */
#include "draw.h"
#include "tenon/kernel/philox.cuh"

enum { TO, OFFSET, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> random_arrays;

/* Argument of a CUDA kernel. */
struct random_view {
  int64_t n;
  tn_cuda_random random;
  draw_params params;
};

/* A struct for each distribution, which makes N numbers of C of a block. */
template <class C, int N>
struct random_numbers {
  typedef C type;
  enum { n = N };
  C at[N];
};

__device__ __forceinline__ uint64_t random_bits(const tn_kernel_bits &bits,
                                                int i) {
  return (uint64_t)bits.word[2 * i + 1] << 32 | bits.word[2 * i];
}

/* ----------------------------------------------------------------- uniform */

__device__ __forceinline__ void random_uniform_at(random_numbers<float, 4> *to,
                                                  const tn_kernel_bits &bits,
                                                  const draw_params &p) {
  const float last = (float)p.last;
  for (int i = 0; i < 4; ++i) {
    const float u = (float)(int32_t)(bits.word[i] >> p.shift) * (float)p.unit;
    const float y = fmaf(u, (float)p.range, (float)p.low);
    to->at[i] = y < last ? y : last;
  }
}

__device__ __forceinline__ void random_uniform_at(random_numbers<double, 2> *to,
                                                  const tn_kernel_bits &bits,
                                                  const draw_params &p) {
  for (int i = 0; i < 2; ++i) {
    const double u = (double)(int64_t)(random_bits(bits, i) >> 11) * 0x1p-53;
    const double y = fma(u, p.range, p.low);
    to->at[i] = y < p.last ? y : p.last;
  }
}

/* ----------------------------------------------------- normal, exponential */

/* In (0, 1], from all bits but one. */
__device__ __forceinline__ float random_above_zero(uint32_t word) {
  return (float)(int32_t)(word >> 1) * 0x1p-31f + 0x1p-32f;
}

__device__ __forceinline__ double random_above_zero(uint64_t bits) {
  return (double)(int64_t)(bits >> 12) * 0x1p-52 + 0x1p-53;
}

/* The lowest two bits of a word are quarters of a turn, the others an angle
 * between an eighth of a turn to either side. */
__device__ __forceinline__ void random_turn(uint32_t word, float *x, float *y) {
  const float angle = (float)((int32_t)word >> 2) * 0x1.921fb6p-30f;
  const uint32_t quarters = word & 3;
  const float s = sinf(angle), c = cosf(angle);
  *x = quarters & 1 ? s : c;
  *y = quarters & 1 ? c : s;
  if (quarters == 1 || quarters == 2) *x = -*x;
  if (quarters >= 2) *y = -*y;
}

__device__ __forceinline__ void random_normal_at(random_numbers<float, 4> *to,
                                                 const tn_kernel_bits &bits,
                                                 const draw_params &p) {
  for (int i = 0; i < 4; i += 2) {
    const float u = random_above_zero(bits.word[i]);
    const float r = (float)p.scale * sqrtf(-2 * logf(u));
    float x, y;
    random_turn(bits.word[i + 1], &x, &y);
    to->at[i] = (float)p.loc + r * x;
    to->at[i + 1] = (float)p.loc + r * y;
  }
}

__device__ __forceinline__ void random_normal_at(random_numbers<double, 2> *to,
                                                 const tn_kernel_bits &bits,
                                                 const draw_params &p) {
  const double u = random_above_zero(random_bits(bits, 0));
  const double r = p.scale * sqrt(-2 * log(u));
  const double turn = (double)(int64_t)random_bits(bits, 1) * 0x1p-63;
  const double angle = turn * 0x1.921fb54442d18p+1;
  to->at[0] = p.loc + r * cos(angle);
  to->at[1] = p.loc + r * sin(angle);
}

__device__ __forceinline__ void random_exponential_at(
    random_numbers<float, 4> *to, const tn_kernel_bits &bits,
    const draw_params &p) {
  for (int i = 0; i < 4; ++i)
    to->at[i] = (float)p.scale * -logf(random_above_zero(bits.word[i]));
}

__device__ __forceinline__ void random_exponential_at(
    random_numbers<double, 2> *to, const tn_kernel_bits &bits,
    const draw_params &p) {
  for (int i = 0; i < 2; ++i)
    to->at[i] = p.scale * -log(random_above_zero(random_bits(bits, i)));
}

/* ------------------------------------------------------------------- loops */

struct random_uniform_of {
  template <class To>
  __device__ static void make(To *to, const tn_kernel_bits &bits,
                              const draw_params &p) {
    random_uniform_at(to, bits, p);
  }
};

struct random_normal_of {
  template <class To>
  __device__ static void make(To *to, const tn_kernel_bits &bits,
                              const draw_params &p) {
    random_normal_at(to, bits, p);
  }
};

struct random_exponential_of {
  template <class To>
  __device__ static void make(To *to, const tn_kernel_bits &bits,
                              const draw_params &p) {
    random_exponential_at(to, bits, p);
  }
};

struct random_bernoulli_of {
  __device__ static void make(random_numbers<float, 4> *to,
                              const tn_kernel_bits &bits,
                              const draw_params &p) {
    for (int i = 0; i < 4; ++i)
      to->at[i] = (int64_t)bits.word[i] < p.limit ? 1.0f : 0.0f;
  }
};

struct random_randint_of {
  __device__ static void make(random_numbers<int64_t, 2> *to,
                              const tn_kernel_bits &bits,
                              const draw_params &p) {
    for (int i = 0; i < 2; ++i)
      to->at[i] =
          (int64_t)((uint64_t)p.least + __umul64hi(random_bits(bits, i), p.n));
  }
};

/* Adjacent elements of a block in memory. */
template <class T, int N>
struct alignas(N * sizeof(T)) random_pack {
  T at[N];
};

/* Writes the first `n` numbers; with one store if n is all of them. */
template <class Numbers>
struct random_writer {
  const Numbers *from;
  int64_t n;
  template <class T>
  __device__ __forceinline__ void operator()(T *to) const {
    typedef random_pack<T, Numbers::n> pack;
    pack all;
    for (int i = 0; i < Numbers::n; ++i)
      all.at[i] = tn_cuda_put(from->at[i], T());
    if (n >= Numbers::n && (uintptr_t)to % sizeof(pack) == 0) {
      *(pack *)to = all;
      return;
    }
    for (int i = 0; i < Numbers::n && i < n; ++i) to[i] = all.at[i];
  }
};

template <class Numbers, class Of>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_draw(random_arrays a, random_view v) {
  const int64_t blocks = (v.n + Numbers::n - 1) / Numbers::n;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t k = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; k < blocks; k += step) {
    Numbers numbers;
    Of::make(&numbers, tn_cuda_draw(v.random, a.at[OFFSET], (uint64_t)k),
             v.params);
    const random_writer<Numbers> writer = {&numbers, v.n - k * Numbers::n};
    tn_cuda_visit(a.at[TO].data, a.at[TO].dtype, k * Numbers::n, writer);
  }
}

/* -------------------------------------------------------------------- host */

template <class Numbers, class Of>
static int32_t start(const tn_frame *call, const random_arrays &a,
                     const random_view &v) {
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, random_draw<Numbers, Of>,
                              (v.n + Numbers::n - 1) / Numbers::n, stream, a,
                              v);
  });
}

template <class Of>
static int32_t start_float(const tn_frame *call, const random_arrays &a,
                           const random_view &v) {
  return a.at[TO].dtype == TN_F64
             ? start<random_numbers<double, 2>, Of>(call, a, v)
             : start<random_numbers<float, 4>, Of>(call, a, v);
}

int32_t draw(const tn_frame *call, draw_kind kind, const draw_params *params) {
  const tn_tensor *out = &call->out[0];
  random_view v;
  random_arrays a;
  v.n = tn_tensor_size(out);
  v.random = tn_cuda_random_of(call->run->random[0]);
  v.params = *params;
  a.at[TO] = tn_cuda_to(out, TN_REQ_WRITE);
  a.at[OFFSET] = tn_cuda_offset(call->run->random[0]);
  switch (kind) {
    case DRAW_UNIFORM:
      return start_float<random_uniform_of>(call, a, v);
    case DRAW_NORMAL:
      return start_float<random_normal_of>(call, a, v);
    case DRAW_EXPONENTIAL:
      return start_float<random_exponential_of>(call, a, v);
    case DRAW_BERNOULLI:
      return start<random_numbers<float, 4>, random_bernoulli_of>(call, a, v);
    default:
      return start<random_numbers<int64_t, 2>, random_randint_of>(call, a, v);
  }
}
